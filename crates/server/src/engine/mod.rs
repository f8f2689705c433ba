//! The event loops and the life of the process: start, reload, drain, end.

mod crowd;
mod error;
mod event_loop;
mod memory;
mod run;
mod service_manager;
mod watch;

pub use error::{ReloadError, StartError};
pub use run::{Reload, run};
