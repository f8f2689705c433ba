//! The steps of a request in a pool, the same for workers of our own and for php-fpm:
//!
//! 1. find its pool and its rank ([`PhpJob`]);
//! 2. may it run at all? Requests like it may have killed workers ([`crashes`](super::crashes));
//! 3. it takes a free place, waits for one in the queue, or is refused; a refused browser waits in the
//!    [`waiting_room`](super::waiting_room);
//! 4. its worker or connection is prepared, and the request is sent;
//! 5. its response is read as far as it is available; the rest is pumped ([`pump`]);
//! 6. when the script has finished, the place is released and the time is accounted for;
//! 7. if the worker or connection was lost meanwhile, the request is run again, or not.
//!
//! A request is run again if no part of its response has reached the client and either no script has begun - whatever
//! its method - or its method is idempotent.

use std::future::{pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use millrace_pages::visitors::Unserved;
use millrace_settings::plan::Rewind;
use tokio::sync::oneshot;

use super::answer::{AnswerHead, PhpResponse};
use super::crashes::{Denied, Pass};
use super::job::{Arrival, PhpJob, begin_visit};
use super::loopback::Ports;
use super::pool::places::KeptPlace;
use super::pool::pools::PoolId;
use super::pool::waiters::QueuePlace;
use super::pump;
use super::transport::{Refusal, RunFailure, SentRequest, Transport};
use crate::PhpThread;
use millrace_base::context::stats::Counter;
use millrace_base::message::Request;
use millrace_base::message::reply::{Aside, Body, Reply, plain};
use millrace_base::site::{Script, Site};

/// Maximum number of attempts, if no script has begun.
const ATTEMPTS: u32 = 5;
/// Maximum time that a request waits for other requests for a page that kills.
const SUSPECT_WAIT: Duration = Duration::from_secs(10);
/// Bytes of a response that are read, if available, before the first of them are sent.
const FIRST_BYTES: usize = 256 << 10;

/// Runs requests of an event loop in a pool.
pub struct Dispatcher<'a, T: Transport> {
    thread: &'a Rc<PhpThread>,
    transport: &'a Arc<T>,
}

impl<'a, T: Transport> Dispatcher<'a, T> {
    /// A dispatcher for this pool.
    pub fn new(thread: &'a Rc<PhpThread>, transport: &'a Arc<T>) -> Dispatcher<'a, T> {
        Dispatcher { thread, transport }
    }

    /// Runs a script and returns its response as soon as the fields are known; returns 502, 503 or 504 if that fails.
    /// Dropping the future tells the script that its client has gone. `None` if `gone` became ready before the
    /// request was sent; after that `gone` is ignored.
    pub async fn run(
        self,
        site: &Site,
        request: &mut Request,
        script: &Script,
        gone: impl Future<Output = ()>,
    ) -> Option<Reply> {
        if T::REPORTS_VISITORS {
            begin_visit(self.thread, site, request);
        }
        let mut unserved = Unserved(request.found.visit.clone());
        let mut job = PhpJob::new(site, request, script, self.thread.clock.now());
        if self.transport.settings().rewind != Rewind::Off {
            job.find_kind(request);
        }
        let mut gone = pin!(unless(job.outlives_its_client, gone));
        let (mut tries, mut past) = (Tries::default(), T::Past::default());
        loop {
            let pass = match self.may_run(&job, request, gone.as_mut()).await {
                Ok(pass) => pass,
                Err(denied) => return self.denial(&job, denied),
            };
            let is_suspect = pass.as_ref().is_some_and(Pass::is_suspect);
            let lease = match self.acquire(&job, request, pass, &mut past, gone.as_mut()).await {
                Ok(lease) => lease,
                Err(refused) => return self.refusal(&job, refused),
            };
            // From now on the worker's task holds the visit.
            unserved.0 = None;
            let failure = match self.attempt(lease, &job, request).await {
                Ok(reply) => return Some(reply),
                Err(failure) => failure,
            };
            if matches!(failure, RunFailure::Declined) && !job.is_declined {
                job.is_declined = true;
                continue;
            }
            if !tries.again::<T>(&failure, request.is_idempotent() && !is_suspect) {
                return Some(self.no_answer(&job, &failure));
            }
            self.thread.stats.add(Counter::PhpRetried, 1);
            self.transport.rest(self.thread, &failure, &mut past).await;
            (job.fresh, job.since) = (true, self.thread.clock.now());
        }
    }

    /// Whether a request may run, perhaps after it has waited for others for its page.
    async fn may_run(
        &self,
        job: &PhpJob<'_>,
        request: &Request,
        gone: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Option<Pass>, Denied> {
        let patience = SUSPECT_WAIT.min(self.transport.settings().pools[job.pool.index()].queue_timeout);
        self.transport.ban().enter(request, job.script, patience, gone).await
    }

    /// A place for a job and the worker or connection to run it; waits for both if necessary. Cancel-safe.
    async fn acquire(
        &self,
        job: &PhpJob<'_>,
        request: &Request,
        pass: Option<Pass>,
        past: &mut T::Past,
        mut gone: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<T::Lease, Refusal> {
        let asker = || Arrival {
            from: job.applicant(request),
            local: Ports::of(request),
            // A worker that got it ahead would run it without its pass.
            short: if pass.is_some() { None } else { self.transport.short(job, request) },
        };
        let mut lease = match self.take_or_queue(job, asker)? {
            Taken::Now(lease) => lease,
            Taken::Later(waiting, woken) => self.wait(waiting, woken, gone.as_mut()).await?,
        };
        if let Some(pass) = pass {
            self.thread.clock.read();
            self.thread.stats.add(Counter::PhpCrashLimited, u64::from(pass.is_suspect()));
            T::watch(&mut lease, pass);
        }
        tokio::select! {
            biased;
            lease = self.transport.ready(self.thread, lease, job, past) => lease,
            () = gone => Err(Refusal::Gone),
        }
    }

    fn take_or_queue(
        &self,
        job: &PhpJob<'_>,
        asker: impl FnOnce() -> Arrival,
    ) -> Result<Taken<'a, T>, Refusal> {
        let (transport, thread) = (self.transport, self.thread.index);
        let take = |state: &mut T::State| {
            let may_run = T::pools(state).may_run_for(job.pool, job.rank);
            if may_run { transport.take(state, thread, job) } else { None }
        };
        let now = |mut lease| {
            transport.taken(&mut lease);
            Ok(Taken::Now(lease))
        };
        let taken = take(&mut transport.lock());
        if let Some(lease) = taken {
            return now(lease);
        }
        let Arrival { from, local, short } = asker();
        let mut state = transport.lock();
        if let Some(lease) = take(&mut state) {
            drop(state);
            return now(lease);
        }
        if let Some(refused) = transport.refuses(&mut state) {
            return Err(refused);
        }
        let is_ending = T::is_ending(&state);
        let pools = T::pools(&mut state);
        let at_once = pools.at_once(job.pool);
        let pool = pools.get_mut(job.pool);
        // A request for which another worker is being forked does not count as waiting.
        let most = transport.settings().pools[job.pool.index()].queue + at_once.saturating_sub(pool.running);
        if pool.queue.waiters.len() >= most || is_ending {
            pool.figures.refused += 1;
            return Err(Refusal::Full);
        }
        let now = transport.since_epoch(self.thread.clock.now());
        let turn = pool.admit(now, &from, at_once).ok_or(Refusal::Overload)?;
        let (wake, woken) = oneshot::channel();
        let place = pool.queue.waiters.push(thread, turn, now, local, short, wake);
        if job.kind.is_some() {
            pool.queue.waiters.set_kind(place, job.kind);
        }
        transport.waits(state);
        Ok(Taken::Later(InQueue { transport, pool: job.pool, place }, woken))
    }

    /// Waits for the request's turn.
    async fn wait(
        &self,
        waiting: InQueue<'_, T>,
        woken: oneshot::Receiver<T::Lease>,
        gone: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<T::Lease, Refusal> {
        let lease = tokio::select! {
            biased;
            // The supervisor drops the sender of a request that has waited too long.
            lease = woken => lease,
            () = gone => return Err(Refusal::Gone),
        };
        std::mem::forget(waiting);
        if !lease.as_ref().is_ok_and(T::is_begun) {
            self.thread.clock.read();
        }
        lease.map_err(|_| self.transport.refuses(&mut self.transport.lock()).unwrap_or(Refusal::Timeout))
    }

    /// Sends a request, and reads its response as far as it is available.
    async fn attempt(
        &self,
        lease: T::Lease,
        job: &PhpJob<'_>,
        request: &mut Request,
    ) -> Result<Reply, RunFailure> {
        let thread = self.thread;
        let mut running = self.transport.send(thread, lease, job, request).await?;
        let mut answer = PhpResponse::default();
        let read = poll_fn(|cx| poll_start(&mut running, cx, request, &mut answer)).await;
        // The worker goes on to its next request at that time.
        thread.clock.read();
        thread.process.script_speaks();
        if let Err(error) = read {
            return Err(running.lose(thread, error).await);
        }
        if answer.is_declined {
            running.finish(thread);
            return Err(RunFailure::Declined);
        }
        let Some(mut head) = answer.head.take() else {
            let error = io::Error::new(io::ErrorKind::InvalidData, "content or an end without a head");
            return Err(running.lose(thread, error).await);
        };
        if let Some(reply) = running.account(thread, &mut head, &mut answer, request) {
            running.finish(thread);
            return Ok(reply);
        }
        Ok(reply(thread, running, head, answer, request))
    }

    /// A place in the waiting room for a browser whose request was refused; `None`: there are too many.
    pub fn keep_place(&self, job: &PhpJob<'_>, request: &Request) -> Option<KeptPlace> {
        let now = self.transport.since_epoch(self.thread.clock.now());
        let mut state = self.transport.lock();
        let pools = T::pools(&mut state);
        let at_once = pools.at_once(job.pool);
        pools.get_mut(job.pool).keep_place(now, &job.applicant(request), at_once)
    }

    /// The response to a request that may not run: it has killed workers, or others for its page have.
    fn denial(&self, job: &PhpJob<'_>, denied: Denied) -> Option<Reply> {
        let (counter, reply) = match denied {
            Denied::Killer => (Counter::PhpCrashRefused, Some(plain(500))),
            Denied::Crowd => (Counter::PhpCrashCrowd, Some(job.turned_away())),
            Denied::Gone => (Counter::PhpGone, None),
        };
        self.thread.stats.add(counter, 1);
        reply
    }

    /// The response to a request that does not run.
    fn refusal(&self, job: &PhpJob<'_>, refused: Refusal) -> Option<Reply> {
        let count = |counter| self.thread.stats.add(counter, 1);
        match refused {
            Refusal::Full => count(Counter::PhpQueueFull),
            Refusal::Timeout => count(Counter::PhpQueueTimeouts),
            Refusal::Overload => count(Counter::PhpOverload),
            // The waiting room does not help if no worker boots or php-fpm is not running.
            Refusal::Unbooted => {
                count(Counter::PhpUnbooted);
                return Some(job.unavailable());
            }
            Refusal::Down => return Some(job.unavailable()),
            Refusal::Lost => return Some(plain(502)),
            Refusal::Gone => {
                count(Counter::PhpGone);
                return None;
            }
        }
        Some(job.turned_away())
    }

    /// The response to a request that was lost.
    fn no_answer(&self, job: &PhpJob<'_>, failure: &RunFailure) -> Reply {
        let (name, log) = (String::from_utf8_lossy(&job.script.filename), &self.thread.process.log);
        match failure {
            RunFailure::Late => plain(504),
            RunFailure::TooLong => plain(431),
            RunFailure::Overloaded => job.turned_away(),
            RunFailure::Ours(error) => {
                log.error(format_args!("a request for {name} could not be handed to {}: {error}", T::NAME));
                plain(503)
            }
            RunFailure::NotBegun => {
                log.error(format_args!("{ATTEMPTS} {} before {name} ran", T::NOT_BEGUN));
                plain(502)
            }
            RunFailure::Begun | RunFailure::Garbage | RunFailure::Declined => plain(502),
        }
    }
}

/// The outcome for a job.
enum Taken<'a, T: Transport> {
    Now(T::Lease),
    Later(InQueue<'a, T>, oneshot::Receiver<T::Lease>),
}

/// Takes a waiter out of the queue when it stops waiting.
struct InQueue<'a, T: Transport> {
    transport: &'a T,
    pool: PoolId,
    place: QueuePlace,
}

impl<T: Transport> Drop for InQueue<'_, T> {
    fn drop(&mut self) {
        let offer = T::pools(&mut self.transport.lock()).get_mut(self.pool).queue.waiters.remove(self.place);
        if let Some(offer) = offer {
            // The worker's holder sees that the worker runs this request when the previous one has finished.
            offer.handle.scoreboard.abort(offer.handle.slot, offer.sequence);
        }
    }
}

/// How often a request was tried.
#[derive(Debug, Default)]
struct Tries {
    attempts: u32,
    repeats: u32,
}

impl Tries {
    /// Whether a request that failed in this way is run again; `may_repeat`: also if a script had begun.
    fn again<T: Transport>(&mut self, failure: &RunFailure, may_repeat: bool) -> bool {
        self.attempts += 1;
        match failure {
            RunFailure::NotBegun | RunFailure::Overloaded => self.attempts < ATTEMPTS,
            RunFailure::Begun if may_repeat => {
                self.repeats += 1;
                self.repeats <= T::REPEATS
            }
            _ => false,
        }
    }
}

/// Reads a response until its head, and what has arrived with it, is available.
fn poll_start(
    running: &mut impl SentRequest,
    cx: &mut Context<'_>,
    request: &Request,
    answer: &mut PhpResponse,
) -> Poll<io::Result<()>> {
    loop {
        let polled = running.poll_answer(cx, request, answer);
        if !answer.early.is_empty() {
            let lines = std::mem::take(&mut answer.early);
            request.hints.iter().for_each(|hints| hints.send(&lines));
        }
        match polled {
            Poll::Ready(Ok(())) if answer.is_over || answer.content.len() >= FIRST_BYTES => {
                return Poll::Ready(Ok(()));
            }
            Poll::Ready(Ok(())) => (),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            // No more is available at the moment: what there is can be sent.
            Poll::Pending if answer.head.is_some() => return Poll::Ready(Ok(())),
            Poll::Pending => return Poll::Pending,
        }
    }
}

/// Makes the reply of a response whose start has arrived.
fn reply<R: SentRequest>(
    thread: &Rc<PhpThread>,
    running: R,
    head: AnswerHead,
    mut answer: PhpResponse,
    request: &Request,
) -> Reply {
    let AnswerHead { status, reason, fields, length, .. } = head;
    // A script that has handed over a file writes nothing that a client gets.
    let is_handed = answer.aside.as_ref().is_some_and(|aside| aside.handed().is_some());
    let body = if matches!(status, 204 | 205 | 304) && !is_handed {
        running.finish(thread);
        Body::Empty
    } else if is_handed {
        running.finish(thread);
        Body::Omitted(length)
    } else if request.is_head() {
        running.finish(thread);
        Body::Omitted(R::length_of_get(status, length, &answer))
    } else if answer.is_over {
        running.finish(thread);
        let content = std::mem::take(&mut answer.content);
        Body::Bytes(as_long_as_said(content, length, &mut answer.aside))
    } else {
        let content = std::mem::take(&mut answer.content);
        Body::Stream(Box::new(pump::start(thread, running, content, length)))
    };
    Reply { reason, fields, body, aside: answer.aside, ..Reply::new(status) }
}

/// Cuts content off at the script's Content-Length, as nginx does. Shorter content is sent as it is, but is marked as
/// incomplete.
fn as_long_as_said(mut content: Vec<u8>, said: Option<u64>, aside: &mut Option<Box<Aside>>) -> Vec<u8> {
    match said {
        Some(said) if said < content.len() as u64 => content.truncate(said as usize),
        Some(said) if said > content.len() as u64 => aside.get_or_insert_default().failed = true,
        _ => {}
    }
    content
}

/// `event`, or never.
async fn unless(never: bool, event: impl Future<Output = ()>) {
    if never {
        pending::<()>().await;
    }
    event.await;
}
