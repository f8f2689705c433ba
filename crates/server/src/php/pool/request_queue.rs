//! The queue of a pool: which requests wait for a worker, in which order, and what becomes of those that can't.
//!
//! It puts together what is decided elsewhere: [`Admission`] says whether a request may wait, [`AddressShares`] when it counts as having come,
//! [`Waiters`] keep the order, [`Places`] those whom the waiting room holds.

use std::net::IpAddr;

use super::address_share::{AddressShares, Delay};
use super::admission::{Admission, Rank, UNPROVEN_TURNS};
use super::places::{KeptPlace, Places, Ticket};
use super::waiters::{QueueClass, Turn, Waiter, Waiters};

/// A queue that is shorter than this part of what may wait takes every visitor, even while older ones have places in the waiting room:
/// workers must never be idle because browsers come back late.
const SHORT: f64 = 0.25;

/// A visitor that has waited for so many times its patience goes before all others.
const OVERDUE: u64 = 5;
/// How often such a visitor is looked for, milliseconds.
const LOOK_MS: u64 = 100;

/// Who asks for a worker.
#[derive(Clone, Debug, Default)]
pub struct Applicant {
    /// What is known of the visitor.
    pub rank: Rank,
    /// Where the request comes from; `None`: a Unix socket.
    pub address: Option<IpAddr>,
    /// The value of its cookie of the waiting room.
    pub place: Option<Vec<u8>>,
}

/// What the machine can do at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// So many requests may run at once.
    pub limit: usize,
    /// On so many cores.
    pub cores: usize,
    /// So many run.
    pub running: usize,
}

/// Requests that wait for a worker.
#[derive(Debug)]
pub struct RequestQueue<T> {
    /// They.
    pub waiters: Waiters<T>,
    /// Which may wait.
    pub admission: Admission,
    /// Whether that is asked; else all may (`php.queue_wait = 0`).
    is_bounded: bool,
    shares: AddressShares,
    places: Places,
    /// Free workers since one was given to an unproven request.
    since_unproven: u32,
    /// When it was last told the time.
    now: u64,
    /// When no visitor was overdue.
    looked: u64,
}

impl<T> RequestQueue<T> {
    /// With this `php.queue_wait`, milliseconds; `None`: none.
    pub fn new(queue_wait: Option<u64>) -> RequestQueue<T> {
        RequestQueue {
            waiters: Waiters::default(),
            admission: Admission::new(queue_wait.unwrap_or(0)),
            is_bounded: queue_wait.is_some(),
            shares: AddressShares::default(),
            places: Places::default(),
            since_unproven: 0,
            now: 0,
            looked: 0,
        }
    }

    /// Browsers in the waiting room.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// When it is the turn of a request that can't run at once; `None`: it is refused.
    pub fn admit(&mut self, now: u64, from: &Applicant, capacity: Capacity) -> Option<Turn> {
        self.now = now;
        let ticket = from.place.as_deref().and_then(|cookie| self.places.read(cookie, now));
        let (turn, delay) = self.turn(now, from, ticket, capacity);
        // Others will go before it, and are not here yet.
        let later = if delay.is_contended { delay.ms as f64 } else { 0.0 };
        if self.is_bounded && !self.has_room(now, ticket, turn, later, capacity) {
            self.admission.refused(now, turn.line.rank());
            return None;
        }
        if let Some(ticket) = ticket {
            self.places.leave(ticket);
        }
        let waiting = self.waiters.len();
        self.admission.begins_to_wait(now, waiting, capacity.running + waiting + 1);
        Some(turn)
    }

    /// Whether a request can be served in time whose turn is that, and `later` milliseconds after those that are there.
    fn has_room(&self, now: u64, ticket: Option<Ticket>, turn: Turn, later: f64, capacity: Capacity) -> bool {
        let Capacity { limit, cores, running } = capacity;
        // What is in a line has the patience of that line, whatever rank it came with.
        let (admission, rank) = (&self.admission, turn.line.rank());
        let waits = |ahead| admission.wait(rank, ahead, limit, cores).unwrap_or(0.0);
        let (in_line, waiting) = (self.waiters.ahead(turn), self.waiters.len());
        if later > 0.0 && waits(in_line) + later > admission.patience(rank) {
            return false;
        }
        if !admission.admits(rank, in_line, limit, cores) {
            let there = running + waiting + 1;
            return rank == Rank::Visitor && admission.is_steady(now, there, waits(in_line));
        }
        // Of browsers in the waiting room only visitors are behind.
        let before = self.places.ahead(ticket.map_or(now, |ticket| ticket.arrived));
        rank != Rank::Visitor
            || before == 0
            || admission.admits(rank, in_line + before, limit, cores)
            || waits(waiting) < admission.patience(rank) * SHORT
    }

    /// A place in the waiting room for a browser that is refused; `None`: there are too many.
    pub fn keep_place(&mut self, now: u64, from: &Applicant, capacity: Capacity) -> Option<KeptPlace> {
        let ticket = from.place.as_deref().and_then(|cookie| self.places.read(cookie, now));
        let rate = self.admission.rate(capacity.limit, capacity.cores).unwrap_or(1.0);
        let most = self.admission.patience(Rank::Visitor);
        let delay = from.address.map_or(0, |address| self.shares.last_delay(now, address, most));
        // A place is had before the queue is joined: what is in that is ahead.
        self.places.keep(now, ticket, now + delay, from.address, self.waiters.len(), rate)
    }

    /// Takes out the next to be served by a worker that is at home on `thread`; `unproven`: whether one more unproven
    /// request may run.
    pub fn next(&mut self, thread: Option<usize>, unproven: bool) -> Option<(usize, Waiter<T>)> {
        let take = |waiters: &mut Waiters<T>, line| waiters.next_in(line, thread);
        if unproven
            && self.since_unproven >= UNPROVEN_TURNS - 1
            && let Some(next) = take(&mut self.waiters, QueueClass::Unproven)
        {
            self.since_unproven = 0;
            return Some(next);
        }
        if let Some(next) = self.overdue() {
            return Some(next);
        }
        for line in [QueueClass::Known, QueueClass::Buying, QueueClass::Visitor] {
            if let Some(next) = take(&mut self.waiters, line) {
                self.since_unproven = self.since_unproven.saturating_add(1);
                return Some(next);
            }
        }
        if !unproven {
            return None;
        }
        let next = take(&mut self.waiters, QueueClass::Unproven)?;
        self.since_unproven = 0;
        Some(next)
    }

    /// A visitor that waits for far longer than it was promised: it was let in, and requests that go first have kept coming since. It
    /// is looked for ten times a second.
    fn overdue(&mut self) -> Option<(usize, Waiter<T>)> {
        let most = self.admission.patience(Rank::Visitor) as u64 * OVERDUE;
        if !self.is_bounded || self.now < self.looked + LOOK_MS {
            return None;
        }
        let found = self.waiters.overdue(QueueClass::Visitor, self.now.checked_sub(most)?);
        if found.is_none() {
            self.looked = self.now;
        }
        found
    }

    /// A request was served, and took so many milliseconds.
    pub fn served(&mut self, now: u64, took: f64) {
        self.now = now;
        let waiting = self.waiters.len();
        self.admission.served(now, took, waiting);
    }

    fn turn(
        &mut self,
        now: u64,
        from: &Applicant,
        ticket: Option<Ticket>,
        capacity: Capacity,
    ) -> (Turn, Delay) {
        let rank = from.rank;
        if let Some(ticket) = ticket {
            return (Turn { line: QueueClass::of(rank), since: ticket.arrived }, Delay::default());
        }
        let rate = self.admission.rate(capacity.limit, capacity.cores);
        let most = self.admission.patience(Rank::Visitor);
        let goes_first = matches!(rank, Rank::Known | Rank::Buying);
        let delay = match (from.address, rate) {
            (None, _) | (_, None) => Delay::default(),
            (Some(address), Some(rate)) => self.shares.delay(now, address, goes_first, rate, most),
        };
        // A client that goes on sending more than its share gets no priority by a cart, or by sending add-to-cart.
        let rank = if goes_first && delay.is_surplus { Rank::Visitor } else { rank };
        (Turn { line: QueueClass::of(rank), since: now + delay.ms }, delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_that_come_back_do_not_keep_a_visitor_waiting_for_ever() {
        let mut queue = RequestQueue::new(Some(1_000));
        (0..20).for_each(|_| queue.served(0, 50.0));
        let capacity = Capacity { limit: 2, cores: 2, running: 2 };
        let browser = |number: u8, place| Applicant {
            address: Some([192, 0, 2, number].into()),
            place,
            ..Applicant::default()
        };
        let places: Vec<_> =
            (0..200).map(|number| queue.keep_place(0, &browser(number, None), capacity)).collect();
        let visitor = browser(250, None);
        let turn = queue.admit(10_000, &visitor, capacity).expect("the queue is empty");
        queue.waiters.push(0, turn, 10_000, None, None, u8::MAX);
        // As many browsers come back as are served, and all of them came before the visitor.
        for (number, place) in places.iter().enumerate() {
            let now = 10_000 + number as u64 * 30;
            let place = place.as_ref().map(|told| told.cookie.clone().into_bytes());
            if let Some(turn) = queue.admit(now, &browser(number as u8, place), capacity) {
                queue.waiters.push(0, turn, now, None, None, number as u8);
            }
            let served = queue.next(None, false).map(|(_, waiter)| waiter.wake);
            if served == Some(u8::MAX) {
                assert!(now <= 10_000 + 5_200, "after {} ms", now - 10_000);
                return;
            }
        }
        panic!("the visitor was never served");
    }

    #[test]
    fn buyers_that_keep_coming_do_not_keep_a_visitor_waiting_for_ever() {
        let mut queue = RequestQueue::new(Some(1_000));
        (0..20).for_each(|_| queue.served(0, 50.0));
        let capacity = Capacity { limit: 2, cores: 2, running: 2 };
        let from = |rank, last| Applicant { rank, address: Some([192, 0, 2, last].into()), place: None };
        let turn = queue.admit(0, &from(Rank::Visitor, 250), capacity).expect("the queue is empty");
        queue.waiters.push(0, turn, 0, None, None, u8::MAX);
        for number in 0..200 {
            let now = u64::from(number) * 30;
            if let Some(turn) = queue.admit(now, &from(Rank::Buying, number), capacity) {
                queue.waiters.push(0, turn, now, None, None, number);
            }
            let served = queue.next(None, false).map(|(_, waiter)| waiter.wake);
            if served == Some(u8::MAX) {
                assert!((5_000..5_200).contains(&now), "after {now} ms");
                return;
            }
        }
        panic!("the visitor was never served");
    }

    #[test]
    fn the_surplus_of_a_client_that_claims_to_buy_is_a_visitors() {
        let mut queue = RequestQueue::new(Some(1_000));
        // Two run at once, each takes 50 ms: 40 a second.
        (0..20).for_each(|_| queue.served(0, 50.0));
        let capacity = Capacity { limit: 2, cores: 2, running: 2 };
        let from = |rank, text: &str| Applicant { rank, address: text.parse().ok(), place: None };
        let visitor = from(Rank::Visitor, "198.51.100.1");
        assert!(queue.admit(0, &visitor, capacity).is_some());
        for at in 0..500 {
            if let Some(turn) = queue.admit(at, &from(Rank::Buying, "192.0.2.1"), capacity) {
                queue.waiters.push(0, turn, at, None, None, ());
            }
        }
        assert!((8..=40).contains(&queue.waiters.len()), "{} wait", queue.waiters.len());
        assert!(queue.admit(500, &visitor, capacity).is_some(), "others are kept out");
    }
}
