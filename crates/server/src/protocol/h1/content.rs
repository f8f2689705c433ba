//! Reads a request's content from the connection.

use std::future::poll_fn;
use std::io;
use std::task::{Poll, ready};

use millrace_settings::Plan;
use millrace_wire::chunked::ChunkedDecoder;
use millrace_wire::head::Framing;

use super::{Connection, ConnectionPhase, write_all};
use crate::connection::Expire;
use crate::context::budget::REQUEST_BYTES;
use crate::context::stats::Counter;
use crate::message::Request;
use crate::protocol::intake::Intake;
use crate::serve::ExchangeTrouble;

/// Reads the content of `request`: first from `rest`, which keeps the bytes behind it, then from the socket.
pub(super) async fn read(
    connection: &Connection,
    request: &mut Request,
    rest: &mut Vec<u8>,
    plan: &Plan,
    most: u64,
) -> Result<(), ExchangeTrouble> {
    let coding = match request.head.framing() {
        Framing::None | Framing::Length(0) => return Ok(()),
        Framing::Length(length) => Coding::Length(length),
        Framing::Chunked => Coding::Chunked(Box::default()),
    };
    let intake = Intake::begin(connection.thread.serve(), plan, most, request)?;
    let mut reader = ContentReader { connection, coding, intake };
    let taken = reader.take(rest).map_err(|status| reader.intake.refuse(request, status))?;
    rest.drain(..taken);
    if !reader.is_done() && request.head.expects_continue() && rest.is_empty() {
        let go_on = b"HTTP/1.1 100 Continue\r\n\r\n";
        write_all(connection, &mut [io::IoSlice::new(go_on)]).await.map_err(|_| ExchangeTrouble::Gone)?;
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

enum Coding {
    /// Number of bytes still to come.
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
}

struct ContentReader<'a> {
    connection: &'a Connection,
    coding: Coding,
    intake: Intake<'a>,
}

impl ContentReader<'_> {
    fn is_done(&self) -> bool {
        match &self.coding {
            Coding::Length(left) => *left == 0,
            Coding::Chunked(decoder) => decoder.is_done(),
        }
    }

    /// Takes content from the start of `input`; returns how many bytes belong to the content.
    ///
    /// # Errors
    /// The status for the client.
    fn take(&mut self, input: &[u8]) -> Result<usize, u16> {
        let mut taken = 0;
        while taken < input.len() && !self.is_done() {
            let rest = &input[taken..];
            let (n, content) = match &mut self.coding {
                Coding::Length(left) => {
                    let n = (*left).min(rest.len() as u64) as usize;
                    *left -= n as u64;
                    (n, &rest[..n])
                }
                Coding::Chunked(decoder) => decoder.decode(rest).map_err(|_| 400u16)?,
            };
            taken += n;
            self.intake.push(content)?;
        }
        Ok(taken)
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
            connection.thread.stats.add(Counter::BytesReceived, read as u64);
            let taken = self.take(&input[..read]).map_err(|status| self.intake.refuse(request, status));
            Poll::Ready(taken.map(|taken| rest.extend_from_slice(&input[taken..read])))
        })
        .await;
        connection.thread.clock.read();
        taken
    }
}
