//! A bounded table of paths with CLOCK eviction: entries that were used since the hand came by last stay for another
//! round. This is cheaper than LRU, because a hit only sets a mark, and evicts as well.

use std::rc::Rc;

use hashbrown::HashTable;

use super::Purpose;

/// A lookup.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// State of the site's root that the path belongs to.
    pub epoch: u32,
    /// File or script.
    pub purpose: Purpose,
    /// The path.
    pub path: &'a [u8],
}

/// The cost of a value, or a limit for all values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of values.
    pub entries: usize,
    /// Memory.
    pub bytes: usize,
    /// Open files.
    pub descriptors: usize,
}

impl Cost {
    fn fits(self, limit: Cost) -> bool {
        self.entries <= limit.entries && self.bytes <= limit.bytes && self.descriptors <= limit.descriptors
    }

    /// The sum of both.
    pub fn plus(self, other: Cost) -> Cost {
        Cost {
            entries: self.entries + other.entries,
            bytes: self.bytes + other.bytes,
            descriptors: self.descriptors + other.descriptors,
        }
    }

    fn minus(self, other: Cost) -> Cost {
        Cost {
            entries: self.entries - other.entries,
            bytes: self.bytes - other.bytes,
            descriptors: self.descriptors - other.descriptors,
        }
    }
}

/// An entry of the table.
#[derive(Debug)]
pub struct TableSlot<V> {
    hash: u64,
    epoch: u32,
    purpose: Purpose,
    path: Rc<[u8]>,
    cost: Cost,
    /// Used since the hand came by.
    used: bool,
    /// When it was last compared with the disk.
    pub checked: u64,
    /// The value.
    pub value: V,
}

impl<V> TableSlot<V> {
    fn has(&self, hash: u64, key: &Key<'_>) -> bool {
        self.hash == hash && self.epoch == key.epoch && self.purpose == key.purpose && *self.path == *key.path
    }
}

/// The table. The caller hashes a key, once for several tables.
#[derive(Debug)]
pub struct FileTable<V> {
    index: HashTable<u32>,
    slots: Vec<Option<TableSlot<V>>>,
    free: Vec<u32>,
    hand: usize,
    cost: Cost,
    limit: Cost,
}

impl<V> FileTable<V> {
    /// An empty table.
    pub fn new(limit: Cost) -> FileTable<V> {
        FileTable {
            index: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            cost: Cost::default(),
            limit,
        }
    }

    /// Cost of all values.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// The value for `key`; marks it as used.
    pub fn get(&mut self, hash: u64, key: &Key<'_>) -> Option<&mut TableSlot<V>> {
        let slots = &self.slots;
        let place = *self.index.find(hash, |place| is_at(slots, *place, hash, key))?;
        let slot = self.slots[place as usize].as_mut()?;
        slot.used = true;
        Some(slot)
    }

    /// Inserts a value, replacing the old one of `key`. A value that exceeds the limit is not stored.
    pub fn insert(&mut self, hash: u64, key: &Key<'_>, path: Rc<[u8]>, checked: u64, value: V, cost: Cost) {
        self.remove(hash, key);
        if !cost.fits(self.limit) {
            return;
        }
        while !self.cost.plus(cost).fits(self.limit) {
            self.evict();
        }
        let Key { epoch, purpose, .. } = *key;
        let slot = TableSlot { hash, epoch, purpose, path, cost, used: false, checked, value };
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[place as usize] = Some(slot);
        self.cost = self.cost.plus(cost);
        let slots = &self.slots;
        self.index.insert_unique(hash, place, |place| slots[*place as usize].as_ref().map_or(0, |s| s.hash));
    }

    /// Removes `key`.
    pub fn remove(&mut self, hash: u64, key: &Key<'_>) {
        let slots = &self.slots;
        if let Ok(found) = self.index.find_entry(hash, |place| is_at(slots, *place, hash, key)) {
            let (place, _) = found.remove();
            self.clear_place(place);
        }
    }

    /// Changes the cost of a value, if it is still the one that `is_it` recognises.
    pub fn charge(&mut self, hash: u64, key: &Key<'_>, cost: Cost, is_it: impl Fn(&V) -> bool) {
        let Some(slot) = self.get(hash, key).filter(|slot| is_it(&slot.value)) else { return };
        let before = std::mem::replace(&mut slot.cost, cost);
        self.cost = self.cost.minus(before).plus(cost);
        while !self.cost.fits(self.limit) {
            self.evict();
        }
    }

    /// Removes the values for which `keep` returns false; it gets the key's epoch and the value's cost.
    pub fn retain(&mut self, keep: impl Fn(u32, Cost) -> bool) {
        for place in 0..self.slots.len() {
            if self.slots[place].as_ref().is_some_and(|slot| !keep(slot.epoch, slot.cost)) {
                self.clear(place);
            }
        }
    }

    /// Evicts one value. There is one: an empty table is never over its limit.
    fn evict(&mut self) {
        loop {
            self.hand = if self.hand + 1 < self.slots.len() { self.hand + 1 } else { 0 };
            match &mut self.slots[self.hand] {
                Some(slot) if slot.used => slot.used = false,
                Some(_) => return self.clear(self.hand),
                None => {}
            }
        }
    }

    fn clear(&mut self, place: usize) {
        let Some(slot) = &self.slots[place] else { return };
        if let Ok(found) = self.index.find_entry(slot.hash, |at| *at as usize == place) {
            found.remove();
        }
        self.clear_place(place as u32);
    }

    fn clear_place(&mut self, place: u32) {
        if let Some(slot) = self.slots[place as usize].take() {
            self.cost = self.cost.minus(slot.cost);
            self.free.push(place);
        }
    }
}

fn is_at<V>(slots: &[Option<TableSlot<V>>], place: u32, hash: u64, key: &Key<'_>) -> bool {
    slots[place as usize].as_ref().is_some_and(|slot| slot.has(hash, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: usize = 1 << 20;

    fn key(path: &[u8]) -> Key<'_> {
        Key { epoch: 1, purpose: Purpose::Serve, path }
    }

    /// All keys have one hash: the table must compare keys.
    fn put(table: &mut FileTable<u32>, name: &str, value: u32, bytes: usize) {
        let path = name.as_bytes();
        table.insert(7, &key(path), path.into(), 0, value, Cost { entries: 1, bytes, descriptors: 0 });
    }

    fn get(table: &mut FileTable<u32>, name: &str) -> Option<u32> {
        table.get(7, &key(name.as_bytes())).map(|slot| slot.value)
    }

    fn table(entries: usize, bytes: usize) -> FileTable<u32> {
        FileTable::new(Cost { entries, bytes, descriptors: 4 })
    }

    #[test]
    fn replaces_and_forgets() {
        let mut table = table(10, ROOMY);
        put(&mut table, "a", 1, 10);
        put(&mut table, "a", 2, 20);
        assert_eq!(get(&mut table, "a"), Some(2));
        assert_eq!(table.cost(), Cost { entries: 1, bytes: 20, descriptors: 0 });
        assert!(table.get(7, &Key { epoch: 2, ..key(b"a") }).is_none());
        assert!(table.get(7, &Key { purpose: Purpose::Run, ..key(b"a") }).is_none());
        table.remove(7, &key(b"a"));
        assert_eq!(get(&mut table, "a"), None);
        assert_eq!(table.cost(), Cost::default());
    }

    #[test]
    fn what_is_used_outlives_what_is_not() {
        let mut table = table(4, ROOMY);
        put(&mut table, "kept", 0, 1);
        for n in 1..100 {
            assert_eq!(get(&mut table, "kept"), Some(0), "after {n}");
            put(&mut table, &n.to_string(), n, 1);
            assert!(table.cost().entries <= 4);
        }
        assert_eq!(get(&mut table, "99"), Some(99), "the newest is not the first to go");
    }

    #[test]
    fn bytes_are_bounded() {
        let mut table = table(1000, 100);
        for n in 0..50 {
            put(&mut table, &n.to_string(), n, 30);
            assert!(table.cost().bytes <= 100);
        }
        assert_eq!(table.cost().entries, 3);
        put(&mut table, "large", 1, 101);
        assert_eq!(get(&mut table, "large"), None);
        assert_eq!(table.cost().entries, 3, "and nothing had to go for it");
    }

    #[test]
    fn growth_is_charged_and_evicts() {
        let mut table = table(10, 100);
        for n in 0..4 {
            put(&mut table, &n.to_string(), n, 20);
        }
        let grown = Cost { entries: 1, bytes: 60, descriptors: 0 };
        table.charge(7, &key(b"2"), grown, |value| *value == 9);
        assert_eq!(table.cost().bytes, 80, "not the same value");
        table.charge(7, &key(b"2"), grown, |value| *value == 2);
        assert_eq!(get(&mut table, "2"), Some(2));
        assert_eq!(table.cost().bytes, 100);
        assert_eq!(table.cost().entries, 3);
    }

    #[test]
    fn no_room_keeps_nothing() {
        let mut table = table(0, 0);
        put(&mut table, "a", 1, 1);
        assert_eq!(get(&mut table, "a"), None);
    }

    #[test]
    fn retains_by_epoch_and_cost() {
        let mut table = table(10, ROOMY);
        for n in 0..6u32 {
            let path = n.to_string();
            let cost = Cost { entries: 1, bytes: 1, descriptors: usize::from(n == 5) };
            let key = Key { epoch: n % 2, ..key(path.as_bytes()) };
            table.insert(u64::from(n), &key, path.as_bytes().into(), 0, n, cost);
        }
        table.retain(|epoch, cost| epoch == 1 && cost.descriptors == 0);
        assert_eq!(table.cost(), Cost { entries: 2, bytes: 2, descriptors: 0 });
    }
}
