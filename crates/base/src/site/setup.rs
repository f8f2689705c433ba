//! The sites of a configuration.

use std::sync::Arc;

use millrace_settings::Plan;

use super::Site;
use super::hosts::Hosts;

/// The sites of a [`Plan`] as they run. Replaced as a whole on a reload.
#[derive(Debug)]
pub struct SiteSetup {
    /// The configuration.
    pub plan: Arc<Plan>,
    /// The sites in the plan's order.
    pub sites: Vec<Arc<Site>>,
    hosts: Hosts,
}

impl SiteSetup {
    /// A plan with its sites, which are in the plan's order.
    pub fn new(plan: Arc<Plan>, sites: Vec<Arc<Site>>) -> SiteSetup {
        SiteSetup { hosts: Hosts::new(&sites), plan, sites }
    }

    /// The position of the site that answers for `authority`.
    pub fn position_for(&self, authority: &str) -> usize {
        self.hosts.find(authority)
    }

    /// Whether the site that answers for `authority` has the name `other`, too.
    pub fn is_name_of_the_same(&self, other: &str, authority: &str) -> bool {
        self.hosts.named(other) == Some(self.position_for(authority))
    }

    /// The site that answers for `authority`.
    pub fn site_for(&self, authority: &str) -> &Arc<Site> {
        &self.sites[self.position_for(authority)]
    }
}
