//! Passes connections from one event loop to another one with another descriptor table (see `engine/crowd.rs`).
//!
//! The descriptor is sent through a Unix socket, which gives it a number in the receiver's table (`SCM_RIGHTS`); the
//! rest follows through a channel, in the same order. Listening sockets go the other way.

use std::cell::OnceCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{ConnectionLimits, ConnectionPermit};
use millrace_base::message::request::Ends;

/// The data that belong to a descriptor.
#[derive(Debug)]
pub struct Passed {
    /// The addresses of both ends.
    pub ends: Ends,
    /// Its permits in both event loops.
    pub permit: ConnectionPermit,
    /// The bytes that have been read from it.
    pub begun: Vec<u8>,
}

/// The sending end, in the event loop that connections leave.
#[derive(Debug)]
pub struct Exit {
    socket: StdUnixStream,
    /// The same socket, registered with the event loop from the first connection on.
    waited_for: OnceCell<UnixStream>,
    passed: UnboundedSender<Passed>,
    /// The limits of the other loop.
    room: Arc<ConnectionLimits>,
}

/// The receiving end, in the other event loop.
#[derive(Debug)]
pub struct PassingEntry {
    socket: StdUnixStream,
    /// The same socket, registered with the event loop from the first connection on.
    waited_for: Option<UnixStream>,
    passed: UnboundedReceiver<Passed>,
}

/// Sends listening sockets to the event loop of an exit.
#[derive(Debug)]
pub struct Supply(StdUnixStream);

/// Both ends of a passage between event loops; `room`: the limit of connections at the receiving end.
///
/// # Errors
/// No sockets are available.
pub fn passage(room: &Arc<ConnectionLimits>) -> io::Result<(Exit, PassingEntry, Supply)> {
    let (here, there) = StdUnixStream::pair()?;
    here.set_nonblocking(true)?;
    there.set_nonblocking(true)?;
    let supply = Supply(there.try_clone()?);
    let (sender, receiver) = unbounded_channel();
    let exit = Exit { socket: here, waited_for: OnceCell::new(), passed: sender, room: room.clone() };
    Ok((exit, PassingEntry { socket: there, waited_for: None, passed: receiver }, supply))
}

impl PassingEntry {
    /// Receives the next connection: its descriptor, if there was one left for it, and its data. `None`: no more will
    /// come.
    pub async fn next(&mut self) -> Option<(Option<OwnedFd>, Passed)> {
        let socket = match &self.waited_for {
            Some(socket) => socket,
            None => self.waited_for.insert(UnixStream::from_std(self.socket.try_clone().ok()?).ok()?),
        };
        let received = socket.async_io(Interest::READABLE, || receive(socket.as_fd())).await;
        Some((received.ok()?, self.passed.recv().await?))
    }
}

impl Supply {
    /// Sends a listening socket.
    ///
    /// # Errors
    /// The event loop does not accept it.
    pub fn send(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        send(self.0.as_fd(), socket)
    }
}

impl Exit {
    /// Number of its descriptor.
    pub fn number(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Receives the next listening socket.
    ///
    /// # Errors
    /// None was sent, or the table is full.
    pub fn listening(&self) -> io::Result<OwnedFd> {
        receive(self.socket.as_fd())?.ok_or_else(|| io::Error::other("out of file descriptors"))
    }

    /// Whether no connection may be passed on now.
    pub fn is_full(&self) -> bool {
        self.room.is_full()
    }

    /// Passes on a TCP connection from which `begun` has been read. If the other loop has gone, the connection ends.
    pub async fn pass(&self, socket: OwnedFd, ends: Ends, permit: ConnectionPermit, begun: Vec<u8>) {
        let (Some(place), Ok(way)) = (self.room.admit(None), self.way()) else { return };
        let permit = permit.and(place);
        let sent = way.async_io(Interest::WRITABLE, || send(way.as_fd(), socket.as_fd())).await;
        // No await in between: the other side matches both by their order.
        if sent.is_ok() {
            let _ = self.passed.send(Passed { ends, permit, begun });
        }
    }

    fn way(&self) -> io::Result<&UnixStream> {
        if let Some(way) = self.waited_for.get() {
            return Ok(way);
        }
        let way = UnixStream::from_std(self.socket.try_clone()?)?;
        Ok(self.waited_for.get_or_init(|| way))
    }
}

fn send(socket: BorrowedFd<'_>, what: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let what = [what];
    control.push(SendAncillaryMessage::ScmRights(&what));
    sendmsg(socket, &[IoSlice::new(b"c")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// `None`: no descriptor was left for it. An error also if the other side has gone.
fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    }))
}
