//! `.htaccess` files as values: no I/O, no clock.
//!
//! ```text
//!  bytes -> lines ------> folder: directives by layer      directives: one row each, with its meaning
//!           sections,     (plain, <Files>, <If>)           modules: <IfModule>, <IfVersion>
//!           words             |
//!                             v
//!  Request, World ------> evaluate -> Verdict              access, rewrite, header, media: a module of Apache each
//!                           |
//!           admission, rewriting, lookup, request_header: the steps of a pass
//! ```
//!
//! Semantics are those of Apache 2.4. A line that can't be applied is a [`Finding`](folder::Finding): if it restricts
//! access, the layer that has it refuses what it covers.

pub mod access;
mod admission;
pub mod argon2id;
mod ascii;
pub mod directives;
pub mod effort;
pub mod escape;
pub mod evaluate;
pub mod expression;
pub mod folder;
pub mod glob;
mod harmless;
pub mod header;
pub mod lines;
mod literals;
mod lookup;
pub mod media;
pub mod modules;
pub mod password;
pub mod pattern;
pub mod request;
mod request_header;
pub mod rewrite;
mod rewriting;
pub mod template;
#[cfg(test)]
mod tests;
pub mod verdict;

pub use evaluate::{evaluate, for_error};
pub use folder::{Effect, Finding, Folder};
pub use request::{Checked, Node, Request, World};
pub use verdict::{Outcome, Verdict};
