//! What PHP is doing right now, for `millrace doctor`: where each busy worker is, and the host's settings and opcache.
//!
//! ```text
//!  asked (admin address) ──> the supervisor asks the host ──> reports arrive one by one ──> complete
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A report of the host about itself serves for this long: it costs a fork.
const FRESH: Duration = Duration::from_secs(1);

/// The reports of one PHP service. The lock is held for a few assignments.
#[derive(Debug, Default)]
pub struct Insight {
    state: Mutex<InsightState>,
    /// How often a new host has taken over because the opcache of the old one wanted to restart, by [`OpcacheRestart`].
    restarts: [AtomicU64; 3],
}

/// Why opcache wants to restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpcacheRestart {
    /// A script has called `opcache_reset()`.
    Reset,
    /// Its memory is full.
    Memory,
    /// It has no key left.
    Keys,
}

impl OpcacheRestart {
    /// All.
    pub const ALL: [OpcacheRestart; 3] =
        [OpcacheRestart::Reset, OpcacheRestart::Memory, OpcacheRestart::Keys];

    /// Its counter in `opcache_get_status()`.
    pub fn counter(self) -> &'static str {
        match self {
            OpcacheRestart::Reset => "manual_restarts",
            OpcacheRestart::Memory => "oom_restarts",
            OpcacheRestart::Keys => "hash_restarts",
        }
    }
}

#[derive(Debug, Default)]
struct InsightState {
    is_wanted: bool,
    awaits_host: bool,
    pending: Vec<RunningScript>,
    running: Vec<RunningScript>,
    report: String,
    reported: Option<Instant>,
}

/// A script that a worker runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunningScript {
    /// Slot of the worker.
    pub slot: u32,
    /// Process id of the worker.
    pub pid: u32,
    /// Number of the request.
    pub sequence: u64,
    /// Path of the script.
    pub script: String,
    /// Host and path of the request.
    pub page: String,
    /// For how long it has been running.
    pub time: Duration,
    /// What it waits for; empty: it computes.
    pub waits: String,
    /// Its PHP frames, the innermost first.
    pub frames: Vec<String>,
}

impl Insight {
    fn lock(&self) -> MutexGuard<'_, InsightState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new host has taken over because opcache wanted to restart.
    pub fn replaced(&self, why: OpcacheRestart) {
        self.restarts[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often that has happened for this reason.
    pub fn restarts(&self, why: OpcacheRestart) -> u64 {
        self.restarts[why as usize].load(Ordering::Relaxed)
    }

    /// Asks for new reports; the supervisor has to be woken.
    pub fn want(&self) {
        self.lock().is_wanted = true;
    }

    /// For the supervisor: whether reports are wanted and not asked for yet, and whether the host has to report about itself.
    pub fn take_wanted(&self, now: Instant) -> Option<bool> {
        let mut state = self.lock();
        let needs_host = state.reported.is_none_or(|at| now.saturating_duration_since(at) >= FRESH);
        std::mem::take(&mut state.is_wanted).then_some(needs_host)
    }

    /// For the supervisor: these reports have been asked for.
    pub fn expect(&self, pending: Vec<RunningScript>, host: bool) {
        let mut state = self.lock();
        state.running.clear();
        state.pending = pending;
        state.awaits_host = host;
    }

    /// The host has reported where a worker is. A worker that has gone on to another request meanwhile is left out.
    pub fn traced(&self, (slot, pid, sequence): (u32, u32, u64), waits: Option<String>, frames: &[String]) {
        let mut state = self.lock();
        let is_it = |run: &RunningScript| (run.slot, run.pid) == (slot, pid);
        let Some(at) = state.pending.iter().position(is_it) else { return };
        let mut run = state.pending.swap_remove(at);
        if run.sequence == sequence {
            run.waits = waits.unwrap_or_default();
            run.frames = frames.to_vec();
            state.running.push(run);
        }
    }

    /// The host has reported about itself: JSON.
    pub fn reported(&self, text: &str, now: Instant) {
        let mut state = self.lock();
        state.report = text.to_owned();
        state.reported = Some(now);
        state.awaits_host = false;
    }

    /// Whether all reports have arrived.
    pub fn is_complete(&self) -> bool {
        let state = self.lock();
        !state.is_wanted && state.pending.is_empty() && !state.awaits_host
    }

    /// What has arrived: the running scripts, and the host's last report, which may be empty. Scripts whose worker has gone on to
    /// another one are not there.
    pub fn get(&self) -> (Vec<RunningScript>, String) {
        let state = self.lock();
        (state.running.clone(), state.report.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_arrive_one_by_one() {
        let (insight, now) = (Insight::default(), Instant::now());
        assert_eq!(insight.take_wanted(now), None);
        insight.want();
        assert!(!insight.is_complete());
        assert_eq!(insight.take_wanted(now), Some(true));
        let run = |slot| RunningScript { slot, pid: 7, sequence: 9, ..RunningScript::default() };
        insight.expect(vec![run(0), run(1), run(2)], true);
        insight.traced((1, 7, 9), Some("for it".to_owned()), &["#0 f()".to_owned()]);
        // It has gone on to the next request.
        insight.traced((2, 7, 10), None, &[]);
        assert!(!insight.is_complete());
        insight.reported("{}", now);
        assert!(!insight.is_complete());
        insight.traced((0, 7, 9), None, &[]);
        assert!(insight.is_complete());
        let (running, report) = insight.get();
        assert_eq!((running.len(), &*running[0].waits, &*report), (2, "for it", "{}"));
        insight.want();
        assert_eq!(insight.take_wanted(now + FRESH / 2), Some(false));
        insight.expect(Vec::new(), false);
        assert!(insight.is_complete() && insight.get().0.is_empty());
    }
}
