//! Millrace's PHP files that a worker runs before a site's script. They are part of the server's program. The server
//! writes them to a directory where PHP, which may run as another user, can read but not change them.
//!
//! While a directory is in use its server holds a lock on it: other servers, which may be in another container where they don't see
//! this one's process, remove only directories that nobody locks. If files vanish all the same, the server writes them again.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use millrace_settings::plan::Profile;
use rustix::fs::{FlockOperation, OFlags, flock};

use super::start_error::PhpStartError;

/// Files of `php/inject`, each with its name there.
macro_rules! files {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../../../php/inject/", $name)))),*] };
}

/// The first one is run; it includes the others.
const WORDPRESS: &[(&str, &str)] = files![
    "wordpress.php"
    "wordpress/bar.php"
    "wordpress/cart.php"
    "wordpress/changes.php"
    "wordpress/hooks.php"
    "wordpress/kind.php"
    "wordpress/location.php"
    "wordpress/member.php"
    "wordpress/network.php"
    "wordpress/objects.php"
    "wordpress/options.php"
    "wordpress/others.php"
    "wordpress/page.php"
    "wordpress/people.php"
    "wordpress/posts.php"
    "wordpress/rest.php"
    "wordpress/rewind.php"
    "wordpress/rewound-network.php"
    "wordpress/rewound-shop.php"
    "wordpress/shop.php"
    "wordpress/shown.php"
    "wordpress/site.php"
    "wordpress/sql.php"
    "wordpress/tables.php"
    "wordpress/tags.php"
    "wordpress/visitor.php"
    "wordpress/written.php"
];
const PREFIX: &str = "millrace-php-";

/// Its directory of the others.
const BELOW: &str = "wordpress";

/// The injected files on disk. Dropping this value removes them.
#[derive(Debug)]
pub struct Injected {
    directory: PathBuf,
    wordpress: PathBuf,
    held: Mutex<Held>,
}

/// The directory as this server has written it.
#[derive(Debug)]
struct Held {
    /// Locked.
    _lock: File,
    /// Inode and time of change of the two directories: other ones if a file has come or gone.
    marks: [Option<(u64, i64, i64)>; 2],
}

impl Injected {
    /// Writes the files to a new directory.
    ///
    /// # Errors
    /// The directories where this is not possible, and what to do.
    pub fn write() -> Result<Arc<Injected>, PhpStartError> {
        let mut problems = Vec::new();
        for base in bases() {
            match Injected::write_below(&base) {
                Ok(injected) => return Ok(Arc::new(injected)),
                Err(error) => problems.push((base, error)),
            }
        }
        Err(PhpStartError::Files(problems))
    }

    fn write_below(base: &Path) -> io::Result<Injected> {
        remove_stale(base);
        let (directory, lock) = new_directory(base)?;
        let wordpress = directory.join(WORDPRESS[0].0);
        let held = Mutex::new(Held { _lock: lock, marks: [None; 2] });
        let injected = Injected { directory, wordpress, held };
        injected.mend()?;
        Ok(injected)
    }

    /// Writes the files again if any of them has gone; returns whether that was necessary.
    ///
    /// # Errors
    /// The directory has gone, and another user has made one of that name; or as the system says.
    pub fn mend(&self) -> io::Result<bool> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.marks[0].is_some() && held.marks == self.marks() {
            return Ok(false);
        }
        if let Some(lock) = make_again(&self.directory)? {
            held._lock = lock;
        }
        make_again(&self.directory.join(BELOW))?;
        for (name, text) in WORDPRESS {
            write_file(&self.directory.join(name), text)?;
        }
        held.marks = self.marks();
        Ok(true)
    }

    fn marks(&self) -> [Option<(u64, i64, i64)>; 2] {
        let mark = |path: &Path| {
            let data = fs::symlink_metadata(path).ok()?;
            Some((data.ino(), data.ctime(), data.ctime_nsec()))
        };
        [mark(&self.directory), mark(&self.directory.join(BELOW))]
    }

    /// The path of the file for an application.
    pub fn path(&self, profile: Profile) -> Option<&[u8]> {
        match profile {
            Profile::WordPress => Some(self.wordpress.as_os_str().as_bytes()),
            _ => None,
        }
    }

    /// The directory of the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Removes the files.
    pub fn remove(&self) {
        remove_files(&self.directory);
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Possible parent directories: systemd's directory for the service, directories that last until the machine's or the
/// user's session ends - a temporary directory is cleaned after some days - and finally the temporary directory.
fn bases() -> Vec<PathBuf> {
    let mut bases: Vec<PathBuf> =
        std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from).into_iter().collect();
    if rustix::process::geteuid().is_root() {
        bases.push("/run".into());
    } else {
        // Closed to other users, but then PHP runs as the same user.
        bases.extend(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    }
    bases.push(std::env::temp_dir());
    bases.retain(|base| base.is_absolute());
    bases
}

/// Creates a directory that did not exist, and locks it: in a shared temporary directory, an existing one may belong to an attacker.
fn new_directory(base: &Path) -> io::Result<(PathBuf, File)> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match fs::DirBuilder::new().mode(0o755).create(&path) {
            Ok(()) => (),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => continue,
            Err(error) => return Err(error),
        }
        // Another server may have taken it for a stale one in between, and removed it.
        match open_directory(&path)
            .and_then(|lock| flock(&lock, FlockOperation::LockShared).map(|()| lock).map_err(io::Error::from))
        {
            Ok(lock) if is_at(&lock, &path) => {
                open_to_all(&path)?;
                return Ok((path, lock));
            }
            Ok(_) => (),
            Err(error) if error.kind() == io::ErrorKind::NotFound && number < 10_000 => (),
            Err(error) => return Err(error),
        }
    }
}

/// Makes a directory of ours if it has gone; returns its lock if so.
fn make_again(path: &Path) -> io::Result<Option<File>> {
    match fs::DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => {
            let lock = open_directory(path)?;
            flock(&lock, FlockOperation::LockShared)?;
            open_to_all(path)?;
            Ok(Some(lock))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let data = open_directory(path)?.metadata()?;
            let mine = data.uid() == rustix::process::geteuid().as_raw() && data.mode() & 0o022 == 0;
            mine.then_some(None).ok_or_else(|| {
                io::Error::new(io::ErrorKind::PermissionDenied, "another user can write to it")
            })
        }
        Err(error) => Err(error),
    }
}

/// The umask may have removed rights that the PHP user needs.
fn open_to_all(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}

fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Whether a path still leads to an open directory.
fn is_at(open: &File, path: &Path) -> bool {
    match (open.metadata(), fs::symlink_metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Writes a file that appears as a whole: PHP may be reading it.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    fs::rename(&new, path)
}

/// Removes one of our directories with our files; a directory with other files stays.
fn remove_files(directory: &Path) {
    for (name, _) in WORDPRESS {
        let _ = fs::remove_file(directory.join(name));
    }
    let _ = fs::remove_dir(directory.join(BELOW));
    let _ = fs::remove_dir(directory);
}

/// Removes the directories of servers that were killed: nobody locks them.
fn remove_stale(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let me = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let is_named = entry.file_name().to_str().is_some_and(is_name);
        let Some(directory) = is_named.then(|| open_directory(&entry.path()).ok()).flatten() else {
            continue;
        };
        let mine = directory.metadata().is_ok_and(|data| data.uid() == me);
        if mine && flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove_files(&entry.path());
        }
    }
}

/// Whether a directory has a name that [`new_directory`] gives.
fn is_name(name: &str) -> bool {
    let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(pid, number)| pid.parse::<u32>().is_ok() && number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_readable_and_go_with_the_value() {
        let injected = Injected::write().unwrap();
        let path =
            Path::new(std::ffi::OsStr::from_bytes(injected.path(Profile::WordPress).unwrap())).to_owned();
        assert_eq!(fs::read_to_string(&path).unwrap(), WORDPRESS[0].1);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o755);
        let beside = path.parent().unwrap().join("wordpress");
        assert_eq!(fs::metadata(&beside).unwrap().mode() & 0o777, 0o755);
        assert_eq!(fs::metadata(beside.join("hooks.php")).unwrap().mode() & 0o777, 0o644);
        assert_eq!(injected.path(Profile::Generic), None);
        let other = Injected::write().unwrap();
        assert_ne!(injected.path(Profile::WordPress), other.path(Profile::WordPress));
        drop(injected);
        assert!(!path.exists() && !path.parent().unwrap().exists());
    }

    /// The files that the first one includes are present, and there are no others.
    #[test]
    fn all_files_are_known() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../php/inject");
        let mut names = vec!["wordpress.php".to_owned()];
        for entry in fs::read_dir(directory.join("wordpress")).unwrap() {
            names.push(format!("wordpress/{}", entry.unwrap().file_name().to_str().unwrap()));
        }
        names[1..].sort();
        assert_eq!(names, WORDPRESS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        let missing = |name: &&String| !WORDPRESS[0].1.contains(&format!("'/{name}'"));
        assert_eq!(names[1..].iter().find(missing), None, "not taken in");
    }

    /// A directory for the directories, gone with the value.
    struct Base(PathBuf);

    impl Base {
        fn new(name: &str) -> Base {
            let path = std::env::temp_dir().join(format!("millrace-inject-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Base(path)
        }
    }

    impl Drop for Base {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Whoever holds the lock lives, whatever process id the directory names: a server in another container has ids of its own.
    #[test]
    fn only_what_nobody_locks_is_removed() {
        let base = Base::new("stale");
        // No process has this ID: it is above the kernel's limit.
        let stale = base.0.join(format!("{PREFIX}4194999-0"));
        fs::create_dir(&stale).unwrap();
        fs::write(stale.join("wordpress.php"), "old").unwrap();
        let alive = Injected::write_below(&base.0).unwrap();
        assert!(!stale.exists());
        let elsewhere = base.0.join(format!("{PREFIX}4194998-0"));
        fs::rename(&alive.directory, &elsewhere).unwrap();
        drop(Injected::write_below(&base.0).unwrap());
        assert!(elsewhere.join("wordpress/hooks.php").exists(), "a living server's hooks are removed");
        drop(alive);
        remove_stale(&base.0);
        assert!(!elsewhere.exists());
        // This process's own id proves nothing either: it may be that of a dead server, as in a container that is started again.
        let own = base.0.join(format!("{PREFIX}{}-77", std::process::id()));
        fs::create_dir(&own).unwrap();
        for other in ["other", "millrace-php-x-1", "millrace-php-1-1.d"] {
            fs::create_dir(base.0.join(other)).unwrap();
        }
        remove_stale(&base.0);
        assert!(!own.exists());
        assert_eq!(fs::read_dir(&base.0).unwrap().count(), 3, "names that are not ours");
    }

    #[test]
    fn what_vanishes_is_written_again() {
        let base = Base::new("vanish");
        let injected = Injected::write_below(&base.0).unwrap();
        let whole = || {
            WORDPRESS.iter().all(|(name, text)| {
                fs::read_to_string(injected.directory.join(name)).is_ok_and(|found| found == *text)
            })
        };
        assert!(whole() && !injected.mend().unwrap(), "nothing is missing");
        fs::remove_file(&injected.wordpress).unwrap();
        assert!(injected.mend().unwrap() && whole());
        fs::remove_file(injected.directory.join("wordpress/hooks.php")).unwrap();
        assert!(injected.mend().unwrap() && whole());
        fs::remove_dir_all(&injected.directory).unwrap();
        assert!(injected.mend().unwrap() && whole() && !injected.mend().unwrap());
        // The new directory is locked, too.
        remove_stale(&base.0);
        assert!(whole());
        // Another's directory is not trusted.
        fs::remove_dir_all(&injected.directory).unwrap();
        fs::create_dir(&injected.directory).unwrap();
        fs::set_permissions(&injected.directory, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(injected.mend().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn says_what_to_do() {
        let error = Injected::write_below(Path::new("/nowhere")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
