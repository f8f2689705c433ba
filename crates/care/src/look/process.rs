//! The limits of the server's process.

use std::path::Path;

use super::file;
use crate::facts::{Blind, Facts};

/// Adds the area process.
pub fn add(facts: &mut Facts, root: &Path, pid: Option<u64>) {
    let here =
        || Blind::CouldNotLook("the server does not run on this machine, or does not answer".to_owned());
    facts.add("process", pid.ok_or_else(here).and_then(|pid| limits(root, pid)));
}

/// The limits of a process.
///
/// # Errors
/// They cannot be read: why.
pub fn limits(root: &Path, pid: u64) -> Result<Facts, Blind> {
    file(root, &format!("proc/{pid}/limits")).map(|text| of_limits(&text))
}

/// /proc/PID/limits: `Max open files            1024                 524288               files`.
fn of_limits(text: &str) -> Facts {
    let mut facts = Facts::default();
    for (title, name) in [("Max open files", "files"), ("Max processes", "processes")] {
        let line = text.lines().find_map(|line| line.strip_prefix(title));
        let mut words = line.unwrap_or_default().split_ascii_whitespace();
        for kind in ["soft", "hard"] {
            let word = words.next().unwrap_or_default();
            if let Some(value) = if word == "unlimited" { Some(f64::MAX) } else { word.parse().ok() } {
                facts.set(format!("{name}_{kind}"), value);
            }
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let text = "Limit  Soft  Hard  Units\nMax processes             96300                unlimited            processes\nMax open files            1024                 20000                files     \n";
        let facts = of_limits(text);
        assert_eq!((facts.figure("files_soft"), facts.figure("files_hard")), (Ok(1024.0), Ok(20_000.0)));
        assert_eq!(facts.figure("processes_hard"), Ok(f64::MAX));
    }
}
