//! `php.rewind = "auto"` checks itself: now and then a request that began in an image, and has changed nothing, is run again, both
//! in an image and the ordinary way, while workers are idle. A run that would change something now - a notice has come for this visitor, and would be
//! shown and removed - ends before it does, and nothing is compared. If the responses differ by more than two ordinary ones do, images of that
//! class are switched off until PHP is reloaded.
//!
//! ```text
//!   run_while ── Trial::begin ──> the request runs ── END: rewound, repeatable ──> ordinary, rewound, ordinary
//!                                      │                                                   │
//!                                      └─ END: anything else: no comparison                └─> text::compare
//! ```

mod text;

use std::future::pending;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millrace_settings::plan::Rewind;
use millrace_wire::frames::EndFrame;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use self::text::{Verdict, compare};
use super::PhpThread;
use super::dispatch::Dispatcher;
use super::pool::WorkersShared;
use millrace_base::context::WorkKind;
use millrace_base::context::stats::{ComparedResponses, ComparedStatus, RewindDifference};
use millrace_base::message::Request;
use millrace_base::message::reply::{Body, Reply};
use millrace_base::message::request::{AsRun, Content, RunEnd};
use millrace_base::site::{Script, Site};

/// Pause after the first comparison; each further one that finds no difference doubles it, up to [`PAUSE_MOST`].
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MOST: Duration = Duration::from_secs(60);
/// A difference has to be found in so many rewound runs: what is drawn from few values may agree in the ordinary runs by chance.
const CONFIRMATIONS: usize = 5;
/// How often a request is sent until it begins in an image.
const ATTEMPTS: usize = 6;
/// A longer response is not compared, bytes.
const CONTENT_MOST: usize = 4 << 20;
/// A request that takes longer is not compared.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often, and how many times, it looks whether a worker is idle.
const LOOK: (Duration, usize) = (Duration::from_millis(100), 50);
/// Differences that are shown, each with two whole responses.
const SHOWN_MOST: usize = 8;

/// What is known from comparisons; one for all workers of a service.
#[derive(Debug, Default)]
pub struct Comparisons(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// A comparison is being made.
    is_busy: bool,
    /// When the next one may begin, milliseconds since the pool was created.
    next: u64,
    /// Comparisons in a row without a difference.
    streak: u32,
    status: ComparedStatus,
}

impl Comparisons {
    /// For the status.
    pub fn status(&self) -> ComparedStatus {
        self.known().status.clone()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a comparison may begin, at `now` in milliseconds. If so, it has begun.
    fn begin(&self, now: u64) -> bool {
        let mut known = self.known();
        let may = !known.is_busy && now >= known.next;
        known.is_busy |= may;
        may
    }

    /// It has ended at `now`; `None`: there was nothing to compare.
    fn end(&self, now: u64, verdict: Option<&Verdict>) {
        let mut known = self.known();
        known.is_busy = false;
        match verdict {
            None => return,
            Some(Verdict::Same) => {
                known.status.same += 1;
                known.streak += 1;
            }
            Some(Verdict::Unsure) => known.status.unsure += 1,
            Some(Verdict::Differs(_)) => {
                known.status.different += 1;
                known.streak = 0;
            }
        }
        let pause = PAUSE.saturating_mul(1 << known.streak.min(16)).min(PAUSE_MOST);
        known.next = now + pause.as_millis() as u64;
    }

    fn remember(&self, difference: RewindDifference) {
        let differences = &mut self.known().status.differences;
        differences.truncate(SHOWN_MOST - 1);
        differences.insert(0, difference);
    }
}

/// Has this request compared when it has ended, if it is the time for that and the request is suitable.
pub fn begin(
    thread: &Rc<PhpThread>,
    workers: &Arc<WorkersShared>,
    site: &Arc<Site>,
    request: &mut Request,
    script: &Script,
) {
    if workers.settings.rewind != Rewind::Auto
        || request.head.method() != "GET"
        || !matches!(request.content, Content::Empty)
    {
        return;
    }
    let now = workers.since_epoch(thread.clock.now());
    if request.run.is_some() || !workers.comparisons.begin(now) {
        return;
    }
    let (run, ended) = watched(false, false);
    let comparison = ComparedRequest {
        thread: thread.clone(),
        workers: workers.clone(),
        site: site.clone(),
        request: request.derived(request.head.path_query(), |_| true, &[]),
        script: script.clone(),
    };
    request.run = Some(run);
    let open = thread.begin(WorkKind::Visit);
    tokio::task::spawn_local(async move {
        let _open = open;
        let verdict = match timeout(PATIENCE, ended).await {
            Ok(Ok(end)) if end.ready && end.repeatable && !end.failed => comparison.judge().await,
            _ => None,
        };
        comparison.thread.clock.read();
        let ComparedRequest { workers, thread, .. } = &comparison;
        workers.comparisons.end(workers.since_epoch(thread.clock.now()), verdict.as_ref());
    });
}

/// Responses to one request.
#[derive(Default)]
struct ComparedRuns {
    ordinary: Vec<Vec<u8>>,
    rewound: Vec<Vec<u8>>,
}

impl ComparedRuns {
    /// The latest response of each kind.
    fn latest(&self) -> ComparedResponses {
        let text = |responses: &[Vec<u8>]| {
            responses
                .last()
                .map(|response| String::from_utf8_lossy(response).into_owned())
                .unwrap_or_default()
        };
        ComparedResponses { ordinary: text(&self.ordinary), rewound: text(&self.rewound) }
    }
}

/// A request that is being compared.
struct ComparedRequest {
    thread: Rc<PhpThread>,
    workers: Arc<WorkersShared>,
    site: Arc<Site>,
    request: Request,
    script: Script,
}

impl ComparedRequest {
    /// Compares it with itself; switches images of this class off if they make a difference. `None`: that was not possible.
    async fn judge(&self) -> Option<Verdict> {
        let mut runs = ComparedRuns::default();
        let mut class = self.run_once_more(&mut runs).await?;
        let mut verdict = compare(&runs.ordinary, &runs.rewound);
        for _ in 1..CONFIRMATIONS {
            if !matches!(verdict, Verdict::Differs(_)) {
                break;
            }
            class = self.run_once_more(&mut runs).await?;
            verdict = compare(&runs.ordinary, &runs.rewound);
        }
        if let Verdict::Differs(difference) = &verdict {
            let target = String::from_utf8_lossy(self.request.head.path_query()).into_owned();
            let url = format!("{}://{}{target}", self.request.ends.scheme.text(), self.request.authority());
            self.thread.process.log.warn(format_args!(
                "php.rewind: responses to GET {url} that began in an image differ from ordinary ones: `{}` instead of `{}`. \
                 Images of this kind are not used any more until PHP is reloaded; please report this.",
                difference.rewound, difference.ordinary
            ));
            if let Some(scoreboard) = self.workers.scoreboard() {
                scoreboard.switch_off(class);
            }
            let text::Difference { ordinary, rewound } = difference.clone();
            let responses = Arc::new(runs.latest());
            self.workers.comparisons.remember(RewindDifference { url, ordinary, rewound, responses });
        }
        Some(verdict)
    }

    /// Runs it the ordinary way, in an image, and the ordinary way again; the class of the image.
    async fn run_once_more(&self, runs: &mut ComparedRuns) -> Option<u64> {
        let (before, _) = self.run(true).await?;
        let (rewound, end) = self.run_rewound().await?;
        let (after, _) = self.run(true).await?;
        runs.ordinary.extend([before, after]);
        runs.rewound.push(rewound);
        Some(end.class)
    }

    /// A worker whose image was thrown away makes another one first.
    async fn run_rewound(&self) -> Option<(Vec<u8>, EndFrame)> {
        for _ in 0..ATTEMPTS {
            let (response, end) = self.run(false).await?;
            if end.rewound {
                return Some((response, end));
            }
        }
        None
    }

    /// Runs the request once more, when a worker is idle.
    async fn run(&self, ordinary: bool) -> Option<(Vec<u8>, EndFrame)> {
        self.wait_for_leisure().await?;
        let mut request = self.request.derived(self.request.head.path_query(), |_| true, &[]);
        let (run, ended) = watched(ordinary, true);
        request.run = Some(run);
        let dispatcher = Dispatcher::new(&self.thread, &self.workers);
        let reply = Box::pin(dispatcher.run(&self.site, &mut request, &self.script, pending())).await?;
        let response = whole(reply).await?;
        drop(request);
        let end = timeout(PATIENCE, ended).await.ok()?.ok()?;
        (end.ready && !end.failed && !end.aborted && (end.repeatable || !end.rewound))
            .then_some((response, end))
    }

    async fn wait_for_leisure(&self) -> Option<()> {
        let (pause, times) = LOOK;
        for _ in 0..times {
            if self.workers.is_at_leisure() {
                return Some(());
            }
            sleep(pause).await;
        }
        None
    }
}

/// How a request is to run, and who learns how it has ended.
fn watched(ordinary: bool, again: bool) -> (AsRun, oneshot::Receiver<EndFrame>) {
    let (sender, ended) = oneshot::channel();
    (AsRun { ordinary, again, sql: None, end: Arc::new(Told(Mutex::new(Some(sender)))) }, ended)
}

#[derive(Debug)]
struct Told(Mutex<Option<oneshot::Sender<EndFrame>>>);

impl RunEnd for Told {
    fn ended(&self, end: EndFrame) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Nobody waits for it any more: the comparison was given up.
        let _ = sender.map(|sender| sender.send(end));
    }
}

/// Status, fields and content as one text; `None`: it is too long, is no text of a script, or is incomplete.
async fn whole(reply: Reply) -> Option<Vec<u8>> {
    let mut text = format!("{}\n", reply.status).into_bytes();
    for (name, value) in reply.fields.iter() {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    match reply.body {
        Body::Empty => {}
        Body::Bytes(bytes) => text.extend_from_slice(&bytes),
        Body::Stream(mut stream) => {
            while stream.next(&mut text).await.ok()? {
                if text.len() > CONTENT_MOST {
                    return None;
                }
            }
        }
        _ => return None,
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::text::Difference;
    use super::*;

    #[test]
    fn comparisons_become_rare_where_nothing_differs() {
        let comparisons = Comparisons::default();
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            assert!(comparisons.begin(now) && !comparisons.begin(now), "one at a time");
            comparisons.end(now, Some(&Verdict::Same));
            let began = now;
            while !comparisons.begin(now) {
                now += 100;
            }
            comparisons.end(now, None);
            pauses.push((now - began) / 1000);
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert!(comparisons.begin(now), "there was nothing to compare");
        comparisons.end(now, Some(&Verdict::Differs(Difference::default())));
        assert!(!comparisons.begin(now + 900) && comparisons.begin(now + 1000));
        let status = comparisons.status();
        assert_eq!((status.same, status.unsure, status.different), (9, 0, 1));
    }

    #[test]
    fn the_latest_differences_are_shown() {
        let comparisons = Comparisons::default();
        for n in 0..20 {
            comparisons.remember(RewindDifference { url: n.to_string(), ..RewindDifference::default() });
        }
        let urls: Vec<String> = comparisons.status().differences.into_iter().map(|one| one.url).collect();
        assert_eq!(urls, ["19", "18", "17", "16", "15", "14", "13", "12"]);
    }
}
