//! Percent-encoding of URLs.

use std::fmt::Write;

/// Encodes what a path can't contain, as Apache's `ap_escape_uri` (`os_escape_path`).
pub fn path(text: &[u8]) -> Vec<u8> {
    encode(text, b"$-_.+!*'(),:@&=/~;")
}

/// Encodes what no part of a URL can contain: spaces, control characters, and what isn't ASCII.
pub fn rest(text: &[u8]) -> Vec<u8> {
    encode(text, b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
}

fn encode(text: &[u8], plain: &[u8]) -> Vec<u8> {
    let mut out = String::with_capacity(text.len());
    for byte in text {
        if byte.is_ascii_alphanumeric() || plain.contains(byte) {
            out.push(char::from(*byte));
        } else {
            let _ = write!(out, "%{byte:02x}");
        }
    }
    out.into_bytes()
}

/// Decodes escapes. `None`: an escape is malformed, or stands for NUL or a slash, which Apache refuses.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let mut digit = || char::from(*bytes.next()?).to_digit(16);
        let value = digit()? * 16 + digit()?;
        match u8::try_from(value).ok()? {
            0 | b'/' => return None,
            value => out.push(value),
        }
    }
    Some(out)
}
