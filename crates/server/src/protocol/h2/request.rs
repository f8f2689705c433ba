//! Converts a request of the library to a [`Request`].

use http::HeaderMap;
use http::header::COOKIE;
use http::request;
use millrace_settings::plan::Plan;
use millrace_wire::head::{Limits, OUTER_BLANK, Parts, Refusal, has_outer_blank};

use super::connection::Connection;
use millrace_base::message::Request;

/// The request in `parts`. `has_content`: content follows.
///
/// # Errors
/// It breaks a rule that the library does not check.
pub(super) fn read(
    connection: &Connection,
    plan: &Plan,
    parts: &request::Parts,
    has_content: bool,
) -> Result<Request, Refusal> {
    let http = &plan.http;
    let limits = Limits { bytes: http.head_bytes, fields: http.head_fields, target: http.target_bytes };
    let authority = parts.uri.authority().map_or("", |authority| authority.as_str());
    let path_query = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let protocol = parts.extensions.get::<h2::ext::Protocol>().map(|protocol| Box::from(protocol.as_str()));
    // What follows an extended CONNECT is no content.
    let (method, has_content) = match protocol {
        Some(_) => ("GET", false),
        None => (parts.method.as_str(), has_content),
    };
    // They are joined below.
    if parts.headers.get_all(COOKIE).iter().any(|cookie| has_outer_blank(cookie.as_bytes())) {
        return Err(OUTER_BLANK);
    }
    let thread = &connection.thread;
    let mut head = thread.buffers.head.take();
    let cookies = joined_cookies(&parts.headers);
    let cookie = cookies.as_deref().map(|cookies| ("cookie", cookies));
    let others = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let fields = others.filter(|(name, _)| cookie.is_none() || *name != "cookie").chain(cookie);
    let parts = Parts { method, authority, path_query, has_content };
    match head.assemble(&parts, fields, &limits) {
        Ok(()) => {
            let request = Request::new(head, connection.ends.clone(), &plan.server.trusted_proxies);
            Ok(Request { protocol, ..request })
        }
        Err(refusal) => {
            thread.buffers.give_back(head);
            Err(refusal)
        }
    }
}

/// Cookies may arrive in several fields (RFC 9113 section 8.2.3); applications expect one.
fn joined_cookies(fields: &HeaderMap) -> Option<Vec<u8>> {
    let mut cookies = fields.get_all(COOKIE).iter();
    let mut joined = cookies.next()?.as_bytes().to_vec();
    let second = cookies.next()?;
    for cookie in [second].into_iter().chain(cookies) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(cookie.as_bytes());
    }
    Some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_become_one_field() {
        let mut fields = HeaderMap::new();
        assert_eq!(joined_cookies(&fields), None);
        fields.append(COOKIE, http::HeaderValue::from_static("a=1"));
        assert_eq!(joined_cookies(&fields), None, "one is taken as it is");
        fields.append(COOKIE, http::HeaderValue::from_static("b=2"));
        fields.append(COOKIE, http::HeaderValue::from_static("c=3"));
        assert_eq!(joined_cookies(&fields).unwrap(), b"a=1; b=2; c=3");
    }
}
