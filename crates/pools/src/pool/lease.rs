//! Exclusive access to a worker.

use std::sync::Arc;
use std::time::Instant;

use super::WorkersShared;
use crate::worker::{Worker, WorkerPhase};

/// Exclusive access to a worker. What happens on drop depends on what the worker is doing: it returns to the pool,
/// the supervisor looks after it until it has finished, or it is closed.
#[derive(Debug)]
pub struct Lease {
    pub(super) worker: Option<Box<Worker>>,
    pub(super) shared: Arc<WorkersShared>,
}

impl Lease {
    /// The worker.
    pub fn worker(&mut self) -> &mut Worker {
        // Only `drop` and `finish`, which consume the lease, take it out.
        self.worker.as_mut().expect("a lease has a worker")
    }

    /// Whether the worker has got the request, or was lost while it was sent.
    pub fn is_begun(&self) -> bool {
        self.worker.as_ref().is_some_and(|worker| worker.phase() != WorkerPhase::Ready)
    }

    /// Gives the worker back at the time `now`. One that has not finished goes on alone: the rest of its response is
    /// not needed.
    pub fn finish(mut self, now: Instant) {
        if let Some(worker) = self.worker.take() {
            self.give_back(worker, now);
        }
    }

    fn give_back(&self, worker: Box<Worker>, now: Instant) {
        let now = self.shared.since_epoch(now);
        match worker.phase() {
            WorkerPhase::Ready => self.shared.release(worker, now),
            WorkerPhase::Gone => self.shared.discard(worker, now),
            WorkerPhase::Booting | WorkerPhase::Running | WorkerPhase::Background => {
                self.shared.leave(worker, now)
            }
        }
    }
}

impl Drop for Lease {
    /// The request is abandoned: its client has gone.
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            if worker.phase() == WorkerPhase::Running {
                worker.abort();
            }
            self.give_back(worker, Instant::now());
        }
    }
}
