//! A client connection's socket, TCP or Unix, with only the calls that the event loop makes.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A client's socket.
#[derive(Debug)]
pub enum Stream {
    /// TCP
    Tcp(TcpStream),
    /// Unix
    Unix(UnixStream),
}

impl Stream {
    /// Reads once. A read that does not fill `buffer` has emptied the socket and costs no second system call.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(match self {
            Stream::Tcp(s) => Pin::new(s).poll_read(cx, &mut buffer),
            Stream::Unix(s) => Pin::new(s).poll_read(cx, &mut buffer),
        })?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Writes once.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match (self, pieces) {
            (Stream::Tcp(s), [one]) => Pin::new(s).poll_write(cx, one),
            (Stream::Tcp(s), _) => Pin::new(s).poll_write_vectored(cx, pieces),
            (Stream::Unix(s), _) => Pin::new(s).poll_write_vectored(cx, pieces),
        }
    }

    /// Writes what fits without waiting.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.try_write(bytes),
            Stream::Unix(s) => s.try_write(bytes),
        }
    }

    /// Runs a system call that writes to the socket, when the socket can take something.
    pub fn poll_write_with<T>(
        &self,
        cx: &mut Context<'_>,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            let result = match self {
                Stream::Tcp(s) => {
                    ready!(s.poll_write_ready(cx))?;
                    s.try_io(Interest::WRITABLE, || call(s.as_fd()))
                }
                Stream::Unix(s) => {
                    // A Unix socket has no poll_write_ready; an empty wait is the same.
                    let mut writable = std::pin::pin!(s.writable());
                    ready!(writable.as_mut().poll(cx))?;
                    s.try_io(Interest::WRITABLE, || call(s.as_fd()))
                }
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(s) => s.as_fd(),
            Stream::Unix(s) => s.as_fd(),
        }
    }
}
