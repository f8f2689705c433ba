//! The bytes of a connection, as the library reads and writes them.
//!
//! The library has every frame of content written out by itself. Here frames are collected in a buffer of the thread, and
//! leave together when it is full or the turn is over ([`H2Socket::poll_leave`]). A connection keeps the buffer only while its
//! client does not take what is in it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Connection;
use super::watch::{Flood, Watch};
use crate::connection::ClientStream;
use crate::context::stats::Counter;
use crate::protocol::ProtocolThread;
use crate::protocol::buffers::BATCH_BYTES;

/// So much is read at once of a client that is new, or has just wasted our time: a few frames.
const WARY_BYTES: usize = 1024;

/// So many frames without use in half of that are no accident: the others of the thread come first, then.
const MUCH_WASTE: u32 = 6;

/// Both directions of a connection.
#[derive(Debug)]
pub(super) struct H2Socket {
    /// The socket.
    pub(super) stream: ClientStream,
    /// What came before anybody knew that it is HTTP/2.
    begun: Bytes,
    /// What the library has written and the socket has not taken, and how much of that has left.
    out: Vec<u8>,
    left: usize,
    /// What the client does.
    pub(super) watch: Watch,
    /// It does too much of something.
    pub(super) flood: Option<Flood>,
    /// Nothing is left to be read in this turn.
    is_dry: bool,
    /// Little is read at once: nothing has come yet, or not much of use.
    is_wary: bool,
    /// Bytes that have been read since that was found out.
    unjudged: usize,
    /// Nothing is read until the others of the thread have had their turn.
    pub(super) gives_way: bool,
    /// Some of what has been read in this turn had come before the handshake was over: somebody may have copied it.
    pub(super) early: bool,
    /// The same of what is no whole frame yet, or no whole head.
    torn_early: bool,
    /// When the client last took something, in ticks of the thread's clock.
    pub(super) moved: u64,
}

impl H2Socket {
    pub(super) fn new(stream: ClientStream, begun: Vec<u8>, watch: Watch) -> H2Socket {
        H2Socket {
            stream,
            begun: begun.into(),
            out: Vec::new(),
            left: 0,
            watch,
            flood: None,
            is_dry: false,
            is_wary: true,
            unjudged: 0,
            gives_way: false,
            early: false,
            torn_early: false,
            moved: 0,
        }
    }

    /// A new turn: there may be something to read again.
    pub(super) fn begin_turn(&mut self) {
        self.is_dry = false;
        self.early = self.torn_early;
    }

    /// Bytes that may be written before the next of them have to leave.
    pub(super) fn room(&self) -> usize {
        BATCH_BYTES.saturating_sub(self.out.len() - self.left)
    }

    /// Bytes that wait in it.
    pub(super) fn held(&self) -> u64 {
        (self.begun.len() + self.out.capacity()) as u64 + self.stream.held()
    }

    /// Whether the client has taken everything.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.stream.is_flushed()
    }

    fn poll_read(
        &mut self,
        thread: &ProtocolThread,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_dry || self.gives_way || self.flood.is_some() {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let most = if self.is_wary { WARY_BYTES } else { usize::MAX }.min(buffer.remaining());
        if self.begun.is_empty() {
            // Not into the library's buffer: all of that would have to be written to first.
            let mut input = thread.buffers.input.borrow_mut();
            let most = most.min(input.len());
            let Poll::Ready(read) = self.stream.poll_read(cx, &mut input[..most]) else {
                self.is_dry = true;
                return Poll::Pending;
            };
            let read = read?;
            buffer.put_slice(&input[..read]);
            thread.stats.add(Counter::BytesReceived, read as u64);
        } else {
            let some = self.begun.len().min(most);
            buffer.put_slice(&self.begun.split_to(some));
        }
        self.flood = self.watch.see(&buffer.filled()[before..], thread.clock.ticks()).err();
        let is_early = self.stream.is_early();
        self.early |= is_early;
        self.torn_early = (is_early || self.torn_early) && self.watch.is_torn();
        if self.flood.is_some() {
            // What has come of it is not even looked at.
            buffer.set_filled(before);
            return Poll::Pending;
        }
        self.judge(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }

    /// So many bytes have been read: is it worth to read more before the others have their turn?
    fn judge(&mut self, read: usize) {
        self.unjudged += read;
        if self.unjudged >= WARY_BYTES / 2 {
            self.unjudged = 0;
            self.is_wary = self.watch.take_wasted() >= MUCH_WASTE;
            self.gives_way = self.is_wary;
        }
    }

    fn poll_write(
        &mut self,
        thread: &ProtocolThread,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.room() == 0 {
            ready!(self.poll_leave(thread, cx))?;
        }
        if self.out.capacity() == 0 {
            self.out = thread.buffers.spare.take();
            self.out.clear();
        }
        pieces.iter().for_each(|piece| self.out.extend_from_slice(piece));
        let written = pieces.iter().map(|piece| piece.len()).sum();
        self.watch.wrote(written);
        Poll::Ready(Ok(written))
    }

    /// Ready when everything that was written has left.
    pub(super) fn poll_leave(
        &mut self,
        thread: &ProtocolThread,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.left < self.out.len() {
            let sent = ready!(self.stream.poll_write(cx, &[IoSlice::new(&self.out[self.left..])]))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            thread.stats.add(Counter::BytesSent, sent as u64);
            self.left += sent;
            self.moved = thread.clock.ticks();
        }
        if self.left > 0 {
            thread.buffers.keep_spare(std::mem::take(&mut self.out));
            self.left = 0;
        }
        self.stream.poll_flush(cx)
    }
}

/// The line, in the hands of the library.
#[derive(Debug)]
pub(super) struct Wire(pub(super) Rc<Connection>);

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut line = self.0.line();
        let gave_way = line.gives_way;
        let read = line.poll_read(&self.0.thread, cx, buffer);
        if line.gives_way && !gave_way {
            self.0.go_on_after_others();
        }
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.line().poll_write(&self.0.thread, cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.line().poll_write(&self.0.thread, cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Everything leaves when the turn is over.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// As the connection sees fit.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
