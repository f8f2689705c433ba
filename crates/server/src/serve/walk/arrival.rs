//! The first rows: what is decided before the path of a request counts.

use super::{Walk, WalkStep};
use crate::cache::purge;
use crate::route::{self, Route};
use millrace_base::message::Step;
use millrace_base::message::reply::{Body, Reply};

/// What an authority reads before it issues a certificate (RFC 8555 section 8.3).
pub(super) fn challenge(walk: &mut Walk<'_>) -> WalkStep {
    let acme = &walk.thread.service.acme;
    let Some(proof) = acme.answer(walk.request.head.method(), walk.request.raw_path()) else {
        return Step::Next;
    };
    let reply = Reply::new(200).with("Content-Type", "application/octet-stream");
    let reply = reply.with("Cache-Control", "no-store").body(Body::Bytes(proof.into_bytes()));
    Step::Answer(Reply { has_site_fields: true, ..reply })
}

/// The shield has banned the address.
pub(super) fn ban(walk: &mut Walk<'_>) -> WalkStep {
    let explains = walk.explains();
    let Walk { thread, site, request, .. } = walk;
    if explains {
        return if thread.shield.would_ban(&thread.context, site, request) {
            Walk::plain(403)
        } else {
            Step::Next
        };
    }
    thread.shield.banned(&thread.context, site, request).map_or(Step::Next, Step::Answer)
}

/// The site wants a certificate of its clients.
pub(super) fn certificate(walk: &mut Walk<'_>) -> WalkStep {
    route::stranger(walk.site, walk.request).map_or(Step::Next, Walk::plain)
}

/// A replay of an unsafe request in early data would repeat its effect (RFC 8470 section 5.2).
pub(super) fn early_data(walk: &mut Walk<'_>) -> WalkStep {
    let is_safe = matches!(walk.request.head.method(), "GET" | "HEAD");
    if walk.request.is_early() && !is_safe { Walk::plain(425) } else { Step::Next }
}

/// An order to purge pages.
pub(super) fn purge_order(walk: &mut Walk<'_>) -> WalkStep {
    let Walk { thread, site, request, .. } = walk;
    if !purge::is_order(site, request) {
        return Step::Next;
    }
    Step::Answer(purge::answer(&thread.pages, &thread.setup(), site, request))
}

/// The path is normalised; methods and redirects for which no path need be looked up.
pub(super) fn front_door(walk: &mut Walk<'_>) -> WalkStep {
    match route::at_the_door(walk.site, walk.request, &mut walk.path) {
        // There is no path for which the site could have a page.
        Some(Route::Refuse(status)) => Walk::plain(status),
        Some(route) => super::place::follow(walk, route),
        None => Step::Next,
    }
}
