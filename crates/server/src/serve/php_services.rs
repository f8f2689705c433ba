//! The PHP services of a setup that is being built.

use std::sync::Arc;

use millrace_settings::plan::{self, Php};

use super::Setup;
use millrace_base::context::log::Log;
use millrace_pools::{OnPurge, PhpService, PhpStartError, Renewal, SiteWorkers};

/// Collects the PHP services of a plan's sites: one for all sites with equal settings. A service of the setup in force
/// is reused if its settings are unchanged, but with a new PHP: the files that the old PHP was started with may have
/// changed. The old setup is untouched until `finish` and the commit of its result; if this value is dropped before,
/// everything that it started ends.
pub struct PhpServices<'a> {
    old: Option<&'a Setup>,
    log: &'a Log,
    on_purge: OnPurge,
    known: Vec<(Php, Arc<PhpService>)>,
    started: Vec<Arc<PhpService>>,
    renewed: Vec<(Arc<PhpService>, Renewal)>,
}

impl<'a> PhpServices<'a> {
    /// Without services; `old` is the setup in force.
    pub fn new(old: Option<&'a Setup>, log: &'a Log, on_purge: OnPurge) -> PhpServices<'a> {
        let sites = old.iter().flat_map(|old| &old.workers);
        let both = |s: &Arc<SiteWorkers>| {
            let plans =
                [(s.plan.php.clone(), s.service.clone()), (s.plan.persistent.clone(), s.persistent.clone())];
            plans.into_iter().filter_map(|(php, service)| Some((php?, service?)))
        };
        let known = sites.flat_map(both).collect();
        PhpServices { old, log, on_purge, known, started: Vec::new(), renewed: Vec::new() }
    }

    /// The service of a site; `None`: it has no PHP.
    ///
    /// # Errors
    /// PHP does not start: the reason.
    pub fn get(&mut self, site: &plan::Site) -> Result<Option<Arc<PhpService>>, PhpStartError> {
        self.of(site, site.php.as_ref())
    }

    /// The service with its persistent workers; `None`: it has none.
    ///
    /// # Errors
    /// PHP does not start: the reason.
    pub fn persistent(&mut self, site: &plan::Site) -> Result<Option<Arc<PhpService>>, PhpStartError> {
        self.of(site, site.persistent.as_ref())
    }

    fn of(&mut self, site: &plan::Site, php: Option<&Php>) -> Result<Option<Arc<PhpService>>, PhpStartError> {
        let Some(php) = php else { return Ok(None) };
        let known = self.known.iter().find(|(settings, _)| settings == php);
        let service = match known.map(|(_, service)| service.clone()) {
            Some(service) => self.renew(service)?,
            None => self.start(site, php)?,
        };
        Ok(Some(service))
    }

    fn renew(&mut self, service: Arc<PhpService>) -> Result<Arc<PhpService>, PhpStartError> {
        let mut new = self.started.iter().chain(self.renewed.iter().map(|(service, _)| service));
        if !new.any(|known| Arc::ptr_eq(known, &service)) {
            self.renewed.push((service.clone(), service.renew()?));
        }
        Ok(service)
    }

    fn start(&mut self, site: &plan::Site, php: &Php) -> Result<Arc<PhpService>, PhpStartError> {
        let service = PhpService::start(php, self.log, self.on_purge.clone())?;
        self.started.push(service.clone());
        self.known.push((php.clone(), service.clone()));
        let mut before = self.old.iter().flat_map(|old| &old.workers);
        let before = before.find(|old| old.plan.root == site.root);
        let of_its_kind = |old: &'a Arc<SiteWorkers>| match php.worker {
            None => old.service.as_ref(),
            Some(_) => old.persistent.as_ref(),
        };
        if let Some(before) = before.and_then(of_its_kind) {
            service.succeed(before);
        }
        Ok(service)
    }

    /// All services are there: returns the renewals that are ready to take over.
    pub fn finish(mut self) -> Vec<Renewal> {
        self.started.clear();
        self.renewed.drain(..).map(|(_, renewal)| renewal).collect()
    }
}

impl Drop for PhpServices<'_> {
    fn drop(&mut self) {
        self.started.iter().for_each(|service| service.retire());
    }
}
