//! The rooms of the server - the folders of this crate and of `base` - use only what ARCHITECTURE.md permits: this test compares its list of
//! arrows with the `use` lines. That `base`, `objects` and `pools` know nothing of the rooms in here the compiler sees to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms that a room uses, by name.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Where rooms are, below `crates`.
const SOURCES: [&str; 2] = ["server/src", "base/src"];

/// Maximum number of arrows.
const MOST: usize = 36;

#[test]
fn rooms_use_what_architecture_md_says_and_nothing_else() {
    let (path, allowed) = listed();
    let found = arrows(&path);
    for (room, uses) in &found {
        for used in uses {
            assert!(
                allowed[room].contains(used),
                "{room} uses {used}, which ARCHITECTURE.md does not list: {:?}",
                files_that_use(room, used)
            );
        }
    }
    assert_eq!(found, allowed, "an arrow of ARCHITECTURE.md is used no more: take it out");
    let count: usize = found.values().map(BTreeSet::len).sum();
    assert!(count <= MOST, "{count} arrows");
}

#[test]
fn no_room_uses_one_that_comes_before_it() {
    let (path, allowed) = listed();
    let at = |room: &str| path.iter().position(|other| other == room).expect("every room has its line");
    for (room, uses) in &allowed {
        for used in uses {
            assert!(at(room) < at(used), "{room} uses {used}, which comes before it");
        }
    }
}

#[test]
fn the_clock_is_read_where_architecture_md_says() {
    let text = architecture();
    let (_, list) = text.split_once("<!-- the clock -->").expect("the mark of the list");
    let listed: BTreeSet<&str> =
        list.split("```").nth(1).expect("a block").lines().skip(1).map(str::trim).collect();
    let mut found = BTreeSet::new();
    for folder in ["server/src", "base/src", "objects/src", "pools/src"].map(folder_of) {
        for file in files(&folder) {
            let code = product_code(&file);
            if code.contains("Instant::now()") || code.contains("SystemTime::now()") {
                let crates = folder_of("");
                found.insert(file.strip_prefix(crates).expect("below it").display().to_string());
            }
        }
    }
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(found, listed);
}

#[test]
fn every_file_that_architecture_md_names_is_there() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut there = Vec::new();
    for folder in ["crates", "php"] {
        paths_below(&project.join(folder), &mut there);
    }
    let text = architecture();
    let named = text.split('`').skip(1).step_by(2).filter(|name| {
        let is_file = [".rs", ".c", ".h", ".php"].iter().any(|end| name.ends_with(end));
        is_file
            && !name.starts_with('.')
            && !name.contains(|sign: char| sign.is_whitespace() || "*$<".contains(sign))
    });
    // Scripts of applications, not of this project.
    const FOREIGN: [&str; 1] = ["wp-config.php"];
    let gone: BTreeSet<&str> = named
        .filter(|name| !FOREIGN.contains(name))
        .filter(|name| !there.iter().any(|path| path.ends_with(name)))
        .collect();
    assert!(gone.is_empty(), "ARCHITECTURE.md names files that are gone: {gone:?}");
}

/// The paths of all files below a folder.
fn paths_below(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() { paths_below(&path, paths) } else { paths.push(path) }
    }
}

#[test]
fn use_lines_are_understood() {
    let uses = |code: &str| uses_of(code).into_iter().collect::<Vec<_>>();
    assert_eq!(uses("use crate::a::B;\nuse crate::{b::{self, C}, d::E};"), ["a", "b", "d"]);
    assert_eq!(uses("let x = crate::f::g(); // crate::h::i\n/// [`crate::j`]\n"), ["f"]);
    assert_eq!(uses("pub(crate) use x::y; use crate::{\n    k,\n    l::M as N,\n};"), ["k", "l"]);
}

/// The rooms in the order of the path, and what each may use, as ARCHITECTURE.md lists them.
fn listed() -> (Vec<String>, Arrows) {
    let text = architecture();
    let (_, list) = text.split_once("<!-- the arrows -->").expect("the mark of the list");
    let lines = list.split("```").nth(1).expect("a block").lines().skip(1);
    let mut path = Vec::new();
    let mut arrows = Arrows::new();
    for line in lines {
        let (room, uses) = line.split_once("->").expect("an arrow in each line");
        path.push(room.trim().to_owned());
        arrows.insert(room.trim().to_owned(), uses.split_whitespace().map(str::to_owned).collect());
    }
    let folders: BTreeSet<String> = SOURCES
        .iter()
        .flat_map(|source| fs::read_dir(folder_of(source)).expect("the source").flatten())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().expect("a name"))
        .collect();
    assert_eq!(path.iter().cloned().collect::<BTreeSet<_>>(), folders, "each folder has its line");
    (path, arrows)
}

fn arrows(rooms: &[String]) -> Arrows {
    let mut arrows = Arrows::new();
    for room in rooms {
        let mut uses = BTreeSet::new();
        for file in files(&room_of(room)) {
            uses.extend(uses_of(&product_code(&file)));
        }
        uses.remove(room);
        uses.retain(|used| rooms.contains(used));
        arrows.insert(room.clone(), uses);
    }
    arrows
}

fn files_that_use(room: &str, used: &str) -> Vec<PathBuf> {
    let uses = |file: &PathBuf| uses_of(&product_code(file)).contains(used);
    files(&room_of(room)).into_iter().filter(uses).collect()
}

/// The modules of this crate that the code names, in `use` lines or elsewhere.
fn uses_of(code: &str) -> BTreeSet<String> {
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).fold(
        String::new(),
        |mut code, line| {
            code.push_str(line.split("// ").next().unwrap_or_default());
            code.push('\n');
            code
        },
    );
    let mut uses = BTreeSet::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        match rest.strip_prefix('{') {
            Some(list) => uses.extend(first_names(list)),
            None => uses.extend(name(rest)),
        }
    }
    uses
}

/// The first name of each member of a list in braces, after the opening brace.
fn first_names(list: &str) -> Vec<String> {
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, sign) in list.char_indices() {
        match sign {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                names.extend(name(list[start..at].trim()));
                start = at + 1;
                if sign == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names
}

fn name(text: &str) -> Option<String> {
    let end = text.find(|sign: char| !sign.is_alphanumeric() && sign != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// A file without its tests.
fn product_code(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("source");
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].to_owned()
}

/// The files below a folder that are part of the product.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_test = matches!(&*name, "tests" | "tests.rs" | "simulation" | "simulation.rs");
        if path.is_dir() && !is_test {
            files.extend(self::files(&path));
        } else if name.ends_with(".rs") && !is_test {
            files.push(path);
        }
    }
    files
}

/// The folder of a room.
fn room_of(name: &str) -> PathBuf {
    let rooms = SOURCES.map(|source| folder_of(source).join(name));
    rooms.into_iter().find(|room| room.is_dir()).expect("a room")
}

fn folder_of(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(below)
}

fn architecture() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    fs::read_to_string(file).expect("ARCHITECTURE.md")
}
