//! What is at the path: a file, a script, a redirect.

use std::rc::Rc;

use millrace_pages::{Hardness, Purge, Tag};
use millrace_settings::plan::RuleAction;

use super::{Maker, Walk, WalkStep};
use crate::cache::purge;
use crate::files::{self, FileResponse};
use crate::htaccess::Origin;
use crate::route::{self, FILE_METHODS, OtherFolder, Route};
use crate::serve::site_rules;
use millrace_base::context::stats::ResponseClass;
use millrace_base::message::Step;
use millrace_base::message::reply::{self, Reply};

/// No part of a site but its applications speaks another protocol (RFC 8441 section 4).
pub(super) fn protocol(walk: &mut Walk<'_>) -> WalkStep {
    if walk.request.protocol.is_some() { Walk::plain(501) } else { Step::Next }
}

/// Looks the path up.
pub(super) fn find(walk: &mut Walk<'_>) -> WalkStep {
    let route = routed(walk);
    heed_changes(walk);
    follow(walk, route)
}

/// The route of a request that its rules let pass.
pub(super) fn routed(walk: &Walk<'_>) -> Route {
    let Walk { thread, site, request, path, .. } = walk;
    let Some(ruling) = &request.found.ruling else {
        return route::find_route(&thread.context, &thread.files, site, request, path);
    };
    let verdict = &ruling.verdict;
    match route::find_route(&thread.context, &thread.files, site, request, &verdict.path) {
        // The source of a script is never sent.
        Route::Php(script) if !verdict.php && verdict.path.starts_with(&script.name) => Route::Refuse(403),
        route => route,
    }
}

/// If a site has become another network, its pages have other tags.
fn heed_changes(walk: &Walk<'_>) {
    let Walk { thread, site, .. } = walk;
    if site.multisite.as_ref().is_some_and(|multisite| multisite.take_change()) {
        let what = (Purge::Tag(Tag::site(site.name().unwrap_or(""))), Hardness::Soft);
        let pages = thread.service.cache.purge(&[what]);
        let (stats, log) = (&thread.context.process.stats, &thread.context.process.log);
        purge::note(stats, log, &"a change of wp-config.php", &"the whole site", pages);
    }
}

/// What a route says.
pub(super) fn follow(walk: &mut Walk<'_>, route: Route) -> WalkStep {
    match route {
        Route::Php(script) => {
            walk.note(|| format!("script {}", String::from_utf8_lossy(&script.name)));
            walk.maker = Some(Maker::Script(script));
            Step::Next
        }
        Route::File(entry) => file(walk, &entry),
        Route::Redirect(status, location) => Step::Answer(reply::redirect(status, &location)),
        Route::Refuse(status) => Step::Refuse(status),
        Route::Allow(405) => Step::Answer(reply::plain(405).with("Allow", FILE_METHODS)),
        Route::Allow(status) => Step::Answer(Reply::new(status).with("Allow", FILE_METHODS)),
    }
}

/// A file.
pub(super) fn file(walk: &mut Walk<'_>, entry: &Rc<files::FileEntry>) -> WalkStep {
    walk.note(|| "a file".to_owned());
    walk.class = ResponseClass::File;
    walk.origin = Origin::File(entry.modified());
    let Walk { thread, site, request, origin, .. } = walk;
    let reply = match files::answer(&thread.context, request, entry) {
        FileResponse::Ready(reply) => return Step::Answer(reply),
        FileResponse::Later(reply) => reply,
    };
    let is_changed = request.found.ruling.is_some() || request.found.rules.is_some() || request.is_private();
    let request = is_changed.then(|| request.derived(request.head.path_query(), |_| true, &[]));
    let (thread, site, origin) = ((*thread).clone(), (*site).clone(), *origin);
    Step::Wait(Box::pin(async move {
        let mut reply = reply.await;
        if let Some(request) = request {
            site_rules::change(&thread, &site, &request, origin, &mut reply);
        }
        Some(reply)
    }))
}

/// A file of the directory that a rule of the site names. It is beside the root, so `.htaccess` files say nothing about it.
pub(in crate::serve) fn other_file(walk: &mut Walk<'_>, rule: u32) -> WalkStep {
    let Walk { thread, site, request, path, .. } = &*walk;
    let Some(rule) = site.rules.as_ref().map(|rules| rules.get(rule)) else { return Step::Refuse(404) };
    let Some(RuleAction::Files(files)) = &rule.plan.action else { return Step::Refuse(404) };
    // After the root and the folders from which scripts hand files over.
    let number = 1 + site.plan.sendfile_roots.len() + site.plan.internal.len() + rule.folder;
    let folder = OtherFolder { number, path: &files.folder };
    let below = rule.below(path);
    let route = route::find_other_file(&thread.context, &thread.files, site, request, folder, (&below, path));
    follow(walk, route)
}
