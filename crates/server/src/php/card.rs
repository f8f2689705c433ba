//! What is known of a worker without the pool's lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_sys::Process;

use super::scoreboard::Scoreboard;
use crate::request::Request;
use crate::route::{Script, Site};

/// A worker's card: shared by whoever has the worker, its seat in the pool, and the supervisor.
///
/// Times are milliseconds since the pool was made. `since` and `deadline` are written by the worker's holder,
/// `overdue` by the supervisor.
#[derive(Debug)]
pub struct Card {
    /// Its slot in the scoreboard.
    pub slot: u32,
    /// The scoreboard of its host.
    pub scoreboard: Arc<Scoreboard>,
    /// Which of the pool's hosts forked it: 1, 2, ...
    pub generation: u64,
    process: Option<Process>,
    pid: u32,
    /// When it got its request; 0: it has none.
    since: AtomicU64,
    /// When the request is to be over; 0: whenever.
    deadline: AtomicU64,
    overdue: AtomicBool,
    killed: AtomicBool,
    task: Mutex<Task>,
}

/// What a worker does.
#[derive(Debug, Default)]
pub struct Task {
    /// The site's own name; empty if it has none.
    pub site: String,
    /// Host and port that the client asked for.
    pub host: String,
    /// The script's path.
    pub script: Vec<u8>,
}

impl Task {
    /// This request for this script.
    pub fn set(&mut self, site: &Site, request: &Request, script: &Script) {
        self.site.clear();
        self.site.push_str(site.name().unwrap_or_default());
        self.host.clear();
        self.host.push_str(request.authority());
        self.script.clear();
        self.script.extend_from_slice(&script.filename);
    }
}

impl Card {
    /// The card of a worker that has just been forked.
    pub fn new(slot: u32, pid: u32, generation: u64, scoreboard: Arc<Scoreboard>) -> Arc<Card> {
        Arc::new(Card {
            slot,
            scoreboard,
            generation,
            process: Process::open(pid),
            pid,
            since: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            overdue: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            task: Mutex::default(),
        })
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The worker gets a request now, of which `set` says what it is about; it has to be over `limit` milliseconds
    /// later (0: whenever).
    pub fn begin(&self, set: impl FnOnce(&mut Task), now: u64, limit: u64) {
        set(&mut self.task());
        self.deadline.store(if limit == 0 { 0 } else { now + limit }, Ordering::Relaxed);
        self.since.store(now.max(1), Ordering::Release);
    }

    /// The worker has no request any more.
    pub fn end(&self) {
        self.since.store(0, Ordering::Release);
        self.deadline.store(0, Ordering::Relaxed);
    }

    /// When it got its request; `None`: it has none.
    pub fn busy_since(&self) -> Option<u64> {
        Some(self.since.load(Ordering::Acquire)).filter(|since| *since != 0)
    }

    /// Whether it has a request.
    pub fn is_busy(&self) -> bool {
        self.busy_since().is_some()
    }

    /// Its site and script; the last ones if it has none now.
    pub fn task(&self) -> MutexGuard<'_, Task> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has ever read a request.
    pub fn has_received_any(&self) -> bool {
        self.scoreboard.received(self.slot) > 0
    }

    /// Whether its request should be over by now.
    pub fn is_late(&self, now: u64) -> bool {
        let deadline = self.deadline.load(Ordering::Relaxed);
        deadline != 0 && deadline <= now && self.is_busy()
    }

    /// Notes that the worker is killed because it took too long; false if that is known already.
    pub fn set_overdue(&self) -> bool {
        !self.overdue.swap(true, Ordering::AcqRel)
    }

    /// Whether it was killed because it took too long.
    pub fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Acquire)
    }

    /// Ends the process at once.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        // It may have ended by itself: nothing to do then.
        let _ = self.process.as_ref().map(Process::kill);
    }

    /// Whether that was done.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }
}
