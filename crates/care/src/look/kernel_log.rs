//! The kernel's log, /dev/kmsg: out of memory, full tables, errors of disks, crashes of programs.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::facts::{Blind, Facts};

/// Lines that a check may be interested in; the others are not kept.
const SIGNS: &[&str] = &[
    "Out of memory",
    "oom-kill:",
    "Killed process",
    "table full, dropping",
    "segfault at",
    "general protection",
    "blocked for more than",
    "I/O error",
    "Remounting filesystem read-only",
    "possible SYN flooding",
    "Possible SYN flooding",
    "NETDEV WATCHDOG",
    "too many orphaned sockets",
    "out of memory -- consider tuning tcp_mem",
];
/// Maximum number of lines kept: the last ones.
const LINES: usize = 200;

/// The list `lines`: `text`, and `age` in seconds.
pub fn read(root: &Path) -> Result<Facts, Blind> {
    let path = root.join("dev/kmsg");
    // A record per read; the open file begins with the oldest, and says EAGAIN after the newest.
    let open =
        OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(&path);
    let mut file = open.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Blind::DoesNotApply("there is no /dev/kmsg: the kernel's log is the host's".to_owned())
        }
        _ => Blind::CouldNotLook(format!("/dev/kmsg: {error}; run as root")),
    })?;
    let mut records = Vec::new();
    let mut buffer = [0_u8; 8 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => records.push(String::from_utf8_lossy(&buffer[..length]).into_owned()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // The record was overwritten while we read; the next read goes on behind it.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Blind::CouldNotLook(format!("/dev/kmsg: {error}; run as root"))),
        }
    }
    let uptime = super::number(root, "proc/uptime")?;
    Ok(of_records(records.iter().flat_map(|text| text.lines()), uptime))
}

/// Records are `priority,sequence,microseconds since boot,flags;text`.
fn of_records<'a>(records: impl Iterator<Item = &'a str>, uptime: f64) -> Facts {
    let mut lines: Vec<Facts> = records
        .filter_map(|record| {
            let (head, text) = record.split_once(';')?;
            let at: f64 = head.split(',').nth(2)?.parse().ok()?;
            SIGNS.iter().any(|sign| text.contains(sign)).then(|| {
                let mut line = Facts::default();
                line.say("text", text);
                line.set("age", (uptime - at / 1e6).max(0.0));
                line
            })
        })
        .collect();
    let surplus = lines.len().saturating_sub(LINES);
    lines.drain(..surplus);
    let mut facts = Facts::default();
    facts.put("lines", lines);
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records() {
        let text = "6,339,5140900,-;NET: Registered protocol\n SUBSYSTEM=x\n4,400,90000000,-;nf_conntrack: table full, dropping packet\nbad\n3,1,x,-;segfault at 0\n";
        let facts = of_records(text.lines(), 100.0);
        let lines = facts.list("lines").expect("a list");
        assert_eq!((lines.len(), lines[0].figure("age")), (1, Ok(10.0)));
    }
}
