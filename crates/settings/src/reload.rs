//! What a reload cannot change.

use crate::Plan;
use crate::table;

impl Plan {
    /// The settings that differ in `new` but take effect only after a restart, by name.
    #[must_use]
    pub fn restart_needed(&self, new: &Self) -> Vec<&'static str> {
        let differs = |row: &&table::Setting| row.restart.is_some_and(|differs| differs(self, new));
        table::rows().filter(differs).map(|row| row.key).collect()
    }
}
