//! One request: a connection is found, the request sent, the answer read as far as it is there. And what to do if the
//! connection fails.
//!
//! A request is run again if nothing of it has reached the client and either it was not begun - the connection could not
//! be made, was found closed when the request was sent, or the backend said so - whatever its method, or its method is
//! idempotent, once. php-fpm acknowledges nothing: of a request that was sent and not answered it can't be known whether it
//! ran, and a process that has had enough requests closes its connection a moment after its last answer. So one that must not be
//! run twice, and one that is run again, is sent over a new connection, which nobody has closed yet. Whoever finds out that all
//! of php-fpm was killed - no connection can be made - has another try.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use millrace_wire::fastcgi::{ParamsTooLong, Record, RequestEnd, stdin};

use super::answer::{FastcgiResponse, ScriptMessages};
use super::backends::{
    Backends, Choice, FastcgiOpening, FastcgiPermit, FastcgiShared, FastcgiTurn, Grant, QueuedRequest,
};
use super::capacity;
use super::connection::FastcgiConnection;
use super::connection_pool::{ConnectionPool, Local};
use super::input::Input;
use super::stream::Writing;
use crate::context::stats::Counter;
use crate::message::reply::{Aside, Body, Reply, plain};
use crate::message::request::{Content, Request};
use crate::php::PhpThread;
use crate::php::SiteWorkers;
use crate::php::answer::AnswerHead;
use crate::php::exchange::{applicant, as_long_as_said, unless};
use crate::php::pool::request_queue::Applicant;
use crate::php::pool::waiters::QueuePlace;
use crate::php::{pump, variables};
use crate::site::{Script, Site};

/// Attempts of a request that is not begun.
const ATTEMPTS: u32 = 5;
/// Bytes of an answer that are read before the first of them leave, if they are there.
const FIRST_BYTES: usize = 256 << 10;
/// A short content goes with the head of the request, bytes.
const SHORT: usize = 16 << 10;
/// A larger buffer is not kept.
const BUFFER_KEEP: usize = 256 << 10;
/// A process that has had enough ends alone. Whether others fail, too, is known so much later.
const MOMENT: Duration = Duration::from_millis(2);
/// Pause before another attempt where all backends have too much to do.
const BREATHER: Duration = Duration::from_millis(10);

thread_local! {
    /// The request that is being sent. Never borrowed over an await.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Why a request gets no connection.
#[derive(Debug)]
enum FastcgiRefusal {
    /// As many wait as may.
    Full,
    /// It has waited as long as it may.
    Timeout,
    /// More comes than can be served.
    Overload,
    /// No backend takes connections, for so long that nobody waits for them.
    Down,
    /// The loop can't have one more connection.
    Ours(io::Error),
}

/// Why there is no answer.
#[derive(Debug)]
enum FastcgiFailure {
    /// The request was not begun.
    NotBegun,
    /// The backend has too much to do: not begun, either.
    Overloaded,
    /// The connection was closed, and perhaps the script ran.
    Begun,
    /// The script took too long.
    Late,
    /// What came is no answer.
    Garbage,
    /// The request's head does not fit.
    TooLong,
    /// The spooled content can't be read.
    Ours(io::Error),
}

/// Runs a script and returns its answer as soon as its fields are known; 502, 503, 504 where that fails. Dropping the
/// future tells the script that its client has gone. `None` if `gone` became ready before there was a connection.
pub async fn run(
    thread: &Rc<PhpThread>,
    backends: &Backends,
    site: &Arc<SiteWorkers>,
    request: &mut Request,
    script: &Script,
    gone: impl Future<Output = ()>,
) -> Option<Reply> {
    let mut gone = pin!(unless(site.pools.outlives_its_client(site.pools.of(request)), gone));
    let shared = backends.shared();
    let local = ConnectionPool::local(thread, shared);
    let stats = &thread.stats;
    let (mut attempts, mut repeated) = (0, false);
    let mut outages = shared.outages();
    let mut only_after_outage = false;
    loop {
        let fresh = attempts > 0 || !request.is_idempotent();
        let acquired = tokio::select! {
            biased;
            acquired = acquire(thread, &local, shared, site, request, fresh) => acquired,
            () = &mut gone, if attempts == 0 => return None,
        };
        let connection = match acquired {
            Ok(connection) => connection,
            Err(refused) => return Some(refusal(thread, site, refused)),
        };
        if only_after_outage && std::mem::replace(&mut outages, shared.outages()) == shared.outages() {
            local.keep(connection, shared.at(thread.clock.now()));
            return Some(no_answer(thread, site, script, &FastcgiFailure::Begun));
        }
        let failure = match attempt(connection, thread, &local, site, request, script).await {
            Ok(reply) => return Some(reply),
            Err(failure) => failure,
        };
        attempts += 1;
        let again = match failure {
            FastcgiFailure::NotBegun => attempts < ATTEMPTS,
            FastcgiFailure::Overloaded => {
                tokio::time::sleep(BREATHER).await;
                attempts < ATTEMPTS
            }
            FastcgiFailure::Begun if request.is_idempotent() => {
                only_after_outage = std::mem::replace(&mut repeated, true);
                pause(thread, MOMENT).await;
                if only_after_outage || shared.is_failing() {
                    // All are being killed, which takes a while: another one would be next.
                    pause(thread, 3 * BREATHER).await;
                }
                attempts < ATTEMPTS
            }
            _ => false,
        };
        if !again {
            return Some(no_answer(thread, site, script, &failure));
        }
        stats.add(Counter::PhpRetried, 1);
    }
}

/// A connection for a request, kept or - if it shall be `fresh` - new, waiting for one if need be. Cancel-safe.
async fn acquire(
    thread: &Rc<PhpThread>,
    local: &Rc<Local>,
    shared: &Arc<FastcgiShared>,
    site: &Site,
    request: &Request,
    fresh: bool,
) -> Result<FastcgiConnection, FastcgiRefusal> {
    let began = shared.at(thread.clock.now());
    if shared.backends.len() > 1 && local.is_one_sided() {
        // A connection to another backend, in the place of one of these if need be.
        if shared.permit().is_none() {
            drop(local.exchange_one());
        }
    } else if !fresh && let Some(connection) = local.take() {
        return Ok(connection);
    }
    let pool = site.pools.of(request);
    let until = began + shared.settings.pools[pool.index()].queue_timeout.as_millis() as u64;
    let from = || applicant(request, site.pools.rank(request, pool));
    loop {
        let now = shared.at(thread.clock.now());
        if now >= until && now > began {
            return Err(FastcgiRefusal::Timeout);
        }
        let opening = match shared.permit() {
            Some(permit) => match shared.choose(permit, now) {
                Choice::Way(opening) => opening,
                Choice::Full => {
                    pause(thread, BREATHER).await;
                    continue;
                }
                Choice::Later(moment) => {
                    let wait = moment.min(until).saturating_sub(now).max(1);
                    pause(thread, Duration::from_millis(wait)).await;
                    continue;
                }
                Choice::Never => return Err(FastcgiRefusal::Down),
            },
            // A new connection in the place of a kept one.
            None => match fresh.then(|| local.exchange_one()).flatten() {
                Some(opening) => opening,
                None => match wait(thread, local, shared, &from(), until - now).await? {
                    Granted::Connection(connection) if !fresh => return Ok(connection),
                    Granted::Connection(connection) => connection.close(),
                    Granted::Permit(permit) => match shared.choose(permit, shared.at(thread.clock.now())) {
                        Choice::Way(opening) => opening,
                        _ => continue,
                    },
                },
            },
        };
        match open(thread, local, shared, opening).await {
            Some(connection) => return Ok(connection),
            None => thread.clock.read(),
        }
    }
}

async fn pause(thread: &PhpThread, time: Duration) {
    tokio::time::sleep(time).await;
    thread.clock.read();
}

/// What a request has waited for.
enum Granted {
    Connection(FastcgiConnection),
    Permit(FastcgiPermit),
}

/// Waits for a connection or the right to make one, for so many milliseconds.
async fn wait(
    thread: &Rc<PhpThread>,
    local: &Rc<Local>,
    shared: &Arc<FastcgiShared>,
    from: &Applicant,
    patience: u64,
) -> Result<Granted, FastcgiRefusal> {
    let now = shared.at(thread.clock.now());
    let QueuedRequest { place, id, woken } = match shared.wait(thread.index, from, now) {
        FastcgiTurn::Waits(waiting) => waiting,
        FastcgiTurn::Full => return Err(FastcgiRefusal::Full),
        FastcgiTurn::Overload => return Err(FastcgiRefusal::Overload),
    };
    let waiting = Leave { local, shared, place, id };
    shared.look_again();
    let granted = tokio::time::timeout(Duration::from_millis(patience), woken).await;
    thread.clock.read();
    match granted {
        Ok(Ok(Grant::Permit(permit))) => Ok(Granted::Permit(permit)),
        Ok(Ok(Grant::Loose(loose))) => {
            local.take_over(*loose).map(Granted::Connection).map_err(FastcgiRefusal::Ours)
        }
        Ok(Ok(Grant::Reserved)) => {
            local.take_reserved(waiting.id).map(Granted::Connection).ok_or(FastcgiRefusal::Timeout)
        }
        Ok(Err(_)) | Err(_) => Err(FastcgiRefusal::Timeout),
    }
}

/// Takes a request out of the queue when it stops waiting, and what was reserved for it to the next.
struct Leave<'a> {
    local: &'a Local,
    shared: &'a FastcgiShared,
    place: QueuePlace,
    id: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.shared.leave(self.place);
        if let Some(connection) = self.local.take_reserved(self.id) {
            self.local.give_back(connection, self.shared.now());
        }
    }
}

/// Makes a connection; `None` if that failed, which is noted.
async fn open(
    thread: &Rc<PhpThread>,
    local: &Local,
    shared: &Arc<FastcgiShared>,
    opening: FastcgiOpening,
) -> Option<FastcgiConnection> {
    let (backend, began) = (opening.backend, shared.at(thread.clock.now()));
    let result = FastcgiConnection::open(opening).await;
    thread.clock.read();
    match result {
        Ok(connection) => {
            thread.stats.add(Counter::FastCgiConnections, 1);
            if let change @ Some(_) = shared.backends[backend].accepts() {
                shared.tell(backend, change);
                ask_again(shared, backend);
            }
            local.adopt(&connection);
            Some(connection)
        }
        // The queue of connections that it has not accepted is full (unix(7)).
        Err((error, opening)) if error.kind() == io::ErrorKind::WouldBlock => {
            drop(opening);
            pause(thread, BREATHER).await;
            None
        }
        Err((error, opening)) => {
            drop(opening);
            thread.stats.add(Counter::FastCgiFailures, 1);
            let why = match error.kind() {
                io::ErrorKind::TimedOut => "connecting timed out".to_owned(),
                _ => error.to_string(),
            };
            let now = shared.at(thread.clock.now());
            shared.tell(backend, shared.backends[backend].refuses(began, now, &why));
            None
        }
    }
}

/// A backend that is up again may be another one.
fn ask_again(shared: &Arc<FastcgiShared>, backend: usize) {
    let shared = shared.clone();
    // Whether it takes connections is found out by the next request.
    tokio::task::spawn_local(async move { drop(capacity::ask(&shared, backend).await) });
}

/// A connection with a request that is on its way or being run.
pub struct Running {
    /// The event loop.
    pub thread: Rc<PhpThread>,
    connection: FastcgiConnection,
    local: Rc<Local>,
    input: Input,
    /// The content, if it is not sent yet and belongs to nobody else any more.
    content: Content,
    /// The backend took no more of the content.
    cut: bool,
}

impl Running {
    /// Sends more of the content and reads once.
    ///
    /// # Errors
    /// Those of [`FastcgiConnection::poll_read`].
    pub fn poll(&mut self, cx: &mut Context<'_>, take: impl FnMut(Record<'_>)) -> Poll<io::Result<()>> {
        let content = std::mem::take(&mut self.content);
        let polled = self.poll_with(cx, &content, take);
        self.content = content;
        polled
    }

    fn poll_with(
        &mut self,
        cx: &mut Context<'_>,
        content: &Content,
        take: impl FnMut(Record<'_>),
    ) -> Poll<io::Result<()>> {
        if !self.input.is_sent() {
            match self.input.poll_send(cx, &self.connection.socket, content) {
                Poll::Pending | Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) if is_closed(&error) => {
                    // It may have answered before it closed the connection.
                    (self.input, self.cut) = (Input::none(), true);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        let now = self.connection.shared().at(self.thread.clock.now());
        let polled = self.connection.poll_read(cx, now, take);
        if !self.connection.shared().settings.fastcgi_read_timeout.is_zero() {
            let since = &self.connection.socket.silent_since;
            if polled.is_ready() || since.get() == 0 {
                since.set(now);
            }
        }
        polled
    }

    /// Nothing is read for a while: silence means nothing.
    pub fn expect_nothing(&self) {
        self.connection.socket.silent_since.set(0);
    }

    /// The answer is complete, or of no interest any more.
    pub fn finish(self) {
        let now = self.connection.shared().at(self.thread.clock.now());
        // A rest of the content would be taken for a request.
        if self.input.is_sent() && !self.cut {
            self.connection.shared().backends[self.connection.backend()].answers();
            self.local.give_back(self.connection, now);
        }
    }

    /// The connection failed in the middle of a request.
    pub fn note_loss(&self, error: &io::Error) {
        let shared = self.connection.shared();
        let backend = self.connection.backend();
        let late = self.connection.socket.is_late();
        if error.kind() == io::ErrorKind::InvalidData {
            let address = &shared.backends[backend].address;
            shared.log.error(format_args!("php-fpm at {address} sent an invalid response: {error}"));
        }
        let counter = if late { Counter::PhpTimeouts } else { Counter::PhpLost };
        self.thread.stats.add(counter, 1);
        if !late && !self.connection.is_stale() {
            self.thread.stats.add(Counter::FastCgiFailures, 1);
            let now = shared.at(self.thread.clock.now());
            let why = format!("connections fail during requests: {error}");
            shared.tell(backend, shared.backends[backend].fails(now, &why));
        }
    }
}

/// One attempt over one connection.
async fn attempt(
    connection: FastcgiConnection,
    thread: &Rc<PhpThread>,
    local: &Rc<Local>,
    site: &Site,
    request: &mut Request,
    script: &Script,
) -> Result<Reply, FastcgiFailure> {
    let shared = connection.shared().clone();
    let messages = ScriptMessages::new(&shared, site.name(), script, connection.backend());
    let mut running = send(connection, thread, local, site, request, script)?;
    let mut answer = FastcgiResponse::new(messages);
    let read = poll_fn(|cx| {
        loop {
            match running.poll_with(cx, &request.content, |record| answer.take(record)) {
                Poll::Ready(Ok(()))
                    if answer.end.is_some()
                        || answer.broken().is_some()
                        || answer.content.len() >= FIRST_BYTES =>
                {
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Ok(())) => (),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                // Nothing more is there at the moment: what there is goes out.
                Poll::Pending if answer.head.is_some() => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    thread.clock.read();
    thread.process.script_speaks();
    if let Err(error) = read {
        return Err(failure(&running, error));
    }
    if let Some(how) = answer.end.filter(|end| !matches!(end, RequestEnd::Complete { .. })) {
        return Err(not_run(running, how));
    }
    let Some(head) = answer.head.take() else {
        let error: io::Error = match answer.broken() {
            Some(broken) => io::Error::new(io::ErrorKind::InvalidData, broken),
            None => io::Error::new(io::ErrorKind::InvalidData, "the response ended without a header section"),
        };
        return Err(failure(&running, error));
    };
    Ok(reply(running, answer, head, request))
}

/// Makes the reply of an answer whose head has come.
fn reply(
    mut running: Running,
    mut answer: FastcgiResponse,
    head: AnswerHead,
    request: &mut Request,
) -> Reply {
    let AnswerHead { status, reason, fields, length, ours } = head;
    let mut aside = (!ours.is_empty()).then(|| Box::new(Aside { fields: ours, ..Aside::default() }));
    let is_over = answer.end.is_some();
    if is_over {
        answer.messages.end();
    } else {
        // There is no other attempt: what is left of the content goes on from here.
        running.content = std::mem::take(&mut request.content);
    }
    if answer.messages.failed {
        running.thread.stats.add(Counter::PhpFailures, 1);
        aside.get_or_insert_with(Box::default).failed = true;
    }
    let is_handed = || aside.as_ref().is_some_and(|aside| aside.handed().is_some());
    let (is_empty, is_handed) = (matches!(status, 204 | 205 | 304), is_handed());
    let body = if is_empty || is_handed || request.is_head() {
        if is_over {
            running.finish();
        } else {
            Writing::new(running, answer.messages).let_fall();
        }
        if is_empty && !is_handed { Body::Empty } else { Body::Omitted(length) }
    } else if is_over {
        running.finish();
        Body::Bytes(as_long_as_said(answer.content, length, &mut aside))
    } else {
        let thread = running.thread.clone();
        let writing = Writing::new(running, answer.messages);
        Body::Stream(Box::new(pump::start_with(&thread, writing, answer.content, length)))
    };
    Reply { status, reason, fields, body, close: false, dated: false, aside, has_site_fields: false }
}

/// Sends as much of the request as goes at once; all of it, if it is short.
fn send(
    mut connection: FastcgiConnection,
    thread: &Rc<PhpThread>,
    local: &Rc<Local>,
    site: &Site,
    request: &Request,
    script: &Script,
) -> Result<Running, FastcgiFailure> {
    let shared = connection.shared().clone();
    let pool = &shared.settings.pools[site.pools.of(request).index()];
    let limit = pool.request_timeout.as_millis() as u64;
    let (input, cut) = BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        variables::write_params(buffer, site, request, script)
            .map_err(|ParamsTooLong| FastcgiFailure::TooLong)?;
        let whole = match &request.content {
            Content::Empty => Some(&b""[..]),
            Content::Memory(bytes) if bytes.len() <= SHORT => Some(&bytes[..]),
            _ => None,
        };
        if let Some(content) = whole {
            stdin(buffer, content);
        }
        let now = shared.at(thread.clock.now());
        connection.begin(now, if limit == 0 { 0 } else { now + limit });
        thread.stats.add(Counter::PhpRequests, 1);
        let sent = match connection.socket.send_now(buffer) {
            Ok(sent) => sent,
            // Closed before it had any of it.
            Err(_) => {
                local.close_all(connection.backend());
                return Err(FastcgiFailure::NotBegun);
            }
        };
        let rest = || buffer[sent..].to_vec();
        let input = match whole {
            Some(_) if sent == buffer.len() => Input::none(),
            Some(_) => Input::last(rest()),
            None => Input::after(rest()),
        };
        if buffer.capacity() > BUFFER_KEEP {
            *buffer = Vec::new();
        }
        Ok((input, false))
    })?;
    let (thread, local, content) = (thread.clone(), local.clone(), Content::Empty);
    Ok(Running { thread, connection, local, input, content, cut })
}

/// Whether the other end closed the connection.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | ConnectionAborted | NotConnected)
}

/// What the failure of a connection means for its request.
fn failure(running: &Running, error: io::Error) -> FastcgiFailure {
    let connection = &running.connection;
    if !is_closed(&error)
        && !matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
    {
        return FastcgiFailure::Ours(error);
    }
    running.note_loss(&error);
    if connection.socket.is_late() {
        FastcgiFailure::Late
    } else if error.kind() == io::ErrorKind::InvalidData {
        FastcgiFailure::Garbage
    } else {
        // Others may have been closed by the same.
        running.local.close_all(connection.backend());
        FastcgiFailure::Begun
    }
}

/// What a backend means that says that it did not run a request.
fn not_run(running: Running, how: RequestEnd) -> FastcgiFailure {
    running.note_loss(&io::Error::other(match how {
        RequestEnd::Overloaded => "it is overloaded",
        RequestEnd::CantMultiplex => "it accepts only one connection",
        _ => "it does not run scripts",
    }));
    match how {
        RequestEnd::Overloaded | RequestEnd::CantMultiplex => FastcgiFailure::Overloaded,
        _ => FastcgiFailure::Garbage,
    }
}

fn refusal(thread: &PhpThread, site: &Site, refused: FastcgiRefusal) -> Reply {
    match refused {
        FastcgiRefusal::Overload => thread.stats.add(Counter::PhpOverload, 1),
        FastcgiRefusal::Full => thread.stats.add(Counter::PhpQueueFull, 1),
        FastcgiRefusal::Timeout => thread.stats.add(Counter::PhpQueueTimeouts, 1),
        // Waiting does not help.
        FastcgiRefusal::Down => return site.unavailable(),
        FastcgiRefusal::Ours(error) => {
            let log = &thread.process.log;
            log.error(format_args!("cannot watch a connection to php-fpm: {error}"));
            return site.unavailable();
        }
    }
    site.turned_away()
}

fn no_answer(thread: &PhpThread, site: &Site, script: &Script, failure: &FastcgiFailure) -> Reply {
    let name = String::from_utf8_lossy(&script.filename);
    let log = &thread.process.log;
    match failure {
        FastcgiFailure::Late => plain(504),
        FastcgiFailure::TooLong => plain(431),
        FastcgiFailure::Overloaded => site.turned_away(),
        FastcgiFailure::Ours(error) => {
            log.error(format_args!("cannot pass a request for {name} to php-fpm: {error}"));
            plain(503)
        }
        FastcgiFailure::NotBegun => {
            log.error(format_args!(
                "{ATTEMPTS} connections to php-fpm in a row were closed before {name} ran"
            ));
            plain(502)
        }
        FastcgiFailure::Begun | FastcgiFailure::Garbage => plain(502),
    }
}
