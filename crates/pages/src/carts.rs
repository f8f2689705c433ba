//! Public pages for visitors with a cart: which pages are the same for them.
//!
//! A public page shows no cart. A visitor with a cart may have it only if PHP would have made the same page for that
//! visitor, but for the elements that the page's own script in the browser fills with the cart. Two things must be known:
//!
//! - **The script has not read the cart.** The PHP worker observes whether the page's script reads what WooCommerce knows about a visitor
//!   (`php/c/carts`). If the worker says that it has not, the page gets the tag [`unread`]. Visitors with a cart never get a page without this
//!   tag: a run that the worker can't observe counts as one that reads.
//! - **It was the same.** Nothing is guessed from names: each page that PHP makes for such a visitor is compared with the stored public page
//!   ([`compare()`]), and [`Proofs`] counts the results for each *kind* of page. PHP's hooks name the kind, by template, theme, plugins and
//!   what a page is composed of, and the public page carries it as a tag.
//!
//! ```text
//!   html ──> tokens of a page, as a browser has them
//!     └──> compare, interactive: without what the browser fills in ── the same ──> Proofs ── AGREED times ──> Proven
//!              │                                                        ^
//!              ├─ if the browser fetches the cart: fetches ─────────────┤
//!              └─ different: is it noise? The public page is made again ┘ no: the page differs for DOUBT, and with
//!                 (public_pages, noise)                                        DIFFERENT_PAGES of them the kind
//! ```
//!
//! Pages that show a product of the visitor's cart are proven separately, and so are pages for visitors with an address ([`PageView`]).

mod compare;
mod difference;
mod fetches;
mod html;
mod interactive;
mod noise;
mod proofs;
mod public_pages;

use crate::Tag;

pub use compare::{Lens, Sameness, compare, pieces, without_times};
pub use difference::first_difference;
pub use fetches::Fetches;
pub use html::Text;
pub use proofs::{AGREED, DIFFERENT_PAGES, DOUBT, MOST_UNSURE, PageProof, PageView, Proofs, ProvenPage};
pub use public_pages::{ComparedPage, Finding, KnownNoise, PublicPages};

/// What the worker says if the page's script has not read the cart.
pub const UNREAD: &[u8] = b"-";

/// The tag of such a page. Scripts can't say it: none of their tags begins with a slash.
pub fn unread(site: &str) -> Tag {
    Tag::named(site, b"/cart-unread")
}
