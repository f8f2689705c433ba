//! Which files there are. Both lists are in the order of their numbers: the oldest first.

use std::collections::VecDeque;

/// A file with entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// In its name.
    pub number: u64,
    /// Its size.
    pub bytes: u64,
    /// No entry in it has a lower stamp. 0: not known yet.
    pub floor: u64,
}

/// A file with purges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeFile {
    /// In its name.
    pub number: u64,
    /// Its size.
    pub bytes: u64,
}

/// All files in the folder.
#[derive(Debug, Default)]
pub struct Files {
    /// The next file's number.
    pub next: u64,
    /// With entries; the last one may be the one that is being written.
    pub segments: VecDeque<Segment>,
    /// With purges; the last one may be the one that is being written.
    pub purges: VecDeque<PurgeFile>,
}

impl Files {
    /// A number for a new file.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Size of all files.
    pub fn bytes(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
        segments + self.purge_bytes()
    }

    /// Size of the files with purges.
    pub fn purge_bytes(&self) -> u64 {
        self.purges.iter().map(|file| file.bytes).sum()
    }

    /// The segment of that number.
    pub fn segment(&mut self, number: u64) -> Option<&mut Segment> {
        self.segments.iter_mut().find(|segment| segment.number == number)
    }

    /// Removes a segment from the list.
    pub fn forget(&mut self, number: u64) {
        self.segments.retain(|segment| segment.number != number);
    }
}
