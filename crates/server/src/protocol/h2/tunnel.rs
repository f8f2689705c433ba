//! A stream that has switched protocols (RFC 8441): what the client sends goes to the application, in a task of its own;
//! what the application sends is the content of the response.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use h2::RecvStream;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use crate::protocol::ProtocolThread;
use millrace_base::message::reply::{Aside, Body, ContentSource, Tunnel};

/// Bytes read at once.
const PIECE: usize = 16 << 10;

/// Joins both ends; returns the content of the response.
pub(super) fn join(thread: &Rc<ProtocolThread>, tunnel: Box<dyn Tunnel>, content: RecvStream) -> Body {
    let patience = tunnel.patience();
    let shared = Rc::new(SharedTunnel { tunnel: RefCell::new(tunnel), has_moved: Cell::new(false) });
    let up = tokio::task::spawn_local(lead_up(shared.clone(), content));
    let limit = Box::pin(tokio::time::sleep(patience));
    Body::Stream(Box::new(TunnelSource { thread: thread.clone(), shared, up, limit }))
}

#[derive(Debug)]
struct SharedTunnel {
    tunnel: RefCell<Box<dyn Tunnel>>,
    /// Bytes have moved since the time limit was set.
    has_moved: Cell<bool>,
}

/// From the client to the application. The client may send more only when the application has taken what came before.
async fn lead_up(shared: Rc<SharedTunnel>, mut content: RecvStream) {
    while let Some(Ok(piece)) = poll_fn(|cx| content.poll_data(cx)).await {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let written = poll_fn(|cx| shared.tunnel.borrow_mut().poll_write(cx, rest)).await;
            let Ok(written @ 1..) = written else { return };
            rest = &rest[written..];
            shared.has_moved.set(true);
        }
        if poll_fn(|cx| shared.tunnel.borrow_mut().poll_flush(cx)).await.is_err() {
            return;
        }
        let _ = content.flow_control().release_capacity(piece.len());
    }
    shared.tunnel.borrow_mut().end();
    // The library may have buffered what says so; the other direction shows whether the connection has ended.
    let _ = poll_fn(|cx| shared.tunnel.borrow_mut().poll_flush(cx)).await;
}

/// From the application to the client.
struct TunnelSource {
    thread: Rc<ProtocolThread>,
    shared: Rc<SharedTunnel>,
    up: JoinHandle<()>,
    limit: Pin<Box<Sleep>>,
}

impl std::fmt::Debug for TunnelSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TunnelSource")
    }
}

impl Drop for TunnelSource {
    fn drop(&mut self) {
        self.up.abort();
    }
}

impl ContentSource for TunnelSource {
    fn length(&self) -> Option<u64> {
        None
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        let read = {
            let mut input = self.thread.buffers.input.borrow_mut();
            let most = input.len().min(PIECE);
            self.shared.tunnel.borrow_mut().poll_read(cx, &mut input[..most]).map_ok(|read| {
                buffer.extend_from_slice(&input[..read]);
                read
            })
        };
        if let Poll::Ready(read) = read {
            self.shared.has_moved.set(true);
            return Poll::Ready(read.map(|read| read > 0));
        }
        loop {
            if self.shared.has_moved.replace(false) {
                let patience = self.shared.tunnel.borrow().patience();
                self.limit.as_mut().set(tokio::time::sleep(patience));
            }
            ready!(self.limit.as_mut().poll(cx));
            if !self.shared.has_moved.get() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
    }

    fn take_aside(&mut self) -> Option<Box<Aside>> {
        None
    }
}
