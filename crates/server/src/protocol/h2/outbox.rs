//! Answers that are being sent: who writes next.
//!
//! The library sends what it is given in turns, one frame of each answer. So it is given only what leaves at once: content for
//! which the client has room (RFC 9113 section 5.2), of the most urgent answer first, as much as the line takes. Nothing of a
//! slow answer is in memory that was not there before: files are read when it is their turn.

use std::cmp::Reverse;
use std::rc::Weak;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::{Reason, SendStream};

use super::connection::Connection;
use super::content::{Piece, UnsentContent};
use super::priority::Priority;
use super::unread;
use crate::context::budget::REQUEST_BYTES;
use crate::protocol::ProtocolThread;
use crate::serve::Exchange;

/// Bytes given to the library at once: a frame as every client takes it.
const PIECE_BYTES: u64 = 16 * 1024;

/// An answer that is being sent.
pub(super) struct OutgoingResponse {
    /// Number of its stream.
    pub(super) id: u32,
    /// Where its content goes.
    pub(super) send: SendStream<Piece>,
    /// What is left of that.
    pub(super) content: UnsentContent,
    /// How urgent it is.
    pub(super) priority: Priority,
    /// What is recorded at its end; `None`: it has been.
    pub(super) exchange: Option<Box<Exchange>>,
    /// The request's content has not ended: the connection of the stream, which is to be reset.
    pub(super) unread: Option<Weak<Connection>>,
    /// Its status.
    pub(super) status: u16,
    /// How long its head took.
    pub(super) first_byte: Duration,
    /// Bytes of content that were sent.
    sent: u64,
    /// When it had its last turn, if it takes turns.
    turn: u64,
    /// It has nothing to send in this round, or no room.
    held: bool,
    /// Since when the client has had no room for it.
    stalled: Option<u64>,
}

/// What became of a turn.
enum SendTurn {
    /// So many bytes were given to the library.
    Gave(usize),
    /// It has to wait for its maker or the client.
    Held,
    /// All of it was given to the library.
    Done(usize),
    /// It can't go on.
    Failed,
}

/// Answers that are being sent.
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

    /// Gives the library its next piece.
    fn go(&mut self, cx: &mut Context<'_>, room: usize, now: u64) -> SendTurn {
        let there = match self.content.poll_there(cx) {
            Poll::Pending => return SendTurn::Held,
            Poll::Ready(Err(_)) => return SendTurn::Failed,
            Poll::Ready(Ok(None)) => {
                let ended = self.send.send_data(Piece::Made(Default::default()), true);
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

    /// How much of what is there the client has room for.
    fn capacity(&mut self, there: u64, room: usize) -> Option<usize> {
        let wanted = there.min(PIECE_BYTES).min(room as u64) as usize;
        self.send.reserve_capacity(wanted);
        let capacity = self.send.capacity().min(wanted);
        if capacity == 0 {
            // Others shall have what the connection has room for.
            self.send.reserve_capacity(0);
        }
        Some(capacity).filter(|capacity| *capacity > 0)
    }

    /// Records it; `whole`: all of it was sent.
    fn end(mut self, thread: &ProtocolThread, whole: bool) {
        match whole {
            true => unread::end(self.send, self.unread),
            false => self.send.send_reset(Reason::INTERNAL_ERROR),
        }
        if let Some(exchange) = self.exchange {
            exchange.record(thread, self.status, self.sent, self.first_byte);
            thread.buffers.give_back(exchange.request.head);
        }
    }
}

impl Outbox {
    /// Adds an answer.
    pub(super) fn push(&mut self, answer: OutgoingResponse) {
        self.answers.push(answer);
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Gives the library up to about `room` bytes. Returns how many, and counts the end of an answer for one.
    pub(super) fn write(&mut self, thread: &ProtocolThread, cx: &mut Context<'_>, room: usize) -> usize {
        let now = thread.clock.ticks();
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
                    self.answers.swap_remove(next).end(thread, true);
                }
                SendTurn::Failed => {
                    given += 1;
                    self.answers.swap_remove(next).end(thread, false);
                }
            }
        }
        given
    }

    /// Whose turn it is: by urgency; then those that are of use only as a whole, one after the other; then the others by turns.
    fn next(&self) -> Option<usize> {
        let can_go = self.answers.iter().enumerate().filter(|(_, answer)| !answer.held);
        let key = |answer: &OutgoingResponse| {
            (answer.priority.urgency, answer.priority.incremental, answer.turn, answer.id)
        };
        can_go.max_by_key(|(_, answer)| Reverse(key(answer))).map(|(index, _)| index)
    }

    /// The client has cancelled the request of this number.
    pub(super) fn cancel(&mut self, thread: &ProtocolThread, id: u32) {
        if let Some(index) = self.answers.iter().position(|answer| answer.id == id) {
            self.answers.swap_remove(index).end(thread, false);
        }
    }

    /// The client has changed its mind about the request of this number.
    pub(super) fn reorder(&mut self, id: u32, priority: Priority) {
        if let Some(answer) = self.answers.iter_mut().find(|answer| answer.id == id) {
            answer.priority = priority;
        }
    }

    /// Bytes of memory that they take.
    pub(super) fn in_memory(&self) -> usize {
        let bytes = |answer: &OutgoingResponse| REQUEST_BYTES as usize + answer.content.in_memory();
        self.answers.iter().map(bytes).sum()
    }

    /// Since when the client has had no room for one of them.
    pub(super) fn stalled_since(&self) -> Option<u64> {
        self.answers.iter().filter_map(|answer| answer.stalled).min()
    }

    /// Ends those for which it has had no room since `tick`, and returns how many there were.
    pub(super) fn end_stalled(&mut self, thread: &ProtocolThread, tick: u64) -> usize {
        let (stalled, others): (Vec<OutgoingResponse>, Vec<OutgoingResponse>) =
            std::mem::take(&mut self.answers)
                .into_iter()
                .partition(|answer| answer.stalled.is_some_and(|since| since <= tick));
        self.answers = others;
        let count = stalled.len();
        stalled.into_iter().for_each(|answer| answer.end(thread, false));
        count
    }

    /// The connection has ended.
    pub(super) fn abandon(&mut self, thread: &ProtocolThread) {
        self.answers.drain(..).for_each(|answer| answer.end(thread, false));
    }
}
