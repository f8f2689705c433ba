//! Pages that vary: the meaning of a `Vary` field, and the values of a request that distinguish variants.
//!
//! Values are normalised where that makes no difference to the application, so that a page has a few variants instead
//! of one per browser.

use crate::ask::{Device, as_php_sees, each_cookie};
use crate::looked::{READS, found};
use crate::rules::{Mode, Rules, VaryCookies};

/// Prefix of one cookie's name in [`crate::Terms::vary`], from LiteSpeed's `X-LiteSpeed-Vary: cookie=NAME`.
const ONE_COOKIE: &str = "cookie=";

/// The names of a `Vary` field, or why a page with it is not stored.
#[derive(Debug, Default)]
pub struct Names {
    /// Lower case, sorted, without accept-encoding.
    pub names: Vec<Box<str>>,
    /// `*`, or a name that the rules forbid.
    pub refused: bool,
}

impl Names {
    /// Adds the value of a `Vary` field (RFC 9110 section 12.5.5).
    pub fn add(&mut self, rules: &Rules, value: &[u8]) {
        for name in value.split(|b| *b == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()) {
            let Ok(name) = std::str::from_utf8(name) else {
                self.refused = true;
                continue;
            };
            let name = name.to_ascii_lowercase();
            let allowed = rules.mode == Mode::Standard || rules.vary_fields.matches(name.as_bytes());
            match name.as_str() {
                "accept-encoding" => {}
                "*" => self.refused = true,
                _ if !allowed => self.refused = true,
                _ => self.names.push(name.into()),
            }
        }
    }

    /// Adds the value of `X-LiteSpeed-Vary`: `cookie=a, cookie=b`. Other items don't depend on the request.
    pub fn add_litespeed(&mut self, value: &[u8]) {
        for item in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
            let Some(name) = item.strip_prefix(ONE_COOKIE.as_bytes()).map(<[u8]>::trim_ascii) else {
                continue;
            };
            match std::str::from_utf8(name) {
                Ok("") => {}
                Ok(name) => self.names.push(format!("{ONE_COOKIE}{name}").into()),
                Err(_) => self.refused = true,
            }
        }
    }

    /// The names, sorted and without duplicates.
    pub fn finish(mut self) -> Box<[Box<str>]> {
        self.names.sort();
        self.names.dedup();
        self.names.into()
    }
}

/// Appends the normalised value of a request for a name of [`crate::Terms::vary`]. A missing field appends nothing;
/// an empty one appends one byte.
pub fn select<'a, I>(rules: &Rules, fields: I, name: &str, out: &mut Vec<u8>)
where
    I: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    if name.starts_with(READS) {
        // The caller must not use the page; at least it is no other request's.
        return found(rules, fields, name).into_iter().for_each(|cookie| out.extend_from_slice(cookie));
    }
    let (field, cookie) = match name.strip_prefix(ONE_COOKIE) {
        Some(cookie) => ("cookie", Some(cookie)),
        None => (name, None),
    };
    let values = fields.filter(|(other, _)| other.eq_ignore_ascii_case(field)).map(|(_, value)| value);
    let profile = rules.mode == Mode::Profile;
    match field {
        "cookie" => values.for_each(|value| cookies(rules, cookie, value, out)),
        "accept-language" => languages(values, out),
        "accept" if profile => kinds(values, out),
        "user-agent" if profile => {
            values.take(1).for_each(|agent| out.extend_from_slice(Device::of(agent).word().as_bytes()))
        }
        _ => list(values, out),
    }
}

/// The cookies that count, in order.
fn cookies(rules: &Rules, one: Option<&str>, value: &[u8], out: &mut Vec<u8>) {
    for (name, cookie) in each_cookie(value) {
        let mut room = [0; 128];
        let seen = as_php_sees(name, &mut room).unwrap_or(name);
        let counts = match (one, &rules.vary_cookies) {
            (Some(one), _) => seen == one.as_bytes(),
            (None, VaryCookies::Only(patterns)) => patterns.matches(seen),
            (None, VaryCookies::AllButHarmless) => !rules.is_harmless(seen),
            (None, VaryCookies::All) => true,
        };
        if counts {
            out.extend_from_slice(cookie);
            out.push(b';');
        }
    }
}

/// A field whose lines may be joined by commas (RFC 9110 section 5.3; RFC 9111 section 4.1 permits to compare them
/// joined, and without the white space around members).
fn list<'a>(values: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for value in values {
        let mut quoted = false;
        // White space has no meaning only beside a comma outside of quotes.
        for member in value.split(|b| {
            quoted ^= *b == b'"';
            *b == b',' && !quoted
        }) {
            out.extend_from_slice(member.trim_ascii());
            out.push(b',');
        }
    }
}

/// The content types by which applications choose: newer image formats, JSON, HTML.
fn kinds<'a>(values: impl Iterator<Item = &'a [u8]> + Clone, out: &mut Vec<u8>) {
    for (kind, word) in
        [("text/html", "html,"), ("json", "json,"), ("image/webp", "webp,"), ("image/avif", "avif,")]
    {
        if values.clone().any(|value| memchr::memmem::find(value, kind.as_bytes()).is_some()) {
            out.extend_from_slice(word.as_bytes());
        }
    }
}

/// Maximum number of languages that are sorted; a longer list is used unchanged.
const MOST_LANGUAGES: usize = 16;

/// Languages by preference, in lower case: languages of equal weight are sorted and separated by commas, with a
/// semicolon before less preferred ones. `en, de` equals `de, EN`; `en;q=0.9` after another equals `en;q=0.5`.
fn languages<'a>(values: impl Iterator<Item = &'a [u8]> + Clone, out: &mut Vec<u8>) {
    let mut found = [(0u16, &b""[..]); MOST_LANGUAGES];
    let mut count = 0;
    let members = values.clone().flat_map(|value| value.split(|b| *b == b',')).map(<[u8]>::trim_ascii);
    for member in members.filter(|member| !member.is_empty()) {
        let mut parts = member.split(|b| *b == b';').map(<[u8]>::trim_ascii);
        let tag = parts.next().unwrap_or_default();
        let weight = parts.next().map_or(Some(1000), weight);
        let (Some(weight), true) = (weight, count < MOST_LANGUAGES) else { return list(values, out) };
        found[count] = (weight, tag);
        count += 1;
    }
    let found = &mut found[..count];
    let lower = |tag: &'a [u8]| tag.iter().map(u8::to_ascii_lowercase);
    found.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| lower(a.1).cmp(lower(b.1))));
    for (at, (weight, tag)) in found.iter().enumerate() {
        if at > 0 {
            out.push(if found[at - 1].0 == *weight { b',' } else { b';' });
        }
        out.extend(lower(tag));
        if *weight == 0 {
            out.extend_from_slice(b"!");
        }
    }
}

/// `q=0.5` in thousandths.
fn weight(parameter: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(parameter).ok()?;
    let value: f32 = text.strip_prefix("q=").or_else(|| text.strip_prefix("Q="))?.parse().ok()?;
    (0.0..=1.0).contains(&value).then_some((value * 1000.0) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Patterns;

    fn value(rules: &Rules, name: &str, fields: &[(&str, &str)]) -> String {
        let mut out = Vec::new();
        select(rules, fields.iter().map(|(n, v)| (*n, v.as_bytes())), name, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn same(rules: &Rules, name: &str, one: &[&str], other: &[&str]) -> bool {
        let of = |values: &[&str]| value(rules, name, &values.iter().map(|v| (name, *v)).collect::<Vec<_>>());
        of(one) == of(other)
    }

    #[test]
    fn lists_are_compared_by_their_members() {
        let rules = Rules::standard();
        // RFC 9111 section 4.1
        assert!(same(&rules, "foo", &["1, 2"], &["1", "2"]));
        assert!(same(&rules, "foo", &["1,2"], &[" 1, 2 "]));
        assert!(!same(&rules, "foo", &["1"], &["2"]));
        assert!(!same(&rules, "foo", &["1, 2"], &["2, 1"]));
        assert!(!same(&rules, "foo", &["\"1, 2\""], &["\"1,2\""]));
        assert!(!same(&rules, "foo", &[], &["1"]));
        assert!(!same(&rules, "foo", &[], &[""]));
        assert!(!same(&rules, "user-agent", &["iPhone Mobile 1"], &["iPhone Mobile 2"]));
    }

    #[test]
    fn languages_by_preference() {
        let rules = Rules::standard();
        let same = |one, other| same(&rules, "accept-language", &[one], &[other]);
        assert!(same("en, de", "de, en"));
        assert!(same("en, de", "eN,   De"));
        assert!(same("de, en;q=0.9, *;q=0.1", "de,en;q=0.8,*;q=0.5"));
        assert!(!same("de, en;q=0.9", "en, de;q=0.9"));
        assert!(!same("de, en;q=0.9", "de, en"));
        assert!(!same("de, en;q=0", "de, en;q=0.1"));
        assert!(!same("de", ""));
        assert!(!same("de;x=1", "de"), "what is not understood is taken as it is");
        let long = |last: &str| (0..20).map(|n| format!("l{n},")).collect::<String>() + last;
        assert!(!same(&long("a"), &long("b")));
    }

    #[test]
    fn cookies_that_count() {
        let header = |text: &'static str| [("Cookie", text)];
        let mut rules = Rules::profile();
        assert_eq!(value(&rules, "cookie", &header("_ga=1; a=2;b=3; cookieyes-consent=x")), "a=2;b=3;");
        rules.vary_cookies = VaryCookies::Only(Patterns::new(["SESS*", "SSESS*"]));
        assert_eq!(value(&rules, "cookie", &header("_ga=1; x=2")), value(&rules, "cookie", &[]));
        assert_eq!(value(&rules, "cookie", &header("x=2; SESSab=1")), "SESSab=1;");
        assert_eq!(value(&Rules::standard(), "cookie", &header("_ga=1;x=2")), "_ga=1;x=2;");
        assert_eq!(value(&rules, "cookie=lang", &header("langs=1; lang=de; x=1")), "lang=de;");
        let two = [("cookie", "lang=de"), ("Cookie", "lang=en")];
        assert_eq!(value(&rules, "cookie=lang", &two), "lang=de;lang=en;");
    }

    #[test]
    fn browsers_become_few() {
        let rules = Rules::profile();
        assert!(same(
            &rules,
            "user-agent",
            &["Mozilla/5.0 (X11) Chrome/1"],
            &["Mozilla/5.0 (Windows) Firefox/99"]
        ));
        assert!(!same(&rules, "user-agent", &["Mozilla/5.0 (X11)"], &["Mozilla/5.0 (iPhone) Mobile/1"]));
        assert!(same(&rules, "accept", &["text/html,image/webp,*/*;q=0.8"], &["text/html, image/webp"]));
        assert!(!same(&rules, "accept", &["text/html,image/webp"], &["text/html,image/avif,image/webp"]));
        assert!(!same(&rules, "accept", &["application/json"], &["text/html"]));
    }

    #[test]
    fn names_of_vary() {
        let read = |rules: &Rules, values: &[&str]| {
            let mut names = Names::default();
            values.iter().for_each(|value| names.add(rules, value.as_bytes()));
            (!names.refused).then(|| names.finish().join(" "))
        };
        let (standard, profile) = (Rules::standard(), Rules::profile());
        assert_eq!(read(&standard, &["Foo, Accept-Encoding", "bar,foo"]).as_deref(), Some("bar foo"));
        for star in ["*", "*, *", ", *", "*, Foo", "Foo, *"] {
            assert_eq!(read(&standard, &["", star]), None, "{star}");
        }
        assert_eq!(read(&profile, &["Cookie", "Accept-Language"]).as_deref(), Some("accept-language cookie"));
        assert_eq!(read(&profile, &["X-Country"]), None);
        let mut names = Names::default();
        names.add_litespeed(b"cookie=currency, value=x,cookie=, cookie=lang");
        assert_eq!(names.finish().join(" "), "cookie=currency cookie=lang");
    }
}
