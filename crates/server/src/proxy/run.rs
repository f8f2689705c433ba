//! The attempts of a request, and the response if all of them fail.

use std::rc::Rc;

use millrace_settings::plan::Proxy;
use millrace_wire::path::normalise;

use super::application::InProgress;
use super::connect::{AppConnection, ConnectError, KnownApplication, ProxyThread};
use super::content::{AppContent, ContentTerms};
use super::exchange::{AppExchange, Begun, ExchangeError};
use super::h2::{self, StreamExchange, StreamSeat};
use super::head;
use super::switch::Switch;
use super::transfer::AppTransfer;
use super::tunnel::AppTunnel;
use super::upload::{AppUpload, UploadContent, keep_buffer, spare_buffer};
use millrace_base::context::stats::Counter;
use millrace_base::message::Request;
use millrace_base::message::reply::{Body, Reply, plain};

/// Passes a request, whose content has been read, to the application of a proxy; returns the response as soon as its
/// fields are known, and 502, 504 or 508 if there is none. Dropping the future ends the request at the application.
pub async fn run(thread: &Rc<ProxyThread>, proxy: &Proxy, request: &mut Request) -> Reply {
    if head::is_loop(request) {
        thread.context.process.log.error(format_args!(
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
    thread.context.stats.add(Counter::ProxyRequests, 1);
    let (mut tried, mut retries) = (Vec::new(), proxy.retries);
    loop {
        let application = thread.choose(proxy, &tried);
        let attempt = Attempt { thread, proxy, path: &path, application, is_first: tried.is_empty() };
        let failure = match attempt.run(request).await {
            Ok(reply) => return reply,
            Err(failure) => failure,
        };
        thread.context.clock.read();
        if !failure.may_repeat(request) || (retries == 0 && !failure.is_stale) {
            return attempt.give_up(request, &failure);
        }
        retries -= usize::from(!failure.is_stale);
        thread.context.stats.add(Counter::ProxyRetried, 1);
        tried.push(attempt.application.shared.clone());
    }
}

/// One attempt.
struct Attempt<'a> {
    thread: &'a Rc<ProxyThread>,
    proxy: &'a Proxy,
    path: &'a [u8],
    application: Rc<KnownApplication>,
    is_first: bool,
}

/// Why an attempt failed.
struct AttemptFailure {
    cause: FailureCause,
    /// Some of the request may have arrived there.
    is_sent: bool,
    /// It was on a connection that was used before, and nothing came back: it may have been closed before the request was
    /// sent. Or the application says so of the first attempt. That is no failure of the application.
    is_stale: bool,
    /// Some of its content has been taken from the client: it can't be sent again.
    is_spent: bool,
}

enum FailureCause {
    Connect(ConnectError),
    Exchange(ExchangeError),
}

impl AttemptFailure {
    /// Whether the request may be tried again. A time limit or an invalid response is no reason: the application has
    /// got the request.
    fn may_repeat(&self, request: &Request) -> bool {
        if self.is_spent {
            return false;
        }
        match &self.cause {
            FailureCause::Connect(_) | FailureCause::Exchange(ExchangeError::Refused(_)) => true,
            FailureCause::Exchange(error) => error.is_loss() && (!self.is_sent || request.is_idempotent()),
        }
    }

    fn status(&self) -> u16 {
        match &self.cause {
            FailureCause::Connect(ConnectError::Late) | FailureCause::Exchange(ExchangeError::Late(_)) => 504,
            FailureCause::Exchange(ExchangeError::Client(status)) => *status,
            _ => 502,
        }
    }
}

impl Attempt<'_> {
    async fn run(&self, request: &mut Request) -> Result<Reply, AttemptFailure> {
        let switch = Switch::wanted(self.proxy, request);
        match self.proxy.http2 && switch.is_none() {
            true => self.run_http2(request).await,
            false => self.run_http1(request, switch).await,
        }
    }

    async fn run_http1(
        &self,
        request: &mut Request,
        switch: Option<Switch>,
    ) -> Result<Reply, AttemptFailure> {
        // After a failure, other idle connections may have been closed for the same reason.
        let is_fresh = !self.is_first || !request.is_idempotent() || request.stream.is_some();
        let idle = if is_fresh { None } else { self.thread.idle(&self.application) };
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let was_used = connection.is_used;
        let mut buffer = spare_buffer();
        let url = &self.application.shared.url;
        head::write(self.proxy, url, request, self.path, switch.as_ref(), &mut buffer);
        let upload = AppUpload::new(buffer, UploadContent::of(request));
        let progress = self.application.shared.begin();
        let exchange = AppExchange::new(connection, upload, request.is_head(), switch);
        let mut exchange = exchange.with_trailers(takes_trailers(request));
        match exchange
            .begin(request.hints.as_ref(), self.proxy.response_timeout, self.proxy.read_timeout)
            .await
        {
            Ok(begun) => {
                self.succeed();
                if let Some(status) = begun.head.switched {
                    return Ok(self.tunnel(exchange.connection, status, begun, progress));
                }
                Ok(self.reply(request, AppTransfer::Http1(Box::new(exchange)), begun, progress))
            }
            Err(error) => {
                let (is_sent, heard) = (exchange.upload.is_begun(), exchange.heard);
                let is_spent = !keep_buffer(exchange.upload).give_back(request);
                let is_stale = error.is_loss() && was_used && !heard;
                let cause = FailureCause::Exchange(error);
                Err(self.note(AttemptFailure { cause, is_sent, is_stale, is_spent }))
            }
        }
    }

    async fn run_http2(&self, request: &mut Request) -> Result<Reply, AttemptFailure> {
        let failed = |error, is_sent, is_stale, is_spent| {
            let cause = FailureCause::Exchange(error);
            self.note(AttemptFailure { cause, is_sent, is_stale, is_spent })
        };
        let url = &self.application.shared.url;
        let Some(made) = h2::request(self.proxy, url, request, self.path) else {
            return Err(failed(ExchangeError::Unsendable, false, true, false));
        };
        let seat = StreamSeat::find(self.thread, &self.application, self.proxy).await;
        let seat = seat.map_err(|error| self.unconnected(error))?;
        let progress = self.application.shared.begin();
        let content = UploadContent::of(request);
        let mut exchange = match StreamExchange::new(seat, made, content, takes_trailers(request)) {
            Ok(exchange) => Box::new(exchange),
            Err((content, error)) => {
                content.give_back(request);
                return Err(failed(error, false, self.is_first, false));
            }
        };
        match exchange
            .begin(request.hints.as_ref(), self.proxy.response_timeout, self.proxy.read_timeout)
            .await
        {
            Ok(begun) => {
                self.succeed();
                Ok(self.reply(request, AppTransfer::Http2(exchange), begun, progress))
            }
            Err(error) => {
                let is_refused = matches!(error, ExchangeError::Refused(_));
                let is_stale = (is_refused && self.is_first) || (error.is_loss() && exchange.is_stale());
                let is_spent = !exchange.into_upload().give_back(request);
                Err(failed(error, true, is_stale, is_spent))
            }
        }
    }

    fn succeed(&self) {
        self.thread.context.clock.read();
        self.application.shared.succeeds(&self.thread.context.process.log);
    }

    async fn connect(&self) -> Result<AppConnection, AttemptFailure> {
        let connected = self.thread.connect(&self.application, self.proxy).await;
        connected.map_err(|error| self.unconnected(error))
    }

    fn unconnected(&self, error: ConnectError) -> AttemptFailure {
        self.note(AttemptFailure {
            cause: FailureCause::Connect(error),
            is_sent: false,
            is_stale: false,
            is_spent: false,
        })
    }

    /// Notes a failure of the application. An idle connection that it has closed is none.
    fn note(&self, failure: AttemptFailure) -> AttemptFailure {
        let is_clients = matches!(failure.cause, FailureCause::Exchange(ExchangeError::Client(_)));
        if !failure.is_stale && !is_clients {
            self.thread.context.clock.read();
            let now = self.thread.shared.at(self.thread.context.clock.now());
            let is_refused = matches!(failure.cause, FailureCause::Connect(_));
            self.application.shared.fails(&self.thread.context.process.log, is_refused, now, &failure.why());
        }
        failure
    }

    fn tunnel(&self, connection: AppConnection, status: u16, begun: Begun, progress: InProgress) -> Reply {
        let Begun { head, content, .. } = begun;
        let tunnel = AppTunnel::new(self.thread, connection, content, self.proxy.websocket_timeout, progress);
        let mut reply = Reply { fields: head.fields, ..Reply::new(status) };
        reply.aside.get_or_insert_default().tunnel = Some(Box::new(tunnel));
        reply
    }

    fn reply(&self, request: &Request, transfer: AppTransfer, begun: Begun, progress: InProgress) -> Reply {
        let Begun { outline, head, content } = begun;
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
        if !transfer.is_over() || (has_content && transfer.has_trailers() && request.takes_trailers()) {
            let terms = ContentTerms { pause: self.proxy.read_timeout, keepalive };
            let application = self.application.clone();
            let rest = AppContent::new(
                self.thread,
                application,
                transfer,
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
        transfer.settle(self.thread, &self.application, keepalive);
        reply
    }

    /// The response if there will be no other attempt.
    fn give_up(&self, request: &Request, failure: &AttemptFailure) -> Reply {
        let status = failure.status();
        let method = request.head.method();
        let target = String::from_utf8_lossy(&self.path[..self.path.len().min(200)]);
        if let FailureCause::Exchange(ExchangeError::Client(_)) = failure.cause {
            if status == 400 {
                // It has gone: clients do.
                return Reply { close: true, ..plain(status) };
            }
            let (log, authority) = (&self.thread.context.process.log, request.authority());
            log.warn(format_args!("answered {method} {authority}{target} with {status}: {}", failure.why()));
            return Reply { close: true, ..plain(status) };
        }
        let counter = if status == 504 { Counter::ProxyTimeouts } else { Counter::ProxyFailures };
        self.thread.context.stats.add(counter, 1);
        let url = &self.application.shared.url;
        self.thread.context.process.log.error(format_args!(
            "answered {method} {}{target} with {status}: the application at {url}: {}",
            request.authority(),
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

/// Whether the response may announce trailers: a page of the cache is for clients that don't get any.
fn takes_trailers(request: &Request) -> bool {
    request.takes_trailers() && !request.is_shared
}
