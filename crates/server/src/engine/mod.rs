//! The event loops and the life of the process: start, reload, drain, end.

mod clock;
mod crowd;
mod deadlines;
mod event_loop;
mod memory;
mod pools;
mod run;
mod spool;
mod tcp;
mod thread;

pub use clock::Clock;
pub use deadlines::{Closed, Deadline, Deadlines, Expire, HasDeadline, Need, Rest, SWEEP_MS};
pub use memory::available as available_memory;
pub use run::{Reload, StartError, run};
pub use spool::Spool;
pub use tcp::poll_receive;
pub use thread::{Process, Setup, SharedSetup, Stage, Thread};
