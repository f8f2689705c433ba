//! The memory budget of all connections in all event loops, and each connection's part of it.
//!
//! Nothing is counted per request. A connection's fixed memory is counted when it comes and when it goes; its
//! buffers, including the kernel's, when the sweep of its event loop checks active connections
//! (`HasDeadline::weigh`).

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// An idle connection, bytes: a kilobyte in the process - its task, its state, the runtime's part - and three in the
/// kernel (socket, file, the entry in epoll). Measured with thousands of them; `scenarios/10-budget` measures it
/// again.
pub const PLAIN_BYTES: u64 = 4 << 10;
/// What TLS adds: keys, their state, the session, the client's name.
pub const TLS_BYTES: u64 = 4 << 10;
/// What HTTP/2 adds: the library's tables and queues.
pub const H2_BYTES: u64 = 22 << 10;
/// A request in progress, with its head and the state of its response.
pub const REQUEST_BYTES: u64 = 3 << 10;

/// The part of the budget that is freed when it is used up: otherwise each further connection would have to free
/// memory again.
const FREED: u64 = 16;
/// The part of the budget that stays even if the machine has little memory left.
const LEAST: u64 = 4;

/// Memory for connections. Bytes everywhere.
#[derive(Debug)]
pub struct Budget {
    /// The setting.
    written: AtomicU64,
    /// The setting, or less while the machine has less.
    most: AtomicU64,
    used: AtomicU64,
}

impl Budget {
    /// With `most` bytes (0: unlimited).
    pub fn new(most: u64) -> Arc<Budget> {
        let most = unbounded(most);
        Arc::new(Budget { written: most.into(), most: most.into(), used: AtomicU64::new(0) })
    }

    /// Changes the maximum.
    pub fn change(&self, most: u64) {
        self.written.store(unbounded(most), Relaxed);
        self.most.store(unbounded(most), Relaxed);
    }

    /// The machine has `available` bytes left, of which `kept` must stay free: connections must not use that part.
    pub fn heed(&self, available: u64, kept: u64) {
        let written = self.written.load(Relaxed);
        let room = self.used().saturating_add(available).saturating_sub(kept);
        self.most.store(written.min(room.max(written / LEAST)), Relaxed);
    }

    /// Memory of all connections.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// The current maximum; `None`: unlimited.
    pub fn most(&self) -> Option<u64> {
        Some(self.most.load(Relaxed)).filter(|most| *most != u64::MAX)
    }

    /// The maximum if the machine has enough memory.
    pub fn written(&self) -> Option<u64> {
        Some(self.written.load(Relaxed)).filter(|most| *most != u64::MAX)
    }

    /// Whether it is used up.
    pub fn is_full(&self) -> bool {
        self.used() >= self.most.load(Relaxed)
    }

    /// Whether it is exceeded by a quarter: existing connections have grown.
    pub fn is_far_exceeded(&self) -> bool {
        let most = self.most.load(Relaxed);
        self.used() > most.saturating_add(most / 4)
    }

    /// Bytes to free, if it is used up.
    pub fn excess(&self) -> u64 {
        let most = self.most.load(Relaxed);
        if self.used() >= most { self.used() - (most - most / FREED) } else { 0 }
    }

    fn replace(&self, before: u64, now: u64) {
        if now >= before {
            self.used.fetch_add(now - before, Relaxed);
        } else {
            self.used.fetch_sub(before - now, Relaxed);
        }
    }
}

fn unbounded(most: u64) -> u64 {
    if most == 0 { u64::MAX } else { most }
}

/// A part of a budget, released on drop.
#[derive(Debug)]
pub struct Holding {
    budget: Arc<Budget>,
    /// The fixed part.
    base: Cell<u64>,
    /// The current part beyond it.
    more: Cell<u64>,
}

impl Holding {
    /// A fixed part of `base` bytes.
    pub fn new(budget: &Arc<Budget>, base: u64) -> Holding {
        budget.replace(0, base);
        Holding { budget: budget.clone(), base: Cell::new(base), more: Cell::new(0) }
    }

    /// Adds to the fixed part.
    pub fn grow(&self, bytes: u64) {
        self.base.update(|base| base + bytes);
        self.budget.replace(0, bytes);
    }

    /// Sets the part beyond the fixed one.
    pub fn set(&self, bytes: u64) {
        let before = self.more.replace(bytes);
        if before != bytes {
            self.budget.replace(before, bytes);
        }
    }

    /// Releases everything, because the owner is about to end. Returns how much that was.
    pub fn give_back(&self) -> u64 {
        let all = self.base.replace(0) + self.more.replace(0);
        self.budget.replace(all, 0);
        all
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_given_back() {
        let budget = Budget::new(1000);
        let one = Holding::new(&budget, 400);
        one.grow(100);
        one.set(300);
        one.set(200);
        assert_eq!((budget.used(), budget.is_full(), budget.excess()), (700, false, 0));
        let other = Holding::new(&budget, 300);
        assert!(budget.is_full());
        assert_eq!(budget.excess(), 1000 - (1000 - 1000 / 16));
        assert_eq!((other.give_back(), other.give_back()), (300, 0));
        assert_eq!(budget.used(), 700);
        drop((one, other));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn without_a_bound_it_is_never_full() {
        let budget = Budget::new(0);
        let _held = Holding::new(&budget, 1 << 40);
        assert_eq!((budget.is_full(), budget.most(), budget.excess()), (false, None, 0));
        budget.change(1 << 30);
        assert!(budget.is_full() && budget.most() == Some(1 << 30));
    }

    #[test]
    fn a_machine_without_memory_has_less_for_connections() {
        let budget = Budget::new(1000);
        let _held = Holding::new(&budget, 500);
        budget.heed(2000, 100);
        assert_eq!(budget.most(), Some(1000), "there is enough");
        budget.heed(150, 100);
        assert_eq!(budget.most(), Some(550), "50 more and no further");
        budget.heed(0, 100);
        assert_eq!((budget.most(), budget.is_full()), (Some(400), true));
        budget.heed(0, 5000);
        assert_eq!((budget.most(), budget.written()), (Some(250), Some(1000)), "something stays for them");
        budget.heed(5000, 100);
        assert_eq!(budget.most(), Some(1000));
    }
}
