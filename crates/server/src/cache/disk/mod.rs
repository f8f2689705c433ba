//! Pages outlive the process: they are written to a folder in the background, and read again at the next start.
//!
//! ```text
//!  folder/lock               held by the one server that uses the folder
//!         state              which boot of the machine wrote here last, and whether it ended well
//!         NUMBER.pages       a segment: entries, appended by the writer until it is full
//!         NUMBER.purges      purges, appended by whoever purges
//! ```
//!
//! Numbers grow, over restarts too. What records look like is said in `millrace_pages::record`; a torn or damaged one is
//! never taken for a right one. The oldest segment goes when the folder is full; what memory still holds of it is
//! written again ([`writer`]).
//!
//! # A purged page never comes back
//!
//! Every purge has a stamp, higher than that of all before it; a start of the server begins with a number that no
//! earlier one can have reached. Every entry carries the stamp at which its fill began. A purge covers all entries with
//! a lower stamp. Wherever entries and purges stand on the disk, in whatever order they came there, that tells what an
//! entry is worth. So two things are enough:
//!
//! - A purge is in its file (`write` has returned, which the death of the process does not undo) before it takes
//!   effect in memory, and so before anybody is told of it ([`Disk::purge`]). It goes from the purger's own thread, for
//!   the queue of the writer may be long: some fifty bytes into the page cache of the system. If that fails, all
//!   segments are deleted: nothing can come back.
//! - At a start all purges are read before any entry becomes visible ([`loader`]). Purges that come while entries are
//!   being read are held against them by the store (`millrace_pages::Hold`).
//!
//! The stamp of a fill does not count purges that are not in force yet: [`Disk::stamp`] follows behind the last of them.
//!
//! What has been written survives the process, but perhaps not a crash of the machine, and a page could be there whose
//! purge is not. So if the machine was started anew and the last server did not end well, the folder is cleared.
//!
//! # What may be lost
//!
//! Entries, always: the writer drops them when the disk is full or slow, holds them back for a moment so that they are
//! written with their compressed forms, and leaves out those that will not be fresh for long. A folder is owned by one
//! server; a second one with the same folder runs without. Nothing here holds up a start or an event loop, but for the
//! write of a purge.
//!
//! Locks: `purges` before `files`; both are held for a moment, `purges` over the write of a purge.

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

use crate::context::log::Log;
use error::DiskError;
use files::Files;
use folder::DiskFolder;
use purges::DiskPurges;

/// Entries that may wait for the writer.
const QUEUE: usize = 8_192;
/// How long [`Disk::close`] waits for the writer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How much, and when.
#[derive(Clone, Copy, Debug)]
pub struct DiskLimits {
    /// For all files together.
    pub bytes: u64,
    /// For pages that wait to be written.
    pub queue_bytes: usize,
    /// How long an entry waits for its compressed forms before it is written.
    pub settle: Duration,
    /// Entries that are fresh for less are not written: they would be stale when they come back, and made again too
    /// often to be worth the disk's while.
    pub least_fresh: Millis,
}

impl DiskLimits {
    /// What is usual for that much disk space.
    pub fn new(bytes: u64) -> DiskLimits {
        let queue_bytes = usize::try_from(bytes / 8).unwrap_or(usize::MAX).clamp(1 << 20, 64 << 20);
        DiskLimits { bytes, queue_bytes, settle: Duration::from_secs(2), least_fresh: 60_000 }
    }
}

/// An entry that an earlier process has written.
#[derive(Debug)]
pub struct Loaded {
    /// Bytes of its key.
    pub key: Box<[u8]>,
    /// What its site was then; see [`Disk::stored`].
    pub origin: u64,
    /// The page.
    pub kept: Kept,
}

/// The page cache in memory.
pub trait MemoryStore: Send + Sync + 'static {
    /// Takes an entry, unless there is a newer one. False: memory is full, and no more are wanted.
    fn insert(&self, loaded: Loaded) -> bool;

    /// What memory has under this key for this variant, if it came at that moment: it is to be written once more.
    fn still_has(&self, key: &[u8], variant: &[u8], came: Millis) -> Option<Kept>;

    /// All that was on the disk has been inserted.
    fn is_loaded(&self);

    /// The time.
    fn time(&self) -> Millis;
}

/// Figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of all files.
    pub bytes: u64,
    /// Number of segments.
    pub segments: usize,
    /// Entries written since the start.
    pub written: u64,
    /// Entries written once more, as the segment where they stood was deleted.
    pub rewritten: u64,
    /// Entries not written, as the disk was full or slow.
    pub dropped: u64,
    /// Entries read at the start.
    pub loaded: u64,
    /// Whether entries are still being read.
    pub loading: bool,
}

/// The folder where pages outlive the process. All methods do nothing where there is none.
pub struct Disk {
    active: Option<ActiveDisk>,
}

struct ActiveDisk {
    shared: Arc<DiskShared>,
    queue: SyncSender<DiskJob>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// What all threads share.
struct DiskShared {
    folder: DiskFolder,
    limits: DiskLimits,
    log: Log,
    /// Files of earlier processes have lower numbers.
    first: u64,
    purges: Mutex<DiskPurges>,
    files: Mutex<Files>,
    /// As in the limits; may change.
    bytes: AtomicU64,
    /// As [`Disk::stamp`].
    settled: AtomicU64,
    /// Entries that began before this stamp are not to be written: the purges since then are not on the disk.
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
    /// For all files together.
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of a full segment.
    fn segment(&self) -> u64 {
        (self.bytes() / 16).min(64 << 20)
    }

    /// Bytes of a file of purges that is to have a successor.
    fn purge_file(&self) -> u64 {
        (self.bytes() / 64).min(256 << 10)
    }
}

/// What the writer is asked for.
enum DiskJob {
    Entry(Box<QueuedEntry>),
    /// The memory that knows which entries are still in use.
    Memory(std::sync::Weak<dyn MemoryStore>),
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

    /// Takes possession of a folder, which is made if need be. Where that is not possible, says so and goes on without.
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

    /// The stamp that a fill which begins now has to give to [`Disk::stored`].
    pub fn stamp(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.shared.settled.load(Ordering::Acquire))
    }

    /// Writes an entry, some time. `stamp` is [`Disk::stamp`] of the moment at which its fill began; `origin` is another
    /// number if the site becomes another: then nobody wants its pages back. Never waits.
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

    /// Writes purges, then has them applied. When this returns they are in force for the next process too.
    pub fn purge<T>(&self, purges: &[(Purge, Hardness)], apply: impl FnOnce() -> T) -> T {
        let Some(active) = &self.active else { return apply() };
        if purges.is_empty() {
            return apply();
        }
        let _under_way = purges::begin(&active.shared, purges);
        apply()
    }

    /// Changes how much disk space all files together may take.
    pub fn set_bytes(&self, bytes: u64) {
        if let Some(active) = &self.active {
            active.shared.bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Begins to give `memory` what earlier processes have written, newest first, on a thread of its own. Nothing is
    /// given before this is called.
    pub fn load(&self, memory: &Arc<impl MemoryStore>) {
        let Some(active) = &self.active else { return memory.is_loaded() };
        let memory: Arc<dyn MemoryStore> = memory.clone();
        // Before the writer knows: it leaves alone what is to be read.
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

    /// Writes what waits, and gives the folder back. Waits a few seconds at most. Nothing is written afterwards.
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

/// What a panic left behind is as good as ever: every change under these locks is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
