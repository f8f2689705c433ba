//! HTTP/2 and early hints.

use super::{Default, GB, KB, Kind, Page, ROW, Setting, count, size};

pub(super) static PAGE: Page = Page {
    name: "http2",
    title: "HTTP/2 and early hints",
    line: "Which protocol features to offer, and what one HTTP/2 connection may use.",
    guide: "http2.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "https.http2",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether to offer HTTP/2 (ALPN `h2`) besides HTTP/1.1.",
        reason: "One connection carries all requests of a page, with compressed header fields. Every browser \
                 supports it.",
        example: "false",
        elsewhere: &["protocols"],
        ..ROW
    },
    Setting {
        key: "http.h2c",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether connections without TLS may start with HTTP/2 (RFC 9113 section 3.3, prior \
               knowledge).",
        reason: "For proxies and programs that are configured for it; no browser does it. `https.http2` is \
                 the setting for HTTPS.",
        example: "true",
        elsewhere: &[],
        ..ROW
    },
    Setting {
        key: "http.h2_streams",
        kind: count(1, 10_000),
        default: Default::Fixed("100"),
        line: "Maximum concurrent requests per HTTP/2 connection.",
        reason: "A browser requests all parts of a page at once, which is seldom more. Each request in \
                 progress takes memory and may hold a PHP worker.",
        example: "128",
        elsewhere: &["http2_max_concurrent_streams", "h2maxsessionstreams"],
        ..ROW
    },
    Setting {
        key: "http.h2_window",
        kind: size(64 * KB, GB),
        default: Default::Fixed("1MB"),
        line: "Maximum request content of an HTTP/2 connection that is in transit, or unread on the server.",
        reason: "It limits an upload to this much per round trip, and the memory that one connection can \
                 take.",
        example: "\"4MB\"",
        elsewhere: &["h2windowsize", "http2_body_preread_size"],
        ..ROW
    },
    Setting {
        key: "http.h2_frames",
        kind: count(100, 1_000_000),
        default: Default::Fixed("1000"),
        line: "Maximum frames that request nothing - PING, SETTINGS, WINDOW_UPDATE, PRIORITY, empty frames - \
               that an HTTP/2 client may send in addition to what its requests need. A tenth of the \
               allowance returns each second.",
        reason: "They cost the client nothing and the server a little. A flood ends the connection, and the \
                 client's next connections wait for a quarter of a second.",
        example: "5000",
        elsewhere: &[],
        ..ROW
    },
    Setting {
        key: "http.h2_resets",
        kind: count(10, 1_000_000),
        default: Default::Fixed("200"),
        line: "Maximum requests that an HTTP/2 client may cancel. A tenth of the allowance returns each \
               second.",
        reason: "A browser cancels a page's requests when its user leaves. Without a limit, cancelling is an \
                 attack (rapid reset, CVE-2023-44487): a cancelled request causes work and doesn't count as \
                 concurrent.",
        example: "1000",
        elsewhere: &[],
        ..ROW
    },
    Setting {
        key: "http.early_hints",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether scripts may send 103 (Early Hints), which tells a browser what to fetch while PHP \
               makes the page.",
        reason: "The server sends it only if a script asks for it, and never over HTTP/1.0. Turn it off \
                 behind a proxy that takes 103 for the response, as nginx before 1.29 does.",
        example: "false",
        elsewhere: &[],
        ..ROW
    },
];
