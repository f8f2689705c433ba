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
pub enum Class {
    /// It is for a page that kills.
    Other,
    /// It comes from where one came from that has killed, and has the same parameters and cookies, with other values.
    Akin,
    /// It comes from there, and has a parameter in common with requests that have killed.
    Alike,
}

/// What comes of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It runs now, and has left the line.
    Go,
    /// It is asked again when it is woken, or after so many milliseconds.
    Wait(Option<u64>),
    /// Others were before it, and there is no more room.
    Out,
}

/// Places, and who waits for one. Times are milliseconds since some moment.
#[derive(Debug)]
pub struct Line {
    /// How many may run, of each class.
    most: [usize; CLASSES],
    /// How many run, of each class.
    running: [usize; CLASSES],
    /// Places that dead workers hold, until when.
    held: Vec<(Class, u64)>,
    waiters: Vec<Waiter>,
    number: u64,
}

#[derive(Debug)]
struct Waiter {
    class: Class,
    /// How much it is like those that killed. Less comes first.
    heat: u32,
    number: u64,
    wake: Arc<Notify>,
}

impl Waiter {
    fn rank(&self) -> (Class, u32, u64) {
        (self.class, self.heat, self.number)
    }
}

impl Line {
    /// Of so many workers up to half run for others, a quarter for those akin, and an eighth for those alike; one at least.
    pub fn new(workers: usize) -> Line {
        let most = PART.map(|part| (workers / part).max(1));
        Line { most, running: [0; CLASSES], held: Vec::new(), waiters: Vec::new(), number: 0 }
    }

    /// A request gets into line; returns its number.
    pub fn queue(&mut self, class: Class, heat: u32, wake: Arc<Notify>) -> u64 {
        self.number += 1;
        self.waiters.push(Waiter { class, heat, number: self.number, wake });
        if self.waiters.len() > MOST
            && let Some(last) = (0..self.waiters.len()).max_by_key(|at| self.waiters[*at].rank())
        {
            self.waiters.swap_remove(last).wake.notify_one();
        }
        self.number
    }

    /// Whether it is the turn of this number.
    pub fn turn(&mut self, number: u64, now: u64) -> Turn {
        let Some(at) = self.waiters.iter().position(|waiter| waiter.number == number) else {
            return Turn::Out;
        };
        self.held.retain(|(_, until)| now < *until);
        let class = self.waiters[at].class;
        if self.first(class).is_none_or(|first| first.number != number) {
            return Turn::Wait(None);
        }
        if self.is_free(class) {
            self.running[class as usize] += 1;
            self.waiters.swap_remove(at);
            self.wake();
            return Turn::Go;
        }
        Turn::Wait(self.held.iter().map(|(_, until)| until - now).min())
    }

    /// This number does not wait any more.
    pub fn give_up(&mut self, number: u64) {
        self.waiters.retain(|waiter| waiter.number != number);
        self.wake();
    }

    /// One that ran has ended; with its worker, at this time, or without.
    pub fn leave(&mut self, class: Class, died: Option<u64>) {
        let running = &mut self.running[class as usize];
        *running = running.saturating_sub(1);
        if let Some(now) = died {
            self.held.push((class, now + HOLD_MS[class as usize] * self.most[class as usize] as u64));
        }
        self.wake();
    }

    fn is_free(&self, class: Class) -> bool {
        self.taken(class) < self.most[class as usize]
    }

    fn taken(&self, class: Class) -> usize {
        self.running[class as usize] + self.held.iter().filter(|(held, _)| *held == class).count()
    }

    fn first(&self, class: Class) -> Option<&Waiter> {
        self.waiters.iter().filter(|waiter| waiter.class == class).min_by_key(|waiter| waiter.rank())
    }

    /// Has the first of each class ask again.
    fn wake(&self) {
        for class in [Class::Other, Class::Akin, Class::Alike] {
            if let Some(first) = self.first(class) {
                first.wake.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(workers: usize, requests: &[(Class, u32)]) -> Line {
        let mut line = Line::new(workers);
        for (class, heat) in requests {
            line.queue(*class, *heat, Arc::new(Notify::new()));
        }
        line
    }

    use Class::{Alike, Other};

    #[test]
    fn a_few_at_a_time_and_fewer_of_those_alike() {
        let mut line = line(16, &[(Alike, 1); 20]);
        let goes = |line: &mut Line| (1..=20).filter(|number| line.turn(*number, 0) == Turn::Go).count();
        assert_eq!(goes(&mut line), 2);
        for _ in 0..20 {
            line.queue(Other, 0, Arc::new(Notify::new()));
        }
        assert_eq!((21..=40).filter(|number| line.turn(*number, 0) == Turn::Go).count(), 8);
        line.leave(Alike, None);
        assert_eq!(goes(&mut line), 1);
    }

    #[test]
    fn a_dead_worker_holds_its_place() {
        let mut line = line(8, &[(Alike, 1), (Alike, 1), (Other, 0)]);
        assert_eq!(line.turn(1, 5), Turn::Go);
        line.leave(Alike, Some(10));
        assert_eq!(line.turn(2, 12), Turn::Wait(Some(10 + 100 - 12)));
        assert_eq!(line.turn(3, 12), Turn::Go, "others have places of their own");
        assert_eq!(line.turn(2, 10 + 100), Turn::Go);
    }

    #[test]
    fn the_least_alike_comes_first() {
        let mut line = line(1, &[(Alike, 9), (Alike, 2), (Alike, 2), (Other, 3)]);
        assert_eq!(line.turn(1, 0), Turn::Wait(None));
        assert_eq!((line.turn(4, 0), line.turn(2, 0)), (Turn::Go, Turn::Go));
        assert_eq!(line.turn(3, 0), Turn::Wait(None), "nothing is held by the dead");
        line.leave(Other, None);
        assert_eq!(line.turn(3, 0), Turn::Wait(None));
        line.give_up(3);
        line.leave(Alike, None);
        assert_eq!(line.turn(1, 0), Turn::Go);
    }

    #[test]
    fn the_last_leaves_a_line_that_is_full() {
        let mut line = line(1, &[(Alike, 5); MOST]);
        let other = line.queue(Other, 0, Arc::new(Notify::new()));
        assert_eq!(line.turn(MOST as u64, 0), Turn::Out);
        assert_eq!(line.turn(other, 0), Turn::Go);
        let (a, b) =
            (line.queue(Alike, 9, Arc::new(Notify::new())), line.queue(Alike, 9, Arc::new(Notify::new())));
        assert_eq!((line.turn(a, 0), line.turn(b, 0)), (Turn::Wait(None), Turn::Out));
    }

    #[test]
    fn the_next_is_woken() {
        let mut line = Line::new(1);
        let wake = Arc::new(Notify::new());
        let (first, _) = (line.queue(Other, 0, wake.clone()), line.queue(Other, 0, Arc::new(Notify::new())));
        line.leave(Other, None);
        assert_eq!(line.turn(first, 0), Turn::Go);
        let mut told = Box::pin(wake.notified());
        assert!(told.as_mut().enable());
    }
}
