//! Connections without a protocol yet: during the handshake, or before their first byte. They are shed like others
//! when they are inactive.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::sync::Notify;

use super::ConnectionPermit;
use super::{Deadline, Deadlines, Expire, HasDeadline, Rest};
use millrace_base::context::Context;
use millrace_base::context::stats::Counter;

/// A connection without a protocol yet.
#[derive(Debug)]
pub struct Newcomer {
    context: Rc<Context>,
    /// The counter of its state.
    gauge: Counter,
    /// Never used: it has a timer, because its time is limited whatever its client does.
    deadline: Deadline,
    /// When its client was last active, in ticks of the thread's clock.
    moved: Cell<u64>,
    permit: RefCell<Option<ConnectionPermit>>,
    /// Notified when it must end.
    gone: Notify,
    gave_way: Cell<bool>,
}

impl Newcomer {
    /// A new one, counted in `gauge` until it is dropped.
    pub fn new(
        context: &Rc<Context>,
        deadlines: &Deadlines,
        gauge: Counter,
        permit: ConnectionPermit,
    ) -> Rc<Newcomer> {
        context.stats.add(gauge, 1);
        let newcomer = Rc::new(Newcomer {
            context: context.clone(),
            gauge,
            deadline: Deadline::default(),
            moved: Cell::new(context.clock.ticks()),
            permit: RefCell::new(Some(permit)),
            gone: Notify::new(),
            gave_way: Cell::new(false),
        });
        deadlines.watch(&newcomer);
        newcomer
    }

    /// Its client has sent something.
    pub fn moves(&self) {
        self.moved.set(self.context.clock.ticks());
    }

    /// Returns when it must end.
    pub async fn gone(&self) {
        self.gone.notified().await;
    }

    /// Takes its permit, when its protocol is known.
    pub fn take_permit(&self) -> Option<ConnectionPermit> {
        self.permit.take()
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.context.stats.sub(self.gauge, 1);
    }
}

impl Expire for Newcomer {
    fn expire(&self) {}
}

impl HasDeadline for Newcomer {
    fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    fn end_if_idle(&self) {
        self.gone.notify_one();
    }

    fn rest(&self) -> Option<Rest> {
        (!self.gave_way.get()).then(|| Rest { since: self.moved.get(), stalled: true })
    }

    fn give_way(&self) -> u64 {
        self.gave_way.set(true);
        self.gone.notify_one();
        self.permit.borrow().as_ref().map_or(0, ConnectionPermit::give_back)
    }
}
