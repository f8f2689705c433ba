//! The header section of an application's response: what of it is for the client.

use super::head::members;
use millrace_base::message::reply::{Fields, Handed};

/// Fields of the connection, and those that the protocol adds for the client.
const OURS: [&str; 10] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "server",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Fields that are no trailers: their readers need them before the content, because they are about framing, routing,
/// the request, authentication, the content, or what to do with the response (RFC 9110 section 6.5.1). Names that
/// begin with `if-` are in this group, too.
const NO_TRAILERS: [&str; 24] = [
    "accept-ranges",
    "age",
    "authorization",
    "cache-control",
    "clear-site-data",
    "content-encoding",
    "content-length",
    "content-range",
    "content-security-policy",
    "content-type",
    "cookie",
    "expect",
    "expires",
    "host",
    "location",
    "max-forwards",
    "pragma",
    "range",
    "retry-after",
    "set-cookie",
    "strict-transport-security",
    "vary",
    "warning",
    "www-authenticate",
];

/// What a response's header section says.
#[derive(Debug, Default)]
pub struct AppHead {
    /// Fields for the client.
    pub fields: Fields,
    /// `Date`, which says how old the response is (RFC 9111 section 4.2.3).
    pub date: Fields,
    /// Content-Length, also in a response to HEAD.
    pub length: Option<u64>,
    /// The client's status if the connection has switched protocols.
    pub switched: Option<u16>,
}

/// Reads the fields of a header section, which the parser has accepted. Fields by which a script hands files over are dropped: only
/// the site's own scripts may. `Trailer` stays if the client `takes_trailers`.
pub fn read(all: &[(&str, &[u8])], takes_trailers: bool) -> AppHead {
    let mut head = AppHead::default();
    head.fields.reserve(512);
    let is = |name: &str, known: &str| name.eq_ignore_ascii_case(known);
    let connection = all.iter().filter(|(name, _)| is(name, "connection"));
    let named: Vec<&[u8]> = connection.flat_map(|(_, value)| members(value)).collect();
    for &(name, value) in all {
        if is(name, "content-length") {
            head.length = std::str::from_utf8(value).ok().and_then(|digits| digits.trim().parse().ok());
        }
        if is(name, "date") {
            head.date.push(name, value);
        }
        let is_named = named.iter().any(|other| other.eq_ignore_ascii_case(name.as_bytes()));
        let is_ours = OURS.iter().any(|ours| is(name, ours)) || (is(name, "trailer") && !takes_trailers);
        if !is_named && !is_ours && Handed::by(name).is_none() {
            head.fields.push(name, value);
        }
    }
    head
}

/// The trailers for the client, from those of the application.
pub fn trailers<'a>(all: impl Iterator<Item = (&'a str, &'a [u8])>) -> Fields {
    let mut trailers = Fields::default();
    for (name, value) in all {
        if is_trailer(name) {
            trailers.push(name, value);
        }
    }
    trailers
}

/// Whether a field of this name may be a trailer.
pub fn is_trailer(name: &str) -> bool {
    let is = |known: &&str| name.eq_ignore_ascii_case(known);
    let is_condition = name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("if-"));
    let is_known = OURS.iter().any(is) || NO_TRAILERS.iter().any(is) || is(&"trailer");
    !is_condition && !is_known && Handed::by(name).is_none()
}

/// The lines of an interim response that a client may use: `links` (RFC 8297).
pub fn links<'a>(links: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut lines = Fields::default();
    for value in links {
        lines.push("Link", value);
    }
    lines.blocks().concat()
}

#[cfg(test)]
mod tests {
    use millrace_wire::response;

    use super::*;

    #[test]
    fn only_fields_for_the_client_are_passed_on() {
        let head = read(
            &response::fields(b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nServer: x\r\n\
              Date: x\r\nContent-Length: 12\r\nX-Accel-Redirect: /secret\r\nX-Sendfile: /etc/passwd\r\nSet-Cookie: a=1\r\n\
              set-cookie: b=2\r\nTrailer: x\r\nUpgrade: h2c\r\n\r\n"),
            false,
        );
        assert_eq!(head.fields.blocks().concat(), b"Set-Cookie: a=1\r\nset-cookie: b=2\r\n");
        assert_eq!(head.length, Some(12));
    }

    #[test]
    fn trailers_are_what_may_come_last() {
        let trailers = |lines: &str| {
            let all = lines.split(' ').map(|name| (name, &b"x"[..]));
            String::from_utf8(trailers(all).blocks().concat()).unwrap()
        };
        assert_eq!(
            trailers("grpc-status X-Sum Server-Timing"),
            "grpc-status: x\r\nX-Sum: x\r\nServer-Timing: x\r\n"
        );
        let never = "Transfer-Encoding content-length Host Set-Cookie Cookie If-Match Authorization WWW-Authenticate \
            Content-Type Content-Encoding Content-Range Trailer Connection Date Server X-Accel-Redirect X-Sendfile Vary";
        assert_eq!(trailers(never), "");
        assert_eq!(read(&[("Trailer", b"x")], true).fields.blocks().concat(), b"Trailer: x\r\n");
    }

    #[test]
    fn hints_are_links() {
        let hints =
            b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX: y\r\nlink: </b.js>\r\n\r\n";
        assert_eq!(
            links(response::values(hints, "link")),
            b"Link: </a.css>; rel=preload\r\nLink: </b.js>\r\n"
        );
    }
}
