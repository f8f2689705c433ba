//! HTTP/2 (RFC 9113): frames, compression of fields and states of requests are the `h2` crate's, the rest is here.
//!
//! One task drives a connection. In a turn it has the library read what has come, answers on the spot what can be - files and
//! pages that are ready - gives the library content of the most urgent answers, as far as the client has room for it, and has
//! all of that leave together. A request that has to wait has a task of its own until its answer is there.
//!
//! ```text
//!   socket -> line -> library -> request -> answer ready? --yes--> head to the library, content to the outbox
//!               ^        ^                        \--no--> exchange: content in, PHP ... --> the same
//!               |        |                                                                     |
//!             batch <- frames <------------- outbox: who writes next <-------------------------+
//! ```
//!
//! - [`connection`]: what all of them know of each other; [`line`]: its bytes; [`watch`]: floods, and what the library does not
//!   tell; [`flooders`]: who has sent them; [`driver`]: the turns;
//! - [`request`], [`head`], [`content`]: from the library's values to ours and back; [`exchange`]: requests that wait;
//! - [`outbox`], [`priority`]: who writes next; [`unread`]: the end of requests that are answered before their content has come.
//!
//! The library's own limits are set in [`driver`].

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
mod unread;
mod watch;

pub use connection::Connection;
pub use driver::serve;
pub use flooders::Flooders;

/// Whether `start`, the first bytes of a connection, are those of HTTP/2; `None`: too few of them are there.
pub(super) fn is_preface(start: &[u8]) -> Option<bool> {
    // No method is called PRI (RFC 9113 section 3.4).
    let known = &watch::PREFACE[..4];
    let shared = start.len().min(known.len());
    match start[..shared] == known[..shared] {
        true if shared < known.len() => None,
        is_preface => Some(is_preface),
    }
}
