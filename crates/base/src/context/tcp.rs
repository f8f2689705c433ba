//! Calls on a TCP socket.

use std::io;
use std::task::{Context, Poll, ready};

use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Like `TcpStream::poll_read`, but with rustix's system call: the C library's function is a cancellation point,
/// which costs time on each call in a process with threads.
pub fn poll_receive(socket: &TcpStream, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
    loop {
        ready!(socket.poll_read_ready(cx))?;
        let mut short = None;
        let read = socket.try_io(Interest::READABLE, || {
            let (_, read) = rustix::net::recv(socket, &mut *buffer, RecvFlags::empty())?;
            if read == 0 || read == buffer.len() {
                return Ok(read);
            }
            // The socket is empty: telling tokio now saves a read that fails.
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
