//! Outputs from a run's records: the live screen, the final table, JSON, CSV and the HTML report.

mod bottleneck;
pub mod csv;
pub mod document;
pub mod figures;
pub mod files;
pub mod html;
pub mod k6;
pub mod own;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod schema;
pub mod screen;
pub mod survival;
pub mod table;
