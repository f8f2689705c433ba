//! Errors of certificates and of TLS.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustls::pki_types::pem;
use rustls::server::VerifierBuilderError;
use x509_parser::error::X509Error;
use x509_parser::nom;

/// A certificate can't be used, or connections can't be encrypted as the configuration says. This happens at a start or
/// reload, when files have changed, and when a certificate authority is asked. A running server continues with what it
/// has; the user corrects the file that the text names.
#[derive(Debug)]
pub enum TlsError {
    /// The file of this kind (a certificate, its key), or something in it, can't be read.
    Unreadable(&'static str, PathBuf, pem::Error),
    /// The file contains no certificate in PEM.
    Empty(PathBuf),
    /// The two files of a certificate do not fit together.
    Files(PathBuf, PathBuf, Box<TlsError>),
    /// A text for a key with its certificate contains an invalid item of this kind.
    Text(&'static str, pem::Error),
    /// Such a text contains no certificate.
    EmptyText,
    /// The certificate's version is not 3 (RFC 5280).
    Version(webpki::Error),
    /// The certificate can't be parsed.
    Parts(nom::Err<X509Error>),
    /// The key belongs to another certificate.
    OtherKey,
    /// This kind of key is not supported.
    Key(rustls::Error),
    /// No self-signed certificate can be made for the names of the sites.
    SelfSigned(rcgen::Error),
    /// No certificate for an authority's challenge can be made for this name.
    Challenge(String, String),
    /// The file of the client certificates' authorities can't be used.
    Clients(PathBuf, ClientsError),
    /// The file of the authorities that the server trusts can't be read.
    TrustUnreadable(PathBuf, pem::Error),
    /// That file contains no usable certificate.
    TrustEmpty(PathBuf),
    /// The system has no file of trusted authorities.
    NoTrust,
    /// The machine's cryptography does not work.
    Cryptography(rustls::Error),
    /// The cryptography library makes no keys for session tickets.
    Tickets(rustls::Error),
}

/// Why the server refuses a client's handshake, if somebody can do something about it; the client learns only an alert.
pub fn refusal(error: &io::Error) -> Option<String> {
    use rustls::{Error, PeerMisbehaved};
    match error.get_ref()?.downcast_ref::<Error>()? {
        Error::PeerMisbehaved(PeerMisbehaved::ServerNameMustContainOneHostName) => Some(
            "the name that it asks for is not a valid host name: labels consist of letters, digits, hyphens and \
             underscores, and neither begin nor end with a hyphen"
                .to_owned(),
        ),
        Error::InvalidCertificate(why) => {
            let why = format!("{why:?}");
            let version = why.contains("UnsupportedCertVersion");
            let advice = if version { "; it must be an X.509 certificate of version 3" } else { "" };
            Some(format!("its certificate is not accepted ({why}){advice}"))
        }
        _ => None,
    }
}

/// An error of the file with the client certificates' authorities.
#[derive(Debug)]
pub enum ClientsError {
    /// It can't be read.
    Unreadable(pem::Error),
    /// A certificate in it is not an authority's.
    NoAuthority(rustls::Error),
    /// Its certificates can't be used to check clients.
    Unusable(VerifierBuilderError),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(what, file, error) => {
                write!(f, "cannot read the {what} {}: {error}", file.display())
            }
            Self::Empty(file) => {
                write!(f, "{} contains no certificate: it must be in PEM format", file.display())
            }
            Self::Files(certificate, key, why) => {
                write!(f, "{} and {}: {why}", certificate.display(), key.display())
            }
            Self::Text(what, error) => write!(f, "invalid {what} in PEM format: {error}"),
            Self::EmptyText => f.write_str("it contains no certificate"),
            Self::Version(error) => write!(f, "not an X.509 version 3 certificate: {error}"),
            Self::Parts(error) => write!(f, "cannot parse the certificate: {error}"),
            Self::OtherKey => f.write_str("the key does not match the certificate"),
            Self::Key(error) => error.fmt(f),
            Self::SelfSigned(error) => write!(f, "cannot create a self-signed certificate: {error}"),
            Self::Challenge(name, why) => {
                write!(f, "cannot create the certificate for the challenge of {name}: {why}")
            }
            Self::Clients(file, why) => {
                let file = file.display();
                match why {
                    ClientsError::Unreadable(error) => {
                        write!(f, "cannot read the certificate authorities for clients, {file}: {error}")
                    }
                    ClientsError::NoAuthority(error) => {
                        write!(f, "{file} contains no certificate of an authority: {error}")
                    }
                    ClientsError::Unusable(error) => write!(
                        f,
                        "cannot use {file}: {error}; it must contain certificates of authorities in PEM format"
                    ),
                }
            }
            Self::TrustUnreadable(file, error) => write!(f, "cannot read {}: {error}", file.display()),
            Self::TrustEmpty(file) => {
                write!(f, "{} contains no usable certificate: it must be in PEM format", file.display())
            }
            Self::NoTrust => f.write_str(
                "the system has no trusted certificate authorities: install the package ca-certificates",
            ),
            Self::Cryptography(error) => write!(f, "cannot set up TLS: {error}"),
            Self::Tickets(error) => write!(f, "cannot set up TLS: no keys for session tickets: {error}"),
        }
    }
}

impl std::error::Error for TlsError {}
