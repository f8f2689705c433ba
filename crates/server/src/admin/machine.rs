//! What the system knows about the server's own process.

use std::fs;
use std::time::Duration;

/// Read from `/proc/self`; what can't be read is 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine {
    /// Resident memory, bytes.
    pub memory: u64,
    /// Processor time used so far, user and system.
    pub cpu: Duration,
    /// Open file descriptors.
    pub descriptors: u64,
    /// Maximum number of open file descriptors; 0: no limit.
    pub descriptor_limit: u64,
    /// Connections that the kernel lost because a listen queue was full: of all programs, since boot. `None`: unknown.
    pub listen_overflows: Option<u64>,
    /// Connections that the kernel lost before they were accepted, for any reason, such as lack of memory.
    pub listen_drops: Option<u64>,
}

impl Machine {
    /// Reads the current values.
    pub fn read() -> Machine {
        let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let netstat = fs::read_to_string("/proc/self/net/netstat").unwrap_or_default();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        Machine {
            memory: resident_pages(&statm) * rustix::param::page_size() as u64,
            cpu: cpu(&stat, rustix::param::clock_ticks_per_second()),
            // Reading the folder opens one itself.
            descriptors: fs::read_dir("/proc/self/fd")
                .map_or(0, |entries| (entries.count() as u64).saturating_sub(1)),
            descriptor_limit: limit.current.unwrap_or(0),
            listen_overflows: of_tcp(&netstat, "ListenOverflows"),
            listen_drops: of_tcp(&netstat, "ListenDrops"),
        }
    }
}

/// The second word of `statm` (proc_pid_statm(5)).
fn resident_pages(statm: &str) -> u64 {
    statm.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

/// Words 14 and 15 of `stat` (proc_pid_stat(5)); the second, the program's name, may have spaces and ends with `)`.
fn cpu(stat: &str, ticks_per_second: u64) -> Duration {
    let words = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        words.split_ascii_whitespace().skip(11).take(2).filter_map(|w| w.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1_000 / ticks_per_second.max(1))
}

/// A value of `TcpExt`: a line of names, then a line of values.
fn of_tcp(netstat: &str, name: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_ascii_whitespace().position(|known| known == name)?;
    values.split_ascii_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(resident_pages("1000 250 30 4 0 5 0\n"), 250);
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 123 77 5 6 20 0 1 0 1 1 1";
        assert_eq!(cpu(stat, 100), Duration::from_secs(2));
        assert_eq!((resident_pages(""), cpu("", 100)), (0, Duration::ZERO));
        let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 22 333\nIpExt: InNoRoutes\nIpExt: 0\n";
        assert_eq!(
            (of_tcp(netstat, "ListenOverflows"), of_tcp(netstat, "ListenDrops")),
            (Some(22), Some(333))
        );
        assert_eq!(of_tcp("TcpExt: A\n", "A"), None);
    }

    #[test]
    fn this_process() {
        let machine = Machine::read();
        assert!(machine.memory > 100_000 && machine.memory < 10_000_000_000, "{machine:?}");
        assert!(machine.descriptors >= 3 && machine.descriptor_limit > machine.descriptors, "{machine:?}");
    }
}
