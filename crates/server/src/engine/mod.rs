//! The event loops and the life of the process: start, reload, drain, end.

mod clock;
mod deadlines;
mod thread;

pub use clock::Clock;
pub use deadlines::{Deadline, Deadlines};
pub use thread::{Process, Setup, Stage, Thread};
