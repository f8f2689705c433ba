//! The list of files. Both lists are in the order of the files' numbers: the oldest first.

use std::collections::VecDeque;

/// A file with entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The number in its name.
    pub number: u64,
    /// Its size, bytes.
    pub bytes: u64,
    /// Lower bound of its entries' stamps. 0: not known yet.
    pub floor: u64,
}

/// A file with purges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeFile {
    /// The number in its name.
    pub number: u64,
    /// Its size, bytes.
    pub bytes: u64,
}

/// All files in the folder.
#[derive(Debug, Default)]
pub struct Files {
    /// The next file's number.
    pub next: u64,
    /// Segments; the last one may be the one being written.
    pub segments: VecDeque<Segment>,
    /// Files of purges; the last one may be the one being written.
    pub purges: VecDeque<PurgeFile>,
}

impl Files {
    /// A number for a new file.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Size of all files, bytes.
    pub fn bytes(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
        segments + self.purge_bytes()
    }

    /// Size of the files with purges, bytes.
    pub fn purge_bytes(&self) -> u64 {
        self.purges.iter().map(|file| file.bytes).sum()
    }

    /// The segment with this number.
    pub fn segment(&mut self, number: u64) -> Option<&mut Segment> {
        self.segments.iter_mut().find(|segment| segment.number == number)
    }

    /// Removes a segment from the list.
    pub fn forget(&mut self, number: u64) {
        self.segments.retain(|segment| segment.number != number);
    }
}
