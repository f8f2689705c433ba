//! The shield.

use std::net::IpAddr;

use super::{DAY, Default, Kind, MIN, Page, ROW, Setting, count_or_zero, duration};
use millrace_wire::network::Network;

use crate::plan::Peers;
use crate::value::Value;

pub(super) static PAGE: Page = Page {
    name: "shield",
    title: "Shield",
    line: "Limits for floods of log-ins, searches, filters and scanners, and bans.",
    guide: "shield.md",
    rows: ROWS,
};

/// A limit of one class: requests per minute from one address.
const LIMIT: Setting = Setting { kind: count_or_zero("no limit", 1, 100_000), ..ROW };

static ROWS: &[Setting] = &[
    Setting {
        key: "shield.mode",
        kind: Kind::Choice(&[
            ("on", "limits apply"),
            ("watch", "nothing is refused; log, counters and status show what would be"),
            ("off", "no limits, no bans"),
        ]),
        default: Default::Fixed("on"),
        line: "Whether the shield refuses requests.",
        reason: "Bots guess passwords and crawl filters of shops without an end, and each request costs a run of PHP. The \
                 default limits are far above what people do. Visitors who are logged in or have a cart are refused \
                 nothing but guesses of passwords, and those who may edit nothing at all.",
        example: "\"watch\"",
        elsewhere: &["limit_req", "wpprotect"],
        ..ROW
    },
    Setting {
        key: "shield.exempt",
        kind: Kind::Networks,
        default: Default::Computed {
            says: "loopback, private and link-local addresses, and Unix sockets",
            from: |_| Value::Networks(private()),
        },
        line: "Clients to which the shield never applies.",
        reason: "Behind a proxy that is not in `server.trusted_proxies`, all visitors have the proxy's address, which is \
                 usually one of these: together they would soon reach the limits of one client.",
        example: "[\"127.0.0.0/8\", \"203.0.113.7\"]",
        elsewhere: &["ignoreip", "geo", "satisfy"],
        ..ROW
    },
    Setting {
        key: "shield.login",
        default: Default::Fixed("10"),
        line: "Maximum attempts to log in per minute from one address - POST to `wp-login.php`, forms with a password, wrong \
               passwords in `Authorization`; three times as many at once.",
        reason: "Each attempt to log in costs the time of a password hash. Fifty people in an office who log in within \
                 two minutes stay below it.",
        example: "5",
        elsewhere: &["maxretry"],
        ..LIMIT
    },
    Setting {
        key: "shield.xmlrpc",
        default: Default::Fixed("30"),
        line: "Maximum requests for `xmlrpc.php` per minute from one address; three times as many at once.",
        reason: "Bots try passwords there, and use it to send requests to others. Jetpack and mobile apps use it, too, \
                 with fewer requests.",
        example: "10",
        ..LIMIT
    },
    Setting {
        key: "shield.search",
        default: Default::Fixed("120"),
        line: "Maximum uncached searches (`?s=`, `/search/`) per minute from one address; three times as many at once.",
        reason: "A search reads much of the database, and every word is another page. Searches while a visitor types count, \
                 too.",
        example: "20",
        ..LIMIT
    },
    Setting {
        key: "shield.filter",
        default: Default::Fixed("120"),
        line: "Maximum uncached pages with filters or an order of a shop (`filter_*`, `query_type_*`, `min_price`, \
               `max_price`, `rating_filter`, `orderby`) per minute from one address; three times as many at once.",
        reason: "Filters combine to millions of URLs, and crawlers that ignore robots.txt follow all of them.",
        example: "20",
        ..LIMIT
    },
    Setting {
        key: "shield.cart",
        default: Default::Fixed("30"),
        line: "Maximum requests that put a product into a cart, per minute from one address; three times as many at once.",
        reason: "It creates a session in the database, and crawlers follow the link on each product. Only clients without \
                 a cart count.",
        example: "10",
        ..LIMIT
    },
    Setting {
        key: "shield.users",
        default: Default::Fixed("10"),
        line: "Maximum requests for lists of users (`/wp-json/wp/v2/users`, `?author=NUMBER`) per minute from one address; \
               three times as many at once.",
        reason: "They tell bots whose passwords to guess. Editors who use them are logged in, and don't count.",
        example: "5",
        ..LIMIT
    },
    Setting {
        key: "shield.not_found",
        default: Default::Fixed("60"),
        line: "Maximum requests for what is not there, per minute from one address; three times as many at once. \
               A probe such as `/.env` counts ten times.",
        reason: "Scanners request thousands of names. A request that comes from a link of the site itself does not count: \
                 a theme may lack some images.",
        example: "20",
        ..LIMIT
    },
    Setting {
        key: "shield.php",
        default: Default::Fixed("0"),
        line: "Maximum other requests that need PHP, per minute from one address; three times as many at once.",
        reason: "Off by default: each address has a limited share of the queue for PHP anyway, and hundreds of people may \
                 share one.",
        example: "600",
        elsewhere: &["limit_req_zone", "dynreqpersec"],
        ..LIMIT
    },
    Setting {
        key: "shield.share",
        kind: count_or_zero("no limit", 1, 100),
        default: Default::Fixed("25"),
        line: "Percentage of the processors' time that all anonymous requests of one class together may use for PHP. What is \
               beyond it waits for idle workers of low priority.",
        reason: "It holds against crawls from so many addresses that a limit by address does not help. A class that stays \
                 below it is not affected, however many addresses it comes from.",
        example: "10",
        ..ROW
    },
    Setting {
        key: "shield.ban_after",
        kind: count_or_zero("never", 5, 100_000),
        default: Default::Fixed("100"),
        line: "Ban a client after this many refusals within ten minutes.",
        reason: "A program that goes on after so many refusals does not read them. A banned client costs nearly nothing.",
        example: "30",
        elsewhere: &["maxretry", "findtime"],
        ..ROW
    },
    Setting {
        key: "shield.ban_time",
        kind: duration(MIN, 30 * DAY),
        default: Default::Fixed("10m"),
        line: "Length of a client's first ban. Each further one within a day after its end takes twice as long.",
        reason: "Addresses change hands, and infected computers are cleaned: a ban without an end hits others.",
        example: "\"1h\"",
        elsewhere: &["bantime"],
        ..ROW
    },
    Setting {
        key: "shield.ban_max",
        kind: duration(MIN, 365 * DAY),
        default: Default::Fixed("1d"),
        line: "Length of the longest ban.",
        reason: "A client that keeps attacking is banned again within a minute.",
        example: "\"7d\"",
        elsewhere: &["bantime.maxtime"],
        ..ROW
    },
    Setting {
        key: "shield.state_file",
        kind: Kind::Path { word: None },
        default: Default::Unset("bans end with the process"),
        line: "File in which bans outlive a restart. A reload keeps them in any case.",
        reason: "The server writes it a second after a ban begins or ends. Its directory must exist and be writable for the \
                 server's user.",
        example: "\"/var/lib/millrace/bans\"",
        elsewhere: &["dbfile"],
        ..ROW
    },
    Setting {
        key: "shield.lists",
        kind: Kind::Path { word: None },
        default: Default::Unset("none"),
        line: "Directory with lists of banned networks, such as those of CrowdSec or fail2ban: every file in it, a network \
               per line, with its end if it has one.",
        reason: "The server notices a change within two seconds, without a reload. `docs/shield.md` describes the format.",
        example: "\"/etc/millrace/bans.d\"",
        elsewhere: &["banaction", "deny"],
        ..ROW
    },
    Setting {
        key: "shield.crawlers",
        kind: Kind::Path { word: None },
        default: Default::Unset("no crawler is verified"),
        line: "Directory with the networks or domains of search engines' crawlers, as they publish them: `googlebot.json` has those \
               of clients with `googlebot` in `User-Agent`.",
        reason: "A verified crawler is never refused by a limit; where a class is over its share it waits in a line of its \
                 own. A client that only claims to be a crawler is a client like any other.",
        example: "\"/etc/millrace/crawlers.d\"",
        ..ROW
    },
];

/// RFC 1918, RFC 6598, RFC 4193, loopback and link-local.
fn private() -> Vec<Peers> {
    let blocks: [(IpAddr, u8); 8] = [
        ([127, 0, 0, 0].into(), 8),
        ([10, 0, 0, 0].into(), 8),
        ([172, 16, 0, 0].into(), 12),
        ([192, 168, 0, 0].into(), 16),
        ([169, 254, 0, 0].into(), 16),
        ([0, 0, 0, 0, 0, 0, 0, 1].into(), 128),
        ([0xfc00, 0, 0, 0, 0, 0, 0, 0].into(), 7),
        ([0xfe80, 0, 0, 0, 0, 0, 0, 0].into(), 10),
    ];
    blocks.into_iter().map(|(ip, bits)| Peers::In(Network::new(ip, bits))).chain([Peers::Unix]).collect()
}
