//! A page for a visitor with a cart differs from the public page. That may have three reasons, and only the last one keeps such visitors from
//! the public page:
//!
//! - the public page is old: no purge tells that a list of best sellers has another order since the last sale;
//! - it is noise: PHP never makes the same page twice (`millrace_pages::carts::Samples`);
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
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millrace_pages::carts::{self, Lens, Likeness, PageProof, ProvenPage, Samples, Text};
use millrace_pages::visitors::CartPage;
use millrace_pages::{Asking, Hardness, Key, Millis, Page, Purge, Tag};

use super::CacheThread;
use super::cart;
use super::make::uncoded;
use super::watch::WatchedPage;
use millrace_base::context::WorkKind;
use millrace_base::context::stats::Counter;
use millrace_base::message::Request;
use millrace_base::site::Site;

/// So many public pages must be alike before a difference counts. With fewer, something that is one of two by chance would often look
/// like no chance at all.
const ALIKE: usize = 4;

/// Maximum number of public pages that are made for one difference.
const SAMPLES: usize = 8;

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
    /// What the request asks of the cache, and the key of the public page.
    pub asked: (Asking, Vec<u8>),
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

/// A page as it is compared: as it is, and without what the browser fills in after it has fetched the cart.
#[derive(Clone, Debug)]
struct ComparedPage([Vec<Text>; 2]);

impl ComparedPage {
    fn new(page: &[u8], blanks: &[&str], now: u64) -> Option<ComparedPage> {
        let of = |fills| carts::pieces(page, Lens { selectors: blanks, fills, now });
        Some(ComparedPage([of(false)?, of(true)?]))
    }
}

/// What was found out.
enum Finding {
    /// The visitor's page is the same; `if_fetched`: if the browser fetches the cart.
    Same {
        if_fetched: bool,
    },
    Differs,
    Unsure,
    /// There was no new public page in time.
    Late,
}

/// The same public page, made several times, compared in both ways.
#[derive(Clone, Debug)]
struct PublicPages([Samples; 2]);

impl PublicPages {
    fn add(known: Option<PublicPages>, page: &ComparedPage) -> Option<PublicPages> {
        let Some(mut known) = known else {
            return Some(PublicPages(page.0.each_ref().map(|page| Samples::new(page))));
        };
        known.0.iter_mut().zip(&page.0).all(|(samples, page)| samples.add(page)).then_some(known)
    }

    /// How a page can be put together from these, if it can.
    fn find(&self, page: &ComparedPage) -> Option<Finding> {
        let is_same = |way: usize| self.0[way].likeness(&page.0[way]) == Likeness::Same;
        (0..2).find(|way| is_same(*way)).map(|way| Finding::Same { if_fetched: way == 1 })
    }

    /// What to make of a page that can't; `None`: more of them have to be seen.
    fn judge(&self, page: &ComparedPage) -> Option<Finding> {
        let samples = &self.0[1];
        let is_unseen = samples.likeness(&page.0[1]) == Likeness::Unseen;
        let is_enough = samples.number() >= if is_unseen { SAMPLES } else { ALIKE };
        is_enough.then_some(if is_unseen { Finding::Unsure } else { Finding::Differs })
    }
}

/// Pages that are known to be noisy.
#[derive(Default)]
pub struct KnownNoise(Mutex<HashMap<u64, (Millis, PublicPages)>>);

/// How long noise is remembered, milliseconds. Not long: what strangers got then must be what they get now.
const NOISE_TIME: Millis = 600_000;

/// Maximum number of pages whose noise is remembered; each takes some 100 kB.
const MOST_NOISY: usize = 64;

impl fmt::Debug for KnownNoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownNoise")
    }
}

impl KnownNoise {
    fn note(&self, page: u64, pages: PublicPages, now: Millis) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (until, _)| now < *until);
        if known.len() < MOST_NOISY || known.contains_key(&page) {
            known.insert(page, (now.saturating_add(NOISE_TIME), pages));
        }
    }

    fn of(&self, page: u64, now: Millis) -> Option<PublicPages> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&page).filter(|(until, _)| now < *until).map(|(_, pages)| pages.clone())
    }
}

/// Looks into a difference.
pub fn begin(watched: &WatchedPage, found: CartDifference<'_>) {
    let WatchedPage { thread, site, .. } = watched;
    let proven = found.proven;
    let ask = |proofs: &mut carts::Proofs, now| proofs.of_page(found.tags, proven.page, proven.view, now);
    if site.visitors.with_proofs(&thread.context, ask) == PageProof::Differs {
        thread.context.stats.add(Counter::CartPagesDiffer, 1);
        return;
    }
    let (blanks, now) = (cart::blanks(found.page), thread.cache.now(&thread.context));
    let pages = [found.public, found.own].map(|page| ComparedPage::new(page, &blanks, now / 1000));
    let [Some(public), Some(own)] = pages else {
        // What a browser makes of it is unclear.
        return differs(
            thread,
            site,
            proven,
            "the page, whose tags are nested in a way that browsers correct",
        );
    };
    if let Some(known) = thread.cache.noise.of(proven.page, now)
        && let (Some(_), Some(Finding::Same { if_fetched })) = (known.find(&public), known.find(&own))
    {
        return cart::agrees(thread, site, proven, if_fetched);
    }
    site.visitors.with_proofs(&thread.context, |proofs, _| proofs.holds(proven));
    let may_run = RUNNING.with_borrow_mut(|running| {
        let may_run = running.len() < MOST && !running.contains(&proven.page);
        running.extend(may_run.then_some(proven.page));
        may_run
    });
    if may_run {
        let (asking, key) = found.asked;
        let recheck = Recheck {
            thread: thread.clone(),
            site: site.clone(),
            request: site.visitors.without_cookies(&watched.request),
            asking,
            key,
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
    asking: Asking,
    key: Vec<u8>,
    own: ComparedPage,
    page: CartPage,
    stored: Millis,
    proven: ProvenPage,
}

impl Recheck {
    async fn run(self) {
        let (finding, what) = self.find().await;
        let Recheck { thread, site, proven, .. } = &self;
        match finding {
            Finding::Same { if_fetched } => cart::agrees(thread, site, *proven, if_fetched),
            Finding::Differs => differs(thread, site, *proven, &what),
            Finding::Unsure => {
                let ask = |proofs: &mut carts::Proofs, now| proofs.is_unsure(*proven, &what, now);
                if site.visitors.with_proofs(&thread.context, ask) {
                    thread.context.stats.add(Counter::CartPagesDiffer, 1);
                }
            }
            Finding::Late => {}
        }
    }

    /// Has the public page made again until it is known what the difference is; and says what differs.
    async fn find(&self) -> (Finding, Box<str>) {
        let (mut known, mut stored, mut what) = (None, self.stored, Box::default());
        loop {
            let Some(public) = self.new_page(stored).await else { return (Finding::Late, what) };
            stored = public.stored;
            let now = self.thread.cache.now(&self.thread.context);
            let body = uncoded(&public);
            let compared =
                body.and_then(|form| ComparedPage::new(form.body(), &cart::blanks(&self.page), now / 1000));
            let Some(compared) = compared else { return (Finding::Differs, what) };
            what = carts::first_difference(&compared.0[1], &self.own.0[1]);
            let Some(pages) = PublicPages::add(known, &compared) else { return (Finding::Differs, what) };
            let found = pages.find(&self.own);
            if let Some(found) = found {
                if !pages.0[1].are_alike() {
                    self.thread.cache.noise.note(self.proven.page, pages, now);
                }
                return (found, what);
            }
            if let Some(judged) = pages.judge(&self.own) {
                return (judged, what);
            }
            known = Some(pages);
        }
    }

    /// The public page, once it was made again since this time.
    async fn new_page(&self, stored: Millis) -> Option<Arc<Page>> {
        let cache = &self.thread.cache;
        let key = Key::new(&self.key);
        // Only this page, and only in memory: nothing has changed that others would have to know.
        cache.lock(cache.shard_of(key)).purge(&Purge::Tag(key.url()), Hardness::Soft);
        cache.wished.need(&self.key);
        for _ in 0..LOOKS {
            tokio::time::sleep(PAUSE).await;
            self.thread.context.clock.read();
            let rules = self.site.cache.as_ref()?;
            let found = cart::stored(&self.thread, &self.site, rules, &self.request, &self.asking, &self.key);
            if let Some((hit, _)) = found.filter(|(hit, _)| hit.page.stored > stored) {
                return Some(hit.page);
            }
        }
        None
    }
}
