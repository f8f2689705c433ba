//! Unnamed files for data that is too large for memory: they vanish with their last descriptor, whatever happens to
//! the server.
//!
//! A slow disk makes a write wait, sometimes for seconds, and an event loop has other clients. So separate threads
//! write and read content; a loop starts them when it first needs one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags, openat};

/// An unnamed file.
#[derive(Debug)]
pub struct Spool(Arc<File>);

impl Spool {
    /// A new one in the folder `dir`.
    ///
    /// # Errors
    /// The folder can't be written.
    pub fn create(dir: &Path) -> io::Result<Spool> {
        Ok(Spool(Arc::new(nameless_file(dir)?)))
    }

    /// The file itself; its position is at the start.
    ///
    /// # Errors
    /// It is still being written, and no descriptor is left.
    pub fn into_file(self) -> io::Result<File> {
        Arc::try_unwrap(self.0).or_else(|file| file.try_clone())
    }

    /// Writes all of `bytes` from offset `at` on; returns them, for reuse of their memory and in case of an error.
    ///
    /// # Errors
    /// The disk is full, or broken.
    pub async fn write(&self, bytes: Vec<u8>, at: u64) -> (Vec<u8>, io::Result<()>) {
        let file = self.0.clone();
        let write = move || {
            let written = file.write_all_at(&bytes, at);
            (bytes, written)
        };
        // Fails only if the server ends at this moment.
        let done = tokio::task::spawn_blocking(write).await;
        done.unwrap_or_else(|error| (Vec::new(), Err(io::Error::other(error))))
    }

    /// Reads `length` bytes from offset `at` on, which must have been written.
    ///
    /// # Errors
    /// The disk is broken.
    pub async fn read(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = self.0.clone();
        let read = move || {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, at).map(|()| bytes)
        };
        tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Frees its disk space.
    ///
    /// # Errors
    /// The disk is broken.
    pub fn clear(&self) -> io::Result<()> {
        self.0.set_len(0)
    }
}

/// A file that vanishes with its last descriptor. Some file systems lack `O_TMPFILE`, hence the second way.
fn nameless_file(dir: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);

    let mode = Mode::RUSR | Mode::WUSR;
    if let Ok(file) = openat(CWD, dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        return Ok(file.into());
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = dir.join(format!("millrace-{}-{number}", std::process::id()));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(CWD, &path, flags, mode)?;
    std::fs::remove_file(&path)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_is_read() {
        let spool = Spool::create(&std::env::temp_dir()).unwrap();
        for at in [0, 5] {
            let (bytes, written) = spool.write(b"hello".to_vec(), at).await;
            assert!(written.is_ok() && bytes == b"hello");
        }
        assert_eq!(spool.read(3, 4).await.unwrap(), b"lohe");
        assert!(spool.read(8, 4).await.is_err());
        spool.clear().unwrap();
        assert_eq!(spool.into_file().unwrap().metadata().unwrap().len(), 0);
    }

    #[test]
    fn a_folder_that_is_not_there() {
        assert!(Spool::create(Path::new("/nowhere/at/all")).is_err());
    }
}
