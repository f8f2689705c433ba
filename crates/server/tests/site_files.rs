//! A site's owner can put a link, a pipe or a device wherever a file of the site is expected, and whoever opens it may wait for ever. So files are
//! opened by `millrace_sys::open_regular` and its like. What opens them otherwise is listed here, with the reason why no site can choose what is
//! opened: an unlisted place fails this test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What opens a file, as it is written.
const OPENS: [&str; 10] = [
    "fs::read(",
    "fs::read_to_string(",
    "File::open(",
    "File::create(",
    "fs::write(",
    "fs::copy(",
    "OpenOptions::new()",
    "openat(",
    "openat2(",
    "pem_file",
];

const KERNEL: &str = "files that the kernel makes up, by their fixed names";
const OWN_FOLDER: &str = "a folder of the server's own, in which only its user may write";

/// The files that open some themselves: in how many places, and why that is safe.
const SAFE: &[(&str, usize, &str)] = &[
    ("server/src/acme/store.rs", 4, OWN_FOLDER),
    ("server/src/admin/machine.rs", 3, KERNEL),
    ("server/src/cache/disk/folder.rs", 5, OWN_FOLDER),
    ("server/src/cache/disk/purges.rs", 1, OWN_FOLDER),
    ("server/src/cache/purge/left.rs", 2, "no links, no waiting, and only a regular file, as it says"),
    ("server/src/connection/memory.rs", 1, KERNEL),
    ("base/src/context/memory.rs", 1, KERNEL),
    ("base/src/context/spool.rs", 2, "new files, with O_TMPFILE or O_EXCL"),
    ("server/src/files/lookup.rs", 5, "without waiting; what is no regular file on storage is not read"),
    ("objects/src/place.rs", 4, OWN_FOLDER),
    ("objects/src/remote.rs", 1, KERNEL),
    ("pools/src/inject.rs", 2, OWN_FOLDER),
    ("pools/src/loopback.rs", 1, KERNEL),
    ("pools/src/fastcgi/processes.rs", 2, KERNEL),
    ("pools/src/supervisor/memory.rs", 2, KERNEL),
    ("pools/src/supervisor/observe.rs", 1, KERNEL),
    ("pools/src/supervisor/workers.rs", 1, KERNEL),
    ("server/src/shield/attend.rs", 1, OWN_FOLDER),
    ("server/src/tls/inspect.rs", 2, "certificates, named by the configuration; not while the server serves"),
    ("server/src/tls/kernel.rs", 1, KERNEL),
    (
        "settings/src/environment.rs",
        2,
        "the configuration, named by whoever starts the server, and files of the kernel",
    ),
    ("care/src/look/disks.rs", 1, KERNEL),
    ("care/src/look/kernel_log.rs", 1, "the kernel's log, without waiting"),
    ("care/src/look/mod.rs", 2, KERNEL),
    ("care/src/look/network.rs", 1, KERNEL),
    ("care/src/look/programs.rs", 1, KERNEL),
    ("care/src/look/site.rs", 1, KERNEL),
    ("care/src/look/web/fpm.rs", 1, KERNEL),
];

#[test]
fn every_place_that_opens_files_is_known() {
    let mut found = BTreeMap::new();
    for folder in [
        "server/src",
        "base/src",
        "pools/src",
        "objects/src",
        "settings/src",
        "htaccess/src",
        "care/src/look",
    ] {
        for file in files(&crates().join(folder)) {
            let places = places(&fs::read_to_string(&file).expect("source"));
            if places > 0 {
                found.insert(file.strip_prefix(crates()).expect("below").display().to_string(), places);
            }
        }
    }
    let known: BTreeMap<String, usize> =
        SAFE.iter().map(|(file, places, _)| ((*file).to_owned(), *places)).collect();
    let differ: Vec<String> = found
        .iter()
        .filter(|(file, places)| known.get(*file) != Some(places))
        .map(|(file, places)| format!("{file}: {places}"))
        .collect();
    assert!(
        differ.is_empty(),
        "these files open others in so many places: use millrace_sys::open_regular or read_regular, or say above why no site can choose what \
         is opened: {differ:#?}"
    );
    assert_eq!(found, known, "a file of the list opens none any more: take it out");
}

#[test]
fn places_are_found() {
    assert_eq!(places("let x = std::fs::read(path)?;\nFile::open(path)\n// fs::read(\n"), 2);
    assert_eq!(places("fn a() {}\n#[cfg(test)]\nmod tests {\n    fs::read(x);\n}\n"), 0);
    assert_eq!(places("LogSink::open(target);\nlistener.open(path);\nopenat2(folder, name)"), 1);
    assert_eq!(places("fn open(flags: OFlags) {\nlet file = open(path, OFlags::RDONLY, mode);"), 1);
}

/// The lines of the product's code that open a file.
fn places(text: &str) -> usize {
    // Modules of tests are at the end of a file.
    let tests = text.match_indices("#[cfg(test)]\n").find(|(at, mark)| {
        let next = text[at + mark.len()..].lines().next().unwrap_or_default();
        next.contains("mod ") && next.ends_with('{')
    });
    let code = &text[..tests.map_or(text.len(), |(at, _)| at)];
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let opens = |line: &str| {
        let by_flags = line.contains("open(") && line.contains("OFlags");
        !line.contains("fn ") && (by_flags || OPENS.iter().any(|opens| line.contains(opens)))
    };
    lines.filter(|line| opens(line)).count()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_test = matches!(&*name, "tests" | "tests.rs" | "simulation" | "simulation.rs" | "testing.rs");
        if path.is_dir() && !is_test {
            files.extend(self::files(&path));
        } else if name.ends_with(".rs") && !is_test {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates").to_owned()
}
