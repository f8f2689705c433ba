//! A connection: sends requests, returns finished ones. While it is idle it owns no buffer.
//!
//! ```text
//!   Connecting --> Handshaking (TLS) --> Open --> gone
//! ```
//!
//! It knows nothing about users and scenarios. A thread lends it [`Lent`] for an event; it puts finished requests
//! there, and the thread handles them afterwards.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use millrace_wire::response::{Item, Reader};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::clock::Clock;
use super::connect;
use super::http2::{self, Http2};
use super::judge::{ContentVerdict, Response};
use super::request::Prepared;
use super::transport::{Broken, Transport};
use super::versions::{Differing, Review};
use crate::record::{Failure, Tally};
use crate::scenario::is_redirect;
use crate::steps::Wrong;

/// If a connection is closed after this idle time, the server has not failed: keep-alive works this way, and the
/// request goes to a new connection. Nanoseconds.
const KEEP_ALIVE_RACE: u64 = 1_000_000_000;

/// Responses with wrong content that a thread describes in a second: under a crowd, all may be wrong.
const MOST_DESCRIBED: u32 = 20;

/// A request in progress.
#[derive(Debug)]
pub struct Pending {
    /// The request.
    pub what: Rc<Prepared>,
    /// Its user.
    pub user: u32,
    /// Which of the users that had this number.
    pub user_generation: u32,
    /// Which part of a page it is.
    pub part: Option<crate::page::Kind>,
    /// Whether the response may be the user's alone, because it has shown cookies: in quiet there were none.
    pub is_personal: bool,
    /// Since when its time counts: when it was due, nanoseconds from the start.
    pub due: u64,
    /// When it was given to the connection.
    pub sent: u64,
    /// When the first byte of its response arrived; 0: not yet.
    pub first: u64,
}

/// A request that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The request.
    pub pending: Pending,
    /// The connection it went over.
    pub connection: u32,
    /// Its outcome.
    pub outcome: RequestOutcome,
}

/// The outcome of a request.
#[derive(Debug)]
pub enum RequestOutcome {
    /// The response is complete.
    Whole {
        /// Status code.
        status: u16,
        /// Why it failed.
        failure: Option<Failure>,
        /// When its last byte arrived, nanoseconds from the start.
        last: u64,
        /// Head and content, if the request stores them.
        kept: Option<Box<Kept>>,
        /// What is wrong with the content, unless enough were described in this second.
        wrong: Option<Box<Wrong>>,
        /// If the content may be a new version of the page: it is counted when that is known.
        differing: Option<Box<Differing>>,
    },
    /// There is no response, or only a part of one.
    Failed(Failure),
    /// The server closed the connection, as it may; the request goes to another one.
    Again,
}

/// A response that a user needs to read.
#[derive(Debug)]
pub struct Kept {
    /// The head's bytes, as in HTTP/1.1.
    pub head: Vec<u8>,
    /// The content in its content coding.
    pub content: Vec<u8>,
}

/// The resources that a thread lends to its connections.
#[derive(Debug)]
pub struct Lent {
    /// Buffer for reading.
    pub buffer: Box<[u8]>,
    /// Finished requests.
    pub finished: VecDeque<Finished>,
    /// Unused states of busy connections.
    #[expect(clippy::vec_box, reason = "they go in and out of connections as boxes")]
    pub spare: Vec<Box<Busy>>,
    /// Counters.
    pub tally: Box<Tally>,
    /// The time.
    pub clock: Clock,
    /// Notes for the report, each once.
    pub notes: Vec<String>,
    /// Responses with wrong content that were described in this second.
    pub described: u32,
    /// Questions about new versions of pages.
    pub reviews: Vec<Review>,
    /// Responses in this second that may be new versions.
    pub differing: Vec<Differing>,
}

impl Lent {
    /// Adds a note, unless another was added lately: an error may occur a million times.
    pub fn note(&mut self, say: impl FnOnce() -> String) {
        if self.notes.is_empty() {
            self.notes.push(say());
        }
    }
}

/// The part of a connection that exists only while requests are in progress.
#[derive(Debug, Default)]
pub struct Busy {
    pending: VecDeque<Pending>,
    /// Unsent data.
    out: Vec<u8>,
    reader: Reader,
    /// Bytes of a head that is not complete.
    partial: Vec<u8>,
    /// Of the response that is being read.
    status: u16,
    keep_alive: bool,
    head: Vec<u8>,
    content: Vec<u8>,
}

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionStage {
    Connecting,
    Handshaking,
    Open,
}

/// A request as its protocol has it.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives only until the connection has it")]
pub enum RequestMessage<'a> {
    /// HTTP/1.1.
    Bytes(&'a [u8]),
    /// HTTP/2.
    Http2(http2::Http2Request),
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    transport: Transport,
    http2: Option<Box<Http2>>,
    busy: Option<Box<Busy>>,
    stage: ConnectionStage,
    /// Its number with its thread.
    pub key: u32,
    /// Which of the connections that had this number.
    pub generation: u32,
    /// The user that has it; `u32::MAX`: none.
    pub owner: u32,
    /// When it was begun, when it was connected, when it was last idle: the last one that has happened.
    since: u64,
    /// When the oldest request was sent; 0: none.
    pub waiting_since: u64,
}

/// Whether a connection continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It does.
    Alive,
    /// It is closed, or must be.
    Gone,
}

impl Connection {
    /// One that is being connected.
    pub fn new(transport: Transport, is_http2: bool, key: u32, generation: u32, now: u64) -> Connection {
        let stage = ConnectionStage::Connecting;
        Connection {
            transport,
            http2: is_http2.then(|| Box::new(Http2::new())),
            busy: None,
            stage,
            key,
            generation,
            owner: u32::MAX,
            since: now,
            waiting_since: 0,
        }
    }

    /// Its socket.
    pub fn socket(&self) -> &OwnedFd {
        self.transport.socket()
    }

    /// Whether it is still being connected.
    pub fn is_connecting(&self) -> bool {
        self.stage != ConnectionStage::Open
    }

    /// Number of requests in progress.
    pub fn load(&self) -> usize {
        match &self.http2 {
            Some(http2) => http2.load(),
            None => self.busy.as_ref().map_or(0, |busy| busy.pending.len()),
        }
    }

    /// Takes a request; [`Connection::flush`] sends it.
    pub fn submit(&mut self, pending: Pending, message: RequestMessage<'_>, lent: &mut Lent) {
        let bytes = match (message, &mut self.http2) {
            (RequestMessage::Http2(message), Some(http2)) => {
                http2.submit(pending, message);
                self.waiting_since = http2.waiting_since();
                return;
            }
            (RequestMessage::Bytes(bytes), _) => bytes,
            (RequestMessage::Http2(_), None) => unreachable!("all connections of a run have one protocol"),
        };
        let busy = self.busy.get_or_insert_with(|| lent.spare.pop().unwrap_or_default());
        if busy.pending.is_empty() {
            self.waiting_since = pending.sent.max(1);
        }
        busy.out.extend_from_slice(bytes);
        busy.pending.push_back(pending);
    }

    /// Sends as much as possible.
    pub fn flush(&mut self, lent: &mut Lent) -> Life {
        if self.stage == ConnectionStage::Connecting {
            return Life::Alive;
        }
        if self.http2.is_some() {
            return self.go_on(lent);
        }
        let Some(busy) = &mut self.busy else { return Life::Alive };
        match self.transport.write(&mut busy.out, &mut lent.tally.bytes_out) {
            Ok(()) => Life::Alive,
            // The server's last bytes before it closed may still be readable.
            Err(Broken::Closed | Broken::Reset) if self.stage == ConnectionStage::Open => {
                self.read(true, lent)
            }
            Err(broken) => self.fail(broken.failure(), lent),
        }
    }

    /// Something happened on its socket.
    pub fn on_event(&mut self, flags: EventFlags, lent: &mut Lent) -> Life {
        let is_last = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if self.stage == ConnectionStage::Connecting {
            if let Err(errno) = connect::outcome(self.socket()) {
                return self.fail(failure_of(errno), lent);
            }
            if !flags.contains(EventFlags::OUT) {
                return if is_last { self.fail(Failure::Reset, lent) } else { Life::Alive };
            }
            self.on_connected(lent);
        }
        if self.stage == ConnectionStage::Handshaking {
            match self.handshake(lent) {
                Ok(true) => {}
                Ok(false) => return Life::Alive,
                Err(failure) => return self.fail(failure, lent),
            }
        }
        if flags.contains(EventFlags::OUT) && self.has_output() && self.flush(lent) == Life::Gone {
            return Life::Gone;
        }
        if is_last || flags.contains(EventFlags::IN) { self.read(is_last, lent) } else { Life::Alive }
    }

    /// Whether something waits until the socket takes it.
    fn has_output(&self) -> bool {
        let waits = self.busy.as_ref().is_some_and(|busy| !busy.out.is_empty());
        waits || self.http2.as_ref().is_some_and(|http2| !http2.out.is_empty())
    }

    /// HTTP/2 processes received data and new requests.
    fn go_on(&mut self, lent: &mut Lent) -> Life {
        let Some(http2) = &mut self.http2 else { return Life::Alive };
        let result = http2.go_on(self.key, lent);
        self.waiting_since = http2.waiting_since();
        let sent = if self.stage == ConnectionStage::Open {
            self.transport.write(&mut http2.out, &mut lent.tally.bytes_out)
        } else {
            Ok(())
        };
        match (result, sent) {
            (Ok(()), Ok(())) => Life::Alive,
            (Err(failure), _) => self.fail(failure, lent),
            (_, Err(broken)) => self.fail(broken.failure(), lent),
        }
    }

    /// Ends it with all its requests.
    pub fn fail(&mut self, failure: Failure, lent: &mut Lent) -> Life {
        if let Some(http2) = &mut self.http2 {
            http2.fail(failure, self.key, lent);
            self.waiting_since = 0;
            return Life::Gone;
        }
        let Some(mut busy) = self.busy.take() else { return Life::Gone };
        let rested = busy.pending.front().is_some_and(|first| {
            first.sent.saturating_sub(self.since) > KEEP_ALIVE_RACE && first.first == 0 && first.what.is_safe
        });
        let may_repeat = self.stage == ConnectionStage::Open && failure == Failure::Reset && rested;
        for (index, pending) in busy.pending.drain(..).enumerate() {
            let outcome = match index {
                0 if !may_repeat => RequestOutcome::Failed(failure),
                _ if pending.what.is_safe => RequestOutcome::Again,
                _ => RequestOutcome::Failed(failure),
            };
            lent.finished.push_back(Finished { pending, connection: self.key, outcome });
        }
        // Its buffers may be large, and hold half a response: not for the next one.
        drop(busy);
        self.waiting_since = 0;
        Life::Gone
    }

    /// Returns what only a busy connection needs. Called after its finished requests were handled.
    pub fn rest(&mut self, lent: &mut Lent) {
        let is_idle = self
            .busy
            .as_ref()
            .is_some_and(|busy| busy.pending.is_empty() && busy.out.is_empty() && busy.partial.is_empty());
        if is_idle && let Some(mut busy) = self.busy.take() {
            if busy.content.capacity() > 256 << 10 || lent.spare.len() > 256 {
                return;
            }
            busy.head.clear();
            busy.content.clear();
            lent.spare.push(busy);
        }
    }

    fn on_connected(&mut self, lent: &mut Lent) {
        let now = lent.clock.now();
        let _ = lent.tally.connect.record((now - self.since) / 1000);
        lent.tally.connects += 1;
        self.since = now;
        self.stage =
            if self.transport.is_tls() { ConnectionStage::Handshaking } else { ConnectionStage::Open };
    }

    /// Whether the handshake is over.
    fn handshake(&mut self, lent: &mut Lent) -> Result<bool, Failure> {
        let done = match self.transport.handshake(&mut lent.buffer) {
            Ok(done) => done,
            Err(Broken::Closed) => {
                lent.note(|| "TLS: the server closed the connection during the handshake".to_owned());
                return Err(Failure::Tls);
            }
            Err(Broken::Tls) => {
                let why = self.transport.tls_error().unwrap_or_default();
                lent.note(|| format!("TLS: {why}"));
                return Err(Failure::Tls);
            }
            Err(other) => return Err(other.failure()),
        };
        if done {
            let now = lent.clock.now();
            let _ = lent.tally.tls.record((now - self.since) / 1000);
            lent.tally.resumed += u64::from(self.transport.is_resumed());
            self.since = now;
            self.stage = ConnectionStage::Open;
            if self.http2.is_some() && self.transport.protocol() != Some(b"h2") {
                lent.note(|| "the server does not negotiate HTTP/2 (ALPN h2)".to_owned());
                return Err(Failure::BadHttp);
            }
        }
        Ok(done)
    }

    fn read(&mut self, is_last: bool, lent: &mut Lent) -> Life {
        let mut buffer = std::mem::take(&mut lent.buffer);
        let life = self.read_into(&mut buffer, is_last, lent);
        lent.buffer = buffer;
        life
    }

    /// Reads until nothing is available. A read that doesn't fill the buffer has emptied the socket: the kernel
    /// reports new data (edge-triggered), except an end that it has already reported.
    fn read_into(&mut self, buffer: &mut [u8], is_last: bool, lent: &mut Lent) -> Life {
        loop {
            let carried = self.busy.as_mut().map_or(0, |busy| {
                buffer[..busy.partial.len()].copy_from_slice(&busy.partial);
                let carried = busy.partial.len();
                busy.partial.clear();
                carried
            });
            match self.transport.read(&mut buffer[carried..]) {
                Ok(read) => {
                    lent.tally.bytes_in += read as u64;
                    let full = carried + read == buffer.len();
                    if self.feed(&buffer[..carried + read], lent) == Life::Gone {
                        return Life::Gone;
                    }
                    if !full && !is_last && !self.transport.is_tls() {
                        return Life::Alive;
                    }
                }
                Err(broken) => {
                    if let Some(busy) = &mut self.busy {
                        busy.partial.extend_from_slice(&buffer[..carried]);
                    }
                    return match broken {
                        Broken::Not => Life::Alive,
                        broken => self.on_end(broken, lent),
                    };
                }
            }
        }
    }

    /// The other side has closed, or worse.
    fn on_end(&mut self, broken: Broken, lent: &mut Lent) -> Life {
        if let Some(http2) = &mut self.http2 {
            http2.end();
            self.go_on(lent);
            return self.fail(broken.failure(), lent);
        }
        let Some(busy) = &mut self.busy else { return Life::Gone };
        if busy.pending.is_empty() {
            return Life::Gone;
        }
        let begun = busy.reader.is_within() || !busy.partial.is_empty();
        if broken == Broken::Closed && busy.reader.may_end() {
            let now = lent.clock.now();
            busy.complete(now, self.key, lent);
            return self.fail(Failure::Reset, lent);
        }
        let failure = match broken {
            Broken::Closed if begun => Failure::ShortBody,
            Broken::Closed => Failure::Reset,
            other => other.failure(),
        };
        self.fail(failure, lent)
    }

    /// Parses received data.
    fn feed(&mut self, mut input: &[u8], lent: &mut Lent) -> Life {
        if let Some(http2) = &mut self.http2 {
            http2.receive(input);
            return self.go_on(lent);
        }
        let now = lent.clock.now();
        let Some(busy) = &mut self.busy else {
            return on_unasked(input);
        };
        while !input.is_empty() || busy.reader.is_within() {
            let Some(first) = busy.pending.front_mut() else {
                return if input.is_empty() { Life::Alive } else { on_surplus(input, self.key, lent) };
            };
            if first.first == 0 {
                first.first = now;
            }
            let is_head = first.what.is_head;
            let keeps = first.what.keeps_any();
            let (taken, item) = match busy.reader.read(input, is_head) {
                Ok(read) => read,
                Err(bad) => {
                    let first = &first.what.request;
                    lent.note(|| format!("{}: invalid HTTP response: {bad}", first.target));
                    return self.fail(Failure::BadHttp, lent);
                }
            };
            let (bytes, rest) = input.split_at(taken);
            input = rest;
            match item {
                Some(Item::Head(head)) => {
                    busy.status = head.status;
                    busy.keep_alive = head.keep_alive;
                    if keeps {
                        busy.head.extend_from_slice(bytes);
                        busy.content.reserve(head.length.unwrap_or(0).min(1 << 20) as usize);
                    }
                }
                Some(Item::Content(content)) if keeps => busy.content.extend_from_slice(content),
                Some(Item::Content(_)) => {}
                Some(Item::End) => {
                    let keep_alive = busy.keep_alive;
                    busy.complete(now, self.key, lent);
                    self.since = now;
                    self.waiting_since = busy.pending.front().map_or(0, |next| next.sent.max(1));
                    if !keep_alive {
                        if !input.is_empty() {
                            return on_surplus(input, self.key, lent);
                        }
                        return self.fail_rest(lent);
                    }
                }
                None if taken == 0 => {
                    busy.partial.extend_from_slice(input);
                    return Life::Alive;
                }
                None => {}
            }
        }
        Life::Alive
    }

    /// The server closes after this response, as announced: later requests go to another connection.
    fn fail_rest(&mut self, lent: &mut Lent) -> Life {
        if let Some(mut busy) = self.busy.take() {
            for pending in busy.pending.drain(..) {
                let outcome = RequestOutcome::Again;
                lent.finished.push_back(Finished { pending, connection: self.key, outcome });
            }
        }
        self.waiting_since = 0;
        Life::Gone
    }
}

impl Busy {
    /// The first request has its response.
    fn complete(&mut self, now: u64, connection: u32, lent: &mut Lent) {
        let Some(pending) = self.pending.pop_front() else { return };
        self.reader = Reader::default();
        let response = Response { status: self.status, head: &self.head, content: &self.content };
        let outcome = judged(&pending, response, now, lent);
        self.head.clear();
        self.content.clear();
        lent.finished.push_back(Finished { pending, connection, outcome });
    }
}

/// A complete response, judged.
pub fn judged(pending: &Pending, response: Response<'_>, last: u64, lent: &mut Lent) -> RequestOutcome {
    let judge = &pending.what.judge;
    let status = response.status;
    let keep = || Box::new(Kept { head: response.head.to_vec(), content: response.content.to_vec() });
    let whole =
        |failure, kept, wrong| RequestOutcome::Whole { status, failure, last, kept, wrong, differing: None };
    match pending.what.follows.filter(|_| is_redirect(status)) {
        // The final response is still to come.
        Some(1..) => return whole(None, Some(keep()), None),
        Some(0) => {
            lent.note(|| format!("{}: too many redirects", pending.what.request.target));
            return whole(Some(Failure::StatusOther), None, None);
        }
        None => {}
    }
    let compares = !pending.is_personal;
    let kept = pending.what.keeps.then(keep);
    let failure = match judge.status(status) {
        Some(failure) => Some(failure),
        None => match judge.content(response, compares) {
            ContentVerdict::Right => None,
            ContentVerdict::Wrong(failure) => Some(failure),
            ContentVerdict::Unknown(differing, review) => {
                lent.reviews.extend(review);
                let differing = Some(Box::new(differing));
                return RequestOutcome::Whole { status, failure: None, last, kept, wrong: None, differing };
            }
        },
    };
    let mut wrong = None;
    if matches!(failure, Some(Failure::WrongContent | Failure::WrongLength))
        && lent.described < MOST_DESCRIBED
    {
        lent.described += 1;
        let target = pending.what.request.target.clone();
        let difference = judge.difference(response, compares);
        wrong = difference.map(|(expected, found)| Box::new(Wrong { target, expected, found }));
    }
    whole(failure, kept, wrong)
}

/// Unrequested data: servers send 408 before they close an idle connection, and nothing else.
fn on_unasked(input: &[u8]) -> Life {
    if input.is_empty() { Life::Alive } else { Life::Gone }
}

/// Data after the end of the last response: its length was wrong.
fn on_surplus(input: &[u8], connection: u32, lent: &mut Lent) -> Life {
    let is_timeout = input.starts_with(b"HTTP/1.1 408") || input.starts_with(b"HTTP/1.0 408");
    if !is_timeout
        && let Some(last) = lent.finished.back_mut()
        && last.connection == connection
        && let RequestOutcome::Whole { failure, .. } = &mut last.outcome
    {
        *failure = Some(failure.unwrap_or(Failure::WrongLength));
    }
    Life::Gone
}

/// The failure for a network error.
pub fn failure_of(errno: Errno) -> Failure {
    match errno {
        Errno::CONNREFUSED => Failure::Refused,
        Errno::TIMEDOUT => Failure::TimeOut,
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN | Errno::ACCESS | Errno::PERM => {
            Failure::Unreachable
        }
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::ADDRNOTAVAIL => Failure::Tester,
        _ => Failure::Reset,
    }
}
