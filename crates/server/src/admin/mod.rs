//! The admin address: metrics for Prometheus, status, reload, purge and warm-up.
//!
//! ```text
//!  GET /             list of addresses      GET /status         status as text
//!  GET /dashboard    page for browsers      GET /events         status as server-sent events, every 2 s
//!  GET /metrics      Prometheus text        GET /status.json    status as JSON
//!  GET /history.json figures of the last hour and day, as JSON
//!  GET /php.json     what PHP does right now, as JSON
//!  GET /rewind-difference   a response that `php.rewind = "auto"` has found to differ
//!  GET /doctor.json  what holds the server back now, as JSON
//!  GET /healthz      200, or 503 and which event loops hang   GET /readyz   200, or 503 and why it should get no requests
//!  POST /reload      200 and warnings, or 422 and every problem of the new configuration
//!  POST /purge       200 and how many pages, or 422 and what is wrong with the order
//!  POST /warm        200 and what came of the URL, or 422 and what is wrong with it
//!  POST /debug/hang-loop   makes an event loop hang, to test what tells of it; only through the socket
//!  POST /debug/settle      200 when all work has ended that began before, or 503 and what has not; only through the socket
//!  POST /shield      200 and bans, or what is known of an address, or 422 and what is wrong with the order
//! ```
//!
//! It runs on the control thread, apart from the event loops, so it responds even when they are busy. Its clients may
//! reload the server and see every site, so it is a Unix socket that only its owner can open, or a loopback address
//! that trusts no web page but the dashboard, and this one only with a token: see [`AdminListener`], [`caller`] and [`token`].

mod applications;
mod backends;
mod caller;
mod certificates;
mod connections;
mod dashboard;
mod doctor;
mod explain;
mod health;
mod history;
mod http;
mod insight;
mod listener;
mod machine;
mod metrics;
mod objects;
mod pages;
mod php;
mod rewind;
mod room;
mod settle;
mod shield;
mod sites;
mod status;
mod token;
mod uploads;

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

pub use doctor::Doctor;
pub use listener::AdminListener;
use tokio::time::MissedTickBehavior;

use crate::acme::Standing;
use crate::cache::purge;
use crate::serve::explain::{ExplainRequest, Explanation};
use crate::serve::{Service, ShieldOrder};
use crate::warm::{Fetched, WarmRequest};
use caller::Caller;
use dashboard::{EVENTS_EVERY, Events};
use doctor::{DoctorQuestion, DoctorReports};
use history::{History, Totals};
use http::{AdminRequest, AdminResponse};
use millrace_base::context::WorkCount;
use millrace_base::context::stats::PhpStatus;
use millrace_objects::ObjectBoard;
use room::{AdminStep, Room, SharedStep};
use status::{Rates, Status};
use token::{AdminUsers, TokenGuard, TokenRefusal};

/// How often the counters are noted, for the rates of the last minute.
const NOTE_EVERY: Duration = Duration::from_secs(5);

/// Version of Millrace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the admin address shows and does.
pub struct AdminState {
    /// The process that it serves.
    pub service: Arc<Service>,
    /// Figures of the object cache.
    pub objects: Arc<ObjectBoard>,
    /// Start time of the process.
    pub started: SystemTime,
    /// The state of all certificates.
    pub certificates: Box<dyn Fn() -> Vec<Standing>>,
    /// Reads the current state of the PHP pools.
    pub pools: Box<dyn Fn() -> Vec<PhpStatus>>,
    /// Lets an event loop fetch a page.
    pub fetch: Box<dyn Fn(WarmRequest) -> Fetching>,
    /// Lets an event loop say why a page is or isn't cached.
    pub explain: Box<dyn Fn(ExplainRequest) -> Explaining>,
    /// Makes an event loop, by its number, hang for a while, computing or not; whether there is such a loop.
    pub hang: Box<dyn Fn(usize, Duration, bool) -> bool>,
    /// Waits for the work of all event loops, with this patience.
    pub settle: Box<dyn Fn(Duration) -> Settling>,
    /// Examines the machine; `None`: nothing does.
    pub doctor: Option<Doctor>,
    /// Loads the configuration again.
    pub reload: Box<dyn Fn() -> Reloading>,
}

/// A warm-up fetch in progress.
pub type Fetching = Pin<Box<dyn Future<Output = Result<Fetched, Ending>>>>;

/// A question to an event loop in progress.
pub type Explaining = Pin<Box<dyn Future<Output = Result<Explanation, Ending>>>>;

/// A wait for work in progress: what is still open.
pub type Settling = Pin<Box<dyn Future<Output = Result<WorkCount, Ending>>>>;

/// A reload in progress: the warnings of the new configuration; the error says why the old one stays in force.
pub type Reloading = Pin<Box<dyn Future<Output = Result<String, Box<dyn Error>>>>>;

/// The request is not carried out, because the server is shutting down: send it to the next server.
#[derive(Debug)]
pub struct Ending;

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server is shutting down")
    }
}

impl Error for Ending {}

impl fmt::Debug for AdminState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("started", &self.started).finish_non_exhaustive()
    }
}

/// Answers requests on `listener` until the future is dropped. Runs on a `LocalSet` of a current-thread runtime.
pub async fn serve(listener: AdminListener, state: Rc<AdminState>) {
    let room = Room::default();
    let memory = Rc::new(RefCell::new(Memory::new(&state)));
    let events = Rc::new(Events::new());
    let (doctor, mut questions) = DoctorReports::new(state.doctor.clone());
    let mut note = tokio::time::interval(NOTE_EVERY);
    note.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut tell = tokio::time::interval(EVENTS_EVERY);
    tell.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let connection = tokio::select! {
            _ = note.tick() => {
                memory.borrow_mut().note(&state);
                continue;
            }
            _ = tell.tick() => {
                if events.are_watched() {
                    events.send(&event(&state, &memory, &doctor));
                }
                continue;
            }
            Some(question) = questions.recv() => {
                tokio::task::spawn_local(inform(question, state.clone(), memory.clone()));
                continue;
            }
            connection = listener.accept() => connection,
        };
        match connection {
            Ok(connection) => {
                let (state, memory, events) = (state.clone(), memory.clone(), events.clone());
                let doctor = doctor.clone();
                let step = SharedStep::new(Cell::new(AdminStep::Reading));
                let its_step = step.clone();
                let task = tokio::task::spawn_local(async move {
                    let answer = async |asked: &AdminRequest| match admit(&state, &memory, asked) {
                        Err(refusal) => refusal,
                        Ok(()) => match (asked.method.as_str(), asked.path.as_str()) {
                            ("GET", "/events") => watch(&state, &memory, &events, &doctor),
                            ("GET", "/doctor.json") => {
                                AdminResponse::json(format!("{:#}\n", doctor.json(Instant::now())))
                            }
                            _ => answer(&state, &memory, asked).await,
                        },
                    };
                    http::exchange(connection, &its_step, answer).await;
                });
                room.add(step, task.abort_handle());
            }
            Err(error) => {
                // Probably out of descriptors: others need the next free one more.
                state
                    .service
                    .process
                    .log
                    .warn(format_args!("cannot accept connections on the admin address: {error}"));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// What the control thread remembers about the past.
struct Memory {
    rates: Rates,
    history: History,
    tokens: TokenGuard,
}

impl Memory {
    fn new(state: &AdminState) -> Memory {
        Memory {
            rates: Rates::default(),
            history: History::new(Totals::gather(state), &state.service.process.stats.sites()),
            tokens: TokenGuard::default(),
        }
    }

    /// Notes the figures; every [`NOTE_EVERY`].
    fn note(&mut self, state: &AdminState) {
        let stats = &state.service.process.stats;
        self.rates.note(Instant::now(), stats);
        self.history.note(Instant::now(), Totals::gather(state), &stats.sites());
    }

    fn status(&self, state: &AdminState) -> Status {
        status::gather(state, &self.rates, &self.history)
    }
}

/// Whether the request may be carried out; the error is the response.
fn admit(state: &AdminState, memory: &RefCell<Memory>, asked: &AdminRequest) -> Result<(), AdminResponse> {
    let admitted = memory.borrow_mut().tokens.admit(
        asked,
        state.service.plan.get().admin.token.as_ref(),
        &AdminUsers { server: rustix::process::geteuid().as_raw(), php: state.service.setup().php_users() },
        Instant::now(),
    );
    admitted.map_err(|refusal| refuse(state, asked, &refusal))
}

async fn answer(state: &AdminState, memory: &RefCell<Memory>, asked: &AdminRequest) -> AdminResponse {
    match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/") if asked.wants_page => AdminResponse::see_other("/dashboard"),
        ("GET", "/") => AdminResponse::text(200, INDEX),
        ("GET", "/metrics") => metrics::answer(state, Instant::now()),
        ("GET", "/status") => AdminResponse::text(200, memory.borrow().status(state).text()),
        ("GET", "/status.json") => {
            AdminResponse::json(format!("{:#}\n", memory.borrow().status(state).json()))
        }
        ("GET", "/history.json") => history(&memory.borrow().history, asked),
        ("GET", "/rewind-difference") => rewind::difference(&(state.pools)(), asked),
        ("GET", "/php.json") => AdminResponse::json(format!("{:#}\n", insight::value(state).await)),
        ("GET", "/healthz") => health::alive(state),
        ("GET", "/readyz") => health::ready(state),
        ("POST", "/reload") => match (state.reload)().await {
            Ok(warnings) => AdminResponse::text(200, format!("reloaded\n{warnings}")),
            Err(problems) => AdminResponse::text(422, problems.to_string()),
        },
        ("POST", "/purge") => purge(state, asked),
        ("POST", "/warm") => warm(state, asked).await,
        ("POST", "/explain") => explain(state, asked).await,
        ("POST", "/shield") => shield(state, asked),
        ("POST", "/debug/hang-loop") => health::hang(state, asked),
        ("POST", "/debug/settle") => settle::settle(state, asked).await,
        (
            _,
            "/debug/hang-loop" | "/debug/settle" | "/reload" | "/purge" | "/warm" | "/explain" | "/shield",
        ) => AdminResponse::not_allowed("POST"),
        ("GET", path) => dashboard::file(path).unwrap_or_else(not_found),
        (_, path) if READABLE.contains(&path) => AdminResponse::not_allowed("GET, HEAD"),
        _ => not_found(),
    }
}

/// The response to a request that may not change anything; the log tells of wrong tokens.
fn refuse(state: &AdminState, asked: &AdminRequest, refusal: &TokenRefusal) -> AdminResponse {
    let who = if asked.caller == Caller::Dashboard { "the dashboard" } else { "a program" };
    let path = &asked.path;
    let log = &state.service.process.log;
    match refusal {
        TokenRefusal::Wrong => {
            log.warn(format_args!("{who} has sent a wrong token to {path} of the admin address"));
        }
        TokenRefusal::TooMany(_) => log.warn(format_args!(
            "too many wrong tokens: {path} of the admin address refuses all of them for up to a minute"
        )),
        TokenRefusal::NotOfUser(user) => {
            let user = user.map_or("an unknown user".to_owned(), |user| format!("user {user}"));
            log.warn(format_args!(
                "a program of {user} may not use {path} of the admin address: see admin.token"
            ));
        }
        TokenRefusal::NotOfDashboard | TokenRefusal::NoneSet | TokenRefusal::Missing => {}
    }
    refusal.response()
}

/// The history of the server, or of the site in the query.
fn history(history: &History, asked: &AdminRequest) -> AdminResponse {
    match history.json(asked.argument("site").as_deref(), SystemTime::now()) {
        Some(json) => AdminResponse::json(format!("{json}\n")),
        None => AdminResponse::text(
            404,
            "There is no site of this name; /status.json lists them by their first name.\n",
        ),
    }
}

/// A stream of events; its first one comes at once.
fn watch(
    state: &AdminState,
    memory: &RefCell<Memory>,
    events: &Events,
    doctor: &Rc<DoctorReports>,
) -> AdminResponse {
    let stream = events.watch();
    events.send(&event(state, memory, doctor));
    stream
}

/// The status, what the doctor says, and whether the dashboard may purge.
fn event(state: &AdminState, memory: &RefCell<Memory>, doctor: &Rc<DoctorReports>) -> String {
    let mut status = memory.borrow().status(state).json();
    status["doctor"] = doctor.json(Instant::now());
    status["may_purge"] = state.service.plan.get().admin.token.is_some().into();
    status.to_string()
}

/// Answers a question of the doctor. The status is gathered here; PHP may take a moment.
async fn inform(question: DoctorQuestion, state: Rc<AdminState>, memory: Rc<RefCell<Memory>>) {
    let answer = match question.path.as_str() {
        "/status.json" => Ok(memory.borrow().status(&state).json()),
        "/php.json" => Ok(insight::value(&state).await),
        path => Err(format!("the server does not tell its own doctor {path}")),
    };
    // The doctor's thread has ended: nothing waits for the answer.
    let _ = question.answer.send(answer);
}

/// Purges pages; the response has the approximate number of pages purged.
fn purge(state: &AdminState, asked: &AdminRequest) -> AdminResponse {
    let setup = state.service.setup();
    match purge::PurgeOrder::from_form(&setup, &asked.form()) {
        Ok(order) => {
            let who = if asked.caller == Caller::Dashboard { "the dashboard" } else { "millrace purge" };
            let pages = purge::follow(&state.service.process, &state.service.cache, &setup, &order, who);
            AdminResponse::text(200, format!("{pages} pages\n"))
        }
        Err(why) => AdminResponse::text(422, format!("{why}\n")),
    }
}

/// Fetches a page into the cache, unless PHP is busy.
async fn warm(state: &AdminState, asked: &AdminRequest) -> AdminResponse {
    let form = asked.form();
    let value = |name: &str| form.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v.as_str());
    match WarmRequest::from_url(&state.service.setup(), value("url"), value("content") == "1") {
        Ok(wanted) => match (state.fetch)(wanted).await {
            Ok(fetched) => AdminResponse::text(200, fetched.text()),
            Err(why) => AdminResponse::text(503, format!("{why}\n")),
        },
        Err(why) => AdminResponse::text(422, format!("{why}\n")),
    }
}

/// Says why a page is or isn't cached.
async fn explain(state: &AdminState, asked: &AdminRequest) -> AdminResponse {
    let form = asked.form();
    let is_json = form.iter().any(|(name, value)| name == "json" && value == "1");
    match ExplainRequest::from_form(&state.service.setup(), &form) {
        Ok(question) => match (state.explain)(question).await {
            Ok(answer) if is_json => AdminResponse::json(explain::json(&answer)),
            Ok(answer) => AdminResponse::text(200, explain::text(&answer)),
            Err(why) => AdminResponse::text(503, format!("{why}\n")),
        },
        Err(why) => AdminResponse::text(422, format!("{why}\n")),
    }
}

/// Lists, orders and ends bans, and says what is known of an address.
fn shield(state: &AdminState, asked: &AdminRequest) -> AdminResponse {
    let (form, plan) = (asked.form(), state.service.plan.get());
    let is_json = form.iter().any(|(name, value)| name == "json" && value == "1");
    match ShieldOrder::from_form(&form, &plan.shield) {
        Ok(order) => match state.service.shield.obey(order, &plan.shield) {
            report if is_json => AdminResponse::json(format!("{:#}\n", shield::report_json(&report))),
            report => AdminResponse::text(200, shield::report_text(&report)),
        },
        Err(why) => AdminResponse::text(422, format!("{why}\n")),
    }
}

fn not_found() -> AdminResponse {
    AdminResponse::text(404, format!("Not found.\n\n{INDEX}"))
}

/// Everything that GET reads.
const READABLE: [&str; 14] = [
    "/",
    "/metrics",
    "/status",
    "/status.json",
    "/history.json",
    "/php.json",
    "/rewind-difference",
    "/doctor.json",
    "/healthz",
    "/readyz",
    "/dashboard",
    "/dashboard.css",
    "/dashboard.js",
    "/events",
];

const INDEX: &str = "\
The admin address of Millrace

  GET  /dashboard     the same as a page for browsers, with curves; /events: what updates it
  GET  /status        status as text
  GET  /status.json   status as JSON
  GET  /history.json  figures of the last hour and day as JSON; ?site=NAME: of a site
  GET  /php.json      what PHP does right now, as JSON: busy workers, settings, opcache
  GET  /rewind-difference  a response of a rewound worker that differed; ?number=1 (the newest), run=ordinary or rewound
  GET  /doctor.json   what holds the server back now, as JSON; the first answer only begins to look
  GET  /metrics       metrics for Prometheus
  GET  /healthz       200 while the process lives
  GET  /readyz        200, or 503 and why it should get no requests
  POST /reload        reload the configuration
  POST /purge         purge cached pages; form fields: url, tag, all, site, hard
  POST /explain       why a page is or isn't cached; form fields: url, cookie, field, json
  POST /shield        bans; form fields: do (list, ban, unban, explain), address, time, reason, json
  POST /warm          fetch a page into the cache if PHP is idle; form fields: url, content
";

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::serve::{Service, Setup, SiteWorkers};
    use millrace_base::context::Process;
    use millrace_base::context::log::Log;
    use millrace_base::context::stats::{Counter, PoolStatus, Registry, ResponseClass};
    use millrace_base::testing::Dir;

    fn state() -> AdminState {
        let source = millrace_settings::Source { site_dir: Some("/srv".into()), ..Default::default() };
        let (plan, _) = millrace_settings::load(&source).unwrap();
        let stats = Registry::new(1);
        stats.slot(0).add(Counter::Requests, 1_234);
        stats.slot(0).add(Counter::ConnectionsIdle, 7);
        stats.slot(0).took(ResponseClass::Php, Duration::from_millis(2), Duration::from_millis(40));
        let site = millrace_base::site::Site::new(0, plan.sites[0].clone());
        let setup = Setup::new(plan.into(), vec![SiteWorkers { site, service: None, persistent: None }]);
        let process = Process::new(stats, Log::quiet(), 0);
        let pool = PhpStatus {
            name: "blog".to_owned(),
            php_version: "8.2.7".to_owned(),
            most: 16,
            idle: 3,
            running: 1,
            pools: vec![PoolStatus {
                name: "admin".to_owned(),
                running: 2,
                waiting: 5,
                ..Default::default()
            }],
            ..Default::default()
        };
        AdminState {
            service: Service::new(process, setup, crate::cache::PageCache::new(0, 1)),
            objects: Arc::default(),
            started: SystemTime::now() - Duration::from_secs(100),
            certificates: Box::new(Vec::new),
            pools: Box::new(move || vec![pool.clone()]),
            fetch: Box::new(|_| Box::pin(async { Err(Ending) })),
            explain: Box::new(|_| Box::pin(async { Err(Ending) })),
            hang: Box::new(|number, _, _| number == 0),
            settle: Box::new(|_| Box::pin(async { Ok(WorkCount::default()) })),
            doctor: None,
            reload: Box::new(|| Box::pin(async { Err("line 3: no such setting\n".into()) })),
        }
    }

    async fn ask(path: &std::path::Path, line: &str) -> String {
        let mut client = tokio::net::UnixStream::connect(path).await.unwrap();
        client.write_all(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn send(path: &std::path::Path, target: &str, form: &str) -> String {
        let mut client = tokio::net::UnixStream::connect(path).await.unwrap();
        let length = form.len();
        let request = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{form}");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn answers_what_it_is_asked() {
        let dir = Dir::new("admin");
        let path = dir.path("admin.sock");
        let address = millrace_settings::plan::Address::Unix(path.clone());
        let listener = AdminListener::bind(&address).unwrap();
        let client = async {
            let status = ask(&path, "GET /status").await;
            for part in [
                "up 1 min 40 s",
                "1,234",
                "7 open: 7 idle",
                "3 idle, 1 running",
                "PHP 8.2.7",
                "admin       2 of 0 workers",
                "/srv",
                "Page cache",
            ] {
                assert!(status.contains(part), "{part} is not in\n{status}");
            }
            let json = ask(&path, "GET /status.json").await;
            assert!(
                json.contains("\"requests_total\": 1234,") && json.contains("application/json"),
                "{json}"
            );
            let php = ask(&path, "GET /php.json").await;
            assert!(php.contains("\"services\": []"), "{php}");
            assert!(ask(&path, "GET /doctor.json").await.contains("\"state\": \"unavailable\""));
            assert!(ask(&path, "POST /doctor.json").await.contains("Allow: GET, HEAD\r\n"));
            let page = ask(&path, "GET /dashboard").await;
            assert!(
                page.starts_with("HTTP/1.1 200 ")
                    && page.contains("Content-Security-Policy: default-src 'none'")
            );
            assert!(ask(&path, "POST /dashboard").await.contains("Allow: GET, HEAD\r\n"));
            assert!(ask(&path, "GET /nothing").await.starts_with("HTTP/1.1 404 "));
            assert!(ask(&path, "GET /history.json?site=nowhere").await.starts_with("HTTP/1.1 404 "));
            assert!(ask(&path, "GET /history.json").await.contains("\"every_seconds\":5,"));
            // The test's PHP has no host: it names a version, so it counts as started.
            assert!(ask(&path, "GET /readyz").await.ends_with("\r\n\r\nready\n"));
            let metrics = ask(&path, "GET /metrics").await;
            for part in [
                "\nmillrace_requests_total 1234\n",
                "\nmillrace_php_workers{site=\"blog\",state=\"idle\"} 3\n",
                "\nmillrace_php_pool_waiting{site=\"blog\",pool=\"admin\"} 5\n",
                "\nmillrace_answer_seconds_sum{class=\"php\"} 0.04\n",
                "\nContent-Type: text/plain; version=0.0.4",
            ] {
                assert!(metrics.replace('\r', "").contains(part), "{part} is not in\n{metrics}");
            }
            assert!(ask(&path, "GET /").await.contains("/metrics"));
            let reload = ask(&path, "POST /reload").await;
            assert!(reload.starts_with("HTTP/1.1 422 ") && reload.contains("no such setting"), "{reload}");
            assert!(ask(&path, "GET /reload").await.contains("Allow: POST\r\n"));
            assert!(ask(&path, "GET /purge").await.contains("Allow: POST\r\n"));
            let purged = send(&path, "/purge", "all=1&hard=1").await;
            assert!(purged.starts_with("HTTP/1.1 200 ") && purged.ends_with("\r\n\r\n0 pages\n"), "{purged}");
            let wrong = send(&path, "/purge", "url=x").await;
            assert!(wrong.starts_with("HTTP/1.1 422 ") && wrong.contains("is not a URL"), "{wrong}");
            assert!(send(&path, "/warm", "url=ftp:x").await.starts_with("HTTP/1.1 422 "));
            assert!(send(&path, "/warm", "url=http://x/").await.contains("the server is shutting down"));
            assert!(send(&path, "/explain", "url=/&cookie=x").await.contains("write NAME=VALUE"));
            assert!(send(&path, "/explain", "url=/").await.contains("the server is shutting down"));
            assert!(send(&path, "/debug/settle", "").await.ends_with("\r\n\r\nsettled\n"));
            assert!(send(&path, "/debug/settle", "seconds=0").await.contains("Send seconds=1..600"));
            assert!(ask(&path, "GET /debug/settle").await.contains("Allow: POST\r\n"));
            assert!(ask(&path, "POST /status").await.starts_with("HTTP/1.1 405 "));
            assert!(ask(&path, "GET /nothing").await.starts_with("HTTP/1.1 404 "));
        };
        let local = tokio::task::LocalSet::new();
        let server = serve(listener, Rc::new(state()));
        local
            .run_until(async {
                tokio::select! {
                    () = server => unreachable!("it serves until it is dropped"),
                    () = client => {}
                }
            })
            .await;
        assert!(!path.exists(), "the socket goes with the server");
    }

    /// The output shows every row.
    #[test]
    fn metrics_show_every_row() {
        let text = format!("{:?}", metrics::answer(&state(), Instant::now()));
        for row in
            millrace_base::context::stats::TABLE.iter().chain(millrace_base::context::stats::table::MEASURED)
        {
            assert!(
                text.contains(&format!("# TYPE millrace_{} {}", row.name, row.kind.name())),
                "{}",
                row.name
            );
        }
    }
}
