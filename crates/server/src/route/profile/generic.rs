//! Plain PHP, and what no application wants served.

use super::{Caching, Profile};

pub(super) static PROFILE: Profile = Profile {
    uploads: &[&["uploads"]],
    never_served_names: &[],
    never_served_prefixes: &[],
    never_served_suffixes: &[],
    caching: NOTHING,
    lanes: &[],
    doors: &[],
};

/// Secrets, sources and left-overs that lie in the roots of real sites, whatever the application.
pub(super) static NEVER_SERVED: Profile = Profile {
    uploads: &[],
    never_served_names: &[
        "composer.json",
        "composer.lock",
        "composer.phar",
        "installed.json",
        "auth.json",
        "package.json",
        "package-lock.json",
        "npm-shrinkwrap.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "gruntfile.js",
        "gulpfile.js",
        "docker-compose.yml",
        "dockerfile",
        "makefile",
        "vagrantfile",
        "web.config",
        "error_log",
        "thumbs.db",
        "phpunit.xml",
        "phpunit.xml.dist",
        "millrace.toml",
        "id_rsa",
    ],
    never_served_prefixes: &["wp-config"],
    never_served_suffixes: &[
        ".inc",
        ".sql",
        ".sql.gz",
        ".sql.bz2",
        ".sql.xz",
        ".sql.zst",
        ".sql.zip",
        ".log",
        ".log.gz",
        ".sqlite",
        ".sqlite3",
        ".db",
        ".ini",
        ".conf",
        ".cfg",
        ".bak",
        ".bkp",
        ".old",
        ".orig",
        ".save",
        ".swp",
        ".swo",
        ".tmp",
        "~",
        ".pem",
        ".key",
        ".sqlite-journal",
        ".sqlite-wal",
        ".sqlite-shm",
        ".dump",
    ],
    caching: NOTHING,
    lanes: &[],
    doors: &[],
};

/// For a list of rules that says nothing about pages.
const NOTHING: Caching = Caching {
    bypass_cookies: &[],
    bypass_arguments: &[],
    bypass_paths: &[],
    feeds: &[],
    sitemaps: &[],
    apis: &[],
    nonce_marks: &[],
    vary_by_known_cookies: false,
    faithful: true,
};

/// Whether a file's name says that it holds PHP source. `name` is lower case.
///
/// Asked about files that are not run: `x.php.bak`, `x.php~`, `x.phtml`, `#x.php#`.
pub(super) fn is_php_source(name: &[u8]) -> bool {
    [&b".php"[..], b".phtml", b".phar", b".pht", b".phps"]
        .iter()
        .any(|ending| memchr::memmem::find(name, ending).is_some())
}
