//! Strings with their own grammar: addresses, address blocks, host names, URL paths, account names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::{Raw, Read, joined};
use millrace_wire::network::Network;

use crate::plan::{Address, Backend, Peers};
use crate::problem::{What, shown};

/// Maximum path of a Unix socket, bytes: `sun_path` of unix(7) without its NUL.
const UNIX_PATH_MAX: usize = 107;

/// `127.0.0.1:8080`, `:8080`, `[::1]:80`, `unix:/path`.
pub(super) fn address(raw: &Raw, text: &str, base: &Path) -> Read<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(raw, path, base);
    }
    tcp(text).map(Address::Tcp).ok_or_else(|| {
        let (label, cure) = no_address(text);
        raw.wrong(What::Malformed, format!("cannot be \"{}\"", shown(text)), label, cure)
    })
}

fn tcp(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.rsplit_once(':')?;
    let port = Some(port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?;
    let ip = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => IpAddr::V6(host.parse().ok()?),
        None if host.is_empty() => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        None => IpAddr::V4(host.parse().ok()?),
    };
    Some(SocketAddr::new(ip, port))
}

/// Why `text` is not an address, and what the user probably meant.
fn no_address(text: &str) -> (String, String) {
    let say = |label: &str, cure: String| (label.to_owned(), cure);
    if text.starts_with('/') || text.starts_with("./") {
        return say("looks like the path of a Unix socket", format!("write \"unix:{}\"", shown(text)));
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let rest = rest.trim_end_matches('/');
        let port = if scheme == "https" { 443 } else { 80 };
        let address = if rest.contains(':') { rest.to_owned() } else { format!("{rest}:{port}") };
        return say("an address has no scheme", format!("write \"{}\"", shown(&address)));
    }
    if text.parse::<u16>().is_ok() {
        let cure =
            format!("write \":{text}\" for every address, or \"127.0.0.1:{text}\" for this machine only");
        return say("only a port", cure);
    }
    if let Some((Ok(ip), Ok(port))) =
        text.rsplit_once(':').map(|(host, port)| (host.parse::<Ipv6Addr>(), port.parse::<u16>()))
    {
        return say("IPv6 needs brackets", format!("write \"[{ip}]:{port}\""));
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return say("the port is missing", format!("write \"{}\"", SocketAddr::new(ip, 8080)));
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return say("the port is missing", "write it after a colon, like \"127.0.0.1:8080\"".to_owned());
    };
    if port.parse::<u16>().is_err() || port.starts_with('+') {
        let label = format!("\"{}\" is not a port", shown(port));
        return (label, "a port is a number from 0 (any free one) to 65535".to_owned());
    }
    match host {
        "*" => say("`*` is not an address", format!("write \":{port}\" for every address")),
        "localhost" => {
            say("a name, not an address", format!("write \"127.0.0.1:{port}\", or \"[::1]:{port}\" for IPv6"))
        }
        _ => {
            let cure = format!("write an IP address: \"127.0.0.1:{port}\", or \":{port}\" for every address");
            (format!("\"{}\" is not an IP address", shown(host)), cure)
        }
    }
}

pub(super) fn unix(raw: &Raw, path: &str, base: &Path) -> Read<Address> {
    if path.is_empty() || path.contains('\0') {
        let cure = "write the path after \"unix:\", like \"unix:/run/millrace.sock\"";
        return Err(raw.wrong(What::Malformed, "names no socket", "the path is missing", cure));
    }
    let path = joined(base, path);
    let length = path.as_os_str().len();
    if length > UNIX_PATH_MAX {
        let label = format!("{length} bytes; the kernel allows {UNIX_PATH_MAX}");
        return Err(raw.wrong(
            What::OutOfBounds,
            "has a path that is too long",
            label,
            "choose a shorter path, for example in /run",
        ));
    }
    Ok(Address::Unix(path))
}

/// `unix:/path`, `127.0.0.1:9000`, `[::1]:9000`, `php:9000`; `fastcgi:` may precede it.
pub(super) fn backend(raw: &Raw, text: &str, base: &Path) -> Read<Backend> {
    let text = text.strip_prefix("fastcgi:").unwrap_or(text);
    if let Some(path) = text.strip_prefix("unix:") {
        return match unix(raw, path, base)? {
            Address::Unix(path) => Ok(Backend::Unix(path)),
            Address::Tcp(address) => Ok(Backend::Tcp(address.to_string())),
        };
    }
    let wrong = |label: &str, cure: String| {
        Err(raw.wrong(What::Malformed, format!("cannot be \"{}\"", shown(text)), label, cure))
    };
    if let Some(address) = tcp(text) {
        let here = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port());
        return match address {
            _ if address.port() == 0 => {
                wrong("port 0", "write the port that the other server listens on".to_owned())
            }
            _ if address.ip().is_unspecified() => wrong("no host", format!("write \"{here}\"")),
            _ => Ok(Backend::Tcp(address.to_string())),
        };
    }
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if port.parse::<u16>().is_ok_and(|port| port > 0)
        && !host.is_empty()
        && host.bytes().all(legal)
        && host.bytes().any(|byte| byte.is_ascii_alphabetic())
    {
        return Ok(Backend::Tcp(text.to_owned()));
    }
    let (label, cure) = no_address(text);
    wrong(&label, cure)
}

/// Whether only this machine can reach the address.
pub(crate) fn is_loopback(address: &Address) -> bool {
    match address {
        Address::Tcp(address) => address.ip().to_canonical().is_loopback(),
        Address::Unix(_) => true,
    }
}

/// Whether two addresses overlap. Port 0 is any free port and overlaps with nothing; `[::]` accepts IPv4, too.
pub(crate) fn overlap(one: &Address, other: &Address) -> bool {
    match (one, other) {
        (Address::Unix(one), Address::Unix(other)) => one == other,
        (Address::Tcp(one), Address::Tcp(other)) => {
            let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
            let everything = |ip: IpAddr| ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
            let covers = |wide: IpAddr, ip: IpAddr| {
                everything(wide) || (wide == IpAddr::V4(Ipv4Addr::UNSPECIFIED) && ip.is_ipv4())
            };
            one.port() != 0 && one.port() == other.port() && (a == b || covers(a, b) || covers(b, a))
        }
        _ => false,
    }
}

/// `10.0.0.0/8`, `::1`, `unix`.
pub(super) fn peers(raw: &Raw, text: &str) -> Read<Peers> {
    if text == "unix" {
        return Ok(Peers::Unix);
    }
    let (address, length) =
        text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let title = format!("cannot be \"{}\"", shown(text));
    let Ok(ip) = address.parse::<IpAddr>() else {
        let cure = "write an address or a block like \"10.0.0.0/8\" or \"fd00::/8\", or \"unix\"";
        return Err(raw.wrong(
            What::Malformed,
            title,
            format!("\"{}\" is not an IP address", shown(address)),
            cure,
        ));
    };
    let most: u8 = if ip.is_ipv4() { 32 } else { 128 };
    let Some(length) =
        length.map_or(Some(most), |length| length.parse().ok().filter(|length| *length <= most))
    else {
        let cure = format!("write a prefix length from 0 to {most} after the slash");
        return Err(raw.wrong(What::Malformed, title, "not a prefix length", cure));
    };
    let network = Network::new(ip, length);
    if network.first() != ip {
        let cure =
            format!("write \"{}/{length}\" for the block, or \"{ip}\" for the one address", network.first());
        return Err(raw.wrong(What::Malformed, title, format!("sets bits after the first {length}"), cure));
    }
    Ok(Peers::In(network))
}

/// A host name in lower case (RFC 1123 section 2.1, underscores allowed as in browsers), `*.` at the start allowed; or an IP
/// address, IPv6 in brackets.
pub(super) fn host(raw: &Raw, text: &str) -> Read<String> {
    let wrong = |label: &str, cure: String| {
        Err(raw.wrong(What::Malformed, format!("cannot be \"{}\"", shown(text)), label, cure))
    };
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    if let Some((_, rest)) = text.split_once("://") {
        let host = rest.split(['/', ':']).next().unwrap_or(rest);
        return wrong("a URL, not a host name", format!("write \"{}\"", shown(host)));
    }
    if let Some(inside) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        return match inside.parse::<Ipv6Addr>() {
            Ok(ip) => Ok(format!("[{ip}]")),
            Err(_) => wrong("not an IPv6 address", "write it like \"[::1]\"".to_owned()),
        };
    }
    if let Ok(ip) = name.parse::<Ipv6Addr>() {
        return wrong("IPv6 needs brackets", format!("write \"[{ip}]\""));
    }
    if let Some((host, port)) = name.split_once(':') {
        return wrong(
            "a host name has no port",
            format!("write \"{}\", and \":{}\" in server.listen", shown(host), shown(port)),
        );
    }
    if !name.is_ascii() {
        return wrong("not ASCII", "write the name in its DNS form, starting with \"xn--\"".to_owned());
    }
    let labels = name.strip_prefix("*.").unwrap_or(&name);
    if labels.contains('*') {
        return wrong("`*` is allowed only as the first label", "write it like \"*.example.com\"".to_owned());
    }
    let legal = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if labels.len() > 253 || !labels.split('.').all(legal) {
        let cure = "write letters, digits and hyphens with dots between, like \"www.example.com\"".to_owned();
        return wrong("not a host name", cure);
    }
    Ok(name)
}

/// A URL path below the root, without anything that could leave it.
pub(super) fn url_path(raw: &Raw, text: &str) -> Read<String> {
    let title = format!("cannot be \"{}\"", shown(text));
    if text.split('/').any(|part| part == "..") {
        let cure = "write the path below the site's root, like \"/index.php\", or set the root further up";
        return Err(raw.wrong(What::Malformed, title, "leaves the root", cure));
    }
    if !text.starts_with('/') {
        let cure = format!("write \"/{}\": it is a path below the site's root", shown(text));
        return Err(raw.wrong(What::Malformed, title, "does not start with /", cure));
    }
    let bad = |part: &str| part.is_empty() || part == ".";
    if text[1..].split('/').any(bad)
        || text.contains(['?', '#', '\\', '%'])
        || text.contains(char::is_control)
    {
        let cure = "write the plain path of a script, like \"/index.php\"";
        return Err(raw.wrong(What::Malformed, title, "not the path of a script", cure));
    }
    Ok(text.to_owned())
}

/// The URL that a word stands for, or another URL.
pub(super) fn url(raw: &Raw, text: &str, words: &[(&str, &str)]) -> Read<String> {
    if let Some((_, url)) = words.iter().find(|(word, _)| *word == text) {
        return Ok((*url).to_owned());
    }
    let wrong = |label: &str, cure: String| {
        Err(raw.wrong(What::Malformed, format!("cannot be \"{}\"", shown(text)), label, cure))
    };
    if let Some(rest) = text.strip_prefix("http://") {
        return wrong("not encrypted", format!("write \"https://{}\"", shown(rest)));
    }
    let Some(rest) = text.strip_prefix("https://") else {
        let known: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        return wrong(
            "not a URL",
            format!("write {}, or a URL that starts with https://", known.join(" or ")),
        );
    };
    let host = rest.split(['/', ':', '?', '#']).next().unwrap_or_default();
    let legal = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#@".contains(&byte);
    if host.is_empty() || !rest.bytes().all(legal) {
        return wrong("not a URL", "write it like \"https://ca.example.com/acme/directory\"".to_owned());
    }
    Ok(text.to_owned())
}

/// A secret; messages never show it.
pub(super) fn secret(raw: &Raw, text: &str, least: usize) -> Read<String> {
    if text.len() < least || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let cure =
            format!("write {least} characters or more, without spaces: `openssl rand -hex 16` generates one");
        return Err(raw.wrong(
            What::Malformed,
            "is not a valid secret",
            "too short, or not plain text",
            cure,
        ));
    }
    Ok(text.to_owned())
}

/// A label, short enough for a part of a key.
pub(super) fn label(raw: &Raw, text: &str) -> Read<String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if text.is_empty() || text.len() > 64 || !text.bytes().all(legal) {
        let title = format!("cannot be \"{}\"", shown(text));
        let cure = "write up to 64 letters, digits, `.`, `_` and `-`, like \"shop\"";
        return Err(raw.wrong(What::Malformed, title, "not a label", cure));
    }
    Ok(text.to_owned())
}

/// A mail address, checked as far as a certificate authority needs.
pub(super) fn email(raw: &Raw, text: &str) -> Read<String> {
    let title = format!("cannot be \"{}\"", shown(text));
    if let Some(address) = text.strip_prefix("mailto:") {
        let cure = format!("write \"{}\"", shown(address));
        return Err(raw.wrong(What::Malformed, title, "an address has no scheme", cure));
    }
    let legal = |byte: u8| byte.is_ascii_graphic() && !b"\"(),:;<>[\\]?".contains(&byte);
    let is_address = text.split_once('@').is_some_and(|(who, host)| {
        !who.is_empty()
            && host.contains('.')
            && !host.contains('@')
            && !host.starts_with('.')
            && !host.ends_with('.')
    });
    if !is_address || !text.bytes().all(legal) {
        return Err(raw.wrong(
            What::Malformed,
            title,
            "not a mail address",
            "write one like \"me@example.com\"",
        ));
    }
    Ok(text.to_owned())
}

/// A user or group name, or its number.
pub(super) fn account(raw: &Raw, text: &str) -> Read<String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-$@\\".contains(&byte);
    if text.is_empty() || text.len() > 255 || text.starts_with('-') || !text.bytes().all(legal) {
        let title = format!("cannot be \"{}\"", shown(text));
        return Err(raw.wrong(
            What::Malformed,
            title,
            "not an account name",
            "write a name like \"www-data\"",
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw() -> Raw {
        Raw::bare("", 0..0)
    }
    fn addr(text: &str) -> Option<String> {
        match address(&raw(), text, Path::new("/base")).ok()? {
            Address::Tcp(address) => Some(address.to_string()),
            Address::Unix(path) => Some(path.display().to_string()),
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(addr("127.0.0.1:8080").as_deref(), Some("127.0.0.1:8080"));
        assert_eq!(addr(":8080").as_deref(), Some("[::]:8080"));
        assert_eq!(addr("[::1]:80").as_deref(), Some("[::1]:80"));
        assert_eq!(addr("0.0.0.0:0").as_deref(), Some("0.0.0.0:0"));
        assert_eq!(addr("unix:/run/a.sock").as_deref(), Some("/run/a.sock"));
        assert_eq!(addr("unix:a.sock").as_deref(), Some("/base/a.sock"));
        for bad in [
            "",
            "8080",
            ":",
            "127.0.0.1",
            "::1",
            "[::1]",
            "::1:80x",
            "127.0.0.1:65536",
            "127.0.0.1:+80",
            "unix:",
            "*:80",
            "localhost:80",
            "http://1.2.3.4",
            "example.com:80",
            "/run/a.sock",
            "1.2.3:80",
            "[127.0.0.1]:80",
            "1.2.3.4:80:80",
        ] {
            assert_eq!(addr(bad), None, "{bad:?}");
        }
        let long = format!("unix:/{}", "x".repeat(107));
        assert_eq!(addr(&long), None);
        assert!(addr(&long[..long.len() - 1]).is_some());
    }

    #[test]
    fn overlapping_addresses() {
        let of = |text: &str| address(&raw(), text, Path::new("/")).unwrap();
        let cases = [
            (":80", "127.0.0.1:80", true),
            (":80", "[::1]:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", ":80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", true),
            ("unix:/a", "unix:/a", true),
            ("unix:/a", "unix:/b", false),
            ("unix:/a", ":80", false),
        ];
        for (one, other, expected) in cases {
            assert_eq!(overlap(&of(one), &of(other)), expected, "{one} {other}");
            assert_eq!(overlap(&of(other), &of(one)), expected, "{other} {one}");
        }
    }

    #[test]
    fn address_blocks() {
        let of = |text: &str| peers(&raw(), text).ok();
        let block = |ip: &str, length| Some(Peers::In(Network::new(ip.parse().unwrap(), length)));
        assert_eq!(of("10.0.0.0/8"), block("10.0.0.0", 8));
        assert_eq!(of("::1"), block("::1", 128));
        assert_eq!(of("0.0.0.0/0"), block("0.0.0.0", 0));
        assert_eq!(of("::/0"), block("::", 0));
        assert_eq!(of("unix"), Some(Peers::Unix));
        for bad in ["10.0.0.1/8", "10.0.0.0/33", "::/129", "10.0.0.0/", "10/8", "", "proxy", "fd00::1/8"] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn host_names() {
        let of = |text: &str| host(&raw(), text).ok();
        assert_eq!(of("Example.COM").as_deref(), Some("example.com"));
        assert_eq!(of("example.com.").as_deref(), Some("example.com"));
        assert_eq!(of("*.example.com").as_deref(), Some("*.example.com"));
        assert_eq!(of("localhost").as_deref(), Some("localhost"));
        assert_eq!(of("192.0.2.1").as_deref(), Some("192.0.2.1"));
        assert_eq!(of("[::1]").as_deref(), Some("[::1]"));
        assert_eq!(of("xn--bcher-kva.example").as_deref(), Some("xn--bcher-kva.example"));
        let long = "a".repeat(64);
        for bad in [
            "",
            ".",
            "*",
            "*.",
            "a..b",
            "-a.b",
            "a-.b",
            "a b",
            "a/b",
            "example.com:80",
            "http://a.b/",
            "www.*.com",
            "*a.com",
            "b\u{fc}cher.example",
            "::1",
            "[x]",
            &long,
            "a\0b",
        ] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn urls_and_words_for_them() {
        let words = [("staging", "https://staging.example/dir")];
        let of = |text: &str| url(&raw(), text, &words).ok();
        assert_eq!(of("staging").as_deref(), Some("https://staging.example/dir"));
        assert_eq!(of("https://127.0.0.1:14000/dir").as_deref(), Some("https://127.0.0.1:14000/dir"));
        for bad in [
            "",
            "stage",
            "http://a.example/",
            "https://",
            "https:///x",
            "https://a b/",
            "https://u@h/",
            "ftp://a/",
        ] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn mail_addresses() {
        let of = |text: &str| email(&raw(), text).ok();
        assert_eq!(of("me+tls@mail.example.com").as_deref(), Some("me+tls@mail.example.com"));
        for bad in [
            "",
            "me",
            "@a.b",
            "me@",
            "me@host",
            "me@a..",
            "a@b@c.d",
            "mailto:me@a.b",
            "me you@a.b",
            "m\u{e9}@a.b",
            "me@a.b,you@a.b",
        ] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn url_paths_stay_inside() {
        let of = |text: &str| url_path(&raw(), text).ok();
        assert_eq!(of("/index.php").as_deref(), Some("/index.php"));
        assert_eq!(of("/a/b.php").as_deref(), Some("/a/b.php"));
        for bad in [
            "",
            "index.php",
            "/",
            "/../x.php",
            "/a/../../x",
            "//x.php",
            "/./x",
            "/x?y",
            "/a%2e",
            "/a\\b",
            "/a\0",
            "/a/",
        ] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }
}
