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

/// `millrace load`
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// What to load: http://HOST[:PORT]/PATH or https://...; several of the same host are chosen from evenly
    #[arg(value_name = "URL", required_unless_present_any = ["scenario", "urls_from", "sitemap", "from_har", "compare"])]
    pub urls: Vec<String>,
    /// Where scenarios come from.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Who comes, and how long.
    #[command(flatten)]
    pub arrivals: ArrivalArgs,
    /// When to stop.
    #[command(flatten)]
    pub stop: StopArgs,
    /// What users do.
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// How requests are made.
    #[command(flatten)]
    pub protocol: ProtocolArgs,
    /// The tester itself.
    #[command(flatten)]
    pub tester: TesterArgs,
    /// What is made of the run.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Where scenarios come from, if not from the URLs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Scenarios from files (a URL beside them says which server is meant)")]
#[command(group(clap::ArgGroup::new("scenario_source").args(["scenario", "urls_from", "sitemap", "replay", "from_har"])))]
pub struct SourceArgs {
    /// A scenario: steps with forms, checks, and values that are taken out of responses (TOML; see docs/load-scenarios.md)
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// A list of URLs: [WEIGHT] URL, a line each
    #[arg(long, value_name = "FILE")]
    pub urls_from: Option<PathBuf>,
    /// The pages of a sitemap.xml, each as often as the others; of an index, those of all the sitemaps that it lists
    #[arg(long, value_name = "FILE|URL")]
    pub sitemap: Option<String>,
    /// The requests of an access log (combined format), at their times
    #[arg(long, value_name = "LOG", requires = "urls")]
    pub replay: Option<PathBuf>,
    /// With --replay: so many times as fast as it was
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// What a browser has recorded (HAR): its pages, and what their scripts have sent
    #[arg(long, value_name = "FILE")]
    pub from_har: Option<PathBuf>,
}

/// What is made of the run.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Results (written after each stage; - is standard output)")]
pub struct OutputArgs {
    /// A report to look at: one HTML file with all curves and tables
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// All figures as JSON (docs/load-schema.json)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The figures of each second, as comma-separated values
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// No live screen and no table
    #[arg(short, long)]
    pub quiet: bool,
    /// Instead of a run: draw two earlier ones in one picture, or one anew, from their --json
    #[arg(long, value_name = "A.json B.json", num_args = 1..=2, conflicts_with = "urls")]
    pub compare: Vec<PathBuf>,
    /// With --compare: what the servers are called; given twice
    #[arg(long, value_name = "NAME", requires = "compare")]
    pub name: Vec<String>,
    /// Instead of a run: write the scenario as a script for other testers
    #[arg(long, value_name = "TESTER", value_parser = ["k6"])]
    pub export: Option<String>,
}

/// Who comes when.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Who comes when")]
#[command(group(clap::ArgGroup::new("load").args(["users", "rate", "ramp", "rates", "rounds"])))]
pub struct ArrivalArgs {
    /// So many users at once, each with a connection; each begins again when it has its response [default: 10]
    #[arg(short, long, value_name = "N", value_parser = users)]
    pub users: Option<u32>,
    /// So many requests (or page loads) begin a second, however the server is doing; times count from when they were due
    #[arg(short, long, value_name = "N", value_parser = rate)]
    pub rate: Option<f64>,
    /// Users over time: FROM:TO:TIME or TO:TIME for a straight line, =N:TIME to stay at N; separated by commas
    #[arg(long, value_name = "STAGES", value_parser = stages)]
    pub ramp: Option<Curve>,
    /// Arrivals a second over time, written like --ramp: 0:1000:1m rises, =100:30s,=200:30s are steps, =50:1m,=900:5s,=50:1m is a spike
    #[arg(long, value_name = "STAGES", value_parser = stages)]
    pub rates: Option<Curve>,
    /// Rounds of so many users, each for --time: 50,100,200
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = users)]
    pub rounds: Option<Vec<u32>>,
    /// How long: of all, or of each round [default: 10s; with --requests, as long as they take]
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    pub time: Option<Duration>,
    /// After a ramp, how long its end is held
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub hold: Option<Duration>,
    /// Users hold their connection and make a request every so often, counted from when the last one was due
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub every: Option<Duration>,
    /// How long users think before they begin again: 2s, or 1s-5s for evenly between
    #[arg(long, value_name = "TIME", value_parser = durations, conflicts_with = "every")]
    pub think: Option<(Duration, Duration)>,
    /// With --rate or --rates: connections at most; who finds none free waits, and that counts
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: Option<u32>,
}

/// When to stop before the time is over.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "When to stop")]
#[command(group(clap::ArgGroup::new("breaking").args(["break_at", "break_p99"]).multiple(true)))]
pub struct StopArgs {
    /// After so many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// At the breaking point: when so much of the requests failed over --window
    #[arg(long = "break", value_name = "PERCENT", num_args = 0..=1, default_missing_value = "5", value_parser = percent)]
    pub break_at: Option<f64>,
    /// At the breaking point: when the 99th percentile was longer than this over --window
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub break_p99: Option<Duration>,
    /// How long failures and times are looked at together
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = some_time)]
    pub window: Duration,
    /// After the breaking point (--break, --break-p99), search for the highest load that holds
    #[arg(long, requires = "breaking")]
    pub bisect: bool,
}

/// What users do.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "What users do")]
pub struct ScenarioArgs {
    /// Load whole pages: the HTML, then the style sheets, scripts, pictures and fonts of the same host that it needs
    #[arg(long)]
    pub page: bool,
    /// Connections of a page load over HTTP/1.1
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub page_connections: u32,
    /// Users keep cookies
    #[arg(long)]
    pub cookies: bool,
    /// Users have a browser's cache: what is fresh isn't asked for, else with If-None-Match
    #[arg(long)]
    pub browser_cache: bool,
    /// Follow so many redirects in a row, on the same server [default: 10 for pages and scenario files, else 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=50))]
    pub redirects: Option<u8>,
    /// A field of all requests: 'Name: value', or 'Name:' to leave one out, like User-Agent; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = field)]
    pub fields: Vec<(String, String)>,
    /// Method
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET", value_parser = method)]
    pub method: String,
    /// Content of the requests
    #[arg(short, long, value_name = "TEXT")]
    pub data: Option<String>,
    /// Right are these statuses only [default: 200-399]
    #[arg(long, value_name = "STATUS,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(100..=599))]
    pub status: Vec<u16>,
    /// This text must be in the content; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub text: Vec<String>,
    /// This text must not be in the content; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub no_text: Vec<String>,
    /// The content, decoded, must have so many bytes
    #[arg(long, value_name = "BYTES")]
    pub length: Option<u64>,
    /// Responses need not be like the one in quiet, before the load
    #[arg(long)]
    pub no_sameness: bool,
    /// A part of pages that may differ, between these two texts; may be repeated
    #[arg(long, value_name = "BEFORE...AFTER", value_parser = between)]
    pub dynamic: Vec<(String, String)>,
}

/// How requests are made.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "How requests are made")]
pub struct ProtocolArgs {
    /// HTTP/2: agreed on by TLS, or from the first byte on where there is none
    #[arg(long)]
    pub http2: bool,
    /// A new connection for each request
    #[arg(long)]
    pub no_keep_alive: bool,
    /// Requests of a user on its connection at once (HTTP/2: streams)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["no_keep_alive", "page", "rate", "rates"])]
    pub pipeline: u32,
    /// Each TLS handshake in full: sessions are not resumed
    #[arg(long)]
    pub full_handshakes: bool,
    /// Take only certificates that are trusted and of the right name, by the authorities in FILE (PEM) or those of the system
    /// [default: any certificate is taken]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub verify_certificate: Option<Option<PathBuf>>,
    /// Accept-Encoding, as a browser's; empty for none
    #[arg(long, value_name = "CODINGS", default_value = "gzip, deflate, br, zstd")]
    pub accept_encoding: String,
    /// After how long a request has failed
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = some_time)]
    pub timeout: Duration,
    /// Connect to this address whatever the URL says
    #[arg(long, value_name = "ADDR:PORT")]
    pub connect_to: Option<SocketAddr>,
    /// Connect from this address; may be repeated, when the ports of one don't suffice
    #[arg(long, value_name = "ADDR")]
    pub source: Vec<IpAddr>,
}

/// The tester itself.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The tester")]
pub struct TesterArgs {
    /// Threads [default: one a core, and as many more as descriptors need]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub threads: Option<usize>,
    /// The target is mine, or its owner has agreed: needed for all but loopback and private networks
    #[arg(long)]
    pub i_own_this_target: bool,
    /// A process of the server whose processor time and memory are shown; may be repeated [default: who listens there]
    #[arg(long, value_name = "PID")]
    pub server_pid: Vec<u32>,
    /// Admin address of a Millrace server, for its own figures: 127.0.0.1:9100 or unix:/PATH [default: the Unix socket of
    /// the one that listens there, on this machine]
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
            BadValue::Speed => "above 0, at most 1000000",
            BadValue::Percent => "0 to 100",
            BadValue::NoNumber(error) => return error.fmt(f),
            BadValue::Field => "a field is 'Name: value'",
            BadValue::FieldCharacters => {
                "the name of a field has letters, digits and hyphens, its value is one line"
            }
            BadValue::Method => "a method is one word, like POST",
            BadValue::Users => return write!(f, "a number of users from 1 to {MOST_LOAD:.0}"),
            BadValue::Rate => {
                return write!(f, "a number of arrivals a second above 0, at most {MOST_LOAD:.0}");
            }
            BadValue::Time(error) => return error.fmt(f),
            BadValue::NoTime => "it has to be longer than nothing",
            BadValue::AdminAddress => "write 127.0.0.1:PORT or unix:/PATH, as in admin.listen",
            BadValue::Between => "a part that differs is 'BEFORE...AFTER'",
            BadValue::NothingBefore => "there must be a text before it",
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
        assert_eq!((speed("0"), some_time("0s")), (Err(BadValue::Speed), Err(BadValue::NoTime)));
        assert_eq!(some_time("s"), Err(BadValue::Time(NotTime::Form)));
        assert_eq!(["a b: c", "a: b\r\nc: d"].map(field), [const { Err(BadValue::FieldCharacters) }; 2]);
        assert_eq!((field("a"), method("a b")), (Err(BadValue::Field), Err(BadValue::Method)));
        assert!(field("a:").is_ok() && admin_address("unix:/x").is_ok());
        assert_eq!(admin_address("bogus"), Err(BadValue::AdminAddress));
    }
}
