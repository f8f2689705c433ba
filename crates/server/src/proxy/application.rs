//! An application as all event loops see it: whether it is up, and how busy it is. Times are milliseconds since the
//! server started.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use millrace_settings::Plan;
use millrace_settings::plan::{AppUrl, Proxy};

use crate::tls::Trust;
use millrace_base::context::Clock;
use millrace_base::context::log::Log;

/// Failures in a row, on established connections, after which an application rests.
const STRIKES: u32 = 3;
/// Its first rest, milliseconds; each further one is twice as long.
const REST_MS: u64 = 1_000;
/// The longest, milliseconds.
const LONGEST_REST_MS: u64 = 30_000;

/// All applications that requests were passed to. They outlive a reload of the configuration.
#[derive(Debug)]
pub struct Applications {
    all: Mutex<Vec<Arc<Application>>>,
    started: Instant,
}

/// An application at one URL.
#[derive(Debug)]
pub struct Application {
    /// Where it is.
    pub url: AppUrl,
    ca: Option<PathBuf>,
    /// Whether it speaks HTTP/2.
    pub http2: bool,
    /// The authorities that it needs a certificate of, when it is first connected to by TLS; or why there are none.
    trust: OnceLock<Result<Trust, String>>,
    /// Connections to it.
    pub open: AtomicUsize,
    /// Requests in progress.
    busy: AtomicUsize,
    requests: AtomicU64,
    failures: AtomicU64,
    /// Failures in a row, and rests in a row.
    strikes: AtomicU32,
    rests: AtomicU32,
    /// Until when other copies are preferred; 0: it is up.
    rests_until: AtomicU64,
    /// When it was last checked.
    checked: AtomicU64,
    trouble: Mutex<Option<String>>,
}

/// An application for the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationStatus {
    /// Its URL.
    pub url: String,
    /// Whether it gets requests.
    pub up: bool,
    /// Connections to it.
    pub connections: usize,
    /// Requests in progress.
    pub busy: usize,
    /// Requests sent to it.
    pub requests: u64,
    /// Requests and connections that failed.
    pub failures: u64,
    /// Why it rests.
    pub trouble: Option<String>,
}

/// A request in progress at an application.
#[derive(Debug)]
pub struct InProgress(pub Arc<Application>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Relaxed);
    }
}

impl Default for Applications {
    fn default() -> Applications {
        Applications { all: Mutex::default(), started: Clock::default().now() }
    }
}

impl Applications {
    /// The application at `url` of this proxy.
    pub fn get(&self, proxy: &Proxy, url: &AppUrl) -> Arc<Application> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find(|known| known.is(proxy, url)) {
            return known.clone();
        }
        let new = Arc::new(Application {
            url: url.clone(),
            ca: proxy.ca.clone(),
            http2: proxy.http2,
            trust: OnceLock::new(),
            open: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            strikes: AtomicU32::new(0),
            rests: AtomicU32::new(0),
            rests_until: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            trouble: Mutex::default(),
        });
        all.push(new.clone());
        new
    }

    /// Milliseconds from the server's start to `moment`.
    pub fn at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.started).as_millis() as u64
    }

    /// Those of a plan, for the status.
    pub fn status(&self, plan: &Plan) -> Vec<ApplicationStatus> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let proxies = || plan.sites.iter().flat_map(|site| &site.proxies);
        let is_used =
            |one: &&Arc<Application>| proxies().any(|proxy| proxy.to.iter().any(|url| one.is(proxy, url)));
        all.iter().filter(is_used).map(|application| application.status()).collect()
    }
}

impl Application {
    /// Whether it is the one at `url` of this proxy.
    pub fn is(&self, proxy: &Proxy, url: &AppUrl) -> bool {
        self.url == *url && self.ca == proxy.ca && self.http2 == proxy.http2
    }

    /// The authorities that sign its certificate.
    ///
    /// # Errors
    /// There are none: why, and what to do.
    pub fn trust(&self) -> Result<&Trust, &str> {
        let trust = || Trust::new(self.ca.as_deref()).map_err(|error| error.to_string());
        self.trust.get_or_init(trust).as_ref().map_err(String::as_str)
    }

    /// A request begins.
    pub fn begin(self: &Arc<Application>) -> InProgress {
        self.busy.fetch_add(1, Relaxed);
        self.requests.fetch_add(1, Relaxed);
        InProgress(self.clone())
    }

    /// What decides between copies, the least first: does it rest at `now`, until when, and how busy is it.
    pub fn load(&self, now: u64) -> (u64, usize, u64) {
        let until = self.rests_until.load(Relaxed);
        (if until > now { until } else { 0 }, self.busy.load(Relaxed), self.requests.load(Relaxed))
    }

    /// It has begun a response.
    pub fn succeeds(&self, log: &Log) {
        if self.strikes.load(Relaxed) != 0 {
            self.strikes.store(0, Relaxed);
        }
        if self.rests_until.load(Relaxed) != 0 && self.rests_until.swap(0, Relaxed) != 0 {
            self.rests.store(0, Relaxed);
            log.info(format_args!("the application at {} is up again", self.url));
        }
    }

    /// A connection could not be made (`refused`), or broke, at `now`.
    pub fn fails(&self, log: &Log, refused: bool, now: u64, why: &str) {
        self.failures.fetch_add(1, Relaxed);
        let strikes = self.strikes.fetch_add(1, Relaxed) + 1;
        if !refused && strikes < STRIKES || self.rests_until.load(Relaxed) > now {
            return;
        }
        let rests = self.rests.fetch_add(1, Relaxed).min(5);
        self.rest(log, now + (REST_MS << rests).min(LONGEST_REST_MS), why);
    }

    /// Whether to check it at `now`: the caller does.
    pub fn is_check_due(&self, now: u64, interval: u64) -> bool {
        let is_due = self.checked.load(Relaxed) == 0 || self.checked.load(Relaxed) + interval <= now;
        if is_due {
            self.checked.store(now.max(1), Relaxed);
        }
        is_due
    }

    /// A check has failed: it rests until one succeeds.
    pub fn fails_check(&self, log: &Log, why: &str) {
        self.rest(log, u64::MAX, why);
    }

    fn rest(&self, log: &Log, until: u64, why: &str) {
        let was_up = self.rests_until.swap(until, Relaxed) == 0;
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
        if was_up {
            log.error(format_args!(
                "the application at {} is down: {why}; its requests go to other copies of it, if there are any",
                self.url
            ));
        }
    }

    /// What there is to say about it.
    pub fn status(&self) -> ApplicationStatus {
        let up = self.rests_until.load(Relaxed) == 0;
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ApplicationStatus {
            url: self.url.to_string(),
            up,
            connections: self.open.load(Relaxed),
            busy: self.busy.load(Relaxed),
            requests: self.requests.load(Relaxed),
            failures: self.failures.load(Relaxed),
            trouble: trouble.filter(|_| !up),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::head::tests::proxy;

    #[test]
    fn it_rests_for_longer_each_time_and_comes_back() {
        let (all, log) = (Applications::default(), Log::quiet());
        let proxy = proxy("path = \"/\"");
        let app = all.get(&proxy, &proxy.to[0]);
        assert!(Arc::ptr_eq(&app, &all.get(&proxy, &proxy.to[0])));
        let rests = |now| app.load(now).0 > now;
        app.fails(&log, false, 10, "broke");
        app.fails(&log, false, 10, "broke");
        assert!(!rests(10));
        app.fails(&log, false, 10, "broke");
        assert!(rests(1_009) && !rests(1_010));
        app.fails(&log, true, 20, "one of many that failed at the same time");
        assert!(!rests(1_010));
        app.fails(&log, true, 2_000, "refused");
        assert!(rests(3_999) && !rests(4_000));
        assert_eq!(app.status().trouble.as_deref(), Some("refused"));
        app.succeeds(&log);
        assert!(app.status().up && !rests(2_001));
        app.fails(&log, true, 5_000, "refused");
        assert!(rests(5_999) && !rests(6_000));
    }

    #[test]
    fn the_least_busy_copy_is_first() {
        let (all, proxy) =
            (Applications::default(), proxy("path = \"/\"\nto = [\"http://a\", \"http://b\"]"));
        let [a, b] = [0, 1].map(|at| all.get(&proxy, &proxy.to[at]));
        let begun = a.begin();
        assert!(b.load(0) < a.load(0));
        drop(begun);
        assert!(b.load(0) < a.load(0), "it had more requests");
    }
}
