//! Room for those who come when there is none: the idlest connections of an event loop are closed for them.
//!
//! ```text
//!   a connection comes -> memory left? --yes--> served
//!                             \--no--> somebody idle here? --yes--> closed, served
//!                                          \--no--> it is shed: gets a 503 with Retry-After
//!                                                     \--too many of these--> waits in the kernel's queue
//! ```

use std::io;

use super::AcceptThread;
use crate::connection::Need;
use crate::context::stats::Counter;

/// Connections that are closed at once for want of descriptors: others will be wanted soon, for files and PHP, too.
const DESCRIPTORS_FREED: usize = 32;

/// Where nobody was idle nobody is for so long, as it were: not every connection of a storm has to look.
const LOOK_AGAIN_MS: u64 = 100;

/// Closes the idlest connections of this event loop if the memory for connections is used up. Whether there is room now.
pub fn make_room(thread: &AcceptThread) -> bool {
    let excess = thread.process.budget.excess();
    if excess == 0 {
        return true;
    }
    close_idlest(thread, excess, usize::MAX);
    !thread.process.budget.is_full()
}

/// The same for event loops that need no room, but have idle connections: all give their part.
pub fn give_way(thread: &AcceptThread) {
    let excess = thread.process.budget.excess();
    if excess > 0 {
        close_idlest(thread, excess.div_ceil(thread.loops as u64), usize::MAX);
    }
}

/// Closes the idlest connections of this event loop for want of descriptors. How many.
pub fn free_descriptors(thread: &AcceptThread) -> usize {
    close_idlest(thread, u64::MAX, DESCRIPTORS_FREED)
}

fn close_idlest(thread: &AcceptThread, bytes: u64, most: usize) -> usize {
    thread.clock.read();
    let now = thread.clock.ticks();
    if now < thread.nobody_idle_until.get() {
        return 0;
    }
    let need = if thread.process.budget.is_far_exceeded() { Need::Great } else { Need::Some };
    let closed = thread.deadlines.close_idlest(now, need, bytes, most);
    if closed.bytes < bytes && closed.count < most {
        thread.nobody_idle_until.set(now + LOOK_AGAIN_MS);
    }
    thread.stats.add(Counter::ConnectionsGaveWay, closed.count as u64);
    closed.count
}

/// What is lacking where a connection can't be accepted; `None`: nothing, the client was gone before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Of this process, or of the whole system.
    Descriptors,
    /// The kernel's.
    Memory,
}

impl Lack {
    /// What `error` of accepting says (accept(2), epoll_ctl(2)).
    pub fn of(error: &io::Error) -> Option<Lack> {
        use rustix::io::Errno;
        let is = |errors: &[Errno]| errors.iter().any(|e| error.raw_os_error() == Some(e.raw_os_error()));
        if is(&[Errno::MFILE, Errno::NFILE]) {
            Some(Lack::Descriptors)
        } else if is(&[Errno::NOBUFS, Errno::NOMEM, Errno::NOSPC]) {
            Some(Lack::Memory)
        } else {
            None
        }
    }
}
