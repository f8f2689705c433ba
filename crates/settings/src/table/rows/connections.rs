//! Connections, keep-alive and memory.

use super::{DAY, Default, GB, H, Kind, MB, MS, Page, ROW, Setting, count_or_zero, duration};
use crate::memory::Shares;
use crate::value::Value;

pub(super) static PAGE: Page = Page {
    name: "connections",
    title: "Connections, keep-alive and memory",
    line: "How many connections the server accepts, how long it keeps them open, and how much memory they \
           may use.",
    guide: "connections.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "server.connections",
        kind: count_or_zero("as many as the descriptor limit allows", 1, 10_000_000),
        default: Default::Fixed("0"),
        line: "Maximum client connections per listener.",
        reason: "Beyond it, new connections wait in the kernel's queue. The descriptor limit is the natural \
                 bound; set a lower number to leave descriptors for other programs. If the number exceeds a \
                 descriptor limit that can't be raised, threads with their own descriptor tables hold plain \
                 HTTP connections.",
        example: "20000",
        elsewhere: &["worker_connections", "max_connections", "maxclients", "max_clients"],
        ..ROW
    },
    Setting {
        key: "server.connection_memory",
        kind: Kind::Size { min: MB, max: 64 * 1024 * GB, zero: Some("no limit") },
        default: Default::Computed {
            says: "what the page cache, files and PHP workers (64MB each, or php.worker_memory) leave of 75% \
                   of memory, at least 1/16 of it",
            from: |view| Value::Number(Shares::with_one(view).connections),
        },
        line: "Maximum memory of all connections together: the server's state, data that waits to be sent, \
               and the kernel's buffers.",
        reason: "At the limit, the server closes the connections that have been idle longest; if all are \
                 busy, new ones get a 503 with Retry-After, or wait in the kernel's queue. So a crowd can't \
                 take the memory of PHP, the page cache and the database. An idle connection counts as 4KB, \
                 8KB with TLS, 30KB with HTTP/2. The log shows how the default was computed, `millrace \
                 status` how much is in use.",
        example: "\"512MB\"",
        elsewhere: &["limit_conn_zone", "tcp_mem"],
        ..ROW
    },
    Setting {
        key: "http.keep_alive",
        kind: duration(0, DAY),
        default: Default::Fixed("60s"),
        line: "How long to keep an idle connection open. 0 closes each connection after its response.",
        reason: "A visitor's next click comes within a minute and saves the handshake. An idle connection \
                 costs about 1 KB, so there is no need for a short time.",
        example: "\"5s\"",
        elsewhere: &["keepalive_timeout", "keepalivetimeout", "keep_alive_timeout", "idle_timeout"],
        ..ROW
    },
    Setting {
        key: "http.keep_alive_requests",
        kind: count_or_zero("no limit", 1, u64::MAX >> 1),
        default: Default::Fixed("0"),
        line: "Maximum requests per connection.",
        reason: "A connection doesn't grow with its requests, so the server needs no limit. Some load \
                 balancers distribute better with one.",
        example: "1000",
        elsewhere: &["keepalive_requests", "maxkeepaliverequests"],
        ..ROW
    },
    Setting {
        key: "http.send_timeout",
        kind: duration(100 * MS, H),
        default: Default::Fixed("60s"),
        line: "Maximum pause of a client that stops reading a response. After a longer pause the server \
               resets the connection; over HTTP/2 it cancels the response, if nothing else has come from the client.",
        reason: "A client that requests large files and doesn't read them holds buffers and PHP's output. But downloads \
                 and videos are paused. While memory or descriptors for connections are short, clients that pause \
                 for more than 4 s are closed to make room.",
        example: "\"30s\"",
        elsewhere: &["write_timeout", "timeout"],
        ..ROW
    },
];
