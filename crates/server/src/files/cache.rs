//! A thread's cache of open files. No lock: each thread has its own, with its share of the limits.
//!
//! Only existing files are cached: a new file is found at once, and a crawler of URLs that don't exist evicts
//! nothing. A missing file costs one system call, or none (see `listing`).

use std::cell::{Cell, RefCell};
use std::hash::BuildHasher;
use std::path::Path;
use std::rc::Rc;

use hashbrown::DefaultHashBuilder;
use millrace_settings::plan;
use millrace_sys::links::RefusedLink;
use rustix::process::{Resource, getrlimit};

use super::entry::{FileEntry, Home, Ledger, Rules};
use super::listing::Listing;
use super::lookup::{FileStamp, LookupFailure, PathKind, Root};
use super::refused;
use super::table::{Cost, FileTable, Key};
use super::{FileMoment, Node, Purpose};
use millrace_base::context::Context;
use millrace_base::context::stats::{Counter, CounterSlot};
use millrace_base::site::{Reach, Site};

/// A thread's cache of open files.
#[derive(Debug)]
pub struct OpenFileCache {
    inner: RefCell<CacheInner>,
    /// The cost that the gauges show.
    told: Cell<Cost>,
}

/// What the cache needs to know about a site.
#[derive(Clone, Copy, Debug)]
pub(super) struct SitePlace<'a> {
    /// Position among the sites.
    pub index: usize,
    /// Differs between a site and the one that has its position after a reload.
    pub identity: usize,
    /// The site's root.
    pub root: &'a Path,
    /// With whose rights its files are opened, and where links may lead.
    pub reach: &'a Reach,
    /// The site's own fields, which take precedence over ours where only one is allowed.
    pub lines: &'a [u8],
    /// Whether responses say how long the file may be cached, depending on its kind.
    pub expires: bool,
}

impl<'a> SitePlace<'a> {
    fn of(site: &'a Site) -> SitePlace<'a> {
        SitePlace {
            index: site.index,
            identity: std::ptr::from_ref(site).addr(),
            root: &site.plan.root,
            reach: &site.reach,
            lines: &site.header_lines,
            expires: true,
        }
    }

    /// The folder of a rule of the site, by its `number`. Its files get the same fields and lifetimes as those of the root.
    fn other(site: &'a Site, number: usize, root: &'a Path, sites: usize) -> SitePlace<'a> {
        SitePlace { lines: &site.header_lines, expires: true, ..SitePlace::handed(site, number, root, sites) }
    }

    /// The folder with number `number` from which the site's scripts hand files over.
    fn handed(site: &'a Site, number: usize, root: &'a Path, sites: usize) -> SitePlace<'a> {
        SitePlace {
            // After the indexes of all sites.
            index: site.index + (number + 1) * sites.max(1),
            identity: std::ptr::from_ref(site).addr(),
            root,
            reach: &site.reach,
            lines: b"",
            expires: false,
        }
    }
}

impl OpenFileCache {
    /// An empty cache with its share of the limits, which apply to all threads together.
    pub fn new(limits: &plan::Files, threads: usize) -> OpenFileCache {
        OpenFileCache { inner: RefCell::new(CacheInner::new(limits, threads)), told: Cell::default() }
    }

    /// Clears the cache and sets new limits.
    pub fn reset(&self, limits: &plan::Files, threads: usize) {
        let mut inner = self.inner.borrow_mut();
        // Requests that began earlier may still ask for the old sites: their entries must not be taken for new ones.
        let epochs = inner.epochs;
        *inner = CacheInner::new(limits, threads);
        inner.epochs = epochs;
    }

    /// What `path` (decoded, normalised, starting with `/`) leads to below the site's root.
    pub fn find(&self, context: &Context, site: &Site, path: &[u8], purpose: Purpose) -> Node {
        let (node, is_hit) = self.find_at(FileMoment::of(context), &SitePlace::of(site), path, purpose);
        if is_hit {
            context.stats.add(Counter::FileHits, 1);
        } else {
            context.stats.add(Counter::FileMisses, 1);
            self.tell(&context.stats);
            self.report(context, site);
        }
        node
    }

    /// Says which link was not followed.
    fn report(&self, context: &Context, site: &Site) {
        if let Some(link) = self.inner.borrow_mut().refused.take() {
            refused::report(context, site, &link);
        }
    }

    /// A file that a script hands over, below the folder `root`, which has number `number` in the site. Its fields
    /// don't include the site's own, nor how long it may be cached.
    pub fn find_handed(
        &self,
        context: &Context,
        site: &Site,
        number: usize,
        root: &Path,
        path: &[u8],
    ) -> Node {
        let place = SitePlace::handed(site, number, root, context.plan().sites.len());
        self.find_elsewhere(context, site, &place, path)
    }

    /// What is at `path` below `root`, the folder of a rule of the site. `number` is the folder's number in the site.
    pub fn find_other(
        &self,
        context: &Context,
        site: &Site,
        number: usize,
        root: &Path,
        path: &[u8],
    ) -> Node {
        let place = SitePlace::other(site, number, root, context.plan().sites.len());
        self.find_elsewhere(context, site, &place, path)
    }

    fn find_elsewhere(&self, context: &Context, site: &Site, place: &SitePlace<'_>, path: &[u8]) -> Node {
        let (node, is_hit) = self.find_at(FileMoment::of(context), place, path, Purpose::Serve);
        context.stats.add(if is_hit { Counter::FileHits } else { Counter::FileMisses }, 1);
        if !is_hit {
            self.tell(&context.stats);
            self.report(context, site);
        }
        node
    }

    /// The same without an event loop; also returns whether no system call was needed.
    pub(super) fn find_at(
        &self,
        now: FileMoment,
        place: &SitePlace<'_>,
        path: &[u8],
        purpose: Purpose,
    ) -> (Node, bool) {
        self.inner.borrow_mut().find(now, place, path, purpose)
    }

    /// Current cost.
    pub(super) fn cost(&self) -> Cost {
        self.inner.borrow().cost()
    }

    /// Brings the gauges up to date.
    pub(super) fn tell(&self, stats: &CounterSlot) {
        let now = self.cost();
        let before = self.told.replace(now);
        for (gauge, before, now) in [
            (Counter::FileEntries, before.entries, now.entries),
            (Counter::FileBytes, before.bytes, now.bytes),
        ] {
            stats.add(gauge, now.saturating_sub(before) as u64);
            stats.sub(gauge, before.saturating_sub(now) as u64);
        }
    }
}

/// A cached path.
#[derive(Debug)]
enum CachedPath {
    File(Rc<FileEntry>),
    Script(Rc<[u8]>),
    Directory,
}

impl CachedPath {
    fn node(&self) -> Node {
        match self {
            CachedPath::File(entry) => Node::File(entry.clone()),
            CachedPath::Script(filename) => Node::Script(filename.clone()),
            CachedPath::Directory => Node::Directory,
        }
    }

    /// Whether it is still the same on disk.
    fn is_current(&self, purpose: Purpose, kind: PathKind, stamp: &FileStamp) -> bool {
        match self {
            CachedPath::File(entry) => kind == PathKind::File && entry.is_current(stamp),
            CachedPath::Script(_) => kind == PathKind::File && purpose == Purpose::Run,
            CachedPath::Directory => kind == PathKind::Directory,
        }
    }
}

#[derive(Debug)]
struct CacheInner {
    hasher: DefaultHashBuilder,
    found: FileTable<CachedPath>,
    sites: Vec<Option<SiteHome>>,
    epochs: u32,
    rules: Rc<Rules>,
    ledger: Rc<Ledger>,
    /// The last link that was not followed, until it is reported.
    refused: Option<RefusedLink>,
    /// Interval between comparisons, milliseconds.
    revalidate: u64,
}

/// A site's root, and when it was last compared.
#[derive(Debug)]
struct SiteHome {
    identity: usize,
    checked: u64,
    home: Rc<Home>,
    names: Listing,
}

/// One file may take at most 1 / this of the cache.
const FRACTION: usize = 8;

/// Memory of an entry without content, bytes.
const ENTRY: usize = 160;

impl CacheInner {
    fn new(limits: &plan::Files, threads: usize) -> CacheInner {
        let threads = threads.max(1);
        let (entries, bytes) = (limits.cache_entries / threads, limits.cache_bytes / threads);
        let found = Cost { entries, bytes, descriptors: most_descriptors() / threads };
        CacheInner {
            hasher: DefaultHashBuilder::default(),
            found: FileTable::new(found),
            sites: Vec::new(),
            epochs: 0,
            rules: Rc::new(Rules {
                plan: limits.clone(),
                small: limits.small_file.min(bytes / FRACTION) as u64,
                compress_to: limits.compress_to.min(bytes as u64 / 2),
            }),
            ledger: Rc::default(),
            refused: None,
            revalidate: limits.revalidate.as_millis() as u64,
        }
    }

    fn find(
        &mut self,
        now: FileMoment,
        place: &SitePlace<'_>,
        path: &[u8],
        purpose: Purpose,
    ) -> (Node, bool) {
        self.settle();
        if self.root_is_known_to_lack(now, place, path) {
            return (Node::Missing, true);
        }
        let mut home = self.home(now, place);
        let mut key = Key { epoch: home.epoch, purpose, path };
        let mut hash = self.hash(&key);
        if let Some(slot) = self.found.get(hash, &key)
            && now.tick.saturating_sub(slot.checked) < self.revalidate
        {
            return (slot.value.node(), true);
        }
        if self.root_has_moved(now, place) {
            home = self.home(now, place);
            key.epoch = home.epoch;
            hash = self.hash(&key);
        }
        if self.found.get(hash, &key).is_none() && self.root_lacks(now, place, &home, path) {
            return (Node::Missing, false);
        }
        (self.look(now, &home, hash, &key), false)
    }

    /// Compares a cached entry with the disk, or looks the path up for the first time.
    fn look(&mut self, now: FileMoment, home: &Rc<Home>, hash: u64, key: &Key<'_>) -> Node {
        let Some(root) = &home.root else { return Node::Missing };
        if let Some(slot) = self.found.get(hash, key) {
            match root.look(key.path) {
                Ok(seen) if slot.value.is_current(key.purpose, seen.kind, &seen.stamp) => {
                    slot.checked = now.tick;
                    return slot.value.node();
                }
                // A second-old entry is better than none.
                Err(LookupFailure::Unavailable | LookupFailure::Descriptors) => return slot.value.node(),
                _ => {}
            }
        }
        let mut result = self.load(now, home, root, key);
        if let Err(LookupFailure::Descriptors) = result {
            // Frees the descriptors that the cache holds for speed.
            self.found.retain(|_, cost| cost.descriptors == 0);
            result = self.load(now, home, root, key);
        }
        self.refused = root.refused();
        self.keep(now, hash, key, result)
    }

    fn load(
        &self,
        now: FileMoment,
        home: &Rc<Home>,
        root: &Root,
        key: &Key<'_>,
    ) -> Result<CachedPath, LookupFailure> {
        let found = match key.purpose {
            Purpose::Serve => root.open(key.path)?,
            Purpose::Run => root.look(key.path)?,
        };
        match (found.kind, key.purpose) {
            (PathKind::Directory, _) => Ok(CachedPath::Directory),
            (PathKind::Other, _) => Err(LookupFailure::Missing),
            (PathKind::File, Purpose::Run) => Ok(CachedPath::Script(filename(root.real(), key.path))),
            (PathKind::File, Purpose::Serve) => {
                let entry = FileEntry::load(home, root, key.path.into(), found, now.wall)?;
                Ok(CachedPath::File(Rc::new(entry)))
            }
        }
    }

    fn keep(
        &mut self,
        now: FileMoment,
        hash: u64,
        key: &Key<'_>,
        result: Result<CachedPath, LookupFailure>,
    ) -> Node {
        let small = Cost { entries: 1, bytes: ENTRY + key.path.len(), descriptors: 0 };
        match result {
            Ok(known) => {
                let node = known.node();
                let (path, cost) = match &known {
                    CachedPath::File(entry) => (entry.path().clone(), entry.cost()),
                    CachedPath::Script(name) => {
                        (key.path.into(), Cost { bytes: small.bytes + name.len(), ..small })
                    }
                    CachedPath::Directory => (key.path.into(), small),
                };
                self.found.insert(hash, key, path, now.tick, known, cost);
                node
            }
            Err(failure) => {
                self.found.remove(hash, key);
                if failure == LookupFailure::Missing { Node::Missing } else { Node::Unavailable }
            }
        }
    }

    /// The site's root; opens it if this thread has not used the site yet.
    fn home(&mut self, now: FileMoment, place: &SitePlace<'_>) -> Rc<Home> {
        match self.sites.get(place.index) {
            Some(Some(site)) if site.identity == place.identity => site.home.clone(),
            _ => self.open_home(now, place),
        }
    }

    fn open_home(&mut self, now: FileMoment, place: &SitePlace<'_>) -> Rc<Home> {
        self.epochs += 1;
        let home = Rc::new(Home {
            epoch: self.epochs,
            path: place.root.to_owned(),
            reach: place.reach.clone(),
            root: Root::open_at(place.root, self.rules.plan.symlinks, place.reach).ok(),
            lines: place.lines.into(),
            expires: place.expires,
            rules: self.rules.clone(),
            ledger: self.ledger.clone(),
        });
        if self.sites.len() <= place.index {
            self.sites.resize_with(place.index + 1, || None);
        }
        let names = Listing::default();
        let site = SiteHome { identity: place.identity, checked: now.tick, home: home.clone(), names };
        if let Some(before) = self.sites[place.index].replace(site) {
            let epoch = before.home.epoch;
            self.found.retain(|e, _| e != epoch);
        }
        home
    }

    /// Whether the site's root is now another directory, for example after a deployment that changes a link; then
    /// opens it.
    fn root_has_moved(&mut self, now: FileMoment, place: &SitePlace<'_>) -> bool {
        let Some(Some(site)) = self.sites.get_mut(place.index) else { return false };
        if now.tick.saturating_sub(site.checked) < self.revalidate {
            return false;
        }
        site.checked = now.tick;
        let moved = match &site.home.root {
            // A root that has vanished counts as moved; if the machine can't tell, it stays.
            Some(root) => {
                root.is_still(&site.home.path).is_ok_and(|still| !still)
                    || root.is_still(&site.home.path) == Err(LookupFailure::Missing)
            }
            None => true,
        };
        if moved {
            self.open_home(now, place);
        }
        moved
    }

    /// Whether nothing can be at `path`, according to names in the root that were compared with the disk a moment
    /// ago. Needs neither a system call nor an entry per path, because an application's URLs come in hundreds of
    /// thousands.
    fn root_is_known_to_lack(&self, now: FileMoment, place: &SitePlace<'_>, path: &[u8]) -> bool {
        let Some(Some(site)) = self.sites.get(place.index) else { return false };
        site.identity == place.identity
            && now.tick.saturating_sub(site.checked) < self.revalidate
            && site.names.is_known_to_lack(now, self.revalidate, path)
    }

    /// Whether nothing can be at `path`, according to the names in the root.
    fn root_lacks(&mut self, now: FileMoment, place: &SitePlace<'_>, home: &Home, path: &[u8]) -> bool {
        match (self.sites.get_mut(place.index), &home.root) {
            (Some(Some(site)), Some(root)) => site.names.lacks(root, now, path),
            _ => false,
        }
    }

    /// Updates the cost of entries that have grown.
    fn settle(&mut self) {
        for entry in self.ledger.take().into_iter().filter_map(|entry| entry.upgrade()) {
            let key = Key { epoch: entry.epoch(), purpose: Purpose::Serve, path: entry.path() };
            let hash = self.hash(&key);
            let is_it =
                |known: &CachedPath| matches!(known, CachedPath::File(known) if Rc::ptr_eq(known, &entry));
            self.found.charge(hash, &key, entry.cost(), is_it);
        }
    }

    /// Keyed: clients choose the paths.
    fn hash(&self, key: &Key<'_>) -> u64 {
        self.hasher.hash_one((key.epoch, key.purpose, key.path))
    }

    fn cost(&self) -> Cost {
        self.found.cost()
    }
}

/// The script's absolute path, with the root's name without symbolic links. PHP caches link targets, and opcache
/// caches compiled code by name: after a deployment that changes a link they would run the old release under the new
/// one's name, and mix both.
fn filename(root: &Path, path: &[u8]) -> Rc<[u8]> {
    use std::os::unix::ffi::OsStrExt;
    let root = root.as_os_str().as_bytes();
    [root.strip_suffix(b"/").unwrap_or(root), path].concat().into()
}

/// Maximum number of descriptors for all threads' caches: connections and PHP need the others.
fn most_descriptors() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX / 2, |limit| limit as usize / 4)
}
