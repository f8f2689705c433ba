//! What a thread of this process is doing, as the kernel tells: for one that has stopped doing anything.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// How a thread has spent its time since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// On a processor.
    pub run: Duration,
    /// Ready to run, while others had all processors. What it waits for now is added when it has run again.
    pub waited: Duration,
    /// Whether it is ready to run, or runs, at this moment.
    pub is_ready: bool,
}

/// System calls in which a thread can wait: number, name, what its first arguments are.
const CALLS: &[(libc::c_long, &str, Arguments)] = &[
    (libc::SYS_read, "read", Arguments::Descriptor),
    (libc::SYS_pread64, "pread", Arguments::Descriptor),
    (libc::SYS_readv, "readv", Arguments::Descriptor),
    (libc::SYS_preadv, "preadv", Arguments::Descriptor),
    (libc::SYS_write, "write", Arguments::Descriptor),
    (libc::SYS_writev, "writev", Arguments::Descriptor),
    (libc::SYS_pwrite64, "pwrite", Arguments::Descriptor),
    (libc::SYS_getdents64, "getdents", Arguments::Descriptor),
    (libc::SYS_fstat, "fstat", Arguments::Descriptor),
    (libc::SYS_fsync, "fsync", Arguments::Descriptor),
    (libc::SYS_fdatasync, "fdatasync", Arguments::Descriptor),
    (libc::SYS_flock, "flock", Arguments::Descriptor),
    (libc::SYS_fcntl, "fcntl", Arguments::Descriptor),
    (libc::SYS_ftruncate, "ftruncate", Arguments::Descriptor),
    (libc::SYS_sendto, "send", Arguments::Descriptor),
    (libc::SYS_sendmsg, "sendmsg", Arguments::Descriptor),
    (libc::SYS_recvfrom, "recv", Arguments::Descriptor),
    (libc::SYS_recvmsg, "recvmsg", Arguments::Descriptor),
    (libc::SYS_connect, "connect", Arguments::Descriptor),
    (libc::SYS_openat, "openat", Arguments::Path),
    (libc::SYS_openat2, "openat2", Arguments::Path),
    (libc::SYS_newfstatat, "stat", Arguments::Path),
    (libc::SYS_statx, "statx", Arguments::Path),
    (libc::SYS_readlinkat, "readlink", Arguments::Path),
    (libc::SYS_faccessat, "access", Arguments::Path),
    (libc::SYS_futex, "futex (a lock)", Arguments::Other),
    (libc::SYS_nanosleep, "nanosleep", Arguments::Other),
    (libc::SYS_clock_nanosleep, "clock_nanosleep", Arguments::Other),
    (libc::SYS_epoll_pwait, "epoll_wait", Arguments::Other),
    (libc::SYS_wait4, "wait4", Arguments::Other),
];

#[derive(Clone, Copy)]
enum Arguments {
    /// A descriptor.
    Descriptor,
    /// A descriptor of a folder, and the address of a path.
    Path,
    Other,
}

/// The number of the calling thread.
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// How a thread of this process spends its time; `None`: the system does not tell.
pub fn thread_times(id: i32) -> Option<ThreadTimes> {
    let stat = fs::read_to_string(format!("/proc/self/task/{id}/stat")).ok()?;
    let schedule = fs::read_to_string(format!("/proc/self/task/{id}/schedstat")).ok()?;
    times(&stat, &schedule)
}

/// From stat (proc_pid_stat(5)) and schedstat (Documentation/scheduler/sched-stats.rst).
fn times(stat: &str, schedule: &str) -> Option<ThreadTimes> {
    let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
    let mut columns =
        schedule.split_ascii_whitespace().map(|column| column.parse().map(Duration::from_nanos));
    let (run, waited) = (columns.next()?.ok()?, columns.next()?.ok()?);
    Some(ThreadTimes { run, waited, is_ready: state == 'R' })
}

/// What a thread of this process does at this moment, in a few words and lines: state, system call with file, functions of the kernel (only
/// root may see these), and addresses on its stack, for `addr2line -e millrace`.
pub fn thread_report(id: i32) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/task/{id}/{name}")).unwrap_or_default();
    let stat = read("stat");
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    let mut text = match state {
        Some('R') => "it computes".to_owned(),
        Some('D') => "it waits for a disk, and no signal can end that".to_owned(),
        Some('S') => "it sleeps".to_owned(),
        Some('T' | 't') => "it is stopped".to_owned(),
        _ => "its state is unknown".to_owned(),
    };
    let call = read("syscall");
    if let Some(call) = system_call(id, &call) {
        let _ = write!(text, " in {call}");
    }
    let inside = read("wchan");
    if !matches!(inside.trim(), "" | "0") {
        let _ = write!(text, ", in {} of the kernel", inside.trim());
    }
    for line in read("stack").lines().take(20) {
        let _ = write!(text, "\n  {line}");
    }
    if let Some(addresses) = stack(&call) {
        let _ = write!(text, "\n  stack of the program: {addresses}");
    }
    text
}

/// The system call of a line of `/proc/PID/syscall`: number, six arguments, stack pointer, program counter.
fn system_call(id: i32, line: &str) -> Option<String> {
    let mut words = line.split_ascii_whitespace();
    let number: libc::c_long = words.next()?.parse().ok().filter(|number| *number >= 0)?;
    let mut argument = || address(words.next()?);
    let (first, second) = (argument()?, argument()?);
    let Some((_, name, arguments)) = CALLS.iter().find(|(known, ..)| *known == number) else {
        return Some(format!("system call {number}"));
    };
    Some(match arguments {
        Arguments::Descriptor => {
            let file = fs::read_link(format!("/proc/self/task/{id}/fd/{first}")).unwrap_or_default();
            format!("{name} of {}", file.display())
        }
        Arguments::Path => format!("{name} of {}", path_at(second).unwrap_or_default()),
        Arguments::Other => (*name).to_owned(),
    })
}

fn address(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// Reads memory of this process by its address, without touching it: it may not be there any more.
fn memory(at: u64, bytes: &mut [u8]) -> Option<usize> {
    fs::File::open("/proc/self/mem").ok()?.read_at(bytes, at).ok()
}

fn path_at(at: u64) -> Option<String> {
    let mut bytes = [0; 512];
    let length = memory(at, &mut bytes)?;
    let path = bytes[..length].split(|byte| *byte == 0).next()?;
    Some(path.escape_ascii().to_string())
}

/// What looks like return addresses on a thread's stack, in the file of the program.
fn stack(call: &str) -> Option<String> {
    const MOST: usize = 24;
    let pointer = call.split_ascii_whitespace().nth(7).and_then(address)?;
    let mut bytes = vec![0; 32 << 10];
    let length = memory(pointer, &mut bytes)?;
    let (code, start) = program()?;
    let words =
        bytes[..length].chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    let inside = words.filter(|word| code.iter().any(|(from, to)| (*from..*to).contains(word)));
    let found: Vec<String> = inside.take(MOST).map(|word| format!("{:#x}", word - start)).collect();
    (!found.is_empty()).then(|| found.join(" "))
}

/// The executable parts of the program, and where its file begins (proc_pid_maps(5)).
fn program() -> Option<(Vec<(u64, u64)>, u64)> {
    let name = fs::read_link("/proc/self/exe").ok()?;
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let mine = maps.lines().filter(|line| line.ends_with(&*name.to_string_lossy()));
    let parts: Vec<(u64, u64, bool)> = mine
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (from, to) = words.next()?.split_once('-')?;
            let is_code = words.next()?.contains('x');
            Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?, is_code))
        })
        .collect();
    let start = parts.iter().map(|(from, ..)| *from).min()?;
    Some((parts.iter().filter(|part| part.2).map(|(from, to, _)| (*from, *to)).collect(), start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::mpsc;
    use std::time::Instant;

    #[test]
    fn a_thread_that_reads_a_pipe() {
        let (mut reader, _writer) = std::io::pipe().unwrap();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            sender.send(thread_id()).unwrap();
            let _ = reader.read(&mut [0]);
        });
        let id = receiver.recv().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        let mut report = String::new();
        while !report.contains("read of pipe:[") && Instant::now() < until {
            report = thread_report(id);
            std::thread::yield_now();
        }
        assert!(report.contains("it sleeps in read of pipe:["), "{report}");
        let times = thread_times(id).unwrap();
        assert!(!times.is_ready);
        assert!(thread_times(thread_id()).unwrap().is_ready);
        assert_eq!(thread_times(i32::MAX), None);
    }

    #[test]
    fn paths_and_times_are_read() {
        let path = b"/srv/x\0rest";
        assert_eq!(path_at(path.as_ptr() as u64).as_deref(), Some("/srv/x"));
        assert_eq!(path_at(8), None, "nothing is there");
        let is = times("7 (a) b) D 1 2 3", "5 7 9\n").unwrap();
        assert_eq!((is.run.as_nanos(), is.waited.as_nanos(), is.is_ready), (5, 7, false));
        assert!(times("7 (x) R 1", "0 0 0").unwrap().is_ready);
        assert_eq!(times("", ""), None);
    }
}
