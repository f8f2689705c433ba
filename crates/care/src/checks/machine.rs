//! Processors, memory, clock.

use super::{
    Certainty, Check, Measured, Rank, Scope, both, bytes, error, measure, note, one, tuned, warning,
};
use crate::facts::{Blind, Facts, Span, percent};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "cpu-busy",
        title: "processors in use",
        signal: "/proc/stat, and /proc/pressure/cpu",
        at: warning(95.0, "% busy, while tasks wait for a processor at least 20 % of the time"),
        source: "netdata health.d/cpu: 85 and 95 % over 10 minutes; a short look needs a high bound and a second sign",
        cure: "more hits of the page cache, cheaper scripts, more processors",
        cost: "Every script takes longer; requests wait.",
        certainty: Certainty::High,
        rank: Rank::Pressure,
        scope: Scope::Machine,
        measure: busy,
    },
    Check {
        id: "cpu-steal",
        title: "processor time that the host gives to others",
        signal: "steal of /proc/stat",
        at: both(10.0, 25.0, "% of the time of all processors"),
        source: "netdata health.d/cpu: 10 % (20 min)",
        cure: "a machine with dedicated processors",
        cost: "Everything takes longer by that share, at times that only the host controls.",
        certainty: Certainty::Medium,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: steal,
    },
    Check {
        id: "cpu-iowait",
        title: "processors idle because of disks",
        signal: "iowait of /proc/stat",
        at: warning(40.0, "% of the time of all processors"),
        source: "netdata health.d/cpu: 40 %",
        cure: "a faster disk, or less writing",
        cost: "Scripts and the database wait for the disk.",
        certainty: Certainty::Medium,
        rank: Rank::Pressure,
        scope: Scope::Machine,
        measure: iowait,
    },
    Check {
        id: "cpu-governor",
        title: "processors that save power under load",
        signal: "scaling_governor of cpu0, while the processors are busy",
        at: warning(50.0, "% busy with the governor powersave"),
        source: "kernel cpufreq documentation: acpi-cpufreq's powersave stays at the lowest frequency",
        cure: "cpupower frequency-set -g performance",
        cost: "Scripts may run at a fraction of the speed.",
        certainty: Certainty::Low,
        rank: Rank::Advice,
        scope: Scope::Machine,
        measure: governor,
    },
    Check {
        id: "clock-source",
        title: "the clock that the kernel reads",
        signal: "current_clocksource",
        at: warning(1.0, "where it is hpet, acpi_pm or jiffies"),
        source: "the kernel's timekeeping documentation: these clocks are read from a device, not from a register",
        cure: "clocksource=tsc on the kernel's command line, or the host's paravirtual clock",
        cost: "Every reading of the time takes longer; PHP and databases read it all the time.",
        certainty: Certainty::Medium,
        rank: Rank::Advice,
        scope: Scope::Machine,
        measure: clock,
    },
    Check {
        id: "memory-low",
        title: "free memory",
        signal: "MemAvailable of /proc/meminfo",
        at: both(90.0, 97.0, "% in use"),
        source: "netdata health.d/ram: less than 10 % available",
        cure: "fewer PHP workers, a smaller page cache or database, or more memory",
        cost: "The file cache shrinks and disks are read again; next, processes are killed.",
        certainty: Certainty::High,
        rank: Rank::Pressure,
        scope: Scope::Machine,
        measure: memory,
    },
    Check {
        id: "memory-stall",
        title: "time in which all tasks wait for memory",
        signal: "full avg10 of /proc/pressure/memory",
        at: both(5.0, 20.0, "% of the last 10 s"),
        source: "systemd-oomd's default is 60 % over 30 s, to kill; a site is slow long before",
        cure: "fewer PHP workers (php.workers), or more memory",
        cost: "Nothing makes progress in that time.",
        certainty: Certainty::Medium,
        rank: Rank::Pressure,
        scope: Scope::Machine,
        measure: stall,
    },
    Check {
        id: "swap",
        title: "swapping",
        signal: "pswpin and pswpout of /proc/vmstat",
        at: both(100.0, 1_000.0, "pages in and out per second, the smaller of both doubled"),
        source: "chosen: both directions at once tell thrashing from the eviction of idle pages (netdata health.d/swap: 30 % of memory out in 30 minutes)",
        cure: "fewer PHP workers (php.workers), or more memory",
        cost: "Scripts wait for the disk at every step.",
        certainty: Certainty::High,
        rank: Rank::Pressure,
        scope: Scope::Machine,
        measure: swap,
    },
    Check {
        id: "oom",
        title: "processes killed because memory ran out",
        signal: "oom_kill of /proc/vmstat",
        at: error(1.0, "processes between the looks"),
        source: "netdata health.d/ram: any out-of-memory kill",
        cure: "fewer PHP workers (php.workers), a smaller database, or more memory",
        cost: "The database or PHP workers are killed.",
        certainty: Certainty::High,
        rank: Rank::Outage,
        scope: Scope::Machine,
        measure: kills,
    },
    Check {
        id: "huge-pages",
        title: "stalls for huge pages",
        signal: "compact_stall of /proc/vmstat, where transparent_hugepage is always",
        at: warning(20.0, "stalls per second"),
        source: "Redis's documentation advises against `always`; a stall is a task that compacts memory instead of working",
        cure: "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        cost: "Allocations take milliseconds.",
        certainty: Certainty::Medium,
        rank: Rank::Work,
        scope: Scope::Machine,
        measure: huge_pages,
    },
    Check {
        id: "worker-memory",
        title: "memory that all PHP workers could use",
        signal: "workers, workers_most and memory of the status, MemAvailable",
        at: note(100.0, "% of what is available, if all workers grow to the largest one's private memory"),
        source: "the usual rule for pm.max_children of php-fpm: memory for PHP divided by the memory of a process",
        cure: "php.workers",
        cost: "A crowd of visitors could make the machine run out of memory.",
        certainty: Certainty::Medium,
        rank: Rank::Advice,
        scope: Scope::Machine,
        measure: worker_memory,
    },
];

/// Percent of the time of all processors between the looks that fell on the columns `names`.
fn share(span: &Span<'_>, names: &[&str]) -> Result<f64, crate::facts::Blind> {
    let total = span.rise("cpu.total")?;
    let mut sum = 0.0;
    for name in names {
        sum += span.rise(&format!("cpu.{name}"))?;
    }
    Ok(percent(sum, total))
}

fn busy_share(span: &Span<'_>) -> Result<f64, crate::facts::Blind> {
    // Time that the host gave to others (steal) was not idle either; it has a check of its own.
    Ok(100.0 - share(span, &["idle", "iowait"])?)
}

fn busy(span: &Span<'_>) -> Measured {
    let share = busy_share(span)?;
    let waiting = span.now("pressure_cpu.some_avg10")?;
    let value = if waiting >= 20.0 { share } else { 0.0 };
    let busy =
        format!("{share:.0} % busy in {:.0} s; tasks waited {waiting:.0} % of the last 10 s", span.seconds);
    if let Ok(Some((name, percent))) = foreign(span) {
        return one(
            value,
            format!("all processors are busy, most of all with {name}, which does not serve the sites"),
            format!("{busy}; {name} used {percent:.0} % of what was used"),
            format!(
                "stop {name}, move it to another machine or to the night, or give it less: `renice 19`, or CPUWeight=20 in its unit"
            ),
        );
    }
    one(
        value,
        "all processors are busy",
        busy,
        "see which requests miss the page cache (`millrace status`, bypassed), then cheaper scripts (php.slow_log = \"1s\"), then more processors",
    )
}

/// The program that used more processor time than any other, and its share in percent, if it does not serve sites.
fn foreign(span: &Span<'_>) -> Result<Option<(String, f64)>, Blind> {
    let (before, now) = (span.before.list("programs.each")?, span.now.list("programs.each")?);
    let ticks = |programs: &[Facts], name: &str| {
        programs
            .iter()
            .find(|one| one.text("name") == name)
            .and_then(|one| one.figure("ticks").ok())
            .unwrap_or(0.0)
    };
    let used = |one: &Facts| {
        (
            one.text("name").to_owned(),
            (ticks(now, one.text("name")) - ticks(before, one.text("name"))).max(0.0),
        )
    };
    let used: Vec<(String, f64)> = now.iter().map(used).collect();
    let all: f64 = used.iter().map(|(_, ticks)| ticks).sum();
    let most = used.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
    let foreign = most.filter(|(name, _)| !millrace_sys::serves_sites(name));
    Ok(foreign.map(|(name, ticks)| (name, percent(ticks, all))))
}

fn steal(span: &Span<'_>) -> Measured {
    let share = share(span, &["steal"])?;
    one(
        share,
        "the host gives this machine's processor time to others",
        format!("steal {share:.1} % in {:.0} s", span.seconds),
        "move to a machine with dedicated processors, or ask the provider: no setting of this machine changes it",
    )
}

fn iowait(span: &Span<'_>) -> Measured {
    let share = share(span, &["iowait"])?;
    one(
        share,
        "the processors wait for disks",
        format!("iowait {share:.0} % in {:.0} s", span.seconds),
        "find the writer with `iotop -o`; for a database: innodb_flush_log_at_trx_commit=2 and a larger innodb_buffer_pool_size",
    )
}

fn governor(span: &Span<'_>) -> Measured {
    let governor = span.now.word("governor.word")?;
    let share = busy_share(span)?;
    one(
        if governor == "powersave" { share } else { 0.0 },
        "the processors save power under load",
        format!("scaling_governor {governor}, {share:.0} % busy"),
        "cpupower frequency-set -g performance (now powersave)",
    )
}

fn clock(span: &Span<'_>) -> Measured {
    let source = span.now.word("clock.word")?;
    let slow = matches!(source, "hpet" | "acpi_pm" | "jiffies");
    one(
        f64::from(u8::from(slow)),
        format!("the kernel reads a slow clock: {source}"),
        format!("current_clocksource {source}"),
        format!(
            "clocksource=tsc on the kernel's command line (now {source}); on a virtual machine use kvm-clock or hyperv_clocksource"
        ),
    )
}

fn memory(span: &Span<'_>) -> Measured {
    let (total, available) = (span.now("memory.MemTotal")?, span.now("memory.MemAvailable")?);
    one(
        percent(total - available, total),
        "memory is almost used up",
        format!("{} of {} available", bytes(available * 1_024.0), bytes(total * 1_024.0)),
        tuned(
            "lower php.workers, cache.memory or innodb_buffer_pool_size (`millrace status` says how much PHP and the page cache use)",
        ),
    )
}

fn stall(span: &Span<'_>) -> Measured {
    let full = span.now("pressure_memory.full_avg10")?;
    one(
        full,
        "all tasks wait for memory",
        format!("/proc/pressure/memory: full avg10={full:.1}"),
        "lower php.workers (see `millrace explain php.workers`), or add memory",
    )
}

fn swap(span: &Span<'_>) -> Measured {
    let (pages_in, pages_out) = (span.rate("vm.pswpin")?, span.rate("vm.pswpout")?);
    one(
        pages_in.min(pages_out) * 2.0,
        "the machine swaps",
        format!("{pages_in:.0} pages in, {pages_out:.0} pages out per second"),
        tuned("lower php.workers (see `millrace explain php.workers`), or add memory"),
    )
}

fn kills(span: &Span<'_>) -> Measured {
    let kills = span.rise("vm.oom_kill")?;
    one(
        kills,
        format!("the kernel killed {kills:.0} processes because memory ran out"),
        format!("oom_kill +{kills:.0} in {:.0} s", span.seconds),
        "lower php.workers, cache.memory or innodb_buffer_pool_size, or add memory; `dmesg | grep -i 'killed process'` names the victims",
    )
}

fn huge_pages(span: &Span<'_>) -> Measured {
    let is_always = span.now.word("huge_pages.word")?.contains("[always]");
    let rate = span.rate("vm.compact_stall")?;
    one(
        if is_always { rate } else { 0.0 },
        "programs stand still while the kernel makes huge pages",
        format!("compact_stall {rate:.0} per second, transparent_hugepage always"),
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (now always)",
    )
}

fn worker_memory(span: &Span<'_>) -> Measured {
    let available = span.now("memory.MemAvailable")? * 1_024.0;
    let mut all = Vec::new();
    for service in span.now.list("server.php")? {
        let (most, each) = (service.figure("workers_most")?, service.list("each")?);
        let own = |worker: &crate::facts::Facts| worker.figure("own_bytes").unwrap_or(0.0);
        let largest = each.iter().map(own).fold(0.0, f64::max);
        let used: f64 = each.iter().map(own).sum();
        let more = (most * largest - used).max(0.0);
        let fit = if largest > 0.0 { ((available + used) / largest).floor().max(1.0) } else { most };
        all.push(measure(
            percent(more, available),
            format!("{most:.0} PHP workers may need more memory than there is"),
            format!(
                "{most:.0} workers x {} (the largest) = {}; available: {}",
                bytes(largest),
                bytes(most * largest),
                bytes(available + used)
            ),
            format!("php.workers = {fit:.0} (now {most:.0})"),
        ));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use crate::testing::{Pair, case};

    fn ticks(name: &'static str, share: f64) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| {
            p.rise("cpu.total", 1_000.0);
            p.rise("cpu.idle", 1_000.0 - share * 10.0);
            p.rise(&format!("cpu.{name}"), share * 10.0);
        }
    }

    #[test]
    fn processors() {
        let full = |p: &mut Pair| {
            ticks("user", 99.0)(p);
            p.now.set("pressure_cpu.some_avg10", 60.0);
        };
        case("cpu-busy", full, ticks("user", 99.0));
        let mut pair = Pair::healthy();
        full(&mut pair);
        assert!(pair.finding("cpu-busy").cure.contains("page cache"));
        pair.now.items("programs.each")[1].set("ticks", 900.0);
        let found = pair.finding("cpu-busy");
        assert!(found.what.contains("most of all with cc1") && found.cure.contains("renice"), "{found:?}");
        case("cpu-steal", ticks("steal", 12.0), ticks("steal", 8.0));
        case("cpu-iowait", ticks("iowait", 45.0), ticks("iowait", 35.0));
        let saves = |p: &mut Pair| {
            ticks("user", 60.0)(p);
            p.now.say("governor.word", "powersave");
        };
        case("cpu-governor", saves, |p| p.now.say("governor.word", "powersave"));
        case("clock-source", |p| p.now.say("clock.word", "hpet"), |p| p.now.say("clock.word", "kvm-clock"));
    }

    #[test]
    fn memory() {
        case(
            "memory-low",
            |p| p.now.set("memory.MemAvailable", 700_000.0),
            |p| p.now.set("memory.MemAvailable", 900_000.0),
        );
        case(
            "memory-stall",
            |p| p.now.set("pressure_memory.full_avg10", 6.0),
            |p| p.now.set("pressure_memory.full_avg10", 4.0),
        );
        let thrash = |p: &mut Pair| {
            p.rise("vm.pswpin", 4_000.0);
            p.rise("vm.pswpout", 4_000.0);
        };
        // Idle pages go out once: no thrashing.
        case("swap", thrash, |p| p.rise("vm.pswpout", 90_000.0));
        case("oom", |p| p.rise("vm.oom_kill", 1.0), |p| p.both("vm.oom_kill", 7.0));
        let stalls = |p: &mut Pair| {
            p.rise("vm.compact_stall", 500.0);
            p.now.say("huge_pages.word", "[always] madvise never");
        };
        case("huge-pages", stalls, |p| p.rise("vm.compact_stall", 500.0));
        let grown = |p: &mut Pair| p.now.items("server.php")[0].items("each")[0].set("own_bytes", 6e8);
        case("worker-memory", grown, |_| ());
    }
}
