//! Conditional requests: the meaning of the `If-*` fields for an existing representation (RFC 9110 section 13).

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The conditions of one request. A field in several lines is joined, as section 5.3 allows; dates are not lists, so
/// a second one makes the field invalid, and it is ignored as section 13.1.3 says.
#[derive(Clone, Debug, Default)]
pub struct Conditions<'a> {
    if_match: Option<Cow<'a, [u8]>>,
    if_none_match: Option<Cow<'a, [u8]>>,
    if_modified_since: Option<Cow<'a, [u8]>>,
    if_unmodified_since: Option<Cow<'a, [u8]>>,
    if_range: Option<Cow<'a, [u8]>>,
}

/// The validators of a representation.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// Its entity-tag, quotes included, without `W/`; empty: it has none.
    pub etag: &'a str,
    /// Whether the entity-tag is weak (`W/`).
    pub etag_is_weak: bool,
    /// `Last-Modified`, whole seconds since 1970.
    pub modified: u64,
    /// Whether the file can't have changed again within the second of `modified`, so that the date says as much as a
    /// strong entity-tag (section 8.8.2.2).
    pub modified_is_strong: bool,
}

/// The result of the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Respond as without conditions.
    Proceed,
    /// 304
    NotModified,
    /// 412
    Failed,
}

impl<'a> Conditions<'a> {
    /// Adds a field of the request; returns whether it is a condition.
    pub fn add(&mut self, name: &str, value: &'a [u8]) -> bool {
        // The length is a cheap guard: no other common field has the same length and the same start.
        let slot = match name.len() {
            8 if name.eq_ignore_ascii_case("if-match") => &mut self.if_match,
            8 if name.eq_ignore_ascii_case("if-range") => &mut self.if_range,
            13 if name.eq_ignore_ascii_case("if-none-match") => &mut self.if_none_match,
            17 if name.eq_ignore_ascii_case("if-modified-since") => &mut self.if_modified_since,
            19 if name.eq_ignore_ascii_case("if-unmodified-since") => &mut self.if_unmodified_since,
            _ => return false,
        };
        match slot {
            None => *slot = Some(Cow::Borrowed(value)),
            Some(first) => {
                let joined = first.to_mut();
                joined.extend_from_slice(b", ");
                joined.extend_from_slice(value);
            }
        }
        true
    }

    /// Whether there are no conditions, except perhaps `If-Range`.
    pub fn is_empty(&self) -> bool {
        self.if_match.is_none()
            && self.if_none_match.is_none()
            && self.if_modified_since.is_none()
            && self.if_unmodified_since.is_none()
    }

    /// Whether one of the entity-tags of `If-None-Match` names this representation. `*` and a missing field are
    /// `false`.
    pub fn names(&self, etag: &str) -> bool {
        self.if_none_match
            .as_deref()
            .is_some_and(|list| list != b"*" && any_tag(list, |tag| tag.is_weakly(etag)))
    }

    /// An owned copy, which outlives the request.
    pub fn into_owned(self) -> Conditions<'static> {
        let own = |value: Option<Cow<'a, [u8]>>| value.map(|v| Cow::Owned(v.into_owned()));
        Conditions {
            if_match: own(self.if_match),
            if_none_match: own(self.if_none_match),
            if_modified_since: own(self.if_modified_since),
            if_unmodified_since: own(self.if_unmodified_since),
            if_range: own(self.if_range),
        }
    }

    /// Steps 1 to 4 of section 13.2.2 for GET and HEAD of something that exists.
    pub fn evaluate(&self, current: &Validators<'_>) -> Outcome {
        if self.is_empty() {
            return Outcome::Proceed;
        }
        let unmodified_since = |value: &Option<Cow<'_, [u8]>>| {
            value.as_deref().and_then(seconds).map(|date| current.modified <= date)
        };
        let holds = match &self.if_match {
            Some(list) => {
                &**list == b"*" || any_tag(list, |tag| !current.etag_is_weak && tag.is_strongly(current.etag))
            }
            None => unmodified_since(&self.if_unmodified_since).unwrap_or(true),
        };
        if !holds {
            return Outcome::Failed;
        }
        let is_known = match &self.if_none_match {
            Some(list) => &**list == b"*" || any_tag(list, |tag| tag.is_weakly(current.etag)),
            None => unmodified_since(&self.if_modified_since).unwrap_or(false),
        };
        if is_known { Outcome::NotModified } else { Outcome::Proceed }
    }

    /// Step 5: whether `Range` counts. Without `If-Range` it does.
    pub fn range_counts(&self, current: &Validators<'_>) -> bool {
        let Some(value) = self.if_range.as_deref() else { return true };
        if value.starts_with(b"\"") || value.starts_with(b"W/") {
            return matches!(tag(value), Some((tag, rest)) if rest.is_empty() && !current.etag_is_weak && tag.is_strongly(current.etag));
        }
        current.modified_is_strong && seconds(value) == Some(current.modified)
    }
}

/// An entity-tag of a field: its text with quotes.
#[derive(Clone, Copy)]
struct Tag<'a> {
    weak: bool,
    opaque: &'a [u8],
}

impl Tag<'_> {
    /// Section 8.8.3.2; `etag` is a strong one.
    fn is_strongly(self, etag: &str) -> bool {
        !self.weak && self.opaque == etag.as_bytes()
    }

    fn is_weakly(self, etag: &str) -> bool {
        self.opaque == etag.as_bytes()
    }
}

/// Whether `is_it` holds for a tag of the list. Anything that is not an entity-tag is skipped up to the next comma.
fn any_tag(mut list: &[u8], is_it: impl Fn(Tag<'_>) -> bool) -> bool {
    loop {
        list = trim_list(list);
        if list.is_empty() {
            return false;
        }
        list = match tag(list) {
            // A tag ends at a comma or at the end of the list.
            Some((tag, rest)) if matches!(rest.trim_ascii_start(), [] | [b',', ..]) => {
                if is_it(tag) {
                    return true;
                }
                rest
            }
            _ => &list[memchr::memchr(b',', list).unwrap_or(list.len())..],
        };
    }
}

fn trim_list(list: &[u8]) -> &[u8] {
    let start = list.iter().position(|b| !matches!(b, b' ' | b'\t' | b',')).unwrap_or(list.len());
    &list[start..]
}

/// The entity-tag at the start of `text`, and the rest. A comma may be inside the quotes.
fn tag(text: &[u8]) -> Option<(Tag<'_>, &[u8])> {
    let (weak, text) = match text.strip_prefix(b"W/") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let inside = text.strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', inside)?;
    let legal = |b: &u8| matches!(b, 0x21 | 0x23..=0x7e | 0x80..);
    if !inside[..end].iter().all(legal) {
        return None;
    }
    let (opaque, rest) = text.split_at(end + 2);
    Some((Tag { weak, opaque }, rest))
}

/// An HTTP-date in seconds since 1970; `None` if it isn't one, or lies before.
fn seconds(value: &[u8]) -> Option<u64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(value).ok()?.trim()).ok()?;
    date.duration_since(UNIX_EPOCH).ok().map(|d| d.as_secs())
}

/// Seconds since 1970 in the format of `Last-Modified` and `Date`: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn http_date(seconds: u64) -> String {
    // The format ends with the year 9999; later files get its last second.
    const LAST: u64 = 253_402_300_799;
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(LAST)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Failed, NotModified, Proceed};
    use proptest::prelude::*;

    const MODIFIED: u64 = 784_111_777;
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const TAG: &str = "\"x,1\"";
    const NOW: Validators<'static> =
        Validators { etag: TAG, etag_is_weak: false, modified: MODIFIED, modified_is_strong: true };

    fn outcome(fields: &[(&'static str, &'static str)]) -> Outcome {
        let mut conditions = Conditions::default();
        for (name, value) in fields {
            assert!(conditions.add(name, value.as_bytes()), "{name}");
        }
        let later = conditions.clone().into_owned().evaluate(&NOW);
        assert_eq!(conditions.evaluate(&NOW), later);
        later
    }

    #[test]
    fn one_condition() {
        let table = [
            ("If-Match", "*", Proceed),
            ("If-Match", TAG, Proceed),
            ("If-Match", "\"y\", \"x,1\"", Proceed),
            ("If-Match", "\"y\"", Failed),
            ("If-Match", "W/\"x,1\"", Failed),
            ("If-Match", "x,1", Failed),
            ("If-Match", "", Failed),
            ("if-none-match", "*", NotModified),
            ("if-none-match", TAG, NotModified),
            ("if-none-match", "W/\"x,1\"", NotModified),
            ("if-none-match", "\"a\",,W/\"b,c\" , W/\"x,1\"", NotModified),
            ("if-none-match", "broken, \"x,1\"", NotModified),
            ("if-none-match", "\"bro ken\", \"x,1\"", NotModified),
            ("if-none-match", "\"x,1\"x", Proceed),
            ("if-none-match", "\"y\"", Proceed),
            ("if-none-match", "w/\"x,1\"", Proceed),
            ("if-none-match", "\"x,1", Proceed),
            ("if-none-match", "", Proceed),
            ("IF-MODIFIED-SINCE", DATE, NotModified),
            ("If-Modified-Since", AFTER, NotModified),
            ("If-Modified-Since", BEFORE, Proceed),
            ("If-Modified-Since", "Sunday, 06-Nov-94 08:49:37 GMT", NotModified),
            ("If-Modified-Since", "Sun Nov  6 08:49:37 1994", NotModified),
            ("If-Modified-Since", "yesterday", Proceed),
            ("If-Modified-Since", "784111777", Proceed),
            ("If-Unmodified-Since", DATE, Proceed),
            ("If-Unmodified-Since", AFTER, Proceed),
            ("If-Unmodified-Since", BEFORE, Failed),
            ("If-Unmodified-Since", "yesterday", Proceed),
            ("If-Range", "\"y\"", Proceed),
        ];
        for (name, value, expected) in table {
            assert_eq!(outcome(&[(name, value)]), expected, "{name}: {value}");
        }
    }

    #[test]
    fn precedence() {
        let table: &[(&[(&str, &str)], Outcome)] = &[
            // An entity-tag overrides the date of its kind.
            (&[("If-Match", TAG), ("If-Unmodified-Since", BEFORE)], Proceed),
            (&[("If-Match", "\"y\""), ("If-Unmodified-Since", DATE)], Failed),
            (&[("If-None-Match", "\"y\""), ("If-Modified-Since", DATE)], Proceed),
            (&[("If-None-Match", TAG), ("If-Modified-Since", BEFORE)], NotModified),
            // 412 precedes 304.
            (&[("If-None-Match", TAG), ("If-Match", "\"y\"")], Failed),
            (&[("If-None-Match", TAG), ("If-Unmodified-Since", BEFORE)], Failed),
            (&[("If-None-Match", TAG), ("If-Match", TAG)], NotModified),
            (&[("If-Modified-Since", DATE), ("If-Unmodified-Since", DATE)], NotModified),
            // Lines of a list are one list; two dates are no date.
            (&[("If-None-Match", "\"y\""), ("If-None-Match", TAG)], NotModified),
            (&[("If-Match", "\"y\""), ("If-Match", TAG)], Proceed),
            (&[("If-Modified-Since", DATE), ("If-Modified-Since", DATE)], Proceed),
        ];
        for (fields, expected) in table {
            assert_eq!(outcome(fields), *expected, "{fields:?}");
        }
    }

    #[test]
    fn if_range() {
        let table = [
            (TAG, true, true),
            ("W/\"x,1\"", true, false),
            ("\"y\"", true, false),
            ("\"x,1\", \"y\"", true, false),
            ("*", true, false),
            (DATE, true, true),
            (DATE, false, false),
            (BEFORE, true, false),
            (AFTER, true, false),
            ("", true, false),
        ];
        for (value, strong, expected) in table {
            let mut conditions = Conditions::default();
            conditions.add("If-Range", value.as_bytes());
            let current = Validators { modified_is_strong: strong, ..NOW };
            assert_eq!(conditions.range_counts(&current), expected, "{value}");
            assert_eq!(conditions.evaluate(&current), Proceed);
        }
        assert!(Conditions::default().range_counts(&NOW));
    }

    #[test]
    fn other_fields_are_left_alone() {
        let mut conditions = Conditions::default();
        for name in ["If", "If-Matches", "Host", "Pragma", "X-If-None-Match", ""] {
            assert!(!conditions.add(name, b"*"), "{name}");
        }
        assert!(conditions.is_empty());
    }

    #[test]
    fn dates() {
        assert_eq!(http_date(MODIFIED), DATE);
        assert_eq!(http_date(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(seconds(DATE.as_bytes()), Some(MODIFIED));
    }

    proptest! {
        #[test]
        fn any_bytes(values: [Vec<u8>; 5]) {
            let names = ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"];
            let mut conditions = Conditions::default();
            for (name, value) in names.iter().zip(&values) {
                conditions.add(name, value);
            }
            conditions.evaluate(&NOW);
            conditions.range_counts(&NOW);
            conditions.names(TAG);
        }

        #[test]
        fn a_tag_is_found_wherever_it_stands(
            before in prop::collection::vec(r#"(W/)?"[!#-~]{0,6}"|[a-z ]{0,4}"#, 0..4),
            after in prop::collection::vec(r#"(W/)?"[!#-~]{0,6}"|[a-z "]{0,4}"#, 0..4),
            weak: bool,
        ) {
            let tag = if weak { format!("W/{TAG}") } else { TAG.to_owned() };
            let list = [before, vec![tag], after].concat().join(", ");
            let mut conditions = Conditions::default();
            conditions.add("If-None-Match", list.as_bytes());
            prop_assert_eq!(conditions.evaluate(&NOW), NotModified, "{}", list);
        }
    }
}
