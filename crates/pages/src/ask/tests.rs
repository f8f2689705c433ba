//! Keys and bypasses; and no field of a request makes the cache serve others a page that was made for it.

use super::*;
use crate::rules::{Paths, VaryCookies};
use proptest::prelude::*;

/// A WordPress-like site.
fn rules() -> Rules {
    let mut rules = Rules::profile();
    rules.bypass_cookies.extend(["wordpress_logged_in_*", "wp-postpass_*", "woocommerce_items_in_cart"]);
    rules.bypass_paths = Paths::new(["*/wp-admin", "*/wp-login.php", "*/cart"]);
    rules.bypass_arguments = Patterns::new(["preview", "add-to-cart", "wc-ajax"]);
    rules.vary_cookies = VaryCookies::Only(Patterns::new(["wp-*"]));
    rules
}

/// A request line and fields, as a test writes them.
struct Req<'a> {
    method: &'a str,
    scheme: &'a str,
    host: &'a str,
    target: &'a str,
    fields: &'a [(&'a str, &'a str)],
    content: bool,
}

impl Default for Req<'_> {
    fn default() -> Self {
        Req { method: "GET", scheme: "http", host: "a.test", target: "/", fields: &[], content: false }
    }
}

/// The key, or the word of the bypass and what it was.
fn asked(rules: &Rules, req: Req<'_>) -> Result<(String, Asking), (String, Option<String>)> {
    let (raw_path, query) = match req.target.split_once('?') {
        Some((path, query)) => (path, Some(query.as_bytes())),
        None => (req.target, None),
    };
    let mut path = Vec::new();
    millrace_wire::path::normalise(raw_path.as_bytes(), &mut path).unwrap();
    let asked = Asked {
        method: req.method,
        scheme: req.scheme,
        place: Place { site: "a", host: req.host, path: &path, query },
        rules: b"",
        raw_path: raw_path.as_bytes(),
        host_is_known: req.host != "evil.test",
        has_content: req.content,
        fields: req.fields.iter().map(|(name, value)| (*name, value.as_bytes())),
    };
    let mut key = b"left over".to_vec();
    match ask(rules, &asked, &mut key) {
        Ok(asking) => Ok((String::from_utf8_lossy(&key).replace('\0', "|"), asking)),
        Err(bypass) => Err((bypass.word().to_owned(), bypass.what().map(str::to_owned))),
    }
}

fn key(rules: &Rules, target: &str, fields: &[(&str, &str)]) -> String {
    asked(rules, Req { target, fields, ..Req::default() }).unwrap().0
}

fn why(fields: &[(&str, &str)]) -> Option<String> {
    asked(&rules(), Req { fields, ..Req::default() }).err().map(|(word, what)| match what {
        Some(what) => format!("{word} {what}"),
        None => word,
    })
}

#[test]
fn keys() {
    let rules = rules();
    for (target, expected) in [
        ("/", "a|http|a.test|/||"),
        ("/?", "a|http|a.test|/|?|"),
        ("/a?b=2&a=1&utm_source=x", "a|http|a.test|/a|?a=1&b=2|"),
        ("/a?utm_source=x", "a|http|a.test|/a||"),
        // The key contains what PHP sees in REQUEST_URI, and purges use the normalised path.
        ("/%61", "a|http|a.test|/a||p/%61|"),
        ("//a/./b", "a|http|a.test|/a/b||p//a/./b|"),
        ("/a%2Fb", "a|http|a.test|/a/b||p/a%2Fb|"),
        ("/a;x=1/b.css", "a|http|a.test|/a;x=1/b.css||"),
        ("/caf%C3%A9", "a|http|a.test|/café||p/caf%C3%A9|"),
        ("/A", "a|http|a.test|/A||"),
    ] {
        assert_eq!(key(&rules, target, &[]), expected, "{target}");
    }
    let shared = Rules { schemes_share: true, ..rules };
    let https = Req { scheme: "https", host: "a.test:8443", ..Req::default() };
    assert_eq!(asked(&shared, https).unwrap().0, "a||a.test:8443|/||");
}

#[test]
fn what_php_can_tell_apart_has_different_keys() {
    let standard = Rules::standard();
    for (one, other) in [
        ("/a", "/a?"),
        ("/a", "/a/"),
        ("/a", "/A"),
        ("/a", "/%61"),
        ("/a/b", "/a%2fb"),
        ("/a/b", "/a%2Fb"),
        ("/a%2fb", "/a%2Fb"),
        ("/a", "/a;b"),
        ("/a", "//a"),
        ("/a", "/x/../a"),
        ("/x.php", "/x.php/a.css"),
        ("/a?b=1+2", "/a?b=1%202"),
        ("/a?b", "/a?b="),
        ("/a?b[]=1&b[]=2", "/a?b[]=2&b[]=1"),
        ("/a?b=1", "/a?b=1&b=1"),
        ("/a?utm_source=1", "/a"),
    ] {
        assert_ne!(key(&standard, one, &[]), key(&standard, other, &[]), "{one} {other}");
    }
    let key_of = |scheme, host| asked(&standard, Req { scheme, host, ..Req::default() }).unwrap().0;
    assert_ne!(key_of("http", "a.test"), key_of("https", "a.test"));
    assert_ne!(key_of("http", "a.test"), key_of("http", "a.test:81"));
    assert_ne!(key_of("http", "a.test"), key_of("http", "b.test"));
}

#[test]
fn bypasses() {
    let rules = rules();
    let word = |req: Req<'_>| asked(&rules, req).err().map(|(word, _)| word);
    assert_eq!(word(Req { method: "POST", ..Req::default() }).as_deref(), Some("method"));
    assert_eq!(word(Req { method: "get", ..Req::default() }).as_deref(), Some("method"));
    assert_eq!(word(Req { content: true, ..Req::default() }).as_deref(), Some("content"), "fat GET");
    for host in ["evil.test", "A.test", "a.test:80", "a.test.", "a.test.:81", "a.test:", ""] {
        assert_eq!(word(Req { host, ..Req::default() }).as_deref(), Some("host"), "{host}");
    }
    assert_eq!(word(Req { host: "a.test:443", ..Req::default() }), None);
    assert_eq!(word(Req { host: "a.test:443", scheme: "https", ..Req::default() }).as_deref(), Some("host"));
    for target in ["/wp-admin/", "/blog/wp-admin/x", "/wp-login.php", "/en/cart/", "/%77p-admin/"] {
        assert_eq!(word(Req { target, ..Req::default() }).as_deref(), Some("path"), "{target}");
    }
    for target in ["/?preview=1", "/?a=1&add-to-cart=5", "/?preview[]=1", "/?a;wc-ajax=x", "/?preview"] {
        assert_eq!(word(Req { target, ..Req::default() }).as_deref(), Some("argument"), "{target}");
    }
    let long = format!("/?{}", "a".repeat(LONGEST_KEY));
    assert_eq!(word(Req { target: &long, ..Req::default() }).as_deref(), Some("key-too-long"));
    assert_eq!(asked(&Rules::off(), Req::default()).unwrap_err().0, "off");
    assert!(asked(&rules, Req { method: "HEAD", ..Req::default() }).unwrap().1.head);
}

#[test]
fn cookies_that_bypass_and_cookies_that_do_not() {
    for (cookie, expected) in [
        ("wordpress_logged_in_ab=1", Some("cookie wordpress_logged_in_ab")),
        ("a=1; wp-postpass_x=2", Some("cookie wp-postpass_x")),
        ("a=1;woocommerce_items_in_cart=1", Some("cookie woocommerce_items_in_cart")),
        ("PHPSESSID=x", Some("cookie PHPSESSID")),
        // PHP derives the same name from these (main/php_variables.c).
        ("wordpress.logged.in.ab=1", Some("cookie wordpress.logged.in.ab")),
        ("wordpress%5Flogged_in_ab=1", Some("cookie wordpress%5Flogged_in_ab")),
        ("wordpress[logged_in_ab=1", Some("cookie wordpress[logged_in_ab")),
        ("wordpress[logged]_in_ab=1", None),
        ("woocommerce_items_in_cart[x]=1", Some("cookie woocommerce_items_in_cart[x]")),
        // Analytics and consent.
        ("_ga=1; _gid=2; _fbp=3; _hjSession_12=4; cookieyes-consent=5; wordpress_test_cookie=1", None),
        ("unknown=1", None),
        ("", None),
        (";;=;a", None),
        ("xwp-postpass_ab=1", None),
        ("a=wordpress_logged_in_ab", None),
    ] {
        assert_eq!(why(&[("Cookie", cookie)]).as_deref(), expected, "{cookie}");
    }
    assert_eq!(why(&[("Cookie", "a=1"), ("COOKIE", "PHPSESSID=1")]).as_deref(), Some("cookie PHPSESSID"));
    let mut keyed = rules();
    keyed.key_cookies = Patterns::new(["currency"]);
    let key = |cookie| key(&keyed, "/", &[("Cookie", cookie)]);
    assert_eq!(key("x=1; currency=EUR"), "a|http|a.test|/||ccurrency=EUR|");
    assert_eq!(key("x=2"), "a|http|a.test|/||");
}

#[test]
fn fields_that_could_make_another_page_bypass() {
    for (name, value, expected) in [
        ("X-Original-URL", "/admin", Some("field x-original-url")),
        ("x-rewrite-url", "/admin", Some("field x-rewrite-url")),
        ("X-HTTP-Method-Override", "DELETE", Some("field x-http-method-override")),
        ("X-Forwarded-Host", "evil.test", Some("field x-forwarded-host")),
        ("X-Forwarded-Host", "a.test", None),
        ("X-Host", "evil.test", Some("field x-host")),
        ("X-Forwarded-Server", "evil", Some("field x-forwarded-server")),
        ("Forwarded", "host=evil.test", Some("field forwarded")),
        ("X-Forwarded-Port", "8443", Some("field x-forwarded-port")),
        ("X-Forwarded-Port", "80", None),
        ("X-Forwarded-Proto", "http", None),
        ("X-Forwarded-Proto", "ftp", Some("field x-forwarded-proto")),
        ("X-Forwarded-Prefix", "/x", Some("field x-forwarded-prefix")),
        ("CF-Visitor", "{\"scheme\":\"http\"}", None),
        ("CF-Visitor", "x", Some("field cf-visitor")),
        ("X-Requested-With", "XMLHttpRequest", Some("field x-requested-with")),
        ("X-WP-Nonce", "abc", Some("field x-wp-nonce")),
        ("Authorization", "Basic x", Some("authorization")),
        ("X-Forwarded-For", "1.2.3.4", None),
        ("User-Agent", "x", None),
        ("Accept-Language", "de", None),
        ("Cache-Control", "no-cache", None),
        ("Pragma", "no-cache", None),
        ("Range", "bytes=0-1", None),
    ] {
        assert_eq!(why(&[(name, value)]).as_deref(), expected, "{name}: {value}");
    }
}

#[test]
fn another_scheme_is_another_page() {
    let rules = rules();
    let plain = key(&rules, "/", &[]);
    let secure = key(&rules, "/", &[("X-Forwarded-Proto", "https")]);
    assert_ne!(plain, secure);
    assert_eq!(secure, key(&rules, "/", &[("CF-Visitor", "{\"scheme\":\"https\"}")]));
    assert_eq!(plain, key(&rules, "/", &[("X-Forwarded-SSL", "off")]));
    assert_eq!(plain, key(&rules, "/", &[("Accept", "*/*"), ("User-Agent", "Mobile")]));
    let by_device = Rules { key_device: true, ..rules };
    assert!(key(&by_device, "/", &[("User-Agent", "iPhone Mobile")]).ends_with("|dmobile|"));
    assert!(key(&by_device, "/", &[]).ends_with("|ddesktop|"));
}

/// Scripts that choose by `Accept` seldom say so: error pages of WordPress, frameworks, plugins that have Markdown for agents.
#[test]
fn what_no_browser_asks_for_has_a_page_of_its_own() {
    let rules = rules();
    let of = |fields: &[(&str, &str)]| key(&rules, "/", fields);
    let accepting = |value: &str| of(&[("Accept", value)]);
    let plain = of(&[]);
    let page = |rest: &str| format!("text/html,application/xhtml+xml,application/xml;q=0.9,{rest}");
    for rest in [
        "*/*;q=0.8",
        "image/avif,image/webp,image/png,image/svg+xml,*/*;q=0.8",
        "image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3",
        "image/jxl,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
    ] {
        assert_eq!(accepting(&page(rest)), plain);
    }
    assert_eq!(accepting("*/*"), plain);
    for rest in [
        "",
        "*/*",
        "text/markdown,*/*;q=0.8",
        "image/x;q=1,*/*;q=0.8",
        "*/*;q=0.8,text/x",
        "image/a,b,*/*;q=0.8",
    ] {
        assert_ne!(accepting(&page(rest)), plain, "{rest}");
    }
    let others = [
        "text/markdown, text/html, */*",
        "text/html,application/json",
        "application/json, */*;q=0.1",
        "application/json",
        "application/ld+json",
        "application/vnd.v1+json",
        "application/vnd.v2+json",
        "text/calendar",
        "text/xml",
        "application/rss+xml",
        "*/*;q=0.8",
        "",
        // As a browser's, but for the space.
        "text/html, application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    ];
    let keys: std::collections::HashSet<_> =
        others.map(accepting).into_iter().chain([plain.clone()]).collect();
    assert_eq!(keys.len(), others.len() + 1);
    // Several lines are one value to PHP, of which each line is a part.
    let several = of(&[("Accept", "*/*"), ("accept", "text/markdown")]);
    for other in [plain.clone(), accepting("text/markdown"), accepting("*/*, text/markdown")] {
        assert_ne!(several, other);
    }
    assert_ne!(of(&[("Accept", "text/markdown"), ("Accept", "*/*")]), accepting("text/markdown"));
    assert_ne!(of(&[("Accept", "*/*"), ("Accept", "*/*")]), plain);
    // Without content, its type is only something to choose by.
    assert_ne!(of(&[("Content-Type", "application/json")]), plain);
    assert_ne!(of(&[("Content-Type", "application/json")]), accepting("application/json"));
    // In standard mode, what a response varies by is its own business.
    let (standard, fields) = (Rules::standard(), [("Accept", "text/markdown"), ("Content-Type", "text/xml")]);
    assert_eq!(key(&standard, "/", &fields), key(&standard, "/", &[]));
}

#[test]
fn standard_mode_hears_clients() {
    let standard = Rules::standard();
    let asking = |fields: &[(&str, &str)]| asked(&standard, Req { fields, ..Req::default() }).unwrap().1;
    assert!(asking(&[("Cache-Control", "no-cache")]).wants.no_cache);
    assert!(asking(&[("Pragma", "no-cache")]).wants.no_cache);
    assert_eq!(
        asking(&[("Cache-Control", "max-age=5"), ("Cache-Control", "max-age=3")]).wants.max_age,
        Some(3)
    );
    assert!(asking(&[("Authorization", "x")]).authorization);
    assert_eq!(asking(&[("X-Requested-With", "x"), ("Cookie", "PHPSESSID=1")]), Asking::default());
    let profile = asked(&rules(), Req { fields: &[("Cache-Control", "no-cache")], ..Req::default() });
    assert_eq!(profile.unwrap().1.wants, Wants::default());
}

#[test]
fn wants_of_clients() {
    // RFC 9111 section 5.2.1
    let wants = |text: &str| {
        let mut wants = Wants::default();
        wants.add(text.as_bytes());
        wants
    };
    let minute = 60_000i64;
    for (text, age, left, expected) in [
        ("", 10 * minute, minute, true),
        ("", 0, -1, false),
        ("no-cache", 0, minute, false),
        ("max-age=0", 1000, minute, false),
        ("max-age=60", minute, minute, true),
        ("max-age=60", minute + 1, minute, false),
        ("min-fresh=60", 0, minute, true),
        ("min-fresh=61", 0, minute, false),
        ("max-stale", 0, -minute, true),
        ("max-stale=60", 0, -minute, true),
        ("max-stale=59", 0, -minute, false),
        ("max-stale=60, max-age=1", 5000, -minute, false),
    ] {
        assert_eq!(wants(text).allow(age as u64, left, true), expected, "{text} {age} {left}");
    }
    assert!(!wants("max-stale").allow(0, -1, false), "must-revalidate");
}

#[test]
fn what_php_sees_when_it_runs_for_everybody() {
    let (standard, profile) = (Rules::standard(), rules());
    for name in ["Range", "if-none-match", "If-Modified-Since", "Accept-Encoding", "If-Range"] {
        assert!(withheld_from_fill(&standard, name) && withheld_from_fill(&profile, name), "{name}");
    }
    assert!(withheld_from_fill(&profile, "Cache-Control") && !withheld_from_fill(&standard, "Cache-Control"));
    assert!(
        withheld_from_fill(&profile, "X-Forwarded-For") && !withheld_from_fill(&standard, "X-Forwarded-For")
    );
    let mut by_address = Rules::profile();
    by_address.vary_fields.extend(["x-forwarded-for"]);
    assert!(!withheld_from_fill(&by_address, "X-Forwarded-For"));
    let faithful = Rules { faithful: true, ..Rules::profile() };
    assert!(!withheld_from_fill(&faithful, "Accept-Encoding") && !withheld_from_fill(&faithful, "If-Match"));
    assert!(withheld_from_fill(&faithful, "X-Forwarded-For"));
    assert!(write_fill_cookies(&faithful, b"_ga=1; a=2", &mut Vec::new()));
    assert!(!withheld_from_fill(&profile, "User-Agent") && !withheld_from_fill(&profile, "Accept-Language"));
    let cookies = |rules: &Rules, value: &str| {
        let mut out = Vec::new();
        let changed = write_fill_cookies(rules, value.as_bytes(), &mut out);
        (changed, String::from_utf8(out).unwrap())
    };
    let any = Rules::profile();
    assert_eq!(cookies(&any, "_ga=1; a=2;_gid=3;b=4"), (true, "a=2; b=4".into()));
    assert_eq!(cookies(&any, "_ga=1"), (true, String::new()));
    assert_eq!(cookies(&any, "a=2;b=4"), (false, "a=2;b=4".into()));
    // To a script these are `_ga_x`, `_ga_x` and the array `_ga`.
    assert_eq!(cookies(&any, "_ga.x=1; a=2; _ga x=1; _ga[x]=1"), (true, "a=2".into()));
    // It is known which cookies pages depend on: a script that reads another one must not find it.
    assert_eq!(
        cookies(&profile, "cur=USD; wp-lang=de; wp-x.y=1; a=2"),
        (true, "wp-lang=de; wp-x.y=1".into())
    );
    assert_eq!(cookies(&profile, "_lscache_vary=1"), (false, "_lscache_vary=1".into()), "it is in the key");
    for ours in ["X-LSCACHE", "x-lscache-vary-value", "X-LiteSpeed-Purge", "X-LiteMage", "Millrace-Tag"] {
        assert!(is_ours_in_request(ours), "{ours}");
    }
    assert!(!is_ours_in_request("X-Lite") && !is_ours_in_request("Accept"));
}

#[test]
fn concerns_are_found_by_any_case() {
    for (name, concern) in CONCERNS {
        assert_eq!(concern_of(&name.to_ascii_uppercase()), Some((*name, *concern)));
        assert_eq!(*name, name.to_ascii_lowercase());
    }
    assert_eq!(concern_of(""), None);
    assert_eq!(concern_of("x-hosts"), None);
    assert_eq!(concern_of(&"x".repeat(40)), None);
    assert!(CONCERNS.iter().all(|(name, _)| name.len() < STARTS.len() - 1));
    assert!(CONCERNS.is_sorted_by_key(|(name, _)| name.len()));
}

#[test]
fn words_are_stable() {
    for (bypass, word) in
        [(Bypass::Off, "off"), (Bypass::KeyTooLong, "key-too-long"), (Bypass::Field("x"), "field")]
    {
        assert_eq!(bypass.word(), word);
    }
}

proptest! {
    /// The parts of a key never run into each other.
    #[test]
    fn equal_keys_come_from_equal_requests(
        one in ("[a-b./%2Ff]{0,6}", "[a-b&=?]{0,5}", "[a-b=; ]{0,6}"),
        other in ("[a-b./%2Ff]{0,6}", "[a-b&=?]{0,5}", "[a-b=; ]{0,6}"),
    ) {
        let mut rules = Rules::standard();
        rules.key_cookies = Patterns::new(["a*"]);
        let make = |(path, query, cookie): &(String, String, String)| {
            let raw = format!("/{path}");
            let mut normal = Vec::new();
            millrace_wire::path::normalise(raw.as_bytes(), &mut normal).ok()?;
            let asked = Asked {
                method: "GET",
                scheme: "http",
                place: Place { site: "s", host: "h", path: &normal, query: Some(query.as_bytes()) },
                rules: b"",
                raw_path: raw.as_bytes(),
                host_is_known: true,
                has_content: false,
                fields: [("Cookie", cookie.as_bytes())].into_iter(),
            };
            let mut key = Vec::new();
            ask(&rules, &asked, &mut key).ok()?;
            let cookies: Vec<Vec<u8>> = each_cookie(cookie.as_bytes())
                .filter(|(name, _)| name.starts_with(b"a")).map(|(_, cookie)| cookie.to_vec()).collect();
            Some((key, raw, cookies))
        };
        if let (Some(one), Some(other)) = (make(&one), make(&other)) && one.0 == other.0 {
            prop_assert_eq!(one, other);
        }
    }
}
