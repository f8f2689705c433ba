//! From a request to the CGI meta-variables (RFC 3875 section 4.1) that become `$_SERVER`: those that nginx with the
//! distribution's `fastcgi_params` gives to php-fpm, in that order, then the request's fields.
//!
//! Written straight into the REQUEST frame: this is on the path of every PHP request.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;

use millrace_wire::frames::{self, INJECT_VARIABLE};
use millrace_wire::head::Framing;

use crate::request::{Request, Scheme};
use crate::route::{Script, Site};

/// `SERVER_SOFTWARE`. Millrace says its own name; WordPress is told by `inject` what it asks the name for.
const SOFTWARE: &str = concat!("Millrace/", env!("CARGO_PKG_VERSION"));

/// Begins a REQUEST frame in `out` with all variables; the caller finishes it with the content.
pub fn write<'b>(
    out: &'b mut Vec<u8>,
    sequence: u64,
    site: &Site,
    request: &Request,
    script: &Script,
    inject: Option<&[u8]>,
) -> frames::Request<'b> {
    let mut frame = frames::Request::begin(out, sequence);
    let root = site.plan.root.as_os_str().as_bytes();
    resource(&mut frame, request, script, root);
    connection(&mut frame, site, request);
    frame.variable(b"REDIRECT_STATUS", b"200");
    frame.variable(b"SCRIPT_FILENAME", &script.filename);
    frame.variable(b"PATH_INFO", &script.path_info);
    if !script.path_info.is_empty() {
        frame.parts(b"PATH_TRANSLATED", &[root, &script.path_info]);
    }
    // As Apache's mod_rewrite and LiteSpeed have them; the LiteSpeed Cache plugin reads them.
    let path = request.raw_path();
    frame.variable(b"SCRIPT_URL", path);
    let (scheme, authority) = (request.ends.scheme.text(), request.authority());
    frame.parts(b"SCRIPT_URI", &[scheme.as_bytes(), b"://", authority.as_bytes(), path]);
    if let Some(inject) = inject {
        frame.variable(INJECT_VARIABLE.as_bytes(), inject);
    }
    fields(&mut frame, request);
    frame
}

/// What is asked for.
fn resource(frame: &mut frames::Request<'_>, request: &Request, script: &Script, root: &[u8]) {
    let head = &request.head;
    frame.variable(b"QUERY_STRING", request.query().unwrap_or_default());
    frame.variable(b"REQUEST_METHOD", head.method().as_bytes());
    frame.variable(b"CONTENT_TYPE", head.field("content-type").unwrap_or_default());
    match (head.framing(), request.content.length()) {
        (Framing::None, 0) => frame.variable(b"CONTENT_LENGTH", b""),
        (_, length) => number(frame, b"CONTENT_LENGTH", length),
    }
    frame.variable(b"SCRIPT_NAME", &script.name);
    frame.variable(b"REQUEST_URI", head.path_query());
    frame.parts(b"DOCUMENT_URI", &[&script.name, &script.path_info]);
    frame.variable(b"DOCUMENT_ROOT", root);
    frame.variable(b"SERVER_PROTOCOL", head.version().text().as_bytes());
}

/// Who talks to whom.
fn connection(frame: &mut frames::Request<'_>, site: &Site, request: &Request) {
    let ends = &request.ends;
    frame.variable(b"REQUEST_SCHEME", ends.scheme.text().as_bytes());
    if ends.scheme == Scheme::Https {
        frame.variable(b"HTTPS", b"on");
    }
    frame.variable(b"GATEWAY_INTERFACE", b"CGI/1.1");
    frame.variable(b"SERVER_SOFTWARE", SOFTWARE.as_bytes());
    address(frame, b"REMOTE_ADDR", ends.client);
    match ends.client {
        Some(client) => number(frame, b"REMOTE_PORT", client.port().into()),
        None => frame.variable(b"REMOTE_PORT", b""),
    }
    address(frame, b"SERVER_ADDR", ends.local);
    match (ends.local, ends.scheme) {
        (Some(local), _) => number(frame, b"SERVER_PORT", local.port().into()),
        // A Unix socket has no port; its users are proxies, and the client came by the usual one.
        (None, Scheme::Http) => frame.variable(b"SERVER_PORT", b"80"),
        (None, Scheme::Https) => frame.variable(b"SERVER_PORT", b"443"),
    }
    let name = site.name().filter(|name| !name.starts_with('*'));
    frame.variable(b"SERVER_NAME", name.unwrap_or_else(|| host(request.authority())).as_bytes());
}

/// `REMOTE_ADDR` and `SERVER_ADDR`; a Unix socket is `unix:`, as in nginx.
fn address(frame: &mut frames::Request<'_>, name: &[u8], address: Option<SocketAddr>) {
    let mut text = [0; 48];
    let mut rest = &mut text[..];
    // It fits: 45 bytes are the most that an address takes.
    let _ = match address.map(|address| address.ip().to_canonical()) {
        Some(IpAddr::V4(ip)) => {
            let [a, b, c, d] = ip.octets();
            let mut length = 0;
            for part in [a, b, c, d] {
                length += decimal(&mut rest[length..], part.into());
                rest[length] = b'.';
                length += 1;
            }
            rest = &mut rest[length - 1..];
            Ok(())
        }
        Some(IpAddr::V6(ip)) => write!(rest, "{ip}"),
        None => rest.write_all(b"unix:"),
    };
    let left = rest.len();
    frame.variable(name, &text[..text.len() - left]);
}

fn number(frame: &mut frames::Request<'_>, name: &[u8], value: u64) {
    let mut digits = [0; 20];
    let length = decimal(&mut digits, value);
    frame.variable(name, &digits[..length]);
}

/// Writes a number's digits; returns how many. Formatting by `write!` costs ten times as much.
fn decimal(out: &mut [u8], value: u64) -> usize {
    let length = value.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = value;
    for place in out[..length].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    length
}

/// The host of an authority, without its port.
fn host(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    }
}

/// The request's fields as `HTTP_*` (RFC 3875 section 4.1.18).
fn fields(frame: &mut frames::Request<'_>, request: &Request) {
    let head = &request.head;
    let mut host_written = false;
    let mut seen = Seen::default();
    let repeated = head.fields().any(|(name, _)| seen.add(name));
    for (at, (name, value)) in head.fields().enumerate() {
        if name.eq_ignore_ascii_case("host") {
            // The target's authority or a trusted proxy's word wins over the field.
            host_written = true;
            frame.variable(b"HTTP_HOST", request.authority().as_bytes());
        } else if is_passed(name) && !(repeated && joined(frame, head, at, name)) {
            frame.field(name.as_bytes(), value);
        }
    }
    if !host_written && !request.authority().is_empty() {
        frame.variable(b"HTTP_HOST", request.authority().as_bytes());
    }
}

/// A guess at whether names repeat: says so for all that do, and for few that don't.
#[derive(Default)]
struct Seen(u64);

impl Seen {
    fn add(&mut self, name: &str) -> bool {
        let bytes = name.as_bytes();
        let (first, last) = (bytes[0] | 0x20, bytes[bytes.len() - 1] | 0x20);
        let bit = 1u64 << ((bytes.len() * 7 + first as usize * 13 + last as usize * 29) % 64);
        let known = self.0 & bit != 0;
        self.0 |= bit;
        known
    }
}

/// Handles a field that may be repeated: all values as one, where it first stands. False if it is not repeated.
fn joined(frame: &mut frames::Request<'_>, head: &millrace_wire::head::Head, at: usize, name: &str) -> bool {
    let same = |other: &str| other.eq_ignore_ascii_case(name);
    if head.fields().take(at).any(|(other, _)| same(other)) {
        return true;
    }
    let values: Vec<&[u8]> =
        head.fields().skip(at).filter(|(n, _)| same(n)).map(|(_, value)| value).collect();
    if values.len() < 2 {
        return false;
    }
    let separator: &[u8] = if name.eq_ignore_ascii_case("cookie") { b"; " } else { b", " };
    frame.field(name.as_bytes(), &values.join(separator));
    true
}

/// Whether PHP sees a field.
///
/// Not those with other characters than letters, digits and dashes: `X_Real_IP` would become the same variable as
/// `X-Real-IP`. Not `Proxy` (httpoxy). Not those by which a LiteSpeed server tells the LiteSpeed Cache plugin of
/// itself: sent by a client they would be believed.
fn is_passed(name: &str) -> bool {
    const SECRET: [&str; 4] = ["proxy", "x-lscache", "x-lscache-vary-value", "x-litemage"];
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    plain
        && !SECRET.iter().any(|secret| secret.eq_ignore_ascii_case(name))
        && !name.get(..12).is_some_and(|start| start.eq_ignore_ascii_case("x-litespeed-"))
}
