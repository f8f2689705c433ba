//! `[cache]`: the page cache. Most of it may stand in a site's `[site.cache]` too.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use super::{DAY, GB, H, KB, MB, MIN, ROW, S, count, duration, size};
use crate::plan::{Address, Network, Profile};
use crate::resolve::View;
use crate::table::{Default, Kind, Place, Setting, Word};
use crate::value::Value;

/// The longest time that anything is kept: RFC 9111 section 1.2.2 lets caches stop counting far later.
const YEAR: u64 = 365 * DAY;

/// What most rows here share.
const BOTH: Setting = Setting { place: Place::Both, ..ROW };

pub(super) static CACHE: &[Setting] = &[
    Setting {
        key: "cache.mode",
        kind: Kind::Choice(&[
            ("profile", "what the answer says, and the application's rules where it says nothing"),
            ("standard", "only what the answer says in standard fields, as RFC 9111 has it"),
            ("off", "nothing is kept"),
        ]),
        default: Default::Fixed("profile"),
        line: "How it is decided what PHP's answers are kept for.",
        reason: "`profile` knows the cookies, paths and arguments that make a page personal in WordPress and Drupal. \
                 `standard` is for an application that sets `Cache-Control` and `Vary` with care.",
        example: "\"standard\"",
        elsewhere: &["fastcgi_cache", "proxy_cache", "cacheenable", "enablecache", "cachelookup", "enabled"],
        ..BOTH
    },
    Setting {
        key: "cache.memory",
        kind: size(MB, 64 * 1024 * GB),
        default: Default::Computed {
            says: "1/8 of memory",
            from: |view| Value::Number((view.environment().memory / 8).max(MB)),
        },
        line: "Memory for kept pages of all sites: contents, compressed forms, indexes and tags together.",
        reason: "Pages that are seldom asked for make room for others. A change takes effect at once on a reload; a \
                 lower value throws pages out until the rest fits.",
        example: "\"256MB\"",
        elsewhere: &["keys_zone", "max_size", "malloc", "cachemaxmemory", "memory_limit", "budget"],
        ..ROW
    },
    Setting {
        key: "cache.page_bytes",
        kind: size(KB, GB),
        default: Default::Computed {
            says: "4MB, or a quarter of cache.memory if that is less",
            from: |view| Value::Number((4 * MB).min(view.number("cache.memory") / 4)),
        },
        line: "Largest page that is kept, before compression. A larger one goes to its client and is forgotten.",
        reason: "Pages are a few hundred kilobytes; exports and downloads made by PHP would push hundreds of them out.",
        example: "\"1MB\"",
        elsewhere: &["cachemaxfilesize", "maxcacheobjsize", "proxy_max_temp_file_size", "max_object_size"],
        ..BOTH
    },
    Setting {
        key: "cache.dir",
        kind: Kind::Path { word: Some("off") },
        default: Default::Computed {
            says: "/var/cache/millrace/NAME as root, else $XDG_CACHE_HOME/millrace/NAME, else ~/.cache/millrace/NAME, else off; \
                   NAME is made of the path of the configuration file, or of the first site's root without one",
            from: dir,
        },
        line: "Folder where pages are written in the background, so that they survive a restart; or `off`.",
        reason: "After a restart every page would have to be made at once, just when many ask. Entries are \
                 checksummed, and what is missing, torn or of another version is made again. The folder belongs to \
                 one server at a time, hence the name.",
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
        line: "Disk space for the files in `cache.dir`.",
        reason: "What memory holds is written, and what has been replaced is cleared away later: twice the memory is \
                 room for both.",
        example: "\"10GB\"",
        elsewhere: &["max_disk", "min_free"],
        ..ROW
    },
    Setting {
        key: "cache.fill_wait",
        kind: duration(0, 5 * MIN),
        default: Default::Fixed("10s"),
        line: "How long a request waits for another one that makes the same page. Beyond: an old page if there is \
               one, else 503.",
        reason: "PHP makes a page once, however many ask. When it takes this long it is in trouble, and a second run \
                 for each who waits would be the end of it.",
        example: "\"5s\"",
        elsewhere: &["fastcgi_cache_lock_timeout", "proxy_cache_lock_timeout", "cachelockmaxage"],
        ..ROW
    },
    Setting {
        key: "cache.variants",
        kind: count(1, 1024),
        default: Default::Fixed("64"),
        line: "Forms of one page that `Vary` may make. Beyond: not kept.",
        reason: "A client can send any value of a field; without a bound it could fill the cache with one page.",
        example: "16",
        elsewhere: &["max_variants"],
        ..ROW
    },
    Setting {
        key: "cache.purge_from",
        kind: Kind::Networks,
        default: Default::Computed {
            says: "127.0.0.0/8 and ::1 if all listeners are loopback addresses or Unix sockets and no proxy is trusted, else nobody",
            from: purge_from,
        },
        line: "Addresses whose `PURGE` and `BAN` requests are followed; others get 403. An empty list: nobody's.",
        reason: "Whoever throws pages out at will can bring a site down. On a server that the world can reach, an address of this \
                 machine is no proof: a tunnel or a proxy here speaks for everybody. Plugins use `cache.purge_token` there, or the admin \
                 address. A request that a proxy has forwarded without being in `server.trusted_proxies` is not taken for \
                 this machine's.",
        example: "[\"10.0.0.0/8\"]",
        elsewhere: &["purge_acl", "fastcgi_cache_purge", "acl"],
        ..ROW
    },
    Setting {
        key: "cache.purge_token",
        kind: Kind::Secret,
        default: Default::Unset("there is none"),
        line: "`PURGE` and `BAN` requests that have this secret are followed, from wherever they come.",
        reason: "As `Authorization: Bearer SECRET` or `Millrace-Token: SECRET`. Addresses prove nothing behind a tunnel or a proxy.",
        example: "\"f1d0c5a9e47b0a6c\"",
        ..ROW
    },
    Setting {
        key: "cache.hit_for_miss",
        kind: duration(0, DAY),
        default: Default::Fixed("60s"),
        line: "How long it is remembered that a page can't be kept. Those who ask for it meanwhile don't wait for \
               each other.",
        reason: "A page that is different for everyone must not be made for one after the other.",
        example: "\"10s\"",
        elsewhere: &["hit_for_pass", "hfp", "fastcgi_cache_lock"],
        ..BOTH
    },
    Setting {
        key: "cache.stale_while_revalidate",
        kind: duration(0, YEAR),
        default: Default::Computed {
            says: "60s, or stale_max if that is less",
            from: |view| at_most(view, MIN, "cache.stale_max"),
        },
        line: "How long after its time a page may still be sent while a new one is being made, if the answer doesn't \
               say. Only in mode `profile`.",
        reason: "Nobody waits for a page that is asked for all the time. A page that was purged is never sent so.",
        example: "\"10m\"",
        elsewhere: &[
            "fastcgi_cache_background_update",
            "grace",
            "beresp.grace",
            "default_grace",
            "cachestaleonerror",
        ],
        ..BOTH
    },
    Setting {
        key: "cache.stale_if_error",
        kind: duration(0, YEAR),
        default: Default::Computed {
            says: "1d, or stale_max if that is less",
            from: |view| at_most(view, DAY, "cache.stale_max"),
        },
        line: "How long after its time a page may be sent when PHP fails, is too slow, or has too many waiting, if \
               the answer doesn't say. Only in mode `profile`.",
        reason: "Yesterday's page is better than an error page. Logins and carts were never kept.",
        example: "\"1h\"",
        elsewhere: &["fastcgi_cache_use_stale", "proxy_cache_use_stale", "keep"],
        ..BOTH
    },
    Setting {
        key: "cache.stale_max",
        kind: duration(0, YEAR),
        default: Default::Fixed("7d"),
        line: "Upper bound of both, whatever an answer says by `stale-while-revalidate` and `stale-if-error`.",
        reason: "A site that has been broken for a week should be seen to be broken.",
        example: "\"12h\"",
        ..BOTH
    },
    Setting {
        key: "cache.ignore_arguments",
        kind: Kind::Words(Word::Argument),
        default: Default::Unset("only those that the application's profile knows, like `utm_*` and `fbclid`"),
        line: "Arguments of the query that make no other page, besides those of the profile: `ref`, `mc_*`.",
        reason: "Every link in a newsletter would make a page of its own.",
        example: "[\"ref\", \"partner_*\"]",
        elsewhere: &[
            "cachekeymodify",
            "cacheignorequerystring",
            "cacheignoreurlsessionidentifiers",
            "querystring",
        ],
        ..BOTH
    },
    Setting {
        key: "cache.bypass_arguments",
        kind: Kind::Words(Word::Argument),
        default: Default::Unset(
            "only those that the application's profile knows, like `preview` and `add-to-cart`",
        ),
        line: "Arguments of the query with which a request always goes to PHP, besides those of the profile.",
        reason: "Previews and actions are for one person.",
        example: "[\"token\"]",
        elsewhere: &["fastcgi_cache_bypass", "proxy_cache_bypass", "fastcgi_no_cache"],
        ..BOTH
    },
    Setting {
        key: "cache.bypass_cookies",
        kind: Kind::Words(Word::Cookie),
        default: Default::Unset(
            "only those that the application's profile knows, like `wordpress_logged_in_*` and `SESS*`",
        ),
        line: "Cookies with which a request always goes to PHP, besides those of the profile.",
        reason: "A cookie that says who somebody is makes the page theirs. All others, of statistics and consent, \
                 change nothing in the page.",
        example: "[\"member_id\", \"sess_*\"]",
        elsewhere: &["no_cache_cookies", "cachecookies", "excluded_cookies"],
        ..BOTH
    },
    Setting {
        key: "cache.bypass_paths",
        kind: Kind::Words(Word::Path),
        default: Default::Unset(
            "only those that the application's profile knows, like `/wp-admin` and `/cart`",
        ),
        line: "Paths that always go to PHP, besides those of the profile: `/api` with everything below, `/feed*` \
               whatever begins so, `*/cart` at any depth, `*.pdf` whatever ends so.",
        reason: "For pages that are personal without a cookie that says so.",
        example: "[\"/api\", \"*/account\"]",
        elsewhere: &["cachedisable", "exclude", "excluded_paths", "no_cache_paths"],
        ..BOTH
    },
    Setting {
        key: "cache.key_cookies",
        kind: Kind::Words(Word::Cookie),
        default: Default::Unset("none"),
        line: "Cookies whose values make pages of their own: a language, a currency.",
        reason: "Visitors with the same value share the page; one that nobody asks for any more makes room.",
        example: "[\"currency\"]",
        elsewhere: &["cache-vary", "vary_cookies", "fastcgi_cache_key"],
        ..BOTH
    },
    Setting {
        key: "cache.key_scheme",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether http and https have pages of their own.",
        reason: "Applications write the scheme into their links. `false` halves the memory where they don't.",
        example: "false",
        ..BOTH
    },
    Setting {
        key: "cache.key_device",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether phones and tablets have pages of their own, told by `User-Agent` as WordPress's \
               `wp_is_mobile()` does.",
        reason: "Most themes send everybody the same page. Set it for a theme or plugin that sends phones another.",
        example: "true",
        elsewhere: &["cache_mobile", "mobile_cache"],
        ..BOTH
    },
    Setting {
        key: "cache.vary_fields",
        kind: Kind::Words(Word::Field),
        default: Default::Unset("only those that are known to have few values, like `Accept-Language`"),
        line: "Request fields that an answer's `Vary` may name, besides the known ones. An answer that names another \
               is not kept.",
        reason: "A field with a value for every visitor, like `User-Agent`, would fill the cache with copies of one \
                 page.",
        example: "[\"X-Country\"]",
        elsewhere: &["fastcgi_ignore_headers", "cacheignoreheaders", "vary"],
        ..BOTH
    },
    Setting {
        key: "cache.visitors",
        kind: count(16, 10_000_000),
        default: Default::Fixed("20000"),
        line: "Cookies of log-ins, of carts and sessions, and of all others - so many of each - for which a site remembers what PHP \
               has found about them.",
        reason: "A cookie's name proves nothing: only who is proven goes before others, and cookies that mean nothing don't keep \
                 anybody from the page cache. Each takes about 100 bytes; beyond, the one not seen for longest goes.",
        example: "100000",
        elsewhere: &["keys_zone", "session_cache"],
        ..BOTH
    },
    Setting {
        key: "cache.visitor_time",
        kind: duration(S, 30 * DAY),
        default: Default::Fixed("1h"),
        line: "How long it is remembered that a visitor is logged in, or has a cart or a session. Each run of PHP for them \
               proves it again.",
        reason: "It gives priority, never access: PHP looks at the cookies of each request. A log-out, another password and other \
                 keys of the site end it at once; this bounds it where none of them is seen.",
        example: "\"10m\"",
        elsewhere: &["session_timeout"],
        ..BOTH
    },
    Setting {
        key: "cache.anonymous_time",
        kind: duration(S, H),
        default: Default::Fixed("2m"),
        line: "How long it is remembered that a cookie means nothing, so that its visitor gets pages of the cache.",
        reason: "A forged log-in and an emptied cart cost one run of PHP in that time. Whatever a visitor does by a form or a link \
                 ends it at once; this bounds it where something is done behind the server's back.",
        example: "\"30s\"",
        elsewhere: &["fastcgi_cache_bypass"],
        ..BOTH
    },
    Setting {
        key: "cache.ttl.page",
        kind: duration(0, YEAR),
        default: Default::Computed {
            says: "10s for wordpress, 0 for others",
            from: |view| seconds(view, 10),
        },
        line: "Lifetime of an HTML page about which the answer says nothing. 0: not kept.",
        reason: "Ten seconds carry any crowd, and nobody notices them. Pages that Millrace's WordPress hooks have \
                 tagged live for a day and are purged by the change that makes them old.",
        example: "\"1m\"",
        elsewhere: &[
            "fastcgi_cache_valid",
            "proxy_cache_valid",
            "cachedefaultexpire",
            "default_ttl",
            "expire",
            "ttl",
        ],
        ..BOTH
    },
    Setting {
        key: "cache.ttl.not_found",
        kind: duration(0, YEAR),
        default: Default::Computed {
            says: "10s for wordpress, 0 for others",
            from: |view| seconds(view, 10),
        },
        line: "Lifetime of a page with status 404 or 410 about which the answer says nothing. 0: not kept.",
        reason: "A scanner asks for thousands of them; the page that is published in the meantime appears soon.",
        example: "\"1m\"",
        ..BOTH
    },
    Setting {
        key: "cache.ttl.redirect",
        kind: duration(0, YEAR),
        default: Default::Computed {
            says: "10s for wordpress, 0 for others",
            from: |view| seconds(view, 10),
        },
        line: "Lifetime of a redirect with status 301 or 308 about which the answer says nothing. 0: not kept.",
        reason: "Made by PHP like a page, at the same cost. 302, 303 and 307 are for the moment and never kept unasked.",
        example: "\"1h\"",
        ..BOTH
    },
    Setting {
        key: "cache.ttl.feed",
        kind: duration(0, YEAR),
        default: Default::Computed {
            says: "60s for wordpress, 0 for others",
            from: |view| seconds(view, 60),
        },
        line: "Lifetime of an RSS or Atom feed about which the answer says nothing. 0: not kept.",
        reason: "Readers ask every few minutes and by the thousand.",
        example: "\"10m\"",
        ..BOTH
    },
    Setting {
        key: "cache.ttl.sitemap",
        kind: duration(0, YEAR),
        default: Default::Computed {
            says: "60s for wordpress, 0 for others",
            from: |view| seconds(view, 60),
        },
        line: "Lifetime of a sitemap about which the answer says nothing. 0: not kept.",
        reason: "Large and slow to make, and read by robots that come again.",
        example: "\"1h\"",
        ..BOTH
    },
    Setting {
        key: "cache.ttl.api",
        kind: duration(0, YEAR),
        default: Default::Computed {
            says: "10s for wordpress, 0 for others",
            from: |view| seconds(view, 10),
        },
        line: "Lifetime of a GET of the application's public API (WordPress: `/wp-json/`) about which the answer says \
               nothing. 0: not kept.",
        reason: "Blocks and apps read it like a page. Signed-in requests never come here.",
        example: "\"30s\"",
        ..BOTH
    },
    Setting {
        key: "cache.ttl.other",
        kind: duration(0, YEAR),
        default: Default::Fixed("0"),
        line: "Lifetime of anything else with status 200 about which the answer says nothing: scripts, images, downloads made \
               by PHP. 0: not kept.",
        reason: "It may be a file for one visitor. Whoever wants it kept can say so in `Cache-Control`.",
        example: "\"10s\"",
        ..BOTH
    },
    Setting {
        key: "cache.ttl.max",
        kind: duration(S, YEAR),
        default: Default::Fixed("30d"),
        line: "Upper bound of every lifetime, whatever the answer says.",
        reason: "A mistaken year doesn't last one.",
        example: "\"1h\"",
        elsewhere: &["cachemaxexpire", "max_ttl"],
        ..BOTH
    },
];

/// So many seconds for WordPress; applications that don't say anything there don't mean their pages to be kept.
fn seconds(view: &View<'_>, seconds: u64) -> Value {
    let milliseconds = if view.profile() == Profile::WordPress { seconds * S } else { 0 };
    at_most(view, milliseconds, "cache.ttl.max")
}

/// A time within a bound that is a setting itself.
fn at_most(view: &View<'_>, milliseconds: u64, bound: &str) -> Value {
    Value::Duration(Duration::from_millis(milliseconds).min(view.duration(bound)))
}

/// A folder of the server's own user, of its own for each configuration.
fn dir(view: &View<'_>) -> Value {
    let environment = view.environment();
    let base = match &environment.cache_dir {
        _ if environment.is_root() => Some(PathBuf::from("/var/cache/millrace")),
        dir => dir.as_ref().map(|dir| dir.join("millrace")),
    };
    let name = view.source().as_deref().map(folder_name);
    Value::Path(base.zip(name).map(|(base, name)| base.join(name)))
}

/// `blog-90f1c3a2b4d5e6f7`: the last part for people, the rest so that `/a/blog` and `/b/blog` differ.
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

/// This machine's own addresses, where nothing but this machine can reach the server.
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
    Value::Networks(own.map(|(ip, length)| Network::Block(ip, length)).into())
}
