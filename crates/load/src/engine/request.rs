//! Requests, ready to send, with the conditions for their responses.

use std::fmt::Write as _;
use std::rc::Rc;

use millrace_wire::percent;

use super::http2;
use super::judge::Judge;
use crate::plan::Plan;
use crate::scenario::{Extract, Origin, Request, Scenario};

/// The tester's name: like a browser's, so that servers treat it as one, but honest.
const USER_AGENT: &str = concat!("Mozilla/5.0 (compatible; millrace-load/", env!("CARGO_PKG_VERSION"), ")");

/// A request of the scenario, or for a part of a page. Each thread has its own.
#[derive(Debug)]
pub struct Prepared {
    /// As written.
    pub request: Request,
    /// Its bytes in HTTP/1.1; empty if they differ from user to user.
    pub bytes: Vec<u8>,
    /// The same in HTTP/2; `None`: it differs from user to user, or HTTP/2 isn't spoken.
    pub message: Option<http2::Http2Request>,
    /// Whether the response to it has no content.
    pub is_head: bool,
    /// Whether it may be sent again.
    pub is_safe: bool,
    /// Whether head and content of the response are of use to the user.
    pub keeps: bool,
    /// How many more redirects are followed; `None`: a redirect is a response like others.
    pub follows: Option<u8>,
    /// The values taken out of the response.
    pub extract: Vec<Extract>,
    /// The conditions for the response.
    pub judge: Judge,
}

/// The common parts of all requests of a run.
#[derive(Clone, Debug)]
pub struct Manner {
    authority: String,
    fields: Vec<(String, String)>,
    scheme: &'static str,
    /// Whether requests are made in HTTP/2.
    pub is_http2: bool,
    /// Whether requests differ from user to user in any case: cookies, browser caches.
    is_personal: bool,
}

/// A user's additions to a request.
#[derive(Clone, Copy, Default)]
pub struct Personal<'a> {
    /// Values taken out of earlier responses.
    pub values: &'a [(String, String)],
    /// `Cookie`, if there are any.
    pub cookies: &'a str,
    /// `If-None-Match` and `If-Modified-Since`.
    pub conditions: &'a [(&'static str, String)],
}

impl Prepared {
    /// Whether head and content of the response are stored until it is complete.
    pub fn keeps_any(&self) -> bool {
        self.keeps || self.follows.is_some() || self.judge.wants_content()
    }
}

impl Manner {
    /// For these two.
    pub fn new(plan: &Plan, scenario: &Scenario) -> Manner {
        let mut fields = vec![("User-Agent".to_owned(), USER_AGENT.to_owned())];
        if !plan.accept_encoding.is_empty() {
            fields.push(("Accept-Encoding".to_owned(), plan.accept_encoding.clone()));
        }
        if !plan.keep_alive && !plan.http2 {
            fields.push(("Connection".to_owned(), "close".to_owned()));
        }
        let mut authority = authority(&scenario.origin);
        for (name, value) in &scenario.fields {
            if name.eq_ignore_ascii_case("host") {
                authority.clone_from(value);
            } else {
                set(&mut fields, name, value);
            }
        }
        let scheme = if scenario.origin.tls { "https" } else { "http" };
        let is_http2 = plan.http2;
        Manner {
            authority,
            fields,
            scheme,
            is_http2,
            is_personal: scenario.cookies || scenario.browser_cache,
        }
    }

    /// All fields of a request but the host and the length of its content. One without a value is not sent, as with
    /// curl's `-H 'User-Agent:'`.
    pub fn fields_of(&self, request: &Request, personal: Personal<'_>) -> Vec<(String, String)> {
        let mut fields = self.fields.clone();
        for (name, value) in &request.fields {
            set(&mut fields, name, &filled(value, personal.values, false));
        }
        fields.retain(|(_, value)| !value.is_empty());
        if !personal.cookies.is_empty() {
            set(&mut fields, "Cookie", personal.cookies);
        }
        for (name, value) in personal.conditions {
            set(&mut fields, name, value);
        }
        fields
    }

    /// The content of a request.
    pub fn body_of(request: &Request, personal: Personal<'_>) -> Vec<u8> {
        if personal.values.is_empty() {
            return request.body.clone();
        }
        let is_form = request.fields.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("content-type") && value.contains("x-www-form-urlencoded")
        });
        match std::str::from_utf8(&request.body) {
            Ok(text) => filled(text, personal.values, is_form).into_bytes(),
            Err(_) => request.body.clone(),
        }
    }

    /// Path and query of a request.
    pub fn target_of(request: &Request, personal: Personal<'_>) -> String {
        filled(&request.target, personal.values, true)
    }

    /// A request in HTTP/1.1.
    pub fn bytes_of(&self, request: &Request, personal: Personal<'_>) -> Vec<u8> {
        let target = Manner::target_of(request, personal);
        let mut head = format!("{} {target} HTTP/1.1\r\nHost: {}\r\n", request.method, self.authority);
        for (name, value) in self.fields_of(request, personal) {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let body = Manner::body_of(request, personal);
        if !body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&body);
        bytes
    }

    /// A request in HTTP/2. A field that can't be in it is left out.
    pub fn message_of(&self, request: &Request, personal: Personal<'_>) -> http2::Http2Request {
        let target = Manner::target_of(request, personal);
        let mut head = http::Request::new(());
        *head.version_mut() = http::Version::HTTP_2;
        if let Ok(method) = request.method.parse() {
            *head.method_mut() = method;
        }
        if let Ok(uri) = format!("{}://{}{target}", self.scheme, self.authority).parse() {
            *head.uri_mut() = uri;
        }
        for (name, value) in self.fields_of(request, personal) {
            let name = name.to_ascii_lowercase();
            let is_of_connection = matches!(
                name.as_str(),
                "connection" | "host" | "keep-alive" | "upgrade" | "transfer-encoding"
            );
            if is_of_connection {
                continue;
            }
            if let (Ok(name), Ok(value)) =
                (http::HeaderName::try_from(name), http::HeaderValue::try_from(value))
            {
                head.headers_mut().append(name, value);
            }
        }
        let body = Manner::body_of(request, personal);
        if !body.is_empty() {
            head.headers_mut().insert(http::header::CONTENT_LENGTH, http::HeaderValue::from(body.len()));
        }
        (head, body.into())
    }

    /// A request made ready.
    pub fn prepare(
        &self,
        request: Request,
        keeps: bool,
        follows: Option<u8>,
        extract: Vec<Extract>,
        judge: Judge,
    ) -> Rc<Prepared> {
        let varies = self.is_personal || has_names(&request);
        let bytes = if varies { Vec::new() } else { self.bytes_of(&request, Personal::default()) };
        let message = (self.is_http2 && !varies).then(|| self.message_of(&request, Personal::default()));
        Rc::new(Prepared {
            bytes,
            message,
            is_head: request.method == "HEAD",
            is_safe: matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS"),
            keeps: keeps || self.is_personal || !extract.is_empty(),
            follows,
            extract,
            judge,
            request,
        })
    }
}

/// Host and port as in `Host`.
fn authority(origin: &Origin) -> String {
    let url = origin.to_string();
    url.split_once("://").map_or(url.clone(), |(_, authority)| authority.to_owned())
}

/// Whether values must be inserted.
pub fn has_names(request: &Request) -> bool {
    let is_named = |text: &str| text.split('{').skip(1).any(|rest| name_of(rest).is_some());
    is_named(&request.target)
        || request.fields.iter().any(|(_, value)| is_named(value))
        || std::str::from_utf8(&request.body).is_ok_and(is_named)
}

/// The name that `rest`, behind a brace, begins with: letters, digits, `_`, then a brace.
fn name_of(rest: &str) -> Option<&str> {
    let name = &rest[..rest.find('}')?];
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(name)
}

/// `text` with values in place of their names, escaped where it is part of a URL or a form.
fn filled(text: &str, values: &[(String, String)], escape: bool) -> String {
    if values.is_empty() || !text.contains('{') {
        return text.to_owned();
    }
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let value = name_of(rest).and_then(|name| {
            values.iter().find(|(known, _)| known == name).map(|(_, value)| (name.len(), value))
        });
        match value {
            Some((length, value)) => {
                filled.push_str(&if escape { escaped(value) } else { value.clone() });
                rest = &rest[length + 1..];
            }
            None => filled.push('{'),
        }
    }
    filled.push_str(rest);
    filled
}

/// Percent-encoding of all but unreserved characters and the slash (RFC 3986 section 2).
fn escaped(value: &str) -> String {
    percent::encode(value.as_bytes(), b"-._~/")
}

/// Puts a field in, in place of one of that name.
fn set(fields: &mut Vec<(String, String)>, name: &str, value: &str) {
    match fields.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some(field) => value.clone_into(&mut field.1),
        None => fields.push((name.to_owned(), value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Vec<(String, String)> {
        vec![("nonce".to_owned(), "a b&c".to_owned()), ("id".to_owned(), "7".to_owned())]
    }

    #[test]
    fn values_stand_where_their_names_did() {
        assert_eq!(filled("/p?x={nonce}&y={id}", &values(), true), "/p?x=a%20b%26c&y=7");
        assert_eq!(filled("{\"a\": {id}} {none} {", &values(), false), "{\"a\": 7} {none} {");
        let of = |target: &str| Request { target: target.to_owned(), ..Request::default() };
        assert!(has_names(&of("/{id}")) && !has_names(&of("/{not a name}")) && !has_names(&of("/{")));
    }

    #[test]
    fn an_empty_field_is_not_sent() {
        let manner = Manner {
            authority: "a.test".to_owned(),
            fields: vec![("User-Agent".to_owned(), "x".to_owned()), ("Accept".to_owned(), "z".to_owned())],
            scheme: "http",
            is_http2: false,
            is_personal: false,
        };
        let request = Request {
            method: "GET".to_owned(),
            target: "/".to_owned(),
            fields: vec![("user-agent".to_owned(), String::new())],
            ..Request::default()
        };
        let bytes = manner.bytes_of(&request, Personal::default());
        assert_eq!(String::from_utf8(bytes).unwrap(), "GET / HTTP/1.1\r\nHost: a.test\r\nAccept: z\r\n\r\n");
    }

    #[test]
    fn fields_replace_those_of_the_same_name() {
        let mut fields = vec![("User-Agent".to_owned(), "x".to_owned())];
        set(&mut fields, "user-agent", "y");
        set(&mut fields, "Accept", "z");
        assert_eq!(
            fields,
            [("User-Agent".to_owned(), "y".to_owned()), ("Accept".to_owned(), "z".to_owned())]
        );
    }
}
