//! What a connection holds beside what it is made of, and how long its client has not moved: by that it is decided who makes room
//! for others ([`crate::connection::HasDeadline`]).

use std::cell::Cell;

use super::phase::ConnectionPhase;
use crate::connection::{Rest, SWEEP_MS};

/// What a connection weighs. Bytes of memory, and ticks of the thread's clock.
#[derive(Debug)]
pub(super) struct Weight {
    /// When its client last moved.
    moved: Cell<u64>,
    /// What is under way: requests with their contents, and what has to wait of their answers until the client takes it.
    at_work: Cell<usize>,
    /// It held more than what it is made of when that was last looked at.
    holds_more: Cell<bool>,
    /// It was ended because others need the room.
    gave_way: Cell<bool>,
}

impl Weight {
    /// That of a connection that begins at `now`.
    pub(super) fn new(now: u64) -> Weight {
        Weight {
            moved: Cell::new(now),
            at_work: Cell::new(0),
            holds_more: Cell::new(false),
            gave_way: Cell::new(false),
        }
    }

    /// Its client last moved at that time.
    pub(super) fn moved(&self, at: u64) {
        self.moved.set(at);
    }

    /// What is under way takes so much.
    pub(super) fn works_with(&self, bytes: usize) {
        self.at_work.set(bytes);
    }

    /// It ends because others need the room.
    pub(super) fn give_way(&self) {
        self.gave_way.set(true);
    }

    /// Whether it has.
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

    /// What a connection in this phase holds now, `others` beside what is under way; `None` if that is known. Who is at rest, and
    /// was when that was last looked at, holds nothing but what it is made of. What a short answer has left in the kernel is seen
    /// if it is not older than a sweep.
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
