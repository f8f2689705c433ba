//! What all event loops and the keeper share: the queue, idle connections, and the state of the backends.
//!
//! The lock. Places, queue and idle connections are behind one mutex, as in a pool of workers. Event loops lock it
//! twice per request: to get a place and to release it. Closing a connection doesn't need it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use millrace_settings::plan;
use tokio::sync::oneshot;

use super::backend::{Backend, Change};
use super::capacity;
use super::connection::{FastcgiConnection, WatchedSocket};
use super::keeper;
use crate::crashes::Ban;
use crate::pool::admission::Rank;
use crate::pool::pools::{PoolId, Pools};
use crate::pool::waiters::Waiter;
use crate::start_error::PhpStartError;
use crate::status::pools;
use millrace_base::context::Clock;
use millrace_base::context::log::Log;
use millrace_base::context::stats::{BackendStatus, PhpStatus};

/// How long requests wait for a backend when none is up, counted from the last one's failure: a restart takes about a
/// second.
const OUTAGE_MS: u64 = 3_000;
/// If a new connection gets no response for this long while others are idle, the idle ones may hold all processes,
/// milliseconds.
const STARVED_MS: u64 = 1_000;

/// The connections of all sites with equal `[php]` settings. Dropping it closes the unused ones.
#[derive(Debug)]
pub struct Backends {
    shared: Arc<FastcgiShared>,
}

/// The part that event loops and the keeper share.
#[derive(Debug)]
pub struct FastcgiShared {
    /// Their settings.
    pub settings: plan::Php,
    /// The error log.
    pub log: Log,
    /// Requests that kill workers; with php-fpm none is ever noted.
    pub ban: Arc<Ban>,
    /// The backends, in the order of the setting.
    pub backends: Vec<Backend>,
    epoch: Instant,
    state: Mutex<FpmState>,
    /// Connections that are open or being opened.
    permits: AtomicUsize,
    /// Wakes the keeper.
    called: Condvar,
    /// It was logged that a backend has few processes.
    told_most: AtomicBool,
}

/// What is under the lock.
#[derive(Debug)]
pub struct FpmState {
    /// Shares of the connections, each with its queue.
    pub pools: Pools<oneshot::Sender<Grant>>,
    /// Idle connections, the most recent last. The last one whose process waits for a request is taken first, so that the
    /// others age and can be closed.
    pub idle: Vec<FastcgiConnection>,
    /// The sockets of all connections.
    pub sockets: Vec<Weak<WatchedSocket>>,
    /// Another configuration has replaced them.
    pub is_retired: bool,
    /// The handle is gone: no new request can come.
    pub is_dropped: bool,
    /// The keeper sleeps until `called` wakes it.
    pub is_asleep: bool,
}

/// A place for a request, and a connection for it, if one was idle or has been opened. Dropping it passes both to the
/// next waiter.
#[derive(Debug)]
pub struct Grant {
    shared: Arc<FastcgiShared>,
    pool: PoolId,
    rank: Rank,
    connection: Option<FastcgiConnection>,
    /// When the request was complete, and how long it took, milliseconds.
    ended: Option<(u64, u64)>,
}

/// The right to have one connection open.
#[derive(Debug)]
pub struct FastcgiPermit {
    shared: Arc<FastcgiShared>,
}

/// A permit, and a backend that takes one more connection.
#[derive(Debug)]
pub struct Opening {
    permit: FastcgiPermit,
    /// The backend's number.
    pub backend: usize,
}

/// Where to open a new connection.
#[derive(Debug)]
pub enum Choice {
    /// To this backend.
    There(Opening),
    /// To none now: the backends that are up have as many as they take.
    Full,
    /// To none: all are down. One may be tested at this time, milliseconds.
    Later(u64),
    /// To none, and they have been down for so long that requests no longer wait.
    Never,
}

impl Backends {
    /// Asks the backends how many connections they take; a backend that takes none now may take some later.
    ///
    /// # Errors
    /// The keeper's thread can't be started.
    pub fn start(settings: &plan::Php, log: &Log) -> Result<Backends, PhpStartError> {
        let epoch = Instant::now();
        let state = FpmState {
            pools: Pools::new(&settings.pools, settings.workers),
            idle: Vec::new(),
            sockets: Vec::new(),
            is_retired: false,
            is_dropped: false,
            is_asleep: false,
        };
        let shared = Arc::new(FastcgiShared {
            settings: settings.clone(),
            log: log.clone(),
            ban: Ban::new(Duration::ZERO, settings.workers, epoch),
            backends: settings.fastcgi.iter().cloned().map(Backend::new).collect(),
            epoch,
            state: Mutex::new(state),
            permits: AtomicUsize::new(0),
            called: Condvar::new(),
            told_most: AtomicBool::new(false),
        });
        let backends = Backends { shared };
        capacity::ask_all(&backends.shared);
        backends.shared.lock().fit(backends.shared.most());
        keeper::start(&backends.shared)?;
        Ok(backends)
    }

    /// Asks again how many connections they take: php-fpm may have a new configuration, too.
    pub fn ask_again(&self) {
        self.shared.backends.iter().for_each(Backend::forget_seen);
        capacity::ask_all(&self.shared);
    }

    /// A new configuration replaces them: closes idle connections now, the others when they have finished.
    pub fn retire(&self) {
        let mut state = self.shared.lock();
        state.is_retired = true;
        let idle = std::mem::take(&mut state.idle);
        self.shared.stir(&mut state);
        drop(state);
        drop(idle);
    }

    /// Their status; `name` is how people know them.
    pub fn status(&self, name: &str) -> PhpStatus {
        let shared = &self.shared;
        let backends: Vec<BackendStatus> = shared.backends.iter().map(status).collect();
        let none_is_up = shared.backends.iter().all(|backend| !backend.is_up());
        let trouble = shared.backends.iter().find_map(Backend::trouble).filter(|_| none_is_up);
        let running: u64 = backends.iter().map(|backend| backend.busy).sum();
        let now = shared.at(Clock::default().now());
        let state = shared.lock();
        PhpStatus {
            name: name.to_owned(),
            most: shared.most() as u64,
            idle: state.idle.len() as u64,
            running,
            waiting: state.pools.waiting() as u64,
            pools: pools(&state.pools, &shared.settings.pools, now),
            trouble,
            backends,
            ..PhpStatus::default()
        }
    }

    /// Whether a request for which no client waits may run.
    pub fn is_at_leisure(&self) -> bool {
        let busy: usize = self.shared.backends.iter().map(|backend| backend.busy.load(Relaxed)).sum();
        self.shared.lock().pools.waiting() == 0 && (busy == 0 || busy + 1 < self.shared.most())
    }

    pub(crate) fn shared(&self) -> &Arc<FastcgiShared> {
        &self.shared
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
        self.shared.lock().is_dropped = true;
        self.retire();
    }
}

fn status(backend: &Backend) -> BackendStatus {
    BackendStatus {
        address: backend.address.to_string(),
        up: backend.is_up(),
        connections: backend.open() as u64,
        busy: backend.busy.load(Relaxed) as u64,
        most: Some(backend.most()).filter(|most| *most != usize::MAX).map(|most| most as u64),
        requests: backend.requests.load(Relaxed),
        failures: backend.failures.load(Relaxed),
        trouble: backend.trouble(),
    }
}

impl FpmState {
    /// Sets as many places as there may be connections.
    pub fn fit(&mut self, most: usize) {
        if self.pools.most() != most {
            self.pools.set_most(most);
        }
    }
}

impl FastcgiShared {
    /// The state. It stays usable after a panic under the lock: every change is complete in itself.
    pub fn lock(&self) -> MutexGuard<'_, FpmState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the pool was made, never 0.
    pub fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    /// The same for a given moment.
    pub fn at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.epoch).as_millis() as u64 + 1
    }

    /// What wakes the keeper.
    pub fn called(&self) -> &Condvar {
        &self.called
    }

    /// Wakes the keeper.
    pub fn stir(&self, state: &mut FpmState) {
        if std::mem::take(&mut state.is_asleep) {
            self.called.notify_one();
        }
    }

    /// Whether several connections of a backend have just failed in the middle of requests.
    pub fn is_failing(&self) -> bool {
        self.backends.iter().any(|backend| backend.strikes() > 1)
    }

    /// How many connections have failed in the middle of requests.
    pub fn failures(&self) -> u64 {
        self.backends.iter().map(|backend| backend.failures.load(Relaxed)).sum()
    }

    /// How often a backend was found to be down.
    pub fn outages(&self) -> u64 {
        self.backends.iter().map(Backend::refusals).sum()
    }

    /// Maximum number of connections: the setting's, or as many as the backends that are up take together.
    pub fn most(&self) -> usize {
        let up = self.backends.iter().filter(|backend| backend.is_up());
        let together = up.fold(0usize, |sum, backend| sum.saturating_add(backend.most()));
        // If all are down, the request that tests them needs a permit.
        if together == 0 { self.settings.workers } else { self.settings.workers.min(together) }
    }

    /// A place for a request of this pool and rank, which may run.
    pub fn grant(
        self: &Arc<Self>,
        state: &mut FpmState,
        pool: PoolId,
        rank: Rank,
        connection: Option<FastcgiConnection>,
    ) -> Grant {
        state.pools.begin(pool, rank);
        Grant { shared: self.clone(), pool, rank, connection, ended: None }
    }

    /// The best idle connection for an event loop, or one that became idle a moment ago: its process will get to the
    /// request, unless its script goes on behind its response.
    pub fn take_idle(&self, state: &mut FpmState, thread: usize, now: u64) -> Option<FastcgiConnection> {
        let free = self.take_free(state, thread);
        free.or_else(|| state.idle.pop_if(|last| self.backends.len() == 1 && last.is_just_idle(now)))
    }

    /// The best idle connection whose process waits for a request: to the least loaded backend, and one of this loop
    /// rather than another's. `None`: there is none, or a backend without an idle connection is less loaded.
    fn take_free(&self, state: &mut FpmState, thread: usize) -> Option<FastcgiConnection> {
        let idle = &mut state.idle;
        if self.backends.len() == 1 {
            let free = |own: bool| {
                move |connection: &FastcgiConnection| {
                    (connection.home() == thread) == own && connection.is_free()
                }
            };
            let best = idle.iter().rposition(free(true)).or_else(|| idle.iter().rposition(free(false)));
            return best.map(|at| idle.remove(at));
        }
        let up = self.backends.iter().filter(|backend| backend.is_up());
        let least = up.map(|backend| backend.load().0).min();
        let rank = |connection: &FastcgiConnection| {
            let (busy, requests) = self.backends[connection.backend()].load();
            (busy, connection.home() != thread, requests)
        };
        let free = (0..idle.len()).rev().filter(|at| idle[*at].is_free());
        let best = free.min_by_key(|at| rank(&idle[*at]))?;
        let is_one_sided = least.is_some_and(|least| rank(&idle[best]).0 > least);
        (!is_one_sided).then(|| idle.remove(best))
    }

    /// Where to open a new connection; closes an idle one if the maximum is reached.
    pub fn opening(self: &Arc<Self>, now: u64) -> Choice {
        let permit = self.permit().or_else(|| {
            let mut state = self.lock();
            // Its process takes the new connection, unless it still runs a script.
            let oldest = state.idle.iter().position(FastcgiConnection::is_free).unwrap_or(0);
            let closed = (!state.idle.is_empty()).then(|| state.idle.remove(oldest));
            drop(state);
            drop(closed?);
            self.permit()
        });
        permit.map_or(Choice::Full, |permit| self.choose(permit, now))
    }

    /// A permit, if one is left.
    fn permit(self: &Arc<Self>) -> Option<FastcgiPermit> {
        let most = self.most();
        let one_more = |open: usize| (open < most).then_some(open + 1);
        self.permits.fetch_update(SeqCst, SeqCst, one_more).ok()?;
        Some(FastcgiPermit { shared: self.clone() })
    }

    /// The backend for a new connection: the least loaded one that is up; if none is up, one that may be tested.
    /// Gives the permit back if there is none.
    fn choose(&self, permit: FastcgiPermit, now: u64) -> Choice {
        let opening = |permit, backend| Choice::There(Opening { permit, backend });
        let all = || self.backends.iter().enumerate();
        let mut up: Vec<_> = all().filter(|(_, backend)| backend.is_up()).collect();
        up.sort_by_key(|(_, backend)| backend.load());
        if let Some((least, _)) = up.iter().find(|(_, backend)| backend.open_one()) {
            return opening(permit, *least);
        }
        if !up.is_empty() {
            return Choice::Full;
        }
        if let Some((again, _)) = all().find(|(_, backend)| backend.try_again(now) && backend.open_one()) {
            return opening(permit, again);
        }
        let last = self.backends.iter().filter_map(Backend::down_since).max().unwrap_or(now);
        if last + OUTAGE_MS <= now {
            return Choice::Never;
        }
        let soonest = self.backends.iter().map(Backend::down_until).min();
        Choice::Later(soonest.unwrap_or(now).max(now + 1))
    }

    /// Closes all idle connections to a backend: they are unusable.
    pub fn close_all(&self, backend: usize) {
        let is_there = |connection: &mut FastcgiConnection| connection.backend() == backend;
        let closed: Vec<_> = self.lock().idle.extract_if(.., is_there).collect();
        drop(closed);
    }

    /// Takes out an idle connection to a backend that does not respond on new ones, or that has more than it takes.
    pub fn take_starving(&self, idle: &mut Vec<FastcgiConnection>, now: u64) -> Option<FastcgiConnection> {
        let at = idle.iter().position(|connection| {
            let backend = &self.backends[connection.backend()];
            backend.is_crowded() || backend.is_starved(now, STARVED_MS)
        })?;
        Some(idle.remove(at))
    }

    /// Whether a connection is reused after its response.
    fn keeps(&self, connection: &FastcgiConnection, now: u64) -> bool {
        let backend = &self.backends[connection.backend()];
        if let Some(seen) = backend.see_most(now) {
            self.tell_most(connection.backend(), seen);
        }
        // Where a page takes a second, a new connection costs little.
        backend.keeps() && !backend.is_crowded() && backend.is_up() && !backend.is_starved(now, STARVED_MS)
    }

    /// Gives a free place to the next waiter, with `spare` or another idle connection; otherwise `spare` becomes
    /// idle. False if no waiter may run.
    fn pass_on<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, FpmState>,
        spare: Option<FastcgiConnection>,
        now: u64,
    ) -> bool {
        state.fit(self.most());
        let home = spare.as_ref().or(state.idle.last()).map(FastcgiConnection::home);
        let Some((thread, pool, waiter)) = next(&mut state.pools, home, now) else {
            if let Some(spare) = spare {
                self.rest(&mut state, spare, now);
            }
            return false;
        };
        let connection = match spare {
            Some(spare) if !spare.is_free() => match self.take_free(&mut state, thread) {
                Some(free) => {
                    self.rest(&mut state, spare, now);
                    Some(free)
                }
                None => Some(spare),
            },
            Some(spare) => Some(spare),
            None => self.take_idle(&mut state, thread, now),
        };
        let grant = self.grant(&mut state, pool, waiter.turn.line.rank(), connection);
        drop(state);
        // If the request has gone meanwhile, dropping the grant gives it back.
        drop(waiter.wake.send(grant));
        true
    }

    /// A connection becomes idle, or is closed if it can't be used or another one may wait for its process.
    fn rest(&self, state: &mut FpmState, mut spare: FastcgiConnection, now: u64) {
        let is_starved = self.backends[spare.backend()].is_starved(now, 0);
        if !is_starved && !state.is_retired && spare.announce() {
            spare.idle_since = now;
            state.idle.push(spare);
        }
    }

    /// Gives places to all waiters that may run, after a limit has changed.
    pub fn pump(self: &Arc<Self>, now: u64) {
        while self.pass_on(self.lock(), None, now) {}
    }

    /// Logs how many connections a backend takes.
    fn tell_most(&self, backend: usize, most: usize) {
        let (address, workers) = (&self.backends[backend].address, self.settings.workers);
        if !self.told_most.swap(true, Relaxed) {
            self.log.warn(format_args!(
                "php-fpm at {address} accepts only {most} concurrent requests, but php.workers is {workers}: raise \
                 pm.max_children there, or lower php.workers"
            ));
        }
    }

    /// A backend that is down and that the caller is to test, while another one is up.
    pub fn to_be_tried(&self, now: u64) -> Option<usize> {
        let any_is_up = self.backends.iter().any(Backend::is_up);
        self.backends.iter().position(|backend| any_is_up && backend.try_again(now))
    }

    /// Logs that a backend is down or up again.
    pub fn tell(&self, backend: usize, change: Option<Change>) {
        let address = &self.backends[backend].address;
        match change {
            None => {}
            Some(Change::Up) => self.log.info(format_args!("php-fpm at {address} accepts connections again")),
            Some(Change::Down) => {
                let why = self.backends[backend].trouble().unwrap_or_default();
                self.log.error(format_args!(
                    "php-fpm at {address} is down: {why}; it gets no requests until it accepts connections again"
                ));
            }
        }
    }
}

/// Takes out the next waiter that may run, for a connection that belongs to event loop `home`: returns its loop and
/// its pool.
fn next(
    pools: &mut Pools<oneshot::Sender<Grant>>,
    home: Option<usize>,
    now: u64,
) -> Option<(usize, PoolId, Waiter<oneshot::Sender<Grant>>)> {
    let mut except = 0;
    loop {
        // php-fpm sets the priority of its processes itself.
        let id = pools.next(0, true, except)?;
        let pool = pools.get_mut(id);
        match pool.next_waiter(home) {
            None => except |= id.bit(),
            Some((_, waiter)) if waiter.wake.is_closed() => {}
            Some((thread, waiter)) => {
                pool.figures.wait_is_over(waiter.since, now);
                return Some((thread, id, waiter));
            }
        }
    }
}

impl Grant {
    /// The connection; `None`: one must be opened.
    pub fn connection(&mut self) -> &mut Option<FastcgiConnection> {
        &mut self.connection
    }

    /// The pool.
    pub fn shared(&self) -> &Arc<FastcgiShared> {
        &self.shared
    }

    /// The request is complete: passes its connection to the next waiter, makes it idle, or closes it.
    pub fn finish(mut self, now: u64) {
        if let Some(mut connection) = self.connection.take() {
            self.shared.backends[connection.backend()].answers();
            self.ended = Some((now, connection.took(now)));
            let is_wanted = self.shared.keeps(&connection, now);
            if connection.end(now, is_wanted) {
                self.connection = Some(connection);
            }
        }
    }
}

impl Drop for Grant {
    /// Closes the connection of an abandoned request: that is how php-fpm finds out.
    fn drop(&mut self) {
        let spare = self.connection.take_if(|connection| connection.is_idle());
        drop(self.connection.take());
        let now = self.ended.map_or_else(|| self.shared.now(), |(now, _)| now);
        let mut state = self.shared.lock();
        if let Some((_, took)) = self.ended {
            state.pools.get_mut(self.pool).finished(now, Some(took));
        }
        state.pools.end(self.pool, self.rank);
        self.shared.pass_on(state, spare, now);
    }
}

impl Opening {
    /// The pool.
    pub fn shared(&self) -> &Arc<FastcgiShared> {
        &self.permit.shared
    }

    /// The backend.
    pub fn backend(&self) -> &Backend {
        &self.permit.shared.backends[self.backend]
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        // Before the permit, so that its next holder finds the backend free.
        self.backend().close_one();
    }
}

impl Drop for FastcgiPermit {
    fn drop(&mut self) {
        self.shared.permits.fetch_sub(1, SeqCst);
    }
}
