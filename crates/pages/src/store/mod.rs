//! The store: one shard of the cache.
//!
//! [`Pages`] and its lookups are here; `keep` stores pages, `clean` removes them, `slim` makes them smaller, `peek`
//! looks without a trace. Below them are `slots` (the entries) and their `index`, `queues` (eviction), `purges` (tags, generations, prefixes),
//! `fills` (running PHP), and `life` (freshness).

mod answers;
mod clean;
mod fills;
mod index;
mod keep;
pub(crate) mod life;
mod peek;
mod purges;
mod queues;
mod slim;
mod slots;
mod verify;

use std::sync::Arc;

pub use answers::{Grace, Hit, Hold, Kept, Lookup, Select, StoreOutcome, StoreUsage, Ticket, Wanted};
pub use keep::{MOST_VARY, REMEMBERED};
pub use life::RETAINED;
pub use peek::{Peek, PeekEntry, PeekPage};
pub use purges::MOST_BANS;

use crate::key::LONGEST_KEY;
use crate::{Hardness, Key, Millis, Page, Purge};
use clean::Sweep;
use fills::{Fills, Variant, Vary};
use life::Freshness;
use purges::Purges;
use queues::{Ghosts, Queues};
use slim::Slimming;
use slots::{Body, Fork, Mark, NONE, PURGED, PageSlot, Slots, UNUSABLE};

/// Maximum number of variants of a page, unless [`Pages::set_most_variants`] changes it; responses for further ones
/// are not stored.
pub const MOST_VARIANTS: usize = 64;

/// One shard of the cache. `F` is the server's handle of a running fill, cheap to clone.
pub struct Pages<F> {
    slots: Slots,
    queues: Queues,
    ghosts: Ghosts,
    purges: Purges,
    fills: Fills<F>,
    sweep: Sweep,
    budget: usize,
    /// Maximum number of variants of a page.
    most_variants: usize,
    /// The latest time that was passed in.
    latest: Millis,
    /// Number of the last fill.
    number: u64,
    /// The values of the variant being looked up.
    values: Vec<u8>,
    evicted: u64,
    purged: u64,
    expired: u64,
    slimming: Slimming,
}

impl<F: Clone> Pages<F> {
    /// An empty shard with a budget of `budget` bytes.
    pub fn new(budget: usize) -> Self {
        Pages {
            slots: Slots::default(),
            queues: Queues::default(),
            ghosts: Ghosts::default(),
            purges: Purges::default(),
            fills: Fills::default(),
            sweep: Sweep::default(),
            budget,
            most_variants: MOST_VARIANTS,
            latest: 0,
            number: 0,
            values: Vec::new(),
            evicted: 0,
            purged: 0,
            expired: 0,
            slimming: Slimming::default(),
        }
    }

    /// Prefetches what the lookup of this key needs.
    #[inline]
    pub fn expect(&self, key: Key<'_>) {
        self.slots.expect(key.hash);
    }

    /// Looks up a request. Does not allocate if the page is fresh.
    pub fn look(&mut self, key: Key<'_>, select: Select<'_>, now: Millis) -> Lookup<F> {
        self.latest = now;
        let Some(mut at) = self.slots.find(key.hash, key.bytes) else {
            return Lookup::Miss(self.fills.find(key, None, self.purges.last()));
        };
        let mut asked = None;
        if let Some(fork) = self.slots.fork(at) {
            let vary = Arc::clone(&fork.vary);
            match self.variant(at, key, &vary, select) {
                Ok(Some(variant)) => at = variant,
                Ok(None) => return self.miss(key, Some(&vary)),
                Err(TooMany) => return Lookup::Full,
            }
            asked = Some(vary);
        }
        let last = self.purges.last();
        if self.slots.get(at).checked != last && self.is_purged(at) {
            self.purged += 1;
            self.discard(at);
            return self.miss(key, asked.as_ref());
        }
        let slot = self.slots.get_mut(at);
        slot.hits = slot.hits.saturating_add(1);
        slot.lately = (slot.lately + 1).min(3);
        match &slot.body {
            Body::Page(page) if now < slot.expires && slot.flags & (PURGED | UNUSABLE) == 0 => {
                Lookup::Fresh(Hit {
                    page: Arc::clone(page),
                    age: now.saturating_sub(slot.born),
                    ttl_left: (slot.expires - now) as i64,
                })
            }
            Body::Page(_) => self.stale(at, key, asked.as_ref(), now),
            Body::Mark(_) if now < slot.expires => Lookup::Pass,
            Body::Mark(_) | Body::Fork(_) => {
                self.expired += 1;
                self.discard(at);
                self.miss(key, asked.as_ref())
            }
        }
    }

    /// Whether the page with this key is known to have variants.
    pub fn has_variants(&self, key: Key<'_>) -> bool {
        self.slots.find(key.hash, key.bytes).is_some_and(|at| self.slots.fork(at).is_some())
    }

    /// The result for a page that is not fresh.
    fn stale(&mut self, at: u32, key: Key<'_>, vary: Option<&Vary>, now: Millis) -> Lookup<F> {
        let state = self.state(at, now);
        let slot = self.slots.get(at);
        match (&slot.body, state) {
            (Body::Page(page), Freshness::Stale(grace)) => {
                let fill = self.filling(key, vary);
                let left = (slot.expires as i64).saturating_sub(now as i64).min(0);
                let age = now.saturating_sub(slot.born);
                Lookup::Stale(Hit { page: Arc::clone(page), age, ttl_left: left }, grace, fill)
            }
            _ => {
                self.expired += 1;
                self.discard(at);
                self.miss(key, vary)
            }
        }
    }

    /// The result if nothing is stored; `vary`: the fields by which the page varied. Without a living variant they
    /// are forgotten.
    fn miss(&mut self, key: Key<'_>, vary: Option<&Vary>) -> Lookup<F> {
        let known = self.top(key).is_some_and(|at| self.slots.fork(at).is_some());
        self.evict();
        Lookup::Miss(self.filling(key, vary.filter(|_| known)))
    }

    /// Registers a fill, after `look` returned none. `select` belongs to the request for which the fill runs.
    pub fn lead(&mut self, key: Key<'_>, select: Select<'_>, fill: F) -> Ticket {
        self.number += 1;
        let at = self.top(key);
        let vary = at.and_then(|at| Some(Arc::clone(&self.slots.fork(at)?.vary)));
        let variant = vary.map(|vary| {
            values(&vary, select, &mut self.values);
            Variant { vary, values: self.values.as_slice().into() }
        });
        let begun = self.purges.begin();
        self.fills.add(key, variant.clone(), self.number, begun, fill);
        self.evict();
        Ticket { key: key.bytes.into(), hash: key.hash, number: self.number, begun, variant }
    }

    /// The fill failed; stored pages stay. Ends the fill.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.end(&ticket);
        self.evict();
    }

    /// Purges. Returns how many stored pages it covers, including ones that are stale or were purged before but not
    /// removed yet: exact for tags and everything; for prefixes an estimate by a sample if there are more than 1,024
    /// pages.
    ///
    /// The cost does not depend on the number of pages, unless more than [`MOST_BANS`] prefix purges have come since
    /// all pages were checked ([`sweep`](Self::sweep)): then all pages are checked at once.
    pub fn purge(&mut self, what: &Purge, how: Hardness) -> usize {
        let count = match what {
            Purge::Everything => {
                self.purges.purge(None, how);
                self.slots.pages()
            }
            Purge::Tag(tag) => self.purges.purge(Some(*tag), how),
            Purge::Prefix { .. } => {
                let count = self.covered(what);
                if !self.purges.ban(what, how) {
                    self.check_all();
                }
                count
            }
        };
        self.evict();
        count
    }

    /// A coding was added to `page`: its memory is counted again. If memory is short, the page becomes slim.
    pub fn grew(&mut self, key: Key<'_>, page: &Arc<Page>) {
        let Some(at) = self.holding(key, page) else { return };
        self.weigh(at);
        if self.is_tight() {
            self.slim(at);
        }
        self.evict();
    }

    /// Changes the maximum number of variants of a page; pages that already have more keep them until they expire.
    pub fn set_most_variants(&mut self, most: usize) {
        self.most_variants = most.max(1);
    }

    /// Changes the budget; evicts the excess at once.
    pub fn set_budget(&mut self, bytes: usize) {
        self.budget = bytes;
        self.evict();
    }

    /// Figures.
    pub fn usage(&self) -> StoreUsage {
        let overhead = self.overhead();
        StoreUsage {
            bytes: self.bytes(),
            overhead,
            budget: self.budget,
            pages: self.slots.pages(),
            marks: self.slots.marks(),
            fills: self.fills.len(),
            tags: self.purges.tags(),
            bans: self.purges.bans(),
            evicted: self.evicted,
            purged: self.purged,
            expired: self.expired,
            slimmed: self.slimming.slimmed,
        }
    }

    /// From now on purges are remembered for pages that [`insert`](Self::insert) stores. Must be released.
    pub fn hold(&mut self) -> Hold {
        let begun = self.purges.begin();
        self.evict();
        Hold { begun }
    }

    /// Ends a hold.
    pub fn release(&mut self, hold: Hold) {
        self.purges.end(hold.begun);
        self.evict();
    }

    /// All that the store knows about `page`, if it is stored and not purged hard.
    pub fn kept(&self, key: Key<'_>, page: &Arc<Page>) -> Option<Kept> {
        self.kept_at(self.holding(key, page)?, key)
    }

    /// As [`kept`](Self::kept), for the page of a variant in the form of [`Kept`].
    pub fn kept_variant(&self, key: Key<'_>, variant: &[u8]) -> Option<Kept> {
        let at = match variant {
            [] => self.slots.find(key.hash, key.bytes)?,
            _ => self.slots.find_variant(variant_hash(key.hash, variant), key.bytes, variant)?,
        };
        self.kept_at(at, key)
    }

    fn kept_at(&self, at: u32, key: Key<'_>) -> Option<Kept> {
        let slot = self.slots.get(at);
        let (Body::Page(page), Some(terms)) = (&slot.body, &slot.terms) else { return None };
        let verdict = self.purges.verdict(slot.checked, key.bytes, &terms.tags);
        (verdict != Some(Hardness::Hard)).then(|| Kept {
            page: Arc::clone(page),
            terms: Arc::clone(terms),
            variant: slot.variant().into(),
            came: slot.came(),
            purged: slot.flags & PURGED != 0 || verdict.is_some(),
        })
    }

    /// The slot of the requested variant of the fork at `at`. Leaves its values in `self.values`.
    fn variant(
        &mut self,
        at: u32,
        key: Key<'_>,
        vary: &[Box<str>],
        select: Select<'_>,
    ) -> Result<Option<u32>, TooMany> {
        values(vary, select, &mut self.values);
        if self.values.len() > LONGEST_KEY {
            return Err(TooMany);
        }
        let hash = variant_hash(key.hash, &self.values);
        let found = self.slots.find_variant(hash, key.bytes, &self.values);
        if found.is_some() || self.has_room(at) { Ok(found) } else { Err(TooMany) }
    }

    /// The entry of a key itself; a fork only if one of its variants lives, otherwise it is removed.
    fn top(&mut self, key: Key<'_>) -> Option<u32> {
        let at = self.slots.find(key.hash, key.bytes)?;
        let Some(mut variant) = self.slots.fork(at).map(|fork| fork.first) else { return Some(at) };
        while variant != NONE {
            if !self.is_dead(variant) {
                return Some(at);
            }
            variant = self.slots.get(variant).after;
        }
        self.discard_fork(key);
        None
    }

    /// Whether an entry is purged or no longer useful.
    fn is_dead(&mut self, at: u32) -> bool {
        self.is_purged(at) || self.state(at, self.latest) == Freshness::Useless
    }

    /// The running fill for the page, or for the variant whose values are in `self.values`.
    fn filling(&self, key: Key<'_>, vary: Option<&Vary>) -> Option<F> {
        self.fills.find(key, vary.map(|vary| (vary, self.values.as_slice())), self.purges.last())
    }

    /// Checks an entry against purges since its last check; returns whether it is gone.
    fn is_purged(&mut self, at: u32) -> bool {
        let last = self.purges.last();
        let slot = self.slots.get(at);
        if slot.checked == last || matches!(slot.body, Body::Fork(_)) {
            return false;
        }
        let verdict = self.purges.verdict(slot.checked, slot.key(), slot.tags());
        let slot = self.slots.get_mut(at);
        match verdict {
            // A gone entry stays unchecked: the next check gives the same result.
            Some(Hardness::Hard) => return true,
            Some(Hardness::Soft) if matches!(slot.body, Body::Mark(_)) => return true,
            Some(Hardness::Soft) => slot.flags |= PURGED,
            None => {}
        }
        slot.checked = last;
        false
    }

    /// The state of a checked page at this time; marks are fresh until they end.
    fn state(&self, at: u32, now: Millis) -> Freshness {
        let slot = self.slots.get(at);
        match (&slot.body, &slot.terms) {
            (Body::Page(page), Some(terms)) => {
                life::state(terms, slot.expires, slot.flags & PURGED != 0, page.has_validators(), now)
            }
            (Body::Mark(_), _) if now >= slot.expires => Freshness::Useless,
            _ => Freshness::Fresh,
        }
    }

    /// The slot that holds `page`.
    fn holding(&self, key: Key<'_>, page: &Arc<Page>) -> Option<u32> {
        let at = self.slots.find(key.hash, key.bytes)?;
        let holds = |at: &u32| matches!(&self.slots.get(*at).body, Body::Page(its) if its.is_same(page));
        if holds(&at) { Some(at) } else { self.slots.variants(at).find(holds) }
    }

    fn end(&mut self, ticket: &Ticket) {
        self.fills.remove(ticket.hash, ticket.number);
        self.purges.end(ticket.begun);
    }

    /// All memory that counts against the budget.
    fn bytes(&self) -> usize {
        self.overhead() + self.slots.owned()
    }

    fn overhead(&self) -> usize {
        self.slots.overhead()
            + self.ghosts.bytes()
            + self.purges.bytes()
            + self.fills.bytes()
            + self.sweep.bytes()
            + heap(self.values.capacity())
    }
}

/// The page has the maximum of variants, or a variant's values are too long.
struct TooMany;

/// The hash under which a variant is indexed.
fn variant_hash(hash: u64, values: &[u8]) -> u64 {
    hash.rotate_left(23) ^ Key::new(values).hash
}

/// Writes a request's values for the fields of `vary`, each after its length: they distinguish variants.
fn values(vary: &[Box<str>], select: Select<'_>, out: &mut Vec<u8>) {
    out.clear();
    for name in vary {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        select(name, out);
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// The allocator's real size for a block of `bytes`: glibc's header of 8 bytes, rounded up to 16, at least 32.
pub(crate) fn heap(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { ((bytes + 8).next_multiple_of(16)).max(32) }
}
