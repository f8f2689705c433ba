//! How much of PHP's time all anonymous requests of a class together use.
//!
//! A limit by address does not help against 70,000 addresses with a request each (woocommerce/woocommerce#62473). What
//! such a crawl has in common is its class: each URL is another one, so that the page cache has none of them and each
//! costs a run of PHP. A URL that repeats comes from the cache and costs the class nothing. So the account is kept in
//! PHP's time, by the same algorithm as for clients ([`crate::rate`]).

/// Time that a class may use at once beyond its share, microseconds: a page with some filters, or an office that begins
/// its day, is no attack.
const BURST: u64 = 2_000_000;
/// How long a class counts as pressed after requests beyond its share have last found no free place, microseconds.
const PRESSED: u64 = 10_000_000;
/// Weight of a run in the mean of their times.
const WEIGHT: u64 = 8;
/// With each run, the lowest mean grows by one part in so many, so that it is forgotten when pages change.
const FORGET: u64 = 512;

/// The account of a class at a site.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    /// When it has nothing left to its account, microseconds of one clock.
    due: u64,
    /// Mean time of a run, microseconds.
    mean: u64,
    /// The lowest recent mean: what a run takes when others do not slow it down. No run costs more, or a class would be over its
    /// share whenever the machine is busy with something else.
    quickest: u64,
    /// Runs in progress.
    running: u64,
    /// Until when the class counts as pressed.
    pressed: u64,
}

impl Share {
    /// Whether the class has used up its part: `part` is thousandths of one processor's time, 0 for no limit.
    #[must_use]
    pub fn is_used_up(&self, part: u64, now: u64) -> bool {
        let owed = self.due.saturating_sub(now) + scaled(self.running * self.quickest, part);
        part > 0 && owed > BURST
    }

    /// The class has used up its part, or more of its requests come than can run beyond it.
    pub fn press(&mut self, now: u64) {
        self.pressed = now + PRESSED;
    }

    /// Whether the class has been pressed lately. A flood does not end because it is held back: without this it would use its
    /// part again and again as soon as it has one.
    #[must_use]
    pub fn is_pressed(&self, now: u64) -> bool {
        now < self.pressed
    }

    /// A run begins.
    pub fn begin(&mut self) {
        self.running += 1;
    }

    /// A run has taken this long, microseconds.
    pub fn end(&mut self, took: u64, part: u64, now: u64) {
        self.running = self.running.saturating_sub(1);
        self.mean = if self.mean == 0 { took } else { (self.mean * (WEIGHT - 1) + took) / WEIGHT };
        let grown = self.quickest + self.quickest / FORGET;
        self.quickest = if grown == 0 { self.mean } else { grown.min(self.mean) };
        // A flood that has ended is forgotten after the time of one more burst.
        self.due = (self.due.max(now) + scaled(took.min(self.quickest), part)).min(now + 2 * BURST);
    }

    /// Runs in progress.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.running
    }
}

/// The time for which a run keeps its class's part busy.
fn scaled(took: u64, part: u64) -> u64 {
    took * 1_000 / part.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter of two processors.
    const PART: u64 = 500;

    #[test]
    fn within_its_part_a_class_is_never_used_up() {
        let mut share = Share::default();
        for at in 0..1_000 {
            // 40 ms of PHP every 100 ms.
            let now = at * 100_000;
            assert!(!share.is_used_up(PART, now), "{at}");
            share.begin();
            share.end(40_000, PART, now + 40_000);
        }
    }

    #[test]
    fn a_flood_uses_it_up_and_time_brings_it_back() {
        let mut share = Share::default();
        let used = (0..1_000).find(|at| {
            let now = at * 20_000;
            share.begin();
            share.end(40_000, PART, now);
            share.is_used_up(PART, now)
        });
        assert!(used.is_some_and(|at| (24..50).contains(&at)), "{used:?}");
        for at in 0..1_000 {
            share.begin();
            share.end(1_000_000, PART, 20_000_000 + at);
        }
        assert!(share.is_used_up(PART, 20_001_000));
        assert!(!share.is_used_up(PART, 20_001_000 + BURST + 1));
        assert!(!share.is_used_up(0, 20_001_000), "no limit");
    }

    #[test]
    fn what_slows_all_requests_down_does_not_use_it_up() {
        let mut share = Share::default();
        for at in 0..300 {
            // 40 ms of PHP every 200 ms; from the tenth on they take ten times as long, because the machine is busy.
            let (now, took) = (at * 200_000, if at < 10 { 40_000 } else { 400_000 });
            share.begin();
            share.end(took, PART, now);
            assert!(!share.is_used_up(PART, now), "{at}");
        }
    }

    #[test]
    fn pressure_outlasts_the_account() {
        let mut share = Share::default();
        assert!(!share.is_pressed(1));
        share.press(1);
        assert!(share.is_pressed(PRESSED) && !share.is_used_up(PART, PRESSED));
        assert!(!share.is_pressed(1 + PRESSED));
    }

    #[test]
    fn runs_in_progress_count() {
        let mut share = Share::default();
        share.begin();
        share.end(1_000_000, PART, 1);
        (0..2).for_each(|_| share.begin());
        assert!(share.is_used_up(PART, 1_000) && share.running() == 2);
    }
}
