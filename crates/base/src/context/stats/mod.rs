//! Counters: one table, one slot per thread, no lock and no shared cache line on the path of a request.

mod causes;
mod exposition;
mod insight;
mod latency;
mod pool;
mod rewind;
mod sites;
pub mod table;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use causes::VARIED;
pub use causes::{Causes, Name as Cause, PERIOD as CAUSES_PERIOD, SiteCauses, UNCACHEABLE};
pub use exposition::Exposition;
pub use insight::{Insight, OpcacheRestart, RunningScript};
pub use latency::{ResponseClass, Summary};
pub use pool::{BackendStatus, BusyWorker, PhpStatus, PoolStatus, SlowScript, WorkerStatus};
pub use rewind::{ComparedResponses, ComparedStatus, ORDINARY, RewindDifference, RewindKey, RewindStatus};
pub use sites::{OTHER_SITES, SiteCounter, SiteFigures};
pub use table::{ALL, Counter, Row, TABLE};

use latency::Histograms;
use sites::{SiteNames, SiteSlots};

/// The counters of one thread; only that thread writes them.
#[repr(align(128))]
pub struct CounterSlot {
    values: [AtomicU64; TABLE.len()],
    first_byte: Histograms,
    answer: Histograms,
    sites: SiteSlots,
    /// The lock is contended only while the status is read.
    causes: Mutex<HashMap<Box<str>, SiteCauses>>,
}

impl CounterSlot {
    /// Adds `n` to a counter or gauge.
    pub fn add(&self, counter: Counter, n: u64) {
        // One writer: a plain load and store is enough, and needs no locked instruction.
        let value = &self.values[counter as usize];
        value.store(value.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Records how long a request took, from the end of its header section to the first and to the last byte of its
    /// response.
    pub fn took(&self, class: ResponseClass, first_byte: Duration, answer: Duration) {
        self.first_byte.record(class, first_byte);
        self.answer.record(class, answer);
    }

    /// Counts a request to a site that bypassed the page cache for `reason`, and the name behind it: a cookie, a path.
    pub fn bypassed(&self, site: &str, now: Instant, reason: &'static str, name: Option<&str>) {
        self.cause(site, |causes| causes.bypassed.note(now, reason, name));
    }

    /// Counts a response of a site's PHP that was not stored, and what decided that.
    pub fn refused(&self, site: &str, now: Instant, reason: &'static str, name: Option<&str>) {
        self.cause(site, |causes| causes.refused.note(now, reason, name));
    }

    /// Counts a page of a site that varies by what its script has read, and what read it.
    pub fn varied(&self, site: &str, now: Instant, read: &str) {
        self.cause(site, |causes| causes.varied.note(now, VARIED, Some(read)));
    }

    fn cause(&self, site: &str, note: impl FnOnce(&mut SiteCauses)) {
        let mut sites = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
        match sites.get_mut(site) {
            Some(causes) => note(causes),
            None => note(sites.entry(site.into()).or_default()),
        }
    }

    /// Counts a response by the class of its status code.
    pub fn count_reply(&self, status: u16) {
        self.add(Counter::Requests, 1);
        let class = match status {
            200..=299 => Counter::Replies2xx,
            300..=399 => Counter::Replies3xx,
            400..=499 => Counter::Replies4xx,
            _ => Counter::Replies5xx,
        };
        self.add(class, 1);
    }

    /// Counts a response of a site, by its number.
    pub fn count_site_reply(&self, site: usize, status: u16, bytes: u64) {
        self.count_reply(status);
        let class = match status {
            200..=299 => SiteCounter::Replies2xx,
            300..=399 => SiteCounter::Replies3xx,
            400..=499 => SiteCounter::Replies4xx,
            _ => SiteCounter::Replies5xx,
        };
        self.add_site(site, class, 1);
        self.add_site(site, SiteCounter::SentBytes, bytes);
    }

    /// Adds `n` to a counter of a site, by its number.
    pub fn add_site(&self, site: usize, counter: SiteCounter, n: u64) {
        self.sites.add(site, counter, n);
    }

    /// Sets a gauge.
    pub fn set(&self, gauge: Counter, n: u64) {
        self.values[gauge as usize].store(n, Ordering::Relaxed);
    }

    /// Subtracts `n` from a gauge.
    pub fn sub(&self, counter: Counter, n: u64) {
        let value = &self.values[counter as usize];
        value.store(value.load(Ordering::Relaxed).wrapping_sub(n), Ordering::Relaxed);
    }
}

impl fmt::Debug for CounterSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

/// All slots.
#[derive(Debug)]
pub struct Registry {
    slots: Vec<Arc<CounterSlot>>,
    sites: SiteNames,
    purge_orders: AtomicU64,
    purged_pages: AtomicU64,
}

/// Purges since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeCounts {
    /// Purges carried out.
    pub orders: u64,
    /// Pages that they matched.
    pub pages: u64,
}

impl Registry {
    /// Slots for that many threads.
    pub fn new(threads: usize) -> Arc<Registry> {
        let slot = || {
            Arc::new(CounterSlot {
                values: [const { AtomicU64::new(0) }; TABLE.len()],
                first_byte: Histograms::new(),
                answer: Histograms::new(),
                sites: SiteSlots::new(),
                causes: Mutex::default(),
            })
        };
        let (purge_orders, purged_pages) = (AtomicU64::new(0), AtomicU64::new(0));
        let slots = (0..threads).map(|_| slot()).collect();
        Arc::new(Registry { slots, sites: SiteNames::new(), purge_orders, purged_pages })
    }

    /// The slot of a thread.
    pub fn slot(&self, thread: usize) -> Arc<CounterSlot> {
        self.slots[thread].clone()
    }

    /// Sum over all threads.
    pub fn value(&self, counter: Counter) -> u64 {
        self.slots
            .iter()
            .map(|s| s.values[counter as usize].load(Ordering::Relaxed))
            .fold(0, u64::wrapping_add)
    }

    /// The number of a site for its figures: the same for the life of the process, or [`OTHER_SITES`] if there are too many.
    pub fn site_number(&self, name: &str) -> usize {
        self.sites.number(name)
    }

    /// The figures of all sites with their names, in the order of their numbers.
    pub fn sites(&self) -> Vec<(Box<str>, SiteFigures)> {
        self.sites.figures(self.slots.iter().map(|slot| &slot.sites))
    }

    /// Counts a purge that matched `pages` pages. Purges come from many threads, and seldom.
    pub fn purged(&self, pages: usize) {
        self.purge_orders.fetch_add(1, Ordering::Relaxed);
        self.purged_pages.fetch_add(pages as u64, Ordering::Relaxed);
    }

    /// Purges since the start.
    pub fn purges(&self) -> PurgeCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PurgeCounts { orders: of(&self.purge_orders), pages: of(&self.purged_pages) }
    }

    /// Why requests bypassed the page cache, and why responses were not stored, for each site by its name.
    pub fn causes(&self, now: Instant) -> BTreeMap<Box<str>, SiteCauses> {
        let mut sum: BTreeMap<Box<str>, SiteCauses> = BTreeMap::new();
        for slot in &self.slots {
            for (site, causes) in &*slot.causes.lock().unwrap_or_else(PoisonError::into_inner) {
                sum.entry(site.clone()).or_default().add(causes, now);
            }
        }
        sum
    }

    /// The same for one site.
    pub fn causes_of(&self, site: &str, now: Instant) -> SiteCauses {
        let mut sum = SiteCauses::default();
        for slot in &self.slots {
            if let Some(causes) = slot.causes.lock().unwrap_or_else(PoisonError::into_inner).get(site) {
                sum.add(causes, now);
            }
        }
        sum
    }

    /// Times to the first byte, for one class.
    pub fn first_byte(&self, class: ResponseClass) -> Summary {
        let mut summary = Summary::default();
        self.slots.iter().for_each(|slot| summary.add(&slot.first_byte, class));
        summary
    }

    /// Times to the last byte, for one class.
    pub fn answer(&self, class: ResponseClass) -> Summary {
        let mut summary = Summary::default();
        self.slots.iter().for_each(|slot| summary.add(&slot.answer, class));
        summary
    }

    /// Times to the last byte, of all classes.
    pub fn all_answers(&self) -> Summary {
        let mut summary = Summary::default();
        for class in ResponseClass::ALL {
            self.slots.iter().for_each(|slot| summary.add(&slot.answer, class));
        }
        summary
    }

    /// Every counter and histogram as Prometheus text.
    pub fn expose(&self, out: &mut Exposition) {
        for (&counter, row) in ALL.iter().zip(TABLE) {
            out.family(row);
            out.sample(row, &[], self.value(counter));
        }
        for (row, summary) in
            [(&table::FIRST_BYTE, Registry::first_byte as fn(&_, _) -> _), (&table::ANSWER, Registry::answer)]
        {
            out.family(row);
            for class in ResponseClass::ALL {
                out.histogram(row, ("class", class.name()), &summary(self, class));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::table::MetricKind;
    use super::*;

    #[test]
    fn sums_over_threads() {
        let registry = Registry::new(2);
        registry.slot(0).add(Counter::ConnectionsIdle, 1);
        registry.slot(1).sub(Counter::ConnectionsIdle, 1);
        registry.slot(1).add(Counter::Requests, 3);
        assert_eq!(registry.value(Counter::ConnectionsIdle), 0);
        assert_eq!(registry.value(Counter::Requests), 3);
    }

    #[test]
    fn every_row_keeps_the_rules_for_names() {
        let mut names: Vec<&str> = TABLE.iter().chain(table::MEASURED).map(|row| row.name).collect();
        for row in TABLE.iter().chain(table::MEASURED) {
            assert_eq!(row.name.ends_with("_total"), row.kind == MetricKind::Counter, "{}", row.name);
            assert!(row.name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_')), "{}", row.name);
            assert!(row.help.ends_with('.'), "{}", row.help);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len() + table::MEASURED.len());
    }

    /// A counter that no code increments would always be 0: a file outside `stats` and `admin` must name each.
    #[test]
    fn every_row_is_counted_somewhere() {
        let mut sources = String::new();
        let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() && !path.ends_with("stats") && !path.ends_with("admin") {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "rs") {
                    sources += &std::fs::read_to_string(path).unwrap();
                }
            }
        }
        // `count_reply` in this folder counts these four by the status.
        let here = |counter: &Counter| format!("{counter:?}").starts_with("Replies");
        let missing: Vec<&Counter> =
            ALL.iter().filter(|c| !here(c) && !sources.contains(&format!("Counter::{c:?}"))).collect();
        assert!(missing.is_empty(), "nobody counts {missing:?}");
    }

    /// The page of all counters, from the table.
    fn counters_page() -> String {
        let mut page = "# Counters\n\n\
            Generated from `crates/base/src/context/stats/table.rs`; a test compares. `GET /metrics` on the admin address shows\n\
            all of them to Prometheus; `millrace status` shows the most important ones.\n\n\
            | name | kind | meaning |\n| --- | --- | --- |\n"
            .to_owned();
        for row in TABLE.iter().chain(table::MEASURED) {
            page += &format!("| `millrace_{}` | {} | {} |\n", row.name, row.kind.name(), row.help);
        }
        page
    }

    #[test]
    fn counters_page_is_that_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md");
        if std::env::var_os("MILLRACE_UPDATE").is_some() {
            std::fs::write(path, counters_page()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == counters_page(),
            "docs/counters.md is old: MILLRACE_UPDATE=1 cargo test -p millrace-base counters_page"
        );
    }
}
