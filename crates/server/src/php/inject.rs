//! Millrace's PHP files that a worker runs before a site's script. They are part of the server's program. The server
//! writes them to a directory where PHP, which may run as another user, can read but not change them.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use millrace_settings::plan::Profile;

use super::start_error::PhpStartError;

/// Files of `php/inject`, each with its name there.
macro_rules! files {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../../../../php/inject/", $name)))),*] };
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

/// The injected files on disk. Dropping this value removes them.
#[derive(Debug)]
pub struct Injected {
    directory: PathBuf,
    wordpress: PathBuf,
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
        let directory = new_directory(base)?;
        let injected = Injected { wordpress: directory.join(WORDPRESS[0].0), directory };
        for (name, text) in WORDPRESS {
            let path = injected.directory.join(name);
            let directory = path.parent().unwrap_or(&injected.directory);
            if !directory.exists() {
                fs::DirBuilder::new().mode(0o755).create(directory)?;
            }
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
            io::Write::write_all(&mut file, text.as_bytes())?;
            // The umask may have removed rights that the PHP user needs.
            file.set_permissions(fs::Permissions::from_mode(0o644))?;
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
        }
        Ok(injected)
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

/// Creates a directory that did not exist: in a shared temporary directory, an existing one may belong to an attacker.
fn new_directory(base: &Path) -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match fs::DirBuilder::new().mode(0o755).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => (),
            Err(error) => return Err(error),
        }
    }
}

/// Removes one of our directories with our files; a directory with other files stays.
fn remove_files(directory: &Path) {
    for (name, _) in WORDPRESS {
        let _ = fs::remove_file(directory.join(name));
    }
    let _ = fs::remove_dir(directory.join("wordpress"));
    let _ = fs::remove_dir(directory);
}

/// Removes the directories of servers that were killed.
fn remove_stale(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let me = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        let mine = entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == me);
        if mine && !Path::new("/proc").join(pid.to_string()).exists() {
            remove_files(&entry.path());
        }
    }
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

    #[test]
    fn leftovers_of_the_dead_are_removed() {
        let base = std::env::temp_dir().join(format!("millrace-inject-test-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        // No process has this ID: it is above the kernel's limit.
        let stale = base.join(format!("{PREFIX}4194999-0"));
        fs::create_dir(&stale).unwrap();
        fs::write(stale.join("wordpress.php"), "old").unwrap();
        let kept = base.join(format!("{PREFIX}{}-77", std::process::id()));
        fs::create_dir(&kept).unwrap();
        drop(Injected::write_below(&base).unwrap());
        assert!(!stale.exists() && kept.exists());
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn says_what_to_do() {
        let error = Injected::write_below(Path::new("/nowhere")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
