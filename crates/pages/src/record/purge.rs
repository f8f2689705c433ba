//! A purge.

use super::bytes::{Malformed, Reader, put_bytes, put_maybe, put_u64};
use super::frame::{self, Kind};
use crate::{Hardness, Purge, Tag};

/// A purge that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purged {
    /// Higher than the stamps of all earlier purges.
    pub stamp: u64,
    /// Its target.
    pub what: Purge,
    /// Its hardness.
    pub how: Hardness,
}

/// Appends the record of a purge.
pub fn put_purge(out: &mut Vec<u8>, seed: u64, stamp: u64, what: &Purge, how: Hardness) {
    frame::put(out, Kind::Purge, seed, |out| {
        put_u64(out, stamp);
        out.push(match how {
            Hardness::Soft => 0,
            Hardness::Hard => 1,
        });
        match what {
            Purge::Everything => out.push(0),
            Purge::Tag(tag) => {
                out.push(1);
                put_u64(out, tag.0);
            }
            Purge::Prefix { site, host, path } => {
                out.push(2);
                put_bytes(out, site.as_bytes());
                put_maybe(out, host.as_deref().map(str::as_bytes));
                put_bytes(out, path);
            }
        }
    });
}

impl Purged {
    /// Reads a payload.
    ///
    /// # Errors
    /// It is not the payload of a purge.
    pub fn read(payload: &[u8]) -> Result<Purged, Malformed> {
        let mut reader = Reader(payload);
        let stamp = reader.u64()?;
        let how = if reader.flag()? { Hardness::Hard } else { Hardness::Soft };
        let what = match reader.u8()? {
            0 => Purge::Everything,
            1 => Purge::Tag(Tag(reader.u64()?)),
            2 => Purge::Prefix {
                site: reader.text()?.into(),
                host: reader.maybe_text()?.map(Box::from),
                path: reader.bytes()?.into(),
            },
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok(Purged { stamp, what, how })
    }
}
