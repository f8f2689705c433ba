//! How long a client may cache a file: `Cache-Control` by kind and name.
//!
//! `Expires` is not sent: every client that caches obeys `Cache-Control: max-age`, and the two would have to agree.

use super::kinds::MediaKind;

/// A year, the maximum that caches accept (RFC 9111 section 5.2.2.1; RFC 2616 section 14.21 set the custom).
const YEAR: &str = "public, max-age=31536000";

/// The same, and the content at this URL never changes (RFC 8246): not even a reload revalidates it.
const FOREVER: &str = "public, max-age=31536000, immutable";

/// Ten minutes: for what weighs much and is seldom edited.
const SHORT: &str = "public, max-age=600";

/// May be cached, but must be revalidated before each use.
const ASK: &str = "no-cache";

/// What a URL says about the version of its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum UrlVersion {
    /// Nothing: the file may change at any time.
    #[default]
    None,
    /// It has a number, which the site's owner changes with the content: `style.css?ver=6.4`, `jquery-3.7.1.min.js`.
    Number,
    /// It identifies the content: `app.3f2a9c1b.js`.
    Digest,
}

/// The value of `Cache-Control` for a file.
pub fn cache_control(kind: &MediaKind, version: UrlVersion) -> &'static str {
    match version {
        _ if !kind.keeps => ASK,
        UrlVersion::Digest => FOREVER,
        UrlVersion::Number => YEAR,
        // Style sheets and scripts, which fit one another.
        UrlVersion::None if kind.shrinks => ASK,
        UrlVersion::None => SHORT,
    }
}

/// Folders into which build tools write files whose names change with their content.
const BUILT: [&[u8]; 5] =
    [b"/_next/static/", b"/_nuxt/", b"/_astro/", b"/_app/immutable/", b"/build/assets/"];

/// What a file's path says about its version.
pub fn version_of_name(path: &[u8]) -> UrlVersion {
    if is_versioned_name(path) || BUILT.iter().any(|folder| memchr::memmem::find(path, folder).is_some()) {
        return UrlVersion::Digest;
    }
    if has_number(path) { UrlVersion::Number } else { UrlVersion::None }
}

/// What a query says about the version.
pub fn version_of_query(query: &[u8]) -> UrlVersion {
    if is_versioned_query(query) {
        return UrlVersion::Digest;
    }
    let is_number = |pair: &[u8]| {
        let Some(mark) = memchr::memchr(b'=', pair) else { return false };
        is_version_argument(&pair[..mark]) && pair[mark + 1..].iter().any(u8::is_ascii_digit)
    };
    if query.split(|b| *b == b'&').any(is_number) { UrlVersion::Number } else { UrlVersion::None }
}

/// Whether the name has a version of two numbers or more, as in `jquery-3.7.1.min.js`.
fn has_number(path: &[u8]) -> bool {
    let name = &path[memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1)..];
    let is_number = |part: &&[u8]| !part.is_empty() && part.len() <= 4 && part.iter().all(u8::is_ascii_digit);
    name.split(|b| matches!(b, b'-' | b'_' | b'@')).skip(1).any(|part| {
        let part = part.strip_prefix(b"v").unwrap_or(part);
        part.split(|b| *b == b'.').take_while(is_number).count() >= 2
    })
}

fn is_version_argument(name: &[u8]) -> bool {
    matches!(name, b"ver" | b"v" | b"version" | b"hash" | b"rev")
}

/// Whether the name identifies the content: one of its parts is a digest, as in `app.3f2a9c1b.js`.
///
/// A version number does not: theme authors change `style.css?ver=1.0` without a new number, and with `immutable` a
/// visitor's reload would not help.
fn is_versioned_name(path: &[u8]) -> bool {
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
fn is_versioned_query(query: &[u8]) -> bool {
    query.split(|b| *b == b'&').any(|pair| match memchr::memchr(b'=', pair) {
        Some(mark) => is_version_argument(&pair[..mark]) && is_digest(&pair[mark + 1..]),
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
        for (path, query, expected) in [
            ("/a.html", "ver=1", "no-cache"),
            ("/a.pdf", "", "no-cache"),
            ("/unknown", "v=3f2a9c1b", "no-cache"),
            ("/style.css", "", "no-cache"),
            ("/app.js", "x=1", "no-cache"),
            ("/logo.png", "", "public, max-age=600"),
            ("/a.woff2", "", "public, max-age=600"),
            ("/style.css", "ver=6.4.3", "public, max-age=31536000"),
            ("/app.js", "a=b&v=1700000000", "public, max-age=31536000"),
            ("/app.js", "ver=", "no-cache"),
            ("/app.js", "ver=latest", "no-cache"),
            ("/jquery-3.7.1.min.js", "", "public, max-age=31536000"),
            ("/bootstrap_v5.3.css", "", "public, max-age=31536000"),
            ("/lib@1.2.3.js", "", "public, max-age=31536000"),
            ("/photo-1024x768.jpg", "", "public, max-age=600"),
            ("/photo-1.jpg", "", "public, max-age=600"),
            ("/photo-20240229.5.jpg", "", "public, max-age=600"),
            ("/3.7.1/app.js", "", "no-cache"),
            ("/_next/static/chunks/main.js", "", "public, max-age=31536000, immutable"),
            ("/build/assets/index-BkQ9fJ2x.js", "", "public, max-age=31536000, immutable"),
            ("/app.3f2a9c1b.js", "", "public, max-age=31536000, immutable"),
            ("/style.css", "ver=3f2a9c1b", "public, max-age=31536000, immutable"),
        ] {
            let version = version_of_name(path.as_bytes()).max(version_of_query(query.as_bytes()));
            assert_eq!(cache_control(kind_of(path.as_bytes()), version), expected, "{path}?{query}");
        }
    }
}
