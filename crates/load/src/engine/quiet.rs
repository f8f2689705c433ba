//! Before the load: each URL fetched in quiet, to know what is right.
//!
//! A URL is fetched until two responses are the same but for what is declared dynamic; where that doesn't happen, its responses
//! are not compared, and the report says so.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::StreamOwned;

use super::decode::decode;
use super::judge::{Expected, without};
use super::request::{Manner, Personal, has_names};
use super::response::{self, Item, Reader};
use super::tls::Tls;
use crate::page;
use crate::plan::Plan;
use crate::scenario::{Request, Scenario};
use crate::url::Url;

/// URLs that are looked at.
const MOST_URLS: usize = 500;
/// Tries until two responses are the same.
const MOST_TRIES: usize = 4;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one response may.
const PATIENCE_EACH: Duration = Duration::from_secs(5);
/// Bytes of a response.
const MOST_BYTES: u64 = 64 << 20;

/// What was found.
#[derive(Debug, Default)]
pub struct Quiet {
    /// What each target is like.
    pub expected: HashMap<String, Arc<Expected>>,
    /// The `Server` field of the first response.
    pub server: Option<String>,
    /// What people should know.
    pub notes: Vec<String>,
}

/// A response, content decoded.
struct Answer {
    status: u16,
    content: Vec<u8>,
    server: Option<String>,
}

/// Looks at the URLs of the scenario.
pub fn look(plan: &Plan, scenario: &Scenario, target: SocketAddr, interrupted: &AtomicBool) -> Quiet {
    let mut quiet = Quiet::default();
    if plan.http2 && !scenario.origin.tls {
        // What is fetched here is fetched over HTTP/1.1, which such a server may not speak.
        quiet.notes.push("HTTP/2 without TLS: responses are not compared with those in quiet".to_owned());
        return quiet;
    }
    let manner = Manner::new(plan, scenario);
    let begun = Instant::now();
    let steps = scenario.flows.iter().flat_map(|flow| &flow.steps);
    let mut queue: VecDeque<(Request, Want)> = steps
        .filter(|step| step.request.method == "GET" && !has_names(&step.request))
        .map(|step| (step.request.clone(), if step.page { Want::Page } else { Want::Nothing }))
        .collect();
    let mut seen: HashSet<String> = HashSet::new();
    let fetcher = Fetcher { scenario, manner: &manner, target };
    while let Some((request, want)) = queue.pop_front() {
        if seen.len() >= MOST_URLS || begun.elapsed() > PATIENCE || interrupted.load(Ordering::Relaxed) {
            let left = queue.len() + 1;
            quiet
                .notes
                .push(format!("{left} URLs were not looked at in quiet: their responses are not compared"));
            break;
        }
        if !seen.insert(request.target.clone()) {
            continue;
        }
        match fetcher.settled(&request, plan.sameness) {
            Ok((answer, is_same)) => {
                quiet.server = quiet.server.or_else(|| answer.server.clone());
                queue.extend(want.more(scenario, &request.target, &answer.content));
                if plan.sameness && !is_same {
                    quiet.notes.push(format!(
                        "{} differs each time even in quiet: its responses are not compared; --dynamic 'BEFORE...AFTER' \
                         says which part of it may differ",
                        request.target
                    ));
                } else if plan.sameness {
                    let content = without(&answer.content, &scenario.dynamic);
                    let expected = Arc::new(Expected { status: answer.status, content });
                    quiet.expected.insert(request.target.clone(), expected);
                }
            }
            Err(error) => {
                quiet.notes.push(format!("{} in quiet, before the load: {error}", request.target));
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

/// What of a response is looked at next.
#[derive(Clone, Copy)]
enum Want {
    Nothing,
    Page,
    Style,
}

impl Want {
    fn more(self, scenario: &Scenario, target: &str, content: &[u8]) -> Vec<(Request, Want)> {
        let url = Url { origin: scenario.origin.clone(), target: target.to_owned() };
        let parts = match self {
            Want::Nothing => return Vec::new(),
            Want::Page => page::parts(&url, content),
            Want::Style => page::parts_of_style(&url, content),
        };
        let of = |kind| if kind == page::Kind::Style { Want::Style } else { Want::Nothing };
        let request = |target| Request { method: "GET".to_owned(), target, ..Request::default() };
        parts.own.into_iter().map(|part| (request(part.url.target), of(part.kind))).collect()
    }
}

struct Fetcher<'a> {
    scenario: &'a Scenario,
    manner: &'a Manner,
    target: SocketAddr,
}

impl Fetcher<'_> {
    /// The response, and whether two were the same.
    fn settled(&self, request: &Request, twice: bool) -> io::Result<(Answer, bool)> {
        let mut last = self.fetch(request);
        // Who isn't there, or says nothing, isn't asked again: the load will tell.
        let is_absent = matches!(&last, Err(error) if is_absence(error));
        if !twice || is_absent {
            return last.map(|answer| (answer, false));
        }
        for _ in 1..MOST_TRIES {
            let next = self.fetch(request);
            if let (Ok(one), Ok(two)) = (&last, &next) {
                let same = |answer: &Answer| without(&answer.content, &self.scenario.dynamic);
                if one.status == two.status && same(one) == same(two) {
                    return next.map(|answer| (answer, true));
                }
            }
            if next.is_ok() || last.is_err() {
                last = next;
            }
        }
        last.map(|answer| (answer, false))
    }

    fn fetch(&self, request: &Request) -> io::Result<Answer> {
        self.try_fetch(request).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "no answer within 5 s"),
            _ => error,
        })
    }

    fn try_fetch(&self, request: &Request) -> io::Result<Answer> {
        let stream = TcpStream::connect_timeout(&self.target, PATIENCE_EACH)?;
        stream.set_read_timeout(Some(PATIENCE_EACH))?;
        stream.set_write_timeout(Some(PATIENCE_EACH))?;
        let mut request = request.clone();
        request.fields.push(("Connection".to_owned(), "close".to_owned()));
        let bytes = self.manner.bytes_of(&request, Personal::default());
        if !self.scenario.origin.tls {
            return read(stream, &bytes);
        }
        // HTTP/1.1 here even where the load is HTTP/2: the content is the same.
        let tls = Tls::new(&self.scenario.origin.host, false, false).map_err(io::Error::other)?;
        let connection = tls.connect().map_err(io::Error::other)?;
        read(StreamOwned::new(*connection, stream), &bytes)
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut)
}

fn read(mut stream: impl Read + Write, request: &[u8]) -> io::Result<Answer> {
    stream.write_all(request)?;
    let deadline = Instant::now() + PATIENCE_EACH;
    let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let (mut reader, mut buffer, mut piece) = (Reader::default(), Vec::new(), vec![0; 64 << 10]);
    let (mut status, mut head, mut content) = (0, Vec::new(), Vec::new());
    loop {
        let ended = match stream.read(&mut piece) {
            Ok(0) => true,
            Ok(read) => {
                buffer.extend_from_slice(&piece[..read]);
                false
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => true,
            Err(error) => return Err(error),
        };
        let mut used = 0;
        let is_whole = loop {
            let (taken, item) = reader.read(&buffer[used..], false).map_err(|error| bad(error.0))?;
            let bytes = &buffer[used..used + taken];
            used += taken;
            match item {
                Some(Item::Head(found)) => {
                    status = found.status;
                    head.extend_from_slice(bytes);
                }
                Some(Item::Content(part)) => content.extend_from_slice(part),
                Some(Item::End) => break true,
                None if taken == 0 => break false,
                None => {}
            }
        };
        buffer.drain(..used);
        if is_whole || ended && reader.may_end() {
            break;
        }
        if ended {
            return Err(bad("the response was cut short"));
        }
        if Instant::now() > deadline || content.len() as u64 > MOST_BYTES {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no complete answer within 5 s"));
        }
    }
    let coding = response::field(&head, "content-encoding");
    let content = decode(coding.as_deref(), &content)
        .ok_or_else(|| bad("the content is not in its coding"))?
        .into_owned();
    Ok(Answer { status, content, server: response::field(&head, "server") })
}
