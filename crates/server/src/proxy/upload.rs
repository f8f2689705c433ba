//! A request on its way to an application: the header section, then the content, from memory or a spooled file, as
//! fast as the application takes it.

use std::cell::RefCell;
use std::io;
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, ready};

use super::stream::AppStream;
use crate::message::request::Content;

/// Content of this length is copied behind the header section: one system call sends both.
const SHORT: usize = 16 << 10;
/// Bytes read from a file at once.
const PIECE: usize = 64 << 10;

/// A larger buffer is not kept.
const BUFFER_KEEP: usize = 64 << 10;

thread_local! {
    /// For header sections; taken while a request is sent.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The thread's buffer for a header section, empty.
pub fn spare_buffer() -> Vec<u8> {
    let mut buffer = BUFFER.take();
    buffer.clear();
    buffer
}

/// What is still to be sent.
#[derive(Debug)]
pub struct AppUpload {
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

impl AppUpload {
    /// The request with this header section and content.
    pub fn new(head: Vec<u8>, content: Content) -> AppUpload {
        let mut upload =
            AppUpload { buffer: head, sent: 0, content, taken: 0, is_cut: false, is_begun: false };
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
        self.sent = 0;
        self.buffer.resize(length, 0);
        read_piece(&self.content, self.taken, &mut self.buffer)?;
        self.taken += length as u64;
        Ok(())
    }
}

/// Keeps the buffer for the next request; returns the content.
pub fn keep_buffer(upload: AppUpload) -> Content {
    if upload.buffer.capacity() <= BUFFER_KEEP {
        BUFFER.set(upload.buffer);
    }
    upload.content
}

/// Fills `piece` with content from `at` on, which has so many bytes.
///
/// # Errors
/// The spooled file can't be read.
pub fn read_piece(content: &Content, at: u64, piece: &mut [u8]) -> io::Result<()> {
    match content {
        Content::Empty => Ok(()),
        Content::Memory(bytes) => {
            let at = at as usize;
            piece.copy_from_slice(&bytes[at..at + piece.len()]);
            Ok(())
        }
        Content::Spooled { file, .. } => file.read_exact_at(piece, at),
    }
}
