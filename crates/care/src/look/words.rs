//! Texts of the kernel as facts.

use crate::facts::Facts;

/// `name value` or `name: value kB`, a pair per line.
pub fn pairs(text: &str) -> Facts {
    let mut facts = Facts::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(value)) = (words.next(), words.next().and_then(|word| word.parse().ok()))
        else {
            continue;
        };
        facts.set(name.trim_end_matches(':'), value);
    }
    facts
}

/// A family of /proc/net/netstat or /proc/net/snmp: a line of names, then a line of values.
pub fn family(text: &str, family: &str) -> Facts {
    let mut facts = Facts::default();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(family)?.strip_prefix(':'));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
        if let Ok(value) = value.parse() {
            facts.set(name, value);
        }
    }
    facts
}

/// Pressure stall information: `some avg10=0.12 avg60=...` becomes `some_avg10`, in percent.
pub fn pressure(text: &str) -> Facts {
    let mut facts = Facts::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(kind) = words.next() else { continue };
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            if let Ok(value) = value.parse() {
                facts.set(format!("{kind}_{name}"), value);
            }
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes() {
        let memory = pairs("MemTotal:       24684456 kB\nHugePages_Total:       0\nbad\nAnon: x kB\n");
        assert_eq!(
            (memory.figure("MemTotal"), memory.figure("HugePages_Total")),
            (Ok(24_684_456.0), Ok(0.0))
        );
        assert!(memory.figure("Anon").is_err());
        let tcp = family("TcpExt: A B C\nTcpExt: 1 -2 3\nIpExt: A\nIpExt: 9\n", "TcpExt");
        assert_eq!((tcp.figure("A"), tcp.figure("B"), tcp.figure("C")), (Ok(1.0), Ok(-2.0), Ok(3.0)));
        let stalls = pressure("some avg10=1.50 avg60=0.29 total=44\nfull avg10=0.10 total=3\n");
        assert_eq!((stalls.figure("some_avg10"), stalls.figure("full_avg10")), (Ok(1.5), Ok(0.1)));
        assert!(family("", "TcpExt").figure("A").is_err());
    }
}
