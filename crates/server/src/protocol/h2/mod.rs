//! HTTP/2 (RFC 9113): the `h2` crate implements frames, field compression and stream states, this module the rest.
//!
//! One task drives a connection. In a turn it makes the library read, responds at once where it can - with files and
//! pages that are ready -, passes content of the most urgent responses to the library, as far as the client has room
//! for it, and sends all of that together. A request that has to wait gets a task of its own until its response is
//! ready.
//!
//! ```text
//!   socket -> line -> library -> request -> answer ready? --yes--> head to the library, content to the outbox
//!               ^        ^                        \--no--> exchange: content in, PHP ... --> the same
//!               |        |                                                                     |
//!             batch <- frames <------------- outbox: what to send <----------------------------+
//! ```
//!
//! - [`connection`]: their shared state; [`line`]: its bytes; [`watch`]: floods, and what the library does not
//!   report; [`flooders`]: addresses that have flooded; [`driver`]: the turns;
//! - [`request`], [`head`], [`content`]: convert between the library's values and ours; [`exchange`]: requests that
//!   wait;
//! - [`outbox`], [`priority`]: which response is sent next; [`unread`]: the end of requests that get their response
//!   before their content has arrived.
//!
//! [`driver`] sets the library's own limits.

mod connection;
mod content;
mod driver;
mod exchange;
mod flooders;
mod head;
mod line;
mod outbox;
mod priority;
mod request;
#[cfg(test)]
mod tests;
mod tunnel;
mod unread;
mod watch;

pub use connection::Connection;
pub use driver::serve;
pub use flooders::Flooders;

/// Whether `start`, the first bytes of a connection, is HTTP/2; `None`: too few bytes.
pub(super) fn is_preface(start: &[u8]) -> Option<bool> {
    // No method is called PRI (RFC 9113 section 3.4).
    let known = &watch::PREFACE[..4];
    let shared = start.len().min(known.len());
    match start[..shared] == known[..shared] {
        true if shared < known.len() => None,
        is_preface => Some(is_preface),
    }
}
