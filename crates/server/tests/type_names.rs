//! Within a crate a type name means one thing: no two structs, enums, traits or aliases have the same name, except
//! for a list with reasons. Tests may repeat names. And no constant has another value in tests: no code of the
//! product asks whether it is tested.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Crate, name, and why it is defined more than once.
const TWINS: [(&str, &str, &str); 1] =
    [("server", "Connection", "HTTP/1.1 and HTTP/2 each have one, and no other room sees either")];

/// The line before an item that only tests have.
const TEST_ONLY: &str = "#[cfg(test)]";

/// Where each type of a crate is defined, by name.
type Definitions = BTreeMap<String, Vec<String>>;

#[test]
fn a_type_name_means_one_thing_in_a_crate() {
    let mut wrong = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    for folder in fs::read_dir(crates).expect("crates").flatten().map(|entry| entry.path()) {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let definitions = definitions(&folder.join("src"));
        for (of, twin, _) in TWINS.iter().filter(|(of, ..)| *of == name) {
            let count = definitions.get(*twin).map_or(0, Vec::len);
            assert!(count > 1, "{twin} of {of} is defined {count} times: take it out of the list");
        }
        let is_twin =
            |name_of_type: &str| TWINS.iter().any(|(of, twin, _)| (*of, *twin) == (&name, name_of_type));
        wrong.extend(
            definitions
                .iter()
                .filter(|(name_of_type, places)| places.len() > 1 && !is_twin(name_of_type))
                .map(|(name_of_type, places)| format!("{name}: {name_of_type} in {}", places.join(", "))),
        );
    }
    assert!(wrong.is_empty(), "these names mean several types:\n{}", wrong.join("\n"));
}

#[test]
fn definitions_are_recognised() {
    let code = "pub struct Ab<T> {\n    Cd: u8,\n}\nimpl X for Y {\n    type Item = u8;\n}\npub(crate) enum Ef {}\n\
                fn f() {\n    struct Gh;\n}\ntype Ij = u8;\npub unsafe trait Kl {}\n// struct Mn\nlet structure = 1;\n\
                #[cfg(test)]\npub mod tests {\n    struct Op;\n}\nstruct Qr;\n";
    assert_eq!(defined(code), ["Ab", "Ef", "Gh", "Ij", "Kl", "Qr"]);
    let code = "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\npub mod c {\nmod d;\n}\n";
    assert_eq!(test_modules(code).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn no_code_of_the_product_changes_under_test() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    for file in fs::read_dir(crates).expect("crates").flatten().flat_map(|of| files(&of.path().join("src"))) {
        let text = fs::read_to_string(&file).expect("source");
        let asks = text.lines().find(|line| asks_for_tests(line));
        assert_eq!(asks, None, "in {}: tests hand their values in instead", file.display());
    }
}

#[test]
fn a_question_for_tests_is_recognised() {
    let asks = [
        "const MS: u64 = if cfg!(test) { 5 } else { 250 };",
        "#[cfg(not(test))]",
        "if cfg!(all(unix, test)) {",
    ];
    assert!(asks.into_iter().all(asks_for_tests));
    assert!(!["#[cfg(test)]", "if cfg!(debug_assertions) {", "run(test)"].into_iter().any(asks_for_tests));
}

/// Whether a line makes the product another one under test. An item that only tests have, `#[cfg(test)]`, does not.
fn asks_for_tests(line: &str) -> bool {
    let words = |text: &str| text.split(|sign: char| !sign.is_alphanumeric()).any(|word| word == "test");
    line.split_once("cfg!(")
        .is_some_and(|(_, condition)| words(condition.split('{').next().unwrap_or_default()))
        || line.contains("cfg(not(test))")
}

fn definitions(source: &Path) -> Definitions {
    let mut definitions = Definitions::new();
    for file in files(source) {
        let place = file.strip_prefix(source).expect("below it").display().to_string();
        for name in defined(&fs::read_to_string(&file).expect("source")) {
            definitions.entry(name).or_default().push(place.clone());
        }
    }
    definitions
}

/// The types that a file defines outside of its test modules.
fn defined(text: &str) -> Vec<String> {
    let (mut names, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        if line == TEST_ONLY {
            let next = lines.next().unwrap_or_default();
            if without_visibility(next).starts_with("mod ") && next.ends_with('{') {
                lines.by_ref().find(|line| *line == "}");
            }
        } else {
            names.extend(defined_by(line).map(str::to_owned));
        }
    }
    names
}

/// The type that a line defines. An indented alias is an associated type.
fn defined_by(line: &str) -> Option<&str> {
    let code = without_visibility(line.trim_start());
    let (keyword, rest) = code.strip_prefix("unsafe ").unwrap_or(code).split_once(' ')?;
    let is_type = match keyword {
        "struct" | "enum" | "union" | "trait" => true,
        "type" => !line.starts_with(' '),
        _ => false,
    };
    let end = rest.find(|sign: char| !sign.is_alphanumeric()).unwrap_or(rest.len());
    (is_type && rest.starts_with(char::is_uppercase)).then(|| &rest[..end])
}

fn without_visibility(code: &str) -> &str {
    match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or(code, |(_, rest)| rest),
        Some(rest) => rest.strip_prefix(' ').unwrap_or(code),
        None => code,
    }
}

/// The files of the product below a folder, without modules that only tests have.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut tests) = (all_files(folder), Vec::new());
    for file in &files {
        let stem = file.file_stem().expect("a name").to_string_lossy();
        let below = match &*stem {
            "mod" | "lib" | "main" => file.with_file_name(""),
            _ => file.with_extension(""),
        };
        let text = fs::read_to_string(file).expect("source");
        for name in test_modules(&text) {
            tests.extend([below.join(name), below.join(format!("{name}.rs"))]);
        }
    }
    files.retain(|file| !tests.iter().any(|test| file.starts_with(test)));
    files
}

/// Modules in separate files that only tests have.
fn test_modules(code: &str) -> impl Iterator<Item = &str> {
    code.split(TEST_ONLY).skip(1).filter_map(|rest| {
        without_visibility(rest.trim_start().lines().next()?).strip_prefix("mod ")?.strip_suffix(';')
    })
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(all_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
