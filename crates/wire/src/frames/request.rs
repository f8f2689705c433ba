//! REQUEST: what the server asks a worker to run.

use super::{
    FLAG_AGAIN, FLAG_BODY_DESCRIPTOR, FLAG_BODY_INLINE, FLAG_MAY_DECLINE, FLAG_NO_IMAGE, FLAG_OFFERED,
    FLAG_ORDINARY, FrameError, FrameHeader, HEADER_BYTES, INLINE_BODY_MAX, KIND_REQUEST, REQUEST_BYTES,
    RequestTooLong, VARIABLE_BYTES, VARIABLES_MAX, u16_at, u32_at, u64_at,
};

/// Where the content of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// The request has none.
    None,
    /// These bytes, at most [`INLINE_BODY_MAX`].
    Inline(&'a [u8]),
    /// A file with this many bytes, from its start; its descriptor is sent with the frame's first byte.
    Descriptor(u64),
}

/// Appends one REQUEST frame to a buffer: `begin`, `variable`..., `finish`.
///
/// ```
/// use millrace_wire::frames::{Body, RequestFrame};
/// let mut out = Vec::new();
/// let mut request = RequestFrame::begin(&mut out, 1);
/// request.variable(b"REQUEST_METHOD", b"GET");
/// request.finish(Body::None).unwrap();
/// ```
#[derive(Debug)]
pub struct RequestFrame<'b> {
    out: &'b mut Vec<u8>,
    /// Where the frame starts in `out`.
    start: usize,
    variables: u32,
    /// A name or value does not fit into its length field.
    too_long: bool,
    /// Those that do not follow from the content.
    flags: u8,
}

impl<'b> RequestFrame<'b> {
    /// Starts the frame. `sequence` grows with each request of a worker, from 1.
    pub fn begin(out: &'b mut Vec<u8>, sequence: u64) -> RequestFrame<'b> {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES + REQUEST_BYTES]);
        out[start + HEADER_BYTES..start + HEADER_BYTES + 8].copy_from_slice(&sequence.to_ne_bytes());
        RequestFrame { out, start, variables: 0, too_long: false, flags: 0 }
    }

    /// Says what may become of it where workers have images: [`FLAG_ORDINARY`], [`FLAG_AGAIN`], [`FLAG_MAY_DECLINE`], [`FLAG_NO_IMAGE`].
    pub fn flag(&mut self, flag: u8) {
        self.flags |= flag;
    }

    /// Adds a variable of `$_SERVER`. Neither name nor value may contain NUL: the worker drops such a variable.
    #[inline]
    pub fn variable(&mut self, name: &[u8], value: &[u8]) {
        self.parts(name, &[value]);
    }

    /// Adds a variable whose value is the concatenation of the parts.
    pub fn parts(&mut self, name: &[u8], value: &[&[u8]]) {
        if self.entry(name.len(), value.iter().map(|part| part.len()).sum()) {
            self.out.extend_from_slice(name);
            self.value(value);
        }
    }

    /// Adds a request field as RFC 3875 4.1.18 names it: `Accept-Language` becomes `HTTP_ACCEPT_LANGUAGE`. `Proxy` is
    /// dropped: PHP code and libraries use HTTP_PROXY as the proxy of their own requests ("httpoxy").
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        if name.eq_ignore_ascii_case(b"proxy") || !self.entry(name.len() + 5, value.len()) {
            return;
        }
        self.out.extend_from_slice(b"HTTP_");
        self.out.extend(name.iter().map(|&byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
        self.value(&[value]);
    }

    /// Completes the frame with its content. After an error the buffer contains nothing of it.
    pub fn finish(self, body: Body<'_>) -> Result<(), RequestTooLong> {
        let variables_bytes = self.out.len() - self.start - HEADER_BYTES - REQUEST_BYTES;
        let (flags, length) = match body {
            Body::None => (0, 0),
            Body::Inline(bytes) => (FLAG_BODY_INLINE, bytes.len() as u64),
            Body::Descriptor(length) => (FLAG_BODY_DESCRIPTOR, length),
        };
        let flags = flags | self.flags;
        let inline = if let Body::Inline(bytes) = body { bytes } else { &[] };
        if self.too_long || variables_bytes > VARIABLES_MAX || inline.len() > INLINE_BODY_MAX {
            self.out.truncate(self.start);
            return Err(RequestTooLong);
        }
        let payload = (REQUEST_BYTES + variables_bytes + inline.len()) as u32;
        let header = FrameHeader { length: payload, kind: KIND_REQUEST, flags, extra: 0 };
        let head = &mut self.out[self.start..];
        head[..HEADER_BYTES].copy_from_slice(&header.encode());
        let fixed = &mut head[HEADER_BYTES..];
        fixed[8..16].copy_from_slice(&length.to_ne_bytes());
        fixed[16..20].copy_from_slice(&self.variables.to_ne_bytes());
        fixed[20..24].copy_from_slice(&(variables_bytes as u32).to_ne_bytes());
        self.out.extend_from_slice(inline);
        Ok(())
    }

    /// Writes the lengths of a variable; false if they can't be encoded.
    fn entry(&mut self, name: usize, value: usize) -> bool {
        let (Ok(name), Ok(value)) = (u16::try_from(name), u32::try_from(value)) else {
            self.too_long = true;
            return false;
        };
        let mut head = [0; VARIABLE_BYTES];
        head[..2].copy_from_slice(&name.to_ne_bytes());
        head[4..].copy_from_slice(&value.to_ne_bytes());
        self.out.extend_from_slice(&head);
        self.variables += 1;
        true
    }

    /// Ends the name and writes the value.
    fn value(&mut self, parts: &[&[u8]]) {
        self.out.push(0);
        for part in parts {
            self.out.extend_from_slice(part);
        }
        self.out.push(0);
    }
}

/// Gives a finished REQUEST another number; `offered`: it is sent ahead ([`FLAG_OFFERED`]).
///
/// # Panics
/// There is no complete frame at the start of `frame`.
pub fn number(frame: &mut [u8], sequence: u64, offered: bool) {
    let flags = &mut frame[5];
    *flags = (*flags & !FLAG_OFFERED) | if offered { FLAG_OFFERED } else { 0 };
    frame[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(&sequence.to_ne_bytes());
}

/// Adds flags to a complete REQUEST ([`RequestFrame::flag`]).
pub fn add_flags(frame: &mut [u8], flags: u8) {
    frame[5] |= flags;
}

/// A REQUEST as a worker sees it: for tests and for stand-ins of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedFrame<'a> {
    /// The request's number.
    pub sequence: u64,
    /// It was sent ahead ([`FLAG_OFFERED`]).
    pub offered: bool,
    /// What it says of images ([`RequestFrame::flag`]).
    pub flags: u8,
    /// Names and values in the order sent.
    pub variables: Vec<(&'a [u8], &'a [u8])>,
    /// Where the body is.
    pub body: Body<'a>,
}

impl<'a> ParsedFrame<'a> {
    /// The REQUEST at the start of `bytes` and its length in bytes; `None` while it is incomplete.
    pub fn decode(bytes: &'a [u8]) -> Result<Option<(ParsedFrame<'a>, usize)>, FrameError> {
        let Some(header) = FrameHeader::decode(bytes) else { return Ok(None) };
        if header.kind != KIND_REQUEST {
            return Err(FrameError::Kind(header.kind));
        }
        let broken = FrameError::Length { kind: header.kind, length: header.length };
        let length = header.length as usize;
        if !(REQUEST_BYTES..=REQUEST_BYTES + VARIABLES_MAX + INLINE_BODY_MAX).contains(&length) {
            return Err(broken);
        }
        let Some(payload) = bytes.get(HEADER_BYTES..HEADER_BYTES + length) else { return Ok(None) };
        let request = ParsedFrame::payload(payload, header.flags).ok_or(broken)?;
        Ok(Some((request, HEADER_BYTES + length)))
    }

    fn payload(payload: &'a [u8], flags: u8) -> Option<ParsedFrame<'a>> {
        let sequence = u64_at(payload, 0)?;
        let body_length = u64_at(payload, 8)?;
        let count = u32_at(payload, 16)?;
        let variables_bytes = u32_at(payload, 20)? as usize;
        let rest = &payload[REQUEST_BYTES..];
        let (mut packed, inline) = rest.split_at_checked(variables_bytes)?;
        let mut variables = Vec::new();
        for _ in 0..count {
            let name_length = u16_at(packed, 0)? as usize;
            let value_length = u32_at(packed, 4)? as usize;
            let name = packed.get(VARIABLE_BYTES..VARIABLE_BYTES + name_length)?;
            let at = VARIABLE_BYTES + name_length + 1;
            let value = packed.get(at..at + value_length)?;
            packed = packed.get(at + value_length + 1..)?;
            variables.push((name, value));
        }
        let body = match flags & (FLAG_BODY_INLINE | FLAG_BODY_DESCRIPTOR) {
            0 if body_length == 0 && inline.is_empty() => Body::None,
            FLAG_BODY_INLINE if body_length == inline.len() as u64 => Body::Inline(inline),
            FLAG_BODY_DESCRIPTOR if inline.is_empty() => Body::Descriptor(body_length),
            _ => return None,
        };
        packed.is_empty().then_some(ParsedFrame {
            sequence,
            offered: flags & FLAG_OFFERED != 0,
            flags: flags & (FLAG_ORDINARY | FLAG_AGAIN | FLAG_MAY_DECLINE | FLAG_NO_IMAGE),
            variables,
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn there_and_back(
            sequence in any::<u64>(),
            flags in any::<u8>().prop_map(|bits| bits & (FLAG_ORDINARY | FLAG_AGAIN | FLAG_MAY_DECLINE | FLAG_NO_IMAGE)),
            variables in prop::collection::vec(("[A-Z_]{1,20}", prop::collection::vec(1u8.., 0..50)), 0..20),
            body in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut out = b"before".to_vec();
            let mut request = RequestFrame::begin(&mut out, sequence);
            request.flag(flags);
            for (name, value) in &variables {
                request.variable(name.as_bytes(), value);
            }
            request.finish(Body::Inline(&body)).unwrap();
            let (parsed, used) = ParsedFrame::decode(&out[6..]).unwrap().unwrap();
            prop_assert_eq!(used, out.len() - 6);
            prop_assert_eq!((parsed.sequence, parsed.offered, parsed.flags), (sequence, false, flags));
            prop_assert_eq!(parsed.body, Body::Inline(&body));
            let expected: Vec<(&[u8], &[u8])> = variables.iter().map(|(n, v)| (n.as_bytes(), &v[..])).collect();
            prop_assert_eq!(parsed.variables, expected);
            for end in 6..out.len() {
                prop_assert_eq!(ParsedFrame::decode(&out[6..end]), Ok(None));
            }
        }

        #[test]
        fn hostile_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), length in 0u32..200) {
            let _ = ParsedFrame::decode(&bytes);
            if bytes.len() >= HEADER_BYTES {
                let header = FrameHeader { length, kind: KIND_REQUEST, flags: bytes[5], extra: 0 };
                bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
                let _ = ParsedFrame::decode(&bytes);
            }
        }
    }

    #[test]
    fn fields_are_named_as_cgi_does() {
        let mut out = Vec::new();
        let mut request = RequestFrame::begin(&mut out, 7);
        request.field(b"Accept-Language", b"de");
        request.field(b"pRoXy", b"http://evil/");
        request.parts(b"SCRIPT_FILENAME", &[b"/srv", b"/index.php"]);
        request.finish(Body::Descriptor(1 << 40)).unwrap();
        let (parsed, _) = ParsedFrame::decode(&out).unwrap().unwrap();
        let expected: [(&[u8], &[u8]); 2] =
            [(b"HTTP_ACCEPT_LANGUAGE", b"de"), (b"SCRIPT_FILENAME", b"/srv/index.php")];
        assert_eq!(parsed.variables, expected);
        assert_eq!(parsed.body, Body::Descriptor(1 << 40));
    }

    #[test]
    fn a_finished_frame_gets_another_number() {
        let mut out = Vec::new();
        RequestFrame::begin(&mut out, 1).finish(Body::Inline(b"x")).unwrap();
        for (sequence, offered) in [(7, true), (8, false)] {
            number(&mut out, sequence, offered);
            let (parsed, _) = ParsedFrame::decode(&out).unwrap().unwrap();
            assert_eq!(
                (parsed.sequence, parsed.offered, parsed.body),
                (sequence, offered, Body::Inline(b"x"))
            );
        }
    }

    #[test]
    fn what_does_not_fit_leaves_no_trace() {
        let mut out = b"x".to_vec();
        let mut request = RequestFrame::begin(&mut out, 1);
        request.variable(&[b'A'; 65536], b"");
        assert_eq!(request.finish(Body::None), Err(RequestTooLong));
        let mut request = RequestFrame::begin(&mut out, 1);
        request.variable(b"A", &vec![b'a'; VARIABLES_MAX]);
        assert_eq!(request.finish(Body::None), Err(RequestTooLong));
        let request = RequestFrame::begin(&mut out, 1);
        assert_eq!(request.finish(Body::Inline(&vec![0; INLINE_BODY_MAX + 1])), Err(RequestTooLong));
        assert_eq!(out, b"x");
    }
}
