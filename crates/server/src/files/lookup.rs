//! Opens the file at a URL's path below a site's root; no path leads out of the root.
//!
//! The normal case is one `openat2` that refuses every symbolic link. If there is a link, `millrace_sys::links` walks
//! name by name, and what it ends at is judged: so the judged file is the opened one, however the links change
//! meanwhile. Kernels and sandboxes without `openat2` get a walk, directory by directory. A server that is root does all
//! this with the rights of the site's user.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hashbrown::HashSet;
use millrace_settings::plan::Symlinks;
use millrace_sys::links::{self, RefusedLink, Walked};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use millrace_base::site::Reach;

/// What identifies one state of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    /// Size, bytes.
    pub size: u64,
    /// Time of modification, nanoseconds since 1970.
    pub modified: i64,
    /// Last change of content, owner, permissions or links, nanoseconds since 1970. It can't be set back.
    pub changed: i64,
}

impl FileStamp {
    fn of(stat: &Stat) -> FileStamp {
        FileStamp {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size as u64,
            modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }

    #[cfg(test)]
    pub fn with_size(self, size: u64) -> FileStamp {
        FileStamp { size, ..self }
    }

    /// `Last-Modified`: whole seconds since 1970.
    pub fn modified_seconds(&self) -> u64 {
        u64::try_from(self.modified.div_euclid(NANOSECONDS)).unwrap_or(0)
    }

    /// Whether the file may change again without a change of this stamp, which was read at `wall` (nanoseconds since
    /// 1970): file systems count time in ticks of the kernel, some in seconds.
    pub fn is_fresh(&self, wall: i64) -> bool {
        let grain = if self.changed % NANOSECONDS == 0 { 2 * NANOSECONDS } else { NANOSECONDS / 50 };
        wall.saturating_sub(self.changed) < grain
    }
}

const NANOSECONDS: i64 = 1_000_000_000;

/// Local file systems that update a directory's time: ext2-4, XFS, Btrfs, tmpfs, overlayfs, F2FS (statfs(2)).
const LOCAL: [u32; 6] = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0xF2F5_2010];

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(NANOSECONDS).saturating_add(rest)
}

/// Why a lookup failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupFailure {
    /// Nothing is there, or it is not permitted, or not inside the root.
    Missing,
    /// The machine can't tell now: no descriptors, no memory, a failing disk.
    Unavailable,
    /// No descriptors are left.
    Descriptors,
}

impl From<Errno> for LookupFailure {
    fn from(errno: Errno) -> LookupFailure {
        match errno {
            Errno::MFILE | Errno::NFILE => LookupFailure::Descriptors,
            Errno::NOMEM | Errno::NOBUFS | Errno::IO | Errno::STALE | Errno::INTR | Errno::TIMEDOUT => {
                LookupFailure::Unavailable
            }
            _ => LookupFailure::Missing,
        }
    }
}

impl From<io::Error> for LookupFailure {
    fn from(error: io::Error) -> LookupFailure {
        Errno::from_io_error(&error).map_or(LookupFailure::Missing, LookupFailure::from)
    }
}

/// The result of a lookup.
#[derive(Debug)]
pub struct FoundPath {
    /// Readable after [`Root::open`], only a handle after [`Root::look`].
    pub file: File,
    /// Its state.
    pub stamp: FileStamp,
    /// File, directory or neither.
    pub kind: PathKind,
    /// Its real place, if a symbolic link was on the way: a path below the root, or, if links may leave it, an
    /// absolute path.
    pub target: Option<LinkTarget>,
}

/// The type of a path's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A pipe, a socket, a device.
    Other,
}

/// The target of a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkTarget {
    /// A path below the root, starting with `/`.
    Inside(Box<[u8]>),
    /// An absolute path.
    Outside(Box<[u8]>),
}

/// The directory from which a site's paths start, held open.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    device: u64,
    inode: u64,
    /// Its name without symbolic links.
    real: PathBuf,
    symlinks: Symlinks,
    reach: Reach,
    has_openat2: Cell<bool>,
    /// The last link that was not followed, until it is reported.
    refused: RefCell<Option<RefusedLink>>,
}

impl Root {
    /// Opens the directory `path`, which may itself be a symbolic link.
    ///
    /// # Errors
    /// It does not exist or is not a directory.
    pub fn open_at(path: &Path, symlinks: Symlinks, reach: &Reach) -> Result<Root, LookupFailure> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&directory)?;
        let real = std::fs::canonicalize(path)?;
        let root = Root {
            directory,
            device: stat.st_dev,
            inode: stat.st_ino,
            real,
            symlinks,
            reach: reach.clone(),
            has_openat2: Cell::new(true),
            refused: RefCell::default(),
        };
        // A link was changed between the two calls: the next attempt finds its final state.
        if root.is_still(&root.real)? { Ok(root) } else { Err(LookupFailure::Unavailable) }
    }

    /// Its name without symbolic links.
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// Whether `path` leads to the same directory as before.
    ///
    /// # Errors
    /// `path` leads nowhere now.
    pub fn is_still(&self, path: &Path) -> Result<bool, LookupFailure> {
        let stat = rustix::fs::stat(path)?;
        Ok(stat.st_dev == self.device && stat.st_ino == self.inode)
    }

    /// The state of the directory itself: it changes when a name is added or removed.
    ///
    /// # Errors
    /// The file system failed.
    pub fn stamp(&self) -> Result<FileStamp, LookupFailure> {
        Ok(FileStamp::of(&rustix::fs::fstat(&self.directory)?))
    }

    /// The names in the directory itself. `None` if there are more than `most`, or if a name outside of the list can
    /// still be found: the file system ignores case, or other machines can change it without changing the directory's
    /// time.
    ///
    /// # Errors
    /// The directory can't be read.
    pub fn names(&self, most: usize) -> Result<Option<HashSet<Box<[u8]>>>, LookupFailure> {
        let _rights = self.reach.enter()?;
        let kind = rustix::fs::fstatfs(&self.directory)?.f_type as u32;
        if !LOCAL.contains(&kind) {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.directory, ".", flags, Mode::empty())?;
        let mut names = HashSet::new();
        for entry in rustix::fs::Dir::new(directory)? {
            if names.len() > most {
                return Ok(None);
            }
            names.insert(entry?.file_name().to_bytes().into());
        }
        Ok(self.knows_case(&names).then_some(names))
    }

    /// Whether the file system distinguishes case; by trial.
    fn knows_case(&self, names: &HashSet<Box<[u8]>>) -> bool {
        let other = |name: &[u8]| -> Box<[u8]> {
            name.iter().map(|b| if b.is_ascii_alphabetic() { b ^ 0x20 } else { *b }).collect()
        };
        let trial = names.iter().map(|name| other(name)).find(|other| !names.contains(other));
        trial.is_none_or(|name| {
            rustix::fs::statat(&self.directory, &*name, AtFlags::SYMLINK_NOFOLLOW).is_err()
        })
    }

    /// Opens `path` (normalised, starting with `/`) for reading. A directory need not be readable.
    ///
    /// # Errors
    /// Nothing readable is there, or the machine can't tell now.
    pub fn open(&self, path: &[u8]) -> Result<FoundPath, LookupFailure> {
        // Opening a pipe for reading waits for a writer, a terminal would become this process's.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match self.resolve(path, flags) {
            Err(Errno::ACCESS) => match self.look(path)? {
                found if found.kind == PathKind::Directory => Ok(found),
                _ => Err(LookupFailure::Missing),
            },
            result => Ok(result?),
        }
    }

    /// Looks up `path` without opening it.
    ///
    /// # Errors
    /// As for [`Root::open`].
    pub fn look(&self, path: &[u8]) -> Result<FoundPath, LookupFailure> {
        Ok(self.resolve(path, OFlags::PATH | OFlags::CLOEXEC)?)
    }

    #[cfg(test)]
    pub fn forget_openat2(&self) {
        self.has_openat2.set(false);
    }

    fn resolve(&self, path: &[u8], flags: OFlags) -> Result<FoundPath, Errno> {
        let relative = path.strip_prefix(b"/").ok_or(Errno::INVAL)?;
        // `route` removes such paths; if one ever comes, this stops it.
        if relative.split(|b| *b == b'/').any(|segment| segment == b"..") {
            return Err(Errno::NOENT);
        }
        let _rights = self.reach.enter().map_err(errno_of)?;
        let found = match self.open_without_links(relative, flags) {
            Ok(file) => found(file, None),
            Err(Errno::LOOP) => self.through_links(relative, flags),
            Err(errno) => Err(errno),
        }?;
        // Another file system may be one that stores no files: /proc/kmsg is a regular file.
        if found.stamp.device != self.device && millrace_sys::check_storage(&found.file).is_err() {
            return Err(Errno::NOENT);
        }
        Ok(found)
    }

    fn through_links(&self, relative: &[u8], mut flags: OFlags) -> Result<FoundPath, Errno> {
        if relative.ends_with(b"/") {
            flags |= OFlags::DIRECTORY;
        }
        // If nothing is there, this takes one call instead of one for each part of the path.
        rustix::fs::statat(&self.directory, relative, AtFlags::empty())?;
        let walked = links::walk(self.directory.as_fd(), &self.real, relative)?;
        let target = match walked.real.strip_prefix(&self.real) {
            Ok(inside) => LinkTarget::Inside([b"/", inside.as_os_str().as_bytes()].concat().into()),
            Err(_) if self.may_lead_to(&walked) => {
                LinkTarget::Outside(walked.real.as_os_str().as_bytes().into())
            }
            Err(_) => {
                let Walked { first, real: target, foreign, .. } = walked;
                let foreign = foreign.filter(|_| self.symlinks == Symlinks::Owner);
                let refused = first.map(|link| RefusedLink { link, target, foreign });
                *self.refused.borrow_mut() = refused;
                return Err(Errno::XDEV);
            }
        };
        found(walked.open(flags)?, Some(target))
    }

    /// Whether a link may lead to this place outside of the root.
    fn may_lead_to(&self, walked: &Walked) -> bool {
        match self.symlinks {
            Symlinks::Inside => false,
            Symlinks::Follow => true,
            Symlinks::Owner => links::owner_agrees(&self.real, walked, self.reach.folders()),
        }
    }

    /// The last link that was not followed since the last call.
    pub fn refused(&self) -> Option<RefusedLink> {
        self.refused.take()
    }

    /// Opens a path relative to the root; `LOOP` if it goes through a symbolic link.
    fn open_without_links(&self, relative: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let name = if relative.is_empty() { b"." } else { relative };
        if self.has_openat2.get() {
            let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(&self.directory, name, flags, Mode::empty(), how) {
                // Missing in this kernel, or forbidden by a sandbox.
                Err(Errno::NOSYS | Errno::PERM) => self.has_openat2.set(false),
                result => return result,
            }
        }
        walk(self.directory.as_fd(), name, flags)
    }
}

/// Replaces `openat2` with `NO_SYMLINKS` on systems without it. `path` has no `..`.
fn walk(root: BorrowedFd<'_>, path: &[u8], mut flags: OFlags) -> Result<OwnedFd, Errno> {
    if path.ends_with(b"/") {
        flags |= OFlags::DIRECTORY;
    }
    let mut segments = path.split(|b| *b == b'/').filter(|s| !s.is_empty()).peekable();
    let mut at: Option<OwnedFd> = None;
    while let Some(segment) = segments.next() {
        let directory = at.as_ref().map_or(root, OwnedFd::as_fd);
        let flags = match segments.peek() {
            Some(_) => OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            None => flags,
        };
        let next = rustix::fs::openat(directory, segment, flags | OFlags::NOFOLLOW, Mode::empty());
        // A link shows in three ways: LOOP, NOTDIR if a directory was asked for, and as itself with PATH.
        if next.is_err() || flags.contains(OFlags::PATH) {
            let stat = rustix::fs::statat(directory, segment, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                return Err(Errno::LOOP);
            }
        }
        at = Some(next?);
    }
    match at {
        Some(file) => Ok(file),
        None => rustix::fs::openat(root, ".", flags, Mode::empty()),
    }
}

fn found(file: OwnedFd, target: Option<LinkTarget>) -> Result<FoundPath, Errno> {
    let stat = rustix::fs::fstat(&file)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => PathKind::File,
        FileType::Directory => PathKind::Directory,
        _ => PathKind::Other,
    };
    Ok(FoundPath { file: file.into(), stamp: FileStamp::of(&stat), kind, target })
}

/// The current state of an open file.
///
/// # Errors
/// The file system failed.
pub fn stamp_of(file: &File) -> Result<FileStamp, LookupFailure> {
    Ok(FileStamp::of(&rustix::fs::fstat(file)?))
}

fn errno_of(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::NOENT)
}
