//! Where connections come in: listening sockets, one set a thread, and the limits on how many connections there are.

mod limits;
mod listener;
mod passing;
mod stream;

use std::io;
use std::rc::Rc;
use std::time::Duration;

pub use limits::{Limits, Permit};
pub use listener::{Listener, Supplied, Unstarted, bind};
pub use passing::{Entry, Exit, Supply, passage, take_in};
pub use stream::Stream;
use tokio::sync::watch;

use crate::engine::Thread;
use crate::protocol;
use crate::request::{Ends, Scheme};
use crate::stats::Counter;
use crate::tls;

/// How long a thread waits when it can't accept, before it tries again.
const PAUSE: Duration = Duration::from_millis(50);

/// A connection that has just come in.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket.
    pub stream: Stream,
    /// Who talks to whom.
    pub ends: Ends,
    /// Its place among the connections that are allowed.
    pub permit: Permit,
}

/// Accepts connections and hands each to its protocol, until `closed` says so; then takes those that already wait.
pub async fn accept(thread: Rc<Thread>, listener: Listener, mut closed: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            biased;
            _ = closed.wait_for(|c| *c) => break,
            () = accept_one(&thread, &listener) => {}
        }
    }
    // What waits in this socket's queue would be reset with it: SO_REUSEPORT hands nothing over.
    while let Ok(Some((stream, ends))) = listener.try_accept() {
        start(&thread, &listener, stream, ends);
    }
}

async fn accept_one(thread: &Rc<Thread>, listener: &Listener) {
    if listener.limits.is_full() {
        tokio::time::sleep(PAUSE).await;
        return;
    }
    if listener.is_secure {
        thread.handshakes.less_than(thread.setup().plan.https.handshakes).await;
    }
    match listener.accept().await {
        Ok((stream, ends)) => start(thread, listener, stream, ends),
        Err(error) => rest_after(thread, &error).await,
    }
}

fn start(thread: &Rc<Thread>, listener: &Listener, stream: Stream, ends: Ends) {
    let Some(permit) = listener.limits.admit(ends.client_ip()) else {
        return thread.stats.add(Counter::ConnectionsRefused, 1);
    };
    thread.stats.add(Counter::ConnectionsAccepted, 1);
    match stream {
        Stream::Tcp(socket) if listener.is_secure => tls::begin(thread, socket, ends, permit),
        stream => protocol::start(thread, Accepted { stream, ends, permit }),
    }
}

/// A client that was gone before it was accepted is no reason to rest; a lack of descriptors or memory is: others
/// will free some.
async fn rest_after(thread: &Thread, error: &io::Error) {
    use rustix::io::Errno;
    let lack = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    if lack.iter().any(|e| error.raw_os_error() == Some(e.raw_os_error())) {
        thread.process.log.warn(format_args!(
            "cannot accept a connection: {error}. Those that are open go on; raise the limit of open files (ulimit -n, \
             LimitNOFILE=) or lower server.connections"
        ));
        tokio::time::sleep(PAUSE).await;
    }
}

/// The ends of a fresh TCP connection.
fn tcp_ends(stream: &tokio::net::TcpStream, client: std::net::SocketAddr) -> Ends {
    Ends { client: Some(client), local: stream.local_addr().ok(), scheme: Scheme::Http, tls: None }
}
