//! Sources of WordPress's files: the user's, wordpress.org, or the npm package.

use super::fetch::{self, Digest};
use super::{playground, unpack};
use crate::failure::{Explain, Failure};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Archives (`wordpress-VERSION.tar.gz` of wordpress.org) with a pinned SHA-256. For others, the SHA-1 that
/// wordpress.org publishes must be enough.
const PINNED: [(&str, &str); 2] = [
    ("6.7.2", "cfd9c83cfa9dda0351898ea9b73f58995c817994a5424be18777f83e886a3cf6"),
    ("6.8.2", "d85a72e392bfe866816b3c2ebc6a44699072aa50cc3a620f1c4ed2f13b645e2b"),
];

const WORDPRESS_ORG: &str = "https://wordpress.org";

/// The result of [`obtain`].
pub struct Obtained {
    /// WordPress's version, from its own `version.php`.
    pub version: String,
    /// Its source, for people.
    pub origin: String,
    /// The SQLite plugin's zip archive, where the source has it at hand.
    pub sqlite_plugin: Option<Vec<u8>>,
}

/// Puts WordPress's files into `staging`.
///
/// # Errors
/// When no source has it; the failure lists all attempts.
pub fn obtain(staging: &Path, from: Option<&Path>, version: Option<&str>) -> Result<Obtained, Failure> {
    let (origin, sqlite_plugin) = match from {
        Some(path) => {
            super::step(&format!("Using WordPress from {}", path.display()));
            from_path(path, staging)?;
            (path.display().to_string(), None)
        }
        None => download(staging, version)?,
    };
    Ok(Obtained { version: version_in(staging)?, origin, sqlite_plugin })
}

fn download(staging: &Path, version: Option<&str>) -> Result<(String, Option<Vec<u8>>), Failure> {
    let first = match from_wordpress_org(version) {
        Ok(archive) => {
            unpack_archive(&archive, staging)?;
            return Ok(("wordpress.org".into(), None));
        }
        Err(error) => error,
    };
    if version.is_some_and(|version| version != playground::VERSION) {
        return Err(first.next(format!(
            "check the version and the internet connection; without --version, Millrace uses any version that it can \
             download;\nor give the files: --from wordpress-{}.zip",
            version.unwrap_or_default()
        )));
    }
    super::step("cannot reach wordpress.org; trying the npm package");
    match playground::package().and_then(|package| playground::unpack(&package, staging)) {
        Ok(plugin) => Ok(("an npm package (@wp-playground/wordpress-builds)".into(), Some(plugin))),
        Err(second) => Err(Failure::new("cannot download WordPress")
            .detail(first.what())
            .detail(second.what())
            .next("check the internet connection, or give the files: --from wordpress.zip")),
    }
}

/// The archive in the cache, fetched where it isn't there yet or isn't the latest.
fn from_wordpress_org(version: Option<&str>) -> Result<PathBuf, Failure> {
    let version = version.unwrap_or("latest");
    if !version.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-') {
        return Err(Failure::new(format!("{version} is not a version of WordPress")));
    }
    let name =
        if version == "latest" { "latest.tar.gz".into() } else { format!("wordpress-{version}.tar.gz") };
    let url = format!("{WORDPRESS_ORG}/{name}");
    let path = fetch::cache_dir()?.join(format!("wordpress.org-{name}"));
    let digest = match PINNED.iter().find(|(pinned, _)| *pinned == version) {
        Some((_, sha256)) => Digest::Sha256(sha256),
        None => match published(&url) {
            Ok(digest) => digest,
            // Offline: an earlier download, which was checked, is good enough.
            Err(_) if path.exists() => return Ok(path),
            Err(error) => return Err(error),
        },
    };
    if !(path.exists() && digest.check(&path).is_ok()) {
        fetch::file(&url, &path, Some(&digest))?;
    }
    Ok(path)
}

/// The SHA-1 that wordpress.org publishes beside an archive.
fn published(url: &str) -> Result<Digest, Failure> {
    let text = fetch::text(&format!("{url}.sha1"))?;
    let hex = text.trim();
    if hex.len() == 40 && hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(Digest::Sha1(hex.to_owned()));
    }
    Err(Failure::new(format!("{url}.sha1 contains no SHA-1 digest")))
}

fn from_path(path: &Path, staging: &Path) -> Result<(), Failure> {
    let kind = fs::metadata(path).or_fail(|| format!("--from {}", path.display()))?;
    if !kind.is_dir() {
        return unpack_archive(path, staging);
    }
    let nested = path.join("wordpress");
    let root =
        if path.join(VERSION_FILE).exists() || !nested.join(VERSION_FILE).exists() { path } else { &nested };
    if !root.join(VERSION_FILE).exists() {
        return Err(no_wordpress(path));
    }
    // The configuration and the data of the original site are not copied.
    let private = ["wp-config.php", "wp-content/database", "wp-content/db.php"];
    unpack::copy_tree(root, staging, &mut |name| {
        (!private.iter().any(|p| name.starts_with(p))).then(|| name.to_owned())
    })
}

/// Unpacks a .zip or a .tar.gz with WordPress at its top or in its one folder.
fn unpack_archive(path: &Path, staging: &Path) -> Result<(), Failure> {
    let unpacked = staging.join(".unpacked");
    let open = || File::open(path).or_fail(|| format!("cannot open {}", path.display()));
    let mut magic = [0_u8; 2];
    open()?.read_exact(&mut magic).or_fail(|| path.display().to_string())?;
    match &magic {
        b"PK" => unpack::zip(open()?, &unpacked, &mut unpack::everything)?,
        b"\x1f\x8b" => unpack::tar_gz(open()?, &unpacked, &mut unpack::everything)?,
        _ => {
            return Err(Failure::new(format!("{} is neither a .zip nor a .tar.gz", path.display()))
                .next("give an archive from wordpress.org, or a folder that contains WordPress"));
        }
    }
    let root = [unpacked.clone(), unpacked.join("wordpress")]
        .into_iter()
        .find(|dir| dir.join(VERSION_FILE).exists());
    let root = root.ok_or_else(|| no_wordpress(path))?;
    lift(&root, staging)
        .and_then(|()| fs::remove_dir_all(&unpacked))
        .or_fail(|| staging.display().to_string())?;
    // Some archives contain a configuration.
    match fs::remove_file(staging.join("wp-config.php")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::new(error.to_string())),
        _ => Ok(()),
    }
}

fn lift(from: &Path, into: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::rename(entry.path(), into.join(entry.file_name()))?;
    }
    Ok(())
}

const VERSION_FILE: &str = "wp-includes/version.php";

fn no_wordpress(path: &Path) -> Failure {
    Failure::new(format!("{} contains no WordPress ({VERSION_FILE} is missing)", path.display()))
        .next("give an archive from wordpress.org, or a folder that contains WordPress")
}

fn version_in(root: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(root.join(VERSION_FILE)).map_err(|_| no_wordpress(root))?;
    let (_, rest) = text.split_once("$wp_version = '").ok_or_else(|| no_wordpress(root))?;
    let version = rest.split('\'').next().unwrap_or_default();
    Ok(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;
    use std::io::{Cursor, Write};

    fn archive(scratch: &Scratch, top: &str) -> PathBuf {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let files =
            [("index.php", "<?php"), (VERSION_FILE, "<?php $wp_version = '6.9';"), ("wp-config.php", "old")];
        for (name, content) in files {
            let options = zip::write::SimpleFileOptions::default();
            writer.start_file(format!("{top}{name}"), options).expect("an entry");
            writer.write_all(content.as_bytes()).expect("its content");
        }
        let path = scratch.path().join("wp.zip");
        fs::write(&path, writer.finish().expect("an archive").into_inner()).expect("written");
        path
    }

    #[test]
    fn an_archive_is_taken_with_and_without_its_folder() {
        for top in ["", "wordpress/"] {
            let scratch = Scratch::new();
            let staging = scratch.path().join("site");
            fs::create_dir(&staging).expect("made");
            let obtained = obtain(&staging, Some(&archive(&scratch, top)), None).expect("taken");
            assert_eq!(obtained.version, "6.9");
            assert!(staging.join("index.php").exists());
            assert!(!staging.join("wp-config.php").exists() && !staging.join(".unpacked").exists());
        }
    }

    #[test]
    fn a_folder_is_taken_without_its_configuration_and_data() {
        let scratch = Scratch::new();
        let (from, staging) = (scratch.path().join("from"), scratch.path().join("site"));
        for (name, content) in [
            (VERSION_FILE, "$wp_version = '6.9';"),
            ("wp-config.php", "secret"),
            ("wp-content/database/.ht.x", "data"),
            ("wp-content/index.php", "kept"),
        ] {
            fs::create_dir_all(from.join(name).parent().expect("a folder")).expect("made");
            fs::write(from.join(name), content).expect("written");
        }
        fs::create_dir(&staging).expect("made");
        obtain(&staging, Some(&from), None).expect("taken");
        assert!(staging.join("wp-content/index.php").exists());
        assert!(!staging.join("wp-config.php").exists() && !staging.join("wp-content/database").exists());
    }

    #[test]
    fn what_is_no_wordpress_is_refused() {
        let scratch = Scratch::new();
        let staging = scratch.path().join("site");
        fs::create_dir(&staging).expect("made");
        fs::write(scratch.path().join("text"), "hello").expect("written");
        for from in ["missing", "text", "."] {
            assert!(obtain(&staging, Some(&scratch.path().join(from)), None).is_err(), "{from} was taken");
        }
    }

    #[test]
    fn a_version_is_no_path() {
        from_wordpress_org(Some("../../x")).expect_err("no version");
        assert!(PINNED.iter().all(|(_, hex)| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit())));
    }
}
