//! One request: a worker is found, the request sent, the answer read as far as it is there. And what to do if the
//! worker dies.
//!
//! A request is run again if nothing of it has reached the client and either no script has begun (the scoreboard says
//! that the worker never received it) - whatever its method - or its method is idempotent, once.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use millrace_wire::frames::{BODY_OF_HEAD_MAX, Body as FrameBody, INLINE_BODY_MAX, RequestTooLong};
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};

use super::answer::{AnswerHead, PhpResponse};
use super::crashes::{Denied, Pass};
use super::loopback::Ports;
use super::pool::admission::Rank;
use super::pool::queue::Arrival;
use super::pool::request_queue::Applicant;
use super::pool::waiters::Short;
use super::pool::{Lease, QueueRefusal, WorkerSet, WorkersShared};
use super::pump;
use super::variables;
use super::worker_handle::{Task, WorkerHandle};
use crate::context::stats::Counter;
use crate::message::reply::{Aside, Body, Reply, plain};
use crate::message::request::{Content, Request};
use crate::php::PhpThread;
use crate::php::SiteWorkers;
use crate::site::visitors::Unserved;
use crate::site::{Script, Site};

/// Workers that may die one after the other before they have received a request.
const ATTEMPTS: u32 = 5;
/// For so long it is waited until it is known how a worker ended. Its host tells within milliseconds, if there is one.
const ENDING: Duration = Duration::from_millis(100);
/// So long a request waits for others of a page that kills, at most.
const SUSPECT_WAIT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read before the first of them leave, if they are there.
const FIRST_BYTES: usize = 256 << 10;
/// A larger frame is sent only by its own request, bytes. A socket takes some of this size at once.
const SHORT_FRAME: usize = 8 << 10;
/// A larger frame buffer is not kept.
const FRAME_KEEP: usize = 256 << 10;

thread_local! {
    /// The frame that is being sent. Never borrowed over an await.
    static FRAME: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Why there is no answer.
#[derive(Debug)]
enum WorkerFailure {
    /// The worker died before it had received the request.
    NotBegun,
    /// The worker died while the script ran.
    Begun,
    /// The worker was killed because the script took too long.
    Late,
    /// The worker sent what is no answer.
    Garbage,
    /// The request's head does not fit into a frame.
    TooLong,
    /// The request could not be handed over: no memory or descriptor for its content.
    Ours(io::Error),
}

/// Runs a script and returns its answer as soon as its fields are known; 502, 503, 504 where that fails. Dropping the
/// future tells the script that its client has gone. `None` if `gone` became ready before a worker had the request; it is
/// not looked at any more after that.
pub async fn run(
    thread: &Rc<PhpThread>,
    workers: &WorkerSet,
    site: &Arc<SiteWorkers>,
    request: &mut Request,
    script: &Script,
    gone: impl Future<Output = ()>,
) -> Option<Reply> {
    let stats = &thread.stats;
    site.visitors.begin(thread, request, site.cache.as_deref());
    let mut unserved = Unserved(request.visit.clone());
    let pool = site.pools.of(request);
    let rank = site.pools.rank(request, pool);
    let mut gone = pin!(unless(site.pools.outlives_its_client(pool), gone));
    let (mut attempts, mut repeated) = (0, false);
    loop {
        let patience = SUSPECT_WAIT.min(workers.shared().settings.pools[pool.index()].queue_timeout);
        let pass = match workers.shared().ban.enter(request, script, patience, gone.as_mut()).await {
            Ok(pass) => pass,
            Err(denied) => return denial(thread, site, denied),
        };
        let suspect = pass.as_ref().is_some_and(Pass::is_suspect);
        let asker = || Arrival {
            from: applicant(request, rank),
            local: local(request),
            // A worker that got it ahead would run it without its pass.
            short: if pass.is_some() { None } else { short(workers.shared(), site, request, script) },
        };
        let mut lease = match workers.shared().acquire(thread, pool, rank, asker, gone.as_mut()).await {
            Ok(lease) => {
                // From now on the worker's task has it.
                unserved.0 = None;
                lease
            }
            Err(refused) => {
                let counter = match refused {
                    QueueRefusal::Full => Counter::PhpQueueFull,
                    QueueRefusal::Timeout => Counter::PhpQueueTimeouts,
                    QueueRefusal::Overload => Counter::PhpOverload,
                    QueueRefusal::Unbooted => Counter::PhpUnbooted,
                    QueueRefusal::Gone => {
                        stats.add(Counter::PhpGone, 1);
                        return None;
                    }
                };
                stats.add(counter, 1);
                // Waiting does not help where no worker boots.
                let waits = refused != QueueRefusal::Unbooted;
                return Some(if waits { site.turned_away() } else { site.unavailable() });
            }
        };
        if pass.is_some() {
            thread.clock.read();
            stats.add(Counter::PhpCrashLimited, u64::from(suspect));
            lease.worker().pass = pass;
        }
        let failure = match attempt(lease, workers.shared(), thread, site, request, script).await {
            Ok(reply) => return Some(reply),
            Err(failure) => failure,
        };
        attempts += 1;
        let again = match failure {
            WorkerFailure::NotBegun => attempts < ATTEMPTS,
            WorkerFailure::Begun if request.is_idempotent() && !suspect => {
                !std::mem::replace(&mut repeated, true)
            }
            _ => false,
        };
        if !again {
            return Some(refusal(thread, script, &failure));
        }
        stats.add(Counter::PhpRetried, 1);
    }
}

/// The answer to a request that may not run: it has killed workers, or others of its page have.
fn denial(thread: &PhpThread, site: &Site, denied: Denied) -> Option<Reply> {
    match denied {
        Denied::Killer => {
            thread.stats.add(Counter::PhpCrashRefused, 1);
            Some(plain(500))
        }
        Denied::Crowd => {
            thread.stats.add(Counter::PhpCrashCrowd, 1);
            Some(site.turned_away())
        }
        Denied::Gone => {
            thread.stats.add(Counter::PhpGone, 1);
            None
        }
    }
}

/// `event`, or never.
pub async fn unless(never: bool, event: impl Future<Output = ()>) {
    if never {
        std::future::pending::<()>().await;
    }
    event.await;
}

/// Notes that a worker died or sent garbage in the middle of a request; the lease must then be dropped.
pub fn note_loss(thread: &PhpThread, lease: &mut Lease, error: &io::Error) {
    let worker = lease.worker();
    worker.give_up();
    if error.kind() == io::ErrorKind::InvalidData {
        worker.handle.kill();
        let log = &thread.process.log;
        log.error(format_args!("PHP worker {} sent invalid data, killing it: {error}", worker.handle.pid()));
    }
    let late = worker.handle.is_overdue();
    thread.stats.add(if late { Counter::PhpTimeouts } else { Counter::PhpLost }, 1);
    if worker.handle.is_slow() {
        thread.stats.add(Counter::PhpSlow, 1);
    }
}

/// Counts a request that has come to its end; whether that was a fatal error, as `failed` says.
pub fn count_end(thread: &PhpThread, handle: &WorkerHandle, failed: bool) -> bool {
    if handle.is_slow() {
        thread.stats.add(Counter::PhpSlow, 1);
    }
    if failed {
        let counter = if handle.is_overdue() { Counter::PhpTimeouts } else { Counter::PhpFailures };
        thread.stats.add(counter, 1);
    }
    failed
}

/// One attempt with one worker.
async fn attempt(
    mut lease: Lease,
    shared: &WorkersShared,
    thread: &Rc<PhpThread>,
    site: &Site,
    request: &Request,
    script: &Script,
) -> Result<Reply, WorkerFailure> {
    if lease.is_begun() {
        take_over(&mut lease, thread)?;
    } else {
        send(&mut lease, thread, site, request, script).await?;
    }
    let handle = lease.worker().handle.clone();
    let mut answer = PhpResponse::new(shared.unheard(&handle));
    let read = poll_fn(|cx| {
        loop {
            let polled = lease.worker().poll_read(cx, &mut answer);
            if !answer.early.is_empty() {
                let lines = std::mem::take(&mut answer.early);
                request.hints.iter().for_each(|hints| hints.send(&lines));
            }
            match polled {
                Poll::Ready(Ok(())) if answer.end.is_some() || answer.content.len() >= FIRST_BYTES => {
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
    // The worker goes on to its next request at that time.
    thread.clock.read();
    thread.process.script_speaks();
    if let Err(error) = read {
        let failure = failure(thread, &mut lease, error);
        drop(lease);
        if matches!(failure, WorkerFailure::Begun) {
            // Whose doing it was decides whether the page may be run again.
            handle.wait_for_end(ENDING).await;
            thread.clock.read();
        }
        return Err(failure);
    }
    let PhpResponse { head: Some(mut head), content, end, mut aside, .. } = answer else {
        return Err(failure(thread, &mut lease, io::ErrorKind::InvalidData.into()));
    };
    if end.is_some_and(|end| count_end(thread, &handle, end.failed)) {
        aside.get_or_insert_default().failed = true;
        // The script has been ended. What it says to that counts; but the beginning of a page is no 200.
        if handle.is_overdue() && head.status == 200 {
            head.fail(504);
        } else if handle.is_overdue() && head.status == 504 && content.is_empty() {
            lease.finish(thread.clock.now());
            return Ok(Reply { aside, ..plain(504) });
        }
    }
    let AnswerHead { status, reason, fields, length, .. } = head;
    // What a script writes that has handed over a file is for nobody.
    let is_handed = aside.as_ref().is_some_and(|aside| aside.handed().is_some());
    let body = if matches!(status, 204 | 205 | 304) && !is_handed {
        lease.finish(thread.clock.now());
        Body::Empty
    } else if is_handed {
        lease.finish(thread.clock.now());
        Body::Omitted(length)
    } else if request.is_head() {
        lease.finish(thread.clock.now());
        Body::Omitted(length_of_get(status, length, content.len(), end.is_some()))
    } else if end.is_some() {
        lease.finish(thread.clock.now());
        Body::Bytes(as_long_as_said(content, length, &mut aside))
    } else {
        Body::Stream(Box::new(pump::start(thread, lease, content, length)))
    };
    Ok(Reply { status, reason, fields, body, close: false, dated: false, aside, has_site_fields: false })
}

/// The length that the answer to GET would have, in an answer to HEAD of which so much has `come`: of long ones only the start comes.
/// Some scripts say their length by themselves, and some - WordPress - write no page for HEAD: that is no word on GET.
fn length_of_get(status: u16, said: Option<u64>, come: usize, is_whole: bool) -> Option<u64> {
    let least = usize::from(matches!(status, 200..=299 | 400..=499));
    let known = is_whole && (least..BODY_OF_HEAD_MAX).contains(&come) && !(come == 0 && said.is_some());
    match (said, come as u64) {
        (Some(said), come) if known => Some(said.min(come)),
        (None, come) if known => Some(come),
        (said, _) => said,
    }
}

/// Content is as long as the script's Content-Length says: what comes beyond it is cut off, as nginx does. If it is shorter
/// than that it is sent as it is, but it is not all that was meant.
pub fn as_long_as_said(mut content: Vec<u8>, said: Option<u64>, aside: &mut Option<Box<Aside>>) -> Vec<u8> {
    match said {
        Some(said) if said < content.len() as u64 => content.truncate(said as usize),
        Some(said) if said > content.len() as u64 => aside.get_or_insert_default().failed = true,
        _ => {}
    }
    content
}

/// A request that is short enough to be sent while others are on their way, as a frame without its number.
fn short(shared: &WorkersShared, site: &Site, request: &Request, script: &Script) -> Option<Short> {
    let body = match &request.content {
        Content::Empty => FrameBody::None,
        Content::Memory(bytes) if bytes.len() < SHORT_FRAME => FrameBody::Inline(bytes),
        _ => return None,
    };
    let mut short = Short::spare();
    let inject = shared.injected.path(site.plan.profile);
    variables::write(&mut short.frame, 0, site, request, script, inject).finish(body).ok()?;
    short.task.set(site, request, script);
    (short.frame.len() <= SHORT_FRAME).then_some(short)
}

/// The worker was waited for and has got the request.
fn take_over(lease: &mut Lease, thread: &PhpThread) -> Result<(), WorkerFailure> {
    thread.stats.add(Counter::PhpRequests, 1);
    let worker = lease.worker();
    let lost = worker.is_lost();
    match worker.settle(thread.index) {
        Ok(()) if !lost => Ok(()),
        Ok(()) => Err(failure(thread, lease, io::ErrorKind::NotConnected.into())),
        Err(error) => {
            worker.give_up();
            Err(WorkerFailure::Ours(error))
        }
    }
}

/// Sends the request.
async fn send(
    lease: &mut Lease,
    thread: &Rc<PhpThread>,
    site: &Site,
    request: &Request,
    script: &Script,
) -> Result<(), WorkerFailure> {
    let (file, body) = content(&request.content).map_err(WorkerFailure::Ours)?;
    let shared = lease.shared().clone();
    let worker = lease.worker();
    if let Err(error) = worker.settle(thread.index) {
        worker.give_up();
        return Err(WorkerFailure::Ours(error));
    }
    let sent = FRAME.with_borrow_mut(|frame| {
        frame.clear();
        let inject = shared.injected.path(site.plan.profile);
        variables::write(frame, worker.next_sequence(), site, request, script, inject)
            .finish(body)
            .map_err(|RequestTooLong| WorkerFailure::TooLong)?;
        let now = shared.since_epoch(thread.clock.now());
        let print = worker.pass.as_ref().map(Pass::print);
        let task = |task: &mut Task| {
            task.set(site, request, script);
            task.print = print.cloned();
        };
        worker.handle.begin(task, now, shared.limit(worker.pool));
        worker.begin();
        thread.stats.add(Counter::PhpRequests, 1);
        let attached = file.as_ref().map(File::descriptor);
        let sent = worker.send_now(frame, attached);
        // All of it, as good as always. Otherwise the rest is kept by itself.
        let sent = sent.map(|sent| (sent, frame[sent..].to_vec()));
        if frame.capacity() > FRAME_KEEP {
            *frame = Vec::new();
        }
        Ok(sent)
    })?;
    let result = match sent {
        Ok((_, rest)) if rest.is_empty() => Ok(()),
        Ok((sent, rest)) => {
            let attached = file.as_ref().filter(|_| sent == 0).map(File::descriptor);
            Box::pin(worker.send_rest(&rest, attached)).await
        }
        Err(error) => Err(error),
    };
    result.map_err(|error| failure(thread, lease, error))
}

/// A request's content that is handed over as a file.
enum File<'a> {
    Own(OwnedFd),
    Spooled(&'a std::fs::File),
}

impl File<'_> {
    fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            File::Own(file) => file.as_fd(),
            File::Spooled(file) => file.as_fd(),
        }
    }
}

/// How the content goes to the worker.
fn content(content: &Content) -> io::Result<(Option<File<'_>>, FrameBody<'_>)> {
    Ok(match content {
        Content::Empty => (None, FrameBody::None),
        Content::Memory(bytes) if bytes.len() <= INLINE_BODY_MAX => (None, FrameBody::Inline(bytes)),
        Content::Memory(bytes) => {
            let mut file = std::fs::File::from(memfd_create("millrace-body", MemfdFlags::CLOEXEC)?);
            io::Write::write_all(&mut file, bytes)?;
            seek(&file, SeekFrom::Start(0))?;
            (Some(File::Own(file.into())), FrameBody::Descriptor(bytes.len() as u64))
        }
        Content::Spooled { file, length } => {
            // A worker that died may have read some of it.
            seek(file, SeekFrom::Start(0))?;
            (Some(File::Spooled(file)), FrameBody::Descriptor(*length))
        }
    })
}

/// What a worker's death means for its request.
fn failure(thread: &PhpThread, lease: &mut Lease, error: io::Error) -> WorkerFailure {
    note_loss(thread, lease, &error);
    let worker = lease.worker();
    if worker.handle.is_overdue() {
        WorkerFailure::Late
    } else if error.kind() == io::ErrorKind::InvalidData {
        WorkerFailure::Garbage
    } else if worker.has_received() {
        WorkerFailure::Begun
    } else {
        WorkerFailure::NotBegun
    }
}

/// Who sends a request, to a queue.
pub fn applicant(request: &Request, rank: Rank) -> Applicant {
    Applicant { rank, address: request.ends.client_ip(), place: request.waiting_place() }
}

fn refusal(thread: &PhpThread, script: &Script, failure: &WorkerFailure) -> Reply {
    let name = String::from_utf8_lossy(&script.filename);
    let log = &thread.process.log;
    match failure {
        WorkerFailure::Late => plain(504),
        WorkerFailure::TooLong => plain(431),
        WorkerFailure::Ours(error) => {
            log.error(format_args!("cannot pass a request for {name} to PHP: {error}"));
            plain(503)
        }
        WorkerFailure::NotBegun => {
            log.error(format_args!("{ATTEMPTS} PHP workers in a row died before running {name}"));
            plain(502)
        }
        WorkerFailure::Begun | WorkerFailure::Garbage => plain(502),
    }
}

/// The request's connection, if that begins on this machine: with a script, perhaps.
fn local(request: &Request) -> Option<Ports> {
    let (client, local) = (request.ends.client?, request.ends.local?);
    let here = client.ip().is_loopback() || client.ip() == local.ip();
    here.then(|| Ports { client: client.port(), server: local.port() })
}
