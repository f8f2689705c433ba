//! How long requests take: one histogram per thread with fixed bounds, so that recording is two additions and the sum
//! over threads is exact.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, microseconds; a last one without bound follows.
pub const BOUNDS: [u64; 17] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 30_000_000,
];

/// What produced the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum ResponseClass {
    /// The static file path.
    File,
    /// A PHP worker.
    Php,
    /// The page cache, without any wait.
    Page,
    /// An application behind the server.
    Proxy,
    /// Millrace itself: redirects, refusals.
    Other,
}

impl ResponseClass {
    /// Every class, in order.
    pub const ALL: [ResponseClass; 5] = [
        ResponseClass::File,
        ResponseClass::Php,
        ResponseClass::Page,
        ResponseClass::Proxy,
        ResponseClass::Other,
    ];

    /// The value of the label `class`.
    pub fn name(self) -> &'static str {
        match self {
            ResponseClass::File => "file",
            ResponseClass::Php => "php",
            ResponseClass::Page => "page",
            ResponseClass::Proxy => "proxy",
            ResponseClass::Other => "other",
        }
    }
}

/// Durations of one kind, by [`ResponseClass`]. One thread writes.
#[derive(Debug)]
pub struct Histograms([Histogram; ResponseClass::ALL.len()]);

#[derive(Debug)]
struct Histogram {
    /// Not cumulative; the last is beyond all bounds.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    /// Microseconds.
    sum: AtomicU64,
}

impl Histograms {
    /// Empty histograms.
    pub fn new() -> Histograms {
        Histograms(std::array::from_fn(|_| Histogram {
            buckets: [const { AtomicU64::new(0) }; BOUNDS.len() + 1],
            sum: AtomicU64::new(0),
        }))
    }

    /// Records a duration.
    pub fn record(&self, class: ResponseClass, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let histogram = &self.0[class as usize];
        let bucket = BOUNDS.partition_point(|&bound| bound < micros);
        add(&histogram.buckets[bucket], 1);
        add(&histogram.sum, micros);
    }
}

/// One writer: a plain load and store is enough, and needs no locked instruction.
fn add(value: &AtomicU64, n: u64) {
    value.store(value.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// The sum of the histograms of all threads for one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Not cumulative; the last is beyond all bounds.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// Microseconds.
    pub sum: u64,
}

impl Summary {
    /// Adds the histograms of one thread.
    pub fn add(&mut self, histograms: &Histograms, class: ResponseClass) {
        let histogram = &histograms.0[class as usize];
        for (sum, value) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum += value.load(Ordering::Relaxed);
        }
        self.sum += histogram.sum.load(Ordering::Relaxed);
    }

    /// What was recorded since `earlier`.
    pub fn since(&self, earlier: &Summary) -> Summary {
        let buckets = std::array::from_fn(|i| self.buckets[i].saturating_sub(earlier.buckets[i]));
        Summary { buckets, sum: self.sum.saturating_sub(earlier.sum) }
    }

    /// Durations that were recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// An upper bound for this share (0 to 1) of the durations; `None`: nothing was recorded, or it is beyond the
    /// last bound.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (count, bound) in self.buckets.iter().zip(BOUNDS) {
            seen += count;
            if seen >= wanted && seen > 0 {
                return Some(Duration::from_micros(bound));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let histograms = Histograms::new();
        for micros in [0, 100, 101, 30_000_000, 30_000_001] {
            histograms.record(ResponseClass::Php, Duration::from_micros(micros));
        }
        let mut summary = Summary::default();
        summary.add(&histograms, ResponseClass::Php);
        assert_eq!((summary.buckets[0], summary.buckets[1]), (2, 1));
        assert_eq!((summary.buckets[16], summary.buckets[17]), (1, 1));
        assert_eq!((summary.count(), summary.sum), (5, 60_000_202));
        histograms.record(ResponseClass::Php, Duration::from_micros(7));
        let mut later = Summary::default();
        later.add(&histograms, ResponseClass::Php);
        assert_eq!((later.since(&summary).count(), later.since(&summary).sum), (1, 7));
        let mut none = Summary::default();
        none.add(&histograms, ResponseClass::File);
        assert_eq!(none, Summary::default());
    }

    #[test]
    fn quantiles() {
        assert_eq!(Summary::default().quantile(0.5), None);
        let histograms = Histograms::new();
        for micros in [50, 60, 700, 4_000_000_000] {
            histograms.record(ResponseClass::File, Duration::from_micros(micros));
        }
        let mut summary = Summary::default();
        summary.add(&histograms, ResponseClass::File);
        assert_eq!(summary.quantile(0.5), Some(Duration::from_micros(100)));
        assert_eq!(summary.quantile(0.75), Some(Duration::from_micros(1_000)));
        assert_eq!(summary.quantile(0.99), None);
    }
}
