//! A request's way to a worker: one that is idle, or waiting for one.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::gate::Rank;
use super::lane::LaneId;
use super::waiters::{Line, Place, Short};
use super::{Lease, Shared, Stage, State};
use crate::engine::Thread;
use crate::php::loopback::Ports;
use crate::php::worker::Worker;

/// Why a request gets no worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many wait as may.
    Full,
    /// It has waited as long as it may.
    Timeout,
    /// More comes than can be served.
    Overload,
    /// The site's persistent workers do not boot.
    Unbooted,
    /// Its client has gone.
    Gone,
}

/// What has to be known of a request only if it waits.
#[derive(Debug, Default)]
pub struct Asker {
    /// Whether its site knows who it is.
    pub rank: Rank,
    /// Its connection, if that begins on this machine.
    pub local: Option<Ports>,
    /// Its frame, if it can be sent by others.
    pub short: Option<Short>,
}

impl Shared {
    /// A worker for a request of this thread in this lane, waiting for one if need be; `asker` is called then. A worker that
    /// was waited for has got the request already if that is short, and is
    /// [`Phase::Running`](crate::php::worker::Phase::Running). When `gone` is ready nobody waits for the answer any more.
    /// Cancel-safe.
    ///
    /// # Errors
    /// Too many wait, or more comes than can be served, or it took too long, or nobody waits any more.
    pub async fn acquire(
        self: &Arc<Self>,
        thread: &Rc<Thread>,
        lane: LaneId,
        asker: impl FnOnce() -> Asker,
        gone: impl Future<Output = ()>,
    ) -> Result<Lease, Refused> {
        let (waiting, mut woken) = match self.take_or_queue(thread, lane, asker)? {
            Turn::Now(lease) => return Ok(lease),
            Turn::Later(waiting, woken) => (waiting, woken),
        };
        let enough = async {
            match waiting.patience {
                Some(time) => tokio::time::sleep(Duration::from_millis(time)).await,
                // The supervisor lets go of those that have waited too long.
                None => std::future::pending().await,
            }
        };
        let lease = tokio::select! {
            biased;
            lease = &mut woken => lease,
            () = gone => return Err(Refused::Gone),
            () = enough => {
                if waiting.give_up() {
                    return Err(Refused::Overload);
                }
                // A worker is on its way.
                woken.await
            }
        };
        let refused = if waiting.patience.is_some() { Refused::Overload } else { Refused::Timeout };
        std::mem::forget(waiting);
        if !lease.as_ref().is_ok_and(Lease::is_begun) {
            thread.clock.read();
        }
        lease.map_err(|_| self.or_unbooted(refused))
    }

    fn take_or_queue(
        self: &Arc<Self>,
        thread: &Thread,
        lane: LaneId,
        asker: impl FnOnce() -> Asker,
    ) -> Result<Turn<'_>, Refused> {
        let now = |mut worker: Box<Worker>| {
            self.make_way(&mut worker);
            Ok(Turn::Now(Lease { worker: Some(worker), shared: self.clone() }))
        };
        let taken = self.take_idle(&mut self.lock(), thread.index, lane);
        if let Some(worker) = taken {
            return now(worker);
        }
        let Asker { rank, local, short } = asker();
        let mut state = self.lock();
        if let Some(worker) = self.take_idle(&mut state, thread.index, lane) {
            drop(state);
            return now(worker);
        }
        if state.cannot_boot() {
            // It is tried again for somebody.
            state.level = state.level.max(1);
            return Err(Refused::Unbooted);
        }
        let ending = state.stage >= Stage::Stopping(0);
        let at_once = state.lanes.at_once(lane);
        let queue = state.lanes.get_mut(lane);
        // Those for whom another worker is forked do not wait in its sense.
        let most = self.settings.pools[lane.index()].queue + at_once.saturating_sub(queue.running);
        if queue.waiters.len() >= most || ending {
            queue.figures.refused += 1;
            return Err(Refused::Full);
        }
        let now = self.since_epoch(thread.clock.now());
        let (line, full) = queue.admit(now, rank, at_once).ok_or(Refused::Overload)?;
        let leaves = if full { queue.waiters.take_oldest_brief() } else { None };
        if leaves.is_some() {
            queue.refused(now);
        }
        let patience = (line == Line::Brief).then(|| queue.gate.patience());
        let (wake, woken) = oneshot::channel();
        let place = queue.waiters.push(thread.index, line, now, local, short, wake);
        let act = state.raise(self.lowers());
        drop(state);
        drop(leaves);
        if act {
            self.wake();
        }
        Ok(Turn::Later(Waiting { shared: self, lane, place, patience }, woken))
    }

    /// Why somebody was let go that had waited.
    fn or_unbooted(&self, why: Refused) -> Refused {
        if self.lock().cannot_boot() { Refused::Unbooted } else { why }
    }

    /// An idle worker for this lane, if one more may run for it.
    fn take_idle(&self, state: &mut State, thread: usize, lane: LaneId) -> Option<Box<Worker>> {
        if !state.lanes.may_run(lane) {
            return None;
        }
        let nice = state.lanes.get(lane).nice;
        let mut worker = state.idle.take(thread, nice, self.lowers())?;
        state.begin(&mut worker, lane);
        Some(worker)
    }
}

/// What a request gets.
enum Turn<'a> {
    Now(Lease),
    Later(Waiting<'a>, oneshot::Receiver<Lease>),
}

/// Takes a waiter out of the queue when it stops waiting.
struct Waiting<'a> {
    shared: &'a Shared,
    lane: LaneId,
    place: Place,
    /// It leaves when it has waited for so long, milliseconds.
    patience: Option<u64>,
}

impl Waiting<'_> {
    /// It has waited for long enough; false if a worker is on its way.
    fn give_up(&self) -> bool {
        let mut state = self.shared.lock();
        let lane = state.lanes.get_mut(self.lane);
        let left = lane.waiters.take_out(self.place);
        if left.is_some() {
            lane.refused(self.shared.since_epoch(Instant::now()));
        }
        left.is_some()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(offer) = self.shared.lock().lanes.get_mut(self.lane).waiters.remove(self.place) {
            // Whoever has the worker finds out that it runs this when it has finished the last one.
            offer.card.scoreboard.abort(offer.card.slot, offer.sequence);
        }
    }
}
