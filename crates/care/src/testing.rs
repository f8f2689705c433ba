//! For tests: recorded trees, a healthy machine, and cases.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use crate::checks::{Finding, examine};
use crate::facts::{Facts, Span};

/// A folder with files, removed at the end.
pub struct Tree(PathBuf);

impl Tree {
    /// Writes the files.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("millrace-care-{}-{number}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        Tree(root)
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.0
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Two looks, five seconds apart, at the same machine.
pub struct Pair {
    /// The first look.
    pub before: Facts,
    /// The second look.
    pub now: Facts,
}

/// Plays a check on a machine that is ill, and on one that is well in spite of some change.
pub fn case(id: &str, ill: impl Fn(&mut Pair), well: impl Fn(&mut Pair)) {
    let mut pair = Pair::healthy();
    ill(&mut pair);
    let all = examine(&pair.span());
    assert!(all.findings.iter().any(|finding| finding.id == id), "{id} does not find it: {all:#?}");
    let mut pair = Pair::healthy();
    well(&mut pair);
    let all = examine(&pair.span());
    assert!(all.well.contains(&id), "{id} is not well: {:#?} {:#?}", all.findings, all.unknown);
}

impl Pair {
    /// A machine with some load and no problem.
    pub fn healthy() -> Pair {
        let facts = healthy();
        let mut pair = Pair { before: facts.clone(), now: facts };
        for (name, by) in [
            ("cpu.total", 1_000.0),
            ("cpu.idle", 600.0),
            ("cpu.user", 400.0),
            ("server.counters.requests_total", 2_000.0),
            ("server.counters.cache_hits_total", 200.0),
            ("server.counters.php_requests_total", 50.0),
        ] {
            pair.rise(name, by);
        }
        pair.rise_of("programs.each", 2, "ticks", 300.0);
        pair
    }

    /// Both looks as the checks see them.
    pub fn span(&self) -> Span<'_> {
        Span { before: &self.before, now: &self.now, seconds: 5.0 }
    }

    /// Lets a counter rise between the looks.
    pub fn rise(&mut self, name: &str, by: f64) {
        let before = self.before.figure(name).unwrap_or(0.0);
        self.before.set(name, before);
        self.now.set(name, before + by);
    }

    /// Sets a figure in both looks.
    pub fn both(&mut self, name: &str, value: f64) {
        self.before.set(name, value);
        self.now.set(name, value);
    }

    /// Lets a counter of an item of a list rise.
    pub fn rise_of(&mut self, list: &str, at: usize, name: &str, by: f64) {
        let before = self.before.items(list)[at].figure(name).unwrap_or(0.0);
        self.before.items(list)[at].set(name, before);
        self.now.items(list)[at].set(name, before + by);
    }

    /// The first site in the second look.
    pub fn site(&mut self) -> &mut Facts {
        &mut self.now.items("sites")[0]
    }

    /// The finding of a check.
    pub fn finding(&self, id: &str) -> Finding {
        let all = examine(&self.span());
        let found = all.findings.iter().find(|finding| finding.id == id).cloned();
        found.unwrap_or_else(|| panic!("{id} is not found: {all:#?}"))
    }
}

fn healthy() -> Facts {
    let mut facts = Facts::from_json(&machine());
    facts.merge(&Facts::from_json(&network()));
    facts.merge(&Facts::from_json(&web()));
    facts.merge(&Facts::from_json(
        &json!({ "server": server(), "php": php(), "samples": {"taken": 20, "runs": []}, "sites": [site()] }),
    ));
    facts
}

fn machine() -> serde_json::Value {
    json!({
        "now": {"seconds": 1_795_000_000}, "sites_left": 0, "url": {"milliseconds": 90, "status": 200, "cache": "millrace; hit"},
        "cpu": {"count": 2, "total": 9_000, "user": 4_000, "idle": 5_000, "iowait": 0, "steal": 0, "softirq": 0,
            "each": [{"name": "cpu0", "softirq": 5, "total": 4_500}, {"name": "cpu1", "softirq": 5, "total": 4_500}]},
        "pressure_cpu": {"some_avg10": 5}, "pressure_memory": {"full_avg10": 0}, "pressure_io": {"full_avg10": 0},
        "memory": {"MemTotal": 8_000_000, "MemAvailable": 4_000_000, "Committed_AS": 3_000_000, "CommitLimit": 4_000_000},
        "vm": {"pswpin": 0, "pswpout": 0, "oom_kill": 0, "compact_stall": 0},
        "sysctl": {"net.core.somaxconn": 4_096, "net.ipv4.tcp_max_syn_backlog": 1_024, "net.ipv4.tcp_max_tw_buckets": 65_536,
            "net.ipv4.tcp_max_orphans": 65_536, "vm.overcommit_memory": 0, "kernel.threads-max": 32_768, "kernel.pid_max": 4_194_304},
        "files": {"open": 3_000, "max": 100_000}, "tasks": {"count": 300},
        "clock": {"word": "tsc"}, "governor": {"word": "schedutil"}, "huge_pages": {"word": "always [madvise] never"},
        "cgroup_memory": {"max": 1e9, "anon": 5e8, "hits": 0, "oom_kills": 0, "setting": "MemoryMax", "path": "sys/fs/cgroup/x"},
        "cgroup_cpu": {"cores": 1.5, "nr_periods": 0, "nr_throttled": 0, "setting": "CPUQuota", "path": "sys/fs/cgroup/x"},
        "cgroup_pids": {"max": 500, "current": 40, "path": "sys/fs/cgroup/x"},
        "programs": {"each": [{"name": "millrace", "ticks": 50}, {"name": "cc1", "ticks": 100}, {"name": "millrace-php", "ticks": 500}]},
        "process": {"files_soft": 1_024, "files_hard": 524_288},
        "kernel_log": {"lines": []},
        "disks": {
            "mounts": [{"path": "/srv/www", "use": "the site", "used_bytes": 50e9, "size_bytes": 100e9, "free_bytes": 50e9,
                "inodes": 1_000, "inodes_free": 900, "read_only": 0, "options": "rw"}],
            "each": [{"name": "vda", "requests": 0, "busy_ms": 0, "wait_ms": 0}],
        },
    })
}

fn network() -> serde_json::Value {
    json!({
        "tcp": {"ListenOverflows": 7, "ListenDrops": 7, "TCPReqQFullDoCookies": 0, "TCPReqQFullDrop": 0, "TCPTimeWaitOverflow": 0,
            "PruneCalled": 0, "RcvPruned": 0, "TCPAbortOnMemory": 0},
        "snmp": {"OutSegs": 0, "RetransSegs": 0},
        "sockets": {"tw": 100, "orphan": 3, "mem": 500, "mem_max": 100_000},
        "conntrack": {"count": 500, "max": 262_144},
        "softnet": {"dropped": 0, "squeezed": 0},
        "ports": {"first": 32_768, "last": 60_999, "destinations": [{"to": "127.0.0.1:3306", "used": 20, "time_wait": 10}]},
        "nics": {"each": [{"name": "eth0", "speed": 1_000, "duplex": "full", "received": 0, "sent": 0, "received_bytes": 0, "sent_bytes": 0,
            "received_dropped": 0, "received_errors": 0, "sent_dropped": 0, "sent_errors": 0}]},
    })
}

fn web() -> serde_json::Value {
    json!({
        "fpm": {"pools": [{"key": "7 www", "name": "www", "config": "/etc/php/8.2/fpm/php-fpm.conf", "listen": "/run/php/php8.2-fpm.sock",
            "max_children": 5, "workers": 5, "busy": 2, "waiting": 0, "backlog": 511, "memory_bytes": 40e6, "oldest_seconds": 9_000,
            "log": {"reached": 0, "reached_seconds": 600}, "slow": {"count": 0, "limit": "2s", "path": "/var/log/slow.log"}}]},
        "nginx": {"lines": [], "workers": [{"pid": "11", "age_seconds": 9_000, "connections": 90, "descriptors": 200, "files_soft": 1_024,
            "worker_connections": 768, "place": "/etc/nginx/nginx.conf, line 9"}]},
    })
}

fn server() -> serde_json::Value {
    let names = [
        "accept_no_descriptors_total",
        "connections_refused_total",
        "connections_guests_total",
        "connections_gave_way_total",
        "requests_total",
        "requests_malformed_total",
        "replies_5xx_total",
        "tls_handshakes_total",
        "tls_resumed_total",
        "h2_flood_frames_total",
        "h2_flood_resets_total",
        "h2_flood_heads_total",
        "cache_hits_total",
        "cache_stale_total",
        "cache_misses_total",
        "cache_collapsed_total",
        "cache_bypassed_total",
        "cache_passed_total",
        "cache_wait_timeouts_total",
        "cache_fills_failed_total",
        "php_requests_total",
        "php_failures_total",
        "php_lost_total",
        "php_queue_full_total",
        "php_queue_timeouts_total",
        "php_overload_refused_total",
        "php_timeouts_total",
        "log_lines_dropped_total",
        "shield_filter_total",
    ];
    let counters: serde_json::Map<String, serde_json::Value> =
        names.iter().map(|name| ((*name).to_owned(), json!(1_000))).collect();
    let none = ("files_links_refused_total".to_owned(), json!(0));
    let counters: serde_json::Map<String, serde_json::Value> = counters.into_iter().chain([none]).collect();
    let workers: Vec<_> =
        (1..=4).map(|pid| json!({"pid": pid, "own_bytes": 30e6, "memory_bytes": 50e6})).collect();
    json!({
        "pid": 9, "hung_loops": [], "connections_open": 40, "open_descriptors": 200, "descriptor_limit": 1_024, "counters": counters,
        "connection_memory": {"used_bytes": 1e6, "budget_bytes": 1e9}, "listen_queues": {"waiting": 0, "dropped": 0},
        "cache": {"evicted": 0, "bytes": 1e8, "budget_bytes": 1e9, "bypass_names": [], "disk": {"dropped": 0}},
        "visitors": {"evicted": 0}, "object_cache": [], "htaccess": {"files": 1, "ignored": 0, "closing": 0, "lines": []},
        "php": [{"name": "blog", "workers_most": 16, "each": workers, "fastcgi": [],
            "pools": [{"name": "front", "running": 1, "limit": 14, "waiting": 0, "wait_mean_seconds": 0, "wait_most_seconds": 0, "waited_last_minute": 0}]}],
        "certificates": [{"names": ["a.example"], "missing": [], "ends": 1_799_000_000, "problem": null}],
        "sites": [{"names": ["a.example", "www.a.example"], "root": "/srv/www", "profile": "wordpress", "php": true, "php_service": "blog",
            "cache": "profile", "content": {"limit_bytes": 64_000_000, "refused": 0, "largest_refused_bytes": 0, "largest_php_bytes": 1_000_000}}],
    })
}

fn php() -> serde_json::Value {
    json!({"services": [{
        "name": "blog", "php_version": "8.4.1", "extensions": "Core,date,mysqli,zip",
        "settings": {"opcache.enable": "1", "opcache.memory_consumption": "128", "opcache.max_accelerated_files": "10000",
            "opcache.interned_strings_buffer": "8", "realpath_cache_size": "4096K", "memory_limit": "128M", "display_errors": "0",
            "session.save_handler": "files", "session.save_path": "/var/lib/php/sessions", "session.gc_probability": "0",
            "post_max_size": "8M", "upload_max_filesize": "2M"},
        "opcache": {"opcache_enabled": true, "cache_full": false,
            "memory_usage": {"used_memory": 40e6, "free_memory": 94e6, "wasted_memory": 0},
            "interned_strings_usage": {"buffer_size": 8.4e6, "used_memory": 5e6},
            "opcache_statistics": {"num_cached_scripts": 900, "num_cached_keys": 3_000, "max_cached_keys": 16_229, "hits": 0, "misses": 0,
                "oom_restarts": 0, "hash_restarts": 0, "manual_restarts": 0}},
    }]})
}

fn site() -> serde_json::Value {
    let counters = [
        "Connection_errors_max_connections",
        "Aborted_connects",
        "Connections",
        "Slow_queries",
        "Questions",
        "Select_full_join",
        "Handler_read_rnd_next",
        "Innodb_buffer_pool_reads",
        "Innodb_buffer_pool_read_requests",
        "Innodb_buffer_pool_wait_free",
        "Innodb_log_waits",
        "Innodb_os_log_written",
        "Innodb_os_log_fsyncs",
        "Created_tmp_disk_tables",
        "Created_tmp_tables",
        "Sort_merge_passes",
        "Sort_scan",
        "Sort_range",
        "Innodb_row_lock_time",
        "Innodb_row_lock_waits",
        "Innodb_row_lock_current_waits",
        "Innodb_deadlocks",
        "Opened_tables",
        "Open_files",
        "Threads_created",
        "Qcache_lowmem_prunes",
        "Threads_connected",
        "Max_used_connections",
    ];
    let mut status: serde_json::Map<String, serde_json::Value> =
        counters.iter().map(|name| ((*name).to_owned(), json!("10"))).collect();
    status.insert("Uptime".to_owned(), json!("90000"));
    json!({
        "root": "/srv/www",
        "files": {"secrets": [], "object_cache": 0, "advanced_cache": 0, "debug_log_bytes": 0, "redis": 0, "maintenance_seconds": 0},
        "uploads": {"closed": [], "looked": 1, "user": "www-data"},
        "config": {"WP_DEBUG": false, "WP_DEBUG_DISPLAY": true, "SAVEQUERIES": false, "SCRIPT_DEBUG": false, "WP_CACHE": false, "DISABLE_WP_CRON": false},
        "wordpress": {"autoload_bytes": 90_000, "autoload_options": 300, "autoload_largest": [{"name": "rewrite_rules", "bytes": 20_000}],
            "transients_expired": 3, "cron_late_seconds": 0, "cron_late": 0, "updates_core": 0, "updates_plugins": 1, "updates_themes": 0, "plugins": 12},
        "db": {"host": "localhost", "status": status, "running": [], "engines": [{"name": "InnoDB", "tables": 12, "bytes": 5e6}], "data_bytes": 5e6,
            "variables": {"max_connections": "151", "innodb_buffer_pool_size": "134217728", "innodb_log_file_size": "100663296",
                "innodb_flush_log_at_trx_commit": "1", "table_open_cache": "2000", "thread_cache_size": "151", "query_cache_type": "OFF",
                "query_cache_size": "1048576", "tmp_table_size": "16777216", "open_files_limit": "32000", "long_query_time": "10.0"}},
    })
}
