//! A request's way to a worker: one that is idle, or waiting for one.

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::lane::LaneId;
use super::waiters::{Place, Short};
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
}

impl Shared {
    /// A worker for a request of this thread in this lane, waiting for one if need be. `local`: its connection, if that
    /// begins on this machine. `short` makes its frame if it can be sent by others; a worker that was waited for has got it
    /// then and is [`Phase::Running`](crate::php::worker::Phase::Running). Cancel-safe.
    ///
    /// # Errors
    /// Too many wait, or it took too long.
    pub async fn acquire(
        self: &Arc<Self>,
        thread: &Rc<Thread>,
        lane: LaneId,
        local: Option<Ports>,
        short: impl FnOnce() -> Option<Short>,
    ) -> Result<Lease, Refused> {
        let (waiting, woken) = match self.take_or_queue(thread, lane, local, short)? {
            Turn::Now(lease) => return Ok(lease),
            Turn::Later(waiting, woken) => (waiting, woken),
        };
        // The supervisor lets go of those that have waited too long.
        let lease = woken.await;
        std::mem::forget(waiting);
        if !lease.as_ref().is_ok_and(Lease::is_begun) {
            thread.clock.read();
        }
        lease.map_err(|_| Refused::Timeout)
    }

    fn take_or_queue(
        self: &Arc<Self>,
        thread: &Thread,
        lane: LaneId,
        local: Option<Ports>,
        short: impl FnOnce() -> Option<Short>,
    ) -> Result<Turn<'_>, Refused> {
        let now = |mut worker: Box<Worker>| {
            self.make_way(&mut worker);
            Ok(Turn::Now(Lease { worker: Some(worker), shared: self.clone() }))
        };
        let taken = self.take_idle(&mut self.lock(), thread.index, lane);
        if let Some(worker) = taken {
            return now(worker);
        }
        let short = short();
        let mut state = self.lock();
        if let Some(worker) = self.take_idle(&mut state, thread.index, lane) {
            drop(state);
            return now(worker);
        }
        let ending = state.stage >= Stage::Stopping(0);
        let queue = &mut state.lanes.get_mut(lane).waiters;
        if queue.len() >= self.settings.pools[lane.index()].queue || ending {
            return Err(Refused::Full);
        }
        let (wake, woken) = oneshot::channel();
        let now = self.since_epoch(thread.clock.now());
        let place = queue.push(thread.index, now, local, short, wake);
        let act = state.raise(self.lowers());
        drop(state);
        if act {
            self.wake();
        }
        Ok(Turn::Later(Waiting { shared: self, lane, place }, woken))
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
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(offer) = self.shared.lock().lanes.get_mut(self.lane).waiters.remove(self.place) {
            // Whoever has the worker finds out that it runs this when it has finished the last one.
            offer.card.scoreboard.abort(offer.card.slot, offer.sequence);
        }
    }
}
