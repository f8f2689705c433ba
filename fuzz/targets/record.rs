//! Records in the files of the page cache, changed by a faulty disk or an attacker: nothing panics, a valid record has
//! the form in which we write it, and what we write reads back unchanged. The first byte of the input chooses whether
//! the bytes are a record, its payload, or the payload of a valid record that is then damaged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millrace_pages::record::{StoredEntry, HEAD, Head, History, Purged, NewEntry, put_purge};

const SEED: u64 = 7;
const MOST: usize = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let Some((&way, input)) = input.split_first() else { return };
    match way {
        0 => drop(payload(input)),
        1 => {
            entry(input);
            purge(input);
        }
        at => damaged(usize::from(at), input),
    }
});

fn payload(record: &[u8]) -> Option<&[u8]> {
    let head = Head::read(record, SEED, MOST).ok()?;
    assert!(head.length <= MOST);
    let payload = head.payload(&record[HEAD..], SEED).ok()?;
    assert_eq!(payload.len(), head.length);
    Some(payload)
}

fn entry(bytes: &[u8]) {
    let Ok(entry) = StoredEntry::read(bytes) else { return };
    let _ = entry.is_useful(1_000_000);
    let (key, stamp, origin) = (entry.key, entry.stamp, entry.origin);
    let kept = entry.kept(false);
    let mut record = Vec::new();
    NewEntry { stamp, origin, key, kept: &kept }.put(&mut record, SEED);
    assert_eq!(payload(&record), Some(bytes), "written again it is another");
}

fn purge(bytes: &[u8]) {
    let Ok(purged) = Purged::read(bytes) else { return };
    let mut record = Vec::new();
    put_purge(&mut record, SEED, purged.stamp, &purged.what, purged.how);
    assert_eq!(payload(&record), Some(bytes), "written again it is another");
    let stamp = purged.stamp;
    let mut history = History::default();
    history.add(purged);
    assert_eq!(history.highest(), stamp);
    let _ = history.state(bytes, &[], stamp.saturating_sub(1));
}

/// A valid record with one changed byte is invalid.
fn damaged(at: usize, bytes: &[u8]) {
    let Ok(entry) = StoredEntry::read(bytes) else { return };
    let (key, stamp, origin) = (entry.key, entry.stamp, entry.origin);
    let kept = entry.kept(false);
    let mut record = Vec::new();
    NewEntry { stamp, origin, key, kept: &kept }.put(&mut record, SEED);
    let at = at * 31 % record.len();
    record[at] ^= at as u8 | 1;
    assert_eq!(payload(&record), None, "byte {at}");
}
