//! Collects a request's whole content before PHP runs: a slow client occupies a connection, but no worker. The
//! protocol supplies the bytes.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use millrace_settings::Plan;
use millrace_wire::head::Framing;
use tokio::time::Sleep;

use crate::serve::{ExchangeTrouble, ServeThread, refusal};
use millrace_base::context::stats::Counter;
use millrace_base::message::request::{Collector, Listed, Request};

/// Maximum content in memory while the memory for connections is used up, bytes.
const SHORT_MEMORY: usize = 64 << 10;

/// Content that is passed on while it arrives: counts it, and limits its pauses.
#[derive(Debug)]
pub(super) struct StreamLimits {
    /// Its length, if the client has announced it.
    pub(super) length: Option<u64>,
    most: u64,
    taken: u64,
    patience: Duration,
    /// `None`: no pause has begun.
    pause: Option<Pin<Box<Sleep>>>,
}

impl StreamLimits {
    /// At most `most` bytes of content for `request`.
    ///
    /// # Errors
    /// The announced length is larger.
    pub(super) fn begin(
        thread: &Rc<ServeThread>,
        plan: &Plan,
        most: u64,
        request: &Request,
    ) -> Result<StreamLimits, ExchangeTrouble> {
        Intake::begin(thread, plan, most, request)?;
        let length = match request.head.framing() {
            Framing::Length(length) => Some(length),
            _ => None,
        };
        Ok(StreamLimits { length, most, taken: 0, patience: plan.http.body_timeout, pause: None })
    }

    /// A piece of so many bytes has arrived.
    ///
    /// # Errors
    /// The status for the client: the content is too large.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), u16> {
        self.taken += bytes as u64;
        self.pause = None;
        if self.taken > self.most { Err(413) } else { Ok(()) }
    }

    /// Nothing has arrived: ready with the status for the client when that has lasted too long.
    pub(super) fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<u16> {
        let patience = self.patience;
        let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        pause.as_mut().poll(cx).map(|()| 408)
    }
}

/// Content that is arriving.
pub(super) struct Intake<'a> {
    thread: Rc<ServeThread>,
    plan: &'a Plan,
    most: u64,
    content: Collector,
    /// Shown in the status, once part of it is on disk.
    listed: Option<Listed>,
    begun: Instant,
}

impl<'a> Intake<'a> {
    /// Accepts at most `most` bytes of content for `request`.
    ///
    /// # Errors
    /// The announced length is larger.
    pub(super) fn begin(
        thread: &Rc<ServeThread>,
        plan: &'a Plan,
        most: u64,
        request: &Request,
    ) -> Result<Intake<'a>, ExchangeTrouble> {
        let begun = thread.context.clock.now();
        let content = Collector::default();
        let intake = Intake { thread: thread.clone(), plan, most, content, listed: None, begun };
        match request.head.framing() {
            Framing::Length(length) if length > most => Err(intake.too_large(request, Some(length))),
            _ => Ok(intake),
        }
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// The status for the client: the content is too large.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), u16> {
        if self.content.length() + piece.len() as u64 > self.most {
            return Err(413);
        }
        self.content.push(piece);
        Ok(())
    }

    /// Moves the content to disk if it exceeds `in_memory` bytes. Only this client waits.
    pub(super) async fn make_room(
        &mut self,
        request: &Request,
        in_memory: usize,
    ) -> Result<(), ExchangeTrouble> {
        let process = &self.thread.context.process;
        let in_memory = if process.budget.is_full() { in_memory.min(SHORT_MEMORY) } else { in_memory };
        if !self.content.is_full(in_memory) {
            return Ok(());
        }
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
                self.thread.context.stats.add(Counter::Uploads, 1);
                self.listed = Some(self.thread.service.uploads.list(request, total, self.begun, received));
            }
        }
        Ok(())
    }

    /// Its memory, bytes.
    pub(super) fn in_memory(&self) -> usize {
        self.content.in_memory()
    }

    /// A client that always stays just within the timeout between pieces still occupies a connection and disk: so a
    /// minimum mean rate applies, as soon as the first timeout could have passed.
    pub(super) fn is_too_slow(&self) -> bool {
        let http = &self.plan.http;
        let elapsed = self.thread.context.clock.now().duration_since(self.begun);
        elapsed > http.body_timeout
            && self.content.length() < (http.body_min_rate as f64 * elapsed.as_secs_f64()) as u64
    }

    /// All of it has arrived.
    pub(super) async fn finish(mut self, request: &mut Request) -> Result<(), ExchangeTrouble> {
        let content = std::mem::take(&mut self.content).finish(&self.plan.server.spool_dir).await;
        request.content = content.map_err(|error| self.cannot_spool(&error))?;
        request.content_is_read = true;
        Ok(())
    }

    /// The response to a client whose content is refused with `status`.
    pub(super) fn refuse(&self, request: &Request, status: u16) -> ExchangeTrouble {
        if status == 413 { self.too_large(request, None) } else { refusal(status) }
    }

    /// More than the site accepts: the log tells the administrator which limit applies.
    fn too_large(&self, request: &Request, length: Option<u64>) -> ExchangeTrouble {
        let path = request.raw_path();
        let length = length.map_or("more".to_owned(), |length| format!("{length} bytes"));
        self.thread.context.process.log.warn(format_args!(
            "rejected {} {} with {length} of content, the limit is {} bytes: raise body_bytes in the site, or \
             http.body_bytes",
            request.head.method(),
            String::from_utf8_lossy(&path[..path.len().min(200)]),
            self.most
        ));
        refusal(413)
    }

    fn cannot_spool(&self, error: &io::Error) -> ExchangeTrouble {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        self.thread.context.process.log.error(format_args!(
            "cannot spool a request's content in {}: {error}; free some space there, or set server.spool_dir",
            self.plan.server.spool_dir.display()
        ));
        // RFC 4918 section 11.5: no room for the client's content.
        let is_full = matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge);
        refusal(if is_full { 507 } else { 503 })
    }
}
