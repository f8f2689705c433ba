//! Compresses uncacheable responses of scripts for one client.
//!
//! ```text
//!   short and whole ────────> coded at once, sent with its length
//!   long and whole ─────────> Passing: a piece at a time, other clients in between
//!   still being written ────> coded where the script's pieces arrive (Source::code), flushed whenever it pauses
//! ```
//!
//! Content that is already coded, must not be changed (`no-transform`), is a part, or does not shrink, stays
//! unchanged. A strong entity-tag becomes weak, because the same page may be sent in other bytes.

use std::io;
use std::task::{Context, Poll};

use millrace_wire::encoding::{Accept, Coding};
use millrace_wire::head::Head;

use super::encoder::{Encoder, TURN};
use super::weakened::{self, Resource};
use super::{Body, ContentSource, Fields, Reply, codec};

/// The codings, the cheapest first. A client that accepts all of them equally gets the first.
const CODINGS: [Coding; 3] = [Coding::Zstd, Coding::Gzip, Coding::Brotli];

/// Complete content up to this size is coded at once: some milliseconds. Bytes.
const AT_ONCE: usize = 384 << 10;

/// The request that a response belongs to.
#[derive(Clone, Copy)]
pub struct CodingRequest<'a> {
    /// The head of the request.
    pub head: &'a Head,
    /// Its resource.
    pub resource: Resource<'a>,
    /// Entity-tags of it were restored by [`restore_tags`].
    pub restored: bool,
}

/// Compresses a response of a script if its type shrinks, it has at least `least` bytes, and the client accepts that.
/// Returns whether it did.
pub fn compress(reply: &mut Reply, asked: &CodingRequest<'_>, least: u64) -> bool {
    if reply.status == 304 && asked.restored {
        // Like the complete response (RFC 9110 section 15.4.5).
        add_vary(&mut reply.fields);
        weaken(reply, asked.resource);
        return false;
    }
    if !may_have_content(reply.status) || !is_long(&reply.body, least) {
        return false;
    }
    let Some(kind) = Compressible::of(&reply.fields) else { return false };
    add_vary(&mut reply.fields);
    let Some(coding) = accept(asked.head).best_of(&CODINGS) else { return false };
    if !code(&mut reply.body, coding) {
        return false;
    }
    if kind.is_changed {
        weaken(reply, asked.resource);
    }
    reply.fields.push("Content-Encoding", coding.name().as_bytes());
    true
}

/// Restores a script's own entity-tags in a request if they were sent as weak ones; `forwarded`: the requested host,
/// if it differs from the head's. Returns whether there were any.
pub fn restore_tags(head: &mut Head, forwarded: Option<&str>) -> bool {
    let is_tagged = |name: &str| ["if-none-match", "if-match"].iter().any(|n| n.eq_ignore_ascii_case(name));
    if !head.fields().any(|(name, value)| is_tagged(name) && memchr::memmem::find(value, b"W/\"").is_some()) {
        return false;
    }
    let (authority, target) = (forwarded.unwrap_or(head.authority()).to_owned(), head.path_query().to_vec());
    let mut restore = |name| head.change(name, |list| weakened::restored((&authority, &target), list));
    [restore("If-None-Match"), restore("If-Match")].contains(&true)
}

/// Whether a response with this status may be coded: it has content, and that is not a part.
fn may_have_content(status: u16) -> bool {
    !matches!(status, 0..=199 | 204 | 205 | 206 | 304)
}

/// Whether content is worth coding, as far as its length is known. For content that is being written, the first piece
/// decides; if only fields have arrived, the content counts as long.
fn is_long(body: &Body, least: u64) -> bool {
    let least = least.max(1);
    match body {
        Body::Bytes(content) => content.len() as u64 >= least,
        Body::Stream(stream) => match (stream.length(), stream.there() as u64) {
            (Some(length), _) => length >= least,
            (None, there) => there == 0 || there >= least,
        },
        Body::Omitted(length) => length.is_none_or(|length| length >= least),
        Body::Empty | Body::Shared { .. } | Body::File { .. } | Body::Parts(_) => false,
    }
}

/// A response that may be coded.
struct Compressible {
    /// Some of its fields change if it is coded.
    is_changed: bool,
}

impl Compressible {
    /// `None`: it may not be coded, or it would not shrink.
    fn of(fields: &Fields) -> Option<Compressible> {
        let (mut shrinks, mut kind) = (false, Compressible { is_changed: false });
        for (name, value) in fields.iter() {
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            match name.len() {
                4 if is("etag") => kind.is_changed = true,
                6 if is("digest") => return None,
                11 if is("content-md5") || is("repr-digest") => return None,
                12 if is("content-type") => shrinks = codec::shrinks(value),
                13 if is("accept-ranges") => kind.is_changed = true,
                13 if is("content-range") => return None,
                13 if is("cache-control") && codec::forbids_change(value) => return None,
                14 if is("content-digest") => return None,
                16 if is("content-encoding") => return None,
                _ => {}
            }
        }
        shrinks.then_some(kind)
    }
}

/// Whether a value of `Vary` names codings.
fn names_coding(value: &[u8]) -> bool {
    let mut members = value.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    members.any(|member| member == b"*" || member.eq_ignore_ascii_case(b"accept-encoding"))
}

fn accept(head: &Head) -> Accept {
    let mut accept = Accept::default();
    let named = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("accept-encoding"));
    named.for_each(|(_, value)| accept.add(value));
    accept
}

/// Adds that others may get another coding, unless the fields say so.
fn add_vary(fields: &mut Fields) {
    if !fields.iter().any(|(name, value)| name.eq_ignore_ascii_case("vary") && names_coding(value)) {
        fields.push("Vary", b"Accept-Encoding");
    }
}

/// Rewrites the fields of a response whose bytes may differ: its tag becomes weak, and parts can't be requested.
fn weaken(reply: &mut Reply, resource: Resource<'_>) {
    let mut fields = Fields::default();
    fields.reserve(reply.fields.blocks().iter().map(|block| block.len() + 32).sum());
    for (name, value) in reply.fields.iter() {
        if name.eq_ignore_ascii_case("etag") && value.starts_with(b"\"") {
            weakened::note(resource, value);
            fields.push(name, &[b"W/", value].concat());
        } else if !name.eq_ignore_ascii_case("accept-ranges") {
            fields.push(name, value);
        }
    }
    reply.fields = fields;
}

/// Codes the content; false if it stays unchanged.
fn code(body: &mut Body, coding: Coding) -> bool {
    match body {
        Body::Bytes(content) if content.len() > AT_ONCE => {
            let Some(encoder) = Encoder::new(coding) else { return false };
            let content = std::mem::take(content);
            let passing = Passing { content, coded: 0, encoder: Some(encoder), turn: false };
            *body = Body::Stream(Box::new(passing));
            true
        }
        Body::Bytes(content) => match codec::compress_fast(content, coding) {
            Some(coded) if coded.len() < content.len() => {
                *content = coded;
                true
            }
            _ => false,
        },
        Body::Stream(stream) => stream.code(coding),
        // To HEAD: as to GET, but the coded length is unknown. Content of unknown length counts as long.
        Body::Omitted(length) => {
            *length = None;
            true
        }
        _ => false,
    }
}

/// Complete content that takes too long to be coded at once.
#[derive(Debug)]
struct Passing {
    content: Vec<u8>,
    /// Bytes coded so far.
    coded: usize,
    /// `None`: all is coded.
    encoder: Option<Encoder>,
    /// Other tasks run first.
    turn: bool,
}

impl ContentSource for Passing {
    fn length(&self) -> Option<u64> {
        None
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        if std::mem::replace(&mut self.turn, true) {
            self.turn = false;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(encoder) = &mut self.encoder else { return Poll::Ready(Ok(false)) };
        let end = self.content.len().min(self.coded + TURN);
        encoder.write(&self.content[self.coded..end], buffer)?;
        self.coded = end;
        if end == self.content.len()
            && let Some(encoder) = self.encoder.take()
        {
            self.content = Vec::new();
            encoder.finish(buffer)?;
        }
        Poll::Ready(Ok(true))
    }

    fn take_aside(&mut self) -> Option<Box<super::Aside>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use millrace_wire::head::Limits;

    use super::*;
    use crate::testing::readable;

    const LIMITS: Limits = Limits { bytes: 65536, fields: 100, target: 8192 };

    fn head(lines: &str) -> Head {
        let mut head = Head::default();
        let text = format!("GET /page?{} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n", lines.len());
        head.parse(text.as_bytes(), &LIMITS).unwrap().unwrap();
        head
    }

    fn reply(lines: &str, body: Body) -> Reply {
        let mut reply = Reply::new(200).with("Content-Type", "text/html; charset=UTF-8").body(body);
        reply.fields.push_block(lines.as_bytes());
        reply
    }

    fn page(lines: &str) -> Reply {
        reply(lines, Body::Bytes(b"a page ".repeat(300)))
    }

    /// The response to a client that accepts `accept`, and whether it was coded.
    fn pass(mut reply: Reply, accept: &str) -> (Reply, bool) {
        let head = head(&format!("Accept-Encoding: {accept}\r\n"));
        let asked = CodingRequest { head: &head, resource: ("a.test", head.path_query()), restored: false };
        let coded = compress(&mut reply, &asked, 1100);
        (reply, coded)
    }

    fn text(reply: &Reply) -> String {
        String::from_utf8(reply.fields.blocks().concat()).unwrap()
    }

    #[test]
    fn a_page_is_coded_as_its_client_likes() {
        for (accept, coding) in [
            ("gzip", Coding::Gzip),
            ("gzip, br", Coding::Gzip),
            ("gzip, deflate, br, zstd", Coding::Zstd),
            ("br;q=1.0, gzip;q=0.5", Coding::Brotli),
        ] {
            let (reply, coded) = pass(page("ETag: \"v1\"\r\nAccept-Ranges: bytes\r\nX: 1\r\n"), accept);
            assert!(coded);
            let Body::Bytes(content) = &reply.body else { panic!("not whole") };
            assert_eq!(readable(coding, content), b"a page ".repeat(300));
            let name = coding.name();
            assert_eq!(
                text(&reply),
                format!(
                    "Content-Type: text/html; charset=UTF-8\r\nETag: W/\"v1\"\r\nX: 1\r\nVary: Accept-Encoding\r\n\
                     Content-Encoding: {name}\r\n"
                )
            );
        }
    }

    #[test]
    fn who_takes_none_is_told_that_others_may() {
        for accept in ["", "identity", "deflate", "gzip;q=0", "gzip;q=0.5, identity"] {
            let (reply, coded) = pass(page("ETag: \"v1\"\r\n"), accept);
            assert!(!coded);
            assert_eq!(reply.body.length(), Some(2100));
            assert!(text(&reply).ends_with("ETag: \"v1\"\r\nVary: Accept-Encoding\r\n"), "{accept}");
        }
        for vary in ["vary: Cookie, accept-encoding\r\n", "Vary: *\r\n"] {
            let (reply, coded) = pass(page(vary), "gzip");
            assert!(coded && text(&reply).to_lowercase().matches("vary").count() == 1, "{vary}");
        }
    }

    #[test]
    fn what_may_not_be_coded_goes_as_it_is() {
        let table = [
            page("Content-Encoding: gzip\r\n"),
            page("Content-Encoding: none\r\n"),
            page("Cache-Control: private, No-Transform\r\n"),
            page("Content-Range: bytes 0-2099/5000\r\n"),
            page("Content-MD5: x\r\n"),
            page("Content-Digest: x\r\n"),
            page("Repr-Digest: x\r\n"),
            page("Digest: x\r\n"),
            page("Content-Type: image/png\r\n"),
            page("Content-Type: text/event-stream\r\n"),
            reply("", Body::Bytes(b"x".repeat(1099))),
            reply("", Body::Omitted(Some(1099))),
            reply("", Body::Empty),
            Reply { status: 206, ..page("") },
            Reply { status: 204, ..page("") },
            Reply { status: 304, ..page("") },
            Reply::new(200).body(Body::Bytes(b"x".repeat(2000))),
        ];
        for before in table {
            let said = format!("{before:?}");
            assert_eq!(format!("{:?}", pass(before, "gzip, zstd").0), said);
        }
    }

    #[test]
    fn what_does_not_shrink_goes_as_it_is() {
        let mut noise = 1u64;
        let mut next = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (noise >> 56) as u8
        };
        let (reply, coded) = pass(reply("", Body::Bytes((0..5000).map(|_| next()).collect())), "zstd, gzip");
        assert!(!coded && reply.body.length() == Some(5000) && text(&reply).ends_with("Accept-Encoding\r\n"));
    }

    #[test]
    fn head_says_what_get_says() {
        let (known, coded) = pass(reply("ETag: \"v1\"\r\n", Body::Omitted(Some(5000))), "gzip");
        assert!(coded && known.body.length().is_none());
        assert!(
            text(&known).ends_with("ETag: W/\"v1\"\r\nVary: Accept-Encoding\r\nContent-Encoding: gzip\r\n")
        );
        for length in [Some(5000), None] {
            let (unknown, coded) = pass(reply("ETag: \"v1\"\r\n", Body::Omitted(length)), "gzip");
            let (get, _) = pass(page("ETag: \"v1\"\r\n"), "gzip");
            assert!(coded && text(&unknown) == text(&get));
            let (unknown, coded) = pass(reply("ETag: \"v1\"\r\n", Body::Omitted(length)), "");
            assert!(
                !coded
                    && unknown.body.length() == length
                    && text(&unknown) == text(&pass(page("ETag: \"v1\"\r\n"), "").0)
            );
        }
        let short = reply("ETag: \"v1\"\r\n", Body::Omitted(Some(100)));
        let said = text(&short);
        assert_eq!(text(&pass(short, "gzip").0), said);
    }

    #[test]
    fn a_long_page_is_coded_in_turns() {
        let long = b"a long page, ".repeat(100_000);
        for (accept, coding) in [("gzip", Coding::Gzip), ("zstd", Coding::Zstd), ("br", Coding::Brotli)] {
            let (reply, coded) = pass(reply("", Body::Bytes(long.clone())), accept);
            let Body::Stream(mut stream) = reply.body else { panic!("in one go") };
            assert!(coded && stream.length().is_none());
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let (mut out, mut pauses) = (Vec::new(), 0);
            loop {
                match stream.poll_next(&mut cx, &mut out) {
                    Poll::Ready(Ok(false)) => break,
                    Poll::Ready(more) => assert!(more.unwrap()),
                    Poll::Pending => pauses += 1,
                }
            }
            assert_eq!(readable(coding, &out), long);
            assert!(pauses >= long.len() / TURN);
        }
    }

    #[test]
    fn a_script_knows_its_tag_again() {
        let mut asking = head("If-None-Match: W/\"tag\", W/\"own\"\r\n");
        assert!(!restore_tags(&mut asking, None), "not ours yet");
        let asked = CodingRequest {
            head: &head("Accept-Encoding: gzip\r\n"),
            resource: ("a.test", asking.path_query()),
            restored: false,
        };
        assert!(compress(&mut page("ETag: \"tag\"\r\n"), &asked, 0));
        assert!(compress(&mut page("ETag: W/\"own\"\r\n"), &asked, 0));
        let target = asking.path_query().to_vec();
        assert!(restore_tags(&mut asking, None));
        assert_eq!(asking.field("if-none-match"), Some(&b"\"tag\", W/\"own\""[..]));

        let asked = CodingRequest { head: &asking, resource: ("a.test", &target), restored: true };
        let mut unchanged = Reply::new(304).with("ETag", "\"tag\"");
        assert!(!compress(&mut unchanged, &asked, 0));
        assert_eq!(text(&unchanged), "ETag: W/\"tag\"\r\nVary: Accept-Encoding\r\n");
    }
}
