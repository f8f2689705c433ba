//! The objects of all sites as a value: no I/O, no clock, `now` is passed in (milliseconds of any clock that doesn't go
//! back).
//!
//! # No stale object
//!
//! Each site has a logical clock; each change of a key - a value, a deletion - takes the next tick of it as its version. A
//! client says with each value as of which tick it knows the key: the version that it has read, the tick at which it missed
//! it, or that at which its request began. If the key has changed since, the client may have read its database before that
//! change, so its value is not taken:
//!
//! - A value that was missing (`Add`) is refused; this is a lease without a table of leases.
//! - A value that replaces another one (`Set`) is refused, and the key is deleted: nobody knows which of the two changes came
//!   last in the database. The next client reads it there. So two processes that change different options at the same time
//!   never lose one (WordPress keeps all options in one object, `alloptions`; core trac 31245).
//! - With [`SetFlags::FILL`] two values that were missing, and differ, delete each other: one of the clients may have changed the
//!   database in between, and has found nothing here to correct (WordPress' delete_option() with `alloptions`).
//! - With [`SetFlags::LAST_WINS`] the later value stays, unless the key was deleted: for objects without a row in the database.
//!
//! A deleted key stays as a tombstone with its version. Where the memory of a key is lost - eviction, expiry - its version
//! raises the site's `floor`: keys that are not known have changed at the floor, at the latest.

use std::collections::HashMap;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// Memory of an entry besides key and value: the entry, its place in the index, allocations.
const OVERHEAD: usize = 160;
/// Maximum number of groups that were flushed on their own; one more flushes all groups.
const FLUSHED_GROUPS: usize = 1024;
/// Entries that are evicted before the largest site is looked for again.
const EVICT_AT_ONCE: usize = 64;
/// No entry.
const NONE: u32 = u32::MAX;

/// The number of a site.
pub type SiteId = usize;

/// A value with the client's number for its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// 0 to 255; the store knows only [`INTEGER`].
    pub format: u8,
    /// The bytes.
    pub bytes: Arc<[u8]>,
}

/// Format of a decimal integer: the one that [`ObjectStore::increment`] reads and writes.
pub const INTEGER: u8 = 1;

/// Result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The object and its version.
    Hit(u64, Object),
    /// Not there, as of this tick.
    Miss(u64),
}

/// When a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMode {
    /// Always.
    Set,
    /// If there is none.
    Add,
    /// If there is one.
    Replace,
    /// If the key has not changed; otherwise nothing happens.
    Compare,
}

/// Options of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetFlags(pub u8);

impl SetFlags {
    /// Of two values that were set at the same time, the later one stays.
    pub const LAST_WINS: u8 = 1;
    /// Of an addition: the value was read from a database.
    pub const FILL: u8 = 2;

    fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }
}

/// A value to store.
#[derive(Clone, Debug)]
pub struct Set {
    /// When to store it.
    pub mode: SetMode,
    /// Options.
    pub flags: SetFlags,
    /// The tick as of which the client knows the key.
    pub as_of: u64,
    /// Milliseconds until it expires; 0: never.
    pub lifetime: u64,
    /// The value.
    pub object: Object,
}

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Stored, with this version.
    Yes(u64),
    /// The key has changed since the client read it; the site's clock.
    Refused(u64),
    /// `Add`: there is a value; `Replace`: there is none. The site's clock.
    Condition(u64),
    /// Larger than an object may be: the key is deleted. The site's clock.
    TooLarge(u64),
}

/// Result of adding to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// The new version and the sum.
    Done(u64, i64),
    /// Not there.
    Missing(u64),
    /// Not an integer.
    NotInteger(u64),
}

/// Result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Whether there was an object.
    pub was_there: bool,
    /// Nobody else has changed the key since the client read it: it knows the key as of this deletion.
    pub is_only_change: bool,
    /// The deletion's tick.
    pub tick: u64,
}

/// Entries that were flushed, to be dropped where nobody waits for it.
#[derive(Debug, Default)]
#[must_use]
pub struct Flushed {
    _entries: Vec<Entry>,
    _index: HashTable<u32>,
}

/// Figures of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectUsage {
    /// Objects, expired ones included.
    pub objects: u64,
    /// Memory, bytes.
    pub bytes: u64,
    /// Objects evicted to make room.
    pub evicted: u64,
}

#[derive(Debug)]
struct Entry {
    group_length: u16,
    /// Group, then key.
    name: Box<[u8]>,
    /// `None`: a tombstone.
    object: Option<Object>,
    version: u64,
    /// 0: never.
    expires: u64,
    newer: u32,
    older: u32,
}

impl Entry {
    fn cost(&self) -> usize {
        OVERHEAD + self.name.len() + self.object.as_ref().map_or(0, |object| object.bytes.len())
    }

    fn group(&self) -> &[u8] {
        &self.name[..usize::from(self.group_length)]
    }

    fn is(&self, group: &[u8], key: &[u8]) -> bool {
        self.group() == group && &self.name[group.len()..] == key
    }
}

/// The objects of a site.
#[derive(Debug)]
struct StoredSite {
    clock: u64,
    floor: u64,
    /// Ticks at which groups were flushed.
    flushed: HashMap<Box<[u8]>, u64>,
    hasher: DefaultHashBuilder,
    index: HashTable<u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    usage: ObjectUsage,
}

impl StoredSite {
    fn new(clock: u64) -> StoredSite {
        StoredSite {
            clock,
            floor: clock,
            flushed: HashMap::new(),
            hasher: DefaultHashBuilder::default(),
            index: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            usage: ObjectUsage::default(),
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn hash(&self, group: &[u8], key: &[u8]) -> u64 {
        self.hasher.hash_one((group, key))
    }

    fn find(&self, group: &[u8], key: &[u8]) -> Option<u32> {
        let hash = self.hash(group, key);
        self.index.find(hash, |&at| self.entries[at as usize].is(group, key)).copied()
    }

    /// The tick of the last flush of a group on its own.
    fn flushed(&self, group: &[u8]) -> u64 {
        if self.flushed.is_empty() { 0 } else { self.flushed.get(group).copied().unwrap_or(0) }
    }

    /// The entry if it has a value that is neither expired nor flushed.
    fn live(&self, at: Option<u32>, now: u64) -> Option<&Object> {
        let entry = &self.entries[at? as usize];
        let is_over = entry.expires != 0 && entry.expires <= now;
        entry.object.as_ref().filter(|_| !is_over && entry.version > self.flushed(entry.group()))
    }

    /// The tick of the last change of a key.
    fn changed(&self, at: Option<u32>, group: &[u8]) -> u64 {
        let known = at.map_or(self.floor, |at| self.entries[at as usize].version);
        known.max(self.flushed(group))
    }

    /// Gives a key a value, or a tombstone, and the next version.
    fn put(
        &mut self,
        at: Option<u32>,
        group: &[u8],
        key: &[u8],
        object: Option<Object>,
        expires: u64,
    ) -> u64 {
        let version = self.tick();
        let at = match at {
            Some(at) => {
                self.account(at, false);
                self.unlink(at);
                let entry = &mut self.entries[at as usize];
                (entry.object, entry.version, entry.expires) = (object, version, expires);
                at
            }
            None => {
                let group_length = u16::try_from(group.len()).unwrap_or(u16::MAX);
                let name = [group, key].concat().into_boxed_slice();
                let entry = Entry { group_length, name, object, version, expires, newer: NONE, older: NONE };
                self.insert(entry, group, key)
            }
        };
        self.account(at, true);
        self.link(at);
        version
    }

    fn insert(&mut self, entry: Entry, group: &[u8], key: &[u8]) -> u32 {
        let hash = self.hash(group, key);
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).expect("memory ends long before 4 billion entries")
            }
        };
        let (hasher, entries) = (&self.hasher, &self.entries);
        self.index.insert_unique(hash, at, |&at| {
            let entry = &entries[at as usize];
            let (group, key) = entry.name.split_at(usize::from(entry.group_length));
            hasher.hash_one((group, key))
        });
        at
    }

    fn account(&mut self, at: u32, is_added: bool) {
        let entry = &self.entries[at as usize];
        let (cost, objects) = (entry.cost() as u64, u64::from(entry.object.is_some()));
        let usage = &mut self.usage;
        if is_added {
            (usage.bytes, usage.objects) = (usage.bytes + cost, usage.objects + objects);
        } else {
            (usage.bytes, usage.objects) = (usage.bytes - cost, usage.objects - objects);
        }
    }

    fn link(&mut self, at: u32) {
        let newest = self.newest;
        let entry = &mut self.entries[at as usize];
        (entry.newer, entry.older) = (NONE, newest);
        match newest {
            NONE => self.oldest = at,
            other => self.entries[other as usize].newer = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let Entry { newer, older, .. } = self.entries[at as usize];
        match newer {
            NONE => self.newest = older,
            other => self.entries[other as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            other => self.entries[other as usize].newer = newer,
        }
    }

    fn touch(&mut self, at: u32) {
        if self.newest != at {
            self.unlink(at);
            self.link(at);
        }
    }

    /// Forgets the entry that was not used for the longest time.
    fn evict(&mut self) -> bool {
        let at = self.oldest;
        if at == NONE {
            return false;
        }
        self.account(at, false);
        self.unlink(at);
        let entry = &mut self.entries[at as usize];
        self.usage.evicted += u64::from(entry.object.take().is_some());
        self.floor = self.floor.max(entry.version);
        let name = std::mem::take(&mut entry.name);
        let (group, key) = name.split_at(usize::from(entry.group_length));
        let hash = self.hasher.hash_one((group, key));
        if let Ok(found) = self.index.find_entry(hash, |&other| other == at) {
            found.remove();
        }
        self.free.push(at);
        true
    }

    fn set(&mut self, group: &[u8], key: &[u8], set: Set, most: usize, now: u64) -> Stored {
        let at = self.find(group, key);
        let live = self.live(at, now);
        let has_changed = self.changed(at, group) > set.as_of;
        match (set.mode, live) {
            (SetMode::Add, Some(other))
                if has_changed && set.flags.has(SetFlags::FILL) && *other != set.object =>
            {
                return Stored::Refused(self.put(at, group, key, None, 0));
            }
            (SetMode::Add, Some(_)) | (SetMode::Replace, None) => return Stored::Condition(self.clock),
            _ => {}
        }
        let may_stay = live.is_some_and(|old| set.flags.has(SetFlags::LAST_WINS) || *old == set.object);
        match (has_changed, set.mode) {
            (true, SetMode::Add | SetMode::Compare) => Stored::Refused(self.clock),
            (true, _) if !may_stay => Stored::Refused(self.put(at, group, key, None, 0)),
            _ if set.object.bytes.len() > most => Stored::TooLarge(self.put(at, group, key, None, 0)),
            _ => {
                let expires = if set.lifetime == 0 { 0 } else { now.saturating_add(set.lifetime).max(1) };
                Stored::Yes(self.put(at, group, key, Some(set.object), expires))
            }
        }
    }

    fn increment(&mut self, group: &[u8], key: &[u8], by: i64, now: u64) -> Sum {
        let at = self.find(group, key);
        let Some(object) = self.live(at, now) else { return Sum::Missing(self.clock) };
        let text = Some(&object.bytes).filter(|_| object.format == INTEGER);
        let number = text.and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse::<i64>().ok());
        let Some(sum) = number.and_then(|number| number.checked_add(by)) else {
            return Sum::NotInteger(self.clock);
        };
        let sum = sum.max(0);
        let expires = at.map_or(0, |at| self.entries[at as usize].expires);
        let object = Object { format: INTEGER, bytes: sum.to_string().into_bytes().into() };
        Sum::Done(self.put(at, group, key, Some(object), expires), sum)
    }

    fn flush(&mut self) -> Flushed {
        self.floor = self.tick();
        self.flushed.clear();
        self.free = Vec::new();
        (self.newest, self.oldest) = (NONE, NONE);
        self.usage = ObjectUsage { evicted: self.usage.evicted, ..ObjectUsage::default() };
        Flushed { _entries: std::mem::take(&mut self.entries), _index: std::mem::take(&mut self.index) }
    }
}

/// The objects of all sites.
#[derive(Debug)]
pub struct ObjectStore {
    limit: usize,
    value_bytes: usize,
    /// Clock of a new site: higher than that of any site that was there before.
    clock: u64,
    sites: Vec<Option<StoredSite>>,
    /// Memory of all sites, bytes.
    used: u64,
}

impl ObjectStore {
    /// A store that may use `limit` bytes, for objects of at most `value_bytes`. `clock`: a number that grows with each start
    /// of the process.
    pub fn new(limit: usize, value_bytes: usize, clock: u64) -> ObjectStore {
        ObjectStore { limit, value_bytes, clock, sites: Vec::new(), used: 0 }
    }

    /// Other limits.
    pub fn set_limits(&mut self, limit: usize, value_bytes: usize) {
        (self.limit, self.value_bytes) = (limit, value_bytes);
        self.make_room();
    }

    /// Maximum size of an object.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// A new site, which shares nothing with the others.
    pub fn open(&mut self) -> SiteId {
        let site = Some(StoredSite::new(self.clock));
        match self.sites.iter().position(Option::is_none) {
            Some(free) => {
                self.sites[free] = site;
                free
            }
            None => {
                self.sites.push(site);
                self.sites.len() - 1
            }
        }
    }

    /// Forgets a site.
    pub fn close(&mut self, id: SiteId) {
        if let Some(mut site) = self.sites[id].take() {
            self.clock = self.clock.max(site.tick());
            self.used -= site.usage.bytes;
        }
    }

    /// Carries out a change, and makes room afterwards.
    fn change<T>(&mut self, id: SiteId, change: impl FnOnce(&mut StoredSite) -> T) -> T {
        let site = self.sites[id].as_mut().expect("a site is used only while it is open");
        let before = site.usage.bytes;
        let result = change(site);
        self.used = self.used - before + site.usage.bytes;
        self.make_room();
        result
    }

    /// The clock of a site.
    pub fn clock(&self, id: SiteId) -> u64 {
        self.sites[id].as_ref().map_or(0, |site| site.clock)
    }

    /// Figures of a site.
    pub fn usage(&self, id: SiteId) -> ObjectUsage {
        self.sites[id].as_ref().map(|site| site.usage).unwrap_or_default()
    }

    /// Looks up a key.
    pub fn get(&mut self, id: SiteId, group: &[u8], key: &[u8], now: u64) -> Lookup {
        let site = self.sites[id].as_mut().expect("a site is used only while it is open");
        let at = site.find(group, key);
        match (at, site.live(at, now).cloned()) {
            (Some(at), Some(object)) => {
                site.touch(at);
                Lookup::Hit(site.entries[at as usize].version, object)
            }
            _ => Lookup::Miss(site.clock),
        }
    }

    /// Stores a value under the rules at the head of this file.
    pub fn set(&mut self, id: SiteId, group: &[u8], key: &[u8], set: Set, now: u64) -> Stored {
        let most = self.value_bytes;
        self.change(id, |site| site.set(group, key, set, most, now))
    }

    /// Deletes a key, which the client knows as of a tick.
    pub fn delete(&mut self, id: SiteId, group: &[u8], key: &[u8], as_of: u64, now: u64) -> Deleted {
        self.change(id, |site| {
            let at = site.find(group, key);
            let was_there = site.live(at, now).is_some();
            let is_only_change = site.changed(at, group) <= as_of;
            Deleted { was_there, is_only_change, tick: site.put(at, group, key, None, 0) }
        })
    }

    /// Adds to an integer, whose lifetime stays; the sum is at least 0, as in WordPress.
    pub fn increment(&mut self, id: SiteId, group: &[u8], key: &[u8], by: i64, now: u64) -> Sum {
        self.change(id, |site| site.increment(group, key, by, now))
    }

    /// Forgets all objects of a site; its clock.
    pub fn flush(&mut self, id: SiteId) -> (u64, Flushed) {
        self.change(id, |site| {
            let flushed = site.flush();
            (site.clock, flushed)
        })
    }

    /// Forgets all objects of a group; the site's clock.
    pub fn flush_group(&mut self, id: SiteId, group: &[u8]) -> (u64, Flushed) {
        self.change(id, |site| {
            if site.flushed.len() >= FLUSHED_GROUPS && !site.flushed.contains_key(group) {
                let flushed = site.flush();
                return (site.clock, flushed);
            }
            let tick = site.tick();
            site.flushed.insert(group.into(), tick);
            (tick, Flushed::default())
        })
    }

    /// If there is too much, evicts a hundredth more than is needed, always from the site that uses the most memory.
    fn make_room(&mut self) {
        if self.used <= self.limit as u64 {
            return;
        }
        let target = (self.limit - self.limit / 100) as u64;
        while self.used > target {
            let largest = self.sites.iter_mut().flatten().max_by_key(|site| site.usage.bytes);
            let Some(site) = largest.filter(|site| site.oldest != NONE) else { return };
            let before = site.usage.bytes;
            for _ in 0..EVICT_AT_ONCE {
                if self.used - (before - site.usage.bytes) <= target || !site.evict() {
                    break;
                }
            }
            self.used -= before - site.usage.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store with one site, and short forms of its calls: group `g`, time 0.
    struct One {
        store: ObjectStore,
        site: SiteId,
    }

    impl One {
        fn new(limit: usize) -> One {
            let mut store = ObjectStore::new(limit, limit / 4, 1000);
            let site = store.open();
            One { store, site }
        }

        fn get(&mut self, key: &str) -> Option<String> {
            match self.store.get(self.site, b"g", key.as_bytes(), 0) {
                Lookup::Hit(_, object) => Some(String::from_utf8(object.bytes.to_vec()).unwrap()),
                Lookup::Miss(_) => None,
            }
        }

        /// The tick as of which a client that asks now knows the key.
        fn as_of(&mut self, key: &str) -> u64 {
            match self.store.get(self.site, b"g", key.as_bytes(), 0) {
                Lookup::Hit(version, _) => version,
                Lookup::Miss(clock) => clock,
            }
        }

        fn put(&mut self, mode: SetMode, flags: u8, key: &str, value: &str, as_of: u64) -> Stored {
            let set = Set { mode, flags: SetFlags(flags), as_of, lifetime: 0, object: object(value) };
            self.store.set(self.site, b"g", key.as_bytes(), set, 0)
        }

        fn set(&mut self, key: &str, value: &str) -> Stored {
            self.put(SetMode::Set, 0, key, value, u64::MAX)
        }

        fn delete(&mut self, key: &str) -> bool {
            self.store.delete(self.site, b"g", key.as_bytes(), 0, 0).was_there
        }
    }

    fn object(value: &str) -> Object {
        Object { format: 2, bytes: value.as_bytes().into() }
    }

    fn is_stored(stored: Stored) -> bool {
        matches!(stored, Stored::Yes(_))
    }

    fn is_refused(stored: Stored) -> bool {
        matches!(stored, Stored::Refused(_))
    }

    #[test]
    fn a_value_read_before_a_deletion_is_refused() {
        let mut one = One::new(1 << 20);
        let as_of = one.as_of("a");
        assert!(!one.delete("a"), "it was not there; the deletion counts all the same");
        for mode in [SetMode::Add, SetMode::Set, SetMode::Compare] {
            assert!(is_refused(one.put(mode, 0, "a", "old", as_of)), "{mode:?}");
        }
        assert!(is_refused(one.put(SetMode::Set, SetFlags::LAST_WINS, "a", "old", as_of)));
        assert_eq!(one.get("a"), None);
        let as_of = one.as_of("a");
        assert!(is_stored(one.put(SetMode::Add, 0, "a", "new", as_of)));
        assert!(one.delete("a") && one.get("a").is_none());
    }

    #[test]
    fn two_changes_at_the_same_time_leave_neither() {
        let mut one = One::new(1 << 20);
        one.set("options", "a=1 b=1");
        let (first, second) = (one.as_of("options"), one.as_of("options"));
        assert!(is_stored(one.put(SetMode::Set, 0, "options", "a=2 b=1", first)));
        assert!(is_refused(one.put(SetMode::Set, 0, "options", "a=1 b=2", second)));
        assert_eq!(one.get("options"), None, "the next client reads its database");
        // A third one that has missed it before the second change may not bring back what it has read.
        one.set("options", "a=2 b=2");
        let third = one.as_of("options");
        one.put(SetMode::Set, 0, "options", "x", first);
        assert!(is_refused(one.put(SetMode::Add, 0, "options", "a=2 b=1", third)));
    }

    #[test]
    fn a_refused_change_counts_as_one() {
        let mut one = One::new(1 << 20);
        let early = one.as_of("a");
        one.delete("a");
        let reader = one.as_of("a");
        // The database was changed before this was sent: what `reader` has read since then may be older.
        assert!(is_refused(one.put(SetMode::Set, 0, "a", "1", early)));
        assert!(is_refused(one.put(SetMode::Add, 0, "a", "0", reader)));
    }

    #[test]
    fn equal_values_stay_and_count_as_a_change() {
        let mut one = One::new(1 << 20);
        let as_of = one.as_of("a");
        assert!(is_stored(one.put(SetMode::Set, 0, "a", "1", as_of)));
        let reader = one.as_of("a");
        assert!(is_stored(one.put(SetMode::Set, 0, "a", "1", as_of)), "the second of a crowd that missed it");
        assert!(is_refused(one.put(SetMode::Set, 0, "a", "2", reader)), "which came last is unknown");
    }

    #[test]
    fn the_last_one_wins_if_asked() {
        let mut one = One::new(1 << 20);
        let as_of = one.as_of("t");
        one.set("t", "1");
        assert!(is_stored(one.put(SetMode::Set, SetFlags::LAST_WINS, "t", "2", as_of)));
        assert_eq!(one.get("t").unwrap(), "2");
    }

    #[test]
    fn two_readers_that_disagree_leave_nothing() {
        let mut one = One::new(1 << 20);
        // One has read before, the other after a deletion in the database that found nothing to delete here.
        let (early, late) = (one.as_of("a"), one.as_of("a"));
        assert!(is_stored(one.put(SetMode::Add, SetFlags::FILL, "a", "old", early)));
        assert!(is_refused(one.put(SetMode::Add, SetFlags::FILL, "a", "new", late)));
        assert_eq!(one.get("a"), None);
        let (first, second) = (one.as_of("a"), one.as_of("a"));
        assert!(is_stored(one.put(SetMode::Add, SetFlags::FILL, "a", "new", first)));
        assert!(matches!(one.put(SetMode::Add, SetFlags::FILL, "a", "new", second), Stored::Condition(_)));
        assert_eq!(one.get("a").unwrap(), "new", "a crowd that missed it agrees");
        assert!(matches!(one.put(SetMode::Add, 0, "a", "lock", second), Stored::Condition(_)));
        assert_eq!(one.get("a").unwrap(), "new", "a lock is never broken");
    }

    #[test]
    fn conditions() {
        let mut one = One::new(1 << 20);
        assert!(matches!(one.put(SetMode::Replace, 0, "a", "1", u64::MAX), Stored::Condition(_)));
        assert!(is_stored(one.put(SetMode::Add, 0, "a", "1", u64::MAX)));
        assert!(matches!(one.put(SetMode::Add, 0, "a", "2", u64::MAX), Stored::Condition(_)));
        assert!(is_stored(one.put(SetMode::Replace, 0, "a", "3", u64::MAX)));
        let as_of = one.as_of("a");
        one.set("a", "4");
        assert!(is_refused(one.put(SetMode::Compare, 0, "a", "5", as_of)));
        assert_eq!(one.get("a").unwrap(), "4", "comparing changes nothing");
    }

    #[test]
    fn numbers() {
        let mut one = One::new(1 << 20);
        let add = |one: &mut One, by| one.store.increment(one.site, b"g", b"n", by, 0);
        assert!(matches!(add(&mut one, 1), Sum::Missing(_)));
        one.set("n", "7");
        assert!(matches!(add(&mut one, 1), Sum::NotInteger(_)), "text is the client's");
        let number = Object { format: INTEGER, bytes: (*b"7").into() };
        let set = Set {
            mode: SetMode::Set,
            flags: SetFlags::default(),
            as_of: u64::MAX,
            lifetime: 50,
            object: number,
        };
        one.store.set(one.site, b"g", b"n", set, 0);
        assert!(matches!(add(&mut one, 5), Sum::Done(_, 12)));
        assert!(matches!(add(&mut one, -50), Sum::Done(_, 0)));
        assert!(matches!(add(&mut one, i64::MAX), Sum::Done(_, i64::MAX)));
        assert!(matches!(add(&mut one, 1), Sum::NotInteger(_)), "no overflow");
        assert!(
            matches!(one.store.increment(one.site, b"g", b"n", 1, 50), Sum::Missing(_)),
            "its lifetime stays"
        );
    }

    #[test]
    fn lifetimes() {
        let mut one = One::new(1 << 20);
        let set = Set {
            mode: SetMode::Set,
            flags: SetFlags::default(),
            as_of: u64::MAX,
            lifetime: 100,
            object: object("x"),
        };
        one.store.set(one.site, b"g", b"a", set, 1000);
        assert!(matches!(one.store.get(one.site, b"g", b"a", 1099), Lookup::Hit(..)));
        let Lookup::Miss(as_of) = one.store.get(one.site, b"g", b"a", 1100) else { panic!("over") };
        let set =
            Set { mode: SetMode::Add, flags: SetFlags::default(), as_of, lifetime: 0, object: object("y") };
        assert!(is_stored(one.store.set(one.site, b"g", b"a", set, 1100)));
    }

    #[test]
    fn a_deletion_tells_whether_it_was_the_only_change() {
        let mut one = One::new(1 << 20);
        one.set("a", "1");
        let as_of = one.as_of("a");
        let first = one.store.delete(one.site, b"g", b"a", as_of, 0);
        assert!(first.was_there && first.is_only_change);
        assert!(is_stored(one.put(SetMode::Set, 0, "a", "2", first.tick)), "its own deletion is no other's");
        assert!(!one.store.delete(one.site, b"g", b"a", as_of, 0).is_only_change);
    }

    #[test]
    fn a_flush_reaches_its_own_site_and_group_only() {
        let mut one = One::new(1 << 20);
        let other = one.store.open();
        let put = |store: &mut ObjectStore, site, group: &[u8]| {
            let set = Set {
                mode: SetMode::Set,
                flags: SetFlags::default(),
                as_of: u64::MAX,
                lifetime: 0,
                object: object("x"),
            };
            store.set(site, group, b"k", set, 0)
        };
        let has = |store: &mut ObjectStore, site, group: &[u8]| {
            matches!(store.get(site, group, b"k", 0), Lookup::Hit(..))
        };
        for (site, group) in [(one.site, b"g"), (one.site, b"h"), (other, b"g")] {
            put(&mut one.store, site, group);
        }
        let before = one.as_of("missing");
        let _ = one.store.flush_group(one.site, b"g");
        assert!(!has(&mut one.store, one.site, b"g") && has(&mut one.store, one.site, b"h"));
        assert!(is_refused(one.put(SetMode::Add, 0, "k", "old", before)), "read before the flush");
        assert!(is_refused(one.put(SetMode::Add, 0, "missing", "old", before)));
        put(&mut one.store, one.site, b"g");
        assert!(has(&mut one.store, one.site, b"g"), "what comes after the flush stays");
        let before = one.as_of("missing");
        let _ = one.store.flush(one.site);
        assert!(!has(&mut one.store, one.site, b"g") && !has(&mut one.store, one.site, b"h"));
        assert!(is_refused(one.put(SetMode::Set, 0, "k", "old", before)));
        assert!(has(&mut one.store, other, b"g"), "another site's");
        assert_eq!(one.store.usage(one.site).objects, 0);
    }

    #[test]
    fn groups_without_end_are_flushed_together() {
        let mut one = One::new(1 << 20);
        one.set("a", "1");
        for number in 0..FLUSHED_GROUPS {
            let _ = one.store.flush_group(one.site, format!("h{number}").as_bytes());
        }
        assert!(one.get("a").is_some());
        let _ = one.store.flush_group(one.site, b"one more");
        assert!(one.get("a").is_none());
    }

    #[test]
    fn groups_and_keys_are_not_mixed_up() {
        let mut one = One::new(1 << 20);
        one.set("ab", "1");
        let (mut found, site) = (0, one.site);
        for (group, key) in [(&b"g"[..], &b"ab"[..]), (b"ga", b"b"), (b"", b"gab"), (b"gab", b"")] {
            found += usize::from(matches!(one.store.get(site, group, key, 0), Lookup::Hit(..)));
        }
        assert_eq!(found, 1);
    }

    #[test]
    fn memory_is_bounded_and_eviction_brings_nothing_back() {
        let mut one = One::new(100_000);
        let early = one.as_of("first");
        one.set("first", "1");
        one.delete("first");
        for number in 0..2000 {
            one.set(&format!("k{number}"), &"x".repeat(100));
            let used = one.store.usage(one.site).bytes;
            assert!(used <= 100_000 && used == one.store.used, "{used}");
        }
        let usage = one.store.usage(one.site);
        assert!(usage.evicted > 1000 && usage.objects > 200, "{usage:?}");
        assert!(one.get("k1999").is_some() && one.get("k0").is_none());
        // The tombstone of `first` is forgotten, and with it when it was deleted: the floor knows.
        assert!(is_refused(one.put(SetMode::Add, 0, "first", "1", early)));
        let too_large = "x".repeat(30_000);
        assert!(matches!(one.set("k1999", &too_large), Stored::TooLarge(_)));
        assert!(one.get("k1999").is_none(), "the old value must not stay");
    }

    #[test]
    fn the_largest_site_makes_room() {
        let mut one = One::new(100_000);
        one.set("small", "1");
        let other = one.store.open();
        for number in 0..2000_u32 {
            let set = Set {
                mode: SetMode::Set,
                flags: SetFlags::default(),
                as_of: u64::MAX,
                lifetime: 0,
                object: object(&"x".repeat(100)),
            };
            one.store.set(other, b"g", &number.to_le_bytes(), set, 0);
        }
        assert!(one.get("small").is_some(), "it is the oldest of all, but its site uses little");
        one.store.set_limits(10_000, 1000);
        assert!(one.store.used <= 10_000 && one.get("small").is_some());
        one.store.close(other);
        assert_eq!(one.store.used, one.store.usage(one.site).bytes);
        assert_eq!(one.store.open(), other, "its number is used again");
        assert!(matches!(one.store.get(other, b"g", &1_u32.to_le_bytes(), 0), Lookup::Miss(_)));
    }

    /// Random clients against a model of a database: a value that is found was the database's at some time since the last
    /// change was reported.
    #[test]
    fn nothing_old_after_random_changes() {
        let mut random = 88172645463325252_u64;
        let mut next = move |most: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % most
        };
        let mut one = One::new(6_000);
        let keys = ["a", "b", "c"];
        let mut database = [0_u64; 3];
        // A client: the key it works on, as of when it knows it, what it has read or written, and whether it has written.
        let mut clients: Vec<Option<(usize, u64, u64, bool)>> = vec![None; 8];
        for step in 1..200_000_u64 {
            let client = next(8) as usize;
            match clients[client].take() {
                None => {
                    let key = next(3) as usize;
                    let as_of = one.as_of(keys[key]);
                    let writes = next(4) == 0;
                    if writes {
                        database[key] = step;
                    }
                    clients[client] = Some((key, as_of, database[key], writes));
                }
                Some((key, _, _, true)) if next(3) == 0 => {
                    one.delete(keys[key]);
                }
                Some((key, as_of, value, writes)) => {
                    let mode = if writes { SetMode::Set } else { SetMode::Add };
                    one.put(mode, 0, keys[key], &value.to_string(), as_of);
                }
            }
            if next(10) == 0 {
                one.set(&format!("filler{}", next(40)), &"x".repeat(200));
            }
            if next(1000) == 0 {
                let _ = one.store.flush(one.site);
            }
            for (key, now) in keys.iter().zip(database) {
                let reported =
                    !clients.iter().flatten().any(|(at, _, _, writes)| keys[*at] == *key && *writes);
                if let Some(found) = one.get(key).filter(|_| reported) {
                    assert_eq!(found, now.to_string(), "{key} at step {step}");
                }
            }
        }
    }
}
