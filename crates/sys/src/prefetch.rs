//! Telling the processor what will be read soon.

/// Of the caches' lines on every x86-64 processor.
const LINE: usize = 64;

/// Has the processor fetch the first `most` bytes of a value, while it goes on. For memory that is needed in a moment and most
/// likely in no cache: several places are then waited for at once rather than one after the other. Does nothing on
/// processors other than x86-64.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T, most: usize) {
    let bytes = size_of_val(value).min(most);
    let start = std::ptr::from_ref(value).cast::<i8>();
    for at in (0..bytes).step_by(LINE) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the address lies within the value, and a prefetch changes nothing but the caches.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(start.add(at));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (start, at);
    }
}
