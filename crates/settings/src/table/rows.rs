//! The rows, by task: each module is a page of `docs/settings/`, which is made from it.

mod cache;
mod cache_keys;
mod cache_storage;
mod certificates;
mod compression;
mod connections;
mod files;
mod http2;
mod https;
mod listening;
mod logs;
mod object_cache;
mod overload;
mod php;
mod php_fpm;
mod php_isolation;
mod php_pools;
mod php_workers;
mod proxies;
mod proxy;
mod sites;
mod uploads;

use super::{Default, Group, Kind, Page, Place, Setting, Word};

const KB: u64 = 1024;
const MB: u64 = 1024 * KB;
const GB: u64 = 1024 * MB;
const MS: u64 = 1;
const S: u64 = 1000 * MS;
const MIN: u64 = 60 * S;
const H: u64 = 60 * MIN;
const DAY: u64 = 24 * H;

const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max, zero: None }
}
const fn count_or_zero(zero: &'static str, min: u64, max: u64) -> Kind {
    Kind::Count { min, max, zero: Some(zero) }
}
const fn size(min: u64, max: u64) -> Kind {
    Kind::Size { min, max, zero: None }
}
const fn duration(min: u64, max: u64) -> Kind {
    Kind::Duration { min, max, zero: None }
}

/// What most rows share; every row writes its own key, kind, default, line, reason and example.
const ROW: Setting = Setting {
    key: "",
    place: Place::Global,
    kind: Kind::Switch,
    default: Default::Fixed("false"),
    line: "",
    reason: "",
    example: "",
    elsewhere: &[],
    restart: None,
};
/// Rows that a site may override.
const BOTH: Setting = Setting { place: Place::Both, ..ROW };
/// Rows of a site.
const SITE: Setting = Setting { place: Place::Site, ..ROW };
/// Rows of a `[[tls]]`.
const TLS: Setting = Setting { place: Place::Tls, ..ROW };
/// Rows of a `[[site.proxy]]`.
const PROXY: Setting = Setting { place: Place::Proxy, ..ROW };

pub(super) static PAGES: &[&Page] = &[
    &listening::PAGE,
    &sites::PAGE,
    &https::PAGE,
    &certificates::PAGE,
    &connections::PAGE,
    &http2::PAGE,
    &uploads::PAGE,
    &proxies::PAGE,
    &proxy::PAGE,
    &php::PAGE,
    &php_workers::PAGE,
    &overload::PAGE,
    &php_pools::PAGE,
    &php_fpm::PAGE,
    &php_isolation::PAGE,
    &cache::PAGE,
    &cache_storage::PAGE,
    &cache_keys::PAGE,
    &object_cache::PAGE,
    &files::PAGE,
    &compression::PAGE,
    &logs::PAGE,
];

const fn group(name: &'static str, header: &'static str, line: &'static str) -> Group {
    Group { name, header, line }
}

pub(super) static GROUPS: &[Group] = &[
    group("server", "[server]", "Threads, listening addresses and the life of the process."),
    group("http", "[http]", "Limits on requests and connections."),
    group("https", "[https]", "HTTPS: where to accept TLS connections, and how."),
    group(
        "tls",
        "[[tls]]",
        "A certificate and its key, in PEM. Each client gets the certificate for the name that it asks for; a \
         site may have one with an ECDSA key and one with an RSA key. Clients that ask for no name get the first.",
    ),
    group(
        "acme",
        "[acme]",
        "Certificates that are obtained and renewed automatically (ACME, RFC 8555), if `https.acme` is on.",
    ),
    group("files", "[files]", "Static files, their compression and the open-file cache."),
    group("php", "[php]", "How to run PHP: for every site, or in `[site.php]` for one."),
    group(
        "php.pool",
        "[php.pool.NAME]",
        "Pools: named shares of a site's PHP workers, each with its own queue and limits. `docs/php.md` has an \
         example. WordPress and Drupal have `front`, `admin` and `background`, other sites only `front`; any other \
         NAME adds a pool.",
    ),
    group(
        "cache",
        "[cache]",
        "The page cache: stores responses of PHP and sends them again. For every site; `[site.cache]` overrides \
         most of its settings for one.",
    ),
    group("object_cache", "[object_cache]", "The object cache of WordPress: see `docs/object-cache.md`."),
    group("log", "[log]", "Access log and error log."),
    group("admin", "[admin]", "Where to serve `millrace status`, `millrace reload` and metrics."),
    group("site", "[[site]]", "A site: its names, its directory, its application."),
    group(
        "proxy",
        "[[site.proxy]]",
        "Requests of the site above it that an application gets over HTTP instead of PHP: see `docs/proxy.md`.",
    ),
];
