//! Static files: the open-file cache, conditional and range requests, compression, expiry.

use std::rc::Rc;

use millrace_settings::plan;

use crate::engine::Thread;
use crate::reply::Reply;
use crate::request::Request;
use crate::route::Site;

/// A thread's cache of open files.
#[derive(Debug)]
pub struct Cache {}

/// A file that can be served.
#[derive(Debug)]
pub struct Entry {}

/// What a path of a site leads to.
#[derive(Clone, Debug)]
pub enum Node {
    /// A regular file.
    File(Rc<Entry>),
    /// A regular file that is not to be read, only run: its absolute path.
    Script(Rc<[u8]>),
    /// A directory.
    Directory,
    /// Nothing, or something that is neither file nor directory, or out of the root, or unreadable.
    Missing,
}

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A file to send.
    Serve,
    /// A script to run: its content is never read here.
    Run,
}

impl Cache {
    /// An empty cache: its share of the limits, which are for all threads together.
    pub fn new(_limits: &plan::Files, _threads: usize) -> Cache {
        Cache {}
    }

    /// Forgets everything; new limits from now on.
    pub fn reset(&self, _limits: &plan::Files, _threads: usize) {}

    /// What `path` (decoded, normalised, starting with `/`) leads to below the site's root.
    pub fn find(&self, _thread: &Thread, _site: &Site, _path: &[u8], _purpose: Purpose) -> Node {
        Node::Missing
    }
}

/// The answer to GET or HEAD for a file. Ready at once unless something has to be compressed first.
pub fn answer(_thread: &Rc<Thread>, _site: &Site, _request: &Request, _entry: &Rc<Entry>) -> Answer {
    Answer::Ready(Reply::new(404))
}

/// An answer, now or after some work on another thread.
pub enum Answer {
    /// Here it is.
    Ready(Reply),
    /// It takes a moment.
    Later(std::pin::Pin<Box<dyn Future<Output = Reply>>>),
}
