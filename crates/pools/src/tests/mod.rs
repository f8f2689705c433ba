//! The pool's rules, with FakePhp instead of PHP.

mod ahead;
mod boots;
mod coded;
mod deaths;
mod dispatch;
mod fake;
mod fastcgi;
mod life;
mod limits;
mod pools;
mod renewal;
mod slow;
mod storm;
mod talk;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use millrace_settings::{Source, plan};
use millrace_wire::head::{Head, Limits};
use tokio::task::LocalSet;

use super::pool::{Seat, WorkerTimes, WorkersShared};
use super::{OnPurge, PhpService, PhpStartError, PhpThread, SiteWorkers, run, run_while};
use millrace_base::context::Process;
use millrace_base::context::log::Log;
use millrace_base::context::stats::{Counter, PhpStatus, Registry};
use millrace_base::message::reply::{Body, ContentSource, Reply};
use millrace_base::message::request::{Content, Ends, Request, Scheme};
use millrace_base::site::{Script, Site, WorkerKind};

/// A site whose PHP is FakePhp.
struct Rig {
    dir: PathBuf,
    process: Arc<Process>,
    plan: Arc<millrace_settings::Plan>,
    site: Arc<SiteWorkers>,
}

impl Rig {
    /// With one worker and very high limits, unless `change` says otherwise.
    fn new(change: impl FnOnce(&mut plan::Php)) -> Rig {
        Rig::start(change).unwrap()
    }

    fn start(change: impl FnOnce(&mut plan::Php)) -> Result<Rig, PhpStartError> {
        Rig::start_with(change, |_| (), |_| Log::quiet())
    }

    /// With an error log in its folder.
    fn logging(change: impl FnOnce(&mut plan::Php)) -> Rig {
        let open = |dir: &Path| Log::open(&millrace_base::testing::plan(&dir.join("error.log"))).unwrap();
        Rig::start_with(change, |_| (), open).unwrap()
    }

    /// With changed settings of the server.
    fn serving(change_server: impl FnOnce(&mut plan::Server)) -> Rig {
        Rig::start_with(|_| (), change_server, |_| Log::quiet()).unwrap()
    }

    fn start_with(
        change: impl FnOnce(&mut plan::Php),
        change_server: impl FnOnce(&mut plan::Server),
        log: impl FnOnce(&Path) -> Log,
    ) -> Result<Rig, PhpStartError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("millrace-pool-{}-{number}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let source = Source { site_dir: Some(dir.clone()), ..Source::default() };
        let (mut plan, _) = millrace_settings::load(&source).unwrap();
        change_server(&mut plan.server);
        let mut site = plan.sites[0].clone();
        let mut php = site.php.clone().unwrap();
        php.program = Some(fake::program(&dir));
        (php.workers, php.workers_start, php.workers_spare) = (1, 1, 1);
        php.request_timeout = Duration::from_secs(20);
        php.queue_timeout = Duration::from_secs(20);
        php.terminate_grace = Duration::from_millis(100);
        php.crash_pause = Duration::ZERO;
        (php.user, php.group, php.ini_file) = (None, None, None);
        php.ini.clear();
        php.workers_measured = false;
        change(&mut php);
        if !php.workers_measured {
            php.workers_first = php.workers;
        }
        for pool in &mut php.pools {
            (pool.queue, pool.queue_timeout) = (php.queue, php.queue_timeout);
            (pool.request_timeout, pool.time_limit_max) = (php.request_timeout, php.time_limit_max);
        }
        site.php = Some(php.clone());
        let (log, stats) = (log(&dir), Registry::new(2));
        let service = PhpService::start_with(
            &php,
            &log,
            OnPurge { by_script: Arc::new(|_, _, _| ()), orders: Arc::default() },
            TIMES,
        )
        .inspect_err(|_| drop(std::fs::remove_dir_all(&dir)))?;
        let process = Process::new(stats, log, plan.server.connection_memory);
        let site = SiteWorkers { site: Site::new(0, site), service: Some(service), persistent: None };
        Ok(Rig { dir, process, plan: plan.into(), site: Arc::new(site) })
    }

    /// Plays `scene` on an event loop with this number.
    fn on_thread<F: Future<Output = ()>>(&self, index: usize, scene: impl FnOnce(Scene) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let thread = PhpThread::new(index, 1, self.process.clone(), self.plan.clone());
            let scene = scene(Scene { thread, site: self.site.clone(), dir: self.dir.clone() });
            tokio::time::timeout(Duration::from_secs(300), scene).await.expect("a test takes too long");
        });
    }

    fn play<F: Future<Output = ()>>(&self, scene: impl FnOnce(Scene) -> F) {
        self.on_thread(0, scene);
    }
}

/// On a busy machine FakePhp is slow, but its workers must count as quick. Memory is measured often because tests wait
/// for it.
const TIMES: WorkerTimes = WorkerTimes { quick_ms: 100_000, look_ms: 5, decide_ms: 50 };

impl Drop for Rig {
    fn drop(&mut self) {
        self.pool().stop(Duration::ZERO);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl PhpService {
    /// The state of its workers.
    fn shared(&self) -> &Arc<WorkersShared> {
        let PhpService::Workers(workers) = self else { panic!("no workers") };
        workers.shared()
    }

    /// Process IDs of its workers.
    fn pids(&self) -> Vec<u32> {
        let live = |seat: &Seat| match seat {
            Seat::Live(handle) => Some(handle.pid()),
            _ => None,
        };
        self.shared().lock().seats().iter().filter_map(live).collect()
    }
}

impl Rig {
    fn pool(&self) -> &PhpService {
        self.site.service.as_deref().unwrap()
    }
}

/// An event loop that sends requests.
#[derive(Clone)]
struct Scene {
    thread: Rc<PhpThread>,
    site: Arc<SiteWorkers>,
    dir: PathBuf,
}

/// A response, read to its end.
#[derive(Debug)]
struct Answer {
    status: u16,
    fields: Vec<String>,
    text: String,
    /// How the stream ended, if it was one.
    end: Option<io::Result<()>>,
}

impl Scene {
    fn request(&self, method: &str, script: &str, content: Content) -> Request {
        let text = format!("{method} /x.php?{script} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let mut head = Head::default();
        head.parse(text.as_bytes(), &LIMITS).unwrap().unwrap();
        let ends = Ends { client: None, local: None, scheme: Scheme::Http, tls: None };
        Request { content, content_is_read: true, ..Request::direct(head, ends) }
    }

    /// Sends a request; returns the response as the room returns it.
    async fn ask(&self, method: &str, script: &str, content: Content) -> Reply {
        self.run(self.request(method, script, content)).await
    }

    /// Sends a POST request for another path.
    async fn post_to(&self, path: &str, script: &str) -> Answer {
        let mut request = self.request("POST", script, Content::Empty);
        let text = format!("POST {path}?{script} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        request.head.parse(text.as_bytes(), &LIMITS).unwrap().unwrap();
        read(self.run(request).await).await
    }

    async fn run(&self, mut request: Request) -> Reply {
        self.thread.clock.read();
        run(&self.thread, &self.site, &mut request, &script()).await
    }

    /// Waits until the error log contains `what`.
    async fn logged(&self, what: &str) -> String {
        for _ in 0..5000 {
            let text = std::fs::read_to_string(self.dir.join("error.log")).unwrap();
            if text.contains(what) {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
        panic!("no {what:?} in {:?}", std::fs::read_to_string(self.dir.join("error.log")));
    }

    async fn get(&self, script: &str) -> Answer {
        read(self.ask("GET", script, Content::Empty).await).await
    }

    async fn post(&self, script: &str) -> Answer {
        read(self.ask("POST", script, Content::Empty).await).await
    }

    /// The path of a file that only this test uses.
    fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// Number of lines in such a file.
    fn lines(&self, name: &str) -> usize {
        std::fs::read_to_string(self.dir.join(name)).map_or(0, |text| text.lines().count())
    }

    /// The command for a script that waits at this gate until [`Scene::open`].
    fn gate(&self, name: &str) -> String {
        format!("until:{}", self.file(name))
    }

    fn open(&self, gate: &str) {
        std::fs::write(self.file(gate), "").unwrap();
    }

    /// The response as soon as its head is there; the script waits at `PAUSE` until then, so the rest of it comes later.
    async fn ask_in_two(&self, method: &str, script: &str) -> Reply {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let gate = format!("pause-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let reply = self.ask(method, &script.replace("PAUSE", &self.gate(&gate)), Content::Empty).await;
        self.open(&gate);
        reply
    }

    /// The response to a script that has enough time on a machine that doesn't stall: it is tried a few times.
    async fn get_in_time(&self, script: &str) -> Answer {
        let mut answer = self.get(script).await;
        for _ in 0..9 {
            if answer.status == 200 && !matches!(answer.end, Some(Err(_))) {
                break;
            }
            answer = self.get(script).await;
        }
        answer
    }

    /// A response that streams, of a script that has little time for its head.
    async fn stream_in_time(&self, script: &str) -> Box<dyn ContentSource> {
        for _ in 0..10 {
            match self.ask("GET", script, Content::Empty).await.body {
                Body::Stream(stream) => return stream,
                _ => continue,
            }
        }
        panic!("not a stream")
    }

    async fn get_in_two(&self, script: &str) -> Answer {
        read(self.ask_in_two("GET", script).await).await
    }

    fn count(&self, counter: Counter) -> u64 {
        self.thread.process.stats.value(counter)
    }

    fn status(&self) -> PhpStatus {
        self.site.service.as_ref().unwrap().status("test")
    }

    /// Waits up to `seconds` until the pool's status is `good`.
    async fn until(&self, seconds: f64, what: &str, good: impl Fn(&PhpStatus) -> bool) {
        let began = Instant::now();
        while !good(&self.status()) {
            let waited = began.elapsed().as_secs_f64();
            assert!(waited < seconds, "{what}: not after {waited:.1} s: {:?}", self.status());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Number of requests that have reached the queues so far.
fn arrived(status: &PhpStatus) -> u64 {
    status.pools.iter().map(|pool| pool.running + pool.waiting + pool.served + pool.refused + pool.late).sum()
}

/// What a future returns that waits for nothing.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

/// Waits up to 20 s.
async fn wait_for(what: &str, happens: impl Fn() -> bool) {
    let began = Instant::now();
    while !happens() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: not after 20 s");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The script that all requests run.
fn script() -> Script {
    Script {
        filename: (*b"/x.php").into(),
        name: b"/x.php".to_vec(),
        path_info: Vec::new(),
        workers: WorkerKind::Ordinary,
    }
}

async fn read(reply: Reply) -> Answer {
    let fields =
        reply.fields.iter().map(|(name, value)| format!("{}: {}", name, String::from_utf8_lossy(value)));
    let mut answer =
        Answer { status: reply.status, fields: fields.collect(), text: String::new(), end: None };
    let mut content = Vec::new();
    match reply.body {
        Body::Bytes(bytes) => content = bytes,
        Body::Stream(mut stream) => {
            answer.end = Some(loop {
                match stream.next(&mut content).await {
                    Ok(true) => (),
                    Ok(false) => break Ok(()),
                    Err(error) => break Err(error),
                }
            });
        }
        Body::Empty | Body::Omitted(_) => (),
        other => panic!("a script's answer has no such body: {other:?}"),
    }
    answer.text = String::from_utf8(content).unwrap();
    answer
}

/// Whether a process runs: one that has ended, but was not waited for, has no command line.
fn runs(pid: &str) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

const LIMITS: Limits = Limits { bytes: 16384, fields: 100, target: 8192 };

const HELLO: &str = "head:200,Content-Type:text/html;body:hello;end";
