//! Requests of which a thread has just seen that their answers can't be stored: for a moment it does not ask again. A
//! script that is never cached must not pay for a cache. With any purge all of that is forgotten.
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
    static NOTED: [Cell<UncacheableNote>; PLACES] = const { [const { Cell::new(UncacheableNote { hash: 0, at: StoreMoment { ticks: 0, purges: 0 } }) }; PLACES] };
}

#[derive(Clone, Copy)]
struct UncacheableNote {
    hash: u64,
    at: StoreMoment,
}

/// When the store is asked.
#[derive(Clone, Copy)]
pub struct StoreMoment {
    /// By the thread's clock.
    pub ticks: u64,
    /// How many purges were done before.
    pub purges: u64,
}

/// Whether it has been noted a moment ago, and nothing was purged since.
pub fn is_noted(key: Key<'_>, now: StoreMoment) -> bool {
    NOTED.with(|noted| {
        let UncacheableNote { hash, at } = noted[place(key)].get();
        hash == key.hash && now.ticks < at.ticks + A_MOMENT && now.purges == at.purges
    })
}

/// Notes it. Not for a page with variants: the key says nothing of them, and whoever asks for one that is not stored would
/// turn the cache off for the others. `at` is from before the store was asked.
pub fn note(key: Key<'_>, at: StoreMoment) {
    NOTED.with(|noted| noted[place(key)].set(UncacheableNote { hash: key.hash, at }));
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
        let at = |ticks| StoreMoment { ticks, purges: 3 };
        assert!(!is_noted(one, at(0)));
        note(one, at(10));
        assert!(is_noted(one, at(10)) && is_noted(one, at(10 + A_MOMENT - 1)));
        assert!(!is_noted(one, at(10 + A_MOMENT)));
        assert!(!is_noted(one, StoreMoment { ticks: 11, purges: 4 }), "something was purged");
        note(other, at(10));
        assert!(!is_noted(one, at(10)), "its place was taken");
    }
}
