//! Suspects run a few at a time; the others stand in line.

use std::sync::Arc;

use tokio::sync::Notify;

/// Most that stand in line. Of more, the one that would come last leaves.
const MOST: usize = 128;
/// A worker that died over a suspect holds one of its class's places for so many milliseconds for each of these places: so many
/// milliseconds lie between two deaths of a class, on average. Of those alike hardly one is a visitor.
pub const HOLD_MS: [u64; CLASSES] = [16, 16, 100];
/// The part of the workers that runs for a class.
const PART: [usize; CLASSES] = [2, 4, 8];

const CLASSES: usize = 3;

/// How suspect a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SuspectClass {
    /// It is for a page that kills.
    Other,
    /// It comes from where one came from that has killed, and has the same parameters and cookies, with other values.
    Akin,
    /// It comes from there, and has a parameter in common with requests that have killed.
    Alike,
}

/// What comes of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialTurn {
    /// It runs now, and has left the line.
    Go,
    /// It is asked again when it is woken, or after so many milliseconds.
    Wait(Option<u64>),
    /// Others were before it, and there is no more room.
    Out,
}

/// Places, and who waits for one. Times are milliseconds since some moment.
#[derive(Debug)]
pub struct TrialQueue {
    /// How many may run, of each class.
    most: [usize; CLASSES],
    /// How many run, of each class.
    running: [usize; CLASSES],
    /// Places that dead workers hold, until when.
    held: Vec<(SuspectClass, u64)>,
    waiters: Vec<TrialWaiter>,
    number: u64,
}

#[derive(Debug)]
struct TrialWaiter {
    class: SuspectClass,
    /// How much it is like those that killed. Less comes first.
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
    /// Of so many workers up to half run for others, a quarter for those akin, and an eighth for those alike; one at least.
    pub fn new(workers: usize) -> TrialQueue {
        let most = PART.map(|part| (workers / part).max(1));
        TrialQueue { most, running: [0; CLASSES], held: Vec::new(), waiters: Vec::new(), number: 0 }
    }

    /// A request gets into line; returns its number.
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

    /// Whether it is the turn of this number.
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

    /// This number does not wait any more.
    pub fn give_up(&mut self, number: u64) {
        self.waiters.retain(|waiter| waiter.number != number);
        self.wake();
    }

    /// One that ran has ended; with its worker, at this time, or without.
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

    /// Has the first of each class ask again.
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
