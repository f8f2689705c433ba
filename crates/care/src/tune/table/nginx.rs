//! nginx.

use super::{Case, LAMP, Layer, MILLION, Row, VPS, Value, nothing, row, set};
use crate::tune::budget::MB;
use crate::tune::nginx::Block;

/// What the kernel allows by default (fs.nr_open).
const DESCRIPTORS_MOST: u64 = 1_048_576;
/// Descriptors that are enough for [`FILES`].
const DESCRIPTORS_FOR_FILES: u64 = 32_768;
/// Open files that each process keeps.
const FILES: u64 = 10_000;

pub(super) const ROWS: &[Row] = &[
    row!(
        Nginx,
        "worker_rlimit_nofile",
        true,
        |case| set(
            case.budget.descriptors().min(DESCRIPTORS_MOST),
            format!("{} MB for connections, and 20,000 for files and PHP", case.budget.connections / MB)
        ),
        "as LimitNOFILE, at most fs.nr_open's default of 1048576",
        "Each connection, also to php-fpm, and each file that stays open needs a descriptor; systemd gives 1024.",
        &[MILLION]
    ),
    row!(
        Nginx,
        "worker_connections",
        true,
        |case| set(
            case.budget.nginx_connections(case.machine.cores),
            format!("{} MB for connections, {} core(s)", case.budget.connections / MB, case.machine.cores)
        ),
        "the connections' part of the budget by 8 KB, divided among the cores; 1024 to 65535. nginx takes its block once: by hand",
        "Connections of each process, those to php-fpm included; with Debian's 768, 384 visitors use them up.",
        &[LAMP, MILLION]
    ),
    row!(
        Nginx,
        "open_file_cache",
        false,
        |case| match files(case) {
            FILES => set(format!("max={FILES} inactive=30s"), "within worker_rlimit_nofile"),
            few => set(format!("max={few} inactive=30s"), "worker_rlimit_nofile is not ours to raise"),
        },
        "max=10000 inactive=30s; 400 files where worker_rlimit_nofile stays below 32768",
        "Small files are opened once, not at each request.",
        &[VPS]
    ),
    row!(
        Nginx,
        "open_file_cache_valid",
        false,
        |_| set("30s", "a replaced file is seen after that"),
        "30s",
        "A file is looked at again after that time.",
        &[VPS]
    ),
    row!(
        Nginx,
        "open_file_cache_errors",
        false,
        |_| set("on", "for 30 s, as files that are there"),
        "on",
        "Files that are not there - each pretty link is looked for as a file first - cost no look at the disk.",
        &[VPS]
    ),
    row!(
        Nginx,
        "keepalive_requests",
        true,
        |_| set(10_000, "proxies and load balancers have few connections with many requests"),
        "10000",
        "Connections that are busy stay open.",
        &[MILLION]
    ),
    row!(
        Nginx,
        "reset_timedout_connection",
        false,
        |_| set("on", "no client waits for the rest"),
        "on",
        "nginx frees the memory of a connection at once when its client has gone.",
        &[VPS]
    ),
    row!(
        Nginx,
        "gzip_types",
        false,
        gzip_types,
        "text, scripts, styles, JSON, XML and SVG; where gzip is on",
        "Scripts and styles are compressed, too: Debian's nginx compresses HTML only.",
        &[VPS]
    ),
    row!(
        Nginx,
        "gzip_min_length",
        false,
        |case| zipped(case, "1100"),
        "1100; where gzip is on",
        "What fits into one packet is not worth the time.",
        &[VPS]
    ),
    row!(
        Nginx,
        "gzip_vary",
        false,
        |case| zipped(case, "on"),
        "on; where gzip is on",
        "Caches on the way don't send compressed files to clients that can't read them.",
        &[VPS]
    ),
    row!(
        Nginx,
        "client_max_body_size",
        true,
        |_| set("64m", "post_max_size of PHP"),
        "64m",
        "Forms with images and videos are not refused with 413.",
        &[VPS]
    ),
];

/// Open files that fit into the descriptors of a process.
fn files(case: &Case<'_>) -> u64 {
    let is_left_out = case.without.iter().any(|name| name == "worker_rlimit_nofile");
    let nginx = case.machine.nginx.as_ref().ok();
    let others = nginx.and_then(|nginx| nginx.others(Block::Main, "worker_rlimit_nofile"));
    let limit = match others {
        Some(directive) => directive.value.parse().unwrap_or(0),
        None if is_left_out => 0,
        None => DESCRIPTORS_MOST,
    };
    // The default of systemd is 1024, for connections, too.
    if limit < DESCRIPTORS_FOR_FILES { 400 } else { FILES }
}

fn gzip_types(case: &Case<'_>) -> Value {
    zipped(
        case,
        "text/plain text/css text/xml text/javascript application/javascript application/json application/xml application/rss+xml image/svg+xml",
    )
}

fn zipped(case: &Case<'_>, value: &str) -> Value {
    let gzip = case.machine.nginx.as_ref().ok().and_then(|nginx| nginx.value(Block::Http, "gzip"));
    match gzip {
        Some("on") => set(value, "gzip on is in its configuration"),
        _ => nothing("gzip is not on"),
    }
}
