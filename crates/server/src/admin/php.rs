//! PHP's pools in the answers of the admin address.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::status::{bytes, grouped, short};
use super::{backends, rewind};
use millrace_base::context::stats::{BusyWorker, PhpStatus, PoolStatus, SlowScript, WorkerStatus};

/// Workers of a pool whose memory the text names.
const SIZES_SHOWN: usize = 16;
/// Busy workers of a pool that the text names: the longest at work.
const BUSY_SHOWN: usize = 8;

/// For people: what has requests running or waiting comes first, then what has memory.
pub(super) fn busiest_first(all: &[PhpStatus]) -> Vec<&PhpStatus> {
    let mut sorted: Vec<&PhpStatus> = all.iter().collect();
    sorted.sort_by_key(|php| std::cmp::Reverse((php.waiting + php.running, php.memory)));
    sorted
}

/// Status text of a site's PHP.
pub(super) fn write(text: &mut String, php: &PhpStatus) -> std::fmt::Result {
    let workers: Vec<String> =
        php.workers().iter().filter(|(_, n)| *n > 0).map(|(state, n)| format!("{n} {state}")).collect();
    let workers = if workers.is_empty() { "none started".to_owned() } else { workers.join(", ") };
    writeln!(
        text,
        "  {:<11} PHP {}; up to {} workers: {workers}; {} requests waiting; {} memory",
        php.name,
        if php.php_version.is_empty() { "is starting" } else { &php.php_version },
        php.most,
        php.waiting,
        bytes(php.memory)
    )?;
    if let Some(how) = &php.most_how {
        writeln!(text, "  {:<12}up to {}: {how}", "", php.most)?;
    }
    if let Some(trouble) = &php.trouble {
        writeln!(text, "  {:<12}{trouble}", "")?;
    }
    write_pools(text, php)?;
    write_details(text, php)?;
    for worker in php.busy.iter().take(BUSY_SHOWN) {
        let background = if worker.background { ", in the background" } else { "" };
        let seconds = worker.time.as_secs_f64();
        writeln!(text, "  {:<12}{} {seconds:.1} s {}{background}", "", worker.pid, worker.script)?;
    }
    Ok(())
}

/// Its pools.
pub(super) fn write_pools(text: &mut String, php: &PhpStatus) -> std::fmt::Result {
    for pool in &php.pools {
        write!(
            text,
            "  {:<12}{:<11} {} of {} workers busy, up to {} with borrowed ones; queue: {} of {}",
            "",
            pool.name,
            pool.running,
            pool.workers,
            pool.limit,
            pool.waiting,
            grouped(pool.queue)
        )?;
        if pool.waited > 0 {
            let (mean, most) = (short(pool.wait_mean), short(pool.wait_most));
            write!(
                text,
                ", {} waited in the last minute, {mean} on average, {most} at most",
                grouped(pool.waited)
            )?;
        }
        if let Some(most) = pool.held_to {
            write!(text, "; limited to {most} concurrent requests, because more only slow each other down")?;
        }
        if pool.waiting_room > 0 {
            write!(text, "; {} browsers in the waiting room", grouped(pool.waiting_room))?;
        }
        if let Some(wait) = pool.expected_wait.filter(|_| pool.waiting > 0) {
            write!(text, "; estimated wait {}", short(wait))?;
        }
        if let Some(since) = pool.overloaded {
            write!(text, "; overloaded for {:.0} s", since.as_secs_f64())?;
        }
        if let Some(service) = pool.service {
            write!(text, "; {} per request", short(service))?;
        }
        writeln!(
            text,
            "; {} served, {} refused on arrival, {} refused after waiting",
            grouped(pool.served),
            pool.refused,
            pool.late
        )?;
    }
    Ok(())
}

/// Memory of the workers, database connections, rewound workers, and slow scripts.
fn write_details(text: &mut String, php: &PhpStatus) -> std::fmt::Result {
    if php.each.iter().any(|worker| worker.memory > 0) {
        let sizes: Vec<String> = php
            .each
            .iter()
            .filter(|worker| worker.memory > 0)
            .take(SIZES_SHOWN)
            .map(|worker| match worker.own {
                0 => format!("{}: {}", worker.pid, bytes(worker.memory)),
                own => format!("{}: {} ({} private)", worker.pid, bytes(worker.memory), bytes(own)),
            })
            .collect();
        let more = if php.each.len() > SIZES_SHOWN { ", ..." } else { "" };
        writeln!(text, "  {:<12}memory      {}{more}", "", sizes.join(", "))?;
    }
    if let Some(status) = &php.rewind {
        rewind::write(text, status)?;
    }
    for slow in &php.slowest {
        let times =
            if slow.count == 1 { "once".to_owned() } else { format!("{} times", grouped(slow.count)) };
        writeln!(
            text,
            "  {:<12}slow        {} {} ({}), {times}",
            "",
            short(slow.most),
            slow.page,
            slow.script
        )?;
    }
    Ok(())
}

/// A site's PHP as JSON.
pub(super) fn json(php: &PhpStatus) -> Value {
    json!({
        "name": php.name,
        "php_version": php.php_version,
        "workers_most": php.most,
        "workers_most_how": php.most_how,
        "workers": php.workers().into_iter().collect::<Value>(),
        "waiting": php.waiting,
        "memory_bytes": php.memory,
        "rewind": php.rewind.as_ref().map(rewind::json),
        "trouble": php.trouble,
        "fastcgi": php.backends.iter().map(backends::json).collect::<Value>(),
        "busy": php.busy.iter().map(busy_json).collect::<Value>(),
        "pools": php.pools.iter().map(pool_json).collect::<Value>(),
        "each": php.each.iter().map(worker_json).collect::<Value>(),
        "slowest": php.slowest.iter().map(slow_json).collect::<Value>(),
    })
}

fn pool_json(pool: &PoolStatus) -> Value {
    json!({
        "name": pool.name,
        "running": pool.running,
        "workers": pool.workers,
        "limit": pool.limit,
        "waiting": pool.waiting,
        "queue": pool.queue,
        "held_to": pool.held_to,
        "waiting_room": pool.waiting_room,
        "expected_wait_seconds": pool.expected_wait.map(|wait| wait.as_secs_f64()),
        "overloaded_seconds": pool.overloaded.map(|since| since.as_secs_f64()),
        "service_seconds": pool.service.map(|service| service.as_secs_f64()),
        "served": pool.served,
        "refused": pool.refused,
        "late": pool.late,
        "waited_last_minute": pool.waited,
        "wait_mean_seconds": pool.wait_mean.as_secs_f64(),
        "wait_most_seconds": pool.wait_most.as_secs_f64(),
    })
}

fn worker_json(worker: &WorkerStatus) -> Value {
    json!({
        "pid": worker.pid,
        "state": worker.state,
        "requests": worker.requests,
        "memory_bytes": worker.memory,
        "own_bytes": worker.own,
    })
}

fn slow_json(slow: &SlowScript) -> Value {
    json!({
        "script": slow.script,
        "page": slow.page,
        "most_seconds": slow.most.as_secs_f64(),
        "count": slow.count,
    })
}

fn busy_json(worker: &BusyWorker) -> Value {
    json!({
        "pid": worker.pid,
        "script": worker.script,
        "seconds": worker.time.as_secs_f64(),
        "background": worker.background,
        "memory_bytes": worker.memory,
    })
}
