//! What a trusted proxy says about its client: `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host`. From other
//! clients these are ordinary fields.

use std::net::{IpAddr, SocketAddr};

use millrace_settings::plan::NetworkSet;
use millrace_wire::head::Head;

use super::{Ends, Scheme};

/// The ends as the site should see them, and the host that the client requested from the proxy.
pub fn apply(trusted: &NetworkSet, ends: Ends, head: &Head) -> (Ends, Option<Box<str>>) {
    if !trusted.contains(ends.client_ip()) {
        return (ends, None);
    }
    let mut seen = ends;
    if let Some(client) = client_of(trusted, head) {
        // The proxy does not name its client's port.
        seen.client = Some(SocketAddr::new(client, 0));
    }
    match last_item(head, "X-Forwarded-Proto") {
        Some(proto) if proto.eq_ignore_ascii_case("https") => seen.scheme = Scheme::Https,
        Some(proto) if proto.eq_ignore_ascii_case("http") => seen.scheme = Scheme::Http,
        _ => {}
    }
    let is_host = |host: &&str| {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~:[]".contains(&b))
    };
    (seen, last_item(head, "X-Forwarded-Host").filter(is_host).map(Box::from))
}

/// The last address that does not belong to a trusted proxy: addresses before it can't be trusted.
fn client_of(trusted: &NetworkSet, head: &Head) -> Option<IpAddr> {
    let lists: Vec<&str> = head
        .fields()
        .filter(|(name, _)| name.eq_ignore_ascii_case("X-Forwarded-For"))
        .filter_map(|(_, value)| std::str::from_utf8(value).ok())
        .collect();
    let mut client = None;
    for item in lists.iter().rev().flat_map(|list| list.rsplit(',')) {
        let Ok(address) = item.trim().trim_matches(['[', ']']).parse::<IpAddr>() else { break };
        client = Some(address);
        if !trusted.contains(client) {
            break;
        }
    }
    client
}

fn last_item<'a>(head: &'a Head, name: &str) -> Option<&'a str> {
    head.field_text(name).and_then(|value| value.rsplit(',').next()).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_settings::plan::Network;
    use millrace_wire::head::Limits;

    fn seen(fields: &str, peer: &str) -> (Ends, Option<Box<str>>) {
        let mut head = Head::default();
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        head.parse(text.as_bytes(), &Limits { bytes: 4096, fields: 50, target: 100 }).unwrap().unwrap();
        let client = Some(SocketAddr::new(peer.parse().unwrap(), 4711));
        let trusted = [Network::Block([10, 0, 0, 0].into(), 8), Network::Block("fd00::".parse().unwrap(), 8)];
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
    fn a_host_is_a_host() {
        assert_eq!(seen("X-Forwarded-Host: a/b\r\n", "10.0.0.1").1, None);
    }
}
