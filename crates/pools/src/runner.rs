//! The entry of this room: the services that run a site's scripts.

use std::future::pending;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_settings::plan;

use super::PhpThread;
use super::compare;
use super::dispatch::Dispatcher;
use super::fastcgi::Backends;
use super::job::PhpJob;
use super::pool::places::KeptPlace;
use super::pool::{PhpRun, WorkerSet, WorkerTimes};
use super::start_error::PhpStartError;
use super::{OnPurge, Renewal};
use millrace_base::context::log::Log;
use millrace_base::context::stats::{Insight, PhpStatus, SiteCounter};
use millrace_base::message::Request;
use millrace_base::message::reply::{Reply, plain};
use millrace_base::site::{Script, Site, WorkerKind};

/// Delay of a refusal. Otherwise a client that asks again at once - a load tester, a crawler - would keep the server
/// busy with refusals alone; people do not notice the delay.
const REFUSAL: Duration = Duration::from_millis(20);

/// A site, with the services that run its scripts.
#[derive(Debug)]
pub struct SiteWorkers {
    /// The site.
    pub site: Arc<Site>,
    /// Runs its scripts; `None`: it has no PHP.
    pub service: Option<Arc<PhpService>>,
    /// Runs its worker script; `None`: it has none.
    pub persistent: Option<Arc<PhpService>>,
}

impl SiteWorkers {
    /// The service that makes its pages: the front controller's workers.
    pub fn pages_service(&self) -> Option<&Arc<PhpService>> {
        self.persistent.as_ref().or(self.service.as_ref())
    }

    /// Whether Millrace's own workers run its scripts, not php-fpm.
    pub fn runs_own_workers(&self) -> bool {
        matches!(self.service.as_deref(), Some(PhpService::Workers(_)))
    }

    /// The service with its workers of this kind; `None`: it has none.
    pub fn service_of(&self, kind: WorkerKind) -> Option<&PhpService> {
        match kind {
            WorkerKind::Ordinary => self.service.as_deref(),
            WorkerKind::Persistent => self.persistent.as_deref(),
        }
    }
}

impl Deref for SiteWorkers {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

/// Runs the scripts of all sites with equal `[php]` settings. Dropping it retires it.
#[derive(Debug)]
pub enum PhpService {
    /// Millrace's own workers.
    Workers(Arc<WorkerSet>),
    /// php-fpm, or another program that speaks FastCGI.
    FastCgi(Backends),
}

/// Runs a script and returns its response as soon as its header fields are known; 502, 503, 504 on failure. Dropping
/// the future tells the script that its client has gone.
pub async fn run(
    thread: &Rc<PhpThread>,
    site: &Arc<SiteWorkers>,
    request: &mut Request,
    script: &Script,
) -> Reply {
    // The client's departure drops this future.
    run_while(thread, site, request, script, pending()).await.unwrap_or_else(|| plain(503))
}

/// The same; `None` if `gone` became ready before the request had a worker. After that, `gone` is ignored.
pub async fn run_while(
    thread: &Rc<PhpThread>,
    site: &Arc<SiteWorkers>,
    request: &mut Request,
    script: &Script,
    gone: impl Future<Output = ()>,
) -> Option<Reply> {
    let asked = thread.clock.now();
    let reply = match site.service_of(script.workers) {
        Some(PhpService::Workers(workers)) => {
            compare::begin(thread, workers.shared(), &site.site, request, script);
            Dispatcher::new(thread, workers.shared()).run(site, request, script, gone).await
        }
        // Boxed: otherwise a connection's future would be as large as both.
        Some(PhpService::FastCgi(backends)) => {
            Box::pin(Dispatcher::new(thread, backends.shared()).run(site, request, script, gone)).await
        }
        None => return Some(plain(500)),
    };
    if reply.as_ref().is_some_and(Reply::is_turned_away) {
        Box::pin(tokio::time::sleep(REFUSAL)).await;
        thread.clock.read();
    } else if reply.is_some() {
        let took = thread.clock.now().duration_since(asked);
        thread.stats.add_site(site.number, SiteCounter::PhpRequests, 1);
        thread.stats.add_site(site.number, SiteCounter::PhpMicros, took.as_micros() as u64);
    }
    reply
}

impl PhpService {
    /// Starts the service. Then workers are up; php-fpm need not be.
    ///
    /// # Errors
    /// PHP did not start: the reason, if possible in PHP's own words, and what to do next.
    pub fn start(
        settings: &plan::Php,
        log: &Log,
        on_purge: OnPurge,
    ) -> Result<Arc<PhpService>, PhpStartError> {
        PhpService::start_with(settings, log, on_purge, WorkerTimes::default())
    }

    /// The same with times other than the product's.
    pub(super) fn start_with(
        settings: &plan::Php,
        log: &Log,
        on_purge: OnPurge,
        times: WorkerTimes,
    ) -> Result<Arc<PhpService>, PhpStartError> {
        let service = if settings.fastcgi.is_empty() {
            PhpService::Workers(WorkerSet::start(settings, log, on_purge, times)?)
        } else {
            PhpService::FastCgi(Backends::start(settings, log)?)
        };
        Ok(Arc::new(service))
    }

    /// A place in the waiting room for a browser whose request was refused; `None`: there are too many.
    pub(super) fn keep_place(
        &self,
        thread: &Rc<PhpThread>,
        job: &PhpJob<'_>,
        request: &Request,
    ) -> Option<KeptPlace> {
        match self {
            PhpService::Workers(workers) => {
                Dispatcher::new(thread, workers.shared()).keep_place(job, request)
            }
            PhpService::FastCgi(backends) => {
                Dispatcher::new(thread, backends.shared()).keep_place(job, request)
            }
        }
    }

    /// A new configuration replaces the service: idle workers end now, the others when they have finished.
    pub fn retire(&self) {
        match self {
            PhpService::Workers(workers) => workers.retire(),
            PhpService::FastCgi(backends) => backends.retire(),
        }
    }

    /// Shuts down: waits for running requests for up to `grace`. Requests at php-fpm end with their clients.
    pub fn stop(&self, grace: Duration) {
        match self {
            PhpService::Workers(workers) => workers.stop(grace),
            PhpService::FastCgi(backends) => backends.retire(),
        }
    }

    /// Starts a new PHP with the same settings, to replace the current one. php-fpm is reloaded by its own
    /// administrator.
    ///
    /// # Errors
    /// PHP did not start: the reason. The pool is unchanged.
    pub fn renew(&self) -> Result<Renewal, PhpStartError> {
        match self {
            PhpService::Workers(workers) => workers.renew(),
            PhpService::FastCgi(backends) => {
                backends.ask_again();
                Ok(Renewal::none())
            }
        }
    }

    /// Takes the place of `other`, which has other settings.
    pub fn succeed(&self, other: &PhpService) {
        if let (PhpService::Workers(workers), PhpService::Workers(other)) = (self, other) {
            workers.succeed(other);
        }
    }

    /// Its status; `name` is its name for people.
    pub fn status(&self, name: &str) -> PhpStatus {
        match self {
            PhpService::Workers(workers) => workers.status(name),
            PhpService::FastCgi(backends) => backends.status(name),
        }
    }

    /// Asks what its workers do right now; `None`: php-fpm, which we cannot look into.
    pub fn look_into(&self) -> Option<Arc<Insight>> {
        match self {
            PhpService::Workers(workers) => Some(workers.look_into()),
            PhpService::FastCgi(_) => None,
        }
    }

    /// What its workers run; nothing for php-fpm, which says nothing of that.
    pub fn runs(&self) -> Vec<PhpRun> {
        match self {
            PhpService::Workers(workers) => workers.runs(),
            PhpService::FastCgi(_) => Vec::new(),
        }
    }

    /// Whether one more request can run at once and leaves a worker, idle or not yet started, for the next one.
    pub fn has_room(&self) -> bool {
        match self {
            PhpService::Workers(workers) => workers.shared().has_room(),
            PhpService::FastCgi(backends) => backends.is_at_leisure(),
        }
    }

    /// Whether capacity is free for a request without a client.
    pub fn is_at_leisure(&self) -> bool {
        match self {
            PhpService::Workers(workers) => workers.is_at_leisure(),
            PhpService::FastCgi(backends) => backends.is_at_leisure(),
        }
    }
}
