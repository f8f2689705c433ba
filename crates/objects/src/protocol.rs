//! The protocol of the drop-in (`php/object-cache/object-cache.php`): frames of operations, and a frame of results for each.
//!
//! ```text
//!  frame      length u32, then operations or results; all numbers are little-endian
//!  operation  code u8, then
//!    1 HELLO        version u8                       -> 1 clock value_bytes u32
//!    2 GET          group key                        -> 1 version format u8 length u32 bytes | 0 clock | 3 clock
//!    3 SET          mode u8 flags u8 as_of u64 seconds u32 format u8 group key length u32 bytes
//!                                                    -> 1 version | 0 clock | 2 clock | 4 clock
//!    4 DELETE       as_of u64 group key              -> status clock: +1 it was there, +2 nobody else has changed it since as_of
//!    5 ADD          by i64 group key                 -> 1 version sum i64 | 0 clock | 2 clock
//!    6 FLUSH                                         -> 1 clock
//!    7 FLUSH GROUP  group                            -> 1 clock
//!    8 FILL         as_of u64 group key count u32, so many: name value
//!                                                    -> 1 version | 0 clock | 2 clock | 4 clock
//!    9 FIELDS       group key count u32, so many: change u8 (1 set, 2 remove, 3 learn) as_of u64 name, and, unless removed, value
//!                                                    -> 1 version | 0 version: another client has changed one at the same time
//!   10 UNCHANGED    count u32, so many: as_of u64 had u8 group key
//!                                                    -> 1 clock | 0 clock: one of them has changed since its as_of
//!  group      length u8, bytes          key, name  length u16, bytes          value  length u32, bytes
//!  result     status u8, tick u64, and what stands above
//! ```
//!
//! The operations of a frame are carried out in their order, and no other client's come between them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::store::{
    ChangedField, FieldChange, FilledFields, Flushed, Lookup, Object, ObjectStore, Set, SetFlags, SetMode,
    SiteId, Stored, Sum,
};

/// The version of this protocol.
pub const VERSION: u8 = 3;
/// Maximum operations in a frame: one client's frame must not hold up the others.
const OPERATIONS: usize = 4096;
/// Maximum bytes of a key.
const KEY_BYTES: usize = 1024;
/// Room in a frame for what is not an object.
pub const FRAME_ROOM: usize = 1 << 20;

/// Why a frame is not answered: the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It ends in an operation.
    Short,
    /// No such operation, or one with a wrong part.
    Unknown,
    /// More than 4096 operations.
    TooMany,
}

/// What the operations of a frame have done.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The results, as a frame.
    pub answer: Vec<u8>,
    /// What was flushed.
    pub flushed: Vec<Flushed>,
    /// Lookups.
    pub lookups: u64,
    /// Lookups that found something.
    pub hits: u64,
    /// Values stored.
    pub stored: u64,
    /// Values refused because their key had changed.
    pub refused: u64,
    /// Keys deleted.
    pub deleted: u64,
    /// Flushes, of the site or of a group.
    pub flushes: u64,
}

/// Carries out the operations of a frame (without its length). Objects that would make the answer longer than `room` are
/// skipped.
///
/// # Errors
/// It is malformed. Operations before that point were carried out.
pub fn follow(
    store: &mut ObjectStore,
    site: SiteId,
    frame: &[u8],
    room: usize,
    now: u64,
) -> Result<Outcome, Malformed> {
    let mut outcome = Outcome { answer: vec![0; 4], ..Outcome::default() };
    let mut input = FrameInput(frame);
    let mut operations = 0;
    while !input.0.is_empty() {
        operations += 1;
        if operations > OPERATIONS {
            return Err(Malformed::TooMany);
        }
        operation(store, site, &mut input, &mut outcome, room, now)?;
    }
    let length = u32::try_from(outcome.answer.len() - 4).unwrap_or(u32::MAX);
    outcome.answer[..4].copy_from_slice(&length.to_le_bytes());
    Ok(outcome)
}

/// What a frame is about.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FrameNames<'a> {
    /// The objects, each once, in their order.
    pub names: Vec<ObjectName<'a>>,
    /// It changes nothing.
    pub only_looks: bool,
}

/// Which objects a frame is about.
///
/// # Errors
/// It is malformed.
pub fn names(frame: &[u8]) -> Result<FrameNames<'_>, Malformed> {
    let mut input = FrameInput(frame);
    let (mut names, mut only_looks, mut operations) = (BTreeSet::new(), true, 0);
    while !input.0.is_empty() {
        operations += 1;
        if operations > OPERATIONS {
            return Err(Malformed::TooMany);
        }
        let code = input.byte()?;
        only_looks &= matches!(code, 1 | 2 | 10);
        match code {
            1 => drop(input.byte()?),
            2 => drop(names.insert(input.name()?)),
            3 => {
                input.set()?;
                names.insert(input.name()?);
                input.value()?;
            }
            4 | 5 | 8 => {
                input.take(8)?;
                names.insert(input.name()?);
                if code == 8 {
                    input.filled()?;
                }
            }
            6 => {}
            7 => drop(input.group()?),
            9 => {
                names.insert(input.name()?);
                input.changed()?;
            }
            10 => names.extend(input.known()?.into_iter().map(|(.., name)| name)),
            _ => return Err(Malformed::Unknown),
        }
    }
    Ok(FrameNames { names: names.into_iter().collect(), only_looks })
}

fn operation(
    store: &mut ObjectStore,
    site: SiteId,
    input: &mut FrameInput<'_>,
    outcome: &mut Outcome,
    room: usize,
    now: u64,
) -> Result<(), Malformed> {
    match input.byte()? {
        1 => {
            let is_known = input.byte()? == VERSION;
            outcome.result(u8::from(is_known), store.clock(site));
            let most = u32::try_from(store.value_bytes()).unwrap_or(u32::MAX);
            outcome.answer.extend_from_slice(&most.to_le_bytes());
        }
        2 => {
            let (group, key) = input.name()?;
            let found = store.get(site, group, key, now);
            outcome.found(found, room);
        }
        3 => {
            let set = input.set()?;
            let (group, key) = input.name()?;
            let bytes: Arc<[u8]> = input.value()?.into();
            let set = Set { object: Object { bytes, ..set.object }, ..set };
            outcome.put(store.set(site, group, key, set, now));
        }
        4 => {
            let as_of = u64::from_le_bytes(input.number()?);
            let (group, key) = input.name()?;
            let deleted = store.delete(site, group, key, as_of, now);
            outcome.deleted += 1;
            outcome.result(u8::from(deleted.was_there) + 2 * u8::from(deleted.is_only_change), deleted.tick);
        }
        5 => {
            let by = input.number().map(i64::from_le_bytes)?;
            let (group, key) = input.name()?;
            match store.increment(site, group, key, by, now) {
                Sum::Done(tick, sum) => {
                    outcome.result(1, tick);
                    outcome.answer.extend_from_slice(&sum.to_le_bytes());
                }
                Sum::Missing(tick) => outcome.result(0, tick),
                Sum::NotInteger(tick) => outcome.result(2, tick),
            }
        }
        6 => {
            let (tick, flushed) = store.flush(site);
            outcome.flush(flushed, tick);
        }
        7 => {
            let (tick, flushed) = store.flush_group(site, input.group()?);
            outcome.flush(flushed, tick);
        }
        8 => {
            let as_of = u64::from_le_bytes(input.number()?);
            let (group, key) = input.name()?;
            let fields = input.filled()?;
            outcome.put(store.fill(site, group, key, as_of, &fields, now));
        }
        9 => {
            let (group, key) = input.name()?;
            let changes = input.changed()?;
            let changed = store.change_fields(site, group, key, &changes);
            outcome.stored += u64::from(changed.is_sure);
            outcome.refused += u64::from(!changed.is_sure);
            outcome.result(u8::from(changed.is_sure), changed.tick);
        }
        10 => {
            let known = input.known()?;
            let is_same = known
                .iter()
                .all(|(as_of, had, (group, key))| store.is_unchanged(site, group, key, (*as_of, *had), now));
            outcome.result(u8::from(is_same), store.clock(site));
        }
        _ => return Err(Malformed::Unknown),
    }
    Ok(())
}

impl Outcome {
    fn put(&mut self, stored: Stored) {
        let (status, tick) = match stored {
            Stored::Yes(tick) => (1, tick),
            Stored::Refused(tick) => (0, tick),
            Stored::Condition(tick) => (2, tick),
            Stored::TooLarge(tick) => (4, tick),
        };
        self.stored += u64::from(status == 1);
        self.refused += u64::from(status == 0);
        self.result(status, tick);
    }

    fn flush(&mut self, flushed: Flushed, tick: u64) {
        self.flushed.push(flushed);
        self.flushes += 1;
        self.result(1, tick);
    }

    fn result(&mut self, status: u8, tick: u64) {
        self.answer.push(status);
        self.answer.extend_from_slice(&tick.to_le_bytes());
    }

    fn found(&mut self, found: Lookup, room: usize) {
        self.lookups += 1;
        match found {
            Lookup::Miss(clock) => self.result(0, clock),
            Lookup::Hit(version, object) if self.answer.len() + object.bytes.len() > room => {
                self.result(3, version);
            }
            Lookup::Hit(version, object) => {
                self.hits += 1;
                self.result(1, version);
                self.answer.push(object.format);
                let length = u32::try_from(object.bytes.len()).unwrap_or(u32::MAX);
                self.answer.extend_from_slice(&length.to_le_bytes());
                self.answer.extend_from_slice(&object.bytes);
            }
        }
    }
}

/// A group, and a key in it.
pub type ObjectName<'a> = (&'a [u8], &'a [u8]);

/// What is left of a frame.
struct FrameInput<'a>(&'a [u8]);

impl<'a> FrameInput<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.take(N)?.try_into().expect("that many bytes"))
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn group(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::from(self.byte()?);
        self.take(length)
    }

    fn name(&mut self) -> Result<ObjectName<'a>, Malformed> {
        Ok((self.group()?, self.key()?))
    }

    fn key(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::from(u16::from_le_bytes(self.number()?));
        if length > KEY_BYTES {
            return Err(Malformed::Unknown);
        }
        self.take(length)
    }

    fn value(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number().map(u32::from_le_bytes)? as usize;
        self.take(length)
    }

    /// Keys, each with the tick as of which the client knows it, and whether it had an object.
    fn known(&mut self) -> Result<Vec<(u64, bool, ObjectName<'a>)>, Malformed> {
        let count = self.number().map(u32::from_le_bytes)?;
        (0..count)
            .map(|_| Ok((self.number().map(u64::from_le_bytes)?, self.byte()? != 0, self.name()?)))
            .collect()
    }

    /// The fields of an object.
    fn filled(&mut self) -> Result<FilledFields<'a>, Malformed> {
        let count = self.number().map(u32::from_le_bytes)?;
        (0..count).map(|_| Ok((self.key()?, self.value()?))).collect()
    }

    /// Changes of fields.
    fn changed(&mut self) -> Result<Vec<ChangedField<'a>>, Malformed> {
        let count = self.number().map(u32::from_le_bytes)?;
        (0..count).map(|_| self.change()).collect()
    }

    fn change(&mut self) -> Result<ChangedField<'a>, Malformed> {
        let kind = self.byte()?;
        let as_of = u64::from_le_bytes(self.number()?);
        let name = self.key()?;
        let change = match kind {
            1 => FieldChange::Set(self.value()?),
            2 => FieldChange::Remove,
            3 => FieldChange::Learn(self.value()?),
            _ => return Err(Malformed::Unknown),
        };
        Ok(ChangedField { name, as_of, change })
    }

    /// All of it but the bytes of the object.
    fn set(&mut self) -> Result<Set, Malformed> {
        let mode = match self.byte()? {
            0 => SetMode::Set,
            1 => SetMode::Add,
            2 => SetMode::Replace,
            3 => SetMode::Compare,
            _ => return Err(Malformed::Unknown),
        };
        let flags = SetFlags(self.byte()?);
        let as_of = u64::from_le_bytes(self.number()?);
        let lifetime = u64::from(u32::from_le_bytes(self.number()?)) * 1000;
        let object = Object { format: self.byte()?, bytes: Arc::default() };
        Ok(Set { mode, flags, as_of, lifetime, object })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (ObjectStore, SiteId) {
        let mut store = ObjectStore::new(1 << 20, 1 << 10, 5);
        let site = store.open();
        (store, site)
    }

    fn name(group: &str, key: &str) -> Vec<u8> {
        let mut text = vec![u8::try_from(group.len()).unwrap()];
        text.extend_from_slice(group.as_bytes());
        text.extend_from_slice(&u16::try_from(key.len()).unwrap().to_le_bytes());
        text.extend_from_slice(key.as_bytes());
        text
    }

    fn set(mode: u8, as_of: u64, key: &str, value: &[u8]) -> Vec<u8> {
        let mut text = vec![3, mode, 0];
        text.extend_from_slice(&as_of.to_le_bytes());
        text.extend_from_slice(&[0, 0, 0, 0, 9]);
        text.extend_from_slice(&name("g", key));
        text.extend_from_slice(&u32::try_from(value.len()).unwrap().to_le_bytes());
        text.extend_from_slice(value);
        text
    }

    fn get(key: &str) -> Vec<u8> {
        [vec![2], name("g", key)].concat()
    }

    fn unchanged(known: &[(u64, &str)]) -> Vec<u8> {
        let count = u32::try_from(known.len()).unwrap().to_le_bytes();
        let keys = known
            .iter()
            .flat_map(|(as_of, key)| [as_of.to_le_bytes().to_vec(), vec![0], name("g", key)].concat());
        [10].into_iter().chain(count).chain(keys).collect()
    }

    #[test]
    fn a_frame_of_everything() {
        let (mut store, site) = store();
        let add = [vec![5], 3_i64.to_le_bytes().to_vec(), name("g", "a")].concat();
        let frame = [
            vec![1, VERSION],
            get("a"),
            set(1, 5, "a", b"xyz"),
            get("a"),
            add,
            [vec![4], 0_u64.to_le_bytes().to_vec(), name("g", "a")].concat(),
            unchanged(&[(7, "a"), (5, "b")]),
            unchanged(&[(6, "a")]),
            vec![7, 1, b'g'],
            vec![6],
        ];
        let done = follow(&mut store, site, &frame.concat(), 1 << 20, 0).unwrap();
        let tick = |tick: u64| tick.to_le_bytes().to_vec();
        let results = [
            vec![1],
            tick(5),
            vec![0, 4, 0, 0], // HELLO
            vec![0],
            tick(5), // GET
            vec![1],
            tick(6), // SET
            vec![1],
            tick(6),
            vec![9, 3, 0, 0, 0],
            b"xyz".to_vec(), // GET
            vec![2],
            tick(6), // ADD
            vec![1],
            tick(7), // DELETE
            vec![1],
            tick(7), // UNCHANGED
            vec![0],
            tick(7), // UNCHANGED
            vec![1],
            tick(8), // FLUSH GROUP
            vec![1],
            tick(9), // FLUSH
        ]
        .concat();
        assert_eq!(done.answer[..4], u32::try_from(results.len()).unwrap().to_le_bytes());
        assert_eq!(done.answer[4..], results);
        assert_eq!((done.lookups, done.hits, done.stored, done.deleted, done.flushed.len()), (2, 1, 1, 1, 2));
    }

    #[test]
    fn what_a_frame_is_about() {
        let (fill, change) = fields();
        let names = |frame: &[u8]| {
            let FrameNames { names, only_looks } = names(frame).unwrap();
            let keys = names.iter().map(|(group, key)| {
                assert_eq!(*group, b"g");
                String::from_utf8(key.to_vec()).unwrap()
            });
            (keys.collect::<Vec<_>>().join(" "), only_looks)
        };
        let looks = [vec![1, VERSION], get("b"), get("a"), get("b"), unchanged(&[(7, "c")])].concat();
        assert_eq!(names(&looks), ("a b c".to_owned(), true));
        let delete = |code: u8| [vec![code], 0_u64.to_le_bytes().to_vec(), name("g", "d")].concat();
        for change in [set(0, 1, "d", b"x"), delete(4), delete(5)] {
            assert_eq!(names(&[looks.clone(), change].concat()), ("a b c d".to_owned(), false));
        }
        assert_eq!(names(&fill), ("m".to_owned(), false));
        assert_eq!(names(&change), ("m".to_owned(), false));
        assert_eq!(names(&[6, 7, 1, b'g']), (String::new(), false));
    }

    fn text(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat()
    }

    fn value(bytes: &[u8]) -> Vec<u8> {
        [&u32::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat()
    }

    fn fields() -> (Vec<u8>, Vec<u8>) {
        let two = 2_u32.to_le_bytes().to_vec();
        let tick = |tick: u64| tick.to_le_bytes().to_vec();
        let fill = [
            vec![8],
            tick(5),
            name("g", "m"),
            two.clone(),
            text(b"i:1;"),
            value(b"i:7;"),
            text(b"i:2;"),
            value(b"i:8;"),
        ];
        let change = [
            vec![9],
            name("g", "m"),
            two,
            [vec![2], tick(5), text(b"i:1;")].concat(),
            [vec![1], tick(5), text(b"i:3;"), value(b"i:9;")].concat(),
        ];
        (fill.concat(), change.concat())
    }

    #[test]
    fn a_frame_of_fields() {
        let (mut store, site) = store();
        let (fill, change) = fields();
        let frame = [fill.clone(), fill, change.clone(), get("m"), change, get("m")].concat();
        let done = follow(&mut store, site, &frame, 1 << 20, 0).unwrap();
        let tick = |tick: u64| tick.to_le_bytes().to_vec();
        let object = b"a:2:{i:2;i:8;i:3;i:9;}";
        let results = [
            [vec![1], tick(6)].concat(), // FILL
            [vec![2], tick(6)].concat(), // FILL again
            [vec![1], tick(7)].concat(), // FIELDS
            [vec![1], tick(7), vec![3], value(object)].concat(),
            [vec![0], tick(8)].concat(), // FIELDS as of before the change
            [vec![0], tick(8)].concat(), // a miss
        ];
        assert_eq!(done.answer[4..], results.concat());
        assert_eq!((done.stored, done.refused, done.hits), (2, 1, 1));
    }

    #[test]
    fn an_answer_has_its_bound() {
        let (mut store, site) = store();
        follow(&mut store, site, &set(0, u64::MAX, "a", &[1; 500]), 0, 0).unwrap();
        let done = follow(&mut store, site, &[get("a"), get("a")].concat(), 600, 0).unwrap();
        assert_eq!(
            (done.answer[4], done.answer[4 + 9 + 5 + 500], done.answer.len()),
            (1, 3, 4 + 9 + 5 + 500 + 9)
        );
        let done = follow(&mut store, site, &set(0, u64::MAX, "a", &[1; 1025]), 0, 0).unwrap();
        assert_eq!(done.answer[4], 4, "too large");
    }

    #[test]
    fn malformed_frames() {
        let (mut store, site) = store();
        let mut follow = |frame: &[u8]| {
            let why = follow(&mut store, site, frame, 1000, 0).unwrap_err();
            assert_eq!(super::names(frame), Err(why), "it is known before");
            why
        };
        let whole = [set(0, 1, "key", b"value"), get("x")].concat();
        for end in (1..whole.len()).filter(|end| *end != whole.len() - get("x").len()) {
            assert_eq!(follow(&whole[..end]), Malformed::Short, "{end}");
        }
        let (fill, change) = fields();
        for whole in [fill, change] {
            for end in 1..whole.len() {
                assert_eq!(follow(&whole[..end]), Malformed::Short, "{end}");
            }
        }
        assert_eq!(follow(&[0]), Malformed::Unknown);
        assert_eq!(follow(&set(4, 1, "a", b"")), Malformed::Unknown);
        assert_eq!(follow(&get(&"k".repeat(KEY_BYTES + 1))), Malformed::Unknown);
        assert_eq!(follow(&vec![6; OPERATIONS + 1]), Malformed::TooMany);
    }

    /// Whatever arrives, it is answered or refused, and the memory stays bounded.
    #[test]
    fn any_bytes() {
        let (mut store, site) = store();
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        for length in 0..20_000 {
            let frame: Vec<u8> = (0..length % 97)
                .map(|_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    // Small numbers are operations and lengths.
                    if random >> 63 == 0 { (random >> 40) as u8 } else { (random >> 40) as u8 % 11 }
                })
                .collect();
            let followed = follow(&mut store, site, &frame, 1 << 16, 0).map(|_| ());
            assert_eq!(super::names(&frame).map(|_| ()), followed);
        }
        assert!(store.usage(site).bytes <= 1 << 20);
    }
}
