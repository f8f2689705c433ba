//! Converts header sections: a request's into the library's types, a response's from them.

use http::header::{AUTHORIZATION, CONTENT_LENGTH, COOKIE, HeaderName, HeaderValue, TE};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Uri};
use millrace_settings::plan::{AppUrl, Proxy};
use millrace_wire::percent;

use crate::proxy::answer::{self, AppHead};
use crate::proxy::{head, target};
use millrace_base::message::Request;
use millrace_base::message::reply::Fields;

/// The request for an application at `url`; `path` is the normalised one. `None`: HTTP/2 has no way to say it.
pub fn request(proxy: &Proxy, url: &AppUrl, request: &Request, path: &[u8]) -> Option<http::Request<()>> {
    let mut target = Vec::new();
    target::write(proxy, url, request, path, &mut target);
    let mut made = http::Request::new(());
    *made.method_mut() = Method::from_bytes(request.head.method().as_bytes()).ok()?;
    *made.uri_mut() = uri(url, head::host(proxy, url, request), &target)?;
    let fields = made.headers_mut();
    head::fields(request, &mut |name, value| {
        // The parser has accepted them.
        if let (Ok(name), Ok(mut value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            // Visitors share the connection: what is one's own stays out of the table of fields, in which a guess of
            // another would be found by its length (RFC 7541 section 7.1).
            value.set_sensitive(matches!(name, AUTHORIZATION | COOKIE));
            fields.append(name, value);
        }
    });
    if request.asks_for_trailers() {
        fields.insert(TE, HeaderValue::from_static("trailers"));
    }
    if let Some(length) = head::length(request) {
        fields.insert(CONTENT_LENGTH, length.into());
    }
    Some(made)
}

/// A GET of the server's own.
pub fn plain(url: &AppUrl, path: &str) -> Option<http::Request<()>> {
    let mut made = http::Request::new(());
    *made.uri_mut() = uri(url, &url.authority, format!("{}{path}", url.base).as_bytes())?;
    made.headers_mut().insert(http::header::USER_AGENT, HeaderValue::from_static("Millrace"));
    Some(made)
}

fn uri(url: &AppUrl, authority: &str, target: &[u8]) -> Option<Uri> {
    let scheme = if url.tls { "https" } else { "http" };
    let target = PathAndQuery::try_from(encoded(target)).ok()?;
    Uri::builder().scheme(scheme).authority(authority).path_and_query(target).build().ok()
}

/// The target with what a URI can't contain percent-encoded (RFC 3986 section 2): HTTP/1 clients send it as it is.
fn encoded(target: &[u8]) -> Vec<u8> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte);
    percent::encode_unless(target, is_plain).into_bytes()
}

/// What the header section of a response says.
pub(super) fn response(fields: &HeaderMap, takes_trailers: bool) -> AppHead {
    let all: Vec<(&str, &[u8])> = pairs(fields).collect();
    answer::read(&all, takes_trailers)
}

/// The trailers for the client.
pub(super) fn trailers(fields: &HeaderMap) -> Fields {
    answer::trailers(pairs(fields))
}

/// The lines of early hints.
pub(super) fn links(fields: &HeaderMap) -> Vec<u8> {
    answer::links(fields.get_all(http::header::LINK).iter().map(HeaderValue::as_bytes))
}

fn pairs(fields: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::head::tests::{proxy, request as parsed};
    use millrace_base::message::request::Content;

    fn made(lines: &str, sent: &str, content: &[u8]) -> http::Request<()> {
        let (proxy, mut request) = (proxy(&format!("path = \"/\"\n{lines}")), parsed(sent));
        if !content.is_empty() {
            request.content = Content::Memory(content.to_vec());
        }
        let mut path = Vec::new();
        millrace_wire::path::normalise(request.raw_path(), &mut path).unwrap();
        super::request(&proxy, &proxy.to[0], &request, &path).unwrap()
    }

    #[test]
    fn a_request_has_the_fields_of_http1_without_the_connection() {
        let sent = "POST /a%2Fb?c=|\" HTTP/1.1\nHost: b.test:8\nX-A: 1\nx-a: 2\nTE: trailers, deflate\n\
            Connection: X-Secret\nX-Secret: s\nContent-Length: 5\nX-Forwarded-For: 6.6.6.6";
        let made = made("", sent, b"hello");
        assert_eq!(
            (made.method().as_str(), made.uri().to_string().as_str()),
            ("POST", "http://b.test:8/a%2Fb?c=%7C%22")
        );
        let all: Vec<String> =
            pairs(made.headers()).map(|(name, value)| format!("{name}={}", value.escape_ascii())).collect();
        let mut expected = [
            "x-a=1",
            "x-a=2",
            "x-forwarded-for=10.0.0.9",
            "x-real-ip=10.0.0.9",
            "forwarded=for=10.0.0.9;host=\\\"b.test:8\\\";proto=https",
            "x-forwarded-proto=https",
            "x-forwarded-host=b.test:8",
            "via=1.1 millrace",
            "te=trailers",
            "content-length=5",
        ];
        expected.sort_unstable();
        let mut all: Vec<&str> = all.iter().map(String::as_str).collect();
        all.sort_unstable();
        assert_eq!(all, expected);
    }

    #[test]
    fn what_is_a_visitors_own_is_never_indexed() {
        let made = made("", "GET / HTTP/1.1\nHost: b\nCookie: a=b\nAuthorization: Basic YQ==\nX-A: 1", b"");
        let sensitive = made.headers().iter().filter(|(_, value)| value.is_sensitive());
        let mut names: Vec<&str> = sensitive.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "cookie"]);
    }

    #[test]
    fn the_scheme_is_the_applications_and_the_host_is_as_configured() {
        let uri = |lines: &str| made(lines, "GET / HTTP/1.1\nHost: b.test", b"").uri().to_string();
        assert_eq!(uri("to = \"https://app\""), "https://b.test/");
        assert_eq!(uri("host = \"application\""), "http://app:81/");
        assert_eq!(
            uri("to = \"unix:/run/app.sock:/base\"\nhost = \"application\""),
            "http://localhost/base/"
        );
        let check = plain(&proxy("path = \"/\"\nto = \"http://app:81/base\"").to[0], "/health").unwrap();
        assert_eq!(check.uri().to_string(), "http://app:81/base/health");
    }
}
