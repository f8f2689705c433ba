//! The files of purges: any thread that purges writes them, the writer merges them.

use std::fs;
use std::io::{self, Write};
use std::sync::atomic::Ordering;

use millrace_pages::record::{FileHead, History, Holds, put_purge, read_purges};
use millrace_pages::{Hardness, Purge};
use rustix::fs::FallocateFlags;

use super::error::DiskError;
use super::files::PurgeFile;
use super::folder::private;
use super::{DiskShared, lock};

/// Space that a new file reserves, so that purges can be written when the disk is full, bytes.
const RESERVED: u64 = 64 << 10;
/// Number of finished files that are merged into one.
const MANY: usize = 4;

/// State of the purges. The holder of the lock writes.
#[derive(Debug)]
pub struct DiskPurges {
    /// Stamp of the last purge.
    last: u64,
    /// Purges that are written but not in force yet.
    under_way: Vec<u64>,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    number: u64,
    seed: u64,
    bytes: u64,
}

impl DiskPurges {
    /// Without purges; the first one gets a stamp above `stamp`.
    pub fn new(stamp: u64) -> DiskPurges {
        DiskPurges { last: stamp, under_way: Vec::new(), current: None }
    }

    /// The number of the file being written.
    fn writing(&self) -> Option<u64> {
        self.current.as_ref().map(|current| current.number)
    }

    /// A stamp below all purges that are not in force yet.
    fn settled(&self) -> u64 {
        self.under_way.iter().min().map_or(self.last, |lowest| lowest - 1)
    }
}

/// Writes purges. They are under way until the returned value is dropped.
pub fn begin<'a>(shared: &'a DiskShared, purges: &[(Purge, Hardness)]) -> UnderWay<'a> {
    let mut log = lock(&shared.purges);
    let first = log.last + 1;
    log.last += purges.len() as u64;
    log.under_way.push(first);
    shared.settled.store(log.settled(), Ordering::Release);
    if let Err(error) = append(shared, &mut log, first, purges) {
        // A partial record may have been written. It is the last of its file.
        log.current = None;
        let stamp = log.last;
        give_up(shared, stamp, &error);
    }
    UnderWay { shared, first }
}

/// Purges that are written and are being applied.
pub struct UnderWay<'a> {
    shared: &'a DiskShared,
    first: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut log = lock(&self.shared.purges);
        log.under_way.retain(|first| *first != self.first);
        self.shared.settled.store(log.settled(), Ordering::Release);
    }
}

/// Writes with one call. Opens the file each time: another thread may have another descriptor table.
fn append(
    shared: &DiskShared,
    log: &mut DiskPurges,
    first: u64,
    purges: &[(Purge, Hardness)],
) -> io::Result<()> {
    if log.current.as_ref().is_none_or(|current| current.bytes > shared.purge_file()) {
        log.current = None;
        let number = lock(&shared.files).number();
        let head = FileHead { holds: Holds::Purges, number, seed: random(), floor: first - 1 };
        let records = records(head.bytes().to_vec(), head.seed, first, purges);
        let mut file = private().append(true).create_new(true).open(shared.folder.purges(number))?;
        let bytes = records.len() as u64;
        lock(&shared.files).purges.push_back(PurgeFile { number, bytes });
        // Some file systems can't reserve space.
        let _ = rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, RESERVED.max(bytes));
        file.write_all(&records)?;
        log.current = Some(Current { number, seed: head.seed, bytes });
        return Ok(());
    }
    let Some(current) = &mut log.current else { return Ok(()) };
    let records = records(Vec::new(), current.seed, first, purges);
    private().append(true).open(shared.folder.purges(current.number))?.write_all(&records)?;
    current.bytes += records.len() as u64;
    if let Some(file) = lock(&shared.files).purges.iter_mut().find(|file| file.number == current.number) {
        file.bytes = current.bytes;
    }
    Ok(())
}

fn records(mut out: Vec<u8>, seed: u64, first: u64, purges: &[(Purge, Hardness)]) -> Vec<u8> {
    for (stamp, (what, how)) in (first..).zip(purges) {
        put_purge(&mut out, seed, stamp, what, *how);
    }
    out
}

/// A purge can't be written. Pages that it covers must not come back, so all segments are deleted.
fn give_up(shared: &DiskShared, stamp: u64, error: &io::Error) {
    shared.void.store(stamp, Ordering::Release);
    let mut left = None;
    let mut files = lock(&shared.files);
    files.segments.retain(|segment| match fs::remove_file(shared.folder.segment(segment.number)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            left = Some(error);
            true
        }
        _ => false,
    });
    let folder = shared.folder.path().display();
    match left {
        None => shared.log.warn(format_args!(
            "cannot write a purge to {folder}: {error}; deleted the cached pages there, so that no purged page comes \
             back"
        )),
        Some(left) => shared.log.error(format_args!(
            "cannot write a purge to {folder}: {error}, and cannot delete the cached pages there: {left}\n  delete \
             them before the next start, or purged pages come back"
        )),
    }
}

/// Purges of earlier processes, which the loader found in these files.
///
/// # Errors
/// A file can't be read or was changed: purges may be missing.
pub fn read(shared: &DiskShared, files: &[PurgeFile]) -> Result<History, DiskError> {
    let mut history = History::default();
    for file in files {
        let path = shared.folder.purges(file.number);
        let bytes = fs::read(&path).map_err(|error| DiskError::Unreadable(path.clone(), error))?;
        let purges = read_purges(&bytes).map_err(|broken| DiskError::Damaged(path, broken))?;
        purges.into_iter().for_each(|purged| history.add(purged));
    }
    Ok(history)
}

/// Merges many files into one, with the purges that still cover an entry. The writer calls this when the loader is
/// done; future segments have no entries below `floor`.
///
/// # Errors
/// The files can't be read or written.
pub fn merge(shared: &DiskShared, floor: u64) -> Result<(), DiskError> {
    let (finished, floor) = {
        // Both at once: otherwise a file that has just been begun could be taken for a finished one.
        let (purges, files) = (lock(&shared.purges), lock(&shared.files));
        let writing = purges.writing();
        let finished: Vec<_> =
            files.purges.iter().filter(|file| Some(file.number) != writing).copied().collect();
        (finished, files.segments.front().map_or(floor, |segment| segment.floor))
    };
    let Some((last, others)) = finished.split_last().filter(|_| finished.len() >= MANY) else {
        return Ok(());
    };
    let history = read(shared, &finished)?;
    let head = FileHead { holds: Holds::Purges, number: last.number, seed: random(), floor };
    let mut contents = head.bytes().to_vec();
    for purged in history.purges(floor) {
        put_purge(&mut contents, head.seed, purged.stamp, &purged.what, purged.how);
    }
    let bytes = contents.len() as u64;
    shared.folder.replace(&shared.folder.purges(last.number), &contents).map_err(DiskError::NotMerged)?;
    let mut files = lock(&shared.files);
    others.iter().for_each(|file| drop(fs::remove_file(shared.folder.purges(file.number))));
    files.purges.retain(|file| !others.contains(file));
    files.purges.iter_mut().filter(|file| file.number == last.number).for_each(|file| file.bytes = bytes);
    Ok(())
}

/// A unique number for a file.
pub fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}
