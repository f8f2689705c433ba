//! Prefetches memory that will be read soon.

use std::sync::Arc;

/// Of the caches' lines on every x86-64 processor.
const LINE: usize = 64;
/// Size of the two counters of an `Arc`, before its value.
const COUNTS: usize = 2 * size_of::<usize>();

/// Prefetches the first `most` bytes of a value without waiting. For memory that is needed in a moment and is most
/// likely not in a cache: several places are then loaded in parallel. Does nothing on processors other than x86-64.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T, most: usize) {
    lines(std::ptr::from_ref(value).cast(), size_of_val(value).min(most));
}

/// The same for a shared value: its counters are prefetched, too, because the reader will most likely clone it.
#[inline]
pub fn prefetch_shared<T: ?Sized>(value: &Arc<T>, most: usize) {
    let start = Arc::as_ptr(value).cast::<u8>().wrapping_sub(COUNTS);
    lines(start, COUNTS + size_of_val(&**value).min(most));
}

/// Every line of `bytes` bytes; nothing is read of them now.
#[inline]
fn lines(start: *const u8, bytes: usize) {
    let before = start as usize % LINE;
    for at in (0..before + bytes).step_by(LINE) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch changes nothing but the caches, and no address can make it fail.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(start.wrapping_sub(before).wrapping_add(at).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}
