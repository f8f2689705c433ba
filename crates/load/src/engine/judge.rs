//! Whether a response is right: its status, its checks, and sameness with the reference response.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use millrace_wire::response;
use twox_hash::XxHash3_64;

use super::decode::decode;
use super::versions::{self, Differing, Review, Version, Versions};
use crate::record::Failure;
use crate::scenario::{Check, Dynamic, Request};

/// Different contents of a URL that are remembered with their verdict. A page that differs each time is not worth more.
const MOST_KNOWN: usize = 64;

/// The reference response of a URL.
#[derive(Debug)]
pub struct Expected {
    /// Status code.
    pub status: u16,
    /// The content, decoded and without its dynamic parts.
    pub content: Vec<u8>,
    /// The request that it is the response to.
    pub request: Request,
    /// How many redirects in a row led to it at most.
    pub redirects: u8,
    /// What is known about other contents.
    pub versions: Versions,
}

impl Expected {
    /// The response to a request, without its dynamic parts.
    pub fn new(request: Request, redirects: u8, status: u16, content: Vec<u8>) -> Expected {
        Expected { status, content, request, redirects, versions: Versions::default() }
    }
}

/// What a content is.
#[derive(Debug)]
pub enum ContentVerdict {
    /// As expected.
    Right,
    /// Not as expected.
    Wrong(Failure),
    /// Perhaps a new version of the page; the question about it, if it is the first of it.
    Unknown(Differing, Option<Review>),
}

/// The conditions for the responses to a request. Each thread has its own.
#[derive(Debug)]
pub struct Judge {
    checks: Vec<Check>,
    dynamic: Arc<[Dynamic]>,
    expected: Option<Arc<Expected>>,
    /// Verdicts by hash of the content as received: most contents equal the previous one.
    known: RefCell<HashMap<u64, Option<Failure>>>,
}

/// A response, whole.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// Status code.
    pub status: u16,
    /// The head's bytes.
    pub head: &'a [u8],
    /// The content as received.
    pub content: &'a [u8],
}

impl Judge {
    /// For a request with these checks.
    pub fn new(checks: Vec<Check>, dynamic: Arc<[Dynamic]>, expected: Option<Arc<Expected>>) -> Judge {
        Judge { checks, dynamic, expected, known: RefCell::default() }
    }

    /// The same for the request after a redirect, with the same expectations.
    pub fn for_redirect(&self) -> Judge {
        Judge::new(self.checks.clone(), self.dynamic.clone(), self.expected.clone())
    }

    /// Whether the content is judged, and must be stored until it is complete.
    pub fn wants_content(&self) -> bool {
        self.expected.is_some() || self.checks.iter().any(|check| !matches!(check, Check::Status(_)))
    }

    /// What is wrong with the status; `None`: nothing.
    pub fn status(&self, status: u16) -> Option<Failure> {
        let mut allowed = self.checks.iter().filter_map(|check| match check {
            Check::Status(statuses) => Some(statuses.contains(&status)),
            _ => None,
        });
        if allowed.next().unwrap_or((200..400).contains(&status)) && allowed.all(|is| is) {
            return None;
        }
        Some(match status {
            400..=499 => Failure::Status4xx,
            500..=599 => Failure::Status5xx,
            _ => Failure::StatusOther,
        })
    }

    /// Whether the content is right, compared with the reference response or only checked.
    pub fn content(&self, response: Response<'_>, compares: bool) -> ContentVerdict {
        if !self.wants_content() || response.status == 304 {
            return ContentVerdict::Right;
        }
        let seed = u64::from(response.status) << 1 | u64::from(compares);
        let hash = XxHash3_64::oneshot_with_seed(seed, response.content);
        if let Some(verdict) = self.known.borrow().get(&hash) {
            return verdict.map_or(ContentVerdict::Right, ContentVerdict::Wrong);
        }
        let verdict = self.look(response, compares);
        let known = match verdict {
            ContentVerdict::Unknown(..) => return verdict,
            ContentVerdict::Wrong(failure) => Some(failure),
            ContentVerdict::Right => None,
        };
        self.remember(hash, known);
        verdict
    }

    fn remember(&self, hash: u64, verdict: Option<Failure>) {
        let mut known = self.known.borrow_mut();
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(hash, verdict);
    }

    fn look(&self, response: Response<'_>, compares: bool) -> ContentVerdict {
        let coding = response::field(response.head, "content-encoding");
        let Some(content) = decode(coding.as_deref(), response.content) else {
            return ContentVerdict::Wrong(Failure::WrongContent);
        };
        for check in &self.checks {
            match check {
                Check::Length(bytes) if content.len() as u64 != *bytes => {
                    return ContentVerdict::Wrong(Failure::WrongLength);
                }
                Check::Text(text) if !contains(&content, text.as_bytes()) => {
                    return ContentVerdict::Wrong(Failure::WrongContent);
                }
                Check::NoText(text) if contains(&content, text.as_bytes()) => {
                    return ContentVerdict::Wrong(Failure::WrongContent);
                }
                _ => {}
            }
        }
        let expected = self.expected.as_ref();
        match expected.filter(|expected| compares && expected.status == response.status) {
            Some(expected) => compared(expected, &without(&content, &self.dynamic)),
            None => ContentVerdict::Right,
        }
    }

    /// What was expected of wrong content, and what was found instead; `None`: nothing is wrong.
    pub fn difference(&self, response: Response<'_>, compares: bool) -> Option<(String, String)> {
        let coding = response::field(response.head, "content-encoding");
        let Some(content) = decode(coding.as_deref(), response.content) else {
            return Some((
                format!("content in {}", coding?),
                format!("{} other bytes", response.content.len()),
            ));
        };
        let size = content.len();
        for check in &self.checks {
            match check {
                Check::Length(bytes) if size as u64 != *bytes => {
                    return Some((format!("{bytes} bytes"), format!("{size} bytes")));
                }
                Check::Text(text) if !contains(&content, text.as_bytes()) => {
                    return Some((
                        format!("the text {text:?}"),
                        format!("{size} bytes: {}", excerpt(&content, 0)),
                    ));
                }
                Check::NoText(text) => {
                    let Some(at) = find(&content, text.as_bytes()) else { continue };
                    return Some((format!("no text {text:?}"), excerpt(&content, at)));
                }
                _ => {}
            }
        }
        let expected = &self.expected.as_deref().filter(|_| compares)?.content;
        let same = without(&content, &self.dynamic);
        let at = expected.iter().zip(&same).position(|(a, b)| a != b);
        let at = at.unwrap_or(expected.len().min(same.len()));
        Some((
            format!(
                "{} from byte {at} on, {} bytes in all, as without load (if it may differ: --dynamic 'BEFORE...AFTER' or --no-sameness)",
                excerpt(expected, at),
                expected.len()
            ),
            format!("{}, {} bytes in all", excerpt(&same, at), same.len()),
        ))
    }
}

/// Whether a content, without its dynamic parts, is the reference's or a new version of the page.
fn compared(expected: &Arc<Expected>, content: &[u8]) -> ContentVerdict {
    if content == expected.content {
        return ContentVerdict::Right;
    }
    let is_as_long = content.len() == expected.content.len();
    let failure = if is_as_long { Failure::WrongContent } else { Failure::WrongLength };
    let (version, hash, review) = versions::look(expected, content);
    match version {
        Version::Right => ContentVerdict::Right,
        Version::Wrong => ContentVerdict::Wrong(failure),
        Version::Unknown => {
            let expected = expected.clone();
            ContentVerdict::Unknown(Differing { expected, hash, failure, row: 0, count: 1 }, review)
        }
    }
}

/// The content around a place in it.
fn excerpt(content: &[u8], at: usize) -> String {
    let part = &content[at.saturating_sub(20).min(content.len())..(at + 40).min(content.len())];
    format!("{:?}", String::from_utf8_lossy(part))
}

/// Whether `part` is in `whole`.
pub fn contains(whole: &[u8], part: &[u8]) -> bool {
    find(whole, part).is_some()
}

/// Where `part` first stands in `whole`.
pub fn find(whole: &[u8], part: &[u8]) -> Option<usize> {
    let Some(first) = part.first() else { return Some(0) };
    let last = whole.len().checked_sub(part.len())?;
    let mut from = 0;
    while from <= last {
        from += whole[from..=last].iter().position(|byte| byte == first)?;
        if whole[from..].starts_with(part) {
            return Some(from);
        }
        from += 1;
    }
    None
}

/// `content` without its dynamic parts; the texts around them stay.
pub fn without(content: &[u8], dynamic: &[Dynamic]) -> Vec<u8> {
    let mut left = content.to_vec();
    for part in dynamic {
        let (before, after) = (part.before.as_bytes(), part.after.as_bytes());
        let mut kept = Vec::with_capacity(left.len());
        let mut rest = left.as_slice();
        while let Some(at) = find(rest, before) {
            let (head, tail) = rest.split_at(at + before.len());
            kept.extend_from_slice(head);
            let end = if after.is_empty() { find(tail, b"\n") } else { find(tail, after) };
            rest = &tail[end.unwrap_or(tail.len())..];
            if before.is_empty() {
                break;
            }
        }
        kept.extend_from_slice(rest);
        left = kept;
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(checks: Vec<Check>, expected: Option<&str>) -> Judge {
        let dynamic = [Dynamic { before: "nonce=\"".to_owned(), after: "\"".to_owned() }];
        let expected = expected.map(|text| {
            Arc::new(Expected::new(Request::default(), 0, 200, without(text.as_bytes(), &dynamic)))
        });
        Judge::new(checks, dynamic.into(), expected)
    }

    fn content(judge: &Judge, text: &str) -> Option<Failure> {
        let head = b"HTTP/1.1 200 OK\r\n\r\n";
        verdict(judge.content(Response { status: 200, head, content: text.as_bytes() }, true))
    }

    /// What a content is if it is not a new version of its page.
    fn verdict(verdict: ContentVerdict) -> Option<Failure> {
        match verdict {
            ContentVerdict::Right => None,
            ContentVerdict::Wrong(failure) | ContentVerdict::Unknown(Differing { failure, .. }, _) => {
                Some(failure)
            }
        }
    }

    #[test]
    fn statuses_are_right_as_checks_say_or_below_400() {
        let plain = judge(Vec::new(), None);
        assert_eq!(
            [200, 304, 404, 503, 101].map(|status| plain.status(status)),
            [None, None, Some(Failure::Status4xx), Some(Failure::Status5xx), Some(Failure::StatusOther)]
        );
        let strict = judge(vec![Check::Status(vec![404])], None);
        assert_eq!((strict.status(404), strict.status(200)), (None, Some(Failure::StatusOther)));
        assert!(!strict.wants_content());
    }

    #[test]
    fn contents_are_checked_each_time_they_come() {
        let text = judge(vec![Check::Text("cart".to_owned()), Check::NoText("error".to_owned())], None);
        for _ in 0..2 {
            assert_eq!(content(&text, "your cart"), None);
            assert_eq!(content(&text, "nothing"), Some(Failure::WrongContent));
            assert_eq!(content(&text, "cart error"), Some(Failure::WrongContent));
        }
        assert_eq!(content(&judge(vec![Check::Length(3)], None), "four"), Some(Failure::WrongLength));
    }

    #[test]
    fn what_is_declared_dynamic_may_differ() {
        let same = judge(Vec::new(), Some("<a nonce=\"123\">one</a>"));
        assert_eq!(content(&same, "<a nonce=\"4567\">one</a>"), None);
        assert_eq!(content(&same, "<a nonce=\"123\">two</a>"), Some(Failure::WrongContent));
        assert_eq!(content(&same, "<a nonce=\"123\">three</a>"), Some(Failure::WrongLength));
        let head = b"HTTP/1.1 200 OK\r\n\r\n";
        let other = Response { status: 200, head, content: b"<a nonce=\"1\">two</a>" };
        assert_eq!(verdict(same.content(other, false)), None, "it is one visitor's own");
        let (expected, found) = same.difference(other, true).unwrap();
        assert!(
            expected.contains("from byte 12 ") && expected.contains("one") && found.contains("two"),
            "{expected} {found}"
        );
        assert_eq!(same.difference(other, false), None);
        let text = judge(vec![Check::Text("cart".to_owned()), Check::NoText("error".to_owned())], None);
        let said = |content: &[u8]| text.difference(Response { status: 200, head, content }, true).unwrap();
        assert_eq!(said(b"nothing"), ("the text \"cart\"".to_owned(), "7 bytes: \"nothing\"".to_owned()));
        assert_eq!(said(b"cart error"), ("no text \"error\"".to_owned(), "\"cart error\"".to_owned()));
    }

    #[test]
    fn texts_are_found_where_they_stand() {
        assert_eq!(find(b"aab", b"ab"), Some(1));
        assert_eq!([find(b"a", b"ab"), find(b"", b"a"), find(b"abc", b"")], [None, None, Some(0)]);
        assert_eq!(
            without(b"x=1\ny", &[Dynamic { before: "x=".to_owned(), after: String::new() }]),
            b"x=\ny"
        );
    }
}
