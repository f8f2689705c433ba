//! What a path leads to, and how long the cache trusts it.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::thread::set_thread_res_uid;

use super::super::entry::{FormContent, read_unchanged};
use super::super::lookup::Root;
use super::super::table::Cost;
use super::*;
use millrace_base::context::stats::{Counter, Registry};

#[test]
fn files_directories_and_nothing() {
    let site = Site::new();
    site.write("/a.txt", "A");
    site.write("/empty", "");
    site.write("/dir/b.txt", "B");
    assert_eq!(site.content("/a.txt").unwrap(), b"A");
    assert_eq!(site.content("/empty").unwrap(), b"");
    assert_eq!(site.content("/dir/b.txt").unwrap(), b"B");
    for path in ["/", "/dir", "/dir/", "/dir/."] {
        assert!(matches!(site.find(path), Node::Directory), "{path}");
    }
    let long = format!("/{}", "x".repeat(300));
    let deep = "/x".repeat(5000);
    for path in [
        "/none",
        "/a.txt/",
        "/a.txt/b",
        "/dir/../a.txt",
        "/..",
        "/../etc/passwd",
        "/dir/..",
        "/a\0b",
        "/a.txt\0",
        "a.txt",
        "",
        &long,
        &deep,
    ] {
        assert!(matches!(site.find(path), Node::Missing), "{path:?}");
    }
    assert!(matches!(site.find(b"/\xff\xfe"), Node::Missing));
}

#[test]
fn scripts_are_named_and_not_read() {
    let site = Site::new();
    site.write("/index.php", "<?php");
    site.write("/dir/x.php/y", "");
    let expected = site.folder.at("index.php").into_os_string().into_encoded_bytes();
    match site.look("/index.php", Purpose::Run) {
        (Node::Script(filename), false) => assert_eq!(*filename, *expected),
        other => panic!("{other:?}"),
    }
    assert!(matches!(site.look("/index.php", Purpose::Run), (Node::Script(_), true)));
    assert!(matches!(site.look("/dir/x.php", Purpose::Run), (Node::Directory, _)));
    assert!(matches!(site.look("/none.php", Purpose::Run), (Node::Missing, false)));
    site.folder.remove("/index.php");
    site.pass(1000);
    assert!(matches!(site.look("/index.php", Purpose::Run).0, Node::Missing));
    // The same path with another purpose is another lookup.
    site.write("/none.php", "x");
    assert!(matches!(site.find("/none.php"), Node::File(_)));
}

#[test]
fn pipes_sockets_and_devices_are_nothing_and_block_nobody() {
    let site = Site::with(|limits| limits.symlinks = Symlinks::Follow);
    mknodat(CWD, site.folder.at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _listener = UnixListener::bind(site.folder.at("socket")).unwrap();
    site.folder.link("zero", "/dev/zero");
    for path in ["/pipe", "/socket", "/zero"] {
        assert!(matches!(site.find(path), Node::Missing), "{path}");
        assert!(matches!(site.look(path, Purpose::Run).0, Node::Missing), "{path}");
    }
}

/// Runs `test` as a user without files here; the tests themselves may run as root.
fn as_nobody(test: impl FnOnce()) {
    let (root, nobody) = (rustix::fs::Uid::ROOT, rustix::fs::Uid::from_raw(65534));
    let was_root = rustix::process::geteuid() == root;
    if was_root {
        set_thread_res_uid(None, nobody, None).unwrap();
    }
    test();
    if was_root {
        set_thread_res_uid(None, root, None).unwrap();
    }
}

fn forbid(folder: &Folder, path: &str, mode: u32) {
    std::fs::set_permissions(folder.at(path), std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_may_not_be_read() {
    let site = Site::new();
    site.write("/secret.txt", "S");
    site.write("/script.php", "P");
    site.write("/closed/in.txt", "I");
    site.write("/listless/in.txt", "I");
    forbid(&site.folder, "/secret.txt", 0o000);
    forbid(&site.folder, "/script.php", 0o000);
    forbid(&site.folder, "/closed", 0o000);
    forbid(&site.folder, "/listless", 0o111);
    as_nobody(|| {
        assert!(matches!(site.find("/secret.txt"), Node::Missing));
        assert!(matches!(site.find("/closed/in.txt"), Node::Missing));
        // PHP's user may have access that the server lacks; and an unreadable directory still is one.
        assert!(matches!(site.look("/script.php", Purpose::Run).0, Node::Script(_)));
        assert!(matches!(site.find("/closed"), Node::Directory));
        assert!(matches!(site.find("/listless/"), Node::Directory));
        assert_eq!(site.content("/listless/in.txt").unwrap(), b"I");
    });
    forbid(&site.folder, "/closed", 0o700);
}

#[test]
fn a_file_that_becomes_unreadable_is_served_no_longer() {
    let site = Site::new();
    site.write("/a.txt", "A");
    settle();
    as_nobody(|| assert!(matches!(site.find("/a.txt"), Node::File(_))));
    forbid(&site.folder, "/a.txt", 0o000);
    site.pass(1000);
    as_nobody(|| assert!(matches!(site.find("/a.txt"), Node::Missing)));
}

#[test]
fn a_change_is_seen_after_revalidation_and_not_before() {
    let site = Site::new();
    site.write("/a.txt", "one");
    settle();
    assert_eq!(site.content("/a.txt").unwrap(), b"one");
    site.folder.replace("/a.txt", "two!");
    site.pass(999);
    assert!(matches!(site.look("/a.txt", Purpose::Serve), (Node::File(_), true)));
    assert_eq!(site.content("/a.txt").unwrap(), b"one");
    site.pass(1);
    assert_eq!(site.content("/a.txt").unwrap(), b"two!");
    site.folder.remove("/a.txt");
    assert!(site.content("/a.txt").is_some());
    site.pass(1000);
    assert!(site.content("/a.txt").is_none());
    std::fs::create_dir(site.folder.at("/a.txt")).unwrap();
    site.pass(1000);
    assert!(matches!(site.find("/a.txt"), Node::Directory));
}

#[test]
fn what_has_not_changed_is_kept() {
    let site = Site::new();
    site.write("/a.txt", "one");
    settle();
    let first = site.entry("/a.txt");
    site.pass(1000);
    let (node, is_hit) = site.look("/a.txt", Purpose::Serve);
    assert!(!is_hit, "the disk was asked");
    assert!(matches!(node, Node::File(entry) if Rc::ptr_eq(&entry, &first)));
    assert!(site.look("/a.txt", Purpose::Serve).1, "and not again within the second");
}

#[test]
fn a_change_of_equal_size_and_time_is_seen() {
    let site = Site::new();
    site.write("/a.txt", "one");
    site.folder.age("/a.txt", 1000);
    let modified = std::fs::metadata(site.folder.at("/a.txt")).unwrap().modified().unwrap();
    settle();
    assert_eq!(site.content("/a.txt").unwrap(), b"one");
    site.write("/a.txt", "two");
    let file = std::fs::File::options().append(true).open(site.folder.at("/a.txt")).unwrap();
    file.set_modified(modified).unwrap();
    site.pass(1000);
    assert_eq!(site.content("/a.txt").unwrap(), b"two");
}

#[test]
fn a_file_looked_at_right_after_its_change_is_read_again() {
    // Its times can't show another change within the same tick of the kernel's clock.
    let site = Site::new();
    site.write("/a.txt", "one");
    let first = site.entry("/a.txt");
    site.pass(1000);
    assert!(!Rc::ptr_eq(&first, &site.entry("/a.txt")));
    settle();
    site.pass(1000);
    let settled = site.entry("/a.txt");
    site.pass(1000);
    assert!(Rc::ptr_eq(&settled, &site.entry("/a.txt")));
}

#[test]
fn what_was_just_made_is_found_at_once() {
    let site = Site::new();
    site.write("/index.php", "");
    site.write("/folder/a.txt", "A");
    site.folder.link("link", "folder");
    settle();
    for path in ["/late.txt", "/folder/late.txt", "/link/late2.txt", "/new/folder/late.txt"] {
        for _ in 0..3 {
            assert!(matches!(site.find(path), Node::Missing), "{path}");
        }
        site.write(path, "here");
        assert_eq!(site.content(path).unwrap(), b"here", "{path}");
    }
    assert!(matches!(site.look("/folder/late.php", Purpose::Run).0, Node::Missing));
    site.write("/folder/late.php", "");
    assert!(matches!(site.look("/folder/late.php", Purpose::Run).0, Node::Script(_)));
}

#[test]
fn with_no_room_everything_still_works() {
    let site = Site::with(|limits| {
        limits.cache_entries = 0;
        limits.cache_bytes = 0;
    });
    site.write("/a.css", text(5000));
    for _ in 0..2 {
        assert!(matches!(site.look("/a.css", Purpose::Serve), (Node::File(_), false)));
        assert!(matches!(site.look("/none", Purpose::Serve), (Node::Missing, false)));
        assert_eq!(bytes_of(&site.get("/a.css", &[]).body), text(5000));
    }
    assert_eq!(site.cache.cost(), Cost::default());
}

#[test]
fn a_crawler_of_nothing_throws_out_no_file() {
    let site = Site::with(|limits| limits.cache_entries = 100);
    for n in 0..50 {
        site.write(&format!("/{n}.txt"), "x");
        site.entry(&format!("/{n}.txt"));
    }
    for n in 0..5000 {
        site.find(format!("/wp-login-{n}.bak"));
    }
    for n in 0..50 {
        assert!(site.look(format!("/{n}.txt"), Purpose::Serve).1, "{n}");
    }
    assert!(site.cache.cost().entries <= 100);
}

#[test]
fn entries_and_bytes_are_bounded() {
    let site = Site::with(|limits| {
        limits.cache_entries = 40;
        limits.cache_bytes = 400_000;
    });
    for n in 0..60 {
        let name = format!("/{n}.bin");
        site.write(&name, vec![n; 20_000]);
        assert_eq!(site.content(&name).unwrap(), vec![n; 20_000]);
        let Cost { entries, bytes, .. } = site.cache.cost();
        assert!(entries <= 40 && bytes <= 400_000, "{entries} entries, {bytes} bytes");
    }
    assert!(site.cache.cost().bytes > 300_000, "and used");
}

#[test]
fn large_files_stay_on_disk() {
    let site = Site::with(|limits| limits.small_file = 1000);
    site.write("/small", text(1000));
    site.write("/large", text(1001));
    assert!(matches!(site.entry("/small").plain().content, FormContent::Memory(_)));
    assert!(matches!(site.entry("/large").plain().content, FormContent::Disk { length: 1001, .. }));
    assert_eq!(site.cache.cost().descriptors, 1);
    assert_eq!(site.content("/large").unwrap(), text(1001));
    // Replaced while it is being sent: the open file still is the complete old one.
    let old = site.entry("/large");
    site.folder.replace("/large", "new");
    let content = &old.plain().content;
    assert_eq!(bytes_of(&content.part(0, content.length())), text(1001));
    site.pass(1000);
    assert_eq!(site.content("/large").unwrap(), b"new");
    assert_eq!(site.cache.cost().descriptors, 0);
}

#[test]
fn a_file_that_changes_while_it_is_read_is_not_taken_for_whole() {
    let site = Site::new();
    let root = Root::open_at(&site.root, Symlinks::Inside, &Reach::default()).unwrap();
    for (before, after) in [("long enough", "short"), ("short", "long enough")] {
        site.write("/a.txt", before);
        let found = root.open(b"/a.txt").unwrap();
        assert_eq!(read_unchanged(&found).unwrap().unwrap(), before.as_bytes());
        site.write("/a.txt", after);
        assert_eq!(read_unchanged(&found).unwrap(), None);
    }
}

#[test]
fn a_growing_file_has_the_length_it_says() {
    let site = Site::new();
    site.write("/grows.txt", "");
    let path = site.folder.at("/grows.txt");
    let writer = std::thread::spawn(move || {
        for n in 0..400u32 {
            let content = vec![b'0' + (n % 10) as u8; (n % 50 * 100) as usize];
            std::fs::write(&path, content).unwrap();
        }
    });
    while !writer.is_finished() {
        site.pass(1000);
        if let Node::File(entry) = site.find("/grows.txt")
            && let FormContent::Memory(bytes) = &entry.plain().content
        {
            assert_eq!(bytes.len() as u64, entry.stamp.size);
        }
    }
    writer.join().unwrap();
    settle();
    site.pass(1000);
    assert_eq!(site.content("/grows.txt").unwrap(), [b'9'; 4900]);
}

#[test]
fn a_deployment_by_link_is_seen_at_once_for_all_files() {
    let mut site = Site::new();
    for release in ["1", "2"] {
        for file in ["a.txt", "b.txt"] {
            site.write(&format!("/releases/{release}/{file}"), format!("{file} {release}"));
        }
    }
    site.write("/releases/1/old.txt", "old");
    site.folder.link("current", "releases/1");
    site.root = site.folder.at("current");
    settle();
    assert_eq!(site.content("/a.txt").unwrap(), b"a.txt 1");
    site.pass(600);
    assert_eq!(site.content("/b.txt").unwrap(), b"b.txt 1");
    assert!(site.content("/old.txt").is_some());

    site.folder.link("next", "releases/2");
    std::fs::rename(site.folder.at("next"), site.folder.at("current")).unwrap();
    assert_eq!(site.content("/a.txt").unwrap(), b"a.txt 1");
    site.pass(400);
    // The first entry that is a second old finds the new root, and with it all others are renewed.
    assert_eq!(site.content("/a.txt").unwrap(), b"a.txt 2");
    assert_eq!(site.content("/b.txt").unwrap(), b"b.txt 2");
    assert!(site.content("/old.txt").is_none());
    assert_eq!(site.cache.cost().entries, 2, "nothing is left of the old release");
}

#[test]
fn a_root_that_comes_and_goes() {
    let mut site = Site::new();
    site.root = site.folder.at("later");
    assert!(matches!(site.find("/a.txt"), Node::Missing));
    site.write("/later/a.txt", "A");
    site.pass(1000);
    assert_eq!(site.content("/a.txt").unwrap(), b"A");
    std::fs::remove_dir_all(site.folder.at("later")).unwrap();
    site.pass(1000);
    assert!(site.content("/a.txt").is_none());
    site.write("/later/a.txt", "again");
    site.pass(1000);
    assert_eq!(site.content("/a.txt").unwrap(), b"again");
}

#[test]
fn a_site_is_not_taken_for_another_of_its_position() {
    let (one, two) = (Folder::new(), Folder::new());
    one.write("/a.txt", "one");
    two.write("/a.txt", "two");
    let cache = OpenFileCache::new(&limits(), 1);
    let look = |folder: &Folder, identity: usize| {
        let place = SitePlace {
            index: 0,
            identity,
            root: &folder.at(""),
            lines: b"",
            reach: &Reach::default(),
            expires: true,
        };
        match cache.find_at(FileMoment { tick: 1, wall: 0, scripts: 0 }, &place, b"/a.txt", Purpose::Serve).0
        {
            Node::File(entry) => bytes_of(&entry.plain().content.part(0, 3)),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(look(&one, 1), b"one");
    assert_eq!(look(&two, 2), b"two");
    // A request that began before the reload is still in progress.
    assert_eq!(look(&one, 1), b"one");
    cache.reset(&limits(), 1);
    assert_eq!(look(&two, 2), b"two");
}

#[test]
fn gauges_follow_the_cache() {
    let site = Site::new();
    let stats = Registry::new(1);
    let tell = || {
        site.cache.tell(&stats.slot(0));
        (stats.value(Counter::FileEntries), stats.value(Counter::FileBytes))
    };
    site.write("/a.txt", text(3000));
    site.find("/a.txt");
    site.find("/none");
    let (entries, bytes) = tell();
    assert_eq!(entries, 1, "what is not there takes no place");
    assert!((3000..6000).contains(&bytes), "{bytes}");
    site.cache.reset(&limits(), 1);
    assert_eq!(tell(), (0, 0));
}

/// Runs in a separate process, which can use up its descriptors.
#[test]
#[ignore = "is run by `without_descriptors`"]
fn without_descriptors_child() {
    let site = Site::with(|limits| limits.small_file = 10);
    for n in 0..20 {
        site.write(&format!("/{n}"), text(100));
    }
    for n in 0..5 {
        assert!(matches!(site.find(format!("/{n}")), Node::File(_)));
    }
    assert_eq!(site.cache.cost().descriptors, 5);
    let mut greedy = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        greedy.push(file);
    }
    // The cache frees its descriptors before it fails.
    assert!(matches!(site.find("/10"), Node::File(_)));
    let held: Vec<Node> = (11..19).map(|n| site.find(format!("/{n}"))).collect();
    assert_eq!(held.iter().filter(|node| matches!(node, Node::File(_))).count(), 5);
    assert!(matches!(held[7], Node::Unavailable), "which is not to say that it is missing");
    drop(held);
    drop(greedy);
    site.pass(5000);
    assert!(matches!(site.find("/18"), Node::File(_)));
}

#[test]
fn without_descriptors() {
    in_own_process("finding::without_descriptors_child", 64);
}
