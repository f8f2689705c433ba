//! What to set on this machine: each row's value now and then, and the texts of our files.

use std::collections::BTreeMap;

use super::budget::{Budget, MB, Need};
use super::journal::Journal;
use super::machine::Machine;
use super::root::Root;
use super::table::{Case, Layer, Row, Value, rows};
use super::{Purpose, Refusal, others};

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
    pub then: Then,
}

/// What happens to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
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
        let database = machine.database.as_ref().ok();
        let budget = Budget::of(Need {
            memory: machine.memory,
            cores: machine.cores,
            percent: wish.percent,
            purpose: wish.purpose,
            database: database.map(|database| database.memory()),
            chunked: database.is_some_and(|database| database.is_chunked()),
            worker: wish.worker,
            hosts: wish.hosts,
        })
        .map_err(|small| {
            let memory = machine.memory / MB;
            Refusal::new(format!("{memory} MB of memory are too little: {}", small.what), small.next)
        })?;
        let journal = Journal::read(&wish.root)?;
        let case = Case { machine: &machine, budget: &budget, purpose: wish.purpose };
        let mut now = machine.values_now();
        now.extend(wish.known.clone());
        let rows = rows()
            .map(|row| {
                let now = now.get(row.name).cloned();
                let before = journal.as_ref().and_then(|journal| journal.before(row.name)).map(str::to_owned);
                let then = match wish.without.iter().any(|name| name == row.name) {
                    true => Then::Keep("you leave it out".to_owned()),
                    false => then(row, &case, before.as_ref().or(now.as_ref())),
                };
                Proposed { row, now, then }
            })
            .collect();
        let mut proposal = Proposal {
            machine,
            purpose: wish.purpose,
            percent: wish.percent,
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
            .filter_map(|proposed| match &proposed.then {
                Then::Set { value, place: Place::File(path), .. } => Some((&**path, proposed.row, &**value)),
                _ => None,
            })
            .collect()
    }

    /// Lines for Millrace's configuration, by table.
    pub fn configuration(&self) -> String {
        let mut tables: Vec<(String, Vec<String>)> = Vec::new();
        for proposed in &self.rows {
            let Then::Set { value, .. } = &proposed.then else { continue };
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
            let line = match row.layer {
                // systemd-sysctl and `sysctl` ignore a missing table of a module that is loaded later if the line begins with -.
                Layer::Kernel if row.name.contains("nf_conntrack") => format!("-{} = {value}\n", row.name),
                Layer::Kernel => format!("{} = {value}\n", row.name),
                _ => format!("{}={value}\n", row.name),
            };
            files[at].text.push_str(&line);
        }
        files
    }

    fn head(&self, layer: Layer) -> String {
        let section = match layer {
            Layer::Database => "[mysqld]\n",
            Layer::Limits => "[Service]\n",
            _ => "",
        };
        format!(
            "# `millrace tune --apply` wrote this file for {} MB of memory and a budget of {} %; `millrace tune --undo` deletes it.\n\
             # Don't edit it: undo would refuse to delete it.\n{section}",
            self.budget.memory / MB,
            self.percent
        )
    }
}

fn then(row: &'static Row, case: &Case<'_>, before: Option<&String>) -> Then {
    let (mut value, evidence) = match (row.rule)(case) {
        Value::Nothing(why) => return Then::Keep(why),
        Value::Set(value, evidence) => (value, evidence),
    };
    if row.is_least
        && let Some(before) = before
    {
        let higher = larger(&value, before);
        if row.layer == Layer::Kernel && larger(before, &value) == *before {
            return Then::Keep(format!("{before} is there already; {value} would do"));
        }
        value = higher;
    }
    Then::Set { value, evidence, place: place(row, case.machine) }
}

/// The larger one of two values; of lists of figures, the larger one at each place.
fn larger(one: &str, other: &str) -> String {
    let figures = |text: &str| -> Option<Vec<u64>> {
        let words = text.split_ascii_whitespace().map(|word| match word.strip_suffix('M') {
            Some(number) => number.parse::<u64>().ok().map(|number| number * MB),
            None => word.parse().ok(),
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

fn place(row: &'static Row, machine: &Machine) -> Place {
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
            hosts: 1,
            worker: None,
            known: BTreeMap::new(),
        }
    }

    fn find<'a>(proposal: &'a Proposal, name: &str) -> &'a Proposed {
        proposal.rows.iter().find(|proposed| proposed.row.name == name).expect("a row")
    }

    fn value<'a>(proposal: &'a Proposal, name: &str) -> &'a str {
        match &find(proposal, name).then {
            Then::Set { value, .. } => value,
            Then::Keep(why) => panic!("{name} is kept: {why}"),
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
            find(&proposal, "fs.file-max").then,
            Then::Keep("9223372036854775807 is there already; 2000000 would do".to_owned())
        );
        assert!(matches!(find(&proposal, "net.ipv4.tcp_rmem").then, Then::Keep(_)));
        assert_eq!(larger("4096 65536 100", "4096 16384 200"), "4096 65536 200");
        assert_eq!((larger("512M", "96M"), larger("96M", "512M")), ("512M".to_owned(), "512M".to_owned()));
        assert!(matches!(find(&proposal, "innodb_redo_log_capacity").then, Then::Keep(_)));
        assert!(matches!(find(&proposal, "net.netfilter.nf_conntrack_max").then, Then::Keep(_)));
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
    }

    #[test]
    fn shops_versions_and_hosts() {
        let tree = tree();
        let mut shop = wish(&tree);
        (shop.purpose, shop.hosts, shop.worker) = (Purpose::Shop, 2, Some(40 << 20));
        let proposal = Proposal::of(&shop).expect("computed");
        assert_eq!(value(&proposal, "innodb_flush_log_at_trx_commit"), "1");
        assert_eq!(
            (value(&proposal, "memory_limit"), value(&proposal, "php.worker_memory")),
            ("256M", "40MB")
        );
        let status = tree.root().join("var/lib/dpkg/status");
        let mysql = "Package: mysql-server-8.0\nStatus: install ok installed\nVersion: 8.0.36-0ubuntu\n";
        std::fs::write(status, mysql).expect("written");
        let proposal = Proposal::of(&wish(&tree)).expect("computed");
        assert_eq!(value(&proposal, "innodb_redo_log_capacity"), "128M");
        assert!(matches!(find(&proposal, "query_cache_size").then, Then::Keep(_)));
        assert_eq!(value(&proposal, "performance_schema"), "OFF");
        let by_hand = &find(&proposal, "max_connections").then;
        assert!(
            matches!(by_hand, Then::Set { place: Place::Hand(why), .. } if why.contains("includes no folder"))
        );
    }

    #[test]
    fn a_container_has_the_host_do_it() {
        let tree = tree();
        std::fs::write(tree.root().join(".dockerenv"), "").expect("written");
        let proposal = Proposal::of(&wish(&tree)).expect("computed");
        let paths: Vec<&str> = proposal.files.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, ["etc/mysql/mariadb.conf.d/60-millrace.cnf"]);
        let is_host = |name| matches!(&find(&proposal, name).then, Then::Set { place: Place::Host(_), .. });
        assert!(is_host("net.core.somaxconn") && is_host("vm.swappiness") && is_host("LimitNOFILE"));
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
