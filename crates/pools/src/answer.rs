//! From a worker's frames to the fields and content of a response.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use millrace_pages::Note;
use millrace_pages::judge::is_ours;
use millrace_wire::frames::{Frame, NoteKind};

use super::worker::FrameSink;
use super::worker_handle::WorkerHandle;
use millrace_base::context::log::Log;
use millrace_base::message::reply::{Aside, Fields, Handed, is_value, reason_phrase};

/// A response, as far as it has arrived.
#[derive(Debug, Default)]
pub struct PhpResponse {
    /// Its head.
    pub head: Option<AnswerHead>,
    /// Its content so far.
    pub content: Vec<u8>,
    /// What the script has reported to the server so far.
    pub aside: Option<Box<Aside>>,
    /// The response is complete.
    pub is_over: bool,
    /// The worker has not run it: it does not fit its image.
    pub is_declined: bool,
    /// It ended with a fatal error.
    pub has_failed: bool,
    /// Lines for 103 Early Hints that have not been taken out yet.
    pub early: Vec<u8>,
}

/// The purges of the page cache.
#[derive(Clone)]
pub struct OnPurge {
    /// Called at once when a script purges.
    pub by_script: Arc<PurgeFn>,
    /// Number of orders to purge, by anyone. Counted before pages are purged, so a request that refreshes a page is sent with the higher one.
    pub orders: Arc<AtomicU64>,
}

/// Gets the site's own name, the host that the script runs for, and what to purge, in the grammar of the field
/// `Millrace-Purge`.
pub type PurgeFn = dyn Fn(&str, &str, &[u8]) + Send + Sync;

impl fmt::Debug for OnPurge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnPurge")
    }
}

/// Status and fields.
#[derive(Debug)]
pub struct AnswerHead {
    /// 200-999.
    pub status: u16,
    /// The script's own reason, if it differs from the usual one.
    pub reason: Option<Box<str>>,
    /// Fields, without the ones that the protocol adds.
    pub fields: Fields,
    /// Content-Length as the script set it.
    pub length: Option<u64>,
    /// Fields for the server.
    pub ours: Fields,
}

/// Handles frames that are not part of the response: logs messages and drops the rest.
#[derive(Clone, Copy, Debug)]
pub struct Unheard<'a> {
    /// Where messages go.
    pub log: &'a Log,
    /// Called with purge orders.
    pub on_purge: &'a OnPurge,
    /// The worker.
    pub handle: &'a WorkerHandle,
}

impl PhpResponse {
    /// The head has arrived.
    pub fn begin(&mut self, mut head: AnswerHead) {
        let ours = std::mem::take(&mut head.ours);
        if !ours.is_empty() {
            self.aside.get_or_insert_default().fields = ours;
        }
        self.head = Some(head);
    }
}

/// Receives a worker's response.
pub struct Hearing<'a> {
    /// What has arrived so far.
    pub answer: &'a mut PhpResponse,
    /// Takes what is not part of the response.
    pub unheard: Unheard<'a>,
}

impl FrameSink for Hearing<'_> {
    fn take(&mut self, frame: Frame<'_>) {
        let Hearing { answer, unheard } = self;
        match frame {
            Frame::Head(head) => {
                answer.begin(AnswerHead::read(head.status, head.reason, || head.fields()));
            }
            Frame::Early(hints) => add_links(hints.fields(), &mut answer.early),
            Frame::Body(piece) => answer.content.extend_from_slice(piece),
            Frame::End(end) => {
                (answer.is_over, answer.has_failed, answer.is_declined) = (true, end.failed, end.declined);
            }
            Frame::Ready(_) | Frame::Log { .. } | Frame::Handler(_) => unheard.take(frame),
            Frame::Note { kind, text } => note(&mut answer.aside, unheard, kind, text),
        }
    }
}

impl FrameSink for Unheard<'_> {
    fn take(&mut self, frame: Frame<'_>) {
        match frame {
            Frame::Log { priority, message } => {
                let task = self.handle.task();
                let script = String::from_utf8_lossy(&task.script);
                self.log.php(&task.site, &script, priority.min(7) as u8, message);
            }
            Frame::Note { kind: NoteKind::Purge | NoteKind::Code, text } => {
                let (site, host) = {
                    let task = self.handle.task();
                    (task.site.clone(), task.host.clone())
                };
                (self.on_purge.by_script)(&site, &host, text);
            }
            Frame::Note { kind: NoteKind::Visitor, text } => {
                let visit = self.handle.task().visit.clone();
                visit.iter().for_each(|visit| visit.hear(text));
            }
            _ => {}
        }
    }
}

impl AnswerHead {
    /// Reads what a script sent: a status, perhaps with a reason, and all fields.
    pub fn read<'a, F: Iterator<Item = (&'a [u8], &'a [u8])>>(
        first_status: u16,
        first_reason: &'a [u8],
        all: impl Fn() -> F,
    ) -> AnswerHead {
        let mut length = None;
        let mut located = false;
        let Said { mut status, reason, connection, mut content_type } =
            Said::hear(first_status, first_reason, all());
        let (mut fields, mut ours) = (Fields::default(), Fields::default());
        // The fields that the server adds to most responses fit, too.
        fields.reserve(256);
        for (name, value) in all() {
            // The frame was checked: a name is a token, thus ASCII.
            let Ok(name) = std::str::from_utf8(name) else { continue };
            match Special::of(name) {
                None if is_for_the_server(name) => ours.push(name, value),
                None if connection.iter().any(|other| other.eq_ignore_ascii_case(name.as_bytes())) => {}
                None => {
                    located |= name.eq_ignore_ascii_case("location");
                    fields.push(name, value);
                }
                Some(Special::Length) => length = decimal(value),
                // The last value, at the place of the first.
                Some(Special::Type) => {
                    let last = content_type.take().filter(|value| !value.is_empty());
                    last.into_iter().for_each(|value| fields.push(name, value));
                }
                // An error response is not a version of the page.
                Some(Special::Tag) if status >= 500 => (),
                Some(Special::Tag) => fields.push(name, value),
                // The protocol adds one; this one says how old the response is (RFC 9111 section 4.2.3).
                Some(Special::Date) => ours.push(name, value),
                Some(Special::Status | Special::Ours) => (),
            }
        }
        // A Location without a Status is a redirect (RFC 3875 section 6.2.3), and PHP sends none for 200.
        if located && status == 200 && reason.is_empty() {
            status = 302;
        }
        let is_own = !reason.is_empty() && reason != reason_phrase(status) && is_value(reason.as_bytes());
        AnswerHead { status, reason: is_own.then(|| reason.into()), fields, length, ours }
    }

    /// Turns the response into an error: what the script has begun is not the intended page.
    pub fn fail(&mut self, status: u16) {
        (self.status, self.reason) = (status, None);
        let fields = std::mem::take(&mut self.fields);
        let kept = fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("etag"));
        kept.for_each(|(name, value)| self.fields.push(name, value));
    }
}

/// What must be known of a response's fields before any of them is passed on.
struct Said<'a> {
    status: u16,
    reason: &'a str,
    /// The fields that `Connection` names: they are not passed on (RFC 9110 section 7.6.1).
    connection: Vec<&'a [u8]>,
    /// The last `Content-Type`.
    content_type: Option<&'a [u8]>,
}

impl<'a> Said<'a> {
    fn hear(
        first_status: u16,
        first_reason: &'a [u8],
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Said<'a> {
        let reason = std::str::from_utf8(first_reason).unwrap_or_default();
        let mut said = Said { status: first_status, reason, connection: Vec::new(), content_type: None };
        for (name, value) in fields {
            let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
            match name.len() {
                6 if is(b"status") && first_status == 200 && first_reason.is_empty() => {
                    (said.status, said.reason) = status_field(value);
                }
                10 if is(b"connection") => {
                    said.connection.extend(value.split(|b| *b == b',').map(<[u8]>::trim_ascii));
                }
                12 if is(b"content-type") => said.content_type = Some(value.trim_ascii()),
                _ => {}
            }
        }
        said
    }
}

/// A field that is not passed on as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    /// Content-Length: the server computes it when the content is complete.
    Length,
    /// Content-Type: a response has only one.
    Type,
    /// The entity-tag.
    Tag,
    /// `Status: 404 Not Found`, the status line of CGI (RFC 3875 section 6.3.3).
    Status,
    /// The time at which the script says its response was made.
    Date,
    /// Set by the server, about the connection, or meant for the server.
    Ours,
}

impl Special {
    fn of(name: &str) -> Option<Special> {
        const NAMES: [(&str, Special); 13] = [
            ("content-length", Special::Length),
            ("status", Special::Status),
            ("content-type", Special::Type),
            ("etag", Special::Tag),
            ("connection", Special::Ours),
            ("date", Special::Date),
            ("keep-alive", Special::Ours),
            ("proxy-connection", Special::Ours),
            ("server", Special::Ours),
            ("te", Special::Ours),
            ("trailer", Special::Ours),
            ("transfer-encoding", Special::Ours),
            ("upgrade", Special::Ours),
        ];
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, special)| *special)
    }
}

/// Adds the lines of `Link`; early hints contain no other field.
fn add_links<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>, lines: &mut Vec<u8>) {
    for (_, value) in fields.filter(|(name, value)| name.eq_ignore_ascii_case(b"link") && is_value(value)) {
        for part in [b"Link: ", value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
}

/// Stores what a script reports about its page. Pages that it purges are gone before its response is sent.
pub fn note(aside: &mut Option<Box<Aside>>, unheard: &Unheard<'_>, kind: NoteKind, text: &[u8]) {
    if matches!(kind, NoteKind::Purge | NoteKind::Visitor | NoteKind::Code) {
        let mut unheard = *unheard;
        return unheard.take(Frame::Note { kind, text });
    }
    let kind = match kind {
        NoteKind::Tag => Note::Tag,
        NoteKind::Origin => Note::Origin,
        NoteKind::Cookies => Note::Cookies,
        NoteKind::Fields => Note::Fields,
        NoteKind::Cart => Note::Cart,
        _ => Note::Control,
    };
    // Notes beyond the limit are lost.
    aside.get_or_insert_default().notes.add(kind, text);
}

/// Whether a field is meant for the server and hidden from clients: for the page cache, `X-Accel-*`, or a file to
/// hand over.
fn is_for_the_server(name: &str) -> bool {
    name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("x-accel-"))
        || Handed::by(name).is_some()
        || is_ours(name)
}

fn decimal(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

/// Code and reason of a `Status` field. A code that can't be sent becomes 500, as with our own workers.
fn status_field(value: &[u8]) -> (u16, &str) {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let (code, reason) = text.split_once(' ').unwrap_or((text, ""));
    match code.parse() {
        Ok(code @ 200..=999) => (code, reason.trim()),
        _ => (500, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_wire::frames::{FrameDecoder, FrameStep, answer};

    fn read(status: u16, reason: &str, fields: &[&str]) -> AnswerHead {
        let mut out = Vec::new();
        answer::head(&mut out, status, reason, fields);
        let mut decoder = FrameDecoder::default();
        decoder.begin();
        let FrameStep::Frame(Frame::Head(head), _) = decoder.next(&out).unwrap() else { panic!("no head") };
        AnswerHead::read(head.status, head.reason, || head.fields())
    }

    fn names(head: &AnswerHead) -> Vec<String> {
        head.fields.iter().map(|(name, _)| name.to_owned()).collect()
    }

    #[test]
    fn fields_of_the_connection_do_not_pass() {
        let sent = ["Connection: close", "X-Powered-By: PHP", "keep-alive: 5", "Transfer-Encoding: chunked"];
        let more = ["DATE: now", "Server: x", "Upgrade: h2c", "X-Accel-Redirect: /secret", "Set-Cookie: a=1"];
        let head = read(200, "", &[&sent[..], &more[..], &["Set-Cookie: b=2"]].concat());
        assert_eq!(names(&head), ["X-Powered-By", "Set-Cookie", "Set-Cookie"]);
    }

    #[test]
    fn what_connection_names_goes_no_further() {
        let head = read(200, "", &["A: 1", "Connection: a, close", "B: 2", "connection: C", "c: 3"]);
        assert_eq!(names(&head), ["B"], "RFC 9110 section 7.6.1");
    }

    #[test]
    fn the_date_is_for_the_cache() {
        let head = read(200, "", &["Date: Sun, 06 Nov 1994 08:49:37 GMT", "X: 1"]);
        assert_eq!(names(&head), ["X"]);
        assert_eq!(head.ours.blocks().concat(), b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    }

    #[test]
    fn there_is_one_content_type() {
        let types = |sent: &[&str]| {
            let head = read(200, "", sent);
            let types = head.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            types.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(types(&["Content-Type: text/html", "A: 1", "content-type: text/plain"]), ["text/plain"]);
        assert!(types(&["Content-Type:"]).is_empty());
        assert!(types(&["Content-Type: text/html", "Content-Type: "]).is_empty());
        assert_eq!(types(&["Content-Type: ", "Content-Type: a/b"]), ["a/b"]);
        let head = read(200, "", &["A: 1", "Content-Type: a/b", "B: 2", "Content-Type: c/d"]);
        assert_eq!(names(&head), ["A", "Content-Type", "B"]);
    }

    #[test]
    fn no_control_character_passes() {
        let mut lines = Vec::new();
        let fields = [(&b"link"[..], &b"</a>\x01"[..]), (b"link", b"</b>\r\nX: 1"), (b"Link", b"</c>")];
        add_links(fields.into_iter(), &mut lines);
        assert_eq!(lines, b"Link: </c>\r\n");
        let fields = [(&b"X"[..], &b"a\x01b"[..]), (b"Y", b"a\x7f"), (b"Z", b"a\tb")];
        let head = AnswerHead::read(200, b"Fi\x01ne", || fields.into_iter());
        assert_eq!((names(&head), head.reason), (vec!["Z".to_owned()], None));
    }

    #[test]
    fn an_error_of_the_server_has_no_tag() {
        assert_eq!(names(&read(500, "", &["ETag: \"a\"", "X: 1"])), ["X"]);
        assert_eq!(names(&read(200, "", &["etag: \"a\"", "Status: 503 Busy"])), ["X"; 0]);
        for status in [200, 304, 404, 499] {
            assert_eq!(names(&read(status, "", &["ETag: \"a\""])), ["ETag"]);
        }
        let mut late = read(200, "OK", &["ETag: \"a\"", "X: 1"]);
        late.fail(504);
        assert_eq!((late.status, names(&late)), (504, vec!["X".to_owned()]));
    }

    #[test]
    fn length_is_taken_out() {
        assert_eq!(read(200, "", &["Content-Length: 17"]).length, Some(17));
        for bad in ["Content-Length: -1", "Content-Length: +1", "Content-Length:", "Content-Length: 1,1"] {
            assert_eq!(read(200, "", &[bad]).length, None, "{bad}");
        }
    }

    #[test]
    fn location_without_status_is_a_redirect() {
        assert_eq!(read(200, "", &["Location: /x"]).status, 302);
        assert_eq!(read(201, "", &["Location: /x"]).status, 201);
        assert_eq!(read(200, "", &["Location: /x", "Status: 203"]).status, 203);
        assert_eq!(read(200, "Fine", &["Location: /x"]).status, 200);
    }

    #[test]
    fn the_first_status_counts() {
        let status = |head: AnswerHead| (head.status, head.reason.map(String::from));
        assert_eq!(status(read(200, "", &["Status: 404 Not Found"])), (404, None));
        assert_eq!(status(read(200, "", &["Status: 404 Gone fishing"])), (404, Some("Gone fishing".into())));
        assert_eq!(status(read(500, "", &["Status: 404"])), (500, None), "http_response_code() was called");
        assert_eq!(status(read(200, "", &["Status: 999 Who knows"])), (999, Some("Who knows".into())));
        for none in ["Status: 100", "Status: 1000", "Status: 99 x", "Status: ", "Status: OK"] {
            assert_eq!(status(read(200, "", &[none])), (500, None), "{none}");
        }
        assert_eq!(status(read(418, "Short and stout", &[])), (418, Some("Short and stout".into())));
        assert_eq!(status(read(404, "Not Found", &[])), (404, None));
    }
}
