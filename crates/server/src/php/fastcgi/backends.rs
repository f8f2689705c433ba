//! What all event loops share: permits to have a connection, the queue, and the backends' counts.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use millrace_settings::plan;
use tokio::sync::{Notify, oneshot};

use super::backend::{Backend, Change};
use super::capacity;
use super::connection::Loose;
use crate::context::log::Log;
use crate::context::stats::{BackendStatus, PhpStatus};
use crate::php::OnPurge;
use crate::php::PhpThread;
use crate::php::pool::places::KeptPlace;
use crate::php::pool::request_queue::{Applicant, Capacity, RequestQueue};
use crate::php::pool::waiters::QueuePlace;

/// How long requests wait for a backend when none is up, since the last one went out: a restart takes about a second.
const OUTAGE_MS: u64 = 3_000;

/// The connections of all sites whose `[php]` settings are equal. Dropping it closes those that nobody uses.
#[derive(Debug)]
pub struct Backends {
    shared: Arc<FastcgiShared>,
}

/// The same without its handle.
#[derive(Debug)]
pub struct FastcgiShared {
    /// Their settings.
    pub settings: plan::Php,
    /// Where they say what happens.
    pub log: Log,
    /// Who is told what scripts want purged.
    pub on_purge: OnPurge,
    /// The backends, in the order written.
    pub backends: Vec<Backend>,
    epoch: Instant,
    /// Permits that somebody has.
    permits: AtomicUsize,
    /// Connections that lie idle, on all loops.
    kept: AtomicUsize,
    /// Requests that wait. Kept beside the queue, so that it can be read without the lock.
    waiting: AtomicUsize,
    queue: Mutex<RequestQueue<Wake>>,
    wakes: AtomicU64,
    /// Who is to be told that somebody on another loop waits.
    keepers: Mutex<Vec<Arc<Notify>>>,
    retired: AtomicBool,
    /// It was said that a backend has few processes.
    told_most: AtomicBool,
}

/// What becomes of a request for which there is no connection.
#[derive(Debug)]
pub enum FastcgiTurn {
    /// It waits.
    Waits(QueuedRequest),
    /// It does not: as many wait as may.
    Full,
    /// It does not: more comes than can be served.
    Overload,
}

/// A request that waits.
#[derive(Debug)]
pub struct QueuedRequest {
    /// Its place in the queue.
    pub place: QueuePlace,
    /// Its number.
    pub id: u64,
    /// Where it is told what it gets.
    pub woken: oneshot::Receiver<Grant>,
}

/// How a waiting request is woken.
#[derive(Debug)]
pub struct Wake {
    /// Its number, under which a connection may be reserved for it.
    pub id: u64,
    /// Takes what it gets.
    pub sender: oneshot::Sender<Grant>,
}

/// What a waiting request gets.
#[derive(Debug)]
pub enum Grant {
    /// The right to make a connection.
    Permit(FastcgiPermit),
    /// A connection of another loop.
    Loose(Box<Loose>),
    /// A connection of its own loop lies ready for it.
    Reserved,
}

/// The right to have one connection open. Dropped, it goes to who waits longest.
#[derive(Debug)]
pub struct FastcgiPermit {
    shared: Arc<FastcgiShared>,
    /// It is counted.
    counted: bool,
}

/// A permit, and a backend that takes one connection more.
#[derive(Debug)]
pub struct FastcgiOpening {
    permit: FastcgiPermit,
    /// The backend's number.
    pub backend: usize,
}

/// Where a new connection goes.
#[derive(Debug)]
pub enum Choice {
    /// There.
    Way(FastcgiOpening),
    /// Nowhere now: those that are up have as many as they take.
    Full,
    /// Nowhere: all are out. One may be tried at that time, milliseconds.
    Later(u64),
    /// Nowhere, for so long that nobody waits for them any more.
    Never,
}

impl Backends {
    /// Asks how many connections they take; one that takes none now may later.
    pub fn start(settings: &plan::Php, log: &Log, on_purge: OnPurge) -> Backends {
        let backends = Backends::new(settings, log, on_purge);
        capacity::ask_all(&backends.shared);
        backends
    }

    fn new(settings: &plan::Php, log: &Log, on_purge: OnPurge) -> Backends {
        let shared = FastcgiShared {
            settings: settings.clone(),
            log: log.clone(),
            on_purge,
            backends: settings.fastcgi.iter().cloned().map(Backend::new).collect(),
            epoch: Instant::now(),
            permits: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            queue: Mutex::new(queue(settings)),
            wakes: AtomicU64::new(0),
            keepers: Mutex::default(),
            retired: AtomicBool::new(false),
            told_most: AtomicBool::new(false),
        };
        Backends { shared: Arc::new(shared) }
    }

    /// Asks again how many connections they take: php-fpm may have been given another configuration, too.
    pub fn ask_again(&self) {
        self.shared.backends.iter().for_each(Backend::forget_seen);
        capacity::ask_all(&self.shared);
    }

    /// A new configuration replaces them: connections that lie idle are closed, the others when they have finished.
    pub fn retire(&self) {
        self.shared.retired.store(true, SeqCst);
        self.shared.wake_keepers();
    }

    /// How they are; `name` is what people know them by.
    pub fn status(&self, name: &str) -> PhpStatus {
        let shared = &self.shared;
        let backends: Vec<BackendStatus> = shared.backends.iter().map(status).collect();
        let none_is_up = shared.backends.iter().all(|backend| !backend.is_up());
        let trouble = shared.backends.iter().find_map(Backend::trouble).filter(|_| none_is_up);
        let running: u64 = backends.iter().map(|backend| backend.busy).sum();
        PhpStatus {
            name: name.to_owned(),
            most: shared.most() as u64,
            idle: shared.kept.load(Relaxed) as u64,
            running,
            waiting: shared.waiting() as u64,
            trouble,
            backends,
            ..PhpStatus::default()
        }
    }

    /// Whether a request that nobody waits for may run.
    pub fn is_at_leisure(&self) -> bool {
        let busy: usize = self.shared.backends.iter().map(|backend| backend.busy.load(Relaxed)).sum();
        self.shared.waiting() == 0 && (busy == 0 || busy + 1 < self.shared.most())
    }

    /// A place in the waiting room for a browser whose request was refused; `None`: there are too many.
    pub fn keep_place(&self, thread: &PhpThread, from: &Applicant) -> Option<KeptPlace> {
        let now = self.shared.at(thread.clock.now());
        self.shared.queue().keep_place(now, from, self.shared.capacity())
    }

    pub(super) fn shared(&self) -> &Arc<FastcgiShared> {
        &self.shared
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
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

impl FastcgiShared {
    /// Milliseconds since the pool was made, never 0.
    pub fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    /// The same for a moment.
    pub fn at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.epoch).as_millis() as u64 + 1
    }

    /// Whether several connections of a backend have just failed in the middle of requests.
    pub fn is_failing(&self) -> bool {
        self.backends.iter().any(|backend| backend.strikes() > 1)
    }

    /// How often a backend was found not to take connections.
    pub fn outages(&self) -> u64 {
        self.backends.iter().map(Backend::refusals).sum()
    }

    /// Whether another configuration has replaced them.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Relaxed)
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    /// Most connections at once: as the settings say, or as many as the backends that are up take together.
    fn most(&self) -> usize {
        let up = self.backends.iter().filter(|backend| backend.is_up());
        let together = up.fold(0usize, |sum, backend| sum.saturating_add(backend.most()));
        // With all of them out, whoever tries them needs a permit.
        if together == 0 { self.settings.workers } else { self.settings.workers.min(together) }
    }

    /// A permit, if one is left.
    pub fn permit(self: &Arc<Self>) -> Option<FastcgiPermit> {
        let most = self.most();
        let one_more = |open: usize| (open < most).then_some(open + 1);
        self.permits.fetch_update(SeqCst, SeqCst, one_more).ok()?;
        Some(FastcgiPermit { shared: self.clone(), counted: true })
    }

    /// The backend for a new connection: of those that are up the one that has least to do; if none is up, one that may be
    /// tried. The permit is given up where there is none.
    pub fn choose(&self, permit: FastcgiPermit, now: u64) -> Choice {
        let opening = |permit, backend| Choice::Way(FastcgiOpening { permit, backend });
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

    /// Logs how many connections a backend takes.
    pub fn tell_most(&self, backend: usize, most: usize) {
        let (address, workers) = (&self.backends[backend].address, self.settings.workers);
        if !self.told_most.swap(true, Relaxed) {
            self.log.warn(format_args!(
                "php-fpm at {address} accepts only {most} concurrent requests, but php.workers is {workers}: raise \
                 pm.max_children there, or lower php.workers"
            ));
        }
    }

    /// A backend that is out and that the caller shall try, while another one is up.
    pub fn to_be_tried(&self, now: u64) -> Option<usize> {
        let any_is_up = self.backends.iter().any(Backend::is_up);
        self.backends.iter().position(|backend| any_is_up && backend.try_again(now))
    }

    /// Logs that a backend went out or is up again.
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

    /// Makes a request of event loop `thread` wait.
    pub fn wait(&self, thread: usize, from: &Applicant, now: u64) -> FastcgiTurn {
        let mut queue = self.queue();
        if queue.waiters.len() >= self.settings.queue {
            return FastcgiTurn::Full;
        }
        let Some(turn) = queue.admit(now, from, self.capacity()) else { return FastcgiTurn::Overload };
        let (sender, woken) = oneshot::channel();
        let id = self.wakes.fetch_add(1, Relaxed);
        let place = queue.waiters.push(thread, turn, now, None, None, Wake { id, sender });
        self.waiting.store(queue.waiters.len(), SeqCst);
        FastcgiTurn::Waits(QueuedRequest { place, id, woken })
    }

    /// A request was served; it took so many milliseconds.
    pub fn served(&self, now: u64, took: u64) {
        self.queue().served(now, took as f64);
    }

    /// What php-fpm's processes use of the cores is not known: their number counts.
    fn capacity(&self) -> Capacity {
        Capacity { limit: self.most(), cores: usize::MAX, running: self.permits.load(Relaxed) }
    }

    /// A request waits no longer.
    pub fn leave(&self, place: QueuePlace) {
        let mut queue = self.queue();
        queue.waiters.remove(place);
        self.waiting.store(queue.waiters.len(), SeqCst);
    }

    /// After a request began to wait: is there something for it that came free meanwhile?
    pub fn look_again(self: &Arc<Self>) {
        // A permit goes to the first who waits.
        drop(self.permit());
        if self.kept.load(SeqCst) > 0 {
            self.wake_keepers();
        }
    }

    /// The one to be served next by what is at home on event loop `thread` (`None`: nowhere): his loop, and how he is woken.
    pub fn next(&self, thread: Option<usize>) -> Option<(usize, Wake)> {
        if self.waiting() == 0 {
            return None;
        }
        let mut queue = self.queue();
        let next = loop {
            match queue.next(thread, true) {
                Some((_, waiter)) if waiter.wake.sender.is_closed() => (),
                next => break next,
            }
        };
        self.waiting.store(queue.waiters.len(), SeqCst);
        next.map(|(thread, waiter)| (thread, waiter.wake))
    }

    /// Counts connections that lie idle: one more, or one less.
    pub fn count_kept(&self, more: bool) {
        if more {
            self.kept.fetch_add(1, SeqCst);
        } else {
            self.kept.fetch_sub(1, SeqCst);
        }
    }

    /// Has a loop's keeper told when somebody waits.
    pub fn add_keeper(&self, keeper: Arc<Notify>) {
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner).push(keeper);
    }

    /// Has all keepers look at their connections.
    pub fn wake_keepers(&self) {
        let keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        keepers.iter().for_each(|keeper| keeper.notify_one());
    }

    fn queue(&self) -> MutexGuard<'_, RequestQueue<Wake>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The queue that the pool of visitors would have.
fn queue(settings: &plan::Php) -> RequestQueue<Wake> {
    let wait = settings.pools.first().and_then(|pool| pool.queue_wait);
    RequestQueue::new(wait.map(|wait| wait.as_millis() as u64))
}

impl FastcgiOpening {
    /// The pool.
    pub fn shared(&self) -> &Arc<FastcgiShared> {
        &self.permit.shared
    }

    /// The backend.
    pub fn backend(&self) -> &Backend {
        &self.permit.shared.backends[self.backend]
    }
}

impl Drop for FastcgiOpening {
    fn drop(&mut self) {
        // Before the permit: who gets that finds room.
        self.backend().close_one();
    }
}

impl FastcgiPermit {
    /// Gives it back without a look at who waits.
    fn uncount(mut self) {
        self.counted = false;
        self.shared.permits.fetch_sub(1, SeqCst);
    }
}

impl Drop for FastcgiPermit {
    fn drop(&mut self) {
        if !self.counted {
            return;
        }
        self.shared.permits.fetch_sub(1, SeqCst);
        // Whoever begins to wait from now on looks for one himself.
        while self.shared.waiting() > 0 {
            let Some(permit) = self.shared.permit() else { return };
            match self.shared.next(None) {
                None => permit.uncount(),
                Some((_, wake)) => match wake.sender.send(Grant::Permit(permit)) {
                    Ok(()) => return,
                    Err(Grant::Permit(permit)) => permit.uncount(),
                    Err(_) => return,
                },
            }
        }
    }
}
