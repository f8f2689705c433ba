//! The files and folders that the scripts of a site consist of, and what has changed of them since the last look. No clock: times are
//! passed in.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cache::CodeStamp;

/// Milliseconds.
pub type CodeMillis = u64;

/// CodeFiles and folders of a site, at most; further ones are not looked at.
const MOST: usize = 50_000;
/// Changes of one path that count at once; after them, one in [`SELDOM`]. A path that has been quiet for [`QUIET`] is a new one.
const AT_ONCE: u32 = 5;
const SELDOM: CodeMillis = 60_000;
const QUIET: CodeMillis = 20 * 60_000;

/// What is known of a site's code.
#[derive(Debug, Default)]
pub struct CodeFiles {
    files: HashMap<PathBuf, Seen>,
    /// Folders on the way to them: new and removed scripts, folders and links in them count.
    folders: HashMap<PathBuf, Seen>,
    /// The site's folder, with the links on the way to it: a release is put in place by such a link.
    root: Option<(PathBuf, Option<PathBuf>)>,
}

/// A file's state, or a folder's; `None`: it is gone.
#[derive(Debug)]
struct Seen {
    stamp: Option<CodeStamp>,
    /// Of a folder: its scripts, folders and links.
    names: u64,
    changes: u32,
    last: CodeMillis,
}

impl CodeFiles {
    /// Adds files that have run; `is_all`: folders count as well.
    pub fn add(&mut self, root: &Path, said: Vec<(PathBuf, CodeStamp)>, is_all: bool) {
        self.root.get_or_insert_with(|| (root.to_owned(), fs::canonicalize(root).ok()));
        let below = self.root.as_ref().and_then(|(_, real)| real.clone());
        for (path, stamp) in said {
            if self.files.len() + self.folders.len() >= MOST {
                return;
            }
            for folder in path.ancestors().skip(1) {
                let Some(beneath) = below.as_deref().and_then(|root| folder.strip_prefix(root).ok()) else {
                    break;
                };
                if is_all && !beneath.iter().any(is_cache) && !self.folders.contains_key(folder) {
                    self.folders.insert(folder.to_owned(), Seen::folder(folder));
                }
            }
            self.files.entry(path).or_insert(Seen { stamp: Some(stamp), names: 0, changes: 0, last: 0 });
        }
    }

    /// What has changed since the last look, and is worth a purge.
    pub fn look(&mut self, now: CodeMillis) -> Vec<PathBuf> {
        let mut changed = Vec::new();
        if let Some((root, real)) = &mut self.root {
            let is = fs::canonicalize(&*root).ok();
            if is != *real {
                changed.push(root.clone());
                *real = is;
            }
        }
        for (path, seen) in &mut self.files {
            if seen.differs(stamp(path), None, now) {
                changed.push(path.clone());
            }
        }
        for (path, seen) in &mut self.folders {
            let stamp = stamp(path);
            let names = (stamp != seen.stamp).then(|| names(path));
            if seen.differs(stamp, names, now) {
                changed.push(path.clone());
            }
        }
        changed.sort();
        changed
    }
}

impl Seen {
    fn folder(path: &Path) -> Seen {
        Seen { stamp: stamp(path), names: names(path), changes: 0, last: 0 }
    }

    /// Notes the state; whether it is another one, and counts. `names`: of a folder only they count.
    fn differs(&mut self, stamp: Option<CodeStamp>, names: Option<u64>, now: CodeMillis) -> bool {
        if stamp == self.stamp {
            return false;
        }
        self.stamp = stamp;
        if let Some(names) = names
            && std::mem::replace(&mut self.names, names) == names
        {
            return false;
        }
        let quiet = now.saturating_sub(self.last);
        self.changes = if quiet > QUIET { 1 } else { self.changes + 1 };
        let counts = self.changes <= AT_ONCE || quiet >= SELDOM;
        if counts {
            self.last = now;
        }
        counts
    }
}

/// `None`: there is no such file. One that can't be looked at is not watched.
fn stamp(path: &Path) -> Option<CodeStamp> {
    let of = |data: Metadata| (data.size(), data.mtime(), data.mtime_nsec());
    fs::metadata(path).ok().map(of)
}

/// A digest of what is in a folder, as far as it is code: scripts, folders, links and where they lead.
fn names(path: &Path) -> u64 {
    let mut sum = 0_u64;
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let (name, target) = (entry.file_name(), kind.is_symlink().then(|| fs::read_link(entry.path()).ok()));
        let is_hidden = name.as_bytes().starts_with(b".");
        // What is in such a folder doesn't count, so its appearing doesn't either: WordPress creates `uploads` when it first needs it.
        let is_folder = kind.is_dir() && !is_cache(&name);
        if !is_hidden && (is_folder || kind.is_symlink() || name.as_bytes().ends_with(b".php")) {
            let mut hasher = DefaultHasher::new();
            (name, target).hash(&mut hasher);
            sum = sum.wrapping_add(hasher.finish());
        }
    }
    sum
}

/// Whether applications write scripts of their own into folders with this name: new ones are no change of the site's code.
fn is_cache(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_lowercase();
    name.contains("cache") || name == "uploads" || name == "upgrade"
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Tree {
            let root = std::env::temp_dir().join(format!("millrace-code-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            let tree = Tree(root);
            for file in [
                "releases/1/index.php",
                "releases/1/theme/page.php",
                "releases/1/plugins/a/a.php",
                "releases/2/index.php",
            ] {
                tree.write(file, "1");
            }
            std::os::unix::fs::symlink("releases/1", tree.0.join("current")).unwrap();
            tree
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn files(&self) -> CodeFiles {
            let mut files = CodeFiles::default();
            let said = ["index.php", "theme/page.php", "plugins/a/a.php"]
                .map(|name| self.0.join("releases/1").join(name));
            let said = said.map(|path| (path.clone(), stamp(&path).unwrap()));
            files.add(&self.0.join("current"), said.to_vec(), true);
            assert_eq!(files.look(0), Vec::<PathBuf>::new());
            files
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// What is done to a site's files, and which of them count as changed.
    #[test]
    fn every_way_of_a_deploy_is_seen() {
        type Change = fn(&Tree);
        let cases: &[(&str, Change, &[&str])] = &[
            ("nothing", |_| (), &[]),
            (
                "written in place",
                |tree| tree.write("releases/1/theme/page.php", "22"),
                &["releases/1/theme/page.php"],
            ),
            (
                "replaced by a rename, as rsync and git do",
                |tree| {
                    tree.write("releases/1/theme/.new", "2");
                    fs::rename(
                        tree.0.join("releases/1/theme/.new"),
                        tree.0.join("releases/1/theme/page.php"),
                    )
                    .unwrap();
                },
                &["releases/1/theme/page.php"],
            ),
            (
                "deleted",
                |tree| fs::remove_file(tree.0.join("releases/1/theme/page.php")).unwrap(),
                &["releases/1/theme", "releases/1/theme/page.php"],
            ),
            (
                "a new template",
                |tree| tree.write("releases/1/theme/page-about.php", "1"),
                &["releases/1/theme"],
            ),
            (
                "a plugin's folder renamed",
                |tree| {
                    fs::rename(tree.0.join("releases/1/plugins/a"), tree.0.join("releases/1/plugins/a.off"))
                        .unwrap();
                },
                &["releases/1/plugins", "releases/1/plugins/a", "releases/1/plugins/a/a.php"],
            ),
            (
                "another release",
                |tree| {
                    std::os::unix::fs::symlink("releases/2", tree.0.join("next")).unwrap();
                    fs::rename(tree.0.join("next"), tree.0.join("current")).unwrap();
                },
                &["current"],
            ),
            (
                "rights",
                |tree| {
                    use std::os::unix::fs::PermissionsExt;
                    fs::set_permissions(
                        tree.0.join("releases/1/index.php"),
                        fs::Permissions::from_mode(0o600),
                    )
                    .unwrap();
                },
                &[],
            ),
            (
                "a log, an upload, a cache",
                |tree| {
                    tree.write("releases/1/debug.log", "x");
                    tree.write("releases/1/theme/style.css", "x");
                    tree.write("releases/1/uploads/2026/a.php", "x");
                },
                &[],
            ),
            ("a file that never ran", |tree| tree.write("releases/2/index.php", "other"), &[]),
        ];
        for (number, (name, change, expected)) in cases.iter().enumerate() {
            // Names of the folders that a site is in mean nothing.
            let tree = Tree::new(&format!("geocaches-{number}"));
            let mut files = tree.files();
            change(&tree);
            let found = files.look(1000);
            let expected: Vec<PathBuf> = expected.iter().map(|path| tree.0.join(path)).collect();
            assert_eq!(found, expected, "{name}");
            assert_eq!(files.look(2000), Vec::<PathBuf>::new(), "{name}: once");
        }
    }

    #[test]
    fn a_file_that_keeps_changing_counts_once_a_minute() {
        let tree = Tree::new("busy");
        let mut files = tree.files();
        let mut counted = Vec::new();
        for second in 1..=130 {
            tree.write("releases/1/theme/page.php", &"x".repeat(second + 1));
            if !files.look(second as CodeMillis * 1000).is_empty() {
                counted.push(second);
            }
        }
        assert_eq!(counted, [1, 2, 3, 4, 5, 65, 125]);
    }
}
