//! Processor time by program.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::facts::{Blind, Facts};

/// The list `each` of all running programs: `name`, `ticks` of processor time since their processes began.
///
/// # Errors
/// /proc cannot be read: why.
pub fn look(root: &Path) -> Result<Facts, Blind> {
    let folder = root.join("proc");
    let entries = fs::read_dir(&folder)
        .map_err(|error| Blind::CouldNotLook(format!("{}: {error}", folder.display())))?;
    let mut ticks: BTreeMap<String, f64> = BTreeMap::new();
    for entry in entries.flatten() {
        let is_process =
            entry.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
        let text = if is_process { fs::read_to_string(entry.path().join("stat")) } else { continue };
        // A process may end meanwhile.
        if let Some((name, used)) = text.ok().as_deref().and_then(of_stat) {
            *ticks.entry(name.to_owned()).or_default() += used;
        }
    }
    let program = |(name, used): (String, f64)| {
        let mut facts = Facts::default();
        facts.say("name", name);
        facts.set("ticks", used);
        facts
    };
    let mut facts = Facts::default();
    facts.put("each", ticks.into_iter().map(program).collect());
    Ok(facts)
}

/// /proc/PID/stat (proc_pid_stat(5)): the name in brackets, and user and system time of the process and of its children that have ended.
fn of_stat(text: &str) -> Option<(&str, f64)> {
    let (start, rest) = text.rsplit_once(')')?;
    let (_, name) = start.split_once('(')?;
    let columns: Vec<&str> = rest.split_ascii_whitespace().collect();
    let time = columns.get(11..15)?.iter().map(|column| column.parse::<f64>());
    Some((name, time.sum::<Result<f64, _>>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn programs_add_up() {
        let stat = |name: &str, used: u32| {
            format!("7 ({name}) S 1 7 7 0 -1 4194560 1 2 3 4 {used} 1 0 0 20 0 1 0 5 6 7")
        };
        let (a, b, c) = (stat("php-fpm8.2", 30), stat("php-fpm8.2", 20), stat("a) (b", 5));
        let tree = Tree::of(&[
            ("proc/7/stat", &a),
            ("proc/8/stat", &b),
            ("proc/9/stat", &c),
            ("proc/10/stat", "torn"),
            ("proc/net/stat", &c),
        ]);
        let facts = look(tree.root()).expect("read");
        let each: Vec<(&str, f64)> = facts
            .list("each")
            .expect("a list")
            .iter()
            .map(|one| (one.text("name"), one.figure("ticks").unwrap_or(0.0)))
            .collect();
        assert_eq!(each, [("a) (b", 6.0), ("php-fpm8.2", 52.0)]);
    }
}
