//! What a connection does at the moment, for counters and patience.

use crate::context::stats::Counter;

/// What a connection does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// Waits for the first byte of a request.
    Idle,
    /// Has a part of a head.
    Head,
    /// Waits for content.
    Content,
    /// The request is being answered.
    Running,
    /// The client takes the answer slower than it is made.
    Writing,
    /// All is said; what the client still sends is thrown away.
    Lingering,
}

impl ConnectionPhase {
    /// The counter of the connections that are in it.
    pub(super) fn gauge(self) -> Counter {
        match self {
            ConnectionPhase::Idle => Counter::ConnectionsIdle,
            ConnectionPhase::Head | ConnectionPhase::Content => Counter::ConnectionsReading,
            ConnectionPhase::Running => Counter::ConnectionsRunning,
            ConnectionPhase::Writing | ConnectionPhase::Lingering => Counter::ConnectionsWriting,
        }
    }
}
