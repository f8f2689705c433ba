//! From a TCP connection to an encrypted one.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::ready;

use rustls::{HandshakeKind, ServerConfig};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::TlsStream;
use super::issued::CHALLENGE_PROTOCOL;
use crate::accept::{Accepted, Permit, Stream};
use crate::engine::Thread;
use crate::protocol;
use crate::request::{Ends, Scheme};
use crate::stats::Counter;

/// The handshakes of a thread. One costs as much as a thousand requests: what is under way is bounded, and the others wait
/// in the kernel's queue, so that requests get their turns in between.
#[derive(Debug, Default)]
pub struct Handshakes {
    under_way: Cell<usize>,
    ended: Notify,
}

impl Handshakes {
    /// Waits until there are less than `most`.
    pub async fn less_than(&self, most: usize) {
        while self.under_way.get() >= most {
            self.ended.notified().await;
        }
    }
}

/// A handshake that is under way.
struct UnderWay(Rc<Thread>);

impl UnderWay {
    fn new(thread: &Rc<Thread>) -> UnderWay {
        thread.handshakes.under_way.update(|count| count + 1);
        UnderWay(thread.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.handshakes.under_way.update(|count| count - 1);
        self.0.handshakes.ended.notify_one();
    }
}

/// Agrees with the client on keys, and hands the connection to its protocol.
pub fn begin(thread: &Rc<Thread>, socket: TcpStream, ends: Ends, permit: Permit) {
    let setup = thread.setup();
    let Some(terms) = &setup.tls else { return };
    let (config, patience) = (terms.config().clone(), setup.plan.https.handshake_timeout);
    let under_way = UnderWay::new(thread);
    tokio::task::spawn_local(async move {
        let thread = &under_way.0;
        let stream = tokio::time::timeout(patience, handshake(socket, config)).await;
        thread.clock.read();
        match stream {
            // It has seen the certificate that it wanted to see, and has nothing to say (RFC 8737 section 3).
            Ok(Ok(stream)) if stream.protocol() == Some(CHALLENGE_PROTOCOL) => {}
            Ok(Ok(stream)) => {
                let resumed = stream.kind() == Some(HandshakeKind::Resumed);
                thread.stats.add(if resumed { Counter::TlsResumed } else { Counter::TlsHandshakes }, 1);
                let ends = Ends { scheme: Scheme::Https, tls: stream.terms(), ..ends };
                protocol::start(thread, Accepted { stream: Stream::Tls(Box::new(stream)), ends, permit });
            }
            Ok(Err(error)) => {
                thread.stats.add(Counter::TlsFailures, 1);
                thread.process.log.debug(format_args!("a handshake with {} failed: {error}", shown(&ends)));
            }
            Err(_) => thread.stats.add(Counter::TlsTimeouts, 1),
        }
    });
}

fn shown(ends: &Ends) -> String {
    ends.client_ip().map_or_else(|| "somebody".to_owned(), |ip| ip.to_string())
}

/// What the client has sent behind its last message is kept for the first read.
///
/// # Errors
/// The client went, or offers nothing that the server takes; it has been told by an alert where that is known.
async fn handshake(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<TlsStream> {
    let mut stream = TlsStream::new(socket, config).map_err(io::Error::other)?;
    poll_fn(|cx| {
        while stream.is_handshaking() {
            ready!(stream.poll_flush(cx))?;
            ready!(stream.poll_step(cx))?;
        }
        // Session tickets, or the last message of TLS 1.2.
        stream.poll_flush(cx)
    })
    .await?;
    Ok(stream)
}
