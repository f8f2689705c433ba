//! What is known about a worker without the pool's lock.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millrace_pages::visitors::Visit;
use millrace_sys::{Process, Signal};
use rustix::net::{Shutdown, shutdown};
use tokio::sync::Notify;

use super::crashes::Print;
use super::pool::pools::PoolId;
use super::scoreboard::Scoreboard;
use millrace_base::message::Request;
use millrace_base::message::request::RunEnd;
use millrace_base::site::{Script, Site};

/// A worker's handle: shared by the worker's holder, its seat in the pool, and the supervisor.
///
/// Times are milliseconds since the pool was created. The worker's holder writes `sequence`, `since` and `deadline`,
/// the supervisor `overdue` and `slow`. The supervisor reads `sequence` first: if the other fields then say that the
/// time is up, that is true of this request or of an earlier one, never of a later one.
#[derive(Debug)]
pub struct WorkerHandle {
    /// Its slot in the scoreboard.
    pub slot: u32,
    /// The scoreboard of its host.
    pub scoreboard: Arc<Scoreboard>,
    /// Which of the pool's hosts forked it: 1, 2, ...
    pub generation: u64,
    process: Option<Process>,
    /// A duplicate of the server's end of its socket, to shut it down whatever reads from it.
    socket: Option<OwnedFd>,
    pid: u32,
    /// When it got its request; 0: no request.
    since: AtomicU64,
    /// When the request must be complete; 0: no limit, or the clock stands.
    deadline: AtomicU64,
    /// How long it may take; 0: no limit.
    allowed: AtomicU64,
    /// How long it may take if its script asks for that; 0: no limit.
    most: AtomicU64,
    /// Its response is complete, and its script goes on.
    behind: AtomicBool,
    /// The number of its request, or of its last one.
    sequence: AtomicU64,
    /// The number of the last request that reached its time limit; 0: none.
    overdue: AtomicU64,
    /// The number of the last request that was logged as slow; 0: none.
    slow: AtomicU64,
    /// The pool of its request, or of its last one.
    pool: AtomicUsize,
    killed: AtomicBool,
    /// As the supervisor last measured them.
    resident: AtomicU64,
    own: AtomicU64,
    /// It is to be replaced when it is free, because it uses too much memory.
    outgrown: AtomicBool,
    booted: AtomicBool,
    /// Its end is known, and requests that wait for that have been told.
    ended: AtomicBool,
    end: Notify,
    task: Mutex<Task>,
}

/// How long a script may take, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimit {
    /// If it does not ask for more; 0: no limit.
    pub usual: u64,
    /// If it asks for more (`set_time_limit()`); 0: no limit.
    pub most: u64,
}

/// What a worker runs.
#[derive(Debug, Default)]
pub struct Task {
    /// The site's own name; empty if it has none.
    pub site: String,
    /// Host and port of the request.
    pub host: String,
    /// The request's method.
    pub method: String,
    /// Path and query of the request.
    pub target: Vec<u8>,
    /// The script's path.
    pub script: Vec<u8>,
    /// The client's address; `None`: it used a Unix socket.
    pub client: Option<IpAddr>,
    /// Digests of the request, if crashes of its script are watched.
    pub print: Option<Print>,
    /// Receives what the script reports about the visitor.
    pub visit: Option<Arc<Visit>>,
    /// Learns how the run has ended.
    pub end: Option<Arc<dyn RunEnd>>,
}

impl Task {
    /// Sets this request for this script.
    pub fn set(&mut self, site: &Site, request: &Request, script: &Script) {
        self.site.clear();
        self.site.push_str(site.name().unwrap_or_default());
        self.host.clear();
        self.host.push_str(request.authority());
        self.method.clear();
        self.method.push_str(request.head.method());
        self.target.clear();
        self.target.extend_from_slice(request.head.path_query());
        self.script.clear();
        self.script.extend_from_slice(&script.filename);
        self.client = request.ends.client_ip();
        self.print = None;
        self.visit.clone_from(&request.found.visit);
        self.end = request.run.as_ref().map(|run| run.end.clone());
    }

    /// The target without its query.
    pub fn path(&self) -> &[u8] {
        self.target.split(|byte| *byte == b'?').next().unwrap_or_default()
    }
}

/// `GET example.org/path?query (/srv/site/index.php)`
impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes| String::from_utf8_lossy(bytes).replace(char::is_control, "?");
        write!(f, "{} {}{} ({})", self.method, self.host, text(&self.target), text(&self.script))
    }
}

impl WorkerHandle {
    /// The handle of a newly forked worker; `socket` is the server's end.
    pub fn new(
        slot: u32,
        pid: u32,
        generation: u64,
        scoreboard: Arc<Scoreboard>,
        socket: Option<OwnedFd>,
    ) -> Arc<WorkerHandle> {
        Arc::new(WorkerHandle {
            slot,
            scoreboard,
            generation,
            process: Process::open(pid),
            socket,
            pid,
            since: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            allowed: AtomicU64::new(0),
            most: AtomicU64::new(0),
            behind: AtomicBool::new(false),
            sequence: AtomicU64::new(0),
            overdue: AtomicU64::new(0),
            slow: AtomicU64::new(0),
            pool: AtomicUsize::new(0),
            killed: AtomicBool::new(false),
            resident: AtomicU64::new(0),
            own: AtomicU64::new(0),
            outgrown: AtomicBool::new(false),
            booted: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            end: Notify::new(),
            task: Mutex::default(),
        })
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The worker gets a request now, described by `set`, with this time limit.
    pub fn begin(&self, set: impl FnOnce(&mut Task), now: u64, limit: TimeLimit) {
        set(&mut self.task());
        self.behind.store(false, Ordering::Relaxed);
        self.allow(now, limit);
        self.since.store(now.max(1), Ordering::Release);
    }

    /// Its response is complete; its script goes on with this time limit.
    pub fn go_behind(&self, now: u64, limit: TimeLimit) {
        self.behind.store(true, Ordering::Relaxed);
        self.allow(now, limit);
    }

    /// Whether its response is complete, and its script goes on.
    fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Relaxed)
    }

    /// Its time begins now.
    fn allow(&self, now: u64, limit: TimeLimit) {
        self.allowed.store(limit.usual, Ordering::Relaxed);
        self.most.store(limit.most, Ordering::Relaxed);
        self.set_clock(Some(now));
    }

    /// Its time begins anew now, or stands (`None`): its client is the one that takes time.
    pub fn set_clock(&self, now: Option<u64>) {
        let allowed = self.allowed.load(Ordering::Relaxed);
        let deadline = now.filter(|_| allowed != 0).map_or(0, |now| now + allowed);
        self.deadline.store(deadline, Ordering::Relaxed);
    }

    /// Its time begins anew if it stands.
    pub fn start_clock(&self, now: u64) {
        if self.deadline.load(Ordering::Relaxed) == 0 {
            self.set_clock(Some(now));
        }
    }

    /// Age at which four fifths of its time are over, milliseconds; `None`: no limit.
    pub fn nearly_late(&self) -> Option<u64> {
        let (began, limit) = self.clock()?;
        Some(limit - (limit - began) / 5)
    }

    /// It runs for this pool from now on.
    pub fn set_pool(&self, pool: PoolId) {
        self.pool.store(pool.index(), Ordering::Relaxed);
    }

    /// The position of the pool of its request, or of its last one.
    pub fn pool(&self) -> usize {
        self.pool.load(Ordering::Relaxed)
    }

    /// The worker has no request any more.
    pub fn end(&self) {
        self.since.store(0, Ordering::Release);
        self.deadline.store(0, Ordering::Relaxed);
    }

    /// When it got its request; `None`: no request.
    pub fn busy_since(&self) -> Option<u64> {
        Some(self.since.load(Ordering::Acquire)).filter(|since| *since != 0)
    }

    /// Whether it has a request.
    pub fn is_busy(&self) -> bool {
        self.busy_since().is_some()
    }

    /// Its site and script; the last ones if it has no request now.
    pub fn task(&self) -> MutexGuard<'_, Task> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has an image of a boot, in which requests can begin.
    pub fn has_image(&self) -> bool {
        self.scoreboard.has_image(self.slot)
    }

    /// How many images it has made, and those before it in its slot.
    pub fn images_made(&self) -> u64 {
        self.scoreboard.images_made(self.slot)
    }

    /// Requests that it has read.
    pub fn requests(&self) -> u64 {
        self.scoreboard.received(self.slot)
    }

    /// Resident memory, bytes; 0: unknown.
    pub fn memory(&self) -> u64 {
        match self.resident.load(Ordering::Relaxed) {
            0 => self.scoreboard.rss(self.slot),
            seen => seen,
        }
    }

    /// Private memory, bytes; 0: unknown.
    pub fn own_memory(&self) -> u64 {
        self.own.load(Ordering::Relaxed)
    }

    /// Stores its memory in bytes.
    pub fn set_memory(&self, resident: u64, own: u64) {
        self.resident.store(resident, Ordering::Relaxed);
        self.own.store(own, Ordering::Relaxed);
    }

    /// Marks it for replacement when it is free; false if it was marked already.
    pub fn set_outgrown(&self) -> bool {
        !self.outgrown.swap(true, Ordering::Relaxed)
    }

    /// Whether it is to be replaced.
    pub fn is_outgrown(&self) -> bool {
        self.outgrown.load(Ordering::Relaxed)
    }

    /// Whether it has ever read a request, or its script has reached its loop.
    pub fn has_worked(&self) -> bool {
        self.scoreboard.received(self.slot) > 0 || self.booted.load(Ordering::Acquire)
    }

    /// Its script takes requests from now on.
    pub fn set_booted(&self) {
        self.booted.store(true, Ordering::Release);
    }

    /// The number of its request, or of its last one.
    pub fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    /// Sets the number of the request that it gets.
    pub fn set_sequence(&self, sequence: u64) {
        self.sequence.store(sequence, Ordering::Release);
    }

    /// Age at which its request is late, milliseconds; `None`: no limit.
    pub fn limit(&self) -> Option<u64> {
        self.clock().map(|(_, limit)| limit)
    }

    /// Ages at which its time has begun and at which its request is late; `None`: no limit, or the clock stands.
    fn clock(&self) -> Option<(u64, u64)> {
        let (deadline, allowed) =
            (self.deadline.load(Ordering::Relaxed), self.allowed.load(Ordering::Relaxed));
        let usual = deadline.checked_sub(self.busy_since()?).filter(|_| deadline != 0)?;
        let began = usual.saturating_sub(allowed);
        match (self.asked(), self.most.load(Ordering::Relaxed)) {
            (None, _) => Some((began, usual)),
            (Some(u64::MAX), 0) => None,
            (Some(asked), 0) => Some((began, usual.max(asked))),
            (Some(asked), most) => Some((began, usual.max(asked.min(began + most)))),
        }
    }

    /// The age to which its script has extended its time.
    fn asked(&self) -> Option<u64> {
        self.scoreboard.asked(self.slot, self.sequence())
    }

    /// The setting that limits its time.
    pub fn limited_by(&self) -> &'static str {
        match (self.asked(), self.is_behind()) {
            (Some(_), _) => "php.time_limit_max",
            (None, true) => "php.background_timeout",
            (None, false) => "php.request_timeout",
        }
    }

    /// Tells it that its request has reached its time limit. A worker that only waits for a signal may need several.
    pub fn terminate(&self, sequence: u64) {
        self.overdue.store(sequence, Ordering::Release);
        self.scoreboard.terminate(self.slot, sequence);
        self.urge();
    }

    /// Makes it check whether its request has reached its time limit.
    pub fn urge(&self) {
        let _ = self.process.as_ref().map(|process| process.signal(Signal::Urgent));
    }

    /// Whether its request, or its last one, has reached its time limit.
    pub fn is_overdue(&self) -> bool {
        let overdue = self.overdue.load(Ordering::Acquire);
        overdue != 0 && overdue == self.sequence()
    }

    /// Notes that this request was logged as slow.
    pub fn set_slow(&self, sequence: u64) {
        self.slow.store(sequence, Ordering::Relaxed);
    }

    /// Whether its request, or its last one, was logged as slow.
    pub fn is_slow(&self) -> bool {
        let slow = self.slow.load(Ordering::Relaxed);
        slow != 0 && slow == self.sequence()
    }

    /// Ends the process at once.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        // It may have ended by itself: then there is nothing to do.
        let _ = self.process.as_ref().map(Process::kill);
        self.end_socket();
    }

    /// The process has ended. Its last frames can still be read, and are followed by the end of file, even if another
    /// process holds its end of the socket: a child that a script has forked.
    pub fn end_socket(&self) {
        if let Some(socket) = &self.socket {
            // In most cases the socket has no other end any more.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// The supervisor knows how the process ended, and has acted on it.
    pub fn tell_end(&self) {
        self.ended.store(true, Ordering::Release);
        self.end.notify_waiters();
    }

    /// Waits for that, for `most` at most: its host may be dead, too.
    pub async fn wait_for_end(&self, most: Duration) {
        let mut told = std::pin::pin!(self.end.notified());
        told.as_mut().enable();
        if !self.ended.load(Ordering::Acquire) {
            let _ = tokio::time::timeout(most, told).await;
        }
    }

    /// Whether [`WorkerHandle::kill`] was called.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }
}
