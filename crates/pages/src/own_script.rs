//! Requests that the application's own script in the browser sends.
//!
//! WooCommerce's blocks request the cart with each page. Visitors without a session could all have the same response, but WooCommerce
//! adds a `Cart-Token` to it, by which others - express payments, headless shops - go on with a new cart of their own. They need a
//! response of their own; WooCommerce's script reads the content and `Nonce` only. It sends
//!
//! ```text
//! fetch(url, { method: 'GET', cache: 'no-store', headers: { 'Content-Type': 'application/json' } })
//! ```
//!
//! and no other script is known to send a GET with the type of a content that it does not have. `Sec-Fetch-Site` comes from the browser; a
//! page can't set it. A client that forges all this gets a response without a token, which harms no other client.

use crate::ask::{as_php_sees, each_cookie};
use crate::rules::Rules;

/// Whether these are the fields of such a request, and no cookie in it means anything.
pub fn sends<'a>(rules: &Rules, fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone) -> bool {
    has(fields.clone(), "sec-fetch-site", |value| value == b"same-origin")
        && has(fields.clone(), "accept", |value| value == b"*/*")
        && has(fields.clone(), "content-type", |value| value.eq_ignore_ascii_case(b"application/json"))
        && has(fields.clone(), "cache-control", |value| value.eq_ignore_ascii_case(b"no-cache"))
        && fields
            .filter(|(name, _)| name.eq_ignore_ascii_case("cookie"))
            .all(|(_, value)| is_harmless(rules, value))
}

/// Whether a field is there once, and has a value that `is` accepts.
fn has<'a>(
    fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    name: &str,
    is: impl Fn(&[u8]) -> bool,
) -> bool {
    let mut values = fields.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    values.next().is_some_and(|value| is(value.trim_ascii())) && values.next().is_none()
}

/// Whether scripts have set all these cookies for statistics and the like.
fn is_harmless(rules: &Rules, cookies: &[u8]) -> bool {
    each_cookie(cookies).all(|(name, _)| {
        let mut room = [0; 128];
        as_php_sees(name, &mut room).is_some_and(|seen| rules.is_harmless(seen))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Paths;

    const OWN: [(&str, &str); 4] = [
        ("Sec-Fetch-Site", "same-origin"),
        ("Accept", "*/*"),
        ("Content-Type", "application/json"),
        ("Cache-Control", "no-cache"),
    ];

    fn sent(fields: &[(&str, &str)]) -> bool {
        sends(&Rules::profile(), fields.iter().map(|(name, value)| (*name, value.as_bytes())))
    }

    #[test]
    fn all_marks_are_needed() {
        assert!(sent(&OWN));
        for left_out in 0..OWN.len() {
            let fields: Vec<_> = OWN.iter().copied().enumerate().filter(|(at, _)| *at != left_out).collect();
            assert!(!sent(&fields.iter().map(|(_, field)| *field).collect::<Vec<_>>()), "{left_out}");
        }
        for other in [
            ("Sec-Fetch-Site", "cross-site"),
            ("Accept", "application/json, */*;q=0.1"),
            ("Content-Type", "text/plain"),
            ("Cache-Control", "max-age=0"),
        ] {
            let fields: Vec<_> = OWN.iter().map(|own| if own.0 == other.0 { other } else { *own }).collect();
            assert!(!sent(&fields), "{other:?}");
            assert!(!sent(&[&OWN[..], &[other]].concat()), "{other:?} twice");
        }
    }

    #[test]
    fn only_harmless_cookies_are_allowed() {
        let with = |cookies: &str| sent(&[&OWN[..], &[("Cookie", cookies)]].concat());
        assert!(with("_ga=1; sbjs_session=2; wordpress_test_cookie=1"));
        for cookie in
            ["currency=EUR", "wp_woocommerce_session_1=a", "_ga=1; x=1", "woocommerce.items_in_cart=1"]
        {
            assert!(!with(cookie), "{cookie}");
        }
    }

    #[test]
    fn exceptions_from_bypassed_paths() {
        let rules = Rules {
            bypass_paths: Paths::new(["/api*", "/api/mine"]),
            open_paths: Paths::new(["/api/open", "/api/mine"]),
            script_paths: Paths::new(["/api/script"]),
            chosen_paths: Paths::new(["/api/mine"]),
            ..Rules::profile()
        };
        let bypasses = |path: &str, own| rules.bypass_path(path.as_bytes(), || own).is_some();
        assert!(bypasses("/api/x", true) && bypasses("/api/script", false) && bypasses("/api/mine", true));
        assert!(!bypasses("/api/open/1", false) && !bypasses("/api/script", true) && !bypasses("/", false));
    }
}
