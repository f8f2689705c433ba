//! A long response: a task ([`super::pump`]) moves it from the worker into a pipe, and the protocol takes it from
//! there.
//!
//! ```text
//!   worker ──> tail ──> disk ──> front ──> protocol ──> client
//!      └───────────────────────────↑   (nothing in between, while the client keeps up)
//! ```
//!
//! The worker is free as soon as its script has finished, however slow the client is. Content that the client has not
//! taken yet waits in memory, and content beyond a megabyte on disk (`server.spool_bytes`); beyond that the script
//! waits. If a response is sent in a coding ([`ContentSource::code`]), it is coded on its way in, not on its way out.
//!
//! A script is held up for a moment before anything goes to disk, because most clients only seem to be slow. A pipe
//! belongs to one thread.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use super::answer::{Unheard, note};
use super::worker::FrameSink;
use millrace_base::message::reply::{Aside, Coder, ContentSource};
use millrace_wire::encoding::Coding;
use millrace_wire::frames::{EndFrame, Frame};

/// The rest of a response that a worker is still making. Dropping it before its end tells the script that its client
/// has gone.
#[derive(Debug)]
pub struct PhpStream {
    pipe: Rc<Pipe>,
    /// Remaining bytes of the announced length; `None` if the script announced none, or the content is coded.
    left: Option<u64>,
}

/// Between the task and the stream.
#[derive(Debug, Default)]
pub struct Pipe {
    /// The content that is taken next.
    front: RefCell<Vec<u8>>,
    /// The latest content, if other content lies between it and the front.
    tail: RefCell<Vec<u8>>,
    /// Content lies behind the front, on disk or in the tail: new content comes after it.
    behind: Cell<bool>,
    /// The memory for connections is used up.
    short: Cell<bool>,
    /// Content is, or was, on disk.
    on_disk: Cell<bool>,
    /// Codes all content; `None`: it is sent as it is.
    coder: RefCell<Option<Coder>>,
    /// Content has come since that was asked last.
    moved: Cell<bool>,
    /// The maker has finished.
    made: Cell<bool>,
    /// All content has been taken, or no more will come; the value tells whether it is complete.
    end: Cell<Option<bool>>,
    /// What the script reported beside the content.
    aside: RefCell<Option<Box<Aside>>>,
    /// The stream has been dropped.
    closed: Cell<bool>,
    /// The stream, if it waits for content.
    taker: RefCell<Option<Waker>>,
    /// The task, if it waits for room or content.
    giver: RefCell<Option<Waker>>,
}

/// Maximum bytes read into the front, and into the tail. With what is being sent to the client and what one read may
/// add, this is less than a megabyte.
pub const HALF: usize = 256 << 10;

/// The same when the memory for connections is used up.
const SHORT_HALF: usize = 16 << 10;

impl PhpStream {
    /// The stream that takes from `pipe`; `length` as the script announced it.
    pub fn new(pipe: Rc<Pipe>, length: Option<u64>) -> PhpStream {
        PhpStream { pipe, left: length }
    }
}

impl ContentSource for PhpStream {
    /// Remaining bytes, if the script announced the length by Content-Length.
    fn length(&self) -> Option<u64> {
        self.left
    }

    /// # Errors
    /// The worker died before it finished, or the script sent less than it announced.
    fn poll_next(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        if self.left == Some(0) {
            // Content beyond the announced length is not sent; the script may go on.
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
        // All announced content has been taken: the script has no client to lose any more.
        self.pipe.closed.set(self.left != Some(0) && !self.pipe.is_drained());
        wake(&self.pipe.giver);
    }
}

impl Pipe {
    /// A pipe that contains `content`.
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

    /// Codes all content from its start, of which nothing must have been taken; `announced`: bytes that the script
    /// announced. False if it is too late.
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
        self.moved.set(true);
        match &mut *self.coder.borrow_mut() {
            Some(coder) => self.add(|end| coder.push(piece, end)),
            None => self.add(|end| end.extend_from_slice(piece)),
        }
    }

    /// Whether content has come since the last call.
    pub fn has_moved(&self) -> bool {
        self.moved.take()
    }

    /// No more is available at the moment: makes the content so far readable.
    pub fn flush(&self) {
        if let Some(coder) = &mut *self.coder.borrow_mut() {
            self.add(|end| coder.flush(end));
        }
    }

    /// The maker has finished; `whole`: it made all, false if it has gone.
    pub fn made(&self, whole: bool) {
        self.made.set(whole);
        match &mut *self.coder.borrow_mut() {
            Some(coder) if whole => self.add(|end| coder.end(end)),
            Some(coder) => coder.give_up(),
            None => {}
        }
    }

    /// Whether other tasks should run before more is made; asked once per turn.
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

    /// Whether the content is coded completely, even if the script goes on.
    fn is_coded_whole(&self) -> bool {
        self.coder.borrow().as_ref().is_some_and(Coder::is_whole)
    }

    /// The same, and all of it has been taken.
    fn is_drained(&self) -> bool {
        self.is_coded_whole() && !self.behind.get() && self.front.borrow().is_empty()
    }

    /// Whether more may be read into memory. When the front is full, it goes into the tail from now on.
    pub fn has_room(&self) -> bool {
        if !self.behind.get() && self.front.borrow().len() >= self.half() {
            self.behind.set(true);
        }
        !self.behind.get() || self.tail.borrow().len() < self.half()
    }

    /// Whether the tail is so full that it must go to disk.
    pub fn is_tail_full(&self) -> bool {
        self.tail.borrow().len() >= self.half()
    }

    /// Sets whether memory is short.
    pub fn set_short(&self, short: bool) {
        self.short.set(short);
    }

    fn half(&self) -> usize {
        if self.short.get() { SHORT_HALF } else { HALF }
    }

    /// Whether the front is empty while content lies behind it.
    pub fn wants_front(&self) -> bool {
        self.behind.get() && self.front.borrow().is_empty()
    }

    /// Sets the content of the front, which must be empty.
    pub fn set_front(&self, content: Vec<u8>) {
        *self.front.borrow_mut() = content;
        wake(&self.taker);
    }

    /// Nothing lies between the tail and the front any more.
    pub fn join(&self) {
        self.behind.set(false);
        // The taker is woken even if nothing is there: this may have been the end.
        self.set_front(self.tail.take());
    }

    /// Bytes of memory that its content occupies.
    pub fn in_memory(&self) -> u64 {
        let coder = self.coder.borrow().as_ref().map_or(0, Coder::in_memory);
        (self.front.borrow().capacity() + self.tail.borrow().capacity() + coder) as u64
    }

    /// Content goes to disk.
    pub fn goes_to_disk(&self) {
        self.on_disk.set(true);
    }

    /// Whether content lies behind the front.
    pub fn is_behind(&self) -> bool {
        self.behind.get()
    }

    /// The latest content.
    pub fn tail(&self) -> &RefCell<Vec<u8>> {
        &self.tail
    }

    /// No more content comes; `whole`: because that was all.
    pub fn end(&self, whole: bool) {
        self.end.set(Some(whole));
        wake(&self.taker);
    }

    /// What the script reported beside the content.
    pub fn aside(&self) -> &RefCell<Option<Box<Aside>>> {
        &self.aside
    }

    /// Wakes the giver when content was taken, or the taker has gone.
    pub fn wake_giver(&self, cx: &Context<'_>) {
        *self.giver.borrow_mut() = Some(cx.waker().clone());
    }

    /// Whether the taker has gone.
    pub fn is_unwanted(self: &Rc<Self>) -> bool {
        Rc::strong_count(self) == 1
    }

    /// For an unwanted pipe: whether its client has gone. Otherwise the client has all that was announced.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }
}

fn wake(waker: &RefCell<Option<Waker>>) {
    if let Some(waker) = waker.borrow_mut().take() {
        waker.wake();
    }
}

/// Passes content to the pipe, everything else to the log.
pub struct ToPipe<'a> {
    /// Where the content goes.
    pub pipe: &'a Pipe,
    /// The end, if it has come.
    pub end: Option<EndFrame>,
    /// Takes everything else.
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
