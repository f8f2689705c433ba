//! The niceness of workers, for when the processor is short: background work yields to visitors' requests, and these
//! yield to requests of the site's staff, so that they can see what is wrong.
//!
//! A process may always raise its niceness, but lower it only with a privilege (CAP_SYS_NICE, RLIMIT_NICE). Without
//! that, a worker with raised niceness runs no request with a lower one any more; another worker does.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, getpriority_process, setpriority_process};

use super::WorkersShared;
use crate::worker::Worker;

/// What this process may change.
#[derive(Debug)]
pub struct Niceness {
    /// The server's own niceness.
    base: i32,
    /// The niceness of a process can be lowered again.
    lowers: AtomicBool,
}

impl Niceness {
    /// That of this process; `wanted`: it will be used.
    pub fn of_this_process(wanted: bool) -> Niceness {
        let base = getpriority_process(None).unwrap_or(0);
        // On a thread that ends with the attempt: a change that can't be undone stays there.
        let attempt =
            move || setpriority_process(None, base + 1).and_then(|()| setpriority_process(None, base));
        let lowers = !wanted || std::thread::spawn(attempt).join().is_ok_and(|tried| tried.is_ok());
        Niceness { base, lowers: AtomicBool::new(lowers) }
    }
}

impl WorkersShared {
    /// Whether a worker's niceness can be lowered again.
    pub fn lowers(&self) -> bool {
        self.niceness.lowers.load(Ordering::Relaxed)
    }

    /// From now on no niceness can be lowered.
    #[cfg(test)]
    pub fn forbid_lowering(&self) {
        self.niceness.lowers.store(false, Ordering::Relaxed);
    }

    /// Sets a worker's niceness to its pool's; needs a system call only if it differs.
    pub fn make_way(&self, worker: &mut Worker) {
        let nice = self.settings.pools[worker.pool.index()].nice;
        if worker.nice != nice {
            self.change(worker, nice);
        }
    }

    #[cold]
    fn change(&self, worker: &mut Worker, nice: u8) {
        let Some(pid) = Pid::from_raw(worker.handle.pid().cast_signed()) else { return };
        match setpriority_process(Some(pid), (self.niceness.base + i32::from(nice)).min(19)) {
            Err(_) if nice < worker.nice => self.niceness.lowers.store(false, Ordering::Relaxed),
            // It has ended, or may not be changed: don't try again and again.
            _ => worker.nice = nice,
        }
    }
}
