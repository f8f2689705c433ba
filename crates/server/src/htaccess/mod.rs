//! The rules of `.htaccess` files, before a request's path is looked up.
//!
//! ```text
//!  Request -> rule -> World (folders: cached files; the disk; passwords) -> millrace-htaccess -> Verdict
//!                |
//!                '-> Ruling, kept with the request: the path to route, PHP's variables, a part of the page's key
//!  Reply ---> change: header fields, media type, expiry by the same Ruling
//! ```
//!
//! A verdict is remembered for half a second, together with the header fields that it depends on (`remembered.rs`): a
//! cached page then costs a look into a table. A site without such files pays a look into the cache for each folder on the
//! way. Each event loop has its own cache; compiled files are shared by all loops, and the log names each version's unusable
//! lines once. Compiling takes long for some files, and so may reading
//! passwords: requests wait for it, event loops do not. Evaluating takes a loop's time: beside other sites, a site gets a tenth of it (`budget.rs`), and rules
//! that take long are evaluated on other threads (`beside.rs`).

mod beside;
mod budget;
mod folders;
mod leaving;
pub mod page_key;
mod passwords;
mod remembered;
mod user_files;
mod view;
mod world;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use millrace_htaccess::folder::Document;
use millrace_htaccess::{Outcome, Verdict, effort, evaluate, for_error};

use budget::EvaluationTurn;
pub use folders::{SharedFolders, UnappliedLines};
pub use leaving::{Origin, change};
pub use passwords::PasswordWaiter;

use millrace_base::context::Context;
use millrace_base::context::stats::Counter;
use millrace_base::message::reply::{Body, Reply, plain};
use millrace_base::message::request::{EvaluationResult, Ruling};
use millrace_base::message::{Request, Step};
use millrace_base::site::Site;

/// An event loop's part.
#[derive(Debug, Default)]
pub struct HtaccessThread {
    folders: RefCell<folders::Folders>,
    passwords: passwords::Passwords,
    user_files: user_files::UserFiles,
    budget: budget::EvaluationBudget,
    shared: Arc<SharedFolders>,
    /// When the log may name a request again whose rules took too long, in ticks.
    exhausted_again: std::cell::Cell<u64>,
}

impl HtaccessThread {
    /// With the compiled files of all event loops.
    pub fn new(shared: Arc<SharedFolders>) -> HtaccessThread {
        HtaccessThread { shared, ..HtaccessThread::default() }
    }

    /// Whether `password` is that of a stored hash.
    ///
    /// # Errors
    /// The hash can't be used: what to do.
    pub fn check_password(
        &self,
        hash: &str,
        (user, password): (&str, &[u8]),
        waiter: PasswordWaiter,
    ) -> Result<Password, String> {
        Ok(match self.passwords.look(hash, user, password)? {
            Ok(true) => Password::Right,
            Ok(false) => Password::Wrong,
            Err(check) => self.passwords.begin(check, waiter).map_or(Password::Busy, Password::Wait),
        })
    }
}

/// The result of the check of a password.
pub enum Password {
    /// It is right.
    Right,
    /// It is wrong.
    Wrong,
    /// It will be known when this is ready.
    Wait(Pin<Box<dyn Future<Output = ()>>>),
    /// Too many checks are waiting.
    Busy,
}

/// Applies the rules on the way to `path`, the request's normalised path or what stands for it. Leaves the ruling with
/// the request. `before` is what the site's own rules have made of the request.
pub fn rule(
    thread: &HtaccessThread,
    context: &Context,
    site: &Site,
    request: &mut Request,
    path: &[u8],
    before: Option<&Arc<Ruling>>,
) -> Step {
    request.found.ruling = before.cloned();
    thread.budget.see(site.index, context.clock.ticks());
    if !site.plan.htaccess {
        return Step::Next;
    }
    let world = world::SiteDisk::new(thread, context, site);
    let has_rules = world.has_rules(path);
    if let Some(missing) = world.missing() {
        return Step::after(missing);
    }
    if !has_rules {
        return Step::Next;
    }
    // What rules of the site have changed is not part of the name under which a verdict is remembered.
    if before.is_none()
        && let Some(ruling) = world.remembered(request, path)
    {
        request.found.ruling = Some(ruling.clone());
        return ruled(world, request, &ruling.verdict.outcome);
    }
    let query = before.map_or(request.query(), |before| before.verdict.query.as_deref()).map(<[u8]>::to_vec);
    let query = query.as_deref();
    let (mut verdict, mut reads) = match evaluated(thread, context, site, request, (path, query), &world) {
        Ok(Some(found)) => found,
        Ok(None) => return Step::Next,
        Err(step) => return step,
    };
    if !verdict.cache.vary_cookies.is_empty() {
        reads.iter_mut().for_each(|reads| reads.push("cookie".to_owned()));
    }
    let index = &context.plan().files.index;
    let mut key = page_key::of(site, index, &world, path, &verdict, (request, query));
    if let Some(before) = before {
        key.splice(..0, before.key.iter().copied());
        if verdict.user.is_empty() {
            verdict.user.clone_from(&before.verdict.user);
        }
        let from = verdict.redirected_from.take();
        verdict.redirected_from = from.or_else(|| before.verdict.redirected_from.clone());
    }
    let ruling = Arc::new(Ruling { verdict, key: key.into() });
    if let Some(reads) = reads.filter(|_| before.is_none()) {
        world.remember(request, path, reads, &ruling);
    }
    request.found.ruling = Some(ruling.clone());
    ruled(world, request, &ruling.verdict.outcome)
}

/// A verdict, with the header fields on which it depends; `None`: on more than those.
type Judged = (Verdict, Option<Vec<String>>);

/// What the rules say: on this loop, or beside it. The error is what becomes of the request meanwhile, or for good.
fn evaluated(
    thread: &HtaccessThread,
    context: &Context,
    site: &Site,
    request: &mut Request,
    (path, query): (&[u8], Option<&[u8]>),
    world: &world::SiteDisk<'_>,
) -> Result<Option<Judged>, Step> {
    let now = context.clock.ticks();
    let mut may_leave = true;
    match beside::found(request, path, query) {
        Some(EvaluationResult::Verdict { verdict, steps, is_exhausted }) => {
            thread.budget.note(site.index, *steps, now);
            if *is_exhausted {
                say_exhausted(thread, context, site, path);
            }
            return Ok(verdict.as_deref().cloned());
        }
        Some(EvaluationResult::Failed) => return Err(failed(context, site, path)),
        Some(EvaluationResult::NeedsLoop) => may_leave = false,
        None => {}
    }
    match thread.budget.turn(site.index, now, may_leave) {
        EvaluationTurn::Now => {}
        EvaluationTurn::Beside(place) => {
            context.stats.add(Counter::HtaccessBeside, 1);
            return Err(Step::after(beside::begin(
                &thread.shared,
                context,
                site,
                request,
                (path, query),
                place,
            )));
        }
        EvaluationTurn::Wait(time, place) => {
            return Err(Step::after(async move {
                tokio::time::sleep(time).await;
                drop(place);
            }));
        }
        EvaluationTurn::Busy => return Err(Step::Answer(plain(503).with("Retry-After", "5"))),
    }
    let evaluated = catch_unwind(AssertUnwindSafe(|| {
        view::with(context, site, request, path, query, |view| {
            evaluate(view, world).map(|verdict| (verdict, view.reads()))
        })
    }));
    thread.budget.pay(site.index, effort::steps(), now);
    // The evaluation has asked for the rules of another folder, or for a file of passwords or groups.
    if let Some(missing) = world.missing() {
        return Err(Step::after(missing));
    }
    if effort::is_exhausted() {
        say_exhausted(thread, context, site, path);
    }
    evaluated.map_err(|_| failed(context, site, path))
}

/// Says that Millrace fails on rules.
fn failed(context: &Context, site: &Site, path: &[u8]) -> Step {
    let (root, path) = (site.plan.root.display(), path.escape_ascii());
    context.process.log.error(format_args!(
        "{path}: Millrace fails on the .htaccess files of {root}: answered with 500; please report it"
    ));
    Step::Refuse(500)
}

/// Says that a request was refused because its rules took too many steps: at most once a minute, and each loop of its own.
fn say_exhausted(thread: &HtaccessThread, context: &Context, site: &Site, path: &[u8]) {
    let now = context.clock.ticks();
    if now < thread.exhausted_again.get() {
        return;
    }
    thread.exhausted_again.set(now + 60_000);
    let (root, path) = (site.plan.root.display(), path.escape_ascii());
    context.process.log.warn(format_args!(
        "{path}: the .htaccess files of {root} took more than {} steps, so the request was refused (403): shorten their lists of regular expressions, and use no [N]",
        effort::MOST_STEPS
    ));
}

/// What the outcome of a verdict means for the request.
fn ruled(world: world::SiteDisk<'_>, request: &Request, outcome: &Outcome) -> Step {
    match outcome {
        Outcome::Serve => Step::Next,
        Outcome::Redirect(status, location) => {
            Step::Answer(millrace_base::message::reply::redirect(*status, location))
        }
        Outcome::Refuse(status) => Step::Refuse(*status),
        Outcome::Unauthorized(_) => Step::Refuse(401),
        Outcome::Wait => match world.into_check(request) {
            Some(check) => Step::after(check),
            None => Step::Answer(plain(503).with("Retry-After", "5")),
        },
    }
}

/// Finds the site's page for `status`, a refusal: `Next` if it is a path of the site, to which the request's new ruling leads; the
/// refusal itself if there is none.
pub fn error_page(
    thread: &HtaccessThread,
    context: &Context,
    site: &Site,
    request: &mut Request,
    status: u16,
) -> Step {
    let Some(ruling) = request.found.ruling.clone() else { return Step::Refuse(status) };
    // A page for an error of a page for an error.
    if ruling.verdict.status.is_some() {
        return Step::Refuse(status);
    }
    match ruling.verdict.document(status) {
        Document::Default => Step::Refuse(status),
        Document::Text(text) => {
            let reply =
                Reply { status, ..Reply::new(status) }.with("Content-Type", "text/html; charset=iso-8859-1");
            Step::Answer(reply.body(Body::Bytes(text.clone().into_bytes())))
        }
        Document::Url(url) => Step::Answer(millrace_base::message::reply::redirect(302, url)),
        Document::Path(path) => {
            let world = world::SiteDisk::new(thread, context, site);
            let (path_before, query) = (&ruling.verdict.path, request.query());
            let verdict = view::with(context, site, request, path_before, query, |view| {
                for_error(view, &world, &ruling.verdict, path, status)
            });
            if let Some(missing) = world.missing() {
                return Step::after(missing);
            }
            if verdict.outcome != Outcome::Serve {
                return Step::Refuse(status);
            }
            request.found.ruling = Some(Arc::new(Ruling { verdict, key: Box::default() }));
            Step::Next
        }
    }
}
