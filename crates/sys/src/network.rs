//! Options of sockets that no safe crate offers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Lets the socket be bound to a source address without choosing a port yet (`IP_BIND_ADDRESS_NO_PORT`): the kernel chooses
/// it when the socket connects, so that one port serves for many targets.
///
/// # Errors
/// The kernel doesn't know the option.
pub fn choose_port_when_connecting(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is borrowed for the call, and `on` is an int whose size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the kernel holds for a socket, bytes (`SO_MEMINFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketMemory {
    /// Of what has come and was not read.
    pub receiving: u64,
    /// Of what was written and has not arrived.
    pub sending: u64,
    /// Not bytes: what it had to drop. For a socket that listens: attempts to connect.
    pub dropped: u32,
}

/// What the kernel holds for a socket.
///
/// # Errors
/// It is none, or of a kind that the kernel does not tell about.
pub fn socket_memory(socket: impl AsFd) -> io::Result<SocketMemory> {
    // sock_diag(7): SK_MEMINFO_RMEM_ALLOC, _RCVBUF, _WMEM_ALLOC, _SNDBUF, _FWD_ALLOC, _WMEM_QUEUED, _OPTMEM, _BACKLOG, _DROPS.
    let mut values = [0u32; 9];
    let mut size = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the descriptor is borrowed for the call, which writes at most `size` bytes to `values`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let [receiving, _, _, _, _, sending, _, _, dropped] = values;
    Ok(SocketMemory { receiving: receiving.into(), sending: sending.into(), dropped })
}

/// Connections that wait at a listening TCP socket to be accepted.
///
/// # Errors
/// It is no TCP socket.
pub fn accept_queue(socket: impl AsFd) -> io::Result<u32> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed for the call, which writes at most `size` bytes to `info`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is made of integers alone, and was zeroed before the kernel wrote to it.
    let info = unsafe { info.assume_init() };
    // Of a socket that listens this field is the length of its queue.
    Ok(info.tcpi_unacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpStream;

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
        let there = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            waiting(&server).receiving + waiting(&client).sending >= 100_000
        });
        assert!(there, "{:?} {:?}", waiting(&server), waiting(&client));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(socket_memory(&file).is_err() && accept_queue(&file).is_err());
    }
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn is_an_option_of_ip_sockets_only() {
        choose_port_when_connecting(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        choose_port_when_connecting(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        assert!(choose_port_when_connecting(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
