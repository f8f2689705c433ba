//! The writer: a thread that appends entries to segments, and limits the size of the folder.
//!
//! An entry waits for a moment, then it is encoded and written together with all other entries that are due. A full
//! segment is followed by a new one; when the folder is too large, the oldest segment is deleted. Pages of it that
//! memory still holds are written again, unless these are most of the segment: then memory holds more than fits on
//! disk, and the oldest pages are lost.
//!
//! Failures only lose entries. A segment in which a write failed is truncated after its last undamaged record, or
//! abandoned; the writer tries again later.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use millrace_pages::record::{self, FILE_HEAD, FileHead, Holds};

use super::files::Segment;
use super::folder::{DiskFolder, private};
use super::loader::Reading;
use super::purges::{self, random};
use super::{DiskJob, DiskShared, MemoryStore, QueuedEntry, lock};

/// Maximum number of jobs taken from the queue before entries are written.
const AT_ONCE: usize = 256;
/// Approximate number of bytes per write.
const BATCH: usize = 1 << 20;
/// How long entries are dropped after a failed write.
const RETRY: Duration = Duration::from_secs(10);
/// Minimum interval between messages about dropped entries.
const TELL_AGAIN: Duration = Duration::from_secs(600);
/// Maximum number of segments; many starts make many small ones.
const MOST_SEGMENTS: usize = 256;
/// Interval at which an idle writer tidies the folder.
const IDLE: Duration = Duration::from_secs(60);

/// The state of the writer's thread.
pub struct DiskWriter {
    shared: Arc<DiskShared>,
    /// Keeps the folder locked.
    lock: File,
    waiting: VecDeque<(Instant, Box<QueuedEntry>)>,
    memory: Option<Weak<dyn MemoryStore>>,
    current: Option<Open>,
    /// Lower bound of the stamps in the next segment.
    next_floor: u64,
    trouble: Option<WriteTrouble>,
    /// A merge has failed; it is not tried again.
    merges_failed: bool,
}

/// The segment being written.
struct Open {
    file: File,
    head: FileHead,
    bytes: u64,
}

/// A failed write.
struct WriteTrouble {
    since: Instant,
    told: Instant,
    lost: u64,
}

impl DiskWriter {
    /// A writer that has written nothing yet.
    pub fn new(shared: Arc<DiskShared>, lock: File) -> DiskWriter {
        let next_floor = shared.settled.load(Ordering::Acquire);
        let waiting = VecDeque::new();
        let (memory, current, trouble) = (None, None, None);
        DiskWriter { shared, lock, waiting, memory, current, next_floor, trouble, merges_failed: false }
    }

    /// Runs until it is told to end.
    pub fn run(mut self, jobs: &Receiver<DiskJob>) {
        while let Some(first) = self.wait(jobs) {
            for job in first.into_iter().chain(jobs.try_iter().take(AT_ONCE)) {
                match job {
                    DiskJob::Entry(entry) => {
                        self.waiting.push_back((Instant::now() + self.shared.limits.settle, entry));
                    }
                    DiskJob::Memory(memory) => self.memory = Some(memory),
                    DiskJob::Settle(done) => {
                        self.write_due(true);
                        let _ = done.send(());
                    }
                    DiskJob::Close(done) => {
                        self.end();
                        let _ = done.send(());
                        return;
                    }
                }
            }
            self.write_due(false);
        }
        self.end();
    }

    /// The next job, or none when an entry is due. The outer `None`: all senders are gone.
    fn wait(&self, jobs: &Receiver<DiskJob>) -> Option<Option<DiskJob>> {
        let due = self.waiting.front().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        match jobs.recv_timeout(due.unwrap_or(IDLE)) {
            Ok(job) => Some(Some(job)),
            Err(RecvTimeoutError::Timeout) => Some(None),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Writes the entries that are due, or `all`; when many wait, they are due earlier.
    fn write_due(&mut self, all: bool) {
        let mut batch = Batch::default();
        let now = Instant::now();
        while self.waiting.front().is_some_and(|(due, _)| all || *due <= now || self.is_crowded()) {
            let Some((_, entry)) = self.waiting.pop_front() else { break };
            self.add(&mut batch, &entry);
            self.shared.queued_bytes.fetch_sub(entry.bytes, Ordering::Relaxed);
            if batch.entries == 0 {
                // All of it is in the files now.
                self.tidy();
            }
        }
        self.flush(&mut batch);
        self.tidy();
    }

    /// Whether there is little room left for waiting entries.
    fn is_crowded(&self) -> bool {
        self.shared.queued_bytes.load(Ordering::Relaxed) > self.shared.limits.queue_bytes / 2
    }

    /// Encodes an entry into the batch for the open segment; writes the batch if it is full.
    fn add(&mut self, batch: &mut Batch, entry: &QueuedEntry) {
        if self.is_refused(entry) {
            return;
        }
        if self.segment_is_full(batch) {
            self.flush(batch);
            self.current = None;
        }
        if let Err(error) = self.open_segment() {
            return self.failed(&error, 1);
        }
        let Some(open) = &self.current else { return };
        if entry.stamp < open.head.floor {
            return;
        }
        let QueuedEntry { key, kept, stamp, origin, .. } = entry;
        record::NewEntry { stamp: *stamp, origin: *origin, key, kept }.put(&mut batch.bytes, open.head.seed);
        batch.entries += 1;
        if batch.bytes.len() >= BATCH {
            self.flush(batch);
        }
    }

    fn is_refused(&mut self, entry: &QueuedEntry) -> bool {
        let too_large = entry.bytes as u64 > self.shared.bytes() / 4;
        let void = entry.stamp < self.shared.void.load(Ordering::Acquire);
        let in_trouble = match &mut self.trouble {
            Some(trouble) if trouble.since.elapsed() < RETRY => {
                trouble.lost += 1;
                self.shared.dropped.fetch_add(1, Ordering::Relaxed);
                true
            }
            _ => false,
        };
        too_large || void || in_trouble
    }

    fn segment_is_full(&self, batch: &Batch) -> bool {
        let limit = self.shared.segment();
        self.current.as_ref().is_some_and(|open| open.bytes + batch.bytes.len() as u64 >= limit)
    }

    fn open_segment(&mut self) -> io::Result<()> {
        if self.current.is_some() {
            return Ok(());
        }
        let number = lock(&self.shared.files).number();
        let head = FileHead { holds: Holds::Entries, number, seed: random(), floor: self.next_floor };
        self.next_floor = self.shared.settled.load(Ordering::Acquire);
        let path = self.shared.folder.segment(number);
        let mut file = private().append(true).create_new(true).open(&path)?;
        if let Err(error) = file.write_all(&head.bytes()) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        let bytes = FILE_HEAD as u64;
        lock(&self.shared.files).segments.push_back(Segment { number, bytes, floor: head.floor });
        self.current = Some(Open { file, head, bytes });
        Ok(())
    }

    /// Writes a batch.
    fn flush(&mut self, batch: &mut Batch) {
        let Some(open) = self.current.as_mut().filter(|_| batch.entries > 0) else { return };
        let entries = std::mem::take(&mut batch.entries);
        let result = open.file.write_all(&batch.bytes);
        let bytes = open.bytes + batch.bytes.len() as u64;
        batch.bytes.clear();
        match result {
            Ok(()) => {
                open.bytes = bytes;
                let number = open.head.number;
                match lock(&self.shared.files).segment(number) {
                    Some(segment) => segment.bytes = bytes,
                    // It was deleted because a purge could not be written.
                    None => self.current = None,
                }
                let counter = if batch.again { &self.shared.rewritten } else { &self.shared.written };
                counter.fetch_add(entries, Ordering::Relaxed);
                self.recovered();
            }
            Err(error) => {
                // A partial record at the end would hide what follows.
                if open.file.set_len(open.bytes).is_err() {
                    self.current = None;
                }
                self.failed(&error, entries);
            }
        }
    }

    fn failed(&mut self, error: &io::Error, entries: u64) {
        self.shared.dropped.fetch_add(entries, Ordering::Relaxed);
        let now = Instant::now();
        let folder = self.shared.folder.path().display();
        let log = &self.shared.log;
        match &mut self.trouble {
            None => {
                log.warn(format_args!(
                    "cannot write cached pages to {folder}: {error}; keeping them only in memory until writing succeeds"
                ));
                self.trouble = Some(WriteTrouble { since: now, told: now, lost: entries });
            }
            Some(trouble) => {
                trouble.since = now;
                trouble.lost += entries;
                if now - trouble.told >= TELL_AGAIN {
                    trouble.told = now;
                    let lost = trouble.lost;
                    log.warn(format_args!(
                        "still cannot write cached pages to {folder}: {error}; {lost} not written so far"
                    ));
                }
            }
        }
    }

    fn recovered(&mut self) {
        if let Some(trouble) = self.trouble.take() {
            let folder = self.shared.folder.path().display();
            self.shared.log.info(format_args!(
                "writing cached pages to {folder} again; {} were not written",
                trouble.lost
            ));
        }
    }

    /// Reduces the folder to its maximum size.
    fn tidy(&mut self) {
        if self.shared.loading.load(Ordering::Acquire) && !self.is_over(2) {
            // Keeps the segments that are being read, if possible.
            return;
        }
        while self.is_over(1) {
            let Some(oldest) = self.oldest() else { break };
            self.drop_segment(oldest);
        }
        if !self.shared.loading.load(Ordering::Acquire) && self.memory.is_some() {
            self.merge_purges();
        }
    }

    fn merge_purges(&mut self) {
        if self.merges_failed {
            return;
        }
        if let Err(why) = purges::merge(&self.shared, self.next_floor) {
            self.merges_failed = true;
            self.shared.log.debug(format_args!("cannot merge the cache's purge files: {why}"));
        }
    }

    /// Whether the files exceed `times` the maximum size.
    fn is_over(&self, times: u64) -> bool {
        let files = lock(&self.shared.files);
        files.bytes() > self.shared.bytes().saturating_mul(times) || files.segments.len() > MOST_SEGMENTS
    }

    /// The oldest segment, unless there is no other.
    fn oldest(&self) -> Option<Segment> {
        let files = lock(&self.shared.files);
        (files.segments.len() > 1).then(|| files.segments.front().copied()).flatten()
    }

    /// Deletes a segment; pages that memory still holds are written again.
    fn drop_segment(&mut self, segment: Segment) {
        let path = self.shared.folder.segment(segment.number);
        let memory = self.memory.as_ref().and_then(Weak::upgrade).filter(|_| self.trouble.is_none());
        let reading = memory.and_then(|memory| Some((memory, Reading::open(&path).ok()??)));
        lock(&self.shared.files).forget(segment.number);
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            self.shared.log.debug(format_args!("cannot delete {}: {error}", path.display()));
        }
        if let Some((memory, reading)) = reading {
            self.rescue(&*memory, reading, segment.bytes / 2);
        }
    }

    /// Writes the pages of a segment again that memory still holds: at most `most` bytes, so that the folder shrinks.
    fn rescue(&mut self, memory: &dyn MemoryStore, mut reading: Reading, most: u64) {
        let mut batch = Batch { again: true, ..Batch::default() };
        let mut left = most;
        for place in reading.places() {
            // Before memory is asked: a later purge then has a higher stamp than the entries written here.
            let stamp = self.shared.settled.load(Ordering::Acquire);
            let Some(entry) = reading.entry(place) else { continue };
            let Some(kept) = memory.still_has(entry.key, entry.variant, entry.came) else { continue };
            let (key, origin) = (entry.key.into(), entry.origin);
            let entry = QueuedEntry { bytes: kept.page.bytes(), key, kept, stamp, origin };
            let Some(rest) = left.checked_sub(entry.bytes as u64) else { break };
            left = rest;
            self.add(&mut batch, &entry);
        }
        self.flush(&mut batch);
    }

    /// The process ends.
    fn end(&mut self) {
        self.write_due(true);
        let purges: Vec<_> = lock(&self.shared.files).purges.iter().copied().collect();
        let synced = purges.iter().try_for_each(|file| {
            private().read(true).open(self.shared.folder.purges(file.number))?.sync_all()
        });
        // Entries may be lost; a missing purge would bring pages back.
        let noted =
            synced.and_then(|()| self.shared.folder.sync()).and_then(|()| self.shared.folder.note(true));
        if let Err(error) = noted {
            self.shared.log.debug(format_args!("cannot close the cache folder properly: {error}"));
        }
        DiskFolder::unlock(&self.lock);
    }
}

/// Records to be written by one call.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    entries: u64,
    /// The records have been written before.
    again: bool,
}
