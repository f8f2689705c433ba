//! Fetches each URL before the load, to get reference responses.
//!
//! A URL is fetched until two responses are the same except for declared dynamic parts; if that doesn't happen, its
//! responses are not compared, and the report says so.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millrace_wire::response::{Collector, Response};
use rustls::StreamOwned;

use super::decode::decode;
use super::judge::{Expected, without};
use super::redirects;
use super::request::{Manner, Personal, has_names};
use super::tls::Tls;
use crate::page;
use crate::plan::Plan;
use crate::scenario::{Dynamic, MOST_REDIRECTS, Origin, Request, Scenario};
use crate::url::Url;

/// Maximum number of URLs that are fetched.
const MOST_URLS: usize = 500;
/// Tries until two responses are the same.
const MOST_TRIES: usize = 4;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one response may.
const PATIENCE_EACH: Duration = Duration::from_secs(5);
/// How soon a Ctrl-C is noticed.
const GLANCE: Duration = Duration::from_millis(200);
/// How long a server may take to become itself again after too much load.
const RECOVERY: Duration = Duration::from_secs(20);
/// How many prompt responses in a row show recovery: one may come from a less busy process.
const PROMPT_ANSWERS: usize = 8;
/// How much longer than without load a prompt response may take.
const PROMPT: Duration = Duration::from_millis(20);
/// Bytes of a response.
const MOST_BYTES: usize = 64 << 20;

/// The results.
#[derive(Debug, Default)]
pub struct Quiet {
    /// The reference response of each target.
    pub expected: HashMap<String, Arc<Expected>>,
    /// The `Server` field of the first response.
    pub server: Option<String>,
    /// How long the first URL took, twice; `None`: nothing was fetched.
    pub took: Option<Duration>,
    /// Notes for the report.
    pub notes: Vec<String>,
}

/// A response, content decoded.
struct Answer {
    response: Response,
    /// The last requested target, after redirects.
    target: String,
}

/// Fetches the URLs of the scenario.
pub fn look(plan: &Plan, scenario: &Scenario, target: SocketAddr, interrupted: &AtomicBool) -> Quiet {
    let mut quiet = Quiet::default();
    if plan.http2 && !scenario.origin.tls {
        // The reference responses are fetched over HTTP/1.1, which such a server may not support.
        quiet
            .notes
            .push("HTTP/2 without TLS: responses are not compared with reference responses".to_owned());
        return quiet;
    }
    let manner = Manner::new(plan, scenario);
    let begun = Instant::now();
    let steps = scenario.flows.iter().flat_map(|flow| &flow.steps);
    let mut queue: VecDeque<(Request, Option<u8>, Want)> = steps
        .filter(|step| is_fixed(&step.request))
        .map(|step| {
            (step.request.clone(), step.follows(), if step.page { Want::Page } else { Want::Nothing })
        })
        .collect();
    let mut seen: HashSet<String> = HashSet::new();
    let fetcher = Fetcher {
        plan,
        origin: &scenario.origin,
        dynamic: &scenario.dynamic,
        manner: &manner,
        target,
        interrupted,
    };
    while let Some((request, follows, want)) = queue.pop_front() {
        if seen.len() >= MOST_URLS || begun.elapsed() > PATIENCE || interrupted.load(Ordering::Relaxed) {
            let left = queue.len() + 1;
            quiet
                .notes
                .push(format!("{left} URLs have no reference response: their responses are not compared"));
            break;
        }
        if !seen.insert(request.target.clone()) {
            continue;
        }
        let asked = Instant::now();
        match fetcher.settled(&request, follows.unwrap_or(0), plan.sameness) {
            Ok((answer, is_same)) => {
                quiet.took = quiet.took.or_else(|| Some(asked.elapsed()));
                quiet.server = quiet.server.or_else(|| answer.response.field("server"));
                queue.extend(want.more(scenario, &answer.target, &answer.response.content));
                if plan.sameness && !is_same {
                    quiet.notes.push(format!(
                        "{} changes with every request, even without load: its responses are not compared; use \
                         --dynamic 'BEFORE...AFTER' to ignore the part that changes",
                        request.target
                    ));
                } else if plan.sameness {
                    let content = without(&answer.response.content, &scenario.dynamic);
                    let redirects = follows.unwrap_or(0);
                    let expected = Expected::new(request.clone(), redirects, answer.response.status, content);
                    quiet.expected.insert(request.target.clone(), Arc::new(expected));
                }
            }
            Err(error) => {
                let cure = cure_of(&error, scenario, target);
                quiet
                    .notes
                    .push(format!("{}, requested once before the load: {error}{cure}", request.target));
                if is_absence(&error) {
                    break;
                }
            }
        }
        if !plan.sameness {
            break;
        }
    }
    quiet
}

/// Waits until an overloaded server has recovered: its queues would otherwise affect the next load. It has when the
/// first URL arrives several times in a row about as fast as without load (`took`), or after [`RECOVERY`].
pub fn recover(
    plan: &Plan,
    scenario: &Scenario,
    target: SocketAddr,
    took: Option<Duration>,
    interrupted: &AtomicBool,
) {
    let step = scenario.flows.iter().flat_map(|flow| &flow.steps).find(|step| is_fixed(&step.request));
    let (Some(step), Some(took)) = (step, took) else { return std::thread::sleep(GLANCE * 10) };
    let manner = Manner::new(plan, scenario);
    let (origin, dynamic) = (&scenario.origin, &scenario.dynamic);
    let fetcher = Fetcher { plan, origin, dynamic, manner: &manner, target, interrupted };
    let (begun, mut in_a_row) = (Instant::now(), 0);
    while in_a_row < PROMPT_ANSWERS && begun.elapsed() < RECOVERY && !interrupted.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let is_prompt = fetcher.settled(&step.request, 0, false).is_ok() && asked.elapsed() <= took + PROMPT;
        in_a_row = if is_prompt { in_a_row + 1 } else { 0 };
        std::thread::sleep(GLANCE / 2);
    }
}

/// Whether a request can be made beforehand, and changes nothing.
fn is_fixed(request: &Request) -> bool {
    request.method == "GET" && !has_names(request)
}

/// The next part of a response.
#[derive(Clone, Copy)]
enum Want {
    Nothing,
    Page,
    Style,
}

impl Want {
    fn more(self, scenario: &Scenario, target: &str, content: &[u8]) -> Vec<(Request, Option<u8>, Want)> {
        let url = Url { origin: scenario.origin.clone(), target: target.to_owned() };
        let parts = match self {
            Want::Nothing => return Vec::new(),
            Want::Page => page::parts(&url, content),
            Want::Style => page::parts_of_style(&url, content),
        };
        let of = |kind| if kind == page::Kind::Style { Want::Style } else { Want::Nothing };
        let request = |target| Request { method: "GET".to_owned(), target, ..Request::default() };
        parts
            .own
            .into_iter()
            .map(|part| (request(part.url.target), Some(MOST_REDIRECTS), of(part.kind)))
            .collect()
    }
}

/// The content of a URL, as it is in quiet; redirects on the same server are followed.
///
/// # Errors
/// It isn't there: why.
pub fn fetch(plan: &Plan, url: &Url, target: SocketAddr) -> io::Result<Vec<u8>> {
    let scenario = Scenario::one(url.origin.clone(), &url.target);
    let manner = Manner::new(plan, &scenario);
    let fetcher = Fetcher {
        plan,
        origin: &url.origin,
        dynamic: &[],
        manner: &manner,
        target,
        interrupted: &AtomicBool::new(false),
    };
    let answer = fetcher.fetch(&scenario.flows[0].steps[0].request, MOST_REDIRECTS)?;
    match answer.response.status {
        200 => Ok(answer.response.content),
        status => Err(io::Error::other(format!("the server responded with status {status}"))),
    }
}

/// The response to one request, content decoded; redirects are not followed.
///
/// # Errors
/// There is none: why.
pub fn exchange(
    plan: &Plan,
    scenario: &Scenario,
    request: &Request,
    target: SocketAddr,
) -> io::Result<Response> {
    let manner = Manner::new(plan, scenario);
    let fetcher = Fetcher {
        plan,
        origin: &scenario.origin,
        dynamic: &[],
        manner: &manner,
        target,
        interrupted: &AtomicBool::new(false),
    };
    fetcher.fetch(request, 0).map(|answer| answer.response)
}

/// Asks for pages in quiet while the load goes on.
pub struct Reviewer<'a> {
    /// The run.
    pub plan: &'a Plan,
    /// Whose pages.
    pub scenario: &'a Scenario,
    /// Where they are.
    pub target: SocketAddr,
    /// The run ends at once.
    pub interrupted: &'a AtomicBool,
}

impl Reviewer<'_> {
    /// Status and content, without dynamic parts, of a page's request, if two responses are the same.
    pub fn settled(&self, page: &Expected) -> Option<(u16, Vec<u8>)> {
        let Reviewer { plan, scenario, target, interrupted } = *self;
        let manner = Manner::new(plan, scenario);
        let (origin, dynamic) = (&scenario.origin, &scenario.dynamic);
        let fetcher = Fetcher { plan, origin, dynamic, manner: &manner, target, interrupted };
        let (answer, is_same) = fetcher.settled(&page.request, page.redirects, true).ok()?;
        is_same.then(|| (answer.response.status, without(&answer.response.content, dynamic)))
    }
}

struct Fetcher<'a> {
    plan: &'a Plan,
    origin: &'a Origin,
    dynamic: &'a [Dynamic],
    manner: &'a Manner,
    target: SocketAddr,
    interrupted: &'a AtomicBool,
}

impl Fetcher<'_> {
    /// The response, and whether two were the same.
    fn settled(&self, request: &Request, redirects: u8, twice: bool) -> io::Result<(Answer, bool)> {
        let mut last = self.fetch(request, redirects);
        // A server that is absent or silent isn't asked again: the load will show it.
        let is_absent = matches!(&last, Err(error) if is_absence(error));
        if !twice || is_absent {
            return last.map(|answer| (answer, false));
        }
        for _ in 1..MOST_TRIES {
            let next = self.fetch(request, redirects);
            if let (Ok(one), Ok(two)) = (&last, &next) {
                let same = |answer: &Answer| without(&answer.response.content, self.dynamic);
                if one.response.status == two.response.status && same(one) == same(two) {
                    return next.map(|answer| (answer, true));
                }
            }
            if next.is_ok() || last.is_err() {
                last = next;
            }
        }
        last.map(|answer| (answer, false))
    }

    /// The response, after this many redirects at most.
    fn fetch(&self, request: &Request, redirects: u8) -> io::Result<Answer> {
        let mut request = request.clone();
        for left in (0..=redirects).rev() {
            let answer = self.fetch_once(&request)?;
            let Response { status, head, .. } = &answer.response;
            let next = redirects::after(self.origin, &request, &request.target, *status, head);
            match next {
                Some(Ok(next)) if left > 0 => request = next,
                _ => return Ok(answer),
            }
        }
        unreachable!("with none left the answer is returned")
    }

    fn fetch_once(&self, request: &Request) -> io::Result<Answer> {
        let stream = TcpStream::connect_timeout(&self.target, PATIENCE_EACH)?;
        stream.set_read_timeout(Some(GLANCE))?;
        stream.set_write_timeout(Some(PATIENCE_EACH))?;
        let stream =
            Patient { stream, deadline: Instant::now() + PATIENCE_EACH, interrupted: self.interrupted };
        let mut request = request.clone();
        request.fields.push(("Connection".to_owned(), "close".to_owned()));
        let bytes = self.manner.bytes_of(&request, Personal::default());
        if !self.origin.tls {
            return read(stream, request, &bytes);
        }
        // HTTP/1.1 here even where the load is HTTP/2: the content is the same.
        let tls = Tls::new(&self.origin.host, false, false, &self.plan.certificates);
        let connection = tls.map_err(io::Error::other)?.connect().map_err(io::Error::other)?;
        read(StreamOwned::new(*connection, stream), request, &bytes)
    }
}

/// A stream with a deadline that ends when the run is interrupted.
struct Patient<'a> {
    stream: TcpStream,
    deadline: Instant,
    interrupted: &'a AtomicBool,
}

impl Read for Patient<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(io::Error::other("interrupted"));
            }
            if Instant::now() > self.deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no complete response within 5 s"));
            }
            match self.stream.read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut)
}

/// Advice; empty if there is none.
fn cure_of(error: &io::Error, scenario: &Scenario, target: SocketAddr) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("; no server listens on {target}: is it running, and on this port?")
        }
        io::ErrorKind::InvalidData if scenario.origin.tls && error.to_string().contains("certificate") => {
            "; without --verify-certificate, any certificate is accepted".to_owned()
        }
        io::ErrorKind::InvalidData if scenario.origin.tls => {
            "; does the server speak TLS on this port?".to_owned()
        }
        _ => String::new(),
    }
}

fn read(mut stream: impl Read + Write, request: Request, bytes: &[u8]) -> io::Result<Answer> {
    stream.write_all(bytes)?;
    let (mut collector, mut piece) =
        (Collector::new(request.method == "HEAD", MOST_BYTES), vec![0; 64 << 10]);
    let response = loop {
        match stream.read(&mut piece) {
            Ok(0) => break collector.end()?,
            Ok(read) => {
                if let Some(response) = collector.feed(&piece[..read])? {
                    break response;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break collector.end()?,
            Err(error) => return Err(error),
        }
    };
    let content = decode(response.field("content-encoding").as_deref(), &response.content)
        .ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "the content does not match its Content-Encoding")
        })?
        .into_owned();
    Ok(Answer { response: Response { content, ..response }, target: request.target })
}
