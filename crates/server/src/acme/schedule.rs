//! When a certificate is renewed, and when a failed order is repeated. Pure functions without clock and randomness;
//! `random` is from 0 up to 1.

use std::time::{Duration, SystemTime};

/// Pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600);
/// The longest pause if the authority sets it; Let's Encrypt's longest limits last a week.
pub const LONGEST_HELD: Duration = Duration::from_secs(30 * 24 * 3600);
/// Orders that restarts may interrupt in a row before interruptions count as failures.
const CUT_OFF: u32 = 2;
/// How many failures in a row use the authority's own pause unchanged; after that ours counts too, if it is longer.
const BELIEVED: u32 = 3;
/// Minimum interval between renewals that the authority demands at once.
pub const URGENT_AGAIN: Duration = Duration::from_secs(3600);
/// Interval at which to ask the authority for the renewal time, if it sets none (RFC 9773 section 4.3.2).
pub const ASK_EVERY: Duration = Duration::from_secs(6 * 3600);

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Start.
    pub begins: SystemTime,
    /// End.
    pub ends: SystemTime,
}

/// When the authority wants it renewed (RFC 9773 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewalWindow {
    /// Earliest time.
    pub start: SystemTime,
    /// Latest time.
    pub end: SystemTime,
}

impl Life {
    /// At two thirds of the life, and a little later, so that certificates of one day are not all renewed on one day.
    pub fn renewal(self, random: f64) -> SystemTime {
        self.at(2.0 / 3.0 + random / 30.0)
    }

    /// A random time in `window`, but early enough to try again after a failure. If the window is wider than the
    /// certificate's life, not before a third of the life.
    pub fn renewal_in(self, window: RenewalWindow, random: f64) -> SystemTime {
        let start = if window.start <= self.begins { self.at(1.0 / 3.0) } else { window.start };
        let end = window.end.min(self.at(0.9));
        match end.duration_since(start) {
            Ok(width) => start + width.mul_f64(random),
            Err(_) => end,
        }
    }

    fn at(self, part: f64) -> SystemTime {
        self.begins + self.ends.duration_since(self.begins).unwrap_or_default().mul_f64(part)
    }
}

/// Pause after this number of failures in a row: a minute, then twice as long each time, with a quarter of variation.
/// The authority's pause (`Retry-After`) takes precedence.
pub fn pause(failures: u32, retry_after: Option<Duration>, random: f64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16));
    let ours = doubled.min(LONGEST_PAUSE).mul_f64(0.75 + random / 2.0);
    match retry_after.map(|theirs| theirs.min(LONGEST_HELD)) {
        // Never earlier; a little later, because all clients with the same pause will come then.
        Some(theirs) if failures <= BELIEVED => theirs + (theirs / 10).mul_f64(random),
        Some(theirs) => ours.max(theirs),
        None => ours,
    }
}

/// Pause before the next order if a restart interrupts this one: the `interrupted`th in a row, after `failures`
/// failures.
pub fn pause_if_cut_off(failures: u32, interrupted: u32, random: f64) -> Duration {
    match interrupted.saturating_sub(CUT_OFF) {
        0 => Duration::ZERO,
        more => pause(failures.saturating_add(more), None, random),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn life(days: u32) -> Life {
        Life {
            begins: SystemTime::UNIX_EPOCH + DAY * 1000,
            ends: SystemTime::UNIX_EPOCH + DAY * (1000 + days),
        }
    }

    #[test]
    fn renewal_at_two_thirds() {
        let life = life(90);
        assert_eq!(life.renewal(0.0), life.begins + DAY * 60);
        assert_eq!(life.renewal(1.0), life.begins + DAY * 63);
        let dead = Life { begins: life.ends, ends: life.begins };
        assert_eq!(dead.renewal(0.5), dead.begins);
    }

    #[test]
    fn renewal_as_the_authority_says() {
        let life = life(90);
        let day = |day: u32| life.begins + DAY * day;
        let at =
            |start, end, random| life.renewal_in(RenewalWindow { start: day(start), end: day(end) }, random);
        assert_eq!(at(58, 60, 0.0), day(58));
        assert_eq!(at(58, 60, 0.5), day(59));
        // After an incident: tomorrow all certificates are to be renewed.
        assert_eq!(at(1, 3, 0.0), day(1));
        // Too late for another attempt.
        assert_eq!(at(85, 89, 0.0), day(81));
        assert_eq!(at(60, 89, 1.0), day(81));
        // The window is wider than the life.
        assert_eq!(at(0, 90, 0.0), day(30));
        assert_eq!(at(0, 90, 1.0), day(81));
    }

    #[test]
    fn pauses_double_up_to_hours() {
        let minutes = |failures| pause(failures, None, 0.5).as_secs() / 60;
        assert_eq!([1, 2, 3, 4, 9, 10, 99].map(minutes), [1, 2, 4, 8, 256, 360, 360]);
        assert_eq!(pause(1, None, 0.0), Duration::from_secs(45));
        assert!(pause(1, None, 0.999) < Duration::from_secs(75));
    }

    #[test]
    fn the_authority_is_not_asked_sooner_than_it_says() {
        let told = Duration::from_secs(100);
        assert_eq!(pause(1, Some(told), 0.0), told);
        assert_eq!(pause(3, Some(told), 1.0), told + told / 10);
        assert_eq!(pause(9, Some(told), 0.5), Duration::from_secs(256 * 60));
        assert_eq!(pause(9, Some(DAY), 0.5), DAY);
        assert_eq!(pause(1, Some(Duration::MAX), 0.0), LONGEST_HELD, "no clock goes so far");
    }

    #[test]
    fn who_is_started_again_and_again_has_to_wait() {
        let minutes = |failures, interrupted| pause_if_cut_off(failures, interrupted, 0.5).as_secs() / 60;
        assert_eq!([1, 2, 3, 4, 5, 99, u32::MAX].map(|times| minutes(0, times)), [0, 0, 1, 2, 4, 360, 360]);
        assert_eq!([1, 2, 3].map(|times| minutes(2, times)), [0, 0, 4]);
    }
}
