//! Takes a request down its route, as far as possible without waiting.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use millrace_pages::{Hardness, Purge, Tag};

use super::{ServeThread, leave, rules};
use crate::cache::{self, CacheStatus, Consulted, PageMaker, Waited, purge};
use crate::context::stats::{ResponseClass, SiteCounter};
use crate::files::{self, FileResponse};
use crate::message::Request;
use crate::message::reply::{self, Body, Reply};
use crate::php::{self, SiteWorkers};
use crate::route::{self, FILE_METHODS, Route};
use crate::site::{Network, Script, Site};

/// The result for a request.
pub enum Response {
    /// A ready response.
    Ready(Reply),
    /// A response, after work that has begun.
    Later(Pin<Box<dyn Future<Output = Reply>>>),
    /// A cached page, when it has been made, or else the script's response to this request alone.
    Page(Pin<Box<dyn Future<Output = Waited>>>, Script),
    /// A script's response, after the request's content has arrived; and the cache status.
    Script(Script, CacheStatus),
    /// Not here: the connection must go to an event loop that runs PHP.
    Elsewhere,
}

/// The response of `site` to `request`, and what made it. A ready response is sent as it is.
pub fn respond(
    thread: &Rc<ServeThread>,
    site: &Arc<SiteWorkers>,
    request: &Request,
) -> (ResponseClass, Response) {
    match decide(thread, site, request) {
        (class, Response::Ready(reply)) => (class, Response::Ready(leave(site, reply))),
        other => other,
    }
}

fn decide(thread: &Rc<ServeThread>, site: &Arc<SiteWorkers>, request: &Request) -> (ResponseClass, Response) {
    if let Some(proof) = thread.service.acme.answer(request.head.method(), request.raw_path()) {
        return other(challenge(proof));
    }
    if let Some(reply) = rules::answer(site, request) {
        return other(reply);
    }
    if purge::is_order(site, request) {
        return other(purge::answer(&thread.pages, &thread.setup(), site, request));
    }
    let mut path = thread.path.take();
    let route = route::find_route(thread, &thread.files, site, request, &mut path);
    heed_changes(thread, site);
    let response = follow(thread, site, request, &path, route);
    thread.path.replace(path);
    response
}

fn other(reply: Reply) -> (ResponseClass, Response) {
    (ResponseClass::Other, Response::Ready(reply))
}

/// The response that an authority reads before it issues a certificate (RFC 8555 section 8.3).
fn challenge(proof: String) -> Reply {
    let reply = Reply::new(200).with("Content-Type", "application/octet-stream");
    Reply {
        has_site_fields: true,
        ..reply.with("Cache-Control", "no-store").body(Body::Bytes(proof.into_bytes()))
    }
}

/// If a site has become another network, its pages have other tags.
fn heed_changes(thread: &ServeThread, site: &Site) {
    if site.network.as_ref().is_some_and(Network::take_change) {
        let what = (Purge::Tag(Tag::site(site.name().unwrap_or(""))), Hardness::Soft);
        let pages = thread.service.cache.purge(&[what]);
        let (stats, log) = (&thread.process.stats, &thread.process.log);
        purge::note(stats, log, &"a change of wp-config.php", &"the whole site", pages);
    }
}

/// The result on its route; `path` is its normalised path.
fn follow(
    thread: &Rc<ServeThread>,
    site: &Arc<SiteWorkers>,
    request: &Request,
    path: &[u8],
    route: Route,
) -> (ResponseClass, Response) {
    other(match route {
        Route::Php(script) => return from_script(thread, site, request, path, script),
        Route::File(entry) => {
            let response = match files::answer(thread, request, &entry) {
                FileResponse::Ready(reply) => Response::Ready(reply),
                FileResponse::Later(reply) => Response::Later(reply),
            };
            return (ResponseClass::File, response);
        }
        Route::Redirect(status, location) => reply::redirect(status, &location),
        Route::Refuse(status) => reply::plain(status),
        Route::Allow(405) => reply::plain(405).with("Allow", FILE_METHODS),
        Route::Allow(status) => Reply::new(status).with("Allow", FILE_METHODS),
    })
}

/// A cached page, or the script.
fn from_script(
    thread: &Rc<ServeThread>,
    site: &Arc<SiteWorkers>,
    request: &Request,
    path: &[u8],
    script: Script,
) -> (ResponseClass, Response) {
    // A script's response to a client with a certificate is for that client alone.
    let known = request.ends.tls.as_ref().and_then(|tls| tls.client.as_ref()?.certificate.as_ref());
    if known.is_some() && site.plan.clients.is_some() && !request.is_early() {
        return (ResponseClass::Php, Response::Script(script, CacheStatus::bypass("client-certificate")));
    }
    let consulted =
        cache::consult(&thread.pages, &site.site, request, path, &|| maker(thread, site, &script));
    if let Some(outcome) = outcome(site, &consulted) {
        thread.stats.add_site(site.number, outcome, 1);
    }
    match consulted {
        Consulted::Run(_) if request.is_early() => other(reply::plain(425)),
        Consulted::Hit(reply) => (ResponseClass::Page, Response::Ready(reply)),
        Consulted::Wait(reply) => (ResponseClass::Php, Response::Page(reply, script)),
        Consulted::Run(cache_status) => (ResponseClass::Php, Response::Script(script, cache_status)),
        Consulted::Elsewhere => (ResponseClass::Php, Response::Elsewhere),
    }
}

/// What a look into the cache counts as in the figures of the site.
fn outcome(site: &Site, consulted: &Consulted) -> Option<SiteCounter> {
    match consulted {
        Consulted::Hit(_) => Some(SiteCounter::CacheHits),
        Consulted::Wait(_) => Some(SiteCounter::CacheMisses),
        Consulted::Run(cache_status) if cache_status.is_miss() => Some(SiteCounter::CacheMisses),
        Consulted::Run(_) => site.cache.is_some().then_some(SiteCounter::CacheBypassed),
        Consulted::Elsewhere => None,
    }
}

/// Runs a script for the cache.
fn maker(thread: &Rc<ServeThread>, site: &Arc<SiteWorkers>, script: &Script) -> PageMaker {
    let (php, site, script) = (thread.php.clone(), site.clone(), script.clone());
    Rc::new(move |mut request: Request| {
        let (php, site, script) = (php.clone(), site.clone(), script.clone());
        Box::pin(async move { php::run(&php, &site, &mut request, &script).await })
    })
}
