//! Purges what a plain SQL client changes in a site's database: phpMyAdmin, `wp db query`, another machine. Millrace speaks no SQL and
//! has no credentials: the site's own PHP looks, twice a second while the site has visitors (`php/inject/wordpress/sql.php`).
//!
//! ```text
//!  look: wp-load.php, as far as its database ──> digests of rows ──> Rows: what has changed?
//!        written by PHP? its hooks have purged it already            <── cache::Written
//!        the rest ──> wp-load.php, whole: purges by the tags of each row
//! ```
//!
//! [`rows`] holds digests and finds what has changed; this module asks PHP. It runs on one event loop, and no visitor waits for it.

mod rows;

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_pages::visitors::MemberRow;
use millrace_settings::plan::{CacheMode, Level, Profile};
use millrace_wire::frames::EndFrame;
use millrace_wire::head::{Head, Limits};
use tokio::time::{sleep, timeout};

use self::rows::{Look, LookProblem, Millis, RowChange, Rows, order};
use crate::serve::rest::{NextLook, rest};
use crate::serve::{ServeThread, SharedSetup};
use millrace_base::context::stats::Counter;
use millrace_base::context::{OpenWork, ProcessStage, WorkKind};
use millrace_base::message::reply::{Body, Reply};
use millrace_base::message::request::{AsRun, Ends, Request, RunEnd, Scheme};
use millrace_base::site::{Script, WorkerKind};
use millrace_pools::{self as php, SiteWorkers};

/// Longest pause for all sites after a look at one of them, [`SHARE`] times its duration: so looks use a tenth of a core, however many sites there are.
const LONGEST_FOR_ALL: Millis = 1000;
/// A site without requests for so long, in seconds, is not looked at.
const IDLE: u64 = 60;
/// Time for the report of a PHP process that has written what a look has seen.
const REPORT: Duration = Duration::from_millis(150);
/// Pause after a check that has read rows, as a multiple of its duration: checks use a tenth of a core at most.
const SHARE: Millis = 9;
/// Longest pause: after a look that has failed, or waited for PHP.
const TROUBLE: Millis = 10_000;
/// Maximum time for PHP.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum length of what it prints, bytes.
const MOST_TEXT: usize = 16 << 20;
/// Changes that the log shows.
const SHOWN: usize = 5;

/// When the next look at any site may begin.
type Pace = Rc<Cell<Millis>>;

/// A site that is looked at.
struct WatchedSite {
    pace: Pace,
    site: Arc<SiteWorkers>,
    script: Script,
    state: Rc<RefCell<State>>,
}

#[derive(Default)]
struct State {
    rows: Rows,
    /// A look is in progress.
    is_busy: bool,
    /// When the next look may begin.
    next: Millis,
    /// It can't be looked at.
    is_off: bool,
    /// The same problem is reported once.
    problem: Option<LookProblem>,
}

/// Looks at all sites until the server shuts down.
pub async fn watch(thread: Rc<ServeThread>) {
    let mut setup = thread.setup();
    let pace = Pace::default();
    let mut sites = watched(&thread, &setup, &pace, Vec::new());
    while thread.context.process.stage() == ProcessStage::Running {
        let (second, pace_at) = (thread.context.clock.unix_time().as_secs(), pace.get());
        rest(&thread, sites.iter().map(|site| site.need(second, pace_at))).await;
        let now = thread.setup();
        if !Rc::ptr_eq(&now, &setup) {
            setup = now;
            sites = watched(&thread, &setup, &pace, sites);
        }
        let ticks = thread.context.clock.ticks();
        let due = sites.iter().filter(|site| site.is_due(ticks, thread.context.clock.unix_time().as_secs()));
        // The one that has waited longest.
        if let Some(next) = due.min_by_key(|site| site.state.borrow().next).filter(|_| ticks >= pace.get()) {
            next.state.borrow_mut().is_busy = true;
            pace.set(ticks + LONGEST_FOR_ALL);
            tokio::task::spawn_local(next.clone().look(thread.clone(), thread.context.begin(WorkKind::Look)));
        }
    }
}

/// The sites of a setup that are looked at; what is known of those in an older one is kept.
fn watched(
    thread: &ServeThread,
    setup: &SharedSetup,
    pace: &Pace,
    older: Vec<Rc<WatchedSite>>,
) -> Vec<Rc<WatchedSite>> {
    let mut sites = Vec::new();
    for site in &setup.workers {
        let Some(script) = script(site) else {
            thread.service.cache.written.forget(site.name().unwrap_or(""));
            continue;
        };
        let same =
            |old: &&Rc<WatchedSite>| old.site.name() == site.name() && old.script.filename == script.filename;
        let state = match older.iter().find(same) {
            Some(old) => old.state.clone(),
            None => Rc::default(),
        };
        state.borrow_mut().is_off = false;
        sites.push(Rc::new(WatchedSite { pace: pace.clone(), site: site.clone(), script, state }));
    }
    sites
}

/// What is run to look at a site; `None`: it is not looked at.
fn script(site: &SiteWorkers) -> Option<Script> {
    let plan = &site.plan;
    let is_watched = plan.profile == Profile::WordPress
        && plan.cache.mode == CacheMode::Profile
        && !plan.cache.sql_interval.is_zero()
        && site.runs_own_workers();
    let path = is_watched.then(|| plan.root.join("wp-load.php").canonicalize().ok()).flatten()?;
    let filename = path.as_os_str().as_bytes().into();
    let name = b"/wp-load.php".to_vec();
    Some(Script { filename, name, path_info: Vec::new(), workers: WorkerKind::Ordinary })
}

impl WatchedSite {
    /// When it is needed next, in this second since 1970, if no site is looked at before `pace`.
    fn need(&self, second: u64, pace: Millis) -> NextLook {
        let state = self.state.borrow();
        let is_visited = self.site.was_asked_since(second.saturating_sub(IDLE));
        match (state.is_busy, is_visited && !state.is_off) {
            (true, _) => NextLook::Busy,
            (false, true) => NextLook::At(state.next.max(pace)),
            (false, false) => NextLook::None,
        }
    }

    /// At this time of the clock, and in this second since 1970.
    fn is_due(&self, now: Millis, second: u64) -> bool {
        let state = self.state.borrow();
        !state.is_busy
            && !state.is_off
            && now >= state.next
            && self.site.was_asked_since(second.saturating_sub(IDLE))
    }

    async fn look(self: Rc<WatchedSite>, thread: Rc<ServeThread>, _open: OpenWork) {
        let began = thread.context.clock.ticks();
        let result = self.changes(&thread).await;
        let interval = self.site.plan.cache.sql_interval.as_millis() as Millis;
        let pause = match &result {
            Ok(pause) => *pause,
            Err(_) => TROUBLE,
        };
        thread.context.clock.read();
        let now = thread.context.clock.ticks();
        let mut state = self.state.borrow_mut();
        state.is_busy = false;
        state.next = (began + interval).max(now + pause);
        self.note(&thread, &mut state, result.err());
    }

    /// Looks, and purges what has changed; how long to pause, milliseconds.
    async fn changes(&self, thread: &Rc<ServeThread>) -> Result<Millis, LookProblem> {
        let (written, name) = (&thread.service.cache.written, self.site.name().unwrap_or(""));
        let began = thread.context.clock.ticks();
        written.begin(name);
        let times = self.state.borrow().rows.times();
        let members = self.site.visitors.members(&thread.context);
        let look = Look::read(&self.ask(thread, format!("look {times}{}", named(&members))).await?)?;
        self.check(&members, &look);
        thread.context.stats.add(Counter::SqlLooks, 1);
        thread.context.clock.read();
        let took = thread.context.clock.ticks() - began;
        self.pace.set(thread.context.clock.ticks() + (SHARE * took).min(LONGEST_FOR_ALL));
        let took = if look.has_rows() { took } else { 0 };
        let mut changes = self.state.borrow_mut().rows.take(look);
        if !changes.is_empty() {
            sleep(REPORT).await;
            thread.context.clock.read();
            changes = written.foreign(name, changes, RowChange::row);
        }
        written.judged(name);
        let due = self.state.borrow_mut().rows.due(changes, thread.context.clock.ticks());
        if !due.is_empty() {
            self.purge(thread, due).await?;
        }
        Ok((SHARE * took).min(TROUBLE))
    }

    /// Members whose rows are other ones now have no pass any more.
    fn check(&self, members: &[MemberRow], look: &Look) {
        let Some(found) = &look.members else { return };
        for (id, _) in members {
            let rows = std::str::from_utf8(id).ok().and_then(|id| found.get(id));
            self.site.visitors.check_member(id, rows.map(|rows| rows.as_bytes()));
        }
    }

    async fn purge(&self, thread: &Rc<ServeThread>, changes: Vec<RowChange>) -> Result<(), LookProblem> {
        let done = match self.ask(thread, format!("purge {}", order(&changes))).await {
            Ok(text) if !text.ends_with("end\n") => Err(LookProblem::incomplete(&text)),
            other => other.map(drop),
        };
        if done.is_err() {
            self.state.borrow_mut().rows.hold(changes);
            return done;
        }
        thread.context.stats.add(Counter::SqlChanges, changes.len() as u64);
        let shown: Vec<String> = changes.iter().take(SHOWN).map(RowChange::to_string).collect();
        let more = if changes.len() > SHOWN { ", ..." } else { "" };
        thread.context.process.log.message(
            Level::Info,
            format_args!(
                "SQL has changed rows of {}: {}{more} ({} in all)",
                self.shown(),
                shown.join(", "),
                changes.len()
            ),
        );
        done
    }

    /// What PHP prints for such an order.
    async fn ask(&self, thread: &Rc<ServeThread>, order: String) -> Result<String, LookProblem> {
        let failed = |why: &str| LookProblem::Incomplete(why.to_owned());
        let mut request = self.request().ok_or_else(|| failed("the site's name is no host name"))?;
        request.run =
            Some(AsRun { ordinary: true, again: false, end: Arc::new(Unwatched), sql: Some(order.into()) });
        let answer = async {
            thread.context.clock.read();
            whole(php::run(&thread.php, &self.site, &mut request, &self.script).await).await
        };
        let text = timeout(PATIENCE, answer).await.map_err(|_| failed("nothing for 30 s"))?;
        text.ok_or_else(|| failed("nothing"))
    }

    /// A request of cron, as far as PHP's pools and the page caches of plugins are concerned.
    fn request(&self) -> Option<Request> {
        let host = self.site.name().unwrap_or("localhost");
        let text = format!("GET /wp-cron.php HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let mut head = Head::default();
        head.parse(text.as_bytes(), &Limits { bytes: 4 << 10, fields: 4, target: 64 }).ok().flatten()?;
        let here = Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
        Some(Request::direct(head, Ends { client: here, local: here, scheme: Scheme::Http, tls: None }))
    }

    fn shown(&self) -> &str {
        self.site.name().unwrap_or("any host")
    }

    /// Reports a problem, once.
    fn note(&self, thread: &ServeThread, state: &mut State, problem: Option<LookProblem>) {
        match &problem {
            Some(LookProblem::Unsupported(why)) => {
                state.is_off = true;
                thread.service.cache.written.forget(self.site.name().unwrap_or(""));
                let log = &thread.context.process.log;
                log.message(
                    Level::Info,
                    format_args!("changes by plain SQL purge nothing on {}: {why}", self.shown()),
                );
            }
            Some(other) if state.problem != problem => thread.context.process.log.warn(format_args!(
                "cannot look for changes by SQL in the database of {}: {other}; is the database running? cache.sql_interval = 0 turns \
                 these looks off",
                self.shown()
            )),
            _ => {}
        }
        state.problem = problem;
    }
}

/// Members, as PHP reads them.
fn named(members: &[MemberRow]) -> String {
    let ids: Vec<_> = members.iter().filter_map(|(id, _)| std::str::from_utf8(id).ok()).collect();
    if ids.is_empty() { String::new() } else { format!(";members={}", ids.join(",")) }
}

/// Nothing waits for the end of such a run.
#[derive(Debug)]
struct Unwatched;

impl RunEnd for Unwatched {
    fn ended(&self, _: EndFrame) {}
}

/// The content of a response; `None`: it is too long, is no text of a script, or is incomplete.
async fn whole(reply: Reply) -> Option<String> {
    let mut text = Vec::new();
    match reply.body {
        Body::Bytes(bytes) => text = bytes,
        Body::Stream(mut stream) => {
            while stream.next(&mut text).await.ok()? {
                if text.len() > MOST_TEXT {
                    return None;
                }
            }
        }
        _ => return None,
    }
    String::from_utf8(text).ok()
}
