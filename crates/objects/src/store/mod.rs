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

mod fields;
mod site;

use std::sync::Arc;

use hashbrown::HashTable;

pub use fields::{ChangedField, FieldChange, FieldMap, FilledFields};
use site::{Entry, StoredSite};
pub use site::{EntryContent, KnownEntry, SiteTicks};

/// Entries that are evicted before the largest site is looked for again.
const EVICT_AT_ONCE: usize = 64;

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

/// Format of PHP's serialize(): the one of an object of many fields.
pub const SERIALIZED: u8 = 3;

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

/// Result of a change of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// No other client has changed one of the fields at the same time.
    pub is_sure: bool,
    /// Its tick.
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

/// The objects of all sites.
#[derive(Clone, Debug)]
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

    /// A store that has a part of a site's objects, to carry out a frame on it.
    pub fn of_site(value_bytes: usize, ticks: SiteTicks) -> (ObjectStore, SiteId) {
        let mut store = ObjectStore::new(usize::MAX, value_bytes, 0);
        store.sites.push(Some(StoredSite::known(ticks)));
        (store, 0)
    }

    /// Adds a key as it is known.
    pub fn learn(&mut self, id: SiteId, group: &[u8], key: &[u8], known: KnownEntry) {
        self.change(id, |site| site.learn(group, key, known));
    }

    /// What is known of a key.
    pub fn entry(&self, id: SiteId, group: &[u8], key: &[u8]) -> Option<KnownEntry> {
        self.sites[id].as_ref()?.entry(group, key)
    }

    /// A site's state, without its keys.
    pub fn ticks(&self, id: SiteId) -> SiteTicks {
        self.sites[id].as_ref().map(StoredSite::ticks).unwrap_or_default()
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
        match site.get(group, key, now) {
            Some((version, object)) => Lookup::Hit(version, object),
            None => Lookup::Miss(site.clock),
        }
    }

    /// Whether a key is as a client knows it as of a tick: it has not changed since, and if it `had` an object, that has not expired.
    pub fn is_unchanged(
        &self,
        id: SiteId,
        group: &[u8],
        key: &[u8],
        (as_of, had): (u64, bool),
        now: u64,
    ) -> bool {
        self.sites[id].as_ref().is_some_and(|site| site.is_unchanged(group, key, (as_of, had), now))
    }

    /// Stores a value under the rules at the head of this file.
    pub fn set(&mut self, id: SiteId, group: &[u8], key: &[u8], set: Set, now: u64) -> Stored {
        let most = self.value_bytes;
        self.change(id, |site| site.set(group, key, set, most, now))
    }

    /// Deletes a key, which the client knows as of a tick.
    pub fn delete(&mut self, id: SiteId, group: &[u8], key: &[u8], as_of: u64, now: u64) -> Deleted {
        self.change(id, |site| site.delete(group, key, as_of, now))
    }

    /// Changes some fields of an object; `fields.rs` has the rules.
    pub fn change_fields(
        &mut self,
        id: SiteId,
        group: &[u8],
        key: &[u8],
        changes: &[ChangedField<'_>],
    ) -> Changed {
        let most = self.value_bytes;
        self.change(id, |site| site.change_fields(group, key, changes, most))
    }

    /// Takes all fields of an object that was missing, as they were read after the tick `as_of`.
    pub fn fill(
        &mut self,
        id: SiteId,
        group: &[u8],
        key: &[u8],
        as_of: u64,
        fields: &FilledFields<'_>,
        now: u64,
    ) -> Stored {
        let most = self.value_bytes;
        self.change(id, |site| site.fill(group, key, as_of, fields, most, now))
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
            let flushed = site.flush_group(group);
            (site.clock, flushed)
        })
    }

    /// All that matters of some keys, for comparisons.
    #[cfg(test)]
    fn snapshot(&self, id: SiteId, group: &[u8], keys: impl Iterator<Item = &'static str>) -> Vec<String> {
        let site = self.sites[id].as_ref().expect("it is open");
        let mut all: Vec<String> = keys.map(|key| site.snapshot(group, key.as_bytes())).collect();
        all.push(format!("{}", site.clock));
        all
    }

    /// If there is too much, evicts a hundredth more than is needed, always from the site that uses the most memory.
    fn make_room(&mut self) {
        if self.used <= self.limit as u64 {
            return;
        }
        let target = (self.limit - self.limit / 100) as u64;
        while self.used > target {
            let largest = self.sites.iter_mut().flatten().max_by_key(|site| site.usage.bytes);
            let Some(site) = largest.filter(|site| !site.is_empty()) else { return };
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
mod model;
#[cfg(test)]
mod tests;
