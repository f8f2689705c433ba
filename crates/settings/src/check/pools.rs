//! Pools of PHP workers: consistent shares, and rules that select their requests.

use crate::plan::PhpPool;
use crate::problem::{Problem, What};
use crate::resolve::View;
use crate::value::number_text;

/// Maximum pools per site.
const MOST: usize = 16;

/// Adds every problem of the pools that this site sees.
pub(super) fn all(view: &View<'_>, problems: &mut Vec<Problem>) {
    let names = view.pool_names();
    if names.len() > MOST {
        let at = view.written_pools().nth(MOST - 1).map(|(_, at)| at);
        let cure = "combine pools with similar requests";
        let title = format!("a site can have {MOST} pools, this one has {}", names.len());
        problems.push(Problem::error(What::OutOfBounds, title, cure).at(at, "one too many"));
    }
    for name in &names {
        numbers(&view.pool(name), name, problems);
    }
    together(view, &names, problems);
    for (name, at) in view.written_pools() {
        if !view.is_reached(name) && (view.is_own_pool(name) || !view.is_reached_by_any(name)) {
            let title = format!("no request runs in the pool `{name}`");
            let cure = "set its `paths`, `cookies`, `arguments` or `methods`, or remove the pool";
            let mut problem = Problem::error(What::Conflict, title, cure).at(Some(at), "no rule");
            if matches!(name, PhpPool::ADMIN | PhpPool::BACKGROUND) {
                problem = problem.note(
                    "the profile `generic` has no rules for this pool; `wordpress` and `drupal` have some",
                );
            }
            problems.push(problem);
        }
    }
}

/// One pool's own numbers.
fn numbers(view: &View<'_>, name: &str, problems: &mut Vec<Problem>) {
    const ALL: &str = "php.workers";
    let [workers, keep] = ["php.pool.NAME.workers", "php.pool.NAME.keep"];
    let shown = |key: &str| key.replace("NAME", name);
    // The number for PHP as a whole is known here only if it is set.
    if let (Some(own), Some(all)) = (view.written_count(workers), view.written_count(ALL))
        && own > all
    {
        let cure = format!("lower `{}` to {all} or less, or raise `{ALL}` to {own} or more", shown(workers));
        let problem =
            Problem::error(What::Conflict, format!("`{}` is more than `{ALL}`", shown(workers)), cure);
        problems.push(problem.at(view.at(workers), number(own)).at(view.at(ALL), number(all)));
    }
    if let (Some(kept), Some(own)) = (view.written_count(keep), view.written_count(workers))
        && kept > own
    {
        let cure =
            format!("lower `{}` to {own} or less: a pool can reserve only its own workers", shown(keep));
        let title = format!("`{}` is more than `{}`", shown(keep), shown(workers));
        let problem = Problem::error(What::Conflict, title, cure);
        problems.push(problem.at(view.at(keep), number(kept)).at(view.at(workers), number(own)));
    }
}

/// The pools must not reserve more workers than there are, with one left for pools that reserve none.
fn together(view: &View<'_>, names: &[String], problems: &mut Vec<Problem>) {
    const ALL: &str = "php.workers";
    const KEEP: &str = "php.pool.NAME.keep";
    let Some(all) = view.written_count(ALL) else { return };
    let kept: Vec<(&str, usize)> =
        names.iter().filter_map(|name| Some((&**name, view.pool(name).written_count(KEEP)?))).collect();
    let sum: usize = kept.iter().map(|(_, keep)| keep).sum();
    let strict = kept.len() == names.len() && kept.iter().all(|(_, keep)| *keep > 0);
    let most = if strict { all } else { all.saturating_sub(1) };
    if sum <= most {
        return;
    }
    let title = format!("the pools reserve {sum} workers, but of {all} they may reserve only {most}");
    let cure = format!("raise `{ALL}` to {} or more, or lower `keep` of the pools", sum + (all - most));
    let mut problem = Problem::error(What::Conflict, title, cure);
    for (name, keep) in kept {
        problem = problem.at(view.pool(name).at(KEEP), number(keep));
    }
    problem = problem.at(view.at(ALL), number(all));
    if !strict {
        problem =
            problem.note("one worker remains for all pools, so that a pool that reserves none gets its turn");
    }
    problems.push(problem);
}

fn number(number: usize) -> String {
    number_text(number as u64)
}
