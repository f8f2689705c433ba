//! PHP's pools in the answers of the admin address.

use std::fmt::Write as _;

use super::backends;
use super::json::Json;
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
pub(super) fn json(pool: &PoolStatus) -> Json {
    let workers = pool.workers().map(|(state, count)| (state, count.into()));
    Json::object([
        ("name", pool.name.as_str().into()),
        ("php_version", pool.php_version.as_str().into()),
        ("workers_most", pool.most.into()),
        ("workers_most_how", pool.most_how.clone().into()),
        ("workers", Json::object(workers)),
        ("waiting", pool.waiting.into()),
        ("memory_bytes", pool.memory.into()),
        (
            "database_connections",
            Json::object([
                ("kept", pool.database.kept.into()),
                ("opened", pool.database.opened.into()),
                ("reused", pool.database.reused.into()),
            ]),
        ),
        ("trouble", pool.trouble.clone().into()),
        ("fastcgi", pool.backends.iter().map(backends::json).collect()),
        ("busy", pool.busy.iter().map(busy_json).collect()),
        ("pools", pool.lanes.iter().map(lane_json).collect()),
        ("each", pool.each.iter().map(worker_json).collect()),
        ("slowest", pool.slowest.iter().map(slow_json).collect()),
    ])
}

fn lane_json(lane: &LaneStatus) -> Json {
    Json::object([
        ("name", lane.name.as_str().into()),
        ("running", lane.running.into()),
        ("workers", lane.workers.into()),
        ("limit", lane.limit.into()),
        ("waiting", lane.waiting.into()),
        ("queue", lane.queue.into()),
        ("held_to", lane.held_to.map_or(Json::from(None::<f64>), Json::from)),
        ("waiting_room", lane.waiting_room.into()),
        ("expected_wait_seconds", lane.expected_wait.map(|wait| wait.as_secs_f64()).into()),
        ("overloaded_seconds", lane.overloaded.map(|since| since.as_secs_f64()).into()),
        ("service_seconds", lane.service.map(|service| service.as_secs_f64()).into()),
        ("served", lane.served.into()),
        ("refused", lane.refused.into()),
        ("late", lane.late.into()),
        ("waited_last_minute", lane.waited.into()),
        ("wait_mean_seconds", lane.wait_mean.as_secs_f64().into()),
        ("wait_most_seconds", lane.wait_most.as_secs_f64().into()),
    ])
}

fn worker_json(worker: &WorkerStatus) -> Json {
    Json::object([
        ("pid", u64::from(worker.pid).into()),
        ("state", worker.state.into()),
        ("requests", worker.requests.into()),
        ("memory_bytes", worker.memory.into()),
        ("own_bytes", worker.own.into()),
    ])
}

fn slow_json(slow: &SlowScript) -> Json {
    Json::object([
        ("script", slow.script.as_str().into()),
        ("page", slow.page.as_str().into()),
        ("most_seconds", slow.most.as_secs_f64().into()),
        ("count", slow.count.into()),
    ])
}

fn busy_json(worker: &BusyWorker) -> Json {
    Json::object([
        ("pid", u64::from(worker.pid).into()),
        ("script", worker.script.as_str().into()),
        ("seconds", worker.time.as_secs_f64().into()),
        ("background", worker.background.into()),
        ("memory_bytes", worker.memory.into()),
    ])
}
