//! Sends the content of a request to the backend, from memory or a spooled file, as fast as the backend takes it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, ready};

use millrace_wire::fastcgi::{CONTENT_MAX, HEADER_BYTES, stdin_header};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::connection::WatchedSocket;
use crate::worker::watch;
use millrace_base::message::request::Content;

/// Content of a record: with its header a whole number of pages.
const PIECE: usize = (64 << 10) - HEADER_BYTES;
const _: () = assert!(PIECE <= CONTENT_MAX);

/// What is still to be sent.
#[derive(Debug, Default)]
pub struct Input {
    /// The bytes before the content, then each piece with its header.
    buffer: Vec<u8>,
    /// Bytes of the buffer that have been sent.
    sent: usize,
    /// Bytes of the content that entered the buffer.
    taken: u64,
    /// The end of the content is in the buffer, or has been sent.
    ended: bool,
    /// The socket, watched for writing, after it has been full once.
    writable: Option<AsyncFd<OwnedFd>>,
}

impl Input {
    /// Nothing to send.
    pub fn none() -> Input {
        Input { ended: true, ..Input::default() }
    }

    /// Sends `first`, the rest of what precedes the content, and then all of the content.
    pub fn after(first: Vec<u8>) -> Input {
        Input { buffer: first, ..Input::default() }
    }

    /// Sends `last`, which includes the end of the content.
    pub fn last(last: Vec<u8>) -> Input {
        Input { buffer: last, ended: true, ..Input::default() }
    }

    /// Whether all has been sent.
    pub fn is_sent(&self) -> bool {
        self.ended && self.sent == self.buffer.len()
    }

    /// Sends as much as the socket takes; ready when all has been sent.
    ///
    /// # Errors
    /// The other end has gone, the loop can't watch the socket, or the spooled file can't be read.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        socket: &WatchedSocket,
        content: &Content,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.sent == self.buffer.len() {
                if self.ended {
                    return Poll::Ready(Ok(()));
                }
                self.next_piece(content)?;
            }
            let sent = socket.send_now(&self.buffer[self.sent..])?;
            self.sent += sent;
            if sent == 0 {
                let writable = match &mut self.writable {
                    Some(writable) => writable,
                    none => none.insert(watch(socket.as_fd().try_clone_to_owned()?, Interest::WRITABLE)?),
                };
                ready!(writable.poll_write_ready(cx))?.clear_ready();
            }
        }
    }

    fn next_piece(&mut self, content: &Content) -> io::Result<()> {
        let left = content.length() - self.taken;
        let length = left.min(PIECE as u64) as usize;
        self.buffer.clear();
        self.sent = 0;
        self.buffer.extend_from_slice(&stdin_header(length));
        let at = self.taken as usize;
        match content {
            Content::Empty => {}
            Content::Memory(bytes) => self.buffer.extend_from_slice(&bytes[at..at + length]),
            Content::Spooled { file, .. } => {
                self.buffer.resize(HEADER_BYTES + length, 0);
                file.read_exact_at(&mut self.buffer[HEADER_BYTES..], self.taken)?;
            }
        }
        self.taken += length as u64;
        self.ended = length == 0;
        if left > 0 && left == length as u64 {
            self.buffer.extend_from_slice(&stdin_header(0));
            self.ended = true;
        }
        Ok(())
    }
}
