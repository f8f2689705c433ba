//! The references of a style sheet (CSS Syntax Level 3): `@import`, pictures by `url()`, and the font files that a
//! browser would choose.
//!
//! The elements for which a rule applies are unknown: all pictures count, except for print.

use crate::url::is_html_space;

/// Blocks within each other; deeper ones are read like the last.
const DEEPEST: usize = 64;

/// The purpose of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Another style sheet.
    Import,
    /// A background, a cursor, a mask.
    Image,
    /// A font.
    Font,
}

/// The references of a style sheet in their order.
pub fn references(css: &str) -> Vec<(Use, String)> {
    let mut reader =
        CssReader { rest: css, found: Vec::new(), blocks: Vec::new(), rule: None, may_import: true };
    while reader.step() {}
    reader.found
}

/// The type of a block, by its rule.
enum Block {
    /// Declarations or rules.
    Plain,
    /// `@font-face`, with the choice of its last `src`.
    FontFace { is_source: bool, choice: Option<String> },
    /// Of print, or in such a block.
    Unused,
}

/// An at-rule before its block or semicolon.
struct AtRule {
    name: String,
    prelude: String,
}

struct CssReader<'a> {
    rest: &'a str,
    found: Vec<(Use, String)>,
    blocks: Vec<Block>,
    rule: Option<AtRule>,
    /// No rule has come before.
    may_import: bool,
}

impl<'a> CssReader<'a> {
    /// Takes the next piece; false at the end.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        if let Some(comment) = self.rest.strip_prefix("/*") {
            self.rest = comment.find("*/").map_or("", |end| &comment[end + 2..]);
            return true;
        }
        match first {
            '"' | '\'' => {
                let text = self.take_string();
                self.string(text);
            }
            '@' => self.at_rule(),
            '{' => self.open(),
            '}' => self.close(),
            ';' => self.end_of_statement(),
            ':' => self.take(1),
            c if is_name(c) => self.name(),
            c => {
                self.note(c);
                self.take(c.len_utf8());
            }
        }
        true
    }

    fn take(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn note(&mut self, c: char) {
        if let Some(rule) = &mut self.rule {
            rule.prelude.push(c);
        }
    }

    fn at_rule(&mut self) {
        self.take(1);
        let name = self.take_name().to_ascii_lowercase();
        self.may_import &= matches!(name.as_str(), "import" | "charset" | "layer");
        self.rule = Some(AtRule { name, prelude: String::new() });
    }

    fn open(&mut self) {
        self.take(1);
        self.may_import = false;
        let rule = self.rule.take();
        if self.blocks.len() == DEEPEST {
            self.blocks.pop();
        }
        self.blocks.push(match rule {
            _ if matches!(self.blocks.last(), Some(Block::Unused)) => Block::Unused,
            Some(rule) if rule.name == "font-face" => Block::FontFace { is_source: false, choice: None },
            Some(rule) if rule.name == "media" && is_print(&rule.prelude) => Block::Unused,
            _ => Block::Plain,
        });
    }

    fn close(&mut self) {
        self.take(1);
        self.rule = None;
        if let Some(Block::FontFace { choice: Some(url), .. }) = self.blocks.pop() {
            self.found.push((Use::Font, url));
        }
    }

    fn end_of_statement(&mut self) {
        self.take(1);
        self.rule = None;
        if let Some(Block::FontFace { is_source, .. }) = self.blocks.last_mut() {
            *is_source = false;
        }
    }

    /// A word: the beginning of `url(`, the name of a declaration, or nothing of importance.
    fn name(&mut self) {
        let name = self.take_name();
        if self.rest.starts_with('(') && name.eq_ignore_ascii_case("url") {
            let url = self.take_url();
            return self.refer(url);
        }
        if self.rest.starts_with('(') && name.to_ascii_lowercase().ends_with("image-set") {
            return self.image_set();
        }
        let is_declaration = self.rest.trim_start_matches(is_html_space).starts_with(':');
        if let Some(Block::FontFace { is_source, choice }) = self.blocks.last_mut()
            && is_declaration
        {
            *is_source = name.eq_ignore_ascii_case("src");
            if *is_source {
                *choice = None;
            }
        }
        if let Some(rule) = &mut self.rule {
            rule.prelude.push_str(name);
        }
    }

    /// Of `image-set(a 1x, b 2x)` a browser takes one: here the first.
    fn image_set(&mut self) {
        let before = self.found.len();
        let mut depth = 0;
        while let Some(c) = self.rest.chars().next() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                ';' | '{' | '}' => break,
                '"' | '\'' => {
                    let text = self.take_string();
                    // Not the text of `type("image/avif")`.
                    if depth == 1 {
                        self.refer(text);
                    }
                    continue;
                }
                c if is_name(c) => {
                    let name = self.take_name();
                    if self.rest.starts_with('(') && name.eq_ignore_ascii_case("url") {
                        let url = self.take_url();
                        self.refer(url);
                    }
                    continue;
                }
                _ => {}
            }
            self.take(c.len_utf8());
            if depth == 0 {
                break;
            }
        }
        self.found.truncate(before + 1);
    }

    /// A text is a reference only as `@import "x.css"`.
    fn string(&mut self, text: String) {
        if self.rule.as_ref().is_some_and(|rule| rule.name == "import") {
            self.refer(text);
        }
    }

    /// A URL: its position determines its purpose.
    fn refer(&mut self, url: String) {
        if let Some(rule) = &mut self.rule {
            let imports = rule.name == "import" && self.may_import && rule.prelude.trim().is_empty();
            rule.prelude.push_str("url");
            if imports {
                self.found.push((Use::Import, url));
            }
            return;
        }
        match self.blocks.last_mut() {
            Some(Block::FontFace { is_source: true, choice }) => {
                if choice.is_none() && takes_font(&url, self.rest) {
                    *choice = Some(url);
                }
            }
            Some(Block::Unused) => {}
            // Without a block: the value of a `style` attribute.
            _ => self.found.push((Use::Image, url)),
        }
    }

    fn take_name(&mut self) -> &'a str {
        let end = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        name
    }

    /// The contents of the quotes at the start of `rest`. A line break ends them, too.
    fn take_string(&mut self) -> String {
        let quote = self.rest.chars().next().unwrap_or('"');
        let (text, length) = unescaped(&self.rest[1..], |c| c == quote || c == '\n');
        self.rest = self.rest[1 + length..].trim_start_matches_once(quote);
        text
    }

    /// The contents of the parentheses of `url(...)` at the start of `rest`.
    fn take_url(&mut self) -> String {
        self.rest = self.rest[1..].trim_start_matches(is_html_space);
        if self.rest.starts_with(['"', '\'']) {
            let text = self.take_string();
            self.rest = self.rest.find([')', ';', '}']).map_or("", |end| &self.rest[end..]);
            self.rest = self.rest.trim_start_matches_once(')');
            return text;
        }
        let (text, length) = unescaped(self.rest, |c| c == ')');
        self.rest = self.rest[length..].trim_start_matches_once(')');
        text.trim_end_matches(is_html_space).to_owned()
    }
}

/// The text up to a character that ends it, escapes resolved, and how long it was.
fn unescaped(text: &str, ends: impl Fn(char) -> bool) -> (String, usize) {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if ends(c) {
            break;
        }
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            plain.push(c);
            continue;
        }
        let digits = rest.bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
        if digits > 0 {
            let number = u32::from_str_radix(&rest[..digits], 16).ok();
            plain.push(number.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER));
            rest = &rest[digits..];
            rest = rest.strip_prefix(is_html_space).unwrap_or(rest);
        } else if let Some(c) = rest.chars().next() {
            // An escaped end of line continues the text.
            plain.extend((c != '\n').then_some(c));
            rest = &rest[c.len_utf8()..];
        }
    }
    (plain, text.len() - rest.len())
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_' || !c.is_ascii()
}

/// Whether a media query is of print alone.
fn is_print(query: &str) -> bool {
    query.split(',').all(|one| one.trim_matches(is_html_space).to_ascii_lowercase().starts_with("print"))
}

/// Whether a current browser uses this font file; `after` may name its format.
fn takes_font(url: &str, after: &str) -> bool {
    if url.contains("?#iefix") || url.split(['?', '#']).next().unwrap_or_default().ends_with(".eot") {
        return false;
    }
    let after = after.trim_start_matches(is_html_space);
    let Some(format) = after.strip_prefix("format(") else { return true };
    let format = format.split(')').next().unwrap_or_default();
    let format = format.trim_matches(|c| is_html_space(c) || c == '"' || c == '\'').to_ascii_lowercase();
    ["woff2", "woff", "truetype", "opentype", "collection"].iter().any(|known| format.starts_with(known))
}

trait TrimOnce {
    fn trim_start_matches_once(&self, c: char) -> &Self;
}

impl TrimOnce for str {
    fn trim_start_matches_once(&self, c: char) -> &str {
        self.strip_prefix(c).unwrap_or(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(css: &str) -> Vec<String> {
        let mark = |used| match used {
            Use::Import => "import",
            Use::Image => "image",
            Use::Font => "font",
        };
        references(css).into_iter().map(|(used, url)| format!("{} {url}", mark(used))).collect()
    }

    #[test]
    fn urls_in_every_form() {
        let css = r#"@charset "utf-8"; /* url(no.png) */
            a { background: URL( a.png ) , url("b c.png"); content: "url(no.png)" }
            b{background:url('d\'e.png')no-repeat;x-url(no2);cursor:url(f\29 .cur),auto}
            c{background:url(g.png"#;
        assert_eq!(
            found(css),
            ["image a.png", "image b c.png", "image d'e.png", "image f).cur", "image g.png"]
        );
        assert_eq!(found("background:url(/x.png)"), ["image /x.png"], "a style attribute");
    }

    #[test]
    fn imports_come_first() {
        let css = "@charset 'x'; @layer a, b; @import 'a.css'; @import url(b.css) screen; @import \"c.css\" layer(x);
                   p{} @import 'no.css'; @namespace url(http://www.w3.org/2000/svg);";
        assert_eq!(found(css), ["import a.css", "import b.css", "import c.css"]);
    }

    #[test]
    fn one_file_a_font() {
        let css = "@font-face{font-family:x;src:url(a.eot);src:url(a.eot?#iefix) format('embedded-opentype'),
                   url(a.woff2) format(\"woff2\"),url(a.woff) format('woff')}
                   @FONT-FACE { src: local(y), url(b.ttf) }
                   @font-face { src: url(c.svg) format('svg') }";
        assert_eq!(found(css), ["font a.woff2", "font b.ttf"]);
    }

    #[test]
    fn print_and_sets() {
        let css = "@media print{a{background:url(no.png)}} @media screen, print{a{background:url(a.png)}}
                   b{background:image-set(url(b.webp) type('image/webp') 1x, 'b.png' 1x) , url(c.png)}
                   d{background:-webkit-image-set('d.png' 1x, url(no.png) 2x)}";
        assert_eq!(found(css), ["image a.png", "image b.webp", "image c.png", "image d.png"]);
    }

    #[test]
    fn long_and_torn_ones_are_read_once() {
        assert!(found(&"{".repeat(500_000)).is_empty());
        assert!(found(&"/*".repeat(500_000)).is_empty());
        assert!(found(&"@import ".repeat(100_000)).is_empty());
        assert!(found(&"url(\"".repeat(100_000)).len() <= 100_000);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(
            css in "(url\\(|@import|@font-face|@media print|image-set\\(|src:|format\\(|\\{|\\}|;|:|\"|'|\\)|\\\\|a|9|é| |/\\*|\\*/){0,40}"
        ) {
            references(&css);
        }
    }
}
