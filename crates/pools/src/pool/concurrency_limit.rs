//! How many requests should run at once: a value without clock and sockets that finds this out by observation.
//!
//! More workers than the machine can run do not serve more pages: they take turns, and every page takes longer. But
//! workers that wait for a slow service cost nothing, and fewer of them would leave the machine idle. So it limits
//! nothing until there is a sign that a limit helps, and only while requests wait:
//!
//! 1. *The processor is full.* The kernel reports for each process how long it ran, and how long it was ready and
//!    waited for a core. If more than a few workers ([`ConcurrencyLimit::slack`]) wait all the time, the limit falls
//!    by the excess. This needs no experiment and no assumption about how long a script should take, so a mixture of
//!    quick and slow scripts does not disturb it.
//! 2. *Something behind PHP is full*, a database or its disk: for the same work, scripts stand still for longer than
//!    they did with few at once. Other scripts may also be the reason, so an experiment follows: with a quarter less
//!    at once, is as much work done? If so, the lower limit stays and the next experiment begins. If not, the old
//!    limit returns, and this much standing still counts as usual.
//! 3. *Neither*: a few more are tried; unless more work is done, the limit returns.
//!
//! After a failed experiment the next one waits, for twice as long each time. Work is the processor time that scripts
//! used, not their number, because it varies less. When no request has waited for some seconds, all this is
//! forgotten.

/// Observation time for a decision, and for an experiment, milliseconds.
const LOOK_MS: u64 = 400;
const TRIAL_MS: u64 = 600;
/// Finished requests that either needs, unless they are so slow that the third value, milliseconds, passes first.
const LOOK_FINISHED: u64 = 1;
const TRIAL_FINISHED: u64 = 30;
const LONGEST_MS: u64 = 6_000;
/// The part of the time in which requests must have waited.
const PRESSED: f64 = 0.7;
/// The limit is lifted after no request has waited for this long, milliseconds.
const QUIET_MS: u64 = 3_000;
/// Pause after the first failed experiment and the longest, milliseconds.
const HOLD_MS: u64 = 4_000;
const HOLD_MOST_MS: u64 = 60_000;
/// An experiment shows that the number matters if the work changes by this part of the change in number.
const MATTERS: f64 = 0.3;
/// Standing still longer than usual by this factor, for the same work, is a sign.
const LONGER: f64 = 2.0;
/// But only if workers stand still for this part of their time: a full processor is not a sign of anything else.
const STILL: f64 = 0.3;
/// The part of the cores that workers count as having at least.
const LEAST_SHARE: f64 = 0.25;
/// Steps of experiments.
const LESS: f64 = 0.75;
const MORE: f64 = 1.34;
/// The factor by which the limit grows per look while hardly any worker waits for a core.
const QUICKLY: f64 = 1.25;

/// Observations of a pool's workers since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolSample {
    /// Workers with a request.
    pub busy: usize,
    /// Processor time that they used, microseconds; `None`: unknown.
    pub cpu_us: Option<u64>,
    /// Time in which they were ready to run without a core, microseconds; `None`: the kernel does not say.
    pub ready_us: Option<u64>,
    /// Requests that were finished.
    pub finished: u64,
    /// Whether requests wait, or were refused.
    pub pressed: bool,
}

/// Finds out how many requests should run at once. Times are milliseconds on one clock.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit {
    floor: usize,
    most: usize,
    cores: usize,
    limit: f64,
    /// The highest useful number found: beyond it requests only take longer.
    ceiling: f64,
    /// Ready workers of the last looks.
    ready: Option<f64>,
    looked: Option<u64>,
    window: LimitWindow,
    /// Observations before this time belong to the previous limit.
    settled: u64,
    trial: Option<Trial>,
    hold: u64,
    hold_until: u64,
    /// Usual standing still per unit of work: the least seen lately.
    usual: Option<f64>,
    /// When a request waited last.
    pressed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct LimitWindow {
    time: u64,
    pressed: u64,
    busy: f64,
    cpu: f64,
    ready: f64,
    finished: u64,
    /// Whether processor and ready time were known in all looks.
    unknown_cpu: bool,
    unknown_ready: bool,
}

/// The results of a window.
#[derive(Clone, Copy, Debug)]
struct WindowFigures {
    /// Average number of workers at work.
    busy: f64,
    /// Of these, ready without a core.
    ready: Option<f64>,
    /// The number of cores that they used.
    share: Option<f64>,
    /// Work per second, in any unit.
    work: f64,
    /// Standing still per unit of work.
    still: f64,
    /// The part of their time in which workers stand still.
    still_part: f64,
    /// Mean duration of a request, milliseconds.
    took: f64,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    from: f64,
    before: WindowFigures,
}

impl ConcurrencyLimit {
    /// Between `cores` and `most` at once.
    pub fn new(cores: usize, most: usize) -> ConcurrencyLimit {
        let most = most.max(1);
        ConcurrencyLimit {
            floor: cores.clamp(1, most),
            most,
            cores: cores.max(1),
            limit: most as f64,
            ceiling: most as f64,
            ready: None,
            looked: None,
            window: LimitWindow::default(),
            settled: 0,
            trial: None,
            hold: HOLD_MS,
            hold_until: 0,
            usual: None,
            pressed: 0,
        }
    }

    /// How many may run at once now.
    pub fn limit(&self) -> usize {
        (self.limit.round() as usize).clamp(self.floor, self.most)
    }

    /// Number of cores that the limit is for.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Sets the maximum, whatever is found.
    pub fn set_most(&mut self, most: usize) {
        let most = most.max(1);
        (self.floor, self.most) = (self.cores.min(most), most);
        self.lift();
    }

    /// Whether it has found that fewer are better.
    pub fn is_holding_back(&self) -> bool {
        self.limit() < self.most
    }

    /// Harmless number of ready workers: they keep the cores busy while others stand still. It grows with the cores,
    /// but more slowly.
    pub fn slack(&self) -> f64 {
        (self.cores as f64).sqrt() * 0.75
    }

    /// Takes the observations since the last call, a few times a second.
    pub fn look(&mut self, now: u64, seen: &PoolSample) {
        let Some(looked) = self.looked.replace(now) else { return };
        let time = now.saturating_sub(looked);
        if seen.pressed {
            self.pressed = now;
        } else if now.saturating_sub(self.pressed) >= QUIET_MS {
            self.lift();
        }
        if now <= self.settled {
            return;
        }
        self.window.add(time, seen);
        let (least, finished) =
            if self.trial.is_some() { (TRIAL_MS, TRIAL_FINISHED) } else { (LOOK_MS, LOOK_FINISHED) };
        let long = self.window.time >= least && self.window.finished >= finished;
        if !long && self.window.time < LONGEST_MS {
            return;
        }
        let window = std::mem::take(&mut self.window);
        let pressed = window.pressed as f64 >= window.time as f64 * PRESSED;
        match window.sum_up() {
            Some(found) if pressed => self.decide(now, found),
            Some(found) => {
                self.note_usual(&found);
                self.trial = None;
            }
            None => (),
        }
    }

    /// Looks stop for a while, and earlier observations expire.
    pub fn pause(&mut self) {
        (self.looked, self.window) = (None, LimitWindow::default());
    }

    /// Forgets everything.
    fn lift(&mut self) {
        (self.limit, self.ceiling) = (self.most as f64, self.most as f64);
        (self.trial, self.ready) = (None, None);
        (self.hold, self.hold_until) = (HOLD_MS, 0);
    }

    fn decide(&mut self, now: u64, found: WindowFigures) {
        match self.trial.take() {
            Some(trial) => self.judge(now, trial, &found),
            None => self.note_usual(&found),
        }
        if self.trial.is_none() && now >= self.hold_until && self.try_another(now, &found) {
            return;
        }
        let Some(ready) = found.ready else {
            self.limit = self.limit.min(self.ceiling);
            return;
        };
        let smooth = self.ready.map_or(ready, |before| (before + ready) / 2.0);
        self.ready = Some(smooth);
        // All but a few ready workers are useless; while there are fewer, there may be more. The observation may be
        // an accident, so one look does not change much. And if other programs use most of the cores, fewer workers
        // would only leave more to them.
        let share = found.share.map_or(1.0, |cores| (cores / self.cores as f64).clamp(LEAST_SHARE, 1.0));
        let slack = self.slack() / share;
        let target = found.busy - smooth + slack;
        let next = (self.limit + target) / 2.0;
        let next = if smooth < slack / 4.0 { next.max(self.limit * QUICKLY) } else { next };
        self.limit = next.max(self.limit / 2.0).clamp(self.floor as f64, self.ceiling);
    }

    /// Ends an experiment.
    fn judge(&mut self, now: u64, trial: Trial, found: &WindowFigures) {
        let number = found.busy / trial.before.busy - 1.0;
        let work = found.work / trial.before.work - 1.0;
        let up = trial.from < self.ceiling;
        if number.abs() < 0.05 {
            // There were not as many as allowed, or as many as before.
            self.ceiling = trial.from;
            return self.back_off(now);
        }
        let matters = work / number >= MATTERS;
        if matters == up {
            (self.hold, self.hold_until) = (HOLD_MS, now);
            return;
        }
        if !up {
            // The scripts are slow by nature.
            self.usual = Some(trial.before.still);
        }
        self.ceiling = trial.from;
        self.back_off(now);
    }

    /// Begins an experiment if there is a reason.
    fn try_another(&mut self, now: u64, found: &WindowFigures) -> bool {
        let longer = found.still_part > STILL && self.usual.is_some_and(|usual| found.still > usual * LONGER);
        let next = if longer {
            (self.ceiling.min(found.busy) * LESS).floor().max(self.floor as f64)
        } else {
            (self.ceiling * MORE).ceil().min(self.most as f64)
        };
        if next == self.ceiling || longer && next >= self.limit {
            return false;
        }
        self.trial = Some(Trial { from: self.ceiling, before: *found });
        self.ceiling = next;
        self.limit = if longer { self.limit.min(next) } else { next };
        self.window = LimitWindow::default();
        self.settled = now + (found.took as u64).min(LONGEST_MS);
        true
    }

    fn back_off(&mut self, now: u64) {
        self.hold_until = now + self.hold;
        self.hold = (self.hold * 2).min(HOLD_MOST_MS);
        self.limit = self.limit.min(self.ceiling);
    }

    /// Follows a lower value at once and rises slowly: scripts change.
    fn note_usual(&mut self, found: &WindowFigures) {
        let usual = self.usual.unwrap_or(found.still);
        self.usual = Some(if found.still < usual { (usual * 3.0 + found.still) / 4.0 } else { usual * 1.01 });
    }
}

impl LimitWindow {
    fn add(&mut self, time: u64, seen: &PoolSample) {
        self.time += time;
        self.pressed += if seen.pressed { time } else { 0 };
        self.busy += seen.busy as f64 * time as f64;
        self.cpu += seen.cpu_us.unwrap_or(0) as f64;
        self.ready += seen.ready_us.unwrap_or(0) as f64;
        self.finished += seen.finished;
        self.unknown_cpu |= seen.cpu_us.is_none();
        self.unknown_ready |= seen.ready_us.is_none();
    }

    fn sum_up(&self) -> Option<WindowFigures> {
        let time = self.time as f64;
        if time == 0.0 || self.busy == 0.0 {
            return None;
        }
        let by_number = self.unknown_cpu || self.cpu == 0.0;
        let work = if by_number { self.finished as f64 } else { self.cpu };
        if work == 0.0 {
            return None;
        }
        let still = (self.busy * 1e3 - self.cpu - self.ready).max(0.0);
        Some(WindowFigures {
            busy: self.busy / time,
            ready: (!self.unknown_ready).then_some(self.ready / 1e3 / time),
            share: (!self.unknown_cpu).then_some(self.cpu / 1e3 / time),
            work: work / time,
            still: still / work,
            still_part: still / (self.busy * 1e3),
            took: self.busy / self.finished.max(1) as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at intervals of a tenth of a second.
    fn look(concurrency: &mut ConcurrencyLimit, now: &mut u64, times: usize, seen: &PoolSample) {
        for _ in 0..times {
            *now += 100;
            concurrency.look(*now, seen);
        }
    }

    /// `busy` workers on two cores, each ready to run all the time.
    fn crowded(busy: usize) -> PoolSample {
        let (on, off) = (busy.min(2) as u64, busy.saturating_sub(2) as u64);
        PoolSample {
            busy,
            cpu_us: Some(on * 100_000),
            ready_us: Some(off * 100_000),
            finished: 8,
            pressed: true,
        }
    }

    #[test]
    fn without_a_sign_nothing_is_limited() {
        let (mut concurrency, mut now) = (ConcurrencyLimit::new(2, 16), 0);
        look(&mut concurrency, &mut now, 100, &PoolSample { pressed: false, ..crowded(16) });
        assert!(concurrency.limit() == 16 && !concurrency.is_holding_back(), "nobody waits");
        look(&mut concurrency, &mut now, 100, &PoolSample { ready_us: Some(0), ..crowded(16) });
        assert_eq!(concurrency.limit(), 16, "nobody is in anybody's way");
    }

    #[test]
    fn a_full_processor_is_shared_by_few() {
        let (mut concurrency, mut now) = (ConcurrencyLimit::new(2, 16), 0);
        for _ in 0..40 {
            let busy = concurrency.limit();
            look(&mut concurrency, &mut now, 1, &crowded(busy));
        }
        assert_eq!(concurrency.limit(), 3);
        assert!(concurrency.is_holding_back());
        // After a quiet moment everything is forgotten.
        look(
            &mut concurrency,
            &mut now,
            40,
            &PoolSample { finished: 0, busy: 0, pressed: false, ..crowded(0) },
        );
        assert_eq!(concurrency.limit(), 16);
    }

    #[test]
    fn where_others_have_the_cores_more_may_run() {
        let limit = |cores: f64| {
            let (mut concurrency, mut now) = (ConcurrencyLimit::new(2, 16), 0);
            for _ in 0..80 {
                let busy = concurrency.limit();
                let on = (cores * 100_000.0) as u64;
                let seen = PoolSample {
                    cpu_us: Some(on),
                    ready_us: Some(busy as u64 * 100_000 - on),
                    ..crowded(busy)
                };
                look(&mut concurrency, &mut now, 1, &seen);
            }
            concurrency.limit()
        };
        let limits = [2.0, 1.4, 1.0, 0.5].map(limit);
        assert!(limits.is_sorted() && limits[0] == 3 && (4..=6).contains(&limits[3]), "{limits:?}");
    }

    #[test]
    fn never_below_the_cores_and_never_above_the_most() {
        for (cores, most, least) in [(4, 16, 4), (8, 3, 3), (1, 1, 1)] {
            let (mut concurrency, mut now) = (ConcurrencyLimit::new(cores, most), 0);
            let seen = PoolSample {
                busy: most,
                cpu_us: Some(cores as u64 * 100_000),
                ready_us: Some(100_000 * most as u64),
                finished: 8,
                pressed: true,
            };
            look(&mut concurrency, &mut now, 100, &seen);
            assert_eq!(concurrency.limit(), least);
        }
        let mut concurrency = ConcurrencyLimit::new(2, 16);
        concurrency.set_most(1);
        assert_eq!(concurrency.limit(), 1);
    }

    #[test]
    fn a_kernel_that_says_nothing_of_waiting_does_no_harm() {
        let (mut concurrency, mut now) = (ConcurrencyLimit::new(2, 16), 0);
        look(&mut concurrency, &mut now, 200, &PoolSample { ready_us: None, cpu_us: None, ..crowded(16) });
        assert_eq!(concurrency.limit(), 16);
    }
}
