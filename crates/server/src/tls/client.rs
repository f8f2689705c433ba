//! The client's end of TLS: for requests to a certificate authority, where it blocks, and for applications.

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::OutgoingTls;
use super::certificates::read_pem;
use super::error::TlsError;
use super::terms;

/// HTTP/2 in a TLS handshake.
pub(super) const HTTP2: &[u8] = b"h2";

/// Files with the system's trusted certificates: on Debian and its derivatives, Fedora, SUSE, Alpine and BSD.
const SYSTEM: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The trusted certificate authorities.
#[derive(Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
    /// The same, and HTTP/2 is asked for (RFC 7301).
    http2: Arc<ClientConfig>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    /// The authorities in `file`; without a file, the authorities that the system trusts.
    ///
    /// # Errors
    /// There is no such file, or it has no certificate; with what to do.
    pub fn new(file: Option<&Path>) -> Result<Trust, TlsError> {
        let file = match file {
            Some(file) => file.to_owned(),
            None => system_certificates().ok_or(TlsError::NoTrust)?,
        };
        let mut roots = RootCertStore::empty();
        let text = read_pem(&file).map_err(|error| TlsError::TrustUnreadable(file.clone(), error))?;
        let all = CertificateDer::pem_slice_iter(&text);
        // Some certificates in a system's list are too old to be parsed: one is enough here.
        roots.add_parsable_certificates(all.filter_map(Result::ok));
        if roots.is_empty() {
            return Err(TlsError::TrustEmpty(file));
        }
        let builder = ClientConfig::builder_with_provider(terms::provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Cryptography)?;
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        let mut http2 = config.clone();
        http2.alpn_protocols = vec![HTTP2.to_vec()];
        Ok(Trust { config: Arc::new(config), http2: Arc::new(http2) })
    }

    /// Speaks TLS over `socket` with `host`, an IPv6 address without brackets. It blocks: not for event loops.
    ///
    /// # Errors
    /// `host` can't be a server's name. Errors of the server's certificate appear at the first read or write.
    pub fn connect(&self, host: &str, socket: TcpStream) -> io::Result<impl io::Read + io::Write + use<>> {
        Ok(StreamOwned::new(session(&self.config, host)?, socket))
    }

    /// The same for an event loop; the handshake is still to come. `http2`: HTTP/2 is asked for.
    ///
    /// # Errors
    /// `host` can't be a server's name.
    pub fn outgoing(
        &self,
        host: &str,
        socket: tokio::net::TcpStream,
        http2: bool,
    ) -> io::Result<OutgoingTls> {
        let config = if http2 { &self.http2 } else { &self.config };
        Ok(OutgoingTls::new(session(config, host)?, socket))
    }
}

fn session(config: &Arc<ClientConfig>, host: &str) -> io::Result<ClientConnection> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    ClientConnection::new(config.clone(), name).map_err(io::Error::other)
}

/// The file of the certificates that the system trusts, or the one that `SSL_CERT_FILE` names.
pub fn system_certificates() -> Option<PathBuf> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    named.into_iter().chain(SYSTEM.iter().map(PathBuf::from)).find(|file| file.is_file())
}
