//! What is stored, and for how long: a table for each rule, with its section.

use super::said::date;
use super::*;
use crate::places::COUNTRY;
use crate::rules::{Lifetimes, Paths, VaryCookies};
use crate::{Form, Page};
use millrace_wire::conditional::http_date;

/// Sun, 06 Nov 1994 08:49:37 GMT
const NOW: Millis = 784_111_777_000;
const PLACE: Place<'static> = Place { site: "a", host: "a.test", path: b"/p", query: None };
const DAY: u64 = 86_400;

/// A site with settings of every kind.
fn profile() -> Rules {
    let mut rules = Rules::profile();
    rules.lifetimes = Lifetimes {
        page: 10_000,
        feed: 20_000,
        sitemap: 30_000,
        rest: 40_000,
        other: 50_000,
        redirect: 60_000,
        not_found: 5_000,
    };
    rules.sitemap_paths = Paths::new(["*sitemap.xml"]);
    rules.rest_paths = Paths::new(["*/wp-json"]);
    rules.feed_paths = Paths::new(["*/feed"]);
    rules.nonce_marks = vec!["_wpnonce".into()];
    rules
}

/// A response as a test writes it.
#[derive(Clone)]
struct Given<'a> {
    status: u16,
    fields: &'a [(&'a str, &'a str)],
    notes: Notes,
    content: &'a str,
    failed: bool,
    country: Option<Country>,
    asking: Asking,
    path: &'a str,
}

impl Default for Given<'_> {
    fn default() -> Self {
        let (notes, asking) = (Notes::default(), Asking::default());
        Given {
            status: 200,
            fields: &[],
            notes,
            content: "x",
            failed: false,
            country: None,
            asking,
            path: "/p",
        }
    }
}

fn judged(rules: &Rules, given: &Given<'_>) -> Result<(Terms, Keep), Refusal> {
    let answer = Answer {
        status: given.status,
        fields: given.fields.iter().map(|(name, value)| (*name, value.as_bytes())),
        notes: &given.notes,
        content: given.content.as_bytes(),
        failed: given.failed,
        country: given.country,
    };
    let place = Place { path: given.path.as_bytes(), ..PLACE };
    match judge(rules, &place, &given.asking, &answer, NOW) {
        Verdict::Store { terms, keep } => Ok((terms, keep)),
        Verdict::Refuse { why, .. } => Err(why),
    }
}

/// Lifetime in seconds, minus the age on arrival, or why it is refused.
fn life(rules: &Rules, fields: &[(&str, &str)]) -> Result<i64, Refusal> {
    let (terms, _) = judged(rules, &Given { fields, ..Given::default() })?;
    Ok((terms.ttl as i64 - terms.age as i64) / 1000)
}

/// Fields, and the result of [`life`].
type Row<'a> = (&'a [(&'a str, &'a str)], Result<i64, Refusal>);

fn at(delta: i64) -> String {
    http_date((NOW / 1000).checked_add_signed(delta).unwrap())
}

#[test]
fn lifetimes_of_rfc_9111() {
    use Refusal::*;
    let (now, past, future, old) = (at(0), at(-100), at(100), at(-50));
    let standard = Rules::standard();
    let rows: &[Row<'_>] = &[
        // Section 4.2.1
        (&[("Cache-Control", "max-age=60")], Ok(60)),
        (&[("Cache-Control", "max-age=60, s-maxage=30")], Ok(30)),
        (&[("Cache-Control", "max-age=60"), ("Cache-Control", "s-maxage=30")], Ok(30)),
        (&[("Cache-Control", "s-maxage=30")], Ok(30)),
        (&[("Expires", &future)], Ok(100)),
        (&[("Expires", &future), ("Date", &now)], Ok(100)),
        (&[("Cache-Control", "max-age=60"), ("Expires", &past)], Ok(60)),
        (&[("Cache-Control", "max-age=60"), ("Expires", "0")], Ok(60)),
        (&[("Cache-Control", "max-age=0"), ("Expires", &future)], Err(Expired)),
        (&[("Expires", &past)], Err(Expired)),
        (&[("Expires", &now)], Err(Expired)),
        (&[("Expires", &now), ("Date", &future)], Err(Expired)),
        // Section 5.3: an invalid date is the past.
        (&[("Expires", "0")], Err(Expired)),
        (&[("Expires", "never")], Err(Expired)),
        (&[("Expires", &future), ("Expires", "never")], Err(Expired)),
        (&[("Expires", &future), ("Date", "nonsense")], Ok(100)),
        // Nothing is guessed.
        (&[], Err(NoLifetime)),
        (&[("Last-Modified", &past)], Err(NoLifetime)),
        (&[("Cache-Control", "public")], Err(NoLifetime)),
        // Sections 4.2.3 and 5.1: age.
        (&[("Cache-Control", "max-age=60"), ("Age", "20")], Ok(40)),
        (&[("Cache-Control", "max-age=60"), ("Age", "7200")], Err(Expired)),
        (&[("Cache-Control", "max-age=60"), ("Age", "7200"), ("ETag", "\"a\"")], Ok(-7140)),
        (&[("Cache-Control", "max-age=60"), ("Age", "60")], Err(Expired)),
        (&[("Cache-Control", "max-age=60, stale-if-error=60"), ("Age", "90")], Ok(-30)),
        (&[("Cache-Control", "max-age=60, stale-if-error=60"), ("Age", "120")], Err(Expired)),
        (&[("Cache-Control", "max-age=60"), ("Date", &old)], Ok(10)),
        (&[("Cache-Control", "max-age=60"), ("Date", &old), ("Age", "55")], Ok(5)),
        (&[("Cache-Control", "max-age=60"), ("Date", &future)], Ok(60)),
        (&[("Cache-Control", "max-age=60"), ("Age", "0, 7200")], Ok(60)),
        (&[("Cache-Control", "max-age=60"), ("Age", "7200, 0")], Err(Expired)),
        // Section 5.2.2
        (&[("Cache-Control", "max-age=60, no-store")], Err(NoStore)),
        (&[("Cache-Control", "max-age=60, private")], Err(Private)),
        (&[("Cache-Control", "max-age=60, private=\"x\"")], Ok(60)),
        (&[("Cache-Control", "max-age=60, no-cache")], Err(NoCache)),
        (&[("Cache-Control", "max-age=60, no-cache"), ("ETag", "\"a\"")], Ok(60)),
        (&[("Cache-Control", "no-cache"), ("Last-Modified", &past)], Ok(0)),
        // Our own rule: never.
        (&[("Cache-Control", "max-age=60"), ("Set-Cookie", "a=b")], Err(SetCookie)),
        (&[("Cache-Control", "max-age=60"), ("Vary", "*")], Err(Vary)),
        // Section 5.4: Pragma is for requests.
        (&[("Cache-Control", "max-age=60"), ("Pragma", "no-cache")], Ok(60)),
    ];
    for (fields, expected) in rows {
        assert_eq!(life(&standard, fields), *expected, "{fields:?}");
    }
}

/// RFC 9111 section 5.1.
#[test]
fn an_age_counts_if_it_is_one_and_comes_first() {
    let left = |ages: &[&str]| {
        let mut fields = vec![("Cache-Control", "max-age=3600")];
        fields.extend(ages.iter().map(|age| ("Age", *age)));
        life(&Rules::standard(), &fields)
    };
    for ignored in [
        "abc",
        "-7200",
        "+7200",
        "7200.0",
        "7200;foo=bar",
        "7200;foo=111",
        "",
        ",7200",
        "72 00",
        "0x1c20",
        "\"7200\"",
        "\u{ff17}200",
    ] {
        assert_eq!(left(&[ignored]), Ok(3600), "{ignored:?}");
        assert_eq!(left(&[ignored, "7200"]), Ok(3600), "{ignored:?} stands first");
        assert_eq!(left(&["7200", ignored]), Err(Refusal::Expired), "{ignored:?} stands second");
    }
    for old in ["7200", " 7200 ", "007200", "3600", "2147483647", "2147483648", "2147483649", &"9".repeat(40)]
    {
        assert_eq!(left(&[old]), Err(Refusal::Expired), "{old:?}");
    }
    for (ages, expected) in [
        (&["7200, 0"][..], Err(Refusal::Expired)),
        (&["0, 7200"], Ok(3600)),
        (&["0, 0"], Ok(3600)),
        (&["60, abc"], Ok(3540)),
        (&["7200", "0"], Err(Refusal::Expired)),
        (&["0", "7200"], Ok(3600)),
        (&["0", "0"], Ok(3600)),
        (&["60", "60"], Ok(3540)),
    ] {
        assert_eq!(left(ages), expected, "{ages:?}");
    }
}

/// RFC 9111 section 4.2: case is ignored in dates. The day of the week carries no information beyond the date.
#[test]
fn a_date_is_read_whatever_its_case_and_weekday() {
    let seconds = Some(2_544_400_878); // Thu, 18 Aug 2050 02:01:18 GMT
    for text in [
        "Thu, 18 Aug 2050 02:01:18 GMT",
        "THU, 18 Aug 2050 02:01:18 GMT",
        "thu, 18 AUG 2050 02:01:18 gMT",
        "Mon, 18 Aug 2050 02:01:18 GMT",
        "sun, 18 aug 2050 02:01:18 gmt",
        "THURSDAY, 18-AUG-50 02:01:18 GMT",
        "Wednesday, 18-Aug-50 02:01:18 GMT",
        "thu aug 18 02:01:18 2050",
        "Sun Aug 18 02:01:18 2050",
    ] {
        assert_eq!(super::said::date(text.as_bytes()), seconds, "{text}");
    }
    for none in [
        "0",
        "-1",
        "",
        "Foo, 18 Aug 2050 02:01:18 GMT",
        "Thu, 18 Aug 2050 02:01:18 UTC",
        "Thu, 18 Aug 2050 02:01:18 AEST",
        "Thu, 18 Aug 50 02:01:18 GMT",
        "Thu 18 Aug 2050 02:01:18 GMT",
        "Thu, 18  Aug  2050 02:01:18 GMT",
        "Thu, 18-Aug-2050 02:01:18 GMT",
        "Thu, 18 Aug 2050 02.01.18 GMT",
        "Thu, 18 Aug 2050 2:01:18 GMT",
        "Thu, 31 Feb 2050 02:01:18 GMT",
        "Th\u{fc}, 18 Aug 2050 02:01:18 GMT",
    ] {
        assert_eq!(super::said::date(none.as_bytes()), None, "{none}");
    }
}

#[test]
fn what_decides_nothing_hides_no_refusal() {
    let rules = profile();
    let undecided = [
        ("Surrogate-Control", "content=\"ESI/1.0\""),
        ("Surrogate-Control", "max-age=60;other"),
        ("X-LiteSpeed-Cache-Control", "esi=on"),
        ("X-LiteSpeed-Cache-Control", "no-vary"),
        ("Millrace-Cache-Control", "nonce"),
        ("CDN-Cache-Control", "must-revalidate"),
        ("CDN-Cache-Control", "max-age=abc"),
    ];
    for field in undecided {
        for (said, expected) in [
            ("private", Err(Refusal::Private)),
            ("no-cache", Err(Refusal::NoCache)),
            ("no-store", Err(Refusal::NoStore)),
            ("max-age=60", Ok(60)),
        ] {
            assert_eq!(life(&rules, &[("Cache-Control", said), field]), expected, "{field:?} {said}");
        }
        assert_eq!(life(&rules, &[field, ("Surrogate-Control", "max-age=7")]), Ok(7), "{field:?}");
    }
    let both = [("Surrogate-Control", "no-store"), ("Surrogate-Control", "max-age=60")];
    assert_eq!(life(&rules, &both), Err(Refusal::NoStore));
    // RFC 9213 section 2.2
    let cdn = [("Cache-Control", "max-age=60"), ("CDN-Cache-Control", "must-revalidate")];
    assert_eq!(life(&Rules::standard(), &cdn), Err(Refusal::NoLifetime));
    let day = [("Cache-Control", "max-age=86400"), ("Millrace-Cache-Control", "nonce")];
    assert_eq!(life(&rules, &day), Ok(NONCE_LIFE as i64 / 1000));
}

#[test]
fn what_was_stale_when_it_came() {
    // The profile allows 60 s while a new page is made, and a day on errors: both count from when it became stale.
    let graces = |age: &str| {
        let fields = &[("Cache-Control", "max-age=60"), ("Age", age)];
        judged(&profile(), &Given { fields, ..Given::default() })
            .map(|(terms, _)| (terms.stale_while_revalidate / 1000, terms.stale_if_error / 1000))
    };
    assert_eq!(graces("30"), Ok((60, DAY)));
    assert_eq!(graces("90"), Ok((30, DAY - 30)));
    assert_eq!(graces("3600"), Ok((0, DAY - 3540)));
    assert_eq!(graces("soon"), Ok((60, DAY)), "that is no age");
}

#[test]
fn who_has_the_word() {
    use Refusal::*;
    let rows: &[Row<'_>] = &[
        // RFC 9213 section 2.1: the targeted field alone.
        (&[("CDN-Cache-Control", "max-age=7"), ("Cache-Control", "max-age=60")], Ok(7)),
        (
            &[("CDN-Cache-Control", "max-age=7"), ("Cache-Control", "no-store, private"), ("Expires", "0")],
            Ok(7),
        ),
        (&[("CDN-Cache-Control", "no-store"), ("Cache-Control", "max-age=60")], Err(NoStore)),
        (&[("CDN-Cache-Control", "max-age=7"), ("CDN-Cache-Control", "private")], Err(Private)),
        // Invalid or empty: as if it was not there.
        (&[("CDN-Cache-Control", "max-age=7,"), ("Cache-Control", "max-age=60")], Ok(60)),
        (&[("CDN-Cache-Control", "Max-Age=7"), ("Cache-Control", "max-age=60")], Ok(60)),
        (&[("CDN-Cache-Control", ""), ("Cache-Control", "max-age=60")], Ok(60)),
        // Our own field precedes it.
        (&[("Millrace-Cache-Control", "max-age=5"), ("CDN-Cache-Control", "max-age=7")], Ok(5)),
        (&[("Millrace-Cache-Control", "no-store"), ("Cache-Control", "max-age=60")], Err(NoStore)),
        (&[("Millrace-Cache-Control", "max-age=5"), ("Cache-Control", "no-store, no-cache")], Ok(5)),
        (&[("CDN-Cache-Control", "max-age=7"), ("Surrogate-Control", "max-age=8")], Ok(7)),
        (&[("Surrogate-Control", "max-age=8"), ("X-Accel-Expires", "9")], Ok(8)),
        (&[("Surrogate-Control", "no-store"), ("Cache-Control", "max-age=60")], Err(NoStore)),
        (&[("X-Accel-Expires", "9"), ("Cache-Control", "max-age=60")], Ok(9)),
        (&[("X-Accel-Expires", "0"), ("Cache-Control", "max-age=60")], Err(Expired)),
        (&[("X-Accel-Expires", "off"), ("Cache-Control", "max-age=60")], Err(Expired)),
        (&[("X-Accel-Expires", "@784111787"), ("Cache-Control", "max-age=60")], Ok(10)),
        (&[("X-Accel-Expires", "@9223372036854775807"), ("Cache-Control", "max-age=60")], Ok(365 * 86_400)),
        (&[("X-Accel-Expires", "@1"), ("Cache-Control", "max-age=60")], Err(Expired)),
    ];
    for rules in [Rules::standard(), Rules::profile()] {
        for (fields, expected) in rows {
            assert_eq!(life(&rules, fields), *expected, "{:?} {fields:?}", rules.mode);
        }
    }
}

#[test]
fn litespeeds_fields() {
    use Refusal::*;
    let rows: &[Row<'_>] = &[
        (
            &[("X-LiteSpeed-Cache-Control", "public,max-age=604800"), ("Cache-Control", "no-cache")],
            Ok(604_800),
        ),
        (&[("X-LiteSpeed-Cache-Control", "no-cache"), ("Cache-Control", "max-age=60")], Err(NoStore)),
        (&[("X-LiteSpeed-Cache-Control", "private,max-age=1800")], Err(Private)),
        (&[("X-LiteSpeed-Cache-Control", "shared,private,max-age=1800")], Err(Private)),
        (&[("X-LiteSpeed-Cache-Control", "public,max-age=60"), ("Set-Cookie", "a=b")], Err(SetCookie)),
        (&[("X-LiteSpeed-Cache-Control", "public"), ("Content-Type", "text/html")], Ok(10)),
    ];
    for (fields, expected) in rows {
        assert_eq!(life(&profile(), fields), *expected, "{fields:?}");
    }
    assert_eq!(life(&Rules::standard(), rows[0].0), Err(NoCache), "not in standard mode");
    fn stored(fields: &[(&str, &str)]) -> (Terms, Keep) {
        judged(&profile(), &Given { fields, status: 404, ..Given::default() }).unwrap()
    }
    let public = ("X-LiteSpeed-Cache-Control", "public,max-age=60");
    let (_, keep) = stored(&[public, ("LSC-Cookie", "_lscache_vary=x"), ("LSC-Cookie", "b=1")]);
    assert_eq!(keep.cookies, [b"_lscache_vary=x"[..].into(), b"b=1"[..].into()]);
    let (_, keep) = stored(&[("LSC-Cookie", "a=b")]);
    assert!(keep.cookies.is_empty(), "only by LiteSpeed's own word");
    let (terms, _) =
        stored(&[public, ("X-LiteSpeed-Vary", "cookie=a,cookie=b"), ("Vary", "Accept-Encoding")]);
    assert_eq!(*terms.vary, ["cookie=a".into(), "cookie=b".into()]);
    let no_vary = ("X-LiteSpeed-Cache-Control", "public,no-vary,max-age=60");
    assert!(stored(&[no_vary, ("X-LiteSpeed-Vary", "cookie=a")]).0.vary.is_empty());
}

#[test]
fn where_the_application_says_nothing() {
    use Refusal::*;
    let html = [("Content-Type", "text/html; charset=UTF-8")];
    let rows: &[(u16, &str, &str, Result<u64, Refusal>)] = &[
        (200, "/", "text/html", Ok(10)),
        (200, "/feed/", "application/rss+xml; charset=x", Ok(20)),
        (200, "/x", "application/atom+xml", Ok(20)),
        (200, "/a/feed/", "text/xml", Ok(20)),
        (200, "/wp-sitemap.xml", "text/xml", Ok(30)),
        (200, "/wp-json/wp/v2/posts", "application/json", Ok(40)),
        (200, "/x", "application/json", Ok(50)),
        (301, "/x", "text/html", Ok(60)),
        (308, "/x", "", Ok(60)),
        (404, "/x", "text/html", Ok(5)),
        (410, "/wp-json/", "text/html", Ok(5)),
        (302, "/x", "text/html", Err(NoLifetime)),
        (403, "/x", "text/html", Err(NoLifetime)),
        (201, "/x", "text/html", Err(NoLifetime)),
        (500, "/x", "text/html", Err(Status)),
        (503, "/x", "text/html", Err(Status)),
        (206, "/x", "text/html", Err(Status)),
        (304, "/x", "text/html", Err(Status)),
    ];
    for (status, path, kind, expected) in rows {
        let fields = &[("Content-Type", *kind)];
        let given = Given { status: *status, path, fields, ..Given::default() };
        let found = judged(&profile(), &given).map(|(terms, _)| terms.ttl / 1000);
        assert_eq!(found, *expected, "{status} {path} {kind}");
    }
    assert_eq!(life(&Rules::standard(), &html), Err(NoLifetime));
    // Set by PHP's session_start(), and by an old nocache_headers().
    let silent = |more: (&'static str, &'static str)| life(&profile(), &[html[0], more]);
    assert_eq!(silent(("Pragma", "no-cache")), Err(NoCache));
    assert_eq!(silent(("Expires", "Wed, 11 Jan 1984 05:00:00 GMT")), Err(Expired));
    assert_eq!(silent(("Cache-Control", "no-store, no-cache, must-revalidate")), Err(NoStore));
    assert_eq!(silent(("Cache-Control", "no-cache, must-revalidate, max-age=0")), Err(NoCache));
    assert_eq!(silent(("Cache-Control", "public")), Ok(10));
    let zero = Rules { lifetimes: Lifetimes::default(), ..profile() };
    assert_eq!(life(&zero, &html), Err(NoLifetime));
}

/// The effect of a function call as a fallback.
fn with_control(control: &str, fields: &[(&str, &str)], status: u16) -> Result<i64, Refusal> {
    said_by_function(&format!("{control}, fallback"), fields, status)
}

fn said_by_function(control: &str, fields: &[(&str, &str)], status: u16) -> Result<i64, Refusal> {
    let notes = Notes { control: control.into(), ..Notes::default() };
    let given = Given { notes, fields, status, ..Given::default() };
    judged(&profile(), &given).map(|(terms, _)| terms.ttl as i64 / 1000)
}

#[test]
fn a_function_call_goes_before_headers() {
    let day = "public, max-age=86400";
    for (name, value) in [
        ("Cache-Control", "no-store, no-cache, must-revalidate"),
        ("Millrace-Cache-Control", "max-age=5"),
        ("X-LiteSpeed-Cache-Control", "no-cache"),
        ("X-Accel-Expires", "0"),
        ("Pragma", "no-cache"),
    ] {
        assert_eq!(said_by_function(day, &[(name, value)], 200), Ok(86_400), "{name}: {value}");
    }
    assert_eq!(said_by_function(day, &[], 404), Ok(86_400));
    assert_eq!(said_by_function("no-store", &[("Cache-Control", "max-age=60")], 200), Err(Refusal::NoStore));
    assert_eq!(said_by_function(day, &[("Set-Cookie", "a=b")], 200), Err(Refusal::SetCookie));
    assert_eq!(said_by_function(day, &[("cart-token", "a")], 200), Err(Refusal::Token));
}

#[test]
fn a_fallback_yields_to_the_pages_own_refusal() {
    use Refusal::*;
    let day = "public, max-age=86400";
    assert_eq!(with_control(day, &[("Content-Type", "text/html")], 200), Ok(86_400));
    assert_eq!(with_control(day, &[("Cache-Control", "max-age=60")], 200), Ok(86_400));
    for (name, value, expected) in [
        ("Cache-Control", "no-store, private", NoStore),
        ("Cache-Control", "private", Private),
        ("Cache-Control", "no-cache, must-revalidate, max-age=0", NoCache),
        ("Cache-Control", "max-age=0", Expired),
        ("Expires", "Wed, 11 Jan 1984 05:00:00 GMT", Expired),
        ("Pragma", "no-cache", NoCache),
        ("Set-Cookie", "a=b", SetCookie),
        ("Cart-Token", "a", Token),
        ("X-Accel-Expires", "0", Expired),
    ] {
        assert_eq!(with_control(day, &[(name, value)], 200), Err(expected), "{name}: {value}");
    }
    // The fallback's own refusal always counts.
    let public = [("Cache-Control", "public, max-age=60")];
    assert_eq!(with_control("no-store", &public, 200), Err(NoStore));
    assert_eq!(with_control("private", &public, 200), Err(Private));
    assert_eq!(with_control("no-cache", &public, 200), Err(NoCache));
    assert_eq!(with_control("no-store", &[("Millrace-Cache-Control", "max-age=60")], 200), Err(NoStore));
    // A call on all pages doesn't mean pages that don't exist.
    assert_eq!(with_control(day, &[], 404), Ok(5));
    assert_eq!(with_control(day, &[], 500), Err(Status));
    assert_eq!(with_control("public", &[("Content-Type", "text/html")], 200), Ok(10));
}

#[test]
fn pages_for_visitors_in_a_country() {
    let (germany, france) = (Country::parse(b"DE"), Country::parse(b"FR"));
    let judged = |control: &str, fields, country| {
        let notes = Notes { control: control.into(), ..Notes::default() };
        judged(&profile(), &Given { notes, fields, country, ..Given::default() })
    };
    let by_country = |terms: &Terms| terms.vary.iter().any(|name| &**name == COUNTRY);
    let (terms, _) = judged("public, max-age=60, country=DE, fallback", &[], germany).unwrap();
    assert!(by_country(&terms));
    // A field that decides how long it lives doesn't change for whom it is.
    let (terms, _) =
        judged("public, country=DE, fallback", &[("Millrace-Cache-Control", "max-age=60")], germany).unwrap();
    assert!(by_country(&terms));
    for (control, country) in [
        ("public, max-age=60, country=DE", france),
        ("public, max-age=60, country=DE", None),
        ("public, max-age=60, country", germany),
        ("public, max-age=60, country", None),
        ("public, max-age=60, country=DEU", germany),
        ("public, max-age=60, country=DE, country=FR", germany),
    ] {
        assert_eq!(judged(control, &[], country).unwrap_err(), Refusal::Country, "{control} {country:?}");
    }
    // Only PHP's function says so, not a field.
    let (terms, _) = judged("", &[("Millrace-Cache-Control", "max-age=60, country=DE")], None).unwrap();
    assert!(!by_country(&terms));
    // It is soon tried again.
    let notes = Notes { control: b"no-store, country".to_vec(), ..Notes::default() };
    let fields = [("", &b""[..]); 0].into_iter();
    let answer = Answer { status: 200, fields, notes: &notes, country: None, content: b"", failed: false };
    let Verdict::Refuse { why, remember } = judge(&profile(), &PLACE, &Asking::default(), &answer, NOW)
    else {
        panic!()
    };
    assert_eq!((why, remember), (Refusal::Country, UNKNOWN_COUNTRY));
}

#[test]
fn requests_with_authorization() {
    // RFC 9111 section 3.5
    let asking = Asking { authorization: true, ..Asking::default() };
    for (control, allowed) in [
        ("max-age=60", false),
        ("max-age=60, public", true),
        ("max-age=60, must-revalidate", true),
        ("s-maxage=60", true),
        ("max-age=60, proxy-revalidate", false),
    ] {
        let given = Given { fields: &[("Cache-Control", control)], asking, ..Given::default() };
        assert_eq!(judged(&Rules::standard(), &given).is_ok(), allowed, "{control}");
    }
}

#[test]
fn answers_that_are_never_stored() {
    let fields: &[(&str, &str)] = &[("Cache-Control", "public, max-age=60")];
    let usual = Given { fields, ..Given::default() };
    let standard = Rules::standard();
    let why = |given: Given<'_>| judged(&standard, &given).err();
    assert_eq!(why(usual.clone()), None);
    assert_eq!(why(Given { failed: true, ..usual.clone() }), Some(Refusal::Failed));
    assert_eq!(why(Given { status: 206, ..usual.clone() }), Some(Refusal::Status));
    assert_eq!(why(Given { status: 101, ..usual.clone() }), Some(Refusal::Status));
    let small = Rules { largest_page: 3, ..Rules::standard() };
    assert_eq!(judged(&small, &Given { content: "1234", ..usual.clone() }).err(), Some(Refusal::TooLarge));
    let reduced = Asking { reduced: true, ..Asking::default() };
    assert_eq!(why(Given { asking: reduced, ..usual.clone() }), None);
    let redirect = Given { asking: reduced, status: 301, ..usual.clone() };
    assert_eq!(why(redirect), Some(Refusal::Arguments), "it may lead to its own key");
    let mut asking = Asking::default();
    asking.wants.no_store = true;
    assert_eq!(why(Given { asking, ..usual.clone() }), Some(Refusal::Client));
    let tags: String = (0..300).map(|n| format!("t{n} ")).collect();
    for tags in [tags, "same ".repeat(2000) + "last"] {
        let given = Given { fields: &[fields[0], ("Surrogate-Key", &tags)], ..Given::default() };
        assert_eq!(why(given), Some(Refusal::TooManyTags));
    }
}

#[test]
fn statuses() {
    let fresh: &[(&str, &str)] = &[("Cache-Control", "max-age=60")];
    for status in [200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599] {
        let given = Given { status, fields: fresh, ..Given::default() };
        assert!(judged(&Rules::standard(), &given).is_ok(), "RFC 9111 section 3: {status}");
        assert_eq!(judged(&profile(), &given).is_ok(), status < 500, "{status}");
    }
    // RFC 9111 section 5.2.2.3
    let must = |status, control| {
        judged(
            &Rules::standard(),
            &Given { status, fields: &[("Cache-Control", control)], ..Given::default() },
        )
        .err()
    };
    assert_eq!(must(599, "max-age=60, must-understand"), Some(Refusal::Status));
    assert_eq!(must(200, "max-age=60, must-understand"), None);
    assert_eq!(must(200, "max-age=60, must-understand, no-store"), None);
    assert_eq!(must(599, "max-age=60, must-understand, no-store"), Some(Refusal::Status));
}

#[test]
fn stale_use() {
    // RFC 5861 sections 3 and 4; RFC 9111 section 4.2.4.
    let graces = |rules: &Rules, control: &str| {
        let fields = &[("Cache-Control", control), ("ETag", "\"a\"")];
        let (terms, _) = judged(rules, &Given { fields, ..Given::default() }).unwrap();
        (terms.stale_while_revalidate / 1000, terms.stale_if_error / 1000, terms.must_revalidate)
    };
    let standard = Rules::standard();
    assert_eq!(graces(&standard, "max-age=60"), (0, 0, false));
    assert_eq!(graces(&standard, "max-age=60, stale-while-revalidate=5, stale-if-error=7"), (5, 7, false));
    for never in ["must-revalidate", "proxy-revalidate"] {
        let control = format!("max-age=60, stale-while-revalidate=5, stale-if-error=7, {never}");
        assert_eq!(graces(&standard, &control), (0, 0, true), "{never}");
    }
    assert_eq!(graces(&standard, "no-cache, stale-if-error=7"), (0, 0, false));
    // RFC 9111 section 5.2.2.10
    assert_eq!(graces(&standard, "s-maxage=60"), (0, 0, true));
    assert_eq!(graces(&standard, "s-maxage=60, stale-if-error=7"), (0, 7, false));
    let rules = profile();
    assert_eq!(graces(&rules, "max-age=60"), (60, DAY, false));
    assert_eq!(graces(&rules, "max-age=60, stale-if-error=0"), (60, 0, false));
    assert_eq!(graces(&rules, "max-age=60, stale-while-revalidate=999999999"), (7 * DAY, DAY, false));
}

#[test]
fn a_nonce_ends_a_pages_life() {
    let check = |given: Given<'_>, ttl: u64| {
        let (terms, _) = judged(&profile(), &given).unwrap();
        assert_eq!(terms.ttl, ttl);
        assert!(terms.ttl + terms.stale_if_error.max(terms.stale_while_revalidate) <= NONCE_LIFE);
        terms
    };
    let day: &[(&str, &str)] = &[("Cache-Control", "max-age=86400")];
    check(
        Given { fields: &[("Millrace-Cache-Control", "max-age=86400, nonce")], ..Given::default() },
        NONCE_LIFE,
    );
    let notes = Notes { control: b"public, max-age=86400, nonce".to_vec(), ..Notes::default() };
    check(Given { notes: notes.clone(), ..Given::default() }, NONCE_LIFE);
    check(
        Given { notes, fields: &[("Millrace-Cache-Control", "max-age=86400")], ..Given::default() },
        NONCE_LIFE,
    );
    check(Given { fields: day, content: "<input name=\"_wpnonce\">", ..Given::default() }, NONCE_LIFE);
    let short = Given { fields: &[("Cache-Control", "max-age=60")], content: "_wpnonce", ..Given::default() };
    assert_eq!(check(short, 60_000).stale_if_error, NONCE_LIFE - 60_000);
    let without = Given { fields: day, ..Given::default() };
    assert_eq!(judged(&profile(), &without).unwrap().0.ttl, DAY * 1000);
    let longest = Rules { longest_life: 3_600_000, ..profile() };
    assert_eq!(judged(&longest, &without).unwrap().0.ttl, 3_600_000);
}

#[test]
fn tags_by_every_name() {
    let notes = Notes { tags: b"n1, n2".to_vec(), ..Notes::default() };
    let fields = &[
        ("Cache-Control", "max-age=60"),
        ("Millrace-Tag", "a, b,,a"),
        ("X-LiteSpeed-Tag", "ls_F,ls_"),
        ("Surrogate-Key", "s1 s2"),
        ("Cache-Tag", "c one,c2"),
        ("Edge-Cache-Tag", "e"),
        ("xkey", "x1 x2"),
        ("X-Cache-Tags", "m"),
        ("X-Drupal-Cache-Tags", "node:1 node_list"),
        ("Cache-Groups", "\"g1\", \"g 2\";p, tok"),
    ];
    let (terms, _) = judged(&profile(), &Given { fields, notes, ..Given::default() }).unwrap();
    let mut expected = Tag::implicit(&PLACE, b"").to_vec();
    let ours = ["n1", "n2", "a", "b", "ls_F", "ls_"];
    let others = ["s1", "s2", "c one", "c2", "e", "x1", "x2", "m", "node:1", "node_list", "g1", "g 2"];
    expected.extend(ours.iter().chain(&others).map(|name| Tag::named("a", name.as_bytes())));
    expected.sort_unstable();
    assert_eq!(*terms.tags, *expected);
}

#[test]
fn directives_about_some_fields() {
    // RFC 9111 sections 5.2.2.4 and 5.2.2.7: they count for the whole response, if it has such a field.
    let said = |control, field| life(&Rules::standard(), &[("Cache-Control", control), (field, "1")]);
    assert_eq!(said("max-age=60, no-cache=\"A, b\"", "x"), Ok(60));
    assert_eq!(said("max-age=60, no-cache=\"A, b\"", "B"), Err(Refusal::NoCache));
    assert_eq!(said("max-age=60, private=\"a\"", "a"), Err(Refusal::Private));
}

#[test]
fn fields_that_are_left_out() {
    let date = at(-5);
    let fields = &[("Cache-Control", "max-age=60"), ("Connection", "c, close"), ("Date", &date)];
    let (_, keep) = judged(&Rules::standard(), &Given { fields, ..Given::default() }).unwrap();
    assert!(!keep.keeps("C") && !keep.keeps("Date") && keep.keeps("d") && keep.keeps("Set-Cookie2"));
    assert_eq!(keep.date.as_deref(), Some(date.as_bytes()), "RFC 9110 section 6.6.1");
    let broken = &[("Cache-Control", "max-age=60"), ("Date", "soon")];
    let (_, keep) = judged(&Rules::standard(), &Given { fields: broken, ..Given::default() }).unwrap();
    assert_eq!(keep.date, None);
}

/// `Cache-Control: public, max-age=300`, an `Expires` in 1978, `Vary: Cookie`, an ETag.
const DRUPAL: &[(&str, &str)] = &[
    ("Cache-Control", "max-age=300, public"),
    ("Expires", "Sun, 19 Nov 1978 05:00:00 GMT"),
    ("Vary", "Cookie"),
    ("ETag", "\"1700000000\""),
    ("Last-Modified", "Sun, 06 Nov 1994 08:00:00 GMT"),
    ("Content-Type", "text/html; charset=UTF-8"),
];

fn drupal_page(terms: &Terms) -> Page {
    assert_eq!(terms.ttl, 300_000);
    let lines = DRUPAL.iter().filter(|(name, _)| *name != "ETag");
    let fields: String = lines.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let form = Form::new(b"", b"page");
    let mut page = Page::new(200, fields.into_bytes(), form, NOW);
    page.etag = Some("\"1700000000\"".into());
    page.last_modified = date(b"Sun, 06 Nov 1994 08:00:00 GMT");
    page
}

#[test]
fn a_page_as_drupal_sends_it() {
    let mut rules = profile();
    rules.vary_cookies = VaryCookies::Only(crate::rules::Patterns::new(["SESS*", "SSESS*"]));
    for rules in [Rules::standard(), rules.clone()] {
        let (terms, _) = judged(&rules, &Given { fields: DRUPAL, ..Given::default() }).unwrap();
        assert_eq!((terms.ttl, &*terms.vary), (300_000, &["cookie".into()][..]));
    }
    let variant = |cookie: Option<&str>| {
        let mut out = Vec::new();
        let fields = cookie.iter().map(|cookie| ("Cookie", cookie.as_bytes()));
        crate::vary::select(&rules, fields, "cookie", &mut out);
        out
    };
    assert_eq!(variant(None), variant(Some("_ga=1; has_js=1; Drupal.x=1")));
    assert_ne!(variant(None), variant(Some("SESSabc=1")));
    assert_ne!(variant(Some("SESSabc=2")), variant(Some("SESSabc=1")));
    let (terms, _) = judged(&rules, &Given { fields: DRUPAL, ..Given::default() }).unwrap();
    let asked = Validators::of(&drupal_page(&terms));
    let asked: Vec<_> = asked.fields().collect();
    assert_eq!(
        asked,
        [("If-None-Match", "\"1700000000\""), ("If-Modified-Since", "Sun, 06 Nov 1994 08:00:00 GMT"),]
    );
}

fn freshened(fields: &[(&str, &str)], later: Millis) -> (Terms, Result<Freshened, Refusal>) {
    let rules = profile();
    let notes = Notes { tags: b"node:1".to_vec(), ..Notes::default() };
    let (old, _) = judged(&rules, &Given { fields: DRUPAL, notes, ..Given::default() }).unwrap();
    let notes = Notes::default();
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    let answer = Answer { status: 304, fields, notes: &notes, country: None, content: b"", failed: false };
    let page = drupal_page(&old);
    let page = (&page, page.identity().body());
    let new = freshen(&rules, &PLACE, &Asking::default(), page, &old, &answer, NOW + later);
    (old, new)
}

#[test]
fn a_304_makes_a_page_fresh_again() {
    // RFC 9111 section 4.3.4: with nothing new, the old terms count from now.
    let (old, new) = freshened(&[("ETag", "\"1700000000\"")], 400_000);
    assert_eq!(new.unwrap(), Freshened { terms: old, fields: None, last_modified: None });
    // What it says about caching and about itself replaces what was stored.
    let news = [
        ("Cache-Control", "max-age=60, public"),
        ("X-New", "1"),
        ("ETag", "\"other\""),
        ("Content-Length", "0"),
        ("Content-Encoding", "gzip"),
        ("Set-Cookie", "a=b"),
        ("Vary", "Accept-Language"),
        ("Connection", "X-Hop"),
        ("X-Hop", "1"),
        ("Cache-Tag", "x"),
    ];
    let (old, new) = freshened(&news, 400_000);
    let new = new.unwrap();
    assert_eq!((new.terms.ttl, &new.terms.vary), (60_000, &old.vary));
    assert!(
        new.terms.tags.contains(&Tag::named("a", b"x"))
            && !new.terms.tags.contains(&Tag::named("a", b"node:1"))
    );
    let text = String::from_utf8(new.fields.unwrap().into()).unwrap();
    assert!(text.contains("Cache-Control: max-age=60, public\r\n") && text.contains("X-New: 1\r\n"));
    assert!(text.contains("Vary: Cookie\r\n") && text.contains("Content-Type: text/html"));
    for gone in ["max-age=300", "other", "gzip", "Set-Cookie", "X-Hop", "Cache-Tag"] {
        assert!(!text.contains(gone), "{gone}");
    }
}

#[test]
fn a_304_may_forbid_to_keep_the_page() {
    assert_eq!(freshened(&[("Cache-Control", "no-store")], 1).1.unwrap_err(), Refusal::NoStore);
    assert_eq!(freshened(&[("Cache-Control", "private")], 1).1.unwrap_err(), Refusal::Private);
    assert_eq!(freshened(&[("Cart-Token", "a")], 1).1.unwrap_err(), Refusal::Token);
    // Only an age: the 304's, not the stored page's.
    let (old, new) = freshened(&[("Age", "10")], 400_000);
    assert_eq!(new.unwrap().terms, Terms { age: 10_000, ..old });
    let (_, new) = freshened(&[("Last-Modified", "Sun, 06 Nov 1994 08:10:00 GMT")], 1);
    let new = new.unwrap();
    assert_eq!(new.last_modified, date(b"Sun, 06 Nov 1994 08:10:00 GMT"));
    assert!(String::from_utf8_lossy(&new.fields.unwrap()).contains("08:10:00"));
}

#[test]
fn refusals_are_remembered_only_if_they_last() {
    let rules = profile();
    for (why, remembered) in [
        (Refusal::SetCookie, true),
        (Refusal::NoStore, true),
        (Refusal::TooLarge, true),
        (Refusal::Failed, false),
        (Refusal::Status, false),
        (Refusal::Arguments, false),
        (Refusal::Client, false),
    ] {
        let Verdict::Refuse { remember, .. } = refuse(&rules, why) else { panic!() };
        assert_eq!(remember > 0, remembered, "{}", why.word());
    }
}
