//! The memory budget: one sum for the database, PHP, caches, connections and the kernel's tables.
//!
//! ```text
//!  memory of the machine
//!  |---- percent: the budget -------------------------------------------------------|---- head-room ----|
//!  | database | PHP | pages | objects | files | connections | sockets | file cache  |
//! ```
//!
//! Each part is a share of the budget in per mille. What PHP can't use - more workers than the processors can keep busy - goes to the
//! database, up to half of the memory, and the rest to the kernel's cache of files, which needs no setting.
//!
//! Where nginx and php-fpm serve the sites, there are no pages, objects and files of Millrace in memory: PHP has their parts, too.

use super::Purpose;

/// Bytes in a megabyte.
pub const MB: u64 = 1 << 20;
/// Memory of a worker that was not measured: WordPress with a shop has 30 to 60 MB of its own (as `php.workers` assumes, too).
pub const WORKER: u64 = 64 * MB;
/// Maximum connections of the database; more only make each one slower (1,000,000 connections on one server).
pub const CONNECTIONS_MOST: u64 = 5_000;
/// An idle connection of Millrace, with the kernel's part: docs/connections.md.
pub const CONNECTION: u64 = 4 << 10;
/// An entry of the kernel's connection tracking (`nf_conntrack` in /proc/slabinfo has objects of 256 to 320 bytes).
const TRACKED: u64 = 320;
/// A socket in TIME_WAIT (`tw_sock_TCP` in /proc/slabinfo: 240 to 256 bytes).
const WAITING: u64 = 256;
/// A connection in an accept queue (`TCP` in /proc/slabinfo: about 2,400 bytes).
const QUEUED: u64 = 2_560;
/// A half-open connection (`request_sock_TCP` in /proc/slabinfo: 304 to 312 bytes).
const HALF_OPEN: u64 = 320;
/// A connection of nginx: its pools and its socket in the kernel.
const NGINX_CONNECTION: u64 = 8 << 10;
/// A connection of MariaDB 10.11 has 0.18 MB after a join with a sort (measured with 199 of them); while it sorts, it has up to 2 MB more.
const DATABASE_CONNECTION: u64 = MB / 2;

/// What the budget is made for.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Memory of the machine or of its control group, bytes.
    pub memory: u64,
    /// Processors.
    pub cores: u64,
    /// How much of the memory may be planned, percent.
    pub percent: u64,
    /// What runs.
    pub purpose: Purpose,
    /// Memory of the database without caches and connections, bytes; `None`: it is not on this machine.
    pub database: Option<u64>,
    /// Whether the database rounds its buffer pool up to chunks of 128 MB, or of 1 GB.
    pub chunked: bool,
    /// Measured private memory of a PHP worker, bytes.
    pub worker: Option<u64>,
    /// Number of PHP hosts: sites with different PHP settings share neither workers nor opcache. Or of pools of php-fpm.
    pub hosts: u64,
    /// Whether php-fpm runs PHP: all its pools have one opcache.
    pub fpm: bool,
    /// Whether Millrace serves the sites; otherwise nginx.
    pub millrace: bool,
}

/// The budget, bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Budget {
    pub memory: u64,
    pub total: u64,
    pub database: u64,
    pub php: u64,
    pub pages: u64,
    pub objects: u64,
    pub files: u64,
    pub connections: u64,
    pub sockets: u64,
    pub file_cache: u64,
    /// Workers of each PHP host.
    pub workers: u64,
    /// Memory of one worker.
    pub worker: u64,
    /// Each opcache.
    pub opcache: u64,
    /// Number of opcaches.
    pub opcaches: u64,
    pub hosts: u64,
    /// What the database does with its part.
    pub parts: Option<DatabaseParts>,
}

/// What the database does with its part, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DatabaseParts {
    pub itself: u64,
    pub pool: u64,
    pub key_buffer: u64,
    pub aria: u64,
    /// Number of connections.
    pub connections: u64,
    pub temporary: u64,
    /// Number of temporary tables that queries may build at the same time.
    pub temporary_at_once: u64,
}

/// A machine on which not even the smallest values fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooSmall {
    /// What does not fit.
    pub what: String,
    /// What to do.
    pub next: String,
}

/// Shares of the budget, per mille.
struct Weights {
    database: u64,
    php: u64,
    pages: u64,
    objects: u64,
    files: u64,
    connections: u64,
    sockets: u64,
}

impl Weights {
    fn of(need: &Need) -> Weights {
        let mut weights = match need.purpose {
            // A third for the database, as on the 2 GB server that serves 10,000 clients a second.
            Purpose::Wordpress => Weights {
                database: 330,
                php: 360,
                pages: 90,
                objects: 30,
                files: 30,
                connections: 70,
                sockets: 60,
            },
            // A shop reads and writes more, and fewer of its pages can be cached.
            Purpose::Shop => Weights {
                database: 420,
                php: 330,
                pages: 50,
                objects: 40,
                files: 20,
                connections: 60,
                sockets: 50,
            },
        };
        if !need.millrace {
            weights.php += weights.pages + weights.objects + weights.files;
            (weights.pages, weights.objects, weights.files) = (0, 0, 0);
        }
        if need.database.is_none() {
            weights.php += weights.database / 2;
            weights.database = 0;
        }
        weights
    }
}

impl Budget {
    /// Divides the memory.
    ///
    /// # Errors
    /// Not even one PHP worker, or a small database, fits.
    pub fn of(need: Need) -> Result<Budget, TooSmall> {
        let total = need.memory / 100 * need.percent;
        let weights = Weights::of(&need);
        let share = |weight: u64| total / 1_000 * weight;
        let whole = |bytes: u64| bytes / MB * MB;
        let mut budget = Budget {
            memory: need.memory,
            total,
            database: share(weights.database),
            php: share(weights.php),
            pages: whole(share(weights.pages)),
            objects: whole(share(weights.objects)),
            files: whole(share(weights.files).min(64 * MB)),
            connections: whole(share(weights.connections)),
            sockets: share(weights.sockets),
            file_cache: 0,
            workers: 0,
            worker: need.worker.map_or(WORKER, |bytes| bytes.div_ceil(MB) * MB).max(16 * MB),
            opcache: 0,
            opcaches: if need.fpm { 1 } else { need.hosts.max(1) },
            hosts: need.hosts.max(1),
            parts: None,
        };
        budget.run_php(need)?;
        if let Some(itself) = need.database {
            budget.run_database(need, itself)?;
        }
        budget.file_cache = total - budget.planned();
        Ok(budget)
    }

    /// Opcache and workers in PHP's part; what they leave goes to the database, up to half of the memory.
    fn run_php(&mut self, need: Need) -> Result<(), TooSmall> {
        let hosts = self.hosts;
        self.opcache = match self.php / self.opcaches / MB {
            0..=127 => 32,
            128..=383 => 64,
            384..=2_047 => 128,
            _ => 256,
        } * MB;
        let room = self.php.saturating_sub(self.opcache * self.opcaches) / self.worker;
        let useful = (8 * need.cores).max(16).max(hosts);
        self.workers = room.min(useful) / hosts;
        if self.workers == 0 {
            let least = (self.opcache * self.opcaches + self.worker * hosts) / MB;
            return Err(TooSmall {
                what: format!(
                    "PHP may have {} MB of the budget of {} MB; {hosts} {}{} with one worker need {least} MB",
                    self.php / MB,
                    self.total / MB,
                    if need.fpm { "pool" } else { "PHP host" },
                    if hosts == 1 { "" } else { "s" },
                ),
                next: "add memory, raise --memory, put the database on another machine, or let sites share their PHP settings".to_owned(),
            });
        }
        let used = self.opcaches * self.opcache + hosts * self.workers * self.worker;
        let left = self.php - used;
        self.php = used;
        if need.database.is_some() {
            self.database += left.min((need.memory / 2).saturating_sub(self.database));
        }
        Ok(())
    }

    fn run_database(&mut self, need: Need, itself: u64) -> Result<(), TooSmall> {
        let workers = self.workers * self.hosts;
        let is_small = self.database < 256 * MB;
        // Only the system's own tables, and temporary tables on disk, use these.
        let old_tables = match self.database / MB {
            0..=255 => 8,
            256..=1_023 => 16,
            _ => 32,
        } * MB;
        let connections = (workers + (workers / 4).max(16)).max(if is_small { 0 } else { 64 });
        let at_once = workers.min(need.cores).max(1);
        let mut parts = DatabaseParts {
            itself,
            pool: 0,
            key_buffer: old_tables,
            aria: old_tables,
            connections: connections.min(CONNECTIONS_MOST),
            temporary: (self.database / 8 / at_once / MB).clamp(1, 64) * MB,
            temporary_at_once: at_once,
        };
        // The pool needs a tenth more for its descriptions of pages (MariaDB 10.11: sizeof(buf_block_t) and hash tables).
        parts.pool = rounded(self.database.saturating_sub(parts.sum()) / 11 * 10, need.chunked);
        if parts.pool < 16 * MB {
            return Err(TooSmall {
                what: format!(
                    "the database may have {} MB of the budget of {} MB; without its buffer pool it needs {} MB",
                    self.database / MB,
                    self.total / MB,
                    parts.sum() / MB
                ),
                next: "add memory, raise --memory, or put the database on another machine".to_owned(),
            });
        }
        self.parts = Some(parts);
        Ok(())
    }

    /// The parts that settings bound.
    fn planned(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum::<u64>() - self.file_cache
    }

    /// The parts of the budget by name, in the order of the sum.
    pub fn parts(&self) -> [(&'static str, u64); 8] {
        [
            ("database", self.database),
            ("PHP", self.php),
            ("page cache", self.pages),
            ("object cache", self.objects),
            ("open files", self.files),
            ("connections", self.connections),
            ("kernel sockets", self.sockets),
            ("file cache", self.file_cache),
        ]
    }

    /// What is not planned: the system, and peaks of scripts.
    pub fn headroom(&self) -> u64 {
        self.memory - self.total
    }

    /// Entries of the table of tracked connections; a multiple of 2,048, so that a quarter of it is whole pages of hash buckets.
    pub fn tracked(&self) -> u64 {
        (self.sockets / 2 / TRACKED / 2_048 * 2_048).clamp(2_048, 4 << 20)
    }

    /// Sockets in TIME_WAIT.
    pub fn waiting(&self) -> u64 {
        (self.sockets / 8 / WAITING).min(1_000_000)
    }

    /// Connections in accept queues.
    pub fn queued(&self) -> u64 {
        (self.sockets / 4 / QUEUED).min(65_535)
    }

    /// Half-open connections.
    pub fn half_open(&self) -> u64 {
        (self.sockets / 8 / HALF_OPEN).min(65_535)
    }

    /// Workers that a pool of php-fpm starts with.
    pub fn first_workers(&self) -> u64 {
        self.workers.min(8)
    }

    /// Workers that wait for requests, at least.
    pub fn spare_workers(&self) -> u64 {
        (self.first_workers() / 2).max(1)
    }

    /// Connections of each process of nginx, one process per core; those to php-fpm count, too.
    pub fn nginx_connections(&self, cores: u64) -> u64 {
        (self.connections / NGINX_CONNECTION / cores).clamp(1_024, 65_535)
    }

    /// File descriptors of the server: connections, files, PHP.
    pub fn descriptors(&self) -> u64 {
        (self.connections / CONNECTION + 20_000).clamp(65_536, 2_000_000)
    }
}

impl DatabaseParts {
    /// All of it, bytes.
    pub fn sum(&self) -> u64 {
        self.itself
            + self.pool
            + self.pool / 10
            + self.key_buffer
            + self.aria
            + self.connections * DATABASE_CONNECTION
            + self.temporary * self.temporary_at_once
    }
}

/// Pools of MySQL and older MariaDB grow in chunks of 128 MB, from 1 GB on in eight of them: other sizes would be rounded up.
fn rounded(pool: u64, chunked: bool) -> u64 {
    let unit = match pool / MB {
        128..=1_023 if chunked => 128,
        1_024.. if chunked => 1_024,
        _ => 1,
    };
    pool / (unit * MB) * (unit * MB)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1 << 30;

    fn need(memory: u64, cores: u64) -> Need {
        Need {
            memory,
            cores,
            percent: 75,
            purpose: Purpose::Wordpress,
            database: Some(64 * MB),
            chunked: false,
            worker: None,
            hosts: 1,
            fpm: false,
            millrace: true,
        }
    }

    /// The sum holds, and so do the sums of each part.
    fn check(need: Need, budget: &Budget) {
        let sum: u64 = budget.parts().iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(sum, budget.total, "{budget:?}");
        assert!(
            budget.total + budget.headroom() == need.memory
                && budget.total <= need.memory / 100 * need.percent
        );
        let php = budget.opcaches * budget.opcache + budget.hosts * budget.workers * budget.worker;
        assert!(php <= budget.php, "{budget:?}");
        let (spare, first) = (budget.spare_workers(), budget.first_workers());
        assert!(spare >= 1 && spare <= first && first <= budget.workers, "{budget:?}");
        assert!(budget.parts.map_or(0, |parts| parts.sum()) <= budget.database, "{budget:?}");
        let kernel = budget.tracked() * TRACKED
            + budget.waiting() * WAITING
            + budget.queued() * QUEUED
            + budget.half_open() * HALF_OPEN;
        assert!(kernel <= budget.sockets, "{budget:?}");
        let has_caches = budget.pages >= MB && budget.objects >= MB;
        assert!(budget.workers >= 1 && has_caches == need.millrace && budget.connections >= MB);
    }

    #[test]
    fn no_machine_gets_more_than_its_budget() {
        let sizes = (0..=11).flat_map(|power| {
            [0, 1, 3, 77, 128, 251].map(|more| ((512 * MB) << power) + ((more * MB) << power) / 256)
        });
        let sizes = sizes.filter(|size| *size <= 1 << 40);
        for memory in sizes.collect::<Vec<_>>() {
            for cores in 1..=128 {
                for purpose in [Purpose::Wordpress, Purpose::Shop] {
                    for database in [None, Some(64 * MB)] {
                        for millrace in [true, false] {
                            let need = need(memory, cores);
                            let fpm = !millrace;
                            let need =
                                Need { purpose, database, chunked: cores % 2 == 0, fpm, millrace, ..need };
                            let budget = Budget::of(need).unwrap_or_else(|why| panic!("{need:?}: {why:?}"));
                            check(need, &budget);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn any_percent_host_and_worker() {
        let (mut fits, mut refused) = (0, 0);
        for memory in [512 * MB, GB + 13, 2 * GB, 7 * GB + 12_345, 24 * GB, 512 * GB] {
            for percent in [10, 33, 50, 75, 95] {
                for hosts in [1, 2, 7, 300] {
                    for worker in [None, Some(1), Some(110 * MB + 5), Some(3 * GB)] {
                        let need = Need { percent, hosts, worker, ..need(memory, 4) };
                        match Budget::of(need) {
                            Ok(budget) => {
                                fits += 1;
                                check(need, &budget);
                            }
                            Err(why) => {
                                refused += 1;
                                assert!(!why.next.is_empty() && why.what.contains("MB"), "{why:?}");
                            }
                        }
                    }
                }
            }
        }
        assert!(fits > 200 && refused > 100, "{fits} {refused}");
    }

    #[test]
    fn the_reference_machines() {
        let small = Budget::of(need(2 * GB, 2)).expect("fits");
        let parts = small.parts.expect("a database");
        assert_eq!((parts.connections, parts.key_buffer, parts.temporary), (64, 16 * MB, 34 * MB));
        assert_eq!((parts.pool, small.opcache, small.workers), (319 * MB, 128 * MB, 6));
        // nginx: PHP has the memory of Millrace's caches, for 8 workers per core or 16; the rest is the database's.
        let nginx = Need { fpm: true, millrace: false, ..need(2 * GB, 2) };
        let pools = Budget::of(Need { hosts: 3, ..nginx }).expect("fits");
        let nginx = Budget::of(nginx).expect("fits");
        assert_eq!((nginx.workers, nginx.first_workers(), nginx.spare_workers()), (10, 8, 4));
        assert_eq!((nginx.opcache, nginx.pages, nginx.nginx_connections(2)), (128 * MB, 0, 6_848));
        assert_eq!((pools.workers, pools.opcaches), (3, 1));
        let large = Budget::of(Need { purpose: Purpose::Shop, ..need(512 * GB, 128) }).expect("fits");
        let parts = large.parts.expect("a database");
        assert_eq!((large.workers, large.descriptors()), (1_024, 2_000_000));
        assert!(parts.pool > 190 * GB && large.database <= 256 * GB, "{parts:?}");
    }

    #[test]
    fn too_small_says_what_to_do() {
        let why = Budget::of(Need { percent: 20, ..need(512 * MB, 1) }).expect_err("too small");
        assert!(why.what.contains("PHP may have 36 MB") && why.next.starts_with("add memory"), "{why:?}");
        let many = Budget::of(Need { hosts: 300, ..need(2 * GB, 2) }).expect_err("too many");
        assert!(many.what.contains("300 PHP hosts"), "{many:?}");
    }
}
