//! Percent-encoding of URLs.

use std::fmt::Write;

use millrace_wire::percent;

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
    let mut encoded = text.split(|byte| *byte == b'%').skip(1).map(percent::octet);
    let is_refused = encoded.any(|octet| matches!(octet, Some(0 | b'/')));
    if is_refused { None } else { percent::decode(text) }
}
