//! Limits of the process, of its control group, and of the kernel.

use super::{Certainty, Check, Measured, Rank, Scope, both, bytes, double, error, measure, one, tuned};
use crate::facts::{Blind, Span, percent};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "fd-server",
        title: "file descriptors of the server",
        signal: "open_descriptors and descriptor_limit of the status; accept_no_descriptors_total, connections_gave_way_total",
        at: both(
            85.0,
            95.0,
            "% of the limit; a failed accept, or an idle connection closed to make room, is 100",
        ),
        source: "netdata health.d/file_descriptors: 95 %, and 85 % to stay a warning",
        cure: "LimitNOFILE in the unit, or ulimit -n",
        cost: "New visitors are not accepted, and files cannot be opened.",
        certainty: Certainty::High,
        rank: Rank::Outage,
        scope: Scope::Machine,
        measure: server_descriptors,
    },
    Check {
        id: "fd-machine",
        title: "file descriptors of the machine",
        signal: "/proc/sys/fs/file-nr",
        at: both(80.0, 90.0, "% of fs.file-max"),
        source: "netdata health.d/file_descriptors: critical from 90 %",
        cure: "sysctl fs.file-max",
        cost: "No program can open files or connections.",
        certainty: Certainty::High,
        rank: Rank::Outage,
        scope: Scope::Machine,
        measure: machine_descriptors,
    },
    Check {
        id: "tasks",
        title: "processes and threads of the machine",
        signal: "/proc/loadavg, kernel.threads-max, kernel.pid_max",
        at: both(90.0, 95.0, "% of the smaller limit"),
        source: "netdata health.d/processes: 90 and 95 % of pid_max",
        cure: "sysctl kernel.pid_max and kernel.threads-max, or fewer workers",
        cost: "PHP workers cannot be forked.",
        certainty: Certainty::High,
        rank: Rank::Outage,
        scope: Scope::Machine,
        measure: tasks,
    },
    Check {
        id: "cgroup-memory",
        title: "memory limit of the control group",
        signal: "memory.events (max), memory.failcnt, anonymous memory of memory.stat",
        at: both(
            90.0,
            100.0,
            "% of the limit without the file cache; reaching the limit between the looks with 80 % is 100",
        ),
        source: "cgroup-v2.rst: `max` counts how often a group was about to exceed its limit; below 80 % only file cache is dropped",
        cure: "a larger MemoryMax, or fewer PHP workers (php.workers)",
        cost: "Every allocation waits for memory to be freed; then processes are killed.",
        certainty: Certainty::High,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: group_memory,
    },
    Check {
        id: "cgroup-oom",
        title: "processes killed at the memory limit of the control group",
        signal: "memory.events (oom_kill), memory.oom_control",
        at: error(1.0, "processes between the looks"),
        source: "any killed process is a lost request",
        cure: "a larger MemoryMax, or fewer PHP workers (php.workers)",
        cost: "Requests end in an error when their worker is killed.",
        certainty: Certainty::High,
        rank: Rank::Outage,
        scope: Scope::Machine,
        measure: group_kills,
    },
    Check {
        id: "cgroup-cpu",
        title: "CPU quota of the control group",
        signal: "nr_throttled and nr_periods of cpu.stat",
        at: both(5.0, 25.0, "% of the periods throttled, of at least 10"),
        source: "netdata health.d/cgroups: 95 % of the limit; in a throttled period, all of it was used",
        cure: "a larger CPUQuota",
        cost: "All processes of the server stand still for up to 100 ms at a time, though processors may be idle.",
        certainty: Certainty::High,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: group_cpu,
    },
    Check {
        id: "cgroup-pids",
        title: "process limit of the control group",
        signal: "pids.current and pids.max",
        at: both(90.0, 95.0, "% of the limit"),
        source: "as for the machine",
        cure: "a larger TasksMax",
        cost: "PHP workers and threads cannot be started.",
        certainty: Certainty::High,
        rank: Rank::Outage,
        scope: Scope::Machine,
        measure: group_tasks,
    },
    Check {
        id: "overcommit",
        title: "memory that programs may reserve",
        signal: "Committed_AS and CommitLimit of /proc/meminfo, where vm.overcommit_memory is 2",
        at: both(90.0, 98.0, "% of the limit"),
        source: "overcommit-accounting.rst: beyond the limit, allocations and forks fail",
        cure: "sysctl vm.overcommit_memory=0, or a higher vm.overcommit_ratio",
        cost: "Forks and allocations fail though there is free memory.",
        certainty: Certainty::High,
        rank: Rank::Outage,
        scope: Scope::Machine,
        measure: overcommit,
    },
];

fn server_descriptors(span: &Span<'_>) -> Measured {
    let (open, limit) = (span.now("server.open_descriptors")?, span.now("server.descriptor_limit")?);
    let failed = span.rise("server.counters.accept_no_descriptors_total")?;
    let closed =
        if memory_is_short(span)? { 0.0 } else { span.rise("server.counters.connections_gave_way_total")? };
    let hard = span.now("process.files_hard").unwrap_or(limit).min(1_048_576.0);
    let wanted = (limit * 4.0).max(65_536.0);
    let more = if wanted > hard { format!(", the hard limit now: {hard:.0}") } else { String::new() };
    let mut found = measure(
        if failed + closed > 0.0 { 100.0 } else { percent(open, limit) },
        format!("the server has {open:.0} of {limit:.0} file descriptors open"),
        format!(
            "open_descriptors {open:.0} of {limit:.0}; {failed:.0} connections could not be accepted in {:.0} s",
            span.seconds
        ),
        tuned(format!(
            "LimitNOFILE={wanted:.0} in the unit of the server, or `ulimit -n {wanted:.0}` before it starts (now {limit:.0}{more}); then restart it"
        )),
    );
    if closed > 0.0 {
        found.evidence.push(format!("{closed:.0} idle connections closed to make room"));
    }
    Ok(vec![found])
}

/// Whether idle connections are closed for lack of memory; otherwise it is for lack of descriptors.
pub(super) fn memory_is_short(span: &Span<'_>) -> Result<bool, Blind> {
    let used = span.now("server.connection_memory.used_bytes")?;
    // No budget, no limit.
    Ok(span.now("server.connection_memory.budget_bytes").is_ok_and(|budget| used >= budget * 0.8))
}

fn machine_descriptors(span: &Span<'_>) -> Measured {
    let (open, max) = (span.now("files.open")?, span.now("files.max")?);
    one(
        percent(open, max),
        "the machine has almost no file descriptors left",
        format!("{open:.0} of {max:.0} open"),
        tuned(format!("sysctl -w fs.file-max={} (now {max:.0})", double(max))),
    )
}

fn tasks(span: &Span<'_>) -> Measured {
    let count = span.now("tasks.count")?;
    let (threads, pids) = (span.now("sysctl.kernel.threads-max")?, span.now("sysctl.kernel.pid_max")?);
    let (name, limit) =
        if threads < pids { ("kernel.threads-max", threads) } else { ("kernel.pid_max", pids) };
    one(
        percent(count, limit),
        "the machine can hardly start another process",
        format!("{count:.0} processes and threads of {limit:.0}"),
        format!("sysctl -w {name}={} (now {limit:.0})", double(limit)),
    )
}

fn group_memory(span: &Span<'_>) -> Measured {
    let (max, anon) = (span.now("cgroup_memory.max")?, span.now("cgroup_memory.anon")?);
    let hits = span.rise("cgroup_memory.hits")?;
    let share = percent(anon, max);
    let value = if hits > 0.0 && share >= 80.0 { 100.0 } else { share.min(99.0) };
    one(
        value,
        "the server is at the memory limit of its control group",
        format!(
            "{} of {} in use without the file cache; the limit was reached {hits:.0} times in {:.0} s ({})",
            bytes(anon),
            bytes(max),
            span.seconds,
            span.now.text("cgroup_memory.path")
        ),
        format!(
            "{}={:.0} (now {max:.0}, {}), or fewer workers: php.workers",
            span.now.text("cgroup_memory.setting"),
            max * 2.0,
            bytes(max)
        ),
    )
}

fn group_kills(span: &Span<'_>) -> Measured {
    let kills = span.rise("cgroup_memory.oom_kills")?;
    let max = span.now("cgroup_memory.max")?;
    one(
        kills,
        format!("the kernel killed {kills:.0} processes of the server's control group"),
        format!("oom_kill +{kills:.0} in {:.0} s; limit {}", span.seconds, bytes(max)),
        format!(
            "{}={:.0} (now {max:.0}), or fewer workers: php.workers",
            span.now.text("cgroup_memory.setting"),
            max * 2.0
        ),
    )
}

fn group_cpu(span: &Span<'_>) -> Measured {
    let cores = span.now("cgroup_cpu.cores")?;
    let (periods, throttled) = (span.rise("cgroup_cpu.nr_periods")?, span.rise("cgroup_cpu.nr_throttled")?);
    let wanted = span.now("cpu.count")?;
    let setting = span.now.text("cgroup_cpu.setting");
    let cure = match setting {
        "CPUQuota" => format!("CPUQuota={:.0}% (now {:.0}%)", wanted * 100.0, cores * 100.0),
        _ => format!(
            "{setting}=-1 in {} (now {cores:.2} of {wanted:.0} cores)",
            span.now.text("cgroup_cpu.path")
        ),
    };
    one(
        if periods >= 10.0 { percent(throttled, periods) } else { 0.0 },
        format!("the CPU quota of {cores:.2} cores stops the server"),
        format!("{throttled:.0} of {periods:.0} periods throttled in {:.0} s", span.seconds),
        cure,
    )
}

fn group_tasks(span: &Span<'_>) -> Measured {
    let (now, max) = (span.now("cgroup_pids.current")?, span.now("cgroup_pids.max")?);
    one(
        percent(now, max),
        "the control group can hardly start another process",
        format!("{now:.0} of {max:.0} ({})", span.now.text("cgroup_pids.path")),
        format!("TasksMax={} (now {max:.0})", double(max)),
    )
}

fn overcommit(span: &Span<'_>) -> Measured {
    let mode = span.now("sysctl.vm.overcommit_memory")?;
    let (used, limit) = (span.now("memory.Committed_AS")?, span.now("memory.CommitLimit")?);
    one(
        if mode == 2.0 { percent(used, limit) } else { 0.0 },
        "programs may reserve no more memory",
        format!("{} of {} reserved", bytes(used * 1_024.0), bytes(limit * 1_024.0)),
        "sysctl -w vm.overcommit_memory=0 (now 2)",
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::{Pair, case};

    #[test]
    fn descriptors_and_tasks() {
        case(
            "fd-server",
            |p| p.now.set("server.open_descriptors", 1_000.0),
            |p| p.now.set("server.open_descriptors", 700.0),
        );
        let failed = |p: &mut Pair| p.rise("server.counters.accept_no_descriptors_total", 3.0);
        case("fd-server", failed, |_| ());
        let closed = |used: f64| {
            move |p: &mut Pair| {
                p.rise("server.counters.connections_gave_way_total", 9.0);
                p.now.set("server.connection_memory.used_bytes", used);
            }
        };
        case("fd-server", closed(1e6), closed(0.95e9));
        case("fd-machine", |p| p.now.set("files.open", 95_000.0), |p| p.now.set("files.open", 79_000.0));
        case("tasks", |p| p.now.set("tasks.count", 31_000.0), |p| p.now.set("tasks.count", 20_000.0));
    }

    #[test]
    fn control_groups() {
        let full = |p: &mut Pair| {
            p.now.set("cgroup_memory.anon", 0.85e9);
            p.rise("cgroup_memory.hits", 4.0);
        };
        // A backup has filled the file cache up to the limit: no problem.
        case("cgroup-memory", full, |p| p.rise("cgroup_memory.hits", 4.0));
        case(
            "cgroup-memory",
            |p| p.now.set("cgroup_memory.anon", 0.95e9),
            |p| p.now.set("cgroup_memory.anon", 0.85e9),
        );
        case(
            "cgroup-oom",
            |p| p.rise("cgroup_memory.oom_kills", 1.0),
            |p| p.both("cgroup_memory.oom_kills", 9.0),
        );
        case(
            "cgroup-cpu",
            |p| {
                p.rise("cgroup_cpu.nr_periods", 50.0);
                p.rise("cgroup_cpu.nr_throttled", 30.0);
            },
            |p| {
                p.rise("cgroup_cpu.nr_periods", 50.0);
                p.rise("cgroup_cpu.nr_throttled", 2.0);
            },
        );
        case(
            "cgroup-pids",
            |p| p.now.set("cgroup_pids.current", 480.0),
            |p| p.now.set("cgroup_pids.current", 300.0),
        );
    }

    #[test]
    fn strict_accounting() {
        let used = |p: &mut Pair| p.now.set("memory.Committed_AS", 3_990_000.0);
        let strict = move |p: &mut Pair| {
            used(p);
            p.now.set("sysctl.vm.overcommit_memory", 2.0);
        };
        case("overcommit", strict, used);
    }
}
