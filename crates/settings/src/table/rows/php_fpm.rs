//! php-fpm instead of workers.

use super::{BOTH, DAY, Default, Kind, MS, Page, S, Setting, duration};

pub(super) static PAGE: Page = Page {
    name: "php-fpm",
    title: "php-fpm instead of workers",
    line: "How to pass requests to an existing php-fpm, or to any other FastCGI server.",
    guide: "php.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "php.fastcgi",
        kind: Kind::Backends { word: "off" },
        default: Default::Unset("Millrace's own workers run PHP"),
        line: "Addresses of php-fpm, if it runs PHP; the least busy one gets the next request. Short form: \
               `php = \"fastcgi:unix:/run/php/php8.2-fpm.sock\"`.",
        reason: "For an existing php-fpm, in another container or on another machine. A request costs more \
                 than with Millrace's workers, and php-fpm's own pool settings apply. At most `php.workers` \
                 connections are open to all addresses together, and each takes a process there \
                 (`pm.max_children`).",
        example: "[\"unix:/run/php/php8.2-fpm.sock\", \"127.0.0.1:9000\"]",
        elsewhere: &["fastcgi_pass", "php_fastcgi", "proxyfcgi", "upstream"],
        ..BOTH
    },
    Setting {
        key: "php.fastcgi_root",
        kind: Kind::Path { word: None },
        default: Default::Unset("the site's root as Millrace sees it"),
        line: "The site's root as php-fpm sees it: the first part of DOCUMENT_ROOT and SCRIPT_FILENAME.",
        reason: "In a container, or under `chroot`, the same files have another path.",
        example: "\"/var/www/html\"",
        elsewhere: &["fastcgi_param"],
        ..BOTH
    },
    Setting {
        key: "php.fastcgi_connect_timeout",
        kind: duration(10 * MS, 60 * S),
        default: Default::Fixed("1s"),
        line: "Time limit for a connection to php-fpm. After that the server tries another address.",
        reason: "A connection takes microseconds on one machine and milliseconds in one network. A backend \
                 that takes longer is down.",
        example: "\"250ms\"",
        elsewhere: &["connect_timeout"],
        ..BOTH
    },
    Setting {
        key: "php.fastcgi_read_timeout",
        kind: Kind::Duration { min: 100 * MS, max: 7 * DAY, zero: Some("no limit") },
        default: Default::Fixed("0"),
        line: "Maximum pause between two pieces of php-fpm's response. After a longer pause the server \
               closes the connection and answers 504.",
        reason: "`request_timeout` limits the whole response. This setting is for responses that may take \
                 forever as long as data arrives.",
        example: "\"60s\"",
        elsewhere: &["read_timeout", "proxy_timeout"],
        ..BOTH
    },
];
