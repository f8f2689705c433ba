//! Responses out of bytes (RFC 9112), sans-io: whatever pieces they come in.

use httparse::{EMPTY_HEADER, Status};
use millrace_wire::chunked::Decoder;

/// Fields in a head.
const MOST_FIELDS: usize = 128;
/// Bytes of a head; more is not HTTP.
pub const MOST_HEAD_BYTES: usize = 48 << 10;

/// Reads one response after the other.
///
/// ```text
///   Head --length--> Length --all--> Head        Head --neither--> ToEnd --end of the connection--> (no more)
///     \----chunked--> Chunked --last chunk--> Head
/// ```
#[derive(Debug, Default)]
pub struct Reader {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    /// So many bytes of content are to come.
    Length(u64),
    Chunked(Box<Decoder>),
    /// Content is all that comes.
    ToEnd,
}

/// A piece of a response.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// The head, whose bytes are the ones just read.
    Head(Head),
    /// Some of the content, still in its content coding.
    Content(&'a [u8]),
    /// The response is complete.
    End,
}

/// What of a head says how the rest is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// Whether another request may follow on this connection.
    pub keep_alive: bool,
    /// Bytes of content, if it says so.
    pub length: Option<u64>,
}

/// Why it is not HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad(pub &'static str);

impl Reader {
    /// Reads from the start of `input`: how many bytes were taken, and what they are. Nothing taken and no item: more is
    /// needed, and the same bytes again in front of it.
    ///
    /// # Errors
    /// [`Bad`]: it is not HTTP.
    pub fn read<'a>(
        &mut self,
        input: &'a [u8],
        is_head_request: bool,
    ) -> Result<(usize, Option<Item<'a>>), Bad> {
        match &mut self.state {
            State::Head => self.head(input, is_head_request),
            State::Length(0) => {
                self.state = State::Head;
                Ok((0, Some(Item::End)))
            }
            State::Length(left) => {
                let n = (*left).min(input.len() as u64);
                *left -= n;
                Ok((n as usize, (n > 0).then(|| Item::Content(&input[..n as usize]))))
            }
            State::Chunked(decoder) => {
                if decoder.is_done() {
                    self.state = State::Head;
                    return Ok((0, Some(Item::End)));
                }
                let (taken, content) = decoder.decode(input).map_err(|bad| Bad(bad.0))?;
                if taken == 0 || content.is_empty() && !decoder.is_done() {
                    return Ok((taken, None));
                }
                Ok((taken, Some(Item::Content(content))))
            }
            State::ToEnd => Ok((input.len(), (!input.is_empty()).then_some(Item::Content(input)))),
        }
    }

    /// Whether the end of the connection is the end of the response, rather than cutting it short.
    pub fn may_end(&self) -> bool {
        matches!(self.state, State::ToEnd)
    }

    /// Whether a response has begun, as far as a whole head.
    pub fn is_within(&self) -> bool {
        !matches!(self.state, State::Head)
    }

    fn head<'a>(&mut self, input: &'a [u8], is_head_request: bool) -> Result<(usize, Option<Item<'a>>), Bad> {
        let mut fields = [EMPTY_HEADER; MOST_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let bytes = match response.parse(input) {
            Ok(Status::Complete(bytes)) => bytes,
            Ok(Status::Partial) if input.len() > MOST_HEAD_BYTES => {
                return Err(Bad("the header section is too long"));
            }
            Ok(Status::Partial) => return Ok((0, None)),
            Err(_) => return Err(Bad("the header section is malformed")),
        };
        let status = response.code.unwrap_or(0);
        if (100..200).contains(&status) && status != 101 {
            return Ok((bytes, None));
        }
        if !(101..=599).contains(&status) {
            return Err(Bad("the status code is not in 100-599"));
        }
        let framing = Framing::of(response.version == Some(1), response.headers)?;
        let no_content = is_head_request || status == 204 || status == 304;
        self.state = match (no_content, framing.chunked, framing.length) {
            (true, ..) => State::Length(0),
            (_, true, _) => State::Chunked(Box::default()),
            (_, _, Some(length)) => State::Length(length),
            _ => State::ToEnd,
        };
        let keep_alive = framing.keep_alive && !matches!(self.state, State::ToEnd);
        let length = if no_content || framing.chunked { None } else { framing.length };
        Ok((bytes, Some(Item::Head(Head { status, keep_alive, length }))))
    }
}

/// What the fields of a head say of its content and its connection.
struct Framing {
    length: Option<u64>,
    chunked: bool,
    keep_alive: bool,
}

impl Framing {
    fn of(is_http11: bool, fields: &[httparse::Header<'_>]) -> Result<Framing, Bad> {
        let mut framing = Framing { length: None, chunked: false, keep_alive: is_http11 };
        for field in fields {
            // Compared only where the length fits: this runs for every field of every response.
            match field.name.len() {
                14 if field.name.eq_ignore_ascii_case("content-length") => {
                    let length = decimal(field.value).ok_or(Bad("Content-Length is not a number"))?;
                    if framing.length.is_some_and(|other| other != length) {
                        return Err(Bad("Content-Length has two different values"));
                    }
                    framing.length = Some(length);
                }
                17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                    if !field.value.eq_ignore_ascii_case(b"chunked") {
                        return Err(Bad("the transfer coding is not chunked"));
                    }
                    framing.chunked = true;
                }
                10 if field.name.eq_ignore_ascii_case("connection") => {
                    let value = String::from_utf8_lossy(field.value).to_ascii_lowercase();
                    if value.split(',').any(|word| word.trim() == "close") {
                        framing.keep_alive = false;
                    } else if value.split(',').any(|word| word.trim() == "keep-alive") {
                        framing.keep_alive = true;
                    }
                }
                _ => {}
            }
        }
        if framing.chunked && framing.length.is_some() {
            return Err(Bad("both Content-Length and Transfer-Encoding are present"));
        }
        Ok(framing)
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let digits = digits.trim_ascii();
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// The values of a head's fields of this name, in order.
pub fn fields<'a>(head: &'a [u8], name: &str) -> Vec<&'a [u8]> {
    let mut fields = [EMPTY_HEADER; MOST_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    if response.parse(head).is_err() {
        return Vec::new();
    }
    response
        .headers
        .iter()
        .filter(|field| field.name.eq_ignore_ascii_case(name))
        .map(|field| field.value)
        .collect()
}

/// The value of a head's first field of this name, as text.
pub fn field(head: &[u8], name: &str) -> Option<String> {
    fields(head, name).first().map(|value| String::from_utf8_lossy(value).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads `bytes` in pieces of `size`: statuses, contents, completed responses.
    fn read(bytes: &[u8], size: usize) -> Result<(Vec<u16>, Vec<u8>, usize, Reader), Bad> {
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
    }

    #[test]
    fn fields_are_found_whatever_their_case() {
        let head = b"HTTP/1.1 200 OK\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n";
        assert_eq!(fields(head, "Set-Cookie"), [b"a=1", b"b=2"]);
        assert_eq!(field(head, "ETag"), None);
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
