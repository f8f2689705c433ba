//! Applications behind the server.

use super::{Default, Kind, MIN, MS, PROXY, Page, S, Setting, count, duration};

pub(super) static PAGE: Page = Page {
    name: "proxy",
    title: "Applications behind the server",
    line: "Which requests an application gets over HTTP instead of PHP: a search service, a chat, or a whole site.",
    guide: "proxy.md",
    rows: ROWS,
};

const HTTP: &[(&str, &str)] = &[
    ("1.1", "HTTP/1.1: a connection for each request in progress"),
    ("2", "HTTP/2: requests in progress share connections; WebSockets stay with HTTP/1.1"),
];

const HOSTS: &[(&str, &str)] =
    &[("visitor", "the host that the visitor asked for"), ("application", "the host in `proxy.to`")];

static ROWS: &[Setting] = &[
    Setting {
        key: "proxy.path",
        kind: Kind::Location,
        default: Default::Unset("required"),
        line: "The path of the requests: with a slash at its end everything below it, otherwise exactly this path. \
               `/` is the whole site.",
        reason: "An exact path wins over a prefix, a longer prefix over a shorter one. It is compared with the path \
                 after decoding, without `.` and `..`, so that no spelling of a URL leads elsewhere. A site of an \
                 application alone needs no root and runs no PHP.",
        example: "\"/b/\"",
        elsewhere: &["location", "match", "uri", "route"],
        ..PROXY
    },
    Setting {
        key: "proxy.to",
        kind: Kind::Applications,
        default: Default::Unset("required"),
        line: "URLs of the application; several are copies with the same content. A path in it precedes the paths of \
               requests.",
        reason: "Each request goes to the copy with the fewest requests in progress. One that refuses connections, or \
                 breaks three in a row, rests for a second, and for longer each time.",
        example: "[\"http://127.0.0.1:3000\", \"http://127.0.0.1:3001\"]",
        elsewhere: &["proxy_pass", "reverse_proxy", "upstream", "server", "proxypass", "backend", "url"],
        ..PROXY
    },
    Setting {
        key: "proxy.http",
        kind: Kind::Choice(HTTP),
        default: Default::Fixed("1.1"),
        line: "The version of HTTP that the application speaks.",
        reason: "Every application speaks HTTP/1.1. gRPC needs HTTP/2, and over it requests share a few connections, which \
                 counts if each is far or encrypted. Nothing is guessed: with `2`, an application at `https://` has to \
                 agree to `h2` in the TLS handshake (ALPN), and one at `http://` or `unix:` has to understand HTTP/2 from \
                 the first byte (prior knowledge, h2c).",
        example: "\"2\"",
        elsewhere: &["proxy_http_version", "grpc_pass", "versions", "h2c", "h2"],
        ..PROXY
    },
    Setting {
        key: "proxy.strip",
        kind: Kind::Switch,
        line: "Whether to remove `proxy.path` from the beginning of the path: the application gets `/x` for `/api/x`.",
        reason: "Off, because an application that knows its own URLs makes links that work. Most applications have a \
                 setting for that.",
        example: "true",
        elsewhere: &["strip_prefix", "handle_path", "rewrite"],
        ..PROXY
    },
    Setting {
        key: "proxy.host",
        kind: Kind::Host { words: HOSTS },
        default: Default::Fixed("visitor"),
        line: "The host that the application is asked for.",
        reason: "Applications make links from it, and several sites may share one. An application on another server \
                 that has sites of its own needs its own name: `application`.",
        example: "\"application\"",
        elsewhere: &["proxy_set_header", "header_up", "proxypreservehost"],
        ..PROXY
    },
    Setting {
        key: "proxy.connect_timeout",
        kind: duration(10 * MS, MIN),
        default: Default::Fixed("5s"),
        line: "Time limit for a connection to the application, with its TLS handshake; beyond it the next copy is \
               tried, and at last the client gets 504.",
        reason: "A connection takes milliseconds; a lost packet is sent again after 1 and 3 seconds.",
        example: "\"2s\"",
        elsewhere: &["proxy_connect_timeout", "dial_timeout"],
        ..PROXY
    },
    Setting {
        key: "proxy.response_timeout",
        kind: duration(100 * MS, 24 * 60 * MIN),
        default: Default::Fixed("60s"),
        line: "Time limit from the end of the request until the application's response begins; beyond it the client \
               gets 504.",
        reason: "A visitor has left by then. Raise it for an application that computes for longer.",
        example: "\"5m\"",
        elsewhere: &["response_header_timeout", "proxytimeout"],
        ..PROXY
    },
    Setting {
        key: "proxy.read_timeout",
        kind: duration(100 * MS, 24 * 60 * MIN),
        default: Default::Fixed("60s"),
        line: "Maximum pause between two pieces of a response, and of the application in taking a request; beyond it \
               the response is broken off.",
        reason: "A long response, or a stream of events, may take as long as it makes progress. A client that reads \
                 slowly is no pause.",
        example: "\"5m\"",
        elsewhere: &["proxy_read_timeout", "proxy_send_timeout"],
        ..PROXY
    },
    Setting {
        key: "proxy.stream_request",
        kind: Kind::Switch,
        line: "Whether the application gets the content of a request while it arrives, instead of when all of it is here.",
        reason: "Off, because a slow upload then occupies the application for as long as it takes, and can't be sent again to \
                 another copy. gRPC calls in which the client sends several messages need it, and so do uploads that \
                 should not lie on disk twice. The client may pause for `http.body_timeout`.",
        example: "true",
        elsewhere: &["proxy_request_buffering", "buffer_requests", "request_buffers"],
        ..PROXY
    },
    Setting {
        key: "proxy.websocket",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether clients may switch to WebSocket, or to another protocol that the application offers.",
        reason: "An application that knows no other protocol responds as usual. HTTP/2 and TLS are never switched to: \
                 requests in them would reach the application unseen. Over HTTP/2, clients open WebSockets as RFC 8441 says.",
        example: "false",
        elsewhere: &["upgrade", "websockets", "mod_proxy_wstunnel"],
        ..PROXY
    },
    Setting {
        key: "proxy.websocket_timeout",
        kind: duration(100 * MS, 24 * 60 * MIN),
        default: Default::Fixed("10m"),
        line: "How long neither side may send anything after such a switch; beyond it the connection is closed.",
        reason: "A browser that has lost its network says nothing. Most applications send a ping every minute or more \
                 often.",
        example: "\"1h\"",
        elsewhere: &["tunnel_timeout", "stream_timeout"],
        ..PROXY
    },
    Setting {
        key: "proxy.cache",
        kind: Kind::Switch,
        line: "Whether the page cache stores responses that allow it by `Cache-Control` or `Expires`.",
        reason: "Only the standard rules for shared caches apply (RFC 9111): `private`, `no-store`, `Set-Cookie`, `Vary` and \
                 `Authorization` are obeyed, and a response that says nothing is not stored. Off, because some \
                 applications say `public` of pages that are not.",
        example: "true",
        elsewhere: &["proxy_cache", "cacheenable"],
        ..PROXY
    },
    Setting {
        key: "proxy.internal",
        kind: Kind::Switch,
        line: "Whether only scripts lead there, by `X-Accel-Redirect`; visitors get 404.",
        reason: "So a script checks the visitor's rights, and then hands the request over to the application.",
        example: "true",
        ..PROXY
    },
    Setting {
        key: "proxy.health.path",
        kind: Kind::Location,
        default: Default::Unset("no checks; requests show whether it is up"),
        line: "The path that is requested from each copy of the application to see whether it is up: a status from 200 \
               to 399 says so.",
        reason: "Without checks, a copy that has failed gets a request now and then that shows whether it is up again. With \
                 checks, no visitor's request does.",
        example: "\"/health\"",
        elsewhere: &["health_uri", "health_check", "option httpchk"],
        ..PROXY
    },
    Setting {
        key: "proxy.health.interval",
        kind: duration(S, 60 * MIN),
        default: Default::Fixed("10s"),
        line: "How often to check; a check that takes longer has failed.",
        reason: "Requests notice a dead application at once: checks are for those that respond, and should not be used.",
        example: "\"5s\"",
        elsewhere: &["health_interval", "inter"],
        ..PROXY
    },
    Setting {
        key: "proxy.keepalive",
        kind: count(0, 10_000),
        default: Default::Fixed("256"),
        line: "Maximum idle connections that each event loop keeps to each URL of the application; 0: a new \
               connection for each request.",
        reason: "A new connection costs more than a short request: with 64 clients at once, 32 idle connections cost \
                 a half more CPU per request than 256 (bench/proxy). After a minute without a request an idle connection \
                 is closed. Over HTTP/1.1, requests that must not be sent twice - all but GET, HEAD, OPTIONS, TRACE, PUT \
                 and DELETE - get a new connection in any case, because an idle one may have been closed at the other end.",
        example: "8",
        elsewhere: &["keepalive_connections", "max_idle_conns"],
        ..PROXY
    },
    Setting {
        key: "proxy.retries",
        kind: count(0, 10),
        default: Default::Fixed("1"),
        line: "How often a request is tried again, at another copy if there is one, when the connection could not be \
               made, or broke before the response began.",
        reason: "A request that may have been sent is tried again only if repeating it changes nothing: GET, HEAD, \
                 OPTIONS, TRACE, PUT and DELETE. A time limit is never a reason: the application has enough to do.",
        example: "3",
        elsewhere: &["proxy_next_upstream_tries", "lb_try_duration", "retry"],
        ..PROXY
    },
    Setting {
        key: "proxy.ca",
        kind: Kind::Path { word: None },
        default: Default::Unset("the authorities that the system trusts"),
        line: "Certificates of the authorities that may have signed the certificate of an application with \
               `https://`, in PEM.",
        reason: "The certificate is always checked, for the host in `proxy.to`. Applications inside of a network \
                 often have certificates of an authority of their own.",
        example: "\"/srv/app/app.php\"",
        elsewhere: &["proxy_ssl_trusted_certificate", "sslproxycacertificatefile"],
        ..PROXY
    },
];
