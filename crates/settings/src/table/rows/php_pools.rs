//! PHP pools.

use std::time::Duration;

use super::{BOTH, DAY, Default, H, Kind, MS, Page, Setting, Word, count, duration};
use crate::plan::PhpPool;
use crate::resolve::View;
use crate::value::Value;

pub(super) static PAGE: Page = Page {
    name: "php-pools",
    title: "PHP pools",
    line: "How to divide a site's PHP workers, so that visitors, administrators and background jobs don't \
           block each other.",
    guide: "php.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "php.pool.NAME.workers",
        kind: count(1, 10_000),
        default: Default::Unset(
            "`background` has an eighth of `php.workers`, or two, `front` what the others leave, at least \
             half, the others a quarter",
        ),
        line: "Workers of the pool: requests that run in it at the same time, without borrowing.",
        reason: "If all requests of a site share the workers, the first ones take them all: a crowd locks \
                 out the administrators that could stop it, and three reports in the back office stop the \
                 shop.",
        example: "3",
        elsewhere: &["max_children", "pm.max_children", "num_threads", "size"],
        ..BOTH
    },
    Setting {
        key: "php.pool.NAME.keep",
        kind: count(0, 10_000),
        default: Default::Unset(
            "`front` reserves three quarters of its own, `background` none, the others all; but one worker remains \
             for all",
        ),
        line: "Reserved workers of the pool: no other pool may borrow them, even if they are idle.",
        reason: "This many requests find a worker at once, whatever the other pools do. The pool lends its \
                 other workers.",
        example: "1",
        elsewhere: &["min_spare_servers", "reserve", "guaranteed"],
        ..BOTH
    },
    Setting {
        key: "php.pool.NAME.borrow",
        kind: count(0, 10_000),
        default: Default::Unset(
            "`front` and `admin` may borrow every worker that others don't reserve, other pools none",
        ),
        line: "Maximum workers to borrow from other pools while they are idle there.",
        reason: "An idle worker is wasted. A worker that returns a moment late is a small price.",
        example: "2",
        elsewhere: &["burst", "overflow", "max_overflow"],
        ..BOTH
    },
    Setting {
        key: "php.pool.NAME.queue",
        kind: count(0, 1_000_000),
        default: Default::Computed {
            says: "php.queue",
            from: |view| Value::Number(view.number("php.queue")),
        },
        line: "Maximum requests that wait for a worker of the pool. Further ones get 503 at once.",
        reason: "A crowd in front of one pool takes no places in the queues of the others.",
        example: "100",
        elsewhere: &["listen.backlog", "backlog"],
        ..BOTH
    },
    Setting {
        key: "php.pool.NAME.queue_timeout",
        kind: duration(100 * MS, H),
        default: Default::Computed {
            says: "php.queue_timeout",
            from: |view| Value::Duration(view.duration("php.queue_timeout")),
        },
        line: "How long a request may wait for a worker of the pool. After that it gets 503.",
        reason: "A webhook is sent again after a minute; a visitor leaves after seconds.",
        example: "\"5s\"",
        elsewhere: &["max_wait_time"],
        ..BOTH
    },
    Setting {
        key: "php.pool.NAME.queue_wait",
        kind: Kind::Duration { min: 10 * MS, max: H, zero: Some("as long as `queue_timeout`") },
        default: Default::Computed {
            says: "php.queue_wait; 0 for `background`",
            from: |view| {
                let any = view.pool_name() == Some(PhpPool::BACKGROUND);
                Value::Duration(if any { Duration::ZERO } else { view.duration("php.queue_wait") })
            },
        },
        line: "Longest expected wait for a worker of the pool. A request that would wait longer gets 503 at \
               once.",
        reason: "Background jobs have no reader: they may wait as long as it takes.",
        example: "\"3s\"",
        elsewhere: &["max_queue_wait"],
        ..BOTH
    },
    Setting {
        key: "php.pool.NAME.request_timeout",
        kind: Kind::Duration { min: 100 * MS, max: 7 * DAY, zero: Some("no limit") },
        default: Default::Computed {
            says: "php.request_timeout",
            from: |view| Value::Duration(view.duration("php.request_timeout")),
        },
        line: "Maximum wall-clock time of a request in the pool.",
        reason: "An import in the back office may take its five minutes; a page that takes one has lost its \
                 reader.",
        example: "\"30s\"",
        elsewhere: &["request_terminate_timeout", "fastcgi_read_timeout"],
        ..BOTH
    },
    Setting {
        key: "php.pool.NAME.time_limit_max",
        kind: Kind::Duration { min: 100 * MS, max: 7 * DAY, zero: Some("no limit") },
        default: Default::Computed {
            says: "php.time_limit_max",
            from: |view| Value::Duration(view.duration("php.time_limit_max")),
        },
        line: "Maximum wall-clock time that a script of the pool may give itself by `set_time_limit()`.",
        reason: "`5m` for `front` keeps the workers of visitors free of scripts that hang.",
        example: "\"5m\"",
        ..BOTH
    },
    Setting {
        key: "php.pool.NAME.nice",
        kind: count(0, 19),
        default: Default::Computed {
            says: "0 for `admin` and for a single pool, 10 for `background`, 5 for the others",
            from: nice,
        },
        line: "How much the pool's workers yield to other processes when the processor is short, on top of \
               the server's own nice value.",
        reason: "With more visitors than the machine can serve, administrators still get their pages soon. A \
                 server without CAP_SYS_NICE starts separate workers for pools that yield less.",
        example: "15",
        elsewhere: &["process.priority", "worker_priority", "priority"],
        ..BOTH
    },
    Setting {
        key: "php.pool.NAME.paths",
        kind: Kind::Words(Word::Path),
        default: Default::Unset("the rules of the profile"),
        line: "Paths of requests that run in the pool, written as in `cache.bypass_paths`.",
        reason: "A request runs in the first pool that matches one of its paths, cookies or arguments - and \
                 its method, if the pool names any. Written rules come before the profile's. A request \
                 without a match runs in `front`.",
        example: "[\"/api\", \"*/export\"]",
        elsewhere: &["location", "match", "path", "route"],
        ..BOTH
    },
    Setting {
        key: "php.pool.NAME.methods",
        kind: Kind::Words(Word::Method),
        default: Default::Unset("any method"),
        line: "Methods of requests that run in the pool; if the pool also names paths, cookies or arguments, \
               a request must match both.",
        reason: "Requests that change something and requests that read can have their own workers.",
        example: "[\"POST\", \"PUT\"]",
        elsewhere: &["limit_except", "method"],
        ..BOTH
    },
    Setting {
        key: "php.pool.NAME.cookies",
        kind: Kind::Words(Word::Cookie),
        default: Default::Unset("the rules of the profile"),
        line: "Cookies of requests that run in the pool: names, `*` at either end for anything.",
        reason: "For members of an application that Millrace doesn't know.",
        example: "[\"member_*\"]",
        elsewhere: &["cookie"],
        ..BOTH
    },
    Setting {
        key: "php.pool.NAME.arguments",
        kind: Kind::Words(Word::ArgumentValue),
        default: Default::Unset("the rules of the profile"),
        line: "Arguments of requests that run in the pool, in the query or in a form of up to 64KB: names, \
               or names with a value.",
        reason: "Applications with one script for everything select the action by an argument.",
        example: "[\"action=export\", \"sync_*\"]",
        elsewhere: &["args", "query"],
        ..BOTH
    },
];

fn nice(view: &View<'_>) -> Value {
    Value::Number(match view.pool_name() {
        Some(PhpPool::ADMIN) => 0,
        Some(PhpPool::BACKGROUND) => 10,
        _ if view.pool_names().len() == 1 => 0,
        _ => 5,
    })
}
