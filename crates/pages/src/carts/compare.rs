//! Compares a page made for a visitor with a cart with the public page, token by token as a browser reads them ([`super::html`]). Left out are
//!
//! - the elements that a script in the browser replaces, named by simple selectors: `div.widget_shopping_cart_content`, `#cart`, `a.cart-contents`;
//! - WordPress's nonces, ten hexadecimal digits behind the word "nonce" in the same tag or text, which change every twelve hours;
//! - what PHP's `uniqid()` has made of the time within the last days, 13 hexadecimal digits;
//! - the number of Gravatar's host, which WordPress chooses at random;
//! - `<link rel="prefetch">`, by which WooCommerce has the browser load the scripts of the checkout early if there is something in the cart
//!   (`AssetsController::add_resource_hints()`): it shows nothing.
//!
//! What WooCommerce's blocks fill in is left out by [`super::interactive`], if the browser is known to fetch the cart.
//!
//! A selector that is not understood leaves nothing out, an element that is only on one of the pages is a difference, and so is
//! everything on a page that is not clear: every doubt makes the pages differ.

use super::html::{StartTag, Text, Token, end_of, tokens};
use super::interactive;

/// What a comparison has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sameness {
    /// The pages are the same.
    Same,
    /// They are, if the visitor's browser fetches the cart when it shows the page.
    IfFetched,
    /// They differ.
    Differs,
}

/// How a page is compared.
#[derive(Clone, Copy, Debug)]
pub struct Lens<'a> {
    /// What a script in the browser replaces.
    pub selectors: &'a [&'a str],
    /// What directives fill in is left out, too.
    pub fills: bool,
    /// Seconds since 1970.
    pub now: u64,
}

/// A page as it is compared: tags, texts, comments and what was left out, in their order. `None`: it is not clear.
pub fn pieces(page: &[u8], lens: Lens<'_>) -> Option<Vec<Text>> {
    let selectors = lens.selectors.iter().flat_map(|list| list.split(','));
    let selectors: Vec<Selector<'_>> = selectors.filter_map(Selector::parse).collect();
    let mut tokens = tokens(page)?;
    if lens.fills {
        tokens = interactive::without_cart(tokens);
    }
    let mut pieces = without(&tokens, &selectors);
    for piece in &mut pieces {
        blank_nonces(piece);
        blank_times(piece, lens.now);
        blank_gravatars(piece);
    }
    Some(pieces)
}

/// Whether two pages are the same, but for the elements that these selectors name. `now`: seconds since 1970.
pub fn compare(public: &[u8], own: &[u8], selectors: &[&str], now: u64) -> Sameness {
    let is_same = |fills| {
        let lens = Lens { selectors, fills, now };
        pieces(public, lens).is_some_and(|public| pieces(own, lens) == Some(public))
    };
    if public == own || is_same(false) {
        Sameness::Same
    } else if is_same(true) {
        Sameness::IfFetched
    } else {
        Sameness::Differs
    }
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

    fn matches(&self, tag: &StartTag) -> bool {
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

/// The pieces of a page without what these selectors name, and what is prefetched.
fn without(tokens: &[Token], selectors: &[Selector<'_>]) -> Vec<Text> {
    let mut pieces: Vec<Vec<u8>> = Vec::with_capacity(tokens.len());
    let (mut at, mut is_behind_hint) = (0, false);
    while let Some(token) = tokens.get(at) {
        let was_behind_hint = std::mem::take(&mut is_behind_hint);
        at += 1;
        match token {
            Token::Start(tag) if *tag.name == *b"link" && tag.attribute("rel") == Some(b"prefetch") => {
                is_behind_hint = true;
            }
            Token::Start(tag) if selectors.iter().any(|selector| selector.matches(tag)) => {
                match end_of(tokens, at - 1) {
                    Some(end) => {
                        pieces.push([b"_", &*tag.name].concat());
                        at = end;
                    }
                    None => pieces.push(piece(token)),
                }
            }
            Token::Text(text) => {
                // WordPress puts each of these tags on a line of its own.
                let text = if was_behind_hint { text.strip_prefix(b"\n").unwrap_or(text) } else { text };
                match pieces.last_mut().filter(|last| last[0] == TEXT) {
                    Some(last) => last.extend_from_slice(text),
                    None if text.is_empty() => {}
                    None => pieces.push([&[TEXT], text].concat()),
                }
            }
            _ => pieces.push(piece(token)),
        }
    }
    pieces.into_iter().map(Vec::into_boxed_slice).collect()
}

/// How the piece of a text begins.
pub(super) const TEXT: u8 = b't';
/// How the piece of a start tag begins; of an element without content, of an end tag.
pub(super) const START: u8 = b'<';
pub(super) const EMPTY: u8 = b'-';
pub(super) const END: u8 = b'/';

/// A token as bytes. Different tokens have different bytes, because attributes contain no zero byte.
fn piece(token: &Token) -> Vec<u8> {
    match token {
        Token::Start(tag) => {
            let mut piece = vec![if tag.is_empty { EMPTY } else { START }];
            piece.extend_from_slice(&tag.name);
            for (name, value) in &tag.attributes {
                piece.push(0);
                piece.extend_from_slice(name);
                piece.push(0);
                piece.extend_from_slice(value);
            }
            piece
        }
        Token::End(name) => [&[END], &**name].concat(),
        Token::Text(text) => [&[TEXT], &**text].concat(),
        Token::Comment(text) => [b"!", &**text].concat(),
        Token::Doctype(text) => [b"d", &**text].concat(),
    }
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
        compare(a.as_bytes(), b.as_bytes(), selectors, NOW) == Sameness::Same
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
        assert!(same(&page("0", "a"), &page("<b title=y>3</b> items", "a"), cart));
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
        // One that does not end where its tags say so is compared.
        for inner in [
            "<div>",
            "</p>",
            "<p><div></div></p>",
            "<li><li></li></li>",
            "<table>b<tr></tr></table>",
            "<a><a></a></a>",
        ] {
            assert!(!same(&page("", "x"), &page(inner, "x"), &["#cart"]), "{inner}");
            assert!(same(&page(inner, "x"), &page(inner, "x"), &["#cart"]), "{inner}");
        }
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
            "<b",
            "<a class=\"",
            "<!-- ",
            "</b",
            "<a class=cart",
            "<script>",
            "nonce",
            "<div class='c'",
            "<a =\"x\" =>",
            "&am",
        ] {
            assert!(same(torn, torn, &[".cart"]));
            for other in [format!("{torn}!>-->x"), format!("{torn}\"'>x</script>y")] {
                assert!(!same(torn, &other, &[".cart"]), "{torn}");
            }
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
