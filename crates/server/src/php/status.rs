//! A pool as people see it.

use std::cmp::Reverse;
use std::time::Duration;

use millrace_wire::frames::{STATE_BACKGROUND, STATE_EXITING, STATE_STARTING};

use super::Pool;
use super::card::Card;
use super::pool::{Seat, Shared, State};
use crate::engine::Clock;
use crate::stats::{BusyWorker, LaneStatus, PoolStatus};

impl Pool {
    /// How the pool is; `name` is what people know it by.
    pub fn status(&self, name: &str) -> PoolStatus {
        let shared = self.shared();
        let now = shared.since_epoch(Clock::default().now());
        let state = shared.lock();
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
            lanes: lanes(shared, &state, now),
            ..PoolStatus::default()
        };
        for seat in state.seats() {
            match seat {
                Seat::Free => (),
                Seat::Starting(..) => status.starting += 1,
                Seat::Live(card) => {
                    *count(&mut status, card) += 1;
                    status.memory += card.scoreboard.rss(card.slot);
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
    let status = lanes.map(|((_, lane), pool)| LaneStatus {
        name: pool.name.clone(),
        running: lane.running as u64,
        workers: lane.share.workers as u64,
        limit: lane.limit().min(state.lanes.most_now()) as u64,
        waiting: lane.waiters.len() as u64,
        queue: pool.queue as u64,
        held_to: (lane.throttle != usize::MAX).then_some(lane.throttle as u64),
        overloaded: lane
            .gate
            .overloaded_since()
            .map(|since| Duration::from_millis(now.saturating_sub(since))),
        service: lane.gate.mean().map(|mean| Duration::from_micros((mean * 1e3) as u64)),
    });
    status.collect()
}

fn busy(card: &Card, now: u64) -> Option<BusyWorker> {
    let since = card.busy_since()?;
    Some(BusyWorker {
        pid: card.pid(),
        background: card.scoreboard.state(card.slot) == STATE_BACKGROUND,
        script: String::from_utf8_lossy(&card.task().script).into_owned(),
        time: Duration::from_millis(now.saturating_sub(since)),
        memory: card.scoreboard.rss(card.slot),
    })
}

/// Where a worker is counted. Whether it has a request is known here better than by the scoreboard.
fn count<'s>(status: &'s mut PoolStatus, card: &Card) -> &'s mut u64 {
    match (card.scoreboard.state(card.slot), card.is_busy()) {
        (STATE_EXITING, _) => &mut status.exiting,
        (STATE_BACKGROUND, true) => &mut status.background,
        (_, true) => &mut status.running,
        (STATE_STARTING, false) => &mut status.starting,
        (_, false) => &mut status.idle,
    }
}
