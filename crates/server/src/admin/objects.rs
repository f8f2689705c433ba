//! The object cache in the status and in the metrics.

use std::fmt::Write;
use std::path::Path;

use millrace_settings::{Plan, plan};
use serde_json::{Value, json};

use super::status::{bytes, grouped, share};
use millrace_base::context::stats::{Exposition, Row, table};
use millrace_objects::{ObjectBoard, ObjectFigures, ServerFigures, used_by};

/// The object cache of a site.
pub(super) struct SiteObjects {
    site: String,
    root: String,
    socket: String,
    lost: String,
    /// The server that has the objects, if it is another one.
    server: Option<plan::ObjectServer>,
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
            server: objects.server.clone(),
            figures: board.of(&objects.socket),
        })
    };
    let mut all: Vec<SiteObjects> = plan.sites.iter().filter_map(of).collect();
    all.dedup_by(|one, other| one.socket == other.socket);
    all
}

/// The member `object_cache` of the status in JSON.
pub(super) fn json(all: &[SiteObjects]) -> Value {
    let server = |server: &ServerFigures| {
        json!({
            "answers": server.problem.is_none(),
            "problem": server.problem,
            "keys": server.keys,
            "memcached": server.memcached.map(|figures| json!({
                "bytes": figures.bytes,
                "limit_bytes": figures.limit,
                "evicted": figures.evicted,
                "lookups": figures.lookups,
                "hits": figures.hits,
            })),
        })
    };
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
            "server": figures.server.as_ref().map(server),
        })
    };
    let one = |site: &SiteObjects| {
        json!({
            "site": site.site,
            "root": site.root,
            "socket": site.socket,
            "lost": site.lost,
            "server": site.server.as_ref().map(|server| json!({
                "kind": server.kind.name(),
                "address": server.address.to_string(),
                "setting": server.kind.setting(),
            })),
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
        let objects = match &figures.server {
            Some(server) => elsewhere(site, server),
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

/// Where the objects are, and how that server is.
fn elsewhere(site: &SiteObjects, server: &ServerFigures) -> String {
    let kind = site.server.as_ref().map_or("other", |server| server.kind.name());
    match (&server.problem, &server.memcached) {
        (Some(why), _) => format!("at a {kind} server that does not answer ({why})"),
        (None, None) => format!("at a {kind} server with {} keys", grouped(server.keys)),
        (None, Some(figures)) => format!(
            "at a {kind} server with {} keys, {} of {}, {} evicted",
            grouped(server.keys),
            bytes(figures.bytes),
            bytes(figures.limit),
            grouped(figures.evicted)
        ),
    }
}

/// Metrics for Prometheus.
pub(super) fn expose(out: &mut Exposition, all: &[SiteObjects]) {
    let mut family = |row: &Row, value: fn(&ObjectFigures) -> u64| {
        out.family(row);
        for site in all {
            let figures = site.figures.clone().unwrap_or_default();
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
    let mut of_server = |row: &Row, value: fn(&ServerFigures) -> Option<u64>| {
        out.family(row);
        for site in all {
            let server = site.figures.as_ref().and_then(|figures| figures.server.as_ref());
            if let Some(value) = server.and_then(value) {
                out.sample(row, &[("site", &site.site)], value);
            }
        }
    };
    of_server(&table::OBJECT_SERVER_UP, |server| Some(u64::from(server.problem.is_none())));
    of_server(&table::OBJECT_SERVER_KEYS, |server| Some(server.keys));
    of_server(&table::OBJECT_SERVER_BYTES, |server| Some(server.memcached?.bytes));
    of_server(&table::OBJECT_SERVER_LIMIT, |server| Some(server.memcached?.limit));
    of_server(&table::OBJECT_SERVER_EVICTED, |server| Some(server.memcached?.evicted));
    of_server(&table::OBJECT_SERVER_LOOKUPS, |server| Some(server.memcached?.lookups));
    of_server(&table::OBJECT_SERVER_HITS, |server| Some(server.memcached?.hits));
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_objects::MemcachedFigures;

    fn site(figures: Option<ObjectFigures>) -> SiteObjects {
        let text = |text: &str| text.to_owned();
        SiteObjects {
            site: text("a.test"),
            root: text("/srv/a"),
            socket: text("/run/a.sock"),
            lost: text("/run/a.lost"),
            server: None,
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
        write(&mut text, &[site(Some(figures.clone()))]).unwrap();
        assert_eq!(
            text,
            "\nObject cache\n  a.test: 40 objects, 2.0 KiB, 0 evicted; 1,000 of 1,200 lookups found (83.3 %); 3 connections\n    \
             all objects were forgotten 1 times because a process could not report a change\n    2 connections refused: of a user \
             that is not the site's (see object_cache.user), or too many\n"
        );
        assert_eq!(json(&[site(Some(figures))])[0]["figures"]["hits"], 1000);
    }

    #[test]
    fn another_server() {
        let memcached =
            MemcachedFigures { bytes: 2048, limit: 1 << 20, evicted: 7, ..MemcachedFigures::default() };
        let server = |problem: Option<&str>| ServerFigures {
            problem: problem.map(str::to_owned),
            keys: 40,
            memcached: Some(memcached),
        };
        let shown = |server: ServerFigures| {
            let figures = ObjectFigures { frames: 9, server: Some(server), ..ObjectFigures::default() };
            let plan = plan::ObjectServer {
                kind: plan::ObjectServerKind::Memcached,
                address: plan::Backend::Tcp("10.0.0.5:11211".to_owned()),
            };
            let all = [SiteObjects { server: Some(plan), ..site(Some(figures)) }];
            let (mut text, mut metrics) = (String::new(), Exposition::default());
            write(&mut text, &all).unwrap();
            expose(&mut metrics, &all);
            (text, metrics.into_text(), json(&all))
        };
        let (text, metrics, json) = shown(server(None));
        assert!(
            text.contains("at a memcached server with 40 keys, 2.0 KiB of 1.0 MiB, 7 evicted;"),
            "{text}"
        );
        assert!(metrics.contains("millrace_objects_server_up{site=\"a.test\"} 1\n"), "{metrics}");
        assert!(metrics.contains("millrace_objects_server_evicted_total{site=\"a.test\"} 7\n"), "{metrics}");
        assert_eq!(json[0]["figures"]["server"]["memcached"]["limit_bytes"], 1 << 20);
        let (text, metrics, _) = shown(server(Some("it is memcached 1.5.6")));
        assert!(
            text.contains("at a memcached server that does not answer (it is memcached 1.5.6);"),
            "{text}"
        );
        assert!(metrics.contains("millrace_objects_server_up{site=\"a.test\"} 0\n"), "{metrics}");
    }
}
