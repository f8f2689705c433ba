//! The counts and times of a run, as plain data. All output is made from a [`Run`].
//!
//! Times are microseconds in histograms of three significant digits. A [`Tally`] is a sum over a span of time: the
//! engine's threads report one each second, the coordinator merges them into a [`Second`], the current [`Stage`] and
//! the total.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;

use crate::steps::{self, StepRow};

/// A run: complete, or so far.
#[derive(Clone, Debug)]
pub struct Run {
    /// The options and the target of the run.
    pub description: Description,
    /// The stages of the load, in order, as far as they have begun; rounds are stages too.
    pub stages: Vec<Stage>,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// Everything together.
    pub total: Tally,
    /// Its requests by step; what pages need in the last row. Known when the run has ended.
    pub steps: Vec<StepRow>,
    /// How long it took, without the quiet fetches before.
    pub elapsed: Duration,
    /// The tester's own limits.
    pub tester: Tester,
    /// Why it ended; `None`: it is in progress.
    pub end: Option<End>,
    /// The search for the highest rate that holds, try by try; the last line is the result.
    pub bisection: Vec<Trial>,
    /// Notes for the reader of the report: a URL has responses that differ without load, a limit was reached, ...
    pub notes: Vec<String>,
}

/// The options and the target of the run.
#[derive(Clone, Debug)]
pub struct Description {
    /// The command line.
    pub command: Vec<String>,
    /// Where the requests went: `https://shop.test:8443`.
    pub target: String,
    /// Name of the scenario.
    pub scenario: String,
    /// The arrivals in words: `64 users`, `0 to 1000 a second in 60 s`.
    pub arrivals: String,
    /// Whether arrivals are a rate (open) rather than a number of users (closed).
    pub open: bool,
    /// `HTTP/1.1` or `HTTP/2`, with ` over TLS`.
    pub protocol: String,
    /// `Accept-Encoding` of the requests; empty: none.
    pub accept_encoding: String,
    /// Whether connections are kept alive.
    pub keep_alive: bool,
    /// Requests in progress on a connection at once.
    pub pipeline: u32,
    /// After how long a request has failed.
    pub timeout: Duration,
    /// Threads of the tester.
    pub threads: usize,
    /// When it began.
    pub started: SystemTime,
    /// Name of the tester's machine.
    pub machine: String,
    /// Its processors.
    pub cores: usize,
    /// Its memory in bytes.
    pub memory: u64,
    /// The target's `Server` field, from the first response.
    pub server: Option<String>,
}

/// A stretch of the load: a segment of the ramp, a hold, a step, a round.
#[derive(Clone, Debug)]
pub struct Stage {
    /// `0 to 100000 users`, `hold`, `round 3`.
    pub name: String,
    /// When it began, in seconds from the start of the run.
    pub begin: f64,
    /// When it ended; for the current one, the time so far.
    pub end: f64,
    /// Users (closed) or arrivals a second (open) at its beginning.
    pub from: f64,
    /// The same at its end.
    pub to: f64,
    /// Its events.
    pub tally: Tally,
    /// Whether it was meant to be run as a round (R2's method): a line of the table of rounds.
    pub round: bool,
}

/// A second of the run.
#[derive(Clone, Debug)]
pub struct Second {
    /// Its number: 0 is the first.
    pub at: u32,
    /// Index of its stage.
    pub stage: usize,
    /// How long it was, in seconds: the last one may be short.
    pub length: f64,
    /// Users at its end: closed, present ones; open, flows in progress.
    pub users: u64,
    /// Connections open at its end.
    pub connections: u64,
    /// Users or arrivals a second that were wanted at its end.
    pub wanted: f64,
    /// Requests begun and flows due in it.
    pub begun: u64,
    /// Right responses.
    pub ok: u64,
    /// Full page loads.
    pub pages: u64,
    /// Bytes received and sent, as on the connection (inside TLS).
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Connections opened.
    pub connects: u64,
    /// Failures by kind.
    pub failures: Failures,
    /// Time until connected.
    pub connect: Times,
    /// Time of TLS handshakes.
    pub tls: Times,
    /// Time to first byte.
    pub first_byte: Times,
    /// Time until the response was complete.
    pub last_byte: Times,
    /// Time until a page and all it needs was there.
    pub page: Times,
    /// The server, where it can be seen.
    pub server: Option<ServerSample>,
    /// Processor time of the tester in this second: 1.0 is one core.
    pub tester_cpu: f64,
}

/// A sum over a span of time.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests begun.
    pub begun: u64,
    /// Responses that arrived whole, right or wrong.
    pub responses: u64,
    /// Responses that arrived whole and passed all checks.
    pub ok: u64,
    /// Failures by kind.
    pub failures: Failures,
    /// Responses by status: index `status - 100`, 500 of them.
    pub statuses: Vec<u64>,
    /// Flows that went through.
    pub flows: u64,
    /// Flows that a failure ended.
    pub flows_failed: u64,
    /// Full page loads: the page and all it needs arrived and was right.
    pub pages: u64,
    /// Page loads with a failure.
    pub pages_failed: u64,
    /// Requests for things that a page needs.
    pub objects: u64,
    /// Responses that were not fetched because the browser cache had them fresh.
    pub cached: u64,
    /// Redirects that were followed.
    pub redirects: u64,
    /// Bytes received, as on the connection (inside TLS).
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Connections opened.
    pub connects: u64,
    /// TLS handshakes that resumed an earlier session.
    pub resumed: u64,
    /// Time until connected.
    pub connect: Histogram<u64>,
    /// Time of TLS handshakes.
    pub tls: Histogram<u64>,
    /// Time to first byte: of open arrivals, from when it was due.
    pub first_byte: Histogram<u64>,
    /// Time until the response was complete.
    pub last_byte: Histogram<u64>,
    /// Time until a page and all it needs was there.
    pub page: Histogram<u64>,
}

/// Requests that failed, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures([u64; Failure::ALL.len()]);

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The connection was refused.
    Refused,
    /// The connection was reset or closed before the response began.
    Reset,
    /// Not connected, or no complete response, within the time limit.
    TimeOut,
    /// The TLS handshake failed, or a record was wrong.
    Tls,
    /// The response is not valid HTTP.
    BadHttp,
    /// A status of 400-499 that no check allows.
    Status4xx,
    /// A status of 500-599 that no check allows.
    Status5xx,
    /// Another status that no check allows.
    StatusOther,
    /// The content fails a check, or differs from that of other responses.
    WrongContent,
    /// The length is not the one that was to be expected.
    WrongLength,
    /// The connection ended before the content did.
    ShortBody,
    /// A network failure: no route, unreachable.
    Unreachable,
    /// The tester's own: no descriptor, port or memory for another connection.
    Tester,
}

/// A histogram in a few figures, in microseconds; all 0 if nothing was timed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// How many were timed.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Least.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 95 %.
    pub p95: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// Most.
    pub max: u64,
}

/// The server at the end of a second: as far as it can be seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerSample {
    /// Processor time of its processes in the second: 1.0 is one core.
    pub cpu: Option<f64>,
    /// Memory of its own in bytes: anonymous and shared memory of its processes, without mapped files.
    pub memory: Option<u64>,
    /// Processor time of the whole machine in the second, of all cores: 1.0 is one core.
    pub machine_cpu: Option<f64>,
    /// Memory in use on the machine, the kernel's with it: total less available.
    pub machine_memory: Option<u64>,
    /// Connections that the kernel dropped since the start because a listening queue was full.
    pub listen_drops: Option<u64>,
    /// Entries of the connection tracking table, and how many it may have.
    pub conntrack: Option<(u64, u64)>,
    /// Its processes, by the program that they run.
    pub programs: Vec<(String, Program)>,
    /// The server's own metrics, if it is a Millrace.
    pub own: Option<MillraceSample>,
}

/// A Millrace's own metrics: its state at the end of the second, and the events in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MillraceSample {
    /// Connections open.
    pub connections: u64,
    /// PHP workers that run a script.
    pub php_running: u64,
    /// PHP workers that there may be.
    pub php_limit: u64,
    /// Requests that wait for a PHP worker.
    pub php_waiting: u64,
    /// PHP requests in the second.
    pub php_requests: u64,
    /// Requests in the second that the page cache served, fresh or stale.
    pub cache_hits: u64,
    /// Requests that the cache could have served if it had had the page.
    pub cache_misses: u64,
    /// Requests and connections that were refused in the second because there were too many.
    pub refused: u64,
}

/// The server's processes that run one program, in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Program {
    /// Their processor time: 1.0 is one core.
    pub cpu: f64,
    /// How many there are.
    pub processes: u32,
    /// How many of them did something.
    pub working: u32,
}

/// The tester's own limits, and how close it came to them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tester {
    /// Processor time in seconds.
    pub cpu: f64,
    /// The busiest thread in the busiest second: 1.0 is a core all to itself.
    pub busiest_thread: f64,
    /// Descriptors that a thread may have.
    pub descriptors: u64,
    /// Most that a thread had.
    pub most_descriptors: u64,
    /// Ports of one source address to the target.
    pub ports: u64,
    /// Source addresses used.
    pub addresses: u64,
    /// How late open arrivals began at worst, in microseconds: because of the tester, not of the server.
    pub latest_start: u64,
    /// Open arrivals that were due and never began: because of the tester, not of the server.
    pub missed: u64,
    /// Peak of the tester's memory in bytes (resident).
    pub memory: u64,
    /// What limited the tester, with advice; empty: nothing, the figures are the server's.
    pub bottlenecks: Vec<String>,
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// All stages are through.
    Complete,
    /// The wanted number of requests was made.
    Count,
    /// Ctrl-C.
    Interrupted,
    /// The breaking point was found.
    Broken {
        /// The second in which it was noticed.
        second: u32,
        /// Users or arrivals a second at that time.
        at: f64,
        /// `5.2 % failures over 5 s`.
        why: String,
    },
    /// It could not continue: no server listens there, ...
    Impossible(String),
}

/// One try of the search for the highest rate that holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Users or arrivals a second.
    pub load: f64,
    /// Whether it held.
    pub held: bool,
    /// Why not, or how well: `p99 31 ms`.
    pub why: String,
}

impl Run {
    /// Adds a later run of the same scenario: its stages come after those that are there.
    pub fn append(&mut self, next: Run) {
        let (offset, stages) = (self.elapsed.as_secs_f64(), self.stages.len());
        let seconds = self.seconds.last().map_or(0, |second| second.at + 1);
        let later = |stage: Stage| Stage { begin: stage.begin + offset, end: stage.end + offset, ..stage };
        self.stages.extend(next.stages.into_iter().map(later));
        let shifted =
            |second: Second| Second { at: second.at + seconds, stage: second.stage + stages, ..second };
        self.seconds.extend(next.seconds.into_iter().map(shifted));
        self.total.add(&next.total);
        steps::add(&mut self.steps, &next.steps);
        self.elapsed += next.elapsed;
        self.tester.add(next.tester);
        self.end = next.end;
        for note in next.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

impl Tester {
    fn add(&mut self, next: Tester) {
        self.cpu += next.cpu;
        self.busiest_thread = self.busiest_thread.max(next.busiest_thread);
        self.most_descriptors = self.most_descriptors.max(next.most_descriptors);
        self.addresses = self.addresses.max(next.addresses);
        self.latest_start = self.latest_start.max(next.latest_start);
        self.missed += next.missed;
        self.memory = self.memory.max(next.memory);
        for bottleneck in next.bottlenecks {
            if !self.bottlenecks.contains(&bottleneck) {
                self.bottlenecks.push(bottleneck);
            }
        }
    }
}

impl Failure {
    /// All kinds, in the order of reports.
    pub const ALL: [Failure; 13] = [
        Failure::Refused,
        Failure::Reset,
        Failure::TimeOut,
        Failure::Tls,
        Failure::BadHttp,
        Failure::Status4xx,
        Failure::Status5xx,
        Failure::StatusOther,
        Failure::WrongContent,
        Failure::WrongLength,
        Failure::ShortBody,
        Failure::Unreachable,
        Failure::Tester,
    ];

    /// Its name in JSON and CSV; never changed.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Refused => "refused",
            Failure::Reset => "reset",
            Failure::TimeOut => "timeout",
            Failure::Tls => "tls",
            Failure::BadHttp => "bad_http",
            Failure::Status4xx => "status_4xx",
            Failure::Status5xx => "status_5xx",
            Failure::StatusOther => "status_other",
            Failure::WrongContent => "wrong_content",
            Failure::WrongLength => "wrong_length",
            Failure::ShortBody => "short_body",
            Failure::Unreachable => "unreachable",
            Failure::Tester => "tester",
        }
    }

    /// Its description.
    pub fn words(self) -> &'static str {
        match self {
            Failure::Refused => "connection refused",
            Failure::Reset => "connection reset or closed",
            Failure::TimeOut => "timed out",
            Failure::Tls => "TLS failed",
            Failure::BadHttp => "invalid HTTP",
            Failure::Status4xx => "status 4xx",
            Failure::Status5xx => "status 5xx",
            Failure::StatusOther => "unexpected status",
            Failure::WrongContent => "wrong content",
            Failure::WrongLength => "wrong length",
            Failure::ShortBody => "incomplete response",
            Failure::Unreachable => "unreachable",
            Failure::Tester => "limit of the load tester",
        }
    }
}

impl Failures {
    /// Counts one.
    pub fn count(&mut self, kind: Failure) {
        self.0[kind as usize] += 1;
    }

    /// How many of a kind.
    pub fn of(&self, kind: Failure) -> u64 {
        self.0[kind as usize]
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The kinds that happened, with their number.
    pub fn kinds(&self) -> impl Iterator<Item = (Failure, u64)> + '_ {
        Failure::ALL.into_iter().map(|kind| (kind, self.of(kind))).filter(|(_, n)| *n > 0)
    }

    /// Adds the failures of another span.
    pub fn add(&mut self, other: &Failures) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            begun: 0,
            responses: 0,
            ok: 0,
            failures: Failures::default(),
            statuses: vec![0; 500],
            flows: 0,
            flows_failed: 0,
            pages: 0,
            pages_failed: 0,
            objects: 0,
            cached: 0,
            redirects: 0,
            bytes_in: 0,
            bytes_out: 0,
            connects: 0,
            resumed: 0,
            connect: histogram(),
            tls: histogram(),
            first_byte: histogram(),
            last_byte: histogram(),
            page: histogram(),
        }
    }
}

impl Tally {
    /// Adds another span.
    pub fn add(&mut self, other: &Tally) {
        self.failures.add(&other.failures);
        for (mine, theirs) in self.statuses.iter_mut().zip(&other.statuses) {
            *mine += theirs;
        }
        for (mine, theirs) in [
            (&mut self.begun, other.begun),
            (&mut self.responses, other.responses),
            (&mut self.ok, other.ok),
            (&mut self.flows, other.flows),
            (&mut self.flows_failed, other.flows_failed),
            (&mut self.pages, other.pages),
            (&mut self.pages_failed, other.pages_failed),
            (&mut self.objects, other.objects),
            (&mut self.cached, other.cached),
            (&mut self.redirects, other.redirects),
            (&mut self.bytes_in, other.bytes_in),
            (&mut self.bytes_out, other.bytes_out),
            (&mut self.connects, other.connects),
            (&mut self.resumed, other.resumed),
        ] {
            *mine += theirs;
        }
        for (mine, theirs) in [
            (&mut self.connect, &other.connect),
            (&mut self.tls, &other.tls),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.last_byte, &other.last_byte),
            (&mut self.page, &other.page),
        ] {
            if !theirs.is_empty() {
                mine.add(theirs).expect("histograms that grow can hold each other's values");
            }
        }
    }

    /// Share of failed requests among the ended ones: 0.0 to 1.0.
    pub fn failed_share(&self) -> f64 {
        let failed = self.failures.total();
        let ended = self.ok + failed;
        if ended == 0 { 0.0 } else { failed as f64 / ended as f64 }
    }
}

impl Times {
    /// The figures of a histogram.
    pub fn of(histogram: &Histogram<u64>) -> Times {
        if histogram.is_empty() {
            return Times::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile);
        Times {
            count: histogram.len(),
            mean: histogram.mean(),
            min: histogram.min(),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
        }
    }
}

/// An empty histogram of microseconds: it grows as far as it must.
pub fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 1 << 16, 3).expect("bounds that hdrhistogram takes");
    histogram.auto(true);
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_in_their_place() {
        for (index, kind) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
        let mut failures = Failures::default();
        failures.count(Failure::ShortBody);
        assert_eq!(failures.kinds().collect::<Vec<_>>(), [(Failure::ShortBody, 1)]);
    }

    #[test]
    fn spans_add_up() {
        let mut one = Tally { ok: 1, ..Tally::default() };
        one.last_byte.record(100).unwrap();
        let mut two = Tally { ok: 2, ..Tally::default() };
        two.last_byte.record(90_000_000).unwrap();
        two.failures.count(Failure::Reset);
        one.add(&two);
        assert_eq!((one.ok, one.failed_share(), one.last_byte.len()), (3, 0.25, 2));
        assert!(Times::of(&one.last_byte).max >= 90_000_000);
        assert_eq!(Times::of(&one.page), Times::default());
    }
}
