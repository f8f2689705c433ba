//! Plain PHP, and files that should never be served for any application.

use super::{Caching, NONE, Profile};

pub(super) static PROFILE: Profile = Profile { uploads: &[&["uploads"]], ..NONE };

/// Secrets, sources and leftovers in the roots of real sites, whatever the application: whole names, in order.
pub(super) const NAMES: &[&str] = &[
    "access_log",
    "auth.json",
    "composer.json",
    "composer.lock",
    "composer.phar",
    "config.yaml",
    "config.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
    "dockerfile",
    "error_log",
    "gruntfile.js",
    "gulpfile.js",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    "installed.json",
    "local.xml",
    "makefile",
    "millrace.toml",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "package.json",
    "parameters.yaml",
    "parameters.yml",
    "phpunit.xml",
    "phpunit.xml.dist",
    "pnpm-lock.yaml",
    "thumbs.db",
    "vagrantfile",
    "web.config",
    "yarn.lock",
];

/// Extensions of such files, in order: keys and key stores, databases, logs, settings, sources of programs that don't
/// run here, leftovers.
pub(super) const ENDINGS: &[&str] = &[
    "accdb",
    "asp",
    "aspx",
    "bak",
    "bash",
    "bkp",
    "cfg",
    "cgi",
    "conf",
    "db",
    "db-journal",
    "db-shm",
    "db-wal",
    "db3",
    "dump",
    "fcgi",
    "inc",
    "ini",
    "jks",
    "jsp",
    "kdb",
    "kdbx",
    "key",
    "keystore",
    "log",
    "mdb",
    "module",
    "old",
    "orig",
    "ovpn",
    "p12",
    "pem",
    "pfx",
    "pkcs12",
    "pl",
    "pm",
    "ppk",
    "py",
    "pyc",
    "s3db",
    "save",
    "sdb",
    "sh",
    "sql",
    "sqlite",
    "sqlite-journal",
    "sqlite-shm",
    "sqlite-wal",
    "sqlite2",
    "sqlite3",
    "swo",
    "swp",
    "tmp",
    "tpl",
    "twig",
];

/// Extensions of copies, in order: the same rules apply to what was copied.
const COPIES: &[&str] = &["7z", "bz2", "gz", "lz4", "rar", "tar", "xz", "zip", "zst"];

/// Archives of a folder.
const ARCHIVES: &[&str] = &["tar", "tbz", "tbz2", "tgz", "txz", "tzst"];

/// Words in the name of a whole site's backup.
const BACKUPS: &[&str] =
    &["backup", "bkp", "database", "dump", "htdocs", "httpdocs", "public_html", "wwwroot", "wp-content"];

/// Further names of such backups.
const SITES: &[&str] = &[
    "archive",
    "db",
    "files",
    "full",
    "html",
    "mysql",
    "old",
    "public",
    "root",
    "site",
    "source",
    "sql",
    "src",
    "web",
    "website",
    "wordpress",
    "wp",
    "www",
];

/// Whether a file's name says that visitors should not have it. `name` is lower case.
pub(super) fn is_secret(name: &[u8]) -> bool {
    let name = original(name);
    name.ends_with(b"~") || is_in(NAMES, name) || ending(name).is_some_and(|ending| is_in(ENDINGS, ending))
}

/// Whether a file in a site's root is a copy of the site or of its database, by its name. `name` is lower case.
pub(super) fn is_backup(name: &[u8]) -> bool {
    let Some(last) = ending(name) else { return false };
    let stem = original(name);
    let has = |word: &&str| memchr::memmem::find(stem, word.as_bytes()).is_some();
    ARCHIVES.iter().any(|archive| archive.as_bytes() == last)
        || is_in(COPIES, last)
            && (memchr::memmem::find(name, b".tar.").is_some()
                || SITES.iter().any(|site| site.as_bytes() == stem)
                || BACKUPS.iter().any(has))
}

/// A name without the suffixes of copying, compressing and rotating: `error.log.2.gz`, `dump.sql-2026-01-31.zip`.
fn original(mut name: &[u8]) -> &[u8] {
    while let Some(at) = name.iter().rposition(|byte| matches!(byte, b'.' | b'-')) {
        let (stem, last) = (&name[..at], &name[at + 1..]);
        let is_number = !last.is_empty() && last.iter().all(u8::is_ascii_digit);
        if stem.is_empty() || !(is_number || name[at] == b'.' && is_in(COPIES, last)) {
            break;
        }
        name = stem;
    }
    name
}

fn ending(name: &[u8]) -> Option<&[u8]> {
    memchr::memrchr(b'.', name).map(|dot| &name[dot + 1..])
}

fn is_in(sorted: &[&str], word: &[u8]) -> bool {
    sorted.binary_search_by(|known| known.as_bytes().cmp(word)).is_ok()
}

/// For a list of rules that says nothing about pages.
pub(super) const NOTHING: Caching = Caching {
    bypass_cookies: &[],
    bypass_arguments: &[],
    bypass_paths: &[],
    open_paths: &[],
    script_paths: &[],
    feeds: &[],
    sitemaps: &[],
    apis: &[],
    nonce_marks: &[],
    vary_by_known_cookies: false,
    faithful: true,
};

/// Whether a file's name says that it contains PHP source. `name` is lower case.
///
/// Used for files that are not run: `x.php.bak`, `x.php~`, `x.phtml`, `#x.php#`, `x.phps`.
pub(super) fn is_php_source(name: &[u8]) -> bool {
    memchr::memmem::find_iter(name, b".ph")
        .any(|at| [&b"p"[..], b"t", b"ar"].iter().any(|rest| name[at + 3..].starts_with(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_order() {
        for list in [NAMES, ENDINGS, COPIES] {
            assert!(list.is_sorted(), "{list:?}");
            assert!(list.iter().all(|name| name.to_lowercase() == *name));
        }
    }

    #[test]
    fn originals() {
        for (name, expected) in [
            ("a.log", "a.log"),
            ("a.log.1", "a.log"),
            ("a.log-20260131", "a.log"),
            ("a.log-2026-01-31.gz", "a.log"),
            ("dump.sql.tar.gz", "dump.sql"),
            ("a.css.gz", "a.css"),
            ("jquery-3.7.1.js", "jquery-3.7.1.js"),
            ("photo-1", "photo"),
            (".1", ".1"),
            ("", ""),
        ] {
            assert_eq!(original(name.as_bytes()), expected.as_bytes(), "{name}");
        }
    }
}
