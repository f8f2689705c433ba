//! Limits the damage of crashes: refuses the request that kills workers, not its page.
//!
//! A request that has killed [`marks::KILLS`] workers gets a 500 response without being run for `php.crash_pause`.
//! Other requests for its page - a script and a path - still run, but are *suspect* for that long, because an
//! attacker can vary each request. For suspect requests:
//!
//! - a few run at a time, and fewer still of those that resemble the killing requests and come from the same source
//!   ([`line::SuspectClass`]);
//! - each worker that dies holds its place for a moment, which limits how many workers are started again per second;
//! - Millrace runs none of them twice;
//! - a request that has been served successfully since, and comes again, runs like any other.
//!
//! Resemblance alone never gets a request refused: a request that resembles the killing ones waits behind the others,
//! and runs.
//!
//! [`marks::Marks`] and [`line::TrialQueue`] are values without clock and lock; [`Ban`] holds them for event loops and
//! supervisor. As long as nothing has crashed, an event loop reads one flag.

pub mod line;
pub mod marks;
pub mod print;

use std::hash::RandomState;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::worker_handle::Task;
use millrace_base::message::Request;
use millrace_base::site::Script;

pub use line::SuspectClass;
use line::{TrialQueue, TrialTurn};
use marks::{CrashVerdict, Marks};
pub use print::Print;

/// What is known about requests whose workers died; behind a lock.
#[derive(Debug)]
pub struct Ban {
    /// Keys of the digests: a client can't craft a request that matches another's digest.
    keys: RandomState,
    epoch: Instant,
    inner: Mutex<BanInner>,
    /// Whether a worker has crashed lately.
    any: AtomicBool,
}

#[derive(Debug)]
struct BanInner {
    marks: Marks,
    line: TrialQueue,
}

/// A request that may run while crashes are watched. Belongs to the worker that runs it.
#[derive(Debug)]
pub struct Pass {
    ban: Arc<Ban>,
    print: Print,
    class: Option<SuspectClass>,
    lost: bool,
}

/// Why a request may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// It has killed workers.
    Killer,
    /// Too many suspect requests wait, or it has waited too long.
    Crowd,
    /// Its client has gone.
    Gone,
}

/// The consequences of a worker's death.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blame {
    /// How long its request is not run, milliseconds.
    pub request: Option<u64>,
    /// How long its page is suspect, milliseconds, if it was not before.
    pub page: Option<u64>,
}

impl Ban {
    /// Without any crash. `pause`: how long a request that kills is not run, zero for never; `workers`: number of
    /// workers in the pool; times count from `epoch`.
    pub fn new(pause: Duration, workers: usize, epoch: Instant) -> Arc<Ban> {
        let inner = BanInner { marks: Marks::new(pause.as_millis() as u64), line: TrialQueue::new(workers) };
        Arc::new(Ban {
            keys: RandomState::new(),
            epoch,
            inner: Mutex::new(inner),
            any: AtomicBool::new(false),
        })
    }

    /// Whether this request may run; it may wait for others, for `patience` at most. `None`: nothing is known against
    /// its script.
    ///
    /// # Errors
    /// The request may not run.
    pub async fn enter(
        self: &Arc<Self>,
        request: &Request,
        script: &Script,
        patience: Duration,
        gone: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Option<Pass>, Denied> {
        if !self.any.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (print, class, heat) = {
            let now = self.now();
            let mut inner = self.lock();
            if !inner.marks.is_any_left(now) {
                self.any.store(false, Ordering::Relaxed);
                return Ok(None);
            }
            if !inner.marks.knows(Print::script(&self.keys, &script.filename)) {
                return Ok(None);
            }
            let print = Print::of_request(&self.keys, request, script);
            match inner.marks.verdict(&print, now) {
                CrashVerdict::Refuse => return Err(Denied::Killer),
                CrashVerdict::Free => return Ok(Some(self.pass(print, None))),
                CrashVerdict::Suspect(class, heat) => (print, class, heat),
            }
        };
        Box::pin(self.wait(class, heat, patience, gone)).await?;
        Ok(Some(self.pass(print, Some(class))))
    }

    /// Waits until a suspect may run.
    async fn wait(
        &self,
        class: SuspectClass,
        heat: u32,
        patience: Duration,
        mut gone: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), Denied> {
        let wake = Arc::new(Notify::new());
        let number = self.lock().line.queue(class, heat, wake.clone());
        let place = TrialPlace { ban: self, number };
        let mut enough = std::pin::pin!(tokio::time::sleep(patience));
        loop {
            let turn = self.lock().line.turn(number, self.now());
            let sleep = match turn {
                TrialTurn::Go => {
                    std::mem::forget(place);
                    return Ok(());
                }
                TrialTurn::Out => return Err(Denied::Crowd),
                TrialTurn::Wait(sleep) => sleep,
            };
            let held = async {
                match sleep {
                    Some(time) => tokio::time::sleep(Duration::from_millis(time)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = wake.notified() => (),
                () = held => (),
                () = &mut enough => return Err(Denied::Crowd),
                () = &mut gone => return Err(Denied::Gone),
            }
        }
    }

    /// A worker died from its task.
    pub fn died(&self, task: &Task, now: u64) -> Blame {
        let print = match &task.print {
            Some(print) => print.clone(),
            None => Print::of_task(&self.keys, task),
        };
        let blame = self.lock().marks.died(&print, now);
        if let Some(blame) = blame {
            self.any.store(true, Ordering::Relaxed);
            return blame;
        }
        Blame::default()
    }

    fn pass(self: &Arc<Self>, print: Print, class: Option<SuspectClass>) -> Pass {
        Pass { ban: self.clone(), print, class, lost: false }
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_millis() as u64
    }

    fn lock(&self) -> MutexGuard<'_, BanInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue; dropping it leaves the queue.
struct TrialPlace<'a> {
    ban: &'a Ban,
    number: u64,
}

impl Drop for TrialPlace<'_> {
    fn drop(&mut self) {
        self.ban.lock().line.give_up(self.number);
    }
}

impl Pass {
    /// The digests of its request.
    pub fn print(&self) -> &Print {
        &self.print
    }

    /// Whether its request is suspect. Suspect requests are not run twice.
    pub fn is_suspect(&self) -> bool {
        self.class.is_some()
    }

    /// The request has killed its worker, or is about to.
    pub fn set_lost(&mut self) {
        self.lost = true;
    }

    /// The request has been served, and the worker lives.
    pub fn ended_well(self) {
        let now = self.ban.now();
        self.ban.lock().marks.ended_well(&self.print, now);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(class) = self.class {
            let now = self.ban.now();
            self.ban.lock().line.leave(class, self.lost.then_some(now));
        }
    }
}

#[cfg(test)]
mod tests;
