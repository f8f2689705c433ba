//! A long response, read as fast as its client takes it.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::application::InProgress;
use super::connect::{KnownApplication, ProxyThread};
use super::exchange::{ExchangeError, PauseLimit};
use super::transfer::AppTransfer;
use millrace_base::context::stats::Counter;
use millrace_base::message::reply::{Aside, ContentSource, Fields};

/// The rest of a response. Dropping it before its end closes the connection: the application notices.
#[derive(Debug)]
pub struct AppContent {
    thread: Rc<ProxyThread>,
    application: Rc<KnownApplication>,
    /// `None`: it has ended.
    exchange: Option<AppTransfer>,
    /// Content that has arrived and was not taken.
    first: Vec<u8>,
    /// Remaining bytes, if the application announced them.
    left: Option<u64>,
    /// What follows the content, once it has ended.
    trailers: Fields,
    pause: PauseLimit,
    terms: ContentTerms,
    _progress: InProgress,
}

/// What the proxy's settings say about content.
#[derive(Clone, Copy, Debug)]
pub struct ContentTerms {
    /// Maximum pause between two pieces.
    pub pause: Duration,
    /// Maximum idle connections to keep.
    pub keepalive: usize,
}

impl AppContent {
    /// The content of a response that has begun with `first`, and may be over; `length`: of all of it.
    pub fn new(
        thread: &Rc<ProxyThread>,
        application: Rc<KnownApplication>,
        exchange: AppTransfer,
        first: Vec<u8>,
        length: Option<u64>,
        (terms, progress): (ContentTerms, InProgress),
    ) -> AppContent {
        let mut content = AppContent {
            thread: thread.clone(),
            application,
            exchange: Some(exchange),
            first,
            left: length,
            trailers: Fields::default(),
            pause: PauseLimit::default(),
            terms,
            _progress: progress,
        };
        content.settle();
        content
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<Result<(), ExchangeError>> {
        let Some(exchange) = &mut self.exchange else { return Poll::Ready(Ok(())) };
        let before = buffer.len();
        loop {
            match exchange.poll_content(cx, buffer) {
                Poll::Ready(Ok(())) => {
                    self.pause.restart();
                    if exchange.is_over() || buffer.len() > before {
                        return Poll::Ready(Ok(()));
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    std::task::ready!(self.pause.poll(cx, self.terms.pause));
                    return Poll::Ready(Err(ExchangeError::Late("proxy.read_timeout")));
                }
            }
        }
    }

    /// Gives the connection back once the response is complete.
    fn settle(&mut self) {
        let Some(mut exchange) = self.exchange.take_if(|exchange| exchange.is_over()) else { return };
        self.trailers = exchange.take_trailers();
        exchange.settle(&self.thread, &self.application, self.terms.keepalive);
    }

    /// The response will not be complete: the client notices when its own ends.
    fn fail(&mut self, error: &ExchangeError) -> io::Error {
        if let Some(exchange) = self.exchange.take() {
            exchange.mind(error);
        }
        if let ExchangeError::Client(_) = error {
            return io::Error::other("the client has broken off its request");
        }
        self.thread.context.clock.read();
        let (thread, application) = (&self.thread, &self.application.shared);
        thread.context.stats.add(Counter::ProxyFailures, 1);
        let why = format!("a response broke off: {error}");
        thread.context.process.log.error(format_args!("the application at {}: {why}", application.url));
        application.fails(
            &thread.context.process.log,
            false,
            thread.shared.at(thread.context.clock.now()),
            &why,
        );
        io::Error::other(why)
    }
}

impl ContentSource for AppContent {
    fn length(&self) -> Option<u64> {
        self.left
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        let before = buffer.len();
        if !self.first.is_empty() {
            buffer.append(&mut self.first);
        } else if let Err(error) = std::task::ready!(self.poll_piece(cx, buffer)) {
            return Poll::Ready(Err(self.fail(&error)));
        }
        self.settle();
        let piece = (buffer.len() - before) as u64;
        self.left = self.left.map(|left| left.saturating_sub(piece));
        Poll::Ready(Ok(piece > 0))
    }

    fn there(&self) -> usize {
        self.first.len()
    }

    fn minds_its_client(&self) -> bool {
        true
    }

    fn may_have_trailers(&self) -> bool {
        let may_come = |exchange: &AppTransfer| exchange.may_have_trailers(self.left);
        !self.trailers.is_empty() || self.exchange.as_ref().is_some_and(may_come)
    }

    fn take_trailers(&mut self) -> Fields {
        std::mem::take(&mut self.trailers)
    }

    fn take_aside(&mut self) -> Option<Box<Aside>> {
        None
    }
}
