//! Validating a stored page with the application, and the effect of a 304 (RFC 9111 section 4.3).

use millrace_wire::conditional::http_date;

use super::{Answer, Keep, Refusal, Said, Verdict, judge};
use crate::ask::Asking;
use crate::place::Place;
use crate::rules::{ReadFields, Rules};
use crate::{Millis, Page, Terms};

/// The fields that ask the application whether a page has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// `If-None-Match`
    pub if_none_match: Option<Box<str>>,
    /// `If-Modified-Since`
    pub if_modified_since: Option<Box<str>>,
}

impl Validators {
    /// The validators of a page (section 4.3.1): both, if it has both.
    pub fn of(page: &Page) -> Validators {
        Validators {
            if_none_match: page.etag.clone(),
            if_modified_since: page.last_modified.map(|seconds| http_date(seconds).into()),
        }
    }

    /// Whether there is no validator.
    pub fn is_empty(&self) -> bool {
        self.if_none_match.is_none() && self.if_modified_since.is_none()
    }

    /// Name and value of each field.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let list = [("If-None-Match", &self.if_none_match), ("If-Modified-Since", &self.if_modified_since)];
        list.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

/// A stored page after a 304.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freshened {
    /// Its new terms.
    pub terms: Terms,
    /// Its new fields (as [`Page::fields`]), if they have changed.
    pub fields: Option<Box<[u8]>>,
    /// Its new `Last-Modified`, if the 304 had one.
    pub last_modified: Option<u64>,
}

/// The effect of the 304 `answer` on a stored page with this content and the terms `old` (sections 3.2 and 4.3.4). If
/// it says nothing about the lifetime, the old terms count from now.
///
/// # Errors
/// The page must no longer be stored: [`crate::Pages::pass`] or [`crate::Pages::abandon`] ends the fill. It may still
/// be sent to the waiting requests.
pub fn freshen<'a, F>(
    rules: &Rules,
    place: &Place<'_>,
    asking: &Asking,
    (page, content): (&Page, &[u8]),
    old: &Terms,
    answer: &Answer<'a, F>,
    now: Millis,
) -> Result<Freshened, Refusal>
where
    F: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    let said = Said::hear(rules, answer.fields.clone(), answer.notes);
    if said.has_token {
        return Err(Refusal::Token);
    }
    // It may be another page for visitors with a cookie that the script had not looked for until now.
    if said.looked.is_own || said.looked.names.iter().any(|name| !old.vary.contains(name)) {
        return Err(Refusal::Cookie);
    }
    // The same of a field.
    let is_observed = rules.read_fields == ReadFields::Observed;
    if is_observed && said.read.names.iter().any(|name| !old.vary.contains(name)) {
        return Err(Refusal::Fields);
    }
    // A cookie of the 304 is for the requesting client; the page is as public as before.
    let news = || answer.fields.clone().filter(|(name, _)| is_updated(name));
    let merged = merge(&page.fields, news(), &said.keep());
    let last_modified = news().filter(|(name, _)| name.eq_ignore_ascii_case("last-modified")).last();
    let mut terms = match said.speaks(rules.mode) {
        true => {
            // The updated page, with the 304's fields for the server; date and age are the 304's.
            let told = |name: &str| {
                super::is_ours(name) || name.eq_ignore_ascii_case("date") || name.eq_ignore_ascii_case("age")
            };
            let mut fields: Vec<(&str, &[u8])> = lines(&merged).collect();
            for (name, value) in answer.fields.clone() {
                if told(name) {
                    fields.push((name, value));
                }
            }
            fields.extend(page.etag.as_deref().map(|etag| ("ETag", etag.as_bytes())));
            let whole = Answer {
                status: page.status,
                fields: fields.iter().copied(),
                notes: answer.notes,
                country: answer.country,
                content,
                failed: answer.failed,
            };
            match judge(rules, place, asking, &whole, now) {
                Verdict::Store { terms, .. } => terms,
                Verdict::Refuse { why, .. } => return Err(why),
            }
        }
        false if answer.failed => return Err(Refusal::Failed),
        false => Terms { age: said.age(now), ..old.clone() },
    };
    if said.tags.is_empty() {
        terms.tags = old.tags.clone();
    }
    // The fields that distinguish variants don't change: the page is stored under them.
    terms.vary = old.vary.clone();
    Ok(Freshened {
        terms,
        last_modified: last_modified.and_then(|(_, value)| super::said::date(value)),
        fields: (merged != *page.fields).then(|| merged.into()),
    })
}

/// Whether a 304 may change a stored field. Section 3.2: not fields that describe the stored content. Its ETag is the
/// one of the request.
fn is_updated(name: &str) -> bool {
    const NEVER: [&str; 6] =
        ["content-encoding", "content-length", "content-md5", "content-range", "etag", "vary"];
    !NEVER.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The stored lines, after replacing the ones that the news contain.
fn merge<'a>(stored: &[u8], news: impl Iterator<Item = (&'a str, &'a [u8])> + Clone, keep: &Keep) -> Vec<u8> {
    let news = news.filter(|(name, _)| keep.keeps(name));
    let mut merged = Vec::with_capacity(stored.len() + 64);
    let mut push = |name: &str, value: &[u8]| {
        merged.extend_from_slice(name.as_bytes());
        merged.extend_from_slice(b": ");
        merged.extend_from_slice(value);
        merged.extend_from_slice(b"\r\n");
    };
    // Its date is the 304's, like its age.
    for (name, value) in lines(stored).filter(|(name, _)| !name.eq_ignore_ascii_case("date")) {
        if !news.clone().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            push(name, value);
        }
    }
    for (name, value) in news.filter(|(_, value)| !value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0))) {
        push(name, value);
    }
    if let Some(date) = &keep.date {
        push("Date", date);
    }
    merged
}

/// Name and value of each line.
pub(super) fn lines(block: &[u8]) -> impl Iterator<Item = (&str, &[u8])> + Clone {
    block.split(|b| *b == b'\n').filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((std::str::from_utf8(&line[..colon]).ok()?, line[colon + 1..].trim_ascii()))
    })
}
