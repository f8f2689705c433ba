//! The access log: one line per request. An event loop formats it into its own buffer and passes buffers to the
//! writer a few times a second. If the disk is full or slow, only lines are lost, and they are counted.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use millrace_settings::plan::{self, AccessFormat};
use tokio::sync::oneshot;

use super::line::{self, LogTime};
use super::messages::{ErrorLogQueue, PATIENCE};
use super::sink::{Failed, LogSink, LogTarget};
use crate::context::Context;
use crate::context::stats::Counter;
use millrace_wire::head::Head;

/// A buffer is passed on when it holds this many bytes.
const BATCH: usize = 32 * 1_024;
/// Batches that may wait for the writer: 16 MiB.
const QUEUE: usize = 512;
/// Minimum interval between messages in the error log about lost lines.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// A line about one request.
#[derive(Clone, Copy, Debug)]
pub struct AccessEntry<'a> {
    /// The request.
    pub asked: LoggedRequest<'a>,
    /// The client's address; `None` for a client on a Unix socket.
    pub client: Option<IpAddr>,
    /// Status of the response.
    pub status: u16,
    /// Bytes of content sent.
    pub bytes: u64,
    /// From the first byte of the request to the last byte of the response.
    pub duration: Duration,
}

/// What a client sent.
#[derive(Clone, Copy, Debug)]
pub enum LoggedRequest<'a> {
    /// A request.
    Request {
        /// Its head.
        head: &'a Head,
        /// The requested host and port.
        host: &'a str,
        /// The first name of the site that got it; `None`: the site for any host.
        site: Option<&'a str>,
    },
    /// Anything else: the start of what it sent, as far as it is known.
    Malformed(&'a [u8]),
}

/// Lines of one event loop that are not passed on yet.
#[derive(Debug, Default)]
pub struct AccessBuffer {
    lines: RefCell<Vec<u8>>,
    count: Cell<u64>,
    stamp: RefCell<LogTime>,
}

impl AccessBuffer {
    /// Adds a line, if there is an access log.
    pub fn record(&self, context: &Context, entry: &AccessEntry<'_>) {
        // Read on each request, so that a reload takes effect; otherwise nothing writes to it.
        let Some(format) = context.process.log.access().and_then(Access::format) else { return };
        let mut lines = self.lines.borrow_mut();
        let mut stamp = self.stamp.borrow_mut();
        stamp.set(context.clock.unix_time());
        match format {
            AccessFormat::Combined => line::combined(&mut lines, &stamp, entry),
            AccessFormat::Json => line::json(&mut lines, &stamp, entry),
        }
        self.count.set(self.count.get() + 1);
        if lines.len() >= BATCH {
            drop(lines);
            self.flush(context);
        }
    }

    /// Passes on all lines. Called a few times a second, and before the event loop ends.
    pub fn flush(&self, context: &Context) {
        let Some(access) = context.process.log.access() else { return };
        let mut lost = access.shared.lost.swap(0, Ordering::Relaxed);
        let count = self.count.take();
        if count > 0 {
            let room = Vec::with_capacity(self.lines.borrow().len());
            let lines = self.lines.replace(room);
            if access.queue.try_send(AccessLogJob::Lines { lines, count }).is_err() {
                lost += count;
                context.process.log.warn(format_args!("dropping access log lines: the disk is too slow"));
            }
        }
        if lost > 0 {
            context.stats.add(Counter::LogDropped, lost);
        }
    }
}

/// Access to the writer of the access log.
pub struct Access {
    queue: SyncSender<AccessLogJob>,
    shared: Arc<AccessLogShared>,
}

struct AccessLogShared {
    /// 0: off. Otherwise an [`AccessFormat`] plus 1.
    format: AtomicU8,
    /// Lines that the writer could not write, until an event loop adds them to its counters.
    lost: AtomicU64,
}

enum AccessLogJob {
    Lines { lines: Vec<u8>, count: u64 },
    Open { target: LogTarget, done: SyncSender<io::Result<()>> },
    Settle { done: oneshot::Sender<()> },
    Close { done: SyncSender<()> },
}

impl Access {
    /// Starts the writer.
    ///
    /// # Errors
    /// The file can't be opened, or no thread can be started.
    pub fn start(plan: &plan::Log, messages: ErrorLogQueue) -> io::Result<Access> {
        let (queue, jobs) = sync_channel(QUEUE);
        let shared = Arc::new(AccessLogShared { format: AtomicU8::new(0), lost: AtomicU64::new(0) });
        let access = Access { queue, shared: shared.clone() };
        thread::Builder::new().name("millrace-access".to_owned()).spawn(move || {
            let sink = LogSink::open(LogTarget::Off).expect("nothing has to be opened");
            AccessLogWriter { sink, messages, shared, loss: None }.run(&jobs);
        })?;
        access.reopen(plan)?;
        Ok(access)
    }

    /// Form of the lines; `None`: there is no access log.
    pub fn format(&self) -> Option<AccessFormat> {
        match self.shared.format.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(AccessFormat::Combined),
            _ => Some(AccessFormat::Json),
        }
    }

    /// Continues with the settings in `plan`.
    ///
    /// # Errors
    /// The file can't be opened, or the writer hangs in a write to the old one.
    pub fn reopen(&self, plan: &plan::Log) -> io::Result<()> {
        let (done, opened) = sync_channel(1);
        let busy = || io::Error::new(io::ErrorKind::TimedOut, "the access log's disk does not respond");
        let target = plan.access.clone().map_or(LogTarget::Off, LogTarget::File);
        self.queue.try_send(AccessLogJob::Open { target, done }).map_err(|_| busy())?;
        opened.recv_timeout(PATIENCE).map_err(|_| busy())??;
        let format = match (&plan.access, plan.access_format) {
            (None, _) => 0,
            (Some(_), AccessFormat::Combined) => 1,
            (Some(_), AccessFormat::Json) => 2,
        };
        self.shared.format.store(format, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until what is queued has been written.
    pub async fn settle(&self) {
        super::await_writer(&self.queue, |done| AccessLogJob::Settle { done }).await;
    }

    /// Writes what is queued and ends the writer.
    pub fn close(&self) {
        super::end_writer(&self.queue, PATIENCE, |done| AccessLogJob::Close { done });
    }
}

/// The state of the writer's thread.
struct AccessLogWriter {
    sink: LogSink,
    messages: ErrorLogQueue,
    shared: Arc<AccessLogShared>,
    /// Lines are being lost.
    loss: Option<Loss>,
}

struct Loss {
    lines: u64,
    told: Instant,
}

impl AccessLogWriter {
    fn run(mut self, jobs: &Receiver<AccessLogJob>) {
        while let Ok(job) = jobs.recv() {
            match job {
                AccessLogJob::Lines { lines, count } => match self.sink.write_lines(&lines) {
                    Ok(()) => self.recovered(),
                    Err(failed) => self.failed(&failed, count),
                },
                AccessLogJob::Open { target, done } => {
                    let opened = LogSink::open(target).map(|sink| self.sink = sink);
                    let _ = done.send(opened);
                }
                AccessLogJob::Settle { done } => drop(done.send(())),
                AccessLogJob::Close { done } => {
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    fn failed(&mut self, failed: &Failed, count: u64) {
        // A user agent can't contain a line break, so lines are requests; but never count more than there were.
        let lost = failed.lines.min(count);
        self.shared.lost.fetch_add(lost, Ordering::Relaxed);
        let now = Instant::now();
        let (name, reason) = (self.sink.name(), &failed.reason);
        match &mut self.loss {
            None => {
                self.loss = Some(Loss { lines: lost, told: now });
                self.messages.error(&format!(
                    "cannot write to the access log {name}: {reason}; dropping lines until writing succeeds"
                ));
            }
            Some(loss) => {
                loss.lines += lost;
                if now - loss.told >= TELL_AGAIN {
                    loss.told = now;
                    let lines = loss.lines;
                    self.messages.error(&format!(
                        "still cannot write to the access log {name}: {reason}; {lines} lines dropped so far"
                    ));
                }
            }
        }
    }

    fn recovered(&mut self) {
        if let Some(loss) = self.loss.take() {
            self.messages.warn(&format!(
                "writing to the access log {} again; {} lines were dropped",
                self.sink.name(),
                loss.lines
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::rc::Rc;

    use super::*;
    use crate::context::Process;
    use crate::context::log::{Level, Log};
    use crate::context::stats::Registry;
    use crate::testing::{Dir, plan, texts};

    fn with_access(dir: &Dir, access: &Path) -> plan::Log {
        plan::Log { access: Some(access.to_owned()), ..plan(&dir.path("error.log")) }
    }

    fn context(log: &Log) -> Rc<Context> {
        let source = millrace_settings::Source { site_dir: Some("/".into()), ..Default::default() };
        let (plan, _) = millrace_settings::load(&source).unwrap();
        Context::new(0, 1, Process::new(Registry::new(1), log.clone(), 0), plan.into())
    }

    fn ask(context: &Context, what: &str) {
        let asked = LoggedRequest::Malformed(what.as_bytes());
        let entry = AccessEntry { asked, client: None, status: 400, bytes: 0, duration: Duration::ZERO };
        context.access.record(context, &entry);
    }

    fn lines(path: &Path) -> usize {
        std::fs::read(path).map_or(0, |text| memchr::memchr_iter(b'\n', &text).count())
    }

    /// The writers work at their own pace: waits for `done`, 20 s at most.
    fn wait_for(done: impl Fn() -> bool) {
        let began = Instant::now();
        while !done() {
            assert!(began.elapsed() < Duration::from_secs(20), "it never came");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn off_until_a_reload_says_otherwise() {
        let dir = Dir::new("access-off");
        let log = Log::open(&plan(&dir.path("error.log"))).unwrap();
        let context = context(&log);
        ask(&context, "not this");
        assert!(context.access.lines.borrow().is_empty());

        let file = dir.path("access.log");
        log.reopen(&plan::Log { access_format: AccessFormat::Json, ..with_access(&dir, &file) });
        ask(&context, "this");
        context.access.flush(&context);
        log.reopen(&plan(&dir.path("error.log")));
        ask(&context, "nor this");
        context.access.flush(&context);
        log.close();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains(r#""malformed":"this""#), "{text}");
    }

    #[test]
    fn goes_on_in_a_new_file_after_rotation() {
        let dir = Dir::new("access-rotation");
        let (file, old) = (dir.path("access.log"), dir.path("access.log.1"));
        let log = Log::open(&with_access(&dir, &file)).unwrap();
        let context = context(&log);
        for _ in 0..1_000 {
            ask(&context, "before");
        }
        assert!(context.access.count.get() < 1_000, "full buffers go at once");
        context.access.flush(&context);
        std::fs::rename(&file, &old).unwrap();
        log.reopen(&with_access(&dir, &file));
        ask(&context, "after");
        context.access.flush(&context);
        log.close();
        assert_eq!((lines(&old), lines(&file)), (1_000, 1));
    }

    #[test]
    fn a_full_disk_is_counted_told_once_and_left_behind() {
        let dir = Dir::new("access-full");
        let log = Log::open(&with_access(&dir, Path::new("/dev/full"))).unwrap();
        let context = context(&log);
        let dropped = || context.process.stats.value(Counter::LogDropped);
        for round in 1..=3 {
            ask(&context, "lost");
            ask(&context, "lost too");
            context.access.flush(&context);
            wait_for(|| {
                context.access.flush(&context);
                dropped() == 2 * round
            });
        }
        let file = dir.path("access.log");
        log.reopen(&with_access(&dir, &file));
        ask(&context, "kept");
        context.access.flush(&context);
        log.close();
        assert_eq!(lines(&file), 1);
        assert_eq!(dropped(), 6);
        let told = texts(&dir.path("error.log"));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("/dev/full") && told[0].contains("No space left"), "{told:?}");
        assert!(told[1].contains("6 lines were dropped"), "{told:?}");
    }

    #[test]
    fn a_disk_that_hangs_holds_nobody_up() {
        let dir = Dir::new("access-hang");
        let pipe = dir.path("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
        // A reader has it open and never reads: the writer hangs in its second batch.
        let reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let log = Log::open(&with_access(&dir, &pipe)).unwrap();
        let context = context(&log);
        let began = Instant::now();
        let line = "x".repeat(150);
        while context.process.stats.value(Counter::LogDropped) == 0 {
            ask(&context, &line);
            assert!(began.elapsed() < Duration::from_secs(20), "the queue has no bound");
        }
        let error = dir.path("error.log");
        wait_for(|| texts(&error).iter().any(|t| t.contains("dropping access log lines")));
        log.message(Level::Info, format_args!("still here"));
        wait_for(|| texts(&error).contains(&"info  still here".to_owned()));
        drop(reader);
    }
}
