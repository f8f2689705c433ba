//! Mistakes that no single value shows: a rule without an effect, with two actions, that can never match, or that leads
//! back to itself.

use super::keys::{KEYS, RulePart};
use super::{WrittenRule, target};
use crate::plan::{RuleAction, RuleCondition, RuleEffects};
use crate::problem::{Problem, What};

/// Checks a rule alone.
pub(super) fn alone(rule: &WrittenRule, actions: &[RuleAction], problems: &mut Vec<Problem>) {
    let mut written = KEYS.iter().filter(|key| key.part == RulePart::Action);
    let mut written = written.by_ref().filter_map(|key| Some((key.name, rule.place(key.name)?)));
    if let (Some((one, first)), Some((other, second))) = (written.next(), written.next()) {
        let title = format!("a rule has both `{one}` and `{other}`");
        let problem =
            Problem::error(What::Conflict, title, "make two rules of it, in the order in which they count");
        problems.push(problem.at(Some(second), "the second action").at(Some(first), "the first"));
    }
    if actions.is_empty() && rule.rule.effects == RuleEffects::default() {
        let cure = "add an action like `redirect`, `return` or `deny`, or an effect like `set_header`";
        let problem = Problem::error(What::Missing, "a rule does nothing", cure);
        problems.push(problem.at(Some(&rule.at), "no action and no effect"));
    }
    for key in KEYS {
        if let (RulePart::Of(actions), Some(at)) = (key.part, rule.place(key.name))
            && !actions.iter().any(|action| rule.place(action).is_some())
        {
            let words: Vec<String> = actions.iter().map(|action| format!("`{action}`")).collect();
            let title = format!("`rule.{}` needs {}", key.name, words.join(" or "));
            let cure = format!("add {}, or remove the line", words[0]);
            problems.push(Problem::error(What::Missing, title, cure).at(Some(at), "of what?"));
        }
    }
    if rule.rule.condition.regex.is_some() && !rule.rule.condition.paths.is_empty() {
        let cure = "remove one of the two; a `regex` can begin with ^/folder/";
        let problem = Problem::error(What::Conflict, "a rule has both `path` and `regex`", cure);
        problems.push(problem.at(rule.place("regex"), "").at(rule.place("path"), ""));
    }
    groups(rule, actions, problems);
    itself(rule, actions, problems);
}

/// A target with more groups than the pattern has.
fn groups(rule: &WrittenRule, actions: &[RuleAction], problems: &mut Vec<Problem>) {
    let condition = &rule.rule.condition;
    let stars = condition.paths.iter().map(|path| path.matches('*').count()).min().unwrap_or(0);
    let known = if condition.regex.is_some() { rule.groups } else { stars };
    for (key, used) in actions.iter().filter_map(|action| match action {
        RuleAction::Redirect(to, _) => Some(("redirect", target::highest(to))),
        RuleAction::Rewrite(to) => Some(("rewrite", target::highest(to))),
        _ => None,
    }) {
        if used > known {
            let title = format!("`rule.{key}` uses ${used}, but the pattern has {known} at most");
            let cure = "a group is a `*` of `path`, or `( )` in `regex`; in a list of paths, each needs it";
            let problem = Problem::error(What::Malformed, title, cure);
            let pattern = rule.place("regex").or(rule.place("path"));
            problems.push(problem.at(rule.place(key), "").at(pattern, "the pattern"));
        }
    }
}

/// A redirect of a page to itself.
fn itself(rule: &WrittenRule, actions: &[RuleAction], problems: &mut Vec<Problem>) {
    let Some(RuleAction::Redirect(to, _)) = actions.first() else { return };
    let (condition, Some(to)) = (&rule.rule.condition, to.plain()) else { return };
    let path = to.split(['?', '#']).next().unwrap_or(to);
    let is_left = || condition.unless_paths.iter().any(|pattern| is_like(pattern, path));
    let is_limited = !condition.hosts.is_empty() || !condition.queries.is_empty();
    let matches = match &condition.regex {
        Some(regex) => {
            let regex = regex::bytes::RegexBuilder::new(regex).unicode(false).build();
            regex.is_ok_and(|regex| regex.is_match(path.as_bytes()))
        }
        None => condition.paths.is_empty() || condition.paths.iter().any(|pattern| is_like(pattern, path)),
    };
    if path.starts_with('/') && matches && !is_left() && !is_limited {
        let title = format!("the redirect leads to {path}, which the rule redirects again");
        let cure = format!("add unless_path = \"{path}\"");
        problems.push(Problem::error(What::Conflict, title, cure).at(rule.place("redirect"), "a loop"));
    }
}

/// Warns of rules that no request reaches, because an earlier one ends all requests that they match.
pub(super) fn among_each_other(rules: &[WrittenRule], problems: &mut Vec<Problem>) {
    /// Each rule is compared with this many before it.
    const MOST: usize = 1000;
    let mut ending: Vec<&WrittenRule> = Vec::new();
    let mut lets_pass = false;
    for rule in rules.iter().filter(|rule| !rule.is_wrong) {
        let Some(action) = &rule.rule.action else { continue };
        let condition = &rule.rule.condition;
        let covering =
            ending.iter().take(MOST).find(|early| covers(&early.rule.condition, condition)).copied();
        match action {
            RuleAction::Redirect(..) | RuleAction::Return(..) => ending.push(rule),
            // A request that an earlier rule lets pass is not refused.
            RuleAction::Deny if !lets_pass => ending.push(rule),
            RuleAction::Allow | RuleAction::Auth(_) => lets_pass = true,
            _ => {}
        }
        let Some(early) = covering else { continue };
        let title = format!("the rule at {} never applies", rule.rule.place);
        let cure = "move it up, or remove it: the first rule that matches counts";
        let problem = Problem::warning(What::Conflict, title, cure);
        problems.push(problem.at(Some(&rule.at), "never reached").at(Some(&early.at), "matches all of it"));
    }
}

/// Whether `early` matches every request that `late` matches, as far as that can be seen.
fn covers(early: &RuleCondition, late: &RuleCondition) -> bool {
    let RuleCondition { paths, unless_paths, regex, hosts, methods, queries, headers, from, unless_from } =
        early;
    let holds_list = |own: &[String], other: &[String]| {
        own.is_empty() || (!other.is_empty() && other.iter().all(|value| own.contains(value)))
    };
    let holds_paths = match (regex, &late.regex) {
        (Some(own), Some(other)) => own == other,
        (Some(_), None) => false,
        (None, Some(_)) => paths.is_empty(),
        (None, None) => {
            paths.is_empty()
                || (!late.paths.is_empty()
                    && late
                        .paths
                        .iter()
                        .all(|path| paths.iter().any(|own| own == path || is_like(own, path))))
        }
    };
    holds_paths
        && unless_paths.iter().all(|path| late.unless_paths.contains(path))
        && holds_list(hosts, &late.hosts)
        && holds_list(methods, &late.methods)
        && holds_list(queries, &late.queries)
        && headers.iter().all(|header| late.headers == [header.clone()])
        && (from.is_none() || from == &late.from)
        && unless_from.iter().all(|network| late.unless_from.contains(network))
}

/// Whether `text` is like a pattern with `*`. A `*` in `text` is text: only a `*` covers it.
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}
