//! Addresses and paths as Millrace writes them.

use crate::value::{Adopted, Toml};

/// `80`, `*:80`, `[::]:80`, `10.0.0.1`, `unix:/x`, as `:80`, `10.0.0.1:80`, `unix:/x`; `None` if it is none of these.
pub fn address(text: &str, port: u16) -> Option<String> {
    if text.starts_with("unix:/") {
        return Some(text.to_owned());
    }
    if let Ok(port) = text.parse::<u16>() {
        return Some(format!(":{port}"));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (text, port),
    };
    match host {
        "" | "*" | "0.0.0.0" | "[::]" | "_default_" => Some(format!(":{port}")),
        "localhost" => Some(format!("127.0.0.1:{port}")),
        _ => format!("{host}:{port}").parse::<std::net::SocketAddr>().ok().map(|address| address.to_string()),
    }
}

/// The port of an address; `None` of a Unix socket.
pub fn port(address: &str) -> Option<u16> {
    address.rsplit_once(':').and_then(|(_, port)| port.parse().ok())
}

/// The paths of proxies for a prefix of other servers: `/api` is itself and what is below it. What is stripped ends with a
/// slash.
pub fn proxy_paths(prefix: &str, strips: bool) -> Vec<String> {
    match prefix.ends_with('/') {
        true => vec![prefix.to_owned()],
        false if strips => vec![format!("{prefix}/")],
        false => vec![prefix.to_owned(), format!("{prefix}/")],
    }
}

/// Removes addresses that another one covers: `:80` accepts the connections of `127.0.0.1:80`, too. An address that one site has
/// with TLS has it for all.
pub fn widest(adopted: &mut Adopted) {
    if let Some(Toml::List(secure)) = adopted.settings.get("https.listen").cloned()
        && let Some((_, Toml::List(plain))) =
            adopted.settings.0.iter_mut().find(|(name, _)| name == "server.listen")
    {
        plain.retain(|address| !secure.contains(address));
    }
    adopted.settings.0.retain(|(_, value)| *value != Toml::List(Vec::new()));
    for key in ["server.listen", "https.listen"] {
        let Some((_, Toml::List(list))) = adopted.settings.0.iter_mut().find(|(name, _)| name == key) else {
            continue;
        };
        let wide: Vec<String> = list.iter().filter(|address| address.starts_with(':')).cloned().collect();
        list.retain(|address| {
            wide.contains(address)
                || !wide.iter().any(|wide| port(wide).is_some() && port(wide) == port(address))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("80", Some(":80")),
            ("*:8080", Some(":8080")),
            ("[::]:443", Some(":443")),
            ("0.0.0.0", Some(":80")),
            ("10.0.0.1", Some("10.0.0.1:80")),
            ("[::1]:81", Some("[::1]:81")),
            ("localhost:8000", Some("127.0.0.1:8000")),
            ("unix:/run/x.sock", Some("unix:/run/x.sock")),
            ("example.com:80", None),
        ] {
            assert_eq!(address(text, 80).as_deref(), expected, "{text}");
        }
    }
}
