//! In which order Caddy's directives decide, and which of them end a request (`caddyconfig/httpcaddyfile/directives.go`).

use super::conditions;
use super::lex::CaddyLine;
use crate::value::When;

/// Directives that see requests, in their order.
const ORDER: &[&str] = &[
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "skip_log",
    "log_skip",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basicauth",
    "basic_auth",
    "rate_limit",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "route",
    "abort",
    "error",
    "copy_response",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_server",
    "php_fastcgi",
    "file_server",
    "acme_server",
];

/// The position of a directive; those that are no step of a request come first. `handle_path` is one of the `handle`.
fn rank(name: &str) -> usize {
    let name = if name == "handle_path" { "handle" } else { name };
    ORDER.iter().position(|known| *known == name).map_or(0, |position| position + 1)
}

/// Whether a directive is a step of a request, and not, as `tls`, a setting of the site.
pub fn is_step(name: &str) -> bool {
    rank(name) > 0
}

/// The directives of a block in the order in which they decide: by their names, then the longest path first. `own` has the conditions of
/// a directive's own matcher, if rules have such.
pub fn sorted(nodes: &[CaddyLine], own: impl Fn(&CaddyLine) -> Option<When>) -> Vec<&CaddyLine> {
    let mut all: Vec<(&CaddyLine, Option<When>)> = nodes.iter().map(|node| (node, own(node))).collect();
    // An insertion sort, as Go's for lists like these: the comparison is no order for all of them.
    for end in 1..all.len() {
        let mut at = end;
        while at > 0 && is_before(&all[at], &all[at - 1]) {
            all.swap(at, at - 1);
            at -= 1;
        }
    }
    all.into_iter().map(|(node, _)| node).collect()
}

fn is_before(one: &(&CaddyLine, Option<When>), other: &(&CaddyLine, Option<When>)) -> bool {
    let (first, second) = (rank(one.0.word(0)), rank(other.0.word(0)));
    if first != second {
        return first < second;
    }
    match (only_path(&one.1), only_path(&other.1)) {
        (Some(a), Some(b)) if a.trim_end_matches('*') == b.trim_end_matches('*') => a.len() < b.len(),
        (Some(a), Some(b)) => a.len() > b.len(),
        _ => has_matcher(&one.1) && !has_matcher(&other.1),
    }
}

fn only_path(when: &Option<When>) -> Option<String> {
    let paths = conditions::of(when.as_ref()?, "path")?;
    (paths.len() == 1).then(|| paths[0].clone())
}

fn has_matcher(when: &Option<When>) -> bool {
    when.as_ref().is_none_or(|when| !when.is_empty())
}

/// Whether a directive closes something: what it says must not be lost without a word.
pub fn restricts(node: &CaddyLine) -> bool {
    match node.word(0) {
        "abort" | "error" | "basicauth" | "basic_auth" | "forward_auth" => true,
        "respond" => node.words.iter().any(|word| matches!(word.parse::<u16>(), Ok(400..=599))),
        "handle" | "handle_path" | "route" => node.block.iter().any(restricts),
        _ => false,
    }
}

/// Whether no request goes on behind this block: something in it responds to all that get there.
pub fn ends(block: &[CaddyLine]) -> bool {
    let is_handle = |node: &&CaddyLine| matches!(node.word(0), "handle" | "handle_path");
    block.iter().any(|node| {
        let is_for_all = !node.word(1).starts_with(['/', '@']);
        match node.word(0) {
            "respond" | "redir" | "error" | "abort" | "reverse_proxy" | "php_fastcgi" | "php_server"
            | "file_server" => is_for_all,
            // What is for all is for those that no other `handle` has taken.
            "handle" => is_for_all && block.iter().filter(is_handle).all(|node| ends(&node.block)),
            "route" => is_for_all && ends(&node.block),
            _ => false,
        }
    })
}
