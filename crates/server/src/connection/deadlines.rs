//! Timeouts without a timer per connection: each connection stores its deadline, and a sweep a few times a second
//! finds those that have passed.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use millrace_base::context::budget::PLAIN_BYTES;

/// Interval of the sweep, milliseconds: how late a timeout may come.
pub const SWEEP_MS: u64 = 250;

/// Minimum time without activity of an idle connection, milliseconds: a newly accepted one, or one that is about to
/// request the next part of a page, is not idle.
const IDLE_MS: u64 = 1_000;
/// A client that stops in the middle of a request for this long is as good as gone, milliseconds. Shorter than any
/// timeout.
const STALLED_MS: u64 = 4_000;

/// Something with a deadline.
pub trait Expire {
    /// The deadline has passed. Must not block; may end the connection.
    fn expire(&self);
}

/// The deadline of its owner, in [`millrace_base::context::Clock::ticks`]. 0: none.
#[derive(Debug, Default)]
pub struct Deadline(Cell<u64>);

impl Deadline {
    /// Sets the deadline to `tick`.
    pub fn set(&self, tick: u64) {
        self.0.set(tick.max(1));
    }

    /// Removes the deadline.
    pub fn clear(&self) {
        self.0.set(0);
    }

    /// Whether it has passed.
    pub fn is_over(&self, now: u64) -> bool {
        let tick = self.0.get();
        tick != 0 && tick <= now
    }
}

/// All owners of a deadline on this thread. Does not own them.
pub struct Deadlines {
    owners: RefCell<Vec<Weak<dyn HasDeadline>>>,
    /// Time without activity after which an owner is idle, milliseconds.
    idle: Cell<u64>,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines { owners: RefCell::default(), idle: Cell::new(IDLE_MS) }
    }
}

/// An owner of a [`Deadline`].
pub trait HasDeadline: Expire {
    /// Its deadline.
    fn deadline(&self) -> &Deadline;

    /// Ends it if it is idle: the server is about to exit.
    fn end_if_idle(&self);

    /// Another configuration is in force.
    fn renew(&self) {}

    /// Its state of rest, in which it may be closed to make room; `None`: it is at work.
    fn rest(&self) -> Option<Rest>;

    /// Closes it to make room. Returns the bytes that it held.
    fn give_way(&self) -> u64;

    /// Updates the memory that it holds.
    fn weigh(&self, _now: u64) {}
}

/// How an owner is at rest. The smallest value is the idlest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rest {
    /// When its client was last active, in [`millrace_base::context::Clock::ticks`].
    pub since: u64,
    /// It is in the middle of a request.
    pub stalled: bool,
}

impl Rest {
    /// Whether it has lasted long enough; if the `need` is great, a short time is enough.
    fn is_long(self, now: u64, need: Need, idle: u64) -> bool {
        let least = match need {
            Need::Some if self.stalled => STALLED_MS,
            Need::Some | Need::Great => idle,
        };
        self.since + least <= now
    }
}

/// How badly room is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// For one more connection.
    Some,
    /// The existing connections hold far more than they may.
    Great,
}

/// What was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Number of owners.
    pub count: usize,
    /// Memory that they held.
    pub bytes: u64,
}

impl Deadlines {
    /// Sets the time after which an owner is idle.
    #[cfg(test)]
    pub fn set_idle(&self, milliseconds: u64) {
        self.idle.set(milliseconds);
    }

    /// Watches `owner` until it is dropped.
    pub fn watch(&self, owner: &Rc<impl HasDeadline + 'static>) {
        let owner: Weak<dyn HasDeadline> = Rc::<_>::downgrade(owner) as Weak<dyn HasDeadline>;
        self.owners.borrow_mut().push(owner);
    }

    /// Expires owners whose deadline has passed, and forgets dropped ones.
    pub fn sweep(&self, now: u64) {
        // An owner that expires may register another one: the list is not borrowed meanwhile.
        let mut owners = self.owners.take();
        owners.retain(|owner| match owner.upgrade() {
            Some(owner) => {
                if owner.deadline().is_over(now) {
                    owner.deadline().clear();
                    owner.expire();
                }
                owner.weigh(now);
                true
            }
            None => false,
        });
        let mut newer = self.owners.borrow_mut();
        owners.append(&mut newer);
        *newer = owners;
    }

    /// Ends all idle owners.
    pub fn end_idle(&self) {
        self.owners.borrow().iter().filter_map(Weak::upgrade).for_each(|owner| owner.end_if_idle());
    }

    /// Tells all owners that another configuration is in force.
    pub fn renew(&self) {
        self.owners.borrow().iter().filter_map(Weak::upgrade).for_each(|owner| owner.renew());
    }

    /// Ends the idlest owners until `bytes` are free, `most` of them at most.
    pub fn close_idlest(&self, now: u64, need: Need, bytes: u64, most: usize) -> Closed {
        let owners = self.owners.borrow();
        let resting = owners.iter().filter_map(Weak::upgrade).filter_map(|owner| {
            let rest = owner.rest().filter(|rest| rest.is_long(now, need, self.idle.get()))?;
            Some((rest, owner))
        });
        let mut resting: Vec<(Rest, Rc<dyn HasDeadline>)> = resting.collect();
        // None holds less than this.
        let enough = usize::try_from(bytes / PLAIN_BYTES).unwrap_or(usize::MAX).saturating_add(1).min(most);
        if enough < resting.len() {
            resting.select_nth_unstable_by_key(enough, |(rest, _)| *rest);
            resting.truncate(enough);
        }
        resting.sort_unstable_by_key(|(rest, _)| *rest);
        let mut closed = Closed::default();
        for (_, owner) in resting {
            if closed.bytes >= bytes {
                break;
            }
            closed.bytes += owner.give_way();
            closed.count += 1;
        }
        closed
    }

    /// Whether no owner is left.
    pub fn is_empty(&self) -> bool {
        self.owners.borrow().iter().all(|owner| owner.strong_count() == 0)
    }
}

impl std::fmt::Debug for Deadlines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Deadlines({})", self.owners.borrow().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Owner {
        deadline: Deadline,
        expired: Cell<u32>,
        rest: Option<Rest>,
        gone: Cell<bool>,
    }

    impl Owner {
        fn at_rest(stalled: bool, since: u64) -> Rc<Owner> {
            Rc::new(Owner { rest: Some(Rest { stalled, since }), ..Owner::default() })
        }
    }

    impl Expire for Owner {
        fn expire(&self) {
            self.expired.set(self.expired.get() + 1);
        }
    }

    impl HasDeadline for Owner {
        fn deadline(&self) -> &Deadline {
            &self.deadline
        }

        fn end_if_idle(&self) {}

        fn rest(&self) -> Option<Rest> {
            self.rest.filter(|_| !self.gone.get())
        }

        fn give_way(&self) -> u64 {
            self.gone.set(true);
            PLAIN_BYTES
        }
    }

    #[test]
    fn the_idlest_give_way_first_and_who_works_never() {
        let deadlines = Deadlines::default();
        deadlines.set_idle(50);
        let late = 100_000;
        let owners = [
            Owner::at_rest(true, 70_000),
            Owner::at_rest(false, 90_000),
            Rc::new(Owner::default()),
            Owner::at_rest(false, 50_000),
            Owner::at_rest(false, late - 10),
            Owner::at_rest(true, late - 2_000),
        ];
        owners.iter().for_each(|owner| deadlines.watch(owner));
        let gone = || owners.iter().map(|owner| owner.gone.get()).collect::<Vec<_>>();
        let close = |need, bytes, most| deadlines.close_idlest(late, need, bytes, most);
        assert_eq!(close(Need::Some, 1, 9), Closed { count: 1, bytes: PLAIN_BYTES });
        assert_eq!(gone(), [false, false, false, true, false, false], "the idlest");
        assert_eq!(close(Need::Some, u64::MAX, 1).count, 1);
        assert_eq!(
            gone(),
            [true, false, false, true, false, false],
            "the next, in the middle of a request or not"
        );
        assert_eq!(close(Need::Some, u64::MAX, 9).count, 1);
        assert_eq!(gone(), [true, true, false, true, false, false], "the others have moved lately");
        assert_eq!(close(Need::Some, u64::MAX, 9), Closed::default());
        assert_eq!(close(Need::Great, u64::MAX, 9).count, 1);
        assert_eq!(gone(), [true, true, false, true, false, true], "who has moved in the last moment stays");
    }

    #[test]
    fn expires_once_and_forgets_the_dead() {
        let deadlines = Deadlines::default();
        let owner = Rc::new(Owner::default());
        deadlines.watch(&owner);
        deadlines.sweep(1_000);
        assert_eq!(owner.expired.get(), 0, "no deadline is set");
        owner.deadline.set(2_000);
        deadlines.sweep(1_999);
        assert_eq!(owner.expired.get(), 0);
        deadlines.sweep(2_000);
        deadlines.sweep(9_000);
        assert_eq!(owner.expired.get(), 1);
        drop(owner);
        assert!(deadlines.is_empty());
        deadlines.sweep(9_001);
        assert_eq!(deadlines.owners.borrow().len(), 0);
    }
}
