//! The readers. Each takes a root folder, so that recorded trees can be read; what it cannot read becomes a [`Blind`].

mod cgroup;
mod config;
mod database;
mod disks;
mod kernel_log;
mod machine;
mod network;
mod php;
mod process;
mod programs;
mod site;
mod stamped;
mod uploads;
mod web;
mod words;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub use database::Probe;
pub use php::Samples;
use serde_json::Value;

use crate::facts::{Blind, Facts};

/// Where to look.
pub struct Sources<'a> {
    /// The root of /proc and /sys: `/`, or a recorded tree.
    pub root: PathBuf,
    /// Fetches a path of the admin address, such as `/status.json`, as JSON; the error is a sentence.
    pub ask: &'a dyn Fn(&str) -> Result<Value, String>,
    /// Folders of sites to look at.
    pub sites: Vec<PathBuf>,
    /// Asks databases.
    pub probe: Option<Probe>,
    /// Whether the server is on another machine: then nothing of this one is looked at.
    pub is_remote: bool,
    /// Whether to count the local ports in use, for which the kernel lists every socket: seconds, with many connections.
    pub counts_ports: bool,
}

/// Looks at everything once.
pub fn look(sources: &Sources<'_>) -> Facts {
    let root = sources.root.as_path();
    let mut facts = Facts::default();
    let status = (sources.ask)("/status.json");
    let pid =
        status.as_ref().ok().and_then(|status| status["pid"].as_u64()).filter(|pid| is_here(root, *pid));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    facts.set("now.seconds", now.as_secs_f64());
    if !sources.is_remote {
        machine::add(&mut facts, root, pid);
        network::add(&mut facts, root, pid, sources.counts_ports);
        cgroup::add(&mut facts, root, pid);
        process::add(&mut facts, root, pid);
        facts.add("programs", programs::look(root));
        web::add(&mut facts, root);
        facts.add("kernel_log", kernel_log::read(root));
        let folders = disks::folders(root, &sources.sites, status.as_ref().ok());
        disks::add(&mut facts, root, &folders);
    }
    let sites = sources.sites.iter().map(|folder| {
        let mut facts = site::look(folder, sources.probe.as_ref());
        facts.add("uploads", uploads::look(root, folder, status.as_ref().ok()));
        facts
    });
    facts.put("sites", sites.collect());
    facts.add("server", status.map(|status| Facts::from_json(&status)).map_err(Blind::CouldNotLook));
    let php = (sources.ask)("/php.json");
    facts.add("php", php.map(|php| Facts::from_json(&php)).map_err(Blind::CouldNotLook));
    facts
}

/// Looks at the memory, the processors and this process's control group only.
pub(crate) fn hardware(root: &Path) -> Facts {
    let mut facts = Facts::default();
    machine::add(&mut facts, root, None);
    cgroup::add(&mut facts, root, None);
    facts
}

/// Whether the process runs on this machine, in a place that we can see: the server may run in another container.
fn is_here(root: &Path, pid: u64) -> bool {
    let name = std::fs::read_to_string(root.join(format!("proc/{pid}/comm"))).unwrap_or_default();
    name.starts_with("millrace")
}

/// Reads a file below `root`.
///
/// # Errors
/// It cannot be read: why, and what would help.
fn file(root: &Path, path: &str) -> Result<String, Blind> {
    let full = root.join(path.trim_start_matches('/'));
    match std::fs::read(full) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Blind::DoesNotApply(format!("this kernel has no /{}", path.trim_start_matches('/'))))
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(Blind::CouldNotLook(format!("{path}: permission denied; run as root")))
        }
        Err(error) => Err(Blind::CouldNotLook(format!("{path}: {error}"))),
    }
}

/// The first figure of a file below `root`.
fn number(root: &Path, path: &str) -> Result<f64, Blind> {
    let text = file(root, path)?;
    let first = text.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| Blind::CouldNotLook(format!("{path} has no figure: {}", text.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine() {
        let ask = |path: &str| Err(format!("no answer to {path}"));
        let sources = Sources {
            root: "/".into(),
            ask: &ask,
            sites: Vec::new(),
            probe: None,
            is_remote: false,
            counts_ports: true,
        };
        let facts = look(&sources);
        assert!(facts.figure("cpu.count").expect("it has processors") >= 1.0);
        assert!(facts.figure("memory.MemTotal").expect("it has memory") > 10_000.0);
        assert!(facts.figure("tcp.ListenOverflows").is_ok());
        assert!(!facts.list("disks.mounts").expect("it has a disk").is_empty());
        assert_eq!(
            facts.figure("server.pid"),
            Err(Blind::CouldNotLook("no answer to /status.json".to_owned()))
        );
    }

    #[test]
    fn another_machine() {
        let ask = |_: &str| Ok(serde_json::json!({"pid": 1}));
        let sources = Sources {
            root: "/".into(),
            ask: &ask,
            sites: Vec::new(),
            probe: None,
            is_remote: true,
            counts_ports: true,
        };
        let facts = look(&sources);
        assert!(facts.figure("cpu.count").is_err() && facts.list("disks.mounts").is_err());
        assert_eq!(facts.figure("server.pid"), Ok(1.0));
    }

    #[test]
    fn an_empty_tree_is_no_panic_and_no_silence() {
        let ask = |_: &str| Ok(serde_json::json!({"pid": "x", "sites": 7}));
        let root = std::env::temp_dir().join(format!("millrace-care-empty-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("a folder");
        let sources = Sources {
            root: root.clone(),
            ask: &ask,
            sites: vec![root.join("none")],
            probe: None,
            is_remote: false,
            counts_ports: true,
        };
        let facts = look(&sources);
        for name in ["cpu.count", "memory.MemTotal", "tcp.ListenOverflows", "kernel_log.lines", "files.max"] {
            assert!(facts.figure(name).is_err(), "{name}");
        }
        std::fs::remove_dir_all(&root).expect("removed");
    }
}
