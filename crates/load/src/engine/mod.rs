//! The engine: makes the load of a plan, according to the scenario, and records the results.
//!
//! ```text
//!   run.rs       one run: quiet fetches, threads, seconds, stop rules, the search for what holds
//!   thread.rs    a thread: epoll loop, timers, arrivals      pacer.rs   times of arrivals
//!   walk.rs      users from step to step                     pages.rs   full page loads, redirects.rs
//!   connection.rs  requests in, responses out                transport.rs, tls.rs, connect.rs   bytes
//!   versions.rs  pages that were made again meanwhile
//!   http2.rs, HTTP/1.1 is millrace_wire::response            judge.rs   whether a response is right
//! ```
//!
//! A thread is an epoll loop of its own instead of a runtime with a task per user: with 1,000,000 users, the cost per
//! user decides.

mod clock;
mod collect;
mod connect;
mod connection;
mod cookies;
mod decode;
mod http2;
mod interrupt;
mod judge;
mod limits;
mod metrics;
mod pacer;
mod pages;
mod quiet;
mod redirects;
mod request;
mod run;
mod server;
mod shared;
mod thread;
mod tls;
mod transport;
mod user;
mod versions;
mod walk;

pub use interrupt::on_interrupt;
pub use limits::is_private;
pub use quiet::{exchange, fetch};
pub use run::{CannotBegin, Control, resolve, run};
pub use server::{admin_address, is_here};
pub use tls::NoTls;
