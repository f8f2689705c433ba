//! A run in the form in which it is published: `--json` writes it, `--compare` reads it, and the table and the HTML report
//! are made out of it, so that a report can be made again from the file.
//!
//! Members are only ever added; `docs/load-schema.json` describes them. Units are in the names.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::bottleneck;
use super::own::MillraceSummary;
use crate::record::{self, Failures, Run, Tally, Times};
use crate::steps::{StepRow, Wrong};

/// The value of `format`.
pub const FORMAT: &str = "millrace-load/1";

/// A run: complete, or so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`FORMAT`].
    pub format: String,
    /// Version of Millrace that wrote it.
    pub version: String,
    /// The options and the target of the run.
    pub description: JsonDescription,
    /// Why it ended.
    pub outcome: JsonOutcome,
    /// How long it took.
    pub elapsed_seconds: f64,
    /// Everything together.
    pub total: Summary,
    /// The requests by step of the scenario, what pages need last; empty until the run has ended.
    #[serde(default)]
    pub steps: Vec<JsonStep>,
    /// Stages and rounds in order.
    pub stages: Vec<JsonStage>,
    /// Second by second.
    pub seconds: Vec<JsonSecond>,
    /// The tester's own limits.
    pub tester: JsonTester,
    /// The search for the highest load that holds.
    pub bisection: Vec<JsonTrial>,
    /// The bottleneck of the server, if known.
    #[serde(default)]
    pub bottleneck: Option<String>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// The options and the target of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonDescription {
    /// The command line, a word each.
    pub command: Vec<String>,
    /// Where requests went.
    pub target: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Arrivals in words.
    pub arrivals: String,
    /// Whether arrivals are a rate rather than a number of users.
    pub open: bool,
    /// Protocol in words.
    pub protocol: String,
    /// `Accept-Encoding`; empty: none.
    pub accept_encoding: String,
    /// Whether connections are kept alive.
    pub keep_alive: bool,
    /// Requests in progress on a connection.
    pub pipeline: u32,
    /// After how long a request has failed.
    pub timeout_seconds: f64,
    /// Threads of the tester.
    pub threads: usize,
    /// When it began, seconds since 1970.
    pub started: f64,
    /// The tester's machine.
    pub machine: Machine,
    /// The target's `Server` field.
    pub server: Option<String>,
}

/// The tester's machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Processors.
    pub cores: usize,
    /// Memory.
    pub memory_bytes: u64,
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonOutcome {
    /// How.
    pub end: JsonEnd,
    /// The same in a sentence.
    pub text: String,
    /// Where it broke, if it did.
    pub breaking_point: Option<BreakingPoint>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonEnd {
    /// In progress.
    Running,
    /// All stages are through.
    Complete,
    /// The wanted number of requests was made.
    Count,
    /// Ctrl-C.
    Interrupted,
    /// At the breaking point.
    Broken,
    /// It could not go on.
    Impossible,
}

/// Where a server broke.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BreakingPoint {
    /// In which second it was noticed.
    pub second: u32,
    /// Users, or arrivals a second.
    pub load: f64,
    /// The value that exceeded its bound.
    pub why: String,
}

/// The events of a span of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How long it was.
    pub seconds: f64,
    /// Requests begun.
    pub begun: u64,
    /// Responses that arrived whole, right or wrong.
    pub responses: u64,
    /// Right ones.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Share of successful responses: 0 to 1; 1 if none ended.
    pub success_share: f64,
    /// Failed requests by kind; kinds that did not happen are left out.
    pub failures: Kinds,
    /// Responses by status; without statuses that did not occur.
    pub statuses: Kinds,
    /// Flows that went through.
    pub flows: u64,
    /// Flows that a failure ended.
    pub flows_failed: u64,
    /// Full page loads.
    pub pages: u64,
    /// Page loads with a failure.
    pub pages_failed: u64,
    /// Requests for things that pages need.
    pub objects: u64,
    /// Fresh hits of the browser cache.
    pub cached: u64,
    /// Redirects that were followed.
    #[serde(default)]
    pub redirects: u64,
    /// Bytes received, as on the connection.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Connections opened.
    pub connects: u64,
    /// Of these, resumed TLS sessions.
    pub resumed: u64,
    /// Right responses a second.
    pub ok_per_second: f64,
    /// Full page loads a second.
    pub pages_per_second: f64,
    /// Bytes received a second.
    pub bytes_in_per_second: f64,
    /// Time until connected.
    pub connect: Latency,
    /// Time of TLS handshakes.
    pub tls: Latency,
    /// Time to first byte.
    pub first_byte: Latency,
    /// Time until the response was complete.
    pub last_byte: Latency,
    /// Time until a page and all it needs was there.
    pub page: Latency,
    /// The server in this span, where it can be seen.
    pub server: Option<Server>,
}

/// The requests of a step over the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonStep {
    /// The flow, the number of the step in it, and its request.
    pub name: String,
    /// Right responses.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// The same by kind.
    pub failures: Kinds,
    /// Time until the response was complete.
    pub last_byte: Latency,
    /// Some of the responses with wrong content.
    pub wrong: Vec<JsonWrong>,
}

/// A response with wrong content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JsonWrong {
    /// Path and query of the request.
    pub target: String,
    /// The expected content.
    pub expected: String,
    /// The received content.
    pub found: String,
}

/// Numbers by name, in order.
pub type Kinds = BTreeMap<String, u64>;

/// A distribution in a few figures, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many were timed; the others are 0 if none was.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Least.
    pub min_us: u64,
    /// Median.
    pub p50_us: u64,
    /// 90 %.
    pub p90_us: u64,
    /// 95 %.
    pub p95_us: u64,
    /// 99 %.
    pub p99_us: u64,
    /// 99.9 %.
    pub p999_us: u64,
    /// Most.
    pub max_us: u64,
}

/// The server over a span of time, as far as it could be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Processor time a second, mean: 1.0 is one core.
    pub cpu: Option<f64>,
    /// Memory of its own, most.
    pub memory_bytes: Option<u64>,
    /// Processor time a second of the whole machine, mean.
    pub machine_cpu: Option<f64>,
    /// Memory in use on the machine, most.
    pub machine_memory_bytes: Option<u64>,
    /// Connections dropped because a listening queue was full, since the run began.
    pub listen_drops: Option<u64>,
    /// Entries of the connection tracking table, most.
    pub conntrack: Option<u64>,
    /// How many it may have.
    pub conntrack_limit: Option<u64>,
    /// The server's own metrics, if it is a Millrace.
    #[serde(default)]
    pub own: Option<MillraceSummary>,
}

/// A stage or a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonStage {
    /// Its name.
    pub name: String,
    /// When it began, seconds from the start.
    pub begin: f64,
    /// When it ended.
    pub end: f64,
    /// Users, or arrivals a second, at its beginning.
    pub from: f64,
    /// The same at its end.
    pub to: f64,
    /// Whether it is a round.
    pub round: bool,
    /// The events.
    pub summary: Summary,
    /// The bottleneck of the server in it, if known.
    #[serde(default)]
    pub bottleneck: Option<String>,
    /// Of a round: what the doctor and the tuner have to do with it.
    #[serde(flatten)]
    pub method: Method,
}

/// The method of rounds: name what holds the server back, change it, measure again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Method {
    /// What the doctor found in the round and would cure first; `None`: nothing, or it was not asked.
    #[serde(default)]
    pub held_back: Option<JsonFinding>,
    /// What was changed for the round, besides what earlier rounds kept.
    #[serde(default)]
    pub change: Option<JsonChange>,
    /// What was concluded from the round.
    #[serde(default)]
    pub conclusion: Option<String>,
}

/// A finding of the doctor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonFinding {
    /// The name of the check: docs/doctor-checks.md.
    pub id: String,
    /// `error`, `warning` or `note`.
    pub severity: String,
    /// What is wrong.
    pub what: String,
    /// The figures.
    pub evidence: Vec<String>,
    /// What to do.
    pub cure: String,
}

/// A change of settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonChange {
    /// The check that asks for it, or the layer of `millrace tune`.
    pub why: String,
    /// The settings.
    pub settings: Vec<JsonSetting>,
}

/// A changed setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonSetting {
    /// Its name.
    pub name: String,
    /// The value before, if it could be seen.
    pub before: Option<String>,
    /// The value after.
    pub after: String,
}

/// A second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JsonSecond {
    /// Its number.
    pub at: u32,
    /// Index of its stage.
    pub stage: usize,
    /// How long it was.
    pub length: f64,
    /// Users at its end.
    pub users: u64,
    /// Connections at its end.
    pub connections: u64,
    /// Load that was wanted at its end.
    pub wanted: f64,
    /// Requests begun.
    pub begun: u64,
    /// Right responses.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
    /// The same by kind.
    pub failures: Kinds,
    /// Full page loads.
    pub pages: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Connections opened.
    pub connects: u64,
    /// Time until connected.
    pub connect: Latency,
    /// Time of TLS handshakes.
    pub tls: Latency,
    /// Time to first byte.
    pub first_byte: Latency,
    /// Time until the response was complete.
    pub last_byte: Latency,
    /// Time until a page was there.
    pub page: Latency,
    /// The server.
    pub server: Option<Server>,
    /// Processor time of the tester: 1.0 is one core.
    pub tester_cpu: f64,
    /// The server's processes, by the program that they run.
    #[serde(default)]
    pub programs: BTreeMap<String, JsonProgram>,
}

/// The server's processes that run one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JsonProgram {
    /// Their processor time: 1.0 is one core.
    pub cpu: f64,
    /// How many there are.
    pub processes: u32,
    /// How many of them did something.
    pub working: u32,
}

/// The tester's own limits, and how close it came to them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JsonTester {
    /// Processor time.
    pub cpu_seconds: f64,
    /// The busiest thread in the busiest second: 1.0 is a core.
    pub busiest_thread: f64,
    /// Descriptors that a thread may have.
    pub descriptors: u64,
    /// Most that a thread had.
    pub most_descriptors: u64,
    /// Ports of a source address.
    pub ports: u64,
    /// Source addresses.
    pub addresses: u64,
    /// How late arrivals began at worst because of the tester.
    pub latest_start_us: u64,
    /// Arrivals that were due and never began, for want of the tester's time.
    #[serde(default)]
    pub missed_arrivals: u64,
    /// Most memory.
    pub memory_bytes: u64,
    /// What limited the tester; empty: the figures are the server's.
    pub bottlenecks: Vec<String>,
}

/// One try of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonTrial {
    /// Users, or arrivals a second.
    pub load: f64,
    /// Whether it held.
    pub held: bool,
    /// Why not, or how well.
    pub why: String,
}

/// Why a text is no [`Document`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDocument {
    /// It is not JSON, or has no format: the parser's message.
    NoResult(String),
    /// It has this format.
    Format(String),
    /// It has the right format, but invalid content: the parser's message.
    Wrong(String),
}

impl fmt::Display for NotDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotDocument::NoResult(why) => write!(f, "it is not a result of `millrace load --json`: {why}"),
            NotDocument::Format(format) => {
                write!(f, "its format is {format:?}, this version supports {FORMAT:?}")
            }
            NotDocument::Wrong(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NotDocument {}

impl Document {
    /// The results of `run`.
    pub fn of(run: &Run) -> Document {
        let seconds: Vec<JsonSecond> = run.seconds.iter().map(|second| JsonSecond::of(second, run)).collect();
        let mut document = Document {
            format: FORMAT.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            description: JsonDescription::of(&run.description),
            outcome: JsonOutcome::of(run.end.as_ref(), run.description.open),
            elapsed_seconds: round(run.elapsed.as_secs_f64()),
            total: Summary::of(&run.total, run.elapsed, seconds.iter()),
            steps: run.steps.iter().filter(|row| row.requests() > 0).map(JsonStep::of).collect(),
            stages: run
                .stages
                .iter()
                .enumerate()
                .map(|(index, stage)| JsonStage::of(stage, index, &seconds))
                .collect(),
            seconds,
            tester: JsonTester::of(&run.tester),
            bisection: run.bisection.iter().map(JsonTrial::of).collect(),
            bottleneck: None,
            notes: run.notes.clone(),
        };
        document.bottleneck = bottleneck::of_run(&document);
        for index in 0..document.stages.len() {
            document.stages[index].bottleneck = bottleneck::of_stage(&document, index);
        }
        document
    }

    /// The document as JSON.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string(self).expect("numbers, texts and lists are all JSON");
        text.push('\n');
        text
    }

    /// Reads the output of [`Document::json`], of this version or an earlier one.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn from_json(text: &str) -> Result<Document, NotDocument> {
        #[derive(Deserialize)]
        struct JsonHead {
            format: String,
        }
        let head: JsonHead =
            serde_json::from_str(text).map_err(|error| NotDocument::NoResult(error.to_string()))?;
        if head.format != FORMAT {
            return Err(NotDocument::Format(head.format));
        }
        serde_json::from_str(text).map_err(|error| NotDocument::Wrong(error.to_string()))
    }

    /// The unit of the load: `users` or `arrivals a second`.
    pub fn load_unit(&self) -> &'static str {
        if self.description.open { "arrivals per second" } else { "users" }
    }

    /// The name of the server in a report: its `Server` field, otherwise its address.
    pub fn server_name(&self) -> &str {
        self.description.server.as_deref().unwrap_or(&self.description.target)
    }
}

impl JsonDescription {
    fn of(from: &record::Description) -> JsonDescription {
        JsonDescription {
            command: from.command.clone(),
            target: from.target.clone(),
            scenario: from.scenario.clone(),
            arrivals: from.arrivals.clone(),
            open: from.open,
            protocol: from.protocol.clone(),
            accept_encoding: from.accept_encoding.clone(),
            keep_alive: from.keep_alive,
            pipeline: from.pipeline,
            timeout_seconds: from.timeout.as_secs_f64(),
            threads: from.threads,
            started: round(since_1970(from.started)),
            machine: Machine { name: from.machine.clone(), cores: from.cores, memory_bytes: from.memory },
            server: from.server.clone(),
        }
    }
}

impl JsonOutcome {
    fn of(end: Option<&record::End>, open: bool) -> JsonOutcome {
        let unit = if open { "arrivals per second" } else { "users" };
        let mut breaking_point = None;
        let (end, text) = match end {
            None => (JsonEnd::Running, "running".to_owned()),
            Some(record::End::Complete) => (JsonEnd::Complete, "all stages completed".to_owned()),
            Some(record::End::Count) => (JsonEnd::Count, "all requests completed".to_owned()),
            Some(record::End::Interrupted) => (JsonEnd::Interrupted, "interrupted".to_owned()),
            Some(record::End::Impossible(why)) => (JsonEnd::Impossible, why.clone()),
            Some(record::End::Broken { second, at, why }) => {
                breaking_point = Some(BreakingPoint { second: *second, load: round(*at), why: why.clone() });
                (JsonEnd::Broken, format!("breaking point at {} {unit}: {why}", super::figures::count(*at)))
            }
        };
        JsonOutcome { end, text, breaking_point }
    }
}

impl Summary {
    /// All measured latencies with their names: each part of a request, and whole pages.
    pub fn latencies(&self) -> impl Iterator<Item = (&'static str, &Latency)> {
        let all = [
            ("Connecting", &self.connect),
            ("TLS handshake", &self.tls),
            ("First byte", &self.first_byte),
            ("Last byte", &self.last_byte),
            ("Full page", &self.page),
        ];
        all.into_iter().filter(|(_, latency)| latency.count > 0)
    }

    fn of<'a>(tally: &Tally, time: Duration, seconds: impl Iterator<Item = &'a JsonSecond>) -> Summary {
        let length = time.as_secs_f64();
        let rate = |count: u64| if length > 0.0 { round(count as f64 / length) } else { 0.0 };
        let statuses = tally.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        Summary {
            seconds: round(length),
            begun: tally.begun,
            responses: tally.responses,
            ok: tally.ok,
            failed: tally.failures.total(),
            success_share: 1.0 - tally.failed_share(),
            failures: kinds(&tally.failures),
            statuses: statuses.map(|(index, count)| ((index + 100).to_string(), *count)).collect(),
            flows: tally.flows,
            flows_failed: tally.flows_failed,
            pages: tally.pages,
            pages_failed: tally.pages_failed,
            objects: tally.objects,
            cached: tally.cached,
            redirects: tally.redirects,
            bytes_in: tally.bytes_in,
            bytes_out: tally.bytes_out,
            connects: tally.connects,
            resumed: tally.resumed,
            ok_per_second: rate(tally.ok),
            pages_per_second: rate(tally.pages),
            bytes_in_per_second: rate(tally.bytes_in),
            connect: Times::of(&tally.connect).into(),
            tls: Times::of(&tally.tls).into(),
            first_byte: Times::of(&tally.first_byte).into(),
            last_byte: Times::of(&tally.last_byte).into(),
            page: Times::of(&tally.page).into(),
            server: Server::over(seconds),
        }
    }
}

impl From<Times> for Latency {
    fn from(times: Times) -> Latency {
        Latency {
            count: times.count,
            mean_us: round(times.mean),
            min_us: times.min,
            p50_us: times.p50,
            p90_us: times.p90,
            p95_us: times.p95,
            p99_us: times.p99,
            p999_us: times.p999,
            max_us: times.max,
        }
    }
}

impl Server {
    fn of(sample: &record::ServerSample, drops_before: Option<u64>) -> Server {
        Server {
            cpu: sample.cpu.map(round),
            memory_bytes: sample.memory,
            machine_cpu: sample.machine_cpu.map(round),
            machine_memory_bytes: sample.machine_memory,
            listen_drops: sample.listen_drops.map(|now| now.saturating_sub(drops_before.unwrap_or(0))),
            conntrack: sample.conntrack.map(|(entries, _)| entries),
            conntrack_limit: sample.conntrack.map(|(_, limit)| limit),
            own: sample.own.map(MillraceSummary::of),
        }
    }

    /// Means of processor time, and the most of everything else.
    pub(super) fn over<'a>(seconds: impl Iterator<Item = &'a JsonSecond>) -> Option<Server> {
        let samples: Vec<Server> = seconds.filter_map(|second| second.server).collect();
        let mean = |of: fn(&Server) -> Option<f64>| {
            let all: Vec<f64> = samples.iter().filter_map(of).collect();
            (!all.is_empty()).then(|| round(all.iter().sum::<f64>() / all.len() as f64))
        };
        let most = |of: fn(&Server) -> Option<u64>| samples.iter().filter_map(of).max();
        (!samples.is_empty()).then(|| Server {
            cpu: mean(|s| s.cpu),
            memory_bytes: most(|s| s.memory_bytes),
            machine_cpu: mean(|s| s.machine_cpu),
            machine_memory_bytes: most(|s| s.machine_memory_bytes),
            listen_drops: most(|s| s.listen_drops),
            conntrack: most(|s| s.conntrack),
            conntrack_limit: most(|s| s.conntrack_limit),
            own: MillraceSummary::over(samples.iter().filter_map(|s| s.own)),
        })
    }
}

impl JsonStep {
    fn of(row: &StepRow) -> JsonStep {
        let wrong = |wrong: &Wrong| JsonWrong {
            target: wrong.target.clone(),
            expected: wrong.expected.clone(),
            found: wrong.found.clone(),
        };
        JsonStep {
            name: row.name.clone(),
            ok: row.ok,
            failed: row.failures.total(),
            failures: kinds(&row.failures),
            last_byte: Times::of(&row.last_byte).into(),
            wrong: row.wrong.iter().map(wrong).collect(),
        }
    }
}

impl JsonStage {
    fn of(stage: &record::Stage, index: usize, seconds: &[JsonSecond]) -> JsonStage {
        let time = Duration::from_secs_f64((stage.end - stage.begin).max(0.0));
        let own = seconds.iter().filter(|second| second.stage == index);
        JsonStage {
            name: stage.name.clone(),
            begin: round(stage.begin),
            end: round(stage.end),
            from: round(stage.from),
            to: round(stage.to),
            round: stage.round,
            summary: Summary::of(&stage.tally, time, own),
            bottleneck: None,
            method: Method::default(),
        }
    }
}

impl JsonSecond {
    fn of(second: &record::Second, run: &Run) -> JsonSecond {
        let drops_before = run.seconds.iter().find_map(|s| s.server.as_ref()?.listen_drops);
        JsonSecond {
            at: second.at,
            stage: second.stage,
            length: round(second.length),
            users: second.users,
            connections: second.connections,
            wanted: round(second.wanted),
            begun: second.begun,
            ok: second.ok,
            failed: second.failures.total(),
            failures: kinds(&second.failures),
            pages: second.pages,
            bytes_in: second.bytes_in,
            bytes_out: second.bytes_out,
            connects: second.connects,
            connect: second.connect.into(),
            tls: second.tls.into(),
            first_byte: second.first_byte.into(),
            last_byte: second.last_byte.into(),
            page: second.page.into(),
            server: second.server.as_ref().map(|sample| Server::of(sample, drops_before)),
            tester_cpu: round(second.tester_cpu),
            programs: second.server.iter().flat_map(|sample| &sample.programs).map(JsonProgram::of).collect(),
        }
    }
}

impl JsonFinding {
    /// `cpu-busy: all processors are busy (100 % busy in 5 s)`
    pub fn words(&self) -> String {
        format!("{}: {} ({})", self.id, self.what, self.evidence.join("; "))
    }
}

impl JsonChange {
    /// `db-pool-size: innodb_buffer_pool_size 128M -> 512M`
    pub fn words(&self) -> String {
        let setting = |setting: &JsonSetting| {
            format!("{} {} -> {}", setting.name, setting.before.as_deref().unwrap_or("?"), setting.after)
        };
        format!("{}: {}", self.why, self.settings.iter().map(setting).collect::<Vec<_>>().join(", "))
    }
}

impl JsonProgram {
    fn of((name, program): &(String, record::Program)) -> (String, JsonProgram) {
        let record::Program { cpu, processes, working } = *program;
        (name.clone(), JsonProgram { cpu: round(cpu), processes, working })
    }
}

impl JsonTester {
    fn of(tester: &record::Tester) -> JsonTester {
        JsonTester {
            cpu_seconds: round(tester.cpu),
            busiest_thread: round(tester.busiest_thread),
            descriptors: tester.descriptors,
            most_descriptors: tester.most_descriptors,
            ports: tester.ports,
            addresses: tester.addresses,
            latest_start_us: tester.latest_start,
            missed_arrivals: tester.missed,
            memory_bytes: tester.memory,
            bottlenecks: tester.bottlenecks.clone(),
        }
    }
}

impl JsonTrial {
    fn of(trial: &record::Trial) -> JsonTrial {
        JsonTrial { load: round(trial.load), held: trial.held, why: trial.why.clone() }
    }
}

fn kinds(failures: &Failures) -> Kinds {
    failures.kinds().map(|(kind, count)| (kind.name().to_owned(), count)).collect()
}

fn since_1970(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// To a thousandth; JSON has no other numbers.
fn round(number: f64) -> f64 {
    if number.is_finite() { (number * 1000.0).round() / 1000.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_document_is_said() {
        let read = |text: &str| Document::from_json(text).unwrap_err();
        assert!(matches!(read("{}"), NotDocument::NoResult(_)));
        assert_eq!(read(r#"{"format":"k6/1"}"#), NotDocument::Format("k6/1".to_owned()));
        assert!(matches!(read(&format!(r#"{{"format":"{FORMAT}"}}"#)), NotDocument::Wrong(_)));
    }
}
