//! A connection that has switched protocols (RFC 9110 section 7.8, RFC 8441): bytes pass in both directions.

use std::fmt;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

/// The other end of a client's connection. Dropping it ends that connection.
pub trait Tunnel: fmt::Debug {
    /// Reads once; 0: nothing follows.
    ///
    /// # Errors
    /// The connection broke.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes once.
    ///
    /// # Errors
    /// The connection broke.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Sends what is buffered.
    ///
    /// # Errors
    /// The connection broke.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Says that nothing follows. The other direction is still open.
    fn end(&mut self);

    /// How long neither side may send anything.
    fn patience(&self) -> Duration;
}
