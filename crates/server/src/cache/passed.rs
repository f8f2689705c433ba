//! Requests of which a thread has just seen that their answers can't be stored: for a moment it does not ask again. A
//! script that is never cached must not pay for a cache.
//!
//! Only hashes are held. Two requests with the same one are as likely as a broken memory, and then PHP runs where a page
//! would have done.

use std::cell::Cell;

use millrace_pages::Key;

/// How long it holds, milliseconds.
const A_MOMENT: u64 = 1000;

/// Requests that a thread has in mind; a power of two.
const PLACES: usize = 256;

thread_local! {
    /// Hash, and the tick at which it was noted.
    static NOTED: [Cell<(u64, u64)>; PLACES] = const { [const { Cell::new((0, 0)) }; PLACES] };
}

/// Whether it has been noted a moment ago.
pub fn is_noted(key: Key<'_>, ticks: u64) -> bool {
    NOTED.with(|noted| {
        let (known, since) = noted[place(key)].get();
        known == key.hash && ticks < since + A_MOMENT
    })
}

/// Notes it. Not for a page with variants: the key says nothing of them, and whoever asks for one that is not stored would
/// turn the cache off for the others.
pub fn note(key: Key<'_>, ticks: u64) {
    NOTED.with(|noted| noted[place(key)].set((key.hash, ticks)));
}

fn place(key: Key<'_>) -> usize {
    key.hash as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_holds_for_a_moment() {
        let (one, other) = (Key { bytes: b"", hash: 7 }, Key { bytes: b"", hash: 7 + PLACES as u64 });
        assert!(!is_noted(one, 0));
        note(one, 10);
        assert!(is_noted(one, 10) && is_noted(one, 10 + A_MOMENT - 1));
        assert!(!is_noted(one, 10 + A_MOMENT));
        note(other, 10);
        assert!(!is_noted(one, 10), "its place was taken");
    }
}
