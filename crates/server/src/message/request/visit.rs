//! What a run of PHP reports about its visitor.

use std::fmt;
use std::time::Instant;

use millrace_pages::Millis;
use millrace_pages::visitors::CartPage;

/// A run of PHP for a request, as far as its visitor is concerned. Dropping it ends it.
pub trait Visit: fmt::Debug + Send + Sync {
    /// The script or its worker reports about the visitor.
    fn hear(&self, text: &[u8]);

    /// No PHP runs for it any more, and it has reported nothing.
    fn is_over(&self);

    /// The page that it has made for a visitor with a cart, if that may be compared with the public one, and the
    /// milliseconds since it began.
    fn cart_page(&self, now: Instant) -> Option<(CartPage, Millis)>;
}
