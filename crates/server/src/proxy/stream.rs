//! The socket of a connection to an application: TCP, Unix, or TCP with TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::net::{RecvFlags, SendFlags, Shutdown};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::tls::OutgoingTls;
use millrace_base::context::poll_receive;

/// A socket.
#[derive(Debug)]
pub enum AppStream {
    /// TCP
    Tcp(TcpStream),
    /// Unix
    Unix(UnixStream),
    /// TCP with TLS: reads and writes plaintext
    Tls(Box<OutgoingTls>),
}

impl AppStream {
    /// Reads once; 0: the end.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            AppStream::Tcp(socket) => poll_receive(socket, cx, buffer),
            AppStream::Tls(stream) => stream.poll_read(cx, buffer),
            AppStream::Unix(socket) => {
                let mut buffer = ReadBuf::new(buffer);
                Pin::new(socket).poll_read(cx, &mut buffer).map_ok(|()| buffer.filled().len())
            }
        }
    }

    /// Writes once.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            AppStream::Tcp(socket) => loop {
                // Usually there is room: asking tokio first would cost more than the call.
                match socket.try_io(tokio::io::Interest::WRITABLE, || {
                    Ok(rustix::net::send(&*socket, bytes, SendFlags::NOSIGNAL)?)
                }) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        std::task::ready!(socket.poll_write_ready(cx))?;
                    }
                    written => return Poll::Ready(written),
                }
            },
            AppStream::Unix(socket) => Pin::new(socket).poll_write(cx, bytes),
            AppStream::Tls(stream) => stream.poll_write(cx, bytes),
        }
    }

    /// Sends written data that is still buffered.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            AppStream::Tls(stream) => stream.poll_flush(cx),
            AppStream::Tcp(_) | AppStream::Unix(_) => Poll::Ready(Ok(())),
        }
    }

    /// Says that nothing more is written; with TLS, once that is flushed. An error means that the connection has ended.
    pub fn end(&mut self) {
        let _ = match self {
            AppStream::Tcp(socket) => rustix::net::shutdown(socket, Shutdown::Write),
            AppStream::Unix(socket) => rustix::net::shutdown(socket, Shutdown::Write),
            AppStream::Tls(stream) => return stream.say_end(),
        };
    }

    /// Whether nothing has arrived since the last response: neither the end, nor a response that was not asked for.
    pub fn is_alive(&mut self) -> bool {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        let seen = match self {
            AppStream::Tcp(socket) => rustix::net::recv(socket, &mut [0; 1][..], flags),
            AppStream::Unix(socket) => rustix::net::recv(socket, &mut [0; 1][..], flags),
            AppStream::Tls(stream) => return stream.is_alive(),
        };
        seen.is_err_and(|error| error == rustix::io::Errno::AGAIN)
    }
}
