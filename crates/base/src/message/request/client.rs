//! The identity of a client by its certificate.

use std::sync::Arc;

/// A client that was asked for a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertifiedClient {
    /// The policy by which certificates on its connection are checked: the same number means the same authorities and
    /// the same strictness.
    pub policy: u64,
    /// The client's certificate; `None`: it has none, and need not have one.
    pub certificate: Option<Arc<Certificate>>,
}

/// A certificate that has been checked, in the format of Apache and nginx.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// `CN=Ann,O=Example`, as RFC 2253 writes it: `SSL_CLIENT_S_DN`.
    pub subject: String,
    /// The same for its issuer: `SSL_CLIENT_I_DN`.
    pub issuer: String,
    /// Hexadecimal: `SSL_CLIENT_M_SERIAL`.
    pub serial: String,
    /// `Nov 22 06:00:00 2026 GMT`: `SSL_CLIENT_V_START`.
    pub start: String,
    /// `SSL_CLIENT_V_END`.
    pub end: String,
    /// In PEM: `SSL_CLIENT_CERT`.
    pub pem: String,
}

impl CertifiedClient {
    /// The variables for scripts, by name.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let verdict = if self.certificate.is_some() { "SUCCESS" } else { "NONE" };
        let shown = self.certificate.iter().flat_map(|certificate| {
            [
                ("SSL_CLIENT_S_DN", &*certificate.subject),
                ("SSL_CLIENT_I_DN", &certificate.issuer),
                ("SSL_CLIENT_M_SERIAL", &certificate.serial),
                ("SSL_CLIENT_V_START", &certificate.start),
                ("SSL_CLIENT_V_END", &certificate.end),
                ("SSL_CLIENT_CERT", &certificate.pem),
            ]
        });
        std::iter::once(("SSL_CLIENT_VERIFY", verdict)).chain(shown)
    }
}
