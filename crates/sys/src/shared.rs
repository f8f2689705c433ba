//! A page table of atomic words that several processes map: the scoreboard of a PHP host.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// Memory shared between processes, seen as atomic words at byte offsets. Its size never changes.
pub struct SharedWords {
    start: NonNull<u8>,
    bytes: usize,
    file: OwnedFd,
}

// SAFETY: all access to the memory is by atomics; the mapping lives as long as the value.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// New memory of `bytes` bytes, all zero, in a file without a name. `name` is seen in `/proc/PID/maps` only.
    ///
    /// # Errors
    /// No memory, or no descriptor is left.
    pub fn create(name: &str, bytes: usize) -> io::Result<SharedWords> {
        let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        // No holder of the descriptor can shrink the file: an access past its end would be SIGBUS.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        SharedWords::map(file, bytes)
    }

    /// The memory behind a descriptor from [`SharedWords::create`] in another process.
    ///
    /// # Errors
    /// It is not such a descriptor (`InvalidInput`), or the mapping fails.
    pub fn open(file: OwnedFd) -> io::Result<SharedWords> {
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let bytes = rustix::fs::fstat(&file)?.st_size as usize;
        SharedWords::map(file, bytes)
    }

    fn map(file: OwnedFd, bytes: usize) -> io::Result<SharedWords> {
        if bytes == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, &file, 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedWords { start, bytes, file })
    }

    /// Bytes of the memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The 32-bit word at `offset` bytes.
    ///
    /// # Panics
    /// If it does not lie inside the memory, or is not aligned.
    pub fn u32_at(&self, offset: usize) -> &AtomicU32 {
        let word = self.word(offset, size_of::<AtomicU32>());
        // SAFETY: inside the mapping and aligned, as `word` checked; every access anywhere is atomic.
        unsafe { AtomicU32::from_ptr(word.cast().as_ptr()) }
    }

    /// The 64-bit word at `offset` bytes.
    ///
    /// # Panics
    /// If it does not lie inside the memory, or is not aligned.
    pub fn u64_at(&self, offset: usize) -> &AtomicU64 {
        let word = self.word(offset, size_of::<AtomicU64>());
        // SAFETY: inside the mapping and aligned, as `word` checked; every access anywhere is atomic.
        unsafe { AtomicU64::from_ptr(word.cast().as_ptr()) }
    }

    fn word(&self, offset: usize, size: usize) -> NonNull<u8> {
        let inside = offset.checked_add(size).is_some_and(|end| end <= self.bytes);
        assert!(
            inside && offset.is_multiple_of(size),
            "no word of {size} bytes at {offset} of {}",
            self.bytes
        );
        // SAFETY: `offset` is inside the mapping.
        unsafe { self.start.add(offset) }
    }
}

impl AsFd for SharedWords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no reference into it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

impl fmt::Debug for SharedWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedWords({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn two_mappings_are_one_memory() {
        let here = SharedWords::create("test", 256).unwrap();
        let there = SharedWords::open(here.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(there.bytes(), 256);
        here.u64_at(248).store(7, SeqCst);
        there.u32_at(0).store(9, SeqCst);
        assert_eq!((there.u64_at(248).load(SeqCst), here.u32_at(0).load(SeqCst)), (7, 9));
    }

    #[test]
    fn its_size_is_fixed() {
        let words = SharedWords::create("test", 4096).unwrap();
        assert!(rustix::fs::ftruncate(&words, 0).is_err());
    }

    #[test]
    fn other_files_are_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(SharedWords::open(file.into()).is_err());
    }

    #[test]
    #[should_panic(expected = "no word of 8 bytes at 252 of 256")]
    fn words_lie_inside() {
        SharedWords::create("test", 256).unwrap().u64_at(252);
    }

    #[test]
    #[should_panic(expected = "no word of 8 bytes at 4 of 256")]
    fn words_are_aligned() {
        SharedWords::create("test", 256).unwrap().u64_at(4);
    }
}
