//! Compares a page made for a visitor with a cart with the public page. Left out are the elements that a script in the
//! browser replaces (named by simple selectors: `div.widget_shopping_cart_content`, `#cart`, `a.cart-contents`), and
//! WordPress's nonces, ten hexadecimal digits behind the word "nonce", which change every twelve hours; and what PHP's
//! `uniqid()` has made of the time within the last days, 13 hexadecimal digits; and the number of Gravatar's host, which
//! WordPress chooses at random; and `<link rel="prefetch">`, by which WooCommerce has the browser load the scripts of the checkout
//! early if there is something in the cart (`AssetsController::add_resource_hints()`): it shows nothing.
//!
//! What WooCommerce's blocks fill in is left out by [`super::interactive`].
//!
//! A selector that is not understood leaves nothing out, and an element that is only on one of the pages is a
//! difference: every doubt makes the pages differ.

use super::interactive;

/// Whether two pages are the same, but for the elements that these selectors name. `now`: seconds since 1970.
pub fn is_same(public: &[u8], own: &[u8], selectors: &[&str], now: u64) -> bool {
    if public == own {
        return true;
    }
    let selectors: Vec<Selector<'_>> =
        selectors.iter().flat_map(|list| list.split(',')).filter_map(Selector::parse).collect();
    let (filled_public, filled_own) = (interactive::blanked(public), interactive::blanked(own));
    let (public, own) = (filled_public.as_deref().unwrap_or(public), filled_own.as_deref().unwrap_or(own));
    blanked(public, &selectors, now) == blanked(own, &selectors, now)
}

/// A page without what differs by itself, as long as it was: ids made of the time, the number of Gravatar's host. Nonces stay: each belongs
/// to one visitor.
pub fn without_times(page: &[u8], now: u64) -> Vec<u8> {
    let mut page = page.to_vec();
    blank_times(&mut page, now);
    blank_gravatars(&mut page);
    page
}

/// One compound selector: a tag's name, an id, classes.
#[derive(Debug, PartialEq, Eq)]
struct Selector<'a> {
    tag: &'a str,
    id: Option<&'a str>,
    classes: Vec<&'a str>,
}

impl<'a> Selector<'a> {
    /// `None`: it is empty, or has another form.
    fn parse(text: &'a str) -> Option<Selector<'a>> {
        let text = text.trim();
        let is_name = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        let end = text.find(['.', '#']).unwrap_or(text.len());
        let (tag, mut rest) = text.split_at(end);
        let mut selector = Selector { tag, id: None, classes: Vec::new() };
        while let Some(mark) = rest.chars().next() {
            let end = rest[1..].find(['.', '#']).map_or(rest.len(), |at| at + 1);
            let name = &rest[1..end];
            if !is_name(name) {
                return None;
            }
            match mark {
                '#' => selector.id = Some(name),
                _ => selector.classes.push(name),
            }
            rest = &rest[end..];
        }
        // A tag alone would leave out too much.
        let is_whole = selector.id.is_some() || !selector.classes.is_empty();
        (is_whole && (tag.is_empty() || is_name(tag))).then_some(selector)
    }

    fn matches(&self, tag: &HtmlTag<'_>) -> bool {
        (self.tag.is_empty() || tag.name.eq_ignore_ascii_case(self.tag.as_bytes()))
            && self.id.is_none_or(|id| tag.attribute("id") == Some(id.as_bytes()))
            && (self.classes.is_empty() || {
                let classes = tag.attribute("class").unwrap_or_default();
                let has = |class: &&str| {
                    classes.split(u8::is_ascii_whitespace).any(|known| known == class.as_bytes())
                };
                self.classes.iter().all(has)
            })
    }
}

/// A tag of a page.
pub(super) struct HtmlTag<'a> {
    pub name: &'a [u8],
    /// What is between the name and the `>`.
    rest: &'a [u8],
    pub closes: bool,
    /// Where the text behind it begins.
    pub end: usize,
}

/// Elements without content.
pub(super) const VOID: [&str; 8] = ["area", "br", "hr", "img", "input", "link", "meta", "source"];
/// Elements that contain only text: tags in them are not parsed.
const RAW: [&str; 4] = ["script", "style", "textarea", "title"];

impl<'a> HtmlTag<'a> {
    /// The tag that begins at `at`, where there is a `<`.
    fn at(page: &'a [u8], at: usize) -> Option<HtmlTag<'a>> {
        let closes = page.get(at + 1) == Some(&b'/');
        let start = at + 1 + usize::from(closes);
        let length = page[start..].iter().position(|b| !(b.is_ascii_alphanumeric() || *b == b'-'))?;
        if length == 0 || !page[start].is_ascii_alphabetic() {
            return None;
        }
        let mut quote = None;
        let behind = &page[start + length..];
        let close = behind.iter().position(|b| match (quote, *b) {
            (None, b'>') => true,
            (None, b'"' | b'\'') => {
                quote = Some(*b);
                false
            }
            (Some(open), b) if b == open => {
                quote = None;
                false
            }
            _ => false,
        })?;
        let (name, rest) = (&page[start..start + length], &behind[..close]);
        Some(HtmlTag { name, rest, closes, end: start + length + close + 1 })
    }

    pub fn is(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.name.eq_ignore_ascii_case(name.as_bytes()))
    }

    fn is_prefetch(&self) -> bool {
        self.is(&["link"]) && self.attribute("rel") == Some(b"prefetch")
    }

    /// The value of an attribute that has one.
    pub fn attribute(&self, wanted: &str) -> Option<&'a [u8]> {
        self.attributes().find(|(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes()))?.1
    }

    /// Names and values, up to what is torn.
    pub fn attributes(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let mut rest = self.rest.trim_ascii_start();
        std::iter::from_fn(move || {
            loop {
                let end =
                    rest.iter().position(|b| b.is_ascii_whitespace() || *b == b'=').unwrap_or(rest.len());
                let name = &rest[..end];
                rest = rest[end..].trim_ascii_start();
                if let Some(value) = rest.strip_prefix(b"=") {
                    let value = value.trim_ascii_start();
                    let (value, behind) = match value.first() {
                        Some(quote @ (b'"' | b'\'')) => {
                            let length = memchr::memchr(*quote, &value[1..])?;
                            (&value[1..=length], &value[length + 2..])
                        }
                        _ => value
                            .split_at(value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len())),
                    };
                    rest = behind.trim_ascii_start();
                    return Some((name, Some(value)));
                }
                if end > 0 {
                    return Some((name, None));
                }
                // A stray character.
                rest = rest.get(1..)?;
            }
        })
    }
}

/// The page without what may differ.
fn blanked(page: &[u8], selectors: &[Selector<'_>], now: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(page.len());
    let mut from = 0;
    if !selectors.is_empty() || memchr::memmem::find(page, b"prefetch").is_some() {
        each_tag(page, 0, |start, tag| {
            if tag.is_prefetch() {
                out.extend_from_slice(&page[from..start]);
                from = tag.end + usize::from(page.get(tag.end) == Some(&b'\n'));
                return Some(from);
            }
            if tag.closes || !selectors.iter().any(|selector| selector.matches(tag)) {
                return Some(tag.end);
            }
            out.extend_from_slice(&page[from..start]);
            out.extend_from_slice(b"<blank ");
            out.extend_from_slice(tag.name);
            from = if tag.is(&VOID) { tag.end } else { end_of(page, tag) };
            Some(from)
        });
    }
    out.extend_from_slice(&page[from..]);
    blank_nonces(&mut out);
    blank_times(&mut out, now);
    blank_gravatars(&mut out);
    out
}

/// Calls `visit` with each tag from `at` on; it returns where to go on, or `None` to end.
pub(super) fn each_tag<'a>(
    page: &'a [u8],
    mut at: usize,
    mut visit: impl FnMut(usize, &HtmlTag<'a>) -> Option<usize>,
) {
    while let Some(found) = page.get(at..).and_then(|rest| memchr::memchr(b'<', rest)) {
        let start = at + found;
        if page[start..].starts_with(b"<!--") {
            let end = memchr::memmem::find(&page[start + 4..], b"-->");
            at = end.map_or(page.len(), |end| start + 4 + end + 3);
            continue;
        }
        let Some(tag) = HtmlTag::at(page, start) else {
            at = start + 1;
            continue;
        };
        let Some(next) = visit(start, &tag) else { return };
        at = next;
        if next == tag.end && !tag.closes && tag.is(&RAW) {
            at = end_of_raw(page, &tag);
        }
    }
}

/// Where the content of a script or the like ends, at its end tag.
pub(super) fn end_of_raw(page: &[u8], tag: &HtmlTag<'_>) -> usize {
    let ends = memchr::memmem::find_iter(&page[tag.end..], b"</").map(|at| tag.end + at);
    let is_end = |at: &usize| {
        let name = page.get(at + 2..at + 2 + tag.name.len());
        name.is_some_and(|name| name.eq_ignore_ascii_case(tag.name))
    };
    ends.into_iter().find(is_end).unwrap_or(page.len())
}

/// Where an element ends, behind its end tag.
pub(super) fn end_of(page: &[u8], tag: &HtmlTag<'_>) -> usize {
    if tag.is(&RAW) {
        return end_of_raw(page, tag);
    }
    let (mut depth, mut end) = (1, page.len());
    each_tag(page, tag.end, |_, inner| {
        if inner.name.eq_ignore_ascii_case(tag.name) {
            depth = if inner.closes { depth - 1 } else { depth + 1 };
        }
        end = if depth == 0 { inner.end } else { page.len() };
        (depth > 0).then_some(inner.end)
    });
    end
}

/// A nonce has this many digits (wp_create_nonce()).
const NONCE: usize = 10;
/// It begins no further than this behind the word.
const REACH: usize = 48;

fn blank_nonces(page: &mut [u8]) {
    let words: Vec<usize> = memchr::memmem::find_iter(page, b"once")
        .filter(|at| *at > 0 && page[at - 1].eq_ignore_ascii_case(&b'n'))
        .collect();
    for word in words {
        let end = page.len().min(word + 4 + REACH + NONCE);
        let mut at = word + 4;
        while at < end {
            let digits = page[at..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
            let is_nonce = digits == NONCE
                && at + digits <= end
                && page[at..at + NONCE].iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if is_nonce {
                page[at..at + NONCE].fill(b'x');
                break;
            }
            at += digits.max(1);
        }
    }
}

/// `uniqid()`: eight digits of seconds, five of microseconds.
const UNIQUE: usize = 13;
/// A public page may be so old, and the clock may have been set back, seconds.
const DAYS: u64 = 3 * 86_400;

fn blank_times(page: &mut [u8], now: u64) {
    let mut at = 0;
    while at < page.len() {
        let digits = page[at..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
        let word = &mut page[at..at + digits];
        let is_hex = digits == UNIQUE && word.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let seconds = is_hex.then(|| std::str::from_utf8(&word[..8]).ok()).flatten();
        let seconds = seconds.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        if seconds.is_some_and(|seconds| seconds.abs_diff(now) < DAYS) {
            word.fill(b'x');
        }
        at += digits.max(1);
    }
}

fn blank_gravatars(page: &mut [u8]) {
    let hosts: Vec<usize> = memchr::memmem::find_iter(page, b".gravatar.com").filter(|at| *at > 0).collect();
    for at in hosts {
        if page[at - 1].is_ascii_digit() {
            page[at - 1] = b'x';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 0x6b04_fbf3;

    fn same(a: &str, b: &str, selectors: &[&str]) -> bool {
        is_same(a.as_bytes(), b.as_bytes(), selectors, NOW)
    }

    #[test]
    fn ids_made_of_the_time_may_differ() {
        let page = |id: &str| format!("<label for=\"quantity_{id}\">");
        assert!(same(&page("6b04fbf39cec1"), &page("6b04fbf6b9554"), &[]));
        for (one, other) in [
            ("4006381333931", "4006381333932"),
            ("6b04fbf39cec", "6b04fbf39ced"),
            ("6b04fbf39cec1a", "6b04fbf39cec1b"),
        ] {
            assert!(!same(&page(one), &page(other), &[]), "{one}");
        }
    }

    #[test]
    fn prefetched_resources_may_differ() {
        let page =
            |hints: &str| format!("<head>\n{hints}<link rel='stylesheet' href='/a.css' />\n</head><b>x</b>");
        let hint = "<link href='/checkout.js?ver=1' as='script' rel='prefetch' />\n";
        assert!(same(&page(""), &page(&hint.repeat(3)), &[]) && same(&page(hint), &page(""), &["#x"]));
        for other in [
            "<link href='/b.css' rel='stylesheet' />\n",
            "<link href='/b.js' rel='preload' />\n",
            "<a rel='prefetch'>b</a>",
        ] {
            assert!(!same(&page(""), &page(other), &[]), "{other}");
        }
        assert!(!same("<script>'<link rel=prefetch>'</script>", "<script>''</script>", &[]), "in a script");
    }

    #[test]
    fn only_named_elements_may_differ() {
        let page = |cart: &str, rest: &str| {
            format!(
                "<body><a class='x cart-contents' href=/>{cart}</a><p>{rest}</p><script>'<a class=\"cart-contents\">'</script>"
            )
        };
        let cart = &["a.cart-contents"][..];
        assert!(same(&page("0", "a"), &page("<a href=y>3</a> items", "a"), cart));
        assert!(!same(&page("0", "a"), &page("3", "a"), &[]), "no script fills it");
        assert!(!same(
            &page("0", "a"),
            &page("3", "a"),
            &["a.cart", "div.cart-contents", ".x .cart-contents"]
        ));
        assert!(!same(&page("0", "a"), &page("3", "b"), cart), "more differs");
        assert!(!same(&page("0", "a"), "<body><p>a</p>", cart), "it is missing");
        assert!(same(&page("0", "a"), &page("3", "a"), &["#a, a.x.cart-contents"]));
    }

    #[test]
    fn an_element_ends_at_its_own_end_tag() {
        let page =
            |inner: &str, rest: &str| format!("<div><div id=\"cart\" data-a='>'>{inner}</div>{rest}</div>");
        assert!(same(
            &page("", "x"),
            &page("<DIV><div>a</div><!-- </div> --></DIV><img>", "x"),
            &["div#cart"]
        ));
        assert!(!same(&page("", "x"), &page("<div></div>", "y"), &["div#cart"]));
        // One that never ends takes the rest with it, on both pages or on none.
        assert!(!same(&page("", "x"), &page("<div>", "x"), &["#cart"]));
        assert!(same("<input class=a value=1>x", "<input class=\"a\" value=2>x", &["input.a"]));
    }

    #[test]
    fn nonces_may_differ_and_nothing_else_of_that_length() {
        assert!(same("\"nonce\":\"0123456789\"", "\"nonce\":\"abcdef0123\"", &[]));
        assert!(same("_wpnonce=0123456789&a=1", "_wpnonce=abcdef0123&a=1", &[]));
        assert!(same(
            "name=\"a-nonce\" value=\"0123456789\" />",
            "name=\"a-nonce\" value=\"abcdef0123\" />",
            &[]
        ));
        assert!(!same("price 0123456789", "price abcdef0123", &[]));
        assert!(!same("nonce 01234567890", "nonce abcdef01230", &[]), "eleven digits");
        assert!(
            !same("nonce 0123456789, 1234567890", "nonce 0123456789, 2234567890", &[]),
            "the second number"
        );
    }

    #[test]
    fn without_times_a_nonce_is_still_there() {
        let same = |one: &str, other: &str| {
            without_times(one.as_bytes(), NOW) == without_times(other.as_bytes(), NOW)
        };
        assert!(same("id=6b04fbf39cec1 //0.gravatar.com/a", "id=6b04fbf6b9554 //2.gravatar.com/a"));
        assert!(!same("\"nonce\":\"0123456789\"", "\"nonce\":\"abcdef0123\""));
        assert_eq!(without_times(b"id=6b04fbf39cec1", NOW).len(), 16);
    }

    #[test]
    fn the_number_of_gravatars_host_may_differ() {
        assert!(same("//0.gravatar.com/a", "//2.gravatar.com/a", &[]));
        assert!(!same("//0.gravatar.com/a", "//0.gravatar.com/b", &[]));
    }

    #[test]
    fn torn_pages_are_compared_as_they_are() {
        for torn in [
            "<",
            "<a",
            "<a class=\"",
            "<!-- ",
            "</",
            "<a class=cart",
            "<script>",
            "nonce",
            "<div class='c'",
            "<a =\"x\" =>",
        ] {
            assert!(same(torn, torn, &[".cart"]));
            assert!(!same(torn, &format!("{torn}!"), &[".cart"]), "{torn}");
            blanked(torn.as_bytes(), &[Selector::parse(".cart").unwrap()], NOW);
        }
    }

    #[test]
    fn selectors() {
        for not in ["", "a", "a.b c", "a > .b", "[x]", "a.", ".b:not(.c)", "*", "#"] {
            assert_eq!(Selector::parse(not), None, "{not}");
        }
        let known = Selector::parse(" div.a-b.c_d#e ").unwrap();
        assert_eq!((known.tag, known.id, known.classes), ("div", Some("e"), vec!["a-b", "c_d"]));
    }
}
