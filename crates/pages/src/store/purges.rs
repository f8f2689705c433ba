//! Purges without walking over pages: purges are numbered, and each page knows up to which number it was checked.
//!
//! A tag has a record as long as a stored page or a mark carries it: how many do, and the last purge of each
//! hardness. A page is checked when it is found and a purge has come since its last check; so the cost of a purge
//! does not depend on how many pages carry the tag, and tags cost a hit nothing unless something was purged.
//!
//! The page of a running fill may carry unknown tags. So the record of a tag that was purged during a fill stays
//! until all fills that began before the purge have ended, even if no page carries the tag.

use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::heap;
use crate::{Hardness, Key, Purge, Tag};

/// Maximum number of prefix purges that are checked for each page; one more is applied to all pages at once.
pub const MOST_BANS: usize = 64;

/// Maximum number of records kept for running fills; beyond it, pages of the currently running fills are not stored.
const MOST_LATE: usize = 16_384;

/// All purges of a shard that may still cover a page.
#[derive(Default)]
pub(super) struct Purges {
    /// Number of the last purge.
    last: u64,
    tags: HashTable<Record>,
    seed: DefaultHashBuilder,
    /// The last purges of everything.
    everything: Last,
    bans: Vec<Ban>,
    /// Memory of the bans' texts, bytes.
    banned: usize,
    /// Records that no stored entry carries, each with a purge up to which running fills may need it.
    late: VecDeque<(u64, Tag)>,
    /// For running fills and holds: the last purge before they began, and how many began then.
    running: BTreeMap<u64, u32>,
    /// Pages of fills that began before this purge are not stored.
    fence: u64,
    /// All pages were checked up to this purge.
    swept: u64,
}

/// The record of one tag.
struct Record {
    tag: Tag,
    purged: Last,
    /// How many stored pages carry it, and how many marks.
    pages: u32,
    marks: u32,
    /// It is in `late`.
    late: bool,
}

/// The kind of entry that carries tags.
#[derive(Clone, Copy)]
pub(super) enum Bearer {
    Page,
    Mark,
}

impl Record {
    fn count(&mut self, bearer: Bearer) -> &mut u32 {
        match bearer {
            Bearer::Page => &mut self.pages,
            Bearer::Mark => &mut self.marks,
        }
    }

    /// Whether no stored entry carries it.
    fn is_unused(&self) -> bool {
        self.pages == 0 && self.marks == 0
    }
}

/// Numbers of the last purges; 0: none.
#[derive(Clone, Copy, Default)]
struct Last {
    soft: u64,
    hard: u64,
}

struct Ban {
    number: u64,
    what: Purge,
    how: Hardness,
}

impl Purges {
    /// Number of the last purge.
    #[inline]
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The effect of purges after number `begun` on the page of a fill that began then.
    pub(super) fn verdict_on_fill(&self, begun: u64, key: &[u8], tags: &[Tag]) -> Option<Hardness> {
        if begun < self.fence { Some(Hardness::Hard) } else { self.verdict(begun, key, tags) }
    }

    /// The effect of purges after number `since` on a stored page that was checked then.
    pub(super) fn verdict(&self, since: u64, key: &[u8], tags: &[Tag]) -> Option<Hardness> {
        let mut last = self.everything;
        for tag in tags {
            if let Some(record) = self.record(*tag) {
                last.soft = last.soft.max(record.purged.soft);
                last.hard = last.hard.max(record.purged.hard);
            }
        }
        for ban in self.bans.iter().rev().take_while(|ban| ban.number > since) {
            // The hash of the key is not used.
            if ban.what.covers(Key { bytes: key, hash: 0 }) {
                last.set(ban.how, ban.number);
            }
        }
        match last {
            Last { hard, .. } if hard > since => Some(Hardness::Hard),
            Last { soft, .. } if soft > since => Some(Hardness::Soft),
            _ => None,
        }
    }

    /// Counts a purge of everything, or of a tag; returns for a tag how many pages carry it.
    pub(super) fn purge(&mut self, tag: Option<Tag>, how: Hardness) -> usize {
        if let Some(tag) = tag
            && self.record(tag).is_none()
        {
            if self.running.is_empty() {
                return 0;
            }
            self.add(tag);
        }
        self.last += 1;
        let number = self.last;
        let Some(tag) = tag else {
            self.everything.set(how, number);
            return 0;
        };
        let Some(record) = self.record_mut(tag) else { return 0 };
        record.purged.set(how, number);
        let (pages, is_unused) = (record.pages, record.is_unused());
        if is_unused {
            self.put_off(tag);
        }
        pages as usize
    }

    /// Counts a purge of a prefix. False if there are too many: then the caller must check all pages and call
    /// [`swept`](Self::swept).
    pub(super) fn ban(&mut self, what: &Purge, how: Hardness) -> bool {
        self.last += 1;
        self.banned += text(what);
        self.bans.push(Ban { number: self.last, what: what.clone(), how });
        self.bans.len() <= MOST_BANS
    }

    /// Whether there is a purge against which not all pages were checked.
    pub(super) fn unswept(&self) -> bool {
        self.swept < self.last
    }

    /// All pages were checked against the purges up to `number`.
    pub(super) fn swept(&mut self, number: u64) {
        self.swept = number;
        self.forget();
        if self.bans.len() > MOST_BANS {
            // Fills that began long ago would need them all: repeating these fills is cheaper.
            self.fence = self.last;
            self.bans.clear();
            self.banned = 0;
        }
    }

    /// A fill or a hold begins: purges after the returned number apply to it.
    pub(super) fn begin(&mut self) -> u64 {
        *self.running.entry(self.last).or_default() += 1;
        self.last
    }

    /// A fill or a hold that began at `begun` has ended.
    pub(super) fn end(&mut self, begun: u64) {
        if let Some(count) = self.running.get_mut(&begun) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(&begun);
                self.forget();
            }
        }
    }

    /// A page or a mark that carries the tags is stored.
    pub(super) fn retain(&mut self, tags: &[Tag], bearer: Bearer) {
        for tag in tags {
            self.add(*tag);
            if let Some(record) = self.record_mut(*tag) {
                *record.count(bearer) += 1;
            }
        }
    }

    /// A page or a mark that carries the tags was removed.
    pub(super) fn release(&mut self, tags: &[Tag], bearer: Bearer) {
        let oldest = self.oldest();
        for tag in tags {
            let Some(record) = self.record_mut(*tag) else { continue };
            *record.count(bearer) -= 1;
            if !record.is_unused() || record.late {
                continue;
            }
            if record.purged.either() > oldest {
                self.put_off(*tag);
            } else {
                self.remove(*tag);
            }
        }
    }

    /// Number of tags on record.
    pub(super) fn tags(&self) -> usize {
        self.tags.len()
    }

    /// Number of prefix purges on record.
    pub(super) fn bans(&self) -> usize {
        self.bans.len()
    }

    /// Memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.tags.allocation_size()
            + heap(self.bans.capacity() * size_of::<Ban>())
            + self.banned
            + heap(self.late.capacity() * size_of::<(u64, Tag)>())
            + self.running.len() * 32
    }

    /// For tests: whether the records match `tags`, with the numbers of stored pages and marks, and the needs of
    /// running fills.
    pub(super) fn verify(&self, tags: &std::collections::HashMap<u64, [u32; 2]>) {
        for record in &self.tags {
            assert_eq!([record.pages, record.marks], tags.get(&record.tag.0).copied().unwrap_or_default());
            assert!(!record.is_unused() || record.late, "a record that nobody needs");
            assert!(!record.late || !self.running.is_empty(), "a record for fills, but none runs");
        }
        assert!(tags.keys().all(|tag| self.record(Tag(*tag)).is_some()));
        assert_eq!(self.banned, self.bans.iter().map(|ban| text(&ban.what)).sum::<usize>());
    }

    fn oldest(&self) -> u64 {
        self.running.first_key_value().map_or(u64::MAX, |(begun, _)| *begun)
    }

    /// The record of a tag without stored entries stays until the fills that run now have ended.
    fn put_off(&mut self, tag: Tag) {
        let number = self.last;
        let Some(record) = self.record_mut(tag) else { return };
        if std::mem::replace(&mut record.late, true) {
            return;
        }
        self.late.push_back((number, tag));
        if self.late.len() > MOST_LATE {
            self.fence = self.last;
            self.forget_late(u64::MAX);
        }
    }

    /// Drops what no running fill needs any more.
    fn forget(&mut self) {
        let oldest = self.oldest();
        self.forget_late(oldest);
        let done = oldest.min(self.swept);
        let banned = &mut self.banned;
        self.bans.retain(|ban| {
            let needed = ban.number > done;
            *banned -= if needed { 0 } else { text(&ban.what) };
            needed
        });
    }

    /// Drops the records without stored entries whose purges are up to `oldest`.
    fn forget_late(&mut self, oldest: u64) {
        for _ in 0..self.late.len() {
            let Some(&(number, tag)) = self.late.front() else { return };
            if number > oldest {
                return;
            }
            self.late.pop_front();
            let Some(record) = self.record_mut(tag) else { continue };
            record.late = false;
            if !record.is_unused() {
                continue;
            }
            if record.purged.either() > oldest {
                self.put_off(tag);
            } else {
                self.remove(tag);
            }
        }
        if self.late.is_empty() {
            self.late.shrink_to(64);
        }
    }

    fn record(&self, tag: Tag) -> Option<&Record> {
        self.tags.find(self.seed.hash_one(tag), |record| record.tag == tag)
    }

    fn record_mut(&mut self, tag: Tag) -> Option<&mut Record> {
        self.tags.find_mut(self.seed.hash_one(tag), |record| record.tag == tag)
    }

    /// Creates a record if there is none.
    fn add(&mut self, tag: Tag) {
        let seed = &self.seed;
        let hash = seed.hash_one(tag);
        self.tags
            .entry(hash, |record| record.tag == tag, |record| seed.hash_one(record.tag))
            .or_insert_with(|| Record { tag, purged: Last::default(), pages: 0, marks: 0, late: false });
    }

    fn remove(&mut self, tag: Tag) {
        let hash = self.seed.hash_one(tag);
        if let Ok(entry) = self.tags.find_entry(hash, |record| record.tag == tag) {
            entry.remove();
        }
        if self.tags.capacity() > 64 && self.tags.len() * 4 < self.tags.capacity() {
            let (seed, most) = (&self.seed, self.tags.len() * 2);
            self.tags.shrink_to(most, |record| seed.hash_one(record.tag));
        }
    }
}

impl Last {
    fn set(&mut self, how: Hardness, number: u64) {
        let last = match how {
            Hardness::Soft => &mut self.soft,
            Hardness::Hard => &mut self.hard,
        };
        *last = number.max(*last);
    }

    fn either(self) -> u64 {
        self.soft.max(self.hard)
    }
}

fn text(what: &Purge) -> usize {
    match what {
        Purge::Prefix { site, host, path } => {
            heap(site.len()) + heap(host.as_ref().map_or(0, |host| host.len())) + heap(path.len())
        }
        _ => 0,
    }
}
