//! A page for a visitor with a cart differs from the public page. That may have three reasons, and only the last one keeps such visitors from
//! the public page:
//!
//! - the public page is old: no purge tells that a list of best sellers has another order since the last sale;
//! - it is noise: PHP never makes the same page twice (`millrace_pages::carts::PublicPages`);
//! - the visitor has a cart.
//!
//! So the public page is made again, several times, as a warm-up would: for a visitor without cookies, while PHP is idle, and on nobody's
//! time. Meanwhile visitors with a cart get this page from PHP.
//!
//! ```text
//!   a difference ──> known noise? ── yes ──────────────────────────> the same
//!                     └─ the public page is made, up to SAMPLES times
//!                          ├─ the visitor's page is put together from these ──> the same; they are remembered
//!                          ├─ it differs where they are alike, after ALIKE ──> the page differs
//!                          ├─ only where they differ, in a way not seen yet ─> unsure: MOST_UNSURE times, then it differs
//!                          └─ PHP is busy ──> nothing is known: the page stays with PHP, and is compared again
//! ```

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_pages::carts::{ComparedPage, Finding, PageProof, Proofs, ProvenPage, PublicPages};
use millrace_pages::visitors::CartPage;
use millrace_pages::{Millis, Page, Tag};

use super::cart;
use super::watch::WatchedPage;
use crate::cache::{CacheThread, PageSlot, uncoded};
use millrace_base::context::WorkKind;
use millrace_base::context::stats::Counter;
use millrace_base::message::Request;
use millrace_base::site::Site;

/// Maximum number of differences that an event loop looks into at a time.
const MOST: usize = 4;

/// How often to look for the new page, and how many times: PHP may be busy.
const PAUSE: Duration = Duration::from_millis(100);
const LOOKS: usize = 300;

thread_local! {
    /// Pages that are looked into, by the hashes of their keys.
    static RUNNING: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// What differs.
pub struct CartDifference<'a> {
    /// The public page, and the page as PHP has made it for the visitor.
    pub public: &'a [u8],
    pub own: &'a [u8],
    pub page: &'a CartPage,
    /// When the public page was stored.
    pub stored: Millis,
    /// Its tags.
    pub tags: &'a [Tag],
    pub proven: ProvenPage,
}

/// Looks into a difference.
pub fn begin(watched: &WatchedPage, found: CartDifference<'_>) {
    let WatchedPage { thread, site, .. } = watched;
    let proven = found.proven;
    let ask = |proofs: &mut Proofs, now| {
        let proof = proofs.of_page(found.tags, proven.page, proven.view, now);
        (proof, proofs.noise.of(proven.page, now))
    };
    let (proof, noise) = site.visitors.with_proofs(&thread.context, ask);
    if proof == PageProof::Differs {
        thread.context.stats.add(Counter::CartPagesDiffer, 1);
        return;
    }
    let (blanks, now) = (cart::blanks(found.page), thread.cache.now(&thread.context) / 1000);
    let pages = [found.public, found.own].map(|page| ComparedPage::new(page, &blanks, now));
    let [Some(public), Some(own)] = pages else {
        // What a browser makes of it is unclear.
        return differs(
            thread,
            site,
            proven,
            "the page, whose tags are nested in a way that browsers correct",
        );
    };
    if let Some(if_fetched) = noise.and_then(|noise| noise.explain(&public, &own)) {
        return cart::agrees(thread, site, proven, if_fetched);
    }
    site.visitors.with_proofs(&thread.context, |proofs, _| proofs.holds(proven));
    let may_run = RUNNING.with_borrow_mut(|running| {
        let may_run = running.len() < MOST && !running.contains(&proven.page);
        running.extend(may_run.then_some(proven.page));
        may_run
    });
    if may_run {
        let recheck = Recheck {
            thread: thread.clone(),
            site: site.clone(),
            request: site.visitors.without_cookies(&watched.request),
            own,
            page: found.page.clone(),
            stored: found.stored,
            proven,
        };
        let open = thread.context.begin(WorkKind::Page);
        tokio::task::spawn_local(async move {
            let _open = open;
            recheck.run().await;
            RUNNING.with_borrow_mut(|running| running.retain(|page| *page != proven.page));
        });
    }
}

/// Whether a difference is being looked into on this event loop.
#[cfg(test)]
pub fn is_running() -> bool {
    RUNNING.with_borrow(|running| !running.is_empty())
}

/// The difference counts.
fn differs(thread: &CacheThread, site: &Site, page: ProvenPage, what: &str) {
    site.visitors.with_proofs(&thread.context, |proofs, now| proofs.differs(page, what, now));
    thread.context.stats.add(Counter::CartPagesDiffer, 1);
}

/// A difference that is looked into.
struct Recheck {
    thread: Rc<CacheThread>,
    site: Arc<Site>,
    /// Without the visitor's own cookies.
    request: Request,
    own: ComparedPage,
    page: CartPage,
    stored: Millis,
    proven: ProvenPage,
}

impl Recheck {
    async fn run(self) {
        let (found, what) = self.find().await;
        let Recheck { thread, site, proven, .. } = &self;
        match found {
            Some(Finding::Same { if_fetched }) => cart::agrees(thread, site, *proven, if_fetched),
            Some(Finding::Differs) => differs(thread, site, *proven, &what),
            Some(Finding::Unsure) => {
                let ask = |proofs: &mut Proofs, now| proofs.is_unsure(*proven, &what, now);
                if site.visitors.with_proofs(&thread.context, ask) {
                    thread.context.stats.add(Counter::CartPagesDiffer, 1);
                }
            }
            None => {}
        }
    }

    /// Has the public page made again until it is known what the difference is; and says what differs. `None`: there was no new public
    /// page in time.
    async fn find(&self) -> (Option<Finding>, Box<str>) {
        let (mut known, mut stored, mut what): (Option<PublicPages>, _, _) =
            (None, self.stored, Box::default());
        loop {
            let Some(public) = self.new_page(stored).await else { return (None, what) };
            stored = public.stored;
            let now = self.thread.cache.now(&self.thread.context) / 1000;
            let compared = uncoded(&public)
                .and_then(|form| ComparedPage::new(form.body(), &cart::blanks(&self.page), now));
            let Some(compared) = compared else { return (Some(Finding::Differs), what) };
            what = compared.first_difference(&self.own);
            let pages = match known.take() {
                None => Some(PublicPages::new(&compared)),
                Some(mut pages) => pages.add(&compared).then_some(pages),
            };
            let Some(pages) = pages else { return (Some(Finding::Differs), what) };
            let Some(found) = pages.find(&self.own) else {
                known = Some(pages);
                continue;
            };
            if matches!(found, Finding::Same { .. }) && !pages.are_alike() {
                let note = |proofs: &mut Proofs, now| proofs.noise.note(self.proven.page, pages, now);
                self.site.visitors.with_proofs(&self.thread.context, note);
            }
            return (Some(found), what);
        }
    }

    /// The public page, once it was made again since this time.
    async fn new_page(&self, stored: Millis) -> Option<Arc<Page>> {
        PageSlot::of(&self.thread, &self.site, &self.request)?.make_again();
        for _ in 0..LOOKS {
            tokio::time::sleep(PAUSE).await;
            self.thread.context.clock.read();
            let found = PageSlot::of(&self.thread, &self.site, &self.request)?.fresh();
            if let Some((hit, _)) = found.filter(|(hit, _)| hit.page.stored > stored) {
                return Some(hit.page);
            }
        }
        None
    }
}
