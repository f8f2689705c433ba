//! Who is at the other end of a connection of this machine. For TCP the kernel knows the user: sock_diag(7), the way of `ss`, but for one socket.

use std::net::{IpAddr, SocketAddr};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
/// Bytes of `struct nlmsghdr`, and of it with `struct inet_diag_req_v2` or `struct inet_diag_msg`.
const HEAD: usize = 16;
const REQUEST: usize = HEAD + 56;
const REPORT: usize = HEAD + 72;

/// The user whose socket is at `peer`, connected to `own`, both of this network namespace. `None`: nothing is known of it, because the
/// peer has closed the socket, which has no user then, or because the kernel does not say.
pub fn user_of_peer(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let flags = SocketFlags::CLOEXEC;
    let netlink =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG)).ok()?;
    send(&netlink, &request(peer, own), SendFlags::empty()).ok()?;
    // The kernel has put the report there before send() returns.
    let mut report = [0; 1024];
    let (length, _) = recv(&netlink, &mut report, RecvFlags::DONTWAIT).ok()?;
    user_in(report.get(..length)?)
}

/// Filters of system calls (seccomp) of a process, or of this one (`None`). A process never gets rid of one, and its programs have them,
/// too. `None`: there is no such process, or the kernel does not say.
fn filters_of(process: Option<u32>) -> Option<u32> {
    let name = process.map_or("self".to_owned(), |id| id.to_string());
    let status = std::fs::read_to_string(format!("/proc/{name}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    // Before Linux 5.9 there is only the mode; 0: none.
    field("Seccomp_filters:").or_else(|| field("Seccomp:").filter(|mode| *mode == 0))
}

/// Whether a process has no more filters of system calls than this one. A worker of PHP in its sandbox has more, and so has every program
/// that its scripts start.
pub fn is_unconfined(process: u32) -> bool {
    matches!((filters_of(Some(process)), filters_of(None)), (Some(its), Some(own)) if its <= own)
}

fn request(source: SocketAddr, destination: SocketAddr) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    let mut at = 0;
    let mut put = |part: &[u8]| {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    };
    put(&(REQUEST as u32).to_ne_bytes());
    put(&BY_FAMILY.to_ne_bytes());
    put(&NLM_F_REQUEST.to_ne_bytes());
    put(&[0; 8]);
    let [source, destination] = [source, destination].map(|end| (end.ip().to_canonical(), end.port()));
    let family = if source.0.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    put(&[family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    // In any state.
    put(&u32::MAX.to_ne_bytes());
    put(&source.1.to_be_bytes());
    put(&destination.1.to_be_bytes());
    put(&address(source.0));
    put(&address(destination.0));
    // Any interface, and no cookie.
    put(&0_u32.to_ne_bytes());
    put(&[0xff; 8]);
    bytes
}

fn address(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V6(ip) => ip.octets(),
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
    }
}

/// The user in a report. A socket that no process has open has no inode, and "root" as its user.
fn user_in(report: &[u8]) -> Option<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(*report.get(at..)?.first_chunk()?));
    let kind = u16::from_ne_bytes(*report.get(4..)?.first_chunk()?);
    let (user, inode) = (word(REPORT - 8)?, word(REPORT - 4)?);
    (kind == BY_FAMILY && inode != 0).then_some(user)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_user_is_known_while_the_socket_is_open() {
        let own = rustix::process::geteuid().as_raw();
        for place in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let ends = (peer, server.local_addr().unwrap());
            assert_eq!(user_of_peer(ends.0, ends.1), Some(own), "{place}");
            assert_eq!(user_of_peer(SocketAddr::new(peer.ip(), 1), ends.1), None, "{place}");
            // Nobody takes it for root's: it has said all, and has gone.
            drop(client);
            assert_eq!(user_of_peer(ends.0, ends.1), None, "{place}");
        }
    }

    #[test]
    fn this_process_and_none() {
        assert!(is_unconfined(std::process::id()));
        assert!(!is_unconfined(u32::MAX), "there is no such process");
    }

    #[test]
    fn reports_that_say_nothing() {
        assert_eq!(user_in(&[]), None);
        assert_eq!(user_in(&[0; REPORT - 1]), None);
        assert_eq!(user_in(&[1; REPORT]), None, "an error");
    }
}
