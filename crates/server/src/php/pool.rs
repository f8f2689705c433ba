//! A pool: what event loops and its supervisor share.
//!
//! Who holds the lock. All of [`State`] is under one mutex, held for a few moves of pointers and never over a system
//! call that can wait. Event loops take it twice a request: to get a worker and to give it back. They take workers
//! out of `idle` and put them back, add and remove waiters, and raise `level`; everything else - seats, hosts,
//! ending idle workers - is the supervisor's. Whoever wants something of the supervisor changes the state and then
//! wakes it.
//!
//! Who owns a worker. At any time one of: `idle` here, a [`Lease`] (on its way to, with, or back from a request), the
//! inbox for the supervisor, the supervisor (what nobody waits for any more). A worker that is dropped is closed, and
//! its process ends.
//!
//! What is sent ahead. A process that sleeps between two requests costs two switches of the processor, so a worker
//! whose scripts are quick gets the next waiter's request while it is busy ([`State::offer_next`]): one at a time, and
//! none when a worker is idle, since nobody waits then. The waiter keeps its place in the queue. Who comes first has
//! the request: its worker, by taking it when it has finished ([`Shared::place`] then gives it to the waiter), or another that
//! is free before (`Waiters::next` takes the offer back). It is taken back, too, when the worker dies, ends or loses its
//! host, and when the waiter leaves or has waited too long. Of two that would do it at once, worker and server, a word
//! of the scoreboard lets one win.

use std::cell::RefCell;
use std::mem::swap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millrace_settings::plan;
use millrace_wire::frames::number;
use rustix::event::EventfdFlags;
use tokio::sync::oneshot;

use super::answer::{OnPurge, Unheard};
use super::card::{Card, Task};
use super::host::Started;
use super::inject::Injected;
use super::loopback::Ports;
use super::supervisor;
use super::waiters::{Place, Short, Waiter, Waiters};
use super::worker::{Phase, Worker};
use crate::engine::Thread;
use crate::log::Log;

/// Workers beyond `workers` that may be forked for requests that workers themselves wait for.
pub const EXTRA: usize = 4;

/// Workers that die before they have finished one request are replaced at once that many times in a row.
const STILLBORN: u32 = 3;
/// A worker whose last request took no longer than that, milliseconds, may get the next one before it is free. Tests
/// take their time, and the machine that they run on does, too.
const QUICK_MS: u64 = if cfg!(test) { 10_000 } else { 2 };
/// Longest pause before something is started again, milliseconds.
const BACK_OFF_MS: u64 = 5_000;

thread_local! {
    /// Frames on their way to a worker.
    static FRAMES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The workers of all sites whose `[php]` settings are equal. Dropping it retires it.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

impl Pool {
    /// Starts the host and the first workers; waits until PHP is up.
    ///
    /// # Errors
    /// PHP did not start: why, in PHP's own words where it had any, and what to do next.
    pub fn start(settings: &plan::Php, log: &Log, on_purge: OnPurge) -> Result<Arc<Pool>, String> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| format!("no descriptor is left for a PHP pool: {error}"))?;
        let shared = Arc::new(Shared {
            settings: settings.clone(),
            log: log.clone(),
            on_purge,
            epoch: Instant::now(),
            injected: Injected::write()?,
            state: Mutex::new(State::new(settings)),
            wake,
            over: Condvar::new(),
        });
        supervisor::start(shared.clone())?;
        Ok(Arc::new(Pool { shared }))
    }

    /// A new configuration replaces this pool: idle workers end now, the others when they have finished. Requests
    /// that still come are served. The host ends when the last one is through and the pool is dropped.
    pub fn retire(&self) {
        self.shared.lock().stage.advance(Stage::Retiring);
        self.shared.wake();
    }

    /// The server ends: waits for running requests for up to `grace`, then kills their workers; blocks until all
    /// processes of the pool have ended, some seconds longer than `grace` at most.
    pub fn stop(&self, grace: Duration) {
        let until = self.shared.since_epoch(Instant::now()) + grace.as_millis() as u64;
        let mut state = self.shared.lock();
        state.stage.advance(Stage::Stopping(until));
        self.shared.wake();
        let patience = grace + supervisor::HOST_END * 2;
        let done = self.shared.over.wait_timeout_while(state, patience, |state| state.stage != Stage::Over);
        if done.is_ok_and(|(_, timeout)| timeout.timed_out()) {
            self.shared
                .log
                .error(format_args!("PHP could not be stopped in time; its processes are left alone"));
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stage.advance(Stage::Retiring);
        state.dropped = true;
        drop(state);
        self.shared.wake();
    }
}

/// A pool without its handle.
#[derive(Debug)]
pub struct Shared {
    /// Its settings.
    pub settings: plan::Php,
    /// Where it says what happens.
    pub log: Log,
    /// Who is told what scripts want purged.
    pub on_purge: OnPurge,
    /// The PHP files that it gives to workers.
    pub injected: Arc<Injected>,
    epoch: Instant,
    state: Mutex<State>,
    wake: OwnedFd,
    /// The supervisor has ended.
    over: Condvar,
}

impl Shared {
    /// Who listens to a worker's asides.
    pub fn unheard<'a>(&'a self, card: &'a Card) -> Unheard<'a> {
        Unheard { log: &self.log, on_purge: &self.on_purge, card }
    }
}

/// How far a pool is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Its site is in force.
    Serving,
    /// Replaced by another: no worker stays idle.
    Retiring,
    /// The server ends; what runs at that time (milliseconds) is killed.
    Stopping(u64),
    /// The supervisor has ended.
    Over,
}

impl Stage {
    /// Goes on to `next`, never back; an end comes no later than was said before.
    pub fn advance(&mut self, next: Stage) {
        *self = match (*self, next) {
            (Stage::Stopping(before), Stage::Stopping(after)) => Stage::Stopping(before.min(after)),
            (now, next) => now.max(next),
        };
    }
}

/// What is under the lock.
#[derive(Debug)]
pub struct State {
    /// How far the pool is.
    pub stage: Stage,
    /// The handle is gone: no new request can come.
    pub dropped: bool,
    /// Number of the current host: 1, 2, ... Workers of others are not kept.
    pub generation: u64,
    /// What the host said of itself; `None` while it is starting.
    pub started: Option<Started>,
    /// When a worker became free last, milliseconds.
    pub last_release: u64,
    /// The slots of the current host's scoreboard.
    seats: Vec<Seat>,
    /// How many of them have a worker that takes requests or will soon, and how many of those are being forked.
    live: usize,
    starting: usize,
    /// Workers that are wanted. Grows with demand, shrinks when idle workers end.
    pub level: usize,
    /// Workers that wait for a request.
    pub idle: Idle,
    /// Requests that wait for a worker.
    pub waiters: Waiters<oneshot::Sender<Lease>>,
    /// Workers that the supervisor shall look after.
    pub inbox: Vec<Box<Worker>>,
    /// Workers in a row that died before they had finished a request.
    stillborn: u32,
    /// When the next worker may be forked, milliseconds.
    pub spawn_at: u64,
    /// Why there is no host.
    pub trouble: Option<String>,
}

/// A slot of the scoreboard.
#[derive(Debug)]
pub enum Seat {
    /// Nobody's.
    Free,
    /// The host was asked to fork; the server's end of the worker's socket, and when that was.
    Starting(OwnedFd, u64),
    /// A worker that takes requests.
    Live(Arc<Card>),
    /// The worker has been closed and will end; since when.
    Leaving(Arc<Card>, u64),
    /// The process has ended, but whoever has the worker does not know yet.
    Ended(Arc<Card>),
}

impl Seat {
    fn is_live(&self) -> bool {
        matches!(self, Seat::Starting(..) | Seat::Live(_))
    }

    fn is_starting(&self) -> bool {
        matches!(self, Seat::Starting(..))
    }
}

impl State {
    fn new(settings: &plan::Php) -> State {
        State {
            stage: Stage::Serving,
            dropped: false,
            generation: 0,
            started: None,
            last_release: 0,
            seats: Vec::new(),
            live: 0,
            starting: 0,
            level: settings
                .workers_start
                .clamp(settings.workers_spare.min(settings.workers), settings.workers),
            idle: Idle::default(),
            waiters: Waiters::default(),
            inbox: Vec::new(),
            stillborn: 0,
            spawn_at: 0,
            trouble: None,
        }
    }

    /// The slots of the current host's scoreboard.
    pub fn seats(&self) -> &[Seat] {
        &self.seats
    }

    /// Changes what is in a seat; returns what was in it.
    pub fn set_seat(&mut self, slot: usize, seat: Seat) -> Seat {
        let old = std::mem::replace(&mut self.seats[slot], seat);
        let new = &self.seats[slot];
        self.live = self.live + usize::from(new.is_live()) - usize::from(old.is_live());
        self.starting = self.starting + usize::from(new.is_starting()) - usize::from(old.is_starting());
        old
    }

    /// Another host: that many free seats. Returns the old ones.
    pub fn set_seats(&mut self, count: usize) -> Vec<Seat> {
        (self.live, self.starting) = (0, 0);
        let seats = std::iter::repeat_with(|| Seat::Free).take(count).collect();
        std::mem::replace(&mut self.seats, seats)
    }

    /// Whether anybody has a use for a host: a pool that is about to end only if requests wait.
    pub fn needs_host(&self) -> bool {
        self.stage == Stage::Serving || self.waiters.len() > 0
    }

    /// A worker died without having taken a request: no script's fault. If they all do, the next ones are forked
    /// with growing pauses.
    pub fn note_death(&mut self, now: u64) {
        self.stillborn += 1;
        if self.stillborn > STILLBORN {
            self.spawn_at = now + back_off(self.stillborn - STILLBORN + 1);
        }
    }

    /// Workers that take requests or will soon.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Whether the worker belongs to the current host and has not ended.
    fn is_seated(&self, worker: &Worker) -> bool {
        let card = &worker.card;
        card.generation == self.generation
            && matches!(self.seats.get(card.slot as usize), Some(Seat::Live(_)))
    }

    /// Has the next waiter's request sent ahead to a worker that has just got another, by appending it to `frames`.
    fn offer_next(&mut self, worker: &mut Worker, frames: &mut Vec<u8>) {
        let Some(thread) = worker.home() else { return };
        if let Some(place) = self.waiters.offer(thread, || worker.offer(), frames) {
            worker.placed(place);
        }
    }

    /// Workers that are being forked.
    pub fn starting(&self) -> usize {
        self.starting
    }

    /// Raises the level so that there is a worker for each waiter, up to `most`. True if the supervisor has to act.
    fn raise(&mut self, most: usize) -> bool {
        let missing = self.waiters.len().saturating_sub(self.starting);
        let wanted = (self.live + missing).min(most);
        self.level = self.level.max(wanted);
        wanted > self.live
    }
}

/// Idle workers: those that an event loop watches, by loop, and those that none does. The one that became idle last
/// is taken first: its memory is warm, and the others grow old and can end.
#[derive(Debug, Default)]
pub struct Idle {
    settled: Vec<Vec<Box<Worker>>>,
    loose: Vec<Box<Worker>>,
}

impl Idle {
    /// How many.
    pub fn len(&self) -> usize {
        self.loose.len() + self.settled.iter().map(Vec::len).sum::<usize>()
    }

    fn put(&mut self, worker: Box<Worker>) {
        match worker.home() {
            None => self.loose.push(worker),
            Some(thread) => {
                if self.settled.len() <= thread {
                    self.settled.resize_with(thread + 1, Vec::new);
                }
                self.settled[thread].push(worker);
            }
        }
    }

    /// The best one for an event loop: its own, then nobody's, then another's.
    fn take(&mut self, thread: usize) -> Option<Box<Worker>> {
        if let Some(worker) = self.settled.get_mut(thread).and_then(Vec::pop) {
            return Some(worker);
        }
        if let Some(worker) = self.loose.pop() {
            return Some(worker);
        }
        self.settled.iter_mut().max_by_key(|list| list.len())?.pop()
    }

    /// Takes out those that `choose` wants.
    pub fn take_if(&mut self, mut choose: impl FnMut(&Worker) -> bool) -> Vec<Box<Worker>> {
        let mut taken = Vec::new();
        for list in self.settled.iter_mut().chain([&mut self.loose]) {
            taken.extend(list.extract_if(.., |worker| choose(worker)));
        }
        taken
    }
}

/// Why a request gets no worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many wait as may.
    Full,
    /// It has waited as long as it may.
    Timeout,
}

impl Shared {
    /// The state. A panic under the lock would leave it usable: every change is complete in itself.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the pool was made.
    pub fn since_epoch(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.epoch).as_millis() as u64
    }

    /// Has the supervisor look at the state.
    pub fn wake(&self) {
        // Fails only if it is awake 2^64 - 2 times over.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// What the supervisor waits for.
    pub fn wake_descriptor(&self) -> &OwnedFd {
        &self.wake
    }

    /// The supervisor has ended, with whatever came for it meanwhile.
    pub fn set_over(&self) {
        let mut state = self.lock();
        state.stage.advance(Stage::Over);
        let waiters = state.waiters.take_all();
        let workers = std::mem::take(&mut state.inbox);
        drop(state);
        drop((waiters, workers));
        self.over.notify_all();
    }

    /// A worker for a request of this thread, waiting for one if need be. `local`: its connection, if that
    /// begins on this machine. `short` makes its frame if it can be sent by others; a worker that was waited for has got it
    /// then and is [`Phase::Running`]. Cancel-safe.
    ///
    /// # Errors
    /// Too many wait, or it took too long.
    pub async fn acquire(
        self: &Arc<Self>,
        thread: &Rc<Thread>,
        local: Option<Ports>,
        short: impl FnOnce() -> Option<Short>,
    ) -> Result<Lease, Refused> {
        let (waiting, woken) = match self.take_or_queue(thread, local, short)? {
            Turn::Now(lease) => return Ok(lease),
            Turn::Later(waiting, woken) => (waiting, woken),
        };
        // The supervisor lets go of those that have waited too long.
        let lease = woken.await;
        std::mem::forget(waiting);
        if !lease.as_ref().is_ok_and(Lease::is_begun) {
            thread.clock.read();
        }
        lease.map_err(|_| Refused::Timeout)
    }

    fn take_or_queue(
        self: &Arc<Self>,
        thread: &Thread,
        local: Option<Ports>,
        short: impl FnOnce() -> Option<Short>,
    ) -> Result<Turn<'_>, Refused> {
        let now = |worker| Ok(Turn::Now(Lease { worker: Some(worker), shared: self.clone() }));
        if let Some(worker) = self.lock().idle.take(thread.index) {
            return now(worker);
        }
        let short = short();
        let mut state = self.lock();
        if let Some(worker) = state.idle.take(thread.index) {
            return now(worker);
        }
        if state.waiters.len() >= self.settings.queue || state.stage >= Stage::Stopping(0) {
            return Err(Refused::Full);
        }
        let (wake, woken) = oneshot::channel();
        let now = self.since_epoch(thread.clock.now());
        let place = state.waiters.push(thread.index, now, local, short, wake);
        let act = state.raise(self.settings.workers);
        drop(state);
        if act {
            self.wake();
        }
        Ok(Turn::Later(Waiting { shared: self, place }, woken))
    }

    /// A worker has finished its request: the next waiter gets it, or it becomes idle.
    pub fn release(self: &Arc<Self>, mut worker: Box<Worker>, now: u64) {
        debug_assert_eq!(worker.phase(), Phase::Ready);
        worker.quick = worker.card.busy_since().is_some_and(|since| now - since.min(now) <= QUICK_MS);
        worker.card.end();
        let mut state = self.lock();
        state.stillborn = 0;
        state.last_release = now;
        self.place(state, worker, now);
    }

    /// Gives a worker that is ready to the waiter whose request it has got already, else to the next one, or makes it
    /// idle.
    pub fn place<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        mut worker: Box<Worker>,
        now: u64,
    ) {
        if let Some((place, sequence)) = worker.take_offered() {
            let seated = state.is_seated(&worker);
            if !seated && state.waiters.retract(place) {
                return self.discard_locked(state, worker, now);
            }
            if let Some(waiter) = state.waiters.accept(place, &worker.card, sequence) {
                worker.begin_offered(sequence);
                return self.give(state, worker, waiter, now);
            }
            if worker.card.scoreboard.is_taken(worker.card.slot, sequence) {
                // Its client has gone meanwhile.
                worker.begin_offered(sequence);
                worker.card.begin(|task| *task = Task::default(), now, self.limit());
                worker.abort();
                drop(state);
                return self.leave(worker);
            }
            if worker.has_behind() {
                drop(state);
                let card = worker.card.clone();
                if worker.read_behind(&mut self.unheard(&card)).is_err() {
                    return self.discard(worker, now);
                }
                state = self.lock();
            }
        }
        if !state.is_seated(&worker) {
            return self.discard_locked(state, worker, now);
        }
        while let Some((thread, waiter)) = state.waiters.next(worker.home()) {
            if waiter.wake.is_closed() {
                continue;
            }
            if worker.home().is_some_and(|home| home != thread) {
                worker.loosen();
            }
            return self.give(state, worker, waiter, now);
        }
        if state.stage != Stage::Serving || state.live > self.settings.workers {
            return self.discard_locked(state, worker, now);
        }
        worker.idle_since = now;
        state.idle.put(worker);
    }

    /// Gives a worker to a waiter, with his request if that is short; and sends the next one's ahead.
    fn give(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        mut worker: Box<Worker>,
        mut waiter: Waiter<oneshot::Sender<Lease>>,
        now: u64,
    ) {
        FRAMES.with_borrow_mut(|frames| {
            frames.clear();
            if let Some(mut short) = waiter.short.take() {
                if worker.phase() == Phase::Ready {
                    worker.begin();
                    frames.extend_from_slice(&short.frame);
                    number(frames, worker.sequence(), false);
                }
                worker.card.begin(|task| swap(task, &mut short.task), now, self.limit());
                short.give_back();
                if worker.phase() == Phase::Running && worker.quick && state.stage == Stage::Serving {
                    state.offer_next(&mut worker, frames);
                }
            }
            drop(state);
            // A socket that does not take a few kilobytes is no use.
            if !frames.is_empty() && worker.send_now(frames, None).ok() != Some(frames.len()) {
                worker.give_up();
            }
        });
        let lease = Lease { worker: Some(worker), shared: self.clone() };
        if let Err(mut lease) = waiter.wake.send(lease)
            && let Some(worker) = lease.worker.take_if(|worker| worker.phase() == Phase::Ready)
        {
            self.place(self.lock(), worker, now);
        }
    }

    /// Milliseconds that a request may take; 0: no limit.
    pub fn limit(&self) -> u64 {
        self.settings.request_timeout.as_millis() as u64
    }

    /// A worker is of no more use: it is closed, and its process ends.
    pub fn discard(self: &Arc<Self>, worker: Box<Worker>, now: u64) {
        self.discard_locked(self.lock(), worker, now);
    }

    fn discard_locked(self: &Arc<Self>, mut state: MutexGuard<'_, State>, mut worker: Box<Worker>, now: u64) {
        if let Some((place, sequence)) = worker.take_offered()
            && !state.waiters.retract(place)
            && let Some(waiter) = state.waiters.accept(place, &worker.card, sequence)
        {
            // It had taken the next request before it was found to be of no use: who waits for that judges.
            worker.give_up();
            worker.begin_offered(sequence);
            return self.give(state, worker, waiter, now);
        }
        worker.card.end();
        let slot = worker.card.slot as usize;
        if worker.card.generation == state.generation {
            match state.set_seat(slot, Seat::Free) {
                Seat::Live(card) => {
                    if worker.is_lost() && !card.has_received_any() {
                        state.note_death(now);
                    }
                    state.set_seat(slot, Seat::Leaving(card, now));
                }
                Seat::Ended(_) => (),
                other => drop(state.set_seat(slot, other)),
            }
        }
        drop(state);
        drop(worker);
        self.wake();
    }

    /// Leaves a worker that has not finished to the supervisor.
    fn leave(&self, worker: Box<Worker>) {
        let mut state = self.lock();
        if state.stage != Stage::Over {
            state.inbox.push(worker);
        }
        drop(state);
        self.wake();
    }
}

/// What a request gets.
enum Turn<'a> {
    Now(Lease),
    Later(Waiting<'a>, oneshot::Receiver<Lease>),
}

/// Pause before the next attempt after that many failures in a row, milliseconds: none after the first.
pub fn back_off(failures: u32) -> u64 {
    match failures {
        0 | 1 => 0,
        more => (100 << (more - 2).min(16)).min(BACK_OFF_MS),
    }
}

/// Takes a waiter out of the queue when it stops waiting.
struct Waiting<'a> {
    shared: &'a Shared,
    place: Place,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(offer) = self.shared.lock().waiters.remove(self.place) {
            // Whoever has the worker finds out that it runs this when it has finished the last one.
            offer.card.scoreboard.abort(offer.card.slot, offer.sequence);
        }
    }
}

/// A worker that somebody has. What happens when it is dropped depends on what the worker is doing: it goes back to
/// the pool, is looked after by the supervisor until it has finished, or is closed.
#[derive(Debug)]
pub struct Lease {
    worker: Option<Box<Worker>>,
    shared: Arc<Shared>,
}

impl Lease {
    /// The worker.
    pub fn worker(&mut self) -> &mut Worker {
        // Taken only by `drop` and `finish`, which consume the lease.
        self.worker.as_mut().expect("a lease has a worker")
    }

    /// Whether the worker has got the request, or was lost over that.
    pub fn is_begun(&self) -> bool {
        self.worker.as_ref().is_some_and(|worker| worker.phase() != Phase::Ready)
    }

    /// The pool it comes from.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Gives the worker back at the time `now`. One that has not finished is left to itself: somebody has what he
    /// wanted of its answer.
    pub fn finish(mut self, now: Instant) {
        if let Some(worker) = self.worker.take() {
            self.give_back(worker, now);
        }
    }

    fn give_back(&self, worker: Box<Worker>, now: Instant) {
        let now = self.shared.since_epoch(now);
        match worker.phase() {
            Phase::Ready => self.shared.release(worker, now),
            Phase::Gone => self.shared.discard(worker, now),
            Phase::Running | Phase::Background => self.shared.leave(worker),
        }
    }
}

impl Drop for Lease {
    /// The request is given up: its client has gone.
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            if worker.phase() == Phase::Running {
                worker.abort();
            }
            self.give_back(worker, Instant::now());
        }
    }
}
