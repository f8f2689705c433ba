//! Orders to purge pages, from outside of the scripts: `millrace purge` (through the admin address), and the methods
//! `PURGE` and `BAN` of HTTP. What scripts order comes with their answers, and goes the same way from there on.
//!
//! [`Order`] is what somebody wants, found to make sense; [`request`] reads one from a request. Each order that was
//! followed is told in the error log at level info: who gave it, what it names, how many pages it met. That is the purge
//! log; `grep purge` finds it.

mod order;
pub mod request;

pub use order::{Order, What};
