//! The doctor and the tuner. The doctor looks at the machine, Millrace, PHP, the database and the site, and names what holds them back.
//!
//! ```text
//!  /proc /sys  status of Millrace  PHP  database  wp-config.php, files
//!      \________\________|__________/______/__________/
//!                     look/      readers: each turns one source into Facts, or into why it could not look
//!                       |  twice, a few seconds apart
//!                     Span       two sets of Facts: a rate is told from an old counter
//!                       |
//!                     checks/    one table; a check is a row, and a pure function of a Span
//!                       |
//!                     report/    ranked: what holds it back first; text, JSON, the reference page, the schema
//! ```
//!
//! The doctor changes nothing: files and counters are read, the database is asked with SELECT, SHOW and EXPLAIN. [`tune`] computes settings for
//! the machine, writes them to files of its own if it is told to, and takes them back.
#![forbid(unsafe_code)]

pub mod checks;
pub mod facts;
pub mod look;
pub mod report;
pub mod tune;

#[cfg(test)]
mod testing;
