//! The path of a request, one folder per room.
//!
//! ```text
//!  client -> accept -> protocol -> serve -> htaccess -> route -> Route
//!              tls       ^                   | proxy      an application behind the server
//!                        |                   | files      static file, open-file cache
//!                        |                   | cache      page cache: a hit, or one PHP run for all waiting requests
//!                        |                   | audience   who may have stored pages although cookies identify him
//!                        |                   | php        the crate `pools`: worker pools (own SAPI)
//!                        |                   | redirect, refuse
//!  client <--------------+- Reply <----------+
//! ```
//!
//! One event loop per core, each with its own listening sockets; a connection stays on one of them. Nothing behind
//! [`protocol`] knows a protocol; `files`, `cache` and the crate `pools` don't know each other. What all stand on - context, message, site - is the
//! crate `base`. A room uses only rooms that come after it on the path; ARCHITECTURE.md lists which, and `tests/rooms.rs` compares the code with
//! that list.

pub mod engine;

pub mod admin;

mod accept;
mod connection;
mod protocol;
mod tls;

mod serve;
mod shield;

mod acme;
mod proxy;
mod warm;

mod audience;
mod cache;
mod files;
mod htaccess;
mod route;

pub use admin::Doctor;
pub use engine::{Reload, ReloadError, StartError, run};
pub use millrace_pools::rehearse;
pub use tls::{CertificateFiles, system_certificates};
