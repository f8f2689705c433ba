//! What a client's connection is made of, whatever its protocol: its socket, its place among those that are allowed, its deadline,
//! and the way to another event loop.

mod deadlines;
mod limits;
#[cfg(test)]
mod memory;
mod newcomer;
mod passing;
mod stream;

use std::time::Duration;

pub use deadlines::{Deadline, Deadlines, Expire, HasDeadline, Need, Rest, SWEEP_MS};
pub use limits::{ConnectionLimits, ConnectionPermit, Most};
#[cfg(test)]
pub use memory::{MemoryClient, MemorySocket};
pub use newcomer::Newcomer;
pub use passing::{Exit, Passed, PassingEntry, Supply, passage};
pub use stream::ClientStream;

use crate::message::request::Ends;

/// How long a connection may take to say what it wants that is only to hear that there is no room, and before that for its handshake.
pub const SHED_TIME: Duration = Duration::from_secs(2);

/// A connection that has just come in.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket.
    pub stream: ClientStream,
    /// Who talks to whom.
    pub ends: Ends,
    /// Its place among the connections that are allowed.
    pub permit: ConnectionPermit,
}
