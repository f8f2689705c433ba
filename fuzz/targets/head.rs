//! Request heads: an accepted head obeys the rules, whatever the input, in however many pieces it arrives, and whatever
//! was read before it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millrace_wire::head::{Framing, Head, Limits, Version};

const LIMITS: Limits = Limits { bytes: 16 * 1024, fields: 100, target: 8 * 1024 };
const SMALL: Limits = Limits { bytes: 200, fields: 3, target: 40 };

fuzz_target!(|input: &[u8]| {
    check(input, &LIMITS);
    check(input, &SMALL);
});

fn check(input: &[u8], limits: &Limits) {
    let mut head = Head::default();
    let Ok(Some(length)) = head.parse(input, limits) else { return };
    assert!(length > 0 && length <= input.len());
    check_rules(&head, limits);
    check_pieces(input, length, &head, limits);
}

fn check_rules(head: &Head, limits: &Limits) {
    assert!(!head.method().is_empty());
    assert!(head.target().len() <= limits.target);
    assert!(head.target().iter().all(|&b| b > b' ' && b < 0x7f));
    assert!(head.method().len() <= 32);
    let path = head.path_query();
    match head.method() {
        "CONNECT" => {}
        "OPTIONS" if path == b"*" => {}
        _ => assert_eq!(path.first(), Some(&b'/')),
    }
    let hostile = |b: u8| b <= b' ' || b == 0x7f || b"/\\?#@\"<>".contains(&b);
    assert!(!head.authority().bytes().any(hostile), "{:?}", head.authority());
    assert!(
        head.version() != Version::Http11 || !head.authority().is_empty() || head.field("host") == Some(b"")
    );

    let (mut lengths, mut codings, mut hosts, mut count) = (0, 0, 0, 0);
    for (name, value) in head.fields() {
        count += 1;
        assert!(!name.is_empty() && name.bytes().all(is_token), "{name:?}");
        assert!(value.iter().all(|&b| b == b'\t' || (b >= b' ' && b != 0x7f)), "{value:?}");
        assert_eq!(value.trim_ascii(), value);
        lengths += usize::from(name.eq_ignore_ascii_case("content-length"));
        codings += usize::from(name.eq_ignore_ascii_case("transfer-encoding"));
        hosts += usize::from(name.eq_ignore_ascii_case("host"));
    }
    assert!(count <= limits.fields && hosts <= 1);
    assert!(lengths == 0 || codings == 0, "the length of the content is said twice");
    match head.framing() {
        Framing::None => assert_eq!(lengths + codings, 0),
        Framing::Length(length) => {
            assert_eq!(codings, 0);
            let value = head.field_text("content-length").expect("a length comes from its field");
            assert_eq!(value.parse::<u64>().ok(), Some(length));
        }
        Framing::Chunked => {
            assert_eq!(lengths, 0);
            let value = head.field_text("transfer-encoding").expect("a coding comes from its field");
            let mut codings = value.split(',').map(str::trim).filter(|coding| !coding.is_empty());
            assert!(codings.next().is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")));
            assert_eq!(codings.next(), None);
            assert_eq!(head.version(), Version::Http11);
        }
    }
}

/// A head that is accepted whole is waited for when it is split, and a reused head retains nothing of its earlier use.
fn check_pieces(input: &[u8], length: usize, head: &Head, limits: &Limits) {
    let mut again = head.clone();
    for torn in [length - 1, length / 2, length.saturating_sub(3), 1, 0] {
        assert_eq!(
            again.parse(&input[..torn.min(length - 1)], limits),
            Ok(None),
            "torn at {torn} of {length}"
        );
    }
    assert_eq!(again.parse(&input[..length], limits), Ok(Some(length)));
    assert_eq!(format!("{again:?}"), format!("{head:?}"));
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
