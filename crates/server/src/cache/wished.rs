//! Pages that visitors with a cart have asked for and that are not in the cache. PHP makes a page for such a visitor alone, and that is never
//! stored: there would be no public page until a visitor without a cart asks for it. After the second request, an event loop makes it while
//! PHP is idle (`warm::refill`).

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millrace_pages::Key;

/// Maximum number of pages that wait; more are not taken.
const MOST: usize = 64;

/// Number of first requests that are remembered; a power of two.
const PLACES: usize = 1024;

/// The pages of all sites.
pub struct Wished(Mutex<WishedPages>);

struct WishedPages {
    /// Hashes of keys that were asked for once.
    once: Box<[u64; PLACES]>,
    waiting: Vec<Box<[u8]>>,
}

impl fmt::Debug for Wished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wished({})", self.lock().waiting.len())
    }
}

impl Default for Wished {
    fn default() -> Wished {
        Wished(Mutex::new(WishedPages { once: Box::new([0; PLACES]), waiting: Vec::new() }))
    }
}

impl Wished {
    /// A visitor with a cart has asked for the page with this key.
    pub fn note(&self, key: Key<'_>) {
        let mut wishes = self.lock();
        let once = &mut wishes.once[key.hash as usize % PLACES];
        if *once == key.hash {
            *once = 0;
            wishes.push(key.bytes);
        } else {
            *once = key.hash;
        }
    }

    /// The page with this key is needed at the first request.
    pub fn need(&self, key: &[u8]) {
        self.lock().push(key);
    }

    /// The keys of the pages that wait.
    pub fn take(&self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut self.lock().waiting)
    }

    fn lock(&self) -> MutexGuard<'_, WishedPages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WishedPages {
    fn push(&mut self, key: &[u8]) {
        if self.waiting.len() < MOST && self.waiting.iter().all(|other| **other != *key) {
            self.waiting.push(key.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_request_is_a_wish() {
        let wished = Wished::default();
        let key = |bytes: &'static [u8]| Key::new(bytes);
        wished.note(key(b"a"));
        wished.note(key(b"b"));
        assert!(wished.take().is_empty());
        for _ in 0..3 {
            wished.note(key(b"a"));
        }
        wished.need(b"a");
        wished.need(b"c");
        assert_eq!(wished.take(), [Box::from(*b"a"), Box::from(*b"c")]);
        assert!(wished.take().is_empty());
    }

    #[test]
    fn the_list_is_bounded() {
        let wished = Wished::default();
        (0..1000_u32).for_each(|n| wished.need(&n.to_le_bytes()));
        assert_eq!(wished.take().len(), MOST);
    }
}
