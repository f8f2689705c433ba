//! What is under a pool's lock.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use millrace_settings::plan;
use millrace_wire::frames::SLOT_OFFERS;
use tokio::sync::oneshot;

use super::admission::Rank;
use super::figures::Slowest;
use super::idle::Idle;
use super::pools::{PoolId, Pools};
use super::{Lease, back_off};
use crate::php::host::Started;
use crate::php::renewal::RenewalOrder;
use crate::php::worker::Worker;
use crate::php::worker_handle::WorkerHandle;

/// Workers that die before they have finished one request are replaced at once that many times in a row.
const STILLBORN: u32 = 3;

/// So many requests are sent ahead to a worker: one less than the scoreboard has words for.
const AHEAD: usize = SLOT_OFFERS - 1;
/// When no more than so many of them are left.
const AHEAD_LEFT: usize = 1;

/// How far a pool is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceStage {
    /// Its site is in force.
    Serving,
    /// Replaced by another: no worker stays idle.
    Retiring,
    /// The server ends; what runs at that time (milliseconds) is killed.
    Stopping(u64),
    /// The supervisor has ended.
    Over,
}

impl ServiceStage {
    /// Goes on to `next`, never back; an end comes no later than was said before.
    pub fn advance(&mut self, next: ServiceStage) {
        *self = match (*self, next) {
            (ServiceStage::Stopping(before), ServiceStage::Stopping(after)) => {
                ServiceStage::Stopping(before.min(after))
            }
            (now, next) => now.max(next),
        };
    }
}

/// What is under the lock.
#[derive(Debug)]
pub struct WorkersState {
    /// How far the pool is.
    pub stage: ServiceStage,
    /// The handle is gone: no new request can come.
    pub dropped: bool,
    /// Number of the current host: 1, 2, ... Workers of others are not kept.
    pub generation: u64,
    /// What the host said of itself; `None` while it is starting.
    pub started: Option<Started>,
    /// When a worker became free last, milliseconds.
    pub last_release: u64,
    /// Shares of the workers, each with its waiters.
    pub pools: Pools<oneshot::Sender<Lease>>,
    /// The slots of the current host's scoreboard.
    seats: Vec<Seat>,
    /// How many of them have a worker that takes requests or will soon, and how many of those are being forked or boot.
    live: usize,
    starting: usize,
    /// Workers that are wanted. Grows with demand, shrinks when idle workers end.
    pub level: usize,
    /// Workers that wait for a request.
    pub idle: Idle,
    /// Workers that the supervisor shall look after.
    pub inbox: Vec<Box<Worker>>,
    /// Workers in a row that died before they had finished a request.
    pub(super) stillborn: u32,
    /// When the next worker may be forked, milliseconds.
    pub spawn_at: u64,
    /// Scripts that took long lately.
    pub slowest: Slowest,
    /// How the most workers were found out; `None`: they are written.
    pub how: Option<String>,
    /// Why there is no host, or why no persistent worker boots.
    pub trouble: Option<String>,
    /// Persistent workers in a row that did not boot.
    pub unbooted: u32,
    /// What a reload wants of the supervisor.
    pub order: Option<RenewalOrder>,
}

/// A slot of the scoreboard.
#[derive(Debug)]
pub enum Seat {
    /// Nobody's.
    Free,
    /// The host was asked to fork; the server's end of the worker's socket, and when that was.
    Starting(OwnedFd, u64),
    /// A persistent worker whose script boots.
    Booting(Arc<WorkerHandle>),
    /// A worker that takes requests.
    Live(Arc<WorkerHandle>),
    /// The worker has been closed and will end; it is killed at this time, milliseconds.
    Leaving(Arc<WorkerHandle>, u64),
    /// The process has ended, but whoever has the worker does not know yet.
    Ended(Arc<WorkerHandle>),
}

impl Seat {
    fn is_live(&self) -> bool {
        matches!(self, Seat::Starting(..) | Seat::Booting(_) | Seat::Live(_))
    }

    fn is_starting(&self) -> bool {
        matches!(self, Seat::Starting(..) | Seat::Booting(_))
    }
}

impl WorkersState {
    pub(super) fn new(settings: &plan::Php) -> WorkersState {
        WorkersState {
            stage: ServiceStage::Serving,
            dropped: false,
            generation: 0,
            started: None,
            last_release: 0,
            pools: Pools::new(&settings.pools, settings.workers_first),
            seats: Vec::new(),
            live: 0,
            starting: 0,
            level: settings
                .workers_start
                .clamp(settings.workers_spare.min(settings.workers_first), settings.workers_first),
            idle: Idle::default(),
            inbox: Vec::new(),
            stillborn: 0,
            spawn_at: 0,
            slowest: Slowest::default(),
            how: None,
            trouble: None,
            unbooted: 0,
            order: None,
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
        self.stage == ServiceStage::Serving || self.pools.waiting() > 0
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

    /// A persistent worker's script has come to where it takes requests.
    pub fn found_to_boot(&mut self) {
        self.stillborn = 0;
        if std::mem::take(&mut self.unbooted) > 0 {
            self.trouble = None;
        }
    }

    /// Whether persistent workers do not boot, and none is there that did: nobody need wait for one.
    pub fn cannot_boot(&self) -> bool {
        self.unbooted > 0 && !self.seats.iter().any(|seat| matches!(seat, Seat::Live(_)))
    }

    /// Whether the worker belongs to the current host and has not ended.
    pub(super) fn is_seated(&self, worker: &Worker) -> bool {
        let handle = &worker.handle;
        handle.generation == self.generation
            && matches!(self.seats.get(handle.slot as usize), Some(Seat::Live(_)))
    }

    /// A worker runs a request of that rank for this pool from now on.
    pub(super) fn begin(&mut self, worker: &mut Worker, pool: PoolId, rank: Rank) {
        debug_assert!(!worker.counted);
        (worker.pool, worker.rank, worker.counted) = (pool, rank, true);
        worker.handle.set_pool(pool);
        self.pools.begin(pool, rank);
    }

    /// It does not any more.
    pub(super) fn end(&mut self, worker: &mut Worker) {
        if std::mem::take(&mut worker.counted) {
            self.pools.end(worker.pool, worker.rank);
        }
    }

    /// Has the next waiters' requests sent ahead to a worker that has just got another, by appending them to `frames`: several
    /// at once, when hardly one is left.
    pub(super) fn offer_next(&mut self, worker: &mut Worker, frames: &mut Vec<u8>) {
        let Some(thread) = worker.home().filter(|_| worker.offers() <= AHEAD_LEFT) else { return };
        while worker.offers() < AHEAD && self.pools.is_first(worker.pool) {
            let waiters = &mut self.pools.get_mut(worker.pool).queue.waiters;
            let Some(place) = waiters.offer(thread, || worker.offer(), frames) else { return };
            worker.placed(place);
        }
    }

    /// Whether requests are sent ahead to it: it has a future.
    pub(super) fn may_offer(&self, worker: &Worker) -> bool {
        self.stage == ServiceStage::Serving && self.is_seated(worker)
    }

    /// Takes back what was sent ahead to a worker. The last first: a worker goes on to the next if one is taken back. What it has
    /// taken is left.
    pub(super) fn retract(&mut self, worker: &mut Worker) {
        let waiters = &mut self.pools.get_mut(worker.pool).queue.waiters;
        while let Some((place, sequence)) = worker.last_offered()
            && waiters.retract(place, &worker.handle, sequence)
        {
            worker.forget_last_offered();
        }
    }

    /// Workers that are being forked or boot.
    pub fn starting(&self) -> usize {
        self.starting
    }
}
