//! A client connection's socket, TCP or Unix, with only the calls that the event loop makes.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendFlags};
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
        match self {
            Stream::Tcp(s) => poll_receive(s, cx, buffer),
            Stream::Unix(s) => {
                let mut buffer = ReadBuf::new(buffer);
                ready!(Pin::new(s).poll_read(cx, &mut buffer))?;
                Poll::Ready(Ok(buffer.filled().len()))
            }
        }
    }

    /// Ready when the other side has ended the connection, or its half of it. Stays pending if there is something to read,
    /// which has to be read first; and for a Unix socket, which tokio can't be asked about without a borrow that lasts: a
    /// proxy that lets go of its request is noticed when the answer is written.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Stream::Tcp(socket) = self else { return Poll::Pending };
        loop {
            if ready!(socket.poll_read_ready(cx)).is_err() {
                return Poll::Ready(());
            }
            let seen = socket.try_io(Interest::READABLE, || {
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                Ok(rustix::net::recv(socket, &mut [0u8; 1][..], flags).map(|(_, length)| length)?)
            });
            match seen {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(1..) => return Poll::Pending,
                _ => return Poll::Ready(()),
            }
        }
    }

    /// Writes once.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match (self, pieces) {
            (Stream::Unix(s), _) => Pin::new(s).poll_write_vectored(cx, pieces),
            (tcp, [one]) => tcp.poll_write_with(cx, |s| Ok(rustix::net::send(s, one, SendFlags::NOSIGNAL)?)),
            (tcp, _) => tcp.poll_write_with(cx, |s| Ok(rustix::io::writev(s, pieces)?)),
        }
    }

    /// Writes what fits without waiting.
    pub fn try_write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match (self, pieces) {
            (Stream::Unix(s), _) => s.try_write_vectored(pieces),
            (Stream::Tcp(s), [one]) => {
                s.try_io(Interest::WRITABLE, || Ok(rustix::net::send(s, one, SendFlags::NOSIGNAL)?))
            }
            (Stream::Tcp(s), _) => s.try_io(Interest::WRITABLE, || Ok(rustix::io::writev(s, pieces)?)),
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

/// What `TcpStream::poll_read` does, by a system call of rustix: the C library's makes itself a cancellation point on
/// each call, which a process with threads pays for.
fn poll_receive(socket: &TcpStream, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
    loop {
        ready!(socket.poll_read_ready(cx))?;
        let mut short = None;
        let read = socket.try_io(Interest::READABLE, || {
            let (_, read) = rustix::net::recv(socket, &mut *buffer, RecvFlags::empty())?;
            if read == 0 || read == buffer.len() {
                return Ok(read);
            }
            // Nothing is left: tokio learns it here, and need not find out by a read that fails.
            short = Some(read);
            Err(io::ErrorKind::WouldBlock.into())
        });
        match (short, read) {
            (Some(read), _) => return Poll::Ready(Ok(read)),
            (None, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
            (None, read) => return Poll::Ready(read),
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
