//! Which cookies a page's script has looked for: with one of them, a visitor doesn't get the stored page.
//!
//! Nobody knows what an unknown cookie means: a currency, a language, a name. So a script that makes a page for all doesn't see
//! those of the visitor whose request it is (`php/c/cookies.c`), until it looks for one of them; then the response is this visitor's
//! own. And it says what it has looked for:
//!
//! ```text
//!   -                  for no cookie: visitors with any unknown cookie get the page
//!   - cur ?lang        for the value of `cur`, and whether there is a `lang`: visitors with one of them get their own from PHP
//!   - *                for all cookies: so do visitors with any unknown cookie
//!   + cur              and it got a cookie of this visitor: the response is not stored
//!   - = app_session    the application says by millrace_visitor() what its sessions' cookies mean
//! ```
//!
//! A page that depends on cookies in this way varies by [`READS`]`cur`, as if that was a field of the request; there is only one
//! variant, that of requests without such a cookie. Cookies are known, and don't count, if they are harmless, part of the key, or of the
//! application, which says itself what they mean ([`crate::visitors`]). A harmless one counts if the script has looked for it by its name; those
//! of consent are withheld like unknown ones. A visitor with the cookie of a session asks for a page only if it
//! was found to mean nothing. By PHP: then whether it is there says no more, but what it is called may. By the application: then its
//! value says no more.

use crate::ask::{add_cookie, as_php_sees, each_cookie};
use crate::notes::Notes;
use crate::rules::{Rules, UnknownCookies, VaryCookies};

/// Prefix of a cookie's name among the names by which a page varies; `*`: all unknown cookies.
pub const READS: &str = ":reads=";

/// All cookies.
const ALL: &str = ":reads=*";

/// A page whose script has looked for more cookies depends on all.
const MOST_NAMES: usize = 10;

/// What a response depends on.
#[derive(Debug, Default)]
pub struct Looked {
    /// Names for [`crate::Terms::vary`].
    pub names: Vec<Box<str>>,
    /// It depends on a cookie of the visitor whose request it was.
    pub is_own: bool,
}

impl Looked {
    /// What a script has said, whose response varies by the fields `vary`.
    pub fn hear(rules: &Rules, notes: &Notes, vary: &[Box<str>]) -> Looked {
        if rules.unknown_cookies != UnknownCookies::Observed {
            return Looked::default();
        }
        let by_cookies = vary.iter().any(|name| &**name == "cookie");
        if by_cookies && !matches!(rules.vary_cookies, VaryCookies::Only(_)) {
            // Each value has a variant of its own.
            return Looked::default();
        }
        let note = notes.cookies.as_deref().unwrap_or(b"- *");
        let mut parts = note.split(|byte| *byte == b' ');
        let has_got = parts.next() == Some(b"+");
        let mut names: Vec<Box<str>> = Vec::new();
        let mut is_judged = false;
        for part in parts {
            if part == b"=" {
                is_judged = true;
                continue;
            }
            if part == b"*" {
                return Looked { is_own: has_got, names: if by_cookies { names } else { vec![ALL.into()] } };
            }
            let name = part.strip_prefix(b"?").unwrap_or(part);
            let Ok(text) = std::str::from_utf8(name) else { continue };
            let of_session = || (is_judged || part.starts_with(b"?")) && rules.bypass_cookies.matches(name);
            let is_field = || vary.iter().any(|field| field.strip_prefix("cookie=") == Some(text));
            let counts = is_unknown(rules, name) || rules.is_harmless(name);
            if counts && !of_session() && !is_field() {
                names.push(format!("{READS}{text}").into());
            }
        }
        let is_own = has_got && !names.is_empty();
        if by_cookies {
            // The application says that only its own cookies matter.
            names.clear();
        } else if names.len() > MOST_NAMES {
            names = vec![ALL.into()];
        }
        Looked { names, is_own }
    }
}

/// Whether nobody knows what a cookie of this name (as PHP sees it) means.
pub fn is_unknown(rules: &Rules, name: &[u8]) -> bool {
    !rules.is_harmless(name)
        && !rules.key_cookies.matches(name)
        && !rules.judged_cookies.matches(name)
        && !rules.chosen_cookies.matches(name)
}

/// Whether a page for all is made without a cookie of this name until its script looks for it; if the script looks at all cookies, it concerns
/// these.
fn is_withheld(rules: &Rules, name: &[u8]) -> bool {
    is_unknown(rules, name) || rules.is_consent(name)
}

/// The first cookie among these fields that is meant by a name that begins with [`READS`].
pub fn found<'a>(
    rules: &Rules,
    mut fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    name: &str,
) -> Option<&'a [u8]> {
    let wanted = name.strip_prefix(READS)?.as_bytes();
    fields.find_map(|(field, value)| {
        let values = field.eq_ignore_ascii_case("cookie").then_some(value);
        values
            .into_iter()
            .flat_map(each_cookie)
            .map(|(name, _)| name)
            .find(|name| is_meant(rules, wanted, name))
    })
}

/// Whether a request with these fields has a cookie that is withheld.
pub fn has_withheld<'a>(rules: &Rules, fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> bool {
    rules.unknown_cookies != UnknownCookies::Ignored && found(rules, fields, ALL).is_some()
}

/// Whether the request has a cookie that the cache doesn't know.
pub fn has_unknown<'a>(rules: &Rules, mut fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> bool {
    let is_one = |name: &[u8]| is_meant(rules, b"*", name) && !rules.is_consent(name);
    rules.unknown_cookies != UnknownCookies::Ignored
        && fields.any(|(field, value)| {
            field.eq_ignore_ascii_case("cookie") && each_cookie(value).any(|(name, _)| is_one(name))
        })
}

fn is_meant(rules: &Rules, wanted: &[u8], name: &[u8]) -> bool {
    // PHP makes an array of these, or another name in another version.
    let is_plain = name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    let mut room = [0; 128];
    match as_php_sees(name, &mut room) {
        Some(seen) if is_plain || !is_unknown(rules, seen) => match wanted {
            b"*" => is_withheld(rules, seen),
            _ => wanted == seen && (is_unknown(rules, seen) || rules.is_harmless(seen)),
        },
        _ => true,
    }
}

/// Divides a `Cookie` field: what the script of a page for all sees of it, and what it gets only if it looks for it. Both are appended.
/// A field that is not divided stays as it is, with its blanks: PHP takes them for a part of the value.
pub fn divide(rules: &Rules, value: &[u8], seen: &mut Vec<u8>, withheld: &mut Vec<u8>) {
    let is_withheld = |name: &[u8]| {
        let mut room = [0; 128];
        is_withheld(rules, as_php_sees(name, &mut room).unwrap_or(name))
    };
    if each_cookie(value).all(|(name, _)| is_withheld(name)) {
        return add_cookie(withheld, value);
    }
    for (name, cookie) in each_cookie(value) {
        let mut room = [0; 128];
        if is_withheld(name) {
            add_cookie(withheld, cookie);
        } else if !rules.is_harmless(as_php_sees(name, &mut room).unwrap_or(name)) {
            add_cookie(seen, cookie);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Patterns;

    fn rules() -> Rules {
        let mut rules = Rules::profile();
        rules.unknown_cookies = UnknownCookies::Observed;
        rules.judged_cookies = Patterns::new(["wordpress_*"]);
        rules.bypass_cookies.extend(["wordpress_*"]);
        rules
    }

    fn looked(rules: &Rules, note: Option<&str>, vary: &[&str]) -> (String, bool) {
        let cookies = note.map(|note| note.as_bytes().into());
        let vary: Vec<Box<str>> = vary.iter().map(|name| Box::from(*name)).collect();
        let looked = Looked::hear(rules, &Notes { cookies, ..Notes::default() }, &vary);
        (looked.names.join(" "), looked.is_own)
    }

    #[test]
    fn what_a_page_depends_on() {
        let observed = rules();
        for (note, vary, names, is_own) in [
            (None, &[][..], ":reads=*", false),
            (Some("-"), &[], "", false),
            (Some("- cur ?lang"), &[], ":reads=cur :reads=lang", false),
            (Some("- wordpress_logged_in_1 _lscache_vary"), &[], "", false),
            // Known as harmless, but read in PHP all the same.
            (Some("- _ga"), &[], ":reads=_ga", false),
            (Some("+ cookieyes-consent"), &[], ":reads=cookieyes-consent", true),
            (Some("- ?PHPSESSID"), &[], "", false),
            (Some("- PHPSESSID"), &[], ":reads=PHPSESSID", false),
            (Some("- = my_session cur"), &[], ":reads=cur", false),
            (Some("+ cur"), &[], ":reads=cur", true),
            (Some("+ *"), &[], ":reads=*", true),
            (Some("- a b c d e f g h i j k"), &[], ":reads=*", false),
            (Some("+ lang"), &["cookie=lang"], "", false),
            (Some("+ lang cur"), &["cookie=lang"], ":reads=cur", true),
            (Some("+ *"), &["cookie"], "", false),
        ] {
            assert_eq!(looked(&observed, note, vary), (names.to_owned(), is_own), "{note:?} {vary:?}");
        }
        let mut known = rules();
        known.vary_cookies = VaryCookies::Only(Patterns::new(["SESS*"]));
        assert_eq!(looked(&known, Some("- *"), &["cookie"]), (String::new(), false));
        assert_eq!(looked(&known, Some("+ *"), &["cookie"]), (String::new(), true), "for this visitor only");
        assert_eq!(looked(&Rules::standard(), Some("+ cur"), &[]), (String::new(), false));
    }

    #[test]
    fn who_does_not_get_it() {
        let rules = rules();
        let has = |cookies: &'static str, name: &str| {
            found(&rules, [("Cookie", cookies.as_bytes())].into_iter(), name).is_some()
        };
        for cookies in ["cur=1", "a=1; cur=2", "c%75r=1", "cur[x]=1", "%63ur=1"] {
            assert!(has(cookies, ":reads=cur"), "{cookies}");
        }
        for cookies in ["curs=1", "_ga=1; x=1", "wordpress_logged_in_1=x", ""] {
            assert!(!has(cookies, ":reads=cur"), "{cookies}");
        }
        assert!(has("_ga=1", ":reads=_ga") && has("CookieConsent=1", ":reads=CookieConsent"));
        assert!(has("CookieConsent=1", ALL) && !has("CookieConsent=1", ":reads=_ga"));
        let unknown =
            |cookies: &'static str| has_unknown(&rules, [("cookie", cookies.as_bytes())].into_iter());
        assert!(unknown("x=1; CookieConsent=1") && !unknown("CookieConsent=1; _ga=1"));
        assert!(has("x=1", ALL) && has("PHPSESSID=1", ALL) && !has("_ga=1; wordpress_logged_in_1=x", ALL));
    }

    #[test]
    fn a_cookie_is_seen_withheld_or_dropped() {
        let (mut seen, mut withheld) = (Vec::new(), Vec::new());
        divide(&rules(), b"_ga=1; cur=USD; _lscache_vary=a; CookieConsent=2", &mut seen, &mut withheld);
        assert_eq!((&seen[..], &withheld[..]), (&b"_lscache_vary=a"[..], &b"cur=USD; CookieConsent=2"[..]));
        let mut whole = Vec::new();
        divide(&rules(), b"a=1  ; b= 2 ;;c", &mut seen, &mut whole);
        assert_eq!(whole, b"a=1  ; b= 2 ;;c");
    }
}
