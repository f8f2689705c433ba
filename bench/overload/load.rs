//! The load generator of `bench/overload/run` and `bench/forged/run`: an open loop, or a closed one.
//!
//!     overload-load ADDRESS HOST PATH RATE SECONDS WARM-UP poisson|even|closed MARK [SOURCES [FIELD...]]
//!
//! Open: sends RATE requests a second for SECONDS, whatever becomes of those before, and measures each from the moment at which it was
//! to be sent: a server that is late does not make its visitors come later. Connections are kept and used again; a
//! request that finds none free opens another. Requests that were due in the first WARM-UP seconds are not counted.
//!
//! Closed: RATE users, a connection each. A user asks again as soon as the answer is there. Pages that arrive after WARM-UP and
//! before the end count; refusals and errors always do.
//!
//! PATH and each FIELD (a header field of all requests) may be several, separated by `|`, which take turns; `#` in one becomes the number of the request.
//! An answer is good if it is 200, complete, and its content has MARK in it. Connections come from SOURCES addresses of 127.0.0.0/8,
//! each in a network of its own (1 unless given: 127.0.0.1). Prints one JSON object: for each
//! outcome how many, mean and quantiles in milliseconds. One thread, epoll.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

/// Longer than that nobody waits.
const TIMEOUT: Duration = Duration::from_secs(30);
/// After the last request nobody waits for longer than that.
const AFTER: Duration = Duration::from_secs(32);
/// An idle connection that is older may be closed at any moment.
const FRESH: Duration = Duration::from_secs(3);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, host, path, rate, seconds, warm_up, how, mark, more @ ..] = &words[..] else {
        eprintln!(
            "overload-load ADDRESS HOST PATH RATE SECONDS WARM-UP poisson|even|closed MARK [SOURCES [FIELD...]]"
        );
        std::process::exit(2);
    };
    let load = Load {
        address: address.parse().expect("an address"),
        host: host.clone(),
        paths: choices(path),
        fields: more.iter().skip(1).map(|field| choices(field)).collect(),
        rate: rate.parse().expect("a rate"),
        seconds: seconds.parse().expect("seconds"),
        warm_up: Duration::from_secs_f64(warm_up.parse().expect("seconds")),
        how: match how.as_str() {
            "closed" => How::Closed,
            "even" => How::Even,
            _ => How::Poisson,
        },
        sources: more.first().map_or(1, |count| count.parse().expect("a number of addresses")),
        mark: mark.clone().into_bytes(),
    };
    println!("{}", load.run());
}

struct Load {
    address: SocketAddr,
    host: String,
    paths: Vec<String>,
    fields: Vec<Vec<String>>,
    rate: f64,
    seconds: f64,
    warm_up: Duration,
    how: How,
    /// Addresses that connections come from.
    sources: u32,
    mark: Vec<u8>,
}

/// When the next request is sent.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// Gaps between requests are exponentially distributed.
    Poisson,
    /// Gaps between requests are equal.
    Even,
    /// When the answer to the last one is there.
    Closed,
}

/// A connection, and what it waits for.
struct Wire {
    stream: TcpStream,
    /// When its request was to be sent; `None`: it is idle.
    due: Option<Duration>,
    request: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    used: Duration,
    /// It has had an answer before: the server may close it while it is idle.
    again: bool,
}

/// What became of requests, by name, with the milliseconds that each took.
#[derive(Default)]
struct Tally(HashMap<&'static str, Vec<f64>>);

struct Run<'a> {
    load: &'a Load,
    began: Instant,
    epoll: std::os::fd::OwnedFd,
    wires: HashMap<u64, Wire>,
    idle: Vec<u64>,
    next_id: u64,
    /// How many requests have been made.
    made: usize,
    tally: Tally,
    open: usize,
    /// Users of a closed loop who have their answer.
    free: usize,
}

impl Load {
    /// The request with that number: paths take turns, and the choices of a field after each round of them.
    fn request(&self, number: usize) -> Vec<u8> {
        let named = |text: &str| text.replace('#', &number.to_string());
        let (path, mut round) = (&self.paths[number % self.paths.len()], number / self.paths.len());
        let mut head = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: overload\r\nAccept: text/html\r\n",
            named(path),
            self.host
        );
        for field in &self.fields {
            head += &named(&field[round % field.len()]);
            head += "\r\n";
            round /= field.len();
        }
        (head + "\r\n").into_bytes()
    }

    fn run(&self) -> String {
        let mut run = Run {
            load: self,
            began: Instant::now(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll"),
            wires: HashMap::new(),
            idle: Vec::new(),
            next_id: 0,
            made: 0,
            tally: Tally::default(),
            open: 0,
            free: if self.how == How::Closed { self.rate as usize } else { 0 },
        };
        let sent = run.play();
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let cpu = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
        let length = self.seconds - self.warm_up.as_secs_f64();
        format!(
            "{{\"offered\": {:.1}, \"sent\": {sent}, \"seconds\": {length}, \"cpu_seconds\": {cpu:.2}, \"outcomes\": {}}}",
            self.rate,
            run.tally.json()
        )
    }
}

impl Run<'_> {
    /// Plays all of it; how many requests were sent.
    fn play(&mut self) -> u64 {
        let (end, mut seed, mut sent) =
            (Duration::from_secs_f64(self.load.seconds), 0x9e37_79b9_7f4a_7c15, 0);
        let mut due = Duration::ZERO;
        let mut events = Vec::with_capacity(256);
        let mut swept = Duration::ZERO;
        let closed = self.load.how == How::Closed;
        loop {
            let now = self.began.elapsed();
            for _ in 0..std::mem::take(&mut self.free) {
                if now < end {
                    self.send(now, now);
                    sent += 1;
                }
            }
            while !closed && due <= now && due < end {
                self.send(due, now);
                sent += 1;
                let gap = if self.load.how == How::Even { 1.0 } else { -chance(&mut seed).ln() };
                due += Duration::from_secs_f64(gap / self.load.rate);
            }
            let over = if closed { now >= end } else { due >= end };
            if over && (self.open == 0 || now > end + AFTER) {
                return sent;
            }
            if now > swept + Duration::from_millis(100) {
                swept = now;
                self.sweep(now);
            }
            let pause = if over || closed { Duration::from_millis(100) } else { due.saturating_sub(now) };
            let pause = Timespec::try_from(pause.min(Duration::from_millis(100))).expect("a short time");
            events.clear();
            if epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&pause)).is_err() {
                continue;
            }
            let ready: Vec<(u64, bool)> = events
                .iter()
                .map(|event| {
                    let flags = event.flags;
                    (event.data.u64(), flags.contains(epoll::EventFlags::OUT))
                })
                .collect();
            let now = self.began.elapsed();
            for (id, writable) in ready {
                self.turn(id, writable, now);
            }
        }
    }

    /// A request is due: on an idle connection, or on a new one.
    fn send(&mut self, due: Duration, now: Duration) {
        while let Some(id) = self.idle.pop() {
            let Some(wire) = self.wires.get_mut(&id) else { continue };
            if now.saturating_sub(wire.used) > FRESH {
                self.wires.remove(&id);
                continue;
            }
            (wire.due, wire.sent, wire.again) = (Some(due), 0, true);
            wire.request = self.load.request(self.made);
            self.made += 1;
            wire.input.clear();
            self.open += 1;
            return self.write(id, now);
        }
        self.connect(due, now);
    }

    fn connect(&mut self, due: Duration, now: Duration) {
        self.open += 1;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).expect("a socket");
        if self.load.sources > 1 {
            let source = SocketAddrV4::new(source(self.next_id as u32 % self.load.sources), 0);
            bind(&socket, &source).expect("an address of 127.0.0.0/8");
        }
        let connected = match connect(&socket, &self.load.address) {
            Ok(()) => true,
            Err(Errno::INPROGRESS) => false,
            Err(_) => return self.done("connection refused", due, now),
        };
        let stream = TcpStream::from(socket);
        let _ = stream.set_nodelay(true);
        self.next_id += 1;
        let id = self.next_id;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(id), flags).expect("epoll");
        let request = self.load.request(self.made);
        self.made += 1;
        let wire =
            Wire { stream, due: Some(due), request, sent: 0, input: Vec::new(), used: now, again: false };
        self.wires.insert(id, wire);
        if connected {
            self.write(id, now);
        }
    }

    fn write(&mut self, id: u64, now: Duration) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        match wire.stream.write(&wire.request[wire.sent..]) {
            // A request of some hundred bytes fits.
            Ok(length) if length == wire.request.len() => wire.sent = length,
            _ => self.lost(id, now),
        }
    }

    fn turn(&mut self, id: u64, writable: bool, now: Duration) {
        if writable && self.wires.get(&id).is_some_and(|wire| wire.due.is_some() && wire.sent == 0) {
            self.write(id, now);
        }
        let mut piece = [0; 64 << 10];
        loop {
            let Some(wire) = self.wires.get_mut(&id) else { return };
            match wire.stream.read(&mut piece) {
                Ok(0) if wire.due.is_none() => {
                    self.wires.remove(&id);
                    return;
                }
                Ok(0) => return self.lost(id, now),
                Ok(length) => {
                    wire.input.extend_from_slice(&piece[..length]);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => return self.lost(id, now),
            }
        }
        self.judge(id, now);
    }

    /// Looks whether the answer is complete.
    fn judge(&mut self, id: u64, now: Duration) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let Some(due) = wire.due else { return };
        let Some(answer) = Answer::read(&wire.input) else { return };
        let outcome = match answer.status {
            200 if find(answer.content, &self.load.mark).is_some() => "200",
            200 => "200 without its content",
            300..400 => "3xx",
            403 => "403",
            429 => "429",
            502 => "502",
            503 if answer.retry_after && !answer.content.is_empty() => "503",
            503 => "503 without Retry-After or page",
            504 => "504",
            _ => "other status",
        };
        let close = answer.close;
        (wire.due, wire.used) = (None, now);
        if close {
            self.wires.remove(&id);
        } else {
            self.idle.push(id);
        }
        self.done(outcome, due, now);
    }

    /// The connection broke. A server may close one that was idle at the moment at which it is used again.
    fn lost(&mut self, id: u64, now: Duration) {
        let Some(wire) = self.wires.remove(&id) else { return };
        let Some(due) = wire.due else { return };
        if wire.again && wire.input.is_empty() {
            self.open -= 1;
            return self.connect(due, now);
        }
        self.done("reset", due, now);
    }

    fn sweep(&mut self, now: Duration) {
        let late: Vec<u64> = self
            .wires
            .iter()
            .filter(|(_, wire)| wire.due.is_some_and(|due| now > due + TIMEOUT))
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            let due = self.wires.remove(&id).and_then(|wire| wire.due).unwrap_or(now);
            self.done("time-out", due, now);
        }
    }

    fn done(&mut self, outcome: &'static str, due: Duration, now: Duration) {
        self.open -= 1;
        let end = Duration::from_secs_f64(self.load.seconds);
        let counts = match self.load.how {
            How::Closed => outcome != "200" || now >= self.load.warm_up && now < end,
            How::Poisson | How::Even => due >= self.load.warm_up,
        };
        self.free += usize::from(self.load.how == How::Closed);
        if counts {
            let took = now.saturating_sub(due).as_secs_f64() * 1e3;
            self.tally.0.entry(outcome).or_default().push(took);
        }
    }
}

impl Tally {
    fn json(&mut self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (name, times) in &mut self.0 {
            times.sort_by(f64::total_cmp);
            let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize];
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            parts.push(format!(
                "\"{name}\": {{\"count\": {}, \"mean\": {mean:.2}, \"p50\": {:.2}, \"p95\": {:.2}, \"p99\": {:.2}, \"p999\": {:.2}, \"max\": {:.2}}}",
                times.len(), at(0.5), at(0.95), at(0.99), at(0.999), at(1.0)
            ));
        }
        format!("{{{}}}", parts.join(", "))
    }
}

struct Answer<'a> {
    status: u16,
    retry_after: bool,
    close: bool,
    content: &'a [u8],
}

impl Answer<'_> {
    /// `None`: more of it must come.
    fn read(input: &[u8]) -> Option<Answer<'_>> {
        let head_end = find(input, b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&input[..head_end]).to_ascii_lowercase();
        let field = |name: &str| head.split("\r\n").find_map(|line| line.strip_prefix(name)).map(str::trim);
        let content = &input[head_end..];
        let status = head.get(9..12)?.parse().ok()?;
        let whole = match field("content-length:") {
            Some(length) => content.len() >= length.parse().ok()?,
            None if field("transfer-encoding:").is_some() => content.ends_with(b"0\r\n\r\n"),
            None => false,
        };
        let close = field("connection:") == Some("close");
        whole.then_some(Answer { status, retry_after: field("retry-after:").is_some(), close, content })
    }
}

/// What takes turns.
fn choices(text: &str) -> Vec<String> {
    text.split('|').map(str::to_owned).collect()
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    text.windows(part.len()).position(|window| window == part)
}

/// An address of 127.0.0.0/8, each in a network of its own.
fn source(number: u32) -> Ipv4Addr {
    Ipv4Addr::new(127, 1 + (number % 200) as u8, (number / 200 % 250) as u8, 1)
}

/// In (0, 1], from a seed that is never 0.
fn chance(seed: &mut u64) -> f64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    ((*seed >> 11) + 1) as f64 / (1u64 << 53) as f64
}
