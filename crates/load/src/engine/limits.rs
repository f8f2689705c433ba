//! The tester's own limits, and limits that protect others.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use super::shared::Shared;
use crate::record::{Failure, Run};

/// Whether an address is on this machine or a private network: a load test against it needs no permission.
pub fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified(),
        IpAddr::V6(ip) => {
            ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
    }
}

/// What limited the tester, with advice.
pub fn bottlenecks(run: &Run, shared: &Shared, busy_seconds: u32) -> Vec<String> {
    let mut found = Vec::new();
    let seconds = run.seconds.iter().filter(|second| second.length > 0.5).count().max(1);
    let cores = cores() as f64;
    if busy_seconds as usize * 2 > seconds {
        found.push(format!(
            "a thread of the load tester was fully busy in {busy_seconds} of {seconds} seconds: the load tester may \
             be the limit, not the server; use --threads, more cores or another machine"
        ));
    }
    let full = run.seconds.iter().filter(|second| {
        let machine = second.server.as_ref().and_then(|server| server.machine_cpu);
        machine.is_some_and(|cpu| cpu > 0.95 * cores) && second.tester_cpu > 0.25 * cores
    });
    let full = full.count();
    if full * 2 > seconds {
        let share = run.tester.cpu / (run.elapsed.as_secs_f64().max(0.001) * cores) * 100.0;
        found.push(format!(
            "all cores of this machine were busy, and the load tester used {share:.0} % of them: the server may do \
             more if the load tester runs on another machine"
        ));
    }
    if shared.lacks.descriptors.load(Ordering::Relaxed) {
        found.push(format!(
            "out of file descriptors ({} per thread): raise the limit (ulimit -n) or use more --threads",
            shared.descriptors()
        ));
    }
    if shared.lacks.ports.load(Ordering::Relaxed) {
        found.push(
            "out of local ports: widen net.ipv4.ip_local_port_range, or give more addresses with --source"
                .to_owned(),
        );
    }
    if shared.lacks.memory.load(Ordering::Relaxed) {
        found.push("the kernel is out of memory for connections (net.ipv4.tcp_mem)".to_owned());
    }
    if run.description.open && run.tester.latest_start > 20_000 {
        found.push(format!(
            "arrivals started up to {:.0} ms late because the load tester was busy; measured times are too high by \
             up to that much",
            run.tester.latest_start as f64 / 1000.0
        ));
    }
    if run.tester.missed > 0 {
        found.push(format!(
            "{} arrivals never started: the load tester cannot reach this rate; use a lower rate, more --threads or \
             more machines",
            run.tester.missed
        ));
    }
    if run.total.failures.of(Failure::Tester) > 0 && found.is_empty() {
        found.push("the system refused connections to the load tester".to_owned());
    }
    found
}

/// Processors of this machine that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Name of this machine.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Memory of this machine, bytes.
pub fn memory() -> u64 {
    kilobytes("/proc/meminfo", "MemTotal:").unwrap_or(0)
}

/// The most memory that this process has had, bytes.
pub fn peak_memory() -> u64 {
    kilobytes("/proc/self/status", "VmHWM:").unwrap_or(0)
}

/// A line `NAME  NUMBER kB` of such a file, in bytes.
pub fn kilobytes(path: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known() {
        for own in [
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.1.1",
            "::1",
            "fd00::1",
        ] {
            assert!(is_private(own.parse().unwrap()), "{own}");
        }
        for other in ["8.8.8.8", "172.32.0.1", "192.169.0.1", "100.64.0.1", "2606:4700::1", "::ffff:8.8.8.8"]
        {
            assert!(!is_private(other.parse().unwrap()), "{other}");
        }
    }

    #[test]
    fn the_machine_is_known() {
        assert!(memory() > 1 << 20 && peak_memory() > 1 << 20 && cores() > 0);
    }
}
