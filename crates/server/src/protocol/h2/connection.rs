//! A connection's state that its driver, the waiting requests and the thread's deadlines share.

use std::cell::{Cell, RefCell, RefMut};
use std::net::Shutdown;
use std::rc::{Rc, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use h2::server::SendResponse;

use super::content::Piece;
use super::head;
use super::line::H2Socket;
use super::priority::Priority;
use super::unread::MOST_WAITING;
use super::watch::Watch;
use crate::connection::{Accepted, ClientStream, ConnectionPermit, Deadline, Expire, HasDeadline, Rest};
use crate::protocol::ProtocolThread;
use crate::protocol::phase::ConnectionPhase;
use crate::protocol::weight::Weight;
use crate::serve::Exchange;
use millrace_base::context::budget::H2_BYTES;
use millrace_base::context::stats::Counter;
use millrace_base::message::reply::Reply;
use millrace_base::message::request::{Ends, Hints, TakesHints};

/// A client connection. Its driver and the waiting requests own it.
#[derive(Debug)]
pub struct Connection {
    /// Its event loop.
    pub(super) thread: Rc<ProtocolThread>,
    /// The addresses of both ends.
    pub(super) ends: Ends,
    /// The name for which the client got the certificate.
    pub(super) server_name: Option<Box<str>>,
    line: RefCell<H2Socket>,
    phase: Cell<ConnectionPhase>,
    deadline: Deadline,
    driver: RefCell<Option<Waker>>,
    /// Requests without a response yet.
    waiting: RefCell<Vec<Rc<PendingRequest>>>,
    /// Responses that are ready since the driver's last turn.
    done: RefCell<Vec<FinishedExchange>>,
    /// Requests whose content is arriving.
    pub(super) uploads: Cell<usize>,
    wishes: Cell<Wishes>,
    /// Requests with a response whose content has not ended: their streams are about to be reset.
    resets: Cell<usize>,
    weight: Weight,
    /// Memory of requests' content, bytes.
    pub(super) upload_bytes: Cell<usize>,
    permit: ConnectionPermit,
}

/// Orders to the driver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wishes {
    /// A time limit has passed.
    pub(super) expired: bool,
    /// Accept no more requests, and end when all have their responses.
    pub(super) retire: bool,
    /// The same, and the server is about to exit.
    pub(super) drain: bool,
}

/// A request without a response yet.
pub(super) struct PendingRequest {
    /// Number of its stream.
    pub(super) id: u32,
    /// Sends its response.
    pub(super) respond: RefCell<SendResponse<Piece>>,
    /// What the client says about its urgency.
    pub(super) priority: Cell<Option<Priority>>,
    gone: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// A response that is ready.
pub(super) struct FinishedExchange {
    /// Its request's stream.
    pub(super) waiting: Rc<PendingRequest>,
    /// Its exchange.
    pub(super) exchange: Box<Exchange>,
    /// The answer.
    pub(super) reply: Reply,
    /// The request's content has not ended.
    pub(super) unread: bool,
}

impl PendingRequest {
    pub(super) fn new(respond: SendResponse<Piece>, priority: Option<Priority>) -> Rc<PendingRequest> {
        let id = respond.stream_id().as_u32();
        let (respond, priority) = (RefCell::new(respond), Cell::new(priority));
        Rc::new(PendingRequest { id, respond, priority, gone: Cell::new(false), waker: RefCell::default() })
    }

    /// Whether the response is no longer wanted; otherwise `cx` is woken when that happens.
    pub(super) fn is_gone(&self, cx: &Context<'_>) -> bool {
        *self.waker.borrow_mut() = Some(cx.waker().clone());
        self.gone.get()
    }

    /// The response is no longer wanted.
    pub(super) fn go(&self) {
        self.gone.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl std::fmt::Debug for PendingRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Waiting({})", self.id)
    }
}

impl std::fmt::Debug for FinishedExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Done({})", self.waiting.id)
    }
}

impl Connection {
    /// A connection; `begun` has already been read.
    pub(in crate::protocol) fn new(
        thread: Rc<ProtocolThread>,
        accepted: Accepted,
        begun: Vec<u8>,
    ) -> Rc<Connection> {
        let Accepted { stream, ends, permit } = accepted;
        let server_name = match &stream {
            ClientStream::Tls(stream) => stream.server_name().map(Box::from),
            _ => None,
        };
        thread.context.clock.read();
        let setup = thread.serve.setup();
        let http = &setup.plan.http;
        let watch = Watch::new(http.h2_frames, http.h2_resets, thread.context.clock.ticks());
        thread.context.stats.add(ConnectionPhase::Idle.gauge(), 1);
        thread.context.stats.add(Counter::H2Connections, 1);
        thread.context.stats.add(Counter::ConnectionsH2, 1);
        if matches!(stream, ClientStream::Tls(_)) {
            thread.context.stats.add(Counter::ConnectionsTls, 1);
        }
        permit.grow(H2_BYTES);
        let connection = Rc::new(Connection {
            ends,
            server_name,
            line: RefCell::new(H2Socket::new(stream, begun, watch)),
            phase: Cell::new(ConnectionPhase::Idle),
            deadline: Deadline::default(),
            driver: RefCell::default(),
            waiting: RefCell::default(),
            done: RefCell::default(),
            uploads: Cell::new(0),
            wishes: Cell::default(),
            resets: Cell::new(0),
            weight: Weight::new(thread.context.clock.ticks()),
            upload_bytes: Cell::new(0),
            permit,
            thread,
        });
        connection.thread.deadlines.watch(&connection);
        connection.patience(http.head_timeout);
        connection
    }

    /// The socket with its buffers; borrowed for one call, never over an await.
    pub(super) fn line(&self) -> RefMut<'_, H2Socket> {
        self.line.borrow_mut()
    }

    /// Its phase.
    pub(super) fn phase(&self) -> ConnectionPhase {
        self.phase.get()
    }

    /// Enters a phase, in which it may stay for `patience`; entering it again does not restart that. `None`: no
    /// limit.
    pub(super) fn enter(&self, phase: ConnectionPhase, patience: Option<Duration>) {
        let before = self.phase.replace(phase);
        if before == phase {
            return;
        }
        self.thread.context.stats.sub(before.gauge(), 1);
        self.thread.context.stats.add(phase.gauge(), 1);
        match patience {
            Some(time) => self.patience(time),
            None => self.deadline.clear(),
        }
    }

    /// The client made progress at tick `moved` of the thread's clock; the connection ends after `patience`.
    pub(super) fn patience_since(&self, moved: u64, patience: Duration) {
        self.weight.moved(moved);
        self.deadline.set(moved + patience.as_millis() as u64);
    }

    fn patience(&self, time: Duration) {
        self.patience_since(self.thread.context.clock.ticks(), time);
    }

    /// Whether there is no room for it: it gets a 503 response.
    pub(super) fn is_shed(&self) -> bool {
        self.permit.is_shed()
    }

    /// Whether it was shed.
    pub(super) fn gave_way(&self) -> bool {
        self.weight.gave_way()
    }

    /// Sets the memory of waiting requests and of responses in progress, bytes.
    pub(super) fn works_with(&self, bytes: usize) {
        self.weight.works_with(bytes);
    }

    /// Number of requests that wait for their responses.
    pub(super) fn count_waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Registers the driver, which `cx` wakes.
    pub(super) fn driven(&self, cx: &Context<'_>) {
        let mut driver = self.driver.borrow_mut();
        if driver.as_ref().is_none_or(|driver| !driver.will_wake(cx.waker())) {
            *driver = Some(cx.waker().clone());
        }
    }

    fn wake(&self) {
        if let Some(driver) = &*self.driver.borrow() {
            driver.wake_by_ref();
        }
    }

    /// Reads from the socket again after the thread has polled its sockets and other ready connections have had their
    /// turn. (The driver can't wait for that itself: the library wakes it for reasons of its own.)
    pub(super) fn go_on_after_others(self: &Rc<Self>) {
        let connection = self.clone();
        tokio::task::spawn_local(async move {
            tokio::task::yield_now().await;
            connection.line().gives_way = false;
            connection.wake();
        });
    }

    fn wish(&self, change: impl FnOnce(&mut Wishes)) {
        let mut wishes = self.wishes.get();
        change(&mut wishes);
        self.wishes.set(wishes);
        self.wake();
    }

    /// The orders since the last call.
    pub(super) fn wishes(&self) -> Wishes {
        let wishes = self.wishes.get();
        self.wishes.set(Wishes { expired: false, ..wishes });
        wishes
    }

    /// A request starts to wait.
    pub(super) fn begin(&self, waiting: &Rc<PendingRequest>) {
        self.waiting.borrow_mut().push(waiting.clone());
    }

    /// The response to a request is ready: the driver sends it.
    pub(super) fn answer(&self, done: FinishedExchange) {
        self.done.borrow_mut().push(done);
        self.wake();
    }

    /// The request needs no response: the driver may have nothing left to do.
    pub(super) fn end(&self, waiting: &Rc<PendingRequest>) {
        self.forget(waiting);
        self.wake();
    }

    /// The request has its answer.
    pub(super) fn forget(&self, waiting: &Rc<PendingRequest>) {
        self.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, waiting));
    }

    /// A stream waits for its reset; false: there are too many.
    pub(super) fn begin_reset(&self) -> bool {
        let has_room = self.resets.get() < MOST_WAITING;
        self.resets.update(|count| count + usize::from(has_room));
        has_room
    }

    /// The stream has been reset.
    pub(super) fn end_reset(&self) {
        self.resets.update(|count| count - 1);
    }

    /// Responses that are ready.
    pub(super) fn take_done(&self) -> Vec<FinishedExchange> {
        self.done.take()
    }

    /// Whether a request waits for its response.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// The waiting request on this stream.
    pub(super) fn waiting(&self, id: u32) -> Option<Rc<PendingRequest>> {
        self.waiting.borrow().iter().find(|waiting| waiting.id == id).cloned()
    }

    /// The client has gone: no response is wanted any more.
    pub(super) fn abandon(&self) {
        self.driver.take();
        self.done.take();
        for waiting in self.waiting.take() {
            waiting.go();
        }
    }

    /// Sends early hints to the client of request `id`.
    pub(super) fn hints(self: &Rc<Self>, id: u32) -> Hints {
        let to: Weak<Connection> = Rc::downgrade(self);
        Hints::new(to, id.into())
    }

    /// Closes the socket; with `reset`, drops unsent data from the kernel's memory.
    pub(super) fn cut(&self, reset: bool) {
        let line = self.line();
        if reset {
            line.stream.give_up_unsent();
        }
        line.stream.shut(Shutdown::Both);
    }
}

impl Expire for Connection {
    fn expire(&self) {
        self.thread.context.stats.add(Counter::ConnectionsTimedOut, 1);
        if self.driver.borrow().is_none() {
            // The driver has ended: the connection lingers.
            return self.cut(false);
        }
        self.wish(|wishes| wishes.expired = true);
    }
}

impl HasDeadline for Connection {
    fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    fn end_if_idle(&self) {
        // Ordered once, and again when it is idle: then the driver ends it.
        if !self.wishes.get().drain || self.phase.get() == ConnectionPhase::Idle {
            self.wish(|wishes| wishes.drain = true);
        }
    }

    /// The next requests use a new connection under the new configuration.
    fn renew(&self) {
        self.wish(|wishes| wishes.retire = true);
    }

    fn rest(&self) -> Option<Rest> {
        self.weight.rest(self.phase.get())
    }

    fn give_way(&self) -> u64 {
        self.weight.give_way();
        if self.phase.get() == ConnectionPhase::Idle && self.driver.borrow().is_some() {
            // The client is told, so that it knows that no request was lost.
            self.wish(|wishes| wishes.expired = true);
        } else {
            self.cut(true);
        }
        self.permit.give_back()
    }

    fn weigh(&self, now: u64) {
        let others = || self.upload_bytes.get() as u64 + self.line().held();
        if let Some(bytes) = self.weight.weigh(self.phase.get(), now, others) {
            self.permit.hold(bytes);
        }
    }
}

impl TakesHints for Connection {
    fn hint(&self, number: u64, lines: &[u8]) {
        let Some(waiting) = u32::try_from(number).ok().and_then(|id| self.waiting(id)) else { return };
        let told = waiting.respond.borrow_mut().send_informational(head::interim(103, lines));
        if told.is_ok() {
            self.thread.context.stats.add(Counter::EarlyHints, 1);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.thread.context.stats.sub(self.phase.get().gauge(), 1);
        self.thread.context.stats.sub(Counter::ConnectionsH2, 1);
        if matches!(self.line().stream, ClientStream::Tls(_)) {
            self.thread.context.stats.sub(Counter::ConnectionsTls, 1);
        }
    }
}
