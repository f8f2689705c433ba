//! The rights of another user, for work in folders that belong to that user.
//!
//! Root that writes, or reads, in somebody else's folder does so through names that this user can exchange at any moment: no check
//! before the access holds. So it takes on the user's rights first, and the kernel decides.
//!
//! ```text
//!   Rights::enter    rights to files of this thread, until the guard is dropped     the server, for a look at a site's files
//!   Rights::adopt    all rights of the process, for good                            commands
//! ```

use std::cell::Cell;
use std::ffi::{CString, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::{geteuid, getgroups};

use super::users::{self, Account};

/// What a user may do: its ID, and its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// As many links as the kernel follows.
const MOST_LINKS: u32 = 40;

thread_local! {
    /// The user whose rights this thread has taken on.
    static ENTERED: Cell<Option<u32>> = const { Cell::new(None) };
}

impl Rights {
    /// Those of a user in all groups of the system that have it as a member; `group` is the primary one, if given.
    ///
    /// # Errors
    /// The list of groups can't be had.
    pub fn of_user(name: &str, account: Account, group: Option<u32>) -> io::Result<Rights> {
        let gid = group.unwrap_or(account.gid);
        Ok(Rights { uid: account.uid, gid, groups: groups_of(name, gid)? })
    }

    /// Those of a user ID with one group.
    pub fn of_id(uid: u32, gid: u32) -> Rights {
        Rights { uid, gid, groups: vec![gid] }
    }

    /// User ID.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Primary group.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Takes on the rights to files of this thread, until the guard is dropped. `None`: this process is not root, has its own rights only,
    /// and keeps them. Threads must not be started meanwhile: they would inherit the rights.
    ///
    /// # Errors
    /// The kernel refuses it: then the files must not be touched.
    pub fn enter(&self) -> io::Result<Option<Entered>> {
        if !geteuid().is_root() || ENTERED.get() == Some(self.uid) {
            return Ok(None);
        }
        if let Some(other) = ENTERED.get() {
            return Err(io::Error::other(format!("this thread has the rights of user {other}")));
        }
        let entered =
            Entered { gid: set_fsgid(u32::MAX), groups: own_groups()?, _thread: std::marker::PhantomData };
        ENTERED.set(Some(self.uid));
        // If one fails, dropping `entered` takes back the others.
        set_groups(&self.groups)?;
        set_fsgid(self.gid);
        set_fsuid(self.uid);
        // Both report no error; a call with an ID that does not exist tells the one in force.
        if set_fsuid(u32::MAX) != self.uid || set_fsgid(u32::MAX) != self.gid {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        Ok(Some(entered))
    }

    /// Makes this process one of the user, for good: its threads, and the programs that it starts.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn adopt(&self) -> io::Result<()> {
        // SAFETY: the pointer is valid for the number of groups given; the C library changes all threads.
        let groups = unsafe { libc::setgroups(self.groups.len(), self.groups.as_ptr()) };
        // SAFETY: calls without pointers.
        let done = groups == 0
            && unsafe {
                libc::setresgid(self.gid, self.gid, self.gid) == 0
                    && libc::setresuid(self.uid, self.uid, self.uid) == 0
            };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The rights of a user, on this thread, until this is dropped.
#[derive(Debug)]
pub struct Entered {
    gid: u32,
    groups: Vec<u32>,
    /// It must be dropped on the thread that it changes.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        set_fsuid(0);
        set_fsgid(self.gid);
        // If one fails, this thread has fewer rights than before, never more.
        let _ = set_groups(&self.groups);
        ENTERED.set(None);
    }
}

/// Who has to act in a folder: the rights that root has to take on first. `None`: this process isn't root, or only root can change the
/// folder and what leads to it. Also returns the folder's name without symbolic links, by which it must be used.
///
/// # Errors
/// There is no such folder, or root would act where another user can exchange names.
pub fn rights_in(folder: &Path) -> io::Result<(PathBuf, Option<Rights>)> {
    let named = std::path::absolute(folder)?;
    let folder = std::fs::canonicalize(&named)?;
    if !geteuid().is_root() {
        return Ok((folder, None));
    }
    let data = std::fs::symlink_metadata(&folder)?;
    if data.uid() != 0 {
        // The group that root has given the folder. Root's own group may have rights that the user lacks.
        let gid = if data.gid() == 0 { users::group_of(data.uid()) } else { Some(data.gid()) };
        let gid = gid.filter(|gid| *gid != 0).unwrap_or(data.uid());
        return Ok((folder, Some(Rights::of_id(data.uid(), gid))));
    }
    match changeable(&named, &folder, 0o022)? {
        None => Ok((folder, None)),
        Some(part) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{} belongs to root, but other users can change {}: root does not write there; run this command as the user that owns the \
                 site, or take those rights away (chmod go-w, chown)",
                folder.display(),
                part.display()
            ),
        )),
    }
}

/// Whether root may use this folder by its name, for files of its own: no other user has made, or can exchange, a name on the way to it. What
/// isn't there yet doesn't count. Groups that may write to a folder on the way do not count either: systems have such (`/var/log`).
///
/// # Errors
/// It may not, or the way can't be followed.
pub fn is_only_ours(folder: &Path) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let named = std::path::absolute(folder)?;
    let there = named.ancestors().find(|above| above.symlink_metadata().is_ok()).unwrap_or(&named);
    match changeable(there, &std::fs::canonicalize(there)?, 0o002)? {
        None => Ok(()),
        Some(part) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "another user than root can change {}: name a folder that only root can change, or take that right away (chown, chmod o-w)",
                part.display()
            ),
        )),
    }
}

/// Opens a file to append to it, with this mode if it is made now. In a folder of another user, root neither follows a link nor writes to a
/// file that is anything but a log there.
///
/// # Errors
/// As the system says, or it isn't such a file.
pub fn open_to_append(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Opening a pipe that nobody reads fails instead of waiting for a reader.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    options.append(true).create(true).mode(mode).custom_flags(flags);
    let (Some(folder), Some(name), true) = (path.parent(), path.file_name(), geteuid().is_root()) else {
        return options.open(path);
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let open = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let data = rustix::fs::fstat(&open)?;
    if data.st_uid == 0 && data.st_mode & 0o002 == 0 {
        is_only_ours(folder)?;
        return options.open(path);
    }
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(&open, name, flags, Mode::from_raw_mode(mode))?);
    let found = file.metadata()?;
    let is_theirs = found.uid() == 0 || found.uid() == data.st_uid;
    if found.is_file() && found.nlink() == 1 && is_theirs {
        return Ok(file);
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "its folder can be changed by another user than root, and it is no plain file of root's or of the folder's owner",
    ))
}

/// Sets the mode of a socket that this process has just bound at `path`, and of nothing else that may have taken its place.
///
/// # Errors
/// As the system says, or it is another file.
pub fn open_socket_to(path: &Path, mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let socket = rustix::fs::open(path, flags, Mode::empty())?;
    let data = rustix::fs::fstat(&socket)?;
    let is_socket = FileType::from_raw_mode(data.st_mode) == FileType::Socket;
    if !is_socket || data.st_nlink != 1 || data.st_uid != geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another file has taken the socket's place",
        ));
    }
    // The descriptor's own name: it can't be exchanged.
    let name = format!("/proc/self/fd/{}", socket.as_raw_fd());
    std::fs::set_permissions(name, std::fs::Permissions::from_mode(mode))
}

/// The first name on the way to a folder of root's that another user has made, or can exchange, by one of these rights to a folder. Goes from
/// the top: once all names so far are root's alone, the next one is what it seems to be.
fn changeable(named: &Path, folder: &Path, rights: u32) -> io::Result<Option<PathBuf>> {
    let parts = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
    };
    let (mut rest, mut at, mut links) = (parts(named), PathBuf::from("/"), 0);
    while let Some(part) = rest.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let data = std::fs::symlink_metadata(&next)?;
        // In a sticky folder nobody can exchange what is root's.
        let is_sticky = data.mode() & libc::S_ISVTX != 0 && next != folder;
        let is_shared = !data.is_symlink() && data.mode() & rights != 0 && !is_sticky;
        if data.uid() != 0 || is_shared {
            return Ok(Some(next));
        }
        if data.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Ok(Some(next));
            }
            rest.extend(parts(&std::fs::read_link(&next)?));
        } else {
            at = next;
        }
    }
    // Something has changed since.
    Ok((at != folder).then_some(at))
}

/// The groups of this process, which its threads have when they have not entered.
fn own_groups() -> io::Result<Vec<u32>> {
    Ok(getgroups()?.into_iter().map(|group| group.as_raw()).collect())
}

/// The groups with `name` as a member, and `gid`.
fn groups_of(name: &str, gid: u32) -> io::Result<Vec<u32>> {
    let name = CString::new(name).map_err(io::Error::other)?;
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut count = libc::c_int::try_from(groups.len()).map_err(io::Error::other)?;
        // SAFETY: the name ends with NUL, and there is room for `count` groups.
        let fits = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        if fits >= 0 {
            groups.truncate(usize::try_from(count).unwrap_or(0));
            return Ok(groups);
        }
        if groups.len() > 1 << 16 {
            return Err(io::Error::other("too many groups"));
        }
        groups.resize(groups.len() * 4, 0);
    }
}

/// For this thread only: the C library's function changes all threads.
fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: the pointer is valid for the number of groups given.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the ID before.
fn set_fsuid(uid: u32) -> u32 {
    // SAFETY: a call without pointers, which changes this thread only.
    unsafe { libc::syscall(libc::SYS_setfsuid, libc::c_ulong::from(uid)) as u32 }
}

/// Returns the ID before.
fn set_fsgid(gid: u32) -> u32 {
    // SAFETY: as in `set_fsuid`.
    unsafe { libc::syscall(libc::SYS_setfsgid, libc::c_ulong::from(gid)) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    /// An ID that no file of the system has.
    const OTHER: u32 = 54_321;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("millrace-rights-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Scratch(path)
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_thread_has_the_rights_of_another_user_for_a_while() {
        let scratch = Scratch::new("enter");
        let (secret, theirs) = (scratch.at("secret"), scratch.at("theirs"));
        fs::write(&secret, "x").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let rights = Rights::of_id(OTHER, OTHER);
        if !geteuid().is_root() {
            assert!(rights.enter().unwrap().is_none(), "it has no other rights than its own");
            return;
        }
        fs::create_dir(&theirs).unwrap();
        chown(&theirs, Some(OTHER), Some(OTHER)).unwrap();
        let before = own_groups().unwrap();
        {
            let _entered = rights.enter().unwrap().expect("root");
            assert_eq!(fs::read(&secret).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert!(rights.enter().unwrap().is_none(), "it has them already");
            assert!(Rights::of_id(OTHER + 1, OTHER).enter().is_err());
            fs::write(theirs.join("file"), "x").unwrap();
        }
        assert_eq!(fs::read(&secret).unwrap(), b"x");
        assert_eq!(own_groups().unwrap(), before);
        let data = fs::metadata(theirs.join("file")).unwrap();
        assert_eq!((data.uid(), data.gid()), (OTHER, OTHER));
    }

    #[test]
    fn other_threads_keep_their_rights() {
        let scratch = Scratch::new("threads");
        let secret = scratch.at("secret");
        fs::write(&secret, "x").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let secret = &secret;
            let other = scope.spawn(move || {
                wait.recv().unwrap();
                fs::read(secret).is_ok()
            });
            let _entered = Rights::of_id(OTHER, OTHER).enter().unwrap();
            go.send(()).unwrap();
            assert!(other.join().unwrap());
        });
    }

    #[test]
    fn who_acts_in_a_folder() {
        let scratch = Scratch::new("folders");
        let real = fs::canonicalize(&scratch.0).unwrap();
        if !geteuid().is_root() {
            assert_eq!(rights_in(&scratch.0).unwrap(), (real, None));
            return;
        }
        fs::create_dir(scratch.at("theirs")).unwrap();
        fs::create_dir(scratch.at("theirs/roots")).unwrap();
        fs::create_dir(scratch.at("open")).unwrap();
        chown(scratch.at("theirs"), Some(OTHER), Some(0)).unwrap();
        fs::set_permissions(scratch.at("open"), fs::Permissions::from_mode(0o775)).unwrap();
        symlink("theirs", scratch.at("link")).unwrap();
        assert_eq!(rights_in(&scratch.0).unwrap(), (real.clone(), None));
        for name in ["theirs", "link"] {
            let (folder, rights) = rights_in(&scratch.at(name)).unwrap();
            assert_eq!(folder, real.join("theirs"));
            assert_eq!(rights, Some(Rights::of_id(OTHER, OTHER)), "never with root's group");
        }
        symlink("/etc", scratch.at("theirs/content")).unwrap();
        std::os::unix::fs::lchown(scratch.at("theirs/content"), Some(OTHER), Some(OTHER)).unwrap();
        symlink(".", scratch.at("here")).unwrap();
        assert_eq!(rights_in(&scratch.at("here")).unwrap(), (real.clone(), None), "root's own link");
        for name in ["theirs/roots", "open", "theirs/content", "theirs/.."] {
            let error = rights_in(&scratch.at(name)).unwrap_err().to_string();
            assert!(error.contains("root does not write there"), "{error}");
        }
        assert!(rights_in(&scratch.at("missing")).is_err());
    }

    #[test]
    fn logs_in_folders_of_others() {
        let scratch = Scratch::new("logs");
        let theirs = scratch.at("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::create_dir(scratch.at("roots")).unwrap();
        fs::write(scratch.at("secret"), "x").unwrap();
        symlink(scratch.at("secret"), scratch.at("own-link")).unwrap();
        assert!(
            open_to_append(&scratch.at("own-link"), 0o640).is_ok(),
            "in its own folder a link is followed"
        );
        if !geteuid().is_root() {
            return;
        }
        chown(&theirs, Some(OTHER), Some(OTHER)).unwrap();
        symlink(scratch.at("secret"), theirs.join("link")).unwrap();
        symlink(scratch.at("roots"), theirs.join("folder")).unwrap();
        fs::hard_link(scratch.at("secret"), theirs.join("second")).unwrap();
        for name in ["link", "second", "folder", "folder/new"] {
            assert!(open_to_append(&theirs.join(name), 0o640).is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(scratch.at("roots")).unwrap().count(), 0);
        for _ in 0..2 {
            open_to_append(&theirs.join("new"), 0o640).unwrap();
        }
        for (name, is_ours) in
            [("theirs/cache/new", false), ("roots/cache/new", true), ("theirs/folder/x", false)]
        {
            assert_eq!(is_only_ours(&scratch.at(name)).is_ok(), is_ours, "{name}");
        }
    }

    #[test]
    fn only_the_socket_itself_gets_a_mode() {
        let scratch = Scratch::new("socket");
        let (socket, file) = (scratch.at("socket"), scratch.at("file"));
        fs::write(&file, "x").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let before = mode(&file);
        let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        open_socket_to(&socket, 0o666).unwrap();
        assert_eq!(mode(&socket), 0o666);
        fs::remove_file(&socket).unwrap();
        symlink(&file, &socket).unwrap();
        assert!(open_socket_to(&socket, 0o666).is_err() && open_socket_to(&file, 0o666).is_err());
        assert_eq!(mode(&file), before);
    }

    #[test]
    fn groups_of_a_user() {
        let root = users::user("root").unwrap();
        let rights = Rights::of_user("root", root, Some(7)).unwrap();
        assert_eq!((rights.uid(), rights.gid()), (0, 7));
        assert!(rights.groups.contains(&7));
    }
}
