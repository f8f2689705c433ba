//! Ends a connection whose client may still be sending. Closing the socket right away would make the kernel answer
//! the rest with a reset, which can destroy the answer before the client has read it (RFC 9112 section 9.6).

use std::future::poll_fn;
use std::net::Shutdown;
use std::task::ready;

use crate::connection::ClientStream;
use crate::protocol::ProtocolThread;

/// Bytes that are thrown away at most: a browser reads no answer before it has sent its upload, and then a reset would be all
/// that it sees.
const MOST_BYTES: usize = 256 << 20;

/// Says that nothing more will be sent, and reads until the client agrees or the socket is shut down by somebody who has no
/// more patience. `stream` lends the socket for a call.
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
