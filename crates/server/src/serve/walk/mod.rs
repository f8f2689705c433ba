//! The walk of a request: a table of rows, of which each passes the request on, or says how it ends.
//!
//! ```text
//!   row ── Next ───── the next row
//!    ├──── Answer ─── a response: the rules change its fields, the site's own are added
//!    ├──── Refuse ─── the site's page for the status, or the server's own
//!    ├──── Wait ───── something must be found out first: then from the first row again
//!    ├──── Make ───── PHP or an application makes the response
//!    └──── Elsewhere  another event loop responds
//! ```
//!
//! [`respond`] takes a request as far as that goes without waiting; an exchange sees the rest through. `millrace cache explain` walks the
//! same rows: there the cache only looks.

mod arrival;
mod made;
mod place;
mod rules;

pub(super) use place::other_file;

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use super::{ServeThread, leave, site_rules};
use crate::cache::{CacheStatus, Preview, Waited};
use crate::htaccess::{self, Origin};
use crate::route::Route;
use crate::shield::Missing;
use millrace_base::context::stats::ResponseClass;
use millrace_base::message::reply::{self, Reply};
use millrace_base::message::{Request, Step};
use millrace_base::site::Script;
use millrace_pools::SiteWorkers;

/// What a row says.
pub type WalkStep = Step<Make>;

/// A response that must be made.
pub struct Make {
    /// By whom.
    pub maker: Maker,
    /// What it says about the cache.
    pub cache_status: CacheStatus,
    /// Most likely the response: a page that is being made for all who ask for it. The request waits for it before its own is made.
    pub page: Option<Pin<Box<dyn Future<Output = Waited>>>>,
}

/// Who makes a response.
#[derive(Clone, Debug)]
pub enum Maker {
    /// PHP.
    Script(Script),
    /// An application behind the server: the number of the site's proxy.
    Application(usize),
    /// A script decides first whether the request may pass, by the number of the site's rule: then the request walks again.
    Permission(u32),
}

/// A row of the table.
pub(super) struct WalkRow {
    pub(super) name: &'static str,
    step: fn(&mut Walk<'_>) -> WalkStep,
    /// It still counts when it is known who makes the response.
    is_for_made: bool,
}

impl WalkRow {
    const fn finds(name: &'static str, step: fn(&mut Walk<'_>) -> WalkStep) -> WalkRow {
        WalkRow { name, step, is_for_made: false }
    }

    const fn makes(name: &'static str, step: fn(&mut Walk<'_>) -> WalkStep) -> WalkRow {
        WalkRow { name, step, is_for_made: true }
    }
}

/// The way of every request.
pub(super) static ROWS: [WalkRow; 14] = [
    WalkRow::finds("challenge", arrival::challenge),
    WalkRow::finds("ban", arrival::ban),
    WalkRow::finds("certificate", arrival::certificate),
    WalkRow::finds("early data", arrival::early_data),
    WalkRow::finds("purge order", arrival::purge_order),
    WalkRow::finds("front door", arrival::front_door),
    WalkRow::finds("site rules", site_rules::apply),
    WalkRow::finds("application", rules::application),
    WalkRow::finds(".htaccess", rules::htaccess),
    WalkRow::finds("application rules", rules::of_application),
    WalkRow::finds("protocol", place::protocol),
    WalkRow::finds("place", place::find),
    WalkRow::makes("cache", made::consult),
    WalkRow::makes("make", made::make),
];

/// What a walk is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkPurpose {
    /// The response.
    Serve,
    /// An explanation: nothing is counted, stored or run.
    Explain,
}

/// A request on its way.
pub struct Walk<'a> {
    pub(super) thread: &'a Rc<ServeThread>,
    pub(super) site: &'a Arc<SiteWorkers>,
    pub(super) request: &'a mut Request,
    purpose: WalkPurpose,
    /// The normalised path of the request, behind the front door.
    pub(super) path: Vec<u8>,
    /// What makes the response.
    pub class: ResponseClass,
    /// Whose response it is, for the rules that change it.
    origin: Origin,
    /// Who makes the response, as soon as this is known.
    pub maker: Option<Maker>,
    /// What the response says about the cache.
    cache_status: CacheStatus,
    /// A page that is being made.
    page: Option<Pin<Box<dyn Future<Output = Waited>>>>,
    /// What the cache would do, for an explanation.
    pub preview: Option<Preview>,
    /// The status for which the site's own page responds.
    pub error: Option<u16>,
    /// The row at which the walk has ended.
    pub row: &'static str,
    /// What the row at work has found, in words for an explanation.
    note: String,
    /// What the rows have found, for an explanation.
    pub trail: Trail,
}

/// The rows of a walk, and what each has found; empty if nothing.
pub type Trail = Vec<(&'static str, String)>;

/// The response of `site` to `request`, and what made it. A ready response is sent as it is.
pub fn respond(
    thread: &Rc<ServeThread>,
    site: &Arc<SiteWorkers>,
    request: &mut Request,
) -> (ResponseClass, WalkStep) {
    site.note_request(thread.context.clock.unix_time().as_secs());
    thread.context.pulse.note_site(site.index);
    let mut walk = Walk::new(thread, site, request, WalkPurpose::Serve);
    walk.path = thread.path.take();
    let mut step = walk.run();
    walk.guard(&mut step);
    if let Step::Answer(reply) = &mut step {
        leave(site, reply);
    }
    let class = walk.class;
    thread.path.replace(walk.path);
    (class, step)
}

impl<'a> Walk<'a> {
    /// A request that begins its way.
    pub fn new(
        thread: &'a Rc<ServeThread>,
        site: &'a Arc<SiteWorkers>,
        request: &'a mut Request,
        purpose: WalkPurpose,
    ) -> Walk<'a> {
        Walk {
            thread,
            site,
            request,
            purpose,
            path: Vec::new(),
            class: ResponseClass::Other,
            origin: Origin::Server,
            maker: None,
            cache_status: CacheStatus::NOTHING,
            page: None,
            preview: None,
            error: None,
            row: "",
            note: String::new(),
            trail: Trail::new(),
        }
    }

    /// Walks to the row that ends it.
    pub fn run(&mut self) -> WalkStep {
        for row in &ROWS {
            if self.maker.is_some() && !row.is_for_made {
                continue;
            }
            self.row = row.name;
            let mut step = (row.step)(self);
            if self.explains() {
                self.trace(&step);
            }
            match &mut step {
                // It holds nothing; to drop it would be a call for each row.
                Step::Next => std::mem::forget(step),
                Step::Refuse(status) => return self.refuse(*status),
                Step::Answer(reply) => {
                    self.change(reply);
                    return step;
                }
                _ => return step,
            }
        }
        // The last row always ends it.
        Step::Answer(reply::plain(500))
    }

    /// Whether it is for an explanation.
    pub(super) fn explains(&self) -> bool {
        self.purpose == WalkPurpose::Explain
    }

    /// Says in words what the row at work has found.
    pub(super) fn note(&mut self, found: impl FnOnce() -> String) {
        if self.explains() {
            self.note = found();
        }
    }

    /// The same, where rules may have led to another path.
    pub(super) fn note_path(&mut self) {
        if !self.explains() {
            return;
        }
        if let Some(ruling) =
            self.request.found.ruling.as_ref().filter(|ruling| ruling.verdict.path != self.path)
        {
            self.note = format!("leads to {}", String::from_utf8_lossy(&ruling.verdict.path));
        }
    }

    fn trace(&mut self, step: &WalkStep) {
        let end = match step {
            Step::Next => String::new(),
            Step::Answer(reply) => format!("responds with {}", reply.status),
            Step::Refuse(status) => format!("refuses with {status}"),
            Step::Wait(_) => "waits until the response is ready".to_owned(),
            Step::Make(Make { maker: Maker::Permission(_), .. }) => "asks a script first".to_owned(),
            Step::Make(_) => "has the response made".to_owned(),
            Step::Elsewhere => "leaves it to another event loop".to_owned(),
        };
        let parts = [std::mem::take(&mut self.note), end];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        self.trail.push((self.row, parts.join("; ")));
    }

    /// The rules of the site and of `.htaccess` files change a response.
    fn change(&self, reply: &mut Reply) {
        site_rules::change(self.thread, self.site, self.request, self.origin, reply);
    }

    fn changed(&self, mut reply: Reply) -> Reply {
        self.change(&mut reply);
        reply
    }

    /// A status of the server's own: the site's page for it, or a plain one.
    fn refuse(&mut self, status: u16) -> WalkStep {
        let Walk { thread, site, .. } = *self;
        match htaccess::error_page(&thread.htaccess, &thread.context, site, self.request, status) {
            Step::Next => self.error_page(status),
            Step::Refuse(_) if site_rules::error_page(site, self.request, &self.path, status) => {
                self.error_page(status)
            }
            Step::Refuse(_) => Step::Answer(self.changed(reply::plain(status))),
            Step::Answer(reply) => Step::Answer(self.changed(reply)),
            step => step.widen(),
        }
    }

    /// The page of the site for an error, to which the request's ruling leads now.
    fn error_page(&mut self, status: u16) -> WalkStep {
        self.error = Some(status);
        match place::routed(self) {
            Route::Php(script) => {
                self.class = ResponseClass::Php;
                let (maker, cache_status) = (Maker::Script(script), CacheStatus::bypass("error-document"));
                Step::Make(Make { maker, cache_status, page: None })
            }
            Route::File(entry) => match place::file(self, &entry) {
                Step::Answer(reply) => Step::Answer(as_error(self.changed(reply), status)),
                Step::Wait(reply) => {
                    Step::Wait(Box::pin(async move { reply.await.map(|reply| as_error(reply, status)) }))
                }
                step => step,
            },
            _ => {
                self.error = None;
                Step::Answer(self.changed(reply::plain(status)))
            }
        }
    }

    /// What the shield makes of the end of a walk.
    fn guard(&mut self, step: &mut WalkStep) {
        let Walk { thread, site, .. } = *self;
        let (shield, request) = (&thread.shield, &*self.request);
        let has_password = || request.head.field("authorization").is_some();
        let refusal = match &*step {
            Step::Answer(reply) if reply.status == 404 => {
                let is_made = self.class == ResponseClass::Page;
                let missing = if is_made { Missing::by_script(reply) } else { Missing::File };
                shield.not_found(&thread.context, site, request, missing)
            }
            // What no script has refused, the server has: a password of its rules or of `.htaccess`.
            Step::Answer(reply) if reply.status == 401 && has_password() => {
                shield.wrong_password(&thread.context, site, request)
            }
            // Its password is being checked, or a file of rules is read, for a moment.
            Step::Wait(_) if self.class != ResponseClass::File && has_password() => {
                shield.no_guess_left(&thread.context, site, request)
            }
            // Another request's fill may bring the page; for its own, the maker asks the shield.
            Step::Make(Make { page: None, .. }) => shield.held_back(&thread.context, site, request),
            _ => None,
        };
        if let Some(refusal) = refusal {
            if !matches!(step, Step::Answer(_)) {
                self.class = ResponseClass::Other;
            }
            *step = Step::Answer(refusal);
        }
    }

    /// Ends the walk with a response of the server's own.
    fn plain(status: u16) -> WalkStep {
        Step::Answer(reply::plain(status))
    }
}

fn as_error(reply: Reply, status: u16) -> Reply {
    Reply { status: if reply.status == 200 { status } else { reply.status }, ..reply }
}
