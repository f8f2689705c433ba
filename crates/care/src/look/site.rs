//! A site: its files, its configuration, its database.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::config::{Config, Constant};
use super::database::{self, Probe, Question};
use crate::facts::{Blind, Facts};

/// Constants of wp-config.php that checks know.
const CONSTANTS: &[&str] = &[
    "WP_DEBUG",
    "WP_DEBUG_DISPLAY",
    "WP_DEBUG_LOG",
    "SAVEQUERIES",
    "SCRIPT_DEBUG",
    "DISABLE_WP_CRON",
    "WP_CACHE",
    "CONCATENATE_SCRIPTS",
];
/// Maximum number of files that are looked at in a folder.
const FILES_MOST: usize = 5_000;

/// Looks at the site in `folder`.
pub fn look(folder: &Path, probe: Option<&Probe>) -> Facts {
    let mut facts = Facts::default();
    facts.say("root", folder.display().to_string());
    facts.add("files", files(folder));
    match config_file(folder) {
        None => {
            let why = || Blind::DoesNotApply("the site is no WordPress".to_owned());
            for area in ["config", "wordpress", "db"] {
                facts.missing(area, why());
            }
        }
        Some(path) => wordpress(&mut facts, folder, &path, probe),
    }
    facts
}

/// WordPress accepts the file in its own folder, or in the one above.
fn config_file(folder: &Path) -> Option<PathBuf> {
    let here = folder.join("wp-config.php");
    let above = folder.parent()?.join("wp-config.php");
    if here.exists() {
        return Some(here);
    }
    (above.exists() && folder.join("wp-blog-header.php").exists()).then_some(above)
}

fn wordpress(facts: &mut Facts, folder: &Path, path: &Path, probe: Option<&Probe>) {
    let content = folder.join("wp-content");
    let is_there = |name: &str| f64::from(u8::from(content.join(name).exists()));
    facts.set("files.object_cache", is_there("object-cache.php"));
    facts.set("files.advanced_cache", is_there("advanced-cache.php"));
    facts.set(
        "files.debug_log_bytes",
        fs::metadata(content.join("debug.log")).map_or(0.0, |data| data.len() as f64),
    );
    facts.set("files.redis", f64::from(u8::from(listens_redis())));
    facts.set("files.maintenance_seconds", age(&folder.join(".maintenance")).unwrap_or(0.0));
    let text = match millrace_sys::read_regular(path, millrace_sys::LARGEST_CONFIGURATION) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => {
            let why = Blind::CouldNotLook(format!(
                "{}: {error}; run as root, or as the site's owner",
                path.display()
            ));
            for area in ["config", "wordpress", "db"] {
                facts.missing(area, why.clone());
            }
            return;
        }
    };
    let config = Config::read(&text);
    let mut area = Facts::default();
    for name in CONSTANTS {
        match config.get(name) {
            Some(Constant::Computed) => {
                area.missing(*name, Blind::CouldNotLook(format!("{name} is computed")))
            }
            _ => area.set(*name, f64::from(u8::from(config.is_on(name)))),
        }
        // WordPress's own default.
        if *name == "WP_DEBUG_DISPLAY" && config.get(name).is_none() {
            area.set(*name, 1.0);
        }
    }
    facts.add("config", Ok(area));
    match question(&config, folder) {
        Err(why) => {
            facts.missing("db", Blind::CouldNotLook(why.clone()));
            facts.missing("wordpress", Blind::CouldNotLook(why));
        }
        Ok(question) => database::add(facts, &question, probe),
    }
}

/// What to ask the site's database.
fn question(config: &Config, folder: &Path) -> Result<Question, String> {
    let prefix = config.prefix.clone().unwrap_or_else(|| "wp_".to_owned());
    let computed =
        |name| format!("{name} in wp-config.php is not a plain text; the doctor never runs a site's code");
    let text = |name| config.text(name).map_err(computed).map(|text| text.unwrap_or_default().to_owned());
    let is_sqlite = [config.get("DB_ENGINE"), config.get("DATABASE_TYPE")]
        .into_iter()
        .flatten()
        .any(|value| *value == Constant::Text("sqlite".to_owned()));
    if is_sqlite {
        let file = match config.text("DB_FILE") {
            Ok(Some(file)) => file.to_owned(),
            _ => ".ht.sqlite".to_owned(),
        };
        let folders = [folder.join("wp-content/database")];
        let found = folders.iter().map(|folder| folder.join(&file)).find(|path| path.exists());
        return match found {
            Some(path) => Ok(Question::Sqlite { file: path, prefix }),
            None => Err(format!("the SQLite database {file} is not in wp-content/database")),
        };
    }
    Ok(Question::Mysql {
        host: text("DB_HOST")?,
        user: text("DB_USER")?,
        password: text("DB_PASSWORD")?,
        name: text("DB_NAME")?,
        prefix,
    })
}

/// Whether a Redis or Valkey listens in the usual places. Only the sockets are looked at; nothing is sent.
fn listens_redis() -> bool {
    let tcp = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    // 18EB: port 6379; 0A: LISTEN.
    let by_port = tcp.lines().any(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        words.len() > 3 && words[1].ends_with(":18EB") && words[3] == "0A"
    });
    by_port
        || ["/run/redis/redis-server.sock", "/run/redis/redis.sock", "/run/valkey/valkey.sock"]
            .iter()
            .any(|path| Path::new(path).exists())
}

fn age(path: &Path) -> Option<f64> {
    let changed = fs::metadata(path).ok()?.modified().ok()?;
    SystemTime::now().duration_since(changed).ok().map(|age| age.as_secs_f64())
}

/// Names in the document root that hold secrets: copies of configurations, dumps, version control.
fn files(folder: &Path) -> Result<Facts, Blind> {
    let entries = fs::read_dir(folder)
        .map_err(|error| Blind::CouldNotLook(format!("{}: {error}", folder.display())))?;
    let mut secrets = Vec::new();
    for entry in entries.flatten().take(FILES_MOST) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_secret(&name) {
            let mut one = Facts::default();
            one.say("name", name);
            secrets.push(one);
        }
    }
    secrets.sort_by(|a, b| a.text("name").cmp(b.text("name")));
    let mut facts = Facts::default();
    facts.put("secrets", secrets);
    Ok(facts)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let copy_of_config =
        name.starts_with("wp-config") && !matches!(&*name, "wp-config.php" | "wp-config-sample.php");
    let dump = [".sql", ".sql.gz", ".sql.zip", ".sql.bz2", ".sql.xz", ".sql.zst", ".dump"]
        .iter()
        .any(|end| name.ends_with(end));
    let archive = [".zip", ".tar", ".tar.gz", ".tgz"].iter().any(|end| name.ends_with(end))
        && ["backup", "dump", "public_html", "www", "database"].iter().any(|word| name.contains(word));
    copy_of_config
        || dump
        || archive
        || matches!(&*name, ".git" | ".svn" | ".env" | "phpinfo.php" | "adminer.php" | "info.php")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn names_of_secrets() {
        for name in [
            "wp-config.php.bak",
            "wp-config.php~",
            "dump.sql",
            "Shop.SQL.gz",
            ".git",
            ".env",
            "backup-2026.zip",
            "phpinfo.php",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["wp-config.php", "wp-config-sample.php", "index.php", "plugin.zip", "readme.html"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_wordpress() {
        let tree = Tree::of(&[
            (
                "wp-config.php",
                "<?php define('DB_NAME','n'); define('DB_USER','u'); define('DB_PASSWORD', getenv('P')); define('WP_DEBUG', true);",
            ),
            ("wp-content/object-cache.php", "<?php"),
            ("dump.sql", "x"),
        ]);
        let facts = look(tree.root(), None);
        assert!(
            facts.is_on("config.WP_DEBUG")
                && facts.is_on("config.WP_DEBUG_DISPLAY")
                && facts.is_on("files.object_cache")
        );
        assert_eq!(facts.list("files.secrets").map(<[Facts]>::len), Ok(1));
        let why = facts.figure("db.error").expect_err("the password is computed");
        assert!(why.why().starts_with("DB_PASSWORD in wp-config.php is not a plain text"), "{why:?}");
    }

    #[test]
    fn another_site() {
        let tree = Tree::of(&[("index.html", "x")]);
        let facts = look(tree.root(), None);
        assert!(matches!(facts.figure("db.error"), Err(Blind::DoesNotApply(_))));
        assert!(matches!(
            look(&tree.root().join("gone"), None).list("files.secrets"),
            Err(Blind::CouldNotLook(_))
        ));
    }

    #[test]
    fn an_sqlite_database() {
        let text =
            "<?php define('DB_ENGINE','sqlite'); define('DB_FILE','.ht.x.sqlite'); $table_prefix='a_';";
        let tree = Tree::of(&[("wp-content/database/.ht.x.sqlite", "")]);
        let found = question(&Config::read(text), tree.root()).expect("it is there");
        let file = tree.root().join("wp-content/database/.ht.x.sqlite");
        assert_eq!(found, Question::Sqlite { file, prefix: "a_".to_owned() });
        assert!(question(&Config::read(text), Path::new("/nowhere")).is_err());
    }
}
