//! A file system with a folder as its `/`. Links in it resolve as if that folder were `/`.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// The root: `/`, or the folder of an image.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// A root; `path` must be an absolute folder.
    pub fn new(path: impl Into<PathBuf>) -> Root {
        Root(path.into())
    }

    /// Whether it is the root of the running system: only then the kernel's values are of this system.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The root itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where `path` is, for writing: its folder must not lead out of the root.
    ///
    /// # Errors
    /// It does, or can't be followed.
    pub fn place(&self, path: &str) -> io::Result<PathBuf> {
        let full = self.0.join(path);
        let mut known = full.parent().unwrap_or(&self.0);
        while !known.exists() {
            known = known.parent().unwrap_or(&self.0);
        }
        if known.canonicalize()?.starts_with(self.0.canonicalize()?) {
            return Ok(full);
        }
        Err(io::Error::other(format!("{} leads out of {}", known.display(), self.0.display())))
    }

    /// The text of a file.
    ///
    /// # Errors
    /// It can't be read.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        std::fs::File::from(self.open(path, OFlags::RDONLY)?).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Whether there is something, and it can be opened.
    pub fn has(&self, path: &str) -> bool {
        self.open(path, OFlags::PATH).is_ok()
    }

    /// Names in a folder, sorted; none if it can't be read.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let Ok(open) = self.open(folder, OFlags::RDONLY | OFlags::DIRECTORY) else { return Vec::new() };
        let Ok(entries) = rustix::fs::Dir::read_from(open) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names
    }

    /// Files of a path that may have a `*` in its last part, sorted.
    pub fn matching(&self, pattern: &str) -> Vec<String> {
        let pattern = pattern.trim_start_matches('/');
        if !pattern.contains('*') {
            return vec![pattern.to_owned()];
        }
        let folder = pattern.rsplit_once('/').map_or("", |(folder, _)| folder);
        let paths = self.names(folder).into_iter().map(|name| format!("{folder}/{name}"));
        paths.filter(|path| super::nginx::matching(pattern, path)).collect()
    }

    fn open(&self, path: &str, how: OFlags) -> io::Result<rustix::fd::OwnedFd> {
        let path = path.trim_start_matches('/');
        if self.is_live() {
            return Ok(rustix::fs::open(self.0.join(path), how | OFlags::CLOEXEC, Mode::empty())?);
        }
        let folder =
            rustix::fs::open(&self.0, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(openat2(folder, path, how | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn links_stay_in_the_root() {
        let tree = Tree::of(&[("etc/b", "inside"), ("var/x", "")]);
        let root = Root::new(tree.root());
        std::os::unix::fs::symlink("/etc/b", tree.root().join("etc/a")).expect("a link");
        std::os::unix::fs::symlink("/tmp", tree.root().join("etc/sysctl.d")).expect("a link");
        assert_eq!(root.read("/etc/a").ok().as_deref(), Some("inside"));
        assert!(root.place("etc/new/deep").is_ok() && root.place("etc/sysctl.d/x").is_err());
        assert_eq!(root.names("etc"), ["a", "b", "sysctl.d"]);
        assert_eq!(root.matching("/etc/*"), ["etc/a", "etc/b", "etc/sysctl.d"]);
        assert_eq!(
            (root.matching("etc/s*.d"), root.matching("x/*")),
            (vec!["etc/sysctl.d".to_owned()], vec![])
        );
        assert!(root.has("var/x") && !root.has("var/y") && root.names("none").is_empty());
    }
}
