//! MariaDB, MySQL and SQLite of each site.

use super::{
    Certainty, Check, Measured, Rank, Scope, both, bytes, double, error, measure, note, one, size_up, warning,
};
use crate::facts::{Blind, Span, percent};

macro_rules! row {
    ($id:literal, $title:literal, $signal:literal, $at:expr, $source:literal, $cure:literal, $cost:literal, $certainty:ident, $rank:ident, $measure:ident) => {
        Check {
            id: $id,
            title: $title,
            signal: $signal,
            at: $at,
            source: $source,
            cure: $cure,
            cost: $cost,
            certainty: Certainty::$certainty,
            rank: Rank::$rank,
            scope: Scope::Site,
            measure: $measure,
        }
    };
}

pub(super) const CHECKS: &[Check] = &[
    row!(
        "db-down",
        "the database answers",
        "a connection with the site's own credentials",
        error(1.0, "where it does not"),
        "WordPress shows `Error establishing a database connection`",
        "start it; correct DB_HOST, DB_USER, DB_PASSWORD in wp-config.php",
        "Every page that is not cached is an error.",
        High,
        Outage,
        down
    ),
    row!(
        "db-connections",
        "connections of the database",
        "Threads_connected, Connection_errors_max_connections, error 1040; max_connections",
        both(70.0, 90.0, "% of max_connections; a refused connection is 100"),
        "netdata health.d/mysql: 70 and 90 %",
        "max_connections, or fewer PHP workers (php.workers)",
        "Pages end in `Too many connections`.",
        High,
        Limit,
        connections
    ),
    row!(
        "db-connections-most",
        "connections of the database at their highest",
        "Max_used_connections since its start; max_connections",
        warning(85.0, "% of max_connections, where none was refused yet"),
        "MySQLTuner: 85 %",
        "max_connections, or fewer PHP workers (php.workers)",
        "The next crowd gets `Too many connections`.",
        Medium,
        Advice,
        connections_most
    ),
    row!(
        "db-aborted",
        "connections that fail",
        "Aborted_connects, Connections",
        warning(3.0, "% of at least 20 connections between the looks"),
        "MySQLTuner: 3 %",
        "look for wrong passwords, and for timeouts of the network",
        "Pages end in an error.",
        Medium,
        Symptom,
        aborted
    ),
    row!(
        "db-missing-index",
        "statements without an index",
        "SHOW FULL PROCESSLIST, ten times; EXPLAIN of what runs",
        both(
            1_000.0,
            20_000.0,
            "rows read without an index by a statement that was running in at least 2 samples"
        ),
        "MySQL manual, EXPLAIN: type ALL without a key reads the whole table",
        "CREATE INDEX",
        "The database reads the whole table each time, and its processor time goes there.",
        High,
        Work,
        missing_index
    ),
    row!(
        "db-slow",
        "slow statements",
        "Slow_queries, Questions",
        both(5.0, 20.0, "% of at least 20 statements between the looks"),
        "MySQLTuner: 5 %",
        "the slow log names them",
        "Pages wait for the database.",
        High,
        Work,
        slow
    ),
    row!(
        "db-long",
        "statements that run for seconds",
        "SHOW FULL PROCESSLIST",
        both(2.0, 10.0, "seconds"),
        "long_query_time is 10 s by default; a page should not take 2",
        "an index, or a limit: max_statement_time",
        "Pages wait for it, and others for its locks.",
        High,
        Work,
        long
    ),
    row!(
        "db-joins",
        "joins without an index",
        "Select_full_join",
        warning(1.0, "per second"),
        "MySQLTuner: 250 per day, for the whole server; a rate of 1 per second is a page that does it",
        "an index on the columns of the join",
        "The work grows with the product of both tables.",
        Medium,
        Work,
        joins
    ),
    row!(
        "db-scans",
        "rows read one after the other",
        "Handler_read_rnd_next, Questions",
        warning(10_000.0, "rows per statement, of at least 20 statements"),
        "Handler_read_rnd_next in the MySQL manual: a high value means tables without the right indexes",
        "the slow log with log_queries_not_using_indexes",
        "Processor time of the database.",
        Medium,
        Work,
        scans
    ),
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
        "R1 of the reference systems: 2, which can lose a second of writes in a crash of the machine",
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
        "db-locks",
        "waits for rows",
        "Innodb_row_lock_current_waits, Innodb_row_lock_time",
        both(50.0, 500.0, "ms of waiting per second"),
        "half a second of waiting in each second is half a worker",
        "shorter transactions; sessions and counters elsewhere",
        "Requests run one after the other.",
        High,
        Work,
        row_locks
    ),
    row!(
        "db-deadlocks",
        "deadlocks",
        "Innodb_deadlocks",
        warning(1.0, "between the looks"),
        "each is a statement that fails",
        "`SHOW ENGINE INNODB STATUS` shows both statements",
        "A page ends in an error.",
        High,
        Symptom,
        deadlocks
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
        "db-threads",
        "threads of the database",
        "Threads_created; thread_cache_size",
        warning(10.0, "created per second"),
        "R1 of the reference systems: thread_cache_size 16",
        "thread_cache_size, connections that stay open",
        "Each connection costs a new thread.",
        Medium,
        Work,
        threads
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
        "PRAGMA journal_mode",
        warning(1.0, "where it is not wal"),
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

fn status(span: &Span<'_>, name: &str) -> Result<f64, Blind> {
    span.now(&format!("db.status.{name}"))
}

fn rise(span: &Span<'_>, name: &str) -> Result<f64, Blind> {
    span.rise(&format!("db.status.{name}"))
}

fn variable(span: &Span<'_>, name: &str) -> Result<f64, Blind> {
    span.now(&format!("db.variables.{name}"))
}

/// A finding's cure as a line of the server's configuration.
fn set(name: &str, wanted: &str, now: f64) -> String {
    format!("[mysqld] {name} = {wanted} (now {now:.0}), then restart the database")
}

/// The server's error when connecting; 0: connected.
fn error_code(span: &Span<'_>) -> Result<f64, Blind> {
    match span.now("db.error.code") {
        Ok(code) => Ok(code),
        // Connected: then it has reported its status.
        Err(_) => status(span, "Uptime").map(|_| 0.0),
    }
}

fn down(span: &Span<'_>) -> Measured {
    let code = error_code(span)?;
    // 1040 and 1203 say that it is there, but full.
    let is_down = code != 0.0 && code != 1040.0 && code != 1203.0;
    let is_denied = code == 1045.0 || code == 1044.0 || code == 1049.0;
    let cure = if is_denied {
        "correct DB_NAME, DB_USER and DB_PASSWORD in wp-config.php, or the grants of this user"
    } else {
        "`systemctl status mariadb` (or mysql), its error log (`journalctl -u mariadb`), DB_HOST in wp-config.php"
    };
    one(
        f64::from(u8::from(is_down)),
        "the database does not accept the site's connection",
        format!("error {code:.0}: {} (DB_HOST {})", span.now.text("db.error.text"), span.now.text("db.host")),
        cure,
    )
}

fn connections(span: &Span<'_>) -> Measured {
    let code = error_code(span)?;
    if code != 0.0 {
        let is_full = code == 1040.0 || code == 1203.0;
        return one(
            f64::from(u8::from(is_full)) * 100.0,
            "the database refuses connections: all are in use",
            format!("error {code:.0}: {}", span.now.text("db.error.text")),
            "[mysqld] max_connections = 300 (`SHOW VARIABLES LIKE 'max_connections'` says what it is now), or fewer PHP workers (php.workers); each connection takes 1 to 3 MB",
        );
    }
    let (now, most) = (status(span, "Threads_connected")?, variable(span, "max_connections")?);
    let refused = rise(span, "Connection_errors_max_connections").unwrap_or(0.0);
    one(
        if refused > 0.0 { 100.0 } else { percent(now, most) },
        "the connections of the database are used up",
        format!("{now:.0} of {most:.0} in use; {refused:.0} refused in {:.0} s", span.seconds),
        format!("{}, or fewer PHP workers (php.workers)", set("max_connections", &double(most), most)),
    )
}

fn connections_most(span: &Span<'_>) -> Measured {
    let (used, most) = (status(span, "Max_used_connections")?, variable(span, "max_connections")?);
    let now = status(span, "Threads_connected")?;
    one(
        if percent(now, most) < 70.0 { percent(used, most) } else { 0.0 },
        "the connections of the database were almost used up",
        format!(
            "Max_used_connections {used:.0} of {most:.0} since its start {:.0} h ago",
            status(span, "Uptime")? / 3_600.0
        ),
        format!("{}, or fewer PHP workers (php.workers)", set("max_connections", &double(most), most)),
    )
}

fn aborted(span: &Span<'_>) -> Measured {
    let (bad, all) = (rise(span, "Aborted_connects")?, rise(span, "Connections")?);
    one(
        if all >= 20.0 { percent(bad, all) } else { 0.0 },
        "connections to the database fail",
        format!("Aborted_connects +{bad:.0} of {all:.0} in {:.0} s", span.seconds),
        "the database's error log names user and host: `SET GLOBAL log_warnings = 2` (MariaDB); usually a wrong password",
    )
}

fn missing_index(span: &Span<'_>) -> Measured {
    let mut all = Vec::new();
    for running in span.now.list("db.running")? {
        let count = running.figure("count")?;
        let Ok(rows) = running.figure("scan_rows") else { continue };
        let table = running.text("scan_table");
        let statement = running.text("statement");
        all.push(measure(
            if count >= 2.0 { rows } else { 0.0 },
            format!("a statement reads the whole table {table}"),
            format!("running in {count:.0} of 10 samples: {statement}; EXPLAIN: type ALL, {rows:.0} rows, no key"),
            match column(statement) {
                Some(column) => format!("CREATE INDEX millrace_{column} ON {table} ({column}); (if it is a text, of its first 191 characters: {column}(191)); or deactivate the plugin that asks this"),
                None => format!("an index on the columns that its WHERE, JOIN or ORDER BY compares; or deactivate the plugin that asks this of {table}"),
            },
        ));
    }
    Ok(all)
}

/// The first column that a statement's WHERE compares, if it is as plain as `WHERE a = ?`.
fn column(statement: &str) -> Option<&str> {
    let at = statement.to_ascii_uppercase().find(" WHERE ")? + 7;
    // The shape is ASCII where this finds something; a position inside of a character finds nothing.
    let rest = statement.get(at..)?.trim_start_matches(['(', ' ']);
    let name = rest.split(|c: char| c.is_whitespace() || "=<>!".contains(c)).next()?;
    let name = name.trim_matches('`').rsplit('.').next()?.trim_matches('`');
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !name.chars().all(|c| c.is_ascii_digit())).then_some(name)
}

fn slow(span: &Span<'_>) -> Measured {
    let (slow, all) = (rise(span, "Slow_queries")?, rise(span, "Questions")?);
    one(
        if all >= 20.0 { percent(slow, all) } else { 0.0 },
        "many statements are slow",
        format!(
            "Slow_queries +{slow:.0} of {all:.0} in {:.0} s (long_query_time {} s)",
            span.seconds,
            variable(span, "long_query_time")?
        ),
        "SET GLOBAL slow_query_log = 1, then `mysqldumpslow` on the slow log names the statements",
    )
}

fn long(span: &Span<'_>) -> Measured {
    let mut all = Vec::new();
    for running in span.now.list("db.running")? {
        let (seconds, statement) = (running.figure("seconds")?, running.text("statement"));
        all.push(measure(
            seconds,
            format!("a statement has been running for {seconds:.0} s"),
            format!("{statement} ({})", running.text("state")),
            "an index if it reads whole tables (db-missing-index); `SHOW FULL PROCESSLIST` and KILL to end it now; max_statement_time (MariaDB) or max_execution_time (MySQL) as a limit",
        ));
    }
    Ok(all)
}

fn joins(span: &Span<'_>) -> Measured {
    let rate = rise(span, "Select_full_join")? / span.seconds;
    one(
        rate,
        "statements join tables without an index",
        format!("Select_full_join {rate:.1} per second"),
        "SET GLOBAL log_queries_not_using_indexes = 1, slow_query_log = 1; then an index on the columns of the join",
    )
}

fn scans(span: &Span<'_>) -> Measured {
    let (rows, all) = (rise(span, "Handler_read_rnd_next")?, rise(span, "Questions")?);
    let each = if all >= 20.0 { rows / all } else { 0.0 };
    one(
        each,
        format!("a statement reads {each:.0} rows on average, one after the other"),
        format!("Handler_read_rnd_next +{rows:.0} for {all:.0} statements in {:.0} s", span.seconds),
        "SET GLOBAL log_queries_not_using_indexes = 1, slow_query_log = 1; then an index on what the statements in the slow log compare",
    )
}

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
        set("innodb_buffer_pool_size", &size_up(size * 2.0), size),
    )
}

fn pool_wait(span: &Span<'_>) -> Measured {
    let (waits, size) =
        (rise(span, "Innodb_buffer_pool_wait_free")?, variable(span, "innodb_buffer_pool_size")?);
    one(
        waits,
        "statements wait for a free page of the buffer pool",
        format!("Innodb_buffer_pool_wait_free +{waits:.0} in {:.0} s", span.seconds),
        set("innodb_buffer_pool_size", &size_up(size * 2.0), size),
    )
}

fn pool_size(span: &Span<'_>) -> Measured {
    let (share, all) = from_disk(span)?;
    let (size, data) = (variable(span, "innodb_buffer_pool_size")?, span.now("db.data_bytes")?);
    one(
        if share >= 1.0 && all >= 1_000.0 { percent(data, size) } else { 0.0 },
        "the tables of the site do not fit into the buffer pool",
        format!("data {}, pool {}; {share:.1} % of the reads went to disk", bytes(data), bytes(size)),
        set("innodb_buffer_pool_size", &size_up(data * 1.1), size),
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

fn row_locks(span: &Span<'_>) -> Measured {
    let waiting = rise(span, "Innodb_row_lock_time")? / span.seconds;
    let (now, waits) = (status(span, "Innodb_row_lock_current_waits")?, rise(span, "Innodb_row_lock_waits")?);
    one(
        waiting,
        "statements wait for rows that others have locked",
        format!(
            "{waiting:.0} ms of waiting per second; {waits:.0} waits in {:.0} s, {now:.0} now",
            span.seconds
        ),
        "`SHOW ENGINE INNODB STATUS` names the tables; counters and sessions in wp_options are the usual ones: move them to an object cache",
    )
}

fn deadlocks(span: &Span<'_>) -> Measured {
    let count = rise(span, "Innodb_deadlocks")?;
    one(
        count,
        format!("{count:.0} deadlocks"),
        format!("Innodb_deadlocks +{count:.0} in {:.0} s", span.seconds),
        "`SHOW ENGINE INNODB STATUS` shows the last one with both statements",
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

fn threads(span: &Span<'_>) -> Measured {
    let rate = rise(span, "Threads_created")? / span.seconds;
    let size = variable(span, "thread_cache_size")?;
    one(
        rate,
        "the database starts a thread for each connection",
        format!("Threads_created {rate:.0} per second; thread_cache_size {size:.0}"),
        set("thread_cache_size", &format!("{:.0}", (size * 2.0).max(64.0)), size),
    )
}

fn query_cache(span: &Span<'_>) -> Measured {
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

fn no_sqlite() -> Blind {
    Blind::DoesNotApply("the site does not use SQLite".to_owned())
}

fn journal(span: &Span<'_>) -> Measured {
    let mode = span.now.word("sqlite.journal_mode").map_err(|_| no_sqlite())?;
    one(
        f64::from(u8::from(mode != "wal")),
        "the SQLite database locks out readers while it is written",
        format!("journal_mode {mode}"),
        format!(
            "define( 'SQLITE_JOURNAL_MODE', 'WAL' ); in wp-config.php (now {mode}), or `sqlite3 FILE 'PRAGMA journal_mode=wal'`"
        ),
    )
}

fn waste(span: &Span<'_>) -> Measured {
    let (free, all) = (span.now("sqlite.free_pages").map_err(|_| no_sqlite())?, span.now("sqlite.pages")?);
    let log = span.now("sqlite.wal_bytes")?;
    let size = span.now("sqlite.bytes")?;
    let share = if size >= 10e6 { percent(free, all) } else { 0.0 };
    one(
        if log >= 64e6 { 50.0_f64.max(share) } else { share },
        "the SQLite database has much unused space",
        format!("{free:.0} of {all:.0} pages unused; log {}", bytes(log)),
        "`sqlite3 FILE VACUUM` while the site is in maintenance; the log shrinks when no reader is open",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::column;
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

    fn refused(code: f64) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| {
            p.site().merge(&Facts::from_json(&json!({"db": {"error": {"code": code, "text": "no"}}})))
        }
    }

    #[test]
    fn connections() {
        case("db-down", refused(2002.0), refused(1040.0));
        case("db-connections", refused(1040.0), refused(2002.0));
        case(
            "db-connections",
            set("db.status.Threads_connected", 140.0),
            set("db.status.Threads_connected", 90.0),
        );
        case(
            "db-connections-most",
            set("db.status.Max_used_connections", 140.0),
            set("db.status.Max_used_connections", 100.0),
        );
        case(
            "db-aborted",
            rise(&[("Aborted_connects", 5.0), ("Connections", 100.0)]),
            rise(&[("Aborted_connects", 5.0), ("Connections", 10.0)]),
        );
    }

    fn running(value: serde_json::Value) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| p.site().put("db.running", vec![Facts::from_json(&value)])
    }

    #[test]
    fn statements() {
        let scan = |count: u32| {
            running(
                json!({"statement": "SELECT * FROM wp_log WHERE ip = ?", "count": count, "seconds": 1, "scan_table": "wp_log", "scan_rows": 90000}),
            )
        };
        case("db-missing-index", scan(6), scan(1));
        case("db-long", running(json!({"statement": "SELECT ?", "count": 9, "seconds": 12})), scan(1));
        case(
            "db-slow",
            rise(&[("Slow_queries", 10.0), ("Questions", 100.0)]),
            rise(&[("Slow_queries", 10.0), ("Questions", 1_000.0)]),
        );
        case("db-joins", rise(&[("Select_full_join", 50.0)]), rise(&[("Select_full_join", 2.0)]));
        let many: &[(&str, f64)] = &[("Handler_read_rnd_next", 9e6), ("Questions", 100.0)];
        case("db-scans", rise(many), rise(&[("Handler_read_rnd_next", 9e6), ("Questions", 10_000.0)]));
        let mut pair = Pair::healthy();
        scan(6)(&mut pair);
        assert!(pair.finding("db-missing-index").cure.starts_with("CREATE INDEX millrace_ip ON wp_log (ip)"));
    }

    #[test]
    fn columns() {
        assert_eq!(column("SELECT * FROM t WHERE `t`.`a_b` = ? AND c"), Some("a_b"));
        assert_eq!(column("select * from t where (meta_value='?')"), Some("meta_value"));
        assert_eq!(column("SELECT * FROM t WHERE LOWER(a) = ?"), None);
        assert_eq!(column("SELECT * FROM t WHERE 1=1"), None);
        assert_eq!(column("SELECT é FROM t"), None);
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
    fn tables_sorts_and_locks() {
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
        case("db-locks", rise(&[("Innodb_row_lock_time", 5_000.0)]), rise(&[("Innodb_row_lock_time", 50.0)]));
        case("db-deadlocks", rise(&[("Innodb_deadlocks", 1.0)]), |_| ());
        case("db-tables", rise(&[("Opened_tables", 100.0)]), rise(&[("Opened_tables", 10.0)]));
        case("db-files", set("db.status.Open_files", 30_000.0), set("db.status.Open_files", 300.0));
        case("db-threads", rise(&[("Threads_created", 100.0)]), rise(&[("Threads_created", 10.0)]));
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
        let sqlite = |mode: &'static str, free: u32| {
            move |p: &mut Pair| {
                p.site().merge(&Facts::from_json(&json!({"sqlite": {"journal_mode": mode, "bytes": 20_000_000, "wal_bytes": 0, "free_pages": free, "pages": 5_000}})));
            }
        };
        case("sqlite-journal", sqlite("delete", 0), sqlite("wal", 0));
        case("sqlite-waste", sqlite("wal", 4_000), sqlite("wal", 40));
    }
}
