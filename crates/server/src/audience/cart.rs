//! Visitors with a cart: public pages for those with a pass, and comparisons of what PHP makes for them with the
//! public pages (`millrace_pages::carts` has the reasons).
//!
//! What PHP makes for such a visitor is never stored.

use std::hash::{DefaultHasher, Hash, Hasher};

use millrace_pages::carts::{self, PageProof, PageView, Proofs, ProvenPage, Sameness};
use millrace_pages::visitors::{CartHold, CartPage, Pass};
use millrace_pages::{Bypass, Millis, Page, Tag, Terms};

use super::recheck::{self, CartDifference};
use super::watch::WatchedPage;
use crate::cache::{Audience, AudienceKind, CacheThread, PageRequest, PageSlot, answer_privately, uncoded};
use millrace_base::context::stats::Counter;
use millrace_base::message::Request;
use millrace_base::message::reply::Reply;
use millrace_base::site::Site;

/// Visitors with a cart.
static WITH_CART: AudienceKind = AudienceKind {
    word: "cart",
    reason: "the page is proven to be the same with a cart, which the browser shows on it",
    hits: Counter::VisitorsWithCart,
    no_page: Bypass::Cart(CartHold::Page),
    no_part: Bypass::Cart(CartHold::Range),
    wishes: true,
};

/// The public page, for a visitor with a cart.
impl Audience for Pass {
    fn kind(&self) -> &'static AudienceKind {
        &WITH_CART
    }

    fn change_key(&self, _key: &mut Vec<u8>) {}

    fn may_have(&self, slot: &PageSlot<'_>, _stored: Millis, terms: &Terms) -> Result<(), Bypass<'static>> {
        if !is_unread(slot.site, terms) {
            return Err(Bypass::Cart(CartHold::Reads));
        }
        let view = view(slot.site, terms, &self.items, self.has_address);
        let ask = |proofs: &mut Proofs, now| proofs.of_page(&terms.tags, slot.hash(), view, now);
        match slot.site.visitors.with_proofs(&slot.thread.context, ask) {
            PageProof::Proven => Ok(()),
            PageProof::Unproven => Err(Bypass::Cart(CartHold::Unproven)),
            PageProof::Differs => Err(Bypass::Cart(CartHold::Differs)),
        }
    }

    fn fill(&self, _slot: &PageSlot<'_>, page: &Page, asked: &PageRequest<'_>) -> Option<Reply> {
        answer_privately(page, asked)
    }
}

/// Whether the script of a public page has read nothing of its visitor's cart.
fn is_unread(site: &Site, terms: &Terms) -> bool {
    terms.tags.contains(&carts::unread(site.name().unwrap_or("")))
}

/// A page as seen by a visitor with these products in the cart.
fn view(site: &Site, terms: &Terms, items: &[Box<[u8]>], has_address: bool) -> PageView {
    let is_shown = |item: &[u8]| terms.tags.contains(&Tag::named(site.name().unwrap_or(""), item));
    PageView { shows_item: items.iter().any(|item| is_shown(item)), has_address }
}

/// Compares a complete page for a visitor with a cart, which PHP has begun to make at `begun`, with the public one.
pub fn compare(watched: &WatchedPage, content: &[u8], page: &CartPage, begun: Millis) {
    let WatchedPage { thread, site, request, .. } = watched;
    let Some(slot) = PageSlot::of(thread, site, request) else { return };
    // PHP has seen arguments that the public page's maker did not: WooCommerce's links to the same page repeat `utm_source`.
    if slot.asking.reduced {
        return;
    }
    let Some((hit, terms)) = slot.fresh() else { return };
    // A public page that was made after this run had begun may show a later state. One that depends on the cart is not sent in any case.
    if hit.page.stored > begun || hit.page.status != 200 || !is_unread(site, &terms) {
        return;
    }
    let kind = Tag::named(site.name().unwrap_or(""), &page.kind);
    let view = view(site, &terms, &page.items, page.has_address);
    let proven = ProvenPage { kind, view, page: slot.hash() };
    if let Some(what) = other_response(watched, page, terms.tags.contains(&kind)) {
        return note_other(watched, &terms, proven, page.is_unread, what);
    }
    let Some(form) = uncoded(&hit.page) else { return };
    let (blanks, now) = (blanks(page), thread.cache.now(&thread.context) / 1000);
    let found = carts::compare(form.body(), content, &blanks, now);
    if found != Sameness::Same {
        let url = url_of(request.authority().as_bytes(), request.head.path_query());
        site.visitors
            .with_proofs(&thread.context, |proofs, now| proofs.fetches.expect(page.visitor, url, kind, now));
    }
    match found {
        Sameness::Same => agrees(thread, site, proven, false),
        Sameness::IfFetched => agrees(thread, site, proven, true),
        Sameness::Differs => {
            let (public, stored) = (form.body(), hit.page.stored);
            let found = CartDifference { public, own: content, page, stored, tags: &terms.tags, proven };
            recheck::begin(watched, found);
        }
    }
}

/// What a script in the browser replaces.
pub fn blanks(page: &CartPage) -> Vec<&str> {
    page.blanks.iter().map(String::as_str).collect()
}

/// Why PHP's response can't be the public page, whatever its content is.
fn other_response(watched: &WatchedPage, page: &CartPage, is_of_kind: bool) -> Option<&'static str> {
    if !page.is_unread {
        Some("its script reads the cart if there is something in it")
    } else if watched.status != 200 {
        Some("a redirect instead of the page")
    } else if watched.sets_foreign_cookie() {
        Some("a cookie that the response sets")
    } else {
        (!is_of_kind).then_some("another template, or other blocks")
    }
}

/// PHP's response is another one. A script that reads the cart is no accident of one page: it is the kind's at once.
fn note_other(watched: &WatchedPage, terms: &Terms, page: ProvenPage, is_unread: bool, what: &str) {
    let WatchedPage { thread, site, .. } = watched;
    site.visitors.with_proofs(&thread.context, |proofs, now| {
        // The tag of this response's kind says nothing about pages of the public one's.
        let is_its = terms.tags.contains(&page.kind);
        let Some(kind) =
            Some(page.kind).filter(|_| is_its).or_else(|| proofs.kind_of(&terms.tags, page.view))
        else {
            return;
        };
        proofs.differs(ProvenPage { kind, ..page }, what, now);
        if !is_unread {
            proofs.add(kind, page.view, false, now);
        }
    });
    thread.context.stats.add(Counter::CartPagesDiffer, 1);
}

/// A page was the same; `if_fetched`: if the visitor's browser fetches the cart. As long as that was not seen, it says nothing.
pub fn agrees(thread: &CacheThread, site: &Site, page: ProvenPage, if_fetched: bool) {
    let counts = site.visitors.with_proofs(&thread.context, |proofs, now| {
        let counts = !if_fetched || proofs.fetches.are_seen(page.kind);
        if counts {
            proofs.agrees(page, if_fetched, now);
        } else {
            proofs.holds(page);
        }
        counts
    });
    if counts {
        thread.context.stats.add(Counter::CartPagesSame, 1);
    }
}

/// PHP has responded to a request of a script in a browser: if that was for the cart, its page does fetch it.
pub fn fetched(thread: &CacheThread, site: &Site, request: &Request, status: u16) {
    let head = &request.head;
    // Browsers say so on encrypted connections only.
    let says = |name, value: &[u8]| head.field(name).is_none_or(|said| said == value);
    let is_scripts = || says("sec-fetch-dest", b"empty") && says("sec-fetch-site", b"same-origin");
    if head.method() != "GET" || status != 200 || !asks_for_cart(head.path_query()) || !is_scripts() {
        return;
    }
    let Some(page) =
        head.field("referer").and_then(|url| memchr::memmem::find(url, b"://").map(|at| &url[at + 3..]))
    else {
        return;
    };
    let (authority, target) = page.split_at(memchr::memchr(b'/', page).unwrap_or(page.len()));
    if authority.eq_ignore_ascii_case(request.authority().as_bytes()) {
        site.visitors.has_fetched_cart(
            &thread.context,
            request,
            url_of(request.authority().as_bytes(), target),
        );
    }
}

/// Whether it is WooCommerce's route of the cart: `/wp-json/wc/store/v1/cart`, `/?rest_route=/wc/store/v1/cart`.
fn asks_for_cart(target: &[u8]) -> bool {
    const ROUTES: [&[u8]; 2] = [b"/wc/store/v1/cart", b"/wc/store/cart"];
    let (path, query) = target.split_at(memchr::memchr(b'?', target).unwrap_or(target.len()));
    let route = query
        .get(1..)
        .unwrap_or_default()
        .split(|b| *b == b'&')
        .find_map(|pair| pair.strip_prefix(b"rest_route="));
    let route = route.map(|route| route.to_ascii_lowercase());
    let is_one =
        |text: &[u8]| ROUTES.iter().any(|known| text.strip_suffix(b"/").unwrap_or(text).ends_with(known));
    is_one(path)
        || route
            .is_some_and(|route| is_one(&String::from_utf8_lossy(&route).replace("%2f", "/").into_bytes()))
}

/// A hash of a page's URL.
fn url_of(authority: &[u8], target: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (authority.to_ascii_lowercase(), target).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_routes_of_the_cart() {
        for yes in [
            "/wp-json/wc/store/v1/cart",
            "/shop/wp-json/wc/store/v1/cart?_locale=user",
            "/wp-json/wc/store/cart/",
            "/?a=1&rest_route=%2Fwc%2Fstore%2Fv1%2Fcart",
        ] {
            assert!(asks_for_cart(yes.as_bytes()), "{yes}");
        }
        for no in [
            "/",
            "/cart",
            "/wp-json/wc/store/v1/cart/items",
            "/wp-json/wc/store/v1/checkout",
            "/?x=/wc/store/v1/cart",
            "/wp-json/wc/store/v1/batch",
        ] {
            assert!(!asks_for_cart(no.as_bytes()), "{no}");
        }
    }
}
