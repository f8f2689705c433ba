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
use millrace_wire::fastcgi::{Decoder, Record, Step};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpStream, UnixStream};

use super::backends::{Shared, Way};
use crate::php::worker::{poll_receive, watch};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

thread_local! {
    /// What is read lies here until it is parsed: no connection owns a buffer.
    static INPUT: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// An open connection. Whoever has this value has it to himself.
#[derive(Debug)]
pub struct Connection {
    /// The socket, also known to the loop's keeper.
    pub socket: Rc<Socket>,
    /// When it became idle, milliseconds since the pool was made.
    pub idle_since: u64,
    /// When its last request began.
    began: u64,
    line: Line,
}

/// A connection on its way from one loop to another.
#[derive(Debug)]
pub struct Loose {
    socket: OwnedFd,
    line: Line,
}

/// What a connection is, wherever it is.
#[derive(Debug)]
struct Line {
    /// Taken out only when it is closed.
    way: Option<Way>,
    decoder: Decoder,
    /// The start of a record whose rest has not come.
    rest: Vec<u8>,
    state: State,
    /// Whether anything has ever come over it, and since the last request was sent.
    answered: bool,
    heard: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Busy,
    /// New, with its first request, of which nothing has come back.
    First,
}

/// A connection's socket and its limits: the keeper looks at them.
#[derive(Debug)]
pub struct Socket {
    descriptor: AsyncFd<OwnedFd>,
    /// When the request has to be over, milliseconds; 0: whenever.
    pub deadline: Cell<u64>,
    /// Since when something has to come; 0: nothing need.
    pub silent_since: Cell<u64>,
    /// One of the two was passed: it was shut down.
    late: Cell<bool>,
}

impl Connection {
    /// Makes the connection that a [`Way`] leads to; the way is there again where that fails.
    ///
    /// # Errors
    /// Those of connecting; `TimedOut` if it took too long.
    pub async fn open(way: Way) -> Result<Connection, (io::Error, Way)> {
        let limit = way.shared().settings.fastcgi_connect_timeout;
        let making = way.backend().make_one();
        let connected = connect(&way.backend().address, limit).await.and_then(Stream::into_descriptor);
        drop(making);
        let socket = match connected {
            Ok(socket) => socket,
            Err(error) => return Err((error, way)),
        };
        let line = Line {
            way: Some(way),
            decoder: Decoder::default(),
            rest: Vec::new(),
            state: State::Idle,
            answered: false,
            heard: false,
        };
        let descriptor = match watch(socket, Interest::READABLE) {
            Ok(descriptor) => descriptor,
            Err(error) => return Err((error, line.into_way())),
        };
        Ok(Connection::watched(descriptor, line))
    }

    /// Has it watched by this event loop.
    ///
    /// # Errors
    /// The loop can't watch one more.
    pub fn on_this_loop(loose: Loose) -> io::Result<Connection> {
        Ok(Connection::watched(watch(loose.socket, Interest::READABLE)?, loose.line))
    }

    fn watched(descriptor: AsyncFd<OwnedFd>, line: Line) -> Connection {
        let (deadline, silent_since, late) = (Cell::new(0), Cell::new(0), Cell::new(false));
        let socket = Rc::new(Socket { descriptor, deadline, silent_since, late });
        Connection { socket, idle_since: 0, began: 0, line }
    }

    /// Closes it; another one may be made instead.
    pub fn close(self) -> Way {
        self.line.into_way()
    }

    /// Takes it from this event loop; `None` if the keeper has it in his hands.
    pub fn loose(self) -> Option<Loose> {
        let socket = Rc::into_inner(self.socket)?.descriptor.into_inner();
        Some(Loose { socket, line: self.line })
    }

    /// Its backend's number.
    pub fn backend(&self) -> usize {
        self.line.way().backend
    }

    /// The pool.
    pub fn shared(&self) -> &Arc<Shared> {
        self.line.way().shared()
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
        let state = if self.line.answered { State::Busy } else { State::First };
        let backend = self.line.way().backend();
        backend.busy.fetch_add(1, Relaxed);
        backend.requests.fetch_add(1, Relaxed);
        if state == State::First {
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
            if self.line.state == State::First {
                self.line.first_is_over(now);
            }
            (self.line.answered, self.line.heard) = (true, true);
            Poll::Ready(self.line.parse(&input[..length], take))
        })
    }
}

impl Line {
    fn way(&self) -> &Way {
        self.way.as_ref().expect("it is open")
    }

    fn into_way(mut self) -> Way {
        let now = self.way().shared().now();
        self.rest_now(now);
        self.way.take().expect("it was open")
    }

    fn first_is_over(&mut self, now: u64) {
        self.state = State::Busy;
        self.way().backend().first_is_over(now);
    }

    fn rest_now(&mut self, now: u64) {
        if self.state == State::First {
            self.first_is_over(now);
        }
        if std::mem::replace(&mut self.state, State::Idle) == State::Busy {
            self.way().backend().busy.fetch_sub(1, Relaxed);
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

impl Drop for Line {
    fn drop(&mut self) {
        if self.way.is_some() {
            let now = self.way().shared().now();
            self.rest_now(now);
        }
    }
}

fn records(decoder: &mut Decoder, input: &[u8], mut take: impl FnMut(Record<'_>)) -> io::Result<usize> {
    let mut at = 0;
    while at < input.len() {
        match decoder.next(&input[at..]) {
            Ok(Step::Record(record, used)) => {
                at += used;
                take(record);
            }
            Ok(Step::Skip(used)) => at += used,
            Ok(Step::Partial) => break,
            Err(broken) => return Err(io::Error::new(io::ErrorKind::InvalidData, broken)),
        }
    }
    Ok(at)
}

impl Socket {
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
pub enum Stream {
    /// A Unix socket.
    Unix(UnixStream),
    /// A TCP connection.
    Tcp(TcpStream),
}

impl Stream {
    /// The socket alone; it does not block.
    fn into_descriptor(self) -> io::Result<OwnedFd> {
        Ok(match self {
            Stream::Unix(stream) => stream.into_std()?.into(),
            Stream::Tcp(stream) => stream.into_std()?.into(),
        })
    }
}

/// Connects.
///
/// # Errors
/// Those of connecting; `TimedOut` if it took longer than `limit`.
pub async fn connect(address: &plan::Backend, limit: Duration) -> io::Result<Stream> {
    let connecting = async {
        Ok(match address {
            plan::Backend::Unix(path) => Stream::Unix(UnixStream::connect(path).await?),
            plan::Backend::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                // A request may leave in two pieces.
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
        })
    };
    match tokio::time::timeout(limit, connecting).await {
        Ok(result) => result,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
