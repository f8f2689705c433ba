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
use crate::request::{Collector, Listed, Request};
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
    let coding = match request.head.framing() {
        Framing::None | Framing::Length(0) => return Ok(()),
        Framing::Length(length) => Coding::Length(length),
        Framing::Chunked => Coding::Chunked(Box::default()),
    };
    let mut reader = Reader { connection, plan, most, coding, content: Collector::default(), listed: None };
    if let Coding::Length(length) = reader.coding
        && length > most
    {
        return Err(reader.too_large(request, Some(length)));
    }
    let taken = reader.take(rest).map_err(|status| reader.refuse(request, status))?;
    rest.drain(..taken);
    if !reader.is_done() && request.head.expects_continue() && rest.is_empty() {
        let go_on = b"HTTP/1.1 100 Continue\r\n\r\n";
        write_all(connection, &mut [io::IoSlice::new(go_on)]).await.map_err(|_| Trouble::Gone)?;
    }
    let begun = connection.thread.clock.now();
    connection.enter(Phase::Content);
    loop {
        if reader.content.is_full(plan.http.body_memory) {
            reader.spill(request, begun).await?;
        }
        if reader.is_done() {
            break;
        }
        reader.read_some(request, rest).await?;
        connection.progress();
        if reader.is_too_slow(&plan.http, begun, connection.thread.clock.now()) {
            connection.expire();
            return Err(Trouble::Gone);
        }
    }
    let content = std::mem::take(&mut reader.content).finish(&plan.server.spool_dir).await;
    request.content = content.map_err(|error| reader.cannot_spool(&error))?;
    request.content_is_read = true;
    Ok(())
}

enum Coding {
    /// This many bytes are still to come.
    Length(u64),
    Chunked(Box<Decoder>),
}

struct Reader<'a> {
    connection: &'a Connection,
    plan: &'a Plan,
    most: u64,
    coding: Coding,
    content: Collector,
    /// For people to see, once some of it is on disk.
    listed: Option<Listed>,
}

impl Reader<'_> {
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
            self.content.push(content);
        }
        Ok(taken)
    }

    /// Reads once from the socket; what follows the content goes to `rest`.
    async fn read_some(&mut self, request: &Request, rest: &mut Vec<u8>) -> Result<(), Trouble> {
        let connection = self.connection;
        let taken = poll_fn(|cx| {
            let mut input = connection.thread.buffers.input.borrow_mut();
            let Ok(read) = ready!(connection.stream().poll_read(cx, &mut input)) else {
                return Poll::Ready(Err(Trouble::Gone));
            };
            if read == 0 {
                return Poll::Ready(Err(Trouble::Gone));
            }
            connection.thread.stats.add(Counter::BytesReceived, read as u64);
            let taken = self.take(&input[..read]).map_err(|status| self.refuse(request, status));
            Poll::Ready(taken.map(|taken| rest.extend_from_slice(&input[taken..read])))
        })
        .await;
        connection.thread.clock.read();
        taken
    }

    /// Moves what has come to disk. The client waits meanwhile, nobody else does.
    async fn spill(&mut self, request: &Request, begun: Instant) -> Result<(), Trouble> {
        let process = &self.connection.thread.process;
        let spilt = self.content.spill(&self.plan.server.spool_dir).await;
        spilt.map_err(|error| self.cannot_spool(&error))?;
        let received = self.content.length();
        match &self.listed {
            Some(listed) => listed.set_received(received),
            None => {
                let total = match request.head.framing() {
                    Framing::Length(length) => Some(length),
                    _ => None,
                };
                self.connection.thread.stats.add(Counter::Uploads, 1);
                self.listed = Some(process.uploads.list(request, total, begun, received));
            }
        }
        Ok(())
    }

    /// A client that keeps just ahead of the pause limit still holds a connection and disk: a mean rate is asked of it
    /// as soon as the first pause could have been over.
    fn is_too_slow(&self, http: &Http, begun: Instant, now: Instant) -> bool {
        let elapsed = now.duration_since(begun);
        !self.is_done()
            && elapsed > http.body_timeout
            && self.content.length() < (http.body_min_rate as f64 * elapsed.as_secs_f64()) as u64
    }

    fn refuse(&self, request: &Request, status: u16) -> Trouble {
        if status == 413 { self.too_large(request, None) } else { refusal(status) }
    }

    /// More than the site takes: whoever runs it has to learn where the limit is.
    fn too_large(&self, request: &Request, length: Option<u64>) -> Trouble {
        let path = request.raw_path();
        let length = length.map_or("more".to_owned(), |length| format!("{length} bytes"));
        self.connection.thread.process.log.warn(format_args!(
            "{} {} with {length} of content was refused, {} bytes are allowed: raise body_bytes in the site, or \
             http.body_bytes",
            request.head.method(),
            String::from_utf8_lossy(&path[..path.len().min(200)]),
            self.most
        ));
        refusal(413)
    }

    fn cannot_spool(&self, error: &io::Error) -> Trouble {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        self.connection.thread.process.log.error(format_args!(
            "cannot spool a request's content in {}: {error}. Free some space there, or set server.spool_dir",
            self.plan.server.spool_dir.display()
        ));
        // RFC 4918 section 11.5: there is no room for what the client has sent.
        let is_full = matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge);
        refusal(if is_full { 507 } else { 503 })
    }
}
