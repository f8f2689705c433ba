//! The tags of an HTML document, as far as a page's parts need them (HTML Living Standard, 13.2.5).
//!
//! Comments, scripts and other raw text, and `noscript`, `template` and the like are skipped: a browser fetches
//! nothing from there. Reads once over the text, whatever it contains.

use super::entities::decode;
use crate::url::is_html_space;

/// The most attributes of a tag that are read.
const MOST_ATTRIBUTES: usize = 64;

/// A tag.
#[derive(Debug, PartialEq, Eq)]
pub enum Tag<'a> {
    /// `<name attribute=value>`
    Open {
        /// In lower case.
        name: String,
        /// Names in lower case, values with their entities resolved; the first of a name counts.
        attributes: Attributes,
        /// The raw text up to its end; only for `style`.
        text: &'a str,
    },
    /// `</name>`, in lower case
    Close(String),
}

/// The attributes of a tag.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Attributes(Vec<(String, String)>);

impl Attributes {
    /// The value of the first attribute `name`; empty if it has none.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Whether it exists.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether one of the words of `name` is `word`, in any case.
    pub fn has_word(&self, name: &str, word: &str) -> bool {
        self.get(name).is_some_and(|words| words.split(is_html_space).any(|w| w.eq_ignore_ascii_case(word)))
    }
}

/// All tags of a document, in their order.
pub struct Tags<'a> {
    rest: &'a str,
}

impl<'a> Tags<'a> {
    /// The tags of `html`.
    pub fn of(html: &'a str) -> Tags<'a> {
        Tags { rest: html }
    }
}

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        loop {
            let tag = &self.rest[self.rest.find('<')? + 1..];
            let mut characters = tag.chars();
            match characters.next() {
                Some(c) if c.is_ascii_alphabetic() => {
                    let (name, attributes) = self.read_open(tag);
                    match self.content_of(&name) {
                        TagContent::Tags => return Some(Tag::Open { name, attributes, text: "" }),
                        TagContent::Style(text) => return Some(Tag::Open { name, attributes, text }),
                        TagContent::Raw => return Some(Tag::Open { name, attributes, text: "" }),
                        TagContent::Nothing => {}
                    }
                }
                Some('/') if characters.next().is_some_and(|c| c.is_ascii_alphabetic()) => {
                    let name = name_at(&tag[1..]).to_ascii_lowercase();
                    self.rest = after(tag, ">");
                    return Some(Tag::Close(name));
                }
                Some('!' | '?' | '/') => self.rest = after_declaration(tag),
                _ => self.rest = tag,
            }
        }
    }
}

/// The part after a tag.
enum TagContent<'a> {
    /// More tags.
    Tags,
    /// A style sheet.
    Style(&'a str),
    /// Text that is of no use here; passed over.
    Raw,
    /// The element as a whole is none that a browser takes anything from; passed over.
    Nothing,
}

impl<'a> Tags<'a> {
    /// Reads a tag from its name on.
    fn read_open(&mut self, tag: &'a str) -> (String, Attributes) {
        let name = name_at(tag);
        let mut rest = &tag[name.len()..];
        let mut attributes = Attributes::default();
        loop {
            rest = rest.trim_start_matches(|c| is_html_space(c) || c == '/');
            if let Some(end) = rest.strip_prefix('>') {
                self.rest = end;
                break;
            }
            if rest.is_empty() {
                self.rest = rest;
                break;
            }
            let (attribute, value, left) = attribute(rest);
            rest = left;
            if attributes.0.len() < MOST_ATTRIBUTES && !attributes.has(&attribute) {
                attributes.0.push((attribute, value));
            }
        }
        (name.to_ascii_lowercase(), attributes)
    }

    /// Skips an element's content if it isn't tags.
    fn content_of(&mut self, name: &str) -> TagContent<'a> {
        match name {
            "style" => TagContent::Style(self.take_raw(name)),
            "script" | "textarea" | "title" | "xmp" => {
                self.take_raw(name);
                TagContent::Raw
            }
            "noscript" | "iframe" | "noembed" | "noframes" => {
                self.take_raw(name);
                TagContent::Nothing
            }
            "plaintext" => {
                self.rest = "";
                TagContent::Nothing
            }
            "template" => {
                self.skip_template();
                TagContent::Nothing
            }
            _ => TagContent::Tags,
        }
    }

    /// The text up to `</name`, which is passed over, too.
    fn take_raw(&mut self, name: &str) -> &'a str {
        let text = self.rest;
        let mut from = 0;
        while let Some(at) = text[from..].find("</").map(|at| from + at) {
            let end = &text[at + 2..];
            let named = end.get(..name.len()).is_some_and(|n| n.eq_ignore_ascii_case(name));
            if named && end[name.len()..].starts_with(|c| is_html_space(c) || c == '/' || c == '>') {
                self.rest = after(end, ">");
                return &text[..at];
            }
            from = at + 2;
        }
        self.rest = "";
        text
    }

    /// Templates may stand in each other; nothing else matters in them.
    fn skip_template(&mut self) {
        let mut depth = 1;
        while depth > 0 {
            let Some(at) = self.rest.find('<') else {
                self.rest = "";
                return;
            };
            let tag = &self.rest[at + 1..];
            let is = |text: &str| name_at(text).eq_ignore_ascii_case("template");
            self.rest = match tag.as_bytes().first() {
                Some(b'!') => after_declaration(tag),
                Some(b'/') if is(&tag[1..]) => {
                    depth -= 1;
                    after(tag, ">")
                }
                _ if is(tag) => {
                    depth += 1;
                    after(tag, ">")
                }
                _ => tag,
            };
        }
    }
}

/// The name that a tag begins with.
fn name_at(tag: &str) -> &str {
    &tag[..tag.find(|c| is_html_space(c) || c == '/' || c == '>').unwrap_or(tag.len())]
}

/// One attribute, and the rest.
fn attribute(text: &str) -> (String, String, &str) {
    // A `=` at the very beginning belongs to the name, so that something is always taken.
    let start = text.chars().next().map_or(0, char::len_utf8);
    let ends = |c| is_html_space(c) || matches!(c, '/' | '>' | '=');
    let end = text[start..].find(ends).map_or(text.len(), |at| start + at);
    let name = text[..end].to_ascii_lowercase();
    let rest = text[end..].trim_start_matches(is_html_space);
    let Some(value) = rest.strip_prefix('=') else { return (name, String::new(), rest) };
    let value = value.trim_start_matches(is_html_space);
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    match quote {
        Some(quote) => {
            let (inside, rest) = value[1..].split_once(quote).unwrap_or((&value[1..], ""));
            (name, decode(inside), rest)
        }
        None => {
            let end = value.find(|c| is_html_space(c) || c == '>').unwrap_or(value.len());
            (name, decode(&value[..end]), &value[end..])
        }
    }
}

/// The text after a comment, a DOCTYPE, CDATA or similar; `text` begins after its `<`.
fn after_declaration(text: &str) -> &str {
    match text.strip_prefix("!--") {
        // `<!-->` and `<!--->` are whole comments.
        Some(comment) if comment.starts_with('>') => &comment[1..],
        Some(comment) if comment.starts_with("->") => &comment[2..],
        Some(comment) => after_comment(comment),
        None => after(text, ">"),
    }
}

/// It ends with `-->` or `--!>`, whichever comes first.
fn after_comment(comment: &str) -> &str {
    let ends = |at: &usize| comment[..*at].ends_with("--") || comment[..*at].ends_with("--!");
    memchr::memchr_iter(b'>', comment.as_bytes()).find(ends).map_or("", |at| &comment[at + 1..])
}

fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.find(end).map_or("", |at| &text[at + end.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `name` of opened tags, `/name` of closed ones.
    fn names(html: &str) -> Vec<String> {
        let name = |tag| match tag {
            Tag::Open { name, .. } => name,
            Tag::Close(name) => format!("/{name}"),
        };
        Tags::of(html).map(name).collect()
    }

    fn attributes(html: &str) -> Vec<(String, String)> {
        match Tags::of(html).next() {
            Some(Tag::Open { attributes, .. }) => attributes.0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn attributes_in_every_form() {
        let all = attributes("<IMG SRC=a.png alt = 'x>y' data-x=\"1&amp;2\"hidden/width=3 SRC=b title>");
        let expected = [
            ("src", "a.png"),
            ("alt", "x>y"),
            ("data-x", "1&2"),
            ("hidden", ""),
            ("width", "3"),
            ("title", ""),
        ];
        assert_eq!(all, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert_eq!(attributes("<a href=/x/>"), [("href".to_owned(), "/x/".to_owned())]);
        assert_eq!(attributes("<a =b>"), [("=b".to_owned(), String::new())]);
        assert_eq!(attributes("<a b=\"c"), [("b".to_owned(), "c".to_owned())]);
    }

    #[test]
    fn what_is_no_tag() {
        assert_eq!(names("1 < 2 <> </> <!doctype html><?xml <a?><p>a<b"), ["p", "b"]);
        assert_eq!(names("<!-- <a> --><!--><b><!---><c><!-- --!><d><!-- <e>"), ["b", "c", "d"]);
        assert_eq!(names("<![CDATA[<a>]]>"), [""; 0]);
    }

    #[test]
    fn raw_text_and_what_is_left_out() {
        let html = "<script>if (a<b) '<img src=x>'</script ><title><b></title><textarea><i></textarea>\
                    <noscript><img></noscript><iframe><img></iframe><p>";
        assert_eq!(names(html), ["script", "title", "textarea", "p"]);
        let Some(Tag::Open { text, .. }) = Tags::of("<style>a > b {}</styles></STYLE><p>").next() else {
            panic!()
        };
        assert_eq!(text, "a > b {}</styles>");
        assert_eq!(names("<template><img><template><b></template><i></TEMPLATE><p>"), ["p"]);
        assert_eq!(names("<template><!-- </template> --><b></template><p>"), ["p"]);
        assert_eq!(names("<template><p>"), [""; 0]);
    }

    #[test]
    fn a_long_document_is_read_once() {
        let quotes = "<a b='".repeat(100_000);
        assert!(Tags::of(&quotes).count() < 100_001);
        assert_eq!(Tags::of(&"<".repeat(1_000_000)).count(), 0);
        let comments = "<!--".repeat(200_000);
        assert_eq!(Tags::of(&comments).count(), 0);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(html in "(<|>|/|=|!|-|\"|'|&|;|a|é| |style|script|template|\\n){0,60}") {
            for tag in Tags::of(&html) {
                if let Tag::Open { name, .. } = tag {
                    prop_assert!(!name.is_empty());
                }
            }
        }
    }
}
