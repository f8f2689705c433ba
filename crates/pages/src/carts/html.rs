//! A page as the tokens that a browser makes of it. The tokenizer of the HTML standard is html5gum's. What it leaves to the construction of the
//! tree is here: behind which tags text follows (`<script>`, `<title>`), and where a page is in SVG or MathML, in which tags and CDATA
//! mean something else.
//!
//! Where that would need the whole tree - tags in SVG that end it, text elements in `<select>`, framesets - the page has no tokens, and so
//! nothing in it is left out of a comparison. For the same reason an element ends only where its tags are nested as they are written
//! ([`end_of`]): a browser corrects everything else, and what we take for its content may be behind it.

use html5gum::emitters::callback::{Callback, CallbackEmitter, CallbackEvent};
use html5gum::emitters::{Emitter, ForwardingEmitter};
use html5gum::{Error, Span, State, Tokenizer};

/// Text of a page, as a browser sees it: with character references replaced, names in lower case.
pub type Text = Box<[u8]>;

/// What a browser's tokenizer takes as one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A start tag.
    Start(StartTag),
    /// An end tag.
    End(Text),
    /// Text between tags, or in an element that has only text.
    Text(Text),
    /// A comment.
    Comment(Text),
    /// The document type.
    Doctype(Text),
}

/// A start tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartTag {
    /// Its name.
    pub name: Text,
    /// Names and values as written; of several with the same name only the first one is there.
    pub attributes: Vec<(Text, Text)>,
    /// The element has neither content nor an end tag.
    pub is_empty: bool,
    /// It is one of SVG or MathML.
    pub is_foreign: bool,
}

impl StartTag {
    /// The value of an attribute; empty if it has none.
    pub fn attribute(&self, wanted: &str) -> Option<&[u8]> {
        let found = self.attributes.iter().find(|(name, _)| **name == *wanted.as_bytes());
        found.map(|(_, value)| &**value)
    }
}

/// The tokens of a page. `None`: it is unclear what a browser makes of it.
pub fn tokens(page: &[u8]) -> Option<Vec<Token>> {
    let emitter = PageEmitter(CallbackEmitter::new(PageReader::default()));
    let mut tokens = Vec::new();
    for token in Tokenizer::new_with_emitter(page, emitter) {
        let Ok(token) = token;
        tokens.push(token?);
    }
    Some(tokens)
}

/// html5gum's emitter, told how the tokenizer has to go on behind each tag.
struct PageEmitter(CallbackEmitter<PageReader, Option<Token>>);

impl ForwardingEmitter for PageEmitter {
    type Token = Option<Token>;

    fn inner(&mut self) -> &mut impl Emitter<Token = Option<Token>> {
        &mut self.0
    }

    fn emit_current_tag(&mut self) -> Option<State> {
        let next = self.0.emit_current_tag();
        debug_assert!(next.is_none(), "it switches by itself");
        self.0.callback_mut().next.take()
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&mut self) -> bool {
        self.0.callback_mut().open.last().is_some_and(|element| !element.is_html)
    }
}

/// Makes tokens of html5gum's events.
#[derive(Debug, Default)]
struct PageReader {
    /// The start tag that is being read.
    tag: Option<StartTag>,
    /// The attribute that is being read is the first one of its name.
    is_new: bool,
    /// How the tokenizer goes on behind the tag.
    next: Option<State>,
    /// Open elements from the outermost `<svg>` or `<math>` on.
    open: Vec<OpenElement>,
    /// Number of open `<select>` elements.
    selects: usize,
    is_unclear: bool,
}

#[derive(Debug)]
struct OpenElement {
    name: Text,
    /// It is HTML inside of SVG or MathML.
    is_html: bool,
}

impl Callback<Option<Token>, ()> for PageReader {
    fn handle_event(&mut self, event: CallbackEvent<'_>, _: Span<()>) -> Option<Option<Token>> {
        let token = match event {
            CallbackEvent::OpenStartTag { name } => {
                self.tag = Some(StartTag { name: name.into(), ..StartTag::default() });
                return None;
            }
            // An end tag has no attributes, whatever is written there.
            CallbackEvent::AttributeName { name } => {
                let tag = self.tag.as_mut()?;
                self.is_new = tag.attributes.iter().all(|(known, _)| **known != *name);
                if self.is_new {
                    tag.attributes.push((name.into(), Text::default()));
                }
                return None;
            }
            CallbackEvent::AttributeValue { value } => {
                let attribute = self.tag.as_mut()?.attributes.last_mut().filter(|_| self.is_new)?;
                attribute.1 = value.into();
                return None;
            }
            CallbackEvent::CloseStartTag { self_closing } => {
                let mut tag = self.tag.take()?;
                self.opens(&mut tag, self_closing);
                Token::Start(tag)
            }
            CallbackEvent::EndTag { name } => {
                self.tag = None;
                self.closes(name);
                Token::End(name.into())
            }
            CallbackEvent::String { value } => Token::Text(value.into()),
            CallbackEvent::Comment { value } => Token::Comment(value.into()),
            CallbackEvent::Doctype { name, public_identifier, system_identifier, force_quirks } => {
                let [public, system] = [public_identifier, system_identifier].map(Option::unwrap_or_default);
                let quirks = [u8::from(force_quirks) + b'0'];
                Token::Doctype([name, public, system, &quirks].join(&0).into())
            }
            // A browser drops a tag that does not end; what is in it would not be compared.
            CallbackEvent::Error(Error::EofInTag) => return Some(None),
            CallbackEvent::Error(_) => return None,
        };
        Some(Some(token).filter(|_| !self.is_unclear))
    }
}

/// Elements with a language of their own.
const FOREIGN: [&[u8]; 2] = [b"svg", b"math"];

/// Elements of HTML without content.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
];

/// Tags that end SVG and MathML, wherever they are in it.
const BREAK_OUT: [&str; 44] = [
    "b",
    "big",
    "blockquote",
    "body",
    "br",
    "center",
    "code",
    "dd",
    "div",
    "dl",
    "dt",
    "em",
    "embed",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "hr",
    "i",
    "img",
    "li",
    "listing",
    "menu",
    "meta",
    "nobr",
    "ol",
    "p",
    "pre",
    "ruby",
    "s",
    "small",
    "span",
    "strong",
    "strike",
    "sub",
    "sup",
    "table",
    "tt",
    "u",
    "ul",
    "var",
];

impl PageReader {
    /// A start tag has come.
    fn opens(&mut self, tag: &mut StartTag, self_closing: bool) {
        let name = &*tag.name;
        let is_root = FOREIGN.contains(&name);
        let is_html = !is_root && self.open.last().is_none_or(|top| self.has_html(top));
        tag.is_foreign = !is_html;
        tag.is_empty = if is_html { is(name, &VOID) } else { self_closing };
        if is_html {
            self.next = self.text_behind(name);
            self.selects += usize::from(name == b"select");
            self.is_unclear |= name == b"frameset" || name == b"plaintext";
        } else {
            let other_root = is_root && self.open.first().is_some_and(|root| *root.name != *name);
            self.is_unclear |= other_root || name == b"font" || is(name, &BREAK_OUT);
        }
        let is_followed = !is_html || !self.open.is_empty();
        if is_followed && !tag.is_empty {
            self.open.push(OpenElement { name: name.into(), is_html });
        }
    }

    /// Whether elements in this one, in SVG or MathML, are HTML.
    fn has_html(&self, element: &OpenElement) -> bool {
        let is_svg = self.open.first().is_some_and(|root| *root.name == *b"svg");
        let points: &[&str] =
            if is_svg { &["foreignobject", "desc", "title"] } else { &["mi", "mo", "mn", "ms", "mtext"] };
        element.is_html || is(&element.name, points)
    }

    /// An end tag has come. In SVG and MathML it ends what is open in its element, too.
    fn closes(&mut self, name: &[u8]) {
        let is_inner = |element: &&OpenElement| !element.is_html && *element.name != *name;
        let inner = self.open.iter().rev().take_while(is_inner).count();
        let ended = self.open.len() - inner;
        match self.open[..ended].last() {
            Some(element) if *element.name == *name => self.open.truncate(ended - 1),
            // The browser looks for the element that it may mean.
            _ if !self.open.is_empty() => self.is_unclear = true,
            _ => self.selects = self.selects.saturating_sub(usize::from(name == b"select")),
        }
    }

    /// How the tokenizer goes on behind a start tag of HTML.
    fn text_behind(&mut self, name: &[u8]) -> Option<State> {
        let state = match name {
            b"textarea" => return Some(State::RcData),
            b"script" => return Some(State::ScriptData),
            b"title" => State::RcData,
            // A shopper's browser runs scripts.
            b"style" | b"xmp" | b"iframe" | b"noembed" | b"noframes" | b"noscript" => State::RawText,
            _ => return None,
        };
        // Browsers disagree whether such an element can be in there.
        self.is_unclear |= self.selects > 0;
        Some(state)
    }
}

fn is(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|known| known.as_bytes() == name)
}

/// Where the element ends that begins with the start tag at `at`: behind its end tag. `None`: nowhere, or a browser corrects how its tags are
/// nested.
pub fn end_of(tokens: &[Token], at: usize) -> Option<usize> {
    let mut open: Vec<&StartTag> = Vec::new();
    for (token, end) in tokens.get(at..)?.iter().zip(at + 1..) {
        match token {
            Token::Start(tag) => {
                if !tag.is_foreign && !may_be_in(&tag.name, &open) {
                    return None;
                }
                if !tag.is_empty {
                    open.push(tag);
                }
            }
            Token::End(name) => {
                while open.last().is_some_and(|top| top.is_foreign && top.name != *name) {
                    open.pop();
                }
                open.pop().filter(|top| top.name == *name)?;
            }
            // Text in a table, and not in its cells, is put before it.
            Token::Text(text)
                if !text.trim_ascii().is_empty() && open.last().is_some_and(|top| is(&top.name, &TABLE)) =>
            {
                return None;
            }
            _ => {}
        }
        if open.is_empty() {
            return Some(end);
        }
    }
    None
}

/// Parts of a table that are not cells.
const TABLE: [&str; 5] = ["table", "thead", "tbody", "tfoot", "tr"];

/// What ends a paragraph.
const BLOCKS: [&str; 43] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "center",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "hr",
    "li",
    "listing",
    "main",
    "menu",
    "nav",
    "ol",
    "p",
    "plaintext",
    "pre",
    "search",
    "section",
    "select",
    "summary",
    "table",
    "textarea",
    "ul",
    "xmp",
];

/// Elements that end one of the same name around them.
const NOT_IN_ITSELF: [&str; 4] = ["a", "button", "form", "nobr"];

const HEADINGS: [&str; 6] = ["h1", "h2", "h3", "h4", "h5", "h6"];

/// Whether a browser leaves a tag of HTML where it is: in the innermost of the `open` elements.
fn may_be_in(name: &[u8], open: &[&StartTag]) -> bool {
    let Some(top) = open.last().map(|tag| &*tag.name) else { return true };
    let has = |name: &[u8]| open.iter().any(|tag| *tag.name == *name);
    let parents: &[&str] = match name {
        b"li" => &["ul", "ol", "menu"],
        b"dt" | b"dd" => &["dl", "div"],
        b"caption" | b"colgroup" | b"thead" | b"tbody" | b"tfoot" => &["table"],
        b"col" => &["colgroup"],
        b"tr" => &["table", "thead", "tbody", "tfoot"],
        b"td" | b"th" => &["tr"],
        b"option" => &["select", "optgroup", "datalist"],
        b"optgroup" => &["select"],
        b"html" | b"head" | b"body" | b"frame" | b"frameset" => return false,
        b"script" | b"template" => return true,
        _ if is(top, &TABLE) || is(top, &["colgroup", "select", "optgroup", "option"]) => return false,
        _ => &[],
    };
    (parents.is_empty() || is(top, parents) || top == b"template")
        && !(is(name, &NOT_IN_ITSELF) && has(name))
        && !(is(name, &HEADINGS) && is(top, &HEADINGS))
        && !(is(name, &BLOCKS) && has(b"p"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::super::compare::{Sameness, compare};
    use super::*;

    fn start(name: &str, attributes: &[(&str, &str)], is_empty: bool) -> Token {
        let is_foreign = matches!(name, "svg" | "path");
        let attributes =
            attributes.iter().map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into()));
        Token::Start(StartTag {
            name: name.as_bytes().into(),
            attributes: attributes.collect(),
            is_empty,
            is_foreign,
        })
    }

    fn text(text: &str) -> Token {
        Token::Text(text.as_bytes().into())
    }

    fn end(name: &str) -> Token {
        Token::End(name.as_bytes().into())
    }

    /// A part of a page, and the tokens that it is.
    type Part = (String, Vec<Token>);

    /// What looks like markup, and is text where it stands.
    fn markup() -> impl Strategy<Value = &'static str> {
        select(
            &[
                "<b class=cart>",
                "</b>",
                "<!-- x",
                "<div id='a>",
                "a < b",
                "</ script",
                "<![CDATA[",
                "]]>",
                "\"'>",
                "x",
                "",
            ][..],
        )
    }

    /// An attribute, however it is quoted.
    fn attribute() -> impl Strategy<Value = (String, (&'static str, String))> {
        let name = select(&["class", "id", "data-a", "title"][..]);
        (name, markup(), 0..4).prop_map(|(name, value, way)| match way {
            0 if !value.contains('"') => {
                (format!(" {}=\"{value}\"", name.to_uppercase()), (name, value.into()))
            }
            1 if !value.contains('\'') => (format!("\n{name} = '{value}' "), (name, value.into())),
            2 => (format!("/{name}=a&amp;b'c "), (name, "a&b'c".into())),
            _ => (format!("\t{name} "), (name, String::new())),
        })
    }

    fn part() -> impl Strategy<Value = Part> {
        let tag = (select(&["div", "b", "x-y", "br", "img"][..]), prop::collection::vec(attribute(), 0..4))
            .prop_map(|(name, list)| {
                let mut known: Vec<(&str, &str)> = Vec::new();
                for (_, (name, value)) in &list {
                    if known.iter().all(|(other, _)| other != name) {
                        known.push((name, value));
                    }
                }
                let written: String = list.iter().map(|(written, _)| &**written).collect();
                (format!("<{name}{written}>"), vec![start(name, &known, matches!(name, "br" | "img"))])
            });
        let raw =
            (select(&["script", "style", "TEXTAREA", "title", "iframe", "noscript"][..]), markup(), markup())
                .prop_map(|(name, one, other)| {
                    let (content, name_lower) = (format!("{one}.{other}"), name.to_lowercase());
                    // What is behind "<!--" in a script is text up to the script's end, too.
                    (
                        format!("<{name}>{content}</{name_lower} >"),
                        vec![start(&name_lower, &[], false), text(&content), end(&name_lower)],
                    )
                });
        let comment = (markup(), 0..3).prop_map(|(inner, way)| {
            let inner = inner.replace('>', "").replace("--", "");
            match way {
                0 => (
                    format!("<!--{inner}<b>-->"),
                    vec![Token::Comment(format!("{inner}<b>").into_bytes().into())],
                ),
                1 => (format!("<!{inner}x>"), vec![Token::Comment(format!("{inner}x").into_bytes().into())]),
                _ => (format!("<?{inner}>"), vec![Token::Comment(format!("?{inner}").into_bytes().into())]),
            }
        });
        let foreign = markup().prop_map(|inner| {
            let inner = inner.replace("]]>", "");
            let tokens = vec![
                start("svg", &[], false),
                start("path", &[], true),
                text(&format!("{inner}<b>&amp;")),
                end("svg"),
            ];
            (format!("<svg><path /><![CDATA[{inner}<b>&amp;]]></svg>"), tokens)
        });
        let plain = select(&["a &lt; b", "\n", "<1>", "x & y"][..])
            .prop_map(|written| (written.to_owned(), vec![text(&written.replace("&lt;", "<"))]));
        let ends =
            select(&["div", "b", "p"][..]).prop_map(|name| (format!("</{name} class=x>"), vec![end(name)]));
        prop_oneof![3 => tag, 3 => raw, 2 => comment, 1 => foreign, 1 => plain, 1 => ends]
    }

    fn page(parts: &[Part]) -> (String, Vec<Token>) {
        let mut tokens: Vec<Token> = Vec::new();
        for token in parts.iter().flat_map(|(_, tokens)| tokens) {
            match (tokens.last_mut(), token) {
                (Some(Token::Text(last)), Token::Text(more)) => *last = [&**last, &**more].concat().into(),
                _ => tokens.push(token.clone()),
            }
        }
        (parts.iter().map(|(written, _)| &**written).collect(), tokens)
    }

    proptest! {
        #[test]
        fn a_page_is_what_a_browser_reads(parts in prop::collection::vec(part(), 0..12)) {
            let (written, expected) = page(&parts);
            prop_assert_eq!(tokens(written.as_bytes()), Some(expected), "{}", written);
        }

        /// The cart's element is left out where it is an element, and is text where it stands in a script, a comment or an attribute.
        #[test]
        fn only_an_element_is_left_out(parts in prop::collection::vec(part(), 0..8), at in any::<prop::sample::Index>(), around in 0..6_usize) {
            let cart = |count: u32| format!("<i class=\"own-cart\">{count}</i>");
            let (before, behind) = [("", ""), ("<script>", "</script>"), ("<!--", "-->"), ("<p title='", "'>"), ("<textarea>", "</textarea>"), ("<svg><![CDATA[", "]]></svg>")][around];
            let page = |count: u32| {
                let mut written: Vec<String> = parts.iter().map(|(written, _)| written.clone()).collect();
                written.insert(at.index(parts.len() + 1), format!("{before}{}{behind}", cart(count)));
                written.concat()
            };
            let found = compare(page(0).as_bytes(), page(3).as_bytes(), &["i.own-cart"], 0);
            prop_assert_eq!(found, if around == 0 { Sameness::Same } else { Sameness::Differs }, "{}", page(0));
        }

        #[test]
        fn any_bytes_are_read_to_their_end(page in prop::collection::vec(select(&b"<>/=!-'\"& a[svg]\0\xc3"[..]), 0..200)) {
            let found = tokens(&page);
            prop_assert!(found.is_none_or(|tokens| tokens.len() <= page.len()));
        }
    }

    #[test]
    fn what_a_browser_decides_by_its_tree_is_unclear() {
        for unclear in [
            "<svg><p>",
            "<svg><g></b></svg>",
            "<svg><desc><b></desc></svg>",
            "<svg><math>",
            "<svg></p></svg>",
            "<svg><font>",
            "<select><title>a</title>",
            "<frameset>",
            "<plaintext>",
            "<p>a<b class='",
        ] {
            assert_eq!(tokens(unclear.as_bytes()), None, "{unclear}");
        }
        for clear in [
            "<svg><title><b>x</b></title></svg>",
            "<svg><style>a<g></g></style></svg>",
            "<svg><foreignObject><script>'<b>'</script><p>x</p></foreignObject></svg>",
            "<math><mi><b>x</b></mi></math>",
            "<select><option>a<script>'<b>'</script></select><title><b></title>",
            "</p></div>",
            "<svg><g><path></svg><title><b></title>",
        ] {
            assert!(tokens(clear.as_bytes()).is_some(), "{clear}");
        }
        // A script in SVG has markup in it, one in the HTML in there has not.
        let count = |page: &str| tokens(page.as_bytes()).unwrap().len();
        assert_eq!(count("<svg><script><g></g></script></svg>"), 6);
        assert_eq!(count("<svg><desc><script><g></g></script></desc></svg>"), 7);
    }

    #[test]
    fn elements_end_where_they_are_written_to() {
        let of = |page: &str| end_of(&tokens(page.as_bytes()).unwrap(), 0);
        for (whole, number) in [
            ("<br>x", 1),
            ("<template><tr></tr></template>x", 4),
            ("<div></div>x", 2),
            ("<a><svg><g><path d=x></svg>b</a>x", 7),
            ("<ul><li>a<ul><li>b</li></ul></li></ul>x", 10),
            ("<p><b>a</b><br></p>x", 6),
            ("<table>\n<tr><td><p>a</p></td></tr></table>x", 10),
            ("<dl><dt>a</dt><dd><p>b</p></dd></dl>x", 10),
            ("<select><option>a</option></select>x", 5),
        ] {
            assert_eq!(of(whole), Some(number), "{whole}");
        }
        for corrected in [
            "<div>",
            "<div></p></div>",
            "<p><div></div></p>",
            "<p><b><ul></ul></b></p>",
            "<li><li></li></li>",
            "<a><b><a></a></b></a>",
            "<b><i></b></i>",
            "<table><div></div></table>",
            "<table>x</table>",
            "<tr><p></p></tr>",
            "<h1><h2></h2></h1>",
            "<select><b></b></select>",
            "<div><td></td></div>",
            "<div><body></body></div>",
        ] {
            assert_eq!(of(corrected), None, "{corrected}");
        }
    }
}
