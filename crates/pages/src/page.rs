//! A stored response: its fields, and its content in each coding made so far.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use millrace_wire::encoding::{CODINGS, Coding};

use crate::Millis;
use crate::store::heap;

/// A response of the application. Immutable except for codings, which may be added once each.
///
/// When memory is short, a page may be slim: without its uncoded content, which is seldom requested and takes most of
/// the memory. The Zstandard form contains it, too, and is the fastest to unpack.
#[derive(Debug)]
pub struct Page {
    /// Status code.
    pub status: u16,
    /// Reason phrase, if it is not the usual one.
    pub reason: Option<Box<str>>,
    /// `Name: value\r
    /// ` lines of the response, without the ones for the server and without ETag, Content-Encoding, Content-Length,
    /// Age, and Vary: Accept-Encoding.
    pub fields: Arc<[u8]>,
    /// The application's own entity-tag, unchanged: for validation with the application.
    pub etag: Option<Box<str>>,
    /// Seconds since 1970.
    pub last_modified: Option<u64>,
    /// When it arrived.
    pub stored: Millis,
    dated: bool,
    /// The uncoded content was sent to a client.
    plain_is_wanted: AtomicBool,
    identity: Form,
    codings: [OnceLock<Option<Form>>; CODINGS.len() - 1],
}

/// A page in one coding, ready to send. Fields and content share one allocation: if there are more pages than fit
/// into the processor's caches, each further access to memory costs a hit about as much as all of its instructions.
#[derive(Clone, Debug)]
pub struct Form {
    bytes: Arc<[u8]>,
    head: usize,
}

impl Page {
    /// A page with only the identity form.
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

    /// Whether `Date` is among its fields: the application set it.
    pub fn is_dated(&self) -> bool {
        self.dated
    }

    /// The uncoded form; every page has it. A slim page has only its fields there, no content.
    pub fn identity(&self) -> &Form {
        &self.identity
    }

    /// Whether its uncoded content must be unpacked from the form in [`Coding::Zstd`]. Empty content has no such
    /// form.
    pub fn is_slim(&self) -> bool {
        self.identity.body().is_empty() && self.form(Coding::Zstd).is_some()
    }

    /// Whether it can become slim: its uncoded content can be unpacked from another form, and no further coding will
    /// be made from it.
    pub fn can_be_slim(&self) -> bool {
        self.form(Coding::Zstd).is_some() && !CODINGS.into_iter().any(|coding| self.lacks(coding))
    }

    /// The same page without its uncoded content. `None`: it is already slim, or can't be.
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

    /// Whether both are the same response, slim or not.
    pub fn is_same(&self, other: &Page) -> bool {
        Arc::ptr_eq(&self.fields, &other.fields)
    }

    /// Notes that its uncoded content is being sent.
    #[inline]
    pub fn note_plain(&self) {
        if !self.plain_is_wanted.load(Ordering::Relaxed) {
            self.plain_is_wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Whether its uncoded content was sent since the last call.
    pub(crate) fn take_plain_is_wanted(&self) -> bool {
        self.plain_is_wanted.swap(false, Ordering::Relaxed)
    }

    /// The form in `coding`, if it was made and is worthwhile.
    pub fn form(&self, coding: Coding) -> Option<&Form> {
        match coding {
            Coding::Identity => Some(&self.identity),
            _ => self.codings[coding as usize].get()?.as_ref(),
        }
    }

    /// Whether this coding was not tried yet.
    pub fn lacks(&self, coding: Coding) -> bool {
        coding != Coding::Identity && self.codings[coding as usize].get().is_none()
    }

    /// Adds a coding; `None`: it is not worthwhile. False if another thread was first. Tell the store by
    /// [`Pages::grew`](crate::Pages::grew).
    pub fn put_form(&self, coding: Coding, form: Option<Form>) -> bool {
        coding != Coding::Identity && self.codings[coding as usize].set(form).is_ok()
    }

    /// Whether the application can validate it.
    pub fn has_validators(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }

    /// All memory that it owns, including itself in an `Arc`, bytes.
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

/// Bytes of a form that are prefetched before it is copied: beyond them the processor recognises the access pattern.
const SOON: usize = 4096;

/// Size of the two counters of an `Arc`.
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

    /// The field lines and, behind them, the content; and the length of the lines.
    pub fn shared(&self) -> (&Arc<[u8]>, usize) {
        (&self.bytes, self.head)
    }

    /// Prefetches the form, which will be sent in a moment.
    #[inline]
    pub fn prefetch(&self) {
        millrace_sys::prefetch_shared(&self.bytes, SOON);
    }

    fn memory(&self) -> usize {
        heap(ARC + self.bytes.len())
    }
}
