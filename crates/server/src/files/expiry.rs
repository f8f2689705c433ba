//! How long a client may cache a file: `Cache-Control` by kind and name.
//!
//! `Expires` is not sent: every client that caches obeys `Cache-Control: max-age`, and the two would have to agree.

use super::kinds::MediaKind;

/// A year, the maximum that caches accept (RFC 9111 section 5.2.2.1; RFC 2616 section 14.21 set the custom).
const YEAR: &str = "public, max-age=31536000";

/// The same, and the content at this URL never changes (RFC 8246): not even a reload revalidates it.
const FOREVER: &str = "public, max-age=31536000, immutable";

/// May be cached, but must be revalidated before each use.
const ASK: &str = "no-cache";

/// The value of `Cache-Control` for a file; `versioned`: its URL changes with its content.
pub fn cache_control(kind: &MediaKind, versioned: bool) -> &'static str {
    match kind {
        MediaKind { keeps: true, .. } if versioned => FOREVER,
        MediaKind { keeps: true, .. } => YEAR,
        _ => ASK,
    }
}

/// Whether the name identifies the content: one of its parts is a digest, as in `app.3f2a9c1b.js`.
///
/// A version number does not: theme authors change `style.css?ver=1.0` without a new number, and with `immutable` a
/// visitor's reload would not help.
pub fn is_versioned_name(path: &[u8]) -> bool {
    let name = &path[memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1)..];
    let Some(dot) = memchr::memrchr(b'.', name) else { return false };
    let mut before: &[u8] = b"";
    let mut parts = name[..dot].split(|b| matches!(b, b'.' | b'-' | b'_')).peekable();
    while let Some(part) = parts.next() {
        // 8-4-4-4-12 digits are a UUID: a name for the file, not for its content.
        let beside_four = is_four_digits(before) || parts.peek().is_some_and(|next| is_four_digits(next));
        if is_digest(part) && !beside_four {
            return true;
        }
        before = part;
    }
    false
}

/// Whether the query identifies the content: `?ver=` or the like with a digest, as WordPress's build tools write it.
pub fn is_versioned_query(query: &[u8]) -> bool {
    query.split(|b| *b == b'&').any(|pair| match memchr::memchr(b'=', pair) {
        Some(mark) => {
            matches!(&pair[..mark], b"ver" | b"v" | b"version" | b"hash" | b"rev")
                && is_digest(&pair[mark + 1..])
        }
        None => is_digest(pair),
    })
}

/// 8 to 64 hexadecimal digits in one case, with at least one letter and one decimal digit, so that neither a date nor
/// `feedface` qualifies.
fn is_digest(text: &[u8]) -> bool {
    let upper = text.iter().any(|b| matches!(b, b'A'..=b'F'));
    let lower = text.iter().any(|b| matches!(b, b'a'..=b'f'));
    (8..=64).contains(&text.len())
        && text.iter().all(u8::is_ascii_hexdigit)
        && upper != lower
        && text.iter().any(u8::is_ascii_digit)
}

fn is_four_digits(text: &[u8]) -> bool {
    text.len() == 4 && text.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::super::kinds::kind_of;
    use super::*;

    #[test]
    fn names_with_a_digest() {
        for name in [
            "/app.3f2a9c1b.js",
            "/a/main-3F2A9C1B.css",
            "/3f2a9c1b4d5e6f708192.chunk.js",
            "/x_0123456789abcdef0123456789abcdef.png",
        ] {
            assert!(is_versioned_name(name.as_bytes()), "{name}");
        }
        for name in [
            "/app.js",
            "/jquery-3.7.1.min.js",
            "/photo-20240229.jpg",
            "/feedface.png",
            "/defaced1",
            "/3f2a9c1b/app.js",
            "/photo-1024x768.jpg",
            "/550e8400-e29b-41d4-a716-446655440000.jpg",
            "/avatar-550e8400-e29b-41d4-a716-44665544a000.jpg",
            "/3f2A9c1b.js",
            "/",
            "",
        ] {
            assert!(!is_versioned_name(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn queries_with_a_digest() {
        for query in ["ver=5f2a9c1b3d4e5f607182", "a=b&v=3f2a9c1b", "3f2a9c1b"] {
            assert!(is_versioned_query(query.as_bytes()), "{query}");
        }
        for query in ["ver=6.4.3", "ver=1700000000", "ver=", "", "id=3f2a9c1b", "v=3f2a9c1b%20"] {
            assert!(!is_versioned_query(query.as_bytes()), "{query}");
        }
    }

    #[test]
    fn by_kind() {
        assert_eq!(cache_control(kind_of(b"/a.html"), true), "no-cache");
        assert_eq!(cache_control(kind_of(b"/a.pdf"), false), "no-cache");
        assert_eq!(cache_control(kind_of(b"/unknown"), false), "no-cache");
        assert_eq!(cache_control(kind_of(b"/a.js"), false), "public, max-age=31536000");
        assert_eq!(cache_control(kind_of(b"/a.woff2"), true), "public, max-age=31536000, immutable");
    }
}
