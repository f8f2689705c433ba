//! The chunked transfer coding (RFC 9112 section 7.1), as strict as [`crate::head`]: a size that is not plain hex, an
//! extension that is not one, a bare LF or a trailer that is no field end the connection.
//!
//! Extensions and trailers are checked and passed over: nobody behind this module wants them, and a recipient may
//! ignore both (sections 7.1.1 and 7.1.2).

/// Digits of a chunk size: 15 hex digits are 2^60 bytes, far from overflow.
const MOST_SIZE_DIGITS: u8 = 15;

/// Bytes of extensions in one chunk header. Nobody uses them but to exhaust parsers.
const MOST_EXTENSION_BYTES: u16 = 256;

/// Bytes of all trailer fields together.
const MOST_TRAILER_BYTES: usize = 8 * 1024;

/// Fields in a trailer section.
const MOST_TRAILERS: usize = 32;

/// Where the coded text was broken off, and what is expected next.
///
/// ```text
///   Size --digits--> SizeEnd --ext--> Extension --CRLF--> Data --all--> DataCr -> DataLf -> Size
///                        \------------CRLF--------------^  |
///                                                 size 0   v
///                                                       Trailers --empty line--> Done
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before or among the digits of a chunk size.
    Size {
        size: u64,
        digits: u8,
    },
    /// In an extension, this many bytes of it seen.
    Extension {
        size: u64,
        bytes: u16,
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

/// What is wrong with a chunked text; the answer is 400 and the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Takes a chunked text apart, whatever pieces it comes in.
#[derive(Clone, Debug)]
pub struct Decoder {
    state: State,
    /// The trailer line that has begun.
    line: Vec<u8>,
    trailer_bytes: usize,
    trailers: usize,
}

impl Default for Decoder {
    fn default() -> Decoder {
        let state = State::Size { size: 0, digits: 0 };
        Decoder { state, line: Vec::new(), trailer_bytes: 0, trailers: 0 }
    }
}

impl Decoder {
    /// Whether the last chunk and the trailers have been read.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads from the start of `input`. Returns how many bytes it took and which of them are content; call again
    /// with the rest until it takes nothing or [`Decoder::is_done`].
    ///
    /// # Errors
    /// [`Malformed`]: the text is not chunked as RFC 9112 says.
    pub fn decode<'a>(&mut self, input: &'a [u8]) -> Result<(usize, &'a [u8]), Malformed> {
        let mut taken = 0;
        while taken < input.len() && !self.is_done() {
            if let State::Data { left } = self.state {
                let n = left.min((input.len() - taken) as u64);
                let content = &input[taken..taken + n as usize];
                self.state = if n == left { State::DataCr } else { State::Data { left: left - n } };
                return Ok((taken + n as usize, content));
            }
            self.step(input[taken])?;
            taken += 1;
        }
        Ok((taken, &[]))
    }

    fn step(&mut self, byte: u8) -> Result<(), Malformed> {
        self.state = match (self.state, byte) {
            (State::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                if digits == MOST_SIZE_DIGITS {
                    return Err(Malformed("chunk size out of range"));
                }
                let digit = u64::from((byte as char).to_digit(16).unwrap_or(0));
                State::Size { size: size * 16 + digit, digits: digits + 1 }
            }
            (State::Size { digits: 0, .. }, _) => return Err(Malformed("chunk size is not a hex number")),
            (State::Size { size, .. }, b'\r') => State::SizeLf { size },
            (State::Size { size, .. }, b';') => State::Extension { size, bytes: 0 },
            (State::Size { .. }, _) => return Err(Malformed("chunk size is not a hex number")),
            (State::Extension { size, .. }, b'\r') => State::SizeLf { size },
            (State::Extension { size, bytes }, b'\t' | b' '..=b'~' | 0x80..)
                if bytes < MOST_EXTENSION_BYTES =>
            {
                State::Extension { size, bytes: bytes + 1 }
            }
            (State::Extension { bytes: MOST_EXTENSION_BYTES, .. }, _) => {
                return Err(Malformed("chunk extension is too long"));
            }
            (State::Extension { .. }, _) => return Err(Malformed("illegal chunk extension")),
            (State::SizeLf { size: 0 }, b'\n') => State::Trailers,
            (State::SizeLf { size }, b'\n') => State::Data { left: size },
            (State::SizeLf { .. }, _) => return Err(Malformed("a bare CR after a chunk size")),
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size { size: 0, digits: 0 },
            (State::DataCr | State::DataLf, _) => return Err(Malformed("a chunk is longer than its size")),
            (State::Trailers, _) => return self.trailer_byte(byte),
            (State::Data { .. } | State::Done, _) => unreachable!("no single step in {:?}", self.state),
        };
        Ok(())
    }

    fn trailer_byte(&mut self, byte: u8) -> Result<(), Malformed> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > MOST_TRAILER_BYTES {
            return Err(Malformed("the trailers are too long"));
        }
        self.line.push(byte);
        if byte != b'\n' {
            return Ok(());
        }
        let line = self.line.strip_suffix(b"\r\n").ok_or(Malformed("a trailer ends with a bare LF"))?;
        if line.is_empty() {
            self.state = State::Done;
        } else {
            check_trailer(line)?;
            self.trailers += 1;
            if self.trailers > MOST_TRAILERS {
                return Err(Malformed("too many trailers"));
            }
        }
        self.line.clear();
        Ok(())
    }
}

/// `field-name ":" OWS field-value OWS` (RFC 9110 section 5).
fn check_trailer(line: &[u8]) -> Result<(), Malformed> {
    let colon = memchr::memchr(b':', line).ok_or(Malformed("a trailer without a colon"))?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    if name.is_empty() || !name.iter().all(is_token) {
        return Err(Malformed("illegal trailer name"));
    }
    if value.iter().any(|b| (*b < b' ' && *b != b'\t') || *b == 0x7f) {
        return Err(Malformed("illegal trailer value"));
    }
    Ok(())
}

/// Appends `content` to `out` as one chunk; nothing for empty content, which would be the last chunk.
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
        let (mut decoder, mut content, mut taken) = (Decoder::default(), Vec::new(), 0);
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
    fn what_is_encoded_is_decoded() {
        for size in [1, 15, 16, 255, 4096, 70_000] {
            let (mut text, content) = (Vec::new(), vec![b'x'; size]);
            encode(&content, &mut text);
            text.extend_from_slice(END);
            assert_eq!(decode(&text, 1000).unwrap(), (content, true, text.len()));
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
