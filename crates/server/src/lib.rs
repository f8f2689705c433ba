//! The path of a request, a folder a room.
//!
//! ```text
//!  client -> accept -> tls -> protocol -> Request -> route -> Way
//!                                                       | files      static file, open-file cache
//!                                                       | cache      page cache: hit, or one PHP run for all who wait
//!                                                       | php        worker pool (own SAPI)
//!                                                       | redirect, refuse
//!  client <------------- reply (fields, body pump) <----+
//! ```
//!
//! One event loop a core, each with its own listening sockets; a connection lives and dies on one of them. Nothing
//! behind [`protocol`] knows a protocol, `files`, `cache` and `php` don't know each other, and the clock is read only in
//! [`engine`]. A room uses only rooms that come after it on the path, and the three that serve them all:
//! [`stats`], [`log`] and the thread's [`engine::Thread`].

mod accept;
mod acme;
pub mod admin;
mod cache;
pub mod engine;
mod files;
pub mod log;
mod php;
mod protocol;
mod purge;
mod reply;
mod request;
mod route;
pub mod stats;
mod tls;
mod visitor;
mod warm;

pub use engine::{Reload, StartError, run};
pub use tls::system_certificates;
