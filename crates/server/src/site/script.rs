//! What PHP is asked to run.

use std::rc::Rc;

/// A PHP script to run, as CGI names its parts (RFC 3875 section 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// `SCRIPT_FILENAME`: absolute path, without NUL.
    pub filename: Rc<[u8]>,
    /// `SCRIPT_NAME`: the script's part of the URL path, decoded.
    pub name: Vec<u8>,
    /// `PATH_INFO`: what follows it, decoded; empty if nothing does.
    pub path_info: Vec<u8>,
    /// The workers that run it.
    pub workers: WorkerKind,
}

/// How workers run their scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerKind {
    /// The script starts anew for each request.
    Ordinary,
    /// The script has started already, and serves request after request (`php.worker_script`).
    Persistent,
}
