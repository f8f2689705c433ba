//! nginx and php-fpm where they serve sites: processes, what they are doing, their limits, queues and logs.
//!
//! Both name their processes: `nginx: master process nginx -c FILE`, `php-fpm: master process (FILE)`, `php-fpm: pool NAME`. So their
//! configuration is found wherever it is.

mod fpm;
mod nginx;

use std::path::Path;

use super::{file, number};
use crate::facts::Facts;
use crate::tune::root::Root;

/// A process of one of the two.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TitledProcess {
    pid: u64,
    parent: u64,
    /// Behind `nginx: ` or `php-fpm: `.
    title: String,
    /// Seconds since its start.
    age: f64,
}

/// Adds the areas fpm and nginx.
pub fn add(facts: &mut Facts, root: &Path) {
    let files = Root::new(root);
    let uptime = number(root, "proc/uptime").unwrap_or_default();
    let (mut fpm, mut nginx) = (Vec::new(), Vec::new());
    for pid in files.names("proc").iter().filter_map(|name| name.parse().ok()) {
        match process(root, pid, uptime) {
            Some(("php-fpm", process)) => fpm.push(process),
            Some((_, process)) => nginx.push(process),
            None => {}
        }
    }
    facts.add("fpm", fpm::read(root, &files, &fpm));
    facts.add("nginx", nginx::read(root, &files, &nginx));
}

/// The process and its program, if it is one of these two.
fn process(root: &Path, pid: u64, uptime: f64) -> Option<(&'static str, TitledProcess)> {
    let stat = file(root, &format!("proc/{pid}/stat")).ok()?;
    // `7 (php-fpm8.2) S 1 ...`: the name in brackets may contain anything. The start is the 20th after it, in ticks of 10 ms after boot.
    let (head, rest) = stat.rsplit_once(") ")?;
    let name = head.split_once('(')?.1;
    let program = ["php-fpm", "nginx"].into_iter().find(|program| name.starts_with(program))?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let (parent, start) = (fields.get(1)?.parse().ok()?, fields.get(19)?.parse::<f64>().ok()?);
    let command = file(root, &format!("proc/{pid}/cmdline")).ok()?;
    let title = command.split('\0').next()?.strip_prefix(program)?.strip_prefix(": ")?.trim_end().to_owned();
    Some((program, TitledProcess { pid, parent, title, age: (uptime - start / 100.0).max(0.0) }))
}

/// A path in the title of a process, below the root; where it is relative, below the folder in which the process runs.
fn below(root: &Path, pid: u64, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let folder = std::fs::read_link(root.join(format!("proc/{pid}/cwd"))).unwrap_or_default();
    folder.join(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Blind;
    use crate::testing::Tree;

    #[test]
    fn processes_by_their_titles() {
        let stat = |name: &str| format!("7 ({name}) S 1 7 7 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 5000 9 9\n");
        let tree = Tree::of(&[
            ("proc/7/stat", &stat("php-fpm8.2")),
            ("proc/7/cmdline", "php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)      "),
            ("proc/8/stat", &stat("php-fpm8.2")),
            ("proc/8/cmdline", "php-fpm8.2\0-t\0"),
            ("proc/9/stat", &stat("nginx")),
            ("proc/9/cmdline", "nginx: worker process\0\0\0"),
            ("proc/10/stat", "10 (nginx) S"),
        ]);
        let of = |pid| {
            let (program, one) = process(tree.root(), pid, 80.0)?;
            Some((program, one.title, one.parent, one.age))
        };
        let master = "master process (/etc/php/8.2/fpm/php-fpm.conf)".to_owned();
        assert_eq!(of(7), Some(("php-fpm", master, 1, 30.0)));
        assert_eq!(of(9), Some(("nginx", "worker process".to_owned(), 1, 30.0)));
        assert_eq!([of(8), of(10), of(11)], [None, None, None]);
    }

    #[test]
    fn machines_without_them() {
        let tree = Tree::of(&[("proc/uptime", "9 9\n")]);
        let mut facts = Facts::default();
        add(&mut facts, tree.root());
        for name in ["fpm.pools", "nginx.workers", "nginx.lines"] {
            assert!(facts.list(name).is_err_and(|why| matches!(why, Blind::DoesNotApply(_))), "{name}");
        }
    }
}
