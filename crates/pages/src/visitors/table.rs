//! What PHP has found out about the visitors of a site, shared by event loops. Each part is behind a mutex, which is held for some lookups.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use super::{Limits, PrintKey, Visitors};
use crate::carts::Proofs;
use crate::members::MadePages;
use crate::places::Places;

/// What is known about them; it outlives a reload.
#[derive(Debug)]
pub struct VisitorTable {
    /// Digests of cookies are made with it.
    pub key: PrintKey,
    /// Start of its times.
    epoch: OnceLock<Instant>,
    known: Mutex<Visitors>,
    /// Which kinds of pages are the same for visitors with a cart, and for members with the same rights.
    proofs: Mutex<Proofs>,
    /// Which member each stored page was first made for.
    made: Mutex<MadePages>,
    /// In which countries addresses are.
    places: Mutex<Places>,
}

impl VisitorTable {
    /// Nothing is known.
    pub fn new(limits: Limits) -> Arc<VisitorTable> {
        Arc::new(VisitorTable {
            key: PrintKey::default(),
            epoch: OnceLock::new(),
            known: Mutex::new(Visitors::new(limits)),
            proofs: Mutex::default(),
            made: Mutex::default(),
            places: Mutex::default(),
        })
    }

    /// What is known about cookies.
    pub fn lock(&self) -> MutexGuard<'_, Visitors> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comparisons have shown.
    pub fn proofs(&self) -> MutexGuard<'_, Proofs> {
        self.proofs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which member each stored page was first made for.
    pub fn made(&self) -> MutexGuard<'_, MadePages> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In which countries addresses are.
    pub fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A time on the table's clock, milliseconds.
    pub fn time(&self, now: Instant) -> u64 {
        let epoch = *self.epoch.get_or_init(|| now);
        now.saturating_duration_since(epoch).as_millis() as u64
    }
}

/// Hears what PHP writes to a site's database, and ends passes of members.
#[derive(Clone, Debug)]
pub struct MemberRows(Arc<VisitorTable>);

impl MemberRows {
    /// Those of this table.
    pub fn of(table: &Arc<VisitorTable>) -> MemberRows {
        MemberRows(table.clone())
    }

    /// Rows are being written, or were: `user-5`, `user-*`, `option-NAME`, separated by commas (`php/inject/wordpress/written.php`).
    pub fn written(&self, items: &[u8]) {
        for item in items.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if let Some(user) = item.strip_prefix(b"user-") {
                self.0.lock().void(self.0.key.tag(user));
            } else if item == b"option-*" || item.starts_with(b"option-") && item.ends_with(b"user_roles") {
                self.0.lock().void(0);
            }
        }
    }
}
