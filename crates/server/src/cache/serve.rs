//! A response from a page: the form that the client accepts, 304, parts, HEAD.

use std::borrow::Cow;

use millrace_pages::{Form, Page};
use millrace_wire::conditional::{Conditions, Outcome, Validators};
use millrace_wire::encoding::{Accept, Coding};
use millrace_wire::head::Head;
use millrace_wire::ranges::{self, ByteSpan, Wanted};

use super::make::{etag_of, uncoded};
use millrace_base::message::reply::{Body, Fields, Reply, byteranges, lines, plain};

/// Fields of a 304 (RFC 9110 section 15.4.5); Date is added by the protocol.
const OF_NOT_MODIFIED: [&str; 6] =
    ["cache-control", "content-location", "etag", "expires", "vary", "last-modified"];

/// What a request says about the form of its response.
#[derive(Clone, Debug, Default)]
pub struct PageRequest<'a> {
    conditions: Conditions<'a>,
    range: Option<Cow<'a, [u8]>>,
    accept: Accept,
}

impl<'a> PageRequest<'a> {
    /// Reads the fields once.
    pub fn read(head: &'a Head) -> PageRequest<'a> {
        let mut asked = PageRequest::default();
        let (mut ranges, is_get) = (0, head.method() == "GET");
        for (name, value) in head.fields() {
            match name.len() {
                5 if name.eq_ignore_ascii_case("range") => {
                    ranges += 1;
                    // Defined for GET only (RFC 9110 section 14.2), and only once.
                    asked.range = (is_get && ranges == 1).then_some(Cow::Borrowed(value));
                }
                15 if name.eq_ignore_ascii_case("accept-encoding") => asked.accept.add(value),
                _ => drop(asked.conditions.add(name, value)),
            }
        }
        asked
    }

    /// Whether it asks for a part.
    pub fn has_range(&self) -> bool {
        self.range.is_some()
    }

    /// An owned copy, which outlives the request.
    pub fn into_owned(self) -> PageRequest<'static> {
        PageRequest {
            conditions: self.conditions.into_owned(),
            range: self.range.map(|range| Cow::Owned(range.into_owned())),
            accept: self.accept,
        }
    }
}

/// The response from a page.
pub fn answer(page: &Page, asked: &PageRequest<'_>) -> Reply {
    if page.status != 200 {
        // Conditions and ranges apply only to successful responses (RFC 9110 section 13.2.1).
        return whole(page, best(page, asked));
    }
    let form = best(page, asked);
    form.prefetch();
    if let Some(reply) = part(page, asked) {
        return reply;
    }
    if asked.conditions.is_empty() {
        // The form is not read before it is copied: it is being prefetched.
        return whole(page, form);
    }
    match asked.conditions.evaluate(&validators(page, form)) {
        Outcome::Proceed => whole(page, form),
        Outcome::NotModified => not_modified(form),
        Outcome::Failed => plain(412),
    }
}

/// The form that the client already has, as its conditions say, otherwise the best available one it accepts: a better
/// one may have been made meanwhile.
fn best<'a>(page: &'a Page, asked: &PageRequest<'_>) -> &'a Form {
    let forms = || asked.accept.by_preference().filter_map(|coding| page.form(coding));
    let known = |form: &&Form| asked.conditions.names(opaque(etag_of(form).unwrap_or("")));
    let had = if asked.conditions.is_empty() { None } else { forms().find(known) };
    // Identity even if the client refuses it: RFC 9110 section 12.4.1 permits this, and it helps more than a 406.
    had.or_else(|| forms().next()).unwrap_or(page.identity())
}

/// An entity-tag without the mark of a weak one.
fn opaque(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag)
}

/// The whole page in one of its forms.
fn whole(page: &Page, form: &Form) -> Reply {
    let Some(form) = with_content(page, form) else { return plain(500) };
    Reply {
        reason: page.reason.clone(),
        fields: fields(&form),
        dated: page.is_dated(),
        ..Reply::new(page.status)
    }
    .body(cut(&form, ByteSpan { start: 0, end: form.body().len() as u64 }))
}

/// A form of the page with its content: the uncoded one may have to be unpacked first, and its use is noted.
fn with_content<'a>(page: &'a Page, form: &'a Form) -> Option<Cow<'a, Form>> {
    if !std::ptr::eq(form, page.identity()) {
        return Some(Cow::Borrowed(form));
    }
    page.note_plain();
    uncoded(page)
}

/// Fields that say how others may store a public page, or identify it.
const PUBLIC: [&str; 6] = ["age", "cache-groups", "etag", "expires", "last-modified", "pragma"];

/// The response from a page for one visitor, whose browser adds personal content: no other cache may
/// store it, nor may the browser show it again later, when the cart is another one. Conditions and ranges do not
/// count. `None`: the page can't be sent so.
pub fn answer_privately(page: &Page, asked: &PageRequest<'_>) -> Option<Reply> {
    let form = asked.accept.by_preference().filter_map(|coding| page.form(coding)).next();
    let form = with_content(page, form.unwrap_or(page.identity()))?;
    let (bytes, head) = form.shared();
    let body = Body::Shared { bytes: bytes.clone(), start: head, end: bytes.len() };
    Some(privately(page, &form)?.body(body))
}

/// The same with other content, made of the page's uncoded one.
pub fn answer_filled(page: &Page, fill: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Option<Reply> {
    let form = with_content(page, page.identity())?;
    Some(privately(page, &form)?.body(Body::Bytes(fill(form.body())?)))
}

/// Whether a field says how others may store a page, or identifies it.
pub fn is_public_field(name: &str) -> bool {
    PUBLIC.into_iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The head of a response for one visitor.
fn privately(page: &Page, form: &Form) -> Option<Reply> {
    if page.status != 200 {
        return None;
    }
    let mut reply = Reply::new(200);
    reply.reason = page.reason.clone();
    for (name, value) in lines(form.head()) {
        if name.eq_ignore_ascii_case("set-cookie") {
            return None;
        }
        let is_control = name.len() >= 13 && name[name.len() - 13..].eq_ignore_ascii_case("cache-control");
        if !is_control && !is_public_field(name) {
            reply.fields.push(name, value);
        }
    }
    reply.fields.push("Cache-Control", b"private, no-store");
    reply.dated = page.is_dated();
    Some(reply)
}

fn not_modified(form: &Form) -> Reply {
    let mut reply = Reply::new(304);
    for (name, value) in lines(form.head()) {
        if OF_NOT_MODIFIED.into_iter().any(|known| known.eq_ignore_ascii_case(name)) {
            reply.fields.push(name, value);
        }
    }
    reply
}

/// The response to a request for a part, if it is one. Parts refer to the uncoded content.
fn part(page: &Page, asked: &PageRequest<'_>) -> Option<Reply> {
    let range = asked.range.as_ref().filter(|_| asked.accept.takes(Coding::Identity))?;
    let form = page.identity();
    let validators = validators(page, form);
    if !asked.conditions.range_counts(&validators) {
        return None;
    }
    if asked.conditions.evaluate(&validators) != Outcome::Proceed {
        return None;
    }
    let form = with_content(page, form)?;
    let length = form.body().len() as u64;
    match ranges::wanted(range, length) {
        Wanted::Whole => None,
        Wanted::Nothing => Some(plain(416).with("Content-Range", &format!("bytes */{length}"))),
        Wanted::One(span) => {
            let mut fields = fields(&form);
            fields.push("Content-Range", span.content_range(length).as_bytes());
            Some(Reply { fields, dated: page.is_dated(), ..Reply::new(206) }.body(cut(&form, span)))
        }
        Wanted::Several(spans) => Some(Reply { dated: page.is_dated(), ..several(&form, &spans) }),
    }
}

fn cut(form: &Form, span: ByteSpan) -> Body {
    let (bytes, head) = form.shared();
    Body::Shared { bytes: bytes.clone(), start: head + span.start as usize, end: head + span.end as usize }
}

fn fields(form: &Form) -> Fields {
    let (bytes, head) = form.shared();
    Fields::from_start_of(bytes.clone(), head)
}

/// `multipart/byteranges` (RFC 9110 section 14.6).
fn several(form: &Form, spans: &[ByteSpan]) -> Reply {
    let mut reply = Reply::new(206);
    let mut media_type: &[u8] = b"application/octet-stream";
    for (name, value) in lines(form.head()) {
        if name.eq_ignore_ascii_case("content-type") {
            media_type = value;
        } else {
            reply.fields.push(name, value);
        }
    }
    let (of_parts, body) = byteranges(media_type, form.body().len() as u64, spans, |span| cut(form, span));
    reply.fields.push("Content-Type", of_parts.as_bytes());
    reply.body(body)
}

fn validators<'a>(page: &Page, form: &'a Form) -> Validators<'a> {
    let etag = etag_of(form).unwrap_or("");
    let stored = page.stored / 1000;
    Validators {
        etag: opaque(etag),
        etag_is_weak: etag.starts_with("W/"),
        // RFC 9111 section 4.3.2: without Last-Modified, the time of its arrival.
        modified: page.last_modified.unwrap_or(stored),
        modified_is_strong: page.last_modified.is_some_and(|modified| modified + 60 < stored),
    }
}
