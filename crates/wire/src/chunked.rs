//! The chunked transfer coding (RFC 9112 section 7.1), as strict as [`crate::head`]: a size that is not plain hex, an
//! invalid extension, a bare LF or an invalid trailer field ends the connection.
//!
//! Extensions are checked and skipped: nothing behind this module uses them, and a recipient may ignore them (section
//! 7.1.1). Trailers are checked and collected.

use std::{fmt, io};

use crate::head::is_token_char;

/// Digits of a chunk size: 15 hex digits are 2^60 bytes, far from overflow.
const MOST_SIZE_DIGITS: u8 = 15;

/// Maximum length of the extensions in one chunk header, bytes. Their only use is to exhaust parsers.
const MOST_EXTENSION_BYTES: u16 = 256;

/// Bytes of all trailer fields together.
const MOST_TRAILER_BYTES: usize = 8 * 1024;

/// Fields in a trailer section.
const MOST_TRAILERS: usize = 32;

/// Where the coded text was interrupted, and what is expected next.
///
/// ```text
///   Size --";" or space--> Extension --CR--> SizeLf --LF--> Data --all--> DataCr -> DataLf -> Size
///     \-------------------CR----------------^        |
///                                             size 0  \--> Trailers --empty line--> Done
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    /// Before or among the digits of a chunk size.
    Size {
        size: u64,
        digits: u8,
    },
    /// In the extensions, this many bytes of them seen.
    Extension {
        size: u64,
        bytes: u16,
        part: Part,
    },
    /// After the CR of a chunk header.
    SizeLf {
        size: u64,
    },
    /// In a chunk, this many bytes left.
    Data {
        left: u64,
    },
    /// After a chunk: CR, then LF.
    DataCr,
    DataLf,
    /// In the trailer section.
    Trailers,
    /// The coded text has ended.
    Done,
}

/// The position in the extensions of a chunk: `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`
/// (section 7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Space after a size or a value: only another extension may follow.
    Gap,
    /// Before a name.
    Begin,
    Name,
    /// Space behind a name.
    NameGap,
    /// Behind the `=`.
    Equals,
    Value,
    Quoted,
    /// Behind a backslash in a quoted string.
    Escaped,
    /// Behind the closing quote.
    Closed,
}

impl Part {
    /// The part after `byte`; `None`: the byte is invalid here. Bytes beyond ASCII are always invalid: a quoted
    /// string could contain them, but no program sends them, and two servers that read them differently disagree
    /// about where a request ends.
    fn after(self, byte: u8) -> Option<Part> {
        let is_space = matches!(byte, b' ' | b'\t');
        Some(match self {
            Part::Gap if is_space => Part::Gap,
            Part::Begin if is_space => Part::Begin,
            Part::Begin | Part::Name if is_token_char(byte) => Part::Name,
            Part::Name | Part::NameGap if is_space => Part::NameGap,
            Part::Name | Part::NameGap if byte == b'=' => Part::Equals,
            Part::Equals if is_space => Part::Equals,
            Part::Equals if byte == b'"' => Part::Quoted,
            Part::Equals | Part::Value if is_token_char(byte) => Part::Value,
            Part::Value | Part::Closed if is_space => Part::Gap,
            Part::Quoted if byte == b'"' => Part::Closed,
            Part::Quoted if byte == b'\\' => Part::Escaped,
            Part::Quoted | Part::Escaped if matches!(byte, b'\t' | b' '..=b'~') => Part::Quoted,
            Part::Gap | Part::Name | Part::NameGap | Part::Value | Part::Closed if byte == b';' => {
                Part::Begin
            }
            _ => return None,
        })
    }

    /// Whether the line may end here.
    fn may_end(self) -> bool {
        matches!(self, Part::Name | Part::Value | Part::Closed)
    }
}

/// Why bytes are not HTTP/1: the violated rule. A server responds with 400, and the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<Malformed> for io::Error {
    fn from(malformed: Malformed) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, malformed)
    }
}

/// Decodes a chunked text that arrives in any pieces.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: ChunkState,
    /// The trailer section as far as it has arrived, and where its last line begins.
    section: Vec<u8>,
    line_at: usize,
    trailers: usize,
}

impl Default for ChunkedDecoder {
    fn default() -> ChunkedDecoder {
        let state = ChunkState::Size { size: 0, digits: 0 };
        ChunkedDecoder { state, section: Vec::new(), line_at: 0, trailers: 0 }
    }
}

impl ChunkedDecoder {
    /// Whether the last chunk and the trailers have been read.
    pub fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// The lines of the trailer section, without the empty one; complete when the decoder is done.
    pub fn take_trailers(&mut self) -> Vec<u8> {
        self.line_at = 0;
        std::mem::take(&mut self.section)
    }

    /// Reads from the start of `input`. Returns how many bytes it took and which of them are content; call again with
    /// the rest until it takes nothing or [`ChunkedDecoder::is_done`].
    ///
    /// # Errors
    /// [`Malformed`]: the text is not chunked as RFC 9112 says.
    pub fn decode<'a>(&mut self, input: &'a [u8]) -> Result<(usize, &'a [u8]), Malformed> {
        let mut taken = 0;
        while taken < input.len() && !self.is_done() {
            if let ChunkState::Data { left } = self.state {
                let n = left.min((input.len() - taken) as u64);
                let content = &input[taken..taken + n as usize];
                self.state = if n == left { ChunkState::DataCr } else { ChunkState::Data { left: left - n } };
                return Ok((taken + n as usize, content));
            }
            self.step(input[taken])?;
            taken += 1;
        }
        Ok((taken, &[]))
    }

    fn step(&mut self, byte: u8) -> Result<(), Malformed> {
        self.state = match (self.state, byte) {
            (ChunkState::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                if digits == MOST_SIZE_DIGITS {
                    return Err(Malformed("chunk size out of range"));
                }
                let digit = u64::from((byte as char).to_digit(16).unwrap_or(0));
                ChunkState::Size { size: size * 16 + digit, digits: digits + 1 }
            }
            (ChunkState::Size { digits: 0, .. }, _) => {
                return Err(Malformed("chunk size is not a hex number"));
            }
            (ChunkState::Size { size, .. }, b'\r') => ChunkState::SizeLf { size },
            (ChunkState::Size { size, .. }, b';') => {
                ChunkState::Extension { size, bytes: 0, part: Part::Begin }
            }
            (ChunkState::Size { size, .. }, b' ' | b'\t') => {
                ChunkState::Extension { size, bytes: 1, part: Part::Gap }
            }
            (ChunkState::Size { .. }, _) => return Err(Malformed("chunk size is not a hex number")),
            (ChunkState::Extension { size, part, .. }, b'\r') if part.may_end() => {
                ChunkState::SizeLf { size }
            }
            (ChunkState::Extension { bytes: MOST_EXTENSION_BYTES, .. }, _) => {
                return Err(Malformed("chunk extension is too long"));
            }
            (ChunkState::Extension { size, bytes, part }, _) => {
                let part = part.after(byte).ok_or(Malformed("illegal chunk extension"))?;
                ChunkState::Extension { size, bytes: bytes + 1, part }
            }
            (ChunkState::SizeLf { size: 0 }, b'\n') => ChunkState::Trailers,
            (ChunkState::SizeLf { size }, b'\n') => ChunkState::Data { left: size },
            (ChunkState::SizeLf { .. }, _) => return Err(Malformed("a bare CR after a chunk size")),
            (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
            (ChunkState::DataLf, b'\n') => ChunkState::Size { size: 0, digits: 0 },
            (ChunkState::DataCr | ChunkState::DataLf, _) => {
                return Err(Malformed("a chunk is longer than its size"));
            }
            (ChunkState::Trailers, _) => return self.trailer_byte(byte),
            (ChunkState::Data { .. } | ChunkState::Done, _) => {
                unreachable!("no single step in {:?}", self.state)
            }
        };
        Ok(())
    }

    fn trailer_byte(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.section.len() >= MOST_TRAILER_BYTES {
            return Err(Malformed("the trailers are too long"));
        }
        self.section.push(byte);
        if byte != b'\n' {
            return Ok(());
        }
        let line = &self.section[self.line_at..];
        let line = line.strip_suffix(b"\r\n").ok_or(Malformed("a trailer ends with a bare LF"))?;
        if line.is_empty() {
            self.section.truncate(self.line_at);
            self.state = ChunkState::Done;
        } else {
            check_trailer(line)?;
            self.trailers += 1;
            if self.trailers > MOST_TRAILERS {
                return Err(Malformed("too many trailers"));
            }
            self.line_at = self.section.len();
        }
        Ok(())
    }
}

/// `field-name ":" OWS field-value OWS` (RFC 9110 section 5).
fn check_trailer(line: &[u8]) -> Result<(), Malformed> {
    let colon = memchr::memchr(b':', line).ok_or(Malformed("a trailer without a colon"))?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if name.is_empty() || !name.iter().copied().all(is_token_char) {
        return Err(Malformed("illegal trailer name"));
    }
    if value.iter().any(|b| (*b < b' ' && *b != b'\t') || *b == 0x7f) {
        return Err(Malformed("illegal trailer value"));
    }
    Ok(())
}

/// Appends `content` to `out` as one chunk; nothing for empty content, because an empty chunk would be the last one.
pub fn encode(content: &[u8], out: &mut Vec<u8>) {
    if content.is_empty() {
        return;
    }
    encode_size(content.len(), out);
    out.extend_from_slice(content);
    out.extend_from_slice(b"\r\n");
}

/// The last chunk, without trailers.
pub const END: &[u8] = b"0\r\n\r\n";

/// Appends the last chunk with the trailers in `lines`, each of which ends with CR LF.
pub fn encode_end(lines: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    out.extend_from_slice(lines);
    out.extend_from_slice(b"\r\n");
}

/// Appends the line before a chunk of `size` bytes.
pub fn encode_size(size: usize, out: &mut Vec<u8>) {
    let digits = (usize::BITS - size.leading_zeros()).div_ceil(4);
    for digit in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(size >> (4 * digit)) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `text` in pieces of `step` bytes.
    fn decode(text: &[u8], step: usize) -> Result<(Vec<u8>, bool, usize), Malformed> {
        let (mut decoder, mut content, mut taken) = (ChunkedDecoder::default(), Vec::new(), 0);
        for piece in text.chunks(step) {
            let mut rest = piece;
            while !rest.is_empty() && !decoder.is_done() {
                let (n, part) = decoder.decode(rest)?;
                content.extend_from_slice(part);
                rest = &rest[n..];
                taken += n;
            }
        }
        Ok((content, decoder.is_done(), taken))
    }

    #[test]
    fn any_pieces_give_the_same_content() {
        let text = b"4\r\nWiki\r\n5;name=\"v\"\r\npedia\r\n00A\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\nNEXT";
        for step in 1..text.len() {
            let (content, done, taken) = decode(text, step).unwrap();
            assert_eq!((content.as_slice(), done), (&b"Wikipedia0123456789"[..], true));
            assert_eq!(&text[taken..], b"NEXT");
        }
    }

    #[test]
    fn trailers_are_collected() {
        let text = b"1\r\na\r\n0\r\nX-Sum: 1\r\nY:2\r\n\r\n";
        for step in 1..text.len() {
            let mut decoder = ChunkedDecoder::default();
            for piece in text.chunks(step) {
                let mut rest = piece;
                while !rest.is_empty() {
                    rest = &rest[decoder.decode(rest).unwrap().0..];
                }
            }
            assert!(decoder.is_done());
            assert_eq!(decoder.take_trailers(), b"X-Sum: 1\r\nY:2\r\n", "in pieces of {step}");
            assert_eq!(decoder.take_trailers(), b"", "once");
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for size in [1, 15, 16, 255, 4096, 70_000] {
            let (mut text, content) = (Vec::new(), vec![b'x'; size]);
            encode(&content, &mut text);
            text.extend_from_slice(END);
            assert_eq!(decode(&text, 1000).unwrap(), (content, true, text.len()));
        }
    }

    /// RFC 9112 section 7.1.1.
    #[test]
    fn chunk_extensions() {
        for good in [
            "5;a",
            "5;a=b",
            "5 ; a = b",
            "5\t;\ta\t=\tb",
            "5;a;b=c;d",
            "5;a ;b",
            "5;a=b ; c",
            "5;a=\"\"",
            "5;a=\"b c;d=\\\"\\\\\";e",
            "5;a=\"b\" ;c",
        ] {
            let text = format!("{good}\r\nhello\r\n0\r\n\r\n");
            for step in [1, 3, 64] {
                let (content, done, _) = decode(text.as_bytes(), step).expect(good);
                assert_eq!((content.as_slice(), done), (&b"hello"[..], true), "{good:?}");
            }
        }
        let bad: [&[u8]; 18] = [
            b"5;",
            b"5; ",
            b"5 ",
            b"5 a",
            b"5;;a",
            b"5;=b",
            b"5;a=",
            b"5;a ",
            b"5;a b",
            b"5;a=b c",
            b"5;a=b ",
            b"5;a[",
            b"5;bad[=x",
            b"5;a=\"b",
            b"5;a=\"b\"c",
            b"5;a=\"b\\\"",
            b"5;a=\xe9",
            b"5;a=\"\xe9\"",
        ];
        for bad in bad {
            let text = [bad, b"\r\nhello\r\n0\r\n\r\n"].concat();
            for step in [1, 3, 64] {
                assert!(decode(&text, step).is_err(), "{:?}", bad.escape_ascii().to_string());
            }
        }
    }

    #[test]
    fn malformed_texts() {
        for text in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "+1\r\n",
            " 1\r\n",
            "1 \r\n",
            "0x1\r\n",
            "1\n",
            "1\rx",
            "1000000000000000\r\n",
            "1\r\nab\r\n",
            "1\r\na\n",
            "1\r\na\rx",
            "0\r\nX\r\n",
            "0\r\nX : 1\r\n",
            "0\r\n: 1\r\n",
            "0\r\nX: 1\n",
            "0\r\n X: 1\r\n",
            "1;a\0\r\n",
            "1;a\n",
        ] {
            assert!(decode(text.as_bytes(), 1).is_err(), "{text:?}");
            assert!(decode(text.as_bytes(), 64).is_err(), "{text:?}");
        }
        assert!(decode(format!("1;{}\r\n", "e".repeat(300)).as_bytes(), 7).is_err());
        assert!(decode(format!("0\r\n{}", "X: y\r\n".repeat(40)).as_bytes(), 7).is_err());
        assert!(decode(format!("0\r\nX: {}", "y".repeat(9000)).as_bytes(), 7).is_err());
    }
}
