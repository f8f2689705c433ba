//! A page and its parts: what a browser fetches after the HTML.
//!
//! Parts are style sheets, scripts, icons, pictures (the first of `srcset`) and preloads; and from style sheets,
//! including those in the page, pictures and fonts. Only parts of the page's own origin are requested; the others are
//! counted. Requests by scripts are not included: they are unknown without running the scripts.

pub mod css;
mod entities;
pub mod html;

use std::collections::HashSet;

use crate::url::{Url, is_html_space};
use html::{Attributes, Tag, Tags};

/// The most parts of a page, or of a style sheet, that are taken.
pub const MOST_PARTS: usize = 1000;

/// The kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A style sheet; may have parts itself.
    Style,
    /// A script.
    Script,
    /// A picture or an icon.
    Image,
    /// A font.
    Font,
    /// Something else that is preloaded.
    Other,
}

/// Something that a page consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePart {
    /// Where it is.
    pub url: Url,
    /// Its kind.
    pub kind: Kind,
}

/// The parts of a page or of a style sheet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Of the same origin, each once, in the order in which they are named.
    pub own: Vec<PagePart>,
    /// How many of other origins there are.
    pub foreign: usize,
}

/// The parts of the page `html` at `url`.
pub fn parts(url: &Url, html: &[u8]) -> Parts {
    let html = String::from_utf8_lossy(html);
    let mut page = Page {
        parts: PartCollector::new(url),
        base: url.clone(),
        has_base: false,
        pictures: Vec::new(),
        icon: None,
    };
    Tags::of(&html).for_each(|tag| page.tag(tag));
    if let Some((_, icon)) = page.icon {
        page.parts.add(Kind::Image, &page.base, &icon);
    }
    page.parts.found
}

/// The parts of the style sheet `css` at `url`, on a page of the same origin.
pub fn parts_of_style(url: &Url, css: &[u8]) -> Parts {
    let mut parts = PartCollector::new(url);
    parts.add_style(url, &String::from_utf8_lossy(css));
    parts.found
}

/// Each part once, of the origin of the page.
struct PartCollector<'a> {
    page: &'a Url,
    seen: HashSet<Url>,
    found: Parts,
}

impl<'a> PartCollector<'a> {
    fn new(page: &'a Url) -> PartCollector<'a> {
        PartCollector { page, seen: HashSet::from([page.clone()]), found: Parts::default() }
    }

    fn add(&mut self, kind: Kind, base: &Url, reference: &str) {
        let Some(url) = base.join(reference) else { return };
        if self.seen.len() > MOST_PARTS || !self.seen.insert(url.clone()) {
            return;
        }
        if url.origin == self.page.origin {
            self.found.own.push(PagePart { url, kind });
        } else {
            self.found.foreign += 1;
        }
    }

    fn add_style(&mut self, base: &Url, css: &str) {
        for (used, reference) in css::references(css) {
            let kind = match used {
                css::Use::Import => Kind::Style,
                css::Use::Image => Kind::Image,
                css::Use::Font => Kind::Font,
            };
            self.add(kind, base, &reference);
        }
    }
}

struct Page<'a> {
    parts: PartCollector<'a>,
    base: Url,
    has_base: bool,
    /// The `picture` elements that we are in, and whether a source of theirs was taken already.
    pictures: Vec<bool>,
    /// The icon that fits a tab best, and how badly it does.
    icon: Option<(u32, String)>,
}

impl Page<'_> {
    fn tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Open { name, attributes, text } => self.open(&name, &attributes, text),
            Tag::Close(name) if name == "picture" => drop(self.pictures.pop()),
            Tag::Close(_) => {}
        }
    }

    fn open(&mut self, name: &str, attributes: &Attributes, text: &str) {
        let get = |name| attributes.get(name).unwrap_or_default();
        if let Some(style) = attributes.get("style") {
            self.parts.add_style(&self.base, style);
        }
        match name {
            "base" if !self.has_base && attributes.has("href") => {
                self.base = self.parts.page.join(get("href")).unwrap_or_else(|| self.base.clone());
                self.has_base = true;
            }
            "link" => self.link(attributes),
            "style" => self.parts.add_style(&self.base, text),
            "script" if runs(attributes) => self.add(Kind::Script, get("src")),
            "picture" => self.pictures.push(false),
            "source" if attributes.has("srcset") => self.source(attributes),
            "img" => self.image(attributes),
            "input" if get("type").eq_ignore_ascii_case("image") => self.add(Kind::Image, get("src")),
            "video" => self.add(Kind::Image, get("poster")),
            "image" | "use" => {
                let href = attributes.get("href").or(attributes.get("xlink:href"));
                self.add(Kind::Image, href.unwrap_or_default());
            }
            _ => {}
        }
    }

    fn add(&mut self, kind: Kind, reference: &str) {
        self.parts.add(kind, &self.base, reference);
    }

    fn link(&mut self, attributes: &Attributes) {
        let href = attributes.get("href").unwrap_or_default();
        let is = |word| attributes.has_word("rel", word);
        if is("stylesheet") && !is("alternate") && !attributes.has("disabled") {
            self.add(Kind::Style, href);
        } else if is("modulepreload") {
            self.add(Kind::Script, href);
        } else if is("preload") {
            let kind = match attributes.get("as").unwrap_or_default() {
                "style" => Kind::Style,
                "script" => Kind::Script,
                "image" => Kind::Image,
                "font" => Kind::Font,
                _ => Kind::Other,
            };
            let from_set = attributes.get("imagesrcset").and_then(first_of_set);
            self.add(kind, from_set.unwrap_or(href));
        } else if is("icon") && !href.is_empty() {
            let misfit = icon_misfit(attributes.get("sizes"));
            if self.icon.as_ref().is_none_or(|(best, _)| misfit <= *best) {
                self.icon = Some((misfit, href.to_owned()));
            }
        }
    }

    /// Of a picture's sources the first one counts that a browser knows.
    fn source(&mut self, attributes: &Attributes) {
        let known = attributes.get("type").is_none_or(|kind| {
            ["avif", "webp", "png", "jpeg", "gif", "svg+xml"].iter().any(|k| kind == format!("image/{k}"))
        });
        let first = attributes.get("srcset").and_then(first_of_set);
        if let (Some(false), true, Some(first)) = (self.pictures.last(), known, first) {
            self.add(Kind::Image, first);
            if let Some(taken) = self.pictures.last_mut() {
                *taken = true;
            }
        }
    }

    fn image(&mut self, attributes: &Attributes) {
        if self.pictures.last() == Some(&true) {
            return;
        }
        let first = attributes.get("srcset").and_then(first_of_set);
        self.add(Kind::Image, first.or(attributes.get("src")).unwrap_or_default());
    }
}

/// Whether a browser with modules runs the script.
fn runs(attributes: &Attributes) -> bool {
    let kind = attributes.get("type").unwrap_or_default().trim_matches(is_html_space).to_ascii_lowercase();
    let is_script = matches!(kind.as_str(), "" | "module")
        || kind.ends_with("javascript")
        || kind.ends_with("ecmascript");
    is_script && !attributes.has("nomodule")
}

/// The URL of the first candidate. Commas may be in it: only one at its end separates.
fn first_of_set(set: &str) -> Option<&str> {
    let set = set.trim_start_matches(|c| is_html_space(c) || c == ',');
    let first = set.split(is_html_space).next().unwrap_or_default().trim_end_matches(',');
    (!first.is_empty()).then_some(first)
}

/// How far the first of `sizes` is from the 32 pixels that a tab wants; no size may be any.
fn icon_misfit(sizes: Option<&str>) -> u32 {
    let Some(sizes) = sizes else { return 16 };
    let width = sizes.split(['x', 'X', ' ']).next().and_then(|width| width.parse::<u32>().ok());
    width.map_or(8, |width| width.abs_diff(32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(html: &str) -> Vec<String> {
        let url = Url::parse("http://a.example/blog/post?x=1").unwrap();
        parts(&url, html.as_bytes())
            .own
            .into_iter()
            .map(|p| format!("{:?} {}", p.kind, p.url.target))
            .collect()
    }

    /// As WordPress writes it, with additions of themes.
    const PAGE: &str = r#"<!DOCTYPE html><html><head>
<link rel='stylesheet' id='a-css' href='http://a.example/wp-content/a.css?ver=6.8&#038;x=1' media='all' />
<link rel="preload" as="font" type="font/woff2" crossorigin href="/f.woff2"><link rel="dns-prefetch" href="//s.w.org">
<link rel="alternate stylesheet" href="/no.css"><link rel="STYLESHEET" href="/disabled.css" disabled>
<link rel="modulepreload" href="m.js"><link rel="preload" as="image" href="/no.jpg" imagesrcset="/p.jpg 400w, /no.jpg 800w">
<link rel="icon" href="/i192.png" sizes="192x192"><link rel="shortcut icon" href="/i32.png" sizes="32x32">
<style>@import "/imported.css"; body{background:url(bg.png)} @font-face{src:url(/f.woff2) format("woff2")}</style>
<!--[if IE]><script src="/ie.js"></script><![endif]-->
<script src="/jquery.js?ver=3" defer></script><script src="/old.js" nomodule></script><script type="importmap">{}</script>
<script type="text/template" src="/no.html"></script><script>document.write('<img src=/no.png>')</script>
</head><body style="background:url(&quot;/body.png&quot;)">
<img loading="lazy" src="/no1.jpg" srcset="/s-300,200.jpg 300w, /s-600.jpg 600w"><img src="/plain.gif#x"><img src="data:image/gif;base64,R0=">
<picture><source srcset="/no.jxl" type="image/jxl"><source type="image/webp" srcset="/w.webp 1x, /no.webp 2x"><source srcset="/no.png"><img src="/no2.jpg"></picture>
<picture><img src="/in-picture.png"></picture><noscript><img src="/no3.jpg"></noscript><template><img src="/no4.jpg"></template>
<svg><use xlink:href="/sprite.svg#icon"></use></svg><video src="/no.mp4" poster="/poster.jpg"></video>
<img src="//cdn.example/x.jpg"><img src="https://a.example/secure.jpg"><a href="/no"><img src="/plain.gif"></a>
</body></html>"#;

    #[test]
    fn what_a_browser_fetches() {
        let expected = [
            "Style /wp-content/a.css?ver=6.8&x=1",
            "Font /f.woff2",
            "Script /blog/m.js",
            "Image /p.jpg",
            "Style /imported.css",
            "Image /blog/bg.png",
            "Script /jquery.js?ver=3",
            "Image /body.png",
            "Image /s-300,200.jpg",
            "Image /plain.gif",
            "Image /w.webp",
            "Image /in-picture.png",
            "Image /sprite.svg",
            "Image /poster.jpg",
            "Image /i32.png",
        ];
        assert_eq!(found(PAGE), expected);
        let url = Url::parse("http://a.example/").unwrap();
        assert_eq!(parts(&url, PAGE.as_bytes()).foreign, 2, "another host, another scheme");
    }

    #[test]
    fn the_base_is_the_first_one() {
        let html = "<img src=a.png><base target=_top><base href='/sub/'><base href='/no/'><img src=b.png>";
        assert_eq!(found(html), ["Image /blog/a.png", "Image /sub/b.png"]);
        assert_eq!(found("<base href='javascript:x'><img src=c.png>"), ["Image /blog/c.png"]);
    }

    #[test]
    fn a_style_sheet_has_parts_beside_itself() {
        let url = Url::parse("http://a.example/css/main.css").unwrap();
        let css =
            b"@import 'more.css'; a{background:url(../i/a.svg)} b{background:url(http://b.example/x.png)}";
        let parts = parts_of_style(&url, css);
        let own: Vec<_> = parts.own.iter().map(|p| (p.kind, p.url.target.as_str())).collect();
        assert_eq!(own, [(Kind::Style, "/css/more.css"), (Kind::Image, "/i/a.svg")]);
        assert_eq!(parts.foreign, 1);
    }

    #[test]
    fn a_page_without_end_has_parts_with_end() {
        let html: String = (0..5000).map(|n| format!("<img src=/{n}.png>")).collect();
        assert_eq!(found(&html).len(), MOST_PARTS);
    }

    #[test]
    fn torn_pages() {
        for end in 0..PAGE.len() {
            parts(&Url::parse("http://a/").unwrap(), &PAGE.as_bytes()[..end]);
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let url = Url::parse("http://a/").unwrap();
            parts(&url, &bytes);
            parts_of_style(&url, &bytes);
        }
    }
}
