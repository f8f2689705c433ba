//! Figures by site in the status and in the metrics.

use serde_json::{Value, json};

use super::history::{History, SiteRates};
use crate::serve::Setup;
use millrace_base::context::stats::{Exposition, Registry, Row, SiteCounter, SiteFigures, table};

/// The traffic of a site.
#[derive(Clone, Copy, Debug)]
pub struct SiteTraffic {
    /// Since the start of the process.
    total: SiteFigures,
    /// In the last minute; `None`: the server has just started.
    lately: Option<SiteRates>,
}

/// The traffic of all sites of a setup, in its order.
pub fn gather(setup: &Setup, stats: &Registry, history: &History) -> Vec<SiteTraffic> {
    let figures = stats.sites();
    let of = |number: usize| SiteTraffic { total: figures[number].1, lately: history.lately(number) };
    setup.sites.iter().map(|site| of(site.number)).collect()
}

/// A site's part of the status in JSON.
pub fn json(traffic: &SiteTraffic) -> Value {
    let total = &traffic.total;
    let [second, third, fourth, fifth] = total.replies();
    json!({
        "requests": total.requests(),
        "replies": { "2xx": second, "3xx": third, "4xx": fourth, "5xx": fifth },
        "sent_bytes": total.get(SiteCounter::SentBytes),
        "cache": {
            "hits": total.get(SiteCounter::CacheHits),
            "misses": total.get(SiteCounter::CacheMisses),
            "bypassed": total.get(SiteCounter::CacheBypassed),
        },
        "php_requests": total.get(SiteCounter::PhpRequests),
        "php_seconds": seconds(total),
        "last_minute": traffic.lately.as_ref().map(SiteRates::json),
    })
}

/// Metrics for Prometheus.
pub fn expose(out: &mut Exposition, sites: &[(Box<str>, SiteFigures)]) {
    // The shared number of sites beyond the bound is shown once there are any.
    let shown = || {
        sites.iter().enumerate().filter(|(number, (_, f))| *number > 0 || f.requests() > 0).map(|(_, s)| s)
    };
    out.family(&table::SITE_REQUESTS);
    for (site, figures) in shown() {
        for (status, count) in ["2xx", "3xx", "4xx", "5xx"].into_iter().zip(figures.replies()) {
            out.sample(&table::SITE_REQUESTS, &[("site", site), ("status", status)], count);
        }
    }
    out.family(&table::SITE_CACHE);
    let outcomes = [
        ("hit", SiteCounter::CacheHits),
        ("miss", SiteCounter::CacheMisses),
        ("bypass", SiteCounter::CacheBypassed),
    ];
    for (site, figures) in shown() {
        for (outcome, counter) in outcomes {
            out.sample(&table::SITE_CACHE, &[("site", site), ("outcome", outcome)], figures.get(counter));
        }
    }
    let mut family = |row: &Row, value: fn(&SiteFigures) -> f64| {
        out.family(row);
        shown().for_each(|(site, figures)| out.sample(row, &[("site", site)], value(figures)));
    };
    family(&table::SITE_SENT_BYTES, |figures| figures.get(SiteCounter::SentBytes) as f64);
    family(&table::SITE_PHP_REQUESTS, |figures| figures.get(SiteCounter::PhpRequests) as f64);
    family(&table::SITE_PHP_SECONDS, seconds);
}

fn seconds(figures: &SiteFigures) -> f64 {
    figures.get(SiteCounter::PhpMicros) as f64 / 1e6
}
