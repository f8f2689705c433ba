//! A fill: one run of PHP for a page that many requests may wait for.
//!
//! ```text
//!   Running ──> Open(draft) ──> Done(Page)        stored, or at least complete
//!      │ └────────────────────────────┘
//!      ├──────> Done(Variant)                     stored, but waiting requests may want another variant: they look again
//!      ├──────> Done(Alone)                       only for the request that started it: the others run PHP themselves
//!      ├──────> Done(TurnedAway)                  there was no PHP worker for this client: clients with other addresses look again
//!      └──────> Done(Failed)                      PHP's error, for all
//! ```

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use millrace_pages::Mode;
use millrace_pages::judge::{Freshened, Grounds, Keep, freshen, grounds, tags};
use millrace_pages::looked::READS;
use millrace_pages::places::Country;
use millrace_pages::{
    Answer, Asking, Key, Millis, Page, Place, Refusal, Rules, Select, StoreOutcome, Tag, Terms, Ticket,
    Verdict, judge,
};
use tokio::sync::{Notify, oneshot};

use super::cache_status::{self, CacheStatus};
use super::growing::Growing;
use super::lately::NotedResponse;
use super::passed::{self, StoreMoment};
use super::{CacheThread, PageCache, PageMaker, make, settle};
use millrace_base::context::OpenWork;
use millrace_base::context::stats::Counter;
use millrace_base::message::Request;
use millrace_base::message::reply::{Aside, Body, ContentSource, Fields, Reply, plain};
use millrace_base::site::Site;

/// How long a script may take to finish a page that it writes in pieces, from the first piece on. A complete page can
/// be sent compressed, and with its length.
const PATIENCE: Duration = Duration::from_millis(100);

/// A fill, as the waiting requests see it.
#[derive(Debug)]
pub struct Fill {
    /// When it began.
    since: Instant,
    /// What the script can read of the request for which it runs.
    pub told_by: u64,
    state: Mutex<FillState>,
    changed: Notify,
}

/// The progress of a fill.
#[derive(Clone, Debug, Default)]
pub enum FillState {
    /// Nothing is known yet.
    #[default]
    Running,
    /// The script still runs, and all waiting requests may have what is there.
    Open(Arc<Draft>),
    /// The fill is over.
    Done(FillOutcome),
}

/// The result of a fill.
#[derive(Clone, Debug)]
pub enum FillOutcome {
    /// A page for all waiting requests.
    Page(Brought),
    /// A page for the request that started the fill; the others may have other values for the fields by which it
    /// varies.
    Variant(Brought),
    /// The response is for that request only.
    Alone,
    /// There was no free worker for the request that started the fill; the address of its client.
    TurnedAway(Option<IpAddr>),
    /// The script failed: its response, for the request that started the fill, and whether the others may have it
    /// too.
    Failed(Arc<Page>, bool),
}

/// The page that a fill has produced.
#[derive(Clone, Debug)]
pub struct Brought {
    /// The page.
    pub page: Arc<Page>,
    /// Its age when it arrived.
    pub age: Millis,
    /// Why it is not stored after all, in a word for `Cache-Status`; `None`: it is stored.
    pub refused: Option<&'static str>,
}

impl Brought {
    fn outcome(self, is_for_all: bool) -> FillOutcome {
        if is_for_all { FillOutcome::Page(self) } else { FillOutcome::Variant(self) }
    }
}

/// A page that is still being made.
#[derive(Debug)]
pub struct Draft {
    status: u16,
    reason: Option<Box<str>>,
    fields: Fields,
    length: Option<u64>,
    growing: Arc<Growing>,
}

impl Draft {
    /// A response that sends it from its start; `None`: it became too large, and the start is no longer in memory.
    pub fn reply(&self, is_head: bool) -> Option<Reply> {
        let fields = self.fields.clone();
        let reply = Reply { reason: self.reason.clone(), fields, ..Reply::new(self.status) };
        Some(reply.body(match is_head {
            true => Body::Omitted(self.length),
            false => Body::Stream(self.growing.reader(self.length)?),
        }))
    }
}

impl Fill {
    /// A fill that begins now, for a request with this number ([`settle::told_by`]).
    pub fn new(now: Instant, told_by: u64) -> Fill {
        Fill { since: now, told_by, state: Mutex::default(), changed: Notify::new() }
    }

    /// How long it has been running.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// Its progress.
    pub fn state(&self) -> FillState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: FillState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.changed.notify_waiters();
    }

    /// Waits until there is something for the waiting requests.
    pub async fn wait(&self) -> FillState {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.state() {
                FillState::Running => changed.await,
                state => return state,
            }
        }
    }
}

/// The right to end a fill. If it is dropped unused, the fill has failed.
#[derive(Debug)]
pub struct Lead {
    cache: Arc<PageCache>,
    fill: Arc<Fill>,
    ticket: Option<Ticket>,
    /// The disk's stamp when the fill began.
    begun: u64,
}

impl Lead {
    /// The fill with this `ticket`.
    pub fn new(cache: &Arc<PageCache>, fill: Arc<Fill>, ticket: Ticket) -> Lead {
        Lead { cache: cache.clone(), fill, ticket: Some(ticket), begun: cache.disk().stamp() }
    }

    fn end(mut self, give_back: impl FnOnce(&Arc<PageCache>, Ticket) -> FillOutcome) {
        if let Some(ticket) = self.ticket.take() {
            let outcome = give_back(&self.cache, ticket);
            self.fill.set(FillState::Done(outcome));
        }
    }

    /// The key of the page.
    fn key(&self) -> &[u8] {
        self.ticket.as_ref().map_or(&[], Ticket::key)
    }

    fn is_for_all(&self, vary: &[Box<str>]) -> bool {
        self.ticket.as_ref().is_some_and(|ticket| ticket.is_for_all(vary))
    }

    fn shard(cache: &PageCache, ticket: &Ticket) -> usize {
        cache.shard_of(Key::new(ticket.key()))
    }

    fn abandon(cache: &Arc<PageCache>, ticket: Ticket) {
        cache.lock(Lead::shard(cache, &ticket)).abandon(ticket);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            Lead::abandon(&self.cache, ticket);
            self.fill.set(FillState::Done(FillOutcome::Alone));
        }
    }
}

/// A page to be made.
pub struct FillJob {
    /// The event loop that runs it.
    pub thread: Rc<CacheThread>,
    /// The site.
    pub site: Arc<Site>,
    /// The request for PHP: the first client's, without the parts that concern only this client.
    pub request: Request,
    /// Its path, normalised.
    pub path: Box<[u8]>,
    /// What the cache's rules derived from it.
    pub asking: Asking,
    /// The cache's rules.
    pub rules: Arc<Rules>,
    /// Runs PHP for it.
    pub make: PageMaker,
    /// The stale page that PHP may validate, and its terms.
    pub previous: Option<(Arc<Page>, Arc<Terms>)>,
    /// The first request, if it waits: gets the response if that is for it alone.
    pub private: Option<oneshot::Sender<Reply>>,
    /// Why there was no page.
    pub cache_status: CacheStatus,
    /// Whether all waiting requests may have the page before it is complete.
    pub is_shared: bool,
    /// It is in progress until it is dropped.
    pub _open: OpenWork,
}

impl FillJob {
    /// Runs the script and gives the waiting requests their responses.
    pub async fn run(mut self, lead: Lead) {
        self.thread.context.stats.add(Counter::CacheFills, 1);
        let mut request = self.request.derived(self.request.head.path_query(), |_| true, &[]);
        request.hints = self.request.hints.take();
        let mut reply = (self.make)(request).await;
        self.thread.context.clock.read();
        if reply.is_turned_away() {
            return self.turn_away(lead, reply);
        }
        let aside = reply.aside.take().unwrap_or_default();
        self.purge(&reply, &aside);
        if let Some((page, terms)) = self.previous.take().filter(|_| reply.status == 304) {
            return self.freshen(lead, &page, &terms, &reply, &aside);
        }
        if aside.handed().is_some() {
            // The response's sender sends the file; there is no page.
            let remember = self.rules.remember_refusal;
            let tags = self.tags(remember, &reply, &aside);
            self.note(&lead, &reply, &aside, Some(Refusal::HandedOver));
            reply.aside = Some(aside);
            return self.refuse(lead, reply, Refusal::HandedOver, remember, tags);
        }
        let failed = reply.status >= 500 && !matches!(reply.body, Body::Stream(_));
        if failed && self.rules.mode == Mode::Profile {
            return self.fail(lead, reply, &aside);
        }
        self.take(lead, reply, aside, failed).await
    }

    /// Stores or refuses a response; `failed`: its status is one of an error.
    async fn take(mut self, lead: Lead, mut reply: Reply, aside: Box<Aside>, failed: bool) {
        let content = match &reply.body {
            Body::Bytes(content) => content.as_slice(),
            _ => &[],
        };
        match (self.judge(&reply, &aside, content), std::mem::replace(&mut reply.body, Body::Empty)) {
            (Verdict::Store { terms, .. }, Body::Stream(stream)) => {
                // What the script looks for is known at its end; those who wait for it know whether they have such cookies.
                self.is_shared = settle::is_public(&reply) && self.is_for_all_now(&lead, &terms);
                self.grow(lead, reply, stream, aside).await
            }
            (Verdict::Store { terms, keep }, body) => {
                let content = match body {
                    Body::Bytes(content) => content,
                    _ => Vec::new(),
                };
                let noted = self.grounds(&reply, &aside, None);
                self.keep(lead, &reply, content, &keep, terms, noted).await;
            }
            (Verdict::Refuse { .. }, body) if failed => {
                reply.body = body;
                self.fail(lead, reply, &aside);
            }
            (Verdict::Refuse { why, remember }, body) => {
                self.note(&lead, &reply, &aside, Some(why));
                reply.body = body;
                settle::tell_crawler(&self.request, &mut reply, &aside);
                let tags = self.tags(remember, &reply, &aside);
                self.refuse(lead, reply, why, remember, tags);
            }
        }
    }

    fn now(&self) -> Millis {
        self.thread.cache.now(&self.thread.context)
    }

    fn place(&self) -> Place<'_> {
        settle::place(&self.site, &self.request, &self.path)
    }

    fn purge(&self, reply: &Reply, aside: &Aside) {
        if !aside.fields.is_empty() {
            settle::purge(&self.thread, &self.rules, &self.place(), "GET", reply, aside);
        }
    }

    fn judge(&self, reply: &Reply, aside: &Aside, content: &[u8]) -> Verdict {
        if reply.body.length().is_some_and(|length| length > self.rules.largest_page as u64) {
            return Verdict::Refuse { why: Refusal::TooLarge, remember: self.rules.remember_refusal };
        }
        // PHP saw which codings the first client accepts, and chose one.
        if self.rules.faithful && reply.fields.has("content-encoding") {
            return Verdict::Refuse { why: Refusal::Vary, remember: self.rules.remember_refusal };
        }
        let answer = answer(reply, aside, content, self.country());
        judge(&self.rules, &self.place(), &self.asking, &answer, self.now())
    }

    /// What decided the judgement on a response.
    fn grounds(&self, reply: &Reply, aside: &Aside, why: Option<Refusal>) -> Grounds {
        let answer = answer(reply, aside, &[], self.country());
        grounds(&self.rules, &self.place(), &self.asking, &answer, why, self.now())
    }

    /// Counts a response that is not stored, and notes why; `None`: PHP has failed.
    fn note(&self, lead: &Lead, reply: &Reply, aside: &Aside, why: Option<Refusal>) {
        let grounds = self.grounds(reply, aside, Some(why.unwrap_or(Refusal::Status)));
        let (status, outcome) = (reply.status, why.map_or(Refusal::Failed.word(), Refusal::word));
        let name = self.site.name().unwrap_or("");
        let read = grounds.call.as_deref().map(|place| format!("{} by {place}", grounds.text));
        let cause = grounds.because.as_deref().unwrap_or(match why {
            Some(Refusal::SetCookie | Refusal::Vary) => &*grounds.text,
            Some(Refusal::Fields) => read.as_deref().unwrap_or(&*grounds.text),
            None | Some(Refusal::Status) => &*grounds.text,
            _ => grounds.source,
        });
        self.thread.context.stats.refused(name, self.thread.context.clock.now(), outcome, Some(cause));
        let answer = NotedResponse { at: self.now(), key: lead.key().into(), status, outcome, grounds };
        self.thread.cache.lately.note(answer);
    }

    /// Tags whose purge makes the cache forget that a response is uncacheable; none if this is not remembered.
    fn tags(&self, remember: Millis, reply: &Reply, aside: &Aside) -> Box<[Tag]> {
        if remember == 0 {
            return Box::default();
        }
        tags(&self.rules, &self.place(), &answer(reply, aside, &[], None))
    }

    fn country(&self) -> Option<Country> {
        self.site.visitors.country(&self.thread.context, &self.request)
    }

    /// The page is complete: compresses and stores it.
    async fn keep(
        self,
        lead: Lead,
        reply: &Reply,
        content: Vec<u8>,
        keep: &Keep,
        terms: Terms,
        grounds: Grounds,
    ) {
        let page = self.page(reply, content, keep);
        if make::lacks_any(&page) {
            // Takes a millisecond or two; without it, all requests would get the plain form in the meantime.
            let _ = self.thread.cache.compressor.soon(&page).await;
            self.thread.context.clock.read();
        }
        self.store(lead, page, terms, grounds);
    }

    fn store(&self, lead: Lead, page: Arc<Page>, terms: Terms, grounds: Grounds) {
        let (now, begun, age) = (self.now(), lead.begun, terms.age);
        let is_for_all = lead.is_for_all(&terms.vary);
        lead.end(|cache, ticket| {
            let key: Box<[u8]> = ticket.key().into();
            let stored = self.with_select(|select| {
                cache.lock(Lead::shard(cache, &ticket)).store(ticket, select, page.clone(), terms, now)
            });
            cache.has_stored(&self.site, &key, &page, stored, begun);
            let refused = cache_status::not_stored(stored);
            let (at, outcome) = (now, refused.unwrap_or(NotedResponse::STORED));
            for read in grounds.reads.iter() {
                self.thread.context.stats.varied(
                    self.site.name().unwrap_or(""),
                    self.thread.context.clock.now(),
                    read,
                );
            }
            cache.lately.note(NotedResponse { at, key, status: page.status, outcome, grounds });
            Brought { page, age, refused }.outcome(is_for_all)
        });
    }

    /// Passes to `use_it` the request's values of the fields by which pages vary.
    fn with_select<T>(&self, use_it: impl FnOnce(Select<'_>) -> T) -> T {
        use_it(&mut settle::selector(&self.thread, &self.site, &self.rules, &self.request))
    }

    fn page(&self, reply: &Reply, content: Vec<u8>, keep: &Keep) -> Arc<Page> {
        let made = make::MadePage {
            status: reply.status,
            reason: reply.reason.clone(),
            fields: reply.fields.blocks(),
            keep,
            content,
            // If only standard fields count, nothing is added to them.
            tagged: self.rules.mode == Mode::Profile,
        };
        make::page(made, self.now())
    }

    /// PHP says that the page is still valid (RFC 9111 section 4.3.4).
    fn freshen(self, lead: Lead, page: &Arc<Page>, terms: &Terms, reply: &Reply, aside: &Aside) {
        let (answer, now) = (answer(reply, aside, &[], self.country()), self.now());
        // If the content can't be unpacked, it can be neither searched nor sent.
        let form = make::uncoded(page);
        let content = form.as_deref().map_or(&[][..], |form| form.body());
        let grounds = self.grounds(reply, aside, None);
        match freshen(&self.rules, &self.place(), &self.asking, (page, content), terms, &answer, now) {
            Ok(Freshened { terms, fields, last_modified }) => {
                let noted = NotedResponse::confirmed(lead.key(), now, grounds);
                self.thread.cache.lately.note(noted);
                let new = fields.map(|fields| make::with_fields(page, fields, last_modified, now));
                let sent = new.clone().unwrap_or_else(|| page.clone());
                let (begun, age) = (lead.begun, terms.age);
                let is_for_all = lead.is_for_all(&terms.vary);
                lead.end(|cache, ticket| {
                    let (shard, key) = (Lead::shard(cache, &ticket), Box::from(ticket.key()));
                    let kept =
                        self.with_select(|select| cache.lock(shard).freshen(ticket, select, new, terms, now));
                    if let Some(page) = &kept {
                        cache.write(&self.site, &key, page, begun);
                    }
                    let refused =
                        if kept.is_some() { None } else { cache_status::not_stored(StoreOutcome::Purged) };
                    Brought { page: sent, age, refused }.outcome(is_for_all)
                });
            }
            // It was valid for this one use.
            Err(why) => {
                let is_for_all = lead.is_for_all(&terms.vary);
                let brought = Brought { page: page.clone(), age: 0, refused: Some(why.word()) };
                lead.end(|cache, ticket| {
                    Lead::abandon(cache, ticket);
                    brought.outcome(is_for_all)
                });
            }
        }
    }

    fn turn_away(mut self, lead: Lead, reply: Reply) {
        self.thread.context.stats.add(Counter::CacheFillsFailed, 1);
        // The client that has sent too many requests, or is banned, learns that; the others don't.
        if let Some(private) = self.private.take().filter(|_| matches!(reply.status, 403 | 429)) {
            // It may have gone.
            let _ = private.send(reply);
        }
        lead.end(|cache, ticket| {
            Lead::abandon(cache, ticket);
            FillOutcome::TurnedAway(self.request.ends.client_ip())
        });
    }

    fn fail(self, lead: Lead, mut reply: Reply, aside: &Aside) {
        self.thread.context.stats.add(Counter::CacheFillsFailed, 1);
        let content = match std::mem::replace(&mut reply.body, Body::Empty) {
            Body::Bytes(content) => content,
            _ => Vec::new(),
        };
        self.note(&lead, &reply, &Aside::default(), None);
        let fit = aside.notes.fields.is_empty() && self.is_fit_for_all(&lead, &reply);
        let page = self.page(&reply, content, &Keep::default());
        lead.end(|cache, ticket| {
            Lead::abandon(cache, ticket);
            FillOutcome::Failed(page, fit)
        });
    }

    /// Whether other clients may see an error's content: only if it could be a page.
    fn is_fit_for_all(&self, lead: &Lead, reply: &Reply) -> bool {
        let (fields, notes) = (reply.fields.iter(), &Default::default());
        let answer = Answer { status: 200, fields, notes, country: None, content: &[], failed: false };
        match judge(&self.rules, &self.place(), &self.asking, &answer, self.now()) {
            Verdict::Store { terms, .. } => self.is_for_all_now(lead, &terms),
            Verdict::Refuse { .. } => false,
        }
    }

    /// Whether waiting requests may have what is there before the script has said which cookies it has looked for: those that have
    /// some, decide for themselves.
    fn is_for_all_now(&self, lead: &Lead, terms: &Terms) -> bool {
        let fields: Vec<_> = terms.vary.iter().filter(|name| !name.starts_with(READS)).cloned().collect();
        lead.is_for_all(&fields) && !settle::has_withheld_cookies(&self.rules, &self.request)
    }

    /// The response is for one request only.
    fn refuse(mut self, lead: Lead, mut reply: Reply, why: Refusal, remember: Millis, tags: Box<[Tag]>) {
        cache_status::refused(&mut reply, self.cache_status, why);
        if why == Refusal::Cookie {
            let moment =
                StoreMoment { ticks: self.thread.context.clock.ticks(), purges: self.thread.cache.purges() };
            passed::note(passed::with_cookies(Key::new(lead.key())), moment);
        }
        if let Some(private) = self.private.take() {
            // The first client may have gone.
            let _ = private.send(reply);
        }
        self.pass(lead, remember, tags);
    }

    /// Later requests don't wait for a fill for this long, unless one of the tags is purged.
    fn pass(&self, lead: Lead, remember: Millis, tags: Box<[Tag]>) {
        let until = self.now() + remember;
        lead.end(|cache, ticket| {
            let mut shard = cache.lock(Lead::shard(cache, &ticket));
            if remember > 0 {
                shard.pass(ticket, tags, until);
            } else {
                shard.abandon(ticket);
            }
            FillOutcome::Alone
        });
    }

    /// The script is still writing. If it is not done soon, the first client gets what is there, and the others too
    /// if the response is public; the whole page is stored in the end.
    async fn grow(
        mut self,
        lead: Lead,
        reply: Reply,
        mut stream: Box<dyn ContentSource>,
        mut aside: Box<Aside>,
    ) {
        let growing = Arc::new(Growing::default());
        let draft = Arc::new(Draft {
            status: reply.status,
            reason: reply.reason.clone(),
            fields: reply.fields.clone(),
            length: stream.length(),
            growing: growing.clone(),
        });
        let most = self.rules.largest_page;
        let (mut piece, mut total) = (Vec::new(), 0);
        let mut patience = std::pin::pin!(tokio::time::sleep(PATIENCE));
        let mut is_open = false;
        let whole = loop {
            let more = tokio::select! {
                biased;
                more = stream.next(&mut piece) => more,
                () = &mut patience, if !is_open => {
                    is_open = true;
                    self.open(&lead, &draft);
                    continue;
                }
            };
            match more {
                Ok(true) => {
                    total += piece.len();
                    growing.push(&piece);
                    piece.clear();
                }
                Ok(false) => break true,
                Err(_) => break false,
            }
            if total > most {
                self.open(&lead, &draft);
                let tags = self.tags(self.rules.remember_refusal, &reply, &aside);
                self.note(&lead, &reply, &aside, Some(Refusal::TooLarge));
                return self.pass_on(lead, tags, stream, &growing).await;
            }
        };
        if !whole && !is_open {
            // No client has seen a byte of it.
            return self.fail(lead, plain(502), &aside);
        }
        self.thread.context.clock.read();
        growing.end(whole);
        if let Some(said) = stream.take_aside() {
            aside.hear(*said);
        }
        aside.failed |= !whole;
        let content = growing.whole();
        match self.judge(&reply, &aside, &content) {
            Verdict::Store { terms, keep } => {
                let noted = self.grounds(&reply, &aside, None);
                self.keep(lead, &reply, content, &keep, terms, noted).await;
            }
            Verdict::Refuse { why, remember } => {
                self.note(&lead, &reply, &aside, Some(why));
                let tags = self.tags(remember, &reply, &aside);
                self.refuse(lead, reply.body(Body::Bytes(content)), why, remember, tags)
            }
        }
    }

    /// Sends a page that is still being made to the requests that may have it.
    fn open(&mut self, lead: &Lead, draft: &Arc<Draft>) {
        if let Some(private) = self.private.take()
            && let Some(mut first) = draft.reply(false)
        {
            cache_status::streamed(&mut first, self.cache_status);
            // The first client may have gone.
            let _ = private.send(first);
            if self.is_shared {
                lead.fill.set(FillState::Open(draft.clone()));
            }
        }
    }

    /// The page has become too large for the cache: its current readers get the rest.
    async fn pass_on(
        self,
        lead: Lead,
        tags: Box<[Tag]>,
        mut stream: Box<dyn ContentSource>,
        growing: &Growing,
    ) {
        self.pass(lead, self.rules.remember_refusal, tags);
        let mut piece = Vec::new();
        while growing.pass().await {
            match stream.next(&mut piece).await {
                Ok(true) => growing.push(&piece),
                other => return growing.end(matches!(other, Ok(false))),
            }
            piece.clear();
        }
    }
}

/// What the rules judge: the fields, including the ones for the server, and what the script reported by functions.
pub(super) fn answer<'a>(
    reply: &'a Reply,
    aside: &'a Aside,
    content: &'a [u8],
    country: Option<Country>,
) -> Answer<'a, impl Iterator<Item = (&'a str, &'a [u8])> + Clone> {
    let fields = reply.fields.iter().chain(aside.fields.iter());
    Answer { status: reply.status, fields, notes: &aside.notes, country, content, failed: aside.failed }
}
