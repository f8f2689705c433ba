//! How far the waiting room has been called: browsers that arrived before the frontier may join the queue when they come back.
//!
//! Counting the browsers ahead does not tell when one may come in: of those that have waited for long, most have given up, and nothing
//! tells which. So the frontier follows the queue instead: while the queue is shorter than it should be, the frontier moves on, the
//! faster the shorter the queue; while it is long enough, the frontier rests. What it moves in a second says how long a browser
//! still waits, whatever others do.

/// Milliseconds of arrivals that an empty queue calls in a millisecond. In balance, the queue is shorter than it should be by the part of one in so
/// many: the frontier moves by one millisecond in a millisecond where everybody waits equally long.
const GAIN: f64 = 20.0;
/// Its speed is averaged over such a time, milliseconds.
const SPEED_MS: f64 = 10_000.0;
/// A slower one says nothing.
const SLOWEST: f64 = 0.01;

/// The frontier of a waiting room. Times are milliseconds of one clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frontier {
    /// Browsers that arrived until then are called.
    at: f64,
    /// Milliseconds of arrivals in a millisecond.
    speed: f64,
    updated: u64,
}

impl Frontier {
    /// The waiting room is empty: everybody may come in.
    pub fn reset(&mut self, now: u64) {
        *self = Frontier { at: now as f64, speed: 0.0, updated: now };
    }

    /// It is `now`, and the queue has that part of the length that it should have.
    pub fn advance(&mut self, now: u64, fill: f64) {
        let time = now.saturating_sub(self.updated) as f64;
        if time == 0.0 {
            return;
        }
        let step = (time * GAIN * (1.0 - fill).max(0.0)).min(now as f64 - self.at);
        self.at += step;
        self.speed += (step / time - self.speed) * (1.0 - (-time / SPEED_MS).exp());
        self.updated = now;
    }

    /// Whether a browser that arrived then may come in.
    pub fn calls(&self, arrived: u64) -> bool {
        arrived as f64 <= self.at
    }

    /// How long it still takes until a browser that arrived then is called, milliseconds; `None`: there is no telling.
    pub fn wait(&self, arrived: u64) -> Option<f64> {
        (self.speed >= SLOWEST).then(|| (arrived as f64 - self.at).max(0.0) / self.speed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rests_while_the_queue_is_long_and_moves_while_it_is_short() {
        let mut frontier = Frontier::default();
        frontier.reset(1_000);
        assert!(frontier.calls(1_000) && !frontier.calls(1_001));
        (1..=100).for_each(|at| frontier.advance(1_000 + at * 100, 1.5));
        assert!(!frontier.calls(1_001) && frontier.wait(2_000).is_none());
        // A queue that is nearly long enough: as many come in as arrive.
        (1..=300).for_each(|at| frontier.advance(11_000 + at * 100, 0.95));
        assert!(frontier.calls(30_500) && !frontier.calls(31_500));
        let wait = frontier.wait(41_000).unwrap();
        assert!((9_000.0..11_500.0).contains(&wait), "{wait}");
        frontier.advance(42_000, 0.0);
        assert!(frontier.calls(42_000) && !frontier.calls(42_001), "never beyond the present");
    }
}
