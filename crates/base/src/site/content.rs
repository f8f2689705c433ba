//! How much content requests bring to a site, since its configuration was read: what was more than `body_bytes`, and the most that a
//! script has got. The doctor compares it with the limits.

use std::sync::atomic::{AtomicU64, Ordering};

/// The figures of a site.
#[derive(Debug, Default)]
pub struct ContentFigures {
    refused: AtomicU64,
    largest_refused: AtomicU64,
    largest: AtomicU64,
}

impl ContentFigures {
    /// A script gets so many bytes.
    pub fn note(&self, bytes: u64) {
        if bytes > self.largest() {
            self.largest.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// A client has announced so many bytes, or sent them, and got 413.
    pub fn note_refused(&self, bytes: u64) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.largest_refused.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Requests that got 413.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The most that one of them would have brought, as far as it is known, bytes.
    pub fn largest_refused(&self) -> u64 {
        self.largest_refused.load(Ordering::Relaxed)
    }

    /// The most that a script has got, bytes.
    pub fn largest(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }
}
