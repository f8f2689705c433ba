//! What a memcached server has of a site, as bytes: its state, and its objects.

use std::collections::HashMap;

use super::super::protocol::ObjectName;
use super::super::store::{EntryContent, FieldMap, KnownEntry, Object, SiteTicks};

/// Changes of keys that are remembered one by one. A request of more than so many changes of others loses what it has read.
const CHANGES: usize = 1024;
/// What remains if there are more.
const CHANGES_KEPT: usize = 768;
/// The first byte of a state; another one is that of another version of Millrace.
const FORM: u8 = 1;

/// The state of a site: one item, which each change replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteState {
    /// A part of the names of all items, until the next flush.
    pub generation: u64,
    /// The site's clock, the tick of the last change that is not in `changes`, and the ticks of flushed groups.
    pub ticks: SiteTicks,
    /// Last changes: hash of a key, and tick.
    pub changes: HashMap<u64, u64>,
}

impl SiteState {
    /// A site without objects, whose clock begins at this tick.
    pub fn new(tick: u64) -> SiteState {
        let ticks = SiteTicks { clock: tick, floor: tick, flushed: HashMap::new() };
        SiteState { generation: tick, ticks, changes: HashMap::new() }
    }

    /// The state after these changes; `ticks` are those of the store that has carried them out.
    pub fn after(&self, ticks: SiteTicks, changes: impl Iterator<Item = (u64, u64)>) -> SiteState {
        if ticks.floor != self.ticks.floor {
            // Flushed: all keys have changed at the floor. What has changed since in the same frame is as if it was evicted at once.
            let floor = ticks.clock;
            return SiteState {
                generation: floor,
                ticks: SiteTicks { floor, ..ticks },
                changes: HashMap::new(),
            };
        }
        let mut all = self.changes.clone();
        all.extend(changes);
        let mut floor = ticks.floor;
        if all.len() > CHANGES {
            let mut order: Vec<u64> = all.values().copied().collect();
            order.sort_unstable();
            floor = floor.max(order[order.len() - CHANGES_KEPT - 1]);
            all.retain(|_, tick| *tick > floor);
        }
        SiteState { generation: self.generation, ticks: SiteTicks { floor, ..ticks }, changes: all }
    }

    /// As bytes.
    pub fn write(&self) -> Vec<u8> {
        let SiteTicks { clock, floor, flushed } = &self.ticks;
        let mut bytes = vec![FORM];
        for number in [self.generation, *clock, *floor, flushed.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for (group, tick) in flushed {
            bytes.push(u8::try_from(group.len()).unwrap_or(u8::MAX));
            bytes.extend_from_slice(group);
            bytes.extend_from_slice(&tick.to_le_bytes());
        }
        for (hash, tick) in &self.changes {
            bytes.extend_from_slice(&hash.to_le_bytes());
            bytes.extend_from_slice(&tick.to_le_bytes());
        }
        bytes
    }

    /// From bytes; `None`: they are something else.
    pub fn read(bytes: &[u8]) -> Option<SiteState> {
        let mut rest = bytes.strip_prefix(&[FORM])?;
        let [generation, clock, floor, groups] =
            [number(&mut rest)?, number(&mut rest)?, number(&mut rest)?, number(&mut rest)?];
        let mut flushed = HashMap::new();
        for _ in 0..groups {
            let (length, after) = rest.split_first()?;
            let (group, after) = after.split_at_checked(usize::from(*length))?;
            rest = after;
            flushed.insert(group.into(), number(&mut rest)?);
        }
        let mut changes = HashMap::new();
        while !rest.is_empty() {
            changes.insert(number(&mut rest)?, number(&mut rest)?);
        }
        Some(SiteState { generation, ticks: SiteTicks { clock, floor, flushed }, changes })
    }
}

/// An object as bytes: what it is, the tick of its last change, and its content.
pub fn write_entry(known: &KnownEntry) -> Vec<u8> {
    let (kind, format) = match &known.content {
        EntryContent::Nothing => (0, 0),
        EntryContent::Object(object) => (1, object.format),
        EntryContent::Fields(_) => (2, 0),
    };
    let mut bytes = vec![kind, format];
    bytes.extend_from_slice(&known.version.to_le_bytes());
    match &known.content {
        EntryContent::Nothing => {}
        EntryContent::Object(object) => bytes.extend_from_slice(&object.bytes),
        EntryContent::Fields(fields) => fields.write(&mut bytes),
    }
    bytes
}

/// An object from bytes, which never expires; `None`: they are something else, or a mark.
pub fn read_entry(bytes: &[u8]) -> Option<KnownEntry> {
    let (head, mut rest) = bytes.split_at_checked(2)?;
    let version = number(&mut rest)?;
    let content = match head {
        [0, _] => EntryContent::Nothing,
        [1, format] => EntryContent::Object(Object { format: *format, bytes: rest.into() }),
        [2, _] => EntryContent::Fields(Box::new(FieldMap::read(rest)?)),
        _ => return None,
    };
    Some(KnownEntry { content, version, expires: 0 })
}

/// Group and key, for hashing: no two names have the same text, because a group is shorter than 256 bytes.
pub fn text_of((group, key): ObjectName<'_>) -> Vec<u8> {
    [&[u8::try_from(group.len()).unwrap_or(u8::MAX)], group, key].concat()
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (taken, rest) = bytes.split_at_checked(8)?;
    *bytes = rest;
    Some(u64::from_le_bytes(taken.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(clock: u64, floor: u64) -> SiteTicks {
        SiteTicks { clock, floor, flushed: HashMap::from([(b"g"[..].into(), 7)]) }
    }

    #[test]
    fn a_state_as_bytes() {
        let state = SiteState::new(5).after(ticks(9, 5), [(1, 8), (2, 9)].into_iter());
        let bytes = state.write();
        assert_eq!(SiteState::read(&bytes), Some(state));
        for end in 0..bytes.len() {
            let read = SiteState::read(&bytes[..end]);
            // Without a whole change it is a state with fewer changes; memcached has items as a whole.
            assert!(read.is_none() || (bytes.len() - end).is_multiple_of(16), "{end}: {read:?}");
        }
        assert_eq!(SiteState::read(b"?"), None);
        assert_eq!(SiteState::read(&[&[2], &bytes[1..]].concat()), None, "of another version");
    }

    #[test]
    fn old_changes_become_the_floor() {
        let state = SiteState::new(100);
        let changes = (0..CHANGES as u64).map(|number| (number, 101 + number));
        let full = state.after(ticks(100 + CHANGES as u64, 100), changes);
        assert_eq!((full.changes.len(), full.ticks.floor), (CHANGES, 100));
        let more = full.after(ticks(2000, 100), [(0, 1999), (CHANGES as u64, 2000)].into_iter());
        assert_eq!(more.changes.len(), CHANGES_KEPT);
        assert_eq!(more.changes[&0], 1999, "it has changed again");
        let (first, floor) = (more.changes.values().min().unwrap(), more.ticks.floor);
        assert_eq!(*first, floor + 1);
        for (hash, tick) in full.changes.iter().filter(|(hash, _)| **hash != 0) {
            assert_eq!(more.changes.get(hash).copied(), Some(*tick).filter(|tick| *tick > floor));
        }
    }

    #[test]
    fn a_flush_begins_a_generation() {
        let state = SiteState::new(100).after(ticks(101, 100), [(1, 101)].into_iter());
        let flushed = state.after(ticks(104, 103), [(1, 104)].into_iter());
        assert_eq!((flushed.generation, flushed.ticks.floor, flushed.changes.len()), (104, 104, 0));
    }

    #[test]
    fn entries_as_bytes() {
        let object = Object { format: 3, bytes: b"a:0:{}"[..].into() };
        for content in [
            EntryContent::Nothing,
            EntryContent::Object(object),
            EntryContent::Fields(Box::new(FieldMap::new(3))),
        ] {
            let bytes = write_entry(&KnownEntry { content, version: 300, expires: 0 });
            let read = read_entry(&bytes).unwrap();
            assert_eq!((read.version, write_entry(&read)), (300, bytes));
        }
        for bytes in [&b""[..], b"?", &[0; 9], &[3; 30], &[2; 11]] {
            assert!(read_entry(bytes).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn names_differ() {
        assert_ne!(text_of((b"a", b"bc")), text_of((b"ab", b"c")));
        assert_ne!(text_of((b"", b"ab")), text_of((b"a", b"b")));
    }
}
