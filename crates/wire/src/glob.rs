//! Patterns: a text with `*`, which stands for any bytes, also for none.

/// A pattern, split at its stars.
#[derive(Clone, Debug)]
pub struct Glob(Vec<Box<[u8]>>);

impl Glob {
    /// Reads a pattern.
    pub fn new(text: &str) -> Glob {
        Glob(text.as_bytes().split(|byte| *byte == b'*').map(Box::from).collect())
    }

    /// Whether it has no star.
    pub fn is_exact(&self) -> bool {
        self.0.len() == 1
    }

    /// What stands before the first star.
    pub fn prefix(&self) -> &[u8] {
        &self.0[0]
    }

    /// Whether it is a text and one star.
    pub fn is_prefix(&self) -> bool {
        self.0.len() == 2 && self.0[1].is_empty()
    }

    /// Whether `text` is like it.
    pub fn matches(&self, text: &[u8]) -> bool {
        walk(self.parts(), text, |_| {})
    }

    /// What its stars stand for in `text`; `None`: it does not match.
    pub fn groups<'t>(&self, text: &'t [u8]) -> Option<Vec<&'t [u8]>> {
        let mut groups = Vec::new();
        walk(self.parts(), text, |group| groups.push(group)).then_some(groups)
    }

    fn parts(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.iter().map(|part| &**part)
    }
}

/// Whether `text` is like a pattern.
pub fn is_like(pattern: &str, text: &[u8]) -> bool {
    walk(pattern.as_bytes().split(|byte| *byte == b'*'), text, |_| {})
}

/// Compares `text` with the parts of a pattern between its stars. Each star but the last one stands for as little as possible.
fn walk<'p, 't>(
    mut parts: impl DoubleEndedIterator<Item = &'p [u8]>,
    text: &'t [u8],
    mut star: impl FnMut(&'t [u8]),
) -> bool {
    let Some(mut left) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return left.is_empty() };
    for part in parts {
        let Some(at) = memchr::memmem::find(left, part) else { return false };
        star(&left[..at]);
        left = &left[at + part.len()..];
    }
    let Some(group) = left.strip_suffix(last) else { return false };
    star(group);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(pattern: &str, text: &'static str) -> Option<Vec<&'static str>> {
        let found = Glob::new(pattern).groups(text.as_bytes())?;
        Some(found.into_iter().map(|group| std::str::from_utf8(group).unwrap()).collect())
    }

    #[test]
    fn stars_stand_for_any_text() {
        assert_eq!(groups("/a", "/a"), Some(vec![]));
        assert_eq!(groups("/a", "/a/"), None);
        assert_eq!(groups("/a/*", "/a/b/c"), Some(vec!["b/c"]));
        assert_eq!(groups("/a/*", "/a"), None);
        assert_eq!(groups("/a/*", "/a/"), Some(vec![""]));
        assert_eq!(groups("*.pdf", "/x/y.pdf"), Some(vec!["/x/y"]));
        assert_eq!(groups("/a/*/b/*.pdf", "/a/1/b/2/b/3.pdf"), Some(vec!["1", "2/b/3"]));
        assert_eq!(groups("/a*a", "/a"), None);
        assert_eq!(groups("/**", "/x"), Some(vec!["", "x"]));
    }

    #[test]
    fn a_pattern_is_compared_as_it_is_written() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("a*", "ba", false),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("*a*", "bab", true),
            ("*", "", true),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "acb", false),
            ("aba*aba", "aba", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(is_like(pattern, text.as_bytes()), expected, "{pattern} {text}");
            assert_eq!(Glob::new(pattern).matches(text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
