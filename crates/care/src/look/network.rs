//! The network as the server sees it: counters of TCP, sockets, connection tracking, interfaces, ports to other servers.
//!
//! `/proc/PID/net` of the server is read where it is known: it may be in a network namespace of its own.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::words::family;
use super::{file, number};
use crate::facts::{Blind, Facts};

/// Sockets beyond this number are not counted by destination: the kernel takes seconds to list them.
const SOCKETS_MOST: usize = 500_000;

/// Adds the areas tcp, sockets, conntrack, nics, ports; `counts_ports`: also reads the list of all sockets.
pub fn add(facts: &mut Facts, root: &Path, pid: Option<u64>, counts_ports: bool) {
    let net = pid.map_or("proc/net".to_owned(), |pid| format!("proc/{pid}/net"));
    facts.add("tcp", file(root, &format!("{net}/netstat")).map(|text| family(&text, "TcpExt")));
    facts.add("snmp", file(root, &format!("{net}/snmp")).map(|text| family(&text, "Tcp")));
    facts.add("sockets", sockets(root, &net));
    facts.add("conntrack", conntrack(root));
    facts.add("nics", file(root, &format!("{net}/dev")).map(|text| interfaces(root, &text)));
    let ports = match (counts_ports, is_elsewhere(root, pid)) {
        (false, _) => Err(Blind::CouldNotLook(
            "the list of all sockets takes seconds with many connections; run `millrace doctor`".to_owned(),
        )),
        (true, true) => Err(elsewhere(pid)),
        (true, false) => ports(root, &net),
    };
    facts.add("ports", ports);
}

/// Whether the server has a network namespace of its own. Its counters can be read, its settings (/proc/sys/net) cannot.
pub fn is_elsewhere(root: &Path, pid: Option<u64>) -> bool {
    let of = |who: &str| std::fs::read_link(root.join(format!("proc/{who}/ns/net"))).ok();
    let server = pid.and_then(|pid| of(&pid.to_string()));
    server.is_some_and(|server| Some(server) != of("self"))
}

/// Why settings of the network are not known.
pub fn elsewhere(pid: Option<u64>) -> Blind {
    let pid = pid.unwrap_or_default();
    Blind::CouldNotLook(format!(
        "the server has a network namespace of its own: run `nsenter --target {pid} --net millrace doctor`"
    ))
}

/// /proc/net/sockstat: `TCP: inuse 27 orphan 0 tw 3 alloc 30 mem 5`; mem is in pages.
fn sockets(root: &Path, net: &str) -> Result<Facts, Blind> {
    let text = file(root, &format!("{net}/sockstat"))?;
    let mut facts = Facts::default();
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or_default();
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    for pair in words.chunks_exact(2) {
        if let Ok(value) = pair[1].parse() {
            facts.set(pair[0], value);
        }
    }
    let limits = file(root, "proc/sys/net/ipv4/tcp_mem")?;
    for (name, value) in ["mem_low", "mem_pressure", "mem_max"].iter().zip(limits.split_ascii_whitespace()) {
        if let Ok(value) = value.parse() {
            facts.set(*name, value);
        }
    }
    Ok(facts)
}

fn conntrack(root: &Path) -> Result<Facts, Blind> {
    let mut facts = Facts::default();
    let name = |what: &str| format!("proc/sys/net/netfilter/nf_conntrack_{what}");
    let count = number(root, &name("count"));
    facts.set("count", count.map_err(|_| Blind::DoesNotApply("connections are not tracked".to_owned()))?);
    facts.set("max", number(root, &name("max"))?);
    Ok(facts)
}

/// /proc/net/dev: received bytes, packets, errors, drops ...; the same eight for sent. Without the loopback.
fn interfaces(root: &Path, text: &str) -> Facts {
    let mut each = Vec::new();
    for (name, rest) in text.lines().filter_map(|line| line.split_once(':')) {
        let name = name.trim();
        let values: Vec<f64> = rest.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        if name == "lo" || values.len() < 12 {
            continue;
        }
        let mut one = Facts::default();
        one.say("name", name);
        for (key, at) in [
            ("received_bytes", 0),
            ("received", 1),
            ("received_errors", 2),
            ("received_dropped", 3),
            ("sent_bytes", 8),
            ("sent", 9),
            ("sent_errors", 10),
            ("sent_dropped", 11),
        ] {
            one.set(key, values[at]);
        }
        // Mbit/s; virtual ones say -1, or refuse to say.
        if let Some(speed) =
            number(root, &format!("sys/class/net/{name}/speed")).ok().filter(|speed| *speed > 0.0)
        {
            one.set("speed", speed);
        }
        if let Ok(duplex) = file(root, &format!("sys/class/net/{name}/duplex")) {
            one.say("duplex", duplex.trim());
        }
        each.push(one);
    }
    let mut facts = Facts::default();
    facts.put("each", each);
    facts
}

/// Local ports in use by destination: the ones of the range for outgoing connections. The range is that of our own namespace.
fn ports(root: &Path, net: &str) -> Result<Facts, Blind> {
    let range = file(root, "proc/sys/net/ipv4/ip_local_port_range")?;
    let ends: Vec<u16> = range.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [first, last] = ends[..] else {
        return Err(Blind::CouldNotLook(format!("ip_local_port_range is not two figures: {}", range.trim())));
    };
    let mut used: HashMap<String, [u64; 2]> = HashMap::new();
    for name in ["tcp", "tcp6"] {
        count_ports(&root.join(net).join(name), first..=last, &mut used)?;
    }
    let mut facts = Facts::default();
    facts.set("first", f64::from(first));
    facts.set("last", f64::from(last));
    let mut all: Vec<(String, [u64; 2])> = used.into_iter().collect();
    all.sort_by(|a, b| b.1[0].cmp(&a.1[0]).then_with(|| a.0.cmp(&b.0)));
    let item = |(to, [used, waiting]): (String, [u64; 2])| {
        let mut one = Facts::default();
        one.say("to", to);
        one.set("used", used as f64);
        one.set("time_wait", waiting as f64);
        one
    };
    facts.put("destinations", all.into_iter().take(5).map(item).collect());
    Ok(facts)
}

/// Counts the lines of /proc/net/tcp by remote address: all, and those in TIME_WAIT.
fn count_ports(
    path: &Path,
    range: std::ops::RangeInclusive<u16>,
    used: &mut HashMap<String, [u64; 2]>,
) -> Result<(), Blind> {
    // A kernel without IPv6 has no tcp6.
    let Ok(file) = File::open(path) else { return Ok(()) };
    for (at, line) in BufReader::new(file).lines().skip(1).enumerate() {
        if at > SOCKETS_MOST {
            return Err(Blind::CouldNotLook(format!("more than {SOCKETS_MOST} sockets: too many to list")));
        }
        let line = line.map_err(|error| Blind::CouldNotLook(format!("{}: {error}", path.display())))?;
        let words: Vec<&str> = line.split_ascii_whitespace().take(4).collect();
        let [_, local, remote, state] = words[..] else { continue };
        let port =
            |address: &str| address.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        // 0A: LISTEN.
        if state != "0A" && port(local).is_some_and(|port| range.contains(&port)) {
            let both = used.entry(shown(remote)).or_default();
            both[0] += 1;
            both[1] += u64::from(state == "06");
        }
    }
    Ok(())
}

/// `0100007F:0CEA` as `127.0.0.1:3306`; an IPv6 address is left as the kernel writes it, but for mapped ones.
fn shown(address: &str) -> String {
    let Some((host, port)) = address.rsplit_once(':') else { return address.to_owned() };
    let port = u16::from_str_radix(port, 16).unwrap_or(0);
    let v4 =
        if host.len() == 8 { host } else { host.strip_prefix("0000000000000000FFFF0000").unwrap_or(host) };
    match u32::from_str_radix(v4, 16) {
        Ok(number) if v4.len() == 8 => {
            let bytes = number.to_ne_bytes();
            format!("{}.{}.{}.{}:{port}", bytes[0], bytes[1], bytes[2], bytes[3])
        }
        _ => format!("[{host}]:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn ports_by_destination() {
        let head = "  sl  local_address rem_address   st tx_queue\n";
        let line = |local: &str, remote: &str, state: &str| format!("   0: {local} {remote} {state} 0:0\n");
        let text = [
            head.to_owned(),
            line("0100007F:1F90", "00000000:0000", "0A"),
            line("0100007F:8001", "0100007F:0CEA", "01"),
            line("0100007F:8002", "0100007F:0CEA", "06"),
            line("0100007F:8003", "0200007F:0050", "06"),
            line("0100007F:0050", "0300007F:9000", "01"),
        ];
        let tree = Tree::of(&[
            ("proc/net/tcp", &text.concat()),
            ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
        ]);
        let facts = ports(tree.root(), "proc/net").expect("read");
        let list = facts.list("destinations").expect("a list");
        assert_eq!((list.len(), list[0].text("to")), (2, "127.0.0.1:3306"));
        assert_eq!((list[0].figure("used"), list[0].figure("time_wait")), (Ok(2.0), Ok(1.0)));
        let mut live = Facts::default();
        add(&mut live, tree.root(), None, false);
        assert!(live.list("ports.destinations").is_err_and(|why| matches!(why, Blind::CouldNotLook(_))));
    }

    #[test]
    fn sockets_interfaces_and_tracking() {
        let tree = Tree::of(&[
            (
                "proc/7/net/sockstat",
                "sockets: used 9\nTCP: inuse 5 orphan 1 tw 3 alloc 8 mem 2\nUDP: inuse 0\n",
            ),
            ("proc/sys/net/ipv4/tcp_mem", "100 200 300\n"),
            (
                "proc/7/net/dev",
                "Inter-| x\n face |y\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  eth0: 10 2 3 4 0 0 0 0 50 6 7 8 0 0 0 0\n",
            ),
            ("sys/class/net/eth0/speed", "1000\n"),
        ]);
        let mut facts = Facts::default();
        add(&mut facts, tree.root(), Some(7), true);
        assert_eq!((facts.figure("sockets.tw"), facts.figure("sockets.mem_max")), (Ok(3.0), Ok(300.0)));
        let nics = facts.list("nics.each").expect("a list");
        assert_eq!(
            (nics.len(), nics[0].figure("sent_dropped"), nics[0].figure("speed")),
            (1, Ok(8.0), Ok(1000.0))
        );
        let why = facts.figure("conntrack.count").expect_err("not tracked");
        assert_eq!(why, Blind::DoesNotApply("connections are not tracked".to_owned()));
    }
}
