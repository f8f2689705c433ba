//! Disks: space, inodes, work in progress.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::file;
use crate::facts::Facts;

/// Folders whose disks matter, with what they are for.
pub fn folders(root: &Path, sites: &[PathBuf], status: Option<&Value>) -> Vec<(PathBuf, String)> {
    let mut all: Vec<(PathBuf, String)> =
        sites.iter().map(|site| (site.clone(), "the site".to_owned())).collect();
    let served = status.and_then(|status| status["sites"].as_array()).into_iter().flatten();
    all.extend(served.filter_map(|site| Some((site["root"].as_str()?.into(), "a site".to_owned()))));
    for (path, what) in [
        ("/", "the system"),
        ("/tmp", "temporary files"),
        ("/var/log", "logs"),
        ("/var/lib/mysql", "the database"),
        ("/var/cache/millrace", "cached pages"),
    ] {
        all.push((root.join(path.trim_start_matches('/')), what.to_owned()));
    }
    all.retain(|(path, _)| path.exists());
    all
}

/// Adds the area disks: the lists `mounts` and `each`.
pub fn add(facts: &mut Facts, root: &Path, folders: &[(PathBuf, String)]) {
    let mut area = Facts::default();
    area.put("mounts", mounts(root, folders));
    match file(root, "proc/diskstats") {
        Ok(text) => area.put("each", devices(root, &text)),
        Err(why) => area.missing("each", why),
    }
    facts.add("disks", Ok(area));
}

/// A mount per device; the first folder on it names it.
fn mounts(root: &Path, folders: &[(PathBuf, String)]) -> Vec<Facts> {
    let table = file(root, "proc/mounts").unwrap_or_default();
    let mut seen: BTreeMap<u64, Facts> = BTreeMap::new();
    for (folder, what) in folders {
        let (Ok(stat), Ok(space)) = (rustix::fs::stat(folder), rustix::fs::statvfs(folder)) else { continue };
        if seen.contains_key(&stat.st_dev) {
            continue;
        }
        let unit = space.f_frsize as f64;
        let mut one = Facts::default();
        one.say("path", folder.display().to_string());
        one.say("use", what);
        let used = space.f_blocks.saturating_sub(space.f_bfree) as f64 * unit;
        one.set("used_bytes", used);
        // As df: what is reserved for root belongs to neither.
        one.set("size_bytes", used + space.f_bavail as f64 * unit);
        one.set("free_bytes", space.f_bavail as f64 * unit);
        one.set("inodes", space.f_files as f64);
        one.set("inodes_free", space.f_favail as f64);
        one.set(
            "read_only",
            f64::from(u8::from(space.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))),
        );
        one.say("options", options(&table, folder));
        seen.insert(stat.st_dev, one);
    }
    seen.into_values().collect()
}

/// The options of the mount that a folder is on: that of the longest matching mount point.
fn options(table: &str, folder: &Path) -> String {
    let rows = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        (words.len() >= 4 && folder.starts_with(words[1])).then(|| (words[1].len(), words[3].to_owned()))
    });
    rows.max_by_key(|(length, _)| *length).map(|(_, options)| options).unwrap_or_default()
}

/// /proc/diskstats (Documentation/admin-guide/iostats.rst): whole disks with work since boot.
fn devices(root: &Path, text: &str) -> Vec<Facts> {
    let disk = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let name = *words.get(2)?;
        let value = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
        let block = root.join("sys/block").join(name);
        // Images that are mounted read-only, as snaps are, are no disks.
        let is_image =
            name.starts_with("loop") && fs::read_to_string(block.join("ro")).is_ok_and(|ro| ro == "1\n");
        let is_whole = block.exists() && !is_image && !name.starts_with("ram");
        let (reads, writes) = (value(3)?, value(7)?);
        (is_whole && reads + writes > 0.0).then(|| {
            let mut one = Facts::default();
            one.say("name", name);
            one.set("requests", reads + writes);
            one.set("wait_ms", value(6).unwrap_or(0.0) + value(10).unwrap_or(0.0));
            one.set("busy_ms", value(12).unwrap_or(0.0));
            one
        })
    };
    text.lines().filter_map(disk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn whole_disks_with_their_work() {
        let tree = Tree::of(&[
            ("sys/block/vda/size", "9"),
            ("sys/block/loop0/ro", "1\n"),
            ("sys/block/loop1/ro", "0\n"),
        ]);
        let text = " 254 0 vda 10 0 80 5 20 0 160 7 0 9 12\n 254 1 vda1 10 0 80 5 20 0 160 7 0 9 12\n 7 0 loop0 1 0 1 1 0 0 0 0 0 0 0\n 7 1 loop1 1 0 1 1 0 0 0 0 0 0 0\n";
        let all = devices(tree.root(), text);
        assert_eq!((all.len(), all[0].text("name"), all[1].text("name")), (2, "vda", "loop1"));
        assert_eq!((all[0].figure("requests"), all[0].figure("wait_ms")), (Ok(30.0), Ok(12.0)));
        assert_eq!(all[0].figure("busy_ms"), Ok(9.0));
    }

    #[test]
    fn the_longest_mount_point_counts() {
        let table = "/dev/a / ext4 rw 0 0\n/dev/b /srv ext4 ro,errors=remount-ro 0 0\n";
        assert_eq!(options(table, Path::new("/srv/www")), "ro,errors=remount-ro");
        assert_eq!(options(table, Path::new("/var")), "rw");
    }
}
