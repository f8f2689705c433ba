//! A request on its way to an application: the header section, then the content, from memory or a spooled file, as
//! fast as the application takes it.

use std::io;
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, ready};

use super::stream::AppStream;
use crate::message::request::Content;

/// Content of this length is copied behind the header section: one system call sends both.
const SHORT: usize = 16 << 10;
/// Bytes read from a file at once.
const PIECE: usize = 64 << 10;

/// What is still to be sent.
#[derive(Debug)]
pub struct Upload {
    buffer: Vec<u8>,
    sent: usize,
    content: Content,
    /// Bytes of the content that have been sent, or have entered the buffer.
    taken: u64,
    /// The application takes no more of it.
    is_cut: bool,
    /// Some of it may have arrived there.
    is_begun: bool,
}

impl Upload {
    /// The request with this header section and content.
    pub fn new(head: Vec<u8>, content: Content) -> Upload {
        let mut upload = Upload { buffer: head, sent: 0, content, taken: 0, is_cut: false, is_begun: false };
        if let Content::Memory(bytes) = &upload.content
            && bytes.len() <= SHORT
        {
            upload.buffer.extend_from_slice(bytes);
            upload.taken = bytes.len() as u64;
        }
        upload
    }

    /// Whether all of it has been sent.
    pub fn is_sent(&self) -> bool {
        !self.is_cut && self.sent == self.buffer.len() && self.taken == self.content.length()
    }

    /// A number that changes when some of it is sent.
    pub fn progress(&self) -> (u64, usize) {
        (self.taken, self.sent)
    }

    /// Whether some of it may have arrived there.
    pub fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// The content, for another attempt; and the buffer.
    pub fn into_parts(self) -> (Vec<u8>, Content) {
        (self.buffer, self.content)
    }

    /// Sends as much as the socket takes; ready when nothing is left to send. If the application takes no more of it, it
    /// may still respond.
    ///
    /// # Errors
    /// The spooled file can't be read.
    pub fn poll_send(&mut self, cx: &mut Context<'_>, stream: &mut AppStream) -> Poll<io::Result<()>> {
        while !self.is_cut {
            if self.sent == self.buffer.len() {
                if self.taken == self.content.length() {
                    if let Err(_gone) = ready!(stream.poll_flush(cx)) {
                        self.is_cut = true;
                    }
                    break;
                }
                self.next_piece()?;
            }
            match ready!(stream.poll_write(cx, &self.buffer[self.sent..])) {
                Ok(written @ 1..) => {
                    self.sent += written;
                    self.is_begun = true;
                }
                Ok(0) | Err(_) => self.is_cut = true,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn next_piece(&mut self) -> io::Result<()> {
        let length = (self.content.length() - self.taken).min(PIECE as u64) as usize;
        self.buffer.clear();
        self.sent = 0;
        match &self.content {
            Content::Empty => {}
            Content::Memory(bytes) => {
                let at = self.taken as usize;
                self.buffer.extend_from_slice(&bytes[at..at + length]);
            }
            Content::Spooled { file, .. } => {
                self.buffer.resize(length, 0);
                file.read_exact_at(&mut self.buffer, self.taken)?;
            }
        }
        self.taken += length as u64;
        Ok(())
    }
}
