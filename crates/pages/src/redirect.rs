//! Redirects for requests with arguments that keys leave out: `utm_source`, `gclid`. The script that has made the redirect has not seen
//! them, but the page to which it leads is to get them: its scripts in the browser count the campaign.

use crate::rules::Patterns;

/// `location` with the arguments of `query` that keys leave out. `None`: it leads to another site, or nobody knows where; only the script
/// itself can say what it does with them. `is_own`: whether a host, without its port, is the site's.
pub fn with_arguments(
    location: &[u8],
    dropped: &Patterns,
    query: &[u8],
    is_own: impl Fn(&str) -> bool,
) -> Option<Vec<u8>> {
    if !leads_here(location, is_own) || !query.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    let end = memchr::memchr(b'#', location).unwrap_or(location.len());
    let (target, fragment) = location.split_at(end);
    let mut out = target.to_vec();
    let there = memchr::memchr(b'?', target).map_or(&[][..], |at| &target[at + 1..]);
    for argument in query.split(|byte| *byte == b'&') {
        let is_there = || there.split(|byte| *byte == b'&').any(|other| name(other) == name(argument));
        if dropped.matches(name(argument)) && !is_there() {
            match out.last() {
                Some(b'?' | b'&') => {}
                _ if out.contains(&b'?') => out.push(b'&'),
                _ => out.push(b'?'),
            }
            out.extend_from_slice(argument);
        }
    }
    out.extend_from_slice(fragment);
    Some(out)
}

fn name(argument: &[u8]) -> &[u8] {
    &argument[..memchr::memchr(b'=', argument).unwrap_or(argument.len())]
}

/// Whether a `Location` leads to the site itself. What browsers may read in another way does not.
fn leads_here(location: &[u8], is_own: impl Fn(&str) -> bool) -> bool {
    let is_plain = location.iter().all(|byte| !byte.is_ascii_control() && !matches!(byte, b'\\' | b' '));
    let Some(text) = std::str::from_utf8(location).ok().filter(|text| is_plain && !text.is_empty()) else {
        return false;
    };
    let scheme = text.split_once("//").filter(|(before, _)| {
        before.is_empty() || before.eq_ignore_ascii_case("http:") || before.eq_ignore_ascii_case("https:")
    });
    match scheme {
        Some((_, rest)) => {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
            !authority.contains(['@', '[']) && is_own(host)
        }
        // `mailto:x`, `javascript:x`: a colon in front of everything that ends a scheme.
        None => !text.split(['/', '?', '#']).next().unwrap_or_default().contains(':'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(location: &str, query: &str) -> Option<String> {
        let dropped = Patterns::new(["utm_*", "gclid"]);
        let is_own = |host: &str| host.eq_ignore_ascii_case("shop.test");
        let location = with_arguments(location.as_bytes(), &dropped, query.as_bytes(), is_own)?;
        Some(String::from_utf8(location).unwrap())
    }

    #[test]
    fn the_sites_own_targets_get_what_the_key_left_out() {
        for (location, query, expected) in [
            ("/new/", "utm_source=a&gclid=b", "/new/?utm_source=a&gclid=b"),
            ("/new/", "page=2&utm_source=a", "/new/?utm_source=a"),
            ("/new/?page=2", "page=2&utm_source=a", "/new/?page=2&utm_source=a"),
            ("https://Shop.test/new/#top", "gclid=b%20c", "https://Shop.test/new/?gclid=b%20c#top"),
            ("http://shop.test:8080?x", "gclid=b", "http://shop.test:8080?x&gclid=b"),
            ("//shop.test/a", "gclid=b", "//shop.test/a?gclid=b"),
            ("new?", "gclid=b", "new?gclid=b"),
            ("?p=1", "gclid=b", "?p=1&gclid=b"),
            ("/new/?gclid=theirs", "gclid=b&utm_x", "/new/?gclid=theirs&utm_x"),
            ("/a:b/", "gclid=b", "/a:b/?gclid=b"),
            ("/go?to=http://evil.test/", "gclid=b", "/go?to=http://evil.test/&gclid=b"),
            ("/new/", "page=2", "/new/"),
        ] {
            assert_eq!(carried(location, query).as_deref(), Some(expected), "{location} {query}");
        }
    }

    #[test]
    fn others_are_left_to_the_script() {
        for location in [
            "https://partner.test/?aff=1",
            "//partner.test/",
            "https://shop.test@evil.test/",
            "https://evil.test#@shop.test/",
            "/\\evil.test/",
            "mailto:a@shop.test",
            "app:open",
            "",
            "/a b",
            "https://[::1]/",
        ] {
            assert_eq!(carried(location, "gclid=b"), None, "{location}");
        }
        assert_eq!(carried("/new/", "gclid=\u{e9}"), None);
    }
}
