//! A pool gets a new PHP while it serves: a reload deploys new code where opcache does not look at the files, and makes
//! PHP read a changed php.ini.
//!
//! ```text
//!   control thread                    supervisor                               processes
//!   Pool::renew ── Prepare ─────────> starts a second host, has it fork ─────> new host, workers that wait
//!       │ Ok, or why PHP did not start <── READY, STARTED
//!   Renewal::commit ── Commit ──────> the new host's workers become idle;      old idle workers end at once,
//!       │                             no request begins in the old PHP         the others when they have finished,
//!       │ <───────────────────────────                                         the old host with the last of them
//!   (dropped ── Cancel ─────────────> the new host ends)
//! ```
//!
//! The same happens without an order where opcache wants to restart (`supervisor/renew.rs`).
//!
//! The queue, the limits and the knowledge about the site's pages stay with the pool. As many workers wait for the
//! change as the old host has, so no request waits for a fork. Until the old workers have finished there are up to
//! twice as many processes, but the new ones have run nothing and share their memory with their host.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::pool::{ServiceStage, WorkerSet, WorkersShared};
use super::start_error::PhpStartError;

/// An order to the supervisor.
#[derive(Debug)]
pub enum RenewalOrder {
    /// Start another host beside the current one; the result says why it did not start.
    Prepare(SyncSender<Result<(), PhpStartError>>),
    /// Replace the current host by it; reports when this is done.
    Commit(SyncSender<()>),
    /// End it.
    Cancel,
}

/// A new PHP that is ready to take over. Dropping it ends it, and the old one stays.
#[derive(Debug)]
pub struct Renewal {
    shared: Option<Arc<WorkersShared>>,
}

impl WorkerSet {
    /// Starts a new PHP with the same settings, to replace the current one; waits until it is up with as many workers
    /// as there are now.
    ///
    /// # Errors
    /// PHP did not start: the reason, if possible in its own words. The pool is unchanged.
    pub fn renew(&self) -> Result<Renewal, PhpStartError> {
        let shared = self.shared();
        let (tell, told) = sync_channel(1);
        shared.order(RenewalOrder::Prepare(tell))?;
        told.recv().unwrap_or(Err(PhpStartError::Ending))?;
        Ok(Renewal { shared: Some(shared.clone()) })
    }

    /// Takes the place of `other`, which has other settings: begins with as many workers as that one has, as far as its
    /// own settings allow.
    pub fn succeed(&self, other: &WorkerSet) {
        let workers = other.shared().lock().live();
        let mut state = self.shared().lock();
        state.level = state.level.max(workers).min(self.shared().settings.workers);
        drop(state);
        self.shared().wake();
    }
}

impl Renewal {
    /// A renewal without a new PHP.
    pub fn none() -> Renewal {
        Renewal { shared: None }
    }

    /// The new PHP takes over: from now on no request begins in the old one.
    pub fn commit(mut self) {
        let Some(shared) = self.shared.take() else { return };
        let (tell, told) = sync_channel(1);
        if shared.order(RenewalOrder::Commit(tell)).is_ok() {
            // An error means that the pool is shutting down.
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
        // Only the control thread sends orders, and it waits until each is done; only a Cancel can still be there, and
        // every order after a Cancel includes it.
        state.order = Some(order);
        drop(state);
        self.wake();
        Ok(())
    }
}
