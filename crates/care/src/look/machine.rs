//! Processors, memory, settings of the kernel.

use std::path::Path;

use super::network::{elsewhere, is_elsewhere};
use super::words::{pairs, pressure};
use super::{file, number};
use crate::facts::{Blind, Facts};

/// Settings that checks compare with, by their path below /proc/sys.
const SYSCTL: &[&str] = &[
    "net/core/somaxconn",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_max_tw_buckets",
    "net/ipv4/tcp_max_orphans",
    "net/ipv4/tcp_syncookies",
    "vm/overcommit_memory",
    "kernel/threads-max",
    "kernel/pid_max",
];

/// Adds the areas cpu, pressure, memory, vm, sysctl, files, clock, governor.
pub fn add(facts: &mut Facts, root: &Path, pid: Option<u64>) {
    let is_elsewhere = is_elsewhere(root, pid);
    facts.add("cpu", file(root, "proc/stat").map(|text| processors(&text)));
    for name in ["cpu", "memory", "io"] {
        let text = file(root, &format!("proc/pressure/{name}"));
        facts.add(&format!("pressure_{name}"), text.map(|text| pressure(&text)));
    }
    facts.add("memory", file(root, "proc/meminfo").map(|text| pairs(&text)));
    facts.add("vm", file(root, "proc/vmstat").map(|text| pairs(&text)));
    for path in SYSCTL {
        let read = match path.starts_with("net/") && is_elsewhere {
            true => Err(elsewhere(pid)),
            false => number(root, &format!("proc/sys/{path}")),
        };
        match read {
            Ok(value) => facts.set(format!("sysctl.{}", path.replace('/', ".")), value),
            Err(why) => facts.missing(format!("sysctl.{}", path.replace('/', ".")), why),
        }
    }
    facts.add("files", file(root, "proc/sys/fs/file-nr").map(|text| open_files(&text)));
    facts.add("tasks", file(root, "proc/loadavg").map(|text| tasks(&text)));
    facts.add("softnet", file(root, "proc/net/softnet_stat").map(|text| softnet(&text)));
    facts.add("clock", word(root, "sys/devices/system/clocksource/clocksource0/current_clocksource"));
    facts.add("governor", word(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    facts.add("huge_pages", word(root, "sys/kernel/mm/transparent_hugepage/enabled"));
}

fn word(root: &Path, path: &str) -> Result<Facts, Blind> {
    let mut facts = Facts::default();
    facts.say("word", file(root, path)?.trim());
    Ok(facts)
}

/// /proc/stat (proc_stat(5)): ticks of all processors, and a list of each one's.
fn processors(text: &str) -> Facts {
    let mut facts = Facts::default();
    let mut each = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let values: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
        match name.strip_prefix("cpu") {
            Some("") => add_ticks(&mut facts, &values),
            Some(_) => {
                let mut one = Facts::default();
                one.say("name", name);
                add_ticks(&mut one, &values);
                each.push(one);
            }
            None if name == "procs_running" => facts.set("running", values.first().copied().unwrap_or(0.0)),
            None => {}
        }
    }
    facts.set("count", each.len() as f64);
    facts.put("each", each);
    facts
}

fn add_ticks(facts: &mut Facts, values: &[f64]) {
    const NAMES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
    for (name, value) in NAMES.iter().zip(values) {
        facts.set(*name, *value);
    }
    // Guests' time (the last two columns) is part of user and nice.
    facts.set("total", values.iter().take(NAMES.len()).sum());
}

/// /proc/sys/fs/file-nr: allocated, unused, maximum.
fn open_files(text: &str) -> Facts {
    let values: Vec<f64> = text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    let mut facts = Facts::default();
    if let [open, _, max] = values[..] {
        facts.set("open", open);
        facts.set("max", max);
    }
    facts
}

/// The number of tasks in /proc/loadavg: `0.20 0.18 0.12 1/80 11206`.
fn tasks(text: &str) -> Facts {
    let mut facts = Facts::default();
    let all = text.split_ascii_whitespace().nth(3).and_then(|word| word.split_once('/')?.1.parse().ok());
    if let Some(all) = all {
        facts.set("count", all);
    }
    facts
}

/// /proc/net/softnet_stat: a line per processor, hexadecimal; dropped is the second word, squeezed the third.
fn softnet(text: &str) -> Facts {
    let mut facts = Facts::default();
    let column = |at: usize| -> f64 {
        let values = text.lines().filter_map(|line| line.split_ascii_whitespace().nth(at));
        values.filter_map(|word| u64::from_str_radix(word, 16).ok()).sum::<u64>() as f64
    };
    facts.set("dropped", column(1));
    facts.set("squeezed", column(2));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_processors() {
        let text = "cpu  10 1 5 100 4 0 2 3 7 0\ncpu0 5 1 3 50 2 0 2 1 0 0\ncpu1 5 0 2 50 2 0 0 2 0 0\nctxt 9\nprocs_running 6\n";
        let facts = processors(text);
        assert_eq!((facts.figure("total"), facts.figure("steal")), (Ok(125.0), Ok(3.0)));
        assert_eq!((facts.figure("count"), facts.figure("running")), (Ok(2.0), Ok(6.0)));
        assert_eq!(facts.list("each").map(|each| each[0].figure("softirq")), Ok(Ok(2.0)));
    }

    #[test]
    fn small_files() {
        let open = open_files("1216\t0\t9223372036854775807\n");
        assert_eq!(open.figure("open"), Ok(1216.0));
        assert_eq!(tasks("0.20 0.18 0.12 1/80 11206\n").figure("count"), Ok(80.0));
        let net = softnet("00000010 00000002 0000000a 0\n00000010 00000001 00000000 0\n");
        assert_eq!((net.figure("dropped"), net.figure("squeezed")), (Ok(3.0), Ok(10.0)));
        assert!(open_files("").figure("open").is_err() && tasks("").figure("count").is_err());
    }
}
