//! Page cache: bypass and keys.

use super::{BOTH, DAY, Default, H, Kind, Page, ROW, S, Setting, Word, count, duration};

pub(super) static PAGE: Page = Page {
    name: "cache-keys",
    title: "Page cache: bypass and keys",
    line: "Which requests bypass the cache, and what distinguishes the pages of one URL.",
    guide: "cache.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "cache.bypass_cookies",
        kind: Kind::Words(Word::Cookie),
        default: Default::Unset("only the profile's, like `wordpress_logged_in_*` and `SESS*`"),
        line: "Cookies with which a request bypasses the cache, in addition to the profile's.",
        reason: "A cookie that identifies a visitor makes the page personal. All others, for statistics and \
                 consent, change nothing in the page.",
        example: "[\"member_id\", \"sess_*\"]",
        elsewhere: &["no_cache_cookies", "cachecookies", "excluded_cookies"],
        ..BOTH
    },
    Setting {
        key: "cache.bypass_paths",
        kind: Kind::Words(Word::Path),
        default: Default::Unset("only the profile's, like `/wp-admin` and `/cart`"),
        line: "Paths that bypass the cache, in addition to the profile's: `/api` and everything below it, \
               `/feed*` as a prefix, `*/cart` at any depth, `*.pdf` as a suffix.",
        reason: "For pages that are personal without a cookie that shows it.",
        example: "[\"/api\", \"*/account\"]",
        elsewhere: &["cachedisable", "exclude", "excluded_paths", "no_cache_paths"],
        ..BOTH
    },
    Setting {
        key: "cache.bypass_arguments",
        kind: Kind::Words(Word::Argument),
        default: Default::Unset("only the profile's, like `preview` and `add-to-cart`"),
        line: "Query arguments with which a request bypasses the cache, in addition to the profile's.",
        reason: "Previews and actions are for one person.",
        example: "[\"token\"]",
        elsewhere: &["fastcgi_cache_bypass", "proxy_cache_bypass", "fastcgi_no_cache"],
        ..BOTH
    },
    Setting {
        key: "cache.ignore_arguments",
        kind: Kind::Words(Word::IgnoredArgument),
        default: Default::Unset("only the profile's, like `utm_*` and `fbclid`"),
        line: "Query arguments that don't change the page, in addition to the profile's: `ref`, `mc_*`. `!gclid` takes a name out of \
               the profile's.",
        reason: "Otherwise every link in a newsletter would be a page of its own in the cache. PHP doesn't see these arguments when it \
                 makes a page for all: take out what a plugin stores, such as the name of a partner.",
        example: "[\"ref\", \"mc_*\", \"!gclid\"]",
        elsewhere: &[
            "cachekeymodify",
            "cacheignorequerystring",
            "cacheignoreurlsessionidentifiers",
            "querystring",
        ],
        ..BOTH
    },
    Setting {
        key: "cache.key_cookies",
        kind: Kind::Words(Word::Cookie),
        default: Default::Unset("none"),
        line: "Cookies whose values are part of the cache key: a language, a currency.",
        reason: "Visitors with the same value share the page. Pages that are no longer requested make room \
                 for others.",
        example: "[\"currency\"]",
        elsewhere: &["cache-vary", "vary_cookies", "fastcgi_cache_key"],
        ..BOTH
    },
    Setting {
        key: "cache.key_scheme",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether http and https have separate pages.",
        reason: "Applications write the scheme into their links. `false` halves the memory for applications \
                 that don't.",
        example: "false",
        ..BOTH
    },
    Setting {
        key: "cache.key_device",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether phones and tablets have separate pages, detected from `User-Agent` as WordPress's \
               `wp_is_mobile()` does.",
        reason: "Most themes send the same page to all devices, and Millrace notices `wp_is_mobile()` by \
                 itself. Turn it on for an application that looks at `User-Agent` for nothing but the kind of \
                 device: with it, a page with `Vary: User-Agent` has three variants, and without it one for \
                 each value.",
        example: "true",
        elsewhere: &["cache_mobile", "mobile_cache"],
        ..BOTH
    },
    Setting {
        key: "cache.vary_fields",
        kind: Kind::Words(Word::Field),
        default: Default::Unset("only fields known to have few values, like `Accept-Language`"),
        line: "Request header fields that `Vary` of a response may name, in addition to the known ones. A \
               response that names another one is not cached.",
        reason: "A field with a different value for every visitor would fill the cache with copies of one \
                 page.",
        example: "[\"X-Country\"]",
        elsewhere: &["fastcgi_ignore_headers", "cacheignoreheaders", "vary"],
        ..BOTH
    },
    Setting {
        key: "cache.ignore_fields",
        kind: Kind::Words(Word::ReadField),
        default: Default::Unset("none"),
        line: "Request header fields that mean nothing for the site's pages, although scripts read them: names as in \
               `Vary`, or `REMOTE_ADDR` for the client's address; `*` matches anything.",
        reason: "A page whose script reads a field has a variant for each of its values, and one that reads the \
                 client's address is not cached. Statistics and firewalls read both for each page, and show none of \
                 it: only the administrator can know that.",
        example: "[\"User-Agent\", \"REMOTE_ADDR\"]",
        elsewhere: &["proxy_ignore_headers"],
        ..BOTH
    },
    Setting {
        key: "cache.variants",
        kind: count(1, 1024),
        default: Default::Fixed("64"),
        line: "Maximum variants of one page by `Vary`. PHP makes further ones, which are not cached.",
        reason: "Each exact value of a header field has its variant. A client can send any value, and could \
                 fill the cache with one page.",
        example: "16",
        elsewhere: &["max_variants"],
        ..ROW
    },
    Setting {
        key: "cache.visitors",
        kind: count(16, 10_000_000),
        default: Default::Fixed("20000"),
        line: "Maximum cookies of each kind - logins, carts and sessions, others - for which a site \
               remembers what PHP has found out about them.",
        reason: "The name of a cookie proves nothing: only proven visitors go before others, and cookies \
                 without meaning don't keep a visitor from the page cache. Each entry takes about 100 bytes, a \
                 cart some hundred more; \
                 beyond the limit, the one not seen for longest is dropped.",
        example: "100000",
        elsewhere: &["keys_zone", "session_cache"],
        ..BOTH
    },
    Setting {
        key: "cache.visitor_time",
        kind: duration(S, 30 * DAY),
        default: Default::Fixed("1h"),
        line: "How long to remember that a visitor is logged in, or has a cart or a session. Each run of PHP \
               for that visitor proves it again.",
        reason: "It gives priority, never access: PHP checks the cookies of each request. A logout, a new \
                 password and new keys of the site end it at once; this time limits it if the server sees \
                 none of them.",
        example: "\"10m\"",
        elsewhere: &["session_timeout"],
        ..BOTH
    },
    Setting {
        key: "cache.anonymous_time",
        kind: duration(S, H),
        default: Default::Fixed("2m"),
        line: "How long to remember that a cookie means nothing, so that its visitor gets cached pages.",
        reason: "In that time a forged login or an emptied cart costs one run of PHP. A form or link that \
                 the visitor uses ends it at once; this time limits it for changes that the server doesn't \
                 see.",
        example: "\"30s\"",
        elsewhere: &["fastcgi_cache_bypass"],
        ..BOTH
    },
    Setting {
        key: "cache.cart_time",
        kind: duration(0, H),
        default: Default::Fixed("5m"),
        line: "How long a visitor with a cart gets public pages from the page cache, on which the browser shows the \
               cart, before PHP looks at the cart again. 0: such a visitor gets all pages from PHP.",
        reason: "Only pages that PHP has been seen to make the same for visitors with a cart are sent. A form or \
                 link that the visitor uses ends it at once; this time limits it for changes that the server \
                 doesn't see, such as a payment service that ends the session.",
        example: "\"1m\"",
        elsewhere: &["fastcgi_cache_bypass", "wc_cart_vary"],
        ..BOTH
    },
    Setting {
        key: "cache.members",
        kind: Kind::Choice(&[
            ("off", "none"),
            (
                "roles",
                "those that PHP has made for others with the same rights, with the visitor's own name and nonces filled in",
            ),
        ]),
        default: Default::Fixed("off"),
        line: "Which pages logged-in visitors of a WordPress get from the page cache.",
        reason: "It helps on sites whose members read the same pages and see no admin bar. PHP watches what a page reads of its \
                 user, and only pages that several members got alike are sent. What plugins do with each view of a page, like \
                 marking it as read, does not happen when the page comes from the cache.",
        example: "\"roles\"",
        elsewhere: &["cache_logged_in", "cache-priv", "cache_user", "fastcgi_no_cache"],
        ..BOTH
    },
    Setting {
        key: "cache.member_time",
        kind: duration(S, H),
        default: Default::Fixed("5m"),
        line: "With `cache.members`: how long a member gets pages from the cache before PHP looks at the user again.",
        reason: "A form that the visitor uses, and whatever PHP or SQL changes of the user or the roles, ends it at once; this \
                 time limits it for changes that the server doesn't see, such as those by SQL in an SQLite database.",
        example: "\"1m\"",
        elsewhere: &["cache_ttl_priv"],
        ..BOTH
    },
];
