//! What the kernel has logged in the last minutes.

use super::{Certainty, Check, Measured, Rank, Scope, error, one, warning};
use crate::facts::Span;

/// Older lines are history, seconds.
const RECENT: f64 = 600.0;

macro_rules! row {
    ($id:literal, $title:literal, $sign:literal, $at:expr, $source:literal, $cure:literal, $cost:literal, $rank:ident, $measure:ident) => {
        Check {
            id: $id,
            title: $title,
            signal: $sign,
            at: $at,
            source: $source,
            cure: $cure,
            cost: $cost,
            certainty: Certainty::High,
            rank: Rank::$rank,
            scope: Scope::Machine,
            measure: $measure,
        }
    };
}

pub(super) const CHECKS: &[Check] = &[
    row!(
        "log-io-error",
        "errors of disks",
        "`I/O error` in the kernel's log",
        error(1.0, "lines in 10 minutes"),
        "node-problem-detector: IOError",
        "copy the data away and replace the disk",
        "Requests that need these blocks hang and fail.",
        Outage,
        io_errors
    ),
    row!(
        "log-hung-task",
        "tasks that hang in the kernel",
        "`blocked for more than` in the kernel's log",
        error(1.0, "lines in 10 minutes"),
        "node-problem-detector: TaskHung",
        "look at the disk or network file system that the task waits for",
        "The task, and everything that waits for it, stands still for minutes.",
        Outage,
        hung
    ),
    row!(
        "log-out-of-memory",
        "processes killed for lack of memory",
        "`Out of memory`, `oom-kill:` in the kernel's log",
        warning(1.0, "lines in 10 minutes"),
        "node-problem-detector: OOMKilling",
        "fewer PHP workers, a smaller database, or more memory",
        "The database or PHP workers were killed.",
        Symptom,
        killed
    ),
    row!(
        "log-segfault",
        "programs that crash",
        "`segfault at`, `general protection` in the kernel's log",
        warning(3.0, "lines in 10 minutes"),
        "one crash is an accident; three are a pattern",
        "update the program or the PHP extension that crashes",
        "Each crash costs a request.",
        Symptom,
        crashes
    ),
    row!(
        "log-conntrack",
        "packets dropped at a full table",
        "`table full, dropping packet` in the kernel's log",
        error(1.0, "lines in 10 minutes"),
        "nf_conntrack logs it, rate-limited, for each dropped packet",
        "sysctl net.netfilter.nf_conntrack_max",
        "New connections time out.",
        Limit,
        table_full
    ),
    row!(
        "log-syn-flood",
        "floods of half-open connections",
        "`Possible SYN flooding` in the kernel's log",
        warning(1.0, "lines in 10 minutes"),
        "the kernel logs it once per port when it begins to send cookies",
        "a larger backlog, or a filter in front",
        "New connections lose TCP options, or are dropped.",
        Limit,
        flood
    ),
    row!(
        "log-tcp-memory",
        "TCP out of memory",
        "`consider tuning tcp_mem`, `too many orphaned sockets` in the kernel's log",
        error(1.0, "lines in 10 minutes"),
        "the kernel logs it, rate-limited, when it cuts connections",
        "sysctl net.ipv4.tcp_mem",
        "Connections are cut.",
        Limit,
        tcp_memory
    ),
    row!(
        "log-nic",
        "network cards that hang",
        "`NETDEV WATCHDOG` in the kernel's log",
        error(1.0, "lines in 10 minutes"),
        "the kernel logs it when a card has not sent for 5 s",
        "update the driver or firmware; replace the card",
        "The network stands still for seconds.",
        Outage,
        card
    ),
];

/// Counts the lines of the last minutes that have one of the `signs`.
fn lines(span: &Span<'_>, signs: &[&str], what: &str, cure: &str) -> Measured {
    let recent = span.now.list("kernel_log.lines")?.iter().filter(|line| {
        line.figure("age").is_ok_and(|age| age <= RECENT)
            && signs.iter().any(|sign| line.text("text").contains(sign))
    });
    let texts: Vec<&str> = recent.map(|line| line.text("text")).collect();
    let last: String = texts.last().unwrap_or(&"").chars().take(200).collect();
    one(
        texts.len() as f64,
        what,
        format!("{} lines in the last 10 minutes, the last one: {last}", texts.len()),
        cure,
    )
}

fn io_errors(span: &Span<'_>) -> Measured {
    let signs = ["I/O error", "Remounting filesystem read-only"];
    lines(
        span,
        &signs,
        "a disk reports errors",
        "`smartctl -a` on the disk; copy the data away now and replace it",
    )
}

fn hung(span: &Span<'_>) -> Measured {
    lines(
        span,
        &["blocked for more than"],
        "a task hangs in the kernel",
        "`dmesg` shows what it waits for: usually a disk or a network file system",
    )
}

fn killed(span: &Span<'_>) -> Measured {
    let signs = ["Out of memory", "oom-kill:"];
    lines(
        span,
        &signs,
        "the kernel has killed processes for lack of memory",
        "lower php.workers, cache.memory or innodb_buffer_pool_size, or add memory",
    )
}

fn crashes(span: &Span<'_>) -> Measured {
    let signs = ["segfault at", "general protection"];
    lines(
        span,
        &signs,
        "a program crashes again and again",
        "update it; if it is php-host, the server's error log names script and frames: see docs/php-limits.md",
    )
}

fn table_full(span: &Span<'_>) -> Measured {
    let max =
        span.now("conntrack.max").map_or(String::new(), |max| format!("={:.0} (now {max:.0})", max * 2.0));
    lines(
        span,
        &["table full, dropping"],
        "the kernel drops packets because its table of connections is full",
        &format!("sysctl -w net.netfilter.nf_conntrack_max{max}"),
    )
}

fn flood(span: &Span<'_>) -> Measured {
    let signs = ["ossible SYN flooding"];
    lines(
        span,
        &signs,
        "more connections begin than the queue of half-open ones holds",
        "`ss -tn state syn-recv` shows from where; sysctl -w net.ipv4.tcp_max_syn_backlog=16384 net.core.somaxconn=65535",
    )
}

fn tcp_memory(span: &Span<'_>) -> Measured {
    let signs = ["consider tuning tcp_mem", "too many orphaned sockets"];
    lines(
        span,
        &signs,
        "TCP is out of memory",
        "raise net.ipv4.tcp_mem, or lower server.connection_memory: docs/connections.md",
    )
}

fn card(span: &Span<'_>) -> Measured {
    lines(
        span,
        &["NETDEV WATCHDOG"],
        "a network card hangs",
        "update its driver or firmware; on a virtual machine, the host's",
    )
}

#[cfg(test)]
mod tests {
    use crate::facts::Facts;
    use crate::testing::{Pair, case};

    fn logged(text: &'static str, age: f64) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| {
            let mut line = Facts::default();
            line.say("text", text);
            line.set("age", age);
            p.now.put("kernel_log.lines", vec![line.clone(), line.clone(), line]);
        }
    }

    #[test]
    fn recent_lines() {
        let text = "blk_update_request: I/O error, dev sda, sector 8";
        case("log-io-error", logged(text, 60.0), logged(text, 700.0));
        let text = "INFO: task mariadbd:7 blocked for more than 120 seconds.";
        case("log-hung-task", logged(text, 60.0), logged(text, 700.0));
        let text = "Out of memory: Killed process 9 (mariadbd)";
        case("log-out-of-memory", logged(text, 60.0), logged(text, 700.0));
        let text = "php-host[7]: segfault at 0 ip 0";
        case("log-segfault", logged(text, 60.0), logged(text, 700.0));
        let text = "nf_conntrack: nf_conntrack: table full, dropping packet";
        case("log-conntrack", logged(text, 60.0), logged(text, 700.0));
        let text = "TCP: request_sock_TCP: Possible SYN flooding on port 443";
        case("log-syn-flood", logged(text, 60.0), logged(text, 700.0));
        let text = "TCP: out of memory -- consider tuning tcp_mem";
        case("log-tcp-memory", logged(text, 60.0), logged(text, 700.0));
        let text = "NETDEV WATCHDOG: eth0: transmit queue 0 timed out";
        case("log-nic", logged(text, 60.0), logged(text, 700.0));
    }
}
