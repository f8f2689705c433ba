//! The address that visitors use: `--url`.

use crate::failure::Failure;

/// `http://127.0.0.1:8080` unless the user sets another.
#[derive(Debug, PartialEq, Eq)]
pub struct SiteAddress {
    scheme: &'static str,
    authority: String,
    /// The user set this address: WordPress keeps it. Otherwise it follows the loopback address on which it is
    /// served.
    fixed: bool,
}

impl SiteAddress {
    /// Checks `--url`.
    ///
    /// # Errors
    /// When it isn't `http://` or `https://` with a host name and perhaps a port, and nothing else.
    pub fn parse(url: Option<&str>) -> Result<SiteAddress, Failure> {
        let Some(url) = url else {
            return Ok(SiteAddress { scheme: "http", authority: "127.0.0.1:8080".into(), fixed: false });
        };
        let bad = |why: &str| {
            Failure::new(format!("--url {url}: {why}"))
                .next("example: --url https://example.com or --url http://127.0.0.1:8080")
        };
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| bad("it must begin with http:// or https://"))?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => "http",
            "https" => "https",
            _ => return Err(bad("it must begin with http:// or https://")),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#']) {
            return Err(bad("it must not have a path: Millrace serves a site at the root of a host name"));
        }
        if rest.contains('@') {
            return Err(bad("it must not have a user or password"));
        }
        let authority = rest.to_ascii_lowercase();
        check_authority(&authority).map_err(bad)?;
        let standard = if scheme == "http" { ":80" } else { ":443" };
        let authority = authority.strip_suffix(standard).unwrap_or(&authority).to_owned();
        Ok(SiteAddress { scheme, authority, fixed: true })
    }

    /// `https://example.com`: scheme and authority, no slash at the end.
    pub fn base(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// Host and port, as the Host field carries them.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Host without port and brackets.
    pub fn host(&self) -> &str {
        split_port(&self.authority).0.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether visitors use https.
    pub fn is_https(&self) -> bool {
        self.scheme == "https"
    }

    /// Whether the user named the address.
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// The value of `--listen` for this address, if it isn't the default and this machine can serve it itself.
    pub fn listen_hint(&self) -> Option<String> {
        let (host, port) = split_port(&self.authority);
        let loopback = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
        let host = if host == "localhost" { "127.0.0.1" } else { host };
        (self.fixed && loopback && !self.is_https())
            .then(|| format!("{host}:{}", port.unwrap_or("80")))
            .filter(|listen| listen != "127.0.0.1:8080")
    }
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

fn check_authority(authority: &str) -> Result<(), &'static str> {
    let (host, port) = split_port(authority);
    if let Some(port) = port
        && !port.parse::<u16>().is_ok_and(|number| number > 0)
    {
        return Err("the port is not a number from 1 to 65535");
    }
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').ok_or("an IPv6 address needs brackets around it")?;
        return address.parse::<std::net::Ipv6Addr>().map(|_| ()).map_err(|_| "the IPv6 address is invalid");
    }
    let label = |l: &str| {
        (1..=63).contains(&l.len())
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    if host.is_empty() || host.len() > 253 || !host.split('.').all(label) {
        return Err("the host name is invalid (write international names in their xn-- form)");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> SiteAddress {
        SiteAddress::parse(Some(url)).expect("a good address")
    }

    #[test]
    fn good_addresses() {
        assert_eq!(parsed("https://Example.com/").base(), "https://example.com");
        assert_eq!(parsed("https://example.com:443").base(), "https://example.com");
        assert_eq!(parsed("http://127.0.0.1:9000").base(), "http://127.0.0.1:9000");
        assert_eq!(parsed("http://[::1]:9000").host(), "::1");
        assert_eq!(parsed("http://[::1]").host(), "::1");
        assert_eq!(SiteAddress::parse(None).expect("the default").base(), "http://127.0.0.1:8080");
    }

    #[test]
    fn bad_addresses() {
        for bad in [
            "example.com",
            "ftp://example.com",
            "http://",
            "http://a b",
            "http://example.com/blog",
            "http://a:0",
            "http://a:99999",
            "http://a:port",
            "http://u:p@example.com",
            "http://-a.com",
            "http://a..b",
            "http://[::1",
            "http://[::g]",
            "http://b\u{fc}cher.de",
            "http://x?y",
        ] {
            assert!(SiteAddress::parse(Some(bad)).is_err(), "{bad} was taken");
        }
    }

    #[test]
    fn the_listen_hint_is_for_this_machine_only() {
        assert_eq!(parsed("http://127.0.0.1:9000").listen_hint().as_deref(), Some("127.0.0.1:9000"));
        assert_eq!(parsed("http://localhost").listen_hint().as_deref(), Some("127.0.0.1:80"));
        assert_eq!(parsed("http://127.0.0.1:8080").listen_hint(), None);
        assert_eq!(parsed("https://example.com").listen_hint(), None);
        assert_eq!(SiteAddress::parse(None).expect("the default").listen_hint(), None);
    }
}
