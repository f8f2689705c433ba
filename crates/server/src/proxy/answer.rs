//! The header section of an application's response: what of it is for the client.

use millrace_wire::response;

use super::head::members;
use crate::message::reply::{Fields, Handed};

/// Fields of the connection, and those that the protocol adds for the client.
const OURS: [&str; 11] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What a response's header section says.
#[derive(Debug, Default)]
pub struct AppHead {
    /// Fields for the client.
    pub fields: Fields,
    /// Content-Length, also in a response to HEAD.
    pub length: Option<u64>,
    /// The client's status if the connection has switched protocols.
    pub switched: Option<u16>,
}

/// Reads a header section, which the parser has accepted. Fields by which a script hands files over are dropped: only
/// the site's own scripts may.
pub fn read(bytes: &[u8]) -> AppHead {
    let mut head = AppHead::default();
    head.fields.reserve(512);
    let all = response::fields(bytes);
    let is = |name: &str, known: &str| name.eq_ignore_ascii_case(known);
    let connection = all.iter().filter(|(name, _)| is(name, "connection"));
    let named: Vec<&[u8]> = connection.flat_map(|(_, value)| members(value)).collect();
    for (name, value) in all {
        if is(name, "content-length") {
            head.length = std::str::from_utf8(value).ok().and_then(|digits| digits.trim().parse().ok());
        }
        let is_named = named.iter().any(|other| other.eq_ignore_ascii_case(name.as_bytes()));
        if !is_named && !OURS.iter().any(|ours| is(name, ours)) && Handed::by(name).is_none() {
            head.fields.push(name, value);
        }
    }
    head
}

/// The lines of an interim response that a client may use: links (RFC 8297).
pub fn links(bytes: &[u8]) -> Vec<u8> {
    let mut lines = Fields::default();
    for value in response::values(bytes, "link") {
        lines.push("Link", value);
    }
    lines.blocks().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_for_the_client_are_passed_on() {
        let head = read(
            b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nServer: x\r\n\
              Date: x\r\nContent-Length: 12\r\nX-Accel-Redirect: /secret\r\nX-Sendfile: /etc/passwd\r\nSet-Cookie: a=1\r\n\
              set-cookie: b=2\r\nTrailer: x\r\nUpgrade: h2c\r\n\r\n",
        );
        assert_eq!(head.fields.blocks().concat(), b"Set-Cookie: a=1\r\nset-cookie: b=2\r\n");
        assert_eq!(head.length, Some(12));
    }

    #[test]
    fn hints_are_links() {
        let hints =
            b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX: y\r\nlink: </b.js>\r\n\r\n";
        assert_eq!(links(hints), b"Link: </a.css>; rel=preload\r\nLink: </b.js>\r\n");
    }
}
