//! How a PHP pool is.

use std::time::Duration;

/// A PHP pool at one moment, for the admin address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// A name that people know it by: that of its first site.
    pub name: String,
    /// Version of PHP; empty until the host process is ready.
    pub php_version: String,
    /// Most workers at once.
    pub most: u64,
    /// How that was found; `None`: it is written, or not found yet.
    pub most_how: Option<String>,
    /// Workers that are being forked.
    pub starting: u64,
    /// Workers that wait for a request.
    pub idle: u64,
    /// Workers that run a script for a client.
    pub running: u64,
    /// Workers that run on after the answer is complete (`fastcgi_finish_request`).
    pub background: u64,
    /// Workers that are about to end.
    pub exiting: u64,
    /// Requests that wait for a worker.
    pub waiting: u64,
    /// Named shares of the workers: what people call pools of a site.
    pub lanes: Vec<LaneStatus>,
    /// Resident memory of the workers together, bytes; pages they share are counted for each.
    pub memory: u64,
    /// Database connections of the workers.
    pub database: DatabaseStatus,
    /// Why there are no workers, if the host process does not start.
    pub trouble: Option<String>,
    /// Those that run PHP by FastCGI; none: workers of our own do.
    pub backends: Vec<BackendStatus>,
    /// What the workers run, the longest first.
    pub busy: Vec<BusyWorker>,
    /// All workers.
    pub each: Vec<WorkerStatus>,
    /// Scripts that took long in the last minutes, the slowest first.
    pub slowest: Vec<SlowScript>,
}

/// Database connections (mysqli) of a pool's workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatabaseStatus {
    /// Connections that workers keep for their next request.
    pub kept: u64,
    /// Connections opened since the PHP host was started.
    pub opened: u64,
    /// How often a request found one that was kept.
    pub reused: u64,
}

/// A named share of a pool's workers at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneStatus {
    /// `front`, `admin`, `background`, or as somebody has named it.
    pub name: String,
    /// Workers that run for it.
    pub running: u64,
    /// Workers that are its own.
    pub workers: u64,
    /// Most that may run for it at this time, what it may borrow included.
    pub limit: u64,
    /// Requests that wait for a worker of it.
    pub waiting: u64,
    /// Requests that may.
    pub queue: u64,
    /// How long a visitor who came now would wait for a worker; `None`: nothing was served yet.
    pub expected_wait: Option<Duration>,
    /// Browsers in the waiting room.
    pub waiting_room: u64,
    /// How many run at once because more would only make each slower; `None`: nothing of that kind was found.
    pub held_to: Option<u64>,
    /// For how long more has come than can be served; `None`: it has not.
    pub overloaded: Option<Duration>,
    /// How long its last requests took on average once they had a worker.
    pub service: Option<Duration>,
    /// Requests that got a worker, since the pool was made.
    pub served: u64,
    /// Requests that were refused at once.
    pub refused: u64,
    /// Requests that were refused after they had waited too long.
    pub late: u64,
    /// Requests of the last minute that had to wait, and for how long.
    pub waited: u64,
    /// On average.
    pub wait_mean: Duration,
    /// At most.
    pub wait_most: Duration,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerStatus {
    /// Its process id.
    pub pid: u32,
    /// What it does, as in [`PoolStatus::workers`].
    pub state: &'static str,
    /// Requests that it has had.
    pub requests: u64,
    /// Resident memory, bytes; pages that it shares with others included.
    pub memory: u64,
    /// Memory that it shares with nobody, bytes; 0: not measured.
    pub own: u64,
}

/// A script that took long lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowScript {
    /// Its path.
    pub script: String,
    /// Host and path that were asked for.
    pub page: String,
    /// The longest that it took.
    pub most: Duration,
    /// Slow runs in the last minutes.
    pub count: u64,
}

/// A php-fpm at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendStatus {
    /// Where it is, as in the settings.
    pub address: String,
    /// Whether it gets requests.
    pub up: bool,
    /// Open connections.
    pub connections: u64,
    /// Those with a request.
    pub busy: u64,
    /// Most connections that it takes at once, if it has said so.
    pub most: Option<u64>,
    /// Requests that it was sent.
    pub requests: u64,
    /// Connections that could not be made, or failed.
    pub failures: u64,
    /// Why it gets no requests.
    pub trouble: Option<String>,
}

/// A worker that runs a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyWorker {
    /// Its process id.
    pub pid: u32,
    /// Whether the answer is complete already (`fastcgi_finish_request`).
    pub background: bool,
    /// The script's path.
    pub script: String,
    /// Since it got the request.
    pub time: Duration,
    /// Resident memory, bytes, as it last said.
    pub memory: u64,
}

impl PoolStatus {
    /// Workers by the name of their state.
    pub fn workers(&self) -> [(&'static str, u64); 5] {
        [
            ("starting", self.starting),
            ("idle", self.idle),
            ("running", self.running),
            ("background", self.background),
            ("exiting", self.exiting),
        ]
    }
}
