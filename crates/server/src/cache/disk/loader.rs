//! The loader: a thread that runs after the start and reads what earlier processes have written.
//!
//! It reads all purges first, then the segments, the newest first, each from its end: of several entries for one page
//! the newest comes first, and the others don't count, even if the newest is no longer valid.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use millrace_pages::record::{
    self, FILE_HEAD, FileHead, HEAD, Head, History, Holds, Kind, PurgeState, StoredEntry,
};

use super::error::DiskError;
use super::files::{PurgeFile, Segment};
use super::folder::private;
use super::{DiskShared, Loaded, MemoryStore, lock, purges};

/// The niceness of the loader's thread: requests come first.
const NICE: i32 = 10;

/// Loads the entries on disk into `memory`.
pub fn run(shared: &DiskShared, memory: &dyn MemoryStore) {
    // Affects only this thread; without it, the thread competes a little more with requests.
    let _ = rustix::process::setpriority_process(None, NICE);
    let began = std::time::Instant::now();
    let (segments, purges) = earlier(shared);
    match history(shared, &purges) {
        Ok(history) => Loader { shared, memory, history, seen: HashSet::new() }.read(&segments),
        Err(why) => {
            if !segments.is_empty() {
                let folder = shared.folder.path().display();
                shared.log.warn(format_args!("discarding the cached pages in {folder}: {why}"));
            }
            clear(shared, &segments, &purges);
        }
    }
    shared.loading.store(false, Ordering::Release);
    memory.is_loaded();
    let loaded = shared.loaded.load(Ordering::Relaxed);
    if !segments.is_empty() {
        let ms = began.elapsed().as_millis();
        shared.log.info(format_args!("loaded {loaded} cached pages from disk in {ms} ms"));
    }
}

/// The files of earlier processes.
fn earlier(shared: &DiskShared) -> (Vec<Segment>, Vec<PurgeFile>) {
    let files = lock(&shared.files);
    (
        files.segments.iter().filter(|file| file.number < shared.first).copied().collect(),
        files.purges.iter().filter(|file| file.number < shared.first).copied().collect(),
    )
}

/// All purges of earlier processes, or why they are unknown.
fn history(shared: &DiskShared, files: &[PurgeFile]) -> Result<History, DiskError> {
    let whole = shared.folder.is_whole();
    let noted = shared.folder.note(false);
    if !whole {
        return Err(DiskError::NotEnded);
    }
    noted.map_err(|error| DiskError::Cannot("write there".to_owned(), error))?;
    purges::read(shared, files)
}

/// Deletes the files of earlier processes.
fn clear(shared: &DiskShared, segments: &[Segment], purges: &[PurgeFile]) {
    {
        let mut files = lock(&shared.files);
        files.segments.retain(|file| !segments.iter().any(|gone| gone.number == file.number));
        files.purges.retain(|file| !purges.contains(file));
    }
    // Purges last: if this is interrupted, they still exist.
    for segment in segments {
        let _ = fs::remove_file(shared.folder.segment(segment.number));
    }
    for file in purges {
        let _ = fs::remove_file(shared.folder.purges(file.number));
    }
}

struct Loader<'a> {
    shared: &'a DiskShared,
    memory: &'a dyn MemoryStore,
    history: History,
    /// Fingerprints of keys and variants that were seen.
    seen: HashSet<u64>,
}

impl Loader<'_> {
    fn read(&mut self, segments: &[Segment]) {
        let mut wanted = true;
        for segment in segments.iter().rev() {
            let path = self.shared.folder.segment(segment.number);
            match Reading::open(&path) {
                Ok(Some(reading)) => {
                    if let Some(known) = lock(&self.shared.files).segment(segment.number) {
                        known.floor = reading.head.floor;
                    }
                    wanted = wanted && self.read_segment(reading);
                }
                // A file of another program, or an invalid one.
                Ok(None) => {
                    lock(&self.shared.files).forget(segment.number);
                    let _ = fs::remove_file(&path);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.shared.log.debug(format_args!("cannot read {}: {error}", path.display())),
            }
        }
    }

    /// False: no more entries are wanted.
    fn read_segment(&mut self, mut reading: Reading) -> bool {
        for place in reading.places().into_iter().rev() {
            if self.shared.closing.load(Ordering::Acquire) {
                return false;
            }
            let Some(entry) = reading.entry(place) else { continue };
            let key = record::fingerprint(entry.key, record::fingerprint(entry.variant, 0));
            if !self.seen.insert(key) || !entry.is_useful(self.memory.time()) {
                continue;
            }
            let purged = match self.history.state(entry.key, &entry.terms.tags, entry.stamp) {
                PurgeState::Kept => false,
                PurgeState::Stale => true,
                PurgeState::Gone => continue,
            };
            let (key, origin) = (entry.key.into(), entry.origin);
            if !self.memory.insert(Loaded { key, origin, kept: entry.kept(purged) }) {
                return false;
            }
            self.shared.loaded.fetch_add(1, Ordering::Relaxed);
        }
        true
    }
}

/// A segment that is being read.
pub struct Reading {
    file: File,
    head: FileHead,
    bytes: u64,
    buffer: Vec<u8>,
}

/// Position of an entry's record.
#[derive(Clone, Copy)]
pub struct RecordPlace {
    at: u64,
    head: Head,
}

impl Reading {
    /// Opens a segment. `None`: the file is not a segment.
    pub fn open(path: &Path) -> io::Result<Option<Reading>> {
        let file = private().read(true).open(path)?;
        let bytes = file.metadata()?.len();
        let mut head = [0; FILE_HEAD];
        match file.read_exact_at(&mut head, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            result => result?,
        }
        let head = FileHead::read(&head).filter(|head| head.holds == Holds::Entries);
        Ok(head.map(|head| Reading { file, head, bytes, buffer: Vec::new() }))
    }

    /// All entries, up to the first that is torn or has an implausible length.
    pub fn places(&mut self) -> Vec<RecordPlace> {
        let mut places = Vec::new();
        let mut at = FILE_HEAD as u64;
        while let Some(most) = self.bytes.checked_sub(at + HEAD as u64) {
            let mut head = [0; HEAD];
            if self.file.read_exact_at(&mut head, at).is_err() {
                break;
            }
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let Ok(head) = Head::read(&head, self.head.seed, most) else { break };
            at += HEAD as u64;
            if head.kind == Kind::Entry {
                places.push(RecordPlace { at, head });
            }
            at += head.length as u64;
        }
        places
    }

    /// The entry at this position, if it is undamaged.
    pub fn entry(&mut self, place: RecordPlace) -> Option<StoredEntry<'_>> {
        self.buffer.resize(place.head.length, 0);
        self.file.read_exact_at(&mut self.buffer, place.at).ok()?;
        let payload = place.head.payload(&self.buffer, self.head.seed).ok()?;
        StoredEntry::read(payload).ok().filter(|entry| entry.stamp >= self.head.floor)
    }
}
