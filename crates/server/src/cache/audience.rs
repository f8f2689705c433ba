//! Visitors whom their cookies keep from the cache, and who may have stored pages all the same. The cache asks them about a page; what
//! they are, it doesn't know.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use millrace_pages::{Bypass, Millis, Page, PeekEntry, PeekPage, Terms};

use super::CacheThread;
use super::cache_status;
use super::serve::PageRequest;
use super::slot::PageSlot;
use millrace_base::context::stats::Counter;
use millrace_base::message::Request;
use millrace_base::message::reply::Reply;
use millrace_base::site::Site;

/// Who a request with such cookies is.
#[derive(Debug)]
pub enum Admission {
    /// Anybody: the cookies mean nothing.
    Anybody,
    /// A visitor who may have stored pages.
    Visitor(Arc<dyn Audience>),
    /// A visitor who gets pages from PHP, for this reason.
    Held(Bypass<'static>),
    /// Nobody knows.
    Unknown,
}

/// Finds out who a request is.
pub type Admit = fn(&CacheThread, &Site, &Request) -> Admission;

/// What all visitors of a kind have in common.
#[derive(Debug)]
pub struct AudienceKind {
    /// For `Cache-Status`.
    pub word: &'static str,
    /// Why a page that such a visitor may have is right, for `millrace cache explain`.
    pub reason: &'static str,
    /// Counts their hits.
    pub hits: Counter,
    /// Why PHP makes a page that is not there.
    pub no_page: Bypass<'static>,
    /// Why PHP answers a request for a part of a page.
    pub no_part: Bypass<'static>,
    /// Their page is the public one, which none of them stores: one that is not there has to be wished for.
    pub wishes: bool,
}

/// A visitor with cookies of their own whom the cache may answer with stored pages.
pub trait Audience: fmt::Debug {
    /// What kind of visitor it is.
    fn kind(&self) -> &'static AudienceKind;

    /// Changes the key of the public page into that of the page for such visitors.
    fn change_key(&self, key: &mut Vec<u8>);

    /// Whether the visitor may have the page in the slot, which was stored at this time.
    ///
    /// # Errors
    /// PHP makes it, for this reason.
    fn may_have(&self, slot: &PageSlot<'_>, stored: Millis, terms: &Terms) -> Result<(), Bypass<'static>>;

    /// The response from the page in the slot, for this visitor alone. `None`: the page can't be sent so.
    fn fill(&self, slot: &PageSlot<'_>, page: &Page, asked: &PageRequest<'_>) -> Option<Reply>;
}

/// The page for a visitor. `request` is without the visitor's own cookies, `path` its normalised path.
pub(super) fn look<'a>(
    thread: &'a Rc<CacheThread>,
    site: &'a Arc<Site>,
    request: &'a Request,
    path: &'a [u8],
    visitor: &dyn Audience,
) -> Result<Reply, Bypass<'a>> {
    let (mut slot, kind) = (PageSlot::at(thread, site, request, path)?, visitor.kind());
    let asked = PageRequest::read(&request.head);
    if slot.asking.range || asked.has_range() {
        return Err(kind.no_part);
    }
    visitor.change_key(&mut slot.key);
    let Some((hit, terms)) = slot.fresh() else {
        if kind.wishes {
            slot.wish();
        }
        return Err(kind.no_page);
    };
    visitor.may_have(&slot, hit.page.stored, &terms)?;
    let mut reply = visitor.fill(&slot, &hit.page, &asked).ok_or(kind.no_page)?;
    cache_status::hit_of(&mut reply, &hit, kind.word);
    thread.context.stats.add(Counter::CacheHits, 1);
    thread.context.stats.add(kind.hits, 1);
    Ok(reply)
}

/// Whether a visitor would get the page in the slot, whose key becomes that of the page for such visitors.
pub(super) fn would_get(slot: &mut PageSlot<'_>, visitor: &dyn Audience) -> Result<(), Bypass<'static>> {
    visitor.change_key(&mut slot.key);
    match slot.peek().entry {
        PeekEntry::Page(PeekPage { page, terms, grace: None, .. }) => {
            visitor.may_have(slot, page.stored, &terms)
        }
        _ => Err(visitor.kind().no_page),
    }
}
