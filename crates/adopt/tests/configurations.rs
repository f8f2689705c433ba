//! Configurations in the shapes that are common: each becomes a valid `millrace.toml`, and the expected one.
//!
//! `WRITE=1 cargo test -p millrace-adopt` writes the expected files again. Read the difference.

#![forbid(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};

use millrace_adopt::{Adopted, Files, Options};
use millrace_settings::{Disk, Environment, Found, Source};

/// The files of the tests; names are relative to this crate's `tests`.
struct Tests;

impl Files for Tests {
    fn read(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(folder().join(path))
    }

    fn glob(&self, pattern: &Path) -> Vec<PathBuf> {
        let Some(dir) = pattern.to_str().and_then(|text| text.strip_suffix("/*.conf")) else {
            return Some(pattern.to_owned())
                .filter(|path| folder().join(path).is_file())
                .into_iter()
                .collect();
        };
        files(Path::new(dir), "conf")
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The files of a folder with an ending, sorted.
fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder().join(dir)) else { return Vec::new() };
    let names = entries.filter_map(|entry| Some(dir.join(entry.ok()?.file_name())));
    let mut found: Vec<PathBuf> =
        names.filter(|path| path.extension().is_some_and(|end| end == ending)).collect();
    found.sort();
    found
}

/// A disk on which all folders and files of a configuration are.
struct AllThere(String);

impl Disk for AllThere {
    fn look(&self, path: &Path) -> Found {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_file =
            [".pem", ".key", ".crt", ".php", ".toml", ".html", "htpasswd", ".log", ".users", ".sock"]
                .iter()
                .any(|end| name.ends_with(end))
                || name == "passwd"
                || name == "group";
        // An application is what its rules say, not what is in the folder.
        match (is_file, name.starts_with("wp-")) {
            (_, true) => Found::Nothing,
            (true, _) => Found::File,
            (false, _) => Found::Directory,
        }
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let name = path.to_string_lossy();
        Ok(match &*name {
            "/t/millrace.toml" => self.0.clone(),
            "/etc/passwd" => {
                "root:x:0:0:::\nwww-data:x:33:33:::\nnginx:x:101:101:::\nshop:x:1000:1000:::\n".to_owned()
            }
            "/etc/group" => "root:x:0:\nwww-data:x:33:\nshop:x:1000:\n".to_owned(),
            _ if name.contains("htpasswd") || name.ends_with("users") => {
                "ann:{SHA}2jmj7l5rSw0yVb/vlWAYkK/YBwk=\n".to_owned()
            }
            _ if name.ends_with(".csv") => "/a,/b\n".to_owned(),
            _ => String::new(),
        })
    }

    fn real(&self, path: &Path) -> Option<PathBuf> {
        Some(path.to_owned())
    }
}

/// The problems of a configuration that are errors, but for those of files that don't exist here.
fn problems(toml: &str) -> Vec<String> {
    let disk = AllThere(toml.to_owned());
    let environment = Environment {
        cores: 2,
        memory: 4 << 30,
        uid: 0,
        runtime_dir: None,
        cache_dir: None,
        data_dir: None,
        current_dir: "/t".into(),
        variables: Vec::new(),
        disk: &disk,
        certificates: None,
        now: std::time::SystemTime::now(),
    };
    let source = Source { config: Some("/t/millrace.toml".into()), ..Source::default() };
    match millrace_settings::load_on(&source, &environment) {
        Ok(_) => Vec::new(),
        Err(found) => {
            found.0.iter().map(ToString::to_string).filter(|text| text.starts_with("error")).collect()
        }
    }
}

fn convert(path: &Path, options: &Options) -> Adopted {
    let text = Tests.read(path).unwrap();
    let format = millrace_adopt::detect(path, &text)
        .unwrap_or_else(|| panic!("{}: no known language", path.display()));
    millrace_adopt::adopt(format, path, &Tests, options)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Converts every file of a folder, and compares with the file beside it that ends with `.toml`.
fn compare(dir: &str, ending: &str, least: usize) {
    let inputs = files(Path::new(dir), ending);
    assert!(inputs.len() >= least, "{dir} has only {} configurations", inputs.len());
    let mut wrong = Vec::new();
    for path in inputs {
        let options = Options { keep_fpm: path.to_string_lossy().contains("keep-fpm") };
        let toml = millrace_adopt::toml(&convert(&path, &options));
        let expected = folder().join(&path).with_extension("toml");
        if std::env::var_os("WRITE").is_some() {
            std::fs::write(&expected, &toml).unwrap();
        }
        let problems = problems(&toml);
        if !problems.is_empty() {
            wrong.push(format!("{}:\n{}", path.display(), problems.join("\n")));
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        if expected != toml {
            wrong.push(format!("{}: is\n{toml}\ninstead of\n{expected}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nginx() {
    compare("nginx", "conf", 10);
}

#[test]
fn apache() {
    compare("apache", "conf", 8);
}

#[test]
fn caddy() {
    compare("caddy", "Caddyfile", 5);
}

#[test]
fn litespeed() {
    compare("litespeed/conf", "conf", 1);
    compare("litespeed", "conf", 3);
}

#[test]
fn unit() {
    compare("unit", "json", 3);
}

/// The files of the tests, one of them with another content.
struct Changed<'a>(&'a Path, String);

impl Files for Changed<'_> {
    fn read(&self, path: &Path) -> io::Result<String> {
        if path == self.0 { Ok(self.1.clone()) } else { Tests.read(path) }
    }

    fn glob(&self, pattern: &Path) -> Vec<PathBuf> {
        Tests.glob(pattern)
    }
}

/// Configurations cut at a line, without a line, and with a line torn: an error or a result, and the result is TOML. With
/// `EACH_LINE=1` at each line, which takes a minute.
#[test]
fn broken_files_are_errors() {
    let step = if std::env::var_os("EACH_LINE").is_some() { 1 } else { 13 };
    for (dir, ending) in [
        ("nginx", "conf"),
        ("apache", "conf"),
        ("caddy", "Caddyfile"),
        ("litespeed", "conf"),
        ("unit", "json"),
    ] {
        for path in files(Path::new(dir), ending) {
            let text = Tests.read(&path).unwrap();
            let format = millrace_adopt::detect(&path, &text).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            for at in (0..lines.len()).step_by(step) {
                for middle in [None, lines[at].get(..lines[at].len() / 2), Some("\"{ é\\")] {
                    for rest in [&[][..], &lines[at + 1..]] {
                        is_toml_or_error(
                            format,
                            &path,
                            [&lines[..at], middle.as_slice(), rest].concat().join("\n"),
                        );
                    }
                }
            }
        }
    }
}

fn is_toml_or_error(format: millrace_adopt::Format, path: &Path, text: String) {
    let files = Changed(path, text);
    if let Ok(adopted) = millrace_adopt::adopt(format, path, &files, &Options::default()) {
        let toml = millrace_adopt::toml(&adopted);
        let syntax = problems(&toml).into_iter().find(|text| text.contains("not TOML"));
        assert_eq!(syntax, None, "{}:\n{}\n{toml}", path.display(), files.1);
    }
}

/// Each line with a directive is in one of the three lists, alone or in its block.
#[test]
fn nothing_is_dropped_silently() {
    let mut missing = Vec::new();
    for (dir, ending) in
        [("nginx", "conf"), ("apache", "conf"), ("caddy", "Caddyfile"), ("litespeed", "conf")]
    {
        for path in files(Path::new(dir), ending) {
            let notes = convert(&path, &Options::default()).all_notes();
            let told =
                notes.needless.iter().chain(&notes.lost).map(|note| &note.source).chain(&notes.carried);
            let told: Vec<_> = told.filter(|source| *source.place.file == *path.to_string_lossy()).collect();
            let text = Tests.read(&path).unwrap();
            let mut in_value = false;
            for (number, line) in (1..).zip(text.lines()) {
                let words: Vec<&str> =
                    line.split(|c: char| c.is_whitespace() || ";{}<>".contains(c)).collect();
                let Some(first) = words.iter().find(|word| !word.is_empty()) else { continue };
                // Values of several lines are told with their first one.
                let is_inside = in_value;
                in_value = (in_value || line.contains("<<<")) && !first.starts_with("END_");
                let is_address = first.ends_with("example.com,");
                let is_no_directive =
                    is_inside || is_address || first.starts_with(['#', '/', '\'', '"', '$']);
                let name = first.to_ascii_lowercase();
                let in_block = |text: &str| text.contains('{') && text.to_ascii_lowercase().contains(&name);
                let is_told = told.iter().any(|source| source.place.line == number || in_block(&source.text));
                if !is_no_directive && !is_told {
                    missing.push(format!("{}:{number}: {line}", path.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
