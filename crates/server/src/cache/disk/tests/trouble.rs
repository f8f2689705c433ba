//! A disk that is full, slow, or returns errors.

use super::*;

#[test]
fn a_writer_that_hangs_costs_entries_and_holds_nobody_up() {
    let stage = Stage::new("slow");
    let shelf = Arc::new(Shelf::default());
    let disk = stage.open_into(DiskLimits { queue_bytes: 100_000, ..limits(1 << 20) }, &shelf);
    let body = "x".repeat(10_000);
    // The writer hangs when it asks memory for the pages of the oldest segment.
    let held = lock(&shelf.entries);
    let store_many = || {
        let mut number = 0_u64;
        while disk.usage().dropped < 20 && number < 100_000 {
            store(&disk, &number.to_string(), &body, &[]);
            number += 1;
        }
        number
    };
    let number = std::thread::scope(|scope| {
        let storing = scope.spawn(store_many);
        let began = Instant::now();
        while !storing.is_finished() && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let held_up = !storing.is_finished();
        drop(held);
        assert!(!held_up, "it waits for the writer");
        storing.join().unwrap()
    });
    assert!(number < 100_000, "the queue has no bound");
    disk.close();
    let usage = disk.usage();
    assert_eq!(usage.written + usage.dropped, number, "{usage:?}");
}

#[test]
fn many_at_once_do_not_wait_for_their_compressed_forms() {
    let stage = Stage::new("crowd");
    let patient = DiskLimits { settle: Duration::from_secs(600), queue_bytes: 100_000, ..limits(16 << 20) };
    let disk = stage.open_with(patient);
    let body = "x".repeat(10_000);
    for number in 0..50 {
        store(&disk, &number.to_string(), &body, &[]);
        wait_for(|| disk.usage().written + 6 > number);
    }
    assert_eq!(disk.usage().dropped, 0);
    disk.close();
    assert_eq!(disk.usage().written, 50);
}

#[test]
fn if_a_purge_cannot_be_written_nothing_comes_back() {
    let stage = Stage::new("refused");
    let disk = stage.open();
    store(&disk, "a", "page", &[1]);
    store(&disk, "b", "page", &[2]);
    written(&disk, 2);
    let begun = disk.stamp();
    let in_the_way: Vec<_> =
        (0..9).map(|number| stage.folder().join(format!("{number:016x}.purges"))).collect();
    in_the_way.iter().for_each(|path| fs::create_dir(path).unwrap());
    let mut applied = false;
    disk.purge(&[hard(1)], || applied = true);
    assert!(applied && files(&stage.folder(), ".pages").is_empty());
    in_the_way.iter().for_each(|path| fs::remove_dir(path).unwrap());

    // Entries that the purge may cover are refused; later ones are not.
    disk.stored(b"c", kept("old", &[1]), begun, ORIGIN);
    store(&disk, "d", "new", &[1]);
    wait_for(|| disk.usage().written == 3 || disk.usage().dropped > 0);
    store(&disk, "e", "new", &[1]);
    written(&disk, 4);
    let shelf = stage.after_kill();
    assert_eq!(shelf.has("c"), None);
    assert!(shelf.has("e").is_some());
    disk.close();
    let told = stage.told();
    assert!(told.iter().any(|line| line.contains("cannot write a purge")), "{told:?}");
}

/// Environment variable with the folder for the second half of the next test.
const LIMITED: &str = "MILLRACE_TEST_LIMITED";

/// A file size limit stands for a full disk: the system refuses to write more.
#[test]
fn a_full_disk_costs_entries_and_is_told_once() {
    if std::env::var_os(LIMITED).is_some() {
        return full_disk();
    }
    // A limit can't be removed again, and its signal would end this process.
    let test = "cache::disk::tests::trouble::a_full_disk_costs_entries_and_is_told_once";
    let this = std::env::current_exe().unwrap();
    let shell = format!("trap '' XFSZ; ulimit -f 64; exec '{}' --exact {test} --nocapture", this.display());
    let output = std::process::Command::new("sh").args(["-c", &shell]).env(LIMITED, "yes").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
}

fn full_disk() {
    let stage = Stage::new("full");
    // A segment is far larger than the limit: 32 or 64 KB, depending on the shell's unit.
    let disk = stage.open_with(limits(16 << 20));
    let body = "x".repeat(5_000);
    for number in 0..40 {
        store(&disk, &number.to_string(), &body, &[number]);
        wait_for(|| disk.usage().written + disk.usage().dropped > number);
    }
    let usage = disk.usage();
    assert!((4..20).contains(&usage.written) && usage.dropped > 20, "{usage:?}");
    disk.purge(&[hard(1)], || ());
    let shelf = stage.after_kill();
    assert_eq!(shelf.order().len() as u64, usage.written - 1);
    assert_eq!((shelf.has("0"), shelf.has("1")), (some(&body, false), None));
    disk.close();
    let told = stage.told();
    let count = told.iter().filter(|line| line.contains("cannot write cached pages")).count();
    assert_eq!(count, 1, "{told:?}");
}

#[test]
fn files_that_no_server_has_written_do_not_stop_it() {
    let stage = Stage::new("foreign");
    fs::create_dir(stage.folder()).unwrap();
    fs::set_permissions(stage.folder(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    // The highest number, one that leaves a single number, other spellings of a number, no numbers.
    let foreign = [
        "ffffffffffffffff.pages",
        "fffffffffffffffe.purges",
        "8000000000000000.pages",
        "00000000000000FF.pages",
        "+000000000000001.pages",
        "x.pages",
        "pages",
    ];
    foreign.iter().for_each(|name| fs::write(stage.folder().join(name), "rubbish").unwrap());
    let disk = stage.open();
    store(&disk, "a", "page", &[1]);
    written(&disk, 1);
    disk.purge(&[hard(2)], || {});
    disk.close();
    assert_eq!(disk.usage().dropped, 0);
    let shelf = Arc::new(Shelf::default());
    stage.open_into(limits(1 << 20), &shelf).close();
    assert_eq!(shelf.has("a"), Some(("page".to_owned(), false)));
    assert!(foreign.iter().all(|name| stage.folder().join(name).exists()), "they are nobody's to delete");
}
