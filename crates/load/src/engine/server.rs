//! The server, as far as it can be seen from here: its processes on this machine, the kernel's counters, its own metrics.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use super::limits::{is_private, kilobytes};
use super::metrics::Metrics;
use super::run::Control;
use crate::record::{Program, ServerSample};

/// Ticks of processor time that a service uses without having anything to do.
const IDLE_TICKS: u64 = 2;
/// Seconds until back ends are looked for again: services may be restarted.
const LOOK_AGAIN: u32 = 5;

/// Observes the server each second.
pub struct Watch {
    pids: Vec<u32>,
    backends: Backends,
    metrics: Option<Metrics>,
    listen_drops: Option<u64>,
    last: Option<Usage>,
}

struct Usage {
    at: Instant,
    /// Ticks and programs of the server's existing processes, by process ID.
    server: HashMap<u32, (u64, String)>,
    machine: u64,
}

impl Watch {
    /// The server at `target`.
    pub fn new(target: SocketAddr, control: &Control) -> Watch {
        let mut pids = control.server_pids.clone();
        let is_unknown = pids.is_empty() && is_here(target);
        if is_unknown {
            pids = listeners(target.port());
        }
        let metrics = match &control.metrics {
            Some(address) => Some(Metrics::at(address)),
            None => Metrics::of(&pids),
        };
        let backends = Backends::new(is_unknown);
        let mut watch = Watch { pids, backends, metrics, listen_drops: None, last: None };
        watch.listen_drops = drops();
        watch.last = Some(watch.usage());
        watch
    }

    /// The current sample; `None`: nothing can be observed.
    pub fn sample(&mut self) -> Option<ServerSample> {
        let usage = self.usage();
        let last = self.last.as_ref()?;
        let seconds = usage.at.duration_since(last.at).as_secs_f64().max(0.001);
        let per_core = 1.0 / ticks_per_second() / seconds;
        let programs = programs(&usage, last, per_core);
        let is_seen = !usage.server.is_empty();
        let sample = ServerSample {
            cpu: is_seen.then(|| programs.values().map(|program| program.cpu).sum()),
            memory: is_seen.then(|| usage.server.keys().map(|pid| own_memory(*pid)).sum()),
            machine_cpu: Some(usage.machine.saturating_sub(last.machine) as f64 * per_core),
            machine_memory: machine_memory(),
            listen_drops: drops().map(|now| now - self.listen_drops.unwrap_or(now)),
            conntrack: conntrack(),
            programs: programs.into_iter().collect(),
            own: self.metrics.as_mut().and_then(Metrics::sample),
        };
        self.last = Some(usage);
        Some(sample)
    }

    fn usage(&mut self) -> Usage {
        let all = [self.pids.clone(), self.backends.at_work()].concat();
        let server = family(&all).into_iter().filter_map(|pid| Some((pid, work_of(pid)?))).collect();
        Usage { at: Instant::now(), server, machine: machine_ticks() }
    }
}

/// Processes on this machine that work for the server but are not its children.
#[derive(Default)]
struct Backends {
    /// Whether they are looked for: the server is here, and its processes were not given.
    is_wanted: bool,
    pids: Vec<u32>,
    /// Seconds since they were looked for.
    age: u32,
    /// Those that have used processor time since the run began: an idle database of somebody else's is not the server's.
    working: HashSet<u32>,
    /// Their ticks when the run began.
    at_first: HashMap<u32, u64>,
}

impl Backends {
    fn new(is_wanted: bool) -> Backends {
        let pids = if is_wanted { backends() } else { Vec::new() };
        let at_first = family(&pids).into_iter().filter_map(|pid| Some((pid, work_of(pid)?.0))).collect();
        Backends { is_wanted, pids, age: 0, working: HashSet::new(), at_first }
    }

    /// Those of which a process has worked, with their children.
    fn at_work(&mut self) -> Vec<u32> {
        self.age += 1;
        if self.is_wanted && self.age >= LOOK_AGAIN {
            (self.pids, self.age) = (backends(), 0);
        }
        for pid in &self.pids {
            if !self.working.contains(pid) && family(&[*pid]).iter().any(|pid| self.has_worked(*pid)) {
                self.working.insert(*pid);
            }
        }
        self.pids.iter().copied().filter(|pid| self.working.contains(pid)).collect()
    }

    fn has_worked(&self, pid: u32) -> bool {
        let before = self.at_first.get(&pid).copied().unwrap_or(0);
        work_of(pid).is_some_and(|(ticks, _)| ticks > before + IDLE_TICKS)
    }
}

/// The processes on this machine that work for web servers.
fn backends() -> Vec<u32> {
    let is_backend = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        millrace_sys::is_backend(&name)
    };
    processes().filter(is_backend).collect()
}

/// The activity of the server's processes between two samples, by program.
fn programs(now: &Usage, last: &Usage, per_core: f64) -> BTreeMap<String, Program> {
    let mut programs = BTreeMap::<String, Program>::new();
    for (pid, (ticks, name)) in &now.server {
        let before = last.server.get(pid).map_or(0, |(ticks, _)| *ticks);
        let used = ticks.saturating_sub(before);
        let program = programs.entry(name.clone()).or_default();
        program.cpu += used as f64 * per_core;
        program.processes += 1;
        program.working += u32::from(used > 0);
    }
    programs
}

/// Admin address of the Millrace that listens at `target`, if it is on this machine.
pub fn admin_address(target: SocketAddr) -> Option<String> {
    let pids = if is_here(target) { listeners(target.port()) } else { Vec::new() };
    Metrics::of(&pids).map(Metrics::into_address)
}

/// Whether the target is on this machine. An address of another one may be here, too, but most often it is not.
pub fn is_here(target: SocketAddr) -> bool {
    is_private(target.ip()) && std::net::UdpSocket::bind((target.ip(), 0)).is_ok()
}

/// Clock ticks a second in /proc.
fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// The processes that listen on this port, as far as one may see that.
fn listeners(port: u16) -> Vec<u32> {
    let mut sockets = HashSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let columns: Vec<_> = line.split_whitespace().collect();
            let [_, local, _, "0A", ..] = columns.as_slice() else { continue };
            let is_port =
                local.rsplit_once(':').is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port));
            if let (true, Some(inode)) = (is_port, columns.get(9)) {
                sockets.insert(format!("socket:[{inode}]"));
            }
        }
    }
    let holds = |folder: &Path| {
        fs::read_dir(folder).into_iter().flatten().flatten().any(|descriptor| {
            fs::read_link(descriptor.path()).is_ok_and(|to| sockets.contains(&*to.to_string_lossy()))
        })
    };
    let found: Vec<u32> = processes().filter(|pid| holds(Path::new(&format!("/proc/{pid}/fd")))).collect();
    if !found.is_empty() {
        return found;
    }
    // Threads may have their own tables. There are many threads: they are examined only if nothing else is found.
    let threads = |pid: &u32| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    processes().filter(|pid| threads(pid).any(|thread| holds(&thread.path().join("fd")))).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// These processes and all their descendants.
fn family(pids: &[u32]) -> HashSet<u32> {
    let told = Path::new("/proc/thread-self/children").exists();
    // Without CONFIG_PROC_CHILDREN all processes are examined, which may take milliseconds.
    let parents: Vec<(u32, u32)> = match told || pids.is_empty() {
        true => Vec::new(),
        false => processes().filter_map(|pid| Some((pid, parent(pid)?))).collect(),
    };
    let children = |of: u32| match told {
        true => children(of),
        false => parents.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid).collect(),
    };
    let (mut known, mut open) = (HashSet::new(), pids.to_vec());
    while let Some(pid) = open.pop() {
        if known.insert(pid) {
            open.extend(children(pid));
        }
    }
    known
}

/// The processes that a process's threads have started (proc_pid_task_children(5)).
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    texts.flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<_>>()).collect()
}

/// The name in /proc/PID/stat, which may have spaces, and the columns behind it: the first is the state.
fn columns(pid: u32) -> Option<(String, Vec<String>)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = text.rsplit_once(')')?;
    let (_, name) = name.split_once('(')?;
    Some((name.to_owned(), rest.split_whitespace().map(str::to_owned).collect()))
}

fn parent(pid: u32) -> Option<u32> {
    columns(pid)?.1.get(1)?.parse().ok()
}

/// User and system time, and the program's name.
fn work_of(pid: u32) -> Option<(u64, String)> {
    let (name, columns) = columns(pid)?;
    Some((columns.get(11)?.parse::<u64>().ok()? + columns.get(12)?.parse::<u64>().ok()?, name))
}

fn own_memory(pid: u32) -> u64 {
    kilobytes(&format!("/proc/{pid}/status"), "RssAnon:").unwrap_or(0)
}

/// Ticks of all cores that were not idle.
fn machine_ticks() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let all = line.split_whitespace().skip(1).take(8).enumerate();
    // Columns 3 and 4 are idle and waiting for a disk.
    all.filter(|(index, _)| *index != 3 && *index != 4)
        .map(|(_, ticks)| ticks.parse::<u64>().unwrap_or(0))
        .sum()
}

fn machine_memory() -> Option<u64> {
    Some(
        kilobytes("/proc/meminfo", "MemTotal:")?.saturating_sub(kilobytes("/proc/meminfo", "MemAvailable:")?),
    )
}

/// Connections that the kernel dropped because a listening queue was full.
fn drops() -> Option<u64> {
    let text = fs::read_to_string("/proc/net/netstat").ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|name| name == "ListenDrops")?;
    values.split_whitespace().nth(at)?.parse().ok()
}

fn conntrack() -> Option<(u64, u64)> {
    let read = |name: &str| {
        let path = format!("/proc/sys/net/netfilter/nf_conntrack_{name}");
        fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    };
    Some((read("count")?, read("max")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_started_is_of_its_family() {
        let mut shell = std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let all = || family(&[std::process::id()]);
        let there = (0..2000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            children(shell.id()).iter().any(|sleep| all().contains(sleep)) && all().contains(&shell.id())
        });
        for pid in children(shell.id()) {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid as i32).unwrap(),
                rustix::process::Signal::KILL,
            );
        }
        let _ = shell.wait();
        assert!(there);
    }

    #[test]
    fn a_database_that_works_is_counted() {
        let folder = std::env::temp_dir().join(format!("millrace-backend-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("mariadbd");
        fs::copy(fs::canonicalize("/bin/sh").unwrap(), &program).unwrap();
        let mut backends = Backends { is_wanted: true, age: LOOK_AGAIN, ..Backends::default() };
        let start = |script: &str| {
            let mut command = std::process::Command::new(&program);
            command.args(["-c", script]).stdin(std::process::Stdio::piped()).spawn().unwrap()
        };
        let (mut busy, mut idle) = (start("while :; do :; done"), start("read line"));
        let is_seen = (0..2000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            backends.at_work().contains(&busy.id())
        });
        let counts_idle = backends.at_work().contains(&idle.id());
        for child in [&mut busy, &mut idle] {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&folder);
        assert!(is_seen && !counts_idle);
    }

    #[test]
    fn this_process_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut watch = Watch::new(address, &Control::default());
        // A program that another test starts has the listener, too, until it runs.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while watch.pids != [std::process::id()] && std::time::Instant::now() < end {
            watch = Watch::new(address, &Control::default());
        }
        assert_eq!(watch.pids, [std::process::id()]);
        let sample = watch.sample().unwrap();
        assert!(sample.memory.unwrap() > 100 << 10);
        assert!(sample.programs.iter().any(|(_, program)| program.processes == 1));
        assert!(sample.cpu.is_some() && sample.machine_cpu.is_some() && sample.machine_memory.is_some());
    }
}
