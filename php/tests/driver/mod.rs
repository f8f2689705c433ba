//! Plays the server for the tests: starts `millrace-php` as a host, asks for workers, sends requests and reads answers.
//! Everything blocks, and gives up after [`PATIENCE`].
#![allow(dead_code)]

pub mod generated;

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use millrace_wire::frames::{
    self, Body, EndFrame, Frame, FrameDecoder, FrameStep, NoteKind, RequestFrame, control,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A running host.
pub struct Host {
    child: Child,
    control: Option<OwnedFd>,
    scoreboard: std::fs::File,
    /// Lines of READY.
    pub ready: Vec<(String, String)>,
    /// Messages of the host, among them those of PHP's start.
    pub log: Vec<String>,
    /// What the worker whose end was told last has left about its crash.
    pub report: String,
    /// A directory for scripts, gone with the host.
    pub root: PathBuf,
}

/// What the host said last.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    Failed(String),
    Started {
        slot: u32,
        pid: u32,
    },
    Exited {
        slot: u32,
        pid: u32,
        status: i32,
        max_rss_kib: u64,
    },
    Traced {
        slot: u32,
        pid: u32,
        sequence: u64,
        text: String,
    },
    /// What PHP is like now: lines of JSON.
    Looked(String),
    Log(String),
    Gone,
}

/// A worker, seen from the server's end of its socket.
pub struct Worker {
    pub socket: OwnedFd,
    pub slot: u32,
    pub pid: u32,
    decoder: FrameDecoder,
    input: Vec<u8>,
    sequence: u64,
    /// What it has said about the files of its scripts.
    pub code: Vec<String>,
}

/// One answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub reason: String,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub log: Vec<String>,
    /// What the script said to the page cache.
    pub notes: Vec<(NoteKind, String)>,
    pub end: EndFrame,
}

impl Answer {
    /// The content as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Values of the fields of that name.
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.fields
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| &value[..])
            .collect()
    }
}

/// Something that a worker sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    Early(Vec<(String, String)>),
    Head(u16, String, Vec<(String, String)>),
    Body(Vec<u8>),
    End(EndFrame),
    Ready(EndFrame),
    Log(String),
    Note(NoteKind, String),
    /// Whether a persistent worker's script has come to its loop.
    Handler(Result<(), String>),
    /// The end of its socket.
    Closed,
}

impl Host {
    /// Starts a host with these options and an ini file of these lines; panics unless it says READY.
    pub fn start(ini: &str, options: &[&str]) -> Host {
        Host::try_start(ini, options).unwrap_or_else(|message| panic!("the host failed: {message}"))
    }

    /// The same; the error is the text of FAILED.
    pub fn try_start(ini: &str, options: &[&str]) -> Result<Host, String> {
        let root = scratch();
        let file = root.join("php.ini");
        std::fs::write(&file, ini).unwrap();
        let mut words = vec!["--ini-file", file.to_str().unwrap()];
        words.extend_from_slice(options);
        Host::launch(root, &words, &[])
    }

    /// Starts a host with these ini values, and more environment.
    pub fn with_environment(ini: &str, given: &[(&str, &str)]) -> Host {
        let root = scratch();
        let file = root.join("php.ini");
        std::fs::write(&file, ini).unwrap();
        let words = ["--ini-file", file.to_str().unwrap()];
        Host::launch(root, &words, given).unwrap_or_else(|message| panic!("the host failed: {message}"))
    }

    /// Starts a host with the distribution's ini files.
    pub fn with_distribution(options: &[&str]) -> Host {
        Host::launch(scratch(), options, &[]).unwrap_or_else(|message| panic!("the host failed: {message}"))
    }

    fn launch(root: PathBuf, words: &[&str], given: &[(&str, &str)]) -> Result<Host, String> {
        let (control, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let board = rustix::fs::memfd_create("scoreboard", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let scoreboard = std::fs::File::from(board);
        let slots = 4u32;
        scoreboard.set_len((frames::SCOREBOARD_HEAD + slots as usize * frames::SLOT_BYTES) as u64).unwrap();
        let head = [frames::SCOREBOARD_MAGIC, frames::PROTOCOL, frames::SLOT_BYTES as u32, slots];
        for (at, word) in head.iter().enumerate() {
            scoreboard.write_all_at(&word.to_ne_bytes(), at as u64 * 4).unwrap();
        }
        // Command hands over descriptors 0 to 2 only; the shell moves them to their places.
        let child = Command::new("/bin/sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4<&1 </dev/null >&2", &program()])
            .args(words)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(scoreboard.try_clone().unwrap()))
            .env("MILLRACE_TEST", "inherited")
            .envs(given.iter().copied())
            // For builds with AddressSanitizer: what PHP itself leaves at its end is none of our business.
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .spawn()
            .unwrap();
        let (ready, log, report) = (Vec::new(), Vec::new(), String::new());
        let mut host = Host { child, control: Some(control), scoreboard, ready, log, report, root };
        loop {
            match host.event() {
                Event::Log(text) if host.ready.is_empty() => host.log.push(text),
                Event::Failed(text) => return Err(text),
                Event::Log(_) if !host.ready.is_empty() => return Ok(host),
                Event::Gone => return Err("it ended without a word".into()),
                other => panic!("unexpected before READY: {other:?}"),
            }
            if !host.ready.is_empty() {
                return Ok(host);
            }
        }
    }

    /// The next message of the host. READY fills [`Host::ready`] and is told as an empty log message.
    pub fn event(&mut self) -> Event {
        let mut bytes = vec![0; frames::CONTROL_MAX];
        let control = self.control.as_ref().expect("control socket closed");
        assert!(readable(control, PATIENCE), "the host says nothing");
        let (length, _) = rustix::net::recv(control, &mut bytes[..], RecvFlags::empty()).unwrap();
        if length == 0 {
            return Event::Gone;
        }
        match control::Message::decode(&bytes[..length]).unwrap() {
            control::Message::Ready(started) => {
                self.ready = started.lines().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
                Event::Log(String::new())
            }
            control::Message::Failed(text) => Event::Failed(text.to_owned()),
            control::Message::WorkerStarted { slot, pid } => Event::Started { slot, pid },
            control::Message::WorkerExited { slot, pid, status, max_rss_kib, report } => {
                self.report = String::from_utf8_lossy(report).into_owned();
                Event::Exited { slot, pid, status, max_rss_kib }
            }
            control::Message::Traced { slot, pid, sequence, text } => {
                Event::Traced { slot, pid, sequence, text: String::from_utf8_lossy(text).into_owned() }
            }
            control::Message::Looked(text) => Event::Looked(text.to_owned()),
            control::Message::Log { message, .. } => {
                Event::Log(String::from_utf8_lossy(message).into_owned())
            }
        }
    }

    /// A value of READY.
    pub fn says(&self, key: &str) -> Option<&str> {
        self.ready.iter().find(|(name, _)| name == key).map(|(_, value)| &value[..])
    }

    /// Asks for a worker in that slot and waits for it.
    pub fn worker(&mut self, slot: u32) -> Worker {
        let socket = self.spawn(slot);
        loop {
            match self.event() {
                Event::Started { slot: started, pid } if started == slot => {
                    return Worker {
                        socket,
                        slot,
                        pid,
                        decoder: FrameDecoder::default(),
                        input: Vec::new(),
                        sequence: 0,
                        code: Vec::new(),
                    };
                }
                Event::Log(text) => self.log.push(text),
                Event::Exited { slot: ended, .. } if ended != slot => {}
                other => panic!("no worker: {other:?}"),
            }
        }
    }

    /// Sends SPAWN; our end of the worker's socket.
    pub fn spawn(&self, slot: u32) -> OwnedFd {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        send_with(self.control.as_ref().unwrap(), &control::spawn(slot), Some(&theirs));
        ours
    }

    /// Sends RETIRE.
    pub fn retire(&self) {
        send_with(self.control.as_ref().unwrap(), &control::retire(), None);
    }

    /// Asks where the worker of a slot is: the number of its request, and the text.
    pub fn trace(&mut self, slot: u32) -> (u64, String) {
        send_with(self.control.as_ref().unwrap(), &control::trace(slot), None);
        loop {
            match self.event() {
                Event::Traced { slot: traced, sequence, text, .. } if traced == slot => {
                    return (sequence, text);
                }
                Event::Gone => panic!("the host has gone"),
                _ => {}
            }
        }
    }

    /// Asks what PHP is like now.
    pub fn look(&mut self) -> String {
        send_with(self.control.as_ref().unwrap(), &control::look(), None);
        loop {
            match self.event() {
                Event::Looked(text) => return text,
                Event::Gone => panic!("the host has gone"),
                Event::Log(text) => self.log.push(text),
                _ => {}
            }
        }
    }

    /// Has the worker of a slot got out of what it waits for.
    pub fn let_go(&self, slot: u32, at_last: bool) {
        send_with(self.control.as_ref().unwrap(), &control::let_go(slot, at_last), None);
    }

    /// Says that the time of that request is up; a SIGURG has to follow.
    pub fn terminate(&self, slot: u32, sequence: u64) {
        self.scoreboard.write_all_at(&sequence.to_ne_bytes(), place(slot, frames::SLOT_TERMINATE)).unwrap();
    }

    /// Closes the control socket, as a server that dies.
    pub fn abandon(&mut self) {
        self.control = None;
    }

    /// Waits for EXITED of that worker: wait status and greatest resident size.
    pub fn exited(&mut self, pid: u32) -> (i32, u64) {
        loop {
            match self.event() {
                Event::Exited { pid: ended, status, max_rss_kib, .. } if ended == pid => {
                    return (status, max_rss_kib);
                }
                Event::Gone => panic!("the host has gone"),
                _ => {}
            }
        }
    }

    /// Waits for the host's end: its exit code, `None` if a signal ended it.
    pub fn wait(&mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "the host does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Process id of the host.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A word of a slot in the scoreboard; `SLOT_PID` and `SLOT_STATE` are read with [`Host::board32`].
    pub fn board64(&self, slot: u32, at: usize) -> u64 {
        let mut word = [0; 8];
        self.scoreboard.read_exact_at(&mut word, place(slot, at)).unwrap();
        u64::from_ne_bytes(word)
    }

    /// A word of the scoreboard's head.
    pub fn head(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        self.scoreboard.read_exact_at(&mut word, at as u64).unwrap();
        u64::from_ne_bytes(word)
    }

    /// A short word of a slot in the scoreboard.
    pub fn board32(&self, slot: u32, at: usize) -> u32 {
        let mut word = [0; 4];
        self.scoreboard.read_exact_at(&mut word, place(slot, at)).unwrap();
        u32::from_ne_bytes(word)
    }

    /// Tells a worker that the client of that request has gone.
    pub fn client_gone(&self, slot: u32, sequence: u64) {
        self.scoreboard.write_all_at(&sequence.to_ne_bytes(), place(slot, frames::SLOT_ABORTED)).unwrap();
    }

    /// The word by which server and worker settle who has the request of that number, which was sent ahead.
    pub fn offered(&self, slot: u32, sequence: u64) -> u64 {
        self.board64(slot, frames::SLOT_OFFERED + sequence as usize % frames::SLOT_OFFERS * 8)
    }

    /// Writes that word.
    pub fn set_offered(&self, slot: u32, sequence: u64, word: u64) {
        let at = frames::SLOT_OFFERED + sequence as usize % frames::SLOT_OFFERS * 8;
        self.scoreboard.write_all_at(&word.to_ne_bytes(), place(slot, at)).unwrap();
    }

    /// Writes a script below the root and gives its path.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.control = None;
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(8) {
            if let Ok(Some(_)) = self.child.try_wait() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// A request to be.
#[derive(Clone, Default)]
pub struct Ask {
    pub variables: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    pub by_descriptor: bool,
    /// What it says of images (`RequestFrame::flag`).
    pub flags: u8,
}

impl Ask {
    /// `GET` of a script with the variables that the server always gives.
    pub fn get(script: &Path) -> Ask {
        let name = format!("/{}", script.file_name().unwrap().to_str().unwrap());
        let mut ask = Ask::default();
        let root = script.parent().unwrap().to_str().unwrap();
        for (name, value) in [
            ("REQUEST_METHOD", "GET"),
            ("SCRIPT_FILENAME", script.to_str().unwrap()),
            ("SCRIPT_NAME", &name),
            ("REQUEST_URI", &name),
            ("QUERY_STRING", ""),
            ("DOCUMENT_ROOT", root),
            ("SERVER_NAME", "example.org"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("SERVER_SOFTWARE", "millrace/0.1"),
            ("REMOTE_ADDR", "192.0.2.1"),
            ("HTTP_HOST", "example.org"),
        ] {
            ask = ask.set(name, value);
        }
        ask
    }

    /// `POST` of a body of that type.
    pub fn post(script: &Path, kind: &str, body: &[u8]) -> Ask {
        let mut ask = Ask::get(script)
            .set("REQUEST_METHOD", "POST")
            .set("CONTENT_TYPE", kind)
            .set("CONTENT_LENGTH", &body.len().to_string());
        ask.body = body.to_vec();
        ask.by_descriptor = body.len() > frames::INLINE_BODY_MAX;
        ask
    }

    /// Sets a variable, in place if it is there.
    pub fn set(mut self, name: &str, value: &str) -> Ask {
        match self.variables.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value.as_bytes().to_vec(),
            None => self.variables.push((name.to_owned(), value.as_bytes().to_vec())),
        }
        self
    }

    /// Sends the body by descriptor, however short.
    pub fn by_descriptor(mut self) -> Ask {
        self.by_descriptor = true;
        self
    }
}

impl Worker {
    /// Sends a request and reads the whole answer; READY after an END without it is waited for too.
    pub fn run(&mut self, ask: &Ask) -> Answer {
        self.send(ask);
        self.answer()
    }

    /// Sends a request; its sequence.
    pub fn send(&mut self, ask: &Ask) -> u64 {
        let (frame, file) = self.frame(ask);
        self.decoder.begin();
        send_with(&self.socket, &frame, file.as_ref());
        self.sequence
    }

    /// Sends a request ahead, while the worker is busy; its sequence.
    pub fn offer(&mut self, host: &Host, ask: &Ask) -> u64 {
        let (mut frame, _) = self.frame(ask);
        frames::number(&mut frame, self.sequence, true);
        host.set_offered(self.slot, self.sequence, self.sequence * 2);
        send_with(&self.socket, &frame, None);
        self.sequence
    }

    /// Reads the whole answer to a request that was sent ahead.
    pub fn answer_offered(&mut self) -> Answer {
        self.decoder.begin();
        self.answer()
    }

    /// The next request's frame, and the file with its body.
    fn frame(&mut self, ask: &Ask) -> (Vec<u8>, Option<OwnedFd>) {
        self.sequence += 1;
        let mut out = Vec::new();
        let mut request = RequestFrame::begin(&mut out, self.sequence);
        request.flag(ask.flags);
        for (name, value) in &ask.variables {
            request.variable(name.as_bytes(), value);
        }
        let file = (ask.by_descriptor).then(|| {
            let file = std::fs::File::from(
                rustix::fs::memfd_create("body", rustix::fs::MemfdFlags::CLOEXEC).unwrap(),
            );
            file.write_all_at(&ask.body, 0).unwrap();
            OwnedFd::from(file)
        });
        let body = match &file {
            Some(_) => Body::Descriptor(ask.body.len() as u64),
            None if ask.body.is_empty() => Body::None,
            None => Body::Inline(&ask.body),
        };
        request.finish(body).unwrap();
        (out, file)
    }

    /// Waits until a persistent worker's script has come to its loop, or has ended; what it logged until then.
    pub fn boot(&mut self) -> (Result<(), String>, Vec<String>) {
        let mut log = Vec::new();
        loop {
            match self.next() {
                Sent::Log(text) => log.push(text),
                Sent::Handler(booted) => return (booted, log),
                other => panic!("at boot: {other:?}"),
            }
        }
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        send_with(&self.socket, bytes, None);
    }

    /// Reads a whole answer.
    pub fn answer(&mut self) -> Answer {
        let mut answer = Answer::default();
        loop {
            match self.next() {
                Sent::Head(status, reason, fields) => {
                    (answer.status, answer.reason, answer.fields) = (status, reason, fields);
                }
                Sent::Body(piece) => answer.body.extend_from_slice(&piece),
                Sent::Log(text) => answer.log.push(text),
                Sent::Note(kind, text) => answer.notes.push((kind, text)),
                Sent::Early(_) => {}
                Sent::Ready(_) => return answer,
                Sent::Closed => panic!("the worker has gone: {answer:?}"),
                Sent::Handler(booted) => panic!("in the middle of an answer: {booted:?}"),
                Sent::End(end) => {
                    answer.end = end;
                    if end.ready {
                        return answer;
                    }
                }
            }
        }
    }

    /// The next frame.
    pub fn next(&mut self) -> Sent {
        loop {
            match self.decoder.next(&self.input).unwrap() {
                FrameStep::Frame(frame, used) => {
                    let sent = own(frame);
                    self.input.drain(..used);
                    // Each worker says its files once, with the first answer that has them.
                    let Sent::Note(NoteKind::Code, text) = sent else { return sent };
                    self.code.push(text);
                    continue;
                }
                FrameStep::Partial(_) => {}
            }
            assert!(readable(&self.socket, PATIENCE), "the worker says nothing");
            let mut bytes = [0; 65536];
            match rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::empty()) {
                Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => return Sent::Closed,
                Ok((length, _)) => self.input.extend_from_slice(&bytes[..length]),
                Err(error) => panic!("recv: {error}"),
            }
        }
    }

    /// Whether the worker sends anything within that time.
    pub fn speaks_within(&self, time: Duration) -> bool {
        !self.input.is_empty() || readable(&self.socket, time)
    }
}

/// The program under test; `MILLRACE_PHP` names another one, built for another PHP.
pub fn program() -> String {
    std::env::var("MILLRACE_PHP").unwrap_or_else(|_| env!("CARGO_BIN_EXE_millrace-php").to_owned())
}

fn own(frame: Frame<'_>) -> Sent {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match frame {
        Frame::Early(head) => {
            Sent::Early(head.fields().map(|(name, value)| (text(name), text(value))).collect())
        }
        Frame::Head(head) => Sent::Head(
            head.status,
            text(head.reason),
            head.fields().map(|(name, value)| (text(name), text(value))).collect(),
        ),
        Frame::Body(piece) => Sent::Body(piece.to_vec()),
        Frame::End(end) => Sent::End(end),
        Frame::Ready(end) => Sent::Ready(end),
        Frame::Log { message, .. } => Sent::Log(text(message)),
        Frame::Note { kind, text: said } => Sent::Note(kind, text(said)),
        Frame::Handler(booted) => Sent::Handler(booted.map_err(text)),
    }
}

fn place(slot: u32, at: usize) -> u64 {
    (frames::SCOREBOARD_HEAD + slot as usize * frames::SLOT_BYTES + at) as u64
}

fn readable(socket: &OwnedFd, time: Duration) -> bool {
    let mut waits = [PollFd::new(socket, PollFlags::IN)];
    let time = rustix::event::Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos() as i64 };
    poll(&mut waits, Some(&time)).unwrap() > 0
}

/// Sends all bytes; the descriptor goes with the first.
fn send_with(socket: &OwnedFd, bytes: &[u8], descriptor: Option<&OwnedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor.as_fd()]);
    if let Some(descriptors) = &descriptors {
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    let mut sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
    while sent < bytes.len() {
        sent += rustix::net::send(socket, &bytes[sent..], SendFlags::NOSIGNAL).unwrap();
    }
}

/// Reads into `bytes` what a socket has, without control data.
pub fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> usize {
    let mut control = RecvAncillaryBuffer::new(&mut []);
    recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::empty()).unwrap().bytes
}

/// A new directory below the system's temporary directory, readable for all.
fn scratch() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("millrace-php-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}
