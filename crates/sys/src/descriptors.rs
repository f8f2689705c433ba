//! Descriptor tables of single threads.

use std::io;
use std::os::fd::RawFd;

/// Gives the calling thread its own descriptor table (`unshare(CLONE_FILES)`), a copy of the current one. From then
/// on it shares no lock with other threads for opening and closing, and the limit of descriptors counts for it alone.
///
/// Descriptors that this thread opens afterwards mean nothing in other threads, and theirs mean nothing here: earlier
/// ones may be used only while both sides leave them open.
///
/// # Errors
/// The kernel has no memory for it, or a sandbox forbids it.
pub fn own_descriptor_table() -> io::Result<()> {
    // SAFETY: no pointers. Descriptors that exist go on to mean the same in this thread: the table is copied.
    let result = unsafe { libc::unshare(libc::CLONE_FILES) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The same, and closes all descriptors there but `keep`, so that the copy does not hold open what other threads
/// close. The calling thread must not use any other descriptor that it knew before.
///
/// # Errors
/// As [`own_descriptor_table`].
pub fn own_descriptor_table_of(keep: &[RawFd]) -> io::Result<()> {
    own_descriptor_table()?;
    let mut keep: Vec<u32> = keep.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    keep.sort_unstable();
    let mut next = 0;
    for fd in keep {
        if fd > next {
            close_range(next, fd - 1);
        }
        next = next.max(fd + 1);
    }
    close_range(next, u32::MAX);
    Ok(())
}

fn close_range(first: u32, last: u32) {
    // SAFETY: no pointers. It affects only this thread's table, and the caller guarantees that no other descriptor is
    // used.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if done != 0 {
        // Before Linux 5.9.
        let last = last
            .min(rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20)
                as u32);
        for fd in first..=last {
            // SAFETY: as above.
            unsafe { libc::close(fd as RawFd) };
        }
    }
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

    #[test]
    fn what_is_not_kept_is_closed_for_the_thread_alone() {
        let (kept, other) = (File::open("/dev/null").unwrap(), File::open("/dev/null").unwrap());
        let numbers = (kept.as_raw_fd(), other.as_raw_fd());
        std::thread::spawn(move || {
            own_descriptor_table_of(&[2, numbers.0, 1, 0]).unwrap();
            let open = |fd: i32| Path::new(&format!("/proc/thread-self/fd/{fd}")).exists();
            assert!(open(0) && open(2) && open(numbers.0) && !open(numbers.1));
        })
        .join()
        .unwrap();
        assert!(other.metadata().is_ok());
    }
}
