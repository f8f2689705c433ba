//! The response to GET or HEAD for a file: chooses its form, handles conditions and ranges.

use std::rc::Rc;

use millrace_wire::conditional::{Conditions, Outcome, Validators};
use millrace_wire::encoding::{Accept, Coding};
use millrace_wire::head::Head;
use millrace_wire::ranges;

use super::entry::{CodingOffer, FileEntry, Representation, Shape};
use super::expiry::UrlVersion;
use super::{FileMoment, partial};
use millrace_base::context::Context;
use millrace_base::message::Request;
use millrace_base::message::reply::{Fields, Reply, plain};

/// A response, ready or after some work on another thread.
pub enum FileResponse {
    /// Ready now.
    Ready(Reply),
    /// Ready later.
    Later(std::pin::Pin<Box<dyn Future<Output = Reply>>>),
}

/// The response to GET or HEAD for a file. Ready at once unless the file must be compressed first.
pub fn answer(context: &Context, request: &Request, entry: &Rc<FileEntry>) -> FileResponse {
    respond(entry, FileRequest::read(&request.head, request.query(), entry), FileMoment::of(context))
}

/// The response with a file that a script hands over, to a request of any method: as to GET, like other servers.
/// `ranges`: whether the client may ask for a part; `media_type`: the script's media type, for multipart responses.
pub fn hand_out(
    context: &Context,
    request: &Request,
    entry: &Rc<FileEntry>,
    ranges: bool,
    media_type: Option<&[u8]>,
) -> FileResponse {
    let mut asked = FileRequest::read(&request.head, None, entry);
    asked.media_type = media_type;
    if !ranges {
        asked.range = None;
    }
    respond(entry, asked, FileMoment::of(context))
}

/// What a request says about the form of its response.
#[derive(Clone, Debug)]
pub(super) struct FileRequest<'a> {
    conditions: Conditions<'a>,
    range: Option<&'a [u8]>,
    accept: Accept,
    version: UrlVersion,
    /// A media type that replaces that of the file's name.
    media_type: Option<&'a [u8]>,
}

impl<'a> FileRequest<'a> {
    /// Reads the fields once.
    pub(super) fn read(head: &'a Head, query: Option<&[u8]>, entry: &FileEntry) -> FileRequest<'a> {
        let mut asked = FileRequest {
            conditions: Conditions::default(),
            range: None,
            accept: Accept::default(),
            version: entry.version(query),
            media_type: None,
        };
        let (mut ranges, is_get) = (0, head.method() == "GET");
        for (name, value) in head.fields() {
            match name.len() {
                5 if name.eq_ignore_ascii_case("range") => {
                    ranges += 1;
                    // Defined for GET only (RFC 9110 section 14.2), and only once.
                    asked.range = (is_get && ranges == 1).then_some(value);
                }
                15 if entry.varies() && name.eq_ignore_ascii_case("accept-encoding") => {
                    asked.accept.add(value);
                }
                _ => {
                    asked.conditions.add(name, value);
                }
            }
        }
        asked
    }

    fn shape(&self) -> Shape {
        Shape { not_modified: false, version: self.version }
    }
}

/// The response, which depends only on the arguments.
pub(super) fn respond(entry: &Rc<FileEntry>, asked: FileRequest<'_>, now: FileMoment) -> FileResponse {
    if let Some(reply) = part(entry, &asked, now) {
        return FileResponse::Ready(reply);
    }
    if !entry.varies() {
        return FileResponse::Ready(send(entry, entry.plain(), &asked, now));
    }
    for coding in asked.accept.by_preference() {
        match entry.offer(coding, now.tick) {
            CodingOffer::Ready(representation) => {
                return FileResponse::Ready(send(entry, &representation, &asked, now));
            }
            CodingOffer::Later { done, soon } => {
                let etag = entry.etag_in(coding);
                if asked.conditions.names(&etag) {
                    // The client already has the form that is being made: it got it from this server.
                    return FileResponse::Ready(without_content(entry, &etag, coding, &asked, now));
                }
                if !soon && asked.accept.takes(Coding::Identity) {
                    continue;
                }
                let (entry, asked) = (entry.clone(), asked.into_owned());
                return FileResponse::Later(Box::pin(async move {
                    let made = entry.wait(coding, done).await;
                    send(&entry, made.as_ref().unwrap_or(entry.plain()), &asked, now)
                }));
            }
            CodingOffer::None => {}
        }
    }
    // The client accepts no form: RFC 9110 section 12.4.1 permits to send the plain one, which helps more than a 406.
    FileResponse::Ready(send(entry, entry.plain(), &asked, now))
}

impl FileRequest<'_> {
    fn into_owned(self) -> FileRequest<'static> {
        // A range has been handled before any waiting, and only multipart responses name the type.
        FileRequest {
            conditions: self.conditions.into_owned(),
            range: None,
            accept: self.accept,
            version: self.version,
            media_type: None,
        }
    }
}

/// The response to a request for a part, if it is one. Parts refer to the uncoded content.
fn part(entry: &FileEntry, asked: &FileRequest<'_>, now: FileMoment) -> Option<Reply> {
    let range = asked.range.filter(|_| !entry.varies() || asked.accept.takes(Coding::Identity))?;
    let whole = entry.plain();
    let validators = validators(entry, &whole.etag, now);
    if !asked.conditions.range_counts(&validators) {
        return None;
    }
    let wanted = ranges::wanted(range, whole.content.length());
    if wanted == ranges::Wanted::Whole {
        return None;
    }
    Some(match asked.conditions.evaluate(&validators) {
        Outcome::Proceed => {
            let media_type = asked.media_type.unwrap_or(entry.media_type().as_bytes());
            partial::reply(entry, wanted, asked.shape(), media_type)
        }
        _ => send(entry, whole, asked, now),
    })
}

/// 200 with a whole representation, or the result of the conditions.
fn send(
    entry: &FileEntry,
    representation: &Representation,
    asked: &FileRequest<'_>,
    now: FileMoment,
) -> Reply {
    let shape = asked.shape();
    match asked.conditions.evaluate(&validators(entry, &representation.etag, now)) {
        Outcome::Proceed => {
            let fields = Fields::from_shared(entry.fields(representation, shape));
            let content = &representation.content;
            Reply { fields, ..Reply::new(200) }.body(content.part(0, content.length()))
        }
        Outcome::NotModified => {
            let shape = Shape { not_modified: true, ..shape };
            let fields = Fields::from_shared(entry.fields(representation, shape));
            Reply { fields, ..Reply::new(304) }
        }
        Outcome::Failed => plain(412),
    }
}

/// 304 or 412 for a representation whose entity-tag alone is known.
fn without_content(
    entry: &FileEntry,
    etag: &str,
    coding: Coding,
    asked: &FileRequest<'_>,
    now: FileMoment,
) -> Reply {
    match asked.conditions.evaluate(&validators(entry, etag, now)) {
        Outcome::Failed => plain(412),
        // The conditions name the entity-tag, so `Proceed` is impossible.
        Outcome::NotModified | Outcome::Proceed => {
            let mut fields = Fields::default();
            let shape = Shape { not_modified: true, ..asked.shape() };
            fields.push_block(&entry.lines(etag, coding, shape));
            Reply { fields, ..Reply::new(304) }
        }
    }
}

fn validators<'a>(entry: &FileEntry, etag: &'a str, now: FileMoment) -> Validators<'a> {
    let modified = entry.modified();
    let today = u64::try_from(now.wall / 1_000_000_000).unwrap_or(0);
    Validators { etag, etag_is_weak: false, modified, modified_is_strong: today > modified.saturating_add(1) }
}
