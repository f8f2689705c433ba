//! The page cache: consistent bounds, a directory of its own, enough memory. A problem of a value that several sites share
//! is reported once.

use super::not_a_folder;
use crate::environment::{Environment, Found};
use crate::problem::{Problem, What};
use crate::resolve::View;
use crate::value::{duration_text, size_text};
use crate::written::Written;

/// Adds every problem of the page cache's settings.
pub(super) fn all(written: &Written, environment: &Environment<'_>, problems: &mut Vec<Problem>) {
    let view = View::new(written, None, environment);
    memory(&view, problems);
    let mut found = Vec::new();
    for site in &written.sites {
        let view = View::new(written, Some(site), environment);
        super::ordered(&view, "cache.page_bytes", "cache.memory", &mut found);
        bounds_of_use(&view, &mut found);
        folder(&view, &mut found);
    }
    for problem in found {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
}

/// The kernel kills a server whose cache exceeds the machine's memory.
fn memory(view: &View<'_>, problems: &mut Vec<Problem>) {
    const KEY: &str = "cache.memory";
    let (budget, memory) = (view.number(KEY), view.environment().memory);
    if budget > memory / 4 * 3 {
        let title =
            format!("`{KEY}` leaves little of the machine's {} for PHP", size_text(memory & !0xf_ffff));
        let cure = format!("write {} or less", size_text((memory / 2) & !0xf_ffff));
        let problem = Problem::warning(What::Risky, title, cure);
        problems.push(problem.at(view.at(KEY), "of the memory that PHP workers need, too"));
    }
}

/// A default time above the bound for times that a response sets: the bound applies to both.
fn bounds_of_use(view: &View<'_>, problems: &mut Vec<Problem>) {
    let pairs = [
        ("cache.stale_while_revalidate", "cache.stale_max"),
        ("cache.stale_if_error", "cache.stale_max"),
        ("cache.ttl.page", "cache.ttl.max"),
        ("cache.ttl.not_found", "cache.ttl.max"),
        ("cache.ttl.redirect", "cache.ttl.max"),
        ("cache.ttl.feed", "cache.ttl.max"),
        ("cache.ttl.sitemap", "cache.ttl.max"),
        ("cache.ttl.api", "cache.ttl.max"),
        ("cache.ttl.other", "cache.ttl.max"),
    ];
    for (key, bound) in pairs {
        let (time, most) = (view.duration(key), view.duration(bound));
        if time <= most || view.at(key).is_none() {
            continue;
        }
        let (time, most) = (duration_text(time), duration_text(most));
        let cure = format!("lower `{key}` to {most} or less, or raise `{bound}` to {time} or more");
        let problem = Problem::warning(
            What::Conflict,
            format!("`{key}` is more than `{bound}`, which limits it"),
            cure,
        );
        let problem = problem.at(view.at(key), time).at(view.at(bound), most.as_str());
        problems.push(match view.at(bound) {
            Some(_) => problem,
            None => problem.note(format!("`{bound}` is {most} by default")),
        });
    }
}

/// The server creates the directory; but no file may be in its place, and no site may serve it.
fn folder(view: &View<'_>, problems: &mut Vec<Problem>) {
    const KEY: &str = "cache.dir";
    let Some(dir) = view.path(KEY).filter(|_| view.at(KEY).is_some()) else { return };
    match view.environment().disk.look(&dir) {
        Found::Directory | Found::Nothing => {}
        found => problems.push(not_a_folder(KEY, &dir, found).at(view.at(KEY), "")),
    }
    if view.root().is_some_and(|root| dir.starts_with(root)) {
        let title = format!("`{KEY}` is inside a site's root");
        let cure = "choose a directory that no site serves, or remove the line to use the default";
        let problem = Problem::error(What::Conflict, title, cure);
        problems.push(
            problem.at(view.at(KEY), "visitors could download it").at(view.at("site.root"), "the root"),
        );
    }
}
