//! MariaDB and MySQL of each site: connections, statements, locks. `storage` has buffers, logs and tables.

use super::{Certainty, Check, Measured, Rank, Scope, both, double, error, measure, one, tuned, warning};
use crate::facts::{Blind, Span, percent};

/// What the rows are about.
const SCOPE: Scope = Scope::Site;

/// Rows that statements read one after the other for each join without an index, at least: fewer are tables so small that an index is of no use.
const ROWS_OF_A_JOIN: f64 = 1_000.0;

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
        "Select_full_join, Handler_read_rnd_next",
        warning(1.0, "per second, if statements read 1,000 rows one after the other for each"),
        "MySQLTuner: 250 per day, for the whole server; a rate of 1 per second is a page that does it. Joins of small tables cost nothing",
        "an index on the columns of the join",
        "The work grows with the product of both tables.",
        Low,
        Advice,
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
        "db-threads",
        "threads of the database",
        "Threads_created; thread_cache_size",
        warning(10.0, "created per second"),
        "chosen: a site whose connections stay open, or with a cache of threads, starts almost none",
        "thread_cache_size, connections that stay open",
        "Each connection costs a new thread.",
        Medium,
        Work,
        threads
    ),
];

pub(super) fn status(span: &Span<'_>, name: &str) -> Result<f64, Blind> {
    span.now(&format!("db.status.{name}"))
}

pub(super) fn rise(span: &Span<'_>, name: &str) -> Result<f64, Blind> {
    span.rise(&format!("db.status.{name}"))
}

pub(super) fn variable(span: &Span<'_>, name: &str) -> Result<f64, Blind> {
    span.now(&format!("db.variables.{name}"))
}

/// A finding's cure as a line of the server's configuration.
pub(super) fn set(name: &str, wanted: &str, now: f64) -> String {
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
            "[mysqld] max_connections = 300 (`SHOW VARIABLES LIKE 'max_connections'` says what it is now), or fewer PHP workers (php.workers)",
        );
    }
    let (now, most) = (status(span, "Threads_connected")?, variable(span, "max_connections")?);
    let refused = rise(span, "Connection_errors_max_connections").unwrap_or(0.0);
    one(
        if refused > 0.0 { 100.0 } else { percent(now, most) },
        "the connections of the database are used up",
        format!("{now:.0} of {most:.0} in use; {refused:.0} refused in {:.0} s", span.seconds),
        tuned(format!("{}, or fewer PHP workers (php.workers)", set("max_connections", &double(most), most))),
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
        tuned(format!("{}, or fewer PHP workers (php.workers)", set("max_connections", &double(most), most))),
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
    let (count, rows) = (rise(span, "Select_full_join")?, rise(span, "Handler_read_rnd_next")?);
    let rate = if rows >= count * ROWS_OF_A_JOIN { count / span.seconds } else { 0.0 };
    one(
        rate,
        "statements join tables without an index",
        format!("Select_full_join {rate:.1} per second, Handler_read_rnd_next {:.0}", rows / span.seconds),
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
        let joins: &[(&str, f64)] = &[("Select_full_join", 50.0), ("Handler_read_rnd_next", 60_000.0)];
        case(
            "db-joins",
            rise(joins),
            rise(&[("Select_full_join", 50.0), ("Handler_read_rnd_next", 40_000.0)]),
        );
        case(
            "db-joins",
            rise(joins),
            rise(&[("Select_full_join", 2.0), ("Handler_read_rnd_next", 60_000.0)]),
        );
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
    fn locks_and_threads() {
        case("db-locks", rise(&[("Innodb_row_lock_time", 5_000.0)]), rise(&[("Innodb_row_lock_time", 50.0)]));
        case("db-deadlocks", rise(&[("Innodb_deadlocks", 1.0)]), |_| ());
        case("db-threads", rise(&[("Threads_created", 100.0)]), rise(&[("Threads_created", 10.0)]));
    }
}
