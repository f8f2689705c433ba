//! The fills that run: one a page, or one for each variant once it is known what the page varies by.

use std::sync::Arc;

use hashbrown::HashTable;

use super::heap;
use crate::Key;

/// Names of the request fields that a page varies by.
pub(super) type Vary = Arc<[Box<str>]>;

/// What a request asks for of a page that is known to have variants.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    /// Names of the fields that the values are of; shared with the fork.
    pub(super) vary: Vary,
    pub(super) values: Box<[u8]>,
}

impl Variant {
    pub(super) fn is(&self, vary: &Vary, values: &[u8]) -> bool {
        self.vary == *vary && *self.values == *values
    }
}

/// The running fills of a shard.
pub(super) struct Fills<F> {
    table: HashTable<Fill<F>>,
    /// What their keys and variants take.
    owned: usize,
}

struct Fill<F> {
    key: Box<[u8]>,
    hash: u64,
    variant: Option<Variant>,
    number: u64,
    begun: u64,
    handle: F,
}

impl<F> Default for Fills<F> {
    fn default() -> Self {
        Fills { table: HashTable::new(), owned: 0 }
    }
}

impl<F: Clone> Fills<F> {
    /// Adds a fill.
    pub(super) fn add(&mut self, key: Key<'_>, variant: Option<Variant>, number: u64, begun: u64, handle: F) {
        let fill = Fill { key: key.bytes.into(), hash: key.hash, variant, number, begun, handle };
        self.owned += fill.owned();
        self.table.insert_unique(key.hash, fill, |fill| fill.hash);
    }

    /// The fill for a page, or for the variant of fields `vary` with values `values`, that began after the last purge.
    pub(super) fn find(&self, key: Key<'_>, variant: Option<(&Vary, &[u8])>, last: u64) -> Option<F> {
        let fits = |fill: &Fill<F>| {
            let same = match (&fill.variant, variant) {
                (None, None) => true,
                (Some(its), Some((vary, values))) => its.is(vary, values),
                _ => false,
            };
            same && fill.begun >= last && *fill.key == *key.bytes
        };
        self.table.find(key.hash, fits).map(|fill| fill.handle.clone())
    }

    /// Removes a fill.
    pub(super) fn remove(&mut self, hash: u64, number: u64) {
        if let Ok(entry) = self.table.find_entry(hash, |fill| fill.number == number) {
            let (fill, _) = entry.remove();
            self.owned -= fill.owned();
        }
    }

    /// How many run.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.table.allocation_size() + self.owned
    }
}

impl<F> Fill<F> {
    fn owned(&self) -> usize {
        heap(self.key.len()) + self.variant.as_ref().map_or(0, |variant| heap(variant.values.len()))
    }
}
