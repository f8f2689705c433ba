//! Changes: settings that are set together, one change after the other, while a load test measures each (`millrace load --rounds auto --tune`).
//!
//! First come the settings that cure what the doctor has found, a change for each finding in its order, then the other settings of each layer.

use super::proposal::{NextValue, Place, Proposal, Wish};
use super::table::{Layer, rows};

/// Settings that cure a finding of the doctor, by the name of its check. A setting that has its value already is in no change.
const CURES: &[(&[&str], &[&str])] = &[
    (
        &["net-accept", "net-backlog", "net-syn-queue"],
        &["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"],
    ),
    (
        &["net-conntrack", "log-conntrack"],
        &["net.netfilter.nf_conntrack_max", "net.netfilter.nf_conntrack_buckets"],
    ),
    (
        &["net-ports", "net-time-wait"],
        &["net.ipv4.ip_local_port_range", "net.ipv4.tcp_max_tw_buckets", "net.ipv4.tcp_tw_reuse"],
    ),
    (
        &["fpm-children", "fpm-log-children", "fpm-queue", "nginx-upstream-full"],
        &[
            "pm",
            "pm.max_children",
            "pm.start_servers",
            "pm.min_spare_servers",
            "pm.max_spare_servers",
            "listen.backlog",
        ],
    ),
    (
        &["nginx-connections", "nginx-descriptors", "nginx-log-limit"],
        &["worker_connections", "worker_rlimit_nofile"],
    ),
    (&["fd-server"], &["LimitNOFILE", "fs.nr_open"]),
    (&["fd-machine"], &["fs.file-max"]),
    (&["swap"], &["vm.swappiness"]),
    (&["db-connections", "db-connections-most"], &["max_connections"]),
    (&["db-pool-hits", "db-pool-wait", "db-pool-size"], &["innodb_buffer_pool_size"]),
    (&["db-log-waits", "db-log-size"], &["innodb_log_file_size", "innodb_redo_log_capacity"]),
    (&["db-flush"], &["innodb_flush_log_at_trx_commit"]),
    (&["db-temporary"], &["tmp_table_size", "max_heap_table_size"]),
    (&["db-threads"], &["thread_cache_size"]),
    (&["db-query-cache"], &["query_cache_size"]),
];

/// Settings to set together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The check that asks for it, or the layer.
    pub why: &'static str,
    /// The settings.
    pub settings: Vec<Setting>,
}

/// A setting of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Its value now, if that can be seen.
    pub now: Option<String>,
    /// Its value then.
    pub next: String,
}

/// Changes for a machine on which the doctor has found `findings`, which are names of checks: only of settings that we write to files of our own, and
/// with `only_kernel` only of those that need no restart.
pub fn changes(proposal: &Proposal, findings: &[&str], only_kernel: bool) -> Vec<Change> {
    let mut left: Vec<(Layer, Setting)> = differing(proposal, only_kernel);
    let mut changes = Vec::new();
    let cures = findings.iter().filter_map(|id| {
        let (ids, names) = CURES.iter().find(|(ids, _)| ids.contains(id))?;
        Some((*ids.iter().find(|known| *known == id)?, *names))
    });
    for (why, names) in cures {
        let settings: Vec<Setting> = left
            .extract_if(.., |(_, setting)| names.contains(&setting.name))
            .map(|(_, setting)| setting)
            .collect();
        changes.push(Change { why, settings });
    }
    for layer in [Layer::Database, Layer::Fpm, Layer::Php, Layer::Nginx, Layer::Limits, Layer::Kernel] {
        let settings = left.extract_if(.., |(of, _)| *of == layer).map(|(_, setting)| setting).collect();
        changes.push(Change { why: layer.name(), settings });
    }
    changes.retain(|change| !change.settings.is_empty());
    changes
}

/// Settings that would get another value than they have.
fn differing(proposal: &Proposal, only_kernel: bool) -> Vec<(Layer, Setting)> {
    let differing = |proposed: &super::proposal::Proposed| match &proposed.next {
        NextValue::Set { value, place: Place::File(_), .. }
            if proposed.now.as_ref() != Some(value)
                && (!only_kernel || proposed.row.layer == Layer::Kernel) =>
        {
            let setting = Setting { name: proposed.row.name, now: proposed.now.clone(), next: value.clone() };
            Some((proposed.row.layer, setting))
        }
        _ => None,
    };
    proposal.rows.iter().filter_map(differing).collect()
}

impl Wish {
    /// The same for these settings only.
    #[must_use]
    pub fn only(&self, names: &[&str]) -> Wish {
        let others = rows().map(|row| row.name).filter(|name| !names.contains(name));
        Wish { without: others.map(str::to_owned).collect(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::proposal::tests::{tree, web_tree, wish};
    use super::*;
    use crate::checks;

    #[test]
    fn cures_name_checks_and_settings() {
        for (ids, names) in CURES {
            for id in *ids {
                assert!(checks::table().any(|check| check.id == *id), "{id} is no check");
            }
            for name in *names {
                assert!(rows().any(|row| row.name == *name), "{name} is no setting");
            }
        }
    }

    fn shown(changes: &[Change]) -> Vec<(&str, Vec<&str>)> {
        let names = |change: &Change| change.settings.iter().map(|setting| setting.name).collect();
        changes.iter().map(|change| (change.why, names(change))).collect()
    }

    #[test]
    fn what_the_doctor_found_comes_first() {
        let tree = tree();
        let proposal = Proposal::of(&wish(&tree)).expect("computed");
        let all = changes(&proposal, &["cpu-busy", "db-pool-size", "net-accept"], false);
        let all = shown(&all);
        assert_eq!(all[0], ("db-pool-size", vec!["innodb_buffer_pool_size"]));
        // The queue of half-open connections is not in the tree, but a row without a value now is set all the same.
        assert_eq!(all[1], ("net-accept", vec!["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"]));
        assert_eq!(
            all[2..].iter().map(|(why, _)| *why).collect::<Vec<_>>(),
            ["database", "limits", "kernel"]
        );
        assert!(!all[2].1.contains(&"innodb_buffer_pool_size") && all[2].1.contains(&"max_connections"));
        let kernel = changes(&proposal, &["db-pool-size", "swap"], true);
        assert_eq!(shown(&kernel)[0], ("swap", vec!["vm.swappiness"]));
        assert_eq!(kernel[0].settings[0].now.as_deref(), Some("60"));
        assert_eq!(shown(&kernel)[1].0, "kernel");
        assert_eq!(kernel.len(), 2);
    }

    #[test]
    fn nginx_and_php_fpm_are_changes() {
        let tree = web_tree(&[]);
        let proposal = Proposal::of(&wish(&tree)).expect("computed");
        let all = changes(&proposal, &[], false);
        let all = shown(&all);
        let layers: Vec<&str> = all.iter().map(|(why, _)| *why).collect();
        assert_eq!(layers, ["database", "php-fpm", "php", "nginx", "kernel"]);
        // Without a measured process, Debian's 5 fit twice; what only its owner can write is in no change.
        assert!(all[1].1.contains(&"pm.max_children") && all[3].1.contains(&"open_file_cache"));
        assert!(!all[3].1.contains(&"worker_connections"));
        let only = Proposal::of(&wish(&tree).only(&all[1].1)).expect("computed");
        let paths: Vec<&str> = only.files.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, ["etc/php/8.2/fpm/pool.d/zz-millrace.conf"]);
    }

    #[test]
    fn a_change_alone() {
        let tree = tree();
        let proposal = Proposal::of(&wish(&tree).only(&["max_connections"])).expect("computed");
        assert_eq!(shown(&changes(&proposal, &[], false)), [("database", vec!["max_connections"])]);
        assert_eq!(proposal.files.len(), 1);
    }
}
