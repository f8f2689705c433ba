//! Requests of which a thread has just seen that their answers can't be stored: for a moment it does not ask again. A
//! script that is never cached must not pay for a cache.
//!
//! Only hashes are held. Two requests with the same one are as likely as a broken memory, and then PHP runs where a page
//! would have done.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use hashbrown::DefaultHashBuilder;

use crate::request::Request;
use crate::route::Site;

/// How long it holds, milliseconds.
const A_MOMENT: u64 = 1000;

/// Requests that a thread has in mind; a power of two.
const PLACES: usize = 256;

thread_local! {
    /// Hash, and the tick at which it was noted.
    static NOTED: [Cell<(u64, u64)>; PLACES] = const { [const { Cell::new((0, 0)) }; PLACES] };
}

/// Stands for the site, host and target of a request.
pub fn place(site: &Site, request: &Request) -> u64 {
    static SEED: OnceLock<DefaultHashBuilder> = OnceLock::new();
    let mut hasher = SEED.get_or_init(DefaultHashBuilder::default).build_hasher();
    hasher.write_usize(std::ptr::from_ref(site).addr());
    hasher.write(request.authority().as_bytes());
    hasher.write_u8(0);
    hasher.write(request.head.path_query());
    hasher.finish().max(1)
}

/// Whether it has been noted a moment ago.
pub fn is_noted(place: u64, ticks: u64) -> bool {
    NOTED.with(|noted| {
        let (known, since) = noted[place as usize % PLACES].get();
        known == place && ticks < since + A_MOMENT
    })
}

/// Notes it.
pub fn note(place: u64, ticks: u64) {
    NOTED.with(|noted| noted[place as usize % PLACES].set((place, ticks)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_holds_for_a_moment() {
        assert!(!is_noted(7, 0));
        note(7, 10);
        assert!(is_noted(7, 10) && is_noted(7, 10 + A_MOMENT - 1));
        assert!(!is_noted(7, 10 + A_MOMENT));
        note(7 + PLACES as u64, 10);
        assert!(!is_noted(7, 10), "its place was taken");
    }
}
