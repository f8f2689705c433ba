//! A long answer: a task pumps it from the worker into a bounded buffer, the protocol takes it from there.
//!
//! The task exists so that the worker is free as soon as the script has finished, however slow the client is, as long
//! as the rest fits into the buffer. Nothing here belongs to more than one thread.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use millrace_wire::frames::{End, Frame};

use super::answer::{Unheard, note};
use super::exchange;
use super::pool::Lease;
use super::worker::Sink;
use crate::engine::Thread;
use crate::reply::{Aside, Source};
use crate::stats::Counter;

/// Bytes of an answer that are held for a client slower than its script. Beyond, the script waits.
pub const KEEP_BYTES: usize = 256 << 10;

/// The rest of an answer that a worker is still making. Dropping it before its end tells the script that its client
/// has gone.
#[derive(Debug)]
pub struct Stream {
    pipe: Rc<Pipe>,
    /// Bytes that are still to come, as the script announced.
    left: Option<u64>,
}

/// Between the task and the stream.
#[derive(Debug, Default)]
struct Pipe {
    buffer: RefCell<Vec<u8>>,
    /// The worker's part is over: well, or not.
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

/// A stream that begins with `content`; a local task goes on with the worker.
pub fn start(thread: &Rc<Thread>, lease: Lease, content: Vec<u8>, length: Option<u64>) -> Stream {
    let pipe = Rc::new(Pipe { buffer: RefCell::new(content), ..Pipe::default() });
    tokio::task::spawn_local(pump(thread.clone(), lease, pipe.clone()));
    Stream { pipe, left: length }
}

impl Source for Stream {
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

    fn take_aside(&mut self) -> Option<Box<Aside>> {
        self.pipe.aside.borrow_mut().take()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // All that was announced has been taken: the script has no client to lose any more.
        self.pipe.closed.set(self.left != Some(0));
        wake(&self.pipe.giver);
    }
}

impl Pipe {
    fn poll_take(&self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        let mut buffer = self.buffer.borrow_mut();
        if !buffer.is_empty() {
            if out.is_empty() {
                std::mem::swap(out, &mut buffer);
            } else {
                out.append(&mut buffer);
            }
            wake(&self.giver);
            return Poll::Ready(Ok(true));
        }
        match self.end.get() {
            Some(true) => Poll::Ready(Ok(false)),
            Some(false) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            None => {
                *self.taker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Nobody takes the rest, though nobody has gone: it is let fall.
    fn is_unwanted(self: &Rc<Self>) -> bool {
        Rc::strong_count(self) == 1
    }
}

fn wake(waker: &RefCell<Option<Waker>>) {
    if let Some(waker) = waker.borrow_mut().take() {
        waker.wake();
    }
}

/// Takes content for the pipe, the rest for the log.
struct ToPipe<'a> {
    pipe: &'a Pipe,
    end: Option<End>,
    unheard: Unheard<'a>,
}

impl Sink for ToPipe<'_> {
    fn take(&mut self, frame: Frame<'_>) {
        match frame {
            Frame::Body(piece) => self.pipe.buffer.borrow_mut().extend_from_slice(piece),
            Frame::End(end) => self.end = Some(end),
            Frame::Note { kind, text } => {
                note(&mut self.pipe.aside.borrow_mut(), &self.unheard, kind, text);
            }
            frame => self.unheard.take(frame),
        }
    }
}

/// Pumps until the answer is complete, the worker dies, or the stream is dropped.
async fn pump(thread: Rc<Thread>, mut lease: Lease, pipe: Rc<Pipe>) {
    let card = lease.worker().card.clone();
    let shared = lease.shared().clone();
    let unheard = shared.unheard(&card);
    let mut into = ToPipe { pipe: &pipe, end: None, unheard };
    let result = poll_fn(|cx| {
        *pipe.giver.borrow_mut() = Some(cx.waker().clone());
        loop {
            if pipe.is_unwanted() {
                return Poll::Ready(Ok(()));
            }
            if pipe.buffer.borrow().len() >= KEEP_BYTES {
                return Poll::Pending;
            }
            let before = pipe.buffer.borrow().len();
            let polled = lease.worker().poll_read(cx, &mut into);
            if pipe.buffer.borrow().len() > before {
                wake(&pipe.taker);
            }
            match polled {
                Poll::Ready(Ok(())) if into.end.is_none() => (),
                other => return other,
            }
        }
    })
    .await;
    let end = into.end;
    thread.clock.read();
    thread.process.script_speaks();
    match result {
        Err(error) => {
            exchange::note_loss(&thread, &mut lease, &error);
            pipe.end.set(Some(false));
        }
        Ok(()) if end.is_some() || !pipe.closed.get() => {
            if end.is_some() && card.is_overdue() {
                thread.stats.add(Counter::PhpTimeouts, 1);
            }
            if end.is_some_and(|end| end.failed) {
                thread.stats.add(Counter::PhpFailures, 1);
                pipe.aside.borrow_mut().get_or_insert_default().failed = true;
            }
            pipe.end.set(Some(true));
            lease.finish(thread.clock.now());
        }
        // Dropped: the worker is told, and looked after until it has finished.
        Ok(()) => drop(lease),
    }
    wake(&pipe.taker);
}
