//! Published concurrency limits on the same simulated machine: ours must beat them.

use super::super::concurrency_limit::{ConcurrencyLimit, PoolSample};
use super::{CAPACITY, Crowd, Machine, PAGE, SLOW, Script, Tally};

/// Limits how many requests may run at once.
pub trait Limiter {
    fn limit(&self) -> usize;
    fn look(&mut self, now: u64, seen: &PoolSample);
    fn served(&mut self, _took: f64) {}
}

impl Limiter for ConcurrencyLimit {
    fn limit(&self) -> usize {
        ConcurrencyLimit::limit(self)
    }

    fn look(&mut self, now: u64, seen: &PoolSample) {
        ConcurrencyLimit::look(self, now, seen);
    }
}

/// A constant limit.
pub struct Fixed(pub usize);

impl Limiter for Fixed {
    fn limit(&self) -> usize {
        self.0
    }

    fn look(&mut self, _: u64, _: &PoolSample) {}
}

/// Additive increase, multiplicative decrease (D. Chiu and R. Jain, 1989), driven by a bound of the service time, as in
/// Netflix's concurrency-limits (`AIMDLimit`). The bound must be known beforehand: here twice the time of a page.
struct Aimd {
    limit: f64,
    late: bool,
    bound: f64,
}

impl Limiter for Aimd {
    fn limit(&self) -> usize {
        self.limit as usize
    }

    fn look(&mut self, _: u64, seen: &PoolSample) {
        if std::mem::take(&mut self.late) {
            self.limit = (self.limit * 0.9).max(2.0);
        } else if seen.pressed {
            self.limit = (self.limit + 1.0).min(16.0);
        }
    }

    fn served(&mut self, took: f64) {
        self.late |= took > self.bound;
    }
}

/// The gradient limit (`Gradient2Limit` of the same library): the long-term average of the service time divided by the
/// short-term one, with a tolerance of 1.5 and a queue of 4.
struct Gradient {
    limit: f64,
    long: Option<f64>,
    sum: f64,
    count: f64,
}

impl Limiter for Gradient {
    fn limit(&self) -> usize {
        self.limit as usize
    }

    fn look(&mut self, _: u64, seen: &PoolSample) {
        if self.count == 0.0 || !seen.pressed {
            return;
        }
        let short = self.sum / self.count;
        (self.sum, self.count) = (0.0, 0.0);
        let long = self.long.get_or_insert(short);
        *long += (short - *long) / 600.0;
        if *long / short > 2.0 {
            *long *= 0.95;
        }
        let gradient = (1.5 * *long / short).clamp(0.5, 1.0);
        let next = self.limit * gradient + 4.0;
        self.limit = (self.limit * 0.8 + next * 0.2).clamp(2.0, 16.0);
    }

    fn served(&mut self, took: f64) {
        self.sum += took;
        self.count += 1.0;
    }
}

/// Goodput and average service time of pages in an overload, then goodput of scripts that wait for a service.
fn measure(limiter: impl Fn() -> Box<dyn Limiter>) -> [f64; 3] {
    let mut machine = Machine::with(16, limiter());
    let crowd = Crowd::Open(CAPACITY * 5.0);
    machine.play(20, &crowd, &[PAGE]);
    let pages = machine.play(30, &crowd, &[PAGE]);
    let service = machine.queue.admission.mean().unwrap();
    let mut machine = Machine::with(16, limiter());
    machine.play(20, &Crowd::Closed(40), &[SLOW]);
    let slow = machine.play(30, &Crowd::Closed(40), &[SLOW]);
    let rate =
        |tally: &Tally, script: &Script| tally.served as f64 * (script.cpu + script.service) / 30_000.0;
    [rate(&pages, &PAGE) / 2.0, service, rate(&slow, &SLOW) / 16.0]
}

#[test]
fn ours_wins_over_published_limits() {
    let [pages, service, slow] = measure(|| Box::new(ConcurrencyLimit::new(2, 16)));
    assert!(pages > 0.95 && service < 60.0 && slow > 0.9, "{pages:.2} {service:.0} {slow:.2}");
    type New = fn() -> Box<dyn Limiter>;
    let others: [(&str, New); 3] = [
        ("none", || Box::new(Fixed(16))),
        ("AIMD", || Box::new(Aimd { limit: 16.0, late: false, bound: 50.0 })),
        ("gradient", || Box::new(Gradient { limit: 16.0, long: None, sum: 0.0, count: 0.0 })),
    ];
    for (name, limiter) in others {
        let [other_pages, other_service, other_slow] = measure(limiter);
        // Worse in one figure, and not significantly better in any.
        let worse = other_pages < pages * 0.95 || other_service > service * 1.5 || other_slow < slow * 0.9;
        let better = other_pages > pages * 1.03 || other_service < service * 0.9 || other_slow > slow * 1.03;
        assert!(
            worse && !better,
            "{name}: {other_pages:.2} {other_service:.0} {other_slow:.2}, ours {pages:.2} {service:.0} {slow:.2}"
        );
    }
}
