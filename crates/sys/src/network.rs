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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn is_an_option_of_ip_sockets_only() {
        choose_port_when_connecting(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        choose_port_when_connecting(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        assert!(choose_port_when_connecting(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
