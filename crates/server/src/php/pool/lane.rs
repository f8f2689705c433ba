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

use super::figures::Figures;
use super::gate::{Admit, Gate, Queue, Rank};
use super::growth::EXTRA;
use super::pace::Pace;
use super::shares::{Share, shares};
use super::waiters::{Line, Waiters};

/// Who is given way to counts as so many of those who give way: the kernel gives him that much more of a core, at least.
const WEIGHT: usize = 2;

/// A lane of a pool, by its position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneId(u8);

impl LaneId {
    /// That of visitors, which every pool has.
    pub const FRONT: LaneId = LaneId(0);

    /// The lane at this position.
    pub fn new(index: usize) -> LaneId {
        LaneId(u8::try_from(index).unwrap_or(0))
    }

    /// Its bit in a set of lanes.
    pub fn bit(self) -> u32 {
        1 << self.0
    }

    /// Its position.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

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
    /// Requests that wait for a worker.
    pub waiters: Waiters<T>,
    /// How much its workers give way, beyond the server.
    pub nice: u8,
    /// For people.
    pub figures: Figures,
    /// Who may wait for one.
    pub gate: Gate,
    /// Whether that is asked: what nobody looks at may wait.
    pub gated: bool,
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
            self.gate.served(now, took as f64);
        }
    }

    /// A request comes that can't run at once, while up to `limit` may: the line in which it waits, and whether somebody
    /// has to leave it for that.
    pub fn admit(&mut self, now: u64, rank: Rank, limit: usize) -> Option<(Line, bool)> {
        let waiting = |line| self.waiters.in_line(line);
        let (known, patient, brief) = (waiting(Line::Known), waiting(Line::Patient), waiting(Line::Brief));
        let admit = if self.gated {
            self.gate.arrive(now, rank, Queue { running: self.running, known, patient, brief }, limit)
        } else {
            Admit::Wait
        };
        match admit {
            Admit::Wait if rank == Rank::Known => Some((Line::Known, false)),
            Admit::Wait => Some((Line::Patient, false)),
            Admit::Briefly => Some((Line::Brief, brief >= self.gate.room(limit))),
            Admit::Refuse => {
                self.lately.1 += 1;
                self.figures.refused += 1;
                None
            }
        }
    }

    /// A request was refused that had been admitted.
    pub fn refused(&mut self, now: u64) {
        self.lately.1 += 1;
        self.figures.refused += 1;
        self.gate.refused(now);
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
            stuck: 0,
            extra: 0,
            last_release: 0,
            waiters: Waiters::default(),
            nice: pool.nice,
            figures: Figures::default(),
            gate: Gate::new(pool.queue_wait.map_or(0, |wait| wait.as_millis() as u64)),
            gated: pool.queue_wait.is_some(),
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
        self.lanes.iter().map(|lane| lane.waiters.len()).sum()
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

    /// A worker runs for this lane from now on.
    pub fn begin(&mut self, id: LaneId) {
        self.running += 1;
        self.get_mut(id).running += 1;
    }

    /// A worker has run for this lane.
    pub fn end(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id.index()];
        debug_assert!(lane.running > 0, "somebody has not been counted");
        lane.running = lane.running.saturating_sub(1);
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
            lane.waiters.len() > 0
                && except & id.bit() == 0
                && (lowers || nice <= lane.nice)
                && self.may_run(id)
        };
        if let [lane] = &self.lanes[..] {
            return fits(LaneId::FRONT, lane).then_some(LaneId::FRONT);
        }
        let fitting = self.iter().filter(|(id, lane)| fits(*id, lane));
        fitting.min_by_key(|(_, lane)| (lane.rank(), lane.waiters.oldest_since())).map(|(id, _)| id)
    }

    /// Whether a worker that runs for this lane may go on to its next request without anybody else having a better right.
    pub fn is_first(&self, id: LaneId) -> bool {
        let lane = self.get(id);
        let over = lane.running > self.limit(id) || self.running > self.most_now();
        let better = |(other, rival): (LaneId, &Lane<T>)| {
            other != id && rival.waiters.len() > 0 && rival.running < rival.share.workers.min(rival.limit())
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
            let wanted = lane.waiters.len().min(room);
            own += wanted.min(lane.kept());
            more += wanted.saturating_sub(lane.kept());
        }
        let alone = self.lanes.len() == 1 || self.extra > 0;
        let unkept = if alone { free } else { free.saturating_sub(kept) };
        (own + more.min(unkept)).min(free)
    }

    /// The least that a lane with waiters wants its workers to give way.
    pub fn least_nice_waiting(&self) -> Option<u8> {
        let waiting = self.iter().filter(|(id, lane)| lane.waiters.len() > 0 && self.may_run(*id));
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

    const ADMIN: LaneId = LaneId(1);
    const BACKGROUND: LaneId = LaneId(2);

    /// Starts as many for a lane as may run.
    fn fill(lanes: &mut Lanes<()>, id: LaneId) -> usize {
        let before = lanes.get(id).running;
        while lanes.may_run(id) {
            lanes.begin(id);
        }
        lanes.get(id).running - before
    }

    fn wait(lanes: &mut Lanes<()>, id: LaneId, since: u64) {
        lanes.get_mut(id).waiters.push(0, Line::Patient, since, None, None, ());
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
        lanes.begin(ADMIN);
        assert!(!lanes.is_first(LaneId::FRONT), "the next one has to wait");
        (0..2).for_each(|_| lanes.end(LaneId::FRONT));
        assert!(!lanes.may_run(LaneId::FRONT) && lanes.is_first(LaneId::FRONT));
        lanes.get_mut(ADMIN).stuck = 1;
        assert_eq!(fill(&mut lanes, LaneId::FRONT), 2, "who only waits takes nothing from it");
        lanes.get_mut(ADMIN).stuck = 0;
        lanes.end(ADMIN);
        assert!(lanes.is_first(LaneId::FRONT));
        (0..4).for_each(|_| lanes.end(LaneId::FRONT));
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
        lanes.end(LaneId::FRONT);
        assert_eq!(lanes.next(0, true, 1 << 1), Some(BACKGROUND), "front would borrow");
        assert!(!lanes.is_first(LaneId::FRONT));
        lanes.end(LaneId::FRONT);
        lanes.begin(BACKGROUND);
        lanes.begin(BACKGROUND);
        lanes.begin(ADMIN);
        lanes.begin(ADMIN);
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
        lanes.begin(LaneId::FRONT);
        wait(&mut lanes, BACKGROUND, 1);
        assert!(!lanes.may_run(BACKGROUND) && lanes.startable() == 0);
        assert!(lanes.allow_extra(BACKGROUND) && lanes.may_run(BACKGROUND) && lanes.startable() == 1);
        lanes.begin(BACKGROUND);
        assert!(!lanes.may_run(LaneId::FRONT) && lanes.most_now() == 2);
        lanes.end(BACKGROUND);
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
}
