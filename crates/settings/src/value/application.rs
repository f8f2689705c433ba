//! Applications behind the server: their URLs, the paths that they serve, and the host that they are asked for.

use std::path::Path;

use super::{Raw, Read, list, name};
use crate::plan::{Address, AppAddress, AppUrl};
use crate::problem::{What, shown};

/// URLs of applications; a single one needs no brackets.
pub(super) fn urls(raw: &Raw, base: &Path) -> Read<Vec<AppUrl>> {
    let urls = list::elements(raw, "a URL in quotes, like \"http://127.0.0.1:3000\"", |raw, text| {
        url(raw, text, base)
    })?;
    list::not_empty(raw, urls, "write at least one URL, like [\"http://127.0.0.1:3000\"]")
}

fn url(raw: &Raw, text: &str, base: &Path) -> Read<AppUrl> {
    if let Some(rest) = text.strip_prefix("unix:") {
        // A colon separates the path of URLs from the socket's, as in nginx.
        let (socket, below) = rest.split_once(":/").unwrap_or((rest, ""));
        let Address::Unix(socket) = name::unix(raw, socket, base)? else {
            return wrong(raw, text, "not a socket", "write it like \"unix:/run/app.sock\"".to_owned());
        };
        let (address, authority) = (AppAddress::Unix(socket), "localhost".to_owned());
        return Ok(AppUrl { address, tls: false, authority, base: base_path(raw, text, below)? });
    }
    if let Some((scheme, rest)) = over_http2(text) {
        let cure = format!("write \"{scheme}{}\", and `http = \"2\"` beside it", shown(rest));
        return wrong(raw, text, "the version of HTTP is a setting of its own", cure);
    }
    let (tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ if text.contains("://") => {
            let cure = "write http://, https:// or unix:; other protocols are not supported";
            return wrong(raw, text, "not an HTTP URL", cure.to_owned());
        }
        _ => return wrong(raw, text, "no scheme", format!("write \"http://{}\"", shown(text))),
    };
    let (authority, below) = rest.split_once('/').unwrap_or((rest, ""));
    let Some((host, port)) = host_and_port(authority) else {
        let cure = "write a host and a port, like \"http://127.0.0.1:3000\" or \"http://[::1]:3000\"";
        return wrong(raw, text, "no valid host", cure.to_owned());
    };
    let port = port.unwrap_or(if tls { 443 } else { 80 });
    let address = AppAddress::Tcp(host.trim_matches(['[', ']']).to_owned(), port);
    Ok(AppUrl { address, tls, authority: authority.to_owned(), base: base_path(raw, text, below)? })
}

/// The scheme and the rest of a URL as other servers write it for HTTP/2.
fn over_http2(text: &str) -> Option<(&'static str, &str)> {
    const SCHEMES: [(&str, &str); 4] =
        [("h2c://", "http://"), ("grpc://", "http://"), ("h2://", "https://"), ("grpcs://", "https://")];
    SCHEMES.iter().find_map(|(other, ours)| Some((*ours, text.strip_prefix(other)?)))
}

/// What the application's paths begin with: `/base` of `http://host/base/`.
fn base_path(raw: &Raw, text: &str, below: &str) -> Read<String> {
    let plain = below.trim_end_matches('/');
    if plain.is_empty() {
        return Ok(String::new());
    }
    if let Some(end) = plain.find(['?', '#']) {
        let cure = format!("remove \"{}\": requests bring their own query", shown(&plain[end..]));
        return wrong(raw, text, "a query", cure);
    }
    match is_plain_path(plain) {
        true => Ok(format!("/{plain}")),
        false => {
            wrong(raw, text, "not a plain path", "write a path like \"/base\", without .. and spaces".into())
        }
    }
}

/// The path of a request: exactly this one, or with a slash at its end everything below it. Like the path that it is
/// compared with, it is not percent-encoded.
pub(super) fn location(raw: &Raw, text: &str) -> Read<String> {
    if text.contains('*') {
        let cure = format!(
            "write \"/{}/\": a slash at the end means everything below",
            text.trim_matches(['*', '/'])
        );
        return wrong(raw, text, "a pattern", cure);
    }
    if !text.starts_with('/') {
        return wrong(raw, text, "does not start with /", format!("write \"/{}\"", shown(text)));
    }
    let inner = text[1..].strip_suffix('/').unwrap_or(&text[1..]);
    if !(inner.is_empty() && text == "/" || is_plain_path(inner)) {
        return wrong(
            raw,
            text,
            "not a plain path",
            "write a path like \"/api/\", decoded, without .. and //".into(),
        );
    }
    Ok(text.to_owned())
}

fn is_plain_path(path: &str) -> bool {
    let is_odd = |segment: &str| matches!(segment, "" | "." | "..");
    let legal = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}%?#".contains(&byte);
    !path.split('/').any(is_odd) && path.bytes().all(legal)
}

/// The host of requests: one of `words`, or a host with or without a port.
pub(super) fn host(raw: &Raw, text: &str, words: &[(&str, &str)]) -> Read<String> {
    if words.iter().any(|(word, _)| *word == text) || host_and_port(text).is_some() {
        return Ok(text.to_owned());
    }
    let known: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
    wrong(
        raw,
        text,
        "not a host",
        format!("write {}, or a host like \"app.example.com\"", known.join(" or ")),
    )
}

fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            (host, Some(port.parse().ok().filter(|port| *port > 0)?))
        }
        _ => (authority, None),
    };
    let is_name =
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let is_v6 = || {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
    };
    (is_name || is_v6()).then_some((host, port))
}

fn wrong<T>(raw: &Raw, text: &str, label: &str, cure: String) -> Read<T> {
    Err(raw.wrong(What::Malformed, format!("cannot be \"{}\"", shown(text)), label, cure))
}
