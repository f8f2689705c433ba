//! An encrypted connection to an application, for event loops. Unlike a client's connection it has buffers of its own:
//! there are few of them, and the library needs them.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};

use rustix::net::RecvFlags;
use rustls::ClientConnection;
use tokio::net::TcpStream;

use super::client::HTTP2;
use millrace_base::context::poll_receive;

/// Bytes of a record with its overhead: the library takes one at a time.
const RECORD_BYTES: usize = 17 << 10;

/// A connection whose handshake is complete, or in progress.
pub struct OutgoingTls {
    socket: TcpStream,
    session: ClientConnection,
    /// Received bytes from `at` on that the session has not taken.
    raw: Vec<u8>,
    at: usize,
}

impl fmt::Debug for OutgoingTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OutgoingTls")
    }
}

impl OutgoingTls {
    /// A connection that begins its handshake when it is driven.
    pub(super) fn new(session: ClientConnection, socket: TcpStream) -> OutgoingTls {
        OutgoingTls { socket, session, raw: Vec::new(), at: 0 }
    }

    /// Ready when the handshake is complete.
    ///
    /// # Errors
    /// The other end has no valid certificate for the name, or the connection ended.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_flush(cx))?;
            if !self.session.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_take(cx))?;
        }
    }

    /// Whether the other end has agreed to HTTP/2, after the handshake.
    pub fn speaks_http2(&self) -> bool {
        self.session.alpn_protocol() == Some(HTTP2)
    }

    /// Reads plaintext once; 0: the other end has said that nothing follows.
    ///
    /// # Errors
    /// The connection ended without that, or the records are invalid.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
            ready!(self.poll_take(cx))?;
        }
    }

    /// Writes plaintext, as much as the session buffers.
    ///
    /// # Errors
    /// The connection ended.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let taken = self.session.writer().write(bytes)?;
            let flushed = self.poll_flush(cx)?;
            if taken > 0 || bytes.is_empty() {
                return Poll::Ready(Ok(taken));
            }
            ready!(flushed);
        }
    }

    /// Sends what the session has buffered.
    ///
    /// # Errors
    /// The connection ended.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            ready!(self.socket.poll_write_ready(cx))?;
            match self.session.write_tls(&mut Direct(&self.socket)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(_) => {}
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Says that nothing follows.
    pub fn say_end(&mut self) {
        self.session.send_close_notify();
    }

    /// Whether it can take a request: nothing but records of the session's own has arrived since it became idle.
    pub fn is_alive(&mut self) -> bool {
        let mut buffer = [0; RECORD_BYTES];
        loop {
            match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Err(rustix::io::Errno::AGAIN) => return true,
                Err(_) | Ok((_, 0)) => return false,
                Ok((_, read)) => {
                    self.raw.drain(..self.at);
                    self.at = 0;
                    self.raw.extend_from_slice(&buffer[..read]);
                }
            }
            while self.at < self.raw.len() {
                if self.feed().is_err() {
                    return false;
                }
            }
            let read = self.session.reader().read(&mut [0; 1]);
            if !read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                return false;
            }
        }
    }

    /// Gives the session more bytes.
    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.at == self.raw.len() {
            self.raw.resize(RECORD_BYTES, 0);
            let read = poll_receive(&self.socket, cx, &mut self.raw);
            self.raw.truncate(if let Poll::Ready(Ok(read)) = read { read } else { 0 });
            self.at = 0;
            if ready!(read)? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Poll::Ready(self.feed())
    }

    fn feed(&mut self) -> io::Result<()> {
        self.at += self.session.read_tls(&mut &self.raw[self.at..])?;
        match self.session.process_new_packets() {
            Ok(_) => Ok(()),
            Err(error) => {
                // The alert tells the other end why; it may be gone.
                let _ = self.session.write_tls(&mut Direct(&self.socket));
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
        }
    }
}

impl AsFd for OutgoingTls {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Writes to a socket without waiting.
struct Direct<'a>(&'a TcpStream);

impl Write for Direct<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
