//! Eviction: S3-FIFO (Yang and others, SOSP 2023), with sizes in bytes.
//!
//! ```text
//!   new --> small queue, a tenth of the bytes --+-- asked for meanwhile --> main queue --> end: asked for lately? go round
//!                                               '-- not: evicted, its hash --> ghosts          again : evicted
//!   new, and its hash is a ghost -----------------------------------------> main queue
//! ```
//!
//! A crawler's pages pass only through the small queue. A hit moves nothing: it increments a two-bit counter.

use super::slots::{NONE, Slots};

/// The queue of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Queue {
    /// In no queue: forks.
    None,
    Small,
    Main,
}

/// Both queues: lists through the slots.
pub(super) struct Queues {
    small: Ends,
    main: Ends,
}

/// One queue.
struct Ends {
    youngest: u32,
    oldest: u32,
    /// Memory of its entries, slots included, bytes.
    bytes: usize,
}

impl Default for Queues {
    fn default() -> Self {
        let ends = || Ends { youngest: NONE, oldest: NONE, bytes: 0 };
        Queues { small: ends(), main: ends() }
    }
}

impl Queues {
    /// The oldest entry of a queue.
    pub(super) fn oldest(&self, queue: Queue) -> Option<u32> {
        let oldest = self.ends(queue)?.oldest;
        (oldest != NONE).then_some(oldest)
    }

    /// Memory of the entries in a queue, bytes.
    pub(super) fn bytes(&self, queue: Queue) -> usize {
        self.ends(queue).map_or(0, |ends| ends.bytes)
    }

    /// Puts an entry that is in no queue at the head of a queue.
    pub(super) fn push(&mut self, slots: &mut Slots, at: u32, queue: Queue) {
        let slot = slots.get_mut(at);
        slot.queue = queue;
        let weight = weight(slot.owned);
        let Some(ends) = self.ends_mut(queue) else { return };
        ends.bytes += weight;
        let before = std::mem::replace(&mut ends.youngest, at);
        (slot.younger, slot.older) = (NONE, before);
        if before == NONE {
            ends.oldest = at;
        } else {
            slots.get_mut(before).younger = at;
        }
    }

    /// Takes an entry out of its queue.
    pub(super) fn unlink(&mut self, slots: &mut Slots, at: u32) {
        let slot = slots.get_mut(at);
        let (queue, younger, older) = (slot.queue, slot.younger, slot.older);
        (slot.queue, slot.younger, slot.older) = (Queue::None, NONE, NONE);
        let weight = weight(slot.owned);
        let Some(ends) = self.ends_mut(queue) else { return };
        ends.bytes -= weight;
        match younger {
            NONE => ends.youngest = older,
            _ => slots.get_mut(younger).older = older,
        }
        match older {
            NONE => ends.oldest = younger,
            _ => slots.get_mut(older).younger = younger,
        }
    }

    /// The memory of an entry has changed.
    pub(super) fn reweigh(&mut self, queue: Queue, before: usize, now: usize) {
        if let Some(ends) = self.ends_mut(queue) {
            ends.bytes = ends.bytes - before + now;
        }
    }

    /// An entry was moved to another slot.
    pub(super) fn renamed(&mut self, queue: Queue, from: u32, to: u32) {
        let Some(ends) = self.ends_mut(queue) else { return };
        if ends.youngest == from {
            ends.youngest = to;
        }
        if ends.oldest == from {
            ends.oldest = to;
        }
    }

    fn ends(&self, queue: Queue) -> Option<&Ends> {
        match queue {
            Queue::None => None,
            Queue::Small => Some(&self.small),
            Queue::Main => Some(&self.main),
        }
    }

    fn ends_mut(&mut self, queue: Queue) -> Option<&mut Ends> {
        match queue {
            Queue::None => None,
            Queue::Small => Some(&mut self.small),
            Queue::Main => Some(&mut self.main),
        }
    }
}

/// Memory of an entry in a queue, bytes.
fn weight(owned: usize) -> usize {
    owned + size_of::<super::slots::PageSlot>()
}

/// Hashes of entries that were lately evicted from the small queue: as many as there are entries. Sets of four; a
/// false positive only puts a page into the wrong queue.
#[derive(Default)]
pub(super) struct Ghosts {
    /// The upper half of the hash, and the number of the eviction; 0: empty.
    sets: Vec<[(u32, u32); 4]>,
    evictions: u32,
}

impl Ghosts {
    /// Remembers an evicted entry; `entries`: number of stored entries.
    pub(super) fn add(&mut self, hash: u64, entries: usize) {
        self.fit(entries);
        self.evictions = self.evictions.wrapping_add(1).max(1);
        let (now, print) = (self.evictions, print(hash));
        let set = self.set(print);
        let mut oldest = 0;
        for (way, &(other, when)) in set.iter().enumerate() {
            if other == print {
                oldest = way;
                break;
            }
            if now.wrapping_sub(when) > now.wrapping_sub(set[oldest].1) {
                oldest = way;
            }
        }
        set[oldest] = (print, now);
    }

    /// Whether an entry was lately evicted; forgets it.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        if self.sets.is_empty() {
            return false;
        }
        let (now, most, print) = (self.evictions, self.sets.len() as u32 * 4, print(hash));
        let found = self.set(print).iter_mut().find(|way| way.0 == print);
        let Some(way) = found else { return false };
        let when = std::mem::take(way).1;
        now.wrapping_sub(when) <= most
    }

    /// Memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        super::heap(self.sets.capacity() * size_of::<[(u32, u32); 4]>())
    }

    fn set(&mut self, print: u32) -> &mut [(u32, u32); 4] {
        let mask = self.sets.len() - 1;
        &mut self.sets[print as usize & mask]
    }

    /// Doubles or halves as the number of entries changes. Growing keeps the contents.
    fn fit(&mut self, entries: usize) {
        let sets = (entries / 4).next_power_of_two().max(16);
        if sets > self.sets.len() {
            let mut before = std::mem::replace(&mut self.sets, vec![Default::default(); sets]);
            for (print, when) in before.drain(..).flatten().filter(|way| way.0 != 0) {
                let set = self.set(print);
                if let Some(way) = set.iter_mut().find(|way| way.0 == 0) {
                    *way = (print, when);
                }
            }
        } else if sets * 4 < self.sets.len() {
            self.sets = vec![Default::default(); sets];
        }
    }
}

/// Never 0.
fn print(hash: u64) -> u32 {
    ((hash >> 32) as u32).max(1)
}
