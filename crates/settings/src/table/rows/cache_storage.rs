//! Page cache: memory, disk and purging.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use super::{BOTH, Default, GB, KB, Kind, MB, Page, ROW, Setting, size};
use millrace_wire::network::Network;

use crate::plan::{Address, Peers};
use crate::resolve::View;
use crate::value::Value;

pub(super) static PAGE: Page = Page {
    name: "cache-storage",
    title: "Page cache: memory, disk and purging",
    line: "How much the page cache may store and where, and which clients may purge it.",
    guide: "cache.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "cache.memory",
        kind: size(MB, 64 * 1024 * GB),
        default: Default::Computed {
            says: "1/8 of memory",
            from: |view| Value::Number((view.environment().memory / 8).max(MB)),
        },
        line: "Maximum memory for cached pages of all sites: contents, compressed copies, indexes and tags \
               together.",
        reason: "Pages that are seldom requested make room for others. A reload applies a change at once; \
                 with a lower value it evicts pages until the rest fits.",
        example: "\"256MB\"",
        elsewhere: &["keys_zone", "max_size", "malloc", "cachemaxmemory", "budget"],
        ..ROW
    },
    Setting {
        key: "cache.page_bytes",
        kind: size(KB, GB),
        default: Default::Computed {
            says: "4MB, or a quarter of cache.memory if that is less",
            from: |view| Value::Number((4 * MB).min(view.number("cache.memory") / 4)),
        },
        line: "Maximum size of a cached page, before compression. A larger page is sent to its client and \
               not cached.",
        reason: "Pages are a few hundred kilobytes; exports and downloads made by PHP would evict hundreds \
                 of them.",
        example: "\"1MB\"",
        elsewhere: &["cachemaxfilesize", "maxcacheobjsize", "proxy_max_temp_file_size", "max_object_size"],
        ..BOTH
    },
    Setting {
        key: "cache.dir",
        kind: Kind::Path { word: Some("off") },
        default: Default::Computed {
            says: "/var/cache/millrace/NAME as root, else $XDG_CACHE_HOME/millrace/NAME, else \
                   ~/.cache/millrace/NAME, else off; NAME is derived from the path of the configuration \
                   file, or of the first site's root without one",
            from: dir,
        },
        line: "Directory where pages are written in the background, so that they survive a restart; or \
               `off`.",
        reason: "Without it PHP would have to make every page again after a restart, just when many visitors \
                 ask. Entries have checksums; PHP makes a page again if its entry is missing, torn or from \
                 another version. The directory belongs to one server at a time, hence the name.",
        example: "\"/srv/spool/pages\"",
        elsewhere: &[
            "fastcgi_cache_path",
            "proxy_cache_path",
            "cacheroot",
            "storagepath",
            "cache_dir",
            "path",
        ],
        restart: Some(|old, new| old.cache.dir != new.cache.dir),
        ..ROW
    },
    Setting {
        key: "cache.disk_bytes",
        kind: size(MB, 64 * 1024 * GB),
        default: Default::Computed {
            says: "twice cache.memory",
            from: |view| Value::Number(view.number("cache.memory").saturating_mul(2)),
        },
        line: "Maximum disk space for the files in `cache.dir`.",
        reason: "Everything in memory is written, and replaced pages are deleted later: twice the memory has \
                 room for both.",
        example: "\"10GB\"",
        elsewhere: &["max_disk", "min_free"],
        ..ROW
    },
    Setting {
        key: "cache.purge_from",
        kind: Kind::Networks,
        default: Default::Computed {
            says: "127.0.0.0/8 and ::1 if all listeners are loopback addresses or Unix sockets and no proxy \
                   is trusted, else no address",
            from: purge_from,
        },
        line: "Client addresses that may send `PURGE` and `BAN`; others get 403. An empty list allows none.",
        reason: "A client that can purge at will can bring a site down. On a public server an address of \
                 this machine proves nothing: a tunnel or proxy here forwards requests of every client. \
                 There, plugins use `cache.purge_token` or the admin address. A request forwarded by a proxy \
                 that is not in `server.trusted_proxies` doesn't count as coming from this machine.",
        example: "[\"10.0.0.0/8\"]",
        elsewhere: &["purge_acl", "fastcgi_cache_purge", "acl"],
        ..ROW
    },
    Setting {
        key: "cache.purge_token",
        kind: Kind::Secret { least: 16 },
        default: Default::Unset("none"),
        line: "Secret that allows `PURGE` and `BAN` requests from any address.",
        reason: "Sent as `Authorization: Bearer SECRET` or `Millrace-Token: SECRET`. Behind a tunnel or a \
                 proxy, addresses prove nothing.",
        example: "\"f1d0c5a9e47b0a6c\"",
        ..ROW
    },
];

/// A directory of the server's user, separate for each configuration.
fn dir(view: &View<'_>) -> Value {
    let environment = view.environment();
    let base = match &environment.cache_dir {
        _ if environment.is_root() => Some(PathBuf::from("/var/cache/millrace")),
        dir => dir.as_ref().map(|dir| dir.join("millrace")),
    };
    let name = view.source().as_deref().map(folder_name);
    Value::Path(base.zip(name).map(|(base, name)| base.join(name)))
}

/// `blog-90f1c3a2b4d5e6f7`: a readable part, and a hash so that `/a/blog` and `/b/blog` differ.
fn folder_name(path: &std::path::Path) -> String {
    let last = path.file_stem().map(|name| name.to_string_lossy()).unwrap_or_default();
    let legal = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let last: String = last.chars().map(legal).take(64).collect();
    format!("{last}-{:016x}", fnv1a(path.as_os_str().as_encoded_bytes()))
}

/// FNV-1a, 64 bits: the same for every build and machine, which a standard hasher doesn't promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// This machine's own addresses, if only this machine can reach the server.
fn purge_from(view: &View<'_>) -> Value {
    let listeners = ["server.listen", "https.listen"].into_iter().flat_map(|key| view.addresses(key));
    let mut public = listeners.filter(|(address, _)| match address {
        Address::Tcp(address) => !address.ip().to_canonical().is_loopback(),
        Address::Unix(_) => false,
    });
    if public.next().is_some() || !view.networks("server.trusted_proxies").is_empty() {
        return Value::Networks(Vec::new());
    }
    let own = [(Ipv4Addr::new(127, 0, 0, 0).into(), 8), (Ipv6Addr::LOCALHOST.into(), 128)];
    Value::Networks(own.map(|(ip, length)| Peers::In(Network::new(ip, length))).into())
}
