//! A client connection's socket - TCP, Unix or encrypted TCP - with only the calls that the event loop makes.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

#[cfg(test)]
use super::memory::MemorySocket;
use crate::tls::TlsStream;
use millrace_base::context::poll_receive;

/// A client's socket.
#[derive(Debug)]
pub enum ClientStream {
    /// TCP
    Tcp(TcpStream),
    /// Unix
    Unix(UnixStream),
    /// TCP with TLS: reads and writes plaintext
    Tls(Box<TlsStream>),
    /// In memory
    #[cfg(test)]
    Memory(MemorySocket),
}

impl ClientStream {
    /// Reads once. A read that does not fill `buffer` has emptied the socket and needs no second system call.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            ClientStream::Tcp(s) => poll_receive(s, cx, buffer),
            ClientStream::Tls(s) => s.poll_read(cx, buffer),
            ClientStream::Unix(s) => {
                let mut buffer = ReadBuf::new(buffer);
                ready!(Pin::new(s).poll_read(cx, &mut buffer))?;
                Poll::Ready(Ok(buffer.filled().len()))
            }
            #[cfg(test)]
            ClientStream::Memory(s) => s.poll_read(cx, buffer),
        }
    }

    /// Ready when the other side has ended the connection, or its half of it. Stays pending while unread data is
    /// available; and for a Unix socket, which tokio can't query without a long borrow: if a proxy abandons its
    /// request, the server notices when it sends the response.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let socket = match self {
            ClientStream::Tcp(socket) => &*socket,
            ClientStream::Tls(stream) => return stream.poll_gone(cx),
            ClientStream::Unix(_) => return Poll::Pending,
            #[cfg(test)]
            ClientStream::Memory(memory) => return memory.poll_gone(cx),
        };
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
            (ClientStream::Unix(s), _) => Pin::new(s).poll_write_vectored(cx, pieces),
            (ClientStream::Tls(s), _) => s.poll_write(cx, pieces),
            #[cfg(test)]
            (ClientStream::Memory(s), _) => s.poll_write(cx, pieces),
            (tcp, [one]) => tcp.poll_write_with(cx, |s| Ok(rustix::net::send(s, one, SendFlags::NOSIGNAL)?)),
            (tcp, _) => tcp.poll_write_with(cx, |s| Ok(rustix::io::writev(s, pieces)?)),
        }
    }

    /// Writes what fits without waiting.
    pub fn try_write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match (self, pieces) {
            (ClientStream::Unix(s), _) => s.try_write_vectored(pieces),
            (ClientStream::Tls(s), _) => s.try_write(pieces),
            #[cfg(test)]
            (ClientStream::Memory(s), _) => s.try_write(pieces),
            (ClientStream::Tcp(s), [one]) => {
                s.try_io(Interest::WRITABLE, || Ok(rustix::net::send(&*s, one, SendFlags::NOSIGNAL)?))
            }
            (ClientStream::Tcp(s), _) => {
                s.try_io(Interest::WRITABLE, || Ok(rustix::io::writev(&*s, pieces)?))
            }
        }
    }

    /// Whether the last read returned early data, which may be a replay.
    pub fn is_early(&self) -> bool {
        matches!(self, ClientStream::Tls(s) if s.is_early())
    }

    /// Whether sendfile works on it.
    pub fn sends_files(&self) -> bool {
        match self {
            ClientStream::Tcp(_) | ClientStream::Unix(_) => true,
            ClientStream::Tls(s) => s.is_in_kernel(),
            #[cfg(test)]
            ClientStream::Memory(_) => false,
        }
    }

    /// Switches to encryption by the kernel, if available; returns whether it did. All written data must have been
    /// sent.
    ///
    /// # Errors
    /// The connection is unusable.
    pub fn go_to_kernel(&mut self) -> io::Result<bool> {
        if let ClientStream::Tls(s) = self { s.go_to_kernel() } else { Ok(false) }
    }

    /// Whether its keys have encrypted so much that it should not be kept alive.
    pub fn is_worn(&self) -> bool {
        matches!(self, ClientStream::Tls(s) if s.is_worn())
    }

    /// Sends written data that is still buffered.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            ClientStream::Tls(s) => s.poll_flush(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Bytes buffered in it: by the kernel in both directions, and with TLS its own.
    pub fn held(&self) -> u64 {
        let kernel =
            millrace_sys::socket_memory(self.as_fd()).map_or(0, |memory| memory.sending + memory.receiving);
        match self {
            ClientStream::Tls(s) => kernel + s.held(),
            _ => kernel,
        }
    }

    /// Whether all written data has been sent.
    pub fn is_flushed(&self) -> bool {
        match self {
            ClientStream::Tls(s) => s.is_flushed(),
            _ => true,
        }
    }

    /// Announces the end of data, if the protocol has a message for that.
    pub fn say_end(&mut self) {
        if let ClientStream::Tls(s) = self {
            s.say_end();
        }
    }

    /// Shuts down one direction, or both: waiting tasks find the socket closed. Returns whether it was open.
    pub fn shut(&self, how: Shutdown) -> bool {
        match self {
            #[cfg(test)]
            ClientStream::Memory(memory) => memory.shut(how),
            _ => socket2::SockRef::from(self).shutdown(how).is_ok(),
        }
    }

    /// Drops unsent data from the kernel's memory when the socket is closed.
    pub fn give_up_unsent(&self) {
        match self {
            #[cfg(test)]
            ClientStream::Memory(memory) => memory.give_up_unsent(),
            // If this fails, it is dropped a little later.
            _ => drop(socket2::SockRef::from(self).set_linger(Some(Duration::ZERO))),
        }
    }

    /// Runs a system call that writes to the socket, when the socket has room; only if it [sends
    /// files](Self::sends_files).
    pub fn poll_write_with(
        &mut self,
        cx: &mut Context<'_>,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let result = match self {
                ClientStream::Tcp(s) => {
                    ready!(s.poll_write_ready(cx))?;
                    s.try_io(Interest::WRITABLE, || call(s.as_fd()))
                }
                ClientStream::Unix(s) => {
                    // Unix sockets have no poll_write_ready; waiting for writability does the same.
                    let mut writable = std::pin::pin!(s.writable());
                    ready!(writable.as_mut().poll(cx))?;
                    s.try_io(Interest::WRITABLE, || call(s.as_fd()))
                }
                ClientStream::Tls(s) => return s.poll_send(cx, call),
                #[cfg(test)]
                ClientStream::Memory(_) => unreachable!("it sends no files"),
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

impl AsFd for ClientStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ClientStream::Tcp(s) => s.as_fd(),
            ClientStream::Unix(s) => s.as_fd(),
            ClientStream::Tls(s) => s.as_fd(),
            #[cfg(test)]
            ClientStream::Memory(s) => s.as_fd(),
        }
    }
}
