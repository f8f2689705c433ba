//! HTTP/2 to an application (RFC 9113): the `h2` crate implements frames, field compression and stream states, as for
//! clients; this module the rest.
//!
//! ```text
//!   run ── pool: room on a link? ──yes──> seat ──> exchange: head, content in, response out
//!             │ no                         ▲                │ streams of the library
//!             └── one request opens a link, the others wait ┘                ▼
//!                                     link: a task drives the library <── line <── socket
//! ```
//!
//! - [`link`]: a connection, which requests share; [`line`]: its bytes;
//! - [`pool`]: the connections of an event loop to an application;
//! - [`exchange`]: one request on one stream; [`head`]: converts its header sections.
//!
//! Flow control bounds the memory: a stream may bring [`link::STREAM_BYTES`] that its client has not taken, and the
//! connection has room for so much of each stream, so that a slow client never holds back another one's response.

mod exchange;
mod head;
mod line;
mod link;
mod pool;
#[cfg(test)]
mod tests;

pub use exchange::StreamExchange;
pub use head::{plain, request};
pub use link::AppLink;
pub use pool::{LinkPool, StreamSeat};
