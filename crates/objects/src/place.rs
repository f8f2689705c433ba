//! The files of a site's object cache: its socket, the lock of the server that owns it, and the file of lost reports.
//!
//! They are in a directory that only the server's user can write to, so that no other user can put a link there. A process of
//! the site may connect to the socket and append to the file of lost reports, and nothing else.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use millrace_settings::plan::{ObjectServer, Secret};
use rustix::fs::{FlockOperation, OFlags, flock};

/// Connections that wait to be accepted: all workers of a site may connect at the same moment.
const BACKLOG: i32 = 1024;
/// Length at which the file of lost reports is cut: nothing needs its content.
const LOST_BYTES: u64 = 64 << 10;

/// Where a site's object cache is, and who may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its socket.
    pub socket: PathBuf,
    /// The file of lost reports.
    pub lost: PathBuf,
    /// Owner and group of both; `None`: the server's own, which can't give away files.
    pub owner: Option<(u32, u32)>,
    /// Users that may connect.
    pub users: Vec<u32>,
    /// The server that has the objects, if it is another one.
    pub server: Option<ObjectServer>,
    /// The password of a Redis server.
    pub redis_password: Option<Secret>,
    /// The site's name at the server.
    pub label: Option<String>,
}

/// A socket that listens, owned by this server.
#[derive(Debug)]
pub struct Place {
    /// Its listener; not blocking.
    pub listener: UnixListener,
    /// The file of lost reports.
    pub lost: Lost,
    /// The socket's file, which goes with this value.
    pub file: PlaceFile,
}

/// The file of a socket.
#[derive(Debug)]
pub struct PlaceFile {
    path: PathBuf,
    /// Locked while this server owns the place.
    _lock: File,
}

impl Drop for PlaceFile {
    fn drop(&mut self) {
        // The lock is held until after this.
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes the directory of the sockets, which other users may only search.
///
/// # Errors
/// It can't be made, or another user could put files there.
pub fn make_directory(dir: &Path) -> io::Result<()> {
    millrace_sys::is_only_ours(dir).map_err(|error| {
        let why = format!("{error}; set object_cache.dir to a directory of its own");
        io::Error::new(error.kind(), why)
    })?;
    if let Some(above) = dir.parent().filter(|above| !above.exists()) {
        DirBuilder::new().recursive(true).mode(0o755).create(above)?;
    }
    match DirBuilder::new().mode(0o711).create(dir) {
        // The umask may have removed rights.
        Ok(()) => fs::set_permissions(dir, fs::Permissions::from_mode(0o711))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let data = fs::metadata(dir)?;
    if data.uid() != rustix::process::geteuid().as_raw() || data.mode() & 0o022 != 0 {
        let why = "it belongs to another user, or others may write to it; set object_cache.dir to a directory of its own";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// Makes the file of lost reports, so that it is there before the first worker enters its sandbox.
///
/// # Errors
/// As the system says.
pub fn make_lost(wanted: &Wanted) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o660)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&wanted.lost)?;
    // A needless change would look like a lost report.
    let data = file.metadata()?;
    if data.mode() & 0o7777 != 0o660 {
        file.set_permissions(fs::Permissions::from_mode(0o660))?;
    }
    if let Some((user, group)) = wanted.owner.filter(|owner| *owner != (data.uid(), data.gid())) {
        std::os::unix::fs::fchown(&file, Some(user), Some(group))?;
    }
    Ok(file)
}

/// Takes the place; `None` while another server has it.
///
/// # Errors
/// As the system says.
pub fn take(wanted: &Wanted) -> io::Result<Option<Place>> {
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(wanted.socket.with_extension("lock"))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let lost = Lost::new(wanted)?;
    if wanted.server.is_none() {
        // Another server that has the objects later hears of no change until then.
        remove(&lost.settled())?;
    }
    remove(&wanted.socket)?;
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM.nonblocking(), None)?;
    socket.bind(&socket2::SockAddr::unix(&wanted.socket)?)?;
    // Connections are refused before it listens, so there is no moment with other permissions.
    fs::set_permissions(&wanted.socket, fs::Permissions::from_mode(0o660))?;
    if let Some((user, group)) = wanted.owner {
        std::os::unix::fs::lchown(&wanted.socket, Some(user), Some(group))?;
    }
    socket.listen(BACKLOG)?;
    let file = PlaceFile { path: wanted.socket.clone(), _lock: lock };
    Ok(Some(Place { listener: socket.into(), lost, file }))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The file to which a process appends when it could not report a change: then the server forgets all objects of the site
/// before it answers anything else.
#[derive(Debug)]
pub struct Lost {
    file: File,
    wanted: Wanted,
    seen: Stamp,
}

/// What changes when a file is written, cut or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    length: i64,
    changed: (i64, i64),
    is_named: bool,
}

impl Lost {
    fn new(wanted: &Wanted) -> io::Result<Lost> {
        let file = make_lost(wanted)?;
        let seen = stamp(&file)?;
        Ok(Lost { file, wanted: wanted.clone(), seen })
    }

    /// Whether a report was lost since the last call. One system call, so that it may come before each frame.
    pub fn has_grown(&mut self) -> bool {
        match stamp(&self.file) {
            Ok(stamp) if stamp == self.seen && stamp.is_named => false,
            Ok(stamp) => {
                self.renew(stamp);
                true
            }
            Err(_) => true,
        }
    }

    /// Whether the objects at another server were flushed after the last lost report, by this process or by one before it.
    pub fn is_settled(&self, identity: &str) -> bool {
        fs::read_to_string(self.settled()).is_ok_and(|text| text == self.settled_text(identity))
    }

    /// Notes that they were flushed after all reports that the last call of `has_grown` has seen. If that can't be noted, they are flushed
    /// once more at the next start.
    pub fn note_settled(&self, identity: &str) {
        let _ = fs::write(self.settled(), self.settled_text(identity));
    }

    fn settled(&self) -> PathBuf {
        self.wanted.lost.with_extension("settled")
    }

    fn settled_text(&self, identity: &str) -> String {
        format!("{identity}\n{:?}\n", self.seen)
    }

    fn renew(&mut self, found: Stamp) {
        if !found.is_named {
            // Removed. While it can't be made again, each frame finds it missing, and nothing in the cache.
            if let Ok(file) = make_lost(&self.wanted) {
                self.file = file;
            }
        } else if found.length.unsigned_abs() > LOST_BYTES {
            let _ = self.file.set_len(0);
        }
        // What was appended since `found` is covered: the objects are forgotten after this.
        self.seen = stamp(&self.file).unwrap_or(found);
    }
}

fn stamp(file: &File) -> io::Result<Stamp> {
    let data = rustix::fs::fstat(file)?;
    #[allow(clippy::unnecessary_cast)] // Types differ between architectures.
    let changed = (data.st_ctime as i64, data.st_ctime_nsec as i64);
    Ok(Stamp { length: data.st_size, changed, is_named: data.st_nlink > 0 })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use millrace_settings::plan::{Backend, ObjectServerKind};

    use super::*;
    use millrace_base::testing::Dir;

    fn wanted(dir: &Dir) -> Wanted {
        Wanted {
            socket: dir.path("a.sock"),
            lost: dir.path("a.lost"),
            owner: None,
            users: vec![0],
            server: None,
            redis_password: None,
            label: None,
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn one_server_has_the_place() {
        let dir = Dir::new("objects-place");
        let wanted = wanted(&dir);
        let place = take(&wanted).unwrap().unwrap();
        assert_eq!((mode(&wanted.socket), mode(&wanted.lost)), (0o660, 0o660));
        assert!(take(&wanted).unwrap().is_none(), "another server of the same site");
        drop(place);
        assert!(!wanted.socket.exists());
        // A server that was killed leaves its socket, and no lock.
        drop(UnixListener::bind(&wanted.socket).unwrap());
        assert!(take(&wanted).unwrap().is_some());
    }

    #[test]
    fn directories_of_others_are_refused() {
        let dir = Dir::new("objects-directory");
        let new = dir.path("a/b");
        make_directory(&new).unwrap();
        make_directory(&new).unwrap();
        assert_eq!(mode(&new), 0o711);
        fs::set_permissions(&new, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make_directory(&new).unwrap_err().to_string().contains("set object_cache.dir"));
    }

    #[test]
    fn links_are_not_followed() {
        let dir = Dir::new("objects-links");
        let wanted = wanted(&dir);
        fs::write(dir.path("precious"), "x").unwrap();
        std::os::unix::fs::symlink(dir.path("precious"), &wanted.lost).unwrap();
        assert!(take(&wanted).is_err());
    }

    #[test]
    fn what_was_flushed_is_known_after_a_restart() {
        let dir = Dir::new("objects-settled");
        let server =
            ObjectServer { kind: ObjectServerKind::Redis, address: Backend::Unix(dir.path("r.sock")) };
        let remote = Wanted { server: Some(server), ..wanted(&dir) };
        let again = |wanted: &Wanted| take(wanted).unwrap().unwrap().lost;
        let lost = again(&remote);
        assert!(!lost.is_settled("a"), "at first");
        lost.note_settled("a");
        assert!(again(&remote).is_settled("a") && !again(&remote).is_settled("b"));
        OpenOptions::new().append(true).open(&remote.lost).unwrap().write_all(b"x").unwrap();
        assert!(!again(&remote).is_settled("a"), "a report was lost meanwhile");
        again(&remote).note_settled("a");
        drop(again(&wanted(&dir)));
        assert!(!again(&remote).is_settled("a"), "another process had the objects meanwhile");
    }

    #[test]
    fn lost_reports_are_noticed_once() {
        let dir = Dir::new("objects-lost");
        let wanted = wanted(&dir);
        let mut place = take(&wanted).unwrap().unwrap();
        let append = || OpenOptions::new().append(true).open(&wanted.lost).unwrap();
        assert!(!place.lost.has_grown());
        for _ in 0..3 {
            append().write_all(b"x").unwrap();
            assert!(place.lost.has_grown() && !place.lost.has_grown());
        }
        append().write_all(&[b'x'; LOST_BYTES as usize + 1]).unwrap();
        assert!(place.lost.has_grown() && !place.lost.has_grown());
        assert_eq!(fs::metadata(&wanted.lost).unwrap().len(), 0, "it is cut");
        fs::remove_file(&wanted.lost).unwrap();
        assert!(place.lost.has_grown() && !place.lost.has_grown());
        append().write_all(b"x").unwrap();
        assert!(place.lost.has_grown(), "the new one is watched");
    }
}
