//! Sitemaps (sitemaps.org, protocol 0.9): lists of pages, and lists of such lists.
//!
//! Implements only the XML that they need: elements by their local names, entities, CDATA, comments. Anything that is
//! not a sitemap gives `None`; no input makes this read more than once over the text.

/// Maximum number of URLs from one file, as in the protocol.
pub const MOST_URLS: usize = 50_000;
/// The longest URL that the protocol allows, bytes.
const LONGEST_URL: usize = 2048;
/// Elements within each other; a sitemap has four.
const DEEPEST: usize = 32;

/// The contents of a sitemap.
#[derive(Debug, PartialEq, Eq)]
pub enum Sitemap {
    /// `<urlset>`, or a line each.
    Pages(Vec<String>),
    /// `<sitemapindex>`
    Index(Vec<String>),
}

/// Reads a sitemap; `None`: it is none.
pub fn read(text: &str) -> Option<Sitemap> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with('<') { xml(text) } else { lines(text) }
}

/// The form of a text file: nothing but URLs, a line each.
fn lines(text: &str) -> Option<Sitemap> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let all = lines().next().is_some() && lines().take(MOST_URLS).all(is_url);
    all.then(|| Sitemap::Pages(lines().take(MOST_URLS).map(str::to_owned).collect()))
}

fn is_url(text: &str) -> bool {
    let legal = |c: char| !c.is_whitespace() && !c.is_control();
    text.len() <= LONGEST_URL
        && (text.starts_with("http://") || text.starts_with("https://"))
        && text.chars().all(legal)
}

fn xml(text: &str) -> Option<Sitemap> {
    let mut open: Vec<&str> = Vec::new();
    let mut urls = Vec::new();
    let mut root = None;
    let mut value = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let (before, tag) = rest.split_at(start);
        if is_location(&open) {
            unescape(before, &mut value);
        }
        rest = if let Some(comment) = tag.strip_prefix("<!--") {
            after(comment, "-->")
        } else if let Some(data) = tag.strip_prefix("<![CDATA[") {
            let end = data.find("]]>").unwrap_or(data.len());
            if is_location(&open) {
                value.push_str(&data[..end]);
            }
            after(data, "]]>")
        } else if tag.starts_with("<?") || tag.starts_with("<!") {
            // A DOCTYPE may contain others, but then it is not a sitemap: it ends at the first `>`.
            after(tag, ">")
        } else {
            let end = tag.find('>')?;
            let inside = &tag[1..end];
            if let Some(name) = inside.strip_prefix('/') {
                if is_location(&open) {
                    take(&mut value, &mut urls);
                }
                if open.pop() != Some(local(name)) {
                    return None;
                }
            } else {
                let name = local(inside);
                root.get_or_insert(name);
                if !matches!(root, Some("urlset" | "sitemapindex")) || open.len() == DEEPEST {
                    return None;
                }
                if !inside.ends_with('/') {
                    open.push(name);
                    value.clear();
                }
            }
            &tag[end + 1..]
        };
    }
    match root {
        Some("sitemapindex") => Some(Sitemap::Index(urls)),
        Some("urlset") => Some(Sitemap::Pages(urls)),
        _ => None,
    }
}

/// Whether this position contains the URL of a page or sitemap, not that of a picture on it.
fn is_location(open: &[&str]) -> bool {
    matches!(open, ["urlset", "url", "loc"] | ["sitemapindex", "sitemap", "loc"])
}

fn take(value: &mut String, urls: &mut Vec<String>) {
    let url = value.trim();
    if urls.len() < MOST_URLS && is_url(url) {
        urls.push(url.to_owned());
    }
    value.clear();
}

/// The name of an element without prefix and attributes.
fn local(inside: &str) -> &str {
    let name = inside.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or_default();
    name.rsplit(':').next().unwrap_or(name)
}

fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.find(end).map_or("", |at| &text[at + end.len()..])
}

/// Appends `text` with the entities of XML resolved; others stay as they are.
fn unescape(text: &str, into: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        let (before, entity) = rest.split_at(at);
        into.push_str(before);
        let end = entity.find(';').filter(|end| *end <= 10);
        let character = end.and_then(|end| match &entity[1..end] {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            name => {
                let digits = name.strip_prefix('#')?;
                let number = match digits.strip_prefix(['x', 'X']) {
                    Some(digits) => u32::from_str_radix(digits, 16),
                    None => digits.parse(),
                };
                char::from_u32(number.ok()?)
            }
        });
        match (character, end) {
            (Some(character), Some(end)) => {
                into.push(character);
                rest = &entity[end + 1..];
            }
            _ => {
                into.push('&');
                rest = &entity[1..];
            }
        }
    }
    into.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pages(urls: &[&str]) -> Option<Sitemap> {
        Some(Sitemap::Pages(urls.iter().map(|url| (*url).to_owned()).collect()))
    }

    /// As WordPress writes it, with a stylesheet, and a plugin's pictures.
    const WORDPRESS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="https://a.example/wp-sitemap.xsl" ?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
<!-- <url><loc>https://a.example/commented</loc></url> -->
<url><loc>https://a.example/</loc><lastmod>2026-01-01</lastmod></url>
<url>
  <loc>
    https://a.example/?p=1&amp;x=&#x41;&#66;
  </loc>
  <image:image><image:loc>https://a.example/picture.jpg</image:loc></image:image>
  <xhtml:link rel="alternate" hreflang="de" href="https://a.example/de/"/>
</url>
<url><loc><![CDATA[https://a.example/c?a=1&b=2]]></loc></url>
<url><loc>javascript:alert(1)</loc></url>
</urlset>"#;

    #[test]
    fn pages_of_a_sitemap() {
        let urls = ["https://a.example/", "https://a.example/?p=1&x=AB", "https://a.example/c?a=1&b=2"];
        assert_eq!(read(WORDPRESS), pages(&urls));
        assert_eq!(read(&format!("\u{feff}\n{WORDPRESS}")), pages(&urls));
    }

    #[test]
    fn an_index_and_prefixes() {
        let text = "<sm:sitemapindex xmlns:sm='x'><sm:sitemap><sm:loc>http://a/1.xml</sm:loc></sm:sitemap></sm:sitemapindex>";
        assert_eq!(read(text), Some(Sitemap::Index(vec!["http://a/1.xml".to_owned()])));
        assert_eq!(read("<urlset></urlset>"), pages(&[]));
        assert_eq!(read("<urlset/>"), pages(&[]));
    }

    #[test]
    fn a_text_file() {
        assert_eq!(read("http://a/1\r\n\nhttps://a/2\n"), pages(&["http://a/1", "https://a/2"]));
        assert_eq!(read("http://a/1\nand this"), None);
    }

    #[test]
    fn what_is_none() {
        for text in [
            "",
            "hello",
            "<html><body><loc>http://a/</loc></body></html>",
            "<!doctype html><html></html>",
            "<rss><channel><link>http://a/</link></channel></rss>",
            "<urlset><url></urlset>",
            "<urlset",
            "<",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let deep = format!("<urlset>{}", "<a>".repeat(100_000));
        assert_eq!(read(&deep), None);
    }

    #[test]
    fn torn_and_long_ones_are_bounded() {
        for end in 0..WORDPRESS.len() {
            if WORDPRESS.is_char_boundary(end) {
                let _ = read(&WORDPRESS[..end]);
            }
        }
        let url = format!("<url><loc>http://a/{}</loc></url>", "x".repeat(LONGEST_URL));
        assert_eq!(read(&format!("<urlset>{url}</urlset>")), pages(&[]));
        let many = "<url><loc>http://a/</loc></url>".repeat(MOST_URLS + 10);
        let Some(Sitemap::Pages(urls)) = read(&format!("<urlset>{many}</urlset>")) else { panic!() };
        assert_eq!(urls.len(), MOST_URLS);
        let mut text = String::new();
        unescape("a&b;&;&#xD800;&#99999999999;&amp", &mut text);
        assert_eq!(text, "a&b;&;&#xD800;&#99999999999;&amp");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "(<|>|/|urlset|url|loc|&#x?|[0-9a-f]|;|<!--|-->|<!\\[CDATA\\[|\\]\\]>|http://a/|é){0,60}") {
            let _ = read(&text);
            let _ = read(&format!("<urlset><url><loc>{text}"));
        }
    }
}
