//! The PHP pools of a set-up that is being made.

use std::sync::Arc;

use millrace_settings::plan::{self, Php};

use super::Setup;
use crate::context::log::Log;
use crate::php::{OnPurge, PhpService, PhpStartError, Renewal, SiteWorkers};

/// Collects the pools of a plan's sites: one for all sites whose settings are equal. Those of the set-up in force are taken
/// over where their settings are still the same, but with a new PHP: the files that the old one was started with may have
/// changed. Nothing of the old set-up is touched until `finish` and the commit of what that returns; dropped before, all
/// that was started ends.
pub struct PhpServices<'a> {
    old: Option<&'a Setup>,
    log: &'a Log,
    on_purge: OnPurge,
    known: Vec<(Php, Arc<PhpService>)>,
    started: Vec<Arc<PhpService>>,
    renewed: Vec<(Arc<PhpService>, Renewal)>,
}

impl<'a> PhpServices<'a> {
    /// None yet; `old` is the set-up in force.
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

    /// The pool of a site; `None`: it has no PHP.
    ///
    /// # Errors
    /// PHP does not start: why.
    pub fn get(&mut self, site: &plan::Site) -> Result<Option<Arc<PhpService>>, PhpStartError> {
        self.of(site, site.php.as_ref())
    }

    /// The pool of its persistent workers; `None`: it has none.
    ///
    /// # Errors
    /// PHP does not start: why.
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

    /// All pools are there: those that wait to take over.
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
