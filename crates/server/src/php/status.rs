//! A pool as people see it.

use std::cmp::Reverse;
use std::time::Duration;

use millrace_wire::frames::{STATE_BACKGROUND, STATE_EXITING, STATE_STARTING};

use super::card::Card;
use super::pool::figures::Slow;
use super::pool::{Pool, Seat, Shared, State};
use crate::context::Clock;
use crate::context::stats::{BusyWorker, LaneStatus, PoolStatus, SlowScript, WorkerStatus};

impl Pool {
    /// How the pool is; `name` is what people know it by.
    pub fn status(&self, name: &str) -> PoolStatus {
        let shared = self.shared();
        let now = shared.since_epoch(Clock::default().now());
        let mut state = shared.lock();
        let slowest = state.slowest.list(now).into_iter().map(slow).collect();
        let mut status = PoolStatus {
            name: name.to_owned(),
            php_version: state
                .started
                .as_ref()
                .map(|started| started.php_version.clone())
                .unwrap_or_default(),
            most: state.lanes.most() as u64,
            waiting: state.lanes.waiting() as u64,
            trouble: state.trouble.clone(),
            most_how: state.how.clone(),
            lanes: lanes(shared, &state, now),
            slowest,
            ..PoolStatus::default()
        };
        let live = state.seats().iter().find_map(|seat| match seat {
            Seat::Live(card) => Some(card),
            _ => None,
        });
        status.database = live.map(|card| card.scoreboard.database()).unwrap_or_default();
        for seat in state.seats() {
            match seat {
                Seat::Free => (),
                Seat::Starting(..) | Seat::Booting(_) => status.starting += 1,
                Seat::Live(card) => {
                    let (state, count) = count(&mut status, card);
                    *count += 1;
                    status.memory += card.memory();
                    status.each.push(WorkerStatus {
                        pid: card.pid(),
                        state,
                        requests: card.requests(),
                        memory: card.memory(),
                        own: card.own_memory(),
                    });
                    status.busy.extend(busy(card, now));
                }
                Seat::Leaving(..) | Seat::Ended(_) => status.exiting += 1,
            }
        }
        drop(state);
        status.busy.sort_by_key(|worker| Reverse(worker.time));
        status
    }
}

impl Pool {
    /// Whether a request that nobody waits for may run: a worker is idle, no request waits for one, and if the most
    /// workers are more than one, there is another for the next visitor.
    pub fn is_at_leisure(&self) -> bool {
        let shared = self.shared();
        let state = shared.lock();
        let is_busy = |seat: &&Seat| matches!(seat, Seat::Live(card) if card.is_busy());
        let busy = state.seats().iter().filter(is_busy).count();
        let most = state.lanes.most();
        // A pool that has let all its workers go is at leisure as well.
        let has_worker = state.idle.len() > 0 || busy == 0;
        has_worker && state.lanes.waiting() == 0 && (most == 1 || busy + 1 < most)
    }
}

fn lanes(shared: &Shared, state: &State, now: u64) -> Vec<LaneStatus> {
    let lanes = state.lanes.iter().zip(&shared.settings.pools);
    let milliseconds = |wait: f64| Duration::from_micros((wait * 1e3) as u64);
    let status = lanes.map(|((id, lane), pool)| {
        let waits = lane.figures.waits(now);
        LaneStatus {
            name: pool.name.clone(),
            running: lane.running as u64,
            workers: lane.share.workers as u64,
            limit: lane.limit().min(state.lanes.most_now()) as u64,
            waiting: lane.queue.waiters.len() as u64,
            queue: pool.queue as u64,
            held_to: (lane.throttle != usize::MAX).then_some(lane.throttle as u64),
            waiting_room: lane.queue.places() as u64,
            expected_wait: lane.expected_wait(state.lanes.at_once(id)).map(milliseconds),
            overloaded: lane
                .queue
                .admission
                .was_overloaded_since()
                .map(|since| Duration::from_millis(now.saturating_sub(since))),
            service: lane.queue.admission.mean().map(milliseconds),
            served: lane.figures.served,
            refused: lane.figures.refused,
            late: lane.figures.late,
            waited: waits.count,
            wait_mean: waits.mean,
            wait_most: waits.most,
        }
    });
    status.collect()
}

fn slow(slow: Slow) -> SlowScript {
    let [script, page] = [slow.script, slow.page].map(|text| String::from_utf8_lossy(&text).into_owned());
    SlowScript { script, page, most: slow.most, count: slow.count }
}

fn busy(card: &Card, now: u64) -> Option<BusyWorker> {
    let since = card.busy_since()?;
    Some(BusyWorker {
        pid: card.pid(),
        background: card.scoreboard.state(card.slot) == STATE_BACKGROUND,
        script: String::from_utf8_lossy(&card.task().script).into_owned(),
        time: Duration::from_millis(now.saturating_sub(since)),
        memory: card.memory(),
    })
}

/// What a worker does, and where it is counted. Whether it has a request is known here better than by the scoreboard.
fn count<'s>(status: &'s mut PoolStatus, card: &Card) -> (&'static str, &'s mut u64) {
    match (card.scoreboard.state(card.slot), card.is_busy()) {
        (STATE_EXITING, _) => ("exiting", &mut status.exiting),
        (STATE_BACKGROUND, true) => ("background", &mut status.background),
        (_, true) => ("running", &mut status.running),
        (STATE_STARTING, false) => ("starting", &mut status.starting),
        (_, false) => ("idle", &mut status.idle),
    }
}
