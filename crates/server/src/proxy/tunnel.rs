//! A connection to an application that has switched protocols.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::application::InProgress;
use super::connect::{AppConnection, ProxyThread};
use millrace_base::context::stats::Counter;
use millrace_base::message::reply::Tunnel;

/// The application's end. Counted while it exists.
#[derive(Debug)]
pub struct AppTunnel {
    thread: Rc<ProxyThread>,
    connection: AppConnection,
    /// What arrived behind the header section.
    first: Vec<u8>,
    patience: Duration,
    _progress: InProgress,
}

impl AppTunnel {
    /// A connection on which `first` has arrived.
    pub fn new(
        thread: &Rc<ProxyThread>,
        connection: AppConnection,
        first: Vec<u8>,
        patience: Duration,
        progress: InProgress,
    ) -> AppTunnel {
        thread.context.stats.add(Counter::ProxyTunnels, 1);
        thread.context.stats.add(Counter::ProxySwitched, 1);
        AppTunnel { thread: thread.clone(), connection, first, patience, _progress: progress }
    }
}

impl Drop for AppTunnel {
    fn drop(&mut self) {
        self.thread.context.stats.sub(Counter::ProxyTunnels, 1);
    }
}

impl Tunnel for AppTunnel {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.first.is_empty() {
            return self.connection.stream.poll_read(cx, buffer);
        }
        let length = self.first.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.first[..length]);
        self.first.drain(..length);
        Poll::Ready(Ok(length))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.connection.stream.poll_write(cx, bytes)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.stream.poll_flush(cx)
    }

    fn end(&mut self) {
        self.connection.stream.end();
    }

    fn patience(&self) -> Duration {
        self.patience
    }
}
