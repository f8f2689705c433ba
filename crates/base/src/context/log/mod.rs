//! The error log, for people, and the access log, off the hot path.
//!
//! Neither can delay a request: a message is formatted in memory and passed to a writer thread through a bounded
//! queue. What does not fit is dropped and counted, and the loss is reported when there is room again. Each log has
//! its own thread, so that a disk that hangs under one does not silence the other. The writer threads open the files
//! themselves: a descriptor from a thread with its own descriptor table would mean nothing to them.

mod access;
mod line;
mod messages;
mod sink;
mod time;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use millrace_settings::plan::{self, Level};
use tokio::sync::oneshot;

pub use access::{AccessBuffer, AccessEntry, LoggedRequest};

use access::Access;
use messages::ErrorLogQueue;
use sink::LogTarget;

/// Both logs; cheap to clone.
#[derive(Clone)]
pub struct Log {
    shared: Arc<LogShared>,
}

struct LogShared {
    /// Minimum [`Level`] that is logged.
    level: AtomicU8,
    /// The last fatal error of a script.
    fatal: Mutex<Option<FatalError>>,
    /// `None`: nothing is written.
    writers: Option<Writers>,
}

/// A fatal error that ended a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatalError {
    /// When PHP reported it.
    pub at: SystemTime,
    /// The message with file and line, cut after [`LONGEST_FATAL`] bytes.
    pub text: String,
}

/// How much of the last fatal error is kept: stack traces are long.
const LONGEST_FATAL: usize = 1_000;

struct Writers {
    messages: ErrorLogQueue,
    access: Access,
}

/// Whether this message of PHP is about an error that ends a script (`php_error_cb()` in main/main.c of php-src names the kinds).
pub fn is_fatal(message: &[u8]) -> bool {
    let kind = message.strip_prefix(b"PHP ").unwrap_or(message);
    [&b"Fatal error"[..], b"Parse error", b"Recoverable fatal error"]
        .iter()
        .any(|fatal| kind.starts_with(fatal))
}

impl Log {
    /// Opens both logs and starts their writers.
    ///
    /// # Errors
    /// A log file can't be opened for appending; the error names it.
    pub fn open(plan: &plan::Log) -> io::Result<Log> {
        let messages = ErrorLogQueue::start(LogTarget::for_messages(plan))?;
        let access = Access::start(plan, messages.clone())?;
        let writers = Some(Writers { messages, access });
        Ok(Log::with(plan.level as u8, writers))
    }

    /// A log that discards everything; it has no thread and no file.
    pub fn quiet() -> Log {
        Log::with(u8::MAX, None)
    }

    fn with(level: u8, writers: Option<Writers>) -> Log {
        Log { shared: Arc::new(LogShared { level: AtomicU8::new(level), fatal: Mutex::default(), writers }) }
    }

    /// Logs a message for developers of Millrace.
    pub fn debug(&self, text: fmt::Arguments<'_>) {
        self.message(Level::Debug, text);
    }

    /// Logs what the server does.
    pub fn info(&self, text: fmt::Arguments<'_>) {
        self.message(Level::Info, text);
    }

    /// Logs a problem that the server handled. Say what, why, and what to do next.
    pub fn warn(&self, text: fmt::Arguments<'_>) {
        self.message(Level::Warn, text);
    }

    /// Logs a failure. Say what, why, and what to do next.
    pub fn error(&self, text: fmt::Arguments<'_>) {
        self.message(Level::Error, text);
    }

    /// Logs `text` if its level is enabled. Never blocks.
    pub fn message(&self, level: Level, text: fmt::Arguments<'_>) {
        if !self.wants(level) {
            return;
        }
        match text.as_str() {
            Some(text) => self.send(level, text.as_bytes()),
            None => self.send(level, text.to_string().as_bytes()),
        }
    }

    /// Whether messages of this level are logged, for texts that are costly to make.
    pub fn wants(&self, level: Level) -> bool {
        level as u8 >= self.shared.level.load(Ordering::Relaxed)
    }

    /// A message that PHP logged while it ran `script` of `site`, with its syslog priority (0-7). PHP has its own
    /// settings for what it logs (`error_reporting`, `log_errors`), so `log.level` does not apply.
    pub fn php(&self, site: &str, script: &str, priority: u8, message: &[u8]) {
        let level = match priority {
            0..=3 => Level::Error,
            4 => Level::Warn,
            5 | 6 => Level::Info,
            _ => Level::Debug,
        };
        let mut text = Vec::with_capacity(site.len() + script.len() + message.len() + 8);
        text.extend_from_slice(b"php");
        for part in [site, script].into_iter().filter(|part| !part.is_empty()) {
            text.push(b' ');
            text.extend_from_slice(part.as_bytes());
        }
        text.extend_from_slice(b": ");
        text.extend_from_slice(message.trim_ascii_end());
        self.send(level, &text);
        if is_fatal(message) {
            text.truncate(LONGEST_FATAL);
            let fatal =
                FatalError { at: SystemTime::now(), text: String::from_utf8_lossy(&text).into_owned() };
            *self.shared.fatal.lock().unwrap_or_else(PoisonError::into_inner) = Some(fatal);
        }
    }

    /// The last fatal error of a script since the start.
    pub fn last_fatal(&self) -> Option<FatalError> {
        self.shared.fatal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the files again, after they were moved away or the settings changed. If that fails, the log continues in
    /// the old file and says so.
    pub fn reopen(&self, plan: &plan::Log) {
        let Some(writers) = &self.shared.writers else { return };
        self.shared.level.store(plan.level as u8, Ordering::Relaxed);
        if let Err(error) = writers.messages.reopen(LogTarget::for_messages(plan)) {
            self.error(format_args!("{error}; continuing with the previous error log"));
        }
        if let Err(error) = writers.access.reopen(plan) {
            self.error(format_args!("{error}; continuing with the previous access log"));
        }
    }

    /// Waits until the files have all that is queued. Event loops flush their [`AccessBuffer`] before.
    pub async fn settle(&self) {
        if let Some(writers) = &self.shared.writers {
            // The access log first: it may report something in the other.
            writers.access.settle().await;
            writers.messages.settle().await;
        }
    }

    /// Writes what is still queued and ends the writers; waits a few seconds at most. What is logged afterwards is
    /// lost. Event loops flush their [`AccessBuffer`] before.
    pub fn close(&self) {
        if let Some(writers) = &self.shared.writers {
            // The access log first: it may report something in the other.
            writers.access.close();
            writers.messages.close();
        }
    }

    /// The access log's writer.
    fn access(&self) -> Option<&Access> {
        self.shared.writers.as_ref().map(|w| &w.access)
    }

    fn send(&self, level: Level, text: &[u8]) {
        if let Some(writers) = &self.shared.writers {
            writers.messages.send(level, text);
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

/// Waits until a writer has come to a job behind all that is queued.
async fn await_writer<J>(queue: &SyncSender<J>, job: impl FnOnce(oneshot::Sender<()>) -> J) {
    let (done, written) = oneshot::channel();
    let mut job = job(done);
    while let Err(TrySendError::Full(same)) = queue.try_send(job) {
        job = same;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let _ = written.await;
}

/// Asks a writer to end after all that is queued, and waits for it: `patience` for room in the queue, and as long for
/// the writer.
fn end_writer<J>(queue: &SyncSender<J>, patience: Duration, job: impl Fn(SyncSender<()>) -> J) {
    let (done, closed) = sync_channel(1);
    let began = Instant::now();
    while began.elapsed() < patience {
        match queue.try_send(job(done.clone())) {
            Ok(()) => {
                let _ = closed.recv_timeout(patience);
                return;
            }
            Err(TrySendError::Full(_)) => std::thread::sleep(Duration::from_millis(10)),
            Err(TrySendError::Disconnected(_)) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Dir, plan, texts};

    #[test]
    fn the_last_fatal_error_is_kept() {
        let log = Log::quiet();
        let say = |message: &str| log.php("a.test", "/index.php", 3, message.as_bytes());
        say("PHP Warning:  Undefined variable $x in /srv/a.php on line 1");
        say("a plugin says: Fatal error");
        assert_eq!(log.last_fatal(), None);
        let uncaught = "PHP Fatal error:  Uncaught Error: no in /srv/b.php:7";
        say(&format!("{uncaught}\n#0 {}", "x".repeat(2_000)));
        let text = log.last_fatal().map(|fatal| fatal.text).unwrap_or_default();
        assert!(
            text.starts_with(&format!("php a.test /index.php: {uncaught}")) && text.len() == LONGEST_FATAL,
            "{text}"
        );
    }

    #[test]
    fn writes_what_its_level_allows() {
        let dir = Dir::new("levels");
        let path = dir.path("error.log");
        let log = Log::open(&plan(&path)).unwrap();
        log.debug(format_args!("not this"));
        log.info(format_args!("started {}", 1));
        log.warn(format_args!("slow"));
        log.error(format_args!("broken"));
        log.php("example.com", "/index.php", 7, b"PHP Notice:  one\nStack trace:\n#0\n");
        log.close();
        log.error(format_args!("too late"));
        assert_eq!(
            texts(&path),
            [
                "info  started 1",
                "warn  slow",
                "error broken",
                "debug php example.com /index.php: PHP Notice:  one",
                "    Stack trace:",
                "    #0"
            ]
        );
    }

    #[test]
    fn repeats_are_folded() {
        let dir = Dir::new("repeats");
        let path = dir.path("error.log");
        let log = Log::open(&plan(&path)).unwrap();
        for _ in 0..124 {
            log.warn(format_args!("again"));
        }
        log.close();
        assert_eq!(texts(&path), ["warn  again", "warn  again (repeated 123 times)"]);
    }

    #[test]
    fn reopens_in_a_new_file_or_stays() {
        let dir = Dir::new("reopen");
        let path = dir.path("error.log");
        let log = Log::open(&plan(&path)).unwrap();
        log.info(format_args!("one"));
        std::fs::rename(&path, dir.path("error.log.1")).unwrap();
        log.reopen(&plan::Log { level: Level::Warn, ..plan(&path) });
        log.info(format_args!("not this"));
        log.warn(format_args!("two"));
        log.reopen(&plan(&dir.path("no/dir/error.log")));
        log.close();
        assert_eq!(texts(&dir.path("error.log.1")), ["info  one"]);
        let now = texts(&path);
        assert_eq!(now[0], "warn  two");
        assert!(now[1].contains("no/dir/error.log") && now[1].contains("the previous error log"), "{now:?}");
        assert!(Log::open(&plan(&dir.path("no/dir/error.log"))).is_err());
    }
}
