//! The names of a request's arguments, as PHP reads them: what it sees decides which class a request has, not how the
//! client has spelled it.
//!
//! Of several arguments with one name, PHP takes the last one among the first `max_input_vars`. Here each of them counts.

use std::borrow::Cow;

use memchr::{memchr, memmem};
use millrace_wire::percent::decode_form;

/// An argument's name, as PHP sees it, and its value, as sent.
pub type Argument<'a> = (Cow<'a, [u8]>, &'a [u8]);

/// The arguments of a query, or of content of the type `application/x-www-form-urlencoded` (`php_default_treat_data()`).
pub fn encoded(text: &[u8]) -> impl Iterator<Item = Argument<'_>> {
    text.split(|byte| *byte == b'&').map(|argument| {
        let end = memchr(b'=', argument).unwrap_or(argument.len());
        (name(decode_form(&argument[..end])), argument.get(end + 1..).unwrap_or_default())
    })
}

/// The name of the variable that PHP makes of an argument's decoded name (`php_register_variable_ex()`): without blanks before it, up to
/// a NUL; an array's without its keys; with `_` for what no variable's name has.
fn name(text: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let is_plain = |text: &[u8]| !text.iter().any(|byte| matches!(byte, b' ' | b'.' | b'[' | 0));
    if is_plain(&text) {
        return text;
    }
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = &text[text.iter().position(|byte| *byte != b' ').unwrap_or(text.len())..];
    let array = memchr(b'[', text).filter(|at| memchr(b']', &text[*at..]).is_some());
    let text = &text[..array.unwrap_or(text.len())];
    let plain = |byte: &u8| if matches!(byte, b' ' | b'.' | b'[') { b'_' } else { *byte };
    Cow::Owned(text.iter().map(plain).collect())
}

/// The names in content of the type `multipart/form-data`, and perhaps more: whatever `name=` precedes.
pub fn in_parts(text: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    const MARK: &[u8] = b"name=";
    let found = memmem::find_iter(text, b"=").filter_map(|end| {
        let start = (end + 1).checked_sub(MARK.len())?;
        let is_name = text[start..=end].eq_ignore_ascii_case(MARK);
        // Not `filename`.
        let is_whole = start == 0 || !text[start - 1].is_ascii_alphanumeric();
        (is_name && is_whole).then_some(end + 1)
    });
    found.map(|start| {
        let text = text[start..].trim_ascii_start();
        let quote = text.first().copied().filter(|byte| matches!(byte, b'"' | b'\''));
        let text = if quote.is_some() { &text[1..] } else { text };
        let ends = |byte: &u8| match quote {
            Some(quote) => *byte == quote,
            None => *byte == b';' || byte.is_ascii_whitespace(),
        };
        name(Cow::Borrowed(&text[..text.iter().position(ends).unwrap_or(text.len())]))
    })
}

/// The names of members in JSON, at any depth, with their escaped characters of ASCII.
pub fn in_json(text: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            rest = &rest[memchr(b'"', rest)? + 1..];
            let end = end_of_string(rest);
            let string = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            if rest.trim_ascii_start().first() == Some(&b':') {
                return Some(unescaped(string));
            }
        }
    })
}

/// Where the string ends that begins before `text`.
fn end_of_string(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let (mut plain, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        let code = text.get(at + 2..at + 6).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (&text[at..], code) {
            ([b'\\', b'u', ..], Some(byte)) => {
                plain.push(byte);
                at += 6;
            }
            ([b'\\', byte, ..], _) => {
                plain.push(*byte);
                at += 2;
            }
            ([byte, ..], _) => {
                plain.push(*byte);
                at += 1;
            }
            ([], _) => {}
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: Cow<'_, [u8]>) -> String {
        String::from_utf8_lossy(&name).into_owned()
    }

    /// What PHP 8.2 makes of them (`parse_str()`).
    #[test]
    fn names_are_those_that_php_sees() {
        for (sent, seen) in [
            ("%73=1", "s"),
            (" s=2", "s"),
            ("+s=3", "s"),
            ("min.price=1", "min_price"),
            ("min%5Bprice=1", "min_price"),
            ("filter[color=1", "filter_color"),
            ("a[b.c=1", "a_b_c"),
            ("s%00x=5", "s"),
            ("rest%5froute=x", "rest_route"),
            ("rating[filter.x=1", "rating_filter_x"),
            ("s[=1", "s_"),
            ("[s]=1", ""),
            ("=1", ""),
            ("%3ds=1", "=s"),
            ("s%3d=1", "s="),
            ("%09s=1", "\ts"),
            ("a b[c]=1", "a_b"),
            ("s%5B%5D=1", "s"),
            ("..s=1", "__s"),
            ("x[y][z=1", "x"),
            ("%2573=1", "%73"),
            ("100%=1", "100%"),
        ] {
            assert_eq!(
                encoded(sent.as_bytes()).map(|(name, _)| text(name)).collect::<Vec<_>>(),
                [seen],
                "{sent}"
            );
        }
        assert_eq!(decode_form(b"%2Fwp+v2%2"), &b"/wp v2%2"[..]);
    }

    #[test]
    fn names_in_parts_and_in_json() {
        let form = "--x\r\nContent-Disposition: form-data; name=\"user name\"\r\n\r\nname=no\r\n--x\r\n\
            CONTENT-DISPOSITION: form-data;\r\n NAME=pwd; filename=\"pass\"\r\n\r\n\r\n--x--";
        assert_eq!(in_parts(form.as_bytes()).map(text).collect::<Vec<_>>(), ["user_name", "no", "pwd"]);
        let json = r#"{"a": "b", "p\u0061ss" : {"c\"d":["e"]}, "x\/y":1, "open"#;
        assert_eq!(in_json(json.as_bytes()).map(text).collect::<Vec<_>>(), ["a", "pass", "c\"d", "x/y"]);
        for rest in [&b"\"\\"[..], b"\"\\u00", b"\"a\":", b"name=", b"=", b"", b"\"\\u\":"] {
            assert!(in_json(rest).count() + in_parts(rest).count() + encoded(rest).count() < 4);
        }
    }
}
