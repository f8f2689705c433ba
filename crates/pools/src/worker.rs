//! One worker's socket: sending a request, reading frames.
//!
//! The socket belongs to one event loop at a time ([`Worker::settle`]), or to none. It is watched for reading only:
//! otherwise each request that the worker reads would wake the loop once more, just to report room for writing.
//!
//! If a request was sent ahead, frames may follow the end of a response: they are stored for the worker's next
//! holder.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use millrace_wire::frames::{EndFrame, Frame, FrameDecoder, FrameError, FrameStep};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, send, sendmsg};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::crashes::Pass;
use super::pool::admission::Rank;
use super::pool::fits::{BootKind, ImageTerms};
use super::pool::pools::PoolId;
use super::pool::waiters::{QueuePlace, SentAhead};
use super::worker_handle::WorkerHandle;

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

thread_local! {
    /// Input stays here until it is parsed: no worker owns a buffer.
    static INPUT: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// A worker process, seen from the server. The holder of this value has the worker exclusively.
#[derive(Debug)]
pub struct Worker {
    /// The part that is shared with others.
    pub handle: Arc<WorkerHandle>,
    /// When it became idle, milliseconds since the pool was created.
    pub idle_since: u64,
    /// Whether its last request was very short.
    pub quick: bool,
    /// The pool of its request, or of its last one.
    pub pool: PoolId,
    /// The rank of that request.
    pub rank: Rank,
    /// If workers are rewound: the kind of that request's boot, the kind of the one that its image was made of, and the number of images
    /// that it had made then.
    pub kind: Option<BootKind>,
    pub image: BootKind,
    pub images_made: u64,
    /// Whether its request may use or make an image.
    pub terms: ImageTerms,
    /// How its last request has ended.
    pub last_end: Option<EndFrame>,
    /// Whether it counts as running for that pool.
    pub counted: bool,
    /// Permission to run its request, if crashes of its script are watched.
    pub pass: Option<Pass>,
    /// The niceness of the process, beyond the server's.
    pub nice: u8,
    socket: WorkerSocket,
    decoder: FrameDecoder,
    /// The start of a frame whose rest has not arrived.
    rest: Vec<u8>,
    /// The bytes in `rest` follow the end of the last response: they can be parsed.
    behind: bool,
    phase: WorkerPhase,
    /// Why its script ended before it took a request.
    unbooted: Option<String>,
    lost: bool,
    /// The number of its request, or of its last one.
    sequence: u64,
    /// The highest number used so far.
    numbers: u64,
    /// The waiters whose requests were sent ahead, with the requests' numbers.
    offered: VecDeque<(QueuePlace, u64)>,
}

/// What a worker is doing.
///
/// ```text
///  Booting ── HANDLER ready ──> Ready, HANDLER failed ──> Gone
///
///  Ready ── begin ──> Running ── END ready ────────────> Ready
///    │                 ↑ │ ├──── END ──> Background ── READY ──> Ready
///    └ begin_offered ──┘ │ └──── END or READY with exiting ────> Gone
///                        └── broken frames, end of file ───────> Gone
/// ```
///
/// While it is Running, its next requests may have been sent ahead ([`Worker::offer`]). The worker itself goes on to
/// them at its END; this value follows with `begin_offered`, when the pool has found the waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerPhase {
    /// Its script, a persistent worker's, has not reached its loop yet.
    Booting,
    /// Takes a request.
    Ready,
    /// Has a request; END has not come.
    Running,
    /// The response is complete, the script still runs.
    Background,
    /// Takes no request any more.
    Gone,
}

#[derive(Debug)]
enum WorkerSocket {
    /// Watched by the event loop of this number.
    Settled(usize, AsyncFd<OwnedFd>),
    /// Not watched.
    Loose(OwnedFd),
    /// Lost on the way from one loop to another.
    Lost,
}

impl Drop for Worker {
    /// Closes the socket, and the process ends. Its handle has the socket, too.
    fn drop(&mut self) {
        self.handle.end_socket();
    }
}

/// Takes a worker's frames.
pub trait FrameSink {
    /// A frame, or a piece of content.
    fn take(&mut self, frame: Frame<'_>);
}

impl Worker {
    /// A newly forked worker; `socket` is the server's end and does not block.
    pub fn new(handle: Arc<WorkerHandle>, socket: OwnedFd) -> Worker {
        Worker {
            handle,
            idle_since: 0,
            quick: false,
            kind: None,
            image: 0,
            images_made: 0,
            terms: ImageTerms::default(),
            last_end: None,
            pool: PoolId::FRONT,
            rank: Rank::Visitor,
            counted: false,
            pass: None,
            nice: 0,
            socket: WorkerSocket::Loose(socket),
            decoder: FrameDecoder::default(),
            rest: Vec::new(),
            behind: false,
            phase: WorkerPhase::Ready,
            unbooted: None,
            lost: false,
            sequence: 0,
            numbers: 0,
            offered: VecDeque::new(),
        }
    }

    /// A newly forked worker that has to boot a script first.
    pub fn booting(handle: Arc<WorkerHandle>, socket: OwnedFd) -> Worker {
        let mut worker = Worker::new(handle, socket);
        worker.phase = WorkerPhase::Booting;
        worker
    }

    /// Why its script ended before it took a request; `None` if it has not said so.
    pub fn unbooted(&self) -> Option<&str> {
        self.unbooted.as_deref()
    }

    /// What it is doing now.
    pub fn phase(&self) -> WorkerPhase {
        self.phase
    }

    /// The event loop that watches its socket.
    pub fn home(&self) -> Option<usize> {
        match self.socket {
            WorkerSocket::Settled(thread, _) => Some(thread),
            _ => None,
        }
    }

    /// Registers the socket with this event loop, whose number is `thread`.
    ///
    /// # Errors
    /// The loop can't watch another descriptor.
    pub fn settle(&mut self, thread: usize) -> io::Result<()> {
        if self.home() == Some(thread) {
            return Ok(());
        }
        self.loosen();
        let WorkerSocket::Loose(socket) = std::mem::replace(&mut self.socket, WorkerSocket::Lost) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        self.socket = WorkerSocket::Settled(thread, watch(socket, Interest::READABLE)?);
        Ok(())
    }

    /// Stops watching the socket. From any thread.
    pub fn loosen(&mut self) {
        match std::mem::replace(&mut self.socket, WorkerSocket::Lost) {
            WorkerSocket::Settled(_, socket) => self.socket = WorkerSocket::Loose(socket.into_inner()),
            other => self.socket = other,
        }
    }

    /// The number of its request, or of its last one.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The number that the next request gets.
    pub fn next_sequence(&self) -> u64 {
        self.numbers + 1
    }

    /// The next request is about to be sent: from now on frames may arrive.
    pub fn begin(&mut self) {
        self.numbers += 1;
        self.begin_number(self.numbers);
    }

    /// The request that was sent ahead is now the current one.
    pub fn begin_offered(&mut self, sequence: u64) {
        self.begin_number(sequence);
    }

    fn begin_number(&mut self, sequence: u64) {
        debug_assert!(self.phase == WorkerPhase::Ready || self.lost);
        self.sequence = sequence;
        self.last_end = None;
        self.handle.set_sequence(sequence);
        if !self.lost {
            self.phase = WorkerPhase::Running;
        }
        self.decoder.begin();
    }

    /// Prepares the offer of a request that is about to be sent ahead; `placed` then tells which waiter's it is.
    pub fn offer(&mut self) -> SentAhead {
        self.numbers += 1;
        self.handle.scoreboard.offer(self.handle.slot, self.numbers);
        SentAhead { handle: self.handle.clone(), sequence: self.numbers }
    }

    /// The waiter of the last offer.
    pub fn placed(&mut self, place: QueuePlace) {
        self.offered.push_back((place, self.numbers));
    }

    /// Number of requests that were sent ahead to it.
    pub fn offers(&self) -> usize {
        self.offered.len()
    }

    /// The waiter whose request was sent ahead last, and the request's number.
    pub fn last_offered(&self) -> Option<(QueuePlace, u64)> {
        self.offered.back().copied()
    }

    /// Forgets that request: it was taken back.
    pub fn forget_last_offered(&mut self) {
        self.offered.pop_back();
    }

    /// Takes out the waiter whose request was sent ahead first, and the request's number.
    pub fn take_offered(&mut self) -> Option<(QueuePlace, u64)> {
        self.offered.pop_front()
    }

    /// Whether it has read the whole request: then the script may have begun.
    pub fn has_received(&self) -> bool {
        self.handle.scoreboard.received(self.handle.slot) >= self.sequence
    }

    /// Tells it that the response is no longer wanted.
    pub fn abort(&self) {
        self.handle.scoreboard.abort(self.handle.slot, self.sequence);
    }

    /// Its socket.
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.socket {
            WorkerSocket::Settled(_, socket) => Ok(socket.get_ref().as_fd()),
            WorkerSocket::Loose(socket) => Ok(socket.as_fd()),
            WorkerSocket::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Sends as much of a frame as the socket takes now, `attached` with its first byte; returns the number of bytes.
    ///
    /// # Errors
    /// The worker has gone.
    pub fn send_now(&self, bytes: &[u8], attached: Option<BorrowedFd<'_>>) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let socket = self.descriptor()?;
        loop {
            let sent = match &attached {
                None => send(socket, bytes, flags),
                Some(descriptor) => {
                    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                    let mut ancillary = SendAncillaryBuffer::new(&mut space);
                    ancillary.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor)));
                    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)
                }
            };
            match sent {
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return Ok(0),
                other => return Ok(other?),
            }
        }
    }

    /// Sends the rest of a frame that did not fit at once, waiting for room; `attached` if nothing was sent yet.
    ///
    /// # Errors
    /// The worker has gone, or the loop can't watch its socket.
    pub async fn send_rest(&self, mut bytes: &[u8], mut attached: Option<BorrowedFd<'_>>) -> io::Result<()> {
        // A descriptor of its own is watched for writing, only during this call.
        let descriptor = self.descriptor()?.try_clone_to_owned()?;
        let writable = watch(descriptor, Interest::WRITABLE)?;
        while !bytes.is_empty() {
            let sent = self.send_now(bytes, attached)?;
            bytes = &bytes[sent..];
            if sent == 0 {
                writable.writable().await?.clear_ready();
            } else {
                attached = None;
            }
        }
        Ok(())
    }

    /// Marks it as lost: its frames are invalid, or it has gone.
    pub fn give_up(&mut self) {
        self.phase = WorkerPhase::Gone;
        self.lost = true;
        self.pass.iter_mut().for_each(Pass::set_lost);
    }

    /// Whether it was given up.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Reads once and passes the frames to `sink`. The socket must be settled on this event loop.
    ///
    /// # Errors
    /// The worker has gone (`UnexpectedEof` and others), or sends an invalid frame (`InvalidData`).
    pub fn poll_read(&mut self, cx: &mut Context<'_>, sink: &mut impl FrameSink) -> Poll<io::Result<()>> {
        if self.behind {
            return Poll::Ready(self.read_behind(sink));
        }
        INPUT.with_borrow_mut(|input| {
            let WorkerSocket::Settled(_, socket) = &self.socket else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            let length = ready!(poll_receive(socket, cx, input))?;
            Poll::Ready(self.parse(&input[..length], sink))
        })
    }

    /// Reads what is available and passes the frames to `sink`; false if nothing was available.
    ///
    /// # Errors
    /// As [`Worker::poll_read`].
    pub fn read_now(&mut self, sink: &mut impl FrameSink) -> io::Result<bool> {
        if self.behind {
            return self.read_behind(sink).map(|()| true);
        }
        INPUT.with_borrow_mut(|input| {
            let received = recv(self.descriptor()?, &mut input[..], RecvFlags::DONTWAIT);
            match received {
                Ok((0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((length, _)) => self.parse(&input[..length], sink).map(|()| true),
                Err(Errno::AGAIN | Errno::INTR) => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Whether frames arrived behind the end of the last response.
    pub fn has_behind(&self) -> bool {
        self.behind
    }

    /// Passes frames that arrived behind the end of the last response to `sink`.
    ///
    /// # Errors
    /// The bytes are not frames (`InvalidData`).
    pub fn read_behind(&mut self, sink: &mut impl FrameSink) -> io::Result<()> {
        if std::mem::take(&mut self.behind) { self.parse(&[], sink) } else { Ok(()) }
    }

    /// Splits the input into frames; the start of an incomplete one is stored.
    fn parse(&mut self, bytes: &[u8], sink: &mut impl FrameSink) -> io::Result<()> {
        let result = if self.rest.is_empty() {
            let result = self.frames(bytes, sink);
            if let Ok(used) = result {
                self.rest.extend_from_slice(&bytes[used..]);
            }
            result
        } else {
            let mut rest = std::mem::take(&mut self.rest);
            rest.extend_from_slice(bytes);
            let result = self.frames(&rest, sink);
            if let Ok(used) = result {
                rest.drain(..used);
                self.rest = rest;
            }
            result
        };
        match result {
            Ok(_) => Ok(()),
            Err(broken) => {
                self.phase = WorkerPhase::Gone;
                Err(io::Error::new(io::ErrorKind::InvalidData, broken))
            }
        }
    }

    fn frames(&mut self, input: &[u8], sink: &mut impl FrameSink) -> Result<usize, FrameError> {
        let mut at = 0;
        while at < input.len() {
            let FrameStep::Frame(frame, used) = self.decoder.next(&input[at..])? else { break };
            at += used;
            match &frame {
                Frame::End(EndFrame { exiting: true, .. }) | Frame::Ready(EndFrame { exiting: true, .. }) => {
                    self.phase = WorkerPhase::Gone;
                }
                Frame::Handler(Ok(())) if self.phase == WorkerPhase::Booting => {
                    self.phase = WorkerPhase::Ready
                }
                Frame::Handler(Ok(())) => (),
                Frame::Handler(Err(why)) => {
                    self.phase = WorkerPhase::Gone;
                    self.unbooted = Some(String::from_utf8_lossy(why).into_owned());
                }
                Frame::End(EndFrame { ready: false, .. }) => self.phase = WorkerPhase::Background,
                Frame::End(_) | Frame::Ready(_) => self.phase = WorkerPhase::Ready,
                _ => (),
            }
            if let Frame::End(end) = frame {
                self.last_end = Some(end);
                let told = self.handle.task().end.take();
                told.iter().filter(|_| !end.declined).for_each(|told| told.ended(end));
            }
            let over = matches!(frame, Frame::End(_) | Frame::Ready(_)) && self.phase == WorkerPhase::Ready;
            sink.take(frame);
            if over && !self.offered.is_empty() {
                // The rest belongs to the request that was sent ahead.
                self.behind = at < input.len();
                break;
            }
        }
        Ok(at)
    }
}

/// Registers a descriptor with this thread's event loop; `descriptor` is an `OwnedFd`, or owns one for good.
pub fn watch<D: AsRawFd>(descriptor: D, interest: Interest) -> io::Result<AsyncFd<D>> {
    #[expect(deprecated, reason = "unsound for types whose descriptor may change; these have one for good")]
    AsyncFd::with_interest(descriptor, interest)
}

/// Receives when data is available. A short read means that the socket is empty: the next wait begins without another
/// attempt.
pub fn poll_receive<D: AsRawFd + AsFd>(
    socket: &AsyncFd<D>,
    cx: &mut Context<'_>,
    input: &mut [u8],
) -> Poll<io::Result<usize>> {
    loop {
        let mut guard = ready!(socket.poll_read_ready(cx))?;
        match recv(socket.get_ref(), &mut *input, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Ok((length, _)) => {
                if length < input.len() {
                    guard.clear_ready();
                }
                return Poll::Ready(Ok(length));
            }
            Err(Errno::AGAIN) => guard.clear_ready(),
            Err(Errno::INTR) => (),
            Err(error) => return Poll::Ready(Err(error.into())),
        }
    }
}
