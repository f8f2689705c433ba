//! WordPress from the npm package `@wp-playground/wordpress-builds`, for machines that reach a package registry but
//! not wordpress.org.
//!
//! The package is made for WordPress in the browser, and contains each version in two halves:
//! `src/wordpress/wp-X.zip` with the files that PHP reads, and `public/wp-X/` with the files that browsers fetch.
//! Together they are the whole of WordPress, except comments and white space in the PHP files and two of the three
//! themes' PHP files.

use super::fetch::{self, Digest};
use super::unpack;
use crate::failure::{Explain, Failure};
use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of WordPress that [`unpack`] puts down.
pub const VERSION: &str = "6.5.5";

const PACKAGE: &str = "@wp-playground/wordpress-builds@0.9.19";
const CORE: &str = "src/wordpress/wp-6.5.zip";
const PLUGIN: &str = "src/sqlite-database-integration/sqlite-database-integration.zip";
const FILE: &str = "wp-playground-wordpress-builds-0.9.19.tgz";
/// npm's `dist.integrity`, in hexadecimal.
const SHA512: Digest = Digest::Sha512(
    "765aaf87f3090e91395baf2f80f3ca523a62a7acccb81879f4bdc3d7c657fa97\
     70bab0b8ab8c9dad3c30ff7b13315ebd0417281fa905f7762d02dba3342e4ca7",
);

/// The package's file in the cache, fetched by `npm` where it isn't there yet.
pub fn package() -> Result<PathBuf, Failure> {
    let path = fetch::cache_dir()?.join(FILE);
    let is_there = || path.exists() && SHA512.check(&path).is_ok();
    if is_there() {
        return Ok(path);
    }
    let _turn = fetch::turn(&path)?;
    if is_there() {
        return Ok(path);
    }
    if !fetch::installed("npm") {
        return Err(Failure::new("npm is not installed").next("apt-get install npm"));
    }
    super::step(&format!("Downloading {PACKAGE} with npm (158 MB)"));
    // npm chooses the file's name itself; a separate folder prevents that an incomplete file is taken for a complete
    // one.
    let folder = path.with_extension("part");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).or_fail(|| folder.display().to_string())?;
    let fetched = fetch::run(
        Command::new("npm").args(["pack", "--loglevel=error", PACKAGE]).current_dir(&folder),
        PACKAGE,
    )
    .and_then(|_| SHA512.check(&folder.join(FILE)))
    .and_then(|()| fs::rename(folder.join(FILE), &path).or_fail(|| path.display().to_string()));
    let _ = fs::remove_dir_all(&folder);
    fetched.map(|()| path)
}

/// Puts WordPress into `into`, and returns the SQLite plugin's zip archive.
pub fn unpack(package: &Path, into: &Path) -> Result<Vec<u8>, Failure> {
    let (mut core, mut plugin) = (Vec::new(), Vec::new());
    let mut public = unpack::Out::new(into);
    walk(package, |name, content| match name.strip_prefix("public/wp-6.5") {
        Ok(asset) => part_of_wordpress(asset).map_or(Ok(()), |target| public.write(&target, content)),
        Err(_) if name == Path::new(CORE) => read_all(content, &mut core),
        Err(_) if name == Path::new(PLUGIN) => read_all(content, &mut plugin),
        Err(_) => Ok(()),
    })?;
    unpack::zip(Cursor::new(core), into, &mut part_of_wordpress)?;
    Ok(plugin)
}

/// The SQLite plugin's zip archive alone.
pub fn sqlite_plugin(package: &Path) -> Result<Vec<u8>, Failure> {
    let mut plugin = Vec::new();
    walk(
        package,
        |name, content| if name == Path::new(PLUGIN) { read_all(content, &mut plugin) } else { Ok(()) },
    )?;
    Ok(plugin)
}

/// Shows each file of the package to `see`, under its name in it.
fn walk(
    package: &Path,
    mut see: impl FnMut(&Path, &mut dyn Read) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let file = File::open(package).or_fail(|| package.display().to_string())?;
    unpack::walk_tar_gz(file, |name, content| {
        name.strip_prefix("package").map_or(Ok(()), |name| see(name, content))
    })
}

fn read_all(content: &mut dyn Read, into: &mut Vec<u8>) -> Result<(), Failure> {
    content.read_to_end(into).map(|_| ()).or_fail(|| PACKAGE.to_owned())
}

/// Leaves out the package's additions to WordPress, and Twenty Twenty-Two, which needs its missing PHP files (Twenty
/// Twenty-Four has them, Twenty Twenty-Three consists of templates).
fn part_of_wordpress(name: &Path) -> Option<PathBuf> {
    let added = ["wp-config.php", ".default_theme", "wordpress-remote-asset-paths"]
        .iter()
        .any(|n| name == Path::new(n));
    let unwanted =
        ["wp-content/database", "wp-content/themes/twentytwentytwo"].iter().any(|n| name.starts_with(n));
    (!added && !unwanted).then(|| name.to_owned())
}
