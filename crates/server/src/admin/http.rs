//! The minimal HTTP that the admin address needs: one request per connection. [`super::caller`] says whom it serves.

use std::cell::Cell;
use std::fmt::Write;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use millrace_wire::head::{Framing, Head, Limits};
use millrace_wire::percent;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

use super::caller::{self, Caller, Door};
use super::room::AdminStep;
use millrace_base::message::reply::reason_phrase;

const LIMITS: Limits = Limits { bytes: 8_192, fields: 64, target: 1_024 };

/// Maximum content of a request. It is read even if it is not used: closing a socket with unread bytes would reset
/// the connection and lose the response.
const CONTENT: u64 = 65_536;

/// Time limit for a request and its response.
const PATIENCE: Duration = Duration::from_secs(10);

/// No response is a page that may load or frame anything of others, or run code that stands in it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

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

impl AdminClient {
    fn door(&self) -> Door {
        match self {
            AdminClient::Unix(stream) => {
                let peer = stream.peer_cred().ok();
                let process = peer.and_then(|peer| u32::try_from(peer.pid()?).ok());
                match process.is_some_and(millrace_sys::is_unconfined) {
                    true => Door::Socket,
                    false => Door::Confined(peer.map(|peer| peer.uid())),
                }
            }
            AdminClient::Tcp(stream) => Door::Tcp(match (stream.peer_addr(), stream.local_addr()) {
                (Ok(peer), Ok(own)) => millrace_sys::user_of_peer(peer, own),
                _ => None,
            }),
        }
    }
}

/// A request of a client.
#[derive(Debug, PartialEq, Eq)]
pub struct AdminRequest {
    /// Who sends it.
    pub caller: Caller,
    /// Its token; empty for none.
    pub token: String,
    /// Method; HEAD is shown as GET.
    pub method: String,
    /// Path without query.
    pub path: String,
    /// The query; empty for none.
    pub query: String,
    /// Whether the client is a browser that opens a page.
    pub wants_page: bool,
    /// Content; empty for none.
    pub content: Vec<u8>,
}

impl AdminRequest {
    /// The content as a form sends it.
    pub fn form(&self) -> Vec<(String, String)> {
        form(&self.content)
    }

    /// An argument of the query; `None`: it has none of this name.
    pub fn argument(&self, name: &str) -> Option<String> {
        form(self.query.as_bytes()).into_iter().find_map(|(known, value)| (known == name).then_some(value))
    }
}

/// The fields of a form or a query (the WHATWG URL standard's `application/x-www-form-urlencoded` parser).
pub fn form(text: &[u8]) -> Vec<(String, String)> {
    let decoded = |text| String::from_utf8_lossy(&percent::decode_form(text)).into_owned();
    let pairs = text.split(|b| *b == b'&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_at(memchr::memchr(b'=', pair).unwrap_or(pair.len()));
            (decoded(name), decoded(value.strip_prefix(b"=").unwrap_or(value)))
        })
        .collect()
}

/// The response.
#[derive(Debug)]
pub struct AdminResponse {
    status: u16,
    media_type: &'static str,
    /// One more field.
    field: Option<(&'static str, String)>,
    content: String,
    /// More content, one piece after the other, until the client has gone.
    more: Option<watch::Receiver<Rc<str>>>,
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
        AdminResponse { status, media_type, field: None, content, more: None }
    }

    /// 405 with the allowed methods.
    pub fn not_allowed(allow: &'static str) -> AdminResponse {
        AdminResponse::text(405, format!("Allowed methods: {allow}\n")).with("Allow", allow)
    }

    /// The same with one more field; only the last one counts.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> AdminResponse {
        self.field = Some((name, value.into()));
        self
    }

    /// Its status.
    #[cfg(test)]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// 303: the client should go to another path.
    pub fn see_other(path: &'static str) -> AdminResponse {
        AdminResponse::text(303, format!("See {path}\n")).with("Location", path)
    }

    /// A stream of server-sent events (WHATWG HTML, section 9.2): each value that is sent from now on.
    pub fn events(events: watch::Receiver<Rc<str>>) -> AdminResponse {
        AdminResponse { more: Some(events), ..AdminResponse::new(200, "text/event-stream", String::new()) }
    }

    fn bytes(&self, with_content: bool) -> Vec<u8> {
        let AdminResponse { status, media_type, content, .. } = self;
        let mut text = format!(
            "HTTP/1.1 {status} {}\r\nContent-Type: {media_type}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nContent-Security-Policy: {POLICY}\r\nConnection: close\r\n",
            reason_phrase(*status),
        );
        if self.more.is_none() {
            let _ = write!(text, "Content-Length: {}\r\n", content.len());
        }
        if let Some((name, value)) = &self.field {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        text.push_str("\r\n");
        if with_content {
            text.push_str(content);
        }
        text.into_bytes()
    }
}

/// Reads one request, sends its response, and closes. Errors end only this connection.
pub async fn exchange(
    mut connection: AdminClient,
    step: &Cell<AdminStep>,
    answer: impl AsyncFnOnce(&AdminRequest) -> AdminResponse,
) {
    // Before anything is read: a client that closes its socket has no user any more.
    let door = connection.door();
    let (head, content) = match tokio::time::timeout(PATIENCE, read(&mut connection)).await {
        Ok(Ok(AdminRead::Whole(head, content))) => (head, content),
        Ok(Ok(AdminRead::Refused(status, why))) => {
            let bytes = AdminResponse::text(status, format!("{why}\n")).bytes(true);
            write(&mut connection, &bytes).await;
            return drain(&mut connection).await;
        }
        Ok(Err(_)) | Err(_) => return,
    };
    step.set(AdminStep::Answering);
    let response = match caller::of(&head, door) {
        Err(refusal) => refusal,
        Ok(caller) => answer(&asked(&head, content, caller)).await,
    };
    step.set(AdminStep::Writing);
    let is_head = head.method() == "HEAD";
    let bytes = response.bytes(!is_head);
    match response.more.filter(|_| !is_head) {
        None => write(&mut connection, &bytes).await,
        Some(more) => stream(&mut connection, &bytes, more).await,
    }
}

/// Sends a head, and then each piece, until the client has gone or does not read.
async fn stream(connection: &mut AdminClient, head: &[u8], mut more: watch::Receiver<Rc<str>>) {
    let mut piece: Rc<str> = "".into();
    let mut bytes = head;
    loop {
        if !matches!(tokio::time::timeout(PATIENCE, connection.write_all(bytes)).await, Ok(Ok(()))) {
            return;
        }
        if more.changed().await.is_err() {
            return;
        }
        piece.clone_from(&more.borrow_and_update());
        bytes = piece.as_bytes();
    }
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

fn asked(head: &Head, content: Vec<u8>, caller: Caller) -> AdminRequest {
    let target = String::from_utf8_lossy(head.path_query());
    let method = if head.method() == "HEAD" { "GET" } else { head.method() };
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let accepts = String::from_utf8_lossy(head.field("Accept").unwrap_or_default());
    AdminRequest {
        caller,
        token: caller::token_of(head).to_owned(),
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        wants_page: accepts.contains("text/html"),
        content,
    }
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

    async fn ask(request: &str) -> String {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let step = Cell::new(AdminStep::Reading);
        let served = exchange(AdminClient::Unix(server), &step, async |asked: &AdminRequest| {
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

    #[tokio::test]
    async fn a_stream_ends_with_its_sender() {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let events = watch::Sender::new(Rc::from(""));
        let response = AdminResponse::events(events.subscribe());
        let step = Cell::new(AdminStep::Reading);
        let served = exchange(AdminClient::Unix(server), &step, async |_: &AdminRequest| response);
        let read = async {
            let mut text = String::new();
            let mut piece = [0; 4096];
            for word in ["text/event-stream", "data: one", "data: two"] {
                while !text.contains(word) {
                    let length = client.read(&mut piece).await.unwrap();
                    assert!(length > 0, "{text}");
                    text += std::str::from_utf8(&piece[..length]).unwrap();
                }
                let next = if word.ends_with("one") { "data: two\n\n" } else { "data: one\n\n" };
                events.send_replace(next.into());
            }
            drop(events);
            client.read_to_string(&mut text).await.unwrap();
            assert!(!text.contains("Content-Length"), "{text}");
        };
        tokio::join!(served, read);
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
        let step = Cell::new(AdminStep::Reading);
        exchange(AdminClient::Tcp(server), &step, async |_: &AdminRequest| AdminResponse::text(200, ""))
            .await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn web_pages_are_kept_out() {
        assert_eq!(ask_tcp("Host: 127.0.0.1:9180").await, 200);
        assert_eq!(ask_tcp("Host: localhost\r\nOrigin: http://localhost").await, 200);
        assert_eq!(ask_tcp("Host: rebound.example.com").await, 421);
        assert_eq!(ask_tcp("Host: localhost\r\nOrigin: https://example.com").await, 403);
        assert_eq!(ask_tcp("Host: localhost\r\nSec-Fetch-Site: cross-site").await, 403);
    }
}
