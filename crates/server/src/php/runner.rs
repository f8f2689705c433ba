//! The entry of this room: who runs a site's scripts.

use std::future::pending;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_settings::plan;

use super::fastcgi::{self, Backends};
use super::{Kept, OnPurge, Renewal, exchange, pool};
use crate::context::Context;
use crate::context::log::Log;
use crate::context::stats::PoolStatus;
use crate::message::Request;
use crate::message::reply::{Reply, plain};
use crate::site::{Script, Site};

/// How long a refusal takes. A client that asks again at once - a load tester, a crawler - would else keep the server busy with
/// refusals alone; a person does not notice it.
const REFUSAL: Duration = Duration::from_millis(20);

/// What an event loop has for running PHP: its connections to php-fpm.
#[derive(Debug)]
pub struct PhpThread {
    context: Rc<Context>,
    /// Its connections to php-fpm.
    pub fastcgi: Kept,
}

impl PhpThread {
    /// Of an event loop; without any connection yet.
    pub fn new(context: &Rc<Context>) -> Rc<PhpThread> {
        Rc::new(PhpThread { context: context.clone(), fastcgi: Kept::default() })
    }
}

impl Deref for PhpThread {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

/// A site, and who runs its scripts.
#[derive(Debug)]
pub struct SiteWorkers {
    /// The site.
    pub site: Arc<Site>,
    /// Who runs its scripts; `None`: it has no PHP.
    pub pool: Option<Arc<Pool>>,
    /// Who runs its worker script; `None`: it has none.
    pub persistent: Option<Arc<Pool>>,
}

impl SiteWorkers {
    /// Who makes its pages: the front controller's workers.
    pub fn pages_pool(&self) -> Option<&Arc<Pool>> {
        self.persistent.as_ref().or(self.pool.as_ref())
    }

    /// Who runs a script.
    pub fn pool_of(&self, script: &Script) -> Option<&Pool> {
        if script.persistent { self.persistent.as_deref() } else { self.pool.as_deref() }
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
pub enum Pool {
    /// Workers of our own.
    Workers(Arc<pool::Pool>),
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
    let reply = match site.pool_of(script) {
        Some(Pool::Workers(pool)) => exchange::run(thread, pool, site, request, script, gone).await,
        // In a place of its own: a connection's future is not to be as large as both.
        Some(Pool::FastCgi(backends)) => {
            Box::pin(fastcgi::run(thread, backends, site, request, script, gone)).await
        }
        None => Some(plain(500)),
    };
    if reply.as_ref().is_some_and(Reply::is_turned_away) {
        Box::pin(tokio::time::sleep(REFUSAL)).await;
        thread.clock.read();
    }
    reply
}

impl Pool {
    /// Starts it. Workers are up then; php-fpm need not be.
    ///
    /// # Errors
    /// PHP did not start: why, in PHP's own words where it had any, and what to do next.
    pub fn start(settings: &plan::Php, log: &Log, on_purge: OnPurge) -> Result<Arc<Pool>, String> {
        let pool = if settings.fastcgi.is_empty() {
            Pool::Workers(pool::Pool::start(settings, log, on_purge)?)
        } else {
            Pool::FastCgi(Backends::start(settings, log, on_purge))
        };
        Ok(Arc::new(pool))
    }

    /// A new configuration replaces it: what is idle ends now, the rest when it has finished.
    pub fn retire(&self) {
        match self {
            Pool::Workers(pool) => pool.retire(),
            Pool::FastCgi(backends) => backends.retire(),
        }
    }

    /// The server ends: waits for running requests for up to `grace`. Those at php-fpm end with their clients.
    pub fn stop(&self, grace: Duration) {
        match self {
            Pool::Workers(pool) => pool.stop(grace),
            Pool::FastCgi(backends) => backends.retire(),
        }
    }

    /// Starts another PHP with the same settings, to take over from the one that runs. php-fpm is somebody else's to reload.
    ///
    /// # Errors
    /// PHP did not start: why. The pool is as it was.
    pub fn renew(&self) -> Result<Renewal, String> {
        match self {
            Pool::Workers(pool) => pool.renew(),
            Pool::FastCgi(backends) => {
                backends.ask_again();
                Ok(Renewal::none())
            }
        }
    }

    /// Takes the place of `other`, whose settings were others.
    pub fn succeed(&self, other: &Pool) {
        if let (Pool::Workers(pool), Pool::Workers(other)) = (self, other) {
            pool.succeed(other);
        }
    }

    /// How it is; `name` is what people know it by.
    pub fn status(&self, name: &str) -> PoolStatus {
        match self {
            Pool::Workers(pool) => pool.status(name),
            Pool::FastCgi(backends) => backends.status(name),
        }
    }

    /// Whether a request that nobody waits for may run.
    pub fn is_at_leisure(&self) -> bool {
        match self {
            Pool::Workers(pool) => pool.is_at_leisure(),
            Pool::FastCgi(backends) => backends.is_at_leisure(),
        }
    }
}
