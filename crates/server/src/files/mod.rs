//! Static files: the open-file cache, conditional and range requests, compression, expiry.
//!
//! ```text
//!  route --- find(path) ---> cache --- miss or a second old ---> lookup (openat2 below the root)
//!                              |                                    |
//!                              |<----- Entry: stamp, content, field block of each form
//!  way::File(entry) --- answer(request, entry): form (Accept-Encoding), If-*, Range ---> Reply
//!                              |
//!                              +--- form not made yet: a job for the compressing thread, Answer::Later
//! ```
//!
//! A hit on a small file costs one hash lookup, reference counts, and a walk over the request's fields: no system
//! call, no formatting. Memory: an [`FileEntry`] belongs to the cache's table and to the answers under way; the table
//! counts its bytes, also those of compressed forms that come later.

mod answer;
mod cache;
mod compress;
mod entry;
mod expiry;
mod kinds;
mod listing;
mod lookup;
mod partial;
mod table;
#[cfg(test)]
mod tests;

use std::rc::Rc;

pub use answer::{FileResponse, answer, hand_out};
pub use cache::OpenFileCache;
pub use entry::FileEntry;

use crate::context::Context;

/// What a path of a site leads to.
#[derive(Clone, Debug)]
pub enum Node {
    /// A regular file.
    File(Rc<FileEntry>),
    /// A regular file that is not to be read, only run: its absolute path.
    Script(Rc<[u8]>),
    /// A directory.
    Directory,
    /// Nothing, or something that is neither file nor directory, or out of the root, or unreadable.
    Missing,
    /// The machine can't say now: no descriptors, no memory, a failing disk. 503, never 404.
    Unavailable,
}

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A file to send.
    Serve,
    /// A script to run: its content is never read here.
    Run,
}

/// When something is asked.
#[derive(Clone, Copy, Debug)]
struct FileMoment {
    /// Milliseconds of the thread's clock.
    pub tick: u64,
    /// Nanoseconds since 1970.
    pub wall: i64,
    /// How often scripts have had something to say so far: each time they may have changed files.
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
