//! Redirects that come before any path is looked at, and the absolute locations that all redirects use.

use std::fmt::Write;

use millrace_settings::plan::Www;

use super::{Site, host_of, redirect_status};
use crate::request::{Request, Scheme};

/// Where the site's own rules send the request: `http` to `https`, with or without `www.`.
pub fn redirect(site: &Site, request: &Request) -> Option<(u16, String)> {
    let rules = &site.plan.redirect;
    if !rules.https && rules.www == Www::Keep {
        return None;
    }
    // An authority that the site does not know must not end in a Location.
    let authority = request.authority();
    let host = host_of(authority);
    let to_https = rules.https && request.ends.scheme == Scheme::Http;
    let other_host = match (rules.www, host.strip_prefix("www.")) {
        (Www::Remove, Some(bare)) => Some(bare.to_string()),
        (Www::Add, None) if !host.is_empty() && host.parse::<std::net::IpAddr>().is_err() => {
            Some(format!("www.{host}"))
        }
        _ => None,
    };
    let names_site = site.plan.names.is_empty() || site.answers_for(host);
    if !(to_https || other_host.is_some()) || host.is_empty() || !names_site {
        return None;
    }
    let scheme = if to_https { Scheme::Https } else { request.ends.scheme };
    // A port belongs to the scheme it was used with.
    let port = if to_https { "" } else { &authority[host.len().min(authority.len())..] };
    let host = other_host.as_deref().unwrap_or(host);
    let target = String::from_utf8_lossy(request.head.path_query()).into_owned();
    Some((
        redirect_status(request),
        format!("{}://{host}{port}{}", scheme.text(), escape(target.as_bytes(), true)),
    ))
}

/// The same address with a slash at the end of its path. `path` is normalised: it can't be taken for an authority.
pub fn with_slash(request: &Request, path: &[u8]) -> String {
    let mut location = match request.authority() {
        "" => String::new(),
        authority => format!("{}://{authority}", request.ends.scheme.text()),
    };
    location.push_str(&escape(path, false));
    location.push('/');
    if let Some(query) = request.query() {
        location.push('?');
        location.push_str(&escape(query, true));
    }
    location
}

/// Percent-encodes what a URI can't hold; with `encoded` leaves `%` and `?` as they are.
fn escape(text: &[u8], encoded: bool) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for byte in text {
        let plain = byte.is_ascii_alphanumeric()
            || b"-._~!$&'()*+,;=:@/".contains(byte)
            || (encoded && b"%?[]".contains(byte));
        if plain {
            out.push(*byte as char);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_a_location_cannot_hold() {
        assert_eq!(escape(b"/a b\r\n?x%", false), "/a%20b%0D%0A%3Fx%25");
        assert_eq!(escape(b"/a%20b?x=\"", true), "/a%20b?x=%22");
    }
}
