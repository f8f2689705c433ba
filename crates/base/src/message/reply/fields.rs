//! The fields of a response, stored as `Name: value CRLF` lines, which HTTP/1 copies unchanged. A block that many
//! responses share (a cached file's) is referenced, not copied.

use std::sync::Arc;

/// Fields of a response, in order: the shared block first.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    shared: Option<Arc<[u8]>>,
    /// Length of the lines in `shared`.
    length: usize,
    own: Vec<u8>,
}

impl Fields {
    /// Starts with a block of complete lines from a cache.
    pub fn from_shared(block: Arc<[u8]>) -> Fields {
        let length = block.len();
        Fields::from_start_of(block, length)
    }

    /// The same, if other data follows the lines after `length` bytes.
    pub fn from_start_of(block: Arc<[u8]>, length: usize) -> Fields {
        Fields { shared: Some(block), length, own: Vec::new() }
    }

    /// Reserves room for `bytes` more bytes of lines.
    pub fn reserve(&mut self, bytes: usize) {
        self.own.reserve(bytes);
    }

    /// Adds a field. One whose value contains CR or LF is dropped: its author could write the rest of the response.
    /// Other control characters are also invalid (RFC 9110 section 5.5), and HTTP/2 clients end the stream when they
    /// see one.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        debug_assert!(!name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':'));
        if !is_value(value) {
            return;
        }
        self.own.reserve(name.len() + value.len() + 4);
        self.own.extend_from_slice(name.as_bytes());
        self.own.extend_from_slice(b": ");
        self.own.extend_from_slice(value);
        self.own.extend_from_slice(b"\r\n");
    }

    /// Buffer for complete lines; the writer must ensure that they are complete.
    pub fn own_mut(&mut self) -> &mut Vec<u8> {
        &mut self.own
    }

    /// Adds a block of complete lines.
    pub fn push_block(&mut self, block: &[u8]) {
        debug_assert!(block.is_empty() || block.ends_with(b"\r\n"));
        self.own.extend_from_slice(block);
    }

    /// Removes the fields of a name.
    pub fn remove(&mut self, name: &str) {
        let is_it = |known: &str| known.eq_ignore_ascii_case(name);
        if !self.has(name) {
            return;
        }
        let mut rest = Fields::default();
        self.iter().filter(|(known, _)| !is_it(known)).for_each(|(known, value)| rest.push(known, value));
        *self = rest;
    }

    /// Whether there is a field of this name.
    pub fn has(&self, name: &str) -> bool {
        self.blocks().into_iter().flat_map(pieces).any(|line| is_named(line, name))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.shared.is_none() && self.own.is_empty()
    }

    /// Name and value of each field.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> + Clone {
        self.blocks().into_iter().flat_map(lines)
    }

    /// The lines, in up to two pieces.
    pub fn blocks(&self) -> [&[u8]; 2] {
        [self.shared.as_deref().map_or(&[], |block| &block[..self.length]), &self.own]
    }
}

/// Whether a field's value, or a reason phrase, has no control characters but tabs (RFC 9110 section 5.5).
pub fn is_value(text: &[u8]) -> bool {
    !text.iter().any(|b| (*b < b' ' && *b != b'\t') || *b == 0x7f)
}

/// Whether a line is a field of this name.
fn is_named(line: &[u8], name: &str) -> bool {
    line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name.as_bytes())
}

/// The lines of a block, without CR LF.
fn pieces(block: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let mut from = 0;
    memchr::memchr_iter(b'\n', block).filter_map(move |end| {
        let line = &block[std::mem::replace(&mut from, end + 1)..end];
        line.strip_suffix(b"\r")
    })
}

/// Name and value of each line of a block.
pub fn lines(block: &[u8]) -> impl Iterator<Item = (&str, &[u8])> + Clone {
    pieces(block).filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((std::str::from_utf8(&line[..colon]).ok()?, line[colon + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_and_own_lines_are_one_list() {
        let mut fields = Fields::from_shared(b"A: 1\r\n"[..].into());
        fields.push("b", b"2");
        fields.push_block(b"C: 3\r\n");
        assert_eq!(fields.blocks(), [&b"A: 1\r\n"[..], b"b: 2\r\nC: 3\r\n"]);
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let mut fields = Fields::from_shared(b"X-A: 1\r\nX-Ab: 2\r\n"[..].into());
        fields.push("x-abc", b"X-B: 3");
        for name in ["x-a", "X-AB", "X-Abc"] {
            assert!(fields.has(name), "{name}");
        }
        for name in ["X", "X-B", "X-A: 1", "", "X-Abcd"] {
            assert!(!fields.has(name), "{name}");
        }
        fields.remove("X-AB");
        assert_eq!(fields.blocks().concat(), b"X-A: 1\r\nx-abc: X-B: 3\r\n");
    }

    #[test]
    fn no_value_can_start_a_line() {
        let mut fields = Fields::default();
        fields.push("Location", b"/\r\nSet-Cookie: a=b");
        assert_eq!(fields.blocks().concat(), b"");
    }

    #[test]
    fn no_value_has_control_characters() {
        let mut fields = Fields::default();
        for control in (0..b' ').chain([0x7f]).filter(|b| *b != b'\t') {
            fields.push("X", &[b'a', control, b'b']);
        }
        assert_eq!(fields.blocks().concat(), b"");
        fields.push("X", b"a\tb \xe9");
        assert_eq!(fields.blocks().concat(), b"X: a\tb \xe9\r\n");
    }
}
