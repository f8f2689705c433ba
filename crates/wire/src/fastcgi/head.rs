//! Status and fields of a response, at the start of STDOUT (RFC 3875 section 6.3).

use super::HEAD_MAX;

/// The head of a response: `Name: value` lines up to an empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgiHead<'a> {
    lines: &'a [u8],
}

/// Why the head is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// It is longer than [`HEAD_MAX`].
    TooLong,
}

impl std::fmt::Display for HeadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HeadError::TooLong => {
                write!(f, "the header section of the response is longer than {HEAD_MAX} bytes")
            }
        }
    }
}

impl std::error::Error for HeadError {}

impl<'a> CgiHead<'a> {
    /// The head at the start of `bytes` and its length with the empty line; `None` while it is incomplete. The first
    /// `known` bytes are known not to contain the end.
    ///
    /// # Errors
    /// It is too long.
    pub fn parse(bytes: &'a [u8], known: usize) -> Result<Option<(CgiHead<'a>, usize)>, HeadError> {
        // The end may begin in the known part: at most two bytes before its end.
        let mut at = known.min(bytes.len()).saturating_sub(2);
        if at == 0
            && let Some(length) = empty_line(bytes)
        {
            return Ok(Some((CgiHead { lines: &[] }, length)));
        }
        while let Some(end) = memchr::memchr(b'\n', &bytes[at..]) {
            let next = at + end + 1;
            if next > HEAD_MAX {
                return Err(HeadError::TooLong);
            }
            if let Some(length) = empty_line(&bytes[next..]) {
                return Ok(Some((CgiHead { lines: &bytes[..next] }, next + length)));
            }
            at = next;
        }
        if bytes.len() > HEAD_MAX { Err(HeadError::TooLong) } else { Ok(None) }
    }

    /// Names and values of the fields in order, without white space around the value. Invalid lines are left out: PHP
    /// does not check the name passed to `header()`.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        self.lines.split(|byte| *byte == b'\n').filter_map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let colon = memchr::memchr(b':', line)?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            let legal = !name.is_empty()
                && name.iter().all(|&byte| token(byte))
                && !value.iter().any(|&byte| matches!(byte, 0 | b'\r'));
            legal.then_some((name, value))
        })
    }
}

/// Length of the empty line at the start of `bytes`.
fn empty_line(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => None,
    }
}

/// RFC 9110 section 5.6.2.
fn token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Option<(Vec<(&str, &str)>, usize)> {
        let (head, taken) = CgiHead::parse(text.as_bytes(), 0).unwrap()?;
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        Some((head.fields().map(|(name, value)| (text(name), text(value))).collect(), taken))
    }

    #[test]
    fn as_php_writes_it() {
        let text =
            "Status: 404 Not Found\r\nX-A:b\r\nContent-type: text/html; charset=UTF-8\r\n\r\nbody\r\n\r\n";
        let (fields, taken) = parse(text).unwrap();
        assert_eq!(
            fields,
            [("Status", "404 Not Found"), ("X-A", "b"), ("Content-type", "text/html; charset=UTF-8")]
        );
        assert_eq!(&text[taken..], "body\r\n\r\n");
        assert_eq!(parse("A: 1\nB:  2 \n\nbody"), Some((vec![("A", "1"), ("B", "2")], 13)));
        assert_eq!(parse("\r\nbody"), Some((vec![], 2)));
        assert_eq!(parse("A: 1\r\n"), None);
        assert_eq!(parse("A: 1\r\n\r"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn lines_that_are_no_field_are_left_out() {
        let (fields, _) = parse("A B: 1\r\nnothing\r\n: 2\r\nC: \0\r\nD: a\rb\r\nE: ok\r\n\r\n").unwrap();
        assert_eq!(fields, [("E", "ok")]);
    }

    #[test]
    fn too_long() {
        let mut text = vec![b'a'; HEAD_MAX + 1];
        assert_eq!(CgiHead::parse(&text, 0), Err(HeadError::TooLong));
        text.extend_from_slice(b"\n\n");
        assert_eq!(CgiHead::parse(&text, 0), Err(HeadError::TooLong));
    }

    proptest! {
        /// In any pieces, the same end is found, and once.
        #[test]
        fn piece_by_piece(text in "[a:\r\n]{0,40}") {
            let bytes = text.as_bytes();
            let whole = CgiHead::parse(bytes, 0).unwrap();
            let mut known = 0;
            let mut found = None;
            for end in 0..=bytes.len() {
                found = CgiHead::parse(&bytes[..end], known).unwrap();
                if found.is_some() {
                    break;
                }
                known = end;
            }
            prop_assert_eq!(found, whole);
        }
    }
}
