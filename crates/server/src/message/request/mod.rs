//! What a client asks for, whatever protocol it came by.

mod body;
mod client;
mod forwarded;
mod hints;
mod uploads;
mod visit;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use body::{Collector, Content};
pub use client::{Certificate, CertifiedClient};
pub use hints::{Hints, TakesHints};
use millrace_pages::visitors::Standing;
use millrace_settings::plan::Network;
use millrace_wire::head::Head;
pub use uploads::{Listed, Upload, Uploads};
pub use visit::Visit;

/// Whether the client's side is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`, by our own TLS or as a trusted proxy says.
    Https,
}

impl Scheme {
    /// As in a URI.
    pub fn text(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// Both ends of the connection as scripts and logs see them: behind a trusted proxy the client's, not the proxy's.
#[derive(Clone, Debug)]
pub struct Ends {
    /// The client's address; `None` for a peer on a Unix socket.
    pub client: Option<SocketAddr>,
    /// The address that was connected to; `None` for a Unix socket.
    pub local: Option<SocketAddr>,
    /// Scheme the client used.
    pub scheme: Scheme,
    /// How the connection is encrypted; `None`: not by us.
    pub tls: Option<Tls>,
}

/// How a connection is encrypted, in the words of OpenSSL, which scripts know from other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// `TLSv1.3`: `SSL_PROTOCOL`.
    pub version: &'static str,
    /// `TLS_AES_256_GCM_SHA384`: `SSL_CIPHER`.
    pub cipher: &'static str,
    /// Who the client has shown to be; `None`: it was not asked.
    pub client: Option<CertifiedClient>,
}

impl Ends {
    /// The client's address, for logs and `REMOTE_ADDR`; empty text stands for a Unix socket peer.
    pub fn client_ip(&self) -> Option<IpAddr> {
        self.client.map(|a| a.ip().to_canonical())
    }
}

/// The cookie by which a browser keeps its place in the waiting room.
pub const PLACE_COOKIE: &str = "millrace_place";

/// One request. Owned, so that it can outlive the read buffer; its parts are reused by the connection.
#[derive(Debug)]
pub struct Request {
    /// Method, target, authority, fields; obeys RFC 9112.
    pub head: Head,
    /// Who talks to whom.
    pub ends: Ends,
    /// Host that the client asked for as a trusted proxy gives it (`X-Forwarded-Host`), else `None`.
    pub forwarded_host: Option<Box<str>>,
    /// The content; read from the connection before PHP runs, empty until then.
    pub content: Content,
    /// Whether the content has been read from the connection.
    pub content_is_read: bool,
    /// Who takes early hints; `None`: nobody.
    pub hints: Option<Hints>,
    /// The cookie of the waiting room, of a request that was derived from one that has it.
    pub place: Option<Vec<u8>>,
    /// It came before the handshake was over (RFC 8446 section 2.3): somebody may have copied it.
    pub early: bool,
    /// What is known of its visitor, as soon as PHP is about to run for it.
    pub standing: Standing,
    /// What that run reports of its visitor.
    pub visit: Option<Arc<dyn Visit>>,
}

impl Request {
    /// A request as it came over a connection whose ends are `ends`, without its content.
    pub fn new(head: Head, ends: Ends, trusted_proxies: &[Network]) -> Request {
        let (ends, forwarded_host) = forwarded::apply(trusted_proxies, ends, &head);
        Request {
            head,
            ends,
            forwarded_host,
            content: Content::Empty,
            content_is_read: false,
            hints: None,
            place: None,
            early: false,
            standing: Standing::Unasked,
            visit: None,
        }
    }

    /// A GET by the same client without content, for `path_query`: only the fields that `keeps` says, by their names,
    /// and those of `more`.
    pub fn derived(
        &self,
        path_query: &[u8],
        keeps: impl Fn(&str) -> bool,
        more: &[(&str, Vec<u8>)],
    ) -> Request {
        Request {
            head: self.head.rewritten("GET", path_query, keeps, more),
            ends: self.ends.clone(),
            forwarded_host: self.forwarded_host.clone(),
            content: Content::Empty,
            content_is_read: true,
            hints: None,
            place: self.waiting_place(),
            early: false,
            standing: Standing::Unasked,
            visit: None,
        }
    }

    /// The same request without content, with other cookies: the fields `cookies`.
    pub fn without_cookies(&self, cookies: &[(&str, Vec<u8>)]) -> Request {
        let (method, target) = (self.head.method(), self.head.path_query());
        let keeps = |name: &str| !name.eq_ignore_ascii_case("cookie");
        Request {
            head: self.head.rewritten(method, target, keeps, cookies),
            ends: self.ends.clone(),
            forwarded_host: self.forwarded_host.clone(),
            content: Content::Empty,
            content_is_read: true,
            hints: self.hints.clone(),
            place: self.waiting_place(),
            early: self.early,
            standing: Standing::Unasked,
            visit: None,
        }
    }

    /// The value of its cookie of the waiting room, whoever it was derived from.
    pub fn waiting_place(&self) -> Option<Vec<u8>> {
        let lines = self.head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
        let mut cookies = lines.flat_map(|(_, line)| line.split(|byte| *byte == b';'));
        let value = |cookie: &[u8]| {
            Some(cookie.trim_ascii().strip_prefix(PLACE_COOKIE.as_bytes())?.strip_prefix(b"=")?.to_vec())
        };
        self.place.clone().or_else(|| cookies.find_map(value))
    }

    /// Host and port as the client asked for them.
    pub fn authority(&self) -> &str {
        self.forwarded_host.as_deref().unwrap_or_else(|| self.head.authority())
    }

    /// The path of the target, as sent, without query.
    pub fn raw_path(&self) -> &[u8] {
        self.head.path()
    }

    /// The query, as sent, without `?`; `None` if there is no `?`.
    pub fn query(&self) -> Option<&[u8]> {
        self.head.query()
    }

    /// Whether repeating the request does no more than sending it once (RFC 9110 section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        matches!(self.head.method(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
    }

    /// Whether somebody may have copied it, so that nothing may happen by it: it came as early data to us, or to a proxy
    /// that says so (RFC 8470 section 5.1).
    pub fn is_early(&self) -> bool {
        self.early || self.head.field("early-data") == Some(b"1")
    }

    /// Whether the answer has no content, only its fields.
    pub fn is_head(&self) -> bool {
        self.head.method() == "HEAD"
    }
}
