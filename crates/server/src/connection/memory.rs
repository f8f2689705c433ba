//! A client in memory, for tests: its data arrives in the pieces in which it was sent, and it takes no more than it
//! has room for.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The server's end.
#[derive(Debug)]
pub struct MemorySocket {
    between: Rc<RefCell<Between>>,
    /// Not a socket: queries to the kernel report that.
    descriptor: File,
}

/// The client's end. Dropping it ends the connection.
#[derive(Debug)]
pub struct MemoryClient(Rc<RefCell<Between>>);

#[derive(Debug)]
struct Between {
    /// Data that the server has not read. It gets one piece at a time.
    sent: VecDeque<Vec<u8>>,
    /// The client sends no more.
    is_sent: bool,
    /// Data that the client has not taken.
    answer: Vec<u8>,
    /// Maximum number of these bytes.
    room: usize,
    /// The server sends no more.
    is_answered: bool,
    /// The server has closed its end.
    is_closed: bool,
    /// Data that the client had not taken was dropped.
    is_reset: bool,
    server: Option<Waker>,
    client: Option<Waker>,
}

impl MemorySocket {
    /// Both ends.
    pub fn pair() -> (MemorySocket, MemoryClient) {
        let between = Rc::new(RefCell::new(Between {
            sent: VecDeque::new(),
            is_sent: false,
            answer: Vec::new(),
            room: usize::MAX,
            is_answered: false,
            is_closed: false,
            is_reset: false,
            server: None,
            client: None,
        }));
        (
            MemorySocket { between: between.clone(), descriptor: File::open("/dev/null").unwrap() },
            MemoryClient(between),
        )
    }

    pub(super) fn poll_read(&self, cx: &Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut between = self.between.borrow_mut();
        let Some(mut piece) = between.sent.pop_front() else {
            between.server = Some(cx.waker().clone());
            return if between.is_sent { Poll::Ready(Ok(0)) } else { Poll::Pending };
        };
        let length = piece.len().min(buffer.len());
        buffer[..length].copy_from_slice(&piece[..length]);
        if length < piece.len() {
            between.sent.push_front(piece.split_off(length));
        }
        between.wake_client();
        Poll::Ready(Ok(length))
    }

    pub(super) fn poll_gone(&self, cx: &Context<'_>) -> Poll<()> {
        let mut between = self.between.borrow_mut();
        between.server = Some(cx.waker().clone());
        if between.is_sent && between.sent.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    pub(super) fn poll_write(&self, cx: &Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self.try_write(pieces) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.between.borrow_mut().server = Some(cx.waker().clone());
                Poll::Pending
            }
            written => Poll::Ready(written),
        }
    }

    pub(super) fn try_write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut between = self.between.borrow_mut();
        let before = between.answer.len();
        if between.is_answered {
            return Err(io::ErrorKind::BrokenPipe.into());
        } else if before >= between.room {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        for piece in pieces {
            let fits = piece.len().min(between.room - between.answer.len());
            between.answer.extend_from_slice(&piece[..fits]);
        }
        between.wake_client();
        Ok(between.answer.len() - before)
    }

    pub(super) fn shut(&self, how: Shutdown) -> bool {
        let mut between = self.between.borrow_mut();
        let was_open = !(between.is_answered && between.is_sent);
        between.is_answered |= how != Shutdown::Read;
        if how != Shutdown::Write {
            between.is_sent = true;
            between.sent.clear();
            between.wake_server();
        }
        between.wake_client();
        was_open
    }

    pub(super) fn give_up_unsent(&self) {
        let mut between = self.between.borrow_mut();
        between.is_reset = true;
        between.answer.clear();
    }
}

impl AsFd for MemorySocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for MemorySocket {
    /// Like the kernel: unread or later data causes a reset.
    fn drop(&mut self) {
        {
            let mut between = self.between.borrow_mut();
            between.is_closed = true;
            between.is_reset |= !between.sent.is_empty();
        }
        self.shut(Shutdown::Both);
    }
}

impl MemoryClient {
    /// Sends a piece.
    pub fn send(&self, piece: impl AsRef<[u8]>) {
        let mut between = self.0.borrow_mut();
        between.is_reset |= between.is_closed;
        if !piece.as_ref().is_empty() && !between.is_sent {
            between.sent.push_back(piece.as_ref().to_vec());
        }
        between.wake_server();
    }

    /// Ends sending.
    pub fn end(&self) {
        let mut between = self.0.borrow_mut();
        between.is_sent = true;
        between.wake_server();
    }

    /// Sets the room in bytes, including data that has arrived and was not taken.
    pub fn set_room(&self, bytes: usize) {
        let mut between = self.0.borrow_mut();
        between.room = bytes;
        between.wake_server();
    }

    /// Takes data until `is_there` accepts it, or no more comes.
    pub async fn wait(&self, is_there: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let is_answered = {
                let mut between = self.0.borrow_mut();
                all.append(&mut between.answer);
                between.wake_server();
                between.is_answered
            };
            if is_answered || is_there(&all) {
                return all;
            }
            self.when(|between| between.is_answered || !between.answer.is_empty()).await;
        }
    }

    /// The response to its end.
    pub async fn rest(&self) -> Vec<u8> {
        self.wait(|_| false).await
    }

    /// Returns when the server has read everything, or will read no more.
    pub async fn is_read(&self) {
        self.when(|between| between.sent.is_empty()).await;
    }

    /// Bytes that have arrived and were not taken.
    pub fn untaken(&self) -> usize {
        self.0.borrow().answer.len()
    }

    /// Whether no more data comes.
    pub fn is_answered(&self) -> bool {
        self.0.borrow().is_answered
    }

    /// Whether untaken data is lost: the server has dropped it, or has closed its end before it read everything.
    pub fn is_reset(&self) -> bool {
        self.0.borrow().is_reset
    }

    async fn when(&self, is_so: impl Fn(&mut Between) -> bool) {
        poll_fn(|cx| {
            let mut between = self.0.borrow_mut();
            between.client = Some(cx.waker().clone());
            if is_so(&mut between) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Drop for MemoryClient {
    fn drop(&mut self) {
        let mut between = self.0.borrow_mut();
        (between.is_sent, between.is_answered) = (true, true);
        between.wake_server();
    }
}

impl Between {
    fn wake_server(&mut self) {
        self.server.take().into_iter().for_each(Waker::wake);
    }

    fn wake_client(&mut self) {
        self.client.take().into_iter().for_each(Waker::wake);
    }
}
