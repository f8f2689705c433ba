//! Lanes: named shares of a pool's workers. What settings and people call a pool of a site - `front`, `admin`,
//! `background` - is a lane here. Workers are alike; a lane says how many of them may run for it at once, and who of those
//! that wait gets the next free one. A value: no clock, no sockets.
//!
//! Three numbers a lane, [`Share`]: so many workers are its *own*; of these it *keeps* some, which stay free for it even if
//! others would have a use for them; and so many it may *borrow* beyond its own, of what the others do not keep. So a lane
//! that is full can't slow another down below what that keeps; and what nobody uses is not idle while somebody waits.
//!
//! A free worker goes to a waiter of the lane that has the best right to it ([`Lanes::next`]): a lane that has less than
//! it keeps comes before one that has less than its own, and that before one that borrows; among equals it is who has the
//! smallest part of its share, and then who waits longest.

use std::fmt::Debug;

use millrace_settings::plan;

use super::admission::Rank;
use super::figures::Figures;
use super::growth::EXTRA;
use super::pace::Pace;
use super::places::Told;
use super::request_queue::{Applicant, Capacity, RequestQueue};
use super::shares::{Share, shares};
use super::waiters::{Line, Turn, Waiter};
pub use crate::site::LaneId;

/// One unproven request in so many may run at once.
const UNPROVEN_PART: usize = 4;

/// Who is given way to counts as so many of those who give way: the kernel gives him that much more of a core, at least.
const WEIGHT: usize = 2;

/// One lane.
#[derive(Debug)]
pub struct Lane<T> {
    /// Its part of the workers.
    pub share: Share,
    /// Most at once for other reasons than its share: whoever finds out that fewer do more sets it.
    pub throttle: usize,
    /// Workers that run for it, or are about to.
    pub running: usize,
    /// Of these, workers that hold their place for far longer than others: they take no part in what the machine can do.
    pub stuck: usize,
    /// Of these, workers beyond its share for requests that its own workers wait for.
    pub extra: usize,
    /// When a worker became free that had run for it, milliseconds.
    pub last_release: u64,
    /// Of these, workers that run unproven requests.
    pub unproven: usize,
    /// Requests that wait for a worker.
    pub queue: RequestQueue<T>,
    /// How much its workers give way, beyond the server.
    pub nice: u8,
    /// For people.
    pub figures: Figures,
    /// How many should run at once.
    pub pace: Pace,
    /// Requests that were finished, and that were refused, since somebody asked.
    pub lately: (u64, u64),
}

impl<T> Lane<T> {
    /// Most that may run for it at once, if others leave it what it may borrow.
    pub fn limit(&self) -> usize {
        self.limit_beside(0)
    }

    /// The same while so many run whom it gives way to: who is held to what the machine can do leaves them their part of it.
    fn limit_beside(&self, others: usize) -> usize {
        let held_to = self.throttle.saturating_sub(WEIGHT * others);
        (self.share.workers + self.share.borrow).min(held_to).max(1) + self.extra
    }

    /// One of its requests is finished, after so many milliseconds.
    pub fn finished(&mut self, now: u64, took: Option<u64>) {
        self.last_release = now;
        self.lately.0 += 1;
        if let Some(took) = took {
            self.queue.served(now, took as f64);
        }
    }

    /// When it is the turn of a request that can't run at once, while up to `limit` may; `None`: it is refused.
    pub fn admit(&mut self, now: u64, from: &Applicant, limit: usize) -> Option<Turn> {
        let turn = self.queue.admit(now, from, self.capacity(limit));
        if turn.is_none() {
            self.lately.1 += 1;
            self.figures.refused += 1;
        }
        turn
    }

    /// A place in the waiting room for a browser that was refused.
    pub fn keep_place(&mut self, now: u64, from: &Applicant, limit: usize) -> Option<Told> {
        self.queue.keep_place(now, from, self.capacity(limit))
    }

    /// How long a visitor's request that came now would wait, milliseconds.
    pub fn expected_wait(&self, limit: usize) -> Option<f64> {
        let Capacity { limit, cores, .. } = self.capacity(limit);
        self.queue.admission.wait(Rank::Visitor, self.queue.waiters.len(), limit, cores)
    }

    fn capacity(&self, limit: usize) -> Capacity {
        Capacity { limit, cores: self.pace.cores(), running: self.running }
    }

    /// Takes out the next request for a worker that is at home on `thread`.
    pub fn next_waiter(&mut self, thread: Option<usize>) -> Option<(usize, Waiter<T>)> {
        let unproven = self.unproven < self.most_unproven();
        self.queue.next(thread, unproven)
    }

    /// Requests that wait and could run if there was a worker.
    pub fn runnable(&self) -> usize {
        let unproven = self.queue.waiters.in_line(Line::Unproven);
        let may = self.most_unproven().saturating_sub(self.unproven);
        self.queue.waiters.len() - unproven + unproven.min(may)
    }

    /// Unproven requests that may run at once.
    fn most_unproven(&self) -> usize {
        (self.limit() / UNPROVEN_PART).max(1)
    }

    /// How good its right to one worker more is; the least is the best.
    fn rank(&self) -> (u8, usize) {
        let tier = match self.running {
            running if running < self.share.keep => 0,
            running if running < self.share.workers => 1,
            _ => 2,
        };
        (tier, self.running * 1024 / self.share.workers.max(1))
    }

    /// Workers that are kept free for it.
    fn kept(&self) -> usize {
        self.share.keep.min(self.throttle).saturating_sub(self.running)
    }
}

/// All lanes of a pool.
#[derive(Debug)]
pub struct Lanes<T> {
    lanes: Vec<Lane<T>>,
    settings: Vec<plan::PhpPool>,
    most: usize,
    running: usize,
    extra: usize,
}

impl<T: Debug> Lanes<T> {
    /// The lanes of these settings, with that many workers for all together.
    pub fn new(settings: &[plan::PhpPool], most: usize) -> Lanes<T> {
        let lane = |(share, pool): (Share, &plan::PhpPool)| Lane {
            share,
            throttle: usize::MAX,
            running: 0,
            unproven: 0,
            stuck: 0,
            extra: 0,
            last_release: 0,
            queue: RequestQueue::new(pool.queue_wait.map(|wait| wait.as_millis() as u64)),
            nice: pool.nice,
            figures: Figures::default(),
            pace: Pace::new(cores(), share.workers + share.borrow),
            lately: (0, 0),
        };
        let lanes = shares(settings, most).into_iter().zip(settings).map(lane).collect();
        Lanes { lanes, settings: settings.to_vec(), most, running: 0, extra: 0 }
    }

    /// Most workers at once, without the extra ones.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Another number of workers: the shares are worked out again.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
        for (lane, share) in self.lanes.iter_mut().zip(shares(&self.settings, most)) {
            lane.share = share;
            lane.pace.set_most(share.workers + share.borrow);
        }
    }

    /// Most workers at once, the extra ones included.
    pub fn most_now(&self) -> usize {
        self.most + self.extra
    }

    /// Workers that run for a lane.
    #[cfg(test)]
    pub fn running(&self) -> usize {
        self.running
    }

    /// Requests that wait, in all lanes.
    pub fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.queue.waiters.len()).sum()
    }

    /// A lane.
    pub fn get(&self, id: LaneId) -> &Lane<T> {
        &self.lanes[id.index()]
    }

    /// A lane, to be changed; who runs is told by `begin` and `end`.
    pub fn get_mut(&mut self, id: LaneId) -> &mut Lane<T> {
        &mut self.lanes[id.index()]
    }

    /// All, in the order of the settings.
    pub fn iter(&self) -> impl Iterator<Item = (LaneId, &Lane<T>)> {
        self.lanes.iter().enumerate().map(|(at, lane)| (LaneId::new(at), lane))
    }

    /// All, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane<T>> {
        self.lanes.iter_mut()
    }

    /// How many run at once for this lane while it has waiters.
    pub fn at_once(&self, id: LaneId) -> usize {
        let free = self.most_now().saturating_sub(self.kept_of_others(id));
        self.get(id).limit().min(free.max(1))
    }

    /// Most that may run for this lane at this moment.
    fn limit(&self, id: LaneId) -> usize {
        let lane = self.get(id);
        let before = self.lanes.iter().filter(|other| other.nice < lane.nice);
        lane.limit_beside(before.map(|other| other.running.saturating_sub(other.stuck)).sum())
    }

    /// Whether one worker more may run for a request of that rank of this lane.
    pub fn may_run_for(&self, id: LaneId, rank: Rank) -> bool {
        let lane = self.get(id);
        (rank != Rank::Unproven || lane.unproven < lane.most_unproven()) && self.may_run(id)
    }

    /// Whether one worker more may run for this lane.
    pub fn may_run(&self, id: LaneId) -> bool {
        let lane = self.get(id);
        if self.running >= self.most_now() || lane.running >= self.limit(id) {
            return false;
        }
        if lane.extra > 0 || lane.running < lane.share.keep {
            return true;
        }
        // A lane alone has nobody to leave something to.
        self.lanes.len() == 1 || self.most_now() - self.running > self.kept_of_others(id)
    }

    fn kept_of_others(&self, id: LaneId) -> usize {
        let others = self.iter().filter(|(other, _)| *other != id);
        others.map(|(_, lane)| lane.kept()).sum()
    }

    /// A worker runs a request of that rank for this lane from now on.
    pub fn begin(&mut self, id: LaneId, rank: Rank) {
        self.running += 1;
        let lane = self.get_mut(id);
        lane.running += 1;
        lane.unproven += usize::from(rank == Rank::Unproven);
    }

    /// A worker has run a request of that rank for this lane.
    pub fn end(&mut self, id: LaneId, rank: Rank) {
        let lane = &mut self.lanes[id.index()];
        debug_assert!(lane.running > 0, "somebody has not been counted");
        lane.running = lane.running.saturating_sub(1);
        lane.unproven = lane.unproven.saturating_sub(usize::from(rank == Rank::Unproven));
        self.running = self.running.saturating_sub(1);
        if lane.extra > 0 {
            lane.extra -= 1;
            self.extra -= 1;
        }
    }

    /// Allows this lane one worker beyond everything; false if that has been done often enough.
    pub fn allow_extra(&mut self, id: LaneId) -> bool {
        let allowed = self.extra < EXTRA;
        if allowed {
            self.extra += 1;
            self.get_mut(id).extra += 1;
        }
        allowed
    }

    /// The lane whose waiter gets a free worker that gives way as much as `nice`; `lowers`: it can be made to give way
    /// less. `except` has a bit for each lane that was found to have no use for it.
    pub fn next(&self, nice: u8, lowers: bool, except: u32) -> Option<LaneId> {
        let fits = |id: LaneId, lane: &Lane<T>| {
            lane.runnable() > 0 && except & id.bit() == 0 && (lowers || nice <= lane.nice) && self.may_run(id)
        };
        if let [lane] = &self.lanes[..] {
            return fits(LaneId::FRONT, lane).then_some(LaneId::FRONT);
        }
        let fitting = self.iter().filter(|(id, lane)| fits(*id, lane));
        fitting.min_by_key(|(_, lane)| (lane.rank(), lane.queue.waiters.oldest_since())).map(|(id, _)| id)
    }

    /// Whether a worker that runs for this lane may go on to its next request without anybody else having a better right.
    pub fn is_first(&self, id: LaneId) -> bool {
        let lane = self.get(id);
        let over = lane.running > self.limit(id) || self.running > self.most_now();
        let better = |(other, rival): (LaneId, &Lane<T>)| {
            other != id && rival.runnable() > 0 && rival.running < rival.share.workers.min(rival.limit())
        };
        !over && (self.lanes.len() == 1 || !self.iter().any(better))
    }

    /// Waiters that could run at this moment if there were workers enough.
    pub fn startable(&self) -> usize {
        let free = self.most_now().saturating_sub(self.running);
        let kept: usize = self.lanes.iter().map(Lane::kept).sum();
        let (mut own, mut more) = (0, 0);
        for (id, lane) in self.iter() {
            let room = self.limit(id).saturating_sub(lane.running);
            let wanted = lane.runnable().min(room);
            own += wanted.min(lane.kept());
            more += wanted.saturating_sub(lane.kept());
        }
        let alone = self.lanes.len() == 1 || self.extra > 0;
        let unkept = if alone { free } else { free.saturating_sub(kept) };
        (own + more.min(unkept)).min(free)
    }

    /// The least that a lane with waiters wants its workers to give way.
    pub fn least_nice_waiting(&self) -> Option<u8> {
        let waiting = self.iter().filter(|(id, lane)| lane.runnable() > 0 && self.may_run(*id));
        waiting.map(|(_, lane)| lane.nice).min()
    }
}

/// Cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes `front`, `admin`, `background` as a WordPress has them.
    fn lanes(most: usize) -> Lanes<()> {
        let source = millrace_settings::Source {
            site_dir: Some("/".into()),
            profile: Some("wordpress".into()),
            ..Default::default()
        };
        let (plan, _) = millrace_settings::load(&source).unwrap();
        Lanes::new(&plan.sites[0].php.as_ref().unwrap().pools, most)
    }

    const ADMIN: LaneId = LaneId::new(1);
    const BACKGROUND: LaneId = LaneId::new(2);

    /// Starts as many for a lane as may run.
    fn fill(lanes: &mut Lanes<()>, id: LaneId) -> usize {
        let before = lanes.get(id).running;
        while lanes.may_run(id) {
            lanes.begin(id, Rank::Visitor);
        }
        lanes.get(id).running - before
    }

    fn wait(lanes: &mut Lanes<()>, id: LaneId, since: u64) {
        lanes.get_mut(id).queue.waiters.push(0, Turn { line: Line::Visitor, since }, since, None, None, ());
    }

    #[test]
    fn a_full_lane_leaves_the_others_what_they_keep() {
        for most in 1..40 {
            for first in [LaneId::FRONT, ADMIN, BACKGROUND] {
                let mut lanes = lanes(most);
                let got = fill(&mut lanes, first);
                assert!(got >= 1, "{most}: {first:?} gets none of them");
                for other in [LaneId::FRONT, ADMIN] {
                    let keep = lanes.get(other).share.keep;
                    assert!(other == first || fill(&mut lanes, other) >= keep, "{most}: {first:?} {other:?}");
                }
                assert!(lanes.running() <= most);
            }
        }
    }

    #[test]
    fn eight_workers() {
        let mut alone = lanes(8);
        assert_eq!(fill(&mut alone, LaneId::FRONT), 6, "all but what admin keeps");
        assert_eq!(fill(&mut alone, ADMIN), 2);
        assert!(!alone.may_run(BACKGROUND), "nothing is kept for it");
        let mut admins = lanes(8);
        assert_eq!(fill(&mut admins, ADMIN), 5, "all but what front keeps");
        assert_eq!(fill(&mut admins, LaneId::FRONT), 3);
        let mut cron = lanes(8);
        assert_eq!(fill(&mut cron, BACKGROUND), 2, "it borrows none");
    }

    #[test]
    fn who_is_held_back_leaves_its_betters_their_part() {
        let mut lanes = lanes(8);
        lanes.get_mut(LaneId::FRONT).throttle = 4;
        assert_eq!(fill(&mut lanes, LaneId::FRONT), 4);
        lanes.begin(ADMIN, Rank::Visitor);
        assert!(!lanes.is_first(LaneId::FRONT), "the next one has to wait");
        (0..2).for_each(|_| lanes.end(LaneId::FRONT, Rank::Visitor));
        assert!(!lanes.may_run(LaneId::FRONT) && lanes.is_first(LaneId::FRONT));
        lanes.get_mut(ADMIN).stuck = 1;
        assert_eq!(fill(&mut lanes, LaneId::FRONT), 2, "who only waits takes nothing from it");
        lanes.get_mut(ADMIN).stuck = 0;
        lanes.end(ADMIN, Rank::Visitor);
        assert!(lanes.is_first(LaneId::FRONT));
        (0..4).for_each(|_| lanes.end(LaneId::FRONT, Rank::Visitor));
        assert_eq!(fill(&mut lanes, ADMIN), 5);
        assert_eq!(fill(&mut lanes, LaneId::FRONT), 1, "one always runs");
    }

    #[test]
    fn the_best_right_wins() {
        let mut lanes = lanes(8);
        fill(&mut lanes, LaneId::FRONT);
        wait(&mut lanes, LaneId::FRONT, 1);
        assert_eq!(lanes.next(0, true, 0), None, "the free ones are kept");
        wait(&mut lanes, BACKGROUND, 5);
        wait(&mut lanes, ADMIN, 9);
        assert_eq!(lanes.next(0, true, 0), Some(ADMIN));
        assert_eq!(lanes.next(0, true, 1 << 1), None);
        lanes.end(LaneId::FRONT, Rank::Visitor);
        assert_eq!(lanes.next(0, true, 1 << 1), Some(BACKGROUND), "front would borrow");
        assert!(!lanes.is_first(LaneId::FRONT));
        lanes.end(LaneId::FRONT, Rank::Visitor);
        lanes.begin(BACKGROUND, Rank::Visitor);
        lanes.begin(BACKGROUND, Rank::Visitor);
        lanes.begin(ADMIN, Rank::Visitor);
        lanes.begin(ADMIN, Rank::Visitor);
        assert!(lanes.is_first(LaneId::FRONT), "the others have their own");
        assert_eq!((lanes.waiting(), lanes.startable()), (3, 0));
    }

    #[test]
    fn who_can_not_be_hurried_is_of_no_use_to_admins() {
        let mut lanes = lanes(8);
        wait(&mut lanes, ADMIN, 1);
        let front = lanes.get(LaneId::FRONT).nice;
        assert_eq!((lanes.next(front, true, 0), lanes.next(front, false, 0)), (Some(ADMIN), None));
        assert_eq!((lanes.next(0, false, 0), lanes.least_nice_waiting()), (Some(ADMIN), Some(0)));
    }

    #[test]
    fn extra_workers_end_with_what_they_were_for() {
        let mut lanes = lanes(1);
        lanes.begin(LaneId::FRONT, Rank::Visitor);
        wait(&mut lanes, BACKGROUND, 1);
        assert!(!lanes.may_run(BACKGROUND) && lanes.startable() == 0);
        assert!(lanes.allow_extra(BACKGROUND) && lanes.may_run(BACKGROUND) && lanes.startable() == 1);
        lanes.begin(BACKGROUND, Rank::Visitor);
        assert!(!lanes.may_run(LaneId::FRONT) && lanes.most_now() == 2);
        lanes.end(BACKGROUND, Rank::Visitor);
        assert_eq!(lanes.most_now(), 1);
        assert!((0..EXTRA).all(|_| lanes.allow_extra(ADMIN)) && !lanes.allow_extra(ADMIN));
    }

    #[test]
    fn waiters_that_could_run() {
        let mut lanes = lanes(8);
        (0..20).for_each(|at| wait(&mut lanes, LaneId::FRONT, at));
        assert_eq!(lanes.startable(), 6);
        wait(&mut lanes, ADMIN, 1);
        assert_eq!(lanes.startable(), 7);
        fill(&mut lanes, LaneId::FRONT);
        assert_eq!(lanes.startable(), 1);
        lanes.set_most(16);
        assert!(lanes.may_run(LaneId::FRONT) && lanes.startable() > 5);
        lanes.get_mut(LaneId::FRONT).throttle = 2;
        assert!(!lanes.may_run(LaneId::FRONT) && lanes.startable() == 1);
    }

    #[test]
    fn unproven_requests_have_a_small_share_and_no_more() {
        let mut lanes = lanes(8);
        assert!(lanes.may_run_for(LaneId::FRONT, Rank::Unproven));
        lanes.begin(LaneId::FRONT, Rank::Unproven);
        assert!(!lanes.may_run_for(LaneId::FRONT, Rank::Unproven), "one of six");
        assert!(lanes.may_run_for(LaneId::FRONT, Rank::Visitor));
        let queue = &mut lanes.get_mut(LaneId::FRONT).queue.waiters;
        queue.push(0, Turn { line: Line::Unproven, since: 1 }, 1, None, None, ());
        assert_eq!((lanes.next(0, true, 0), lanes.startable()), (None, 0));
        assert!(lanes.get_mut(LaneId::FRONT).next_waiter(None).is_none());
        lanes.end(LaneId::FRONT, Rank::Unproven);
        assert_eq!((lanes.next(0, true, 0), lanes.startable()), (Some(LaneId::FRONT), 1));
        assert!(lanes.get_mut(LaneId::FRONT).next_waiter(None).is_some());
    }
}
