//! The time, in nanoseconds from the start of the run.

use std::time::{Duration, Instant};

/// All threads of a run count from the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

/// A second.
pub const SECOND: u64 = 1_000_000_000;

impl Clock {
    /// Counts from now.
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// How long ago that was.
    pub fn now(&self) -> u64 {
        nanoseconds(self.0.elapsed())
    }
}

/// A time in nanoseconds; 584 years at most.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Seconds in nanoseconds.
pub fn from_seconds(seconds: f64) -> u64 {
    (seconds * SECOND as f64).round().max(0.0) as u64
}
