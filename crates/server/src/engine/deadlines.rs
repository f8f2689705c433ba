//! Time-outs without a timer a connection: each connection writes down until when it may stay as it is, and a sweep
//! a few times a second looks for those that have stayed too long.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// How often connections are looked at, milliseconds: how late a time-out may come.
pub const SWEEP_MS: u64 = 250;

/// Something whose patience ends.
pub trait Expire {
    /// The deadline has passed. Must not block; may end the connection.
    fn expire(&self);
}

/// Until when the owner may stay as it is, in [`super::Clock::ticks`]. 0: for ever.
#[derive(Debug, Default)]
pub struct Deadline(Cell<u64>);

impl Deadline {
    /// Patience ends at `tick`.
    pub fn set(&self, tick: u64) {
        self.0.set(tick.max(1));
    }

    /// Patience never ends.
    pub fn clear(&self) {
        self.0.set(0);
    }

    /// Whether it has ended.
    pub fn is_over(&self, now: u64) -> bool {
        let tick = self.0.get();
        tick != 0 && tick <= now
    }
}

/// Everybody on this thread who has a deadline. Does not own them.
#[derive(Default)]
pub struct Deadlines {
    owners: RefCell<Vec<Weak<dyn HasDeadline>>>,
}

/// An owner of a [`Deadline`].
pub trait HasDeadline: Expire {
    /// Its deadline.
    fn deadline(&self) -> &Deadline;

    /// Ends it if it does nothing: the server is about to end.
    fn end_if_idle(&self);

    /// Another configuration is in force.
    fn renew(&self) {}
}

impl Deadlines {
    /// Looks after `owner` from now on, until it is dropped.
    pub fn watch(&self, owner: &Rc<impl HasDeadline + 'static>) {
        let owner: Weak<dyn HasDeadline> = Rc::<_>::downgrade(owner) as Weak<dyn HasDeadline>;
        self.owners.borrow_mut().push(owner);
    }

    /// Expires those whose deadline is over, and forgets those that are gone.
    pub fn sweep(&self, now: u64) {
        // An owner that expires may start to watch another: the list is not borrowed meanwhile.
        let mut owners = self.owners.take();
        owners.retain(|owner| match owner.upgrade() {
            Some(owner) => {
                if owner.deadline().is_over(now) {
                    owner.deadline().clear();
                    owner.expire();
                }
                true
            }
            None => false,
        });
        let mut newer = self.owners.borrow_mut();
        owners.append(&mut newer);
        *newer = owners;
    }

    /// Ends everybody who does nothing.
    pub fn end_idle(&self) {
        self.owners.borrow().iter().filter_map(Weak::upgrade).for_each(|owner| owner.end_if_idle());
    }

    /// Tells everybody that another configuration is in force.
    pub fn renew(&self) {
        self.owners.borrow().iter().filter_map(Weak::upgrade).for_each(|owner| owner.renew());
    }

    /// Whether nobody is left to look after.
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
