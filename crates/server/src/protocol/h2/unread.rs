//! The end of a request that is answered before its content has come.
//!
//! The server may end the stream right behind the answer (RFC 9113 section 8.1): `RST_STREAM` with `NO_ERROR`. Clients that read both
//! at once forget the answer for that: curl 7.88 reports a stream error instead of the status. So the stream stays open for a
//! moment. The library passes over what comes of the content, and gives the client no more room for it; the client reads the
//! answer and stops by itself, or is stopped then.

use std::rc::Weak;
use std::time::Duration;

use h2::SendStream;

use super::connection::Connection;
use super::content::Piece;

/// How long a client is given to see the answer before the reset.
const PAUSE: Duration = Duration::from_secs(1);

/// So many pauses at most, if the client does not take the answer.
const MOST_PAUSES: u32 = 10;

/// Streams of a connection that wait for that at once; the next ones are reset without a pause.
pub(super) const MOST_WAITING: usize = 16;

/// The answer has been given away. `unread`: the connection, if the request's content has not ended: the stream is reset when the
/// client has had time to read the answer.
pub(super) fn end(stream: SendStream<Piece>, unread: Option<Weak<Connection>>) {
    let Some(connection) = unread else { return };
    // Where there is no room for a connection it shall end soon.
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
