//! Crowds: queue and waiting room.

use super::{BOTH, Default, H, Kind, MS, Page, Setting, count, duration};

pub(super) static PAGE: Page = Page {
    name: "overload",
    title: "Crowds: queue and waiting room",
    line: "What happens when more requests come than PHP can run: how long they queue, when they are \
           refused, and what visitors see.",
    guide: "php.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "php.queue",
        kind: count(0, 1_000_000),
        default: Default::Fixed("1000"),
        line: "Maximum requests that wait for a worker. Further ones get 503 at once.",
        reason: "In a crowd a quick refusal is better than a response after the visitor has left.",
        example: "100",
        elsewhere: &["listen.backlog"],
        ..BOTH
    },
    Setting {
        key: "php.queue_timeout",
        kind: duration(100 * MS, H),
        default: Default::Fixed("30s"),
        line: "How long a request may wait for a worker. After that it gets 503.",
        reason: "Visitors give up before that, and a later response is wasted work.",
        example: "\"5s\"",
        elsewhere: &["max_wait_time"],
        ..BOTH
    },
    Setting {
        key: "php.queue_wait",
        kind: Kind::Duration { min: 10 * MS, max: H, zero: Some("as long as `queue_timeout`") },
        default: Default::Fixed("2s"),
        line: "Longest expected wait for a worker. A request that can get a worker within that time waits, \
               in order of arrival; any other gets 503 at once.",
        reason: "People accept a wait of two seconds for a page. A request that would wait longer is better \
                 off in the waiting room (`php.waiting_room`) than in a queue that only grows. The server \
                 estimates the wait from the rate at which it serves requests. Logged-in visitors, visitors \
                 with a cart, and steps towards an order go first and wait up to five times as long.",
        example: "\"3s\"",
        elsewhere: &["max_queue_wait", "queue_wait_timeout"],
        ..BOTH
    },
    Setting {
        key: "php.adaptive",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether to run fewer requests at once while more would only make each slower.",
        reason: "Two cores run three or four pages best, and sixteen only take turns; but sixteen pages that \
                 wait for a slow service may run. The server detects which it is, never goes below one per \
                 core, and shows the limit in `millrace status`.",
        example: "false",
        elsewhere: &["adaptive_concurrency"],
        ..BOTH
    },
    Setting {
        key: "php.waiting_room",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether a browser that can't be served within `php.queue_wait` gets a place in the waiting \
               room: a page that shows the remaining time and reloads by itself, and a cookie that keeps its \
               place.",
        reason: "Visitors that see the queue move stay; visitors that see an error leave, or reload and make \
                 the crowd larger. The browser that has waited longest goes first. Programs get the plain \
                 503.",
        example: "false",
        elsewhere: &["queue_it"],
        ..BOTH
    },
    Setting {
        key: "php.waiting_page",
        kind: Kind::Path { word: None },
        default: Default::Unset(
            "the server's own page, in English, German, French, Spanish, Portuguese or Japanese",
        ),
        line: "HTML file of the waiting room. The server fills in `{{wait_seconds}}`, `{{time}}`, \
               `{{title}}`, `{{busy}}`, `{{what_to_do}}`, `{{language}}` and `{{retry_seconds}}`.",
        reason: "A shop tells its customers in its own words and colours that their place is kept. The \
                 header field `Refresh` reloads the page, whatever it contains. The server reads the file at \
                 start and at a reload.",
        example: "\"waiting.html\"",
        elsewhere: &["error_page"],
        ..BOTH
    },
    Setting {
        key: "php.overload_page",
        kind: Kind::Path { word: None },
        default: Default::Unset("a short page of the server's own"),
        line: "HTML file that visitors get with a 503 when no PHP worker is free for them.",
        reason: "A shop asks its customers in its own words, and in their language, to come back in a \
                 moment. The server reads the file at start and at a reload.",
        example: "\"overload.html\"",
        elsewhere: &["errordocument", "error_page"],
        ..BOTH
    },
];
