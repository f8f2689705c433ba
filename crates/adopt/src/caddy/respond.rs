//! Directives that respond, and those that lead a request to another path.

use super::conditions::{self, both};
use super::lex::CaddyLine;
use super::paths;
use super::site::Converter;
use crate::pattern;
use crate::value::{Block, OPEN, Source, Toml, When};

/// What is said of targets that rules don't have.
const NO_TARGET: &str = "a target has $0 to $9 and $host: docs/rules.md";

/// A 401 asks for a password.
const NO_401: &str =
    "a rule asks for passwords with `auth`: until you write it instead of `deny`, all requests are refused";

/// A rewrite: for which requests, where its rule is, and where they are led; `*` stands for what is not known.
pub struct Moved {
    at: usize,
    when: When,
    to: String,
}

impl Converter<'_> {
    pub fn redirect(&mut self, node: &CaddyLine, when: When, args: &[String], prefix: &str) {
        let status = match args.get(1).map_or("", String::as_str) {
            "permanent" | "301" => 301,
            "" | "temporary" | "302" => 302,
            "303" => 303,
            "307" => 307,
            "308" => 308,
            _ => {
                return self
                    .site
                    .notes
                    .lost(&node.source, "the status of a redirect is 301, 302, 303, 307 or 308");
            }
        };
        let to =
            target(args.first().map_or("", String::as_str), false).and_then(|to| with_path(to, when, prefix));
        match to.and_then(|(to, when)| Some((not_again(&to, when)?, to))) {
            Some((when, to)) => {
                let status = (status != 301).then_some(("status", Toml::Number(status)));
                self.action(
                    &node.source,
                    when,
                    [("redirect", Toml::Text(to))].into_iter().chain(status).collect(),
                );
            }
            None => self.site.notes.lost(&node.source, NO_TARGET),
        }
    }

    pub fn rewrite(&mut self, node: &CaddyLine, when: When, args: &[String], prefix: &str) {
        let to =
            target(args.first().map_or("", String::as_str), true).and_then(|to| with_path(to, when, prefix));
        match to.filter(|(to, _)| to.starts_with('/')) {
            Some((to, when)) if when.is_empty() && is_script(&to) => {
                self.site.settings.set("front_controller", to.trim_end_matches('?'));
                self.site.notes.carried(&node.source);
            }
            Some((to, when)) => {
                let path = to.split('?').next().unwrap_or_default();
                let path = path.replace("$0", "/*");
                let known = ["$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9", "$host"];
                let path = known.iter().fold(path, |path, group| path.replace(group, "*"));
                self.moved.push(Moved { at: self.actions.len(), when: when.clone(), to: path });
                self.action(&node.source, when, vec![("rewrite", to.into())]);
            }
            None => self.site.notes.lost(&node.source, NO_TARGET),
        }
    }

    /// Caddy's directives see the path to which a request was led, rules the one that the client requests: what closes the new path
    /// must come before the rewrite.
    pub fn also_where_moved(&mut self, source: &Source, when: &When, keys: &[(&'static str, Toml)]) {
        if !keys.iter().any(|(key, _)| matches!(*key, "return" | "deny" | "auth")) {
            return;
        }
        for number in 0..self.moved.len() {
            let Moved { at, when: from, to } = &self.moved[number];
            let rest: When = when
                .iter()
                .filter(|(key, _)| !matches!(*key, "path" | "regex" | "unless_path"))
                .cloned()
                .collect();
            let found = match is_for(when, to) {
                Some(false) => continue,
                Some(true) => both(from, &rest),
                None => Err("it may be for the path to which requests are led".to_owned()),
            };
            match found {
                Ok(None) => {}
                Ok(Some(found)) => {
                    let keys = found.into_iter().chain(keys.iter().cloned()).collect();
                    let at = *at;
                    self.actions.insert(at, Block { source: source.clone(), keys, caveat: None });
                    self.moved.iter_mut().filter(|moved| moved.at >= at).for_each(|moved| moved.at += 1);
                }
                Err(why) => {
                    let why = format!("{why}, and rules see the path that the client requests{OPEN}");
                    self.site.notes.lost(source, why);
                }
            }
        }
    }

    pub fn respond(&mut self, node: &CaddyLine, when: When, args: &[String]) {
        let (text, status) = match args {
            [one] => match one.parse::<u64>() {
                Ok(status) => (String::new(), status),
                Err(_) => (one.clone(), if node.word(0) == "error" { 500 } else { 200 }),
            },
            [text, status, ..] => (text.clone(), status.parse().unwrap_or(0)),
            [] => (String::new(), 200),
        };
        // What closes something does so without its text, too.
        let text = if text.contains('{') && status >= 400 { String::new() } else { text };
        if text.contains('{') || !(status == 200 || (400..600).contains(&status)) {
            return self.site.notes.lost(
                &node.source,
                "a rule returns fixed text with 200 or 400 to 599: let a script respond",
            );
        }
        if status == 401 {
            return self.closed(node, when, NO_401.to_owned());
        }
        // The text of an `error` is for logs and for `handle_errors`.
        let text = (!text.is_empty() && node.word(0) == "respond").then_some(("text", text.into()));
        self.action(&node.source, when, [("return", Toml::Number(status))].into_iter().chain(text).collect());
    }
}

/// `https://{host}{uri}` as a rule has it. Without a `?` in its target, a redirect of Caddy drops the query, and a rewrite keeps it.
fn target(text: &str, is_rewrite: bool) -> Option<String> {
    let mut to = text
        .replace("{scheme}://{host}", "https://$host")
        .replace("{host}", "$host")
        .replace("{hostport}", "$host")
        .replace("{uri}", "$0");
    let keeps = is_rewrite || text.ends_with("{uri}") || text.ends_with("?{query}");
    to = to.replace("?{query}", "").replace("{path}", "$0");
    for start in ["{re.", "{http.regexp."] {
        while let Some((before, rest)) = to.split_once(start) {
            let (group, after) = rest.split_once('}')?;
            // `{re.1}`, and with the name of the expression `{re.name.1}`.
            let number: u8 = group.rsplit('.').next()?.parse().ok().filter(|number| *number < 10)?;
            to = format!("{before}${number}{after}");
        }
    }
    let fits = !to.contains('{') && (to.starts_with('/') || to.starts_with("http") || to.starts_with("$0"));
    let to = if keeps || to.contains('?') { to } else { format!("{to}?") };
    fits.then_some(to)
}

/// A target with the path in it, and its conditions. A target must begin as a path or a URL does, so the path at its beginning is
/// written out. Behind a prefix that Caddy has removed, the path is another one than a rule's.
fn with_path(to: String, mut when: When, prefix: &str) -> Option<(String, When)> {
    if !prefix.is_empty() && to.contains("$0") {
        return None;
    }
    let Some(rest) = to.strip_prefix("$0") else { return Some((to, when)) };
    if conditions::of(&when, "regex").is_some() || to.contains("$1") {
        return None;
    }
    match conditions::of(&when, "path").as_deref() {
        None => {
            when.push(("regex", Toml::Regex("^/(.*)$".to_owned())));
            Some((format!("/$1{rest}"), when))
        }
        Some([path]) if path.starts_with('/') && path.matches('*').count() < 10 => {
            let mut parts = path.split('*');
            let first = parts.next().unwrap_or_default().to_owned();
            let whole = parts.enumerate().fold(first, |text, (n, part)| format!("{text}${}{part}", n + 1));
            Some((format!("{whole}{rest}"), when))
        }
        Some(_) => None,
    }
}

/// The conditions of a redirect without its own target: a rule may not lead a request around in a circle.
fn not_again(to: &str, when: When) -> Option<When> {
    let path = to.split('?').next().filter(|path| path.starts_with('/') && !path.contains('$'));
    match path.filter(|path| is_for(&when, path) == Some(true)) {
        Some(path) => both(&when, &vec![("unless_path", Toml::List(vec![path.to_owned()]))]).ok()?,
        None => Some(when),
    }
}

/// Whether a target is a script without a query: a front controller.
fn is_script(to: &str) -> bool {
    to.strip_suffix('?').unwrap_or(to).ends_with(".php")
}

/// Whether conditions hold for a path, whatever else they say; `None`: that can't be told. `*` of the path stands for what is not known.
fn is_for(when: &When, path: &str) -> Option<bool> {
    let within = |key: &str| {
        let all = conditions::of(when, key)?;
        Some(match all.iter().any(|one| paths::covers(one, path)) {
            true => Some(true),
            false if all.iter().any(|one| paths::overlap(one, path)) => None,
            false => Some(false),
        })
    };
    let expression = conditions::of(when, "regex").map(|all| match path.contains('*') {
        true => None,
        false => pattern::compile(&all[0]).map(|regex| regex.is_match(path.as_bytes())),
    });
    let excepted = within("unless_path").map(|found| found.map(|is_excepted| !is_excepted));
    let all = [within("path"), expression, excepted];
    if all.contains(&Some(Some(false))) {
        return Some(false);
    }
    (!all.contains(&Some(None))).then_some(true)
}
