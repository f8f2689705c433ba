//! Public pages for visitors with a cart: which pages are the same for them.
//!
//! A public page shows no cart. A visitor with a cart may have it only if PHP would have made the same page for that
//! visitor, but for the elements that the page's own script in the browser fills with the cart. Two things must be known:
//!
//! - **The script has not read the cart.** The PHP worker observes whether the page's script reads what WooCommerce knows about a visitor
//!   (`php/c/carts`). If the worker says that it has not, the page gets the tag [`unread`]. Visitors with a cart never get a page without this
//!   tag: a run that the worker can't observe counts as one that reads.
//! - **It was the same.** Nothing is guessed from names: each page that PHP makes for such a visitor is compared with the stored public page
//!   ([`is_same`]), and [`Proofs`] counts the results for each *kind* of page. PHP's hooks name the kind, by template, theme, plugins and
//!   what a page is composed of, and the public page carries it as a tag.
//!
//! ```text
//!   no result yet ── AGREED times the same ──> Proven ──┐
//!        └───────────────── a difference ──> Differs <──┘     for DOUBT, and twice as long each further time
//! ```
//!
//! Pages that show a product of the visitor's cart are proven separately, and so are pages for visitors with an address ([`PageView`]).

mod compare;
mod interactive;
mod proofs;

use crate::Tag;

pub use compare::{is_same, without_times};
pub use proofs::{AGREED, DOUBT, PageProof, PageView, Proofs};

/// What the worker says if the page's script has not read the cart.
pub const UNREAD: &[u8] = b"-";

/// The tag of such a page. Scripts can't say it: none of their tags begins with a slash.
pub fn unread(site: &str) -> Tag {
    Tag::named(site, b"/cart-unread")
}
