//! The key under which a page is stored.
//!
//! Two requests may share a key only if PHP cannot distinguish them by their URL, except by arguments that the site's
//! rules drop, and by the order of arguments with different names. So:
//!
//! - The path is included in its normalised form, which purges use, and, if it differs, in the form that was sent:
//!   `REQUEST_URI` shows PHP `/%61`, `//a`, `/a;b` and `/a%2Fb` unchanged, and WordPress redirects from one to the
//!   other. A common entry for both would be a redirect to itself.
//! - An argument's bytes are not changed: `+` and `%20`, or `a` and `a=`, stay different. So do upper and lower case
//!   of hex digits.
//! - Arguments are sorted by the name of the variable that PHP derives from them, `a` for `a[]`; arguments of one
//!   variable stay in order. If a name is not plain (PHP turns `a.b` into `a_b`, and ends a name at `%00`), nothing
//!   is sorted.
//! - Nothing is dropped or sorted if the query contains a `;`, which PHP can be configured to take as a separator, or
//!   has more than [`MOST_ARGUMENTS`]: PHP ignores arguments after the thousandth.
//! - `/a` and `/a?` are different. `/a?utm_source=x` is `/a`.
//!
//! For [`crate::ask`], requests bypass the cache if their host is not in lower case, has the scheme's default port,
//! or is unknown to the site.

use std::hash::BuildHasher;
use std::sync::OnceLock;

use hashbrown::DefaultHashBuilder;

use crate::Tag;
use crate::rules::Patterns;

/// The longest key in bytes; a request with a longer one bypasses the cache.
pub const LONGEST_KEY: usize = 8192;

/// A query with more arguments is not changed.
pub const MOST_ARGUMENTS: usize = 64;

/// The bytes `site NUL scheme NUL host NUL path NUL [? query] [NUL extra]` with their hash. `scheme` is empty where
/// both schemes share pages. `extra` contains items that end in NUL: the path as sent, if it is not normalised, and
/// cookie values and the class of device, if the site's keys include them.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The bytes that are compared.
    pub bytes: &'a [u8],
    /// Hash of the bytes; equal for equal bytes in this process, different in the next.
    pub hash: u64,
}

impl<'a> Key<'a> {
    /// The key of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Key<'a> {
        static SEED: OnceLock<DefaultHashBuilder> = OnceLock::new();
        Key { bytes, hash: SEED.get_or_init(DefaultHashBuilder::default).hash_one(bytes) }
    }

    /// Site, host and path.
    pub fn place(&self) -> (&'a [u8], &'a [u8], &'a [u8]) {
        let mut parts = self.bytes.split(|&b| b == 0);
        let site = parts.next().unwrap_or_default();
        let _scheme = parts.next();
        (site, parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    }

    /// The implicit tag of all pages with this path and query.
    pub fn url(&self) -> Tag {
        let (site, host, path) = self.place();
        let query = self.bytes.split(|&b| b == 0).nth(4).unwrap_or_default();
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
        Tag::url(text(site), text(host), path, query)
    }
}

/// Appends `query` without the arguments that `dropped` names, sorted. Returns whether this changed it.
///
/// An empty query stays empty; a query without remaining arguments appends nothing, not even its `?`.
pub fn write_query(dropped: &Patterns, query: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(arguments) = Arguments::split(dropped, query) else {
        out.push(b'?');
        out.extend_from_slice(query);
        return false;
    };
    let start = out.len();
    arguments.write(true, out);
    out.get(start + 1..) != Some(query)
}

/// Appends `query` without the dropped arguments, in its own order: what PHP should see when it runs for a shared
/// page, so that no dropped value gets into the page. False, and nothing appended: the query may stay unchanged.
pub fn write_kept(dropped: &Patterns, query: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(arguments) = Arguments::split(dropped, query) else { return false };
    if !arguments.any_dropped {
        return false;
    }
    let start = out.len();
    arguments.write(false, out);
    if out.get(start) == Some(&b'?') {
        out.remove(start);
    }
    true
}

/// Arguments of a query that are not dropped.
struct Arguments<'a> {
    query: &'a [u8],
    list: [Argument; MOST_ARGUMENTS],
    count: usize,
    any_dropped: bool,
    /// Whether all names are plain.
    sortable: bool,
}

/// The position of an argument in its query, and the length of the name of PHP's variable.
#[derive(Clone, Copy, Default)]
struct Argument {
    start: u16,
    end: u16,
    variable: u16,
}

impl<'a> Arguments<'a> {
    /// `None`: the query must not be changed.
    fn split(dropped: &Patterns, query: &'a [u8]) -> Option<Arguments<'a>> {
        // A longer query makes the key too long anyway.
        if query.is_empty() || query.len() > LONGEST_KEY || memchr::memchr(b';', query).is_some() {
            return None;
        }
        let list = [Argument::default(); MOST_ARGUMENTS];
        let mut all = Arguments { query, list, count: 0, any_dropped: false, sortable: true };
        let (mut start, mut seen) = (0, 0);
        while start < query.len() {
            let end = memchr::memchr(b'&', &query[start..]).map_or(query.len(), |at| start + at);
            if end > start {
                seen += 1;
                if seen > MOST_ARGUMENTS {
                    return None;
                }
                all.take(dropped, start, end);
            }
            start = end + 1;
        }
        (seen > 0).then_some(all)
    }

    fn take(&mut self, dropped: &Patterns, start: usize, end: usize) {
        let text = &self.query[start..end];
        let name = &text[..memchr::memchr(b'=', text).unwrap_or(text.len())];
        if dropped.matches(name) {
            self.any_dropped = true;
            return;
        }
        let variable = variable(name);
        self.sortable &= variable.is_some();
        let length = variable.map_or(0, <[u8]>::len);
        self.list[self.count] = Argument { start: start as u16, end: end as u16, variable: length as u16 };
        self.count += 1;
    }

    fn variable(&self, at: usize) -> &'a [u8] {
        let Argument { start, variable, .. } = self.list[at];
        &self.query[usize::from(start)..usize::from(start + variable)]
    }

    fn write(mut self, sorted: bool, out: &mut Vec<u8>) {
        if sorted && self.sortable {
            self.sort();
        }
        let mut separator = b'?';
        for argument in &self.list[..self.count] {
            out.push(separator);
            out.extend_from_slice(&self.query[usize::from(argument.start)..usize::from(argument.end)]);
            separator = b'&';
        }
    }

    /// Insertion sort: stable, without allocation, and one pass over a sorted list.
    fn sort(&mut self) {
        for at in 1..self.count {
            let mut place = at;
            while place > 0 && self.variable(place - 1) > self.variable(place) {
                self.list.swap(place - 1, place);
                place -= 1;
            }
        }
    }
}

/// The variable that PHP derives from an argument's name; `None` if the name is not plain enough to be sure.
///
/// main/php_variables.c, php_register_variable_ex(): spaces, dots and an opening bracket without a closing one become `_`;
/// a NUL ends the name.
fn variable(name: &[u8]) -> Option<&[u8]> {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b':');
    let end = name.iter().position(|b| !plain(b)).unwrap_or(name.len());
    let (variable, mut rest) = name.split_at(end);
    if variable.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        rest = bracket(rest, b'[', b"%5b", b"%5B")?;
        let end = rest.iter().position(|b| !plain(b))?;
        rest = bracket(&rest[end..], b']', b"%5d", b"%5D")?;
    }
    Some(variable)
}

fn bracket<'a>(text: &'a [u8], plain: u8, lower: &[u8], upper: &[u8]) -> Option<&'a [u8]> {
    text.strip_prefix(&[plain]).or_else(|| text.strip_prefix(lower)).or_else(|| text.strip_prefix(upper))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use millrace_wire::percent;
    use proptest::prelude::*;

    fn written(query: &str) -> String {
        let mut out = Vec::new();
        write_query(&Patterns::new(["utm_*", "_ga"]), query.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_tag_of_a_url() {
        let key = |bytes| Key::new(bytes).url();
        let page = Tag::url("a", "h", b"/x/", b"?y=1");
        assert_eq!((key(b"a\0http\0h\0/x/\0?y=1\0"), key(b"a\0\0h\0/x/\0?y=1\0dmobile\0")), (page, page));
        assert_ne!(key(b"a\0http\0h\0/x/\0\0"), page);
    }

    #[test]
    fn a_query_in_a_key() {
        for (query, expected) in [
            ("", "?"),
            ("&", "?&"),
            ("a", "?a"),
            ("utm_source=x", ""),
            ("utm_source=x&_ga=1&", ""),
            ("b=2&utm_source=x&a=1", "?a=1&b=2"),
            ("b=2&a[]=2&a[]=1", "?a[]=2&a[]=1&b=2"),
            ("b=2&a%5B%5d=2&a[x]=1&a=3", "?a%5B%5d=2&a[x]=1&a=3&b=2"),
            // Not plain: the order stays.
            ("b=2&a.b=1", "?b=2&a.b=1"),
            ("b=1&a[b=2", "?b=1&a[b=2"),
            ("b=1&a%00=2", "?b=1&a%00=2"),
            ("b=1&a+b=2", "?b=1&a+b=2"),
            ("b=1&=2", "?b=1&=2"),
            ("b=1&utm_source=1;a=2", "?b=1&utm_source=1;a=2"),
            // Only the exact spelling is dropped.
            ("utm%5Fsource=x", "?utm%5Fsource=x"),
            ("a=%2F&b=%2f", "?a=%2F&b=%2f"),
        ] {
            assert_eq!(written(query), expected, "{query}");
        }
    }

    #[test]
    fn what_differs_for_php_differs() {
        for (one, other) in [
            ("a=1+2", "a=1%202"),
            ("a", "a="),
            ("a[]=1&a[]=2", "a[]=2&a[]=1"),
            ("a=1&a=2", "a=2&a=1"),
            ("a[x]=1&a=2", "a=2&a[x]=1"),
            ("a.b=1&a_b=2", "a_b=2&a.b=1"),
            ("a[b=1&a_b=2", "a_b=2&a[b=1"),
            ("", "utm_source=1"),
        ] {
            assert_ne!(written(one), written(other), "{one} {other}");
        }
    }

    #[test]
    fn a_changed_query_is_told() {
        let changed = |query: &str| write_query(&Patterns::new(["utm_*"]), query.as_bytes(), &mut vec![1, 2]);
        assert!(changed("utm_x=1") && changed("a=1&utm_x=1") && changed("b=1&a=2") && changed("a=1&"));
        assert!(
            !changed("") && !changed("a=1&b=2") && !changed("b.=1&a=2") && !changed("&") && !changed("a")
        );
    }

    #[test]
    fn too_many_arguments_are_left_alone() {
        let many: String = (0..=MOST_ARGUMENTS).map(|n| format!("utm_{n}=1&")).collect();
        assert_eq!(written(&format!("{many}p=5")), format!("?{many}p=5"));
    }

    #[test]
    fn php_sees_the_rest_in_its_order() {
        let kept = |query: &str| {
            let mut out = Vec::new();
            write_kept(&Patterns::new(["utm_*"]), query.as_bytes(), &mut out)
                .then(|| String::from_utf8(out).unwrap())
        };
        assert_eq!(kept("b=1&utm_x=2&a=3").as_deref(), Some("b=1&a=3"));
        assert_eq!(kept("utm_x=2").as_deref(), Some(""));
        assert_eq!(kept("b=1&a=2"), None);
        assert_eq!(kept(""), None);
    }

    /// The text in brackets, and the value.
    type Assignment = (Vec<u8>, Vec<u8>);

    /// `$_GET` as PHP makes it, without the inside of arrays: the assignments to each variable in order.
    fn get(query: &str) -> BTreeMap<Vec<u8>, Vec<Assignment>> {
        let mut all: BTreeMap<Vec<u8>, Vec<Assignment>> = BTreeMap::new();
        for argument in query.split('&').filter(|argument| !argument.is_empty()) {
            let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
            let decoded = |text: &str| percent::decode_form(text.as_bytes()).into_owned();
            let (name, value) = (decoded(name), decoded(value));
            let name: Vec<u8> = name.into_iter().take_while(|b| *b != 0).skip_while(|b| *b == b' ').collect();
            if name.starts_with(b"utm_") || name.is_empty() {
                continue;
            }
            let closed = |at: usize| name[at..].contains(&b']');
            let end = name.iter().position(|b| *b == b'[').filter(|at| *at > 0 && closed(*at));
            let (variable, inside) = name.split_at(end.unwrap_or(name.len()));
            let variable = variable.iter().map(|b| if b" .[".contains(b) { b'_' } else { *b }).collect();
            all.entry(variable).or_default().push((inside.to_vec(), value));
        }
        all
    }

    /// Short queries of few parts, so that equal keys are frequent.
    fn query() -> impl Strategy<Value = String> {
        let name = prop::sample::select(vec![
            "a", "b", "a[]", "a[x]", "a%5B%5D", "a[", "a_", "a.", "a+", "%61", "a%00", "utm_x", "utm_x[]",
            "", "+a", "a]", "[a", "a[x", "a[[x]", "a_x", "utm%5Fx",
        ]);
        let value = prop::sample::select(vec!["", "=", "=1", "=%31", "=+", "=%20"]);
        prop::collection::vec((name, value), 0..4)
            .prop_map(|list| list.iter().map(|(n, v)| format!("{n}{v}")).collect::<Vec<_>>().join("&"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn equal_keys_mean_that_php_sees_the_same(one in query(), other in query()) {
            let mut keys = [Vec::new(), Vec::new()];
            let dropped = Patterns::new(["utm_*"]);
            write_query(&dropped, one.as_bytes(), &mut keys[0]);
            write_query(&dropped, other.as_bytes(), &mut keys[1]);
            if keys[0] == keys[1] {
                prop_assert_eq!(get(&one), get(&other), "{} {}", one, other);
            }
        }

        #[test]
        fn the_order_of_plain_names_does_not_matter(
            mut list in prop::collection::btree_map("[a-d_]{1,2}", "[0-9]", 0..5).prop_map(Vec::from_iter),
            turn in 0usize..5,
        ) {
            let text = |list: &[(String, String)]| {
                list.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join("&")
            };
            let before = text(&list);
            let turn = turn.min(list.len());
            list.rotate_left(turn);
            prop_assert_eq!(written(&before), written(&text(&list)));
        }
    }
}
