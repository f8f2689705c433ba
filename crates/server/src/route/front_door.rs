//! Access by client certificates, redirects before any path is looked up, and the absolute locations of all
//! redirects.

use millrace_settings::plan::Www;
use millrace_wire::percent;

use super::redirect_status;
use millrace_base::message::host_of;
use millrace_base::message::request::{Request, Scheme};
use millrace_base::site::Site;

/// The path of authorities' requests that check a name before they issue a certificate (RFC 8555 section 8.3).
const ACME: &[u8] = b"/.well-known/acme-challenge/";

/// The status for a client without a certificate under the site's terms. If the client named this site in the
/// handshake, the handshake has checked it; but a connection for one site can carry requests for another.
pub fn stranger(site: &Site, request: &Request) -> Option<u16> {
    let clients = site.plan.clients.as_ref()?;
    let shown = request.ends.tls.as_ref().and_then(|tls| tls.client.as_ref());
    match shown {
        Some(client) if Some(client.policy) == site.policy => None,
        // Not over our own TLS: the client can't have shown a certificate.
        None if request.ends.tls.is_none() => clients.required.then_some(403),
        // On a new connection it will be asked for one (RFC 9110 section 15.5.20).
        _ => Some(421),
    }
}

/// Where the site's own rules redirect the request: `http` to `https`, with or without `www.`. `path` is normalised,
/// so that only an authority's real request is exempt.
pub fn redirect(site: &Site, request: &Request, path: &[u8]) -> Option<(u16, String)> {
    let rules = &site.plan.redirect;
    if !rules.https && rules.www == Www::Keep {
        return None;
    }
    if request.ends.scheme == Scheme::Http && path.starts_with(ACME) {
        return None;
    }
    // An authority that the site does not know must not appear in a Location.
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
    // A port belongs to the scheme of its request.
    let same_port = || authority[host.len().min(authority.len())..].to_owned();
    let port = if to_https { site.https_port.to_string() } else { same_port() };
    let host = other_host.as_deref().unwrap_or(host);
    let target = String::from_utf8_lossy(request.head.path_query()).into_owned();
    Some((
        rules.status.unwrap_or_else(|| redirect_status(request)),
        format!("{}://{host}{port}{}", scheme.text(), escape(target.as_bytes(), true)),
    ))
}

/// The same address with a slash at the end of its path.
pub fn with_slash(request: &Request, path: &[u8]) -> String {
    elsewhere(request, &[path, b"/"].concat())
}

/// The same address with another path. `path` is normalised: it can't be taken for an authority.
pub fn elsewhere(request: &Request, path: &[u8]) -> String {
    let mut location = match request.authority() {
        "" => String::new(),
        authority => format!("{}://{authority}", request.ends.scheme.text()),
    };
    location.push_str(&escape(path, false));
    if let Some(query) = request.query() {
        location.push('?');
        location.push_str(&escape(query, true));
    }
    location
}

/// Percent-encodes what a URI can't contain; with `encoded`, `%` and `?` stay unchanged.
fn escape(text: &[u8], encoded: bool) -> String {
    let plain: &[u8] = if encoded { b"-._~!$&'()*+,;=:@/%?[]" } else { b"-._~!$&'()*+,;=:@/" };
    percent::encode(text, plain)
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
