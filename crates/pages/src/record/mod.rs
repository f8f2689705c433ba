//! Pages and purges as bytes for the disk, and back.
//!
//! ```text
//!  record = head (length, kind, checksums: frame) + payload
//!  payload of an entry: stamp, origin, key, variant, terms, page with the codings that exist
//!  payload of a purge:  stamp, hardness, what
//! ```
//!
//! A record that is torn, cut or changed in any bit is never taken for a right one. What a record means depends on its
//! *stamp*, a number that grows with every purge and is carried on from one start of the server to the next: an entry
//! whose fill began at stamp `s` is covered by every purge of a higher stamp ([`History`]).
//!
//! Records have a version in their heads, and files that hold them the [`SCHEMA`]: a form that another program has made
//! ready to send is not ours to send.

mod bytes;
mod entry;
mod frame;
mod history;
mod purge;

pub use bytes::Malformed;
pub use entry::{Entry, Stored};
pub use frame::{Broken, HEAD, Head, Kind};
pub use history::{History, State};
pub use purge::{Purged, put_purge};

/// What the payloads look like, and the forms in them. A new number whenever one of them changes.
pub const SCHEMA: u32 = 1;

#[cfg(test)]
mod tests;
