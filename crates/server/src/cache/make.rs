//! Makes a page from a script's response: its fields, without the ones about one transfer, and its forms.

use std::borrow::Cow;
use std::sync::Arc;

use millrace_pages::judge::Keep;
use millrace_pages::{Form, Millis, Page};
use millrace_wire::encoding::{CODINGS, Coding};
use twox_hash::XxHash3_128;

use millrace_base::message::reply::{codec, lines};

/// Content below this size is not coded: it fits into one packet as it is. Bytes.
const LEAST: usize = 1100;

/// Fields that are made for each form.
const REMADE: [&str; 2] = ["etag", "vary"];

/// A complete response.
pub struct MadePage<'a> {
    /// Status code.
    pub status: u16,
    /// The script's own reason phrase.
    pub reason: Option<Box<str>>,
    /// Its field lines, in two blocks.
    pub fields: [&'a [u8]; 2],
    /// Which fields are stored.
    pub keep: &'a Keep,
    /// Its content.
    pub content: Vec<u8>,
    /// Whether a page without an entity-tag gets one.
    pub tagged: bool,
}

/// The page, without a coded form. Pages that don't shrink never get one.
pub fn page(made: MadePage<'_>, now: Millis) -> Arc<Page> {
    let mut kept = Vec::with_capacity(256);
    let (mut etag, mut last_modified, mut vary) = (None, None, Vec::new());
    let (mut shrinks, mut is_coded) = (false, false);
    for (name, value) in made.fields.into_iter().flat_map(lines) {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("etag") {
            etag = std::str::from_utf8(value).ok().filter(|tag| is_entity_tag(tag)).map(Box::from);
        } else if is("vary") {
            add_members(&mut vary, value);
        } else if is("last-modified") {
            let date = std::str::from_utf8(value).ok().and_then(|text| httpdate::parse_http_date(text).ok());
            last_modified = date.and_then(|d| Some(d.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs()));
        } else if is("content-type") {
            shrinks = codec::shrinks(value);
        } else if is("content-encoding") {
            is_coded = true;
        } else if is("cache-control") {
            is_coded |= codec::forbids_change(value);
        }
        if made.keep.keeps(name) && !REMADE.into_iter().any(is) {
            push(&mut kept, name, value);
        }
    }
    if let Some(date) = &made.keep.date {
        push(&mut kept, "Date", date);
    }
    made.keep.cookies.iter().for_each(|cookie| push(&mut kept, "Set-Cookie", cookie));
    let is_coded_by_us = shrinks && !is_coded && made.content.len() >= LEAST;
    if is_coded_by_us {
        add_members(&mut vary, b"Accept-Encoding");
    }
    made.keep.vary.iter().for_each(|name| add_members(&mut vary, name.as_bytes()));
    if !vary.is_empty() {
        push(&mut kept, "Vary", &vary);
    }
    // An error response is not a version of the page.
    let is_tagged = made.tagged && made.status < 500;
    let own = etag.clone().or_else(|| is_tagged.then(|| entity_tag(&made.content)));
    let head = head(own.as_deref(), &kept, Coding::Identity);
    let identity = Form::new(&head, &made.content);
    let mut page = Page::new(made.status, kept, identity, now);
    page.reason = made.reason;
    page.etag = etag;
    page.last_modified = last_modified;
    if !is_coded_by_us {
        for coding in CODINGS {
            page.put_form(coding, None);
        }
    }
    Arc::new(page)
}

/// The uncoded form with its content. `None`: the content of a slim page can't be unpacked, which never happens.
pub fn uncoded(page: &Page) -> Option<Cow<'_, Form>> {
    if !page.is_slim() {
        return Some(Cow::Borrowed(page.identity()));
    }
    let content = codec::unpack_zstd(page.form(Coding::Zstd)?.body())?;
    Some(Cow::Owned(Form::new(page.identity().head(), &content)))
}

/// The page with its uncoded content, if it was slim. `None` as for [`uncoded`].
pub fn filled_out(page: &Arc<Page>) -> Option<Arc<Page>> {
    if !page.is_slim() {
        return Some(page.clone());
    }
    let whole = with_forms(page, page.fields.clone(), page.stored, |coding| match coding {
        Coding::Identity => uncoded(page).map(Cow::into_owned),
        _ => page.form(coding).cloned(),
    });
    (!whole.is_slim()).then(|| Arc::new(whole))
}

/// The page with other fields, after PHP has said that its content is still valid.
pub fn with_fields(page: &Page, fields: Box<[u8]>, last_modified: Option<u64>, now: Millis) -> Arc<Page> {
    let fields: Arc<[u8]> = fields.into();
    let mut new = with_forms(page, fields.clone(), now, |coding| {
        let form = page.form(coding)?;
        Some(Form::new(&head(etag_of(form), &fields, coding), form.body()))
    });
    new.last_modified = last_modified.or(page.last_modified);
    Arc::new(new)
}

/// The page with other fields, with a form for each of its codings.
fn with_forms(page: &Page, fields: Arc<[u8]>, now: Millis, form: impl Fn(Coding) -> Option<Form>) -> Page {
    let identity = form(Coding::Identity).unwrap_or_else(|| page.identity().clone());
    let mut new = Page::new(page.status, fields, identity, now);
    new.reason = page.reason.clone();
    new.etag = page.etag.clone();
    new.last_modified = page.last_modified;
    for coding in CODINGS.into_iter().filter(|coding| !page.lacks(*coding)) {
        new.put_form(coding, form(coding));
    }
    new
}

/// Whether the page lacks a coding that could be made.
pub fn lacks_any(page: &Page) -> bool {
    CODINGS.into_iter().any(|coding| page.lacks(coding))
}

/// The page in a coding; `None` if that is no smaller.
pub fn form(page: &Page, coding: Coding) -> Option<Form> {
    let content = page.identity().body();
    let body = codec::compress(content, coding).filter(|coded| coded.len() < content.len())?;
    let tag = etag_of(page.identity()).map(|tag| etag_in(tag, coding));
    Some(Form::new(&head(tag.as_deref(), &page.fields, coding), &body))
}

/// The entity-tag of a form, with `W/` if it is weak: its first field line.
pub fn etag_of(form: &Form) -> Option<&str> {
    let value = form.head().strip_prefix(b"ETag: ")?;
    std::str::from_utf8(&value[..memchr::memchr(b'\r', value)?]).ok()
}

/// All lines of a form; the entity-tag first, where [`etag_of`] finds it.
fn head(etag: Option<&str>, fields: &[u8], coding: Coding) -> Vec<u8> {
    let mut head = Vec::with_capacity(fields.len() + 96);
    if let Some(etag) = etag {
        push(&mut head, "ETag", etag.as_bytes());
    }
    head.extend_from_slice(fields);
    if coding != Coding::Identity {
        push(&mut head, "Content-Encoding", coding.name().as_bytes());
    }
    head
}

/// Other bytes need another strong entity-tag (RFC 9110 section 8.8.3.3); a weak one is valid for all codings.
fn etag_in(etag: &str, coding: Coding) -> String {
    match etag.strip_suffix('"') {
        Some(start) if !etag.starts_with("W/") => format!("{start}-{}\"", coding.name()),
        _ => etag.to_owned(),
    }
}

/// RFC 9110 section 8.8.3: visible characters except quotes, in quotes.
fn is_entity_tag(tag: &str) -> bool {
    let opaque = tag.strip_prefix("W/").unwrap_or(tag);
    let inner = opaque.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.is_some_and(|inner| inner.bytes().all(|b| b > b' ' && b != b'"' && b != 0x7f))
}

/// A digest of the content. The same in every process, because pages outlive one.
fn entity_tag(content: &[u8]) -> Box<str> {
    format!("\"{:032x}\"", XxHash3_128::oneshot(content)).into()
}

/// Adds missing members to a list.
fn add_members(list: &mut Vec<u8>, members: &[u8]) {
    for member in members.split(|b| *b == b',').map(<[u8]>::trim_ascii).filter(|m| !m.is_empty()) {
        if list.split(|b| *b == b',').any(|known| known.trim_ascii().eq_ignore_ascii_case(member)) {
            continue;
        }
        if !list.is_empty() {
            list.extend_from_slice(b", ");
        }
        list.extend_from_slice(member);
    }
}

fn push(block: &mut Vec<u8>, name: &str, value: &[u8]) {
    block.extend_from_slice(name.as_bytes());
    block.extend_from_slice(b": ");
    block.extend_from_slice(value);
    block.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(fields: &[u8], content: &[u8]) -> Arc<Page> {
        let (fields, keep, content) = ([fields, b""], &Keep::default(), content.into());
        page(MadePage { status: 200, reason: None, fields, keep, content, tagged: true }, 7)
    }

    #[test]
    fn fields_of_one_transfer_are_dropped_and_the_rest_is_kept() {
        let page = made(
            b"Content-Type: text/html\r\nAge: 4\r\nETag: \"a\"\r\nvary: Cookie\r\nVary: accept-encoding, cookie\r\n",
            &b"x".repeat(2000),
        );
        assert_eq!(*page.fields, *b"Content-Type: text/html\r\nVary: Cookie, accept-encoding\r\n");
        assert_eq!((page.etag.as_deref(), etag_of(page.identity())), (Some("\"a\""), Some("\"a\"")));
        let gzip = form(&page, Coding::Gzip).unwrap();
        assert_eq!(etag_of(&gzip), Some("\"a-gzip\""));
        assert!(gzip.head().ends_with(b"Content-Encoding: gzip\r\n") && gzip.body().len() < 100);
        assert!(lacks_any(&page));
    }

    #[test]
    fn a_page_without_entity_tag_is_given_one_by_its_content() {
        let (a, b, c) = (made(b"", b"one"), made(b"", b"one"), made(b"", b"two"));
        assert_eq!(a.etag, None);
        assert_eq!(etag_of(a.identity()), etag_of(b.identity()));
        assert_ne!(etag_of(a.identity()), etag_of(c.identity()));
        assert!(is_entity_tag(etag_of(a.identity()).unwrap()));
        let (fields, keep, content) = ([&b""[..], b""], &Keep::default(), b"one".to_vec());
        let error = page(MadePage { status: 500, reason: None, fields, keep, content, tagged: true }, 7);
        assert_eq!(etag_of(error.identity()), None, "an error has none");
    }

    #[test]
    fn weak_tags_stand_for_every_coding_and_what_is_no_tag_is_dropped() {
        assert_eq!(etag_in("W/\"a\"", Coding::Brotli), "W/\"a\"");
        assert_eq!(made(b"ETag: nonsense\r\n", b"").etag, None);
    }

    #[test]
    fn a_slim_page_is_the_same_answer() {
        let content: Vec<u8> = (0..3000).flat_map(|n| format!("<p>{n}</p>").into_bytes()).collect();
        let page = made(b"Content-Type: text/html\r\n", &content);
        for coding in CODINGS {
            page.put_form(coding, form(&page, coding));
        }
        let slim = Arc::new(page.slim().unwrap());
        assert!(slim.is_slim() && slim.is_same(&page) && slim.bytes() * 3 < page.bytes());
        assert_eq!(uncoded(&slim).unwrap().body(), content);
        assert_eq!(uncoded(&slim).unwrap().head(), page.identity().head());
        // Other fields make another page, equally slim.
        let other =
            with_fields(&slim, Box::from(&b"Content-Type: text/html\r\nX-New: 1\r\n"[..]), Some(5), 9);
        assert!(other.is_slim() && !other.is_same(&page));
        assert_eq!(uncoded(&other).unwrap().body(), content);
        assert_eq!(etag_of(other.identity()), etag_of(page.identity()));
        let whole = filled_out(&slim).unwrap();
        assert_eq!((whole.identity().body(), whole.bytes()), (&content[..], page.bytes()));
        assert_eq!((whole.stored, whole.status), (page.stored, page.status));
        assert!(
            CODINGS.iter().all(|c| whole.form(*c).unwrap().shared().0 == page.form(*c).unwrap().shared().0)
        );
    }

    #[test]
    fn what_gains_nothing_is_never_coded() {
        let long = b"x".repeat(2000);
        for fields in [
            &b"Content-Type: image/png\r\n"[..],
            b"Content-Type: text/html\r\nContent-Encoding: gzip\r\n",
            b"Content-Type: text/html\r\nCache-Control: public, No-Transform\r\n",
        ] {
            let page = made(fields, &long);
            assert!(!lacks_any(&page));
            assert!(!page.fields.ends_with(b"Accept-Encoding\r\n"));
        }
        assert!(!lacks_any(&made(b"Content-Type: text/html\r\n", b"short")));
    }
}
