//! A request's way to a worker: one that is idle, or waiting for one.

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::waiters::{Place, Short};
use super::{Lease, Shared, Stage};
use crate::engine::Thread;
use crate::php::loopback::Ports;

/// Why a request gets no worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many wait as may.
    Full,
    /// It has waited as long as it may.
    Timeout,
}

impl Shared {
    /// A worker for a request of this thread, waiting for one if need be. `local`: its connection, if that
    /// begins on this machine. `short` makes its frame if it can be sent by others; a worker that was waited for has got it
    /// then and is [`Phase::Running`](crate::php::worker::Phase::Running). Cancel-safe.
    ///
    /// # Errors
    /// Too many wait, or it took too long.
    pub async fn acquire(
        self: &Arc<Self>,
        thread: &Rc<Thread>,
        local: Option<Ports>,
        short: impl FnOnce() -> Option<Short>,
    ) -> Result<Lease, Refused> {
        let (waiting, woken) = match self.take_or_queue(thread, local, short)? {
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
        local: Option<Ports>,
        short: impl FnOnce() -> Option<Short>,
    ) -> Result<Turn<'_>, Refused> {
        let now = |worker| Ok(Turn::Now(Lease { worker: Some(worker), shared: self.clone() }));
        if let Some(worker) = self.lock().idle.take(thread.index) {
            return now(worker);
        }
        let short = short();
        let mut state = self.lock();
        if let Some(worker) = state.idle.take(thread.index) {
            return now(worker);
        }
        if state.waiters.len() >= self.settings.queue || state.stage >= Stage::Stopping(0) {
            return Err(Refused::Full);
        }
        let (wake, woken) = oneshot::channel();
        let now = self.since_epoch(thread.clock.now());
        let place = state.waiters.push(thread.index, now, local, short, wake);
        let act = state.raise(self.settings.workers);
        drop(state);
        if act {
            self.wake();
        }
        Ok(Turn::Later(Waiting { shared: self, place }, woken))
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
    place: Place,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(offer) = self.shared.lock().waiters.remove(self.place) {
            // Whoever has the worker finds out that it runs this when it has finished the last one.
            offer.card.scoreboard.abort(offer.card.slot, offer.sequence);
        }
    }
}
