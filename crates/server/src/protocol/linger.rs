//! Ends a connection whose client may still be sending. If the socket was closed at once, the kernel would respond to
//! further bytes with a reset, which can destroy the response before the client has read it (RFC 9112 section 9.6).

use std::future::poll_fn;
use std::net::Shutdown;
use std::task::ready;

use crate::connection::ClientStream;
use crate::protocol::ProtocolThread;

/// Maximum number of dropped bytes: a browser reads no response before it has sent its upload, and would otherwise
/// see only a reset.
const MOST_BYTES: usize = 256 << 20;

/// Shuts down writing, and reads until the client closes or a deadline shuts the socket down. `stream` lends the
/// socket for a call.
pub(super) async fn close(thread: &ProtocolThread, stream: impl Fn(&mut dyn FnMut(&mut ClientStream))) {
    let mut is_open = false;
    stream(&mut |stream| {
        stream.say_end();
        is_open = stream.shut(Shutdown::Write);
    });
    let mut thrown_away = 0;
    while is_open && thrown_away < MOST_BYTES {
        let read = poll_fn(|cx| {
            let mut input = thread.buffers.input.borrow_mut();
            let mut read = std::task::Poll::Pending;
            stream(&mut |stream| read = stream.poll_read(cx, &mut input));
            std::task::Poll::Ready(ready!(read).unwrap_or(0))
        });
        match read.await {
            0 => break,
            n => thrown_away += n,
        }
    }
}
