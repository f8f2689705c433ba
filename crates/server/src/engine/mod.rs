//! The event loops and the life of the process: start, reload, drain, end.

mod clock;
mod crowd;
mod deadlines;
mod event_loop;
mod pools;
mod run;
mod spool;
mod tcp;
mod thread;

pub use clock::Clock;
pub use deadlines::{Deadline, Deadlines, Expire, HasDeadline};
pub use run::{Reload, StartError, run};
pub use spool::Spool;
pub use tcp::poll_receive;
pub use thread::{Process, Setup, SharedSetup, Stage, Thread};
