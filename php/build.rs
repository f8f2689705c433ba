//! Compiles the SAPI in `c/` against the PHP that `php-config` names and links it to libphp.
//!
//! The file of each version names itself `libphp.so` (SONAME), and the loader knows only one file of that name: the one of the newest PHP. So the
//! program is linked to a stub with the same symbols that names itself as the file is named, `libphp8.2.so`, and loads this file whatever
//! else is installed.
//!
//! Where there is no php-config or no libphp, the program is built without PHP: it then says what to install. With
//! `PHP_CONFIG=/path/php-config8.3` another PHP is chosen; with `MILLRACE_ASAN=1` our C runs under AddressSanitizer.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "tests/gate/lists.rs"]
mod lists;

/// Tried in this order when `PHP_CONFIG` is not set; the distribution's default version comes first.
const NAMES: [&str; 5] = ["php-config", "php-config8.4", "php-config8.3", "php-config8.2", "php-config8.1"];

const SOURCES: [&str; 65] = [
    "main.c",
    "version.c",
    "host.c",
    "check.c",
    "look.c",
    "restart.c",
    "loop.c",
    "handler.c",
    "kept.c",
    "limits.c",
    "crash.c",
    "trace.c",
    "programs.c",
    "sapi.c",
    "vars.c",
    "functions.c",
    "notes.c",
    "origin.c",
    "code.c",
    "visitor.c",
    "observe.c",
    "cookies.c",
    "fields.c",
    "referer.c",
    "identity.c",
    "told.c",
    "flow.c",
    "posts.c",
    "carts/reads.c",
    "carts/instrument.c",
    "carts/objects.c",
    "carts/printed.c",
    "carts/known.c",
    "noticed.c",
    "early.c",
    "status.c",
    "watch.c",
    "taint.c",
    "sandbox/sandbox.c",
    "sandbox/landlock.c",
    "sandbox/seccomp.c",
    "sandbox/nursery.c",
    "sandbox/signals.c",
    "sandbox/private.c",
    "temp.c",
    "mail.c",
    "wire.c",
    "rewind/point.c",
    "rewind/gate.c",
    "rewind/excepted.c",
    "rewind/streams.c",
    "rewind/swept.c",
    "rewind/sql.c",
    "rewind/renew.c",
    "rewind/reads.c",
    "rewind/files.c",
    "rewind/sources.c",
    "rewind/ending.c",
    "rewind/room.c",
    "rewind/image.c",
    "rewind/maps.c",
    "rewind/chunks.c",
    "rewind/shadow.c",
    "rewind/kernel.c",
    "rewind/figures.c",
];

/// Functions of the C library that ours replace, in all libraries (c/rewind/replaced.c and random.c, c/sandbox/paths.c).
const REPLACED: [&str; 41] = [
    "mmap",
    "mmap64",
    "munmap",
    "mremap",
    "mprotect",
    "getrandom",
    "getentropy",
    "arc4random",
    "arc4random_buf",
    "arc4random_uniform",
    "access",
    "chdir",
    "chmod",
    "chown",
    "fopen",
    "fopen64",
    "glob",
    "lchown",
    "link",
    "lstat",
    "lstat64",
    "mkdir",
    "mkstemp",
    "mkstemp64",
    "open",
    "open64",
    "openat",
    "openat64",
    "opendir",
    "readlink",
    "rename",
    "rmdir",
    "scandir",
    "stat",
    "stat64",
    "statvfs",
    "symlink",
    "truncate",
    "unlink",
    "utime",
    "utimes",
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(with_php)");
    println!("cargo::rustc-check-cfg=cfg(sanitized)");
    println!("cargo::rerun-if-changed=c");
    for name in ["PHP_CONFIG", "MILLRACE_ASAN"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    match find() {
        Ok(php) => compile(&php),
        Err(missing) => {
            println!("cargo::warning=millrace-php is built without PHP: {missing}");
            println!("cargo::rustc-env=MILLRACE_PHP_MISSING={missing}");
        }
    }
}

/// A PHP to build against.
struct Php {
    /// Directories of its C headers.
    includes: Vec<String>,
    /// Directory of the library.
    directory: PathBuf,
    /// `php8.2` of `libphp8.2.so`.
    library: String,
}

/// The PHP of this machine, or what is missing.
fn find() -> Result<Php, String> {
    let chosen = env::var("PHP_CONFIG").ok();
    let names = chosen.as_deref().map_or(NAMES.to_vec(), |name| vec![name]);
    let found = names.into_iter().find_map(|name| Some((name, ask(name, "--version")?)));
    let Some((config, version)) = found else {
        return Err("there is no php-config: apt-get install php-dev libphp-embed".into());
    };
    let short = version.rsplit_once('.').map_or(version.as_str(), |(short, _)| short).to_owned();
    if !["8.1", "8.2", "8.3", "8.4"].contains(&short.as_str()) {
        return Err(format!("{config} is of PHP {version}; PHP 8.1 to 8.4 can be used"));
    }
    let includes = ask(config, "--includes").unwrap_or_default();
    let includes = includes.split_whitespace().filter_map(|flag| flag.strip_prefix("-I").map(str::to_owned));
    let prefix = ask(config, "--prefix").unwrap_or_else(|| "/usr".into());
    library(&prefix, &short)
        .map(|(directory, library)| Php { includes: includes.collect(), directory, library })
        .ok_or(format!("there is no libphp of PHP {short}: apt-get install libphp{short}-embed"))
}

/// What `php-config` answers.
fn ask(config: &str, question: &str) -> Option<String> {
    let output = Command::new(config).arg(question).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Directory and name of the shared library, its version in the name if the distribution does so.
fn library(prefix: &str, short: &str) -> Option<(PathBuf, String)> {
    let mut directories: Vec<PathBuf> =
        ["lib", "lib64"].iter().map(|name| Path::new(prefix).join(name)).collect();
    let target = env::var("TARGET").unwrap_or_default().replace("-unknown", "");
    directories.push(Path::new(prefix).join("lib").join(target));
    for name in [format!("php{short}"), "php".into()] {
        for directory in &directories {
            if directory.join(format!("lib{name}.so")).exists() {
                return Some((directory.clone(), name));
            }
        }
    }
    None
}

fn compile(php: &Php) {
    let mut build = cc::Build::new();
    write_lists().expect("the lists of c/rewind/functions cannot be compiled");
    build.files(SOURCES.map(|name| format!("c/{name}"))).include(env::var("OUT_DIR").unwrap());
    for include in &php.includes {
        build.flag("-isystem").flag(include);
    }
    build.std("gnu11").warnings(true).extra_warnings(true).warnings_into_errors(true);
    build.define("_GNU_SOURCE", None).flag("-fno-strict-aliasing");
    build.define("MILLRACE_VERSION", format!("\"{}\"", env!("CARGO_PKG_VERSION")).as_str());
    let sanitized = env::var("MILLRACE_ASAN").is_ok_and(|value| value == "1");
    if sanitized {
        build.file("c/asan.c").flag("-fsanitize=address,undefined").flag("-fno-sanitize-recover=undefined");
    }
    build.compile("millrace_php");
    if sanitized {
        // Before libphp: the sanitizer wants to be the first library.
        println!("cargo::rustc-link-lib=dylib=asan");
        // c/asan.c takes the place of dlopen for libphp.
        println!("cargo::rustc-link-arg-bins=-Wl,--undefined=dlopen,--export-dynamic-symbol=dlopen");
        println!("cargo::rustc-link-lib=dylib=ubsan");
        println!("cargo::rustc-cfg=sanitized");
    }
    if !sanitized {
        replace_functions();
    }
    println!("cargo::rustc-cfg=with_php");
    if php.library == "php" {
        // A name without a version leads to whatever it is a link to.
        println!("cargo::rustc-link-search=native={}", php.directory.display());
        println!("cargo::rustc-link-lib=dylib=php");
    } else {
        // Not by a search path: cargo has programs that it starts look for libraries there, too, and they would find the stub.
        println!("cargo::rustc-link-arg-bins={}", stub(php).display());
    }
    if php.directory.parent() != Some(Path::new("/usr")) && !php.directory.starts_with("/usr/lib") {
        // The loader finds names of files, rather than SONAMEs, in its own directories only.
        println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{}", php.directory.display());
    }
}

/// A library with the symbols of PHP's, but nothing behind them, whose SONAME is the name of PHP's file; returns its path.
fn stub(php: &Php) -> PathBuf {
    let name = format!("lib{}.so", php.library);
    let listed = Command::new("nm")
        .args(["-D", "-S", "--defined-only"])
        .arg(php.directory.join(&name))
        .output()
        .expect("nm of binutils, which every C compiler comes with, cannot be run");
    let directory = PathBuf::from(env::var("OUT_DIR").unwrap()).join("stub");
    std::fs::create_dir_all(&directory).unwrap();
    let (source, library) = (directory.join("stub.s"), directory.join(&name));
    std::fs::write(&source, symbols(&String::from_utf8_lossy(&listed.stdout))).unwrap();
    let linked = cc::Build::new()
        .get_compiler()
        .to_command()
        .args(["-shared", "-nostdlib", "-o"])
        .arg(&library)
        .arg(format!("-Wl,-soname,{name}"))
        .arg(&source)
        .status();
    assert!(linked.is_ok_and(|status| status.success()), "the stub of {name} cannot be linked");
    library
}

/// The symbols that `nm -D -S` lists, in assembler: functions, and data with its size, which the linker wants to know.
fn symbols(listed: &str) -> String {
    let mut text = String::from(".data\n");
    for line in listed.lines() {
        let (size, kind, name) = match line.split_whitespace().collect::<Vec<_>>()[..] {
            [_, size, kind, name] => (size, kind, name),
            [_, kind, name] => ("0", kind, name),
            _ => continue,
        };
        let kind = if matches!(kind, "T" | "W" | "i") { "function" } else { "object" };
        let _ =
            writeln!(text, ".globl {name}\n.type {name}, %{kind}\n.size {name}, 0x{size}\n{name}: .byte 0");
    }
    text + ".section .note.GNU-stack, \"\", %progbits\n"
}

/// Compiles the lists of functions and classes in `c/rewind/functions` for `gate.c`, `swept.c` and `excepted.c`.
fn write_lists() -> std::io::Result<()> {
    let read = |name: &str| std::fs::read_to_string(format!("c/rewind/functions/{name}"));
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let mut functions = BTreeMap::new();
    for (list, kind) in [("pure", "PURE"), ("own", "OWN")] {
        for name in lists::names(&read(list)?) {
            functions.insert(name, format!("KIND_{kind}, 0"));
        }
    }
    for (kind, name, argument) in lists::recorded(&read("recorded")?) {
        let kind =
            if ["stream", "link"].contains(&&kind[..]) { "PURE".to_owned() } else { kind.to_uppercase() };
        functions.insert(name, format!("KIND_{kind}, {argument}"));
    }
    let quoted = |name: &str| name.replace('\\', "\\\\");
    let rows: String =
        functions.iter().map(|(name, place)| format!("\t{{ \"{}\", {place} }},\n", quoted(name))).collect();
    let table = format!(
        "static const struct listed listed[] = {{\n{rows}}};\n#define LISTED (sizeof listed / sizeof *listed)\n"
    );
    std::fs::write(out.join("functions.h"), table)?;
    let classes = lists::names(&read("classes")?);
    let rows: String = classes
        .iter()
        .map(|name| format!("\t{{ \"{}\", {} }},\n", quoted(name.trim_end_matches('+')), name.ends_with('+')))
        .collect();
    let table = format!(
        "static const struct {{ const char *name; bool below; }} classes[] = {{\n{rows}}};\n#define CLASSES (sizeof classes / sizeof *classes)\n"
    );
    std::fs::write(out.join("classes.h"), table)?;
    std::fs::write(out.join("known.h"), known(&read("known")?))
}

/// Functions of plugins whose text has been read, one row for each text and each function that it may call.
fn known(list: &str) -> String {
    let rows: String = lists::known(list)
        .iter()
        .map(|one| {
            let reads = one.reads.as_ref().map_or("NULL".into(), |element| format!("\"{element}\""));
            let name = one.name.replace('\\', "\\\\");
            format!("\t{{ \"{name}\", \"{}\", {reads}, \"{}\" }},\n", one.calls, one.digest)
        })
        .collect();
    format!(
        "static const struct {{ const char *name, *calls, *reads, *digest; }} known[] = {{\n{rows}}};\n#define KNOWN (sizeof known / sizeof *known)\n"
    )
}

/// Links our functions in place of the C library's into the programs; tests have no worker.
fn replace_functions() {
    let mut build = cc::Build::new();
    build
        .files(["c/rewind/replaced.c", "c/rewind/random.c", "c/sandbox/paths.c"])
        .std("gnu11")
        .define("_GNU_SOURCE", None);
    build.warnings(true).extra_warnings(true).warnings_into_errors(true);
    for object in build.compile_intermediates() {
        println!("cargo::rustc-link-arg-bins={}", object.display());
    }
    for name in REPLACED {
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol={name}");
    }
}
