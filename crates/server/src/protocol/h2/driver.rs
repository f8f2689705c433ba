//! The turns of a connection.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use millrace_settings::plan::Plan;
use millrace_wire::head::Refusal;

use super::connection::{Connection, FinishedExchange, PendingRequest};
use super::content::{Piece, UnsentContent};
use super::line::Wire;
use super::outbox::{Outbox, OutgoingResponse};
use super::priority::Priority;
use super::unread::end;
use super::watch::Flood;
use super::{exchange, head, request};
use crate::protocol::framing::has_content;
use crate::protocol::linger;
use crate::protocol::phase::ConnectionPhase;
use crate::serve::{self, CLIENT_GONE, Exchange, SharedSetup, SiteWorkers, Step, no_room, record_at_once};
use millrace_base::context::budget::REQUEST_BYTES;
use millrace_base::context::log::{AccessEntry, LoggedRequest};
use millrace_base::context::stats::{Counter, ResponseClass};
use millrace_base::message::Request;
use millrace_base::message::host_of;
use millrace_base::message::reply::{self, Body, Reply};

/// Rounds per turn: other connections of the thread need their turn.
const MOST_ROUNDS: u32 = 16;

/// Ready content up to this size counts as sent when the library gets it, like its head.
const SHORT_BYTES: usize = 512 * 1024;

/// How long a client may take to notice the end.
const LINGER: Duration = Duration::from_secs(2);

type Library = server::Connection<Wire, Piece>;

/// Serves the requests of a connection until it ends.
pub async fn serve(connection: Rc<Connection>) {
    let thread = connection.thread.clone();
    if let Some(pause) =
        connection.ends.client_ip().and_then(|ip| thread.flooders.pause(ip, thread.context.clock.ticks()))
    {
        tokio::time::sleep(pause).await;
    }
    let Some(library) = shake_hands(&connection).await else { return };
    let mut driver = Driver {
        setup: thread.serve.setup(),
        connection: connection.clone(),
        library,
        outbox: Outbox::default(),
        requests: 0,
        rested_at: 0,
        retired: false,
        over: None,
    };
    let end = poll_fn(|cx| driver.turn(cx)).await;
    driver.outbox.abandon(&thread);
    connection.abandon();
    drop(driver);
    match end {
        ConnectionEnd::Polite if connection.gave_way() => connection.cut(false),
        ConnectionEnd::Polite => {
            connection.enter(ConnectionPhase::Lingering, Some(LINGER));
            linger::close(&thread, |call| call(&mut connection.line().stream)).await;
        }
        ConnectionEnd::Cut => connection.cut(false),
        ConnectionEnd::Reset => connection.cut(true),
    }
}

/// How a connection ends.
#[derive(Clone, Copy)]
enum ConnectionEnd {
    /// All was sent: the client gets time to read it.
    Polite,
    /// At once.
    Cut,
    /// At once, and unsent data is dropped.
    Reset,
}

/// Sends our settings and reads the client's preface; `None`: that failed.
async fn shake_hands(connection: &Rc<Connection>) -> Option<Library> {
    let settings = settings(&connection.thread.serve.setup().plan);
    let mut shaking = pin!(settings.handshake(Wire(connection.clone())));
    let library = poll_fn(|cx| {
        connection.driven(cx);
        connection.line().begin_turn();
        let wishes = connection.wishes();
        if wishes.expired || wishes.drain {
            return Poll::Ready(None);
        }
        let library = shaking.as_mut().poll(cx);
        let left = connection.line().poll_leave(&connection.thread, cx);
        match (library, left) {
            (_, Poll::Ready(Err(_))) => Poll::Ready(None),
            (Poll::Ready(library), _) => Poll::Ready(library.ok()),
            (Poll::Pending, _) => Poll::Pending,
        }
    })
    .await;
    if library.is_none() {
        connection.abandon();
    }
    library
}

/// The limits that the library enforces.
fn settings(plan: &Plan) -> server::Builder {
    let http = &plan.http;
    let mut builder = server::Builder::new();
    // Each field counts 32 bytes more (RFC 9113 section 6.5.2).
    let fields = http.head_bytes.saturating_add(32 * http.head_fields);
    builder
        .max_header_list_size(u32::try_from(fields).unwrap_or(u32::MAX))
        .max_concurrent_streams(http.h2_streams)
        .initial_window_size(http.h2_window)
        .initial_connection_window_size(http.h2_window)
        // The watch counts cancelled requests: this limit is only for requests that the driver has not seen yet.
        .max_pending_accept_reset_streams(http.h2_streams.max(http.h2_resets) as usize);
    if plan.sites.iter().any(|site| site.proxies.iter().any(|proxy| proxy.websocket)) {
        builder.enable_connect_protocol();
    }
    builder
}

struct Driver {
    connection: Rc<Connection>,
    library: Library,
    /// The configuration with which it began.
    setup: SharedSetup,
    outbox: Outbox,
    requests: u64,
    /// Number of its requests when it was last idle.
    rested_at: u64,
    /// The client was told to use another connection for its next requests.
    retired: bool,
    /// The library has ended.
    over: Option<ConnectionEnd>,
}

impl Driver {
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionEnd> {
        let thread = self.connection.thread.clone();
        thread.context.clock.read();
        self.connection.driven(cx);
        self.connection.line().begin_turn();
        let wishes = self.connection.wishes();
        if wishes.expired && self.expire() {
            return Poll::Ready(ConnectionEnd::Reset);
        }
        if wishes.retire || wishes.drain {
            self.retire();
        }
        for _ in 0..MOST_ROUNDS {
            if self.over.is_none() {
                self.advance(cx);
                if wishes.drain && self.is_idle() && self.over.is_none() {
                    self.library.abrupt_shutdown(Reason::NO_ERROR);
                    self.advance(cx);
                }
            }
            let room = self.connection.line().room();
            if self.over.is_none() && self.outbox.write(&thread, cx, room) > 0 {
                continue;
            }
            let left = self.connection.line().poll_leave(&thread, cx);
            match left {
                Poll::Ready(Err(_)) => return Poll::Ready(ConnectionEnd::Cut),
                Poll::Ready(Ok(())) if room == 0 && self.over.is_none() => {}
                left => {
                    let end = self.over.filter(|end| left.is_ready() || matches!(end, ConnectionEnd::Cut));
                    self.rest();
                    return end.map_or(Poll::Pending, Poll::Ready);
                }
            }
        }
        cx.waker().wake_by_ref();
        self.rest();
        Poll::Pending
    }

    /// Makes the library read and write, and handles the requests that have arrived.
    fn advance(&mut self, cx: &mut Context<'_>) {
        loop {
            match self.library.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => self.begin(request, respond),
                Poll::Ready(Some(Err(error))) => return self.broken(&error),
                Poll::Ready(None) => return self.over = Some(ConnectionEnd::Polite),
                Poll::Pending => break,
            }
        }
        self.hear();
        for done in self.connection.take_done() {
            self.finish(done);
        }
    }

    /// The library has ended the connection.
    fn broken(&mut self, error: &h2::Error) {
        let thread = &self.connection.thread;
        self.over = Some(if error.is_io() { ConnectionEnd::Cut } else { ConnectionEnd::Polite });
        if !error.is_go_away() || error.is_remote() {
            return;
        }
        match error.reason() {
            Some(Reason::NO_ERROR) => {}
            Some(Reason::ENHANCE_YOUR_CALM) => {
                thread.context.stats.add(Counter::H2FloodHeads, 1);
                self.over = Some(ConnectionEnd::Cut);
                self.flooded(&error);
            }
            _ => {
                thread.context.stats.add(Counter::H2Refused, 1);
                self.tell("closed a connection", &format_args!("{error}"));
            }
        }
    }

    fn tell(&self, what: &str, why: &dyn std::fmt::Display) {
        let client = self.connection.ends.client_ip().map_or("a Unix socket".into(), |ip| ip.to_string());
        self.connection
            .thread
            .context
            .process
            .log
            .debug(format_args!("{what} from {client} (HTTP/2): {why}"));
    }

    /// Ends the connection because of a flood; the client's next connections wait a moment.
    fn flooded(&self, why: &dyn std::fmt::Display) {
        let thread = &self.connection.thread;
        if let Some(ip) = self.connection.ends.client_ip() {
            thread.flooders.add(ip, thread.context.clock.ticks());
        }
        self.tell("closed a connection", why);
    }

    /// Handles what the library does not report.
    fn hear(&mut self) {
        let thread = &self.connection.thread;
        let (cancelled, reordered, flood) = {
            let mut line = self.connection.line();
            (line.watch.take_cancelled(), line.watch.take_reordered(), line.flood)
        };
        for id in cancelled {
            thread.context.stats.add(Counter::H2Resets, 1);
            self.outbox.cancel(thread, id);
            if let Some(waiting) = self.connection.waiting(id) {
                waiting.go();
            }
        }
        for (id, priority) in reordered {
            self.outbox.reorder(id, priority);
            if let Some(waiting) = self.connection.waiting(id) {
                waiting.priority.set(Some(priority));
            }
        }
        if let Some(flood) = flood.filter(|_| self.over.is_none()) {
            let counter = match flood {
                Flood::Frames => Counter::H2FloodFrames,
                Flood::Resets => Counter::H2FloodResets,
            };
            thread.context.stats.add(counter, 1);
            self.flooded(&format_args!("flood: {flood:?}"));
            self.library.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let _ = self.library.poll_closed(&mut cx);
            self.over = Some(ConnectionEnd::Cut);
        }
    }

    /// A request has arrived.
    fn begin(&mut self, request: http::Request<RecvStream>, respond: SendResponse<Piece>) {
        let thread = self.connection.thread.clone();
        thread.context.stats.add(Counter::H2Requests, 1);
        self.requests += 1;
        if self.connection.line().watch.is_cancelled(respond.stream_id().as_u32()) {
            // No work has begun for it.
            return;
        }
        let setup = thread.serve.setup();
        let most = setup.plan.http.keep_alive_requests;
        let is_last = (most != 0 && self.requests >= most) || !Rc::ptr_eq(&setup, &self.setup);
        if is_last || self.connection.is_shed() {
            self.retire();
        }
        let (parts, content) = request.into_parts();
        let has_content = !content.is_end_stream();
        let said = parts.headers.get("priority").and_then(|value| Priority::parse(value.as_bytes()));
        let mut request = match request::read(&self.connection, &setup.plan, &parts, has_content) {
            Ok(request) => request,
            Err(refusal) => return self.refuse(refusal, &parts, has_content, respond),
        };
        request.early = self.connection.line().early;
        if setup.plan.http.early_hints {
            request.hints = Some(self.connection.hints(respond.stream_id().as_u32()));
        }
        let site = setup.workers_of(&thread.context.process.log, &mut request).clone();
        if !self.is_ours(&request) {
            thread.context.stats.add(Counter::H2Misdirected, 1);
            let mut reply = reply::plain(421);
            serve::leave(&site, &mut reply);
            record_at_once(&thread.serve, &site, &request, ResponseClass::Other, &reply);
            return self.send(respond, &request, reply, said, has_content);
        }
        self.route(&setup, &site, request, content, respond, said);
    }

    fn route(
        &mut self,
        setup: &SharedSetup,
        site: &Arc<SiteWorkers>,
        mut request: Request,
        content: RecvStream,
        respond: SendResponse<Piece>,
        said: Option<Priority>,
    ) {
        let thread = self.connection.thread.clone();
        let (class, step) = match self.connection.is_shed() {
            true => (ResponseClass::Other, Step::Answer(no_room(site))),
            false => serve::respond(&thread.serve, site, &mut request),
        };
        match (class, step) {
            (class, step @ Step::Answer(_)) if !content.is_end_stream() => {
                let exchange = Exchange::new(&thread.serve, setup, site, request).with(class, step);
                let waiting = PendingRequest::new(respond, said);
                exchange::start(self.connection.clone(), Box::new(exchange), waiting, content);
            }
            (class, Step::Answer(reply)) if is_short(&reply) => {
                record_at_once(&thread.serve, site, &request, class, &reply);
                self.send(respond, &request, reply, said, false);
                thread.buffers.give_back(request.head);
            }
            (class, Step::Answer(reply)) => {
                let exchange = Exchange::new(&thread.serve, setup, site, request).of(class);
                self.send_for(respond, Box::new(exchange), reply, said, false);
            }
            (class, step) => {
                let exchange = Exchange::new(&thread.serve, setup, site, request).with(class, step);
                let waiting = PendingRequest::new(respond, said);
                exchange::start(self.connection.clone(), Box::new(exchange), waiting, content);
            }
        }
    }

    /// Whether the connection's certificate covers the request's host (RFC 9110 section 7.4): a client may use a
    /// connection for other names of its certificate (RFC 9113 section 9.1.1). A client without SNI can't have
    /// checked a name; and a trusted proxy forwards requests of others.
    fn is_ours(&self, request: &Request) -> bool {
        let Some(name) = &self.connection.server_name else { return true };
        let host = host_of(request.head.authority());
        host.eq_ignore_ascii_case(name) || request.is_forwarded || (self.connection.thread.covers)(name, host)
    }

    /// Responds to an invalid request; other streams of the connection continue.
    fn refuse(
        &mut self,
        refusal: Refusal,
        parts: &http::request::Parts,
        unread: bool,
        mut respond: SendResponse<Piece>,
    ) {
        let thread = &self.connection.thread;
        thread.context.stats.add(Counter::RequestsMalformed, 1);
        self.tell("rejected a request", &refusal);
        let reply = reply::plain(refusal.status());
        thread.context.stats.count_reply(reply.status);
        let line = format!("{} {} HTTP/2.0", parts.method, parts.uri.path());
        let entry = AccessEntry {
            asked: LoggedRequest::Malformed(line.as_bytes()),
            client: self.connection.ends.client_ip(),
            status: reply.status,
            bytes: reply.body.length().unwrap_or(0),
            duration: Duration::ZERO,
        };
        thread.context.access.record(&thread.context, &entry);
        let id = respond.stream_id().as_u32();
        let response = head::of_refusal(thread, &reply);
        let content = UnsentContent::of(reply.body).filter(|_| parts.method != http::Method::HEAD);
        let unread = unread.then(|| Rc::downgrade(&self.connection));
        match (respond.send_response(response, content.is_none()), content) {
            (Ok(send), Some(content)) => {
                let mut answer = OutgoingResponse::new(id, send, content, Priority::default());
                answer.unread = unread;
                self.outbox.push(answer);
            }
            (Ok(send), None) => end(send, unread),
            (Err(_), _) => {}
        }
    }

    /// The response to a waiting request is ready.
    fn finish(&mut self, FinishedExchange { waiting, exchange, reply, unread }: FinishedExchange) {
        self.connection.forget(&waiting);
        let said = waiting.priority.get();
        match Rc::into_inner(waiting) {
            Some(waiting) => self.send_for(waiting.respond.into_inner(), exchange, reply, said, unread),
            // It has no other owner: it was removed from the list.
            None => debug_assert!(false, "a request waits that has its answer"),
        }
    }

    /// Sends a response that is recorded at its end.
    fn send_for(
        &mut self,
        respond: SendResponse<Piece>,
        exchange: Box<Exchange>,
        reply: Reply,
        said: Option<Priority>,
        unread: bool,
    ) {
        let thread = &self.connection.thread;
        let (status, first_byte) = (reply.status, exchange.elapsed(&thread.serve));
        match self.send_head(respond, &exchange.request, reply, said, unread) {
            HeadSent::Head(mut answer) => {
                (answer.status, answer.first_byte) = (status, first_byte);
                answer.exchange = Some(exchange);
                self.outbox.push(*answer);
            }
            HeadSent::All => {
                exchange.record(&thread.serve, status, 0, first_byte);
                thread.buffers.give_back(exchange.request.head);
            }
            HeadSent::Nothing => exchange.log(&thread.serve, CLIENT_GONE, 0),
        }
    }

    /// Sends a response that has been recorded.
    fn send(
        &mut self,
        respond: SendResponse<Piece>,
        request: &Request,
        reply: Reply,
        said: Option<Priority>,
        unread: bool,
    ) {
        if let HeadSent::Head(answer) = self.send_head(respond, request, reply, said, unread) {
            self.outbox.push(*answer);
        }
    }

    /// `unread`: the request's content has not ended.
    fn send_head(
        &self,
        mut respond: SendResponse<Piece>,
        request: &Request,
        reply: Reply,
        said: Option<Priority>,
        unread: bool,
    ) -> HeadSent {
        let id = respond.stream_id().as_u32();
        let response = head::of(&self.connection.thread, request, &reply);
        let priority = said.unwrap_or_else(|| Priority::of_type(&reply.fields));
        let has_content = has_content(request, &reply);
        let content = UnsentContent::of(reply.body).filter(|_| has_content);
        let unread = unread.then(|| Rc::downgrade(&self.connection));
        match (respond.send_response(response, content.is_none()), content) {
            (Ok(send), Some(content)) => {
                let mut answer = OutgoingResponse::new(id, send, content, priority);
                answer.unread = unread;
                HeadSent::Head(Box::new(answer))
            }
            (Ok(send), None) => {
                end(send, unread);
                HeadSent::All
            }
            (Err(_), _) => HeadSent::Nothing,
        }
    }

    /// Tells the client to use another connection for its next requests.
    fn retire(&mut self) {
        if !self.retired && self.over.is_none() {
            self.retired = true;
            self.library.graceful_shutdown();
        }
    }

    /// Whether no request is in progress.
    fn is_idle(&self) -> bool {
        self.outbox.is_empty() && !self.connection.has_waiting() && !self.library.has_streams()
    }

    /// A time limit has passed. True if the client's time is up, too.
    fn expire(&mut self) -> bool {
        let thread = self.connection.thread.clone();
        match self.connection.phase() {
            ConnectionPhase::Lingering => return true,
            ConnectionPhase::Running => return false,
            ConnectionPhase::Writing => {
                if !self.connection.line().is_empty() {
                    return true;
                }
                let patience = thread.serve.setup().plan.http.send_timeout.as_millis() as u64;
                let ended =
                    self.outbox.end_stalled(&thread, thread.context.clock.ticks().saturating_sub(patience));
                if ended > 0 && (!self.outbox.is_empty() || self.connection.has_waiting()) {
                    return false;
                }
            }
            ConnectionPhase::Idle | ConnectionPhase::Head | ConnectionPhase::Content => {}
        }
        self.library.abrupt_shutdown(Reason::NO_ERROR);
        false
    }

    /// The turn is over: sets until when the connection may stay in its phase.
    fn rest(&mut self) {
        let connection = &self.connection;
        let setup = connection.thread.serve.setup();
        let http = &setup.plan.http;
        connection.works_with(connection.count_waiting() * REQUEST_BYTES as usize + self.outbox.in_memory());
        let mut line = connection.line();
        if self.over.is_some() {
            connection.enter(ConnectionPhase::Lingering, Some(LINGER));
        } else if !line.is_empty() {
            if connection.phase() != ConnectionPhase::Writing {
                line.moved = connection.thread.context.clock.ticks();
            }
            connection.enter(ConnectionPhase::Writing, None);
            connection.patience_since(line.moved, http.send_timeout);
        } else if line.watch.is_in_fields() {
            connection.enter(ConnectionPhase::Head, Some(http.head_timeout));
        } else if let Some(since) = self.outbox.stalled_since() {
            connection.enter(ConnectionPhase::Writing, None);
            // A client that is heard of has only paused this response: a video. It may be closed to make room.
            let heard = Duration::from_millis(line.heard.saturating_sub(since));
            connection.patience_since(since, http.send_timeout + heard);
        } else if connection.has_waiting() || !self.outbox.is_empty() {
            connection.enter(ConnectionPhase::Running, None);
        } else if self.library.has_streams() {
            // Short responses for which the client has no room, or a request that does not end.
            connection.enter(ConnectionPhase::Writing, Some(http.send_timeout));
        } else {
            connection.enter(ConnectionPhase::Idle, Some(http.keep_alive));
            if std::mem::replace(&mut self.rested_at, self.requests) != self.requests {
                // It may have been idle before, and all responses may have been sent in this turn.
                connection.patience_since(connection.thread.context.clock.ticks(), http.keep_alive);
            }
        }
    }
}

/// The result of sending the head of a response.
enum HeadSent {
    /// It was sent, and content follows.
    Head(Box<OutgoingResponse>),
    /// It was sent, and there is no content.
    All,
    /// The client has cancelled the request.
    Nothing,
}

/// Whether a response counts as sent when the library gets it.
fn is_short(reply: &Reply) -> bool {
    match &reply.body {
        Body::Empty | Body::Omitted(_) | Body::Bytes(_) => true,
        Body::Shared { start, end, .. } => end - start <= SHORT_BYTES,
        Body::File { .. } | Body::Parts(_) | Body::Stream(_) => false,
    }
}
