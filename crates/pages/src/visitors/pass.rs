//! The pass of a visitor with a cart: permission to have public pages, on which the browser puts the cart.
//!
//! A run of PHP gives it, for the session cookie that proves the cart, if nothing but the cart distinguishes the
//! visitor from an anonymous one: no notice waits, prices, taxes and currency are everybody's. It is valid
//!
//! - until the session's cookie must be renewed, and at most for a set time;
//! - only together with its *companions*: the other cookies as this run expects them, such as the cart's hash. After
//!   a response that was lost, they differ;
//! - until a request begins that may change something, or any run ends that reports something else or nothing. Only
//!   a run during which no other one reported, and no changing one was in progress, gives a new pass.

use std::sync::Arc;

use super::cookies::Print;
use crate::Millis;

/// A pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Until when it is valid.
    pub until: Millis,
    /// Cookies that must come with the proving one.
    pub companions: Box<[Print]>,
    /// Tags of the pages of the products in the cart.
    pub items: Box<[Box<[u8]>]>,
    /// The visitor has given an address; no price depends on it.
    pub has_address: bool,
}

/// Why a visitor with a cart gets pages from PHP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CartHold {
    /// PHP has not said anything about it lately.
    Unknown,
    /// A request that may change the cart is in progress, or was while the last page was made.
    Changing,
    /// The browser's cookies are from before the last change, or incomplete.
    Changed,
    /// The session's cookie must be renewed, or PHP has not looked at the cart for a while.
    Expired,
    /// A notice waits.
    Notice,
    /// The visitor's address, taxes, currency or language differ.
    Customer,
    /// Something else is in the session.
    Session,
    /// There is another cookie of its own.
    Cookie,
    /// There is no such page in the cache, or it is stale.
    Page,
    /// Too few pages of this kind were compared.
    Unproven,
    /// This kind of page differs for visitors with a cart.
    Differs,
    /// The page's script has read the cart, or the worker can't tell.
    Reads,
    /// It asks for a part of the page.
    Range,
}

impl CartHold {
    /// For `Cache-Status` and counters. Stable.
    pub fn word(self) -> &'static str {
        match self {
            CartHold::Unknown => "cart-unknown",
            CartHold::Changing => "cart-changing",
            CartHold::Changed => "cart-changed",
            CartHold::Expired => "cart-expired",
            CartHold::Notice => "cart-notice",
            CartHold::Customer => "cart-customer",
            CartHold::Session => "cart-session",
            CartHold::Cookie => "cart-cookie",
            CartHold::Page => "cart-page",
            CartHold::Unproven => "cart-unproven",
            CartHold::Differs => "cart-differs",
            CartHold::Reads => "cart-reads",
            CartHold::Range => "cart-range",
        }
    }

    /// As PHP reports it.
    pub(super) fn of(word: &[u8]) -> CartHold {
        match word {
            b"notice" => CartHold::Notice,
            b"customer" => CartHold::Customer,
            b"session" => CartHold::Session,
            b"expired" => CartHold::Expired,
            _ => CartHold::Unknown,
        }
    }
}

/// What is known of a visitor with a proven cart or login: `P` is a pass, `H` why there is none.
#[derive(Clone, Debug)]
pub enum PassState<P, H> {
    /// Gets pages from the cache.
    Passes(Arc<P>),
    /// Gets pages from PHP.
    Held(H),
}

/// What is known of a visitor with a proven cart.
pub type CartState = PassState<Pass, CartHold>;

impl CartState {
    /// Whether both say the same, but for the time.
    pub(super) fn agrees(&self, other: &CartState) -> bool {
        match (self, other) {
            (CartState::Passes(one), CartState::Passes(other)) => {
                one.companions == other.companions
                    && one.items == other.items
                    && one.has_address == other.has_address
            }
            (CartState::Held(one), CartState::Held(other)) => one == other,
            _ => false,
        }
    }
}

/// A page that PHP has made for a visitor with a pass: it may be compared with the public one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CartPage {
    /// As in [`Pass`].
    pub has_address: bool,
    /// The tag that a public page of this kind has.
    pub kind: Box<[u8]>,
    /// Selectors of the elements that the browser fills.
    pub blanks: Vec<String>,
    /// Tags of the pages of the products in the cart.
    pub items: Box<[Box<[u8]>]>,
    /// Nothing of the cart was read for it.
    pub is_unread: bool,
    /// The cookie that proves the cart.
    pub visitor: Print,
}
