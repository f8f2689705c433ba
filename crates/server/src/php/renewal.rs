//! A pool gets a new PHP while it serves: a reload is what deploys new code where opcache does not look at the files, and
//! what has a changed php.ini read.
//!
//! ```text
//!   control thread                    supervisor                               processes
//!   Pool::renew ── Prepare ─────────> starts a second host, has it fork ─────> new host, workers that wait
//!       │ Ok, or why PHP did not start <── READY, STARTED
//!   Renewal::commit ── Commit ──────> idle workers are those of the new host;  old idle workers end at once,
//!       │                             no request begins in the old PHP         the others when they have finished,
//!       │ <───────────────────────────                                         the old host with the last of them
//!   (dropped ── Cancel ─────────────> the new host ends)
//! ```
//!
//! Queue, limits and what was learned of the site's pages stay with the pool. As many workers wait for the change as the old
//! host has: no request waits for a fork. Until the old ones have finished there are up to twice as many processes, but the
//! new ones have run nothing and share their memory with their host.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::pool::{ServiceStage, WorkerSet, WorkersShared};
use super::start_error::PhpStartError;

/// What the supervisor is asked for.
#[derive(Debug)]
pub enum RenewalOrder {
    /// Start another host beside the current one; the answer is why it did not start.
    Prepare(SyncSender<Result<(), PhpStartError>>),
    /// Put it in the current one's place; told when that is done.
    Commit(SyncSender<()>),
    /// End it.
    Cancel,
}

/// A PHP that is up and waits to take over. Dropping it ends it, and the old one stays.
#[derive(Debug)]
pub struct Renewal {
    shared: Option<Arc<WorkersShared>>,
}

impl WorkerSet {
    /// Starts another PHP with the same settings, to take over from the one that runs; waits until it and as many workers
    /// as there are now are up.
    ///
    /// # Errors
    /// PHP did not start: why, in its own words where it had any. The pool is as it was.
    pub fn renew(&self) -> Result<Renewal, PhpStartError> {
        let shared = self.shared();
        let (tell, told) = sync_channel(1);
        shared.order(RenewalOrder::Prepare(tell))?;
        told.recv().unwrap_or(Err(PhpStartError::Ending))?;
        Ok(Renewal { shared: Some(shared.clone()) })
    }

    /// Takes the place of `other`, whose settings were others: begins with as many workers as that has, as far as its own
    /// settings allow.
    pub fn succeed(&self, other: &WorkerSet) {
        let workers = other.shared().lock().live();
        let mut state = self.shared().lock();
        state.level = state.level.max(workers).min(self.shared().settings.workers);
        drop(state);
        self.shared().wake();
    }
}

impl Renewal {
    /// Nothing waits to take over.
    pub fn none() -> Renewal {
        Renewal { shared: None }
    }

    /// The new PHP takes over: from here on no request begins in the old one.
    pub fn commit(mut self) {
        let Some(shared) = self.shared.take() else { return };
        let (tell, told) = sync_channel(1);
        if shared.order(RenewalOrder::Commit(tell)).is_ok() {
            // An error: the pool ends, with all that it has.
            let _ = told.recv();
        }
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            let _ = shared.order(RenewalOrder::Cancel);
        }
    }
}

impl WorkersShared {
    fn order(&self, order: RenewalOrder) -> Result<(), PhpStartError> {
        let mut state = self.lock();
        if state.stage != ServiceStage::Serving {
            return Err(PhpStartError::Ending);
        }
        // Only the control thread orders, and it waits for each to be done; only a Cancel can still be there, and what
        // follows a Cancel includes it.
        state.order = Some(order);
        drop(state);
        self.wake();
        Ok(())
    }
}
