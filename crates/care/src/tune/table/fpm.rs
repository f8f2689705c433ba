//! Pools of php-fpm. Each pool gets the same.

use super::{Case, LAMP, Layer, MILLION, Row, VPS, Value, row, set};
use crate::tune::budget::MB;

/// What a process does in the time that nginx waits for a response; more requests would wait in vain.
const SERVED_IN_A_MINUTE: u64 = 60 * 4;

/// `pm.max_children` and what has to fit to it: php-fpm refuses spare processes beyond it.
pub(super) const ROWS: &[Row] = &[
    row!(
        Fpm,
        "pm",
        false,
        |_| set("dynamic", "the memory of all of them is in the budget"),
        "dynamic",
        "Processes are there before the visitors; ondemand starts one when a visitor waits already.",
        &[VPS]
    ),
    row!(
        Fpm,
        "pm.max_children",
        false,
        children,
        "PHP's part of the budget without opcache, by a process's memory (the largest one that has worked, else 64 MB); at most 8 per core, or 16; divided among pools",
        "All processes together stay in their part of the budget; with Debian's 5, visitors wait while processors and memory are free.",
        &[
            "WordPress for 10,000 clients/s on 2 GB (20)",
            "LAMP for 4,250 users (256, 512, 1,536 of Apache)",
            "the budget"
        ]
    ),
    row!(
        Fpm,
        "pm.start_servers",
        false,
        |case| set(case.budget.first_workers(), "of pm.max_children"),
        "8, at most pm.max_children",
        "The first visitors after a restart need not wait for processes.",
        &["WordPress for 10,000 clients/s on 2 GB (8)"]
    ),
    row!(
        Fpm,
        "pm.min_spare_servers",
        false,
        |case| set(case.budget.spare_workers(), "half of pm.start_servers"),
        "half of pm.start_servers",
        "Processes that wait for the next visitors.",
        &["WordPress for 10,000 clients/s on 2 GB (8 at start)"]
    ),
    row!(
        Fpm,
        "pm.max_spare_servers",
        false,
        |case| set(case.budget.workers, "pm.max_children: their memory is in the budget"),
        "pm.max_children",
        "A crowd that comes in waves finds the processes of the last one.",
        &["the budget"]
    ),
    row!(
        Fpm,
        "pm.max_requests",
        false,
        |_| set(500, "a new process costs milliseconds"),
        "500",
        "What a plugin's script has lost of its memory comes back.",
        &[VPS]
    ),
    row!(
        Fpm,
        "listen.backlog",
        true,
        |case| set(
            (case.budget.workers * SERVED_IN_A_MINUTE).min(case.budget.queued()).max(511),
            format!("{} processes, {SERVED_IN_A_MINUTE} requests each", case.budget.workers)
        ),
        "240 by pm.max_children - what the processes do, with a quarter of a second each, in the 60 s that nginx waits -, at least 511, the default; at most net.core.somaxconn of the budget",
        "Requests wait here while all processes are busy; beyond it nginx answers 502.",
        &[LAMP, MILLION]
    ),
];

fn children(case: &Case<'_>) -> Value {
    let budget = case.budget;
    let evidence = format!(
        "{} MB for PHP without opcache, {} MB each, {} core(s), {} pool(s)",
        case.worker_room() / MB,
        budget.worker / MB,
        case.machine.cores,
        budget.hosts
    );
    set(budget.workers, evidence)
}
