//! What a run of PHP says of the visitor it runs for.

use std::fmt;

/// A run of PHP for a request, as far as its visitor is concerned. Dropped, it is over.
pub trait Visit: fmt::Debug + Send + Sync {
    /// The script or its worker says something of the visitor.
    fn hear(&self, text: &[u8]);

    /// No PHP runs for it any more, and it has said nothing.
    fn is_over(&self);
}
