//! What all threads of a run share, and what they report.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use super::clock::{Clock, nanoseconds};
use super::judge::{Expected, Judge};
use super::request::{Manner, Prepared};
use super::versions::{Differing, Review};
use crate::plan::Plan;
use crate::record::Tally;
use crate::scenario::{Dynamic, Scenario};
use crate::steps::{Rows, StepRow};

/// Connections that are being made at once: as many as fit into the queues of a server with usual settings.
const MOST_CONNECTING: usize = 2048;

/// What all threads share; nothing in it is written often.
#[derive(Debug)]
pub struct Shared {
    /// The arrivals.
    pub plan: Plan,
    /// The users' actions.
    pub scenario: Scenario,
    /// Where connections go.
    pub target: SocketAddr,
    /// How many threads there are.
    pub threads: usize,
    /// The time.
    pub clock: Clock,
    /// How long flows begin.
    pub duration: Duration,
    /// After how many nanoseconds a request has failed.
    pub timeout: u64,
    /// No more flows begin.
    pub stop: AtomicBool,
    /// Nothing is waited for any more.
    pub stop_now: AtomicBool,
    /// Reference responses by target.
    pub expected: HashMap<String, Arc<Expected>>,
    /// Parts of pages that may differ.
    pub dynamic: Arc<[Dynamic]>,
    /// The row of each step.
    pub rows: Rows,
    /// Sums of the flows' weights.
    pub weights: Vec<u64>,
    /// Requests on a connection at once.
    pub streams: usize,
    /// Whether requests are pipelined.
    pub pipelines: bool,
    /// Connections of a user at most.
    pub connections_each: usize,
    /// Connections that a thread makes at once.
    pub most_connecting: usize,
    /// Missing resources.
    pub lacks: Lacks,
    sources: Vec<IpAddr>,
    descriptors: u64,
    requests_left: AtomicI64,
}

/// The resources that the tester lacked.
#[derive(Debug, Default)]
pub struct Lacks {
    /// Descriptors.
    pub descriptors: AtomicBool,
    /// Ports.
    pub ports: AtomicBool,
    /// Memory of the kernel.
    pub memory: AtomicBool,
}

/// A thread's report after each second.
#[derive(Debug)]
pub struct Report {
    /// Which thread.
    pub thread: usize,
    /// Which second.
    pub second: u32,
    /// Counters.
    pub tally: Box<Tally>,
    /// How things are at its end.
    pub gauges: Gauges,
    /// Notes for the report.
    pub notes: Vec<String>,
    /// Responses in the second that may be new versions of their pages.
    pub differing: Vec<Differing>,
    /// Questions about such versions.
    pub reviews: Vec<Review>,
    /// With the last report: the thread's requests by step.
    pub steps: Vec<StepRow>,
    /// Whether it is the thread's last.
    pub is_last: bool,
}

/// How things are at the end of a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    /// Present users (closed), or flows in progress (open).
    pub users: u64,
    /// Connections.
    pub connections: u64,
    /// Processor time of the thread in the second, nanoseconds.
    pub cpu: u64,
    /// Arrivals that were due and did not begin; reported at the end.
    pub missed: u64,
    /// How late an arrival began at worst, nanoseconds.
    pub latest_start: u64,
    /// Most connections there ever were.
    pub most_connections: u64,
}

/// What is known before the threads start.
#[derive(Debug)]
pub struct Surroundings {
    /// Where connections go.
    pub target: SocketAddr,
    /// How many threads there are.
    pub threads: usize,
    /// Source addresses; none: the system's choice.
    pub sources: Vec<IpAddr>,
    /// Descriptors that a thread may have.
    pub descriptors: u64,
    /// Reference responses by target.
    pub expected: HashMap<String, Arc<Expected>>,
}

impl Shared {
    /// For a run that begins now.
    pub fn new(plan: Plan, scenario: Scenario, around: Surroundings) -> Shared {
        let has_pages = scenario.flows.iter().flat_map(|flow| &flow.steps).any(|step| step.page);
        let is_single = scenario
            .flows
            .iter()
            .all(|flow| flow.steps.len() == 1 && !flow.steps[0].page && flow.steps[0].follows().is_none());
        let pipelines = is_single && plan.pipeline > 1 && plan.arrivals == crate::plan::ArrivalModel::Closed;
        let mut sum = 0;
        let weights = scenario.flows.iter().map(|flow| {
            sum += u64::from(flow.weight);
            sum
        });
        Shared {
            weights: weights.collect(),
            rows: Rows::of(&scenario),
            dynamic: scenario.dynamic.clone().into(),
            streams: match (pipelines, plan.http2 && has_pages) {
                (true, _) => plan.pipeline as usize,
                (_, true) => 100,
                _ => 1,
            },
            pipelines,
            connections_each: if has_pages && !plan.http2 { plan.page_connections as usize } else { 1 },
            most_connecting: (MOST_CONNECTING / around.threads).max(8),
            clock: Clock::start(),
            duration: plan.curve.time(),
            timeout: nanoseconds(plan.timeout),
            stop: AtomicBool::new(false),
            stop_now: AtomicBool::new(false),
            lacks: Lacks::default(),
            requests_left: AtomicI64::new(
                plan.stop.requests.map_or(i64::MAX, |most| i64::try_from(most).unwrap_or(i64::MAX)),
            ),
            target: around.target,
            threads: around.threads,
            sources: around.sources,
            descriptors: around.descriptors,
            expected: around.expected,
            plan,
            scenario,
        }
    }

    /// The requests of each flow's steps, made ready for a thread.
    pub fn prepare(&self, manner: &Manner) -> Vec<Vec<Rc<Prepared>>> {
        let steps = |flow: &crate::scenario::Flow| {
            flow.steps
                .iter()
                .map(|step| {
                    let expected =
                        self.expected.get(&step.request.target).filter(|_| step.request.method == "GET");
                    let judge = Judge::new(step.checks.clone(), self.dynamic.clone(), expected.cloned());
                    manner.prepare(
                        step.request.clone(),
                        step.page,
                        step.follows(),
                        step.extract.clone(),
                        judge,
                    )
                })
                .collect()
        };
        self.scenario.flows.iter().map(steps).collect()
    }

    /// The source addresses of a thread: separate ones if there are enough, so that threads don't compete for ports.
    pub fn sources_of(&self, thread: usize) -> Vec<IpAddr> {
        let count = self.sources.len();
        if count < self.threads {
            let mut turned = self.sources.clone();
            turned.rotate_left(if count == 0 { 0 } else { thread % count });
            return turned;
        }
        self.sources.iter().skip(thread).step_by(self.threads).copied().collect()
    }

    /// How many connections a thread may have.
    pub fn most_connections_of(&self, thread: usize) -> usize {
        match self.plan.connections {
            Some(most) => (most as usize + self.threads - 1 - thread) / self.threads,
            // The tester doesn't limit itself because of descriptors: the system does, and that is counted.
            None => usize::MAX,
        }
    }

    /// Descriptors that a thread may have.
    pub fn descriptors(&self) -> u64 {
        self.descriptors
    }

    /// How many source addresses there are.
    pub fn addresses(&self) -> u64 {
        self.sources.len().max(1) as u64
    }

    /// Whether one more request may be made.
    pub fn takes_request(&self) -> bool {
        if self.plan.stop.requests.is_none() {
            return true;
        }
        let is_left = self.requests_left.fetch_sub(1, Ordering::Relaxed) > 0;
        if !is_left {
            self.gives_request_back();
        }
        is_left
    }

    /// Whether all requests of the plan are made or in progress.
    pub fn is_exhausted(&self) -> bool {
        self.plan.stop.requests.is_some() && self.requests_left.load(Ordering::Relaxed) <= 0
    }

    /// A request was not made after all.
    pub fn gives_request_back(&self) {
        if self.plan.stop.requests.is_some() {
            self.requests_left.fetch_add(1, Ordering::Relaxed);
        }
    }
}
