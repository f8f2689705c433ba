//! The ground on which all rooms stand: clock, counters, logs, unnamed files, and the memory budget of connections.
//! This room uses no other.

pub mod budget;
mod clock;
pub mod log;
mod memory;
mod process;
mod pulse;
mod spool;
pub mod stats;
mod tcp;
mod work;

pub use clock::Clock;
pub use memory::available as available_memory;
pub use process::{Context, Process, ProcessStage, Swapped};
pub use pulse::{HungLoop, Pulse};
pub use spool::Spool;
pub use tcp::poll_receive;
pub use work::{OpenWork, WorkCount, WorkKind};
