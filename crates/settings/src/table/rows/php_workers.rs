//! PHP workers.

use super::{BOTH, DAY, Default, GB, Kind, MB, Page, S, Setting, count, count_or_zero, duration};
use crate::resolve::View;
use crate::value::Value;

pub(super) static PAGE: Page = Page {
    name: "php-workers",
    title: "PHP workers",
    line: "How many PHP workers run, when they start and end, and how persistent workers serve an \
           application.",
    guide: "php.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "php.workers",
        kind: count(1, 10_000),
        default: Default::Computed {
            says: "measured: as many as fit into 75% of the memory that others leave, by a worker's private \
                   memory, at most 8 per core, or 16 if that is more; until that is known 4 per core",
            from: workers,
        },
        line: "Maximum PHP workers: requests that run PHP at the same time.",
        reason: "Workers are forked when requests wait, and end when they are idle. The limit keeps the \
                 machine from swapping. PHP waits for the database about as long as it computes, so a few \
                 workers per core keep the cores busy. The log and `millrace status` show how the number was \
                 found.",
        example: "17",
        elsewhere: &["max_children", "pm.max_children", "num_threads", "max_threads", "maxrequestworkers"],
        ..BOTH
    },
    Setting {
        key: "php.workers_start",
        kind: count(0, 10_000),
        default: Default::Computed {
            says: "one per core, at most php.workers",
            from: |view| Value::Number((view.environment().cores as u64).min(view.number("php.workers"))),
        },
        line: "Workers to start with the server.",
        reason: "Further workers are forked on demand, which takes milliseconds because PHP itself has \
                 already started.",
        example: "1",
        elsewhere: &["start_servers", "pm.start_servers"],
        ..BOTH
    },
    Setting {
        key: "php.workers_spare",
        kind: count(0, 10_000),
        default: Default::Computed {
            says: "same as php.workers_start",
            from: |view| Value::Number(view.number("php.workers_start").min(view.number("php.workers"))),
        },
        line: "Idle workers to keep, however long they are idle.",
        reason: "The first visitor after a quiet hour finds a worker ready.",
        example: "0",
        elsewhere: &[
            "min_spare_servers",
            "pm.min_spare_servers",
            "max_spare_servers",
            "pm.max_spare_servers",
        ],
        ..BOTH
    },
    Setting {
        key: "php.idle_timeout",
        kind: duration(S, DAY),
        default: Default::Fixed("60s"),
        line: "How long a worker may be idle before it ends, if more than `workers_spare` are idle.",
        reason: "It returns memory after a crowd, without constantly forking and ending workers.",
        example: "\"10s\"",
        elsewhere: &["process_idle_timeout", "pm.process_idle_timeout"],
        ..BOTH
    },
    Setting {
        key: "php.max_requests",
        kind: count_or_zero("never", 1, u64::MAX >> 1),
        default: Default::Fixed("10000"),
        line: "Number of requests after which a worker is replaced.",
        reason: "Extensions leak memory. A fork every ten thousand requests has no measurable cost.",
        example: "500",
        elsewhere: &["pm.max_requests", "max_requests_per_child", "maxconnectionsperchild"],
        ..BOTH
    },
    Setting {
        key: "php.worker_memory",
        kind: Kind::Size { min: 16 * MB, max: 1024 * GB, zero: Some("no limit") },
        default: Default::Unset("twice a worker's share of the memory that all may use, at least 256MB"),
        line: "Private memory of a worker - not shared with others - above which it is replaced after its \
               request.",
        reason: "A process keeps the memory that a script once needed and that extensions leak. PHP's \
                 memory_limit bounds a request, this setting bounds what remains after it.",
        example: "\"200MB\"",
        elsewhere: &["max_memory", "worker_max_memory", "rlimit_as"],
        ..BOTH
    },
    Setting {
        key: "php.worker_script",
        kind: Kind::UrlPath { word: "off" },
        default: Default::Unset("off: every request starts its script from the beginning"),
        line: "Script of persistent workers, below the root or elsewhere by its absolute path. A worker \
               starts it once, and it serves requests by millrace_handle_request(). It gets the requests of \
               the front controller.",
        reason: "An application written for it saves its boot in every request. Other scripts run in \
                 ordinary workers.",
        example: "\"/worker.php\"",
        elsewhere: &["worker", "frankenphp_worker", "pool.command", "octane"],
        ..BOTH
    },
    Setting {
        key: "php.worker_requests",
        kind: count_or_zero("never", 1, u64::MAX >> 1),
        default: Default::Fixed("1000"),
        line: "Number of requests after which a worker of `worker_script` is replaced by one that boots the \
               script again.",
        reason: "The memory that an application holds between requests may grow. A boot every thousand \
                 requests is hardly noticeable.",
        example: "500",
        elsewhere: &["max_loops", "loop_max", "frankenphp_loop_max", "max_jobs"],
        ..BOTH
    },
];

/// The maximum that measuring can yield: 8 per core or 16, and as many as fit into 75 % of all memory with 16 MB each.
fn workers(view: &View<'_>) -> Value {
    let environment = view.environment();
    let by_cores = (8 * environment.cores as u64).max(16);
    let by_memory = environment.memory / 4 * 3 / (16 * MB);
    Value::Number(by_cores.min(by_memory).clamp(1, 10_000))
}
