//! A second host starts beside the current one and takes its place, by an order (`renewal` says why) or because opcache wants to restart;
//! the old one fades: it ends with the last of its workers.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use millrace_wire::frames::control::Message;
use rustix::event::{PollFd, PollFlags};

use super::super::host::{Errors, Host, Started, ending, slots};
use super::super::pool::pools::PoolId;
use super::super::pool::{Seat, ServiceStage};
use super::super::renewal::RenewalOrder;
use super::super::start_error::PhpStartError;
use super::super::worker::{Worker, WorkerPhase};
use super::super::worker_handle::WorkerHandle;
use super::boots::why_unbooted;
use super::host_life::LAST_WORDS;
use super::workers::Ended;
use super::{FORK_MS, HOST_END, HOST_START, LEAVING_MS, Supervisor};
use millrace_base::context::log::Log;
use millrace_base::context::stats::OpcacheRestart;

/// Shortest time between two hosts that take over because opcache wants to restart, milliseconds: a plugin may reset it again and again.
const REPLACE_MS: u64 = 5_000;
/// The same after one that did not start.
const REPLACE_AGAIN_MS: u64 = 60_000;

/// A host that will take over.
pub(super) struct NextHost {
    host: Host,
    errors: Errors,
    words: String,
    started: Option<Started>,
    workers: Vec<Fork>,
    /// Time by which PHP, then its workers must be up, milliseconds.
    deadline: u64,
    purpose: NextPurpose,
    /// PHP and its workers are up.
    is_up: bool,
}

/// Why a next host was started.
enum NextPurpose {
    /// The control thread wants it; receives the result of the start.
    Order(SyncSender<Result<(), PhpStartError>>),
    /// The current host's opcache wants to restart.
    Opcache(OpcacheRestart),
}

/// A worker of the next host.
enum Fork {
    Asked(OwnedFd),
    /// Its script is booting.
    Boots(Box<Worker>),
    Up(Box<Worker>),
    /// It could not be forked, or has ended.
    None,
}

/// A replaced host whose workers finish their requests.
pub(super) struct Fading {
    host: Host,
    generation: u64,
    /// When the last of its workers was seen, milliseconds.
    busy: u64,
    told_to_end: bool,
}

impl Supervisor {
    /// Carries out the orders of `Pool::renew` and `Renewal`, and looks after all hosts but the current one.
    pub(super) fn renew(&mut self) {
        let (order, stage) = {
            let mut state = self.shared.lock();
            (state.order.take(), state.stage)
        };
        match order {
            Some(RenewalOrder::Prepare(tell)) => self.prepare(tell),
            Some(RenewalOrder::Commit(tell)) => {
                self.commit();
                let _ = tell.send(());
            }
            Some(RenewalOrder::Cancel) => self.cancel(None),
            None if stage != ServiceStage::Serving => self.cancel(Some(PhpStartError::Ending)),
            None => (),
        }
        if stage == ServiceStage::Serving {
            self.see_to_opcache();
        }
        if self.next.as_ref().is_some_and(|next| !next.is_up && next.deadline <= self.now()) {
            self.cancel(Some(PhpStartError::Failed("PHP does not respond".to_owned())));
        }
        self.fade();
    }

    /// Where opcache wants to restart, a new host with memory of its own takes over (`php/c/restart.c`).
    fn see_to_opcache(&mut self) {
        if let Some(NextHost { purpose: NextPurpose::Opcache(why), is_up: true, .. }) = self.next {
            self.shared.insight.replaced(why);
            self.commit();
            return;
        }
        let wants = self.host.as_ref().and_then(|host| host.scoreboard.opcache_restart());
        let (Some(why), None, now) = (wants, &self.next, self.now()) else { return };
        if now < self.replace_at {
            return;
        }
        self.replace_at = now + REPLACE_MS;
        match why {
            OpcacheRestart::Reset => self.shared.log.info(format_args!(
                "a script has called opcache_reset(): a new PHP takes over beside the one that runs"
            )),
            OpcacheRestart::Memory | OpcacheRestart::Keys => {
                let setting = match why {
                    OpcacheRestart::Keys => "opcache.max_accelerated_files",
                    _ => "opcache.memory_consumption",
                };
                self.shared.log.warn(format_args!(
                    "opcache is full: a new PHP takes over beside the one that runs; a higher {setting} in php.ini avoids that"
                ));
            }
        }
        self.launch_next(NextPurpose::Opcache(why));
    }

    /// The host, current or not, that forked this worker.
    pub(super) fn host_of(&self, handle: &WorkerHandle) -> Option<&Host> {
        let mut hosts = self.host.iter().chain(self.fading.iter().map(|fading| &fading.host));
        hosts.find(|host| Arc::ptr_eq(&host.scoreboard, &handle.scoreboard))
    }

    /// The descriptors of all other hosts, for `wait`.
    pub(super) fn other_hosts(&self) -> Vec<PollFd<'_>> {
        let next = self.next.iter().flat_map(|next| [next.host.control(), next.errors.pipe()]);
        let workers = self.next.iter().flat_map(|next| &next.workers);
        let boots = workers.filter_map(|fork| match fork {
            Fork::Boots(worker) => worker.descriptor().ok(),
            _ => None,
        });
        let fading = self.fading.iter().map(|fading| fading.host.control());
        next.chain(boots).chain(fading).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect()
    }

    /// Reads the messages of the other hosts.
    pub(super) fn hear_others(&mut self) {
        let mut bytes = std::mem::take(&mut self.message);
        self.hear_next(&mut bytes);
        for at in 0..self.fading.len() {
            while let Ok(Some(message)) = self.fading[at].host.receive(&mut bytes) {
                match message {
                    Message::WorkerExited { pid, status, report, .. } => {
                        let ended = self.ending_of(pid, ExitStatus::from_raw(status), report);
                        self.orphan_ended(self.fading[at].generation, &ended);
                    }
                    Message::Traced { slot, pid, sequence, text } => self.traced(slot, pid, sequence, text),
                    Message::Log { priority, message } => {
                        self.shared.log.php("", "", priority as u8, message);
                    }
                    _ => (),
                }
            }
        }
        self.message = bytes;
    }

    /// A worker of an earlier host has ended. The holder of its connection may have seen this before.
    fn orphan_ended(&mut self, generation: u64, ended: &Ended<'_>) {
        let is_it = |handle: &Arc<WorkerHandle>| handle.generation == generation && handle.pid() == ended.pid;
        let left = self.departed.iter().position(|(_, handle)| is_it(handle));
        let left = left.map(|at| self.departed.swap_remove(at).1);
        let Some(handle) = left.or_else(|| self.orphans.iter().find(|handle| is_it(handle)).cloned()) else {
            return;
        };
        handle.end_socket();
        self.left_ended(&handle, ended);
    }

    /// The pool is over: ends all other hosts.
    pub(super) fn end_others(&mut self) {
        self.cancel(Some(PhpStartError::Ending));
        for fading in self.fading.drain(..) {
            fading.host.end(HOST_END);
        }
    }

    // ---- the next host ----

    fn prepare(&mut self, tell: SyncSender<Result<(), PhpStartError>>) {
        self.cancel(None);
        self.launch_next(NextPurpose::Order(tell));
    }

    fn launch_next(&mut self, purpose: NextPurpose) {
        match Host::launch(&self.shared.settings, &self.shared.injected) {
            Ok((host, errors)) => {
                let deadline = self.now() + HOST_START.as_millis() as u64;
                let (words, workers) = (String::new(), Vec::new());
                let (started, is_up) = (None, false);
                self.next =
                    Some(NextHost { host, errors, words, started, workers, deadline, purpose, is_up });
            }
            Err(error) => self.report_failure(purpose, error),
        }
    }

    /// Ends the next host, and reports `why`, with PHP's own words, to the thread that ordered it.
    fn cancel(&mut self, why: Option<PhpStartError>) {
        let Some(mut next) = self.next.take() else { return };
        next.read_errors(&self.shared.log);
        let NextHost { host, words, purpose, is_up, .. } = next;
        host.end(Duration::from_millis(50));
        if let Some(why) = why.filter(|_| !is_up) {
            let words = words.trim_end();
            let why = if words.is_empty() { why } else { PhpStartError::Failed(format!("{why}:\n{words}")) };
            self.report_failure(purpose, why);
        }
    }

    /// The next host does not start.
    fn report_failure(&mut self, purpose: NextPurpose, why: PhpStartError) {
        match purpose {
            // The receiver may have given up.
            NextPurpose::Order(tell) => drop(tell.send(Err(why))),
            NextPurpose::Opcache(_) if matches!(why, PhpStartError::Ending) => {}
            NextPurpose::Opcache(_) => {
                self.replace_at = self.now() + REPLACE_AGAIN_MS;
                self.shared.log.error(format_args!(
                    "opcache wants to restart, but a new PHP does not start, and until then each request compiles its scripts; tried \
                     again in a minute: {why}"
                ));
            }
        }
    }

    fn hear_next(&mut self, bytes: &mut Vec<u8>) {
        self.hear_control(bytes);
        if let Some(why) = self.hear_boots() {
            self.cancel(Some(PhpStartError::Failed(why)));
        }
    }

    fn hear_control(&mut self, bytes: &mut Vec<u8>) {
        let persistent = self.shared.settings.worker.is_some();
        loop {
            let Some(next) = &mut self.next else { return };
            next.read_errors(&self.shared.log);
            let why = match next.host.receive(bytes) {
                Ok(None) => return,
                Ok(Some(Message::Failed(text))) => text.to_owned(),
                Ok(Some(Message::Ready(text))) => match self.read_ready(text) {
                    Ok(started) => match self.next_left_out() {
                        None => {
                            self.fork_next(started);
                            continue;
                        }
                        Some(why) => why,
                    },
                    Err(why) => format!("the PHP host {why}"),
                },
                Ok(Some(Message::WorkerStarted { slot, pid })) => {
                    let handle = WorkerHandle::new(slot, pid, 0, next.host.scoreboard.clone(), None);
                    if persistent {
                        self.shared.begin_boot(&handle, self.clock.now());
                    }
                    next.settle(slot, Some((handle, persistent)));
                    continue;
                }
                Ok(Some(Message::WorkerExited { slot, .. })) => {
                    next.settle(slot, None);
                    continue;
                }
                Ok(Some(Message::Log { priority, message })) => {
                    next.keep(&String::from_utf8_lossy(message));
                    self.shared.log.php("", "", priority as u8, message);
                    continue;
                }
                // The next host gets no such orders.
                Ok(Some(Message::Traced { .. } | Message::Looked(_))) => continue,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    format!("PHP sent invalid data ({error})")
                }
                Err(_) => {
                    // Its exit status says more; it may be available only a moment later.
                    std::thread::sleep(Duration::from_millis(10));
                    let how =
                        next.host.ended().map_or_else(|| "closed its control socket".to_owned(), ending);
                    format!("the PHP host {how} before PHP was ready")
                }
            };
            return self.cancel(Some(PhpStartError::Failed(why)));
        }
    }

    /// The parts of its ini file that the next PHP has skipped, though it is up.
    fn next_left_out(&mut self) -> Option<String> {
        let next = self.next.as_mut()?;
        next.read_errors(&self.shared.log);
        // Only the words since the last message count.
        let words = std::mem::take(&mut next.words);
        self.left_out(&words)
    }

    /// Reads the messages of booting workers; returns why one of them did not boot.
    fn hear_boots(&mut self) -> Option<String> {
        let next = self.next.as_mut()?;
        for fork in &mut next.workers {
            let Fork::Boots(worker) = fork else { continue };
            let handle = worker.handle.clone();
            let mut sink = self.shared.unheard(&handle);
            while worker.phase() == WorkerPhase::Booting
                && worker.read_now(&mut sink).unwrap_or_else(|_| {
                    worker.give_up();
                    false
                })
            {}
            match worker.phase() {
                WorkerPhase::Booting => (),
                WorkerPhase::Ready => {
                    handle.end();
                    if let Fork::Boots(worker) = std::mem::replace(fork, Fork::None) {
                        *fork = Fork::Up(worker);
                    }
                }
                _ => return Some(why_unbooted(worker)),
            }
        }
        next.tell_if_up();
        None
    }

    /// PHP is up: forks as many workers as the current host has.
    fn fork_next(&mut self, started: Started) {
        let mut deadline = self.now() + FORK_MS;
        if self.shared.settings.worker.is_some() {
            deadline += self.shared.limit(PoolId::FRONT).usual.max(FORK_MS);
        }
        let Some(next) = &mut self.next else { return };
        let wanted = self.shared.lock().live().max(self.shared.settings.workers_start.min(1));
        next.started = Some(started);
        next.deadline = deadline;
        for slot in 0..wanted.min(self.shared.settings.workers) {
            let Ok(socket) = next.host.spawn(slot as u32) else { break };
            next.workers.push(Fork::Asked(socket));
        }
        next.tell_if_up();
    }

    /// The next host takes the current one's place.
    fn commit(&mut self) {
        let Some(NextHost { host, errors, started, workers, .. }) = self.next.take() else { return };
        let (now, shared) = (self.now(), self.shared.clone());
        let scoreboard = host.scoreboard.clone();
        let old = self.host.replace(host);
        self.errors.push(errors);
        self.last_words.clear();
        self.failed_hosts = 0;
        let mut state = shared.lock();
        let idle = state.idle.take_if(|_| true);
        let before = state.generation;
        state.generation += 1;
        state.scoreboard = Some(scoreboard.clone());
        for seat in state.set_seats(slots(&shared.settings)) {
            if let Seat::Live(handle) | Seat::Booting(handle) = seat {
                self.orphans.push(handle);
            }
        }
        state.started = started;
        state.trouble = None;
        state.spawn_at = 0;
        state.found_to_boot();
        let generation = state.generation;
        drop(state);
        drop(idle);
        for (slot, worker) in workers.into_iter().enumerate() {
            let Fork::Up(mut worker) = worker else { continue };
            let again = worker.descriptor().ok().and_then(|socket| socket.try_clone_to_owned().ok());
            let handle =
                WorkerHandle::new(slot as u32, worker.handle.pid(), generation, scoreboard.clone(), again);
            if shared.settings.worker.is_some() {
                handle.set_booted();
            }
            worker.handle = handle.clone();
            let mut state = shared.lock();
            state.set_seat(slot, Seat::Live(handle));
            shared.place(state, worker, now);
        }
        if let Some(host) = old {
            host.retire();
            self.fading.push(Fading { host, generation: before, busy: now, told_to_end: false });
        }
    }

    // ---- old hosts ----

    /// Removes old hosts that have ended, and tells hosts without workers again to end.
    fn fade(&mut self) {
        let now = self.now();
        let orphans = &self.orphans;
        self.fading.retain_mut(|fading| {
            if fading.host.ended().is_some() {
                return false;
            }
            fading.host.go_on();
            if orphans.iter().any(|handle| handle.generation == fading.generation) {
                fading.busy = now;
            } else if fading.busy + LEAVING_MS <= now && !fading.told_to_end {
                // The second order: the host then kills the processes that have not ended.
                fading.host.retire();
                fading.told_to_end = true;
            }
            true
        });
    }
}

impl NextHost {
    fn read_errors(&mut self, log: &Log) {
        let mut lines = Vec::new();
        self.errors.read(|line| lines.push(line.to_owned()));
        for line in lines {
            self.keep(&line);
            log.warn(format_args!("php: {line}"));
        }
    }

    /// Stores a line for the message of a failed start.
    fn keep(&mut self, line: &str) {
        if self.words.len() + line.len() < LAST_WORDS {
            self.words.push_str(line);
            self.words.push('\n');
        }
    }

    /// A worker is up, and may have to boot; `None`: it has failed or ended.
    fn settle(&mut self, slot: u32, worker: Option<(Arc<WorkerHandle>, bool)>) {
        if let Some(fork) = self.workers.get_mut(slot as usize) {
            *fork = match (std::mem::replace(fork, Fork::None), worker) {
                (Fork::Asked(socket), Some((handle, false))) => {
                    Fork::Up(Box::new(Worker::new(handle, socket)))
                }
                (Fork::Asked(socket), Some((handle, true))) => {
                    Fork::Boots(Box::new(Worker::booting(handle, socket)))
                }
                // The result of its boot is still unread.
                (Fork::Boots(worker), None) => Fork::Boots(worker),
                _ => Fork::None,
            };
        }
        self.tell_if_up();
    }

    fn tell_if_up(&mut self) {
        // Before PHP is up there are no workers.
        let waits = self.started.is_none()
            || self.workers.iter().any(|worker| matches!(worker, Fork::Asked(_) | Fork::Boots(_)));
        if waits || std::mem::replace(&mut self.is_up, true) {
            return;
        }
        if let NextPurpose::Order(tell) = &self.purpose {
            // The receiver may have given up.
            let _ = tell.send(Ok(()));
        }
    }
}
