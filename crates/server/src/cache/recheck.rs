//! A page for a visitor with a cart differs from a public page that has been there for a while. Perhaps the public page is old: no purge tells
//! that a list of best sellers has another order since the last sale. So the public page is made again, and compared once more:
//!
//! - it is the same now: the public page was old, and the comparison agrees;
//! - the public page is what it was: a visitor with a cart gets another page;
//! - it has changed, and still differs: that says nothing once, and the kind of page has to be proven again. A page that is never the same twice
//!   differs, or it would be made again for each of these visitors.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_pages::carts::{PageProof, PageView};
use millrace_pages::visitors::CartPage;
use millrace_pages::{Asking, Hardness, Key, Millis, Page, Purge, Tag};

use super::CacheThread;
use super::cart::{self, is_same};
use super::make::uncoded;
use super::watch::WatchedPage;
use crate::context::WorkKind;
use crate::context::stats::Counter;
use crate::message::Request;
use crate::site::Site;

/// A younger public page is not old, milliseconds.
const YOUNG: Millis = 2_000;

/// Maximum number of pages that an event loop makes again at a time.
const MOST: usize = 4;

/// How often to look for the new page, and how many times: PHP may be busy.
const PAUSE: Duration = Duration::from_millis(100);
const LOOKS: usize = 300;

thread_local! {
    static RUNNING: Cell<usize> = const { Cell::new(0) };
}

/// What differs.
pub struct CartDifference<'a> {
    /// What the request asks of the cache, and the key of the public page.
    pub asked: (Asking, Vec<u8>),
    /// The page as PHP has made it for the visitor, and when PHP has begun.
    pub content: &'a [u8],
    pub begun: Millis,
    pub page: &'a CartPage,
    /// The public page, and its tags.
    pub public: &'a Arc<Page>,
    pub tags: &'a [Tag],
    pub kind: Tag,
    pub view: PageView,
}

/// A difference that is looked into.
struct Recheck {
    thread: Rc<CacheThread>,
    site: Arc<Site>,
    /// Without the visitor's own cookies.
    request: Request,
    asking: Asking,
    key: Vec<u8>,
    content: Vec<u8>,
    page: CartPage,
    public: Arc<Page>,
    kind: Tag,
    view: PageView,
    /// Number of comparisons that had agreed before.
    agreed: u32,
}

/// Looks into a difference. False: it is not worth it, and the difference counts.
pub fn begin(watched: &WatchedPage, found: CartDifference<'_>) -> bool {
    let WatchedPage { thread, site, request, .. } = watched;
    let CartDifference { asked: (asking, key), content, page, public, kind, view, .. } = found;
    let is_old = public.stored.saturating_add(YOUNG) < found.begun;
    let is_doubted = site.visitors.proof(thread, found.tags, view) == PageProof::Differs;
    if !is_old || is_doubted || RUNNING.get() >= MOST {
        return false;
    }
    let recheck = Recheck {
        thread: thread.clone(),
        site: site.clone(),
        request: site.visitors.without_cookies(request),
        asking,
        key,
        content: content.to_vec(),
        page: page.clone(),
        public: public.clone(),
        kind,
        view,
        agreed: site.visitors.suspend(kind, view),
    };
    RUNNING.set(RUNNING.get() + 1);
    let open = thread.begin(WorkKind::Page);
    tokio::task::spawn_local(async move {
        let _open = open;
        recheck.run().await;
        RUNNING.set(RUNNING.get() - 1);
    });
    true
}

impl Recheck {
    async fn run(self) {
        let cache = &self.thread.cache;
        cache.purge(&[(Purge::Tag(Key::new(&self.key).url()), Hardness::Soft)]);
        cache.wished.need(&self.key);
        for _ in 0..LOOKS {
            tokio::time::sleep(PAUSE).await;
            self.thread.clock.read();
            if let Some(public) = self.new_page() {
                return self.compare(&public);
            }
        }
        self.differs();
    }

    /// The public page, if it was made again.
    fn new_page(&self) -> Option<Arc<Page>> {
        let rules = self.site.cache.as_ref()?;
        let (hit, _) = cart::stored(&self.thread, &self.site, rules, &self.request, &self.asking, &self.key)?;
        (hit.page.stored > self.public.stored).then_some(hit.page)
    }

    fn compare(&self, public: &Page) {
        let now = self.thread.cache.now(&self.thread) / 1000;
        let (Some(old), Some(new)) = (uncoded(&self.public), uncoded(public)) else { return self.differs() };
        if is_same(new.body(), &self.content, &self.page, now) {
            self.site.visitors.resume(&self.thread, self.kind, self.view, self.agreed);
            self.thread.stats.add(Counter::CartPagesSame, 1);
        } else if is_same(old.body(), new.body(), &self.page, now) {
            self.differs();
        } else {
            self.site.visitors.unsure(&self.thread, self.kind, self.view);
        }
    }

    /// The difference counts.
    fn differs(&self) {
        self.site.visitors.compared(&self.thread, &[self.kind], self.kind, self.view, false);
        self.thread.stats.add(Counter::CartPagesDiffer, 1);
    }
}
