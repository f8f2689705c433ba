//! Reads a request's content from the connection.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use millrace_settings::Plan;
use millrace_wire::chunked::ChunkedDecoder;
use millrace_wire::head::Framing;

use super::{Connection, ConnectionPhase, write_all};
use crate::connection::Expire;
use crate::protocol::intake::{Intake, StreamLimits};
use crate::serve::ExchangeTrouble;
use millrace_base::context::budget::REQUEST_BYTES;
use millrace_base::context::stats::Counter;
use millrace_base::message::Request;
use millrace_base::message::request::ContentStream;

/// Reads the content of `request`: first from `rest`, which keeps the bytes behind it, then from the socket.
pub(super) async fn read(
    connection: &Connection,
    request: &mut Request,
    rest: &mut Vec<u8>,
    plan: &Plan,
    most: u64,
) -> Result<(), ExchangeTrouble> {
    let Some(coding) = Coding::of(request) else { return Ok(()) };
    let intake = Intake::begin(&connection.thread.serve, plan, most, request)?;
    let mut reader = ContentReader { connection, coding, intake };
    let taken = reader.take(rest).map_err(|status| reader.intake.refuse(request, status))?;
    rest.drain(..taken);
    if !reader.is_done() && request.head.expects_continue() && rest.is_empty() {
        go_on(connection).await?;
    }
    connection.enter(ConnectionPhase::Content);
    loop {
        reader.intake.make_room(request, plan.http.body_memory).await?;
        if reader.is_done() {
            break;
        }
        reader.read_some(request, rest).await?;
        connection.progress();
        connection.works_with(REQUEST_BYTES as usize + reader.intake.in_memory());
        if !reader.is_done() && reader.intake.is_too_slow() {
            connection.expire();
            return Err(ExchangeTrouble::Gone);
        }
    }
    reader.intake.finish(request).await
}

/// What is left of a request's content.
#[derive(Debug)]
enum Coding {
    /// Number of bytes still to come.
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
}

impl Coding {
    /// `None`: there is no content.
    fn of(request: &Request) -> Option<Coding> {
        match request.head.framing() {
            Framing::None | Framing::Length(0) => None,
            Framing::Length(length) => Some(Coding::Length(length)),
            Framing::Chunked => Some(Coding::Chunked(Box::default())),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Coding::Length(left) => *left == 0,
            Coding::Chunked(decoder) => decoder.is_done(),
        }
    }

    /// Passes content from the start of `input` to `take`; returns how many bytes belong to the content.
    ///
    /// # Errors
    /// The status for the client.
    fn read(&mut self, input: &[u8], mut take: impl FnMut(&[u8]) -> Result<(), u16>) -> Result<usize, u16> {
        let mut taken = 0;
        while taken < input.len() && !self.is_done() {
            let rest = &input[taken..];
            let (n, content) = match self {
                Coding::Length(left) => {
                    let n = (*left).min(rest.len() as u64) as usize;
                    *left -= n as u64;
                    (n, &rest[..n])
                }
                Coding::Chunked(decoder) => decoder.decode(rest).map_err(|_| 400u16)?,
            };
            taken += n;
            take(content)?;
        }
        Ok(taken)
    }
}

/// Content that an application gets while it arrives, and the bytes behind it. The connection and the application share
/// it.
#[derive(Debug)]
pub(super) struct H1Content {
    connection: Rc<Connection>,
    coding: Coding,
    /// Bytes that have been read, and not taken.
    rest: Vec<u8>,
    limits: StreamLimits,
}

/// The application's end of it.
#[derive(Debug)]
pub(super) struct SharedContent(pub(super) Rc<RefCell<H1Content>>);

impl H1Content {
    /// The content of `request`, which begins with `rest`; `None`: it has none.
    pub(super) async fn begin(
        connection: &Rc<Connection>,
        request: &Request,
        rest: &mut Vec<u8>,
        plan: &Plan,
        most: u64,
    ) -> Result<Option<Rc<RefCell<H1Content>>>, ExchangeTrouble> {
        let Some(coding) = Coding::of(request) else { return Ok(None) };
        let limits = StreamLimits::begin(&connection.thread.serve, plan, most, request)?;
        if request.head.expects_continue() && rest.is_empty() {
            go_on(connection).await?;
        }
        let (connection, rest) = (connection.clone(), std::mem::take(rest));
        Ok(Some(Rc::new(RefCell::new(H1Content { connection, coding, rest, limits }))))
    }

    /// Whether all of it has been taken.
    pub(super) fn is_done(&self) -> bool {
        self.coding.is_done()
    }

    /// The bytes behind it, if it is done.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest)
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<Result<bool, u16>> {
        if self.is_done() {
            return Poll::Ready(Ok(false));
        }
        let before = buffer.len();
        let mut take = |content: &[u8]| {
            buffer.extend_from_slice(content);
            Ok(())
        };
        if self.rest.is_empty() {
            let connection = self.connection.clone();
            let mut input = connection.thread.buffers.input.borrow_mut();
            let read = match connection.stream().poll_read(cx, &mut input) {
                Poll::Ready(Ok(read @ 1..)) => read,
                // It has gone: nobody reads the response.
                Poll::Ready(_) => return Poll::Ready(Err(400)),
                Poll::Pending => return self.limits.poll_pause(cx).map(Err),
            };
            connection.thread.context.stats.add(Counter::BytesReceived, read as u64);
            let taken = self.coding.read(&input[..read], &mut take)?;
            self.rest.extend_from_slice(&input[taken..read]);
        } else {
            let taken = self.coding.read(&self.rest, &mut take)?;
            self.rest.drain(..taken);
        }
        self.limits.take(buffer.len() - before)?;
        Poll::Ready(Ok(true))
    }
}

impl ContentStream for SharedContent {
    fn length(&self) -> Option<u64> {
        self.0.borrow().limits.length
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<Result<bool, u16>> {
        self.0.borrow_mut().poll_piece(cx, buffer)
    }
}

async fn go_on(connection: &Connection) -> Result<(), ExchangeTrouble> {
    let go_on = b"HTTP/1.1 100 Continue\r\n\r\n";
    write_all(connection, &mut [io::IoSlice::new(go_on)]).await.map_err(|_| ExchangeTrouble::Gone)
}

struct ContentReader<'a> {
    connection: &'a Connection,
    coding: Coding,
    intake: Intake<'a>,
}

impl ContentReader<'_> {
    fn is_done(&self) -> bool {
        self.coding.is_done()
    }

    /// Takes content from the start of `input`; returns how many bytes belong to the content.
    ///
    /// # Errors
    /// The status for the client.
    fn take(&mut self, input: &[u8]) -> Result<usize, u16> {
        let ContentReader { coding, intake, .. } = self;
        coding.read(input, |content| intake.push(content))
    }

    /// Reads once from the socket; bytes behind the content go to `rest`.
    async fn read_some(&mut self, request: &Request, rest: &mut Vec<u8>) -> Result<(), ExchangeTrouble> {
        let connection = self.connection;
        let taken = poll_fn(|cx| {
            let mut input = connection.thread.buffers.input.borrow_mut();
            let Ok(read) = ready!(connection.stream().poll_read(cx, &mut input)) else {
                return Poll::Ready(Err(ExchangeTrouble::Gone));
            };
            if read == 0 {
                return Poll::Ready(Err(ExchangeTrouble::Gone));
            }
            connection.thread.context.stats.add(Counter::BytesReceived, read as u64);
            let taken = self.take(&input[..read]).map_err(|status| self.intake.refuse(request, status));
            Poll::Ready(taken.map(|taken| rest.extend_from_slice(&input[taken..read])))
        })
        .await;
        connection.thread.context.clock.read();
        taken
    }
}
