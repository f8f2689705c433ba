//! A client's request, whatever its protocol.

mod auth;
mod body;
mod client;
mod findings;
mod forwarded;
mod hints;
mod run;
mod stream;
mod uploads;

use std::net::{IpAddr, SocketAddr};

pub use auth::{AuthState, is_same_variable};
pub use body::{Collector, Content};
pub use client::{Certificate, CertifiedClient};
pub use findings::{Evaluation, EvaluationResult, Findings, Ruling};
pub use hints::{Hints, TakesHints};
use millrace_settings::plan::NetworkSet;
use millrace_wire::head::{Head, Version};
pub use run::{AsRun, RunEnd};
pub use stream::ContentStream;
pub use uploads::{Listed, Upload, Uploads};

/// Whether the client's side is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`, by our own TLS or according to a trusted proxy.
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

    /// Its port, unless a URI has another one.
    pub fn port(self) -> &'static str {
        match self {
            Scheme::Http => "80",
            Scheme::Https => "443",
        }
    }
}

/// Both ends of the connection as scripts and logs see them: behind a trusted proxy the client's address, not the
/// proxy's.
#[derive(Clone, Debug)]
pub struct Ends {
    /// The client's address; `None` for a client on a Unix socket.
    pub client: Option<SocketAddr>,
    /// The local address of the connection; `None` for a Unix socket.
    pub local: Option<SocketAddr>,
    /// Scheme the client used.
    pub scheme: Scheme,
    /// How the connection is encrypted; `None`: not by this server.
    pub tls: Option<Tls>,
}

/// How a connection is encrypted, in OpenSSL's terms, which scripts know from other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// `TLSv1.3`: `SSL_PROTOCOL`.
    pub version: &'static str,
    /// `TLS_AES_256_GCM_SHA384`: `SSL_CIPHER`.
    pub cipher: &'static str,
    /// The client's certificate; `None`: it was not asked for one.
    pub client: Option<CertifiedClient>,
}

impl Ends {
    /// The client's address, for logs and `REMOTE_ADDR`; `None` for a client on a Unix socket.
    pub fn client_ip(&self) -> Option<IpAddr> {
        self.client.map(|a| a.ip().to_canonical())
    }
}

/// The cookie with a browser's place in the waiting room.
pub const PLACE_COOKIE: &str = "millrace_place";

/// One request. Owned, so that it can outlive the read buffer; its parts are reused by the connection.
#[derive(Debug)]
pub struct Request {
    /// Method, target, authority, fields; obeys RFC 9112.
    pub head: Head,
    /// The addresses of both ends.
    pub ends: Ends,
    /// The requested host according to a trusted proxy (`X-Forwarded-Host`), otherwise `None`.
    pub forwarded_host: Option<Box<str>>,
    /// The content; read from the connection before PHP runs, empty until then.
    pub content: Content,
    /// Whether the content has been read from the connection.
    pub content_is_read: bool,
    /// The content, if an application gets it while it arrives.
    pub stream: Option<Box<dyn ContentStream>>,
    /// Sends early hints; `None`: they are not wanted.
    pub hints: Option<Hints>,
    /// The waiting room's cookie, if the request was derived from one that has it.
    pub place: Option<Vec<u8>>,
    /// It is early data (RFC 8446 section 2.3): it may be a replay.
    pub early: bool,
    /// What has been found out about it on its way.
    pub found: Findings,
    /// How PHP is to run for it, if that is not up to the worker.
    pub run: Option<AsRun>,
    /// The response may be for all visitors: it runs for the page cache.
    pub is_shared: bool,
    /// Cookies of its client that are not among its fields: a script that makes a page for all gets them only if it looks for one.
    pub withheld: Vec<u8>,
    /// A trusted proxy has sent it.
    pub is_forwarded: bool,
    /// The protocol to which an HTTP/2 client wants to switch this stream (RFC 8441): its CONNECT is a GET here.
    pub protocol: Option<Box<str>>,
}

impl Request {
    /// A request of the server's own, without its content: no proxy has forwarded it, and no limit counts it.
    pub fn direct(head: Head, ends: Ends) -> Request {
        let found = Findings { counted_rules: u32::MAX, ..Findings::default() };
        Request { found, ..Request::new(head, ends, &NetworkSet::EMPTY) }
    }

    /// A request from a connection with these ends, without its content.
    pub fn new(head: Head, ends: Ends, trusted_proxies: &NetworkSet) -> Request {
        let is_forwarded = trusted_proxies.contains(ends.client_ip());
        let (ends, forwarded_host) = forwarded::apply(trusted_proxies, ends, &head);
        Request { forwarded_host, is_forwarded, ..Request::of(head, ends) }
    }

    /// A request with this head, about which nothing else is known.
    fn of(head: Head, ends: Ends) -> Request {
        Request {
            head,
            ends,
            forwarded_host: None,
            content: Content::Empty,
            content_is_read: false,
            stream: None,
            hints: None,
            place: None,
            early: false,
            run: None,
            is_shared: false,
            withheld: Vec::new(),
            is_forwarded: false,
            protocol: None,
            found: Findings::default(),
        }
    }

    /// Whether its client says that it takes trailers (RFC 9110 section 10.1.4).
    pub fn asks_for_trailers(&self) -> bool {
        let named = self.head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("te"));
        named.flat_map(|(_, value)| value.split(|byte| *byte == b',')).any(|coding| {
            let name = coding.split(|byte| *byte == b';').next().unwrap_or_default();
            name.trim_ascii().eq_ignore_ascii_case(b"trailers")
        })
    }

    /// Whether its client gets trailers: over HTTP/2 they are a part of every message; over HTTP/1.1 a client that does
    /// not ask for them may not expect them (RFC 9110 section 6.5.1).
    pub fn takes_trailers(&self) -> bool {
        match self.head.version() {
            Version::Http2 => true,
            Version::Http11 => self.asks_for_trailers(),
            Version::Http10 => false,
        }
    }

    /// A GET by the same client without content, for `path_query`: only with the fields that `keeps` accepts by name,
    /// and `more`.
    pub fn derived(
        &self,
        path_query: &[u8],
        keeps: impl Fn(&str) -> bool,
        more: &[(&str, Vec<u8>)],
    ) -> Request {
        self.with_head(self.head.rewritten("GET", path_query, keeps, more))
    }

    /// The same request without content, with `cookies` as its cookie fields.
    pub fn without_cookies(&self, cookies: &[(&str, Vec<u8>)]) -> Request {
        let (method, target) = (self.head.method(), self.head.path_query());
        let keeps = |name: &str| !name.eq_ignore_ascii_case("cookie");
        let (hints, early) = (self.hints.clone(), self.early);
        Request { hints, early, ..self.with_head(self.head.rewritten(method, target, keeps, cookies)) }
    }

    /// A request by the same client, without content.
    fn with_head(&self, head: Head) -> Request {
        Request {
            forwarded_host: self.forwarded_host.clone(),
            content_is_read: true,
            place: self.waiting_place(),
            is_shared: self.is_shared,
            withheld: self.withheld.clone(),
            is_forwarded: self.is_forwarded,
            found: self.found.for_derived(),
            ..Request::of(head, self.ends.clone())
        }
    }

    /// The value of its waiting room cookie, even if it is derived from another request.
    pub fn waiting_place(&self) -> Option<Vec<u8>> {
        let lines = self.head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
        let mut cookies = lines.flat_map(|(_, line)| line.split(|byte| *byte == b';'));
        let value = |cookie: &[u8]| {
            Some(cookie.trim_ascii().strip_prefix(PLACE_COOKIE.as_bytes())?.strip_prefix(b"=")?.to_vec())
        };
        self.place.clone().or_else(|| cookies.find_map(value))
    }

    /// The requested host and port.
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

    /// The query that a script gets: after the rules of the site and of `.htaccess` files.
    pub fn script_query(&self) -> Option<&[u8]> {
        match &self.found.ruling {
            Some(ruling) => ruling.verdict.query.as_deref(),
            None => self.query(),
        }
    }

    /// Whether repeating the request does no more than sending it once (RFC 9110 section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        matches!(self.head.method(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
    }

    /// Whether it may be a replay, so that it must have no effect: it was early data here, or at a proxy that says so
    /// (RFC 8470 section 5.1).
    pub fn is_early(&self) -> bool {
        self.early || self.head.field("early-data") == Some(b"1")
    }

    /// Whether its response is for this client alone, because a script has let it pass: no cache for all may have it.
    pub fn is_private(&self) -> bool {
        self.found.auth == AuthState::Passed
    }

    /// Whether the response has only fields, no content.
    pub fn is_head(&self) -> bool {
        self.head.method() == "HEAD"
    }
}
