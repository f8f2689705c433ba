//! Requests through rules and routing, without PHP.

mod spellings;
