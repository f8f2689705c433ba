//! The differences between our own workers, over their sockets, and php-fpm, over FastCGI. The common part is in
//! [`dispatch`](super::dispatch).

use std::fmt::Debug;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll};
use std::time::Instant;

use millrace_settings::plan;
use tokio::sync::oneshot;

use super::answer::{AnswerHead, PhpResponse};
use super::crashes::{Ban, Pass};
use super::job::PhpJob;
use super::pool::pools::Pools;
use super::pool::waiters::Short;
use super::pump::ContentMaker;
use crate::PhpThread;
use millrace_base::message::Request;
use millrace_base::message::reply::Reply;

/// A pool that runs scripts: the part that its event loops and its supervisor share.
pub trait Transport: Sized {
    /// A place and a worker or connection to run a request on. Dropping it gives both back.
    type Lease: Debug;
    /// The data behind the pool's lock.
    type State;
    /// A request that has been sent.
    type Sent: SentRequest;
    /// What a request stores about its earlier attempts.
    type Past: Default;

    /// Whether scripts report what they find out about visitors.
    const REPORTS_VISITORS: bool;
    /// How often an idempotent request is run again after a script had begun.
    const REPEATS: u32;
    /// What runs the scripts, for the log.
    const NAME: &'static str;
    /// What has happened several times in a row if a request could not be begun, for the log.
    const NOT_BEGUN: &'static str;

    /// The pool's settings.
    fn settings(&self) -> &plan::Php;

    /// Requests that kill their workers.
    fn ban(&self) -> &Arc<Ban>;

    /// The state.
    fn lock(&self) -> MutexGuard<'_, Self::State>;

    /// The queues and limits in it.
    fn pools(state: &mut Self::State) -> &mut Pools<oneshot::Sender<Self::Lease>>;

    /// Milliseconds since the pool was created.
    fn since_epoch(&self, now: Instant) -> u64;

    /// A place for a job that may run, if a worker or connection is idle or can be made later.
    fn take(
        self: &Arc<Self>,
        state: &mut Self::State,
        thread: usize,
        job: &PhpJob<'_>,
    ) -> Option<Self::Lease>;

    /// Called with a lease that was taken, after the lock is released.
    fn taken(&self, _lease: &mut Self::Lease) {}

    /// Why waiting is useless; `None`: it is not.
    fn refuses(&self, _state: &mut Self::State) -> Option<Refusal> {
        None
    }

    /// Whether no request may begin to wait any more.
    fn is_ending(_state: &Self::State) -> bool {
        false
    }

    /// A request has begun to wait.
    fn waits(&self, state: MutexGuard<'_, Self::State>);

    /// The request as a frame that the holder of any free worker can send; `None`: the request sends it itself.
    fn short(&self, _job: &PhpJob<'_>, _request: &Request) -> Option<Short> {
        None
    }

    /// Whether the request was already sent to this lease, which was waited for.
    fn is_begun(_lease: &Self::Lease) -> bool {
        false
    }

    /// Watches this lease for crashes of its request's script.
    fn watch(_lease: &mut Self::Lease, _pass: Pass) {}

    /// Prepares the lease for the request, for example connects. Cancel-safe.
    ///
    /// # Errors
    /// The request can't be sent.
    async fn ready(
        self: &Arc<Self>,
        thread: &Rc<PhpThread>,
        lease: Self::Lease,
        job: &PhpJob<'_>,
        past: &mut Self::Past,
    ) -> Result<Self::Lease, Refusal>;

    /// Sends the request.
    ///
    /// # Errors
    /// The request was not begun, or can't be sent.
    async fn send(
        self: &Arc<Self>,
        thread: &Rc<PhpThread>,
        lease: Self::Lease,
        job: &PhpJob<'_>,
        request: &Request,
    ) -> Result<Self::Sent, RunFailure>;

    /// Pauses before a failed request is run again, so that the cause can pass.
    async fn rest(&self, _thread: &PhpThread, _failure: &RunFailure, _past: &mut Self::Past) {}
}

/// A request that has been sent. Dropping it tells the script that its client has gone.
pub trait SentRequest: ContentMaker + 'static + Sized {
    /// Reads once what has arrived of the response's start.
    ///
    /// # Errors
    /// The worker has gone, or its bytes are not a response.
    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        request: &Request,
        answer: &mut PhpResponse,
    ) -> Poll<io::Result<()>>;

    /// Accounts for a response whose start has arrived. A returned reply is sent in its place.
    fn account(
        &mut self,
        thread: &PhpThread,
        head: &mut AnswerHead,
        answer: &mut PhpResponse,
        request: &mut Request,
    ) -> Option<Reply>;

    /// The length that the response to GET would have, for a response to HEAD; `said`: as the script set it.
    fn length_of_get(status: u16, said: Option<u64>, answer: &PhpResponse) -> Option<u64>;

    /// The rest of the response is not needed: gives the worker or connection back when the script has finished.
    fn finish(self, thread: &PhpThread);

    /// The worker or connection is lost: returns what that means for the request.
    async fn lose(self, thread: &PhpThread, error: io::Error) -> RunFailure;
}

/// Why a request does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The queue is full.
    Full,
    /// It has waited as long as it may.
    Timeout,
    /// More requests arrive than can be served.
    Overload,
    /// The site's persistent workers do not boot.
    Unbooted,
    /// php-fpm has taken no connections for so long that requests do not wait for it, or the event loop can't watch
    /// another one.
    Down,
    /// It had begun twice, and its worker or connection was lost each time.
    Lost,
    /// Its client has gone.
    Gone,
}

/// Why there is no response.
#[derive(Debug)]
pub enum RunFailure {
    /// The worker was lost before it had received the whole request.
    NotBegun,
    /// It does not fit the image of the worker, which has not begun it and wants another worker to run it.
    Declined,
    /// The backend is overloaded: the script was not begun, either.
    Overloaded,
    /// The worker was lost, and the script may have run.
    Begun,
    /// The script took too long.
    Late,
    /// What arrived is not a response.
    Garbage,
    /// The request's head is too long to send.
    TooLong,
    /// The request could not be handed over: no memory or descriptor for its content.
    Ours(io::Error),
}
