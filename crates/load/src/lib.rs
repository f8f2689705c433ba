//! The load tester: one engine, and outputs made from its records.
//!
//! ```text
//!  scenario sources -> Scenario --\                     /-> screen, table
//!  (URL, page, TOML, HAR, ...)     engine -> record::Run --> JSON, CSV, HTML report, comparison
//!  options ---------> Plan -------/                     \-> ...
//! ```
//!
//! [`scenario`] describes what a user does, and [`plan`] how many users arrive when, and when the run ends.
//! [`engine`] executes both: arrival x scenario x protocol x stop rule, each independent of the others. Its counts
//! and times are plain data, [`record`]; all output is made from that, so an interrupted run has the same report as a
//! complete one.

pub mod engine;
pub mod output;
pub mod page;
pub mod plan;
pub mod record;
pub mod scenario;
pub mod source;
pub mod steps;
pub mod threshold;
pub mod url;
