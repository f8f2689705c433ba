//! PHP: pools of worker processes, and the talk with one of them.
//!
//! ```text
//!   event loop                        pool (one a distinct [php])            processes
//!   ----------                        ---------------------------            ---------
//!   dispatch ── acquire ────────────> idle workers, waiters, limits
//!    │                                      ▲ │ │ wake
//!    │                                      │ └─│── REQUEST of a waiter ───> worker
//!    │ REQUEST ─────────────────────────────│───│─────────────────────────> worker
//!    │ HEAD BODY END <──────────────────────│───│────────────────────────── worker
//!    ├─ all of it came at once: Reply       │   ▼
//!    ├─ else: Stream, a task pumps     supervisor thread ── SPAWN, RETIRE ─> host ── fork ─> worker
//!    └─ release ────────────────────────────┘        ▲───── STARTED, EXITED ── host
//! ```
//!
//! - [`pool`]: what event loops and supervisor share, under one lock, and who may touch what; there [`pool::waiters`]:
//!   requests that wait for a worker, a value without clock and sockets; [`pool::growth`]: how many workers there are;
//! - [`supervisor`]: the pool's own thread: it starts and restarts the host, has workers forked and ended, ends what
//!   takes too long, and looks after workers that nobody waits for any more;
//! - [`renewal`]: a new PHP takes over from the one that runs;
//! - [`trace`]: where a worker is when it takes long, and was when it crashed; [`crashes`]: requests that kill theirs;
//! - [`loopback`]: scripts that wait for their own site;
//! - [`host`]: starting the program `millrace-php`, and its control socket; [`inject`]: the PHP file it is given;
//! - [`runner`]: the entry of this room: workers of our own, or [`fastcgi`]: php-fpm's; [`start_error`]: why they do not start;
//! - [`worker`]: one worker's socket; [`worker_handle`]: what is known of it without a lock; [`scoreboard`];
//! - [`dispatch`]: the steps of a request, over a [`transport`]: [`exchange`] with workers of our own, or [`fastcgi`];
//! - [`job`]: what it needs to know of a request's site, and of the workers that run it;
//! - [`variables`]: what `$_SERVER` will hold; [`answer`]: frames to fields and content; [`stream`]: long answers; [`coder`]:
//!   their compression;
//! - [`waiting_room`]: what browsers get that have to wait longer;
//! - [`status`]: for people.

// A worker moves between lists, leases and channels all the time: as a pointer.
#![expect(clippy::vec_box)]

mod answer;
mod crashes;
mod dispatch;
mod exchange;
mod fastcgi;
mod host;
mod inject;
mod job;
mod loopback;
mod pool;
mod pump;
mod renewal;
mod runner;
mod scoreboard;
mod start_error;
mod status;
mod stream;
mod supervisor;
#[cfg(test)]
mod tests;
mod trace;
mod transport;
mod variables;
mod waiting_room;
mod worker;
mod worker_handle;

pub use crate::context::Context as PhpThread;
pub use answer::OnPurge;
pub use renewal::Renewal;
pub use runner::{PhpService, SiteWorkers, run, run_while};
pub use start_error::PhpStartError;
pub use waiting_room::seat;
