//! What all threads share for serving sites, and an event loop's own part of it.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use millrace_settings::Plan;
use millrace_settings::plan::{Address, ForwardedHost};

use super::setup::{PolicyOf, build};
use crate::acme::Acme;
use crate::cache::purge::{LeftLooks, LeftOrders};
use crate::cache::{CacheThread, Disk, DiskLimits, PageCache};
use crate::files;
use crate::htaccess::{HtaccessThread, SharedFolders, UnappliedLines};
use crate::proxy::{Applications, ProxyThread};
use crate::shield::{self, Shield, ShieldThread};
use millrace_base::context::log::Log;
use millrace_base::context::stats::{Insight, PhpStatus};
use millrace_base::context::{Context, Process, Swapped};
use millrace_base::message::Request;
use millrace_base::message::request::Uploads;
use millrace_base::site;
use millrace_pools::{PhpRun, PhpService, PhpStartError, PhpThread, SiteWorkers};

/// The sites of a configuration, with the services that run their scripts.
#[derive(Debug)]
pub struct Setup {
    sites: site::SiteSetup,
    /// In the plan's order.
    pub workers: Vec<Arc<SiteWorkers>>,
    /// The log has said that a trusted proxy names a strange host.
    has_told_of_host: AtomicBool,
}

/// The text behind the colon of a host, if there is one.
fn port_of(authority: &str) -> Option<&str> {
    authority.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'))
}

/// A thread's own reference to the setup: copying it does not touch the counter that threads share.
pub type SharedSetup = Rc<Arc<Setup>>;

impl Setup {
    /// A plan with its sites, which are in the plan's order.
    pub fn new(plan: Arc<Plan>, workers: Vec<SiteWorkers>) -> Arc<Setup> {
        let workers: Vec<_> = workers.into_iter().map(Arc::new).collect();
        let sites = workers.iter().map(|workers| workers.site.clone()).collect();
        Arc::new(Setup {
            sites: site::SiteSetup::new(plan, sites),
            workers,
            has_told_of_host: AtomicBool::new(false),
        })
    }

    /// Each PHP service once, with the first site that uses it.
    fn pools(&self) -> Vec<(&Arc<PhpService>, &SiteWorkers)> {
        let mut pools: Vec<(&Arc<PhpService>, &SiteWorkers)> = Vec::new();
        for site in &self.workers {
            for service in site.service.iter().chain(&site.persistent) {
                if !pools.iter().any(|(known, _)| Arc::ptr_eq(service, known)) {
                    pools.push((service, site));
                }
            }
        }
        pools
    }

    /// The name of the PHP service of each site; `None`: it has no PHP.
    pub fn service_names(&self) -> Vec<Option<String>> {
        let pools = self.pools();
        let of = |site: &Arc<SiteWorkers>| {
            let own = site.service.as_ref().or(site.persistent.as_ref())?;
            let (service, first) = pools.iter().find(|(known, _)| Arc::ptr_eq(known, own))?;
            Some(name_of(service, first))
        };
        self.workers.iter().map(of).collect()
    }

    /// The IDs of the users as which PHP scripts run, without those of php-fpm.
    pub fn php_users(&self) -> Vec<u32> {
        let has_php = |site: &&Arc<SiteWorkers>| {
            let mut all = site.plan.php.iter().chain(&site.plan.persistent);
            all.any(|php| php.fastcgi.is_empty())
        };
        let mut users: Vec<u32> =
            self.workers.iter().filter(has_php).map(|site| site.site.reach.user()).collect();
        users.sort_unstable();
        users.dedup();
        users
    }

    /// The status of its PHP services.
    pub fn pool_status(&self) -> Vec<PhpStatus> {
        self.pools().into_iter().map(|(service, site)| service.status(&name_of(service, site))).collect()
    }

    /// Asks all workers of its own what they do right now; the reports arrive in the returned values, beside the names of the
    /// services.
    pub fn look_into_php(&self) -> Vec<(String, Arc<Insight>)> {
        let asked = |(service, site): (&Arc<PhpService>, &SiteWorkers)| {
            Some((name_of(service, site), service.look_into()?))
        };
        self.pools().into_iter().filter_map(asked).collect()
    }

    /// What PHP runs, also behind its responses.
    pub fn php_runs(&self) -> Vec<PhpRun> {
        self.pools().into_iter().flat_map(|(service, _)| service.runs()).collect()
    }

    /// Another setup is in force: retires the services that the new one does not have.
    pub fn retire_pools(&self, new: &Setup) {
        let stay = new.pools();
        for (service, _) in self.pools() {
            if !stay.iter().any(|(other, _)| Arc::ptr_eq(other, service)) {
                service.retire();
            }
        }
    }

    /// Ends all PHP services; running scripts may continue until then.
    pub fn stop_pools(&self, until: Instant) {
        for (service, _) in self.pools() {
            service.stop(until.saturating_duration_since(Instant::now()));
        }
    }

    /// The site that answers a request. A host that a trusted proxy names in a field counts only if it is another name of the site that
    /// the proxy asks, with a port at which the site can be reached: a proxy may pass such a field of its clients on, and a cache there
    /// would store what they have chosen.
    pub fn workers_of(&self, log: &Log, request: &mut Request) -> &Arc<SiteWorkers> {
        if let Some(host) = &request.forwarded_host
            && !self.believes(host, request)
        {
            self.tell_of_host(log, host, request);
            request.forwarded_host = None;
        }
        self.workers_for(request.authority())
    }

    fn believes(&self, host: &str, request: &Request) -> bool {
        let is_same = || self.sites.is_name_of_the_same(host, request.head.authority());
        match self.plan.server.forwarded_host {
            ForwardedHost::Any => true,
            ForwardedHost::AnyPort => is_same(),
            ForwardedHost::SameSite => {
                is_same() && port_of(host).is_none_or(|port| self.is_own_port(port, request))
            }
        }
    }

    /// Whether it is the port of the request's scheme, one that the server listens at, or the one in Host.
    fn is_own_port(&self, port: &str, request: &Request) -> bool {
        let server = &self.plan.server;
        let listens = server.listen.iter().chain(&self.plan.https.listen).any(|address| match address {
            Address::Tcp(address) => address.port().to_string() == port,
            Address::Unix(_) => false,
        });
        listens
            || port == request.ends.scheme.port()
            || port_of(request.head.authority()).is_some_and(|own| own == port)
    }

    /// Says once what to do if the proxy is right.
    fn tell_of_host(&self, log: &Log, host: &str, request: &Request) {
        if !self.has_told_of_host.swap(true, Ordering::Relaxed) {
            log.warn(format_args!(
                "a trusted proxy names the host {host:?} in X-Forwarded-Host or Forwarded, which is no name of the site for {:?}, or has a \
                 port at which the server does not listen: ignored; add the name to site.names, have the proxy send it as Host, or see \
                 server.forwarded_host",
                request.head.authority()
            ));
        }
    }

    /// The site that answers for `authority`.
    pub fn workers_for(&self, authority: &str) -> &Arc<SiteWorkers> {
        &self.workers[self.sites.position_for(authority)]
    }
}

impl Deref for Setup {
    type Target = site::SiteSetup;

    fn deref(&self) -> &site::SiteSetup {
        &self.sites
    }
}

/// What all threads share for serving sites.
#[derive(Debug)]
pub struct Service {
    /// What they share for everything else.
    pub process: Arc<Process>,
    setup: Arc<Swapped<Setup>>,
    /// The plan of the setup in force.
    pub plan: Arc<Swapped<Plan>>,
    /// Stored pages of all sites.
    pub cache: Arc<PageCache>,
    /// Large request contents that are being received.
    pub uploads: Uploads,
    /// Certificates that are obtained automatically.
    pub acme: Arc<Acme>,
    /// Limits and bans.
    pub shield: Arc<Shield>,
    /// Looks at the purges that PHP outside of Millrace leaves.
    pub left_looks: Arc<LeftLooks>,
    /// Compiled `.htaccess` files.
    htaccess: Arc<SharedFolders>,
    /// Applications that requests were passed to.
    pub applications: Arc<Applications>,
}

impl Service {
    /// Opens the page cache and starts PHP for the sites of `plan`; see [`build`].
    ///
    /// # Errors
    /// PHP does not start: the reason, and what to do.
    pub fn start(
        plan: Plan,
        process: Arc<Process>,
        policy_of: PolicyOf<'_>,
        https_port: &str,
    ) -> Result<Arc<Service>, PhpStartError> {
        let disk = match &plan.cache.dir {
            Some(dir) => Disk::open(dir, DiskLimits::new(plan.cache.disk_bytes), &process.log),
            None => Disk::off(),
        };
        let cache = PageCache::with_disk(plan.cache.memory, plan.server.threads, disk);
        cache.set_limits(&plan.cache);
        let built = build(plan, policy_of, https_port, None, &process, &cache)?;
        cache.begin_to_load();
        let mut left = LeftOrders::new(process.clone(), cache.clone());
        left.take_over(&built.setup.plan);
        let service = Service::with(process, built.setup, cache, left.looks());
        left.attend(service.plan.clone(), service.plan.generation());
        shield::attend(&service.shield, service.plan.clone());
        Ok(service)
    }

    /// Serves the sites of `setup`.
    pub fn new(process: Arc<Process>, setup: Arc<Setup>, cache: Arc<PageCache>) -> Arc<Service> {
        Service::with(process, setup, cache, Arc::default())
    }

    fn with(
        process: Arc<Process>,
        setup: Arc<Setup>,
        cache: Arc<PageCache>,
        left_looks: Arc<LeftLooks>,
    ) -> Arc<Service> {
        let (uploads, acme, htaccess) = (Uploads::default(), Arc::default(), Arc::default());
        let applications = Arc::default();
        let plan = Swapped::new(setup.plan.clone());
        Arc::new(Service {
            process: process.clone(),
            setup: Swapped::new(setup),
            plan,
            cache,
            uploads,
            acme,
            shield: Shield::new(process),
            left_looks,
            htaccess,
            applications,
        })
    }

    /// The setup in force.
    pub fn setup(&self) -> Arc<Setup> {
        self.setup.get()
    }

    /// Lines of `.htaccess` files that are not applied, of which at most `most` are named.
    pub fn unapplied_lines(&self, most: usize) -> UnappliedLines {
        self.htaccess.unapplied(most)
    }

    /// Puts a new setup in force; each thread switches to it before its next request.
    pub fn replace_setup(&self, setup: Arc<Setup>) {
        self.plan.replace(setup.plan.clone());
        self.setup.replace(setup);
    }
}

/// An event loop's part for serving sites. Passed along the path of a request; never crosses to another thread.
#[derive(Debug)]
pub struct ServeThread {
    /// Its part for everything else.
    pub context: Rc<Context>,
    /// What all threads share.
    pub service: Arc<Service>,
    /// Its part of limits and bans.
    pub shield: ShieldThread,
    /// Its part of the rules of `.htaccess` files.
    pub htaccess: HtaccessThread,
    /// Its open-file cache.
    pub files: files::OpenFileCache,
    /// Its part of the page cache.
    pub pages: Rc<CacheThread>,
    /// Its part of PHP.
    pub php: Rc<PhpThread>,
    /// Its part for applications behind the server.
    pub proxy: Rc<ProxyThread>,
    /// Buffer for the normalised path of the request that is being routed.
    pub(super) path: RefCell<Vec<u8>>,
    setup: RefCell<SharedSetup>,
    generation: Cell<u64>,
}

impl ServeThread {
    /// For thread `index` of `loops`; `passes_on`: it responds only to requests that need no waiting.
    pub fn new(index: usize, loops: usize, service: Arc<Service>, passes_on: bool) -> Rc<ServeThread> {
        let generation = Cell::new(service.setup.generation());
        let setup = service.setup();
        let context = Context::new(index, loops, service.process.clone(), setup.plan.clone());
        Rc::new(ServeThread {
            shield: ShieldThread::new(service.shield.clone()),
            htaccess: HtaccessThread::new(service.htaccess.clone()),
            files: files::OpenFileCache::new(&setup.plan.files, loops),
            pages: CacheThread::new(&context, &service.cache, passes_on),
            php: context.clone(),
            proxy: ProxyThread::new(&context, &service.applications),
            path: RefCell::default(),
            setup: RefCell::new(Rc::new(setup)),
            generation,
            context,
            service,
        })
    }

    /// The setup in force. A request keeps the setup with which it began.
    pub fn setup(&self) -> SharedSetup {
        let generation = self.service.setup.generation();
        if self.generation.replace(generation) != generation {
            let setup = self.service.setup();
            self.files.reset(&setup.plan.files, self.context.loops);
            self.context.set_plan(setup.plan.clone());
            *self.setup.borrow_mut() = Rc::new(setup);
        }
        self.setup.borrow().clone()
    }
}

/// How people know a PHP service: by its first site, and by the script of persistent workers.
fn name_of(service: &Arc<PhpService>, site: &SiteWorkers) -> String {
    let name = site.name().unwrap_or("default");
    let is_persistent = site.persistent.as_ref().is_some_and(|other| Arc::ptr_eq(service, other));
    match site.worker().filter(|_| is_persistent) {
        Some(worker) => format!("{name}{}", worker.name),
        None => name.to_owned(),
    }
}
