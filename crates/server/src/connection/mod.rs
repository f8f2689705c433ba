//! The parts of a client's connection, whatever its protocol: its socket, its permit, its deadline, and the way to
//! another event loop.

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

use millrace_base::message::request::Ends;

/// Time limit for the request of a shed connection, and before that for its handshake.
pub const SHED_TIME: Duration = Duration::from_secs(2);

/// A newly accepted connection.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket.
    pub stream: ClientStream,
    /// The addresses of both ends.
    pub ends: Ends,
    /// Its permit.
    pub permit: ConnectionPermit,
}
