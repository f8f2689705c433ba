//! The page cache on the path of a request: it serves stored pages, and runs PHP once for a page that many requests
//! want. The crate `millrace-pages` decides what may be stored, under which key and for how long, and contains the
//! store.
//!
//! ```text
//!   route ──> consult ── hit ──────────────────────────────> serve ──> Reply
//!                │ └──── miss, stale ──> fill: PHP runs once ──┬──> serve, for all that wait
//!                │                         │ growing           └──> make a page ──> compress ──> store
//!                └────── bypass ──> PHP ──> settle ──> Reply
//! ```
//!
//! - [`consult`]: looks a request up; [`passed`]: what a thread knows to be uncacheable without a lookup;
//! - [`audience`]: visitors with cookies of their own who may have stored pages all the same; [`slot`]: what the cache offers to those who
//!   know them (the room `audience`); [`wished`]: public pages that only they ask for;
//! - [`fill`]: one run of PHP, and the requests that wait for it; [`growing`]: a page while it is being written;
//! - [`make`]: from a response to a page; [`compressor`]: its compressed forms, made on separate threads;
//! - [`serve`]: from a page to a response; [`cache_status`]: what the response says about the cache;
//! - [`settle`]: steps for every response of a script;
//! - [`lately`]: what PHP said about pages lately; [`preview`]: what the cache would do with a request, without doing it;
//! - [`disk`]: pages outlive the process; [`outlive`]: connects the disk with the rest.
//!
//! Locks. The hash of the key divides the store into shards, each behind a mutex that is held for a lookup or a
//! change, never while waiting. A purge locks them one after the other.

mod audience;
mod cache_status;
mod code;
mod compressor;
mod consult;
mod disk;
mod fill;
mod growing;
mod lately;
mod make;
mod outlive;
mod passed;
mod preview;
pub mod purge;
mod redirected;
mod serve;
mod settle;
mod slot;
#[cfg(test)]
pub(crate) mod tests;
mod wished;
mod written;

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use audience::{Admission, Audience, AudienceKind};
pub use cache_status::CacheStatus;
pub use code::CodeStamp;
pub use consult::{PageRun, Waited, consult, consult_proxied};
pub use disk::{Disk, DiskLimits, Usage as DiskUsage};
pub use lately::NotedResponse;
pub use make::{MadePage, page as make_page, uncoded};
pub use preview::{Decision, Preview, preview};
pub use serve::{PageRequest, answer_filled, answer_privately, is_public_field};
pub use settle::{settle, settle_proxied};
pub use slot::PageSlot;

use code::Code;
use compressor::Compressor;
use fill::Fill;
use lately::Lately;
use millrace_pages::purge::noted;
use millrace_pages::visitors::MemberRows;
use millrace_pages::{
    Hardness, Key, Millis, Page, Pages, Place, Purge, Rules, StoreOutcome, StoreUsage, Tag,
};
use millrace_settings::plan;
use outlive::Outliving;
use wished::Wished;
use written::Written;

use millrace_base::context::Context;
use millrace_base::message::{Reply, Request};
use millrace_base::site::Site;

/// Runs PHP for a request.
pub type PageMaker = Rc<dyn Fn(Request) -> Pin<Box<dyn Future<Output = Reply>>>>;

/// An event loop's part of the page cache, which all loops share.
#[derive(Debug)]
pub struct CacheThread {
    /// The event loop's part for everything else.
    pub context: Rc<Context>,
    /// The page cache of all sites.
    pub cache: Arc<PageCache>,
    /// It serves only what is ready, and passes other requests on.
    pub passes_on: bool,
}

impl CacheThread {
    /// The part of an event loop.
    pub fn new(context: &Rc<Context>, cache: &Arc<PageCache>, passes_on: bool) -> Rc<CacheThread> {
        Rc::new(CacheThread { context: context.clone(), cache: cache.clone(), passes_on })
    }
}

/// The page cache of all sites.
pub struct PageCache {
    /// A power of two.
    shards: Box<[Mutex<Shard>]>,
    compressor: Compressor,
    /// Sites by name, for events without a request.
    sites: Mutex<HashMap<Box<str>, KnownSite>>,
    outliving: Outliving,
    /// What PHP said lately.
    lately: Lately,
    /// Which files have run.
    pub code: Code,
    /// What PHP has written to databases.
    pub written: Written,
    wished: Wished,
    /// Number of purges that are complete.
    purges: AtomicU64,
    /// Number of purges that have begun.
    orders: Arc<AtomicU64>,
    /// When the cache was created, on the monotonic and on the real-time clock.
    started: (Instant, Millis),
}

type Shard = Pages<Arc<Fill>>;

/// What is known about a site.
#[derive(Clone)]
struct KnownSite {
    rules: Arc<Rules>,
    origin: u64,
    /// Hears which users PHP writes.
    members: Option<MemberRows>,
}

impl fmt::Debug for PageCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cache")
    }
}

impl PageCache {
    /// An empty cache for `threads` event loops that may use `memory` bytes.
    pub fn new(memory: usize, threads: usize) -> Arc<PageCache> {
        PageCache::with_disk(memory, threads, Disk::off())
    }

    /// The same, with a folder in which its pages outlive the process. [`PageCache::begin_to_load`] loads them.
    pub fn with_disk(memory: usize, threads: usize, disk: Disk) -> Arc<PageCache> {
        let count = threads.next_power_of_two().min(MOST_SHARDS);
        let shards = (0..count).map(|_| Mutex::new(Pages::new(memory / count))).collect();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started = (Instant::now(), wall.as_millis() as Millis);
        let outliving = Outliving::new(disk);
        let (sites, lately, purges) = (Mutex::default(), Lately::default(), AtomicU64::new(0));
        let (compressor, written) = (Compressor::start(), Written::default());
        Arc::new(PageCache {
            shards,
            compressor,
            sites,
            outliving,
            lately,
            code: Code::default(),
            written,
            wished: Wished::default(),
            purges,
            orders: Arc::default(),
            started,
        })
    }

    /// Changes its limits: memory - the excess is evicted at once -, variants per page, and disk space.
    pub fn set_limits(&self, plan: &plan::Cache) {
        self.each(|shard| {
            shard.set_budget(plan.memory / self.shards.len());
            shard.set_most_variants(plan.variants);
        });
        self.disk().set_bytes(plan.disk_bytes);
    }

    /// Applies purges, here and on disk. Returns roughly the number of pages they cover.
    pub fn purge(&self, purges: &[(Purge, Hardness)]) -> usize {
        self.orders.fetch_add(1, Ordering::AcqRel);
        let pages = self.disk().purge(purges, || {
            let mut pages = 0;
            self.each(|shard| {
                pages += purges.iter().map(|(what, how)| shard.purge(what, *how)).sum::<usize>();
            });
            pages
        });
        // Earlier notes of threads may come from a shard that had not been purged yet.
        self.purges.fetch_add(1, Ordering::Release);
        pages
    }

    /// Number of purges that have begun.
    pub fn orders(&self) -> Arc<AtomicU64> {
        self.orders.clone()
    }

    /// Number of purges that have begun.
    pub fn orders_begun(&self) -> u64 {
        self.orders.load(Ordering::Acquire)
    }

    /// Number of purges that are complete in all shards.
    fn purges(&self) -> u64 {
        self.purges.load(Ordering::Acquire)
    }

    /// Applies purges that a script orders by `millrace_purge()` while it runs for `host` of this site, in the
    /// grammar of the field `Millrace-Purge`.
    pub fn purge_as_told(&self, site: &str, host: &str, text: &[u8]) -> usize {
        let Some(rules) = self.rules_of(site) else { return 0 };
        self.purge(&noted(&rules, &Place { site, host, path: b"/", query: None }, text))
    }

    /// Takes a script's report of what it writes to the database; false if it is something else.
    pub fn hear_written(&self, site: &str, text: &[u8]) -> bool {
        let Some(items) = self.written.hear(site, text) else { return false };
        if let Some(members) = self.known(site).and_then(|known| known.members) {
            members.written(items);
        }
        true
    }

    /// The rules of a site by its name; the empty name is the site without one.
    pub fn rules_of(&self, site: &str) -> Option<Arc<Rules>> {
        self.known(site).map(|known| known.rules)
    }

    /// The origin of a site by its name; see [`Site::origin`].
    fn origin_of(&self, site: &str) -> Option<u64> {
        self.known(site).map(|known| known.origin)
    }

    fn known(&self, site: &str) -> Option<KnownSite> {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner).get(site).cloned()
    }

    /// Takes the rules of the sites of a new configuration.
    pub fn set_rules<'a>(&self, sites: impl Iterator<Item = &'a Site> + Clone) {
        // While the cache is off, changes are not noted: pages of earlier processes must not come back later.
        for site in sites.clone().filter(|site| site.plan.cache.mode == plan::CacheMode::Off) {
            let all = Tag::site(site.name().unwrap_or(""));
            self.purge(&[(Purge::Tag(all), Hardness::Hard)]);
        }
        let known = sites.filter_map(|site| {
            let rules = site.cache.clone()?;
            let known = KnownSite { rules, origin: site.origin, members: site.visitors.member_rows() };
            Some((site.name().unwrap_or("").into(), known))
        });
        let known: HashMap<Box<str>, KnownSite> = known.collect();
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *sites, known.clone());
        drop(sites);
        for (name, before) in before {
            if known.get(&name).is_none_or(|now| now.origin != before.origin) {
                self.has_changed(&name);
            }
        }
    }

    /// Does a bounded part of the work that purges and expiry have left in the shards of an event loop. Returns the
    /// keys of pages to make: those that are wished for, and those that are stale but were requested often, the most wanted first.
    pub fn tidy(&self, thread: &Context, most: usize) -> Vec<Box<[u8]>> {
        let threads = thread.plan().server.threads.max(1);
        let now = self.now(thread);
        let mut wanted = Vec::new();
        for shard in (0..self.shards.len()).filter(|shard| shard % threads == thread.index) {
            let mut shard = self.lock(shard);
            shard.sweep(SWEEP_STEPS, now);
            wanted.extend(shard.wanted(most));
        }
        wanted.retain(|page| page.hits >= WANTED_HITS && page.variant.is_empty());
        wanted.sort_by_key(|page| std::cmp::Reverse(page.hits));
        let wanted = wanted.into_iter().map(|page| page.key);
        self.wished.take().into_iter().chain(wanted).collect()
    }

    /// Figures of all shards together.
    pub fn usage(&self) -> StoreUsage {
        let mut sum = StoreUsage::default();
        self.each(|shard| sum.add(&shard.usage()));
        sum
    }

    fn each(&self, mut what: impl FnMut(&mut Shard)) {
        for shard in &self.shards {
            what(&mut shard.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// The time on the cache's clock, as of the thread's last reading of its own.
    pub fn now(&self, thread: &Context) -> Millis {
        let (started, wall) = self.started;
        wall + thread.clock.now().saturating_duration_since(started).as_millis() as Millis
    }

    /// The index in a shard's table comes from the other end of the hash.
    fn shard_of(&self, key: Key<'_>) -> usize {
        (key.hash >> 32) as usize & (self.shards.len() - 1)
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A fill that began at the stamp `begun` has produced a page: it goes to disk, and its other forms are made when
    /// the machine is idle.
    fn has_stored(
        self: &Arc<Self>,
        site: &Site,
        key: &[u8],
        page: &Arc<Page>,
        stored: StoreOutcome,
        begun: u64,
    ) {
        if !matches!(stored, StoreOutcome::Fresh | StoreOutcome::Stale) {
            return;
        }
        self.write(site, key, page, begun);
        self.compress_later(key, page);
    }

    /// The other forms of a stored page are made when the machine is idle.
    fn compress_later(self: &Arc<Self>, key: &[u8], page: &Arc<Page>) {
        if !make::lacks_any(page) {
            return;
        }
        let (cache, key): (_, Box<[u8]>) = (self.clone(), key.into());
        let on_compressed = move |grown: &Arc<Page>| {
            let key = Key::new(&key);
            cache.lock(cache.shard_of(key)).grew(key, grown);
        };
        self.compressor.at_leisure(page, Box::new(on_compressed));
    }
}

/// Number of entries visited under one lock: some tens of microseconds.
const SWEEP_STEPS: usize = 256;

/// A page that was requested less often is not refilled before the next request.
const WANTED_HITS: u32 = 2;

/// More would only cut the memory into smaller pieces.
const MOST_SHARDS: usize = 16;
