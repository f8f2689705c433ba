//! Content of a request that is passed on while it arrives.

use std::fmt;
use std::task::{Context, Poll};

/// Content that is still arriving. It is read only as fast as it is taken: its client waits meanwhile. Dropping it says
/// that no more is wanted.
pub trait ContentStream: fmt::Debug {
    /// Its length, if the client has announced it.
    fn length(&self) -> Option<u64>;

    /// Appends the next piece to `buffer`; `false` at the end.
    ///
    /// # Errors
    /// The status for the client: it is too slow, sends too much, breaks the rules of its protocol, or has gone.
    fn poll_piece(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<Result<bool, u16>>;
}
