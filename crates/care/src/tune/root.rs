//! A file system with a folder as its `/`. Links in it resolve as if that folder were `/`.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, fchmod, fsync, mkdirat, openat, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;

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

    /// Its name on this machine, for people.
    pub fn shown(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// Writes a file beside its place, to the disk, and renames it. No link leads out of the root, whoever owns what is in it, and
    /// whenever it changes.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let (folder, name) = self.folder_of(path)?;
        let new = beside(name);
        // One that a killed command has left.
        absent(unlinkat(&folder, &*new, AtFlags::empty()))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, &*new, flags, Mode::from_raw_mode(0o644))?);
        let written = file
            // The umask may have removed rights.
            .set_permissions(Permissions::from_mode(0o644))
            .and_then(|()| file.write_all(bytes))
            .and_then(|()| file.sync_all())
            .and_then(|()| Ok(renameat(&folder, &*new, &folder, name)?));
        if let Err(error) = written {
            let _ = unlinkat(&folder, &*new, AtFlags::empty());
            return Err(error);
        }
        Ok(fsync(&folder)?)
    }

    /// Deletes a file, and what a killed command has left beside it; whether the file was there.
    ///
    /// # Errors
    /// It can't be deleted.
    pub fn remove(&self, path: &str) -> io::Result<bool> {
        let (folder, name) = match self.folder_of(path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(false);
            }
            found => found?,
        };
        self.remove_in(&folder, &beside(name))?;
        self.remove_in(&folder, name)
    }

    /// Deletes only what a killed command has left beside a file.
    ///
    /// # Errors
    /// It can't be deleted.
    pub fn remove_beside(&self, path: &str) -> io::Result<bool> {
        match self.folder_of(path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
            found => {
                let (folder, name) = found?;
                self.remove_in(&folder, &beside(name))
            }
        }
    }

    /// Makes a folder; its parent must be there. One that is there already is as good.
    ///
    /// # Errors
    /// It can't be made.
    pub fn make_folder(&self, path: &str) -> io::Result<()> {
        let (above, name) = self.folder_of(path)?;
        match mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) => return self.open(path, OFlags::PATH | OFlags::DIRECTORY).map(|_| ()),
            made => made?,
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(&above, name, flags, Mode::empty())?;
        fchmod(&made, Mode::from_raw_mode(0o755))?;
        Ok(fsync(&above)?)
    }

    /// Removes a folder, if it is empty.
    ///
    /// # Errors
    /// It is not there, has files, or can't be removed.
    pub fn remove_folder(&self, path: &str) -> io::Result<()> {
        let (above, name) = self.folder_of(path)?;
        Ok(unlinkat(above, name, AtFlags::REMOVEDIR)?)
    }

    /// An open folder.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn open_folder(&self, path: &str) -> io::Result<File> {
        Ok(self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?.into())
    }

    /// The folder that a path is in, held open, and the path's last name.
    fn folder_of<'a>(&self, path: &'a str) -> io::Result<(OwnedFd, &'a str)> {
        let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
        if matches!(name, "" | "." | "..") {
            return Err(io::Error::other(format!("{path} is not a name")));
        }
        let folder = if folder.is_empty() { "." } else { folder };
        Ok((self.open(folder, OFlags::RDONLY | OFlags::DIRECTORY)?, name))
    }

    fn remove_in(&self, folder: &OwnedFd, name: &str) -> io::Result<bool> {
        // A read-only file system refuses to delete even what is not there.
        if !absent(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|_| ()))? {
            return Ok(false);
        }
        unlinkat(folder, name, AtFlags::empty())?;
        fsync(folder)?;
        Ok(true)
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
        self.entries(folder).unwrap_or_default()
    }

    /// Names in a folder, sorted, without those that begin with a dot.
    ///
    /// # Errors
    /// It can't be read.
    pub fn entries(&self, folder: &str) -> io::Result<Vec<String>> {
        let open = self.open(folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(open)? {
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        Ok(names)
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

    fn open(&self, path: &str, how: OFlags) -> io::Result<OwnedFd> {
        let path = path.trim_start_matches('/');
        if self.is_live() {
            return Ok(rustix::fs::open(self.0.join(path), how | OFlags::CLOEXEC, Mode::empty())?);
        }
        let folder =
            rustix::fs::open(&self.0, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(openat2(folder, path, how | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)?)
    }
}

/// Where a file is written before it is renamed: a name that no tool reads.
pub(super) fn beside(name: &str) -> String {
    format!(".{name}.millrace-new")
}

/// Whether it was there.
fn absent(result: Result<(), Errno>) -> io::Result<bool> {
    match result {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        result => Ok(result.map(|()| true)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn nothing_is_written_or_removed_outside_of_the_root() {
        let (tree, outside) =
            (Tree::of(&[("image/etc/x", ""), ("image/tmp/x", "")]), Tree::of(&[("kept", "")]));
        let root = Root::new(tree.root().join("image"));
        for (target, link) in
            [(outside.root().to_owned(), "a"), ("../../..".into(), "b"), ("/tmp".into(), "c")]
        {
            std::os::unix::fs::symlink(target, root.path().join("etc").join(link)).expect("a link");
        }
        let names = |folder: &Path| std::fs::read_dir(folder).expect("a folder").count();
        for path in
            ["etc/a/new", "etc/a/kept", "../new", "/../etc/new", "etc/b/new", "etc/c/new", "etc/../../x/new"]
        {
            let _ =
                (root.write(path, b"x"), root.make_folder(path), root.remove(path), root.remove_folder(path));
        }
        assert_eq!((names(outside.root()), names(tree.root())), (1, 1));
        root.write("etc/c/new", b"new").expect("an absolute link starts at the root");
        assert_eq!(root.read("tmp/new").ok().as_deref(), Some("new"));
        std::os::unix::fs::symlink(outside.root().join("kept"), root.path().join("etc/file"))
            .expect("a link");
        root.write("etc/file", b"new").expect("the link is replaced, not followed");
        assert_eq!(std::fs::read(outside.root().join("kept")).expect("there"), b"");
        assert_eq!((root.remove("etc/file").ok(), root.remove("etc/file").ok()), (Some(true), Some(false)));
        assert!(root.make_folder("etc/n").is_ok() && root.make_folder("etc/n").is_ok());
        assert!(root.make_folder("etc/x").is_err() && root.remove_folder("etc/n").is_ok());
    }

    #[test]
    fn links_stay_in_the_root() {
        let tree = Tree::of(&[("etc/b", "inside"), ("var/x", "")]);
        let root = Root::new(tree.root());
        std::os::unix::fs::symlink("/etc/b", tree.root().join("etc/a")).expect("a link");
        std::os::unix::fs::symlink("/tmp", tree.root().join("etc/sysctl.d")).expect("a link");
        assert_eq!(root.read("/etc/a").ok().as_deref(), Some("inside"));
        assert_eq!(root.names("etc"), ["a", "b", "sysctl.d"]);
        assert_eq!(root.matching("/etc/*"), ["etc/a", "etc/b", "etc/sysctl.d"]);
        assert_eq!(
            (root.matching("etc/s*.d"), root.matching("x/*")),
            (vec!["etc/sysctl.d".to_owned()], vec![])
        );
        assert!(root.has("var/x") && !root.has("var/y") && root.names("none").is_empty());
    }
}
