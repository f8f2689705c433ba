//! Why requests bypassed the page cache, and why responses were not stored: a count for each reason, and the most
//! frequent names behind them; since the start, and lately, for each site. Names come from clients, so their number is
//! bounded by Space-Saving (Metwally, Agrawal, El Abbadi, 2005), which keeps every name that makes up more than 1/64 of
//! all, with a count that is at most this much too high.

use std::time::{Duration, Instant};

/// Maximum number of names, of all reasons together.
const MOST_NAMES: usize = 64;

/// Maximum length of a stored name, bytes.
const NAME_BYTES: usize = 80;

/// The reason of requests for a page that is known to be uncacheable.
pub const UNCACHEABLE: &str = "uncacheable";

/// The reason of [`SiteCauses::varied`].
pub const VARIED: &str = "reads";

/// "Lately" goes back to the beginning of the last whole period of this length.
pub const PERIOD: Duration = Duration::from_secs(600);

/// Causes of one kind, for one site.
#[derive(Clone, Debug, Default)]
pub struct SiteCauses {
    /// Requests that bypassed the cache.
    pub bypassed: TimedCauses,
    /// Responses of PHP that were not stored.
    pub refused: TimedCauses,
    /// What pages vary by that scripts have read of the request, without saying so.
    pub varied: TimedCauses,
}

impl SiteCauses {
    /// Adds the counts of another thread, as of `now`.
    pub fn add(&mut self, other: &SiteCauses, now: Instant) {
        self.bypassed.add(&other.bypassed, now);
        self.refused.add(&other.refused, now);
        self.varied.add(&other.varied, now);
    }
}

/// Causes since the start, and lately.
#[derive(Clone, Debug, Default)]
pub struct TimedCauses {
    since_start: Causes,
    /// The current period, and the one before.
    periods: [Causes; 2],
    /// When the current period began.
    began: Option<Instant>,
}

impl TimedCauses {
    /// Counts a cause.
    pub fn note(&mut self, now: Instant, reason: &'static str, name: Option<&str>) {
        self.turn(now);
        // Of uncacheable pages the names are interesting lately; scripts that are never cached should not pay twice.
        self.since_start.note(reason, name.filter(|_| reason != UNCACHEABLE));
        self.periods[0].note(reason, name);
    }

    /// All since the start.
    pub fn since_start(&self) -> &Causes {
        &self.since_start
    }

    /// Those of the current period, and of the one before.
    pub fn lately(&self, now: Instant) -> Causes {
        let mut turned = self.clone();
        turned.turn(now);
        let mut sum = turned.periods[0].clone();
        sum.add(&turned.periods[1]);
        sum
    }

    fn turn(&mut self, now: Instant) {
        let began = *self.began.get_or_insert(now);
        let periods = now.saturating_duration_since(began).as_secs() / PERIOD.as_secs();
        if periods == 0 {
            return;
        }
        let current = std::mem::take(&mut self.periods[0]);
        self.periods[1] = if periods == 1 { current } else { Causes::new() };
        self.began = Some(began + PERIOD * u32::try_from(periods).unwrap_or(u32::MAX));
    }

    /// Afterwards the current period is `now`'s.
    fn add(&mut self, other: &TimedCauses, now: Instant) {
        self.since_start.add(&other.since_start);
        self.turn(now);
        self.periods[0].add(&other.lately(now));
    }
}

/// Reasons, and names behind them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    reasons: Vec<(&'static str, u64)>,
    names: Vec<Name>,
}

/// A name behind a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The reason.
    pub reason: &'static str,
    /// The cookie, path, argument or field.
    pub name: Box<str>,
    /// Approximate number of requests.
    pub count: u64,
}

impl Causes {
    /// No requests yet.
    pub const fn new() -> Causes {
        Causes { reasons: Vec::new(), names: Vec::new() }
    }

    /// Counts a request that bypassed the cache for `reason`; `name` is the cookie, path, argument or field behind it.
    pub fn note(&mut self, reason: &'static str, name: Option<&str>) {
        self.add_reason(reason, 1);
        if let Some(name) = name {
            self.add_name(reason, short(name), 1);
        }
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    /// The same without a reason.
    pub fn without(mut self, reason: &str) -> Causes {
        self.reasons.retain(|(known, _)| *known != reason);
        self.names.retain(|name| name.reason != reason);
        self
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Causes) {
        other.reasons.iter().for_each(|(reason, count)| self.add_reason(reason, *count));
        other.names.iter().for_each(|name| self.add_name(name.reason, &name.name, name.count));
    }

    /// Reasons with their counts, the most frequent first.
    pub fn reasons(&self) -> Vec<(&'static str, u64)> {
        let mut reasons = self.reasons.clone();
        reasons.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), *reason));
        reasons
    }

    /// The most frequent names, in descending order, at most `most`.
    pub fn top(&self, most: usize) -> Vec<&Name> {
        let mut names: Vec<&Name> = self.names.iter().collect();
        names.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        names.truncate(most);
        names
    }

    /// The most frequent causes, in descending order, at most `most`: a reason with a name; without one, its other
    /// requests.
    pub fn leading(&self, most: usize) -> Vec<Name> {
        let mut all = self.names.clone();
        for (reason, count) in &self.reasons {
            let named: u64 =
                self.names.iter().filter(|name| name.reason == *reason).map(|name| name.count).sum();
            if *count > named {
                all.push(Name { reason, name: "".into(), count: count - named });
            }
        }
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (a.reason, &a.name).cmp(&(b.reason, &b.name))));
        all.truncate(most);
        all
    }

    fn add_reason(&mut self, reason: &'static str, count: u64) {
        match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => *sum += count,
            None => self.reasons.push((reason, count)),
        }
    }

    fn add_name(&mut self, reason: &'static str, name: &str, count: u64) {
        if let Some(at) = self.names.iter().position(|n| n.reason == reason && *n.name == *name) {
            self.names[at].count += count;
            // Frequent names come to the front, where they are found at once.
            self.names.swap(at, at.saturating_sub(1));
        } else if self.names.len() < MOST_NAMES {
            self.names.push(Name { reason, name: name.into(), count });
        } else if let Some(least) = self.names.iter_mut().min_by_key(|name| name.count) {
            *least = Name { reason, name: name.into(), count: least.count + count };
        }
    }
}

/// The start of a name.
fn short(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_come_first() {
        let mut causes = Causes::default();
        for _ in 0..3 {
            causes.note("cookie", Some("a"));
        }
        causes.note("method", None);
        causes.note("cookie", Some("b"));
        causes.note("path", Some("b"));
        assert_eq!(causes.reasons(), [("cookie", 4), ("method", 1), ("path", 1)]);
        let top: Vec<(&str, &str, u64)> =
            causes.top(2).into_iter().map(|n| (n.reason, &*n.name, n.count)).collect();
        assert_eq!(top, [("cookie", "a", 3), ("cookie", "b", 1)]);
        let leading = causes.leading(3);
        let leading: Vec<_> = leading.iter().map(|n| (n.reason, &*n.name, n.count)).collect();
        assert_eq!(leading, [("cookie", "a", 3), ("cookie", "b", 1), ("method", "", 1)]);
        let mut sum = causes.clone();
        sum.add(&causes);
        assert_eq!((sum.reasons()[0], sum.top(1)[0].count), (("cookie", 8), 6));
    }

    #[test]
    fn lately_ends_after_two_periods() {
        let start = Instant::now();
        let mut causes = TimedCauses::default();
        let count = |causes: &TimedCauses, after: u32| {
            causes.lately(start + PERIOD * after).reasons().first().map_or(0, |(_, count)| *count)
        };
        causes.note(start, "cookie", Some("a"));
        assert_eq!([0, 1, 2, 9].map(|after| count(&causes, after)), [1, 1, 0, 0]);
        causes.note(start + PERIOD, "cookie", Some("a"));
        assert_eq!([1, 2, 3].map(|after| count(&causes, after)), [2, 1, 0]);
        causes.note(start + PERIOD * 7, "cookie", Some("b"));
        assert_eq!([7, 8, 9].map(|after| count(&causes, after)), [1, 1, 0]);
        assert_eq!(causes.since_start().reasons(), [("cookie", 3)]);
        let mut sum = SiteCauses::default();
        let one = SiteCauses { bypassed: causes, ..SiteCauses::default() };
        sum.add(&one, start + PERIOD * 8);
        sum.add(&one, start + PERIOD * 8);
        assert_eq!(count(&sum.bypassed, 8), 2);
        assert_eq!(sum.bypassed.since_start().clone().without("cookie"), Causes::new());
    }

    #[test]
    fn names_without_end_hide_none_that_is_frequent() {
        let mut causes = Causes::default();
        for n in 0..10_000 {
            causes.note("cookie", Some(&format!("comment_author_{n}")));
            if n % 5 == 0 {
                causes.note("cookie", Some("wordpress_logged_in_x"));
            }
        }
        assert_eq!(causes.names.len(), MOST_NAMES);
        let first = causes.top(1)[0];
        assert_eq!(&*first.name, "wordpress_logged_in_x");
        assert!((2000..2400).contains(&first.count), "{}", first.count);
        causes.note("cookie", Some(&"\u{e9}".repeat(100)));
        assert!(causes.names.iter().all(|name| name.name.len() <= NAME_BYTES));
    }
}
