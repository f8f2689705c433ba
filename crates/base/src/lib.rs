//! What the rooms of the server stand on: a site as a value, a request and a response, and the context of an event loop. No I/O of a
//! connection is in here, no cache, and no PHP.

pub mod context;
pub mod message;
pub mod site;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
