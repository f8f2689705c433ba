//! Field values that decide how a static file is served: `Range`, `Accept-Encoding` and the `If-*` fields. The input is
//! lines `name: value`; the first two bytes are the length of the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millrace_wire::conditional::{Conditions, Validators};
use millrace_wire::encoding::{Accept, CODINGS};
use millrace_wire::ranges::{self, MOST_RANGES, Wanted};

fuzz_target!(|input: &[u8]| {
    let Some((length, lines)) = input.split_first_chunk::<2>() else { return };
    let length = u64::from(u16::from_le_bytes(*length));
    let validators = Validators {
        etag: "\"abc\"",
        modified: 784_111_777,
        modified_is_strong: length.is_multiple_of(2),
        etag_is_weak: !length.is_multiple_of(3),
    };
    let mut conditions = Conditions::default();
    for line in lines.split(|&b| b == b'\n') {
        let Some(colon) = line.iter().position(|&b| b == b':') else { continue };
        let (Ok(name), value) = (std::str::from_utf8(&line[..colon]), line[colon + 1..].trim_ascii()) else {
            continue;
        };
        conditions.add(name, value);
        if name.eq_ignore_ascii_case("range") {
            check_range(value, length);
        }
        if name.eq_ignore_ascii_case("accept-encoding") {
            check_encoding(value);
        }
    }
    let (outcome, counts) = (conditions.evaluate(&validators), conditions.range_counts(&validators));
    let owned = conditions.into_owned();
    assert_eq!((owned.evaluate(&validators), owned.range_counts(&validators)), (outcome, counts));
});

fn check_range(value: &[u8], length: u64) {
    let spans = match ranges::wanted(value, length) {
        Wanted::Whole | Wanted::Nothing => return,
        Wanted::One(span) => vec![span],
        Wanted::Several(spans) => {
            assert!(spans.len() > 1 && spans.len() <= MOST_RANGES);
            spans
        }
    };
    assert!(value[..6].eq_ignore_ascii_case(b"bytes="));
    assert!(spans.iter().map(|s| s.length()).sum::<u64>() <= length, "more than there is");
    for (i, span) in spans.iter().enumerate() {
        assert!(span.start < span.end && span.end <= length);
        assert!(spans[..i].iter().all(|other| other.end < span.start || span.end < other.start), "{spans:?}");
    }
}

fn check_encoding(value: &[u8]) {
    let accept = Accept::parse(value);
    assert!(CODINGS.iter().all(|coding| accept.weight(*coding) <= 1_000));
    let order: Vec<_> = accept.by_preference().collect();
    assert!(order.windows(2).all(|pair| accept.weight(pair[0]) >= accept.weight(pair[1])), "{order:?}");
}
