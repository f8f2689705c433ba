//! The URL of a page of this server's sites, as people write it.

use millrace_settings::plan::Address;

use super::{Setup, SiteWorkers};
use crate::cache::purge::{OrderError, key_host, site_and_target};
use millrace_base::message::request::Scheme;

/// A page's URL, in the parts of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageUrl {
    /// How it is requested.
    pub scheme: Scheme,
    /// Host and port as in keys.
    pub authority: String,
    /// Path and query.
    pub target: String,
}

impl PageUrl {
    /// The page that a URL names, on a site whose cache is on; or a path, if there is only one site.
    ///
    /// # Errors
    /// The URL is invalid, or belongs to no site, or to one whose cache is off.
    pub fn read(setup: &Setup, url: &str) -> Result<PageUrl, OrderError> {
        if url.starts_with('/') && setup.sites.len() > 1 {
            return Err(OrderError::WhichHost(url.to_owned()));
        }
        let (site, host, target) = site_and_target(setup, None, url)?;
        let site = &setup.workers[site];
        let scheme = if url.starts_with("https:") { Scheme::Https } else { Scheme::Http };
        if site.cache.is_none() {
            return Err(OrderError::CacheOff(url.to_owned()));
        }
        let authority = match host {
            Some(host) => key_host(&host, scheme.text()),
            None => own_authority(setup, site).ok_or_else(|| OrderError::WhichHost(url.to_owned()))?,
        };
        let target = target.split('#').next().unwrap_or_default();
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let legal = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        if !legal(&authority) || !legal(&target) {
            return Err(OrderError::IllegalUrl(url.to_owned()));
        }
        Ok(PageUrl { scheme, authority, target })
    }
}

/// The host for a path without one: the site's own name.
fn own_authority(setup: &Setup, site: &SiteWorkers) -> Option<String> {
    let name = site.name().filter(|name| !name.starts_with('*'));
    let port = setup.plan.server.listen.iter().find_map(|address| match address {
        Address::Tcp(address) => Some(address.port()),
        Address::Unix(_) => None,
    });
    match (name, port) {
        (Some(name), None | Some(80)) => Some(name.to_owned()),
        (Some(name), Some(port)) => Some(format!("{name}:{port}")),
        // Without a name, the host that people use when they try out a site on a port.
        (None, Some(port)) => Some(format!("localhost:{port}")),
        (None, None) => None,
    }
}
