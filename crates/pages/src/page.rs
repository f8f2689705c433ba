//! A stored answer: its fields, and its content in each coding that was made so far.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use millrace_wire::encoding::{CODINGS, Coding};

use crate::Millis;
use crate::store::heap;

/// An answer of the application. Immutable but for codings, which may be added once each.
///
/// Where memory is short a page may be kept slim: without its uncoded content, which seldom anybody asks for and which takes
/// most of it. It is in the Zstandard form, too, and that is the one that is unpacked the fastest.
#[derive(Debug)]
pub struct Page {
    /// Status code.
    pub status: u16,
    /// Reason phrase, if it is not the usual one.
    pub reason: Option<Box<str>>,
    /// `Name: value\r\n` lines of the answer, without what is meant for us and without ETag, Content-Encoding,
    /// Content-Length, Age, and Vary: Accept-Encoding.
    pub fields: Arc<[u8]>,
    /// The application's own, as it came: for validating with the application.
    pub etag: Option<Box<str>>,
    /// Seconds since 1970.
    pub last_modified: Option<u64>,
    /// When it came.
    pub stored: Millis,
    dated: bool,
    /// Somebody was sent the uncoded content.
    plain_is_wanted: AtomicBool,
    identity: Form,
    codings: [OnceLock<Option<Form>>; CODINGS.len() - 1],
}

/// A page in one coding, ready to send. Fields and content lie together: where there are more pages than a processor's
/// caches hold, each other place in memory costs a hit about as much as all of its instructions.
#[derive(Clone, Debug)]
pub struct Form {
    bytes: Arc<[u8]>,
    head: usize,
}

impl Page {
    /// A page in no coding but identity.
    pub fn new(status: u16, fields: impl Into<Arc<[u8]>>, identity: Form, stored: Millis) -> Page {
        let fields = fields.into();
        let dated = fields.split(|b| *b == b'\n').any(|line| line.starts_with(b"Date: "));
        Page {
            status,
            reason: None,
            dated,
            fields,
            etag: None,
            last_modified: None,
            stored,
            plain_is_wanted: AtomicBool::new(false),
            identity,
            codings: Default::default(),
        }
    }

    /// Whether `Date` is among its fields: the application said when it was made.
    pub fn is_dated(&self) -> bool {
        self.dated
    }

    /// Uncoded; every page has it. A slim one has its fields there, and no content.
    pub fn identity(&self) -> &Form {
        &self.identity
    }

    /// Whether its uncoded content has to be unpacked from the form in [`Coding::Zstd`]. Empty content has no such form.
    pub fn is_slim(&self) -> bool {
        self.identity.body().is_empty() && self.form(Coding::Zstd).is_some()
    }

    /// Whether it can do without its uncoded content: that can be unpacked from another form, and no coding is still to be
    /// made of it.
    pub fn can_be_slim(&self) -> bool {
        self.form(Coding::Zstd).is_some() && !CODINGS.into_iter().any(|coding| self.lacks(coding))
    }

    /// The same page without its uncoded content. `None`: it is slim already, or can't be.
    pub fn slim(&self) -> Option<Page> {
        if self.is_slim() || !self.can_be_slim() {
            return None;
        }
        Some(Page {
            status: self.status,
            reason: self.reason.clone(),
            fields: Arc::clone(&self.fields),
            etag: self.etag.clone(),
            last_modified: self.last_modified,
            stored: self.stored,
            dated: self.dated,
            plain_is_wanted: AtomicBool::new(false),
            identity: Form::new(self.identity.head(), b""),
            codings: self.codings.clone(),
        })
    }

    /// Whether both are the same answer, slim or not.
    pub fn is_same(&self, other: &Page) -> bool {
        Arc::ptr_eq(&self.fields, &other.fields)
    }

    /// Its uncoded content is being sent.
    #[inline]
    pub fn note_plain(&self) {
        if !self.plain_is_wanted.load(Ordering::Relaxed) {
            self.plain_is_wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Whether its uncoded content was sent since this was last asked.
    pub(crate) fn take_plain_is_wanted(&self) -> bool {
        self.plain_is_wanted.swap(false, Ordering::Relaxed)
    }

    /// The page in `coding`, if it was made, and if it was worth it.
    pub fn form(&self, coding: Coding) -> Option<&Form> {
        match coding {
            Coding::Identity => Some(&self.identity),
            _ => self.codings[coding as usize].get()?.as_ref(),
        }
    }

    /// Whether nobody has tried yet to make this coding.
    pub fn lacks(&self, coding: Coding) -> bool {
        coding != Coding::Identity && self.codings[coding as usize].get().is_none()
    }

    /// Adds a coding; none: it is not worth it. False if somebody else was first. Tell the store by
    /// [`Pages::grew`](crate::Pages::grew).
    pub fn put_form(&self, coding: Coding, form: Option<Form>) -> bool {
        coding != Coding::Identity && self.codings[coding as usize].set(form).is_ok()
    }

    /// Whether the application could say of it that it has not changed.
    pub fn has_validators(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }

    /// All memory that it owns, and itself behind an `Arc`.
    pub fn bytes(&self) -> usize {
        let codings = self.codings.iter().filter_map(|coding| coding.get()?.as_ref());
        heap(ARC + size_of::<Page>())
            + self.reason.as_ref().map_or(0, |reason| heap(reason.len()))
            + self.etag.as_ref().map_or(0, |etag| heap(etag.len()))
            + heap(ARC + self.fields.len())
            + self.identity.memory()
            + codings.map(Form::memory).sum::<usize>()
    }
}

/// How much of a form is fetched before it is copied: of more, the processor sees by itself where the copying goes. Bytes.
const SOON: usize = 4096;

/// The two counts that an `Arc` adds.
pub(crate) const ARC: usize = 2 * size_of::<usize>();

impl Form {
    /// `head`: all field lines, with the ETag of this form, Vary and Content-Encoding; `body`: the content.
    pub fn new(head: &[u8], body: &[u8]) -> Form {
        Form { bytes: [head, body].concat().into(), head: head.len() }
    }

    /// The field lines.
    pub fn head(&self) -> &[u8] {
        &self.bytes[..self.head]
    }

    /// The content.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.head..]
    }

    /// The field lines and, behind them, the content; and how long the former are.
    pub fn shared(&self) -> (&Arc<[u8]>, usize) {
        (&self.bytes, self.head)
    }

    /// It will be sent in a moment.
    #[inline]
    pub fn prefetch(&self) {
        millrace_sys::prefetch_shared(&self.bytes, SOON);
    }

    fn memory(&self) -> usize {
        heap(ARC + self.bytes.len())
    }
}
