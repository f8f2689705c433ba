//! Start, end, kill, and limits of size.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;

/// Loads the folder, with a disk that stays open.
fn load(stage: &Stage, shelf: &Arc<Shelf>) -> Disk {
    let disk = stage.open_into(limits(16 << 20), shelf);
    assert!(disk.is_on());
    disk
}

#[test]
fn pages_outlive_an_end_and_a_death() {
    let stage = Stage::new("outlive");
    let disk = stage.open();
    for number in 0..200 {
        store(&disk, &key(&number.to_string()), &content(number), &[number as u64]);
    }
    written(&disk, 200);
    let dead = stage.after_kill();
    disk.close();
    let ended = Arc::new(Shelf::default());
    let disk = load(&stage, &ended);
    for shelf in [dead, ended] {
        for number in 0..200 {
            assert_eq!(shelf.has(&key(&number.to_string())), some(&content(number), false));
        }
        assert_eq!(shelf.order().first(), Some(&key("199")), "the newest first");
        assert_eq!(shelf.order().last(), Some(&key("0")));
    }
    assert_eq!((disk.usage().loaded, disk.usage().loading), (200, false));
    disk.close();
}

#[test]
fn the_end_waits_for_what_waits_with_its_compressed_forms() {
    let stage = Stage::new("settle");
    let disk = stage.open_with(DiskLimits { settle: Duration::from_secs(600), ..limits(16 << 20) });
    let page = kept("hello", &[]);
    disk.stored(b"key", page.clone(), disk.stamp(), ORIGIN);
    gzipped(&page, b"gz");
    disk.close();
    let shelf = Arc::new(Shelf::default());
    load(&stage, &shelf).close();
    let entries = lock(&shelf.entries);
    let page = &entries[&b"key"[..]].page;
    assert_eq!(page.form(Coding::Gzip).unwrap().body(), b"gz");
    assert!(page.lacks(Coding::Brotli));
}

#[test]
fn of_two_entries_for_one_page_the_newer_counts_even_if_it_is_of_no_use() {
    let stage = Stage::new("newer");
    let disk = stage.open();
    for key in ["a", "b"] {
        store(&disk, key, "old", &[]);
    }
    store(&disk, "a", "new", &[]);
    let short = Terms { ttl: 1, ..Terms::default() };
    let expired = Kept { terms: Arc::new(short), ..kept("of no use", &[]) };
    disk.stored(b"b", expired, disk.stamp(), ORIGIN);
    let variant = Kept { variant: Box::from(&b"de"[..]), ..kept("deutsch", &[]) };
    disk.stored(b"c", variant, disk.stamp(), ORIGIN);
    written(&disk, 5);
    let shelf = stage.after_kill();
    assert_eq!(shelf.has("a"), some("new", false));
    assert_eq!(shelf.has("b"), None);
    assert_eq!(shelf.order(), ["c", "a"]);
    disk.close();
}

#[test]
fn what_is_fresh_for_a_moment_is_not_written() {
    let stage = Stage::new("moment");
    let disk = stage.open_with(DiskLimits { least_fresh: 1_000_001, ..limits(16 << 20) });
    store(&disk, "a", "too short", &[]);
    disk.close();
    assert!(files(&stage.folder(), ".pages").is_empty());
}

#[test]
fn nothing_more_is_read_when_memory_is_full() {
    let stage = Stage::new("full-memory");
    let disk = stage.open();
    (0..50).for_each(|number| store(&disk, &number.to_string(), "page", &[]));
    disk.close();
    let shelf = Shelf::with_room(20);
    load(&stage, &shelf).close();
    assert_eq!(shelf.order().len(), 20);
    assert_eq!(shelf.order()[0], "49");
}

#[test]
fn one_server_a_folder() {
    let stage = Stage::new("lock");
    let first = stage.open();
    let second = stage.open();
    assert!(first.is_on() && !second.is_on());
    store(&second, "a", "page", &[]);
    second.purge(&[hard(1)], || ());
    let shelf = Arc::new(Shelf::default());
    second.load(&shelf);
    shelf.wait();
    second.close();
    first.close();
    assert!(stage.open().is_on(), "it is free again");
    let told = stage.told();
    assert!(told.iter().any(|line| line.contains("another server is using")), "{told:?}");
}

#[test]
fn the_folder_and_its_files_are_for_us_alone() {
    let stage = Stage::new("modes");
    let disk = stage.open();
    store(&disk, "a", "page", &[]);
    disk.purge(&[hard(1)], || ());
    disk.close();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&stage.folder()), 0o700);
    let all = files(&stage.folder(), "");
    assert_eq!(all.len(), 4, "{all:?}");
    all.iter().for_each(|path| assert_eq!(mode(path), 0o600, "{path:?}"));

    fs::set_permissions(stage.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    stage.open().close();
    assert_eq!(mode(&stage.folder()), 0o700, "names are nobody's business");
    fs::set_permissions(stage.folder(), fs::Permissions::from_mode(0o770)).unwrap();
    assert!(!stage.open().is_on());
    let told = stage.told();
    assert!(told.iter().any(|line| line.contains("other users can write to")), "{told:?}");
}

#[test]
fn a_link_is_not_followed() {
    let stage = Stage::new("link");
    let disk = stage.open();
    store(&disk, "a", "page", &[]);
    disk.close();
    let segment = files(&stage.folder(), ".pages").remove(0);
    let elsewhere = stage.base.join("elsewhere");
    fs::rename(&segment, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &segment).unwrap();
    assert_eq!(
        stage
            .after_kill_and(|copied| {
                let copy = copied.files(".pages").remove(0);
                fs::remove_file(&copy).unwrap();
                std::os::unix::fs::symlink(&elsewhere, &copy).unwrap();
            })
            .order(),
        [""; 0]
    );
}

#[test]
fn the_oldest_goes_when_the_folder_is_full() {
    let stage = Stage::new("bound");
    let disk = stage.open_with(limits(1 << 20));
    let body = "x".repeat(10_000);
    for number in 0..500_u64 {
        store(&disk, &number.to_string(), &body, &[]);
        written(&disk, number + 1);
    }
    wait_for(|| disk.usage().bytes <= 1 << 20);
    let shelf = stage.after_kill();
    let count = shelf.order().len();
    assert!((80..105).contains(&count), "{count}");
    assert_eq!(shelf.order()[0], "499");
    assert!(shelf.has("0").is_none());
    disk.close();
}

#[test]
fn what_memory_still_has_is_written_again() {
    let stage = Stage::new("rescue");
    let shelf = Arc::new(Shelf::default());
    let disk = stage.open_into(limits(1 << 20), &shelf);
    let body = "x".repeat(10_000);
    for number in 0..1_000_u64 {
        let name = number.to_string();
        if number % 50 == 0 {
            shelf.put(&name, &kept(&body, &[number]));
        }
        store(&disk, &name, &body, &[number]);
        written(&disk, number + 1);
    }
    // Entries that are written again are still covered by later purges.
    disk.purge(&[hard(100)], || ());
    let found = stage.after_kill();
    for number in (0..1_000_u64).step_by(50).filter(|number| *number != 100) {
        assert!(found.has(&number.to_string()) == some(&body, false), "{number}");
    }
    assert_eq!((found.has("100"), found.has("1")), (None, None));
    assert!(disk.usage().bytes <= 1 << 20);
    disk.close();
}

#[test]
fn memory_larger_than_the_folder_does_not_keep_the_writer_busy() {
    let stage = Stage::new("rescue-all");
    let shelf = Arc::new(Shelf::default());
    let disk = stage.open_into(limits(1 << 20), &shelf);
    let body = "x".repeat(10_000);
    for number in 0..400_u64 {
        let name = number.to_string();
        shelf.put(&name, &kept(&body, &[]));
        store(&disk, &name, &body, &[]);
    }
    disk.close();
    assert!(disk.usage().bytes <= 1 << 20);
    assert!(disk.usage().written < 1_000, "{:?}", disk.usage());
}

#[test]
fn many_starts_make_a_bounded_number_of_files() {
    let stage = Stage::new("starts");
    for start in 0..40 {
        let shelf = Arc::new(Shelf::default());
        let disk = load(&stage, &shelf);
        assert_eq!(shelf.order().len(), start);
        store(&disk, &start.to_string(), "page", &[start as u64]);
        disk.purge(&[soft(1_000), hard(2_000 + start as u64)], || ());
        disk.close();
    }
    let purges = files(&stage.folder(), ".purges");
    assert!(purges.len() <= 6, "{purges:?}");
    // Old purges still apply to old entries.
    let disk = load(&stage, &Arc::new(Shelf::default()));
    disk.purge(&[hard(3)], || ());
    disk.close();
    for _ in 0..8 {
        let shelf = Arc::new(Shelf::default());
        let disk = load(&stage, &shelf);
        assert_eq!((shelf.order().len(), shelf.has("3")), (39, None));
        disk.purge(&[hard(9_999)], || ());
        disk.close();
    }
}
