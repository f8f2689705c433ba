//! A pool: what event loops and its supervisor share.
//!
//! The lock. All of [`WorkersState`] is under one mutex, held for a few moves of pointers and never during a system
//! call that can wait. Event loops lock it twice per request: to get a worker and to give it back. They take workers
//! out of `idle` and put them back, count the running requests of each pool, add and remove waiters, and raise
//! `level`; everything else - seats, hosts, ending idle workers - belongs to the supervisor. A thread that needs the
//! supervisor changes the state and then wakes it.
//!
//! The owner of a worker. At any time one of: `idle` here, a [`Lease`] (on its way to, with, or back from a request),
//! the supervisor's inbox, the supervisor (workers whose client has gone). Dropping a worker closes it, and its process
//! ends.
//!
//! Requests sent ahead. A process that sleeps between two requests costs two context switches. So a worker whose
//! scripts are quick gets the next waiters' requests while it is busy ([`WorkersState::offer_next`]): a few at a time,
//! and none if a waiter of another pool takes precedence. The waiters keep their places in the queue. The first worker
//! that is free runs the request: either the one that has it and now takes it ([`WorkersShared::place`] then gives that
//! worker to the waiter), or another one (`Waiters::next` withdraws the offer). Offers are also withdrawn when the
//! worker dies, ends or loses its host, and one by one when the waiter leaves or has waited too long. If the worker
//! takes a request while the server withdraws it, a word of the scoreboard decides.

mod address_share;
pub mod admission;
pub mod concurrency_limit;
pub mod figures;
pub mod fits;
pub mod growth;
mod idle;
mod lease;
mod nice;
pub mod places;
pub mod pools;
pub mod request_queue;
mod shares;
#[cfg(test)]
mod simulation;
mod state;
pub mod waiters;

use std::cell::RefCell;
use std::mem::swap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millrace_settings::plan::{self, Rewind};
use millrace_wire::frames::{add_flags, number};
use rustix::event::EventfdFlags;
use tokio::sync::oneshot;

use super::answer::{OnPurge, Unheard};
use super::compare::Comparisons;
use super::crashes::Ban;
use super::inject::Injected;
use super::job::PhpJob;
use super::scoreboard::Scoreboard;
use super::start_error::PhpStartError;
use super::supervisor::{self, LEAVING_MS, LOST_MS};
use super::worker::{Worker, WorkerPhase};
use super::worker_handle::{Task, TimeLimit, WorkerHandle};
use millrace_base::context::log::Log;
use millrace_base::context::stats::Insight;

use admission::Rank;
pub use lease::Lease;
use nice::Niceness;
use pools::PoolId;
pub use state::{Seat, ServiceStage, WorkersState};
use waiters::Waiter;

/// Longest pause before a new attempt to start, milliseconds.
const BACK_OFF_MS: u64 = 5_000;

thread_local! {
    /// Frames on their way to a worker.
    static FRAMES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Times that are not settings. Tests pass their own.
#[derive(Clone, Copy, Debug)]
pub struct WorkerTimes {
    /// A worker whose last request took at most this long, milliseconds, may get the next one before it is free.
    pub quick_ms: u64,
    /// Interval at which the memory of one worker after the other is measured, milliseconds.
    pub look_ms: u64,
    /// Interval between two decisions about the number of workers, milliseconds.
    pub decide_ms: u64,
}

impl Default for WorkerTimes {
    fn default() -> WorkerTimes {
        WorkerTimes { quick_ms: 2, look_ms: 250, decide_ms: 10_000 }
    }
}

/// The workers of all sites whose `[php]` settings are equal. Dropping it retires it.
#[derive(Debug)]
pub struct WorkerSet {
    shared: Arc<WorkersShared>,
}

impl WorkerSet {
    /// Starts the host and the first workers; waits until PHP is up.
    ///
    /// # Errors
    /// PHP did not start: the reason, if possible in PHP's own words, and what to do next.
    pub fn start(
        settings: &plan::Php,
        log: &Log,
        on_purge: OnPurge,
        times: WorkerTimes,
    ) -> Result<Arc<WorkerSet>, PhpStartError> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| PhpStartError::Descriptors(error.into()))?;
        let epoch = Instant::now();
        let shared = Arc::new(WorkersShared {
            settings: settings.clone(),
            times,
            log: log.clone(),
            on_purge,
            epoch,
            ban: Ban::new(settings.crash_pause, settings.workers_first, epoch),
            comparisons: Comparisons::default(),
            insight: Arc::default(),
            injected: Injected::write()?,
            state: Mutex::new(WorkersState::new(settings)),
            wake,
            over: Condvar::new(),
            niceness: Niceness::of_this_process(settings.pools.len() > 1),
        });
        supervisor::start(shared.clone())?;
        Ok(Arc::new(WorkerSet { shared }))
    }

    /// A new configuration replaces this pool: idle workers end now, the others when they have finished. Requests
    /// that still arrive are served. The host ends after the last one, when the pool is dropped.
    pub fn retire(&self) {
        self.shared.lock().stage.advance(ServiceStage::Retiring);
        self.shared.wake();
    }

    /// Shuts down: waits for running requests for up to `grace`, then kills their workers; blocks until all processes
    /// of the pool have ended, at most some seconds longer than `grace`.
    pub fn stop(&self, grace: Duration) {
        let until = self.shared.since_epoch(Instant::now()) + grace.as_millis() as u64;
        let mut state = self.shared.lock();
        state.stage.advance(ServiceStage::Stopping(until));
        self.shared.wake();
        let patience = grace + supervisor::HOST_END * 2;
        let done =
            self.shared.over.wait_timeout_while(state, patience, |state| state.stage != ServiceStage::Over);
        if done.is_ok_and(|(_, timeout)| timeout.timed_out()) {
            self.shared.log.error(format_args!("PHP did not stop in time; its processes keep running"));
        }
    }

    /// Asks what the workers do right now; the reports arrive in the returned value.
    pub fn look_into(&self) -> Arc<Insight> {
        self.shared.insight.want();
        self.shared.wake();
        self.shared.insight.clone()
    }

    /// What its workers run, also behind a response, or for a client that has gone.
    pub fn runs(&self) -> Vec<PhpRun> {
        let state = self.shared.lock();
        let run = |seat: &Seat| match seat {
            Seat::Live(handle) | Seat::Leaving(handle, _) => PhpRun::of(handle),
            Seat::Free | Seat::Starting(..) | Seat::Booting(_) | Seat::Ended(_) => None,
        };
        state.seats().iter().filter_map(run).collect()
    }

    pub(super) fn shared(&self) -> &Arc<WorkersShared> {
        &self.shared
    }
}

/// What a worker runs: no other run has the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhpRun {
    pid: u32,
    since: u64,
    sequence: u64,
}

impl PhpRun {
    fn of(handle: &WorkerHandle) -> Option<PhpRun> {
        Some(PhpRun { pid: handle.pid(), since: handle.busy_since()?, sequence: handle.sequence() })
    }
}

impl Drop for WorkerSet {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stage.advance(ServiceStage::Retiring);
        state.dropped = true;
        drop(state);
        self.shared.wake();
    }
}

/// What the supervisor, the event loops and the [`WorkerSet`] share.
#[derive(Debug)]
pub struct WorkersShared {
    /// Its settings.
    pub settings: plan::Php,
    /// Times that are not settings.
    pub times: WorkerTimes,
    /// The log for its messages.
    pub log: Log,
    /// Receives the purges that scripts order.
    pub on_purge: OnPurge,
    /// Requests that kill their workers.
    pub ban: Arc<Ban>,
    /// What comparisons of rewound and ordinary responses have found.
    pub comparisons: Comparisons,
    /// What its workers do right now, if that was asked.
    pub insight: Arc<Insight>,
    /// The injected PHP files of its workers.
    pub injected: Arc<Injected>,
    epoch: Instant,
    state: Mutex<WorkersState>,
    wake: OwnedFd,
    /// The supervisor has ended.
    over: Condvar,
    niceness: Niceness,
}

impl WorkersShared {
    /// Tells a rewound worker, before it gets a request, how often pages have been purged.
    pub fn tell_purges(&self, handle: &WorkerHandle) {
        handle.scoreboard.set_purges(self.on_purge.orders.load(Ordering::Acquire));
    }

    /// Receives the frames that a worker sends beside its response.
    pub fn unheard<'a>(&'a self, handle: &'a WorkerHandle) -> Unheard<'a> {
        Unheard { log: &self.log, on_purge: &self.on_purge, handle }
    }
}

impl WorkersShared {
    /// The state. A panic under the lock would leave it usable: every change is complete in itself.
    pub fn lock(&self) -> MutexGuard<'_, WorkersState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The scoreboard of the current host; `None`: there is none.
    pub fn scoreboard(&self) -> Option<Arc<Scoreboard>> {
        self.lock().scoreboard.clone()
    }

    /// Milliseconds since the pool was created.
    pub fn since_epoch(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.epoch).as_millis() as u64
    }

    /// Makes the supervisor look at the state.
    pub fn wake(&self) {
        // Fails only after 2^64 - 2 unread wake-ups.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// The descriptor on which the supervisor waits.
    pub fn wake_descriptor(&self) -> &OwnedFd {
        &self.wake
    }

    /// The supervisor has ended; drops what it can no longer handle.
    pub fn set_over(&self) {
        let mut state = self.lock();
        state.stage.advance(ServiceStage::Over);
        let waiters: Vec<_> = state.pools.iter_mut().flat_map(|pool| pool.queue.waiters.take_all()).collect();
        let workers = std::mem::take(&mut state.inbox);
        let order = state.order.take();
        drop(state);
        drop((waiters, workers, order));
        self.over.notify_all();
    }

    /// A worker has finished its request: the next waiter gets it, or it becomes idle.
    pub fn release(self: &Arc<Self>, mut worker: Box<Worker>, now: u64) {
        debug_assert_eq!(worker.phase(), WorkerPhase::Ready);
        if let Some(pass) = worker.pass.take() {
            pass.ended_well();
        }
        let has_run = !worker.last_end.is_some_and(|end| end.declined);
        let took = worker.handle.busy_since().filter(|_| has_run).map(|since| now.saturating_sub(since));
        worker.quick = took.is_some_and(|took| took <= self.times.quick_ms);
        let mut state = self.lock();
        if has_run {
            state.slowest.note(&worker.handle, now);
        }
        state.fits.learn(&mut worker, now);
        worker.handle.end();
        state.stillborn = 0;
        state.last_release = now;
        state.pools.get_mut(worker.pool).finished(now, took);
        state.end(&mut worker);
        self.place(state, worker, now);
    }

    /// An idle worker for a request that may run.
    pub fn take_idle(
        self: &Arc<Self>,
        state: &mut WorkersState,
        thread: usize,
        job: &PhpJob<'_>,
    ) -> Option<Lease> {
        let lowers = self.lowers();
        let mut worker = match self.settings.rewind {
            Rewind::Off => {
                let nice = state.pools.get(job.pool).nice;
                state.idle.take(thread, nice, lowers)
            }
            _ => {
                let now = self.since_epoch(job.since);
                state.take_suited(thread, (job.pool, lowers), (job.kind, job.is_declined), now)
            }
        }?;
        worker.kind = job.kind;
        state.begin(&mut worker, job.pool, job.rank);
        Some(Lease { worker: Some(worker), shared: self.clone() })
    }

    /// Gives a ready worker to the waiter whose request it already has, otherwise to the next one, or makes it idle.
    pub fn place<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, WorkersState>,
        mut worker: Box<Worker>,
        now: u64,
    ) {
        if !state.is_seated(&worker) {
            state.retract(&mut worker);
        }
        while let Some((place, sequence)) = worker.take_offered() {
            let pool = worker.pool;
            let waiters = &mut state.pools.get_mut(pool).queue.waiters;
            if let Some(waiter) = waiters.accept(place, &worker.handle, sequence) {
                worker.begin_offered(sequence);
                return self.give(state, worker, pool, waiter, now);
            }
            if worker.handle.scoreboard.is_taken(worker.handle.slot, sequence) {
                // Its client has gone.
                worker.begin_offered(sequence);
                state.begin(&mut worker, pool, Rank::Visitor);
                worker.handle.begin(|task| *task = Task::default(), now, self.limit(pool));
                worker.abort();
                drop(state);
                return self.leave(worker, now);
            }
            // Another worker got it; this one skips it.
        }
        if worker.has_behind() {
            drop(state);
            let handle = worker.handle.clone();
            if worker.read_behind(&mut self.unheard(&handle)).is_err() {
                return self.discard(worker, now);
            }
            state = self.lock();
        }
        if !state.is_seated(&worker) || worker.handle.is_outgrown() {
            return self.discard_locked(state, worker, now);
        }
        let (lowers, mut except) = (self.lowers(), 0);
        while let Some(pool) = state.pools.next(worker.nice, lowers, except) {
            let Some((thread, waiter)) = state.pools.get_mut(pool).next_waiter(worker.home()) else {
                // Workers already run all its waiting requests.
                except |= pool.bit();
                continue;
            };
            if waiter.wake.is_closed() {
                continue;
            }
            if self.settings.rewind != Rewind::Off {
                worker = state.exchange_for_suited(worker, thread, (pool, lowers), waiter.kind, now);
            }
            if worker.home().is_some_and(|home| home != thread) {
                worker.loosen();
            }
            return self.give(state, worker, pool, waiter, now);
        }
        if state.stage != ServiceStage::Serving || state.live() > state.pools.most_now() {
            return self.discard_locked(state, worker, now);
        }
        worker.idle_since = now;
        state.idle.put(worker);
    }

    /// Gives a worker to a waiter, with its request if that is short; and sends the next one's ahead.
    fn give(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, WorkersState>,
        mut worker: Box<Worker>,
        pool: PoolId,
        mut waiter: Waiter<oneshot::Sender<Lease>>,
        now: u64,
    ) {
        self.tell_purges(&worker.handle);
        worker.kind = waiter.kind;
        state.begin(&mut worker, pool, waiter.turn.line.rank());
        state.pools.get_mut(pool).figures.wait_is_over(waiter.since, now);
        FRAMES.with_borrow_mut(|frames| {
            frames.clear();
            if let Some(mut short) = waiter.short.take() {
                if worker.phase() == WorkerPhase::Ready {
                    worker.begin();
                    frames.extend_from_slice(&short.frame);
                    number(frames, worker.sequence(), false);
                    add_flags(frames, worker.terms.flags());
                }
                worker.handle.begin(|task| swap(task, &mut short.task), now, self.limit(pool));
                short.give_back();
                if worker.phase() == WorkerPhase::Running && worker.quick && state.may_offer(&worker) {
                    state.offer_next(&mut worker, frames);
                }
            }
            drop(state);
            self.make_way(&mut worker);
            // A socket that does not accept a few kilobytes is unusable.
            if !frames.is_empty() && worker.send_now(frames, None).ok() != Some(frames.len()) {
                worker.give_up();
            }
        });
        let lease = Lease { worker: Some(worker), shared: self.clone() };
        if let Err(mut lease) = waiter.wake.send(lease)
            && let Some(mut worker) = lease.worker.take_if(|worker| worker.phase() == WorkerPhase::Ready)
        {
            let mut state = self.lock();
            state.end(&mut worker);
            self.place(state, worker, now);
        }
    }

    /// A worker died while it ran a request.
    pub fn blame(&self, handle: &WorkerHandle, now: u64) {
        let task = handle.task();
        let blame = self.ban.died(&task, now);
        if let Some(pause) = blame.page {
            let (script, path) =
                (String::from_utf8_lossy(&task.script), String::from_utf8_lossy(task.path()));
            self.log.error(format_args!(
                "{script} kills PHP workers when it runs for {}{path}: running its requests only a few at a time for \
                 the next {:?}; see php.crash_pause",
                task.host,
                Duration::from_millis(pause)
            ));
        }
        if let Some(pause) = blame.request {
            self.log.error(format_args!(
                "this request killed PHP workers: answering it with 500 without running it for the next {:?}: \
                 {task}; see php.crash_pause",
                Duration::from_millis(pause)
            ));
        }
    }

    /// Makes idle workers run waiting requests that may run now: a pool's limit has changed, or one of its workers has
    /// ended.
    pub fn pump<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, WorkersState>, now: u64) {
        let mut except = 0;
        while state.idle.len() > 0
            && let Some(id) = state.pools.next(0, self.lowers(), except)
        {
            let pool = state.pools.get(id);
            let (nice, thread) = (pool.nice, pool.queue.waiters.first_thread().unwrap_or(0));
            let Some(worker) = state.idle.take(thread, nice, self.lowers()) else {
                except |= id.bit();
                continue;
            };
            let before = state.idle.len();
            self.place(state, worker, now);
            state = self.lock();
            if state.idle.len() > before {
                // The worker is idle again.
                return;
            }
        }
    }

    /// Time limit of a request of this pool.
    pub fn limit(&self, pool: PoolId) -> TimeLimit {
        let pool = &self.settings.pools[pool.index()];
        let [usual, most] = [pool.request_timeout, pool.time_limit_max].map(|time| time.as_millis() as u64);
        TimeLimit { usual, most }
    }

    /// Time limit of what goes on behind a response.
    pub fn background_limit(&self) -> TimeLimit {
        let plan::Php { background_timeout, time_limit_max, .. } = self.settings;
        let [usual, most] = [background_timeout, time_limit_max].map(|time| time.as_millis() as u64);
        TimeLimit { usual, most }
    }

    /// Closes a worker that is no longer usable, so its process ends.
    pub fn discard(self: &Arc<Self>, worker: Box<Worker>, now: u64) {
        self.discard_locked(self.lock(), worker, now);
    }

    fn discard_locked(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, WorkersState>,
        mut worker: Box<Worker>,
        now: u64,
    ) {
        let pool = worker.pool;
        state.end(&mut worker);
        state.retract(&mut worker);
        while let Some((place, sequence)) = worker.take_offered() {
            if let Some(waiter) =
                state.pools.get_mut(pool).queue.waiters.accept(place, &worker.handle, sequence)
            {
                // It took the next request before it was found unusable: that request's waiter gets it, and decides.
                worker.give_up();
                worker.begin_offered(sequence);
                return self.give(state, worker, pool, waiter, now);
            }
        }
        worker.handle.end();
        let slot = worker.handle.slot as usize;
        if worker.handle.generation == state.generation {
            match state.set_seat(slot, Seat::Free) {
                Seat::Booting(handle) => drop(state.set_seat(slot, Seat::Leaving(handle, now))),
                Seat::Live(handle) => {
                    if worker.is_lost() && !handle.has_worked() {
                        state.note_death(now);
                    }
                    // A worker that has closed its socket has ended, or misbehaves.
                    let patience = if worker.is_lost() { LOST_MS } else { LEAVING_MS };
                    state.set_seat(slot, Seat::Leaving(handle, now + patience));
                }
                Seat::Ended(_) => (),
                other => drop(state.set_seat(slot, other)),
            }
        }
        self.pump(state, now);
        drop(worker);
        self.wake();
    }

    /// Passes a worker that has not finished to the supervisor.
    fn leave(&self, worker: Box<Worker>, now: u64) {
        match worker.phase() {
            WorkerPhase::Background => worker.handle.go_behind(now, self.background_limit()),
            // No client holds it up any more.
            _ => worker.handle.start_clock(now),
        }
        let mut state = self.lock();
        if state.stage != ServiceStage::Over {
            state.inbox.push(worker);
        }
        drop(state);
        self.wake();
    }
}

/// Pause before the next attempt after `failures` failures in a row, milliseconds: none after the first.
pub fn back_off(failures: u32) -> u64 {
    match failures {
        0 | 1 => 0,
        more => (100 << (more - 2).min(16)).min(BACK_OFF_MS),
    }
}
