//! Admission control of a pool: which requests may wait for a worker, and which are refused at once. A value without
//! clock and sockets.
//!
//! The promise is one sentence: *a request that can get a worker within `php.queue_wait` waits, in order of arrival; any
//! other is refused at once.* So the only question is how long a request would wait, and the answer is Little's law (J. D. C.
//! Little, "A proof for the queuing formula L = λW", 1961): the requests ahead of it divided by the rate at which requests leave
//! the queue. As in CoDel (K. Nichols and V. Jacobson, "Controlling queue delay", 2012; RFC 8289) the time in the queue is what is
//! bounded, never its length, so that the bound is right for pages of 5 ms and of 5 s alike.
//!
//! The rate is measured while requests wait ([`Rate`]). Before there are enough measurements, it is the theoretical
//! one: the number of workers divided by the time that a request takes, but no more than the cores allow with the
//! processor time of a request.
//!
//! One exception: a larger *closed loop* - a load tester's users, which send the next request as soon as they have
//! their response. Refusing makes them send more, not less, and their queue never grows. So requests that arrive
//! within a fifth of a second of an empty queue may wait twice as long, and as many as were there in the first second
//! may stay, until the first refusal shows that others arrive as well.
//!
//! | rank | is ahead of | may wait for |
//! | --- | --- | --- |
//! | [`Rank::Known`] | all | 5 x `php.queue_wait` |
//! | [`Rank::Buying`] | visitors | 5 x `php.queue_wait` |
//! | [`Rank::Visitor`] | - | `php.queue_wait` |
//! | [`Rank::Unproven`] | - | `php.queue_wait`, at an eighth of the rate |

pub use millrace_base::site::Rank;

/// How long [`Rank::Known`] and [`Rank::Buying`] may wait, as a multiple of `php.queue_wait`: they have something to
/// lose, and only requests like them are ahead of them. People wait no more than 10 s for a page.
const PATIENT: f64 = 5.0;
/// The part of the rate that unverified requests count on: they get one in this many free workers.
pub const UNPROVEN_TURNS: u32 = 8;
/// Requests that arrive within this many milliseconds of an empty queue count as simultaneous.
const CROWD_MS: u64 = 200;
/// And may wait for this multiple of `php.queue_wait`.
const CROWD: f64 = 2.0;
/// Time in which the maximum of present requests is counted, milliseconds.
const CREST_MS: u64 = 1_000;
/// Milliseconds over which the rate is averaged: over one second, chance alone contributes a tenth; over a minute,
/// the server would notice too late that a database slows down.
const RATE_MS: f64 = 6_000.0;
/// Weight of the expected rate, in requests, beside the measured ones: the first requests of a crowd all begin at
/// once, and all end at once.
const PRIOR: f64 = 30.0;
/// While few requests are measured, the estimated rate is raised by this part of the missing ones: wrongly refusing a
/// request is worse than letting one wait a little too long.
const HOPE: f64 = 4.0;
/// Number of requests over which the mean service time is averaged.
const SERVICE_MEMORY: f64 = 64.0;
/// Factor by which the lowest mean grows with each request, so that it is forgotten when pages change.
const FORGET: f64 = 1.002;
/// A pool counts as overloaded until it has refused nothing for this long, milliseconds.
const QUIET_MS: u64 = 5_000;

/// Estimates how long a request would wait, and decides. Times are milliseconds of one clock.
#[derive(Clone, Debug)]
pub struct Admission {
    /// `php.queue_wait`.
    budget: f64,
    /// Mean service time, and the number of requests in it.
    service: Option<f64>,
    served: f64,
    /// The lowest recent mean: what a request takes when others do not slow it down.
    quickest: f64,
    /// Processor time of a request, milliseconds.
    cpu: Option<f64>,
    rate: Rate,
    line: BusyPeriod,
    /// First and last refusal of the current overload.
    refusing: Option<(u64, u64)>,
}

impl Admission {
    /// With this `php.queue_wait`, milliseconds.
    pub fn new(budget_ms: u64) -> Admission {
        Admission {
            budget: budget_ms as f64,
            service: None,
            served: 0.0,
            quickest: f64::INFINITY,
            cpu: None,
            rate: Rate::default(),
            line: BusyPeriod::default(),
            refusing: None,
        }
    }

    /// Whether a request of this rank may wait with `ahead` requests before it, while up to `limit` may run.
    pub fn admits(&self, rank: Rank, ahead: usize, limit: usize, cores: usize) -> bool {
        let Some(wait) = self.wait(rank, ahead, limit, cores) else { return true };
        let service = self.service.unwrap_or(0.0);
        // A page that takes longer than the budget is served, too: the next free worker must always be in reach.
        wait <= (self.patience(rank) - service).max(service)
    }

    /// How long a request of this rank may wait, milliseconds.
    pub fn patience(&self, rank: Rank) -> f64 {
        match rank {
            Rank::Known | Rank::Buying => self.budget * PATIENT,
            Rank::Visitor | Rank::Unproven => self.budget,
        }
    }

    /// How long a request waits with `ahead` requests before it, milliseconds; `None`: unknown, because no request
    /// was served yet.
    pub fn wait(&self, rank: Rank, ahead: usize, limit: usize, cores: usize) -> Option<f64> {
        let rate = self.rate(limit, cores)?;
        let part = if rank == Rank::Unproven { f64::from(UNPROVEN_TURNS) } else { 1.0 };
        Some(ahead as f64 * part / rate)
    }

    /// Requests per millisecond that leave the queue while up to `limit` run on `cores`; `None`: no request was
    /// served yet.
    pub fn rate(&self, limit: usize, cores: usize) -> Option<f64> {
        self.service?;
        let by_workers = limit.max(1) as f64 / self.quickest.max(0.01);
        let by_cores = self.cpu.map_or(f64::INFINITY, |cpu| cores.max(1) as f64 / cpu.max(0.01));
        Some(self.rate.blend(by_workers.min(by_cores)))
    }

    /// Whether a visitor's request may wait although [`admits`](Self::admits) refuses it, because `there` requests
    /// wait or run with it and never were fewer: see the module.
    pub fn is_steady(&self, now: u64, there: usize, wait: f64) -> bool {
        let at_once = now.saturating_sub(self.line.since) <= CROWD_MS && wait <= self.budget * CROWD;
        !self.line.grows && (at_once || there <= self.line.crest)
    }

    /// A request begins to wait; `waiting` wait already, and `there` wait or run, including it.
    pub fn begins_to_wait(&mut self, now: u64, waiting: usize, there: usize) {
        if waiting == 0 {
            self.rate.since = None;
            self.line = BusyPeriod { since: now, crest: 0, grows: false };
        }
        if now.saturating_sub(self.line.since) <= CREST_MS {
            self.line.crest = self.line.crest.max(there);
        }
    }

    /// A request was served, and took `took` milliseconds on its worker; `waiting` requests wait now.
    pub fn served(&mut self, now: u64, took: f64, waiting: usize) {
        self.served = (self.served + 1.0).min(SERVICE_MEMORY);
        let service = self.service.get_or_insert(took);
        *service += (took - *service) / self.served;
        self.quickest = (self.quickest * FORGET).min(*service);
        self.rate.served(now, waiting > 0);
    }

    /// `requests` requests used `cpu_us` microseconds of processor time.
    pub fn used(&mut self, cpu_us: u64, requests: u64) {
        if requests == 0 || cpu_us == 0 {
            return;
        }
        let each = cpu_us as f64 / 1e3 / requests as f64;
        let cpu = self.cpu.get_or_insert(each);
        *cpu += (each - *cpu) * (requests as f64 / SERVICE_MEMORY).min(1.0);
    }

    /// A request of that rank was refused.
    pub fn refused(&mut self, now: u64, rank: Rank) {
        self.line.grows |= rank == Rank::Visitor;
        let since = self.refusing.map_or(now, |(since, _)| since);
        self.refusing = Some((since, now));
    }

    /// Since when it refuses requests, if it does.
    pub fn overloaded_since(&mut self, now: u64) -> Option<u64> {
        self.refusing.take_if(|(_, last)| now.saturating_sub(*last) > QUIET_MS);
        self.refusing.map(|(since, _)| since)
    }

    /// The result of the last call of [`overloaded_since`](Self::overloaded_since).
    pub fn was_overloaded_since(&self) -> Option<u64> {
        self.refusing.map(|(since, _)| since)
    }

    /// Mean service time, milliseconds.
    pub fn mean(&self) -> Option<f64> {
        self.service
    }
}

/// A queue since it was last empty.
#[derive(Clone, Copy, Debug, Default)]
struct BusyPeriod {
    since: u64,
    /// The maximum that waited or ran in its first second.
    crest: usize,
    /// More requests arrive than are served: one was refused.
    grows: bool,
}

/// How fast a queue is served, measured while requests wait in it: number and time, both with exponential decay.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    served: f64,
    time: f64,
    /// When the last request was served, if requests have waited ever since: work that began before they arrived
    /// doesn't count.
    since: Option<u64>,
}

impl Rate {
    fn served(&mut self, now: u64, waiting: bool) {
        if let Some(since) = self.since.take() {
            let time = now.saturating_sub(since) as f64;
            let keep = (-time / RATE_MS).exp();
            self.served = self.served * keep + 1.0;
            self.time = self.time * keep + time;
        }
        if waiting {
            self.since = Some(now);
        }
    }

    /// Requests per millisecond, with `expected` weighted like a few of them.
    fn blend(&self, expected: f64) -> f64 {
        let hope = 1.0 + HOPE / (self.served + PRIOR);
        (self.served + PRIOR) / (self.time + PRIOR / expected) * if self.time > 0.0 { hope } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORES: usize = 2;
    /// Two run at once, each takes 50 ms: 40 per second.
    const LIMIT: usize = 2;

    fn admission() -> Admission {
        let mut admission = Admission::new(1_000);
        for _ in 0..20 {
            admission.served(0, 50.0, 0);
        }
        admission
    }

    /// The number that may wait.
    fn admitted(admission: &Admission, rank: Rank, limit: usize) -> usize {
        (0..).find(|ahead| !admission.admits(rank, *ahead, limit, CORES)).unwrap()
    }

    #[test]
    fn as_many_wait_as_are_served_within_the_budget() {
        let admission = admission();
        assert_eq!(
            admitted(&admission, Rank::Visitor, LIMIT),
            39,
            "1 s at 40 a second, less the page itself, and one that waits for nothing"
        );
        assert_eq!(admitted(&admission, Rank::Buying, LIMIT), 199);
        assert_eq!(admitted(&admission, Rank::Known, LIMIT), 199);
        assert_eq!(admitted(&admission, Rank::Unproven, LIMIT), 5, "an eighth of the rate");
        assert_eq!(admitted(&admission, Rank::Visitor, 4), 77, "twice as many workers");
    }

    #[test]
    fn before_anything_was_served_all_wait() {
        assert!(Admission::new(1_000).admits(Rank::Visitor, 10_000, LIMIT, CORES));
    }

    #[test]
    fn a_page_that_takes_longer_than_the_budget_is_served() {
        let mut admission = Admission::new(1_000);
        (0..20).for_each(|_| admission.served(0, 5_000.0, 0));
        assert!(admission.admits(Rank::Visitor, 0, 1, CORES));
        assert!(admission.admits(Rank::Visitor, 1, 1, CORES));
        assert!(!admission.admits(Rank::Visitor, 2, 1, CORES));
    }

    #[test]
    fn more_workers_than_cores_are_no_faster() {
        let mut admission = admission();
        admission.used(50_000 * 100, 100);
        assert_eq!(
            admitted(&admission, Rank::Visitor, 16),
            39,
            "50 ms of processor time, whatever the workers"
        );
        // Requests that wait for a database use little of it.
        (0..20).for_each(|_| admission.used(5_000 * 100, 100));
        assert!(admitted(&admission, Rank::Visitor, 16) > 250, "they wait for something else");
    }

    #[test]
    fn the_measured_rate_counts_more_than_the_expected_one() {
        let mut admission = admission();
        admission.begins_to_wait(0, 0, 1);
        // Twenty per second are served, though each takes 50 ms with two workers.
        (1..200).for_each(|at| admission.served(at * 50, 50.0, 5));
        let rate = admission.rate(LIMIT, CORES).unwrap() * 1e3;
        assert!((20.0..24.0).contains(&rate), "{rate}");
        // No request waits any more: the time that passes then doesn't count.
        admission.served(10_000, 50.0, 0);
        admission.served(60_000, 50.0, 0);
        assert!(admission.rate(LIMIT, CORES).unwrap() * 1e3 >= 20.0);
    }

    #[test]
    fn a_rate_that_falls_is_noticed_within_seconds() {
        let mut admission = admission();
        admission.begins_to_wait(0, 0, 1);
        (1..200).for_each(|at| admission.served(at * 25, 50.0, 5));
        assert!(admission.rate(LIMIT, CORES).unwrap() * 1e3 > 38.0);
        (1..100).for_each(|at| admission.served(5_000 + at * 100, 200.0, 5));
        let rate = admission.rate(LIMIT, CORES).unwrap() * 1e3;
        assert!((10.0..17.0).contains(&rate), "{rate}");
    }

    #[test]
    fn an_overload_ends_when_nothing_was_refused_for_a_while() {
        let mut admission = admission();
        assert_eq!(admission.overloaded_since(1), None);
        admission.refused(1_000, Rank::Visitor);
        admission.refused(3_000, Rank::Visitor);
        assert_eq!(admission.overloaded_since(3_000 + QUIET_MS), Some(1_000));
        assert_eq!(admission.was_overloaded_since(), Some(1_000));
        assert_eq!(admission.overloaded_since(3_001 + QUIET_MS), None);
    }

    #[test]
    fn a_line_that_does_not_grow_may_stay() {
        let mut admission = admission();
        admission.begins_to_wait(0, 0, 3);
        assert!(admission.is_steady(100, 60, 1_500.0), "all come at once");
        assert!(!admission.is_steady(100, 60, 2_500.0), "too many");
        admission.begins_to_wait(100, 57, 60);
        assert!(admission.is_steady(30_000, 60, 1_500.0) && !admission.is_steady(30_000, 61, 1_500.0));
        admission.refused(30_000, Rank::Visitor);
        assert!(!admission.is_steady(30_001, 60, 1_500.0), "others come as well");
        admission.begins_to_wait(40_000, 0, 3);
        assert!(admission.is_steady(40_001, 60, 1_500.0), "another crowd");
    }
}
