//! The tuner: settings for this machine within one memory budget, each with its reason; written to files of its own, and taken back.
//!
//! ```text
//!  machine.rs  what the machine is: memory, processors, kernel, database, container or not      fpm.rs, nginx.rs  their files
//!      |       orders.rs  whether the database has orders
//!      |
//!  budget.rs   one sum of memory
//!      |
//!  table.rs    a setting is a row: layer, rule, reason, source      retired.rs  rows of the sources that need no setting any more
//!      |       table/   those of nginx and php-fpm
//!      |
//!  proposal.rs each row's value now and then; the texts of our files      others.rs  files of others that would win over ours
//!      |
//!  journal.rs  written first; applies and takes back, killed at any moment      trial.rs  takes back unconfirmed settings
//!      |       accept.rs  nginx and php-fpm read what was written, or all is taken back
//!      |
//!  report.rs   text, JSON, unified diff, the reference page
//!
//!  changes.rs  settings to set one after the other, while a load test measures them
//! ```
//!
//! A journal below [`STATE`] lists everything before it is changed. Files are only ever new ones, with names of ours, so that taking back
//! means deleting them, and writing the kernel's old values.

mod accept;
pub mod budget;
pub mod changes;
pub mod fpm;
pub mod journal;
pub mod machine;
pub mod nginx;
pub mod orders;
mod others;
pub mod proposal;
pub mod report;
mod retired;
pub mod root;
pub mod table;
pub mod trial;

use std::fmt;

/// Folder of the journal, below the root.
pub const STATE: &str = "var/lib/millrace/tune";

/// What a machine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Pages that are mostly read: WordPress, Drupal.
    Wordpress,
    /// WooCommerce: carts, orders, more writes.
    Shop,
}

/// What serves the sites of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Millrace.
    Millrace,
    /// nginx, or another server, with php-fpm.
    Nginx,
}

/// Why the tuner does not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub next: String,
}

impl Refusal {
    pub(crate) fn new(what: impl Into<String>, next: impl Into<String>) -> Refusal {
        Refusal { what: what.into(), next: next.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; next: {}", self.what, self.next)
    }
}
