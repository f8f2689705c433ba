//! The grammars, each item of them; RFC 9111 section 4.4; RFC 9875.

use super::*;
use Hardness::{Hard, Soft};
use proptest::prelude::*;

const PLACE: Place<'static> = Place { site: "a", host: "a.test", path: b"/dir/page", query: Some(b"q=1") };

fn name(name: &str) -> Purge {
    Purge::Tag(Tag::named("a", name.as_bytes()))
}

fn path(path: &str) -> Purge {
    Purge::Tag(Tag::path("a", "a.test", path.as_bytes()))
}

fn url(path: &str, query: &str) -> Purge {
    Purge::Tag(Tag::url("a", "a.test", path.as_bytes(), query.as_bytes()))
}

fn site() -> Purge {
    Purge::Tag(Tag::site("a"))
}

fn found(method: &str, status: u16, fields: &[(&str, &str)]) -> Vec<(Purge, Hardness)> {
    found_by(&Rules::profile(), method, status, fields)
}

fn found_by(rules: &Rules, method: &str, status: u16, fields: &[(&str, &str)]) -> Vec<(Purge, Hardness)> {
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    purges(rules, &PLACE, method, status, fields, &Notes::default())
}

#[test]
fn our_grammar() {
    let prefix = |host: &str, path: &str| Purge::Prefix {
        site: "a".into(),
        host: Some(host.into()),
        path: path.as_bytes().into(),
    };
    for (value, expected) in [
        ("post:17", vec![(name("post:17"), Soft)]),
        ("soft, a, b", vec![(name("a"), Soft), (name("b"), Soft)]),
        ("hard,a , b", vec![(name("a"), Hard), (name("b"), Hard)]),
        ("a, hard", vec![(name("a"), Soft), (name("hard"), Soft)]),
        ("hard", vec![]),
        ("", vec![]),
        (",, a,a", vec![(name("a"), Soft)]),
        ("/about/", vec![(path("/about/"), Soft)]),
        ("/caf%C3%A9/", vec![(path("/café/"), Soft)]),
        ("//x/./y", vec![(path("/x/y"), Soft)]),
        ("/a?b=2&a=1&utm_source=1", vec![(url("/a", "?a=1&b=2"), Soft)]),
        ("/a?", vec![(url("/a", "?"), Soft)]),
        ("/a#b", vec![(path("/a"), Soft)]),
        ("hard, /shop/*", vec![(prefix("a.test", "/shop/"), Hard)]),
        ("/*", vec![(prefix("a.test", "/"), Soft)]),
        ("*", vec![(site(), Soft)]),
        ("https://b.test/x", vec![(Purge::Tag(Tag::path("a", "b.test", b"/x")), Soft)]),
        ("HTTP://B.test:80/x*", vec![(prefix("b.test", "/x"), Soft)]),
        ("https://b.test:8443", vec![(Purge::Tag(Tag::path("a", "b.test:8443", b"/")), Soft)]),
        ("/%zz, /../..", vec![]),
        ("ftp://x/y", vec![(name("ftp://x/y"), Soft)]),
    ] {
        assert_eq!(found("GET", 200, &[("Millrace-Purge", value)]), expected, "{value}");
        assert_eq!(noted(&Rules::profile(), &PLACE, value.as_bytes()), expected, "{value}");
    }
    let notes = noted(&Rules::profile(), &PLACE, b"hard, a\nb\nsoft, c");
    assert_eq!(notes, [(name("a"), Hard), (name("b"), Soft), (name("c"), Soft)]);
    assert_eq!(item(&Rules::profile(), &PLACE, b" /x "), Some(path("/x")));
}

#[test]
fn litespeeds_grammar() {
    for (value, expected) in [
        // The plugin's own purges, of one post and of all.
        (
            "public,abc_Po.17,abc_F,abc_",
            vec![(name("abc_Po.17"), Hard), (name("abc_F"), Hard), (name("abc_"), Hard)],
        ),
        ("abc_", vec![(name("abc_"), Hard)]),
        ("public,stale,a,b", vec![(name("a"), Soft), (name("b"), Soft)]),
        ("stale,public,a", vec![(name("a"), Soft)]),
        ("a~s,b~stale,c", vec![(name("a"), Soft), (name("b"), Soft), (name("c"), Hard)]),
        ("tag=a, tag=b", vec![(name("a"), Hard), (name("b"), Hard)]),
        ("private,x,y", vec![]),
        ("private,*;public,a", vec![(name("a"), Hard)]),
        ("public,,a,", vec![(name("a"), Hard)]),
        ("*", vec![(site(), Soft)]),
        ("public,*", vec![(site(), Soft)]),
        ("foo*", vec![(site(), Hard)]),
        // One URI with commas.
        ("public,/a,b/?c=1", vec![(url("/a,b/", "?c=1"), Hard)]),
        ("/x~s", vec![(path("/x"), Soft)]),
        ("a;/x; ;b", vec![(name("a"), Hard), (path("/x"), Hard), (name("b"), Hard)]),
        ("", vec![]),
    ] {
        for field in ["X-LiteSpeed-Purge", "x-litespeed-purge2"] {
            assert_eq!(found("GET", 302, &[(field, value)]), expected, "{value}");
        }
    }
    let standard = found_by(&Rules::standard(), "GET", 200, &[("X-LiteSpeed-Purge", "a")]);
    assert!(standard.is_empty(), "a site that is not LiteSpeed's");
}

#[test]
fn unsafe_methods_invalidate() {
    // RFC 9111 section 4.4
    let standard = Rules::standard();
    let target = [(url("/dir/page", "?q=1"), Hard)];
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
        assert_eq!(found_by(&standard, method, 200, &[]), target, "{method}");
        assert_eq!(found_by(&standard, method, 303, &[]), target, "{method}");
        assert!(found_by(&standard, method, 500, &[]).is_empty(), "{method} failed");
        assert!(found_by(&standard, method, 404, &[]).is_empty(), "{method} failed");
    }
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND"] {
        assert!(found_by(&standard, method, 200, &[("Location", "/x")]).is_empty(), "{method}");
    }
    let also = |field: &str, value: &str| {
        let mut all = found_by(&standard, "POST", 201, &[(field, value)]);
        assert_eq!([all.remove(0)], target);
        all
    };
    for field in ["Location", "content-location"] {
        for (value, expected) in [
            ("/x?y=1", Some(("/x", "?y=1"))),
            ("/x#y", Some(("/x", ""))),
            ("http://a.test/x", Some(("/x", ""))),
            ("https://A.test:443/x", Some(("/x", ""))),
            ("//a.test/x", Some(("/x", ""))),
            ("other", Some(("/dir/other", ""))),
            ("page?z", Some(("/dir/page", "?z"))),
            ("../up", Some(("/up", ""))),
            // It must not invalidate pages of another origin.
            ("http://b.test/x", None),
            ("//b.test/x", None),
            ("http://a.test:81/x", None),
            ("mailto:x@a.test", None),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|(p, q)| (url(p, q), Hard)).collect();
            assert_eq!(also(field, value), expected, "{field}: {value}");
        }
    }
    assert_eq!(
        found("POST", 200, &[]),
        [(url("/dir/page", "?q=1"), Soft)],
        "anybody can post to a front page"
    );
}

#[test]
fn only_what_is_named() {
    let only = |value: &str| found("POST", 303, &[("Location", "/x"), ("Millrace-Purge", value)]);
    assert!(only("only").is_empty(), "what is put into a cart changes no page");
    assert_eq!(only("Only, a, hard"), [(name("a"), Soft), (name("hard"), Soft)]);
    // Another field of the same response, in any order.
    let fields = [("Millrace-Purge", "hard, a"), ("Millrace-Purge", "only")];
    assert_eq!(found("POST", 200, &fields), [(name("a"), Hard)]);
    assert_eq!(found("POST", 200, &[("Millrace-Purge", "a, only")]).len(), 3, "a tag of that name");
    assert_eq!(noted(&Rules::profile(), &PLACE, b"only, a"), [(name("a"), Soft)]);
}

#[test]
fn groups() {
    // RFC 9875 section 3
    let fields = [("Cache-Group-Invalidation", "\"a\", \"b\";x, tok"), ("cache-group-invalidation", "\"c")];
    let all = found("POST", 200, &fields);
    assert_eq!(all[1..], [(name("a"), Hard), (name("b"), Hard)]);
    assert!(found("GET", 200, &fields).is_empty(), "safe methods invalidate nothing");
}

#[test]
fn long_lists_purge_the_site() {
    let list: String = (0..=MOST_PURGES).map(|n| format!("t{n},")).collect();
    assert_eq!(found("GET", 200, &[("Millrace-Purge", &list)]), [(site(), Soft)]);
    assert_eq!(found("GET", 200, &[("Millrace-Purge", &format!("hard,{list}"))]), [(site(), Hard)]);
}

#[test]
fn what_is_purged_is_what_pages_carry() {
    let rules = Rules::profile();
    let place =
        Place { site: "a", host: "a.test", path: "/café".as_bytes(), query: Some(b"b=1&a=2&utm_x=1") };
    let mut query = Vec::new();
    place.write_query(&rules, &mut query);
    let tags = Tag::implicit(&place, &query);
    for purge in ["*", "/caf%c3%a9", "/café", "/caf%C3%A9?a=2&b=1", "https://a.test/caf%C3%A9"] {
        let Some(Purge::Tag(tag)) = item(&rules, &PLACE, purge.as_bytes()) else { panic!("{purge}") };
        assert!(tags.contains(&tag), "{purge}");
    }
    for purge in ["/cafe", "/caf%C3%A9?a=2", "/caf%C3%A9/", "café", "https://b.test/caf%C3%A9"] {
        let Some(Purge::Tag(tag)) = item(&rules, &PLACE, purge.as_bytes()) else { panic!("{purge}") };
        assert!(!tags.contains(&tag), "{purge}");
    }
}

proptest! {
    #[test]
    fn anything_can_be_read(value in proptest::collection::vec(any::<u8>(), 0..80), field in 0usize..6) {
        let names = [
            "Millrace-Purge", "X-LiteSpeed-Purge", "Location", "Content-Location", "Cache-Group-Invalidation", "x",
        ];
        let rules = Rules::profile();
        let fields = [(names[field], &value[..])].into_iter();
        let all = purges(&rules, &PLACE, "POST", 200, fields, &Notes::default());
        prop_assert!(all.len() <= MOST_PURGES);
        prop_assert!(!all.iter().any(|(what, _)| *what == Purge::Everything), "one site never purges another");
    }
}
