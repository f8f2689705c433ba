//! `PURGE` and `BAN`: methods without a standard, used by every plugin that was written for Varnish.
//!
//! ```text
//!  PURGE /path           the pages of that path, whatever their query; hard
//!  PURGE /path?query     that one
//!  PURGE /path/*         all that begin so; soft, as all below
//!  PURGE /path/.*        the same, with `X-Purge-Method: regex` (Proxy Cache Purge, WP Rocket)
//!  PURGE /, BAN /        with tags in Cache-Tags, Cache-Tag, Surrogate-Key, xkey, xkey-purge, xkey-softpurge, Millrace-Tag
//!  BAN /path             all that begin so
//! ```
//!
//! An order for one page makes it go, as these plugins expect; an order for many pages makes them stale, so that a
//! plugin that empties the cache with every click does not empty it for the visitors when PHP can't keep up.
//! `Millrace-Purge: hard` or `soft` overrides this.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use millrace_pages::Hardness;
use millrace_settings::plan::{Cache, Peers, Secret};

use super::order::{self, MOST_TAGS, OrderError, PurgeOrder, What};
use millrace_base::message::Request;
use millrace_base::message::reply::{self, Body, Reply};
use millrace_base::site::Site;

/// Fields that name tags, and their separators.
const TAG_FIELDS: &[(&str, &[char])] = &[
    ("Millrace-Tag", &[',']),
    ("Cache-Tag", &[',']),
    ("Cache-Tags", &[',', ' ', '|']),
    ("Surrogate-Key", &[' ']),
    ("xkey", &[' ', ',']),
    ("xkey-purge", &[' ', ',']),
    ("xkey-softpurge", &[' ', ',']),
];

/// Fields by which a proxy shows that it forwards another client's request.
const FORWARDED: &[&str] =
    &["Forwarded", "Via", "X-Forwarded-For", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP"];

/// Advice for the user of a refused plugin.
pub const WHAT_TO_DO: &str = "The address of the client is not enough to authorize a purge, because this server is reachable \
    from other machines or trusts a proxy. Set cache.purge_token and send it in the header field Millrace-Token, or add the \
    address to cache.purge_from, or use the admin socket: millrace purge.";
/// Minimum interval between two such log messages.
const QUIET: Duration = Duration::from_secs(60);

/// Whether the method is one of these two, and the site's cache is on. If it is off, the script gets these methods
/// like any other.
pub fn is_order(site: &Site, request: &Request) -> bool {
    matches!(request.head.method(), "PURGE" | "BAN") && site.cache.is_some()
}

/// Reads the order for `site` from a request, if its sender is permitted and it is valid; otherwise returns the
/// response.
///
/// # Errors
/// 403 for senders other than `cache.purge_from` and `cache.purge_token` permit, 400 with a reason for an invalid
/// order.
pub fn read(site: &Site, settings: &Cache, request: &Request) -> Result<PurgeOrder, Box<Reply>> {
    if !may(&settings.purge_from, request) && !has_token(settings.purge_token.as_ref(), request) {
        return Err(Box::new(if is_near(request) { text(403, WHAT_TO_DO) } else { reply::plain(403) }));
    }
    let what = match (tags(site, request), request.head.method()) {
        (Some(tags), _) => tags,
        (None, "PURGE") => purge(site, request).map(|what| vec![what]),
        (None, _) => ban(site, request),
    };
    match what {
        Ok(what) => {
            let hardness = hardness(request, &what);
            Ok(PurgeOrder { what, hardness })
        }
        Err(why) => Err(Box::new(text(400, &why.to_string()))),
    }
}

/// The response to an order that covered `pages`.
pub fn done(pages: usize) -> Reply {
    text(200, &format!("Purged {pages} {}.", if pages == 1 { "page" } else { "pages" }))
}

fn text(status: u16, sentence: &str) -> Reply {
    let body = Body::Bytes(format!("{sentence}\n").into_bytes());
    Reply::new(status)
        .with("Content-Type", "text/plain; charset=utf-8")
        .with("Cache-Control", "no-store")
        .body(body)
}

/// Whether the sender may purge. Behind an untrusted proxy all clients have the proxy's address, and a proxy on this
/// machine has the address of a local plugin; so forwarded requests may not, unless a trusted proxy named the
/// client's address.
fn may(allowed: &[Peers], request: &Request) -> bool {
    let known = match request.ends.client_ip() {
        Some(ip) => allowed.iter().any(|peers| peers.contains(ip)),
        None => allowed.contains(&Peers::Unix),
    };
    // A trusted proxy doesn't name its client's port: that shows the address's origin.
    let told_by_proxy = request.ends.client.is_some_and(|client| client.port() == 0);
    known && (told_by_proxy || !FORWARDED.iter().any(|name| request.head.field(name).is_some()))
}

/// Whether the request has the secret.
fn has_token(secret: Option<&Secret>, request: &Request) -> bool {
    let Some(secret) = secret else { return false };
    let said = [
        request.head.field_text("Authorization").and_then(bearer),
        request.head.field_text("Millrace-Token").map(str::trim),
    ];
    said.into_iter().flatten().any(|said| secret.is(said))
}

/// The token of a field `Authorization: Bearer TOKEN` (RFC 6750, section 2.1).
pub fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
}

/// Whether it came from this machine: perhaps from a plugin, whose administrator must know.
fn is_near(request: &Request) -> bool {
    request.ends.client_ip().is_none_or(|ip| ip.to_canonical().is_loopback())
}

/// Whether the log should mention again that a plugin's order was refused.
pub fn is_worth_a_line(request: &Request) -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    if !is_near(request) {
        return false;
    }
    let mut last = LAST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let is_due = last.is_none_or(|last| last.elapsed() >= QUIET);
    if is_due {
        *last = Some(Instant::now());
    }
    is_due
}

fn purge(site: &Site, request: &Request) -> Result<What, OrderError> {
    let target = request.head.path_query();
    let regex =
        request.head.field_text("X-Purge-Method").is_some_and(|how| how.trim().eq_ignore_ascii_case("regex"));
    let host = Some(order::key_host(request.authority(), request.ends.scheme.text()));
    let target = match target.strip_suffix(b".*").filter(|_| regex) {
        Some(prefix) => [prefix, b"*"].concat(),
        None => target.to_vec(),
    };
    if regex && target.iter().any(|byte| b"^$()[]{}|\\".contains(byte)) {
        return Err(OrderError::Pattern);
    }
    order::from_target(site.index, host, &target).ok_or(OrderError::NotPath)
}

/// The tags that the request names, if it has a field for them.
fn tags(site: &Site, request: &Request) -> Option<Result<Vec<What>, OrderError>> {
    let mut tags: Vec<&str> = Vec::new();
    let mut named = false;
    for (name, between) in TAG_FIELDS {
        let Some(value) = request.head.field_text(name) else { continue };
        named = true;
        // Drupal's Purge module can be configured to send them as a pattern: (^|\s)(a|b)(\s|$)
        let value =
            value.strip_prefix("(^|\\s)(").and_then(|rest| rest.strip_suffix(")(\\s|$)")).unwrap_or(value);
        tags.extend(value.split(*between).map(str::trim).filter(|tag| !tag.is_empty()));
    }
    if !named {
        return None;
    }
    Some(if tags.is_empty() {
        Err(OrderError::NoTag)
    } else if tags.len() > MOST_TAGS {
        Err(OrderError::ManyTags)
    } else {
        let what = |tag| order::legal_tag(tag).map(|tag| What::Tag(site.index, tag.to_owned()));
        tags.into_iter().map(what).collect()
    })
}

/// By prefix of the path.
fn ban(site: &Site, request: &Request) -> Result<Vec<What>, OrderError> {
    let path = request.raw_path();
    let prefix = [path.strip_suffix(b"*").unwrap_or(path), b"*"].concat();
    let host = Some(order::key_host(request.authority(), request.ends.scheme.text()));
    order::from_target(site.index, host, &prefix).map(|what| vec![what]).ok_or(OrderError::NotPath)
}

/// As the request says, otherwise hard for one page.
fn hardness(request: &Request, what: &[What]) -> Hardness {
    let said = request.head.field_text("Millrace-Purge").map(|word| word.trim().to_ascii_lowercase());
    match said.as_deref() {
        Some("hard") => Hardness::Hard,
        Some("soft") => Hardness::Soft,
        _ if request.head.field("xkey-purge").is_some() => Hardness::Hard,
        _ if matches!(what, [What::Page { .. }]) && request.head.field("Fastly-Soft-Purge").is_none() => {
            Hardness::Hard
        }
        _ => Hardness::Soft,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use millrace_settings::plan::CacheMode;
    use millrace_wire::head::{Head, Limits};

    use super::order::tests::setup;
    use super::*;
    use millrace_base::message::request::{Ends, Scheme};
    use millrace_settings::plan::NetworkSet;

    /// What `text` (method, target, one field per line) orders when it comes from `client`.
    fn ask(client: Option<&str>, text: &str) -> Result<String, u16> {
        ask_by(client, text, |_| ()).map_err(|reply| reply.status)
    }

    fn ask_by(
        client: Option<&str>,
        text: &str,
        change: impl FnOnce(&mut Cache),
    ) -> Result<String, Box<Reply>> {
        let setup = setup(true);
        let own = ["127.0.0.0/8", "::1"].map(|network| Peers::In(network.parse().unwrap()));
        let mut cache = Cache { purge_from: own.into(), ..setup.plan.cache.clone() };
        change(&mut cache);
        let mut lines = text.split('\n');
        let first = lines.next().unwrap();
        let fields: String = lines.map(|line| format!("{line}\r\n")).collect();
        let mut head = Head::default();
        let limits = Limits { bytes: 9000, fields: 50, target: 1000 };
        let bytes = format!("{first} HTTP/1.1\r\nHost: A.example\r\n{fields}\r\n");
        head.parse(bytes.as_bytes(), &limits).unwrap().unwrap();
        let client = client.map(|ip| SocketAddr::new(ip.parse().unwrap(), 4000));
        let trusted = NetworkSet::new(&[Peers::In("10.0.0.1".parse().unwrap())]);
        let request =
            Request::new(head, Ends { client, local: None, scheme: Scheme::Http, tls: None }, &trusted);
        assert!(is_order(&setup.sites[0], &request));
        let order = read(&setup.sites[0], &cache, &request)?;
        Ok(order.shown(&setup).to_string())
    }

    fn local(text: &str) -> Result<String, u16> {
        ask(Some("127.0.0.1"), text)
    }

    #[test]
    fn purges() {
        assert_eq!(local("PURGE /a/"), Ok("a.example/a/, hard".into()));
        assert_eq!(local("PURGE /a?b=c"), Ok("a.example/a?b=c, hard".into()));
        assert_eq!(local("PURGE /a/*"), Ok("a.example/a/*, soft".into()));
        assert_eq!(local("PURGE /.*\nX-Purge-Method: regex"), Ok("a.example/*, soft".into()));
        assert_eq!(local("PURGE /a/.*\nX-Purge-Method: Regex"), Ok("a.example/a/*, soft".into()));
        assert_eq!(local("PURGE /a/(b|c)\nX-Purge-Method: regex"), Err(400));
        assert_eq!(local("PURGE /a\nX-Purge-Method: default"), Ok("a.example/a, hard".into()));
        assert_eq!(local("PURGE /a\nMillrace-Purge: soft"), Ok("a.example/a, soft".into()));
        assert_eq!(local("PURGE /a\nFastly-Soft-Purge: 1"), Ok("a.example/a, soft".into()));
        assert_eq!(local("PURGE /a*\nMillrace-Purge: hard"), Ok("a.example/a*, hard".into()));
        assert_eq!(local("PURGE /%00"), Err(400));
    }

    #[test]
    fn bans() {
        assert_eq!(local("BAN /a"), Ok("a.example/a*, soft".into()));
        assert_eq!(local("BAN /a*"), Ok("a.example/a*, soft".into()));
        let tags = Ok("tag node:1 of a.example, tag config:x of a.example, soft".to_owned());
        assert_eq!(local("BAN /\nCache-Tags: node:1 config:x"), tags);
        assert_eq!(local("BAN /\nCache-Tags: (^|\\s)(node:1|config:x)(\\s|$)"), tags);
        assert_eq!(local("BAN /\nMillrace-Tag: node:1, config:x"), tags);
        assert_eq!(local("BAN /\nxkey-softpurge: node:1 config:x"), tags);
        assert_eq!(local("BAN /\nxkey-purge: a"), Ok("tag a of a.example, hard".into()));
        assert_eq!(local("BAN /\nCache-Tags: "), Err(400));
        assert_eq!(local("PURGE /\nxkey: node:1 config:x"), tags, "as Varnish's xkey is used");
        assert_eq!(local("PURGE /\nSurrogate-Key: a"), Ok("tag a of a.example, soft".into()));
        let many: Vec<String> = (0..300).map(|n| n.to_string()).collect();
        assert_eq!(local(&format!("BAN /\nxkey: {}", many.join(" "))), Err(400));
    }

    #[test]
    fn only_those_who_may() {
        assert!(ask(Some("::1"), "PURGE /").is_ok());
        assert!(ask(Some("::ffff:127.9.9.9"), "PURGE /").is_ok());
        assert_eq!(ask(Some("203.0.113.7"), "PURGE /"), Err(403));
        assert_eq!(ask(None, "PURGE /"), Err(403), "a proxy's Unix socket");
        // A request that a proxy on this machine forwards; the proxy would have to be in trusted_proxies.
        for field in [
            "X-Forwarded-For: 203.0.113.7",
            "X-Forwarded-For: 127.0.0.1",
            "Via: 1.1 proxy",
            "Forwarded: for=_x",
        ] {
            assert_eq!(local(&format!("PURGE /\n{field}")), Err(403), "{field}");
        }
        // A trusted proxy's field counts.
        assert_eq!(ask(Some("10.0.0.1"), "PURGE /\nX-Forwarded-For: 203.0.113.7"), Err(403));
        assert!(ask(Some("10.0.0.1"), "PURGE /\nX-Forwarded-For: 127.0.0.1").is_ok());
    }

    #[test]
    fn who_has_the_token_may() {
        let secret = "0123456789abcdef";
        let ask = |client: Option<&str>, field: &str| {
            let given = |cache: &mut Cache| {
                (cache.purge_from, cache.purge_token) = (vec![], Some(Secret(secret.into())))
            };
            ask_by(client, &format!("PURGE /a\n{field}"), given).map_err(|reply| reply.status)
        };
        let good = Ok("a.example/a, hard".to_owned());
        for field in [
            "Authorization: Bearer 0123456789abcdef",
            "authorization: bearer 0123456789abcdef ",
            "Millrace-Token: 0123456789abcdef",
        ] {
            for client in [Some("203.0.113.7"), Some("127.0.0.1"), None] {
                assert_eq!(ask(client, field), good, "{field}");
            }
            assert_eq!(ask(None, &format!("{field}\nX-Forwarded-For: 203.0.113.7")), good);
        }
        for field in [
            "A: b",
            "Millrace-Token: 0123456789abcdeg",
            "Millrace-Token: 0123456789abcde",
            "Millrace-Token:",
            "Authorization: Basic 0123456789abcdef",
            "Authorization: 0123456789abcdef",
        ] {
            assert_eq!(ask(Some("127.0.0.1"), field), Err(403), "{field}");
        }
        assert_eq!(
            ask_by(Some("127.0.0.1"), "PURGE /\nMillrace-Token:", |cache| cache.purge_from.clear())
                .unwrap_err()
                .status,
            403
        );
    }

    #[test]
    fn a_plugin_here_is_told_what_to_do() {
        let said = |client: &str| {
            let reply = ask_by(Some(client), "PURGE /a", |cache| cache.purge_from.clear()).unwrap_err();
            let Body::Bytes(bytes) = reply.body else { return String::new() };
            String::from_utf8(bytes).unwrap()
        };
        assert!(said("127.0.0.1").contains("cache.purge_token"));
        assert!(!said("203.0.113.7").contains("purge_token"));
    }

    #[test]
    fn where_nothing_is_kept() {
        let setup = setup(true);
        let mut plan = setup.sites[0].plan.clone();
        plan.cache.mode = CacheMode::Off;
        let site = Site::new(0, plan);
        let head = Head::from_parts("PURGE", "a.example", "/", std::iter::empty());
        let ends = Ends {
            client: Some("127.0.0.1:1".parse().unwrap()),
            local: None,
            scheme: Scheme::Http,
            tls: None,
        };
        let request = Request::direct(head, ends);
        assert!(!is_order(&site, &request) && is_order(&setup.sites[0], &request));
    }

    #[test]
    fn the_answer_counts() {
        let text = |reply: Reply| match reply.body {
            Body::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text(done(1)), "Purged 1 page.\n");
        assert_eq!(text(done(0)), "Purged 0 pages.\n");
    }
}
