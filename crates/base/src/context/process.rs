//! What all rooms share in the process and in an event loop.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use millrace_settings::Plan;
use tokio::sync::Notify;

use super::budget::Budget;
use super::clock::Clock;
use super::log::{AccessBuffer, Log};
use super::pulse::{Pulse, Pulses};
use super::stats::{CounterSlot, Registry};
use super::work::{LoopWork, OpenWork, WorkKind};

/// What all threads of the server share.
#[derive(Debug)]
pub struct Process {
    /// Counters of all threads.
    pub stats: Arc<Registry>,
    /// Both logs.
    pub log: Log,
    /// Memory for connections.
    pub budget: Arc<Budget>,
    /// Whether event loops go on.
    pub pulses: Pulses,
    stage: AtomicU8,
    scripts: AtomicU64,
    /// What a reload is doing.
    reloading: Mutex<Option<String>>,
}

/// The stage of the process's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ProcessStage {
    /// Accepting.
    Running = 0,
    /// SIGTERM has come: finish requests in progress, accept no more.
    Draining = 1,
}

impl Process {
    /// A process whose connections may have `memory` bytes (0: unlimited).
    pub fn new(stats: Arc<Registry>, log: Log, memory: u64) -> Arc<Process> {
        Arc::new(Process {
            stats,
            log,
            budget: Budget::new(memory),
            pulses: Pulses::default(),
            stage: AtomicU8::new(ProcessStage::Running as u8),
            scripts: AtomicU64::new(0),
            reloading: Mutex::new(None),
        })
    }

    /// A script was active: the next request must see its changes to files.
    pub fn script_speaks(&self) {
        self.scripts.fetch_add(1, Ordering::Release);
    }

    /// Number of scripts' activities.
    pub fn scripts_spoken(&self) -> u64 {
        self.scripts.load(Ordering::Acquire)
    }

    /// What a reload is doing; `None`: there is no reload.
    pub fn reloading(&self) -> Option<String> {
        self.reloading.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says what a reload is doing.
    pub fn set_reloading(&self, what: Option<String>) {
        *self.reloading.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// The stage of the process's life.
    pub fn stage(&self) -> ProcessStage {
        if self.stage.load(Ordering::Relaxed) == ProcessStage::Running as u8 {
            ProcessStage::Running
        } else {
            ProcessStage::Draining
        }
    }

    /// Sets the stage.
    pub fn set_stage(&self, stage: ProcessStage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }
}

/// A value that a reload replaces as a whole; threads notice by its generation.
#[derive(Debug)]
pub struct Swapped<T: ?Sized> {
    value: Mutex<Arc<T>>,
    generation: AtomicU64,
}

impl<T: ?Sized> Swapped<T> {
    /// With `value` in force.
    pub fn new(value: Arc<T>) -> Arc<Swapped<T>> {
        Arc::new(Swapped { value: Mutex::new(value), generation: AtomicU64::new(0) })
    }

    /// The value in force.
    pub fn get(&self) -> Arc<T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another value in force; each thread takes it before its next request.
    pub fn replace(&self, value: Arc<T>) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = value;
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// A number that changes with each value.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

/// The configuration as one thread refers to it: reference counting without touching other threads' counters.
pub type SharedPlan = Rc<Arc<Plan>>;

/// An event loop's part for all rooms: clock, counters, lines of the access log, plan in force. It is passed down the
/// path of a request inside each room's own part; never crosses to another thread.
#[derive(Debug)]
pub struct Context {
    /// 0, 1, ...
    pub index: usize,
    /// Number of event loops.
    pub loops: usize,
    /// What all threads share.
    pub process: Arc<Process>,
    /// The clock.
    pub clock: Clock,
    /// This thread's counters.
    pub stats: Arc<CounterSlot>,
    /// This thread's lines of the access log.
    pub access: AccessBuffer,
    /// Whether it goes on.
    pub pulse: Arc<Pulse>,
    /// Wakes what waits for the loop's next round: it comes round a few times a second.
    pub rounds: Notify,
    /// What is in progress.
    pub work: Rc<LoopWork>,
    plan: RefCell<SharedPlan>,
}

impl Context {
    /// For thread `index` of `loops`.
    pub fn new(index: usize, loops: usize, process: Arc<Process>, plan: Arc<Plan>) -> Rc<Context> {
        Rc::new(Context {
            index,
            loops,
            clock: Clock::default(),
            stats: process.stats.slot(index),
            access: AccessBuffer::default(),
            pulse: process.pulses.join(),
            rounds: Notify::new(),
            work: Rc::default(),
            plan: RefCell::new(Rc::new(plan)),
            process,
        })
    }

    /// Some work begins; it is in progress until the value is dropped.
    pub fn begin(&self, kind: WorkKind) -> OpenWork {
        self.work.begin(kind)
    }

    /// The configuration in force, counted without touching other threads' counters.
    pub fn plan(&self) -> SharedPlan {
        self.plan.borrow().clone()
    }

    /// Puts another configuration in force.
    pub fn set_plan(&self, plan: Arc<Plan>) {
        *self.plan.borrow_mut() = Rc::new(plan);
    }
}
