//! From a TCP connection to an encrypted one.
//!
//! A handshake costs as much as a hundred requests. So handshakes take turns: one step of one handshake, then the
//! event loop serves its other connections, then the next step. The handshakes that wait for a turn are counted; when
//! there are many, the thread accepts no more connections: they wait in the kernel's queue, where they cost nothing.
//! A handshake whose client has sent nothing yet waits for no turn, and blocks none.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustls::HandshakeKind;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;

use super::AcceptThread;
use crate::connection::{Accepted, ClientStream, ConnectionPermit, Newcomer, SHED_TIME};
use crate::protocol;
use crate::tls::hello::{self, Chosen, Hello};
use crate::tls::{Ability, CHALLENGE_PROTOCOL, Terms, TlsStream, refusal};
use millrace_base::context::budget::TLS_BYTES;
use millrace_base::context::stats::Counter;
use millrace_base::message::request::{Ends, Scheme};

/// Interval between log entries about refused clients, milliseconds.
const REFUSALS_MS: u64 = 60_000;

/// The handshakes of a thread.
#[derive(Debug)]
pub struct Handshakes {
    /// Handshakes that have work to do.
    busy: Cell<usize>,
    /// Notified when one of them has done its work.
    done: Notify,
    /// First come, first served.
    turn: Semaphore,
    /// When a refusal was logged last, in ticks of the clock.
    told: Cell<Option<u64>>,
}

impl Default for Handshakes {
    fn default() -> Handshakes {
        Handshakes {
            busy: Cell::default(),
            done: Notify::default(),
            turn: Semaphore::new(1),
            told: Cell::default(),
        }
    }
}

impl Handshakes {
    /// Waits until fewer than `most` have work to do.
    pub async fn less_than(&self, most: usize) {
        while self.busy.get() >= most {
            self.done.notified().await;
        }
    }
}

/// A handshake that has work to do.
struct Busy(Rc<AcceptThread>);

impl Busy {
    fn new(thread: &Rc<AcceptThread>) -> Busy {
        thread.handshakes.busy.update(|count| count + 1);
        Busy(thread.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.handshakes.busy.update(|count| count - 1);
        self.0.handshakes.done.notify_one();
    }
}

/// Why there is no encrypted connection.
enum HandshakeFailure {
    /// The client went, or offers nothing that the server accepts; an alert has told it, if possible.
    Broken(io::Error),
    /// It speaks HTTP, and has got a response.
    PlainHttp,
}

impl From<io::Error> for HandshakeFailure {
    fn from(error: io::Error) -> HandshakeFailure {
        HandshakeFailure::Broken(error)
    }
}

/// Agrees with the client on keys, and passes the connection to its protocol.
pub fn begin(thread: &Rc<AcceptThread>, socket: TcpStream, ends: Ends, permit: ConnectionPermit) {
    let setup = thread.protocol.serve.setup();
    let shed_time = permit.is_shed().then_some(SHED_TIME);
    let patience = setup.plan.https.handshake_timeout.min(shed_time.unwrap_or(Duration::MAX));
    permit.grow(TLS_BYTES);
    let newcomer =
        Newcomer::new(&thread.context, &thread.protocol.deadlines, Counter::ConnectionsShaking, permit);
    let terms = thread.terms.get();
    let busy = Some(Busy::new(thread));
    let handshake = Handshake { busy, newcomer: newcomer.clone(), thread: thread.clone(), terms };
    let thread = thread.clone();
    tokio::task::spawn_local(async move {
        let done = tokio::select! {
            biased;
            () = newcomer.gone() => return,
            done = tokio::time::timeout(patience, handshake.run(socket)) => done,
        };
        thread.context.clock.read();
        let failed = |why: &dyn std::fmt::Display| {
            thread.context.stats.add(Counter::TlsFailures, 1);
            thread
                .context
                .process
                .log
                .debug(format_args!("TLS handshake with {} failed: {why}", shown(&ends)));
        };
        match done {
            // The authority has seen the certificate, and sends nothing (RFC 8737 section 3).
            Ok(Ok((stream, _))) if stream.protocol() == Some(CHALLENGE_PROTOCOL) => {}
            Ok(Ok((stream, policy))) => {
                let resumed = stream.kind() == Some(HandshakeKind::Resumed);
                thread
                    .context
                    .stats
                    .add(if resumed { Counter::TlsResumed } else { Counter::TlsHandshakes }, 1);
                if stream.has_early_requests() {
                    thread.context.stats.add(Counter::TlsEarly, 1);
                }
                let ends = Ends { scheme: Scheme::Https, tls: stream.terms(policy), ..ends };
                let Some(permit) = newcomer.take_permit() else { return };
                protocol::start(
                    &thread.protocol,
                    Accepted { stream: ClientStream::Tls(Box::new(stream)), ends, permit },
                );
            }
            Ok(Err(HandshakeFailure::Broken(error))) => {
                tell_refusal(&thread, &ends, &error);
                failed(&error);
            }
            Ok(Err(HandshakeFailure::PlainHttp)) => failed(&"the client speaks plain HTTP"),
            Err(_) => thread.context.stats.add(Counter::TlsTimeouts, 1),
        }
    });
}

/// Logs why the server has refused a client; not more often than once a minute, since anyone can cause that.
fn tell_refusal(thread: &AcceptThread, ends: &Ends, error: &io::Error) {
    let (now, told) = (thread.context.clock.ticks(), &thread.handshakes.told);
    if told.get().is_some_and(|told| told + REFUSALS_MS > now) {
        return;
    }
    if let Some(why) = refusal(error) {
        told.set(Some(now));
        let client = shown(ends);
        thread.context.process.log.warn(format_args!("refused a TLS connection of {client}: {why}"));
    }
}

fn shown(ends: &Ends) -> String {
    ends.client_ip().map_or_else(|| "somebody".to_owned(), |ip| ip.to_string())
}

/// A handshake in progress.
struct Handshake {
    newcomer: Rc<Newcomer>,
    thread: Rc<AcceptThread>,
    terms: Arc<Option<Terms>>,
    /// `None`: it waits for the client.
    busy: Option<Busy>,
}

impl Handshake {
    /// The connection, and the number of the policy by which the client was asked for a certificate. Data behind the
    /// client's last message is stored for the first read.
    async fn run(mut self, socket: TcpStream) -> Result<(TlsStream, Option<u64>), HandshakeFailure> {
        let speaks_http = loop {
            self.readable(&socket).await?;
            if let Some(answer) = hello::speaks_http(&socket)? {
                break answer;
            }
        };
        if speaks_http {
            self.busy = None;
            hello::refuse_http(&socket).await;
            return Err(HandshakeFailure::PlainHttp);
        }
        let (Chosen { config, policy }, bytes) = self.choose(&socket).await?;
        let ability = self.terms.as_ref().as_ref().map_or(Ability::NONE, Terms::ability);
        let mut stream = TlsStream::new(socket, config, ability).map_err(io::Error::other)?;
        if !bytes.is_empty() {
            self.step(|| stream.begin(&bytes)).await?;
        }
        while stream.is_handshaking() && !stream.has_early_requests() {
            self.busy = None;
            poll_fn(|cx| stream.poll_flush(cx)).await?;
            self.readable(stream.socket()).await?;
            self.step(|| at_once(|cx| stream.poll_step(cx))).await?;
        }
        self.busy = None;
        // Session tickets, or the last message of TLS 1.2.
        poll_fn(|cx| stream.poll_flush(cx)).await?;
        Ok((stream, policy))
    }

    /// Waits for the client, which may take its time without delaying others.
    async fn readable(&mut self, socket: &TcpStream) -> io::Result<()> {
        self.busy = None;
        socket.readable().await?;
        self.newcomer.moves();
        self.busy = Some(Busy::new(&self.thread));
        Ok(())
    }

    /// Determines the terms of the connection, and returns what had to be read for that. If all connections have the
    /// same terms, nothing is read.
    async fn choose(&mut self, socket: &TcpStream) -> Result<(Chosen, Vec<u8>), HandshakeFailure> {
        let terms = self.terms.clone();
        let terms = terms.as_ref().as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        if !terms.has_policies() {
            return Ok((Chosen { config: terms.config().clone(), policy: None }, Vec::new()));
        }
        let (mut hello, setup) = (Hello::default(), self.thread.protocol.serve.setup());
        loop {
            match hello.read(socket, terms, &|name| &setup.site_for(name).plan)? {
                Some(chosen) => return Ok((chosen, hello.bytes)),
                None => self.readable(socket).await?,
            }
        }
    }

    /// Waits for its turn, does the work, and lets the event loop serve other connections before the next turn.
    async fn step(&self, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _turn = self.thread.handshakes.turn.acquire().await.map_err(io::Error::other)?;
        work()?;
        yield_now().await;
        Ok(())
    }
}

/// Work that doesn't wait for the client: a turn is not for waiting.
fn at_once(mut poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<()>>) -> io::Result<()> {
    match poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Ok(()),
    }
}
