//! The load tester: one engine, and what is made out of its records.
//!
//! ```text
//!  scenario sources -> Scenario --\                     /-> screen, table
//!  (URL, page, TOML, HAR, ...)     engine -> record::Run --> JSON, CSV, HTML report, comparison
//!  options ---------> Plan -------/                     \-> ...
//! ```
//!
//! [`scenario`] says what a user does and [`plan`] how many come when, and when the run ends. [`engine`] does it: arrival x
//! scenario x protocol x stop rule, nothing of which knows of another. What it counts and times is plain data,
//! [`record`]; all output is made out of that, so an interrupted run has the same report as a complete one.

pub mod engine;
pub mod output;
pub mod page;
pub mod plan;
pub mod record;
pub mod scenario;
pub mod source;
pub mod url;
