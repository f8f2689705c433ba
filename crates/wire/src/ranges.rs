//! The requested bytes of a representation: `Range` (RFC 9110 section 14).

/// Bytes `start..end` of a representation; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSpan {
    /// First byte.
    pub start: u64,
    /// One past the last.
    pub end: u64,
}

impl ByteSpan {
    /// Bytes in it.
    pub fn length(self) -> u64 {
        self.end - self.start
    }

    /// The value of `Content-Range` for this part of a representation of `length` bytes.
    pub fn content_range(self, length: u64) -> String {
        format!("bytes {}-{}/{length}", self.start, self.end - 1)
    }

    /// Whether the two overlap or are adjacent.
    fn touches(self, other: ByteSpan) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    fn join(self, other: ByteSpan) -> ByteSpan {
        ByteSpan { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// The meaning of a `Range` field for a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of it: the field is invalid, has another unit, or requests more than an honest client would.
    Whole,
    /// One part.
    One(ByteSpan),
    /// Two or more parts in the requested order; none touches another.
    Several(Vec<ByteSpan>),
    /// Nothing that exists: 416.
    Nothing,
}

/// Maximum number of ranges. Players and readers of large documents request a handful; a request for thousands is an
/// attack on the server (RFC 9110 section 14.2).
pub const MOST_RANGES: usize = 16;

/// Reads the value of a `Range` field for a representation of `length` bytes.
///
/// Adjacent ranges become one. More than [`MOST_RANGES`], or more bytes in total than the length, give the whole.
pub fn wanted(value: &[u8], length: u64) -> Wanted {
    let Some(members) = members(value) else { return Wanted::Whole };
    let mut spans: Vec<ByteSpan> = Vec::new();
    let (mut count, mut total) = (0, 0u64);
    for member in members {
        let Some(spec) = spec(member) else { return Wanted::Whole };
        count += 1;
        match spec.of(length) {
            Some(span) => {
                total = total.saturating_add(span.length());
                spans.push(span);
            }
            None if length == 0 && spec.is_suffix() => return Wanted::Whole,
            None => {}
        }
        if count > MOST_RANGES {
            return Wanted::Whole;
        }
    }
    if count == 0 || (count > 1 && total > length) {
        return Wanted::Whole;
    }
    let spans = coalesce(spans);
    match spans[..] {
        [] => Wanted::Nothing,
        [span] => Wanted::One(span),
        _ => Wanted::Several(spans),
    }
}

/// The members after `bytes=`; empty ones are skipped (RFC 9110 section 5.6.1.2).
fn members(value: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let (unit, rest) = value.split_at_checked(6)?;
    let list = unit.eq_ignore_ascii_case(b"bytes=").then_some(rest)?;
    Some(list.split(|b| *b == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty()))
}

/// `1-5`, `1-`, `-5`.
#[derive(Clone, Copy)]
enum Spec {
    From { first: u64, last: u64 },
    Suffix(u64),
}

impl Spec {
    fn is_suffix(self) -> bool {
        matches!(self, Spec::Suffix(n) if n > 0)
    }

    /// The bytes it means, if there are any.
    fn of(self, length: u64) -> Option<ByteSpan> {
        let span = match self {
            Spec::From { first, last } => ByteSpan { start: first, end: last.saturating_add(1).min(length) },
            Spec::Suffix(n) => ByteSpan { start: length.saturating_sub(n), end: length },
        };
        (span.start < span.end).then_some(span)
    }
}

fn spec(member: &[u8]) -> Option<Spec> {
    let dash = memchr::memchr(b'-', member)?;
    let (first, last) = (&member[..dash], &member[dash + 1..]);
    if first.is_empty() {
        return number(last).map(Spec::Suffix);
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    (first <= last).then_some(Spec::From { first, last })
}

/// Digits; a number too large counts as beyond the end of any file.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |n: u64, d: &u8| n.saturating_mul(10).saturating_add(u64::from(d - b'0'));
    Some(text.iter().fold(0, digit))
}

/// Joins adjacent spans, each with the first that it touches, so that the requested order stays.
fn coalesce(spans: Vec<ByteSpan>) -> Vec<ByteSpan> {
    let mut out: Vec<ByteSpan> = Vec::with_capacity(spans.len());
    for mut span in spans {
        let mut place = out.len();
        // A joined span may touch a third one: repeat until none touches. At most MOST_RANGES spans, so this is
        // short.
        while let Some(touched) = out.iter().position(|other| other.touches(span)) {
            span = span.join(out.remove(touched));
            place = place.min(touched);
        }
        out.insert(place.min(out.len()), span);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use Wanted::{Nothing, One, Several, Whole};
    use proptest::prelude::*;

    fn span(start: u64, end: u64) -> ByteSpan {
        ByteSpan { start, end }
    }

    #[test]
    fn single_ranges() {
        let table: &[(&str, u64, Wanted)] = &[
            ("bytes=0-0", 10, One(span(0, 1))),
            ("bytes=0-9", 10, One(span(0, 10))),
            ("bytes=0-", 10, One(span(0, 10))),
            ("Bytes= 3-4 ", 10, One(span(3, 5))),
            ("bytes=9-", 10, One(span(9, 10))),
            ("bytes=5-99", 10, One(span(5, 10))),
            ("bytes=5-18446744073709551615", 10, One(span(5, 10))),
            ("bytes=5-99999999999999999999999999", 10, One(span(5, 10))),
            ("bytes=10-", 10, Nothing),
            ("bytes=10-20", 10, Nothing),
            ("bytes=99999999999999999999999999-", 10, Nothing),
            ("bytes=-1", 10, One(span(9, 10))),
            ("bytes=-10", 10, One(span(0, 10))),
            ("bytes=-11", 10, One(span(0, 10))),
            ("bytes=-99999999999999999999999999", 10, One(span(0, 10))),
            ("bytes=-0", 10, Nothing),
            ("bytes=0-", 0, Nothing),
            ("bytes=-5", 0, Whole),
            ("bytes=-0", 0, Nothing),
        ];
        for (value, length, expected) in table {
            assert_eq!(wanted(value.as_bytes(), *length), *expected, "{value:?} of {length}");
        }
    }

    #[test]
    fn malformed_fields_are_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=4-3",
            "bytes=+1-2",
            "bytes=1-+2",
            "bytes=1--2",
            "bytes=1-2-3",
            "bytes 1-2",
            "lines=1-2",
            "bytes=0-1,x",
            "bytes=0-1;2-3",
            "bytes =0-1",
            "bytes=0x1-2",
            "bytes=1.0-2",
        ] {
            assert_eq!(wanted(value.as_bytes(), 10), Whole, "{value:?}");
        }
    }

    #[test]
    fn several_ranges() {
        let table: &[(&str, Wanted)] = &[
            ("bytes=0-1,4-5", Several(vec![span(0, 2), span(4, 6)])),
            ("bytes=4-5, 0-1", Several(vec![span(4, 6), span(0, 2)])),
            ("bytes=0-1,,\t4-5,", Several(vec![span(0, 2), span(4, 6)])),
            ("bytes=0-1,-1", Several(vec![span(0, 2), span(99, 100)])),
            ("bytes=0-1,100-200", One(span(0, 2))),
            ("bytes=100-,200-", Nothing),
            ("bytes=0-4,5-9", One(span(0, 10))),
            ("bytes=0-4,3-9", One(span(0, 10))),
            ("bytes=50-60,0-1,55-70", Several(vec![span(50, 71), span(0, 2)])),
            ("bytes=0-1,4-5,2-3", One(span(0, 6))),
            // More than the length.
            ("bytes=0-,0-", Whole),
            ("bytes=0-60,30-99", Whole),
        ];
        for (value, expected) in table {
            assert_eq!(wanted(value.as_bytes(), 100), *expected, "{value:?}");
        }
    }

    #[test]
    fn too_many_ranges_get_the_whole() {
        let list = |n: usize| {
            let specs: Vec<String> = (0..n).map(|i| format!("{}-{}", i * 10, i * 10)).collect();
            format!("bytes={}", specs.join(","))
        };
        assert!(matches!(wanted(list(MOST_RANGES).as_bytes(), 10_000), Several(s) if s.len() == MOST_RANGES));
        assert_eq!(wanted(list(MOST_RANGES + 1).as_bytes(), 10_000), Whole);
    }

    #[test]
    fn content_range_counts_from_zero_and_includes_the_last() {
        assert_eq!(span(0, 500).content_range(1234), "bytes 0-499/1234");
    }

    fn assert_sound(wanted: Wanted, length: u64) -> Result<(), TestCaseError> {
        let spans = match wanted {
            Whole | Nothing => return Ok(()),
            One(span) => vec![span],
            Several(spans) => spans,
        };
        prop_assert!(spans.iter().map(|s| s.length()).sum::<u64>() <= length);
        for (index, span) in spans.iter().enumerate() {
            prop_assert!(span.start < span.end && span.end <= length);
            prop_assert!(spans[index + 1..].iter().all(|other| !span.touches(*other)));
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn any_bytes(value: Vec<u8>, length: u64) {
            assert_sound(wanted(&value, length), length)?;
        }

        #[test]
        fn any_list(specs in prop::collection::vec((0..60u64, 0..60u64, 0..3u8), 1..20), length in 0..70u64) {
            let specs: Vec<String> = specs.iter().map(|(a, b, form)| match form {
                0 => format!("{a}-"),
                1 => format!("-{a}"),
                _ => format!("{}-{}", a.min(b), a.max(b)),
            }).collect();
            let result = wanted(format!("bytes={}", specs.join(", ")).as_bytes(), length);
            // Each part of a request alone is contained in the response to all.
            let covers = |spans: &[ByteSpan]| specs.iter().all(|spec| match wanted(format!("bytes={spec}").as_bytes(), length) {
                One(one) => spans.iter().any(|s| s.start <= one.start && one.end <= s.end),
                _ => true,
            });
            match &result {
                One(span) => prop_assert!(covers(&[*span])),
                Several(spans) => prop_assert!(covers(spans)),
                Whole | Nothing => {}
            }
            assert_sound(result, length)?;
        }
    }
}
