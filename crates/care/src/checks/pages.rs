//! The page cache.

use super::{Certainty, Check, Measured, Rank, Scope, both, bytes, note, one, size_up, warning};
use crate::facts::{Blind, Span, percent};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "cache-bypass",
        title: "requests that bypass the page cache",
        signal: "cache_bypassed_total, cache_passed_total; bypass_names of the status",
        at: warning(50.0, "% of at least 50 requests for pages, with a site of WordPress or Drupal"),
        source: "README.md, How it compares: a cached page costs 13 us of processor time, an uncached one 30 ms",
        cure: "docs/cache.md: cache.bypass_cookies, cache.ignore_arguments, the plugin that sets the cookie",
        cost: "PHP makes pages that are the same for everybody.",
        certainty: Certainty::Medium,
        rank: Rank::Work,
        scope: Scope::Machine,
        measure: bypass,
    },
    Check {
        id: "cache-misses",
        title: "hits of the page cache",
        signal: "cache_hits_total, cache_stale_total, cache_misses_total",
        at: note(70.0, "% misses of at least 200 cacheable requests"),
        source: "a page that is stored and not requested again within its time gains nothing",
        cure: "longer cache.ttl, cache.ignore_arguments, `millrace warm`",
        cost: "PHP makes most pages.",
        certainty: Certainty::Low,
        rank: Rank::Advice,
        scope: Scope::Machine,
        measure: misses,
    },
    Check {
        id: "cache-small",
        title: "memory of the page cache",
        signal: "evicted, bytes and budget_bytes of the status",
        at: warning(1.0, "pages evicted per second, while the memory is 95 % full"),
        source: "S3-FIFO evicts pages without a second request first; a steady stream is lack of room",
        cure: "cache.memory",
        cost: "PHP makes pages again that were cached.",
        certainty: Certainty::Medium,
        rank: Rank::Limit,
        scope: Scope::Machine,
        measure: small,
    },
    Check {
        id: "cache-off",
        title: "sites without a page cache",
        signal: "sites of the status",
        at: warning(1.0, "WordPress or Drupal sites with cache.mode = \"off\""),
        source: "docs/cache.md",
        cure: "cache.mode = \"profile\"",
        cost: "PHP makes every page.",
        certainty: Certainty::High,
        rank: Rank::Work,
        scope: Scope::Machine,
        measure: off,
    },
    Check {
        id: "cache-fill-wait",
        title: "requests that waited in vain for a page",
        signal: "cache_wait_timeouts_total, cache_fills_failed_total",
        at: both(1.0, 20.0, "between the looks"),
        source: "cache.fill_wait: a page took longer than visitors wait for it, or failed",
        cure: "find why the page takes so long: php.slow_log",
        cost: "Visitors wait, and then PHP runs once more for each.",
        certainty: Certainty::High,
        rank: Rank::Symptom,
        scope: Scope::Machine,
        measure: fill_wait,
    },
    Check {
        id: "cache-disk",
        title: "cached pages on disk",
        signal: "dropped of cache.disk in the status",
        at: warning(1.0, "pages dropped between the looks"),
        source: "pages are dropped when the disk is full or slow",
        cure: "space for cache.dir, or cache.dir = \"off\"",
        cost: "After a restart these pages are not there.",
        certainty: Certainty::High,
        rank: Rank::Symptom,
        scope: Scope::Machine,
        measure: disk,
    },
    Check {
        id: "visitors-evicted",
        title: "table of visitors",
        signal: "evicted of visitors in the status",
        at: note(10.0, "visitors forgotten per second"),
        source: "cache.visitors: a forgotten visitor is verified by PHP again",
        cure: "cache.visitors",
        cost: "PHP runs for visitors that could get a cached page.",
        certainty: Certainty::Medium,
        rank: Rank::Advice,
        scope: Scope::Machine,
        measure: visitors,
    },
];

fn counter(span: &Span<'_>, name: &str) -> Result<f64, Blind> {
    span.rise(&format!("server.counters.{name}"))
}

/// Requests that a fresh, stale, new or awaited page answered, and those among them that PHP answered.
fn cacheable(span: &Span<'_>) -> Result<(f64, f64), Blind> {
    let misses = counter(span, "cache_misses_total")?;
    let hits = counter(span, "cache_hits_total")?
        + counter(span, "cache_stale_total")?
        + counter(span, "cache_collapsed_total")?;
    Ok((hits + misses, misses))
}

fn bypass(span: &Span<'_>) -> Measured {
    let past = counter(span, "cache_bypassed_total")? + counter(span, "cache_passed_total")?;
    let (cacheable, _) = cacheable(span)?;
    let all = past + cacheable;
    // Pages of an unknown application are cached only if they ask for it.
    let is_known = span.now.list("server.sites")?.iter().any(|site| site.text("profile") != "generic");
    // By cause, as far as they have risen between the looks.
    let before = span.before.list("server.cache.bypass_names").unwrap_or_default();
    let count = |item: &crate::facts::Facts| item.figure("count").unwrap_or(0.0);
    let mut names: Vec<(f64, String)> = span
        .now
        .list("server.cache.bypass_names")
        .unwrap_or_default()
        .iter()
        .map(|item| {
            let same = |old: &&crate::facts::Facts| {
                (old.text("reason"), old.text("name")) == (item.text("reason"), item.text("name"))
            };
            (
                count(item) - before.iter().find(same).map_or(0.0, count),
                format!("{} {}", item.text("reason"), item.text("name")),
            )
        })
        .filter(|(rise, _)| *rise > 0.0)
        .collect();
    names.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shown: Vec<String> =
        names.iter().take(3).map(|(rise, name)| format!("{rise:.0} by {name}")).collect();
    let cure = match names.first() {
        Some((_, name)) if name.starts_with("cookie") => format!(
            "find the plugin that sets this {name}; if it means nothing for the page, see docs/cache.md (cache.bypass_cookies)"
        ),
        Some((_, name)) if name.starts_with("argument") => {
            format!("if this {name} does not change the page: cache.ignore_arguments")
        }
        _ => "`millrace status` lists the causes; docs/cache.md says what can be done about each".to_owned(),
    };
    one(
        if all >= 50.0 && is_known { percent(past, all) } else { 0.0 },
        "most requests bypass the page cache",
        format!(
            "{past:.0} of {all:.0} requests for pages in {:.0} s; {}",
            span.seconds,
            if shown.is_empty() { "causes unknown".to_owned() } else { shown.join(", ") }
        ),
        cure,
    )
}

fn misses(span: &Span<'_>) -> Measured {
    let (all, misses) = cacheable(span)?;
    one(
        if all >= 200.0 { percent(misses, all) } else { 0.0 },
        "the page cache seldom has the page that is requested",
        format!("{misses:.0} misses of {all:.0} cacheable requests in {:.0} s", span.seconds),
        "a longer cache.ttl (pages are purged when they change), cache.ignore_arguments for tracking arguments, `millrace warm` after a restart",
    )
}

fn small(span: &Span<'_>) -> Measured {
    let rate = span.rate("server.cache.evicted")?;
    let (used, budget) = (span.now("server.cache.bytes")?, span.now("server.cache.budget_bytes")?);
    one(
        if percent(used, budget) >= 95.0 { rate } else { 0.0 },
        "the page cache is too small",
        format!("{rate:.1} pages evicted per second; {} of {}", bytes(used), bytes(budget)),
        format!("cache.memory = \"{}\" (now {})", size_up(budget * 2.0), bytes(budget)),
    )
}

fn off(span: &Span<'_>) -> Measured {
    let sites = span.now.list("server.sites")?.iter();
    let off = sites
        .filter(|site| site.text("profile") != "generic" && site.is_on("php") && site.text("cache") == "off");
    let names: Vec<&str> = off.map(|site| site.text("root")).collect();
    one(
        names.len() as f64,
        "the page cache is off",
        format!("cache off for {}", names.join(", ")),
        "cache.mode = \"profile\" (now \"off\")",
    )
}

fn fill_wait(span: &Span<'_>) -> Measured {
    let (late, failed) =
        (counter(span, "cache_wait_timeouts_total")?, counter(span, "cache_fills_failed_total")?);
    one(
        late + failed,
        "visitors waited in vain for a page that PHP was making",
        format!("{late:.0} waited too long, {failed:.0} pages failed in {:.0} s", span.seconds),
        "php.slow_log = \"1s\" shows why the page takes so long; the error log why it fails; cache.fill_wait is how long visitors wait",
    )
}

fn disk(span: &Span<'_>) -> Measured {
    let none = |_| Blind::DoesNotApply("no pages are stored on disk (cache.dir)".to_owned());
    let dropped = span.rise("server.cache.disk.dropped").map_err(none)?;
    one(
        dropped,
        "cached pages are not written to disk",
        format!("{dropped:.0} dropped in {:.0} s", span.seconds),
        "free space on the disk of cache.dir, a faster disk, or cache.dir = \"off\"",
    )
}

fn visitors(span: &Span<'_>) -> Measured {
    let rate = span.rate("server.visitors.evicted")?;
    one(
        rate,
        "the table of known visitors is too small",
        format!("{rate:.0} visitors forgotten per second"),
        "raise cache.visitors (`millrace explain cache.visitors` says what it is)",
    )
}

#[cfg(test)]
mod tests {
    use crate::facts::Facts;
    use crate::testing::{Pair, case};

    fn counts(counts: &'static [(&'static str, f64)]) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| {
            for (name, rise) in counts {
                p.rise(&format!("server.counters.{name}"), *rise);
            }
        }
    }

    #[test]
    fn hits_and_bypasses() {
        let past = counts(&[("cache_bypassed_total", 400.0), ("cache_hits_total", 100.0)]);
        case("cache-bypass", past, counts(&[("cache_bypassed_total", 40.0)]));
        let generic = |p: &mut Pair| {
            counts(&[("cache_bypassed_total", 400.0)])(p);
            p.now.items("server.sites")[0].say("profile", "generic");
        };
        let bypassed = counts(&[("cache_bypassed_total", 4_000.0)]);
        case("cache-bypass", bypassed, generic);
        let misses = counts(&[("cache_misses_total", 900.0)]);
        case("cache-misses", misses, counts(&[("cache_misses_total", 100.0)]));
    }

    #[test]
    fn the_cause_that_rises_is_named() {
        let mut pair = Pair::healthy();
        let cause = |name: &str, count: f64| {
            let mut one = Facts::default();
            one.say("reason", "cookie");
            one.say("name", name);
            one.set("count", count);
            one
        };
        pair.before.put("server.cache.bypass_names", vec![cause("old", 9_000.0)]);
        pair.now.put("server.cache.bypass_names", vec![cause("old", 9_001.0), cause("PHPSESSID", 800.0)]);
        pair.rise("server.counters.cache_bypassed_total", 2_000.0);
        let found = pair.finding("cache-bypass");
        assert!(found.evidence[0].contains("800 by cookie PHPSESSID, 1 by cookie old"), "{found:?}");
        assert!(found.cure.contains("cookie PHPSESSID"), "{found:?}");
    }

    #[test]
    fn the_store() {
        let small = |p: &mut Pair| {
            p.rise("server.cache.evicted", 50.0);
            p.now.set("server.cache.bytes", 0.99e9);
        };
        case("cache-small", small, |p| p.rise("server.cache.evicted", 50.0));
        case("cache-off", |p| p.now.items("server.sites")[0].say("cache", "off"), |_| ());
        case("cache-fill-wait", counts(&[("cache_wait_timeouts_total", 2.0)]), |_| ());
        case(
            "cache-disk",
            |p| p.rise("server.cache.disk.dropped", 2.0),
            |p| p.both("server.cache.disk.dropped", 2.0),
        );
        case(
            "visitors-evicted",
            |p| p.rise("server.visitors.evicted", 100.0),
            |p| p.rise("server.visitors.evicted", 10.0),
        );
    }
}
