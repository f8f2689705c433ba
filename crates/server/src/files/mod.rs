//! Static files: the open-file cache, conditional and range requests, compression, expiry.
//!
//! ```text
//!  route --- find(path) ---> cache --- miss or a second old ---> lookup (openat2 below the root)
//!                              |                                    |
//!                              |<----- Entry: stamp, content, field block of each form
//!  Route::File(entry) - answer(request, entry): form (Accept-Encoding), If-*, Range ---> Reply
//!                              |
//!                              +--- form not made yet: a job for a compressor thread, FileResponse::Later
//! ```
//!
//! A hit on a small file costs one hash lookup, reference counts, and a walk over the request's fields: no system
//! call, no formatting. Memory: an [`FileEntry`] belongs to the cache's table and to the responses in progress; the
//! table counts its bytes, including the compressed forms that are added later.

mod answer;
mod cache;
mod compress;
mod entry;
mod expiry;
mod kinds;
mod listing;
mod lookup;
mod partial;
mod refused;
mod table;
#[cfg(test)]
mod tests;

use std::rc::Rc;

pub use answer::{FileResponse, answer, hand_out};
pub use cache::OpenFileCache;
pub use entry::FileEntry;

use millrace_base::context::Context;

/// The result of looking up a site's path.
#[derive(Clone, Debug)]
pub enum Node {
    /// A regular file.
    File(Rc<FileEntry>),
    /// A regular file to run without reading it: its absolute path.
    Script(Rc<[u8]>),
    /// A directory.
    Directory,
    /// Nothing, or neither file nor directory, or outside of the root, or unreadable.
    Missing,
    /// The machine can't tell now: no descriptors, no memory, a failing disk. 503, never 404.
    Unavailable,
}

/// The purpose of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A file to send.
    Serve,
    /// A script to run: the server never reads its content.
    Run,
}

/// The time of a lookup.
#[derive(Clone, Copy, Debug)]
struct FileMoment {
    /// Milliseconds on the thread's clock.
    pub tick: u64,
    /// Nanoseconds since 1970.
    pub wall: i64,
    /// Number of scripts' activities so far: each may have changed files.
    pub scripts: u64,
}

impl FileMoment {
    fn of(context: &Context) -> FileMoment {
        let wall = context.clock.unix_time().as_nanos();
        FileMoment {
            tick: context.clock.ticks(),
            wall: i64::try_from(wall).unwrap_or(i64::MAX),
            scripts: context.process.scripts_spoken(),
        }
    }
}
