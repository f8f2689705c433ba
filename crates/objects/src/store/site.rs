//! The objects of one site.

use std::collections::HashMap;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::fields::{ChangedField, FieldMap, FilledFields};
use super::{Changed, Deleted, Flushed, INTEGER, Object, ObjectUsage, Set, SetFlags, SetMode, Stored, Sum};

/// Memory of an entry besides key and value: the entry, its place in the index, allocations.
const OVERHEAD: usize = 160;
/// Maximum number of groups that were flushed on their own; one more flushes all groups.
pub const FLUSHED_GROUPS: usize = 1024;
/// No entry.
const NONE: u32 = u32::MAX;

/// What a key has.
#[derive(Clone, Debug)]
pub enum EntryContent {
    /// Nothing: a tombstone.
    Nothing,
    /// A value.
    Object(Object),
    /// An object of many fields.
    Fields(Box<FieldMap>),
}

/// What is known of a key: what another store has, or gets, of it.
#[derive(Clone, Debug)]
pub struct KnownEntry {
    /// What it has.
    pub content: EntryContent,
    /// The tick of its last change.
    pub version: u64,
    /// When it expires, 0: never.
    pub expires: u64,
}

/// What is known of a site besides its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteTicks {
    /// The tick of its last change.
    pub clock: u64,
    /// Keys that are not known have changed at this tick, at the latest.
    pub floor: u64,
    /// Ticks at which groups were flushed.
    pub flushed: HashMap<Box<[u8]>, u64>,
}

impl EntryContent {
    fn object(&self) -> Option<&Object> {
        match self {
            EntryContent::Nothing => None,
            EntryContent::Object(object) => Some(object),
            EntryContent::Fields(fields) => fields.object(),
        }
    }

    fn cost(&self) -> usize {
        match self {
            EntryContent::Nothing => 0,
            EntryContent::Object(object) => object.bytes.len(),
            EntryContent::Fields(fields) => fields.cost(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Entry {
    group_length: u16,
    /// Group, then key.
    name: Box<[u8]>,
    content: EntryContent,
    /// Its cost and whether it is an object, as they are in the site's figures.
    counted: (u64, bool),
    version: u64,
    /// 0: never.
    expires: u64,
    newer: u32,
    older: u32,
}

impl Entry {
    fn cost(&self) -> usize {
        OVERHEAD + self.name.len() + self.content.cost()
    }

    fn group(&self) -> &[u8] {
        &self.name[..usize::from(self.group_length)]
    }

    fn is(&self, group: &[u8], key: &[u8]) -> bool {
        self.group() == group && &self.name[group.len()..] == key
    }
}

/// The objects of a site.
#[derive(Clone, Debug)]
pub struct StoredSite {
    pub clock: u64,
    floor: u64,
    /// Ticks at which groups were flushed.
    flushed: HashMap<Box<[u8]>, u64>,
    hasher: DefaultHashBuilder,
    index: HashTable<u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    pub usage: ObjectUsage,
}

impl StoredSite {
    pub fn new(clock: u64) -> StoredSite {
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

    /// A site in this state, without entries.
    pub fn known(ticks: SiteTicks) -> StoredSite {
        let SiteTicks { clock, floor, flushed } = ticks;
        StoredSite { floor, flushed, ..StoredSite::new(clock) }
    }

    /// Its state, without its entries.
    pub fn ticks(&self) -> SiteTicks {
        SiteTicks { clock: self.clock, floor: self.floor, flushed: self.flushed.clone() }
    }

    /// Adds a key as it is known; it must not be there.
    pub fn learn(&mut self, group: &[u8], key: &[u8], known: KnownEntry) {
        let clock = self.clock;
        self.put(None, group, key, known.content, known.expires);
        self.clock = clock;
        if let Some(at) = self.find(group, key) {
            self.entries[at as usize].version = known.version;
        }
    }

    /// What is known of a key.
    pub fn entry(&self, group: &[u8], key: &[u8]) -> Option<KnownEntry> {
        let Entry { content, version, expires, .. } = &self.entries[self.find(group, key)? as usize];
        Some(KnownEntry { content: content.clone(), version: *version, expires: *expires })
    }

    pub fn tick(&mut self) -> u64 {
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
        entry.content.object().filter(|_| !is_over && entry.version > self.flushed(entry.group()))
    }

    /// The tick of the last change of a key.
    fn changed(&self, at: Option<u32>, group: &[u8]) -> u64 {
        let known = at.map_or(self.floor, |at| self.entries[at as usize].version);
        known.max(self.flushed(group))
    }

    /// Gives a key a value, or a tombstone, and the next version.
    fn put(&mut self, at: Option<u32>, group: &[u8], key: &[u8], content: EntryContent, expires: u64) -> u64 {
        let version = self.tick();
        let at = match at {
            Some(at) => {
                self.account(at, false);
                self.unlink(at);
                let entry = &mut self.entries[at as usize];
                (entry.content, entry.version, entry.expires) = (content, version, expires);
                at
            }
            None => {
                let group_length = u16::try_from(group.len()).unwrap_or(u16::MAX);
                let name = [group, key].concat().into_boxed_slice();
                let counted = (0, false);
                let entry = Entry {
                    group_length,
                    name,
                    content,
                    counted,
                    version,
                    expires,
                    newer: NONE,
                    older: NONE,
                };
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

    /// Adds the entry's size to the totals, or subtracts the size that was added.
    fn account(&mut self, at: u32, is_added: bool) {
        let entry = &mut self.entries[at as usize];
        let usage = &mut self.usage;
        if is_added {
            entry.counted = (entry.cost() as u64, entry.content.object().is_some());
            (usage.bytes, usage.objects) =
                (usage.bytes + entry.counted.0, usage.objects + u64::from(entry.counted.1));
        } else {
            (usage.bytes, usage.objects) =
                (usage.bytes - entry.counted.0, usage.objects - u64::from(entry.counted.1));
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
    pub fn evict(&mut self) -> bool {
        let at = self.oldest;
        if at == NONE {
            return false;
        }
        self.account(at, false);
        self.unlink(at);
        let entry = &mut self.entries[at as usize];
        self.usage.evicted +=
            u64::from(std::mem::replace(&mut entry.content, EntryContent::Nothing).object().is_some());
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

    pub fn set(&mut self, group: &[u8], key: &[u8], set: Set, most: usize, now: u64) -> Stored {
        let at = self.find(group, key);
        let live = self.live(at, now);
        let has_changed = self.changed(at, group) > set.as_of;
        match (set.mode, live) {
            (SetMode::Add, Some(other))
                if has_changed && set.flags.has(SetFlags::FILL) && *other != set.object =>
            {
                return Stored::Refused(self.put(at, group, key, EntryContent::Nothing, 0));
            }
            (SetMode::Add, Some(_)) | (SetMode::Replace, None) => return Stored::Condition(self.clock),
            _ => {}
        }
        let may_stay = live.is_some_and(|old| set.flags.has(SetFlags::LAST_WINS) || *old == set.object);
        match (has_changed, set.mode) {
            (true, SetMode::Add | SetMode::Compare) => Stored::Refused(self.clock),
            (true, _) if !may_stay => Stored::Refused(self.put(at, group, key, EntryContent::Nothing, 0)),
            _ if set.object.bytes.len() > most => {
                Stored::TooLarge(self.put(at, group, key, EntryContent::Nothing, 0))
            }
            _ => {
                let expires = if set.lifetime == 0 { 0 } else { now.saturating_add(set.lifetime).max(1) };
                Stored::Yes(self.put(at, group, key, EntryContent::Object(set.object), expires))
            }
        }
    }

    pub fn increment(&mut self, group: &[u8], key: &[u8], by: i64, now: u64) -> Sum {
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
        Sum::Done(self.put(at, group, key, EntryContent::Object(object), expires), sum)
    }

    /// The fields of a key, taken out of its entry; new ones if it has none.
    fn take_fields(&mut self, at: Option<u32>, group: &[u8]) -> Box<FieldMap> {
        let changed = self.changed(at, group);
        let flushed = self.flushed(group);
        let entry = at.map(|at| &mut self.entries[at as usize]).filter(|entry| entry.version > flushed);
        match entry.map(|entry| std::mem::replace(&mut entry.content, EntryContent::Nothing)) {
            Some(EntryContent::Fields(fields)) => fields,
            _ => Box::new(FieldMap::new(changed)),
        }
    }

    pub fn change_fields(
        &mut self,
        group: &[u8],
        key: &[u8],
        changes: &[ChangedField<'_>],
        most: usize,
    ) -> Changed {
        let at = self.find(group, key);
        let mut fields = self.take_fields(at, group);
        let is_sure = fields.change(changes, self.clock + 1);
        let content =
            if fields.length() > most { EntryContent::Nothing } else { EntryContent::Fields(fields) };
        Changed { is_sure, tick: self.put(at, group, key, content, 0) }
    }

    pub fn fill(
        &mut self,
        group: &[u8],
        key: &[u8],
        as_of: u64,
        filled: &FilledFields<'_>,
        most: usize,
        now: u64,
    ) -> Stored {
        let at = self.find(group, key);
        if self.live(at, now).is_some() {
            return Stored::Condition(self.clock);
        }
        let mut fields = self.take_fields(at, group);
        let is_taken = fields.fill(as_of, filled);
        if fields.length() > most {
            return Stored::TooLarge(self.put(at, group, key, EntryContent::Nothing, 0));
        }
        let tick = self.put(at, group, key, EntryContent::Fields(fields), 0);
        if is_taken { Stored::Yes(tick) } else { Stored::Refused(tick) }
    }

    pub fn delete(&mut self, group: &[u8], key: &[u8], as_of: u64, now: u64) -> Deleted {
        let at = self.find(group, key);
        let was_there = self.live(at, now).is_some();
        let is_only_change = self.changed(at, group) <= as_of;
        Deleted { was_there, is_only_change, tick: self.put(at, group, key, EntryContent::Nothing, 0) }
    }

    pub fn get(&mut self, group: &[u8], key: &[u8], now: u64) -> Option<(u64, Object)> {
        let at = self.find(group, key);
        let object = self.live(at, now).cloned()?;
        let at = at?;
        self.touch(at);
        Some((self.entries[at as usize].version, object))
    }

    /// See [`super::ObjectStore::is_unchanged`]. A client that has read an object knows it as of its version.
    pub fn is_unchanged(&self, group: &[u8], key: &[u8], (as_of, had): (u64, bool), now: u64) -> bool {
        let at = self.find(group, key);
        let changed = self.changed(at, group);
        changed < as_of || (changed == as_of && (!had || self.live(at, now).is_some()))
    }

    pub fn flush_group(&mut self, group: &[u8]) -> Flushed {
        if self.flushed.len() >= FLUSHED_GROUPS && !self.flushed.contains_key(group) {
            return self.flush();
        }
        let tick = self.tick();
        self.flushed.insert(group.into(), tick);
        Flushed::default()
    }

    pub fn is_empty(&self) -> bool {
        self.oldest == NONE
    }

    pub fn flush(&mut self) -> Flushed {
        self.floor = self.tick();
        self.flushed.clear();
        self.free = Vec::new();
        (self.newest, self.oldest) = (NONE, NONE);
        self.usage = ObjectUsage { evicted: self.usage.evicted, ..ObjectUsage::default() };
        Flushed { _entries: std::mem::take(&mut self.entries), _index: std::mem::take(&mut self.index) }
    }

    #[cfg(test)]
    pub fn snapshot(&self, group: &[u8], key: &[u8]) -> String {
        let at = self.find(group, key);
        let content = at.map(|at| &self.entries[at as usize].content);
        let shown = match content {
            Some(EntryContent::Fields(fields)) => fields.snapshot(),
            other => format!("{other:?}"),
        };
        format!("{shown} {}", self.changed(at, group))
    }
}
