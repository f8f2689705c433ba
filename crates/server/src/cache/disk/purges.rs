//! The files of purges: written by whoever purges, merged by the writer.

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

/// Room that a new file takes at once, so that there is some when the disk is full.
const RESERVED: u64 = 64 << 10;
/// As many finished files are merged into one.
const MANY: usize = 4;

/// Where purges stand. Whoever holds the lock writes.
#[derive(Debug)]
pub struct DiskPurges {
    /// Of the last purge.
    last: u64,
    /// Purges that are written and not in force yet.
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
    /// No purge yet; the first one gets a stamp above this.
    pub fn new(stamp: u64) -> DiskPurges {
        DiskPurges { last: stamp, under_way: Vec::new(), current: None }
    }

    /// The number of the file that is being written.
    fn writing(&self) -> Option<u64> {
        self.current.as_ref().map(|current| current.number)
    }

    /// Below the stamps of all purges that are not in force yet.
    fn settled(&self) -> u64 {
        self.under_way.iter().min().map_or(self.last, |lowest| lowest - 1)
    }
}

/// Writes purges. They are under way until what this returns is dropped.
pub fn begin<'a>(shared: &'a DiskShared, purges: &[(Purge, Hardness)]) -> UnderWay<'a> {
    let mut log = lock(&shared.purges);
    let first = log.last + 1;
    log.last += purges.len() as u64;
    log.under_way.push(first);
    shared.settled.store(log.settled(), Ordering::Release);
    if let Err(error) = append(shared, &mut log, first, purges) {
        // Part of a record may be there. It is the last of its file.
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

/// Writes by one call. The file is opened each time: a descriptor may mean nothing in another thread.
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
        // Not every file system can; then it has to do without.
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

/// A purge can't be written. What it may concern must not come back, so nothing does.
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

/// Purges of earlier processes that the loader found when it read these files.
///
/// # Errors
/// A file can't be read, or something in it was changed: purges may be missing.
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

/// Makes one file of many, with those purges that still concern an entry. Called by the writer, when the loader is done;
/// segments to come have no entries below `floor`.
///
/// # Errors
/// They can't be read or written.
pub fn merge(shared: &DiskShared, floor: u64) -> Result<(), DiskError> {
    let (finished, floor) = {
        // Both at once, or one that has just been begun could be taken for a finished one.
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

/// A number that no other file has.
pub fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}
