//! The entry of this room: who runs a site's scripts.

use std::future::pending;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_settings::plan;

use super::PhpThread;
use super::dispatch::Dispatcher;
use super::fastcgi::Backends;
use super::job::PhpJob;
use super::pool::places::KeptPlace;
use super::pool::{WorkerSet, WorkerTimes};
use super::start_error::PhpStartError;
use super::{OnPurge, Renewal};
use crate::context::log::Log;
use crate::context::stats::PhpStatus;
use crate::message::Request;
use crate::message::reply::{Reply, plain};
use crate::site::{Script, Site, WorkerKind};

/// How long a refusal takes. A client that asks again at once - a load tester, a crawler - would else keep the server busy with
/// refusals alone; a person does not notice it.
const REFUSAL: Duration = Duration::from_millis(20);

/// A site, and who runs its scripts.
#[derive(Debug)]
pub struct SiteWorkers {
    /// The site.
    pub site: Arc<Site>,
    /// Who runs its scripts; `None`: it has no PHP.
    pub service: Option<Arc<PhpService>>,
    /// Who runs its worker script; `None`: it has none.
    pub persistent: Option<Arc<PhpService>>,
}

impl SiteWorkers {
    /// Who makes its pages: the front controller's workers.
    pub fn pages_service(&self) -> Option<&Arc<PhpService>> {
        self.persistent.as_ref().or(self.service.as_ref())
    }

    /// The pool of its workers of this kind; `None`: it has none.
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

/// Who runs the scripts of all sites whose `[php]` settings are equal. Dropping it retires it.
#[derive(Debug)]
pub enum PhpService {
    /// Workers of our own.
    Workers(Arc<WorkerSet>),
    /// php-fpm, or whatever else speaks FastCGI.
    FastCgi(Backends),
}

/// Runs a script and returns its answer as soon as its fields are known; 502, 503, 504 where that fails. Dropping the
/// future tells the script that its client has gone.
pub async fn run(
    thread: &Rc<PhpThread>,
    site: &Arc<SiteWorkers>,
    request: &mut Request,
    script: &Script,
) -> Reply {
    // Whoever drops the future has gone.
    run_while(thread, site, request, script, pending()).await.unwrap_or_else(|| plain(503))
}

/// The same; `None` if `gone` became ready before somebody had the request. It is not looked at any more after that.
pub async fn run_while(
    thread: &Rc<PhpThread>,
    site: &Arc<SiteWorkers>,
    request: &mut Request,
    script: &Script,
    gone: impl Future<Output = ()>,
) -> Option<Reply> {
    let reply = match site.service_of(script.workers) {
        Some(PhpService::Workers(workers)) => {
            Dispatcher::new(thread, workers.shared()).run(site, request, script, gone).await
        }
        // In a place of its own: a connection's future is not to be as large as both.
        Some(PhpService::FastCgi(backends)) => {
            Box::pin(Dispatcher::new(thread, backends.shared()).run(site, request, script, gone)).await
        }
        None => Some(plain(500)),
    };
    if reply.as_ref().is_some_and(Reply::is_turned_away) {
        Box::pin(tokio::time::sleep(REFUSAL)).await;
        thread.clock.read();
    }
    reply
}

impl PhpService {
    /// Starts it. Workers are up then; php-fpm need not be.
    ///
    /// # Errors
    /// PHP did not start: why, in PHP's own words where it had any, and what to do next.
    pub fn start(
        settings: &plan::Php,
        log: &Log,
        on_purge: OnPurge,
    ) -> Result<Arc<PhpService>, PhpStartError> {
        PhpService::start_with(settings, log, on_purge, WorkerTimes::default())
    }

    /// The same with other times than the product's.
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

    /// A new configuration replaces it: what is idle ends now, the rest when it has finished.
    pub fn retire(&self) {
        match self {
            PhpService::Workers(workers) => workers.retire(),
            PhpService::FastCgi(backends) => backends.retire(),
        }
    }

    /// The server ends: waits for running requests for up to `grace`. Those at php-fpm end with their clients.
    pub fn stop(&self, grace: Duration) {
        match self {
            PhpService::Workers(workers) => workers.stop(grace),
            PhpService::FastCgi(backends) => backends.retire(),
        }
    }

    /// Starts another PHP with the same settings, to take over from the one that runs. php-fpm is somebody else's to reload.
    ///
    /// # Errors
    /// PHP did not start: why. The pool is as it was.
    pub fn renew(&self) -> Result<Renewal, PhpStartError> {
        match self {
            PhpService::Workers(workers) => workers.renew(),
            PhpService::FastCgi(backends) => {
                backends.ask_again();
                Ok(Renewal::none())
            }
        }
    }

    /// Takes the place of `other`, whose settings were others.
    pub fn succeed(&self, other: &PhpService) {
        if let (PhpService::Workers(workers), PhpService::Workers(other)) = (self, other) {
            workers.succeed(other);
        }
    }

    /// How it is; `name` is what people know it by.
    pub fn status(&self, name: &str) -> PhpStatus {
        match self {
            PhpService::Workers(workers) => workers.status(name),
            PhpService::FastCgi(backends) => backends.status(name),
        }
    }

    /// Whether a request that nobody waits for may run.
    pub fn is_at_leisure(&self) -> bool {
        match self {
            PhpService::Workers(workers) => workers.is_at_leisure(),
            PhpService::FastCgi(backends) => backends.is_at_leisure(),
        }
    }
}
