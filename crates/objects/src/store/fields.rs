//! An object of many fields, which processes change one by one. WordPress keeps all options that it loads on every page in one
//! object, `alloptions`, and the names of options that don't exist in another one, `notoptions`. It reads such an object as a
//! whole, and writes it back as a whole; the drop-in says which fields that changes (core trac 31245).
//!
//! # No old field
//!
//! Each field has the tick of its last change. There are three ways to change an object:
//!
//! - **A write** ([`FieldChange::Set`], [`FieldChange::Remove`]): the client has changed the field's row in the database. `as_of` is a
//!   tick *before* that. If the field has changed since, two clients have changed the row at the same time, and nobody here knows
//!   which one came last: the field is in doubt, and the object has to be filled again, from what is read after this.
//! - **A fill**: the client has missed the object at the tick `as_of`, and read all of it from the database after that. Fields that
//!   have changed since keep what they have.
//! - **A finding** ([`FieldChange::Learn`]): the client has read one row. It is dropped if the field has changed since.
//!
//! So a field in a filled object is what the database had after the last write that was reported, whatever the order in which
//! the clients' frames arrive: of two writes, either the second client knew of the first one's report before it wrote, or the
//! field is in doubt. `model.rs` plays all orders.
//!
//! Writes to an object that was not filled yet are remembered, for the fills that are on their way. A removed field is
//! remembered, too; if there are too many of these, they become `floor`.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::{Object, SERIALIZED};

/// Memory of a field besides its name and value.
const FIELD_OVERHEAD: usize = 96;
/// Maximum number of removed fields that are remembered one by one.
const REMOVED: usize = 1024;

/// A change of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldChange<'a> {
    /// The client has written this value to its database.
    Set(&'a [u8]),
    /// The client has removed it from its database.
    Remove,
    /// The client has read this value there.
    Learn(&'a [u8]),
}

/// A field, the tick as of which the client knows it, and its change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedField<'a> {
    /// As PHP serializes a key of an array.
    pub name: &'a [u8],
    /// Before the client wrote or read its database.
    pub as_of: u64,
    /// The change; values are as PHP serializes them.
    pub change: FieldChange<'a>,
}

/// What was read from the database: names and values, as PHP serializes them.
pub type FilledFields<'a> = Vec<(&'a [u8], &'a [u8])>;

#[derive(Clone, Debug)]
struct Field {
    /// `None`: removed, or in doubt.
    value: Option<Box<[u8]>>,
    version: u64,
}

/// An object of many fields.
#[derive(Clone, Debug)]
pub struct FieldMap {
    fields: BTreeMap<Box<[u8]>, Field>,
    /// Whether it was filled, and no field is in doubt.
    is_whole: bool,
    /// The tick of the last change of fields that are not in `fields`, at the latest.
    floor: u64,
    /// Fills as of an earlier tick are refused.
    fill_floor: u64,
    removed: usize,
    /// Length of all names and values.
    bytes: usize,
    object: OnceCell<Object>,
}

impl FieldMap {
    /// Nothing is known, but that no field has changed after `floor`.
    pub fn new(floor: u64) -> FieldMap {
        FieldMap {
            fields: BTreeMap::new(),
            is_whole: false,
            floor,
            fill_floor: floor,
            removed: 0,
            bytes: 0,
            object: OnceCell::new(),
        }
    }

    /// Appends all of it, for [`FieldMap::read`].
    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self.is_whole));
        bytes.extend_from_slice(&self.floor.to_le_bytes());
        bytes.extend_from_slice(&self.fill_floor.to_le_bytes());
        for (name, field) in &self.fields {
            bytes.extend_from_slice(&field.version.to_le_bytes());
            bytes.push(u8::from(field.value.is_some()));
            for text in [&**name, field.value.as_deref().unwrap_or_default()] {
                bytes.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
                bytes.extend_from_slice(text);
            }
        }
    }

    /// What [`FieldMap::write`] has appended; `None`: it is something else.
    pub fn read(mut bytes: &[u8]) -> Option<FieldMap> {
        fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
            let (taken, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            Some(taken)
        }
        fn number(bytes: &mut &[u8]) -> Option<u64> {
            Some(u64::from_le_bytes(take(bytes, 8)?.try_into().ok()?))
        }
        fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
            let length = u32::from_le_bytes(take(bytes, 4)?.try_into().ok()?);
            take(bytes, length as usize)
        }
        let is_whole = take(&mut bytes, 1)? == [1];
        let mut map = FieldMap::new(number(&mut bytes)?);
        (map.is_whole, map.fill_floor) = (is_whole, number(&mut bytes)?);
        while !bytes.is_empty() {
            let version = number(&mut bytes)?;
            let has_value = take(&mut bytes, 1)? == [1];
            let (name, value) = (text(&mut bytes)?, text(&mut bytes)?);
            let value = has_value.then(|| value.into());
            map.fields.insert(name.into(), Field { value, version });
        }
        map.recount();
        Some(map)
    }

    /// All fields, as PHP serializes an array; `None` if they are not known.
    pub fn object(&self) -> Option<&Object> {
        self.is_whole.then(|| self.object.get_or_init(|| self.serialize()))
    }

    /// Memory, bytes; the serialized form is counted whether it is there or not.
    pub fn cost(&self) -> usize {
        self.bytes * (1 + usize::from(self.is_whole)) + self.fields.len() * FIELD_OVERHEAD
    }

    /// Length of the serialized form, about.
    pub fn length(&self) -> usize {
        self.bytes
    }

    /// Changes fields; `tick` becomes the version of those that were written. Whether no field is in doubt now that was not before.
    pub fn change(&mut self, changes: &[ChangedField<'_>], tick: u64) -> bool {
        let mut is_sure = true;
        for &ChangedField { name, as_of, change } in changes {
            let has_changed = self.version(name) > as_of;
            match change {
                FieldChange::Learn(_) if has_changed || !self.is_whole => {}
                FieldChange::Learn(value) => self.put(name, Some(value), self.version(name)),
                _ if has_changed => {
                    self.put(name, None, tick);
                    (self.is_whole, self.fill_floor) = (false, tick);
                    is_sure = false;
                }
                FieldChange::Set(value) => self.put(name, Some(value), tick),
                FieldChange::Remove => self.put(name, None, tick),
            }
        }
        self.object.take();
        if self.removed > REMOVED {
            self.forget_removed();
        }
        is_sure
    }

    /// Takes what was read from the database after the tick `as_of`; whether it was taken.
    pub fn fill(&mut self, as_of: u64, filled: &FilledFields<'_>) -> bool {
        if self.is_whole || as_of < self.fill_floor {
            return false;
        }
        let is_new = |field: &Field| field.version > as_of;
        let mut fields: BTreeMap<Box<[u8]>, Field> = filled
            .iter()
            .map(|(name, value)| {
                ((*name).into(), Field { value: Some((*value).into()), version: self.floor })
            })
            .collect();
        for (name, field) in std::mem::take(&mut self.fields) {
            match fields.get_mut(&name) {
                _ if is_new(&field) => {
                    fields.insert(name, field);
                }
                Some(same) => same.version = field.version,
                None => {
                    fields.insert(name, Field { value: None, ..field });
                }
            }
        }
        self.fields = fields;
        self.recount();
        self.is_whole = true;
        self.object.take();
        true
    }

    fn version(&self, name: &[u8]) -> u64 {
        self.fields.get(name).map_or(self.floor, |field| field.version)
    }

    fn put(&mut self, name: &[u8], value: Option<&[u8]>, version: u64) {
        let length = name.len() + value.map_or(0, <[u8]>::len);
        self.removed += usize::from(value.is_none());
        let field = Field { value: value.map(Into::into), version };
        if let Some(old) = self.fields.insert(name.into(), field) {
            self.removed -= usize::from(old.value.is_none());
            self.bytes -= name.len() + old.value.map_or(0, |value| value.len());
        }
        self.bytes += length;
    }

    /// From now on all fields without a value may have changed as late as the last of those that were removed.
    fn forget_removed(&mut self) {
        let removed = self.fields.values().filter(|field| field.value.is_none());
        self.floor = removed.map(|field| field.version).fold(self.floor, u64::max);
        self.fill_floor = self.fill_floor.max(self.floor);
        self.fields.retain(|_, field| field.value.is_some());
        self.recount();
    }

    fn recount(&mut self) {
        self.removed = self.fields.values().filter(|field| field.value.is_none()).count();
        let values = self.fields.values().filter_map(|field| field.value.as_deref());
        self.bytes =
            self.fields.keys().map(|name| name.len()).sum::<usize>() + values.map(<[u8]>::len).sum::<usize>();
    }

    #[cfg(test)]
    pub fn snapshot(&self) -> String {
        let FieldMap { fields, is_whole, floor, fill_floor, .. } = self;
        format!("{fields:?} {is_whole} {floor} {fill_floor}")
    }

    fn serialize(&self) -> Object {
        let there = || self.fields.iter().filter_map(|(name, field)| Some((name, field.value.as_ref()?)));
        let mut bytes = format!("a:{}:{{", there().count()).into_bytes();
        bytes.reserve(self.bytes + 1);
        for (name, value) in there() {
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(value);
        }
        bytes.push(b'}');
        Object { format: SERIALIZED, bytes: bytes.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &[u8] = b"s:1:\"a\";";
    const B: &[u8] = b"s:1:\"b\";";

    fn set<'a>(name: &'a [u8], as_of: u64, value: &'a [u8]) -> ChangedField<'a> {
        ChangedField { name, as_of, change: FieldChange::Set(value) }
    }

    fn remove(name: &[u8], as_of: u64) -> ChangedField<'_> {
        ChangedField { name, as_of, change: FieldChange::Remove }
    }

    fn learn<'a>(name: &'a [u8], as_of: u64) -> ChangedField<'a> {
        ChangedField { name, as_of, change: FieldChange::Learn(b"b:1;") }
    }

    fn text(map: &FieldMap) -> Option<String> {
        map.object().map(|object| String::from_utf8(object.bytes.to_vec()).unwrap())
    }

    #[test]
    fn a_fill_keeps_what_was_written_since() {
        let mut map = FieldMap::new(10);
        assert!(map.change(&[set(A, 10, b"i:2;")], 11));
        assert_eq!(text(&map), None, "the other fields are not known");
        assert!(!map.fill(9, &vec![]), "read before the object was deleted");
        assert!(map.fill(10, &vec![(A, b"i:1;"), (B, b"i:1;")]));
        assert_eq!(text(&map).unwrap(), r#"a:2:{s:1:"a";i:2;s:1:"b";i:1;}"#);
        assert!(!map.fill(11, &vec![]), "it is filled");
    }

    #[test]
    fn a_fill_brings_no_removed_field_back() {
        let mut map = FieldMap::new(10);
        map.change(&[remove(A, 10)], 11);
        assert!(map.fill(10, &vec![(A, b"i:1;")]));
        assert_eq!(text(&map).unwrap(), "a:0:{}");
        let mut map = FieldMap::new(10);
        map.change(&[set(A, 10, b"i:1;")], 11);
        assert!(map.fill(11, &vec![]), "removed by SQL since");
        assert_eq!(text(&map).unwrap(), "a:0:{}");
        assert!(!map.change(&[set(A, 10, b"i:3;")], 12), "its version stays");
    }

    #[test]
    fn writers_of_different_fields_do_not_disturb_each_other() {
        let mut map = FieldMap::new(10);
        map.fill(10, &vec![(A, b"i:1;"), (B, b"i:1;")]);
        assert!(map.change(&[set(A, 10, b"i:2;")], 11) && map.change(&[set(B, 10, b"i:2;")], 12));
        assert_eq!(text(&map).unwrap(), r#"a:2:{s:1:"a";i:2;s:1:"b";i:2;}"#);
    }

    #[test]
    fn writers_of_the_same_field_leave_a_doubt() {
        let mut map = FieldMap::new(10);
        map.fill(10, &vec![(A, b"i:1;"), (B, b"i:1;")]);
        assert!(map.change(&[set(A, 10, b"i:2;")], 11));
        assert!(!map.change(&[set(A, 10, b"i:3;"), set(B, 10, b"i:5;")], 12));
        assert_eq!(text(&map), None);
        assert!(!map.fill(11, &vec![(A, b"i:2;")]), "read before the second report");
        assert!(map.change(&[set(B, 12, b"i:6;")], 13));
        assert!(map.fill(12, &vec![(A, b"i:3;"), (B, b"i:5;")]));
        assert_eq!(text(&map).unwrap(), r#"a:2:{s:1:"a";i:3;s:1:"b";i:6;}"#);
    }

    #[test]
    fn findings() {
        let mut map = FieldMap::new(10);
        map.change(&[learn(A, 10)], 11);
        map.fill(10, &vec![]);
        assert_eq!(text(&map).unwrap(), "a:0:{}", "of an object that is not filled they are dropped");
        map.change(&[learn(A, 10)], 12);
        assert_eq!(text(&map).unwrap(), r#"a:1:{s:1:"a";b:1;}"#);
        assert!(map.change(&[remove(A, 10)], 13), "a finding is no change");
        map.change(&[learn(A, 12)], 14);
        assert_eq!(text(&map).unwrap(), "a:0:{}", "found before it was written");
    }

    #[test]
    fn written_and_read() {
        let mut map = FieldMap::new(10);
        map.fill(10, &vec![(A, b"i:1;"), (B, b"i:1;")]);
        map.change(&[remove(A, 10), set(B, 10, b"")], 11);
        for is_whole in [true, false] {
            let mut bytes = Vec::new();
            map.write(&mut bytes);
            let read = FieldMap::read(&bytes).unwrap();
            assert_eq!((read.snapshot(), text(&read)), (map.snapshot(), text(&map)));
            assert_eq!((read.removed, read.bytes), (map.removed, map.bytes));
            assert_eq!(read.object().is_some(), is_whole);
            for end in 0..bytes.len() {
                // A whole field less is a shorter object: memcached has objects as a whole.
                assert_ne!(
                    FieldMap::read(&bytes[..end]).map(|map| map.snapshot()),
                    Some(map.snapshot()),
                    "{end}"
                );
            }
            map.change(&[set(A, 5, b"i:2;")], 12);
        }
    }

    #[test]
    fn removed_fields_have_their_bound() {
        let mut map = FieldMap::new(10);
        map.fill(10, &vec![(A, b"i:1;")]);
        let names: Vec<String> = (0..=REMOVED).map(|number| format!("i:{number};")).collect();
        for (name, tick) in names.iter().zip(11..) {
            assert!(map.change(&[remove(name.as_bytes(), 10)], tick));
        }
        assert_eq!((map.fields.len(), map.removed, map.bytes), (1, 0, A.len() + 4));
        assert_eq!(text(&map).unwrap(), r#"a:1:{s:1:"a";i:1;}"#, "it is as whole as before");
        assert!(map.change(&[set(A, 10, b"i:2;")], 5000), "what is there has its own version");
        assert!(!map.change(&[set(names[0].as_bytes(), 10, b"i:2;")], 5001), "the others have changed since");
        assert!(!map.fill(1000, &vec![]), "as for fills");
        assert!(map.fill(5001, &vec![]));
    }
}
