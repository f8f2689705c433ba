//! PHP: pools of worker processes, and the communication with a worker.
//!
//! ```text
//!   event loop                        pool (one per distinct [php])          processes
//!   ----------                        ---------------------------            ---------
//!   dispatch ── acquire ────────────> idle workers, waiters, limits
//!    │                                      ▲ │ │ wake
//!    │                                      │ └─│── REQUEST of a waiter ───> worker
//!    │ REQUEST ─────────────────────────────│───│─────────────────────────> worker
//!    │ HEAD BODY END <──────────────────────│───│────────────────────────── worker
//!    ├─ complete at once: Reply             │   ▼
//!    ├─ else: Stream, a task pumps     supervisor thread ── SPAWN, RETIRE ─> host ── fork ─> worker
//!    └─ release ────────────────────────────┘        ▲───── STARTED, EXITED ── host
//! ```
//!
//! - [`pool`]: what event loops and supervisor share, under one lock, and the rules for its use; in it
//!   [`pool::waiters`]: requests that wait for a worker, a value without clock and sockets; [`pool::growth`]: how many
//!   workers there are;
//! - [`supervisor`]: the pool's own thread: it starts and restarts the host, orders workers' forks and ends, enforces
//!   time limits, and reads workers whose client has gone;
//! - [`renewal`]: a new PHP replaces the current one;
//! - [`trace`]: where a slow worker is, and where a crashed one was; [`crashes`]: requests that kill their workers;
//! - [`loopback`]: scripts that wait for their own site;
//! - [`host`]: starting the program `millrace-php`, and its control socket; [`program`]: which one that is;
//!   [`inject`]: the PHP files that it gets;
//! - [`runner`]: the entry of this room: our own workers, or [`fastcgi`]: php-fpm's; [`start_error`]: why they do not
//!   start;
//! - [`worker`]: one worker's socket; [`worker_handle`]: what is known of it without a lock; [`scoreboard`];
//!   [`rewind`]: the figures of rewound workers; [`compare`]: whether their responses are right;
//! - [`dispatch`]: the steps of a request, over a [`transport`]: [`exchange`] with our own workers, or [`fastcgi`];
//! - [`job`]: what it needs to know of a request's site, and of the workers that run it;
//! - [`variables`]: the contents of `$_SERVER`; [`answer`]: frames to fields and content; [`stream`]: long responses;
//!   [`coder`]: their compression;
//! - [`waiting_room`]: the page for browsers that must wait longer;
//! - [`status`]: for people.

// A worker often moves between lists, leases and channels: as a pointer.
#![expect(clippy::vec_box)]

mod answer;
mod compare;
mod crashes;
mod dispatch;
mod exchange;
mod fastcgi;
mod host;
mod inject;
mod job;
mod loopback;
mod pool;
mod program;
mod pump;
mod rehearsal;
mod renewal;
mod rewind;
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

pub use answer::OnPurge;
pub use millrace_base::context::Context as PhpThread;
pub use pool::PhpRun;
pub use rehearsal::rehearse;
pub use renewal::Renewal;
pub use runner::{PhpService, SiteWorkers, run, run_while};
pub use start_error::PhpStartError;
pub use waiting_room::seat;
