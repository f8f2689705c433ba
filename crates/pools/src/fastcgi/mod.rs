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
//! **Reuse.** The process of a connection that has had its response may still run the script
//! (`fastcgi_finish_request`). So the first record of the next request is sent at once, and a connection is reused only
//! when the process has read it, which the kernel tells of Unix sockets. Over TCP each request has a connection.
//!
//! **Connections.** php-fpm assigns a whole process to a connection for as long as it is open. So there are never
//! more than `php.workers` connections, idle ones included, and as many places for requests: a request with a place
//! may open a connection, replacing an idle one if necessary. php-fpm may have fewer processes (`pm.max_children`): a
//! connection beyond that is established and its request sent, but php-fpm does not accept it before another one is
//! closed. So no connection stays idle while a new one has had no response; and if the others complete request after
//! request meanwhile, the number of processes is known. A connection that is unused for `php.idle_timeout` is closed.
//!
//! **Pools** share the places as they share our own workers, and the concurrency limit is found in the same way: from
//! the processor time of php-fpm's processes, if they run on this machine, otherwise by experiments.

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
