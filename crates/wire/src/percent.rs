//! Percent-encoding (RFC 3986 section 2.1), and that of forms, which writes a space as `+`.

use std::borrow::Cow;

/// The octet that the digits behind a `%` stand for; `None`: `rest` doesn't begin with two hexadecimal digits.
pub fn octet(rest: &[u8]) -> Option<u8> {
    let digit =
        |at: usize| rest.get(at).and_then(|byte| char::from(*byte).to_digit(16)).map(|digit| digit as u8);
    Some(digit(0)? << 4 | digit(1)?)
}

/// The first octet of `text`, decoded, and what follows it. A `%` without two digits stands for itself.
pub fn split_first(text: &[u8]) -> Option<(u8, &[u8])> {
    let (first, rest) = text.split_first()?;
    match octet(rest).filter(|_| *first == b'%') {
        Some(octet) => Some((octet, &rest[2..])),
        None => Some((*first, rest)),
    }
}

/// Decodes a text. `None`: a `%` without two digits.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut parts = text.split(|byte| *byte == b'%');
    let mut out = Vec::with_capacity(text.len());
    out.extend_from_slice(parts.next()?);
    for part in parts {
        out.push(octet(part)?);
        out.extend_from_slice(&part[2..]);
    }
    Some(out)
}

/// Decodes a name or value of `application/x-www-form-urlencoded` (the WHATWG's URL standard, and `php_url_decode()`): `+` is a
/// space, and a `%` without two digits stands for itself.
pub fn decode_form(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((octet, after)) = split_first(rest) {
        out.push(if rest[0] == b'+' { b' ' } else { octet });
        rest = after;
    }
    Cow::Owned(out)
}

/// Encodes all octets of a text but letters and digits of ASCII, and those of `plain`, which are ASCII, too.
pub fn encode(text: &[u8], plain: &[u8]) -> String {
    encode_unless(text, |byte| byte.is_ascii_alphanumeric() || plain.contains(&byte))
}

/// Encodes the octets of a text that aren't ASCII or not `is_plain`.
pub fn encode_unless(text: &[u8], is_plain: impl Fn(u8) -> bool) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    let mut out = String::with_capacity(text.len() + 8);
    for byte in text {
        if byte.is_ascii() && is_plain(*byte) {
            out.push(char::from(*byte));
        } else {
            out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out
}

/// Encodes a name or value of `application/x-www-form-urlencoded`.
pub fn encode_form(text: &str) -> String {
    encode(text.as_bytes(), b" *-._").replace(' ', "+")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Texts with many `%` and digits, whole and torn.
    fn texts() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(b'%'), Just(b'+'), Just(b'2'), Just(b'f'), Just(b'G'), any::<u8>()];
        prop::collection::vec(byte, 0..24)
    }

    #[test]
    fn what_is_no_encoding() {
        for (text, strict, form) in [
            ("", Some(""), ""),
            ("a%20b%2fc%2FD", Some("a b/c/D"), "a b/c/D"),
            ("a+b%2B", Some("a+b+"), "a b+"),
            ("%2541", Some("%41"), "%41"),
            ("%", None, "%"),
            ("%4", None, "%4"),
            ("%%41", None, "%A"),
            ("%+1", None, "% 1"),
            ("%4g", None, "%4g"),
            ("%\u{ff14}1", None, "%\u{ff14}1"),
        ] {
            assert_eq!(decode(text.as_bytes()).as_deref(), strict.map(str::as_bytes), "{text}");
            assert_eq!(*decode_form(text.as_bytes()), *form.as_bytes(), "{text}");
        }
    }

    #[test]
    fn what_is_plain_stays() {
        assert_eq!(encode(b"/a b\xc3\xa9%~", b"/~"), "/a%20b%C3%A9%25~");
        assert_eq!(encode_unless(b"a|b\x80", |byte| byte != b'|'), "a%7Cb%80", "only ASCII can be plain");
        assert_eq!(encode_form("a b+c&\u{e9}*"), "a+b%2Bc%26%C3%A9*");
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(text in texts()) {
            let encoded = encode(&text, b"-._~");
            prop_assert_eq!(decode(encoded.as_bytes()), Some(text.clone()));
            prop_assert_eq!(&*decode_form(encoded.as_bytes()), &text[..]);
        }

        /// All agree about what an encoding is.
        #[test]
        fn strict_and_lenient_differ_only_about_malformed_ones(text in texts()) {
            let (mut octets, mut rest, mut is_whole) = (Vec::new(), &text[..], true);
            while let Some((octet, after)) = split_first(rest) {
                is_whole &= rest[0] != b'%' || rest.len() - after.len() == 3;
                octets.push(octet);
                rest = after;
            }
            prop_assert_eq!(decode(&text), is_whole.then(|| octets.clone()));
            if !text.contains(&b'+') {
                prop_assert_eq!(&*decode_form(&text), &octets[..]);
            }
        }
    }
}
