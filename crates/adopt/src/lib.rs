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

mod apache;
mod caddy;
pub mod compare;
mod files;
mod listen;
mod litespeed;
mod merge;
mod nginx;
mod pattern;
mod unit;
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
    /// Apache's `httpd.conf`, or a file with virtual hosts.
    Apache,
    /// A Caddyfile.
    Caddy,
    /// OpenLiteSpeed's `httpd_config.conf`, or a `vhconf.conf`.
    LiteSpeed,
    /// NGINX Unit's JSON.
    Unit,
}

impl Format {
    /// By its name on the command line.
    #[must_use]
    pub fn named(name: &str) -> Option<Format> {
        Some(match name.to_ascii_lowercase().as_str() {
            "nginx" => Format::Nginx,
            "apache" | "httpd" => Format::Apache,
            "caddy" => Format::Caddy,
            "openlitespeed" | "litespeed" | "ols" => Format::LiteSpeed,
            "unit" => Format::Unit,
            _ => return None,
        })
    }
}

/// Which language a file is in, by its name and content; `None`: none of these.
#[must_use]
pub fn detect(path: &Path, text: &str) -> Option<Format> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let has_line = |starts: &[&str]| {
        let mut lines = text.lines().map(|line| line.trim().to_ascii_lowercase());
        lines.any(|line| starts.iter().any(|start| line.starts_with(start)))
    };
    if text.trim_start().starts_with('{') && name.ends_with("json") {
        Some(Format::Unit)
    } else if name.contains("caddyfile") || name.ends_with(".caddy") {
        Some(Format::Caddy)
    } else if has_line(&["<virtualhost", "documentroot ", "serverroot ", "<directory", "includeoptional "]) {
        Some(Format::Apache)
    } else if has_line(&["docroot ", "vhroot ", "extprocessor", "listener ", "virtualhost "]) {
        Some(Format::LiteSpeed)
    } else if has_line(&["server {", "server{", "http {", "http{", "server_name ", "include /etc/nginx"]) {
        Some(Format::Nginx)
    } else {
        None
    }
}

/// Converts the file at `path`.
///
/// # Errors
/// The file can't be read, or is not in the language: where, and what is wrong.
pub fn adopt(format: Format, path: &Path, files: &dyn Files, options: &Options) -> Result<Adopted, String> {
    let mut adopted = match format {
        Format::Nginx => nginx::adopt(path, files, options)?,
        Format::Apache => apache::adopt(path, files, options)?,
        Format::Caddy => caddy::adopt(path, files, options)?,
        Format::LiteSpeed => litespeed::adopt(path, files, options)?,
        Format::Unit => unit::adopt(path, files, options)?,
    };
    merge::merge(&mut adopted);
    Ok(adopted)
}
