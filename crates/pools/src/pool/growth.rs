//! The number of workers: when another one is forked, which ones end, and how many there may be.

use std::fmt;
use std::time::Duration;

use super::{Seat, ServiceStage, WorkersState};
use crate::worker::Worker;

/// Workers beyond `workers` that may be forked for requests for which workers themselves wait.
pub const EXTRA: usize = 4;

impl WorkersState {
    /// Raises the level so that there is a worker for each waiter that may run. True if the supervisor must act.
    pub fn raise(&mut self, lowers: bool) -> bool {
        let needed = self.needed(lowers);
        self.level = self.level.max(needed.min(self.pools.most()));
        needed > self.live()
    }

    /// Workers needed now: one for each waiter that may run and finds none idle. This can exceed the maximum, if a
    /// worker has to end for another one with less niceness.
    fn needed(&self, lowers: bool) -> usize {
        let fitting = self.pools.least_nice_waiting().map_or(0, |nice| self.idle.fitting(nice, lowers));
        let missing = self.pools.startable().saturating_sub(self.starting() + fitting);
        self.live() + missing
    }
}

/// Takes out idle workers that are to end: all when the pool retires, otherwise the surplus, workers whose place is
/// needed for one with less niceness, and workers that have been idle for too long and are not needed as spare.
pub fn retire_idle(
    state: &mut WorkersState,
    spare: usize,
    timeout: Duration,
    now: u64,
    lowers: bool,
) -> Vec<Box<Worker>> {
    if state.stage != ServiceStage::Serving {
        return state.idle.take_if(|_| true);
    }
    let most = state.pools.most_now();
    let (too_many, nice) = (state.live() > most, state.pools.least_nice_waiting());
    let mut surplus = state.needed(lowers).max(state.live()).saturating_sub(most);
    let mut taken = state.idle.take_if(|worker| {
        let ends = surplus > 0 && (too_many || nice.is_some_and(|nice| worker.nice > nice));
        surplus -= usize::from(ends);
        ends
    });
    taken.extend(state.idle.take_if(|worker| worker.handle.is_outgrown()));
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

/// Target number of workers.
pub fn wanted(state: &WorkersState, lowers: bool) -> usize {
    let needed = state.needed(lowers).min(state.pools.most_now());
    match state.stage {
        ServiceStage::Serving => state.level.min(state.pools.most()).max(needed),
        ServiceStage::Retiring => needed,
        ServiceStage::Stopping(_) | ServiceStage::Over => 0,
    }
}

/// Free seats for missing workers.
pub fn free_seats(state: &WorkersState, wanted: usize) -> Vec<usize> {
    let missing = wanted.saturating_sub(state.live());
    let free = state.seats().iter().enumerate().filter(|(_, seat)| matches!(seat, Seat::Free));
    free.map(|(slot, _)| slot).take(missing).collect()
}

/// The part of the memory free for workers that they may use, percent. The rest is a reserve: a machine that swaps is
/// down.
const PART: u64 = 75;
/// Minimum size assumed for a worker, bytes.
const LEAST: u64 = 8 << 20;

/// Memory, and how many workers it has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRoom {
    /// Memory that workers have or could have: all but what others use. Bytes.
    free: u64,
    /// Private memory of a worker, bytes.
    each: u64,
    /// Number of workers at the measurement.
    measured: usize,
    /// Absolute maximum of workers.
    ceiling: usize,
}

/// The consequence for the number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowthVerdict {
    /// No change.
    Stay,
    /// There are too many, if this lasts for a moment.
    Lower,
    /// Set this number now.
    Change(usize),
}

impl MemoryRoom {
    /// Room in `free` bytes for workers of these sizes.
    pub fn new(free: u64, sizes: &[u64], ceiling: usize) -> MemoryRoom {
        let mean = sizes.iter().sum::<u64>() / (sizes.len() as u64).max(1);
        MemoryRoom { free, each: mean.max(LEAST), measured: sizes.len(), ceiling }
    }

    /// Bytes that workers may use together.
    pub fn share(&self) -> u64 {
        self.free / 100 * PART
    }

    fn by_memory(&self) -> usize {
        usize::try_from(self.share() / self.each).unwrap_or(usize::MAX)
    }

    /// The consequence if `now` workers are allowed. Small changes count as none; the number falls only if that is
    /// wanted for the third time in a row.
    pub fn verdict(&self, now: usize, lower: u32) -> GrowthVerdict {
        let most = self.by_memory().clamp(1, self.ceiling.max(1));
        if most == now || (most.abs_diff(now) < now.div_ceil(8) && most != self.ceiling) {
            GrowthVerdict::Stay
        } else if most > now || lower >= 2 {
            GrowthVerdict::Change(most)
        } else {
            GrowthVerdict::Lower
        }
    }

    /// What is wrong with this number of workers if it was configured; `None`: nothing.
    pub fn warning(&self) -> Option<String> {
        let written = self.ceiling;
        (self.by_memory() < written).then(|| {
            format!(
                "php.workers = {written} needs more memory than available: {}; lower it to {}, or the machine may swap",
                self.sum(),
                self.by_memory().max(1)
            )
        })
    }

    fn sum(&self) -> String {
        let (free, each, measured) = (self.free as f64 / f64::from(1 << 30), self.each >> 20, self.measured);
        let plural = if measured == 1 { "" } else { "s" };
        format!(
            "{PART} % of {free:.1} GB free / {each} MB per worker (measured over {measured} worker{plural})"
        )
    }
}

impl fmt::Display for MemoryRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sum())?;
        match self.by_memory() {
            by_memory if by_memory > self.ceiling => {
                write!(f, " would be {by_memory}, limited to {} for this number of cores", self.ceiling)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn as_many_as_the_memory_has_room_for() {
        let room = MemoryRoom::new(6246 * MB, &[100 * MB, 120 * MB, 110 * MB], 100);
        assert_eq!(room.verdict(16, 0), GrowthVerdict::Change(42));
        assert_eq!(room.to_string(), "75 % of 6.1 GB free / 110 MB per worker (measured over 3 workers)");
        let room = MemoryRoom::new(64 << 30, &[40 * MB], 16);
        assert_eq!(room.verdict(8, 0), GrowthVerdict::Change(16));
        assert!(
            room.to_string()
                .ends_with("(measured over 1 worker) would be 1228, limited to 16 for this number of cores")
        );
        assert_eq!(
            MemoryRoom::new(10 * MB, &[100 * MB], 16).verdict(1, 9),
            GrowthVerdict::Stay,
            "one there is always"
        );
    }

    #[test]
    fn fewer_only_after_a_while_and_not_for_a_trifle() {
        let room = MemoryRoom::new(4000 * MB, &[100 * MB], 100);
        assert_eq!(room.verdict(40, 0), GrowthVerdict::Lower);
        assert_eq!(
            (room.verdict(40, 1), room.verdict(40, 2)),
            (GrowthVerdict::Lower, GrowthVerdict::Change(30))
        );
        assert_eq!([27, 30, 33].map(|now| room.verdict(now, 9)), [GrowthVerdict::Stay; 3]);
    }

    #[test]
    fn who_decides_himself_is_warned() {
        assert_eq!(MemoryRoom::new(4000 * MB, &[100 * MB], 20).warning(), None);
        let warning = MemoryRoom::new(4000 * MB, &[100 * MB], 31).warning().unwrap();
        assert!(
            warning.contains("php.workers = 31 needs more") && warning.contains("lower it to 30"),
            "{warning}"
        );
    }
}
