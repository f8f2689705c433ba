//! `./test quick` plays the scenarios of changed rooms: this test compares its list, `scenarios/rooms`, with the rooms and scenarios that
//! there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A line: a room or a folder, and its scenarios, as patterns.
struct Row {
    place: String,
    patterns: Vec<String>,
}

#[test]
fn each_room_and_crate_has_scenarios() {
    let listed: BTreeSet<String> = rows().into_iter().map(|row| row.place).collect();
    let rooms = ["crates/server/src", "crates/base/src"]
        .map(|source| names(&repository().join(source), |path| path.is_dir()));
    let rooms = rooms.into_iter().flatten();
    let crates = names(&repository().join("crates"), |path| path.is_dir());
    let wanted = rooms.chain(crates.into_iter().map(|name| format!("crates/{name}")));
    let wanted: BTreeSet<String> = wanted.chain(["php/".to_owned()]).collect();
    assert_eq!(listed, wanted);
}

#[test]
fn each_scenario_belongs_to_a_room() {
    let scenarios = scenarios();
    let rows = rows();
    let patterns: Vec<&String> = rows.iter().flat_map(|row| &row.patterns).collect();
    for name in &scenarios {
        assert!(patterns.iter().any(|pattern| fits(pattern, name)), "no room has {name}");
    }
    for pattern in patterns {
        let is_known = match pattern.strip_prefix("tests/") {
            Some(test) => repository().join("tests").join(test).join("run").is_file(),
            None => scenarios.iter().any(|name| fits(pattern, name)),
        };
        assert!(is_known, "there is no {pattern}");
    }
}

#[test]
fn the_numbers_of_scenarios_are_those_of_contributing_md() {
    let text = fs::read_to_string(repository().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let (_, list) = text.split_once("numbered by the room that it tests (").expect("the list of numbers");
    let (list, _) = list.split_once(')').expect("its end");
    let known: BTreeSet<&str> = list.split(',').filter_map(|part| part.split_whitespace().next()).collect();
    let scenarios = scenarios();
    // 35 is a part of 30, and 75 of 70.
    let tens = |name: &str| format!("{}0", &name[..1]);
    for name in &scenarios {
        let number = &name[..2];
        assert!(
            known.contains(number) || known.contains(&*tens(name)),
            "{number} of {name} is not in CONTRIBUTING.md"
        );
    }
    for number in known {
        assert!(scenarios.iter().any(|name| name.starts_with(number)), "no scenario has the number {number}");
    }
}

#[test]
fn patterns_are_understood() {
    assert!(fits("60-*", "60-cache-purge") && fits("45-shield", "45-shield"));
    assert!(!fits("60-*", "70-php") && !fits("45-shield", "45-shields"));
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(repository().join("scenarios/rooms")).expect("scenarios/rooms");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let place = words.next().expect("a line begins with a place");
        let patterns: Vec<String> = words.collect();
        assert!(!patterns.is_empty(), "{place} has no scenario");
        Row { place, patterns }
    };
    lines.map(row).collect()
}

fn scenarios() -> BTreeSet<String> {
    let folder = repository().join("scenarios");
    names(&folder, |path| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit()))
}

/// The names in a folder.
fn names(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let name = |path: PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    entries.filter(|path| is_wanted(path)).map(name).collect()
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
