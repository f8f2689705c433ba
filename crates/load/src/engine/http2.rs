//! HTTP/2 by the h2 crate, without a runtime: bytes go in, results are polled, bytes come out.
//!
//! h2 needs a stream to read and write, and wakers. It gets a pair of buffers ([`Pipe`]) and a waker that does
//! nothing: whenever the socket has data, everything of the connection is polled until there is no progress.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{self, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::{Finished, Lent, Pending, RequestOutcome, judged};
use super::judge::Response;
use crate::record::Failure;

/// Receive windows of a stream and of a connection, as in Chromium. Bytes.
const WINDOWS: (u32, u32) = (6 << 20, 15 << 20);

/// An HTTP/2 connection.
pub struct Http2 {
    pipe: Rc<RefCell<Pipe>>,
    state: Http2State,
    waiting: VecDeque<(Pending, Http2Request)>,
    streams: Vec<Stream>,
    /// Unsent data.
    pub out: Vec<u8>,
}

/// A request in HTTP/2: its head and its content.
pub type Http2Request = (http::Request<()>, Bytes);

type Opened = (SendRequest<Bytes>, client::Connection<Duplex, Bytes>);

enum Http2State {
    Opening(Pin<Box<dyn Future<Output = Result<Opened, h2::Error>>>>),
    Open(Box<Opened>),
    Closed,
}

/// Received data that was not read, and written data that was not sent.
#[derive(Default)]
struct Pipe {
    input: VecDeque<u8>,
    has_ended: bool,
    output: Vec<u8>,
}

/// The pipe as h2 wants it.
struct Duplex(Rc<RefCell<Pipe>>);

struct Stream {
    pending: Pending,
    state: ResponsePart,
    status: u16,
    length: Option<u64>,
    received: u64,
    head: Vec<u8>,
    content: Vec<u8>,
}

enum ResponsePart {
    Head(ResponseFuture),
    Content(RecvStream),
}

impl Http2 {
    /// On a connection that is open, or will be.
    pub fn new() -> Http2 {
        let pipe = Rc::new(RefCell::new(Pipe::default()));
        let mut builder = client::Builder::new();
        builder.initial_window_size(WINDOWS.0).initial_connection_window_size(WINDOWS.1).enable_push(false);
        let duplex = Duplex(pipe.clone());
        let opening = async move { builder.handshake(duplex).await };
        let state = Http2State::Opening(Box::pin(opening));
        Http2 { pipe, state, waiting: VecDeque::new(), streams: Vec::new(), out: Vec::new() }
    }

    /// Number of requests in progress.
    pub fn load(&self) -> usize {
        self.waiting.len() + self.streams.len()
    }

    /// When the oldest request was sent; 0: there is none.
    pub fn waiting_since(&self) -> u64 {
        let under_way = self.streams.iter().map(|stream| &stream.pending);
        let all = under_way.chain(self.waiting.iter().map(|(pending, _)| pending));
        all.map(|pending| pending.sent.max(1)).min().unwrap_or(0)
    }

    /// Takes a request.
    pub fn submit(&mut self, pending: Pending, message: Http2Request) {
        self.waiting.push_back((pending, message));
    }

    /// Takes received data.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.pipe.borrow_mut().input.extend(bytes);
    }

    /// The other side has closed.
    pub fn end(&mut self) {
        self.pipe.borrow_mut().has_ended = true;
    }

    /// Makes progress as far as possible: data to send is in `out` afterwards.
    ///
    /// # Errors
    /// Why the connection has ended; the caller must fail its requests.
    pub fn go_on(&mut self, connection: u32, lent: &mut Lent) -> Result<(), Failure> {
        let result = self.poll(connection, lent);
        self.out.append(&mut self.pipe.borrow_mut().output);
        result
    }

    fn poll(&mut self, connection: u32, lent: &mut Lent) -> Result<(), Failure> {
        let mut context = Context::from_waker(Waker::noop());
        if let Http2State::Opening(opening) = &mut self.state {
            match opening.as_mut().poll(&mut context) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(opened)) => self.state = Http2State::Open(Box::new(opened)),
                Poll::Ready(Err(error)) => {
                    self.state = Http2State::Closed;
                    lent.note(|| format!("HTTP/2: {error}"));
                    return Err(failure_of(&error));
                }
            }
        }
        loop {
            let sent = self.send(&mut context);
            let Http2State::Open(opened) = &mut self.state else { return Err(Failure::Reset) };
            let over = match Pin::new(&mut opened.1).poll(&mut context) {
                Poll::Pending => None,
                Poll::Ready(Ok(())) => Some(Failure::Reset),
                Poll::Ready(Err(error)) => {
                    if failure_of(&error) == Failure::BadHttp {
                        lent.note(|| format!("HTTP/2: {error}; does the server speak it?"));
                    }
                    Some(failure_of(&error))
                }
            };
            let moved = self.look(&mut context, connection, lent);
            if let Some(failure) = over {
                self.state = Http2State::Closed;
                return Err(failure);
            }
            if !sent && !moved {
                return Ok(());
            }
        }
    }

    /// Ends all requests.
    pub fn fail(&mut self, failure: Failure, connection: u32, lent: &mut Lent) {
        let under_way = self.streams.drain(..).map(|stream| {
            let is_begun = stream.status != 0 && failure == Failure::Reset;
            (stream.pending, RequestOutcome::Failed(if is_begun { Failure::ShortBody } else { failure }))
        });
        let waiting = self.waiting.drain(..).map(|(pending, _)| {
            let may_repeat = pending.what.is_safe && failure == Failure::Reset;
            (pending, if may_repeat { RequestOutcome::Again } else { RequestOutcome::Failed(failure) })
        });
        for (pending, outcome) in under_way.chain(waiting) {
            lent.finished.push_back(Finished { pending, connection, outcome });
        }
    }

    /// Opens streams for the requests that wait. True: something was sent.
    fn send(&mut self, context: &mut Context<'_>) -> bool {
        let Http2State::Open(opened) = &mut self.state else { return false };
        let mut sent = false;
        while !self.waiting.is_empty() && matches!(opened.0.poll_ready(context), Poll::Ready(Ok(()))) {
            let Some((pending, (head, content))) = self.waiting.pop_front() else { break };
            let Ok((response, mut body)) = opened.0.send_request(head, content.is_empty()) else { break };
            if !content.is_empty() {
                let _ = body.send_data(content, true);
            }
            let state = ResponsePart::Head(response);
            let (head, content) = (Vec::new(), Vec::new());
            self.streams.push(Stream { pending, state, status: 0, length: None, received: 0, head, content });
            sent = true;
        }
        sent
    }

    /// Polls responses. True if there was progress.
    fn look(&mut self, context: &mut Context<'_>, connection: u32, lent: &mut Lent) -> bool {
        let (now, mut moved, mut index) = (lent.clock.now(), false, 0);
        while index < self.streams.len() {
            let (moves, outcome) = self.streams[index].look(context, now, lent);
            moved |= moves;
            match outcome {
                None => index += 1,
                Some(outcome) => {
                    let pending = self.streams.swap_remove(index).pending;
                    lent.finished.push_back(Finished { pending, connection, outcome });
                }
            }
        }
        moved
    }
}

impl Stream {
    /// Whether there was progress, and the results.
    fn look(
        &mut self,
        context: &mut Context<'_>,
        now: u64,
        lent: &mut Lent,
    ) -> (bool, Option<RequestOutcome>) {
        let mut moved = false;
        loop {
            match &mut self.state {
                ResponsePart::Head(response) => match Pin::new(response).poll(context) {
                    Poll::Pending => return (moved, None),
                    Poll::Ready(Ok(response)) => self.on_head(response, now),
                    Poll::Ready(Err(error)) => return (true, Some(self.on_error(&error))),
                },
                ResponsePart::Content(content) => match content.poll_data(context) {
                    Poll::Pending => return (moved, None),
                    Poll::Ready(Some(Ok(data))) => {
                        let _ = content.flow_control().release_capacity(data.len());
                        self.received += data.len() as u64;
                        if self.keeps() {
                            self.content.extend_from_slice(&data);
                        }
                    }
                    Poll::Ready(Some(Err(error))) => return (true, Some(self.on_error(&error))),
                    Poll::Ready(None) => {
                        let (head, content) = (self.head.as_slice(), self.content.as_slice());
                        let response = Response { status: self.status, head, content };
                        return (true, Some(judged(&self.pending, response, now, lent)));
                    }
                },
            }
            moved = true;
        }
    }

    fn keeps(&self) -> bool {
        self.pending.what.keeps_any()
    }

    fn on_head(&mut self, response: http::Response<RecvStream>, now: u64) {
        let (head, content) = response.into_parts();
        self.pending.first = now;
        self.status = head.status.as_u16().clamp(100, 599);
        let length = head.headers.get(http::header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        self.length = length.and_then(|length| length.parse().ok());
        if self.keeps() {
            self.head.extend_from_slice(format!("HTTP/1.1 {} \r\n", self.status).as_bytes());
            for (name, value) in &head.headers {
                for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                    self.head.extend_from_slice(part);
                }
            }
            self.head.extend_from_slice(b"\r\n");
        }
        self.state = ResponsePart::Content(content);
    }

    fn on_error(&self, error: &h2::Error) -> RequestOutcome {
        let failure = match (error.reason(), self.length) {
            (Some(Reason::REFUSED_STREAM), _) if self.pending.what.is_safe => return RequestOutcome::Again,
            (Some(Reason::NO_ERROR), _) if error.is_go_away() && self.status == 0 => {
                return RequestOutcome::Again;
            }
            (Some(Reason::PROTOCOL_ERROR), Some(_)) if error.is_library() => Failure::WrongLength,
            _ if self.status != 0 && (error.is_io() || error.is_remote()) => Failure::ShortBody,
            _ => failure_of(error),
        };
        RequestOutcome::Failed(failure)
    }
}

/// The failure for an HTTP/2 error.
fn failure_of(error: &h2::Error) -> Failure {
    if error.is_io() || error.is_remote() { Failure::Reset } else { Failure::BadHttp }
}

impl std::fmt::Debug for Http2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Http2 with {} requests", self.load())
    }
}

impl AsyncRead for Duplex {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.0.borrow_mut();
        if pipe.input.is_empty() {
            return if pipe.has_ended { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let (first, _) = pipe.input.as_slices();
        let n = first.len().min(into.remaining());
        into.put_slice(&first[..n]);
        pipe.input.drain(..n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Duplex {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
