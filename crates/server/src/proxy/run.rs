//! The attempts of a request, and the response if all of them fail.

use std::cell::RefCell;
use std::rc::Rc;

use millrace_settings::plan::Proxy;
use millrace_wire::path::normalise;

use super::application::InProgress;
use super::connect::{AppConnection, ConnectError, KnownApplication, ProxyThread};
use super::content::{AppContent, ContentTerms};
use super::exchange::{AppExchange, Begun, ExchangeError};
use super::head;
use super::switch::Switch;
use super::tunnel::AppTunnel;
use super::upload::AppUpload;
use crate::context::stats::Counter;
use crate::message::Request;
use crate::message::reply::{Body, Reply, plain};
use crate::message::request::Content;

/// A larger buffer is not kept.
const BUFFER_KEEP: usize = 64 << 10;

thread_local! {
    /// For header sections; taken while a request is sent.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Passes a request, whose content has been read, to the application of a proxy; returns the response as soon as its
/// fields are known, and 502, 504 or 508 if there is none. Dropping the future ends the request at the application.
pub async fn run(thread: &Rc<ProxyThread>, proxy: &Proxy, request: &mut Request) -> Reply {
    if head::is_loop(request) {
        thread.process.log.error(format_args!(
            "{}{} goes in a circle: proxy.to leads back to this server; correct it",
            request.authority(),
            String::from_utf8_lossy(request.raw_path())
        ));
        return plain(508);
    }
    let mut path = Vec::new();
    if normalise(request.raw_path(), &mut path).is_err() {
        return plain(400);
    }
    thread.stats.add(Counter::ProxyRequests, 1);
    let (mut tried, mut retries) = (Vec::new(), proxy.retries);
    loop {
        let application = thread.choose(proxy, &tried);
        let attempt = Attempt { thread, proxy, path: &path, application };
        // After a failure, other idle connections may have been closed for the same reason.
        let is_fresh = !tried.is_empty() || !request.is_idempotent();
        let failure = match attempt.run(request, is_fresh).await {
            Ok(reply) => return reply,
            Err(failure) => failure,
        };
        thread.clock.read();
        if !failure.may_repeat(request) || (retries == 0 && !failure.is_stale) {
            return attempt.give_up(request, &failure);
        }
        retries -= usize::from(!failure.is_stale);
        thread.stats.add(Counter::ProxyRetried, 1);
        tried.push(attempt.application.shared.clone());
    }
}

/// One attempt.
struct Attempt<'a> {
    thread: &'a Rc<ProxyThread>,
    proxy: &'a Proxy,
    path: &'a [u8],
    application: Rc<KnownApplication>,
}

/// Why an attempt failed.
struct AttemptFailure {
    cause: FailureCause,
    /// Some of the request may have arrived there.
    is_sent: bool,
    /// It was on a connection that was used before, and nothing came back: it may have been closed before the request was
    /// sent.
    is_stale: bool,
}

enum FailureCause {
    Connect(ConnectError),
    Exchange(ExchangeError),
}

impl AttemptFailure {
    /// Whether the request may be tried again. A time limit or an invalid response is no reason: the application has
    /// got the request.
    fn may_repeat(&self, request: &Request) -> bool {
        match &self.cause {
            FailureCause::Connect(_) => true,
            FailureCause::Exchange(ExchangeError::Lost(_) | ExchangeError::Cut) => {
                !self.is_sent || request.is_idempotent()
            }
            FailureCause::Exchange(_) => false,
        }
    }

    fn status(&self) -> u16 {
        match &self.cause {
            FailureCause::Connect(ConnectError::Late) | FailureCause::Exchange(ExchangeError::Late(_)) => 504,
            _ => 502,
        }
    }
}

impl Attempt<'_> {
    async fn run(&self, request: &mut Request, is_fresh: bool) -> Result<Reply, AttemptFailure> {
        let idle = if is_fresh { None } else { self.thread.idle(&self.application) };
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let was_used = connection.is_used;
        let mut buffer = BUFFER.take();
        buffer.clear();
        let switch = Switch::wanted(self.proxy, request);
        let url = &self.application.shared.url;
        head::write(self.proxy, url, request, self.path, switch.as_ref(), &mut buffer);
        let upload = AppUpload::new(buffer, std::mem::take(&mut request.content));
        let progress = self.application.shared.begin();
        // A page of the cache is for clients that don't get any.
        let takes_trailers = request.takes_trailers() && !request.is_shared;
        let exchange = AppExchange::new(connection, upload, request.is_head(), switch);
        let mut exchange = exchange.with_trailers(takes_trailers);
        match exchange
            .begin(request.hints.as_ref(), self.proxy.response_timeout, self.proxy.read_timeout)
            .await
        {
            Ok(begun) => {
                self.thread.clock.read();
                self.application.shared.succeeds(&self.thread.process.log);
                Ok(self.reply(request, exchange, begun, progress))
            }
            Err(error) => {
                let (is_sent, heard) = (exchange.upload.is_begun(), exchange.heard);
                request.content = keep_buffer(exchange.upload);
                let is_lost = matches!(error, ExchangeError::Lost(_) | ExchangeError::Cut);
                let is_stale = is_lost && was_used && !heard;
                Err(self.note(AttemptFailure { cause: FailureCause::Exchange(error), is_sent, is_stale }))
            }
        }
    }

    async fn connect(&self) -> Result<AppConnection, AttemptFailure> {
        let connected = self.thread.connect(&self.application, self.proxy).await;
        connected.map_err(|error| {
            self.note(AttemptFailure { cause: FailureCause::Connect(error), is_sent: false, is_stale: false })
        })
    }

    /// Notes a failure of the application. An idle connection that it has closed is none.
    fn note(&self, failure: AttemptFailure) -> AttemptFailure {
        if !failure.is_stale {
            self.thread.clock.read();
            let now = self.thread.shared.at(self.thread.clock.now());
            let is_refused = matches!(failure.cause, FailureCause::Connect(_));
            self.application.shared.fails(&self.thread.process.log, is_refused, now, &failure.why());
        }
        failure
    }

    fn reply(&self, request: &Request, exchange: AppExchange, begun: Begun, progress: InProgress) -> Reply {
        let Begun { outline, head, content } = begun;
        if let Some(status) = head.switched {
            let (thread, patience) = (self.thread, self.proxy.websocket_timeout);
            let tunnel = AppTunnel::new(thread, exchange.connection, content, patience, progress);
            let mut reply = Reply { fields: head.fields, ..Reply::new(status) };
            reply.aside.get_or_insert_default().tunnel = Some(Box::new(tunnel));
            return reply;
        }
        if request.protocol.is_some() && (200..300).contains(&outline.status) {
            // To the client, this status would mean that its stream had switched.
            return plain(501);
        }
        let mut reply = Reply { fields: head.fields, ..Reply::new(outline.status) };
        if self.proxy.cache {
            reply.aside.get_or_insert_default().fields = head.date;
        }
        let keepalive = self.proxy.keepalive;
        let has_content = !request.is_head() && !matches!(outline.status, 204 | 304);
        if !exchange.is_over || (has_content && exchange.has_trailers() && request.takes_trailers()) {
            let terms = ContentTerms { pause: self.proxy.read_timeout, keepalive };
            let application = self.application.clone();
            let rest = AppContent::new(
                self.thread,
                application,
                exchange,
                content,
                outline.length,
                (terms, progress),
            );
            reply.body = Body::Stream(Box::new(rest));
            return reply;
        }
        reply.body = match () {
            () if request.is_head() => Body::Omitted(head.length),
            () if !has_content => Body::Empty,
            () => Body::Bytes(content),
        };
        if exchange.can_go_on() {
            self.thread.keep(&self.application, keepalive, exchange.connection);
            drop(keep_buffer(exchange.upload));
        }
        reply
    }

    /// The response if there will be no other attempt.
    fn give_up(&self, request: &Request, failure: &AttemptFailure) -> Reply {
        let status = failure.status();
        let counter = if status == 504 { Counter::ProxyTimeouts } else { Counter::ProxyFailures };
        self.thread.stats.add(counter, 1);
        let url = &self.application.shared.url;
        self.thread.process.log.error(format_args!(
            "answered {} {}{} with {status}: the application at {url}: {}",
            request.head.method(),
            request.authority(),
            String::from_utf8_lossy(&self.path[..self.path.len().min(200)]),
            failure.why()
        ));
        plain(status).with("Cache-Control", "no-store")
    }
}

impl AttemptFailure {
    fn why(&self) -> String {
        match &self.cause {
            FailureCause::Connect(error) => error.to_string(),
            FailureCause::Exchange(error) => error.to_string(),
        }
    }
}

/// Keeps the buffer for the next request; returns the content.
fn keep_buffer(upload: AppUpload) -> Content {
    let (buffer, content) = upload.into_parts();
    if buffer.capacity() <= BUFFER_KEEP {
        BUFFER.set(buffer);
    }
    content
}
