//! Persistent workers boot their script before they take requests. Only the supervisor's thread waits for a boot.
//!
//! The supervisor repeats a failed boot after increasing pauses. While none succeeds, and no booted worker is left,
//! requests are refused at once: the log and `status` say why.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Instant;

use super::super::pool::pools::PoolId;
use super::super::pool::{Seat, WorkersShared};
use super::super::worker::{Worker, WorkerPhase};
use super::super::worker_handle::{Task, WorkerHandle};
use super::Supervisor;

impl Supervisor {
    /// A newly forked worker boots.
    pub(super) fn boot(&mut self, handle: Arc<WorkerHandle>, socket: OwnedFd) {
        self.shared.begin_boot(&handle, self.clock.now());
        self.left.push(Box::new(Worker::booting(handle, socket)));
    }

    /// A worker's boot is over: it succeeded or failed.
    pub(super) fn booted(&mut self, worker: Box<Worker>) {
        let now = self.now();
        if worker.phase() != WorkerPhase::Ready {
            return self.unbooted(worker);
        }
        let handle = worker.handle.clone();
        handle.set_booted();
        handle.end();
        let mut state = self.shared.lock();
        let slot = handle.slot as usize;
        if handle.generation == state.generation && matches!(state.seats().get(slot), Some(Seat::Booting(_)))
        {
            state.set_seat(slot, Seat::Live(handle));
            state.found_to_boot();
        }
        self.shared.place(state, worker, now);
    }

    fn unbooted(&mut self, worker: Box<Worker>) {
        let now = self.now();
        let handle = worker.handle.clone();
        let mut state = self.shared.lock();
        if handle.generation == state.generation {
            state.unbooted += 1;
            state.note_death(now);
            let trouble = why_unbooted(&worker);
            let again = state.spawn_at.saturating_sub(now);
            let refused = if state.cannot_boot() { "; its requests get 503 until it boots" } else { "" };
            self.shared.log.error(format_args!("{trouble}; retrying in {again} ms{refused}"));
            state.trouble = Some(trouble);
        }
        let refused: Vec<_> = if state.cannot_boot() {
            state.pools.iter_mut().flat_map(|pool| pool.queue.waiters.take_older(u64::MAX)).collect()
        } else {
            Vec::new()
        };
        drop(state);
        drop(refused);
        self.shared.discard(worker, now);
    }
}

impl WorkersShared {
    /// Sets what the worker's handle shows during the boot, and the boot's time limit.
    pub fn begin_boot(&self, handle: &WorkerHandle, now: Instant) {
        let script = self.settings.worker.as_ref().map(|worker| worker.file.as_os_str().as_bytes().to_vec());
        let task = |task: &mut Task| {
            *task = Task {
                method: "the boot of".to_owned(),
                script: script.unwrap_or_default(),
                ..Task::default()
            };
        };
        handle.begin(task, self.since_epoch(now), self.limit(PoolId::FRONT));
    }
}

/// Why a worker did not boot, as text.
pub fn why_unbooted(worker: &Worker) -> String {
    let handle = &worker.handle;
    let script = String::from_utf8_lossy(&handle.task().script).into_owned();
    match worker.unbooted() {
        Some(why) => format!("{script} failed to boot: {why}"),
        None if handle.is_killed() => {
            format!("{script} failed to boot: it took too long and was killed")
        }
        None => format!("{script} failed to boot: its process {} exited", handle.pid()),
    }
}
