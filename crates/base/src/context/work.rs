//! What is in progress on an event loop, so that an order of the admin address can wait for it: tests send one instead of asking again
//! and again whether something has happened.
//!
//! ```text
//!   begin -> OpenWork, counted in this turn      settle: the next turn begins, and the order waits until the count of the one before is 0
//! ```
//!
//! So an order never waits for what begins after it, and a busy server settles, too.

use std::cell::Cell;
use std::fmt;
use std::ops::Add;
use std::rc::Rc;

use tokio::sync::Notify;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// A request that has to wait for something, until its line of the access log.
    Request,
    /// A response that PHP still makes, or that waits in memory or on disk.
    Response,
    /// A page that is made for the page cache.
    Page,
    /// A page that the server requests itself.
    Visit,
    /// A look at a site's database or code.
    Look,
}

/// Each kind as a message names one of it, and several.
const NAMES: [(&str, &str); 5] = [
    ("request", "requests"),
    ("response", "responses"),
    ("page for the cache", "pages for the cache"),
    ("warm-up visit", "warm-up visits"),
    ("look at a site", "looks at sites"),
];

/// How much work of each kind is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCount([u32; NAMES.len()]);

impl WorkCount {
    /// Whether nothing is open.
    pub fn is_none(&self) -> bool {
        *self == WorkCount::default()
    }

    fn change(mut self, kind: WorkKind, change: impl FnOnce(u32) -> u32) -> WorkCount {
        self.0[kind as usize] = change(self.0[kind as usize]);
        self
    }
}

impl Add for WorkCount {
    type Output = WorkCount;

    fn add(self, other: WorkCount) -> WorkCount {
        WorkCount(std::array::from_fn(|kind| self.0[kind] + other.0[kind]))
    }
}

impl fmt::Display for WorkCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (count, (one, several)) in self.0.iter().zip(NAMES).filter(|(count, _)| **count > 0) {
            write!(f, "{separator}{count} {}", if *count == 1 { one } else { several })?;
            separator = ", ";
        }
        Ok(())
    }
}

/// The work of an event loop.
#[derive(Debug, Default)]
pub struct LoopWork {
    turn: Cell<usize>,
    /// Of this turn and the one before; their places change with each turn.
    open: [Cell<WorkCount>; 2],
    /// Orders that wait.
    waiting: Cell<usize>,
    ended: Notify,
}

/// Work in progress; dropped at its end.
#[derive(Debug)]
#[must_use = "it ends when this is dropped"]
pub struct OpenWork {
    work: Rc<LoopWork>,
    turn: usize,
    kind: WorkKind,
}

impl LoopWork {
    /// Some work begins.
    pub fn begin(self: &Rc<LoopWork>, kind: WorkKind) -> OpenWork {
        let turn = self.turn.get();
        let open = &self.open[turn];
        open.set(open.get().change(kind, |count| count + 1));
        OpenWork { work: self.clone(), turn, kind }
    }

    /// SettleWait until all work has ended that began before.
    pub async fn settle(&self) {
        self.waiting.set(self.waiting.get() + 1);
        let _waits = SettleWait(&self.waiting);
        // For another order, or left by one that gave up.
        while !self.open[1 - self.turn.get()].get().is_none() {
            self.ended.notified().await;
        }
        let before = self.turn.replace(1 - self.turn.get());
        while !self.open[before].get().is_none() {
            self.ended.notified().await;
        }
    }

    /// What is open.
    pub fn count(&self) -> WorkCount {
        self.open[0].get() + self.open[1].get()
    }
}

/// An order waits as long as this lives: it may give up.
struct SettleWait<'a>(&'a Cell<usize>);

impl Drop for SettleWait<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Drop for OpenWork {
    fn drop(&mut self) {
        let open = &self.work.open[self.turn];
        open.set(open.get().change(self.kind, |count| count - 1));
        // Without an order, the end of a request takes no lock.
        if self.work.waiting.get() > 0 {
            self.work.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_settled(order: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        order.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn an_order_waits_for_what_began_before_it() {
        let work = Rc::new(LoopWork::default());
        let (request, page) = (work.begin(WorkKind::Request), work.begin(WorkKind::Page));
        let mut order = pin!(work.settle());
        assert!(!is_settled(order.as_mut()));
        let later = work.begin(WorkKind::Request);
        drop(request);
        assert!(!is_settled(order.as_mut()), "the page is still being made");
        drop(page);
        assert!(is_settled(order.as_mut()), "what began later does not count");
        let mut next = pin!(work.settle());
        assert!(!is_settled(next.as_mut()));
        drop(later);
        assert!(is_settled(next.as_mut()));
        assert!(work.count().is_none());
    }

    #[test]
    fn one_that_gives_up_is_forgotten() {
        let work = Rc::new(LoopWork::default());
        let request = work.begin(WorkKind::Request);
        {
            let mut order = pin!(work.settle());
            assert!(!is_settled(order.as_mut()));
        }
        assert_eq!(work.waiting.get(), 0);
        let mut next = pin!(work.settle());
        assert!(!is_settled(next.as_mut()), "the request is still open");
        drop(request);
        assert!(is_settled(next.as_mut()));
        assert!(is_settled(pin!(work.settle())));
    }

    #[test]
    fn what_is_open_in_words() {
        let work = Rc::new(LoopWork::default());
        let _all = [work.begin(WorkKind::Request), work.begin(WorkKind::Visit), work.begin(WorkKind::Visit)];
        assert_eq!((work.count() + WorkCount::default()).to_string(), "1 request, 2 warm-up visits");
    }
}
