//! Settings of earlier versions. A configuration that still has one loads, and a warning says why it has no effect any more.

/// The key, and why it has gone.
pub(crate) static GONE: &[(&str, &str)] = &[
    (
        "php.keep_database_connections",
        "PHP connects for each request, as under php-fpm, which costs next to nothing over a Unix socket; for a database on \
         another machine, a proxy for SQL such as ProxySQL beside the server keeps connections open",
    ),
    (
        "tls.ocsp",
        "OCSP responses are not stapled any more, since authorities end OCSP and browsers use lists of revoked certificates; \
     a certificate with \"must-staple\" has to be issued anew without it",
    ),
];
