//! From a plan to the sites that serve it.

use std::sync::Arc;

use millrace_settings::{Plan, plan};

use super::Setup;
use super::php_services::PhpServices;
use crate::cache::{PageCache, purge};
use millrace_base::context::Process;
use millrace_base::site::Site;
use millrace_pools::{OnPurge, PhpStartError, Renewal, SiteWorkers};

/// A setup that is not in force yet.
pub struct Built {
    /// The setup.
    pub setup: Arc<Setup>,
    /// New PHPs for services that it reuses from the old setup.
    renewals: Vec<Renewal>,
}

impl Built {
    /// The setup is in force: the new PHPs take over.
    pub fn commit(self) {
        self.renewals.into_iter().for_each(Renewal::commit);
    }
}

/// The number of the policy by which a site's clients are asked for certificates.
pub type PolicyOf<'a> = &'a dyn Fn(&plan::Site) -> Option<u64>;

/// Builds the sites of a plan. `https_port`: the text behind a host if HTTPS is not on its usual port.
///
/// # Errors
/// PHP does not start: the reason, and what to do.
pub fn build(
    plan: Plan,
    policy_of: PolicyOf<'_>,
    https_port: &str,
    old: Option<&Setup>,
    process: &Process,
    cache: &Arc<PageCache>,
) -> Result<Built, PhpStartError> {
    let plan = Arc::new(plan);
    let mut pools = PhpServices::new(old, &process.log, on_purge(process, cache));
    let mut workers = Vec::new();
    for (index, part) in plan.sites.iter().enumerate() {
        if old.is_some() && (part.php.is_some() || part.persistent.is_some()) {
            let name = part.names.first().map_or("default", String::as_str);
            process.set_reloading(Some(format!(
                "starting PHP for {name}, site {} of {}",
                index + 1,
                plan.sites.len()
            )));
        }
        let service = pools.get(part)?;
        let persistent = pools.persistent(part)?;
        let number = process.stats.site_number(part.names.first().map_or("default", String::as_str));
        let site = Site::numbered(index, number, part.clone(), policy_of(part), https_port);
        let same = |other: &&Arc<Site>| other.name() == site.name() && other.plan.root == site.plan.root;
        if let Some(older) = old.and_then(|old| old.sites.iter().find(same)) {
            site.visitors.go_on_with(&older.visitors);
        }
        workers.push(SiteWorkers { site, service, persistent });
    }
    cache.set_rules(workers.iter().map(|workers| &*workers.site));
    Ok(Built { setup: Setup::new(plan, workers), renewals: pools.finish() })
}

/// Carries out a script's purge.
fn on_purge(process: &Process, cache: &Arc<PageCache>) -> OnPurge {
    let cache = cache.clone();
    let (log, stats) = (process.log.clone(), process.stats.clone());
    let orders = cache.orders();
    let by_script = Arc::new(move |site: &str, host: &str, what: &[u8]| {
        if cache.code.hear(site, what) || cache.hear_written(site, what) {
            return;
        }
        let pages = cache.purge_as_told(site, host, what);
        let said = &what[..what.len().min(200)];
        purge::note(&stats, &log, &format_args!("a script of {host}"), &said.escape_ascii(), pages);
    });
    OnPurge { by_script, orders }
}
