//! Removes entries: because memory is short, because they were purged, or because they are no longer useful.

use super::purges::Bearer;
use super::queues::Queue;
use super::slots::{Body, NOTED, PageSlot};
use super::{Freshness, NONE, PURGED, Pages, Wanted, heap};
use crate::{Key, Millis, Purge};

/// Sample size for estimating how many pages a prefix covers.
const SAMPLE: usize = 1024;

/// Maximum number of remembered wanted pages.
const MOST_WANTED: usize = 256;

/// Number of requests from which on a page is worth a refill.
const WANTED_HITS: u32 = 2;

/// All entries are checked for usefulness at least this often, in milliseconds.
const ROUND: Millis = 30_000;

/// Progress of the walk over all entries.
#[derive(Default)]
pub(super) struct Sweep {
    /// Entries below are still to be checked. `None`: no walk is in progress.
    below: Option<u32>,
    /// The last purge before it began.
    purge: u64,
    /// When it began.
    began: Millis,
    wanted: Vec<Wanted>,
    /// Memory of its keys and variants.
    texts: usize,
}

impl Sweep {
    /// Counts the memory of `wanted`.
    fn count(&mut self) {
        let texts = self.wanted.iter().map(|wanted| heap(wanted.key.len()) + heap(wanted.variant.len()));
        self.texts = texts.sum();
    }

    pub(super) fn bytes(&self) -> usize {
        heap(self.wanted.capacity() * size_of::<Wanted>()) + self.texts
    }
}

impl<F: Clone> Pages<F> {
    /// Does a bounded part of the deferred work: checks up to `steps` entries, removes purged and useless ones, and
    /// notes which are [`wanted`](Self::wanted). Call it now and then until it returns false: then nothing is left to
    /// do for now.
    pub fn sweep(&mut self, steps: usize, now: Millis) -> bool {
        self.latest = now;
        if self.sweep.below.is_none() {
            if !self.purges.unswept() && now < self.sweep.began.saturating_add(ROUND) {
                return false;
            }
            self.sweep.began = now;
            self.sweep.purge = self.purges.last();
            self.sweep.below = Some(self.slots.len() as u32);
        }
        for _ in 0..steps {
            // Entries only move down, to positions that are checked later or were free.
            let below = self.sweep.below.unwrap_or(0).min(self.slots.len() as u32);
            if below == 0 {
                self.sweep.below = None;
                self.purges.swept(self.sweep.purge);
                self.evict();
                return self.purges.unswept();
            }
            // Before the removal: with a fork two entries go, and the walk continues at the new end.
            self.sweep.below = Some(below - 1);
            self.tidy(below - 1);
        }
        self.evict();
        true
    }

    /// Up to `most` of the most wanted pages that [`sweep`](Self::sweep) found stale or purged, by hits; this call
    /// forgets them.
    pub fn wanted(&mut self, most: usize) -> Vec<Wanted> {
        self.sweep.wanted.sort_by_key(|wanted| std::cmp::Reverse(wanted.hits));
        let rest = self.sweep.wanted.split_off(most.min(self.sweep.wanted.len()));
        let best = std::mem::replace(&mut self.sweep.wanted, rest);
        self.sweep.count();
        best
    }

    /// Frees memory until the budget is met: a slim page is better than none.
    pub(super) fn evict(&mut self) {
        while self.bytes() > self.budget && (self.slim_one() || self.evict_one()) {}
    }

    /// Evicts one entry; false if there is none.
    fn evict_one(&mut self) -> bool {
        loop {
            let small = self.queues.bytes(Queue::Small) > self.budget / 10;
            let (queue, at) = match (self.queues.oldest(Queue::Small), self.queues.oldest(Queue::Main)) {
                (Some(at), main) if small || main.is_none() => (Queue::Small, at),
                (_, Some(at)) => (Queue::Main, at),
                _ => return false,
            };
            if self.is_purged(at) {
                self.purged += 1;
                self.discard(at);
                return true;
            }
            let slot = self.slots.get_mut(at);
            if slot.lately == 0 {
                let hash = slot.hash;
                self.evicted += 1;
                self.discard(at);
                if queue == Queue::Small {
                    self.ghosts.add(hash, self.slots.len());
                }
                return true;
            }
            slot.lately = if queue == Queue::Small { 0 } else { slot.lately - 1 };
            self.queues.unlink(&mut self.slots, at);
            self.queues.push(&mut self.slots, at, Queue::Main);
        }
    }

    /// Removes an entry, and its fork if it was the last variant.
    pub(super) fn discard(&mut self, at: u32) {
        let fork = self.slots.get(at).fork;
        let moved = self.take(at);
        let fork = if fork == moved { at } else { fork };
        if fork != NONE && self.slots.fork(fork).is_some_and(|fork| fork.variants == 0) {
            self.take(fork);
        }
    }

    /// Removes an entry that is purged or no longer useful; returns whether it was.
    fn drop_dead(&mut self, at: u32) -> bool {
        if self.is_purged(at) {
            self.purged += 1;
        } else if self.state(at, self.latest) == Freshness::Useless {
            self.expired += 1;
        } else {
            return false;
        }
        self.discard(at);
        true
    }

    /// Removes one entry; returns the slot that moved to its position.
    pub(super) fn take(&mut self, at: u32) -> u32 {
        self.queues.unlink(&mut self.slots, at);
        let last = (self.slots.len() - 1) as u32;
        let queue = self.slots.get(last).queue;
        let gone = self.slots.remove(at);
        if at != last {
            self.queues.renamed(queue, last, at);
        }
        self.release_tags(&gone);
        last
    }

    /// Releases the tags of a removed entry.
    fn release_tags(&mut self, gone: &PageSlot) {
        let bearer = match gone.body {
            Body::Page(_) => Bearer::Page,
            Body::Mark(_) => Bearer::Mark,
            Body::Fork(_) => return,
        };
        self.purges.release(gone.tags(), bearer);
    }

    /// Removes a fork and all its variants.
    pub(super) fn discard_fork(&mut self, key: Key<'_>) {
        while let Some(at) = self.slots.find(key.hash, key.bytes) {
            let first = self.slots.fork(at).map_or(NONE, |fork| fork.first);
            self.discard(if first == NONE { at } else { first });
        }
    }

    /// Whether a fork may have another variant; removes a useless one if necessary.
    pub(super) fn has_room(&mut self, fork: u32) -> bool {
        let Some((count, mut variant)) = self.slots.fork(fork).map(|fork| (fork.variants, fork.first)) else {
            return true;
        };
        if (count as usize) < self.most_variants {
            return true;
        }
        while variant != NONE && !self.is_dead(variant) {
            variant = self.slots.get(variant).after;
        }
        // One of many: the fork stays.
        variant != NONE && self.drop_dead(variant)
    }

    /// Checks all entries against all purges.
    pub(super) fn check_all(&mut self) {
        let last = self.purges.last();
        // From the end: the entry that replaces a removed one has been checked.
        for at in (0..self.slots.len() as u32).rev() {
            if (at as usize) < self.slots.len() && self.is_purged(at) {
                self.purged += 1;
                self.discard(at);
            }
        }
        self.purges.swept(last);
    }

    /// How many pages a prefix covers.
    pub(super) fn covered(&self, prefix: &Purge) -> usize {
        let length = self.slots.len();
        let covers = |at: usize| {
            let slot = self.slots.get(at as u32);
            matches!(slot.body, Body::Page(_)) && prefix.covers(Key { bytes: slot.key(), hash: 0 })
        };
        if length <= SAMPLE {
            return (0..length).filter(|at| covers(*at)).count();
        }
        let found = (0..SAMPLE).filter(|i| covers(i * length / SAMPLE)).count();
        found * length / SAMPLE
    }

    /// One step of the sweep.
    fn tidy(&mut self, at: u32) {
        let purged = self.is_purged(at);
        let state = self.state(at, self.latest);
        let is_page = matches!(self.slots.get(at).body, Body::Page(_));
        if is_page && (purged || state != Freshness::Fresh || self.slots.get(at).flags & PURGED != 0) {
            self.note(at);
        }
        self.drop_dead(at);
    }

    /// Notes a page that is not fresh, if it is wanted.
    fn note(&mut self, at: u32) {
        let slot = self.slots.get_mut(at);
        let wanted = slot.hits >= WANTED_HITS && slot.flags & NOTED == 0;
        slot.flags |= NOTED;
        if !wanted {
            return;
        }
        let wanted = Wanted { key: slot.key().into(), variant: slot.variant().into(), hits: slot.hits };
        self.sweep.texts += heap(wanted.key.len()) + heap(wanted.variant.len());
        self.sweep.wanted.push(wanted);
        if self.sweep.wanted.len() >= MOST_WANTED * 2 {
            let best = self.wanted(MOST_WANTED);
            self.sweep.wanted = best;
            self.sweep.count();
        }
    }
}
