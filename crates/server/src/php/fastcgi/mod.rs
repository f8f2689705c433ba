//! PHP by FastCGI: php-fpm's workers instead of our own, behind the same entry and with the same rules.
//!
//! ```text
//!   event loop                                       shared by all loops
//!   ----------                                       -------------------
//!   dispatch ── a place, and an idle connection ────> places, queue, idle connections
//!    │  or ── a place: connect ────────────┐            ▲ │
//!    │  or ── wait ────────────────────────│────────────│─┘ <── a place is given back
//!    │                                     ▼            │
//!    ├─ BEGIN PARAMS STDIN ──────────> php-fpm       backends: which are up, how busy
//!    ├─ STDOUT STDERR END <────────────────┘            │
//!    ├─ all of it came at once: Reply; else: a Stream, a task pumps
//!    └─ place and connection are given back ────────────┘
//! ```
//!
//! - [`exchange`]: the [`Transport`](super::transport::Transport): connecting, sending, reading, and what a failure means;
//!   [`stream`]: long answers; [`answer`]: records to fields and content;
//! - [`backends`]: what all loops share; [`backend`]: one address and whether it is up; [`capacity`]: how many connections one
//!   takes;
//! - [`keeper`]: the thread that looks after connections several times a second; [`processes`]: php-fpm's, if they are here;
//! - [`connection`]: one connection: sending, reading, time limits; [`input`]: the request's content.
//!
//! **Connections.** php-fpm gives a whole process to a connection for as long as that is open. So there are never more
//! than `php.workers`, idle ones counted, and as many places for requests: a request with a place may make a connection, in the
//! place of an idle one if need be. php-fpm may have fewer processes (`pm.max_children`): a connection more is made all the
//! same, but it is not accepted, with the request that was sent, before another one is closed. So none lies idle
//! while a new one has had no answer; and where the others answer request after request meanwhile, it is clear how many
//! there may be. One that nobody uses is closed after `php.idle_timeout`.
//!
//! **Pools** share the places as they share workers of our own, and the limit of requests that run at once is found in the same way:
//! by what php-fpm's processes use of the cores, where they run on this machine, else by trying.

mod answer;
mod backend;
mod backends;
mod capacity;
mod connection;
mod exchange;
mod input;
mod keeper;
mod processes;
mod stream;

pub use backends::Backends;
