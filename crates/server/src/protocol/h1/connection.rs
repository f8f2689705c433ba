//! An HTTP/1 connection: socket, phase, time limits.

use std::cell::{Cell, RefCell, RefMut};
use std::io::IoSlice;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::time::Duration;

use crate::connection::{
    Accepted, ClientStream, ConnectionPermit, Deadline, Expire, HasDeadline, Rest, SHED_TIME,
};
use crate::protocol::ProtocolThread;
use millrace_base::context::ProcessStage;
use millrace_base::context::log::{AccessEntry, LoggedRequest};
use millrace_base::context::stats::Counter;
use millrace_base::message::reply::{self, Reply};
use millrace_base::message::request::{Ends, Hints, Request, TakesHints};
use millrace_wire::head::Version;

use super::ConnectionPhase;
use super::send;
use crate::protocol::weight::Weight;

/// A client connection. Its task owns it; the thread's deadlines refer to it, too.
#[derive(Debug)]
pub struct Connection {
    /// Its event loop.
    pub(super) thread: Rc<ProtocolThread>,
    /// The addresses of both ends.
    pub(super) ends: Ends,
    stream: RefCell<ClientStream>,
    phase: Cell<ConnectionPhase>,
    deadline: Deadline,
    requests: Cell<u64>,
    /// The request that waits for its response and may get early hints; 0: none.
    hinted: Cell<u64>,
    /// Early hints that the socket did not take: they are sent before the response.
    unsent_hints: RefCell<Vec<u8>>,
    timed_out: Cell<bool>,
    /// The unparsed input includes early data.
    early: Cell<bool>,
    passed_on: Cell<bool>,
    weight: Weight,
    /// Memory of an incomplete head, bytes.
    unread: Cell<usize>,
    is_shed: bool,
    permit: RefCell<Option<ConnectionPermit>>,
}

impl Connection {
    /// A newly accepted connection.
    pub fn new(thread: Rc<ProtocolThread>, accepted: Accepted) -> Rc<Connection> {
        let Accepted { stream, ends, permit } = accepted;
        thread.context.stats.add(ConnectionPhase::Idle.gauge(), 1);
        if matches!(stream, ClientStream::Tls(_)) {
            thread.context.stats.add(Counter::ConnectionsTls, 1);
        }
        Rc::new(Connection {
            weight: Weight::new(thread.context.clock.ticks()),
            thread,
            ends,
            stream: RefCell::new(stream),
            phase: Cell::new(ConnectionPhase::Idle),
            deadline: Deadline::default(),
            requests: Cell::new(0),
            hinted: Cell::new(0),
            unsent_hints: RefCell::default(),
            timed_out: Cell::new(false),
            early: Cell::new(false),
            passed_on: Cell::new(false),
            unread: Cell::new(0),
            is_shed: permit.is_shed(),
            permit: RefCell::new(Some(permit)),
        })
    }

    /// The socket; borrowed for one call, never over an await.
    pub(super) fn stream(&self) -> RefMut<'_, ClientStream> {
        self.stream.borrow_mut()
    }

    /// Bytes have been read; they follow an incomplete head if the request `goes_on`.
    pub(super) fn note_early(&self, goes_on: bool) {
        self.early.set(self.stream().is_early() || (goes_on && self.early.get()));
    }

    /// Whether a request that has just arrived may be a replay (RFC 8446 section 8).
    pub(super) fn is_early(&self) -> bool {
        self.early.get()
    }

    /// A new connection should send a request soon: the first head has no keep-alive time.
    pub(super) fn await_first_head(&self) {
        self.thread.context.clock.read();
        let most = self.thread.serve.setup().plan.http.head_timeout;
        self.patience(if self.is_shed { most.min(SHED_TIME) } else { most });
    }

    /// Whether there is no room for it: it gets a 503 response.
    pub(super) fn is_shed(&self) -> bool {
        self.is_shed
    }

    /// Sets the memory of an incomplete head, bytes.
    pub(super) fn keeps_unread(&self, bytes: usize) {
        self.unread.set(bytes);
    }

    /// Sets the memory of the request in progress, bytes.
    pub(super) fn works_with(&self, bytes: usize) {
        self.weight.works_with(bytes);
    }

    /// The first bytes of a head have arrived; the rest must follow in time, in any number of pieces.
    pub(super) fn begin_head(&self) {
        self.change(ConnectionPhase::Head);
        self.patience(self.thread.serve.setup().plan.http.head_timeout);
    }

    /// Nothing is left to do until more bytes arrive. `idle`: no part of a head has arrived. `answered`: a response
    /// was sent since the last wait.
    pub(super) fn await_bytes(&self, idle: bool, answered: bool) {
        match (idle, answered) {
            (true, _) => {
                self.change(ConnectionPhase::Idle);
                self.patience(self.thread.serve.setup().plan.http.keep_alive);
            }
            (false, true) => self.begin_head(),
            // The head continues, and so does its time limit.
            (false, false) => {}
        }
    }

    /// Enters a phase with its own time limit; entering it again does not restart the limit.
    pub(super) fn enter(&self, phase: ConnectionPhase) {
        if self.change(phase) == phase {
            return;
        }
        let setup = self.thread.serve.setup();
        let http = &setup.plan.http;
        match phase {
            ConnectionPhase::Idle => self.patience(http.keep_alive),
            ConnectionPhase::Head => self.patience(http.head_timeout),
            ConnectionPhase::Content => self.patience(http.body_timeout),
            ConnectionPhase::Writing => self.patience(http.send_timeout),
            ConnectionPhase::Lingering => self.patience(Duration::from_secs(5)),
            ConnectionPhase::Running => self.deadline.clear(),
        }
    }

    /// The client has made progress: its time limit restarts.
    pub(super) fn progress(&self) {
        let setup = self.thread.serve.setup();
        match self.phase.get() {
            ConnectionPhase::Content => self.patience(setup.plan.http.body_timeout),
            ConnectionPhase::Writing => self.patience(setup.plan.http.send_timeout),
            _ => {}
        }
    }

    /// Sends early hints to the client of a request that has just arrived.
    pub(super) fn hints(self: &Rc<Self>) -> Hints {
        let to: Weak<Connection> = Rc::downgrade(self);
        Hints::new(to, self.requests.get() + 1)
    }

    /// From now on the client of this request may get early hints.
    pub(super) fn begin_hints(&self, request: &Request) {
        self.hinted.set(request.hints.as_ref().map_or(0, Hints::number));
    }

    /// The response is ready. Returns the unsent rest of early hints.
    pub(super) fn end_hints(&self) -> Vec<u8> {
        self.hinted.set(0);
        self.unsent_hints.take()
    }

    /// Counts the request, and returns whether another one may follow its response.
    pub(super) fn keeps(&self, request: &Request, reply: &Reply) -> bool {
        self.requests.set(self.requests.get() + 1);
        let most = self.thread.serve.setup().plan.http.keep_alive_requests;
        request.head.keep_alive()
            && !reply.close
            && (most == 0 || self.requests.get() < most)
            && self.thread.context.process.stage() == ProcessStage::Running
            && !self.stream().is_worn()
    }

    /// Another event loop must continue the connection. Always returns false: it ends here.
    pub(super) fn pass_on(&self) -> bool {
        self.passed_on.set(true);
        false
    }

    /// Whether another event loop must continue it.
    pub(super) fn is_passed_on(&self) -> bool {
        self.passed_on.get()
    }

    /// Its socket and its permit, for use elsewhere. `None` if no descriptor is left.
    pub(super) fn take_out(&self) -> Option<(OwnedFd, ConnectionPermit)> {
        let socket = self.stream().as_fd().try_clone_to_owned().ok()?;
        Some((socket, self.permit.take()?))
    }

    /// Whether it was ended because the client took too long.
    pub(super) fn is_timed_out(&self) -> bool {
        self.timed_out.get()
    }

    fn patience(&self, time: Duration) {
        let now = self.thread.context.clock.ticks();
        self.weight.moved(now);
        self.deadline.set(now + time.as_millis() as u64);
    }

    /// Returns the phase before.
    fn change(&self, phase: ConnectionPhase) -> ConnectionPhase {
        let before = self.phase.replace(phase);
        if before != phase {
            self.thread.context.stats.sub(before.gauge(), 1);
            self.thread.context.stats.add(phase.gauge(), 1);
        }
        before
    }

    /// Sends as much of a 408 as the socket takes. The task notices the closed socket by itself.
    fn say_timed_out(&self) {
        let mut output = Vec::new();
        let reply = reply::plain(408);
        send::refusal(&self.thread, &reply, &mut output);
        self.thread.context.stats.count_reply(reply.status);
        let _ = self.stream().try_write(&[IoSlice::new(&output)]);
        if self.phase.get() == ConnectionPhase::Head {
            // There is no request to log. If content is arriving, its exchange logs it.
            let (asked, client) = (LoggedRequest::Malformed(b""), self.ends.client_ip());
            let entry = AccessEntry { asked, client, status: 408, bytes: 0, duration: Duration::ZERO };
            self.thread.context.access.record(&self.thread.context, &entry);
        }
    }
}

impl Expire for Connection {
    fn expire(&self) {
        self.thread.context.stats.add(Counter::ConnectionsTimedOut, 1);
        self.timed_out.set(true);
        if matches!(self.phase.get(), ConnectionPhase::Head | ConnectionPhase::Content) {
            self.say_timed_out();
        }
        let mut stream = self.stream();
        if self.phase.get() == ConnectionPhase::Idle {
            stream.say_end();
        }
        if self.phase.get() == ConnectionPhase::Writing {
            // Data that the client has not taken in all this time would stay in the kernel's memory.
            stream.give_up_unsent();
        }
        // The task that waits for the socket wakes up and finds it closed.
        stream.shut(Shutdown::Both);
    }
}

impl TakesHints for Connection {
    fn hint(&self, number: u64, lines: &[u8]) {
        // A client that has not taken the previous hints gets no more.
        let mut unsent = self.unsent_hints.borrow_mut();
        if number != self.hinted.get() || !unsent.is_empty() {
            return;
        }
        let whole = [b"HTTP/1.1 103 Early Hints\r\n", lines, b"\r\n"].concat();
        // If the client has gone, sending the response will fail.
        let written = self.stream().try_write(&[IoSlice::new(&whole)]).unwrap_or(0);
        self.thread.context.stats.add(Counter::BytesSent, written as u64);
        self.thread.context.stats.add(Counter::EarlyHints, 1);
        unsent.extend_from_slice(&whole[written..]);
    }
}

impl HasDeadline for Connection {
    fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    fn end_if_idle(&self) {
        if self.phase.get() == ConnectionPhase::Idle {
            let mut stream = self.stream();
            stream.say_end();
            stream.shut(Shutdown::Both);
        }
    }

    fn rest(&self) -> Option<Rest> {
        self.weight.rest(self.phase.get())
    }

    fn give_way(&self) -> u64 {
        self.weight.give_way();
        let stream = self.stream.borrow();
        // Data that the client has not taken would stay in the kernel's memory.
        if millrace_sys::socket_memory(stream.as_fd()).is_ok_and(|memory| memory.sending > 0) {
            stream.give_up_unsent();
        }
        stream.shut(Shutdown::Both);
        self.permit.borrow().as_ref().map_or(0, ConnectionPermit::give_back)
    }

    fn weigh(&self, now: u64) {
        let others = || self.unread.get() as u64 + self.stream.borrow().held();
        let Some(bytes) = self.weight.weigh(self.phase.get(), now, others) else { return };
        if let Some(permit) = &*self.permit.borrow() {
            permit.hold(bytes);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.thread.context.stats.sub(self.phase.get().gauge(), 1);
        if matches!(*self.stream.borrow(), ClientStream::Tls(_)) {
            self.thread.context.stats.sub(Counter::ConnectionsTls, 1);
        }
    }
}

/// Whether a response to this client may be chunked.
pub(super) fn knows_chunks(request: &Request) -> bool {
    request.head.version() >= Version::Http11
}
