//! php-fpm: its pools, their processes and queues, and what its logs say.

use std::collections::HashMap;
use std::path::Path;

use super::super::file;
use super::super::stamped::{Stamped, of_fpm, tail};
use super::{TitledProcess, below};
use crate::facts::{Blind, Facts};
use crate::tune::fpm::{Fpm, Pool, seasoned};
use crate::tune::root::Root;

/// Older lines of logs are history, seconds.
const RECENT: f64 = 600.0;
/// Processes whose memory is read: it costs the kernel some time.
const MEASURED: usize = 8;

/// The list `pools`.
pub fn read(root: &Path, files: &Root, processes: &[TitledProcess]) -> Result<Facts, Blind> {
    let master = |process: &TitledProcess| {
        let config = process.title.strip_prefix("master process (")?.strip_suffix(')')?;
        Some((process.pid, below(root, process.pid, config)))
    };
    let masters: Vec<(u64, String)> = processes.iter().filter_map(master).collect();
    if masters.is_empty() {
        return Err(Blind::DoesNotApply("no php-fpm runs here".to_owned()));
    }
    let mut pools = Vec::new();
    for (pid, config) in masters {
        let fpm = Fpm::of_files(files, &config, "");
        if fpm.pools.is_empty() {
            return Err(Blind::CouldNotLook(format!("{config}: no pool can be read; run as root")));
        }
        let log = error_log(root, &fpm);
        for pool in &fpm.pools {
            let title = format!("pool {}", pool.name);
            let own: Vec<&TitledProcess> =
                processes.iter().filter(|one| one.parent == pid && one.title == title).collect();
            let mut facts = state(root, files, pid, pool, &own);
            facts.say("config", &config);
            facts.add("log", log.as_ref().map(|lines| said(lines, pool)).map_err(Clone::clone));
            facts.add("slow", slow_log(root, pool));
            pools.push(facts);
        }
    }
    let mut facts = Facts::default();
    facts.put("pools", pools);
    Ok(facts)
}

/// What the processes of a pool do, and how many requests wait for them.
fn state(root: &Path, files: &Root, master: u64, pool: &Pool, processes: &[&TitledProcess]) -> Facts {
    let mut facts = Facts::default();
    facts.say("name", &pool.name);
    // Two versions of php-fpm may both have a pool `www`.
    facts.say("key", format!("{master} {}", pool.name));
    let number = |name: &str| pool.value(name).and_then(|value| value.parse::<f64>().ok());
    if let Some(most) = number("pm.max_children") {
        facts.set("max_children", most);
    }
    facts.set("workers", processes.len() as f64);
    facts.set("oldest_seconds", processes.iter().map(|one| one.age).fold(0.0, f64::max));
    let memory = processes.iter().take(MEASURED).filter_map(|one| seasoned(files, one.pid, master)).max();
    if let Some(memory) = memory {
        facts.set("memory_bytes", memory as f64);
    }
    let listen = pool.value("listen").unwrap_or_default().replace("$pool", &pool.name);
    facts.say("listen", &listen);
    // -1 leaves it to the kernel.
    if let Some(backlog) = number("listen.backlog").filter(|backlog| *backlog > 0.0) {
        facts.set("backlog", backlog);
    }
    let queue = match listen.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()) {
        Some(port) => tcp_queue(root, master, port),
        None => unix_queue(root, master, &listen),
    };
    match queue {
        Ok((waiting, busy)) => {
            facts.set("waiting", waiting);
            if let Some(busy) = busy {
                facts.set("busy", busy);
            }
        }
        Err(why) => facts.missing("waiting", why),
    }
    // Of a TCP socket only the queue is known cheaply: while it is not empty, no process is free.
    if facts.figure("busy").is_err() {
        let all = if facts.is_on("waiting") { processes.len() as f64 } else { 0.0 };
        facts.set("busy", all);
    }
    facts
}

/// Connections that wait in the queue of a Unix socket, and those that a process has: /proc/net/unix.
///
/// A connection has the path of the socket that it came through. Until it is accepted it belongs to no process: it has no inode, and is shown as
/// connecting (2); then as connected (3). Clients' ends have no path.
fn unix_queue(root: &Path, master: u64, path: &str) -> Result<(f64, Option<f64>), Blind> {
    let text = file(root, &format!("proc/{master}/net/unix"))?;
    let (mut is_there, mut waiting, mut busy) = (false, 0.0, 0.0);
    for line in text.lines() {
        // `0000000075a0bccd: 00000002 00000000 00010000 0001 01 7320565 /run/php/php8.2-fpm.sock`
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, _, _, flags, _, state, inode, name] = words[..] else { continue };
        if name != path {
            continue;
        }
        match (flags, state, inode) {
            ("00010000", ..) => is_there = true,
            (_, "02", "0") => waiting += 1.0,
            (_, "03", _) => busy += 1.0,
            _ => {}
        }
    }
    match is_there {
        true => Ok((waiting, Some(busy))),
        false => Err(Blind::CouldNotLook(format!("nothing listens at {path}"))),
    }
}

/// Connections that wait in the queue of a TCP socket: rx_queue of a listening one in /proc/net/tcp, which lists these first.
fn tcp_queue(root: &Path, master: u64, port: u16) -> Result<(f64, Option<f64>), Blind> {
    use std::io::{BufRead, BufReader};
    let mut found = None;
    for name in ["tcp", "tcp6"] {
        // A kernel without IPv6 has no tcp6.
        let Ok(file) = std::fs::File::open(root.join(format!("proc/{master}/net/{name}"))) else { continue };
        for line in BufReader::new(file).lines().skip(1).map_while(Result::ok) {
            let words: Vec<&str> = line.split_ascii_whitespace().take(5).collect();
            let [_, local, _, state, queues] = words[..] else { continue };
            if state != "0A" {
                break;
            }
            let is_it =
                local.rsplit_once(':').is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port));
            let waiting = queues.split_once(':').and_then(|(_, hex)| u64::from_str_radix(hex, 16).ok());
            if let Some(waiting) = waiting.filter(|_| is_it) {
                found = Some(found.unwrap_or(0.0) + waiting as f64);
            }
        }
    }
    found
        .map(|waiting| (waiting, None))
        .ok_or_else(|| Blind::CouldNotLook(format!("nothing listens at port {port}")))
}

/// The lines of its error log.
fn error_log(root: &Path, fpm: &Fpm) -> Result<Vec<Stamped>, Blind> {
    match fpm.global.get("error_log").map(String::as_str) {
        Some(path) if path.starts_with('/') => tail(root, path, of_fpm),
        other => Err(Blind::CouldNotLook(format!(
            "php-fpm's error_log is {}; set it to a file with its whole path",
            other.unwrap_or("not set")
        ))),
    }
}

/// How often the log has said that the value in force of pm.max_children was reached; lines with another value are of a time before that.
fn said(lines: &[Stamped], pool: &Pool) -> Facts {
    let limit = pool.value("pm.max_children").unwrap_or_default();
    let words = format!("[pool {}] server reached pm.max_children setting ({limit})", pool.name);
    let ages: Vec<f64> = lines
        .iter()
        .filter(|line| line.age <= RECENT && line.text.contains(&words))
        .map(|line| line.age)
        .collect();
    let mut facts = Facts::default();
    facts.set("reached", ages.len() as f64);
    facts.set("reached_seconds", ages.iter().copied().fold(RECENT, f64::min));
    facts
}

/// How many requests the slow log has, and where most of them were.
fn slow_log(root: &Path, pool: &Pool) -> Result<Facts, Blind> {
    let limit = pool.value("request_slowlog_timeout").unwrap_or("0");
    if limit.trim_end_matches(['s', 'm', 'h', 'd']) == "0" {
        return Err(Blind::DoesNotApply(format!(
            "the pool {} has no slow log (slowlog, request_slowlog_timeout)",
            pool.name
        )));
    }
    let path = pool.value("slowlog").unwrap_or_default().replace("$pool", &pool.name);
    if !path.starts_with('/') {
        return Err(Blind::CouldNotLook(format!(
            "the slow log of the pool {} is {path}; set slowlog to a file with its whole path",
            pool.name
        )));
    }
    let mut facts = of_slow_log(&tail(root, &path, of_fpm)?, &pool.name);
    facts.say("limit", limit);
    facts.say("path", path);
    Ok(facts)
}

/// An entry is `[TIME]  [pool NAME] pid 7`, then `script_filename = FILE`, then the calls, the innermost first: `[0x7f] sleep() FILE:LINE`.
fn of_slow_log(lines: &[Stamped], pool: &str) -> Facts {
    let head = format!("[pool {pool}] pid ");
    let mut places: HashMap<&str, u64> = HashMap::new();
    let (mut count, mut is_next) = (0.0, false);
    for line in lines.iter().filter(|line| line.age <= RECENT) {
        if line.text.starts_with("[0x") {
            let place = line.text.split_once("] ").map_or("", |(_, place)| place);
            if std::mem::take(&mut is_next) {
                *places.entry(place).or_default() += 1;
            }
        } else if line.text.contains("[pool ") {
            is_next = line.text.contains(&head);
            count += f64::from(u8::from(is_next));
        }
    }
    let mut facts = Facts::default();
    facts.set("count", count);
    let most = places.into_iter().max_by_key(|(place, times)| (*times, std::cmp::Reverse(*place)));
    if let Some((place, times)) = most {
        facts.say("place", place);
        facts.set("place_count", times as f64);
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    const CONFIG: &str = "[global]\nerror_log = /var/log/fpm.log\n[www]\nlisten = /run/php/fpm.sock\npm.max_children = 2\nslowlog = /var/log/slow.log\n\
        request_slowlog_timeout = 1s\n[tcp]\nlisten = 127.0.0.1:9000\npm.max_children = 4\nlisten.backlog = -1\n[lost]\nlisten = /run/lost.sock\n";
    const UNIX: &str = "Num       RefCount Protocol Flags    Type St Inode Path\n\
        0000000075a0bccd: 00000002 00000000 00010000 0001 01 7320565 /run/php/fpm.sock\n\
        00000000eb536981: 00000003 00000000 00000000 0001 03 7320569 /run/php/fpm.sock\n\
        00000000eb536982: 00000003 00000000 00000000 0001 03 7320570 /run/php/fpm.sock\n\
        000000002cc61321: 00000003 00000000 00000000 0001 02     0 /run/php/fpm.sock\n\
        000000002cc61322: 00000003 00000000 00000000 0001 02     0 /run/php/other.sock\n\
        000000002cc61323: 00000003 00000000 00000000 0001 03 7320571\n";
    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        0: 0100007F:2328 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 7 3 0\n\
        1: 0100007F:2329 00000000:0000 0A 00000000:00000009 00:00000000 00000000     0        0 7 3 0\n\
        2: 0100007F:2328 0100007F:E42E 01 00000000:00000077 00:00000000 00000000     0        0 0 1 0\n";
    const LOG: &str = "[26-Nov-2026 18:00:00] WARNING: [pool www] server reached pm.max_children setting (2), consider raising it\n\
        [26-Nov-2026 20:00:00] WARNING: [pool www] server reached pm.max_children setting (5), consider raising it\n\
        [26-Nov-2026 20:01:00] WARNING: [pool www] server reached pm.max_children setting (2), consider raising it\n\
        [26-Nov-2026 20:02:00] NOTICE: Terminating ...\n";
    const SLOW: &str = "\n[26-Nov-2026 18:00:00]  [pool www] pid 6\nscript_filename = /srv/a.php\n[0x00007f1] old() /srv/a.php:1\n\
        \n[26-Nov-2026 20:00:00]  [pool www] pid 7\nscript_filename = /srv/a.php\n[0x00007f1] sleep() /srv/a.php:3\n[0x00007f2] f() /srv/a.php:9\n\
        \n[26-Nov-2026 20:00:01]  [pool www] pid 7\nscript_filename = /srv/b.php\n[0x00007f1] sleep() /srv/a.php:3\n\
        \n[26-Nov-2026 20:00:02]  [pool www] pid 8\nscript_filename = /srv/b.php\n[0x00007f1] mysqli_query() /srv/b.php:5\n\
        \n[26-Nov-2026 20:00:03]  [pool tcp] pid 9\nscript_filename = /srv/b.php\n[0x00007f1] x() /srv/b.php:7\n";

    fn process(pid: u64, parent: u64, title: &str, age: f64) -> TitledProcess {
        TitledProcess { pid, parent, title: title.to_owned(), age }
    }

    #[test]
    fn pools_and_their_queues() {
        let tree = Tree::of(&[
            ("etc/fpm.conf", CONFIG),
            ("proc/7/net/unix", UNIX),
            ("proc/7/net/tcp", TCP),
            ("proc/11/stat", "11 (php-fpm8.2) S 7 7 7 0 -1 0 0 0 0 0 90 40 0 0\n"),
            ("proc/11/smaps_rollup", "Private_Clean: 4 kB\nPrivate_Dirty: 20 kB\n"),
            ("proc/12/stat", "12 (php-fpm8.2) S 7 7 7 0 -1 0 0 0 0 0 1 1 0 0\n"),
            ("proc/12/smaps_rollup", "Private_Clean: 4 kB\nPrivate_Dirty: 999 kB\n"),
            ("var/log/fpm.log", LOG),
            ("var/log/slow.log", SLOW),
        ]);
        let processes = [
            process(7, 1, "master process (/etc/fpm.conf)", 99.0),
            process(11, 7, "pool www", 50.0),
            process(12, 7, "pool www", 70.0),
            process(13, 7, "pool tcp", 60.0),
            process(14, 8, "pool www", 90.0),
        ];
        let facts = read(tree.root(), &Root::new(tree.root()), &processes).expect("read");
        let pools = facts.list("pools").expect("pools");
        let figures = |pool: usize, names: &[&str]| -> Vec<f64> {
            names.iter().map(|name| pools[pool].figure(name).unwrap_or(-1.0)).collect()
        };
        let names =
            ["max_children", "workers", "busy", "waiting", "backlog", "memory_bytes", "oldest_seconds"];
        assert_eq!(figures(0, &names), [2.0, 2.0, 2.0, 1.0, 511.0, 24_576.0, 70.0]);
        assert_eq!(figures(1, &names), [4.0, 1.0, 1.0, 3.0, -1.0, -1.0, 60.0]);
        assert_eq!(figures(2, &names)[3], -1.0);
        let why = pools[2].figure("waiting").expect_err("none");
        assert_eq!(why, Blind::CouldNotLook("nothing listens at /run/lost.sock".to_owned()));
        assert_eq!(figures(0, &["log.reached"]), [1.0]);
        let last = pools[0].figure("log.reached_seconds").expect("a line");
        assert!((60.0..120.0).contains(&last), "{last}");
        assert_eq!(figures(0, &["slow.count", "slow.place_count"]), [3.0, 2.0]);
        assert_eq!((pools[0].text("slow.place"), pools[0].text("key")), ("sleep() /srv/a.php:3", "7 www"));
        let none = pools[1].figure("slow.count").expect_err("no slow log");
        assert!(matches!(none, Blind::DoesNotApply(_)), "{none:?}");
    }

    #[test]
    fn configurations_that_say_little() {
        let processes = [process(7, 1, "master process (/etc/fpm.conf)", 99.0)];
        let said = |config: &str| {
            let tree = Tree::of(&[("etc/fpm.conf", config)]);
            read(tree.root(), &Root::new(tree.root()), &processes)
        };
        assert!(said("[global]\n").is_err_and(|why| why.why().contains("no pool can be read")));
        let facts =
            said("[global]\nerror_log = syslog\n[a]\nrequest_slowlog_timeout = 5\nslowlog = log/slow\n")
                .expect("a pool");
        let pool = &facts.list("pools").expect("pools")[0];
        for (name, words) in [
            ("log.reached", "error_log is syslog"),
            ("slow.count", "the slow log of the pool a is log/slow"),
            ("max_children", "not reported"),
        ] {
            let why = pool.figure(name).expect_err("unknown");
            assert!(matches!(&why, Blind::CouldNotLook(why) if why.contains(words)), "{name}: {why:?}");
        }
    }
}
