//! Requests that wait for a worker.
//!
//! They wait in four queues ([`QueueClass`]), each in order of their turns, normally the order of arrival. But a
//! worker that becomes free on an event loop serves one of that loop's own waiters if the first of all is ahead by
//! less than [`LEAD_MS`]: moving a worker's socket to another loop costs more than these milliseconds of order are
//! worth.
//!
//! A waiter whose request was sent ahead to a busy worker keeps its place. It gets that worker, or any other one that
//! becomes free before that worker has taken the request.

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use millrace_wire::frames::number;

use super::admission::Rank;
use super::fits::BootKind;
use crate::loopback::Ports;
use crate::worker_handle::{Task, WorkerHandle};

/// How much longer a waiter of another event loop must have waited to be served first, milliseconds.
const LEAD_MS: u64 = 10;

/// Waiting requests and the means to wake them.
#[derive(Debug)]
pub struct Waiters<T> {
    lines: [Queues<T>; QueueClass::ALL.len()],
    next_id: u64,
}

/// One class: a queue for each event loop.
#[derive(Debug)]
struct Queues<T> {
    /// Ordered by `turn`, then by `id`.
    queues: Vec<VecDeque<Waiter<T>>>,
    count: usize,
}

/// The queue in which a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueClass {
    /// Requests of visitors whom the application knows.
    Known,
    /// Steps on the way to an order.
    Buying,
    /// Requests of all other visitors.
    Visitor,
    /// Requests with unverified claims.
    Unproven,
}

impl QueueClass {
    /// All classes, in the order in which they are served.
    pub const ALL: [QueueClass; 4] =
        [QueueClass::Known, QueueClass::Buying, QueueClass::Visitor, QueueClass::Unproven];

    /// The rank of its requests. Visitors include clients that send more than their share.
    pub fn rank(self) -> Rank {
        match self {
            QueueClass::Known => Rank::Known,
            QueueClass::Buying => Rank::Buying,
            QueueClass::Visitor => Rank::Visitor,
            QueueClass::Unproven => Rank::Unproven,
        }
    }

    /// The class of a rank.
    pub fn of(rank: Rank) -> QueueClass {
        match rank {
            Rank::Known => QueueClass::Known,
            Rank::Buying => QueueClass::Buying,
            Rank::Visitor => QueueClass::Visitor,
            Rank::Unproven => QueueClass::Unproven,
        }
    }
}

/// The turn of a request: after all requests of earlier classes, and after requests of its own class with an earlier
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its class.
    pub line: QueueClass,
    /// Its effective arrival time, milliseconds.
    pub since: u64,
}

/// A waiting request.
#[derive(Debug)]
pub struct Waiter<T> {
    id: u64,
    /// Its turn.
    pub turn: Turn,
    /// When it arrived, milliseconds.
    pub since: u64,
    /// Its connection, if the client is on this machine.
    pub local: Option<Ports>,
    /// The whole request, if it is short.
    pub short: Option<Short>,
    /// The kind of its boot, if workers are rewound.
    pub kind: Option<BootKind>,
    /// The worker to which it was sent ahead.
    offer: Option<SentAhead>,
    /// Wakes it.
    pub wake: T,
}

/// A short request without a descriptor: any holder of a suitable worker can send it.
#[derive(Debug, Default)]
pub struct Short {
    /// Its REQUEST frame.
    pub frame: Vec<u8>,
    /// What it is about.
    pub task: Task,
}

thread_local! {
    /// Sent requests, whose memory is reused.
    static SPARE: RefCell<Vec<Short>> = const { RefCell::new(Vec::new()) };
}
/// Maximum number of them per thread.
const SPARE_MOST: usize = 64;

impl Short {
    /// An empty one.
    pub fn spare() -> Short {
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    /// It has been sent, or no longer needs to be: its memory is reused.
    pub fn give_back(mut self) {
        self.frame.clear();
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_MOST {
                spare.push(self);
            }
        });
    }
}

/// A request that was sent ahead to a worker.
#[derive(Clone, Debug)]
pub struct SentAhead {
    /// The worker's handle.
    pub handle: Arc<WorkerHandle>,
    /// The request's number on that worker.
    pub sequence: u64,
}

impl SentAhead {
    /// Whether the worker has taken it.
    pub fn is_taken(&self) -> bool {
        self.handle.scoreboard.is_taken(self.handle.slot, self.sequence)
    }

    /// Takes it back; false if the worker has taken it.
    pub fn take_back(&self) -> bool {
        self.handle.scoreboard.take_back(self.handle.slot, self.sequence)
    }
}

/// The position of a waiter: its event loop, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePlace {
    /// The event loop.
    pub thread: usize,
    turn: Turn,
    id: u64,
}

impl<T> Waiter<T> {
    /// Whether a worker already runs it.
    fn is_taken(&self) -> bool {
        self.offer.as_ref().is_some_and(SentAhead::is_taken)
    }

    /// Whether it was sent ahead to this worker, with this number.
    fn is_offered_to(&self, handle: &Arc<WorkerHandle>, sequence: u64) -> bool {
        self.offer
            .as_ref()
            .is_some_and(|offer| Arc::ptr_eq(&offer.handle, handle) && offer.sequence == sequence)
    }

    /// Takes back its offer, if there is one; false if a worker has taken it.
    fn claim(&mut self) -> bool {
        match self.offer.take_if(|offer| offer.take_back()) {
            Some(_) => true,
            None => self.offer.is_none(),
        }
    }
}

impl<T> Default for Queues<T> {
    fn default() -> Self {
        Queues { queues: Vec::new(), count: 0 }
    }
}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Waiters { lines: Default::default(), next_id: 0 }
    }
}

impl<T> Waiters<T> {
    /// Number of waiters.
    pub fn len(&self) -> usize {
        self.lines.iter().map(|line| line.count).sum()
    }

    /// Number of waiters in one class.
    pub fn in_line(&self, line: QueueClass) -> usize {
        self.lines[line as usize].count
    }

    /// How many would be served before one with this turn. Unverified requests have a share of their own.
    pub fn ahead(&self, turn: Turn) -> usize {
        let before =
            |queue: &VecDeque<Waiter<T>>| queue.partition_point(|waiter| waiter.turn.since <= turn.since);
        let own: usize = self.lines[turn.line as usize].queues.iter().map(before).sum();
        let earlier =
            if turn.line == QueueClass::Unproven { &[][..] } else { &self.lines[..turn.line as usize] };
        own + earlier.iter().map(|line| line.count).sum::<usize>()
    }

    /// The event loop of any waiter.
    pub fn first_thread(&self) -> Option<usize> {
        self.lines.iter().find_map(|line| line.queues.iter().position(|queue| !queue.is_empty()))
    }

    /// Takes out a waiter of a class that has waited since `limit` or longer, and that no worker runs.
    pub fn overdue(&mut self, line: QueueClass, limit: u64) -> Option<(usize, Waiter<T>)> {
        let queues = &mut self.lines[line as usize];
        for thread in 0..queues.queues.len() {
            let mut waiting = queues.queues[thread].iter_mut();
            if let Some(at) = waiting.position(|waiter| waiter.since <= limit && waiter.claim()) {
                return Some((thread, queues.take(thread, at)?));
            }
        }
        None
    }

    /// Since when the longest waiter at the front of a queue waits.
    pub fn oldest_since(&self) -> Option<u64> {
        let queues = self.lines.iter().flat_map(|line| &line.queues);
        queues.filter_map(|queue| Some(queue.front()?.since)).min()
    }

    /// Adds a waiter of event loop `thread`, which arrived at `since`.
    pub fn push(
        &mut self,
        thread: usize,
        turn: Turn,
        since: u64,
        local: Option<Ports>,
        short: Option<Short>,
        wake: T,
    ) -> QueuePlace {
        let queues = &mut self.lines[turn.line as usize];
        if queues.queues.len() <= thread {
            queues.queues.resize_with(thread + 1, VecDeque::new);
        }
        self.next_id += 1;
        let id = self.next_id;
        let queue = &mut queues.queues[thread];
        let at = queue.partition_point(|waiter| waiter.turn.since <= turn.since);
        queue.insert(at, Waiter { id, turn, since, local, short, kind: None, offer: None, wake });
        queues.count += 1;
        QueuePlace { thread, turn, id }
    }

    /// Notes the kind of a waiter's boot.
    pub fn set_kind(&mut self, place: QueuePlace, kind: Option<BootKind>) {
        let queues = &mut self.lines[place.turn.line as usize];
        if let Some(at) = queues.find(place) {
            queues.queues[place.thread][at].kind = kind;
        }
    }

    /// Removes a waiter that gave up, unless it has already gone. Returns its offer if a worker has taken it.
    pub fn remove(&mut self, place: QueuePlace) -> Option<SentAhead> {
        let mut waiter = self.take_out(place)?;
        if waiter.claim() { None } else { waiter.offer }
    }

    /// Takes out a waiter; `None` if it is gone.
    pub fn take_out(&mut self, place: QueuePlace) -> Option<Waiter<T>> {
        let queues = &mut self.lines[place.turn.line as usize];
        let at = queues.find(place)?;
        queues.take(place.thread, at)
    }

    /// Takes out the next waiter of a class for a free worker that belongs to event loop `thread` (`None`: to none).
    pub fn next_in(&mut self, line: QueueClass, thread: Option<usize>) -> Option<(usize, Waiter<T>)> {
        self.lines[line as usize].next(thread)
    }

    /// Sends a waiter's request ahead to a worker that has just got another one and belongs to event loop `thread`:
    /// the first that is not offered yet. Returns `None` if that request is not short, if another waiter has waited
    /// for so long that the worker should be free for it, or if it is unverified, because running ones of these are
    /// counted. Appends its frame to `out`; returns its position.
    pub fn offer(
        &mut self,
        thread: usize,
        offer: impl FnOnce() -> SentAhead,
        out: &mut Vec<u8>,
    ) -> Option<QueuePlace> {
        for line in [QueueClass::Known, QueueClass::Buying, QueueClass::Visitor] {
            let queues = &mut self.lines[line as usize];
            let others = queues.queues.iter().enumerate().filter(|(other, _)| *other != thread);
            if others.flat_map(|(_, queue)| queue).any(|waiter| !waiter.is_taken()) || queues.has_open(thread)
            {
                let (turn, id) = queues.offer(thread, offer, out)?;
                return Some(QueuePlace { thread, turn, id });
            }
        }
        None
    }

    /// Takes out a waiter for the worker to which it was sent ahead; `None` if it has gone elsewhere.
    pub fn accept(
        &mut self,
        place: QueuePlace,
        handle: &Arc<WorkerHandle>,
        sequence: u64,
    ) -> Option<Waiter<T>> {
        let queues = &mut self.lines[place.turn.line as usize];
        let at = queues.find(place)?;
        let same = queues.queues[place.thread][at].is_offered_to(handle, sequence);
        if same { queues.take(place.thread, at) } else { None }
    }

    /// The worker to which a waiter was sent ahead does not come: it waits as before. False if the worker has taken
    /// the request.
    pub fn retract(&mut self, place: QueuePlace, handle: &Arc<WorkerHandle>, sequence: u64) -> bool {
        let queues = &mut self.lines[place.turn.line as usize];
        let Some(at) = queues.find(place) else { return true };
        let waiter = &mut queues.queues[place.thread][at];
        !waiter.is_offered_to(handle, sequence) || waiter.claim()
    }

    /// Takes out all waiters that have waited since `limit` or longer and that no worker runs.
    pub fn take_older(&mut self, limit: u64) -> Vec<Waiter<T>> {
        self.lines.iter_mut().flat_map(|line| line.take_older(limit)).collect()
    }

    /// Takes out all waiters.
    pub fn take_all(&mut self) -> Vec<Waiter<T>> {
        let mut taken = Vec::new();
        for line in &mut self.lines {
            line.count = 0;
            taken.extend(line.queues.iter_mut().flat_map(|queue| queue.drain(..)));
        }
        taken
    }

    /// The connections from this machine that have waited since `limit` or longer.
    pub fn local_older(&self, limit: u64) -> HashSet<Ports> {
        let queues = self.lines.iter().flat_map(|line| &line.queues);
        let old = queues.flatten().filter(|waiter| waiter.since <= limit);
        old.filter_map(|waiter| waiter.local).collect()
    }
}

impl<T> Queues<T> {
    /// Takes out the first waiter that no worker runs, or one of this loop whose turn is hardly later.
    fn next(&mut self, thread: Option<usize>) -> Option<(usize, Waiter<T>)> {
        while self.count > 0 {
            let (oldest, at, since) = self.oldest()?;
            let own = thread.and_then(|own| {
                let queue = self.queues.get(own)?;
                let at = queue.iter().position(|waiter| !waiter.is_taken())?;
                (queue[at].turn.since < since + LEAD_MS).then_some((own, at))
            });
            let (chosen, at) = own.unwrap_or((oldest, at));
            // A worker may be taking it at this moment.
            if self.queues[chosen][at].claim() {
                return Some((chosen, self.take(chosen, at)?));
            }
        }
        None
    }

    /// Whether a waiter of this event loop is not offered yet.
    fn has_open(&self, thread: usize) -> bool {
        self.queues.get(thread).is_some_and(|queue| queue.iter().any(|waiter| waiter.offer.is_none()))
    }

    fn offer(
        &mut self,
        thread: usize,
        offer: impl FnOnce() -> SentAhead,
        out: &mut Vec<u8>,
    ) -> Option<(Turn, u64)> {
        let queue = self.queues.get(thread)?;
        let at = queue.iter().position(|waiter| waiter.offer.is_none())?;
        let (_, _, oldest) = self.oldest()?;
        if queue[at].turn.since >= oldest + LEAD_MS {
            return None;
        }
        let waiter = &mut self.queues[thread][at];
        let frame = &mut waiter.short.as_mut()?.frame;
        let offer = offer();
        number(frame, offer.sequence, true);
        out.extend_from_slice(frame);
        waiter.offer = Some(offer);
        Some((waiter.turn, waiter.id))
    }

    fn take_older(&mut self, limit: u64) -> Vec<Waiter<T>> {
        let mut taken = Vec::new();
        for queue in &mut self.queues {
            if queue.iter().all(|waiter| waiter.since > limit) {
                continue;
            }
            let first = taken.len();
            // The last one first: if one is taken back, the worker goes on to the next.
            for mut waiter in std::mem::take(queue).into_iter().rev() {
                if waiter.since <= limit && waiter.claim() {
                    taken.push(waiter);
                } else {
                    queue.push_front(waiter);
                }
            }
            taken[first..].reverse();
        }
        self.count -= taken.len();
        taken
    }

    /// The first waiter that no worker runs: its thread, its index there, and its turn.
    fn oldest(&self) -> Option<(usize, usize, u64)> {
        let firsts = self.queues.iter().enumerate().filter_map(|(thread, queue)| {
            let at = queue.iter().position(|waiter| !waiter.is_taken())?;
            Some((thread, at, queue[at].turn.since, queue[at].id))
        });
        firsts.min_by_key(|(.., since, id)| (*since, *id)).map(|(thread, at, since, _)| (thread, at, since))
    }

    fn find(&self, place: QueuePlace) -> Option<usize> {
        self.queues
            .get(place.thread)?
            .binary_search_by_key(&(place.turn.since, place.id), |waiter| (waiter.turn.since, waiter.id))
            .ok()
    }

    fn take(&mut self, thread: usize, at: usize) -> Option<Waiter<T>> {
        let waiter = self.queues[thread].remove(at)?;
        self.count -= 1;
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use millrace_wire::frames::{Body, ParsedFrame, RequestFrame};

    use super::*;
    use crate::scoreboard::Scoreboard;

    fn visitor(since: u64) -> Turn {
        Turn { line: QueueClass::Visitor, since }
    }

    fn next(waiters: &mut Waiters<&'static str>, thread: Option<usize>) -> Option<(usize, &'static str)> {
        QueueClass::ALL
            .iter()
            .find_map(|line| waiters.next_in(*line, thread))
            .map(|(thread, waiter)| (thread, waiter.wake))
    }

    #[test]
    fn first_come_first_served() {
        let mut waiters = Waiters::default();
        assert_eq!(next(&mut waiters, Some(0)), None);
        waiters.push(0, visitor(100), 100, None, None, "a");
        waiters.push(1, visitor(100), 100, None, None, "b");
        waiters.push(0, visitor(150), 150, None, None, "c");
        assert_eq!(waiters.len(), 3);
        for (thread, expected) in [(None, (0, "a")), (None, (1, "b")), (None, (0, "c"))] {
            assert_eq!(next(&mut waiters, thread), Some(expected));
        }
        assert_eq!((waiters.len(), next(&mut waiters, None)), (0, None));
    }

    #[test]
    fn own_thread_is_preferred_for_a_moment() {
        let mut waiters = Waiters::default();
        waiters.push(0, visitor(100), 100, None, None, "a");
        waiters.push(1, visitor(100 + LEAD_MS - 1), 100 + LEAD_MS - 1, None, None, "b");
        waiters.push(1, visitor(100 + LEAD_MS), 100 + LEAD_MS, None, None, "c");
        assert_eq!(next(&mut waiters, Some(1)), Some((1, "b")), "hardly younger, and at home");
        assert_eq!(next(&mut waiters, Some(1)), Some((0, "a")), "it has waited long enough");
        assert_eq!(next(&mut waiters, Some(7)), Some((1, "c")));
    }

    #[test]
    fn lines_one_after_the_other_and_in_each_the_order_of_turns() {
        let mut waiters = Waiters::default();
        for (since, line, turn, name) in [
            (1, QueueClass::Unproven, 1, "unproven"),
            (2, QueueClass::Visitor, 2_000, "visitor 3"),
            (3, QueueClass::Visitor, 3, "visitor 1"),
            (4, QueueClass::Visitor, 100, "visitor 2"),
            (5, QueueClass::Known, 5, "known 1"),
            (6, QueueClass::Buying, 6, "buying"),
            (7, QueueClass::Known, 7, "known 2"),
        ] {
            waiters.push(0, Turn { line, since: turn }, since, None, short(), name);
        }
        assert_eq!((waiters.in_line(QueueClass::Visitor), waiters.len()), (3, 7));
        let ahead = |line, since| waiters.ahead(Turn { line, since });
        assert_eq!(
            (ahead(QueueClass::Known, 6), ahead(QueueClass::Visitor, 99), ahead(QueueClass::Unproven, 9)),
            (1, 4, 1)
        );
        let order = ["known 1", "known 2", "buying", "visitor 1", "visitor 2", "visitor 3", "unproven"];
        for name in order {
            assert_eq!(next(&mut waiters, None).map(|(_, name)| name), Some(name));
        }
        let (mut unproven, x) = (Waiters::default(), handle());
        let place =
            unproven.push(0, Turn { line: QueueClass::Unproven, since: 1 }, 1, None, short(), "unproven");
        assert_eq!(offer(&mut unproven, &x, 1), None, "how many of these run is counted");
        assert_eq!(unproven.take_out(place).map(|waiter| waiter.wake), Some("unproven"));
        assert!(unproven.take_out(place).is_none() && unproven.len() == 0);
    }

    #[test]
    fn some_give_up_and_some_are_too_old() {
        let mut waiters = Waiters::default();
        let gone = waiters.push(0, visitor(1), 1, None, None, "a");
        let from = |client| Some(Ports { client, server: 80 });
        waiters.push(0, visitor(2), 2, from(2), None, "b");
        waiters.push(1, visitor(3), 3, from(3), None, "c");
        waiters.push(1, visitor(4), 4, from(4), None, "d");
        waiters.remove(gone);
        waiters.remove(gone);
        waiters.remove(QueuePlace { thread: 9, ..gone });
        assert_eq!(waiters.len(), 3);
        assert_eq!(waiters.local_older(3), [from(2), from(3)].into_iter().flatten().collect());
        let old: Vec<_> = waiters.take_older(3).into_iter().map(|w| w.wake).collect();
        assert_eq!((old, waiters.len()), (vec!["b", "c"], 1));
        assert_eq!(waiters.take_all().len(), 1);
        assert_eq!(waiters.len(), 0);
    }

    /// A handle of a worker without a process.
    fn handle() -> Arc<WorkerHandle> {
        WorkerHandle::new(0, 0, 1, Arc::new(Scoreboard::create(1, false).unwrap()), None)
    }

    fn short() -> Option<Short> {
        let mut frame = Vec::new();
        RequestFrame::begin(&mut frame, 0).finish(Body::None).unwrap();
        Some(Short { frame, ..Short::default() })
    }

    fn offer(
        waiters: &mut Waiters<&'static str>,
        handle: &Arc<WorkerHandle>,
        sequence: u64,
    ) -> Option<QueuePlace> {
        let mut frames = Vec::new();
        let place = waiters.offer(
            0,
            || {
                handle.scoreboard.offer(0, sequence);
                SentAhead { handle: handle.clone(), sequence }
            },
            &mut frames,
        );
        let sent = ParsedFrame::decode(&frames).unwrap().map(|(parsed, _)| (parsed.sequence, parsed.offered));
        assert_eq!(sent, place.map(|_| (sequence, true)));
        place
    }

    #[test]
    fn offers_go_to_the_first_that_has_none() {
        let (mut waiters, x, y) = (Waiters::default(), handle(), handle());
        for name in ["a", "b", "c"] {
            waiters.push(0, visitor(100), 100, None, short(), name);
        }
        waiters.push(0, visitor(100), 100, None, None, "long");
        let (a, b) = (offer(&mut waiters, &x, 1).unwrap(), offer(&mut waiters, &y, 7).unwrap());
        assert!(waiters.accept(a, &y, 1).is_none(), "another worker's");
        assert_eq!(waiters.accept(b, &y, 7).map(|waiter| waiter.wake), Some("b"));
        assert!(waiters.accept(b, &y, 7).is_none());
        assert!(waiters.retract(a, &y, 1) && x.scoreboard.is_offered(0, 1), "another worker's");
        assert!(waiters.retract(a, &x, 1) && waiters.retract(b, &y, 7));
        assert!(!x.scoreboard.is_offered(0, 1));
        assert_eq!(offer(&mut waiters, &x, 2), Some(a), "in its old place");
        assert!(offer(&mut waiters, &y, 8).is_some());
        assert_eq!(offer(&mut waiters, &y, 9), None, "a long one is next");
        assert_eq!(waiters.len(), 3);
    }

    #[test]
    fn a_free_worker_gets_what_is_offered_to_another_unless_that_has_taken_it() {
        let (mut waiters, x) = (Waiters::default(), handle());
        let places = ["a", "b", "c"].map(|name| waiters.push(0, visitor(100), 100, None, short(), name));
        offer(&mut waiters, &x, 1);
        offer(&mut waiters, &x, 2);
        x.scoreboard.take(0, 1);
        assert_eq!(next(&mut waiters, Some(0)), Some((0, "b")));
        assert!(!x.scoreboard.is_offered(0, 2), "taken back");
        assert_eq!(next(&mut waiters, None), Some((0, "c")));
        assert_eq!(next(&mut waiters, None), None, "a worker runs it already");
        assert!(!waiters.retract(places[0], &x, 1));
        assert!(waiters.take_older(u64::MAX).is_empty());
        assert_eq!(waiters.len(), 1);
        assert_eq!(waiters.remove(places[0]).map(|offer| offer.sequence), Some(1), "it has to be aborted");
        assert_eq!(waiters.len(), 0);
    }

    #[test]
    fn no_offer_passes_one_that_waits_for_long() {
        let (mut waiters, x, y) = (Waiters::default(), handle(), handle());
        waiters.push(0, visitor(100), 100, None, short(), "a");
        offer(&mut waiters, &x, 1);
        waiters.push(0, visitor(100 + LEAD_MS), 100 + LEAD_MS, None, short(), "b");
        assert_eq!(offer(&mut waiters, &y, 1), None, "the next free worker is for the first");
        x.scoreboard.take(0, 1);
        assert!(offer(&mut waiters, &y, 1).is_some(), "it runs");
        let mut others = Waiters::default();
        others.push(1, visitor(100), 100, None, short(), "a");
        others.push(0, visitor(100 + LEAD_MS), 100 + LEAD_MS, None, short(), "b");
        assert_eq!(offer(&mut others, &y, 2), None, "nor one of another event loop");
    }

    #[test]
    fn who_leaves_or_is_too_old_takes_his_offer_back() {
        let (mut waiters, x) = (Waiters::default(), handle());
        let a = waiters.push(0, visitor(1), 1, None, short(), "a");
        waiters.push(0, visitor(2), 2, None, short(), "b");
        offer(&mut waiters, &x, 1);
        offer(&mut waiters, &x, 2);
        assert!(waiters.remove(a).is_none() && !x.scoreboard.is_offered(0, 1));
        assert_eq!(waiters.take_older(2).len(), 1);
        assert!(!x.scoreboard.is_offered(0, 2));
    }
}
