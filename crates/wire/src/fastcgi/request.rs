//! What the server sends: BEGIN_REQUEST, PARAMS, STDIN.

use super::{
    ABORT_REQUEST, BEGIN_REQUEST, CONTENT_MAX, HEADER_BYTES, KEEP_CONN, PARAMS, PARAMS_MAX, ROLE_RESPONDER,
    RecordError, RecordHeader, STDIN,
};

/// Length of BEGIN_REQUEST, bytes.
pub const BEGIN_BYTES: usize = HEADER_BYTES + 8;

/// Appends BEGIN_REQUEST and PARAMS to a buffer: `begin`, `parts`..., `finish`; [`stdin`] follows.
///
/// A variable never spans two records: the specification allows it, but php-fpm parses each record separately.
///
/// ```
/// use millrace_wire::fastcgi::{RequestRecords, stdin};
/// let mut out = Vec::new();
/// let mut request = RequestRecords::begin(&mut out, true);
/// request.parts(b"REQUEST_METHOD", &[b"GET"]);
/// request.finish().unwrap();
/// stdin(&mut out, b"");
/// ```
#[derive(Debug)]
pub struct RequestRecords<'b> {
    out: &'b mut Vec<u8>,
    /// Where the request starts in `out`.
    start: usize,
    /// Where the current PARAMS record starts.
    record: usize,
    too_long: bool,
}

/// BEGIN_REQUEST, the first record of each request. `keep`: the connection stays open after the response.
pub fn begin_request(keep: bool) -> [u8; BEGIN_BYTES] {
    let [role1, role0] = ROLE_RESPONDER.to_be_bytes();
    let content = [role1, role0, if keep { KEEP_CONN } else { 0 }, 0, 0, 0, 0, 0];
    let mut record = [0; BEGIN_BYTES];
    record[..HEADER_BYTES].copy_from_slice(&RecordHeader::new(BEGIN_REQUEST, 8).encode());
    record[HEADER_BYTES..].copy_from_slice(&content);
    record
}

/// A variable is longer than a record, or all together are longer than [`PARAMS_MAX`]. The client causes this:
/// respond with 431.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamsTooLong;

impl std::fmt::Display for ParamsTooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the request is too large for FastCGI")
    }
}

impl std::error::Error for ParamsTooLong {}

impl<'b> RequestRecords<'b> {
    /// Starts the request. `keep`: the connection stays open after the response.
    pub fn begin(out: &'b mut Vec<u8>, keep: bool) -> RequestRecords<'b> {
        let start = out.len();
        out.extend_from_slice(&begin_request(keep));
        RequestRecords::params(out, start)
    }

    /// Starts a request whose BEGIN_REQUEST has been sent already.
    pub fn go_on(out: &'b mut Vec<u8>) -> RequestRecords<'b> {
        let start = out.len();
        RequestRecords::params(out, start)
    }

    fn params(out: &'b mut Vec<u8>, start: usize) -> RequestRecords<'b> {
        let record = out.len();
        out.extend_from_slice(&RecordHeader::new(PARAMS, 0).encode());
        RequestRecords { out, start, record, too_long: false }
    }

    /// Adds a variable whose value is the concatenation of the parts. Neither name nor value may contain NUL.
    pub fn parts(&mut self, name: &[u8], value: &[&[u8]]) {
        if self.entry(name.len(), value.iter().map(|part| part.len()).sum()) {
            self.out.extend_from_slice(name);
            for part in value {
                self.out.extend_from_slice(part);
            }
        }
    }

    /// Adds a request field as RFC 3875 section 4.1.18 names it: `Accept-Language` becomes `HTTP_ACCEPT_LANGUAGE`.
    /// `Proxy` is dropped: PHP code and libraries use HTTP_PROXY as the proxy of their own requests ("httpoxy").
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        if name.eq_ignore_ascii_case(b"proxy") || !self.entry(name.len() + 5, value.len()) {
            return;
        }
        self.out.extend_from_slice(b"HTTP_");
        self.out.extend(name.iter().map(|&byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
        self.out.extend_from_slice(value);
    }

    /// Completes PARAMS. After an error the buffer contains nothing of the request.
    ///
    /// # Errors
    /// It does not fit.
    pub fn finish(mut self) -> Result<(), ParamsTooLong> {
        if self.too_long || self.out.len() - self.start > PARAMS_MAX {
            self.out.truncate(self.start);
            return Err(ParamsTooLong);
        }
        // An empty record ends the stream: it must not be written twice.
        if self.content() > 0 {
            self.next_record();
        }
        Ok(())
    }

    /// Content of the current record, bytes.
    fn content(&self) -> usize {
        self.out.len() - self.record - HEADER_BYTES
    }

    fn next_record(&mut self) {
        let header = RecordHeader::new(PARAMS, self.content()).encode();
        self.out[self.record..self.record + HEADER_BYTES].copy_from_slice(&header);
        self.record = self.out.len();
        self.out.extend_from_slice(&RecordHeader::new(PARAMS, 0).encode());
    }

    /// Writes the lengths of a variable; false if they can't be encoded.
    fn entry(&mut self, name: usize, value: usize) -> bool {
        let total = length_bytes(name) + length_bytes(value) + name + value;
        if total > CONTENT_MAX {
            self.too_long = true;
            return false;
        }
        if self.content() + total > CONTENT_MAX {
            self.next_record();
        }
        length(self.out, name);
        length(self.out, value);
        true
    }
}

fn length_bytes(length: usize) -> usize {
    if length < 0x80 { 1 } else { 4 }
}

/// A length below 128 is one byte, others are four with the first bit set (section 3.4).
fn length(out: &mut Vec<u8>, length: usize) {
    match length {
        0..0x80 => out.push(length as u8),
        _ => out.extend_from_slice(&(length as u32 | 1 << 31).to_be_bytes()),
    }
}

/// Appends all content, and its end.
pub fn stdin(out: &mut Vec<u8>, content: &[u8]) {
    for piece in content.chunks(CONTENT_MAX) {
        out.extend_from_slice(&stdin_header(piece.len()));
        out.extend_from_slice(piece);
    }
    out.extend_from_slice(&stdin_header(0));
}

/// The header of a piece of the content, at most [`CONTENT_MAX`] bytes; 0: the content's end.
pub fn stdin_header(length: usize) -> [u8; HEADER_BYTES] {
    RecordHeader::new(STDIN, length).encode()
}

/// A request as an application sees it: for tests and for stand-ins of php-fpm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedRequest {
    /// Whether the connection stays open.
    pub keep: bool,
    /// Names and values in the order sent.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// The content.
    pub content: Vec<u8>,
    /// It was aborted (ABORT_REQUEST).
    pub aborted: bool,
}

impl ParsedRequest {
    /// Reads a request and its length in bytes; `None` while it is incomplete.
    ///
    /// # Errors
    /// It is invalid, or php-fpm would reject it.
    pub fn decode(bytes: &[u8]) -> Result<Option<(ParsedRequest, usize)>, RecordError> {
        let (mut at, mut parsed, mut params_over) = (0, ParsedRequest::default(), false);
        loop {
            let Some(header) = RecordHeader::decode(&bytes[at..]) else { return Ok(None) };
            if header.version != super::VERSION {
                return Err(RecordError::Version(header.version));
            }
            let begin = at + HEADER_BYTES;
            let end = begin + usize::from(header.content);
            let Some(content) = bytes.get(begin..end) else { return Ok(None) };
            at = end + usize::from(header.padding);
            if at > bytes.len() {
                return Ok(None);
            }
            match header.kind {
                BEGIN_REQUEST if content.len() == 8 => parsed.keep = content[2] & KEEP_CONN != 0,
                BEGIN_REQUEST => return Err(RecordError::Length(header.content)),
                PARAMS if content.is_empty() => params_over = true,
                PARAMS if !params_over => {
                    parsed.params(content).ok_or(RecordError::Length(header.content))?
                }
                STDIN if content.is_empty() && params_over => return Ok(Some((parsed, at))),
                STDIN if params_over => parsed.content.extend_from_slice(content),
                ABORT_REQUEST => {
                    parsed.aborted = true;
                    return Ok(Some((parsed, at)));
                }
                kind => return Err(RecordError::Kind(kind)),
            }
        }
    }

    fn params(&mut self, mut content: &[u8]) -> Option<()> {
        while !content.is_empty() {
            let (name, rest) = split_length(content)?;
            let (value, rest) = split_length(rest)?;
            let (name, rest) = rest.split_at_checked(name)?;
            let (value, rest) = rest.split_at_checked(value)?;
            self.variables.push((name.to_vec(), value.to_vec()));
            content = rest;
        }
        Some(())
    }
}

/// A length and the bytes after it.
pub(super) fn split_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes.first()? {
        short @ 0..0x80 => Some((usize::from(*short), &bytes[1..])),
        _ => {
            let (long, rest) = bytes.split_first_chunk::<4>()?;
            Some(((u32::from_be_bytes(*long) & !(1 << 31)) as usize, rest))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_the_specification_has_it() {
        let mut out = Vec::new();
        let mut request = RequestRecords::begin(&mut out, true);
        request.parts(b"A", &[b"b", b"c"]);
        request.field(b"X-Y", &[b'v'; 200]);
        request.field(b"pRoxy", b"evil");
        request.finish().unwrap();
        stdin(&mut out, b"hello");
        let mut later = Vec::new();
        RequestRecords::go_on(&mut later).parts(b"A", &[b"b", b"c"]);
        assert_eq!((&out[..16], &later[8..]), (&begin_request(true)[..], &out[24..29]));
        assert_eq!(out[..16], [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(out[16..24], [1, 4, 0, 1, 0, 5 + 5 + 8 + 200, 0, 0]);
        assert_eq!(&out[24..29], b"\x01\x02Abc");
        assert_eq!(&out[29..42], b"\x08\x80\x00\x00\xc8HTTP_X_Y");
        assert_eq!(out[242..250], [1, 4, 0, 1, 0, 0, 0, 0]);
        assert_eq!(&out[250..], b"\x01\x05\0\x01\0\x05\0\0hello\x01\x05\0\x01\0\0\0\0");
    }

    #[test]
    fn what_is_too_long_leaves_nothing() {
        let mut out = b"kept".to_vec();
        let mut request = RequestRecords::begin(&mut out, true);
        request.parts(b"A", &[&[b'x'; CONTENT_MAX - 6]]);
        request.finish().unwrap();
        let fits = out.len();
        let mut request = RequestRecords::begin(&mut out, true);
        request.parts(b"A", &[&[b'x'; CONTENT_MAX - 5]]);
        assert_eq!(request.finish(), Err(ParamsTooLong));
        assert_eq!(out.len(), fits);
        let mut request = RequestRecords::begin(&mut out, true);
        (0..20).for_each(|_| request.parts(b"A", &[&[b'x'; 60_000]]));
        assert_eq!(request.finish(), Err(ParamsTooLong), "more than {PARAMS_MAX} bytes");
        assert_eq!(out.len(), fits);
    }

    proptest! {
        #[test]
        fn goes_there_and_back(
            variables in proptest::collection::vec(("[A-Z_]{1,20}", 0usize..40_000), 0..12),
            content in 0usize..200_000,
            keep: bool,
        ) {
            let mut out = Vec::new();
            let mut request = RequestRecords::begin(&mut out, keep);
            let values: Vec<Vec<u8>> = variables.iter().map(|(_, length)| vec![b'v'; *length]).collect();
            for ((name, _), value) in variables.iter().zip(&values) {
                request.parts(name.as_bytes(), &[value]);
            }
            request.finish().unwrap();
            let content: Vec<u8> = (0..content).map(|at| at as u8).collect();
            stdin(&mut out, &content);
            prop_assert_eq!(ParsedRequest::decode(&out[..out.len() - 1]), Ok(None));
            let (parsed, taken) = ParsedRequest::decode(&out).unwrap().unwrap();
            prop_assert_eq!(taken, out.len());
            prop_assert_eq!(parsed.keep, keep);
            prop_assert_eq!(parsed.content, content);
            let expected: Vec<_> =
                variables.iter().zip(values).map(|((name, _), value)| (name.clone().into_bytes(), value)).collect();
            prop_assert_eq!(parsed.variables, expected);
        }
    }
}
