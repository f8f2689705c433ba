//! A process that is not our child, to be signalled without hitting another that got its number.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags};

/// A process by its ID; held by a descriptor if the kernel supports that (Linux 5.3), so that a signal never reaches
/// a later process with the same ID.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    descriptor: Option<OwnedFd>,
}

/// A signal to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// To end at once, whatever it is doing (SIGKILL).
    Kill,
    /// That something needs its attention (SIGURG). Does nothing to a process that has no handler for it.
    Urgent,
}

impl Process {
    /// The process that has this number now; `None` if the number is none.
    pub fn open(pid: u32) -> Option<Process> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        Some(Process { pid, descriptor: rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok() })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Ends it at once, whatever it is doing (SIGKILL).
    ///
    /// # Errors
    /// It has ended already, or belongs to another user.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::Kill)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// As [`Process::kill`].
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let signal = match signal {
            Signal::Kill => rustix::process::Signal::KILL,
            Signal::Urgent => rustix::process::Signal::URG,
        };
        match &self.descriptor {
            Some(descriptor) => rustix::process::pidfd_send_signal(descriptor, signal)?,
            None => rustix::process::kill_process(self.pid, signal)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn kills_once() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        assert_eq!(process.id(), child.id());
        process.signal(Signal::Urgent).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(child.try_wait().unwrap().is_none());
        process.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert!(process.kill().is_err(), "it is gone");
    }

    #[test]
    fn no_process() {
        assert!(Process::open(0).is_none());
        assert!(Process::open(u32::MAX).is_none(), "would mean all processes");
    }
}
