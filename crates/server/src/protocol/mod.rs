//! Protocols: from bytes of a connection to [`crate::request::Request`]s, and from [`crate::reply::Reply`]s to bytes.
//! Nothing behind this room knows which protocol a request came by.

mod h1;

use std::rc::Rc;

pub use h1::Buffers;

use crate::accept::Accepted;
use crate::engine::Thread;

/// Serves a connection until it ends.
pub fn start(thread: &Rc<Thread>, accepted: Accepted) {
    tokio::task::spawn_local(h1::serve(h1::Connection::new(thread.clone(), accepted)));
}
