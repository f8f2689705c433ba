//! From a request to the CGI meta-variables (RFC 3875 section 4.1) that become `$_SERVER`: the ones that nginx with
//! the distribution's `fastcgi_params` sends to php-fpm, in the same order, then the request's fields.
//!
//! Writes directly into a worker's REQUEST frame, or the PARAMS of a FastCGI request: every PHP request passes here.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;

use millrace_pages::ask::{Device, is_ours_in_request};
use millrace_settings::plan::CacheMode;
use millrace_wire::decimal;
use millrace_wire::fastcgi;
use millrace_wire::frames::{self, COOKIES_VARIABLE, FLAG_AGAIN, FLAG_ORDINARY, INJECT_VARIABLE};
use millrace_wire::head::{Framing, Version};

use millrace_base::message::request::{CertifiedClient, Request, Scheme};
use millrace_base::site::WorkerKind;
use millrace_base::site::{Script, Site};

/// `SERVER_SOFTWARE`: Millrace's own name. `inject` tells WordPress what WordPress derives from the name.
const SOFTWARE: &str = concat!("Millrace/", env!("CARGO_PKG_VERSION"));

/// `LSWS_EDITION`: plugins look at its start, people at the rest.
const EDITION: &str = concat!("Openlitespeed 1.8.5 (Millrace ", env!("CARGO_PKG_VERSION"), ")");

/// Begins a REQUEST frame in `out` with all variables; the caller finishes it with the content.
pub fn write<'b>(
    out: &'b mut Vec<u8>,
    sequence: u64,
    site: &Site,
    request: &Request,
    script: &Script,
    inject: Option<&[u8]>,
) -> frames::RequestFrame<'b> {
    let mut frame = frames::RequestFrame::begin(out, sequence);
    if request.run.as_ref().is_some_and(|run| run.ordinary) {
        frame.flag(FLAG_ORDINARY);
    }
    if request.run.as_ref().is_some_and(|run| run.again) {
        frame.flag(FLAG_AGAIN);
    }
    application(&mut frame, site);
    environment(&mut frame, request);
    resource(&mut frame, request, script, root(site, script));
    connection(&mut frame, site, request);
    redirect_status(&mut frame, request);
    frame.variable(b"SCRIPT_FILENAME", &script.filename);
    frame.variable(b"PATH_INFO", &script.path_info);
    litespeed(&mut frame, site, request);
    if let Some(inject) = inject {
        frame.variable(INJECT_VARIABLE.as_bytes(), inject);
        if request.is_shared {
            // For the hooks: the response is no visitor's own.
            frame.variable(b"MILLRACE_SHARED", b"1");
        }
        if site.visitors.serves_members() {
            frame.variable(b"MILLRACE_MEMBERS", b"1");
        }
        if let Some(order) = request.run.as_ref().and_then(|run| run.sql.as_deref()) {
            frame.variable(b"MILLRACE_SQL", order.as_bytes());
        }
    }
    if request.is_shared {
        frame.variable(COOKIES_VARIABLE.as_bytes(), &request.withheld);
    }
    fields(&mut frame, request);
    frame
}

/// `DOCUMENT_ROOT`: without symbolic links, like the script's own path. A persistent worker's script may lie
/// elsewhere.
fn root<'a>(site: &'a Site, script: &'a Script) -> &'a [u8] {
    let above =
        script.filename.strip_suffix(&script.name[..]).filter(|_| script.workers != WorkerKind::Persistent);
    above.filter(|above| above.starts_with(b"/")).unwrap_or(site.plan.root.as_os_str().as_bytes())
}

/// Writes the PARAMS of a FastCGI request into `out`: the same variables, with the paths as php-fpm sees them. The root is
/// the configured one: on php-fpm's machine links may lead elsewhere.
///
/// # Errors
/// The variables are too long.
pub fn write_params(
    out: &mut Vec<u8>,
    site: &Site,
    request: &Request,
    script: &Script,
) -> Result<(), fastcgi::ParamsTooLong> {
    let mut params = fastcgi::RequestRecords::go_on(out);
    let root = site.plan.root.as_os_str().as_bytes();
    let seen = site.plan.fastcgi_root.as_ref().map_or(root, |root| root.as_os_str().as_bytes());
    application(&mut params, site);
    environment(&mut params, request);
    resource(&mut params, request, script, seen);
    connection(&mut params, site, request);
    redirect_status(&mut params, request);
    if script.filename.ends_with(&script.name) {
        params.parts(b"SCRIPT_FILENAME", &[seen.strip_suffix(b"/").unwrap_or(seen), &script.name]);
    } else {
        params.variable(b"SCRIPT_FILENAME", &script.filename);
    }
    params.variable(b"PATH_INFO", &script.path_info);
    litespeed(&mut params, site, request);
    for (name, value) in site.plan.php.iter().flat_map(|php| &php.env.0) {
        params.variable(name.as_bytes(), value.as_bytes());
    }
    fields(&mut params, request);
    params.finish()
}

/// A destination of variables: a worker's REQUEST, a FastCGI request's PARAMS.
pub trait Variables {
    /// A variable whose value is the concatenation of the parts.
    fn parts(&mut self, name: &[u8], value: &[&[u8]]);

    /// A variable.
    fn variable(&mut self, name: &[u8], value: &[u8]) {
        self.parts(name, &[value]);
    }

    /// A request field as RFC 3875 section 4.1.18 names it; `Proxy` is dropped.
    fn field(&mut self, name: &[u8], value: &[u8]);
}

impl Variables for frames::RequestFrame<'_> {
    #[inline]
    fn parts(&mut self, name: &[u8], value: &[&[u8]]) {
        frames::RequestFrame::parts(self, name, value);
    }

    #[inline]
    fn field(&mut self, name: &[u8], value: &[u8]) {
        frames::RequestFrame::field(self, name, value);
    }
}

impl Variables for fastcgi::RequestRecords<'_> {
    #[inline]
    fn parts(&mut self, name: &[u8], value: &[&[u8]]) {
        fastcgi::RequestRecords::parts(self, name, value);
    }

    #[inline]
    fn field(&mut self, name: &[u8], value: &[u8]) {
        fastcgi::RequestRecords::field(self, name, value);
    }
}

/// What the LiteSpeed Cache plugins of WordPress and Drupal look for: with it they control the page cache by header
/// fields, like a LiteSpeed server's. OpenLiteSpeed's name, because in this mode the plugins use no feature that is
/// missing here (ESI).
fn litespeed(frame: &mut impl Variables, site: &Site, request: &Request) {
    if !site.plan.profile.is_known_inside() {
        return;
    }
    // As Apache's mod_rewrite and LiteSpeed set them.
    let path = request.raw_path();
    frame.variable(b"SCRIPT_URL", path);
    let (scheme, authority) = (request.ends.scheme.text(), request.authority());
    frame.parts(b"SCRIPT_URI", &[scheme.as_bytes(), b"://", authority.as_bytes(), path]);
    if site.plan.cache.mode == CacheMode::Profile {
        frame.variable(b"LSWS_EDITION", EDITION.as_bytes());
        frame.variable(b"X-LSCACHE", b"on,crawler");
        key_of_plugin(frame, site, request);
    }
}

/// What is in the cache key, as rewrite rules tell the LiteSpeed Cache plugins: names of cookies, and the value of the
/// device. A plugin that wants one of them in the key and does not find it here makes its pages uncacheable.
fn key_of_plugin(frame: &mut impl Variables, site: &Site, request: &Request) {
    let plan = &site.plan.cache;
    // The plugins compare whole names.
    let named = plan.key_cookies.iter().filter(|name| !name.contains('*') && !name.contains(','));
    let names: Vec<&str> = named.map(String::as_str).collect();
    if !names.is_empty() {
        frame.variable(b"LSCACHE_VARY_COOKIE", names.join(",").as_bytes());
    }
    let agent = || request.head.field("user-agent").unwrap_or_default();
    if plan.key_device && Device::of(agent()) != Device::Desktop {
        frame.variable(b"LSCACHE_VARY_VALUE", b"ismobile");
    }
}

/// The variables by which the application learns what its server does.
fn application(frame: &mut impl Variables, site: &Site) {
    for (name, value) in site.profile.variables {
        frame.variable(name.as_bytes(), value.as_bytes());
    }
}

/// The variables of the site's own rules. They come first: what the server says itself replaces them.
fn environment(frame: &mut impl Variables, request: &Request) {
    let Some(ruling) = &request.found.ruling else { return };
    let verdict = &ruling.verdict;
    for (name, value) in verdict.variables().filter(|(name, _)| is_free(name)) {
        frame.variable(name, value);
    }
    if let Some((path, query)) = &verdict.redirected_from {
        frame.variable(b"REDIRECT_URL", path);
        if let Some(query) = query {
            frame.variable(b"REDIRECT_QUERY_STRING", query);
        }
    }
}

/// `REDIRECT_STATUS`: 200, which php-cgi wants, or the status of the error whose page the script makes.
fn redirect_status(frame: &mut impl Variables, request: &Request) {
    let status = request.found.ruling.as_ref().and_then(|ruling| ruling.verdict.status).unwrap_or(200);
    number(frame, b"REDIRECT_STATUS", status.into());
}

/// Whether rules may set a variable: not those by which the server tells PHP what to run and how.
fn is_free(name: &[u8]) -> bool {
    const OWN: [&[u8]; 8] = [
        b"PHP_VALUE",
        b"PHP_ADMIN_VALUE",
        b"SCRIPT_FILENAME",
        b"CONTENT_LENGTH",
        b"REQUEST_METHOD",
        b"HTTP_PROXY",
        b"LSWS_EDITION",
        b"X-LSCACHE",
    ];
    let is_name = !name.is_empty() && name.iter().all(|b| b.is_ascii_graphic() && *b != b'=');
    is_name && !OWN.contains(&name) && !name.starts_with(b"MILLRACE_") && name != INJECT_VARIABLE.as_bytes()
}

/// The requested resource.
fn resource(frame: &mut impl Variables, request: &Request, script: &Script, root: &[u8]) {
    let head = &request.head;
    let query = match &request.found.ruling {
        Some(ruling) => ruling.verdict.query.as_deref(),
        None => request.query(),
    };
    frame.variable(b"QUERY_STRING", query.unwrap_or_default());
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

/// Client, server and connection.
fn connection(frame: &mut impl Variables, site: &Site, request: &Request) {
    let ends = &request.ends;
    frame.variable(b"REQUEST_SCHEME", ends.scheme.text().as_bytes());
    if ends.scheme == Scheme::Https {
        frame.variable(b"HTTPS", b"on");
    }
    if request.head.version() == Version::Http2 {
        // As Apache's mod_http2 sets it.
        frame.variable(b"HTTP2", b"on");
    }
    if let Some(tls) = &ends.tls {
        frame.variable(b"SSL_PROTOCOL", tls.version.as_bytes());
        frame.variable(b"SSL_CIPHER", tls.cipher.as_bytes());
        // A client certificate shown for another site is not passed to this one.
        let client = tls.client.iter().filter(|_| site.plan.clients.is_some());
        for (name, value) in client.flat_map(CertifiedClient::variables) {
            frame.variable(name.as_bytes(), value.as_bytes());
        }
    }
    frame.variable(b"GATEWAY_INTERFACE", b"CGI/1.1");
    frame.variable(b"SERVER_SOFTWARE", SOFTWARE.as_bytes());
    address(frame, b"REMOTE_ADDR", ends.client);
    match ends.client {
        Some(client) => number(frame, b"REMOTE_PORT", client.port().into()),
        None => frame.variable(b"REMOTE_PORT", b""),
    }
    // The user whom the server has authenticated. nginx would insert any name that the client claims; applications
    // believe it.
    let user = request.found.ruling.as_ref().map_or("", |ruling| &ruling.verdict.user);
    frame.variable(b"REMOTE_USER", user.as_bytes());
    if !user.is_empty() {
        frame.variable(b"AUTH_TYPE", b"Basic");
    }
    address(frame, b"SERVER_ADDR", ends.local);
    match (ends.local, ends.scheme) {
        (Some(local), _) => number(frame, b"SERVER_PORT", local.port().into()),
        // A Unix socket has no port; its users are proxies, and the client used the default port.
        (None, Scheme::Http) => frame.variable(b"SERVER_PORT", b"80"),
        (None, Scheme::Https) => frame.variable(b"SERVER_PORT", b"443"),
    }
    let name = site.name().filter(|name| !name.starts_with('*'));
    match (name.unwrap_or_else(|| host(request.authority())), ends.local) {
        // An HTTP/1.0 request without Host: the variable must have a value (RFC 3875 section 4.1.14).
        ("", Some(local)) => match local.ip().to_canonical() {
            IpAddr::V6(ip) => frame.variable(b"SERVER_NAME", format!("[{ip}]").as_bytes()),
            IpAddr::V4(_) => address(frame, b"SERVER_NAME", ends.local),
        },
        ("", None) => frame.variable(b"SERVER_NAME", b"localhost"),
        (name, _) => frame.variable(b"SERVER_NAME", name.as_bytes()),
    }
}

/// `REMOTE_ADDR` and `SERVER_ADDR`; a Unix socket is `unix:`, as in nginx.
fn address(frame: &mut impl Variables, name: &[u8], address: Option<SocketAddr>) {
    let mut text = [0; 48];
    let mut rest = &mut text[..];
    // It fits: an address has at most 45 bytes.
    let _ = match address.map(|address| address.ip().to_canonical()) {
        Some(IpAddr::V4(ip)) => {
            let [a, b, c, d] = ip.octets();
            let mut length = 0;
            for part in [a, b, c, d] {
                length += decimal::write(part.into(), &mut rest[length..]);
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

fn number(frame: &mut impl Variables, name: &[u8], value: u64) {
    let mut digits = [0; 20];
    let length = decimal::write(value, &mut digits);
    frame.variable(name, &digits[..length]);
}

/// The host of an authority, without its port.
fn host(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    }
}

/// The request's fields as `HTTP_*` (RFC 3875 section 4.1.18).
fn fields(frame: &mut impl Variables, request: &Request) {
    let head = &request.head;
    let changed = request.found.ruling.as_ref().map_or(&[][..], |ruling| &ruling.verdict.request_fields);
    let mut host_written = false;
    let mut seen = NameFilter::default();
    let repeated = head.fields().any(|(name, _)| seen.add(name));
    for (at, (name, value)) in head.fields().enumerate() {
        if name.eq_ignore_ascii_case("host") {
            // The target's authority, or a trusted proxy's field, takes precedence over the field.
            host_written = true;
            frame.variable(b"HTTP_HOST", request.authority().as_bytes());
        } else if changed.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            // A rule replaces it.
        } else if is_passed(name) && !(repeated && joined(frame, head, at, name)) {
            frame.field(name.as_bytes(), value);
        }
    }
    for (name, value) in changed.iter().filter(|(name, _)| is_passed(name)) {
        if let Some(value) = value {
            frame.field(name.as_bytes(), value);
        }
    }
    if !host_written && !request.authority().is_empty() {
        frame.variable(b"HTTP_HOST", request.authority().as_bytes());
    }
}

/// Guesses whether names repeat: true for all that do, and for few that don't.
#[derive(Default)]
struct NameFilter(u64);

impl NameFilter {
    fn add(&mut self, name: &str) -> bool {
        let bytes = name.as_bytes();
        let (first, last) = (bytes[0] | 0x20, bytes[bytes.len() - 1] | 0x20);
        let bit = 1u64 << ((bytes.len() * 7 + first as usize * 13 + last as usize * 29) % 64);
        let known = self.0 & bit != 0;
        self.0 |= bit;
        known
    }
}

/// Handles a field that may be repeated: joins all values at the first one's position. False if it is not repeated.
fn joined(frame: &mut impl Variables, head: &millrace_wire::head::Head, at: usize, name: &str) -> bool {
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

/// Whether PHP gets a field.
///
/// Excluded are names with other characters than letters, digits and dashes, because `X_Real_IP` would become the
/// same variable as `X-Real-IP`; `Proxy` (httpoxy); `Transfer-Encoding`, because the content is complete and decoded,
/// and `CONTENT_LENGTH` has its length (RFC 9112 section 7.1.3); and the fields between caches and this server, by
/// which a LiteSpeed server also announces itself to the LiteSpeed Cache plugin: an application would believe them if
/// a client sent them.
fn is_passed(name: &str) -> bool {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    plain && !is("proxy") && !is("transfer-encoding") && !is_ours_in_request(name)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use millrace_base::message::request::{Content, Ends};
    use millrace_settings::plan::Profile;
    use millrace_settings::{Source, load};
    use millrace_wire::frames::{Body, ParsedFrame};
    use millrace_wire::head::{Head, Limits};

    fn site(names: &[&str]) -> std::sync::Arc<Site> {
        let source = Source { site_dir: Some(std::env::temp_dir()), ..Source::default() };
        let mut site = load(&source).unwrap().0.sites[0].clone();
        site.names = names.iter().map(|name| name.to_string()).collect();
        site.root = PathBuf::from("/srv/www");
        Site::new(0, site)
    }

    fn request(head: &str) -> Request {
        let text = format!("{}\r\n\r\n", head.replace('\n', "\r\n"));
        let mut head = Head::default();
        let limits = Limits { bytes: 65536, fields: 100, target: 8192 };
        head.parse(text.as_bytes(), &limits).unwrap().unwrap();
        let ends = Ends {
            client: Some("192.0.2.7:50123".parse().unwrap()),
            local: Some("10.0.0.255:8080".parse().unwrap()),
            scheme: Scheme::Http,
            tls: None,
        };
        Request { content_is_read: true, ..Request::direct(head, ends) }
    }

    fn script(path_info: &str) -> Script {
        let (filename, name) = ((*b"/srv/www/a/x.php").into(), b"/a/x.php".to_vec());
        Script { filename, name, path_info: path_info.into(), workers: WorkerKind::Ordinary }
    }

    fn write_all(site: &Site, request: &Request, script: &Script) -> Vec<(String, String)> {
        let mut out = Vec::new();
        write(&mut out, 1, site, request, script, None).finish(Body::None).unwrap();
        let (parsed, _) = ParsedFrame::decode(&out).unwrap().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        parsed.variables.into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    /// The values of a variable: none, one, or - which is an error - more.
    fn get<'a>(all: &'a [(String, String)], name: &str) -> Vec<&'a str> {
        all.iter().filter(|(n, _)| n == name).map(|(_, value)| &value[..]).collect()
    }

    #[test]
    fn all_in_the_order_of_nginx() {
        let request =
            request("GET /a/x.php/info?q=1&r=%20 HTTP/1.1\nHost: a.test:8080\nAccept: */*\nX-One: 1");
        let all = write_all(&site(&["a.test"]), &request, &script("/info"));
        let expected = "QUERY_STRING=q=1&r=%20 REQUEST_METHOD=GET CONTENT_TYPE= CONTENT_LENGTH= SCRIPT_NAME=/a/x.php \
            REQUEST_URI=/a/x.php/info?q=1&r=%20 DOCUMENT_URI=/a/x.php/info DOCUMENT_ROOT=/srv/www \
            SERVER_PROTOCOL=HTTP/1.1 REQUEST_SCHEME=http GATEWAY_INTERFACE=CGI/1.1 SERVER_SOFTWARE=Millrace/VERSION \
            REMOTE_ADDR=192.0.2.7 REMOTE_PORT=50123 REMOTE_USER= SERVER_ADDR=10.0.0.255 SERVER_PORT=8080 SERVER_NAME=a.test \
            REDIRECT_STATUS=200 SCRIPT_FILENAME=/srv/www/a/x.php PATH_INFO=/info \
            HTTP_HOST=a.test:8080 HTTP_ACCEPT=*/* HTTP_X_ONE=1";
        let expected = expected.replace("VERSION", env!("CARGO_PKG_VERSION"));
        let shown: Vec<String> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, expected.split_ascii_whitespace().collect::<Vec<_>>());
    }

    /// A page whose script reads a variable about the client depends on it (`millrace_pages::read_fields`). A new variable needs its place.
    #[test]
    fn every_variable_is_of_the_key_or_of_the_client() {
        use millrace_pages::read_fields::OF_CLIENT;
        const OF_PROTOCOL: [&str; 2] = ["SERVER_PROTOCOL", "HTTP2"];
        // Whoever has one of these bypasses the cache.
        const OF_LOGIN: [&str; 2] = ["REMOTE_USER", "AUTH_TYPE"];
        const OF_KEY: &str = "QUERY_STRING REQUEST_METHOD CONTENT_TYPE CONTENT_LENGTH SCRIPT_NAME REQUEST_URI DOCUMENT_URI DOCUMENT_ROOT \
            REQUEST_SCHEME HTTPS GATEWAY_INTERFACE SERVER_SOFTWARE SERVER_ADDR SERVER_PORT SERVER_NAME REDIRECT_STATUS SCRIPT_FILENAME PATH_INFO \
            SCRIPT_URL SCRIPT_URI LSWS_EDITION X-LSCACHE LSCACHE_VARY_COOKIE LSCACHE_VARY_VALUE";
        let mut plan = site(&[]).plan.clone();
        plan.profile = Profile::WordPress;
        let mut request = request("GET /a/x.php/info?q HTTP/1.1\nHost: a.test:8080\nX-One: 1");
        request.ends.scheme = Scheme::Https;
        for (name, _) in write_all(&Site::new(0, plan), &request, &script("/info")) {
            let is_in = |list: &[&str]| list.contains(&&*name);
            let is_of_key = OF_KEY.split_ascii_whitespace().any(|known| known == name);
            let is_known = is_of_key || is_in(&OF_CLIENT) || is_in(&OF_PROTOCOL) || is_in(&OF_LOGIN);
            assert!(is_known || name.starts_with("HTTP_"), "{name}");
        }
    }

    /// Where a plugin may look for LiteSpeed, and whether the cache acts on its fields.
    #[test]
    fn litespeed_is_there_for_its_plugins() {
        let request = request("GET /a/x.php/info?q HTTP/1.1\nHost: a.test:8080");
        for (profile, mode, urls, cache) in [
            (Profile::WordPress, CacheMode::Profile, true, true),
            (Profile::Drupal, CacheMode::Profile, true, true),
            (Profile::WordPress, CacheMode::Standard, true, false),
            (Profile::WordPress, CacheMode::Off, true, false),
            (Profile::Generic, CacheMode::Profile, false, false),
        ] {
            let mut plan = site(&[]).plan.clone();
            (plan.profile, plan.cache.mode) = (profile, mode);
            let all = write_all(&Site::new(0, plan), &request, &script("/info"));
            let expected = |there: bool, value| if there { vec![value] } else { vec![] };
            assert_eq!(get(&all, "SCRIPT_URL"), expected(urls, "/a/x.php/info"));
            assert_eq!(get(&all, "SCRIPT_URI"), expected(urls, "http://a.test:8080/a/x.php/info"));
            assert_eq!(get(&all, "LSWS_EDITION"), expected(cache, EDITION));
            assert_eq!(get(&all, "X-LSCACHE"), expected(cache, "on,crawler"));
        }
        assert!(EDITION.starts_with("Openlitespeed"));
    }

    #[test]
    fn the_key_is_told_to_litespeeds_plugins() {
        const TELEPHONE: &str = "GET / HTTP/1.1\nHost: a\nUser-Agent: x (iPhone) Mobile";
        let told = |profile, key_cookies: &[&str], key_device, head| {
            let mut plan = site(&[]).plan.clone();
            plan.profile = profile;
            plan.cache.key_cookies = key_cookies.iter().map(|name| (*name).to_owned()).collect();
            plan.cache.key_device = key_device;
            let all = write_all(&Site::new(0, plan), &request(head), &script(""));
            [get(&all, "LSCACHE_VARY_COOKIE").join("|"), get(&all, "LSCACHE_VARY_VALUE").join("|")]
        };
        let wordpress = |names: &[&str], device, head| told(Profile::WordPress, names, device, head);
        assert_eq!(wordpress(&[], false, TELEPHONE), ["", ""]);
        assert_eq!(wordpress(&["lang", "x_*", "_vary2"], true, TELEPHONE), ["lang,_vary2", "ismobile"]);
        assert_eq!(wordpress(&["lang"], true, "GET / HTTP/1.1\nHost: a\nUser-Agent: X11"), ["lang", ""]);
        assert_eq!(wordpress(&[], true, "GET / HTTP/1.1\nHost: a"), ["", ""]);
        assert_eq!(told(Profile::Generic, &["lang"], true, TELEPHONE), ["", ""]);
    }

    #[test]
    fn content_is_told_by_its_true_length() {
        let mut post =
            request("POST / HTTP/1.1\nHost: a\nContent-Type: text/plain\nTransfer-Encoding: chunked");
        post.content = Content::Memory(b"hello".to_vec());
        let all = write_all(&site(&[]), &post, &script(""));
        assert_eq!((get(&all, "CONTENT_LENGTH"), get(&all, "CONTENT_TYPE")), (vec!["5"], vec!["text/plain"]));
        assert!(get(&all, "HTTP_TRANSFER_ENCODING").is_empty(), "RFC 9112 section 7.1.3");
        let post = request("POST / HTTP/1.1\nHost: a\nContent-Length: 0");
        assert_eq!(get(&write_all(&site(&[]), &post, &script("")), "CONTENT_LENGTH"), ["0"]);
    }

    #[test]
    fn the_target_wins_over_host() {
        let absolute = request("GET http://a.test/p?q HTTP/1.1\nHost: evil.test\nAccept: x");
        let all = write_all(&site(&[]), &absolute, &script(""));
        assert_eq!((get(&all, "HTTP_HOST"), get(&all, "REQUEST_URI")), (vec!["a.test"], vec!["/p?q"]));
        assert_eq!(get(&all, "SERVER_NAME"), ["a.test"]);
        assert!(!all.iter().any(|(_, value)| value.contains("evil")));
        let old = request("GET http://a.test:81/p HTTP/1.0");
        assert_eq!(
            get(&write_all(&site(&[]), &old, &script("")), "HTTP_HOST"),
            ["a.test:81"],
            "without the field"
        );
        let none = write_all(&site(&[]), &request("GET / HTTP/1.0"), &script(""));
        assert!(get(&none, "HTTP_HOST").is_empty());
    }

    /// RFC 3875 section 4.1.14.
    #[test]
    fn the_server_always_has_a_name() {
        let mut old = request("GET / HTTP/1.0");
        let name =
            |old: &Request, names| get(&write_all(&site(names), old, &script("")), "SERVER_NAME").join("|");
        assert_eq!(name(&old, &["a.test"]), "a.test");
        assert_eq!(name(&old, &["*.test"]), "10.0.0.255");
        for (local, expected) in [
            (Some("[2001:db8::1]:80"), "[2001:db8::1]"),
            (Some("[::ffff:192.0.2.1]:80"), "192.0.2.1"),
            (None, "localhost"),
        ] {
            old.ends.local = local.map(|local| local.parse().unwrap());
            assert_eq!(name(&old, &[]), expected);
        }
    }

    #[test]
    fn a_trusted_proxy_speaks_for_the_client() {
        let mut proxied = request("GET / HTTP/1.1\nHost: backend");
        proxied.forwarded_host = Some("shop.test".into());
        proxied.ends = Ends {
            client: Some("[2001:db8::1]:9".parse().unwrap()),
            local: None,
            scheme: Scheme::Https,
            tls: None,
        };
        let all = write_all(&site(&["*.test"]), &proxied, &script(""));
        for (name, value) in [
            ("HTTP_HOST", "shop.test"),
            ("SERVER_NAME", "shop.test"),
            ("HTTPS", "on"),
            ("REQUEST_SCHEME", "https"),
            ("SERVER_PORT", "443"),
            ("SERVER_ADDR", "unix:"),
            ("REMOTE_ADDR", "2001:db8::1"),
            ("REMOTE_PORT", "9"),
        ] {
            assert_eq!(get(&all, name), [value], "{name}");
        }
        proxied.ends.client = Some("[::ffff:192.0.2.1]:9".parse().unwrap());
        assert_eq!(get(&write_all(&site(&[]), &proxied, &script("")), "REMOTE_ADDR"), ["192.0.2.1"]);
        assert_eq!(
            get(&write_all(&site(&[]), &request("GET / HTTP/1.1\nHost: a"), &script("")), "HTTPS").len(),
            0
        );
    }

    #[test]
    fn fields_that_lie_do_not_pass() {
        let head = "GET / HTTP/1.1\nHost: a\nProxy: x\npROXY: x\nX_Real_IP: x\nX-LSCACHE: x\nx-lscache-vary-value: x\n\
            X-LiteSpeed-Tag: x\nX-LiteMage: x\nX.Y: x\nX!: x\nX-Real-IP: y";
        let all = write_all(&site(&[]), &request(head), &script(""));
        let fields: Vec<_> =
            all.iter().map(|(name, _)| &name[..]).filter(|n| n.starts_with("HTTP_")).collect();
        assert_eq!(fields, ["HTTP_HOST", "HTTP_X_REAL_IP"]);
        assert_eq!(get(&all, "HTTP_X_REAL_IP"), ["y"]);
        let polite = write_all(
            &site(&[]),
            &request("GET / HTTP/1.1\nHost: a\nProxy-X: x\nAuthorization: z"),
            &script(""),
        );
        assert_eq!(
            (get(&polite, "HTTP_PROXY_X"), get(&polite, "HTTP_AUTHORIZATION")),
            (vec!["x"], vec!["z"])
        );
    }

    #[test]
    fn repeated_fields_are_one_variable() {
        let head = "GET / HTTP/1.1\nHost: a\nX-A: 1\nCookie: a=1\nx-a: 2\nB: 0\nX-a: 3\ncookie: b=2";
        let all = write_all(&site(&[]), &request(head), &script(""));
        assert_eq!(get(&all, "HTTP_X_A"), ["1, 2, 3"]);
        assert_eq!(get(&all, "HTTP_COOKIE"), ["a=1; b=2"]);
        assert_eq!(get(&all, "HTTP_B"), ["0"]);
    }

    #[test]
    fn names_that_only_look_repeated() {
        // All of one length, with the same first and last letter.
        let head = "GET / HTTP/1.1\nHost: a\nX-ab-Y: 1\nX-cd-Y: 2\nX-ef-Y: 3";
        let all = write_all(&site(&[]), &request(head), &script(""));
        assert_eq!((get(&all, "HTTP_X_AB_Y"), get(&all, "HTTP_X_EF_Y")), (vec!["1"], vec!["3"]));
    }

    #[test]
    fn hosts() {
        for (authority, expected) in
            [("a:80", "a"), ("a", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("", "")]
        {
            assert_eq!(host(authority), expected);
        }
    }
}
