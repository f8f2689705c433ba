//! A switch to another protocol: what the client asks for, and whether the application agrees.

use aws_lc_rs::{digest, rand};
use data_encoding::BASE64;
use millrace_settings::plan::Proxy;
use millrace_wire::head::{Framing, Version};
use millrace_wire::response;

use super::head::{line, members};
use millrace_base::message::Request;
use millrace_base::message::reply::Fields;

/// Protocols that are never switched to: requests in them would reach the application unseen.
const NEVER: [&str; 3] = ["h2c", "http", "tls"];
/// What a WebSocket server appends to the key (RFC 6455 section 1.3).
const WEBSOCKET: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A switch that a client asks for.
#[derive(Debug)]
pub struct Switch {
    protocol: Box<str>,
    /// The key of a WebSocket of an HTTP/2 client, which has none of its own.
    key: Option<String>,
}

impl Switch {
    /// The switch that a request asks for, if the proxy allows it.
    pub fn wanted(proxy: &Proxy, request: &Request) -> Option<Switch> {
        if !proxy.websocket {
            return None;
        }
        if let Some(protocol) = &request.protocol {
            let mut key = [0; 16];
            rand::fill(&mut key).ok()?;
            return Some(Switch { protocol: protocol.clone(), key: Some(BASE64.encode(&key)) });
        }
        let head = &request.head;
        let mut upgrades = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("upgrade"));
        let (_, protocol) = upgrades.next()?;
        let connection = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
        let mut named = connection.flat_map(|(_, value)| members(value));
        let fits = head.version() == Version::Http11
            && head.framing() == Framing::None
            && upgrades.next().is_none()
            && named.any(|name| name.eq_ignore_ascii_case(b"upgrade"));
        let protocol = std::str::from_utf8(protocol).ok().filter(|_| fits)?;
        is_allowed(protocol).then(|| Switch { protocol: protocol.into(), key: None })
    }

    /// Appends its fields of the request.
    pub fn write(&self, out: &mut Vec<u8>) {
        line(out, "Connection", b"Upgrade");
        line(out, "Upgrade", self.protocol.as_bytes());
        if let Some(key) = &self.key {
            line(out, "Sec-WebSocket-Key", key.as_bytes());
        }
    }

    /// The status and the fields of the client's response, if the application agrees to this switch. `bytes`: the header section
    /// of its response, whose `fields` are for the client.
    pub fn agreed(&self, bytes: &[u8], fields: &Fields) -> Option<(u16, Fields)> {
        let chosen = response::field(bytes, "upgrade")?;
        let asked = &mut members(self.protocol.as_bytes());
        if !asked.any(|protocol| protocol.eq_ignore_ascii_case(chosen.as_bytes())) {
            return None;
        }
        let Some(key) = &self.key else {
            let mut all = fields.clone();
            all.push("Connection", b"Upgrade");
            all.push("Upgrade", chosen.as_bytes());
            return Some((101, all));
        };
        const ACCEPT: &str = "sec-websocket-accept";
        if response::field(bytes, ACCEPT)? != accept(key) {
            return None;
        }
        let mut all = Fields::default();
        let others = fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(ACCEPT));
        others.for_each(|(name, value)| all.push(name, value));
        Some((200, all))
    }
}

fn is_allowed(protocol: &str) -> bool {
    let name = |member: &str| member.split('/').next().unwrap_or_default().trim().to_ascii_lowercase();
    let mut all = protocol.split(',');
    !protocol.is_empty() && all.all(|member| !NEVER.contains(&name(member).as_str()))
}

/// The proof that a server has understood the key (RFC 6455 section 4.2.2).
fn accept(key: &str) -> String {
    let text = [key.as_bytes(), WEBSOCKET].concat();
    BASE64.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::head::tests::{proxy, request};

    fn wanted(lines: &str, more: &str) -> Option<String> {
        let request = request(&format!("GET /a HTTP/1.1\nHost: a\n{lines}"));
        let switch = Switch::wanted(&proxy(&format!("path = \"/\"\n{more}")), &request)?;
        Some(switch.protocol.into())
    }

    #[test]
    fn only_what_a_client_asks_for_properly() {
        let yes = "Connection: keep-alive, Upgrade\nUpgrade: websocket";
        assert_eq!(wanted(yes, "").as_deref(), Some("websocket"));
        assert_eq!(wanted(yes, "websocket = false"), None);
        for no in [
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: x",
            "Connection: Upgrade\nUpgrade: websocket, H2C",
            "Connection: Upgrade\nUpgrade: TLS/1.2",
            "Connection: Upgrade\nUpgrade: websocket\nUpgrade: x",
            "Connection: Upgrade\nUpgrade: websocket\nContent-Length: 3",
        ] {
            assert_eq!(wanted(no, ""), None, "{no}");
        }
    }

    #[test]
    fn an_application_must_agree_to_what_was_asked() {
        let switch = Switch { protocol: "websocket".into(), key: None };
        let head = |upgrade: &str| format!("HTTP/1.1 101 x\r\n{upgrade}\r\n\r\n").into_bytes();
        let (status, fields) = switch.agreed(&head("Upgrade: WebSocket"), &Fields::default()).unwrap();
        assert_eq!(
            (status, fields.blocks().concat().as_slice()),
            (101, &b"Connection: Upgrade\r\nUpgrade: WebSocket\r\n"[..])
        );
        assert!(switch.agreed(&head("Upgrade: other"), &Fields::default()).is_none());
        assert!(switch.agreed(&head("X: y"), &Fields::default()).is_none());
    }

    #[test]
    fn the_key_is_answered_as_rfc_6455_says() {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        assert_eq!(accept(key), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let switch = Switch { protocol: "websocket".into(), key: Some(key.to_owned()) };
        let head = |accept: &str| {
            format!("HTTP/1.1 101 x\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n")
                .into_bytes()
        };
        let mut fields = Fields::default();
        fields.push("Sec-WebSocket-Accept", b"x");
        fields.push("Sec-WebSocket-Protocol", b"chat");
        let (status, fields) = switch.agreed(&head(&accept(key)), &fields).unwrap();
        assert_eq!(
            (status, fields.blocks().concat().as_slice()),
            (200, &b"Sec-WebSocket-Protocol: chat\r\n"[..])
        );
        assert!(switch.agreed(&head("bm8="), &fields).is_none());
    }
}
