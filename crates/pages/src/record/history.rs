//! All purges that may cover entries on disk.

use std::collections::HashMap;

use super::purge::Purged;
use crate::{Hardness, Key, Purge, Tag};

/// Maximum number of single tags; 16 bytes each, plus the table's overhead.
const MOST_TAGS: usize = 500_000;
/// Maximum number of single prefixes; each is compared with each entry.
const MOST_PREFIXES: usize = 1_000;

/// The effect of the purges on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PurgeState {
    /// It is unchanged.
    Kept,
    /// It was purged softly: it is stale.
    Stale,
    /// It was purged.
    Gone,
}

/// The last purge of each target, by its stamp. Bounded: a purge that does not fit covers all earlier entries.
#[derive(Debug, Default)]
pub struct History {
    everything: Stamps,
    tags: HashMap<Tag, Stamps>,
    prefixes: Vec<(Purge, Stamps)>,
    highest: u64,
}

/// The highest stamps; 0: none.
#[derive(Clone, Copy, Debug, Default)]
struct Stamps {
    soft: u64,
    hard: u64,
}

impl Stamps {
    fn add(&mut self, stamp: u64, how: Hardness) {
        let last = match how {
            Hardness::Soft => &mut self.soft,
            Hardness::Hard => &mut self.hard,
        };
        *last = stamp.max(*last);
    }

    fn state(self, begun: u64) -> PurgeState {
        match (self.hard > begun, self.soft > begun) {
            (true, _) => PurgeState::Gone,
            (false, true) => PurgeState::Stale,
            (false, false) => PurgeState::Kept,
        }
    }
}

impl History {
    /// Adds a purge, in any order.
    pub fn add(&mut self, purged: Purged) {
        let Purged { stamp, what, how } = purged;
        self.highest = self.highest.max(stamp);
        match what {
            Purge::Everything => self.everything.add(stamp, how),
            Purge::Tag(tag) if self.tags.len() < MOST_TAGS || self.tags.contains_key(&tag) => {
                self.tags.entry(tag).or_default().add(stamp, how);
            }
            Purge::Tag(_) => self.lost(stamp),
            Purge::Prefix { .. } => match self.prefixes.iter().position(|(prefix, _)| *prefix == what) {
                Some(known) => self.prefixes[known].1.add(stamp, how),
                None if self.prefixes.len() < MOST_PREFIXES => {
                    let mut stamps = Stamps::default();
                    stamps.add(stamp, how);
                    self.prefixes.push((what, stamps));
                }
                None => self.lost(stamp),
            },
        }
    }

    /// Purges up to this stamp are unknown: all entries that began before it are gone.
    pub fn lost(&mut self, stamp: u64) {
        self.highest = self.highest.max(stamp);
        self.everything.add(stamp, Hardness::Hard);
    }

    /// The highest stamp of all purges; 0: there was none.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// The minimal list of purges with the same effect on entries that began at the stamp `floor` or later.
    pub fn purges(&self, floor: u64) -> impl Iterator<Item = Purged> {
        let tags = self.tags.iter().map(|(tag, stamps)| (Purge::Tag(*tag), *stamps));
        let all = [(Purge::Everything, self.everything)].into_iter();
        let all = all.chain(tags).chain(self.prefixes.iter().cloned());
        all.flat_map(|(what, stamps)| {
            // A soft purge before a hard one has no effect.
            let soft = (stamps.soft > stamps.hard).then_some((stamps.soft, Hardness::Soft));
            [Some((stamps.hard, Hardness::Hard)), soft]
                .into_iter()
                .flatten()
                .map(move |(stamp, how)| Purged { stamp, what: what.clone(), how })
        })
        .filter(move |purged| purged.stamp > floor)
    }

    /// The effect on an entry whose fill began at the stamp `begun`.
    pub fn state(&self, key: &[u8], tags: &[Tag], begun: u64) -> PurgeState {
        if begun >= self.highest {
            return PurgeState::Kept;
        }
        let key = Key { bytes: key, hash: 0 };
        let by_tag = tags.iter().filter_map(|tag| self.tags.get(tag));
        let by_prefix = self.prefixes.iter().filter(|(what, _)| what.covers(key)).map(|(_, stamps)| stamps);
        let all = by_tag.chain(by_prefix).chain([&self.everything]);
        all.map(|stamps| stamps.state(begun)).max().unwrap_or(PurgeState::Kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"shop\0http\0shop.test\0/a/b\0";

    fn history(purges: &[(u64, Purge, Hardness)]) -> History {
        let mut history = History::default();
        for (stamp, what, how) in purges.iter().cloned() {
            history.add(Purged { stamp, what, how });
        }
        history
    }

    fn prefix(host: Option<&str>, path: &str) -> Purge {
        Purge::Prefix { site: "shop".into(), host: host.map(Box::from), path: path.as_bytes().into() }
    }

    #[test]
    fn a_purge_covers_what_began_before_it() {
        let history = history(&[(5, Purge::Tag(Tag(1)), Hardness::Hard)]);
        assert_eq!(history.state(KEY, &[Tag(2), Tag(1)], 4), PurgeState::Gone);
        assert_eq!(history.state(KEY, &[Tag(1)], 5), PurgeState::Kept);
        assert_eq!(history.state(KEY, &[Tag(2)], 4), PurgeState::Kept);
    }

    #[test]
    fn the_hardest_purge_counts() {
        let history = history(&[
            (3, Purge::Tag(Tag(1)), Hardness::Hard),
            (7, Purge::Tag(Tag(1)), Hardness::Soft),
            (9, Purge::Everything, Hardness::Soft),
        ]);
        assert_eq!(history.state(KEY, &[Tag(1)], 2), PurgeState::Gone);
        assert_eq!(history.state(KEY, &[Tag(1)], 3), PurgeState::Stale);
        assert_eq!(history.state(KEY, &[], 8), PurgeState::Stale);
        assert_eq!(history.state(KEY, &[Tag(1)], 9), PurgeState::Kept);
    }

    #[test]
    fn prefixes_are_of_a_site_and_perhaps_of_a_host() {
        for (what, state) in [
            (prefix(None, "/a/"), PurgeState::Gone),
            (prefix(Some("shop.test"), "/a/b"), PurgeState::Gone),
            (prefix(Some("www.shop.test"), "/a/b"), PurgeState::Kept),
            (prefix(None, "/b"), PurgeState::Kept),
        ] {
            assert_eq!(history(&[(1, what, Hardness::Hard)]).state(KEY, &[], 0), state);
        }
    }

    #[test]
    fn what_does_not_fit_covers_everything_before_it() {
        let mut history = History::default();
        for stamp in 1..=MOST_PREFIXES as u64 + 1 {
            let what = prefix(None, &format!("/never/{stamp}"));
            history.add(Purged { stamp, what, how: Hardness::Soft });
        }
        assert_eq!(history.state(KEY, &[], MOST_PREFIXES as u64), PurgeState::Gone);
        assert_eq!(history.state(KEY, &[], MOST_PREFIXES as u64 + 1), PurgeState::Kept);
    }

    #[test]
    fn fewer_purges_do_the_same() {
        let mut history = History::default();
        for stamp in 1..=300 {
            let what = match stamp % 10 {
                0 => prefix(None, "/a/"),
                rest => Purge::Tag(Tag(rest)),
            };
            let how = if stamp % 3 == 0 { Hardness::Hard } else { Hardness::Soft };
            history.add(Purged { stamp, what, how });
        }
        let fewer: Vec<_> = history.purges(100).collect();
        assert!(fewer.len() <= 20 && fewer.iter().all(|purged| purged.stamp > 100));
        let mut again = History::default();
        fewer.into_iter().for_each(|purged| again.add(purged));
        for begun in 100..=300 {
            for tag in 0..10 {
                assert_eq!(history.state(KEY, &[Tag(tag)], begun), again.state(KEY, &[Tag(tag)], begun));
                let other = b"shop\0http\0shop.test\0/z\0";
                assert_eq!(history.state(other, &[Tag(tag)], begun), again.state(other, &[Tag(tag)], begun));
            }
        }
    }

    #[test]
    fn in_any_order() {
        let history =
            history(&[(7, Purge::Tag(Tag(1)), Hardness::Hard), (3, Purge::Tag(Tag(1)), Hardness::Hard)]);
        assert_eq!(history.state(KEY, &[Tag(1)], 6), PurgeState::Gone);
    }
}
