//! What all rooms share of the process, and what an event loop has for all of them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use millrace_settings::Plan;

use super::budget::Budget;
use super::clock::Clock;
use super::log::{AccessBuffer, Log};
use super::stats::{CounterSlot, Registry};

/// What all threads of the server share.
#[derive(Debug)]
pub struct Process {
    /// Counters of all threads.
    pub stats: Arc<Registry>,
    /// Both logs.
    pub log: Log,
    /// Memory for connections.
    pub budget: Arc<Budget>,
    stage: AtomicU8,
    scripts: AtomicU64,
}

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ProcessStage {
    /// Accepting.
    Running = 0,
    /// SIGTERM came: finish what runs, accept nothing.
    Draining = 1,
}

impl Process {
    /// A process whose connections may have `memory` bytes (0: no bound).
    pub fn new(stats: Arc<Registry>, log: Log, memory: u64) -> Arc<Process> {
        Arc::new(Process {
            stats,
            log,
            budget: Budget::new(memory),
            stage: AtomicU8::new(ProcessStage::Running as u8),
            scripts: AtomicU64::new(0),
        })
    }

    /// A script has said something: what it has done to files by then must be seen by the next request.
    pub fn script_speaks(&self) {
        self.scripts.fetch_add(1, Ordering::Release);
    }

    /// How often that was so.
    pub fn scripts_spoken(&self) -> u64 {
        self.scripts.load(Ordering::Acquire)
    }

    /// Where the process is in its life.
    pub fn stage(&self) -> ProcessStage {
        if self.stage.load(Ordering::Relaxed) == ProcessStage::Running as u8 {
            ProcessStage::Running
        } else {
            ProcessStage::Draining
        }
    }

    /// The process is now at this stage.
    pub fn set_stage(&self, stage: ProcessStage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }
}

/// A value that a reload swaps whole; threads notice by its generation.
#[derive(Debug)]
pub struct Swapped<T: ?Sized> {
    value: Mutex<Arc<T>>,
    generation: AtomicU64,
}

impl<T: ?Sized> Swapped<T> {
    /// `value` is in force.
    pub fn new(value: Arc<T>) -> Arc<Swapped<T>> {
        Arc::new(Swapped { value: Mutex::new(value), generation: AtomicU64::new(0) })
    }

    /// What is in force.
    pub fn get(&self) -> Arc<T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another value in force; each thread takes it over before its next request.
    pub fn replace(&self, value: Arc<T>) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = value;
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Another number with each value.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

/// The configuration as one thread refers to it: counted without touching what other threads count.
pub type SharedPlan = Rc<Arc<Plan>>;

/// What an event loop has for all rooms: the time, its counters, its lines of the access log, the plan in force. Handed down the
/// path of a request inside of each room's own part; never crosses to another thread.
#[derive(Debug)]
pub struct Context {
    /// 0, 1, ...
    pub index: usize,
    /// How many event loops share what there is one of a process.
    pub loops: usize,
    /// What all threads share.
    pub process: Arc<Process>,
    /// The time.
    pub clock: Clock,
    /// This thread's counters.
    pub stats: Arc<CounterSlot>,
    /// This thread's lines of the access log.
    pub access: AccessBuffer,
    plan: RefCell<SharedPlan>,
}

impl Context {
    /// Of thread `index` of so many `loops`.
    pub fn new(index: usize, loops: usize, process: Arc<Process>, plan: Arc<Plan>) -> Rc<Context> {
        Rc::new(Context {
            index,
            loops,
            clock: Clock::default(),
            stats: process.stats.slot(index),
            access: AccessBuffer::default(),
            plan: RefCell::new(Rc::new(plan)),
            process,
        })
    }

    /// The configuration in force, counted without touching what other threads count.
    pub fn plan(&self) -> SharedPlan {
        self.plan.borrow().clone()
    }

    /// Another configuration is in force.
    pub fn set_plan(&self, plan: Arc<Plan>) {
        *self.plan.borrow_mut() = Rc::new(plan);
    }
}
