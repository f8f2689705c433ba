//! Reads a request's content, whole, before PHP is asked: a slow client costs a connection and no worker.

use std::future::poll_fn;
use std::io;
use std::task::{Poll, ready};
use std::time::Instant;

use millrace_settings::Plan;
use millrace_settings::plan::Http;
use millrace_wire::chunked::Decoder;
use millrace_wire::head::Framing;

use super::connection::Phase;
use super::exchange::refusal;
use super::{Connection, write_all};
use crate::engine::Expire;
use crate::reply::Reply;
use crate::request::{Content, Request};
use crate::stats::Counter;

/// Why there is no content.
pub(super) enum Trouble {
    /// The client has gone, or has been sent away.
    Gone,
    /// It gets this answer, and the connection ends.
    Answer(Reply),
}

/// Reads the content of `request` into it: first from `rest`, where bytes behind it stay, then from the socket.
pub(super) async fn read(
    connection: &Connection,
    request: &mut Request,
    rest: &mut Vec<u8>,
    plan: &Plan,
    most: u64,
) -> Result<(), Trouble> {
    let mut reader = match request.head.framing() {
        Framing::None | Framing::Length(0) => return Ok(()),
        Framing::Length(length) if length > most => return Err(refusal(413)),
        Framing::Length(length) => Reader::new(plan, most, Coding::Length(length)),
        Framing::Chunked => Reader::new(plan, most, Coding::Chunked(Box::default())),
    };
    let taken = reader.take(rest).map_err(|status| reader.refuse(connection, status))?;
    rest.drain(..taken);
    if !reader.is_done() && request.head.expects_continue() && rest.is_empty() {
        let go_on = b"HTTP/1.1 100 Continue\r\n\r\n";
        write_all(connection, &mut [io::IoSlice::new(go_on)]).await.map_err(|_| Trouble::Gone)?;
    }
    let begun = connection.thread.clock.now();
    connection.enter(Phase::Content);
    while !reader.is_done() {
        reader.read_some(connection, rest).await?;
        connection.progress();
        if reader.is_too_slow(&plan.http, begun, connection.thread.clock.now()) {
            connection.expire();
            return Err(Trouble::Gone);
        }
    }
    reader.content.finish().map_err(|error| reader.cannot_spool(connection, &error))?;
    request.content = std::mem::take(&mut reader.content);
    request.content_is_read = true;
    Ok(())
}

enum Coding {
    /// This many bytes are still to come.
    Length(u64),
    Chunked(Box<Decoder>),
}

struct Reader<'a> {
    plan: &'a Plan,
    most: u64,
    coding: Coding,
    content: Content,
    failure: Option<io::Error>,
}

impl<'a> Reader<'a> {
    fn new(plan: &'a Plan, most: u64, coding: Coding) -> Reader<'a> {
        Reader { plan, most, coding, content: Content::Empty, failure: None }
    }

    fn is_done(&self) -> bool {
        match &self.coding {
            Coding::Length(left) => *left == 0,
            Coding::Chunked(decoder) => decoder.is_done(),
        }
    }

    /// Takes content from the start of `input` and returns how many bytes of it belonged to the content.
    ///
    /// # Errors
    /// The status that the client gets.
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
            if self.content.length() + content.len() as u64 > self.most {
                return Err(413);
            }
            if !content.is_empty() {
                let pushed =
                    self.content.push(content, self.plan.http.body_memory, &self.plan.server.spool_dir);
                pushed.map_err(|error| {
                    self.failure = Some(error);
                    503u16
                })?;
            }
        }
        Ok(taken)
    }

    /// Reads once from the socket; what follows the content goes to `rest`.
    async fn read_some(&mut self, connection: &Connection, rest: &mut Vec<u8>) -> Result<(), Trouble> {
        let taken = poll_fn(|cx| {
            let mut input = connection.thread.buffers.input.borrow_mut();
            let Ok(read) = ready!(connection.stream().poll_read(cx, &mut input)) else {
                return Poll::Ready(Err(Trouble::Gone));
            };
            if read == 0 {
                return Poll::Ready(Err(Trouble::Gone));
            }
            connection.thread.stats.add(Counter::BytesReceived, read as u64);
            let taken = self.take(&input[..read]).map_err(|status| self.refuse(connection, status));
            Poll::Ready(taken.map(|taken| rest.extend_from_slice(&input[taken..read])))
        })
        .await;
        connection.thread.clock.read();
        taken
    }

    /// A client that keeps just ahead of the pause limit still holds a connection and disk: a mean rate is asked of it
    /// as soon as the first pause could have been over.
    fn is_too_slow(&self, http: &Http, begun: Instant, now: Instant) -> bool {
        let elapsed = now.duration_since(begun);
        !self.is_done()
            && elapsed > http.body_timeout
            && self.content.length() < (http.body_min_rate as f64 * elapsed.as_secs_f64()) as u64
    }

    fn refuse(&mut self, connection: &Connection, status: u16) -> Trouble {
        match self.failure.take() {
            Some(error) => self.cannot_spool(connection, &error),
            None => refusal(status),
        }
    }

    fn cannot_spool(&self, connection: &Connection, error: &io::Error) -> Trouble {
        connection.thread.process.log.error(format_args!(
            "cannot spool a request's content in {}: {error}. Free some space there, or set server.spool_dir",
            self.plan.server.spool_dir.display()
        ));
        refusal(503)
    }
}
