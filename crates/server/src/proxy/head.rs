//! The header section of a request to an application.
//!
//! What the visitor's connection is about stays here (RFC 9110 section 7.6.1). What a proxy says about its client is
//! the server's to say: such fields of a stranger are dropped, also with `_` for `-`, which CGI and WSGI applications
//! cannot tell apart. A trusted proxy's have been understood before (`server.trusted_proxies`).

use millrace_settings::plan::{AppUrl, Proxy, ProxyHost};
use millrace_wire::decimal;

use super::switch::Switch;
use super::target;
use millrace_base::message::Request;
use millrace_base::message::request::is_same_variable;

/// The name of this server in `Via` (RFC 9110 section 7.6.3).
const VIA: &str = "1.1 millrace";
/// More servers of this kind on the way of one request are a loop.
const MOST_HOPS: usize = 8;

/// Fields that are not passed on: of the connection, of the content - which is sent as it lies here -, and those that
/// are written anew.
const WITHHELD: [&str; 19] = [
    "connection",
    "content-length",
    "early-data",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-client-ip",
    "x-real-ip",
];

/// Appends the header section; `path` is the normalised one. `switch`: the client wants another protocol.
pub fn write(
    proxy: &Proxy,
    url: &AppUrl,
    request: &Request,
    path: &[u8],
    switch: Option<&Switch>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(request.head.method().as_bytes());
    out.push(b' ');
    target::write(proxy, url, request, path, out);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    line(out, "Host", host(proxy, url, request).as_bytes());
    fields(request, &mut |name, value| line(out, name, value));
    match switch {
        Some(switch) => switch.write(out),
        // What this server takes, it says itself: it passes trailers on (RFC 9110 section 10.1.4).
        None if request.asks_for_trailers() => out.extend_from_slice(b"Connection: TE\r\nTE: trailers\r\n"),
        None => {}
    }
    if is_chunked(request) {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    } else if let Some(length) = length(request) {
        out.extend_from_slice(b"Content-Length: ");
        decimal::push(length, out);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Passes the fields of the request to `add`, but for those that each version of HTTP has its own way for: the host, the
/// length of the content, and what is about the connection.
pub fn fields(request: &Request, add: &mut impl FnMut(&str, &[u8])) {
    let named: Vec<&[u8]> = request
        .head
        .fields()
        .filter(|(name, _)| is(name, "connection"))
        .flat_map(|(_, value)| members(value))
        .collect();
    for (name, value) in request.head.fields() {
        let is_named = named.iter().any(|other| other.eq_ignore_ascii_case(name.as_bytes()));
        if !is_named && !is_withheld(name) {
            add(name, value);
        }
    }
    add_forwarded(request, add);
    let via: Vec<&[u8]> = request
        .head
        .fields()
        .filter(|(name, _)| is(name, "via"))
        .map(|(_, value)| value)
        .chain([VIA.as_bytes()])
        .collect();
    add("Via", &via.join(&b", "[..]));
}

/// Whether content follows whose length is unknown.
pub fn is_chunked(request: &Request) -> bool {
    request.stream.as_ref().is_some_and(|stream| stream.length().is_none())
}

/// The length of the content, if it is known and has to be said.
pub fn length(request: &Request) -> Option<u64> {
    if let Some(stream) = &request.stream {
        return stream.length();
    }
    let length = request.content.length();
    (length > 0 || matches!(request.head.method(), "POST" | "PUT" | "PATCH")).then_some(length)
}

/// Whether the request has passed so many servers of this kind that it goes in a circle.
pub fn is_loop(request: &Request) -> bool {
    let via = request.head.fields().filter(|(name, _)| is(name, "via"));
    via.flat_map(|(_, value)| members(value)).filter(|hop| *hop == VIA.as_bytes()).count() >= MOST_HOPS
}

/// What the server says about its client, in the usual fields and in RFC 7239's.
fn add_forwarded(request: &Request, add: &mut impl FnMut(&str, &[u8])) {
    let (scheme, host) = (request.ends.scheme.text(), request.authority());
    let ip = request.ends.client_ip();
    if let Some(ip) = ip {
        let ip = ip.to_string();
        add("X-Forwarded-For", ip.as_bytes());
        add("X-Real-IP", ip.as_bytes());
    }
    let by = match ip {
        Some(ip) if ip.is_ipv6() => format!("for=\"[{ip}]\""),
        Some(ip) => format!("for={ip}"),
        None => "for=unknown".to_owned(),
    };
    add("Forwarded", format!("{by};host=\"{host}\";proto={scheme}").as_bytes());
    add("X-Forwarded-Proto", scheme.as_bytes());
    add("X-Forwarded-Host", host.as_bytes());
}

/// The host that the application is asked for.
pub fn host<'a>(proxy: &'a Proxy, url: &'a AppUrl, request: &'a Request) -> &'a str {
    match &proxy.host {
        ProxyHost::Visitor if !request.authority().is_empty() => request.authority(),
        ProxyHost::Visitor | ProxyHost::Application => &url.authority,
        ProxyHost::Named(host) => host,
    }
}

fn is_withheld(name: &str) -> bool {
    let is_forwarded = name.get(..12).is_some_and(|start| is_same_variable(start, "x-forwarded-"));
    is_forwarded || WITHHELD.into_iter().any(|known| is_same_variable(name, known))
}

fn is(name: &str, known: &str) -> bool {
    name.eq_ignore_ascii_case(known)
}

/// The members of a list.
pub fn members(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

pub fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
pub(in crate::proxy) mod tests {
    use super::*;
    use std::net::SocketAddr;

    use millrace_wire::head::{Head, Limits};

    use millrace_base::message::request::{Content, Ends, Scheme};

    /// A proxy with these lines, and usual ones for what is missing.
    pub fn proxy(lines: &str) -> Proxy {
        let dir = std::env::temp_dir().join(format!("millrace-proxy-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join(format!("{:x}.toml", lines.len() as u64 ^ lines.as_ptr() as u64));
        let to = if lines.contains("to =") { "" } else { "to = \"http://app:81\"\n" };
        std::fs::write(
            &file,
            format!("[php]\nenabled = false\n[[site]]\nroot = \"/\"\n[[site.proxy]]\n{to}{lines}\n"),
        )
        .unwrap();
        let source = millrace_settings::Source { config: Some(file.clone()), ..Default::default() };
        let (plan, _) = millrace_settings::load(&source).unwrap_or_else(|problems| panic!("{problems}"));
        std::fs::remove_file(file).unwrap();
        plan.sites[0].proxies[0].clone()
    }

    /// The request with this head, over TLS from 10.0.0.9.
    pub fn request(lines: &str) -> Request {
        let (mut head, text) = (Head::default(), lines.replace('\n', "\r\n") + "\r\n\r\n");
        head.parse(text.as_bytes(), &Limits { bytes: 4096, fields: 50, target: 999 }).unwrap().unwrap();
        let client = Some(SocketAddr::new([10, 0, 0, 9].into(), 4711));
        Request::direct(head, Ends { client, local: None, scheme: Scheme::Https, tls: None })
    }

    fn sent(lines: &str, request: &Request) -> String {
        let (proxy, mut out) = (proxy(&format!("path = \"/a/\"\n{lines}")), Vec::new());
        write(&proxy, &proxy.to[0], request, request.raw_path(), None, &mut out);
        String::from_utf8(out).unwrap()
    }

    const OURS: &str = "X-Forwarded-For: 10.0.0.9\r\nX-Real-IP: 10.0.0.9\r\nForwarded: for=10.0.0.9;host=\"b.test:8\";proto=https\r\n\
        X-Forwarded-Proto: https\r\nX-Forwarded-Host: b.test:8\r\nVia: 1.1 millrace\r\n";

    #[test]
    fn nothing_of_the_connection_is_passed_on() {
        let text = "GET /a/x HTTP/1.1\nHost: b.test:8\nConnection: keep-alive, X-Secret\nX-Secret: s\nKeep-Alive: 5\n\
            TE: gzip\nUpgrade: h2c\nHTTP2-Settings: x\nProxy-Connection: x\nProxy-Authorization: x\nProxy: x\n\
            Accept: */*\nCookie: a=b";
        let rest = "Accept: */*\r\nCookie: a=b\r\n";
        assert_eq!(
            sent("", &request(text)),
            format!("GET /a/x HTTP/1.1\r\nHost: b.test:8\r\n{rest}{OURS}\r\n")
        );
        let trailers = "GET /a/x HTTP/1.1\nHost: b.test:8\nTE: gzip;q=0.5, trailers";
        assert_eq!(
            sent("", &request(trailers)),
            format!("GET /a/x HTTP/1.1\r\nHost: b.test:8\r\n{OURS}Connection: TE\r\nTE: trailers\r\n\r\n")
        );
    }

    #[test]
    fn strangers_say_nothing_about_themselves() {
        let text = "GET /a/x HTTP/1.1\nHost: b.test:8\nX-Forwarded-For: 1.1.1.1\nX_Forwarded_Proto: x\nX-Forwarded-Prefix: /x\n\
            Forwarded: for=1.1.1.1\nX-Real-Ip: 1.1.1.1\nX_REAL_IP: 1.1.1.1\nX-Client-IP: 1.1.1.1";
        assert_eq!(sent("", &request(text)), format!("GET /a/x HTTP/1.1\r\nHost: b.test:8\r\n{OURS}\r\n"));
    }

    #[test]
    fn the_host_is_as_configured() {
        let request = request("GET /a/x HTTP/1.1\nHost: b.test:8");
        for (line, host) in
            [("host = \"application\"", "app:81"), ("host = \"c.test\"", "c.test"), ("", "b.test:8")]
        {
            assert!(sent(line, &request).contains(&format!("\r\nHost: {host}\r\n")), "{line}");
        }
    }

    #[test]
    fn the_length_is_that_of_the_content_that_is_here() {
        let mut upload =
            request("POST /a/x HTTP/1.1\nHost: b.test:8\nTransfer-Encoding: chunked\nExpect: 100-continue");
        let head = format!("POST /a/x HTTP/1.1\r\nHost: b.test:8\r\n{OURS}");
        assert_eq!(sent("", &upload), format!("{head}Content-Length: 0\r\n\r\n"));
        upload.content = Content::Memory(b"hello".to_vec());
        assert_eq!(sent("", &upload), format!("{head}Content-Length: 5\r\n\r\n"));
    }

    #[test]
    fn a_circle_is_noticed() {
        let via = |count: usize| {
            request(&format!("GET /a/ HTTP/1.1\nHost: b\nVia: 1.0 x, {}", vec![VIA; count].join(", ")))
        };
        assert!(!is_loop(&via(MOST_HOPS - 1)) && is_loop(&via(MOST_HOPS)));
        assert!(sent("", &via(1)).contains("\r\nVia: 1.0 x, 1.1 millrace, 1.1 millrace\r\n"));
    }
}
