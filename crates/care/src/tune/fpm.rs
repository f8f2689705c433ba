//! php-fpm of Debian and Ubuntu: its pools, and what its processes need.
//!
//! A second file with the section of a pool goes on with that pool, and the last value of a setting counts (`fpm_conf_ini_parser_section` in
//! sapi/fpm/fpm/fpm_conf.c: "it's a wp section, ... resuming an existing pool"); files are read in the order of their names. So a file of ours that
//! comes last can set what it wants, and takes nothing but those values.

use std::collections::BTreeMap;
use std::process::Command;

use super::nginx::matching;
use super::root::Root;

/// Where Debian has a folder for each version of PHP.
const VERSIONS: &str = "etc/php";
/// Name of our file among those of the pools: after `www.conf`.
pub const POOL_FILE: &str = "zz-millrace.conf";
/// Name of our file among those of php.ini.
pub const INI_FILE: &str = "90-millrace.ini";
/// Where a pool says nothing, and php-fpm has no fixed default.
const UNSET: &str = "unset";
/// A worker that has used so much processor time, in ticks of 10 ms, has served pages: a WordPress page takes 20 to 100 ms.
const SEASONED: u64 = 100;

/// An installed php-fpm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fpm {
    /// Its version: 8.2.
    pub version: String,
    /// Its pools, in the order in which it reads them.
    pub pools: Vec<Pool>,
    /// Settings outside of pools.
    pub global: BTreeMap<String, String>,
    /// Whether it reads the files of its folder of pools.
    includes: bool,
}

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: BTreeMap<String, String>,
}

impl Fpm {
    /// Reads the configuration of the php-fpm that is used: the only one that is installed, or that runs.
    ///
    /// # Errors
    /// There is none, or it can't be said which of several is used: the words for that.
    pub fn look(root: &Root) -> Result<Fpm, String> {
        let mut versions: Vec<String> = root.names(VERSIONS);
        versions.retain(|version| root.has(&program(version)) && root.has(&main(version)));
        if versions.len() > 1 {
            let running: Vec<String> =
                versions.iter().filter(|version| master(root, version).is_some()).cloned().collect();
            if running.len() != 1 {
                return Err(format!(
                    "php-fpm {} are installed, and {}; stop those that serve nothing, or remove them",
                    versions.join(" and "),
                    if running.is_empty() { "none of them runs" } else { "more than one of them runs" }
                ));
            }
            versions = running;
        }
        let version = versions.pop().ok_or("php-fpm is not installed here")?;
        let fpm = Fpm::of_files(root, &main(&version), version);
        match fpm.pools.is_empty() {
            true => {
                Err(format!("php-fpm {} has no pool: /{} includes none", fpm.version, main(&fpm.version)))
            }
            false => Ok(fpm),
        }
    }

    /// Reads a configuration and what it includes; of whichever version.
    pub fn of_files(root: &Root, file: &str, version: impl Into<String>) -> Fpm {
        let mut fpm =
            Fpm { version: version.into(), pools: Vec::new(), global: BTreeMap::new(), includes: false };
        fpm.read(root, file, 0, &mut None);
        fpm
    }

    /// Its program, below the root.
    pub fn program(&self) -> String {
        program(&self.version)
    }

    /// Its unit.
    pub fn unit(&self) -> String {
        format!("php{}-fpm", self.version)
    }

    /// Our file for its pools, below the root.
    ///
    /// # Errors
    /// php-fpm would not read it.
    pub fn pool_file(&self) -> Result<String, String> {
        match self.includes {
            true => Ok(format!("{}/{POOL_FILE}", folder(&self.version))),
            false => Err(format!(
                "by hand: /{} does not include /{}/*.conf; write these lines into the sections of its pools",
                main(&self.version),
                folder(&self.version)
            )),
        }
    }

    /// Our file for php.ini, below the root.
    pub fn ini_file(&self) -> String {
        format!("{VERSIONS}/{}/fpm/conf.d/{INI_FILE}", self.version)
    }

    /// The value of a setting, of all pools if they differ.
    pub fn value(&self, name: &str) -> Option<String> {
        let mut values: Vec<&str> = self.pools.iter().map(|pool| pool.value(name).unwrap_or(UNSET)).collect();
        values.dedup();
        Some(values.join(", ")).filter(|value| value != UNSET)
    }

    /// A pool that sets this setting of php.ini for itself, and the line.
    pub fn of_pool(&self, name: &str) -> Option<(&str, String)> {
        self.pools.iter().find_map(|pool| {
            ["php_admin_value", "php_admin_flag", "php_value", "php_flag"].iter().find_map(|kind| {
                let key = format!("{kind}[{name}]");
                let value = pool.settings.get(&key)?;
                Some((&*pool.name, format!("{key} = {value}")))
            })
        })
    }

    /// Settings of php.ini that are in force.
    pub fn ini_values(&self) -> BTreeMap<String, String> {
        let Ok(said) = Command::new(format!("/{}", self.program())).arg("-i").output() else {
            return BTreeMap::new();
        };
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let pairs = text.lines().filter_map(|line| {
            let mut parts = line.split(" => ");
            let (name, value) = (parts.next()?, parts.next()?);
            parts.next().map(|_| (name.to_owned(), value.trim().to_owned()))
        });
        pairs.collect()
    }

    /// Private memory of the largest worker that has served pages, bytes.
    pub fn worker_memory(&self, root: &Root) -> Option<u64> {
        let master = master(root, &self.version)?;
        root.names("proc").iter().filter_map(|pid| seasoned(root, pid.parse().ok()?, master)).max()
    }

    fn read(&mut self, root: &Root, file: &str, depth: usize, section: &mut Option<usize>) {
        let Ok(text) = root.read(file) else { return };
        for line in text.lines() {
            match Line::of(line) {
                Line::Section("global") => *section = None,
                Line::Section(name) => *section = Some(self.pool(name)),
                Line::Setting("include", pattern) if depth < 4 => {
                    let pattern = pattern.trim_start_matches('/');
                    self.includes |= matching(pattern, &format!("{}/{POOL_FILE}", folder(&self.version)));
                    for file in root.matching(pattern) {
                        self.read(root, &file, depth + 1, section);
                    }
                }
                Line::Setting(name, value) => {
                    let pool = section.and_then(|at| self.pools.get_mut(at));
                    let settings = pool.map_or(&mut self.global, |pool| &mut pool.settings);
                    settings.insert(name.to_owned(), value.to_owned());
                }
                Line::Nothing => {}
            }
        }
    }

    fn pool(&mut self, name: &str) -> usize {
        let known = self.pools.iter().position(|pool| pool.name.eq_ignore_ascii_case(name));
        known.unwrap_or_else(|| {
            self.pools.push(Pool { name: name.to_owned(), ..Pool::default() });
            self.pools.len() - 1
        })
    }
}

impl Pool {
    /// The value of a setting, or its default in PHP 8.
    pub fn value(&self, name: &str) -> Option<&str> {
        let value = self.settings.get(name).map_or(default(name), String::as_str);
        Some(value).filter(|value| *value != UNSET)
    }
}

/// A line of a file of php-fpm, or of php.ini.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// `[name]`
    Section(&'a str),
    /// `name = value`
    Setting(&'a str, &'a str),
    /// A comment, or empty.
    Nothing,
}

impl Line<'_> {
    /// Reads a line.
    pub fn of(line: &str) -> Line<'_> {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            return rest.split_once(']').map_or(Line::Nothing, |(name, _)| Line::Section(name.trim()));
        }
        let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with([';', '#'])) else {
            return Line::Nothing;
        };
        let value = value.trim();
        let quoted = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.split_once(*quote));
        let bare = || value.split(';').next().unwrap_or_default().trim_end();
        Line::Setting(name.trim(), quoted.map_or_else(bare, |(inner, _)| inner))
    }
}

/// What php-fpm reads of a file after those that it includes.
pub fn after_includes(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.iter().rposition(|line| matches!(Line::of(line), Line::Setting("include", _)));
    last.map_or_else(String::new, |at| lines[at + 1..].join("\n"))
}

fn program(version: &str) -> String {
    format!("usr/sbin/php-fpm{version}")
}

fn main(version: &str) -> String {
    format!("{VERSIONS}/{version}/fpm/php-fpm.conf")
}

fn folder(version: &str) -> String {
    format!("{VERSIONS}/{version}/fpm/pool.d")
}

/// Defaults of PHP 8 where a pool says nothing.
fn default(name: &str) -> &'static str {
    match name {
        "listen.backlog" => "511",
        "pm.max_requests" | "request_slowlog_timeout" => "0",
        _ => UNSET,
    }
}

/// The process of a php-fpm that runs.
fn master(root: &Root, version: &str) -> Option<u64> {
    let pid = root.read(&format!("run/php/php{version}-fpm.pid")).ok()?.trim().parse().ok()?;
    root.has(&format!("proc/{pid}/stat")).then_some(pid)
}

/// Private memory of a worker of this master that has served pages, bytes.
pub fn seasoned(root: &Root, pid: u64, master: u64) -> Option<u64> {
    let stat = root.read(&format!("proc/{pid}/stat")).ok()?;
    // After the name in brackets, which may contain anything: state, parent, ...; user and system time are the 12th and 13th.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    if number(1)? != master || number(11)? + number(12)? < SEASONED {
        return None;
    }
    let sizes = root.read(&format!("proc/{pid}/smaps_rollup")).ok()?;
    let kilobytes = |name: &str| -> Option<u64> {
        let line = sizes.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    let own = kilobytes("Private_Clean")? + kilobytes("Private_Dirty")? + kilobytes("Swap").unwrap_or(0);
    Some(own << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    const MAIN: &str =
        "[global]\npid = /run/php/php8.2-fpm.pid\n;include=x\ninclude=/etc/php/8.2/fpm/pool.d/*.conf\n";
    const WWW: &str = "; Start a pool\n[www]\nuser = www-data\npm = dynamic\npm.max_children = 5 ; few\n;pm.max_requests = 500\n\
        php_admin_value[memory_limit] = \"64M\"\n";

    fn tree(more: &[(&str, &str)]) -> Tree {
        let files = [
            ("usr/sbin/php-fpm8.2", ""),
            ("etc/php/8.2/fpm/php-fpm.conf", MAIN),
            ("etc/php/8.2/fpm/pool.d/www.conf", WWW),
            ("etc/php/8.3/cli/php.ini", ""),
        ];
        Tree::of(&[&files, more].concat())
    }

    fn fpm(tree: &Tree) -> Result<Fpm, String> {
        Fpm::look(&Root::new(tree.root()))
    }

    #[test]
    fn the_last_value_of_a_pool_counts() {
        let one = fpm(&tree(&[])).expect("a php-fpm");
        assert_eq!((one.pools.len(), &*one.version), (1, "8.2"));
        assert_eq!(one.value("pm.max_children").as_deref(), Some("5"));
        assert_eq!(
            (one.value("pm.max_requests").as_deref(), one.value("pm.start_servers")),
            (Some("0"), None)
        );
        assert_eq!(one.pool_file().as_deref(), Ok("etc/php/8.2/fpm/pool.d/zz-millrace.conf"));
        let set = ("www", "php_admin_value[memory_limit] = 64M".to_owned());
        assert_eq!((one.of_pool("memory_limit"), one.of_pool("post_max_size")), (Some(set), None));
        let more = [
            ("etc/php/8.2/fpm/pool.d/zz-millrace.conf", "[WWW]\npm.max_children = 17\n[global]\nx=1\n"),
            ("etc/php/8.2/fpm/pool.d/b.conf", "[b]\npm.max_children = 7\n"),
        ];
        let two = fpm(&tree(&more)).expect("a php-fpm");
        let names: Vec<&str> = two.pools.iter().map(|pool| &*pool.name).collect();
        assert_eq!((names, two.value("pm.max_children").as_deref()), (vec!["b", "www"], Some("7, 17")));
        assert!(!two.pools.iter().any(|pool| pool.settings.contains_key("x")));
        assert_eq!(two.global.get("x").map(String::as_str), Some("1"));
        assert_eq!(two.pools[0].value("listen.backlog"), Some("511"));
    }

    #[test]
    fn which_of_several() {
        let second = [("usr/sbin/php-fpm8.3", ""), ("etc/php/8.3/fpm/php-fpm.conf", "[a]\npm=static\n")];
        let both = tree(&second);
        let why = fpm(&both).expect_err("two");
        assert!(why.starts_with("php-fpm 8.2 and 8.3 are installed, and none of them runs"), "{why}");
        let running = [("run/php/php8.3-fpm.pid", "9\n"), ("proc/9/stat", "")];
        let one = fpm(&tree(&[&second[..], &running].concat())).expect("8.3 runs");
        assert_eq!(one.version, "8.3");
        assert!(
            one.pool_file().expect_err("not included").contains("does not include /etc/php/8.3/fpm/pool.d")
        );
        let none = Tree::of(&[("etc/php/8.2/fpm/php-fpm.conf", MAIN)]);
        assert_eq!(fpm(&none), Err("php-fpm is not installed here".to_owned()));
        let empty = Tree::of(&[("usr/sbin/php-fpm8.2", ""), ("etc/php/8.2/fpm/php-fpm.conf", MAIN)]);
        assert!(fpm(&empty).expect_err("no pool").contains("has no pool"));
    }

    #[test]
    fn the_largest_worker_that_has_worked() {
        let sizes = |kilobytes: u64| {
            format!("Rss: 99 kB\nPrivate_Clean: 0 kB\nPrivate_Dirty: {kilobytes} kB\nSwap: 24 kB\n")
        };
        let stat = |parent: u64, ticks: u64| {
            format!("1 (php-fpm: ) x) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 40 0 0\n")
        };
        let texts = [stat(1, 0), stat(7, 60), stat(7, 90), stat(7, 9), stat(8, 900)];
        let all = [sizes(90_000), sizes(30_000), sizes(41_000), sizes(80_000), sizes(70_000)];
        let mut files = vec![("run/php/php8.2-fpm.pid", "7")];
        let paths = ["7", "11", "12", "13", "14"]
            .map(|pid| (format!("proc/{pid}/stat"), format!("proc/{pid}/smaps_rollup")));
        for (at, (stat, smaps)) in paths.iter().enumerate() {
            files.push((stat, &texts[at]));
            files.push((smaps, &all[at]));
        }
        let tree = tree(&files);
        let fpm = fpm(&tree).expect("a php-fpm");
        assert_eq!(fpm.worker_memory(&Root::new(tree.root())), Some(41_024 << 10));
        assert_eq!(fpm.worker_memory(&Root::new("/nonexistent")), None);
    }

    #[test]
    fn lines() {
        for (text, read) in [
            ("a = b", Line::Setting("a", "b")),
            (" env[X]='a;b' ; c", Line::Setting("env[X]", "a;b")),
            ("a =", Line::Setting("a", "")),
            ("[ x ] y", Line::Section("x")),
            ("[x", Line::Nothing),
            ("; a = b", Line::Nothing),
            ("# a = b", Line::Nothing),
            ("a", Line::Nothing),
        ] {
            assert_eq!(Line::of(text), read, "{text}");
        }
    }
}
