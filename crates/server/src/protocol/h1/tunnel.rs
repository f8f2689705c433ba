//! A connection that has switched protocols: its bytes go to the application, and the application's to it. Each
//! direction has at most one piece in memory, and ends by itself.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::task::{Context, Poll, ready};

use super::{Connection, ConnectionPhase};
use millrace_base::context::budget::REQUEST_BYTES;
use millrace_base::context::stats::Counter;
use millrace_base::message::reply::Tunnel;

/// Bytes read at once.
const PIECE: usize = 16 << 10;

/// Joins both ends until both directions have ended, one end breaks, or nothing moves for too long; `begun` has arrived
/// from the client. Returns the number of bytes that the client got.
pub(super) async fn join(connection: &Connection, tunnel: Box<dyn Tunnel>, begun: Vec<u8>) -> u64 {
    let patience = tunnel.patience();
    let up = Direction { pending: begun, ..Direction::default() };
    let mut joint = Joint { connection, tunnel, up, down: Direction::default() };
    let mut limit = std::pin::pin!(tokio::time::sleep(patience));
    connection.enter(ConnectionPhase::Running);
    poll_fn(|cx| {
        let before = joint.moved();
        let ended = joint.poll(cx);
        connection.thread.context.clock.read();
        connection.works_with(REQUEST_BYTES as usize + joint.in_memory());
        if ended.is_ready() {
            return Poll::Ready(());
        }
        if joint.moved() != before {
            limit.as_mut().set(tokio::time::sleep(patience));
        }
        limit.as_mut().poll(cx)
    })
    .await;
    joint.down.moved
}

/// Bytes in one direction.
#[derive(Default)]
struct Direction {
    /// Bytes that have been read, and not written.
    pending: Vec<u8>,
    /// Nothing follows them; and the other end has been told.
    ended: bool,
    told: bool,
    /// Bytes that have been written.
    moved: u64,
}

struct Joint<'a> {
    connection: &'a Connection,
    tunnel: Box<dyn Tunnel>,
    up: Direction,
    down: Direction,
}

impl Joint<'_> {
    fn moved(&self) -> u64 {
        self.up.moved + self.down.moved
    }

    fn in_memory(&self) -> usize {
        self.up.pending.capacity() + self.down.pending.capacity()
    }

    /// Ready when both directions have ended, or an end has broken.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (up, down) = (self.poll_up(cx), self.poll_down(cx));
        match (up, down) {
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => Poll::Ready(()),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    /// From the client to the application.
    fn poll_up(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (connection, up) = (self.connection, &mut self.up);
        while !up.told {
            while !up.pending.is_empty() {
                let written = ready!(self.tunnel.poll_write(cx, &up.pending))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                up.wrote(written);
            }
            ready!(self.tunnel.poll_flush(cx))?;
            if up.ended {
                self.tunnel.end();
                up.told = true;
                // The library may have buffered what says so.
                return self.tunnel.poll_flush(cx);
            }
            let mut input = connection.thread.buffers.input.borrow_mut();
            let most = input.len().min(PIECE);
            let read = ready!(connection.stream().poll_read(cx, &mut input[..most]))?;
            connection.thread.context.stats.add(Counter::BytesReceived, read as u64);
            up.read(&input[..read]);
        }
        Poll::Ready(Ok(()))
    }

    /// From the application to the client.
    fn poll_down(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (connection, down) = (self.connection, &mut self.down);
        while !down.told {
            while !down.pending.is_empty() {
                let pieces = [IoSlice::new(&down.pending)];
                let written = ready!(connection.stream().poll_write(cx, &pieces))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                connection.thread.context.stats.add(Counter::BytesSent, written as u64);
                down.wrote(written);
            }
            ready!(connection.stream().poll_flush(cx))?;
            if down.ended {
                connection.stream().say_end();
                connection.stream().shut(Shutdown::Write);
                down.told = true;
                break;
            }
            let mut input = connection.thread.buffers.input.borrow_mut();
            let most = input.len().min(PIECE);
            let read = ready!(self.tunnel.poll_read(cx, &mut input[..most]))?;
            down.read(&input[..read]);
        }
        Poll::Ready(Ok(()))
    }
}

impl Direction {
    fn read(&mut self, bytes: &[u8]) {
        self.ended = bytes.is_empty();
        self.pending.extend_from_slice(bytes);
    }

    fn wrote(&mut self, count: usize) {
        self.moved += count as u64;
        self.pending.drain(..count);
        if self.pending.is_empty() {
            // An idle connection owns no buffer.
            self.pending = Vec::new();
        }
    }
}
