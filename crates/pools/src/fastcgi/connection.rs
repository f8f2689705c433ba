//! One connection to a backend, on one event loop.
//!
//! It is registered with the loop that used it last, and moves to another one on demand
//! ([`FastcgiConnection::settle`]). It is watched for reading only: otherwise each request that the application reads
//! would wake the loop once more, just to report room for writing.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use millrace_settings::plan;
use millrace_sys::unread;
use millrace_wire::fastcgi::{BEGIN_BYTES, Record, RecordDecoder, RecordStep, begin_request};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpStream, UnixStream};

use super::backends::Opening;
use crate::pool::pools::PoolId;
use crate::worker::{poll_receive, watch};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// How long a request waits for the process of a connection that has just become idle, before it takes another one.
const BEHIND: Duration = Duration::from_millis(5);
/// In place of a time: the time has passed.
const LATE: u64 = u64::MAX;

thread_local! {
    /// Input stays here until it is parsed: no connection owns a buffer.
    static INPUT: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// An open connection. The holder of this value has it exclusively.
#[derive(Debug)]
pub struct FastcgiConnection {
    /// Watched by the event loop of this number.
    socket: AsyncFd<Arc<WatchedSocket>>,
    home: usize,
    /// When it became idle, milliseconds since the pool was created.
    pub idle_since: u64,
    /// When its last request began.
    began: u64,
    /// How long its request may take; 0: no limit.
    limit: u64,
    /// When its request must be complete; 0: no limit, or the clock stands.
    deadline: u64,
    /// When the backend must have sent something; 0: no limit.
    awaited: u64,
    line: Link,
}

/// The part of a connection that doesn't depend on an event loop.
#[derive(Debug)]
struct Link {
    opening: Opening,
    decoder: RecordDecoder,
    /// The start of a record whose rest has not arrived.
    rest: Vec<u8>,
    state: ConnectionState,
    /// Whether anything has ever arrived, and whether anything has since the last request was sent.
    answered: bool,
    heard: bool,
    /// BEGIN_REQUEST of its next request has been sent.
    announced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    Idle,
    Busy,
    /// New: its first request has been sent, and nothing has arrived.
    First,
}

/// A connection's socket and its limits, shared with the keeper. Times are milliseconds since the pool was created.
#[derive(Debug)]
pub struct WatchedSocket {
    descriptor: OwnedFd,
    /// The keeper shuts it down at this time, unless its holder changes it before; 0: never; [`LATE`]: it did.
    due: AtomicU64,
    /// When its request began; 0: no request.
    began: AtomicU64,
    /// The pool of its request.
    pool: AtomicUsize,
}

impl FastcgiConnection {
    /// Opens the connection that an [`Opening`] leads to, on event loop `thread`; returns the opening if that fails.
    ///
    /// # Errors
    /// The errors of connecting; `TimedOut` if it took too long.
    pub async fn open(opening: Opening, thread: usize) -> Result<FastcgiConnection, (io::Error, Opening)> {
        let limit = opening.shared().settings.fastcgi_connect_timeout;
        let making = opening.backend().make_one();
        let connected = connect(&opening.backend().address, limit).await;
        drop(making);
        let connected = connected.and_then(|stream| {
            opening.backend().note_process(&stream);
            let (due, began, pool) = (AtomicU64::new(0), AtomicU64::new(0), AtomicUsize::new(0));
            let socket = WatchedSocket { descriptor: stream.into_descriptor()?, due, began, pool };
            watch(Arc::new(socket), Interest::READABLE)
        });
        let socket = match connected {
            Ok(socket) => socket,
            Err(error) => return Err((error, opening)),
        };
        let line = Link {
            opening,
            decoder: RecordDecoder::default(),
            rest: Vec::new(),
            state: ConnectionState::Idle,
            answered: false,
            heard: false,
            announced: false,
        };
        let (idle_since, began, limit, deadline, awaited) = (0, 0, 0, 0, 0);
        Ok(FastcgiConnection { socket, home: thread, idle_since, began, limit, deadline, awaited, line })
    }

    /// Registers it with this event loop, whose number is `thread`.
    ///
    /// # Errors
    /// The loop can't watch another descriptor.
    pub fn settle(&mut self, thread: usize) -> io::Result<()> {
        if self.home != thread {
            self.socket = watch(self.socket.get_ref().clone(), Interest::READABLE)?;
            self.home = thread;
        }
        Ok(())
    }

    /// The event loop that watches it.
    pub fn home(&self) -> usize {
        self.home
    }

    /// Its socket.
    pub fn socket(&self) -> &Arc<WatchedSocket> {
        self.socket.get_ref()
    }

    /// Its backend's number.
    pub fn backend(&self) -> usize {
        self.line.opening.backend
    }

    /// Milliseconds from the pool's creation to `moment`.
    pub fn at(&self, moment: Instant) -> u64 {
        self.line.opening.shared().at(moment)
    }

    /// Whether it was used before, and nothing has arrived since the last request was sent: it may have been closed
    /// before that.
    pub fn is_stale(&self) -> bool {
        self.line.answered && !self.line.heard
    }

    /// Whether it can take a request: nothing has arrived since it became idle. Asks the kernel.
    pub fn is_alive(&self) -> bool {
        let mut byte = [0; 1];
        recv(self.socket(), &mut byte, RecvFlags::DONTWAIT | RecvFlags::PEEK)
            .is_err_and(|error| error == Errno::AGAIN)
    }

    /// Sends the first record of its next request, once: when the process at the other end has read it, it waits for
    /// the rest, and for nothing else. False if the connection can't be used again.
    pub fn announce(&mut self) -> bool {
        if !self.line.announced {
            let keeps = self.line.opening.backend().keeps();
            let sent = if keeps { self.socket().send_now(&begin_request(true)) } else { Ok(0) };
            self.line.announced = sent.is_ok_and(|sent| sent == BEGIN_BYTES);
        }
        self.line.announced
    }

    /// Whether the process at the other end waits for the request. It does not while a script goes on behind the end of
    /// its response, and it has not taken a new connection before it has read from it.
    pub fn is_free(&self) -> bool {
        self.is_read() && self.is_alive()
    }

    /// Whether the process has read what was announced, or the connection is closed.
    fn is_read(&self) -> bool {
        self.line.announced && unread(self.socket()).is_ok_and(|left| left < BEGIN_BYTES as u64)
    }

    /// Waits a moment for [`FastcgiConnection::is_free`].
    pub async fn becomes_free(&self) -> bool {
        if self.is_read() {
            return self.is_alive();
        }
        let read = async {
            // A descriptor of its own is watched for writing, only during this call: the kernel tells when the other
            // end has read.
            let writable = watch(self.socket().descriptor.try_clone()?, Interest::WRITABLE)?;
            while !self.is_read() {
                writable.writable().await?.clear_ready();
            }
            io::Result::Ok(())
        };
        matches!(tokio::time::timeout(BEHIND, read).await, Ok(Ok(()))) && self.is_alive()
    }

    /// Whether it became idle a moment ago: its process needs one to get to its next request.
    pub fn is_just_idle(&self, now: u64) -> bool {
        self.idle_since + BEHIND.as_millis() as u64 > now
    }

    /// Writes BEGIN_REQUEST, unless it was sent ahead.
    pub fn write_begin(&self, out: &mut Vec<u8>) {
        if !self.line.announced {
            out.extend_from_slice(&begin_request(self.line.opening.backend().keeps()));
        }
    }

    /// Whether it has no request.
    pub fn is_idle(&self) -> bool {
        self.line.state == ConnectionState::Idle
    }

    /// A request of this pool is about to be sent, at `now`; it may take `limit` (0: no limit).
    pub fn begin(&mut self, pool: PoolId, now: u64, limit: u64) {
        let state = if self.line.answered { ConnectionState::Busy } else { ConnectionState::First };
        let backend = self.line.opening.backend();
        backend.busy.fetch_add(1, Relaxed);
        backend.requests.fetch_add(1, Relaxed);
        if state == ConnectionState::First {
            backend.ask_first(now);
        }
        self.line.state = state;
        (self.line.heard, self.line.announced) = (false, false);
        (self.began, self.limit, self.awaited) = (now, limit, 0);
        self.line.decoder.begin();
        let socket = self.socket();
        socket.pool.store(pool.index(), Relaxed);
        socket.began.store(now, Relaxed);
        self.set_clock(Some(now));
    }

    /// Its time begins anew now, or stands (`None`): its client is the one that takes time.
    pub fn set_clock(&mut self, now: Option<u64>) {
        self.deadline = now.filter(|_| self.limit != 0).map_or(0, |now| now + self.limit);
        self.update_due();
    }

    /// The backend must send something before `moment`.
    pub fn await_until(&mut self, moment: u64) {
        self.awaited = moment;
        self.update_due();
    }

    /// Whether the backend must send something in time.
    pub fn is_awaited(&self) -> bool {
        self.awaited != 0
    }

    /// The server stops reading for a while: silence means nothing.
    pub fn expect_nothing(&mut self) {
        if std::mem::take(&mut self.awaited) != 0 {
            self.update_due();
        }
    }

    /// Both limits apply.
    fn update_due(&self) {
        let limits = [self.deadline, self.awaited].into_iter().filter(|limit| *limit != 0);
        self.socket().set_due(limits.min().unwrap_or(0));
    }

    /// How long its last request took, milliseconds.
    pub fn took(&self, now: u64) -> u64 {
        now.saturating_sub(self.began)
    }

    /// The response is complete. Returns whether the connection can be used again; `keep`: it is wanted.
    pub fn end(&mut self, now: u64, keep: bool) -> bool {
        let in_time = self.socket().due.swap(0, Relaxed) != LATE;
        self.socket().began.store(0, Relaxed);
        self.line.rest_now(now);
        let is_at_rest = in_time && self.line.decoder.is_at_rest() && self.line.rest.is_empty();
        keep && is_at_rest && self.announce()
    }

    /// Reads once and passes the records to `take`.
    ///
    /// # Errors
    /// The connection is closed (`UnexpectedEof` and others), or the bytes are not a response (`InvalidData`).
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        now: u64,
        take: impl FnMut(Record<'_>),
    ) -> Poll<io::Result<()>> {
        INPUT.with_borrow_mut(|input| {
            let length = ready!(poll_receive(&self.socket, cx, input))?;
            if self.line.state == ConnectionState::First {
                self.line.first_is_over(now);
            }
            (self.line.answered, self.line.heard) = (true, true);
            Poll::Ready(self.line.parse(&input[..length], take))
        })
    }
}

impl Link {
    fn first_is_over(&mut self, now: u64) {
        self.state = ConnectionState::Busy;
        self.opening.backend().first_is_over(now);
    }

    fn rest_now(&mut self, now: u64) {
        if self.state == ConnectionState::First {
            self.first_is_over(now);
        }
        if std::mem::replace(&mut self.state, ConnectionState::Idle) == ConnectionState::Busy {
            self.opening.backend().busy.fetch_sub(1, Relaxed);
        }
    }

    /// Splits the input into records; the start of an incomplete one is stored.
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

impl Drop for Link {
    fn drop(&mut self) {
        let now = self.opening.shared().now();
        self.rest_now(now);
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

impl AsFd for WatchedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for WatchedSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl WatchedSocket {
    /// Sends as much as the socket takes now; returns the number of bytes.
    ///
    /// # Errors
    /// The other end has gone.
    pub fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match send(&self.descriptor, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return Ok(0),
                other => return Ok(other?),
            }
        }
    }

    /// Sets when it is late, unless it is already.
    fn set_due(&self, due: u64) {
        let before = self.due.load(Relaxed);
        if before != LATE && before != due {
            // If the exchange fails, the keeper was first.
            let _ = self.due.compare_exchange(before, due, Relaxed, Relaxed);
        }
    }

    /// Shuts it down if it is late: its reader finds it closed. Never hits a later request, because that one has
    /// another time.
    pub fn look(&self, now: u64) {
        let due = self.due.load(Relaxed);
        if due != 0 && due <= now && self.due.compare_exchange(due, LATE, Relaxed, Relaxed).is_ok() {
            // It may be closed already.
            let _ = shutdown(&self.descriptor, Shutdown::Both);
        }
    }

    /// Whether it was late.
    pub fn is_late(&self) -> bool {
        self.due.load(Relaxed) == LATE
    }

    /// The pool of its request, and when the request began; `None`: it has none.
    pub fn busy(&self) -> Option<(usize, u64)> {
        let began = self.began.load(Relaxed);
        (began != 0).then(|| (self.pool.load(Relaxed), began))
    }
}

/// A connected socket, registered with the runtime.
#[derive(Debug)]
pub enum FastcgiStream {
    /// A Unix socket.
    Unix(UnixStream),
    /// A TCP connection.
    Tcp(TcpStream),
}

impl FastcgiStream {
    /// The process that listens at the other end, if it is visible to this one.
    pub fn process(&self) -> Option<u32> {
        match self {
            FastcgiStream::Unix(stream) => u32::try_from(stream.peer_cred().ok()?.pid()?).ok(),
            FastcgiStream::Tcp(_) => None,
        }
    }

    /// The bare socket; it does not block.
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
/// The errors of connecting; `TimedOut` if it took longer than `limit`.
pub async fn connect(address: &plan::Backend, limit: Duration) -> io::Result<FastcgiStream> {
    let connecting = async {
        Ok(match address {
            plan::Backend::Unix(path) => FastcgiStream::Unix(UnixStream::connect(path).await?),
            plan::Backend::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                // A request may be sent in two pieces.
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
