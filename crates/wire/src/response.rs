//! HTTP/1 responses (RFC 9112 sections 4, 6 and 7), arriving in any pieces.
//!
//! [`Reader`] parses responses in sequence and copies nothing: the load tester uses it. [`Collector`] collects one
//! response, for a client that makes one request per connection. Interim responses (1xx) are skipped.

use std::mem::{MaybeUninit, take};

use httparse::{Header, ParserConfig, Status};

use crate::chunked::{ChunkedDecoder, Malformed};

/// Fields in a head.
const MOST_FIELDS: usize = 128;
/// Maximum length of a head, bytes; a longer one is refused.
const MOST_HEAD_BYTES: usize = 48 << 10;

/// Reads responses in sequence.
///
/// ```text
///   Head --length--> Length --all--> Head        Head --neither--> ToEnd --end of the connection--> (no more)
///     \----chunked--> Chunked --last chunk--> Head
/// ```
#[derive(Debug, Default)]
pub struct Reader {
    phase: Phase,
    /// The trailers of the last response.
    trailers: Vec<u8>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Head,
    /// This many bytes of content are left.
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    /// All following bytes are content.
    ToEnd,
}

/// A piece of a response.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// The head of a final response: the bytes just taken.
    Head(Outline),
    /// Part of the content, still in its content coding.
    Content(&'a [u8]),
    /// The response is complete.
    End,
}

/// What a head says about the rest of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Status code, 101 or 200-599.
    pub status: u16,
    /// Whether another request may follow on this connection.
    pub keep_alive: bool,
    /// Length of the content in bytes, if the head states it.
    pub length: Option<u64>,
}

impl Reader {
    /// Reads from the start of `input`; returns how many bytes it took, and what they are. If it takes nothing and
    /// returns no item, it needs more: call again with the same and the following bytes.
    ///
    /// # Errors
    /// [`Malformed`]: the bytes are not HTTP/1, or their framing is ambiguous.
    pub fn read<'a>(
        &mut self,
        input: &'a [u8],
        is_head_request: bool,
    ) -> Result<(usize, Option<Item<'a>>), Malformed> {
        match &mut self.phase {
            Phase::Head => self.head(input, is_head_request),
            Phase::Length(0) => {
                self.phase = Phase::Head;
                Ok((0, Some(Item::End)))
            }
            Phase::Length(left) => {
                let n = (*left).min(input.len() as u64);
                *left -= n;
                Ok((n as usize, (n > 0).then(|| Item::Content(&input[..n as usize]))))
            }
            Phase::Chunked(decoder) => {
                if decoder.is_done() {
                    self.trailers = decoder.take_trailers();
                    self.phase = Phase::Head;
                    return Ok((0, Some(Item::End)));
                }
                let (taken, content) = decoder.decode(input)?;
                if taken == 0 || content.is_empty() && !decoder.is_done() {
                    return Ok((taken, None));
                }
                Ok((taken, Some(Item::Content(content))))
            }
            Phase::ToEnd => Ok((input.len(), (!input.is_empty()).then_some(Item::Content(input)))),
        }
    }

    /// Whether the end of the connection completes the response instead of truncating it.
    pub fn may_end(&self) -> bool {
        matches!(self.phase, Phase::ToEnd)
    }

    /// The trailers of the response that has just ended, a line each.
    pub fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }

    /// Whether the head of a response has been read, and its end has not.
    pub fn is_within(&self) -> bool {
        !matches!(self.phase, Phase::Head)
    }

    fn head<'a>(
        &mut self,
        input: &'a [u8],
        is_head_request: bool,
    ) -> Result<(usize, Option<Item<'a>>), Malformed> {
        let mut room = [const { MaybeUninit::uninit() }; MOST_FIELDS];
        let window = &input[..input.len().min(MOST_HEAD_BYTES)];
        let (bytes, response) = match parse(window, &mut room) {
            Ok(Some(parsed)) => parsed,
            Ok(None) if input.len() >= MOST_HEAD_BYTES => {
                return Err(Malformed("the header section is too long"));
            }
            Ok(None) => return Ok((0, None)),
            Err(_) => return Err(Malformed("the header section is malformed")),
        };
        let status = response.code.unwrap_or(0);
        if (100..200).contains(&status) && status != 101 {
            return Ok((bytes, None));
        }
        if !(101..=599).contains(&status) {
            return Err(Malformed("the status code is not in 100-599"));
        }
        let declared = Declared::by(response.version == Some(1), response.headers)?;
        let no_content = is_head_request || matches!(status, 101 | 204 | 304);
        self.phase = match (no_content, declared.chunked, declared.length) {
            (true, ..) => Phase::Length(0),
            (_, true, _) => Phase::Chunked(Box::default()),
            (_, _, Some(length)) => Phase::Length(length),
            _ => Phase::ToEnd,
        };
        let keep_alive = declared.keep_alive && status != 101 && !self.may_end();
        let length = if no_content || declared.chunked { None } else { declared.length };
        Ok((bytes, Some(Item::Head(Outline { status, keep_alive, length }))))
    }
}

/// The length of the head at the start of `input`, and its parts; `None`: it is incomplete.
fn parse<'h, 'b>(
    input: &'b [u8],
    room: &'h mut [MaybeUninit<Header<'b>>],
) -> Result<Option<(usize, httparse::Response<'h, 'b>)>, httparse::Error> {
    let mut response = httparse::Response::new(&mut []);
    let read = ParserConfig::default().parse_response_with_uninit_headers(&mut response, input, room)?;
    Ok(match read {
        Status::Complete(bytes) => Some((bytes, response)),
        Status::Partial => None,
    })
}

/// What the fields of a head state about content and connection (RFC 9112 sections 6 and 9.3).
struct Declared {
    length: Option<u64>,
    chunked: bool,
    keep_alive: bool,
}

impl Declared {
    fn by(is_http11: bool, fields: &[Header<'_>]) -> Result<Declared, Malformed> {
        let mut declared = Declared { length: None, chunked: false, keep_alive: is_http11 };
        for field in fields {
            // Compared only if the length fits: this runs for every field of every response.
            match field.name.len() {
                14 if field.name.eq_ignore_ascii_case("content-length") => {
                    let length = decimal(field.value).ok_or(Malformed("Content-Length is not a number"))?;
                    if declared.length.is_some_and(|other| other != length) {
                        return Err(Malformed("Content-Length has two different values"));
                    }
                    declared.length = Some(length);
                }
                17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                    if declared.chunked || !field.value.eq_ignore_ascii_case(b"chunked") {
                        return Err(Malformed("the transfer coding is not chunked"));
                    }
                    declared.chunked = true;
                }
                10 if field.name.eq_ignore_ascii_case("connection") => {
                    let value = String::from_utf8_lossy(field.value).to_ascii_lowercase();
                    if value.split(',').any(|word| word.trim() == "close") {
                        declared.keep_alive = false;
                    } else if value.split(',').any(|word| word.trim() == "keep-alive") {
                        declared.keep_alive = true;
                    }
                }
                _ => {}
            }
        }
        if declared.chunked && declared.length.is_some() {
            return Err(Malformed("both Content-Length and Transfer-Encoding are present"));
        }
        // HTTP/1.0 has no transfer codings: an intermediary may not have understood this one (section 6.1).
        declared.keep_alive &= is_http11 || !declared.chunked;
        Ok(declared)
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let digits = digits.trim_ascii();
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// Names and values of the fields of a head, in order; empty if it is invalid.
pub fn fields(head: &[u8]) -> Vec<(&str, &[u8])> {
    let mut room = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    match parse(head, &mut room) {
        Ok(Some((_, response))) => response.headers.iter().map(|field| (field.name, field.value)).collect(),
        _ => Vec::new(),
    }
}

/// The values of a head's fields of this name, in order.
pub fn values<'h>(head: &'h [u8], name: &str) -> impl Iterator<Item = &'h [u8]> {
    let all = fields(head).into_iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name));
    all.map(|(_, value)| value)
}

/// The value of a head's first field of this name, as text.
pub fn field(head: &[u8], name: &str) -> Option<String> {
    values(head, name).next().map(|value| String::from_utf8_lossy(value).trim().to_owned())
}

/// A complete response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// The head as received, with its empty line: see [`fields`].
    pub head: Vec<u8>,
    /// The content, without transfer coding and still in its content coding.
    pub content: Vec<u8>,
}

impl Response {
    /// The value of the first field of this name.
    pub fn field(&self, name: &str) -> Option<String> {
        field(&self.head, name)
    }

    /// The content as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.content).into_owned()
    }
}

/// Collects the response to one request.
#[derive(Debug)]
pub struct Collector {
    reader: Reader,
    is_head_request: bool,
    most: usize,
    /// Received bytes that are not processed: the start of a head.
    pending: Vec<u8>,
    response: Response,
}

impl Collector {
    /// For the response to a request, with at most `most` bytes of content.
    pub fn new(is_head_request: bool, most: usize) -> Collector {
        let (reader, pending, response) = Default::default();
        Collector { reader, is_head_request, most, pending, response }
    }

    /// Takes received bytes; returns the response once it is complete. Later bytes are dropped.
    ///
    /// # Errors
    /// [`Malformed`]: as in [`Reader::read`], or the content is too long.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Option<Response>, Malformed> {
        self.pending.extend_from_slice(bytes);
        let mut used = 0;
        loop {
            let (taken, item) = self.reader.read(&self.pending[used..], self.is_head_request)?;
            match item {
                Some(Item::Head(outline)) => {
                    self.response.status = outline.status;
                    self.response.head.extend_from_slice(&self.pending[used..used + taken]);
                }
                Some(Item::Content(part)) => self.response.content.extend_from_slice(part),
                Some(Item::End) => return Ok(Some(take(&mut self.response))),
                None if taken == 0 => break,
                None => {}
            }
            used += taken;
        }
        self.pending.drain(..used);
        if self.response.content.len() > self.most {
            return Err(Malformed("the response is too long"));
        }
        Ok(None)
    }

    /// The connection has ended: returns the response, if that completes it.
    ///
    /// # Errors
    /// [`Malformed`]: the response is missing or truncated.
    pub fn end(self) -> Result<Response, Malformed> {
        match self.reader.may_end() {
            true => Ok(self.response),
            false if self.pending.is_empty() && !self.reader.is_within() => {
                Err(Malformed("the connection was closed without a response"))
            }
            false => Err(Malformed("the response is incomplete")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads `bytes` in pieces of `size`: statuses, contents, completed responses.
    fn read(bytes: &[u8], size: usize) -> Result<(Vec<u16>, Vec<u8>, usize, Reader), Malformed> {
        let (mut reader, mut left) = (Reader::default(), Vec::new());
        let (mut statuses, mut content, mut ends) = (Vec::new(), Vec::new(), 0);
        for piece in bytes.chunks(size) {
            left.extend_from_slice(piece);
            loop {
                let (taken, item) = reader.read(&left, false)?;
                let nothing = item.is_none();
                match item {
                    Some(Item::Head(head)) => statuses.push(head.status),
                    Some(Item::Content(part)) => content.extend_from_slice(part),
                    Some(Item::End) => ends += 1,
                    None => {}
                }
                left.drain(..taken);
                if nothing && taken == 0 {
                    break;
                }
            }
        }
        Ok((statuses, content, ends, reader))
    }

    #[test]
    fn pieces_of_any_size_are_the_same_responses() {
        let text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 404 Not Found\r\n\
            Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n";
        for size in [1, 2, 3, 7, 50, text.len()] {
            let (statuses, content, ends, reader) = read(text, size).unwrap();
            assert_eq!((statuses.as_slice(), ends), ([200, 404, 304].as_slice(), 3), "{size}");
            assert_eq!(content, b"helloabcde");
            assert!(!reader.is_within());
        }
    }

    #[test]
    fn the_end_of_the_connection_ends_only_what_has_no_length() {
        let (_, content, ends, reader) = read(b"HTTP/1.0 200 OK\r\n\r\nall of it", 4).unwrap();
        assert_eq!((content.as_slice(), ends, reader.may_end()), (b"all of it".as_slice(), 0, true));
        let (_, _, ends, reader) = read(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall", 4).unwrap();
        assert_eq!((ends, reader.may_end(), reader.is_within()), (0, false, true));
    }

    #[test]
    fn what_is_not_http_is_said() {
        for bad in [
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "HTTP/1.1 999 Odd\r\n\r\n",
        ] {
            assert!(read(bad.as_bytes(), bad.len()).is_err(), "{bad}");
        }
    }

    #[test]
    fn connections_are_kept_as_the_head_says() {
        let kept = |text: &str| match Reader::default().read(text.as_bytes(), false).unwrap().1 {
            Some(Item::Head(head)) => head.keep_alive,
            other => panic!("{other:?}"),
        };
        assert!(kept("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
        assert!(!kept("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n"));
        assert!(!kept("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"));
        assert!(kept("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n"));
        assert!(!kept("HTTP/1.1 200 OK\r\n\r\n"));
        assert!(kept("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
        let old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n";
        assert!(!kept(old));
        assert!(!kept("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"));
    }

    /// RFC 9112 section 6.3, rule 1.
    #[test]
    fn some_responses_have_no_content_whatever_they_say() {
        for (status, is_head_request) in [(200, true), (404, true), (101, false), (204, false), (304, false)]
        {
            for framing in ["Content-Length: 9", "Transfer-Encoding: chunked", "X: y"] {
                let text = format!("HTTP/1.1 {status} X\r\n{framing}\r\n\r\nmore");
                let mut reader = Reader::default();
                let (taken, head) = reader.read(text.as_bytes(), is_head_request).unwrap();
                assert!(matches!(head, Some(Item::Head(Outline { length: None, .. }))), "{text}");
                let next = reader.read(&text.as_bytes()[taken..], is_head_request);
                assert_eq!(next, Ok((0, Some(Item::End))), "{text}");
            }
        }
    }

    #[test]
    fn a_head_has_a_limit() {
        let of = |length: usize| {
            let start = "HTTP/1.1 200 OK\r\nX: ";
            format!("{start}{}\r\n\r\n", "y".repeat(length - start.len() - 4)).into_bytes()
        };
        for size in [1_000, usize::MAX] {
            assert_eq!(read(&of(MOST_HEAD_BYTES), size).unwrap().0, [200]);
            assert_eq!(read(&of(MOST_HEAD_BYTES + 1), size).unwrap_err().0, "the header section is too long");
        }
        let fields = "X: y\r\n".repeat(MOST_FIELDS + 1);
        assert!(read(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes(), usize::MAX).is_err());
    }

    /// Collects from pieces that end at `cuts`.
    fn collect(text: &[u8], cuts: [usize; 2], is_head_request: bool) -> Result<Response, Malformed> {
        let mut collector = Collector::new(is_head_request, 100);
        for piece in [&text[..cuts[0]], &text[cuts[0]..cuts[1]], &text[cuts[1]..]] {
            if let Some(response) = collector.feed(piece)? {
                return Ok(response);
            }
        }
        collector.end()
    }

    #[test]
    fn a_response_is_put_together_wherever_it_is_cut() {
        let chunked = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n\
            2\r\nok\r\n3\r\nabc\r\n0\r\nSum: 1\r\n\r\n";
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore", false, Ok((200, "ok"))),
            (chunked, false, Ok((400, "okabc"))),
            ("HTTP/1.0 200\r\nX: y\r\n\r\nto the end", false, Ok((200, "to the end"))),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true, Ok((200, ""))),
            ("", false, Err("the connection was closed without a response")),
            ("HTTP/1.1 200 OK\r\nContent-", false, Err("the response is incomplete")),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", false, Err("the response is incomplete")),
            (&chunked[..chunked.len() - 2], false, Err("the response is incomplete")),
            ("SSH-2.0-x\r\n\r\n", false, Err("the header section is malformed")),
        ];
        for (text, is_head_request, expected) in cases {
            for first in 0..=text.len() {
                for second in first..=text.len() {
                    let got = collect(text.as_bytes(), [first, second], is_head_request);
                    let seen = got.as_ref().map(|response| (response.status, response.text()));
                    let expected = expected.map(|(status, content)| (status, content.to_owned()));
                    assert_eq!(seen.map_err(|bad| bad.0), expected, "{text:?} cut at {first} and {second}");
                }
            }
        }
        let long = format!("HTTP/1.0 200 OK\r\n\r\n{}", "x".repeat(101));
        assert_eq!(collect(long.as_bytes(), [0, 0], false), Err(Malformed("the response is too long")));
        let response = collect(b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", [0, 0], false).unwrap();
        assert_eq!(response.field("location").as_deref(), Some("/x"));
    }

    #[test]
    fn fields_are_found_whatever_their_case() {
        let head = b"HTTP/1.1 200 OK\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n";
        assert_eq!(values(head, "Set-Cookie").collect::<Vec<_>>(), [b"a=1", b"b=2"]);
        assert_eq!((field(head, "SET-cookie").as_deref(), field(head, "ETag")), (Some("a=1"), None));
        assert_eq!(fields(head)[1], ("Set-Cookie", &b"b=2"[..]));
        assert!(fields(b"SSH-2.0-x\r\n\r\n").is_empty());
    }

    const MIXTURE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 404 Not Found\r\n\
        Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\nHTTP/1.0 200 OK\r\n\r\nto the end";

    proptest! {
        #[test]
        fn torn_or_whole_it_is_the_same(
            at in 0..MIXTURE.len(),
            length in 0..20usize,
            more in "[\r\n0-9a-f:; HTP/.]{0,8}",
            size in 1..40usize,
        ) {
            let end = (at + length).min(MIXTURE.len());
            let text = format!("{}{more}{}", &MIXTURE[..at], &MIXTURE[end..]);
            let seen = |size| read(text.as_bytes(), size).map(|(statuses, content, ends, _)| (statuses, content, ends));
            prop_assert_eq!(seen(text.len().max(1)), seen(size));
        }
    }
}
