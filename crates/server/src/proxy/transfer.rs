//! A request and its response, by either version of HTTP.

use std::rc::Rc;
use std::task::{Context, Poll};

use super::connect::{KnownApplication, ProxyThread};
use super::exchange::{AppExchange, ExchangeError};
use super::h2::StreamExchange;
use super::upload::keep_buffer;
use millrace_base::message::reply::Fields;

/// A response that has begun.
#[derive(Debug)]
pub enum AppTransfer {
    /// On a connection of its own.
    Http1(Box<AppExchange>),
    /// On a stream.
    Http2(Box<StreamExchange>),
}

impl AppTransfer {
    /// Whether the response is complete.
    pub fn is_over(&self) -> bool {
        match self {
            AppTransfer::Http1(exchange) => exchange.is_over,
            AppTransfer::Http2(exchange) => exchange.is_over,
        }
    }

    /// Reads content that has arrived, and appends it to `out`; the response may be over then.
    ///
    /// # Errors
    /// [`ExchangeError`]
    pub fn poll_content(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), ExchangeError>> {
        match self {
            AppTransfer::Http1(exchange) => exchange.poll_content(cx, out),
            AppTransfer::Http2(exchange) => exchange.poll_content(cx, out),
        }
    }

    /// Whether trailers may follow content of which `left` bytes are to come, if that is known: with HTTP/1.1 it was
    /// announced instead of chunks.
    pub fn may_have_trailers(&self, left: Option<u64>) -> bool {
        match self {
            AppTransfer::Http1(_) => left.is_none(),
            AppTransfer::Http2(_) => true,
        }
    }

    /// Whether the response, which is over, has trailers for the client.
    pub fn has_trailers(&self) -> bool {
        match self {
            AppTransfer::Http1(exchange) => exchange.has_trailers(),
            AppTransfer::Http2(exchange) => exchange.has_trailers(),
        }
    }

    /// The trailers for the client, once the response is over.
    pub fn take_trailers(&mut self) -> Fields {
        match self {
            AppTransfer::Http1(exchange) => exchange.take_trailers(),
            AppTransfer::Http2(exchange) => exchange.take_trailers(),
        }
    }

    /// The response has failed.
    pub fn mind(&self, error: &ExchangeError) {
        if let AppTransfer::Http2(exchange) = self {
            exchange.mind_silence(error);
        }
    }

    /// The response is complete: its connection may take another request, and up to `keepalive` idle ones are kept.
    pub fn settle(self, thread: &Rc<ProxyThread>, application: &KnownApplication, keepalive: usize) {
        // A stream has given its place back already, or does so now.
        if let AppTransfer::Http1(exchange) = self
            && exchange.can_go_on()
        {
            let AppExchange { connection, upload, .. } = *exchange;
            thread.keep(application, keepalive, connection);
            drop(keep_buffer(upload));
        }
    }
}
