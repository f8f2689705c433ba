//! PHP: pools of worker processes, and the talk with one of them.

use std::rc::Rc;
use std::sync::Arc;

use crate::engine::Thread;
use crate::reply::Reply;
use crate::request::Request;
use crate::route::{Script, Site};

/// The workers of all sites whose `[php]` settings are equal.
#[derive(Debug)]
pub struct Pool {}

impl Pool {
    /// Starts the PHP host and waits until it is ready.
    pub fn start(
        _settings: &millrace_settings::plan::Php,
        _log: &crate::log::Log,
        _stats: &Arc<crate::stats::Registry>,
    ) -> Result<Arc<Pool>, String> {
        Ok(Arc::new(Pool {}))
    }

    /// Ends idle workers now, the others after what they run, then the host.
    pub fn retire(&self) {}

    /// How the pool is; `name` is what people know it by.
    pub fn status(&self, name: &str) -> crate::stats::PoolStatus {
        crate::stats::PoolStatus { name: name.to_string(), ..Default::default() }
    }

    /// The same at the end of the server, which waits for it this long.
    pub fn stop(&self, _grace: std::time::Duration) {}
}

/// The rest of an answer that a worker is still making.
#[derive(Debug)]
pub struct Stream {}

impl Stream {
    /// Bytes that are still to come, if the script said so by Content-Length.
    pub fn length(&self) -> Option<u64> {
        None
    }

    /// Appends the next piece to `buffer`; `false` at the end. Cancel-safe.
    ///
    /// # Errors
    /// The worker died before it finished.
    pub async fn next(&mut self, _buffer: &mut Vec<u8>) -> std::io::Result<bool> {
        Ok(false)
    }
}

/// Runs a script and returns its answer as soon as its fields are known; 502, 503, 504 where that fails.
pub async fn run(_thread: &Rc<Thread>, _site: &Arc<Site>, _request: &mut Request, _script: &Script) -> Reply {
    Reply::new(503)
}
