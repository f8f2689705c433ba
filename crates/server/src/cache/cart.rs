//! Visitors with a cart: public pages for those with a pass, and comparisons of what PHP makes for them with the
//! public pages (`millrace_pages::carts` has the reasons).
//!
//! ```text
//!   consult ── its cookies keep it from the cache ──> Visitors::standing ──> a pass ──> look(): the public page
//!                                                                       └──> held: PHP runs for it alone
//!   settle  ── PHP's page for a visitor with a cart ──> watch(): at its end it is compared with the public one
//! ```
//!
//! What PHP makes for such a visitor is never stored.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use millrace_pages::carts::{self, PageProof};
use millrace_pages::visitors::{CartHold, CartPage, Pass};
use millrace_pages::{Asking, Bypass, Hit, Key, Lookup, Rules, Tag, Terms, ask};
use millrace_wire::encoding::Coding;
use millrace_wire::path;

use super::cache_status::{self, CacheStatus};
use super::make::uncoded;
use super::serve::{self, PageRequest};
use super::{CacheThread, settle};
use crate::context::stats::Counter;
use crate::message::Request;
use crate::message::reply::{Aside, Body, Coder, ContentSource, Reply};
use crate::message::request::Visit;
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
    let found = stored(thread, site, rules, request, &asking, &key).ok_or(Bypass::Cart(CartHold::Page))?;
    match site.visitors.proof(thread, &found.1.tags, shows(site, &found.1, &pass.items)) {
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
fn stored(
    thread: &CacheThread,
    site: &Site,
    rules: &Rules,
    request: &Request,
    asking: &Asking,
    key: &[u8],
) -> Option<(Hit, Arc<Terms>)> {
    let (key, cache) = (Key::new(key), &thread.cache);
    let mut select = |name: &str, out: &mut Vec<u8>| settle::select(thread, site, rules, request, name, out);
    let mut shard = cache.lock(cache.shard_of(key));
    let Lookup::Fresh(hit) = shard.look(key, &mut select, cache.now(thread)) else { return None };
    if !asking.wants.allow(hit.age, hit.ttl_left, false) {
        return None;
    }
    let terms = shard.kept(key, &hit.page)?.terms;
    Some((hit, terms))
}

/// Whether a page shows one of these products.
pub fn shows(site: &Site, terms: &Terms, items: &[Box<[u8]>]) -> bool {
    items.iter().any(|item| terms.tags.contains(&Tag::named(site.name().unwrap_or(""), item)))
}

/// Compares what PHP makes for a visitor with a cart with the public page, when it is complete.
pub fn watch(
    thread: &Rc<CacheThread>,
    site: &Arc<Site>,
    request: &Request,
    reply: &mut Reply,
    cache_status: CacheStatus,
) {
    let Some(visit) = request.visit.clone().filter(|_| cache_status.is_for_own_cookies()) else { return };
    // A redirect instead of a page is a difference.
    let is_answer = request.head.method() == "GET"
        && matches!(reply.status, 200 | 301 | 302 | 303 | 307 | 308)
        && !reply.aside.as_ref().is_some_and(|aside| aside.failed || aside.handed().is_some())
        && reply.fields.iter().all(|(name, _)| !name.eq_ignore_ascii_case("content-encoding"));
    if !is_answer {
        return;
    }
    let comparison = Comparison {
        thread: thread.clone(),
        site: site.clone(),
        request: site.visitors.without_cookies(request),
        is_page: reply.status == 200,
        sets_cookie: sets_foreign_cookie(site, reply),
        visit,
    };
    match &mut reply.body {
        Body::Bytes(content) => comparison.run(content),
        Body::Empty => comparison.run(b""),
        Body::Stream(_) => {
            let Body::Stream(inner) = std::mem::replace(&mut reply.body, Body::Empty) else { return };
            let most = site.cache.as_ref().map_or(0, |rules| rules.largest_page);
            let watched =
                Watched { inner, content: Some(Vec::new()), most, coder: None, over: false, comparison };
            reply.body = Body::Stream(Box::new(watched));
        }
        _ => {}
    }
}

/// Whether a response sets a cookie beside the ones that identify its visitor: then a page from the cache would not
/// do the same.
fn sets_foreign_cookie(site: &Site, reply: &Reply) -> bool {
    let mut set = reply.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    set.any(|(_, value)| {
        let end = value.iter().position(|byte| *byte == b'=').unwrap_or(value.len());
        !site.visitors.is_concerned(&value[..end])
    })
}

/// A page for a visitor with a cart that is to be compared.
#[derive(Debug)]
struct Comparison {
    thread: Rc<CacheThread>,
    site: Arc<Site>,
    /// Without the visitor's own cookies.
    request: Request,
    is_page: bool,
    sets_cookie: bool,
    visit: Arc<dyn Visit>,
}

impl Comparison {
    /// The page is complete.
    fn run(&self, content: &[u8]) {
        let Some((page, age)) = self.visit.cart_page(self.thread.clock.now()) else { return };
        let Some(rules) = &self.site.cache else { return };
        let (mut path, mut key) = (Vec::new(), Vec::new());
        if path::normalise(self.request.raw_path(), &mut path).is_err() {
            return;
        }
        let asked = settle::asked(&self.site, &self.request, &path);
        let Ok(asking) = ask(rules, &asked, &mut key) else { return };
        // PHP has seen arguments that the public page's maker did not: WooCommerce's links to the same page repeat `utm_source`.
        if asking.reduced {
            return;
        }
        let Some((hit, terms)) = stored(&self.thread, &self.site, rules, &self.request, &asking, &key) else {
            return;
        };
        let kind = Tag::named(self.site.name().unwrap_or(""), &page.kind);
        // A public page that was made after this run had begun may show a later state.
        let begun = self.thread.cache.now(&self.thread).saturating_sub(age);
        if hit.page.stored > begun || hit.page.status != 200 {
            return;
        }
        let Some(form) = uncoded(&hit.page) else { return };
        let same = self.is_page
            && !self.sets_cookie
            && terms.tags.contains(&kind)
            && is_same(form.body(), content, &page, self.thread.cache.now(&self.thread) / 1000);
        let shows_item = shows(&self.site, &terms, &page.items);
        self.site.visitors.compared(&self.thread, &terms.tags, kind, shows_item, same);
        self.thread.stats.add(if same { Counter::CartPagesSame } else { Counter::CartPagesDiffer }, 1);
    }
}

fn is_same(public: &[u8], own: &[u8], page: &CartPage, now: u64) -> bool {
    let blanks: Vec<&str> = page.blanks.iter().map(String::as_str).collect();
    carts::is_same(public, own, &blanks, now)
}

/// A page that is compared at its end, on its way to the client.
#[derive(Debug)]
struct Watched {
    inner: Box<dyn ContentSource>,
    /// What has come so far; `None`: too much, nothing is compared.
    content: Option<Vec<u8>>,
    /// A larger page is in no cache, bytes.
    most: usize,
    coder: Option<Coder>,
    /// All has come.
    over: bool,
    comparison: Comparison,
}

impl Watched {
    /// A piece has come.
    fn take(&mut self, piece: &[u8], buffer: &mut Vec<u8>) {
        let content = self.content.take().filter(|content| content.len() + piece.len() <= self.most);
        self.content = content.map(|mut content| {
            content.extend_from_slice(piece);
            content
        });
        match &mut self.coder {
            Some(coder) => {
                coder.push(piece, buffer);
                if self.inner.there() == 0 {
                    coder.flush(buffer);
                }
            }
            None => buffer.extend_from_slice(piece),
        }
    }

    /// All has come. Whether more is to be sent.
    fn end(&mut self, buffer: &mut Vec<u8>) -> io::Result<bool> {
        let before = buffer.len();
        if let Some(content) = self.content.take() {
            self.comparison.run(&content);
        }
        if let Some(coder) = &mut self.coder {
            coder.end(buffer);
            if !coder.is_whole() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(buffer.len() > before)
    }
}

impl ContentSource for Watched {
    fn length(&self) -> Option<u64> {
        if self.coder.is_some() { None } else { self.inner.length() }
    }

    fn poll_next(&mut self, cx: &mut TaskContext<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        let (before, mut piece) = (buffer.len(), Vec::new());
        while !self.over {
            if ready!(self.inner.poll_next(cx, &mut piece))? {
                self.take(&piece, buffer);
            } else {
                self.over = true;
                return Poll::Ready(self.end(buffer));
            }
            if buffer.len() > before {
                return Poll::Ready(Ok(true));
            }
            piece.clear();
        }
        Poll::Ready(Ok(false))
    }

    fn there(&self) -> usize {
        self.inner.there()
    }

    fn code(&mut self, coding: Coding) -> bool {
        let is_new = self.content.as_ref().is_some_and(Vec::is_empty) && self.coder.is_none();
        self.coder = if is_new { Coder::new(coding, self.inner.length()) } else { self.coder.take() };
        is_new && self.coder.is_some()
    }

    fn take_aside(&mut self) -> Option<Box<Aside>> {
        self.inner.take_aside()
    }
}
