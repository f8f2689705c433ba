//! Ends a connection whose client may still be sending. Closing the socket right away would make the kernel answer
//! the rest with a reset, which can destroy the answer before the client has read it (RFC 9112 section 9.6).

use std::future::poll_fn;
use std::task::ready;

use super::Connection;
use super::connection::Phase;

/// Bytes that are thrown away at most: a browser reads no answer before it has sent its upload, and then a reset would be all
/// that it sees.
const MOST_BYTES: usize = 256 << 20;

/// Says that nothing more will be sent, and reads until the client agrees or has had its time.
pub(super) async fn close(connection: &Connection) {
    connection.stream().say_end();
    let shut = socket2::SockRef::from(&*connection.stream()).shutdown(std::net::Shutdown::Write);
    if shut.is_err() {
        return;
    }
    connection.enter(Phase::Lingering);
    let mut thrown_away = 0;
    while thrown_away < MOST_BYTES {
        let read = poll_fn(|cx| {
            let mut input = connection.thread.buffers.input.borrow_mut();
            std::task::Poll::Ready(ready!(connection.stream().poll_read(cx, &mut input)).unwrap_or(0))
        });
        match read.await {
            0 => break,
            n => thrown_away += n,
        }
    }
}
