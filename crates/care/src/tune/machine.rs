//! What the machine is: memory, processors, kernel, database, and whether it is a container.

use std::collections::BTreeMap;
use std::process::Command;

use super::Refusal;
use super::budget::MB;
use super::fpm::Fpm;
use super::nginx::{Block, Nginx};
use super::orders::Orders;
use super::root::Root;
use super::table::{Layer, Row, rows};
use crate::look::hardware;

/// Memory of MariaDB without caches and connections: 10.11 has 48 MB with a buffer pool that is hardly used (measured).
const MARIADB: u64 = 64 * MB;
/// The same of MySQL 8 without performance_schema; assumed, not measured.
const MYSQL: u64 = 192 * MB;

/// The machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its files.
    pub root: Root,
    /// Memory, bytes.
    pub memory: u64,
    /// Where that is said.
    pub memory_from: String,
    /// Processors, or the quota of the control group, rounded up.
    pub cores: u64,
    /// Version of the running kernel; empty if unknown.
    pub kernel: String,
    /// What says that it is a container.
    pub container: Option<String>,
    /// Whether systemd is installed.
    pub has_systemd: bool,
    /// The database, or why there is none.
    pub database: Result<Database, String>,
    /// Whether the database holds orders.
    pub orders: Orders,
    /// php-fpm, or why there is none.
    pub fpm: Result<Fpm, String>,
    /// nginx, or why there is none.
    pub nginx: Result<Nginx, String>,
}

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MariaDB.
    Mariadb,
    /// MySQL, or Percona Server.
    Mysql,
}

/// An installed database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Which.
    pub kind: Kind,
    /// Its version: 10.11.19 is (10, 11, 19).
    pub version: (u32, u32, u32),
    /// Folder of its option files, below the root; or why nothing can be written.
    pub folder: Result<String, String>,
}

impl Machine {
    /// Examines the machine that has its files below `root`.
    ///
    /// # Errors
    /// There is no /proc/meminfo: how to get one.
    pub fn look(root: &Root) -> Result<Machine, Refusal> {
        let facts = hardware(root.path());
        let all = facts.figure("memory.MemTotal").map_err(|why| {
            let at = root.path().display();
            Refusal::new(
                format!("cannot find out the memory of the machine: {}", why.why()),
                format!(
                    "mount the machine's /proc at {at}/proc, or copy its /proc/meminfo and /proc/stat there"
                ),
            )
        })? * 1_024.0;
        let limit = facts.figure("cgroup_memory.max").ok().filter(|max| *max < all);
        let (memory, memory_from) = match limit {
            Some(max) => (
                max,
                format!("{} of /{}", facts.text("cgroup_memory.setting"), facts.text("cgroup_memory.path")),
            ),
            None => (all, "/proc/meminfo".to_owned()),
        };
        let count = facts.figure("cpu.count").unwrap_or(1.0);
        let cores = facts.figure("cgroup_cpu.cores").map_or(count, |quota| quota.min(count)).ceil().max(1.0);
        Ok(Machine {
            memory: memory as u64,
            memory_from,
            cores: cores as u64,
            kernel: root.read("proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            container: container(root),
            has_systemd: root.has("usr/lib/systemd/systemd") || root.has("lib/systemd/systemd"),
            database: database(root),
            orders: Orders::look(root),
            fpm: Fpm::look(root),
            nginx: Nginx::look(root),
            root: root.clone(),
        })
    }

    /// The values in force, by the names of rows: of the kernel, and those with which the database, php-fpm and nginx would start.
    pub fn values_now(&self) -> BTreeMap<String, String> {
        let mut values = if self.root.is_live() { database_values(&self.database) } else { BTreeMap::new() };
        let of = |row: &Row| match row.layer {
            Layer::Kernel => self.kernel_value(row.name),
            Layer::Fpm => self.fpm.as_ref().ok()?.value(row.name),
            Layer::Nginx => {
                let now = self.nginx.as_ref().ok()?.value(block(row.name), row.name);
                now.or_else(|| nginx_default(row.name)).map(str::to_owned)
            }
            _ => None,
        };
        values.extend(rows().filter_map(|row| Some((row.name.to_owned(), of(row)?))));
        values
    }

    /// The value of a kernel setting in force.
    pub fn kernel_value(&self, key: &str) -> Option<String> {
        let text = self.root.read(&format!("proc/sys/{}", key.replace('.', "/"))).ok()?;
        Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl Database {
    /// Whether it is this kind, from this version on.
    pub fn is_from(&self, kind: Kind, version: (u32, u32, u32)) -> bool {
        self.kind == kind && self.version >= version
    }

    /// Memory without caches and connections, bytes.
    pub fn memory(&self) -> u64 {
        if self.kind == Kind::Mariadb { MARIADB } else { MYSQL }
    }

    /// Whether it rounds its buffer pool up to chunks (MariaDB since 10.8 chooses the chunk by the pool).
    pub fn is_chunked(&self) -> bool {
        !self.is_from(Kind::Mariadb, (10, 8, 0))
    }

    /// Its name and version.
    pub fn name(&self) -> String {
        let (major, minor, patch) = self.version;
        format!("{} {major}.{minor}.{patch}", if self.kind == Kind::Mariadb { "MariaDB" } else { "MySQL" })
    }

    /// Its unit.
    pub fn unit(&self) -> &'static str {
        if self.kind == Kind::Mariadb { "mariadb" } else { "mysql" }
    }
}

/// The block of nginx's configuration in which a row belongs.
pub fn block(name: &str) -> Block {
    match name {
        "worker_rlimit_nofile" => Block::Main,
        "worker_connections" => Block::Events,
        _ => Block::Http,
    }
}

/// nginx's value where its configuration says nothing (nginx.org/en/docs/dirindex.html).
pub fn nginx_default(name: &str) -> Option<&'static str> {
    Some(match name {
        "worker_connections" => "512",
        "keepalive_requests" => "1000",
        "open_file_cache" | "open_file_cache_errors" | "reset_timedout_connection" | "gzip_vary" => "off",
        "open_file_cache_valid" => "60s",
        "gzip_types" => "text/html",
        "gzip_min_length" => "20",
        "client_max_body_size" => "1m",
        _ => return None,
    })
}

/// What says that this is a container, as systemd-detect-virt finds out.
fn container(root: &Root) -> Option<String> {
    let file = ["run/host/container-manager", "run/.containerenv", ".dockerenv"]
        .into_iter()
        .find(|path| root.has(path));
    let variables = root.read("proc/1/environ").unwrap_or_default();
    let variable = variables.split('\0').find(|variable| variable.starts_with("container="));
    file.map(|path| format!("/{path}")).or_else(|| Some(format!("{} of process 1", variable?)))
}

/// The installed database: Debian's list of packages, else what the server says of itself.
fn database(root: &Root) -> Result<Database, String> {
    let found = packaged(root).or_else(|| if root.is_live() { installed() } else { None });
    let (kind, version) = found.ok_or_else(|| match root.is_live() {
        true => "no MariaDB or MySQL server is installed here: a database on another machine has a budget of its own".to_owned(),
        false => format!(
            "{}/var/lib/dpkg/status names no installed MariaDB or MySQL server; run the command once more when there is one",
            root.path().display()
        ),
    })?;
    Ok(Database { kind, version, folder: folder(root, kind) })
}

fn packaged(root: &Root) -> Option<(Kind, (u32, u32, u32))> {
    let list = root.read("var/lib/dpkg/status").ok()?;
    list.split("\n\n").find_map(|package| {
        let field = |name: &str| package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let name = field("Package")?;
        let is_server = ["-server", "-server-core"].iter().any(|end| {
            ["mariadb", "mysql", "percona"].iter().any(|start| name.starts_with(start) && name.contains(end))
        });
        let epochless = field("Version")?.split(':').next_back()?;
        let kind = if name.starts_with("mariadb") { Kind::Mariadb } else { Kind::Mysql };
        // Names like default-mysql-server are only names; their version is not the server's.
        (is_server && field("Status")?.ends_with(" installed"))
            .then(|| Some((kind, version(epochless)?)))
            .flatten()
    })
}

fn installed() -> Option<(Kind, (u32, u32, u32))> {
    ["mariadbd", "mysqld"].into_iter().find_map(|name| {
        let said = Command::new(format!("/usr/sbin/{name}")).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let kind = if said.contains("MariaDB") { Kind::Mariadb } else { Kind::Mysql };
        Some((kind, version(said.split("Ver ").nth(1)?)?))
    })
}

/// `10.11.19-MariaDB...` as numbers.
fn version(text: &str) -> Option<(u32, u32, u32)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let mut numbers = text[..end].split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}

/// The folder for our option file: one that the main option file includes.
fn folder(root: &Root, kind: Kind) -> Result<String, String> {
    let mains = ["etc/mysql/my.cnf", "etc/my.cnf"];
    let included: Vec<String> = mains
        .iter()
        .filter_map(|path| root.read(path).ok())
        .flat_map(|text| {
            let folders = text.lines().filter_map(|line| line.trim().strip_prefix("!includedir"));
            folders.map(|folder| folder.trim().trim_matches('/').to_owned()).collect::<Vec<_>>()
        })
        .collect();
    let own = if kind == Kind::Mariadb { "etc/mysql/mariadb.conf.d" } else { "etc/mysql/mysql.conf.d" };
    let wanted = [own, "etc/mysql/conf.d", "etc/my.cnf.d"];
    let found =
        wanted.iter().find(|folder| included.iter().any(|other| other == *folder) && root.has(folder));
    found.map(|folder| (*folder).to_owned()).ok_or_else(|| {
        format!("/{} includes no folder of option files; add the line `!includedir /{own}/` to it, and make that folder", mains[0])
    })
}

/// The values with which the database would start: `mariadbd --verbose --help` reads its option files and starts nothing.
fn database_values(database: &Result<Database, String>) -> BTreeMap<String, String> {
    let Ok(database) = database else { return BTreeMap::new() };
    let program = if database.kind == Kind::Mariadb { "/usr/sbin/mariadbd" } else { "/usr/sbin/mysqld" };
    let Ok(said) = Command::new(program).args(["--verbose", "--help", "--user=mysql"]).output() else {
        return BTreeMap::new();
    };
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let pairs = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b.is_ascii_digit());
        is_name.then(|| (name.replace('-', "_"), sized(value.trim())))
    });
    pairs.collect()
}

/// Bytes as they are written in option files: 134217728 is 128M.
fn sized(value: &str) -> String {
    match value.parse::<u64>() {
        Ok(bytes) if bytes >= MB && bytes.is_multiple_of(MB) => format!("{}M", bytes / MB),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    const DPKG: &str = "Package: mariadb-client\nStatus: install ok installed\nVersion: 1:9.1.1\n\nPackage: mariadb-server\nStatus: install ok installed\nVersion: 1:10.11.19-0+deb12u1\n\nPackage: mysql-server\nStatus: deinstall ok config-files\nVersion: 5.7.1\n";

    #[test]
    fn a_machine_in_a_folder() {
        let tree = Tree::of(&[
            ("proc/meminfo", "MemTotal:       2097152 kB\n"),
            ("proc/stat", "cpu 1 1\ncpu0 1 1\ncpu1 1 1\n"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/a/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/a/memory.current", "1\n"),
            ("sys/fs/cgroup/a/memory.events", "max 0\noom_kill 0\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 1\n"),
            ("var/lib/dpkg/status", DPKG),
            ("etc/mysql/my.cnf", "[client]\n!includedir /etc/mysql/conf.d/\n"),
            ("etc/mysql/conf.d/a.cnf", ""),
            ("etc/mysql/mariadb.conf.d/a.cnf", ""),
            ("proc/1/environ", "A=b\0container=lxc\0"),
        ]);
        let machine = Machine::look(&Root::new(tree.root())).expect("looked");
        assert_eq!((machine.memory, machine.cores), (1 << 30, 2));
        assert_eq!(machine.memory_from, "MemoryMax of /sys/fs/cgroup/a");
        assert_eq!(machine.kernel_value("net.ipv4.tcp_rmem").as_deref(), Some("4096 131072 6291456"));
        let database = machine.database.expect("a database");
        assert_eq!(
            (database.name(), database.folder),
            ("MariaDB 10.11.19".to_owned(), Ok("etc/mysql/conf.d".to_owned()))
        );
        assert_eq!(machine.container.as_deref(), Some("container=lxc of process 1"));
        assert!(!machine.has_systemd);
    }

    #[test]
    fn an_empty_folder_says_what_is_missing() {
        let tree = Tree::of(&[("etc/x", "")]);
        let why = Machine::look(&Root::new(tree.root())).expect_err("no memory");
        assert!(why.what.contains("meminfo") && why.next.contains("/proc at"), "{why}");
    }

    #[test]
    fn versions_and_sizes() {
        assert_eq!(version("8.0.36-0ubuntu0.22.04.1"), Some((8, 0, 36)));
        assert_eq!((version("x"), version("11.4")), (None, Some((11, 4, 0))));
        assert_eq!(
            (sized("134217728"), sized("151"), sized("OFF")),
            ("128M".into(), "151".into(), "OFF".into())
        );
    }
}
