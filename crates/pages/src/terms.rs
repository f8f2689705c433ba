//! How long a page may be used, for which requests, and its tags.

use crate::page::ARC;
use crate::store::heap;
use crate::{Millis, Tag};

/// Maximum number of tags of a page.
pub const MOST_TAGS: usize = 256;

/// What was decided when a page was stored or validated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Freshness lifetime (RFC 9111 section 4.2.1).
    pub ttl: Millis,
    /// Age on arrival: the `Age` field, apparent age (RFC 9111 section 4.2.3).
    pub age: Millis,
    /// How long after `ttl` it may be used during a fill (RFC 5861 section 3).
    pub stale_while_revalidate: Millis,
    /// How long after `ttl` it may be used if the application fails or is overloaded (RFC 5861 section 4).
    pub stale_if_error: Millis,
    /// It is stored, but validated each time.
    pub no_cache: bool,
    /// It is never used when stale.
    pub must_revalidate: bool,
    /// Names of the request fields on which it depends, in lower case, without accept-encoding; empty: one variant.
    pub vary: Box<[Box<str>]>,
    /// Implicit and named, without duplicates; at most [`MOST_TAGS`].
    pub tags: Box<[Tag]>,
}

impl Terms {
    /// All memory that they own, including themselves in an `Arc`, bytes.
    pub fn bytes(&self) -> usize {
        heap(ARC + size_of::<Terms>())
            + heap(size_of_val(&*self.vary))
            + self.vary.iter().map(|name| heap(name.len())).sum::<usize>()
            + heap(size_of_val(&*self.tags))
    }
}
