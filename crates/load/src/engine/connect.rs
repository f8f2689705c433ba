//! New connections: from which source address, and when there is none left.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Source and destination of connections.
#[derive(Clone, Debug)]
pub struct Route {
    target: SocketAddr,
    sources: Vec<IpAddr>,
    next: usize,
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// No descriptors.
    Descriptors,
    /// No ports on any source address.
    Ports,
    /// No memory.
    Memory,
    /// A network error.
    Network(Errno),
}

impl Route {
    /// From these addresses, in turns; none: the system's choice.
    pub fn new(target: SocketAddr, sources: Vec<IpAddr>) -> Route {
        Route { target, sources, next: 0 }
    }

    /// Begins to connect: when the socket becomes writable, [`outcome`] returns the result.
    ///
    /// # Errors
    /// The resource that the tester lacks.
    pub fn connect(&mut self) -> Result<OwnedFd, Lack> {
        let tries = self.sources.len().max(1);
        let mut lack = Lack::Ports;
        for _ in 0..tries {
            match self.try_next() {
                Err(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) => lack = Lack::Ports,
                Err(Errno::MFILE | Errno::NFILE) => return Err(Lack::Descriptors),
                Err(Errno::NOBUFS | Errno::NOMEM) => return Err(Lack::Memory),
                Err(errno) => {
                    lack = Lack::Network(errno);
                    break;
                }
                Ok(socket) => return Ok(socket),
            }
        }
        Err(lack)
    }

    fn try_next(&mut self) -> Result<OwnedFd, Errno> {
        let family = if self.target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        if !self.sources.is_empty() {
            let source = self.sources[self.next % self.sources.len()];
            self.next = self.next.wrapping_add(1);
            // An option that makes ports go further, but nothing depends on it.
            let _ = millrace_sys::choose_port_when_connecting(&socket);
            rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
        }
        match rustix::net::connect(&socket, &self.target) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(errno) => Err(errno),
        }
    }
}

/// The result of a connection attempt.
///
/// # Errors
/// Why it failed.
pub fn outcome(socket: &OwnedFd) -> Result<(), Errno> {
    match sockopt::socket_error(socket) {
        Ok(result) => result,
        Err(errno) => Err(errno),
    }
}

/// Addresses of the loopback network, the same number for each thread, for this many connections to one address and
/// port; empty if the ports of one address are enough.
pub fn loopback_sources(target: SocketAddr, connections: u64, threads: u64, ports: u64) -> Vec<IpAddr> {
    if !matches!(target.ip(), IpAddr::V4(ip) if ip.is_loopback()) || connections <= ports / 3 {
        return Vec::new();
    }
    // The kernel tries every other port first: when more than half of the ports are in use, each connection takes it
    // a millisecond. So only 40 % of an address's ports are used.
    let each = connections.div_ceil(threads).div_ceil((ports * 2 / 5).max(1));
    (0..(threads * each).min(60_000))
        .map(|n| IpAddr::V4(Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + n as u32)))
        .collect()
}

/// How many ports connections may have.
pub fn ports() -> u64 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().filter_map(|end| end.parse::<u64>().ok());
    match (ends.next(), ends.next()) {
        (Some(first), Some(last)) if last >= first => last - first + 1,
        _ => 28_232,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_connections_have_many_sources() {
        let local: SocketAddr = "127.0.0.1:80".parse().unwrap();
        assert!(loopback_sources(local, 9_000, 2, 28_000).is_empty());
        assert_eq!(loopback_sources(local, 100_000, 5, 28_000).len(), 10);
        assert_eq!(loopback_sources(local, 1_000_000, 51, 28_000).len(), 102);
        assert!(loopback_sources("10.0.0.1:80".parse().unwrap(), 1_000_000, 51, 28_000).is_empty());
    }

    #[test]
    fn connects_from_each_source_in_turn() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let sources = ["127.1.0.1", "127.1.0.2"].map(|ip| ip.parse().unwrap()).to_vec();
        let mut route = Route::new(listener.local_addr().unwrap(), sources.clone());
        for source in sources {
            let _socket = route.connect().unwrap();
            assert_eq!(listener.accept().unwrap().1.ip(), source);
        }
    }
}
