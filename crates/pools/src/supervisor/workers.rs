//! Forks workers, ends them, and looks after running workers whose client has gone.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::super::host::ending;
use super::super::loopback;
use super::super::pool::Seat;
use super::super::pool::growth::{free_seats, wanted};
use super::super::pool::pools::Pool;
use super::super::trace::Trace;
use super::super::worker::{Worker, WorkerPhase};
use super::super::worker_handle::WorkerHandle;
use super::Supervisor;

/// After this time without a free worker, a waiting request may be one for which a worker waits, milliseconds.
const STUCK_MS: u64 = 100;

/// How a worker ended.
pub(super) struct Ended<'a> {
    pub(super) pid: u32,
    pub(super) status: ExitStatus,
    /// Its own report about its crash.
    report: &'a [u8],
    /// Whether the kernel killed it because memory ran out.
    out_of_memory: Option<bool>,
}

impl Ended<'_> {
    /// PHP's frames after a crash, one per line.
    fn frames(&self) -> String {
        if self.report.is_empty() { String::new() } else { Trace::read(self.report).to_string() }
    }
}

impl fmt::Display for Ended<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&ending(self.status))?;
        let reason = Trace::read(self.report).reason;
        match (self.status.signal(), self.out_of_memory) {
            (Some(9), Some(true)) => f.write_str(", by the kernel's out-of-memory killer,"),
            (Some(9), Some(false)) => f.write_str(", by another process,"),
            (Some(9), None) => f.write_str(", by the kernel's out-of-memory killer?,"),
            (Some(_), _) if !reason.is_empty() => write!(f, ", {reason},"),
            _ => Ok(()),
        }
    }
}

/// Number of processes that the kernel has killed because memory ran out, since its start; `None`: unknown.
pub(super) fn oom_kills() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

impl Supervisor {
    pub(super) fn spawn(&mut self, slots: Vec<usize>) {
        for slot in slots {
            let Some(host) = &self.host else { return };
            match host.spawn(slot as u32) {
                Ok(socket) => {
                    let seat = Seat::Starting(socket, self.now());
                    self.shared.lock().set_seat(slot, seat);
                }
                Err(error) => {
                    // A full control socket drains; descriptors may become free; a dead host is noticed separately.
                    if error.kind() != io::ErrorKind::WouldBlock {
                        self.shared
                            .log
                            .warn(format_args!("cannot create a socket for another PHP worker: {error}"));
                    }
                    self.shared.lock().spawn_at = self.now() + 100;
                    return;
                }
            }
        }
    }

    /// Runs one more worker if a pool's workers are all busy, and one of them waits for a request that itself waits for
    /// a worker: an idle one that is reserved for other pools, otherwise a new one.
    pub(super) fn help_stuck(&mut self) {
        let now = self.now();
        let Some(limit) = now.checked_sub(STUCK_MS) else { return };
        let mut state = self.shared.lock();
        if self.helped > limit
            || state.starting() > 0
            || state.started.is_none()
            || state.pools.waiting() == 0
        {
            return;
        }
        let stuck = |pool: &Pool<_>| {
            // At its own limit, the pool waits for one of its own workers, otherwise for any.
            let own = pool.running >= pool.limit();
            (if own { pool.last_release } else { state.last_release }) <= limit
        };
        let waiting = state.pools.iter().filter(|(id, pool)| !state.pools.may_run(*id) && stuck(pool));
        let connections: Vec<_> =
            waiting.map(|(id, pool)| (id, pool.queue.waiters.local_older(limit))).collect();
        if connections.iter().all(|(_, connections)| connections.is_empty()) {
            return;
        }
        let live = state.seats().iter().filter_map(|seat| match seat {
            Seat::Live(handle) => Some(handle.pid()),
            _ => None,
        });
        let processes: Vec<u32> = live.collect();
        drop(state);
        self.helped = now;
        let held = connections.iter().find(|(_, connections)| {
            !connections.is_empty() && loopback::any_held_by(&processes, connections)
        });
        let Some((pool, _)) = held else { return };
        state = self.shared.lock();
        if state.pools.get(*pool).queue.waiters.len() == 0 || !state.pools.allow_extra(*pool) {
            return;
        }
        self.shared.pump(state, now);
        let state = self.shared.lock();
        let slots = free_seats(&state, wanted(&state, self.shared.lowers()));
        drop(state);
        self.spawn(slots);
    }

    pub(super) fn worker_started(&mut self, slot: usize, pid: u32) {
        let Some(host) = &self.host else { return };
        let mut state = self.shared.lock();
        let Some(Seat::Starting(socket, _)) = state.seats().get(slot) else { return };
        let socket = socket.try_clone().ok();
        let handle = WorkerHandle::new(slot as u32, pid, state.generation, host.scoreboard.clone(), socket);
        if self.shared.settings.worker.is_some() {
            if let Seat::Starting(socket, _) = state.set_seat(slot, Seat::Booting(handle.clone())) {
                drop(state);
                self.boot(handle, socket);
            }
            return;
        }
        if let Seat::Starting(socket, _) = state.set_seat(slot, Seat::Live(handle.clone())) {
            let worker = Box::new(Worker::new(handle, socket));
            self.shared.place(state, worker, self.now());
        }
    }

    /// A worker's process has ended; `report`: its own report about its crash.
    pub(super) fn worker_ended(&mut self, slot: usize, pid: u32, status: ExitStatus, report: &[u8]) {
        let now = self.now();
        let ended = self.ending_of(pid, status, report);
        let mut state = self.shared.lock();
        if slot >= state.seats().len() {
            return;
        }
        let generation = state.generation;
        let mut gone = Vec::new();
        match state.set_seat(slot, Seat::Free) {
            Seat::Live(handle) => {
                gone = state
                    .idle
                    .take_if(|w| w.handle.slot as usize == slot && w.handle.generation == generation);
                self.tell_ending(&handle, &ended, gone.is_empty());
                self.blame(&handle, status);
                if !handle.has_worked() {
                    state.note_death(now);
                }
                if gone.is_empty() {
                    handle.end_socket();
                    state.set_seat(slot, Seat::Ended(handle));
                }
            }
            // Its last frames are still unread.
            Seat::Booting(handle) => {
                handle.end_socket();
                state.set_seat(slot, Seat::Ended(handle));
            }
            // Its holder has seen the end before.
            Seat::Leaving(handle, _) => self.left_ended(&handle, &ended),
            Seat::Starting(..) => state.note_death(now),
            Seat::Ended(handle) => drop(state.set_seat(slot, Seat::Ended(handle))),
            Seat::Free => (),
        }
        drop(state);
        drop(gone);
    }

    /// A worker that was closed before has ended.
    pub(super) fn left_ended(&self, handle: &WorkerHandle, ended: &Ended<'_>) {
        if !ended.status.success() {
            self.tell_ending(handle, ended, true);
        }
        self.blame(handle, ended.status);
    }

    /// Blames a worker's end on its request, if it was in the middle of one, and wakes the requests that wait for
    /// this verdict. A kill for lack of memory counts against no request: the kernel chooses any process.
    fn blame(&self, handle: &WorkerHandle, status: ExitStatus) {
        if status.signal() != Some(9) && !handle.is_killed() && !handle.scoreboard.has_answered(handle.slot) {
            self.shared.blame(handle, self.now());
        }
        handle.tell_end();
    }

    /// How a worker ended, and why.
    pub(super) fn ending_of<'a>(&mut self, pid: u32, status: ExitStatus, report: &'a [u8]) -> Ended<'a> {
        Ended { pid, status, report, out_of_memory: self.was_out_of_memory(status) }
    }

    /// Whether the kernel killed a process with this status because memory ran out; `None`: unknown.
    fn was_out_of_memory(&mut self, status: ExitStatus) -> Option<bool> {
        if status.signal() != Some(9) {
            return Some(false);
        }
        let before = std::mem::replace(&mut self.oom_kills, oom_kills());
        Some(self.oom_kills? > before?)
    }

    /// Logs that a worker has ended without an order.
    pub(super) fn tell_ending(&self, handle: &WorkerHandle, ended: &Ended<'_>, busy: bool) {
        if handle.is_killed() {
            return;
        }
        let (pid, status) = (ended.pid, ended.status);
        let task = handle.task();
        let log = &self.shared.log;
        // Its END frame may still be unread in the socket: it had responded, and ended normally.
        let busy = busy && !(status.success() && handle.scoreboard.has_answered(handle.slot));
        match (busy, status.success()) {
            (true, _) => {
                log.error(format_args!("PHP worker {pid} {ended} while running {task}{}", ended.frames()))
            }
            (false, false) => log.error(format_args!(
                "idle PHP worker {pid} {ended}; its last request was {task}{}",
                ended.frames()
            )),
            (false, true) => log.info(format_args!("PHP worker {pid} exited")),
        }
    }

    /// Reads the frames of a worker whose client has gone; false when it has finished. Later frames are left for its
    /// next holder.
    fn attend(&self, worker: &mut Worker) -> bool {
        let handle = worker.handle.clone();
        let mut sink = self.shared.unheard(&handle);
        let before = worker.phase();
        let goes_on =
            |phase| matches!(phase, WorkerPhase::Booting | WorkerPhase::Running | WorkerPhase::Background);
        while goes_on(worker.phase()) {
            match worker.read_now(&mut sink) {
                Ok(true) => (),
                Ok(false) => break,
                Err(error) => {
                    worker.give_up();
                    if error.kind() == io::ErrorKind::InvalidData {
                        self.shared
                            .log
                            .error(format_args!("PHP worker {} sent invalid data: {error}", handle.pid()));
                        handle.kill();
                    }
                    return false;
                }
            }
        }
        if worker.phase() == WorkerPhase::Background && before != WorkerPhase::Background {
            handle.go_behind(self.now(), self.shared.background_limit());
        }
        goes_on(worker.phase())
    }

    pub(super) fn attend_left(&mut self, readable: &[bool]) {
        let now = self.now();
        let left = std::mem::take(&mut self.left);
        for (at, mut worker) in left.into_iter().enumerate() {
            let boots = worker.phase() == WorkerPhase::Booting;
            let readable = readable.get(at).copied().unwrap_or(false) || worker.has_behind();
            if !readable || self.attend(&mut worker) {
                self.left.push(worker);
            } else if boots {
                self.booted(worker);
            } else if worker.phase() == WorkerPhase::Ready {
                self.shared.release(worker, now);
            } else {
                self.shared.discard(worker, now);
            }
        }
    }
}
