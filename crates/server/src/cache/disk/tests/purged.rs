//! A purged page never comes back.

use super::*;

#[test]
fn whatever_is_purged() {
    let prefix = |host: Option<&str>, path: &str| Purge::Prefix {
        site: "shop".into(),
        host: host.map(Box::from),
        path: path.as_bytes().into(),
    };
    let purges =
        [Purge::Everything, Purge::Tag(Tag(1)), prefix(None, "/a"), prefix(Some("shop.test"), "/a/b")];
    for (number, what) in purges.into_iter().enumerate() {
        for how in [Hardness::Soft, Hardness::Hard] {
            let stage = Stage::new(&format!("purge-{number}-{how:?}"));
            let disk = stage.open();
            store(&disk, &key("/a/b"), "old", &[1, 2]);
            written(&disk, 1);
            disk.purge(&[(what.clone(), how)], || ());
            let expected = (how == Hardness::Soft).then(|| ("old".to_owned(), true));
            assert_eq!(stage.after_kill().has(&key("/a/b")), expected, "{what:?} {how:?}");
            store(&disk, &key("/a/b"), "new", &[1, 2]);
            written(&disk, 2);
            assert_eq!(stage.after_kill().has(&key("/a/b")), some("new", false), "{what:?} {how:?}");
            disk.close();
        }
    }
}

#[test]
fn it_is_on_the_disk_before_it_is_in_force() {
    let stage = Stage::new("before");
    let disk = stage.open();
    store(&disk, "a", "page", &[1]);
    written(&disk, 1);
    disk.purge(&[soft(7), hard(1)], || assert_eq!(stage.after_kill().has("a"), None));
    disk.close();
}

#[test]
fn an_entry_whose_fill_began_before_it_is_covered_wherever_it_stands() {
    let stage = Stage::new("late");
    let disk = stage.open();
    let begun = disk.stamp();
    disk.purge(&[hard(1)], || ());
    disk.stored(b"a", kept("old", &[1]), begun, ORIGIN);
    disk.stored(b"b", kept("old", &[2]), begun, ORIGIN);
    written(&disk, 2);
    assert_eq!(stage.after_kill().order(), ["b"]);
    disk.close();
}

#[test]
fn a_stamp_does_not_count_purges_that_are_not_in_force() {
    let stage = Stage::new("stamp");
    let disk = stage.open();
    let before = disk.stamp();
    disk.purge(&[hard(1), hard(2)], || {
        assert_eq!(disk.stamp(), before);
        disk.purge(&[hard(3)], || assert_eq!(disk.stamp(), before));
        assert_eq!(disk.stamp(), before, "the first is still under way");
    });
    assert_eq!(disk.stamp(), before + 3);
    disk.close();
}

#[test]
fn over_many_starts() {
    let stage = Stage::new("purge-starts");
    let disk = stage.open();
    store(&disk, "a", "old", &[1]);
    store(&disk, "b", "old", &[2]);
    disk.close();
    // A start that reads nothing, purges, and is killed.
    let disk = Disk::open(&stage.folder(), limits(16 << 20), &stage.log);
    disk.purge(&[hard(1)], || ());
    let shelf = stage.after_kill();
    assert_eq!(shelf.order(), ["b"]);
    disk.close();
    for _ in 0..3 {
        let shelf = Arc::new(Shelf::default());
        let disk = stage.open_into(limits(16 << 20), &shelf);
        assert_eq!(shelf.has("a"), None);
        assert!(shelf.has("b").is_some());
        disk.close();
    }
}

#[test]
fn more_purges_than_a_file_holds() {
    let stage = Stage::new("many");
    let disk = stage.open_with(limits(1 << 20));
    store(&disk, "a", "page", &[1]);
    store(&disk, "b", "page", &[100_000]);
    written(&disk, 2);
    for round in 0..200 {
        let purges: Vec<_> = (1..=50).map(|tag| hard(round * 10 + tag)).collect();
        disk.purge(&purges, || ());
        // Entries make the writer tidy the folder.
        store(&disk, &format!("c{round}"), "page", &[]);
    }
    written(&disk, 202);
    wait_for(|| files(&stage.folder(), ".purges").len() <= 16);
    let shelf = stage.after_kill();
    assert_eq!(shelf.has("a"), None);
    assert_eq!(shelf.order().len(), 201);
    disk.close();
}

#[test]
fn by_many_threads_at_once() {
    let stage = Stage::new("threads");
    let disk = stage.open();
    for number in 0..400 {
        store(&disk, &number.to_string(), "page", &[number]);
    }
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let disk = &disk;
            scope.spawn(move || (0..50).for_each(|number| disk.purge(&[hard(thread * 100 + number)], || ())));
        }
    });
    written(&disk, 400);
    let shelf = stage.after_kill();
    for number in 0..400 {
        assert_eq!(shelf.has(&number.to_string()).is_some(), number % 100 >= 50, "{number}");
    }
    disk.close();
}
