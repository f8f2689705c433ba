//! Scripts that kill their workers.
//!
//! A page - a script and a path, so that an application with one script for all is not refused as a whole - that has
//! killed [`KILLS`] workers within [`WITHIN_MS`] is not run for a while. Then it is tried again; if it still kills, the
//! next pause is twice as long, up to [`LONGEST`] times the first.
//!
//! [`Crashes`] is a value without clock and lock; [`Ban`] holds it for event loops and supervisor. As long as no page
//! is refused, an event loop reads one flag.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So many dead workers ...
pub const KILLS: usize = 3;
/// ... within so many milliseconds.
pub const WITHIN_MS: u64 = 60_000;
/// How much longer than the first a pause can be.
const LONGEST: u64 = 16;
/// Pages that are known. Of more, the one whose last death is longest ago is forgotten.
const PAGES: usize = 256;

/// What is known of pages whose workers died, under a lock.
#[derive(Debug)]
pub struct Ban {
    crashes: Mutex<Crashes>,
    /// Whether any page is refused.
    any: AtomicBool,
}

/// Pages whose workers died. Times are milliseconds since some moment.
#[derive(Debug)]
pub struct Crashes {
    hasher: RandomState,
    pages: Vec<Page>,
    /// The first pause, milliseconds; 0: no page is ever refused.
    pause: u64,
}

#[derive(Debug)]
struct Page {
    /// Of script and path.
    key: u64,
    /// When the last deaths were.
    deaths: Vec<u64>,
    /// Until when it is not run; 0: it has never been refused.
    until: u64,
    /// How long it was last refused, milliseconds.
    pause: u64,
}

impl Ban {
    /// No page has killed anything; `pause` is how long the first that does is not run, zero for never.
    pub fn new(pause: Duration) -> Ban {
        Ban { crashes: Mutex::new(Crashes::new(pause.as_millis() as u64)), any: AtomicBool::new(false) }
    }

    /// Whether this page is not to be run now.
    pub fn is_refused(&self, script: &[u8], path: &[u8], now: impl FnOnce() -> u64) -> bool {
        if !self.any.load(Ordering::Relaxed) {
            return false;
        }
        let now = now();
        let crashes = self.lock();
        let refused = crashes.is_refused(script, path, now);
        if !refused && !crashes.any_refused(now) {
            self.any.store(false, Ordering::Relaxed);
        }
        refused
    }

    /// A worker died over this page. If that is one too many: how long the page is not run, milliseconds.
    pub fn died(&self, script: &[u8], path: &[u8], now: u64) -> Option<u64> {
        let mut crashes = self.lock();
        let pause = crashes.died(script, path, now)?;
        self.any.store(true, Ordering::Relaxed);
        Some(pause)
    }

    fn lock(&self) -> MutexGuard<'_, Crashes> {
        self.crashes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crashes {
    /// None has died; the first pause in milliseconds, 0 for never.
    pub fn new(pause: u64) -> Crashes {
        Crashes { hasher: RandomState::new(), pages: Vec::new(), pause }
    }

    /// Whether a page is not to be run now.
    pub fn is_refused(&self, script: &[u8], path: &[u8], now: u64) -> bool {
        let key = self.key(script, path);
        self.pages.iter().any(|page| page.key == key && now < page.until)
    }

    /// Whether any page is not to be run now.
    pub fn any_refused(&self, now: u64) -> bool {
        self.pages.iter().any(|page| now < page.until)
    }

    /// A worker died over a page; see [`Ban::died`].
    pub fn died(&mut self, script: &[u8], path: &[u8], now: u64) -> Option<u64> {
        if self.pause == 0 {
            return None;
        }
        let (key, first) = (self.key(script, path), self.pause);
        let page = self.page(key);
        page.deaths.retain(|at| at + WITHIN_MS > now);
        page.deaths.push(now);
        if now < page.until {
            // Others of the page ran already when it was refused.
            page.deaths.clear();
            return None;
        }
        // Once it has been refused it is on trial, for as long as it was refused.
        let on_trial = page.until != 0 && now < page.until + page.pause.max(WITHIN_MS);
        if !on_trial && page.deaths.len() < KILLS {
            return None;
        }
        page.pause = if on_trial { (page.pause * 2).min(first * LONGEST) } else { first };
        page.until = now + page.pause;
        page.deaths.clear();
        Some(page.pause)
    }

    fn key(&self, script: &[u8], path: &[u8]) -> u64 {
        self.hasher.hash_one((script, path))
    }

    fn page(&mut self, key: u64) -> &mut Page {
        let at = match self.pages.iter().position(|page| page.key == key) {
            Some(at) => at,
            None => {
                if self.pages.len() >= PAGES {
                    let last = |page: &Page| page.until.max(page.deaths.last().copied().unwrap_or(0));
                    let oldest = self.pages.iter().enumerate().min_by_key(|(_, page)| last(page));
                    let oldest = oldest.map_or(0, |(at, _)| at);
                    self.pages.swap_remove(oldest);
                }
                self.pages.push(Page { key, deaths: Vec::new(), until: 0, pause: 0 });
                self.pages.len() - 1
            }
        };
        &mut self.pages[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: (&[u8], &[u8]) = (b"/index.php", b"/a");
    const B: (&[u8], &[u8]) = (b"/index.php", b"/b");

    fn died(crashes: &mut Crashes, page: (&[u8], &[u8]), now: u64) -> Option<u64> {
        crashes.died(page.0, page.1, now)
    }

    #[test]
    fn three_in_a_minute_are_too_many() {
        let mut crashes = Crashes::new(1_000);
        assert_eq!(died(&mut crashes, A, 10), None);
        assert_eq!(died(&mut crashes, A, 20), None);
        assert_eq!(died(&mut crashes, B, 25), None);
        assert!(!crashes.is_refused(A.0, A.1, 29));
        assert_eq!(died(&mut crashes, A, 30), Some(1_000));
        assert!(crashes.is_refused(A.0, A.1, 30) && crashes.is_refused(A.0, A.1, 1_029));
        assert!(!crashes.is_refused(B.0, B.1, 30), "the same script elsewhere");
        assert!(!crashes.is_refused(A.0, A.1, 1_030) && !crashes.any_refused(1_030));
    }

    #[test]
    fn now_and_then_is_no_reason() {
        let mut crashes = Crashes::new(1_000);
        for minute in 0..20 {
            assert_eq!(died(&mut crashes, A, minute * 31_000), None, "{minute}");
        }
    }

    #[test]
    fn who_still_kills_is_refused_for_longer() {
        let mut crashes = Crashes::new(100_000);
        let mut now = 1;
        for _ in 0..2 {
            assert_eq!(died(&mut crashes, A, now), None);
        }
        for times in [1, 2, 4, 8, 16, 16] {
            assert_eq!(died(&mut crashes, A, now), Some(times * 100_000));
            // Those that ran already are neither counted nor told.
            assert_eq!(died(&mut crashes, A, now + 10), None);
            now += times * 100_000;
        }
        // It was good for as long as it had been refused: as if nothing had been.
        now += 1_600_000;
        assert_eq!(died(&mut crashes, A, now), None);
        assert_eq!(died(&mut crashes, A, now), None);
        assert_eq!(died(&mut crashes, A, now), Some(100_000));
    }

    #[test]
    fn zero_is_never_and_memory_is_bounded() {
        let mut crashes = Crashes::new(0);
        assert!((0..9).all(|now| died(&mut crashes, A, now).is_none()));
        let mut crashes = Crashes::new(1_000_000_000);
        for _ in 0..KILLS {
            died(&mut crashes, A, 1);
        }
        for number in 0..10 * PAGES as u64 {
            crashes.died(b"/x", &number.to_ne_bytes(), 2 + number);
        }
        assert_eq!(crashes.pages.len(), PAGES);
        assert!(crashes.is_refused(A.0, A.1, 9_999), "the last to be forgotten");
    }

    #[test]
    fn the_flag_is_taken_down() {
        let ban = Ban::new(Duration::from_millis(500));
        assert!(!ban.is_refused(A.0, A.1, || unreachable!()));
        for _ in 0..KILLS {
            ban.died(A.0, A.1, 1);
        }
        assert!(ban.is_refused(A.0, A.1, || 2));
        assert!(!ban.is_refused(B.0, B.1, || 2));
        assert!(!ban.is_refused(A.0, A.1, || 501));
        assert!(!ban.is_refused(A.0, A.1, || unreachable!()));
    }
}
