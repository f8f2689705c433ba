//! 206 and 416: parts of a file (RFC 9110 sections 14 and 15.3.7).

use millrace_wire::ranges::{ByteSpan, Wanted};

use super::entry::{FileEntry, Shape};
use millrace_base::message::reply::{Fields, Reply, byteranges, plain};

/// The response to a request for parts of the uncoded content. `media_type`: the type in each part of a multipart
/// response.
pub fn reply(entry: &FileEntry, wanted: Wanted, shape: Shape, media_type: &[u8]) -> Reply {
    let whole = entry.plain();
    let length = whole.content.length();
    match wanted {
        Wanted::One(span) => {
            let mut fields = Fields::from_shared(entry.fields(whole, shape));
            fields.push("Content-Range", span.content_range(length).as_bytes());
            Reply { fields, ..Reply::new(206) }.body(whole.content.part(span.start, span.end))
        }
        Wanted::Several(spans) => several(entry, &spans, shape, media_type),
        Wanted::Nothing => plain(416).with("Content-Range", &format!("bytes */{length}")),
        Wanted::Whole => {
            let fields = Fields::from_shared(entry.fields(whole, shape));
            Reply { fields, ..Reply::new(200) }.body(whole.content.part(0, length))
        }
    }
}

/// `multipart/byteranges` (RFC 9110 section 14.6).
fn several(entry: &FileEntry, spans: &[ByteSpan], shape: Shape, media_type: &[u8]) -> Reply {
    let content = &entry.plain().content;
    let cut = |span: ByteSpan| content.part(span.start, span.end);
    let (media_type, body) = byteranges(media_type, content.length(), spans, cut);
    let mut fields = Fields::default();
    fields.push("Content-Type", media_type.as_bytes());
    let block = entry.fields(entry.plain(), shape);
    let after_type = memchr::memchr(b'\n', &block).map_or(0, |end| end + 1);
    fields.push_block(&block[after_type..]);
    Reply { fields, ..Reply::new(206) }.body(body)
}
