//! Connects the cache and the disk: stored pages are written, and written pages are stored again at the next start.

use std::sync::{Arc, Mutex, PoisonError};

use millrace_pages::{Hardness, Hold, Kept, Key, Millis, Page, Purge};

use super::PageCache;
use super::disk::{Disk, Loaded, MemoryStore};
use super::make;
use millrace_base::site::Site;

/// Percentage of the memory that is filled with pages of earlier processes: new pages need room too.
const FILLED: usize = 90;

/// What the cache needs for the disk.
#[derive(Debug)]
pub struct Outliving {
    pub disk: Disk,
    /// One per shard, while pages of earlier processes are being loaded: purges in the meantime apply to them.
    holds: Mutex<Vec<Hold>>,
}

impl Outliving {
    pub fn new(disk: Disk) -> Outliving {
        Outliving { disk, holds: Mutex::default() }
    }
}

impl PageCache {
    /// Starts to load pages of earlier processes. Must be called once, when the sites are known and before the first
    /// purge.
    pub fn begin_to_load(self: &Arc<Self>) {
        let mut holds = Vec::new();
        self.each(|shard| holds.push(shard.hold()));
        *self.outliving.holds.lock().unwrap_or_else(PoisonError::into_inner) = holds;
        self.outliving.disk.load(self);
    }

    /// The folder where pages outlive the process.
    pub fn disk(&self) -> &Disk {
        &self.outliving.disk
    }

    /// A fill that began at the stamp `begun` has stored or validated a page.
    pub(super) fn write(&self, site: &Site, key: &[u8], page: &Arc<Page>, begun: u64) {
        if !self.disk().is_on() {
            return;
        }
        let key = Key::new(key);
        let kept = self.lock(self.shard_of(key)).kept(key, page);
        if let Some(kept) = kept {
            self.disk().stored(key.bytes, kept, begun, site.origin);
        }
    }

    /// A site's name now means another site: earlier pages are no longer served.
    pub(super) fn has_changed(&self, site: &str) {
        let all = Purge::Prefix { site: site.into(), host: None, path: Box::default() };
        self.purge(&[(all, Hardness::Hard)]);
    }
}

impl MemoryStore for PageCache {
    fn insert(&self, loaded: Loaded) -> bool {
        let Loaded { key, origin, mut kept } = loaded;
        let key = Key::new(&key);
        let (site, _, _) = key.place();
        let known = std::str::from_utf8(site).ok().and_then(|site| self.origin_of(site));
        if known != Some(origin) {
            return true;
        }
        let at = self.shard_of(key);
        let now = self.time();
        let holds = self.outliving.holds.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(hold) = holds.get(at) else { return false };
        let usage = self.lock(at).usage();
        if !usage.is_tight() {
            // If there is room, no request has to wait for unpacking later.
            let Some(page) = make::filled_out(&kept.page) else { return true };
            kept.page = page;
        }
        if usage.bytes + kept.page.bytes() > usage.budget / 100 * FILLED {
            return false;
        }
        let _ = self.lock(at).insert(hold, key, kept, now);
        true
    }

    fn still_has(&self, key: &[u8], variant: &[u8], came: Millis) -> Option<Kept> {
        let key = Key::new(key);
        let kept = self.lock(self.shard_of(key)).kept_variant(key, variant)?;
        (kept.came == came && !kept.purged).then_some(kept)
    }

    fn is_loaded(&self) {
        let holds = std::mem::take(&mut *self.outliving.holds.lock().unwrap_or_else(PoisonError::into_inner));
        for (at, hold) in holds.into_iter().enumerate() {
            self.lock(at).release(hold);
        }
    }

    fn time(&self) -> Millis {
        let (started, wall) = self.started;
        wall + started.elapsed().as_millis() as Millis
    }
}
