//! The machine's free memory.

use std::fs;
use std::path::Path;

/// Memory that this process and its children can still get: of the machine, or of the tightest of its control groups,
/// bytes.
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
        // File pages that were not used lately can be dropped without loss.
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
