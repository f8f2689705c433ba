//! State of PHP: workers, pools, backends.

use std::time::Duration;

use super::rewind::RewindStatus;

/// A snapshot of a site's PHP, for the admin address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhpStatus {
    /// Name of its first site; for persistent workers with the path of their script.
    pub name: String,
    /// Version of PHP; empty until the host process is ready.
    pub php_version: String,
    /// Maximum number of workers.
    pub most: u64,
    /// How the maximum was computed; `None`: it is configured, or not computed yet.
    pub most_how: Option<String>,
    /// Workers that are being forked.
    pub starting: u64,
    /// Workers that wait for a request.
    pub idle: u64,
    /// Workers that run a script for a client.
    pub running: u64,
    /// Workers that continue after the response is complete (`fastcgi_finish_request`).
    pub background: u64,
    /// Workers that are exiting.
    pub exiting: u64,
    /// Requests that wait for a worker.
    pub waiting: u64,
    /// The pools that share the workers.
    pub pools: Vec<PoolStatus>,
    /// Resident memory of all workers, bytes; memory that they share counts for each.
    pub memory: u64,
    /// What rewound workers do; `None`: there are none.
    pub rewind: Option<RewindStatus>,
    /// Why there are no workers, if the PHP host does not start.
    pub trouble: Option<String>,
    /// php-fpm backends; empty: Millrace's own workers run PHP.
    pub backends: Vec<BackendStatus>,
    /// Busy workers, the longest-running first.
    pub busy: Vec<BusyWorker>,
    /// All workers.
    pub each: Vec<WorkerStatus>,
    /// Slow scripts of the last minutes, the slowest first.
    pub slowest: Vec<SlowScript>,
}

/// A snapshot of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// `front`, `admin`, `background`, or the name of a configured pool.
    pub name: String,
    /// Workers that run its requests.
    pub running: u64,
    /// Workers of its share, without borrowed ones.
    pub workers: u64,
    /// Maximum number of workers at this time, including those that it may borrow.
    pub limit: u64,
    /// Requests in its queue.
    pub waiting: u64,
    /// Maximum length of its queue.
    pub queue: u64,
    /// Estimated time that a new request would wait for a worker; `None`: nothing was served yet.
    pub expected_wait: Option<Duration>,
    /// Browsers in the waiting room.
    pub waiting_room: u64,
    /// Concurrency limit, where more requests at once would only slow each other down; `None`: no limit.
    pub held_to: Option<u64>,
    /// For how long it has been overloaded; `None`: it is not.
    pub overloaded: Option<Duration>,
    /// Average time that its recent requests took once they had a worker.
    pub service: Option<Duration>,
    /// Requests that got a worker, since the pool was created.
    pub served: u64,
    /// Requests refused on arrival.
    pub refused: u64,
    /// Requests refused because they waited too long.
    pub late: u64,
    /// Requests of the last minute that waited.
    pub waited: u64,
    /// Average wait of these.
    pub wait_mean: Duration,
    /// Longest wait of these.
    pub wait_most: Duration,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerStatus {
    /// Its process id.
    pub pid: u32,
    /// Its state, as in [`PhpStatus::workers`].
    pub state: &'static str,
    /// Requests that it has received.
    pub requests: u64,
    /// Resident memory, bytes, including memory that it shares with others.
    pub memory: u64,
    /// Private memory, bytes; 0: not measured.
    pub own: u64,
}

/// A script that was slow lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowScript {
    /// Its path.
    pub script: String,
    /// Host and path of the request.
    pub page: String,
    /// Its longest run.
    pub most: Duration,
    /// Slow runs in the last minutes.
    pub count: u64,
}

/// A snapshot of a php-fpm backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendStatus {
    /// Its address, as configured.
    pub address: String,
    /// Whether it gets requests.
    pub up: bool,
    /// Open connections.
    pub connections: u64,
    /// Connections with a request.
    pub busy: u64,
    /// Maximum number of connections that it accepts, if known.
    pub most: Option<u64>,
    /// Requests sent to it.
    pub requests: u64,
    /// Connections that could not be opened, or failed.
    pub failures: u64,
    /// Why it gets no requests.
    pub trouble: Option<String>,
}

/// A worker that runs a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyWorker {
    /// Its process id.
    pub pid: u32,
    /// Whether the response is already complete (`fastcgi_finish_request`).
    pub background: bool,
    /// The script's path.
    pub script: String,
    /// Time since it got the request.
    pub time: Duration,
    /// Resident memory, bytes, as last reported.
    pub memory: u64,
}

impl PhpStatus {
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
