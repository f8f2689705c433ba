//! Requests that a script makes to its own site (WordPress's Site Health, cron, REST calls): with all workers busy
//! they would wait for the very worker that waits for them. The kernel tells whether a waiting request is one of
//! these: does one of our workers hold the client's end of its connection?

use std::collections::HashSet;
use std::fs;

use millrace_base::message::Request;

/// The two ports of a connection within this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports {
    /// The client's.
    pub client: u16,
    /// The server's.
    pub server: u16,
}

impl Ports {
    /// The ports of the request's connection, if its client is on this machine, perhaps a script.
    pub fn of(request: &Request) -> Option<Ports> {
        let (client, local) = (request.ends.client?, request.ends.local?);
        let here = client.ip().is_loopback() || client.ip() == local.ip();
        here.then(|| Ports { client: client.port(), server: local.port() })
    }
}

/// Whether one of the processes holds the client's end of one of the connections.
///
/// Reads files of `/proc`; if they are missing or unreadable, the result is false.
pub fn any_held_by(processes: &[u32], connections: &HashSet<Ports>) -> bool {
    let inodes: HashSet<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| client_inodes(&table, connections))
        .collect();
    !inodes.is_empty() && processes.iter().any(|pid| sockets(*pid).any(|inode| inodes.contains(&inode)))
}

/// Inodes of the sockets that are the client's end of one of the connections (proc(5), /proc/net/tcp).
fn client_inodes(table: &str, connections: &HashSet<Ports>) -> Vec<u64> {
    let inode = |line: &str| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        let port = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
        let ports = Ports { client: port(columns.next()?)?, server: port(columns.next()?)? };
        connections.contains(&ports).then(|| columns.nth(6)?.parse().ok()).flatten()
    };
    table.lines().skip(1).filter_map(inode).collect()
}

/// Inodes of a process's sockets.
fn sockets(pid: u32) -> impl Iterator<Item = u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn our_own_connection_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let ports = Ports {
                client: client.local_addr().unwrap().port(),
                server: listener.local_addr().unwrap().port(),
            };
            let connections = HashSet::from([ports]);
            assert!(any_held_by(&[std::process::id()], &connections), "{address}");
            assert!(!any_held_by(&[1, u32::MAX], &connections));
            let reversed = HashSet::from([Ports { client: ports.server, server: ports.client }]);
            drop(client);
            assert!(!any_held_by(&[std::process::id()], &reversed), "the server's end does not count");
        }
    }
}
