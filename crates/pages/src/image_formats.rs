//! LiteSpeed Cache's "WebP replacement" asks which formats of images a browser takes (`LiteSpeed\Media::_browser_support_next_gen()`, before
//! 7.0 `webp_support()`). This module appends to a page's variant key what the plugin's answer
//! depends on. It covers the plugin's releases that are listed in php/c/rewind/functions/known.
//!
//! The plugin removes what WordPress's `sanitize_text_field()` removes before it looks: octets such as `%41`, tags, backslashes. So a value with
//! anything but common characters counts as it is.

/// Words of crawlers that take them, whatever their `Accept` says.
const CRAWLERS: [&[u8]; 3] = [b"chrome-lighthouse", b"googlebot", b"page speed"];

/// From this version on Safari on a Mac takes them.
const SAFARI: [u32; 2] = [16, 4];

/// Appends what decides it: of `Accept` and of `User-Agent`, each as PHP sees it, with a line feed between them, which no value has.
pub fn write(accept: &[u8], agent: &[u8], out: &mut Vec<u8>) {
    match is_common(accept) {
        true => out.extend([b"image/webp", b"image/avif"].map(|format| bit(find(accept, format).is_some()))),
        false => out.extend_from_slice(accept),
    }
    out.push(b'\n');
    match is_common(agent).then(|| of_agent(agent)).flatten() {
        Some(bits) => out.extend(bits.map(bit)),
        None => out.extend_from_slice(agent),
    }
}

fn bit(is_set: bool) -> u8 {
    if is_set { b'1' } else { b'0' }
}

/// Whether WordPress would leave a text as it is.
fn is_common(text: &[u8]) -> bool {
    const SIGNS: &[u8] = b"().,;:/_+*=-?!&@#~[]{}|";
    text.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b' ' || SIGNS.contains(byte))
        && memchr::memmem::find(text, b"  ").is_none()
}

/// A crawler; an iPhone with iOS 14; a Mac with Safari 16.4; Firefox 65. `None`: a version that is no common one.
fn of_agent(agent: &[u8]) -> Option<[bool; 4]> {
    let lower = agent.to_ascii_lowercase();
    Some([
        CRAWLERS.iter().any(|word| find(&lower, word).is_some()),
        number(&lower, b"iphone os ", b"_")?.is_some_and(|version| version >= 14),
        safari_on_mac(&lower)?.is_some_and(|version| version[..] >= SAFARI[..]),
        number(&lower, b"firefox/", b"")?.is_some_and(|version| version >= 65),
    ])
}

/// The first number with `before` in front of it and `after` behind it. `None`: it is no common one.
fn number(text: &[u8], before: &[u8], after: &[u8]) -> Option<Option<u32>> {
    let mut rest = text;
    while let Some(at) = find(rest, before) {
        rest = &rest[at + before.len()..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 && rest[digits..].starts_with(after) {
            return Some(Some(parsed(&rest[..digits])?));
        }
    }
    Some(None)
}

/// The last version behind `Macintosh`, as `Macintosh.+Version/([0-9.]+)` finds it. `None`: it is no common one.
fn safari_on_mac(text: &[u8]) -> Option<Option<Vec<u32>>> {
    const MAC: &[u8] = b"macintosh";
    const VERSION: &[u8] = b"version/";
    let Some(at) = find(text, MAC) else { return Some(None) };
    // At least one character is between them.
    let after = text.get(at + MAC.len() + 1..).unwrap_or_default();
    let mut end = after.len();
    while let Some(at) = memchr::memmem::rfind(&after[..end], VERSION) {
        let version = &after[at + VERSION.len()..];
        let length = version.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        if length > 0 {
            return Some(Some(
                version[..length].split(|byte| *byte == b'.').map(parsed).collect::<Option<_>>()?,
            ));
        }
        end = at;
    }
    Some(None)
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, word)
}

/// A number of up to four digits.
fn parsed(digits: &[u8]) -> Option<u32> {
    let is_common = (1..=4).contains(&digits.len()) && (digits.len() == 1 || digits[0] != b'0');
    std::str::from_utf8(digits).ok().filter(|_| is_common)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/";
    const SAFARI: &str =
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/";
    const PHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS ";

    fn value(accept: &str, agent: &str) -> String {
        let mut out = Vec::new();
        write(accept.as_bytes(), agent.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_browsers_say() {
        for (accept, agent, expected) in [
            ("", String::new(), "00\n0000"),
            ("text/html, */*;q=0.8", "curl/8".to_owned(), "00\n0000"),
            ("image/webp,*/*", String::new(), "10\n0000"),
            ("image/avif,image/webp", String::new(), "11\n0000"),
            ("image/WEBP", String::new(), "00\n0000"),
            ("", format!("{FIREFOX}64.0"), "00\n0000"),
            ("", format!("{FIREFOX}65.0"), "00\n0001"),
            ("", format!("{PHONE}13_7 like Mac OS X) Version/13.1 Safari/604.1"), "00\n0000"),
            ("", format!("{PHONE}14_0 like Mac OS X) Version/14.0 Safari/604.1"), "00\n0100"),
            ("", format!("{SAFARI}16.3.1 Safari/605.1.15"), "00\n0000"),
            ("", format!("{SAFARI}16.4 Safari/605.1.15"), "00\n0010"),
            ("", format!("{SAFARI}17 Safari/605.1.15"), "00\n0010"),
            ("", "Googlebot/2.1 (+http://www.google.com/bot.html)".to_owned(), "00\n1000"),
        ] {
            assert_eq!(value(accept, &agent), expected, "{accept} {agent}");
        }
    }

    /// What WordPress would remove may make another text of it.
    #[test]
    fn odd_values_count_as_they_are() {
        for accept in [
            "image/w%41ebp",
            "<a>image/webp",
            "image/\\webp",
            "image/\u{e9}webp",
            "image/  webp",
            "image/\tjxl",
        ] {
            assert_eq!(value(accept, ""), format!("{accept}\n0000"));
        }
        for agent in
            ["page  speed", "%41Googlebot", "Firefox/00065", "Firefox/99999", "Macintosh Version/16..4"]
        {
            assert_eq!(value("", agent), format!("00\n{agent}"));
        }
    }

    /// Odd values that are divided elsewhere are others.
    #[test]
    fn values_do_not_run_into_each_other() {
        assert_ne!(value("%", "Googlebot% 0000"), value("% Googlebot%", ""));
        assert_ne!(value("%", "x%"), value("% x%", ""));
    }

    proptest! {
        /// The plugin's own look, by regular expressions as PHP has them, gives the same for values that count as the same.
        #[test]
        fn versions_are_those_of_the_plugin(agent in "(Macintosh|iPhone OS |Firefox/|Version/|[0-9]{1,3}|[._ ;]){0,9}") {
            let first = |pattern: &str| regex::Regex::new(pattern).unwrap().captures(&agent).map(|found| found[1].to_owned());
            let least = |found: Option<String>, least: u32| found.is_some_and(|digits| digits.parse::<u32>().unwrap() >= least);
            let phone = least(first(r"(?i)iPhone OS (\d+)_"), 14);
            let firefox = least(first(r"(?i)Firefox/(\d+)"), 65);
            let said = value("", &agent);
            if let Some(bits) = said.strip_prefix("00\n").filter(|bits| bits.len() == 4 && bits.bytes().all(|bit| matches!(bit, b'0' | b'1'))) {
                prop_assert_eq!(&bits[1..2] == "1", phone, "{}", agent);
                prop_assert_eq!(&bits[3..] == "1", firefox, "{}", agent);
                if let Some(version) = first(r"(?i)Macintosh.+Version/([0-9.]+)") {
                    let numbers: Vec<u32> = version.split('.').map(|number| number.parse().unwrap()).collect();
                    prop_assert_eq!(&bits[2..3] == "1", numbers >= vec![16, 4], "{}", agent);
                }
            }
        }
    }
}
