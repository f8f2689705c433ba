//! The folders in which a site keeps what its users upload: whether its PHP may write there.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use millrace_wire::date::Civil;
use serde_json::Value;

use super::file;
use crate::facts::{Blind, Facts};

/// The folders of each application, below the root. Of those that are missing, only an application that makes its folder by itself, which
/// WordPress does, needs the one around it.
const FOLDERS: &[(&str, &[&str])] = &[
    ("wordpress", &["wp-content/uploads", "app/uploads"]),
    ("drupal", &["sites/default/files", "files"]),
    ("joomla", &["images", "tmp", "administrator/cache"]),
    ("mediawiki", &["images"]),
    ("prestashop", &["img", "upload", "download"]),
    ("opencart", &["image", "image/cache"]),
    ("typo3", &["fileadmin", "typo3temp"]),
    ("magento", &["media"]),
];
/// CAP_DAC_OVERRIDE in a set of capabilities.
const OVERRIDES: u64 = 1 << 1;
/// What a directory needs: to be searched, and to get files.
const SEARCH: u32 = 1;
const WRITE: u32 = 2;

/// Looks at the folders of the site in `folder`: the list `closed` of `path` and `why`, the figure `looked`, the word `user`.
///
/// # Errors
/// It is unknown as which user PHP runs, or the application has no folder for uploads: the reason.
pub fn look(root: &Path, folder: &Path, status: Option<&Value>) -> Result<Facts, Blind> {
    let no = |why: &str| Blind::DoesNotApply(why.to_owned());
    let status = status.ok_or_else(|| no("no Millrace serves the site, or it does not answer"))?;
    let sites = status["sites"].as_array().map(Vec::as_slice).unwrap_or_default();
    let site = sites.iter().find(|site| site["root"].as_str().is_some_and(|path| Path::new(path) == folder));
    let site = site.ok_or_else(|| no("the server does not serve this folder"))?;
    let profile = site["profile"].as_str().unwrap_or_default();
    let places = FOLDERS.iter().find(|(name, _)| *name == profile).map_or(&[][..], |(_, places)| places);
    let service = site["php_service"].as_str().ok_or_else(|| no("the site runs no PHP"))?;
    let pid = worker(status, service).ok_or_else(|| {
        Blind::CouldNotLook(format!("no worker of {service} is running now: request a page, then look again"))
    })?;
    let user = User::of(&file(root, &format!("proc/{pid}/status"))?)
        .ok_or_else(|| Blind::CouldNotLook(format!("/proc/{pid}/status has no user")))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut looked = Vec::new();
    for place in places.iter().map(|place| folder.join(place)) {
        match place.is_dir() {
            true => looked.extend(with_months(&place, (profile == "wordpress").then(|| month(now)))),
            // WordPress makes it, where its plugins and themes are.
            false if profile == "wordpress" => {
                looked.extend(place.parent().filter(|parent| parent.is_dir()).map(Path::to_owned))
            }
            false => {}
        }
    }
    if looked.is_empty() {
        return Err(no("the site has no folder for uploads that is known"));
    }
    let mut facts = Facts::default();
    facts.set("looked", looked.len() as f64);
    facts.say("user", user.name(root));
    let closed = looked.iter().filter_map(|path| Some((path, user.refused(path)?)));
    let closed = closed.map(|(path, why)| {
        let mut one = Facts::default();
        one.say("path", path.display().to_string());
        one.say("why", why);
        one
    });
    facts.put("closed", closed.collect());
    Ok(facts)
}

/// A worker of the service.
fn worker(status: &Value, service: &str) -> Option<u64> {
    let php = status["php"].as_array()?.iter().find(|php| php["name"] == service)?;
    php["each"].as_array()?.iter().find_map(|worker| worker["pid"].as_u64())
}

/// The folder, and those of this year and month in it, which a command that ran as another user may have made.
fn with_months(folder: &Path, month: Option<(u64, u64)>) -> Vec<PathBuf> {
    let mut all = vec![folder.to_owned()];
    if let Some((year, month)) = month {
        let year = folder.join(year.to_string());
        all.extend([year.clone(), year.join(format!("{month:02}"))].into_iter().filter(|path| path.is_dir()));
    }
    all
}

/// Year and month of so many seconds since 1970.
fn month(seconds: u64) -> (u64, u64) {
    let Civil { year, month, .. } = Civil::from_unix(seconds);
    (year, month)
}

/// The user, the groups and the capability by which the kernel decides what a process may do in the file system.
#[derive(Debug, PartialEq, Eq)]
struct User {
    uid: u32,
    groups: Vec<u32>,
    overrides: bool,
}

impl User {
    /// From /proc/PID/status: the fourth number of `Uid` and `Gid` is that of the file system.
    fn of(status: &str) -> Option<User> {
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let numbers = |name: &str| -> Vec<u32> {
            let words = line(name).unwrap_or_default().split_ascii_whitespace();
            words.filter_map(|word| word.parse().ok()).collect()
        };
        let uid = *numbers("Uid").get(3)?;
        let groups = numbers("Gid").get(3).copied().into_iter().chain(numbers("Groups")).collect();
        let capabilities = u64::from_str_radix(line("CapEff")?.trim(), 16).ok()?;
        Some(User { uid, groups, overrides: capabilities & OVERRIDES != 0 })
    }

    /// Its name, or its number.
    fn name(&self, root: &Path) -> String {
        let users = file(root, "etc/passwd").unwrap_or_default();
        let name = users.lines().find_map(|line| {
            let mut parts = line.split(':');
            let (name, uid) = (parts.next()?, parts.nth(1)?);
            (uid.parse() == Ok(self.uid)).then(|| name.to_owned())
        });
        name.unwrap_or_else(|| self.uid.to_string())
    }

    /// Why it can't write into a folder; `None`: it can, or a list of rights decides that we don't read.
    fn refused(&self, folder: &Path) -> Option<String> {
        let real = match fs::canonicalize(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Some("it is a link that leads nowhere".to_owned());
            }
            real => real.ok()?,
        };
        let flags = rustix::fs::statvfs(&real).ok()?.f_flag;
        if flags.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
            return Some("its file system is mounted read-only".to_owned());
        }
        let mut above: Vec<&Path> = real.ancestors().skip(1).collect();
        above.reverse();
        let wanted = above.into_iter().map(|path| (path, SEARCH)).chain([(&*real, SEARCH | WRITE)]);
        for (path, rights) in wanted {
            let data = fs::metadata(path).ok()?;
            if self.overrides || self.rights(&data) & rights == rights {
                continue;
            }
            let has_list = rustix::fs::getxattr(path, "system.posix_acl_access", &mut [0u8; 0][..]).is_ok();
            return (!has_list).then(|| {
                format!(
                    "{} has mode {:03o} and owner {}:{}",
                    path.display(),
                    data.mode() & 0o777,
                    data.uid(),
                    data.gid()
                )
            });
        }
        None
    }

    /// The three bits that count for it.
    fn rights(&self, data: &fs::Metadata) -> u32 {
        let shift = match () {
            () if data.uid() == self.uid => 6,
            () if self.groups.contains(&data.gid()) => 3,
            () => 0,
        };
        data.mode() >> shift & 0o7
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;
    use crate::testing::Tree;

    const NOBODY: &str = "Name:\tmillrace-php\nUid:\t65534\t65534\t65534\t65534\nGid:\t65534\t65534\t65534\t65534\nGroups:\t65534 \nCapEff:\t0000000000000000\n";

    fn status(root: &Path, profile: &str) -> Value {
        json!({
            "sites": [{"root": root, "profile": profile, "php_service": "blog"}],
            "php": [{"name": "other", "each": [{"pid": 1}]}, {"name": "blog", "each": [{"pid": 7}]}],
        })
    }

    /// The closed folders of a WordPress with these folders, their names below the root, for a PHP that is nobody.
    fn closed(open: &[&str], other: &[&str]) -> Vec<String> {
        let files: Vec<String> =
            open.iter().chain(other).map(|path| format!("site/{path}/index.html")).collect();
        let mut files: Vec<(&str, &str)> = files.iter().map(|path| (&**path, "")).collect();
        files.push(("proc/7/status", NOBODY));
        files.push(("site/index.php", ""));
        let tree = Tree::of(&files);
        let site = tree.root().join("site");
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a folder of ours")
        };
        open.iter().for_each(|path| mode(&site.join(path), 0o777));
        other.iter().for_each(|path| mode(&site.join(path), 0o755));
        let facts = look(tree.root(), &site, Some(&status(&site, "wordpress"))).expect("looked");
        let list = facts.list("closed").expect("a list").iter();
        list.map(|one| {
            one.text("path").strip_prefix(&*format!("{}/", site.display())).expect("below").to_owned()
        })
        .collect()
    }

    #[test]
    fn folders_that_php_cannot_write() {
        assert_eq!(closed(&["wp-content/uploads"], &[]), [""; 0]);
        assert_eq!(closed(&[], &["wp-content/uploads"]), ["wp-content/uploads"]);
        // The first upload makes the folder.
        assert_eq!(closed(&[], &["wp-content"]), ["wp-content"]);
        assert_eq!(closed(&["wp-content"], &[]), [""; 0]);
        // wp-cli as root has made this month's.
        let (year, month) = month(SystemTime::now().duration_since(UNIX_EPOCH).expect("later").as_secs());
        let (year, this) =
            (format!("wp-content/uploads/{year}"), format!("wp-content/uploads/{year}/{month:02}"));
        assert_eq!(closed(&["wp-content/uploads", &year], &[&this]), [&*this]);
        assert_eq!(closed(&["wp-content/uploads"], &["wp-content/uploads/2001/01"]), [""; 0]);
    }

    #[test]
    fn who_php_is() {
        let user =
            User::of("Uid:\t0\t0\t0\t33\nGid:\t0\t0\t0\t33\nGroups:\t4 5\nCapEff:\t0000000000000002\n")
                .expect("one");
        assert_eq!(user, User { uid: 33, groups: vec![33, 4, 5], overrides: true });
        assert_eq!(User::of("Name:\tx\n"), None);
        let tree = Tree::of(&[("etc/passwd", "root:x:0:0:::\nwww-data:x:33:33:::\n")]);
        assert_eq!(user.name(tree.root()), "www-data");
        assert_eq!(User { uid: 9, ..user }.name(tree.root()), "9");
    }

    #[test]
    fn what_cannot_be_known() {
        let tree = Tree::of(&[("index.php", ""), ("proc/7/status", NOBODY)]);
        let of = |status: Option<&Value>| look(tree.root(), tree.root(), status).expect_err("nothing to say");
        assert!(matches!(of(None), Blind::DoesNotApply(_)));
        assert!(matches!(of(Some(&status(tree.root(), "generic"))), Blind::DoesNotApply(_)));
        let mut idle = status(tree.root(), "wordpress");
        idle["php"] = json!([{"name": "blog", "each": []}]);
        assert!(matches!(of(Some(&idle)), Blind::CouldNotLook(_)));
    }

    #[test]
    fn months() {
        for (seconds, expected) in [
            (0, (1970, 1)),
            (951_782_400, (2000, 2)),
            (951_868_800, (2000, 3)),
            (1_796_083_200, (2026, 12)),
            (1_796_083_199, (2026, 11)),
        ] {
            assert_eq!(month(seconds), expected, "{seconds}");
        }
    }
}
