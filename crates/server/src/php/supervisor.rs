//! The thread of a pool: it alone talks to the host, and does everything that takes time into account.
//!
//! Each turn: look at the state under the lock and decide; do it; wait for the control socket, the host's standard
//! error, workers that nobody else looks after, a wake-up, or the next moment at which something may be due.

use std::collections::HashSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use millrace_wire::frames::PROTOCOL;
use millrace_wire::frames::control::{Message, Started as Text};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::card::Card;
use super::host::{Errors, Host, Started, ending, slots};
use super::loopback;
use super::pool::{EXTRA, Seat, Shared, Stage, State, back_off};
use super::worker::{Phase, Worker};
use crate::engine::Clock;

/// How long a host may take to end before it is killed.
pub const HOST_END: Duration = Duration::from_secs(5);
/// How long PHP may take to start.
const HOST_START: Duration = Duration::from_secs(60);
/// Bytes of the host's standard error that are kept for the message of a failed start.
const LAST_WORDS: usize = 4 << 10;
/// A host that ends sooner than this has not worked.
const HOST_WORKED: Duration = Duration::from_secs(1);
/// How long forking a worker may take before the host counts as hung, milliseconds.
const FORK_MS: u64 = 10_000;
/// How long a closed worker may take to end before it is killed, milliseconds.
const LEAVING_MS: u64 = 10_000;
/// No worker has become free for so long: a waiting request may be one that a worker waits for.
const STUCK_MS: u64 = 100;

/// Starts the thread; returns when PHP is up.
///
/// # Errors
/// PHP did not start: why, and what to do. There is no thread then.
pub fn start(shared: Arc<Shared>) -> Result<(), String> {
    let (tell, told) = sync_channel(1);
    let supervisor = Supervisor::new(shared, tell);
    std::thread::Builder::new()
        .name("php-pool".to_owned())
        .spawn(move || supervisor.run())
        .map_err(|error| format!("no thread for a PHP pool: {error}"))?;
    told.recv().unwrap_or_else(|_| Err("the thread of a PHP pool has ended".to_owned()))
}

struct Supervisor {
    shared: Arc<Shared>,
    clock: Clock,
    /// Who waits for the first start.
    tell: Option<SyncSender<Result<(), String>>>,
    host: Option<Host>,
    errors: Vec<Errors>,
    /// The first lines that came by it since the last host was started.
    last_words: String,
    /// Workers that have not finished and that nobody waits for.
    left: Vec<Box<Worker>>,
    /// Cards of workers of earlier hosts.
    orphans: Vec<Arc<Card>>,
    /// Hosts in a row that have not worked.
    failed_hosts: u32,
    /// When the next host may be started, milliseconds.
    launch_at: u64,
    /// When it was last looked whether workers wait for themselves, milliseconds.
    helped: u64,
    message: Vec<u8>,
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text =
                "the thread of a PHP pool has panicked: PHP is not served any more; restart the server";
            self.shared.log.error(format_args!("{text}"));
        }
        self.shared.set_over();
    }
}

/// What one look at the state found to do.
#[derive(Default)]
struct Chores {
    late: Vec<Arc<Card>>,
    kill: Vec<Arc<Card>>,
    discard: Vec<Box<Worker>>,
    spawn: Vec<usize>,
    hung: bool,
    over: bool,
}

impl Supervisor {
    fn new(shared: Arc<Shared>, tell: SyncSender<Result<(), String>>) -> Supervisor {
        Supervisor {
            shared,
            clock: Clock::default(),
            tell: Some(tell),
            host: None,
            errors: Vec::new(),
            last_words: String::new(),
            left: Vec::new(),
            orphans: Vec::new(),
            failed_hosts: 0,
            launch_at: 0,
            helped: 0,
            message: Vec::new(),
        }
    }

    fn run(mut self) {
        while self.turn() && self.wait() {
            self.clock.read();
        }
        if let Some(host) = self.host.take() {
            host.retire();
            host.end(HOST_END);
        }
        self.shared.injected.remove();
    }

    fn now(&self) -> u64 {
        self.shared.since_epoch(self.clock.now())
    }

    /// Does what is due; false when the pool is over.
    fn turn(&mut self) -> bool {
        let due = self.host.is_none() && self.launch_at <= self.now() && self.shared.lock().needs_host();
        if due && !self.launch() {
            return false;
        }
        if self.host.as_mut().is_some_and(|host| host.ended().is_some()) {
            // Its control socket says so, too, unless somebody has inherited that. What it has still said is read.
            if !self.read_control() || !self.lose_host("ended") {
                return false;
            }
        }
        let chores = self.look();
        let now = self.now();
        for card in &chores.late {
            if card.set_overdue() {
                let task = card.task();
                self.shared.log.error(format_args!(
                    "{} took longer than {:?}: PHP worker {} is killed; see php.request_timeout",
                    String::from_utf8_lossy(&task.script),
                    self.shared.settings.request_timeout,
                    card.pid()
                ));
            }
            card.kill();
        }
        chores.kill.iter().for_each(|card| card.kill());
        for worker in chores.discard {
            self.shared.discard(worker, now);
        }
        if chores.hung {
            return self.lose_host("does not answer");
        }
        self.spawn(chores.spawn);
        self.help_stuck();
        !chores.over
    }

    /// Looks at the state and decides.
    fn look(&mut self) -> Chores {
        let now = self.now();
        let shared = self.shared.clone();
        let settings = &shared.settings;
        let mut chores = Chores::default();
        let mut state = shared.lock();
        for mut worker in state.inbox.drain(..) {
            worker.loosen();
            self.left.push(worker);
        }
        let killing = matches!(state.stage, Stage::Stopping(until) if until <= now);
        self.orphans.retain(|card| Arc::strong_count(card) > 1);
        for card in &self.orphans {
            self.judge(card, killing, &mut chores);
        }
        for seat in state.seats() {
            match seat {
                Seat::Live(card) => self.judge(card, killing, &mut chores),
                Seat::Leaving(card, since) if since + LEAVING_MS <= now => chores.kill.push(card.clone()),
                Seat::Starting(_, since) if since + FORK_MS <= now => chores.hung = true,
                _ => (),
            }
        }
        let refused = match state.stage {
            Stage::Stopping(_) => state.waiters.take_older(u64::MAX),
            _ => match now.checked_sub(settings.queue_timeout.as_millis() as u64) {
                Some(limit) => state.waiters.take_older(limit),
                None => Vec::new(),
            },
        };
        let retiring = state.stage != Stage::Serving;
        chores.discard = retire_idle(&mut state, settings.workers_spare, settings.idle_timeout, now);
        if let Some(host) = self.host.as_ref().filter(|_| state.started.is_none()) {
            chores.hung = self.clock.now().saturating_duration_since(host.since) > HOST_START;
        }
        if self.host.is_some() && state.started.is_some() && state.spawn_at <= now {
            chores.spawn = free_seats(&state, wanted(&state, settings.workers));
        }
        let busy = state.live() > chores.discard.len() || !self.left.is_empty() || !self.orphans.is_empty();
        let more = state.waiters.len() > 0 || !(state.dropped || matches!(state.stage, Stage::Stopping(_)));
        chores.over = retiring && !busy && !more;
        drop(state);
        drop(refused);
        chores
    }

    fn judge(&self, card: &Arc<Card>, killing: bool, chores: &mut Chores) {
        if card.is_late(self.now()) {
            chores.late.push(card.clone());
        } else if killing && card.is_busy() {
            chores.kill.push(card.clone());
        }
    }

    // ---- the host ----

    /// Starts a host; false if the pool can't go on without.
    fn launch(&mut self) -> bool {
        match Host::launch(&self.shared.settings) {
            Ok((host, errors)) => {
                self.host = Some(host);
                self.errors.push(errors);
                self.last_words.clear();
                let mut state = self.shared.lock();
                state.generation += 1;
                state.set_seats(slots(&self.shared.settings));
                true
            }
            Err(error) => self.host_failed(&error),
        }
    }

    /// No host: the first start has failed, or it is tried again later.
    fn host_failed(&mut self, error: &str) -> bool {
        if let Some(tell) = self.tell.take() {
            let _ = tell.send(Err(error.to_owned()));
            return false;
        }
        self.failed_hosts += 1;
        self.shared.lock().trouble = Some(error.to_owned());
        let pause = back_off(self.failed_hosts);
        self.launch_at = self.now() + pause;
        if pause == 0 {
            self.shared.log.error(format_args!("{error}; it is started again at once"));
        } else {
            self.shared.log.error(format_args!("{error}; it is started again in {pause} ms"));
        }
        true
    }

    /// The host has gone or is of no use: what runs may finish, everything else goes. False if the pool is over.
    fn lose_host(&mut self, how: &str) -> bool {
        let Some(host) = self.host.take() else { return true };
        let (pid, age) = (host.pid(), self.clock.now().saturating_duration_since(host.since));
        let status = host.end(Duration::from_millis(50));
        let mut state = self.shared.lock();
        let was_up = state.started.take().is_some();
        state.generation += 1;
        let idle = state.idle.take_if(|_| true);
        for seat in state.set_seats(0) {
            if let Seat::Live(card) = seat {
                self.orphans.push(card);
            }
        }
        let over = state.stage != Stage::Serving && state.dropped;
        drop(state);
        drop(idle);
        if was_up && age >= HOST_WORKED {
            self.failed_hosts = 0;
        }
        if over {
            return true;
        }
        self.read_errors();
        let ending = status.map_or_else(|| how.to_owned(), ending);
        let text = match (was_up, self.last_words.trim_end()) {
            (true, _) => format!("the PHP host (process {pid}) {ending}"),
            (false, "") => {
                format!("the PHP host {ending} before PHP was up; `millrace-php --check` may say more")
            }
            (false, words) => format!("the PHP host {ending} before PHP was up:\n{words}"),
        };
        // Killed from outside, for want of memory or by a tool: PHP itself has said nothing against being started, not
        // even for the first time.
        if status.is_some_and(|status| status.signal() == Some(9)) && self.failed_hosts < 3 {
            self.failed_hosts += 1;
            self.shared.log.error(format_args!("{text}; it is started again at once"));
            return true;
        }
        self.host_failed(&text)
    }

    /// Reads the control socket; false if the pool is over.
    fn read_control(&mut self) -> bool {
        let mut bytes = std::mem::take(&mut self.message);
        let mut go_on = true;
        while let Some(host) = &self.host {
            go_on = match host.receive(&mut bytes) {
                Ok(Some(message)) => self.hear(message),
                Ok(None) => break,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.lose_host(&format!("talks nonsense ({error})"))
                }
                Err(_) => self.lose_host("closed its control socket"),
            };
            if !go_on {
                break;
            }
        }
        self.message = bytes;
        go_on
    }

    fn hear(&mut self, message: Message<'_>) -> bool {
        match message {
            Message::Ready(text) => return self.host_ready(text),
            Message::Failed(text) => {
                let text = format!("PHP did not start: {text}");
                if let Some(host) = self.host.take() {
                    host.end(HOST_END);
                }
                return self.host_failed(&text);
            }
            Message::WorkerStarted { slot, pid } => self.worker_started(slot as usize, pid),
            Message::WorkerExited { slot, pid, status, .. } => {
                self.worker_ended(slot as usize, pid, ExitStatus::from_raw(status));
            }
            Message::Log { priority, message } => self.shared.log.php("", "", priority as u8, message),
        }
        true
    }

    fn host_ready(&mut self, text: Text<'_>) -> bool {
        if text.get("protocol").is_some_and(|version| version != PROTOCOL.to_string()) {
            return self.lose_host("is of another version than the server: install both from one release");
        }
        let php_version = text.get("php_version").unwrap_or("unknown").to_owned();
        if text.get("opcache") != Some("on") {
            let reason = text.get("opcache_reason").unwrap_or("the extension is not loaded");
            self.shared.log.warn(format_args!(
                "opcache is off ({reason}): every request compiles its scripts again; install and enable opcache"
            ));
        }
        self.shared.log.info(format_args!("PHP {php_version} is up"));
        let mut state = self.shared.lock();
        state.started = Some(Started { php_version });
        state.trouble = None;
        state.spawn_at = 0;
        drop(state);
        if let Some(tell) = self.tell.take() {
            // Who asked may have given up.
            let _ = tell.send(Ok(()));
        }
        true
    }

    // ---- workers ----

    fn spawn(&mut self, slots: Vec<usize>) {
        for slot in slots {
            let Some(host) = &self.host else { return };
            match host.spawn(slot as u32) {
                Ok(socket) => {
                    let seat = Seat::Starting(socket, self.now());
                    self.shared.lock().set_seat(slot, seat);
                }
                Err(error) => {
                    // A full control socket empties; descriptors may become free; a dead host is noticed by itself.
                    if error.kind() != io::ErrorKind::WouldBlock {
                        self.shared.log.warn(format_args!("no socket for another PHP worker: {error}"));
                    }
                    self.shared.lock().spawn_at = self.now() + 100;
                    return;
                }
            }
        }
    }

    /// Has one worker more forked if all wait, and one of them for a request that waits for a worker itself.
    fn help_stuck(&mut self) {
        let (now, most) = (self.now(), self.shared.settings.workers);
        let Some(limit) = now.checked_sub(STUCK_MS) else { return };
        let state = self.shared.lock();
        let all_busy = state.starting() == 0 && (most..most + EXTRA).contains(&state.live());
        let stuck = all_busy && state.last_release.max(self.helped) <= limit && state.started.is_some();
        let connections = if stuck { state.waiters.local_older(limit) } else { HashSet::new() };
        if connections.is_empty() {
            return;
        }
        let live = state.seats().iter().filter_map(|seat| match seat {
            Seat::Live(card) => Some(card.pid()),
            _ => None,
        });
        let processes: Vec<u32> = live.collect();
        let slots = free_seats(&state, state.live() + 1);
        drop(state);
        self.helped = now;
        if loopback::any_held_by(&processes, &connections) {
            self.spawn(slots);
        }
    }

    fn worker_started(&mut self, slot: usize, pid: u32) {
        let Some(host) = &self.host else { return };
        let mut state = self.shared.lock();
        if !matches!(state.seats().get(slot), Some(Seat::Starting(..))) {
            return;
        }
        let card = Card::new(slot as u32, pid, state.generation, host.scoreboard.clone());
        if let Seat::Starting(socket, _) = state.set_seat(slot, Seat::Live(card.clone())) {
            let worker = Box::new(Worker::new(card, socket));
            self.shared.place(state, worker, self.now());
        }
    }

    fn worker_ended(&mut self, slot: usize, pid: u32, status: ExitStatus) {
        let now = self.now();
        let mut state = self.shared.lock();
        if slot >= state.seats().len() {
            return;
        }
        let generation = state.generation;
        let mut gone = Vec::new();
        match state.set_seat(slot, Seat::Free) {
            Seat::Live(card) => {
                gone =
                    state.idle.take_if(|w| w.card.slot as usize == slot && w.card.generation == generation);
                self.tell_ending(&card, pid, status, gone.is_empty());
                if !card.has_received_any() {
                    state.note_death(now);
                }
                if gone.is_empty() {
                    state.set_seat(slot, Seat::Ended(card));
                }
            }
            // Whoever had it saw its end before.
            Seat::Leaving(card, _) if !status.success() => self.tell_ending(&card, pid, status, true),
            Seat::Starting(..) => state.note_death(now),
            Seat::Ended(card) => drop(state.set_seat(slot, Seat::Ended(card))),
            Seat::Free | Seat::Leaving(..) => (),
        }
        drop(state);
        drop(gone);
    }

    /// A worker has ended, and nobody had told it to.
    fn tell_ending(&self, card: &Card, pid: u32, status: ExitStatus, busy: bool) {
        if card.is_killed() {
            return;
        }
        let task = card.task();
        let script = String::from_utf8_lossy(&task.script);
        let log = &self.shared.log;
        let ending = ending(status);
        // Its END may still lie in the socket: it had answered, and ended as it should.
        let busy = busy && !(status.success() && card.scoreboard.has_answered(card.slot));
        match (busy, status.success()) {
            (true, _) => log.error(format_args!("PHP worker {pid} {ending} while it ran {script}")),
            (false, false) => {
                log.error(format_args!("idle PHP worker {pid} {ending}; its last script was {script}"))
            }
            (false, true) => log.info(format_args!("PHP worker {pid} ended")),
        }
    }

    /// Reads what a worker says that nobody waits for; false when it is done with. What comes then is not for us.
    fn attend(&self, worker: &mut Worker) -> bool {
        let card = worker.card.clone();
        let mut sink = self.shared.unheard(&card);
        while matches!(worker.phase(), Phase::Running | Phase::Background) {
            match worker.read_now(&mut sink) {
                Ok(true) => (),
                Ok(false) => break,
                Err(error) => {
                    worker.give_up();
                    if error.kind() == io::ErrorKind::InvalidData {
                        self.shared
                            .log
                            .error(format_args!("PHP worker {} sent garbage: {error}", card.pid()));
                        card.kill();
                    }
                    return false;
                }
            }
        }
        matches!(worker.phase(), Phase::Running | Phase::Background)
    }

    fn attend_left(&mut self, readable: &[bool]) {
        let now = self.now();
        let left = std::mem::take(&mut self.left);
        for (at, mut worker) in left.into_iter().enumerate() {
            let readable = readable.get(at).copied().unwrap_or(false) || worker.has_behind();
            if !readable || self.attend(&mut worker) {
                self.left.push(worker);
            } else if worker.phase() == Phase::Ready {
                self.shared.release(worker, now);
            } else {
                self.shared.discard(worker, now);
            }
        }
    }

    // ---- waiting ----

    /// Waits for something to do, and takes in what has come; false when the pool is over.
    fn wait(&mut self) -> bool {
        let at_once = self.left.iter().any(|worker| worker.has_behind());
        let timeout = Timespec::try_from(if at_once { Duration::ZERO } else { self.tick() }).ok();
        let mut fds = vec![PollFd::new(self.shared.wake_descriptor(), PollFlags::IN)];
        fds.extend(self.host.iter().map(|host| PollFd::from_borrowed_fd(host.control(), PollFlags::IN)));
        let (errors_at, hosts) = (fds.len(), fds.len() - 1);
        fds.extend(self.errors.iter().map(|errors| PollFd::from_borrowed_fd(errors.pipe(), PollFlags::IN)));
        let left_at = fds.len();
        for worker in &self.left {
            match worker.descriptor() {
                Ok(fd) => fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN)),
                Err(_) => fds.push(PollFd::new(self.shared.wake_descriptor(), PollFlags::empty())),
            }
        }
        // Interrupted or not: each descriptor is looked at by what poll said of it, and the next turn waits again.
        let polled = poll(&mut fds, timeout.as_ref());
        let ready: Vec<bool> = fds.iter().map(|fd| polled.is_ok() && !fd.revents().is_empty()).collect();
        drop(fds);
        self.clock.read();
        if ready[0] {
            let mut count = [0; 8];
            let _ = rustix::io::read(self.shared.wake_descriptor(), &mut count);
        }
        if ready[errors_at..left_at].contains(&true) {
            self.read_errors();
        }
        self.attend_left(&ready[left_at..]);
        hosts == 0 || !ready[1] || self.read_control()
    }

    fn read_errors(&mut self) {
        let log = self.shared.log.clone();
        let last_words = &mut self.last_words;
        self.errors.retain_mut(|errors| {
            errors.read(|line| {
                if last_words.len() + line.len() < LAST_WORDS {
                    last_words.push_str(line);
                    last_words.push('\n');
                }
                log.warn(format_args!("php: {line}"));
            })
        });
    }

    /// How long to wait at most.
    fn tick(&self) -> Duration {
        let settings = &self.shared.settings;
        let times = [settings.request_timeout, settings.queue_timeout, settings.idle_timeout];
        let shortest = times.into_iter().filter(|time| !time.is_zero()).min().unwrap_or(Duration::MAX);
        (shortest / 10).clamp(Duration::from_millis(10), Duration::from_millis(100))
    }
}

/// Takes out idle workers that are to end: all when the pool retires, else those that have been idle for too long and
/// are not kept as spare.
fn retire_idle(state: &mut State, spare: usize, timeout: Duration, now: u64) -> Vec<Box<Worker>> {
    if state.stage != Stage::Serving {
        return state.idle.take_if(|_| true);
    }
    let mut many = state.idle.len().saturating_sub(spare);
    let Some(limit) = now.checked_sub(timeout.as_millis() as u64) else { return Vec::new() };
    let old = state.idle.take_if(|worker| {
        let ends = many > 0 && worker.idle_since <= limit;
        many -= usize::from(ends);
        ends
    });
    state.level = state.level.saturating_sub(old.len());
    old
}

/// How many workers there should be.
fn wanted(state: &State, most: usize) -> usize {
    let needed = (state.live() + state.waiters.len().saturating_sub(state.starting())).min(most);
    match state.stage {
        Stage::Serving => state.level.max(needed),
        Stage::Retiring => needed,
        Stage::Stopping(_) | Stage::Over => 0,
    }
}

/// Free seats for the workers that are missing.
fn free_seats(state: &State, wanted: usize) -> Vec<usize> {
    let missing = wanted.saturating_sub(state.live());
    let free = state.seats().iter().enumerate().filter(|(_, seat)| matches!(seat, Seat::Free));
    free.map(|(slot, _)| slot).take(missing).collect()
}
