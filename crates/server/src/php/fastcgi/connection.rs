//! One connection to a backend, on one event loop.
//!
//! It is watched for reading only: an application that reads its request would otherwise wake the loop once more, just to
//! say that there is room to write.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use millrace_settings::plan;
use millrace_wire::fastcgi::{Record, RecordDecoder, RecordStep};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpStream, UnixStream};

use super::backends::{FastcgiOpening, FastcgiShared};
use crate::php::worker::{poll_receive, watch};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

thread_local! {
    /// What is read lies here until it is parsed: no connection owns a buffer.
    static INPUT: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// An open connection. Whoever has this value has it to himself.
#[derive(Debug)]
pub struct FastcgiConnection {
    /// The socket, also known to the loop's keeper.
    pub socket: Rc<WatchedSocket>,
    /// When it became idle, milliseconds since the pool was made.
    pub idle_since: u64,
    /// When its last request began.
    began: u64,
    line: OpenConnection,
}

/// A connection on its way from one loop to another.
#[derive(Debug)]
pub struct Loose {
    socket: OwnedFd,
    line: OpenConnection,
}

/// What a connection is, wherever it is.
#[derive(Debug)]
struct OpenConnection {
    /// Taken out only when it is closed.
    opening: Option<FastcgiOpening>,
    decoder: RecordDecoder,
    /// The start of a record whose rest has not come.
    rest: Vec<u8>,
    state: ConnectionState,
    /// Whether anything has ever come over it, and since the last request was sent.
    answered: bool,
    heard: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    Idle,
    Busy,
    /// New, with its first request, of which nothing has come back.
    First,
}

/// A connection's socket and its limits: the keeper looks at them.
#[derive(Debug)]
pub struct WatchedSocket {
    descriptor: AsyncFd<OwnedFd>,
    /// When the request has to be over, milliseconds; 0: whenever.
    pub deadline: Cell<u64>,
    /// Since when something has to come; 0: nothing need.
    pub silent_since: Cell<u64>,
    /// One of the two was passed: it was shut down.
    late: Cell<bool>,
}

impl FastcgiConnection {
    /// Makes the connection that a [`FastcgiOpening`] leads to; the way is there again where that fails.
    ///
    /// # Errors
    /// Those of connecting; `TimedOut` if it took too long.
    pub async fn open(opening: FastcgiOpening) -> Result<FastcgiConnection, (io::Error, FastcgiOpening)> {
        let limit = opening.shared().settings.fastcgi_connect_timeout;
        let making = opening.backend().make_one();
        let connected =
            connect(&opening.backend().address, limit).await.and_then(FastcgiStream::into_descriptor);
        drop(making);
        let socket = match connected {
            Ok(socket) => socket,
            Err(error) => return Err((error, opening)),
        };
        let line = OpenConnection {
            opening: Some(opening),
            decoder: RecordDecoder::default(),
            rest: Vec::new(),
            state: ConnectionState::Idle,
            answered: false,
            heard: false,
        };
        let descriptor = match watch(socket, Interest::READABLE) {
            Ok(descriptor) => descriptor,
            Err(error) => return Err((error, line.into_way())),
        };
        Ok(FastcgiConnection::watched(descriptor, line))
    }

    /// Has it watched by this event loop.
    ///
    /// # Errors
    /// The loop can't watch one more.
    pub fn on_this_loop(loose: Loose) -> io::Result<FastcgiConnection> {
        Ok(FastcgiConnection::watched(watch(loose.socket, Interest::READABLE)?, loose.line))
    }

    fn watched(descriptor: AsyncFd<OwnedFd>, line: OpenConnection) -> FastcgiConnection {
        let (deadline, silent_since, late) = (Cell::new(0), Cell::new(0), Cell::new(false));
        let socket = Rc::new(WatchedSocket { descriptor, deadline, silent_since, late });
        FastcgiConnection { socket, idle_since: 0, began: 0, line }
    }

    /// Closes it; another one may be made instead.
    pub fn close(self) -> FastcgiOpening {
        self.line.into_way()
    }

    /// Takes it from this event loop; `None` if the keeper has it in his hands.
    pub fn loose(self) -> Option<Loose> {
        let socket = Rc::into_inner(self.socket)?.descriptor.into_inner();
        Some(Loose { socket, line: self.line })
    }

    /// Its backend's number.
    pub fn backend(&self) -> usize {
        self.line.opening().backend
    }

    /// The pool.
    pub fn shared(&self) -> &Arc<FastcgiShared> {
        self.line.opening().shared()
    }

    /// Whether it was used before, and nothing has come since the last request was sent: it may have been closed before that.
    pub fn is_stale(&self) -> bool {
        self.line.answered && !self.line.heard
    }

    /// Whether nothing has come of it since it became idle, so that a request can be sent; asks the kernel.
    pub fn is_alive(&self) -> bool {
        let mut byte = [0; 1];
        recv(self.socket.descriptor(), &mut byte, RecvFlags::DONTWAIT | RecvFlags::PEEK)
            .is_err_and(|error| error == Errno::AGAIN)
    }

    /// A request is about to be sent, at `now`; it has to be over by `deadline`.
    pub fn begin(&mut self, now: u64, deadline: u64) {
        let state = if self.line.answered { ConnectionState::Busy } else { ConnectionState::First };
        let backend = self.line.opening().backend();
        backend.busy.fetch_add(1, Relaxed);
        backend.requests.fetch_add(1, Relaxed);
        if state == ConnectionState::First {
            backend.ask_first(now);
        }
        self.line.state = state;
        self.line.heard = false;
        self.began = now;
        self.line.decoder.begin();
        self.socket.deadline.set(deadline);
    }

    /// How long its last request has taken, milliseconds.
    pub fn took(&self, now: u64) -> u64 {
        now.saturating_sub(self.began)
    }

    /// The answer is complete. Whether the connection can be used again.
    pub fn end(&mut self, now: u64) -> bool {
        self.socket.deadline.set(0);
        self.socket.silent_since.set(0);
        self.line.rest_now(now);
        self.line.decoder.is_at_rest() && self.line.rest.is_empty() && !self.socket.is_late()
    }

    /// Reads once and gives the records to `take`.
    ///
    /// # Errors
    /// The connection is closed (`UnexpectedEof` and others), or what comes is no answer (`InvalidData`).
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        now: u64,
        take: impl FnMut(Record<'_>),
    ) -> Poll<io::Result<()>> {
        INPUT.with_borrow_mut(|input| {
            let length = ready!(poll_receive(&self.socket.descriptor, cx, input))?;
            if self.line.state == ConnectionState::First {
                self.line.first_is_over(now);
            }
            (self.line.answered, self.line.heard) = (true, true);
            Poll::Ready(self.line.parse(&input[..length], take))
        })
    }
}

impl OpenConnection {
    fn opening(&self) -> &FastcgiOpening {
        self.opening.as_ref().expect("it is open")
    }

    fn into_way(mut self) -> FastcgiOpening {
        let now = self.opening().shared().now();
        self.rest_now(now);
        self.opening.take().expect("it was open")
    }

    fn first_is_over(&mut self, now: u64) {
        self.state = ConnectionState::Busy;
        self.opening().backend().first_is_over(now);
    }

    fn rest_now(&mut self, now: u64) {
        if self.state == ConnectionState::First {
            self.first_is_over(now);
        }
        if std::mem::replace(&mut self.state, ConnectionState::Idle) == ConnectionState::Busy {
            self.opening().backend().busy.fetch_sub(1, Relaxed);
        }
    }

    /// Takes records apart; the start of an incomplete one is kept.
    fn parse(&mut self, bytes: &[u8], take: impl FnMut(Record<'_>)) -> io::Result<()> {
        if self.rest.is_empty() {
            let used = records(&mut self.decoder, bytes, take)?;
            self.rest.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let used = records(&mut self.decoder, &rest, take)?;
        rest.drain(..used);
        self.rest = rest;
        Ok(())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        if self.opening.is_some() {
            let now = self.opening().shared().now();
            self.rest_now(now);
        }
    }
}

fn records(decoder: &mut RecordDecoder, input: &[u8], mut take: impl FnMut(Record<'_>)) -> io::Result<usize> {
    let mut at = 0;
    while at < input.len() {
        match decoder.next(&input[at..]) {
            Ok(RecordStep::Record(record, used)) => {
                at += used;
                take(record);
            }
            Ok(RecordStep::Skip(used)) => at += used,
            Ok(RecordStep::Partial) => break,
            Err(broken) => return Err(io::Error::new(io::ErrorKind::InvalidData, broken)),
        }
    }
    Ok(at)
}

impl WatchedSocket {
    /// The socket.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.get_ref().as_fd()
    }

    /// Sends as much as the socket takes now; returns how much.
    ///
    /// # Errors
    /// The other end has gone.
    pub fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match send(self.descriptor(), bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return Ok(0),
                other => return Ok(other?),
            }
        }
    }

    /// Takes too long: whoever reads from it finds it closed.
    pub fn shut_down(&self) {
        self.late.set(true);
        // It may be closed already.
        let _ = shutdown(self.descriptor(), Shutdown::Both);
    }

    /// Whether that was done.
    pub fn is_late(&self) -> bool {
        self.late.get()
    }
}

/// A connected socket, as the runtime has it.
#[derive(Debug)]
pub enum FastcgiStream {
    /// A Unix socket.
    Unix(UnixStream),
    /// A TCP connection.
    Tcp(TcpStream),
}

impl FastcgiStream {
    /// The socket alone; it does not block.
    fn into_descriptor(self) -> io::Result<OwnedFd> {
        Ok(match self {
            FastcgiStream::Unix(stream) => stream.into_std()?.into(),
            FastcgiStream::Tcp(stream) => stream.into_std()?.into(),
        })
    }
}

/// Connects.
///
/// # Errors
/// Those of connecting; `TimedOut` if it took longer than `limit`.
pub async fn connect(address: &plan::Backend, limit: Duration) -> io::Result<FastcgiStream> {
    let connecting = async {
        Ok(match address {
            plan::Backend::Unix(path) => FastcgiStream::Unix(UnixStream::connect(path).await?),
            plan::Backend::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                // A request may leave in two pieces.
                stream.set_nodelay(true)?;
                FastcgiStream::Tcp(stream)
            }
        })
    };
    match tokio::time::timeout(limit, connecting).await {
        Ok(result) => result,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
