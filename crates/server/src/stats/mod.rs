//! Counters: one table, one slot a thread, no lock and no shared cache line on the path of a request.

mod table;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use table::{ALL, Counter, Kind, Row, TABLE};

/// The counters of one thread; only that thread writes them.
#[repr(align(128))]
pub struct Slot {
    values: [AtomicU64; TABLE.len()],
}

impl Slot {
    /// Adds `n` to a counter or gauge.
    pub fn add(&self, counter: Counter, n: u64) {
        // One writer: a plain load and store would do, and costs no locked instruction.
        let value = &self.values[counter as usize];
        value.store(value.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Takes `n` from a gauge.
    pub fn sub(&self, counter: Counter, n: u64) {
        let value = &self.values[counter as usize];
        value.store(value.load(Ordering::Relaxed).wrapping_sub(n), Ordering::Relaxed);
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

/// All slots.
#[derive(Debug)]
pub struct Registry {
    slots: Vec<Arc<Slot>>,
}

impl Registry {
    /// Slots for that many threads.
    pub fn new(threads: usize) -> Arc<Registry> {
        let slot = || Arc::new(Slot { values: [const { AtomicU64::new(0) }; TABLE.len()] });
        Arc::new(Registry { slots: (0..threads).map(|_| slot()).collect() })
    }

    /// The slot of a thread.
    pub fn slot(&self, thread: usize) -> Arc<Slot> {
        self.slots[thread].clone()
    }

    /// Sum over all threads.
    pub fn value(&self, counter: Counter) -> u64 {
        self.slots
            .iter()
            .map(|s| s.values[counter as usize].load(Ordering::Relaxed))
            .fold(0, u64::wrapping_add)
    }
}
