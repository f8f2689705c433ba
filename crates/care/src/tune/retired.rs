//! Rows of the sources that need no setting any more, with the reason.

/// What the sources set, and why it is no row of the table.
pub const RETIRED: &[(&str, &str)] = &[
    (
        "one event loop a core, epoll, accept many at once, TCP_NODELAY, cork/push, sendfile, reset of timed-out connections",
        "Millrace does all of it without a setting; `server.threads` follows the cores",
    ),
    (
        "header buffers of 2 KB; timeouts: body 10 s, header 10 s, send 2 s",
        "an idle connection owns no buffer; `http.head_timeout`, `http.body_timeout` and `http.send_timeout` have defaults, and 2 s would cut off phones",
    ),
    (
        "body limit 50 MB; post_max_size 64M, upload_max_filesize 50M",
        "`http.body_bytes` is 64 MB, and PHP's two limits follow it; rows above set them for php-fpm and nginx",
    ),
    (
        "gzip of text types from 1,100 bytes",
        "default (`files.compress_from`); pages are compressed once, when they are cached; rows above set it for nginx",
    ),
    (
        "cache of open files: 10,000, revalidated after 30 s, errors too",
        "default (`files.cache_entries`, `files.revalidate` 1 s); a missing file costs one look and hides no new file; rows above set it for nginx",
    ),
    (
        "long expiry for images, fonts, css and js",
        "default (`files.expires`); nginx needs it in the block of each site",
    ),
    (
        "page cache and microcache: bypass, keys, 30 s, stale while updating and on error",
        "the application's profile and `cache.*`; see cache.md. For nginx it would change what visitors see, and belongs into the block of each site",
    ),
    (
        "PHP pool: 8 at start, recycled after 500 requests, idle ones ended after 10 s",
        "defaults: Millrace starts one worker per core, and further ones within milliseconds; workers are recycled after 10,000 requests or beyond `php.worker_memory`; ended after 60 s. Rows above set it for php-fpm, whose processes stay, because the budget has their memory",
    ),
    ("realpath cache", "4096K is PHP's default; the doctor reports smaller ones (php-realpath)"),
    (
        "times of scripts (opcache.validate_timestamps, opcache.revalidate_freq)",
        "PHP looks at a script's time every 2 s; less often, an update would run together with the old scripts",
    ),
    (
        "connections that stay open between nginx and php-fpm",
        "belong into the `upstream` of each site; each would hold a process of php-fpm while nothing is asked",
    ),
    (
        "APCu and memcached",
        "`object_cache.memory` above; `millrace object-cache enable` makes WordPress use it",
    ),
    (
        "256, 512, 1,536 Apache processes",
        "a connection needs no process; `server.connection_memory` bounds connections, `php.workers` PHP",
    ),
    (
        "2 to 4 to 48 GB of memory, 120 to 250 Mbit/s to 4 Gbit/s",
        "what must be bought can't be set; the doctor says when it is needed (memory-low)",
    ),
    (
        "packet filter off",
        "a server on the Internet needs it; a larger table (nf_conntrack_max) has the same effect",
    ),
    (
        "network card pinned to 1 Gbit full duplex",
        "autonegotiation is part of the standard of 1000BASE-T; pinning one side causes collisions",
    ),
    (
        "innodb_buffer_pool_size: half of memory",
        "up to half, after PHP, caches and connections have their parts of the budget",
    ),
    (
        "query cache 128M, 32M",
        "the row query_cache_size sets 0: Millrace's caches do its work without its lock",
    ),
    ("thread_cache_size 16", "set for MySQL only; MariaDB's default is higher"),
    ("notsent_lowat 131072 (tuned)", "Millrace sets it for each of its sockets"),
    (
        "connection pooling to MySQL",
        "a kept connection would save 0.02 % of a page over a Unix socket; max_connections follows the workers",
    ),
];
