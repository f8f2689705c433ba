//! Why pages don't outlive the process.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use millrace_pages::record::Broken;

/// The folder of `cache.dir` can't be used, or not what is in it. It occurs at a start, which goes on without the folder or with an empty
/// one, and when files of purges are merged, which is tried no more then. The user makes room or rights there, or names another folder.
#[derive(Debug)]
pub enum DiskError {
    /// The system refuses to do that.
    Cannot(String, io::Error),
    /// It is something else than a folder.
    NotFolder(PathBuf),
    /// It belongs to the user of that number.
    OtherUser(PathBuf, u32),
    /// Others may have written what is in it.
    OpenToOthers(PathBuf),
    /// Another process has locked it.
    InUse(PathBuf),
    /// The last server did not end well, nor did the machine.
    NotEnded,
    /// This file of purges was changed after it was written.
    Damaged(PathBuf, Broken),
    /// This one can't be read.
    Unreadable(PathBuf, io::Error),
    /// They can't be replaced by one file.
    NotMerged(io::Error),
}

impl DiskError {
    /// For `map_err`: that can't be done at `path`.
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
