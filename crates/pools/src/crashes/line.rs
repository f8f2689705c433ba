//! Suspect requests run a few at a time; the others wait in a queue.

use std::sync::Arc;

use tokio::sync::Notify;

/// Maximum length of the queue. When it is exceeded, the request that would run last leaves.
const MOST: usize = 128;
/// A worker that dies from a suspect request holds one of its class's places for this many milliseconds times the
/// number of these places. So on average this much time passes between two deaths of a class. Requests of class
/// `Alike` hardly ever come from a visitor.
pub const HOLD_MS: [u64; CLASSES] = [16, 16, 100];
/// The share of the workers that may run each class: one in this many.
const PART: [usize; CLASSES] = [2, 4, 8];

const CLASSES: usize = 3;

/// How suspect a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SuspectClass {
    /// The request is for a page that kills workers.
    Other,
    /// It comes from the same source as a request that has killed, with the same names of arguments and cookies, but
    /// other values.
    Akin,
    /// It comes from that source, and has an argument in common with requests that have killed.
    Alike,
}

/// The result of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialTurn {
    /// The request runs now, and has left the queue.
    Go,
    /// Ask again when woken, or after this many milliseconds.
    Wait(Option<u64>),
    /// The queue is full of requests that come before it.
    Out,
}

/// Places, and the requests that wait for one. Times are milliseconds since a fixed moment.
#[derive(Debug)]
pub struct TrialQueue {
    /// How many may run, of each class.
    most: [usize; CLASSES],
    /// How many run, of each class.
    running: [usize; CLASSES],
    /// Places that dead workers hold, with the time until which they do.
    held: Vec<(SuspectClass, u64)>,
    waiters: Vec<TrialWaiter>,
    number: u64,
}

#[derive(Debug)]
struct TrialWaiter {
    class: SuspectClass,
    /// Similarity to requests that killed. The least similar comes first.
    heat: u32,
    number: u64,
    wake: Arc<Notify>,
}

impl TrialWaiter {
    fn rank(&self) -> (SuspectClass, u32, u64) {
        (self.class, self.heat, self.number)
    }
}

impl TrialQueue {
    /// Up to half of `workers` run class `Other`, a quarter `Akin` and an eighth `Alike`; at least one each.
    pub fn new(workers: usize) -> TrialQueue {
        let most = PART.map(|part| (workers / part).max(1));
        TrialQueue { most, running: [0; CLASSES], held: Vec::new(), waiters: Vec::new(), number: 0 }
    }

    /// Queues a request; returns its number.
    pub fn queue(&mut self, class: SuspectClass, heat: u32, wake: Arc<Notify>) -> u64 {
        self.number += 1;
        self.waiters.push(TrialWaiter { class, heat, number: self.number, wake });
        if self.waiters.len() > MOST
            && let Some(last) = (0..self.waiters.len()).max_by_key(|at| self.waiters[*at].rank())
        {
            self.waiters.swap_remove(last).wake.notify_one();
        }
        self.number
    }

    /// Whether it is this request's turn.
    pub fn turn(&mut self, number: u64, now: u64) -> TrialTurn {
        let Some(at) = self.waiters.iter().position(|waiter| waiter.number == number) else {
            return TrialTurn::Out;
        };
        self.held.retain(|(_, until)| now < *until);
        let class = self.waiters[at].class;
        if self.first(class).is_none_or(|first| first.number != number) {
            return TrialTurn::Wait(None);
        }
        if self.is_free(class) {
            self.running[class as usize] += 1;
            self.waiters.swap_remove(at);
            self.wake();
            return TrialTurn::Go;
        }
        TrialTurn::Wait(self.held.iter().map(|(_, until)| until - now).min())
    }

    /// This request no longer waits.
    pub fn give_up(&mut self, number: u64) {
        self.waiters.retain(|waiter| waiter.number != number);
        self.wake();
    }

    /// A request that ran has ended; `died` is the time at which its worker died, if it did.
    pub fn leave(&mut self, class: SuspectClass, died: Option<u64>) {
        let running = &mut self.running[class as usize];
        *running = running.saturating_sub(1);
        if let Some(now) = died {
            self.held.push((class, now + HOLD_MS[class as usize] * self.most[class as usize] as u64));
        }
        self.wake();
    }

    fn is_free(&self, class: SuspectClass) -> bool {
        self.taken(class) < self.most[class as usize]
    }

    fn taken(&self, class: SuspectClass) -> usize {
        self.running[class as usize] + self.held.iter().filter(|(held, _)| *held == class).count()
    }

    fn first(&self, class: SuspectClass) -> Option<&TrialWaiter> {
        self.waiters.iter().filter(|waiter| waiter.class == class).min_by_key(|waiter| waiter.rank())
    }

    /// Wakes the first request of each class, which asks again.
    fn wake(&self) {
        for class in [SuspectClass::Other, SuspectClass::Akin, SuspectClass::Alike] {
            if let Some(first) = self.first(class) {
                first.wake.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(workers: usize, requests: &[(SuspectClass, u32)]) -> TrialQueue {
        let mut line = TrialQueue::new(workers);
        for (class, heat) in requests {
            line.queue(*class, *heat, Arc::new(Notify::new()));
        }
        line
    }

    use SuspectClass::{Alike, Other};

    #[test]
    fn a_few_at_a_time_and_fewer_of_those_alike() {
        let mut line = line(16, &[(Alike, 1); 20]);
        let goes =
            |line: &mut TrialQueue| (1..=20).filter(|number| line.turn(*number, 0) == TrialTurn::Go).count();
        assert_eq!(goes(&mut line), 2);
        for _ in 0..20 {
            line.queue(Other, 0, Arc::new(Notify::new()));
        }
        assert_eq!((21..=40).filter(|number| line.turn(*number, 0) == TrialTurn::Go).count(), 8);
        line.leave(Alike, None);
        assert_eq!(goes(&mut line), 1);
    }

    #[test]
    fn a_dead_worker_holds_its_place() {
        let mut line = line(8, &[(Alike, 1), (Alike, 1), (Other, 0)]);
        assert_eq!(line.turn(1, 5), TrialTurn::Go);
        line.leave(Alike, Some(10));
        assert_eq!(line.turn(2, 12), TrialTurn::Wait(Some(10 + 100 - 12)));
        assert_eq!(line.turn(3, 12), TrialTurn::Go, "others have places of their own");
        assert_eq!(line.turn(2, 10 + 100), TrialTurn::Go);
    }

    #[test]
    fn the_least_alike_comes_first() {
        let mut line = line(1, &[(Alike, 9), (Alike, 2), (Alike, 2), (Other, 3)]);
        assert_eq!(line.turn(1, 0), TrialTurn::Wait(None));
        assert_eq!((line.turn(4, 0), line.turn(2, 0)), (TrialTurn::Go, TrialTurn::Go));
        assert_eq!(line.turn(3, 0), TrialTurn::Wait(None), "nothing is held by the dead");
        line.leave(Other, None);
        assert_eq!(line.turn(3, 0), TrialTurn::Wait(None));
        line.give_up(3);
        line.leave(Alike, None);
        assert_eq!(line.turn(1, 0), TrialTurn::Go);
    }

    #[test]
    fn the_last_leaves_a_line_that_is_full() {
        let mut line = line(1, &[(Alike, 5); MOST]);
        let other = line.queue(Other, 0, Arc::new(Notify::new()));
        assert_eq!(line.turn(MOST as u64, 0), TrialTurn::Out);
        assert_eq!(line.turn(other, 0), TrialTurn::Go);
        let (a, b) =
            (line.queue(Alike, 9, Arc::new(Notify::new())), line.queue(Alike, 9, Arc::new(Notify::new())));
        assert_eq!((line.turn(a, 0), line.turn(b, 0)), (TrialTurn::Wait(None), TrialTurn::Out));
    }

    #[test]
    fn the_next_is_woken() {
        let mut line = TrialQueue::new(1);
        let wake = Arc::new(Notify::new());
        let (first, _) = (line.queue(Other, 0, wake.clone()), line.queue(Other, 0, Arc::new(Notify::new())));
        line.leave(Other, None);
        assert_eq!(line.turn(first, 0), TrialTurn::Go);
        let mut told = Box::pin(wake.notified());
        assert!(told.as_mut().enable());
    }
}
