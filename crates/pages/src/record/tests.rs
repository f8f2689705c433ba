use std::sync::Arc;

use millrace_wire::encoding::{CODINGS, Coding};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::{Form, Hardness, Kept, Millis, Page, Purge, Tag, Terms};

const SEED: u64 = 0x1234_5678;
const MOST: usize = 1 << 20;

/// All data of an entry, in comparable form.
#[derive(Debug, PartialEq)]
struct Seen {
    key: Vec<u8>,
    variant: Vec<u8>,
    times: (Millis, Millis, bool),
    terms: Terms,
    head: (u16, Option<String>, Vec<u8>, Option<String>, Option<u64>),
    lacks: Vec<bool>,
    forms: Vec<Option<[Vec<u8>; 2]>>,
}

fn seen(key: &[u8], kept: &Kept) -> Seen {
    let page = &kept.page;
    let form = |coding| page.form(coding).map(|form| [form.head().to_vec(), form.body().to_vec()]);
    Seen {
        key: key.into(),
        variant: kept.variant.to_vec(),
        times: (kept.came, page.stored, kept.purged),
        terms: Terms::clone(&kept.terms),
        head: (
            page.status,
            page.reason.as_deref().map(str::to_owned),
            page.fields.to_vec(),
            page.etag.as_deref().map(str::to_owned),
            page.last_modified,
        ),
        lacks: CODINGS.map(|coding| page.lacks(coding)).to_vec(),
        forms: CODINGS.map(form).to_vec(),
    }
}

fn some_bytes() -> impl Strategy<Value = Box<[u8]>> {
    vec(any::<u8>(), 0..200).prop_map(Vec::into_boxed_slice)
}

fn some_form() -> impl Strategy<Value = Form> {
    (some_bytes(), some_bytes()).prop_map(|(head, body)| Form::new(&head, &body))
}

fn some_text() -> impl Strategy<Value = Box<str>> {
    "[ -~é]{0,20}".prop_map(String::into_boxed_str)
}

fn some_page() -> impl Strategy<Value = Page> {
    let codings = [option::of(option::of(some_form())), option::of(option::of(some_form()))];
    let rest = (option::of(some_text()), option::of(some_text()), option::of(any::<u64>()));
    let tuple = (any::<u16>(), some_bytes(), some_form(), any::<u64>(), rest, codings);
    tuple.prop_map(|(status, fields, identity, stored, (reason, etag, last_modified), codings)| {
        let mut page = Page::new(status, fields, identity, stored);
        (page.reason, page.etag, page.last_modified) = (reason, etag, last_modified);
        for (coding, form) in [Coding::Gzip, Coding::Brotli].into_iter().zip(codings) {
            form.into_iter().for_each(|form| assert!(page.put_form(coding, form)));
        }
        page
    })
}

fn some_terms() -> impl Strategy<Value = Terms> {
    let millis = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    let tuple = (millis, any::<bool>(), any::<bool>(), vec(some_text(), 0..4), vec(any::<u64>(), 0..9));
    tuple.prop_map(|(millis, no_cache, must_revalidate, vary, tags)| Terms {
        ttl: millis.0,
        age: millis.1,
        stale_while_revalidate: millis.2,
        stale_if_error: millis.3,
        no_cache,
        must_revalidate,
        vary: vary.into(),
        tags: tags.into_iter().map(Tag).collect(),
    })
}

fn some_kept() -> impl Strategy<Value = Kept> {
    let tuple = (some_page(), some_terms(), some_bytes(), any::<u64>(), any::<bool>());
    tuple.prop_map(|(page, terms, variant, came, purged)| Kept {
        page: Arc::new(page),
        terms: Arc::new(terms),
        variant,
        came,
        purged,
    })
}

fn some_purge() -> impl Strategy<Value = Purge> {
    prop_oneof![
        Just(Purge::Everything),
        any::<u64>().prop_map(|tag| Purge::Tag(Tag(tag))),
        (some_text(), option::of(some_text()), some_bytes()).prop_map(|(site, host, path)| Purge::Prefix {
            site,
            host,
            path
        }),
    ]
}

fn written(stamp: u64, key: &[u8], kept: &Kept) -> Vec<u8> {
    let mut out = Vec::new();
    NewEntry { stamp, origin: 3, key, kept }.put(&mut out, SEED);
    out
}

fn payload(record: &[u8]) -> Result<&[u8], Broken> {
    Head::read(record, SEED, MOST)?.payload(&record[HEAD..], SEED)
}

proptest! {
    #[test]
    fn an_entry_comes_back_as_it_was(
        stamp in any::<u64>(), key in some_bytes(), kept in some_kept(), purged in any::<bool>()
    ) {
        let record = written(stamp, &key, &kept);
        let entry = StoredEntry::read(payload(&record).unwrap()).unwrap();
        prop_assert_eq!((entry.stamp, entry.origin), (stamp, 3));
        let expected = Kept { purged: kept.purged || purged, ..kept };
        prop_assert_eq!(seen(entry.key, &entry.clone().kept(purged)), seen(&key, &expected));
    }

    #[test]
    fn a_purge_comes_back_as_it_was(stamp in any::<u64>(), what in some_purge(), hard in any::<bool>()) {
        let how = if hard { Hardness::Hard } else { Hardness::Soft };
        let mut record = Vec::new();
        put_purge(&mut record, SEED, stamp, &what, how);
        prop_assert_eq!(Purged::read(payload(&record).unwrap()), Ok(Purged { stamp, what, how }));
    }

    #[test]
    fn no_changed_or_torn_entry_is_taken_for_a_right_one(
        kept in some_kept(), at in any::<prop::sample::Index>(), bit in 0..8u32
    ) {
        let mut record = written(1, b"key", &kept);
        let at = at.index(record.len());
        prop_assert_eq!(payload(&record[..at]), Err(Broken::Torn));
        record[at] ^= 1 << bit;
        prop_assert_eq!(payload(&record), Err(Broken::Damaged));
    }

    /// Behind valid checksums: still nothing panics, and nothing is invented.
    #[test]
    fn any_payload_is_read_or_refused(bytes in vec(any::<u8>(), 0..400)) {
        let _ = StoredEntry::read(&bytes).map(|entry| entry.kept(false));
        let _ = Purged::read(&bytes);
    }
}

fn kept(terms: Terms, came: Millis) -> Kept {
    let form = Form::new(b"ETag: \"a\"\r\n", b"hello");
    let page = Arc::new(Page::new(200, Box::default(), form, came));
    Kept { page, terms: Arc::new(terms), variant: Box::default(), came, purged: false }
}

#[test]
fn of_no_use_when_it_is_too_old_or_comes_from_the_future() {
    let terms = Terms { ttl: 1_000, stale_if_error: 500, ..Terms::default() };
    let record = written(1, b"key", &kept(terms, 1_000_000));
    let entry = StoredEntry::read(payload(&record).unwrap()).unwrap();
    let useful = |now| entry.is_useful(now);
    assert!(useful(1_000_000) && useful(1_001_499) && useful(950_000));
    assert!(!useful(1_001_500) && !useful(900_000));
}

#[test]
fn what_can_be_unpacked_is_not_written_twice() {
    let mut kept = kept(Terms::default(), 0);
    let content = [b'x'; 50_000];
    let page = Page::new(200, Box::default(), Form::new(b"ETag: \"a\"\r\n", &content), 0);
    page.put_form(Coding::Zstd, Some(Form::new(b"", b"packed")));
    page.put_form(Coding::Gzip, None);
    kept.page = Arc::new(page);
    // Brotli has not been made yet.
    let before = written(1, b"key", &kept);
    let read = |record: &[u8]| StoredEntry::read(payload(record).unwrap()).unwrap().kept(false).page;
    assert_eq!(read(&before).identity().body(), content);
    kept.page.put_form(Coding::Brotli, None);
    let after = written(1, b"key", &kept);
    let page = read(&after);
    assert!(before.len() - after.len() >= content.len() && page.is_slim());
    assert_eq!(
        (page.identity().head(), page.form(Coding::Zstd).unwrap().body()),
        (&b"ETag: \"a\"\r\n"[..], &b"packed"[..])
    );
}

#[test]
fn more_tags_than_a_page_may_have_make_no_record_that_can_be_read() {
    let tags = (0..70_000).map(Tag).collect();
    let record = written(1, b"key", &kept(Terms { tags, ..Terms::default() }, 0));
    assert!(StoredEntry::read(payload(&record).unwrap()).is_err());
}
