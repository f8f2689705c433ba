//! What a trusted proxy says about its client: `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host`, and what none of them
//! says, `Forwarded` (RFC 7239). From other clients these are ordinary fields.
//!
//! A proxy that writes one kind of them passes the other on as a client has sent it. Most write `X-Forwarded-For`: if there is one,
//! `Forwarded` does not count.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use millrace_settings::plan::NetworkSet;
use millrace_wire::head::Head;

use super::{Ends, Scheme};

/// The ends as the site should see them, and the host that the client requested from the proxy.
pub fn apply(trusted: &NetworkSet, ends: Ends, head: &Head) -> (Ends, Option<Box<str>>) {
    if !trusted.contains(ends.client_ip()) {
        return (ends, None);
    }
    let mut seen = ends;
    let forwarded = if head.field(FOR).is_none() { head.field_text("Forwarded") } else { None };
    let forwarded = forwarded.map(|_| forwarded_items(head)).unwrap_or_default();
    if let Some(client) = client_of(trusted, head, &forwarded) {
        // The proxy does not name its client's port.
        seen.client = Some(SocketAddr::new(client, 0));
    }
    let said = |name: &str| parameter(forwarded.last()?, name);
    let (proto, host) = (said("proto"), said("host"));
    match last_item(head, "X-Forwarded-Proto").or(proto.as_deref()) {
        Some(proto) if proto.eq_ignore_ascii_case("https") => seen.scheme = Scheme::Https,
        Some(proto) if proto.eq_ignore_ascii_case("http") => seen.scheme = Scheme::Http,
        _ => {}
    }
    let is_host = |host: &&str| {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~:[]".contains(&b))
    };
    let host = last_item(head, "X-Forwarded-Host").or(host.as_deref());
    (seen, host.filter(is_host).map(Box::from))
}

const FOR: &str = "X-Forwarded-For";

/// The last address that does not belong to a trusted proxy: addresses before it can't be trusted.
fn client_of(trusted: &NetworkSet, head: &Head, forwarded: &[String]) -> Option<IpAddr> {
    let lists: Vec<&str> = head
        .fields()
        .filter(|(name, _)| name.eq_ignore_ascii_case(FOR))
        .filter_map(|(_, value)| std::str::from_utf8(value).ok())
        .collect();
    let plain = lists.iter().rev().flat_map(|list| list.rsplit(',')).map(|item| Some(Cow::Borrowed(item)));
    let named = forwarded.iter().rev().map(|item| parameter(item, "for"));
    let mut client = None;
    for item in plain.chain(named) {
        let Some(address) = item.and_then(|item| address(&item)) else { break };
        client = Some(address);
        if !trusted.contains(client) {
            break;
        }
    }
    client
}

/// An address, perhaps with a port: `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]:4711`.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::from);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse().ok().or_else(bracketed).or_else(with_port)
}

/// The elements of all fields `Forwarded`: one for each proxy, the last one's last.
fn forwarded_items(head: &Head) -> Vec<String> {
    let fields = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("Forwarded"));
    let texts = fields.filter_map(|(_, value)| std::str::from_utf8(value).ok());
    texts.flat_map(|text| split_unquoted(text, ',')).map(str::to_owned).collect()
}

/// The value of a parameter of an element of `Forwarded`, without its quotes.
fn parameter<'a>(item: &'a str, name: &str) -> Option<Cow<'a, str>> {
    split_unquoted(item, ';').into_iter().find_map(|pair| {
        let (known, value) = pair.trim().split_once('=')?;
        let value = || match value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) {
            Some(quoted) => Cow::Owned(quoted.replace('\\', "")),
            None => Cow::Borrowed(value),
        };
        known.eq_ignore_ascii_case(name).then(value)
    })
}

/// The parts of `text` between separators that are in no quoted string.
fn split_unquoted(text: &str, separator: char) -> Vec<&str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(|char| {
        is_quoted ^= char == '"' && !is_escaped;
        is_escaped = is_quoted && char == '\\' && !is_escaped;
        char == separator && !is_quoted
    })
    .collect()
}

fn last_item<'a>(head: &'a Head, name: &str) -> Option<&'a str> {
    head.field_text(name).and_then(|value| value.rsplit(',').next()).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_settings::plan::Peers;
    use millrace_wire::head::Limits;

    fn seen(fields: &str, peer: &str) -> (Ends, Option<Box<str>>) {
        let mut head = Head::default();
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        head.parse(text.as_bytes(), &Limits { bytes: 4096, fields: 50, target: 100 }).unwrap().unwrap();
        let client = Some(SocketAddr::new(peer.parse().unwrap(), 4711));
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| Peers::In(network.parse().unwrap()));
        apply(
            &NetworkSet::new(&trusted),
            Ends { client, local: None, scheme: Scheme::Http, tls: None },
            &head,
        )
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        let fields = "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b:81\r\n";
        let (ends, host) = seen(fields, "10.1.2.3");
        assert_eq!((ends.client_ip().unwrap().to_string().as_str(), ends.scheme), ("1.2.3.4", Scheme::Https));
        assert_eq!(host.as_deref(), Some("b:81"));
        let (ends, host) = seen(fields, "11.1.2.3");
        assert_eq!((ends.client_ip().unwrap().to_string().as_str(), ends.scheme), ("11.1.2.3", Scheme::Http));
        assert_eq!(host, None);
    }

    #[test]
    fn forged_addresses_are_passed_over() {
        let client =
            |list: &str| seen(&format!("X-Forwarded-For: {list}\r\n"), "10.0.0.1").0.client_ip().unwrap();
        assert_eq!(client("6.6.6.6, 1.2.3.4").to_string(), "1.2.3.4");
        assert_eq!(client("6.6.6.6, 1.2.3.4, 10.9.9.9").to_string(), "1.2.3.4");
        assert_eq!(client("6.6.6.6, rubbish, 10.9.9.9").to_string(), "10.9.9.9");
        assert_eq!(client("fd12::1, fe80::1").to_string(), "fe80::1");
    }

    #[test]
    fn addresses_may_have_ports() {
        for (list, client) in [
            ("1.2.3.4:567", "1.2.3.4"),
            ("6.6.6.6:1, 1.2.3.4:567, 10.9.9.9:80", "1.2.3.4"),
            ("[2001:db8::1]:55", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("1.2.3.4:x", "10.0.0.1"),
            ("1.2.3.4:70000", "10.0.0.1"),
            ("[1.2.3.4]", "10.0.0.1"),
        ] {
            let (ends, _) = seen(&format!("X-Forwarded-For: {list}\r\n"), "10.0.0.1");
            assert_eq!(ends.client_ip().unwrap().to_string(), client, "{list}");
        }
    }

    #[test]
    fn forwarded_is_read_where_nothing_else_says_it() {
        for (fields, client, scheme, host) in [
            ("Forwarded: for=1.2.3.4;proto=https;host=b.test", "1.2.3.4", Scheme::Https, Some("b.test")),
            ("Forwarded: for=6.6.6.6, For=\"1.2.3.4:80\" ; Proto=HTTPS", "1.2.3.4", Scheme::Https, None),
            ("Forwarded: for=\"[2001:db8::1]:4711\"", "2001:db8::1", Scheme::Http, None),
            (
                "Forwarded: for=1.2.3.4\r\nForwarded: for=10.9.9.9;host=\"c.test:81\"",
                "1.2.3.4",
                Scheme::Http,
                Some("c.test:81"),
            ),
            // A comma or a semicolon in a quoted string separates nothing.
            ("Forwarded: for=1.2.3.4;x=\"a, for=6.6.6.6;b\\\"\"", "1.2.3.4", Scheme::Http, None),
            ("Forwarded: for=6.6.6.6, for=unknown", "10.0.0.1", Scheme::Http, None),
            ("Forwarded: for=_hidden", "10.0.0.1", Scheme::Http, None),
            ("Forwarded: for=6.6.6.6;host=x.test\r\nX-Forwarded-For: 1.2.3.4", "1.2.3.4", Scheme::Http, None),
            ("Forwarded: for", "10.0.0.1", Scheme::Http, None),
        ] {
            let (ends, named) = seen(&format!("{fields}\r\n"), "10.0.0.1");
            let found = (ends.client_ip().unwrap().to_string(), ends.scheme, named.as_deref());
            assert_eq!(found, (client.to_owned(), scheme, host), "{fields}");
        }
        assert_eq!(
            seen("Forwarded: for=1.2.3.4\r\n", "11.1.2.3").0.client_ip().unwrap().to_string(),
            "11.1.2.3"
        );
    }

    #[test]
    fn a_host_is_a_host() {
        assert_eq!(seen("X-Forwarded-Host: a/b\r\n", "10.0.0.1").1, None);
    }
}
