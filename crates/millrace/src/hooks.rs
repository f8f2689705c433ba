//! `hooks enable|disable|status`: a must-use plugin of WordPress by which PHP processes that Millrace does not run - WP-CLI, the
//! system's cron, php-fpm - purge pages, and the folder in which it leaves its purges (`cache/purge/left.rs` of the server).
//!
//! The plugin is one file: the classes of `php/inject/wordpress` that know what a change purges, and `php/outside`. Its head contains
//! a digest of the rest. If the digest is missing or wrong, somebody else has written or edited the file: these commands then leave it
//! as it is.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use crate::args::SiteArgs;
use crate::failure::{Explain, Failure};
use crate::rights::{act_in, open_file, read_file};
use crate::serve::say;

macro_rules! classes {
    ($($name:literal)*) => { &[$(include_str!(concat!("../../../php/inject/wordpress/", $name, ".php"))),*] };
}

/// In the order in which the plugin has them.
const CLASSES: &[&str] = classes!["hooks" "tags" "page" "shown" "changes" "posts" "people" "site" "options" "shop" "network" "tables" "written"];
const OUTSIDE: &str = include_str!("../../../php/outside/outside.php");
/// What each of the files begins with, up to its first comment or class.
const OPENING: &str = "<?php\nnamespace Millrace\\WordPress;\n";

const HEAD: &str = "<?php
/**
 * Plugin Name: Millrace
 * Description: Purges Millrace's page cache from PHP processes that Millrace does not run: WP-CLI, the system's cron, php-fpm.
 * Version: ";
const DIGEST: &str = "\n * Digest: ";
const MADE: &str = "\n * Made the folder mu-plugins: ";
const NEXT: &str = "
 *
 * Written by `millrace hooks enable`, removed by `millrace hooks disable`. Do not edit it.
 */
";

/// Files of the folder; see the server's `cache/purge/left.rs`.
const PURGES: &str = "purges";
const RUNNING: &str = "running";

/// Where everything is on a site.
struct Places {
    plugins: PathBuf,
    plugin: PathBuf,
    folder: PathBuf,
}

/// The plugin, as it is on a site.
#[derive(Debug, PartialEq)]
enum Plugin {
    Missing,
    /// Not written by this command, or edited since.
    Foreign,
    Ours {
        /// Written by this version of Millrace.
        is_current: bool,
        /// The command made the folder mu-plugins, too.
        made_folder: bool,
    },
}

/// Writes plugin and folder.
///
/// # Errors
/// The folder has no WordPress, a foreign file is in the way, or the files cannot be written.
pub fn enable(args: &SiteArgs) -> Result<(), Failure> {
    let places = Places::of(&args.site_dir)?;
    let before = places.plugin()?;
    if before == Plugin::Foreign {
        return Err(places.foreign());
    }
    let made_now = !places.plugins.exists();
    let made_folder = made_now || matches!(before, Plugin::Ours { made_folder: true, .. });
    make_folder(&places.folder)?;
    // A user who can write to these files can purge pages: the owner and the group of wp-content.
    make_file(&places.folder.join(RUNNING), b"", 0o640)?;
    make_file(&places.folder.join(PURGES), b"", 0o660)?;
    if made_now {
        make_folder(&places.plugins)?;
    }
    // Written beside, then moved: WordPress never runs half of it.
    let beside = places.folder.join("millrace.php");
    let _ = fs::remove_file(&beside);
    make_file(&beside, plugin_text(made_folder).as_bytes(), 0o644)?;
    fs::rename(&beside, &places.plugin).or_fail(|| format!("cannot write {}", places.plugin.display()))?;
    say(&format!(
        "{} {}\nPHP processes that Millrace does not run, such as WP-CLI, now purge the pages that they change.\n{}",
        if before == Plugin::Missing { "wrote" } else { "replaced" },
        places.plugin.display(),
        places.server_text()
    ))
}

/// Removes them.
///
/// # Errors
/// The plugin is foreign, or cannot be removed.
pub fn disable(args: &SiteArgs) -> Result<(), Failure> {
    let places = Places::of(&args.site_dir)?;
    let (plugin, folder) = (places.plugin()?, places.folder.exists());
    if plugin == Plugin::Foreign {
        return Err(places.foreign());
    }
    if plugin == Plugin::Missing && !folder {
        return say(&format!("nothing to remove: {} is not there", places.plugin.display()));
    }
    let gone = |result: std::io::Result<()>, path: &Path| match result {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::new(format!("cannot remove {}: {error}", path.display())))
        }
        _ => Ok(()),
    };
    gone(fs::remove_file(&places.plugin), &places.plugin)?;
    if let Plugin::Ours { made_folder: true, .. } = plugin {
        // It stays if it has got other files meanwhile.
        let _ = fs::remove_dir(&places.plugins);
    }
    let purges = places.folder.join(PURGES);
    let waiting = fs::metadata(&purges).map_or(0, |data| data.len());
    for name in [PURGES, RUNNING] {
        let path = places.folder.join(name);
        gone(fs::remove_file(&path), &path)?;
    }
    let _ = fs::remove_dir(&places.folder);
    let lost = if waiting > 0 {
        "\nno server had read its last purges: run `millrace purge --all`, or pages of the time before may come back from cache.dir"
    } else {
        ""
    };
    say(&format!("removed {}{lost}", places.plugin.display()))
}

/// Prints whether they are there.
///
/// # Errors
/// The folder has no WordPress.
pub fn status(args: &SiteArgs) -> Result<(), Failure> {
    let places = Places::of(&args.site_dir)?;
    let shown = places.plugin.display();
    match places.plugin()? {
        Plugin::Missing => say(
            "disabled: only PHP that Millrace runs purges pages; `millrace hooks enable` also covers WP-CLI and the system's cron",
        ),
        Plugin::Foreign => Err(places.foreign()),
        Plugin::Ours { is_current: false, .. } => say(&format!(
            "enabled by another version of Millrace: run `millrace hooks enable` again to replace {shown}\n{}",
            places.server_text()
        )),
        Plugin::Ours { .. } => say(&format!("enabled: {shown}\n{}", places.server_text())),
    }
}

impl Places {
    /// From here on the command has the rights of the owner of wp-content, and so have the files that it makes.
    fn of(site: &Path) -> Result<Places, Failure> {
        let site = fs::canonicalize(site).or_fail(|| format!("cannot find {}", site.display()))?;
        let content = site.join("wp-content");
        if !content.is_dir() {
            return Err(Failure::new(format!("{} has no folder wp-content: it is no WordPress", site.display()))
                .next("give the folder that the site's root names; a WordPress with its content elsewhere is not supported"));
        }
        let content = act_in(&content)?;
        let plugins = content.join("mu-plugins");
        Ok(Places { plugin: plugins.join("millrace.php"), plugins, folder: content.join(".millrace") })
    }

    fn plugin(&self) -> Result<Plugin, Failure> {
        // `enable` makes no symbolic links: somebody else made this one.
        match fs::symlink_metadata(&self.plugin) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Plugin::Missing),
            Ok(data) if !data.is_file() => return Ok(Plugin::Foreign),
            _ => {}
        }
        let text = read_file(&self.plugin).or_fail(|| format!("cannot read {}", self.plugin.display()))?;
        Ok(Plugin::of(&text))
    }

    fn foreign(&self) -> Failure {
        Failure::new(format!(
            "{} was not written by `millrace hooks enable`, or was edited since",
            self.plugin.display()
        ))
        .next("move it away if you do not need it; Millrace leaves it as it is")
    }

    /// Whether a server reads the purges.
    fn server_text(&self) -> &'static str {
        let locked = open_file(&self.folder.join(RUNNING)).map(|file| {
            flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
        });
        match locked {
            Ok(true) => "a server reads the purges of this folder",
            Ok(false) => {
                "no server reads the purges of this folder now: it does within a second once it serves the site as WordPress; until then they wait"
            }
            Err(_) => {
                "the folder wp-content/.millrace is missing or closed to you: run `millrace hooks enable` again"
            }
        }
    }
}

/// Makes a folder that is not there.
fn make_folder(path: &Path) -> Result<(), Failure> {
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && is_folder(path) => Ok(()),
        result => result.or_fail(|| format!("cannot make {}", path.display())),
    }
}

/// Makes a file that is not there.
fn make_file(path: &Path, text: &[u8], mode: u32) -> Result<(), Failure> {
    let made = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let made = made.and_then(|mut file| {
        file.write_all(text)?;
        // The umask may have removed rights.
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
    });
    match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.or_fail(|| format!("cannot write {}", path.display())),
    }
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| data.is_dir())
}

impl Plugin {
    fn of(text: &[u8]) -> Plugin {
        let parsed = || {
            let text = std::str::from_utf8(text).ok()?;
            let (head, rest) = text.split_once(NEXT)?;
            let (version, more) = head.strip_prefix(HEAD)?.split_once(DIGEST)?;
            let (digest, made) = more.split_once(MADE)?;
            (digest == digest_of(version, made, rest))
                .then(|| Plugin::Ours { is_current: rest == body(), made_folder: made == "yes" })
        };
        parsed().unwrap_or(Plugin::Foreign)
    }
}

fn plugin_text(made_folder: bool) -> String {
    let (version, made, body) = (env!("CARGO_PKG_VERSION"), if made_folder { "yes" } else { "no" }, body());
    format!("{HEAD}{version}{DIGEST}{}{MADE}{made}{NEXT}{body}", digest_of(version, made, &body))
}

fn digest_of(version: &str, made: &str, body: &str) -> String {
    let digest = Sha256::digest(format!("{version}\n{made}\n{body}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Classes inside of a condition are declared when it is reached: inside Millrace the server has declared them before.
fn body() -> String {
    let mut text = "\nnamespace Millrace\\WordPress;\n\nif (\\defined('ABSPATH') && !\\function_exists('millrace_purge')) {\n".to_owned();
    for class in CLASSES.iter().chain([&OUTSIDE]) {
        text.push_str(class.strip_prefix(OPENING).unwrap_or_default());
        text.push('\n');
    }
    text.push_str("Outside::begin(\\dirname(__DIR__) . '/.millrace');\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_in_it() {
        for class in CLASSES.iter().chain([&OUTSIDE]) {
            assert!(class.starts_with(OPENING), "{}", &class[..80]);
            assert!(!class.contains("\nuse "), "`use` is not allowed in a condition");
        }
        assert_eq!(body().matches("\nfinal class ").count(), CLASSES.len() + 1);
    }

    #[test]
    fn it_knows_its_own_file() {
        let text = plugin_text(true);
        assert_eq!(Plugin::of(text.as_bytes()), Plugin::Ours { is_current: true, made_folder: true });
        assert_eq!(Plugin::of(format!("{text} ").as_bytes()), Plugin::Foreign);
        assert_eq!(Plugin::of(b"<?php // Millrace"), Plugin::Foreign);
        assert_eq!(Plugin::of(b""), Plugin::Foreign);
        let old = {
            let (version, made, body) = ("0.0.1", "no", "old");
            format!("{HEAD}{version}{DIGEST}{}{MADE}{made}{NEXT}{body}", digest_of(version, made, body))
        };
        assert_eq!(Plugin::of(old.as_bytes()), Plugin::Ours { is_current: false, made_folder: false });
    }
}
