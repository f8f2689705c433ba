//! More connections than one descriptor table holds.
//!
//! Where the process may not raise its limit of open files, and `server.connections` asks for more than the limit, there are
//! crowd loops: event loops of which each has a descriptor table of its own, and so a limit of its own. All plain TCP
//! connections come in there. What is ready - pages of the cache, files in memory, redirects, errors - is answered there;
//! any other request goes to an ordinary event loop together with its connection, which then stays there.
//!
//! ```text
//!   client -> crowd loop --ready?--yes--> answered
//!                          \--no--> accept/passing.rs --> event loop -> PHP, large files, request content
//! ```
//!
//! A descriptor means nothing in another table. So nothing that has one may be dropped by a crowd loop but what it has
//! opened: the control thread keeps old set-ups until nobody else does. An event loop is woken by a number, too, that of its
//! eventfd, and so is whoever waits for signals: a crowd loop keeps all eventfds that there are, for it wakes those to
//! which it passes connections, and gets no signals.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::LocalRuntime;

use super::event_loop::runtime;
use crate::connection::{ConnectionLimits, Exit, PassingEntry, Supply, passage};

/// Descriptors of a crowd loop that are not for connections: files, its own needs.
const KEPT: u64 = 256;
/// The kernel spreads connections over listening sockets by chance: so much of each loop's room is planned with.
const FILLING: f64 = 0.9;
/// A process with more threads than that would be another problem.
const MOST: u64 = 1024;

/// How many crowd loops there have to be for so many connections, if the process may open so many descriptors.
pub fn loops(connections: usize, descriptors: u64) -> usize {
    let wanted = connections as u64;
    if wanted <= descriptors {
        return 0;
    }
    let room = (descriptors - KEPT.min(descriptors / 4)).max(1) as f64 * FILLING;
    ((wanted as f64 / room).ceil() as u64).min(MOST) as usize
}

/// What a crowd loop needs on its thread, and its two ends for others.
pub struct Ways {
    /// Where its connections leave it.
    pub exit: Exit,
    /// Where they come into an ordinary event loop.
    pub entry: PassingEntry,
    /// Where its listening sockets come from.
    pub supply: Supply,
}

/// Gives the calling thread a table of its own, with a runtime and the way to the others in it; `room`: how many connections may be
/// on the other side.
///
/// # Errors
/// No descriptors or memory can be had.
pub fn secede(room: &Arc<ConnectionLimits>) -> io::Result<(LocalRuntime, Ways)> {
    let before = open_here();
    let runtime = runtime()?;
    let (exit, entry, supply) = passage(room)?;
    // What another thread has opened meanwhile is kept, too: it does no harm.
    let now = open_here();
    let mut keep: Vec<RawFd> = now.difference(&before).copied().collect();
    keep.extend(now.intersection(&before).filter(|number| wakes(**number)));
    keep.extend([0, 1, 2, exit.number()]);
    millrace_sys::block_signals()?;
    millrace_sys::own_descriptor_table_of(&keep)?;
    Ok((runtime, Ways { exit, entry, supply }))
}

const HERE: &str = "/proc/thread-self/fd";

/// Whether it is what event loops are woken by.
fn wakes(number: RawFd) -> bool {
    std::fs::read_link(format!("{HERE}/{number}"))
        .is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
}

/// Numbers that are open.
fn open_here() -> BTreeSet<RawFd> {
    let here = Path::new(HERE);
    let names = std::fs::read_dir(here).into_iter().flatten().flatten();
    let mut open: BTreeSet<RawFd> =
        names.filter_map(|name| name.file_name().to_str()?.parse().ok()).collect();
    // But for the one by which they were read.
    open.retain(|number| here.join(number.to_string()).exists());
    open
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_are_as_many_as_the_limit_makes_necessary() {
        for (wanted, descriptors, loops) in [
            (0, 1024, 0),
            (1000, 1024, 0),
            (1_000_000, 1 << 20, 0),
            (1_000_000, 20_000, 57),
            (2000, 1000, 3),
            (2000, 100, 30),
        ] {
            assert_eq!(super::loops(wanted, descriptors), loops, "{wanted} of {descriptors}");
        }
    }
}
