//! The status of a pool for people.

use std::cmp::Reverse;
use std::fmt::Debug;
use std::time::Duration;

use millrace_settings::plan::{PhpPool, Rewind};
use millrace_wire::frames::{STATE_BACKGROUND, STATE_EXITING, STATE_STARTING};

use super::pool::figures::SlowFigure;
use super::pool::pools::Pools;
use super::pool::{Seat, WorkerSet, WorkersShared, WorkersState};
use super::worker_handle::WorkerHandle;
use millrace_base::context::Clock;
use millrace_base::context::stats::{BusyWorker, PhpStatus, PoolStatus, SlowScript, WorkerStatus};

impl WorkerSet {
    /// The pool's status; `name` is how people know it.
    pub fn status(&self, name: &str) -> PhpStatus {
        let shared = self.shared();
        let now = shared.since_epoch(Clock::default().now());
        let mut state = shared.lock();
        let slowest = state.slowest.list(now).into_iter().map(slow).collect();
        let mut status = PhpStatus {
            name: name.to_owned(),
            php_version: state
                .started
                .as_ref()
                .map(|started| started.php_version.clone())
                .unwrap_or_default(),
            most: state.pools.most() as u64,
            waiting: state.pools.waiting() as u64,
            trouble: state.trouble.clone(),
            most_how: state.how.clone(),
            pools: pools(&state.pools, &shared.settings.pools, now),
            slowest,
            ..PhpStatus::default()
        };
        for seat in state.seats() {
            match seat {
                Seat::Free => (),
                Seat::Starting(..) | Seat::Booting(_) => status.starting += 1,
                Seat::Live(handle) => {
                    let (state, count) = count(&mut status, handle);
                    *count += 1;
                    status.memory += handle.memory();
                    status.each.push(WorkerStatus {
                        pid: handle.pid(),
                        state,
                        requests: handle.requests(),
                        memory: handle.memory(),
                        own: handle.own_memory(),
                    });
                    status.busy.extend(busy(handle, now));
                }
                Seat::Leaving(..) | Seat::Ended(_) => status.exiting += 1,
            }
        }
        let scoreboard = state.scoreboard.clone();
        drop(state);
        status.rewind = scoreboard.and_then(|scoreboard| scoreboard.rewind());
        if let Some(rewind) = status.rewind.as_mut().filter(|_| shared.settings.rewind == Rewind::Auto) {
            rewind.compared = Some(shared.comparisons.status());
        }
        status.busy.sort_by_key(|worker| Reverse(worker.time));
        status
    }
}

impl WorkerSet {
    /// Whether a request for which no client waits may run: a worker is idle, no request waits for one, and if there
    /// may be more than one worker, another one is left for the next visitor.
    pub fn is_at_leisure(&self) -> bool {
        self.shared().is_at_leisure()
    }
}

impl WorkersShared {
    /// Whether one more request can run at once, and another one after it.
    pub fn has_room(&self) -> bool {
        let state = self.lock();
        state.pools.waiting() == 0 && busy_workers(&state) + 1 < state.pools.most()
    }

    /// The same as of the [`WorkerSet`].
    pub fn is_at_leisure(&self) -> bool {
        let state = self.lock();
        let (busy, most) = (busy_workers(&state), state.pools.most());
        // A pool that has ended all its workers counts, too.
        let has_worker = state.idle.len() > 0 || busy == 0;
        has_worker && state.pools.waiting() == 0 && (most == 1 || busy + 1 < most)
    }
}

/// How many workers have a request.
fn busy_workers(state: &WorkersState) -> usize {
    let is_busy = |seat: &&Seat| matches!(seat, Seat::Live(handle) if handle.is_busy());
    state.seats().iter().filter(is_busy).count()
}

/// The status of each pool.
pub fn pools<T: Debug>(all: &Pools<T>, pools: &[PhpPool], now: u64) -> Vec<PoolStatus> {
    let pools = all.iter().zip(pools);
    let milliseconds = |wait: f64| Duration::from_micros((wait * 1e3) as u64);
    let status = pools.map(|((id, pool), settings)| {
        let waits = pool.figures.waits(now);
        PoolStatus {
            name: settings.name.clone(),
            running: pool.running as u64,
            workers: pool.share.workers as u64,
            limit: pool.limit().min(all.most_now()) as u64,
            waiting: pool.queue.waiters.len() as u64,
            queue: settings.queue as u64,
            held_to: (pool.throttle != usize::MAX).then_some(pool.throttle as u64),
            waiting_room: pool.queue.places() as u64,
            expected_wait: pool.expected_wait(all.at_once(id)).map(milliseconds),
            overloaded: pool
                .queue
                .admission
                .was_overloaded_since()
                .map(|since| Duration::from_millis(now.saturating_sub(since))),
            service: pool.queue.admission.mean().map(milliseconds),
            served: pool.figures.served,
            refused: pool.figures.refused,
            late: pool.figures.late,
            waited: waits.count,
            wait_mean: waits.mean,
            wait_most: waits.most,
        }
    });
    status.collect()
}

fn slow(slow: SlowFigure) -> SlowScript {
    let [script, page] = [slow.script, slow.page].map(|text| String::from_utf8_lossy(&text).into_owned());
    SlowScript { script, page, most: slow.most, count: slow.count }
}

fn busy(handle: &WorkerHandle, now: u64) -> Option<BusyWorker> {
    let since = handle.busy_since()?;
    Some(BusyWorker {
        pid: handle.pid(),
        background: handle.scoreboard.state(handle.slot) == STATE_BACKGROUND,
        script: String::from_utf8_lossy(&handle.task().script).into_owned(),
        time: Duration::from_millis(now.saturating_sub(since)),
        memory: handle.memory(),
    })
}

/// What a worker does, and its counter. This module knows better than the scoreboard whether it has a request.
fn count<'s>(status: &'s mut PhpStatus, handle: &WorkerHandle) -> (&'static str, &'s mut u64) {
    match (handle.scoreboard.state(handle.slot), handle.is_busy()) {
        (STATE_EXITING, _) => ("exiting", &mut status.exiting),
        (STATE_BACKGROUND, true) => ("background", &mut status.background),
        (_, true) => ("running", &mut status.running),
        (STATE_STARTING, false) => ("starting", &mut status.starting),
        (_, false) => ("idle", &mut status.idle),
    }
}
