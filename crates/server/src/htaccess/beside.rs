//! Evaluations that take long, on threads beside the event loops: a site's own requests wait for them, those of other sites do not.
//!
//! ```text
//!  rule ── the site's rules were costly lately, and other sites need the loop ──> turn of the site ──> turn among all sites
//!   ^                                                                                                        │
//!   └── the request is routed again, with what was found <──── a thread of lower priority: files, evaluation ┘
//! ```
//!
//! A site has one at a time, and all sites together half of the processors; so sites take turns. A thread evaluates once and ends. What needs a password goes
//! back to the loop, which knows passwords and has a line for them (`passwords.rs`).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use millrace_htaccess::{Checked, Folder, Node, World, effort, evaluate};
use millrace_settings::Plan;
use tokio::sync::oneshot;

use super::budget::EvaluationPlace;
use super::folders::SharedFolders;
use super::view::Subject;
use super::world;
use millrace_base::context::Context;
use millrace_base::context::log::Log;
use millrace_base::message::Request;
use millrace_base::message::request::{Evaluation, EvaluationResult};
use millrace_base::site::{Reach, Site};

/// The niceness of the threads: beside busy event loops they get a tenth of a processor.
const NICE: i32 = 10;

/// What was found beside the loop for this path and query of a request.
pub fn found<'r>(request: &'r Request, path: &[u8], query: Option<&[u8]>) -> Option<&'r EvaluationResult> {
    let is_it = |known: &&Arc<Evaluation>| known.path == path && known.query.as_deref() == query;
    request.found.evaluations.iter().find(is_it)?.found.get()
}

/// Has a thread evaluate; the request is to be routed again when this is ready.
pub fn begin(
    shared: &Arc<SharedFolders>,
    context: &Context,
    site: &Site,
    request: &mut Request,
    (path, query): (&[u8], Option<&[u8]>),
    place: EvaluationPlace,
) -> Pin<Box<dyn Future<Output = ()>>> {
    let evaluation = Arc::new(Evaluation {
        path: path.to_vec(),
        query: query.map(<[u8]>::to_vec),
        found: OnceLock::new(),
    });
    request.found.evaluations.push(evaluation.clone());
    let plan = (*context.plan()).clone();
    let asked = evaluation.clone();
    let work = Work {
        subject: Subject::of(context, request),
        disk: SiteFiles {
            shared: shared.clone(),
            log: context.process.log.clone(),
            wall: context.clock.unix_time().as_nanos(),
            reach: site.reach.clone(),
            site: site.index,
            plan,
            needs_password: Cell::new(false),
        },
        evaluation,
    };
    let (turn, all) = (shared.turn(site), shared.threads());
    Box::pin(async move {
        let _place = place;
        let (Ok(turn), Ok(thread)) = (turn.acquire_owned().await, all.acquire_owned().await) else { return };
        let (tell, told) = oneshot::channel::<()>();
        // The turns end with the work, even if the client goes.
        let run = move || {
            let _turns = (turn, thread, tell);
            work.run();
        };
        if std::thread::Builder::new().name("htaccess".to_owned()).spawn(run).is_ok() {
            let _ = told.await;
        }
        // Unless it was found: there is no thread for it.
        let _ = asked.found.set(EvaluationResult::NeedsLoop);
    })
}

struct Work {
    subject: Subject,
    disk: SiteFiles,
    evaluation: Arc<Evaluation>,
}

impl Work {
    fn run(self) {
        let _ = rustix::process::setpriority_process(None, NICE);
        let Work { subject, disk, evaluation } = self;
        let site = &disk.plan.sites[disk.site];
        let query = evaluation.query.as_deref();
        let evaluated = catch_unwind(AssertUnwindSafe(|| {
            subject.with(&disk.plan, site, &evaluation.path, query, |view| {
                evaluate(view, &disk).map(|verdict| Box::new((verdict, view.reads())))
            })
        }));
        let found = match evaluated {
            Ok(_) if disk.needs_password.get() => EvaluationResult::NeedsLoop,
            Ok(verdict) => EvaluationResult::Verdict {
                verdict,
                steps: effort::steps(),
                is_exhausted: effort::is_exhausted(),
            },
            Err(_) => EvaluationResult::Failed,
        };
        let _ = evaluation.found.set(found);
    }
}

/// The disk of a site, for a thread that may wait for it.
struct SiteFiles {
    shared: Arc<SharedFolders>,
    log: Log,
    /// Nanoseconds since 1970.
    wall: u128,
    reach: Reach,
    site: usize,
    plan: Arc<Plan>,
    needs_password: Cell<bool>,
}

impl World for SiteFiles {
    fn folders(&self, path: &[u8]) -> Vec<(usize, Arc<Folder>)> {
        let site = &self.plan.sites[self.site];
        self.shared.all(&self.log, self.wall, site, &self.reach, path)
    }

    fn node(&self, absolute: &[u8]) -> Option<Node> {
        world::node(&self.reach, absolute)
    }

    fn is_link(&self, absolute: &[u8]) -> bool {
        world::is_link(&self.reach, absolute)
    }

    fn password(&self, _: &str, _: &str, _: &[u8]) -> Checked {
        self.needs_password.set(true);
        Checked::Later
    }

    fn in_group(&self, _: &str, _: &str, _: &[String]) -> Checked {
        self.needs_password.set(true);
        Checked::Later
    }
}
