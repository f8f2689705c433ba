//! A Millrace server's own metrics, beside the observations from outside.

use serde::{Deserialize, Serialize};

use super::figures::{grouped, percent};
use crate::record;

/// A Millrace server's own metrics over a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MillraceSummary {
    /// Connections open, most.
    pub connections: u64,
    /// PHP workers that ran a script, most.
    pub php_running: u64,
    /// PHP workers that there may be.
    pub php_limit: u64,
    /// Requests that waited for a PHP worker, most.
    pub php_waiting: u64,
    /// PHP requests.
    pub php_requests: u64,
    /// Requests served by the page cache, fresh or stale.
    pub cache_hits: u64,
    /// Requests that the cache could have served if it had had the page.
    pub cache_misses: u64,
    /// Requests and connections that were refused because there were too many.
    pub refused: u64,
}

impl MillraceSummary {
    /// As it was recorded.
    pub(super) fn of(own: record::MillraceSample) -> MillraceSummary {
        MillraceSummary {
            connections: own.connections,
            php_running: own.php_running,
            php_limit: own.php_limit,
            php_waiting: own.php_waiting,
            php_requests: own.php_requests,
            cache_hits: own.cache_hits,
            cache_misses: own.cache_misses,
            refused: own.refused,
        }
    }

    /// The maximum of gauges, and the sum of counters.
    pub(super) fn over(samples: impl Iterator<Item = MillraceSummary>) -> Option<MillraceSummary> {
        samples.reduce(|a, b| MillraceSummary {
            connections: a.connections.max(b.connections),
            php_running: a.php_running.max(b.php_running),
            php_limit: a.php_limit.max(b.php_limit),
            php_waiting: a.php_waiting.max(b.php_waiting),
            php_requests: a.php_requests + b.php_requests,
            cache_hits: a.cache_hits + b.cache_hits,
            cache_misses: a.cache_misses + b.cache_misses,
            refused: a.refused + b.refused,
        })
    }

    /// As text: the cache, PHP, refusals; only what occurred.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let looked = self.cache_hits + self.cache_misses;
        if looked > 0 {
            words.push(format!(
                "page cache: {} hits of {} lookups",
                percent(self.cache_hits as f64 / looked as f64),
                grouped(looked)
            ));
        }
        if self.php_requests + self.php_waiting > 0 {
            words.push(format!(
                "PHP: {} requests, up to {} of {} workers busy, up to {} requests waiting",
                grouped(self.php_requests),
                self.php_running,
                self.php_limit,
                grouped(self.php_waiting)
            ));
        }
        if self.refused > 0 {
            words.push(format!("{} refused", grouped(self.refused)));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_at_most_and_what_happened_in_all() {
        let one = MillraceSummary {
            php_running: 4,
            php_limit: 8,
            php_requests: 10,
            cache_hits: 3,
            ..MillraceSummary::default()
        };
        let two = MillraceSummary {
            php_running: 2,
            php_limit: 8,
            cache_misses: 1,
            refused: 5,
            ..MillraceSummary::default()
        };
        let both = MillraceSummary::over([one, two].into_iter()).unwrap();
        assert_eq!(
            both.words(),
            [
                "page cache: 75 % hits of 4 lookups",
                "PHP: 10 requests, up to 4 of 8 workers busy, up to 0 requests waiting",
                "5 refused"
            ]
        );
        assert!(
            MillraceSummary::default().words().is_empty()
                && MillraceSummary::over(std::iter::empty()).is_none()
        );
    }
}
