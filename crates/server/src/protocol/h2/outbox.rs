//! Responses in progress: which one is sent next.
//!
//! The library sends what it gets in turns, one frame of each response. So it gets only what can be sent at once:
//! content for which the client has room (RFC 9113 section 5.2), of the most urgent response first, as much as the
//! socket takes. A slow response needs no additional memory: files are read when it is their turn.

use std::cmp::Reverse;
use std::rc::Weak;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::{Reason, SendStream};

use super::connection::Connection;
use super::content::{Piece, UnsentContent};
use super::priority::Priority;
use super::{head, unread};
use crate::protocol::ProtocolThread;
use crate::serve::Exchange;
use millrace_base::context::budget::REQUEST_BYTES;

/// Bytes passed to the library at once: a frame size that every client accepts.
const PIECE_BYTES: u64 = 16 * 1024;

/// A response in progress.
pub(super) struct OutgoingResponse {
    /// Number of its stream.
    pub(super) id: u32,
    /// Sends its content.
    pub(super) send: SendStream<Piece>,
    /// Its unsent content.
    pub(super) content: UnsentContent,
    /// Its priority.
    pub(super) priority: Priority,
    /// Recorded at its end; `None`: it was already recorded.
    pub(super) exchange: Option<Box<Exchange>>,
    /// If the request's content has not ended: the connection, whose stream will be reset.
    pub(super) unread: Option<Weak<Connection>>,
    /// Its status.
    pub(super) status: u16,
    /// Time until its head was sent.
    pub(super) first_byte: Duration,
    /// Bytes of content that were sent.
    sent: u64,
    /// When it had its last turn, if it is incremental.
    turn: u64,
    /// It has nothing to send in this round, or the client has no room.
    held: bool,
    /// Since when the client has had no room for it.
    stalled: Option<u64>,
}

/// The result of a turn.
enum SendTurn {
    /// Number of bytes passed to the library.
    Gave(usize),
    /// It waits for its maker or the client.
    Held,
    /// All of it was passed to the library.
    Done(usize),
    /// It can't continue.
    Failed,
}

/// All responses in progress.
#[derive(Default)]
pub(super) struct Outbox {
    answers: Vec<OutgoingResponse>,
    turns: u64,
}

impl OutgoingResponse {
    pub(super) fn new(
        id: u32,
        send: SendStream<Piece>,
        content: UnsentContent,
        priority: Priority,
    ) -> OutgoingResponse {
        OutgoingResponse {
            id,
            send,
            content,
            priority,
            exchange: None,
            unread: None,
            status: 0,
            first_byte: Duration::ZERO,
            sent: 0,
            turn: 0,
            held: false,
            stalled: None,
        }
    }

    /// Passes its next piece to the library.
    fn go(&mut self, cx: &mut Context<'_>, room: usize, now: u64) -> SendTurn {
        let there = match self.content.poll_there(cx) {
            Poll::Pending => return SendTurn::Held,
            Poll::Ready(Err(_)) => return SendTurn::Failed,
            Poll::Ready(Ok(None)) => {
                let trailers = self.content.take_trailers();
                let ended = match trailers.is_empty() {
                    true => self.send.send_data(Piece::Made(Default::default()), true),
                    false => self.send.send_trailers(head::trailers(&trailers)),
                };
                return if ended.is_ok() { SendTurn::Done(0) } else { SendTurn::Failed };
            }
            Poll::Ready(Ok(Some(there))) => there,
        };
        let Some(count) = self.capacity(there, room) else {
            self.stalled.get_or_insert(now);
            return SendTurn::Held;
        };
        self.stalled = None;
        let Ok(piece) = self.content.take(count) else { return SendTurn::Failed };
        let over = self.content.is_over();
        let count = bytes::Buf::remaining(&piece);
        self.sent += count as u64;
        match self.send.send_data(piece, over) {
            Err(_) => SendTurn::Failed,
            Ok(()) if over => SendTurn::Done(count),
            Ok(()) => SendTurn::Gave(count),
        }
    }

    /// How much of the available content the client has room for.
    fn capacity(&mut self, there: u64, room: usize) -> Option<usize> {
        let wanted = there.min(PIECE_BYTES).min(room as u64) as usize;
        self.send.reserve_capacity(wanted);
        let capacity = self.send.capacity().min(wanted);
        if capacity == 0 {
            // Leaves the connection's room to others.
            self.send.reserve_capacity(0);
        }
        Some(capacity).filter(|capacity| *capacity > 0)
    }

    /// Records it; `Err`: not all of it was sent, for this reason.
    fn end(mut self, thread: &ProtocolThread, whole: Result<(), Reason>) {
        match whole {
            Ok(()) => unread::end(self.send, self.unread),
            Err(why) => self.send.send_reset(why),
        }
        if let Some(exchange) = self.exchange {
            exchange.record(&thread.serve, self.status, self.sent, self.first_byte);
            thread.buffers.give_back(exchange.request.head);
        }
    }
}

impl Outbox {
    /// Adds a response.
    pub(super) fn push(&mut self, answer: OutgoingResponse) {
        self.answers.push(answer);
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Passes up to about `room` bytes to the library. Returns how many; the end of a response counts as one.
    pub(super) fn write(&mut self, thread: &ProtocolThread, cx: &mut Context<'_>, room: usize) -> usize {
        let now = thread.context.clock.ticks();
        self.answers.iter_mut().for_each(|answer| answer.held = false);
        let mut given = 0;
        while given < room {
            let Some(next) = self.next() else { break };
            let answer = &mut self.answers[next];
            match answer.go(cx, room - given, now) {
                SendTurn::Gave(count) => {
                    given += count;
                    if answer.priority.incremental {
                        self.turns += 1;
                        answer.turn = self.turns;
                    }
                }
                SendTurn::Held => answer.held = true,
                SendTurn::Done(count) => {
                    given += count.max(1);
                    self.answers.swap_remove(next).end(thread, Ok(()));
                }
                SendTurn::Failed => {
                    given += 1;
                    self.answers.swap_remove(next).end(thread, Err(Reason::INTERNAL_ERROR));
                }
            }
        }
        given
    }

    /// The next response: by urgency; then the ones that are not incremental, in sequence; then the incremental ones
    /// in turns.
    fn next(&self) -> Option<usize> {
        let can_go = self.answers.iter().enumerate().filter(|(_, answer)| !answer.held);
        let key = |answer: &OutgoingResponse| {
            (answer.priority.urgency, answer.priority.incremental, answer.turn, answer.id)
        };
        can_go.max_by_key(|(_, answer)| Reverse(key(answer))).map(|(index, _)| index)
    }

    /// The client has cancelled the request on this stream.
    pub(super) fn cancel(&mut self, thread: &ProtocolThread, id: u32) {
        if let Some(index) = self.answers.iter().position(|answer| answer.id == id) {
            self.answers.swap_remove(index).end(thread, Err(Reason::INTERNAL_ERROR));
        }
    }

    /// The client has changed the priority of this stream.
    pub(super) fn reorder(&mut self, id: u32, priority: Priority) {
        if let Some(answer) = self.answers.iter_mut().find(|answer| answer.id == id) {
            answer.priority = priority;
        }
    }

    /// Their memory, bytes.
    pub(super) fn in_memory(&self) -> usize {
        let bytes = |answer: &OutgoingResponse| REQUEST_BYTES as usize + answer.content.in_memory();
        self.answers.iter().map(bytes).sum()
    }

    /// Since when the client has had no room for one of them.
    pub(super) fn stalled_since(&self) -> Option<u64> {
        self.answers.iter().filter_map(|answer| answer.stalled).min()
    }

    /// Ends responses for which the client has had no room since `tick`, and returns their number.
    pub(super) fn end_stalled(&mut self, thread: &ProtocolThread, tick: u64) -> usize {
        let (stalled, others): (Vec<OutgoingResponse>, Vec<OutgoingResponse>) =
            std::mem::take(&mut self.answers)
                .into_iter()
                .partition(|answer| answer.stalled.is_some_and(|since| since <= tick));
        self.answers = others;
        let count = stalled.len();
        // The client wants no more of them (RFC 9113 section 7).
        stalled.into_iter().for_each(|answer| answer.end(thread, Err(Reason::CANCEL)));
        count
    }

    /// The connection has ended.
    pub(super) fn abandon(&mut self, thread: &ProtocolThread) {
        self.answers.drain(..).for_each(|answer| answer.end(thread, Err(Reason::CANCEL)));
    }
}
