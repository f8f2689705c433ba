//! The configuration of Millrace: one table of settings, read from TOML, checked as a whole, resolved once.
//!
//! A configuration passes through two types. [`Written`](written) is what somebody typed, with the place of each
//! value in the file; [`Plan`] is what the server runs: complete, within bounds, immutable, swapped as a whole
//! on a reload. Everything between the two collects problems instead of stopping at the first.

pub mod plan;

pub use plan::Plan;
