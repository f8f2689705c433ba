//! Pages that vary: the meaning of a `Vary` field, and the values of a request that distinguish variants.
//!
//! A variant belongs to exact values. Two requests share one only if the script can't tell their values apart: PHP gets the lines of a
//! field joined in one variable, and so they are compared; of the cookies only those count that PHP sees when it makes a page for all
//! ([`crate::ask::write_fill_cookies`]). In standard mode, which promises RFC 9111 and nothing about PHP, white space around the members
//! of a list does not count either (section 4.1). The order of languages or media types always counts: many scripts take the first one.
//!
//! Two exceptions: [`MOBILE`], because there it is known what the script has asked, and `User-Agent` with `cache.key_device`, by which an
//! administrator says that nothing else of it matters.

use crate::ask::{Device, as_php_sees, each_cookie};
use crate::image_formats;
use crate::looked::{READS, found};
use crate::rules::{Mode, Rules, UnknownCookies, VaryCookies};

/// Prefix of one cookie's name in [`crate::Terms::vary`], from LiteSpeed's `X-LiteSpeed-Vary: cookie=NAME`.
const ONE_COOKIE: &str = "cookie=";

/// The name in [`crate::Terms::vary`] of pages that differ by WordPress's `wp_is_mobile()` and by nothing else of the client. It is no name
/// of a field.
pub const MOBILE: &str = ":mobile";

/// The same of pages that depend on WordPress's variables about the browser, such as `$is_iphone`, and on nothing else of it.
pub const BROWSER: &str = ":browser";

/// The same of pages that depend on nothing but `$is_IE`, `$is_winIE` and `$is_macIE`.
pub const IE: &str = ":ie";

/// The same of pages that depend on nothing but whether the client is WordPress's mobile app, which Jetpack checks.
pub const APP: &str = ":app";

/// The same of pages that depend on nothing but which formats of images the client takes, as LiteSpeed Cache finds it out.
pub const IMAGES: &str = ":images";

/// The fields that `wp_is_mobile()` reads.
pub const MOBILE_FIELDS: [&str; 2] = ["user-agent", "sec-ch-ua-mobile"];

/// Fields that are lists of members with optional white space around them (RFC 9110 sections 12.5.1 to 12.5.4). Of an unknown field nobody
/// knows whether white space means something.
const LISTS: [&str; 3] = ["accept", "accept-charset", "accept-language"];

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

/// Appends the value of a request for a name of [`crate::Terms::vary`]. A missing field appends nothing; an empty one appends one byte.
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
    match field {
        MOBILE => return is_mobile(fields, out),
        BROWSER => return browser(fields, out),
        IE => return ie(fields, out),
        APP => return app(fields, out),
        IMAGES => return images(fields, out),
        _ => {}
    }
    let values = values_of(fields, field);
    match field {
        "cookie" => values.for_each(|value| cookies(rules, cookie, value, out)),
        "user-agent" if rules.mode == Mode::Profile && rules.key_device => {
            values.take(1).for_each(|agent| out.extend_from_slice(Device::of(agent).word().as_bytes()))
        }
        _ if rules.mode == Mode::Standard && LISTS.contains(&field) => list(values, out),
        _ => exact(values, out),
    }
}

fn values_of<'a>(
    fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    field: &str,
) -> impl Iterator<Item = &'a [u8]> + Clone {
    fields.filter(move |(other, _)| other.eq_ignore_ascii_case(field)).map(|(_, value)| value)
}

/// The field as PHP sees it: its lines joined (RFC 9110 section 5.3).
fn exact<'a>(values: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for (at, value) in values.enumerate() {
        out.extend_from_slice(if at == 0 { b"=" } else { b", " });
        out.extend_from_slice(value);
    }
}

/// The same, as a value.
fn joined<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone, field: &str) -> Vec<u8> {
    let mut value = Vec::new();
    exact(values_of(fields, field), &mut value);
    value
}

/// All that decides what `wp_is_mobile()` returns (wp-includes/vars.php): whether the user agent has one of its words, and, from WordPress
/// 6.4 on, the client hint, which precedes it.
fn is_mobile<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone, out: &mut Vec<u8>) {
    const WORDS: [&str; 7] =
        ["Mobile", "Android", "Silk/", "Kindle", "BlackBerry", "Opera Mini", "Opera Mobi"];
    let [agent, hint] = MOBILE_FIELDS;
    let has = |value: &[u8], word: &str| memchr::memmem::find(value, word.as_bytes()).is_some();
    let agents = values_of(fields.clone(), agent);
    out.push(match agents.into_iter().any(|agent| WORDS.iter().any(|word| has(agent, word))) {
        true => b'm',
        false => b'd',
    });
    let mut hints = values_of(fields, hint);
    match (hints.next(), hints.next()) {
        (None, _) => {}
        (Some(b"?1"), None) => out.push(b'1'),
        _ => out.push(b'0'),
    }
}

/// All that decides WordPress's variables about the browser, in any of its versions (wp-includes/vars.php): which of these words the user
/// agent contains.
fn browser<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone, out: &mut Vec<u8>) {
    const WORDS: [&str; 10] =
        ["Lynx", "Edg", "MSIE", "Trident", "Win", "Mac", "Gecko", "Opera", "Nav", "Mozilla/4."];
    const IN_ANY_CASE: [&str; 4] = ["chrome", "chromeframe", "safari", "mobile"];
    let agent = joined(fields, MOBILE_FIELDS[0]);
    let lower = agent.to_ascii_lowercase();
    let has = |text: &[u8], word: &str| memchr::memmem::find(text, word.as_bytes()).is_some();
    let words = WORDS.iter().map(|word| has(&agent, word));
    for is_there in words.chain(IN_ANY_CASE.iter().map(|word| has(&lower, word))) {
        out.push(if is_there { b'1' } else { b'0' });
    }
}

/// All that decides `$is_IE` and its like: without one of these words none of them is true, in any version of WordPress.
fn ie<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone, out: &mut Vec<u8>) {
    const WORDS: [&[u8]; 3] = [b"msie", b"trident", b"chromeframe"];
    let mut agents = values_of(fields.clone(), MOBILE_FIELDS[0]);
    if agents.any(|agent| has_one_of(agent, &WORDS)) {
        browser(fields, out);
    }
}

/// Whether a text contains one of these words, in upper or lower case.
fn has_one_of(text: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|word| text.windows(word.len()).any(|at| at.eq_ignore_ascii_case(word)))
}

/// All that decides whether the client is WordPress's mobile app: without one of these texts it is not. Jetpack removes backslashes before it looks.
fn app<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone, out: &mut Vec<u8>) {
    const TEXTS: [&[u8]; 3] = [b"wp-", b"wordpress/", b"\\"];
    let agent = joined(fields, MOBILE_FIELDS[0]);
    if has_one_of(&agent, &TEXTS) {
        out.extend_from_slice(&agent);
    }
}

/// All that decides which formats of images LiteSpeed Cache puts into a page.
fn images<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone, out: &mut Vec<u8>) {
    image_formats::write(&joined(fields.clone(), "accept"), &joined(fields, MOBILE_FIELDS[0]), out);
}

/// The cookies that count, in order.
fn cookies(rules: &Rules, one: Option<&str>, value: &[u8], out: &mut Vec<u8>) {
    for (name, cookie) in each_cookie(value) {
        let mut room = [0; 128];
        let seen = as_php_sees(name, &mut room).unwrap_or(name);
        let counts = match (one, &rules.vary_cookies) {
            (Some(one), _) => seen == one.as_bytes(),
            (None, VaryCookies::Only(patterns)) => patterns.matches(seen),
            (None, VaryCookies::AllButHarmless) => {
                let is_shown = rules.unknown_cookies == UnknownCookies::Observed && rules.is_consent(seen);
                !rules.is_harmless(seen) || is_shown
            }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ask::write_fill_cookies;
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
    fn lists_are_compared_by_their_members_where_only_the_rfc_counts() {
        let rules = Rules::standard();
        // RFC 9111 section 4.1
        assert!(same(&rules, "accept", &["1, 2"], &["1", "2"]));
        assert!(same(&rules, "accept-language", &["1,2"], &[" 1, 2 "]));
        assert!(!same(&rules, "accept", &["1"], &["2"]));
        assert!(!same(&rules, "accept", &["1, 2"], &["2, 1"]));
        assert!(!same(&rules, "accept", &["\"1, 2\""], &["\"1,2\""]));
        for name in ["accept", "foo"] {
            assert!(!same(&rules, name, &[], &["1"]));
            assert!(!same(&rules, name, &[], &[""]));
        }
        // Whether these are lists is unknown; that they may be joined is not.
        assert!(same(&rules, "foo", &["1, 2"], &["1", "2"]));
        assert!(!same(&rules, "foo", &["1,2"], &["1, 2"]));
        assert!(!same(&rules, "user-agent", &["X (KHTML, like)"], &["X (KHTML,like)"]));
    }

    #[test]
    fn values_that_a_script_tells_apart_are_different() {
        for rules in [Rules::standard(), Rules::profile()] {
            for (name, one, other) in [
                // Markdown for an agent, HTML for Safari.
                ("accept", "text/markdown, text/html, */*", "text/html,application/xhtml+xml,*/*;q=0.8"),
                ("accept", "text/calendar", "text/csv"),
                ("accept", "application/vnd.v1+json", "application/vnd.v2+json"),
                ("accept", "application/ld+json", "application/json"),
                ("accept", "text/html,text/xml", "text/xml,text/html"),
                ("accept", "text/html;q=0.5,text/xml", "text/html,text/xml"),
                // `substr($_SERVER['HTTP_ACCEPT_LANGUAGE'], 0, 2)`
                ("accept-language", "en, de", "de, en"),
                ("accept-language", "de, en;q=0.9", "de, en;q=0.5"),
                ("accept-language", "de", "DE"),
                ("user-agent", "Mozilla/5.0 (X11) Chrome/1", "Mozilla/5.0 (X11) Firefox/1"),
                ("user-agent", "iPhone Mobile 1", "iPhone Mobile 2"),
                ("sec-ch-ua-mobile", "?1", "?0"),
            ] {
                assert!(!same(&rules, name, &[one], &[other]), "{name}: {one} and {other}");
                assert!(same(&rules, name, &[one], &[one]));
            }
        }
        // An administrator's word that the class is all that matters.
        let by_device = Rules { key_device: true, ..Rules::profile() };
        assert!(same(&by_device, "user-agent", &["(X11) Chrome/1"], &["(Windows) Firefox/99"]));
        assert!(!same(&by_device, "user-agent", &["(X11)"], &["(iPhone) Mobile/1"]));
    }

    #[test]
    fn wordpress_asks_for_the_hint_and_then_for_words_of_the_agent() {
        let rules = Rules::profile();
        let of = |fields: &[(&str, &str)]| value(&rules, MOBILE, fields);
        assert_eq!(of(&[]), "d");
        assert_eq!(of(&[("User-Agent", "Mozilla/5.0 (X11) Chrome/1")]), "d");
        for word in
            ["iPhone Mobile/1", "Android 1", "Silk/1", "Kindle", "BlackBerry", "Opera Mini", "Opera Mobi"]
        {
            assert_eq!(of(&[("User-Agent", word)]), "m", "{word}");
        }
        assert_eq!(of(&[("User-Agent", "silk/ mobile")]), "d", "case counts there");
        assert_eq!(of(&[("User-Agent", "X11"), ("sec-ch-ua-mobile", "?1")]), "d1");
        assert_eq!(of(&[("User-Agent", "Mobile"), ("Sec-CH-UA-Mobile", "?0")]), "m0");
        assert_eq!(
            of(&[("Sec-CH-UA-Mobile", "?1"), ("Sec-CH-UA-Mobile", "?1")]),
            "d0",
            "joined, it is neither"
        );
        assert_eq!(of(&[("Sec-CH-UA-Mobile", "")]), "d0");
    }

    #[test]
    fn browsers_are_known_by_what_wordpress_looks_for() {
        let of = |agent: &str| value(&Rules::profile(), BROWSER, &[("User-Agent", agent)]);
        const CHROME: &str =
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130 Safari/537.36";
        assert_eq!(of(CHROME), of(&CHROME.replace("130", "131")), "versions are not looked at");
        assert_eq!(of("curl/8"), of(""));
        let all = [
            CHROME,
            "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130 Safari/537.36 Edg/130",
            "Mozilla/5.0 (iPhone) AppleWebKit/605 (KHTML, like Gecko) Version/18 Mobile/15E148 Safari/604",
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 14) AppleWebKit/605 (KHTML, like Gecko) Version/18 Safari/605",
            "Mozilla/5.0 (X11; Linux; rv:132) Gecko/20100101 Firefox/132",
            "Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1)",
            "mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1)",
            "Lynx/2",
            "chrome",
            "",
        ];
        for (at, agent) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| of(other) != of(agent)), "{agent}");
        }
    }

    #[test]
    fn only_internet_explorers_differ_where_nothing_else_is_asked() {
        let of = |agent: &str| value(&Rules::profile(), IE, &[("User-Agent", agent)]);
        let others = [
            "",
            "curl/8",
            "Mozilla/5.0 (iPhone) Mobile Safari/604",
            "Mozilla/5.0 (X11) Chrome/130 Safari/537.36 Edg/130",
            "Lynx",
        ];
        assert!(others.iter().all(|agent| of(agent).is_empty()));
        let (eight, eleven) = (
            "Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1)",
            "Mozilla/5.0 (Windows NT 6.1; Trident/7.0; rv:11.0) like Gecko",
        );
        assert!(
            of(eight) != of(eleven)
                && !of(eight).is_empty()
                && of(eight) != of("Mozilla/4.0 (compatible; MSIE 5.2; Mac_PowerPC)")
        );
        assert!(!of("x ChromeFrame/29 Chrome/29").is_empty());
    }

    #[test]
    fn only_apps_differ_where_nothing_else_is_asked() {
        let of = |agent: &str| value(&Rules::profile(), APP, &[("User-Agent", agent)]);
        let browsers = ["", "curl/8", "Mozilla/5.0 (iPhone) Mobile Safari/604", "Lynx"];
        assert!(browsers.iter().all(|agent| of(agent).is_empty()));
        for app in [
            "wp-iphone/20",
            "Mozilla/5.0 WP-Android/9",
            "WordPress/3.1.4 CFNetwork/609",
            "wp\\-android",
            "w\\p-android",
        ] {
            assert_eq!(of(app), format!("={app}"));
        }
        let joined = value(&Rules::profile(), APP, &[("User-Agent", "a"), ("User-Agent", "wp-nokia")]);
        assert_eq!(joined, "=a, wp-nokia");
    }

    #[test]
    fn cookies_that_count() {
        let header = |text: &'static str| [("Cookie", text)];
        let mut rules = Rules::profile();
        assert_eq!(value(&rules, "cookie", &header("_ga=1; a=2;b=3; cookieyes-consent=x")), "a=2;b=3;");
        // A script that looks for one gets those of consent, too.
        rules.unknown_cookies = UnknownCookies::Observed;
        assert_eq!(
            value(&rules, "cookie", &header("_ga=1; a=2; cookieyes-consent=x")),
            "a=2;cookieyes-consent=x;"
        );
        rules.vary_cookies = VaryCookies::Only(Patterns::new(["SESS*", "SSESS*"]));
        assert_eq!(value(&rules, "cookie", &header("_ga=1; x=2")), value(&rules, "cookie", &[]));
        assert_eq!(value(&rules, "cookie", &header("x=2; SESSab=1")), "SESSab=1;");
        assert_eq!(value(&Rules::standard(), "cookie", &header("_ga=1;x=2")), "_ga=1;x=2;");
        assert_eq!(value(&rules, "cookie=lang", &header("langs=1; lang=de; x=1")), "lang=de;");
        let two = [("cookie", "lang=de"), ("Cookie", "lang=en")];
        assert_eq!(value(&rules, "cookie=lang", &two), "lang=de;lang=en;");
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

    /// The field as PHP gets it when it makes a page for all (`php/variables.rs`); `None`: it has none.
    fn seen_by_php(rules: &Rules, name: &str, lines: &[String]) -> Option<Vec<u8>> {
        let shown = lines.iter().map(|line| {
            let mut shown = Vec::new();
            match name {
                "cookie" => _ = write_fill_cookies(rules, line.as_bytes(), &mut shown),
                _ => shown.extend_from_slice(line.as_bytes()),
            }
            shown
        });
        let shown: Vec<Vec<u8>> = shown.filter(|line| name != "cookie" || !line.is_empty()).collect();
        let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
        (!shown.is_empty()).then(|| shown.join(separator))
    }

    /// `Accept` by the grammar of RFC 9110 section 12.5.1, from few parts, so that values that are nearly the same are frequent.
    fn media_ranges() -> impl Strategy<Value = String> {
        let kind = prop::sample::select(vec![
            "text/html",
            "text/*",
            "*/*",
            "text/markdown",
            "application/json",
            "application/ld+json",
            "image/webp",
            "application/vnd.v1+json",
            "application/vnd.v2+json",
            "text/x;a=\"1, 2\"",
            "text/x;a=\"1,2\"",
            "Text/HTML",
            "text/html;level=1",
        ]);
        let weight =
            prop::sample::select(vec!["", "", ";q=1", ";q=0.5", "; q=0.5", ";q=0", ";Q=0.5", ";q=0.500"]);
        let member = (kind, weight).prop_map(|(kind, weight)| format!("{kind}{weight}"));
        let separator = prop::sample::select(vec![",", ", ", " , ", ",,"]);
        (prop::collection::vec(member, 0..4), separator)
            .prop_map(|(members, separator)| members.join(separator))
    }

    fn languages() -> impl Strategy<Value = String> {
        let language = prop::sample::select(vec![
            "de",
            "DE",
            "de-CH",
            "en",
            "*",
            "en;q=0.5",
            "en;q=0.50",
            "fr; q=0.5",
            "de;q=0",
        ]);
        prop::collection::vec(language, 0..4).prop_map(|list| list.join(", "))
    }

    fn agents() -> impl Strategy<Value = String> {
        prop::sample::select(vec![
            "",
            "Mozilla/5.0 (X11)",
            "Mozilla/5.0 (X11) (KHTML, like Gecko)",
            "Mozilla/5.0 (X11) (KHTML,like Gecko)",
            "iPhone Mobile/1",
            "iPhone Mobile/2",
            "Android",
        ])
        .prop_map(str::to_owned)
    }

    fn some_cookies() -> impl Strategy<Value = String> {
        let cookie = prop::sample::select(vec![
            "_ga=1",
            "_ga=2",
            "_ga.x=1",
            "_ga[x]=3",
            "%5Fga=1",
            "cur=USD",
            "cur=EUR",
            "c.ur=1",
            "SESSa=1",
            "SESSa=2",
            "S.ESS=1",
            "eucookielaw=1",
            "x",
            "_ga",
        ]);
        prop::collection::vec(cookie, 0..4).prop_map(|list| list.join("; "))
    }

    fn lines(value: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec(value, 0..3)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// Requests of one variant are the same to the script that made it.
        #[test]
        fn equal_values_mean_that_php_sees_the_same(
            accepts in [lines(media_ranges()), lines(media_ranges())],
            languages in [lines(languages()), lines(languages())],
            agents in [lines(agents()), lines(agents())],
            cookies in [lines(some_cookies()), lines(some_cookies())],
        ) {
            let known = Rules { vary_cookies: VaryCookies::Only(Patterns::new(["SESS*"])), ..Rules::profile() };
            for rules in [Rules::profile(), known] {
                for (name, [one, other]) in [("accept", &accepts), ("accept-language", &languages), ("user-agent", &agents), ("cookie", &cookies)] {
                    let of = |lines: &[String]| value(&rules, name, &lines.iter().map(|line| (name, &line[..])).collect::<Vec<_>>());
                    if of(one) == of(other) {
                        prop_assert_eq!(seen_by_php(&rules, name, one), seen_by_php(&rules, name, other), "{}: {:?} {:?}", name, one, other);
                    }
                }
            }
        }
    }
}
