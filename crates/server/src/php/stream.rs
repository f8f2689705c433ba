//! A long answer: a task ([`super::pump`]) moves it from the worker into a pipe, the protocol takes it from there.
//!
//! ```text
//!   worker ──> tail ──> disk ──> front ──> protocol ──> client
//!      └───────────────────────────↑   (nothing in between, while the client keeps up)
//! ```
//!
//! The worker is free as soon as its script has finished, however slow the client is. What the client has not taken yet
//! waits in memory, and what would be more than a megabyte on disk (`server.spool_bytes`); beyond that the script waits.
//! An answer that is sent in a coding ([`ContentSource::code`]) is coded on its way in, not on its way out.
//!
//! A script is held up for a moment before anything goes to disk: most clients only seem to be slow. Nothing here belongs
//! to more than one thread.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use super::answer::{Unheard, note};
use super::worker::FrameSink;
use crate::message::reply::{Aside, Coder, ContentSource};
use millrace_wire::encoding::Coding;
use millrace_wire::frames::{EndFrame, Frame};

/// The rest of an answer that a worker is still making. Dropping it before its end tells the script that its client
/// has gone.
#[derive(Debug)]
pub struct PhpStream {
    pipe: Rc<Pipe>,
    /// Bytes that are still to come, as the script announced; `None` also if they come in a coding.
    left: Option<u64>,
}

/// Between the task and the stream.
#[derive(Debug, Default)]
pub struct Pipe {
    /// What is taken next.
    front: RefCell<Vec<u8>>,
    /// What has come last, if something lies between it and the front.
    tail: RefCell<Vec<u8>>,
    /// Something lies behind the front, on disk or in the tail: what comes now comes after that.
    behind: Cell<bool>,
    /// Memory for connections is used up.
    short: Cell<bool>,
    /// Something of it is, or was, on disk.
    on_disk: Cell<bool>,
    /// What codes all that comes; `None`: nothing does.
    coder: RefCell<Option<Coder>>,
    /// The maker has made all.
    made: Cell<bool>,
    /// All has been taken, or will not come: well, or not.
    end: Cell<Option<bool>>,
    /// What the script said beside the content.
    aside: RefCell<Option<Box<Aside>>>,
    /// The stream has been dropped.
    closed: Cell<bool>,
    /// The stream, waiting for content.
    taker: RefCell<Option<Waker>>,
    /// The task, waiting for room or content.
    giver: RefCell<Option<Waker>>,
}

/// Bytes at the front, and in the tail, from which on no more is read into them. With those that the client is being sent
/// and what one read may bring, less than a megabyte.
pub const HALF: usize = 256 << 10;

/// The same where the memory for connections is used up.
const SHORT_HALF: usize = 16 << 10;

impl PhpStream {
    /// The stream that takes from `pipe`; the script announced so many bytes.
    pub fn new(pipe: Rc<Pipe>, length: Option<u64>) -> PhpStream {
        PhpStream { pipe, left: length }
    }
}

impl ContentSource for PhpStream {
    /// Bytes that are still to come, if the script said so by Content-Length.
    fn length(&self) -> Option<u64> {
        self.left
    }

    /// # Errors
    /// The worker died before it finished, or the script sent less than it had announced.
    fn poll_next(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        if self.left == Some(0) {
            // What goes beyond the announced length is not sent; the script may go on.
            return Poll::Ready(Ok(false));
        }
        let before = buffer.len();
        if !ready!(self.pipe.poll_take(cx, buffer))? {
            return Poll::Ready(match self.left {
                Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
                None => Ok(false),
            });
        }
        if let Some(left) = &mut self.left {
            let piece = ((buffer.len() - before) as u64).min(*left);
            buffer.truncate(before + piece as usize);
            *left -= piece;
        }
        Poll::Ready(Ok(true))
    }

    fn there(&self) -> usize {
        self.pipe.front.borrow().len() + self.pipe.tail.borrow().len()
    }

    fn code(&mut self, coding: Coding) -> bool {
        let coded = self.pipe.code(coding, self.left);
        if coded {
            self.left = None;
        }
        coded
    }

    fn take_aside(&mut self) -> Option<Box<Aside>> {
        self.pipe.aside.borrow_mut().take()
    }
}

impl Drop for PhpStream {
    fn drop(&mut self) {
        // All that was announced has been taken: the script has no client to lose any more.
        self.pipe.closed.set(self.left != Some(0) && !self.pipe.is_drained());
        wake(&self.pipe.giver);
    }
}

impl Pipe {
    /// A pipe that has `content` in it.
    pub fn new(content: Vec<u8>) -> Rc<Pipe> {
        Rc::new(Pipe { front: RefCell::new(content), ..Pipe::default() })
    }

    fn poll_take(&self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        let mut front = self.front.borrow_mut();
        if !front.is_empty() {
            if out.is_empty() {
                std::mem::swap(out, &mut front);
            } else {
                out.append(&mut front);
            }
            wake(&self.giver);
            return Poll::Ready(Ok(true));
        }
        match self.end.get() {
            _ if self.is_coded_whole() && !self.behind.get() => Poll::Ready(Ok(false)),
            Some(true) if self.coder.borrow().is_none() => Poll::Ready(Ok(false)),
            Some(_) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            None => {
                *self.taker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Has everything coded from its start, of which nothing has been taken; the script announced so many bytes. False if it is
    /// too late for that.
    fn code(&self, coding: Coding, announced: Option<u64>) -> bool {
        if self.on_disk.get() || self.end.get() == Some(false) {
            return false;
        }
        let Some(mut coder) = Coder::new(coding, announced) else { return false };
        let mut coded = Vec::new();
        coder.push(&self.front.take(), &mut coded);
        coder.push(&self.tail.take(), &mut coded);
        if self.made.get() {
            coder.end(&mut coded);
        }
        *self.front.borrow_mut() = coded;
        *self.coder.borrow_mut() = Some(coder);
        self.behind.set(false);
        wake(&self.giver);
        true
    }

    /// Adds content.
    pub fn push(&self, piece: &[u8]) {
        match &mut *self.coder.borrow_mut() {
            Some(coder) => self.add(|end| coder.push(piece, end)),
            None => self.add(|end| end.extend_from_slice(piece)),
        }
    }

    /// Nothing more is there at the moment: what is there can be read.
    pub fn flush(&self) {
        if let Some(coder) = &mut *self.coder.borrow_mut() {
            self.add(|end| coder.flush(end));
        }
    }

    /// The maker has made all; or it has gone, and that is not `whole`.
    pub fn made(&self, whole: bool) {
        self.made.set(whole);
        match &mut *self.coder.borrow_mut() {
            Some(coder) if whole => self.add(|end| coder.end(end)),
            Some(coder) => coder.give_up(),
            None => {}
        }
    }

    /// Whether others are to have their turn before more is made; asked once a turn.
    pub fn ends_turn(&self) -> bool {
        self.coder.borrow_mut().as_mut().is_some_and(Coder::ends_turn)
    }

    fn add(&self, to_the_end: impl FnOnce(&mut Vec<u8>)) {
        if self.behind.get() {
            return to_the_end(&mut self.tail.borrow_mut());
        }
        let mut front = self.front.borrow_mut();
        to_the_end(&mut front);
        if !front.is_empty() {
            wake(&self.taker);
        }
    }

    /// Whether it comes in a coding and all has been coded that is to be sent, even if the script goes on.
    fn is_coded_whole(&self) -> bool {
        self.coder.borrow().as_ref().is_some_and(Coder::is_whole)
    }

    /// The same, and all of it has been taken.
    fn is_drained(&self) -> bool {
        self.is_coded_whole() && !self.behind.get() && self.front.borrow().is_empty()
    }

    /// Whether more may come into memory. When the front is full, it comes into the tail from now on.
    pub fn has_room(&self) -> bool {
        if !self.behind.get() && self.front.borrow().len() >= self.half() {
            self.behind.set(true);
        }
        !self.behind.get() || self.tail.borrow().len() < self.half()
    }

    /// Whether so much has come last that it has to go to disk.
    pub fn is_tail_full(&self) -> bool {
        self.tail.borrow().len() >= self.half()
    }

    /// Whether memory is short from now on.
    pub fn set_short(&self, short: bool) {
        self.short.set(short);
    }

    fn half(&self) -> usize {
        if self.short.get() { SHORT_HALF } else { HALF }
    }

    /// Whether nothing is there to be taken, though there is something.
    pub fn wants_front(&self) -> bool {
        self.behind.get() && self.front.borrow().is_empty()
    }

    /// Puts what comes next to the front, which is empty.
    pub fn set_front(&self, content: Vec<u8>) {
        *self.front.borrow_mut() = content;
        wake(&self.taker);
    }

    /// Nothing lies between the tail and the front any more.
    pub fn join(&self) {
        self.behind.set(false);
        // Whoever takes it is woken even if nothing is there: it may have been the end.
        self.set_front(self.tail.take());
    }

    /// Bytes of memory that its content takes.
    pub fn in_memory(&self) -> u64 {
        let coder = self.coder.borrow().as_ref().map_or(0, Coder::in_memory);
        (self.front.borrow().capacity() + self.tail.borrow().capacity() + coder) as u64
    }

    /// Something of it goes to disk.
    pub fn goes_to_disk(&self) {
        self.on_disk.set(true);
    }

    /// Whether something lies behind the front.
    pub fn is_behind(&self) -> bool {
        self.behind.get()
    }

    /// What has come last.
    pub fn tail(&self) -> &RefCell<Vec<u8>> {
        &self.tail
    }

    /// Nothing more comes; `whole`: because that was all.
    pub fn end(&self, whole: bool) {
        self.end.set(Some(whole));
        wake(&self.taker);
    }

    /// What the script said beside the content.
    pub fn aside(&self) -> &RefCell<Option<Box<Aside>>> {
        &self.aside
    }

    /// Has the giver woken when something was taken, or nobody takes any more.
    pub fn wake_giver(&self, cx: &Context<'_>) {
        *self.giver.borrow_mut() = Some(cx.waker().clone());
    }

    /// Nobody takes the rest.
    pub fn is_unwanted(self: &Rc<Self>) -> bool {
        Rc::strong_count(self) == 1
    }

    /// Of one that is unwanted: whether its client has gone. Else he has all that was announced.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }
}

fn wake(waker: &RefCell<Option<Waker>>) {
    if let Some(waker) = waker.borrow_mut().take() {
        waker.wake();
    }
}

/// Takes content for the pipe, the rest for the log.
pub struct ToPipe<'a> {
    /// Where the content goes.
    pub pipe: &'a Pipe,
    /// The end, if it has come.
    pub end: Option<EndFrame>,
    /// Who takes the rest.
    pub unheard: Unheard<'a>,
}

impl FrameSink for ToPipe<'_> {
    fn take(&mut self, frame: Frame<'_>) {
        match frame {
            Frame::Body(piece) => self.pipe.push(piece),
            Frame::End(end) => self.end = Some(end),
            Frame::Note { kind, text } => {
                note(&mut self.pipe.aside.borrow_mut(), &self.unheard, kind, text);
            }
            frame => self.unheard.take(frame),
        }
    }
}
