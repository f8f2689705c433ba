//! Symbolic links: inside, outside, in a circle, and changed during a lookup. With `openat2` and without.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::lookup::{FoundPath, LookupFailure, PathKind, Root};
use super::*;

/// A root beside a secret, with all kinds of links.
fn maze() -> Folder {
    let folder = Folder::new();
    folder.write("/secret/key.txt", "secret");
    folder.write("/root/a.txt", "a");
    folder.write("/root/dir/b.txt", "b");
    folder.write("/rootless/c.txt", "c");
    folder.link("root/to-file", "a.txt");
    folder.link("root/to-dir", "dir");
    folder.link("root/dir/up", "../a.txt");
    folder.link("root/absolute-inside", folder.at("root/dir"));
    folder.link("root/chain", "to-dir/up");
    folder.link("root/self", ".");
    folder.link("root/out-relative", "../secret");
    folder.link("root/out-file", "../secret/key.txt");
    folder.link("root/out-absolute", folder.at("secret"));
    folder.link("root/out-beside", folder.at("rootless"));
    folder.link("root/out-and-in", "../root/a.txt");
    folder.link("root/proc", "/proc/self/root");
    folder.link("root/nowhere", "nothing");
    folder.link("root/loop", "loop");
    folder.link("root/loop-1", "loop-2/x");
    folder.link("root/loop-2", "loop-1/x");
    folder
}

fn roots(folder: &Folder, symlinks: Symlinks) -> [Root; 2] {
    let new = Root::open_at(&folder.at("root"), symlinks, &Reach::default()).unwrap();
    let old = Root::open_at(&folder.at("root"), symlinks, &Reach::default()).unwrap();
    old.forget_openat2();
    [new, old]
}

fn read(found: &FoundPath) -> String {
    let mut text = String::new();
    (&found.file).read_to_string(&mut text).unwrap();
    text
}

const STAY: [(&str, &str, Option<&str>); 8] = [
    ("/a.txt", "a", None),
    ("/dir/b.txt", "b", None),
    ("/to-file", "a", Some("/a.txt")),
    ("/to-dir/b.txt", "b", Some("/dir/b.txt")),
    ("/dir/up", "a", Some("/a.txt")),
    ("/absolute-inside/b.txt", "b", Some("/dir/b.txt")),
    ("/chain", "a", Some("/a.txt")),
    ("/self/self/dir/b.txt", "b", Some("/dir/b.txt")),
];

const LEAVE: [(&str, &str); 5] = [
    ("/out-relative/key.txt", "secret"),
    ("/out-file", "secret"),
    ("/out-absolute/key.txt", "secret"),
    ("/out-beside/c.txt", "c"),
    ("/out-and-in", "a"),
];

const NOWHERE: [&str; 10] = [
    "/nowhere",
    "/loop",
    "/loop-1",
    "/loop/x",
    "/to-file/",
    "/to-file/x",
    "/a.txt/",
    "/a.txt/x",
    "/to-dir/none",
    "/none",
];

#[test]
fn links_inside_the_root_are_followed() {
    let folder = maze();
    for symlinks in [Symlinks::Inside, Symlinks::Follow] {
        for root in roots(&folder, symlinks) {
            for (path, content, target) in STAY {
                let found = root.open(path.as_bytes()).unwrap_or_else(|e| panic!("{path}: {e:?}"));
                assert_eq!(read(&found), content, "{path}");
                let expected = target.map(|t| super::super::lookup::LinkTarget::Inside(t.as_bytes().into()));
                assert_eq!(found.target, expected, "{path}");
                let seen = root.look(path.as_bytes()).unwrap();
                assert_eq!((seen.kind, seen.stamp), (PathKind::File, found.stamp), "{path}");
            }
            for path in ["/", "/dir", "/dir/", "/to-dir", "/to-dir/", "/self", "/absolute-inside/"] {
                assert_eq!(root.open(path.as_bytes()).unwrap().kind, PathKind::Directory, "{path}");
                assert_eq!(root.look(path.as_bytes()).unwrap().kind, PathKind::Directory, "{path}");
            }
            for path in NOWHERE {
                assert_eq!(root.open(path.as_bytes()).unwrap_err(), LookupFailure::Missing, "{path}");
                assert_eq!(root.look(path.as_bytes()).unwrap_err(), LookupFailure::Missing, "{path}");
            }
        }
    }
}

#[test]
fn links_out_of_the_root_lead_nowhere() {
    let folder = maze();
    for root in roots(&folder, Symlinks::Inside) {
        // `out-and-in` leaves the root by name and comes back: its target is inside, so it is served.
        for (path, _) in LEAVE.iter().filter(|(path, _)| *path != "/out-and-in") {
            assert_eq!(root.open(path.as_bytes()).unwrap_err(), LookupFailure::Missing, "{path}");
            assert_eq!(root.look(path.as_bytes()).unwrap_err(), LookupFailure::Missing, "{path}");
        }
        for path in ["/out-relative", "/out-absolute/", "/proc", "/proc/etc/passwd"] {
            assert_eq!(root.open(path.as_bytes()).unwrap_err(), LookupFailure::Missing, "{path}");
        }
        assert_eq!(read(&root.open(b"/out-and-in").unwrap()), "a");
    }
}

#[test]
fn links_out_of_the_root_are_followed_if_they_may_be() {
    let folder = maze();
    for root in roots(&folder, Symlinks::Follow) {
        for (path, content) in LEAVE {
            assert_eq!(read(&root.open(path.as_bytes()).unwrap()), content, "{path}");
        }
        for path in ["/../secret/key.txt", "/dir/../../secret/key.txt", "/out-relative/../secret/key.txt"] {
            assert_eq!(root.open(path.as_bytes()).unwrap_err(), LookupFailure::Missing, "{path}");
        }
    }
}

/// A folder of links out of the root, by owner of link and target; only root can make it.
fn owners() -> Folder {
    use std::os::unix::fs::{chown, lchown};
    let folder = Folder::new();
    folder.write("/root/a.txt", "a");
    for (owner, name) in [(7, "seven"), (8, "eight"), (0, "admin")] {
        folder.write(&format!("/{name}/file.txt"), name);
        folder.write(&format!("/{name}/.hidden/file.txt"), name);
        for path in [format!("{name}/file.txt"), format!("{name}/.hidden"), name.to_owned()] {
            chown(folder.at(&path), Some(owner), Some(owner)).unwrap();
        }
        for (by, whose) in [(7, "seventh"), (0, "roots")] {
            for (what, target) in [("file", "/file.txt"), ("folder", ""), ("hidden", "/.hidden")] {
                let link = format!("root/{whose}-{name}-{what}");
                folder.link(&link, folder.at(&format!("{name}{target}")));
                lchown(folder.at(&link), Some(by), Some(by)).unwrap();
            }
        }
    }
    // One's own link to one's own link to another's file; and a way through another's folder to one's own file.
    folder.link("seven/on", folder.at("admin-secret"));
    folder.write("/admin-secret", "x");
    folder.link("root/chain", folder.at("seven/on"));
    folder.link("root/through", "../eight/../seven/file.txt");
    for link in ["seven/on", "root/chain", "root/through"] {
        lchown(folder.at(link), Some(7), Some(7)).unwrap();
    }
    folder
}

#[test]
fn links_out_of_the_root_are_followed_if_the_owner_agrees() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = owners();
    let followed = [
        "/seventh-seven-file",
        "/seventh-seven-folder/file.txt",
        "/roots-seven-file",
        "/roots-eight-folder/file.txt",
        "/roots-admin-file",
        "/through",
    ];
    let refused = [
        "/seventh-eight-file",
        "/seventh-eight-folder/file.txt",
        "/seventh-admin-file",
        "/seventh-admin-folder/file.txt",
        "/seventh-seven-hidden/file.txt",
        "/roots-eight-hidden/file.txt",
        "/chain",
    ];
    for root in roots(&folder, Symlinks::Owner) {
        for path in followed {
            root.open(path.as_bytes()).unwrap_or_else(|error| panic!("{path}: {error:?}"));
            assert_eq!(root.refused(), None, "{path}");
        }
        for path in refused {
            assert_eq!(root.open(path.as_bytes()).unwrap_err(), LookupFailure::Missing, "{path}");
            assert_eq!(root.look(path.as_bytes()).unwrap_err(), LookupFailure::Missing, "{path}");
            let link = root.refused().expect("reported").link;
            assert!(folder.at(&format!("root{path}")).starts_with(&link), "{link:?}");
            assert_eq!(root.refused(), None, "once");
        }
    }
}

#[test]
fn the_name_behind_a_link_is_known() {
    let site = Site::with(|limits| limits.symlinks = Symlinks::Follow);
    let other = Folder::new();
    other.write("/x/.env", "E");
    site.write("/wp-config.php", "P");
    site.folder.link("innocent.txt", "wp-config.php");
    site.folder.link("outside.txt", other.at("x/.env"));
    assert_eq!(site.entry("/innocent.txt").linked_name(), Some(&b"/wp-config.php"[..]));
    assert_eq!(site.entry("/outside.txt").linked_name(), Some(&b"/.env"[..]));
    assert_eq!(site.entry("/wp-config.php").linked_name(), None);
}

#[test]
fn a_root_that_is_a_link() {
    let folder = maze();
    folder.link("alias", "root");
    let root = Root::open_at(&folder.at("alias"), Symlinks::Inside, &Reach::default()).unwrap();
    assert_eq!(read(&root.open(b"/absolute-inside/b.txt").unwrap()), "b");
    assert!(root.is_still(&folder.at("alias")).unwrap());
    folder.remove("alias");
    folder.link("alias", "secret");
    assert!(!root.is_still(&folder.at("alias")).unwrap());
    assert_eq!(
        Root::open_at(&folder.at("root/a.txt"), Symlinks::Inside, &Reach::default()).unwrap_err(),
        LookupFailure::Missing
    );
}

#[test]
fn a_link_that_changes_while_we_look_lets_nobody_out() {
    let folder = maze();
    folder.write("/root/dir/key.txt", "public");
    let stop = Arc::new(AtomicBool::new(false));
    let flipper = {
        let (stop, root) = (stop.clone(), folder.at("root"));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                for target in ["dir", "../secret"] {
                    let _ = std::fs::remove_file(root.join("flip-next"));
                    std::os::unix::fs::symlink(target, root.join("flip-next")).unwrap();
                    std::fs::rename(root.join("flip-next"), root.join("flip")).unwrap();
                }
            }
        })
    };
    let until = std::time::Instant::now() + PATIENCE;
    for root in roots(&folder, Symlinks::Inside) {
        let (mut inside, mut refused) = (0, 0);
        while (inside < 500 || refused < 500) && std::time::Instant::now() < until {
            match root.open(b"/flip/key.txt") {
                Ok(found) => {
                    assert_eq!(read(&found), "public");
                    inside += 1;
                }
                Err(failure) => {
                    assert_eq!(failure, LookupFailure::Missing);
                    refused += 1;
                }
            }
        }
        assert!(inside > 0 && refused > 0, "{inside} inside, {refused} refused");
    }
    stop.store(true, Ordering::Relaxed);
    flipper.join().unwrap();
}
