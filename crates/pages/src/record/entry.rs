//! A page with all that the store knows about it.

use std::sync::Arc;

use millrace_wire::encoding::Coding;

use super::bytes::{Malformed, Reader, put_bytes, put_maybe, put_u16, put_u64};
use super::frame::{self, Kind};
use crate::key::LONGEST_KEY;
use crate::store::life;
use crate::terms::MOST_TAGS;
use crate::{Form, Kept, Millis, Page, Tag, Terms};

/// Maximum number of fields by which a page may vary.
const MOST_VARY: usize = 256;
/// A page from the future counts as made now if the clock was set back by no more than this; otherwise its age is
/// unknown.
const CLOCK_SET_BACK: Millis = 60_000;
/// The codings that an entry may have, in the order of the record.
const CODED: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

/// An entry to write.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// The purge stamp at which the page's fill began.
    pub stamp: u64,
    /// Identifies the site's configuration when the page was made: another root or application is another origin.
    pub origin: u64,
    /// Bytes of the key.
    pub key: &'a [u8],
    /// What the store knows about it.
    pub kept: &'a Kept,
}

impl NewEntry<'_> {
    /// Appends the record with the page's current codings; if all have been made, the page is slim in the record.
    pub fn put(&self, out: &mut Vec<u8>, seed: u64) {
        frame::put(out, Kind::Entry, seed, |out| {
            put_u64(out, self.stamp);
            put_u64(out, self.origin);
            put_bytes(out, self.key);
            put_bytes(out, &self.kept.variant);
            put_u64(out, self.kept.came);
            out.push(u8::from(self.kept.purged));
            put_terms(out, &self.kept.terms);
            put_page(out, &self.kept.page);
        });
    }

    /// Approximate size of the record, bytes.
    pub fn size(&self) -> usize {
        let Kept { page, terms, variant, .. } = self.kept;
        page.bytes() + self.key.len() + variant.len() + 8 * terms.tags.len() + 256
    }
}

/// An entry that was read; points into the payload.
#[derive(Clone, Debug)]
pub struct StoredEntry<'a> {
    /// As [`NewEntry::stamp`].
    pub stamp: u64,
    /// As [`NewEntry::origin`].
    pub origin: u64,
    /// Bytes of the key.
    pub key: &'a [u8],
    /// The variant.
    pub variant: &'a [u8],
    /// When the page was stored or validated.
    pub came: Millis,
    /// Its terms.
    pub terms: Terms,
    purged: bool,
    page: PageBytes<'a>,
}

#[derive(Clone, Debug)]
struct PageBytes<'a> {
    status: u16,
    reason: Option<&'a str>,
    fields: &'a [u8],
    etag: Option<&'a str>,
    last_modified: Option<u64>,
    stored: Millis,
    identity: FormBytes<'a>,
    /// As in the page: not tried, not worthwhile, made.
    codings: [Option<Option<FormBytes<'a>>>; CODED.len()],
}

#[derive(Clone, Copy, Debug)]
struct FormBytes<'a> {
    head: &'a [u8],
    body: &'a [u8],
}

impl<'a> StoredEntry<'a> {
    /// Reads a payload.
    ///
    /// # Errors
    /// It is not the payload of an entry.
    pub fn read(payload: &'a [u8]) -> Result<StoredEntry<'a>, Malformed> {
        let mut reader = Reader(payload);
        let entry = StoredEntry {
            stamp: reader.u64()?,
            origin: reader.u64()?,
            key: reader.bytes()?,
            variant: reader.bytes()?,
            came: reader.u64()?,
            purged: reader.flag()?,
            terms: read_terms(&mut reader)?,
            page: read_page(&mut reader)?,
        };
        reader.end()?;
        if entry.key.len() > LONGEST_KEY { Err(Malformed) } else { Ok(entry) }
    }

    /// Whether it is still useful at `now`.
    pub fn is_useful(&self, now: Millis) -> bool {
        // The part that the hash cuts off does not matter here.
        let expires = life::expiry(&self.terms, self.came, 0);
        let validators = self.page.etag.is_some() || self.page.last_modified.is_some();
        self.came <= now.saturating_add(CLOCK_SET_BACK)
            && life::state(&self.terms, expires, self.purged, validators, now) != life::Freshness::Useless
    }

    /// An owned copy; the page may be slim. `purged`: a soft purge covers it.
    pub fn kept(self, purged: bool) -> Kept {
        Kept {
            page: Arc::new(self.page.page()),
            terms: Arc::new(self.terms),
            variant: self.variant.into(),
            came: self.came,
            purged: self.purged || purged,
        }
    }
}

impl PageBytes<'_> {
    fn page(&self) -> Page {
        let mut page = Page::new(self.status, self.fields, self.identity.form(), self.stored);
        page.reason = self.reason.map(Box::from);
        page.etag = self.etag.map(Box::from);
        page.last_modified = self.last_modified;
        for (coding, form) in CODED.into_iter().zip(&self.codings) {
            if let Some(form) = form {
                page.put_form(coding, form.map(|form| form.form()));
            }
        }
        page
    }
}

impl FormBytes<'_> {
    fn form(self) -> Form {
        Form::new(self.head, self.body)
    }
}

fn put_terms(out: &mut Vec<u8>, terms: &Terms) {
    for millis in [terms.ttl, terms.age, terms.stale_while_revalidate, terms.stale_if_error] {
        put_u64(out, millis);
    }
    out.push(u8::from(terms.no_cache));
    out.push(u8::from(terms.must_revalidate));
    put_u16(out, count(terms.vary.len()));
    terms.vary.iter().for_each(|name| put_bytes(out, name.as_bytes()));
    put_u16(out, count(terms.tags.len()));
    terms.tags.iter().for_each(|tag| put_u64(out, tag.0));
}

/// A larger count makes an unreadable record, so nothing wrong is stored.
fn count(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

fn read_terms(reader: &mut Reader<'_>) -> Result<Terms, Malformed> {
    Ok(Terms {
        ttl: reader.u64()?,
        age: reader.u64()?,
        stale_while_revalidate: reader.u64()?,
        stale_if_error: reader.u64()?,
        no_cache: reader.flag()?,
        must_revalidate: reader.flag()?,
        vary: {
            let count = reader.count(MOST_VARY)?;
            (0..count).map(|_| reader.text().map(Box::from)).collect::<Result<_, _>>()?
        },
        tags: {
            let count = reader.count(MOST_TAGS)?;
            (0..count).map(|_| reader.u64().map(Tag)).collect::<Result<_, _>>()?
        },
    })
}

fn put_page(out: &mut Vec<u8>, page: &Page) {
    put_u16(out, page.status);
    put_maybe(out, page.reason.as_deref().map(str::as_bytes));
    put_bytes(out, &page.fields);
    put_maybe(out, page.etag.as_deref().map(str::as_bytes));
    put_maybe(out, page.last_modified.map(u64::to_le_bytes).as_ref().map(|bytes| &bytes[..]));
    put_u64(out, page.stored);
    // Content that can be unpacked is not stored twice.
    let content = if page.can_be_slim() { &[] } else { page.identity().body() };
    put_bytes(out, page.identity().head());
    put_bytes(out, content);
    for coding in CODED {
        match page.form(coding) {
            Some(form) => {
                out.push(2);
                put_form(out, form);
            }
            None => out.push(u8::from(!page.lacks(coding))),
        }
    }
}

fn put_form(out: &mut Vec<u8>, form: &Form) {
    put_bytes(out, form.head());
    put_bytes(out, form.body());
}

fn read_page<'a>(reader: &mut Reader<'a>) -> Result<PageBytes<'a>, Malformed> {
    Ok(PageBytes {
        status: reader.u16()?,
        reason: reader.maybe_text()?,
        fields: reader.bytes()?,
        etag: reader.maybe_text()?,
        last_modified: match reader.maybe()? {
            None => None,
            Some(bytes) => Some(u64::from_le_bytes(bytes.try_into().map_err(|_| Malformed)?)),
        },
        stored: reader.u64()?,
        identity: read_form(reader)?,
        codings: [read_coding(reader)?, read_coding(reader)?, read_coding(reader)?],
    })
}

fn read_coding<'a>(reader: &mut Reader<'a>) -> Result<Option<Option<FormBytes<'a>>>, Malformed> {
    match reader.u8()? {
        0 => Ok(None),
        1 => Ok(Some(None)),
        2 => read_form(reader).map(|form| Some(Some(form))),
        _ => Err(Malformed),
    }
}

fn read_form<'a>(reader: &mut Reader<'a>) -> Result<FormBytes<'a>, Malformed> {
    Ok(FormBytes { head: reader.bytes()?, body: reader.bytes()? })
}
