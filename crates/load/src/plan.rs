//! The course of a run, as resolved from the command line: how many users arrive when, over which protocol, until
//! when.

use std::time::Duration;

/// A run, without the users' actions ([`crate::scenario::Scenario`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The kind of load: users or arrivals.
    pub arrivals: ArrivalModel,
    /// The stages of the load.
    pub curve: Curve,
    /// A user begins a flow at this interval, counted from when the last one was due (closed arrivals); `None`: one
    /// after the other.
    pub every: Option<Duration>,
    /// Think time between flows, evenly distributed between these two, if a step doesn't set another.
    pub think: Option<(Duration, Duration)>,
    /// Maximum connections of open arrivals; `None`: no limit. An arrival that finds none free waits, and the wait
    /// counts.
    pub connections: Option<u32>,
    /// Connections of a page load over HTTP/1.1.
    pub page_connections: u32,
    /// HTTP/2 instead of HTTP/1.1.
    pub http2: bool,
    /// Whether connections are kept alive.
    pub keep_alive: bool,
    /// Requests in progress on a connection at once (HTTP/1.1, closed arrivals, scenarios of single requests).
    pub pipeline: u32,
    /// Whether TLS sessions are resumed; otherwise each handshake is a full one.
    pub resumption: bool,
    /// Which certificates a server may have.
    pub certificates: Certificates,
    /// `Accept-Encoding`; empty: none.
    pub accept_encoding: String,
    /// After how long a request has failed.
    pub timeout: Duration,
    /// Threads; `None`: one per core, and more where descriptors are short.
    pub threads: Option<usize>,
    /// Whether responses must equal the reference responses.
    pub sameness: bool,
    /// When to stop before the stages are through.
    pub stop: Stop,
    /// After the breaking point: whether the highest load that holds is searched for.
    pub bisect: bool,
    /// Addresses to connect to, instead of looking the host's name up.
    pub connect_to: Option<std::net::SocketAddr>,
    /// Source addresses to connect from; empty: the system's choice, on loopback as many as the ports need.
    pub sources: Vec<std::net::IpAddr>,
}

/// Which certificates a server may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Certificates {
    /// Any: the tested server is usually one's own, often with a temporary certificate.
    #[default]
    Any,
    /// Certificates that those in this file (PEM) have signed, with the right name, and not expired.
    TrustedBy(std::path::PathBuf),
}

/// The kind of load: users or arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalModel {
    /// A number of users; each starts its flow again when it is done.
    Closed,
    /// A number of flows starts per second, however slow the server is.
    Open,
}

/// The load over time: users or arrivals a second, a straight line in each stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// The stages, in order.
    pub stages: Vec<Segment>,
}

/// A stage of the load.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Users or arrivals a second at its beginning.
    pub from: f64,
    /// The same at its end.
    pub to: f64,
    /// How long it takes.
    pub time: Duration,
    /// Whether it is a round: a line of its own in the table of rounds.
    pub round: bool,
}

/// A condition that ends a run early.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// After this many requests.
    pub requests: Option<u64>,
    /// When this share of requests failed over the window: 0.05 is 5 %.
    pub failed_share: Option<f64>,
    /// When the 99th percentile of the time to the last byte was longer over the window.
    pub p99: Option<Duration>,
    /// The window.
    pub window: Duration,
}
