//! The phase of a connection, for counters and time limits.

use millrace_base::context::stats::Counter;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// Waits for the first byte of a request.
    Idle,
    /// Has an incomplete head.
    Head,
    /// Waits for content.
    Content,
    /// The response is being made.
    Running,
    /// The client reads the response more slowly than it is made.
    Writing,
    /// All was sent; further input is dropped.
    Lingering,
}

impl ConnectionPhase {
    /// The counter of connections in this phase.
    pub(super) fn gauge(self) -> Counter {
        match self {
            ConnectionPhase::Idle => Counter::ConnectionsIdle,
            ConnectionPhase::Head | ConnectionPhase::Content => Counter::ConnectionsReading,
            ConnectionPhase::Running => Counter::ConnectionsRunning,
            ConnectionPhase::Writing | ConnectionPhase::Lingering => Counter::ConnectionsWriting,
        }
    }
}
