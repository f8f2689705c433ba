//! Listening sockets that the service manager has opened before it started the server (sd_listen_fds(3)). They outlive it: connections
//! wait in their queues while it is restarted.

use std::io;
use std::net::SocketAddr;

use millrace_settings::plan::Address;
use socket2::Socket;

/// The sockets of the process.
#[derive(Debug, Default)]
pub struct GivenSockets(Vec<Socket>);

impl GivenSockets {
    /// Those that the process has been given.
    pub fn of_process() -> GivenSockets {
        GivenSockets(millrace_sys::take_inherited_listeners().into_iter().map(Socket::from).collect())
    }

    /// Another descriptor for the socket of an address, if there is one.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn for_address(&self, address: &Address) -> io::Result<Option<Socket>> {
        self.find(address).map(Socket::try_clone).transpose()
    }

    /// Whether there is one for the address.
    pub fn have(&self, address: &Address) -> bool {
        self.find(address).is_some()
    }

    fn find(&self, address: &Address) -> Option<&Socket> {
        self.0.iter().find(|socket| listens_at(socket, address))
    }

    /// The addresses of those that none of `addresses` names, for people.
    pub fn unused(&self, addresses: &[&Address]) -> Vec<String> {
        let is_unused = |socket: &&Socket| !addresses.iter().any(|address| listens_at(socket, address));
        self.0.iter().filter(is_unused).map(shown).collect()
    }
}

fn listens_at(socket: &Socket, address: &Address) -> bool {
    let Ok(own) = socket.local_addr() else { return false };
    match address {
        Address::Tcp(address) => own.as_socket().is_some_and(|own| is_same(own, *address)),
        Address::Unix(path) => own.as_pathname().is_some_and(|own| own == path),
    }
}

/// A socket at `[::]` gets connections by IPv4, too, unless the manager says otherwise.
fn is_same(own: SocketAddr, wanted: SocketAddr) -> bool {
    let are_any = own.ip().is_unspecified() && wanted.ip().is_unspecified();
    own.port() == wanted.port() && (own.ip() == wanted.ip() || are_any && own.is_ipv6())
}

fn shown(socket: &Socket) -> String {
    let Ok(own) = socket.local_addr() else { return "an unknown address".to_owned() };
    match (own.as_socket(), own.as_pathname()) {
        (Some(own), _) => own.to_string(),
        (None, Some(path)) => format!("unix:{}", path.display()),
        (None, None) => "an address that is neither TCP nor a Unix socket with a path".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_of_ipv6_is_any_of_ipv4_too() {
        let is_same = |own: &str, wanted: &str| is_same(own.parse().unwrap(), wanted.parse().unwrap());
        assert!(is_same("[::]:80", "0.0.0.0:80") && is_same("[::]:80", "[::]:80"));
        assert!(is_same("127.0.0.1:80", "127.0.0.1:80"));
        for (own, wanted) in [
            ("0.0.0.0:80", "[::]:80"),
            ("[::]:80", "[::]:81"),
            ("[::]:80", "127.0.0.1:80"),
            ("127.0.0.1:80", "127.0.0.2:80"),
        ] {
            assert!(!is_same(own, wanted), "{own} {wanted}");
        }
    }
}
