//! WordPress on SQLite: the drop-in of WordPress's own performance team, `sqlite-database-integration`.
//!
//! WordPress loads `wp-content/db.php` instead of its MySQL layer. That file is made from the plugin's `db.copy`.
//! The plugin replaces the placeholders in it when it is activated from the admin pages. Here they are replaced
//! beforehand, and relative to the site, so that it can be moved. Versions that lose one of two simultaneous writes
//! get a connection that doesn't (`sqlite-turns.php`).

use super::{fetch, playground, unpack};
use crate::failure::{Explain, Failure};
use std::fs;
use std::io::Cursor;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const PLUGIN_URL: &str = "https://downloads.wordpress.org/plugin/sqlite-database-integration.zip";

/// The plugin's folder below `wp-content/plugins`.
const PLUGIN: &str = "sqlite-database-integration";

/// Inserted into the drop-in before the line `IMPLEMENTATION`, where the plugin begins transactions with the text
/// `READER`.
const TURNS: &str = include_str!("sqlite-turns.php");
const IMPLEMENTATION: &str = "// Require the implementation from the plugin.\n";
const READER: &str = "execute_sqlite_query( 'BEGIN' )";
const TRANSLATOR: &str = "wp-includes/sqlite/class-wp-sqlite-translator.php";

/// Installs the plugin (`archive`, or else downloaded), the drop-in and the folder for the database file.
pub fn put_drop_in(site: &Path, archive: Option<Vec<u8>>) -> Result<(), Failure> {
    let archive = match archive {
        Some(archive) => archive,
        None => download()?,
    };
    let content = site.join("wp-content");
    let plugin = content.join("plugins").join(PLUGIN);
    unpack::zip(Cursor::new(archive), &plugin, &mut below_top_folder)?;
    let template = plugin.join("db.copy");
    let text = fs::read_to_string(&template)
        .or_fail(|| format!("the SQLite plugin has no file {}", template.display()))?;
    let drop_in = content.join("db.php");
    let translator = fs::read_to_string(plugin.join(TRANSLATOR)).unwrap_or_default();
    let filled = take_turns(fill_in(&text)?, &translator);
    fs::write(&drop_in, filled).or_fail(|| drop_in.display().to_string())?;
    make_database_folder(&content.join("database"))
}

fn download() -> Result<Vec<u8>, Failure> {
    let path = fetch::cache_dir()?.join("wordpress.org-sqlite-database-integration.zip");
    let fetched = fetch::file(PLUGIN_URL, &path, None);
    if fetched.is_ok() || path.exists() {
        return fs::read(&path).or_fail(|| path.display().to_string());
    }
    super::step("cannot reach wordpress.org for the SQLite plugin; trying the npm package");
    let package = playground::package().map_err(|error| {
        error.next("check the internet connection, or use a MySQL server: --db mysql://...")
    })?;
    playground::sqlite_plugin(&package)
}

/// Archives contain the plugin in one folder with a varying name.
fn below_top_folder(name: &Path) -> Option<PathBuf> {
    let mut parts = name.components();
    parts.next();
    let rest = parts.as_path();
    let needed = !rest.as_os_str().is_empty() && !rest.starts_with(".github") && !rest.starts_with("tests");
    needed.then(|| rest.to_owned())
}

fn fill_in(template: &str) -> Result<String, Failure> {
    let text = template
        .replace("'{SQLITE_IMPLEMENTATION_FOLDER_PATH}'", &format!("__DIR__ . '/plugins/{PLUGIN}'"))
        .replace("{SQLITE_PLUGIN}", &format!("{PLUGIN}/load.php"));
    if text == template || text.contains("{SQLITE_") {
        return Err(Failure::new(
            "Millrace does not support the file layout of this version of the SQLite plugin",
        )
        .next("please report this; meanwhile use a MySQL server: --db mysql://USER:PASSWORD@HOST/NAME"));
    }
    Ok(text)
}

/// The drop-in with writers that wait for their turn, if this plugin's don't. A plugin of another make is left alone.
fn take_turns(drop_in: String, translator: &str) -> String {
    if translator.contains(READER) && translator.contains("'pre_query_sqlite_db'") {
        return drop_in.replacen(IMPLEMENTATION, &format!("{TURNS}{IMPLEMENTATION}"), 1);
    }
    drop_in
}

/// Only the site's own user has access, whatever server may serve the folder later.
fn make_database_folder(dir: &Path) -> Result<(), Failure> {
    let make = || -> std::io::Result<()> {
        fs::create_dir_all(dir)?;
        fs::write(dir.join(".htaccess"), "Require all denied\n")?;
        fs::write(dir.join("index.php"), "<?php // Silence is golden.\n")?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
    };
    make().or_fail(|| dir.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;
    use std::io::Write;

    const TEMPLATE: &str =
        "<?php $folder = '{SQLITE_IMPLEMENTATION_FOLDER_PATH}'; activate( '{SQLITE_PLUGIN}' );";

    fn plugin(db_copy: &str) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in
            [("x-main/db.copy", db_copy), ("x-main/load.php", "<?php"), ("x-main/tests/t.php", "")]
        {
            writer.start_file(name, zip::write::SimpleFileOptions::default()).expect("an entry");
            writer.write_all(content.as_bytes()).expect("its content");
        }
        writer.finish().expect("an archive").into_inner()
    }

    #[test]
    fn the_drop_in_finds_the_plugin_wherever_the_site_is() {
        let scratch = Scratch::new();
        put_drop_in(scratch.path(), Some(plugin(TEMPLATE))).expect("put down");
        let content = scratch.path().join("wp-content");
        let drop_in = fs::read_to_string(content.join("db.php")).expect("there");
        assert_eq!(
            drop_in,
            "<?php $folder = __DIR__ . '/plugins/sqlite-database-integration'; \
             activate( 'sqlite-database-integration/load.php' );"
        );
        assert!(content.join("plugins/sqlite-database-integration/load.php").exists());
        assert!(!content.join("plugins/sqlite-database-integration/tests").exists());
        let mode = fs::metadata(content.join("database")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn writers_wait_for_their_turn_where_the_plugin_lets_them_fail() {
        let drop_in = format!("<?php\n{IMPLEMENTATION}require 'x';\n");
        let reader = format!("apply_filters( 'pre_query_sqlite_db', null ); $this->{READER};");
        let changed = take_turns(drop_in.clone(), &reader);
        assert!(changed.find("Millrace_SQLite").expect("added") < changed.find("require 'x'").expect("kept"));
        let cured = "apply_filters( 'pre_query_sqlite_db', null ); $this->query( 'BEGIN IMMEDIATE' );";
        assert_eq!(take_turns(drop_in.clone(), cured), drop_in);
        assert_eq!(take_turns("<?php\n".into(), &reader), "<?php\n");
    }

    #[test]
    fn an_unknown_layout_is_not_guessed_at() {
        for strange in
            ["<?php", "<?php '{SQLITE_IMPLEMENTATION_FOLDER_PATH}' '{SQLITE_PLUGIN}' '{SQLITE_NEW}'"]
        {
            let scratch = Scratch::new();
            put_drop_in(scratch.path(), Some(plugin(strange))).expect_err(strange);
        }
    }
}
