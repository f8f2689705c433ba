//! A page that a request wants: what there is of it, and how it gets there. For those who know more about a visitor than the key of a
//! public page says ([`super::audience`]).

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use millrace_pages::judge::Keep;
use millrace_pages::{
    Answer, Asking, Bypass, Hardness, Hit, Key, Lookup, Notes, Page, Peek, Purge, Rules, StoreOutcome, Terms,
    Verdict, ask, judge,
};
use millrace_wire::path;

use super::fill::Fill;
use super::{CacheThread, settle};
use millrace_base::message::Request;
use millrace_base::message::reply::Fields;
use millrace_base::site::Site;

/// A page that a request wants.
pub struct PageSlot<'a> {
    /// The event loop.
    pub thread: &'a Rc<CacheThread>,
    /// The site.
    pub site: &'a Arc<Site>,
    /// The request, without the cookies that keep it from the cache.
    pub request: &'a Request,
    /// What the request asks of the cache.
    pub asking: Asking,
    /// Its key.
    pub key: Vec<u8>,
    rules: &'a Rules,
    path: Cow<'a, [u8]>,
}

impl<'a> PageSlot<'a> {
    /// The public page; `path` is the normalised one.
    ///
    /// # Errors
    /// The request bypasses the cache.
    pub fn at(
        thread: &'a Rc<CacheThread>,
        site: &'a Arc<Site>,
        request: &'a Request,
        path: &'a [u8],
    ) -> Result<PageSlot<'a>, Bypass<'a>> {
        let rules = site.cache.as_deref().ok_or(Bypass::Off)?;
        let mut key = Vec::new();
        let asking = ask(rules, &settle::asked(site, request, path), &mut key)?;
        Ok(PageSlot { thread, site, request, asking, key, rules, path: Cow::Borrowed(path) })
    }

    /// The public page; `None`: the request bypasses the cache.
    pub fn of(
        thread: &'a Rc<CacheThread>,
        site: &'a Arc<Site>,
        request: &'a Request,
    ) -> Option<PageSlot<'a>> {
        let (rules, mut path, mut key) = (site.cache.as_deref()?, Vec::new(), Vec::new());
        path::normalise(request.raw_path(), &mut path).ok()?;
        let asking = ask(rules, &settle::asked(site, request, &path), &mut key).ok()?;
        Some(PageSlot { thread, site, request, asking, key, rules, path: Cow::Owned(path) })
    }

    /// The hash of its key.
    pub fn hash(&self) -> u64 {
        Key::new(&self.key).hash
    }

    /// The fresh page, and its terms.
    pub fn fresh(&self) -> Option<(Hit, Arc<Terms>)> {
        let PageSlot { thread, site, request, rules, .. } = *self;
        let (key, cache) = (Key::new(&self.key), &thread.cache);
        let mut is_meant = false;
        let mut select = |name: &str, out: &mut Vec<u8>| {
            is_meant |= settle::meant_cookie(rules, request, name).is_some();
            settle::select(thread, site, rules, request, name, out);
        };
        let mut shard = cache.lock(cache.shard_of(key));
        let Lookup::Fresh(hit) = shard.look(key, &mut select, cache.now(&thread.context)) else {
            return None;
        };
        if is_meant || !self.asking.wants.allow(hit.age, hit.ttl_left, false) {
            return None;
        }
        let terms = shard.kept(key, &hit.page)?.terms;
        Some((hit, terms))
    }

    /// What there is, without its counting as a use.
    pub fn peek(&self) -> Peek {
        peek(self.thread, self.site, self.rules, self.request, &self.key)
    }

    /// A visitor who never fills it has asked for it: after the second time, PHP makes it while it is idle.
    pub fn wish(&self) {
        if !self.thread.passes_on {
            self.thread.cache.wished.note(Key::new(&self.key));
        }
    }

    /// Has PHP make the public page again while it is idle. Only this page, and only in memory: nothing has changed that others would have
    /// to know.
    pub fn make_again(&self) {
        let (key, cache) = (Key::new(&self.key), &self.thread.cache);
        cache.lock(cache.shard_of(key)).purge(&Purge::Tag(key.url()), Hardness::Soft);
        cache.wished.need(&self.key);
    }

    /// How a response with status 200 and this content may be stored, and what of it; `notes`: what is said of it, `failed`: its script has.
    pub fn judge(
        &self,
        fields: &Fields,
        notes: &Notes,
        content: &[u8],
        failed: bool,
    ) -> Option<(Terms, Keep)> {
        let PageSlot { thread, site, request, rules, .. } = *self;
        let country = site.visitors.country(&thread.context, request);
        let answer = Answer { status: 200, fields: fields.iter(), notes, country, content, failed };
        let place = settle::place(site, request, &self.path);
        match judge(rules, &place, &self.asking, &answer, thread.cache.now(&thread.context)) {
            Verdict::Store { terms, keep } => Some((terms, keep)),
            Verdict::Refuse { .. } => None,
        }
    }

    /// Stores a page in memory, unless a purge has begun since there were `orders` of them, or the request has cookies that the cache
    /// doesn't know: nobody knows whether it depends on those. It is not written to disk. Whether it was stored.
    pub fn store(&self, page: &Arc<Page>, terms: Terms, orders: u64) -> bool {
        let PageSlot { thread, site, request, rules, .. } = *self;
        if settle::has_unknown_cookies(rules, request) {
            return false;
        }
        let (key, cache) = (Key::new(&self.key), &thread.cache);
        let mut select = settle::selector(thread, site, rules, request);
        let stored = {
            let mut shard = cache.lock(cache.shard_of(key));
            // A purge that begins from here on comes to this shard when the page is there.
            if cache.orders_begun() != orders {
                return false;
            }
            let ticket = shard.lead(key, &mut select, Arc::new(Fill::new(thread.context.clock.now(), 0)));
            shard.store(ticket, &mut select, page.clone(), terms, cache.now(&thread.context))
        };
        if stored == StoreOutcome::Fresh {
            cache.compress_later(key.bytes, page);
        }
        stored == StoreOutcome::Fresh
    }
}

/// What is stored with this key for a request, without its counting as a use.
pub(super) fn peek(thread: &CacheThread, site: &Site, rules: &Rules, request: &Request, key: &[u8]) -> Peek {
    let (key, cache) = (Key::new(key), &thread.cache);
    let mut select = settle::selector(thread, site, rules, request);
    cache.lock(cache.shard_of(key)).peek(key, &mut select, cache.now(&thread.context))
}
