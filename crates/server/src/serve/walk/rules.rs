//! What rules say about a request behind the front door: applications behind the server, `.htaccess` files, and the rules of the site's
//! application. The rules of the site are `site_rules`.

use std::sync::Arc;

use super::{Maker, Walk, WalkStep};
use crate::htaccess as files;
use crate::serve::application_rules;
use crate::{proxy, route};
use millrace_base::message::Step;
use millrace_base::message::request::Ruling;
use millrace_base::site::Rewritten;

/// An application behind the server: it gets what the site's rules let pass, without being rewritten; files and `.htaccess` files do not
/// count there.
pub(super) fn application(walk: &mut Walk<'_>) -> WalkStep {
    let proxies = &walk.site.plan.proxies;
    let Some(number) = proxy::find(proxies, &walk.path) else { return Step::Next };
    // Only scripts lead there: see `handover`.
    if proxies[number].internal {
        return Step::Refuse(404);
    }
    if walk.request.protocol.is_some() && !proxies[number].websocket {
        return Walk::plain(501);
    }
    walk.maker = Some(Maker::Application(number));
    walk.note(|| proxies[number].path.clone());
    Step::Next
}

/// The `.htaccess` files on the way to the path, or to what the site's rules have made of it.
pub(super) fn htaccess(walk: &mut Walk<'_>) -> WalkStep {
    let own = if walk.site.rules.is_some() { walk.request.found.ruling.take() } else { None };
    let step = ruled(walk, own.as_ref().map(|own| &*own.verdict.path), own.as_ref());
    if !matches!(step, Step::Next) || !walk.site.plan.htaccess {
        return step;
    }
    // In a network of sites the rules of the folder count in which the file is.
    let Walk { thread, site, request, path, .. } = walk;
    let target = request.found.ruling.as_ref().map_or(&*path, |ruling| &ruling.verdict.path);
    match route::inner_path(&thread.context, &thread.files, site, target) {
        Some(inner) => ruled(walk, Some(&inner), own.as_ref()),
        None => Step::Next,
    }
}

/// The rules of the site's application may lead to another path.
pub(super) fn of_application(walk: &mut Walk<'_>) -> WalkStep {
    if walk.site.rewrites.is_none() {
        return Step::Next;
    }
    match application_rules::apply(walk.thread, walk.site, walk.request, &walk.path) {
        Rewritten::Same => Step::Next,
        Rewritten::Path(path, query) => {
            // The rules of the folder count in which the file is, too.
            let ruling = application_rules::ruling(walk.request, path, query);
            ruled(walk, Some(&ruling.verdict.path), Some(&ruling))
        }
        Rewritten::Redirect(status, to) => {
            let location = route::elsewhere(walk.request, to.as_bytes());
            super::place::follow(walk, route::Route::Redirect(status, location))
        }
        Rewritten::Refuse => Step::Refuse(404),
    }
}

/// The files on the way to `path`; `None`: to that of the request.
fn ruled(walk: &mut Walk<'_>, path: Option<&[u8]>, before: Option<&Arc<Ruling>>) -> WalkStep {
    let Walk { thread, site, request, path: own, .. } = walk;
    let path = path.unwrap_or(own);
    let step = files::rule(&thread.htaccess, &thread.context, site, request, path, before).widen();
    walk.note_path();
    step
}
