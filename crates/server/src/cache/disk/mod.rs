//! Pages outlive the process: a background thread writes them to a folder, and the next start reads them.
//!
//! ```text
//!  folder/lock               held by the one server that uses the folder
//!         state              which boot of the machine wrote here last, and whether it ended well
//!         NUMBER.pages       a segment: entries, appended by the writer until it is full
//!         NUMBER.purges      purges, appended by the thread that purges
//! ```
//!
//! Numbers rise, across restarts too. `millrace_pages::record` describes the records; a torn or damaged one is always
//! detected. When the folder is full, the oldest segment is deleted; pages of it that are still in memory are written
//! again ([`writer`]).
//!
//! # A purged page never comes back
//!
//! Each purge has a stamp, higher than the stamps of all earlier ones; each start of the server begins with a number
//! that no earlier process can have reached. Each entry carries the stamp at which its fill began. A purge covers all
//! entries with a lower stamp. So the stamps tell whether an entry is valid, wherever and in whatever order entries
//! and purges are on disk. Two rules are enough:
//!
//! - A purge is in its file (`write` has returned; the death of the process does not undo that) before it takes
//!   effect in memory, and so before it is confirmed ([`Disk::purge`]). The purging thread writes it itself, about
//!   fifty bytes into the system's page cache, because the writer's queue may be long. If that fails, all segments
//!   are deleted, so that nothing can come back.
//! - At a start all purges are read before any entry becomes visible ([`loader`]). The store applies purges that
//!   arrive during loading to the loaded entries (`millrace_pages::Hold`).
//!
//! A fill's stamp excludes purges that are not in force yet: [`Disk::stamp`] stays below them.
//!
//! Written data survives the process, but perhaps not a crash of the machine: a page could be on disk without its
//! purge. So if the machine was restarted and the last server did not shut down properly, the folder is cleared.
//!
//! # What may be lost
//!
//! Entries may be lost at any time: the writer drops them when the disk is full or slow, delays them for a moment so
//! that they are written with their compressed forms, and skips entries that will soon be stale. One server owns a
//! folder; a second one with the same folder runs without it. Nothing here delays a start or an event loop, except
//! writing a purge.
//!
//! Locks: `purges` before `files`; both are held briefly, `purges` while a purge is written.

mod error;
mod files;
mod folder;
mod loader;
mod purges;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use millrace_pages::{Hardness, Kept, Millis, Purge};
use tokio::sync::oneshot;

use error::DiskError;
use files::Files;
use folder::DiskFolder;
use millrace_base::context::log::Log;
use purges::DiskPurges;

/// Entries that may wait for the writer.
const QUEUE: usize = 8_192;
/// How long [`Disk::close`] waits for the writer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sizes and times.
#[derive(Clone, Copy, Debug)]
pub struct DiskLimits {
    /// Maximum size of all files together.
    pub bytes: u64,
    /// Maximum size of pages that wait to be written.
    pub queue_bytes: usize,
    /// How long an entry waits for its compressed forms before it is written.
    pub settle: Duration,
    /// Entries that are fresh for less are not written: they would be stale when they are loaded, and are remade too
    /// often to be worth writing.
    pub least_fresh: Millis,
}

impl DiskLimits {
    /// Default limits for this much disk space.
    pub fn new(bytes: u64) -> DiskLimits {
        let queue_bytes = usize::try_from(bytes / 8).unwrap_or(usize::MAX).clamp(1 << 20, 64 << 20);
        DiskLimits { bytes, queue_bytes, settle: Duration::from_secs(2), least_fresh: 60_000 }
    }
}

/// An entry that an earlier process has written.
#[derive(Debug)]
pub struct Loaded {
    /// Its key.
    pub key: Box<[u8]>,
    /// The origin of its site at that time; see [`Disk::stored`].
    pub origin: u64,
    /// The page.
    pub kept: Kept,
}

/// The page cache in memory.
pub trait MemoryStore: Send + Sync + 'static {
    /// Takes an entry, unless there is a newer one. False: memory is full, no more are wanted.
    fn insert(&self, loaded: Loaded) -> bool;

    /// The page that memory holds for this key and variant, if it was made at `came`: it is to be written again.
    fn still_has(&self, key: &[u8], variant: &[u8], came: Millis) -> Option<Kept>;

    /// All entries on disk have been inserted.
    fn is_loaded(&self);

    /// The current time.
    fn time(&self) -> Millis;
}

/// Figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Size of all files.
    pub bytes: u64,
    /// Number of segments.
    pub segments: usize,
    /// Entries written since the start.
    pub written: u64,
    /// Entries written again because their segment was deleted.
    pub rewritten: u64,
    /// Entries not written because the disk was full or slow.
    pub dropped: u64,
    /// Entries read at the start.
    pub loaded: u64,
    /// Whether entries are still being read.
    pub loading: bool,
}

/// The folder in which pages outlive the process. Without a folder, all methods do nothing.
pub struct Disk {
    active: Option<ActiveDisk>,
}

struct ActiveDisk {
    shared: Arc<DiskShared>,
    queue: SyncSender<DiskJob>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// The part that all threads share.
struct DiskShared {
    folder: DiskFolder,
    limits: DiskLimits,
    log: Log,
    /// Files of earlier processes have lower numbers.
    first: u64,
    purges: Mutex<DiskPurges>,
    files: Mutex<Files>,
    /// As in the limits; mutable.
    bytes: AtomicU64,
    /// The value of [`Disk::stamp`].
    settled: AtomicU64,
    /// Entries with a lower stamp are not written: the purges since then are not on disk.
    void: AtomicU64,
    queued_bytes: AtomicUsize,
    written: AtomicU64,
    rewritten: AtomicU64,
    dropped: AtomicU64,
    loaded: AtomicU64,
    loading: AtomicBool,
    closing: AtomicBool,
}

impl DiskShared {
    /// Maximum size of all files together.
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of a full segment.
    fn segment(&self) -> u64 {
        (self.bytes() / 16).min(64 << 20)
    }

    /// Size at which a file of purges gets a successor.
    fn purge_file(&self) -> u64 {
        (self.bytes() / 64).min(256 << 10)
    }
}

/// A job for the writer.
enum DiskJob {
    Entry(Box<QueuedEntry>),
    /// The memory, which knows the entries still in use.
    Memory(std::sync::Weak<dyn MemoryStore>),
    /// Write all that waits.
    Settle(oneshot::Sender<()>),
    Close(SyncSender<()>),
}

/// An entry to be written.
struct QueuedEntry {
    key: Box<[u8]>,
    kept: Kept,
    stamp: u64,
    origin: u64,
    bytes: usize,
}

impl Disk {
    /// Storage on disk is off.
    pub fn off() -> Disk {
        Disk { active: None }
    }

    /// Takes ownership of a folder, which is created if necessary. If that fails, logs it and continues without.
    pub fn open(path: &Path, limits: DiskLimits, log: &Log) -> Disk {
        match ActiveDisk::open(path, limits, log) {
            Ok(active) => Disk { active: Some(active) },
            Err(why) => {
                log.warn(format_args!(
                    "cached pages will not survive a restart: {why}\n  see cache.dir; \"off\" disables storage on disk"
                ));
                Disk::off()
            }
        }
    }

    /// Whether there is a folder.
    pub fn is_on(&self) -> bool {
        self.active.is_some()
    }

    /// The stamp of a fill that begins now, for [`Disk::stored`].
    pub fn stamp(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.shared.settled.load(Ordering::Acquire))
    }

    /// Queues an entry for writing. `stamp` is [`Disk::stamp`] at the time when its fill began; `origin` identifies
    /// the site's configuration: if it changes, the site's old pages are not loaded. Never waits.
    pub fn stored(&self, key: &[u8], kept: Kept, stamp: u64, origin: u64) {
        let Some(active) = &self.active else { return };
        let shared = &active.shared;
        if kept.terms.ttl.saturating_sub(kept.terms.age) < shared.limits.least_fresh || kept.purged {
            return;
        }
        let bytes = kept.page.bytes() + key.len();
        let queued = shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let sent = if queued + bytes > shared.limits.queue_bytes {
            false
        } else {
            let entry = QueuedEntry { key: key.into(), kept, stamp, origin, bytes };
            active.queue.try_send(DiskJob::Entry(Box::new(entry))).is_ok()
        };
        if !sent {
            shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes purges, then applies them. When this returns they are in force for the next process too.
    pub fn purge<T>(&self, purges: &[(Purge, Hardness)], apply: impl FnOnce() -> T) -> T {
        let Some(active) = &self.active else { return apply() };
        if purges.is_empty() {
            return apply();
        }
        let _under_way = purges::begin(&active.shared, purges);
        apply()
    }

    /// Changes the maximum size of all files together.
    pub fn set_bytes(&self, bytes: u64) {
        if let Some(active) = &self.active {
            active.shared.bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Starts a thread that passes entries of earlier processes to `memory`, newest first. Nothing is passed before
    /// this call.
    pub fn load(&self, memory: &Arc<impl MemoryStore>) {
        let Some(active) = &self.active else { return memory.is_loaded() };
        let memory: Arc<dyn MemoryStore> = memory.clone();
        // Set before the writer knows: it doesn't touch what is still to be read.
        active.shared.loading.store(true, Ordering::Release);
        let _ = active.queue.try_send(DiskJob::Memory(Arc::downgrade(&memory)));
        let shared = active.shared.clone();
        let name = "millrace-cache-load".to_owned();
        if let Err(error) =
            std::thread::Builder::new().name(name).spawn(move || loader::run(&shared, &*memory))
        {
            active.shared.loading.store(false, Ordering::Release);
            active.shared.log.error(format_args!("cannot start a thread to load cached pages: {error}"));
        }
    }

    /// Waits until the queued entries have been written; they are not left for a moment, as usual.
    pub async fn settle(&self) {
        let Some(active) = &self.active else { return };
        let (done, written) = oneshot::channel();
        let mut job = DiskJob::Settle(done);
        while let Err(TrySendError::Full(same)) = active.queue.try_send(job) {
            job = same;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let _ = written.await;
    }

    /// Writes the queued entries and releases the folder. Waits a few seconds at most. Afterwards nothing is written.
    pub fn close(&self) {
        let Some(active) = &self.active else { return };
        active.shared.closing.store(true, Ordering::Release);
        let (done, closed) = sync_channel(1);
        let mut job = DiskJob::Close(done);
        let began = std::time::Instant::now();
        while let Err(TrySendError::Full(same)) = active.queue.try_send(job) {
            if began.elapsed() > PATIENCE {
                return;
            }
            job = same;
            std::thread::sleep(Duration::from_millis(5));
        }
        if closed.recv_timeout(PATIENCE).is_ok()
            && let Some(writer) = lock(&active.writer).take()
        {
            let _ = writer.join();
        }
    }

    /// Figures.
    pub fn usage(&self) -> Usage {
        let Some(ActiveDisk { shared, .. }) = &self.active else { return Usage::default() };
        let files = lock(&shared.files);
        Usage {
            bytes: files.bytes(),
            segments: files.segments.len(),
            written: shared.written.load(Ordering::Relaxed),
            rewritten: shared.rewritten.load(Ordering::Relaxed),
            dropped: shared.dropped.load(Ordering::Relaxed),
            loaded: shared.loaded.load(Ordering::Relaxed),
            loading: shared.loading.load(Ordering::Relaxed),
        }
    }
}

impl ActiveDisk {
    fn open(path: &Path, limits: DiskLimits, log: &Log) -> Result<ActiveDisk, DiskError> {
        let (folder, lock) = DiskFolder::open(path)?;
        let files = folder.list().map_err(DiskError::cannot("read", path))?;
        // No earlier process can have reached it, however often it purged.
        let first = files.next;
        let first_stamp = first << 40;
        let shared = Arc::new(DiskShared {
            folder,
            limits,
            log: log.clone(),
            first,
            purges: Mutex::new(DiskPurges::new(first_stamp)),
            files: Mutex::new(files),
            bytes: AtomicU64::new(limits.bytes),
            settled: AtomicU64::new(first_stamp),
            void: AtomicU64::new(0),
            queued_bytes: AtomicUsize::new(0),
            written: AtomicU64::new(0),
            rewritten: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
            loading: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        });
        let (queue, jobs) = sync_channel(QUEUE);
        let writer = writer::DiskWriter::new(shared.clone(), lock);
        let writer = std::thread::Builder::new()
            .name("millrace-cache-write".to_owned())
            .spawn(move || writer.run(&jobs))
            .map_err(|error| DiskError::Cannot("start a thread".to_owned(), error))?;
        Ok(ActiveDisk { shared, queue, writer: Mutex::new(Some(writer)) })
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

/// Ignores poisoning: every change under these locks is a single step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
