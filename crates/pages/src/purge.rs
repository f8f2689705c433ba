//! Which pages a response purges: by fields, by functions, and by RFC 9111 section 4.4.
//!
//! # `Millrace-Purge` and `millrace_purge()`
//!
//! A list of items, separated by commas. If the first is `soft` or `hard`, it sets the hardness; otherwise the pages
//! become stale:
//!
//! ```text
//! post:17, /about/          a tag; a path with any query
//! hard, /a/?b=1, /shop/*    a URL with its query; all paths that begin so
//! https://other.test/a/     a URL of another host of the site
//! *                         the whole site
//! only, post:17             just this: a POST invalidates nothing by RFC 9111 section 4.4
//! only                      nothing
//! ```
//!
//! A comma in a URL must be written `%2C`.
//!
//! # `X-LiteSpeed-Purge`, `X-LiteSpeed-Purge2`
//!
//! Groups separated by semicolons: `public,` or `private,` (one visitor's own pages, which Millrace doesn't store),
//! `stale,` for soft, then tags, or one URI that begins with `/`. `tag~s` is soft. `*`, the whole site, is always
//! soft, because other plugins send it for small changes. A tag with a wildcard purges the site.

use millrace_wire::path;

use crate::control::structured;
use crate::notes::Notes;
use crate::place::Place;
use crate::rules::{Mode, Rules};
use crate::{Hardness, Purge, Tag};

/// Maximum number of purges in one response; beyond it the whole site is purged.
pub const MOST_PURGES: usize = 1024;

/// The purges of a response, in order and without duplicates. `notes` are included; for notes alone, use [`noted`].
pub fn purges<'a, F>(
    rules: &Rules,
    place: &Place<'_>,
    method: &str,
    status: u16,
    fields: F,
    notes: &Notes,
) -> Vec<(Purge, Hardness)>
where
    F: Iterator<Item = (&'a str, &'a [u8])>,
{
    let mut list = List::new(rules, place);
    // RFC 9110 section 9.2.1, and the other safe methods of the registry. All others may have changed something.
    let safe = matches!(
        method,
        "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PRI" | "PROPFIND" | "REPORT" | "SEARCH" | "QUERY"
    );
    let invalidates = !safe && (200..400).contains(&status);
    if invalidates {
        list.target();
    }
    for (name, value) in fields {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            8 if invalidates && is("location") => list.location(value),
            14 if is("millrace-purge") => list.ours(value),
            16 if invalidates && is("content-location") => list.location(value),
            17 if rules.litespeed && is("x-litespeed-purge") => list.litespeed(value),
            18 if rules.litespeed && is("x-litespeed-purge2") => list.litespeed(value),
            24 if !safe && is("cache-group-invalidation") => list.groups(value),
            _ => {}
        }
    }
    list.notes(&notes.purges);
    list.finish()
}

/// The purges of notes alone: while a script runs, or after its response.
pub fn noted(rules: &Rules, place: &Place<'_>, notes: &[u8]) -> Vec<(Purge, Hardness)> {
    let mut list = List::new(rules, place);
    list.notes(notes);
    list.finish()
}

/// The purge for an item of the grammar above, for commands and for the HTTP method PURGE. `place` has the site and
/// the host of paths without one.
pub fn item(rules: &Rules, place: &Place<'_>, item: &[u8]) -> Option<Purge> {
    List::new(rules, place).item(item.trim_ascii())
}

struct List<'a> {
    rules: &'a Rules,
    place: &'a Place<'a>,
    found: Vec<(Purge, Hardness)>,
    /// Purges by RFC 9111 section 4.4, without the application's order.
    implied: Vec<Purge>,
    /// The application names all changes (`only`).
    only: bool,
}

impl<'a> List<'a> {
    fn new(rules: &'a Rules, place: &'a Place<'a>) -> List<'a> {
        List { rules, place, found: Vec::new(), implied: Vec::new(), only: false }
    }

    fn push(&mut self, what: Purge, how: Hardness) {
        // `finish` handles long lists: comparing all pairs would take too long.
        if self.found.len() <= MOST_PURGES && !self.found.contains(&(what.clone(), how)) {
            self.found.push((what, how));
        }
    }

    fn finish(mut self) -> Vec<(Purge, Hardness)> {
        if !self.only && !self.implied.is_empty() {
            let said = std::mem::take(&mut self.found);
            let how = self.invalidation();
            std::mem::take(&mut self.implied).into_iter().for_each(|what| self.push(what, how));
            said.into_iter().for_each(|(what, how)| self.push(what, how));
        }
        if self.found.len() > MOST_PURGES {
            let hard = self.found.iter().any(|(_, how)| *how == Hardness::Hard);
            let how = if hard { Hardness::Hard } else { Hardness::Soft };
            self.found = vec![(self.site(), how)];
        }
        self.found
    }

    fn site(&self) -> Purge {
        Purge::Tag(Tag::site(self.place.site))
    }

    fn notes(&mut self, notes: &[u8]) {
        notes.split(|b| *b == b'\n').for_each(|line| self.ours(line));
    }

    fn ours(&mut self, value: &[u8]) {
        let mut how = Hardness::Soft;
        let items = value.split(|b| *b == b',').map(<[u8]>::trim_ascii);
        for (at, item) in items.filter(|item| !item.is_empty()).enumerate() {
            match item {
                _ if at == 0 && item.eq_ignore_ascii_case(b"soft") => {}
                _ if at == 0 && item.eq_ignore_ascii_case(b"hard") => how = Hardness::Hard,
                _ if at == 0 && item.eq_ignore_ascii_case(b"only") => self.only = true,
                _ => {
                    if let Some(what) = self.item(item) {
                        self.push(what, how);
                    }
                }
            }
        }
    }

    fn item(&self, item: &[u8]) -> Option<Purge> {
        match item {
            b"" => None,
            b"*" => Some(self.site()),
            [b'/', ..] => self.url(self.place.host, item),
            _ => match host_and_path(item) {
                Some((host, path)) => self.url(&host, path),
                None => Some(Purge::Tag(Tag::named(self.place.site, item))),
            },
        }
    }

    /// A path, optionally followed by a query or `*`.
    fn url(&self, host: &str, url: &[u8]) -> Option<Purge> {
        let site = self.place.site;
        let mut normal = Vec::new();
        let url = &url[..memchr::memchr(b'#', url).unwrap_or(url.len())];
        let (path, query) = match memchr::memchr(b'?', url) {
            Some(at) => (&url[..at], Some(&url[at + 1..])),
            None => (url, None),
        };
        if let (Some(prefix), None) = (path.strip_suffix(b"*"), query) {
            path::normalise(prefix, &mut normal).ok()?;
            let host = Some(host).filter(|host| !host.is_empty()).map(Box::from);
            return Some(Purge::Prefix { site: site.into(), host, path: normal.into() });
        }
        path::normalise(path, &mut normal).ok()?;
        Some(Purge::Tag(match query {
            None => Tag::path(site, host, &normal),
            Some(query) => {
                let mut written = Vec::new();
                Place { site, host, path: &normal, query: Some(query) }.write_query(self.rules, &mut written);
                Tag::url(site, host, &normal, &written)
            }
        }))
    }

    fn litespeed(&mut self, value: &[u8]) {
        for group in value.split(|b| *b == b';').map(<[u8]>::trim_ascii) {
            let mut how = Hardness::Hard;
            let mut rest = group;
            loop {
                let (word, after) = match memchr::memchr(b',', rest) {
                    Some(at) => (rest[..at].trim_ascii(), rest[at + 1..].trim_ascii_start()),
                    None => (rest.trim_ascii(), &[][..]),
                };
                match word {
                    b"public" => {}
                    b"stale" => how = Hardness::Soft,
                    _ => break,
                }
                rest = after;
            }
            if rest.split(|b| *b == b',').next().is_some_and(|word| word.trim_ascii() == b"private") {
                continue;
            }
            if rest.starts_with(b"/") {
                let (uri, soft) = without_stale(rest);
                let what = self.url(self.place.host, uri);
                what.into_iter().for_each(|what| self.push(what, if soft { Hardness::Soft } else { how }));
                continue;
            }
            for item in rest.split(|b| *b == b',') {
                let (item, soft) = without_stale(item.trim_ascii());
                let name = item.strip_prefix(b"tag=").unwrap_or(item);
                let how = if soft { Hardness::Soft } else { how };
                match name {
                    b"" => {}
                    b"*" => self.push(self.site(), Hardness::Soft),
                    _ if name.starts_with(b"*") || name.ends_with(b"*") => self.push(self.site(), how),
                    _ => self.push(Purge::Tag(Tag::named(self.place.site, name)), how),
                }
            }
        }
    }

    /// RFC 9875 section 3.
    fn groups(&mut self, value: &[u8]) {
        for item in structured::list(value).unwrap_or_default() {
            if let structured::Item::String(name) = item {
                self.push(Purge::Tag(Tag::named(self.place.site, &name)), Hardness::Hard);
            }
        }
    }

    /// RFC 9111 section 4.4: the target of a request with an unsafe method.
    fn target(&mut self) {
        let mut query = Vec::new();
        self.place.write_query(self.rules, &mut query);
        let tag = Tag::url(self.place.site, self.place.host, self.place.path, &query);
        self.implied.push(Purge::Tag(tag));
    }

    /// `Location` and `Content-Location`, only of the same origin.
    fn location(&mut self, value: &[u8]) {
        let (host, path) = match value {
            [b'/', b'/', ..] => match host_and_path(&[b"http:", value].concat()) {
                Some((host, path)) => (host, path.to_vec()),
                None => return,
            },
            [b'/', ..] => (self.place.host.to_owned(), value.to_vec()),
            _ => match host_and_path(value) {
                Some((host, path)) => (host, path.to_vec()),
                None if value.contains(&b':') => return,
                None => (self.place.host.to_owned(), self.relative(value)),
            },
        };
        if host != self.place.host {
            return;
        }
        // Exactly this URL, not all queries of its path.
        let path = &path[..memchr::memchr(b'#', &path).unwrap_or(path.len())];
        let (path, query) = match memchr::memchr(b'?', path) {
            Some(at) => (&path[..at], Some(&path[at + 1..])),
            None => (path, None),
        };
        let mut normal = Vec::new();
        if path::normalise(path, &mut normal).is_err() {
            return;
        }
        let mut written = Vec::new();
        let place = Place { path: &normal, query, ..*self.place };
        place.write_query(self.rules, &mut written);
        let tag = Tag::url(place.site, place.host, place.path, &written);
        self.implied.push(Purge::Tag(tag));
    }

    /// A relative reference, resolved from the folder of the request's path (RFC 3986 section 5.2.3).
    fn relative(&self, reference: &[u8]) -> Vec<u8> {
        let path = self.place.path;
        let folder = &path[..path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1)];
        // The path is decoded, and will be decoded again.
        let mut whole = Vec::with_capacity(folder.len() + reference.len());
        for byte in folder {
            match byte {
                b'%' => whole.extend_from_slice(b"%25"),
                b'?' => whole.extend_from_slice(b"%3F"),
                b'#' => whole.extend_from_slice(b"%23"),
                _ => whole.push(*byte),
            }
        }
        whole.extend_from_slice(reference);
        whole
    }

    /// To "invalidate" is to remove, or to require validation. In profile mode the application's own purges do the
    /// former, and any client can POST to a front page: there the page becomes stale, and is renewed in the
    /// background.
    fn invalidation(&self) -> Hardness {
        if self.rules.mode == Mode::Profile { Hardness::Soft } else { Hardness::Hard }
    }
}

fn without_stale(item: &[u8]) -> (&[u8], bool) {
    match item.strip_suffix(b"~s").or_else(|| item.strip_suffix(b"~stale")) {
        Some(item) => (item, true),
        None => (item, false),
    }
}

/// Host (lower case, without the port of its scheme) and path of an absolute `http` or `https` URL.
fn host_and_path(url: &[u8]) -> Option<(String, &[u8])> {
    let at = memchr::memmem::find(url, b"://")?;
    let (scheme, rest) = (&url[..at], &url[at + 3..]);
    let port = match () {
        () if scheme.eq_ignore_ascii_case(b"http") => ":80",
        () if scheme.eq_ignore_ascii_case(b"https") => ":443",
        () => return None,
    };
    let end = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let host = std::str::from_utf8(host).ok()?.to_ascii_lowercase();
    let host = host.strip_suffix(port).map_or_else(|| host.clone(), str::to_owned);
    if host.is_empty() || host.contains('@') {
        return None;
    }
    Some((host, if path.starts_with(b"/") { path } else { b"/" }))
}

#[cfg(test)]
mod tests;
