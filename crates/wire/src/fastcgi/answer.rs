//! What an application sends: STDOUT, STDERR, END_REQUEST. [`RecordDecoder`] reads it; the functions write it, for
//! stand-ins.

use super::{
    CONTENT_MAX, END_REQUEST, HEADER_BYTES, REQUEST_ID, RecordError, RecordHeader, STDERR, STDOUT, VERSION,
};

/// A record of a response, or a piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A piece of head and content, never empty.
    Stdout(&'a [u8]),
    /// A piece of the messages, never empty.
    Stderr(&'a [u8]),
    /// The response is complete.
    End(RequestEnd),
}

/// How a request ended (section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    /// It was run.
    Complete {
        /// Exit status of the application; php-fpm's is always 0.
        status: u32,
    },
    /// Not begun: the connection already has a request.
    CantMultiplex,
    /// Not begun: the application is overloaded.
    Overloaded,
    /// Not begun: the application is not a responder.
    UnknownRole,
    /// Ended with a code that is not in the specification.
    Other(u8),
}

/// The result of [`RecordDecoder::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordStep<'a> {
    /// A record, and how many bytes of the input it took.
    Record(Record<'a>, usize),
    /// Number of bytes without meaning.
    Skip(usize),
    /// The input is incomplete; its rest, less than 16 bytes, must be passed again with the following bytes.
    Partial,
}

/// Reads the records of one connection in sequence, from any buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordDecoder {
    /// A response may come.
    asked: bool,
    /// The current record is STDERR, not STDOUT.
    is_stderr: bool,
    /// Remaining content of the current record, bytes; and the padding after it.
    content_left: u16,
    padding_left: u8,
}

impl RecordDecoder {
    /// A request was sent: a response may come.
    pub fn begin(&mut self) {
        debug_assert!(self.content_left == 0);
        self.asked = true;
    }

    /// The next record of `input`, which starts where the last one ended.
    ///
    /// # Errors
    /// The bytes are not a response.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<RecordStep<'a>, RecordError> {
        if self.content_left > 0 {
            return Ok(self.piece(input, 0));
        }
        if self.padding_left > 0 && !input.is_empty() {
            let skipped = input.len().min(usize::from(self.padding_left));
            self.padding_left -= skipped as u8;
            return Ok(RecordStep::Skip(skipped));
        }
        let Some(header) = RecordHeader::decode(input) else { return Ok(RecordStep::Partial) };
        self.check(header)?;
        if header.kind == END_REQUEST {
            let end = HEADER_BYTES + usize::from(header.content);
            let Some(content) = input.get(HEADER_BYTES..end) else { return Ok(RecordStep::Partial) };
            self.asked = false;
            self.padding_left = header.padding;
            return Ok(RecordStep::Record(Record::End(RequestEnd::decode(content)), end));
        }
        self.is_stderr = header.kind == STDERR;
        (self.content_left, self.padding_left) = (header.content, header.padding);
        match self.piece(&input[HEADER_BYTES..], HEADER_BYTES) {
            // The header alone is enough.
            RecordStep::Partial => Ok(RecordStep::Skip(HEADER_BYTES)),
            step => Ok(step),
        }
    }

    /// Whether no part of a response is outstanding.
    pub fn is_at_rest(&self) -> bool {
        !self.asked && self.padding_left == 0
    }

    /// The available part of the current record; `header` bytes preceded it.
    fn piece<'a>(&mut self, input: &'a [u8], header: usize) -> RecordStep<'a> {
        let length = input.len().min(usize::from(self.content_left));
        if length == 0 {
            return RecordStep::Partial;
        }
        self.content_left -= length as u16;
        let piece = &input[..length];
        let record = if self.is_stderr { Record::Stderr(piece) } else { Record::Stdout(piece) };
        RecordStep::Record(record, header + length)
    }

    fn check(&self, header: RecordHeader) -> Result<(), RecordError> {
        if header.version != VERSION {
            return Err(RecordError::Version(header.version));
        }
        if !matches!(header.kind, STDOUT | STDERR | END_REQUEST) {
            return Err(RecordError::Kind(header.kind));
        }
        if !self.asked {
            return Err(RecordError::Unasked(header.kind));
        }
        if header.id != REQUEST_ID {
            return Err(RecordError::Id(header.id));
        }
        if header.kind == END_REQUEST && header.content != 8 {
            return Err(RecordError::Length(header.content));
        }
        Ok(())
    }
}

impl RequestEnd {
    fn decode(content: &[u8]) -> RequestEnd {
        let status = content.first_chunk::<4>().map_or(0, |status| u32::from_be_bytes(*status));
        match content.get(4) {
            Some(0) => RequestEnd::Complete { status },
            Some(1) => RequestEnd::CantMultiplex,
            Some(2) => RequestEnd::Overloaded,
            Some(3) => RequestEnd::UnknownRole,
            other => RequestEnd::Other(other.copied().unwrap_or_default()),
        }
    }

    fn encode(self) -> [u8; 8] {
        let (status, code) = match self {
            RequestEnd::Complete { status } => (status, 0),
            RequestEnd::CantMultiplex => (0, 1),
            RequestEnd::Overloaded => (0, 2),
            RequestEnd::UnknownRole => (0, 3),
            RequestEnd::Other(code) => (0, code),
        };
        let [a, b, c, d] = status.to_be_bytes();
        [a, b, c, d, code, 0, 0, 0]
    }
}

/// Appends STDOUT records; none if there is nothing.
pub fn stdout(out: &mut Vec<u8>, content: &[u8]) {
    records(out, STDOUT, content);
}

/// Appends STDERR records; none if there is nothing.
pub fn stderr(out: &mut Vec<u8>, message: &[u8]) {
    records(out, STDERR, message);
}

/// Appends an END_REQUEST.
pub fn end(out: &mut Vec<u8>, end: RequestEnd) {
    out.extend_from_slice(&RecordHeader::new(END_REQUEST, 8).encode());
    out.extend_from_slice(&end.encode());
}

/// Appends a complete successful response.
pub fn answer(out: &mut Vec<u8>, content: &[u8]) {
    stdout(out, content);
    end(out, RequestEnd::Complete { status: 0 });
}

/// Each with padding to a multiple of 8, as php-fpm writes them.
fn records(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    for piece in content.chunks(CONTENT_MAX) {
        let padding = piece.len().wrapping_neg() & 7;
        out.extend_from_slice(
            &RecordHeader { padding: padding as u8, ..RecordHeader::new(kind, piece.len()) }.encode(),
        );
        out.extend_from_slice(piece);
        out.extend_from_slice(&[0; 8][..padding]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Everything that was read, and how it ended.
    #[derive(Debug, Default, PartialEq)]
    struct Heard {
        stdout: Vec<u8>,
        stderr: Vec<u8>,
        ends: Vec<RequestEnd>,
        broken: Option<RecordError>,
    }

    /// Reads responses like a server that gets `step` bytes at a time.
    fn read(input: &[u8], step: usize) -> Heard {
        let (mut decoder, mut heard) = (RecordDecoder::default(), Heard::default());
        decoder.begin();
        let (mut start, mut end) = (0, 0);
        loop {
            match decoder.next(&input[start..end]) {
                Ok(RecordStep::Record(record, taken)) => {
                    start += taken;
                    match record {
                        Record::Stdout(piece) => heard.stdout.extend_from_slice(piece),
                        Record::Stderr(piece) => heard.stderr.extend_from_slice(piece),
                        Record::End(end) => {
                            heard.ends.push(end);
                            decoder.begin();
                        }
                    }
                }
                Ok(RecordStep::Skip(taken)) => start += taken,
                Ok(RecordStep::Partial) if end == input.len() => return heard,
                Ok(RecordStep::Partial) => {
                    assert!(end - start < 16, "little is kept");
                    end = (end + step).min(input.len());
                }
                Err(broken) => {
                    heard.broken = Some(broken);
                    return heard;
                }
            }
        }
    }

    #[test]
    fn an_answer() {
        let mut out = Vec::new();
        stderr(&mut out, b"oops");
        answer(&mut out, b"hello");
        assert_eq!(out[..16], [1, 7, 0, 1, 0, 4, 4, 0, b'o', b'o', b'p', b's', 0, 0, 0, 0]);
        let heard = read(&out, usize::MAX >> 1);
        assert_eq!((&heard.stdout[..], &heard.stderr[..]), (&b"hello"[..], &b"oops"[..]));
        assert_eq!(heard.ends, [RequestEnd::Complete { status: 0 }]);
        // The end of a stream may be announced or not.
        let mut out = RecordHeader::new(STDOUT, 0).encode().to_vec();
        end(&mut out, RequestEnd::Overloaded);
        assert_eq!(read(&out, 1).ends, [RequestEnd::Overloaded]);
    }

    #[test]
    fn what_is_no_answer() {
        let header = |bytes: [u8; 8]| read(&bytes, 8).broken;
        assert_eq!(header([0, 6, 0, 1, 0, 1, 0, 0]), Some(RecordError::Version(0)));
        assert_eq!(header(*b"HTTP/1.1"), Some(RecordError::Version(b'H')));
        assert_eq!(header([1, 11, 0, 1, 0, 1, 0, 0]), Some(RecordError::Kind(11)));
        assert_eq!(header([1, 6, 0, 2, 0, 1, 0, 0]), Some(RecordError::Id(2)));
        assert_eq!(header([1, 3, 0, 1, 0, 7, 0, 0]), Some(RecordError::Length(7)));
        assert_eq!(RecordDecoder::default().next(&[1, 6, 0, 1, 0, 1, 0, 0]), Err(RecordError::Unasked(6)));
    }

    #[test]
    fn at_rest_when_all_is_read() {
        let mut decoder = RecordDecoder::default();
        assert!(decoder.is_at_rest());
        decoder.begin();
        let mut out = Vec::new();
        end(&mut out, RequestEnd::Complete { status: 7 });
        out[6] = 3;
        out.extend_from_slice(&[0; 3]);
        let step = decoder.next(&out).unwrap();
        assert_eq!(step, RecordStep::Record(Record::End(RequestEnd::Complete { status: 7 }), 16));
        assert!(!decoder.is_at_rest(), "padding is to come");
        assert_eq!(decoder.next(&out[16..]), Ok(RecordStep::Skip(3)));
        assert!(decoder.is_at_rest());
    }

    proptest! {
        #[test]
        fn torn_anywhere_it_says_the_same(
            pieces in proptest::collection::vec((any::<bool>(), 0usize..70_000), 0..6),
            step in 1usize..5_000,
        ) {
            let (mut out, mut expected) = (Vec::new(), Heard::default());
            for (is_stderr, length) in pieces {
                let text: Vec<u8> = (0..length).map(|at| at as u8).collect();
                if is_stderr {
                    stderr(&mut out, &text);
                    expected.stderr.extend(text);
                } else {
                    stdout(&mut out, &text);
                    expected.stdout.extend(text);
                }
            }
            end(&mut out, RequestEnd::Complete { status: 0 });
            expected.ends.push(RequestEnd::Complete { status: 0 });
            prop_assert_eq!(&read(&out, step), &expected);
            prop_assert_eq!(&read(&out, usize::MAX >> 1), &expected);
        }

        #[test]
        fn any_bytes(input in proptest::collection::vec(any::<u8>(), 0..300), step in 1usize..20) {
            prop_assert_eq!(read(&input, step), read(&input, usize::MAX >> 1));
        }
    }
}
