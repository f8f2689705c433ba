//! Converts the path of a request target to the path of a file: decoded once, dot segments removed, slashes merged.
//!
//! After this module a path starts with `/`, has no empty segment, no `.` and no `..`, and no NUL. It is bytes, not
//! text: file names need not be UTF-8, and an over-long UTF-8 sequence never turns into a dot or a slash.

use crate::percent;

/// Why a path is invalid; the response is 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// `%` without two hex digits.
    PercentEncoding,
    /// `%00`
    Nul,
    /// `..` above the root.
    AboveRoot,
    /// It does not start with `/`.
    NotAbsolute,
}

/// Appends the normalised form of `raw` (RFC 3986 sections 2.1 and 5.2.4, and empty segments dropped as every web
/// server does) to `path`, which is emptied first. A trailing slash stays.
///
/// # Errors
/// See [`BadPath`].
pub fn normalise(raw: &[u8], path: &mut Vec<u8>) -> Result<(), BadPath> {
    path.clear();
    if raw.first() != Some(&b'/') {
        return Err(BadPath::NotAbsolute);
    }
    if is_plain(raw) {
        path.extend_from_slice(raw);
        return Ok(());
    }
    decode(raw, path)?;
    remove_segments(path, Err(BadPath::AboveRoot))
}

/// The normalised form of a path that is decoded already; a slash is put before it, and `..` above the root has no effect.
pub fn without_dots(decoded: &[u8]) -> Vec<u8> {
    let mut path = [b"/", decoded].concat();
    // Nothing fails: `..` at the root leads to the root.
    let _ = remove_segments(&mut path, Ok(0));
    path
}

/// Whether it is already normalised: the usual case, in one pass without a branch per byte.
fn is_plain(raw: &[u8]) -> bool {
    let pairs = raw.iter().zip(raw.iter().skip(1));
    let odd = pairs.fold(0, |odd, (before, byte)| {
        odd | u8::from(*before == b'/') & u8::from(matches!(byte, b'/' | b'.'))
            | u8::from(matches!(byte, b'%' | 0))
    });
    odd == 0
}

fn decode(raw: &[u8], path: &mut Vec<u8>) -> Result<(), BadPath> {
    let mut rest = raw;
    while let Some((&first, after)) = rest.split_first() {
        let is_encoded = first == b'%';
        let byte = if is_encoded { percent::octet(after).ok_or(BadPath::PercentEncoding)? } else { first };
        if byte == 0 {
            return Err(BadPath::Nul);
        }
        path.push(byte);
        rest = if is_encoded { &after[2..] } else { after };
    }
    Ok(())
}

/// Drops empty segments, `.` and `..` in place: the path only gets shorter. `above_root`: where `..` at the root leads.
fn remove_segments(path: &mut Vec<u8>, above_root: Result<usize, BadPath>) -> Result<(), BadPath> {
    let (mut read, mut write) = (0, 0);
    while read < path.len() {
        // path[read] is a slash; the segment follows it.
        let end = memchr::memchr(b'/', &path[read + 1..]).map_or(path.len(), |n| read + 1 + n);
        let last = end == path.len();
        match &path[read + 1..end] {
            b"" | b"." if last => {
                path[write] = b'/';
                write += 1;
            }
            b"" | b"." => {}
            b".." => {
                write = path[..write].iter().rposition(|b| *b == b'/').map_or(above_root, Ok)?;
                if last {
                    path[write] = b'/';
                    write += 1;
                }
            }
            _ => {
                path.copy_within(read..end, write);
                write += end - read;
            }
        }
        read = end;
    }
    path.truncate(write);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(raw: &str) -> Result<String, BadPath> {
        let mut path = Vec::new();
        normalise(raw.as_bytes(), &mut path).map(|()| String::from_utf8_lossy(&path).into_owned())
    }

    #[test]
    fn paths() {
        for (raw, expected) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b/"),
            ("//a///b//", "/a/b/"),
            ("/a/./b/.", "/a/b/"),
            ("/a/../b", "/b"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a/b/../", "/a/"),
            ("/a%20b", "/a b"),
            ("/%2e%2E/", "AboveRoot"),
            ("/a/%2e%2e/b", "/b"),
            ("/a%2fb", "/a/b"),
            ("/a%2f..%2fb", "/b"),
            ("/%252e", "/%2e"),
            ("/...", "/..."),
            ("/.a", "/.a"),
            ("/a\\b", "/a\\b"),
            ("/a%5c..%5cb", "/a\\..\\b"),
            ("/%zz", "PercentEncoding"),
            ("/%", "PercentEncoding"),
            ("/%2", "PercentEncoding"),
            ("/a%00b", "Nul"),
            ("/..", "AboveRoot"),
            ("/../a", "AboveRoot"),
            ("/a/../../b", "AboveRoot"),
            ("/..%2f..%2fetc/passwd", "AboveRoot"),
            ("*", "NotAbsolute"),
            ("", "NotAbsolute"),
        ] {
            let got = normal(raw).unwrap_or_else(|e| format!("{e:?}"));
            assert_eq!(got, expected, "{raw}");
        }
    }

    #[test]
    fn over_long_utf8_stays_bytes() {
        let mut path = Vec::new();
        normalise(b"/%c0%ae%c0%ae/%c0%afetc", &mut path).unwrap();
        assert_eq!(path, b"/\xc0\xae\xc0\xae/\xc0\xafetc");
    }

    #[test]
    fn every_short_path_obeys_the_promise() {
        let alphabet = [b'/', b'.', b'a', b'%', b'2', b'e', b'f'];
        let mut path = Vec::new();
        for number in 0..alphabet.len().pow(6) {
            let mut n = number;
            let mut raw = vec![b'/'];
            for _ in 0..6 {
                raw.push(alphabet[n % alphabet.len()]);
                n /= alphabet.len();
            }
            let decoded = without_dots(&raw);
            assert_promise(&raw, &decoded);
            if normalise(&raw, &mut path).is_ok() {
                assert_promise(&raw, &path);
                assert!(raw.contains(&b'%') || path == decoded, "{raw:?} -> {path:?}, {decoded:?}");
            }
        }
    }

    fn assert_promise(raw: &[u8], path: &[u8]) {
        assert_eq!(path[0], b'/', "{raw:?}");
        let mut segments = path[1..].split(|b| *b == b'/').peekable();
        while let Some(segment) = segments.next() {
            assert!(!matches!(segment, b"." | b".."), "{raw:?} -> {path:?}");
            assert!(!segment.is_empty() || segments.peek().is_none(), "{raw:?} -> {path:?}");
        }
    }

    #[test]
    fn decoded_paths() {
        for (decoded, expected) in [
            ("", "/"),
            (".", "/"),
            ("..", "/"),
            ("a", "/a"),
            ("a/", "/a/"),
            ("//a//./b/..", "/a/"),
            ("/../../a", "/a"),
            ("/a/../../b/.", "/b/"),
            ("/%2e%2e/...", "/%2e%2e/..."),
        ] {
            assert_eq!(String::from_utf8_lossy(&without_dots(decoded.as_bytes())), expected, "{decoded}");
        }
    }
}
