//! Settings that a reload does not change.

use crate::Plan;
use crate::table;

impl Plan {
    /// The names of settings that differ in `new` and take effect only after a restart.
    #[must_use]
    pub fn restart_needed(&self, new: &Self) -> Vec<&'static str> {
        let differs = |row: &&table::Setting| row.restart.is_some_and(|differs| differs(self, new));
        table::rows().filter(differs).map(|row| row.key).collect()
    }
}
