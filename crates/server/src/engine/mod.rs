//! The event loops and the life of the process: start, reload, drain, end.

mod crowd;
mod event_loop;
mod memory;
mod run;

pub use run::{Reload, StartError, run};
