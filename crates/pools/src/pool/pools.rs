//! Pools: named shares of a set of workers - `front`, `admin`, `background`. Workers are alike; a pool says how many
//! of them may run for it at once, and which of the waiting requests gets the next free one. A value: no clock, no
//! sockets.
//!
//! A pool has three numbers ([`Share`]): its *own* workers; how many of these it *keeps*, which stay free for it even
//! if others could use them; and how many it may *borrow* beyond its own, of workers that the others do not keep. So
//! a full pool can't slow another one down below what that one keeps; and unused workers are not idle while requests
//! wait.
//!
//! A free worker goes to a waiter of the pool with the best right to it ([`Pools::next`]): a pool that has less than
//! it keeps comes before one that has less than its own, and that one before one that borrows; among equals, the pool
//! that uses the smallest part of its share, and then the one whose request waits longest.

use std::fmt::Debug;

use millrace_settings::plan;

use super::admission::Rank;
use super::concurrency_limit::ConcurrencyLimit;
use super::figures::QueueFigures;
use super::growth::EXTRA;
use super::places::KeptPlace;
use super::request_queue::{Applicant, Capacity, RequestQueue};
use super::shares::{Share, shares};
use super::waiters::{QueueClass, Turn, Waiter};
pub use millrace_base::site::PoolId;

/// One unverified request in this many may run at once.
const UNPROVEN_PART: usize = 4;

/// A request with less niceness counts as this many with more: the kernel gives it at least that much more of a core.
const WEIGHT: usize = 2;

/// One pool.
#[derive(Debug)]
pub struct Pool<T> {
    /// Its share of the workers.
    pub share: Share,
    /// Maximum at once for reasons other than its share; set when fewer turn out to do more.
    pub throttle: usize,
    /// Workers that run for it, or are about to.
    pub running: usize,
    /// Of these, workers that hold their place for far longer than others; they don't count for the concurrency
    /// limit.
    pub stuck: usize,
    /// Of these, workers beyond its share for requests for which its own workers wait.
    pub extra: usize,
    /// When a worker that ran for it was last released, milliseconds.
    pub last_release: u64,
    /// Of these, workers that run unverified requests.
    pub unproven: usize,
    /// Requests that wait for a worker.
    pub queue: RequestQueue<T>,
    /// Niceness of its workers, beyond the server's.
    pub nice: u8,
    /// Figures for `millrace status`.
    pub figures: QueueFigures,
    /// The concurrency limit.
    pub concurrency: ConcurrencyLimit,
    /// Requests finished and requests refused since the last look.
    pub lately: (u64, u64),
}

impl<T> Pool<T> {
    /// Maximum that may run for it at once, if others leave it what it may borrow.
    pub fn limit(&self) -> usize {
        self.limit_beside(0)
    }

    /// The same while `others` with less niceness run: under a concurrency limit the pool leaves them their part of
    /// the machine.
    fn limit_beside(&self, others: usize) -> usize {
        let held_to = self.throttle.saturating_sub(WEIGHT * others);
        (self.share.workers + self.share.borrow).min(held_to).max(1) + self.extra
    }

    /// One of its requests is finished, after `took` milliseconds.
    pub fn finished(&mut self, now: u64, took: Option<u64>) {
        self.last_release = now;
        self.lately.0 += 1;
        if let Some(took) = took {
            self.queue.served(now, took as f64);
        }
    }

    /// The turn of a request that can't run at once, while up to `limit` may; `None`: it is refused.
    pub fn admit(&mut self, now: u64, from: &Applicant, limit: usize) -> Option<Turn> {
        let turn = self.queue.admit(now, from, self.capacity(limit));
        if turn.is_none() {
            self.lately.1 += 1;
            self.figures.refused += 1;
        }
        turn
    }

    /// A place in the waiting room for a browser that was refused.
    pub fn keep_place(&mut self, now: u64, from: &Applicant, limit: usize) -> Option<KeptPlace> {
        self.queue.keep_place(now, from, self.capacity(limit))
    }

    /// The expected wait of a visitor's request that arrives now, milliseconds.
    pub fn expected_wait(&self, limit: usize) -> Option<f64> {
        let Capacity { limit, cores, .. } = self.capacity(limit);
        self.queue.admission.wait(Rank::Visitor, self.queue.waiters.len(), limit, cores)
    }

    fn capacity(&self, limit: usize) -> Capacity {
        Capacity { limit, cores: self.concurrency.cores(), running: self.running }
    }

    /// Takes out the next request for a worker that belongs to event loop `thread`.
    pub fn next_waiter(&mut self, thread: Option<usize>) -> Option<(usize, Waiter<T>)> {
        let unproven = self.unproven < self.most_unproven();
        self.queue.next(thread, unproven)
    }

    /// Requests that wait and could run if there was a worker.
    pub fn runnable(&self) -> usize {
        let unproven = self.queue.waiters.in_line(QueueClass::Unproven);
        let may = self.most_unproven().saturating_sub(self.unproven);
        self.queue.waiters.len() - unproven + unproven.min(may)
    }

    /// Unverified requests that may run at once.
    fn most_unproven(&self) -> usize {
        (self.limit() / UNPROVEN_PART).max(1)
    }

    /// How good its right to one more worker is; the lowest is the best.
    fn rank(&self) -> (u8, usize) {
        let tier = match self.running {
            running if running < self.share.keep => 0,
            running if running < self.share.workers => 1,
            _ => 2,
        };
        (tier, self.running * 1024 / self.share.workers.max(1))
    }

    /// Workers that stay free for it.
    fn kept(&self) -> usize {
        self.share.keep.min(self.throttle).saturating_sub(self.running)
    }
}

/// All pools of a set of workers.
#[derive(Debug)]
pub struct Pools<T> {
    pools: Vec<Pool<T>>,
    settings: Vec<plan::PhpPool>,
    most: usize,
    running: usize,
    extra: usize,
}

impl<T: Debug> Pools<T> {
    /// The pools of these settings, with `most` workers for all together.
    pub fn new(settings: &[plan::PhpPool], most: usize) -> Pools<T> {
        let pool = |(share, settings): (Share, &plan::PhpPool)| Pool {
            share,
            throttle: usize::MAX,
            running: 0,
            unproven: 0,
            stuck: 0,
            extra: 0,
            last_release: 0,
            queue: RequestQueue::new(settings.queue_wait.map(|wait| wait.as_millis() as u64)),
            nice: settings.nice,
            figures: QueueFigures::default(),
            concurrency: ConcurrencyLimit::new(cores(), share.workers + share.borrow),
            lately: (0, 0),
        };
        let pools = shares(settings, most).into_iter().zip(settings).map(pool).collect();
        Pools { pools, settings: settings.to_vec(), most, running: 0, extra: 0 }
    }

    /// Maximum number of workers at once, without the extra ones.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Sets the number of workers, and computes the shares again.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
        for (pool, share) in self.pools.iter_mut().zip(shares(&self.settings, most)) {
            pool.share = share;
            pool.concurrency.set_most(share.workers + share.borrow);
        }
    }

    /// Maximum number of workers at once, including the extra ones.
    pub fn most_now(&self) -> usize {
        self.most + self.extra
    }

    /// Workers that run for a pool.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Requests that wait, in all pools.
    pub fn waiting(&self) -> usize {
        self.pools.iter().map(|pool| pool.queue.waiters.len()).sum()
    }

    /// A pool.
    pub fn get(&self, id: PoolId) -> &Pool<T> {
        &self.pools[id.index()]
    }

    /// A pool, mutable; running requests are counted only by `begin` and `end`.
    pub fn get_mut(&mut self, id: PoolId) -> &mut Pool<T> {
        &mut self.pools[id.index()]
    }

    /// All pools, in the order of the settings.
    pub fn iter(&self) -> impl Iterator<Item = (PoolId, &Pool<T>)> {
        self.pools.iter().enumerate().map(|(at, pool)| (PoolId::new(at), pool))
    }

    /// All pools, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Pool<T>> {
        self.pools.iter_mut()
    }

    /// How many run at once for this pool while it has waiters.
    pub fn at_once(&self, id: PoolId) -> usize {
        let free = self.most_now().saturating_sub(self.kept_of_others(id));
        self.get(id).limit().min(free.max(1))
    }

    /// Maximum that may run for this pool at this moment.
    fn limit(&self, id: PoolId) -> usize {
        let pool = self.get(id);
        let before = self.pools.iter().filter(|other| other.nice < pool.nice);
        pool.limit_beside(before.map(|other| other.running.saturating_sub(other.stuck)).sum())
    }

    /// Whether one more worker may run for a request of this rank of this pool.
    pub fn may_run_for(&self, id: PoolId, rank: Rank) -> bool {
        let pool = self.get(id);
        (rank != Rank::Unproven || pool.unproven < pool.most_unproven()) && self.may_run(id)
    }

    /// Whether one more worker may run for this pool.
    pub fn may_run(&self, id: PoolId) -> bool {
        let pool = self.get(id);
        if self.running >= self.most_now() || pool.running >= self.limit(id) {
            return false;
        }
        if pool.extra > 0 || pool.running < pool.share.keep {
            return true;
        }
        // A single pool has no other to leave workers to.
        self.pools.len() == 1 || self.most_now() - self.running > self.kept_of_others(id)
    }

    fn kept_of_others(&self, id: PoolId) -> usize {
        let others = self.iter().filter(|(other, _)| *other != id);
        others.map(|(_, pool)| pool.kept()).sum()
    }

    /// A worker runs a request of this rank for this pool from now on.
    pub fn begin(&mut self, id: PoolId, rank: Rank) {
        self.running += 1;
        let pool = self.get_mut(id);
        pool.running += 1;
        pool.unproven += usize::from(rank == Rank::Unproven);
        pool.figures.served += 1;
    }

    /// A worker has finished a request of this rank for this pool.
    pub fn end(&mut self, id: PoolId, rank: Rank) {
        let pool = &mut self.pools[id.index()];
        debug_assert!(pool.running > 0, "somebody has not been counted");
        pool.running = pool.running.saturating_sub(1);
        pool.unproven = pool.unproven.saturating_sub(usize::from(rank == Rank::Unproven));
        self.running = self.running.saturating_sub(1);
        if pool.extra > 0 {
            pool.extra -= 1;
            self.extra -= 1;
        }
    }

    /// Allows this pool one worker beyond all limits; false if the maximum of these is reached.
    pub fn allow_extra(&mut self, id: PoolId) -> bool {
        let allowed = self.extra < EXTRA;
        if allowed {
            self.extra += 1;
            self.get_mut(id).extra += 1;
        }
        allowed
    }

    /// Takes out the requests that have waited too long and that no worker runs.
    pub fn take_late(&mut self, now: u64) -> Vec<Waiter<T>> {
        let mut all = Vec::new();
        for (pool, settings) in self.pools.iter_mut().zip(&self.settings) {
            let limit = now.checked_sub(settings.queue_timeout.as_millis() as u64);
            let Some(limit) = limit.filter(|_| pool.queue.waiters.len() > 0) else { continue };
            let late = pool.queue.waiters.take_older(limit);
            pool.figures.late += late.len() as u64;
            all.extend(late);
        }
        all
    }

    /// The pool whose waiter gets a free worker with niceness `nice`; `lowers`: it can be lowered. `except` has a bit
    /// for each pool that turned out to have no use for the worker.
    pub fn next(&self, nice: u8, lowers: bool, except: u32) -> Option<PoolId> {
        let fits = |id: PoolId, pool: &Pool<T>| {
            pool.runnable() > 0 && except & id.bit() == 0 && (lowers || nice <= pool.nice) && self.may_run(id)
        };
        if let [pool] = &self.pools[..] {
            return fits(PoolId::FRONT, pool).then_some(PoolId::FRONT);
        }
        let fitting = self.iter().filter(|(id, pool)| fits(*id, pool));
        fitting.min_by_key(|(_, pool)| (pool.rank(), pool.queue.waiters.oldest_since())).map(|(id, _)| id)
    }

    /// Whether a worker that runs for this pool may go on to its next request, because no other pool has a better
    /// right.
    pub fn is_first(&self, id: PoolId) -> bool {
        let pool = self.get(id);
        let over = pool.running > self.limit(id) || self.running > self.most_now();
        let better = |(other, rival): (PoolId, &Pool<T>)| {
            other != id && rival.runnable() > 0 && rival.running < rival.share.workers.min(rival.limit())
        };
        !over && (self.pools.len() == 1 || !self.iter().any(better))
    }

    /// Waiters that could run at this moment if there were enough workers.
    pub fn startable(&self) -> usize {
        let free = self.most_now().saturating_sub(self.running);
        let kept: usize = self.pools.iter().map(Pool::kept).sum();
        let (mut own, mut more) = (0, 0);
        for (id, pool) in self.iter() {
            let room = self.limit(id).saturating_sub(pool.running);
            let wanted = pool.runnable().min(room);
            own += wanted.min(pool.kept());
            more += wanted.saturating_sub(pool.kept());
        }
        let alone = self.pools.len() == 1 || self.extra > 0;
        let unkept = if alone { free } else { free.saturating_sub(kept) };
        (own + more.min(unkept)).min(free)
    }

    /// The lowest niceness that a pool with waiters wants.
    pub fn least_nice_waiting(&self) -> Option<u8> {
        let waiting = self.iter().filter(|(id, pool)| pool.runnable() > 0 && self.may_run(*id));
        waiting.map(|(_, pool)| pool.nice).min()
    }
}

/// Cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pools `front`, `admin`, `background`, as a WordPress site has them.
    fn pools(most: usize) -> Pools<()> {
        let source = millrace_settings::Source {
            site_dir: Some("/".into()),
            profile: Some("wordpress".into()),
            ..Default::default()
        };
        let (plan, _) = millrace_settings::load(&source).unwrap();
        Pools::new(&plan.sites[0].php.as_ref().unwrap().pools, most)
    }

    const ADMIN: PoolId = PoolId::new(1);
    const BACKGROUND: PoolId = PoolId::new(2);

    /// Starts as many for a pool as may run.
    fn fill(pools: &mut Pools<()>, id: PoolId) -> usize {
        let before = pools.get(id).running;
        while pools.may_run(id) {
            pools.begin(id, Rank::Visitor);
        }
        pools.get(id).running - before
    }

    fn wait(pools: &mut Pools<()>, id: PoolId, since: u64) {
        pools.get_mut(id).queue.waiters.push(
            0,
            Turn { line: QueueClass::Visitor, since },
            since,
            None,
            None,
            (),
        );
    }

    #[test]
    fn a_full_pool_leaves_the_others_what_they_keep() {
        for most in 1..40 {
            for first in [PoolId::FRONT, ADMIN, BACKGROUND] {
                let mut pools = pools(most);
                let got = fill(&mut pools, first);
                assert!(got >= 1, "{most}: {first:?} gets none of them");
                for other in [PoolId::FRONT, ADMIN] {
                    let keep = pools.get(other).share.keep;
                    assert!(other == first || fill(&mut pools, other) >= keep, "{most}: {first:?} {other:?}");
                }
                assert!(pools.running() <= most);
            }
        }
    }

    #[test]
    fn eight_workers() {
        let mut alone = pools(8);
        assert_eq!(fill(&mut alone, PoolId::FRONT), 6, "all but what admin keeps");
        assert_eq!(fill(&mut alone, ADMIN), 2);
        assert!(!alone.may_run(BACKGROUND), "nothing is kept for it");
        let mut admins = pools(8);
        assert_eq!(fill(&mut admins, ADMIN), 5, "all but what front keeps");
        assert_eq!(fill(&mut admins, PoolId::FRONT), 3);
        let mut cron = pools(8);
        assert_eq!(fill(&mut cron, BACKGROUND), 2, "it borrows none");
    }

    #[test]
    fn who_is_held_back_leaves_its_betters_their_part() {
        let mut pools = pools(8);
        pools.get_mut(PoolId::FRONT).throttle = 4;
        assert_eq!(fill(&mut pools, PoolId::FRONT), 4);
        pools.begin(ADMIN, Rank::Visitor);
        assert!(!pools.is_first(PoolId::FRONT), "the next one has to wait");
        (0..2).for_each(|_| pools.end(PoolId::FRONT, Rank::Visitor));
        assert!(!pools.may_run(PoolId::FRONT) && pools.is_first(PoolId::FRONT));
        pools.get_mut(ADMIN).stuck = 1;
        assert_eq!(fill(&mut pools, PoolId::FRONT), 2, "who only waits takes nothing from it");
        pools.get_mut(ADMIN).stuck = 0;
        pools.end(ADMIN, Rank::Visitor);
        assert!(pools.is_first(PoolId::FRONT));
        (0..4).for_each(|_| pools.end(PoolId::FRONT, Rank::Visitor));
        assert_eq!(fill(&mut pools, ADMIN), 5);
        assert_eq!(fill(&mut pools, PoolId::FRONT), 1, "one always runs");
    }

    #[test]
    fn the_best_right_wins() {
        let mut pools = pools(8);
        fill(&mut pools, PoolId::FRONT);
        wait(&mut pools, PoolId::FRONT, 1);
        assert_eq!(pools.next(0, true, 0), None, "the free ones are kept");
        wait(&mut pools, BACKGROUND, 5);
        wait(&mut pools, ADMIN, 9);
        assert_eq!(pools.next(0, true, 0), Some(ADMIN));
        assert_eq!(pools.next(0, true, 1 << 1), None);
        pools.end(PoolId::FRONT, Rank::Visitor);
        assert_eq!(pools.next(0, true, 1 << 1), Some(BACKGROUND), "front would borrow");
        assert!(!pools.is_first(PoolId::FRONT));
        pools.end(PoolId::FRONT, Rank::Visitor);
        pools.begin(BACKGROUND, Rank::Visitor);
        pools.begin(BACKGROUND, Rank::Visitor);
        pools.begin(ADMIN, Rank::Visitor);
        pools.begin(ADMIN, Rank::Visitor);
        assert!(pools.is_first(PoolId::FRONT), "the others have their own");
        assert_eq!((pools.waiting(), pools.startable()), (3, 0));
    }

    #[test]
    fn who_can_not_be_hurried_is_of_no_use_to_admins() {
        let mut pools = pools(8);
        wait(&mut pools, ADMIN, 1);
        let front = pools.get(PoolId::FRONT).nice;
        assert_eq!((pools.next(front, true, 0), pools.next(front, false, 0)), (Some(ADMIN), None));
        assert_eq!((pools.next(0, false, 0), pools.least_nice_waiting()), (Some(ADMIN), Some(0)));
    }

    #[test]
    fn extra_workers_end_with_what_they_were_for() {
        let mut pools = pools(1);
        pools.begin(PoolId::FRONT, Rank::Visitor);
        wait(&mut pools, BACKGROUND, 1);
        assert!(!pools.may_run(BACKGROUND) && pools.startable() == 0);
        assert!(pools.allow_extra(BACKGROUND) && pools.may_run(BACKGROUND) && pools.startable() == 1);
        pools.begin(BACKGROUND, Rank::Visitor);
        assert!(!pools.may_run(PoolId::FRONT) && pools.most_now() == 2);
        pools.end(BACKGROUND, Rank::Visitor);
        assert_eq!(pools.most_now(), 1);
        assert!((0..EXTRA).all(|_| pools.allow_extra(ADMIN)) && !pools.allow_extra(ADMIN));
    }

    #[test]
    fn waiters_that_could_run() {
        let mut pools = pools(8);
        (0..20).for_each(|at| wait(&mut pools, PoolId::FRONT, at));
        assert_eq!(pools.startable(), 6);
        wait(&mut pools, ADMIN, 1);
        assert_eq!(pools.startable(), 7);
        fill(&mut pools, PoolId::FRONT);
        assert_eq!(pools.startable(), 1);
        pools.set_most(16);
        assert!(pools.may_run(PoolId::FRONT) && pools.startable() > 5);
        pools.get_mut(PoolId::FRONT).throttle = 2;
        assert!(!pools.may_run(PoolId::FRONT) && pools.startable() == 1);
    }

    #[test]
    fn unproven_requests_have_a_small_share_and_no_more() {
        let mut pools = pools(8);
        assert!(pools.may_run_for(PoolId::FRONT, Rank::Unproven));
        pools.begin(PoolId::FRONT, Rank::Unproven);
        assert!(!pools.may_run_for(PoolId::FRONT, Rank::Unproven), "one of six");
        assert!(pools.may_run_for(PoolId::FRONT, Rank::Visitor));
        let queue = &mut pools.get_mut(PoolId::FRONT).queue.waiters;
        queue.push(0, Turn { line: QueueClass::Unproven, since: 1 }, 1, None, None, ());
        assert_eq!((pools.next(0, true, 0), pools.startable()), (None, 0));
        assert!(pools.get_mut(PoolId::FRONT).next_waiter(None).is_none());
        pools.end(PoolId::FRONT, Rank::Unproven);
        assert_eq!((pools.next(0, true, 0), pools.startable()), (Some(PoolId::FRONT), 1));
        assert!(pools.get_mut(PoolId::FRONT).next_waiter(None).is_some());
    }
}
