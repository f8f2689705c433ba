//! Sends a request to one of our own workers, reads the response, and decides what the worker's death means.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use millrace_settings::plan::{self, Rewind};
use millrace_wire::frames::{BODY_OF_HEAD_MAX, Body as FrameBody, INLINE_BODY_MAX, RequestTooLong};
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
use tokio::sync::oneshot;

use super::answer::{AnswerHead, Hearing, PhpResponse};
use super::crashes::{Ban, Pass};
use super::job::PhpJob;
use super::pool::pools::Pools;
use super::pool::waiters::Short;
use super::pool::{Lease, ServiceStage, WorkersShared, WorkersState};
use super::pump::{ContentMaker, MakerEnd};
use super::stream::{Pipe, ToPipe};
use super::transport::{Refusal, RunFailure, SentRequest, Transport};
use super::variables;
use super::worker_handle::{Task, WorkerHandle};
use crate::PhpThread;
use millrace_base::context::stats::Counter;
use millrace_base::message::reply::{Reply, plain};
use millrace_base::message::request::{Content, Request};

/// Maximum wait for the report of how a worker ended. A living host reports it within milliseconds.
const ENDING: Duration = Duration::from_millis(100);
/// A larger frame is sent only by its own request, bytes. A socket takes several frames of this size at once.
const SHORT_FRAME: usize = 8 << 10;
/// A larger frame buffer is freed.
const FRAME_KEEP: usize = 256 << 10;

thread_local! {
    /// The frame to be sent. Never borrowed over an await.
    static FRAME: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Transport for WorkersShared {
    type Lease = Lease;
    type State = WorkersState;
    type Sent = Leased;
    type Past = ();

    const REPORTS_VISITORS: bool = true;
    const REPEATS: u32 = 1;
    const NAME: &'static str = "PHP";
    const NOT_BEGUN: &'static str = "PHP workers in a row died";

    fn settings(&self) -> &plan::Php {
        &self.settings
    }

    fn ban(&self) -> &Arc<Ban> {
        &self.ban
    }

    fn lock(&self) -> MutexGuard<'_, WorkersState> {
        WorkersShared::lock(self)
    }

    fn pools(state: &mut WorkersState) -> &mut Pools<oneshot::Sender<Lease>> {
        &mut state.pools
    }

    fn since_epoch(&self, now: Instant) -> u64 {
        WorkersShared::since_epoch(self, now)
    }

    fn take(self: &Arc<Self>, state: &mut WorkersState, thread: usize, job: &PhpJob<'_>) -> Option<Lease> {
        self.take_idle(state, thread, job)
    }

    fn taken(&self, lease: &mut Lease) {
        self.make_way(lease.worker());
    }

    fn refuses(&self, state: &mut WorkersState) -> Option<Refusal> {
        if !state.cannot_boot() {
            return None;
        }
        // The request itself makes another worker start.
        state.level = state.level.max(1);
        Some(Refusal::Unbooted)
    }

    fn is_ending(state: &WorkersState) -> bool {
        state.stage >= ServiceStage::Stopping(0)
    }

    fn waits(&self, mut state: MutexGuard<'_, WorkersState>) {
        let act = state.raise(self.lowers());
        drop(state);
        if act {
            self.wake();
        }
    }

    fn short(&self, job: &PhpJob<'_>, request: &Request) -> Option<Short> {
        short(self, job, request)
    }

    fn is_begun(lease: &Lease) -> bool {
        lease.is_begun()
    }

    fn watch(lease: &mut Lease, pass: Pass) {
        lease.worker().pass = Some(pass);
    }

    async fn ready(
        self: &Arc<Self>,
        _: &Rc<PhpThread>,
        lease: Lease,
        _: &PhpJob<'_>,
        _: &mut (),
    ) -> Result<Lease, Refusal> {
        Ok(lease)
    }

    async fn send(
        self: &Arc<Self>,
        thread: &Rc<PhpThread>,
        mut lease: Lease,
        job: &PhpJob<'_>,
        request: &Request,
    ) -> Result<Leased, RunFailure> {
        if lease.is_begun() {
            take_over(&mut lease, thread)?;
        } else {
            send(&mut lease, self, thread, job, request).await?;
        }
        let handle = lease.worker().handle.clone();
        Ok(Leased { lease, shared: self.clone(), handle, failed: false })
    }
}

/// A worker that is leased for a request, and runs it.
pub struct Leased {
    lease: Lease,
    shared: Arc<WorkersShared>,
    handle: Arc<WorkerHandle>,
    failed: bool,
}

impl SentRequest for Leased {
    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        _: &Request,
        answer: &mut PhpResponse,
    ) -> Poll<io::Result<()>> {
        let mut hearing = Hearing { answer, unheard: self.shared.unheard(&self.handle) };
        self.lease.worker().poll_read(cx, &mut hearing)
    }

    fn account(
        &mut self,
        thread: &PhpThread,
        head: &mut AnswerHead,
        answer: &mut PhpResponse,
        _: &mut Request,
    ) -> Option<Reply> {
        if !answer.is_over || !count_end(thread, &self.handle, answer.has_failed) {
            return None;
        }
        answer.aside.get_or_insert_default().failed = true;
        // The script has been terminated. What it sends in reaction counts; but the beginning of a page is not a 200
        // response.
        if self.handle.is_overdue() && head.status == 200 {
            head.fail(504);
        } else if self.handle.is_overdue() && head.status == 504 && answer.content.is_empty() {
            return Some(Reply { aside: answer.aside.take(), ..plain(504) });
        }
        None
    }

    /// Of long responses only the start is read. Some scripts set the length themselves, and some - WordPress - write
    /// no page for HEAD: that says nothing about GET.
    fn length_of_get(status: u16, said: Option<u64>, answer: &PhpResponse) -> Option<u64> {
        let come = answer.content.len();
        let least = usize::from(matches!(status, 200..=299 | 400..=499));
        let known =
            answer.is_over && (least..BODY_OF_HEAD_MAX).contains(&come) && !(come == 0 && said.is_some());
        match (said, come as u64) {
            (Some(said), come) if known => Some(said.min(come)),
            (None, come) if known => Some(come),
            (said, _) => said,
        }
    }

    fn finish(self, thread: &PhpThread) {
        self.lease.finish(thread.clock.now());
    }

    async fn lose(mut self, thread: &PhpThread, error: io::Error) -> RunFailure {
        let failure = failure(thread, &mut self.lease, error);
        drop(self.lease);
        if matches!(failure, RunFailure::Begun) {
            // The page may be run again depending on what caused the death.
            self.handle.wait_for_end(ENDING).await;
            thread.clock.read();
        }
        failure
    }
}

impl ContentMaker for Leased {
    fn poll_make(&mut self, cx: &mut Context<'_>, pipe: &Pipe) -> Poll<io::Result<bool>> {
        let mut into = ToPipe { pipe, end: None, unheard: self.shared.unheard(&self.handle) };
        self.lease.worker().poll_read(cx, &mut into).map_ok(|()| {
            self.failed = into.end.is_some_and(|end| end.failed);
            into.end.is_some()
        })
    }

    fn set_clock(&mut self, now: Option<Instant>) {
        self.handle.set_clock(now.map(|now| self.shared.since_epoch(now)));
    }

    /// Whether its time limit has passed.
    fn is_cut(&self) -> bool {
        self.failed && self.handle.is_overdue()
    }

    fn end(mut self, thread: &PhpThread, pipe: &Pipe, why: MakerEnd) {
        match why {
            MakerEnd::Whole | MakerEnd::Enough => {
                if count_end(thread, &self.handle, self.failed) {
                    pipe.aside().borrow_mut().get_or_insert_default().failed = true;
                }
                self.lease.finish(thread.clock.now());
            }
            MakerEnd::Lost(error) => {
                if !self.handle.is_killed() {
                    // If it has ended, its host reports how.
                    let (pid, task) = (self.handle.pid(), self.handle.task());
                    thread.process.log.error(format_args!(
                        "the response to {task} is incomplete: lost PHP worker {pid} ({error})"
                    ));
                }
                note_loss(thread, &mut self.lease, &error);
            }
            // Dropped: the worker is told, and the supervisor looks after it until it has finished.
            MakerEnd::Unwanted => {}
        }
    }
}

/// Notes that a worker died or sent an invalid frame in the middle of a request; the caller must then drop the lease.
fn note_loss(thread: &PhpThread, lease: &mut Lease, error: &io::Error) {
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

/// Counts a request that has ended; `failed`: with a fatal error.
fn count_end(thread: &PhpThread, handle: &WorkerHandle, failed: bool) -> bool {
    if handle.is_slow() {
        thread.stats.add(Counter::PhpSlow, 1);
    }
    if failed {
        let counter = if handle.is_overdue() { Counter::PhpTimeouts } else { Counter::PhpFailures };
        thread.stats.add(counter, 1);
    }
    failed
}

/// A request short enough to be sent ahead by others, as a frame without its number.
fn short(shared: &WorkersShared, job: &PhpJob<'_>, request: &Request) -> Option<Short> {
    let PhpJob { site, script, .. } = *job;
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
fn take_over(lease: &mut Lease, thread: &PhpThread) -> Result<(), RunFailure> {
    thread.stats.add(Counter::PhpRequests, 1);
    let worker = lease.worker();
    let lost = worker.is_lost();
    match worker.settle(thread.index) {
        Ok(()) if !lost => Ok(()),
        Ok(()) => Err(failure(thread, lease, io::ErrorKind::NotConnected.into())),
        Err(error) => {
            worker.give_up();
            Err(RunFailure::Ours(error))
        }
    }
}

/// Sends the request.
async fn send(
    lease: &mut Lease,
    shared: &WorkersShared,
    thread: &PhpThread,
    job: &PhpJob<'_>,
    request: &Request,
) -> Result<(), RunFailure> {
    let PhpJob { site, script, .. } = *job;
    let (file, body) = content(&request.content).map_err(RunFailure::Ours)?;
    let worker = lease.worker();
    if let Err(error) = worker.settle(thread.index) {
        worker.give_up();
        return Err(RunFailure::Ours(error));
    }
    if shared.settings.rewind != Rewind::Off {
        shared.tell_purges(&worker.handle);
    }
    let is_repetition = request.run.as_ref().is_some_and(|run| run.again);
    worker.terms.may_decline &= worker.pass.is_none() && !is_repetition;
    let sent = FRAME.with_borrow_mut(|frame| {
        frame.clear();
        let inject = shared.injected.path(site.plan.profile);
        let mut frame_of = variables::write(frame, worker.next_sequence(), site, request, script, inject);
        frame_of.flag(worker.terms.flags());
        frame_of.finish(body).map_err(|RequestTooLong| RunFailure::TooLong)?;
        let now = shared.since_epoch(thread.clock.now());
        let print = worker.pass.as_ref().map(Pass::print);
        let task = |task: &mut Task| {
            task.set(site, request, script);
            task.print = print.cloned();
        };
        worker.handle.begin(task, now, shared.limit(worker.pool));
        worker.begin();
        thread.stats.add(Counter::PhpRequests, u64::from(!job.is_declined));
        let attached = file.as_ref().map(File::descriptor);
        let sent = worker.send_now(frame, attached);
        // Normally the whole frame is sent at once. Otherwise the rest is copied.
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

/// A request's content that is passed as a file.
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

/// How the content is passed to the worker.
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
            // A worker that died may have read part of it.
            seek(file, SeekFrom::Start(0))?;
            (Some(File::Spooled(file)), FrameBody::Descriptor(*length))
        }
    })
}

/// What a worker's death means for its request.
fn failure(thread: &PhpThread, lease: &mut Lease, error: io::Error) -> RunFailure {
    note_loss(thread, lease, &error);
    let worker = lease.worker();
    if worker.handle.is_overdue() {
        RunFailure::Late
    } else if error.kind() == io::ErrorKind::InvalidData {
        RunFailure::Garbage
    } else if worker.has_received() {
        RunFailure::Begun
    } else {
        RunFailure::NotBegun
    }
}
