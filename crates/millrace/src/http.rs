//! A small HTTP client for two jobs: asking a running server on its admin address, and filling in WordPress's own forms.
//!
//! It speaks HTTP/1.0, one request per connection.

use millrace_settings::plan::Address;
use millrace_wire::percent::encode_form;
use millrace_wire::response::{Collector, Response};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Maximum length of a response, bytes; real ones are far shorter.
const ANSWER_LIMIT: usize = 64 << 20;

/// One request.
pub struct HttpRequest<'a> {
    /// `GET` or `POST`.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Fields beside Host, Connection and Content-Length.
    pub fields: &'a [(&'a str, String)],
    /// Content; empty for none.
    pub body: &'a [u8],
}

/// Sends `ask` to the server at `address` and waits for the complete response.
///
/// # Errors
/// Errors of connecting, writing and reading; `TimedOut` if the response is incomplete after `patience`;
/// `InvalidData` if it isn't HTTP, or is truncated.
pub fn exchange(
    address: &Address,
    host: &str,
    ask: &HttpRequest<'_>,
    patience: Duration,
) -> io::Result<Response> {
    let deadline = Instant::now() + patience;
    match address {
        Address::Tcp(socket) => {
            let mut stream = TcpStream::connect_timeout(socket, patience)?;
            stream.set_write_timeout(Some(patience))?;
            send(&mut stream, host, ask)?;
            receive(&mut stream, |s, left| s.set_read_timeout(Some(left)), deadline)
        }
        Address::Unix(path) => {
            let mut stream = UnixStream::connect(path)?;
            stream.set_write_timeout(Some(patience))?;
            send(&mut stream, host, ask)?;
            receive(&mut stream, |s, left| s.set_read_timeout(Some(left)), deadline)
        }
    }
}

fn send(stream: &mut impl Write, host: &str, ask: &HttpRequest<'_>) -> io::Result<()> {
    let mut head = format!("{} {} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n", ask.method, ask.target);
    for (name, value) in ask.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if ask.method == "POST" || !ask.body.is_empty() {
        head.push_str(&format!("Content-Length: {}\r\n", ask.body.len()));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(ask.body);
    stream.write_all(&bytes)
}

fn receive<S: Read>(
    stream: &mut S,
    wait: impl Fn(&S, Duration) -> io::Result<()>,
    deadline: Instant,
) -> io::Result<Response> {
    let (mut collector, mut piece) = (Collector::new(false, ANSWER_LIMIT), [0_u8; 16 << 10]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        wait(stream, left)?;
        match stream.read(&mut piece) {
            Ok(0) => return Ok(collector.end()?),
            Ok(n) => {
                if let Some(response) = collector.feed(&piece[..n])? {
                    return Ok(response);
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
            Err(e) => return Err(e),
        }
    }
}

/// `application/x-www-form-urlencoded` (the WHATWG URL standard's form serializer).
pub fn form(pairs: &[(&str, &str)]) -> Vec<u8> {
    let pair = |(name, value): &(&str, &str)| format!("{}={}", encode_form(name), encode_form(value));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    fn serve_once(answer: &'static [u8], is_silent: bool) -> (Address, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = Address::Tcp(listener.local_addr().expect("its address"));
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut asked = [0_u8; 4096];
            let n = stream.read(&mut asked).expect("a request");
            stream.write_all(answer).expect("taken");
            if is_silent {
                // Until the client closes.
                let _ = stream.read_to_end(&mut Vec::new());
            }
            String::from_utf8_lossy(&asked[..n]).into_owned()
        });
        (address, server)
    }

    #[test]
    fn a_form_goes_out_and_an_answer_comes_back() {
        let (address, server) = serve_once(b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\nbye", false);
        let body = form(&[("a b", "c&d"), ("e", "\u{e9}")]);
        let ask = HttpRequest {
            method: "POST",
            target: "/p?q",
            fields: &[("Cookie", "k=v".to_owned())],
            body: &body,
        };
        let answer = exchange(&address, "example.com", &ask, Duration::from_secs(30)).expect("an answer");
        assert_eq!(
            (answer.status, answer.field("location"), answer.text().as_str()),
            (302, Some("/x".to_owned()), "bye")
        );
        assert_eq!(
            server.join().expect("no panic"),
            "POST /p?q HTTP/1.0\r\nHost: example.com\r\nConnection: close\r\nCookie: k=v\r\n\
             Content-Length: 18\r\n\r\na+b=c%26d&e=%C3%A9"
        );
    }

    #[test]
    fn a_torn_answer_is_an_error() {
        let cases: [&[u8]; 3] =
            [b"", b"HTTP/1.1 200 OK\r\nContent-", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"];
        for torn in cases {
            let (address, server) = serve_once(torn, false);
            let ask = HttpRequest { method: "GET", target: "/", fields: &[], body: b"" };
            let error = exchange(&address, "h", &ask, Duration::from_secs(30)).expect_err("torn");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
            server.join().expect("no panic");
        }
    }

    #[test]
    fn a_silent_server_is_given_up() {
        let (address, server) = serve_once(b"HTTP/1.1 200 OK\r\n", true);
        let ask = HttpRequest { method: "GET", target: "/", fields: &[], body: b"" };
        let error = exchange(&address, "h", &ask, Duration::from_millis(200)).expect_err("silent");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        server.join().expect("no panic");
    }
}
