//! Uses real files. To simulate a killed server, the tests copy its folder while it runs: data that `write` has taken
//! is there, and nothing else.

mod damage;
mod life;
mod model;
mod purged;
mod trouble;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use millrace_pages::{Form, Page, Tag, Terms};
use millrace_wire::encoding::Coding;

use super::*;
use millrace_base::testing::{Dir, plan, texts};

/// The shelf's clock.
const NOW: Millis = 1_000_000_000;
const ORIGIN: u64 = 17;

/// A memory without a store.
#[derive(Default)]
struct Shelf {
    entries: Mutex<BTreeMap<Vec<u8>, Kept>>,
    /// Keys in the order of their arrival.
    order: Mutex<Vec<String>>,
    /// Maximum number of entries; 0: no limit.
    room: usize,
    loaded: Mutex<bool>,
    changed: Condvar,
}

impl Shelf {
    fn with_room(room: usize) -> Arc<Shelf> {
        Arc::new(Shelf { room, ..Shelf::default() })
    }

    fn put(&self, key: &str, kept: &Kept) {
        lock(&self.entries).insert(key.into(), kept.clone());
    }

    fn wait(&self) {
        let loaded = lock(&self.loaded);
        let (loaded, _) = self.changed.wait_timeout_while(loaded, PATIENCE * 4, |loaded| !*loaded).unwrap();
        assert!(*loaded, "the loader does not end");
    }

    /// The entry under this key: its content, and whether it is stale by a soft purge.
    fn has(&self, key: &str) -> Option<(String, bool)> {
        let entries = lock(&self.entries);
        let kept = entries.get(key.as_bytes())?;
        Some((String::from_utf8_lossy(kept.page.identity().body()).into_owned(), kept.purged))
    }

    fn order(&self) -> Vec<String> {
        lock(&self.order).clone()
    }
}

impl MemoryStore for Shelf {
    fn insert(&self, loaded: Loaded) -> bool {
        assert_eq!(loaded.origin, ORIGIN);
        assert!(!*lock(&self.loaded));
        let mut entries = lock(&self.entries);
        if self.room > 0 && entries.len() >= self.room {
            return false;
        }
        lock(&self.order).push(String::from_utf8_lossy(&loaded.key).into_owned());
        assert!(entries.insert(loaded.key.into(), loaded.kept).is_none(), "a second form of an entry");
        true
    }

    fn still_has(&self, key: &[u8], variant: &[u8], came: Millis) -> Option<Kept> {
        let entries = lock(&self.entries);
        entries.get(key).filter(|kept| *kept.variant == *variant && kept.came == came).cloned()
    }

    fn is_loaded(&self) {
        *lock(&self.loaded) = true;
        self.changed.notify_all();
    }

    fn time(&self) -> Millis {
        NOW
    }
}

/// A log that can be read, and a folder that is deleted with the test.
struct Stage {
    dir: Dir,
    log: Log,
    /// The parent of the folder for pages and of its copies.
    base: PathBuf,
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}

impl Stage {
    fn new(name: &str) -> Stage {
        let dir = Dir::new(&format!("disk-{name}"));
        let log = Log::open(&plan(&dir.path("error.log"))).unwrap();
        // In memory if possible: these folders are closed properly thousands of times.
        let memory = Path::new("/dev/shm");
        let base = match memory.is_dir() {
            true => memory.join(format!("millrace-disk-{name}-{}", std::process::id())),
            false => dir.path("base"),
        };
        let _ = fs::remove_dir_all(&base);
        fs::create_dir(&base).unwrap();
        Stage { dir, log, base }
    }

    fn folder(&self) -> PathBuf {
        self.base.join("pages")
    }

    fn open(&self) -> Disk {
        self.open_with(limits(16 << 20))
    }

    fn open_with(&self, limits: DiskLimits) -> Disk {
        self.open_into(limits, &Arc::new(Shelf::default()))
    }

    /// A start: the shelf gets the stored entries.
    fn open_into(&self, limits: DiskLimits, shelf: &Arc<Shelf>) -> Disk {
        let disk = Disk::open(&self.folder(), limits, &self.log);
        disk.load(shelf);
        shelf.wait();
        disk
    }

    /// What a start finds in the folder now, as if the server had been killed.
    fn after_kill(&self) -> Arc<Shelf> {
        self.after_kill_and(|_| {})
    }

    /// The same, after `what` has changed the copy of the folder.
    fn after_kill_and(&self, what: impl FnOnce(&Copied)) -> Arc<Shelf> {
        let copied = Copied::of(&self.folder(), self.base.join("copy"));
        what(&copied);
        let disk = Disk::open(&copied.0, limits(16 << 20), &self.log);
        assert!(disk.is_on());
        let shelf = Arc::new(Shelf::default());
        disk.load(&shelf);
        shelf.wait();
        disk.close();
        shelf
    }

    /// All log messages.
    fn told(&self) -> Vec<String> {
        self.log.close();
        texts(&self.dir.path("error.log"))
    }
}

/// A copy of a folder; deleted on drop.
struct Copied(PathBuf);

impl Copied {
    /// A kill happens at one moment, a copy takes time: it is repeated until nothing has changed meanwhile.
    fn of(folder: &Path, to: PathBuf) -> Copied {
        loop {
            fs::create_dir(&to).unwrap();
            fs::set_permissions(&to, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
            let before = state(folder);
            let copy = |name: &String| fs::copy(folder.join(name), to.join(name));
            let whole = before.iter().all(|(name, ..)| copy(name).is_ok());
            let copied = Copied(to.clone());
            if whole && state(folder) == before {
                return copied;
            }
        }
    }

    /// The files with this suffix, the oldest first.
    fn files(&self, end: &str) -> Vec<PathBuf> {
        files(&self.0, end)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Names, sizes and identities of all files.
fn state(folder: &Path) -> Vec<(String, u64, u64)> {
    let all = fs::read_dir(folder).unwrap().filter_map(|entry| {
        let entry = entry.unwrap();
        let about = entry.metadata().ok()?;
        Some((entry.file_name().into_string().unwrap(), about.len(), about.ino()))
    });
    let mut all: Vec<_> = all.collect();
    all.sort();
    all
}

fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = all.filter(|path| path.to_str().unwrap().ends_with(end)).collect();
    files.sort();
    files
}

/// Limits under which all is written at once.
fn limits(bytes: u64) -> DiskLimits {
    DiskLimits { settle: Duration::ZERO, least_fresh: 0, ..DiskLimits::new(bytes) }
}

fn kept(body: &str, tags: &[u64]) -> Kept {
    let head = format!("Content-Type: text/html\r\nETag: \"{}\"\r\n", body.len());
    let form = Form::new(head.as_bytes(), body.as_bytes());
    let page = Page::new(200, Box::from(&b"Content-Type: text/html\r\n"[..]), form, NOW - 10);
    let terms =
        Terms { ttl: 1_000_000, tags: tags.iter().map(|tag| Tag(*tag)).collect(), ..Terms::default() };
    Kept {
        page: Arc::new(page),
        terms: Arc::new(terms),
        variant: Box::default(),
        came: NOW - 10,
        purged: false,
    }
}

/// Stores an entry whose fill began just now.
fn store(disk: &Disk, key: &str, body: &str, tags: &[u64]) {
    disk.stored(key.as_bytes(), kept(body, tags), disk.stamp(), ORIGIN);
}

/// Waits until the writer has nothing to do.
fn written(disk: &Disk, entries: u64) {
    wait_for(|| disk.usage().written >= entries);
}

fn wait_for(done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE * 4, "it never came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn hard(tag: u64) -> (Purge, Hardness) {
    (Purge::Tag(Tag(tag)), Hardness::Hard)
}

fn soft(tag: u64) -> (Purge, Hardness) {
    (Purge::Tag(Tag(tag)), Hardness::Soft)
}

fn some(body: &str, purged: bool) -> Option<(String, bool)> {
    Some((body.to_owned(), purged))
}

/// The key of a page.
fn key(path: &str) -> String {
    format!("shop\0http\0shop.test\0{path}\0")
}

/// Content of a unique length.
fn content(number: usize) -> String {
    format!("page {number} ").repeat(10 + number % 7)
}

fn gzipped(kept: &Kept, body: &[u8]) {
    let form = Form::new(b"Content-Encoding: gzip\r\n", body);
    assert!(kept.page.put_form(Coding::Gzip, Some(form)));
}
