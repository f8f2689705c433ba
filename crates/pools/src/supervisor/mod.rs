//! The thread of a pool: only it talks to the host, and it does everything that depends on time.
//!
//! Each turn: look at the state under the lock and decide; act; wait for the control socket, the host's standard
//! error, workers without a client, a wake-up, or the next time at which something may be due.
//!
//! - here: the thread, its turns and its waiting;
//! - [`host_life`]: the host's start, messages, loss and restart;
//! - [`workers`]: workers are forked, end, and are read while they have no client;
//! - [`boots`]: the boots of persistent workers;
//! - [`renew`]: another host takes over;
//! - [`limits`]: slow requests and time limits;
//! - [`memory`]: the workers' memory, and how many workers may run;
//! - [`observe`]: how many requests should run at once;
//! - [`insight`]: what the workers do right now, for `millrace doctor`.

mod boots;
mod host_life;
mod insight;
mod limits;
mod memory;
pub mod observe;
mod renew;
mod workers;

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use limits::SlowRequest;

use super::host::{Errors, Host};
use super::pool::growth::{free_seats, retire_idle, wanted};
use super::pool::{Seat, ServiceStage, WorkersShared};
use super::start_error::PhpStartError;
use super::worker::Worker;
use super::worker_handle::WorkerHandle;
use millrace_base::context::Clock;

/// Time for a host to end before it is killed.
pub const HOST_END: Duration = Duration::from_secs(5);
/// Time for PHP to start.
const HOST_START: Duration = Duration::from_secs(60);
/// Time for the fork of a worker before the host counts as hung, milliseconds.
const FORK_MS: u64 = 10_000;
/// Time for a closed worker to end before it is killed, milliseconds.
pub const LEAVING_MS: u64 = 10_000;
/// The same for a worker that was lost.
pub const LOST_MS: u64 = 500;
/// How often the supervisor looks for the injected files; after a failure, it tries again later.
const MEND_MS: u64 = 1_000;
const MEND_AGAIN_MS: u64 = 60_000;

/// Starts the thread; returns when PHP is up.
///
/// # Errors
/// PHP did not start: the reason, and what to do. The thread has ended then.
pub fn start(shared: Arc<WorkersShared>) -> Result<(), PhpStartError> {
    let (tell, told) = sync_channel(1);
    let supervisor = Supervisor::new(shared, tell);
    std::thread::Builder::new()
        .name("php-pool".to_owned())
        .spawn(move || supervisor.run())
        .map_err(PhpStartError::Thread)?;
    told.recv().unwrap_or(Err(PhpStartError::ThreadEnded))
}

struct Supervisor {
    shared: Arc<WorkersShared>,
    clock: Clock,
    /// Receives the result of the first start.
    tell: Option<SyncSender<Result<(), PhpStartError>>>,
    host: Option<Host>,
    errors: Vec<Errors>,
    /// The first lines of its standard error since the last start of a host.
    last_words: String,
    /// A host that will take over.
    next: Option<renew::NextHost>,
    /// Hosts that were replaced and have not ended.
    fading: Vec<renew::Fading>,
    /// Workers that have not finished and have no client.
    left: Vec<Box<Worker>>,
    /// Handles of workers of earlier hosts.
    orphans: Vec<Arc<WorkerHandle>>,
    /// Handles of earlier hosts' workers that are closed, but whose end the host has not reported yet; and since when,
    /// milliseconds.
    departed: Vec<(u64, Arc<WorkerHandle>)>,
    /// The kernel's number of processes killed because memory ran out, when it was last read.
    oom_kills: Option<u64>,
    /// Slow requests.
    slow: Vec<SlowRequest>,
    /// Number of failed hosts in a row.
    failed_hosts: u32,
    /// Earliest time of the next host's start, milliseconds.
    launch_at: u64,
    /// Earliest time of the next host that takes over because opcache wants to restart, milliseconds.
    replace_at: u64,
    /// When [`workers`] last looked for workers that wait for their own pool, milliseconds.
    helped: u64,
    /// When it looks for the injected files again, milliseconds.
    mend_at: u64,
    memory: memory::MemoryWatch,
    message: Vec<u8>,
    observed: observe::Observed,
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = "the PHP supervisor thread panicked: PHP requests fail; restart the server";
            self.shared.log.error(format_args!("{text}"));
        }
        self.shared.set_over();
    }
}

/// The actions that one look at the state has found necessary.
#[derive(Default)]
struct Chores {
    slow: Vec<Arc<WorkerHandle>>,
    kill: Vec<Arc<WorkerHandle>>,
    discard: Vec<Box<Worker>>,
    spawn: Vec<usize>,
    hung: bool,
    over: bool,
}

impl Supervisor {
    fn new(shared: Arc<WorkersShared>, tell: SyncSender<Result<(), PhpStartError>>) -> Supervisor {
        Supervisor {
            shared,
            clock: Clock::default(),
            tell: Some(tell),
            host: None,
            errors: Vec::new(),
            last_words: String::new(),
            next: None,
            fading: Vec::new(),
            left: Vec::new(),
            orphans: Vec::new(),
            departed: Vec::new(),
            oom_kills: workers::oom_kills(),
            slow: Vec::new(),
            failed_hosts: 0,
            launch_at: 0,
            replace_at: 0,
            helped: 0,
            mend_at: 0,
            memory: memory::MemoryWatch::default(),
            message: Vec::new(),
            observed: observe::Observed::default(),
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
        self.end_others();
        self.shared.injected.remove();
    }

    fn now(&self) -> u64 {
        self.shared.since_epoch(self.clock.now())
    }

    /// Does everything that is due; false when the pool is over.
    fn turn(&mut self) -> bool {
        let due = self.host.is_none() && self.launch_at <= self.now() && self.shared.lock().needs_host();
        if due && !self.launch() {
            return false;
        }
        if self.host.as_mut().is_some_and(|host| host.ended().is_some()) {
            // Its control socket shows this, too, unless another process has inherited it. Its last messages are read.
            if !self.read_control() || !self.lose_host("ended") {
                return false;
            }
        }
        self.renew();
        self.mend_injected();
        self.host.iter().for_each(Host::go_on);
        let chores = self.look();
        let now = self.now();
        self.see_to_slow(&chores.slow);
        chores.kill.iter().for_each(|handle| handle.kill());
        for worker in chores.discard {
            self.shared.discard(worker, now);
        }
        if chores.hung {
            return self.lose_host("does not respond");
        }
        self.spawn(chores.spawn);
        self.help_stuck();
        self.weigh();
        self.observe();
        self.look_into_php();
        !chores.over
    }

    /// Writes the injected files again if they have vanished: without them no page of WordPress is served.
    fn mend_injected(&mut self) {
        let now = self.now();
        if now < self.mend_at {
            return;
        }
        self.mend_at = now + MEND_MS;
        let directory = self.shared.injected.directory().display();
        match self.shared.injected.mend() {
            Ok(false) => (),
            Ok(true) => self.shared.log.warn(format_args!(
                "PHP files of Millrace had vanished from {directory}, and are written again: something removes files there"
            )),
            Err(error) => {
                self.mend_at = now + MEND_AGAIN_MS;
                self.shared.log.error(format_args!(
                    "PHP files of Millrace have vanished from {directory} and can't be written again ({error}): WordPress gets \
                     503; restart the server"
                ));
            }
        }
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
        let killing = matches!(state.stage, ServiceStage::Stopping(until) if until <= now);
        let departed = self.orphans.extract_if(.., |handle| Arc::strong_count(handle) == 1);
        self.departed.extend(departed.map(|handle| (now, handle)));
        self.departed.retain(|(since, _)| since + LEAVING_MS > now);
        for handle in &self.orphans {
            self.judge(handle, killing, &mut chores);
        }
        for seat in state.seats() {
            match seat {
                Seat::Live(handle) | Seat::Booting(handle) => self.judge(handle, killing, &mut chores),
                Seat::Leaving(handle, until) if *until <= now => chores.kill.push(handle.clone()),
                Seat::Starting(_, since) if since + FORK_MS <= now => chores.hung = true,
                _ => (),
            }
        }
        let stopping = matches!(state.stage, ServiceStage::Stopping(_));
        let refused = state.pools.take_late(if stopping { u64::MAX } else { now });
        let retiring = state.stage != ServiceStage::Serving;
        chores.discard =
            retire_idle(&mut state, settings.workers_spare, settings.idle_timeout, now, shared.lowers());
        if let Some(host) = self.host.as_ref().filter(|_| state.started.is_none()) {
            chores.hung = self.clock.now().saturating_duration_since(host.since) > HOST_START;
        }
        if self.host.is_some() && state.started.is_some() && state.spawn_at <= now {
            chores.spawn = free_seats(&state, wanted(&state, shared.lowers()));
        }
        let busy = state.live() > chores.discard.len() || !self.left.is_empty() || !self.orphans.is_empty();
        let more =
            state.pools.waiting() > 0 || !(state.dropped || matches!(state.stage, ServiceStage::Stopping(_)));
        chores.over = retiring && !busy && !more;
        drop(state);
        drop(refused);
        chores
    }

    /// Waits for an event and handles it; false when the pool is over.
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
        let others_at = fds.len();
        fds.extend(self.other_hosts());
        // If poll was interrupted, the next turn waits again.
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
        self.attend_left(&ready[left_at..others_at]);
        if ready[others_at..].contains(&true) {
            self.hear_others();
        }
        hosts == 0 || !ready[1] || self.read_control()
    }

    /// Maximum time to wait.
    fn tick(&self) -> Duration {
        let settings = &self.shared.settings;
        let times =
            settings.pools.iter().flat_map(|settings| [settings.request_timeout, settings.queue_timeout]);
        let shortest = times
            .chain([settings.idle_timeout, settings.terminate_grace, settings.slow_log])
            .chain([settings.background_timeout])
            .filter(|time| !time.is_zero())
            .min()
            .unwrap_or(Duration::MAX);
        (shortest / 10).clamp(Duration::from_millis(10), Duration::from_millis(100))
    }
}
