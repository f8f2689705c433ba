//! What databases keep: buffers, logs, temporary tables, engines; SQLite.

use super::database::{rise, set, status, variable};
use super::{
    Certainty, Check, Measured, Rank, Scope, both, bytes, double, error, note, one, size_up, tuned, warning,
};
use crate::facts::{Blind, Span, percent};

/// What the rows are about.
const SCOPE: Scope = Scope::Site;

pub(super) const CHECKS: &[Check] = &[
    row!(
        "db-pool-hits",
        "hits of the buffer pool",
        "Innodb_buffer_pool_reads, Innodb_buffer_pool_read_requests",
        both(5.0, 10.0, "% read from disk of at least 10,000 requests between the looks"),
        "MySQLTuner: less than 90 % hits is bad",
        "innodb_buffer_pool_size",
        "The database waits for the disk.",
        Medium,
        Pressure,
        pool_hits
    ),
    row!(
        "db-pool-wait",
        "free pages of the buffer pool",
        "Innodb_buffer_pool_wait_free",
        error(1.0, "waits between the looks"),
        "MySQLTuner: more than 0",
        "innodb_buffer_pool_size",
        "Statements wait until a page is written.",
        High,
        Pressure,
        pool_wait
    ),
    row!(
        "db-pool-size",
        "size of the buffer pool",
        "innodb_buffer_pool_size, size of the site's tables",
        note(200.0, "% of the pool, while reads from disk are at least 1 %"),
        "MySQLTuner: the pool should hold the data",
        "innodb_buffer_pool_size",
        "Pages that need rarely used data wait for the disk.",
        Low,
        Advice,
        pool_size
    ),
    row!(
        "db-log-waits",
        "waits for the redo log",
        "Innodb_log_waits",
        error(1.0, "waits between the looks"),
        "MySQLTuner: more than 0",
        "innodb_log_buffer_size",
        "Writing statements wait.",
        High,
        Limit,
        log_waits
    ),
    row!(
        "db-log-size",
        "size of the redo log",
        "Innodb_os_log_written; innodb_log_file_size",
        note(100.0, "% of the log written per hour, at the present rate"),
        "Percona: the log should hold an hour of writing",
        "innodb_log_file_size",
        "Pages are flushed in bursts.",
        Low,
        Advice,
        log_size
    ),
    row!(
        "db-flush",
        "writes that wait for the disk",
        "Innodb_os_log_fsyncs or Innodb_data_fsyncs; innodb_flush_log_at_trx_commit",
        note(200.0, "flushes per second with innodb_flush_log_at_trx_commit = 1"),
        "chosen; MariaDB manual: 2 flushes once per second, and can lose a second of writes in a crash of the machine",
        "innodb_flush_log_at_trx_commit = 2",
        "Each write waits for the disk.",
        Medium,
        Advice,
        flush
    ),
    row!(
        "db-temporary",
        "temporary tables on disk",
        "Created_tmp_disk_tables, Created_tmp_tables",
        warning(25.0, "% of at least 50 between the looks, and 5 per second"),
        "MySQLTuner: 25 %; tables with text columns always go to disk in old versions",
        "tmp_table_size and max_heap_table_size, or fewer columns",
        "Sorting and grouping write files.",
        Medium,
        Work,
        temporary
    ),
    row!(
        "db-sorts",
        "sorts that need several passes",
        "Sort_merge_passes, Sort_scan, Sort_range",
        warning(10.0, "% of at least 50 sorts between the looks"),
        "MySQLTuner: 10 %",
        "sort_buffer_size, or an index in the order of the result",
        "Sorting writes files.",
        Medium,
        Work,
        sorts
    ),
    row!(
        "db-tables",
        "open tables",
        "Opened_tables; table_open_cache",
        warning(5.0, "opened per second"),
        "MySQLTuner: less than 20 % hits of the table cache",
        "table_open_cache",
        "Each opening reads the table's definition.",
        Medium,
        Limit,
        tables
    ),
    row!(
        "db-files",
        "files of the database",
        "Open_files, open_files_limit",
        warning(85.0, "% of the limit"),
        "MySQLTuner: 85 %",
        "open_files_limit, LimitNOFILE of its unit",
        "Tables cannot be opened.",
        High,
        Limit,
        files
    ),
    row!(
        "db-query-cache",
        "query cache",
        "Qcache_lowmem_prunes, Qcache_not_cached; query_cache_type",
        note(10.0, "entries thrown out per second, with the query cache on"),
        "MariaDB manual: its one lock does not scale; MySQL 8 has none",
        "query_cache_type = 0",
        "Statements wait for the lock of the query cache.",
        Medium,
        Advice,
        query_cache
    ),
    row!(
        "db-engine",
        "tables that lock as a whole",
        "ENGINE of information_schema.TABLES",
        warning(1.0, "tables of the site in MyISAM"),
        "MySQL manual: MyISAM locks the table for each write; WordPress's default is InnoDB",
        "ALTER TABLE ... ENGINE=InnoDB",
        "Readers wait for writers.",
        Medium,
        Work,
        engine
    ),
    row!(
        "sqlite-journal",
        "journal of the SQLite database",
        "PRAGMA journal_mode, time of the last change of the file",
        warning(1.0, "where it is not wal, and the database is written between the looks"),
        "sqlite.org/wal.html: readers do not block writers, and a writer does not block readers",
        "PRAGMA journal_mode=wal",
        "Each writer blocks all readers.",
        Medium,
        Work,
        journal
    ),
    row!(
        "sqlite-waste",
        "unused pages of the SQLite database",
        "PRAGMA freelist_count, size of the write-ahead log",
        note(50.0, "% of the file, or a log of 64 MB (50)"),
        "sqlite.org: VACUUM gives unused pages back; a long log slows readers",
        "VACUUM",
        "Reading takes more of the disk's time and of memory.",
        Low,
        Advice,
        waste
    ),
];

/// Percent of the pool's read requests that went to disk between the looks, and their number.
fn from_disk(span: &Span<'_>) -> Result<(f64, f64), Blind> {
    let (disk, all) =
        (rise(span, "Innodb_buffer_pool_reads")?, rise(span, "Innodb_buffer_pool_read_requests")?);
    Ok((percent(disk, all), all))
}

fn pool_hits(span: &Span<'_>) -> Measured {
    let (share, all) = from_disk(span)?;
    let size = variable(span, "innodb_buffer_pool_size")?;
    one(
        if all >= 10_000.0 { share } else { 0.0 },
        "the buffer pool of the database is too small",
        format!(
            "{share:.1} % of {all:.0} reads went to disk in {:.0} s; pool {}, data of this site {}",
            span.seconds,
            bytes(size),
            bytes(span.now("db.data_bytes")?)
        ),
        tuned(set("innodb_buffer_pool_size", &size_up(size * 2.0), size)),
    )
}

fn pool_wait(span: &Span<'_>) -> Measured {
    let (waits, size) =
        (rise(span, "Innodb_buffer_pool_wait_free")?, variable(span, "innodb_buffer_pool_size")?);
    one(
        waits,
        "statements wait for a free page of the buffer pool",
        format!("Innodb_buffer_pool_wait_free +{waits:.0} in {:.0} s", span.seconds),
        tuned(set("innodb_buffer_pool_size", &size_up(size * 2.0), size)),
    )
}

fn pool_size(span: &Span<'_>) -> Measured {
    let (share, all) = from_disk(span)?;
    let (size, data) = (variable(span, "innodb_buffer_pool_size")?, span.now("db.data_bytes")?);
    one(
        if share >= 1.0 && all >= 1_000.0 { percent(data, size) } else { 0.0 },
        "the tables of the site do not fit into the buffer pool",
        format!("data {}, pool {}; {share:.1} % of the reads went to disk", bytes(data), bytes(size)),
        tuned(set("innodb_buffer_pool_size", &size_up(data * 1.1), size)),
    )
}

fn log_waits(span: &Span<'_>) -> Measured {
    let waits = rise(span, "Innodb_log_waits")?;
    one(
        waits,
        "writing statements wait for the redo log's buffer",
        format!("Innodb_log_waits +{waits:.0} in {:.0} s", span.seconds),
        "[mysqld] innodb_log_buffer_size = 64M (default 16M), then restart the database",
    )
}

fn log_size(span: &Span<'_>) -> Measured {
    let hourly = rise(span, "Innodb_os_log_written")? / span.seconds * 3_600.0;
    let size = match variable(span, "innodb_redo_log_capacity") {
        Ok(size) => size,
        Err(_) => {
            variable(span, "innodb_log_file_size")?
                * variable(span, "innodb_log_files_in_group").unwrap_or(1.0).max(1.0)
        }
    };
    one(
        percent(hourly, size),
        "the redo log is small for what is written",
        format!("{} per hour at the present rate, log {}", bytes(hourly), bytes(size)),
        set("innodb_log_file_size", &size_up(hourly), size),
    )
}

fn flush(span: &Span<'_>) -> Measured {
    let mode = variable(span, "innodb_flush_log_at_trx_commit")?;
    let flushes =
        rise(span, "Innodb_os_log_fsyncs").or_else(|_| rise(span, "Innodb_data_fsyncs"))? / span.seconds;
    one(
        if mode == 1.0 { flushes } else { 0.0 },
        "each write of the database waits for the disk",
        format!("{flushes:.0} flushes per second, innodb_flush_log_at_trx_commit = {mode:.0}"),
        "[mysqld] innodb_flush_log_at_trx_commit = 2 (now 1): a crash of the machine can then lose the last second; not for shops that must not lose an order",
    )
}

fn temporary(span: &Span<'_>) -> Measured {
    let (disk, all) = (rise(span, "Created_tmp_disk_tables")?, rise(span, "Created_tmp_tables")?);
    let size = variable(span, "tmp_table_size")?;
    let is_much = all >= 50.0 && disk / span.seconds >= 5.0;
    one(
        if is_much { percent(disk, all) } else { 0.0 },
        "many temporary tables are written to disk",
        format!("{disk:.0} of {all:.0} in {:.0} s; tmp_table_size {}", span.seconds, bytes(size)),
        format!(
            "[mysqld] tmp_table_size = {0} and max_heap_table_size = {0} (now {1}), then restart; tables with long texts go to disk anyway",
            size_up(size * 2.0),
            bytes(size)
        ),
    )
}

fn sorts(span: &Span<'_>) -> Measured {
    let passes = rise(span, "Sort_merge_passes")?;
    let all = rise(span, "Sort_scan")? + rise(span, "Sort_range")?;
    one(
        if all >= 50.0 { percent(passes, all) } else { 0.0 },
        "sorts do not fit into memory",
        format!("Sort_merge_passes +{passes:.0} of {all:.0} sorts in {:.0} s", span.seconds),
        "[mysqld] sort_buffer_size = 4M (default 2M in MariaDB, 256K in MySQL), then restart; better: an index in the order of the result",
    )
}

fn tables(span: &Span<'_>) -> Measured {
    let rate = rise(span, "Opened_tables")? / span.seconds;
    let size = variable(span, "table_open_cache")?;
    one(
        rate,
        "tables are opened again and again",
        format!("Opened_tables {rate:.0} per second; table_open_cache {size:.0}"),
        set("table_open_cache", &double(size), size),
    )
}

fn files(span: &Span<'_>) -> Measured {
    let (open, most) = (status(span, "Open_files")?, variable(span, "open_files_limit")?);
    one(
        percent(open, most),
        "the database has almost no file descriptors left",
        format!("{open:.0} of {most:.0}"),
        format!("{}; LimitNOFILE={} in its unit", set("open_files_limit", &double(most), most), double(most)),
    )
}

fn query_cache(span: &Span<'_>) -> Measured {
    status(span, "Uptime")?;
    let size = variable(span, "query_cache_size")
        .map_err(|_| Blind::DoesNotApply("this database has no query cache".to_owned()))?;
    let is_on = span.now.text("db.variables.query_cache_type").eq_ignore_ascii_case("ON") && size > 0.0;
    let rate = rise(span, "Qcache_lowmem_prunes")? / span.seconds;
    one(
        if is_on { rate } else { 0.0 },
        "the query cache throws out as much as it takes in",
        format!("Qcache_lowmem_prunes {rate:.0} per second; query_cache_size {}", bytes(size)),
        "[mysqld] query_cache_type = 0 and query_cache_size = 0, then restart the database; the page cache does its work",
    )
}

fn engine(span: &Span<'_>) -> Measured {
    let engines = span.now.list("db.engines")?;
    let old = engines.iter().find(|engine| engine.text("name") == "MyISAM");
    let (tables, size) = old
        .map_or((0.0, 0.0), |old| (old.figure("tables").unwrap_or(0.0), old.figure("bytes").unwrap_or(0.0)));
    one(
        tables,
        format!("{tables:.0} tables of the site are in MyISAM"),
        format!("{tables:.0} tables, {}", bytes(size)),
        "for each: ALTER TABLE name ENGINE=InnoDB (now MyISAM); `SHOW TABLE STATUS WHERE Engine = 'MyISAM'` lists them; it locks the table meanwhile",
    )
}

/// Why there are no figures of SQLite: the site has another database, or it could not be asked.
fn no_sqlite(span: &Span<'_>) -> Blind {
    let other = || Blind::DoesNotApply("the site does not use SQLite".to_owned());
    status(span, "Uptime").err().unwrap_or_else(other)
}

fn journal(span: &Span<'_>) -> Measured {
    let mode = span.now.word("sqlite.journal_mode").map_err(|_| no_sqlite(span))?;
    let is_written = span.rise("sqlite.changed_seconds")? > 0.0;
    one(
        f64::from(u8::from(mode != "wal" && is_written)),
        "the SQLite database locks out readers while it is written",
        format!("journal_mode {mode}; written between the looks"),
        format!(
            "as the owner of the file: sqlite3 {} 'PRAGMA journal_mode=wal' (now {mode}); the file remembers it",
            span.now.text("sqlite.file")
        ),
    )
}

fn waste(span: &Span<'_>) -> Measured {
    let (free, all) =
        (span.now("sqlite.free_pages").map_err(|_| no_sqlite(span))?, span.now("sqlite.pages")?);
    let log = span.now("sqlite.wal_bytes")?;
    let size = span.now("sqlite.bytes")?;
    let share = if size >= 10e6 { percent(free, all) } else { 0.0 };
    one(
        if log >= 64e6 { 50.0_f64.max(share) } else { share },
        "the SQLite database has much unused space",
        format!("{free:.0} of {all:.0} pages unused; log {}", bytes(log)),
        format!(
            "sqlite3 {} VACUUM, while the site is in maintenance; the log shrinks when no reader is open",
            span.now.text("sqlite.file")
        ),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::facts::Facts;
    use crate::testing::{Pair, case};

    fn set(name: &'static str, value: f64) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| p.site().set(name, value)
    }

    fn rise(rises: &'static [(&'static str, f64)]) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| {
            for (name, by) in rises {
                p.rise_of("sites", 0, &format!("db.status.{name}"), *by);
            }
        }
    }

    #[test]
    fn tables_and_sorts() {
        case(
            "db-temporary",
            rise(&[("Created_tmp_disk_tables", 60.0), ("Created_tmp_tables", 100.0)]),
            rise(&[("Created_tmp_disk_tables", 6.0), ("Created_tmp_tables", 10.0)]),
        );
        case(
            "db-sorts",
            rise(&[("Sort_merge_passes", 20.0), ("Sort_scan", 100.0)]),
            rise(&[("Sort_merge_passes", 2.0), ("Sort_scan", 100.0)]),
        );
        case("db-tables", rise(&[("Opened_tables", 100.0)]), rise(&[("Opened_tables", 10.0)]));
        case("db-files", set("db.status.Open_files", 30_000.0), set("db.status.Open_files", 300.0));
    }

    #[test]
    fn buffers_and_logs() {
        let reads = |disk: f64| {
            move |p: &mut Pair| {
                p.rise_of("sites", 0, "db.status.Innodb_buffer_pool_reads", disk);
                p.rise_of("sites", 0, "db.status.Innodb_buffer_pool_read_requests", 100_000.0);
            }
        };
        case("db-pool-hits", reads(20_000.0), reads(500.0));
        case("db-pool-wait", rise(&[("Innodb_buffer_pool_wait_free", 1.0)]), |_| ());
        let large = |p: &mut Pair| {
            reads(2_000.0)(p);
            p.site().set("db.data_bytes", 1e9);
        };
        case("db-pool-size", large, set("db.data_bytes", 1e9));
        case("db-log-waits", rise(&[("Innodb_log_waits", 1.0)]), |_| ());
        case("db-log-size", rise(&[("Innodb_os_log_written", 5e6)]), rise(&[("Innodb_os_log_written", 1e4)]));
        case("db-flush", rise(&[("Innodb_os_log_fsyncs", 5_000.0)]), rise(&[("Innodb_os_log_fsyncs", 50.0)]));
    }

    #[test]
    fn engines() {
        let prunes = |p: &mut Pair| {
            rise(&[("Qcache_lowmem_prunes", 500.0)])(p);
            p.site().say("db.variables.query_cache_type", "ON");
        };
        case("db-query-cache", prunes, rise(&[("Qcache_lowmem_prunes", 500.0)]));
        let engine = |name: &'static str| {
            move |p: &mut Pair| {
                p.site().put(
                    "db.engines",
                    vec![Facts::from_json(&json!({"name": name, "tables": 3, "bytes": 9}))],
                )
            }
        };
        case("db-engine", engine("MyISAM"), engine("InnoDB"));
        let sqlite = |mode: &'static str, free: u32, written: f64| {
            move |p: &mut Pair| {
                p.site().merge(&Facts::from_json(&json!({"sqlite": {"journal_mode": mode, "bytes": 20_000_000, "wal_bytes": 0, "free_pages": free, "pages": 5_000}})));
                p.rise_of("sites", 0, "sqlite.changed_seconds", written);
            }
        };
        case("sqlite-journal", sqlite("delete", 0, 3.0), sqlite("wal", 0, 3.0));
        // Readers do not lock each other out.
        case("sqlite-journal", sqlite("delete", 0, 3.0), sqlite("delete", 0, 0.0));
        case("sqlite-waste", sqlite("wal", 4_000, 0.0), sqlite("wal", 40, 0.0));
    }
}
