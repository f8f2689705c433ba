//! Looks a request up in the page cache before a script runs.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_pages::ask::write_page_key;
use millrace_pages::places::COUNTRY;
use millrace_pages::{Asked, Asking, Bypass, Grace, Hit, Key, Lookup, Page, Rules, Terms, ask};
use tokio::sync::oneshot;

use super::audience::{self, Admission, Admit};
use super::cache_status::{self, CacheStatus};
use super::fill::{Fill, FillJob, FillOutcome, FillState, Lead};
use super::passed::{self, StoreMoment};
use super::serve::{self, PageRequest};
use super::{CacheThread, PageMaker, redirected, settle};
use millrace_base::context::WorkKind;
use millrace_base::context::stats::{Counter, UNCACHEABLE};
use millrace_base::message::reply::{Reply, plain};
use millrace_base::message::{Request, Step};
use millrace_base::site::Site;

thread_local! {
    /// The key that is being built. Never borrowed over an await.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How a response is made that no stored page serves.
pub struct PageRun {
    /// What the response says about the cache.
    pub status: CacheStatus,
    /// Most likely the response: a page that is being made for all who ask for it.
    pub page: Option<Pin<Box<dyn Future<Output = Waited>>>>,
}

impl PageRun {
    /// By a run for this request alone.
    pub fn alone(status: CacheStatus) -> Step<PageRun> {
        Step::Make(PageRun { status, page: None })
    }

    /// By a run for all who ask for the page.
    pub(super) fn shared(page: impl Future<Output = Waited> + 'static) -> Step<PageRun> {
        Step::Make(PageRun { status: CacheStatus::PASS, page: Some(Box::pin(page)) })
    }
}

/// The result of waiting for a page.
pub enum Waited {
    /// The response is ready.
    Reply(Reply),
    /// The page is not there in time. The script may run for this request alone if a worker is idle; otherwise this is the
    /// response.
    Late(Reply),
    /// The script has to run for this request alone.
    Alone,
    /// The page that was made is a variant, and perhaps not the one that this request wants; or there was no worker for
    /// the client that started the fill, but there may be one for this client: look up again.
    Again,
}

/// Looks a request up that a script answers: the page, or how the response is made. `path` is its normalised path; `make` runs the script
/// if necessary; `admit` knows visitors.
pub fn consult(
    thread: &Rc<CacheThread>,
    site: &Arc<Site>,
    request: &Request,
    path: &[u8],
    make: &dyn Fn() -> PageMaker,
    admit: Admit,
) -> Step<PageRun> {
    let Some(rules) = &site.cache else { return PageRun::alone(CacheStatus::NOTHING) };
    consult_by(thread, site, (rules, Some(admit)), request, path, make)
}

/// The same for an application, by rules of its own: it knows nothing about the visitors of the site's scripts.
pub fn consult_proxied(
    thread: &Rc<CacheThread>,
    site: &Arc<Site>,
    request: &Request,
    path: &[u8],
    make: &dyn Fn() -> PageMaker,
) -> Step<PageRun> {
    let Some(rules) = &site.proxy_cache else { return PageRun::alone(CacheStatus::NOTHING) };
    consult_by(thread, site, (rules, None), request, path, make)
}

fn consult_by(
    thread: &Rc<CacheThread>,
    site: &Arc<Site>,
    (rules, admit): (&Arc<Rules>, Option<Admit>),
    request: &Request,
    path: &[u8],
    make: &dyn Fn() -> PageMaker,
) -> Step<PageRun> {
    let consulted = |request, stripped| {
        ROOM.with_borrow_mut(|key| {
            let asking = ask(rules, &settle::asked(site, request, path), key)?;
            let consultation = Consultation { thread, site, rules, request, stripped, path, make, asking };
            consultation.look(Key::new(key))
        })
    };
    let stripped;
    let mut result = consulted(request, false);
    if let (Some(admit), Err(Bypass::Cookie { .. })) = (admit, &result) {
        match admit(thread, site, request) {
            // The script that makes the page must not see the cookies.
            Admission::Anybody => {
                thread.context.stats.add(Counter::VisitorsAnonymous, 1);
                stripped = site.visitors.without_cookies(request);
                result = consulted(&stripped, true);
            }
            Admission::Visitor(visitor) => {
                stripped = site.visitors.without_cookies(request);
                result = audience::look(thread, site, &stripped, path, &*visitor).map(Step::Answer);
            }
            Admission::Held(why) => result = Err(why),
            Admission::Unknown => {}
        }
    }
    let consulted = result.unwrap_or_else(|bypass| {
        ruled_out(thread, site, rules, &settle::asked(site, request, path), &bypass)
    });
    redirected::keep_arguments(rules, site, request, thread.passes_on, consulted)
}

/// The cache is bypassed by a request.
fn ruled_out<'a, I>(
    thread: &CacheThread,
    site: &Site,
    rules: &Rules,
    asked: &Asked<'a, I>,
    bypass: &Bypass<'_>,
) -> Step<PageRun> {
    if thread.passes_on {
        return Step::Elsewhere;
    }
    thread.context.stats.add(Counter::CacheBypassed, 1);
    let name = site.name().unwrap_or("");
    thread.context.stats.bypassed(name, thread.context.clock.now(), bypass.word(), bypass.what());
    ROOM.with_borrow_mut(|key| {
        write_page_key(rules, asked, key);
        thread.cache.lately.bypassed(key, bypass, thread.cache.now(&thread.context));
    });
    PageRun::alone(CacheStatus::ruled_out(bypass).after(thread.cache.orders_begun()))
}

/// A request for a page that is known to be uncacheable, or has no room for its variant.
fn passes(thread: &CacheThread, site: &Site, path: &[u8], cache_status: CacheStatus) -> Step<PageRun> {
    thread.context.stats.add(Counter::CachePassed, 1);
    let (name, path) = (site.name().unwrap_or(""), String::from_utf8_lossy(path));
    thread.context.stats.bypassed(name, thread.context.clock.now(), UNCACHEABLE, Some(&path));
    PageRun::alone(cache_status)
}

/// A request that the cache may serve.
struct Consultation<'a> {
    thread: &'a Rc<CacheThread>,
    site: &'a Arc<Site>,
    rules: &'a Arc<Rules>,
    request: &'a Request,
    /// Meaningless cookies were removed from it.
    stripped: bool,
    path: &'a [u8],
    make: &'a dyn Fn() -> PageMaker,
    asking: Asking,
}

impl<'a> Consultation<'a> {
    /// Err: the lookup found that this request must bypass the cache.
    fn look(self, key: Key<'_>) -> Result<Step<PageRun>, Bypass<'a>> {
        let passes_on = self.thread.passes_on;
        let cache = &self.thread.cache;
        let moment = StoreMoment { ticks: self.thread.context.clock.ticks(), purges: cache.purges() };
        if passed::is_noted(key, moment) {
            if passes_on {
                return Ok(Step::Elsewhere);
            }
            return Ok(passes(self.thread, self.site, self.path, CacheStatus::PASS));
        }
        // Prefetches the key's place in the index while the request is read.
        cache.lock(cache.shard_of(key)).expect(key);
        let head = &self.request.head;
        let asked = PageRequest::read(head);
        let now = cache.now(&self.thread.context);
        let (lacks_country, meant) = (Cell::new(false), Cell::new(None));
        let mut select = |name: &str, out: &mut Vec<u8>| {
            let before = out.len();
            settle::select(self.thread, self.site, self.rules, self.request, name, out);
            if name == COUNTRY && out.len() == before {
                lacks_country.set(true);
            }
            if let Some(cookie) = settle::meant_cookie(self.rules, self.request, name) {
                meant.set(Some(cookie));
            }
        };
        let mut shard = cache.lock(cache.shard_of(key));
        // The lock is held from the lookup until it is known which request leads the fill.
        let found = shard.look(key, &mut select, now);
        if lacks_country.get() {
            // PHP finds it out.
            drop(shard);
            return Err(Bypass::Country);
        }
        if let Some(cookie) = meant.get() {
            // The page is another one with this cookie.
            drop(shard);
            return Err(Bypass::UnknownCookie(cookie));
        }
        let (stale, running, cache_status) = match found {
            Lookup::Fresh(hit) if self.asking.wants.allow(hit.age, hit.ttl_left, false) => {
                drop(shard);
                return Ok(self.hit(&hit, &asked));
            }
            Lookup::Stale(hit, grace, Some(_)) if passes_on && grace.while_revalidating && !grace.purged => {
                drop(shard);
                return Ok(self.stale(&hit, &asked));
            }
            _ if passes_on => return Ok(Step::Elsewhere),
            Lookup::Fresh(hit) => (Some((hit, NOT_ON_ITS_OWN)), None, CacheStatus::REQUEST),
            Lookup::Stale(hit, grace, running) => (Some((hit, grace)), running, CacheStatus::STALE),
            Lookup::Miss(running) if shard.has_variants(key) => (None, running, CacheStatus::VARIANT_MISS),
            Lookup::Miss(running) => (None, running, CacheStatus::MISS),
            Lookup::Pass => {
                // That one variant is not stored says nothing about the others.
                if !shard.has_variants(key) {
                    passed::note(key, moment);
                }
                drop(shard);
                return Ok(passes(self.thread, self.site, self.path, CacheStatus::PASS));
            }
            Lookup::Full => {
                drop(shard);
                return Ok(passes(self.thread, self.site, self.path, CacheStatus::FULL));
            }
        };
        if self.asking.wants.only_if_cached {
            return Ok(Step::Answer(plain(504)));
        }
        // A request in early data may be a replay, so no script runs for it, not even to refresh a stale page.
        if self.request.is_early() {
            return Ok(Step::Answer(plain(425)));
        }
        let at_once = stale.as_ref().filter(|(_, grace)| grace.while_revalidating && !grace.purged);
        // The response to the last one with such cookies was its own: the others don't wait for that.
        let is_own = at_once.is_none()
            && self.has_withheld_cookies()
            && passed::is_noted(passed::with_cookies(key), moment);
        let is_special = is_own || at_once.is_none() && self.is_special(stale.is_some());
        Ok(match running {
            Some(_) if is_own => PageRun::alone(cache_status),
            Some(fill) => {
                drop(shard);
                match at_once {
                    Some((hit, _)) => self.stale(hit, &asked),
                    None => self.follow(fill, stale, cache_status, asked),
                }
            }
            None if is_special => PageRun::alone(cache_status),
            None => {
                let fill = Arc::new(Fill::new(self.thread.context.clock.now(), self.told_by()));
                let ticket = shard.lead(key, &mut select, fill.clone());
                // A purged page is known to have changed, whatever the application's validators say.
                let previous = stale.as_ref().filter(|(_, grace)| !grace.purged).and_then(|(hit, _)| {
                    let page = Some(&hit.page).filter(|page| page.has_validators())?;
                    shard.kept(key, page).map(|kept| (kept.page, kept.terms))
                });
                drop(shard);
                let lead = Lead::new(cache, fill.clone(), ticket);
                match at_once {
                    Some((hit, _)) => {
                        self.start(lead, previous, None, cache_status);
                        self.stale(hit, &asked)
                    }
                    None => {
                        let (private, answer) = oneshot::channel();
                        self.start(lead, previous, Some(private), cache_status);
                        self.lead(fill, answer, stale, cache_status, asked)
                    }
                }
            }
        })
    }

    /// Whether a script must see this request unchanged, so that its response is not a page for others. A script may
    /// handle ranges itself, and the whole page may be much more than was asked for; and if the application is
    /// unknown, it may also handle HEAD, conditions, arguments that elsewhere only serve statistics, and links that
    /// put something into a session that was empty until then.
    fn is_special(&self, is_validating: bool) -> bool {
        let has_conditions = || self.request.head.fields().any(|(name, _)| settle::is_condition(name));
        let asking = &self.asking;
        let statistics = || asking.reduced && settle::drops_arguments(self.rules, self.request);
        let own_idea =
            || self.stripped || statistics() || !is_validating && (asking.head || has_conditions());
        asking.range || self.rules.faithful && own_idea()
    }

    fn has_withheld_cookies(&self) -> bool {
        settle::has_withheld_cookies(self.rules, self.request)
    }

    fn told_by(&self) -> u64 {
        settle::told_by(self.rules, self.request)
    }

    fn hit(&self, hit: &Hit, asked: &PageRequest<'_>) -> Step<PageRun> {
        self.stored(hit, asked, Counter::CacheHits)
    }

    fn stale(&self, hit: &Hit, asked: &PageRequest<'_>) -> Step<PageRun> {
        self.stored(hit, asked, Counter::CacheStale)
    }

    /// The response from a stored page; counts it.
    fn stored(&self, hit: &Hit, asked: &PageRequest<'_>, counter: Counter) -> Step<PageRun> {
        self.thread.context.stats.add(counter, 1);
        let mut reply = serve::answer(&hit.page, asked);
        cache_status::hit(&mut reply, hit);
        Step::Answer(reply)
    }

    /// Starts a fill, in a task of its own: it outlives the request.
    fn start(
        &self,
        lead: Lead,
        previous: Option<(Arc<Page>, Arc<Terms>)>,
        private: Option<oneshot::Sender<Reply>>,
        cache_status: CacheStatus,
    ) {
        let previous_page = previous.as_ref().map(|(page, _)| &**page);
        let mut request = settle::for_everybody(self.rules, self.request, previous_page);
        // A request that waits for the page from its start may get early hints; one that gets a stale page must not.
        request.hints = self.request.hints.clone().filter(|_| private.is_some());
        let job = FillJob {
            thread: self.thread.clone(),
            site: self.site.clone(),
            request,
            path: self.path.into(),
            rules: self.rules.clone(),
            // A page is filled by GET, whatever the request's method.
            asking: Asking { head: false, range: false, ..self.asking },
            make: (self.make)(),
            previous,
            private,
            cache_status,
            is_shared: false,
            _open: self.thread.context.begin(WorkKind::Page),
        };
        tokio::task::spawn_local(job.run(lead));
    }

    fn waiter(
        &self,
        fill: Arc<Fill>,
        stale: Option<(Hit, Grace)>,
        cache_status: CacheStatus,
        asked: PageRequest<'_>,
    ) -> FillWaiter {
        FillWaiter {
            thread: self.thread.clone(),
            site: self.site.clone(),
            asked: asked.into_owned(),
            is_head: self.request.is_head(),
            client: self.request.ends.client_ip(),
            has_place: self.request.waiting_place().is_some(),
            is_like_first: !self.has_withheld_cookies() && self.told_by() == fill.told_by,
            fill,
            fallback: stale.filter(|(_, grace)| grace.on_error).map(|(hit, _)| hit),
            cache_status,
        }
    }

    fn lead(
        &self,
        fill: Arc<Fill>,
        answer: oneshot::Receiver<Reply>,
        stale: Option<(Hit, Grace)>,
        cache_status: CacheStatus,
        asked: PageRequest<'_>,
    ) -> Step<PageRun> {
        self.thread.context.stats.add(Counter::CacheMisses, 1);
        let patience = self.patience();
        let waiter = self.waiter(fill, stale, cache_status, asked);
        PageRun::shared(async move {
            let answer = match waiter.fallback {
                None => answer.await,
                Some(_) => match tokio::time::timeout(patience, answer).await {
                    Ok(answer) => answer,
                    Err(_) => return waiter.give_up(),
                },
            };
            match answer {
                Ok(reply) => Waited::Reply(match &waiter.fallback {
                    Some(hit) if reply.is_turned_away() => waiter.fallen_back(hit, Some(reply.status)),
                    _ => reply,
                }),
                Err(_) => waiter.outcome(waiter.fill.state(), true),
            }
        })
    }

    fn follow(
        &self,
        fill: Arc<Fill>,
        stale: Option<(Hit, Grace)>,
        cache_status: CacheStatus,
        asked: PageRequest<'_>,
    ) -> Step<PageRun> {
        self.thread.context.stats.add(Counter::CacheCollapsed, 1);
        let mut patience = self.patience();
        let running = fill.age(self.thread.context.clock.now());
        let waiter = self.waiter(fill, stale, cache_status.collapsed(), asked);
        if waiter.fallback.is_some() {
            // Each request would wait again for a page that is known to take long.
            patience = patience.saturating_sub(running);
        }
        PageRun::shared(async move { waiter.wait(patience).await })
    }

    fn patience(&self) -> Duration {
        self.thread.context.plan().cache.fill_wait
    }
}

/// A fresh page that the request does not accept as it is: it may be used for validation, and if PHP fails.
const NOT_ON_ITS_OWN: Grace = Grace { while_revalidating: false, on_error: false, purged: false };

/// A request that waits for a fill.
struct FillWaiter {
    thread: Rc<CacheThread>,
    site: Arc<Site>,
    asked: PageRequest<'static>,
    is_head: bool,
    /// The client's address; `None`: a Unix socket.
    client: Option<IpAddr>,
    /// Whether it comes from the waiting room.
    has_place: bool,
    /// Whatever the script looks for, which is known at its end, is the same in the request for which it runs.
    is_like_first: bool,
    fill: Arc<Fill>,
    /// A stale page, in case PHP fails.
    fallback: Option<Hit>,
    cache_status: CacheStatus,
}

impl FillWaiter {
    async fn wait(&self, patience: Duration) -> Waited {
        match tokio::time::timeout(patience, self.fill.wait()).await {
            Ok(state) => self.outcome(state, false),
            Err(_) => self.give_up(),
        }
    }

    fn give_up(&self) -> Waited {
        self.thread.context.stats.add(Counter::CacheWaitTimeouts, 1);
        match &self.fallback {
            Some(hit) => Waited::Reply(self.fallen_back(hit, None)),
            None => {
                let mut reply = plain(503);
                cache_status::timed_out(&mut reply, self.cache_status);
                Waited::Late(reply)
            }
        }
    }

    /// What `state` means for the request that started the fill, or for a later one.
    fn outcome(&self, state: FillState, is_first: bool) -> Waited {
        let reply = match state {
            FillState::Open(_) if !self.is_like_first => return Waited::Alone,
            FillState::Open(draft) => {
                let Some(mut reply) = draft.reply(self.is_head) else { return Waited::Alone };
                cache_status::streamed(&mut reply, self.cache_status);
                reply
            }
            FillState::Done(FillOutcome::Variant(..)) if !is_first => return Waited::Again,
            FillState::Done(FillOutcome::Page(brought) | FillOutcome::Variant(brought)) => {
                let mut reply = serve::answer(&brought.page, &self.asked);
                cache_status::made(&mut reply, &brought, self.cache_status);
                reply
            }
            FillState::Done(FillOutcome::TurnedAway(refused)) => {
                if let Some(hit) = &self.fallback {
                    return Waited::Reply(self.fallen_back(hit, Some(503)));
                }
                // Each client has a share of the queue of its own, and a place in the waiting room may be due.
                if !is_first && (self.client != refused || self.has_place) {
                    return Waited::Again;
                }
                let mut reply = self.site.turned_away();
                cache_status::failed(&mut reply, self.cache_status);
                reply
            }
            FillState::Done(FillOutcome::Failed(page, fit)) => {
                let whole = serve::answer(&page, &self.asked);
                if let Some(hit) = &self.fallback {
                    return Waited::Reply(self.fallen_back(hit, Some(whole.status)));
                }
                let mut reply = if fit || is_first { whole } else { without_content(&whole) };
                cache_status::failed(&mut reply, self.cache_status);
                reply
            }
            FillState::Done(FillOutcome::Alone) | FillState::Running => return Waited::Alone,
        };
        Waited::Reply(reply)
    }

    /// A stale page instead of PHP's error, or of a response that did not come in time.
    fn fallen_back(&self, hit: &Hit, error: Option<u16>) -> Reply {
        self.thread.context.stats.add(Counter::CacheStale, 1);
        let mut reply = serve::answer(&hit.page, &self.asked);
        cache_status::stale_on_error(&mut reply, hit, error);
        reply
    }
}

/// The error response without its content: only the status is for all requests.
fn without_content(error: &Reply) -> Reply {
    let mut reply = plain(error.status);
    for (name, value) in error.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("retry-after")) {
        if reply.fields.iter().all(|(other, _)| !other.eq_ignore_ascii_case(name)) {
            reply.fields.push(name, value);
        }
    }
    reply
}
