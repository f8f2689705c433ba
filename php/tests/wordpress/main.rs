//! What the hooks in WordPress say to the page cache: a real WordPress, run by a worker, and a list of its pages with their
//! tags as a cache that can do nothing but forget. `tests/hooks/run` makes a site and runs these.

#[path = "../driver/mod.rs"]
mod driver;

mod changes;
mod cost;
mod location;
mod options;
mod pages;
mod rest;
mod rewind;
mod shop;
mod site;
mod visitors;
