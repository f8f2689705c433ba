//! The fields of an answer, kept as `Name: value CRLF` lines: HTTP/1 copies them as they are. A block that many answers share (a cached file's) is referred to, not copied.

use std::sync::Arc;

/// Fields of an answer, in order: the shared block first.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    shared: Option<Arc<[u8]>>,
    /// How much of `shared` they are.
    length: usize,
    own: Vec<u8>,
}

impl Fields {
    /// Starts with a block of whole lines that a cache keeps.
    pub fn from_shared(block: Arc<[u8]>) -> Fields {
        let length = block.len();
        Fields::from_start_of(block, length)
    }

    /// The same, where the lines are followed by something else after `length` bytes.
    pub fn from_start_of(block: Arc<[u8]>, length: usize) -> Fields {
        Fields { shared: Some(block), length, own: Vec::new() }
    }

    /// Makes room for so many more bytes of lines.
    pub fn reserve(&mut self, bytes: usize) {
        self.own.reserve(bytes);
    }

    /// Adds a field. One whose value has a CR or LF is dropped: it would let its author write the rest of the answer. Other control
    /// characters have no place in a value either (RFC 9110 section 5.5), and clients of HTTP/2 end the stream for them.
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

    /// Where whole lines may be added; the writer sees to it that they are.
    pub fn own_mut(&mut self) -> &mut Vec<u8> {
        &mut self.own
    }

    /// Adds a block of whole lines.
    pub fn push_block(&mut self, block: &[u8]) {
        debug_assert!(block.is_empty() || block.ends_with(b"\r\n"));
        self.own.extend_from_slice(block);
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

/// Name and value of each line of a block.
pub fn lines(block: &[u8]) -> impl Iterator<Item = (&str, &[u8])> + Clone {
    block.split(|b| *b == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r")?;
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
