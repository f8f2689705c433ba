//! HTTP to the authority, for the crate instant-acme: one request per connection, in sequence. The crate's own client
//! would add thirty crates; this is enough for an order of a few dozen requests.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, response};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use millrace_wire::response::{Collector, fields};

use super::failure::{AcmeFailure, Cause};
use crate::tls::Trust;
use millrace_base::context::Clock;

/// Maximum time to connect to one address of the authority.
const CONNECT: Duration = Duration::from_secs(10);
/// Maximum time for one request.
const EXCHANGE: Duration = Duration::from_secs(60);
/// Maximum length of a response, bytes; real ones are far shorter.
const MOST: usize = 1 << 20;
/// The User-Agent header field (RFC 8555 section 6.1).
const WHO: &str = concat!("millrace/", env!("CARGO_PKG_VERSION"), " instant-acme");

/// A client that trusts some servers.
#[derive(Clone, Debug)]
pub struct AcmeClient {
    trust: Trust,
    pause: Arc<Mutex<Option<Duration>>>,
}

impl AcmeClient {
    /// For servers that `trust` accepts.
    pub fn new(trust: Trust) -> AcmeClient {
        AcmeClient { trust, pause: Arc::default() }
    }

    /// How long the authority asks to wait, if its last response said so.
    pub fn pause(&self) -> Option<Duration> {
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_pause(&self, pause: Option<Duration>) {
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner) = pause;
    }
}

impl HttpClient for AcmeClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            // The only access to the bytes without another crate: through a response.
            let body =
                BytesResponse::from(Response::new(body)).body.into_bytes().await.map_err(Error::Other)?;
            client.note_pause(None);
            let (parts, content) = client.exchange(head.method, head.uri, head.headers, body).await?;
            if matches!(parts.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
                client.note_pause(retry_after(&parts.headers));
            }
            let is_problem = content.trim_ascii_start().starts_with(b"{");
            if (parts.status.is_client_error() || parts.status.is_server_error()) && !is_problem {
                return Err(nameless(parts.status));
            }
            Ok(BytesResponse { parts, body: Box::new(Bytes::from(content)) })
        })
    }
}

impl AcmeClient {
    async fn exchange(
        &self,
        method: Method,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(response::Parts, Vec<u8>), Error> {
        let trust = self.trust.clone();
        let host = uri.host().unwrap_or_default().to_owned();
        // Blocking calls look names up and speak TLS.
        let work = tokio::task::spawn_blocking(move || blocking(&trust, &method, &uri, &headers, &body));
        let done = match work.await {
            Ok(done) => done,
            Err(error) => Err(io::Error::other(error)),
        };
        done.map_err(|error| {
            let text = format!("cannot reach the certificate authority ({host}): {error}");
            Error::Other(Box::new(AcmeFailure::new(Cause::Unreachable, text)))
        })
    }
}

/// An error without the document that describes it (RFC 7807): it comes from something in front of the authority.
fn nameless(status: StatusCode) -> Error {
    let cause = if status == StatusCode::TOO_MANY_REQUESTS { Cause::RateLimited } else { Cause::Unreachable };
    let text = format!("the certificate authority responded with {status} and gave no reason");
    Error::Other(Box::new(AcmeFailure::new(cause, text)))
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match u64::from_str(text) {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(Clock::default().wall()).ok(),
    }
}

fn blocking(
    trust: &Trust,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> io::Result<(response::Parts, Vec<u8>)> {
    let deadline = Clock::default().now() + EXCHANGE;
    if uri.scheme_str() != Some("https") {
        return Err(io::Error::other(format!("{uri} is not an https URL")));
    }
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let socket = connect(host, uri.port_u16().unwrap_or(443))?;
    socket.set_read_timeout(Some(CONNECT))?;
    socket.set_write_timeout(Some(CONNECT))?;
    let mut stream = trust.connect(host, socket)?;
    stream.write_all(&head(method, uri, headers, body.len()))?;
    stream.write_all(body)?;
    stream.flush()?;
    read_answer(&mut stream, method, deadline)
}

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn head(method: &Method, uri: &Uri, headers: &HeaderMap, length: usize) -> Vec<u8> {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let mut head = format!(
        "{method} {target} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\nUser-Agent: {WHO}\r\n"
    );
    if method == Method::POST {
        head.push_str(&format!("Content-Length: {length}\r\n"));
    }
    let mut head = head.into_bytes();
    for (name, value) in headers.iter().filter(|(name, _)| *name != USER_AGENT) {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Reads until the response is complete, or else until the connection ends.
fn read_answer(
    stream: &mut impl Read,
    method: &Method,
    deadline: Instant,
) -> io::Result<(response::Parts, Vec<u8>)> {
    let (mut collector, mut piece) = (Collector::new(method == Method::HEAD, MOST), [0_u8; 8 << 10]);
    let answer = loop {
        if Clock::default().now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.read(&mut piece) {
            Ok(0) => break collector.end()?,
            Ok(read) => {
                if let Some(answer) = collector.feed(&piece[..read])? {
                    break answer;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // Many servers close without a TLS close_notify. The framing tells whether something is missing.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break collector.end()?,
            Err(error) => return Err(error),
        }
    };
    let mut head = http::Response::builder().status(answer.status);
    for (name, value) in fields(&answer.head) {
        head = head.header(name, value);
    }
    Ok((head.body(()).map_err(io::Error::other)?.into_parts().0, answer.content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], method: &Method) -> io::Result<(u16, Vec<u8>)> {
        // Byte by byte: a response may arrive in any pieces.
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let n = self.0.len().min(1);
                into[..n].copy_from_slice(&self.0[..n]);
                self.0 = &self.0[n..];
                Ok(n)
            }
        }
        let deadline = Clock::default().now() + EXCHANGE;
        read_answer(&mut Slow(bytes), method, deadline)
            .map(|(parts, content)| (parts.status.as_u16(), content))
    }

    #[test]
    fn answers() {
        let chunked = b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        assert_eq!(read(chunked, &Method::GET).unwrap(), (400, b"ok".to_vec()));
        assert_eq!(read(b"HTTP/1.0 200\r\nX: y\r\n\r\nto the end", &Method::GET).unwrap().1, b"to the end");
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        assert_eq!(read(head, &Method::HEAD).unwrap(), (200, Vec::new()));
        for bad in [&head[..], b"", b"SSH-2.0-x\r\n\r\n"] {
            assert!(read(bad, &Method::GET).is_err(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn what_is_sent() {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/jose+json".parse().unwrap());
        headers.insert(USER_AGENT, "other".parse().unwrap());
        let text = head(&Method::POST, &"https://ca.example:14000/a?b".parse().unwrap(), &headers, 7);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            format!(
                "POST /a?b HTTP/1.1\r\nHost: ca.example:14000\r\nConnection: close\r\nUser-Agent: {WHO}\r\n\
                 Content-Length: 7\r\ncontent-type: application/jose+json\r\n\r\n"
            )
        );
    }

    #[test]
    fn pauses() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(of("120"), Some(Duration::from_secs(120)));
        assert_eq!(of("soon"), None);
        assert_eq!(of("Sun, 06 Nov 1994 08:49:37 GMT"), None, "that is over");
        assert!(of("Fri, 31 Dec 2100 23:59:59 GMT") > Some(Duration::from_secs(1)));
    }
}
