//! Patterns of paths: a text with `*`, which stands for any bytes.

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
        self.walk(text, |_| {})
    }

    /// What its stars stand for in `text`; `None`: it does not match.
    pub fn groups<'t>(&self, text: &'t [u8]) -> Option<Vec<&'t [u8]>> {
        let mut groups = Vec::new();
        self.walk(text, |group| groups.push(group)).then_some(groups)
    }

    /// Each star but the last one stands for as little as possible.
    fn walk<'t>(&self, text: &'t [u8], mut star: impl FnMut(&'t [u8])) -> bool {
        let [first, rest @ ..] = &self.0[..] else { return false };
        let Some(mut left) = text.strip_prefix(&**first) else { return false };
        let [middle @ .., last] = rest else { return left.is_empty() };
        for part in middle {
            let Some(at) = memchr::memmem::find(left, part) else { return false };
            star(&left[..at]);
            left = &left[at + part.len()..];
        }
        let Some(group) = left.strip_suffix(&**last) else { return false };
        star(group);
        true
    }
}

/// Whether `text` is like a pattern with `*` at either end.
pub fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let (open, body) = pattern.strip_prefix(b"*").map_or((false, pattern), |rest| (true, rest));
    match (open, body.strip_suffix(b"*")) {
        (false, None) => text == body,
        (false, Some(start)) => text.starts_with(start),
        (true, None) => text.ends_with(body),
        (true, Some(part)) => memchr::memmem::find(text, part).is_some(),
    }
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
    fn patterns_with_a_star_at_either_end() {
        assert!(
            is_like(b"a*", b"ab") && is_like(b"*a", b"ba") && is_like(b"*a*", b"bab") && is_like(b"a", b"a")
        );
        assert!(
            !is_like(b"a*", b"ba") && !is_like(b"*a", b"ab") && !is_like(b"a", b"ab") && is_like(b"*", b"")
        );
    }
}
