//! The error log: one line per message, for people. Its writer folds repeated messages into one line every ten
//! seconds, so that a fault in a loop does not fill the disk and hide others.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use millrace_settings::plan::Level;
use tokio::sync::oneshot;

use super::sink::{LogSink, LogTarget};
use super::time::CivilTime;

/// Messages that may wait for the writer.
const QUEUE: usize = 4_096;
/// Maximum length of a message, bytes; longer ones are cut.
const LONGEST: usize = 32 * 1_024;
/// A message repeated within this time is counted, not written.
const WINDOW: Duration = Duration::from_secs(10);
/// Distinct messages that are remembered.
const REMEMBERED: usize = 64;
/// How long a caller waits for the writer to open a file or to end.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Access to the writer of the error log.
#[derive(Clone)]
pub struct ErrorLogQueue {
    queue: SyncSender<ErrorLogJob>,
    /// Messages that did not fit into the queue and are not reported yet.
    lost: Arc<AtomicU64>,
}

enum ErrorLogJob {
    Write { at: SystemTime, level: Level, text: Vec<u8> },
    Open { target: LogTarget, done: SyncSender<io::Result<()>> },
    Settle { done: oneshot::Sender<()> },
    Close { done: SyncSender<()> },
}

impl ErrorLogQueue {
    /// Starts the writer.
    ///
    /// # Errors
    /// `target` can't be opened, or no thread can be started.
    pub fn start(target: LogTarget) -> io::Result<ErrorLogQueue> {
        let (queue, jobs) = sync_channel(QUEUE);
        let (done, opened) = sync_channel(1);
        let lost = Arc::new(AtomicU64::new(0));
        let lost_by_senders = lost.clone();
        thread::Builder::new().name("millrace-log".to_owned()).spawn(move || {
            match LogSink::open(target) {
                Ok(sink) => {
                    let _ = done.send(Ok(()));
                    ErrorLogWriter { sink, repeats: Repeats::default(), lost: lost_by_senders }.run(&jobs);
                }
                Err(error) => drop(done.send(Err(error))),
            };
        })?;
        opened.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        Ok(ErrorLogQueue { queue, lost })
    }

    /// Queues a message, or counts it as lost. Never blocks.
    pub fn send(&self, level: Level, text: &[u8]) {
        // The log belongs to no event loop, and its messages are rare: it reads the wall clock itself.
        let job = ErrorLogJob::Write { at: SystemTime::now(), level, text: printable(text) };
        if self.queue.try_send(job).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Queues a warning.
    pub fn warn(&self, text: &str) {
        self.send(Level::Warn, text.as_bytes());
    }

    /// Queues an error.
    pub fn error(&self, text: &str) {
        self.send(Level::Error, text.as_bytes());
    }

    /// Continues in `target`.
    ///
    /// # Errors
    /// It can't be opened, or the writer hangs in a write to the old one.
    pub fn reopen(&self, target: LogTarget) -> io::Result<()> {
        let (done, opened) = sync_channel(1);
        let busy = |_| io::Error::new(io::ErrorKind::TimedOut, "the error log's disk does not respond");
        self.queue
            .try_send(ErrorLogJob::Open { target, done })
            .map_err(|_| busy(RecvTimeoutError::Timeout))?;
        opened.recv_timeout(PATIENCE).map_err(busy)?
    }

    /// Waits until what is queued has been written.
    pub async fn settle(&self) {
        super::await_writer(&self.queue, |done| ErrorLogJob::Settle { done }).await;
    }

    /// Writes what is queued and ends the writer.
    pub fn close(&self) {
        super::end_writer(&self.queue, PATIENCE, |done| ErrorLogJob::Close { done });
    }
}

/// `text` on its own: further lines are indented, so that they can't be taken for messages, and control characters
/// and invalid UTF-8 are escaped.
fn printable(text: &[u8]) -> Vec<u8> {
    let cut = &text[..text.len().min(LONGEST)];
    let mut clean = Vec::with_capacity(cut.len());
    for chunk in cut.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => clean.extend_from_slice(b"\n    "),
                '\t' => clean.push(b'\t'),
                '\r' => {}
                _ if character.is_control() => clean.extend(character.escape_unicode().map(|c| c as u8)),
                _ => clean.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for byte in chunk.invalid() {
            clean.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
    if cut.len() < text.len() {
        clean.extend_from_slice(format!(" ... ({} bytes more)", text.len() - cut.len()).as_bytes());
    }
    clean
}

/// The state of the writer's thread.
struct ErrorLogWriter {
    sink: LogSink,
    repeats: Repeats,
    lost: Arc<AtomicU64>,
}

impl ErrorLogWriter {
    fn run(mut self, jobs: &Receiver<ErrorLogJob>) {
        loop {
            match self.next(jobs) {
                Ok(ErrorLogJob::Write { at, level, text }) => {
                    if self.repeats.admit(Instant::now(), level, &text) {
                        self.write(at, level, &text);
                    }
                    self.tell_losses();
                }
                Ok(ErrorLogJob::Open { target, done }) => {
                    let opened = LogSink::open(target).map(|sink| self.sink = sink);
                    let _ = done.send(opened);
                }
                Ok(ErrorLogJob::Settle { done }) => drop(done.send(())),
                Ok(ErrorLogJob::Close { done }) => {
                    self.tell_repeats(None);
                    self.tell_losses();
                    let _ = done.send(());
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.tell_repeats(None),
            }
            self.tell_repeats(Some(Instant::now()));
        }
    }

    fn next(&self, jobs: &Receiver<ErrorLogJob>) -> Result<ErrorLogJob, RecvTimeoutError> {
        match self.repeats.next_due() {
            None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => jobs.recv_timeout(due.saturating_duration_since(Instant::now())),
        }
    }

    fn tell_repeats(&mut self, now: Option<Instant>) {
        while let Some((level, text, times)) = self.repeats.take_due(now) {
            let note = if times == 1 { "once more".to_owned() } else { format!("repeated {times} times") };
            let text = [text.as_slice(), b" (", note.as_bytes(), b")"].concat();
            self.write(SystemTime::now(), level, &text);
        }
    }

    fn tell_losses(&mut self) {
        match self.lost.swap(0, Ordering::Relaxed) {
            0 => {}
            n => {
                let text = format!("dropped {n} messages: the error log's disk is too slow");
                self.write(SystemTime::now(), Level::Warn, text.as_bytes());
            }
        }
    }

    fn write(&mut self, at: SystemTime, level: Level, text: &[u8]) {
        let line = line(at, level, text);
        if let Err(failed) = self.sink.write_lines(&line) {
            // Standard error is the last resort; if that fails too, the message is lost.
            let name = self.sink.name();
            let reason = format!("cannot write to the error log {name}: {}", failed.reason);
            if let Ok(mut stderr) = LogSink::open(LogTarget::Stderr) {
                if self.repeats.admit(Instant::now(), Level::Error, reason.as_bytes()) {
                    let _ = stderr.write_lines(&self::line(at, Level::Error, reason.as_bytes()));
                }
                let _ = stderr.write_lines(&line);
            }
        }
    }
}

/// `2026-11-21T21:10:43.120Z warn  text`
fn line(at: SystemTime, level: Level, text: &[u8]) -> Vec<u8> {
    let level = match level {
        Level::Debug => "debug",
        Level::Info => "info ",
        Level::Warn => "warn ",
        Level::Error => "error",
    };
    let mut line = Vec::with_capacity(text.len() + 32);
    CivilTime::new(at).write_rfc3339(&mut line);
    line.extend_from_slice(format!(" {level} ").as_bytes());
    line.extend_from_slice(text);
    line.push(b'\n');
    line
}

/// Which messages were written lately, and how often they were repeated.
#[derive(Default)]
struct Repeats {
    /// Oldest window first.
    recent: Vec<Repeat>,
}

struct Repeat {
    until: Instant,
    level: Level,
    text: Vec<u8>,
    times: u64,
}

impl Repeats {
    /// Whether a message is new and to be written; otherwise it is counted.
    fn admit(&mut self, now: Instant, level: Level, text: &[u8]) -> bool {
        if let Some(known) = self.recent.iter_mut().find(|r| r.level == level && r.text == text) {
            known.times += 1;
            return false;
        }
        if self.recent.len() < REMEMBERED {
            self.recent.push(Repeat { until: now + WINDOW, level, text: text.to_owned(), times: 0 });
        }
        true
    }

    fn next_due(&self) -> Option<Instant> {
        self.recent.first().map(|r| r.until)
    }

    /// The next message to report with its count: of messages whose window ends by `now`, of all with `None`. A
    /// repeated message is remembered for another window.
    fn take_due(&mut self, now: Option<Instant>) -> Option<(Level, Vec<u8>, u64)> {
        while self.recent.first().is_some_and(|r| now.is_none_or(|now| r.until <= now)) {
            let old = self.recent.remove(0);
            if old.times > 0 {
                if let Some(now) = now {
                    self.recent.push(Repeat { until: now + WINDOW, times: 0, text: old.text.clone(), ..old });
                }
                return Some((old.level, old.text, old.times));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_forge_another() {
        let clean = printable(b"a\r\n2026-01-01 error \x1b[31mred\xff\tend\n".trim_ascii_end());
        assert_eq!(String::from_utf8(clean).unwrap(), "a\n    2026-01-01 error \\u{1b}[31mred\\xff\tend");
        let long = printable(&vec![b'x'; LONGEST + 5]);
        assert!(long.ends_with(b"xx ... (5 bytes more)"));
    }

    #[test]
    fn repeats_are_counted_and_told_once_a_window() {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        assert!(repeats.admit(start, Level::Warn, b"a"));
        assert!(repeats.admit(start, Level::Error, b"a"), "another level is another message");
        assert!(repeats.admit(start, Level::Warn, b"b"));
        for _ in 0..3 {
            assert!(!repeats.admit(start, Level::Warn, b"a"));
        }
        assert_eq!(repeats.take_due(Some(start)), None);
        let later = start + WINDOW;
        assert_eq!(repeats.take_due(Some(later)), Some((Level::Warn, b"a".to_vec(), 3)));
        assert_eq!(repeats.take_due(Some(later)), None);
        assert!(!repeats.admit(later, Level::Warn, b"a"), "one that came again stays known");
        assert!(repeats.admit(later, Level::Warn, b"b"), "one that did not is new again");
        assert_eq!(repeats.take_due(None), Some((Level::Warn, b"a".to_vec(), 1)));
        assert_eq!(repeats.take_due(None), None);
        assert_eq!(repeats.next_due(), None);
    }

    #[test]
    fn many_different_messages_cost_no_memory() {
        let now = Instant::now();
        let mut repeats = Repeats::default();
        for i in 0..1_000 {
            assert!(repeats.admit(now, Level::Info, i.to_string().as_bytes()));
        }
        assert_eq!(repeats.recent.len(), REMEMBERED);
    }
}
