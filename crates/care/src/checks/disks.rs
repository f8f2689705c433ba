//! Disks.

use super::{Certainty, Check, Measure, Measured, Rank, Scope, both, bytes, error, measure};
use crate::facts::{Span, percent};

/// A disk with this much free space is not about to be full, bytes.
const ROOM: f64 = 5.0e9;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "disk-full",
        title: "space on disks",
        signal: "statvfs of the folders of sites, logs, the database, cached and temporary files",
        at: both(90.0, 98.0, "% used, if less than 5 GB are free"),
        source: "netdata health.d/disks: 90 and 98 %",
        cure: "delete or move what is large; a larger disk",
        cost: "The database stops, uploads and sessions fail, caches are not written.",
        certainty: Certainty::High,
        rank: Rank::Outage,
        scope: Scope::Machine,
        measure: space,
    },
    Check {
        id: "disk-inodes",
        title: "inodes on disks",
        signal: "statvfs of the same folders",
        at: both(90.0, 98.0, "% used"),
        source: "netdata health.d/disks: 90 and 98 %",
        cure: "delete many small files: sessions, old caches",
        cost: "No file can be created, though there is space.",
        certainty: Certainty::High,
        rank: Rank::Outage,
        scope: Scope::Machine,
        measure: inodes,
    },
    Check {
        id: "disk-read-only",
        title: "disks that have become read-only",
        signal: "statvfs, and errors=remount-ro of /proc/mounts",
        at: error(1.0, "disks that the kernel has made read-only after an error"),
        source: "node-problem-detector: ReadonlyFilesystem",
        cure: "check the disk",
        cost: "Nothing can be written: no uploads, no sessions, no database.",
        certainty: Certainty::High,
        rank: Rank::Outage,
        scope: Scope::Machine,
        measure: read_only,
    },
    Check {
        id: "disk-busy",
        title: "disks in use",
        signal: "time with requests and time per request of /proc/diskstats",
        at: both(90.0, 98.0, "% of the time with requests, if a request takes 20 ms or more"),
        source: "netdata health.d/disks: 98 % utilization; the time per request tells a busy SSD from a slow disk",
        cure: "find the writer; a faster disk",
        cost: "The database and PHP wait for the disk.",
        certainty: Certainty::Medium,
        rank: Rank::Pressure,
        scope: Scope::Machine,
        measure: work,
    },
    Check {
        id: "disk-stall",
        title: "time in which all tasks wait for disks",
        signal: "full avg10 of /proc/pressure/io",
        at: both(20.0, 50.0, "% of the last 10 s"),
        source: "chosen: a fifth of the time without any progress",
        cure: "find the writer; a faster disk",
        cost: "Nothing makes progress in that time.",
        certainty: Certainty::Medium,
        rank: Rank::Pressure,
        scope: Scope::Machine,
        measure: stall,
    },
];

fn mounts(span: &Span<'_>, of: impl Fn(&crate::facts::Facts) -> Option<Measure>) -> Measured {
    Ok(span.now.list("disks.mounts")?.iter().filter_map(of).collect())
}

fn space(span: &Span<'_>) -> Measured {
    mounts(span, |mount| {
        let (used, size) = (mount.figure("used_bytes").ok()?, mount.figure("size_bytes").ok()?);
        let (free, path) = (mount.figure("free_bytes").ok()?, mount.text("path"));
        let share = if free < ROOM { percent(used, size) } else { 0.0 };
        Some(measure(
            share,
            format!("the disk of {path} is full"),
            format!(
                "{} of {} used, {} free ({}: {path})",
                bytes(used),
                bytes(size),
                bytes(free),
                mount.text("use")
            ),
            format!("delete or move what is large: `du -xh {path} | sort -h | tail`; or a larger disk"),
        ))
    })
}

fn inodes(span: &Span<'_>) -> Measured {
    mounts(span, |mount| {
        let (all, free) = (mount.figure("inodes").ok()?, mount.figure("inodes_free").ok()?);
        let path = mount.text("path");
        Some(measure(
            percent(all - free, all),
            format!("the disk of {path} can hold no more files"),
            format!("{free:.0} of {all:.0} inodes free"),
            format!("delete many small files: `du -x --inodes {path} | sort -n | tail` shows where they are"),
        ))
    })
}

fn read_only(span: &Span<'_>) -> Measured {
    mounts(span, |mount| {
        let by_error = mount.is_on("read_only") && mount.text("options").contains("errors=remount-ro");
        let path = mount.text("path");
        Some(measure(
            f64::from(u8::from(by_error)),
            format!("the disk of {path} is read-only after an error"),
            format!("mounted {}", mount.text("options")),
            format!(
                "look at `dmesg` for the error, check the disk (`fsck`, `smartctl -a`), then `mount -o remount,rw {path}`"
            ),
        ))
    })
}

fn work(span: &Span<'_>) -> Measured {
    let mut all = Vec::new();
    for disk in span.pairs("disks.each", "name")? {
        let requests = disk.rise("requests")?;
        let share = percent(disk.rise("busy_ms")?, disk.seconds * 1_000.0);
        let each = if requests > 0.0 { disk.rise("wait_ms")? / requests } else { 0.0 };
        let name = disk.now.text("name");
        all.push(measure(
            if each >= 20.0 { share } else { 0.0 },
            format!("the disk {name} is overloaded"),
            format!("busy {share:.0} % of the time; {requests:.0} requests in {:.0} s, {each:.0} ms each", disk.seconds),
            "find the writer with `iotop -o`; for a database: innodb_flush_log_at_trx_commit=2, a larger innodb_buffer_pool_size; then a faster disk",
        ));
    }
    Ok(all)
}

fn stall(span: &Span<'_>) -> Measured {
    let full = span.now("pressure_io.full_avg10")?;
    super::one(
        full,
        "all tasks wait for disks",
        format!("/proc/pressure/io: full avg10={full:.1}"),
        "find the writer with `iotop -o`; then a faster disk",
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::{Pair, case};

    fn mount(name: &'static str, value: f64) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| p.now.items("disks.mounts")[0].set(name, value)
    }

    #[test]
    fn space() {
        let full = |p: &mut Pair| {
            mount("used_bytes", 99e9)(p);
            mount("free_bytes", 1e9)(p);
        };
        // 10 % of a large disk are enough.
        case("disk-full", full, mount("used_bytes", 91e9));
        case("disk-inodes", mount("inodes_free", 5.0), mount("inodes_free", 500.0));
        let by_error = |p: &mut Pair| {
            mount("read_only", 1.0)(p);
            p.now.items("disks.mounts")[0].say("options", "ro,errors=remount-ro");
        };
        case("disk-read-only", by_error, mount("read_only", 1.0));
    }

    #[test]
    fn work() {
        let disk = |busy: f64, wait: f64| {
            move |p: &mut Pair| {
                for (name, value) in [("busy_ms", busy), ("wait_ms", wait), ("requests", 100.0)] {
                    p.rise_of("disks.each", 0, name, value);
                }
            }
        };
        case("disk-busy", disk(4_990.0, 9_000.0), disk(4_990.0, 500.0));
        case(
            "disk-stall",
            |p| p.now.set("pressure_io.full_avg10", 30.0),
            |p| p.now.set("pressure_io.full_avg10", 10.0),
        );
    }
}
