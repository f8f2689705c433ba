//! Takes a request down its route, as far as possible without waiting.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use millrace_pages::{Hardness, Purge, Tag};
use millrace_settings::plan::RuleAction;

use super::site_rules::{self, Applied};
use super::{ServeThread, application_rules, leave, rules};
use crate::cache::{self, CacheStatus, Consulted, PageMaker, Waited, purge};
use crate::context::stats::{ResponseClass, SiteCounter};
use crate::files::{self, FileResponse};
use crate::htaccess::{self, ErrorPage, Origin, Ruled};
use crate::message::Request;
use crate::message::reply::{self, Body, Reply};
use crate::php::{self, SiteWorkers};
use crate::proxy;
use crate::route::{self, FILE_METHODS, OtherFolder, Route};
use crate::shield::{self, Missing};
use crate::site::{Rewritten, Script, Site};

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
    /// The response of an application, after the request's content has arrived: the number of the site's proxy.
    Proxy(usize, CacheStatus),
    /// A cached page of an application, when it has been made, or else its response to this request alone.
    ProxyPage(Pin<Box<dyn Future<Output = Waited>>>, usize),
    /// Something must be found out first: then the request is routed again.
    Again(Pin<Box<dyn Future<Output = ()>>>),
    /// A script decides whether the request may pass, by the number of the site's rule: then the request is routed again.
    Ask(u32),
    /// Not here: the connection must go to an event loop that runs PHP.
    Elsewhere,
}

/// The response of `site` to `request`, and what made it. A ready response is sent as it is.
pub fn respond(
    thread: &Rc<ServeThread>,
    site: &Arc<SiteWorkers>,
    request: &mut Request,
) -> (ResponseClass, Response) {
    site.note_request(thread.clock.unix_time().as_secs());
    let decided = match decide(thread, site, request) {
        (class, Response::Ready(reply)) if reply.status == 404 => {
            let is_made = class == ResponseClass::Page;
            let missing = if is_made { Missing::by_script(&reply) } else { Missing::File };
            let refusal = thread.shield.not_found(thread, site, request, missing);
            (class, Response::Ready(refusal.unwrap_or(reply)))
        }
        // What no script has refused, the server has: a password of its rules or of `.htaccess`.
        (class, Response::Ready(reply))
            if reply.status == 401 && request.head.field("authorization").is_some() =>
        {
            let refusal = thread.shield.wrong_password(thread, site, request);
            (class, Response::Ready(refusal.unwrap_or(reply)))
        }
        // Its password is being checked, or a file of rules is read, for a moment.
        (class, Response::Again(wait)) if request.head.field("authorization").is_some() => {
            match thread.shield.no_guess_left(thread, site, request) {
                Some(refusal) => (ResponseClass::Other, Response::Ready(refusal)),
                None => (class, Response::Again(wait)),
            }
        }
        (class, response) if costs(&response) => match thread.shield.held_back(thread, site, request) {
            Some(refusal) => other(refusal),
            None => (class, response),
        },
        other => other,
    };
    match decided {
        (class, Response::Ready(reply)) => (class, Response::Ready(leave(site, reply))),
        other => other,
    }
}

/// Whether a response needs more than a file or a cached page.
fn costs(response: &Response) -> bool {
    match response {
        Response::Script(..) | Response::Proxy(..) | Response::ProxyPage(..) | Response::Ask(_) => true,
        // Another request's fill may bring the page; for its own, `maker` asks the shield.
        Response::Page(..) => false,
        Response::Ready(_) | Response::Later(_) | Response::Again(_) | Response::Elsewhere => false,
    }
}

fn decide(
    thread: &Rc<ServeThread>,
    site: &Arc<SiteWorkers>,
    request: &mut Request,
) -> (ResponseClass, Response) {
    thread.pulse.note_site(site.index);
    if let Some(proof) = thread.service.acme.answer(request.head.method(), request.raw_path()) {
        return other(challenge(proof));
    }
    if let Some(reply) = thread.shield.banned(thread, site, request) {
        return other(reply);
    }
    if let Some(reply) = rules::answer(site, request) {
        return other(reply);
    }
    if purge::is_order(site, request) {
        return other(purge::answer(&thread.pages, &thread.setup(), site, request));
    }
    let mut path = thread.path.take();
    let response = match route::at_the_door(site, request, &mut path) {
        Some(route) => follow(thread, site, request, &path, route),
        None => ruled(thread, site, request, &path),
    };
    thread.path.replace(path);
    response
}

/// The response of an application, or a cached page of it. What may be a replay has to come again (RFC 8470 section
/// 5.2).
fn proxied(
    thread: &Rc<ServeThread>,
    site: &Arc<SiteWorkers>,
    request: &Request,
    path: &[u8],
    number: usize,
) -> (ResponseClass, Response) {
    let proxy = &site.plan.proxies[number];
    if request.protocol.is_some() && !proxy.websocket {
        return other(reply::plain(501));
    }
    let switches = request.protocol.is_some() || request.head.field("upgrade").is_some();
    let is_cached = proxy.cache
        && !switches
        && !request.is_private()
        && !site.shows_certificate(request)
        && !site_rules::bypasses(site, request);
    let consulted = match is_cached {
        true => {
            let make = || proxied_maker(thread, site, request, number);
            cache::consult_proxied(&thread.pages, &site.site, request, path, &make)
        }
        false => Consulted::Run(CacheStatus::NOTHING),
    };
    if let Some(outcome) = outcome(site, &consulted).filter(|_| proxy.cache) {
        thread.stats.add_site(site.number, outcome, 1);
    }
    match consulted {
        Consulted::Run(_) if request.is_early() => other(reply::plain(425)),
        Consulted::Run(cache_status) => (ResponseClass::Proxy, Response::Proxy(number, cache_status)),
        Consulted::Hit(reply) => (ResponseClass::Page, Response::Ready(reply)),
        Consulted::Wait(reply) => (ResponseClass::Proxy, Response::ProxyPage(reply, number)),
        Consulted::Elsewhere => (ResponseClass::Proxy, Response::Elsewhere),
    }
}

/// Asks an application, for the cache.
fn proxied_maker(
    thread: &Rc<ServeThread>,
    site: &Arc<SiteWorkers>,
    request: &Request,
    number: usize,
) -> PageMaker {
    let (thread, site) = (thread.clone(), site.clone());
    let is_banned = thread.shield.is_held_back(&thread, &site, request);
    Rc::new(move |mut request: Request| {
        let (thread, site) = (thread.clone(), site.clone());
        Box::pin(async move {
            if is_banned {
                return shield::forbidden(&thread);
            }
            let proxy = &thread.proxy;
            proxy::run(proxy, &site.plan.proxies[number], &mut request).await
        })
    })
}

/// The result after the rules of the site and of `.htaccess` files; `path` is the request's normalised path.
fn ruled(
    thread: &Rc<ServeThread>,
    site: &Arc<SiteWorkers>,
    request: &mut Request,
    path: &[u8],
) -> (ResponseClass, Response) {
    let route = match find(thread, site, request, path) {
        Found::Application(number) => return proxied(thread, site, request, path, number),
        // No other part of a site speaks another protocol (RFC 8441 section 4).
        Found::Route(_) if request.protocol.is_some() => return other(reply::plain(501)),
        Found::Route(route) => route,
        Found::Reply(mut reply) => {
            site_rules::change(thread, site, request, Origin::Server, &mut reply);
            return other(reply);
        }
        Found::Wait(check) => return (ResponseClass::Other, Response::Again(check)),
        // No script runs for what may be a replay.
        Found::Ask(_) if request.is_early() => return other(reply::plain(425)),
        Found::Ask(rule) => return (ResponseClass::Php, Response::Ask(rule)),
        Found::Elsewhere => return (ResponseClass::Other, Response::Elsewhere),
    };
    heed_changes(thread, site);
    let Route::Refuse(status) = route else { return follow(thread, site, request, path, route) };
    match htaccess::error_page(&thread.htaccess, thread, site, request, status) {
        ErrorPage::Own if site_rules::error_page(site, request, path, status) => {
            error_page(thread, site, request, path, status)
        }
        ErrorPage::Own => follow(thread, site, request, path, route),
        ErrorPage::Reply(mut reply) => {
            site_rules::change(thread, site, request, Origin::Server, &mut reply);
            other(reply)
        }
        ErrorPage::Route => error_page(thread, site, request, path, status),
        ErrorPage::Wait(compiled) => (ResponseClass::Other, Response::Again(compiled)),
    }
}

/// The page of the site for an error, to which the request's ruling leads now.
fn error_page(
    thread: &Rc<ServeThread>,
    site: &Arc<SiteWorkers>,
    request: &mut Request,
    path: &[u8],
    status: u16,
) -> (ResponseClass, Response) {
    match routed(thread, site, request, path) {
        Route::Php(script) => {
            (ResponseClass::Php, Response::Script(script, CacheStatus::bypass("error-document")))
        }
        route @ Route::File(_) => match follow(thread, site, request, path, route) {
            (class, Response::Ready(mut reply)) => {
                reply.status = if reply.status == 200 { status } else { reply.status };
                (class, Response::Ready(reply))
            }
            (class, Response::Later(reply)) => {
                let later = async move {
                    let reply = reply.await;
                    Reply { status: if reply.status == 200 { status } else { reply.status }, ..reply }
                };
                (class, Response::Later(Box::pin(later)))
            }
            response => response,
        },
        _ => follow(thread, site, request, path, Route::Refuse(status)),
    }
}

/// What rules and routing find for a request.
pub(super) enum Found {
    /// A route.
    Route(Route),
    /// An application behind the server, by its number.
    Application(usize),
    /// The rules respond.
    Reply(Reply),
    /// A password is being checked, or a `.htaccess` file compiled.
    Wait(Pin<Box<dyn Future<Output = ()>>>),
    /// A script decides, by the number of the rule.
    Ask(u32),
    /// Another thread must respond.
    Elsewhere,
}

/// Applies the rules of the site, then those of `.htaccess` files, and finds the route of what they make of the request. An application
/// gets what the site's rules let pass, without being rewritten; files and `.htaccess` files do not count there.
pub(super) fn find(thread: &ServeThread, site: &Site, request: &mut Request, path: &[u8]) -> Found {
    match site_rules::apply(thread, site, request, path) {
        Applied::On => {}
        Applied::Reply(reply) => return Found::Reply(reply),
        Applied::Refuse(status) => return Found::Route(Route::Refuse(status)),
        Applied::Wait(check) => return Found::Wait(check),
        Applied::Ask(rule) => return Found::Ask(rule),
        Applied::Elsewhere => return Found::Elsewhere,
        Applied::Files(rule) => return Found::Route(other_file(thread, site, request, path, rule)),
    }
    match proxy::find(&site.plan.proxies, path) {
        // Only scripts lead there: see `handover`.
        Some(number) if site.plan.proxies[number].internal => return Found::Route(Route::Refuse(404)),
        Some(number) => return Found::Application(number),
        None => {}
    }
    let own = if site.rules.is_some() { request.ruling.take() } else { None };
    let path_now = own.as_ref().map_or(path, |own| &own.verdict.path);
    let mut result = htaccess::rule(&thread.htaccess, thread, site, request, path_now, own.as_ref());
    if matches!(result, Ruled::On) && site.plan.htaccess {
        let target = request.ruling.as_ref().map_or(path, |ruling| &ruling.verdict.path);
        // In a network of sites the rules of the folder count in which the file is.
        if let Some(inner) = route::inner_path(thread, &thread.files, site, target) {
            result = htaccess::rule(&thread.htaccess, thread, site, request, &inner, own.as_ref());
        }
    }
    if matches!(result, Ruled::On) && site.rewrites.is_some() {
        match application_rules::apply(thread, site, request, path) {
            Rewritten::Same => {}
            Rewritten::Path(path, query) => {
                // The rules of the folder count in which the file is, too.
                let ruling = application_rules::ruling(request, path, query);
                let path = ruling.verdict.path.clone();
                result = htaccess::rule(&thread.htaccess, thread, site, request, &path, Some(&ruling));
            }
            Rewritten::Redirect(status, to) => {
                return Found::Route(Route::Redirect(status, route::elsewhere(request, to.as_bytes())));
            }
            Rewritten::Refuse => return Found::Route(Route::Refuse(404)),
        }
    }
    match result {
        Ruled::On => Found::Route(routed(thread, site, request, path)),
        Ruled::Refuse(status) => Found::Route(Route::Refuse(status)),
        Ruled::Reply(reply) => Found::Reply(reply),
        Ruled::Wait(check) => Found::Wait(check),
    }
}

/// The route to a file of the directory that a rule names. It is beside the root, so `.htaccess` files say nothing about it.
fn other_file(thread: &ServeThread, site: &Site, request: &Request, path: &[u8], rule: u32) -> Route {
    let Some(rule) = site.rules.as_ref().map(|rules| rules.get(rule)) else { return Route::Refuse(404) };
    let Some(RuleAction::Files(files)) = &rule.plan.action else { return Route::Refuse(404) };
    // After the root and the folders from which scripts hand files over.
    let number = 1 + site.plan.sendfile_roots.len() + site.plan.internal.len() + rule.folder;
    let folder = OtherFolder { number, path: &files.folder };
    route::find_other_file(thread, &thread.files, site, request, folder, (&rule.below(path), path))
}

/// The route of a request that its rules let pass.
pub(super) fn routed(thread: &ServeThread, site: &Site, request: &Request, path: &[u8]) -> Route {
    let Some(ruling) = request.ruling.clone() else {
        return route::find_route(thread, &thread.files, site, request, path);
    };
    let verdict = &ruling.verdict;
    match route::find_route(thread, &thread.files, site, request, &verdict.path) {
        // The source of a script is never sent.
        Route::Php(script) if !verdict.php && verdict.path.starts_with(&script.name) => Route::Refuse(403),
        route => route,
    }
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
    if site.network.as_ref().is_some_and(|network| network.take_change()) {
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
    let mut reply = match route {
        Route::Php(script) => return from_script(thread, site, request, path, script),
        Route::File(entry) => return (ResponseClass::File, from_file(thread, site, request, &entry)),
        Route::Redirect(status, location) => reply::redirect(status, &location),
        Route::Refuse(status) => reply::plain(status),
        Route::Allow(405) => reply::plain(405).with("Allow", FILE_METHODS),
        Route::Allow(status) => Reply::new(status).with("Allow", FILE_METHODS),
    };
    site_rules::change(thread, site, request, Origin::Server, &mut reply);
    other(reply)
}

/// A file, with the changes of its rules.
fn from_file(
    thread: &Rc<ServeThread>,
    site: &Arc<SiteWorkers>,
    request: &Request,
    entry: &Rc<files::FileEntry>,
) -> Response {
    let origin = Origin::File(entry.modified());
    match files::answer(thread, request, entry) {
        FileResponse::Ready(mut reply) => {
            site_rules::change(thread, site, request, origin, &mut reply);
            Response::Ready(reply)
        }
        FileResponse::Later(reply)
            if request.ruling.is_none() && request.rules.is_none() && !request.is_private() =>
        {
            Response::Later(reply)
        }
        FileResponse::Later(reply) => {
            let request = request.derived(request.head.path_query(), |_| true, &[]);
            let (thread, site) = (thread.clone(), site.clone());
            Response::Later(Box::pin(async move {
                let mut reply = reply.await;
                site_rules::change(&thread, &site, &request, origin, &mut reply);
                reply
            }))
        }
    }
}

/// A cached page, or the script.
fn from_script(
    thread: &Rc<ServeThread>,
    site: &Arc<SiteWorkers>,
    request: &Request,
    path: &[u8],
    script: Script,
) -> (ResponseClass, Response) {
    if let Some(why) = bypasses(site, request) {
        return (ResponseClass::Php, Response::Script(script, CacheStatus::bypass(why)));
    }
    let consulted =
        cache::consult(&thread.pages, &site.site, request, path, &|| maker(thread, site, request, &script));
    if let Some(outcome) = outcome(site, &consulted) {
        thread.stats.add_site(site.number, outcome, 1);
    }
    match consulted {
        Consulted::Run(_) if request.is_early() => other(reply::plain(425)),
        Consulted::Hit(mut reply) => {
            site_rules::change(thread, site, request, Origin::Script, &mut reply);
            (ResponseClass::Page, Response::Ready(reply))
        }
        Consulted::Wait(reply) => (ResponseClass::Php, Response::Page(reply, script)),
        Consulted::Run(cache_status) => (ResponseClass::Php, Response::Script(script, cache_status)),
        Consulted::Elsewhere => (ResponseClass::Php, Response::Elsewhere),
    }
}

/// Why the page cache has no say in what a script makes of this request, whatever it holds.
pub(super) fn bypasses(site: &SiteWorkers, request: &Request) -> Option<&'static str> {
    // A script's response to a client with a certificate is for that client alone.
    if site.shows_certificate(request) && !request.is_early() {
        Some("client-certificate")
    } else if request.is_private() {
        Some("auth")
    } else if request.ruling.as_ref().is_some_and(|ruling| ruling.verdict.cache.bypass) {
        Some("htaccess")
    } else if request.rules.is_some() && site_rules::bypasses(site, request) {
        Some("rule")
    } else {
        None
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

/// Runs a script for the cache; `request` is the one that asks for its page.
fn maker(thread: &Rc<ServeThread>, site: &Arc<SiteWorkers>, request: &Request, script: &Script) -> PageMaker {
    let (thread, site, script) = (thread.clone(), site.clone(), script.clone());
    let seen = thread.shield.look(&thread, &site, request, &script);
    Rc::new(move |mut request: Request| {
        let (thread, site, script) = (thread.clone(), site.clone(), script.clone());
        Box::pin(async move {
            match thread.shield.admit(&thread.context, &site, seen, &mut request).await {
                Ok(_pass) => {
                    let mut reply = php::run(&thread.php, &site, &mut request, &script).await;
                    thread.shield.checked(&thread, seen, reply.status);
                    site_rules::set_lifetime(&site, &request, &mut reply);
                    reply
                }
                Err(refusal) => refusal,
            }
        })
    })
}
