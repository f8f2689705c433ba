//! What the store is told, and what it answers.

use std::sync::Arc;

use super::fills::Variant;
use super::slim;
use crate::{Millis, Page, Terms};

/// Appends the normalised value that the request has for a field that a page varies by; the name is in lower case.
pub type Select<'a> = &'a mut dyn FnMut(&str, &mut Vec<u8>);

/// What [`Pages::look`](crate::Pages::look) found. `Option<F>`: the fill that runs already, if one does that will bring
/// what is asked for now: one that began before the last purge is not named, for it may bring what was purged.
#[derive(Clone, Debug)]
pub enum Lookup<F> {
    /// To be sent as it is.
    Fresh(Hit),
    /// Not to be sent but as far as [`Grace`] allows, or after validating.
    Stale(Hit, Grace, Option<F>),
    /// Nothing is there.
    Miss(Option<F>),
    /// Known to be uncacheable, or it has too many variants: don't wait for anybody, don't register a fill.
    Pass,
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

/// What a stale page may be used for. Neither: only for validating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// May be sent while a fill runs.
    pub while_revalidating: bool,
    /// May be sent if the application fails or is overloaded.
    pub on_error: bool,
    /// It is stale because of a soft purge: its content is known to have changed. The windows still count from the end
    /// of its lifetime.
    pub purged: bool,
}

/// Who runs a fill holds it, and ends the fill by giving it back: `store`, `freshen`, `pass` or `abandon`.
#[derive(Debug)]
#[must_use = "a fill that is not ended is waited for"]
pub struct Ticket {
    pub(super) key: Box<[u8]>,
    pub(super) hash: u64,
    /// Fills are numbered as they begin.
    pub(super) number: u64,
    /// The last purge when the fill began: later ones concern what it brings.
    pub(super) begun: u64,
    /// The variant asked for, if the page was known to have variants.
    pub(super) variant: Option<Variant>,
}

impl Ticket {
    /// Bytes of the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Whether all who wait for the fill have the same values for these fields: then they may have what it brings, without
    /// looking again.
    pub fn is_for_all(&self, vary: &[Box<str>]) -> bool {
        let known = self.variant.as_ref().map_or(&[][..], |variant| &variant.vary);
        vary.iter().all(|name| known.contains(name))
    }

    /// The variant asked for, if the page was known to have variants when the fill began.
    pub fn variant(&self) -> Option<&[u8]> {
        self.variant.as_ref().map(|variant| &*variant.values)
    }
}

/// Like a running fill for all keys: purges that come while it is held are remembered for pages that are inserted by it.
#[derive(Debug)]
#[must_use = "purges are remembered as long as it is held"]
pub struct Hold {
    pub(super) begun: u64,
}

/// What became of an answer that was given to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// It is stored.
    Fresh,
    /// It is stored as stale: one of its tags was purged softly while it was on its way.
    Stale,
    /// Not stored: one of its tags was purged while it was on its way.
    Purged,
    /// Not stored: it is of no use any more. Only what comes from disk.
    Expired,
    /// Not stored: larger than a quarter of the budget.
    TooLarge,
    /// Not stored: the page has too many variants, or varies by too much.
    TooManyVariants,
    /// Not stored: there is a newer one.
    Superseded,
}

/// All that is known of a stored page, to write it to disk and to insert it again.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The page.
    pub page: Arc<Page>,
    /// Its terms; `vary` names what `variant` was made of.
    pub terms: Arc<Terms>,
    /// Opaque; empty if there is only one.
    pub variant: Box<[u8]>,
    /// When it was stored or validated.
    pub came: Millis,
    /// A soft purge made it stale.
    pub purged: bool,
}

/// A page that is asked for often, but is stale or was purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Bytes of its key.
    pub key: Box<[u8]>,
    /// Which variant of it; `vary` of its terms names what it was made of.
    pub variant: Box<[u8]>,
    /// How often it was asked for.
    pub hits: u32,
}

/// Figures of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// All that is counted against the budget.
    pub bytes: usize,
    /// Of these, what is neither page, terms nor key: slots, index, tags, ghosts, fills, bans.
    pub overhead: usize,
    /// The budget.
    pub budget: usize,
    /// Stored pages, each variant counted.
    pub pages: usize,
    /// Marks "uncacheable".
    pub marks: usize,
    /// Fills that run.
    pub fills: usize,
    /// Different tags of the stored pages.
    pub tags: usize,
    /// Prefix purges that are not applied to every page yet.
    pub bans: usize,
    /// Pages and marks removed for want of memory, since the start.
    pub evicted: u64,
    /// Pages removed because they were purged, since the start. They are removed when they are found, not at once.
    pub purged: u64,
    /// Pages and marks removed because they were of no use any more, since the start.
    pub expired: u64,
    /// Pages whose uncoded content was dropped for want of memory, since the start.
    pub slimmed: u64,
}

impl StoreUsage {
    /// Whether little is left of the budget: pages had better be slim.
    pub fn is_tight(&self) -> bool {
        slim::is_tight(self.bytes, self.budget)
    }

    /// Adds another shard's.
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
