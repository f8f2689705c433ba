//! A walk along a path below a folder, through symbolic links, name by name: what it ends at is what was judged, however the links change
//! meanwhile.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;

/// As many links as the kernel follows.
const MOST: usize = 40;

/// The end of a walk.
#[derive(Debug)]
pub struct Walked {
    /// A handle (`O_PATH`).
    pub handle: OwnedFd,
    /// Its real name.
    pub real: PathBuf,
    /// The folder that it is in, and its name there; `None`: it was reached by `..` or is `/`.
    parent: Option<(OwnedFd, Vec<u8>)>,
    /// The first link on the way whose owner is neither root nor the owner of what it leads to.
    pub foreign: Option<ForeignLink>,
    /// The first link.
    pub first: Option<PathBuf>,
}

/// A link that leads to what belongs to another user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignLink {
    /// The link.
    pub link: PathBuf,
    /// Its owner.
    pub owner: u32,
    /// Where it leads.
    pub target: PathBuf,
    /// The owner of that.
    pub target_owner: u32,
}

/// A link that leads out of a site's root and is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedLink {
    /// The link.
    pub link: PathBuf,
    /// Where the path leads.
    pub target: PathBuf,
    /// Why, if its owner is the reason.
    pub foreign: Option<ForeignLink>,
}

impl std::fmt::Display for RefusedLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let target = self.target.display();
        match &self.foreign {
            Some(ForeignLink { link, owner, target: leads_to, target_owner }) => write!(
                f,
                "the symbolic link {} (of user {owner}) leads to {} (of user {target_owner}) and is not followed",
                link.display(),
                leads_to.display()
            ),
            None => write!(
                f,
                "the symbolic link {} leads to {target}, which is hidden or outside of what files.symlinks allows, and is not followed",
                self.link.display()
            ),
        }
    }
}

/// What to do about a link that is not followed because of its owner.
pub const CURE: &str = "give link and target the same owner (chown -h), allow the folder to the site's scripts (php.folders), or set \
                        files.symlinks = \"follow\"";

/// Whether a link out of `root` may lead to where a walk has ended: it belongs to root or to the owner of that, or that is in one of
/// `folders`; and no name on the way there from the folders that the root is in begins with a dot, as `.git` does.
pub fn owner_agrees(root: &Path, walked: &Walked, folders: &[PathBuf]) -> bool {
    let common = root.components().zip(walked.real.components()).take_while(|(a, b)| a == b).count();
    let mut rest = walked.real.components().skip(common);
    let is_hidden = rest.any(|part| part.as_os_str().as_bytes().starts_with(b"."));
    let is_allowed = || folders.iter().any(|folder| walked.real.starts_with(folder));
    !is_hidden && (walked.foreign.is_none() || is_allowed())
}

/// Maximum number of names that [`refused_in`] looks at, and its depth.
const NAMES: usize = 5_000;
const DEPTH: usize = 4;

/// The links in a site's root that lead out of it and will not be followed; those near its top, as deployments make them. `by_owner`: as
/// [`owner_agrees`] says, else none may leave the root.
pub fn refused_in(root: &Path, folders: &[PathBuf], by_owner: bool) -> Vec<RefusedLink> {
    let Ok(real) = std::fs::canonicalize(root) else { return Vec::new() };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(handle) = openat(CWD, &real, flags, Mode::empty()) else { return Vec::new() };
    let folders: Vec<PathBuf> =
        folders.iter().filter_map(|folder| std::fs::canonicalize(folder).ok()).collect();
    let (mut found, mut left) = (Vec::new(), vec![(real.clone(), 0)]);
    let mut names = 0;
    while let Some((folder, depth)) = left.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            names += 1;
            if names > NAMES {
                return found;
            }
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth + 1 < DEPTH => left.push((path, depth + 1)),
                Ok(kind) if kind.is_symlink() => {
                    let Ok(below) = path.strip_prefix(&real) else { continue };
                    let Ok(walked) = walk(handle.as_fd(), &real, below.as_os_str().as_bytes()) else {
                        continue;
                    };
                    let is_followed = walked.real.starts_with(&real)
                        || (by_owner && owner_agrees(&real, &walked, &folders));
                    if !is_followed {
                        let Walked { real: target, foreign, .. } = walked;
                        found.push(RefusedLink { link: path, target, foreign: foreign.filter(|_| by_owner) });
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// Names that are left to go, and the link that they come from.
struct Leg {
    rest: Vec<Vec<u8>>,
    link: Option<(PathBuf, u32)>,
}

/// Walks along `path`, relative to `folder`, whose name without links is `real`.
///
/// # Errors
/// As `open` would report them.
pub fn walk(folder: BorrowedFd<'_>, real: &Path, path: &[u8]) -> Result<Walked, Errno> {
    let mut at = Walked {
        handle: openat(folder, ".", HANDLE | OFlags::DIRECTORY, Mode::empty())?,
        real: real.to_owned(),
        parent: None,
        foreign: None,
        first: None,
    };
    let mut legs = vec![Leg { rest: names(path), link: None }];
    let mut links = 0;
    while let Some(leg) = legs.last_mut() {
        let Some(name) = leg.rest.pop() else {
            if let Some((link, owner)) = legs.pop().and_then(|leg| leg.link) {
                at.judge(link, owner)?;
            }
            continue;
        };
        if let Some((target, link)) = at.step(name)? {
            links += 1;
            if links > MOST {
                return Err(Errno::LOOP);
            }
            at.first.get_or_insert_with(|| link.0.clone());
            if target.starts_with(b"/") {
                at.begin()?;
            }
            legs.push(Leg { rest: names(&target), link: Some(link) });
        }
    }
    Ok(at)
}

const HANDLE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Where a link leads, as it is written; the link, and its owner.
type Link = (Vec<u8>, (PathBuf, u32));

impl Walked {
    /// Opens what the walk has ended at.
    ///
    /// # Errors
    /// It can't be opened, or something else is there by now.
    pub fn open(self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let stat = fstat(&self.handle)?;
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if flags.contains(OFlags::DIRECTORY) && !is_folder {
            return Err(Errno::NOTDIR);
        }
        let Some((parent, name)) = self.parent.filter(|_| !flags.contains(OFlags::PATH) && !is_folder) else {
            return Ok(self.handle);
        };
        let file = openat(parent, &*name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        let opened = fstat(&file)?;
        if (opened.st_dev, opened.st_ino) == (stat.st_dev, stat.st_ino) {
            Ok(file)
        } else {
            Err(Errno::AGAIN)
        }
    }

    fn begin(&mut self) -> Result<(), Errno> {
        self.handle = openat(CWD, "/", HANDLE | OFlags::DIRECTORY, Mode::empty())?;
        (self.real, self.parent) = ("/".into(), None);
        Ok(())
    }

    /// Goes one name further, unless that is a link.
    fn step(&mut self, name: Vec<u8>) -> Result<Option<Link>, Errno> {
        if name == b".." {
            self.handle = openat(&self.handle, "..", HANDLE | OFlags::DIRECTORY, Mode::empty())?;
            self.real.pop();
            self.parent = None;
            return Ok(None);
        }
        let next = openat(&self.handle, &*name, HANDLE, Mode::empty())?;
        let stat = fstat(&next)?;
        let real = self.real.join(OsStr::from_bytes(&name));
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            let target = readlinkat(next, "", Vec::new())?.into_bytes();
            return Ok(Some((target, (real, stat.st_uid))));
        }
        let parent = std::mem::replace(&mut self.handle, next);
        (self.real, self.parent) = (real, Some((parent, name)));
        Ok(None)
    }

    /// Whether the link to where the walk now is belongs to root, or to the owner of that.
    fn judge(&mut self, link: PathBuf, owner: u32) -> Result<(), Errno> {
        let target_owner = fstat(self.handle.as_fd())?.st_uid;
        if owner != 0 && owner != target_owner {
            let target = self.real.clone();
            self.foreign.get_or_insert(ForeignLink { link, owner, target, target_owner });
        }
        Ok(())
    }
}

/// The names of a path, the last one first.
fn names(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.rev().map(<[u8]>::to_vec).collect()
}
