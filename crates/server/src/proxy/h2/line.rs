//! The socket of a link, as the library reads and writes it.
//!
//! What the library writes is collected, and sent together when the turn is over or the buffer is full. A turn reads
//! only so much: other connections of the thread need their turn, and streams take what has arrived.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use millrace_wire::http2::{FramePart, FrameWalker, flag, kind};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::proxy::exchange::with_input;
use crate::proxy::stream::AppStream;

/// Bytes read in a turn.
const TURN_BYTES: usize = 256 << 10;
/// Header sections in a turn, about: compressed ones become long, and stay in memory until their streams take them.
const TURN_HEADS: usize = 32;
/// Bytes that wait to be sent before the library has to wait.
const OUT_BYTES: usize = 64 << 10;
/// Streams whose end is remembered.
const MOST_ENDED: usize = 256;

/// The socket: the library has one half of it, the link the other.
#[derive(Clone, Debug)]
pub(super) struct AppLine(Rc<RefCell<LineState>>);

#[derive(Debug)]
struct LineState {
    /// `None`: it has been closed.
    stream: Option<AppStream>,
    /// Bytes that the library has written, and how many of them have been sent.
    out: Vec<u8>,
    sent: usize,
    /// Bytes that may still be read in this turn.
    left: usize,
    watch: AppWatch,
    /// Number of reads that brought something.
    reads: u64,
}

impl AppLine {
    pub(super) fn new(stream: AppStream) -> AppLine {
        let (out, sent, left, watch, reads) = Default::default();
        AppLine(Rc::new(RefCell::new(LineState { stream: Some(stream), out, sent, left, watch, reads })))
    }

    /// Starts a new turn.
    pub(super) fn begin_turn(&self) {
        let mut line = self.0.borrow_mut();
        line.left = TURN_BYTES;
        line.watch.heads = 0;
    }

    /// A number that changes when something arrives.
    pub(super) fn reads(&self) -> u64 {
        self.0.borrow().reads
    }

    /// Whether the application has ended its half of this stream; known for a while.
    pub(super) fn has_ended(&self, stream: u32) -> bool {
        self.0.borrow().watch.ended.contains(&stream)
    }

    /// Whether it has responded in HTTP/1.
    pub(super) fn is_http1(&self) -> bool {
        self.0.borrow().watch.start == *HTTP1
    }

    /// Whether the library has to wait until something has been sent.
    pub(super) fn is_full(&self) -> bool {
        self.0.borrow().is_full()
    }

    /// Closes the socket.
    pub(super) fn close(&self) {
        if let Some(mut stream) = self.0.borrow_mut().stream.take() {
            stream.end();
            let _ = stream.poll_flush(&mut Context::from_waker(Waker::noop()));
        }
    }

    /// Ready when everything that was written has been sent.
    pub(super) fn poll_leave(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_leave(cx)
    }
}

impl LineState {
    fn is_full(&self) -> bool {
        self.out.len() - self.sent >= OUT_BYTES
    }

    fn poll_leave(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(Err(closed())) };
        while self.sent < self.out.len() {
            match ready!(stream.poll_write(cx, &self.out[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
        }
        self.out.clear();
        self.out.shrink_to(OUT_BYTES);
        self.sent = 0;
        stream.poll_flush(cx)
    }
}

fn closed() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl AsyncRead for AppLine {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let line = &mut *self.0.borrow_mut();
        if line.left == 0 || line.watch.heads >= TURN_HEADS {
            // The next turn comes after those of others.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(stream) = &mut line.stream else { return Poll::Ready(Err(closed())) };
        // Not into the library's buffer, which would have to be zeroed first.
        with_input(|input| {
            let most = buffer.remaining().min(line.left).min(input.len());
            let read = ready!(stream.poll_read(cx, &mut input[..most]))?;
            buffer.put_slice(&input[..read]);
            line.left -= read;
            line.reads += u64::from(read > 0);
            line.watch.see(&input[..read]);
            Poll::Ready(Ok(()))
        })
    }
}

impl AsyncWrite for AppLine {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut line = self.0.borrow_mut();
        if line.is_full() {
            ready!(line.poll_leave(cx))?;
        }
        line.out.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    /// Everything is sent when the turn is over.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The link decides when to close.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// How an application begins that speaks HTTP/1 only.
const HTTP1: &[u8; 5] = b"HTTP/";

/// Sees in an application's frames what the library does not report.
#[derive(Debug, Default)]
struct AppWatch {
    walker: FrameWalker,
    /// The first bytes, and how many there are.
    start: [u8; 5],
    started: usize,
    /// Header sections since the turn began.
    heads: usize,
    /// The streams that have ended last.
    ended: VecDeque<u32>,
}

impl AppWatch {
    fn see(&mut self, bytes: &[u8]) {
        let more = (self.start.len() - self.started).min(bytes.len());
        self.start[self.started..self.started + more].copy_from_slice(&bytes[..more]);
        self.started += more;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (taken, part) = self.walker.walk(rest);
            rest = &rest[taken..];
            let Some(FramePart::Head(head)) = part else { continue };
            self.heads += usize::from(head.kind == kind::HEADERS);
            if matches!(head.kind, kind::HEADERS | kind::DATA) && head.flags & flag::END_STREAM != 0 {
                if self.ended.len() == MOST_ENDED {
                    self.ended.pop_front();
                }
                self.ended.push_back(head.stream);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_streams_and_header_sections_are_seen() {
        let mut watch = AppWatch::default();
        let frames = b"\0\0\x01\x01\x04\0\0\0\x01x\0\0\x01\0\x01\0\0\0\x01x\0\0\x01\x01\x05\0\0\0\x03x\0\0\0\x04\x01\0\0\0\0";
        frames.chunks(4).for_each(|piece| watch.see(piece));
        assert_eq!((watch.heads, watch.ended.make_contiguous()), (2, &mut [1, 3][..]));
        assert!(watch.start != *HTTP1);
        let many: Vec<u8> =
            (0..300u16).flat_map(|id| [0, 0, 0, 0, 1, 0, 0, (id >> 8) as u8, id as u8]).collect();
        watch.see(&many);
        assert_eq!(
            (watch.ended.len(), watch.ended.contains(&299), watch.ended.contains(&1)),
            (256, true, false)
        );
        let mut other = AppWatch::default();
        b"HTTP/1.1 400 Bad Request\r\n\r\n".chunks(2).for_each(|piece| other.see(piece));
        assert_eq!(other.start, *HTTP1);
    }
}
