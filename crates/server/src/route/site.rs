//! A site as it runs.

use std::sync::Arc;

use millrace_settings::plan;

use crate::php::Pool;

/// A site as it runs: its part of the plan, and what was made from it once.
#[derive(Debug)]
pub struct Site {
    /// Position in the plan, the identity that caches use. They are emptied when the plan changes.
    pub index: usize,
    /// Its part of the configuration.
    pub plan: plan::Site,
    /// The site's own fields as lines, ready to be added to an answer.
    pub header_lines: Vec<u8>,
    /// Who runs its scripts; `None`: it has no PHP.
    pub pool: Option<Arc<Pool>>,
}

impl Site {
    /// The site's own name, `SERVER_NAME`; `None` if it was made of a folder only and has none.
    pub fn name(&self) -> Option<&str> {
        self.plan.names.first().map(String::as_str)
    }
}
