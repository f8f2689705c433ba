//! Reads files at paths that a site can choose: its owner may put a link, a pipe or a device there at any moment.
//!
//! ```text
//!  path -> handle (O_PATH: opens no pipe, no device) -> a regular file? on storage? -> opened for reading -> at most `most` bytes
//! ```
//!
//! What is not known to be storage is refused: files of procfs and its like can wait for ever (`/proc/kmsg`), have effects, and have secrets.
//! A file on a network can still take its time: event loops leave it to another thread.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Largest file of configuration that is read: `.htaccess`, passwords, `wp-config.php`, pages; bytes.
pub const LARGEST_CONFIGURATION: u64 = 4 << 20;

/// File systems that store files (statfs(2), linux/magic.h). What the kernel makes up as it is read, is not among them.
const STORAGE: [(u32, &str); 41] = [
    (0xEF53, "ext2, ext3, ext4"),
    (0xEF51, "ext2, old"),
    (0x5846_5342, "XFS"),
    (0x9123_683E, "Btrfs"),
    (0xCA45_1A4E, "bcachefs"),
    (0x2FC1_2FC1, "ZFS"),
    (0xF2F5_2010, "F2FS"),
    (0x3153_464A, "JFS"),
    (0x5265_4973, "ReiserFS"),
    (0x3434, "NILFS"),
    (0x2405_1905, "UBIFS"),
    (0x72B6, "JFFS2"),
    (0xA501_FCF5, "VxFS"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0x794C_7630, "overlayfs"),
    (0x6175_6673, "AUFS"),
    (0xF15F, "eCryptfs"),
    (0x6A65_6A62, "shiftfs"),
    (0x7371_7368, "SquashFS"),
    (0xE0F5_E1E2, "EROFS"),
    (0x28CD_3D45, "CramFS"),
    (0x9660, "ISO 9660"),
    (0x1501_3346, "UDF"),
    (0x4D44, "FAT"),
    (0x2011_BAB0, "exFAT"),
    (0x5346_544E, "NTFS"),
    (0x7366_746E, "NTFS3"),
    (0x482B, "HFS+"),
    (0x6969, "NFS"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x00C3_6400, "Ceph"),
    (0x6B41_4653, "AFS"),
    (0x5346_414F, "OpenAFS"),
    (0x7461_636F, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0x0BD0_0BD0, "Lustre"),
    (0x4750_4653, "GPFS"),
    // virtiofs, sshfs, GlusterFS, s3fs and others.
    (0x6573_5546, "FUSE"),
    // 9P: WSL 2, gVisor and other virtual machines.
    (0x0102_1997, "9P"),
];

/// Opens the file at `path` for reading, if it is a regular file on storage. Never waits for a writer, and never opens a device.
///
/// # Errors
/// Nothing is there, it may not be read, or it is not such a file: the message says which.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let handle = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let stat = rustix::fs::fstat(&handle)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    check_storage(&handle)?;
    // A file that another process has leased (fcntl(2), F_SETLEASE) makes others wait, too, unless they say that they don't.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, by_number(&handle), flags, Mode::empty()) {
        Ok(file) => Ok(file.into()),
        Err(Errno::NOENT | Errno::NOTDIR) => without_proc(path, &stat, flags),
        Err(error) => Err(error.into()),
    }
}

/// Reads the regular file at `path`, if it has at most `most` bytes.
///
/// # Errors
/// As [`open_regular`]; [`io::ErrorKind::FileTooLarge`].
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("it has more than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// As [`read_regular`], for text.
///
/// # Errors
/// As [`read_regular`]; [`io::ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_regular_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read_regular(path, most)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Whether what is open is on a file system that stores files.
///
/// # Errors
/// It is not, or the system can't tell.
pub fn check_storage(file: impl AsFd) -> io::Result<()> {
    let kind = rustix::fs::fstatfs(file)?.f_type as u32;
    if STORAGE.iter().any(|(known, _)| *known == kind) {
        return Ok(());
    }
    let text = format!("it is on a file system (type {kind:#x}) that Millrace does not know as storage");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// The name of a handle, in the descriptor table of this thread.
fn by_number(handle: &OwnedFd) -> String {
    format!("/proc/thread-self/fd/{}", handle.as_raw_fd())
}

/// Opens by name where there is no `/proc`; only what the handle has shown.
fn without_proc(path: &Path, shown: &Stat, flags: OFlags) -> io::Result<File> {
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    if (stat.st_dev, stat.st_ino) != (shown.st_dev, shown.st_ino) {
        return Err(io::Error::new(io::ErrorKind::WouldBlock, "it is being replaced"));
    }
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::sync::mpsc;
    use std::time::Duration;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let folder = std::env::temp_dir().join(format!("millrace-regular-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Scratch(folder)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// The error for a path, from a thread of its own: one that waits must fail this test, not hang it.
    fn error(path: PathBuf) -> String {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(read_regular(&path, 100).map_err(|error| error.to_string())));
        receiver.recv_timeout(Duration::from_secs(60)).expect("it does not wait").unwrap_err()
    }

    #[test]
    fn only_regular_files_on_storage() {
        let scratch = Scratch::new("kinds");
        let at = |name: &str| scratch.0.join(name);
        std::fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        assert_eq!(read_regular(&at("link"), 4).unwrap(), b"text");
        assert_eq!(read_regular(&at("file"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let linked = |name: &str, target: &str| {
            symlink(target, at(name)).unwrap();
            error(at(name))
        };
        for wrong in [
            error(at("pipe")),
            error(at("socket")),
            error(scratch.0.clone()),
            linked("null", "/dev/null"),
            linked("zero", "/dev/zero"),
            linked("terminal", "/dev/ptmx"),
        ] {
            assert_eq!(wrong, "it is not a regular file");
        }
        for (at, target) in ["/proc/kmsg", "/proc/self/environ", "/proc/self/mem", "/sys/kernel/mm/ksm/run"]
            .iter()
            .enumerate()
            .filter(|(_, target)| Path::new(target).exists())
        {
            let wrong = linked(&format!("made-up-{at}"), target);
            assert!(wrong.contains("does not know as storage"), "{target}: {wrong}");
        }
        assert!(error(at("loop")).contains("symbolic links"));
        assert!(error(at("nothing")).contains("No such file"));
    }

    /// A pipe that is swapped in between two looks at the same name is never waited for.
    #[test]
    fn swapping_links_never_makes_it_wait() {
        let scratch = Scratch::new("swap");
        let at = |name: &str| scratch.0.join(name);
        std::fs::write(at("file"), "text").unwrap();
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (folder, (sender, receiver)) = (scratch.0.clone(), mpsc::channel());
        std::thread::spawn(move || {
            let swap = |target: &str| {
                symlink(target, folder.join("new")).unwrap();
                std::fs::rename(folder.join("new"), folder.join("link")).unwrap();
            };
            for turn in 0..20_000 {
                swap(if turn % 2 == 0 { "pipe" } else { "file" });
            }
            let _ = sender.send(());
        });
        let mut read = 0;
        while receiver.try_recv().is_err() {
            read += usize::from(read_regular(&at("link"), 100).is_ok());
        }
        assert!(read > 0);
    }

    #[test]
    fn every_storage_has_one_row() {
        for (at, (kind, name)) in STORAGE.iter().enumerate() {
            assert!(STORAGE[..at].iter().all(|(other, _)| other != kind), "{name}");
        }
        for made_up in [0x9FA0, 0x6265_6572, 0x6462_6720, 0x7472_6163, 0x0027_E0EB, 0x6367_7270, 0x1CD1] {
            assert!(STORAGE.iter().all(|(known, _)| *known != made_up), "{made_up:#x}");
        }
    }
}
