//! Requested addresses: `http` and `https` URLs (RFC 3986), split into the parts that a connection and a request
//! need.

use std::fmt;

use millrace_wire::percent;

use crate::scenario::Origin;

/// Maximum length of a URL, bytes, as in servers and browsers.
pub const LONGEST: usize = 8192;

/// An absolute `http` or `https` URL without fragment and user.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Url {
    /// Where it is; the name in lower case.
    pub origin: Origin,
    /// Path and query as they stand in a request: begins with `/`, printable ASCII without spaces.
    pub target: String,
}

/// Why a URL can't be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotUrl {
    /// Another scheme than http and https, or none.
    Scheme,
    /// No host, or one with impossible characters.
    Host,
    /// The port is no number up to 65535.
    Port,
    /// Longer than [`LONGEST`].
    TooLong,
}

impl fmt::Display for NotUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotUrl::Scheme => "it must begin with http:// or https://",
            NotUrl::Host => "its host name is missing or invalid",
            NotUrl::Port => "its port must be a number from 1 to 65535",
            NotUrl::TooLong => "it is longer than 8192 bytes",
        })
    }
}

impl Url {
    /// Reads an absolute URL.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Url, NotUrl> {
        let text = text.trim();
        if text.len() > LONGEST {
            return Err(NotUrl::TooLong);
        }
        let (scheme, rest) = text.split_once("://").ok_or(NotUrl::Scheme)?;
        let is_secure = match () {
            () if scheme.eq_ignore_ascii_case("http") => false,
            () if scheme.eq_ignore_ascii_case("https") => true,
            () => return Err(NotUrl::Scheme),
        };
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (host, port) = authority_parts(authority, is_secure)?;
        Ok(Url { origin: Origin { tls: is_secure, host, port }, target: clean_target(target) })
    }

    /// The target of a reference in a document at `self` (RFC 3986, 5.2, and the white space that HTML allows);
    /// `None` if it is not an http or https URL, empty, or a place in the document itself.
    pub fn join(&self, reference: &str) -> Option<Url> {
        let reference: String = reference.trim_matches(is_html_space).replace(['\t', '\n', '\r'], "");
        let without_fragment = reference.split('#').next().unwrap_or_default();
        if without_fragment.is_empty() || reference.len() > LONGEST {
            return None;
        }
        if let Some(scheme) = scheme_of(without_fragment) {
            return if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") {
                Url::parse(without_fragment).ok()
            } else {
                None
            };
        }
        if let Some(rest) = without_fragment.strip_prefix("//") {
            let scheme = if self.origin.tls { "https" } else { "http" };
            return Url::parse(&format!("{scheme}://{rest}")).ok();
        }
        let own_path = self.path();
        let whole = match without_fragment.as_bytes()[0] {
            b'/' | b'\\' => without_fragment.to_owned(),
            b'?' => format!("{own_path}{without_fragment}"),
            _ => format!("{}{without_fragment}", &own_path[..=own_path.rfind('/').unwrap_or(0)]),
        };
        let joined = Url { target: clean_target(&whole), ..self.clone() };
        (joined.target.len() <= LONGEST).then_some(joined)
    }

    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or("/")
    }

    /// The same server, and another path and query.
    #[must_use]
    pub fn with_target(&self, target: &str) -> Url {
        Url { target: clean_target(target), ..self.clone() }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.target)
    }
}

impl std::str::FromStr for Url {
    type Err = NotUrl;

    fn from_str(text: &str) -> Result<Url, NotUrl> {
        Url::parse(text)
    }
}

fn default_port(is_secure: bool) -> u16 {
    if is_secure { 443 } else { 80 }
}

/// Host and port; a user name before them is dropped.
fn authority_parts(authority: &str, is_secure: bool) -> Result<(String, u16), NotUrl> {
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match authority.rfind(':') {
        Some(at) if !authority[at..].contains(']') => (&authority[..at], &authority[at + 1..]),
        _ => (authority, ""),
    };
    let port = match port {
        "" => default_port(is_secure),
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port > 0).ok_or(NotUrl::Port)?
        }
        _ => return Err(NotUrl::Port),
    };
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let (host, legal) = match in_brackets {
        Some(address) => (address, address.parse::<std::net::Ipv6Addr>().is_ok()),
        None => (
            host,
            !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b)),
        ),
    };
    if legal { Ok((host.to_ascii_lowercase(), port)) } else { Err(NotUrl::Host) }
}

/// The scheme of a reference that has one.
fn scheme_of(reference: &str) -> Option<&str> {
    let (scheme, _) = reference.split_once(':')?;
    let letters = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    (letters && scheme.starts_with(|c: char| c.is_ascii_alphabetic())).then_some(scheme)
}

/// Path and query as a browser would send them: dot segments removed, backslashes turned, other characters escaped.
fn clean_target(target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let path = escaped(&without_dots(&path.replace('\\', "/")));
    match query {
        Some(query) => format!("{path}?{}", escaped(query)),
        None => path,
    }
}

/// RFC 3986, 5.2.4
fn without_dots(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let mut ends_in_folder = true;
    for segment in path.split('/') {
        ends_in_folder = false;
        match segment {
            "" if segments.is_empty() => ends_in_folder = true,
            "." => ends_in_folder = true,
            ".." => {
                segments.pop();
                ends_in_folder = true;
            }
            other => segments.push(other),
        }
    }
    let mut whole = format!("/{}", segments.join("/"));
    if ends_in_folder && !whole.ends_with('/') {
        whole.push('/');
    }
    whole
}

fn escaped(text: &str) -> String {
    percent::encode_unless(text.as_bytes(), |byte| byte.is_ascii_graphic() && !b"\"<>`{}|^".contains(&byte))
}

/// The white space of HTML.
pub(crate) fn is_html_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_ones() {
        let url = Url::parse("HTTP://user:x@Example.ORG:8080/a b?c=\"d\"#e").unwrap();
        assert_eq!(
            (url.origin.host.as_str(), url.origin.port, url.target.as_str()),
            ("example.org", 8080, "/a%20b?c=%22d%22")
        );
        assert_eq!(Url::parse("https://[::1]").unwrap().to_string(), "https://[::1]/");
        assert_eq!(Url::parse("http://a:80?x").unwrap().to_string(), "http://a/?x");
        for (text, why) in [
            ("ftp://a/", NotUrl::Scheme),
            ("a.example", NotUrl::Scheme),
            ("http://", NotUrl::Host),
            ("http://a b/", NotUrl::Host),
            ("http://[::1/", NotUrl::Host),
            ("http://a:0/", NotUrl::Port),
            ("http://a:65536/", NotUrl::Port),
            ("http://a:+1/", NotUrl::Port),
        ] {
            assert_eq!(Url::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn references() {
        let page = Url::parse("https://a.example/b/c/d;p?q").unwrap();
        for (reference, whole) in [
            ("g", "https://a.example/b/c/g"),
            ("./g/", "https://a.example/b/c/g/"),
            ("/g", "https://a.example/g"),
            ("//h.example/g", "https://h.example/g"),
            ("?y", "https://a.example/b/c/d;p?y"),
            ("g?y/../x#s", "https://a.example/b/c/g?y/../x"),
            (".", "https://a.example/b/c/"),
            ("..", "https://a.example/b/"),
            ("../../../g", "https://a.example/g"),
            (" \n/x\ty.css ", "https://a.example/xy.css"),
            ("http://b/x", "http://b/x"),
            ("a:b/c", ""),
            ("data:image/png;base64,AA==", ""),
            ("javascript:void(0)", ""),
            ("#top", ""),
            ("", ""),
        ] {
            let joined = page.join(reference).map(|url| url.to_string()).unwrap_or_default();
            assert_eq!(joined, whole, "{reference}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_the_same(text in "(?s).{0,80}", base in "https?://[a-z]{1,5}(:[0-9]{1,5})?/.{0,20}") {
            let _ = Url::parse(&text);
            if let Ok(base) = Url::parse(&base) && let Some(url) = base.join(&text) {
                prop_assert_eq!(Url::parse(&url.to_string()), Ok(url.clone()));
                prop_assert!(url.target.bytes().all(|b| b.is_ascii_graphic()));
                prop_assert!(url.target.starts_with('/'));
            }
        }
    }
}
