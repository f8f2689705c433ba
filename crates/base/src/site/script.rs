//! The script that PHP is to run.

use std::rc::Rc;

/// A PHP script to run, as CGI names its parts (RFC 3875 section 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// `SCRIPT_FILENAME`: absolute path, without NUL.
    pub filename: Rc<[u8]>,
    /// `SCRIPT_NAME`: the script's part of the URL path, decoded.
    pub name: Vec<u8>,
    /// `PATH_INFO`: the path after it, decoded; empty if there is none.
    pub path_info: Vec<u8>,
    /// The workers that run it.
    pub workers: WorkerKind,
}

/// How workers run their scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerKind {
    /// The script starts for each request.
    Ordinary,
    /// The script is already running, and serves many requests (`php.worker_script`).
    Persistent,
}
