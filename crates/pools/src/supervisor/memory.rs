//! The workers' memory, and the number of workers for which memory suffices. The supervisor reads a few files of
//! `/proc` a second, and only while workers run requests; the path of a request is not affected.
//!
//! Only private memory counts. Code, opcache and memory inherited from the host are shared. The watch stores the
//! maximum that it saw and lets it decay slowly: a worker may need again what it has needed before.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use super::super::pool::Seat;
use super::super::pool::growth::{GrowthVerdict, MemoryRoom};
use super::super::worker_handle::WorkerHandle;
use super::Supervisor;
use millrace_base::context;

/// Minimum interval between two log entries, milliseconds.
const LOG_MS: u64 = 60_000;
/// A worker that has run fewer requests may still grow.
const GROWN: u64 = 10;
/// Minimum memory limit of a worker if the settings have none, bytes.
const LEAST_BOUND: u64 = 256 << 20;

/// Measurements of the workers' memory.
#[derive(Default)]
pub(super) struct MemoryWatch {
    looked: u64,
    decided: u64,
    logged: u64,
    /// By process ID.
    known: HashMap<u32, WorkerMemory>,
    /// Number of the latest decisions in a row that wanted fewer workers.
    lower: u32,
    said: usize,
    /// Maximum private memory of a worker if the settings have none, bytes; 0: no limit.
    bound: u64,
}

/// The measurements of a worker.
#[derive(Clone, Copy, Default)]
struct WorkerMemory {
    /// Requests that it had finished at the last measurement.
    requests: u64,
    /// The time of the last measurement.
    at: u64,
    /// The decaying maximum of its private memory, bytes.
    most: u64,
    /// Number of measurements in a row above the limit.
    over: u32,
}

impl Supervisor {
    /// Measures one worker, and from time to time decides on the number of workers.
    pub(super) fn weigh(&mut self) {
        let (now, times) = (self.now(), self.shared.times);
        if now < self.memory.looked + times.look_ms {
            return;
        }
        self.memory.looked = now;
        let handles = self.live_cards();
        self.memory.known.retain(|pid, _| handles.iter().any(|handle| handle.pid() == *pid));
        // The worker that was measured longest ago and has had requests since; idle workers do not change.
        let known = |handle: &WorkerHandle| self.memory.known.get(&handle.pid()).copied().unwrap_or_default();
        let changed = handles.iter().filter(|handle| handle.requests() > known(handle).requests);
        if let Some(handle) = changed.min_by_key(|handle| known(handle).at).cloned() {
            self.weigh_one(&handle, now);
        }
        if now >= self.memory.decided + times.decide_ms {
            self.memory.decided = now;
            self.decide(&handles, now);
        }
    }

    fn live_cards(&self) -> Vec<Arc<WorkerHandle>> {
        let state = self.shared.lock();
        let live = state.seats().iter().filter_map(|seat| match seat {
            Seat::Live(handle) => Some(handle.clone()),
            _ => None,
        });
        live.collect()
    }

    fn weigh_one(&mut self, handle: &WorkerHandle, now: u64) {
        let Some(size) = Size::of(handle.pid()) else { return };
        handle.set_memory(size.resident, size.own);
        let bound = self.shared.settings.worker_memory.unwrap_or(self.memory.bound);
        let known = self.memory.known.entry(handle.pid()).or_default();
        let faded = known.most - known.most / 64;
        // It is measured again after its running request.
        let finished = handle.requests().saturating_sub(u64::from(handle.is_busy()));
        (known.requests, known.at, known.most) = (finished, now, size.own.max(faded));
        known.over = if bound > 0 && size.own > bound { known.over + 1 } else { 0 };
        // In the middle of a request, a worker may have much memory that it frees at the end.
        if known.over > u32::from(handle.is_busy()) && handle.set_outgrown() {
            self.shared.log.info(format_args!(
                "PHP worker {} uses {} MB of private memory after {} requests, more than {} MB (php.worker_memory): \
                 replacing it",
                handle.pid(),
                size.own >> 20,
                handle.requests(),
                bound >> 20
            ));
        }
    }

    /// Decides how many workers may run.
    fn decide(&mut self, handles: &[Arc<WorkerHandle>], now: u64) {
        let grown: Vec<u64> =
            self.memory.known.values().filter(|known| known.requests >= GROWN).map(|k| k.most).collect();
        let Some(available) = context::available_memory() else { return };
        let ours: u64 = handles.iter().map(|handle| handle.own_memory()).sum();
        let settings = &self.shared.settings;
        let room = MemoryRoom::new(available + ours, &grown, settings.workers);
        self.memory.bound = (room.share() / self.shared.lock().pools.most() as u64 * 2).max(LEAST_BOUND);
        if grown.is_empty() {
            return;
        }
        if !settings.workers_measured {
            if let Some(text) = room.warning().filter(|_| self.memory.said == 0) {
                self.memory.said = settings.workers;
                self.shared.log.warn(format_args!("{text}"));
            }
            return;
        }
        let mut state = self.shared.lock();
        let before = state.pools.most();
        match room.verdict(before, self.memory.lower) {
            GrowthVerdict::Stay => self.memory.lower = 0,
            GrowthVerdict::Lower => self.memory.lower += 1,
            GrowthVerdict::Change(most) => {
                self.memory.lower = 0;
                state.pools.set_most(most);
                state.level = state.level.min(most);
            }
        }
        let most = state.pools.most();
        state.how = Some(room.to_string());
        self.shared.pump(state, now);
        if self.memory.said == 0
            || most.abs_diff(self.memory.said) > self.memory.said / 4 && now > self.memory.logged + LOG_MS
        {
            (self.memory.said, self.memory.logged) = (most, now);
            self.shared.log.info(format_args!("php.workers = {most}: {room}"));
        }
    }
}

/// A process's memory, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    resident: u64,
    /// Memory that would become free if the process ended.
    own: u64,
}

impl Size {
    /// The memory of a process; `None` if it has ended.
    fn of(pid: u32) -> Option<Size> {
        // The second one is less exact (pages not written since the fork count as private), but always readable.
        let exact = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
            .ok()
            .and_then(|text| Size::of_rollup(&text));
        exact.or_else(|| Size::of_statm(&fs::read_to_string(format!("/proc/{pid}/statm")).ok()?))
    }

    /// Reads `/proc/pid/smaps_rollup` (proc(5)): lines `Name: 123 kB`.
    fn of_rollup(text: &str) -> Option<Size> {
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
        };
        let own = bytes("Private_Clean")? + bytes("Private_Dirty")? + bytes("Swap").unwrap_or(0);
        Some(Size { resident: bytes("Rss")?, own })
    }

    /// Reads `/proc/pid/statm` (proc(5)), in pages: the second number is resident memory, the third its file-backed
    /// part.
    fn of_statm(text: &str) -> Option<Size> {
        let mut pages = text.split(' ').skip(1).map_while(|number| number.parse::<u64>().ok());
        let (resident, shared) = (pages.next()?, pages.next()?);
        let page = rustix::param::page_size() as u64;
        Some(Size { resident: resident * page, own: resident.saturating_sub(shared) * page })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let text = "55c0-7ffe ---p 00000000 00:00 0    [rollup]\nRss:               74000 kB\nPss:               33000 kB\n\
                    Private_Clean:        16 kB\nPrivate_Dirty:     21000 kB\nSwap:                 84 kB\n";
        assert_eq!(Size::of_rollup(text), Some(Size { resident: 74_000 << 10, own: 21_100 << 10 }));
        let page = rustix::param::page_size() as u64;
        assert_eq!(
            Size::of_statm("9000 700 500 1 0 80 0\n"),
            Some(Size { resident: 700 * page, own: 200 * page })
        );
        assert_eq!((Size::of_rollup("Rss: 1 kB"), Size::of_statm("")), (None, None));
        let own = Size::of(std::process::id()).unwrap();
        assert!(own.own > 0 && own.own <= own.resident);
    }
}
