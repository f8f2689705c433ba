//! How PHP is to run for a request.

use std::fmt;
use std::sync::Arc;

use millrace_wire::frames::EndFrame;

/// A run of PHP that somebody watches.
#[derive(Clone, Debug)]
pub struct AsRun {
    /// The script starts from its beginning, not in an image of its boot.
    pub ordinary: bool,
    /// It has run before: it ends, aborted, before it changes anything.
    pub again: bool,
    /// Millrace's own request about the database of a WordPress (`php/inject/wordpress/sql.php`).
    pub sql: Option<Box<str>>,
    /// Learns how it has ended.
    pub end: Arc<dyn RunEnd>,
}

/// Learns how a run of PHP has ended. Dropping it without that: it was lost.
pub trait RunEnd: fmt::Debug + Send + Sync {
    /// The response is complete.
    fn ended(&self, end: EndFrame);
}
