//! The last rows: a page from the cache, or who makes the response.

use std::rc::Rc;

use super::{Make, Maker, Walk, WalkStep};
use crate::audience;
use crate::cache::{self, CacheStatus, Decision, PageMaker, PageRun};
use crate::htaccess::Origin;
use crate::proxy;
use crate::serve::site_rules;
use crate::shield;
use millrace_base::context::stats::{ResponseClass, SiteCounter};
use millrace_base::message::{Request, Step};
use millrace_base::site::Script;
use millrace_pools::{self as php, SiteWorkers};

/// Looks the request up in the page cache.
pub(super) fn consult(walk: &mut Walk<'_>) -> WalkStep {
    let Some(maker) = walk.maker.take() else { return Step::Refuse(404) };
    walk.origin = Origin::Script;
    walk.class = match maker {
        Maker::Application(_) => ResponseClass::Proxy,
        Maker::Script(_) | Maker::Permission(_) => ResponseClass::Php,
    };
    let step = if walk.explains() {
        walk.preview = preview(walk, &maker);
        Step::Next
    } else {
        consulted(walk, &maker)
    };
    walk.maker = Some(maker);
    step
}

fn consulted(walk: &mut Walk<'_>, maker: &Maker) -> WalkStep {
    let consulted = match maker {
        Maker::Script(script) => from_script(walk, script),
        Maker::Application(number) => from_application(walk, *number),
        Maker::Permission(_) => PageRun::alone(CacheStatus::NOTHING),
    };
    match consulted {
        Step::Make(PageRun { status, page }) => {
            (walk.cache_status, walk.page) = (status, page);
            Step::Next
        }
        Step::Answer(reply) => {
            walk.class = ResponseClass::Page;
            Step::Answer(reply)
        }
        _ => Step::Elsewhere,
    }
}

/// The response must be made. What may be a replay has to come again (RFC 8470 section 5.2).
pub(super) fn make(walk: &mut Walk<'_>) -> WalkStep {
    let page = walk.page.take();
    if page.is_none() && walk.request.is_early() {
        (walk.class, walk.origin) = (ResponseClass::Other, Origin::Server);
        return Walk::plain(425);
    }
    match walk.maker.take() {
        Some(maker) => Step::Make(Make { maker, cache_status: walk.cache_status, page }),
        None => Step::Refuse(404),
    }
}

fn from_script(walk: &Walk<'_>, script: &Script) -> Step<PageRun> {
    let Walk { thread, site, request, path, .. } = walk;
    if let Some(why) = bypasses(site, request) {
        return PageRun::alone(CacheStatus::bypass(why));
    }
    let make = || script_maker(walk, script);
    let consulted = cache::consult(&thread.pages, &site.site, request, path, &make, audience::admit);
    count(walk, &consulted);
    consulted
}

fn from_application(walk: &Walk<'_>, number: usize) -> Step<PageRun> {
    let Walk { thread, site, request, path, .. } = walk;
    let proxy = &site.plan.proxies[number];
    if !proxy.cache {
        return PageRun::alone(CacheStatus::NOTHING);
    }
    let switches = request.protocol.is_some() || request.head.field("upgrade").is_some();
    let is_cached = !switches
        && !request.is_private()
        && !site.shows_certificate(request)
        && !site_rules::bypasses(site, request);
    let make = || application_maker(walk, number);
    let consulted = match is_cached {
        true => cache::consult_proxied(&thread.pages, &site.site, request, path, &make),
        false => PageRun::alone(CacheStatus::NOTHING),
    };
    count(walk, &consulted);
    consulted
}

/// Why the page cache has no say in what a script makes of this request, whatever it holds.
fn bypasses(site: &SiteWorkers, request: &Request) -> Option<&'static str> {
    let found = &request.found;
    // A script's response to a client with a certificate is for that client alone.
    if site.shows_certificate(request) && !request.is_early() {
        Some("client-certificate")
    } else if request.is_private() {
        Some("auth")
    } else if found.ruling.as_ref().is_some_and(|ruling| ruling.verdict.cache.bypass) {
        Some("htaccess")
    } else if found.rules.is_some() && site_rules::bypasses(site, request) {
        Some("rule")
    } else {
        None
    }
}

/// Counts a look into the cache in the figures of the site.
fn count(walk: &Walk<'_>, consulted: &Step<PageRun>) {
    let Walk { thread, site, .. } = walk;
    let outcome = match consulted {
        Step::Answer(_) => SiteCounter::CacheHits,
        Step::Make(PageRun { page: Some(_), .. }) => SiteCounter::CacheMisses,
        Step::Make(PageRun { status, .. }) if status.is_miss() => SiteCounter::CacheMisses,
        Step::Make(_) if site.cache.is_some() => SiteCounter::CacheBypassed,
        _ => return,
    };
    thread.context.stats.add_site(site.number, outcome, 1);
}

/// What the cache would do, without doing it.
fn preview(walk: &Walk<'_>, maker: &Maker) -> Option<cache::Preview> {
    let Walk { thread, site, request, path, .. } = walk;
    if !matches!(maker, Maker::Script(_)) {
        return None;
    }
    let mut preview = cache::preview(&thread.pages, &site.site, request, path, audience::admit)?;
    if let Some(word) = bypasses(site, request) {
        let (name, pattern) = (String::new(), String::new());
        preview.decision = Decision::Bypass { word, name, pattern };
    }
    Some(preview)
}

/// Runs a script for the cache.
fn script_maker(walk: &Walk<'_>, script: &Script) -> PageMaker {
    let (thread, site, script) = (walk.thread.clone(), walk.site.clone(), script.clone());
    let seen = thread.shield.look(&thread.context, &site, walk.request, &script);
    Rc::new(move |mut request: Request| {
        let (thread, site, script) = (thread.clone(), site.clone(), script.clone());
        Box::pin(async move {
            match thread.shield.admit(&thread.context, &site, seen, &mut request).await {
                Ok(_pass) => {
                    let mut reply = php::run(&thread.php, &site, &mut request, &script).await;
                    thread.shield.checked(&thread.context, seen, reply.status);
                    site_rules::set_lifetime(&site, &request, &mut reply);
                    reply
                }
                Err(refusal) => refusal,
            }
        })
    })
}

/// Asks an application, for the cache.
fn application_maker(walk: &Walk<'_>, number: usize) -> PageMaker {
    let (thread, site) = (walk.thread.clone(), walk.site.clone());
    let is_banned = thread.shield.is_held_back(&thread.context, &site, walk.request);
    Rc::new(move |mut request: Request| {
        let (thread, site) = (thread.clone(), site.clone());
        Box::pin(async move {
            if is_banned {
                return shield::forbidden(&thread.context);
            }
            proxy::run(&thread.proxy, &site.plan.proxies[number], &mut request).await
        })
    })
}
