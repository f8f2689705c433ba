//! Who sends a request: a program, or a browser for the dashboard.
//!
//! Any web page that a browser on this machine shows can have it send requests to a loopback address, and to a port that ssh forwards to the
//! socket file. So two things are checked before anything else:
//!
//! - the Host field must name this machine. A page of another host whose name an attacker lets lead to 127.0.0.1 (DNS rebinding) says that host;
//! - a request that a page has caused must come from a page of this address: browsers say so in Origin and Sec-Fetch-Site, which no page can set.
//!
//! What the dashboard may change, [`super::token`] decides. No response ever allows another origin to read it.

use std::net::IpAddr;

use millrace_wire::head::Head;

use super::http::AdminResponse;
use crate::cache::purge::bearer;

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A program, through the socket file, which only its owner can open.
    Owner,
    /// A program of this user through the socket file, which may be a PHP script if PHP runs as that user: it is confined as scripts are, or
    /// has ended.
    Confined(Option<u32>),
    /// A program of this user, through a loopback address; `None`: the user can't be found out.
    Program(Option<u32>),
    /// The dashboard, in a browser: a request that may change something.
    Dashboard,
}

/// How a request has come.
#[derive(Clone, Copy, Debug)]
pub enum Door {
    /// Through the socket file.
    Socket,
    /// Through the socket file, from a program of this user that has more filters of system calls than the server, or has ended.
    Confined(Option<u32>),
    /// Through a loopback address, from a program of this user.
    Tcp(Option<u32>),
}

/// Who sends this request.
///
/// # Errors
/// Nobody whom the admin address serves: the response.
pub fn of(head: &Head, door: Door) -> Result<Caller, AdminResponse> {
    let over_tcp = matches!(door, Door::Tcp(_));
    let host = host_of(head.authority());
    if !(is_loopback(host) || !over_tcp && is_local(host)) {
        return Err(AdminResponse::text(
            421,
            "Use 127.0.0.1, [::1] or localhost as the host name of the admin address.\n",
        ));
    }
    let origin = head.field("Origin");
    let site = head.field("Sec-Fetch-Site");
    let by_another = site.is_some_and(|site| !matches!(site, b"none" | b"same-origin"))
        || origin.is_some_and(|origin| !is_own(origin, head.authority()));
    if by_another {
        return Err(AdminResponse::text(403, "Web pages cannot use the admin address.\n"));
    }
    let by_dashboard =
        head.method() != "GET" && head.method() != "HEAD" && (origin.is_some() || site.is_some());
    Ok(match (by_dashboard, door) {
        (true, _) => Caller::Dashboard,
        (false, Door::Tcp(user)) => Caller::Program(user),
        (false, Door::Socket) => Caller::Owner,
        (false, Door::Confined(user)) => Caller::Confined(user),
    })
}

/// The secret that a request has; empty for none.
pub fn token_of(head: &Head) -> &str {
    head.field_text("Authorization").and_then(bearer).unwrap_or("")
}

/// Whether an origin is that of pages of this address (RFC 6454, section 7).
fn is_own(origin: &[u8], authority: &str) -> bool {
    let Ok(origin) = std::str::from_utf8(origin) else { return false };
    let host = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
    host.is_some_and(|host| host.eq_ignore_ascii_case(authority))
}

/// The host of an authority, without its port; an IPv6 address without brackets.
fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => authority.split(':').next().unwrap_or(""),
    }
}

/// Whether a host names this machine itself.
fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Whether no name server of others can say where a host is: programs write any word here when they use a socket file.
fn is_local(host: &str) -> bool {
    !host.contains('.') || host.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use millrace_wire::head::Limits;

    use super::*;

    fn head(text: &str) -> Head {
        let mut head = Head::default();
        let limits = Limits { bytes: 8_192, fields: 64, target: 1_024 };
        head.parse(format!("{text}\r\n\r\n").as_bytes(), &limits).unwrap().unwrap();
        head
    }

    fn caller(method: &str, host: &str, fields: &str, over_tcp: bool) -> String {
        let door = if over_tcp { Door::Tcp(None) } else { Door::Socket };
        match of(&head(&format!("{method} /purge HTTP/1.1\r\nHost: {host}{fields}")), door) {
            Ok(Caller::Program(None)) => "Program".to_owned(),
            Ok(caller) => format!("{caller:?}"),
            Err(refusal) => refusal.status().to_string(),
        }
    }

    #[test]
    fn loopback_names() {
        for yes in ["localhost", "LocalHost:9180", "127.0.0.1", "127.3.2.1:1", "[::1]:9180", "[::1]"] {
            assert_eq!(caller("GET", yes, "", true), "Program", "{yes}");
        }
        for no in ["example.com", "127.0.0.1.example.com", "localhost.example.com:80", "[::2]", "10.0.0.1:80"]
        {
            assert_eq!(caller("GET", no, "", true), "421", "{no}");
        }
    }

    /// Through the socket file, which ssh may forward to a port that a browser can use.
    #[test]
    fn any_word_names_a_socket_file() {
        for yes in ["localhost:9180", "x", "millrace", "10.0.0.1:9180", "[2001:db8::1]:80"] {
            assert_eq!(caller("POST", yes, "", false), "Owner", "{yes}");
        }
        for no in ["evil.example:9180", "a.b", "127.0.0.1.example.com"] {
            assert_eq!(caller("POST", no, "", false), "421", "{no}");
        }
    }

    #[test]
    fn pages_of_others_are_kept_out() {
        let page = |fields: &str| caller("POST", "localhost:9180", fields, true);
        assert_eq!(page("\r\nOrigin: http://localhost:9180"), "Dashboard");
        assert_eq!(page("\r\nOrigin: http://LOCALHOST:9180\r\nSec-Fetch-Site: same-origin"), "Dashboard");
        assert_eq!(page("\r\nSec-Fetch-Site: same-origin"), "Dashboard");
        assert_eq!(page("\r\nSec-Fetch-Site: none"), "Dashboard");
        for others in [
            "Origin: http://localhost",
            "Origin: http://localhost:9181",
            "Origin: http://127.0.0.1:9180",
            "Origin: https://example.com",
            "Origin: null",
            "Origin: localhost:9180",
            "Origin: \u{e9}",
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Site: same-site",
            "Sec-Fetch-Site: x",
            "Origin: http://localhost:9180\r\nSec-Fetch-Site: cross-site",
        ] {
            assert_eq!(page(&format!("\r\n{others}")), "403", "{others}");
        }
        // A rebound name is its own origin.
        let rebound = "\r\nOrigin: http://evil.example:9180";
        assert_eq!(caller("POST", "evil.example:9180", rebound, true), "421");
        assert_eq!(caller("POST", "evil.example:9180", rebound, false), "421");
        // What only reads is the dashboard's own, too; the question before a request of another page is not.
        assert_eq!(caller("GET", "localhost", "\r\nSec-Fetch-Site: same-origin", true), "Program");
        assert_eq!(caller("OPTIONS", "localhost", "\r\nOrigin: https://example.com", true), "403");
    }

    #[test]
    fn tokens() {
        for (field, token) in [
            ("Authorization: Bearer abc", "abc"),
            ("authorization: bearer  abc ", "abc"),
            ("Authorization: Basic abc", ""),
            ("Authorization: Bearer", ""),
            ("Authorization: Bearer \u{e9}", ""),
            ("X: y", ""),
        ] {
            assert_eq!(token_of(&head(&format!("GET / HTTP/1.1\r\nHost: a\r\n{field}"))), token, "{field}");
        }
    }
}
