//! How many workers there are: when another is forked, and which ones end.

use std::time::Duration;

use super::{Seat, Stage, State};
use crate::php::worker::Worker;

/// Workers beyond `workers` that may be forked for requests that workers themselves wait for.
pub const EXTRA: usize = 4;

impl State {
    /// Raises the level so that there is a worker for each waiter that may run. True if the supervisor has to act.
    pub(super) fn raise(&mut self, lowers: bool) -> bool {
        let needed = self.needed(lowers);
        self.level = self.level.max(needed.min(self.lanes.most()));
        needed > self.live()
    }

    /// Workers that there have to be now: one for each waiter that may run and finds none idle. More than there may be, if
    /// one has to end for another that gives way less.
    fn needed(&self, lowers: bool) -> usize {
        let fitting = self.lanes.least_nice_waiting().map_or(0, |nice| self.idle.fitting(nice, lowers));
        let missing = self.lanes.startable().saturating_sub(self.starting() + fitting);
        self.live() + missing
    }
}

/// Takes out idle workers that are to end: all when the pool retires, else those that are too many, those in whose place
/// one has to be that gives way less, and those that have been idle for too long and are not kept as spare.
pub fn retire_idle(
    state: &mut State,
    spare: usize,
    timeout: Duration,
    now: u64,
    lowers: bool,
) -> Vec<Box<Worker>> {
    if state.stage != Stage::Serving {
        return state.idle.take_if(|_| true);
    }
    let most = state.lanes.most_now();
    let (too_many, nice) = (state.live() > most, state.lanes.least_nice_waiting());
    let mut surplus = state.needed(lowers).max(state.live()).saturating_sub(most);
    let mut taken = state.idle.take_if(|worker| {
        let ends = surplus > 0 && (too_many || nice.is_some_and(|nice| worker.nice > nice));
        surplus -= usize::from(ends);
        ends
    });
    let mut many = state.idle.len().saturating_sub(spare);
    let Some(limit) = now.checked_sub(timeout.as_millis() as u64) else { return taken };
    let old = state.idle.take_if(|worker| {
        let ends = many > 0 && worker.idle_since <= limit;
        many -= usize::from(ends);
        ends
    });
    state.level = state.level.saturating_sub(old.len());
    taken.extend(old);
    taken
}

/// How many workers there should be.
pub fn wanted(state: &State, lowers: bool) -> usize {
    let needed = state.needed(lowers).min(state.lanes.most_now());
    match state.stage {
        Stage::Serving => state.level.min(state.lanes.most()).max(needed),
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
