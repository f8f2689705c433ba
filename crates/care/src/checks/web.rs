//! nginx and php-fpm where they serve the sites.

use super::{Certainty, Check, Measure, Measured, Rank, Scope, both, bytes, double, error, measure, warning};
use crate::facts::{Blind, Facts, Span, percent};

/// What the rows are about.
const SCOPE: Scope = Scope::Machine;

pub(super) const CHECKS: &[Check] = &[
    row!(
        "fpm-children",
        "processes of php-fpm",
        "its processes by their titles, its socket in /proc/net/unix or /proc/net/tcp, pm.max_children of the pool",
        error(1.0, "requests that wait in both looks while all pm.max_children processes have one"),
        "PHP manual, FPM: pm.max_children is how many requests are served at the same time",
        "pm.max_children, by `millrace tune --server nginx`",
        "Every request for a script waits until a process is free.",
        High,
        Limit,
        children
    ),
    row!(
        "fpm-queue",
        "queue of php-fpm",
        "waiting connections of its socket in /proc/net/unix or /proc/net/tcp, listen.backlog, net.core.somaxconn",
        both(50.0, 90.0, "% of the queue"),
        "listen(2): a full queue refuses connections; of a Unix socket at once, with EAGAIN",
        "pm.max_children, then listen.backlog, by `millrace tune --server nginx`",
        "Requests wait for seconds; when the queue is full, nginx answers 502.",
        High,
        Limit,
        queue
    ),
    row!(
        "nginx-connections",
        "connections of nginx",
        "sockets in /proc/PID/fd of its worker processes, worker_connections",
        both(80.0, 95.0, "% of worker_connections in a process"),
        "nginx, ngx_core_module: worker_connections counts all connections of a process, those to php-fpm too; 95 % is as of descriptors",
        "worker_connections, by `millrace tune --server nginx`",
        "nginx closes connections of visitors that wait for their next request, then refuses new ones.",
        High,
        Limit,
        connections
    ),
    row!(
        "nginx-descriptors",
        "descriptors of nginx",
        "/proc/PID/fd and `Max open files` of /proc/PID/limits of its worker processes",
        both(85.0, 95.0, "% of the limit of a process"),
        "netdata health.d/file_descriptors: 95 %, and 85 % to stay a warning",
        "worker_rlimit_nofile, by `millrace tune --server nginx`",
        "New visitors are not accepted, and files cannot be opened.",
        High,
        Limit,
        descriptors
    ),
    row!(
        "nginx-log-limit",
        "limits that nginx has reached",
        "`worker_connections are not enough`, `Too many open files` in the error logs of nginx, by processes that still run",
        error(1.0, "lines in 10 minutes"),
        "nginx logs each connection that it cannot have, at level alert or crit",
        "worker_connections or worker_rlimit_nofile, by `millrace tune --server nginx`",
        "Visitors were refused, or got an error.",
        High,
        Limit,
        log_limits
    ),
    row!(
        "nginx-upstream-full",
        "requests that PHP's full queue refused",
        "`Resource temporarily unavailable` while connecting to upstream in the error logs of nginx",
        error(1.0, "lines in 10 minutes, after php-fpm's last restart"),
        "connect(2): EAGAIN of a Unix socket says that its queue is full",
        "pm.max_children and listen.backlog, by `millrace tune --server nginx`",
        "Visitors got 502.",
        High,
        Limit,
        upstream_full
    ),
    row!(
        "fpm-log-children",
        "php-fpm has reached pm.max_children",
        "`server reached pm.max_children setting` in the error log of php-fpm, with the value in force",
        warning(1.0, "lines in 10 minutes"),
        "php-fpm logs it once each time that all processes exist and it wants one more",
        "pm.max_children, by `millrace tune --server nginx`",
        "With a few more visitors, requests for scripts wait.",
        Medium,
        Limit,
        log_children
    ),
    row!(
        "fpm-slow",
        "slow scripts of php-fpm",
        "slow logs of pools with request_slowlog_timeout",
        warning(3.0, "requests in 10 minutes"),
        "what is slow, request_slowlog_timeout says; three, so that one crawler is no finding",
        "make the call faster that is named most often",
        "Each of them holds a process that others wait for.",
        Medium,
        Work,
        slow
    ),
    row!(
        "nginx-upstream-late",
        "requests that PHP did not answer in time",
        "`upstream timed out` in the error logs of nginx",
        both(1.0, 10.0, "lines in 10 minutes, after php-fpm's last restart"),
        "nginx gives up after fastcgi_read_timeout, by default 60 s: no visitor waits as long",
        "the slow scripts: slowlog and request_slowlog_timeout = 5s of php-fpm's pool name them",
        "Visitors got 504 after a minute.",
        High,
        Symptom,
        upstream_late
    ),
];

/// The tuner, for whichever server runs.
fn tuner(span: &Span<'_>) -> &'static str {
    if span.now("server.pid").is_ok() { "`millrace tune`" } else { "`millrace tune --server nginx`" }
}

/// What the tuner would do.
fn tuned(span: &Span<'_>, setting: &str) -> String {
    format!("{} computes {setting} by this machine's memory, and --apply writes it", tuner(span))
}

/// A measure for each pool, of those that can be measured; if none can, why.
fn each_pool(span: &Span<'_>, of: impl Fn(&Span<'_>) -> Result<Measure, Blind>) -> Measured {
    let all: Vec<Result<Measure, Blind>> = span.pairs("fpm.pools", "key")?.iter().map(of).collect();
    if all.iter().all(Result::is_err)
        && let Some(Err(why)) =
            all.iter().find(|measured| matches!(measured, Err(Blind::CouldNotLook(_)))).or(all.first())
    {
        return Err(why.clone());
    }
    Ok(all.into_iter().filter_map(Result::ok).collect())
}

fn children(span: &Span<'_>) -> Measured {
    each_pool(span, |pool| {
        let most = pool.now("max_children")?;
        // A process that an idle connection keeps for its client (fastcgi_keep_conn) cannot be told from one that works: only a queue proves it.
        let waits = |look: &Facts| -> Result<f64, Blind> {
            let is_full = look.figure("workers")? >= most && look.figure("busy")? >= most;
            Ok(if is_full { look.figure("waiting")? } else { 0.0 })
        };
        let (waiting, busy) = (pool.now("waiting")?, pool.now("busy")?);
        let value = waits(pool.before)?.min(waits(pool.now)?);
        let name = pool.now.text("name");
        let each = pool.now("memory_bytes");
        let each = each.map_or(String::new(), |each| format!(", here up to {}", bytes(each)));
        let mut found = measure(
            value,
            format!("all processes of php-fpm's pool {name} are busy"),
            format!(
                "{busy:.0} of pm.max_children = {most:.0} have a request, {waiting:.0} requests wait at {}",
                pool.now.text("listen")
            ),
            format!(
                "pm.max_children = {} (now {most:.0}) in the section [{name}] that {} reads, then reload php-fpm; each process needs memory{each}. {}. \
                 Where the processors are busy (cpu-busy), more processes do not help",
                double(most),
                pool.now.text("config"),
                tuned(span, "it and the settings that have to fit to it")
            ),
        );
        if pool.now.is_on("log.reached") {
            let ago = pool.now("log.reached_seconds")?;
            found.evidence.push(format!(
                "php-fpm's log, {ago:.0} s ago: server reached pm.max_children setting ({most:.0})"
            ));
        }
        Ok(found)
    })
}

fn queue(span: &Span<'_>) -> Measured {
    let somaxconn = span.now("sysctl.net.core.somaxconn");
    each_pool(span, |pool| {
        let waiting = pool.now("waiting")?;
        let room = match (pool.now("backlog"), &somaxconn) {
            (Ok(backlog), Ok(most)) => backlog.min(*most),
            (Ok(backlog), Err(_)) => backlog,
            (Err(_), most) => most.clone()?,
        };
        let (name, most) = (pool.now.text("name"), pool.now("max_children")?);
        Ok(measure(
            percent(waiting, room),
            format!("{waiting:.0} requests wait in the queue of php-fpm's pool {name}"),
            format!("{waiting:.0} of {room:.0} places at {}", pool.now.text("listen")),
            format!(
                "pm.max_children = {} (now {most:.0}) in the section [{name}], then reload php-fpm; a longer queue (listen.backlog and net.core.somaxconn, \
                 now {room:.0}; php-fpm must be restarted, a reload keeps the old one) only makes visitors wait longer. {}",
                double(most),
                tuned(span, "both")
            ),
        ))
    })
}

fn log_children(span: &Span<'_>) -> Measured {
    each_pool(span, |pool| {
        let (times, ago) = (pool.now("log.reached")?, pool.now("log.reached_seconds")?);
        let (name, most) = (pool.now.text("name"), pool.now("max_children")?);
        Ok(measure(
            times,
            format!("php-fpm's pool {name} has had all of its processes at work"),
            format!(
                "{times:.0} lines in its log, the last one {ago:.0} s ago: server reached pm.max_children setting ({most:.0})"
            ),
            format!(
                "pm.max_children = {} (now {most:.0}) in the section [{name}], then reload php-fpm. {}",
                double(most),
                tuned(span, "it")
            ),
        ))
    })
}

fn slow(span: &Span<'_>) -> Measured {
    each_pool(span, |pool| {
        let count = pool.now("slow.count")?;
        let place = pool.now.text("slow.place");
        let times = pool.now("slow.place_count").unwrap_or_default();
        Ok(measure(
            count,
            format!(
                "{count:.0} requests to php-fpm's pool {} took longer than {}",
                pool.now.text("name"),
                pool.now.text("slow.limit")
            ),
            format!("{times:.0} of them in {place}: {}", pool.now.text("slow.path")),
            format!(
                "look at {place}, and who calls it: the lines below it in {}",
                pool.now.text("slow.path")
            ),
        ))
    })
}

/// The worker process of nginx for which this is the highest.
fn fullest(span: &Span<'_>, part: &str, whole: &str) -> Result<Option<(f64, f64, Facts)>, Blind> {
    let mut most: Option<(f64, f64, Facts)> = None;
    for worker in span.now.list("nginx.workers")? {
        let (part, whole) = (worker.figure(part)?, worker.figure(whole)?);
        if most.as_ref().is_none_or(|(other, of, _)| percent(part, whole) > percent(*other, *of)) {
            most = Some((part, whole, worker.clone()));
        }
    }
    Ok(most)
}

fn connections(span: &Span<'_>) -> Measured {
    let found = fullest(span, "connections", "worker_connections")?.map(|(used, most, worker)| {
        measure(
            percent(used, most),
            format!("a process of nginx has {used:.0} of {most:.0} connections"),
            format!("process {}: {used:.0} sockets, worker_connections {most:.0}", worker.text("pid")),
            more_connections(span, &worker, most),
        )
    });
    Ok(found.into_iter().collect())
}

fn more_connections(span: &Span<'_>, worker: &Facts, most: f64) -> String {
    let place = match worker.text("place") {
        "" => "in the block `events` of its configuration",
        place => place,
    };
    format!(
        "worker_connections {}; (now {most:.0}): {place}; then reload nginx, with worker_rlimit_nofile of at least twice that. 8 KB of memory for \
         each. {} computes both by this machine's memory",
        double(most),
        tuner(span)
    )
}

fn descriptors(span: &Span<'_>) -> Measured {
    let found = fullest(span, "descriptors", "files_soft")?.map(|(used, most, worker)| {
        measure(
            percent(used, most),
            format!("a process of nginx has {used:.0} of {most:.0} descriptors open"),
            format!("process {}: {used:.0} in /proc/PID/fd, Max open files {most:.0}", worker.text("pid")),
            more_descriptors(span, most),
        )
    });
    Ok(found.into_iter().collect())
}

fn more_descriptors(span: &Span<'_>, most: f64) -> String {
    format!(
        "worker_rlimit_nofile {}; (now {most:.0}) outside of all blocks of nginx.conf, then reload nginx. {}",
        double(most),
        tuned(span, "it")
    )
}

/// What nginx's logs say about something.
struct LogLines<'a> {
    count: f64,
    /// The last line, and its age in seconds.
    last: (&'a str, f64),
}

impl LogLines<'_> {
    fn quoted(&self) -> String {
        let (text, age) = self.last;
        format!("{:.0} lines in its error log, the last one {age:.0} s ago: {text}", self.count)
    }
}

/// The lines about something that are not older than `oldest`.
fn lines<'a>(span: &Span<'a>, about: &str, oldest: f64) -> Result<LogLines<'a>, Blind> {
    let mut found = LogLines { count: 0.0, last: ("", f64::MAX) };
    for line in span.now.list("nginx.lines")?.iter().filter(|line| line.text("about") == about) {
        let age = line.figure("age")?;
        if age <= oldest {
            found.count += 1.0;
            if age <= found.last.1 {
                found.last = (line.text("text"), age);
            }
        }
    }
    Ok(found)
}

fn log_limits(span: &Span<'_>) -> Measured {
    let connections = lines(span, "connections", f64::MAX)?;
    let files = lines(span, "files", f64::MAX)?;
    let workers = span.now.list("nginx.workers");
    let first = workers.ok().and_then(<[Facts]>::first);
    let limit = |name: &str| first.and_then(|worker| worker.figure(name).ok()).unwrap_or(512.0);
    let nowhere = Facts::default();
    Ok(vec![
        measure(
            connections.count,
            "nginx has refused visitors because worker_connections were used up",
            connections.quoted(),
            more_connections(span, first.unwrap_or(&nowhere), limit("worker_connections")),
        ),
        measure(
            files.count,
            "nginx could not open files or connections because its descriptors were used up",
            files.quoted(),
            more_descriptors(span, limit("files_soft")),
        ),
    ])
}

/// Since when php-fpm has the configuration that it has: what happened before is no finding any more.
fn since_restart(span: &Span<'_>) -> f64 {
    let pools = span.now.list("fpm.pools").unwrap_or_default();
    let ages: Vec<f64> = pools.iter().filter_map(|pool| pool.figure("oldest_seconds").ok()).collect();
    if ages.is_empty() { f64::MAX } else { ages.into_iter().fold(0.0, f64::max) }
}

fn upstream_full(span: &Span<'_>) -> Measured {
    let full = lines(span, "full", since_restart(span))?;
    Ok(vec![measure(
        full.count,
        "the queue of php-fpm was full: nginx has refused requests",
        full.quoted(),
        format!(
            "a higher pm.max_children, then a higher listen.backlog, of the pool that the line names; then restart php-fpm: a reload keeps the old \
             queue. {}",
            tuned(span, "both")
        ),
    )])
}

fn upstream_late(span: &Span<'_>) -> Measured {
    let late = lines(span, "late", since_restart(span))?;
    Ok(vec![measure(
        late.count,
        "PHP has not answered nginx in time",
        late.quoted(),
        "find the scripts: slowlog = /var/log/php-fpm-slow.log and request_slowlog_timeout = 5s in the section of php-fpm's pool, then reload it",
    )])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::checks::{Severity, examine};
    use crate::facts::{Blind, Facts};
    use crate::testing::{Pair, case};

    /// Sets figures of the first pool, in both looks.
    fn pool(pair: &mut Pair, figures: &[(&str, f64)]) {
        for (name, value) in figures {
            pair.before.items("fpm.pools")[0].set(*name, *value);
            pair.now.items("fpm.pools")[0].set(*name, *value);
        }
    }

    fn said(pair: &mut Pair, about: &str, age: f64, times: usize) {
        let line = Facts::from_json(
            &json!({"about": about, "text": "2026/11/26 20:00:00 [error] 11#11: x", "age": age}),
        );
        pair.now.items("nginx.lines").extend(std::iter::repeat_n(line, times));
    }

    #[test]
    fn processes_of_php_fpm() {
        let waits = |p: &mut Pair| {
            pool(p, &[("busy", 5.0), ("waiting", 3.0), ("log.reached", 1.0), ("log.reached_seconds", 40.0)]);
        };
        // Nobody waits; a request came in this moment; one process has just ended.
        case("fpm-children", waits, |p| pool(p, &[("busy", 5.0)]));
        let in_one_look = |p: &mut Pair| {
            pool(p, &[("busy", 5.0)]);
            p.now.items("fpm.pools")[0].set("waiting", 3.0);
        };
        case("fpm-children", waits, in_one_look);
        case("fpm-children", waits, |p| pool(p, &[("busy", 4.0), ("workers", 4.0), ("waiting", 3.0)]));
        let mut pair = Pair::healthy();
        waits(&mut pair);
        let found = pair.finding("fpm-children");
        assert_eq!(found.severity, Severity::Error);
        assert_eq!(
            found.evidence,
            [
                "5 of pm.max_children = 5 have a request, 3 requests wait at /run/php/php8.2-fpm.sock",
                "php-fpm's log, 40 s ago: server reached pm.max_children setting (5)"
            ]
        );
        for words in ["pm.max_children = 10 (now 5)", "here up to 38.1 MiB", "`millrace tune` computes it"] {
            assert!(found.cure.contains(words), "{words}: {}", found.cure);
        }
        case("fpm-log-children", |p| pool(p, &[("log.reached", 1.0)]), |_| ());
        // The queue is no longer than the kernel allows.
        case("fpm-queue", |p| pool(p, &[("waiting", 256.0)]), |p| pool(p, &[("waiting", 250.0)]));
        let short = |p: &mut Pair| {
            pool(p, &[("waiting", 100.0)]);
            p.now.set("sysctl.net.core.somaxconn", 128.0);
        };
        case("fpm-queue", short, |_| ());
        let mut pair = Pair::healthy();
        short(&mut pair);
        let found = pair.finding("fpm-queue");
        assert_eq!(found.evidence, ["100 of 128 places at /run/php/php8.2-fpm.sock"]);
        assert!(found.cure.contains("now 128; php-fpm must be restarted"), "{}", found.cure);
    }

    #[test]
    fn slow_scripts_of_php_fpm() {
        let slow = |p: &mut Pair| {
            pool(p, &[("slow.count", 4.0), ("slow.place_count", 3.0)]);
            p.now.items("fpm.pools")[0].say("slow.place", "sleep() /srv/a.php:3");
        };
        case("fpm-slow", slow, |p| pool(p, &[("slow.count", 2.0)]));
        let mut pair = Pair::healthy();
        slow(&mut pair);
        let found = pair.finding("fpm-slow");
        assert_eq!(found.what, "4 requests to php-fpm's pool www took longer than 2s");
        assert!(found.evidence[0].starts_with("3 of them in sleep() /srv/a.php:3"), "{found:?}");
    }

    #[test]
    fn limits_of_nginx() {
        let worker = |name: &'static str, value: f64| {
            move |p: &mut Pair| p.now.items("nginx.workers")[0].set(name, value)
        };
        case("nginx-connections", worker("connections", 700.0), worker("connections", 600.0));
        case("nginx-descriptors", worker("descriptors", 900.0), worker("descriptors", 800.0));
        for about in ["connections", "files"] {
            case("nginx-log-limit", |p| said(p, about, 20.0, 3), |p| said(p, "late", 20.0, 0));
        }
        let mut pair = Pair::healthy();
        let mut full = pair.now.items("nginx.workers")[0].clone();
        full.set("connections", 768.0);
        full.say("pid", "12");
        pair.now.items("nginx.workers").push(full);
        said(&mut pair, "connections", 20.0, 3);
        said(&mut pair, "connections", 7.0, 1);
        let found = pair.finding("nginx-connections");
        assert!(found.evidence[0].starts_with("process 12: 768 sockets"), "{found:?}");
        assert!(
            found.cure.starts_with("worker_connections 1536; (now 768): /etc/nginx/nginx.conf, line 9"),
            "{}",
            found.cure
        );
        let found = pair.finding("nginx-log-limit");
        assert!(
            found.evidence[0].starts_with("4 lines in its error log, the last one 7 s ago: 2026/"),
            "{found:?}"
        );
    }

    #[test]
    fn what_nginx_says_of_php() {
        // php-fpm was restarted 10 s ago: older lines are about the time before.
        let old = |about: &'static str| {
            move |p: &mut Pair| {
                said(p, about, 30.0, 20);
                pool(p, &[("oldest_seconds", 10.0)]);
            }
        };
        case("nginx-upstream-full", |p| said(p, "full", 30.0, 1), old("full"));
        case("nginx-upstream-late", |p| said(p, "late", 30.0, 1), old("late"));
        let mut pair = Pair::healthy();
        said(&mut pair, "late", 30.0, 20);
        assert_eq!(pair.finding("nginx-upstream-late").severity, Severity::Error);
    }

    /// A pool without a slow log hides no other one, and what cannot be read is said.
    #[test]
    fn pools_that_cannot_be_measured() {
        let mut pair = Pair::healthy();
        let mut other = Facts::from_json(
            &json!({"key": "7 other", "name": "other", "max_children": 5, "workers": 5, "busy": 5}),
        );
        other.missing("waiting", Blind::CouldNotLook("nothing listens at /x".to_owned()));
        for look in [&mut pair.before, &mut pair.now] {
            look.items("fpm.pools").push(other.clone());
        }
        assert!(examine(&pair.span()).well.contains(&"fpm-children"));
        let mut blind = Facts::default();
        blind.missing("fpm", Blind::DoesNotApply("no php-fpm runs here".to_owned()));
        blind.missing("nginx", Blind::CouldNotLook("run as root".to_owned()));
        let all = examine(&crate::facts::Span { before: &blind, now: &blind, seconds: 1.0 });
        assert!(all.inapplicable.iter().any(|(id, why)| *id == "fpm-queue" && why == "no php-fpm runs here"));
        assert!(all.unknown.iter().any(|(id, why)| *id == "nginx-connections" && why == "run as root"));
    }
}
