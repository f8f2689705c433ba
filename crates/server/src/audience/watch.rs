//! Looks at what PHP makes for visitors whose own cookies keep them from the cache, when it is complete: a page for a visitor with a
//! cart is compared with the public one ([`cart`]); one for a member is compared with the one for others with the same rights, or stored
//! ([`member`]).

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use millrace_pages::visitors::{Visit, VisitorPage};
use millrace_wire::encoding::Coding;

use super::{cart, member};
use crate::cache::{CacheStatus, CacheThread};
use millrace_base::message::Request;
use millrace_base::message::reply::{Aside, Body, Coder, ContentSource, Fields, Reply};
use millrace_base::site::Site;

/// Watches a response of PHP's on its way to one visitor.
pub fn watch(
    thread: &Rc<CacheThread>,
    site: &Arc<Site>,
    request: &Request,
    reply: &mut Reply,
    cache_status: CacheStatus,
) {
    let Some(rules) = &site.cache else { return };
    cart::fetched(thread, site, request, reply.status);
    let Some(visit) = request.found.visit.clone().filter(|_| cache_status.is_for_own_cookies()) else {
        return;
    };
    // A redirect instead of a page is a difference.
    let is_answer = request.head.method() == "GET"
        && matches!(reply.status, 200 | 301 | 302 | 303 | 307 | 308)
        && !reply.aside.as_ref().is_some_and(|aside| aside.failed || aside.handed().is_some())
        && reply.fields.iter().all(|(name, _)| !name.eq_ignore_ascii_case("content-encoding"));
    if !is_answer {
        return;
    }
    let page = WatchedPage {
        thread: thread.clone(),
        site: site.clone(),
        request: site.visitors.without_cookies(request),
        status: reply.status,
        reason: reply.reason.clone(),
        fields: reply.fields.clone(),
        is_silent: reply.aside.as_deref().is_none_or(member::is_silent),
        orders: cache_status.orders(),
        visit,
    };
    match &mut reply.body {
        Body::Bytes(content) => page.is_complete(content, None),
        Body::Empty => page.is_complete(b"", None),
        Body::Stream(_) => {
            let Body::Stream(inner) = std::mem::replace(&mut reply.body, Body::Empty) else { return };
            let watched = Watched {
                inner,
                content: Some(Vec::new()),
                most: rules.largest_page,
                coder: None,
                over: false,
                page,
                aside: None,
            };
            reply.body = Body::Stream(Box::new(watched));
        }
        _ => {}
    }
}

/// A page for one visitor, without its content.
#[derive(Debug)]
pub struct WatchedPage {
    pub thread: Rc<CacheThread>,
    pub site: Arc<Site>,
    /// Without the visitor's own cookies.
    pub request: Request,
    pub status: u16,
    pub reason: Option<Box<str>>,
    pub fields: Fields,
    /// When the response began, the script had said nothing about the cache beside what the server's hooks say.
    pub is_silent: bool,
    /// Number of purges that had begun when the request came.
    pub orders: u64,
    visit: Arc<Visit>,
}

impl WatchedPage {
    /// The content is complete; `aside`: notes received after the head.
    fn is_complete(&self, content: &[u8], aside: Option<&Aside>) {
        let Some((page, age)) = self.visit.page(self.thread.context.clock.now()) else { return };
        let begun = self.thread.cache.now(&self.thread.context).saturating_sub(age);
        match page {
            VisitorPage::Cart(page) => cart::compare(self, content, &page, begun),
            VisitorPage::Member(page) => {
                member::take(self, content, aside, &page, begun);
            }
        }
    }

    /// Whether it sets a cookie beside the ones that identify its visitor: then a page from the cache would not do the same.
    pub fn sets_foreign_cookie(&self) -> bool {
        let mut set = self.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        set.any(|(_, value)| {
            let end = value.iter().position(|byte| *byte == b'=').unwrap_or(value.len());
            !self.site.visitors.is_concerned(&value[..end])
        })
    }
}

/// A page on its way to the client, which is looked at when it is complete.
#[derive(Debug)]
struct Watched {
    inner: Box<dyn ContentSource>,
    /// What has come so far; `None`: too much, nothing is done with it.
    content: Option<Vec<u8>>,
    /// A larger page is in no cache, bytes.
    most: usize,
    coder: Option<Coder>,
    /// All has come.
    over: bool,
    page: WatchedPage,
    /// What the script has said beside its content.
    aside: Option<Box<Aside>>,
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
        self.aside = self.inner.take_aside();
        if let Some(content) = self.content.take() {
            self.page.is_complete(&content, self.aside.as_deref());
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
        self.aside.take().or_else(|| self.inner.take_aside())
    }
}
