//! Stores pages.

use std::sync::Arc;

use super::life::{self, Freshness};
use super::purges::Bearer;
use super::queues::Queue;
use super::{
    Body, Fork, Hold, Kept, LONGEST_KEY, Mark, PURGED, PageSlot, Pages, Select, StoreOutcome, Ticket,
    UNUSABLE,
};
use super::{heap, values, variant_hash};
use crate::page::ARC;
use crate::terms::MOST_TAGS;
use crate::{Hardness, Key, Millis, Page, Tag, Terms};

/// Maximum number of request fields by which a page may vary.
pub const MOST_VARY: usize = 16;

/// How long a response that is too large or has too many variants is marked as uncacheable, in milliseconds.
pub const REMEMBERED: Millis = 120_000;

/// A page and its fill.
struct New {
    page: Arc<Page>,
    terms: Terms,
    came: Millis,
    /// Number of its fill; 0: it comes from disk.
    number: u64,
    /// The last purge before its fill began.
    begun: u64,
    purged: bool,
}

impl<F: Clone> Pages<F> {
    /// Stores the page of a fill, and ends it. `select` belongs to the request for which the fill ran. A page that is
    /// too large or has too many variants is marked uncacheable for [`REMEMBERED`].
    pub fn store(
        &mut self,
        ticket: Ticket,
        select: Select<'_>,
        page: Arc<Page>,
        terms: Terms,
        now: Millis,
    ) -> StoreOutcome {
        self.latest = now;
        let (number, begun) = (ticket.number, ticket.begun);
        let key = Key { bytes: &ticket.key, hash: ticket.hash };
        let tags = terms.tags.clone();
        let new = New { page, terms, came: now, number, begun, purged: false };
        let stored = self.put(key, select, new);
        if matches!(stored, StoreOutcome::TooLarge | StoreOutcome::TooManyVariants) {
            self.mark(&ticket, tags, now.saturating_add(REMEMBERED));
        }
        self.end(&ticket);
        self.evict();
        stored
    }

    /// The response of a fill is uncacheable: [`Look::Pass`](crate::Lookup::Pass) until `until`, or until a purge
    /// covers its key or one of its `tags`, at most [`MOST_TAGS`]. Ends the fill. False if such a purge has already
    /// happened during the fill, or if something newer is known.
    pub fn pass(&mut self, ticket: Ticket, tags: Box<[Tag]>, until: Millis) -> bool {
        debug_assert!(tags.len() <= MOST_TAGS);
        let marked = self.mark(&ticket, tags, until);
        self.end(&ticket);
        self.evict();
        marked
    }

    /// The application said that the stored page has not changed (304): it is treated as if it had arrived now, with
    /// `terms`, and with other fields if `page` is given. Ends the fill. Returns the page to send; `None` if it is
    /// gone.
    pub fn freshen(
        &mut self,
        ticket: Ticket,
        select: Select<'_>,
        page: Option<Arc<Page>>,
        terms: Terms,
        now: Millis,
    ) -> Option<Arc<Page>> {
        self.latest = now;
        let key = Key { bytes: &ticket.key, hash: ticket.hash };
        let found = self.stored_for(key, &mut *select).map(|found| page.unwrap_or(found));
        let page = found.filter(|page| {
            let (number, begun) = (ticket.number, ticket.begun);
            let new = New { page: Arc::clone(page), terms, came: now, number, begun, purged: false };
            self.put(key, select, new) != StoreOutcome::Purged
        });
        self.end(&ticket);
        self.evict();
        page
    }

    /// Stores a page that an earlier process has written to disk, unless there is something newer.
    pub fn insert(&mut self, hold: &Hold, key: Key<'_>, kept: Kept, now: Millis) -> StoreOutcome {
        self.latest = now;
        let Kept { page, terms, variant, came, purged } = kept;
        if self.is_tight() {
            // Earlier pages may have content that they don't need.
            self.slim_one();
        }
        let came = came.min(now);
        let new = New { page, terms: (*terms).clone(), came, number: 0, begun: hold.begun, purged };
        let expires = life::expiry(&new.terms, came, key.hash);
        if life::state(&new.terms, expires, purged, new.page.has_validators(), now) == Freshness::Useless {
            return StoreOutcome::Expired;
        }
        if let Some(at) = self.top(key).filter(|at| !self.is_dead(*at)) {
            let hash = variant_hash(key.hash, &variant);
            let beside = self.slots.fork(at).is_some_and(|fork| *fork.vary == *terms.vary);
            let found = self.slots.find_variant(hash, key.bytes, &variant);
            if !beside || found.is_some_and(|at| !self.is_dead(at)) {
                return StoreOutcome::Superseded;
            }
        }
        // The values are known; only their boundaries are not.
        let mut rest = &variant[..];
        let mut select = |_: &str, out: &mut Vec<u8>| {
            let Some((length, tail)) = rest.split_first_chunk::<4>() else { return };
            let (value, tail) =
                tail.split_at_checked(u32::from_le_bytes(*length) as usize).unwrap_or((tail, &[]));
            out.extend_from_slice(value);
            rest = tail;
        };
        let stored = self.put(key, &mut select, new);
        self.evict();
        stored
    }

    /// Puts a page at its position.
    fn put(&mut self, key: Key<'_>, select: Select<'_>, mut new: New) -> StoreOutcome {
        debug_assert!(new.terms.tags.len() <= MOST_TAGS && key.bytes.len() <= LONGEST_KEY);
        match self.purges.verdict_on_fill(new.begun, key.bytes, &new.terms.tags) {
            Some(Hardness::Hard) => return StoreOutcome::Purged,
            Some(Hardness::Soft) => new.purged = true,
            None => {}
        }
        if new.page.bytes() > self.budget / 4 {
            return StoreOutcome::TooLarge;
        }
        let stored = if new.purged { StoreOutcome::Stale } else { StoreOutcome::Fresh };
        let mut at = self.top(key);
        if at.is_some_and(|at| self.number_at(at) > new.number) {
            return StoreOutcome::Superseded;
        }
        let known = at.and_then(|at| self.slots.fork(at)).map(|fork| Arc::clone(&fork.vary));
        if known.is_none() && new.terms.vary.is_empty() {
            self.put_at(at, key, &[], new);
            return stored;
        }
        let vary = union(known.as_deref().unwrap_or_default(), &new.terms.vary);
        if vary.len() > MOST_VARY {
            return StoreOutcome::TooManyVariants;
        }
        if known.as_deref() != Some(&vary[..]) {
            self.discard_fork(key);
            at = None;
        }
        values(&vary, select, &mut self.values);
        if self.values.len() > LONGEST_KEY {
            return StoreOutcome::TooManyVariants;
        }
        new.terms.vary = vary;
        self.put_variant(at, key, new).unwrap_or(stored)
    }

    /// Puts a page with variants, whose values are in `self.values`, at the fork; `None`: the entry becomes one.
    /// Returns why it could not.
    fn put_variant(&mut self, fork: Option<u32>, key: Key<'_>, new: New) -> Option<StoreOutcome> {
        let variant = std::mem::take(&mut self.values);
        let found = self.slots.find_variant(variant_hash(key.hash, &variant), key.bytes, &variant);
        let refused = if found.is_some_and(|at| self.number_at(at) > new.number) {
            Some(StoreOutcome::Superseded)
        } else if found.is_none() && fork.is_some_and(|fork| !self.has_room(fork)) {
            Some(StoreOutcome::TooManyVariants)
        } else {
            if fork.is_none() {
                self.add_fork(key, &new.terms.vary);
            }
            self.put_at(found, key, &variant, new);
            None
        };
        self.values = variant;
        refused
    }

    fn add_fork(&mut self, key: Key<'_>, vary: &[Box<str>]) {
        let vary: Arc<[Box<str>]> = vary.into();
        let names = vary.iter().map(|name| heap(name.len())).sum::<usize>();
        let list = heap(ARC + vary.len() * size_of::<Box<str>>());
        let fork = Box::new(Fork { vary, first: super::NONE, variants: 0 });
        let mut slot = PageSlot::new(key.bytes.into(), key.bytes.len(), key.hash, Body::Fork(fork));
        slot.owned = heap(key.bytes.len()) + heap(size_of::<Fork>()) + list + names;
        self.slots.add(slot);
    }

    /// Replaces an entry by a page, or adds one.
    fn put_at(&mut self, at: Option<u32>, key: Key<'_>, variant: &[u8], new: New) {
        let New { page, terms, came, number, purged, .. } = new;
        self.purges.retain(&terms.tags, Bearer::Page);
        let at = self.place(at, key, variant, Body::Page(page));
        let checked = self.purges.last();
        let slot = self.slots.get_mut(at);
        slot.expires = life::expiry(&terms, came, key.hash);
        slot.born = came.saturating_sub(terms.age);
        (slot.number, slot.checked) = (number, checked);
        slot.flags = if purged { PURGED } else { 0 } | if terms.no_cache { UNUSABLE } else { 0 };
        slot.hits /= 2;
        let before = slot.terms.replace(Arc::new(terms));
        if let Some(before) = before {
            self.purges.release(&before.tags, Bearer::Page);
        }
        self.weigh(at);
    }

    /// Marks the request as uncacheable, unless it was purged during the fill: it may have changed.
    fn mark(&mut self, ticket: &Ticket, tags: Box<[Tag]>, until: Millis) -> bool {
        let key = Key { bytes: &ticket.key, hash: ticket.hash };
        if self.purges.verdict_on_fill(ticket.begun, key.bytes, &tags).is_some() {
            return false;
        }
        let top = self.top(key);
        let vary = top.and_then(|at| self.slots.fork(at)).map(|fork| Arc::clone(&fork.vary));
        let (at, variant) = match (&vary, &ticket.variant) {
            (None, _) => (top, &[][..]),
            (Some(vary), Some(asked)) if asked.is(vary, &asked.values) => {
                let hash = variant_hash(key.hash, &asked.values);
                (self.slots.find_variant(hash, key.bytes, &asked.values), &asked.values[..])
            }
            // It became known during the fill by which fields it varies: another fill knows better.
            _ => return false,
        };
        let is_newer = at.is_some_and(|at| self.number_at(at) > ticket.number);
        let has_room = at.is_some() || variant.is_empty() || top.is_some_and(|fork| self.has_room(fork));
        if is_newer || !has_room {
            return false;
        }
        let checked = self.purges.last();
        self.purges.retain(&tags, Bearer::Mark);
        let at = self.place(at, key, variant, Body::Mark(Box::new(Mark { tags })));
        let slot = self.slots.get_mut(at);
        (slot.expires, slot.number, slot.checked) = (until, ticket.number, checked);
        slot.flags = 0;
        if let Some(before) = slot.terms.take() {
            self.purges.release(&before.tags, Bearer::Page);
        }
        self.weigh(at);
        true
    }

    /// Number of the fill that produced the useful part of an entry.
    fn number_at(&mut self, at: u32) -> u64 {
        let now = self.latest;
        if self.is_purged(at) || self.state(at, now) == Freshness::Useless {
            0
        } else {
            self.slots.get(at).number
        }
    }

    /// Replaces the body of the entry at a slot, or adds an entry: to its fork if it is a variant, and to a queue.
    fn place(&mut self, at: Option<u32>, key: Key<'_>, variant: &[u8], body: Body) -> u32 {
        if let Some(at) = at {
            let owned = self.slots.get(at).owned;
            if let Body::Mark(before) = self.slots.replace(at, body, owned) {
                self.purges.release(&before.tags, Bearer::Mark);
            }
            return at;
        }
        let hash = if variant.is_empty() { key.hash } else { variant_hash(key.hash, variant) };
        let bytes = [key.bytes, variant].concat().into_boxed_slice();
        let at = self.slots.add(PageSlot::new(bytes, key.bytes.len(), hash, body));
        if !variant.is_empty()
            && let Some(fork) = self.slots.find(key.hash, key.bytes)
        {
            self.slots.chain(at, fork);
        }
        let queue = if self.ghosts.take(hash) { Queue::Main } else { Queue::Small };
        self.queues.push(&mut self.slots, at, queue);
        at
    }

    /// Counts the memory of an entry.
    pub(super) fn weigh(&mut self, at: u32) {
        let slot = self.slots.get(at);
        let body = match &slot.body {
            Body::Page(page) => page.bytes(),
            Body::Mark(mark) => mark.bytes(),
            Body::Fork(_) => 0,
        };
        let owned = heap(slot.bytes.len()) + body + slot.terms.as_deref().map_or(0, Terms::bytes);
        self.queues.reweigh(slot.queue, slot.owned, owned);
        self.slots.set_owned(at, owned);
    }

    /// The page stored for a request, fresh or stale.
    fn stored_for(&mut self, key: Key<'_>, select: Select<'_>) -> Option<Arc<Page>> {
        let mut at = self.top(key)?;
        if let Some(fork) = self.slots.fork(at) {
            let vary = Arc::clone(&fork.vary);
            values(&vary, select, &mut self.values);
            let hash = variant_hash(key.hash, &self.values);
            at = self.slots.find_variant(hash, key.bytes, &self.values)?;
        }
        let is_dead = self.is_dead(at);
        match &self.slots.get(at).body {
            Body::Page(page) if !is_dead => Some(Arc::clone(page)),
            _ => None,
        }
    }
}

/// The names of `known`, and the ones of `more` that are not among them.
fn union(known: &[Box<str>], more: &[Box<str>]) -> Box<[Box<str>]> {
    let news = more.iter().filter(|name| !known.contains(name));
    known.iter().chain(news).cloned().collect()
}
