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

pub mod engine;

pub mod admin;

mod accept;
mod connection;
mod protocol;
mod tls;

mod serve;

mod acme;
mod warm;

mod cache;
mod files;
mod php;
mod route;

mod message;
mod site;

mod context;

pub use engine::{Reload, StartError, run};
pub use tls::system_certificates;
