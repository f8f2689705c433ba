//! Content that is still being made while it is sent.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use millrace_wire::encoding::Coding;

use super::Fields;

/// Makes content piece by piece. Dropping it before its end tells the maker that its client has gone.
pub trait ContentSource: fmt::Debug {
    /// Remaining bytes, if known.
    fn length(&self) -> Option<u64>;

    /// Appends the next piece to `buffer`; `false` at the end.
    ///
    /// # Errors
    /// The content can't be finished: its maker died, or made less than it had announced.
    fn poll_next(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<bool>>;

    /// Bytes that are available and not taken yet, as far as known.
    fn there(&self) -> usize {
        0
    }

    /// Whether its maker must know soon that the client has gone: an application that sends events would go on for ever.
    fn minds_its_client(&self) -> bool {
        false
    }

    /// Codes all of the content, none of which has been taken. Its maker does this instead of its reader: a client
    /// may be slow, and an encoder takes memory. False if it stays uncoded.
    fn code(&mut self, coding: Coding) -> bool {
        let _ = coding;
        false
    }

    /// Whether trailers may follow the content, as far as known: without them, a response of known length ends with its
    /// last byte.
    fn may_have_trailers(&self) -> bool {
        false
    }

    /// The trailers, without those that a client must not get; known after the end, and returned once.
    fn take_trailers(&mut self) -> Fields {
        Fields::default()
    }

    /// Reports beside the content; complete only after the end, and returned once.
    fn take_aside(&mut self) -> Option<Box<super::Aside>>;
}

impl dyn ContentSource + '_ {
    /// Appends the next piece to `buffer`; `false` at the end. Cancel-safe.
    ///
    /// # Errors
    /// As [`ContentSource::poll_next`].
    pub async fn next(&mut self, buffer: &mut Vec<u8>) -> io::Result<bool> {
        poll_fn(|cx| self.poll_next(cx, buffer)).await
    }
}
