//! HTTP/1.1 and 1.0 (RFC 9112): our own connection loop.
//!
//! While a connection waits for a request it owns no buffer: bytes are read into a buffer of the thread, and the
//! connection stores only an incomplete head. Responses that are ready at once - files from the cache, errors,
//! redirects - are made and written without leaving the loop, several per write when requests are pipelined;
//! everything that has to wait goes through [`exchange`], in a future that exists only that long.
//!
//! ```text
//!   Idle --bytes--> Reading --head--> answer ready? --yes--> written with others --> Idle
//!                                         \--no--> exchange: content, PHP, files, slow writes --> Idle
//! ```

mod connection;
mod content;
mod exchange;
mod send;
#[cfg(test)]
mod tests;
mod tunnel;

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

pub use connection::Connection;
use millrace_wire::head::{Framing, Limits, Refusal};

use super::buffers::BATCH_BYTES;
use super::framing::has_content;
use super::linger;
use super::phase::ConnectionPhase;

use crate::connection::Exit;
use crate::protocol::ProtocolThread;
use crate::serve::{self, Exchange, Setup, SharedSetup, SiteWorkers, Step, no_room, record_at_once};
use millrace_base::context::ProcessStage;
use millrace_base::context::log::{AccessEntry, LoggedRequest};
use millrace_base::context::stats::{Counter, ResponseClass};
use millrace_base::message::reply::{self, Body, Reply};
use millrace_base::message::request::{Request, Scheme};

/// Content up to this size is copied behind its head: a system call with two pieces costs as much. Larger content is
/// written from where it lies.
const COPY_BYTES: usize = 16 * 1024;
/// Cached content up to this size is sent at once; larger content goes through an exchange, which notices how long
/// that takes and whether all of it was sent.
const SHARED_BYTES: usize = 512 * 1024;

/// Serves the requests of a connection in sequence; `begun` has already been read.
pub async fn serve(connection: Rc<Connection>, begun: Vec<u8>) {
    let thread = connection.thread.clone();
    thread.deadlines.watch(&connection);
    connection.await_first_head();
    // Bytes of an incomplete head; no buffer while there are none.
    let mut rest = begun;
    let mut keep = rest.is_empty() || Box::pin(go_on(&connection, &mut rest, NextStep::More)).await;
    while keep {
        let step = match wait(&connection, rest.is_empty()).await {
            Ok(read) => advance(&thread, &connection, &mut rest, read),
            Err(_) => break,
        };
        keep = match step {
            NextStep::Wait => true,
            NextStep::Close => false,
            NextStep::Linger => {
                Box::pin(linger(&connection)).await;
                false
            }
            NextStep::PassOn => connection.pass_on(),
            step => Box::pin(go_on(&connection, &mut rest, step)).await,
        };
    }
    match &thread.exit {
        Some(exit) if connection.is_passed_on() => Box::pin(leave(connection, exit, rest)).await,
        _ => end(&connection).await,
    }
}

/// Tells the client that nothing more follows, if the protocol has a message for that, and waits until it has been
/// sent: a slow client could not distinguish the end from a broken connection.
async fn end(connection: &Connection) {
    connection.stream().say_end();
    if !connection.stream().is_flushed() {
        let _ = Box::pin(flush(connection)).await;
    }
}

/// Moves the connection to another event loop, with the bytes read so far.
async fn leave(connection: Rc<Connection>, exit: &Exit, rest: Vec<u8>) {
    let Some((socket, permit)) = connection.take_out() else { return };
    let ends = connection.ends.clone();
    drop(connection);
    exit.pass(socket, ends, permit, rest).await;
}

/// The next step.
enum NextStep {
    /// More bytes are needed.
    Wait,
    /// The output is full: write it, then serve the requests that have already arrived.
    More,
    /// The connection is finished.
    Close,
    /// The connection is finished, but the client may still be sending.
    Linger,
    /// Write what the socket did not take at once, then take the next step.
    Write(Vec<u8>, Tail, Box<NextStep>),
    /// A request that must wait.
    Exchange(Box<Exchange>),
    /// The same, and the connection moves to another event loop with it.
    PassOn,
}

/// Content that is written after the collected responses, from where it is stored.
#[derive(Clone, Default)]
struct Tail {
    bytes: Option<Arc<[u8]>>,
    start: usize,
    end: usize,
}

impl Tail {
    fn as_slice(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], |bytes| &bytes[self.start..self.end])
    }

    /// Without its first `count` bytes.
    fn after(self, count: usize) -> Tail {
        Tail { start: self.start + count, ..self }
    }
}

/// Reads once into the thread's buffer; returns the number of bytes.
async fn wait(connection: &Connection, idle: bool) -> io::Result<usize> {
    poll_fn(|cx| {
        let mut input = connection.thread.buffers.input.borrow_mut();
        let read = ready!(connection.stream().poll_read(cx, &mut input))?;
        Poll::Ready(if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(read) })
    })
    .await
    .inspect(|read| {
        connection.thread.context.clock.read();
        connection.thread.context.stats.add(Counter::BytesReceived, *read as u64);
        connection.note_early(!idle);
        if idle {
            connection.begin_head();
        }
    })
}

/// Serves the ready requests among the `read` bytes in the thread's buffer, after the earlier rest.
fn advance(
    thread: &Rc<ProtocolThread>,
    connection: &Rc<Connection>,
    rest: &mut Vec<u8>,
    read: usize,
) -> NextStep {
    let input = thread.buffers.input.borrow();
    let mut output = thread.buffers.output.borrow_mut();
    output.clear();
    let PipelinedAnswers { step, taken, tail } = if rest.is_empty() {
        answer_all(thread, connection, &input[..read], &mut output)
    } else {
        rest.extend_from_slice(&input[..read]);
        answer_all(thread, connection, rest, &mut output)
    };
    keep_rest(rest, &input[..read], taken);
    connection.keeps_unread(rest.capacity());
    write_out(connection, step, &output, tail, rest.is_empty())
}

/// Stores what `answer_all` has not taken: from `rest`, if there was any, otherwise from the bytes just read.
fn keep_rest(rest: &mut Vec<u8>, read: &[u8], taken: usize) {
    if !rest.is_empty() {
        rest.drain(..taken);
        if rest.is_empty() {
            *rest = Vec::new();
        }
    } else if taken < read.len() {
        *rest = read[taken..].to_vec();
    }
}

/// Responses to the requests at the start of some bytes.
struct PipelinedAnswers {
    /// The next step.
    step: NextStep,
    /// Number of bytes taken.
    taken: usize,
    /// Content of the last response.
    tail: Tail,
}

/// Serves the requests at the start of `input` until one has to wait, or the bytes end, or content is to be written
/// from where it lies.
fn answer_all(
    thread: &Rc<ProtocolThread>,
    connection: &Rc<Connection>,
    input: &[u8],
    output: &mut Vec<u8>,
) -> PipelinedAnswers {
    let setup = thread.serve.setup();
    let mut taken = 0;
    let after = |step, taken| PipelinedAnswers { step, taken, tail: Tail::default() };
    while taken < input.len() && output.len() < BATCH_BYTES {
        match next_request(thread, connection, &setup, &input[taken..]) {
            Ok(None) => return after(NextStep::Wait, taken),
            Ok(Some((request, length))) => {
                taken += length;
                match answer(thread, connection, &setup, request, output) {
                    Answered::Ready { close: false, tail: None } => {}
                    Answered::Ready { close, tail } => {
                        let more = if taken < input.len() { NextStep::More } else { NextStep::Wait };
                        let step = if close { NextStep::Close } else { more };
                        return PipelinedAnswers { step, taken, tail: tail.unwrap_or_default() };
                    }
                    Answered::Waits(exchange) => return after(NextStep::Exchange(exchange), taken),
                    Answered::Elsewhere => return after(NextStep::PassOn, taken - length),
                }
            }
            Err(refusal) => {
                refuse(thread, connection, refusal, &input[taken..], output);
                return after(NextStep::Linger, input.len());
            }
        }
    }
    after(if taken < input.len() { NextStep::More } else { NextStep::Wait }, taken)
}

fn next_request(
    thread: &ProtocolThread,
    connection: &Rc<Connection>,
    setup: &Setup,
    input: &[u8],
) -> Result<Option<(Request, usize)>, Refusal> {
    let http = &setup.plan.http;
    let limits = Limits { bytes: http.head_bytes, fields: http.head_fields, target: http.target_bytes };
    let mut head = thread.buffers.head.take();
    match head.parse(input, &limits) {
        Ok(Some(length)) => {
            let mut request = Request::new(head, connection.ends.clone(), &setup.plan.server.trusted_proxies);
            if request.head.names_https() && request.ends.scheme != Scheme::Https {
                thread.buffers.give_back(request.head);
                return Err(Refusal::Misdirected);
            }
            request.early = connection.is_early();
            if http.early_hints && connection::knows_chunks(&request) {
                request.hints = Some(connection.hints());
            }
            Ok(Some((request, length)))
        }
        other => {
            thread.buffers.give_back(head);
            other.map(|_| None)
        }
    }
}

enum Answered {
    /// It is in the output, except the content that is written after it.
    Ready { close: bool, tail: Option<Tail> },
    /// It must wait; contains what is needed to continue.
    Waits(Box<Exchange>),
    /// It must wait, and this event loop won't serve it.
    Elsewhere,
}

fn answer(
    thread: &Rc<ProtocolThread>,
    connection: &Connection,
    setup: &SharedSetup,
    mut request: Request,
    output: &mut Vec<u8>,
) -> Answered {
    let site = setup.workers_of(&thread.context.process.log, &mut request);
    if connection.is_shed() && (thread.exit.is_none() || request.head.framing() == Framing::None) {
        return send_away(thread, connection, setup, request, output);
    }
    if let Some(exit) = &thread.exit {
        return answer_or_pass_on(thread, connection, exit, site, request, output);
    }
    if request.head.framing() != Framing::None {
        return Answered::Waits(Box::new(Exchange::new(&thread.serve, setup, site, request)));
    }
    match serve::respond(&thread.serve, site, &mut request) {
        (class, Step::Answer(reply)) if is_short(&reply) => {
            ready(thread, connection, site, request, class, &reply, output)
        }
        (class, step) => {
            Answered::Waits(Box::new(Exchange::new(&thread.serve, setup, site, request).with(class, step)))
        }
    }
}

/// The same in an event loop that only sends ready responses.
fn answer_or_pass_on(
    thread: &Rc<ProtocolThread>,
    connection: &Connection,
    exit: &Exit,
    site: &Arc<SiteWorkers>,
    mut request: Request,
    output: &mut Vec<u8>,
) -> Answered {
    if request.head.framing() == Framing::None
        && let (class, Step::Answer(reply)) = serve::respond(&thread.serve, site, &mut request)
        && is_short(&reply)
    {
        return ready(thread, connection, site, request, class, &reply, output);
    }
    if exit.is_full() {
        return ready(thread, connection, site, request, ResponseClass::Other, &no_room(site), output);
    }
    thread.buffers.give_back(request.head);
    Answered::Elsewhere
}

/// Sends the response of a shed connection.
fn send_away(
    thread: &Rc<ProtocolThread>,
    connection: &Connection,
    setup: &SharedSetup,
    request: Request,
    output: &mut Vec<u8>,
) -> Answered {
    let site = setup.workers_for(request.authority()).clone();
    let reply = no_room(&site);
    if request.head.framing() == Framing::None {
        return ready(thread, connection, &site, request, ResponseClass::Other, &reply, output);
    }
    // Its content is not read, which needs care.
    let exchange =
        Exchange::new(&thread.serve, setup, &site, request).with(ResponseClass::Other, Step::Answer(reply));
    Answered::Waits(Box::new(exchange))
}

/// Appends a ready response.
fn ready(
    thread: &ProtocolThread,
    connection: &Connection,
    site: &SiteWorkers,
    request: Request,
    class: ResponseClass,
    reply: &Reply,
    output: &mut Vec<u8>,
) -> Answered {
    let close = !connection.keeps(&request, reply);
    let tail = tail(&request, reply);
    send::short(thread, &request, reply, tail.is_none(), close, output);
    record_at_once(&thread.serve, site, &request, class, reply);
    thread.buffers.give_back(request.head);
    Answered::Ready { close, tail }
}

/// Whether the response is written at once, behind others.
fn is_short(reply: &Reply) -> bool {
    match &reply.body {
        Body::Empty | Body::Omitted(_) => true,
        Body::Bytes(bytes) => bytes.len() <= COPY_BYTES,
        Body::Shared { start, end, .. } => end - start <= SHARED_BYTES,
        Body::File { .. } | Body::Parts(_) | Body::Stream(_) => false,
    }
}

/// Its content, if it is written from where it lies.
fn tail(request: &Request, reply: &Reply) -> Option<Tail> {
    match &reply.body {
        &Body::Shared { ref bytes, start, end } if end - start > COPY_BYTES => {
            has_content(request, reply).then(|| Tail { bytes: Some(bytes.clone()), start, end })
        }
        _ => None,
    }
}

/// Responds to an invalid head; the start of the next request is unknown, so the connection ends.
fn refuse(
    thread: &ProtocolThread,
    connection: &Connection,
    refusal: Refusal,
    start: &[u8],
    output: &mut Vec<u8>,
) {
    thread.context.stats.add(Counter::RequestsMalformed, 1);
    thread.context.process.log.debug(format_args!(
        "rejected a request from {}: {refusal}",
        connection.ends.client_ip().map_or("a Unix socket".into(), |ip| ip.to_string())
    ));
    let reply = reply::plain(refusal.status());
    send::refusal(thread, &reply, output);
    thread.context.stats.count_reply(reply.status);
    let entry = AccessEntry {
        asked: LoggedRequest::Malformed(start),
        client: connection.ends.client_ip(),
        status: reply.status,
        bytes: reply.body.length().unwrap_or(0),
        duration: Duration::ZERO,
    };
    thread.context.access.record(&thread.context, &entry);
}

/// Writes the collected responses; an exchange writes what the socket does not take.
fn write_out(connection: &Connection, step: NextStep, output: &[u8], tail: Tail, idle: bool) -> NextStep {
    let mut written = 0;
    let behind = tail.as_slice().len();
    if !output.is_empty() {
        let pieces = [IoSlice::new(output), IoSlice::new(tail.as_slice())];
        match connection.stream().try_write(if behind == 0 { &pieces[..1] } else { &pieces }) {
            Ok(n) => written = n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return NextStep::Close,
        }
        connection.thread.context.stats.add(Counter::BytesSent, written as u64);
    }
    if written < output.len() + behind || !connection.stream().is_flushed() {
        let unsent = output[written.min(output.len())..].to_vec();
        return NextStep::Write(unsent, tail.after(written.saturating_sub(output.len())), Box::new(step));
    }
    if let NextStep::Wait = step {
        if connection.thread.context.process.stage() == ProcessStage::Draining && idle {
            return NextStep::Close;
        }
        connection.await_bytes(idle, !output.is_empty());
    }
    step
}

/// Runs an exchange or a slow write, and then serves the requests that have already arrived behind it. Returns
/// whether the connection continues.
async fn go_on(connection: &Rc<Connection>, rest: &mut Vec<u8>, mut step: NextStep) -> bool {
    loop {
        step = match step {
            NextStep::Exchange(exchange) => {
                let step = exchange::run(exchange, connection, rest).await;
                connection.works_with(0);
                step
            }
            NextStep::Write(bytes, tail, then) => {
                connection.works_with(bytes.capacity());
                let pieces = &mut [IoSlice::new(&bytes), IoSlice::new(tail.as_slice())];
                let written = write_all(connection, pieces).await;
                connection.works_with(0);
                match written {
                    Ok(()) => *then,
                    Err(_) => NextStep::Close,
                }
            }
            NextStep::Wait if rest.is_empty() => {
                connection.await_bytes(true, true);
                return connection.thread.context.process.stage() != ProcessStage::Draining;
            }
            NextStep::More => advance_rest(connection, rest),
            NextStep::Wait => match advance_rest(connection, rest) {
                NextStep::Wait => return true,
                step => step,
            },
            NextStep::Close => return false,
            NextStep::Linger => {
                linger(connection).await;
                return false;
            }
            NextStep::PassOn => return connection.pass_on(),
        };
    }
}

/// Waits until the client has noticed the end.
async fn linger(connection: &Connection) {
    connection.enter(ConnectionPhase::Lingering);
    linger::close(&connection.thread, |call| call(&mut connection.stream())).await;
}

/// Serves requests that arrived behind one that had to wait.
fn advance_rest(connection: &Rc<Connection>, rest: &mut Vec<u8>) -> NextStep {
    let thread = &connection.thread;
    connection.begin_head();
    let input = std::mem::take(rest);
    let mut output = thread.buffers.output.borrow_mut();
    output.clear();
    let PipelinedAnswers { step, taken, tail } = answer_all(thread, connection, &input, &mut output);
    keep_rest(rest, &input, taken);
    connection.keeps_unread(rest.capacity());
    write_out(connection, step, &output, tail, rest.is_empty())
}

/// Writes all of `pieces`, whatever it takes; all progress restarts the send timeout.
async fn write_all(connection: &Connection, mut pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
    while pieces.iter().any(|p| !p.is_empty()) {
        let written = poll_fn(|cx| match connection.stream().poll_write(cx, pieces) {
            Poll::Pending => {
                connection.enter(ConnectionPhase::Writing);
                Poll::Pending
            }
            ready => ready,
        })
        .await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        connection.thread.context.stats.add(Counter::BytesSent, written as u64);
        IoSlice::advance_slices(&mut pieces, written);
        connection.progress();
    }
    flush(connection).await
}

/// Makes sure that all written bytes are sent.
async fn flush(connection: &Connection) -> io::Result<()> {
    poll_fn(|cx| match connection.stream().poll_flush(cx) {
        Poll::Pending => {
            connection.enter(ConnectionPhase::Writing);
            Poll::Pending
        }
        ready => ready,
    })
    .await
}
