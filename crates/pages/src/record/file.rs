//! The files of records: a head, then the records in sequence.
//!
//! ```text
//!  0  8  "millrace"
//!  8  4  schema
//! 12  4  what it holds
//! 16  8  number
//! 24  8  seed of the checksums of its records
//! 32  8  floor
//! 40  8  which program wrote it
//! 48  8  zero
//! 56  8  checksum of the bytes before it
//! 64     records
//! ```

use twox_hash::XxHash3_64;

use super::frame::{Broken, HEAD, Head, Kind};
use super::purge::Purged;

/// Bytes before the first record.
pub const FILE_HEAD: usize = 64;

/// Version of the payloads and the forms in them. Each change of either needs a new number; so does one of what a
/// page's terms must say: pages of before don't say which fields of the request they depend on.
const SCHEMA: u32 = 4;
const MAGIC: &[u8; 8] = b"millrace";
/// The program that made the forms ready to send; another version may make them differently.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// The contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Entries.
    Entries = 1,
    /// Purges.
    Purges = 2,
}

/// The head of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHead {
    /// What it holds.
    pub holds: Holds,
    /// Its number, as in its name.
    pub number: u64,
    /// Seed of its records' checksums, unique to the file.
    pub seed: u64,
    /// Lower bound of its entries' stamps; all purges in it have higher ones.
    pub floor: u64,
}

impl FileHead {
    /// The bytes.
    pub fn bytes(&self) -> [u8; FILE_HEAD] {
        let mut bytes = [0; FILE_HEAD];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&SCHEMA.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.holds as u32).to_le_bytes());
        for (at, number) in [(16, self.number), (24, self.seed), (32, self.floor), (40, program())] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let sum = XxHash3_64::oneshot(&bytes[..FILE_HEAD - 8]);
        bytes[FILE_HEAD - 8..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the head at the start of a file. `None`: there is none, or one of another program or schema.
    pub fn read(bytes: &[u8]) -> Option<FileHead> {
        let bytes: &[u8; FILE_HEAD] = bytes.first_chunk()?;
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let holds = match bytes[12] {
            1 => Holds::Entries,
            2 => Holds::Purges,
            _ => return None,
        };
        let head = FileHead { holds, number: number(16), seed: number(24), floor: number(32) };
        // Any difference means that this program has not written it.
        (head.bytes() == *bytes).then_some(head)
    }
}

/// Identifies the program that made the forms.
fn program() -> u64 {
    XxHash3_64::oneshot(PROGRAM.as_bytes())
}

/// All purges in a file, from its first byte on. A torn end is ignored: that purge was never confirmed.
///
/// # Errors
/// There is something else, so purges may be missing.
pub fn read_purges(file: &[u8]) -> Result<Vec<Purged>, Broken> {
    if file.len() < FILE_HEAD {
        // Its first purge was never written.
        return Ok(Vec::new());
    }
    let head = FileHead::read(file).filter(|head| head.holds == Holds::Purges).ok_or(Broken::Damaged)?;
    let mut rest = &file[FILE_HEAD..];
    let mut purges = Vec::new();
    while !rest.is_empty() {
        match read_purge(rest, head.seed) {
            Ok((purged, after)) => {
                purges.push(purged);
                rest = after;
            }
            Err(Broken::Torn) => break,
            Err(Broken::Damaged) => return Err(Broken::Damaged),
        }
    }
    Ok(purges)
}

fn read_purge(bytes: &[u8], seed: u64) -> Result<(Purged, &[u8]), Broken> {
    let head = Head::read(bytes, seed, usize::MAX)?;
    let payload = head.payload(&bytes[HEAD..], seed)?;
    if head.kind != Kind::Purge {
        return Err(Broken::Damaged);
    }
    let purged = Purged::read(payload).map_err(|_| Broken::Damaged)?;
    Ok((purged, &bytes[HEAD + head.length..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::put_purge;
    use crate::{Hardness, Purge, Tag};

    const FILE: FileHead = FileHead { holds: Holds::Purges, number: 3, seed: 9, floor: 5 };

    fn file(tags: u64) -> Vec<u8> {
        let mut file = FILE.bytes().to_vec();
        for tag in 1..=tags {
            put_purge(&mut file, FILE.seed, 5 + tag, &Purge::Tag(Tag(tag)), Hardness::Soft);
        }
        file
    }

    #[test]
    fn a_head_comes_back_and_no_changed_one_does() {
        let bytes = FILE.bytes();
        assert_eq!(FileHead::read(&bytes), Some(FILE));
        for bit in 0..FILE_HEAD * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileHead::read(&changed), None, "{bit}");
        }
        assert_eq!(FileHead::read(&bytes[..FILE_HEAD - 1]), None);
    }

    #[test]
    fn a_torn_end_costs_what_was_not_written() {
        let whole = file(3);
        let record = (whole.len() - FILE_HEAD) / 3;
        for end in FILE_HEAD..=whole.len() {
            let purges = read_purges(&whole[..end]).unwrap();
            assert_eq!(purges.len(), (end - FILE_HEAD) / record);
        }
        assert_eq!(read_purges(&whole[..FILE_HEAD - 1]), Ok(Vec::new()));
    }

    #[test]
    fn a_change_anywhere_is_found() {
        let whole = file(3);
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_purges(&changed), Err(Broken::Damaged), "{bit}");
        }
    }
}
