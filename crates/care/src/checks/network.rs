//! The network.

use super::{
    Certainty, Check, Measured, Rank, Scope, both, bytes, double, error, measure, note, one, tuned, warning,
};
use crate::facts::{Span, percent};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "net-accept",
        title: "connections lost at full listen queues",
        signal: "TcpExt ListenOverflows, listen_queues of the status",
        at: both(2.0, 5.0, "lost between the looks"),
        source: "netdata health.d/tcp_listen: more than 1 per second, critical from 5; here each visitor counts",
        cure: "net.core.somaxconn and server.backlog",
        cost: "Visitors wait 1 to 3 s for their second attempt, or fail.",
        certainty: Certainty::High,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: overflows,
    },
    Check {
        id: "net-drops",
        title: "connections lost before they were accepted",
        signal: "TcpExt ListenDrops beyond ListenOverflows",
        at: both(2.0, 20.0, "lost between the looks"),
        source: "netdata health.d/tcp_listen: more than 1 per second; here each visitor counts",
        cure: "more memory for the kernel, or net.ipv4.tcp_max_syn_backlog",
        cost: "Visitors wait 1 to 3 s for their second attempt, or fail.",
        certainty: Certainty::Medium,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: drops,
    },
    Check {
        id: "net-backlog",
        title: "length of listen queues",
        signal: "net.core.somaxconn",
        at: note(1.0, "where it is less than 2048"),
        source: "tuned's profile throughput-performance: somaxconn >= 2048",
        cure: "sysctl net.core.somaxconn",
        cost: "A crowd that comes within milliseconds does not fit into the queue.",
        certainty: Certainty::Medium,
        rank: Rank::Advice,
        scope: Scope::Machine,
        measure: backlog,
    },
    Check {
        id: "net-syn-queue",
        title: "queue of half-open connections",
        signal: "TcpExt TCPReqQFullDoCookies, TCPReqQFullDrop",
        at: both(1.0, 100.0, "times full between the looks"),
        source: "netdata health.d/tcp_listen: more than 1 cookie or drop per second; here any, because the queue was full",
        cure: "sysctl net.ipv4.tcp_max_syn_backlog; look for a SYN flood",
        cost: "New connections lose TCP options, or are dropped.",
        certainty: Certainty::Medium,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: half_open,
    },
    Check {
        id: "net-conntrack",
        title: "table of tracked connections",
        signal: "nf_conntrack_count and nf_conntrack_max",
        at: both(90.0, 95.0, "% of the table"),
        source: "netdata health.d/netfilter: 90 and 95 %",
        cure: "sysctl net.netfilter.nf_conntrack_max, or NOTRACK rules for the web ports",
        cost: "The kernel drops packets of new connections.",
        certainty: Certainty::High,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: conntrack,
    },
    Check {
        id: "net-ports",
        title: "local ports for outgoing connections",
        signal: "/proc/net/tcp by destination, net.ipv4.ip_local_port_range",
        at: both(80.0, 95.0, "% of the range for one destination"),
        source: "ip(7): a connection needs a port of the range that no other one to the same address uses",
        cure: "a Unix socket, connections that stay open, or a larger range",
        cost: "Connections to the database or another server fail: cannot assign requested address.",
        certainty: Certainty::High,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: ports,
    },
    Check {
        id: "net-time-wait",
        title: "sockets in TIME_WAIT",
        signal: "tw of /proc/net/sockstat, TcpExt TCPTimeWaitOverflow",
        at: warning(90.0, "% of net.ipv4.tcp_max_tw_buckets; an overflow is 100"),
        source: "ip-sysctl.rst: beyond the limit, sockets are destroyed at once",
        cure: "sysctl net.ipv4.tcp_max_tw_buckets",
        cost: "Late packets of old connections may reach new ones.",
        certainty: Certainty::Low,
        rank: Rank::Advice,
        scope: Scope::Machine,
        measure: time_wait,
    },
    Check {
        id: "net-memory",
        title: "memory of TCP",
        signal: "mem of /proc/net/sockstat, net.ipv4.tcp_mem",
        at: both(67.0, 90.0, "% of the maximum"),
        source: "netdata health.d/tcp_mem: the pressure mark, by default two thirds of the maximum, and 90 % of the maximum",
        cure: "sysctl net.ipv4.tcp_mem, or smaller buffers",
        cost: "The kernel shrinks buffers, then drops packets and connections.",
        certainty: Certainty::High,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: memory,
    },
    Check {
        id: "net-pruned",
        title: "received data dropped for lack of memory",
        signal: "TcpExt PruneCalled, RcvPruned, TCPAbortOnMemory",
        at: both(10.0, 1_000.0, "times between the looks; an aborted connection counts 1000"),
        source: "chosen; ip-sysctl.rst, tcp_rmem and tcp_mem",
        cure: "sysctl net.ipv4.tcp_rmem and net.ipv4.tcp_mem",
        cost: "Data is sent again; connections are cut.",
        certainty: Certainty::Medium,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: pruned,
    },
    Check {
        id: "net-orphans",
        title: "sockets without a program",
        signal: "orphan of /proc/net/sockstat, net.ipv4.tcp_max_orphans",
        at: both(25.0, 50.0, "% of the limit"),
        source: "netdata health.d/tcp_orphans: 25 and 50 %",
        cure: "sysctl net.ipv4.tcp_orphan_retries=3, a higher tcp_max_orphans",
        cost: "The kernel resets connections before their last data has arrived.",
        certainty: Certainty::Medium,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: orphans,
    },
    Check {
        id: "net-retransmits",
        title: "segments sent again",
        signal: "RetransSegs and OutSegs of /proc/net/snmp",
        at: note(5.0, "% of at least 2000 segments"),
        source: "chosen: more than a few percent is loss on the path",
        cure: "look at the line: `mtr`, the interface's errors, a shaper",
        cost: "Pages come in pieces, with pauses.",
        certainty: Certainty::Low,
        rank: Rank::Advice,
        scope: Scope::Machine,
        measure: retransmits,
    },
    Check {
        id: "net-softirq-drops",
        title: "packets dropped before TCP",
        signal: "dropped of /proc/net/softnet_stat",
        at: error(10.0, "packets between the looks"),
        source: "netdata health.d/softnet: more than 10",
        cure: "sysctl net.core.netdev_max_backlog",
        cost: "Packets are lost and sent again 200 ms later.",
        certainty: Certainty::Medium,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: softnet_drops,
    },
    Check {
        id: "net-softirq-budget",
        title: "time for received packets",
        signal: "time_squeeze of /proc/net/softnet_stat",
        at: note(100.0, "times per second"),
        source: "chosen; netdata health.d/softnet: more than 10 per second, but a few are normal on busy machines",
        cure: "sysctl net.core.netdev_budget=600, net.core.netdev_budget_usecs=8000",
        cost: "Packets wait.",
        certainty: Certainty::Low,
        rank: Rank::Advice,
        scope: Scope::Machine,
        measure: squeezed,
    },
    Check {
        id: "net-one-core",
        title: "packets on one processor",
        signal: "softirq of each processor in /proc/stat",
        at: warning(80.0, "% of a processor, while another one spends less than 20 %"),
        source: "kernel scaling.rst: one queue of a network card is handled by one processor",
        cure: "ethtool -L, or rps_cpus",
        cost: "The network is as fast as one processor.",
        certainty: Certainty::Medium,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: one_core,
    },
    Check {
        id: "nic-drops",
        title: "packets dropped by network cards",
        signal: "errors and drops of /proc/net/dev",
        at: both(2.0, 10.0, "% of at least 1000 packets"),
        source: "netdata health.d/net: 2 % dropped",
        cure: "ethtool -G (larger rings), a better cable or driver",
        cost: "Packets are lost and sent again.",
        certainty: Certainty::Medium,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: card_drops,
    },
    Check {
        id: "nic-line",
        title: "the line",
        signal: "bytes of /proc/net/dev, speed of /sys/class/net",
        at: both(90.0, 97.0, "% of the speed in one direction"),
        source: "netdata health.d/net: 90 %",
        cure: "compression, smaller images, a CDN, a faster line",
        cost: "Everything waits for the line.",
        certainty: Certainty::High,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: line,
    },
    Check {
        id: "nic-duplex",
        title: "half-duplex lines",
        signal: "duplex of /sys/class/net",
        at: warning(1.0, "cards in half duplex"),
        source: "IEEE 802.3: a negotiation that fails falls back to half duplex",
        cure: "ethtool -s NAME autoneg on, at both ends",
        cost: "Collisions: a fraction of the line's speed.",
        certainty: Certainty::Medium,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: duplex,
    },
];

fn overflows(span: &Span<'_>) -> Measured {
    let lost = span.rise("tcp.ListenOverflows")?;
    let somaxconn = shown(span, "net.core.somaxconn");
    // Which of all programs: the server counts its own.
    let (evidence, cure) = match span.rise("server.listen_queues.dropped") {
        Ok(own) if own > 0.0 => (
            format!("; {own:.0} of them by Millrace, {:.0} wait", span.now("server.listen_queues.waiting")?),
            format!(
                "sysctl -w net.core.somaxconn=65535 (now {somaxconn:.0}) and a larger server.backlog, then restart the server; if the event loops are busy, see cpu-busy"
            ),
        ),
        Ok(_) => (
            "; none by Millrace".to_owned(),
            format!(
                "find the program with `ss -ltn` (Recv-Q above Send-Q), raise its backlog; sysctl -w net.core.somaxconn=65535 (now {somaxconn})"
            ),
        ),
        Err(_) => (
            String::new(),
            format!(
                "sysctl -w net.core.somaxconn=65535 (now {somaxconn:.0}) and a larger backlog of the program (`ss -ltn`: Recv-Q above Send-Q); then restart it"
            ),
        ),
    };
    one(
        lost,
        format!(
            "the kernel dropped {lost:.0} connections in {:.0} s because a listen queue was full",
            span.seconds
        ),
        format!("TcpExt ListenOverflows +{lost:.0}{evidence}"),
        cure,
    )
}

/// A setting of the kernel in words: the server may have a network namespace whose settings cannot be read from here.
fn shown(span: &Span<'_>, name: &str) -> String {
    span.now(&format!("sysctl.{name}")).map_or("unknown".to_owned(), |value| format!("{value:.0}"))
}

fn drops(span: &Span<'_>) -> Measured {
    let lost = (span.rise("tcp.ListenDrops")? - span.rise("tcp.ListenOverflows")?).max(0.0);
    let backlog = shown(span, "net.ipv4.tcp_max_syn_backlog");
    one(
        lost,
        format!("the kernel dropped {lost:.0} connections before they were accepted"),
        format!("TcpExt ListenDrops +{lost:.0} beyond ListenOverflows in {:.0} s", span.seconds),
        tuned(format!(
            "sysctl -w net.ipv4.tcp_max_syn_backlog=16384 (now {backlog}), or if memory is short, see memory-low"
        )),
    )
}

fn backlog(span: &Span<'_>) -> Measured {
    let somaxconn = span.now("sysctl.net.core.somaxconn")?;
    one(
        f64::from(u8::from(somaxconn < 2_048.0)),
        format!("listen queues hold at most {somaxconn:.0} connections"),
        format!("net.core.somaxconn = {somaxconn:.0}"),
        tuned(format!("sysctl -w net.core.somaxconn=4096 (now {somaxconn:.0}), then restart the server")),
    )
}

fn half_open(span: &Span<'_>) -> Measured {
    let (cookies, lost) = (span.rise("tcp.TCPReqQFullDoCookies")?, span.rise("tcp.TCPReqQFullDrop")?);
    let backlog = shown(span, "net.ipv4.tcp_max_syn_backlog");
    one(
        cookies + lost,
        "the queue of half-open connections was full",
        format!("TCPReqQFullDoCookies +{cookies:.0}, TCPReqQFullDrop +{lost:.0} in {:.0} s", span.seconds),
        format!(
            "sysctl -w net.ipv4.tcp_max_syn_backlog=16384 (now {backlog}) net.ipv4.tcp_syncookies=1; `ss -tn state syn-recv` shows whether it is a flood"
        ),
    )
}

fn conntrack(span: &Span<'_>) -> Measured {
    let (count, max) = (span.now("conntrack.count")?, span.now("conntrack.max")?);
    one(
        percent(count, max),
        "the kernel's table of tracked connections is full",
        format!("{count:.0} of {max:.0} entries"),
        tuned(format!("sysctl -w net.netfilter.nf_conntrack_max={} (now {max:.0})", double(max))),
    )
}

fn ports(span: &Span<'_>) -> Measured {
    let (first, last) = (span.now("ports.first")?, span.now("ports.last")?);
    let range = last - first + 1.0;
    let mut all = Vec::new();
    for destination in span.now.list("ports.destinations")? {
        let (used, waiting) = (destination.figure("used")?, destination.figure("time_wait")?);
        let to = destination.text("to");
        let how = if to.ends_with(":3306") {
            "let the database be reached by its Unix socket (DB_HOST 'localhost:/run/mysqld/mysqld.sock'); or "
        } else {
            "keep these connections open; or "
        };
        all.push(measure(
            percent(used, range),
            format!("the local ports for connections to {to} are used up"),
            format!("{used:.0} of {range:.0} ports, {waiting:.0} of them in TIME_WAIT"),
            tuned(format!(
                "{how}sysctl -w net.ipv4.ip_local_port_range='10240 65535' (now {first:.0} {last:.0})"
            )),
        ));
    }
    Ok(all)
}

fn time_wait(span: &Span<'_>) -> Measured {
    let (count, max) = (span.now("sockets.tw")?, span.now("sysctl.net.ipv4.tcp_max_tw_buckets")?);
    let lost = span.rise("tcp.TCPTimeWaitOverflow")?;
    one(
        if lost > 0.0 { 100.0 } else { percent(count, max) },
        "the table of sockets in TIME_WAIT is full",
        format!("{count:.0} of {max:.0}; TCPTimeWaitOverflow +{lost:.0}"),
        tuned(format!("sysctl -w net.ipv4.tcp_max_tw_buckets={} (now {max:.0})", double(max))),
    )
}

fn memory(span: &Span<'_>) -> Measured {
    let (used, max) = (span.now("sockets.mem")?, span.now("sockets.mem_max")?);
    one(
        percent(used, max),
        "TCP has almost used up its memory",
        format!("{} of {}", bytes(used * 4_096.0), bytes(max * 4_096.0)),
        format!(
            "sysctl -w net.ipv4.tcp_mem='{:.0} {:.0} {:.0}' (now up to {max:.0} pages), if the machine has that memory; see docs/connections.md",
            max,
            max * 1.5,
            max * 2.0
        ),
    )
}

fn pruned(span: &Span<'_>) -> Measured {
    let (pruned, lost) = (span.rise("tcp.PruneCalled")?, span.rise("tcp.RcvPruned")?);
    let aborted = span.rise("tcp.TCPAbortOnMemory")?;
    one(
        pruned + lost + aborted * 1_000.0,
        "the kernel drops received data for lack of memory",
        format!(
            "PruneCalled +{pruned:.0}, RcvPruned +{lost:.0}, TCPAbortOnMemory +{aborted:.0} in {:.0} s",
            span.seconds
        ),
        "sysctl -w net.ipv4.tcp_rmem='4096 131072 16777216'; where connections are aborted, also a larger net.ipv4.tcp_mem",
    )
}

fn orphans(span: &Span<'_>) -> Measured {
    let (count, max) = (span.now("sockets.orphan")?, span.now("sysctl.net.ipv4.tcp_max_orphans")?);
    one(
        percent(count, max),
        "many closed connections wait for their last data to be taken",
        format!("{count:.0} of {max:.0} orphans"),
        format!(
            "sysctl -w net.ipv4.tcp_orphan_retries=3 net.ipv4.tcp_max_orphans={} (now {max:.0})",
            double(max)
        ),
    )
}

fn retransmits(span: &Span<'_>) -> Measured {
    let (sent, again) = (span.rise("snmp.OutSegs")?, span.rise("snmp.RetransSegs")?);
    one(
        if sent >= 2_000.0 { percent(again, sent) } else { 0.0 },
        "many segments are sent again",
        format!("{again:.0} of {sent:.0} segments in {:.0} s", span.seconds),
        "look at the line: `mtr` to a client, `ip -s link`, a shaper (`tc -s qdisc`)",
    )
}

fn softnet_drops(span: &Span<'_>) -> Measured {
    let lost = span.rise("softnet.dropped")?;
    one(
        lost,
        "packets are dropped before TCP sees them",
        format!("softnet dropped +{lost:.0} in {:.0} s", span.seconds),
        "sysctl -w net.core.netdev_max_backlog=10000 (now: `sysctl net.core.netdev_max_backlog`); then net-one-core",
    )
}

fn squeezed(span: &Span<'_>) -> Measured {
    let rate = span.rate("softnet.squeezed")?;
    one(
        rate,
        "the kernel often stops receiving before all packets are taken",
        format!("time_squeeze {rate:.0} per second"),
        "sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000 (defaults: 300 and 2000)",
    )
}

fn one_core(span: &Span<'_>) -> Measured {
    let mut shares = Vec::new();
    for core in span.pairs("cpu.each", "name")? {
        shares.push((percent(core.rise("softirq")?, core.rise("total")?), core.now.text("name")));
    }
    let most = shares.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0));
    let least = shares.iter().map(|(share, _)| *share).fold(100.0, f64::min);
    let Some((share, name)) = most else { return Ok(Vec::new()) };
    one(
        if least < 20.0 { share } else { 0.0 },
        format!("{name} alone handles the network's packets"),
        format!("{share:.0} % of {name} in softirq, {least:.0} % of the idlest one"),
        format!(
            "more queues: `ethtool -L eth0 combined {}`; or spread them: `echo {:x} > /sys/class/net/eth0/queues/rx-0/rps_cpus`",
            shares.len(),
            (1_u64 << shares.len().min(60)) - 1
        ),
    )
}

fn card_drops(span: &Span<'_>) -> Measured {
    let mut all = Vec::new();
    for card in span.pairs("nics.each", "name")? {
        let mut counts = [0.0, 0.0];
        for (at, names) in [
            ["received", "sent"].as_slice(),
            &["received_dropped", "received_errors", "sent_dropped", "sent_errors"],
        ]
        .iter()
        .enumerate()
        {
            for name in *names {
                counts[at] += card.rise(name)?;
            }
        }
        let [packets, lost] = counts;
        let name = card.now.text("name");
        all.push(measure(
            if packets >= 1_000.0 { percent(lost, packets) } else { 0.0 },
            format!("the network card {name} drops packets"),
            format!("{lost:.0} of {packets:.0} packets in {:.0} s", card.seconds),
            format!("`ip -s -s link show {name}` says which kind; larger rings: `ethtool -G {name} rx 4096`; a shaper drops, too: `tc -s qdisc show dev {name}`"),
        ));
    }
    Ok(all)
}

fn line(span: &Span<'_>) -> Measured {
    let mut all = Vec::new();
    for card in span.pairs("nics.each", "name")? {
        // Virtual cards know no speed.
        let Ok(speed) = card.now("speed") else { continue };
        let rate = |name| card.rate(name).map(|bytes| bytes * 8.0 / 1e6);
        let (received, sent) = (rate("received_bytes")?, rate("sent_bytes")?);
        let name = card.now.text("name");
        all.push(measure(
            percent(received.max(sent), speed),
            format!("the line of {name} is full"),
            format!("{sent:.0} Mbit/s sent, {received:.0} received, of {speed:.0}"),
            "smaller images, compression (php.compress, files.compress), a CDN; then a faster line",
        ));
    }
    Ok(all)
}

fn duplex(span: &Span<'_>) -> Measured {
    let cards = span.now.list("nics.each")?.iter();
    let half: Vec<&str> =
        cards.filter(|card| card.text("duplex") == "half").map(|card| card.text("name")).collect();
    one(
        half.len() as f64,
        format!("half duplex on {}", half.join(", ")),
        "duplex half in /sys/class/net",
        format!("ethtool -s {} autoneg on; the switch must negotiate, too", half.first().unwrap_or(&"eth0")),
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::{Pair, case};

    #[test]
    fn listen_queues() {
        case("net-accept", |p| p.rise("tcp.ListenOverflows", 412.0), |p| p.rise("tcp.ListenOverflows", 1.0));
        // An old counter is no finding.
        case("net-drops", |p| p.rise("tcp.ListenDrops", 30.0), |p| p.both("tcp.ListenDrops", 9_999.0));
        case("net-backlog", |p| p.now.set("sysctl.net.core.somaxconn", 128.0), |_| ());
        case(
            "net-syn-queue",
            |p| p.rise("tcp.TCPReqQFullDoCookies", 3.0),
            |p| p.both("tcp.TCPReqQFullDrop", 3.0),
        );
    }

    #[test]
    fn the_cure_names_whose_queue_it_is() {
        let mut pair = Pair::healthy();
        pair.rise("tcp.ListenOverflows", 10.0);
        assert!(pair.finding("net-accept").cure.starts_with("find the program"));
        pair.rise("server.listen_queues.dropped", 10.0);
        let own = pair.finding("net-accept");
        assert!(
            own.cure.contains("server.backlog") && own.evidence[0].contains("10 of them by Millrace"),
            "{own:?}"
        );
    }

    #[test]
    fn tables_and_ports() {
        case(
            "net-conntrack",
            |p| p.now.set("conntrack.count", 240_000.0),
            |p| p.now.set("conntrack.count", 200_000.0),
        );
        let ports = |used: f64| move |p: &mut Pair| p.now.items("ports.destinations")[0].set("used", used);
        case("net-ports", ports(27_500.0), ports(20_000.0));
        case(
            "net-time-wait",
            |p| p.rise("tcp.TCPTimeWaitOverflow", 2.0),
            |p| p.now.set("sockets.tw", 50_000.0),
        );
    }

    #[test]
    fn memory() {
        case("net-memory", |p| p.now.set("sockets.mem", 96_000.0), |p| p.now.set("sockets.mem", 60_000.0));
        case("net-pruned", |p| p.rise("tcp.TCPAbortOnMemory", 1.0), |p| p.rise("tcp.PruneCalled", 5.0));
        case(
            "net-orphans",
            |p| p.now.set("sockets.orphan", 40_000.0),
            |p| p.now.set("sockets.orphan", 9_000.0),
        );
    }

    #[test]
    fn packets() {
        let again = |share: f64| {
            move |p: &mut Pair| {
                p.rise("snmp.OutSegs", 10_000.0);
                p.rise("snmp.RetransSegs", share * 100.0);
            }
        };
        case("net-retransmits", again(8.0), again(2.0));
        case("net-softirq-drops", |p| p.rise("softnet.dropped", 11.0), |p| p.rise("softnet.dropped", 5.0));
        case(
            "net-softirq-budget",
            |p| p.rise("softnet.squeezed", 5_000.0),
            |p| p.rise("softnet.squeezed", 50.0),
        );
        let softirq = |share: f64, other: f64| {
            move |p: &mut Pair| {
                for (at, share) in [share, other].into_iter().enumerate() {
                    p.rise_of("cpu.each", at, "softirq", share * 5.0);
                    p.rise_of("cpu.each", at, "total", 500.0);
                }
            }
        };
        case("net-one-core", softirq(90.0, 5.0), softirq(90.0, 60.0));
    }

    #[test]
    fn cards() {
        let card = |name: &'static str, packets: f64, value: f64| {
            move |p: &mut Pair| {
                p.rise_of("nics.each", 0, "received", packets);
                p.rise_of("nics.each", 0, name, value);
            }
        };
        case("nic-drops", card("received_dropped", 10_000.0, 500.0), card("received_dropped", 100.0, 50.0));
        case("nic-line", card("sent_bytes", 1.0, 5.0 * 118e6), card("sent_bytes", 1.0, 5.0 * 90e6));
        case("nic-duplex", |p| p.now.items("nics.each")[0].say("duplex", "half"), |_| ());
    }
}
