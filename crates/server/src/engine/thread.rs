//! What an event loop owns, and what all of them share.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use millrace_settings::Plan;

use super::clock::Clock;
use super::deadlines::Deadlines;
use crate::accept::{Budget, Exit, Listener};
use crate::acme::Acme;
use crate::cache::Cache;
use crate::files;
use crate::log::{AccessBuffer, Log};
use crate::php;
use crate::protocol::{Buffers, Flooders};
use crate::request::Uploads;
use crate::route::{Hosts, Site};
use crate::stats;
use crate::tls::{Handshakes, Terms};

/// What a [`Plan`] becomes when it runs. Swapped whole on a reload.
#[derive(Debug)]
pub struct Setup {
    /// The configuration.
    pub plan: Plan,
    /// The sites in the plan's order, each with its PHP pool.
    pub sites: Vec<Arc<Site>>,
    /// The terms of encrypted connections; `None`: there are none.
    pub tls: Option<Terms>,
    hosts: Hosts,
}

/// The set-up as one thread refers to it: counted without touching what other threads count.
pub type SharedSetup = Rc<Arc<Setup>>;

impl Setup {
    /// A plan with its sites, which are in the plan's order.
    pub fn new(plan: Plan, sites: Vec<Arc<Site>>) -> Arc<Setup> {
        Setup::encrypting(plan, sites, None)
    }

    /// The same with the terms of encrypted connections.
    pub fn encrypting(plan: Plan, sites: Vec<Arc<Site>>, tls: Option<Terms>) -> Arc<Setup> {
        Arc::new(Setup { hosts: Hosts::new(&sites), plan, sites, tls })
    }

    /// The site that answers for `authority`.
    pub fn site_for(&self, authority: &str) -> &Arc<Site> {
        &self.sites[self.hosts.find(authority)]
    }
}

/// What all threads of the server share.
#[derive(Debug)]
pub struct Process {
    setup: Mutex<Arc<Setup>>,
    generation: AtomicU64,
    stage: AtomicU8,
    scripts: AtomicU64,
    /// Counters of all threads.
    pub stats: Arc<stats::Registry>,
    /// Both logs.
    pub log: Log,
    /// Stored pages of all sites.
    pub cache: Arc<Cache>,
    /// Large contents of requests that are being received.
    pub uploads: Uploads,
    /// Certificates that come by themselves.
    pub acme: Acme,
    /// Memory for connections.
    pub budget: Arc<Budget>,
}

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Accepting.
    Running = 0,
    /// SIGTERM came: finish what runs, accept nothing.
    Draining = 1,
}

impl Process {
    /// A process that runs `setup`.
    pub fn new(setup: Arc<Setup>, stats: Arc<stats::Registry>, log: Log, cache: Arc<Cache>) -> Arc<Process> {
        Arc::new(Process {
            budget: Budget::new(setup.plan.server.connection_memory),
            setup: Mutex::new(setup),
            generation: AtomicU64::new(0),
            stage: AtomicU8::new(Stage::Running as u8),
            scripts: AtomicU64::new(0),
            stats,
            log,
            cache,
            uploads: Uploads::default(),
            acme: Acme::default(),
        })
    }

    /// A script has had something to say: what it has done to files by then must be seen by whoever comes next.
    pub fn script_speaks(&self) {
        self.scripts.fetch_add(1, Ordering::Release);
    }

    /// How often that was so.
    pub fn scripts_spoken(&self) -> u64 {
        self.scripts.load(Ordering::Acquire)
    }

    /// The set-up in force.
    pub fn setup(&self) -> Arc<Setup> {
        self.setup.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a new set-up in force; each thread takes it over before its next request.
    pub fn replace_setup(&self, setup: Arc<Setup>) {
        *self.setup.lock().unwrap_or_else(PoisonError::into_inner) = setup;
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Where the process is in its life.
    pub fn stage(&self) -> Stage {
        if self.stage.load(Ordering::Relaxed) == Stage::Running as u8 {
            Stage::Running
        } else {
            Stage::Draining
        }
    }

    pub(super) fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }
}

/// An event loop's own things. Handed down the path of a request; never crosses to another thread.
#[derive(Debug)]
pub struct Thread {
    /// 0, 1, ...
    pub index: usize,
    /// What all threads share.
    pub process: Arc<Process>,
    /// The time.
    pub clock: Clock,
    /// This thread's counters.
    pub stats: Arc<stats::Slot>,
    /// This thread's open-file cache.
    pub files: files::Cache,
    /// This thread's lines of the access log.
    pub access: AccessBuffer,
    /// Who has to be woken or closed when.
    pub deadlines: Deadlines,
    /// Buffers that its connections take turns with.
    pub buffers: Buffers,
    /// Who has flooded its connections of HTTP/2.
    pub flooders: Flooders,
    /// How many handshakes are under way.
    pub handshakes: Handshakes,
    /// Its connections to php-fpm.
    pub fastcgi: php::Kept,
    /// Only of a crowd loop: where connections go that need more than what is ready.
    pub exit: Option<Rc<Exit>>,
    /// Where its connections come from.
    pub listeners: RefCell<Vec<Weak<Listener>>>,
    /// All who were idle have been closed for others: until then, in ticks of its clock, nobody looks for more.
    pub nobody_idle_until: Cell<u64>,
    /// How many event loops share what there is one of a process.
    loops: usize,
    setup: RefCell<SharedSetup>,
    generation: Cell<u64>,
}

impl Thread {
    /// The things of thread `index`.
    pub fn new(index: usize, process: Arc<Process>) -> Rc<Thread> {
        let loops = process.setup().plan.server.threads;
        Thread::of_loops(index, process, loops, None)
    }

    /// The things of thread `index` of so many; with an `exit`, of a crowd loop.
    pub fn of_loops(index: usize, process: Arc<Process>, loops: usize, exit: Option<Exit>) -> Rc<Thread> {
        let setup = process.setup();
        Rc::new(Thread {
            index,
            loops,
            exit: exit.map(Rc::new),
            clock: Clock::default(),
            stats: process.stats.slot(index),
            files: files::Cache::new(&setup.plan.files, loops),
            access: AccessBuffer::default(),
            deadlines: Deadlines::default(),
            buffers: Buffers::default(),
            flooders: Flooders::default(),
            handshakes: Handshakes::default(),
            fastcgi: php::Kept::default(),
            listeners: RefCell::default(),
            nobody_idle_until: Cell::new(0),
            generation: Cell::new(process.generation.load(Ordering::Acquire)),
            setup: RefCell::new(Rc::new(setup)),
            process,
        })
    }

    /// How many event loops there are.
    pub fn loops(&self) -> usize {
        self.loops
    }

    /// The set-up in force. A request keeps the one it began with.
    pub fn setup(&self) -> SharedSetup {
        let generation = self.process.generation.load(Ordering::Acquire);
        if self.generation.replace(generation) != generation {
            let setup = self.process.setup();
            self.files.reset(&setup.plan.files, self.loops);
            *self.setup.borrow_mut() = Rc::new(setup);
        }
        self.setup.borrow().clone()
    }
}
