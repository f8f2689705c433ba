//! PHP's pools in the answers of the admin address.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::backends;
use super::status::{bytes, grouped, short};
use crate::context::stats::{BusyWorker, LaneStatus, PoolStatus, SlowScript, WorkerStatus};

/// Workers of a pool whose memory the text names.
const SIZES_SHOWN: usize = 16;
/// Busy workers of a pool that the text names: the longest at work.
const BUSY_SHOWN: usize = 8;

/// Status text of a site's PHP.
pub(super) fn write(text: &mut String, pool: &PoolStatus) -> std::fmt::Result {
    let workers: Vec<String> =
        pool.workers().iter().filter(|(_, n)| *n > 0).map(|(state, n)| format!("{n} {state}")).collect();
    let workers = if workers.is_empty() { "none started".to_owned() } else { workers.join(", ") };
    writeln!(
        text,
        "  {:<12}PHP {}; up to {} workers: {workers}; {} requests waiting; {} memory",
        pool.name,
        if pool.php_version.is_empty() { "is starting" } else { &pool.php_version },
        pool.most,
        pool.waiting,
        bytes(pool.memory)
    )?;
    if let Some(how) = &pool.most_how {
        writeln!(text, "  {:<12}up to {}: {how}", "", pool.most)?;
    }
    if let Some(trouble) = &pool.trouble {
        writeln!(text, "  {:<12}{trouble}", "")?;
    }
    write_details(text, pool)?;
    for worker in pool.busy.iter().take(BUSY_SHOWN) {
        let background = if worker.background { ", in the background" } else { "" };
        let seconds = worker.time.as_secs_f64();
        writeln!(text, "  {:<12}{} {seconds:.1} s {}{background}", "", worker.pid, worker.script)?;
    }
    Ok(())
}

/// Its pools, the memory of its workers, and its slow scripts.
fn write_details(text: &mut String, pool: &PoolStatus) -> std::fmt::Result {
    for lane in &pool.lanes {
        write!(
            text,
            "  {:<12}{:<11} {} of {} workers busy, up to {} with borrowed ones; queue: {} of {}",
            "",
            lane.name,
            lane.running,
            lane.workers,
            lane.limit,
            lane.waiting,
            grouped(lane.queue)
        )?;
        if lane.waited > 0 {
            let (mean, most) = (short(lane.wait_mean), short(lane.wait_most));
            write!(
                text,
                ", {} waited in the last minute, {mean} on average, {most} at most",
                grouped(lane.waited)
            )?;
        }
        if let Some(most) = lane.held_to {
            write!(text, "; limited to {most} concurrent requests, because more only slow each other down")?;
        }
        if lane.waiting_room > 0 {
            write!(text, "; {} browsers in the waiting room", grouped(lane.waiting_room))?;
        }
        if let Some(wait) = lane.expected_wait.filter(|_| lane.waiting > 0) {
            write!(text, "; estimated wait {}", short(wait))?;
        }
        if let Some(since) = lane.overloaded {
            write!(text, "; overloaded for {:.0} s", since.as_secs_f64())?;
        }
        if let Some(service) = lane.service {
            write!(text, "; {} per request", short(service))?;
        }
        writeln!(
            text,
            "; {} served, {} refused on arrival, {} refused after waiting",
            grouped(lane.served),
            lane.refused,
            lane.late
        )?;
    }
    if pool.each.iter().any(|worker| worker.memory > 0) {
        let sizes: Vec<String> = pool
            .each
            .iter()
            .filter(|worker| worker.memory > 0)
            .take(SIZES_SHOWN)
            .map(|worker| match worker.own {
                0 => format!("{}: {}", worker.pid, bytes(worker.memory)),
                own => format!("{}: {} ({} private)", worker.pid, bytes(worker.memory), bytes(own)),
            })
            .collect();
        let more = if pool.each.len() > SIZES_SHOWN { ", ..." } else { "" };
        writeln!(text, "  {:<12}memory      {}{more}", "", sizes.join(", "))?;
    }
    let database = pool.database;
    if database.opened > 0 {
        writeln!(
            text,
            "  {:<12}database    {} connections kept open; {} opened, {} reused",
            "",
            database.kept,
            grouped(database.opened),
            grouped(database.reused)
        )?;
    }
    for slow in &pool.slowest {
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
pub(super) fn json(pool: &PoolStatus) -> Value {
    json!({
        "name": pool.name,
        "php_version": pool.php_version,
        "workers_most": pool.most,
        "workers_most_how": pool.most_how,
        "workers": pool.workers().into_iter().collect::<Value>(),
        "waiting": pool.waiting,
        "memory_bytes": pool.memory,
        "database_connections": {
            "kept": pool.database.kept,
            "opened": pool.database.opened,
            "reused": pool.database.reused,
        },
        "trouble": pool.trouble,
        "fastcgi": pool.backends.iter().map(backends::json).collect::<Value>(),
        "busy": pool.busy.iter().map(busy_json).collect::<Value>(),
        "pools": pool.lanes.iter().map(lane_json).collect::<Value>(),
        "each": pool.each.iter().map(worker_json).collect::<Value>(),
        "slowest": pool.slowest.iter().map(slow_json).collect::<Value>(),
    })
}

fn lane_json(lane: &LaneStatus) -> Value {
    json!({
        "name": lane.name,
        "running": lane.running,
        "workers": lane.workers,
        "limit": lane.limit,
        "waiting": lane.waiting,
        "queue": lane.queue,
        "held_to": lane.held_to,
        "waiting_room": lane.waiting_room,
        "expected_wait_seconds": lane.expected_wait.map(|wait| wait.as_secs_f64()),
        "overloaded_seconds": lane.overloaded.map(|since| since.as_secs_f64()),
        "service_seconds": lane.service.map(|service| service.as_secs_f64()),
        "served": lane.served,
        "refused": lane.refused,
        "late": lane.late,
        "waited_last_minute": lane.waited,
        "wait_mean_seconds": lane.wait_mean.as_secs_f64(),
        "wait_most_seconds": lane.wait_most.as_secs_f64(),
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
