//! The names in a site's root. If the first segment of a path is not among them, nothing is there, and the path need
//! neither be walked nor stored: an application's readable URLs are such paths, and scanners' URLs, too. One `fstat`
//! of the root tells whether a name has been added or removed. It is repeated after a moment, and after each script's
//! activity, because a script may have created a file; and each time for a path that looks like a file, such as
//! `/robots.txt`, so that a file that was put there by other means is found at once.

use hashbrown::HashSet;

use super::FileMoment;
use super::lookup::{FileStamp, Root};

/// In a root with more names than this, each path is looked up.
const MOST: usize = 4096;
/// Minimum interval between two readings of the names, milliseconds: in a root that changes all the time each path is
/// looked up.
const PAUSE: u64 = 1000;
/// How long a comparison of the root is valid, milliseconds: under load, once for hundreds of requests.
const TRUST: u64 = 20;

/// The known names of a root.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// When they were read, milliseconds on the thread's clock.
    read: Option<u64>,
    known: Option<CachedListing>,
    /// When the root was last seen unchanged: milliseconds on the thread's clock, and the scripts' activity until
    /// then.
    seen: Option<(u64, u64)>,
}

#[derive(Debug)]
struct CachedListing {
    /// From before the reading: later changes have changed it.
    stamp: FileStamp,
    names: HashSet<Box<[u8]>>,
}

impl Listing {
    /// Whether nothing can be at `path`, without a system call; `trust`: maximum age of the last comparison,
    /// milliseconds.
    pub fn is_known_to_lack(&self, now: FileMoment, trust: u64, path: &[u8]) -> bool {
        let (Some(known), Some((tick, scripts))) = (&self.known, self.seen) else { return false };
        let is_recent = scripts == now.scripts && now.tick.saturating_sub(tick) < TRUST.min(trust);
        is_recent
            && !ends_like_a_file(path)
            && first_segment(path).is_some_and(|first| !known.names.contains(first))
    }

    /// Whether nothing can be at `path` now. One system call, more only if a name has been added or removed.
    pub fn lacks(&mut self, root: &Root, now: FileMoment, path: &[u8]) -> bool {
        let Some(first) = first_segment(path) else { return false };
        if self.known.as_ref().is_some_and(|known| known.names.contains(first)) {
            return false;
        }
        self.seen = None;
        let Ok(stamp) = root.stamp() else { return false };
        if self.known.as_ref().is_none_or(|known| known.stamp != stamp) && !self.read(root, now, stamp) {
            return false;
        }
        self.seen = Some((now.tick, now.scripts));
        self.known.as_ref().is_some_and(|known| !known.names.contains(first))
    }

    fn read(&mut self, root: &Root, now: FileMoment, stamp: FileStamp) -> bool {
        if self.read.is_some_and(|read| now.tick.saturating_sub(read) < PAUSE) {
            return false;
        }
        self.read = Some(now.tick);
        // A change within the same tick of the file system's clock would not change the stamp.
        let names = (!stamp.is_fresh(now.wall)).then(|| root.names(MOST).ok().flatten()).flatten();
        self.known = names.map(|names| CachedListing { stamp, names });
        self.known.is_some()
    }
}

/// Whether the last segment of a path contains a dot.
fn ends_like_a_file(path: &[u8]) -> bool {
    memchr::memrchr(b'.', path).is_some_and(|dot| memchr::memchr(b'/', &path[dot..]).is_none())
}

/// The first segment of a path; `None` for the root itself.
fn first_segment(path: &[u8]) -> Option<&[u8]> {
    let below = path.strip_prefix(b"/")?;
    let first = &below[..memchr::memchr(b'/', below).unwrap_or(below.len())];
    Some(first).filter(|first| !first.is_empty())
}

#[cfg(test)]
mod tests {
    use millrace_settings::plan::Symlinks;

    use super::super::tests::{Folder, settle};
    use super::*;
    use millrace_base::site::Reach;

    fn at(tick: u64) -> FileMoment {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        FileMoment { tick, wall: wall.as_nanos() as i64, scripts: 0 }
    }

    #[test]
    fn names_that_come_and_go_are_noticed_at_once() {
        let folder = Folder::new();
        folder.write("/index.php", "");
        folder.write("/wp-content/a.css", "");
        let root = Root::open_at(&folder.at(""), Symlinks::Inside, &Reach::default()).unwrap();
        let mut listing = Listing::default();
        assert!(!listing.lacks(&root, at(0), b"/a-post/"), "too young to be relied on");
        settle();
        assert!(!listing.lacks(&root, at(999), b"/a-post/"), "not read again so soon");
        for (path, lacks) in [
            (&b"/"[..], false),
            (b"/index.php", false),
            (b"/index.php/x", false),
            (b"/wp-content/nothing", false),
            (b"/wp-conten", true),
            (b"/a-post/", true),
            (b"/a-post/page/2/", true),
            (b"/INDEX.php", true),
        ] {
            assert_eq!(listing.lacks(&root, at(1000), path), lacks, "{}", path.escape_ascii());
        }
        folder.write("/a-post", "");
        assert!(!listing.lacks(&root, at(1001), b"/a-post"), "at once");
        settle();
        assert!(listing.lacks(&root, at(2000), b"/b-post") && !listing.lacks(&root, at(2000), b"/a-post"));
        folder.remove("/a-post");
        settle();
        assert!(!listing.lacks(&root, at(2001), b"/b-post"), "not read again so soon");
        assert!(listing.lacks(&root, at(3000), b"/b-post") && listing.lacks(&root, at(3000), b"/a-post"));
    }

    #[test]
    fn the_last_look_holds_for_a_moment_and_until_a_script_speaks() {
        let folder = Folder::new();
        folder.write("/index.php", "");
        settle();
        let root = Root::open_at(&folder.at(""), Symlinks::Inside, &Reach::default()).unwrap();
        let mut listing = Listing::default();
        assert!(!listing.is_known_to_lack(at(0), 1000, b"/a-post/"), "never looked at");
        assert!(listing.lacks(&root, at(0), b"/a-post/"));
        let (just, late) = (at(TRUST - 1), at(TRUST));
        assert!(listing.is_known_to_lack(just, 1000, b"/b-post/"));
        assert!(
            !listing.is_known_to_lack(just, 1000, b"/index.php/b")
                && !listing.is_known_to_lack(just, 1000, b"/")
        );
        assert!(!listing.is_known_to_lack(late, 1000, b"/b-post/"), "too long ago");
        assert!(!listing.is_known_to_lack(just, 1000, b"/robots.txt"), "it may be new");
        assert!(listing.is_known_to_lack(just, 1000, b"/v1.0/b-post"));
        assert!(!listing.is_known_to_lack(at(0), 0, b"/b-post/"), "nothing holds where the settings say so");
        assert!(
            !listing.is_known_to_lack(FileMoment { scripts: 1, ..just }, 1000, b"/b-post/"),
            "it may be new"
        );
        folder.write("/b-post", "");
        assert!(!listing.lacks(&root, just, b"/b-post"));
        assert!(!listing.is_known_to_lack(just, 1000, b"/c-post/"), "another name has come");
    }

    #[test]
    fn a_root_with_very_many_names_says_nothing() {
        let folder = Folder::new();
        for number in 0..=MOST {
            folder.write(&format!("/{number}"), "");
        }
        settle();
        let root = Root::open_at(&folder.at(""), Symlinks::Inside, &Reach::default()).unwrap();
        let mut listing = Listing::default();
        assert!(!listing.lacks(&root, at(0), b"/a-post/"));
        folder.remove("/0");
        folder.remove("/1");
        folder.remove("/2");
        settle();
        assert!(listing.lacks(&root, at(1000), b"/a-post/") && !listing.lacks(&root, at(1000), b"/3"));
    }
}
