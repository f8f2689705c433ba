//! The end of a request that gets its response before its content has arrived.
//!
//! The server may end the stream directly after the response (RFC 9113 section 8.1): `RST_STREAM` with `NO_ERROR`.
//! Clients that read both at once then drop the response: curl 7.88 reports a stream error instead of the status. So
//! the stream stays open for a moment. The library skips arriving content and gives the client no more room for it;
//! the client reads the response and stops by itself, or is stopped then.

use std::rc::Weak;
use std::time::Duration;

use h2::SendStream;

use super::connection::Connection;
use super::content::Piece;

/// How long a client may take to read the response before the reset.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of pauses, if the client does not take the response.
const MOST_PAUSES: u32 = 10;

/// Maximum number of a connection's streams that wait for this; further ones are reset at once.
pub(super) const MOST_WAITING: usize = 16;

/// The response was passed to the library. `unread`: the connection, if the request's content has not ended: the
/// stream is reset when the client has had time to read the response.
pub(super) fn end(stream: SendStream<Piece>, unread: Option<Weak<Connection>>) {
    let Some(connection) = unread else { return };
    // A shed connection must end soon.
    if !connection.upgrade().is_some_and(|connection| !connection.is_shed() && connection.begin_reset()) {
        return;
    }
    tokio::task::spawn_local(async move {
        for _ in 0..MOST_PAUSES {
            tokio::time::sleep(PAUSE).await;
            if connection.upgrade().is_none_or(|connection| connection.line().is_empty()) {
                break;
            }
        }
        // The library sends `NO_ERROR` if the content has not ended.
        drop(stream);
        if let Some(connection) = connection.upgrade() {
            connection.end_reset();
        }
    });
}
