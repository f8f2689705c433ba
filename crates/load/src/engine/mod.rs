//! The engine: makes the load that a plan asks for, by the scenario, and records what came of it.
//!
//! ```text
//!   run.rs       one run: quiet fetches, threads, seconds, stop rules, the search for what holds
//!   thread.rs    a thread: epoll loop, timers, arrivals      pacer.rs   who comes when
//!   walk.rs      users from step to step                     pages.rs   full page loads, redirects.rs
//!   connection.rs  requests in, responses out                transport.rs, tls.rs, connect.rs   bytes
//!   http2.rs, HTTP/1.1 is millrace_wire::response            judge.rs   whether a response is right
//! ```
//!
//! A thread is an epoll loop of its own rather than a runtime with a task a user: with 1,000,000 users, what each of them
//! costs is what decides.

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
mod walk;

pub use interrupt::on_interrupt;
pub use limits::is_private;
pub use quiet::fetch;
pub use run::{CannotBegin, Control, resolve, run};
pub use tls::NoTls;
