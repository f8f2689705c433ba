//! Settings of earlier versions. A configuration that still has one loads, and a warning says why it has no effect any more.

/// The key, and why it has gone.
pub(crate) static GONE: &[(&str, &str)] = &[(
    "tls.ocsp",
    "OCSP responses are not stapled any more, since authorities end OCSP and browsers use lists of revoked certificates; \
     a certificate with \"must-staple\" has to be issued anew without it",
)];
