//! Whose rights a command uses in a folder of a site.
//!
//! A site's user can exchange names in its own folder at any moment: root that follows them, gives away what is root's. So
//! a command that root runs takes on the rights of the folder's owner first.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use millrace_sys::{Rights, rights_in};
use rustix::fs::OFlags;

use crate::failure::{Explain, Failure};

/// Largest file of a site that a command reads, bytes.
const LARGEST: u64 = 4 << 20;

/// Makes this process one of the folder's owner, and returns the name by which to use the folder.
///
/// # Errors
/// There is no such folder, or neither its owner nor root can be the one who acts there.
pub fn act_in(folder: &Path) -> Result<PathBuf, Failure> {
    let (real, rights) = of(folder)?;
    if let Some(rights) = rights {
        rights.adopt().or_fail(|| format!("cannot act as the owner of {}", real.display()))?;
    }
    Ok(real)
}

/// The folder's name without symbolic links, and the rights to take on in it, unless they are those of the caller.
///
/// # Errors
/// As for [`act_in`].
pub fn of(folder: &Path) -> Result<(PathBuf, Option<Rights>), Failure> {
    rights_in(folder).or_fail(|| format!("cannot use {}", folder.display()))
}

/// Opens a regular file; anything else, which could block or never end, is an error.
///
/// # Errors
/// It can't be opened, or is no file.
pub fn open_file(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

/// The content of a regular file.
///
/// # Errors
/// As for [`open_file`], or it is too large.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST { Err(io::Error::other("it is larger than 4 MB")) } else { Ok(bytes) }
}
