//! Why pages can't be stored on disk.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use millrace_pages::record::Broken;

/// The folder of `cache.dir` or its contents can't be used. This error occurs at the start, which continues without
/// the folder or with an empty one, and when files of purges are merged, which is then not tried again. To cure it,
/// make room, grant access, or configure another folder.
#[derive(Debug)]
pub enum DiskError {
    /// The system refuses the operation.
    Cannot(String, io::Error),
    /// It is not a folder.
    NotFolder(PathBuf),
    /// It belongs to the user with this ID.
    OtherUser(PathBuf, u32),
    /// Other users may have written its contents.
    OpenToOthers(PathBuf),
    /// Another process has locked it.
    InUse(PathBuf),
    /// Neither the last server nor the machine shut down properly.
    NotEnded,
    /// This file of purges was changed after it was written.
    Damaged(PathBuf, Broken),
    /// This one can't be read.
    Unreadable(PathBuf, io::Error),
    /// The files can't be replaced by one.
    NotMerged(io::Error),
}

impl DiskError {
    /// For `map_err`: the operation `what` failed at `path`.
    pub fn cannot(what: &str, path: &Path) -> impl FnOnce(io::Error) -> DiskError {
        move |error| DiskError::Cannot(format!("{what} {}", path.display()), error)
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cannot(what, error) => write!(f, "cannot {what}: {error}"),
            Self::NotFolder(path) => write!(f, "{} is not a folder", path.display()),
            Self::OtherUser(path, user) => {
                write!(f, "{} belongs to another user (uid {user})", path.display())
            }
            Self::OpenToOthers(path) => {
                let shown = path.display();
                write!(f, "other users can write to {shown}: empty it, then run `chmod 700 {shown}`")
            }
            Self::InUse(path) => {
                write!(f, "another server is using {}: give each server its own folder", path.display())
            }
            Self::NotEnded => {
                f.write_str("the machine did not shut down properly, and purges may be missing")
            }
            Self::Damaged(path, broken) => write!(f, "{}: {broken:?}", path.display()),
            Self::Unreadable(path, error) => write!(f, "{}: {error}", path.display()),
            Self::NotMerged(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DiskError {}
