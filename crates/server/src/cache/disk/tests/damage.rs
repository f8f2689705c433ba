//! Torn files, changed files, foreign files.

use std::io::Write;

use super::*;

/// Three entries in one segment, and a purge of another entry.
fn three(name: &str) -> (Stage, Disk) {
    let stage = Stage::new(name);
    let disk = stage.open();
    for number in 0..3 {
        store(&disk, &number.to_string(), &content(number), &[number as u64]);
    }
    disk.purge(&[hard(77)], || ());
    written(&disk, 3);
    (stage, disk)
}

/// Checks that the loaded entries are undamaged; returns their number.
fn sound(shelf: &Shelf) -> usize {
    let found = (0..3).filter_map(|number| Some((number, shelf.has(&number.to_string())?)));
    found.map(|(number, found)| assert_eq!(found, (content(number), false))).count()
}

#[test]
fn a_segment_torn_at_any_byte() {
    let (stage, disk) = three("torn");
    let segment = fs::read(&files(&stage.folder(), ".pages")[0]).unwrap();
    let mut counts = Vec::new();
    for end in 0..=segment.len() {
        let shelf = stage.after_kill_and(|copied| {
            fs::write(&copied.files(".pages")[0], &segment[..end]).unwrap();
        });
        counts.push(sound(&shelf));
    }
    assert!(counts.is_sorted());
    assert_eq!((counts[0], counts[segment.len() - 1], counts[segment.len()]), (0, 2, 3));
    disk.close();
}

#[test]
fn a_segment_with_any_byte_changed() {
    let (stage, disk) = three("changed");
    let segment = fs::read(&files(&stage.folder(), ".pages")[0]).unwrap();
    for at in 0..segment.len() {
        let shelf = stage.after_kill_and(|copied| {
            let mut changed = segment.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(&copied.files(".pages")[0], &changed).unwrap();
        });
        assert!(sound(&shelf) < 3, "byte {at}");
    }
    disk.close();
}

#[test]
fn purges_with_any_byte_changed_or_the_end_torn() {
    let (stage, disk) = three("purges");
    let purges = fs::read(&files(&stage.folder(), ".purges")[0]).unwrap();
    for at in 0..purges.len() {
        let shelf = stage.after_kill_and(|copied| {
            let mut changed = purges.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(&copied.files(".purges")[0], &changed).unwrap();
        });
        assert_eq!(sound(&shelf), 0, "byte {at}: a purge may be missing");
        let shelf = stage.after_kill_and(|copied| {
            let more = [&purges[..], &purges[64..]].concat();
            fs::write(
                &copied.files(".purges")[0],
                &more[..purges.len() + at.min(more.len() - purges.len() - 1)],
            )
            .unwrap();
        });
        assert_eq!(sound(&shelf), 3, "{at}: nobody was told of that purge");
    }
    disk.close();
}

#[test]
fn a_folder_without_all_purges_is_cleared() {
    let (stage, disk) = three("cleared");
    stage.after_kill_and(|copied| {
        let mut file = fs::OpenOptions::new().append(true).open(&copied.files(".purges")[0]).unwrap();
        file.write_all(&[7; 100]).unwrap();
        let disk = Disk::open(&copied.0, limits(1 << 20), &stage.log);
        let shelf = Arc::new(Shelf::default());
        disk.load(&shelf);
        shelf.wait();
        assert!(copied.files(".pages").is_empty() && copied.files(".purges").is_empty());
        disk.close();
    });
    disk.close();
    let told = stage.told();
    assert!(
        told.iter().any(|line| line.contains("discarding the cached pages") && line.contains("Damaged")),
        "{told:?}"
    );
}

#[test]
fn after_a_crash_of_the_machine_nothing_is_used() {
    let (stage, disk) = three("crash");
    for (state, count) in [
        ("another-boot running\n", 0),
        ("another-boot ended\n", 3),
        ("nonsense", 0),
        ("", 0),
        ("- running", 0),
    ] {
        let shelf = stage.after_kill_and(|copied| fs::write(copied.0.join("state"), state).unwrap());
        assert_eq!(sound(&shelf), count, "{state:?}");
    }
    disk.close();
    let told = stage.told();
    assert!(told.iter().any(|line| line.contains("did not shut down properly")), "{told:?}");
}

#[test]
fn files_of_another_program_are_removed() {
    let (stage, disk) = three("program");
    stage.after_kill_and(|copied| {
        let mut segment = fs::read(&copied.files(".pages")[0]).unwrap();
        segment[40] ^= 1;
        fs::write(&copied.files(".pages")[0], &segment).unwrap();
        let disk = Disk::open(&copied.0, limits(1 << 20), &stage.log);
        let shelf = Arc::new(Shelf::default());
        disk.load(&shelf);
        shelf.wait();
        assert_eq!(sound(&shelf), 0);
        assert!(copied.files(".pages").is_empty());
        disk.close();
    });
    disk.close();
}

#[test]
fn a_record_of_another_segment_is_none_of_this() {
    let (stage, disk) = three("mixed");
    let other = Stage::new("mixed-other");
    let other_disk = other.open();
    store(&other_disk, "0", "of another server", &[]);
    other_disk.close();
    let stray = fs::read(&files(&other.folder(), ".pages")[0]).unwrap();
    let shelf = stage.after_kill_and(|copied| {
        let mut file = fs::OpenOptions::new().append(true).open(&copied.files(".pages")[0]).unwrap();
        file.write_all(&stray[64..]).unwrap();
    });
    assert_eq!(sound(&shelf), 3);
    disk.close();
}

#[test]
fn strangers_in_the_folder_are_left_alone() {
    let (stage, disk) = three("strangers");
    let shelf = stage.after_kill_and(|copied| {
        for name in ["notes.txt", "1.pages", "zzzzzzzzzzzzzzzz.pages", "x.new"] {
            fs::write(copied.0.join(name), "hello").unwrap();
        }
        let disk = Disk::open(&copied.0, limits(1 << 20), &stage.log);
        disk.close();
        assert!(copied.0.join("notes.txt").exists() && copied.0.join("1.pages").exists());
        assert!(!copied.0.join("x.new").exists(), "it was never finished");
    });
    assert_eq!(sound(&shelf), 3);
    disk.close();
}
