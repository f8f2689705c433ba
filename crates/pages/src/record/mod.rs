//! Pages and purges as bytes for the disk, and back.
//!
//! ```text
//!  record = head (length, kind, checksums: frame) + payload
//!  payload of an entry: stamp, origin, key, variant, terms, page with the codings that exist
//!  payload of a purge:  stamp, hardness, what
//! ```
//!
//! A record that is torn, truncated or changed in any bit is always detected. The meaning of a record depends on its
//! *stamp*, a number that rises with every purge and across restarts of the server: an entry whose fill began at
//! stamp `s` is covered by every purge with a higher stamp ([`History`]).
//!
//! The files say which program wrote them ([`FileHead`]): forms that another program version has made are not sent.

mod bytes;
mod entry;
mod file;
mod frame;
mod history;
mod purge;

pub use bytes::Malformed;
pub use entry::{NewEntry, StoredEntry};
pub use file::{FILE_HEAD, FileHead, Holds, read_purges};
pub use frame::{Broken, HEAD, Head, Kind};
pub use history::{History, PurgeState};
pub use purge::{Purged, put_purge};

/// A number for a text or a key, the same in every process.
pub fn fingerprint(bytes: &[u8], seed: u64) -> u64 {
    twox_hash::XxHash3_64::oneshot_with_seed(seed, bytes)
}

#[cfg(test)]
mod tests;
