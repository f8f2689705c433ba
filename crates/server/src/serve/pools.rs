//! The PHP pools of a set-up that is being made.

use std::sync::Arc;

use millrace_settings::plan::{self, Php};

use super::Setup;
use crate::context::log::Log;
use crate::php::{OnPurge, Pool, Renewal, SiteWorkers};

/// Collects the pools of a plan's sites: one for all sites whose settings are equal. Those of the set-up in force are taken
/// over where their settings are still the same, but with a new PHP: the files that the old one was started with may have
/// changed. Nothing of the old set-up is touched until `finish` and the commit of what that returns; dropped before, all
/// that was started ends.
pub struct Pools<'a> {
    old: Option<&'a Setup>,
    log: &'a Log,
    on_purge: OnPurge,
    known: Vec<(Php, Arc<Pool>)>,
    started: Vec<Arc<Pool>>,
    renewed: Vec<(Arc<Pool>, Renewal)>,
}

impl<'a> Pools<'a> {
    /// None yet; `old` is the set-up in force.
    pub fn new(old: Option<&'a Setup>, log: &'a Log, on_purge: OnPurge) -> Pools<'a> {
        let sites = old.iter().flat_map(|old| &old.workers);
        let both = |s: &Arc<SiteWorkers>| {
            let plans =
                [(s.plan.php.clone(), s.pool.clone()), (s.plan.persistent.clone(), s.persistent.clone())];
            plans.into_iter().filter_map(|(php, pool)| Some((php?, pool?)))
        };
        let known = sites.flat_map(both).collect();
        Pools { old, log, on_purge, known, started: Vec::new(), renewed: Vec::new() }
    }

    /// The pool of a site; `None`: it has no PHP.
    ///
    /// # Errors
    /// PHP does not start: why.
    pub fn get(&mut self, site: &plan::Site) -> Result<Option<Arc<Pool>>, String> {
        self.of(site, site.php.as_ref())
    }

    /// The pool of its persistent workers; `None`: it has none.
    ///
    /// # Errors
    /// PHP does not start: why.
    pub fn persistent(&mut self, site: &plan::Site) -> Result<Option<Arc<Pool>>, String> {
        self.of(site, site.persistent.as_ref())
    }

    fn of(&mut self, site: &plan::Site, php: Option<&Php>) -> Result<Option<Arc<Pool>>, String> {
        let Some(php) = php else { return Ok(None) };
        let known = self.known.iter().find(|(settings, _)| settings == php);
        let pool = match known.map(|(_, pool)| pool.clone()) {
            Some(pool) => self.renew(pool)?,
            None => self.start(site, php)?,
        };
        Ok(Some(pool))
    }

    fn renew(&mut self, pool: Arc<Pool>) -> Result<Arc<Pool>, String> {
        let mut new = self.started.iter().chain(self.renewed.iter().map(|(pool, _)| pool));
        if !new.any(|known| Arc::ptr_eq(known, &pool)) {
            self.renewed.push((pool.clone(), pool.renew()?));
        }
        Ok(pool)
    }

    fn start(&mut self, site: &plan::Site, php: &Php) -> Result<Arc<Pool>, String> {
        let pool = Pool::start(php, self.log, self.on_purge.clone())?;
        self.started.push(pool.clone());
        self.known.push((php.clone(), pool.clone()));
        let mut before = self.old.iter().flat_map(|old| &old.workers);
        let before = before.find(|old| old.plan.root == site.root);
        let of_its_kind = |old: &'a Arc<SiteWorkers>| match php.worker {
            None => old.pool.as_ref(),
            Some(_) => old.persistent.as_ref(),
        };
        if let Some(before) = before.and_then(of_its_kind) {
            pool.succeed(before);
        }
        Ok(pool)
    }

    /// All pools are there: those that wait to take over.
    pub fn finish(mut self) -> Vec<Renewal> {
        self.started.clear();
        self.renewed.drain(..).map(|(_, renewal)| renewal).collect()
    }
}

impl Drop for Pools<'_> {
    fn drop(&mut self) {
        self.started.iter().for_each(|pool| pool.retire());
    }
}
