//! One request that must wait: its content is still arriving, PHP has to run, or a file has to be compressed. The
//! common part of all protocols; each protocol reads content and sends the response itself.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use millrace_settings::Plan;
use millrace_wire::head::Framing;

use super::auth_script;
use super::site_rules;
use super::walk::{Make, Maker, WalkStep};
use super::{ServeThread, SharedSetup, hand_over, leave, respond};
use crate::audience;
use crate::cache::{self, CacheStatus, Waited};
use crate::htaccess::Origin;
use crate::proxy;
use crate::shield::Missing;
use millrace_base::context::log::{AccessEntry, LoggedRequest};
use millrace_base::context::stats::{Counter, ResponseClass};
use millrace_base::context::{OpenWork, WorkKind};
use millrace_base::message::reply::{self, Reply, passing};
use millrace_base::message::{Request, Step};
use millrace_base::site::{Script, Site};
use millrace_pools as php;
use millrace_pools::{PhpService, SiteWorkers};

/// The status in the access log for a request whose client left before its response was ready, as in nginx.
pub const CLIENT_GONE: u16 = 499;

/// How often a request waits for a page that others bring - another variant, or a refusal - before the script runs for
/// it alone.
const MOST_WAITS: u32 = 3;

/// Why a request gets no response, or another one than it asked for.
pub enum ExchangeTrouble {
    /// The client has gone, or was shed.
    Gone,
    /// It gets this response, and no more of its content is read.
    Answer(Reply),
}

/// The response to a request whose content can't be accepted.
pub fn refusal(status: u16) -> ExchangeTrouble {
    let mut reply = reply::plain(status);
    reply.close = true;
    ExchangeTrouble::Answer(reply)
}

/// A site's response when there is no room. In a few seconds there may be some: slow connections have been closed by
/// then.
pub fn no_room(site: &Site) -> Reply {
    let mut reply = Reply { close: true, ..reply::plain(503) }.with("Retry-After", "5");
    leave(site, &mut reply);
    reply
}

/// Counts a response that is sent at once, and logs it in the access log.
pub fn record_at_once(
    thread: &ServeThread,
    site: &Site,
    request: &Request,
    class: ResponseClass,
    reply: &Reply,
) {
    let bytes = if request.is_head() { 0 } else { reply.body.length().unwrap_or(0) };
    thread.context.stats.count_site_reply(site.number, reply.status, bytes);
    thread.context.stats.took(class, Duration::ZERO, Duration::ZERO);
    let (asked, client) = (logged(site, request), request.ends.client_ip());
    let entry = AccessEntry { asked, client, status: reply.status, bytes, duration: Duration::ZERO };
    thread.context.access.record(&thread.context, &entry);
}

/// A request for the access log.
fn logged<'a>(site: &'a Site, request: &'a Request) -> LoggedRequest<'a> {
    LoggedRequest::Request { head: &request.head, host: request.authority(), site: site.name() }
}

/// Counts the requests that wait for PHP.
async fn awaiting_php<T>(thread: &ServeThread, answer: impl Future<Output = T>) -> T {
    struct WaitingCount<'a>(&'a ServeThread);

    impl Drop for WaitingCount<'_> {
        fn drop(&mut self) {
            self.0.context.stats.sub(Counter::AwaitPhp, 1);
        }
    }

    thread.context.stats.add(Counter::AwaitPhp, 1);
    let _waiting = WaitingCount(thread);
    answer.await
}

/// The client of an exchange, as its protocol sees it.
pub trait ExchangeClient {
    /// Reads the content of `request` into it, at most `most` bytes.
    async fn read_content(
        &mut self,
        thread: &Rc<ServeThread>,
        request: &mut Request,
        plan: &Plan,
        most: u64,
    ) -> Result<(), ExchangeTrouble>;

    /// Makes the content of `request`, at most `most` bytes, a stream that is read while it arrives.
    async fn stream_content(
        &mut self,
        thread: &Rc<ServeThread>,
        request: &mut Request,
        plan: &Plan,
        most: u64,
    ) -> Result<(), ExchangeTrouble>;

    /// Ready when the client has gone.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// A request on the way to its response.
pub struct Exchange {
    /// The request.
    pub request: Request,
    /// Its site.
    pub site: Arc<SiteWorkers>,
    /// The configuration under which it began.
    setup: SharedSetup,
    started: Instant,
    /// What makes its response.
    class: ResponseClass,
    /// How its walk has ended, if it has.
    step: Option<WalkStep>,
    /// The script got its own entity-tags back, which its client has as weak ones.
    restored: bool,
    /// It is in progress until it is dropped; what becomes a tunnel is no request any more.
    _open: Option<OpenWork>,
}

impl Exchange {
    /// A request that starts now.
    pub fn new(
        thread: &ServeThread,
        setup: &SharedSetup,
        site: &Arc<SiteWorkers>,
        request: Request,
    ) -> Exchange {
        let (started, class) = (thread.context.clock.now(), ResponseClass::Other);
        let (site, setup) = (site.clone(), setup.clone());
        let _open = Some(thread.context.begin(WorkKind::Request));
        Exchange { request, site, setup, started, class, step: None, restored: false, _open }
    }

    /// The same, with responses made by `class`.
    pub fn of(self, class: ResponseClass) -> Exchange {
        Exchange { class, ..self }
    }

    /// The same, with the end of its walk.
    pub fn with(self, class: ResponseClass, step: WalkStep) -> Exchange {
        Exchange { class, step: Some(step), ..self }
    }

    /// Whether its response is ready or depends on nothing that must still arrive.
    pub fn is_ready(&self) -> bool {
        matches!(self.step, Some(Step::Answer(_)))
    }

    /// Waits for the response.
    pub async fn answer(
        &mut self,
        thread: &Rc<ServeThread>,
        client: &mut impl ExchangeClient,
    ) -> Result<Reply, ExchangeTrouble> {
        match self.reply(thread, client).await {
            Ok(mut reply) => {
                if matches!(self.class, ResponseClass::Php | ResponseClass::Proxy) {
                    let origin = if reply.is_turned_away() { Origin::Server } else { Origin::Script };
                    site_rules::change(thread, &self.site, &self.request, origin, &mut reply);
                }
                if reply.is_tunnel() {
                    self._open = None;
                }
                leave(&self.site, &mut reply);
                Ok(reply)
            }
            Err(ExchangeTrouble::Answer(mut reply)) => {
                leave(&self.site, &mut reply);
                Err(ExchangeTrouble::Answer(reply))
            }
            Err(ExchangeTrouble::Gone) => Err(ExchangeTrouble::Gone),
        }
    }

    /// Time since the request arrived.
    pub fn elapsed(&self, thread: &ServeThread) -> Duration {
        thread.context.clock.now().duration_since(self.started)
    }

    /// Counts a response whose first byte was sent after `first_byte`, and logs it in the access log.
    pub fn record(&self, thread: &ServeThread, status: u16, bytes: u64, first_byte: Duration) {
        thread.context.stats.count_site_reply(self.site.number, status, bytes);
        thread.context.stats.took(self.class, first_byte, self.elapsed(thread));
        self.log(thread, status, bytes);
    }

    /// Writes a line of the access log.
    pub fn log(&self, thread: &ServeThread, status: u16, bytes: u64) {
        let duration = self.elapsed(thread);
        let (asked, client) = (logged(&self.site, &self.request), self.request.ends.client_ip());
        thread
            .context
            .access
            .record(&thread.context, &AccessEntry { asked, client, status, bytes, duration });
    }

    async fn reply(
        &mut self,
        thread: &Rc<ServeThread>,
        client: &mut impl ExchangeClient,
    ) -> Result<Reply, ExchangeTrouble> {
        let mut waits = 0;
        loop {
            let step = match self.step.take() {
                Some(step) => step,
                None => self.walk(thread),
            };
            return match step {
                Step::Answer(reply) => Ok(reply),
                Step::Wait(waiting) => match waiting.await {
                    Some(reply) => Ok(reply),
                    None => continue,
                },
                Step::Make(Make { maker, page: Some(page), .. }) => {
                    match self.page(thread, &maker, page).await {
                        Waited::Reply(reply) | Waited::Late(reply) => {
                            Ok(self.shared(thread, &maker, reply).await)
                        }
                        Waited::Again if waits < MOST_WAITS => {
                            waits += 1;
                            continue;
                        }
                        _ => self.make(thread, client, &maker, CacheStatus::PASS).await,
                    }
                }
                Step::Make(Make { maker: Maker::Permission(rule), .. }) => {
                    match self.ask(thread, client, rule).await? {
                        Step::Answer(reply) => Ok(reply),
                        _ => continue,
                    }
                }
                Step::Make(Make { maker, cache_status, page: None }) => {
                    self.make(thread, client, &maker, cache_status).await
                }
                // Only crowd loops return this, and they begin no exchange.
                Step::Next | Step::Refuse(_) | Step::Elsewhere => Ok(reply::plain(503)),
            };
        }
    }

    fn walk(&mut self, thread: &Rc<ServeThread>) -> WalkStep {
        let (class, step) = respond(thread, &self.site, &mut self.request);
        self.class = class;
        step
    }

    /// Waits for a page that is being made for all.
    async fn page(&self, thread: &ServeThread, maker: &Maker, page: impl Future<Output = Waited>) -> Waited {
        match maker {
            Maker::Script(script) => self.unless_idle(awaiting_php(thread, page).await, script),
            // How many requests an application takes at once is unknown.
            _ => page.await,
        }
    }

    /// The response from a page that was made for all.
    async fn shared(&self, thread: &Rc<ServeThread>, maker: &Maker, reply: Reply) -> Reply {
        let Maker::Script(script) = maker else { return reply };
        if let Some(refusal) = self.scanned(thread, &reply) {
            return refusal;
        }
        let reply = php::seat(&thread.php, &self.site, &self.request, script, reply);
        let mut reply = self.hand_over(thread, script, reply).await;
        self.compress(thread, &mut reply);
        reply
    }

    /// Has the response made for this request alone.
    async fn make(
        &mut self,
        thread: &Rc<ServeThread>,
        client: &mut impl ExchangeClient,
        maker: &Maker,
        cache_status: CacheStatus,
    ) -> Result<Reply, ExchangeTrouble> {
        match maker {
            Maker::Script(script) => self.script(thread, client, script, cache_status).await,
            Maker::Application(number) => self.proxy(thread, client, *number, cache_status).await,
            Maker::Permission(_) => Ok(reply::plain(500)),
        }
    }

    /// A page that takes long need not be in trouble: its script runs for this request, too, if that
    /// leaves a worker for others.
    fn unless_idle(&self, waited: Waited, script: &Script) -> Waited {
        match waited {
            Waited::Late(_) if self.site.service_of(script.workers).is_some_and(PhpService::has_room) => {
                Waited::Alone
            }
            waited => waited,
        }
    }

    /// Asks a script whether the request may pass: `Next`, or the script's response if it refuses. The content is not read yet.
    async fn ask(
        &mut self,
        thread: &Rc<ServeThread>,
        client: &mut impl ExchangeClient,
        rule: u32,
    ) -> Result<WalkStep, ExchangeTrouble> {
        let gone = poll_fn(|cx| client.poll_gone(cx));
        // Boxed: otherwise the future of each exchange would be as large as this one.
        let asking = Box::pin(auth_script::ask(thread, &self.site, &mut self.request, rule, gone));
        match awaiting_php(thread, asking).await? {
            Step::Answer(mut reply) => {
                self.class = ResponseClass::Other;
                site_rules::change(thread, &self.site, &self.request, Origin::Server, &mut reply);
                Ok(Step::Answer(reply))
            }
            step => Ok(step),
        }
    }

    /// The refusal of a client that requests too much that is not there.
    fn scanned(&self, thread: &ServeThread, reply: &Reply) -> Option<Reply> {
        let missing = Missing::by_script(reply);
        (reply.status == 404)
            .then(|| thread.shield.not_found(&thread.context, &self.site, &self.request, missing))?
    }

    /// Runs a script for this request alone.
    async fn script(
        &mut self,
        thread: &Rc<ServeThread>,
        client: &mut impl ExchangeClient,
        script: &Script,
        cache_status: CacheStatus,
    ) -> Result<Reply, ExchangeTrouble> {
        self.content(thread, client, false).await?;
        self.site.content.note(self.request.content.length());
        let seen = thread.shield.look(&thread.context, &self.site, &self.request, script);
        let pass = thread.shield.admit(&thread.context, &self.site, seen, &mut self.request).await;
        let _pass = match pass {
            Ok(pass) => pass,
            Err(refusal) => return Ok(php::seat(&thread.php, &self.site, &self.request, script, refusal)),
        };
        if self.site.plan.compress_php {
            let Request { head, forwarded_host, .. } = &mut self.request;
            self.restored = passing::restore_tags(head, forwarded_host.as_deref());
        }
        // If its client goes while it waits for a worker, it should not get one.
        let gone = poll_fn(|cx| client.poll_gone(cx));
        let running = php::run_while(&thread.php, &self.site, &mut self.request, script, gone);
        let reply = awaiting_php(thread, running).await;
        let reply = reply.ok_or(ExchangeTrouble::Gone)?;
        thread.shield.checked(&thread.context, seen, reply.status);
        if let Some(refusal) = self.scanned(thread, &reply) {
            return Ok(refusal);
        }
        let mut reply = php::seat(&thread.php, &self.site, &self.request, script, reply);
        // A script that is an error document, and sets no status itself.
        if let Some(status) = self.request.found.ruling.as_ref().and_then(|ruling| ruling.verdict.status)
            && reply.status == 200
        {
            reply.status = status;
        }
        audience::watch(&thread.pages, &self.site.site, &self.request, &mut reply, cache_status);
        cache::settle(&thread.pages, &self.site.site, &self.request, &mut reply, cache_status);
        let mut reply = self.hand_over(thread, script, reply).await;
        self.compress(thread, &mut reply);
        Ok(reply)
    }

    /// Reads the content, or begins to pass it on; at most as much as the site accepts.
    async fn content(
        &mut self,
        thread: &Rc<ServeThread>,
        client: &mut impl ExchangeClient,
        streams: bool,
    ) -> Result<(), ExchangeTrouble> {
        let (most, plan) = (self.site.plan.body_bytes, &self.setup.plan);
        let read = match streams {
            true => client.stream_content(thread, &mut self.request, plan, most).await,
            false => client.read_content(thread, &mut self.request, plan, most).await,
        };
        if let Err(ExchangeTrouble::Answer(reply)) = &read
            && reply.status == 413
        {
            let announced = match self.request.head.framing() {
                Framing::Length(length) => length,
                _ => most.saturating_add(1),
            };
            self.site.content.note_refused(announced);
        }
        read
    }

    /// Passes the request to an application.
    async fn proxy(
        &mut self,
        thread: &Rc<ServeThread>,
        client: &mut impl ExchangeClient,
        number: usize,
        cache_status: CacheStatus,
    ) -> Result<Reply, ExchangeTrouble> {
        // What follows a switch of protocols is no content.
        if self.request.protocol.is_none() {
            let streams = self.site.plan.proxies[number].stream_request;
            self.content(thread, client, streams).await?;
        }
        // Boxed: otherwise the future of each exchange would be as large as this one.
        let running = Box::pin(proxy::run(&thread.proxy, &self.site.plan.proxies[number], &mut self.request));
        let mut reply = tokio::select! {
            biased;
            reply = running => reply,
            () = poll_fn(|cx| client.poll_gone(cx)) => return Err(ExchangeTrouble::Gone),
        };
        if self.site.plan.proxies[number].cache {
            cache::settle_proxied(&thread.pages, &self.site, &self.request, &mut reply, cache_status);
        }
        Ok(reply)
    }

    /// Compresses a script's response to this client alone. Cached pages, and files that a script hands over, already
    /// have their codings.
    fn compress(&self, thread: &ServeThread, reply: &mut Reply) {
        if !self.site.plan.compress_php {
            return;
        }
        let request = &self.request;
        let resource = (request.authority(), request.head.path_query());
        let asked = passing::CodingRequest { head: &request.head, resource, restored: self.restored };
        if passing::compress(reply, &asked, self.setup.plan.files.compress_from) {
            thread.context.stats.add(Counter::PhpCompressed, 1);
        }
    }

    /// The file that a script may have handed over instead of its own response.
    async fn hand_over(&self, thread: &Rc<ServeThread>, script: &Script, reply: Reply) -> Reply {
        match &reply.aside {
            None => reply,
            Some(_) => hand_over(thread, &self.site, &self.request, script, reply).await,
        }
    }
}
