//! Slow requests: they are logged with PHP's backtrace, terminated at their time limit, and killed if they don't end
//! then.
//!
//! ```text
//!  runs ── php.slow_log ──> logged ── 4/5 of its limit ──> logged ── its limit ──> told to end
//!     told again every 250 ms, by the host, which gets the worker out of system calls that restart after a signal,
//!     and ends programs that the worker waits for
//!     ── php.terminate_grace later ──> killed
//! ```

use std::sync::Arc;

use super::super::trace::Trace;
use super::super::worker_handle::WorkerHandle;
use super::{Chores, Supervisor};

/// Maximum time for the host's report where a worker is, milliseconds.
const TRACE_MS: u64 = 1_000;
/// Interval at which a worker is told that its request has reached its time limit, milliseconds.
const URGE_MS: u64 = 250;

/// A slow request.
pub(super) struct SlowRequest {
    handle: Arc<WorkerHandle>,
    sequence: u64,
    since: u64,
    /// Its description for the log.
    about: String,
    /// Age at which it was logged last, milliseconds.
    noted: u64,
    /// When the host was asked for the backtrace.
    asked: Option<u64>,
    /// When the worker was told to terminate it.
    ended: Option<u64>,
    /// When the worker was told so last.
    urged: u64,
}

impl SlowRequest {
    /// Whether the worker still runs this request.
    fn goes_on(&self) -> bool {
        self.handle.sequence() == self.sequence && self.handle.busy_since() == Some(self.since)
    }
}

impl Supervisor {
    /// Adds the necessary actions for a worker to `chores`; called with the pool's lock held.
    pub(super) fn judge(&self, handle: &Arc<WorkerHandle>, killing: bool, chores: &mut Chores) {
        let Some(since) = handle.busy_since() else { return };
        let age = self.now().saturating_sub(since);
        if killing {
            chores.kill.push(handle.clone());
        } else if self.is_to_be_noted(handle, 0, age) {
            chores.slow.push(handle.clone());
        }
    }

    /// Whether a request of this age is to be logged that was logged at the age of `noted`: when it is slow, and when
    /// its time is nearly up.
    fn is_to_be_noted(&self, handle: &WorkerHandle, noted: u64, age: u64) -> bool {
        let slow = Some(self.shared.settings.slow_log.as_millis() as u64).filter(|slow| *slow > 0);
        [slow, handle.nearly_late()].into_iter().flatten().any(|at| noted < at && at <= age)
    }

    /// Logs slow requests, and terminates or kills requests beyond their time limit.
    pub(super) fn see_to_slow(&mut self, handles: &[Arc<WorkerHandle>]) {
        let now = self.now();
        for handle in handles {
            // Must be read before everything else from the handle: see [`WorkerHandle`].
            let sequence = handle.sequence();
            let Some(since) = handle.busy_since() else { continue };
            if !self.slow.iter().any(|slow| Arc::ptr_eq(&slow.handle, handle) && slow.sequence == sequence) {
                let (about, asked, ended) = (handle.task().to_string(), None, None);
                let handle = handle.clone();
                self.slow.push(SlowRequest {
                    handle,
                    sequence,
                    since,
                    about,
                    noted: 0,
                    asked,
                    ended,
                    urged: 0,
                });
            }
        }
        let mut all = std::mem::take(&mut self.slow);
        all.retain_mut(|slow| {
            let goes_on = slow.goes_on();
            if slow.asked.is_some_and(|asked| !goes_on || asked + TRACE_MS <= now) {
                slow.asked = None;
                self.note(slow, now, &Trace::default());
            }
            if goes_on {
                self.see_to(slow, now);
            }
            goes_on
        });
        self.slow = all;
    }

    fn see_to(&self, slow: &mut SlowRequest, now: u64) {
        let (age, limit) = (now.saturating_sub(slow.since), slow.handle.limit());
        // What it sends while it ends does not give it more time.
        if slow.ended.is_some() || limit.is_some_and(|limit| limit <= age) {
            self.end(slow, now);
        } else if self.is_to_be_noted(&slow.handle, slow.noted, age) {
            slow.handle.set_slow(slow.sequence);
            slow.noted = age;
            match self.host_of(&slow.handle).map(|host| host.trace(slow.handle.slot)) {
                Some(Ok(())) => slow.asked = Some(now),
                _ => self.note(slow, now, &Trace::default()),
            }
        }
    }

    /// The request has reached its time limit.
    fn end(&self, slow: &mut SlowRequest, now: u64) {
        let handle = &slow.handle;
        let grace = self.shared.settings.terminate_grace;
        match slow.ended {
            None => {
                self.shared.log.error(format_args!(
                    "{} exceeded its time limit after {}: terminating its script (PHP worker {}); see {}",
                    slow.about,
                    seconds(now - slow.since),
                    handle.pid(),
                    handle.limited_by()
                ));
                slow.ended = Some(now);
                slow.urged = now;
                handle.terminate(slow.sequence);
                if grace.is_zero() {
                    handle.kill();
                }
            }
            Some(ended) if ended + grace.as_millis() as u64 <= now => {
                if !handle.is_killed() {
                    self.shared.log.error(format_args!(
                        "{} is still running {} after its time limit: killing PHP worker {}; see php.terminate_grace",
                        slow.about,
                        seconds(now - ended),
                        handle.pid()
                    ));
                }
                handle.kill();
            }
            Some(ended) if slow.urged + URGE_MS <= now => {
                slow.urged = now;
                let waits = handle.scoreboard.is_terminating(handle.slot, slow.sequence);
                // At the end of the grace period, programs that its shutdown functions have started are killed with it.
                let at_last = ended + grace.as_millis() as u64 <= now + URGE_MS;
                // Not both: a worker that was just interrupted is not in a system call, so the host would find none.
                match self.host_of(handle) {
                    Some(host) if waits || at_last => host.let_go(handle.slot, at_last),
                    None if waits => handle.urge(),
                    _ => (),
                }
            }
            Some(_) => (),
        }
    }

    /// The host has reported a worker's backtrace.
    pub(super) fn traced(&mut self, slot: u32, pid: u32, sequence: u64, text: &[u8]) {
        self.trace_for_insight((slot, pid, sequence), text);
        let now = self.now();
        let mut all = std::mem::take(&mut self.slow);
        let asked = all.iter_mut().find(|slow| {
            let handle = &slow.handle;
            (handle.slot, handle.pid(), slow.sequence) == (slot, pid, sequence) && slow.asked.is_some()
        });
        if let Some(slow) = asked {
            slow.asked = None;
            self.note(slow, now, &Trace::read(text));
        }
        self.slow = all;
    }

    /// Logs a slow request.
    fn note(&self, slow: &SlowRequest, now: u64, trace: &Trace) {
        let waits = trace.waits().map(|what| format!("; waiting {what}")).unwrap_or_default();
        self.shared.log.warn(format_args!(
            "slow: {} has been running for {} (PHP worker {}){waits}{trace}",
            slow.about,
            seconds(now.saturating_sub(slow.since)),
            slow.handle.pid()
        ));
    }
}

/// Milliseconds as text for people.
fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}
