//! `millrace adopt --replay`: sends the requests of an access log to the old server and to the new one, and shows what differs.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use millrace_adopt::compare::{Answer, Difference, compare};
use millrace_load::engine;
use millrace_load::plan::{ArrivalModel, Certificates, Curve, Plan, Stop};
use millrace_load::scenario::{Request, Scenario};
use millrace_load::source::access_log;
use millrace_load::url::Url;

use super::AdoptArgs;
use crate::failure::{Explain, Failure};
use crate::load::own;
use crate::serve::say;

/// Longest log, bytes.
const LARGEST_LOG: u64 = 4 << 30;
/// Paths that are shown of each difference.
const MOST_SHOWN: usize = 5;
/// Requests that may fail one after the other before the comparison ends.
const MOST_FAILURES: usize = 5;

/// A request of a log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Logged {
    method: String,
    target: String,
    host: Option<String>,
}

/// A server of the two.
struct Side {
    url: Url,
    address: SocketAddr,
}

/// Compares the two servers.
///
/// # Errors
/// Something differs; a server is absent; the log has no requests.
pub fn replay(log: &Path, args: &AdoptArgs) -> Result<(), Failure> {
    let requests = requests(log, args.limit)?;
    let side = |text: &Option<String>| side(text.as_deref().unwrap_or_default(), args.i_own_this_target);
    let (old, new) = (side(&args.against)?, side(&args.with)?);
    let host = args.host.clone().unwrap_or_else(|| authority(&old.url));
    let pause = Duration::from_secs(1) / args.rate;
    let mut report = Report::default();
    let mut failures = 0;
    for request in &requests {
        let begun = Instant::now();
        let host = request.host.as_ref().unwrap_or(&host);
        match compared(request, host, &old, &new) {
            Ok(comparison) => {
                failures = 0;
                report.add(request, &comparison.differences);
                report.unsteady += usize::from(comparison.is_unsteady);
            }
            Err(why) => {
                failures += 1;
                report.failed.push(format!("{} {}: {why}", request.method, request.target));
                if failures == MOST_FAILURES {
                    return Err(Failure::new(format!("{MOST_FAILURES} requests in a row failed"))
                        .detail(why)
                        .next("are both servers running, at these addresses?"));
                }
            }
        }
        std::thread::sleep(pause.saturating_sub(begun.elapsed()));
    }
    report.print(requests.len())
}

/// The different requests of a log, at most `limit`.
fn requests(log: &Path, limit: usize) -> Result<Vec<Logged>, Failure> {
    let cannot = || format!("cannot read {}", log.display());
    if std::fs::metadata(log).or_fail(cannot)?.len() > LARGEST_LOG {
        return Err(Failure::new(format!("{} is larger than 4 GB", log.display()))
            .next("take the last lines of it: tail -n 100000"));
    }
    let text = std::fs::read(log).or_fail(cannot)?;
    let (mut seen, mut requests, mut unreadable, mut others) = (HashSet::new(), Vec::new(), 0, 0);
    for line in String::from_utf8_lossy(&text).lines().filter(|line| !line.trim().is_empty()) {
        match logged(line) {
            None => unreadable += 1,
            Some(request)
                if !matches!(request.method.as_str(), "GET" | "HEAD") || !request.target.starts_with('/') =>
            {
                others += 1
            }
            Some(request) if requests.len() < limit && seen.insert(request.clone()) => requests.push(request),
            Some(_) => {}
        }
    }
    if others > 0 {
        eprintln!("millrace: skipped {others} requests that are neither GET nor HEAD of a path");
    }
    if unreadable > 0 {
        eprintln!("millrace: skipped {unreadable} lines of {} that are no requests", log.display());
    }
    if requests.is_empty() {
        return Err(Failure::new(format!("{} has no GET or HEAD requests", log.display()))
            .next("use an access log in the common or combined format, or Millrace's in JSON"));
    }
    Ok(requests)
}

/// A line in the common or combined format, with the host before it (Apache's vhost_combined) or behind it (Millrace), or in
/// Millrace's JSON.
fn logged(line: &str) -> Option<Logged> {
    if line.trim_start().starts_with('{') {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
        return Some(Logged { method: text("method")?, target: text("target")?, host: text("host") });
    }
    let (_, method, target) = access_log::entry(line)?;
    let is_host = |text: &str| {
        let name = text.split(':').next().unwrap_or_default();
        name.contains('.') && name.parse::<std::net::IpAddr>().is_err() && !name.contains([' ', '/'])
    };
    let first = line.split(' ').next().filter(|word| {
        is_host(word) && line.split('[').next().is_some_and(|start| start.split_whitespace().count() == 4)
    });
    let last = line
        .rsplit(' ')
        .next()
        .and_then(|word| word.strip_prefix('"')?.strip_suffix('"'))
        .filter(|word| is_host(word));
    let own = first.or(last).map(|name| name.trim_end_matches(":80").trim_end_matches(":443").to_owned());
    // In a log, a quote and a byte that is no text are escaped.
    let target = target.split_once("\\x").map_or(target, |(start, _)| start);
    Some(Logged { method: method.to_owned(), target: target.to_owned(), host: own })
}

fn side(text: &str, is_confirmed: bool) -> Result<Side, Failure> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&with_scheme).or_fail(|| format!("cannot compare with {text}"))?;
    let address = engine::resolve(&url.origin).or_fail(|| "cannot find the server".to_owned())?;
    Ok(Side { address: own(&url.origin, address, is_confirmed)?, url })
}

/// The host of a URL, with its port unless it is the usual one.
fn authority(url: &Url) -> String {
    url.origin.to_string().split("://").last().unwrap_or_default().to_owned()
}

/// Asks the old server, the new one, and the old one again: what changes there by itself is no difference.
fn compared(
    request: &Logged,
    host: &str,
    old: &Side,
    new: &Side,
) -> Result<millrace_adopt::compare::Comparison, String> {
    let before = ask(request, host, old)?;
    let answer = ask(request, host, new)?;
    let after = ask(request, host, old)?;
    let hosts = [host.to_owned(), authority(&old.url), authority(&new.url)];
    Ok(compare(&before, &answer, &after, &hosts))
}

fn ask(request: &Logged, host: &str, side: &Side) -> Result<Answer, String> {
    let mut scenario = Scenario::one(side.url.origin.clone(), &request.target);
    scenario.fields.push(("Host".to_owned(), host.to_owned()));
    let target = side.url.with_target(&request.target).target;
    let ask = Request { method: request.method.clone(), target, ..Request::default() };
    let response = engine::exchange(&plan(), &scenario, &ask, side.address)
        .map_err(|error| format!("{}: {error}", side.url.origin))?;
    Ok(Answer {
        status: response.status,
        location: response.field("location"),
        content_type: response.field("content-type"),
        content: response.content,
    })
}

/// One request on a connection of its own, without compression.
fn plan() -> Plan {
    Plan {
        arrivals: ArrivalModel::Closed,
        curve: Curve::default(),
        every: None,
        think: None,
        connections: None,
        page_connections: 1,
        http2: false,
        keep_alive: true,
        pipeline: 1,
        resumption: false,
        certificates: Certificates::Any,
        accept_encoding: String::new(),
        timeout: Duration::from_secs(5),
        threads: None,
        sameness: false,
        stop: Stop { requests: None, failed_share: None, p99: None, window: Duration::from_secs(1) },
        bisect: false,
        connect_to: None,
        sources: Vec::new(),
    }
}

/// What differs, by its kind.
#[derive(Default)]
struct Report {
    differences: BTreeMap<Difference, Vec<String>>,
    different: usize,
    unsteady: usize,
    failed: Vec<String>,
}

impl Report {
    fn add(&mut self, request: &Logged, differences: &[Difference]) {
        self.different += usize::from(!differences.is_empty());
        for difference in differences {
            // Sizes and targets differ with each request: they are one kind.
            let text = if matches!(difference.kind, "content" | "location") {
                String::new()
            } else {
                difference.text.clone()
            };
            let shown = if text.is_empty() {
                format!("{} ({})", request.target, difference.text)
            } else {
                request.target.clone()
            };
            self.differences.entry(Difference { kind: difference.kind, text }).or_default().push(shown);
        }
    }

    /// Prints the table.
    fn print(&self, requests: usize) -> Result<(), Failure> {
        for (difference, targets) in &self.differences {
            say(format!("{:<9} {:<32} {:>6} requests", difference.kind, difference.text, targets.len())
                .trim_end())?;
            for target in targets.iter().take(MOST_SHOWN) {
                say(&format!("            {target}"))?;
            }
            if targets.len() > MOST_SHOWN {
                say(&format!("            and {} more", targets.len() - MOST_SHOWN))?;
            }
        }
        for failed in self.failed.iter().take(MOST_SHOWN) {
            say(&format!("failed    {failed}"))?;
        }
        let same = requests - self.different - self.failed.len();
        let unsteady = match self.unsteady {
            0 => String::new(),
            count => format!(" (the content of {count} changes with each request, and is not compared)"),
        };
        let summary = format!(
            "{requests} requests: {same} agree{unsteady}, {} differ, {} failed",
            self.different,
            self.failed.len()
        );
        match (self.different, self.failed.len()) {
            (0, 0) => say(&summary),
            (0, _) => Err(Failure::new(summary).next("are both servers running, at these addresses?")),
            _ => Err(Failure::new(summary).next("correct millrace.toml, and replay again")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_logs() {
        let tail = r#"[22/Nov/2026:06:28:25 +0000] "GET /a?b=1 HTTP/1.1" 200 12"#;
        let of = |line: &str| logged(line).map(|logged| (logged.method, logged.target, logged.host));
        let expected =
            |host: Option<&str>| Some(("GET".to_owned(), "/a?b=1".to_owned(), host.map(str::to_owned)));
        assert_eq!(of(&format!("1.2.3.4 - - {tail}")), expected(None));
        assert_eq!(of(&format!("1.2.3.4 - - {tail} \"-\" \"Mozilla/5.0 (x)\"")), expected(None));
        assert_eq!(of(&format!("a.example:443 1.2.3.4 - - {tail} \"-\" \"x\"")), expected(Some("a.example")));
        assert_eq!(
            of(&format!("1.2.3.4 - - {tail} \"-\" \"x\" 0.001 \"a.example\"")),
            expected(Some("a.example"))
        );
        assert_eq!(
            of(r#"{"host":"a.example","method":"GET","target":"/a?b=1"}"#),
            expected(Some("a.example"))
        );
        assert_eq!(of("hello"), None);
        assert_eq!(of("{"), None);
    }

    #[test]
    fn a_stranger_is_not_asked_without_consent() {
        let error = side("http://192.0.2.1/", false).err().expect("a refusal").to_string();
        assert!(error.contains("--i-own-this-target"), "{error}");
        assert!(side("http://127.0.0.1:1/", false).is_ok() && side("http://192.0.2.1/", true).is_ok());
        assert!(side("ftp://x/", true).is_err());
    }
}
