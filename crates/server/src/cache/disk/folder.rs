//! The folder: its ownership, its contents, and the state in which the last server left it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};

use super::error::DiskError;
use super::files::{Files, PurgeFile, Segment};

/// The folder, which this process owns.
#[derive(Debug)]
pub struct DiskFolder {
    path: PathBuf,
    /// Identifies the boot of the machine; empty if unknown.
    boot: String,
}

/// How long a start waits for the lock, if another server uses the folder.
const LOCK_PATIENCE: Duration = Duration::from_millis(100);

/// Suffixes of file names by type of contents.
const SEGMENT: &str = "pages";
const PURGES: &str = "purges";
const LOCK: &str = "lock";
const STATE: &str = "state";
/// Numbers of files are lower.
const NUMBERS: u64 = 1 << 48;
/// Suffix of unfinished files.
const UNFINISHED: &str = ".new";

impl DiskFolder {
    /// Creates the folder if it does not exist, checks that no other user can write to it, and locks it for the life of
    /// the returned file.
    ///
    /// # Errors
    /// The folder can't be created or read, another server uses it, or other users could change it.
    pub fn open(path: &Path) -> Result<(DiskFolder, File), DiskError> {
        millrace_sys::is_only_ours(path).map_err(DiskError::cannot("use", path))?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(DiskError::cannot("create", parent))?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(DiskError::cannot("create", path)(error));
            }
            _ => {}
        }
        let about = fs::metadata(path).map_err(DiskError::cannot("access", path))?;
        if !about.is_dir() {
            return Err(DiskError::NotFolder(path.to_owned()));
        }
        if about.uid() != rustix::process::geteuid().as_raw() {
            return Err(DiskError::OtherUser(path.to_owned(), about.uid()));
        }
        if about.mode() & 0o077 != 0 {
            // Contents from other users would be sent to all clients.
            let harmless =
                about.mode() & 0o022 == 0 || fs::read_dir(path).is_ok_and(|mut any| any.next().is_none());
            if !harmless {
                return Err(DiskError::OpenToOthers(path.to_owned()));
            }
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))
                .map_err(DiskError::cannot("change the mode of", path))?;
        }
        let lock = DiskFolder::lock(path)?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Ok((DiskFolder { path: path.to_owned(), boot: boot.trim().to_owned() }, lock))
    }

    fn lock(path: &Path) -> Result<File, DiskError> {
        let name = path.join(LOCK);
        let file = private().write(true).create(true).truncate(false).open(&name);
        let file = file.map_err(DiskError::cannot("open", &name))?;
        let began = Instant::now();
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                // A child of a server that has just died holds its descriptors until it executes its program.
                Err(rustix::io::Errno::WOULDBLOCK) if began.elapsed() < LOCK_PATIENCE => {
                    thread::sleep(LOCK_PATIENCE / 20);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(DiskError::InUse(path.to_owned()));
                }
                Err(error) => return Err(DiskError::cannot("lock", &name)(error.into())),
            }
        }
    }

    /// Releases the folder. Closing the file would not be enough if a child has just been forked.
    pub fn unlock(lock: &File) {
        let _ = rustix::fs::flock(lock, FlockOperation::Unlock);
    }

    /// The folder's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lists the files. Removes unfinished ones, and passes over those that no server has written.
    pub fn list(&self) -> io::Result<Files> {
        let mut files = Files { next: 1, ..Files::default() };
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.ends_with(UNFINISHED) {
                let _ = fs::remove_file(entry.path());
                continue;
            }
            let Some((number, holds)) = name.split_once('.').and_then(|(number, holds)| {
                Some((u64::from_str_radix(number, 16).ok().filter(|known| is_name(number, *known))?, holds))
            }) else {
                continue;
            };
            let bytes = entry.metadata().map_or(0, |about| about.len());
            match holds {
                SEGMENT => files.segments.push_back(Segment { number, bytes, floor: 0 }),
                PURGES => files.purges.push_back(PurgeFile { number, bytes }),
                _ => continue,
            }
            files.next = files.next.max(number.saturating_add(1));
        }
        files.segments.make_contiguous().sort_by_key(|segment| segment.number);
        files.purges.make_contiguous().sort_by_key(|file| file.number);
        Ok(files)
    }

    /// Path of the segment with this number.
    pub fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016x}.{SEGMENT}"))
    }

    /// Path of the purges with this number.
    pub fn purges(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016x}.{PURGES}"))
    }

    /// Whether everything that the last server wrote must be here: it shut down properly, or the machine has not been
    /// restarted since.
    pub fn is_whole(&self) -> bool {
        let state = fs::read_to_string(self.path.join(STATE)).unwrap_or_default();
        match state.trim().split_once(' ') {
            Some((_, "ended")) => true,
            Some((boot, "running")) => !boot.is_empty() && boot == self.boot,
            _ => false,
        }
    }

    /// Notes that a server runs, or that it has shut down properly. Synced to disk when this returns.
    pub fn note(&self, ended: bool) -> io::Result<()> {
        let path = self.path.join(STATE);
        let word = if ended { "ended" } else { "running" };
        let state = format!("{} {word}\n", if self.boot.is_empty() { "-" } else { &self.boot });
        if fs::read(&path).is_ok_and(|old| old == state.as_bytes()) {
            return Ok(());
        }
        let replaced = self.replace(&path, state.as_bytes()).and_then(|file| {
            file.sync_all()?;
            self.sync()
        });
        match replaced {
            // There is no room, but the note of the proper shutdown can be removed: then it looks like a crash.
            Err(error) if !ended => match fs::remove_file(&path) {
                Err(missing) if missing.kind() != io::ErrorKind::NotFound => Err(error),
                _ => self.sync(),
            },
            result => result,
        }
    }

    /// Replaces a file: a reader sees either all of the old or all of the new contents. That is true for later
    /// processes too, but the disk itself may get the changes in any order.
    pub fn replace(&self, path: &Path, contents: &[u8]) -> io::Result<File> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(UNFINISHED);
        let mut file = private().write(true).create(true).truncate(true).open(&unfinished)?;
        file.write_all(contents)?;
        fs::rename(&unfinished, path)?;
        Ok(file)
    }

    /// Syncs the names in the folder to disk, not the contents.
    pub fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

/// Whether a server names a file so that has this number. None ever writes as many files as [`NUMBERS`]: after such a name there
/// would be none left for the next file.
fn is_name(name: &str, number: u64) -> bool {
    number < NUMBERS && name == format!("{number:016x}")
}

/// Options to open files here: private, and never through a link.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options
}
