//! The folder with account, keys and certificates. Files are private to the server (0600 in a folder of 0700), and a
//! reader sees either all of the old or all of the new contents, even after a crash of the machine.
//!
//! ```text
//!  dir/AUTHORITY/account.json     our account there, with the key
//!                NAME.pem         key, certificate and chain of the site with this first name
//!                NAME.pending     an order under way: its URL, its names, the key
//!                NAME.retry       how often orders have failed, and when the next may be made
//!                lock             held by the server that orders; servers may share the folder
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use millrace_settings::plan;
use rustix::fs::{FlockOperation, OFlags};

use super::failure::{AcmeFailure, Cause};

/// The folder of one authority.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The store for the settings' authority; `None`: they name no folder.
    pub fn of(acme: &plan::Acme) -> Option<Store> {
        Some(Store { folder: acme.dir.as_ref()?.join(folder_name(&acme.directory)) })
    }

    /// A store in this folder.
    #[cfg(test)]
    pub fn for_tests(folder: PathBuf) -> Store {
        Store { folder }
    }

    /// Creates the folder and checks that it is writable, before a certificate is ordered that would be lost.
    ///
    /// # Errors
    /// The error with advice.
    pub fn prepare(&self) -> Result<(), AcmeFailure> {
        let probe = || {
            millrace_sys::is_only_ours(&self.folder)?;
            DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
            if fs::metadata(&self.folder)?.permissions().mode() & 0o077 != 0 {
                fs::set_permissions(&self.folder, Permissions::from_mode(0o700))?;
            }
            // As large as the real files: on a full disk a file can be created, but not filled.
            self.replace("probe", &[b'\n'; 16 << 10])?;
            fs::remove_file(self.folder.join("probe"))
        };
        probe().map_err(|error| self.cannot("write to", &error))
    }

    /// Prevents other servers that share the folder from ordering at the same time, until the returned value is
    /// dropped.
    ///
    /// # Errors
    /// Another server holds the lock.
    pub fn lock(&self) -> Result<File, AcmeFailure> {
        let file =
            private_file(&self.folder.join("lock")).map_err(|error| self.cannot("write to", &error))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(_) => Err(AcmeFailure::new(
                Cause::Disk,
                format!("another server is obtaining certificates in {}", self.folder.display()),
            )),
        }
    }

    /// Reads the file with this name; `None`: there is none.
    ///
    /// # Errors
    /// The error with advice.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, AcmeFailure> {
        match fs::read(self.folder.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.cannot("read", &error)),
        }
    }

    /// Replaces a file. It is on disk when this returns.
    ///
    /// # Errors
    /// The error with advice; the old file remains.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), AcmeFailure> {
        self.replace(name, bytes).map_err(|error| self.cannot("write to", &error))
    }

    /// Removes a file that is no longer needed. Failure is harmless.
    pub fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.folder.join(name));
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let unfinished = self.folder.join(format!(".{name}.new"));
        let written = private_file(&unfinished).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        if let Err(error) = written {
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        fs::rename(&unfinished, self.folder.join(name))?;
        File::open(&self.folder)?.sync_all()
    }

    fn cannot(&self, what: &str, error: &io::Error) -> AcmeFailure {
        let cure = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there",
            io::ErrorKind::PermissionDenied => {
                "give the server's user read and write permission (chown), or set acme.dir"
            }
            io::ErrorKind::ReadOnlyFilesystem => "set acme.dir to a writable folder",
            _ => "fix this, or set acme.dir to another folder",
        };
        let text = format!(
            "cannot {what} {}, where certificates are stored: {error}; {cure}",
            self.folder.display()
        );
        AcmeFailure::new(Cause::Disk, text)
    }
}

/// Private from its creation on, and never through a link.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

/// `acme-v02.api.letsencrypt.org-directory` for the directory with that URL.
fn folder_name(directory: &str) -> String {
    let text = directory.trim_start_matches("https://").trim_matches('/');
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '-' };
    let name: String = text.chars().map(legal).take(128).collect();
    // A folder's name must neither lead elsewhere nor be hidden.
    name.trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_base::testing::Dir;

    #[test]
    fn files_are_for_us_alone_and_replaced_whole() {
        let dir = Dir::new("acme-store");
        let store = Store { folder: dir.path("a/b") };
        assert_eq!(store.read("x.pem"), Ok(None));
        store.prepare().unwrap();
        store.write("x.pem", b"one").unwrap();
        store.write("x.pem", b"two").unwrap();
        assert_eq!(store.read("x.pem"), Ok(Some(b"two".to_vec())));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&store.folder), mode(&store.folder.join("x.pem"))), (0o700, 0o600));
        assert_eq!(mode(&dir.path("a")), 0o700);
        let names: Vec<_> =
            fs::read_dir(&store.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["x.pem"], "nothing is left behind");
        let lock = store.lock().unwrap();
        assert!(store.lock().unwrap_err().text.contains("another server"));
        drop(lock);
        store.lock().unwrap();
        store.remove("x.pem");
        assert_eq!(store.read("x.pem"), Ok(None));
    }

    #[test]
    fn what_can_be_done_is_said() {
        let dir = Dir::new("acme-no-store");
        fs::write(dir.path("file"), "").unwrap();
        let said = Store { folder: dir.path("file/b") }.prepare().unwrap_err();
        let is_said = said.text.contains("cannot write to") && said.text.contains("acme.dir");
        assert!(is_said && said.cause == Cause::Disk, "{said}");
    }

    #[test]
    fn each_authority_has_a_folder_of_its_own() {
        assert_eq!(
            folder_name("https://acme-v02.api.letsencrypt.org/directory"),
            "acme-v02.api.letsencrypt.org-directory"
        );
        assert_eq!(folder_name("https://127.0.0.1:14000/dir/"), "127.0.0.1-14000-dir");
        assert_eq!(folder_name("https://../../etc"), "-..-etc");
    }
}
