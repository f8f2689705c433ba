//! The page cache in the status and in the metrics.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

use millrace_pages::{StoreUsage, visitors};
use serde_json::{Value, json};

use super::status::{bytes, grouped, share};
use crate::cache::{Disk, DiskUsage};
use crate::serve::Service;
use millrace_base::context::stats::{
    CAUSES_PERIOD, Cause, Causes, Counter, Exposition, PurgeCounts, Row, SiteCauses, UNCACHEABLE, table,
};

/// Cookies, paths and arguments behind bypassed requests that the text shows.
const NAMES_SHOWN: usize = 8;

/// Sites, and causes of each, in the text.
const SITES_SHOWN: usize = 20;
const CAUSES_SHOWN: usize = 4;

/// A snapshot of the page cache.
pub struct CacheFigures {
    usage: StoreUsage,
    /// `None`: no storage on disk.
    disk: Option<DiskUsage>,
    causes: Causes,
    /// The causes of each site by its name.
    sites: BTreeMap<Box<str>, SiteCauses>,
    now: Instant,
    purges: PurgeCounts,
    /// Known visitor cookies of all sites.
    visitors: visitors::VisitorUsage,
}

impl CacheFigures {
    /// Reads the current values.
    pub fn gather(service: &Service, now: Instant) -> CacheFigures {
        let sites = service.process.stats.causes(now);
        CacheFigures {
            usage: service.cache.usage(),
            disk: Some(service.cache.disk()).filter(|disk| disk.is_on()).map(Disk::usage),
            causes: sum_of(&sites),
            sites,
            now,
            purges: service.process.stats.purges(),
            visitors: service.setup().sites.iter().fold(visitors::VisitorUsage::default(), |sum, site| {
                let usage = site.visitors.usage();
                visitors::VisitorUsage {
                    logins: sum.logins + usage.logins,
                    carts: sum.carts + usage.carts,
                    others: sum.others + usage.others,
                    evicted: sum.evicted + usage.evicted,
                }
            }),
        }
    }

    /// Status as JSON; `value` reads a counter.
    pub fn json(&self, value: &dyn Fn(Counter) -> u64) -> Value {
        let StoreUsage {
            bytes,
            overhead,
            budget,
            pages,
            marks,
            fills,
            tags,
            bans,
            evicted,
            purged,
            expired,
            slimmed,
        } = self.usage;
        let names = self.causes.top(usize::MAX).into_iter();
        let names =
            names.map(|name| json!({ "reason": name.reason, "name": name.name, "count": name.count }));
        json!({
            "pages": pages,
            "bytes": bytes,
            "overhead_bytes": overhead,
            "budget_bytes": budget,
            "tags": tags,
            "uncacheable": marks,
            "hits": value(Counter::CacheHits),
            "stale": value(Counter::CacheStale),
            "misses": value(Counter::CacheMisses),
            "collapsed": value(Counter::CacheCollapsed),
            "bypassed": value(Counter::CacheBypassed),
            "passed": value(Counter::CachePassed),
            "fills": value(Counter::CacheFills),
            "fills_failed": value(Counter::CacheFillsFailed),
            "wait_timeouts": value(Counter::CacheWaitTimeouts),
            "fills_running": fills,
            "prefix_purges_pending": bans,
            "evicted": evicted,
            "slimmed": slimmed,
            "expired": expired,
            "removed_by_purges": purged,
            "purges": self.purges.orders,
            "purged_pages": self.purges.pages,
            "disk": self.disk.as_ref().map(disk_json),
            "bypass_reasons": self.causes.reasons().into_iter().collect::<Value>(),
            "bypass_names": names.collect::<Value>(),
            "lately_seconds": CAUSES_PERIOD.as_secs(),
            "sites": self.sites.iter().map(|(site, causes)| self.site_json(site, causes)).collect::<Value>(),
        })
    }

    fn site_json(&self, site: &str, causes: &SiteCauses) -> Value {
        let reasons = |causes: &Causes| causes.reasons().into_iter().collect::<Value>();
        json!({
            "site": site,
            "bypass_reasons": reasons(causes.bypassed.since_start()),
            "refusal_reasons": reasons(causes.refused.since_start()),
            "bypassed_lately": causes_json(&causes.bypassed.lately(self.now)),
            "refused_lately": causes_json(&causes.refused.lately(self.now)),
            "varied_lately": causes_json(&causes.varied.lately(self.now)),
        })
    }

    /// Known visitor cookies as JSON.
    pub fn visitors_json(&self) -> Value {
        let visitors::VisitorUsage { logins, carts, others, evicted } = self.visitors;
        json!({ "login": logins, "cart": carts, "other": others, "evicted": evicted })
    }

    /// Status text; `value` reads a counter.
    pub fn write(&self, text: &mut String, value: &dyn Fn(Counter) -> u64) -> std::fmt::Result {
        let of = |counter| grouped(value(counter));
        let usage = &self.usage;
        let answered = value(Counter::CacheHits) + value(Counter::CacheStale);
        let asked = answered + value(Counter::CacheMisses) + value(Counter::CacheCollapsed);
        writeln!(
            text,
            "\n{:<14}{} pages, {} of {}; hits: {}",
            "Page cache",
            grouped(usage.pages as u64),
            bytes(usage.bytes as u64),
            bytes(usage.budget as u64),
            share(answered, asked)
        )?;
        writeln!(
            text,
            "  {:<12}{} fresh hits, {} stale hits, {} misses, {} waited for a page in progress, {} timed out waiting",
            "requests",
            of(Counter::CacheHits),
            of(Counter::CacheStale),
            of(Counter::CacheMisses),
            of(Counter::CacheCollapsed),
            of(Counter::CacheWaitTimeouts)
        )?;
        writeln!(
            text,
            "  {:<12}{} PHP runs, {} failed; evicted: {} uncompressed copies, {} whole pages; {} expired; {} purges \
             matched {} pages",
            "pages",
            of(Counter::CacheFills),
            of(Counter::CacheFillsFailed),
            grouped(usage.slimmed),
            grouped(usage.evicted),
            grouped(usage.expired),
            grouped(self.purges.orders),
            grouped(self.purges.pages)
        )?;
        if let Some(disk) = &self.disk {
            write_disk(text, disk)?;
        }
        self.write_causes(text, &of)?;
        let visitors::VisitorUsage { logins, carts, others, evicted } = self.visitors;
        writeln!(
            text,
            "  {:<12}known cookies: {} logged in, {} cart or session, {} other; {} evicted; PHP runs: {} for proven \
             visitors, {} for unverified ones; {} requests treated as anonymous",
            "visitors",
            grouped(logins as u64),
            grouped(carts as u64),
            grouped(others as u64),
            grouped(evicted),
            of(Counter::VisitorsProven),
            of(Counter::VisitorsUnproven),
            of(Counter::VisitorsAnonymous)
        )
    }

    fn write_causes(&self, text: &mut String, of: &dyn Fn(Counter) -> String) -> std::fmt::Result {
        let reasons: Vec<String> = self
            .causes
            .reasons()
            .iter()
            .map(|(reason, count)| format!("{} {reason}", grouped(*count)))
            .collect();
        let because = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
        writeln!(
            text,
            "  {:<12}{} requests{because}; {} known to be uncacheable",
            "bypassed",
            of(Counter::CacheBypassed),
            of(Counter::CachePassed)
        )?;
        for name in self.causes.top(NAMES_SHOWN) {
            writeln!(
                text,
                "  {:<12}{} {} {}",
                "",
                grouped(name.count),
                name.reason,
                name.name.escape_debug()
            )?;
        }
        self.write_sites(text)
    }

    /// What bypassed the cache lately, for each site.
    fn write_sites(&self, text: &mut String) -> std::fmt::Result {
        let lately = |name: &str, causes: &SiteCauses| {
            let said = in_words(
                &causes.bypassed.lately(self.now),
                &causes.refused.lately(self.now),
                &causes.varied.lately(self.now),
            )?;
            let name = if name.is_empty() { "(any name)" } else { name };
            Some(format!("{name}: {said}"))
        };
        let lines: Vec<String> =
            self.sites.iter().filter_map(|(name, causes)| lately(name, causes)).collect();
        for (at, line) in lines.iter().take(SITES_SHOWN).enumerate() {
            writeln!(text, "  {:<12}{line}", if at == 0 { "lately" } else { "" })?;
        }
        if lines.len() > SITES_SHOWN {
            writeln!(
                text,
                "  {:<12}and {} more sites: millrace status --json",
                "",
                lines.len() - SITES_SHOWN
            )?;
        }
        Ok(())
    }

    /// Metrics for Prometheus.
    pub fn expose(&self, out: &mut Exposition) {
        let usage = &self.usage;
        let disk = self.disk.unwrap_or_default();
        let amounts: [(&Row, u64); 15] = [
            (&table::CACHE_PAGES, usage.pages as u64),
            (&table::CACHE_BYTES, usage.bytes as u64),
            (&table::CACHE_OVERHEAD, usage.overhead as u64),
            (&table::CACHE_BUDGET, usage.budget as u64),
            (&table::CACHE_TAGS, usage.tags as u64),
            (&table::CACHE_MARKS, usage.marks as u64),
            (&table::CACHE_EVICTED, usage.evicted),
            (&table::CACHE_SLIMMED, usage.slimmed),
            (&table::CACHE_EXPIRED, usage.expired),
            (&table::CACHE_PURGES, self.purges.orders),
            (&table::CACHE_PURGED, self.purges.pages),
            (&table::CACHE_DISK_BYTES, disk.bytes),
            (&table::CACHE_DISK_WRITTEN, disk.written),
            (&table::CACHE_DISK_DROPPED, disk.dropped),
            (&table::CACHE_DISK_LOADED, disk.loaded),
        ];
        for (row, value) in amounts {
            out.family(row);
            out.sample(row, &[], value);
        }
        let known = self.visitors;
        out.family(&table::VISITORS);
        for (kind, count) in [("login", known.logins), ("cart", known.carts), ("other", known.others)] {
            out.sample(&table::VISITORS, &[("kind", kind)], count as u64);
        }
        out.family(&table::VISITORS_EVICTED);
        out.sample(&table::VISITORS_EVICTED, &[], known.evicted);
        out.family(&table::CACHE_BYPASS);
        for (reason, count) in self.causes.reasons() {
            out.sample(&table::CACHE_BYPASS, &[("reason", reason)], count);
        }
        self.expose_sites(out, &table::CACHE_SITE_BYPASS, |causes| causes.bypassed.since_start());
        self.expose_sites(out, &table::CACHE_SITE_REFUSED, |causes| causes.refused.since_start());
    }

    /// Reasons only: names come from clients, and would be labels without end.
    fn expose_sites(&self, out: &mut Exposition, row: &Row, of: fn(&SiteCauses) -> &Causes) {
        out.family(row);
        for (site, causes) in &self.sites {
            for (reason, count) in of(causes).reasons() {
                out.sample(row, &[("site", site), ("reason", reason)], count);
            }
        }
    }
}

/// The requests of all sites that bypassed the cache, without those for pages that are known to be uncacheable.
fn sum_of(sites: &BTreeMap<Box<str>, SiteCauses>) -> Causes {
    let mut sum = Causes::new();
    sites.values().for_each(|site| sum.add(&site.bypassed.since_start().clone().without(UNCACHEABLE)));
    sum
}

/// All causes as JSON, the most frequent first.
pub(super) fn causes_json(causes: &Causes) -> Value {
    let one = |cause: Cause| json!({ "reason": cause.reason, "name": cause.name, "count": cause.count });
    causes.leading(usize::MAX).into_iter().map(one).collect()
}

/// The most frequent causes in one line; `None`: there is none.
fn in_words(bypassed: &Causes, refused: &Causes, varied: &Causes) -> Option<String> {
    let list = |causes: &Causes| {
        causes.leading(CAUSES_SHOWN).iter().map(cause_in_words).collect::<Vec<_>>().join(", ")
    };
    let parts = [("", bypassed), ("not stored: ", refused), ("in variants: ", varied)];
    let said = parts.iter().filter(|(_, causes)| !causes.is_empty());
    let said: Vec<String> = said.map(|(title, causes)| format!("{title}{}", list(causes))).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// `1,200 cookie wordpress_logged_in_x`
pub(super) fn cause_in_words(cause: &Cause) -> String {
    let text = format!("{} {} {}", grouped(cause.count), cause.reason, cause.name.escape_debug());
    text.trim_end().to_owned()
}

fn disk_json(disk: &DiskUsage) -> Value {
    json!({
        "bytes": disk.bytes,
        "files": disk.segments,
        "written": disk.written,
        "rewritten": disk.rewritten,
        "dropped": disk.dropped,
        "loaded": disk.loaded,
        "loading": disk.loading,
    })
}

fn write_disk(text: &mut String, disk: &DiskUsage) -> std::fmt::Result {
    let DiskUsage { written, dropped, loaded, .. } = *disk;
    writeln!(
        text,
        "  {:<12}{}; {} pages written, {} dropped because the disk was full or slow; {} read at startup{}",
        "on disk",
        bytes(disk.bytes),
        grouped(written),
        grouped(dropped),
        grouped(loaded),
        if disk.loading { " so far" } else { "" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        let (now, mut site) = (Instant::now(), SiteCauses::default());
        for _ in 0..1500 {
            site.bypassed.note(now, "cookie", Some("wordpress_logged_in_x"));
        }
        site.bypassed.note(now, "method", None);
        site.bypassed.note(now, UNCACHEABLE, Some("/a"));
        site.refused.note(now, "set-cookie", Some("PHPSESSID"));
        let sites = BTreeMap::from([("a.test".into(), site)]);
        let usage = StoreUsage {
            pages: 1204,
            bytes: 1 << 20,
            budget: 1 << 30,
            slimmed: 9,
            evicted: 7,
            ..StoreUsage::default()
        };
        let disk =
            DiskUsage { bytes: 3 << 20, written: 1300, loaded: 900, loading: true, ..DiskUsage::default() };
        let figures = CacheFigures {
            usage,
            disk: Some(disk),
            causes: sum_of(&sites),
            sites,
            now,
            purges: PurgeCounts { orders: 2, pages: 40 },
            visitors: visitors::VisitorUsage { logins: 3, carts: 4, others: 1005, evicted: 6 },
        };
        let value = |counter| match counter {
            Counter::CacheHits => 90,
            Counter::CacheMisses => 10,
            Counter::CacheBypassed => 1501,
            Counter::VisitorsProven => 70,
            Counter::VisitorsUnproven => 8,
            _ => 0,
        };
        let mut text = String::new();
        figures.write(&mut text, &value).unwrap();
        assert_eq!(
            text,
            "
Page cache    1,204 pages, 1.0 MiB of 1.0 GiB; hits: 90.0 %
  requests    90 fresh hits, 0 stale hits, 10 misses, 0 waited for a page in progress, 0 timed out waiting
  pages       0 PHP runs, 0 failed; evicted: 9 uncompressed copies, 7 whole pages; 0 expired; 2 purges matched 40 pages
  on disk     3.0 MiB; 1,300 pages written, 0 dropped because the disk was full or slow; 900 read at startup so far
  bypassed    1,501 requests: 1,500 cookie, 1 method; 0 known to be uncacheable
              1,500 cookie wordpress_logged_in_x
  lately      a.test: 1,500 cookie wordpress_logged_in_x, 1 method, 1 uncacheable /a; not stored: 1 set-cookie PHPSESSID
  visitors    known cookies: 3 logged in, 4 cart or session, 1,005 other; 6 evicted; PHP runs: 70 for proven visitors, 8 for unverified ones; 0 requests treated as anonymous
"
        );
        let json = format!("{:#}", figures.json(&value));
        for part in [
            "\"pages\": 1204",
            "\"hits\": 90",
            "\"written\": 1300",
            "\"cookie\": 1500",
            "\"name\": \"wordpress_logged_in_x\"",
            "\"site\": \"a.test\"",
            "\"refused_lately\"",
        ] {
            assert!(json.contains(part), "{part} is not in\n{json}");
        }
        let mut out = Exposition::default();
        figures.expose(&mut out);
        let text = out.into_text();
        for line in [
            "millrace_cache_bypass_reasons_total{reason=\"cookie\"} 1500",
            "millrace_cache_site_bypass_reasons_total{site=\"a.test\",reason=\"uncacheable\"} 1",
            "millrace_cache_site_refusal_reasons_total{site=\"a.test\",reason=\"set-cookie\"} 1",
            "millrace_visitors{kind=\"other\"} 1005",
            "millrace_visitors_evicted_total 6",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} is not in\n{text}");
        }
    }
}
