//! The thread that checks a pool's connections several times a second, as long as there are any: requests beyond
//! their time limit, connections that are idle for too long, backends that are down, and how many requests should run
//! at once.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::backends::{FastcgiShared, FpmState};
use super::capacity;
use super::connection::{FastcgiConnection, WatchedSocket};
use super::processes::Processes;
use crate::pool::concurrency_limit::PoolSample;
use crate::start_error::PhpStartError;
use crate::supervisor::observe::{Observed, look, stuck};
use millrace_base::context::Clock;

/// Interval between checks while requests run: how late a time limit may take effect.
const LOOK: Duration = Duration::from_millis(100);
/// Interval between checks while none runs.
const REST: Duration = Duration::from_millis(250);

/// Starts the thread.
///
/// # Errors
/// The thread can't be started.
pub fn start(shared: &Arc<FastcgiShared>) -> Result<(), PhpStartError> {
    let processes = shared.backends.iter().map(|_| Processes::default()).collect();
    let (shared, clock, observed) = (shared.clone(), Clock::default(), Observed::default());
    let keeper = FpmKeeper { shared, clock, observed, processes };
    let thread = std::thread::Builder::new().name("php-fpm-pool".to_owned());
    let started = thread.spawn(move || keeper.run());
    started.map(drop).map_err(PhpStartError::Thread)
}

struct FpmKeeper {
    shared: Arc<FastcgiShared>,
    clock: Clock,
    observed: Observed,
    /// The processes of each backend.
    processes: Vec<Processes>,
}

/// When the next check is due.
enum Wakeup {
    After(Duration),
    WhenCalled,
    Never,
}

impl FpmKeeper {
    fn run(mut self) {
        let shared = self.shared.clone();
        loop {
            self.clock.read();
            match self.turn() {
                Wakeup::After(time) => drop(shared.called().wait_timeout(shared.lock(), time)),
                Wakeup::WhenCalled => {
                    drop(shared.called().wait_while(shared.lock(), |state| state.is_asleep));
                }
                Wakeup::Never => return,
            }
        }
    }

    /// Does what is due.
    fn turn(&mut self) -> Wakeup {
        let now = self.shared.at(self.clock.now());
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let late = state.pools.take_late(now);
        let closed = self.take_old(&mut state, now);
        state.fit(shared.most());
        state.sockets.retain(|socket| socket.strong_count() > 0);
        let sockets: Vec<Arc<WatchedSocket>> = state.sockets.iter().filter_map(Weak::upgrade).collect();
        let next = next(&mut state);
        drop(state);
        drop((late, closed));
        sockets.iter().for_each(|socket| socket.look(now));
        shared.backends.iter().for_each(|backend| backend.forget_old(now));
        if let Some(backend) = shared.to_be_tried(now) {
            capacity::probe(shared.clone(), backend);
        }
        if self.observed.is_due(now) {
            self.observe(&sockets, now);
        }
        next
    }

    /// Takes out idle connections that have to be closed.
    fn take_old(&self, state: &mut FpmState, now: u64) -> Vec<FastcgiConnection> {
        let limit = self.shared.settings.idle_timeout.as_millis() as u64;
        let is_old = |connection: &mut FastcgiConnection| {
            connection.idle_since + limit <= now || !connection.is_alive()
        };
        let mut old: Vec<FastcgiConnection> = state.idle.extract_if(.., is_old).collect();
        old.extend(self.shared.take_starving(&mut state.idle, now));
        old
    }

    /// Observes the progress of requests, and sets how many of each pool may run at once.
    fn observe(&mut self, sockets: &[Arc<WatchedSocket>], now: u64) {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let mut seen = look(&mut state.pools);
        let stuck = stuck(&state.pools, sockets.iter().filter_map(|socket| socket.busy()), now);
        drop(state);
        if seen.iter().any(|seen| seen.finished > 0 || seen.busy > 0) {
            self.measure(&mut seen);
        }
        let mut state = shared.lock();
        let pools = &shared.settings.pools;
        let (raised, news) = self.observed.set_throttles(now, &mut state.pools, pools, &seen, &stuck);
        drop(state);
        if raised {
            shared.pump(now);
        }
        news.iter().for_each(|news| news.tell(&shared.log));
    }

    /// Adds the processor time of php-fpm's processes, if they run on this machine. It is unknown which process ran
    /// which request: all requests count the same.
    fn measure(&mut self, seen: &mut [PoolSample]) {
        let mut pids = Vec::new();
        for (backend, processes) in self.shared.backends.iter().zip(&mut self.processes) {
            if !backend.is_up() {
                continue;
            }
            let Some(found) = backend.process().and_then(|master| processes.look(master)) else {
                return backend.forget_process();
            };
            pids.extend(found.iter().map(|pid| (*pid, 0)));
        }
        let mut all = [PoolSample::default()];
        self.observed.measure(&pids, &mut all);
        let running: usize = seen.iter().map(|seen| seen.busy).sum();
        for seen in seen {
            let part = |all: u64| all * seen.busy as u64 / running.max(1) as u64;
            (seen.cpu_us, seen.ready_us) = (all[0].cpu_us.map(part), all[0].ready_us.map(part));
        }
    }
}

/// When to check again: not while nothing is open and nothing is remembered.
fn next(state: &mut FpmState) -> Wakeup {
    let is_busy = state.pools.running() + state.pools.waiting() > 0;
    if is_busy {
        return Wakeup::After(LOOK);
    }
    let is_held_back = state.pools.iter().any(|(_, pool)| pool.throttle != usize::MAX);
    if !state.sockets.is_empty() || is_held_back {
        return Wakeup::After(REST);
    }
    if state.is_retired && state.is_dropped {
        return Wakeup::Never;
    }
    state.pools.iter_mut().for_each(|pool| pool.concurrency.pause());
    state.is_asleep = true;
    Wakeup::WhenCalled
}
