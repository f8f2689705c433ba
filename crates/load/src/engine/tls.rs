//! TLS of the tester. Certificates are not checked unless requested: the tested server is usually one's own, often
//! with a temporary certificate, and checking costs the tester, not the server.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::plan::Certificates;

/// How connections are encrypted; one per thread, so that no lock is shared.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Why connections can't be encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoTls {
    /// No certificate can be for this host.
    Host,
    /// The file of trusted certificates can't be read.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's error.
        why: String,
    },
    /// There is no usable certificate in the file.
    NoCertificate(PathBuf),
    /// rustls rejects the input, with its message.
    Refused(String),
}

impl fmt::Display for NoTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoTls::Host => f.write_str("the host name is not a DNS name"),
            NoTls::Unreadable { file, why } => write!(f, "cannot read {}: {why}", file.display()),
            NoTls::NoCertificate(file) => {
                write!(f, "{} contains no usable certificate: it must be in PEM format", file.display())
            }
            NoTls::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NoTls {}

impl Tls {
    /// To the server of this name: by HTTP/2 or not, with sessions resumed or not.
    ///
    /// # Errors
    /// The name can't be in a certificate, or there are none that are trusted.
    pub fn new(host: &str, http2: bool, resumption: bool, certificates: &Certificates) -> Result<Tls, NoTls> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let name = ServerName::try_from(host.to_owned()).map_err(|_| NoTls::Host)?;
        let mut config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| NoTls::Refused(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier(provider, certificates)?)
            .with_no_client_auth();
        config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        config.resumption =
            if resumption { Resumption::in_memory_sessions(64) } else { Resumption::disabled() };
        Ok(Tls { config: Arc::new(config), name })
    }

    /// For a new connection.
    ///
    /// # Errors
    /// rustls has no memory or randomness for it.
    pub fn connect(&self) -> Result<Box<ClientConnection>, Error> {
        ClientConnection::new(self.config.clone(), self.name.clone()).map(Box::new)
    }
}

fn verifier(
    provider: Arc<CryptoProvider>,
    certificates: &Certificates,
) -> Result<Arc<dyn ServerCertVerifier>, NoTls> {
    let file = match certificates {
        Certificates::Any => return Ok(Arc::new(Anybody(provider))),
        Certificates::TrustedBy(file) => file,
    };
    let mut roots = RootCertStore::empty();
    let all = CertificateDer::pem_file_iter(file)
        .map_err(|error| NoTls::Unreadable { file: file.clone(), why: error.to_string() })?;
    // A system's list has some that are too old to be understood.
    roots.add_parsable_certificates(all.filter_map(Result::ok));
    if roots.is_empty() {
        return Err(NoTls::NoCertificate(file.clone()));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier
        .map(|verifier| verifier as Arc<dyn ServerCertVerifier>)
        .map_err(|error| NoTls::Refused(error.to_string()))
}

/// Takes any certificate, but checks that the server has its key: the work of a handshake is done in full.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_way_of_tls_is_said() {
        let new = |host, certificates| Tls::new(host, false, true, &certificates).map(|_| ());
        let file = |path: &str| Certificates::TrustedBy(path.into());
        assert_eq!(new("a.test", Certificates::Any), Ok(()));
        assert_eq!(new("a b", Certificates::Any), Err(NoTls::Host));
        assert!(matches!(new("a.test", file("/nowhere")), Err(NoTls::Unreadable { .. })));
        assert_eq!(new("a.test", file("/dev/null")), Err(NoTls::NoCertificate("/dev/null".into())));
    }
}
