//! Makes room for new connections: closes the idlest connections of an event loop.
//!
//! ```text
//!   a connection comes -> memory left? --yes--> served
//!                             \--no--> idle connection here? --yes--> closed, served
//!                                          \--no--> it is shed: gets a 503 with Retry-After
//!                                                     \--too many of these--> waits in the kernel's queue
//! ```

use std::io;

use super::AcceptThread;
use crate::connection::Need;
use millrace_base::context::stats::Counter;

/// Connections closed at once when descriptors are short: files and PHP will soon need more, too.
const DESCRIPTORS_FREED: usize = 32;

/// How long no idle connection is searched for after none was found, milliseconds: in a storm not every connection
/// must search.
const LOOK_AGAIN_MS: u64 = 100;

/// Closes the idlest connections of this event loop if the memory for connections is used up. Returns whether there
/// is room now.
pub fn make_room(thread: &AcceptThread) -> bool {
    let excess = thread.context.process.budget.excess();
    if excess == 0 {
        return true;
    }
    close_idlest(thread, excess, usize::MAX);
    !thread.context.process.budget.is_full()
}

/// The same for event loops that need no room themselves, but have idle connections: all contribute.
pub fn give_way(thread: &AcceptThread) {
    let excess = thread.context.process.budget.excess();
    if excess > 0 {
        close_idlest(thread, excess.div_ceil(thread.context.loops as u64), usize::MAX);
    }
}

/// Closes the idlest connections of this event loop because descriptors are short. Returns how many.
pub fn free_descriptors(thread: &AcceptThread) -> usize {
    close_idlest(thread, u64::MAX, DESCRIPTORS_FREED)
}

fn close_idlest(thread: &AcceptThread, bytes: u64, most: usize) -> usize {
    thread.context.clock.read();
    let now = thread.context.clock.ticks();
    if now < thread.nobody_idle_until.get() {
        return 0;
    }
    let need = if thread.context.process.budget.is_far_exceeded() { Need::Great } else { Need::Some };
    let closed = thread.protocol.deadlines.close_idlest(now, need, bytes, most);
    if closed.bytes < bytes && closed.count < most {
        thread.nobody_idle_until.set(now + LOOK_AGAIN_MS);
    }
    thread.context.stats.add(Counter::ConnectionsGaveWay, closed.count as u64);
    closed.count
}

/// Why a connection can't be accepted; `None`: nothing is missing, the client had already gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Descriptors of this process, or of the whole system.
    Descriptors,
    /// Memory of the kernel.
    Memory,
}

impl Lack {
    /// The meaning of an `error` from accepting (accept(2), epoll_ctl(2)).
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
