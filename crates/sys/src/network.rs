//! Options of sockets that no safe crate offers.

use std::io;
use std::os::fd::AsFd;

use crate::option;

/// Lets the socket be bound to a source address without choosing a port yet (`IP_BIND_ADDRESS_NO_PORT`): the kernel chooses
/// it when the socket connects, so that one port serves for many targets.
///
/// # Errors
/// The kernel doesn't know the option.
pub fn choose_port_when_connecting(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    option::set(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &on.to_ne_bytes())
}

/// The kernel's memory for a socket, bytes (`SO_MEMINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketMemory {
    /// For received data that was not read.
    pub receiving: u64,
    /// For written data that has not arrived.
    pub sending: u64,
    /// Number of dropped packets, not bytes. For a listening socket: connection attempts.
    pub dropped: u32,
}

/// The kernel's memory for a socket.
///
/// # Errors
/// It is not a socket, or its kind is not supported.
pub fn socket_memory(socket: impl AsFd) -> io::Result<SocketMemory> {
    // sock_diag(7): SK_MEMINFO_RMEM_ALLOC, _RCVBUF, _WMEM_ALLOC, _SNDBUF, _FWD_ALLOC, _WMEM_QUEUED, _OPTMEM, _BACKLOG, _DROPS.
    let mut values = [[0; 4]; 9];
    option::get(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, values.as_flattened_mut())?;
    let [receiving, _, _, _, _, sending, _, _, dropped] = values.map(u32::from_ne_bytes);
    Ok(SocketMemory { receiving: receiving.into(), sending: sending.into(), dropped })
}

/// Connections that wait at a listening TCP socket to be accepted.
///
/// # Errors
/// It is no TCP socket.
pub fn accept_queue(socket: impl AsFd) -> io::Result<u32> {
    // Of a socket that listens this field is the length of its queue.
    Ok(option::tcp_info(socket)?.tcpi_unacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn what_waits_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!((accept_queue(&listener).unwrap(), socket_memory(&listener).unwrap().dropped), (0, 0));
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(accept_queue(&listener).unwrap(), 1);
        let (server, _) = listener.accept().unwrap();
        assert_eq!(accept_queue(&listener).unwrap(), 0);
        client.write_all(&[b'x'; 100_000]).unwrap();
        let waiting = |socket: &TcpStream| socket_memory(socket).unwrap();
        let there = (0..2000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            waiting(&server).receiving + waiting(&client).sending >= 100_000
        });
        assert!(there, "{:?} {:?}", waiting(&server), waiting(&client));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(socket_memory(&file).is_err() && accept_queue(&file).is_err());
    }

    #[test]
    fn is_an_option_of_ip_sockets_only() {
        choose_port_when_connecting(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        choose_port_when_connecting(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        assert!(choose_port_when_connecting(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
