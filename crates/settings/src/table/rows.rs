//! The rows. A flat table: read it beside `docs/settings.md`, which is made from it.

mod acme;
mod cache;
mod https;
mod php;

use std::path::PathBuf;

use super::{Default, Group, Kind, Place, Setting, Word};
use crate::memory::Shares;
use crate::plan::Address;
use crate::resolve::View;
use crate::value::Value;

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

pub(super) static GROUPS: &[Group] = &[
    Group {
        name: "server",
        header: "[server]",
        line: "Threads, listening addresses and the life of the process.",
        rows: SERVER,
    },
    Group { name: "http", header: "[http]", line: "What a client may send, and how slowly.", rows: HTTP },
    Group {
        name: "https",
        header: "[https]",
        line: "HTTPS: where connections are encrypted, and on what terms.",
        rows: https::HTTPS,
    },
    Group {
        name: "tls",
        header: "[[tls]]",
        line: "A certificate and its key, in PEM. Each client gets the one with the name that it asks for; a site may have one \
               with an ECDSA key and one with an RSA key. The first is for clients that ask for no name.",
        rows: https::TLS,
    },
    Group {
        name: "acme",
        header: "[acme]",
        line: "Certificates that come and renew themselves (ACME, RFC 8555), where `https.acme` asks for them.",
        rows: acme::ACME,
    },
    Group {
        name: "files",
        header: "[files]",
        line: "Static files, their compression and the open-file cache.",
        rows: FILES,
    },
    Group {
        name: "php",
        header: "[php]",
        line: "How PHP runs: for every site, or in `[site.php]` for one.",
        rows: php::PHP,
    },
    Group {
        name: "php.pool",
        header: "[php.pool.NAME]",
        line: "Pools: named shares of a site's PHP workers, each with a queue and limits of its own. `docs/php.md` has an \
               example. WordPress and Drupal have `front`, `admin` and `background`, other sites `front` alone; any other \
               NAME makes one more.",
        rows: php::POOL,
    },
    Group {
        name: "cache",
        header: "[cache]",
        line: "The page cache: what PHP has made is kept and sent again. For every site, or in `[site.cache]` for one where \
               that is said.",
        rows: cache::CACHE,
    },
    Group { name: "log", header: "[log]", line: "Access log and error log.", rows: LOG },
    Group {
        name: "admin",
        header: "[admin]",
        line: "Where `millrace status`, `millrace reload` and metrics are answered.",
        rows: ADMIN,
    },
    Group {
        name: "site",
        header: "[[site]]",
        line: "A site: its names, its folder, its application.",
        rows: SITE,
    },
];

static SERVER: &[Setting] = &[
    Setting {
        key: "server.threads",
        kind: count(1, 1024),
        default: Default::Computed {
            says: "one a core",
            from: |view| Value::Number(view.environment().cores as u64),
        },
        line: "Event loops, each with its own listening sockets.",
        reason: "A connection lives and dies on one loop, so loops share nothing; more of them than cores only adds \
                 switching. Cores are counted as the process may use them (affinity and cgroup quota).",
        example: "3",
        elsewhere: &["worker_processes", "worker_threads"],
        restart: Some(|old, new| old.server.threads != new.server.threads),
        ..ROW
    },
    Setting {
        key: "server.pin_threads",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether each event loop is bound to one core.",
        reason: "Keeps caches warm on a machine of its own; on a shared one the kernel places threads better.",
        example: "true",
        elsewhere: &["worker_cpu_affinity"],
        restart: Some(|old, new| old.server.pin_threads != new.server.pin_threads),
        ..ROW
    },
    Setting {
        key: "server.listen",
        kind: Kind::Addresses,
        default: Default::Fixed("127.0.0.1:8080"),
        line: "Addresses to listen on: `127.0.0.1:8080`, `:80` (every IPv4 and IPv6 address), `[::1]:80`, \
               `unix:/run/millrace.sock`.",
        reason: "The default is reachable from this machine only: opening a site to the world is a decision, not an \
                 accident. A reload takes new addresses in; one that is no longer in the list is closed when those who \
                 wait there have been let in.",
        example: "[\":80\", \"unix:/run/millrace/web.sock\"]",
        elsewhere: &["port", "bind", "address", "listen_addr"],
        ..ROW
    },
    Setting {
        key: "server.backlog",
        kind: count(1, 65_535),
        default: Default::Fixed("4096"),
        line: "Connections that may wait to be accepted, for each listening socket.",
        reason: "A burst waits here while the loop is busy. The kernel cuts it to net.core.somaxconn (4096 on current \
                 kernels).",
        example: "1024",
        restart: Some(|old, new| old.server.backlog != new.server.backlog),
        ..ROW
    },
    Setting {
        key: "server.connections",
        kind: count_or_zero("as many as the descriptor limit allows", 1, 10_000_000),
        default: Default::Fixed("0"),
        line: "Open client connections a listener.",
        reason: "Beyond it, new connections wait in the kernel's queue. The descriptor limit is the natural bound; \
                 lower it to leave room for other programs. Higher than the limit, where that can't be raised: plain HTTP \
                 is held by threads with descriptor tables of their own.",
        example: "20000",
        elsewhere: &["worker_connections", "max_connections", "maxclients", "max_clients"],
        ..ROW
    },
    Setting {
        key: "server.connections_per_address",
        kind: count_or_zero("no limit", 1, 1_000_000),
        default: Default::Fixed("0"),
        line: "Open connections from one client address.",
        reason: "Stops one address from taking every connection. Off by default, because behind a proxy, or a mobile \
                 network's address translation, many people share one address.",
        example: "200",
        elsewhere: &["limit_conn"],
        ..ROW
    },
    Setting {
        key: "server.connection_memory",
        kind: Kind::Size { min: MB, max: 64 * 1024 * GB, zero: Some("no bound") },
        default: Default::Computed {
            says: "what the page cache, files and PHP workers (64MB each, or php.worker_memory) leave of 75% of memory, at \
                   least 1/16 of it",
            from: |view| Value::Number(Shares::with_one(view).connections),
        },
        line: "Memory that connections may take together: what the server keeps for each, what waits to be sent, and the \
               kernel's part.",
        reason: "When it is reached, those that have been idle for longest are closed to make room; if all are busy, new ones \
                 get a 503 with Retry-After, or wait in the kernel's queue. So a crowd can't take what PHP, the page cache and \
                 the database live on. An idle connection counts 4KB, 8KB with TLS, 30KB by HTTP/2; the log says how the default was \
                 found, `millrace status` how much is in use.",
        example: "\"512MB\"",
        elsewhere: &["limit_conn_zone", "tcp_mem"],
        ..ROW
    },
    Setting {
        key: "server.shutdown_grace",
        kind: duration(0, H),
        default: Default::Fixed("30s"),
        line: "How long running requests may go on after SIGTERM.",
        reason: "No new connection is accepted; what runs is finished, so a restart loses nothing. Kubernetes kills a program \
                 after 30 s, systemd after 90 s.",
        example: "\"10s\"",
        elsewhere: &["worker_shutdown_timeout", "graceful_timeout", "gracefulshutdowntimeout"],
        ..ROW
    },
    Setting {
        key: "server.trusted_proxies",
        kind: Kind::Networks,
        default: Default::Unset("no proxy is believed"),
        line: "Proxies whose `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` are believed: addresses, \
               blocks like `10.0.0.0/8`, or `unix` for every peer of a Unix socket.",
        reason: "Anybody can send these fields. Believed from everywhere they let a client forge its address and claim \
                 HTTPS; so only peers named here are.",
        example: "[\"10.0.0.0/8\", \"::1\", \"unix\"]",
        elsewhere: &["set_real_ip_from", "real_ip_header", "remoteipinternalproxy"],
        ..ROW
    },
    Setting {
        key: "server.spool_dir",
        kind: Kind::Path { word: None },
        default: Default::Fixed("/var/tmp"),
        line: "Folder for request bodies that are larger than `http.body_memory`, and for answers that wait for slow clients.",
        reason: "Must be on a disk: /tmp is memory on many systems, and large bodies are spooled to save memory. The \
                 files have no name and vanish with the request.",
        example: "\"/srv/spool\"",
        elsewhere: &["client_body_temp_path", "upload_tmp_dir"],
        ..ROW
    },
    Setting {
        key: "server.spool_bytes",
        kind: Kind::Size { min: 0, max: 1024 * GB, zero: None },
        default: Default::Fixed("1GB"),
        line: "Disk space in `server.spool_dir` for answers that clients take slower than PHP makes them, all together; one \
               answer may take half of it.",
        reason: "A script that has finished frees its worker while the rest of its answer goes out: up to 1 MB of it is \
                 held in memory, more on disk. Beyond this a script waits for its client. 0 keeps answers off the disk.",
        example: "\"20GB\"",
        elsewhere: &["fastcgi_max_temp_file_size", "proxy_max_temp_file_size"],
        ..ROW
    },
];

static HTTP: &[Setting] = &[
    Setting {
        key: "http.head_bytes",
        kind: size(KB, MB),
        default: Default::Fixed("16KB"),
        line: "Request line and fields together. Beyond: 431.",
        reason: "Bounds what an incomplete request costs, with room for several cookies of 4 KB, the most that browsers keep \
                 in one.",
        example: "\"32KB\"",
        elsewhere: &["large_client_header_buffers", "client_header_buffer_size", "limitrequestfieldsize"],
        ..ROW
    },
    Setting {
        key: "http.head_fields",
        kind: count(8, 1000),
        default: Default::Fixed("100"),
        line: "Fields in a request head. Beyond: 431.",
        reason: "Browsers send about 20 and proxies add a few; thousands are an attack on whoever loops over them.",
        example: "64",
        elsewhere: &["max_headers", "limitrequestfields"],
        ..ROW
    },
    Setting {
        key: "http.target_bytes",
        kind: size(256, MB),
        default: Default::Computed {
            says: "8KB, or head_bytes if that is less",
            from: |view| Value::Number(view.number("http.head_bytes").min(8 * KB)),
        },
        line: "Request target (path and query). Beyond: 414.",
        reason: "8,000 bytes is what RFC 9112 section 3 asks servers to take; longer ones are mistakes or attacks.",
        example: "\"4KB\"",
        elsewhere: &["limitrequestline"],
        ..ROW
    },
    Setting {
        key: "http.head_timeout",
        kind: duration(100 * MS, 10 * MIN),
        default: Default::Fixed("10s"),
        line: "From a request's first byte to the end of its head. Beyond: 408.",
        reason: "A client that sends a byte now and then must not hold a connection for ever (Slowloris).",
        example: "\"5s\"",
        elsewhere: &["client_header_timeout", "requestreadtimeout", "header_timeout"],
        ..ROW
    },
    Setting {
        key: "http.body_timeout",
        kind: duration(100 * MS, H),
        default: Default::Fixed("10s"),
        line: "Pause between two pieces of a request body. Beyond: 408.",
        reason: "Long enough for a phone that changes cells, short enough that dead uploads don't pile up.",
        example: "\"20s\"",
        elsewhere: &["client_body_timeout"],
        ..ROW
    },
    Setting {
        key: "http.body_min_rate",
        kind: Kind::Size { min: 1, max: GB, zero: Some("no least rate") },
        default: Default::Fixed("256B"),
        line: "Least mean rate of a request body, bytes a second, after the first `body_timeout`. Beyond: 408.",
        reason: "A pause limit alone lets a client send one byte every 9 seconds; a slow modem manages 5 KB a second.",
        example: "\"1KB\"",
        elsewhere: &["minrate"],
        ..ROW
    },
    Setting {
        key: "http.body_bytes",
        kind: size(0, 1024 * GB),
        default: Default::Fixed("64MB"),
        line: "Request body. Beyond: 413. A site may set its own `body_bytes`.",
        reason: "Room for an upload of photos or a theme. PHP has limits of its own on top: `post_max_size` and \
                 `upload_max_filesize`.",
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
        key: "http.body_memory",
        kind: size(4 * KB, GB),
        default: Default::Fixed("1MB"),
        line: "Part of a request body that is held in memory; a larger one goes to a file in `server.spool_dir`.",
        reason: "Forms and API calls are smaller and stay off the disk; a hundred uploads at once must not eat the \
                 memory.",
        example: "\"256KB\"",
        elsewhere: &["client_body_buffer_size"],
        ..ROW
    },
    Setting {
        key: "http.keep_alive",
        kind: duration(0, DAY),
        default: Default::Fixed("60s"),
        line: "An idle connection is closed after this. 0 closes each after its answer.",
        reason: "A visitor's next click comes within a minute and saves the handshake. An idle connection costs about \
                 1 KB here, so there is no hurry.",
        example: "\"5s\"",
        elsewhere: &["keepalive_timeout", "keepalivetimeout", "keep_alive_timeout", "idle_timeout"],
        ..ROW
    },
    Setting {
        key: "http.keep_alive_requests",
        kind: count_or_zero("no limit", 1, u64::MAX >> 1),
        default: Default::Fixed("0"),
        line: "Requests on one connection.",
        reason: "Nothing of a connection grows with its requests, so nothing needs it; some load balancers spread \
                 better with it.",
        example: "1000",
        elsewhere: &["keepalive_requests", "maxkeepaliverequests"],
        ..ROW
    },
    Setting {
        key: "http.send_timeout",
        kind: duration(100 * MS, H),
        default: Default::Fixed("10s"),
        line: "Pause of a client that takes no more of the answer. Beyond it the connection is reset.",
        reason: "A client that asks for large files and doesn't read them holds buffers and PHP's output.",
        example: "\"30s\"",
        elsewhere: &["write_timeout", "timeout"],
        ..ROW
    },
    Setting {
        key: "http.early_hints",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether scripts may have 103 (Early Hints) sent, which tells a browser what to fetch while the page is being \
               made.",
        reason: "Only where a script asks for it, and never to HTTP/1.0. A proxy in front that takes 103 for the answer, as \
                 nginx before 1.29 does, needs this off.",
        example: "false",
        elsewhere: &[],
        ..ROW
    },
    Setting {
        key: "http.h2c",
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether connections without TLS may begin with HTTP/2 (RFC 9113 section 3.3, prior knowledge).",
        reason: "For proxies and programs that have been told so; no browser does it. Over HTTPS see `https.http2`.",
        example: "true",
        elsewhere: &[],
        ..ROW
    },
    Setting {
        key: "http.h2_streams",
        kind: count(1, 10_000),
        default: Default::Fixed("100"),
        line: "Requests that an HTTP/2 connection has under way.",
        reason: "A browser asks for a whole page at once, which is seldom more; each one under way holds some memory, and may \
                 hold a PHP worker.",
        example: "128",
        elsewhere: &["http2_max_concurrent_streams", "h2maxsessionstreams"],
        ..ROW
    },
    Setting {
        key: "http.h2_window",
        kind: size(64 * KB, GB),
        default: Default::Fixed("1MB"),
        line: "Content that an HTTP/2 connection may have on its way to the server, or waiting there to be read.",
        reason: "It bounds an upload to this much a round trip, and the memory that one connection can take.",
        example: "\"4MB\"",
        elsewhere: &["h2windowsize", "http2_body_preread_size"],
        ..ROW
    },
    Setting {
        key: "http.h2_frames",
        kind: count(100, 1_000_000),
        default: Default::Fixed("1000"),
        line: "Frames that ask for nothing - PING, SETTINGS, WINDOW_UPDATE, PRIORITY, empty ones - which an HTTP/2 client may \
               send beyond those that its requests explain. A tenth of it comes back each second.",
        reason: "They cost the client nothing and the server a little; a flood of them ends the connection, and the next ones \
                 of this client wait for a quarter of a second.",
        example: "5000",
        elsewhere: &[],
        ..ROW
    },
    Setting {
        key: "http.h2_resets",
        kind: count(10, 1_000_000),
        default: Default::Fixed("200"),
        line: "Requests that an HTTP/2 client may cancel. A tenth of it comes back each second.",
        reason: "A browser cancels a page's requests when its user goes elsewhere. Without end it is an attack (rapid reset, \
                 CVE-2023-44487): a request that is cancelled makes work and does not count as under way.",
        example: "1000",
        elsewhere: &[],
        ..ROW
    },
];

static FILES: &[Setting] = &[
    Setting {
        key: "files.cache_entries",
        kind: count(0, 10_000_000),
        default: Default::Fixed("10000"),
        line: "Entries of the open-file cache, all threads together; files that don't exist count too.",
        reason: "A site has a few thousand files that are asked for. An entry of a large file holds a descriptor.",
        example: "2000",
        elsewhere: &["open_file_cache", "open_file_cache_max"],
        ..ROW
    },
    Setting {
        key: "files.cache_bytes",
        kind: size(0, 1024 * GB),
        default: Default::Fixed("64MB"),
        line: "Bytes of the open-file cache, all threads together, compressed forms included.",
        reason: "Small files are answered from here with one write. Large ones stay in the kernel's page cache.",
        example: "\"256MB\"",
        elsewhere: &["cache_size"],
        ..ROW
    },
    Setting {
        key: "files.small_file",
        kind: size(0, 16 * MB),
        default: Default::Fixed("64KB"),
        line: "Files up to this size are kept in memory with their head; larger ones are sent with sendfile.",
        reason: "One write of head and content is cheaper than a write and a sendfile until the copying outweighs it.",
        example: "\"16KB\"",
        ..ROW
    },
    Setting {
        key: "files.revalidate",
        kind: duration(0, H),
        default: Default::Fixed("1s"),
        line: "A cached file is compared with the disk again after this.",
        reason: "A change is seen within a second, and a file that is asked for a thousand times a second costs one \
                 look at the disk, not a thousand. What is not there is not remembered: a new file is found at once.",
        example: "\"10s\"",
        elsewhere: &["open_file_cache_valid"],
        ..ROW
    },
    Setting {
        key: "files.compress",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether text types are compressed for clients that can read it.",
        reason: "Text shrinks to about a quarter. It is done once a file and kept; `.br`, `.zst` and `.gz` files beside the \
                 original are used whatever this says.",
        example: "false",
        elsewhere: &["gzip", "brotli", "deflate", "gzip_static"],
        ..ROW
    },
    Setting {
        key: "files.compress_from",
        kind: size(0, GB),
        default: Default::Fixed("1100B"),
        line: "Least size to compress, of files and of what PHP says (`php.compress`).",
        reason: "Below it head and content fit one network packet either way, so nothing is won.",
        example: "\"2KB\"",
        elsewhere: &["gzip_min_length", "brotli_min_length"],
        ..ROW
    },
    Setting {
        key: "files.compress_to",
        kind: size(0, GB),
        default: Default::Fixed("8MB"),
        line: "Largest file that is compressed.",
        reason: "Compressing takes time from other requests, once a file. Put a `.gz` or `.br` beside larger files.",
        example: "\"1MB\"",
        ..ROW
    },
    Setting {
        key: "files.index",
        kind: Kind::FileNames,
        default: Default::Fixed("index.php, index.html, index.htm"),
        line: "Names tried in a directory, in this order.",
        reason: "An application's index.php comes before a hoster's left-over index.html.",
        example: "[\"index.html\"]",
        elsewhere: &["directoryindex", "index_files"],
        ..ROW
    },
    Setting {
        key: "files.symlinks",
        kind: Kind::Choice(&[("inside", "only to a place inside the site's root"), ("follow", "anywhere")]),
        default: Default::Fixed("inside"),
        line: "What a symbolic link in a site's root may point to.",
        reason: "A link to / made by a hijacked plugin must not publish the machine. Set `follow` if a deployment \
                 links shared folders from outside the root.",
        example: "\"follow\"",
        elsewhere: &["disable_symlinks", "followsymlinks", "symlinksifownermatch"],
        ..ROW
    },
    Setting {
        key: "files.expires",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether `Cache-Control` by type is sent: a year for images, fonts, media, css and js; \
               html is asked for again.",
        reason: "A browser that keeps a page's parts asks for the page alone. Applications name versions in the URLs \
                 of css and js.",
        example: "false",
        elsewhere: &["expiresactive", "expiresbytype", "cache_control"],
        ..ROW
    },
];

static LOG: &[Setting] = &[
    Setting {
        key: "log.access",
        kind: Kind::Path { word: Some("off") },
        default: Default::Fixed("off"),
        line: "Access log: a file, or `off`. Reopened on SIGHUP.",
        reason: "A line costs little but disks fill; it is written off the hot path and dropped when the disk is full.",
        example: "\"access.log\"",
        elsewhere: &["access_log", "customlog", "transferlog"],
        ..ROW
    },
    Setting {
        key: "log.access_format",
        kind: Kind::Choice(&[
            ("combined", "Apache's and nginx's combined format, and the seconds the request took"),
            ("json", "one JSON object a line"),
        ]),
        default: Default::Fixed("combined"),
        line: "Form of an access log line.",
        reason: "Every log tool reads combined; JSON keeps every figure apart.",
        example: "\"json\"",
        elsewhere: &["log_format", "logformat"],
        ..ROW
    },
    Setting {
        key: "log.error",
        kind: Kind::Path { word: Some("stderr") },
        default: Default::Fixed("stderr"),
        line: "Error log: a file, or `stderr`. Reopened on SIGHUP.",
        reason: "Standard error is where systemd and containers collect it.",
        example: "\"error.log\"",
        elsewhere: &["error_log", "errorlog"],
        ..ROW
    },
    Setting {
        key: "log.level",
        kind: Kind::Choice(&[
            ("debug", "what only a developer of Millrace wants to know"),
            ("info", "what the server does"),
            ("warn", "something is wrong and the server helped itself"),
            ("error", "something failed"),
        ]),
        default: Default::Fixed("info"),
        line: "Least severity that is logged.",
        reason: "Info is a few lines at start and reload, and none a request.",
        example: "\"warn\"",
        elsewhere: &["loglevel", "log_level", "verbosity"],
        ..ROW
    },
];

static ADMIN: &[Setting] = &[Setting {
    key: "admin.listen",
    kind: Kind::Address { word: Some("off") },
    default: Default::Computed {
        says: "unix:/run/millrace/admin.sock as root, else unix:$XDG_RUNTIME_DIR/millrace/admin.sock, else \
               unix:/tmp/millrace-UID/admin.sock",
        from: admin_socket,
    },
    line: "Where metrics, status and reload are served: a Unix socket, a loopback address like `127.0.0.1:9180`, or \
           `off`.",
    reason: "Who reaches it can reload the server and see every URL, so it is guarded by the folder's rights and is \
             never open to a network.",
    example: "\"127.0.0.1:9180\"",
    elsewhere: &["stub_status", "pm.status_path", "server_status"],
    restart: Some(|old, new| old.admin.listen != new.admin.listen),
    ..ROW
}];

static SITE: &[Setting] = &[
    Setting {
        key: "site.names",
        place: Place::Site,
        kind: Kind::HostNames,
        default: Default::Unset("every host; only for the default site"),
        line: "Host names without port; the first is the site's own (SERVER_NAME). `*.example.com` matches one or \
               more labels.",
        reason: "A request goes to the site of its Host field; an exact name wins over a wildcard, a longer wildcard \
                 over a shorter.",
        example: "[\"example.com\", \"www.example.com\"]",
        elsewhere: &[
            "server_name",
            "servername",
            "serveralias",
            "host",
            "hosts",
            "domain",
            "domains",
            "name",
        ],
        ..ROW
    },
    Setting {
        key: "site.default",
        place: Place::Site,
        kind: Kind::Switch,
        default: Default::Computed {
            says: "the first site, if no site says so",
            from: |_| Value::Switch(false),
        },
        line: "Whether requests for unknown hosts come here.",
        reason: "Some site has to answer them; exactly one does.",
        example: "true",
        elsewhere: &["default_server"],
        ..ROW
    },
    Setting {
        key: "site.root",
        place: Place::Site,
        kind: Kind::Path { word: None },
        default: Default::Unset("must be written"),
        line: "The folder that is served. Relative to the configuration file.",
        reason: "Nothing outside of it is sent, but what scripts hand out of `site.sendfile_roots` and `site.internal`.",
        example: "\"/srv/other\"",
        elsewhere: &["documentroot", "document_root", "docroot", "directory", "path", "dir", "folder"],
        ..ROW
    },
    Setting {
        key: "site.profile",
        place: Place::Site,
        kind: Kind::Choice(&[
            ("auto", "found out from the files in the root"),
            ("wordpress", "WordPress and what is built on it"),
            ("drupal", "Drupal 7 and later, and Backdrop"),
            ("generic", "plain PHP and files"),
        ]),
        default: Default::Fixed("auto"),
        line: "Rules of the application: front controller, what is never served, where PHP never runs.",
        reason: "`auto` looks for wp-load.php, wp-includes/version.php, an index.php that leads to WordPress in a folder, \
                 core/lib/Drupal.php, modules/system/system.module (Drupal 7) or core/modules/system/system.module (Backdrop) when \
                 the server starts or reloads.",
        example: "\"drupal\"",
        elsewhere: &["application", "app", "type", "cms"],
        ..ROW
    },
    Setting {
        key: "site.try_files",
        place: Place::Site,
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether a file or directory of the URL's name is looked for before the front controller.",
        reason: "`false` gives every URL to the front controller, for applications that serve their files themselves.",
        example: "false",
        elsewhere: &["rewrite", "rewriteengine", "fallbackresource"],
        ..ROW
    },
    Setting {
        key: "site.front_controller",
        place: Place::Site,
        kind: Kind::UrlPath { word: "off" },
        default: Default::Computed {
            says: "`/index.php` for wordpress and drupal, off for generic",
            from: |view| view.front_controller(),
        },
        line: "Script below the root that answers URLs without a file: `/index.php`, or `off` for 404.",
        reason: "Applications with readable URLs need it; for plain PHP an unknown URL is 404, as everywhere.",
        example: "\"/app.php\"",
        elsewhere: &["error_page", "index_php", "router", "fallback"],
        ..ROW
    },
    Setting {
        key: "site.network",
        place: Place::Site,
        kind: Kind::Choice(&[
            ("auto", "as wp-config.php says, also when it changes while the server runs"),
            (
                "subfolder",
                "sites are `/one/`, `/two/`: `/one/wp-admin/`, `/one/wp-includes/` and `/one/x.php` lie in the root",
            ),
            ("subdomain", "sites have host names of their own"),
            ("off", "a single site"),
        ]),
        default: Default::Fixed("auto"),
        line: "Whether a WordPress is a network of sites (multisite), and how its sites are told apart.",
        reason: "`auto` reads the constants MULTISITE and SUBDOMAIN_INSTALL. Where wp-config.php takes them from elsewhere, or the \
                 server may not read it, say it here.",
        example: "\"off\"",
        elsewhere: &["multisite", "subdomain_install"],
        ..ROW
    },
    Setting {
        key: "site.allow_files",
        place: Place::Site,
        kind: Kind::Words(Word::Path),
        default: Default::Unset("none"),
        line: "Files that are served though their names say secret, source or back-up: `*.db` whatever ends so, `/downloads` with \
               everything below, `*/install.sh` at any depth. Scripts below `vendor/` and `node_modules/` run if they are named.",
        reason: "Keys, databases, logs, archives in the root and sources of programs that don't run here are 404 for every visitor. \
                 Hidden files, PHP's sources, wp-config.php and folders of private files stay so whatever is written here.",
        example: "[\"*.db\", \"/downloads\"]",
        elsewhere: &["allow", "never_served", "unprotect"],
        ..ROW
    },
    Setting {
        key: "site.body_bytes",
        place: Place::Site,
        kind: size(0, 1024 * GB),
        default: Default::Computed {
            says: "http.body_bytes",
            from: |view| Value::Number(view.number("http.body_bytes")),
        },
        line: "Request body for this site. Beyond: 413.",
        reason: "One site takes videos, the others need not.",
        example: "\"2GB\"",
        elsewhere: &["client_max_body_size"],
        ..ROW
    },
    Setting {
        key: "site.sendfile_roots",
        place: Place::Site,
        kind: Kind::Folders,
        default: Default::Unset("only files below the site's root"),
        line: "Folders below which a script may have files sent by `X-Sendfile: /srv/private/file`, besides the site's root.",
        reason: "The server may read what PHP may not, so it says itself what it sends. Below the root the rules for \
                 visitors hold: no script's source, no hidden file.",
        example: "[\"/srv/other\"]",
        elsewhere: &["xsendfilepath", "xsendfile", "x-sendfile-docroot"],
        ..ROW
    },
    Setting {
        key: "site.internal",
        place: Place::Site,
        kind: Kind::Places,
        default: Default::Unset("`X-Accel-Redirect` leads to files below the site's root"),
        line: "Paths that only `X-Accel-Redirect` leads to, and their folders: a table `[site.internal]`, \
               `\"/protected/\" = \"/srv/private\"`. To clients they are 404.",
        reason: "As `location /protected/ { internal; alias /srv/private/; }` in nginx: a script decides who may have a file, \
                 and the server sends it, with ranges and all.",
        example: "{ \"/protected/\" = \"/srv/other\" }",
        elsewhere: &["alias", "location"],
        ..ROW
    },
    Setting {
        key: "site.headers",
        place: Place::Site,
        kind: Kind::Fields,
        default: Default::Unset("no field is added"),
        line: "Fields added to every answer of the site: a table `[site.headers]`.",
        reason: "For `Strict-Transport-Security`, `Content-Security-Policy` and the like.",
        example: "{ X-Frame-Options = \"SAMEORIGIN\" }",
        elsewhere: &["add_header", "header", "more_set_headers"],
        ..ROW
    },
    Setting {
        key: "site.client_verify",
        place: Place::Site,
        kind: Kind::Choice(&[
            ("off", "nobody is asked for a certificate"),
            (
                "optional",
                "who has one is believed; scripts find it in `SSL_CLIENT_VERIFY`, `SSL_CLIENT_S_DN` and so on",
            ),
            ("required", "who has none that is good gets nothing"),
        ]),
        default: Default::Fixed("off"),
        line: "Whether clients are asked for a certificate over HTTPS, by the authorities of `site.client_ca`.",
        reason: "A certificate that is not good ends the handshake, with the reason as an alert. For names of other sites \
                 nothing is asked, and a connection that was made for them is not good for this one (421).",
        example: "\"required\"",
        elsewhere: &["ssl_verify_client", "sslverifyclient", "client_auth", "mtls"],
        ..ROW
    },
    Setting {
        key: "site.client_ca",
        place: Place::Site,
        kind: Kind::Path { word: None },
        default: Default::Unset("has to be written where `site.client_verify` is on"),
        line: "The authorities whose certificates count, in PEM.",
        reason: "Usually one of your own, made for this: whom the authorities of the web have given a certificate says nothing.",
        example: "\"/etc/millrace/clients.pem\"",
        elsewhere: &["ssl_client_certificate", "sslcacertificatefile", "trusted_ca"],
        ..ROW
    },
    Setting {
        key: "site.redirect.https",
        place: Place::Site,
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether `http` requests are sent on to `https`, but for those below `/.well-known/acme-challenge/`.",
        reason: "Before anything else is looked at, so no page is ever sent in the clear. Authorities check a name over http \
                 before they give it a certificate.",
        example: "true",
        elsewhere: &["force_https", "https_only", "ssl_redirect", "return"],
        ..ROW
    },
    Setting {
        key: "site.redirect.status",
        place: Place::Site,
        kind: Kind::Choice(&[
            ("auto", "301 for GET and HEAD, 308 for other methods"),
            ("301", "all with 301: browsers make a GET of a POST"),
            ("308", "all with 308: the method stays, and very old clients don't know it"),
        ]),
        default: Default::Fixed("auto"),
        line: "The status of the redirects to `https` and to or from `www.`.",
        reason: "301 is what search engines and old clients know best; it turns a POST into a GET, which 308 does not.",
        example: "\"308\"",
        elsewhere: &["redirect_code"],
        ..ROW
    },
    Setting {
        key: "site.redirect.www",
        place: Place::Site,
        kind: Kind::Choice(&[
            ("keep", "both are served"),
            ("add", "`example.com` is sent to `www.example.com`"),
            ("remove", "`www.example.com` is sent to `example.com`"),
        ]),
        default: Default::Fixed("keep"),
        line: "What happens with a leading `www.` in the host.",
        reason: "One address a page: search engines and caches count two as two.",
        example: "\"remove\"",
        elsewhere: &["www_redirect"],
        ..ROW
    },
];

/// A socket in a folder that only the server's own user can enter.
fn admin_socket(view: &View<'_>) -> Value {
    let environment = view.environment();
    let path = match &environment.runtime_dir {
        _ if environment.is_root() => PathBuf::from("/run/millrace/admin.sock"),
        Some(dir) => dir.join("millrace/admin.sock"),
        None => PathBuf::from(format!("/tmp/millrace-{}/admin.sock", environment.uid)),
    };
    Value::Address(Some(Address::Unix(path)))
}
