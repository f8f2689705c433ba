//! Visitors with a cart: public pages for those with a pass, and comparisons of what PHP makes for them with the
//! public pages (`millrace_pages::carts` has the reasons).
//!
//! ```text
//!   consult ── its cookies keep it from the cache ──> Visitors::standing ──> a pass ──> look(): the public page
//!                                                                       └──> held: PHP runs for it alone
//!   settle  ── PHP's page for a visitor with a cart ──> watch: at its end compare() compares it with the public one,
//!                                                       and once more if that may be old (recheck)
//! ```
//!
//! What PHP makes for such a visitor is never stored.

use std::rc::Rc;
use std::sync::Arc;

use millrace_pages::carts::{self, PageProof, PageView};
use millrace_pages::visitors::{CartHold, CartPage, Pass};
use millrace_pages::{Asking, Bypass, Hit, Key, Lookup, Millis, Rules, Tag, Terms, ask};

use super::make::uncoded;
use super::recheck::{self, CartDifference};
use super::serve::{self, PageRequest};
use super::watch::WatchedPage;
use super::{CacheThread, cache_status, settle};
use crate::context::stats::Counter;
use crate::message::Request;
use crate::message::reply::Reply;
use crate::site::Site;

/// The public page for a visitor with a pass. `request` is without the visitor's own cookies.
pub fn look<'a>(
    thread: &Rc<CacheThread>,
    site: &'a Arc<Site>,
    rules: &'a Rules,
    request: &'a Request,
    path: &'a [u8],
    pass: &Pass,
) -> Result<Reply, Bypass<'a>> {
    let mut key = Vec::new();
    let asking = ask(rules, &settle::asked(site, request, path), &mut key)?;
    let asked = PageRequest::read(&request.head);
    if asking.range || asked.has_range() {
        return Err(Bypass::Cart(CartHold::Range));
    }
    let Some(found) = stored(thread, site, rules, request, &asking, &key) else {
        if !thread.passes_on {
            thread.cache.wished.note(Key::new(&key));
        }
        return Err(Bypass::Cart(CartHold::Page));
    };
    if !is_unread(site, &found.1) {
        return Err(Bypass::Cart(CartHold::Reads));
    }
    match site.visitors.proof(thread, &found.1.tags, view(site, &found.1, &pass.items, pass.has_address)) {
        PageProof::Proven => {}
        PageProof::Unproven => return Err(Bypass::Cart(CartHold::Unproven)),
        PageProof::Differs => return Err(Bypass::Cart(CartHold::Differs)),
    }
    let mut reply = serve::answer_privately(&found.0.page, &asked).ok_or(Bypass::Cart(CartHold::Page))?;
    cache_status::hit_with_cart(&mut reply, &found.0);
    thread.stats.add(Counter::CacheHits, 1);
    thread.stats.add(Counter::VisitorsWithCart, 1);
    Ok(reply)
}

/// The fresh page with this key, and its terms.
pub fn stored(
    thread: &CacheThread,
    site: &Site,
    rules: &Rules,
    request: &Request,
    asking: &Asking,
    key: &[u8],
) -> Option<(Hit, Arc<Terms>)> {
    let (key, cache) = (Key::new(key), &thread.cache);
    let mut is_meant = false;
    let mut select = |name: &str, out: &mut Vec<u8>| {
        is_meant |= settle::meant_cookie(rules, request, name).is_some();
        settle::select(thread, site, rules, request, name, out);
    };
    let mut shard = cache.lock(cache.shard_of(key));
    let Lookup::Fresh(hit) = shard.look(key, &mut select, cache.now(thread)) else { return None };
    if is_meant || !asking.wants.allow(hit.age, hit.ttl_left, false) {
        return None;
    }
    let terms = shard.kept(key, &hit.page)?.terms;
    Some((hit, terms))
}

/// Whether the script of a public page has read nothing of its visitor's cart.
pub fn is_unread(site: &Site, terms: &Terms) -> bool {
    terms.tags.contains(&carts::unread(site.name().unwrap_or("")))
}

/// A page as seen by a visitor with these products in the cart.
pub fn view(site: &Site, terms: &Terms, items: &[Box<[u8]>], has_address: bool) -> PageView {
    let is_shown = |item: &[u8]| terms.tags.contains(&Tag::named(site.name().unwrap_or(""), item));
    PageView { shows_item: items.iter().any(|item| is_shown(item)), has_address }
}

/// Compares a complete page for a visitor with a cart, which PHP has begun to make at `begun`, with the public one.
pub fn compare(watched: &WatchedPage, content: &[u8], page: &CartPage, begun: Millis) {
    let WatchedPage { thread, site, request, .. } = watched;
    let Some((asking, key)) = watched.ask() else { return };
    // PHP has seen arguments that the public page's maker did not: WooCommerce's links to the same page repeat `utm_source`.
    if asking.reduced {
        return;
    }
    let Some(rules) = &site.cache else { return };
    let Some((hit, terms)) = stored(thread, site, rules, request, &asking, &key) else { return };
    let kind = Tag::named(site.name().unwrap_or(""), &page.kind);
    // A public page that was made after this run had begun may show a later state. One that depends on the cart is not sent in any case.
    if hit.page.stored > begun || hit.page.status != 200 || !is_unread(site, &terms) {
        return;
    }
    let Some(form) = uncoded(&hit.page) else { return };
    let is_alike = page.is_unread
        && watched.status == 200
        && !watched.sets_foreign_cookie()
        && terms.tags.contains(&kind);
    let same = is_alike && is_same(form.body(), content, page, thread.cache.now(thread) / 1000);
    let view = view(site, &terms, &page.items, page.has_address);
    if is_alike && !same {
        let (public, tags) = (&hit.page, &*terms.tags);
        let difference =
            CartDifference { asked: (asking, key), content, begun, page, public, tags, kind, view };
        if recheck::begin(watched, difference) {
            return;
        }
    }
    site.visitors.compared(thread, &terms.tags, kind, view, same);
    thread.stats.add(if same { Counter::CartPagesSame } else { Counter::CartPagesDiffer }, 1);
}

/// Whether two pages are the same, but for what the browser fills in. `now`: seconds since 1970.
pub fn is_same(public: &[u8], own: &[u8], page: &CartPage, now: u64) -> bool {
    let blanks: Vec<&str> = page.blanks.iter().map(String::as_str).collect();
    carts::is_same(public, own, &blanks, now)
}
