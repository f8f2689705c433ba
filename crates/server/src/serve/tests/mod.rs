//! Requests through rules and routing, without PHP.

mod day;
mod spellings;
mod walk;
