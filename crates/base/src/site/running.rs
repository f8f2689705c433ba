//! A site as it runs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_pages::Rules;
use millrace_pages::rules::Paths;
use millrace_settings::plan;

use super::content::ContentFigures;
use super::multisite::Multisite;
use super::origin::origin;
use super::pool_rules::PoolRules;
use super::profile::{Caching, Profile, Rewrites, Secrecy};
use super::reach::Reach;
use super::rules::SiteRules;
use super::script::WorkerKind;
use super::visitors::Visitors;
use crate::context::stats::OTHER_SITES;
use crate::message::Request;
use crate::message::reply::{Body, Reply, plain};

/// A site as it runs: its part of the plan, and values derived from it once.
#[derive(Debug)]
pub struct Site {
    /// Position in the plan, used as identity by caches, which are cleared when the plan changes.
    pub index: usize,
    /// Its number for figures by site (`context::stats`).
    pub number: usize,
    /// Its part of the configuration.
    pub plan: plan::Site,
    /// The site's own fields as lines, ready to be added to a response.
    pub header_lines: Vec<u8>,
    /// Rules of its application.
    pub profile: &'static Profile,
    /// Files that are served, and library scripts that run, although their names forbid it; `None`: none.
    pub allowed: Option<Paths>,
    /// The scripts that run; `None`: all that the profile does not name.
    pub scripts: Option<Paths>,
    /// What becomes of paths that are neither a file nor a page of its application.
    pub rewrites: Option<Rewrites>,
    /// Whether it is a multisite network; `None`: its application has none.
    pub multisite: Option<Arc<Multisite>>,
    /// Whether the rules let its front controller run.
    pub runs_front_controller: bool,
    /// Rules for the page cache; `None`: it is off, or there are no pages.
    pub cache: Option<Arc<Rules>>,
    /// The same for its applications; `None`: it has none whose responses are cached.
    pub proxy_cache: Option<Arc<Rules>>,
    /// Its rules; `None`: it has none.
    pub rules: Option<Box<SiteRules>>,
    /// The PHP pool of a request.
    pub pools: PoolRules,
    /// What its PHP has found out about its visitors.
    pub visitors: Visitors,
    /// The page for visitors without a PHP worker; `None`: the built-in one.
    pub overload_page: Option<Arc<[u8]>>,
    /// The waiting room's page with placeholders; `None`: the built-in one.
    pub waiting_page: Option<Box<str>>,
    /// The number of the policy by which its clients are asked for certificates; `None`: they are not.
    pub policy: Option<u64>,
    /// The port suffix of a host, if HTTPS is not on its default port: `:8443`.
    pub https_port: Box<str>,
    /// A number for its configuration, as far as stored pages depend on it.
    pub origin: u64,
    /// With whose rights its files are opened, and where links may lead.
    pub reach: Reach,
    /// How much content its requests bring.
    pub content: ContentFigures,
    /// When the last request arrived, in seconds since 1970.
    asked: AtomicU64,
}

/// A page of the site's own. Without one that can be read, visitors get the server's.
fn page(path: &Path) -> Option<Vec<u8>> {
    millrace_sys::read_regular(path, millrace_sys::LARGEST_CONFIGURATION).ok()
}

impl Site {
    /// The site of position `index` in the plan.
    pub fn new(index: usize, plan: plan::Site) -> Arc<Site> {
        Site::numbered(index, OTHER_SITES, plan, None, "")
    }

    /// The same with a number for its figures, and encrypted connections. `policy`: the number of the policy by which its clients are asked for
    /// certificates; `https_port`: the port suffix of a host, if HTTPS is not on its default port.
    pub fn numbered(
        index: usize,
        number: usize,
        plan: plan::Site,
        policy: Option<u64>,
        https_port: &str,
    ) -> Arc<Site> {
        let header_lines =
            plan.headers.iter().flat_map(|(name, value)| format!("{name}: {value}\r\n").into_bytes());
        let header_lines = header_lines.collect();
        let profile = Profile::of(plan.profile);
        let allowed = (!plan.allow_files.is_empty()).then(|| Paths::new(&plan.allow_files));
        let runs_front_controller =
            plan.front_controller.as_ref().is_some_and(|name| profile.lets_run(name.as_bytes(), || true));
        let multisite = Multisite::of(&plan).map(Arc::new);
        let proxy_cache = Caching::proxied(&plan).map(Arc::new);
        let cache = profile.caching.rules(&plan).map(Arc::new);
        // Without PHP, its applications' pages are the site's.
        let cache = cache.or_else(|| proxy_cache.clone().filter(|_| plan.php.is_none()));
        // A network's pages have other tags.
        let is_network = multisite.as_ref().is_some_and(|multisite| multisite.is_network());
        let origin = origin(&plan).wrapping_add(u64::from(is_network));
        let visitors = Visitors::new(profile.caching.bypass_cookies, &plan.cache);
        let pools = PoolRules::new(plan.php.as_ref(), profile, &visitors);
        let overload_page = plan.overload_page.as_deref().and_then(page);
        let overload_page = overload_page.map(Arc::from);
        let waiting_page = plan.waiting_page.as_deref().and_then(page);
        let waiting_page = waiting_page.and_then(|page| String::from_utf8(page).ok()).map(Box::from);
        Arc::new(Site {
            index,
            number,
            profile,
            allowed,
            scripts: (!profile.scripts.is_empty()).then(|| Paths::new(profile.scripts)),
            rewrites: Rewrites::new(profile.rewrites).filter(|_| plan.try_files),
            multisite,
            runs_front_controller,
            cache,
            proxy_cache,
            rules: SiteRules::new(&plan.rules),
            pools,
            visitors,
            overload_page,
            waiting_page,
            origin,
            content: ContentFigures::default(),
            asked: AtomicU64::new(0),
            reach: Reach::of(&plan),
            plan,
            header_lines,
            policy,
            https_port: https_port.into(),
        })
    }

    /// Notes a request in this second since 1970. Threads share the note, so it changes once a second.
    pub fn note_request(&self, now: u64) {
        if self.asked.load(Ordering::Relaxed) != now {
            self.asked.store(now, Ordering::Relaxed);
        }
    }

    /// Whether a request has arrived in this second since 1970, or later.
    pub fn was_asked_since(&self, then: u64) -> bool {
        self.asked.load(Ordering::Relaxed) >= then
    }

    /// The response to a request without a PHP worker, because others go before it. The page cache sends a stale page
    /// instead if it has one, and a browser gets a place in the waiting room.
    pub fn turned_away(&self) -> Reply {
        let mut reply = self.unavailable();
        reply.aside.get_or_insert_default().turned_away = true;
        reply
    }

    /// The response to a request that PHP can't run: 503, when to come again, and a customisable page
    /// (`php.overload_page`).
    pub fn unavailable(&self) -> Reply {
        let reply = match &self.overload_page {
            None => plain(503),
            Some(page) => Reply::new(503)
                .with("Content-Type", "text/html; charset=utf-8")
                .with("Retry-After", "5")
                .body(Body::Shared { bytes: page.clone(), start: 0, end: page.len() }),
        };
        reply.with("Cache-Control", "no-store")
    }

    /// Whether the client has shown a certificate that the site asks for: the response may be for that client alone.
    pub fn shows_certificate(&self, request: &Request) -> bool {
        let known = request.ends.tls.as_ref().and_then(|tls| tls.client.as_ref()?.certificate.as_ref());
        known.is_some() && self.plan.clients.is_some()
    }

    /// Whether a file with this path is never served.
    pub fn never_serves(&self, path: &[u8]) -> bool {
        match self.profile.secrecy(path) {
            Secrecy::Open => false,
            Secrecy::Named => !self.allows(path),
            Secrecy::Closed => true,
        }
    }

    /// Whether a path that is never served as a file may be one of the application's pages: `/wiki/Install.sh`. The
    /// known applications have no such pages, and scanners request such names thousands of times.
    pub fn may_be_page(&self, path: &[u8]) -> bool {
        self.profile.caching.faithful && self.profile.secrecy(path) == Secrecy::Named
    }

    /// Whether a script with this path may run.
    pub fn lets_run(&self, path: &[u8]) -> bool {
        let is_listed = |scripts: &Paths| scripts.find(path).is_some();
        (self.scripts.as_ref().is_none_or(is_listed) || self.is_front(path) || self.allows(path))
            && self.profile.lets_run(path, || self.allows(path))
    }

    /// Whether a script is the front controller or the script of the persistent workers: the settings name it.
    fn is_front(&self, path: &[u8]) -> bool {
        let worker = self.worker().map(|worker| &worker.name);
        [worker, self.plan.front_controller.as_ref()]
            .into_iter()
            .flatten()
            .any(|name| name.as_bytes() == path)
    }

    /// Whether `site.allow_files` names a path.
    pub fn allows(&self, path: &[u8]) -> bool {
        self.allowed.as_ref().is_some_and(|allowed| allowed.find(path).is_some())
    }

    /// The workers that run its front controller.
    pub fn front_workers(&self) -> WorkerKind {
        if self.worker().is_some() { WorkerKind::Persistent } else { WorkerKind::Ordinary }
    }

    /// Its persistent workers' script.
    pub fn worker(&self) -> Option<&plan::WorkerScript> {
        self.plan.persistent.as_ref()?.worker.as_ref()
    }

    /// Whether `host`, without port, is one of the site's names.
    pub fn answers_for(&self, host: &str) -> bool {
        self.plan.names.iter().any(|name| match name.strip_prefix("*.") {
            Some(parent) => {
                let tail = host.len().checked_sub(parent.len()).and_then(|at| host.get(at..));
                tail.is_some_and(|t| t.eq_ignore_ascii_case(parent))
                    && host[..host.len() - parent.len()].ends_with('.')
            }
            None => name.eq_ignore_ascii_case(host),
        })
    }

    /// The site's own name, `SERVER_NAME`; `None` if it was created from a folder only and has none.
    pub fn name(&self) -> Option<&str> {
        self.plan.names.first().map(String::as_str)
    }
}
