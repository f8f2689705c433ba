//! Listening sockets.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::Path;
use std::sync::Arc;

use millrace_settings::plan::Address;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use super::{AcceptThread, GivenSockets, tcp_ends};
use crate::connection::{ClientStream, ConnectionLimits, Supply};
use millrace_base::context::stats::Counter;
use millrace_base::message::request::{Ends, Scheme};

/// How much of a response the kernel takes before the client has room for it: otherwise slow readers would occupy
/// megabytes there. As much as can be sent while the event loop is busy elsewhere.
const UNSENT_BYTES: u32 = 256 << 10;

/// A listening socket of one thread.
#[derive(Debug)]
pub struct Listener {
    socket: ListenerSocket,
    /// Shared with the same address's sockets on other threads.
    pub limits: Arc<ConnectionLimits>,
    /// Whether connections are encrypted.
    pub is_secure: bool,
    /// Dropped connection attempts of the kernel, at the last check.
    dropped: Cell<u32>,
    /// Errors for the next attempts to accept.
    #[cfg(test)]
    pub faults: std::cell::RefCell<std::collections::VecDeque<rustix::io::Errno>>,
}

#[derive(Debug)]
enum ListenerSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A listening socket that is not registered with an event loop.
#[derive(Debug)]
pub struct Unstarted {
    socket: Socket,
    is_tcp: bool,
    is_secure: bool,
    limits: Arc<ConnectionLimits>,
}

/// A TCP listening socket without its descriptor, which was sent to an event loop with another table.
#[derive(Debug)]
pub struct Supplied {
    is_secure: bool,
    limits: Arc<ConnectionLimits>,
}

impl Supplied {
    /// Joins it with the received descriptor.
    pub fn with(self, socket: OwnedFd) -> Unstarted {
        Unstarted { socket: socket.into(), is_tcp: true, is_secure: self.is_secure, limits: self.limits }
    }
}

/// Binds `address` once per thread; where there is a socket for it among `given`, that is used.
///
/// # Errors
/// The address is in use, not ours, or forbidden.
pub fn bind(
    address: &Address,
    threads: usize,
    backlog: u32,
    limits: &Arc<ConnectionLimits>,
    is_secure: bool,
    given: &GivenSockets,
) -> io::Result<Vec<Unstarted>> {
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    let unstarted = |socket: Socket, is_tcp| Unstarted { socket, is_tcp, is_secure, limits: limits.clone() };
    if let Some(socket) = given.for_address(address)? {
        let sockets = at_given(&socket, address, threads, backlog)?.into_iter();
        return Ok(sockets.map(|socket| unstarted(socket, matches!(address, Address::Tcp(_)))).collect());
    }
    match address {
        Address::Tcp(address) => {
            let mut address = *address;
            refuse_if_taken(&address.into())?;
            let mut sockets = Vec::new();
            for _ in 0..threads {
                let socket = tcp(&address.into(), backlog)?;
                // Port 0: the first socket finds a free port, the others join it.
                address = socket.local_addr()?.as_socket().unwrap_or(address);
                sockets.push(unstarted(socket, true));
            }
            Ok(sockets)
        }
        Address::Unix(path) => {
            let socket = unix(path, backlog)?;
            // One queue for all threads: Unix sockets have no SO_REUSEPORT.
            (0..threads).map(|_| Ok(unstarted(socket.try_clone()?, false))).collect()
        }
    }
}

/// A socket for each thread at an address where the service manager listens. If its socket allows it (`ReusePort=`), the others join it;
/// otherwise the threads share its queue.
fn at_given(given: &Socket, address: &Address, threads: usize, backlog: i32) -> io::Result<Vec<Socket>> {
    given.set_nonblocking(true)?;
    given.listen(backlog)?;
    let mut sockets = vec![given.try_clone()?];
    if let Address::Tcp(_) = address {
        let _ = given.set_tcp_notsent_lowat(UNSENT_BYTES);
    }
    while sockets.len() < threads {
        let joined = match address {
            Address::Tcp(_) => tcp(&given.local_addr()?, backlog),
            Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        };
        sockets.push(joined.or_else(|_| given.try_clone())?);
    }
    Ok(sockets)
}

fn tcp(address: &socket2::SockAddr, backlog: i32) -> io::Result<Socket> {
    let domain = if address.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    if address.is_ipv6() && address.as_socket_ipv6().is_some_and(|a| a.ip().is_unspecified()) {
        socket.set_only_v6(false)?;
    }
    socket.bind(address)?;
    socket.set_nonblocking(true)?;
    // Connections inherit it. A kernel without it buffers more.
    let _ = socket.set_tcp_notsent_lowat(UNSENT_BYTES);
    socket.listen(backlog)?;
    Ok(socket)
}

/// With SO_REUSEPORT a second Millrace of the same user would join the port and take half of the first one's
/// connections: an attempt without it shows whether the port is free.
fn refuse_if_taken(address: &socket2::SockAddr) -> io::Result<()> {
    let domain = if address.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
    let probe = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    probe.set_reuse_address(true)?;
    probe.bind(address)?;
    probe.listen(1)
}

fn unix(path: &Path, backlog: i32) -> io::Result<Socket> {
    remove_stale_socket(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    // All users who can enter the folder may connect, as with a TCP port; the folder's mode can restrict this.
    millrace_sys::open_socket_to(path, 0o666)?;
    socket.set_nonblocking(true)?;
    socket.listen(backlog)?;
    Ok(socket)
}

/// Removes a socket that a crashed server left behind; a live one stays.
fn remove_stale_socket(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server is listening there")),
        Err(_) => std::fs::remove_file(path),
    }
}

impl Unstarted {
    /// The address, with the port that the system chose for port 0; `None` for a Unix socket.
    pub fn local_addr(&self) -> Option<std::net::SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    /// Sends the socket to an event loop with another descriptor table; returns the rest, which goes there in an
    /// order.
    ///
    /// # Errors
    /// The event loop does not accept it.
    pub fn supply(self, to: &Supply) -> io::Result<Supplied> {
        to.send(self.socket.as_fd())?;
        Ok(Supplied { is_secure: self.is_secure, limits: self.limits })
    }

    /// Registers the socket with the calling thread's event loop.
    pub fn start(self) -> io::Result<Listener> {
        let socket = if self.is_tcp {
            ListenerSocket::Tcp(TcpListener::from_std(self.socket.into())?)
        } else {
            ListenerSocket::Unix(UnixListener::from_std(StdUnixListener::from(std::os::fd::OwnedFd::from(
                self.socket,
            )))?)
        };
        Ok(Listener {
            socket,
            limits: self.limits,
            is_secure: self.is_secure,
            dropped: Cell::new(0),
            #[cfg(test)]
            faults: Default::default(),
        })
    }
}

/// Counts waiting connections in the queues of the thread's listening sockets, and connections that the kernel
/// dropped there.
pub fn look_at_queues(thread: &AcceptThread) {
    let mut waiting = 0;
    thread.listeners.borrow_mut().retain(|listener| {
        let Some(listener) = listener.upgrade() else { return false };
        let socket = listener.as_fd();
        waiting += u64::from(millrace_sys::accept_queue(socket).unwrap_or(0));
        let dropped = millrace_sys::socket_memory(socket).map_or(0, |memory| memory.dropped);
        let more = dropped.wrapping_sub(listener.dropped.replace(dropped));
        thread.context.stats.add(Counter::ListenDropped, more.into());
        true
    });
    thread.context.stats.set(Counter::ListenWaiting, waiting);
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            ListenerSocket::Tcp(socket) => socket.as_fd(),
            ListenerSocket::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Listener {
    /// The next connection.
    pub async fn accept(&self) -> io::Result<(ClientStream, Ends)> {
        #[cfg(test)]
        if let Some(fault) = self.faults.borrow_mut().pop_front() {
            return Err(fault.into());
        }
        match &self.socket {
            ListenerSocket::Tcp(socket) => {
                let (stream, client) = socket.accept().await?;
                // Responses are sent as a whole; waiting for more data only delays the last packet.
                stream.set_nodelay(true)?;
                let ends = tcp_ends(&stream, client);
                Ok((ClientStream::Tcp(stream), ends))
            }
            ListenerSocket::Unix(socket) => {
                let (stream, _) = socket.accept().await?;
                Ok((
                    ClientStream::Unix(stream),
                    Ends { client: None, local: None, scheme: Scheme::Http, tls: None },
                ))
            }
        }
    }

    /// A connection that is already waiting.
    pub fn try_accept(&self) -> io::Result<Option<(ClientStream, Ends)>> {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let mut accept = std::pin::pin!(self.accept());
        match accept.as_mut().poll(&mut cx) {
            std::task::Poll::Ready(result) => result.map(Some),
            std::task::Poll::Pending => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Most;

    #[test]
    fn threads_share_a_port_and_nobody_else_joins() {
        let limits = ConnectionLimits::new(Most { connections: 1, ..Most::default() });
        let any = Address::Tcp("127.0.0.1:0".parse().unwrap());
        let sockets = bind(&any, 3, 16, &limits, false, &GivenSockets::default()).unwrap();
        let ports: Vec<_> = sockets.iter().map(|s| s.local_addr().unwrap()).collect();
        assert!(ports[0].port() != 0 && ports.iter().all(|p| *p == ports[0]), "{ports:?}");
        let error =
            bind(&Address::Tcp(ports[0]), 1, 16, &limits, false, &GivenSockets::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
