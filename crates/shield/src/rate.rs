//! A rate by the generic cell rate algorithm (ITU-T I.371): the only state of a client is one number, the time at which
//! it has nothing left to its account. It equals a token bucket without a task that refills it.

/// Microseconds in a minute.
const MINUTE: u64 = 60_000_000;

/// A number of requests per time, with a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Microseconds that each request costs.
    interval: u64,
    /// Maximum number of requests at once.
    burst: u64,
}

impl Rate {
    /// At most `number` requests in `minutes` minutes on average, and `burst` at once; `None`: no limit.
    #[must_use]
    pub fn new(number: u64, minutes: u64, burst: u64) -> Option<Rate> {
        (number > 0 && minutes > 0)
            .then(|| Rate { interval: (MINUTE * minutes / number).max(1), burst: burst.max(1) })
    }

    /// A client's state after one more request that counts `cost` times; `due` is its present state (0: none), `now` the
    /// time in microseconds.
    ///
    /// # Errors
    /// It has no request left: microseconds until it has.
    pub fn ask(&self, due: u64, now: u64, cost: u64) -> Result<u64, u64> {
        let due = due.max(now) + self.interval * cost.clamp(1, self.burst);
        match due.saturating_sub(now + self.interval * self.burst) {
            0 => Ok(due),
            wait => Err(wait),
        }
    }

    /// A client's state as if a request that has counted `cost` times had not been sent.
    #[must_use]
    pub fn give_back(&self, due: u64, cost: u64) -> u64 {
        due.saturating_sub(self.interval * cost.clamp(1, self.burst))
    }

    /// How many requests a client in this state may send at once.
    #[must_use]
    pub fn left(&self, due: u64, now: u64) -> u64 {
        self.burst.saturating_sub(due.saturating_sub(now).div_ceil(self.interval))
    }

    /// Maximum number of requests at once.
    #[must_use]
    pub fn burst(&self) -> u64 {
        self.burst
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A token bucket, in parts of a token: `interval` parts are one, and each microsecond brings one part.
    struct Bucket {
        parts: u64,
        at: u64,
    }

    impl Bucket {
        fn ask(&mut self, rate: &Rate, now: u64, cost: u64) -> Result<(), u64> {
            self.parts = (self.parts + now - self.at).min(rate.burst * rate.interval);
            self.at = now;
            let price = cost.clamp(1, rate.burst) * rate.interval;
            match self.parts.checked_sub(price) {
                Some(left) => self.parts = left,
                None => return Err(price - self.parts),
            }
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn it_equals_a_token_bucket(
            number in 1_u64..5_000,
            minutes in 1_u64..20,
            burst in 1_u64..50,
            steps in prop::collection::vec((0_u64..90_000_000, 1_u64..12), 1..200),
        ) {
            let rate = Rate::new(number, minutes, burst).unwrap();
            let mut bucket = Bucket { parts: burst * rate.interval, at: 1 };
            let (mut due, mut now) = (0, 1);
            for (pause, cost) in steps {
                now += pause / burst;
                let expected = bucket.ask(&rate, now, cost);
                let found = rate.ask(due, now, cost);
                prop_assert_eq!(found.map(drop), expected);
                due = found.unwrap_or(due);
                prop_assert_eq!(rate.left(due, now), bucket.parts / rate.interval);
            }
        }
    }

    #[test]
    fn a_refused_client_is_served_after_the_time_that_it_is_told() {
        let rate = Rate::new(60, 1, 3).unwrap();
        let mut due = 0;
        for left in [2, 1, 0] {
            due = rate.ask(due, 5, 1).unwrap();
            assert_eq!(rate.left(due, 5), left);
        }
        let wait = rate.ask(due, 5, 1).unwrap_err();
        assert_eq!(wait, 1_000_000);
        assert!(rate.ask(due, 5 + wait - 1, 1).is_err() && rate.ask(due, 5 + wait, 1).is_ok());
        assert_eq!(rate.ask(rate.give_back(due, 1), 5, 1), Ok(due), "what has been given back");
        assert_eq!(rate.left(rate.give_back(0, 9), 5), 3);
        assert_eq!(Rate::new(0, 1, 1), None);
        assert!(rate.ask(0, 5, 100).is_ok(), "a heavy request counts as a whole burst at most");
    }
}
