//! The entries of a shard: a dense slab with an index over it, and the links between entries.
//!
//! ```text
//!   hash --> index --> slot 7 (a page without variants)
//!                      slot 8 (a fork: the page has variants)  first --> slot 3 <-> slot 9   (its variants, chained)
//!   hash of key and variant --> index --> slot 3
//! ```
//!
//! Slots have no holes: the last one moves to the position of a removed one, and all references to it are updated. So
//! the slab shrinks with the number of entries, whatever a crawler did before.

use std::sync::Arc;

use super::fills::Vary;
use super::heap;
use super::index::Index;
use super::queues::Queue;
use crate::{Millis, Page, Tag, Terms};

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Slots per chunk: a chunk is allocated at once and never moves.
const CHUNK: usize = 64;

/// An entry. The fields that a hit reads come first, in one cache line.
#[repr(C, align(64))]
pub(super) struct PageSlot {
    /// Bytes of the key, followed by the variant's if it is one.
    pub(super) bytes: Box<[u8]>,
    pub(super) body: Body,
    /// When a page becomes stale; when a mark ends.
    pub(super) expires: Millis,
    /// All purges up to this one don't cover the entry, or have made it [`PURGED`].
    pub(super) checked: u64,
    /// When the page was of age 0.
    pub(super) born: Millis,
    pub(super) hits: u32,
    /// Length of the key in `bytes`.
    pub(super) key_length: u16,
    /// Hits since it came to its position in the queue, at most 3: S3-FIFO.
    pub(super) lately: u8,
    /// `PURGED`, `UNUSABLE`, `NOTED`.
    pub(super) flags: u8,

    /// Only for pages.
    pub(super) terms: Option<Arc<Terms>>,
    /// The hash under which it is indexed: of the key, or of the key and the variant.
    pub(super) hash: u64,
    /// Number of the fill that produced it.
    pub(super) number: u64,
    /// Memory that it owns outside of the slot.
    pub(super) owned: usize,
    pub(super) queue: Queue,
    /// Neighbours in the queue: towards its head (younger), towards its tail.
    pub(super) younger: u32,
    pub(super) older: u32,
    /// For a variant: its fork and its neighbours in the chain.
    pub(super) fork: u32,
    pub(super) before: u32,
    pub(super) after: u32,
}

/// A soft purge has made it stale.
pub(super) const PURGED: u8 = 1;
/// `no_cache`: never fresh.
pub(super) const UNUSABLE: u8 = 2;
/// It is among the wanted pages.
pub(super) const NOTED: u8 = 4;

/// The type of an entry.
pub(super) enum Body {
    /// A stored page, or one variant of it.
    Page(Arc<Page>),
    /// Known to be uncacheable.
    Mark(Box<Mark>),
    /// The page has variants.
    Fork(Box<Fork>),
}

/// Tags of a response that turned out to be uncacheable. Boxed, because most entries are pages, and a hit reads one
/// cache line.
pub(super) struct Mark {
    /// The tags by which it is purged.
    pub(super) tags: Box<[Tag]>,
}

impl Mark {
    /// All memory that it owns, including its own box, bytes.
    pub(super) fn bytes(&self) -> usize {
        heap(size_of::<Mark>()) + heap(size_of_val(&*self.tags))
    }
}

/// The fields on which a page with variants depends.
pub(super) struct Fork {
    /// Names of request fields.
    pub(super) vary: Vary,
    /// The first of its chain.
    pub(super) first: u32,
    /// Number of variants.
    pub(super) variants: u32,
}

impl PageSlot {
    /// An entry without links.
    pub(super) fn new(bytes: Box<[u8]>, key_length: usize, hash: u64, body: Body) -> PageSlot {
        PageSlot {
            bytes,
            body,
            expires: 0,
            checked: 0,
            born: 0,
            hits: 0,
            key_length: key_length as u16,
            lately: 0,
            flags: 0,
            terms: None,
            hash,
            number: 0,
            owned: 0,
            queue: Queue::None,
            younger: NONE,
            older: NONE,
            fork: NONE,
            before: NONE,
            after: NONE,
        }
    }

    /// The tags by which it is purged, besides its key.
    pub(super) fn tags(&self) -> &[Tag] {
        match (&self.body, &self.terms) {
            (Body::Mark(mark), _) => &mark.tags,
            (Body::Page(_), Some(terms)) => &terms.tags,
            _ => &[],
        }
    }

    /// Bytes of the key.
    pub(super) fn key(&self) -> &[u8] {
        &self.bytes[..usize::from(self.key_length)]
    }

    /// Bytes of the variant; empty if it is not one.
    pub(super) fn variant(&self) -> &[u8] {
        &self.bytes[usize::from(self.key_length)..]
    }

    /// Prefetches its page while the keys are compared: it is most likely the wanted one.
    #[inline]
    fn expect(&self) {
        if let Body::Page(page) = &self.body {
            millrace_sys::prefetch_shared(page, size_of::<Page>());
        }
    }

    /// When the page arrived.
    pub(super) fn came(&self) -> Millis {
        self.born.saturating_add(self.terms.as_ref().map_or(0, |terms| terms.age))
    }
}

/// The slab and its index.
#[derive(Default)]
pub(super) struct Slots {
    chunks: Vec<Vec<PageSlot>>,
    index: Index,
    length: usize,
    /// Memory that the entries own, bytes.
    owned: usize,
    pages: usize,
    marks: usize,
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    pub(super) fn marks(&self) -> usize {
        self.marks
    }

    /// Memory that the entries own, bytes.
    pub(super) fn owned(&self) -> usize {
        self.owned
    }

    /// Memory of slab and index, bytes.
    pub(super) fn overhead(&self) -> usize {
        self.chunks.len() * (CHUNK * size_of::<PageSlot>() + 64)
            + self.chunks.capacity() * size_of::<Vec<PageSlot>>()
            + self.index.bytes()
    }

    /// Prefetches what the lookup of this hash needs.
    #[inline]
    pub(super) fn expect(&self, hash: u64) {
        self.index.expect(hash);
    }

    /// The entry of a key itself: a page without variants, a mark or a fork.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let is = |at: u32| {
            let slot = self.get(at);
            slot.expect();
            *slot.bytes == *key
        };
        self.index.find(hash, is)
    }

    /// The entry of one variant.
    pub(super) fn find_variant(&self, hash: u64, key: &[u8], variant: &[u8]) -> Option<u32> {
        let is = |at: u32| {
            let slot = self.get(at);
            slot.expect();
            slot.variant() == variant && slot.key() == key
        };
        self.index.find(hash, is)
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &PageSlot {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> &mut PageSlot {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    /// Adds an entry without queue and chain.
    pub(super) fn add(&mut self, slot: PageSlot) -> u32 {
        let at = self.length as u32;
        self.count(&slot.body, 1);
        self.owned += slot.owned;
        let hash = slot.hash;
        if self.length.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[at as usize / CHUNK].push(slot);
        self.length += 1;
        self.index.insert(hash, at);
        at
    }

    /// Removes an entry that is in no queue; it leaves its chain. The last entry takes its position: `moved` gets
    /// that entry's old slot, to repair the queues.
    pub(super) fn remove(&mut self, at: u32) -> PageSlot {
        debug_assert_eq!(self.get(at).queue, Queue::None);
        self.leave_chain(at);
        let hash = self.get(at).hash;
        self.index.remove(hash, at);
        let last = (self.length - 1) as u32;
        if at != last {
            self.rename(last, at);
        }
        let end = self.chunks.len() - 1;
        let mut gone = self.chunks[end].pop().expect("the last chunk is never empty");
        if at != last {
            std::mem::swap(&mut gone, self.get_mut(at));
        }
        if self.chunks[end].is_empty() {
            self.chunks.pop();
        }
        self.length -= 1;
        self.owned -= gone.owned;
        self.count(&gone.body, -1);
        self.shrink();
        gone
    }

    /// Replaces the body of an entry and its memory; its links stay.
    pub(super) fn replace(&mut self, at: u32, body: Body, owned: usize) -> Body {
        self.count(&body, 1);
        let slot = self.get_mut(at);
        let before = std::mem::replace(&mut slot.body, body);
        self.set_owned(at, owned);
        self.count(&before, -1);
        before
    }

    /// The memory of an entry has changed.
    pub(super) fn set_owned(&mut self, at: u32, owned: usize) {
        let before = std::mem::replace(&mut self.get_mut(at).owned, owned);
        self.owned = self.owned - before + owned;
    }

    /// The fork at a slot.
    pub(super) fn fork(&self, at: u32) -> Option<&Fork> {
        match &self.get(at).body {
            Body::Fork(fork) => Some(fork),
            _ => None,
        }
    }

    fn fork_mut(&mut self, at: u32) -> Option<&mut Fork> {
        match &mut self.get_mut(at).body {
            Body::Fork(fork) => Some(fork),
            _ => None,
        }
    }

    /// Makes an entry a variant of a fork.
    pub(super) fn chain(&mut self, at: u32, fork: u32) {
        let Some(its) = self.fork_mut(fork) else { return };
        its.variants += 1;
        let first = std::mem::replace(&mut its.first, at);
        let slot = self.get_mut(at);
        (slot.fork, slot.before, slot.after) = (fork, NONE, first);
        if first != NONE {
            self.get_mut(first).before = at;
        }
    }

    fn leave_chain(&mut self, at: u32) {
        let slot = self.get_mut(at);
        let (fork, before, after) = (slot.fork, slot.before, slot.after);
        (slot.fork, slot.before, slot.after) = (NONE, NONE, NONE);
        if fork == NONE {
            return;
        }
        if after != NONE {
            self.get_mut(after).before = before;
        }
        if before != NONE {
            self.get_mut(before).after = after;
        }
        if let Some(its) = self.fork_mut(fork) {
            its.variants -= 1;
            if before == NONE {
                its.first = after;
            }
        }
    }

    /// The variants of a fork.
    pub(super) fn variants(&self, fork: u32) -> impl Iterator<Item = u32> {
        let mut next = self.fork(fork).map_or(NONE, |fork| fork.first);
        std::iter::from_fn(move || {
            let at = next;
            (at != NONE).then(|| {
                next = self.get(at).after;
                at
            })
        })
    }

    /// Updates all references to slot `from`; [`Queues`](super::queues::Queues) repairs the ends of queues.
    fn rename(&mut self, from: u32, to: u32) {
        let slot = self.get(from);
        let (hash, fork, before, after) = (slot.hash, slot.fork, slot.before, slot.after);
        let (younger, older) = (slot.younger, slot.older);
        self.index.rename(hash, from, to);
        if younger != NONE {
            self.get_mut(younger).older = to;
        }
        if older != NONE {
            self.get_mut(older).younger = to;
        }
        if after != NONE {
            self.get_mut(after).before = to;
        }
        if before != NONE {
            self.get_mut(before).after = to;
        } else if fork != NONE
            && let Some(its) = self.fork_mut(fork)
        {
            its.first = to;
        }
        let mut variant = self.fork(from).map_or(NONE, |fork| fork.first);
        while variant != NONE {
            let slot = self.get_mut(variant);
            slot.fork = to;
            variant = slot.after;
        }
    }

    fn count(&mut self, body: &Body, change: isize) {
        let counter = match body {
            Body::Page(_) => &mut self.pages,
            Body::Mark(_) => &mut self.marks,
            Body::Fork(_) => return,
        };
        *counter = counter.wrapping_add_signed(change);
    }

    /// Frees memory when most of it is unused.
    fn shrink(&mut self) {
        if self.index.shrink() {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_two_cache_lines() {
        assert_eq!(size_of::<PageSlot>(), 128);
        assert_eq!(std::mem::offset_of!(PageSlot, terms), 64);
    }
}
