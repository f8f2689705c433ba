//! Page cache: lifetimes.

use std::time::Duration;

use super::{BOTH, DAY, Default, Kind, MIN, Page, ROW, S, Setting, duration};
use crate::plan::Profile;
use crate::resolve::View;
use crate::value::Value;

/// Maximum of all cache times: RFC 9111 section 1.2.2 lets caches stop counting far later.
const YEAR: u64 = 365 * DAY;

pub(super) static PAGE: Page = Page {
    name: "cache",
    title: "Page cache: lifetimes",
    line: "Which responses of PHP to cache, for how long, and when a stale page may be sent.",
    guide: "cache.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "cache.mode",
        kind: Kind::Choice(&[
            ("profile", "what the response says, and the application's rules where it says nothing"),
            ("standard", "only what the response says in standard header fields, as RFC 9111 defines"),
            ("off", "nothing is cached"),
        ]),
        default: Default::Fixed("profile"),
        line: "How to decide whether, and for how long, to cache a response of PHP.",
        reason: "`profile` knows the cookies, paths and arguments that make a page personal in WordPress and \
                 Drupal. `standard` is for an application that sets `Cache-Control` and `Vary` with care.",
        example: "\"standard\"",
        elsewhere: &["fastcgi_cache", "proxy_cache", "cacheenable", "enablecache", "cachelookup"],
        ..BOTH
    },
    Setting {
        key: "cache.ttl.page",
        kind: duration(0, YEAR),
        default: Default::Computed {
            says: "10s for wordpress, 0 for others",
            from: |view| seconds(view, 10),
        },
        line: "Lifetime of an HTML page if the response doesn't set one. 0: not cached.",
        reason: "Ten seconds carry any crowd without being noticed. Pages tagged by Millrace's WordPress \
                 hooks live for a day; the change that outdates them purges them.",
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
        line: "Lifetime of a page with status 404 or 410 if the response doesn't set one. 0: not cached.",
        reason: "A scanner requests thousands of them. A page that is published in the meantime appears \
                 soon.",
        example: "\"1m\"",
        ..BOTH
    },
    Setting {
        key: "cache.ttl.redirect",
        kind: duration(0, YEAR),
        default: Default::Fixed("0"),
        line: "Lifetime of a redirect with status 301 or 308 if the response doesn't set one. 0: not cached.",
        reason: "A script may have chosen it by its own look at the user agent, the language or the address. \
                 Millrace's hooks set a lifetime for WordPress's own redirects. 302, 303 and 307 are temporary \
                 and are cached only if the response asks for it.",
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
        line: "Lifetime of an RSS or Atom feed if the response doesn't set one. 0: not cached.",
        reason: "Thousands of feed readers poll it every few minutes.",
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
        line: "Lifetime of a sitemap if the response doesn't set one. 0: not cached.",
        reason: "Sitemaps are large and slow to make, and crawlers fetch them repeatedly.",
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
        line: "Lifetime of a response to a GET of the application's public API (WordPress: `/wp-json/`) if \
               it doesn't set one. 0: not cached.",
        reason: "Blocks and apps read it like a page. Requests of logged-in users always go to PHP.",
        example: "\"30s\"",
        ..BOTH
    },
    Setting {
        key: "cache.ttl.other",
        kind: duration(0, YEAR),
        default: Default::Fixed("0"),
        line: "Lifetime of anything else with status 200 if the response doesn't set one: scripts, images, \
               downloads made by PHP. 0: not cached.",
        reason: "It may be a file for one visitor. A script can allow caching by `Cache-Control`.",
        example: "\"10s\"",
        ..BOTH
    },
    Setting {
        key: "cache.ttl.max",
        kind: duration(S, YEAR),
        default: Default::Fixed("30d"),
        line: "Upper bound of every lifetime, whatever the response says.",
        reason: "It limits the damage of a lifetime of a year set by mistake.",
        example: "\"1h\"",
        elsewhere: &["cachemaxexpire", "max_ttl"],
        ..BOTH
    },
    Setting {
        key: "cache.stale_while_revalidate",
        kind: duration(0, YEAR),
        default: Default::Computed {
            says: "60s, or stale_max if that is less",
            from: |view| at_most(view, MIN, "cache.stale_max"),
        },
        line: "How long a stale page may be sent while PHP makes a new one, if the response doesn't say. \
               Only in mode `profile`.",
        reason: "Visitors never wait for a page in constant demand. A purged page is never sent this way.",
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
        line: "How long a stale page may be sent when PHP fails, is too slow, or has too long a queue, if \
               the response doesn't say. Only in mode `profile`.",
        reason: "Yesterday's page is better than an error page. Pages for a login or a cart are never \
                 cached.",
        example: "\"1h\"",
        elsewhere: &["fastcgi_cache_use_stale", "proxy_cache_use_stale", "keep"],
        ..BOTH
    },
    Setting {
        key: "cache.stale_max",
        kind: duration(0, YEAR),
        default: Default::Fixed("7d"),
        line: "Upper bound of both times for stale pages, whatever a response says by \
               `stale-while-revalidate` and `stale-if-error`.",
        reason: "A site that has been broken for a week should look broken.",
        example: "\"12h\"",
        ..BOTH
    },
    Setting {
        key: "cache.hit_for_miss",
        kind: duration(0, DAY),
        default: Default::Fixed("60s"),
        line: "How long to remember that a page is uncacheable. Requests for it meanwhile don't wait for \
               each other.",
        reason: "PHP must not make pages that differ for every visitor one after the other.",
        example: "\"10s\"",
        elsewhere: &["hit_for_pass", "hfp", "fastcgi_cache_lock"],
        ..BOTH
    },
    Setting {
        key: "cache.fill_wait",
        kind: duration(0, 5 * MIN),
        default: Default::Fixed("10s"),
        line: "How long a request waits for another one that makes the same page. After that it gets a stale \
               page if there is one. Otherwise PHP runs for it, too, if that leaves a worker for others; else it gets 503.",
        reason: "PHP makes a page once, however many requests ask for it. A page that takes longer may be \
                 in trouble: running it for every waiting request would take all workers.",
        example: "\"5s\"",
        elsewhere: &["fastcgi_cache_lock_timeout", "proxy_cache_lock_timeout", "cachelockmaxage"],
        ..ROW
    },
    Setting {
        key: "cache.sql_interval",
        kind: Kind::Duration { min: 100, max: 10 * MIN, zero: Some("never") },
        default: Default::Fixed("500ms"),
        line: "How often PHP looks in the database of a WordPress that has visitors whether plain SQL has changed what pages show. \
               Such a change purges as one by WordPress does.",
        reason: "With half a second, a change is seen within one. A look that finds no table changed takes 2 ms of a \
                 processor; one that has to compare rows is followed by a pause of nine times as long.",
        example: "\"5s\"",
        elsewhere: &[],
        ..BOTH
    },
    Setting {
        key: "cache.code_interval",
        kind: Kind::Duration { min: 100, max: 10 * MIN, zero: Some("never") },
        default: Default::Fixed("1s"),
        line: "How often the server looks, while a site has visitors, whether PHP files that its scripts consist of have changed: \
               themes, plugins, wp-config.php, a new release. Such a change makes all pages of the site stale.",
        reason: "A look is one stat call for each file, 2 ms for a WordPress with 1,500 files, on a thread of its own; it is followed by a \
                 pause of at least nine times as long. PHP runs the new code opcache.revalidate_freq later, and with \
                 opcache.validate_timestamps = 0 after a reload: then the pages become stale.",
        example: "\"5s\"",
        elsewhere: &["opcache.revalidate_freq"],
        ..BOTH
    },
];

/// A time for WordPress, 0 for others: an application that sets no lifetime does not expect its pages to be cached.
fn seconds(view: &View<'_>, seconds: u64) -> Value {
    let milliseconds = if view.profile() == Profile::WordPress { seconds * S } else { 0 };
    at_most(view, milliseconds, "cache.ttl.max")
}

/// A time, limited by another setting.
fn at_most(view: &View<'_>, milliseconds: u64, bound: &str) -> Value {
    Value::Duration(Duration::from_millis(milliseconds).min(view.duration(bound)))
}
