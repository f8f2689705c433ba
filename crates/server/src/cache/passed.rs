//! Requests whose responses a thread has just found uncacheable: for a moment it does not ask the store again,
//! because a script that is never cached must not pay for a cache. Any purge clears the list.
//!
//! It holds only hashes. Two requests with the same hash are as likely as a memory error, and then PHP runs although
//! a page would have been enough.

use std::cell::Cell;

use millrace_pages::Key;

/// How long a note is valid, milliseconds.
const A_MOMENT: u64 = 1000;

/// Number of requests that a thread remembers; a power of two.
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
    /// On the thread's clock.
    pub ticks: u64,
    /// Number of purges before.
    pub purges: u64,
}

/// Whether the key was noted a moment ago, and nothing has been purged since.
pub fn is_noted(key: Key<'_>, now: StoreMoment) -> bool {
    NOTED.with(|noted| {
        let UncacheableNote { hash, at } = noted[place(key)].get();
        hash == key.hash && now.ticks < at.ticks + A_MOMENT && now.purges == at.purges
    })
}

/// Notes a key. Not for a page with variants: the key does not distinguish them, and a request for an uncacheable
/// variant would turn the cache off for the others. `at` is from before the store was asked.
pub fn note(key: Key<'_>, at: StoreMoment) {
    NOTED.with(|noted| noted[place(key)].set(UncacheableNote { hash: key.hash, at }));
}

/// The same page, as a key for requests with cookies that the cache doesn't know.
pub fn with_cookies(key: Key<'_>) -> Key<'_> {
    Key { hash: key.hash.rotate_left(31) ^ 0x9E37_79B9_7F4A_7C15, ..key }
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
