//! More connections than one descriptor table holds.
//!
//! If the process may not raise its limit of open files, and `server.connections` exceeds the limit, there are crowd
//! loops: event loops with a descriptor table, and so a limit, of their own. All plain TCP connections come in there.
//! A crowd loop sends what is ready - cached pages, files in memory, redirects, errors -; any other request goes to
//! an ordinary event loop together with its connection, which then stays there.
//!
//! ```text
//!   client -> crowd loop --ready?--yes--> answered
//!                          \--no--> accept/passing.rs --> event loop -> PHP, large files, request content
//! ```
//!
//! A descriptor means nothing in another table. So a crowd loop must not drop anything with a descriptor that it has
//! not opened itself: the control thread keeps old setups until no crowd loop uses them. Event loops are woken
//! through descriptors, too, their eventfds, and so is the thread that waits for signals: a crowd loop keeps all
//! existing eventfds, because it wakes the loops to which it passes connections, and gets no signals.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::LocalRuntime;

use super::event_loop::runtime;
use crate::connection::{ConnectionLimits, Exit, PassingEntry, Supply, passage};

/// Descriptors of a crowd loop that are reserved for files and its own needs.
const KEPT: u64 = 256;
/// The kernel spreads connections over listening sockets at random: only this part of each loop's room counts.
const FILLING: f64 = 0.9;
/// Maximum number of crowd loops: more threads would be another problem.
const MOST: u64 = 1024;

/// Number of crowd loops needed for `connections`, if the process may open `descriptors`.
pub fn loops(connections: usize, descriptors: u64) -> usize {
    let wanted = connections as u64;
    if wanted <= descriptors {
        return 0;
    }
    let room = (descriptors - KEPT.min(descriptors / 4)).max(1) as f64 * FILLING;
    ((wanted as f64 / room).ceil() as u64).min(MOST) as usize
}

/// A crowd loop's connections to other threads.
pub struct Ways {
    /// Where its connections leave.
    pub exit: Exit,
    /// Where they arrive in an ordinary event loop.
    pub entry: PassingEntry,
    /// Supplies its listening sockets.
    pub supply: Supply,
}

/// Gives the calling thread its own descriptor table, with a runtime and the connections to other threads; `room`:
/// the limit of connections on the other side.
///
/// # Errors
/// No descriptors or memory are available.
pub fn secede(room: &Arc<ConnectionLimits>) -> io::Result<(LocalRuntime, Ways)> {
    let before = open_here();
    let runtime = runtime()?;
    let (exit, entry, supply) = passage(room)?;
    // Descriptors that another thread has opened meanwhile are kept, too, which is harmless.
    let now = open_here();
    let mut keep: Vec<RawFd> = now.difference(&before).copied().collect();
    keep.extend(now.intersection(&before).filter(|number| wakes(**number)));
    keep.extend([0, 1, 2, exit.number()]);
    millrace_sys::block_signals()?;
    millrace_sys::own_descriptor_table_of(&keep)?;
    Ok((runtime, Ways { exit, entry, supply }))
}

const HERE: &str = "/proc/thread-self/fd";

/// Whether this descriptor wakes event loops.
fn wakes(number: RawFd) -> bool {
    std::fs::read_link(format!("{HERE}/{number}"))
        .is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
}

/// Numbers of the open descriptors.
fn open_here() -> BTreeSet<RawFd> {
    let here = Path::new(HERE);
    let names = std::fs::read_dir(here).into_iter().flatten().flatten();
    let mut open: BTreeSet<RawFd> =
        names.filter_map(|name| name.file_name().to_str()?.parse().ok()).collect();
    // Except the one used for reading them.
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
