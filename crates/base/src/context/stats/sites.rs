//! Figures by site: like the counters, one slot per thread, written without a lock. A site keeps its number for the life of the
//! process, also through reloads, so that its figures go on. Beyond [`SITES_MOST`] sites, the others share number 0.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Sites with figures of their own: labels in metrics are bounded.
pub const SITES_MOST: usize = 512;

/// The number that the sites beyond [`SITES_MOST`] share, and its name.
pub const OTHER_SITES: usize = 0;
const OTHER_NAME: &str = "other";

/// What is counted by site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum SiteCounter {
    /// Responses with status 2xx; the next three follow.
    Replies2xx,
    /// 3xx.
    Replies3xx,
    /// 4xx.
    Replies4xx,
    /// 5xx, and whatever is no status.
    Replies5xx,
    /// Bytes of content sent.
    SentBytes,
    /// Requests that the page cache answered at once.
    CacheHits,
    /// Requests for which there was no page: they ran PHP, or waited for it.
    CacheMisses,
    /// Requests that bypassed the page cache.
    CacheBypassed,
    /// Requests for which PHP ran.
    PhpRequests,
    /// Time until PHP began its response, including the wait for a worker, microseconds.
    PhpMicros,
}

/// Number of [`SiteCounter`]s.
const COUNTERS: usize = SiteCounter::PhpMicros as usize + 1;

/// The figures of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteFigures([u64; COUNTERS]);

impl SiteFigures {
    /// The value of a counter.
    pub fn get(&self, counter: SiteCounter) -> u64 {
        self.0[counter as usize]
    }

    /// Responses by the class of their status: 2xx, 3xx, 4xx, 5xx.
    pub fn replies(&self) -> [u64; 4] {
        let [first, second, third, fourth, ..] = self.0;
        [first, second, third, fourth]
    }

    /// Requests that got a response.
    pub fn requests(&self) -> u64 {
        self.replies().iter().sum()
    }

    /// What came since `earlier`.
    pub fn since(&self, earlier: &SiteFigures) -> SiteFigures {
        SiteFigures(std::array::from_fn(|i| self.0[i].saturating_sub(earlier.0[i])))
    }
}

/// The figures of all sites on one thread; only that thread writes them. A site's part is made with its first request.
pub struct SiteSlots(Box<[OnceLock<Box<[AtomicU64; COUNTERS]>>]>);

impl SiteSlots {
    /// No requests yet.
    pub fn new() -> SiteSlots {
        SiteSlots((0..=SITES_MOST).map(|_| OnceLock::new()).collect())
    }

    /// Adds `n` to a counter of a site.
    pub fn add(&self, site: usize, counter: SiteCounter, n: u64) {
        let part = self.0[site].get_or_init(|| Box::new([const { AtomicU64::new(0) }; COUNTERS]));
        // One writer: a plain load and store is enough, and needs no locked instruction.
        let value = &part[counter as usize];
        value.store(value.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    fn add_to(&self, site: usize, sum: &mut SiteFigures) {
        if let Some(part) = self.0[site].get() {
            sum.0.iter_mut().zip(part.iter()).for_each(|(sum, value)| *sum += value.load(Ordering::Relaxed));
        }
    }
}

/// The names of the sites by their numbers. Only starts, reloads and the admin address take the lock.
#[derive(Debug)]
pub struct SiteNames(Mutex<Vec<Box<str>>>);

impl SiteNames {
    /// No sites yet.
    pub fn new() -> SiteNames {
        SiteNames(Mutex::new(vec![OTHER_NAME.into()]))
    }

    /// The number of a site.
    pub fn number(&self, name: &str) -> usize {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match names.iter().skip(1).position(|known| **known == *name) {
            Some(at) => at + 1,
            None if names.len() > SITES_MOST => OTHER_SITES,
            None => {
                names.push(name.into());
                names.len() - 1
            }
        }
    }

    /// The figures of all sites, in the order of their numbers.
    pub fn figures<'a>(
        &self,
        slots: impl Iterator<Item = &'a SiteSlots> + Clone,
    ) -> Vec<(Box<str>, SiteFigures)> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sum = |(number, name)| {
            let mut sum = SiteFigures::default();
            slots.clone().for_each(|slot| slot.add_to(number, &mut sum));
            (name, sum)
        };
        names.into_iter().enumerate().map(sum).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_summed_over_threads() {
        let (names, slots) = (SiteNames::new(), [SiteSlots::new(), SiteSlots::new()]);
        let (a, b) = (names.number("a"), names.number("b"));
        assert_eq!((a, b, names.number("a")), (1, 2, 1));
        slots[0].add(a, SiteCounter::Replies2xx, 2);
        slots[1].add(a, SiteCounter::Replies5xx, 1);
        slots[1].add(b, SiteCounter::SentBytes, 7);
        let all = names.figures(slots.iter());
        assert_eq!(all.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["other", "a", "b"]);
        assert_eq!((all[1].1.requests(), all[1].1.replies()), (3, [2, 0, 0, 1]));
        assert_eq!((all[2].1.requests(), all[2].1.get(SiteCounter::SentBytes)), (0, 7));
        assert_eq!(all[0].1, SiteFigures::default());
        slots[0].add(a, SiteCounter::Replies2xx, 5);
        let later = names.figures(slots.iter());
        assert_eq!(later[1].1.since(&all[1].1).replies(), [5, 0, 0, 0]);
    }

    #[test]
    fn sites_beyond_the_bound_share_a_number() {
        let (names, slots) = (SiteNames::new(), SiteSlots::new());
        for site in 0..SITES_MOST + 100 {
            slots.add(names.number(&format!("site{site}")), SiteCounter::Replies2xx, 1);
        }
        let all = names.figures([&slots].into_iter());
        assert_eq!(all.len(), SITES_MOST + 1);
        assert_eq!((&*all[0].0, all[0].1.requests()), ("other", 100));
        assert!(all[1..].iter().all(|(_, figures)| figures.requests() == 1));
        // A site that is really called so has a number of its own, if there is room.
        assert_eq!(SiteNames::new().number("other"), 1);
    }
}
