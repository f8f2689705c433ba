//! Visitors with cookies of their own who may have stored pages all the same: those with a cart get public pages, members get pages that
//! PHP has made for others with the same rights. What PHP makes for them is compared, and decides who may have what.
//!
//! ```text
//!   cache ── cookies keep a request from it ──> admit: who is it? ──> cart, member: may this visitor have the page? the response from it
//!   PHP's response for such a visitor ──> watch: at its end ──> cart: is it the public page?  different ──> recheck: noise?
//!                                                         └──> member: is it the page of the others? the first one is stored
//! ```
//!
//! - [`cart`], [`member`]: the two kinds of visitors, each an [`Audience`] of the cache;
//! - [`watch()`]: a response on its way;
//! - [`recheck`]: has the public page made again, to see whether a difference is noise.
//!
//! The rules and their reasons are in `millrace_pages::carts` and `millrace_pages::members`.

mod cart;
mod member;
mod recheck;
#[cfg(test)]
mod tests;
mod watch;

use millrace_pages::{Key, PeekEntry, PeekPage};

pub use watch::watch;

use crate::cache::{Admission, CacheThread, Preview};
use millrace_base::message::Request;
use millrace_base::site::Site;
use millrace_base::site::visitors::{CachePermit, VisitorPass};

#[cfg(doc)]
use crate::cache::Audience;

/// Who a request is whose cookies keep it from the cache.
pub fn admit(thread: &CacheThread, site: &Site, request: &Request) -> Admission {
    match site.visitors.permit(&thread.context, request) {
        CachePermit::Anonymous => Admission::Anybody,
        CachePermit::Pass(VisitorPass::Cart(pass)) => Admission::Visitor(pass),
        CachePermit::Pass(VisitorPass::Member(pass)) => Admission::Visitor(pass),
        CachePermit::Held(why) => Admission::Held(why),
        CachePermit::None => Admission::Unknown,
    }
}

/// What differs for visitors with a cart, for `millrace cache explain`; true: on this page, false: on another one of its kind.
pub fn cart_differences(thread: &CacheThread, site: &Site, preview: &Preview) -> Vec<(bool, Box<str>)> {
    let PeekEntry::Page(PeekPage { terms, .. }) = &preview.peek.entry else { return Vec::new() };
    let page = Key::new(&preview.key).hash;
    site.visitors.with_proofs(&thread.context, |proofs, now| proofs.differences(&terms.tags, page, now))
}
