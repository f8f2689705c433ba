//! Which program runs PHP: `millrace-php` of a build, or `millrace-php8.2` of a package.

use std::path::{Path, PathBuf};

use millrace_settings::plan::{self, PHP_VERSIONS};

use super::start_error::PhpStartError;

/// Name of the program; packages add the PHP version.
pub const PROGRAM: &str = "millrace-php";
/// Where packages have the programs, as seen from the folder of the server's own one: /usr/lib/millrace from /usr/bin.
const PACKAGED: &str = "../lib/millrace";
/// Ahead of the name of a library that the loader does not find (glibc, elf/dl-load.c).
const NOT_LOADED: &str = "error while loading shared libraries: lib";

/// The path of the program.
///
/// # Errors
/// There is none.
pub fn program(settings: &plan::Php) -> Result<PathBuf, PhpStartError> {
    let found = || find(settings.version, &folders());
    settings.program.clone().or_else(found).ok_or(PhpStartError::NoProgram(settings.version))
}

/// Folders that may have the program, in order.
fn folders() -> Vec<PathBuf> {
    let own = std::env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent).into_iter();
    let path = std::env::var_os("PATH").unwrap_or_default();
    own.flat_map(|own| [own.to_owned(), own.join(PACKAGED)]).chain(std::env::split_paths(&path)).collect()
}

/// The program for this version; without one `millrace-php`, else the one for the newest version.
fn find(version: Option<&str>, folders: &[PathBuf]) -> Option<PathBuf> {
    let one = |version: &str| {
        folders.iter().map(|folder| folder.join(format!("{PROGRAM}{version}"))).find(|file| file.is_file())
    };
    match version {
        Some(version) => one(version),
        None => one("").or_else(|| PHP_VERSIONS.into_iter().find_map(one)),
    }
}

/// What to do if these words of the program, or of the loader before it runs, say that libphp is missing.
pub fn missing_library(words: &str) -> Option<String> {
    let (_, name) = words.split_once(NOT_LOADED)?;
    let version = name.strip_prefix("php")?.split_once(".so")?.0;
    Some(format!(
        "install the library of PHP {version} (Debian: apt-get install libphp{version}-embed), or choose another version by php.version"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_version_that_is_set_or_the_newest() {
        let dir = std::env::temp_dir().join(format!("millrace-program-{}", std::process::id()));
        let folders = [dir.join("beside"), dir.join("packaged")];
        for folder in &folders {
            std::fs::create_dir_all(folder).unwrap();
        }
        let find = |version| find(version, &folders).map(|file| file.strip_prefix(&dir).unwrap().to_owned());
        assert_eq!((find(None), find(Some("8.2"))), (None, None));
        for name in ["packaged/millrace-php8.2", "packaged/millrace-php8.4", "beside/millrace-php8.1"] {
            std::fs::write(dir.join(name), "").unwrap();
        }
        assert_eq!(find(Some("8.2")), Some("packaged/millrace-php8.2".into()));
        assert_eq!(find(Some("8.3")), None);
        assert_eq!(find(None), Some("packaged/millrace-php8.4".into()), "the newest, wherever it is");
        std::fs::write(dir.join("packaged/millrace-php"), "").unwrap();
        assert_eq!(find(None), Some("packaged/millrace-php".into()), "what a build made comes first");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn names_the_package_of_a_missing_library() {
        let words = "/usr/lib/millrace/millrace-php8.2: error while loading shared libraries: libphp8.2.so: cannot open shared object file: No such file or directory";
        assert!(missing_library(words).unwrap().contains("apt-get install libphp8.2-embed"));
        assert_eq!(missing_library(&words.replace("libphp8.2", "libxml2")), None);
        assert_eq!(missing_library("PHP Fatal error: libphp8.2.so"), None);
    }
}
