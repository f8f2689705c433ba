//! What a worker writes: HEAD, BODY, END, READY, LOG, NOTE, EARLY, HANDLER. [`FrameDecoder`] reads it; the functions write it, for stand-ins.

use std::ops::RangeInclusive;

use super::{
    BODY_MAX, END_BYTES, FLAG_ABORTED, FLAG_DECLINED, FLAG_EXITING, FLAG_FAILED, FLAG_MISFIT, FLAG_READY,
    FLAG_REPEATABLE, FLAG_REWOUND, FrameError, FrameHeader, HANDLER_MAX, HEAD_MAX, HEADER_BYTES, KIND_BODY,
    KIND_EARLY, KIND_END, KIND_HANDLER, KIND_HEAD, KIND_LOG, KIND_NOTE, KIND_READY, LOG_MAX, NOTE_CART,
    NOTE_CODE, NOTE_CONTROL, NOTE_COOKIES, NOTE_FIELDS, NOTE_MAX, NOTE_ORIGIN, NOTE_PURGE, NOTE_TAG,
    NOTE_VISITOR, u16_at, u32_at, u64_at,
};

/// One frame of a worker, or a piece of a BODY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Fields that the client gets with 103 (RFC 8297), before the head, any number of times.
    Early(WorkerHead<'a>),
    /// Status and fields; once, at the start of a response.
    Head(WorkerHead<'a>),
    /// A piece of the content, never empty. An incomplete BODY frame is returned in pieces.
    Body(&'a [u8]),
    /// The response is complete. Without `ready` the script continues in the background, and READY follows.
    End(EndFrame),
    /// The background part has ended: the worker takes the next request, or ends if `exiting`.
    Ready(EndFrame),
    /// A message for the error log, at any time.
    Log {
        /// syslog's: 0 emergency to 7 debug.
        priority: u16,
        /// The message, as PHP wrote it.
        message: &'a [u8],
    },
    /// A script's note to the page cache, at any time from REQUEST to END or READY.
    Note {
        /// Its subject.
        kind: NoteKind,
        /// In the grammar of the response field of that name; never empty, without NUL, CR and LF.
        text: &'a [u8],
    },
    /// From a persistent worker, before its first request: its script has reached its loop, or why it has ended
    /// before.
    Handler(Result<(), &'a [u8]>),
}

/// The subject of a NOTE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoteKind {
    /// Tags of the page: as `Millrace-Tag`. All notes and fields together count.
    Tag,
    /// What to purge: as `Millrace-Purge`. Sent at the call, and again before END and before READY: a page that was
    /// made in between may contain old data.
    Purge,
    /// How the page may be cached: as `Millrace-Cache-Control`. The last one of a response counts.
    Control,
    /// What is known about the visitor. The last one of a run is the worker's own, before END or READY.
    Visitor,
    /// Which call of a script forbids to store its page, for people.
    Origin,
    /// Which files scripts of the site consist of.
    Code,
    /// Which cookies the script has looked for.
    Cookies,
    /// Which fields of the request the script has read.
    Fields,
    /// Whether the page depends on what is in its visitor's cart.
    Cart,
}

/// Status and fields of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerHead<'a> {
    /// 200 to 999; 103 of [`Frame::Early`].
    pub status: u16,
    /// Reason that the script set with the status line; if empty, use the standard one.
    pub reason: &'a [u8],
    /// Number of fields.
    pub count: usize,
    /// Checked when the frame was read: `count` entries of length and text.
    packed: &'a [u8],
}

/// Payload and flags of END and READY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndFrame {
    /// The worker can take the next request.
    pub ready: bool,
    /// The worker exits and takes no more requests.
    pub exiting: bool,
    /// A fatal error ended the script.
    pub failed: bool,
    /// The script was aborted because its client had gone.
    pub aborted: bool,
    /// The request began in an image of its boot.
    pub rewound: bool,
    /// As far as the worker knows, the request has changed nothing outside of its process.
    pub repeatable: bool,
    /// The request does not fit the image that the worker had.
    pub misfit: bool,
    /// So the worker has not run it ([`FLAG_DECLINED`]).
    pub declined: bool,
    /// Peak memory of PHP's allocator in this request, bytes.
    pub peak_bytes: u64,
    /// Class of the image that it began in ([`FLAG_REWOUND`]), otherwise 0.
    pub class: u64,
}

/// The result of [`FrameDecoder::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameStep<'a> {
    /// A frame, and how many bytes of the input it took.
    Frame(Frame<'a>, usize),
    /// The input contains no complete frame; at least one more byte is needed, this many in total are best.
    Partial(usize),
}

/// Reads the frames of one worker in sequence, from any buffer.
///
/// States: between responses (only LOG may come until [`FrameDecoder::begin`]), before the head, inside the content,
/// in the background (after an END that was not ready: LOG and NOTE, then READY).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameDecoder {
    state: AnswerState,
    /// Remaining bytes of the current BODY frame.
    body_left: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AnswerState {
    #[default]
    Idle,
    Waiting,
    Content,
    Background,
}

impl FrameDecoder {
    /// A request was sent: a response may come. The worker must have been ready.
    pub fn begin(&mut self) {
        self.state = AnswerState::Waiting;
        self.body_left = 0;
    }

    /// Whether the worker is in the middle of a response: a REQUEST was sent and END has not come.
    pub fn answering(&self) -> bool {
        matches!(self.state, AnswerState::Waiting | AnswerState::Content)
    }

    /// The next frame of `input`, which starts where the last frame ended. After an error the worker must be killed:
    /// the following bytes have no meaning.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<FrameStep<'a>, FrameError> {
        if self.body_left > 0 {
            return Ok(self.piece(input, 0));
        }
        let Some(header) = FrameHeader::decode(input) else { return Ok(FrameStep::Partial(HEADER_BYTES)) };
        self.check(header)?;
        let total = HEADER_BYTES + header.length as usize;
        if header.kind == KIND_BODY {
            self.body_left = header.length as usize;
            return Ok(self.piece(&input[HEADER_BYTES..], HEADER_BYTES));
        }
        let Some(payload) = input.get(HEADER_BYTES..total) else { return Ok(FrameStep::Partial(total)) };
        let frame = match header.kind {
            KIND_EARLY => Frame::Early(WorkerHead::decode(header, payload, 103..=103)?),
            KIND_HEAD => {
                let head = WorkerHead::decode(header, payload, 200..=999)?;
                self.state = AnswerState::Content;
                Frame::Head(head)
            }
            KIND_END => {
                let end = EndFrame::decode(header, payload)?;
                self.state =
                    if end.ready || end.exiting { AnswerState::Idle } else { AnswerState::Background };
                Frame::End(end)
            }
            KIND_READY => {
                self.state = AnswerState::Idle;
                Frame::Ready(EndFrame::decode(header, payload)?)
            }
            KIND_NOTE => note_frame(header, payload)?,
            KIND_HANDLER if header.flags & FLAG_READY != 0 => Frame::Handler(Ok(())),
            KIND_HANDLER => Frame::Handler(Err(payload)),
            _ => Frame::Log { priority: header.extra, message: payload },
        };
        Ok(FrameStep::Frame(frame, total))
    }

    /// The available part of the current BODY frame; `header` bytes preceded it.
    fn piece<'a>(&mut self, input: &'a [u8], header: usize) -> FrameStep<'a> {
        let length = input.len().min(self.body_left);
        if length == 0 {
            // The header is read again with the first byte of the content, so it needs no state.
            self.body_left = if header > 0 { 0 } else { self.body_left };
            return FrameStep::Partial(header + 1);
        }
        self.body_left -= length;
        FrameStep::Frame(Frame::Body(&input[..length]), header + length)
    }

    /// Whether a frame of this kind and length may come now.
    fn check(&self, header: FrameHeader) -> Result<(), FrameError> {
        let (allowed, lengths) = match header.kind {
            KIND_HEAD | KIND_EARLY => (self.state == AnswerState::Waiting, 4..=HEAD_MAX),
            KIND_BODY => (self.state == AnswerState::Content, 1..=BODY_MAX),
            KIND_END => {
                let declines = header.flags & FLAG_DECLINED != 0;
                let state = if declines { AnswerState::Waiting } else { AnswerState::Content };
                (self.state == state, END_BYTES..=END_BYTES)
            }
            KIND_READY => (self.state == AnswerState::Background, END_BYTES..=END_BYTES),
            KIND_LOG => (true, 0..=LOG_MAX),
            KIND_NOTE => (self.state != AnswerState::Idle, 1..=NOTE_MAX),
            KIND_HANDLER => (self.state == AnswerState::Idle, 0..=HANDLER_MAX),
            kind => return Err(FrameError::Kind(kind)),
        };
        if !allowed {
            return Err(FrameError::Order(header.kind));
        }
        if !lengths.contains(&(header.length as usize)) {
            return Err(FrameError::Length { kind: header.kind, length: header.length });
        }
        Ok(())
    }
}

impl<'a> WorkerHead<'a> {
    fn decode(
        header: FrameHeader,
        payload: &'a [u8],
        codes: RangeInclusive<u16>,
    ) -> Result<WorkerHead<'a>, FrameError> {
        if !codes.contains(&header.extra) {
            return Err(FrameError::Status(header.extra));
        }
        let broken = FrameError::Length { kind: header.kind, length: header.length };
        let (reason, count, packed) = WorkerHead::split(payload).ok_or(broken)?;
        if reason.iter().any(|&byte| byte < 0x20 || byte == 0x7f) {
            return Err(FrameError::Field);
        }
        let mut rest = packed;
        for _ in 0..count {
            let length = u32_at(rest, 0).ok_or(broken)? as usize;
            let field = rest.get(4..).and_then(|rest| rest.get(..length)).ok_or(broken)?;
            if !legal(field) {
                return Err(FrameError::Field);
            }
            rest = &rest[4 + length..];
        }
        if !rest.is_empty() {
            return Err(broken);
        }
        Ok(WorkerHead { status: header.extra, reason, count, packed })
    }

    fn split(payload: &'a [u8]) -> Option<(&'a [u8], usize, &'a [u8])> {
        let reason_length = u16_at(payload, 0)? as usize;
        let reason = payload.get(2..2 + reason_length)?;
        let count = u16_at(payload, 2 + reason_length)? as usize;
        Some((reason, count, &payload[4 + reason_length..]))
    }

    /// Names and values of the fields in order, without white space around the value.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = self.packed;
        std::iter::from_fn(move || {
            let length = u32_at(rest, 0)? as usize;
            let field = rest.get(4..4 + length)?;
            rest = &rest[4 + length..];
            let colon = memchr::memchr(b':', field)?;
            Some((&field[..colon], field[colon + 1..].trim_ascii()))
        })
    }
}

/// Whether `Name: value` can be sent: RFC 9110 5.1 and 5.5, without the control characters besides tab.
fn legal(field: &[u8]) -> bool {
    let Some(colon) = memchr::memchr(b':', field) else { return false };
    let (name, value) = field.split_at(colon);
    !name.is_empty()
        && name.iter().all(|&byte| token(byte))
        && !value.iter().any(|&byte| matches!(byte, 0 | b'\r' | b'\n'))
}

/// RFC 9110 5.6.2.
fn token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn note_frame(header: FrameHeader, text: &[u8]) -> Result<Frame<'_>, FrameError> {
    let kind = NoteKind::of(header.extra).ok_or(FrameError::Note(header.extra))?;
    if text.iter().any(|&byte| matches!(byte, 0 | b'\r' | b'\n')) {
        return Err(FrameError::NoteText);
    }
    Ok(Frame::Note { kind, text })
}

impl NoteKind {
    fn of(extra: u16) -> Option<NoteKind> {
        match extra {
            NOTE_TAG => Some(NoteKind::Tag),
            NOTE_PURGE => Some(NoteKind::Purge),
            NOTE_CONTROL => Some(NoteKind::Control),
            NOTE_VISITOR => Some(NoteKind::Visitor),
            NOTE_ORIGIN => Some(NoteKind::Origin),
            NOTE_CODE => Some(NoteKind::Code),
            NOTE_COOKIES => Some(NoteKind::Cookies),
            NOTE_FIELDS => Some(NoteKind::Fields),
            NOTE_CART => Some(NoteKind::Cart),
            _ => None,
        }
    }

    fn extra(self) -> u16 {
        match self {
            NoteKind::Tag => NOTE_TAG,
            NoteKind::Purge => NOTE_PURGE,
            NoteKind::Control => NOTE_CONTROL,
            NoteKind::Visitor => NOTE_VISITOR,
            NoteKind::Origin => NOTE_ORIGIN,
            NoteKind::Code => NOTE_CODE,
            NoteKind::Cookies => NOTE_COOKIES,
            NoteKind::Fields => NOTE_FIELDS,
            NoteKind::Cart => NOTE_CART,
        }
    }
}

impl EndFrame {
    fn decode(header: FrameHeader, payload: &[u8]) -> Result<EndFrame, FrameError> {
        let broken = FrameError::Length { kind: header.kind, length: header.length };
        Ok(EndFrame {
            ready: header.flags & FLAG_READY != 0,
            exiting: header.flags & FLAG_EXITING != 0,
            failed: header.flags & FLAG_FAILED != 0,
            aborted: header.flags & FLAG_ABORTED != 0,
            rewound: header.flags & FLAG_REWOUND != 0,
            repeatable: header.flags & FLAG_REPEATABLE != 0,
            misfit: header.flags & FLAG_MISFIT != 0,
            declined: header.flags & FLAG_DECLINED != 0,
            peak_bytes: u64_at(payload, 0).ok_or(broken)?,
            class: u64_at(payload, 8).ok_or(broken)?,
        })
    }

    fn flags(self) -> u8 {
        let flag = |set, bit| if set { bit } else { 0 };
        flag(self.ready, FLAG_READY)
            | flag(self.exiting, FLAG_EXITING)
            | flag(self.failed, FLAG_FAILED)
            | flag(self.aborted, FLAG_ABORTED)
            | flag(self.rewound, FLAG_REWOUND)
            | flag(self.repeatable, FLAG_REPEATABLE)
            | flag(self.misfit, FLAG_MISFIT)
            | flag(self.declined, FLAG_DECLINED)
    }
}

/// Appends a HEAD. Fields are `Name: value`.
pub fn head(out: &mut Vec<u8>, status: u16, reason: &str, fields: &[&str]) {
    fields_frame(out, KIND_HEAD, status, reason, fields);
}

/// Appends an EARLY. Fields are `Name: value`.
pub fn early(out: &mut Vec<u8>, fields: &[&str]) {
    fields_frame(out, KIND_EARLY, 103, "", fields);
}

fn fields_frame(out: &mut Vec<u8>, kind: u8, status: u16, reason: &str, fields: &[&str]) {
    let length = 4 + reason.len() + fields.iter().map(|field| 4 + field.len()).sum::<usize>();
    frame(out, kind, 0, status, length);
    out.extend_from_slice(&(reason.len() as u16).to_ne_bytes());
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(&(fields.len() as u16).to_ne_bytes());
    for field in fields {
        out.extend_from_slice(&(field.len() as u32).to_ne_bytes());
        out.extend_from_slice(field.as_bytes());
    }
}

/// Appends a HANDLER: a persistent worker's script has reached its loop, or why it has ended before.
pub fn handler(out: &mut Vec<u8>, booted: Result<(), &str>) {
    let (flags, message) = match booted {
        Ok(()) => (FLAG_READY, ""),
        Err(why) => (FLAG_FAILED, why),
    };
    frame(out, KIND_HANDLER, flags, 0, message.len());
    out.extend_from_slice(message.as_bytes());
}

/// Appends BODY frames with `content`; none if it is empty.
pub fn body(out: &mut Vec<u8>, content: &[u8]) {
    for piece in content.chunks(BODY_MAX) {
        frame(out, KIND_BODY, 0, 0, piece.len());
        out.extend_from_slice(piece);
    }
}

/// Appends an END.
pub fn end(out: &mut Vec<u8>, end: EndFrame) {
    end_or_ready(out, KIND_END, end);
}

/// Appends a READY.
pub fn ready(out: &mut Vec<u8>, end: EndFrame) {
    end_or_ready(out, KIND_READY, end);
}

/// Appends a LOG; the message is cut at [`LOG_MAX`].
pub fn log(out: &mut Vec<u8>, priority: u16, message: &[u8]) {
    let message = &message[..message.len().min(LOG_MAX)];
    frame(out, KIND_LOG, 0, priority, message.len());
    out.extend_from_slice(message);
}

/// Appends a NOTE.
pub fn note(out: &mut Vec<u8>, kind: NoteKind, text: &[u8]) {
    frame(out, KIND_NOTE, 0, kind.extra(), text.len());
    out.extend_from_slice(text);
}

fn end_or_ready(out: &mut Vec<u8>, kind: u8, end: EndFrame) {
    frame(out, kind, end.flags(), 0, END_BYTES);
    out.extend_from_slice(&end.peak_bytes.to_ne_bytes());
    out.extend_from_slice(&end.class.to_ne_bytes());
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, extra: u16, length: usize) {
    out.extend_from_slice(&FrameHeader { length: length as u32, kind, flags, extra }.encode());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All frames of `input`, passed to the decoder in pieces of `step` bytes; pieces of content are joined.
    fn decode(input: &[u8], step: usize) -> Result<(Vec<String>, Vec<u8>), FrameError> {
        let mut decoder = FrameDecoder::default();
        decoder.begin();
        let (mut seen, mut content) = (Vec::new(), Vec::new());
        let (mut at, mut end) = (0, 0);
        loop {
            match decoder.next(&input[at..end])? {
                FrameStep::Frame(frame, used) => {
                    at += used;
                    assert!(at <= end && used > 0);
                    if let Frame::Body(piece) = frame {
                        content.extend_from_slice(piece)
                    } else {
                        seen.push(format!("{frame:?}"))
                    }
                }
                FrameStep::Partial(needed) => {
                    assert!(needed > end - at);
                    if end == input.len() {
                        return Ok((seen, content));
                    }
                    end = input.len().min(end + step);
                }
            }
        }
    }

    fn example() -> Vec<u8> {
        let mut out = Vec::new();
        early(&mut out, &["Link: </a.css>; rel=preload; as=style"]);
        log(&mut out, 3, b"PHP Warning:  x");
        note(&mut out, NoteKind::Tag, b"post-1, front");
        head(&mut out, 404, "Nope", &["Set-Cookie: a=1", "Set-Cookie:b=2 ", "X-Empty:"]);
        body(&mut out, b"Hello");
        log(&mut out, 5, b"");
        body(&mut out, b" World");
        end(&mut out, EndFrame { failed: true, peak_bytes: 1, ..EndFrame::default() });
        log(&mut out, 3, b"late");
        note(&mut out, NoteKind::Purge, b"hard, post-1");
        ready(&mut out, EndFrame { ready: true, ..EndFrame::default() });
        out
    }

    #[test]
    fn an_answer_in_any_pieces() {
        let input = example();
        let whole = decode(&input, input.len()).unwrap();
        assert_eq!(whole.1, b"Hello World");
        assert_eq!(whole.0.len(), 9);
        for step in 1..input.len() {
            assert_eq!(decode(&input, step).unwrap(), whole);
        }
    }

    #[test]
    fn fields_are_split_and_trimmed() {
        let mut out = Vec::new();
        head(&mut out, 200, "", &["A: b: c", "Set-Cookie:b=2 ", "X-Empty:"]);
        let mut decoder = FrameDecoder::default();
        decoder.begin();
        let FrameStep::Frame(Frame::Head(head), used) = decoder.next(&out).unwrap() else {
            panic!("no head")
        };
        assert_eq!((used, head.status, head.reason, head.count), (out.len(), 200, &b""[..], 3));
        let fields: Vec<_> = head.fields().collect();
        let expected: [(&[u8], &[u8]); 3] = [(b"A", b"b: c"), (b"Set-Cookie", b"b=2"), (b"X-Empty", b"")];
        assert_eq!(fields, expected);
    }

    #[test]
    fn order_and_content_are_checked() {
        let one = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            decode(&out, out.len()).unwrap_err()
        };
        assert_eq!(one(&|out| body(out, b"x")), FrameError::Order(KIND_BODY));
        assert_eq!(one(&|out| end(out, EndFrame::default())), FrameError::Order(KIND_END));
        assert_eq!(one(&|out| ready(out, EndFrame::default())), FrameError::Order(KIND_READY));
        let late = |out: &mut Vec<u8>| {
            head(out, 200, "", &[]);
            end(out, EndFrame { declined: true, ..EndFrame::default() });
        };
        assert_eq!(one(&late), FrameError::Order(KIND_END));
        assert_eq!(one(&|out| head(out, 100, "", &[])), FrameError::Status(100));
        assert_eq!(one(&|out| fields_frame(out, KIND_EARLY, 200, "", &[])), FrameError::Status(200));
        let late = |out: &mut Vec<u8>| {
            head(out, 200, "", &[]);
            early(out, &["Link: </a>"]);
        };
        assert_eq!(one(&late), FrameError::Order(KIND_EARLY));
        assert_eq!(one(&|out| head(out, 200, "a\r\nb", &[])), FrameError::Field);
        for bad in ["no colon", ": x", "a b: x", "a: b\nc: d", "a: b\0"] {
            assert_eq!(one(&|out| head(out, 200, "", &[bad])), FrameError::Field, "{bad:?}");
        }
        let twice = |out: &mut Vec<u8>| {
            head(out, 200, "", &[]);
            head(out, 200, "", &[]);
        };
        assert_eq!(one(&twice), FrameError::Order(KIND_HEAD));
        let after = |out: &mut Vec<u8>| {
            head(out, 200, "", &[]);
            end(out, EndFrame { ready: true, ..EndFrame::default() });
            body(out, b"x");
        };
        assert_eq!(one(&after), FrameError::Order(KIND_BODY));
        assert_eq!(one(&|out| frame(out, 99, 0, 0, 0)), FrameError::Kind(99));
        let length = BODY_MAX as u32 + 1;
        let long = |out: &mut Vec<u8>| {
            head(out, 200, "", &[]);
            frame(out, KIND_BODY, 0, 0, length as usize);
        };
        assert_eq!(one(&long), FrameError::Length { kind: KIND_BODY, length });
    }

    #[test]
    fn a_boot_is_told_before_the_first_request() {
        let mut out = Vec::new();
        handler(&mut out, Ok(()));
        handler(&mut out, Err("no"));
        let mut decoder = FrameDecoder::default();
        let FrameStep::Frame(first, used) = decoder.next(&out).unwrap() else { panic!("no frame") };
        assert_eq!(first, Frame::Handler(Ok(())));
        let FrameStep::Frame(second, _) = decoder.next(&out[used..]).unwrap() else { panic!("no frame") };
        assert_eq!(second, Frame::Handler(Err(b"no")));
        decoder.begin();
        assert_eq!(decoder.next(&out), Err(FrameError::Order(KIND_HANDLER)));
    }

    #[test]
    fn notes_are_checked() {
        let one = |before: &dyn Fn(&mut Vec<u8>), extra: u16, text: &[u8]| {
            let mut out = Vec::new();
            before(&mut out);
            frame(&mut out, KIND_NOTE, 0, extra, text.len());
            out.extend_from_slice(text);
            decode(&out, out.len())
        };
        let nothing = |_: &mut Vec<u8>| ();
        let ended = |ready: bool| {
            move |out: &mut Vec<u8>| {
                head(out, 200, "", &[]);
                end(out, EndFrame { ready, ..EndFrame::default() });
            }
        };
        for (extra, kind) in [
            (1, "Tag"),
            (2, "Purge"),
            (3, "Control"),
            (4, "Visitor"),
            (5, "Origin"),
            (6, "Code"),
            (7, "Cookies"),
            (8, "Fields"),
            (9, "Cart"),
        ] {
            for seen in [one(&nothing, extra, b"a").unwrap(), one(&ended(false), extra, b"a").unwrap()] {
                assert_eq!(seen.0.last().unwrap(), &format!("Note {{ kind: {kind}, text: [97] }}"));
            }
        }
        assert_eq!(one(&nothing, 0, b"a"), Err(FrameError::Note(0)));
        assert_eq!(one(&nothing, 10, b"a"), Err(FrameError::Note(10)));
        for text in ["a\0", "a\r", "a\nb"] {
            assert_eq!(one(&nothing, 1, text.as_bytes()), Err(FrameError::NoteText));
        }
        assert_eq!(one(&nothing, 1, b""), Err(FrameError::Length { kind: KIND_NOTE, length: 0 }));
        assert!(one(&nothing, 1, &[b'a'; NOTE_MAX]).is_ok());
        let length = NOTE_MAX as u32 + 1;
        assert_eq!(
            one(&nothing, 1, &[b'a'; NOTE_MAX + 1]),
            Err(FrameError::Length { kind: KIND_NOTE, length })
        );
        assert_eq!(
            one(&ended(true), 2, b"a"),
            Err(FrameError::Order(KIND_NOTE)),
            "the worker had ended its request"
        );
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(
            start in 0usize..3,
            noise in prop::collection::vec(any::<u8>(), 0..64),
            at in 0usize..200,
            step in 1usize..64,
        ) {
            let mut input = example();
            match start {
                0 => input = noise,
                1 => { let at = at.min(input.len()); input.splice(at..(at + noise.len()).min(input.len()), noise); }
                _ => input.truncate(at),
            }
            let _ = decode(&input, step);
        }
    }
}
