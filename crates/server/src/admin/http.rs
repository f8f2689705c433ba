//! The minimal HTTP that the admin address needs: one request per connection.
//!
//! A web page that the machine's owner visits can make the browser send requests to a loopback address. So over TCP
//! the Host field must be a loopback name, which defeats DNS rebinding, and requests from pages of another origin,
//! which browsers mark, are refused. No response ever allows another origin to read it.

use std::fmt::Write;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use millrace_wire::head::{Framing, Head, Limits};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::message::reply::reason_phrase;

const LIMITS: Limits = Limits { bytes: 8_192, fields: 64, target: 1_024 };

/// Maximum content of a request. It is read even if it is not used: closing a socket with unread bytes would reset
/// the connection and lose the response.
const CONTENT: u64 = 65_536;

/// Time limit for a request and its response.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a client may take to read the response to a request that was not read to its end.
const LINGER: Duration = Duration::from_secs(1);

/// A client of the admin address.
#[derive(Debug)]
pub enum AdminClient {
    /// Through a loopback address.
    Tcp(TcpStream),
    /// Through the socket file.
    Unix(UnixStream),
}

/// A request of a client.
#[derive(Debug, PartialEq, Eq)]
pub struct AdminRequest {
    /// Method; HEAD is shown as GET.
    pub method: String,
    /// Path without query.
    pub path: String,
    /// The query; empty for none.
    pub query: String,
    /// Content; empty for none.
    pub content: Vec<u8>,
}

impl AdminRequest {
    /// The content as a form sends it.
    pub fn form(&self) -> Vec<(String, String)> {
        form(&self.content)
    }
}

/// The fields of a form or a query (the WHATWG URL standard's `application/x-www-form-urlencoded` parser).
pub fn form(text: &[u8]) -> Vec<(String, String)> {
    let pairs = text.split(|b| *b == b'&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_at(memchr::memchr(b'=', pair).unwrap_or(pair.len()));
            (decoded(name), decoded(value.strip_prefix(b"=").unwrap_or(value)))
        })
        .collect()
}

/// `+` and `%20` as a space; invalid encodings stay unchanged.
fn decoded(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        let hex = |at: usize| tail.get(at).and_then(|b| char::from(*b).to_digit(16)).map(|d| d as u8);
        rest = tail;
        match (byte, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(high << 4 | low);
                rest = &tail[2..];
            }
            (b'+', ..) => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The response.
#[derive(Debug)]
pub struct AdminResponse {
    status: u16,
    media_type: &'static str,
    allow: Option<&'static str>,
    content: String,
}

impl AdminResponse {
    /// A response of plain text.
    pub fn text(status: u16, content: impl Into<String>) -> AdminResponse {
        AdminResponse::new(status, "text/plain; charset=utf-8", content.into())
    }

    /// A response of JSON.
    pub fn json(content: String) -> AdminResponse {
        AdminResponse::new(200, "application/json", content)
    }

    /// A response of another media type.
    pub fn new(status: u16, media_type: &'static str, content: String) -> AdminResponse {
        AdminResponse { status, media_type, allow: None, content }
    }

    /// 405 with the allowed methods.
    pub fn not_allowed(allow: &'static str) -> AdminResponse {
        AdminResponse {
            allow: Some(allow),
            ..AdminResponse::text(405, format!("Allowed methods: {allow}\n"))
        }
    }

    fn bytes(&self, with_content: bool) -> Vec<u8> {
        let AdminResponse { status, media_type, content, .. } = self;
        let mut text = format!(
            "HTTP/1.1 {status} {}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n",
            reason_phrase(*status),
            content.len()
        );
        if let Some(allow) = self.allow {
            let _ = write!(text, "Allow: {allow}\r\n");
        }
        text.push_str("\r\n");
        if with_content {
            text.push_str(content);
        }
        text.into_bytes()
    }
}

/// Reads one request, sends its response, and closes. Errors end only this connection.
pub async fn exchange(mut connection: AdminClient, answer: impl AsyncFnOnce(&AdminRequest) -> AdminResponse) {
    let over_tcp = matches!(connection, AdminClient::Tcp(_));
    let (head, content) = match tokio::time::timeout(PATIENCE, read(&mut connection)).await {
        Ok(Ok(AdminRead::Whole(head, content))) => (head, content),
        Ok(Ok(AdminRead::Refused(status, why))) => {
            let bytes = AdminResponse::text(status, format!("{why}\n")).bytes(true);
            write(&mut connection, &bytes).await;
            return drain(&mut connection).await;
        }
        Ok(Err(_)) | Err(_) => return,
    };
    let bytes = match refused(&head, over_tcp) {
        Some(refusal) => refusal.bytes(true),
        None => answer(&asked(&head, content)).await.bytes(head.method() != "HEAD"),
    };
    write(&mut connection, &bytes).await;
}

enum AdminRead {
    Whole(Head, Vec<u8>),
    Refused(u16, &'static str),
}

/// Reads the header section and the whole content.
async fn read(connection: &mut AdminClient) -> io::Result<AdminRead> {
    let mut bytes = Vec::new();
    let mut head = Head::default();
    loop {
        match head.parse(&bytes, &LIMITS) {
            Ok(Some(length)) => return read_content(connection, head, bytes.split_off(length)).await,
            Ok(None) => {}
            Err(refusal) => return Ok(AdminRead::Refused(refusal.status(), refusal.rule())),
        }
        if connection.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn read_content(
    connection: &mut AdminClient,
    head: Head,
    mut content: Vec<u8>,
) -> io::Result<AdminRead> {
    let length = match head.framing() {
        Framing::None => 0,
        Framing::Length(length) if length <= CONTENT => length,
        _ => return Ok(AdminRead::Refused(413, "the admin address accepts at most 64 KB of content")),
    };
    if head.expects_continue() {
        connection.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    while (content.len() as u64) < length {
        if connection.read_buf(&mut content).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    content.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    Ok(AdminRead::Whole(head, content))
}

async fn write(connection: &mut AdminClient, bytes: &[u8]) {
    let _ = tokio::time::timeout(PATIENCE, async {
        connection.write_all(bytes).await?;
        connection.shutdown().await
    })
    .await;
}

/// Reads the rest of a rejected request.
async fn drain(connection: &mut AdminClient) {
    let mut rest = connection.take(CONTENT);
    let mut nowhere = tokio::io::sink();
    let _ = tokio::time::timeout(LINGER, tokio::io::copy(&mut rest, &mut nowhere)).await;
}

/// Whether a browser sent the request on behalf of a web page.
fn refused(head: &Head, over_tcp: bool) -> Option<AdminResponse> {
    if !over_tcp {
        return None;
    }
    if !is_loopback(head.authority()) {
        return Some(AdminResponse::text(
            421,
            "Use 127.0.0.1, [::1] or localhost as the host name of the admin address.\n",
        ));
    }
    let own = |site: &str| matches!(site, "none" | "same-origin");
    let by_a_page = head.field("Origin").is_some()
        || head.field("Sec-Fetch-Site").is_some_and(|site| !std::str::from_utf8(site).is_ok_and(own));
    by_a_page.then(|| AdminResponse::text(403, "Web pages cannot use the admin address.\n"))
}

/// Whether an authority (host, with optional port) names this machine itself.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => authority.split(':').next().unwrap_or(""),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn asked(head: &Head, content: Vec<u8>) -> AdminRequest {
    let target = String::from_utf8_lossy(head.path_query());
    let method = if head.method() == "HEAD" { "GET" } else { head.method() };
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    AdminRequest { method: method.to_owned(), path: path.to_owned(), query: query.to_owned(), content }
}

impl AsyncRead for AdminClient {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            AdminClient::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            AdminClient::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for AdminClient {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            AdminClient::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            AdminClient::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            AdminClient::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            AdminClient::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            AdminClient::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            AdminClient::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names() {
        for yes in ["localhost", "LocalHost:9180", "127.0.0.1", "127.3.2.1:1", "[::1]:9180", "[::1]"] {
            assert!(is_loopback(yes), "{yes}");
        }
        for no in
            ["", "example.com", "127.0.0.1.example.com", "localhost.example.com:80", "[::2]", "10.0.0.1:80"]
        {
            assert!(!is_loopback(no), "{no}");
        }
    }

    async fn ask(request: &str) -> String {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let served = exchange(AdminClient::Unix(server), async |asked: &AdminRequest| {
            AdminResponse::text(
                200,
                format!("{} {}{}", asked.method, asked.path, String::from_utf8_lossy(&asked.content)),
            )
        });
        let read = async {
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            drop(client);
            answer
        };
        tokio::join!(served, read).1
    }

    #[tokio::test]
    async fn one_request_a_connection() {
        let answer = ask("GET /status?x HTTP/1.1\r\nHost: anything\r\n\r\n").await;
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nGET /status"),
            "{answer}"
        );
        assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
        let answer = ask("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(answer.contains("Content-Length: 5\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
        let answer = ask("POST /reload HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").await;
        assert!(answer.ends_with("POST /reloadabc"), "{answer}");
    }

    #[test]
    fn forms() {
        let of = |text: &str| {
            form(text.as_bytes())
                .into_iter()
                .map(|(name, value)| format!("{name}:{value}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("a=1&b=x+y%2Fz&&c&=d"), ["a:1", "b:x y/z", "c:", ":d"]);
        assert_eq!(of("%zz=%4&%C3%A9=%ff"), ["%zz:%4", "\u{e9}:\u{fffd}"]);
        assert_eq!(of(""), [""; 0]);
    }

    #[tokio::test]
    async fn rude_requests() {
        assert!(ask("GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
        assert!(ask("GET / HTTP/3.0\r\nHost: a\r\n\r\n").await.starts_with("HTTP/1.1 505 "));
        let much = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n";
        assert!(ask(much).await.starts_with("HTTP/1.1 413 "));
        assert!(ask(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(9_000))).await.starts_with("HTTP/1.1 4"));
    }

    async fn ask_tcp(fields: &str) -> u16 {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        client.write_all(format!("POST /reload HTTP/1.1\r\n{fields}\r\n\r\n").as_bytes()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        exchange(AdminClient::Tcp(server), async |_: &AdminRequest| AdminResponse::text(200, "")).await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn web_pages_are_kept_out() {
        assert_eq!(ask_tcp("Host: 127.0.0.1:9180").await, 200);
        assert_eq!(ask_tcp("Host: localhost\r\nSec-Fetch-Site: none").await, 200);
        assert_eq!(ask_tcp("Host: rebound.example.com").await, 421);
        assert_eq!(ask_tcp("Host: localhost\r\nOrigin: https://example.com").await, 403);
        assert_eq!(ask_tcp("Host: localhost\r\nSec-Fetch-Site: cross-site").await, 403);
    }
}
