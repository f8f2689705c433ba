//! nginx: its worker processes, their connections and descriptors, and what its error logs say.

use std::io::ErrorKind;
use std::path::Path;

use super::super::process::limits;
use super::super::stamped::{of_nginx, tail};
use super::{TitledProcess, below};
use crate::facts::{Blind, Facts};
use crate::tune::nginx::{Block, MAIN, Nginx};
use crate::tune::root::Root;

/// Older lines of logs are history, seconds.
const RECENT: f64 = 600.0;
/// Maximum number of lines kept: the last ones.
const LINES: usize = 1_000;
/// Debian's log, where the configuration names none.
const LOG: &str = "/var/log/nginx/error.log";
/// What a line is about, by words in it.
const SIGNS: &[(&str, &str)] = &[
    ("connections", "worker_connections are not enough"),
    ("files", "(24: Too many open files)"),
    ("full", "(11: Resource temporarily unavailable) while connecting to upstream"),
    ("late", "upstream timed out"),
];

/// The lists `workers` and `lines`.
pub fn read(root: &Path, files: &Root, processes: &[TitledProcess]) -> Result<Facts, Blind> {
    let masters: Vec<&TitledProcess> =
        processes.iter().filter(|one| one.title.starts_with("master process")).collect();
    if masters.is_empty() {
        return Err(Blind::DoesNotApply("no nginx runs here".to_owned()));
    }
    let mut facts = Facts::default();
    let (mut workers, mut lines) = (Ok(Vec::new()), Ok(Vec::new()));
    for master in masters {
        let config = config(root, master);
        let nginx = Nginx::of_files(files, &config);
        // Those that drain after a reload have the limits of an earlier configuration.
        let own: Vec<&TitledProcess> = processes
            .iter()
            .filter(|one| one.parent == master.pid && one.title == "worker process")
            .collect();
        take(&mut workers, own.iter().filter_map(|one| worker(root, one, &nginx).transpose()).collect());
        take(&mut lines, said(root, &nginx, &own));
    }
    match workers {
        Ok(workers) => facts.put("workers", workers),
        Err(why) => facts.missing("workers", why),
    }
    match lines {
        Ok(lines) => facts.put("lines", lines),
        Err(why) => facts.missing("lines", why),
    }
    Ok(facts)
}

fn take(all: &mut Result<Vec<Facts>, Blind>, more: Result<Vec<Facts>, Blind>) {
    match (all.as_mut(), more) {
        (Ok(all), Ok(more)) => all.extend(more),
        (Ok(_), Err(why)) => *all = Err(why),
        (Err(_), _) => {}
    }
}

/// The configuration of a master: `master process /usr/sbin/nginx -p PREFIX -c FILE`.
fn config(root: &Path, master: &TitledProcess) -> String {
    let words: Vec<&str> = master.title.split_ascii_whitespace().collect();
    let after = |option: &str| words.iter().position(|word| *word == option).and_then(|at| words.get(at + 1));
    let prefix = after("-p").map_or_else(String::new, |prefix| format!("{}/", prefix.trim_end_matches('/')));
    match after("-c") {
        Some(path) if path.starts_with('/') => (*path).to_owned(),
        Some(path) => below(root, master.pid, &format!("{prefix}{path}")),
        None if prefix.is_empty() => format!("/{MAIN}"),
        None => below(root, master.pid, &format!("{prefix}nginx.conf")),
    }
}

/// A worker process: what it has open, and how much it may; `None`: it has just ended.
fn worker(root: &Path, process: &TitledProcess, nginx: &Nginx) -> Result<Option<Facts>, Blind> {
    let pid = process.pid;
    let mut facts = Facts::default();
    facts.say("pid", pid.to_string());
    facts.set("age_seconds", process.age);
    let (mut descriptors, mut sockets) = (0.0, 0.0);
    let folder = root.join(format!("proc/{pid}/fd"));
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Blind::CouldNotLook(format!(
                "the descriptors of nginx's processes: {error}; run as root"
            )));
        }
    };
    for entry in entries.flatten() {
        descriptors += 1.0;
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        sockets += f64::from(u8::from(target.to_string_lossy().starts_with("socket:")));
    }
    facts.set("descriptors", descriptors);
    facts.set("connections", sockets);
    facts.merge(&limits(root, pid)?);
    let set = nginx.others(Block::Events, "worker_connections");
    // ngx_event.c: DEFAULT_CONNECTIONS.
    facts.set("worker_connections", set.and_then(|one| one.value.parse().ok()).unwrap_or(512.0));
    if let Some(set) = set {
        facts.say("place", format!("/{}, line {}", set.file.trim_start_matches('/'), set.line));
    }
    Ok(Some(facts))
}

/// Lines of the error logs about limits and upstreams, of these processes: `text`, `about`, and `age` in seconds.
fn said(root: &Path, nginx: &Nginx, workers: &[&TitledProcess]) -> Result<Vec<Facts>, Blind> {
    let mut paths: Vec<&str> =
        nginx.error_logs.iter().map(String::as_str).filter(|path| path.starts_with('/')).collect();
    if nginx.error_logs.is_empty() {
        paths.push(LOG);
    }
    paths.sort_unstable();
    paths.dedup();
    let marks: Vec<String> = workers.iter().map(|one| format!("] {0}#{0}: ", one.pid)).collect();
    let mut found = Vec::new();
    for path in paths {
        for line in tail(root, path, of_nginx)? {
            let about = SIGNS.iter().find(|(_, words)| line.text.contains(words));
            let Some((about, _)) = about.filter(|_| line.age <= RECENT) else { continue };
            if marks.iter().any(|mark| line.text.contains(mark)) {
                let mut facts = Facts::default();
                facts.say("about", *about);
                facts.say("text", line.text);
                facts.set("age", line.age);
                found.push(facts);
            }
        }
    }
    let surplus = found.len().saturating_sub(LINES);
    found.drain(..surplus);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    const CONFIG: &str = "worker_processes 2;\nerror_log /var/log/a.log;\nevents {\n  worker_connections 32;\n}\n\
        http { server { error_log /var/log/b.log; } include more/*.conf; }\n";
    const LIMITS: &str =
        "Limit Soft Hard Units\nMax open files            1024                 4096                 files\n";
    const LOG_A: &str = "2026/11/26 18:00:00 [alert] 11#11: 32 worker_connections are not enough\n\
        2026/11/26 20:00:00 [alert] 9#9: 32 worker_connections are not enough\n\
        2026/11/26 20:00:01 [alert] 11#11: 32 worker_connections are not enough\n\
        2026/11/26 20:00:02 [crit] 12#12: accept4() failed (24: Too many open files)\n\
        2026/11/26 20:00:03 [notice] 12#12: signal process started\n";
    const LOG_B: &str = "2026/11/26 20:00:01 [error] 11#11: *5 connect() to unix:/run/php/fpm.sock failed (11: Resource temporarily unavailable) while connecting to upstream, client: 127.0.0.1\n\
        2026/11/26 20:00:02 [error] 12#12: *6 upstream timed out (110: Connection timed out) while reading response header from upstream, client: 127.0.0.1\n";

    fn process(pid: u64, parent: u64, title: &str) -> TitledProcess {
        TitledProcess { pid, parent, title: title.to_owned(), age: 30.0 }
    }

    #[test]
    fn workers_and_lines() {
        let tree = Tree::of(&[
            ("srv/nginx.conf", CONFIG),
            ("srv/more/x.conf", "error_log stderr;"),
            ("var/log/a.log", LOG_A),
            ("var/log/b.log", LOG_B),
            ("proc/11/limits", LIMITS),
            ("proc/12/limits", LIMITS),
        ]);
        for (pid, targets) in
            [(11, &["socket:[1]", "socket:[2]", "/var/log/a.log"][..]), (12, &["anon_inode:[eventpoll]"])]
        {
            let folder = tree.root().join(format!("proc/{pid}/fd"));
            std::fs::create_dir_all(&folder).expect("made");
            for (at, target) in targets.iter().enumerate() {
                std::os::unix::fs::symlink(target, folder.join(at.to_string())).expect("a link");
            }
        }
        let processes = [
            process(10, 1, "master process nginx -c /srv/nginx.conf"),
            process(11, 10, "worker process"),
            process(12, 10, "worker process"),
            process(13, 10, "worker process is shutting down"),
        ];
        let facts = read(tree.root(), &Root::new(tree.root()), &processes).expect("read");
        let workers = facts.list("workers").expect("workers");
        let figures = |worker: usize| {
            ["connections", "descriptors", "worker_connections", "files_soft"]
                .map(|name| workers[worker].figure(name))
        };
        assert_eq!(workers.len(), 2);
        assert_eq!(figures(0), [Ok(2.0), Ok(3.0), Ok(32.0), Ok(1_024.0)]);
        assert_eq!(figures(1), [Ok(0.0), Ok(1.0), Ok(32.0), Ok(1_024.0)]);
        assert_eq!(workers[0].text("place"), "/srv/nginx.conf, line 4");
        let lines = facts.list("lines").expect("lines");
        let about: Vec<&str> = lines.iter().map(|line| line.text("about")).collect();
        assert_eq!(about, ["connections", "files", "full", "late"]);
    }

    #[test]
    fn where_the_configuration_is() {
        let tree = Tree::of(&[("proc/1/stat", "")]);
        for (title, path) in [
            ("master process /usr/sbin/nginx -g daemon on; master_process on;", "/etc/nginx/nginx.conf"),
            ("master process nginx -c /a/b.conf", "/a/b.conf"),
            ("master process nginx -p /srv/x/ -c conf/n.conf", "/srv/x/conf/n.conf"),
            ("master process nginx -p /srv/x", "/srv/x/nginx.conf"),
        ] {
            assert_eq!(config(tree.root(), &process(1, 0, title)), path, "{title}");
        }
    }

    #[test]
    fn logs_that_cannot_be_read() {
        let tree = Tree::of(&[("etc/nginx/nginx.conf", "events {}")]);
        let processes = [process(10, 1, "master process nginx"), process(11, 10, "worker process")];
        let facts = read(tree.root(), &Root::new(tree.root()), &processes).expect("it runs");
        assert!(
            facts
                .list("lines")
                .is_err_and(|why| why.why().contains("there is no log /var/log/nginx/error.log"))
        );
        assert_eq!(facts.list("workers"), Ok(&[][..]), "it has ended meanwhile");
    }
}
