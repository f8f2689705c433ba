//! Uploads and request limits.

use super::{Default, GB, H, KB, Kind, MB, MIN, MS, Page, ROW, SITE, Setting, count, duration, size};
use crate::value::Value;

pub(super) static PAGE: Page = Page {
    name: "uploads",
    title: "Uploads and request limits",
    line: "How large and how slow a request may be, and where large content is stored.",
    guide: "php.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "http.body_bytes",
        kind: size(0, 1024 * GB),
        default: Default::Fixed("64MB"),
        line: "Maximum size of a request's content. Larger content gets 413. `site.body_bytes` overrides it \
               for one site.",
        reason: "Enough for an upload of photos or a theme. PHP has its own limits on top: `post_max_size` \
                 and `upload_max_filesize`.",
        example: "\"512MB\"",
        elsewhere: &[
            "client_max_body_size",
            "limitrequestbody",
            "max_body_size",
            "body_max_size",
            "body_size",
        ],
        ..ROW
    },
    Setting {
        key: "site.body_bytes",
        kind: size(0, 1024 * GB),
        default: Default::Computed {
            says: "http.body_bytes",
            from: |view| Value::Number(view.number("http.body_bytes")),
        },
        line: "Maximum size of a request's content for this site. Larger content gets 413.",
        reason: "One site accepts videos, the others need not.",
        example: "\"2GB\"",
        elsewhere: &["client_max_body_size"],
        ..SITE
    },
    Setting {
        key: "http.body_memory",
        kind: size(4 * KB, GB),
        default: Default::Fixed("1MB"),
        line: "Part of a request's content to hold in memory; larger content goes to a file in \
               `server.spool_dir`.",
        reason: "Forms and API calls are smaller and never touch the disk. A hundred simultaneous uploads \
                 must not exhaust the memory.",
        example: "\"256KB\"",
        elsewhere: &["client_body_buffer_size"],
        ..ROW
    },
    Setting {
        key: "http.body_timeout",
        kind: duration(100 * MS, H),
        default: Default::Fixed("60s"),
        line: "Maximum pause between two pieces of a request's content. After a longer pause the client gets \
               408.",
        reason: "Long enough for a phone that changes cells or a program that computes what it sends; nginx and Apache \
                 wait as long. While memory or descriptors for connections are short, clients that pause for more than \
                 4 s are closed to make room.",
        example: "\"20s\"",
        elsewhere: &["client_body_timeout"],
        ..ROW
    },
    Setting {
        key: "http.body_min_rate",
        kind: Kind::Size { min: 1, max: GB, zero: Some("no minimum rate") },
        default: Default::Fixed("256B"),
        line: "Minimum average rate of a request's content, bytes per second, after the first \
               `body_timeout`. A slower client gets 408.",
        reason: "With a limit on pauses alone, a client could send one byte every 59 seconds. A slow modem \
                 manages 5 KB per second.",
        example: "\"1KB\"",
        elsewhere: &["minrate"],
        ..ROW
    },
    Setting {
        key: "http.head_bytes",
        kind: size(KB, MB),
        default: Default::Fixed("16KB"),
        line: "Maximum size of the request line and header fields together. A larger request gets 431.",
        reason: "It limits the cost of an incomplete request, with room for several cookies of 4 KB, the \
                 most that browsers store in one.",
        example: "\"32KB\"",
        elsewhere: &["large_client_header_buffers", "client_header_buffer_size", "limitrequestfieldsize"],
        ..ROW
    },
    Setting {
        key: "http.head_fields",
        kind: count(8, 1000),
        default: Default::Fixed("100"),
        line: "Maximum number of header fields in a request. A request with more gets 431.",
        reason: "Browsers send about 20 and proxies add a few. Thousands are an attack on programs that loop \
                 over them.",
        example: "64",
        elsewhere: &["max_headers", "limitrequestfields"],
        ..ROW
    },
    Setting {
        key: "http.head_timeout",
        kind: duration(100 * MS, 10 * MIN),
        default: Default::Fixed("10s"),
        line: "Time limit from the first byte of a request to the end of its header fields. A slower client \
               gets 408.",
        reason: "A client that sends a byte now and then must not hold a connection forever (Slowloris).",
        example: "\"5s\"",
        elsewhere: &["client_header_timeout", "requestreadtimeout", "header_timeout"],
        ..ROW
    },
    Setting {
        key: "http.target_bytes",
        kind: size(256, MB),
        default: Default::Computed {
            says: "8KB, or head_bytes if that is less",
            from: |view| Value::Number(view.number("http.head_bytes").min(8 * KB)),
        },
        line: "Maximum size of the request target (path and query). A longer one gets 414.",
        reason: "RFC 9112 section 3 recommends that servers accept 8,000 bytes. Longer targets are mistakes \
                 or attacks.",
        example: "\"4KB\"",
        elsewhere: &["limitrequestline"],
        ..ROW
    },
    Setting {
        key: "server.spool_dir",
        kind: Kind::Path { word: None },
        default: Default::Fixed("/var/tmp"),
        line: "Directory for request content larger than `http.body_memory`, and for responses that wait for \
               slow clients.",
        reason: "It must be on a disk: /tmp is memory on many systems, and large content is spooled to save \
                 memory. The files have no name and disappear with the request.",
        example: "\"/srv/spool\"",
        elsewhere: &["client_body_temp_path", "upload_tmp_dir"],
        ..ROW
    },
    Setting {
        key: "server.spool_bytes",
        kind: Kind::Size { min: 0, max: 1024 * GB, zero: None },
        default: Default::Fixed("1GB"),
        line: "Maximum disk space in `server.spool_dir` for all responses that clients read more slowly than \
               PHP makes them; one response may take half of it.",
        reason: "A script that has finished frees its worker while the rest of its response is sent: up to 1 \
                 MB of it is held in memory, more on disk. Beyond the limit a script waits for its client. 0 \
                 keeps responses off the disk.",
        example: "\"20GB\"",
        elsewhere: &["fastcgi_max_temp_file_size", "proxy_max_temp_file_size"],
        ..ROW
    },
];
