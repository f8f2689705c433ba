//! Asks the host where the busy workers are, and about PHP itself, when that is asked for (`GET /php.json`).

use std::time::Duration;

use super::super::trace::Trace;
use super::super::worker_handle::WorkerHandle;
use super::Supervisor;
use crate::pool::Seat;
use millrace_base::context::stats::RunningScript;

impl Supervisor {
    /// Asks, if that is wanted.
    pub(super) fn look_into_php(&mut self) {
        let shared = self.shared.clone();
        let Some(needs_host) = shared.insight.take_wanted(self.clock.now()) else { return };
        let now = self.now();
        let state = shared.lock();
        let live = state.seats().iter().filter_map(|seat| match seat {
            Seat::Live(handle) => Some(handle.clone()),
            _ => None,
        });
        let live: Vec<_> = live.collect();
        drop(state);
        let running: Vec<_> =
            live.iter().filter_map(|handle| Some((handle, running(handle, now)?))).collect();
        let pending = running.iter().map(|(_, run)| run.clone()).collect();
        let host = self.host.as_ref().filter(|_| needs_host);
        // Expected before they are asked for: the answers may come at once.
        shared.insight.expect(pending, host.is_some());
        for (handle, run) in &running {
            if self.host_of(handle).is_none_or(|host| host.trace(handle.slot).is_err()) {
                shared.insight.traced((run.slot, run.pid, run.sequence), None, &[]);
            }
        }
        if host.is_some_and(|host| host.ask().is_err()) {
            shared.insight.reported("", self.clock.now());
        }
    }

    /// A worker's backtrace has arrived.
    pub(super) fn trace_for_insight(&self, id: (u32, u32, u64), text: &[u8]) {
        let trace = Trace::read(text);
        self.shared.insight.traced(id, trace.waits(), &trace.frames);
    }
}

/// What a busy worker runs.
fn running(handle: &WorkerHandle, now: u64) -> Option<RunningScript> {
    // Must be read before everything else from the handle: see [`WorkerHandle`].
    let sequence = handle.sequence();
    let since = handle.busy_since()?;
    let task = handle.task();
    let text = |bytes| String::from_utf8_lossy(bytes).replace(char::is_control, "?");
    Some(RunningScript {
        slot: handle.slot,
        pid: handle.pid(),
        sequence,
        script: text(&task.script),
        page: format!("{}{}", task.host, text(task.path())),
        time: Duration::from_millis(now.saturating_sub(since)),
        ..RunningScript::default()
    })
}
