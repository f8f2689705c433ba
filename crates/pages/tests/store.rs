//! The store's guarantees, one test each. The model test covers the rest.

use std::sync::Arc;

use millrace_pages::store::{MOST_BANS, MOST_VARIANTS, REMEMBERED, RETAINED};
use millrace_pages::{
    Form, Hardness, Kept, Key, Lookup, Millis, Page, Pages, PeekEntry, Purge, StoreOutcome, Tag, Terms,
};
use millrace_wire::encoding::{CODINGS, Coding};

const T: Millis = 1_700_000_000_000;
const MINUTE: Millis = 60_000;

/// The fill's handle is a word.
type Store = Pages<&'static str>;

fn path(path: &str) -> Vec<u8> {
    format!("site\0https\0a.test\0{path}\0").into_bytes()
}

/// The same hash in every run.
fn key(bytes: &[u8]) -> Key<'_> {
    let hash = bytes.iter().fold(7_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    Key { bytes, hash: hash ^ hash.rotate_left(32) }
}

fn page(length: usize) -> Arc<Page> {
    Arc::new(Page::new(200, Box::default(), Form::new(b"", &vec![0; length]), T))
}

fn validated(length: usize) -> Arc<Page> {
    let mut page = Page::new(200, Box::default(), Form::new(b"", &vec![0; length]), T);
    page.etag = Some("\"a\"".into());
    Arc::new(page)
}

fn tags(tags: &[u64]) -> Box<[Tag]> {
    tags.iter().copied().map(Tag).collect()
}

fn terms(of: &[u64]) -> Terms {
    Terms { ttl: MINUTE, tags: tags(of), ..Terms::default() }
}

fn by_language(tags: &[u64]) -> Terms {
    Terms { vary: Box::new(["accept-language".into()]), ..terms(tags) }
}

fn no_fields(_: &str, _: &mut Vec<u8>) {}

fn language(value: &str) -> impl FnMut(&str, &mut Vec<u8>) {
    move |name, out| {
        assert_eq!(name, "accept-language");
        out.extend_from_slice(value.as_bytes());
    }
}

fn put(store: &mut Store, at: &str, page: Arc<Page>, terms: Terms) -> StoreOutcome {
    let bytes = path(at);
    let ticket = store.lead(key(&bytes), &mut no_fields, "fill");
    store.store(ticket, &mut no_fields, page, terms, T)
}

fn look(store: &mut Store, at: &str, now: Millis) -> Lookup<&'static str> {
    store.look(key(&path(at)), &mut no_fields, now)
}

fn is_fresh(store: &mut Store, at: &str) -> bool {
    matches!(look(store, at, T), Lookup::Fresh(_))
}

fn is_missing(store: &mut Store, at: &str) -> bool {
    matches!(look(store, at, T), Lookup::Miss(_))
}

#[test]
fn a_page_is_fresh_then_stale_then_gone() {
    let mut store = Store::new(1 << 20);
    let grace = Terms { stale_while_revalidate: 1000, stale_if_error: 5000, age: 10_000, ..terms(&[]) };
    put(&mut store, "/", page(10), grace);
    let Lookup::Fresh(hit) = look(&mut store, "/", T + 5000) else { panic!("not fresh") };
    assert_eq!(hit.age, 15_000);
    // Up to a sixteenth of the 50 s is cut off.
    let end = T + 5000 + hit.ttl_left as u64;
    assert!((T + 46_875..=T + 50_000).contains(&end), "{}", end - T);
    for (late, while_revalidating, on_error) in [(0, true, true), (999, true, true), (1000, false, true)] {
        let Lookup::Stale(hit, grace, None) = look(&mut store, "/", end + late) else { panic!("not stale") };
        assert_eq!((grace.while_revalidating, grace.on_error), (while_revalidating, on_error));
        assert_eq!((hit.ttl_left, grace.purged), (-(late as i64), false));
    }
    assert!(matches!(look(&mut store, "/", end + 5000), Lookup::Miss(None)));
    assert_eq!((store.usage().pages, store.usage().expired), (0, 1));
}

/// A word for what `peek` finds.
fn peeked(store: &Store, at: &str, now: Millis) -> &'static str {
    let peek = store.peek(key(&path(at)), &mut no_fields, now);
    match peek.entry {
        PeekEntry::Page(page) if page.grace.is_none() => "fresh",
        PeekEntry::Page(page) if page.grace.is_some_and(|grace| grace.purged) => "purged",
        PeekEntry::Page(_) => "stale",
        PeekEntry::Uncacheable(_) => "uncacheable",
        PeekEntry::Nothing if peek.is_filling => "filling",
        PeekEntry::Nothing => "nothing",
    }
}

#[test]
fn a_peek_finds_what_a_lookup_would_and_leaves_no_trace() {
    let mut store = Store::new(1 << 20);
    let grace = Terms { stale_if_error: MINUTE, ..terms(&[7]) };
    assert_eq!(peeked(&store, "/", T), "nothing");
    put(&mut store, "/", page(10), grace.clone());
    assert_eq!(
        [0, MINUTE, 3 * MINUTE].map(|later| peeked(&store, "/", T + later)),
        ["fresh", "stale", "nothing"]
    );
    let PeekEntry::Page(found) = store.peek(key(&path("/")), &mut no_fields, T + 5).entry else { panic!() };
    assert_eq!((found.age, found.hits, found.terms.tags.len()), (5, 0, 1));
    store.purge(&Purge::Tag(Tag(7)), Hardness::Soft);
    assert_eq!(peeked(&store, "/", T), "purged");
    store.purge(&Purge::Tag(Tag(7)), Hardness::Hard);
    assert_eq!((peeked(&store, "/", T), store.usage().purged), ("nothing", 0), "a lookup removes it");
    let bytes = path("/mark");
    let ticket = store.lead(key(&bytes), &mut no_fields, "fill");
    assert_eq!(peeked(&store, "/mark", T), "filling");
    store.pass(ticket, tags(&[8]), T + MINUTE);
    assert_eq!((peeked(&store, "/mark", T), peeked(&store, "/mark", T + MINUTE)), ("uncacheable", "nothing"));
    store.purge(&Purge::Tag(Tag(8)), Hardness::Soft);
    assert_eq!(peeked(&store, "/mark", T), "nothing");
    // Variants.
    let bytes = path("/vary");
    for value in ["de", "fr"] {
        let ticket = store.lead(key(&bytes), &mut language(value), "fill");
        store.store(ticket, &mut language(value), page(10), by_language(&[]), T);
    }
    let found = store.peek(key(&bytes), &mut language("fr"), T);
    assert!(matches!(found.entry, PeekEntry::Page(_)) && found.variants == 2 && found.vary.len() == 1);
    let found = store.peek(key(&bytes), &mut language("es"), T);
    assert!(matches!(found.entry, PeekEntry::Nothing));
}

#[test]
fn a_page_with_validators_is_kept_for_validating() {
    let mut store = Store::new(1 << 20);
    put(&mut store, "/", validated(10), terms(&[]));
    let late = T + MINUTE + RETAINED - MINUTE / 16 - 1;
    let Lookup::Stale(hit, grace, None) = look(&mut store, "/", late) else { panic!("not stale") };
    assert!(!grace.while_revalidating && !grace.on_error);

    let bytes = path("/");
    let ticket = store.lead(key(&bytes), &mut no_fields, "fill");
    let sent = store.freshen(ticket, &mut no_fields, None, terms(&[]), late).unwrap();
    assert!(Arc::ptr_eq(&sent, &hit.page));
    let Lookup::Fresh(hit) = look(&mut store, "/", late + 1000) else { panic!("not fresh") };
    assert_eq!(hit.age, 1000);
}

#[test]
fn no_cache_and_must_revalidate_are_never_used_as_they_are() {
    let mut store = Store::new(1 << 20);
    let grace = Terms { stale_while_revalidate: MINUTE, stale_if_error: MINUTE, ..terms(&[]) };
    put(&mut store, "/no-cache", validated(10), Terms { no_cache: true, ..grace.clone() });
    put(&mut store, "/must", validated(10), Terms { must_revalidate: true, ..grace });
    for (at, now) in [("/no-cache", T), ("/must", T + MINUTE)] {
        let Lookup::Stale(_, grace, _) = look(&mut store, at, now) else { panic!("{at} is not stale") };
        assert!(!grace.while_revalidating && !grace.on_error);
    }
}

#[test]
fn one_fills_and_the_others_are_told_of_him() {
    let mut store = Store::new(1 << 20);
    let bytes = path("/");
    assert!(matches!(look(&mut store, "/", T), Lookup::Miss(None)));
    let ticket = store.lead(key(&bytes), &mut no_fields, "first");
    assert!(matches!(look(&mut store, "/", T), Lookup::Miss(Some("first"))));
    store.abandon(ticket);
    assert!(matches!(look(&mut store, "/", T), Lookup::Miss(None)));

    let ticket = store.lead(key(&bytes), &mut no_fields, "second");
    store.pass(ticket, tags(&[]), T + 1000);
    assert!(matches!(look(&mut store, "/", T + 999), Lookup::Pass));
    assert!(matches!(look(&mut store, "/", T + 1000), Lookup::Miss(None)));
}

#[test]
fn a_purge_lifts_a_mark() {
    let mut store = Store::new(1 << 20);
    let bytes = path("/a/b");
    let prefix = |path: &str| Purge::Prefix { site: "site".into(), host: None, path: path.as_bytes().into() };
    for how in [Hardness::Soft, Hardness::Hard] {
        for (what, lifts) in [
            (Purge::Tag(Tag(1)), true),
            (Purge::Tag(Tag(2)), true),
            (Purge::Tag(Tag(3)), false),
            (Purge::Everything, true),
            (prefix("/a/"), true),
            (prefix("/b/"), false),
        ] {
            let ticket = store.lead(key(&bytes), &mut no_fields, "marks");
            assert!(store.pass(ticket, tags(&[1, 2]), T + 1000));
            assert!(matches!(look(&mut store, "/a/b", T), Lookup::Pass));
            assert_eq!(store.purge(&what, how), 0, "no page is gone: {what:?}");
            assert_eq!(matches!(look(&mut store, "/a/b", T), Lookup::Miss(None)), lifts, "{what:?}");
            store.verify();
        }
        // A page that is purged during the fill is not marked: it may have changed.
        let ticket = store.lead(key(&bytes), &mut no_fields, "marks");
        store.purge(&Purge::Everything, how);
        assert!(!store.pass(ticket, tags(&[1]), T + 1000));
        assert!(matches!(look(&mut store, "/a/b", T), Lookup::Miss(None)));
    }
    // A page replaces a mark, and a mark replaces a page; their tags go with them.
    let ticket = store.lead(key(&bytes), &mut no_fields, "marks");
    assert!(store.pass(ticket, tags(&[1, 2]), T + 1000));
    put(&mut store, "/a/b", page(1), terms(&[2, 3]));
    store.verify();
    let ticket = store.lead(key(&bytes), &mut no_fields, "marks");
    assert!(store.pass(ticket, tags(&[4]), T + 1000));
    store.verify();
    assert_eq!(store.usage().tags, 1);
}

#[test]
fn whoever_comes_after_a_purge_does_not_wait_for_what_was_purged() {
    let mut store = Store::new(1 << 20);
    let bytes = path("/");
    let old = store.lead(key(&bytes), &mut no_fields, "old");
    store.purge(&Purge::Tag(Tag(1)), Hardness::Soft);
    assert!(matches!(look(&mut store, "/", T), Lookup::Miss(None)));
    let new = store.lead(key(&bytes), &mut no_fields, "new");
    assert!(matches!(look(&mut store, "/", T), Lookup::Miss(Some("new"))));
    // The old one arrives last, and changes nothing.
    let made = page(2);
    assert_eq!(store.store(new, &mut no_fields, made.clone(), terms(&[]), T), StoreOutcome::Fresh);
    assert_eq!(store.store(old, &mut no_fields, page(1), terms(&[]), T), StoreOutcome::Superseded);
    let Lookup::Fresh(hit) = look(&mut store, "/", T) else { panic!("not fresh") };
    assert!(Arc::ptr_eq(&hit.page, &made));
}

#[test]
fn a_purge_while_a_fill_runs_counts_for_what_it_brings() {
    for (how, stored) in [(Hardness::Hard, StoreOutcome::Purged), (Hardness::Soft, StoreOutcome::Stale)] {
        let prefix = Purge::Prefix { site: "site".into(), host: None, path: Box::from(*b"/a") };
        for what in [Purge::Everything, Purge::Tag(Tag(5)), prefix] {
            let mut store = Store::new(1 << 20);
            let bytes = path("/a/b");
            let ticket = store.lead(key(&bytes), &mut no_fields, "fill");
            assert_eq!(store.purge(&what, how), 0);
            assert_eq!(store.store(ticket, &mut no_fields, validated(1), terms(&[5]), T), stored, "{what:?}");
            // The next fill is not affected.
            assert_eq!(put(&mut store, "/a/b", page(1), terms(&[5])), StoreOutcome::Fresh);
            store.verify();
        }
    }
}

#[test]
fn a_tag_is_purged_and_nothing_else() {
    let mut store = Store::new(1 << 20);
    put(&mut store, "/1", validated(1), terms(&[1, 9]));
    put(&mut store, "/2", validated(1), terms(&[2, 9]));
    put(&mut store, "/3", validated(1), terms(&[3]));
    assert_eq!(store.purge(&Purge::Tag(Tag(9)), Hardness::Soft), 2);
    assert!(matches!(look(&mut store, "/1", T), Lookup::Stale(_, grace, _) if grace.purged));
    assert!(is_fresh(&mut store, "/3"));
    assert_eq!(store.purge(&Purge::Tag(Tag(2)), Hardness::Hard), 1);
    assert!(is_missing(&mut store, "/2") && is_fresh(&mut store, "/3"));
    assert_eq!(store.purge(&Purge::Tag(Tag(77)), Hardness::Hard), 0);
}

#[test]
fn tags_without_pages_are_forgotten() {
    let mut store = Store::new(1 << 20);
    put(&mut store, "/", page(1), terms(&[1, 2, 3]));
    assert_eq!(store.usage().tags, 3);
    put(&mut store, "/", page(1), terms(&[3, 4]));
    assert_eq!(store.usage().tags, 2);
    store.purge(&Purge::Everything, Hardness::Hard);
    assert!(is_missing(&mut store, "/"));
    assert_eq!(store.usage().tags, 0);
    // While a page may still arrive they are remembered, but no longer.
    let hold = store.hold();
    for tag in 100..200 {
        store.purge(&Purge::Tag(Tag(tag)), Hardness::Soft);
    }
    assert_eq!(store.usage().tags, 100);
    store.release(hold);
    assert_eq!(store.usage().tags, 0);
}

#[test]
fn prefixes_are_checked_when_pages_are_found_and_forgotten_when_all_were() {
    let mut store = Store::new(1 << 20);
    for at in ["/a/1", "/a/2", "/b"] {
        put(&mut store, at, page(1), terms(&[]));
    }
    let prefix = |host: Option<&str>, path: &str| Purge::Prefix {
        site: "site".into(),
        host: host.map(Box::from),
        path: path.as_bytes().into(),
    };
    assert_eq!(store.purge(&prefix(Some("other.test"), "/a"), Hardness::Hard), 0);
    assert_eq!(store.purge(&prefix(Some("a.test"), "/a"), Hardness::Hard), 2);
    assert!(is_missing(&mut store, "/a/1") && is_fresh(&mut store, "/b"));
    assert_eq!((store.usage().pages, store.usage().bans), (2, 2));
    while store.sweep(1, T) {}
    assert_eq!((store.usage().pages, store.usage().bans), (1, 0));

    // Beyond the maximum they are applied at once.
    for n in 0..=MOST_BANS {
        put(&mut store, "/c", page(1), terms(&[]));
        store.purge(&prefix(None, &format!("/c{}", "x".repeat(n % 2))), Hardness::Hard);
    }
    assert!(store.usage().bans <= MOST_BANS);
    assert!(is_fresh(&mut store, "/b"));
    store.verify();
}

#[test]
fn variants_are_apart_and_bounded() {
    let mut store = Store::new(1 << 24);
    let bytes = path("/");
    for n in 0..MOST_VARIANTS {
        let name = n.to_string();
        let select = &mut language(&name);
        let ticket = store.lead(key(&bytes), select, "fill");
        assert_eq!(store.store(ticket, select, page(n), by_language(&[]), T), StoreOutcome::Fresh);
    }
    for n in 0..MOST_VARIANTS {
        let look = store.look(key(&bytes), &mut language(&n.to_string()), T);
        assert!(matches!(look, Lookup::Fresh(hit) if hit.page.identity().body().len() == n));
    }
    assert!(matches!(store.look(key(&bytes), &mut language("more"), T), Lookup::Full));
    let later = T + MINUTE;
    assert!(matches!(store.look(key(&bytes), &mut language("more"), later), Lookup::Miss(None)));
    store.verify();
}

#[test]
fn each_variant_has_its_fill_once_the_page_is_known_to_vary() {
    let mut store = Store::new(1 << 20);
    let bytes = path("/");
    let ticket = store.lead(key(&bytes), &mut language("de"), "first");
    assert!(!ticket.is_for_all(&by_language(&[]).vary));
    store.store(ticket, &mut language("de"), page(1), by_language(&[]), T);
    let french = store.lead(key(&bytes), &mut language("fr"), "french");
    assert!(french.is_for_all(&by_language(&[]).vary));
    assert!(matches!(store.look(key(&bytes), &mut language("fr"), T), Lookup::Miss(Some("french"))));
    assert!(matches!(store.look(key(&bytes), &mut language("it"), T), Lookup::Miss(None)));
    assert!(matches!(store.look(key(&bytes), &mut language("de"), T), Lookup::Fresh(_)));
    store.pass(french, tags(&[]), T + 1000);
    assert!(matches!(store.look(key(&bytes), &mut language("fr"), T), Lookup::Pass));
    assert!(matches!(store.look(key(&bytes), &mut language("de"), T), Lookup::Fresh(_)));
}

#[test]
fn the_budget_holds_whatever_comes() {
    const BUDGET: usize = 1 << 20;
    let mut store = Store::new(BUDGET);
    for n in 0..3000_usize {
        let at = format!("/{n}");
        put(&mut store, &at, page(n % 7 * 1000), terms(&[n as u64, n as u64 / 2, 7]));
        assert!(store.usage().bytes <= BUDGET);
    }
    store.verify();
    assert!(store.usage().evicted > 1000 && store.usage().pages > 100);
    assert_eq!(put(&mut store, "/large", page(BUDGET / 4), terms(&[])), StoreOutcome::TooLarge);
    assert!(matches!(look(&mut store, "/large", T + REMEMBERED - 1), Lookup::Pass));
    store.set_budget(BUDGET / 8);
    assert!(store.usage().bytes <= BUDGET / 8 && store.usage().pages > 10, "{:?}", store.usage());
    store.set_budget(0);
    assert_eq!((store.usage().pages, store.usage().tags), (0, 0));
    store.verify();
}

#[test]
fn what_grows_is_counted() {
    let mut store = Store::new(1 << 20);
    let (bytes, page) = (path("/"), page(100));
    put(&mut store, "/", page.clone(), terms(&[]));
    let before = store.usage().bytes;
    assert!(page.put_form(Coding::Gzip, Some(Form::new(b"", &[0; 100_000]))));
    store.grew(key(&bytes), &page);
    assert!((100_000..100_200).contains(&(store.usage().bytes - before)));
    // No longer stored: nothing to count.
    put(&mut store, "/", self::page(1), terms(&[]));
    store.grew(key(&bytes), &page);
    store.verify();
}

/// A page in every coding, each a tenth of its size.
fn coded(length: usize) -> Arc<Page> {
    let page = page(length);
    for coding in CODINGS {
        page.put_form(coding, Some(Form::new(b"", &vec![1; length / 10])));
    }
    page
}

#[test]
fn pages_get_slim_before_they_have_to_go() {
    let mut store = Store::new(1 << 20);
    for n in 0..20 {
        put(&mut store, &format!("/{n}"), coded(100_000), terms(&[]));
    }
    let usage = store.usage();
    assert!(usage.pages == 20 && usage.evicted == 0 && usage.slimmed >= 15, "{usage:?}");
    let pages = (0..20).map(|n| match look(&mut store, &format!("/{n}"), T) {
        Lookup::Fresh(hit) => hit.page,
        _ => panic!("it is there"),
    });
    let slim: Vec<_> = pages.filter(|page| page.is_slim()).collect();
    assert_eq!(slim.len() as u64, usage.slimmed);
    for page in slim {
        assert!(page.identity().body().is_empty());
        assert_eq!(page.form(Coding::Zstd).unwrap().body(), [1; 10_000]);
    }
    // None can become slimmer.
    for n in 20..100 {
        put(&mut store, &format!("/{n}"), coded(100_000), terms(&[]));
    }
    let usage = store.usage();
    assert!(usage.pages > 20 && usage.evicted > 40 && usage.bytes <= usage.budget, "{usage:?}");
    store.verify();
}

#[test]
fn what_can_not_be_unpacked_or_is_wanted_uncoded_stays_as_it_is() {
    let without_zstd = page(1000);
    for coding in CODINGS {
        without_zstd.put_form(coding, None);
    }
    let in_work = page(1000);
    in_work.put_form(Coding::Zstd, Some(Form::new(b"", b"z")));
    assert!(without_zstd.slim().is_none() && in_work.slim().is_none());

    let mut store = Store::new(1 << 20);
    let wanted = coded(100_000);
    wanted.note_plain();
    put(&mut store, "/wanted", wanted, terms(&[]));
    for n in 0..10 {
        put(&mut store, &format!("/{n}"), coded(100_000), terms(&[]));
    }
    let Lookup::Fresh(hit) = look(&mut store, "/wanted", T) else { panic!("it is there") };
    assert!(!hit.page.is_slim() && store.usage().slimmed > 0);
}

#[test]
fn where_little_is_left_a_page_gets_slim_as_soon_as_it_can() {
    let mut store = Store::new(1 << 20);
    put(&mut store, "/large", page(250_000), terms(&[]));
    put(&mut store, "/larger", page(260_000), terms(&[]));
    put(&mut store, "/last", page(200_000), terms(&[]));
    let (bytes, page) = (path("/"), page(100_000));
    put(&mut store, "/", page.clone(), terms(&[]));
    for coding in CODINGS {
        page.put_form(coding, Some(Form::new(b"", &[1; 100])));
        store.grew(key(&bytes), &page);
    }
    assert_eq!((store.usage().slimmed, store.usage().evicted), (1, 0));
    // The same response, in either allocation.
    assert!(store.kept(key(&bytes), &page).unwrap().page.is_slim());
    store.verify();
}

#[test]
fn a_crawler_does_not_drive_out_what_is_asked_for() {
    let mut store = Store::new(1 << 20);
    for n in 0..100 {
        put(&mut store, &format!("/wanted/{n}"), page(2000), terms(&[]));
        assert!(is_fresh(&mut store, &format!("/wanted/{n}")));
    }
    for n in 0..20_000 {
        put(&mut store, &format!("/crawled/{n}"), page(2000), terms(&[]));
    }
    let left = (0..100).filter(|n| is_fresh(&mut store, &format!("/wanted/{n}"))).count();
    assert_eq!(left, 100);
}

#[test]
fn the_most_wanted_are_noted_after_a_purge() {
    let mut store = Store::new(1 << 20);
    for n in 0..10 {
        put(&mut store, &format!("/{n}"), page(1), terms(&[1]));
        (0..n).for_each(|_| assert!(is_fresh(&mut store, &format!("/{n}"))));
    }
    while store.sweep(100, T) {}
    assert!(store.wanted(10).is_empty(), "all are fresh");
    store.purge(&Purge::Tag(Tag(1)), Hardness::Hard);
    while store.sweep(3, T) {}
    let hits = |wanted: Vec<millrace_pages::Wanted>| wanted.iter().map(|page| page.hits).collect::<Vec<_>>();
    assert_eq!(hits(store.wanted(3)), [9, 8, 7]);
    assert_eq!(hits(store.wanted(100)), [6, 5, 4, 3, 2]);
    assert_eq!(store.usage().pages, 0);
}

#[test]
fn pages_from_disk_come_after_newer_ones_and_mind_purges() {
    let mut store = Store::new(1 << 20);
    let hold = store.hold();
    let kept = |tags: &[u64]| Kept {
        page: validated(1),
        terms: Arc::new(terms(tags)),
        variant: Box::default(),
        came: T - 1000,
        purged: false,
    };
    put(&mut store, "/new", page(1), terms(&[]));
    store.purge(&Purge::Tag(Tag(1)), Hardness::Hard);
    store.purge(&Purge::Tag(Tag(2)), Hardness::Soft);
    let mut insert = |at: &str, tags, now| store.insert(&hold, key(&path(at)), kept(tags), now);
    assert_eq!(insert("/new", &[], T), StoreOutcome::Superseded);
    assert_eq!(insert("/1", &[1], T), StoreOutcome::Purged);
    assert_eq!(insert("/2", &[2], T), StoreOutcome::Stale);
    assert_eq!(insert("/3", &[3], T), StoreOutcome::Fresh);
    assert_eq!(insert("/4", &[4], T + 2 * RETAINED), StoreOutcome::Expired);
    store.release(hold);
    let Lookup::Fresh(hit) = look(&mut store, "/3", T) else { panic!("not fresh") };
    assert_eq!(hit.age, 1000);
    store.verify();
}
