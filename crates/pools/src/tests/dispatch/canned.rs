//! A transport without processes and sockets: each attempt of a request gets the next response of a list; after the
//! last one, the list starts again.
//!
//! The list is a text. `%%` on a line of its own separates responses. A response is what a CGI script writes: fields,
//! an empty line, content. `%` on a line of its own separates what is available at once from what comes later. One word
//! stands for a failure: `not-begun`, `overloaded` and `too-long` when the request is sent, `lost` and `late` when its
//! response is read, `lost` also among what comes later, `down` before the request is sent. A first line `hold` keeps
//! the request until [`CannedAnswers::release`].

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use millrace_settings::plan;
use millrace_wire::fastcgi::CgiHead;
use tokio::sync::{Semaphore, oneshot};

use crate::PhpThread;
use crate::answer::{AnswerHead, PhpResponse};
use crate::crashes::Ban;
use crate::job::PhpJob;
use crate::pool::admission::Rank;
use crate::pool::pools::{PoolId, Pools};
use crate::pump::{ContentMaker, MakerEnd};
use crate::stream::Pipe;
use crate::transport::{Refusal, RunFailure, SentRequest, Transport};
use millrace_base::context::stats::Counter;
use millrace_base::message::Request;
use millrace_base::message::reply::Reply;

/// The list, and the places of the requests that use it.
#[derive(Debug)]
pub struct CannedAnswers {
    settings: plan::Php,
    ban: Arc<Ban>,
    epoch: Instant,
    answers: Vec<String>,
    /// Number of responses that have been used.
    taken: AtomicUsize,
    /// Permits for requests with `hold`.
    gate: Semaphore,
    pools: Mutex<Pools<oneshot::Sender<CannedPlace>>>,
}

/// A place for a request, with its response. When it is dropped, the next waiter gets the place.
#[derive(Debug)]
pub struct CannedPlace {
    shared: Arc<CannedAnswers>,
    pool: PoolId,
    rank: Rank,
    answer: String,
}

/// A request that has been sent, with the unread part of its response.
pub struct CannedRequest {
    _place: CannedPlace,
    pieces: VecDeque<String>,
    is_begun: bool,
}

impl CannedAnswers {
    /// The responses of `text`; the settings give the number of places.
    pub fn new(settings: &plan::Php, text: &str) -> Arc<CannedAnswers> {
        let epoch = Instant::now();
        Arc::new(CannedAnswers {
            settings: settings.clone(),
            ban: Ban::new(Duration::ZERO, settings.workers, epoch),
            epoch,
            answers: text.split("\n%%\n").map(str::to_owned).collect(),
            taken: AtomicUsize::new(0),
            gate: Semaphore::new(0),
            pools: Mutex::new(Pools::new(&settings.pools, settings.workers)),
        })
    }

    /// Number of responses that have been used: attempts of requests that had a place.
    pub fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// Lets one request with `hold` continue.
    pub fn release(&self) {
        self.gate.add_permits(1);
    }

    fn place(
        self: &Arc<Self>,
        pools: &mut <Self as Transport>::State,
        pool: PoolId,
        rank: Rank,
    ) -> CannedPlace {
        pools.begin(pool, rank);
        CannedPlace { shared: self.clone(), pool, rank, answer: String::new() }
    }
}

impl Drop for CannedPlace {
    fn drop(&mut self) {
        let mut pools = self.shared.lock();
        pools.end(self.pool, self.rank);
        while let Some(id) = pools.next(0, true, 0) {
            let Some((_, waiter)) = pools.get_mut(id).next_waiter(None) else { return };
            if waiter.wake.is_closed() {
                continue;
            }
            let place = self.shared.place(&mut pools, id, waiter.turn.line.rank());
            drop(pools);
            // A waiter that has gone returns it.
            return drop(waiter.wake.send(place));
        }
    }
}

impl Transport for CannedAnswers {
    type Lease = CannedPlace;
    type State = Pools<oneshot::Sender<CannedPlace>>;
    type Sent = CannedRequest;
    type Past = ();

    const REPORTS_VISITORS: bool = false;
    const REPEATS: u32 = 1;
    const NAME: &'static str = "canned answers";
    const NOT_BEGUN: &'static str = "answers in a row were not-begun";

    fn settings(&self) -> &plan::Php {
        &self.settings
    }

    fn ban(&self) -> &Arc<Ban> {
        &self.ban
    }

    fn lock(&self) -> MutexGuard<'_, Self::State> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pools(state: &mut Self::State) -> &mut Pools<oneshot::Sender<CannedPlace>> {
        state
    }

    fn since_epoch(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.epoch).as_millis() as u64
    }

    fn take(self: &Arc<Self>, state: &mut Self::State, _: usize, job: &PhpJob<'_>) -> Option<CannedPlace> {
        Some(self.place(state, job.pool, job.rank))
    }

    fn waits(&self, _: MutexGuard<'_, Self::State>) {}

    async fn ready(
        self: &Arc<Self>,
        thread: &Rc<PhpThread>,
        mut place: CannedPlace,
        _: &PhpJob<'_>,
        (): &mut (),
    ) -> Result<CannedPlace, Refusal> {
        let answer = &self.answers[self.taken.fetch_add(1, Relaxed) % self.answers.len()];
        let held = answer.strip_prefix("hold\n");
        if held.is_some() {
            self.gate.acquire().await.map_err(|_| Refusal::Down)?.forget();
            thread.clock.read();
        }
        place.answer = held.unwrap_or(answer).to_owned();
        if place.answer == "down" { Err(Refusal::Down) } else { Ok(place) }
    }

    async fn send(
        self: &Arc<Self>,
        thread: &Rc<PhpThread>,
        mut place: CannedPlace,
        _: &PhpJob<'_>,
        _: &Request,
    ) -> Result<CannedRequest, RunFailure> {
        match &*place.answer {
            "not-begun" => return Err(RunFailure::NotBegun),
            "overloaded" => return Err(RunFailure::Overloaded),
            "too-long" => return Err(RunFailure::TooLong),
            _ => {}
        }
        thread.stats.add(Counter::PhpRequests, 1);
        let answer = std::mem::take(&mut place.answer);
        let pieces = answer.split("\n%\n").map(str::to_owned).collect();
        Ok(CannedRequest { _place: place, pieces, is_begun: false })
    }
}

impl SentRequest for CannedRequest {
    fn poll_answer(
        &mut self,
        _: &mut Context<'_>,
        _: &Request,
        answer: &mut PhpResponse,
    ) -> Poll<io::Result<()>> {
        if std::mem::replace(&mut self.is_begun, true) {
            // `poll_make` gets what comes later.
            return Poll::Pending;
        }
        let piece = self.pieces.pop_front().unwrap_or_default();
        match &*piece {
            "lost" => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            "late" => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            _ => {}
        }
        let Ok(Some((head, length))) = CgiHead::parse(piece.as_bytes(), 0) else {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        };
        answer.begin(AnswerHead::read(200, b"", || head.fields()));
        answer.content.extend_from_slice(&piece.as_bytes()[length..]);
        answer.is_over = self.pieces.is_empty();
        Poll::Ready(Ok(()))
    }

    fn account(
        &mut self,
        _: &PhpThread,
        _: &mut AnswerHead,
        _: &mut PhpResponse,
        _: &mut Request,
    ) -> Option<Reply> {
        None
    }

    fn length_of_get(_: u16, said: Option<u64>, _: &PhpResponse) -> Option<u64> {
        said
    }

    fn finish(self, _: &PhpThread) {}

    async fn lose(self, _: &PhpThread, error: io::Error) -> RunFailure {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => RunFailure::Begun,
            io::ErrorKind::TimedOut => RunFailure::Late,
            _ => RunFailure::Garbage,
        }
    }
}

impl ContentMaker for CannedRequest {
    fn poll_make(&mut self, _: &mut Context<'_>, pipe: &Pipe) -> Poll<io::Result<bool>> {
        Poll::Ready(match self.pieces.pop_front().as_deref() {
            Some("lost") => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(piece) => {
                pipe.push(piece.as_bytes());
                Ok(self.pieces.is_empty())
            }
            None => Ok(true),
        })
    }

    fn set_clock(&mut self, _: Option<Instant>) {}

    fn end(self, _: &PhpThread, _: &Pipe, _: MakerEnd) {}
}
