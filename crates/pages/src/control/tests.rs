//! RFC 9111 sections 4.2.1 and 5.2, RFC 5861, RFC 9213, and the cases of the external test suite.

use super::structured::{Item, dictionary, list};
use super::*;
use proptest::prelude::*;

fn life(value: &str) -> Option<u64> {
    Control::parse(value.as_bytes()).lifetime()
}

#[test]
fn lifetimes() {
    for (value, expected) in [
        ("max-age=3600", Some(3600)),
        ("MaX-aGe=3600", Some(3600)),
        ("foobar, max-age=3600", Some(3600)),
        ("max-age=003600", Some(3600)),
        // Section 5.2: both forms must be accepted.
        ("max-age=\"3600\"", Some(3600)),
        // Section 5.2.2.10: s-maxage replaces max-age.
        ("max-age=3600, s-maxage=1", Some(1)),
        ("s-maxage=3600, max-age=1", Some(3600)),
        // Section 1.2.2: too large is very large.
        ("max-age=2147483649", Some(1 << 31)),
        ("max-age=99999999999999999999999", Some(1 << 31)),
        // Section 4.2.1: invalid values are stale; of two values the stricter counts.
        ("max-age=-3600", Some(0)),
        ("max-age='3600'", Some(0)),
        ("max-age=3600a", Some(0)),
        ("max-age=3600.0", Some(0)),
        ("max-age", Some(0)),
        ("max-age=", Some(0)),
        ("max-age =3600", Some(0)),
        ("max-age= 3600", Some(0)),
        ("max-age=1, max-age=1800", Some(1)),
        ("max-age=1800, max-age=1", Some(1)),
        // Quoted text is not a directive.
        ("extension=\"max-age=3600\", max-age=1", Some(1)),
        ("max-age=1, extension=\"max-age=3600\"", Some(1)),
        ("extension=\"max-age=3600\"", None),
        ("public", None),
        ("", None),
    ] {
        assert_eq!(life(value), expected, "{value}");
    }
}

#[test]
fn flags() {
    let control =
        Control::parse(b" No-StOrE ,,private,NO-CACHE,must-revalidate, proxy-revalidate, public, nonce,x");
    assert!(control.no_store && control.private && control.no_cache && control.must_revalidate);
    assert!(control.proxy_revalidate && control.public && control.nonce && !control.must_understand);
    assert_eq!(Control::parse(b"x-no-store, no-storex"), Control::default());
    assert!(Control::parse(b"no-store=x").no_store, "a value makes it no less of a refusal");
}

#[test]
fn a_list_of_fields_restricts_the_directive() {
    let control = Control::parse(b"no-cache=\"A, b\", private=\"Set-Cookie\", max-age=5");
    assert!(!control.no_cache && !control.private);
    assert_eq!(control.no_cache_fields, ["a", "b"].map(Box::from));
    assert_eq!(control.private_fields, ["set-cookie"].map(Box::from));
    assert!(Control::parse(b"no-cache=\"\"").no_cache);
    assert!(Control::parse(b"private=").private);
}

#[test]
fn an_open_quote_hides_no_refusal() {
    assert!(Control::parse(b"max-age=60, x=\"abc, no-store").no_store);
    assert!(!Control::parse(b"max-age=60, x=\"a\\\"bc\", y").no_store);
}

#[test]
fn stale_directives_and_requests() {
    let control = Control::parse(b"max-age=1, stale-while-revalidate=60, stale-if-error=x");
    assert_eq!((control.stale_while_revalidate, control.stale_if_error), (Some(60), Some(0)));
    let request = Control::parse(b"max-stale, min-fresh=10, only-if-cached");
    assert_eq!((request.max_stale, request.min_fresh), (Some(1 << 31), Some(10)));
    assert!(request.only_if_cached);
    assert_eq!(Control::parse(b"max-stale=5").max_stale, Some(5));
    assert_eq!(Control::parse(b"min-fresh=x").min_fresh, Some(1 << 31));
}

#[test]
fn targeted_fields_are_strict() {
    let read = |text: &str| Control::parse_targeted(text.as_bytes());
    let control = read("max-age=60, no-store;x=1, must-revalidate=?1, stale-if-error=9").unwrap();
    assert_eq!((control.max_age, control.stale_if_error), (Some(60), Some(9)));
    assert!(control.no_store && control.must_revalidate);
    // RFC 9213 section 2.1: a member of the wrong type is ignored.
    let odd = read("max-age=\"60\", no-store=1, public=?0, private=tok").unwrap();
    assert_eq!(odd, Control::default());
    assert_eq!(read("max-age=60.5").unwrap().max_age, None);
    assert_eq!(read("max-age=-1").unwrap().max_age, Some(0));
    assert_eq!(read("max-age=1, max-age=2").unwrap().max_age, Some(2), "RFC 9651 section 3.2");
    // The whole field is ignored if it violates the grammar.
    for broken in [
        "Max-Age=60",
        "max-age=60,",
        "max-age= 60",
        "max-age=60 no-store",
        "&",
        "a=\"b",
        "max-age==1",
        "a=(1",
    ] {
        assert_eq!(read(broken), None, "{broken}");
    }
    assert_eq!(read(""), Some(Control::default()));
}

#[test]
fn structured_lists_and_items() {
    let text = |s: &str| Item::String(s.as_bytes().to_vec());
    assert_eq!(list(b"\"a\", \"b\\\"c\";p=1 ,  x"), Some(vec![text("a"), text("b\"c"), Item::Other]));
    assert_eq!(list(b"(\"a\" b);q, :aGk=:, @12, 1.5, ?0").map(|l| l.len()), Some(5));
    for broken in
        ["\"a\",", "\"a\" \"b\"", "\"\x07\"", "\"a\\n\"", "(\"a\"b)", "@1.5", "1.", "1.2345", "?2", "-"]
    {
        assert_eq!(list(broken.as_bytes()), None, "{broken}");
    }
    assert_eq!(
        dictionary(b"a, b=2, a=?0"),
        Some(vec![(&b"b"[..], Item::Integer(2)), (&b"a"[..], Item::False)])
    );
}

#[test]
fn surrogate_control() {
    let read = |text: &str| {
        let mut control = Control::default();
        text.split('\n').for_each(|line| control.add_surrogate(line.as_bytes()));
        control
    };
    assert_eq!(read("max-age=3600").max_age, Some(3600));
    assert_eq!(read("content=\"ESI/1.0\", max-age=60+30").stale_while_revalidate, Some(30));
    assert_eq!(read("max-age=60+30").max_age, Some(60));
    assert_eq!(read("max-age=1, max-age=3600;not-for-you").max_age, Some(1));
    assert_eq!(read("max-age=5;millrace, no-store;other").max_age, Some(5));
    assert!(read("no-store").no_store);
    let lines = read("no-store\nmax-age=60\nmax-age=5");
    assert!(lines.no_store && lines.max_age == Some(5));
}

proptest! {
    #[test]
    fn anything_can_be_read(value in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = (Control::parse(&value), Control::default().add_surrogate(&value), Control::parse_targeted(&value));
        let _ = (list(&value), dictionary(&value));
    }

    #[test]
    fn a_refusal_is_heard_among_other_directives(
        before in "[a-z=0-9 \",]{0,20}",
        refusal in prop::sample::select(vec!["no-store", "No-Store"]),
        after in "[a-z=0-9 \",]{0,20}",
    ) {
        // Unless a quote opens before it and closes after it.
        prop_assume!(before.matches('"').count() % 2 == 0);
        let value = format!("{before},{refusal},{after}");
        prop_assert!(Control::parse(value.as_bytes()).no_store, "{}", value);
    }
}
