//! The limits of the server's control group: version 2, and version 1 where a controller is still there.

use std::path::Path;

use super::file;
use super::words::pairs;
use crate::facts::{Blind, Facts};

/// Version 1 writes "no limit" as the largest multiple of a page.
const NO_LIMIT: f64 = 9.0e18;

/// Adds the areas `cgroup_memory`, `cgroup_cpu` and `cgroup_pids`.
pub fn add(facts: &mut Facts, root: &Path, pid: Option<u64>) {
    let who = pid.map_or("self".to_owned(), |pid| pid.to_string());
    let groups = file(root, &format!("proc/{who}/cgroup"));
    for (area, read) in [
        ("cgroup_memory", memory as fn(&Path, &Groups) -> Result<Facts, Blind>),
        ("cgroup_cpu", cpu),
        ("cgroup_pids", pids),
    ] {
        let read = groups.as_ref().map_err(Clone::clone).and_then(|text| read(root, &Groups::of(text)));
        facts.add(area, read);
    }
}

/// The group of a process, by controller; version 2 has none in the name.
struct Groups<'a> {
    lines: Vec<(&'a str, &'a str)>,
}

impl<'a> Groups<'a> {
    fn of(text: &'a str) -> Groups<'a> {
        let split = |line: &'a str| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?, parts.next()?.trim_end_matches('/')))
        };
        Groups { lines: text.lines().filter_map(split).collect() }
    }

    /// The group's file of version 2, of the nearest ancestor that has it.
    fn v2(&self, root: &Path, name: &str) -> Option<(String, String)> {
        let (_, mut group) = *self.lines.iter().find(|(controllers, _)| controllers.is_empty())?;
        loop {
            for base in ["sys/fs/cgroup", "sys/fs/cgroup/unified"] {
                let path = format!("{base}{group}");
                if let Ok(text) = file(root, &format!("{path}/{name}")) {
                    return Some((path, text));
                }
            }
            group = group.rsplit_once('/')?.0;
        }
    }

    /// The group's file of version 1.
    fn v1(&self, root: &Path, controller: &str, name: &str) -> Option<(String, String)> {
        let has = |names: &&(&str, &str)| names.0.split(',').any(|one| one == controller);
        let (names, group) = self.lines.iter().find(has)?;
        for folder in [controller, names] {
            // In a container the group's own path is not visible: the mount is the group.
            for group in [group, ""] {
                let path = format!("sys/fs/cgroup/{folder}{group}");
                if let Ok(text) = file(root, &format!("{path}/{name}")) {
                    return Some((path, text));
                }
            }
        }
        None
    }
}

fn none() -> Blind {
    Blind::DoesNotApply("the server's control group has no such limit".to_owned())
}

fn memory(root: &Path, groups: &Groups<'_>) -> Result<Facts, Blind> {
    if let Some((path, max)) = groups.v2(root, "memory.max") {
        let mut facts = Facts::default();
        facts.set("max", max.trim().parse().map_err(|_| none())?);
        facts.say("path", &path);
        facts.say("setting", "MemoryMax");
        facts.set("current", super::number(root, &format!("{path}/memory.current"))?);
        let events = pairs(&file(root, &format!("{path}/memory.events"))?);
        facts.set("hits", events.figure("max")?);
        facts.set("oom_kills", events.figure("oom_kill")?);
        facts.set("anon", pairs(&file(root, &format!("{path}/memory.stat"))?).figure("anon")?);
        return Ok(facts);
    }
    let (path, max) = groups.v1(root, "memory", "memory.limit_in_bytes").ok_or_else(none)?;
    let max: f64 = max.trim().parse().ok().filter(|max| *max < NO_LIMIT).ok_or_else(none)?;
    let mut facts = Facts::default();
    facts.set("max", max);
    facts.say("path", &path);
    facts.say("setting", "memory.limit_in_bytes");
    facts.set("current", super::number(root, &format!("{path}/memory.usage_in_bytes"))?);
    facts.set("hits", super::number(root, &format!("{path}/memory.failcnt"))?);
    let kills = pairs(&file(root, &format!("{path}/memory.oom_control"))?);
    facts.set("oom_kills", kills.figure("oom_kill").unwrap_or(0.0));
    facts.set("anon", pairs(&file(root, &format!("{path}/memory.stat"))?).figure("total_rss")?);
    Ok(facts)
}

fn cpu(root: &Path, groups: &Groups<'_>) -> Result<Facts, Blind> {
    let (quota, period, path, setting) = match groups.v2(root, "cpu.max") {
        Some((path, text)) => {
            let mut words = text.split_ascii_whitespace();
            let quota = words.next().and_then(|word| word.parse().ok()).ok_or_else(none)?;
            (quota, words.next().and_then(|word| word.parse().ok()).unwrap_or(100_000.0), path, "CPUQuota")
        }
        None => {
            let (path, quota) = groups.v1(root, "cpu", "cpu.cfs_quota_us").ok_or_else(none)?;
            let quota: f64 = quota.trim().parse().ok().filter(|quota| *quota > 0.0).ok_or_else(none)?;
            (quota, super::number(root, &format!("{path}/cpu.cfs_period_us"))?, path, "cpu.cfs_quota_us")
        }
    };
    let mut facts = pairs(&file(root, &format!("{path}/cpu.stat"))?);
    facts.set("cores", quota / period);
    facts.say("path", &path);
    facts.say("setting", setting);
    Ok(facts)
}

fn pids(root: &Path, groups: &Groups<'_>) -> Result<Facts, Blind> {
    let (path, max) =
        groups.v2(root, "pids.max").or_else(|| groups.v1(root, "pids", "pids.max")).ok_or_else(none)?;
    let mut facts = Facts::default();
    facts.set("max", max.trim().parse().map_err(|_| none())?);
    facts.say("path", &path);
    facts.set("current", super::number(root, &format!("{path}/pids.current"))?);
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn version_2() {
        let group = "sys/fs/cgroup/system.slice/millrace.service";
        let tree = Tree::of(&[
            ("proc/9/cgroup", "0::/system.slice/millrace.service\n"),
            (&format!("{group}/memory.max"), "1048576\n"),
            (&format!("{group}/memory.current"), "1000000\n"),
            (&format!("{group}/memory.events"), "low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n"),
            (&format!("{group}/memory.stat"), "anon 900000\nfile 5\n"),
            ("sys/fs/cgroup/system.slice/cpu.max", "50000 100000\n"),
            (
                "sys/fs/cgroup/system.slice/cpu.stat",
                "usage_usec 5\nnr_periods 10\nnr_throttled 3\nthrottled_usec 9\n",
            ),
            (&format!("{group}/pids.max"), "max\n"),
        ]);
        let mut facts = Facts::default();
        add(&mut facts, tree.root(), Some(9));
        assert_eq!(
            (facts.figure("cgroup_memory.max"), facts.figure("cgroup_memory.hits")),
            (Ok(1_048_576.0), Ok(7.0))
        );
        assert_eq!(
            (facts.figure("cgroup_cpu.cores"), facts.figure("cgroup_cpu.nr_throttled")),
            (Ok(0.5), Ok(3.0))
        );
        assert_eq!(facts.figure("cgroup_pids.max"), Err(none()));
    }

    #[test]
    fn version_1() {
        let tree = Tree::of(&[
            ("proc/self/cgroup", "4:memory:/a/b\n1:cpu,cpuacct:/a\n0::/\n"),
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "2000\n"),
            ("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "1900\n"),
            ("sys/fs/cgroup/memory/a/b/memory.failcnt", "5\n"),
            ("sys/fs/cgroup/memory/a/b/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            ("sys/fs/cgroup/memory/a/b/memory.stat", "rss 10\ntotal_rss 1800\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n"),
        ]);
        let mut facts = Facts::default();
        add(&mut facts, tree.root(), None);
        assert_eq!(
            (facts.figure("cgroup_memory.anon"), facts.figure("cgroup_memory.oom_kills")),
            (Ok(1800.0), Ok(2.0))
        );
        assert_eq!(facts.figure("cgroup_cpu.cores"), Err(none()));
    }
}
