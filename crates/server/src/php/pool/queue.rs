//! A request's way to a worker: one that is idle, or waiting for one.

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::admission::Rank;
use super::places::KeptPlace;
use super::pools::PoolId;
use super::request_queue::Applicant;
use super::waiters::{QueuePlace, Short};
use super::{Lease, ServiceStage, WorkersShared, WorkersState};
use crate::php::PhpThread;
use crate::php::loopback::Ports;
use crate::php::worker::Worker;

/// Why a request gets no worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRefusal {
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
pub struct Arrival {
    /// Who asks.
    pub from: Applicant,
    /// Its connection, if that begins on this machine.
    pub local: Option<Ports>,
    /// Its frame, if it can be sent by others.
    pub short: Option<Short>,
}

impl WorkersShared {
    /// A worker for a request of this rank and thread in this pool, waiting for one if need be; `asker` is called then. A worker that
    /// was waited for has got the request already if that is short, and is
    /// [`Phase::Running`](crate::php::worker::WorkerPhase::Running). When `gone` is ready nobody waits for the answer any more.
    /// Cancel-safe.
    ///
    /// # Errors
    /// Too many wait, or more comes than can be served, or it took too long, or nobody waits any more.
    pub async fn acquire(
        self: &Arc<Self>,
        thread: &Rc<PhpThread>,
        pool: PoolId,
        rank: Rank,
        asker: impl FnOnce() -> Arrival,
        gone: impl Future<Output = ()>,
    ) -> Result<Lease, QueueRefusal> {
        let (waiting, woken) = match self.take_or_queue(thread, pool, rank, asker)? {
            QueueStep::Now(lease) => return Ok(lease),
            QueueStep::Later(waiting, woken) => (waiting, woken),
        };
        let lease = tokio::select! {
            biased;
            // The supervisor lets go of those that have waited too long.
            lease = woken => lease,
            () = gone => return Err(QueueRefusal::Gone),
        };
        std::mem::forget(waiting);
        if !lease.as_ref().is_ok_and(Lease::is_begun) {
            thread.clock.read();
        }
        lease.map_err(
            |_| if self.lock().cannot_boot() { QueueRefusal::Unbooted } else { QueueRefusal::Timeout },
        )
    }

    /// A place in the waiting room for a browser whose request was refused; `None`: there are too many.
    pub fn keep_place(&self, thread: &PhpThread, pool: PoolId, from: &Applicant) -> Option<KeptPlace> {
        let now = self.since_epoch(thread.clock.now());
        let mut state = self.lock();
        let at_once = state.pools.at_once(pool);
        state.pools.get_mut(pool).keep_place(now, from, at_once)
    }

    fn take_or_queue(
        self: &Arc<Self>,
        thread: &PhpThread,
        pool: PoolId,
        rank: Rank,
        asker: impl FnOnce() -> Arrival,
    ) -> Result<QueueStep<'_>, QueueRefusal> {
        let now = |mut worker: Box<Worker>| {
            self.make_way(&mut worker);
            Ok(QueueStep::Now(Lease { worker: Some(worker), shared: self.clone() }))
        };
        let taken = self.take_idle(&mut self.lock(), thread.index, pool, rank);
        if let Some(worker) = taken {
            return now(worker);
        }
        let Arrival { from, local, short } = asker();
        let mut state = self.lock();
        if let Some(worker) = self.take_idle(&mut state, thread.index, pool, rank) {
            drop(state);
            return now(worker);
        }
        if state.cannot_boot() {
            // It is tried again for somebody.
            state.level = state.level.max(1);
            return Err(QueueRefusal::Unbooted);
        }
        let ending = state.stage >= ServiceStage::Stopping(0);
        let at_once = state.pools.at_once(pool);
        let queue = state.pools.get_mut(pool);
        // Those for whom another worker is forked do not wait in its sense.
        let most = self.settings.pools[pool.index()].queue + at_once.saturating_sub(queue.running);
        if queue.queue.waiters.len() >= most || ending {
            queue.figures.refused += 1;
            return Err(QueueRefusal::Full);
        }
        let now = self.since_epoch(thread.clock.now());
        let turn = queue.admit(now, &from, at_once).ok_or(QueueRefusal::Overload)?;
        let (wake, woken) = oneshot::channel();
        let place = queue.queue.waiters.push(thread.index, turn, now, local, short, wake);
        let act = state.raise(self.lowers());
        drop(state);
        if act {
            self.wake();
        }
        Ok(QueueStep::Later(QueueGuard { shared: self, pool, place }, woken))
    }

    /// An idle worker for a request of that rank of this pool, if one more may run.
    fn take_idle(
        &self,
        state: &mut WorkersState,
        thread: usize,
        pool: PoolId,
        rank: Rank,
    ) -> Option<Box<Worker>> {
        if !state.pools.may_run_for(pool, rank) {
            return None;
        }
        let nice = state.pools.get(pool).nice;
        let mut worker = state.idle.take(thread, nice, self.lowers())?;
        state.begin(&mut worker, pool, rank);
        Some(worker)
    }
}

/// What a request gets.
enum QueueStep<'a> {
    Now(Lease),
    Later(QueueGuard<'a>, oneshot::Receiver<Lease>),
}

/// Takes a waiter out of the queue when it stops waiting.
struct QueueGuard<'a> {
    shared: &'a WorkersShared,
    pool: PoolId,
    place: QueuePlace,
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        if let Some(offer) = self.shared.lock().pools.get_mut(self.pool).queue.waiters.remove(self.place) {
            // Whoever has the worker finds out that it runs this when it has finished the last one.
            offer.handle.scoreboard.abort(offer.handle.slot, offer.sequence);
        }
    }
}
