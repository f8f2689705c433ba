//! The running fills: one per page, or one per variant once it is known by which fields the page varies.

use std::sync::Arc;

use hashbrown::HashTable;

use super::heap;
use crate::Key;

/// Names of the request fields by which a page varies.
pub(super) type Vary = Arc<[Box<str>]>;

/// The variant of a page with known variants that a request asks for.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    /// Names of the values' fields; shared with the fork.
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
    /// Memory of their keys and variants.
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

    /// The fill for a page, or for the variant with these values of the fields `vary`, that began after the last
    /// purge.
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

    /// Number of running fills.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.table.allocation_size() + self.owned
    }
}

impl<F> Fill<F> {
    fn owned(&self) -> usize {
        heap(self.key.len()) + self.variant.as_ref().map_or(0, |variant| heap(variant.values.len()))
    }
}
