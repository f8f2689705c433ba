//! What to set on this machine: the current and the proposed value of each row, and the texts of our files.

use std::collections::BTreeMap;

use super::budget::{Budget, MB, Need};
use super::journal::Journal;
use super::machine::{self, Machine};
use super::root::Root;
use super::table::{Case, Layer, Row, Value, rows};
use super::{Purpose, Refusal, Server, others};

/// Our file for systemd-sysctl, below the root.
const SYSCTL: &str = "etc/sysctl.d/60-millrace.conf";
/// Our drop-in for the unit of the server, below the root.
const UNIT: &str = "etc/systemd/system/millrace.service.d/60-millrace.conf";
/// Name of our option file for the database.
const OPTIONS: &str = "60-millrace.cnf";

/// What the user asks for, and what is known of a running server.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The root of the files: an absolute folder.
    pub root: Root,
    /// How much of the memory may be planned, percent.
    pub percent: u64,
    /// What runs.
    pub purpose: Purpose,
    /// Names of rows to leave alone.
    pub without: Vec<String>,
    /// What serves the sites; `None`: nginx or the like if php-fpm is installed, else Millrace.
    pub server: Option<Server>,
    /// Whether Millrace has PHP run by php-fpm.
    pub fastcgi: bool,
    /// PHP hosts of the configuration.
    pub hosts: u64,
    /// Measured private memory of a PHP worker, bytes.
    pub worker: Option<u64>,
    /// Values of PHP and Millrace now, by the names of rows.
    pub known: BTreeMap<String, String>,
}

/// Settings for a machine.
pub struct Proposal {
    /// The machine.
    pub machine: Machine,
    /// What runs.
    pub purpose: Purpose,
    /// How much of the memory may be planned, percent.
    pub percent: u64,
    /// What serves the sites.
    pub server: Server,
    /// Whether php-fpm runs PHP.
    pub fpm: bool,
    /// Measured memory of a PHP worker, bytes.
    pub worker: Option<u64>,
    /// The memory budget.
    pub budget: Budget,
    /// The rows, in the order of the table.
    pub rows: Vec<Proposed>,
    /// Files to write.
    pub files: Vec<OwnFile>,
}

/// A row on this machine.
pub struct Proposed {
    /// The row.
    pub row: &'static Row,
    /// Its value now, if that can be seen.
    pub now: Option<String>,
    /// Its value then.
    pub next: NextValue,
}

/// What happens to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextValue {
    /// It gets a value.
    Set {
        /// The value.
        value: String,
        /// The figures that it comes from.
        evidence: String,
        /// Where it is written.
        place: Place,
    },
    /// It stays: why.
    Keep(String),
}

/// Where a value is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// To a file of ours, below the root.
    File(String),
    /// The host of this container has to do it: how.
    Host(String),
    /// By hand: why, and how.
    Hand(String),
}

/// A file of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFile {
    /// Where, below the root.
    pub path: String,
    /// Its text.
    pub text: String,
    /// What its settings are for.
    pub layer: Layer,
}

impl Proposal {
    /// Computes the settings.
    ///
    /// # Errors
    /// The machine can't be looked at or is too small, a name of `without` is no row, or the journal can't be read.
    pub fn of(wish: &Wish) -> Result<Proposal, Refusal> {
        if let Some(name) = wish.without.iter().find(|name| rows().all(|row| row.name != name.as_str())) {
            return Err(Refusal::new(format!("there is no setting {name}"), "`millrace tune` lists them"));
        }
        let machine = Machine::look(&wish.root)?;
        let (server, fpm) = serving(wish, &machine)?;
        let pools = machine.fpm.as_ref().ok().filter(|_| fpm);
        let worker = wish.worker.or_else(|| pools.and_then(|fpm| fpm.worker_memory(&wish.root)));
        let database = machine.database.as_ref().ok();
        let budget = Budget::of(Need {
            memory: machine.memory,
            cores: machine.cores,
            percent: wish.percent,
            purpose: wish.purpose,
            database: database.map(|database| database.memory()),
            chunked: database.is_some_and(|database| database.is_chunked()),
            worker,
            hosts: pools.map_or(wish.hosts, |fpm| fpm.pools.len() as u64),
            fpm,
            millrace: server == Server::Millrace,
        })
        .map_err(|small| {
            let memory = machine.memory / MB;
            Refusal::new(format!("{memory} MB of memory are too little: {}", small.what), small.next)
        })?;
        let journal = Journal::read(&wish.root)?;
        let without = &wish.without;
        let case = Case { machine: &machine, budget: &budget, purpose: wish.purpose, server, fpm, without };
        let mut now = machine.values_now();
        now.extend(wish.known.clone());
        if let (Some(fpm), true) = (pools, wish.root.is_live()) {
            now.extend(fpm.ini_values());
        }
        let rows = rows()
            .map(|row| {
                let now = now.get(row.name).cloned();
                let before = match row.layer {
                    Layer::Nginx => case.nginx_before(row.name),
                    _ => journal.as_ref().and_then(|journal| journal.before(row.name)),
                };
                let before = before.map(str::to_owned).or_else(|| now.clone());
                let next = match wish.without.iter().any(|name| name == row.name) {
                    true => NextValue::Keep("you leave it out".to_owned()),
                    false => then(row, &case, before.as_ref()),
                };
                Proposed { row, now, next }
            })
            .collect();
        let mut proposal = Proposal {
            machine,
            purpose: wish.purpose,
            percent: wish.percent,
            server,
            fpm,
            worker,
            budget,
            rows,
            files: Vec::new(),
        };
        proposal.files = proposal.texts();
        Ok(proposal)
    }

    /// Refuses what would have no effect: files of others that come later and say otherwise.
    ///
    /// # Errors
    /// There are such files: their names.
    pub fn check_others(&self) -> Result<(), Refusal> {
        let all = others::conflicts(&self.machine.root, &self.written());
        let Some(first) = all.first() else { return Ok(()) };
        let lines: Vec<String> = all
            .iter()
            .map(|other| format!("/{} sets {} = {}", other.file, other.name, other.value))
            .collect();
        Err(Refusal::new(
            format!("other files are read later and would win: {}", lines.join("; ")),
            format!("remove these lines, or leave the settings to them: --without {}", first.name),
        ))
    }

    /// The rows that are written to a file of ours: its path, name and value.
    pub fn written(&self) -> Vec<(&str, &'static Row, &str)> {
        self.rows
            .iter()
            .filter_map(|proposed| match &proposed.next {
                NextValue::Set { value, place: Place::File(path), .. } => {
                    Some((&**path, proposed.row, &**value))
                }
                _ => None,
            })
            .collect()
    }

    /// Settings that would change, and that only you can write: each with its place. Those of Millrace's configuration are in
    /// [`Proposal::configuration`].
    pub fn by_hand(&self) -> Vec<String> {
        let lines = self.left_to_you(&[Layer::Nginx, Layer::Fpm]);
        lines.map(|(row, value, how)| format!("{} = {value}, {how}", row.name)).collect()
    }

    /// Settings that would change in Millrace's configuration: `name = value`.
    pub fn in_configuration(&self) -> Vec<String> {
        let lines = self.left_to_you(&[Layer::Php, Layer::Millrace]);
        lines.map(|(row, value, _)| format!("{} = {value}", row.name)).collect()
    }

    /// Settings of these layers that would change, and that no file of ours can set: each with its value and its place.
    fn left_to_you<'a>(
        &'a self,
        layers: &'a [Layer],
    ) -> impl Iterator<Item = (&'static Row, &'a str, &'a str)> {
        self.rows.iter().filter_map(|proposed| match &proposed.next {
            NextValue::Set { value, place: Place::Hand(how), .. }
                if layers.contains(&proposed.row.layer) && proposed.now.as_ref() != Some(value) =>
            {
                Some((proposed.row, &**value, &**how))
            }
            _ => None,
        })
    }

    /// Lines for Millrace's configuration, by table; empty if another server serves the sites.
    pub fn configuration(&self) -> String {
        let mut tables: Vec<(String, Vec<String>)> = Vec::new();
        for proposed in &self.rows {
            let NextValue::Set { value, place: Place::Hand(_), .. } = &proposed.next else { continue };
            let is_word = value.bytes().any(|byte| !byte.is_ascii_digit());
            let value = if is_word { format!("\"{value}\"") } else { value.clone() };
            let (table, line) = match (proposed.row.layer, proposed.row.name.split_once('.')) {
                (Layer::Php, _) => ("php.ini", format!("\"{}\" = {value}", proposed.row.name)),
                (Layer::Millrace, Some((table, key))) => (table, format!("{key} = {value}")),
                _ => continue,
            };
            match tables.iter_mut().find(|(name, _)| name == table) {
                Some((_, lines)) => lines.push(line),
                None => tables.push((table.to_owned(), vec![line])),
            }
        }
        let texts: Vec<String> =
            tables.iter().map(|(name, lines)| format!("[{name}]\n{}\n", lines.join("\n"))).collect();
        texts.join("\n")
    }

    fn texts(&self) -> Vec<OwnFile> {
        let mut files: Vec<OwnFile> = Vec::new();
        for (path, row, value) in self.written() {
            let at = files.iter().position(|file| file.path == path).unwrap_or_else(|| {
                files.push(OwnFile { path: path.to_owned(), text: self.head(row.layer), layer: row.layer });
                files.len() - 1
            });
            if row.layer == Layer::Fpm {
                continue;
            }
            let line = match row.layer {
                // systemd-sysctl and `sysctl` ignore a missing table of a module that is loaded later if the line begins with -.
                Layer::Kernel if row.name.contains("nf_conntrack") => format!("-{} = {value}\n", row.name),
                Layer::Kernel | Layer::Php => format!("{} = {value}\n", row.name),
                Layer::Nginx => format!("{} {value};\n", row.name),
                _ => format!("{}={value}\n", row.name),
            };
            files[at].text.push_str(&line);
        }
        for file in files.iter_mut().filter(|file| file.layer == Layer::Fpm) {
            file.text.push_str(&self.pools());
        }
        files
    }

    /// The same lines for each pool of php-fpm.
    fn pools(&self) -> String {
        let written = self.written();
        let ours = written.iter().filter(|(_, row, _)| row.layer == Layer::Fpm);
        let lines: String = ours.map(|(_, row, value)| format!("{} = {value}\n", row.name)).collect();
        let pools = self.machine.fpm.iter().flat_map(|fpm| &fpm.pools);
        pools.map(|pool| format!("[{}]\n{lines}", pool.name)).collect()
    }

    fn head(&self, layer: Layer) -> String {
        let section = match layer {
            Layer::Database => "[mysqld]\n",
            Layer::Limits => "[Service]\n",
            _ => "",
        };
        let sign = if matches!(layer, Layer::Fpm | Layer::Php) { ';' } else { '#' };
        format!(
            "{sign} `millrace tune --apply` wrote this file for {} MB of memory and a budget of {} %; `millrace tune --undo` deletes it.\n\
             {sign} Don't edit it: undo would refuse to delete it.\n{section}",
            self.budget.memory / MB,
            self.percent
        )
    }
}

/// What serves the sites, and whether php-fpm runs PHP.
///
/// # Errors
/// nginx is wished, and there is no php-fpm for it.
fn serving(wish: &Wish, machine: &Machine) -> Result<(Server, bool), Refusal> {
    match (wish.server, &machine.fpm) {
        (Some(Server::Nginx), Err(why)) => Err(Refusal::new(
            format!("PHP of another server is run by php-fpm, and {why}"),
            "install and configure php-fpm, or omit --server",
        )),
        (Some(Server::Nginx) | None, Ok(_)) => Ok((Server::Nginx, true)),
        (Some(Server::Millrace), fpm) => Ok((Server::Millrace, wish.fastcgi && fpm.is_ok())),
        (None, Err(_)) => Ok((Server::Millrace, false)),
    }
}

impl Case<'_> {
    /// Why a row is for a program that does nothing here.
    fn idle(&self, row: &Row) -> Option<String> {
        let is_millrace = self.server == Server::Millrace;
        match row.layer {
            Layer::Millrace | Layer::Limits if !is_millrace => {
                Some("another server serves the sites; `--server millrace` computes for Millrace".to_owned())
            }
            Layer::Millrace if self.fpm && row.name.starts_with("php.") => {
                Some("php-fpm runs PHP".to_owned())
            }
            Layer::Fpm if !self.fpm => {
                Some(self.machine.fpm.as_ref().err().cloned().unwrap_or("Millrace runs PHP".to_owned()))
            }
            Layer::Nginx if is_millrace => Some("Millrace serves the sites".to_owned()),
            Layer::Nginx => self.machine.nginx.as_ref().err().cloned(),
            Layer::Php if self.fpm => {
                let (pool, line) = self.machine.fpm.as_ref().ok()?.of_pool(row.name)?;
                Some(format!("the pool {pool} has `{line}`, which counts more than php.ini"))
            }
            _ => None,
        }
    }

    /// nginx's value of a directive without our files.
    fn nginx_before(&self, name: &str) -> Option<&str> {
        let nginx = self.machine.nginx.as_ref().ok()?;
        let others = nginx.others(machine::block(name), name);
        others.map(|directive| &*directive.value).or_else(|| machine::nginx_default(name))
    }
}

fn then(row: &'static Row, case: &Case<'_>, before: Option<&String>) -> NextValue {
    if let Some(why) = case.idle(row) {
        return NextValue::Keep(why);
    }
    let (mut value, evidence) = match (row.rule)(case) {
        Value::Nothing(why) => return NextValue::Keep(why),
        Value::Set(value, evidence) => (value, evidence),
    };
    if row.is_least
        && let Some(before) = before
    {
        let higher = larger(&value, before);
        if matches!(row.layer, Layer::Kernel | Layer::Nginx) && larger(before, &value) == *before {
            return NextValue::Keep(format!("{before} is there already; {value} would do"));
        }
        value = higher;
    }
    let place = place(row, case, &value);
    NextValue::Set { value, evidence, place }
}

/// The larger one of two values; of lists of figures, the larger one at each place.
fn larger(one: &str, other: &str) -> String {
    let figures = |text: &str| -> Option<Vec<u64>> {
        let units = [(['K', 'k'], 1 << 10), (['M', 'm'], MB), (['G', 'g'], 1 << 30)];
        let words = text.split_ascii_whitespace().map(|word| {
            let sized = units.iter().find_map(|(names, unit)| Some((word.strip_suffix(names)?, *unit)));
            let (number, unit) = sized.unwrap_or((word, 1));
            number.parse::<u64>().ok()?.checked_mul(unit)
        });
        words.collect()
    };
    let (Some(a), Some(b)) = (figures(one), figures(other)) else { return one.to_owned() };
    if a.len() != b.len() || a.iter().zip(&b).all(|(a, b)| a >= b) {
        return one.to_owned();
    }
    let all: Vec<String> = a.iter().zip(&b).map(|(a, b)| a.max(b).to_string()).collect();
    if all.len() == 1 { other.to_owned() } else { all.join(" ") }
}

fn place(row: &'static Row, case: &Case<'_>, value: &str) -> Place {
    let machine = case.machine;
    let of = |path: Result<String, String>| path.map_or_else(Place::Hand, Place::File);
    let host = machine.container.as_ref();
    match (row.layer, host) {
        (Layer::Kernel, Some(_)) if row.is_of_namespace() => {
            Place::Host("with Docker: `docker run --sysctl`".to_owned())
        }
        (Layer::Kernel, Some(_)) => Place::Host("run `millrace tune` there".to_owned()),
        (Layer::Kernel, None) => Place::File(SYSCTL.to_owned()),
        (Layer::Limits, Some(_)) => Place::Host("with Docker: `docker run --ulimit nofile=`".to_owned()),
        (Layer::Limits, None) if machine.has_systemd => Place::File(UNIT.to_owned()),
        (Layer::Limits, None) => {
            Place::Hand("there is no systemd: `ulimit -n` with this value before `millrace serve`".to_owned())
        }
        (Layer::Database, _) => match machine.database.as_ref().map(|database| database.folder.as_ref()) {
            Ok(Ok(folder)) => Place::File(format!("{folder}/{OPTIONS}")),
            Ok(Err(why)) => Place::Hand(why.clone()),
            Err(why) => Place::Hand(why.clone()),
        },
        (Layer::Fpm, _) => {
            of(machine.fpm.as_ref().map_err(Clone::clone).and_then(super::fpm::Fpm::pool_file))
        }
        (Layer::Nginx, _) => of(machine
            .nginx
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|nginx| nginx.place(machine::block(row.name), row.name, value).map(str::to_owned))),
        (Layer::Php, _) if case.fpm => {
            of(machine.fpm.as_ref().map(|fpm| fpm.ini_file()).map_err(Clone::clone))
        }
        (Layer::Php | Layer::Millrace, _) => Place::Hand("in Millrace's configuration".to_owned()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::Tree;

    /// A machine of 2 GB with 2 cores, systemd and MariaDB.
    pub fn tree() -> Tree {
        tree_of(2_048 << 10)
    }

    /// The same with other memory, KiB.
    pub fn tree_of(kilobytes: u64) -> Tree {
        Tree::of(&[
            ("proc/meminfo", &format!("MemTotal: {kilobytes} kB\n")),
            ("proc/stat", "cpu 1 1\ncpu0 1 1\ncpu1 1 1\n"),
            ("proc/sys/net/core/somaxconn", "4096\n"),
            ("proc/sys/vm/swappiness", "60\n"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n"),
            ("proc/sys/fs/file-max", "9223372036854775807\n"),
            ("usr/lib/systemd/systemd", ""),
            (
                "var/lib/dpkg/status",
                "Package: mariadb-server\nStatus: install ok installed\nVersion: 1:10.11.19\n",
            ),
            ("etc/mysql/my.cnf", "!includedir /etc/mysql/conf.d/\n!includedir /etc/mysql/mariadb.conf.d/\n"),
            ("etc/mysql/mariadb.conf.d/50-server.cnf", "[mysqld]\nmax_connections = 100\n"),
            ("etc/sysctl.d/99-sysctl.conf", "# net.core.somaxconn = 1\n"),
        ])
    }

    pub fn wish(tree: &Tree) -> Wish {
        Wish {
            root: Root::new(tree.root()),
            percent: 75,
            purpose: Purpose::Wordpress,
            without: Vec::new(),
            server: None,
            fastcgi: false,
            hosts: 1,
            worker: None,
            known: BTreeMap::new(),
        }
    }

    fn find<'a>(proposal: &'a Proposal, name: &str) -> &'a Proposed {
        proposal.rows.iter().find(|proposed| proposed.row.name == name).expect("a row")
    }

    fn value<'a>(proposal: &'a Proposal, name: &str) -> &'a str {
        match &find(proposal, name).next {
            NextValue::Set { value, .. } => value,
            NextValue::Keep(why) => panic!("{name} is kept: {why}"),
        }
    }

    #[test]
    fn a_small_server() {
        let tree = tree();
        let proposal = Proposal::of(&wish(&tree)).expect("computed");
        let paths: Vec<&str> = proposal.files.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, [SYSCTL, UNIT, "etc/mysql/mariadb.conf.d/60-millrace.cnf"]);
        assert!(proposal.files[0].text.contains("\nvm.swappiness = 10\n"), "{}", proposal.files[0].text);
        assert!(proposal.files[1].text.contains("[Service]\nLimitNOFILE=65536\n"));
        assert!(
            proposal.files[2].text.contains("[mysqld]\nmax_connections=64\ninnodb_buffer_pool_size=319M\n")
        );
        assert_eq!(find(&proposal, "vm.swappiness").now.as_deref(), Some("60"));
        // Higher values stay; of a list, the higher one at each place.
        assert_eq!(
            find(&proposal, "fs.file-max").next,
            NextValue::Keep("9223372036854775807 is there already; 2000000 would do".to_owned())
        );
        assert!(matches!(find(&proposal, "net.ipv4.tcp_rmem").next, NextValue::Keep(_)));
        assert_eq!(larger("4096 65536 100", "4096 16384 200"), "4096 65536 200");
        assert_eq!((larger("512M", "96M"), larger("96M", "512M")), ("512M".to_owned(), "512M".to_owned()));
        assert!(matches!(find(&proposal, "innodb_redo_log_capacity").next, NextValue::Keep(_)));
        assert!(matches!(find(&proposal, "net.netfilter.nf_conntrack_max").next, NextValue::Keep(_)));
        assert!(proposal.check_others().is_ok());
    }

    #[test]
    fn lines_of_the_configuration() {
        let tree = tree();
        let text = Proposal::of(&wish(&tree)).expect("computed").configuration();
        assert!(text.starts_with("[php.ini]\n\"opcache.memory_consumption\" = 128\n"), "{text}");
        assert!(
            text.contains("\"memory_limit\" = \"128M\"\n\n[php]\nworkers = 6\nworker_memory = \"64MB\"\n"),
            "{text}"
        );
        assert!(text.contains("[server]\nconnection_memory = \"107MB\"\n"), "{text}");
        let known =
            [("memory_limit", "128M"), ("php.workers", "5")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let wish = Wish { known: known.into(), ..wish(&tree) };
        let lines = Proposal::of(&wish).expect("computed").in_configuration();
        let has = |line: &str| lines.iter().any(|other| other == line);
        assert!(
            has("php.workers = 6") && has("opcache.memory_consumption = 128") && !has("memory_limit = 128M")
        );
    }

    #[test]
    fn shops_versions_and_hosts() {
        let tree = tree();
        let mut shop = wish(&tree);
        (shop.purpose, shop.hosts, shop.worker) = (Purpose::Shop, 2, Some(40 << 20));
        let proposal = Proposal::of(&shop).expect("computed");
        assert_eq!(value(&proposal, "innodb_flush_log_at_trx_commit"), "1");
        let tables = tree.root().join("var/lib/mysql/blog");
        std::fs::create_dir_all(&tables).expect("made");
        for (table, flush) in [("wp_posts", "2"), ("wp_wc_orders", "1")] {
            std::fs::write(tables.join(format!("{table}.ibd")), "").expect("written");
            let proposal = Proposal::of(&wish(&tree)).expect("computed");
            assert_eq!(value(&proposal, "innodb_flush_log_at_trx_commit"), flush, "{table}");
        }
        assert_eq!(
            (value(&proposal, "memory_limit"), value(&proposal, "php.worker_memory")),
            ("256M", "40MB")
        );
        let status = tree.root().join("var/lib/dpkg/status");
        let mysql = "Package: mysql-server-8.0\nStatus: install ok installed\nVersion: 8.0.36-0ubuntu\n";
        std::fs::write(status, mysql).expect("written");
        let proposal = Proposal::of(&wish(&tree)).expect("computed");
        assert_eq!(value(&proposal, "innodb_redo_log_capacity"), "128M");
        assert!(matches!(find(&proposal, "query_cache_size").next, NextValue::Keep(_)));
        assert_eq!(value(&proposal, "performance_schema"), "OFF");
        let by_hand = &find(&proposal, "max_connections").next;
        assert!(
            matches!(by_hand, NextValue::Set { place: Place::Hand(why), .. } if why.contains("includes no folder"))
        );
    }

    #[test]
    fn a_container_has_the_host_do_it() {
        let tree = tree();
        std::fs::write(tree.root().join(".dockerenv"), "").expect("written");
        let proposal = Proposal::of(&wish(&tree)).expect("computed");
        let paths: Vec<&str> = proposal.files.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, ["etc/mysql/mariadb.conf.d/60-millrace.cnf"]);
        let is_host =
            |name| matches!(&find(&proposal, name).next, NextValue::Set { place: Place::Host(_), .. });
        assert!(is_host("net.core.somaxconn") && is_host("vm.swappiness") && is_host("LimitNOFILE"));
    }

    /// The same machine with Debian's nginx and php-fpm, and with these files.
    pub fn web_tree(more: &[(&str, &str)]) -> Tree {
        let tree = tree();
        let files = [
            ("usr/sbin/nginx", ""),
            ("usr/sbin/php-fpm8.2", ""),
            (
                "etc/nginx/nginx.conf",
                "include /etc/nginx/modules-enabled/*.conf;\nevents {\n worker_connections 768;\n}\nhttp {\n gzip on;\n include /etc/nginx/conf.d/*.conf;\n}\n",
            ),
            ("etc/nginx/modules-enabled/50-mod.conf", ""),
            ("etc/nginx/conf.d/a.conf", "client_max_body_size 1g;\n"),
            ("etc/php/8.2/fpm/php-fpm.conf", "[global]\ninclude=/etc/php/8.2/fpm/pool.d/*.conf\n"),
            ("etc/php/8.2/fpm/conf.d/10-opcache.ini", "zend_extension=opcache.so\n"),
            (
                "etc/php/8.2/fpm/pool.d/www.conf",
                "[www]\npm = dynamic\npm.max_children = 5\npm.start_servers = 2\npm.min_spare_servers = 1\npm.max_spare_servers = 3\n",
            ),
        ];
        for (path, text) in files.iter().chain(more) {
            let path = tree.root().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        tree
    }

    #[test]
    fn nginx_and_php_fpm() {
        let tree =
            web_tree(&[("etc/php/8.2/fpm/pool.d/b.conf", "[b]\nphp_admin_value[memory_limit] = 1G\n")]);
        let proposal = Proposal::of(&wish(&tree)).expect("computed");
        let paths: Vec<&str> = proposal.files.iter().map(|file| &*file.path).collect();
        let [pool, ini, main, http] = [
            "etc/php/8.2/fpm/pool.d/zz-millrace.conf",
            "etc/php/8.2/fpm/conf.d/90-millrace.ini",
            "etc/nginx/modules-enabled/60-millrace.conf",
            "etc/nginx/conf.d/60-millrace.conf",
        ];
        assert_eq!(paths, [SYSCTL, "etc/mysql/mariadb.conf.d/60-millrace.cnf", pool, ini, main, http]);
        let text = |path| &*proposal.files.iter().find(|file| file.path == path).expect("a file").text;
        let lines = "pm = dynamic\npm.max_children = 5\npm.start_servers = 5\npm.min_spare_servers = 2\npm.max_spare_servers = 5\n";
        assert!(
            text(pool).starts_with("; `millrace tune") && text(pool).contains(&format!("\n[b]\n{lines}"))
        );
        assert!(text(pool).contains(&format!("\n[www]\n{lines}")), "{}", text(pool));
        assert!(text(ini).contains("\nopcache.memory_consumption = 128\n"), "{}", text(ini));
        assert!(text(ini).contains("post_max_size = 64M\n") && !text(ini).contains("memory_limit"));
        assert!(text(main).ends_with("\nworker_rlimit_nofile 65536;\n"), "{}", text(main));
        assert!(text(http).contains("\nopen_file_cache max=10000 inactive=30s;\n"), "{}", text(http));
        // What another file has already stays, or is for its owner to change.
        let kept = NextValue::Keep("1g is there already; 64m would do".to_owned());
        assert_eq!(find(&proposal, "client_max_body_size").next, kept);
        let limited = "the pool b has `php_admin_value[memory_limit] = 1G`, which counts more than php.ini";
        assert_eq!(find(&proposal, "memory_limit").next, NextValue::Keep(limited.to_owned()));
        let by_hand = proposal.by_hand();
        assert_eq!(by_hand.len(), 1, "{by_hand:?}");
        assert!(
            by_hand[0].starts_with("worker_connections = 6848, by hand: /etc/nginx/nginx.conf, line 3: "),
            "{by_hand:?}"
        );
        assert_eq!(find(&proposal, "worker_connections").now.as_deref(), Some("768"));
        assert_eq!(find(&proposal, "pm.max_children").now.as_deref(), Some("unset, 5"));
        assert!(matches!(find(&proposal, "php.workers").next, NextValue::Keep(_)));
        assert!(matches!(find(&proposal, "LimitNOFILE").next, NextValue::Keep(_)));
        assert_eq!((proposal.configuration().as_str(), value(&proposal, "max_connections")), ("", "64"));
        assert!(proposal.check_others().is_ok());
    }

    #[test]
    fn files_that_stay_open_need_descriptors() {
        let all = web_tree(&[]);
        let mut own = wish(&all);
        own.without = vec!["worker_rlimit_nofile".to_owned()];
        let few = "max=400 inactive=30s";
        assert_eq!(value(&Proposal::of(&own).expect("computed"), "open_file_cache"), few);
        let limited = web_tree(&[("etc/nginx/modules-enabled/x.conf", "worker_rlimit_nofile 4096;")]);
        let proposal = Proposal::of(&wish(&limited)).expect("computed");
        assert_eq!(value(&proposal, "open_file_cache"), few);
        let by_hand = proposal.by_hand();
        assert!(by_hand[0].contains("/etc/nginx/modules-enabled/x.conf, line 1"), "{by_hand:?}");
    }

    #[test]
    fn which_server() {
        let tree = web_tree(&[]);
        let with = |server, fastcgi| {
            let proposal = Proposal::of(&Wish { server, fastcgi, ..wish(&tree) }).expect("computed");
            (proposal.server, proposal.fpm, proposal.files.len())
        };
        assert_eq!(with(None, false), (Server::Nginx, true, 6));
        assert_eq!(with(Some(Server::Nginx), false), (Server::Nginx, true, 6));
        assert_eq!(with(Some(Server::Millrace), false), (Server::Millrace, false, 3));
        // Millrace with php-fpm: its pools and its php.ini, and nothing of nginx.
        assert_eq!(with(Some(Server::Millrace), true), (Server::Millrace, true, 5));
        let without = super::tests::tree();
        let none = Wish { server: Some(Server::Nginx), ..wish(&without) };
        let why = Proposal::of(&none).err().expect("refused").to_string();
        assert!(why.contains("php-fpm is not installed here; next: "), "{why}");
    }

    #[test]
    fn a_measured_process_of_php_fpm() {
        let tree = web_tree(&[
            ("run/php/php8.2-fpm.pid", "7"),
            ("proc/7/stat", "7 (x) S 1"),
            ("proc/8/stat", "8 (x) S 7 1 1 0 -1 0 0 0 0 0 90 40 0"),
            ("proc/8/smaps_rollup", "Private_Clean: 0 kB\nPrivate_Dirty: 40960 kB\n"),
        ]);
        let proposal = Proposal::of(&wish(&tree)).expect("computed");
        assert_eq!((proposal.worker, value(&proposal, "pm.max_children")), (Some(40 << 20), "16"));
        assert_eq!(value(&proposal, "pm.start_servers"), "8");
    }

    #[test]
    fn bad_wishes() {
        let tree = tree();
        let mut wrong = wish(&tree);
        wrong.without = vec!["net.core.nothing".to_owned()];
        let why = Proposal::of(&wrong).err().expect("refused");
        assert_eq!(why.to_string(), "there is no setting net.core.nothing; next: `millrace tune` lists them");
        let small = tree_of(128 << 10);
        let why = Proposal::of(&wish(&small)).err().expect("refused");
        assert!(why.what.starts_with("128 MB of memory are too little: PHP may have"), "{why}");
    }
}
