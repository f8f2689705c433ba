//! The times of arrivals: the curve of the load, and a thread's share of it. No clock: times are passed in.

use std::time::Duration;

use crate::plan::{Curve, Segment};

impl Curve {
    /// A load that stays the same.
    pub fn constant(load: f64, time: Duration) -> Curve {
        Curve { stages: vec![Segment { from: load, to: load, time, round: false }] }
    }

    /// How long all stages take.
    pub fn time(&self) -> Duration {
        self.stages.iter().map(|stage| stage.time).sum()
    }

    /// The most there ever is.
    pub fn peak(&self) -> f64 {
        self.stages.iter().map(|stage| stage.from.max(stage.to)).fold(0.0, f64::max)
    }

    /// The load at a time, in seconds from the start; after the end there is none.
    pub fn at(&self, time: f64) -> f64 {
        match self.stage_at(time) {
            Some((index, within)) => self.stages[index].at(within),
            None => 0.0,
        }
    }

    /// The stage at a time, and how long ago it began.
    pub fn stage_at(&self, time: f64) -> Option<(usize, f64)> {
        let mut begin = 0.0;
        for (index, stage) in self.stages.iter().enumerate() {
            let end = begin + stage.time.as_secs_f64();
            if time < end {
                return Some((index, (time - begin).max(0.0)));
            }
            begin = end;
        }
        None
    }

    /// How many arrivals there are in all.
    pub fn arrivals(&self) -> f64 {
        self.stages.iter().map(Segment::area).sum()
    }

    /// When the arrival with this number (not necessarily whole), counted from 0, is due: where the area under the
    /// curve reaches it. `None`: never.
    pub fn when(&self, number: f64) -> Option<f64> {
        let (mut begin, mut left) = (0.0, number);
        for stage in &self.stages {
            let area = stage.area();
            if left < area {
                return Some(begin + stage.when(left));
            }
            left -= area;
            begin += stage.time.as_secs_f64();
        }
        None
    }
}

impl Segment {
    fn at(&self, within: f64) -> f64 {
        let time = self.time.as_secs_f64();
        if time == 0.0 { self.to } else { self.from + (self.to - self.from) * within / time }
    }

    fn area(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.time.as_secs_f64()
    }

    /// Solves `from * t + slope / 2 * t * t = number` for t.
    fn when(&self, number: f64) -> f64 {
        let slope = (self.to - self.from) / self.time.as_secs_f64();
        let root = (self.from * self.from + 2.0 * slope * number).max(0.0).sqrt();
        // This form of the solution of a quadratic equation stays exact where the slope is near 0.
        if self.from + root == 0.0 { 0.0 } else { 2.0 * number / (self.from + root) }
    }
}

/// A thread's share of open arrivals: every n-th, evenly spaced.
#[derive(Clone, Copy, Debug)]
pub struct ArrivalTimes {
    next: u64,
    threads: u64,
}

impl ArrivalTimes {
    /// The share of thread number `thread` of `threads`.
    pub fn new(thread: usize, threads: usize) -> ArrivalTimes {
        ArrivalTimes { next: thread as u64, threads: threads as u64 }
    }

    /// When the next arrival is due, in seconds from the start.
    pub fn peek(&self, curve: &Curve) -> Option<f64> {
        curve.when(self.next as f64 + 0.5)
    }

    /// Its number among the arrivals of all threads.
    pub fn number(&self) -> u64 {
        self.next
    }

    /// Advances to the next arrival.
    pub fn take(&mut self) {
        self.next += self.threads;
    }
}

/// How many of `load` users belong to thread number `thread` of `threads`.
pub fn share(load: f64, thread: usize, threads: usize) -> usize {
    let load = load.round().max(0.0) as usize;
    (load + threads - 1 - thread) / threads
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(from: f64, to: f64, seconds: u64) -> Segment {
        Segment { from, to, time: Duration::from_secs(seconds), round: false }
    }

    #[test]
    fn a_ramp_is_a_straight_line() {
        let curve = Curve { stages: vec![segment(0.0, 100.0, 10), segment(100.0, 100.0, 5)] };
        assert_eq!([0.0, 5.0, 12.0, 15.0].map(|t| curve.at(t)), [0.0, 50.0, 100.0, 0.0]);
        assert_eq!((curve.peak(), curve.time().as_secs()), (100.0, 15));
    }

    #[test]
    fn arrivals_are_as_many_as_the_area_says() {
        let curve = Curve { stages: vec![segment(0.0, 100.0, 10), segment(50.0, 50.0, 2)] };
        let (mut arrivals, mut times) = (ArrivalTimes::new(0, 1), Vec::new());
        while let Some(time) = arrivals.peek(&curve) {
            times.push(time);
            arrivals.take();
        }
        assert_eq!(times.len(), 600);
        assert!(times.is_sorted());
        // Half of the ramp's time is a quarter of its arrivals.
        assert_eq!(times.iter().filter(|t| **t < 5.0).count(), 125);
        assert!((times[550] - times[549] - 0.02).abs() < 1e-9);
    }

    #[test]
    fn threads_share_without_a_rest() {
        let curve = Curve::constant(10.0, Duration::from_secs(1));
        let mut times = Vec::new();
        for thread in 0..3 {
            let mut arrivals = ArrivalTimes::new(thread, 3);
            while let Some(time) = arrivals.peek(&curve) {
                times.push((time * 1000.0).round() as u64);
                arrivals.take();
            }
        }
        times.sort_unstable();
        assert_eq!(times, [50, 150, 250, 350, 450, 550, 650, 750, 850, 950]);
        for load in 0..20 {
            assert_eq!((0..7).map(|thread| share(f64::from(load), thread, 7)).sum::<usize>(), load as usize);
        }
    }
}
