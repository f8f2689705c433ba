//! A run from beginning to end.

use std::collections::HashMap;
use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use super::collect::Collector;
use super::connect::{loopback_sources, ports};
use super::judge::Expected;
use super::limits;
use super::quiet::{self, Quiet, Reviewer};
use super::server::Watch;
use super::shared::{Report, Shared, Surroundings};
use super::thread::Thread;
use super::tls::NoTls;
use super::versions;
use crate::plan::{ArrivalModel, Curve, Plan};
use crate::record::{Description, End, Run, Tally, Tester, Trial};
use crate::scenario::{Origin, Scenario};

/// Descriptors that a thread has besides its connections: standard streams, epoll, files of the process.
const OTHER_DESCRIPTORS: u64 = 64;
/// How long one of several addresses may take to accept a connection.
const GREETING: Duration = Duration::from_secs(1);
/// Precision of the search for the highest load that holds.
const NEAR: f64 = 1.05;
/// More stages than these are only counted where the load is described.
const MOST_STAGES_IN_WORDS: usize = 4;
/// Tries of that search.
const MOST_TRIALS: usize = 12;

/// Signals to a run from outside.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Set by Ctrl-C: the run ends, with its results.
    pub interrupted: Arc<AtomicBool>,
    /// Processes of the server, if they can't be found by the port it listens on.
    pub server_pids: Vec<u32>,
    /// Where Millrace tells its metrics: `127.0.0.1:9100` or `unix:/PATH`; `None`: that is found out, if it is on this machine.
    pub metrics: Option<String>,
}

/// Why a run can't begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CannotBegin {
    /// The server has no address.
    Unknown {
        /// Its name.
        host: String,
        /// The resolver's error, if there is one.
        why: Option<String>,
    },
    /// The system lacks something.
    Lacks {
        /// The missing resource.
        what: &'static str,
        /// The system's error.
        why: String,
    },
    /// Connections can't be encrypted.
    Tls(NoTls),
}

impl CannotBegin {
    /// Makes an error from the system's when it lacks `what`.
    pub(super) fn lacks<E: fmt::Display>(what: &'static str) -> impl Fn(E) -> CannotBegin {
        move |error| CannotBegin::Lacks { what, why: error.to_string() }
    }
}

impl fmt::Display for CannotBegin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotBegin::Unknown { host, why: Some(why) } => write!(f, "{host}: {why}"),
            CannotBegin::Unknown { host, why: None } => write!(f, "{host} has no IP address"),
            CannotBegin::Lacks { what, why } => write!(f, "{what}: {why}"),
            CannotBegin::Tls(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CannotBegin {}

/// The address for connections to a host: the first one that accepts connections, because `localhost` may be ::1
/// while a server has only 127.0.0.1; outside private networks simply the first.
///
/// # Errors
/// The name is unknown.
pub fn resolve(origin: &Origin) -> Result<SocketAddr, CannotBegin> {
    let unknown = |why| CannotBegin::Unknown { host: origin.host.clone(), why };
    let addresses: Vec<SocketAddr> = (origin.host.as_str(), origin.port)
        .to_socket_addrs()
        .map_err(|error| unknown(Some(error.to_string())))?
        .collect();
    let first = *addresses.first().ok_or_else(|| unknown(None))?;
    if addresses.len() == 1 || !addresses.iter().all(|address| limits::is_private(address.ip())) {
        return Ok(first);
    }
    let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, GREETING).is_ok();
    Ok(addresses.iter().find(answers).copied().unwrap_or(first))
}

/// Makes the load and records the results. Calls `seen` after each second with the results so far.
///
/// # Errors
/// The run can't begin: the host's name is unknown, the system lacks something.
pub fn run(
    plan: &Plan,
    scenario: &Scenario,
    command: Vec<String>,
    control: &Control,
    seen: &mut dyn FnMut(&Run),
) -> Result<Run, CannotBegin> {
    let target = match plan.connect_to {
        Some(address) => address,
        None => resolve(&scenario.origin)?,
    };
    let plan = &paced(plan, scenario);
    let limit =
        millrace_sys::raise_descriptor_limit(1 << 20).map_err(CannotBegin::lacks("file descriptor limit"))?;
    let quiet = quiet::look(plan, scenario, target, &control.interrupted);
    let expected = quiet.expected.clone();
    let engine = Engine { plan, scenario, target, descriptors: limit, control, expected, took: quiet.took };
    let mut run = engine.begin(command, quiet);
    engine.load(&mut run, plan, seen)?;
    if plan.bisect && !control.interrupted.load(Ordering::Relaxed) {
        engine.search(&mut run, seen)?;
    }
    seen(&run);
    Ok(run)
}

/// A replay has its own pace: arrivals are open, in one stage as long as it is.
fn paced(plan: &Plan, scenario: &Scenario) -> Plan {
    let mut plan = plan.clone();
    if let Some(timeline) = &scenario.timeline {
        let last = timeline.last().map_or(Duration::ZERO, |(time, _)| *time);
        let time = last + Duration::from_millis(1);
        plan.arrivals = ArrivalModel::Open;
        plan.curve = Curve::constant(timeline.len() as f64 / time.as_secs_f64(), time);
    }
    plan
}

/// The constant parts of a run.
struct Engine<'a> {
    plan: &'a Plan,
    scenario: &'a Scenario,
    target: SocketAddr,
    descriptors: u64,
    control: &'a Control,
    expected: HashMap<String, Arc<Expected>>,
    /// How long the first URL took in quiet.
    took: Option<Duration>,
}

impl Engine<'_> {
    fn begin(&self, command: Vec<String>, quiet: Quiet) -> Run {
        let plan = self.plan;
        let protocol = if plan.http2 { "HTTP/2" } else { "HTTP/1.1" };
        let description = Description {
            command,
            target: self.scenario.origin.to_string(),
            scenario: self.scenario.name.clone(),
            arrivals: arrivals_in_words(plan, self.scenario),
            open: plan.arrivals == ArrivalModel::Open,
            protocol: format!("{protocol}{}", if self.scenario.origin.tls { " over TLS" } else { "" }),
            accept_encoding: plan.accept_encoding.clone(),
            keep_alive: plan.keep_alive,
            pipeline: plan.pipeline,
            timeout: plan.timeout,
            threads: 0,
            started: SystemTime::now(),
            machine: limits::host_name(),
            cores: limits::cores(),
            memory: limits::memory(),
            server: quiet.server,
        };
        Run {
            description,
            stages: Vec::new(),
            seconds: Vec::new(),
            total: Tally::default(),
            steps: Vec::new(),
            elapsed: Duration::ZERO,
            tester: Tester::default(),
            end: None,
            bisection: Vec::new(),
            notes: quiet.notes,
        }
    }

    /// Makes the load of `plan`, and adds to `run`.
    fn load(&self, run: &mut Run, plan: &Plan, seen: &mut dyn FnMut(&Run)) -> Result<(), CannotBegin> {
        let (most, threads) = self.size(plan);
        run.description.threads = threads;
        let ports = ports();
        let sources = match plan.sources.is_empty() {
            true => loopback_sources(self.target, most, threads as u64, ports),
            false => plan.sources.clone(),
        };
        let around = Surroundings {
            target: self.target,
            threads,
            sources,
            descriptors: self.descriptors,
            expected: self.expected.clone(),
        };
        // Looking for the server among all processes may take seconds: the run's clock begins after that.
        let watch = Watch::new(self.target, self.control);
        let shared = Arc::new(Shared::new(plan.clone(), self.scenario.clone(), around));
        let (reports, received) = mpsc::channel::<Report>();
        let mut handles = Vec::new();
        for number in 0..threads {
            let (its, reports) = (shared.clone(), reports.clone());
            let (ready, started) = mpsc::channel();
            let name = format!("load-{number}");
            let body = move || match Thread::new(its, number, reports) {
                Ok(thread) => {
                    let _ = ready.send(Ok(()));
                    thread.run();
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            };
            let builder = std::thread::Builder::new().name(name).stack_size(1 << 20);
            let handle = builder.spawn(body).map_err(CannotBegin::lacks("a thread"))?;
            handles.push(handle);
            if let Ok(Err(error)) = started.recv() {
                shared.stop_now.store(true, Ordering::Relaxed);
                shared.stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        drop(reports);
        let (questions, asked) = mpsc::channel();
        let mut collector = Collector::new(shared.clone(), watch, questions);
        let reviewer = Reviewer {
            plan: self.plan,
            scenario: self.scenario,
            target: self.target,
            interrupted: &self.control.interrupted,
        };
        let is_over = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reviewing = scope.spawn(move || versions::review(&reviewer, asked, is_over));
            self.collect(&mut collector, &received, &shared, run, seen);
            is_over.store(true, Ordering::Relaxed);
            collector.end_questions();
            run.notes.extend(reviewing.join().unwrap_or_default());
        });
        for handle in handles {
            if handle.join().is_err() {
                run.notes
                    .push("a thread of the load tester panicked: its last results are missing".to_owned());
            }
        }
        collector.finish(run);
        Ok(())
    }

    /// Takes the threads' reports until the last one.
    fn collect(
        &self,
        collector: &mut Collector,
        received: &mpsc::Receiver<Report>,
        shared: &Shared,
        run: &mut Run,
        seen: &mut dyn FnMut(&Run),
    ) {
        loop {
            match received.recv_timeout(Duration::from_millis(100)) {
                Ok(report) => {
                    if collector.take(report, run) {
                        seen(run);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.control.interrupted.load(Ordering::Relaxed) && run.end.is_none() {
                run.end = Some(End::Interrupted);
            }
            if run.end.is_some() {
                shared.stop.store(true, Ordering::Relaxed);
                shared.stop_now.store(true, Ordering::Relaxed);
            }
        }
    }

    /// How many connections there may be, and how many threads that takes.
    fn size(&self, plan: &Plan) -> (u64, usize) {
        let has_pages = self.scenario.flows.iter().flat_map(|flow| &flow.steps).any(|step| step.page);
        let each = if has_pages && !plan.http2 { u64::from(plan.page_connections) } else { 1 };
        let peak = plan.curve.peak().ceil() as u64;
        let most = match (plan.arrivals, plan.connections) {
            (ArrivalModel::Closed, _) => peak * each,
            (ArrivalModel::Open, Some(connections)) => u64::from(connections),
            // With a new connection per request, each one's port stays in use for a while; with keep-alive, there are
            // as many connections as are busy at once.
            (ArrivalModel::Open, None) if !plan.keep_alive => peak * 60,
            (ArrivalModel::Open, None) => peak * 2,
        };
        let a_thread = self.descriptors.saturating_sub(OTHER_DESCRIPTORS).max(1);
        let held = if plan.arrivals == ArrivalModel::Open && plan.connections.is_none() {
            most.min(a_thread)
        } else {
            most
        };
        let wanted = plan.threads.unwrap_or_else(limits::cores).max(held.div_ceil(a_thread) as usize);
        // A thread without users is of no use.
        let useful = if plan.arrivals == ArrivalModel::Closed { peak } else { held };
        (most, wanted.min(useful.max(1) as usize).max(1))
    }

    /// Searches for the highest load that holds, between the one that broke the server and one that didn't.
    fn search(&self, run: &mut Run, seen: &mut dyn FnMut(&Run)) -> Result<(), CannotBegin> {
        let broke = match &run.end {
            Some(End::Broken { at, .. }) => *at,
            _ => {
                let load = self.plan.curve.peak();
                run.bisection.push(Trial { load, held: true, why: "no breaking point".to_owned() });
                return Ok(());
            }
        };
        let (mut low, mut high) = (0.0, broke);
        let time = self.plan.stop.window * 2;
        for _ in 0..MOST_TRIALS {
            if high - low <= 1.0 || low > 0.0 && high / low < NEAR {
                break;
            }
            let load = ((low + high) / 2.0).round();
            let plan = Plan { curve: Curve::constant(load, time), bisect: false, ..self.plan.clone() };
            let mut trial = Run {
                stages: Vec::new(),
                seconds: Vec::new(),
                total: Tally::default(),
                steps: Vec::new(),
                end: None,
                bisection: Vec::new(),
                ..run.clone()
            };
            quiet::recover(&plan, self.scenario, self.target, self.took, &self.control.interrupted);
            self.load(&mut trial, &plan, &mut |_| {})?;
            if self.control.interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            let p99 = trial.total.last_byte.value_at_quantile(0.99) as f64 / 1000.0;
            let (held, why) = match &trial.end {
                Some(End::Broken { why, .. }) => (false, why.clone()),
                _ if trial.total.responses == 0 => (false, "no responses".to_owned()),
                _ => (true, format!("p99 {p99:.1} ms")),
            };
            if held {
                low = load
            } else {
                high = load
            }
            run.bisection.push(Trial { load, held, why });
            seen(run);
        }
        run.bisection.push(Trial {
            load: low,
            held: low > 0.0,
            why: "highest load without breaking".to_owned(),
        });
        Ok(())
    }
}

/// A description of the arrivals for people.
fn arrivals_in_words(plan: &Plan, scenario: &Scenario) -> String {
    if let Some(timeline) = &scenario.timeline {
        return format!("{} requests as recorded", timeline.len());
    }
    let unit = if plan.arrivals == ArrivalModel::Open { "per second" } else { "users" };
    if let (Some(requests), [stage]) = (plan.stop.requests, plan.curve.stages.as_slice()) {
        return format!("{requests} requests, {} {unit}", stage.to);
    }
    let stages: Vec<_> = plan
        .curve
        .stages
        .iter()
        .map(|stage| {
            let time = stage.time.as_secs_f64();
            if stage.from == stage.to {
                format!("{} {unit} for {time} s", stage.to)
            } else {
                format!("{} to {} {unit} in {time} s", stage.from, stage.to)
            }
        })
        .collect();
    let mut words = match plan.curve.stages.as_slice() {
        [first, .., _] if stages.len() > MOST_STAGES_IN_WORDS => {
            let time = plan.curve.time().as_secs_f64();
            format!(
                "{} to {} {unit} in {} stages, {time} s in total",
                first.from,
                plan.curve.peak(),
                stages.len()
            )
        }
        _ => stages.join(", "),
    };
    if let Some(every) = plan.every {
        words.push_str(&format!(", one request per user every {} s", every.as_secs_f64()));
    }
    words
}
