//! The table of counters. A row is all there is to a counter: from it come the slot, the Prometheus text, the status
//! in JSON and the page `docs/counters.md`. To add one: a row here, a call of [`super::Slot::add`] where it happens,
//! and `MILLRACE_UPDATE=1 cargo test -p millrace-server counters_page`.

/// What a value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How long something took: buckets, sum and count.
    Histogram,
}

impl Kind {
    /// As Prometheus calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name in Prometheus text, with the `millrace_` prefix left out.
    pub name: &'static str,
    /// What the value means.
    pub kind: Kind,
    /// One sentence.
    pub help: &'static str,
}

macro_rules! table {
    ($($variant:ident $kind:ident $name:literal $help:literal)*) => {
        /// A counter of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter { $(#[doc = $help] $variant),* }

        /// Every counter, in the order of [`Counter`].
        pub const TABLE: &[Row] = &[$(Row { name: $name, kind: Kind::$kind, help: $help }),*];

        /// Every counter.
        pub const ALL: &[Counter] = &[$(Counter::$variant),*];
    };
}

table! {
    ConnectionsAccepted Counter "connections_accepted_total" "Client connections accepted."
    ConnectionsRefused  Counter "connections_refused_total"  "Client connections closed at once because a limit was reached."
    ConnectionsPassed   Counter "connections_passed_total"   "Connections passed on from an event loop that only holds them to one that runs PHP."
    ConnectionsGaveWay  Counter "connections_gave_way_total" "Idle connections closed to make room for others: memory or descriptors were short."
    ConnectionsGuests   Counter "connections_guests_total"   "Connections answered 503, because the memory for connections was used up and none was idle."
    AcceptNoDescriptors Counter "accept_no_descriptors_total" "Times that a connection could not be accepted for want of descriptors."
    AcceptNoMemory      Counter "accept_no_memory_total"     "Times that a connection could not be accepted because the kernel had no memory."
    ListenDropped       Counter "listen_dropped_total"       "Attempts to connect that the kernel dropped because a queue of ours was full."
    ListenWaiting       Gauge   "listen_waiting"             "Connections that wait to be accepted."
    ConnectionsIdle     Gauge   "connections_idle"           "Open connections that wait for a request."
    ConnectionsReading  Gauge   "connections_reading"        "Connections in the middle of a request's head or content."
    ConnectionsRunning  Gauge   "connections_running"        "Connections whose request is being answered."
    ConnectionsWriting  Gauge   "connections_writing"        "Connections whose client is slower than the answer."
    ConnectionsShaking  Gauge   "connections_handshaking"    "Connections in the middle of a TLS handshake."
    ConnectionsTls      Gauge   "connections_tls"            "Open connections that are encrypted, but for handshakes."
    ConnectionsH2       Gauge   "connections_h2"             "Open connections of HTTP/2."
    AwaitPhp            Gauge   "requests_await_php"         "Requests that wait for PHP: for a worker, or for its answer."
    ConnectionsTimedOut Counter "connections_timed_out_total" "Connections ended by a time-out."
    TlsHandshakes       Counter "tls_handshakes_total"       "Whole handshakes of TLS."
    TlsResumed          Counter "tls_resumed_total"          "Handshakes of clients that had been here before."
    TlsFailures         Counter "tls_failures_total"         "Handshakes that failed, or that the client gave up."
    TlsEarly            Counter "tls_early_total"            "Connections with requests that came before the handshake was over."
    TlsTimeouts         Counter "tls_timeouts_total"         "Handshakes that took too long."
    TlsKernel           Counter "tls_kernel_total"           "Connections whose records the kernel has taken over, for a large file: `https.kernel_tls`."
    H2Connections       Counter "h2_connections_total"       "Connections of HTTP/2."
    H2Requests          Counter "h2_requests_total"          "Requests that came by HTTP/2."
    H2Resets            Counter "h2_resets_total"            "Requests of HTTP/2 that their client cancelled."
    H2Refused           Counter "h2_errors_total"            "Connections of HTTP/2 ended because the client broke its rules."
    H2FloodFrames       Counter "h2_flood_frames_total"      "Connections of HTTP/2 ended because of too many frames without use: `http.h2_frames`."
    H2FloodResets       Counter "h2_flood_resets_total"      "Connections of HTTP/2 ended because of too many cancelled requests: `http.h2_resets`."
    H2FloodHeads        Counter "h2_flood_heads_total"       "Connections of HTTP/2 ended because of heads without end, or other floods that the protocol's library sees."
    H2Misdirected       Counter "h2_misdirected_total"       "Requests answered 421: their host is not of the connection's certificate."
    Requests            Counter "requests_total"             "Requests answered."
    RequestsMalformed   Counter "requests_malformed_total"   "Requests refused because they break HTTP."
    Replies2xx          Counter "replies_2xx_total"          "Answers with status 200-299."
    Replies3xx          Counter "replies_3xx_total"          "Answers with status 300-399."
    Replies4xx          Counter "replies_4xx_total"          "Answers with status 400-499."
    Replies5xx          Counter "replies_5xx_total"          "Answers with status 500-599."
    EarlyHints          Counter "early_hints_total"          "Interim answers 103 sent."
    Uploads             Counter "uploads_total"              "Requests whose content was too large for memory and went to disk."
    BytesReceived       Counter "received_bytes_total"       "Bytes read from clients."
    BytesSent           Counter "sent_bytes_total"           "Bytes written to clients."
    FileHits            Counter "file_cache_hits_total"      "Look-ups answered by the open-file cache."
    FileMisses          Counter "file_cache_misses_total"    "Look-ups that went to the file system."
    FileBytes           Gauge   "file_cache_bytes"           "Bytes that the open-file caches hold."
    FileEntries         Gauge   "file_cache_entries"         "Entries of the open-file caches."
    CacheHits           Counter "cache_hits_total"           "Requests answered from a fresh page of the page cache."
    CacheStale          Counter "cache_stale_total"          "Requests answered from a stale page: while a new one was made, or because PHP failed."
    CacheMisses         Counter "cache_misses_total"         "Requests for which a page was made."
    CacheCollapsed      Counter "cache_collapsed_total"      "Requests that waited for a page which was being made for another one."
    CacheBypassed       Counter "cache_bypassed_total"       "Requests that went to PHP because of what they are: their method, a cookie, a path."
    CachePassed         Counter "cache_passed_total"         "Requests that went to PHP because their page is known to be uncacheable."
    CacheFills          Counter "cache_fills_total"          "PHP runs for the page cache."
    CacheFillsFailed    Counter "cache_fills_failed_total"   "PHP runs for the page cache that ended in an error."
    VisitorsProven      Counter "visitors_proven_total"      "Runs of PHP for visitors who were known to be logged in, to have a cart or a session."
    VisitorsUnproven    Counter "visitors_unproven_total"    "Runs of PHP for visitors with cookies that PHP had not seen yet, or does not any more."
    VisitorsAnonymous   Counter "visitors_anonymous_total"   "Requests whose cookies were known to mean nothing, so that the page cache was asked."
    CacheRefills        Counter "cache_refills_total"        "Pages made anew before anybody asked, because they were wanted often."
    CacheWaitTimeouts   Counter "cache_wait_timeouts_total"  "Requests that waited too long for a page to be made."
    PhpRequests         Counter "php_requests_total"         "Requests handed to a PHP worker."
    PhpFailures         Counter "php_failures_total"         "PHP runs that ended in a fatal error, those that took too long left out."
    PhpLost             Counter "php_lost_total"             "PHP runs whose worker died."
    PhpRetried          Counter "php_retried_total"          "Requests run again because their worker died before it sent anything."
    PhpQueueFull        Counter "php_queue_full_total"       "Requests refused because too many waited for a worker."
    PhpQueueTimeouts    Counter "php_queue_timeouts_total"   "Requests refused because they waited too long for a worker."
    PhpSpooled          Counter "php_spooled_total"          "Answers of PHP of which a part went to disk, because their client was slow."
    PhpSpoolBytes       Gauge   "php_spool_bytes"            "Disk space that such answers take."
    PhpCompressed       Counter "php_compressed_total"       "Answers of PHP that were compressed on their way, as the page cache does not keep them."
    PhpUnbooted         Counter "php_unbooted_total"         "Requests refused because the site's worker script does not boot."
    PhpGone             Counter "php_gone_total"             "Requests whose client had gone before a PHP worker took them."
    PhpTimeouts         Counter "php_timeouts_total"         "PHP runs ended because they took too long."
    PhpSlow             Counter "php_slow_total"             "PHP runs that the error log has noted as slow: `php.slow_log`, and those near their time-out."
    PhpCrashRefused     Counter "php_crash_refused_total"    "Requests answered 500 because they had killed their workers before."
    PhpCrashLimited     Counter "php_crash_limited_total"    "Requests that ran as one of a few at a time, because others of their page had killed workers."
    PhpCrashCrowd       Counter "php_crash_crowd_total"      "Requests answered 503 because too many waited for their turn on a page that had killed workers."
    PhpOverload         Counter "php_overload_refused_total" "Requests refused because they would have waited longer than php.queue_wait."
    PhpWaitingRoom      Counter "php_waiting_room_total"     "Pages of the waiting room sent to browsers, instead of a plain 503."
    FastCgiConnections  Counter "fastcgi_connections_total"  "Connections made to php-fpm."
    FastCgiFailures     Counter "fastcgi_failures_total"     "Connections to php-fpm that could not be made, or failed while a request ran."
    LogDropped          Counter "log_lines_dropped_total"    "Access log lines dropped because the disk could not keep up."
}

macro_rules! rows {
    ($($name:ident = $kind:ident $text:literal $help:literal)*) => {
        $(#[doc = $help] pub const $name: Row = Row { name: $text, kind: Kind::$kind, help: $help };)*

        /// What is not counted in a slot: it is measured when somebody asks, or has labels.
        pub const MEASURED: &[Row] = &[$($name),*];
    };
}

rows! {
    BUILD = Gauge "build_info" "Always 1; the label `version` says which Millrace this is."
    STARTED = Gauge "start_time_seconds" "When the server was started, seconds since 1970."
    MEMORY = Gauge "resident_memory_bytes" "Memory of the server's own process, without PHP."
    CPU = Counter "cpu_seconds_total" "Processor time of the server's own process, user and system."
    DESCRIPTORS = Gauge "open_descriptors" "Open file descriptors of the server's own process."
    DESCRIPTOR_LIMIT = Gauge "descriptor_limit" "Most file descriptors that the server may have open."
    CONNECTION_MEMORY = Gauge "connection_memory_bytes" "Memory that connections hold, the kernel's part included."
    CONNECTION_BUDGET = Gauge "connection_budget_bytes" "Memory that connections may hold: `server.connection_memory`, less while the machine has less; 0: no bound."
    LISTEN_OVERFLOWS = Counter "listen_overflows_total" "Connections that the kernel lost because a listening queue was full: of all programs, since boot."
    LISTEN_DROPS = Counter "listen_drops_total" "The same with those that it lost for other reasons before they were accepted, such as want of memory."
    CERTIFICATE_ENDS = Gauge "certificate_end_seconds" "When the certificate ends that an authority has issued, seconds since 1970, by `name`, the first in it; 0: there is none yet."
    CERTIFICATES_ISSUED = Counter "certificates_issued_total" "Certificates that an authority has issued, by `name`."
    CERTIFICATES_FAILED = Counter "certificates_failed_total" "Tries to get a certificate of an authority that failed, by `name`."
    PHP_WORKERS = Gauge "php_workers" "PHP workers, by `pool` and `state`."
    PHP_WORKERS_MOST = Gauge "php_workers_most" "Most PHP workers at once, by `pool`."
    PHP_WAITING = Gauge "php_waiting" "Requests that wait for a PHP worker, by `pool`."
    PHP_MEMORY = Gauge "php_memory_bytes" "Memory of the PHP workers together, by `pool`; pages they share are counted for each."
    PHP_DATABASE_KEPT = Gauge "php_database_kept" "Database connections that PHP workers keep for their next request, by `pool`."
    PHP_DATABASE_OPENED = Counter "php_database_opened_total" "Database connections that scripts have opened with mysqli since the PHP host was started, by `pool`."
    PHP_DATABASE_REUSED = Counter "php_database_reused_total" "Times that a script found a database connection that was kept, by `pool`."
    PHP_LANE_RUNNING = Gauge "php_lane_running" "PHP workers that run for a pool of a site, by `pool` and `lane` (front, admin, background)."
    PHP_LANE_LIMIT = Gauge "php_lane_limit" "Most PHP workers that may run for it, with those that it may borrow, by `pool` and `lane`."
    PHP_LANE_WAITING = Gauge "php_lane_waiting" "Requests that wait for a PHP worker, by `pool` and `lane`."
    PHP_LANE_EXPECTED_WAIT = Gauge "php_lane_expected_wait_seconds" "How long a visitor who came now would wait for a PHP worker, as estimated, by `pool` and `lane`."
    PHP_LANE_WAITING_ROOM = Gauge "php_lane_waiting_room" "Browsers that have a place in the waiting room, by `pool` and `lane`."
    PHP_LANE_SERVED = Counter "php_lane_served_total" "Requests that got a PHP worker, by `pool` and `lane`."
    PHP_LANE_REFUSED = Counter "php_lane_refused_total" "Requests that were refused at once, by `pool` and `lane`."
    PHP_LANE_LATE = Counter "php_lane_late_total" "Requests that were refused because they had waited too long, by `pool` and `lane`."
    CACHE_PAGES = Gauge "cache_pages" "Pages that the page cache holds, each variant counted."
    CACHE_BYTES = Gauge "cache_bytes" "Bytes that the page cache holds, indexes and tags included."
    CACHE_OVERHEAD = Gauge "cache_overhead_bytes" "Of these, bytes of indexes and tags."
    CACHE_BUDGET = Gauge "cache_budget_bytes" "Bytes that the page cache may hold."
    CACHE_TAGS = Gauge "cache_tags" "Different tags of the pages in the page cache."
    CACHE_MARKS = Gauge "cache_uncacheable" "Pages that are remembered as not to be kept."
    CACHE_EVICTED = Counter "cache_evicted_total" "Pages and marks that the page cache removed to make room."
    CACHE_SLIMMED = Counter "cache_slimmed_total" "Pages whose uncompressed content the page cache dropped to make room."
    CACHE_EXPIRED = Counter "cache_expired_total" "Pages and marks that the page cache removed because they were too old."
    VISITORS = Gauge "visitors" "Cookies that are known, by `kind`: login, cart (sessions of PHP, too), other (those that mean nothing, and the like)."
    VISITORS_EVICTED = Counter "visitors_evicted_total" "Cookies that were forgotten to make room for others."
    CACHE_PURGES = Counter "cache_purges_total" "Purges that were followed, of scripts, programs and people."
    CACHE_PURGED = Counter "cache_purged_pages_total" "Pages that purges met."
    CACHE_DISK_BYTES = Gauge "cache_disk_bytes" "Disk space of the pages that outlive a restart, and of what has replaced them."
    CACHE_DISK_WRITTEN = Counter "cache_disk_written_total" "Pages written to disk."
    CACHE_DISK_DROPPED = Counter "cache_disk_dropped_total" "Pages not written to disk, because it was full or slow."
    CACHE_DISK_LOADED = Counter "cache_disk_loaded_total" "Pages of earlier processes read from disk at the start."
    CACHE_BYPASS = Counter "cache_bypass_reasons_total" "Requests that went around the page cache, by `reason`."
    FIRST_BYTE = Histogram "first_byte_seconds" "From the end of a request's head to the first byte of its answer, by `class`: file, php, page, other."
    ANSWER = Histogram "answer_seconds" "From the end of a request's head to the last byte of its answer, by `class`: file, php, page, other."
}
