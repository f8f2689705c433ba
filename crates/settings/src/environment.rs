//! The environment of a configuration: the machine, the user, the disk. It is a parameter, so that tests of defaults and
//! checks don't depend on the machine.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::certificates::CertificateReader;

/// The machine and the user that a plan is made for.
#[derive(Clone)]
pub struct Environment<'a> {
    /// Cores the process may use.
    pub cores: usize,
    /// Memory the process may use, bytes.
    pub memory: u64,
    /// Effective user id.
    pub uid: u32,
    /// `$XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// `$XDG_CACHE_HOME`, or `.cache` in the user's home.
    pub cache_dir: Option<PathBuf>,
    /// `$XDG_DATA_HOME`, or `.local/share` in the user's home.
    pub data_dir: Option<PathBuf>,
    /// Where relative paths of the command line start.
    pub current_dir: PathBuf,
    /// The process's environment variables that are UTF-8.
    pub variables: Vec<(String, String)>,
    /// Files and directories.
    pub disk: &'a dyn Disk,
    /// What looks into the files of certificates; `None`: nothing does, and only their existence is checked.
    pub certificates: Option<&'a dyn CertificateReader>,
    /// The time.
    pub now: SystemTime,
}

/// Access to the disk.
pub trait Disk {
    /// Returns what is at `path`, following links.
    fn look(&self, path: &Path) -> Found;
    /// The text of a regular file, of at most 4 MB. Its owner may be a site's, so it is never waited for.
    ///
    /// # Errors
    /// The errors of reading a file; [`io::ErrorKind::InvalidData`] if it is not UTF-8.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// The same for a list of many lines, of at most 64 MB.
    ///
    /// # Errors
    /// As [`Disk::read`].
    fn read_list(&self, path: &Path) -> io::Result<String> {
        self.read(path)
    }
    /// The text of a configuration: whoever starts Millrace names it, and it may be a pipe (`--config <(command)`).
    ///
    /// # Errors
    /// As [`Disk::read`].
    fn read_config(&self, path: &Path) -> io::Result<String> {
        self.read(path)
    }
    /// The path without links and `..`, if it exists.
    fn real(&self, path: &Path) -> Option<PathBuf>;
    /// How long ago a file was changed, if that is known.
    fn age(&self, path: &Path) -> Option<Duration> {
        let _ = path;
        None
    }
}

/// Answer of [`Disk::look`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Something else: a device, a socket.
    Other,
    /// Nothing.
    Nothing,
    /// The user has no permission to see it.
    Denied,
}

impl Environment<'static> {
    /// This machine, as the process may use it.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: memory(),
            uid: rustix::process::geteuid().as_raw(),
            runtime_dir: folder_named_by("XDG_RUNTIME_DIR"),
            cache_dir: folder_named_by("XDG_CACHE_HOME")
                .or_else(|| folder_named_by("HOME").map(|home| home.join(".cache"))),
            data_dir: folder_named_by("XDG_DATA_HOME")
                .or_else(|| folder_named_by("HOME").map(|home| home.join(".local/share"))),
            current_dir: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            variables: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            disk: &RealDisk,
            certificates: None,
            now: SystemTime::now(),
        }
    }
}

/// An absolute path in an environment variable (XDG Base Directory Specification: relative ones are to be ignored).
fn folder_named_by(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|dir| dir.is_absolute())
}

impl Environment<'_> {
    /// Whether the process may change its user, own low ports and so on.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether `file` (/etc/passwd, /etc/group) has the account by name or number; `None` if it can't be read.
    pub(crate) fn has_account(&self, file: &str, name: &str) -> Option<bool> {
        let text = self.disk.read(Path::new(file)).ok()?;
        let columns = |line: &str| line.split(':').step_by(2).take(2).any(|column| column == name);
        Some(text.lines().any(columns))
    }

    /// Name of the user with this id, from /etc/passwd.
    pub(crate) fn user_name(&self) -> Option<String> {
        let passwd = self.disk.read(Path::new("/etc/passwd")).ok()?;
        passwd.lines().find_map(|line| {
            let mut columns = line.split(':');
            let name = columns.next()?;
            (columns.nth(1)?.parse() == Ok(self.uid)).then(|| name.to_owned())
        })
    }
}

/// Largest list of redirects, networks or countries, bytes.
const LARGEST_LIST: u64 = 64 << 20;

/// The file system.
struct RealDisk;

impl Disk for RealDisk {
    fn look(&self, path: &Path) -> Found {
        match std::fs::metadata(path) {
            Ok(data) if data.is_dir() => Found::Directory,
            Ok(data) if data.is_file() => Found::File,
            Ok(_) => Found::Other,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Found::Denied,
            Err(_) => Found::Nothing,
        }
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        millrace_sys::read_regular_text(path, millrace_sys::LARGEST_CONFIGURATION)
    }

    fn read_list(&self, path: &Path) -> io::Result<String> {
        millrace_sys::read_regular_text(path, LARGEST_LIST)
    }

    fn read_config(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn real(&self, path: &Path) -> Option<PathBuf> {
        std::fs::canonicalize(path).ok()
    }

    fn age(&self, path: &Path) -> Option<Duration> {
        std::fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()
    }
}

/// The machine's memory, or the lowest limit of the process's cgroup and its ancestors, bytes.
fn memory() -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let machine = read(Path::new("/proc/meminfo"))
        .and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        })
        .map_or(u64::from(u32::MAX), |kilobytes| kilobytes * 1024);
    let own = read(Path::new("/proc/self/cgroup"))
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::/")).map(str::to_owned))
        .unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let own = root.join(own.trim());
    own.ancestors()
        .take_while(|dir| dir.starts_with(root))
        .filter_map(|dir| read(&dir.join("memory.max"))?.trim().parse().ok())
        .fold(machine, u64::min)
}

#[cfg(test)]
pub(crate) mod fake {
    //! A disk and a machine made of values.

    use std::collections::BTreeMap;

    use super::{Disk, Duration, Environment, Found, Path, PathBuf, SystemTime, io};

    /// Files by path; a path ending in `/` is an empty directory; directories of files exist implicitly.
    #[derive(Default)]
    pub(crate) struct FakeDisk {
        files: BTreeMap<PathBuf, String>,
        folders: Vec<PathBuf>,
        /// Of every file.
        pub(crate) age: Option<Duration>,
    }

    impl FakeDisk {
        /// A disk with these files.
        pub(crate) fn with(entries: &[(&str, &str)]) -> Self {
            let mut disk = Self::default();
            for (path, text) in entries {
                if path.ends_with('/') {
                    disk.folders.push(PathBuf::from(path));
                } else {
                    disk.files.insert(PathBuf::from(path), (*text).to_owned());
                }
            }
            disk
        }

        /// A 4-core machine with 8 GB and an ordinary user in `/home/ann`.
        pub(crate) fn machine(&self) -> Environment<'_> {
            Environment {
                variables: vec![("WORDPRESS_DB_NAME".to_owned(), "blog".to_owned())],
                cores: 4,
                memory: 8 << 30,
                uid: 1000,
                runtime_dir: Some(PathBuf::from("/run/user/1000")),
                cache_dir: Some(PathBuf::from("/home/ann/.cache")),
                data_dir: Some(PathBuf::from("/home/ann/.local/share")),
                current_dir: PathBuf::from("/home/ann"),
                disk: self,
                certificates: None,
                now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
            }
        }
    }

    impl Disk for FakeDisk {
        fn look(&self, path: &Path) -> Found {
            let Some(path) = self.real(path) else { return Found::Nothing };
            if self.files.contains_key(&path) { Found::File } else { Found::Directory }
        }

        fn read(&self, path: &Path) -> io::Result<String> {
            self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
        }

        fn age(&self, _: &Path) -> Option<Duration> {
            self.age
        }

        fn real(&self, path: &Path) -> Option<PathBuf> {
            let mut real = PathBuf::new();
            for part in path.components() {
                match part {
                    std::path::Component::ParentDir => drop(real.pop()),
                    std::path::Component::CurDir => {}
                    part => real.push(part),
                }
            }
            let all = self.files.keys().chain(&self.folders);
            all.clone().any(|known| known.starts_with(&real)).then_some(real)
        }
    }
}
