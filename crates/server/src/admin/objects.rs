//! The object cache in the status and in the metrics.

use std::fmt::Write;
use std::path::Path;

use millrace_settings::{Plan, plan};
use serde_json::{Value, json};

use super::status::{bytes, grouped, share};
use crate::context::stats::{Exposition, Row, table};
use crate::objects::{ObjectBoard, ObjectFigures, used_by};

/// The object cache of a site.
pub(super) struct SiteObjects {
    site: String,
    root: String,
    socket: String,
    lost: String,
    /// The address of the Redis server that has the objects.
    redis: Option<String>,
    /// `None`: it could not be opened, or another server has it.
    figures: Option<ObjectFigures>,
}

/// The object caches of the plan's sites. Sites with the same root share one.
pub(super) fn gather(plan: &Plan, board: &ObjectBoard) -> Vec<SiteObjects> {
    let of = |site: &plan::Site| {
        let objects = used_by(site)?;
        let text = |path: &Path| path.display().to_string();
        Some(SiteObjects {
            site: site.names.first().map_or("default", String::as_str).to_owned(),
            root: text(&site.root),
            socket: text(&objects.socket),
            lost: text(&objects.lost),
            redis: objects.redis.address.as_ref().map(ToString::to_string),
            figures: board.of(&objects.socket),
        })
    };
    let mut all: Vec<SiteObjects> = plan.sites.iter().filter_map(of).collect();
    all.dedup_by(|one, other| one.socket == other.socket);
    all
}

/// The member `object_cache` of the status in JSON.
pub(super) fn json(all: &[SiteObjects]) -> Value {
    let figures = |figures: &ObjectFigures| {
        json!({
            "connections": figures.connections,
            "refused_connections": figures.refused_connections,
            "round_trips": figures.frames,
            "lookups": figures.lookups,
            "hits": figures.hits,
            "stored": figures.stored,
            "refused": figures.refused,
            "deleted": figures.deleted,
            "flushes": figures.flushes,
            "lost": figures.lost,
            "objects": figures.objects,
            "bytes": figures.bytes,
            "evicted": figures.evicted,
            "redis_answers": figures.redis.map(|(is_alive, _)| is_alive),
            "redis_keys": figures.redis.map(|(_, keys)| keys),
        })
    };
    let one = |site: &SiteObjects| {
        json!({
            "site": site.site,
            "root": site.root,
            "socket": site.socket,
            "lost": site.lost,
            "redis": site.redis,
            "figures": site.figures.as_ref().map(figures),
        })
    };
    all.iter().map(one).collect()
}

/// Status text: the sites that use it.
pub(super) fn write(text: &mut String, all: &[SiteObjects]) -> std::fmt::Result {
    let used = all.iter().filter_map(|site| Some((site, site.figures.as_ref()?)));
    let mut used = used.filter(|(_, figures)| figures.frames + figures.refused_connections > 0).peekable();
    if used.peek().is_some() {
        writeln!(text, "\nObject cache")?;
    }
    for (site, figures) in used {
        let objects = match figures.redis {
            Some((true, keys)) => format!("at a Redis server with {} keys", grouped(keys)),
            Some((false, _)) => "at a Redis server that does not answer".to_owned(),
            None => format!(
                "{} objects, {}, {} evicted",
                grouped(figures.objects),
                bytes(figures.bytes),
                grouped(figures.evicted)
            ),
        };
        writeln!(
            text,
            "  {}: {objects}; {} of {} lookups found ({}); {} connections",
            site.site,
            grouped(figures.hits),
            grouped(figures.lookups),
            share(figures.hits, figures.lookups),
            grouped(figures.connections)
        )?;
        if figures.lost > 0 {
            let times = grouped(figures.lost);
            writeln!(
                text,
                "    all objects were forgotten {times} times because a process could not report a change"
            )?;
        }
        if figures.refused_connections > 0 {
            writeln!(
                text,
                "    {} connections refused: of a user that is not the site's (see object_cache.user), or too many",
                grouped(figures.refused_connections)
            )?;
        }
    }
    Ok(())
}

/// Metrics for Prometheus.
pub(super) fn expose(out: &mut Exposition, all: &[SiteObjects]) {
    let mut family = |row: &Row, value: fn(&ObjectFigures) -> u64| {
        out.family(row);
        for site in all {
            let figures = site.figures.unwrap_or_default();
            out.sample(row, &[("site", &site.site)], value(&figures));
        }
    };
    family(&table::OBJECTS, |figures| figures.objects);
    family(&table::OBJECT_BYTES, |figures| figures.bytes);
    family(&table::OBJECT_CONNECTIONS, |figures| figures.connections);
    family(&table::OBJECT_CONNECTIONS_REFUSED, |figures| figures.refused_connections);
    family(&table::OBJECT_ROUND_TRIPS, |figures| figures.frames);
    family(&table::OBJECT_LOOKUPS, |figures| figures.lookups);
    family(&table::OBJECT_HITS, |figures| figures.hits);
    family(&table::OBJECT_STORED, |figures| figures.stored);
    family(&table::OBJECT_REFUSED, |figures| figures.refused);
    family(&table::OBJECT_DELETED, |figures| figures.deleted);
    family(&table::OBJECT_FLUSHES, |figures| figures.flushes);
    family(&table::OBJECT_LOST, |figures| figures.lost);
    family(&table::OBJECT_EVICTED, |figures| figures.evicted);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(figures: Option<ObjectFigures>) -> SiteObjects {
        let text = |text: &str| text.to_owned();
        SiteObjects {
            site: text("a.test"),
            root: text("/srv/a"),
            socket: text("/run/a.sock"),
            lost: text("/run/a.lost"),
            redis: None,
            figures,
        }
    }

    #[test]
    fn what_people_are_told() {
        let mut text = String::new();
        write(&mut text, &[site(None), site(Some(ObjectFigures::default()))]).unwrap();
        assert_eq!(text, "", "it is not used");
        let figures = ObjectFigures {
            frames: 9,
            lookups: 1200,
            hits: 1000,
            objects: 40,
            bytes: 2048,
            lost: 1,
            refused_connections: 2,
            connections: 3,
            ..ObjectFigures::default()
        };
        write(&mut text, &[site(Some(figures))]).unwrap();
        assert_eq!(
            text,
            "\nObject cache\n  a.test: 40 objects, 2.0 KiB, 0 evicted; 1,000 of 1,200 lookups found (83.3 %); 3 connections\n    \
             all objects were forgotten 1 times because a process could not report a change\n    2 connections refused: of a user \
             that is not the site's (see object_cache.user), or too many\n"
        );
        assert_eq!(json(&[site(Some(figures))])[0]["figures"]["hits"], 1000);
    }
}
