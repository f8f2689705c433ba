//! Finds the entry of a hash: an open-addressed table; a search reads one cache line.
//!
//! A group is a cache line. If an entry's group is full, it goes into the next one, and the groups that it passed
//! count it: so a search knows where to stop, and a removed entry leaves no tombstone.

/// Places in a group.
const PLACES: usize = 7;
/// Maximum mean number of used places before the table grows: then few entries lie outside of their group.
const TAKEN: usize = 5;
/// A place without an entry; no slot has this number.
const EMPTY: u64 = u64::MAX;

/// One cache line.
#[derive(Clone)]
#[repr(C, align(64))]
struct Group {
    /// The tag of an entry in the upper half, its slot in the lower half.
    places: [u64; PLACES],
    /// Number of entries that belong here or passed on their way from an earlier group, but found no room.
    passed: u64,
}

/// From hashes to slots; several entries may have the same hash.
#[derive(Default)]
pub(super) struct Index {
    /// A power of two, or none.
    groups: Vec<Group>,
    length: usize,
}

/// The part of a hash that the index uses. The server chooses the shard by other bits, which are all the same within
/// a shard.
fn tag(hash: u64) -> u32 {
    hash as u32
}

fn place(tag: u32, slot: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(slot)
}

impl Index {
    /// Prefetches what a search for this hash reads first.
    #[inline]
    pub(super) fn expect(&self, hash: u64) {
        if let Some(group) = self.way(tag(hash)).next().and_then(|at| self.groups.get(at)) {
            millrace_sys::prefetch(group, size_of::<Group>());
        }
    }

    /// The slot with this hash that `is` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = tag(hash);
        for at in self.way(tag) {
            let group = &self.groups[at];
            let mut own = group.places.iter().filter(|&&it| (it >> 32) as u32 == tag && it != EMPTY);
            if let Some(&found) = own.find(|&&it| is(it as u32)) {
                return Some(found as u32);
            }
            if group.passed == 0 {
                break;
            }
        }
        None
    }

    /// Adds an entry.
    pub(super) fn insert(&mut self, hash: u64, slot: u32) {
        if self.length >= self.groups.len() * TAKEN {
            self.resize((self.groups.len() * 2).max(1));
        }
        self.put(place(tag(hash), slot));
        self.length += 1;
    }

    /// Removes an existing entry.
    pub(super) fn remove(&mut self, hash: u64, slot: u32) {
        let gone = place(tag(hash), slot);
        let way = self.way(tag(hash));
        for at in way {
            let group = &mut self.groups[at];
            if let Some(it) = group.places.iter_mut().find(|it| **it == gone) {
                *it = EMPTY;
                self.length -= 1;
                return;
            }
            debug_assert_ne!(group.passed, 0, "only what is there is removed");
            group.passed -= 1;
        }
    }

    /// The entry of slot `from` is now in slot `to`.
    pub(super) fn rename(&mut self, hash: u64, from: u32, to: u32) {
        let (old, new) = (place(tag(hash), from), place(tag(hash), to));
        for at in self.way(tag(hash)) {
            if let Some(it) = self.groups[at].places.iter_mut().find(|it| **it == old) {
                *it = new;
                return;
            }
        }
    }

    /// Frees memory when most of it is unused; returns whether it did.
    pub(super) fn shrink(&mut self) -> bool {
        let unused = self.groups.len() > 8 && self.length * 8 < self.groups.len() * TAKEN;
        if unused {
            self.resize(self.groups.len() / 4);
        }
        unused
    }

    /// Memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Group>()
    }

    /// The groups where an entry may be, each once, in search order.
    fn way(&self, tag: u32) -> impl Iterator<Item = usize> + use<> {
        let groups = self.groups.len();
        (0..groups).map(move |step| (tag as usize + step) & (groups - 1))
    }

    fn put(&mut self, entry: u64) {
        for at in self.way((entry >> 32) as u32) {
            let group = &mut self.groups[at];
            if let Some(free) = group.places.iter_mut().find(|it| **it == EMPTY) {
                *free = entry;
                return;
            }
            group.passed += 1;
        }
        unreachable!("a table is never full");
    }

    fn resize(&mut self, groups: usize) {
        let empty = Group { places: [EMPTY; PLACES], passed: 0 };
        let before = std::mem::replace(&mut self.groups, vec![empty; groups]);
        let entries = before.iter().flat_map(|group| group.places);
        entries.filter(|&entry| entry != EMPTY).for_each(|entry| self.put(entry));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_group_is_a_cache_line() {
        assert_eq!((size_of::<Group>(), align_of::<Group>()), (64, 64));
    }

    #[test]
    fn hashes_of_all_ones_are_as_good_as_others() {
        let mut index = Index::default();
        (0..100).for_each(|slot| index.insert(u64::MAX, slot));
        assert_eq!(index.find(u64::MAX, |slot| slot == 57), Some(57));
        assert_eq!(index.find(u64::MAX, |_| false), None);
    }

    /// Hashes of adjacent groups, at both ends of a table.
    fn few(number: u64) -> u64 {
        number.wrapping_sub(12).wrapping_mul(0x1_0000_0003)
    }

    proptest! {
        /// Few different hashes: groups overflow, also at the end of the table.
        #[test]
        fn it_is_as_good_as_a_map(steps in prop::collection::vec((0u8..4, 0u64..24, 0u32..64), 0..600)) {
            let (mut index, mut map) = (Index::default(), HashMap::new());
            for (step, hash, slot) in steps {
                let hash = few(hash);
                match (step, map.get(&slot).copied()) {
                    (0 | 1, None) => {
                        index.insert(hash, slot);
                        map.insert(slot, hash);
                    }
                    (2, Some(its)) => {
                        index.remove(its, slot);
                        map.remove(&slot);
                        index.shrink();
                    }
                    (3, Some(its)) if !map.contains_key(&(slot + 64)) => {
                        index.rename(its, slot, slot + 64);
                        map.remove(&slot);
                        map.insert(slot + 64, its);
                    }
                    _ => {}
                }
                prop_assert_eq!(index.length, map.len());
            }
            for (&slot, &hash) in &map {
                prop_assert_eq!(index.find(hash, |it| it == slot), Some(slot));
            }
            for slot in (0..128).filter(|slot| !map.contains_key(slot)) {
                let gone = (0..24).all(|hash| index.find(few(hash), |it| it == slot).is_none());
                prop_assert!(gone);
            }
            let slots: Vec<(u32, u64)> = map.into_iter().collect();
            slots.iter().for_each(|&(slot, hash)| index.remove(hash, slot));
            prop_assert!(index.groups.iter().all(|group| group.passed == 0));
        }
    }
}
