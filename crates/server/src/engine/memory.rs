//! The machine's memory: what is left of it, and what connections may have of that.

use std::fs;
use std::path::Path;
use std::time::Duration;

use millrace_settings::plan::Server;

use super::thread::Process;
use crate::accept::PLAIN_BYTES;
use crate::log::Log;

/// How often it is looked at.
pub const LOOK: Duration = Duration::from_secs(1);
/// Connections may not grow into the last part of the machine's memory, whatever their budget is.
const KEPT: u64 = 32;

/// Says how much memory connections may have, and how that was found.
pub fn announce(server: &Server, log: &Log) {
    let most = server.connection_memory;
    let (gigabytes, about) = (most as f64 / f64::from(1 << 30), most / PLAIN_BYTES);
    if most > 0 && !server.connection_memory_is_written {
        log.info(format_args!(
            "server.connection_memory = {gigabytes:.2} GB, enough for about {about} idle connections: {}",
            server.memory_shares
        ));
    }
}

/// Where others have taken the machine's memory connections get no more of it.
pub fn heed(process: &Process) {
    let setup = process.setup();
    let server = &setup.plan.server;
    if let Some(available) = available().filter(|_| server.connection_memory > 0) {
        process.budget.heed(available, server.memory_shares.machine / KEPT);
    }
}

/// Memory that this process and its children can still get: of the machine, or of the least of its control groups, bytes.
pub fn available() -> Option<u64> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let machine = field(&read(Path::new("/proc/meminfo"))?, "MemAvailable:")? << 10;
    let own = read(Path::new("/proc/self/cgroup"))
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::/")).map(str::to_owned))
        .unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let own = root.join(own.trim());
    let groups = own.ancestors().take_while(|dir| dir.starts_with(root)).filter_map(|dir| {
        let number = |name: &str| read(&dir.join(name))?.trim().parse::<u64>().ok();
        let (most, now) = (number("memory.max")?, number("memory.current")?);
        // What of files nobody has asked for lately is given up without any loss.
        let spare =
            read(&dir.join("memory.stat")).and_then(|text| field(&text, "inactive_file")).unwrap_or(0);
        Some(most.saturating_sub(now.saturating_sub(spare)))
    });
    Some(groups.fold(machine, u64::min))
}

/// The number after a name.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_left() {
        assert!(available().unwrap() > 1 << 20);
        assert_eq!(field("a 1\nMemAvailable:  123 kB\n", "MemAvailable:"), Some(123));
    }
}
