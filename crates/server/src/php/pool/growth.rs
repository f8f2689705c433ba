//! How many workers there are: when another is forked, and which ones end.

use std::time::Duration;

use super::{Seat, Stage, State};
use crate::php::worker::Worker;

impl State {
    /// Raises the level so that there is a worker for each waiter, up to `most`. True if the supervisor has to act.
    pub(super) fn raise(&mut self, most: usize) -> bool {
        let missing = self.waiters.len().saturating_sub(self.starting());
        let wanted = (self.live() + missing).min(most);
        self.level = self.level.max(wanted);
        wanted > self.live()
    }
}

/// Takes out idle workers that are to end: all when the pool retires, else those that have been idle for too long and
/// are not kept as spare.
pub fn retire_idle(state: &mut State, spare: usize, timeout: Duration, now: u64) -> Vec<Box<Worker>> {
    if state.stage != Stage::Serving {
        return state.idle.take_if(|_| true);
    }
    let mut many = state.idle.len().saturating_sub(spare);
    let Some(limit) = now.checked_sub(timeout.as_millis() as u64) else { return Vec::new() };
    let old = state.idle.take_if(|worker| {
        let ends = many > 0 && worker.idle_since <= limit;
        many -= usize::from(ends);
        ends
    });
    state.level = state.level.saturating_sub(old.len());
    old
}

/// How many workers there should be.
pub fn wanted(state: &State, most: usize) -> usize {
    let needed = (state.live() + state.waiters.len().saturating_sub(state.starting())).min(most);
    match state.stage {
        Stage::Serving => state.level.max(needed),
        Stage::Retiring => needed,
        Stage::Stopping(_) | Stage::Over => 0,
    }
}

/// Free seats for the workers that are missing.
pub fn free_seats(state: &State, wanted: usize) -> Vec<usize> {
    let missing = wanted.saturating_sub(state.live());
    let free = state.seats().iter().enumerate().filter(|(_, seat)| matches!(seat, Seat::Free));
    free.map(|(slot, _)| slot).take(missing).collect()
}
