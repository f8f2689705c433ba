//! Input and results of the store.

use std::sync::Arc;

use super::fills::Variant;
use super::slim;
use crate::{Millis, Page, Terms};

/// Appends the value of a request's field by which a page varies; the name is in lower case.
pub type Select<'a> = &'a mut dyn FnMut(&str, &mut Vec<u8>);

/// The result of [`Pages::look`](crate::Pages::look). `Option<F>`: the running fill for this request, if there is
/// one. A fill that began before the last purge is not returned, because its page may be outdated.
#[derive(Clone, Debug)]
pub enum Lookup<F> {
    /// May be sent.
    Fresh(Hit),
    /// May be sent only as far as [`Grace`] allows, or after validation.
    Stale(Hit, Grace, Option<F>),
    /// Nothing is stored.
    Miss(Option<F>),
    /// Known to be uncacheable: don't wait, and don't register a fill.
    Pass,
    /// The page has the maximum of variants, and this is another one: the same.
    Full,
}

/// A page that was found.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The page.
    pub page: Arc<Page>,
    /// For the `Age` field.
    pub age: Millis,
    /// Milliseconds of freshness left; 0 or less if stale.
    pub ttl_left: i64,
}

/// The permitted uses of a stale page. None: only for validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// May be sent while a fill runs.
    pub while_revalidating: bool,
    /// May be sent if the application fails or is overloaded.
    pub on_error: bool,
    /// It is stale because of a soft purge: its content is known to have changed. The times still count from the end
    /// of its lifetime.
    pub purged: bool,
}

/// The task that runs a fill holds it, and ends the fill by giving it back: `store`, `freshen`, `pass` or `abandon`.
#[derive(Debug)]
#[must_use = "a fill that is not ended is waited for"]
pub struct Ticket {
    pub(super) key: Box<[u8]>,
    pub(super) hash: u64,
    /// Number of the fill, in the order of beginning.
    pub(super) number: u64,
    /// The last purge before the fill began: later ones apply to its page.
    pub(super) begun: u64,
    /// The requested variant, if the page was known to have variants.
    pub(super) variant: Option<Variant>,
}

impl Ticket {
    /// Bytes of the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Whether all requests that wait for the fill have the same values for these fields: then they may have its page
    /// without another lookup.
    pub fn is_for_all(&self, vary: &[Box<str>]) -> bool {
        let known = self.variant.as_ref().map_or(&[][..], |variant| &variant.vary);
        vary.iter().all(|name| known.contains(name))
    }

    /// The requested variant, if the page was known to have variants when the fill began.
    pub fn variant(&self) -> Option<&[u8]> {
        self.variant.as_ref().map(|variant| &*variant.values)
    }
}

/// Like a running fill for all keys: while it is held, purges are remembered for pages that are inserted with it.
#[derive(Debug)]
#[must_use = "purges are remembered as long as it is held"]
pub struct Hold {
    pub(super) begun: u64,
}

/// The result of storing a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// It is stored.
    Fresh,
    /// Stored as stale: one of its tags was purged softly during the fill.
    Stale,
    /// Not stored: one of its tags was purged during the fill.
    Purged,
    /// Not stored: it is no longer useful. Only for pages from disk.
    Expired,
    /// Not stored: larger than a quarter of the budget.
    TooLarge,
    /// Not stored: the page has too many variants, or varies by too much.
    TooManyVariants,
    /// Not stored: there is a newer one.
    Superseded,
}

/// All that the store knows about a page, to write it to disk and to insert it again.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The page.
    pub page: Arc<Page>,
    /// Its terms; `vary` names the fields in `variant`.
    pub terms: Arc<Terms>,
    /// Opaque; empty if there is only one variant.
    pub variant: Box<[u8]>,
    /// When it was stored or validated.
    pub came: Millis,
    /// A soft purge made it stale.
    pub purged: bool,
}

/// A frequently requested page that is stale or was purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Bytes of its key.
    pub key: Box<[u8]>,
    /// Its variant; `vary` of its terms names the fields in it.
    pub variant: Box<[u8]>,
    /// Number of requests.
    pub hits: u32,
}

/// Figures of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// All memory that counts against the budget, bytes.
    pub bytes: usize,
    /// Of this, memory other than pages, terms and keys: slots, index, tags, ghosts, fills, bans.
    pub overhead: usize,
    /// The budget.
    pub budget: usize,
    /// Stored pages, each variant counted.
    pub pages: usize,
    /// Marks "uncacheable".
    pub marks: usize,
    /// Running fills.
    pub fills: usize,
    /// Different tags of the stored pages.
    pub tags: usize,
    /// Prefix purges that have not been applied to every page yet.
    pub bans: usize,
    /// Pages and marks evicted because memory was short, since the start.
    pub evicted: u64,
    /// Pages removed because of purges, since the start. They are removed when they are found, not at once.
    pub purged: u64,
    /// Pages and marks removed because they were no longer useful, since the start.
    pub expired: u64,
    /// Pages whose uncoded content was dropped because memory was short, since the start.
    pub slimmed: u64,
}

impl StoreUsage {
    /// Whether little of the budget is left: pages should be slim.
    pub fn is_tight(&self) -> bool {
        slim::is_tight(self.bytes, self.budget)
    }

    /// Adds the figures of another shard.
    pub fn add(&mut self, other: &StoreUsage) {
        self.bytes += other.bytes;
        self.overhead += other.overhead;
        self.budget += other.budget;
        self.pages += other.pages;
        self.marks += other.marks;
        self.fills += other.fills;
        self.tags += other.tags;
        self.bans += other.bans;
        self.evicted += other.evicted;
        self.purged += other.purged;
        self.expired += other.expired;
        self.slimmed += other.slimmed;
    }
}
