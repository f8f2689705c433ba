//! Plain PHP, and files that should never be served for any application.

use super::{Caching, NONE, Profile};

pub(super) static PROFILE: Profile = Profile { uploads: &[&["uploads"]], ..NONE };

/// Secrets, sources and leftovers in the roots of real sites, whatever the application: whole names, in order.
pub(super) const NAMES: &[&str] = &[
    "access_log",
    "accesskeys.csv",
    "application.properties",
    "appsettings.json",
    "auth.json",
    "authorized_keys",
    "compose.yaml",
    "compose.yml",
    "composer.json",
    "composer.lock",
    "composer.phar",
    "config.yaml",
    "config.yml",
    "database.yaml",
    "database.yml",
    "debug_log",
    "docker-compose.yaml",
    "docker-compose.yml",
    "dockerfile",
    "error_log",
    "filezilla.xml",
    "ftpsync.settings",
    "gruntfile.js",
    "gulpfile.js",
    "htaccess",
    "htdigest",
    "htgroup",
    "htpasswd",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "id_rsa",
    "installed.json",
    "known_hosts",
    "kubeconfig",
    "local.settings.json",
    "local.xml",
    "makefile",
    "millrace.toml",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "package.json",
    "parameters.yaml",
    "parameters.yml",
    "passwd",
    "php_error_log",
    "php_errorlog",
    "php_errors",
    "phpunit.xml",
    "phpunit.xml.dist",
    "pnpm-lock.yaml",
    "recentservers.xml",
    "serviceaccountkey.json",
    "sitemanager.xml",
    "thumbs.db",
    "vagrantfile",
    "web.config",
    "wp-cli.local.yml",
    "yarn.lock",
];

/// Extensions of such files, in order: keys and key stores, databases, logs, settings, sources of programs that don't
/// run here, leftovers.
pub(super) const ENDINGS: &[&str] = &[
    "accdb", "asp", "aspx", "bak", "bash", "bkp", "cfg", "cgi", "cnf", "conf", "db", "db3", "dump", "env",
    "fcgi", "htaccess", "htpasswd", "inc", "ini", "jks", "jsp", "kdb", "kdbx", "key", "keystore", "log",
    "mdb", "module", "old", "orig", "ovpn", "p12", "pem", "pfx", "pkcs12", "pl", "pm", "ppk", "py", "pyc",
    "rdb", "s3db", "save", "sdb", "sh", "sl3", "sql", "sqlite", "sqlite2", "sqlite3", "sqlitedb", "swo",
    "swp", "tfstate", "tfvars", "tmp", "tpl", "twig",
];

/// What SQLite appends to the name of a database, whatever its extension.
const JOURNALS: [&[u8]; 3] = [b"-journal", b"-shm", b"-wal"];

/// Formats of data in which secrets stand: `secrets.production.yml`. A page or a picture of that name is served.
const DATA: &[&str] = &["csv", "json", "properties", "toml", "txt", "xml", "yaml", "yml"];

/// What stands before the first dot of such names, at the end.
const SECRETS: [&[u8]; 6] =
    [b"credentials", b"secrets", b"client_secret", b"service-account", b"service_account", b"adminsdk"];

/// Formats of what sites do serve about SQL: `join.sql.html`, `editor.sql.js`.
const SERVED: &[&str] =
    &["css", "gif", "htm", "html", "jpeg", "jpg", "js", "map", "mjs", "pdf", "png", "svg", "wasm", "webp"];

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
    if ending(name).is_some_and(|last| is_in(SERVED, last)) {
        // Most files of a site: no list of endings has theirs, and no suffix is left to take off.
        return is_in(NAMES, name);
    }
    let name = original(name);
    let name = JOURNALS.iter().find_map(|journal| name.strip_suffix(*journal)).unwrap_or(name);
    let last = ending(name).unwrap_or_default();
    name.ends_with(b"~")
        || is_in(NAMES, name)
        || is_in(ENDINGS, last)
        || name.ends_with(b"error_log")
        || name.ends_with(b"access_log")
        || memchr::memmem::find(name, b".sql.").is_some() && !is_in(SERVED, last)
        || is_in(DATA, last) && has_secrets(name, last)
}

/// Whether a file of data has passwords or keys of a service, by its name.
fn has_secrets(name: &[u8], last: &[u8]) -> bool {
    let stem = name.split(|byte| *byte == b'.').next().unwrap_or_default();
    SECRETS.iter().any(|secret| stem.ends_with(secret))
        || last == b"json"
            && [&b"sftp"[..], b"client_secret", b"appsettings"].iter().any(|start| stem.starts_with(start))
        || stem == b"docker-compose"
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
    memchr::memchr_iter(b'.', name)
        .any(|at| [&b"php"[..], b"pht", b"phar"].iter().any(|source| name[at + 1..].starts_with(source)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_order() {
        for list in [NAMES, ENDINGS, COPIES, DATA, SERVED] {
            assert!(list.is_sorted(), "{list:?}");
            assert!(list.iter().all(|name| name.to_lowercase() == *name));
        }
    }

    #[test]
    fn names_that_are_secret_and_names_that_are_not() {
        let databases = ["db", "db3", "s3db", "sdb", "sqlite", "sqlite2", "sqlite3", "sl3", "sqlitedb"];
        for database in databases {
            for journal in ["", "-journal", "-shm", "-wal", "-wal.gz"] {
                let name = format!("data.{database}{journal}");
                assert!(is_secret(name.as_bytes()), "{name}");
            }
        }
        let secret = "prod.env my.env.bak htpasswd site.htpasswd htpasswd.bak my.cnf database.yml database.yaml secrets.yml secrets.production.json \
                      credentials.json google-credentials.json credentials.csv sftp.json sftp-config.json sftp-config-alt.json php_error_log \
                      php_errors.log example.com-error_log error_log.1 dump.sql.txt dump.sql.old dump.sql.gz dump.sql.part1 docker-compose.override.yml \
                      terraform.tfstate client_secret_12.json id_ed25519_sk appsettings.production.json local.sqlite3-wal passwd";
        for name in secret.split_whitespace() {
            assert!(is_secret(name.as_bytes()), "{name}");
        }
        let served = "environment.js env.js secrets.html secrets.jpg our-secrets.pdf credentials.html credentials.svg credentials.css sftp.html \
                      sql.js sql-wasm.wasm join.sql.html editor.sql.js my.cnf.html htaccess.html a-wal.png wall.jpg journal.pdf a-journal.jpg \
                      error_log.html data.json database.csv manifest.json site.webmanifest robots.txt ads.txt security.txt app.properties \
                      messages.properties sitemap.xml feed.xml secret.txt secretsanta.json compose.js passwd.html photo-1.jpg x.min.js";
        for name in served.split_whitespace() {
            assert!(!is_secret(name.as_bytes()), "{name}");
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
