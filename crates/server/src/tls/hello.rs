//! Before a handshake: detects clients without TLS, and chooses the terms of a connection by the site that its client
//! asks for.

use std::io::{self, Read};
use std::sync::Arc;

use millrace_settings::plan;
use rustix::net::{RecvFlags, SendFlags};
use rustls::ServerConfig;
use rustls::server::{Accepted, Acceptor};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::{Terms, issued};

/// The longest ClientHello, with the headers of its records. rustls's limit.
const HELLO_BYTES: usize = 64 << 10;

/// The response to a plain HTTP request on an HTTPS port.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nServer: Millrace\r\nContent-Type: text/plain; charset=utf-8\r\n\
Content-Length: 78\r\nConnection: close\r\n\r\nThis port speaks HTTPS, but the request is plain HTTP. Use https:// instead.\r\n";

/// The terms of a connection.
pub struct Chosen {
    pub config: Arc<ServerConfig>,
    /// The number of the policy by which the client is asked for a certificate.
    pub policy: Option<u64>,
}

/// Whether the first received byte begins an HTTP method. A handshake record begins with 22 (RFC 8446 section 5.1).
/// `None`: nothing has arrived.
pub fn speaks_http(socket: &TcpStream) -> io::Result<Option<bool>> {
    let mut first = [0; 1];
    let seen = socket.try_io(Interest::READABLE, || {
        Ok(rustix::net::recv(socket, &mut first, RecvFlags::PEEK).map(|(_, length)| length)?)
    });
    match seen {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        seen => Ok(Some(seen? == 1 && first[0].is_ascii_uppercase())),
    }
}

/// Responds to a plain HTTP request on an HTTPS port, and waits until the client closes: unread bytes would reset the
/// connection and lose the response.
pub async fn refuse_http(socket: &TcpStream) {
    let _ = socket.try_io(Interest::READABLE, || {
        Ok(rustix::net::recv(socket, &mut [0; 4096][..], RecvFlags::empty())?)
    });
    let _ = rustix::net::send(socket, PLAIN_HTTP, SendFlags::NOSIGNAL);
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Write);
    let mut most = HELLO_BYTES;
    while most > 0 && socket.readable().await.is_ok() {
        match socket.try_read(&mut [0; 4096]) {
            Ok(0) => return,
            Ok(read) => most = most.saturating_sub(read),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// A ClientHello being read.
#[derive(Default)]
pub struct Hello {
    acceptor: Acceptor,
    /// All received bytes.
    pub bytes: Vec<u8>,
}

impl Hello {
    /// Reads available bytes. `None`: it is still incomplete.
    ///
    /// # Errors
    /// It is invalid; the client has been told.
    pub fn read(
        &mut self,
        socket: &TcpStream,
        terms: &Terms,
        site_of: SiteOf<'_>,
    ) -> io::Result<Option<Chosen>> {
        let before = self.bytes.len();
        self.bytes.reserve(4096);
        match socket.try_read_buf(&mut self.bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        if self.bytes.len() > HELLO_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the ClientHello is too long"));
        }
        let mut new = &self.bytes[before..];
        while !new.is_empty() && self.acceptor.read_tls(&mut new as &mut dyn Read)? > 0 {
            match self.acceptor.accept() {
                Ok(Some(accepted)) => return Ok(Some(choose(&accepted, terms, site_of))),
                Ok(None) => {}
                Err((error, mut alert)) => {
                    let mut text = Vec::new();
                    alert.write_all(&mut text)?;
                    let _ = rustix::net::send(socket, &text, SendFlags::NOSIGNAL);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
        Ok(None)
    }
}

/// The site that answers for a name.
pub type SiteOf<'a> = &'a dyn Fn(&str) -> &'a plan::Site;

/// The terms of the site that the client asks for.
fn choose(accepted: &Accepted, terms: &Terms, site_of: SiteOf<'_>) -> Chosen {
    let hello = accepted.client_hello();
    let site = site_of(hello.server_name().unwrap_or_default());
    // Authorities that validate a name have no certificate to show.
    let policy = terms.policy(site).filter(|_| !issued::is_challenge(&hello));
    match policy {
        Some(policy) => Chosen { config: policy.config.clone(), policy: Some(policy.number()) },
        None => Chosen { config: terms.config().clone(), policy: None },
    }
}
