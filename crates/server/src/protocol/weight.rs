//! The memory of a connection beyond its fixed part, and the client's last progress: they decide which connections
//! are shed ([`crate::connection::HasDeadline`]).

use std::cell::Cell;

use super::phase::ConnectionPhase;
use crate::connection::{Rest, SWEEP_MS};

/// The weight of a connection. Bytes of memory, and ticks of the thread's clock.
#[derive(Debug)]
pub(super) struct Weight {
    /// When its client last made progress.
    moved: Cell<u64>,
    /// Work in progress: requests with their content, and parts of responses that wait for the client.
    at_work: Cell<usize>,
    /// At the last check it held more than its fixed part.
    holds_more: Cell<bool>,
    /// It was shed.
    gave_way: Cell<bool>,
}

impl Weight {
    /// The weight of a connection that begins at `now`.
    pub(super) fn new(now: u64) -> Weight {
        Weight {
            moved: Cell::new(now),
            at_work: Cell::new(0),
            holds_more: Cell::new(false),
            gave_way: Cell::new(false),
        }
    }

    /// Its client made progress at that time.
    pub(super) fn moved(&self, at: u64) {
        self.moved.set(at);
    }

    /// Sets the memory of work in progress.
    pub(super) fn works_with(&self, bytes: usize) {
        self.at_work.set(bytes);
    }

    /// It is being shed.
    pub(super) fn give_way(&self) {
        self.gave_way.set(true);
    }

    /// Whether it was shed.
    pub(super) fn gave_way(&self) -> bool {
        self.gave_way.get()
    }

    /// How a connection in this phase is at rest, if it is.
    pub(super) fn rest(&self, phase: ConnectionPhase) -> Option<Rest> {
        let stalled = match phase {
            _ if self.gave_way() => return None,
            ConnectionPhase::Idle => false,
            ConnectionPhase::Head
            | ConnectionPhase::Content
            | ConnectionPhase::Writing
            | ConnectionPhase::Lingering => true,
            ConnectionPhase::Running => return None,
        };
        Some(Rest { since: self.moved.get(), stalled })
    }

    /// The memory of a connection in this phase now, with `others` beside the work in progress; `None` if it is
    /// already known. A connection that is at rest, and was at the last check, holds only its fixed part. Rests of a
    /// short response in the kernel are seen if they are not older than a sweep.
    pub(super) fn weigh(
        &self,
        phase: ConnectionPhase,
        now: u64,
        others: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let settled = phase == ConnectionPhase::Idle && self.moved.get() + 2 * SWEEP_MS < now;
        if settled && !self.holds_more.get() || self.gave_way() {
            return None;
        }
        let bytes = self.at_work.get() as u64 + others();
        self.holds_more.set(bytes > 0);
        Some(bytes)
    }
}
