//! Tests of the rules at the head of `store`.

use super::site::FLUSHED_GROUPS;
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

    /// At time 1000, and until 1100.
    fn set_for_100(&mut self, key: &str) {
        let (mode, flags, as_of) = (SetMode::Set, SetFlags::default(), u64::MAX);
        let set = Set { mode, flags, as_of, lifetime: 100, object: object("x") };
        self.store.set(self.site, b"g", key.as_bytes(), set, 1000);
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
    let set =
        Set { mode: SetMode::Set, flags: SetFlags::default(), as_of: u64::MAX, lifetime: 50, object: number };
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
    one.set_for_100("a");
    assert!(matches!(one.store.get(one.site, b"g", b"a", 1099), Lookup::Hit(..)));
    let Lookup::Miss(as_of) = one.store.get(one.site, b"g", b"a", 1100) else { panic!("over") };
    let set = Set { mode: SetMode::Add, flags: SetFlags::default(), as_of, lifetime: 0, object: object("y") };
    assert!(is_stored(one.store.set(one.site, b"g", b"a", set, 1100)));
}

#[test]
fn what_a_client_knows_is_unchanged_until_it_changes() {
    let mut one = One::new(1 << 20);
    let is_unchanged = |one: &One, key: &str, known: (u64, bool), now: u64| {
        one.store.is_unchanged(one.site, b"g", key.as_bytes(), known, now)
    };
    one.set_for_100("a");
    let (had, missed) = (one.as_of("a"), one.as_of("b"));
    one.set("c", "1");
    assert!(is_unchanged(&one, "a", (had, true), 1099) && is_unchanged(&one, "b", (missed, false), 1099));
    assert!(!is_unchanged(&one, "a", (had, true), 1100), "expired");
    assert!(
        is_unchanged(&one, "a", (one.store.clock(one.site), false), 1100),
        "known to be missing since it has expired"
    );
    one.set("b", "1");
    assert!(!is_unchanged(&one, "b", (missed, false), 0), "it is there now");
    let had = one.as_of("b");
    one.delete("b");
    assert!(!is_unchanged(&one, "b", (had, true), 0), "deleted");
    let missed = one.as_of("b");
    assert!(is_unchanged(&one, "b", (missed, false), 0));
    one.set("b", "1");
    one.delete("b");
    assert!(!is_unchanged(&one, "b", (missed, false), 0), "it was there in between");
    let had = one.as_of("c");
    drop(one.store.flush_group(one.site, b"g"));
    assert!(!is_unchanged(&one, "c", (had, true), 0), "its group was flushed");
    one.set("c", "2");
    let had = one.as_of("c");
    drop(one.store.flush(one.site));
    assert!(!is_unchanged(&one, "c", (had, true), 0), "flushed");
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
            let reported = !clients.iter().flatten().any(|(at, _, _, writes)| keys[*at] == *key && *writes);
            if let Some(found) = one.get(key).filter(|_| reported) {
                assert_eq!(found, now.to_string(), "{key} at step {step}");
            }
        }
    }
}
