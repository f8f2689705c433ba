//! How much memory workers have, and how many there may be for it. A few files of `/proc` are read a second, and only
//! while workers work: it costs nobody on the path of a request anything.
//!
//! What counts is a worker's own memory: what would be free if it ended. Code, opcache and what the host has left it are
//! shared. The largest that was seen is kept, and forgotten slowly: what a worker has needed it may need again.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use super::super::pool::Seat;
use super::super::pool::growth::{GrowthVerdict, MemoryRoom};
use super::super::worker_handle::WorkerHandle;
use super::Supervisor;
use crate::context;

/// Pause before the same is logged again, milliseconds.
const LOG_MS: u64 = 60_000;
/// A worker that has run fewer requests is not grown yet.
const GROWN: u64 = 10;
/// Least bound for a worker's memory where none is written, bytes.
const LEAST_BOUND: u64 = 256 << 20;

/// What is known of the workers' memory.
#[derive(Default)]
pub(super) struct MemoryWatch {
    looked: u64,
    decided: u64,
    logged: u64,
    /// By process.
    known: HashMap<u32, WorkerMemory>,
    /// How many of the last decisions wanted fewer workers.
    lower: u32,
    said: usize,
    /// Most bytes that a worker may have of its own where that is not written; 0: no bound.
    bound: u64,
}

/// A worker.
#[derive(Clone, Copy, Default)]
struct WorkerMemory {
    /// Requests that it had finished when it was looked at.
    requests: u64,
    /// When that was.
    at: u64,
    /// Most that it has been seen to have of its own, fading.
    most: u64,
    /// Looks in a row at which it had too much.
    over: u32,
}

impl Supervisor {
    /// Looks at one worker, and decides now and then.
    pub(super) fn weigh(&mut self) {
        let (now, times) = (self.now(), self.shared.times);
        if now < self.memory.looked + times.look_ms {
            return;
        }
        self.memory.looked = now;
        let handles = self.live_cards();
        self.memory.known.retain(|pid, _| handles.iter().any(|handle| handle.pid() == *pid));
        // The one that was looked at longest ago and has had requests since; all others are as they were.
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
        // It is looked at again when it has finished what it runs.
        let finished = handle.requests().saturating_sub(u64::from(handle.is_busy()));
        (known.requests, known.at, known.most) = (finished, now, size.own.max(faded));
        known.over = if bound > 0 && size.own > bound { known.over + 1 } else { 0 };
        // In the middle of a request it may have much that it gives back.
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

    /// Decides how many workers there may be.
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
    /// What would be free if it ended.
    own: u64,
}

impl Size {
    /// That of a process; `None` if it has ended.
    fn of(pid: u32) -> Option<Size> {
        // The second one tells less - what was never written since the fork counts as its own - but to everybody.
        let exact = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
            .ok()
            .and_then(|text| Size::of_rollup(&text));
        exact.or_else(|| Size::of_statm(&fs::read_to_string(format!("/proc/{pid}/statm")).ok()?))
    }

    /// proc(5), `/proc/pid/smaps`: a line `Name: 123 kB` each.
    fn of_rollup(text: &str) -> Option<Size> {
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
        };
        let own = bytes("Private_Clean")? + bytes("Private_Dirty")? + bytes("Swap").unwrap_or(0);
        Some(Size { resident: bytes("Rss")?, own })
    }

    /// proc(5), `/proc/pid/statm`: pages; the second number is those in memory, the third those of them that have a file.
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
