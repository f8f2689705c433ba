//! The table of counters. A row defines a counter completely: it generates the slot, the Prometheus text, the status
//! in JSON and the page `docs/counters.md`. To add one: a row here, a call of [`super::CounterSlot::add`] where it
//! happens, and `MILLRACE_UPDATE=1 cargo test -p millrace-base counters_page`.

/// What a value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How long something took: buckets, sum and count.
    Histogram,
}

impl MetricKind {
    /// The type's name in Prometheus text.
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name in Prometheus text, with the `millrace_` prefix left out.
    pub name: &'static str,
    /// What the value means.
    pub kind: MetricKind,
    /// What it counts, in one sentence.
    pub help: &'static str,
}

macro_rules! table {
    ($($variant:ident $kind:ident $name:literal $help:literal)*) => {
        /// A counter of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter { $(#[doc = $help] $variant),* }

        /// Every counter, in the order of [`Counter`].
        pub const TABLE: &[Row] = &[$(Row { name: $name, kind: MetricKind::$kind, help: $help }),*];

        /// Every counter.
        pub const ALL: &[Counter] = &[$(Counter::$variant),*];
    };
}

table! {
    ConnectionsAccepted Counter "connections_accepted_total" "Client connections accepted."
    ConnectionsRefused  Counter "connections_refused_total"  "Client connections closed on accept because a limit was reached."
    ConnectionsPassed   Counter "connections_passed_total"   "Connections moved from an event loop that only holds connections to one that runs PHP."
    ConnectionsGaveWay  Counter "connections_gave_way_total" "Idle connections closed to make room for new ones because memory or file descriptors were short."
    ConnectionsShed   Counter "connections_guests_total"   "Connections answered with 503 because the memory for connections was used up and none was idle."
    AcceptNoDescriptors Counter "accept_no_descriptors_total" "Failed attempts to accept a connection because file descriptors ran out."
    AcceptNoMemory      Counter "accept_no_memory_total"     "Failed attempts to accept a connection because the kernel was out of memory."
    ListenDropped       Counter "listen_dropped_total"       "Connection attempts that the kernel dropped because a listen queue of this server was full."
    ListenWaiting       Gauge   "listen_waiting"             "Connections that wait in the listen queues to be accepted."
    ConnectionsIdle     Gauge   "connections_idle"           "Open connections that wait for a request."
    ConnectionsReading  Gauge   "connections_reading"        "Connections that are receiving the header section or content of a request."
    ConnectionsRunning  Gauge   "connections_running"        "Connections with a request in progress."
    ConnectionsWriting  Gauge   "connections_writing"        "Connections with a response that waits for its client."
    ConnectionsShaking  Gauge   "connections_handshaking"    "Connections in a TLS handshake."
    ConnectionsTls      Gauge   "connections_tls"            "Open TLS connections, without those in a handshake."
    ConnectionsH2       Gauge   "connections_h2"             "Open HTTP/2 connections."
    AwaitPhp            Gauge   "requests_await_php"         "Requests that wait for PHP: for a worker, or for its response."
    ConnectionsTimedOut Counter "connections_timed_out_total" "Connections closed by a timeout."
    TlsHandshakes       Counter "tls_handshakes_total"       "Completed TLS handshakes."
    TlsResumed          Counter "tls_resumed_total"          "TLS handshakes that resumed a session."
    TlsFailures         Counter "tls_failures_total"         "TLS handshakes that failed or that the client aborted."
    TlsEarly            Counter "tls_early_total"            "TLS connections with early data: requests sent before the handshake was complete."
    TlsTimeouts         Counter "tls_timeouts_total"         "TLS handshakes that timed out."
    TlsKernel           Counter "tls_kernel_total"           "TLS connections handed over to the kernel to send a large file: `https.kernel_tls`."
    H2Connections       Counter "h2_connections_total"       "HTTP/2 connections."
    H2Requests          Counter "h2_requests_total"          "HTTP/2 requests."
    H2Resets            Counter "h2_resets_total"            "HTTP/2 requests cancelled by the client."
    H2Refused           Counter "h2_errors_total"            "HTTP/2 connections closed because of a protocol error of the client."
    H2FloodFrames       Counter "h2_flood_frames_total"      "HTTP/2 connections closed because of a flood of frames: `http.h2_frames`."
    H2FloodResets       Counter "h2_flood_resets_total"      "HTTP/2 connections closed because of too many cancelled requests: `http.h2_resets`."
    H2FloodHeads        Counter "h2_flood_heads_total"       "HTTP/2 connections closed because of an endless header section, or another flood that the HTTP/2 library detects."
    H2Misdirected       Counter "h2_misdirected_total"       "Requests answered with 421 because the connection's certificate does not cover their host."
    Requests            Counter "requests_total"             "Answered requests."
    RequestsMalformed   Counter "requests_malformed_total"   "Requests rejected because they are not valid HTTP."
    Replies2xx          Counter "replies_2xx_total"          "Responses with status 200-299."
    Replies3xx          Counter "replies_3xx_total"          "Responses with status 300-399."
    Replies4xx          Counter "replies_4xx_total"          "Responses with status 400-499."
    Replies5xx          Counter "replies_5xx_total"          "Responses with status 500-599."
    EarlyHints          Counter "early_hints_total"          "Interim responses 103 (Early Hints) sent."
    Uploads             Counter "uploads_total"              "Requests with content too large for memory, spooled to disk."
    BytesReceived       Counter "received_bytes_total"       "Bytes received from clients."
    BytesSent           Counter "sent_bytes_total"           "Bytes sent to clients."
    FileHits            Counter "file_cache_hits_total"      "Lookups answered from the open-file cache."
    FileMisses          Counter "file_cache_misses_total"    "Lookups that went to the file system."
    FileLinksRefused    Counter "files_links_refused_total"  "Requests for files behind symbolic links out of the root that are not followed: `files.symlinks`."
    FileBytes           Gauge   "file_cache_bytes"           "Memory used by the open-file caches."
    FileEntries         Gauge   "file_cache_entries"         "Entries in the open-file caches."
    CacheHits           Counter "cache_hits_total"           "Requests answered with a fresh page from the page cache."
    CacheStale          Counter "cache_stale_total"          "Requests answered with a stale page, while PHP refreshed it or because PHP failed."
    CacheMisses         Counter "cache_misses_total"         "Requests for which PHP generated a page for the page cache."
    CacheCollapsed      Counter "cache_collapsed_total"      "Requests that waited for a page that PHP was already generating for another request."
    CacheBypassed       Counter "cache_bypassed_total"       "Requests that bypassed the page cache because of their method, a cookie, or their path."
    CachePassed         Counter "cache_passed_total"         "Requests that bypassed the page cache because their page is known to be uncacheable."
    CacheFills          Counter "cache_fills_total"          "PHP runs to fill the page cache."
    CacheFillsFailed    Counter "cache_fills_failed_total"   "PHP runs to fill the page cache that failed."
    VisitorsProven      Counter "visitors_proven_total"      "PHP runs for proven visitors: known to be logged in, or to have a cart or a session."
    VisitorsUnproven    Counter "visitors_unproven_total"    "PHP runs for unverified visitors: with cookies that PHP has not confirmed yet, or no longer confirms."
    VisitorsAnonymous   Counter "visitors_anonymous_total"   "Requests of visitors treated as anonymous, because their cookies are known to mean nothing: the page cache answers them."
    VisitorsWithCart    Counter "visitors_with_cart_total"   "Requests of visitors with a cart that the page cache answered with the public page."
    CartPagesSame       Counter "cart_pages_same_total"      "Pages that PHP made for visitors with a cart and that were the same as the public page, but for what the browser fills in."
    CartPagesDiffer     Counter "cart_pages_differ_total"    "Pages that PHP made for visitors with a cart and that differed from the public page: this page goes to PHP, or its kind."
    VisitorsMembers     Counter "visitors_members_total"     "Requests of logged-in visitors that the page cache answered with a page made for others with the same rights (`cache.members`)."
    MemberPagesSame     Counter "member_pages_same_total"    "Pages that PHP made for logged-in visitors and that were the same as the stored one, but for name and nonces."
    MemberPagesDiffer   Counter "member_pages_differ_total"  "Pages that PHP made for logged-in visitors and that differed from the stored one, or that it calls personal: this kind of page goes to PHP."
    ShieldLogin         Counter "shield_login_total"         "Requests refused with 429 because of `shield.login`."
    ShieldXmlrpc        Counter "shield_xmlrpc_total"        "Requests refused with 429 because of `shield.xmlrpc`."
    ShieldSearch        Counter "shield_search_total"        "Requests refused with 429 because of `shield.search`."
    ShieldFilter        Counter "shield_filter_total"        "Requests refused with 429 because of `shield.filter`."
    ShieldCart          Counter "shield_cart_total"          "Requests refused with 429 because of `shield.cart`."
    ShieldUsers         Counter "shield_users_total"         "Requests refused with 429 because of `shield.users`."
    ShieldNotFound      Counter "shield_not_found_total"     "Requests of scanners refused with 429 because of `shield.not_found`."
    ShieldPhp           Counter "shield_php_total"           "Requests refused with 429 because of `shield.php`."
    ShieldAside         Counter "shield_aside_total"         "Requests run with low priority because their class had used up its share of PHP: `shield.share`."
    ShieldFull          Counter "shield_full_total"          "Requests refused with 503 because too many others of their class waited for the same: `shield.share`."
    ShieldWatched       Counter "shield_watched_total"       "Requests that would have been refused, or run with low priority, without `shield.mode = \"watch\"`."
    ShieldBanned        Counter "shield_banned_total"        "Requests refused with 403 because their address was banned or in a list."
    ShieldBans          Counter "shield_bans_total"          "Clients banned because of too many refusals."
    ShieldCrawlers      Counter "shield_crawlers_total"      "Requests for PHP of verified crawlers: `shield.crawlers`."
    ShieldFalseCrawlers Counter "shield_false_crawlers_total" "Requests for PHP of clients that claimed to be a crawler, from another address."
    HtaccessBeside      Counter "htaccess_beside_total"      "Evaluations of costly `.htaccess` rules on threads beside the event loops."
    SqlLooks            Counter "sql_looks_total"            "Looks at the databases of WordPress sites for changes by plain SQL."
    SqlChanges          Counter "sql_changes_total"          "Rows that plain SQL has changed, and that have purged pages."
    CodeChanges         Counter "code_changes_total"         "Looks at the PHP files of sites that have found changes, for which pages were purged."
    CacheRefills        Counter "cache_refills_total"        "Popular pages refreshed before a visitor requested them."
    CacheWaitTimeouts   Counter "cache_wait_timeouts_total"  "Requests that timed out while they waited for a page to be generated."
    ProxyRequests       Counter "proxy_requests_total"       "Requests passed to applications: `[[site.proxy]]`."
    ProxyConnections    Counter "proxy_connections_total"    "Connections made to applications."
    ProxySwitched       Counter "proxy_switched_total"       "Connections to applications that switched to WebSocket or another protocol."
    ProxyTunnels        Gauge   "proxy_tunnels"              "Such connections that are open."
    ProxyRetried        Counter "proxy_retried_total"        "Requests to applications that were tried again because a connection could not be made or broke."
    ProxyFailures       Counter "proxy_failures_total"       "Requests to applications that failed: answered with 502, or broken off in the middle of the response."
    ProxyTimeouts       Counter "proxy_timeouts_total"       "Requests answered with 504 because an application took too long: `proxy.response_timeout`, `proxy.connect_timeout`."
    PhpRequests         Counter "php_requests_total"         "Requests passed to PHP."
    PhpFailures         Counter "php_failures_total"         "PHP runs that ended in a fatal error, without timeouts."
    PhpLost             Counter "php_lost_total"             "PHP runs lost because their worker died."
    PhpRetried          Counter "php_retried_total"          "Requests retried because their worker died before it sent anything."
    PhpQueueFull        Counter "php_queue_full_total"       "Requests refused because the queue for a PHP worker was full."
    PhpQueueTimeouts    Counter "php_queue_timeouts_total"   "Requests refused because they waited too long for a PHP worker."
    PhpSpooled          Counter "php_spooled_total"          "PHP responses spooled in part to disk because their client was slow."
    PhpSpoolBytes       Gauge   "php_spool_bytes"            "Disk space used by spooled PHP responses."
    PhpCompressed       Counter "php_compressed_total"       "Uncached PHP responses compressed while being sent."
    PhpUnbooted         Counter "php_unbooted_total"         "Requests refused because the site's worker script failed to boot."
    PhpGone             Counter "php_gone_total"             "Requests whose client disconnected before a PHP worker was free."
    PhpTimeouts         Counter "php_timeouts_total"         "PHP runs terminated because they took too long: `php.request_timeout`."
    PhpSlow             Counter "php_slow_total"             "PHP runs logged as slow (`php.slow_log`), or as close to their time limit."
    PhpCrashRefused     Counter "php_crash_refused_total"    "Requests answered with 500 without running them, because the same request killed PHP workers before."
    PhpCrashLimited     Counter "php_crash_limited_total"    "Requests run only a few at a time because requests for the same page killed PHP workers."
    PhpCrashCrowd       Counter "php_crash_crowd_total"      "Requests answered with 503 because too many waited for a page that killed PHP workers."
    PhpOverload         Counter "php_overload_refused_total" "Requests refused by admission control because they would wait longer than `php.queue_wait`."
    PhpWaitingRoom      Counter "php_waiting_room_total"     "Waiting room pages sent to browsers instead of a plain 503."
    FastCgiConnections  Counter "fastcgi_connections_total"  "Connections opened to php-fpm."
    FastCgiFailures     Counter "fastcgi_failures_total"     "Connections to php-fpm that could not be opened, or failed during a request."
    LogDropped          Counter "log_lines_dropped_total"    "Access log lines dropped because the disk was too slow."
}

macro_rules! rows {
    ($($name:ident = $kind:ident $text:literal $help:literal)*) => {
        $(#[doc = $help] pub const $name: Row = Row { name: $text, kind: MetricKind::$kind, help: $help };)*

        /// Metrics without a slot: measured on request, or with labels.
        pub const MEASURED: &[Row] = &[$($name),*];
    };
}

rows! {
    BUILD = Gauge "build_info" "Always 1; the label `version` is the version of Millrace."
    STARTED = Gauge "start_time_seconds" "Start time of the server, in seconds since 1970."
    LOOPS_HUNG = Gauge "event_loops_hung" "Event loops that have not gone round for 5 s, without the time in which they waited for a processor."
    MEMORY = Gauge "resident_memory_bytes" "Resident memory of the server process, without PHP."
    CPU = Counter "cpu_seconds_total" "CPU time of the server process, user and system, without PHP."
    DESCRIPTORS = Gauge "open_descriptors" "Open file descriptors of the server process."
    DESCRIPTOR_LIMIT = Gauge "descriptor_limit" "Maximum number of open file descriptors of the server process."
    CONNECTION_MEMORY = Gauge "connection_memory_bytes" "Memory used by connections, including the kernel's buffers."
    CONNECTION_BUDGET = Gauge "connection_budget_bytes" "Memory that connections may use: `server.connection_memory`, or less while the machine has less; 0: no limit."
    LISTEN_OVERFLOWS = Counter "listen_overflows_total" "Connections lost because a listen queue was full: of all programs on the machine, since boot."
    LISTEN_DROPS = Counter "listen_drops_total" "Connections lost before they were accepted, for any reason, such as full listen queues or lack of memory: of all programs on the machine, since boot."
    CERTIFICATE_ENDS = Gauge "certificate_end_seconds" "Expiry time of a certificate, in seconds since 1970, by `name` (the first name in it), and by `file` unless it is obtained by ACME; 0: no certificate yet."
    CERTIFICATES_ISSUED = Counter "certificates_issued_total" "Certificates obtained by ACME, by `name`."
    CERTIFICATES_FAILED = Counter "certificates_failed_total" "Failed attempts to obtain a certificate by ACME, by `name`."
    PHP_WORKERS = Gauge "php_workers" "PHP workers, by `site` (the first one, where sites share their workers) and `state`."
    PHP_WORKERS_MOST = Gauge "php_workers_most" "Maximum number of PHP workers, by `site`."
    PHP_WAITING = Gauge "php_waiting" "Requests that wait for a PHP worker, by `site`."
    PHP_MEMORY = Gauge "php_memory_bytes" "Resident memory of the PHP workers, by `site`; memory that they share counts for each worker."
    PHP_REWIND_IMAGES = Gauge "php_rewind_images" "Images of rewound workers, by `site`."
    PHP_REWIND_MADE = Counter "php_rewind_images_made_total" "Images that rewound workers made since the PHP host started, by `site`."
    PHP_REWIND_REQUESTS = Counter "php_rewind_requests_total" "Requests that began in an image, by `site`."
    PHP_REWIND_ORDINARY = Counter "php_rewind_ordinary_total" "Requests that rewound workers ran the ordinary way, by `site` and `reason`: method (or content), no_image, old, key (another one), left (by the script), no_point, refused, compared (run both ways), off (switched off after a comparison)."
    PHP_REWIND_COMPARED = Counter "php_rewind_compared_total" "Requests that php.rewind = auto has run both ways to compare the responses, by `site` and `outcome`: same, unsure (ordinary ones differ, too), different."
    PHP_REWIND_PUT = Counter "php_rewind_put_back_total" "How often rewound workers have put their memory back, by `site`."
    PHP_REWIND_PUT_SECONDS = Counter "php_rewind_put_back_seconds_total" "Time that rewound workers spent on putting their memory back, by `site`."
    PHP_REWIND_PUT_PAGES = Counter "php_rewind_put_back_pages_total" "Pages of memory that rewound workers have put back, by `site`."
    PHP_REWIND_ENDED = Counter "php_rewind_ended_total" "Rewound workers that ended because their memory could not be put back, by `site`."
    PHP_POOL_RUNNING = Gauge "php_pool_running" "PHP workers that run a request of the pool, by `site` and `pool` (front, admin, background, or your own)."
    PHP_POOL_LIMIT = Gauge "php_pool_limit" "Maximum number of PHP workers for the pool, including those that it may borrow, by `site` and `pool`."
    PHP_POOL_WAITING = Gauge "php_pool_waiting" "Requests in the pool's queue, by `site` and `pool`."
    PHP_POOL_EXPECTED_WAIT = Gauge "php_pool_expected_wait_seconds" "Estimated time that a new request would wait for a PHP worker, by `site` and `pool`."
    PHP_POOL_WAITING_ROOM = Gauge "php_pool_waiting_room" "Browsers in the waiting room, by `site` and `pool`."
    PHP_POOL_SERVED = Counter "php_pool_served_total" "Requests that got a PHP worker, by `site` and `pool`."
    PHP_POOL_REFUSED = Counter "php_pool_refused_total" "Requests refused on arrival, by `site` and `pool`."
    PHP_POOL_LATE = Counter "php_pool_late_total" "Requests refused because they waited too long, by `site` and `pool`."
    CACHE_PAGES = Gauge "cache_pages" "Pages in the page cache; each variant counts."
    CACHE_BYTES = Gauge "cache_bytes" "Memory used by the page cache, including indexes and tags."
    CACHE_OVERHEAD = Gauge "cache_overhead_bytes" "Memory used by the indexes and tags of the page cache."
    CACHE_BUDGET = Gauge "cache_budget_bytes" "Maximum memory of the page cache."
    CACHE_TAGS = Gauge "cache_tags" "Distinct tags of the pages in the page cache."
    CACHE_MARKS = Gauge "cache_uncacheable" "Pages that the page cache remembers as uncacheable."
    CACHE_EVICTED = Counter "cache_evicted_total" "Pages and uncacheable marks evicted from the page cache to make room."
    CACHE_SLIMMED = Counter "cache_slimmed_total" "Pages whose uncompressed content was evicted from the page cache to make room."
    CACHE_EXPIRED = Counter "cache_expired_total" "Pages and uncacheable marks removed from the page cache because they expired."
    VISITORS = Gauge "visitors" "Known visitor cookies, by `kind`: login, cart (and PHP sessions), other (cookies that mean nothing, and similar)."
    VISITORS_EVICTED = Counter "visitors_evicted_total" "Known visitor cookies evicted to make room for others."
    CACHE_PURGES = Counter "cache_purges_total" "Purges, from scripts, HTTP requests and the command line."
    CACHE_PURGED = Counter "cache_purged_pages_total" "Pages purged."
    CACHE_DISK_BYTES = Gauge "cache_disk_bytes" "Disk space used by the page cache, including pages that have been replaced."
    CACHE_DISK_WRITTEN = Counter "cache_disk_written_total" "Pages written to disk."
    CACHE_DISK_DROPPED = Counter "cache_disk_dropped_total" "Pages not written to disk because it was full or slow."
    CACHE_DISK_LOADED = Counter "cache_disk_loaded_total" "Pages read from disk at startup."
    OBJECTS = Gauge "objects" "Objects in the object cache, by `site`."
    OBJECT_BYTES = Gauge "objects_bytes" "Memory used by the object cache, by `site`."
    OBJECT_CONNECTIONS = Gauge "objects_connections" "Open connections of the object cache, by `site`."
    OBJECT_CONNECTIONS_REFUSED = Counter "objects_connections_refused_total" "Connections to the object cache that were refused: of a user that is not the site's, or too many; by `site`."
    OBJECT_ROUND_TRIPS = Counter "objects_round_trips_total" "Frames of operations that the object cache has answered, by `site`."
    OBJECT_LOOKUPS = Counter "objects_lookups_total" "Lookups in the object cache, by `site`."
    OBJECT_HITS = Counter "objects_hits_total" "Lookups that found an object, by `site`."
    OBJECT_STORED = Counter "objects_stored_total" "Objects stored in the object cache, by `site`."
    OBJECT_REFUSED = Counter "objects_refused_total" "Objects refused because their key had changed since the client read it, by `site`."
    OBJECT_DELETED = Counter "objects_deleted_total" "Deletions in the object cache, by `site`."
    OBJECT_FLUSHES = Counter "objects_flushes_total" "Flushes of the object cache or of one of its groups, by `site`."
    OBJECT_LOST = Counter "objects_lost_total" "How often all objects of the site were forgotten because a process could not report a change, by `site`."
    OBJECT_EVICTED = Counter "objects_evicted_total" "Objects evicted from the object cache to make room, by `site`."
    OBJECT_SERVER_UP = Gauge "objects_server_up" "1 if the Redis or memcached server that has the objects has answered the last request, by `site`; only of sites whose objects are on one."
    OBJECT_SERVER_KEYS = Gauge "objects_server_keys" "Keys on that server, those of others included, by `site`."
    OBJECT_SERVER_BYTES = Gauge "objects_server_bytes" "Memory that a memcached server uses for items, by `site`."
    OBJECT_SERVER_LIMIT = Gauge "objects_server_limit_bytes" "Memory that a memcached server may use for items, by `site`."
    OBJECT_SERVER_EVICTED = Counter "objects_server_evicted_total" "Items that a memcached server has evicted to make room, since its start, by `site`."
    OBJECT_SERVER_LOOKUPS = Counter "objects_server_lookups_total" "Lookups that a memcached server has answered, those of others included, by `site`."
    OBJECT_SERVER_HITS = Counter "objects_server_hits_total" "Lookups that found something there, by `site`."
    SITE_REQUESTS = Counter "site_requests_total" "Answered requests, by `site` and `status`: 2xx, 3xx, 4xx, 5xx. Of more than 512 sites the later ones are counted together as other, here and in the other metrics of sites."
    SITE_SENT_BYTES = Counter "site_sent_bytes_total" "Bytes of content sent, by `site`."
    SITE_CACHE = Counter "site_cache_requests_total" "Requests for pages, by `site` and `outcome`: hit (answered by the page cache at once), miss (there was no page: PHP made it), bypass."
    SITE_PHP_REQUESTS = Counter "site_php_requests_total" "Requests for which PHP ran, by `site`."
    SITE_PHP_SECONDS = Counter "site_php_seconds_total" "Time until PHP began its responses, including the wait for a worker, by `site`."
    CACHE_BYPASS = Counter "cache_bypass_reasons_total" "Requests that bypassed the page cache, by `reason`."
    CACHE_SITE_BYPASS = Counter "cache_site_bypass_reasons_total" "Requests that bypassed the page cache, by `site` and `reason`; uncacheable: the page is known to be uncacheable."
    CACHE_SITE_REFUSED = Counter "cache_site_refusal_reasons_total" "Responses of PHP that could not be stored in the page cache, by `site` and `reason`: set-cookie, private, no-store and so on."
    FIRST_BYTE = Histogram "first_byte_seconds" "Time from the end of a request's header section to the first byte of its response, by `class`: file, php, page, proxy, other."
    ANSWER = Histogram "answer_seconds" "Time from the end of a request's header section to the last byte of its response, by `class`: file, php, page, proxy, other."
}
