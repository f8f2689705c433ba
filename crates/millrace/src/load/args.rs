//! `millrace load` as typed.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::ParseFloatError;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use millrace_load::plan::Curve;
use millrace_load::source::stages::{MOST_LOAD, stages};
use millrace_load::source::time::{NotTime, duration, durations};
use millrace_load::threshold::{Condition, NotCondition};

/// `millrace load`
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// URL to test: http://HOST[:PORT]/PATH or https://...; several URLs of the same host are chosen evenly
    #[arg(value_name = "URL", required_unless_present_any = ["scenario", "urls_from", "sitemap", "from_har", "compare"])]
    pub urls: Vec<String>,
    /// Where scenarios come from.
    #[command(flatten)]
    pub source: ScenarioFileArgs,
    /// The load, and how long.
    #[command(flatten)]
    pub arrivals: ArrivalArgs,
    /// Rounds that change settings.
    #[command(flatten)]
    pub tuning: TuningArgs,
    /// When to stop.
    #[command(flatten)]
    pub stop: StopArgs,
    /// What users do.
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// How requests are sent.
    #[command(flatten)]
    pub protocol: ProtocolArgs,
    /// The tester itself.
    #[command(flatten)]
    pub tester: TesterArgs,
    /// Results to write.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Where scenarios come from, if not from the URLs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Scenarios from files (a URL in addition names the server)")]
#[command(group(clap::ArgGroup::new("scenario_source").args(["scenario", "urls_from", "sitemap", "replay", "from_har"])))]
pub struct ScenarioFileArgs {
    /// Scenario file: steps with forms, checks, and values extracted from responses (TOML; see docs/load-scenarios.md)
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// List of URLs, one per line: [WEIGHT] URL
    #[arg(long, value_name = "FILE")]
    pub urls_from: Option<PathBuf>,
    /// Pages of a sitemap.xml, chosen evenly; for a sitemap index, the pages of all sitemaps in it
    #[arg(long, value_name = "FILE|URL")]
    pub sitemap: Option<String>,
    /// Replay the GET and HEAD requests of an access log (combined format) at their recorded times
    #[arg(long, value_name = "LOG", requires = "urls")]
    pub replay: Option<PathBuf>,
    /// With --replay: speed factor; 2 replays twice as fast as recorded
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// Recording of a browser (HAR): its pages, and the requests that their scripts sent
    #[arg(long, value_name = "FILE")]
    pub from_har: Option<PathBuf>,
}

/// Results to write.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Results (written after each stage; - for standard output)")]
pub struct OutputArgs {
    /// HTML report: one file with all charts and tables
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// All results as JSON (docs/load-schema.json)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Results of each second as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Print neither the live display nor the final table
    #[arg(short, long)]
    pub quiet: bool,
    /// Instead of a run: make a report of one earlier run, or of two side by side, from their --json files
    #[arg(long, value_name = "A.json B.json", num_args = 1..=2, conflicts_with = "urls")]
    pub compare: Vec<PathBuf>,
    /// With --compare: name of a server in the report; give it twice
    #[arg(long, value_name = "NAME", requires = "compare")]
    pub name: Vec<String>,
    /// Instead of a run: print the scenario as a script for another load tester
    #[arg(long, value_name = "TESTER", value_parser = ["k6"])]
    pub export: Option<String>,
}

/// Load over time: users or arrivals.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Load")]
#[command(group(clap::ArgGroup::new("load").args(["users", "rate", "ramp", "rates"])))]
pub struct ArrivalArgs {
    /// Concurrent users, each on its own connection; a user sends its next request as soon as it has the response
    /// [default: 10]
    #[arg(short, long, value_name = "N", value_parser = users)]
    pub users: Option<u32>,
    /// Arrivals per second: requests (or page loads) start at this rate however slow the server is; times are measured
    /// from when a request was due
    #[arg(short, long, value_name = "N", value_parser = rate)]
    pub rate: Option<f64>,
    /// Concurrent users over time, as comma-separated stages: FROM:TO:TIME or TO:TIME changes linearly, =N:TIME stays
    /// at N
    #[arg(long, value_name = "STAGES", value_parser = stages)]
    pub ramp: Option<Curve>,
    /// Arrivals per second over time, as in --ramp: 0:1000:1m is a ramp, =100:30s,=200:30s are steps,
    /// =50:1m,=900:5s,=50:1m is a spike
    #[arg(long, value_name = "STAGES", value_parser = stages)]
    pub rates: Option<Curve>,
    /// Rounds with these numbers of users, such as 50,100,200; each round takes --time. auto: double --users until the
    /// server does no more
    #[arg(long, value_name = "N,...|auto", value_parser = rounds)]
    pub rounds: Option<Rounds>,
    /// Duration of the test, or of each round [default: 10s; with --requests, until they are done]
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub time: Option<Duration>,
    /// After a ramp, hold its final load for this time
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub hold: Option<Duration>,
    /// Users keep their connection open and send a request at this interval, measured from when the last one was due
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub every: Option<Duration>,
    /// Think time of users between iterations: 2s, or 1s-5s for a random time in between
    #[arg(long, value_name = "TIME", value_parser = durations, conflicts_with = "every")]
    pub think: Option<(Duration, Duration)>,
    /// With --rate or --rates: maximum connections; an arrival that finds none free waits, and this wait counts
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: Option<u32>,
}

/// The rounds of `--rounds`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// As many users as the server can serve.
    Auto,
    /// With these numbers of users.
    Users(Vec<u32>),
}

/// Rounds that change settings.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Rounds that change settings (with --rounds auto; see docs/load-rounds.md)")]
pub struct TuningArgs {
    /// Change settings of `millrace tune` one after the other, those first that the doctor asks for; keep what helps,
    /// and put all of them back at the end
    #[arg(long, requires = "rounds")]
    pub tune: bool,
    /// Leave the settings that have helped in force; `millrace tune --undo` takes them back
    #[arg(long, requires = "tune")]
    pub keep: bool,
    /// Restart what reads its settings only at its start, such as 'systemctl restart mariadb'; run by sh after each
    /// change. Without it, only settings of the kernel are changed
    #[arg(long, value_name = "COMMAND", requires = "tune")]
    pub restart: Option<String>,
    /// Folder of the site: the doctor also looks at its database [default: the sites of a Millrace on this machine]
    #[arg(long, value_name = "DIR", requires = "rounds")]
    pub site: Option<PathBuf>,
}

/// When to stop early.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "When to stop early")]
#[command(group(clap::ArgGroup::new("breaking").args(["break_at", "break_p99"]).multiple(true)))]
pub struct StopArgs {
    /// Stop after this many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// Stop at the breaking point: when more than PERCENT of the requests fail within --window [without a value: 5]
    #[arg(long = "break", value_name = "PERCENT", num_args = 0..=1, default_missing_value = "5", value_parser = percent)]
    pub break_at: Option<f64>,
    /// Stop at the breaking point: when the 99th percentile of the response time within --window exceeds this
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub break_p99: Option<Duration>,
    /// Time window for --break and --break-p99
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = some_time)]
    pub window: Duration,
    /// Exit with status 1 if this is true at the end: a figure, < or >, a value, such as 'p95>500ms', 'errors>1%',
    /// 'page.p99>3s', 'rate<200'; may be repeated
    #[arg(long, value_name = "CONDITION", value_parser = condition)]
    pub fail_if: Vec<Condition>,
    /// With --rounds auto: what a load must fulfil to count as one that the server holds, such as 'p95<1s'; may be
    /// repeated [default: errors<5%]
    #[arg(long, value_name = "CONDITION", requires = "rounds", value_parser = condition)]
    pub slo: Vec<Condition>,
    /// After the breaking point (--break, --break-p99), search for the highest load that the server withstands
    #[arg(long, requires = "breaking")]
    pub bisect: bool,
}

/// What users do.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "What users do")]
pub struct ScenarioArgs {
    /// Load whole pages: the HTML, then its style sheets, scripts, images and fonts on the same host
    #[arg(long)]
    pub page: bool,
    /// Parallel connections of a page load over HTTP/1.1
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub page_connections: u32,
    /// Users accept and send cookies
    #[arg(long)]
    pub cookies: bool,
    /// Users have a browser cache: they don't request what is fresh, and revalidate what is stale with If-None-Match
    #[arg(long)]
    pub browser_cache: bool,
    /// Follow up to this many redirects in a row, on the same server [default: 10 for pages and scenario files, else 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=50))]
    pub redirects: Option<u8>,
    /// Header field of all requests: 'Name: value', or 'Name:' to omit one, such as User-Agent; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = field)]
    pub fields: Vec<(String, String)>,
    /// Request method
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET", value_parser = method)]
    pub method: String,
    /// Content (body) of the requests
    #[arg(short, long, value_name = "TEXT")]
    pub data: Option<String>,
    /// Count only these status codes as success [default: 200-399]
    #[arg(long, value_name = "STATUS,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(100..=599))]
    pub status: Vec<u16>,
    /// The content must contain this text; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub text: Vec<String>,
    /// The content must not contain this text; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub no_text: Vec<String>,
    /// The content, decoded, must have this many bytes
    #[arg(long, value_name = "BYTES")]
    pub length: Option<u64>,
    /// Don't compare responses with the reference response, which is fetched before the load starts
    #[arg(long)]
    pub no_sameness: bool,
    /// Ignore differences between these two texts when comparing responses; may be repeated
    #[arg(long, value_name = "BEFORE...AFTER", value_parser = between)]
    pub dynamic: Vec<(String, String)>,
}

/// How requests are sent.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "How requests are sent")]
pub struct ProtocolArgs {
    /// HTTP/2: negotiated by TLS (ALPN), or with prior knowledge over plain TCP
    #[arg(long)]
    pub http2: bool,
    /// Open a new connection for each request
    #[arg(long)]
    pub no_keep_alive: bool,
    /// Requests that a user has in flight on its connection (HTTP/2: streams)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["no_keep_alive", "page", "rate", "rates"])]
    pub pipeline: u32,
    /// Make every TLS handshake a full one: don't resume sessions
    #[arg(long)]
    pub full_handshakes: bool,
    /// Verify the server's certificate against the certificate authorities in FILE (PEM), or against the system's
    /// [default: accept any certificate]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub verify_certificate: Option<Option<PathBuf>>,
    /// Accept-Encoding header field; empty to omit it
    #[arg(long, value_name = "CODINGS", default_value = "gzip, deflate, br, zstd")]
    pub accept_encoding: String,
    /// Time limit of a request
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = some_time)]
    pub timeout: Duration,
    /// Connect to this address instead of the URL's
    #[arg(long, value_name = "ADDR:PORT")]
    pub connect_to: Option<SocketAddr>,
    /// Connect from this source address; may be repeated if one address has too few ports
    #[arg(long, value_name = "ADDR")]
    pub source: Vec<IpAddr>,
}

/// The tester itself.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Load tester")]
pub struct TesterArgs {
    /// Threads [default: one per core, and more if the limit of file descriptors requires it]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub threads: Option<usize>,
    /// Confirm that you own the target, or have its owner's permission; required outside loopback and private networks
    #[arg(long)]
    pub i_own_this_target: bool,
    /// Process of the server, to measure its CPU time and memory; may be repeated [default: the process that listens
    /// there]
    #[arg(long, value_name = "PID")]
    pub server_pid: Vec<u32>,
    /// Admin address of a Millrace server, to read its metrics: 127.0.0.1:9100 or unix:/PATH [default: the Unix socket
    /// of the Millrace that listens there, on this machine]
    #[arg(long, value_name = "ADDR", value_parser = admin_address)]
    pub metrics: Option<String>,
}

/// Why the value of an option can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BadValue {
    Speed,
    Percent,
    NoNumber(ParseFloatError),
    Field,
    FieldCharacters,
    Method,
    Users,
    Rounds,
    Rate,
    Time(NotTime),
    NoTime,
    AdminAddress,
    Between,
    NothingBefore,
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadValue::Speed => "must be above 0 and at most 1000000",
            BadValue::Percent => "must be from 0 to 100",
            BadValue::NoNumber(error) => return error.fmt(f),
            BadValue::Field => "write it as 'Name: value'",
            BadValue::FieldCharacters => {
                "a header field name consists of letters, digits and hyphens, its value is a single line"
            }
            BadValue::Method => "a method is one word, such as POST",
            BadValue::Users => return write!(f, "must be a number of users from 1 to {MOST_LOAD:.0}"),
            BadValue::Rounds => {
                return write!(
                    f,
                    "must be auto, or numbers of users from 1 to {MOST_LOAD:.0} such as 50,100,200"
                );
            }
            BadValue::Rate => {
                return write!(
                    f,
                    "must be a number of arrivals per second above 0 and at most {MOST_LOAD:.0}"
                );
            }
            BadValue::Time(error) => return error.fmt(f),
            BadValue::NoTime => "must be longer than zero",
            BadValue::AdminAddress => "write 127.0.0.1:PORT or unix:/PATH, as in admin.listen",
            BadValue::Between => "write it as 'BEFORE...AFTER'",
            BadValue::NothingBefore => "BEFORE must not be empty",
        })
    }
}

impl std::error::Error for BadValue {}

fn speed(text: &str) -> Result<f64, BadValue> {
    match text.parse::<f64>() {
        Ok(speed) if speed > 0.0 && speed <= 1e6 => Ok(speed),
        _ => Err(BadValue::Speed),
    }
}

fn percent(text: &str) -> Result<f64, BadValue> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().map_err(BadValue::NoNumber)?;
    if (0.0..=100.0).contains(&number) { Ok(number / 100.0) } else { Err(BadValue::Percent) }
}

fn field(text: &str) -> Result<(String, String), BadValue> {
    let (name, value) = text.split_once(':').ok_or(BadValue::Field)?;
    let (name, value) = (name.trim(), value.trim());
    if !is_token(name) || value.chars().any(char::is_control) {
        return Err(BadValue::FieldCharacters);
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn method(text: &str) -> Result<String, BadValue> {
    if is_token(text) { Ok(text.to_owned()) } else { Err(BadValue::Method) }
}

/// RFC 9110 section 5.6.2
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn users(text: &str) -> Result<u32, BadValue> {
    match text.parse::<u32>() {
        Ok(users) if users > 0 && f64::from(users) <= MOST_LOAD => Ok(users),
        _ => Err(BadValue::Users),
    }
}

fn rounds(text: &str) -> Result<Rounds, BadValue> {
    match text {
        "auto" => Ok(Rounds::Auto),
        _ => text
            .split(',')
            .map(users)
            .collect::<Result<_, _>>()
            .map(Rounds::Users)
            .map_err(|_| BadValue::Rounds),
    }
}

fn rate(text: &str) -> Result<f64, BadValue> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= MOST_LOAD => Ok(rate),
        _ => Err(BadValue::Rate),
    }
}

fn some_time(text: &str) -> Result<Duration, BadValue> {
    let time = duration(text).map_err(BadValue::Time)?;
    if time.is_zero() { Err(BadValue::NoTime) } else { Ok(time) }
}

fn condition(text: &str) -> Result<Condition, NotCondition> {
    text.parse()
}

fn admin_address(text: &str) -> Result<String, BadValue> {
    let is_path = text.strip_prefix("unix:").is_some_and(|path| !path.is_empty());
    if is_path || text.parse::<SocketAddr>().is_ok() {
        Ok(text.to_owned())
    } else {
        Err(BadValue::AdminAddress)
    }
}

fn between(text: &str) -> Result<(String, String), BadValue> {
    let (before, after) = text.split_once("...").ok_or(BadValue::Between)?;
    if before.is_empty() { Err(BadValue::NothingBefore) } else { Ok((before.to_owned(), after.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_shares_are_read() {
        assert_eq!(percent("5%").unwrap(), 0.05);
        assert_eq!(percent("101"), Err(BadValue::Percent));
        assert!(matches!(percent("many"), Err(BadValue::NoNumber(_))));
        assert_eq!(between("a=\"...\"").unwrap(), ("a=\"".to_owned(), "\"".to_owned()));
        assert_eq!((between("...b"), between("b")), (Err(BadValue::NothingBefore), Err(BadValue::Between)));
        assert_eq!(["0", "nan", "1e12"].map(rate), [const { Err(BadValue::Rate) }; 3]);
        assert_eq!((rate("0.5"), users("0")), (Ok(0.5), Err(BadValue::Users)));
        assert_eq!((rounds("auto"), rounds("1,20")), (Ok(Rounds::Auto), Ok(Rounds::Users(vec![1, 20]))));
        assert_eq!(["", "1,", "all"].map(rounds), [const { Err(BadValue::Rounds) }; 3]);
        assert_eq!((speed("0"), some_time("0s")), (Err(BadValue::Speed), Err(BadValue::NoTime)));
        assert_eq!(some_time("s"), Err(BadValue::Time(NotTime::Form)));
        assert_eq!(["a b: c", "a: b\r\nc: d"].map(field), [const { Err(BadValue::FieldCharacters) }; 2]);
        assert_eq!((field("a"), method("a b")), (Err(BadValue::Field), Err(BadValue::Method)));
        assert!(field("a:").is_ok() && admin_address("unix:/x").is_ok());
        assert_eq!(admin_address("bogus"), Err(BadValue::AdminAddress));
    }
}
