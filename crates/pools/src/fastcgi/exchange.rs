//! A request over a connection to php-fpm: connects, sends the request, reads the response, and decides what a
//! failure means.
//!
//! php-fpm acknowledges nothing: if a request was sent and got no response, it is unknown whether it ran, and a
//! process that has reached its maximum of requests closes its connection a moment after its last response. So a
//! request that must not run twice, and one that is run again, is sent over a new connection, which has not been
//! closed yet, in place of an idle one. If no connection can be made, because all of php-fpm was killed, the request
//! gets another attempt.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use millrace_settings::plan;
use millrace_wire::fastcgi::{HeadError, ParamsTooLong, Record, RequestEnd, stdin};
use tokio::sync::oneshot;

use super::answer::{RecordReader, ScriptMessages};
use super::backends::{Choice, FastcgiShared, FpmState, Grant, Opening};
use super::capacity;
use super::connection::FastcgiConnection;
use super::input::Input;
use crate::PhpThread;
use crate::answer::{AnswerHead, PhpResponse};
use crate::crashes::Ban;
use crate::job::PhpJob;
use crate::pool::pools::Pools;
use crate::transport::{Refusal, RunFailure, SentRequest, Transport};
use crate::variables;
use millrace_base::context::stats::Counter;
use millrace_base::message::reply::Reply;
use millrace_base::message::request::{Content, Request};

/// Short content is sent together with the head of the request, bytes.
const SHORT: usize = 16 << 10;
/// A larger buffer is freed.
const BUFFER_KEEP: usize = 256 << 10;
/// A process that has reached its maximum of requests ends alone. After this time it is known whether others fail,
/// too.
const MOMENT: Duration = Duration::from_millis(2);
/// Pause before another attempt when all backends are overloaded.
const BREATHER: Duration = Duration::from_millis(10);

thread_local! {
    /// The request to be sent. Never borrowed over an await.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Transport for FastcgiShared {
    type Lease = Grant;
    type State = FpmState;
    type Sent = Connected;
    type Past = Losses;

    const REPORTS_VISITORS: bool = false;
    const REPEATS: u32 = 4;
    const NAME: &'static str = "php-fpm";
    const NOT_BEGUN: &'static str = "connections to php-fpm in a row were closed";

    fn settings(&self) -> &plan::Php {
        &self.settings
    }

    fn ban(&self) -> &Arc<Ban> {
        &self.ban
    }

    fn lock(&self) -> MutexGuard<'_, FpmState> {
        FastcgiShared::lock(self)
    }

    fn pools(state: &mut FpmState) -> &mut Pools<oneshot::Sender<Grant>> {
        &mut state.pools
    }

    fn since_epoch(&self, now: Instant) -> u64 {
        self.at(now)
    }

    /// A place is enough: there are never more places than permitted connections.
    fn take(self: &Arc<Self>, state: &mut FpmState, thread: usize, job: &PhpJob<'_>) -> Option<Grant> {
        // A fresh one is opened in its place: its process may be the only one that takes it.
        let connection = self.take_idle(state, thread, self.at(job.since));
        self.stir(state);
        Some(self.grant(state, job.pool, job.rank, connection))
    }

    fn waits(&self, mut state: MutexGuard<'_, FpmState>) {
        self.stir(&mut state);
    }

    async fn ready(
        self: &Arc<Self>,
        thread: &Rc<PhpThread>,
        mut grant: Grant,
        job: &PhpJob<'_>,
        past: &mut Losses,
    ) -> Result<Grant, Refusal> {
        past.outages.get_or_insert(self.outages());
        past.failures.get_or_insert(self.failures());
        if let Some(connection) = grant.connection().as_mut().filter(|_| !job.fresh) {
            connection.settle(thread.index).map_err(|error| unwatched(thread, &error))?;
            if connection.becomes_free().await {
                return Ok(grant);
            }
            thread.clock.read();
        }
        // Another one is opened in its place.
        drop(grant.connection().take());
        let patience = self.settings.pools[job.pool.index()].queue_timeout.as_millis() as u64;
        let connection = connect(self, thread, self.at(job.since) + patience).await?;
        *grant.connection() = Some(connection);
        let before = if past.are_repeated() { past.outages.replace(self.outages()) } else { None };
        // The connection becomes idle then.
        let is_alone = past.failures.is_some_and(|before| self.failures() <= before + past.losses);
        if before.is_some() && before == past.outages && is_alone { Err(Refusal::Lost) } else { Ok(grant) }
    }

    async fn send(
        self: &Arc<Self>,
        thread: &Rc<PhpThread>,
        grant: Grant,
        job: &PhpJob<'_>,
        request: &Request,
    ) -> Result<Connected, RunFailure> {
        send(self, thread, grant, job, request)
    }

    async fn rest(&self, thread: &PhpThread, failure: &RunFailure, past: &mut Losses) {
        match failure {
            RunFailure::Overloaded => pause(thread, BREATHER).await,
            RunFailure::Begun => {
                past.losses += 1;
                pause(thread, MOMENT).await;
                if past.are_repeated() || self.is_failing() {
                    // All processes are being killed, which takes a while: another one would be next.
                    pause(thread, 3 * BREATHER).await;
                }
            }
            _ => {}
        }
    }
}

/// What a request stores about its earlier attempts.
#[derive(Debug, Default)]
pub struct Losses {
    /// How often its script had begun and was lost.
    losses: u64,
    /// The number of outages when the request arrived, or when it began repeatedly.
    outages: Option<u64>,
    /// The number of connections that had failed in the middle of requests when it arrived. If others fail meanwhile,
    /// php-fpm is being restarted: the script is not to blame.
    failures: Option<u64>,
}

impl Losses {
    fn are_repeated(&self) -> bool {
        self.losses > 1
    }
}

async fn pause(thread: &PhpThread, time: Duration) {
    tokio::time::sleep(time).await;
    thread.clock.read();
}

fn unwatched(thread: &PhpThread, error: &io::Error) -> Refusal {
    thread.process.log.error(format_args!("cannot watch a connection to php-fpm: {error}"));
    Refusal::Down
}

/// Opens a connection to any backend that takes one before `until`.
async fn connect(
    shared: &Arc<FastcgiShared>,
    thread: &Rc<PhpThread>,
    until: u64,
) -> Result<FastcgiConnection, Refusal> {
    let mut was_tried = false;
    loop {
        let now = shared.at(thread.clock.now());
        if std::mem::replace(&mut was_tried, true) && now >= until {
            return Err(Refusal::Timeout);
        }
        match shared.opening(now) {
            Choice::There(opening) => match open(thread, shared, opening).await {
                Some(connection) => return Ok(connection),
                None => thread.clock.read(),
            },
            Choice::Full => pause(thread, BREATHER).await,
            Choice::Later(moment) => {
                let wait = moment.min(until).saturating_sub(now).max(1);
                pause(thread, Duration::from_millis(wait)).await;
            }
            Choice::Never => return Err(Refusal::Down),
        }
    }
}

/// Opens a connection; `None` if that failed, which is noted.
async fn open(
    thread: &Rc<PhpThread>,
    shared: &Arc<FastcgiShared>,
    opening: Opening,
) -> Option<FastcgiConnection> {
    let (backend, began) = (opening.backend, shared.at(thread.clock.now()));
    let result = FastcgiConnection::open(opening, thread.index).await;
    thread.clock.read();
    match result {
        Ok(connection) => {
            thread.stats.add(Counter::FastCgiConnections, 1);
            if let change @ Some(_) = shared.backends[backend].accepts() {
                shared.tell(backend, change);
                ask_again(shared, backend);
            }
            shared.lock().sockets.push(Arc::downgrade(connection.socket()));
            Some(connection)
        }
        // php-fpm's listen queue is full (unix(7)).
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

/// A backend that is up again may have another configuration.
fn ask_again(shared: &Arc<FastcgiShared>, backend: usize) {
    let shared = shared.clone();
    // The next request finds out whether it takes connections.
    tokio::task::spawn_local(async move { drop(capacity::ask(&shared, backend).await) });
}

/// A connection with a request that is being sent or run.
pub struct Connected {
    /// The event loop.
    pub(super) thread: Rc<PhpThread>,
    grant: Grant,
    input: Input,
    /// The content, if it has not been sent yet and nothing else owns it.
    content: Content,
    /// The backend took no more of the content.
    is_cut: bool,
    /// What has arrived beside the content.
    pub(super) reading: RecordReader,
}

impl Connected {
    /// Sends more of the content and reads once.
    ///
    /// # Errors
    /// The errors of [`FastcgiConnection::poll_read`].
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnMut(&mut RecordReader, Record<'_>),
    ) -> Poll<io::Result<()>> {
        let content = std::mem::take(&mut self.content);
        let polled = self.poll_with(cx, &content, take);
        self.content = content;
        polled
    }

    fn poll_with(
        &mut self,
        cx: &mut Context<'_>,
        content: &Content,
        mut take: impl FnMut(&mut RecordReader, Record<'_>),
    ) -> Poll<io::Result<()>> {
        let now = self.grant.shared().at(self.thread.clock.now());
        let silence = self.grant.shared().settings.fastcgi_read_timeout.as_millis() as u64;
        let Some(connection) = self.grant.connection() else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if !self.input.is_sent() {
            match self.input.poll_send(cx, connection.socket(), content) {
                Poll::Pending | Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) if is_closed(&error) => {
                    // It may have responded before it closed the connection.
                    (self.input, self.is_cut) = (Input::none(), true);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        let reading = &mut self.reading;
        let polled = connection.poll_read(cx, now, |record| take(reading, record));
        if silence != 0 && (polled.is_ready() || !connection.is_awaited()) {
            self.thread.clock.read();
            let now = connection.at(self.thread.clock.now());
            connection.await_until(now + silence);
        }
        polled
    }

    /// The server stops reading for a while: silence means nothing.
    pub(super) fn expect_nothing(&mut self) {
        self.grant.connection().iter_mut().for_each(FastcgiConnection::expect_nothing);
    }

    /// Milliseconds from the pool's creation to `moment`.
    pub(super) fn at(&self, moment: Instant) -> u64 {
        self.grant.shared().at(moment)
    }

    /// The time of its request begins anew, or stands.
    pub(super) fn set_time(&mut self, now: Option<u64>) {
        self.grant.connection().iter_mut().for_each(|connection| connection.set_clock(now));
    }

    /// The response is complete.
    pub(super) fn give_back(mut self) {
        self.reading.messages.end();
        // The backend would take the rest of the content for a request.
        if self.input.is_sent() && !self.is_cut {
            let now = self.grant.shared().at(self.thread.clock.now());
            self.grant.finish(now);
        }
    }

    /// The connection failed in the middle of a request; what that means for it.
    pub(super) fn note_loss(mut self, error: io::Error) -> RunFailure {
        let shared = self.grant.shared().clone();
        let Some(connection) = self.grant.connection() else { return RunFailure::NotBegun };
        let (backend, is_late) = (connection.backend(), connection.socket().is_late());
        if let Some(how) = self.reading.end.filter(|end| !matches!(end, RequestEnd::Complete { .. })) {
            return self.note_refusal(&shared, backend, how);
        }
        let is_garbage = error.kind() == io::ErrorKind::InvalidData;
        if !is_closed(&error) && error.kind() != io::ErrorKind::UnexpectedEof && !is_garbage {
            return RunFailure::Ours(error);
        }
        if is_garbage {
            let address = &shared.backends[backend].address;
            shared.log.error(format_args!("php-fpm at {address} sent an invalid response: {error}"));
        }
        let counter = if is_late { Counter::PhpTimeouts } else { Counter::PhpLost };
        self.thread.stats.add(counter, 1);
        if !is_late && !connection.is_stale() {
            self.note_failure(&shared, backend, &error.to_string());
        }
        if is_late {
            RunFailure::Late
        } else if is_garbage {
            RunFailure::Garbage
        } else {
            // Other connections may have been closed for the same reason.
            shared.close_all(backend);
            RunFailure::Begun
        }
    }

    /// The backend reports that it did not run the request.
    fn note_refusal(&self, shared: &FastcgiShared, backend: usize, how: RequestEnd) -> RunFailure {
        let why = match how {
            RequestEnd::Overloaded => "it is overloaded",
            RequestEnd::CantMultiplex => "it accepts only one connection",
            _ => "it does not run scripts",
        };
        self.thread.stats.add(Counter::PhpLost, 1);
        self.note_failure(shared, backend, why);
        match how {
            RequestEnd::Overloaded | RequestEnd::CantMultiplex => RunFailure::Overloaded,
            _ => RunFailure::Garbage,
        }
    }

    fn note_failure(&self, shared: &FastcgiShared, backend: usize, why: &str) {
        self.thread.stats.add(Counter::FastCgiFailures, 1);
        let now = shared.at(self.thread.clock.now());
        let why = format!("connections fail in the middle of requests: {why}");
        shared.tell(backend, shared.backends[backend].fails(now, &why));
    }
}

impl SentRequest for Connected {
    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        request: &Request,
        answer: &mut PhpResponse,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_with(cx, &request.content, |reading, record| reading.take(record, answer)))?;
        let invalid = |why: HeadError| Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        match self.reading.end {
            Some(RequestEnd::Complete { .. }) => answer.is_over = true,
            Some(_) => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
            None => {}
        }
        self.reading.broken().map_or(Poll::Ready(Ok(())), invalid)
    }

    fn account(
        &mut self,
        thread: &PhpThread,
        _: &mut AnswerHead,
        answer: &mut PhpResponse,
        request: &mut Request,
    ) -> Option<Reply> {
        if answer.is_over {
            self.reading.messages.end();
        } else {
            // There will be no other attempt: the rest of the content is sent from here.
            self.content = std::mem::take(&mut request.content);
        }
        if self.reading.messages.failed {
            thread.stats.add(Counter::PhpFailures, 1);
            answer.aside.get_or_insert_default().failed = true;
        }
        None
    }

    /// php-fpm writes no content for HEAD.
    fn length_of_get(_: u16, said: Option<u64>, _: &PhpResponse) -> Option<u64> {
        said
    }

    fn finish(self, _: &PhpThread) {
        if self.reading.end.is_some() { self.give_back() } else { self.let_fall() }
    }

    async fn lose(self, _: &PhpThread, error: io::Error) -> RunFailure {
        self.note_loss(error)
    }
}

/// Sends as much of the request as possible at once; all of it, if it is short.
fn send(
    shared: &Arc<FastcgiShared>,
    thread: &Rc<PhpThread>,
    mut grant: Grant,
    job: &PhpJob<'_>,
    request: &Request,
) -> Result<Connected, RunFailure> {
    let limit = shared.settings.pools[job.pool.index()].request_timeout.as_millis() as u64;
    let Some(connection) = grant.connection() else { return Err(RunFailure::NotBegun) };
    let messages = ScriptMessages::new(shared, job.site.name(), job.script, connection.backend());
    let input = BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        connection.write_begin(buffer);
        variables::write_params(buffer, job.site, request, job.script)
            .map_err(|ParamsTooLong| RunFailure::TooLong)?;
        let whole = match &request.content {
            Content::Empty => Some(&b""[..]),
            Content::Memory(bytes) if bytes.len() <= SHORT => Some(&bytes[..]),
            _ => None,
        };
        if let Some(content) = whole {
            stdin(buffer, content);
        }
        let now = shared.at(thread.clock.now());
        connection.begin(job.pool, now, limit);
        thread.stats.add(Counter::PhpRequests, 1);
        let sent = match connection.socket().send_now(buffer) {
            Ok(sent) => sent,
            // Closed before it received anything.
            Err(_) => {
                shared.close_all(connection.backend());
                return Err(RunFailure::NotBegun);
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
        Ok(input)
    })?;
    let (thread, content, reading) = (thread.clone(), Content::Empty, RecordReader::new(messages));
    Ok(Connected { thread, grant, input, content, is_cut: false, reading })
}

/// Whether the other end closed the connection.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | ConnectionAborted | NotConnected)
}
