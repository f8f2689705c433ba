//! Processes whose parent has ended, and that became ours because we are process 1 of a container: somebody has to fetch their status.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// A process: its number, and when it began (in ticks since boot), because numbers are used again.
type Identity = (u32, u64);

/// The children that this process has started with [`crate::give_descriptors`], and whose status it fetches itself.
static OWN: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

/// Notes a child of our own.
pub(crate) fn note_own(pid: u32) {
    let Some((began, _)) = began_and_state(pid) else { return };
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    own.retain(|(pid, began)| began_and_state(*pid).is_some_and(|(other, _)| other == *began));
    own.insert((pid, began));
}

/// Fetches the status of orphans that have ended. What is started elsewhere in this process is waited for at once: only what has ended before the
/// last look, and nobody has waited for since, is an orphan.
#[derive(Debug, Default)]
pub struct Orphans {
    ended: BTreeSet<Identity>,
}

impl Orphans {
    /// Looks; call it every few seconds. Returns how many orphans it has freed.
    pub fn reap(&mut self) -> usize {
        let own = OWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ended: BTreeSet<Identity> = zombies().filter(|zombie| !own.contains(zombie)).collect();
        let orphans = ended.intersection(&self.ended);
        let freed = orphans.filter(|(pid, _)| fetch(*pid)).count();
        self.ended = ended;
        freed
    }
}

/// Fetches the status of a child that has ended.
fn fetch(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    waitid(WaitId::Pid(pid), options).is_ok_and(|status| status.is_some())
}

/// The children of this process that have ended.
fn zombies() -> impl Iterator<Item = Identity> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<u32> = lists
        .flat_map(|list| list.split_ascii_whitespace().flat_map(str::parse).collect::<Vec<u32>>())
        .collect();
    children.into_iter().filter_map(|pid| {
        let (began, state) = began_and_state(pid)?;
        (state == 'Z').then_some((pid, began))
    })
}

/// Fields 22 and 3 of proc_pid_stat(5).
fn began_and_state(pid: u32) -> Option<(u64, char)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut columns = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = columns.next()?.chars().next()?;
    Some((columns.nth(18)?.parse().ok()?, state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn await_end(child: &Child) {
        while began_and_state(child.id()).is_some_and(|(_, state)| state != 'Z') {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_nobody_waits_for_is_freed_and_what_is_ours_is_not() {
        #[expect(clippy::zombie_processes, reason = "the orphan that the test is about")]
        let stranger = Command::new("true").spawn().unwrap();
        let mut ours = Command::new("false").spawn().unwrap();
        note_own(ours.id());
        await_end(&stranger);
        await_end(&ours);
        let mut orphans = Orphans::default();
        orphans.reap();
        assert!(began_and_state(stranger.id()).is_some(), "whoever has started it may be about to wait");
        orphans.reap();
        assert_eq!(began_and_state(stranger.id()), None);
        assert_eq!(ours.wait().unwrap().code(), Some(1), "our child's status is ours");
    }
}
