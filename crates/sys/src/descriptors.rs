//! Descriptor tables of single threads.

use std::io;

/// Gives the calling thread a descriptor table of its own (`unshare(CLONE_FILES)`): a copy of the present one. From then on
/// no lock is shared with other threads when it opens and closes, and the limit of descriptors counts for it alone.
///
/// A descriptor that this thread opens afterwards means nothing in other threads, and theirs mean nothing here: what was
/// open before must be used only for as long as both sides leave it open.
///
/// # Errors
/// The kernel has no memory for it, or a sandbox forbids it.
pub fn own_descriptor_table() -> io::Result<()> {
    // SAFETY: no pointers. Descriptors that exist go on to mean the same in this thread: the table is copied.
    let result = unsafe { libc::unshare(libc::CLONE_FILES) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::path::Path;

    #[test]
    fn what_the_thread_opens_is_not_seen_by_others() {
        std::thread::spawn(|| {
            own_descriptor_table().unwrap();
            let file = File::open("/dev/null").unwrap();
            let number = rustix::io::fcntl_dupfd_cloexec(&file, 900).unwrap();
            assert!(Path::new(&format!("/proc/thread-self/fd/{}", number.as_raw_fd())).exists());
            let elsewhere = format!("/proc/self/fd/{}", number.as_raw_fd());
            assert!(!Path::new(&elsewhere).exists());
        })
        .join()
        .unwrap();
    }
}
