//! PHP by FastCGI: php-fpm's workers instead of our own, behind the same entry and with the same rules.
//!
//! ```text
//!   event loop                                       shared by all loops
//!   ----------                                       -------------------
//!   run ── a kept connection of this loop ───┐
//!    │  or ── a permit, connect ─────────────┤        permits: php.workers of them
//!    │  or ── wait ──────────────────────────│──────> queue <── whoever has a permit or connection too many
//!    │                                       ▼
//!    ├─ BEGIN PARAMS STDIN ────────────> php-fpm     backends: who is up, how busy
//!    ├─ STDOUT STDERR END <──────────────────┘
//!    ├─ all of it came at once: Reply; else: a Stream, a task pumps
//!    └─ the connection is kept, or goes to who waits, or is closed
//! ```
//!
//! - [`backends`]: what all loops share: permits, the queue, counts; [`backend`]: one address and whether it is up;
//!   [`capacity`]: how many connections one takes;
//! - [`connection_pool`]: what a loop keeps, and its keeper, who looks after connections several times a second;
//! - [`connection`]: one connection: sending, reading, time limits; [`input`]: the request's content;
//! - [`exchange`]: one request, and what happens if its connection fails; [`stream`]: long answers;
//! - [`answer`]: records to fields and content.
//!
//! **Connections.** php-fpm gives a whole process to a connection for as long as that is open. So there are never more
//! than `php.workers`, kept ones counted. php-fpm may have fewer processes (`pm.max_children`): a connection more is made all the
//! same, but it is not accepted, with the request that was sent, before another one is closed. So none is kept for later
//! while a new one has had no answer; and where the others answer request after request meanwhile, it is clear how many
//! there may be. One that nobody uses is closed after `php.idle_timeout`.
//!
//! **Locks.** The way of a request that finds a kept connection takes none: the list of kept ones is its loop's, counts
//! are atomics. The queue's mutex is taken by who waits, and by who has something to give while somebody waits.

mod answer;
mod backend;
mod backends;
mod capacity;
mod connection;
mod connection_pool;
mod exchange;
mod input;
mod stream;

pub use backends::Backends;
pub use connection_pool::ConnectionPool;
pub use exchange::run;
