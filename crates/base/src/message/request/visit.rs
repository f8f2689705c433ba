//! What a run of PHP reports about its visitor.

use std::fmt;
use std::time::Instant;

use millrace_pages::Millis;
use millrace_pages::visitors::{CartPage, MemberPage};

/// A page that PHP has made for a visitor whom the page cache may serve, too.
#[derive(Clone, Debug)]
pub enum VisitorPage {
    /// For a visitor with a cart: it may be compared with the public one.
    Cart(CartPage),
    /// For a member: it may be compared with one that was made for another, or stored.
    Member(MemberPage),
}

/// A run of PHP for a request, as far as its visitor is concerned. Dropping it ends it.
pub trait Visit: fmt::Debug + Send + Sync {
    /// The script or its worker reports about the visitor.
    fn hear(&self, text: &[u8]);

    /// No PHP runs for it any more, and it has reported nothing.
    fn is_over(&self);

    /// The page that it has made, if there is more to do with it, and the milliseconds since it began.
    fn page(&self, now: Instant) -> Option<(VisitorPage, Millis)>;
}
