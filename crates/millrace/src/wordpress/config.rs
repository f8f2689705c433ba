//! `wp-config.php`.

use super::address::SiteAddress;
use super::database::{Database, Mysql, Server};
use super::random;
use crate::failure::{Explain, Failure};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The names of WordPress's keys and salts.
const KEYS: [&str; 8] = [
    "AUTH_KEY",
    "SECURE_AUTH_KEY",
    "LOGGED_IN_KEY",
    "NONCE_KEY",
    "AUTH_SALT",
    "SECURE_AUTH_SALT",
    "LOGGED_IN_SALT",
    "NONCE_SALT",
];

/// A site made without `--url` works on any loopback address, so that it can be served on another port. Host names
/// from outside are never accepted.
const FOLLOW_LOOPBACK: &str = r#"
/*
 * On this machine the site answers on whatever port it is served on.
 * Remove this block when the site gets an address of its own.
 */
if ( isset( $_SERVER['HTTP_HOST'] ) && preg_match( '/^(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?$/D', $_SERVER['HTTP_HOST'] ) ) {
	define( 'WP_HOME', ( empty( $_SERVER['HTTPS'] ) ? 'http://' : 'https://' ) . $_SERVER['HTTP_HOST'] );
	define( 'WP_SITEURL', WP_HOME );
}
"#;

/// Checks that WordPress accepts this as `$table_prefix`.
///
/// # Errors
/// When it contains anything but letters, digits and underscores, or too many of them.
pub fn check_prefix(prefix: &str) -> Result<(), Failure> {
    let good =
        (1..=20).contains(&prefix.len()) && prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if good {
        return Ok(());
    }
    Err(Failure::new(format!(
        "--table-prefix {prefix}: WordPress accepts 1 to 20 letters, digits and underscores"
    )))
}

/// Writes the file into `folder`, readable by its owner and group only.
pub fn write(folder: &Path, database: &Database, prefix: &str, address: &SiteAddress) -> Result<(), Failure> {
    let path = folder.join("wp-config.php");
    let text = compose(database, prefix, address)?;
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o640)
        .open(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .or_fail(|| format!("cannot write {}", path.display()))
}

fn compose(database: &Database, prefix: &str, address: &SiteAddress) -> Result<String, Failure> {
    let mut out =
        String::from("<?php\n/* Written by `millrace new wordpress`; it is yours to change. */\n\n");
    match database {
        Database::Sqlite => sqlite(&mut out)?,
        Database::Mysql(mysql) => server(&mut out, mysql),
    }
    define(&mut out, "DB_CHARSET", "utf8mb4");
    define(&mut out, "DB_COLLATE", "");
    out.push('\n');
    for key in KEYS {
        define(&mut out, key, &random::key()?);
    }
    let _ = write!(out, "\n$table_prefix = {};\n\ndefine( 'WP_DEBUG', false );\n", quote(prefix));
    if !address.is_fixed() {
        out.push_str(FOLLOW_LOOPBACK);
    }
    out.push_str("\nif ( ! defined( 'ABSPATH' ) ) {\n\tdefine( 'ABSPATH', __DIR__ . '/' );\n}\n\n");
    out.push_str("require_once ABSPATH . 'wp-settings.php';\n");
    Ok(out)
}

/// A name that can't be guessed, for the day when the folder ends up behind a server that gives away everything.
fn sqlite(out: &mut String) -> Result<(), Failure> {
    define(out, "DB_ENGINE", "sqlite");
    let _ = writeln!(out, "define( 'DB_DIR', __DIR__ . '/wp-content/database' );");
    define(out, "DB_FILE", &format!(".ht.{}.sqlite", random::hex()?));
    // WordPress requires these; with SQLite they are not used.
    for name in ["DB_NAME", "DB_USER", "DB_PASSWORD", "DB_HOST"] {
        define(out, name, "");
    }
    Ok(())
}

fn server(out: &mut String, mysql: &Mysql) {
    define(out, "DB_NAME", &mysql.name);
    define(out, "DB_USER", &mysql.user);
    define(out, "DB_PASSWORD", &mysql.password);
    let host = match &mysql.server {
        // `localhost` means the default Unix socket to PHP's MySQL driver; only an address means TCP.
        Server::Tcp(host, port) if host == "localhost" => format!("127.0.0.1:{port}"),
        Server::Tcp(host, port) => format!("{host}:{port}"),
        Server::Socket(path) => format!("localhost:{}", path.display()),
    };
    define(out, "DB_HOST", &host);
}

fn define(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "define( '{name}', {} );", quote(value));
}

/// A single-quoted string of PHP.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composed(db: &str, url: Option<&str>) -> String {
        let database = Database::parse(db).expect("a good database");
        compose(&database, "wp_", &SiteAddress::parse(url).expect("a good address")).expect("a configuration")
    }

    #[test]
    fn keys_are_fresh_and_the_database_file_cannot_be_guessed() {
        let (one, two) = (composed("sqlite", None), composed("sqlite", None));
        for key in KEYS.iter().chain(&["DB_FILE"]) {
            let line = |text: &str| text.lines().find(|l| l.contains(&format!("'{key}'"))).map(str::to_owned);
            assert!(line(&one).is_some() && line(&one) != line(&two), "{key}");
        }
    }

    #[test]
    fn quotes_and_backslashes_stay_inside_their_string() {
        let text = composed("mysql://u:a'b%5C@h/d", None);
        assert!(text.contains(r"define( 'DB_PASSWORD', 'a\'b\\' );"), "{text}");
    }

    #[test]
    fn where_wordpress_finds_the_server() {
        let host = |db: &str| {
            let text = composed(db, None);
            text.lines().find(|l| l.contains("'DB_HOST'")).map(str::to_owned).unwrap_or_default()
        };
        assert_eq!(host("mysql://u:p@localhost:3307/d"), "define( 'DB_HOST', '127.0.0.1:3307' );");
        assert_eq!(host("mysql://u:p@[::1]/d"), "define( 'DB_HOST', '[::1]:3306' );");
        assert_eq!(host("mysql://u:p@localhost/d?socket=/run/s"), "define( 'DB_HOST', 'localhost:/run/s' );");
    }

    #[test]
    fn only_a_site_without_an_address_follows_the_loopback() {
        assert!(composed("sqlite", None).contains("WP_HOME"));
        assert!(!composed("sqlite", Some("https://example.com")).contains("WP_HOME"));
    }

    #[test]
    fn table_prefixes() {
        assert!(check_prefix("wp_").is_ok() && check_prefix("site2_").is_ok());
        for bad in ["", "a-b", "a b", "x'; --", "abcdefghijklmnopqrstuvwxyz"] {
            assert!(check_prefix(bad).is_err(), "{bad} was taken");
        }
    }
}
