//! The envelope of a record: length, kind, and two checksums. All numbers are little-endian.
//!
//! ```text
//!  0  4  "mr" and the version of the envelope
//!  4  1  kind
//!  5  3  zero
//!  8  8  bytes of the payload
//! 16  8  checksum of the payload
//! 24  8  checksum of the 24 bytes before it
//! 32     the payload
//! ```
//!
//! The head has its own checksum, so that a wrong length is never believed: a reader can distinguish a record that
//! ends too early ([`Broken::Torn`], the writer died) from one that was changed ([`Broken::Damaged`]). Both checksums
//! are seeded with a number of the file, so that a leftover record of another file on the disk is never taken for one
//! of this file.

use twox_hash::XxHash3_64;

/// Bytes before the payload.
pub const HEAD: usize = 32;

const MAGIC: [u8; 4] = *b"mr\0\x01";

/// The type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A page with all that the store knows about it.
    Entry = 1,
    /// A purge.
    Purge = 2,
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// They end within the record: its writer was interrupted, and the record was never confirmed.
    Torn,
    /// They differ from what was written.
    Damaged,
}

/// The checked head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The type of the payload.
    pub kind: Kind,
    /// Bytes of the payload.
    pub length: usize,
    sum: u64,
}

impl Head {
    /// Reads the head at the beginning of `bytes`. Payloads are at most `most` bytes.
    ///
    /// # Errors
    /// It is incomplete, or was not written with this `seed`.
    pub fn read(bytes: &[u8], seed: u64, most: usize) -> Result<Head, Broken> {
        let head = bytes.first_chunk::<HEAD>().ok_or(Broken::Torn)?;
        if head[..4] != MAGIC || number(head, 24) != XxHash3_64::oneshot_with_seed(seed, &head[..24]) {
            return Err(Broken::Damaged);
        }
        let kind = match head[4..8] {
            [1, 0, 0, 0] => Kind::Entry,
            [2, 0, 0, 0] => Kind::Purge,
            _ => return Err(Broken::Damaged),
        };
        let length = usize::try_from(number(head, 8)).map_err(|_| Broken::Damaged)?;
        if length > most {
            return Err(Broken::Damaged);
        }
        Ok(Head { kind, length, sum: number(head, 16) })
    }

    /// The payload, from the bytes after the head.
    ///
    /// # Errors
    /// It is incomplete or damaged.
    pub fn payload<'a>(&self, bytes: &'a [u8], seed: u64) -> Result<&'a [u8], Broken> {
        let payload = bytes.get(..self.length).ok_or(Broken::Torn)?;
        if XxHash3_64::oneshot_with_seed(seed, payload) != self.sum {
            return Err(Broken::Damaged);
        }
        Ok(payload)
    }
}

/// Appends a record; `fill` appends its payload.
pub fn put(out: &mut Vec<u8>, kind: Kind, seed: u64, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.resize(start + HEAD, 0);
    fill(out);
    let (head, payload) = out[start..].split_at_mut(HEAD);
    head[..4].copy_from_slice(&MAGIC);
    head[4] = kind as u8;
    head[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    head[16..24].copy_from_slice(&XxHash3_64::oneshot_with_seed(seed, payload).to_le_bytes());
    let sum = XxHash3_64::oneshot_with_seed(seed, &head[..24]);
    head[24..].copy_from_slice(&sum.to_le_bytes());
}

fn number(head: &[u8; HEAD], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&head[at..at + 8]);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 7;
    const MOST: usize = 1_000;

    fn record(payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, Kind::Entry, SEED, |out| out.extend_from_slice(payload));
        out
    }

    fn read(bytes: &[u8], seed: u64) -> Result<&[u8], Broken> {
        let head = Head::read(bytes, seed, MOST)?;
        head.payload(&bytes[HEAD..], seed)
    }

    #[test]
    fn gives_back_what_was_written() {
        for length in [0, 1, 31, 32, 1_000] {
            let payload: Vec<u8> = (0..length).map(|i| i as u8).collect();
            assert_eq!(read(&record(&payload), SEED), Ok(&payload[..]));
        }
    }

    #[test]
    fn torn_at_any_byte() {
        let whole = record(b"a payload");
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end], SEED), Err(Broken::Torn), "{end}");
        }
    }

    #[test]
    fn no_flipped_bit_goes_unseen() {
        let whole = record(b"a payload that is longer than the head of its record");
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&changed, SEED), Err(Broken::Damaged), "{bit}");
        }
    }

    #[test]
    fn a_record_of_another_file_is_none_of_this() {
        assert_eq!(read(&record(b"a payload"), SEED + 1), Err(Broken::Damaged));
    }

    #[test]
    fn a_length_has_its_limit() {
        assert_eq!(read(&record(&[0; MOST + 1]), SEED), Err(Broken::Damaged));
    }
}
