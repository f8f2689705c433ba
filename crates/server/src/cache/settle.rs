//! Steps for every response of a script, cacheable or not: applies purges, and invalidates after unsafe methods (RFC
//! 9111 section 4.4); and the request that PHP gets if the response is for all.

use std::hash::{DefaultHasher, Hash, Hasher};

use millrace_pages::ask::{is_ours_in_request, withheld_from_fill, write_fill_cookies};
use millrace_pages::judge::{CRAWLER_SEES, Validators, judge};
use millrace_pages::key::write_kept;
use millrace_pages::places::{COUNTRY, Country};
use millrace_pages::purge::purges;
use millrace_pages::read_fields::PROTOCOL;
use millrace_pages::rules::{ReadFields, UnknownCookies};
use millrace_pages::{Asked, Asking, Mode, Notes, Page, Place, Rules, Verdict, ask, looked, vary};
use millrace_wire::head::Framing;
use millrace_wire::path;

use super::CacheThread;
use super::cache_status::{self, CacheStatus};
use super::fill::answer;
use super::purge::note;
use millrace_base::message::Request;
use millrace_base::message::host_of;
use millrace_base::message::reply::{Aside, Reply};
use millrace_base::site::Site;

/// A response for one visitor is on its way.
pub fn settle(
    thread: &CacheThread,
    site: &Site,
    request: &Request,
    reply: &mut Reply,
    cache_status: CacheStatus,
) {
    let Some(rules) = &site.cache else { return };
    let method = request.head.method();
    let is_told =
        method == "HEAD" && cache_status.is_miss() && tell_as_get(thread, site, request, reply, cache_status);
    if reply.aside.is_some() || !matches!(method, "GET" | "HEAD") {
        let aside = reply.aside.take().unwrap_or_default();
        let mut path = Vec::new();
        if path::normalise(request.raw_path(), &mut path).is_ok() {
            purge(thread, rules, &place(site, request, &path), method, reply, &aside);
        }
        tell_crawler(request, reply, &aside);
        reply.aside = Some(aside).filter(|aside| aside.handed().is_some());
    }
    if !is_told {
        cache_status::alone(reply, cache_status);
    }
}

/// The same for a response of an application: unsafe methods invalidate the page of their URL.
pub fn settle_proxied(
    thread: &CacheThread,
    site: &Site,
    request: &Request,
    reply: &mut Reply,
    cache_status: CacheStatus,
) {
    let Some(rules) = &site.proxy_cache else { return };
    let (method, mut path) = (request.head.method(), Vec::new());
    if !matches!(method, "GET" | "HEAD") && path::normalise(request.raw_path(), &mut path).is_ok() {
        purge(thread, rules, &place(site, request, &path), method, reply, &Aside::default());
    }
    cache_status::alone(reply, cache_status);
}

/// Gives a response to HEAD, which is never stored, the cache status of the response to GET. False if that is
/// unknown.
fn tell_as_get(
    thread: &CacheThread,
    site: &Site,
    request: &Request,
    reply: &mut Reply,
    cache_status: CacheStatus,
) -> bool {
    let (Some(rules), mut path) = (&site.cache, Vec::new()) else { return false };
    if path::normalise(request.raw_path(), &mut path).is_err() {
        return false;
    }
    let Ok(asking) = ask(rules, &asked(site, request, &path), &mut Vec::new()) else { return false };
    if reply.status >= 500 && rules.mode == Mode::Profile {
        cache_status::failed(reply, cache_status);
        return true;
    }
    let verdict = {
        let (asking, none) = (Asking { head: false, ..asking }, Aside::default());
        let country = site.visitors.country(&thread.context, request);
        let answer = answer(reply, reply.aside.as_deref().unwrap_or(&none), &[], country);
        judge(rules, &place(site, request, &path), &asking, &answer, thread.cache.now(&thread.context))
    };
    match verdict {
        Verdict::Store { .. } => cache_status::streamed(reply, cache_status),
        Verdict::Refuse { why, .. } => cache_status::refused(reply, cache_status, why),
    }
    true
}

/// Tells the LiteSpeed Cache plugin's crawler, which runs on this machine, when a page is uncacheable, so that it
/// doesn't warm it up.
pub fn tell_crawler(request: &Request, reply: &mut Reply, aside: &Aside) {
    let (client, local) = (request.ends.client_ip(), request.ends.local.map(|local| local.ip()));
    let is_here = client.is_some_and(|client| client.is_loopback() || Some(client) == local);
    if !is_here || !request.head.field("user-agent").is_some_and(|agent| agent.starts_with(b"lscache_")) {
        return;
    }
    for (_, value) in aside.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(CRAWLER_SEES)) {
        reply.fields.push(CRAWLER_SEES, value);
    }
}

/// Applies a response's purges. Purges by function call have already been applied.
pub fn purge(
    thread: &CacheThread,
    rules: &Rules,
    place: &Place<'_>,
    method: &str,
    reply: &Reply,
    aside: &Aside,
) {
    let fields = reply.fields.iter().chain(aside.fields.iter());
    let purges = purges(rules, place, method, reply.status, fields, &Notes::default());
    if !purges.is_empty() {
        let pages = thread.cache.purge(&purges);
        // An unsafe method purges implicitly, and there is seldom a page for its URL.
        if pages > 0 {
            let process = &thread.context.process;
            let who = format!("{method} {}{}", place.host, place.path.escape_ascii());
            note(&process.stats, &process.log, &who, &asked_for(aside), pages);
        }
    }
}

/// A response's purge orders, for the log.
fn asked_for(aside: &Aside) -> String {
    const MOST: usize = 200;
    let is_purge = |name: &str| {
        name.to_ascii_lowercase().contains("-purge") || name.eq_ignore_ascii_case("Cache-Group-Invalidation")
    };
    let said = aside.fields.iter().find(|(name, _)| is_purge(name));
    match said {
        Some((name, value)) => format!("{name}: {}", value[..value.len().min(MOST)].escape_ascii()),
        None => "pages that it may have changed".to_owned(),
    }
}

/// The place of a request; `path` is its normalised path.
pub fn place<'a>(site: &'a Site, request: &'a Request, path: &'a [u8]) -> Place<'a> {
    Place { site: site.name().unwrap_or(""), host: request.authority(), path, query: request.query() }
}

/// A request as the cache's rules see it; `path` is the normalised one.
pub fn asked<'a>(
    site: &'a Site,
    request: &'a Request,
    path: &'a [u8],
) -> Asked<'a, impl Iterator<Item = (&'a str, &'a [u8])> + Clone> {
    let host = host_of(request.authority());
    Asked {
        method: request.head.method(),
        scheme: request.ends.scheme.text(),
        place: place(site, request, path),
        raw_path: request.raw_path(),
        rules: request.found.ruling.as_ref().map_or(&[], |ruling| &ruling.key),
        host_is_known: site.plan.names.is_empty() || site.answers_for(host),
        has_content: request.head.framing() != Framing::None,
        fields: request.head.fields(),
    }
}

/// Appends a request's value for a name by which pages vary: a field, or the client's country.
pub fn select(
    thread: &CacheThread,
    site: &Site,
    rules: &Rules,
    request: &Request,
    name: &str,
    out: &mut Vec<u8>,
) {
    match name {
        COUNTRY => {
            out.extend_from_slice(
                site.visitors.country(&thread.context, request).as_ref().map_or(b"", Country::letters),
            );
        }
        PROTOCOL => out.extend_from_slice(request.head.version().text().as_bytes()),
        field => vary::select(rules, cookies_too(request), field, out),
    }
}

/// [`select`] for one request, as the store asks for it.
pub fn selector<'a>(
    thread: &'a CacheThread,
    site: &'a Site,
    rules: &'a Rules,
    request: &'a Request,
) -> impl FnMut(&str, &mut Vec<u8>) + 'a {
    move |name, out| select(thread, site, rules, request, name, out)
}

/// The fields of a request, with the cookies that were taken out of it.
pub fn cookies_too(request: &Request) -> impl Iterator<Item = (&str, &[u8])> + Clone {
    let withheld = Some(("cookie", &*request.withheld)).filter(|(_, cookies)| !cookies.is_empty());
    request.head.fields().chain(withheld)
}

/// Whether a request has cookies that scripts get only if they look for one.
pub fn has_withheld_cookies(rules: &Rules, request: &Request) -> bool {
    looked::has_withheld(rules, cookies_too(request))
}

/// Whether a request has cookies that the cache doesn't know.
pub fn has_unknown_cookies(rules: &Rules, request: &Request) -> bool {
    looked::has_unknown(rules, cookies_too(request))
}

/// A number for what a script can read of a request beside its URL and cookies, if pages may depend on it without saying so. Before a script
/// has ended, its response is only for requests with the same number.
pub fn told_by(rules: &Rules, request: &Request) -> u64 {
    if rules.read_fields != ReadFields::Observed {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    (request.ends.client_ip(), request.head.version().text()).hash(&mut hasher);
    for field in request.head.fields().filter(|(name, _)| !name.eq_ignore_ascii_case("cookie")) {
        field.hash(&mut hasher);
    }
    hasher.finish()
}

/// The cookie by which a request doesn't get a page that varies by `name`.
pub fn meant_cookie<'a>(rules: &Rules, request: &'a Request, name: &str) -> Option<&'a [u8]> {
    looked::found(rules, cookies_too(request), name)
}

/// The request that PHP gets if the response is for all: by GET, without fields that concern one client only and
/// without what the key does not contain; with the validators of a page that may still be valid.
pub fn for_everybody(rules: &Rules, request: &Request, previous: Option<&Page>) -> Request {
    let mut more: Vec<(&str, Vec<u8>)> = Vec::new();
    let mut withheld = request.withheld.clone();
    for (_, value) in request.head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("cookie")) {
        let mut kept = Vec::new();
        match rules.unknown_cookies {
            UnknownCookies::Ignored => _ = write_fill_cookies(rules, value, &mut kept),
            _ => looked::divide(rules, value, &mut kept, &mut withheld),
        }
        if !kept.is_empty() {
            more.push(("Cookie", kept));
        }
    }
    for (name, value) in request.head.fields().filter(|_| rules.faithful) {
        if name.eq_ignore_ascii_case("accept-encoding") && names_codings(value) {
            more.push(("Accept-Encoding", value.to_vec()));
        }
    }
    if let Some(page) = previous {
        let validators = Validators::of(page);
        more.extend(validators.fields().map(|(name, value)| (name, value.as_bytes().to_vec())));
    }
    let keeps = |name: &str| {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        let is_replaced = is("cookie") || is("accept-encoding") || is_condition(name);
        !is_replaced && !withheld_from_fill(rules, name) && !is_ours_in_request(name)
    };
    let mut target = request.raw_path().to_vec();
    let path_length = target.len();
    target.push(b'?');
    let is_reduced = !rules.faithful
        && request.query().is_some_and(|query| write_kept(&rules.dropped_arguments, query, &mut target));
    if target.len() == path_length + 1 {
        target.pop();
    }
    let target = if is_reduced { &target } else { request.head.path_query() };
    let is_shared = rules.mode == Mode::Profile;
    Request { is_shared, withheld, ..request.derived(target, keeps, &more) }
}

/// Whether a value of `Accept-Encoding` contains only known codings, so that a page which shows it reveals nothing.
fn names_codings(value: &[u8]) -> bool {
    const CODINGS: [&[u8]; 8] =
        [b"gzip", b"x-gzip", b"deflate", b"br", b"zstd", b"compress", b"identity", b"*"];
    value.split(|b| *b == b',').all(|member| {
        let mut parts = member.split(|b| *b == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let is_weight = |part: &[u8]| {
            part.strip_prefix(b"q=").is_some_and(|q| q.iter().all(|b| b.is_ascii_digit() || *b == b'.'))
        };
        CODINGS.iter().any(|coding| coding.eq_ignore_ascii_case(name)) && parts.all(is_weight)
    })
}

/// Whether the request has arguments that the key does not contain; their order doesn't matter.
pub fn drops_arguments(rules: &Rules, request: &Request) -> bool {
    request.query().is_some_and(|query| write_kept(&rules.dropped_arguments, query, &mut Vec::new()))
}

/// Whether a field of a request makes it conditional (RFC 9110 section 13.1).
pub fn is_condition(name: &str) -> bool {
    name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("if-"))
}

/// Whether a response says that it is public.
pub fn is_public(reply: &Reply) -> bool {
    reply.fields.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case("cache-control")
            && value
                .split(|b| *b == b',')
                .any(|directive| directive.trim_ascii().eq_ignore_ascii_case(b"public"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings_and_nothing_else() {
        for yes in ["gzip", "gzip, deflate, br, zstd", "*;q=0", "GZIP;q=0.5 , identity"] {
            assert!(names_codings(yes.as_bytes()), "{yes}");
        }
        for no in ["", "evil.test", "gzip, <b>", "gzip;x=1", "gzip;q=a"] {
            assert!(!names_codings(no.as_bytes()), "{no}");
        }
    }
}
