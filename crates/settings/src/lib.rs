//! The configuration of Millrace: one table of settings, read from TOML, checked as a whole, resolved once.
//!
//! ```text
//! millrace.toml --read--> Written <--override-- --listen, --profile, --php-ini, --set
//!                            |  resolve: the written value, else the table's default for this machine
//!                            v
//!                          Plan --check: settings against each other and against the disk
//! ```
//!
//! A configuration passes through two types. [`Written`](written::Written) is what a user wrote, with the place of each
//! value; [`Plan`] is what the server runs: complete, within bounds, immutable, swapped as a whole on a reload.
//! Every step between the two collects [`Problem`]s instead of stopping at the first.

pub mod plan;

mod application;
mod certificates;
mod check;
mod environment;
mod explain;
mod folders;
mod load;
mod memory;
mod multisite;
mod object_cache;
mod overrides;
mod php_ini;
mod problem;
mod public;
mod read;
mod reference;
mod reload;
mod resolve;
mod rule;
mod secrets;
mod shield;
mod suggest;
mod table;
#[cfg(test)]
mod tests;
mod trusted;
mod value;
mod written;

pub use application::{APPLICATIONS, Application, Project};
pub use certificates::{CertificateFacts, CertificateFault, CertificateReader};
pub use environment::{Disk, Environment, Found};
pub use explain::{explain, explain_on};
pub use load::{Source, load, load_on};
pub use memory::Shares;
pub use multisite::{multisite, own_folder};
pub use plan::Plan;
pub use problem::{At, Origin, Problem, Problems, Severity, What};
pub use reference::{reference, with_rule_keys};
pub use suggest::Suggestion;
