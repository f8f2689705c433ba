//! What rules do to a page, as a part of the page's key: two requests for one URL have different pages if rules give
//! PHP something else for them.

use std::os::unix::ffi::OsStrExt;

use millrace_htaccess::{Node, Outcome, Verdict, World};

use millrace_base::message::Request;
use millrace_base::site::Site;

/// The part of the key; empty if the rules do nothing but what Millrace does without them. `index` has the server's names of
/// index files.
pub fn of(
    site: &Site,
    index: &[String],
    world: &impl World,
    path: &[u8],
    verdict: &Verdict,
    (request, query): (&Request, Option<&[u8]>),
) -> Vec<u8> {
    let mut key = Vec::new();
    if verdict.outcome != Outcome::Serve {
        return key;
    }
    let front = site.plan.front_controller.as_deref().unwrap_or("").as_bytes();
    let is_usual = verdict.path == front && leads_there_anyway(site, index, world, path, front);
    if verdict.path != path && !is_usual {
        item(&mut key, b"path", &verdict.path);
    }
    let query = query.filter(|query| !query.is_empty());
    if verdict.query.as_deref() != query {
        item(&mut key, b"query", verdict.query.as_deref().unwrap_or_default());
    }
    for (name, value) in verdict.variables().filter(|(_, value)| !value.is_empty()) {
        if name != b"REDIRECT_STATUS" {
            item(&mut key, name, value);
        }
    }
    for (name, value) in &verdict.request_fields {
        item(&mut key, name.as_bytes(), value.as_deref().unwrap_or_default());
    }
    for name in &verdict.cache.vary_cookies {
        item(&mut key, name.as_bytes(), cookie(request, name.as_bytes()).unwrap_or_default());
    }
    key
}

/// Whether the front controller gets a path without rules, too: nothing is at the path, or a folder whose index file is the front controller.
/// It does not get scripts, nor folders with another index file.
fn leads_there_anyway(site: &Site, index: &[String], world: &impl World, path: &[u8], front: &[u8]) -> bool {
    if path.windows(4).any(|part| part.eq_ignore_ascii_case(b".php")) {
        return false;
    }
    let root = site.plan.root.as_os_str().as_bytes();
    let root = root.strip_suffix(b"/").unwrap_or(root);
    let node = |path: &[u8]| world.node(&[root, path].concat());
    match node(path) {
        None => true,
        Some(Node::Directory) => {
            let mut files = index.iter().map(|name| [path, name.as_bytes()].concat());
            files.find(|file| matches!(node(file), Some(Node::File { .. }))).is_some_and(|file| file == front)
        }
        Some(_) => false,
    }
}

/// Appends a name and a value with their lengths, without NUL, which separates the parts of a key.
pub fn item(key: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for text in [name, value] {
        key.extend_from_slice(format!("{}:", text.len()).as_bytes());
        key.extend(text.iter().map(|byte| if *byte == 0 { 1 } else { *byte }));
    }
}

/// The value of the cookie of this name.
pub fn cookie<'r>(request: &'r Request, name: &[u8]) -> Option<&'r [u8]> {
    let lines = request.head.fields().filter(|(field, _)| field.eq_ignore_ascii_case("cookie"));
    let mut cookies = lines.flat_map(|(_, line)| line.split(|byte| *byte == b';'));
    cookies.find_map(|cookie| cookie.trim_ascii().strip_prefix(name)?.strip_prefix(b"="))
}
