//! Converts configurations of other web servers - nginx, Apache, Caddy, OpenLiteSpeed, NGINX Unit - to `millrace.toml`.
//!
//! ```text
//!  file, what it includes --> directives --> Adopted: sites, rules, proxies, notes --> sites of one name --> TOML
//!      (trait Files)          nginx, apache, caddy, litespeed, unit                        merge             write
//! ```
//!
//! Nothing is dropped silently: each directive is carried over, declared needless with the reason, or listed as lost with
//! what to do instead ([`Notes`](value::Notes)). The crate does no I/O: the caller reads files.

#![forbid(unsafe_code)]

mod files;
mod listen;
mod merge;
mod nginx;
mod pattern;
pub mod value;
mod write;

pub use files::Files;
pub use value::{Adopted, Options};
pub use write::toml;

use std::path::Path;

/// A configuration language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `nginx.conf`, or a file of `sites-available`.
    Nginx,
}

/// Which language a file is in, by its name and content; `None`: none of these.
#[must_use]
pub fn detect(_path: &Path, text: &str) -> Option<Format> {
    if text.contains("server") && text.contains('{') && text.contains(';') {
        return Some(Format::Nginx);
    }
    None
}

/// Converts the file at `path`.
///
/// # Errors
/// The file can't be read, or is not in the language: where, and what is wrong.
pub fn adopt(format: Format, path: &Path, files: &dyn Files, options: &Options) -> Result<Adopted, String> {
    let mut adopted = match format {
        Format::Nginx => nginx::adopt(path, files, options)?,
    };
    merge::merge(&mut adopted);
    Ok(adopted)
}
