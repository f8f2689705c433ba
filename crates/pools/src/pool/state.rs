//! The data behind a pool's lock.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use millrace_settings::plan;
use millrace_wire::frames::SLOT_OFFERS;
use tokio::sync::oneshot;

use super::admission::Rank;
use super::figures::Slowest;
use super::fits::{BootKind, Fits, ImageTerms, Suits};
use super::idle::Idle;
use super::pools::{PoolId, Pools};
use super::{Lease, back_off};
use crate::host::Started;
use crate::renewal::RenewalOrder;
use crate::scoreboard::Scoreboard;
use crate::worker::Worker;
use crate::worker_handle::WorkerHandle;

/// How many times in a row a worker that dies before it has finished a request is replaced at once.
const STILLBORN: u32 = 3;

/// Maximum number of requests sent ahead to a worker: one less than the scoreboard has words for.
const AHEAD: usize = SLOT_OFFERS - 1;
/// More requests are sent ahead when no more than this many are left.
const AHEAD_LEFT: usize = 1;

/// The stage of a pool's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceStage {
    /// Its site is in force.
    Serving,
    /// Replaced by another pool: no worker stays idle.
    Retiring,
    /// The server ends; requests that still run at this time (milliseconds) are killed.
    Stopping(u64),
    /// The supervisor has ended.
    Over,
}

impl ServiceStage {
    /// Advances to `next`, never back; an end never moves to a later time.
    pub fn advance(&mut self, next: ServiceStage) {
        *self = match (*self, next) {
            (ServiceStage::Stopping(before), ServiceStage::Stopping(after)) => {
                ServiceStage::Stopping(before.min(after))
            }
            (now, next) => now.max(next),
        };
    }
}

/// The data behind the lock.
#[derive(Debug)]
pub struct WorkersState {
    /// The stage of the pool's life.
    pub stage: ServiceStage,
    /// The handle has been dropped: no new request can arrive.
    pub dropped: bool,
    /// Number of the current host: 1, 2, ... Workers of other hosts are not kept.
    pub generation: u64,
    /// The current host's scoreboard, or the last one's; `None`: there was no host yet.
    pub scoreboard: Option<Arc<Scoreboard>>,
    /// The host's report; `None` while it is starting.
    pub started: Option<Started>,
    /// When a worker was last released, milliseconds.
    pub last_release: u64,
    /// Shares of the workers, each with its queue.
    pub pools: Pools<oneshot::Sender<Lease>>,
    /// The slots of the current host's scoreboard.
    seats: Vec<Seat>,
    /// How many seats have a worker that takes requests or will soon, and how many of these are being forked or boot.
    live: usize,
    starting: usize,
    /// Target number of workers. Grows with demand, shrinks when idle workers end.
    pub level: usize,
    /// Workers that wait for a request.
    pub idle: Idle,
    /// Which requests begin in which images, if workers are rewound.
    pub fits: Fits,
    /// Workers that the supervisor must look after.
    pub inbox: Vec<Box<Worker>>,
    /// Workers in a row that died before they had finished a request.
    pub(super) stillborn: u32,
    /// When the next worker may be forked, milliseconds.
    pub spawn_at: u64,
    /// Scripts that took long lately.
    pub slowest: Slowest,
    /// How the maximum of workers was determined; `None`: it is configured.
    pub how: Option<String>,
    /// Why there is no host, or why no persistent worker boots.
    pub trouble: Option<String>,
    /// Persistent workers in a row that did not boot.
    pub unbooted: u32,
    /// A reload's order to the supervisor.
    pub order: Option<RenewalOrder>,
}

/// A slot of the scoreboard.
#[derive(Debug)]
pub enum Seat {
    /// Not used.
    Free,
    /// The host was asked to fork; the server's end of the worker's socket, and the time of the order.
    Starting(OwnedFd, u64),
    /// A persistent worker whose script boots.
    Booting(Arc<WorkerHandle>),
    /// A worker that takes requests.
    Live(Arc<WorkerHandle>),
    /// The worker has been closed and will end; it is killed at this time, milliseconds.
    Leaving(Arc<WorkerHandle>, u64),
    /// The process has ended, but its holder has not noticed yet.
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
            scoreboard: None,
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
            fits: Fits::default(),
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

    /// Changes a seat; returns its old value.
    pub fn set_seat(&mut self, slot: usize, seat: Seat) -> Seat {
        let old = std::mem::replace(&mut self.seats[slot], seat);
        let new = &self.seats[slot];
        self.live = self.live + usize::from(new.is_live()) - usize::from(old.is_live());
        self.starting = self.starting + usize::from(new.is_starting()) - usize::from(old.is_starting());
        old
    }

    /// A new host with `count` free seats. Returns the old ones.
    pub fn set_seats(&mut self, count: usize) -> Vec<Seat> {
        (self.live, self.starting) = (0, 0);
        let seats = std::iter::repeat_with(|| Seat::Free).take(count).collect();
        std::mem::replace(&mut self.seats, seats)
    }

    /// Whether a host is needed: for a pool that is about to end, only if requests wait.
    pub fn needs_host(&self) -> bool {
        self.stage == ServiceStage::Serving || self.pools.waiting() > 0
    }

    /// A worker died before it took a request, so no script caused it. If all do, the next ones are forked with
    /// growing pauses.
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

    /// A persistent worker's script has reached its loop.
    pub fn found_to_boot(&mut self) {
        self.stillborn = 0;
        if std::mem::take(&mut self.unbooted) > 0 {
            self.trouble = None;
        }
    }

    /// Whether persistent workers do not boot, and none that did is left: waiting for one is useless.
    pub fn cannot_boot(&self) -> bool {
        self.unbooted > 0 && !self.seats.iter().any(|seat| matches!(seat, Seat::Live(_)))
    }

    /// Whether the worker belongs to the current host and has not ended.
    pub(super) fn is_seated(&self, worker: &Worker) -> bool {
        let handle = &worker.handle;
        handle.generation == self.generation
            && matches!(self.seats.get(handle.slot as usize), Some(Seat::Live(_)))
    }

    /// A worker runs a request of this rank for this pool from now on.
    pub(super) fn begin(&mut self, worker: &mut Worker, pool: PoolId, rank: Rank) {
        debug_assert!(!worker.counted);
        (worker.pool, worker.rank, worker.counted) = (pool, rank, true);
        worker.handle.set_pool(pool);
        self.pools.begin(pool, rank);
    }

    /// An idle worker for a request of a pool and a kind where workers are rewound; `lowers`: niceness can be lowered. A request that a
    /// worker has declined gets no other image: it would be declined again and again.
    pub(super) fn take_suited(
        &mut self,
        thread: usize,
        (pool, lowers): (PoolId, bool),
        (kind, is_declined): (Option<BootKind>, bool),
        now: u64,
    ) -> Option<Box<Worker>> {
        let (nice, fits) = (self.pools.get(pool).nice, &self.fits);
        let wanted = kind.filter(|_| !is_declined);
        let can = |worker: &Worker| lowers || worker.nice <= nice;
        let (mut worker, suits) =
            self.idle.take_suited(thread, can, |worker| fits.judge(worker, wanted, now))?;
        if wanted.is_none() || suits == Suits::Misfit {
            self.fits.note_odd();
        }
        let has_image = matches!(suits, Suits::Fits | Suits::Untried);
        worker.terms = ImageTerms {
            may_decline: has_image && self.idle.fitting(nice, lowers) > 0,
            no_image: !has_image && (suits == Suits::Misfit || self.keeps_empty()),
        };
        Some(worker)
    }

    /// For a waiting request of this pool and kind: the worker at hand, or an idle one that suits it better.
    pub(super) fn exchange_for_suited(
        &mut self,
        mut worker: Box<Worker>,
        thread: usize,
        pool: (PoolId, bool),
        kind: Option<BootKind>,
        now: u64,
    ) -> Box<Worker> {
        worker.idle_since = now;
        self.idle.put(worker);
        let suited = self.take_suited(thread, pool, (kind, false), now);
        let mut suited = suited.expect("at least the one at hand is idle, and can run it");
        suited.terms.may_decline = false;
        suited
    }

    /// Whether a worker without an image, which is not idle any more, is kept for requests that fit none: no idle one is left for them.
    fn keeps_empty(&self) -> bool {
        self.fits.expects_odd() && self.live > 1 && !self.idle.has_empty()
    }

    /// The worker no longer runs it.
    pub(super) fn end(&mut self, worker: &mut Worker) {
        if std::mem::take(&mut worker.counted) {
            self.pools.end(worker.pool, worker.rank);
        }
    }

    /// Sends the next waiters' requests ahead to a worker that has just got another, by appending them to `frames`:
    /// several at once, when hardly any are left.
    pub(super) fn offer_next(&mut self, worker: &mut Worker, frames: &mut Vec<u8>) {
        let Some(thread) = worker.home().filter(|_| worker.offers() <= AHEAD_LEFT) else { return };
        while worker.offers() < AHEAD && self.pools.is_first(worker.pool) {
            let waiters = &mut self.pools.get_mut(worker.pool).queue.waiters;
            let Some(place) = waiters.offer(thread, || worker.offer(), frames) else { return };
            worker.placed(place);
        }
    }

    /// Whether requests may be sent ahead to it: it will take further ones.
    pub(super) fn may_offer(&self, worker: &Worker) -> bool {
        self.stage == ServiceStage::Serving && self.is_seated(worker)
    }

    /// Takes back what was sent ahead to a worker. The last one first: if one is taken back, the worker goes on to
    /// the next. What it has taken stays.
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
