//! The settings: a row each, with its rule, its reason and where it comes from.

mod fpm;
mod nginx;

use super::budget::{Budget, DatabaseParts, MB};
use super::machine::{Database, Kind, Machine};
use super::orders::Orders;
use super::{Purpose, Server};

/// WordPress for 10,000 clients a second on a server with 2 cores and 2 GB (nginx, PHP 7, MySQL, WP Super Cache).
const VPS: &str = "WordPress for 10,000 clients/s on 2 GB";
/// A LAMP server for 4,250 concurrent users, improved in seven rounds.
const LAMP: &str = "LAMP for 4,250 users";
/// WordPress with WooCommerce: a million concurrent connections on a server with 128 cores and 512 GB.
const MILLION: &str = "1,000,000 connections on one server";

/// Where a setting belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// sysctl.
    Kernel,
    /// Limits of processes.
    Limits,
    /// MariaDB or MySQL.
    Database,
    /// Pools of php-fpm.
    Fpm,
    /// php.ini values: in `[php.ini]` of Millrace's configuration, or of php-fpm.
    Php,
    /// nginx.
    Nginx,
    /// Millrace's configuration.
    Millrace,
}

impl Layer {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Kernel => "kernel",
            Layer::Limits => "limits",
            Layer::Database => "database",
            Layer::Fpm => "php-fpm",
            Layer::Php => "php",
            Layer::Nginx => "nginx",
            Layer::Millrace => "millrace",
        }
    }
}

/// A setting.
pub struct Row {
    /// Where it belongs.
    pub layer: Layer,
    /// Its name there.
    pub name: &'static str,
    /// Whether a higher value that is in force already stays.
    pub is_least: bool,
    /// Its value on a machine.
    pub rule: fn(&Case<'_>) -> Value,
    /// How the value is computed, for the reference.
    pub how: &'static str,
    /// What it does for a web server.
    pub reason: &'static str,
    /// Where the row comes from.
    pub source: &'static [&'static str],
}

impl Row {
    /// Whether each network namespace - and so each container - has a value of its own.
    pub fn is_of_namespace(&self) -> bool {
        self.name.starts_with("net.ipv4.") || self.name == "net.core.somaxconn"
    }
}

/// What a rule looks at.
pub struct Case<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Its memory.
    pub budget: &'a Budget,
    /// What it is for.
    pub purpose: Purpose,
    /// What serves the sites.
    pub server: Server,
    /// Whether php-fpm runs PHP.
    pub fpm: bool,
    /// Names of rows that the user leaves out.
    pub without: &'a [String],
}

/// A rule's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The value, and the figures that it comes from.
    Set(String, String),
    /// Nothing to set here: why.
    Nothing(String),
}

fn set(value: impl ToString, evidence: impl Into<String>) -> Value {
    Value::Set(value.to_string(), evidence.into())
}

fn nothing(why: impl Into<String>) -> Value {
    Value::Nothing(why.into())
}

impl Case<'_> {
    /// The kernel's part of the budget as evidence.
    fn sockets(&self, part: &str) -> String {
        format!("{part} of {} MB for the kernel's sockets", self.budget.sockets / MB)
    }

    /// A value of the database, if there is one here.
    fn database(&self, rule: impl Fn(&Database, &DatabaseParts) -> Value) -> Value {
        match (&self.machine.database, &self.budget.parts) {
            (Ok(database), Some(parts)) => rule(database, parts),
            (Err(why), _) => nothing(why),
            (Ok(_), None) => nothing("the database has no part in the budget"),
        }
    }

    /// A table of tracked connections is only there while packets are filtered by connection.
    fn tracking(&self, value: u64, part: &str) -> Value {
        match self.machine.root.has("proc/sys/net/netfilter/nf_conntrack_max") {
            true => set(value, self.sockets(part)),
            false => nothing("the kernel does not track connections here (nf_conntrack is not loaded)"),
        }
    }

    /// Buffers of 16 MB where one connection can't take a considerable part of the memory.
    fn buffer(&self) -> u64 {
        if self.budget.memory >= 4 << 30 { 16 * MB } else { 4 * MB }
    }

    /// Memory for workers, bytes.
    fn worker_room(&self) -> u64 {
        self.budget.php - self.budget.opcache * self.budget.opcaches
    }

    fn memory(&self) -> String {
        format!("{} MB of memory", self.budget.memory / MB)
    }
}

macro_rules! row {
    ($layer:ident, $name:literal, $least:literal, $rule:expr, $how:literal, $reason:literal, $source:expr) => {
        Row {
            layer: Layer::$layer,
            name: $name,
            is_least: $least,
            rule: $rule,
            how: $how,
            reason: $reason,
            source: $source,
        }
    };
}

use row;

/// All rows.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    let all = [KERNEL, LIMITS, DATABASE, fpm::ROWS, PHP, nginx::ROWS, MILLRACE];
    all.into_iter().flatten()
}

const KERNEL: &[Row] = &[
    row!(
        Kernel,
        "net.core.somaxconn",
        true,
        |case| set(case.budget.queued(), case.sockets("1/4")),
        "a quarter of the kernel's sockets by 2.5 KB, at most 65535",
        "New connections wait here while the server is busy; beyond it the kernel drops them.",
        &[LAMP, MILLION, "tuned: at least 2048"]
    ),
    row!(
        Kernel,
        "net.ipv4.tcp_max_syn_backlog",
        true,
        |case| set(case.budget.half_open(), case.sockets("1/8")),
        "an eighth of the kernel's sockets by 320 bytes, at most 65535",
        "Half-open connections of a crowd on slow lines wait here.",
        &[LAMP, MILLION]
    ),
    row!(
        Kernel,
        "net.ipv4.ip_local_port_range",
        false,
        |_| set("10240 65535", "services listen below 10240"),
        "10240 65535; the sources have 1024 or 1025, from where a connection may take the port of a service that starts later (3306, 6379, 8080)",
        "Each connection to a database or another server needs a port of its own.",
        &[LAMP, MILLION]
    ),
    row!(
        Kernel,
        "net.ipv4.tcp_tw_reuse",
        false,
        |_| set(1, "safe by TCP timestamps (RFC 6191)"),
        "1",
        "A port in TIME_WAIT can be used for the next connection to the database or another server.",
        &[MILLION]
    ),
    row!(
        Kernel,
        "net.ipv4.tcp_max_tw_buckets",
        true,
        |case| set(case.budget.waiting(), case.sockets("1/8")),
        "an eighth of the kernel's sockets by 256 bytes, at most 1000000",
        "Closed connections wait here for a minute; beyond it they are closed without.",
        &[LAMP]
    ),
    row!(
        Kernel,
        "net.ipv4.tcp_fin_timeout",
        false,
        |_| set(15, "no client needs longer for its last packet"),
        "15",
        "Clients that never finish closing hold a socket for that many seconds.",
        &["LAMP for 4,250 users (30)", MILLION]
    ),
    row!(
        Kernel,
        "net.ipv4.tcp_rmem",
        true,
        |case| set(format!("4096 131072 {}", case.buffer()), case.memory()),
        "4096 131072 16777216; at most 4194304 below 4 GB. The source's 87380 is from before Linux 4.20, which begins with 131072",
        "Uploads over long lines need a window of their bandwidth times their delay.",
        &[MILLION]
    ),
    row!(
        Kernel,
        "net.ipv4.tcp_wmem",
        true,
        |case| set(format!("4096 65536 {}", case.buffer()), case.memory()),
        "4096 65536 16777216; at most 4194304 below 4 GB",
        "A whole page fits into the buffer at once, and large files use the bandwidth of long lines.",
        &[MILLION]
    ),
    row!(
        Kernel,
        "net.ipv4.tcp_slow_start_after_idle",
        false,
        |_| set(0, "a visitor's next click comes after a pause"),
        "0",
        "A connection that was kept open sends the next page as fast as the one before.",
        &["tuned: 0"]
    ),
    row!(
        Kernel,
        "net.netfilter.nf_conntrack_max",
        true,
        |case| case.tracking(case.budget.tracked(), "1/2"),
        "half of the kernel's sockets by 320 bytes; the source has 196608",
        "A packet filter remembers each connection; if this table is full, the kernel drops packets.",
        &[LAMP]
    ),
    row!(
        Kernel,
        "net.netfilter.nf_conntrack_buckets",
        true,
        |case| case.tracking(case.budget.tracked() / 4, "1/4 of the entries, from 1/2"),
        "a quarter of nf_conntrack_max; the source has 32768",
        "With too few buckets the kernel searches long lists for each packet.",
        &[LAMP]
    ),
    row!(
        Kernel,
        "fs.file-max",
        true,
        |case| set(
            2_000_000.max(case.budget.descriptors() * 3 / 2),
            "descriptors cost memory only when used"
        ),
        "2000000, and half more than the server's descriptors",
        "The machine's limit of open files and connections must be above that of the server.",
        &[MILLION]
    ),
    row!(
        Kernel,
        "fs.nr_open",
        true,
        |case| set(case.budget.descriptors().max(1_048_576), case_descriptors(case)),
        "as LimitNOFILE, at least the kernel's default of 1048576",
        "No process may have a higher limit of descriptors than this.",
        &[MILLION]
    ),
    row!(
        Kernel,
        "vm.swappiness",
        false,
        |_| set(10, "the budget leaves nothing to swap out"),
        "10",
        "Memory of PHP and the database is not swapped out for the sake of cached files.",
        &["WordPress for 10,000 clients/s on 2 GB (no swap)", "tuned: 10"]
    ),
];

fn case_descriptors(case: &Case<'_>) -> String {
    format!("{} MB for connections of 4 KB, and 20,000 for files and PHP", case.budget.connections / MB)
}

const LIMITS: &[Row] = &[row!(
    Limits,
    "LimitNOFILE",
    false,
    |case| set(case.budget.descriptors(), case_descriptors(case)),
    "what the connections' memory holds, and 20,000 for files and PHP; 65536 to 2000000",
    "A connection needs a descriptor; with the default of 1024 the server stops accepting at once.",
    &[MILLION]
)];

const DATABASE: &[Row] = &[
    row!(
        Database,
        "max_connections",
        false,
        |case| case.database(|_, parts| {
            set(
                parts.connections,
                format!(
                    "{} PHP workers, the rest for WP-CLI, cron and administrators",
                    case.budget.workers * case.budget.hosts
                ),
            )
        }),
        "PHP workers and a quarter more, at least 16 more; at least 64 from 256 MB on; at most 5000",
        "Each PHP worker may have a connection; more than the machine can work on make all slower.",
        &[
            "WordPress for 10,000 clients/s on 2 GB (64)",
            "LAMP for 4,250 users (500, 764)",
            "1,000,000 connections on one server (5000 at most)"
        ]
    ),
    row!(
        Database,
        "innodb_buffer_pool_size",
        false,
        |case| case.database(|_, parts| {
            set(
                megabytes(parts.pool),
                format!(
                    "{} MB for the database, less {} MB for itself, connections and buffers",
                    case.budget.database / MB,
                    (parts.sum() - parts.pool) / MB
                ),
            )
        }),
        "the rest of the database's part of the budget",
        "Tables and indexes that fit are read from memory.",
        &[
            "WordPress for 10,000 clients/s on 2 GB (512M)",
            "1,000,000 connections on one server (half of memory)"
        ]
    ),
    row!(
        Database,
        "innodb_log_file_size",
        true,
        |case| case.database(|database, parts| match database.is_from(Kind::Mysql, (8, 0, 30)) {
            true => nothing("MySQL has innodb_redo_log_capacity instead, since 8.0.30"),
            false => set(megabytes(log(parts)), "as large as the buffer pool, on disk"),
        }),
        "as the buffer pool, 96M to 2G; on disk",
        "Bursts of writes are collected before pages have to be written to their places.",
        &["WordPress for 10,000 clients/s on 2 GB (512M)"]
    ),
    row!(
        Database,
        "innodb_redo_log_capacity",
        true,
        |case| case.database(|database, parts| match database.is_from(Kind::Mysql, (8, 0, 30)) {
            true => set(megabytes(log(parts)), "as large as the buffer pool, on disk"),
            false => nothing("only MySQL has it, since 8.0.30"),
        }),
        "as the buffer pool, 96M to 2G; on disk",
        "Bursts of writes are collected before pages have to be written to their places.",
        &["WordPress for 10,000 clients/s on 2 GB (log file 512M)"]
    ),
    row!(
        Database,
        "innodb_flush_method",
        false,
        |case| case.database(|database, _| {
            let is_default =
                database.is_from(Kind::Mariadb, (10, 6, 0)) || database.is_from(Kind::Mysql, (8, 4, 0));
            if is_default {
                nothing("O_DIRECT is the default of this version")
            } else {
                set("O_DIRECT", database.name())
            }
        }),
        "O_DIRECT, where it is not the default (MariaDB before 10.6, MySQL before 8.4)",
        "Pages are not in memory twice: in the buffer pool and in the kernel's cache.",
        &[VPS]
    ),
    row!(
        Database,
        "innodb_flush_log_at_trx_commit",
        false,
        |case| {
            case.database(|_, _| match (case.purpose, &case.machine.orders) {
            (Purpose::Shop, _) => set(1, "orders and payments: no lost second; each commit waits for the disk"),
            (_, Orders::Found(table)) => set(
                1,
                format!("{table} has orders: 2 would lose paid ones of the last second in a power failure; 1 costs a flush per commit"),
            ),
            (_, Orders::Unknown(why)) => set(1, format!("{why}: there may be orders; 1 costs a flush per commit")),
            (_, Orders::None(tables)) => set(
                2,
                format!("none of {tables} tables has orders; a power failure loses the last second of comments and edits"),
            ),
        })
        },
        "1 if the database has a table of orders, if that can't be seen, or for shops; else 2",
        "2 writes the log to disk once a second instead of with each commit: faster, but a power failure loses the last second, which may be a paid order.",
        &[VPS]
    ),
    row!(
        Database,
        "key_buffer_size",
        false,
        |case| case.database(|_, parts| set(megabytes(parts.key_buffer), "tables of WordPress are InnoDB")),
        "8M below 256 MB for the database, 16M below 1 GB, else 32M",
        "Indexes of MyISAM tables; only old tables still use it.",
        &["WordPress for 10,000 clients/s on 2 GB (32M)"]
    ),
    row!(
        Database,
        "aria_pagecache_buffer_size",
        false,
        |case| case.database(|database, parts| match database.kind {
            Kind::Mariadb => set(megabytes(parts.aria), "as key_buffer_size"),
            Kind::Mysql => nothing("only MariaDB has it"),
        }),
        "as key_buffer_size",
        "MariaDB's system tables and temporary tables on disk; its default of 128M is not in any budget.",
        &["the budget"]
    ),
    row!(
        Database,
        "thread_cache_size",
        false,
        |case| case.database(|database, parts| match database.kind {
            Kind::Mariadb =>
                nothing("MariaDB keeps up to 256 threads by default, as many as max_connections"),
            Kind::Mysql => set(parts.connections.min(100), "max_connections"),
        }),
        "MySQL: max_connections, at most 100; MariaDB's default is higher",
        "PHP opens a connection per request; a thread that is kept saves starting one.",
        &["WordPress for 10,000 clients/s on 2 GB (16)"]
    ),
    row!(
        Database,
        "query_cache_size",
        false,
        |case| case.database(|database, _| match database.is_from(Kind::Mysql, (8, 0, 0)) {
            true => nothing("MySQL has no query cache since 8.0"),
            false => set(0, format!("{} cores would wait for its one lock", case.machine.cores)),
        }),
        "0; MySQL 8 has none. The sources have 128M and 32M",
        "Each write to a table empties it under one lock; caches of pages and objects do its work better.",
        &[VPS, LAMP]
    ),
    row!(
        Database,
        "tmp_table_size",
        false,
        |case| case.database(|_, parts| temporary(parts)),
        "an eighth of the database's part by the number of queries that run at once, at most 64M",
        "Temporary tables of queries stay in memory.",
        &["WordPress for 10,000 clients/s on 2 GB (64M)"]
    ),
    row!(
        Database,
        "max_heap_table_size",
        false,
        |case| case.database(|_, parts| temporary(parts)),
        "as tmp_table_size: the lower one of both holds",
        "Temporary tables of queries stay in memory.",
        &["WordPress for 10,000 clients/s on 2 GB (64M)"]
    ),
    row!(
        Database,
        "performance_schema",
        false,
        |case| case.database(|database, _| match (database.kind, case.budget.database / MB) {
            (Kind::Mysql, 0..1_024) =>
                set("OFF", format!("{} MB for the database", case.budget.database / MB)),
            (Kind::Mysql, _) => nothing("there is enough memory for it"),
            (Kind::Mariadb, _) => nothing("OFF is MariaDB's default"),
        }),
        "OFF for MySQL below 1 GB",
        "It takes more memory than a small buffer pool.",
        &["the budget"]
    ),
];

fn megabytes(bytes: u64) -> String {
    format!("{}M", bytes / MB)
}

fn log(parts: &DatabaseParts) -> u64 {
    parts.pool.clamp(96 * MB, 2_048 * MB)
}

fn temporary(parts: &DatabaseParts) -> Value {
    set(megabytes(parts.temporary), format!("{} queries at once", parts.temporary_at_once))
}

const PHP: &[Row] = &[
    row!(
        Php,
        "opcache.memory_consumption",
        false,
        |case| set(
            case.budget.opcache / MB,
            format!("{} MB for PHP, {} opcache(s)", case.budget.php / MB, case.budget.opcaches)
        ),
        "32, 64, 128 or 256 MB, by PHP's part of the budget",
        "All compiled scripts of a site fit; shared by all its workers.",
        &["WordPress for 10,000 clients/s on 2 GB (128)"]
    ),
    row!(
        Php,
        "opcache.max_accelerated_files",
        false,
        |case| match case.purpose {
            Purpose::Wordpress => set(16_229, "a WordPress with plugins has 4,000 to 10,000 scripts"),
            Purpose::Shop => set(32_531, "a shop with plugins has 8,000 to 20,000 scripts"),
        },
        "16229; for shops 32531 (PHP rounds to such primes)",
        "Each script needs an entry; what finds none is compiled again and again.",
        &["WordPress for 10,000 clients/s on 2 GB (4,000 or more)"]
    ),
    row!(
        Php,
        "opcache.interned_strings_buffer",
        false,
        |case| set(
            if case.budget.opcache < 128 * MB { 8 } else { 16 },
            format!("part of {} MB of opcache", case.budget.opcache / MB)
        ),
        "16 MB; 8 MB with less than 128 MB of opcache",
        "Names and texts are in memory once, not once per worker.",
        &["WordPress for 10,000 clients/s on 2 GB (8 or more)"]
    ),
    row!(
        Php,
        "memory_limit",
        false,
        |case| set(
            if case.purpose == Purpose::Shop { "256M" } else { "128M" },
            "peaks of single scripts come from the head-room"
        ),
        "128M; for shops 256M, which WooCommerce recommends",
        "A script that grows without end is stopped.",
        &[VPS]
    ),
    row!(
        Php,
        "post_max_size",
        true,
        |case| uploads(case, "64M"),
        "64M, for php-fpm; Millrace sets it from `http.body_bytes`",
        "Forms with images and videos are not refused.",
        &[VPS]
    ),
    row!(
        Php,
        "upload_max_filesize",
        true,
        |case| uploads(case, "50M"),
        "50M, for php-fpm; Millrace sets it from `http.body_bytes`",
        "Images and videos are not refused.",
        &[VPS]
    ),
];

fn uploads(case: &Case<'_>, value: &str) -> Value {
    match case.fpm {
        true => set(value, "the rest of a form needs little"),
        false => nothing("Millrace sets it from http.body_bytes"),
    }
}

const MILLRACE: &[Row] = &[
    row!(
        Millrace,
        "php.workers",
        false,
        |case| set(
            case.budget.workers,
            format!(
                "{} MB for PHP without opcache, {} MB each, {} cores",
                case.worker_room() / MB,
                case.budget.worker / MB,
                case.machine.cores
            )
        ),
        "PHP's part of the budget without opcache, by a worker's memory (measured by a running server, else 64 MB); at most 8 per core, or 16; divided among PHP hosts",
        "All workers together stay in their part of the budget.",
        &["WordPress for 10,000 clients/s on 2 GB (20)", "the budget"]
    ),
    row!(
        Millrace,
        "php.worker_memory",
        false,
        |case| set(toml_megabytes(case.budget.worker), "a worker's share of the budget"),
        "the memory of a worker in the budget",
        "A worker that has kept more than its share is replaced after its request.",
        &["the budget"]
    ),
    row!(
        Millrace,
        "cache.memory",
        false,
        |case| set(toml_megabytes(case.budget.pages), "its part of the budget"),
        "9 % of the budget; for shops 5 %",
        "Cached pages are sent from memory.",
        &["the budget"]
    ),
    row!(
        Millrace,
        "object_cache.memory",
        false,
        |case| set(toml_megabytes(case.budget.objects), "its part of the budget"),
        "3 % of the budget; for shops 4 %",
        "What WordPress has read from its database stays in memory; the source has APCu and memcached for that.",
        &[VPS]
    ),
    row!(
        Millrace,
        "files.cache_bytes",
        false,
        |case| set(toml_megabytes(case.budget.files), "its part of the budget"),
        "3 % of the budget, for shops 2 %; at most 64 MB",
        "Small files are sent from memory.",
        &["the budget"]
    ),
    row!(
        Millrace,
        "server.connection_memory",
        false,
        |case| set(toml_megabytes(case.budget.connections), "its part of the budget"),
        "7 % of the budget, for shops 6 %",
        "A crowd of connections can't take the memory of PHP and the database.",
        &["the budget"]
    ),
    row!(
        Millrace,
        "server.backlog",
        false,
        |case| {
            set(
                (case.budget.queued() / case.machine.cores).max(4_096),
                format!("{} for {} event loops", case.budget.queued(), case.machine.cores),
            )
        },
        "net.core.somaxconn of the budget by the number of cores; at least 4096, the default",
        "Each event loop has a queue of its own for new connections.",
        &[LAMP, MILLION]
    ),
];

fn toml_megabytes(bytes: u64) -> String {
    format!("{}MB", bytes / MB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_complete() {
        let mut names: Vec<&str> = rows().map(|row| row.name).collect();
        assert!(names.len() > 35, "{}", names.len());
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows().count(), "a name is there twice");
        for row in rows() {
            assert!(
                row.reason.ends_with('.') && !row.how.is_empty() && !row.source.is_empty(),
                "{}",
                row.name
            );
        }
    }
}
