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
    /// was waited for has got the request already if that is short, and is [`Phase::Running`](crate::php::worker::Phase::Running). Cancel-safe.
    ///
    /// # Errors
    /// Too many wait, or more comes than can be served, or it took too long.
    pub async fn acquire(
        self: &Arc<Self>,
        thread: &Rc<Thread>,
        lane: LaneId,
        asker: impl FnOnce() -> Asker,
    ) -> Result<Lease, Refused> {
        let (waiting, mut woken) = match self.take_or_queue(thread, lane, asker)? {
            Turn::Now(lease) => return Ok(lease),
            Turn::Later(waiting, woken) => (waiting, woken),
        };
        let Some(patience) = waiting.patience else {
            // The supervisor lets go of those that have waited too long.
            let lease = woken.await;
            std::mem::forget(waiting);
            return finish(thread, lease, Refused::Timeout).map_err(|why| self.or_unbooted(why));
        };
        let lease = match tokio::time::timeout(Duration::from_millis(patience), &mut woken).await {
            Ok(lease) => lease,
            Err(_) if waiting.give_up() => return Err(Refused::Overload),
            // A worker is on its way.
            Err(_) => woken.await,
        };
        std::mem::forget(waiting);
        finish(thread, lease, Refused::Overload).map_err(|why| self.or_unbooted(why))
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
        if queue.waiters.len() >= self.settings.pools[lane.index()].queue || ending {
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

/// What has become of waiting. Whoever was not given a worker was let go.
fn finish(
    thread: &Thread,
    lease: Result<Lease, oneshot::error::RecvError>,
    refused: Refused,
) -> Result<Lease, Refused> {
    if !lease.as_ref().is_ok_and(Lease::is_begun) {
        thread.clock.read();
    }
    lease.map_err(|_| refused)
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
