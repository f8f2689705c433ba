//! Mistakes that no single value shows: a rule without an effect, with two actions, that can never match, or that leads
//! back to itself.

use std::path::Path;

use millrace_wire::glob::is_like;

use super::keys::{KEYS, RulePart};
use super::{WrittenRule, target};
use crate::environment::Found;
use crate::plan::{OtherFiles, RuleAction, RuleCondition, RuleEffects, ScriptAuth};
use crate::problem::{Problem, What};
use crate::resolve::View;

/// Checks a rule alone.
pub(super) fn alone(rule: &WrittenRule, actions: &[RuleAction], problems: &mut Vec<Problem>) {
    let mut written = KEYS.iter().filter(|key| key.part == RulePart::Action);
    let mut written = written.by_ref().filter_map(|key| Some((key.name, rule.place(key.name)?)));
    if let (Some((one, first)), Some((other, second))) = (written.next(), written.next()) {
        let title = format!("a rule has both `{one}` and `{other}`");
        let cure = match (one, other) {
            ("auth.users", "auth.script") => "keep one of the two: a script can check passwords, too",
            ("alias", "root") => "keep one of the two: `alias` leaves out what `path` has before its `*`",
            _ => "make two rules of it, in the order in which they count",
        };
        let problem = Problem::error(What::Conflict, title, cure);
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
    prefix(rule, actions, problems);
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

/// An alias for paths that have no beginning in common: what would be the file's path?
fn prefix(rule: &WrittenRule, actions: &[RuleAction], problems: &mut Vec<Problem>) {
    let Some(RuleAction::Files(OtherFiles { strips: true, folder })) = actions.first() else { return };
    let paths = &rule.rule.condition.paths;
    let is_prefix = |path: &String| path.ends_with("/*") && path.matches('*').count() == 1;
    // `/docs` beside `/docs/*` leads there by a redirect.
    let is_bare = |path: &String| paths.contains(&format!("{path}/*"));
    let Some(other) = paths.iter().find(|path| !is_prefix(path) && !is_bare(path)) else {
        if paths.is_empty() {
            let problem = Problem::error(
                What::Missing,
                "an `alias` needs a `path` that ends with `/*`",
                "add a line like path = \"/docs/*\"",
            );
            problems.push(problem.at(rule.place("regex").or(rule.place("alias")), "which files?"));
        }
        return;
    };
    let title = format!("an `alias` is for paths that end with `/*`, not for \"{other}\"");
    let start = other.split('*').next().unwrap_or_default().trim_end_matches('/');
    let cure = match start {
        "" => {
            format!("write root = \"{}\" instead of the alias, or a path like \"/docs/*\"", folder.display())
        }
        start => format!("write path = \"{start}/*\""),
    };
    let problem = Problem::error(What::Malformed, title, cure);
    problems.push(problem.at(rule.place("path"), "here").at(rule.place("alias"), "the alias"));
}

/// What rules need of a site and of the disk: scripts that exist, directories, PHP.
pub(crate) fn on_disk(rules: &[WrittenRule], view: &View<'_>, problems: &mut Vec<Problem>) {
    for rule in rules.iter().filter(|rule| !rule.is_wrong) {
        match &rule.rule.action {
            Some(RuleAction::AuthScript(auth)) => script(rule, auth, view, problems),
            Some(RuleAction::Files(files)) => folder(rule, files, view, problems),
            _ => {}
        }
    }
}

fn script(rule: &WrittenRule, auth: &ScriptAuth, view: &View<'_>, problems: &mut Vec<Problem>) {
    let (at, script) = (rule.place("auth.script"), &auth.script);
    if !view.has_php() {
        let cure = "switch PHP on, or use `auth.users` with a file of passwords";
        let problem = Problem::error(What::Conflict, "`auth.script` needs PHP, which this site lacks", cure);
        return problems.push(problem.at(at, "a script").at(view.at("php.enabled"), "no PHP"));
    }
    let Some(root) = view.root() else { return };
    let disk = view.environment().disk;
    let file = root.join(script.trim_start_matches('/'));
    match (disk.real(&root), disk.real(&file), disk.look(&file)) {
        (Some(root), Some(real), Found::File)
            if !real.starts_with(&root) && view.choice("files.symlinks") == "inside" =>
        {
            let title = format!("the script {script} is outside the root");
            let cure = "put the script into the root, or set files.symlinks = \"follow\"";
            let label = format!("a link to {}", real.display());
            problems.push(Problem::error(What::Conflict, title, cure).at(at, label));
        }
        (_, _, Found::File) => {}
        // That the root is missing has been reported.
        (None, ..) => {}
        _ => {
            let title = format!("the script {script} is not in the root");
            let below = Path::new(script).strip_prefix(&root).ok();
            let cure = match below {
                Some(below) => format!("write \"/{}\": the path below the root", below.display()),
                None => format!("put a script at {}, or correct the name", file.display()),
            };
            let problem = Problem::error(What::NotFound, title, cure);
            problems.push(problem.at(at, "no such file: every request would be refused"));
        }
    }
}

/// The directory of an alias must exist, and should not show more than is meant.
fn folder(rule: &WrittenRule, files: &OtherFiles, view: &View<'_>, problems: &mut Vec<Problem>) {
    let (key, folder) = (if files.strips { "alias" } else { "root" }, &files.folder);
    let (at, disk, path) = (rule.place(key), view.environment().disk, folder.display());
    let found = disk.look(folder);
    if found != Found::Directory {
        return problems.push(crate::check::not_a_folder(&format!("rule.{key}"), folder, found).at(at, ""));
    }
    let real = disk.real(folder).unwrap_or_else(|| folder.clone());
    let own = view.root().and_then(|root| disk.real(&root));
    let risky = |title: String, cure: String| Problem::warning(What::Risky, title, cure).at(at, "here");
    if real.parent().is_none() {
        let cure = "name the directory of the files".to_owned();
        let problem = Problem::error(What::Risky, format!("`rule.{key}` is the whole file system"), cure);
        problems.push(problem.at(at, "visitors could request any file"));
    } else if own.as_ref().is_some_and(|own| own.starts_with(&real)) {
        let title = format!("`rule.{key}`: {path} contains the root of the site");
        let cure = "name the directory of the files alone; the root is served without a rule".to_owned();
        problems.push(risky(title, cure));
    } else if let Some(name) = ["wp-config.php", "wp-load.php", ".env", "composer.json"]
        .into_iter()
        .find(|name| disk.look(&folder.join(name)) == Found::File)
    {
        let title = format!("`rule.{key}`: {path} looks like an application: it has {name}");
        let cure =
            "name a directory with files for visitors alone, or make it a [[site]] of its own".to_owned();
        problems.push(risky(title, cure));
    } else if view.choice("site.htaccess") != "off" && disk.look(&folder.join(".htaccess")) == Found::File {
        let title = format!("`rule.{key}`: {path}/.htaccess does not apply to these files");
        let cure = "write rules for what it refuses, as `deny` or `auth`, before this one".to_owned();
        problems.push(risky(title, cure));
    }
}

/// A redirect of a page to itself.
fn itself(rule: &WrittenRule, actions: &[RuleAction], problems: &mut Vec<Problem>) {
    let Some(RuleAction::Redirect(to, _)) = actions.first() else { return };
    let (condition, Some(to)) = (&rule.rule.condition, to.plain()) else { return };
    let path = to.split(['?', '#']).next().unwrap_or(to);
    let is_left = || condition.unless_paths.iter().any(|pattern| is_like(pattern, path.as_bytes()));
    let is_limited = !condition.hosts.is_empty() || !condition.queries.is_empty();
    let matches = match &condition.regex {
        Some(regex) => {
            let regex = regex::bytes::RegexBuilder::new(regex).unicode(false).build();
            regex.is_ok_and(|regex| regex.is_match(path.as_bytes()))
        }
        None => {
            condition.paths.is_empty()
                || condition.paths.iter().any(|pattern| is_like(pattern, path.as_bytes()))
        }
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
            RuleAction::Allow | RuleAction::Auth(_) | RuleAction::AuthScript(_) => lets_pass = true,
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
                        .all(|path| paths.iter().any(|own| own == path || is_like(own, path.as_bytes()))))
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
