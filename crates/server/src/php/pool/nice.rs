//! How much workers give way to others when the processor is short: what visitors wait for gives way to what those who work
//! at the site wait for, or with so many visitors they could not even look what is wrong.
//!
//! A process may always give way more, but less only with a right of its own (CAP_SYS_NICE, RLIMIT_NICE). Without that, a
//! worker that has given way runs nothing any more that gives way less; there is another one for that.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, getpriority_process, setpriority_process};

use super::WorkersShared;
use crate::php::worker::Worker;

/// What this process may do about it.
#[derive(Debug)]
pub struct Niceness {
    /// The server's own.
    base: i32,
    /// A process can be made to give way less than it did.
    lowers: AtomicBool,
}

impl Niceness {
    /// That of this process; `wanted`: it will be needed.
    pub fn of_this_process(wanted: bool) -> Niceness {
        let base = getpriority_process(None).unwrap_or(0);
        // On a thread that ends with the attempt: what can't be taken back stays.
        let attempt =
            move || setpriority_process(None, base + 1).and_then(|()| setpriority_process(None, base));
        let lowers = !wanted || std::thread::spawn(attempt).join().is_ok_and(|tried| tried.is_ok());
        Niceness { base, lowers: AtomicBool::new(lowers) }
    }
}

impl WorkersShared {
    /// Whether a worker that gives way can be made to give way less.
    pub fn lowers(&self) -> bool {
        self.niceness.lowers.load(Ordering::Relaxed)
    }

    /// From now on nothing can be made to give way less.
    #[cfg(test)]
    pub fn forbid_lowering(&self) {
        self.niceness.lowers.store(false, Ordering::Relaxed);
    }

    /// Has a worker give way as much as its pool does; a system call only if it did otherwise before.
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
            // It has ended, or is not ours to change: no use in trying again and again.
            _ => worker.nice = nice,
        }
    }
}
