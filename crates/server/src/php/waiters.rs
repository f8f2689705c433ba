//! Requests that wait for a worker.
//!
//! First come, first served - but a worker that becomes free on an event loop goes to one of that loop's own waiters
//! if the oldest of all is older by less than [`LEAD_MS`] only: moving a worker's socket to another loop costs more
//! than those milliseconds of order are worth.

use std::collections::{HashSet, VecDeque};

use super::loopback::Ports;

/// How much older a waiter of another event loop must be to be served first, milliseconds.
const LEAD_MS: u64 = 10;

/// Waiting requests with what is needed to wake them, a queue for each event loop.
#[derive(Debug)]
pub struct Waiters<T> {
    queues: Vec<VecDeque<Waiter<T>>>,
    count: usize,
    next_id: u64,
}

/// A waiting request.
#[derive(Debug)]
pub struct Waiter<T> {
    id: u64,
    /// When it came, milliseconds.
    pub since: u64,
    /// Its connection, if that begins on this machine.
    pub local: Option<Ports>,
    /// How it is woken.
    pub wake: T,
}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Waiters { queues: Vec::new(), count: 0, next_id: 0 }
    }
}

impl<T> Waiters<T> {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Adds a waiter of event loop `thread`; the number serves to remove it.
    pub fn push(&mut self, thread: usize, since: u64, local: Option<Ports>, wake: T) -> u64 {
        if self.queues.len() <= thread {
            self.queues.resize_with(thread + 1, VecDeque::new);
        }
        self.next_id += 1;
        self.queues[thread].push_back(Waiter { id: self.next_id, since, local, wake });
        self.count += 1;
        self.next_id
    }

    /// Removes a waiter that gave up; it may be gone already.
    pub fn remove(&mut self, thread: usize, id: u64) {
        let Some(queue) = self.queues.get_mut(thread) else { return };
        if let Some(at) = queue.iter().position(|waiter| waiter.id == id) {
            queue.remove(at);
            self.count -= 1;
        }
    }

    /// The next to be served by a worker that is at home on `thread` (`None`: nowhere), and its thread.
    pub fn next(&mut self, thread: Option<usize>) -> Option<(usize, Waiter<T>)> {
        if self.count == 0 {
            return None;
        }
        let (oldest, since) = self.oldest()?;
        let own = thread.filter(|own| {
            let first = self.queues.get(*own).and_then(VecDeque::front);
            first.is_some_and(|first| first.since < since + LEAD_MS)
        });
        let chosen = own.unwrap_or(oldest);
        self.count -= 1;
        Some((chosen, self.queues[chosen].pop_front()?))
    }

    /// Takes out all that have waited since `limit` or longer.
    pub fn take_older(&mut self, limit: u64) -> Vec<Waiter<T>> {
        let mut taken = Vec::new();
        for queue in &mut self.queues {
            while queue.front().is_some_and(|first| first.since <= limit) {
                taken.extend(queue.pop_front());
            }
        }
        self.count -= taken.len();
        taken
    }

    /// Takes out all.
    pub fn take_all(&mut self) -> Vec<Waiter<T>> {
        self.take_older(u64::MAX)
    }

    /// The connections from this machine that have waited since `limit` or longer.
    pub fn local_older(&self, limit: u64) -> HashSet<Ports> {
        let old =
            self.queues.iter().flat_map(|queue| queue.iter().take_while(|waiter| waiter.since <= limit));
        old.filter_map(|waiter| waiter.local).collect()
    }

    /// The thread whose first waiter came first, and when that was.
    fn oldest(&self) -> Option<(usize, u64)> {
        let firsts =
            self.queues.iter().enumerate().filter_map(|(i, q)| q.front().map(|w| (i, w.since, w.id)));
        firsts.min_by_key(|(_, since, id)| (*since, *id)).map(|(thread, since, _)| (thread, since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(waiters: &mut Waiters<&'static str>, thread: Option<usize>) -> Option<(usize, &'static str)> {
        waiters.next(thread).map(|(thread, waiter)| (thread, waiter.wake))
    }

    #[test]
    fn first_come_first_served() {
        let mut waiters = Waiters::default();
        assert_eq!(next(&mut waiters, Some(0)), None);
        waiters.push(0, 100, None, "a");
        waiters.push(1, 100, None, "b");
        waiters.push(0, 150, None, "c");
        assert_eq!(waiters.len(), 3);
        for (thread, expected) in [(None, (0, "a")), (None, (1, "b")), (None, (0, "c"))] {
            assert_eq!(next(&mut waiters, thread), Some(expected));
        }
        assert_eq!((waiters.len(), next(&mut waiters, None)), (0, None));
    }

    #[test]
    fn own_thread_is_preferred_for_a_moment() {
        let mut waiters = Waiters::default();
        waiters.push(0, 100, None, "a");
        waiters.push(1, 100 + LEAD_MS - 1, None, "b");
        waiters.push(1, 100 + LEAD_MS, None, "c");
        assert_eq!(next(&mut waiters, Some(1)), Some((1, "b")), "hardly younger, and at home");
        assert_eq!(next(&mut waiters, Some(1)), Some((0, "a")), "it has waited long enough");
        assert_eq!(next(&mut waiters, Some(7)), Some((1, "c")));
    }

    #[test]
    fn some_give_up_and_some_are_too_old() {
        let mut waiters = Waiters::default();
        let gone = waiters.push(0, 1, None, "a");
        let from = |client| Some(Ports { client, server: 80 });
        waiters.push(0, 2, from(2), "b");
        waiters.push(1, 3, from(3), "c");
        waiters.push(1, 4, from(4), "d");
        waiters.remove(0, gone);
        waiters.remove(0, gone);
        waiters.remove(9, gone);
        assert_eq!(waiters.len(), 3);
        assert_eq!(waiters.local_older(3), [from(2), from(3)].into_iter().flatten().collect());
        let old: Vec<_> = waiters.take_older(3).into_iter().map(|w| w.wake).collect();
        assert_eq!((old, waiters.len()), (vec!["b", "c"], 1));
        assert_eq!(waiters.take_all().len(), 1);
        assert_eq!(waiters.len(), 0);
    }
}
