//! The queue of a pool: which requests wait for a worker, in which order, and which are refused.
//!
//! It combines four modules: [`Admission`] decides whether a request may wait, [`AddressShares`] when it counts as
//! having arrived, [`Waiters`] contains the requests in their order, [`Places`] the browsers in the waiting room.

use std::net::IpAddr;

use super::address_share::{AddressShares, Delay};
use super::admission::{Admission, Rank, UNPROVEN_TURNS};
use super::places::{KeptPlace, Places, Ticket};
use super::waiters::{QueueClass, Turn, Waiter, Waiters};

/// A queue whose wait is shorter than this part of the permitted wait accepts every visitor, even if older ones have
/// places in the waiting room: workers must never be idle because browsers come back late.
const SHORT: f64 = 0.25;

/// A visitor that has waited for this multiple of its patience goes before all others.
const OVERDUE: u64 = 5;
/// Interval of the search for such a visitor, milliseconds.
const LOOK_MS: u64 = 100;

/// The origin of a request for a worker.
#[derive(Clone, Debug, Default)]
pub struct Applicant {
    /// The visitor's rank.
    pub rank: Rank,
    /// The client's address; `None`: a Unix socket.
    pub address: Option<IpAddr>,
    /// The value of its waiting room cookie.
    pub place: Option<Vec<u8>>,
}

/// The present capacity of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Maximum number of requests that may run at once.
    pub limit: usize,
    /// Number of cores.
    pub cores: usize,
    /// Number of running requests.
    pub running: usize,
}

/// Requests that wait for a worker.
#[derive(Debug)]
pub struct RequestQueue<T> {
    /// The requests.
    pub waiters: Waiters<T>,
    /// Decides which requests may wait.
    pub admission: Admission,
    /// Whether `admission` is asked; otherwise all may wait (`php.queue_wait = 0`).
    is_bounded: bool,
    shares: AddressShares,
    places: Places,
    /// Number of workers given to other requests since an unproven request got one.
    since_unproven: u32,
    /// The latest time that was passed in.
    now: u64,
    /// The last time at which no visitor was overdue.
    looked: u64,
}

impl<T> RequestQueue<T> {
    /// With this `php.queue_wait`, milliseconds; `None`: no limit.
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

    /// The turn of a request that can't run at once; `None`: it is refused.
    pub fn admit(&mut self, now: u64, from: &Applicant, capacity: Capacity) -> Option<Turn> {
        self.now = now;
        let ticket = from.place.as_deref().and_then(|cookie| self.places.read(cookie, now));
        let (turn, delay) = self.turn(now, from, ticket, capacity);
        // Requests that have not arrived yet will go before it.
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

    /// Whether a request with this turn can be served in time, if it starts `later` milliseconds after the requests
    /// that wait now.
    fn has_room(&self, now: u64, ticket: Option<Ticket>, turn: Turn, later: f64, capacity: Capacity) -> bool {
        let Capacity { limit, cores, running } = capacity;
        // A request in a queue class has the patience of that class, whatever its own rank.
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
        // Only visitors are behind the browsers in the waiting room.
        let before = self.places.ahead(ticket.map_or(now, |ticket| ticket.arrived));
        rank != Rank::Visitor
            || before == 0
            || admission.admits(rank, in_line + before, limit, cores)
            || waits(waiting) < admission.patience(rank) * SHORT
    }

    /// Gives a refused browser a place in the waiting room; `None`: there are too many.
    pub fn keep_place(&mut self, now: u64, from: &Applicant, capacity: Capacity) -> Option<KeptPlace> {
        let ticket = from.place.as_deref().and_then(|cookie| self.places.read(cookie, now));
        let rate = self.admission.rate(capacity.limit, capacity.cores).unwrap_or(1.0);
        let most = self.admission.patience(Rank::Visitor);
        let delay = from.address.map_or(0, |address| self.shares.last_delay(now, address, most));
        // A browser with a place joins the queue later: all requests in the queue are ahead of it.
        self.places.keep(now, ticket, now + delay, from.address, self.waiters.len(), rate)
    }

    /// Removes the next request for a worker that belongs to the event loop `thread`; `unproven`: whether one more
    /// unproven request may run.
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

    /// A visitor that has waited for far longer than estimated when it was admitted, because requests that go first
    /// kept coming. The search runs ten times a second.
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

    /// A request was served in `took` milliseconds.
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
        // A client that keeps exceeding its share gets no priority from a cart or from add-to-cart requests.
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
        // The number of browsers that come back equals the number served, and all of them came before the visitor.
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
        // Two run at once, each for 50 ms: 40 a second.
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
