//! What differs between workers of our own, over their sockets, and php-fpm, over FastCGI. What is the same is in
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
use crate::message::Request;
use crate::message::reply::Reply;
use crate::php::PhpThread;

/// A pool that runs scripts: what its event loops and its supervisor share.
pub trait Transport: Sized {
    /// A place, and what a request runs on there: a worker, a connection. It gives both back when it is dropped.
    type Lease: Debug;
    /// What is under the pool's lock.
    type State;
    /// A request that has been sent.
    type Sent: SentRequest;
    /// What a request remembers of its earlier attempts.
    type Past: Default;

    /// Whether scripts report what they find out about visitors.
    const REPORTS_VISITORS: bool;
    /// How often a request that is safe is run again after a script had begun.
    const REPEATS: u32;
    /// What runs the scripts, for the log.
    const NAME: &'static str;
    /// What has happened several times in a row if a request could not be begun.
    const NOT_BEGUN: &'static str;

    /// The pool's settings.
    fn settings(&self) -> &plan::Php;

    /// Requests that kill their workers.
    fn ban(&self) -> &Arc<Ban>;

    /// The state.
    fn lock(&self) -> MutexGuard<'_, Self::State>;

    /// The queues and limits in it.
    fn pools(state: &mut Self::State) -> &mut Pools<oneshot::Sender<Self::Lease>>;

    /// Milliseconds since the pool was made.
    fn since_epoch(&self, now: Instant) -> u64;

    /// A place for a job that may run, if there is something idle for it, or need not be.
    fn take(
        self: &Arc<Self>,
        state: &mut Self::State,
        thread: usize,
        job: &PhpJob<'_>,
    ) -> Option<Self::Lease>;

    /// What is to be done with a lease that was taken, once the lock is released.
    fn taken(&self, _lease: &mut Self::Lease) {}

    /// Why waiting is of no use; `None`: it is.
    fn refuses(&self, _state: &mut Self::State) -> Option<Refusal> {
        None
    }

    /// Whether none may begin to wait any more.
    fn is_ending(_state: &Self::State) -> bool {
        false
    }

    /// A request has begun to wait.
    fn waits(&self, state: MutexGuard<'_, Self::State>);

    /// The request as a frame that the holder of a free worker can send; `None`: it is sent by itself.
    fn short(&self, _job: &PhpJob<'_>, _request: &Request) -> Option<Short> {
        None
    }

    /// Whether a lease that was waited for has got the request already.
    fn is_begun(_lease: &Self::Lease) -> bool {
        false
    }

    /// Crashes of this request's script are watched.
    fn watch(_lease: &mut Self::Lease, _pass: Pass) {}

    /// Makes the lease ready to be sent the request: connects. Cancel-safe.
    ///
    /// # Errors
    /// It does not come to that.
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
    /// It was not begun, or can't be.
    async fn send(
        self: &Arc<Self>,
        thread: &Rc<PhpThread>,
        lease: Self::Lease,
        job: &PhpJob<'_>,
        request: &Request,
    ) -> Result<Self::Sent, RunFailure>;

    /// A request that failed is run again: lets what made it fail pass.
    async fn rest(&self, _thread: &PhpThread, _failure: &RunFailure, _past: &mut Self::Past) {}
}

/// A request that has been sent. Dropping it tells the script that its client has gone.
pub trait SentRequest: ContentMaker + 'static + Sized {
    /// Reads what has come of the answer's start, once.
    ///
    /// # Errors
    /// The worker has gone, or what it says is no answer.
    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        request: &Request,
        answer: &mut PhpResponse,
    ) -> Poll<io::Result<()>>;

    /// Accounts for an answer whose start has come. What is returned leaves in its place.
    fn account(
        &mut self,
        thread: &PhpThread,
        head: &mut AnswerHead,
        answer: &mut PhpResponse,
        request: &mut Request,
    ) -> Option<Reply>;

    /// The length that the answer to GET would have, in an answer to HEAD; `said`: as the script says.
    fn length_of_get(status: u16, said: Option<u64>, answer: &PhpResponse) -> Option<u64>;

    /// Nothing more is wanted of the answer: what it ran on is given back when the script has finished.
    fn finish(self, thread: &PhpThread);

    /// The worker is lost: what that means for the request.
    async fn lose(self, thread: &PhpThread, error: io::Error) -> RunFailure;
}

/// Why a request does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// As many wait as may.
    Full,
    /// It has waited as long as it may.
    Timeout,
    /// More comes than can be served.
    Overload,
    /// The site's persistent workers do not boot.
    Unbooted,
    /// php-fpm takes no connections, for so long that requests do not wait for it, or the loop can't have one more.
    Down,
    /// It had begun twice, and what ran it was lost each time.
    Lost,
    /// Its client has gone.
    Gone,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum RunFailure {
    /// The worker was lost before it had received the request.
    NotBegun,
    /// The backend has too much to do: not begun, either.
    Overloaded,
    /// The worker was lost, and perhaps the script ran.
    Begun,
    /// The script took too long.
    Late,
    /// What came is no answer.
    Garbage,
    /// The request's head is too long to be sent.
    TooLong,
    /// The request could not be handed over: no memory or descriptor for its content.
    Ours(io::Error),
}
