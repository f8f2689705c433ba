//! A thread of the engine: its users, its connections, and the loop that serves both.
//!
//! Nothing in it is shared or locked. Connections and users are identified by their number and a generation, because
//! an event or a timer may arrive for one that has gone. `walk.rs` decides what users do next, `pages.rs` loads
//! pages.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::{ClockId, clock_gettime};
use slab::Slab;

use super::clock::{SECOND, from_seconds, nanoseconds};
use super::connect::{Lack, Route};
use super::connection::{Connection, Lent, Life, Pending, RequestMessage};
use super::pacer::{self, ArrivalTimes};
use super::request::{Manner, Prepared};
use super::run::CannotBegin;
use super::shared::{Gauges, Report, Shared};
use super::tls::Tls;
use super::transport::Transport;
use super::user::{NONE, PartRequest, User};
use crate::plan;
use crate::record::Failure;
use crate::steps::StepRow;

/// Bytes that are read at once.
const BUFFER: usize = 128 << 10;
/// Maximum number of events handled before arrivals and timers have their turn again.
const EVENTS: usize = 512;
/// Interval between checks whether the run is over.
const TICK: u64 = SECOND / 20;
/// Maximum interval between checks of time limits: with 20,000 connections per thread, checking all is costly.
const SWEEP: u64 = SECOND;
/// How long after the end arrivals begin that were due before.
const GRACE: u64 = 2 * SECOND;
/// Users that are started at once, before events have their turn.
const STARTS: usize = 64;

/// A thread of the engine.
pub struct Thread {
    pub(super) shared: Arc<Shared>,
    /// Which of the threads it is.
    number: usize,
    epoll: OwnedFd,
    route: Route,
    tls: Option<Tls>,
    pub(super) manner: Manner,
    /// The requests of each flow's steps.
    pub(super) steps: Vec<Vec<Rc<Prepared>>>,
    /// What became of each step so far.
    pub(super) rows: Vec<StepRow>,
    /// Parts of pages, by the hash of the naming content.
    pub(super) parts: HashMap<u64, Rc<[PartRequest]>>,
    /// Requests that redirects led to, by the request that was redirected and where to; with that one, so that its address
    /// stays its own.
    pub(super) redirected: HashMap<(usize, String), (Rc<Prepared>, Rc<Prepared>)>,
    /// Requests for parts of pages, by target.
    pub(super) part_requests: HashMap<String, Rc<Prepared>>,
    pub(super) users: Slab<User>,
    pub(super) connections: Slab<Connection>,
    generation: u32,
    connecting: usize,
    /// Idle connections that any user may take (open arrivals).
    idle: Vec<(u32, u32)>,
    /// Users that wait for a connection (open arrivals with a limit).
    pub(super) queue: VecDeque<(u32, u32)>,
    /// When users continue.
    timers: BinaryHeap<Reverse<(u64, u32, u32)>>,
    arrivals: ArrivalTimes,
    pub(super) lent: Lent,
    random: u64,
    reports: Sender<Report>,
    second: u32,
    next_tick: u64,
    next_sweep: u64,
    latest_start: u64,
    most_connections: usize,
    cpu: u64,
    /// The thread handles the responses of this connection, and sends its new requests afterwards.
    current: u32,
    /// How many users there should be (closed arrivals).
    wanted: usize,
    /// Whether no more flows begin.
    pub(super) is_over: bool,
}

impl Thread {
    /// Thread number `number`. Called on the thread itself: from here on it has its own descriptor table.
    ///
    /// # Errors
    /// The resource that the system lacks.
    pub fn new(shared: Arc<Shared>, number: usize, reports: Sender<Report>) -> Result<Thread, CannotBegin> {
        millrace_sys::own_descriptor_table()
            .map_err(CannotBegin::lacks("cannot create a descriptor table"))?;
        // Timers as exact as the kernel has them: open arrivals are due at a moment.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(CannotBegin::lacks("epoll"))?;
        let origin = &shared.scenario.origin;
        let tls = match origin.tls {
            true => {
                let plan = &shared.plan;
                let tls = Tls::new(&origin.host, plan.http2, plan.resumption, &plan.certificates);
                Some(tls.map_err(CannotBegin::Tls)?)
            }
            false => None,
        };
        let manner = Manner::new(&shared.plan, &shared.scenario);
        let steps = shared.prepare(&manner);
        let sources = shared.sources_of(number);
        let clock = shared.clock;
        let lent = Lent {
            buffer: vec![0; BUFFER].into(),
            finished: VecDeque::new(),
            spare: Vec::new(),
            tally: Box::default(),
            clock,
            notes: Vec::new(),
            described: 0,
            reviews: Vec::new(),
            differing: Vec::new(),
        };
        Ok(Thread {
            number,
            epoll,
            route: Route::new(shared.target, sources),
            tls,
            manner,
            steps,
            parts: HashMap::new(),
            rows: shared.rows.empty(),
            part_requests: HashMap::new(),
            redirected: HashMap::new(),
            users: Slab::new(),
            connections: Slab::new(),
            generation: 0,
            connecting: 0,
            idle: Vec::new(),
            queue: VecDeque::new(),
            timers: BinaryHeap::new(),
            arrivals: ArrivalTimes::new(number, shared.threads),
            lent,
            random: 0x9E37_79B9_7F4A_7C15 ^ ((number as u64 + 1) << 32),
            reports,
            second: 0,
            next_tick: 0,
            next_sweep: 0,
            latest_start: 0,
            most_connections: 0,
            cpu: cpu_time(),
            current: NONE,
            wanted: 0,
            is_over: false,
            shared,
        })
    }

    /// Runs until the load is over and requests in progress have ended.
    pub fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let now = self.lent.clock.now();
            self.end_second(now);
            let ticks = now >= self.next_tick;
            if ticks {
                self.tick(now);
            }
            // Looking at all connections is quick where there are few.
            if (ticks || self.connections.len() < 256) && self.is_done(now) {
                break;
            }
            let next = self.start_due(now).min(self.next_tick);
            self.settle();
            let left = next.saturating_sub(self.lent.clock.now());
            let wait = Timespec { tv_sec: (left / SECOND) as i64, tv_nsec: (left % SECOND) as i64 };
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    self.lent.notes.push(format!("a thread of the load tester ended: epoll: {error}"));
                    break;
                }
            }
            // All is read before anything is sent, as other testers do: a server on another core finds more than one request when
            // it wakes up, as it does with clients that don't take turns.
            for event in &events {
                self.on_event(event.data.u64(), event.flags);
            }
            self.settle();
        }
        self.hand_over(true);
    }

    fn on_event(&mut self, name: u64, flags: EventFlags) {
        let (key, generation) = (name as u32 as usize, (name >> 32) as u32);
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.generation != generation {
            return;
        }
        let was_connecting = connection.is_connecting();
        let mut life = connection.on_event(flags, &mut self.lent);
        if was_connecting && !connection.is_connecting() {
            self.connecting -= 1;
            if life == Life::Alive {
                life = connection.flush(&mut self.lent);
            }
        }
        if life == Life::Gone {
            self.remove(key as u32);
        }
    }

    /// Users continue after their requests have ended.
    fn settle(&mut self) {
        while let Some(finished) = self.lent.finished.pop_front() {
            self.current = finished.connection;
            self.on_finished(finished);
            // Requests caused by responses that arrived together share a packet.
            let goes_on = self.lent.finished.front().is_some_and(|next| next.connection == self.current);
            if !goes_on {
                let key = std::mem::replace(&mut self.current, NONE);
                self.send_out(key);
            }
        }
    }

    /// Sends a connection's new requests, or lets it rest if there are none.
    fn send_out(&mut self, key: u32) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        if connection.flush(&mut self.lent) == Life::Gone {
            self.remove(key);
        } else {
            connection.rest(&mut self.lent);
        }
    }

    /// Starts the users that are due; returns when the next one is.
    fn start_due(&mut self, now: u64) -> u64 {
        while let Some(Reverse((due, user, generation))) = self.timers.peek().copied() {
            if due > now {
                break;
            }
            self.timers.pop();
            self.wake(user, generation, due);
        }
        let mut next = self.timers.peek().map_or(u64::MAX, |timer| timer.0.0);
        if self.is_over || self.shared.is_exhausted() {
            return next;
        }
        match self.shared.plan.arrivals {
            plan::ArrivalModel::Closed => {
                if self.spawn_closed(now) {
                    next = 0;
                }
            }
            plan::ArrivalModel::Open => {
                let mut started = 0;
                while let Some(due) = self.next_arrival() {
                    if due > now || started == STARTS {
                        next = next.min(due);
                        break;
                    }
                    self.latest_start = self.latest_start.max(now - due);
                    self.arrive(due);
                    started += 1;
                }
            }
        }
        next
    }

    /// When the next flow of open arrivals is due.
    fn next_arrival(&self) -> Option<u64> {
        match &self.shared.scenario.timeline {
            None => self.arrivals.peek(&self.shared.plan.curve).map(from_seconds),
            Some(timeline) => {
                timeline.get(self.arrivals.number() as usize).map(|(time, _)| nanoseconds(*time))
            }
        }
    }

    /// The flow that begins now (open arrivals).
    fn arrive(&mut self, due: u64) {
        let flow = match &self.shared.scenario.timeline {
            Some(timeline) => timeline.get(self.arrivals.number() as usize).map(|(_, flow)| *flow as u32),
            None => None,
        };
        self.arrivals.take();
        let key = self.new_user();
        self.begin_flow(key, due, flow);
    }

    /// Starts users up to the intended number. True: more are to start at once.
    fn spawn_closed(&mut self, now: u64) -> bool {
        if now >= nanoseconds(self.shared.duration) {
            return false;
        }
        let load = self.shared.plan.curve.at(now as f64 / SECOND as f64);
        self.wanted = pacer::share(load, self.number, self.shared.threads);
        let mut started = 0;
        while self.users.len() < self.wanted && self.connecting < self.shared.most_connecting {
            if started == STARTS {
                return true;
            }
            let key = self.new_user();
            self.begin_flow(key, now, None);
            started += 1;
        }
        false
    }

    /// Whether there are more users than there should be: a user that is done leaves.
    pub(super) fn has_surplus(&self) -> bool {
        self.users.len() > self.wanted
    }

    fn new_user(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.users.insert(User::new(self.generation)) as u32
    }

    /// Has a user go on at a time.
    pub(super) fn wake_at(&mut self, user: u32, time: u64) {
        let generation = self.users[user as usize].generation;
        self.timers.push(Reverse((time, user, generation)));
    }

    /// A free connection for this user: its own, one that was given back, or a new one. `None`: it must wait for one.
    pub(super) fn connection_for(&mut self, user: u32) -> Result<Option<u32>, Failure> {
        let streams = self.shared.streams;
        let who = &self.users[user as usize];
        let own = who.connections().find(|key| self.connections[*key as usize].load() < streams);
        if own.is_some() {
            return Ok(own);
        }
        if who.connections().count() >= self.shared.connections_each {
            return Ok(None);
        }
        while let Some((key, generation)) = self.idle.pop() {
            if self.connections.get(key as usize).is_some_and(|known| known.generation == generation) {
                self.assign(user, key);
                return Ok(Some(key));
            }
        }
        if self.connections.len() >= self.shared.most_connections_of(self.number) {
            return Ok(None);
        }
        let key = self.connect()?;
        self.assign(user, key);
        Ok(Some(key))
    }

    fn assign(&mut self, user: u32, key: u32) {
        self.connections[key as usize].owner = user;
        let user = &mut self.users[user as usize];
        if user.connection == NONE {
            user.connection = key;
        } else {
            user.memory().more.push(key);
        }
    }

    fn connect(&mut self) -> Result<u32, Failure> {
        let tls = match &self.tls {
            Some(tls) => Some(tls.connect().map_err(|_| Failure::Tls)?),
            None => None,
        };
        let socket = self.route.connect().map_err(|lack| self.lacks(lack))?;
        self.generation = self.generation.wrapping_add(1);
        let now = self.lent.clock.now();
        let entry = self.connections.vacant_entry();
        let key = entry.key() as u32;
        let name = u64::from(key) | u64::from(self.generation) << 32;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &socket, EventData::new_u64(name), flags).map_err(|_| Failure::Tester)?;
        entry.insert(Connection::new(
            Transport::new(socket, tls),
            self.manner.is_http2,
            key,
            self.generation,
            now,
        ));
        self.connecting += 1;
        self.most_connections = self.most_connections.max(self.connections.len());
        Ok(key)
    }

    fn lacks(&self, lack: Lack) -> Failure {
        match lack {
            Lack::Descriptors => self.shared.lacks.descriptors.store(true, Ordering::Relaxed),
            Lack::Ports => self.shared.lacks.ports.store(true, Ordering::Relaxed),
            Lack::Memory => self.shared.lacks.memory.store(true, Ordering::Relaxed),
            Lack::Network(errno) => return super::connection::failure_of(errno),
        }
        Failure::Tester
    }

    /// A connection is closed.
    pub(super) fn remove(&mut self, key: u32) {
        let Some(mut connection) = self.connections.try_remove(key as usize) else { return };
        // All requests in progress on it have failed.
        connection.fail(Failure::Reset, &mut self.lent);
        if connection.is_connecting() {
            self.connecting -= 1;
        }
        if let Some(user) = self.users.get_mut(connection.owner as usize) {
            user.lose(key);
        }
        if !self.queue.is_empty() {
            self.serve_queue();
        }
    }

    /// A user is through: its idle connections are for others, or closed.
    pub(super) fn dismiss(&mut self, user: u32) {
        let Some(user) = self.users.try_remove(user as usize) else { return };
        let is_open = self.shared.plan.arrivals == plan::ArrivalModel::Open;
        let keys: Vec<u32> = user.connections().collect();
        for key in keys {
            let Some(connection) = self.connections.get_mut(key as usize) else { continue };
            connection.owner = NONE;
            if is_open && connection.load() == 0 && self.shared.plan.keep_alive {
                self.idle.push((key, connection.generation));
            } else {
                self.remove(key);
            }
        }
        self.serve_queue();
    }

    /// Connections have become free: waiting users continue.
    fn serve_queue(&mut self) {
        let most = self.shared.most_connections_of(self.number);
        // A user that must wait again goes to the end of the queue.
        for _ in 0..self.queue.len() {
            if self.idle.is_empty() && self.connections.len() >= most {
                break;
            }
            let Some((user, generation)) = self.queue.pop_front() else { break };
            if self.users.get(user as usize).is_some_and(|known| known.generation == generation) {
                self.resume(user);
            }
        }
    }

    /// Handles signals from outside, and the time.
    fn tick(&mut self, now: u64) {
        let sweep_every = SWEEP.min(self.shared.timeout / 8).max(SECOND / 1000);
        self.next_tick = now + TICK.min(sweep_every);
        if now >= self.next_sweep {
            self.next_sweep = now + sweep_every;
            self.sweep(now);
        }
        let end = nanoseconds(self.shared.duration);
        // Arrivals that were due just before the end still begin, unless there are more than can be made.
        let is_late = self.is_open() && now < end + GRACE && self.next_arrival().is_some();
        self.is_over |= now >= end && !is_late || self.shared.stop.load(Ordering::Relaxed);
    }

    /// Checks time limits.
    fn sweep(&mut self, now: u64) {
        let limit = now.saturating_sub(self.shared.timeout);
        let late: Vec<u32> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.waiting_since != 0 && connection.waiting_since < limit)
            .map(|(key, _)| key as u32)
            .collect();
        for key in late {
            if let Some(connection) = self.connections.get_mut(key as usize) {
                connection.fail(Failure::TimeOut, &mut self.lent);
            }
            self.remove(key);
        }
        self.settle();
        while let Some((user, generation)) = self.queue.front().copied() {
            match self.users.get(user as usize) {
                Some(waiting) if waiting.generation == generation && waiting.due >= limit => break,
                Some(waiting) if waiting.generation == generation => {
                    self.queue.pop_front();
                    self.on_failed(user, Failure::TimeOut);
                }
                _ => {
                    self.queue.pop_front();
                }
            }
        }
    }

    /// Whether the thread may end: closed arrivals are cut off at the end, because requests in progress would only
    /// count if they are fast; open arrivals and counted requests are completed, because their measurement was
    /// promised.
    fn is_done(&self, now: u64) -> bool {
        // A request in progress may have to be repeated: the last one has been made only when none is in progress.
        let is_exhausted = self.shared.is_exhausted();
        if !self.is_over && !is_exhausted {
            return false;
        }
        let cut_off = self.shared.stop_now.load(Ordering::Relaxed);
        let waits = self.is_open() || self.shared.plan.stop.requests.is_some();
        let end = nanoseconds(self.shared.duration) + self.shared.timeout;
        let is_busy = self.connections.iter().any(|(_, connection)| connection.load() > 0);
        // A user that waits for a connection has nothing to request when all requests are made.
        cut_off || !waits || now > end || !is_busy && (is_exhausted || self.queue.is_empty())
    }

    /// Reports the counters when a second is over.
    fn end_second(&mut self, now: u64) {
        while now >= (u64::from(self.second) + 1) * SECOND {
            self.hand_over(false);
            self.second += 1;
        }
    }

    fn hand_over(&mut self, is_last: bool) {
        let cpu = cpu_time();
        let gauges = Gauges {
            users: self.users.iter().filter(|(_, user)| user.is_active || !self.is_open()).count() as u64,
            connections: self.connections.len() as u64,
            cpu: cpu - self.cpu,
            missed: if is_last { self.missed() } else { 0 },
            latest_start: std::mem::take(&mut self.latest_start),
            most_connections: self.most_connections as u64,
        };
        self.cpu = cpu;
        self.lent.described = 0;
        let report = Report {
            thread: self.number,
            second: self.second,
            tally: std::mem::take(&mut self.lent.tally),
            gauges,
            notes: std::mem::take(&mut self.lent.notes),
            differing: std::mem::take(&mut self.lent.differing),
            reviews: std::mem::take(&mut self.lent.reviews),
            steps: if is_last { std::mem::take(&mut self.rows) } else { Vec::new() },
            is_last,
        };
        // The receiver is gone only when the run is being aborted.
        let _ = self.reports.send(report);
    }

    /// Open arrivals that were due while they could begin, and did not.
    fn missed(&self) -> u64 {
        let is_cut_off = self.shared.stop.load(Ordering::Relaxed) || self.shared.is_exhausted();
        if !self.is_open() || is_cut_off {
            return 0;
        }
        let all = match &self.shared.scenario.timeline {
            Some(timeline) => timeline.len() as u64,
            None => self.shared.plan.curve.arrivals().round() as u64,
        };
        all.saturating_sub(self.arrivals.number()).div_ceil(self.shared.threads as u64)
    }

    fn is_open(&self) -> bool {
        self.shared.plan.arrivals == plan::ArrivalModel::Open
    }

    /// Gives a request to a connection, which sends it at once unless its responses are being handled.
    pub(super) fn submit(&mut self, key: u32, pending: Pending, message: RequestMessage<'_>) {
        let connection = &mut self.connections[key as usize];
        connection.submit(pending, message, &mut self.lent);
        if key != self.current && connection.flush(&mut self.lent) == Life::Gone {
            self.remove(key);
        }
    }

    /// Evenly between 0 and below 1 (xorshift64*).
    pub(super) fn random(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Processor time of the calling thread, nanoseconds.
fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}
