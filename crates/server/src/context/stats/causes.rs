//! Why requests bypassed the page cache: a count for each reason, and the most frequent names behind them. Names come
//! from clients, so their number is bounded by Space-Saving (Metwally, Agrawal, El Abbadi, 2005), which keeps every
//! name that makes up more than 1/64 of all, with a count that is at most this much too high.

/// Maximum number of names, of all reasons together.
const MOST_NAMES: usize = 64;

/// Maximum length of a stored name, bytes.
const NAME_BYTES: usize = 80;

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

    /// Adds the counts of another thread.
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

    fn add_reason(&mut self, reason: &'static str, count: u64) {
        match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => *sum += count,
            None => self.reasons.push((reason, count)),
        }
    }

    fn add_name(&mut self, reason: &'static str, name: &str, count: u64) {
        if let Some(known) = self.names.iter_mut().find(|n| n.reason == reason && *n.name == *name) {
            known.count += count;
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
        let mut sum = causes.clone();
        sum.add(&causes);
        assert_eq!((sum.reasons()[0], sum.top(1)[0].count), (("cookie", 8), 6));
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
