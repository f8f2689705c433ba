//! Listening addresses and event loops.

use super::{Default, H, Kind, Page, ROW, Setting, count, duration};
use crate::value::Value;

pub(super) static PAGE: Page = Page {
    name: "listening",
    title: "Listening addresses and event loops",
    line: "Where the server accepts connections, how many threads serve them, and how it shuts down.",
    guide: "connections.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "server.listen",
        kind: Kind::Addresses,
        default: Default::Fixed("127.0.0.1:8080"),
        line: "Addresses to listen on: `127.0.0.1:8080`, `:80` (every IPv4 and IPv6 address), `[::1]:80`, \
               `unix:/run/millrace.sock`.",
        reason: "The default is reachable from this machine only: publishing a site is a decision, not an \
                 accident. A reload opens new addresses; it closes an address that is no longer listed after \
                 accepting the connections that already wait there.",
        example: "[\":80\", \"unix:/run/millrace/web.sock\"]",
        elsewhere: &["port", "bind", "address", "listen_addr"],
        ..ROW
    },
    Setting {
        key: "server.backlog",
        kind: count(1, 65_535),
        default: Default::Fixed("4096"),
        line: "Maximum connections that wait to be accepted, per listening socket.",
        reason: "They absorb a burst while the event loop is busy. The kernel limits the number to \
                 net.core.somaxconn (4096 on current kernels).",
        example: "1024",
        restart: Some(|old, new| old.server.backlog != new.server.backlog),
        ..ROW
    },
    Setting {
        key: "server.threads",
        kind: count(1, 1024),
        default: Default::Computed {
            says: "one per core",
            from: |view| Value::Number(view.environment().cores as u64),
        },
        line: "Number of event loops, each with its own listening sockets.",
        reason: "A connection stays on one event loop, so loops share nothing; more loops than cores only \
                 add context switches. The default counts the cores that the process may use (affinity and \
                 cgroup quota).",
        example: "3",
        elsewhere: &["worker_processes", "worker_threads"],
        restart: Some(|old, new| old.server.threads != new.server.threads),
        ..ROW
    },
    Setting {
        key: "server.pin_threads",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether to bind each event loop to one core.",
        reason: "Binding keeps CPU caches warm on a dedicated machine; on a shared machine the kernel places \
                 threads better.",
        example: "true",
        elsewhere: &["worker_cpu_affinity"],
        restart: Some(|old, new| old.server.pin_threads != new.server.pin_threads),
        ..ROW
    },
    Setting {
        key: "server.shutdown_grace",
        kind: duration(0, H),
        default: Default::Fixed("30s"),
        line: "How long running requests may continue after SIGTERM.",
        reason: "The server stops accepting connections and finishes running requests, so a restart loses \
                 nothing. Kubernetes kills a program after 30 s, systemd after 90 s.",
        example: "\"10s\"",
        elsewhere: &["worker_shutdown_timeout", "graceful_timeout", "gracefulshutdowntimeout"],
        ..ROW
    },
];
