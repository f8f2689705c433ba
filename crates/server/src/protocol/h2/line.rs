//! The bytes of a connection, as the library reads and writes them.
//!
//! The library flushes every DATA frame separately. Here frames are collected in a buffer of the thread, and are sent
//! together when it is full or the turn is over ([`H2Socket::poll_leave`]). A connection keeps the buffer only while
//! its client does not take its content.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Connection;
use super::watch::{Flood, Watch};
use crate::connection::ClientStream;
use crate::protocol::ProtocolThread;
use crate::protocol::buffers::BATCH_BYTES;
use millrace_base::context::stats::Counter;

/// Bytes read at once from a client that is new, or has just sent useless frames: a few frames.
const WARY_BYTES: usize = 1024;

/// This many useless frames in half of these bytes are no accident: then other connections of the thread go first.
const MUCH_WASTE: u32 = 6;

/// Both directions of a connection.
#[derive(Debug)]
pub(super) struct H2Socket {
    /// The socket.
    pub(super) stream: ClientStream,
    /// Bytes that were read before the protocol was known.
    begun: Bytes,
    /// Bytes that the library has written and the socket has not taken, and how many of them have been sent.
    out: Vec<u8>,
    left: usize,
    /// Observes the client's frames.
    pub(super) watch: Watch,
    /// The flood that was found.
    pub(super) flood: Option<Flood>,
    /// Nothing is left to read in this turn.
    is_dry: bool,
    /// Small reads: nothing, or little of use, has arrived yet.
    is_wary: bool,
    /// Bytes read since the last judgement.
    unjudged: usize,
    /// Nothing is read until other connections of the thread have had their turn.
    pub(super) gives_way: bool,
    /// Some of this turn's input is early data: it may be a replay.
    pub(super) early: bool,
    /// The same for an incomplete frame or head.
    torn_early: bool,
    /// When the client last took bytes, in ticks of the thread's clock.
    pub(super) moved: u64,
    /// When the client last sent something.
    pub(super) heard: u64,
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
            heard: 0,
        }
    }

    /// Starts a new turn: there may be something to read again.
    pub(super) fn begin_turn(&mut self) {
        self.is_dry = false;
        self.early = self.torn_early;
    }

    /// Bytes that may be written before some must be sent.
    pub(super) fn room(&self) -> usize {
        BATCH_BYTES.saturating_sub(self.out.len() - self.left)
    }

    /// Bytes waiting in the buffer.
    pub(super) fn held(&self) -> u64 {
        (self.begun.len() + self.out.capacity()) as u64 + self.stream.held()
    }

    /// Whether all bytes have been sent.
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
            // Not into the library's buffer, which would have to be zeroed first.
            let mut input = thread.buffers.input.borrow_mut();
            let most = most.min(input.len());
            let Poll::Ready(read) = self.stream.poll_read(cx, &mut input[..most]) else {
                self.is_dry = true;
                return Poll::Pending;
            };
            let read = read?;
            buffer.put_slice(&input[..read]);
            thread.context.stats.add(Counter::BytesReceived, read as u64);
        } else {
            let some = self.begun.len().min(most);
            buffer.put_slice(&self.begun.split_to(some));
        }
        self.heard = thread.context.clock.ticks();
        self.flood = self.watch.see(&buffer.filled()[before..], self.heard).err();
        let is_early = self.stream.is_early();
        self.early |= is_early;
        self.torn_early = (is_early || self.torn_early) && self.watch.is_torn();
        if self.flood.is_some() {
            // The received bytes are not even parsed.
            buffer.set_filled(before);
            return Poll::Pending;
        }
        self.judge(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }

    /// After `read` more bytes: decides whether to read more before other connections have their turn.
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

    /// Ready when everything that was written has been sent.
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
            thread.context.stats.add(Counter::BytesSent, sent as u64);
            self.left += sent;
            self.moved = thread.context.clock.ticks();
        }
        if self.left > 0 {
            thread.buffers.keep_spare(std::mem::take(&mut self.out));
            self.left = 0;
        }
        self.stream.poll_flush(cx)
    }
}

/// The socket, as the library uses it.
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

    /// Everything is sent when the turn is over.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The connection decides when to shut down.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
