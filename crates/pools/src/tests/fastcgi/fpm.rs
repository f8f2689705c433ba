//! FakeFpm: speaks FastCGI and obeys its request: the query contains commands, separated by `;`.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millrace_settings::plan::Backend;
use millrace_wire::fastcgi::{
    ParsedRequest, RequestEnd, answer, asks_for_values, end, stderr, stdin_header, stdout, values_result,
};
use rustix::event::{PollFd, PollFlags, Timespec};

/// Listens in the background until it is dropped.
pub struct FakeFpm {
    path: PathBuf,
    pub seen: Arc<Seen>,
}

/// What has happened in a FakeFpm.
#[derive(Default)]
pub struct Seen {
    /// Connections that brought a request.
    pub connections: AtomicUsize,
    /// Open connections.
    pub open: AtomicUsize,
    /// The maximum of those with requests that the other end had not closed, whether or not their threads have noticed.
    pub most: AtomicUsize,
    /// Requests that have begun.
    pub requests: AtomicUsize,
    ended: AtomicBool,
    sockets: Mutex<Vec<UnixStream>>,
    /// Those of `connections`.
    with_requests: Mutex<Vec<UnixStream>>,
}

impl FakeFpm {
    /// With `children` as the number of connections that it reports; 0: it reports nothing.
    pub fn start(path: &Path, children: usize) -> FakeFpm {
        FakeFpm::start_with(path, children, usize::MAX)
    }

    /// The same, with this many processes.
    pub fn start_with(path: &Path, children: usize, processes: usize) -> FakeFpm {
        let listener = UnixListener::bind(path).unwrap();
        let seen = Arc::new(Seen::default());
        let shared = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.ended.load(SeqCst) {
                    return;
                }
                let (stream, shared) = (stream.unwrap(), shared.clone());
                // For the other end, a connection counts as accepted only when it is read.
                while shared.open.load(SeqCst) >= processes && !shared.ended.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                shared.open.fetch_add(1, SeqCst);
                std::thread::spawn(move || serve(stream, &shared, children));
            }
        });
        FakeFpm { path: path.to_owned(), seen }
    }

    pub fn backend(&self) -> Backend {
        Backend::Unix(self.path.clone())
    }

    /// Acts as if all its processes had been killed: nothing listens any more.
    pub fn kill(self) {}
}

impl Drop for FakeFpm {
    fn drop(&mut self) {
        self.seen.ended.store(true, SeqCst);
        let _ = UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
        for socket in self.seen.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn serve(mut stream: UnixStream, seen: &Seen, children: usize) {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    seen.sockets.lock().unwrap().push(stream.try_clone().unwrap());
    let mut bytes = Vec::new();
    let there = fill(&mut stream, &mut bytes);
    if there && asks_for_values(&bytes) {
        let _ = stream.write_all(&values_result((children > 0).then_some(children)));
        // php-fpm since 8.2.13 keeps the connection open, and a process for it.
        fill(&mut stream, &mut bytes);
    } else if there {
        seen.connections.fetch_add(1, SeqCst);
        let mut all = seen.with_requests.lock().unwrap();
        all.push(stream.try_clone().unwrap());
        seen.most.fetch_max(all.iter().filter(|socket| is_open(socket)).count(), SeqCst);
        drop(all);
        while request(&mut stream, &mut bytes, seen).is_some() {}
    }
    seen.open.fetch_sub(1, SeqCst);
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// Whether neither end has closed the connection, whatever is still to be read from it.
fn is_open(socket: &UnixStream) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut asked, Some(&now)).is_ok_and(|_| asked[0].revents().is_empty())
}

fn fill(stream: &mut UnixStream, bytes: &mut Vec<u8>) -> bool {
    let mut piece = [0; 65536];
    match stream.read(&mut piece) {
        Ok(length) if length > 0 => bytes.extend_from_slice(&piece[..length]),
        _ => return false,
    }
    true
}

/// Serves one request; `None`: the connection has ended.
fn request(stream: &mut UnixStream, bytes: &mut Vec<u8>, seen: &Seen) -> Option<()> {
    let mut parsed = loop {
        // A script that reads no content responds before the content arrives.
        if let Some(length) = head_length(bytes)
            && let Ok(Some((parsed, _))) =
                ParsedRequest::decode(&[&bytes[..length], &stdin_header(0)].concat())
            && query(&parsed).contains("early")
        {
            break parsed;
        }
        if let Some((parsed, taken)) = ParsedRequest::decode(bytes).unwrap() {
            bytes.drain(..taken);
            break parsed;
        }
        if !fill(stream, bytes) {
            return None;
        }
    };
    assert!(parsed.keep);
    seen.requests.fetch_add(1, SeqCst);
    let query = query(&parsed);
    let mut out = Vec::new();
    let (mut torn, mut early) = (false, false);
    for command in query.split(';') {
        let (name, text) = command.split_once(':').unwrap_or((command, ""));
        match name {
            "head" => {
                let fields = text.split(',').filter(|field| !field.is_empty());
                let lines: String = fields.map(|field| field.replacen('=', ": ", 1) + "\r\n").collect();
                stdout(&mut out, format!("{lines}\r\n").as_bytes());
            }
            "body" => stdout(&mut out, text.as_bytes()),
            "err" => stderr(&mut out, text.replace('+', " ").as_bytes()),
            "big" => stdout(&mut out, &vec![b'x'; text.parse().unwrap()]),
            "end" => end(&mut out, RequestEnd::Complete { status: 0 }),
            "overloaded" => end(&mut out, RequestEnd::Overloaded),
            "garbage" => out.extend_from_slice(b"HTTP/1.1 200 OK\r\n\r\n"),
            "echo" => {
                let sum: u64 = parsed.content.iter().map(|byte| u64::from(*byte)).sum();
                let text = format!("Content-Type: text/plain\r\n\r\n{} {sum}", parsed.content.len());
                answer(&mut out, text.as_bytes());
            }
            "variable" => {
                let is = |(name, _): &&(Vec<u8>, Vec<u8>)| name == text.as_bytes();
                let value = parsed.variables.iter().find(is).map(|(_, value)| value.clone());
                answer(&mut out, &[&b"\r\n"[..], &value.unwrap_or_default()].concat());
            }
            "torn" => torn = true,
            "sleep" => {
                send(stream, &mut out, torn)?;
                std::thread::sleep(Duration::from_millis(text.parse().unwrap()));
            }
            "line" => {
                let file = std::fs::OpenOptions::new().append(true).create(true).open(text);
                file.unwrap().write_all(b"run\n").unwrap();
            }
            // Until the file exists.
            "until" => {
                send(stream, &mut out, torn)?;
                while !Path::new(text).exists() && !seen.ended.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            // Only the first time.
            "first" if std::fs::File::create_new(text).is_err() => {}
            "first" | "close" => {
                send(stream, &mut out, torn)?;
                return None;
            }
            "half" => {
                out.truncate(out.len() / 2);
                send(stream, &mut out, torn)?;
                return None;
            }
            // Until the other end is closed.
            "never" => {
                send(stream, &mut out, torn)?;
                while fill(stream, bytes) {}
                return None;
            }
            "early" => early = true,
            other => panic!("{other}"),
        }
    }
    parsed.content.clear();
    send(stream, &mut out, torn)?;
    if early { skip_request(stream, bytes) } else { Some(()) }
}

/// Reads the rest of a request that has had its response; all of it may arrive, or the other end closes the connection.
fn skip_request(stream: &mut UnixStream, bytes: &mut Vec<u8>) -> Option<()> {
    loop {
        if let Some((_, taken)) = ParsedRequest::decode(bytes).unwrap() {
            bytes.drain(..taken);
            return Some(());
        }
        if !fill(stream, bytes) {
            return None;
        }
    }
}

/// Number of bytes up to the end of PARAMS.
fn head_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let header = bytes.get(at..at + 8)?;
        let content = usize::from(u16::from_be_bytes([header[4], header[5]]));
        at += 8 + content + usize::from(header[6]);
        if header[1] == 4 && content == 0 {
            return Some(at);
        }
    }
}

fn query(parsed: &ParsedRequest) -> String {
    let query = parsed.variables.iter().find(|(name, _)| name == b"QUERY_STRING");
    String::from_utf8(query.unwrap().1.clone()).unwrap()
}

fn send(stream: &mut UnixStream, out: &mut Vec<u8>, torn: bool) -> Option<()> {
    let out = std::mem::take(out);
    for piece in out.chunks(if torn { 1 } else { out.len().max(1) }) {
        stream.write_all(piece).ok()?;
        if torn {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    Some(())
}
